"""Matchings: the game, its training, sets of different sizes, boxes of videos."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment, linprog

import fenchel
from fenchel import BipartiteMatcher
from fenchel.costs import Hamming, WrongPartners
from fenchel.data import box_features, frame_pairs, moving_boxes, read_boxes
from fenchel.errors import IncompatiblePair, IntractableOracle, InvalidInput
from fenchel.losses import CRF, Adversarial, FenchelYoung, Hinge
from fenchel.losses.games import find_game
from fenchel.losses.games.double_oracle import DoubleOracle
from fenchel.losses.games.matching import MatchingGame
from fenchel.losses.games.smoothed import SmoothedGame
from fenchel.plots import matching as draw
from fenchel.scorers import Pairs
from fenchel.solvers import LBFGS, BlockFrankWolfe, DualProjected
from fenchel.structures import Birkhoff, Birkhoffs, Matching, Matchings, Ragged


def game_value(structure, cost, theta):
    """The value of the game between all vertices, by linear programming."""
    vertices = structure.vertices()
    outputs = structure.decode(vertices)
    scores = np.array([(theta[v > 0]).sum() for v in vertices])
    allowed = np.isfinite(scores)
    table = np.array([[float(cost(a[None], b[None])[0]) for b in outputs[allowed]] for a in outputs]) + scores[allowed]
    k = table.shape[1]
    found = linprog(
        np.r_[np.zeros(k), -1.0], A_ub=np.c_[-table, np.ones(len(table))], b_ub=np.zeros(len(table)),
        A_eq=[np.r_[np.ones(k), 0.0]], b_eq=[1.0], bounds=[(0, None)] * k + [(None, None)],
    )  # fmt: skip
    return -found.fun


# -- the game ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "structure", [Birkhoff(1), Birkhoff(2), Birkhoff(3), Birkhoff(4), Matching(2, 3), Matching(3, 2)]
)
@pytest.mark.parametrize("scale", [0.0, 0.5, 2.0])
def test_the_game_is_worth_what_the_program_over_all_matchings_says(structure, scale):
    rng = np.random.default_rng(0)
    theta = scale * rng.normal(size=(6, *structure.shape))
    theta[3:] = theta[3:].round()  # ties
    game = find_game(structure, Hamming())
    assert isinstance(game, MatchingGame)
    found = game.solve(theta)
    assert found.converged.all()
    for i, t in enumerate(theta):
        value = game_value(structure, Hamming(), t)
        assert found.value[i] - 1e-8 <= value <= found.value[i] + found.gap[i] + 1e-8


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 12), st.floats(0.01, 20.0), st.integers(0, 10_000))
def test_both_players_keep_what_they_promise(n, scale, seed):
    theta = scale * np.random.default_rng(seed).normal(size=(1, n, n))
    found = find_game(Birkhoff(n), Hamming()).solve(theta)
    q, p = found.adversary[0], found.predictor[0]
    assert Birkhoff(n).violation(np.stack([q, p])).max() <= 1e-10

    def best(scores):
        rows, columns = linear_sum_assignment(scores, maximize=True)
        return scores[rows, columns].sum()

    assert n - best(q) + (theta[0] * q).sum() >= found.value[0] - 1e-8
    assert n + best(theta[0] - p) <= found.value[0] + found.gap[0] + 1e-8
    assert found.gap[0] <= 1e-9 + 1e-12 * scale


@pytest.mark.parametrize("smoothing", [0.05, 1.0, 4.0])
@pytest.mark.parametrize("structure", [Birkhoff(4), Matching(3, 3), Matching(2, 3)])
def test_the_smoothed_game_is_that_of_accelerated_steps(structure, smoothing):
    theta = np.random.default_rng(1).normal(size=(5, *structure.shape))
    ours = find_game(structure, Hamming(), smoothing).solve(theta)
    other = SmoothedGame(structure, Hamming(), smoothing).solve(theta)
    np.testing.assert_allclose(ours.value, other.value, atol=1e-6)
    np.testing.assert_allclose(ours.adversary, other.adversary, atol=1e-4)
    np.testing.assert_allclose(ours.predictor, other.predictor, atol=1e-4)


def test_wrong_partners_count_as_they_are_told():
    cost, structure = WrongPartners(0.25), Matching(2, 2)
    theta = np.random.default_rng(2).normal(size=(5, 2, 3))
    found = find_game(structure, cost).solve(theta)
    for i, t in enumerate(theta):
        assert found.value[i] == pytest.approx(game_value(structure, cost, t), abs=1e-8)
    with pytest.raises(IncompatiblePair, match="may have no partner"):
        cost.affine(Birkhoff(3))


def test_a_later_game_starts_where_the_earlier_one_ended():
    rng = np.random.default_rng(3)
    theta = rng.normal(size=(10, 12, 12))
    for smoothing in (0.0, 0.1):
        game = find_game(Birkhoff(12), Hamming(), smoothing)
        first = game.solve(theta)
        assert game.solve(theta, start=first.state).n_iter.max() == 0
        moved = theta + 1e-3 * rng.normal(size=theta.shape)
        warm, cold = game.solve(moved, start=first.state), game.solve(moved)
        assert warm.n_iter.mean() < 0.75 * cold.n_iter.mean()
        np.testing.assert_allclose(warm.value, cold.value, atol=1e-6)


def test_forbidden_pairs_are_not_played_and_huge_scores_are_solved_otherwise():
    theta = np.random.default_rng(4).normal(size=(4, 3, 3))
    theta[0, 0, 1] = theta[1, 0, 1:] = -np.inf
    theta[2] *= 1e9
    found = find_game(Birkhoff(3), Hamming()).solve(theta)
    assert found.adversary[0, 0, 1] == 0
    assert (found.adversary[1, 0, 1:] == 0).all()
    assert found.converged.all()
    for i in (0, 1, 3):
        assert found.value[i] == pytest.approx(game_value(Birkhoff(3), Hamming(), theta[i]), abs=1e-8)
    again = find_game(Birkhoff(3), Hamming()).solve(theta, start=found.state)
    np.testing.assert_allclose(again.value, found.value, rtol=1e-9, atol=1e-6)
    partial = np.random.default_rng(5).normal(size=(2, 2, 4))
    partial[0, 1, 0] = partial[1, 0, 3] = -np.inf
    found = find_game(Matching(2, 3), Hamming()).solve(partial)
    for i, t in enumerate(partial):
        assert found.value[i] == pytest.approx(game_value(Matching(2, 3), Hamming(), t), abs=1e-8)


def test_elements_that_make_up_the_square_change_nothing():
    rng = np.random.default_rng(6)
    theta = rng.normal(size=(2, 4))
    square = np.full((3, 4), -np.inf)
    square[:2] = theta
    square[2, 3] = 0.0
    alone, padded = (
        find_game(Matching(2, 3), Hamming()).solve(theta[None]),
        find_game(Matching(3, 3), Hamming()).solve(square[None]),
    )
    assert alone.value[0] == pytest.approx(padded.value[0], abs=1e-8)
    tall = np.full((3, 4), -np.inf)
    tall[:, [0, 1, 3]] = rng.normal(size=(3, 3))
    alone = find_game(Matching(3, 2), Hamming()).solve(tall[None][:, :, [0, 1, 3]])
    assert alone.value[0] == pytest.approx(find_game(Matching(3, 3), Hamming()).solve(tall[None]).value[0], abs=1e-8)


def test_sizes_mixed_are_played_as_each_alone_and_start_again_by_item():
    rng = np.random.default_rng(7)
    items = [rng.normal(size=(n, n + 1)) for n in (2, 5, 1, 2)]
    loss = Adversarial(Matchings(), Hamming(), smoothing=0.2)
    truths = Matchings().argmax(Ragged.of([rng.normal(size=x.shape) for x in items]))
    found = loss.evaluate(Ragged.of(items), truths)
    some = loss.evaluate(Ragged.of(items)[[3, 1]], truths[[3, 1]], found.state[[3, 1]])
    np.testing.assert_allclose(some.value, found.value[[3, 1]], atol=1e-9)
    with pytest.raises(InvalidInput, match="k x"):
        Matchings().member(7)


# -- consistency -------------------------------------------------------------------------------------------------------

_CYCLES = np.array([[0, 1, 2], [1, 2, 0], [2, 0, 1]])


def test_three_permutations_leave_the_hinge_indifferent_but_not_the_adversarial_loss():
    """Of 123, 231 and 312 with 0.4, 0.3 and 0.3 the first is the best answer; the hinge is least at no scores at all."""
    truths, share = Birkhoff(3).encode(_CYCLES), np.array([0.4, 0.3, 0.3])

    def expected(loss, theta):
        return float(share @ loss.value(np.stack([theta] * 3), truths))

    hinge, ours = Hinge(Birkhoff(3), Hamming()), Adversarial(Birkhoff(3), Hamming())
    assert expected(hinge, np.zeros((3, 3))) == pytest.approx(3.0)
    assert expected(hinge, np.eye(3)) == pytest.approx(3.6)
    assert expected(ours, np.eye(3)) == pytest.approx(1.8, abs=1e-8)  # the Bayes risk, below which nothing is
    assert expected(ours, np.zeros((3, 3))) == pytest.approx(2.0, abs=1e-8)
    slopes = [hinge.value_and_grad(np.zeros((3, 3)), v)[1] for v in truths]
    assert np.abs(np.tensordot(share, slopes, 1)).max() < 1.01
    rng = np.random.default_rng(8)
    for _ in range(30):
        theta = rng.normal(size=(3, 3))
        assert expected(ours, theta) >= 1.8 - 1e-8
        assert expected(hinge, theta) >= 3.0 - 1e-8


@pytest.mark.parametrize("n", [3, 4])
def test_additive_potentials_trained_on_a_distribution_answer_as_bayes_does(n):
    """Theorem 4.2 of Fathony (2019): any scores of pairs, the exact distribution; the hinge fails on some of them."""
    rng = np.random.default_rng(9)
    outputs = np.array(list(itertools.permutations(range(n))))
    scorer = Pairs([np.eye(n * n).reshape(n, n, n * n)] * len(outputs))
    v = Birkhoffs().encode(outputs)
    for trial in range(6):
        share = np.zeros(len(outputs))
        if trial == 0 and n == 3:
            share[[0, 3, 4]] = 0.4, 0.3, 0.3
        else:
            share[rng.choice(len(outputs), 4, replace=False)] = rng.dirichlet(np.ones(4))
        mean = np.tensordot(share, Birkhoff(n).encode(outputs), 1)
        rows, columns = linear_sum_assignment(mean, maximize=True)
        loss = Adversarial(Birkhoffs(), Hamming(), smoothing=0.01)
        w = LBFGS(tol=1e-3).minimize(scorer, loss, v, 1e-4, sample_weight=share).w.reshape(n, n)
        answer = Birkhoff(n).decode(Birkhoff(n).argmax(w))
        assert mean[np.arange(n), answer].sum() == pytest.approx(mean[rows, columns].sum(), abs=1e-9)


# -- training ----------------------------------------------------------------------------------------------------------


def tracked(count=20, objects=4, seed=0, **options):
    pairs = frame_pairs(moving_boxes(count + 1, objects, random_state=seed, **options))
    return [pair.features for pair in pairs], [pair.partners for pair in pairs]


def test_scores_of_pairs_and_their_adjoint():
    rng = np.random.default_rng(10)
    items = [rng.normal(size=(n, m, 2)) for n, m in ((2, 3), (3, 1), (1, 1))]
    alone = [(rng.normal(size=(x.shape[0], 1)), rng.normal(size=(x.shape[1], 2))) for x in items]
    scorer = Pairs(items, alone)
    w = rng.normal(size=scorer.weights_shape)
    theta = scorer.scores(w)
    first = theta[0].reshape(3, 4)
    assert first[0, 1] == pytest.approx(items[0][0, 1] @ w[:2] - alone[0][1][1] @ w[3:])
    assert first[1, 3] == pytest.approx(alone[0][0][1] @ w[2:3])
    assert (first[2, :3] == -np.inf).all()
    assert first[2, 3] == 0
    assert (theta[1].reshape(3, 4)[:, 1:3] == -np.inf).all()
    residual = theta.like(np.where(np.isfinite(theta.flat), rng.normal(size=theta.flat.size), 0))
    finite = np.where(np.isfinite(theta.flat), theta.flat, 0)
    assert scorer.adjoint(residual) @ w == pytest.approx(finite @ residual.flat)
    some = scorer.take([2, 0])
    np.testing.assert_array_equal(some.scores(w).flat, scorer.scores(w, [2, 0]).flat)
    squares = [np.sum(scorer.adjoint(residual[i : i + 1], [i]) ** 2) for i in range(3)]
    np.testing.assert_allclose(scorer.quadratic(residual), squares)
    complete = Pairs(np.stack([np.ones((2, 2, 3))] * 4))
    np.testing.assert_array_equal(complete.scores(np.ones(3)).flat, 3.0)
    with pytest.raises(InvalidInput, match="as many rows"):
        Pairs(items, alone[::-1])


@pytest.mark.parametrize("loss", ["adversarial", "sparsemap"])
def test_all_solvers_find_the_same_weights(loss):
    X, y = tracked(12, turnover=0.1)
    structure = Matchings()
    losses = {
        "adversarial": Adversarial(structure, Hamming(), smoothing=0.2),
        "sparsemap": FenchelYoung(structure, "euclidean"),
    }
    scorer = Pairs(X, [(np.ones((x.shape[0], 1)), np.ones((x.shape[1], 1))) for x in X])
    v = structure.encode([np.r_[p, np.full(max(x.shape[:2]) - len(p), -1)] for x, p in zip(X, y, strict=True)])
    results = [
        solver.minimize(scorer, losses[loss], v, 0.1)
        for solver in (LBFGS(tol=1e-7), DualProjected(tol=1e-5), BlockFrankWolfe(tol=1e-4, random_state=0))
    ]
    best = results[0]
    for result in results:
        assert result.converged
        assert best.value - 1e-9 <= result.value <= best.value + result.gap + 1e-9
        assert np.linalg.norm(result.w - best.w) <= np.sqrt(2 * result.gap / 0.1) + 1e-6


def test_dual_steps_go_on_from_where_they_were_and_refuse_what_they_cannot():
    X, y = tracked(6, turnover=0.0)
    scorer, v, loss = Pairs(X), Birkhoffs().encode(y), Adversarial(Birkhoffs(), Hamming(), smoothing=0.2)
    first = DualProjected(tol=1e-4).minimize(scorer, loss, v, 0.1)
    again = DualProjected(tol=1e-4).minimize(scorer, loss, v, 0.1, dual=first.dual)
    assert again.n_iter == 0
    assert again.converged
    with pytest.raises(IncompatiblePair, match="kinks"):
        DualProjected().minimize(scorer, Adversarial(Birkhoffs(), Hamming()), v, 0.1)
    with pytest.raises(InvalidInput, match="alpha > 0"):
        DualProjected().minimize(scorer, loss, v, 0.0)


def test_a_random_field_enumerates_few_matchings_and_refuses_many():
    theta = np.random.default_rng(11).normal(size=(3, 3))
    scores = np.array([theta[np.arange(3), p].sum() for p in itertools.permutations(range(3))])
    truth = np.eye(3)
    enumerated = CRF(Birkhoff(3), enumerated=True)
    assert enumerated.value(theta, truth) == pytest.approx(np.log(np.exp(scores).sum()) - np.trace(theta))
    weights = np.exp(scores) / np.exp(scores).sum()
    mean = sum(w * np.eye(3)[list(p)] for w, p in zip(weights, itertools.permutations(range(3)), strict=True))
    np.testing.assert_allclose(enumerated.predict(theta), mean, atol=1e-14)
    theta[0, 0] = -np.inf
    assert enumerated.predict(theta)[0, 0] == 0
    mu = CRF(Matching(2, 2), enumerated=True).predict(np.zeros((2, 3)))
    assert mu[0, 0] == pytest.approx(2 / 7)  # of seven matchings
    with pytest.raises(InvalidInput, match="listing them would not fit"):
        CRF(Birkhoff(12), enumerated=True).predict(np.zeros((12, 12)))
    with pytest.raises(IntractableOracle, match="#P-complete"):
        Matching(2, 2).marginals(np.zeros((2, 3)))
    X, y = tracked(4, objects=8, turnover=0.0)
    with pytest.raises(InvalidInput, match="up to 6 elements, but sample 0 has 8"):
        BipartiteMatcher("crf").fit(X, y)


# -- the estimator -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"smoothing": 0.0}, {"loss": "hinge"}, {"loss": "crf"}, {"loss": "sparsemap"}])
def test_every_loss_learns_to_follow_boxes(options, tmp_path):
    X, y = tracked(40, objects=3, turnover=0.1)
    model = BipartiteMatcher(alpha=0.03, tol=1e-2, random_state=0, unmatched_cost=0.5, **options).fit(X[:25], y[:25])
    assert model.converged_
    assert model.score(X[25:], y[25:]) > 0.9
    answers = model.predict(X[25:])
    assert model.score(X[25:], y[25:]) == pytest.approx(
        1 - np.mean([np.mean(a != t) for a, t in zip(answers, y[25:], strict=True)])
    )
    fenchel.save(model, tmp_path / "model.fenchel")
    again = fenchel.load(tmp_path / "model.fenchel").predict(X[25:])
    assert all(map(np.array_equal, answers, again))


@pytest.mark.parametrize("solver", ["bcfw", "dual_projected", "lbfgs"])
def test_a_saved_model_goes_on_where_it_was(solver, tmp_path):
    X, y = tracked(10, objects=3, turnover=0.1)
    model = BipartiteMatcher(alpha=0.1, solver=solver, warm_start=True, tol=1e-2, random_state=0).fit(X, y)
    fenchel.save(model, tmp_path / "model.fenchel")
    again = fenchel.load(tmp_path / "model.fenchel").fit(X, y)
    assert again.n_iter_ == 1
    np.testing.assert_allclose(again.coef_, model.coef_)


def test_what_is_played_at_random_has_the_marginals_as_its_mean():
    X, y = tracked(20, objects=4, turnover=0.2, noise=0.3, seed=3)
    model = BipartiteMatcher(alpha=1.0).fit(X, y)
    marginals, played = model.predict_marginals(X), model.decision_distribution(X)
    for mu, (weights, answers), x in zip(marginals, played, X, strict=True):
        assert mu.shape == (x.shape[0], x.shape[1] + 1)
        np.testing.assert_allclose(mu.sum(axis=1), 1)
        mean = np.zeros_like(mu)
        for weight, answer in zip(weights, answers, strict=True):
            mean[np.arange(len(answer)), answer] += weight  # -1 is the last column
        np.testing.assert_allclose(mean, mu, atol=1e-4)
    i = int(np.argmax([len(weights) for weights, _ in played]))
    draws = [model.sample_predictions(X[i : i + 1], random_state=seed)[0] for seed in range(400)]
    mean = np.mean([np.eye(X[i].shape[1] + 1)[d] for d in draws], axis=0)
    assert np.abs(mean - marginals[i]).max() < 0.12


def test_two_tables_and_a_function_of_pairs():
    def distance(A, B):
        return -np.abs(np.asarray(A)[:, None, :] - np.asarray(B)[None, :, :])

    rng = np.random.default_rng(12)
    A = rng.normal(size=(6, 2))
    order = rng.permutation(6)
    B = A[order] + 0.01 * rng.normal(size=(6, 2))
    model = BipartiteMatcher(pair_features=distance, alpha=0.01).fit((A, B), np.argsort(order))
    np.testing.assert_array_equal(model.match(A, B), np.argsort(order))
    assert model.score([(A, B)], [np.argsort(order)]) == 1.0
    assert model.match(A[:1], B[:1]).shape == (1,)
    with pytest.raises(InvalidInput, match="needs pair_features"):
        BipartiteMatcher().match(A, B)
    with pytest.raises(InvalidInput, match="unmatched='allowed'"):
        model.match(A[:2], B)


def test_features_of_elements_alone_take_the_place_of_the_indicators():
    rng = np.random.default_rng(13)
    X, y = [], []
    for _ in range(30):  # an element leaves when its own feature says so
        leaves = rng.random(3) < 0.4
        X.append((np.eye(3)[:, :, None] + 0.1 * rng.normal(size=(3, 3, 1)), leaves[:, None] * 1.0, np.zeros((3, 1))))
        y.append(np.where(leaves, -1, np.arange(3)))
    model = BipartiteMatcher(alpha=1e-3).fit(X, y)
    assert model.score(X, y) == 1.0
    assert model.coef_.shape == (1,)
    assert model.unmatched_coef_.shape == (2,)
    with pytest.raises(InvalidInput, match="triples"):
        model.predict([x[0] for x in X])


def test_alpha_is_chosen_and_weights_of_samples_count():
    X, y = tracked(15, objects=3, turnover=0.0)
    model = BipartiteMatcher(alpha="cv", tol=1e-2, max_iter=50).fit(X, y)
    assert model.alpha_ in model.cv_results_["alpha"]
    some = BipartiteMatcher(alpha=0.1, tol=1e-6).fit(X, y, sample_weight=np.r_[np.ones(10), np.zeros(5)])
    fewer = BipartiteMatcher(alpha=0.1, tol=1e-6).fit(X[:10], y[:10])
    np.testing.assert_allclose(some.coef_, fewer.coef_, atol=1e-3)


def test_pairs_without_features_are_never_matched():
    X, y = tracked(12, objects=3, turnover=0.2, seed=2)
    model = BipartiteMatcher(unmatched="allowed").fit(X, y)
    x = X[0].copy()
    partner = model.predict([x])[0][0]
    x[0, partner] = np.nan
    assert model.predict([x])[0][0] != partner
    stacked = np.stack([X[0], X[0]])
    stacked[1, 0, partner] = np.nan
    assert model.predict(stacked)[1][0] != partner
    stacked[1, 0, partner, 1:] = 0.0
    with pytest.raises(InvalidInput, match="sample 1 holds NaN"):
        model.predict(stacked)
    x[:] = np.nan
    assert (model.predict([x])[0] == -1).all()
    again = BipartiteMatcher(unmatched="allowed").fit([*X, x], [*y, np.full(len(x), -1)])
    np.testing.assert_allclose(again.coef_, model.coef_, atol=0.2)


def test_empty_sets_and_no_items():
    X, y = tracked(10, objects=3, turnover=0.2)
    nobody = np.zeros((0, 2, 6))
    model = BipartiteMatcher(unmatched="allowed").fit([*X, nobody, np.zeros((2, 0, 6))], [*y, [], [-1, -1]])
    answers = model.predict([nobody, X[0], np.zeros((2, 0, 6))])
    assert len(answers[0]) == 0
    assert len(answers[1]) == X[0].shape[0]
    assert (answers[2] == -1).all()
    assert model.predict([]) == []
    one = BipartiteMatcher().fit(np.ones((2, 1, 1, 1)), [[0], [0]])
    assert one.predict(np.ones((1, 1, 1, 1)))[0].tolist() == [0]


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ([np.zeros((2, 2))], [[0, 1]], r"sample 0 has shape \(2, 2\)"),
        ([np.array([[[np.nan, 1.0]]])], [[0]], "sample 0 holds NaN"),
        ([np.full((1, 1, 1), np.nan)], [[0]], "features of that pair are NaN"),
        ([np.zeros((2, 2, 1)), np.zeros((2, 2, 2))], [[0, 1]] * 2, "sample 1 has 2 features"),
        ([np.zeros((2, 2, 1))], [[0, 0]], "one element two partners"),
        ([np.zeros((2, 2, 1))], [[0, 2]], "from 0 to 1, or -1"),
        ([np.zeros((2, 2, 1))], [[0]], "expected 2 whole numbers"),
        ([np.zeros((2, 2, 1))], [], "X has 1 items but y has 0"),
        ([], [], "no pairs of sets"),
        ("boxes", [], "expected a list"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_the_inputs_is_said(X, y, message):
    with pytest.raises(InvalidInput, match=message):
        BipartiteMatcher().fit(X, y)


def test_what_is_wrong_with_the_parameters_is_said():
    X, y = tracked(6, objects=3, turnover=0.4, seed=1)
    with pytest.raises(InvalidInput, match="unmatched='forbidden', but sample"):
        BipartiteMatcher(unmatched="forbidden").fit(X, y)
    with pytest.raises(InvalidInput, match="loss is 'hing'"):
        BipartiteMatcher("hing").fit(X, y)
    model = BipartiteMatcher().fit(X, y)
    with pytest.raises(InvalidInput, match="sample 0 has 2 features of pairs, training had 6"):
        model.predict([np.zeros((2, 2, 2))])


# -- boxes -------------------------------------------------------------------------------------------------------------


def test_boxes_are_read_with_and_without_a_header(tmp_path):
    plain, named, detected = tmp_path / "gt.txt", tmp_path / "gt.csv", tmp_path / "det.csv"
    plain.write_text("2,7,1,2,3,4,1,-1,-1,-1\n1,7,0,2,3,4,1,-1,-1,-1\n\n")
    named.write_text("frame,id,left,top,width,height,conf\n1,7,0,2,3,4,1\n2,7,1,2,3,4,0\n")
    detected.write_text("frame,left,top,width,height,conf\n1,0,2,3,4,0.5\n")
    for path in (plain, named):
        boxes = read_boxes(path)
        assert boxes.frame.tolist() == [1, 2]
        assert boxes.id.tolist() == [7, 7]
        assert boxes.box.tolist() == [[0, 2, 3, 4], [1, 2, 3, 4]]
    assert read_boxes(named).confidence.tolist() == [1, 0]
    unknown = read_boxes(detected)
    assert unknown.id.tolist() == [-1]
    assert unknown.confidence.tolist() == [0.5]
    with pytest.raises(InvalidInput, match="have no id"):
        frame_pairs(unknown)
    for text, message in (("1,2,x,4,5,6\n", "line 1"), ("1,7,0,0,0,5\n", "above 0"), ("frame,left\n1,2\n", "'top'")):
        plain.write_text(text)
        with pytest.raises(InvalidInput, match=message):
            read_boxes(plain)


def test_features_of_boxes_by_hand():
    first, second = np.array([[0.0, 0.0, 2.0, 4.0]]), np.array([[2.0, 0.0, 2.0, 4.0], [0.0, 0.0, 4.0, 2.0]])
    features = box_features(first, second, motion=np.array([[2.0, 0.0]]))[0]
    np.testing.assert_allclose(features[0], [0, 1, 0.5, 0, 0, 0])
    np.testing.assert_allclose(features[1, 0], 4 / 12)
    np.testing.assert_allclose(features[1, 4:], [0, np.log(4)])


def test_pairs_of_frames_know_who_entered_left_and_how_they_moved(tmp_path):
    path = tmp_path / "gt.txt"
    lines = ["1,1,0,0,2,4", "1,2,50,0,2,4", "2,1,1,0,2,4", "2,3,90,0,2,4", "3,3,90,0,2,4", "3,1,2,0,2,4", "7,1,2,0,2,4"]
    path.write_text("\n".join(lines))
    pairs = frame_pairs(read_boxes(path))
    assert [pair.frames for pair in pairs] == [(1, 2), (2, 3)]
    assert pairs[0].partners.tolist() == [0, -1]
    assert pairs[1].partners.tolist() == [1, 0]
    assert pairs[1].features[0, 1, 1] == 1.0  # the first moved as it had before
    assert pairs[1].features[0, 1, 0] < 1.0
    assert [pair.frames for pair in frame_pairs(read_boxes(path), step=2)] == [(1, 3)]
    path.write_text("1,1,0,0,2,4\n2,1,0,0,2,4\n2,1,9,0,2,4\n")
    with pytest.raises(InvalidInput, match="two boxes with the same id"):
        frame_pairs(read_boxes(path))


def test_generated_boxes_enter_and_leave():
    boxes = moving_boxes(50, 6, turnover=0.1, random_state=0)
    again = moving_boxes(50, 6, turnover=0.1, random_state=0)
    np.testing.assert_array_equal(boxes.box, again.box)
    partners = np.concatenate([pair.partners for pair in frame_pairs(boxes)])
    assert 0.02 < np.mean(partners < 0) < 0.3
    assert (
        np.concatenate([p.partners for p in frame_pairs(moving_boxes(9, 4, turnover=0.0, random_state=1))]) >= 0
    ).all()


def test_the_picture_links_what_was_predicted():
    boxes = [[0, 0, 10, 20], [40, 5, 10, 20], [80, 5, 10, 20]]
    ax = draw(boxes, boxes[:2], [1, -1, 0], truth=[0, 1, -1])
    assert {text.get_text() for text in ax.get_legend().get_texts()} == {"wrong", "true"}
    assert [patch.get_linestyle() for patch in ax.patches] == ["-", ":", "-", "-", "-"]
    assert len(ax.lines) == 5  # two predicted, two true, and the border between the frames
    assert len(draw(boxes, boxes, [0, 1, 2]).lines) == 4
    with pytest.raises(InvalidInput, match="expected 3 partners"):
        draw(boxes, boxes, [0, 1])
    with pytest.raises(InvalidInput, match="left, top, width, height"):
        draw([[0, 0]], boxes, [0])


def test_the_double_oracle_still_plays_matchings():
    theta = np.random.default_rng(14).normal(size=(3, 4, 4))
    assert isinstance(MatchingGame(Birkhoff(4), Hamming()).general, DoubleOracle)
    np.testing.assert_allclose(
        DoubleOracle(Birkhoff(4), Hamming()).solve(theta).value,
        find_game(Birkhoff(4), Hamming()).solve(theta).value,
        atol=1e-6,
    )
