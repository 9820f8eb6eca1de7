"""Online learning: randomized decoding, the constants of its bounds, step rules, the learner, and its regret."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

import fenchel
from fenchel.costs import Absolute, AffineCost, CostMatrix, Disagreements, Hamming, Scaled, Spearman, Weighted, ZeroOne
from fenchel.decoders import AlwaysRandom, Nearest, Randomized, UniformExploration
from fenchel.errors import IncompatiblePair, InvalidInput
from fenchel.experiments.lower_bound import adversary, forced_regret
from fenchel.losses import FenchelYoung, Hinge, SmoothHinge
from fenchel.online import (
    AdaptiveStep,
    ConstantStep,
    Learner,
    OnlineToBatch,
    ParameterFree,
    RegretTracker,
    constants_of,
)
from fenchel.online.constants import cost_slope
from fenchel.structures import (
    Arborescence,
    Birkhoff,
    Budget,
    Chain,
    Cube,
    DependencyTree,
    LinearOrdering,
    Matching,
    Oracle,
    OrderSimplex,
    Permutahedron,
    Product,
    Reals,
    Simplex,
    SpanningTree,
)
from fenchel.structures.examples import example_argmax

PAIRS = [
    (Simplex(2), "kl", ZeroOne()),
    (Simplex(5), "kl", ZeroOne()),
    (Simplex(4), "euclidean", ZeroOne()),
    (Simplex(3), "gibbs", CostMatrix([[0, 1, 4], [2, 0, 1], [3, 3, 0]])),
    (Cube(3), "euclidean", Hamming()),
    (Cube(3), "gibbs", Hamming()),
    (Cube(2), "kl", Scaled(Hamming(), 0.5)),
    (OrderSimplex(4), "euclidean", Absolute()),
    (OrderSimplex(3), "gibbs", Absolute()),
    (Budget(4, 1, 2), "euclidean", Hamming()),
    (Birkhoff(3), "euclidean", Hamming()),
    (Birkhoff(3), "kl", Hamming()),
    (Permutahedron(4), "euclidean", Spearman()),
    (LinearOrdering(3), "gibbs", Disagreements()),
    (Product(Simplex(3), 2), "kl", Hamming()),
    (Simplex(4), "kl", Absolute()),
    (LinearOrdering(3), "euclidean", Disagreements()),
    (Chain(3, 2), "gibbs", Hamming()),
    (Chain(2, 3), "kl", Hamming()),
    (Chain(3, 2), "euclidean", Weighted(Absolute(), [1.0, 3.0, 2.0])),
    (Chain(2, 3), "gibbs", CostMatrix([[0, 1, 4], [2, 0, 1], [3, 3, 0]])),
    (Arborescence(2, labels=2), "gibbs", Hamming()),
    (DependencyTree(3), "gibbs", Hamming()),
    (DependencyTree(3), "euclidean", Hamming()),
    (SpanningTree(4), "gibbs", Hamming()),
    (Matching(2, 2), "euclidean", Hamming()),
    (Oracle(example_argmax, (3,)), "euclidean", Hamming()),
]
SEGMENTS = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [0, 1, 1], [1, 1, 1]], dtype=float)


def all_vertices(structure):
    return SEGMENTS if isinstance(structure, Oracle) else structure.vertices()


IDS = [f"{s}-{psi}-{cost}" for s, psi, cost in PAIRS]


@pytest.mark.parametrize(("structure", "psi", "cost"), PAIRS, ids=IDS)
@pytest.mark.parametrize("norm", [1.0, 2.0, 3.0])
def test_lemma_3_1_randomized_decoding_costs_at_most_a_share_of_the_loss(structure, psi, cost, norm):
    """E L(ŷ; y) ≤ 4γ/(λν) S(θ; y) at every score, in exact expectation (Sakaue et al., 2024, Lemma 3.1)."""
    loss = FenchelYoung(structure, psi, strength=0.7)
    found = constants_of(loss, cost, norm=norm)
    decoder = Randomized(structure, norm)
    vertices = all_vertices(structure)
    rng = np.random.default_rng(0)
    theta = np.concatenate([rng.normal(size=(60, *structure.shape)) * scale for scale in (0.1, 1.0, 4.0)])
    truths = vertices[rng.integers(len(vertices), size=len(theta))]
    expected = decoder.expected_cost(loss.predict(theta), truths, cost)
    factor = 4 * found.cost_slope / (found.strong_convexity * found.separation)
    assert np.all(expected <= factor * loss.value(theta, truths) + 1e-7)


@pytest.mark.parametrize(("structure", "psi", "cost"), PAIRS, ids=IDS)
@pytest.mark.parametrize("norm", [1.0, 1.5, 2.0, 3.0])
def test_cost_slopes_bound_every_ratio_and_exact_ones_are_reached(structure, psi, cost, norm):
    """γ = max L(μ, y)/‖μ − φ(y)‖ over the hull, searched by random points and local improvement."""
    found = constants_of(FenchelYoung(structure, psi), cost, norm=norm)
    vertices, form = all_vertices(structure), cost.affine(structure)
    rng = np.random.default_rng(1)
    n = len(vertices)
    best = 0.0
    for truth in vertices:
        weights = rng.dirichlet(np.full(n, 0.3), size=200)
        weights = np.concatenate([weights, np.eye(n), np.full((1, n), 1 / n)])
        for _ in range(12):
            mu = np.tensordot(weights, vertices, 1)
            distance = (np.abs(mu - truth).reshape(len(mu), -1) ** norm).sum(axis=1) ** (1 / norm)
            costs = form.value(mu, np.broadcast_to(truth, mu.shape))
            ratio = np.where(distance > 1e-9, costs / np.maximum(distance, 1e-9), 0)
            best = max(best, float(ratio.max()))
            top = weights[np.argsort(-ratio)[:20]]
            share = rng.uniform(0, 1, size=(200, 1))
            weights = (
                share * top[rng.integers(len(top), size=200)] + (1 - share) * top[rng.integers(len(top), size=200)]
            )
            near = rng.dirichlet(np.full(n, 0.5), size=200)
            weights[::2] = 0.9 * weights[::2] + 0.1 * near[::2]
    assert best <= found.cost_slope * (1 + 1e-7)
    if found.cost_slope_exact:
        assert best >= 0.9 * found.cost_slope


@pytest.mark.parametrize(("structure", "psi", "cost"), PAIRS, ids=IDS)
@pytest.mark.parametrize("norm", [1.0, 2.0, 3.0])
def test_strong_convexity_holds_at_vertices(structure, psi, cost, norm):
    """S(θ; y) ≥ λ/2 ‖φ(y) − ∇Ω*(θ)‖² in the norm, and ‖·‖₂ ≤ κ ‖·‖."""
    loss = FenchelYoung(structure, psi)
    found = constants_of(loss, cost, norm=norm)
    vertices = all_vertices(structure)
    rng = np.random.default_rng(2)
    theta = np.concatenate([rng.normal(size=(100, *structure.shape)) * scale for scale in (0.3, 3.0)])
    truths = vertices[rng.integers(len(vertices), size=len(theta))]
    off = np.abs(loss.predict(theta) - truths).reshape(len(theta), -1)
    distance = (off**norm).sum(axis=1) ** (1 / norm)
    assert np.all(loss.value(theta, truths) >= 0.5 * found.strong_convexity * distance**2 - 1e-7)
    assert np.all(np.linalg.norm(off, axis=1) <= found.norm_ratio * distance + 1e-12)


def test_slopes_of_sets_too_large_to_list_are_bounds_found_by_argmax_calls():
    """A user's maximiser and cost need no formula: entries of Vφ(y) + b are bounded one by one."""
    rng = np.random.default_rng(0)
    oracle = Oracle(example_argmax, (4,))
    late = rng.uniform(0.5, 2, size=(2, 4))  # an entry too many and one too few
    cost = AffineCost(oracle, V=-np.diag(late.sum(axis=0)), b=late[0], c=late[1])
    for norm in (1.0, 2.0, 3.0):
        slope, exact = cost_slope(cost, oracle, norm)
        assert not exact
        vertices = oracle.argmax(rng.normal(size=(300, 4)))
        mu = 0.5 * (vertices + vertices[rng.permutation(300)])
        distance = (np.abs(mu - vertices) ** norm).sum(axis=1) ** (1 / norm)
        assert np.all(cost.affine(oracle).value(mu, vertices) <= slope * distance + 1e-12)
    learner = Learner(oracle, "euclidean", cost, scale="auto", random_state=0)
    learner.learn_one([1.0], [0, 1, 1, 0])
    assert learner.constants_.gap == pytest.approx(0.5)
    assert learner.predict_one([1.0]).shape == (4,)


def test_a_cost_of_right_answers_has_no_slope():
    for structure in (Simplex(2), OrderSimplex(2)):
        with pytest.raises(IncompatiblePair, match="charges for right answers"):
            constants_of(FenchelYoung(structure, "euclidean"), CostMatrix([[1, 1], [1, 0]]))


def test_published_constants():
    """Sakaue et al. (2024), section 2.3, section 5 and appendix C.2."""
    logistic = constants_of(FenchelYoung(Simplex(10), "kl", multiplier=1 / math.log(2)), ZeroOne(), norm=1)
    assert (logistic.separation, logistic.cost_slope, logistic.strong_convexity) == (2.0, 0.5, 1.0)
    assert math.isclose(logistic.gap, 1 - math.log(2))
    assert math.isclose(logistic.learning_rate(3.0), (1 - math.log(2)) * math.log(2) / 9)
    assert math.isclose(logistic.bound(3.0, 2.0), 9 * 4 / (2 * (1 - math.log(2)) * math.log(2)))
    d = 20
    multilabel = constants_of(FenchelYoung(Cube(d), "euclidean"), Scaled(Hamming(), 1 / d), norm=2)
    assert multilabel.separation == 1
    assert math.isclose(multilabel.cost_slope, 1 / math.sqrt(d))
    assert multilabel.gap > 0
    n, mu = 6, 1.5
    ranking = constants_of(FenchelYoung(Birkhoff(n), "kl", strength=1 / mu), Scaled(Hamming(), 1 / n), norm=1)
    assert math.isclose(ranking.gap, 1 - mu / 2)
    ordinal = constants_of(FenchelYoung(OrderSimplex(d + 1), "euclidean"), Scaled(Absolute(), 1 / d), norm=2)
    assert math.isclose(ordinal.cost_slope, 1 / math.sqrt(d))


def test_the_slope_of_the_permutahedron_is_larger_than_was_published():
    """L(μ, y) ≤ γ ‖μ − φ(y)‖ with the γ of appendix C.1 is violated; the tight value is √(3/(d(d² − 1)))."""
    d = 5
    structure, cost = Permutahedron(d), Spearman()
    found = constants_of(FenchelYoung(structure, "euclidean"), cost, norm=2)
    assert math.isclose(found.cost_slope, math.sqrt(3 / (d * (d * d - 1))))
    published = math.sqrt((2 * d + 1) / (6 * d * (d + 1))) / (d - 1)
    truth = structure.encode(np.arange(d))
    middle = np.full(d, truth.mean())
    ratio = float(cost.affine(structure).value(middle, truth)) / np.linalg.norm(middle - truth)
    assert math.isclose(ratio, found.cost_slope)
    assert ratio > 2 * published


def test_lemma_3_1_is_nearly_tight():
    """Appendix D: the factor 4 cannot be replaced by less than 2/ln 2."""
    epsilon = 1e-6
    theta = np.array([1.0, 1.0 + math.log(2 ** (1 + epsilon) - 1)])
    loss, truth = FenchelYoung(Simplex(2), "kl"), np.array([1.0, 0.0])
    expected = float(Randomized(Simplex(2), 1).expected_cost(loss.predict(theta), truth, ZeroOne()))
    ratio = expected / float(loss.value(theta, truth))
    assert math.isclose(4 * ratio, 2 / math.log(2), rel_tol=1e-4)


@settings(deadline=None, max_examples=25)
@given(
    st.integers(0, 2**32 - 1), st.sampled_from([Simplex(4), Cube(3), Birkhoff(3), OrderSimplex(4), Permutahedron(3)])
)
def test_draws_have_the_stated_mean(seed, structure):
    rng = np.random.default_rng(seed)
    mu = structure.project(rng.normal(size=structure.shape))
    for decoder in (Randomized(structure, 1), Randomized(structure, 2), AlwaysRandom(structure), Nearest(structure)):
        draws = decoder.play(np.broadcast_to(mu, (3000, *mu.shape)), rng)
        structure.decode(draws)
        error = np.abs(draws.mean(axis=0) - decoder.mean(mu))
        # a rare entry may not be drawn at all: a few draws more or less are allowed beside the deviation
        assert np.all(error <= 6 * draws.std(axis=0) / math.sqrt(3000) + 20 * draws.max() / 3000)
    assert np.allclose(AlwaysRandom(structure).mean(mu), mu)


def test_randomized_decoding_of_a_model():
    output = FenchelYoung(Simplex(3), "kl").output(np.log([[0.5, 0.3, 0.2], [0.98, 0.01, 0.01]]))
    decoder = Randomized(Simplex(3), 1, random_state=0)
    assert decoder.mixture(output.marginals)[1] == pytest.approx([1.0, 0.04])
    assert decoder.decode(output).shape == (2,)
    with pytest.raises(IncompatiblePair, match="outputs are of"):
        decoder.decode(FenchelYoung(Simplex(4), "kl").output(np.zeros((1, 4))))
    with pytest.raises(InvalidInput, match="norm is 0.5"):
        Randomized(Simplex(3), 0.5)
    with pytest.raises(IncompatiblePair, match="'nearest'"):
        Randomized(Reals(3))


# -- steps -------------------------------------------------------------------------------------------------------------


def _stream_of_gradients(seed, n=300, d=4):
    gradients = np.random.default_rng(seed).normal(size=(n, d))
    return gradients / np.linalg.norm(gradients, axis=1).max()


def _adaptive_by_hand(diameter, gradients):
    w, total, played = np.zeros(gradients.shape[1]), 0.0, []
    for g in gradients:
        played.append(w)
        total += g @ g
        w = w - diameter / math.sqrt(2 * total) * g
        w = w * min(1.0, diameter / 2 / max(np.linalg.norm(w), 1e-300))
    return w, np.mean(played, axis=0)


def _bets_by_hand(bound, wealth, gradients):
    u, fraction, curvature, total, played, bet = np.zeros(gradients.shape[1]), 0.0, 1.0, 0.0, [], 0.0
    for g in gradients:
        played.append(bet * u)
        slope = g @ u / bound
        wealth -= slope * fraction * wealth
        z = slope / (1 - slope * fraction)
        curvature += z * z
        fraction = min(0.5, max(-0.5, fraction - 2 / (2 - math.log(3)) * z / curvature))
        bet = fraction * wealth
        total += g @ g
        u = u - math.sqrt(2 / total) * g
        u = u / max(1.0, np.linalg.norm(u))
    return bet * u, np.mean(played, axis=0)


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 2**32 - 1), st.floats(0.1, 50))
def test_step_rules_are_their_definitions(seed, parameter):
    gradients = _stream_of_gradients(seed)
    expected = {
        AdaptiveStep(parameter): _adaptive_by_hand(parameter, gradients),
        ParameterFree(1.0, parameter): _bets_by_hand(1.0, parameter, gradients),
        ConstantStep(parameter): (
            -parameter * gradients.sum(axis=0),
            -parameter * np.mean(np.vstack([np.zeros(4), np.cumsum(gradients, axis=0)[:-1]]), axis=0),
        ),
    }
    for rule, (last, average) in expected.items():
        steps = rule.start((2, 2))
        for g in gradients:
            steps.update(g.reshape(2, 2))
        scale = max(1.0, np.abs(last).max(), np.abs(average).max())
        assert np.allclose(steps.weights.ravel(), last, atol=1e-9 * scale)
        assert np.allclose(steps.average.ravel(), average, atol=1e-9 * scale)


@pytest.mark.parametrize("distance", [0.1, 3.0, 30.0])
def test_regret_of_step_rules_on_convex_losses(distance):
    """Σ f(w_t) − f(U) for f = ‖w − U‖: each rule stays below its bound, the last without knowing the distance."""
    target = distance * np.array([0.6, -0.8])
    n = 4000
    bounds = {
        ConstantStep(0.1): distance**2 / 0.2 + 0.05 * n,
        AdaptiveStep(2 * distance): math.sqrt(2) * 2 * distance * math.sqrt(n),
        ParameterFree(1.0): 8 * (1 + distance * math.sqrt(n * math.log(1 + distance**2 * n))),
    }
    for rule, bound in bounds.items():
        steps, regret = rule.start((2,)), 0.0
        for _ in range(n):
            off = steps.weights - target
            norm = np.linalg.norm(off)
            regret += norm
            steps.update(off / max(norm, 1e-12))
        assert regret <= bound


def test_what_steps_refuse():
    for make in (lambda: ConstantStep(0), lambda: AdaptiveStep(-1.0), lambda: ParameterFree(np.inf)):
        with pytest.raises(InvalidInput, match="expected a finite number > 0"):
            make()
    steps = ParameterFree(1.0).start((2,))
    with pytest.raises(InvalidInput, match="gradient_bound is 1; raise it"):
        steps.update(np.array([2.0, 0.0]))
    with pytest.raises(InvalidInput, match=r"shape \(3,\), expected finite numbers of shape \(2,\)"):
        steps.update(np.zeros(3))


# -- the learner -------------------------------------------------------------------------------------------------------


def _unit_rows(rng, n, d):
    X = rng.normal(size=(n, d))
    return X / np.linalg.norm(X, axis=1, keepdims=True)


CASES = [
    (Simplex(4), "kl", {}),
    (Simplex(3), "kl", {"step": "parameter_free", "intercept": 1.0}),
    (Simplex(3), "kl", {"step": AdaptiveStep(5.0), "intercept": 0.5}),
    (Simplex(3), "euclidean", {}),
    (Cube(3), "gibbs", {"decoder": "random"}),
    (OrderSimplex(4), "euclidean", {"intercept": 1.0}),
    (Birkhoff(3), "kl", {"decoder": "deterministic"}),
    (Permutahedron(4), "euclidean", {"step": "parameter_free"}),
    (Budget(4, 1, 2), "euclidean", {}),
    (Chain(3, 2), "gibbs", {"decoder": "random"}),
    (DependencyTree(3), "gibbs", {"intercept": 1.0}),
    (Oracle(example_argmax, (3,)), "euclidean", {}),
]


@pytest.mark.parametrize(
    ("structure", "psi", "options"), CASES, ids=[f"{c[0]}-{c[1]}-{i}" for i, c in enumerate(CASES)]
)
def test_rows_and_chunks_and_dicts_and_sparse_rows_are_one_by_one(structure, psi, options):
    rng = np.random.default_rng(0)
    X = _unit_rows(rng, 60, 5) * (rng.random((60, 5)) < 0.7)
    y = structure.decode(structure.argmax(rng.normal(size=(60, *structure.shape))))

    def learner():
        return Learner(structure, psi, scale="auto", random_state=7, **options)

    one, chunks, sparse, named = learner(), learner(), learner(), learner()
    rounds, answers = [], []
    for x, output in zip(X, y, strict=True):
        answers.append(one.predict_one(x))
        one.learn_one(x, output)
    for part in np.array_split(np.arange(60), [7, 8, 30]):
        rounds.append(chunks.play(X[part], y[part]))
    assert np.array_equal(np.concatenate([r.answers for r in rounds]), np.array(answers))
    assert np.array_equal(chunks.coef_, one.coef_)
    assert np.array_equal(chunks.average_coef_, one.average_coef_)
    assert np.array_equal(learner().partial_fit(X, y).coef_, one.coef_)
    sparse.partial_fit(sp.csr_matrix(X), y)
    assert np.allclose(sparse.coef_, one.coef_, rtol=1e-10, atol=1e-12)
    for x, output in zip(X, y, strict=True):
        named.learn_one({f"x{j}": x[j] for j in np.flatnonzero(x)}, output)
    places = [named.features_[f"x{j}"] for j in range(5)]
    assert np.allclose(named.coef_[places], one.coef_[:5], rtol=1e-10, atol=1e-12)
    if options.get("intercept"):
        assert np.allclose(named.coef_[-1], one.coef_[-1], rtol=1e-10, atol=1e-12)
    assert one.n_rounds_ == 60
    plain = [chunks.loss_.predict(x) for x in chunks._all_scores(sp.csr_matrix(X))]
    assert np.allclose(chunks.predict_marginals(X), plain)


def test_the_average_is_the_mean_of_all_weights_played():
    rng = np.random.default_rng(3)
    X, y = _unit_rows(rng, 40, 3), rng.integers(0, 3, 40)
    for step in ("constant", "parameter_free", AdaptiveStep(2.0)):
        learner = Learner(Simplex(3), "kl", scale="auto", step=step, n_features=3)
        played = []
        for x, output in zip(X, y, strict=True):
            learner.predict_one(x)
            played.append(learner.coef_.copy())
            learner.learn_one(x, output)
        assert np.allclose(learner.average_coef_, np.mean(played, axis=0))
        frozen = learner.to_batch()
        assert np.array_equal(frozen.coef_, learner.average_coef_)
        assert np.allclose(frozen.predict_marginals(X), learner.loss_.predict(X @ learner.average_coef_))


def test_a_learner_is_an_estimator_of_batches(tmp_path):
    rng = np.random.default_rng(3)
    X = _unit_rows(rng, 120, 3)
    for structure in (Simplex(3), OrderSimplex(3), Permutahedron(3), Chain(3, 2)):
        truths = structure.argmax((X @ rng.normal(size=(3, structure.dim)) * 9).reshape(-1, *structure.shape))
        y = structure.decode(truths)
        learner = Learner(structure, "euclidean", scale="auto", step="parameter_free", n_features=3, random_state=0)
        model = OnlineToBatch(learner, passes=3).fit(X, y)
        assert not hasattr(learner, "weights_")  # it was copied
        again = clone(learner)
        for _ in range(3):
            again.partial_fit(X, y)
        assert np.array_equal(model.coef_, again.average_coef_)
        assert np.array_equal(again.to_batch().coef_, model.coef_)
        drawn = np.mean([again.cost_(model.predict(X), y).mean() for _ in range(300)])
        assert -model.score(X, y) == pytest.approx(drawn, abs=0.05)
        assert cross_val_score(model, X, y, cv=3).min() > OnlineToBatch(learner).fit(X[:1], y[:1]).score(X, y)
        loaded = fenchel.load(fenchel.save(model, tmp_path / "batch.fenchel", overwrite=True))
        assert np.array_equal(loaded.predict_marginals(X), model.predict_marginals(X))
        assert loaded.score(X, y) == model.score(X, y)
    with pytest.raises(InvalidInput, match="not fitted yet"):
        OnlineToBatch(learner).predict(X)
    with pytest.raises(InvalidInput, match="expected a fenchel.online.Learner"):
        OnlineToBatch("learner").fit(X, y)


def test_the_weights_are_the_same_bits_whichever_loop_and_wherever_in_memory():
    kept = []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        k = 2 + seed % 9
        X, y = _unit_rows(rng, 30, 5) * (rng.random((30, 5)) < 0.7), rng.integers(0, k, 30)
        one, rows, fitted = (Learner(Simplex(k), "kl", scale="auto", random_state=0) for _ in range(3))
        for x, truth in zip(X, y, strict=True):
            one.learn_one(x, truth)
        rows.play(X, y)
        fitted.partial_fit(X, y)
        kept = [*kept[-20:], np.empty(seed * 7 + 1), one]
        assert np.array_equal(one.coef_, rows.coef_)
        assert np.array_equal(one.coef_, fitted.coef_)


def test_a_saved_learner_goes_on_bit_for_bit(tmp_path):
    rng = np.random.default_rng(4)
    X, y = _unit_rows(rng, 80, 4), rng.integers(0, 3, 80)
    for structure, psi in ((Simplex(3), "kl"), (OrderSimplex(3), "euclidean")):
        learner = Learner(structure, psi, scale="auto", random_state=1, intercept=1.0)
        learner.play(X[:40], y[:40])
        path = fenchel.save(learner, tmp_path / "stream.fenchel", overwrite=True)
        again = fenchel.load(path)
        ours, theirs = learner.play(X[40:], y[40:]), again.play(X[40:], y[40:])
        assert np.array_equal(ours.answers, theirs.answers)
        assert np.array_equal(learner.coef_, again.coef_)
        assert np.array_equal(learner.average_coef_, again.average_coef_)


def test_what_the_learner_refuses():
    x = np.array([0.6, 0.8])
    with pytest.raises(InvalidInput, match=r"norm 2, but max_norm is 1; raise max_norm.*rescale"):
        Learner(Simplex(2), "kl", scale="auto").learn_one(2 * x, 0)
    with pytest.raises(InvalidInput, match="row 1 of X has norm 2"):
        Learner(Simplex(2), "kl", scale="auto").partial_fit([x, 2 * x], [0, 1])
    shortened = Learner(Simplex(2), "kl", scale="auto", too_long="rescale").partial_fit([x, 2 * x], [0, 1])
    assert np.array_equal(shortened.coef_, Learner(Simplex(2), "kl", scale="auto").partial_fit([x, x], [0, 1]).coef_)
    with pytest.raises(IncompatiblePair, match=r"a = 1 - 4γ/\(cλν\) is 0.*more than 1 .*scale='auto'"):
        Learner(Simplex(2), "kl").learn_one(x, 0)
    with pytest.raises(InvalidInput, match="y is 5 at sample 0, but outputs"):
        Learner(Simplex(2), "kl", scale="auto").learn_one(x, 5)
    with pytest.raises(InvalidInput, match="needs the diameter"):
        Learner(Simplex(2), "kl", step="adaptive", scale="auto").learn_one(x, 0)
    with pytest.raises(InvalidInput, match="give step=ConstantStep"):
        Learner(Simplex(2), Hinge(Simplex(2), ZeroOne())).learn_one(x, 0)
    with pytest.raises(InvalidInput, match="3 features, expected 2"):
        Learner(Simplex(2), "kl", scale="auto").learn_one(x, 0).learn_one([0, 0, 1], 0)
    with pytest.raises(InvalidInput, match="has seen nothing yet"):
        _ = Learner(Simplex(2)).coef_
    with pytest.raises(InvalidInput, match="2 inputs but 1 truths"):
        Learner(Simplex(2), "kl", scale="auto").partial_fit([x, x], [0])
    with pytest.raises(InvalidInput, match="NaN or infinity"):
        Learner(Simplex(2), "kl", scale="auto").learn_one([np.nan, 0], 0)
    structural = Learner(Simplex(2), Hinge(Simplex(2), ZeroOne()), step=ConstantStep(0.1))
    assert structural.learn_one(x, 0).n_rounds_ == 1


# -- regret ------------------------------------------------------------------------------------------------------------


def _stochastic(rng, structure, n, d):
    X = _unit_rows(rng, n, d)
    theta = (X @ rng.normal(size=(d, structure.dim)) * 4).reshape(n, *structure.shape)
    return X, structure.decode(structure.argmax(theta + rng.gumbel(size=theta.shape)))


STREAMS = pytest.mark.parametrize(
    ("structure", "psi", "cost"),
    [
        (Simplex(4), "kl", "zero_one"),
        (Cube(3), "gibbs", "hamming"),
        (Birkhoff(3), "kl", "hamming"),
        (Permutahedron(4), "euclidean", "spearman"),
        (OrderSimplex(4), "euclidean", "absolute"),
        (Chain(3, 2), "gibbs", "hamming"),
        (DependencyTree(3), "gibbs", "hamming"),
    ],
    ids=str,
)


def _check_regret(structure, psi, cost, seeds, step="constant"):
    for seed in seeds:
        rng = np.random.default_rng(seed)
        X, y = _stochastic(rng, structure, 250, 3)
        tracker = RegretTracker(Learner(structure, psi, cost, scale="auto", step=step, random_state=seed))
        tracker.play(X[:100], y[:100])
        tracker.play(X[100:], y[100:])
        best = tracker.best_offline(alpha=1e-3)
        if isinstance(step, AdaptiveStep):
            best *= min(1.0, step.diameter / 2 / np.linalg.norm(best))
        for U in (best, np.zeros_like(best)):
            assert tracker.expected_regret(U).max() <= tracker.bound(U) + 1e-9
        assert len(tracker.regret(best)) == 250


@STREAMS
def test_regret_stays_below_its_bound(structure, psi, cost):
    """Theorem 4.2, for the best linear model in hindsight and the zero model, after every round, over seeds."""
    _check_regret(structure, psi, cost, range(3))


@pytest.mark.slow
@STREAMS
@pytest.mark.parametrize("step", ["constant", AdaptiveStep(20.0)], ids=str)
def test_regret_stays_below_its_bound_over_many_seeds(structure, psi, cost, step):
    """Theorems 4.2 and E.1."""
    _check_regret(structure, psi, cost, range(100, 130), step)


def test_regret_with_high_probability():
    """Theorem 4.3: with its own rate, the regret as paid exceeds its bound in at most a share δ of runs."""
    delta, failures = 0.2, 0
    loss = FenchelYoung(Simplex(3), "kl", multiplier=2.0)
    found = constants_of(loss, ZeroOne())
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X, y = _stochastic(rng, Simplex(3), 200, 2)
        step = ConstantStep(found.learning_rate(1.0, high_probability=True))
        tracker = RegretTracker(Learner(Simplex(3), loss, step=step, random_state=seed))
        tracker.play(X, y)
        U = tracker.best_offline(alpha=1e-3)
        failures += tracker.regret(U).max() > tracker.bound(U, delta=delta)
    assert failures <= 20 * delta


def _allowed(learner, U):
    """The bound of the learner's step rule; the parameter-free one has no published constant, 10 is ours."""
    found, length = learner.constants_, float(np.linalg.norm(U))
    if isinstance(learner.step_, ConstantStep):
        return found.bound(learner.reach_, length)
    if isinstance(learner.step_, AdaptiveStep):
        return found.adaptive_bound(learner.reach_, learner.step_.diameter)
    b = found.smoothness(learner.reach_) * (1 + length**2)
    return 10 * b / found.gap * math.log(1 + b / found.gap**2)


def _check_against_an_adversary(step, seed):
    learner = Learner(Simplex(3), "kl", scale="auto", step=step, n_features=2, random_state=seed)
    rng = np.random.default_rng(seed)
    X, truths, paid = _unit_rows(rng, 1500, 2), [], []
    learner.predict_one(X[0])  # begins it
    for x in X:
        truths.append(int(learner.predict_marginals(x[None])[0].argmin()))
        paid.append(float(learner.play_one(x, truths[-1]).expected_costs[0]))
    for _ in range(20):
        U = rng.normal(size=(2, 3))
        U *= rng.uniform(0, 2) / np.linalg.norm(U)
        regret = np.cumsum(paid - learner.loss_.value(X @ U, np.eye(3)[truths]))
        assert regret.max() <= _allowed(learner, U)


STEPS = pytest.mark.parametrize("step", ["constant", AdaptiveStep(4.0), "parameter_free"], ids=str)


@STEPS
def test_regret_stays_finite_against_an_adversary_who_sees_the_weights(step):
    """Truths are the classes the learner finds least likely (Remark 4.4 allows it); no growth with the rounds."""
    _check_against_an_adversary(step, 0)


@pytest.mark.slow
@STEPS
def test_regret_stays_finite_against_that_adversary_over_many_seeds(step):
    for seed in range(1, 31):
        _check_against_an_adversary(step, seed)


def test_what_the_tracker_refuses():
    tracker = RegretTracker(Learner(Simplex(2), "kl", scale="auto", step="parameter_free"))
    with pytest.raises(InvalidInput, match="no round has been played"):
        _ = tracker.costs
    tracker.play(np.eye(2), [0, 1])
    with pytest.raises(InvalidInput, match="the bound is for ConstantStep"):
        tracker.bound(np.zeros((2, 2)))
    with pytest.raises(InvalidInput, match=r"U has shape \(3, 2\), expected \(2, 2\)"):
        tracker.regret(np.zeros((3, 2)))
    ball = RegretTracker(Learner(Simplex(2), "kl", scale="auto", step=AdaptiveStep(1.0)))
    ball.play(np.eye(2), [0, 1])
    assert ball.bound(np.zeros((2, 2))) > 0
    with pytest.raises(InvalidInput, match="the ball has radius 0.5"):
        ball.bound(np.eye(2))


@settings(deadline=None, max_examples=40)
@given(st.integers(2, 7), st.integers(0, 2**32 - 1), st.floats(0.05, 5))
def test_uniform_exploration_leaves_a_gap_of_one_over_the_number_of_classes(k, seed, scale):
    """E 1[ŷ ≠ y] ≤ (1 − 1/k) of the smooth hinge loss (van der Hoeven, 2020), and no smaller factor will do."""
    rng = np.random.default_rng(seed)
    theta = np.concatenate([rng.normal(size=(100, k)) * scale, np.zeros((1, k))])
    truths = np.eye(k)[rng.integers(k, size=101)]
    expected = UniformExploration(Simplex(k)).expected_cost(theta, truths, ZeroOne())
    losses = SmoothHinge(Simplex(k)).value(theta, truths)
    assert np.all(expected <= (1 - 1 / k) * losses + 1e-12)
    assert math.isclose(expected[-1], (1 - 1 / k) * losses[-1])


def test_the_earlier_method_runs_as_a_learner():
    rng = np.random.default_rng(0)
    X, y = _stochastic(rng, Simplex(3), 200, 3)
    learner = Learner(
        Simplex(3), SmoothHinge(Simplex(3)), step=ConstantStep(0.1), decoder="uniform_exploration", random_state=0
    )
    rounds = learner.play(X, y)
    assert rounds.expected_costs.sum() <= rounds.losses.sum() * (1 - 1 / 3) + 1e-9
    with pytest.raises(IncompatiblePair, match="use Randomized"):
        UniformExploration(Cube(3))


@pytest.mark.parametrize(("d", "m"), [(2, 30), (5, 20)])
def test_the_adversary_of_the_lower_bound_forces_what_it_should_on_every_decoder(d, m):
    """Theorem 5.2, in exact expectation over the classes' symmetry and on average over draws; ours stays below its bound."""
    horizon, runs = 60, 30
    loss = FenchelYoung(Simplex(d), "kl", multiplier=1 / math.log(2))
    for decoder in ("randomized", "deterministic", "random"):
        regrets = []
        for seed in range(runs):
            X, y, U = adversary(d, m, horizon, np.random.default_rng(seed))
            assert math.isclose(np.linalg.norm(U) ** 2, m * math.log(2 * d) ** 2 + math.log(d * horizon) ** 2)
            learner = Learner(Simplex(d), loss, "zero_one", decoder=decoder, n_features=m + 1, random_state=seed)
            expected = learner.play(X, y).expected_costs
            regrets.append(expected.sum() - loss.value(X @ U, np.eye(d)[y]).sum())
        error = np.std(regrets) / math.sqrt(runs)
        assert np.mean(regrets) >= forced_regret(d, m, horizon) - 5 * error - 1e-9
        if decoder == "randomized":
            assert max(regrets) <= learner.constants_.bound(1.0, np.linalg.norm(U))


def _separable(rng, n, d, k, margin):
    """Inputs of unit length whose best class under a fixed linear model leads by at least the margin."""
    W = np.linalg.qr(np.random.default_rng(99).normal(size=(max(d, k), max(d, k))))[0][:d, :k]
    rows = np.empty((0, d))
    while len(rows) < n:
        X = _unit_rows(rng, 4 * n, d)
        top = np.sort(X @ W, axis=1)
        rows = np.concatenate([rows, X[top[:, -1] - top[:, -2] >= margin]])
    X = rows[:n]
    return X, (X @ W).argmax(axis=1), W


def test_online_to_batch():
    """Theorem 4.6: the averaged weights, decoded at random, cost at most E S(Uᵀx; y) + bound/T on new data."""
    loss = FenchelYoung(Simplex(3), "kl", multiplier=2.0)
    for T in (50, 400):
        costs, losses = [], []
        for seed in range(12):
            rng = np.random.default_rng(seed)
            W = 4 * np.random.default_rng(5).normal(size=(3, 3))
            X = _unit_rows(rng, T + 2000, 3)
            y = (X @ W + rng.gumbel(size=(len(X), 3))).argmax(axis=1)
            learner = Learner(Simplex(3), loss, "zero_one", n_features=3).partial_fit(X[:T], y[:T])
            truths = np.eye(3)[y[T:]]
            mu = loss.predict(X[T:] @ learner.average_coef_)
            costs.append(learner.decoder_.expected_cost(mu, truths, ZeroOne()).mean())
            losses.append(loss.value(X[T:] @ W, truths).mean())
        bound = learner.constants_.bound(1.0, np.linalg.norm(W)) / T
        assert np.mean(costs) <= np.mean(losses) + bound


def test_separable_data_are_learned_at_the_rate_of_one_over_rounds():
    """Appendix G.2: with SparseMAP's margin, U = D/(2 t₀) U₀ loses nothing, so that the risk is at most bound/T."""
    margin, risks = 0.2, []
    loss = FenchelYoung(Simplex(3), "euclidean", strength=4.0)
    for T in (100, 400, 1600):
        X, y, W = _separable(np.random.default_rng(T), T + 2000, 4, 3, margin)
        U = W * loss.strength / margin  # scores lead by the strength, where the loss is zero
        truths = np.eye(3)[y]
        assert loss.value(X @ U, truths).max() <= 1e-12
        learner = Learner(Simplex(3), loss, "zero_one").partial_fit(X[:T], y[:T])
        mu = loss.predict(X[T:] @ learner.average_coef_)
        risks.append(float(learner.decoder_.expected_cost(mu, truths[T:], ZeroOne()).mean()))
        assert risks[-1] <= learner.constants_.bound(1.0, np.linalg.norm(U)) / T
    assert risks[2] < risks[1] < risks[0]
    assert risks[2] <= risks[0] / 4


def test_the_bound_vanishes_as_the_loss_grows_stronger():
    """Remark 4.5: at the rate 1/λ², once a > 1/2."""
    bounds = [
        constants_of(FenchelYoung(Cube(3), "euclidean", strength=s), Hamming(), norm=2).bound(1.0, 1.0)
        for s in (100.0, 1000.0, 10000.0)
    ]
    assert bounds[0] / bounds[1] == pytest.approx(100, rel=0.1)
    assert bounds[1] / bounds[2] == pytest.approx(100, rel=0.01)
