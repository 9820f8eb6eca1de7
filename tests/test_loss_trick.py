"""The loss trick: weights, searches and costs against their definitions, and what the theorems promise, measured."""

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils.estimator_checks import parametrize_with_checks

import fenchel
from fenchel import LossTrickPredictor, costs
from fenchel._core.parallel import split_always
from fenchel.decoders.answers import (
    Candidates,
    Histogram,
    Line,
    PreImage,
    Ranking,
    Rotations,
    Sphere,
    StructureAnswers,
    WeightedMean,
)
from fenchel.errors import IncompatiblePair, InvalidInput
from fenchel.experiments.loss_trick_ranking import _surrogate
from fenchel.optim import feedback_arc_set
from fenchel.solvers import kernel_ridge
from fenchel.solvers.block_tridiagonal import BlockTridiagonal
from fenchel.solvers.kernel_ridge import ExactRidge, KernelSource, NystromRidge
from fenchel.structures import Cube, OrderSimplex, Simplex

some_seeds = given(st.integers(0, 2**32 - 1))
few = settings(deadline=None, max_examples=20)


def histograms(rng, n, d, zeros=0.3):
    rows = rng.dirichlet(np.ones(d), n) * (rng.random((n, d)) > zeros)
    rows[rows.sum(axis=1) == 0, 0] = 1
    return rows / rows.sum(axis=1, keepdims=True)


def unit_vectors(rng, n, d):
    points = rng.normal(size=(n, d))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def signed_weights(rng, rows, n):
    """As ridge weights are: some negative, sums near one or not at all."""
    weights = rng.normal(0.3, 1, (rows, n))
    weights[0] = -np.abs(weights[0])
    return weights


# -- weights -----------------------------------------------------------------------------------------------------------


def test_weights_are_those_of_the_formula_and_of_scikit_learn():
    rng = np.random.default_rng(0)
    X, T, y, alpha = rng.normal(size=(40, 3)), rng.normal(size=(7, 3)), rng.normal(size=(40, 2)), 1e-3
    model = LossTrickPredictor("squared", kernel_params={"gamma": 0.4}, alpha=alpha, answers=WeightedMean()).fit(X, y)
    K, Kx = rbf_kernel(X, gamma=0.4), rbf_kernel(T, X, gamma=0.4)
    expected = np.linalg.solve(K + 40 * alpha * np.eye(40), Kx.T).T
    np.testing.assert_allclose(model.weights(T), expected, atol=1e-9)
    # scikit-learn's ridge parameter is n λ
    ridge = KernelRidge(alpha=40 * alpha, kernel="rbf", gamma=0.4).fit(X, y)
    np.testing.assert_allclose(model.predict(T), ridge.predict(T), atol=1e-9)
    given_kernel = LossTrickPredictor("squared", kernel="precomputed", alpha=alpha).fit(K, y)
    np.testing.assert_allclose(given_kernel.weights(Kx), expected, atol=1e-9)


def test_the_answer_of_least_squared_cost_is_the_mean_over_the_sum_of_weights():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(30, 2)), rng.normal(size=30)
    model = LossTrickPredictor("squared", answers=Line(-10, 10), alpha=0.01).fit(X, y)
    weights = model.weights(X)
    np.testing.assert_allclose(model.predict(X), weights @ y / weights.sum(axis=1), atol=1e-6)


def test_sample_weights_count_like_repeated_examples():
    rng = np.random.default_rng(2)
    X, y, times = rng.normal(size=(15, 2)), rng.normal(size=15), rng.integers(0, 4, 15)
    T = rng.normal(size=(5, 2))
    for options in ({}, {"solver": "nystrom", "n_centres": 15}):
        weighted = LossTrickPredictor("cauchy", alpha=0.01, **options).fit(X, y, sample_weight=times)
        repeated = LossTrickPredictor("cauchy", alpha=0.01).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
        together = np.add.reduceat(
            np.column_stack([repeated.weights(T), np.zeros(5)]), np.cumsum([0, *times[:-1]]), axis=1
        )
        np.testing.assert_allclose(weighted.weights(T)[:, times > 0], together[:, times > 0], atol=1e-6)
        assert np.abs(weighted.weights(T)[:, times == 0]).max() < 1e-6


@pytest.mark.parametrize("system", ["exact", "spectrum", "nystrom"])
@pytest.mark.parametrize("weighted", [False, True])
def test_leaving_one_out_in_closed_form_is_leaving_one_out(system, weighted):
    rng = np.random.default_rng(3)
    n, alphas = 12, np.array([0.3, 0.01])
    X, E = rng.normal(size=(n, 2)), rng.normal(size=(n, 3))
    roots = np.sqrt(rng.uniform(0.2, 2, n)) if weighted else None
    if weighted:
        roots /= np.sqrt(np.mean(roots**2))
    s = np.ones(n) if roots is None else roots**2
    source, centres = KernelSource(X, "rbf", {"gamma": 1.0}), np.array([0, 3, 4, 9])
    ridge = (
        NystromRidge(source, centres, roots)
        if system == "nystrom"
        else ExactRidge(source, roots, many=system != "exact")
    )
    K = rbf_kernel(X, gamma=1.0)
    basis = centres if system == "nystrom" else np.arange(n)

    def left_out(alpha, i):
        """Weights at input i by solving for the functions of the basis kernels without example i."""
        rest = np.delete(np.arange(n), i)
        B = K[np.ix_(rest, basis)]
        H = B.T @ (s[rest, None] * B) + n * alpha * K[np.ix_(basis, basis)]
        weights = np.zeros(n)
        weights[rest] = (K[i, basis] @ np.linalg.pinv(H, rcond=1e-13) @ B.T) * s[rest]
        return weights

    expected = np.array([[left_out(alpha, i) for i in range(n)] for alpha in alphas])
    for alpha, weights in zip(alphas, expected, strict=True):
        ridge.set_alpha(alpha)
        np.testing.assert_allclose(ridge.leave_one_out_weights(np.arange(n)), weights, atol=1e-6)
        np.testing.assert_allclose(ridge.leave_one_out_means(np.array([1, 5]), E), (weights @ E)[[1, 5]], atol=1e-6)
    errors = [(s * ((E - weights @ E) ** 2).sum(axis=1)).mean() for weights in expected]
    np.testing.assert_allclose(ridge.leave_one_out_errors(alphas, E), errors, rtol=1e-6)


@pytest.mark.parametrize(("n", "width"), [(1, 4), (4, 4), (5, 4), (9, 4), (12, 4), (61, 5), (600, 48)])
def test_block_tridiagonal_form_has_the_inverses_of_the_matrix(n, width):
    rng = np.random.default_rng(n)
    A = rng.normal(size=(n, n))
    A = A @ A.T
    with split_always():
        form = BlockTridiagonal(A.copy(), width)
    np.testing.assert_allclose(form.Q @ form.Q.T, np.eye(n), atol=1e-12)
    right = rng.normal(size=(n, 2))
    ridges = np.array([0.3, 5.0])
    inverses = [np.linalg.inv(A + r * np.eye(n)) for r in ridges]
    np.testing.assert_allclose(form.inverse_diagonals(ridges), [np.diag(G) for G in inverses], rtol=1e-8)
    np.testing.assert_allclose(form.inverse_diagonals(ridges, np.array([n - 1]))[:, 0], [G[-1, -1] for G in inverses])
    for ridge, G, solved in zip(ridges, inverses, form.solve_each(ridges, right), strict=True):
        form.set_ridge(ridge)
        np.testing.assert_allclose(solved, G @ right, atol=1e-9)
        np.testing.assert_allclose(form.solve(right), G @ right, atol=1e-9)
        np.testing.assert_allclose(form.inverse_rows(np.array([0, n - 1])), G[[0, n - 1]], atol=1e-9)


def test_a_singular_kernel_takes_any_alpha_and_one_that_is_no_kernel_is_refused():
    x = np.linspace(0, 1, 150)[:, None]
    options = {"kernel": "linear", "answers": WeightedMean()}
    model = LossTrickPredictor("squared", alpha=[1e-3, 1e-17], **options).fit(x, x[:, 0])
    np.testing.assert_allclose(model.predict(x), x[:, 0], atol=1e-2)
    model = LossTrickPredictor("squared", alpha=[1e-3, 1e-2], kernel="precomputed", answers=WeightedMean())
    with pytest.raises(InvalidInput, match="not positive semi-definite"):
        model.fit(-np.ones((3, 3)), np.arange(3.0))


def test_all_inputs_as_centres_are_exact_and_both_solutions_agree(monkeypatch):
    rng = np.random.default_rng(4)
    X, T, E = rng.normal(size=(60, 2)), rng.normal(size=(9, 2)), rng.normal(size=(60, 1))
    monkeypatch.setattr(kernel_ridge, "_CG_CENTRES", 40)
    source = KernelSource(X, "rbf", {"gamma": 0.5})
    exact, all_centres = ExactRidge(source), NystromRidge(source, np.arange(60))
    some = NystromRidge(source, np.arange(0, 60, 1)[:50])
    for ridge in (exact, all_centres, some):
        ridge.set_alpha(1e-3)
    np.testing.assert_allclose(
        all_centres.weights(all_centres.features(T)), exact.weights(exact.features(T)), atol=1e-6
    )
    by_gradients = some.features(T) @ some.coefficients(E)
    assert some._vectors is None, "few targets are to go by conjugate gradients"
    by_factors = some.weights(some.features(T)) @ E
    np.testing.assert_allclose(by_gradients, by_factors, atol=1e-6)


def test_centres_approach_the_exact_answer():
    rng = np.random.default_rng(5)
    X = rng.uniform(-1, 1, (600, 2))
    y = np.sin(3 * X[:, 0]) * X[:, 1]
    T = rng.uniform(-1, 1, (50, 2))
    options = {"answers": WeightedMean(), "alpha": 1e-5, "kernel_params": {"gamma": 2.0}, "random_state": 0}
    exact = LossTrickPredictor("squared", **options).fit(X, y).predict(T)
    off = [
        np.abs(
            LossTrickPredictor("squared", solver="nystrom", n_centres=m, **options).fit(X, y).predict(T) - exact
        ).max()
        for m in (10, 40, 160)
    ]
    assert off[2] < 1e-3 < off[0]
    assert off[2] < off[1] < off[0]


def test_the_chosen_alpha_has_the_least_cost_left_out():
    rng = np.random.default_rng(6)
    X = rng.uniform(-1, 1, (80, 1))
    y = np.sin(4 * X[:, 0]) + 0.3 * rng.normal(size=80)
    for options in ({}, {"solver": "nystrom", "n_centres": 40, "random_state": 0}):
        model = LossTrickPredictor("absolute", alpha="loo", kernel_params={"gamma": 5.0}, **options).fit(X, y)
        results = model.cv_results_
        decoded = np.isfinite(results["mean_cost"])
        assert decoded.sum() == 3
        assert results["surrogate_error"][decoded].max() <= results["surrogate_error"][~decoded].min()
        assert model.alpha_ == results["alpha"][np.nanargmin(results["mean_cost"])]
        again = clone(model).set_params(alpha=model.alpha_).fit(X, y)
        np.testing.assert_allclose(model.predict(X), again.predict(X), atol=1e-5)
    assert 1e-5 < model.alpha_ < 1


def test_memory_is_refused_early_with_the_number_of_bytes():
    X = np.zeros((3000, 1))
    with pytest.raises(InvalidInput, match=f"needs {16 * 3000**2} bytes, max_memory is 1000000"):
        LossTrickPredictor(max_memory=10**6, solver="exact").fit(X, np.zeros(3000))
    with pytest.raises(InvalidInput, match=r"100 centres needs \d+ bytes"):
        LossTrickPredictor(max_memory=10**6, solver="nystrom", n_centres=100).fit(X, np.zeros(3000))
    model = LossTrickPredictor(n_centres=20, solver="nystrom").fit(np.arange(50.0)[:, None], np.arange(50.0))
    with pytest.raises(InvalidInput, match="the weights of 60 inputs need 24000 bytes"):
        model.set_params(max_memory=10**4).weights(np.zeros((60, 1)))


# -- searches ----------------------------------------------------------------------------------------------------------

NUMBER_COSTS = [
    costs.SquaredError(), costs.Absolute(), costs.Huber(0.3), costs.Cauchy(0.2), costs.GemanMcClure(0.3), costs.Fair(),
    costs.L2L1(0.5), costs.EpsilonInsensitive(0.2), costs.Pinball(0.8), costs.LogisticCost(), costs.HingeCost(),
]  # fmt: skip


@pytest.mark.parametrize("cost", NUMBER_COSTS, ids=repr)
def test_line_finds_the_least_of_a_dense_grid(cost):
    rng = np.random.default_rng(7)
    truths, weights = rng.normal(size=12), signed_weights(rng, 10, 12)
    search = Line(-3, 3).search(cost, truths)
    answers = search.answers(weights)
    dense = np.linspace(-3, 3, 60001)
    least = (weights @ cost.between(dense, truths).T).min(axis=1)
    scale = np.abs(weights).sum(axis=1)
    assert np.all(search.costs(weights, answers) <= least + 1e-7 * scale)
    assert answers.min() >= -3
    assert answers.max() <= 3


@few
@some_seeds
def test_hellingers_formula_is_the_minimum_over_histograms(seed):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 6))
    truths, weights = histograms(rng, 7, d), signed_weights(rng, 4, 7)
    cost = costs.Hellinger()
    search = Histogram().search(cost, truths)
    answers = search.answers(weights @ search.embedding)
    np.testing.assert_allclose(answers.sum(axis=1), 1)
    values = search.costs(weights @ search.embedding, answers)
    np.testing.assert_allclose(values, (weights * cost.between(answers, truths)).sum(axis=1), atol=1e-9)
    others = np.concatenate([histograms(rng, 3000, d), np.eye(d)])
    assert np.all(values <= (weights @ cost.between(others, truths).T).min(axis=1) + 1e-9)
    # and by numerical minimisation over directions of the roots
    for w, value in zip(weights, values, strict=True):
        c = w @ np.sqrt(truths)

        def objective(u, c=c, w=w):
            square = u**2 / (u @ u + 1e-300)
            return 2 * w.sum() - 2 * c @ np.sqrt(square)

        found = min(minimize(objective, rng.random(d) + 0.1, method="Nelder-Mead").fun for _ in range(2))
        assert value <= found + 1e-9


def test_no_positive_entry_gives_the_vertex_of_the_largest():
    truths = np.array([[0.5, 0.5, 0.0], [0.0, 1.0, 0.0]])
    search = Histogram().search(costs.Hellinger(), truths)
    assert search.answers(np.array([[-1.0, -0.2]]) @ search.embedding).tolist() == [[0.0, 0.0, 1.0]]
    assert search.answers(np.zeros((1, 2)) @ search.embedding).tolist() == [[1.0, 0.0, 0.0]]


@pytest.mark.parametrize("cost", [costs.Hellinger(squared=False), costs.ChiSquared()], ids=repr)
def test_moving_mass_ends_below_all_training_outputs_and_where_no_step_helps(cost):
    rng = np.random.default_rng(8)
    truths, weights = histograms(rng, 15, 4), signed_weights(rng, 8, 15) / 15
    search = Histogram(precision=1e-3).search(cost, truths)
    answers = search.answers(weights)
    values = search.costs(weights, answers)
    np.testing.assert_allclose(answers.sum(axis=1), 1)
    assert answers.min() >= 0
    assert np.all(values <= (weights @ cost.between(truths, truths).T).min(axis=1) + 1e-12)
    step = 0.05 / 2**5
    for answer, w, value in zip(answers, weights, values, strict=True):
        for give, take in itertools.permutations(range(4), 2):
            moved = answer.copy()
            amount = min(step, moved[give])
            moved[[give, take]] += [-amount, amount]
            assert w @ cost.between(moved[None], truths)[0] >= value - 1e-6


def every_ranking(n):
    return np.array(list(itertools.permutations(range(n))))


@few
@some_seeds
def test_rankings_are_the_best_of_all_and_their_cost_has_its_constant(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 6))
    ratings = rng.integers(1, 6, (6, n)).astype(float)
    ratings[rng.random((6, n)) < 0.3] = np.nan
    weights = signed_weights(rng, 5, 6)
    for cost in (costs.RatedPairs(), costs.RatedPairs(normalized=False)):
        table = weights @ cost.between(every_ranking(n), ratings).T
        search = Ranking("exact").search(cost, ratings)
        answers = search.answers(weights)
        np.testing.assert_allclose(search.costs(weights, answers), table.min(axis=1), atol=1e-9)
        local = Ranking("local").search(cost, ratings)
        greedy = Ranking("greedy").search(cost, ratings)
        worse = [s.costs(weights, s.answers(weights)) for s in (local, greedy)]
        assert np.all(worse[0] >= table.min(axis=1) - 1e-9)
        assert np.all(worse[1] >= worse[0] - 1e-9)


def plain_greedy(D):
    """Eades, Lin and Smyth, as one would write it down."""
    left, front, back = list(range(len(D))), [], []
    while left:
        sinks = [i for i in left if not any(D[i, j] > 0 for j in left)]
        sources = [i for i in left if not any(D[j, i] > 0 for j in left)]
        if sinks and not (sources and sinks[0] in sources):
            back.insert(0, sinks[0])
            left.remove(sinks[0])
        elif sources:
            front.append(sources[0])
            left.remove(sources[0])
        else:
            best = max(left, key=lambda i: sum(D[i, j] for j in left))
            front.append(best)
            left.remove(best)
    return front + back


@few
@some_seeds
def test_feedback_arc_sets(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 8))
    P = rng.normal(size=(n, n)) * (rng.random((n, n)) < 0.7)
    D = (P - P.T) / 2

    def earned(order):
        return np.triu(D[np.ix_(order, order)], 1).sum()

    results = {method: feedback_arc_set(P, method) for method in ("exact", "local", "greedy", "auto")}
    for result in results.values():
        assert sorted(result.order) == list(range(n))
        assert np.isclose(result.earned, earned(result.order))
    best = max(earned(list(order)) for order in itertools.permutations(range(n)))
    assert np.isclose(results["exact"].earned, best)
    assert results["greedy"].earned - 1e-9 <= results["local"].earned <= best + 1e-9
    # acyclic preferences are followed to the letter
    ranks = rng.permutation(n)
    acyclic = np.sign(ranks[None, :] - ranks[:, None]) * rng.uniform(0.1, 1, (n, n))
    acyclic = np.triu(acyclic, 1) - np.triu(acyclic, 1).T
    assert np.array_equal(feedback_arc_set(acyclic, "greedy").order, np.argsort(ranks))


@pytest.mark.parametrize("n", [3, 255, 257, 301])
def test_orders_of_items_that_are_all_alike_are_orders(n):
    """Where everybody wins and loses alike flows are zero up to rounding, of either sign."""
    ahead = (np.arange(n)[None, :] - np.arange(n)[:, None]) % n
    D = np.where(ahead == 0, 0.0, np.where(ahead <= n // 2, 0.1, -0.1))
    for matrix in (D, -D, 0 * D, -0.0 * D):
        result = feedback_arc_set(matrix, "greedy")
        assert np.array_equal(np.sort(result.order), np.arange(n))
        assert np.isclose(result.earned, np.triu(matrix[np.ix_(result.order, result.order)], 1).sum())


def test_the_compiled_heuristic_earns_what_the_plain_one_does():
    rng = np.random.default_rng(9)
    for n in (5, 30, 60):
        ranks = rng.permutation(n)
        D = np.triu(ranks[None, :] - ranks[:, None] + n * rng.normal(size=(n, n)), 1)
        D -= D.T
        order = plain_greedy(D)
        assert np.isclose(feedback_arc_set(D, "greedy").earned, np.triu(D[np.ix_(order, order)], 1).sum())


@pytest.mark.parametrize("d", [2, 3])
def test_riemannian_steps_find_the_best_point_of_the_sphere(d):
    rng = np.random.default_rng(10)
    truths, weights = unit_vectors(rng, 12, d), signed_weights(rng, 6, 12)
    cost = costs.DiffusionDistance(0.8)
    search = Sphere(starts=6).search(cost, truths)
    answers = search.answers(weights)
    np.testing.assert_allclose(np.linalg.norm(answers, axis=1), 1)
    others = unit_vectors(rng, 20000, d)
    scale = np.abs(weights).sum(axis=1)
    assert np.all(
        search.costs(weights, answers) <= (weights @ cost.between(others, truths).T).min(axis=1) + 1e-6 * scale
    )


def test_angles_are_points_of_the_circle():
    rng = np.random.default_rng(11)
    angles, weights = rng.uniform(0, 2 * np.pi, 9), signed_weights(rng, 5, 9)
    cost = costs.DiffusionDistance(0.7)
    on_line = Line(0, 2 * np.pi).search(cost, angles).answers(weights)
    points = np.column_stack([np.cos(angles), np.sin(angles)])
    on_circle = Sphere(starts=5).search(cost, points).answers(weights)
    np.testing.assert_allclose(np.column_stack([np.cos(on_line), np.sin(on_line)]), on_circle, atol=1e-4)


def test_the_best_rotation_is_the_projection_of_the_mean():
    rng = np.random.default_rng(12)
    manifold = Rotations()
    truths = manifold.nearest(rng.normal(size=(8, 3, 3)))
    assert np.allclose(np.linalg.det(truths), 1)
    weights = np.abs(rng.normal(size=(4, 8)))
    answers = manifold.search(costs.SquaredError(), truths).answers(weights)
    np.testing.assert_allclose(answers, manifold.nearest(np.tensordot(weights, truths, 1)), atol=1e-4)


@few
@some_seeds
def test_one_argmax_is_the_best_of_a_structure_whatever_the_weights(seed):
    rng = np.random.default_rng(seed)
    for structure, cost in (
        (Simplex(4), costs.ZeroOne()),
        (OrderSimplex(4), costs.Absolute()),
        (Cube(3), costs.Hamming()),
        (Simplex(3), costs.CostMatrix(rng.uniform(0, 2, (3, 3)) * (1 - np.eye(3)))),
    ):
        every = structure.decode(structure.vertices())
        truths, weights = every[rng.integers(len(every), size=9)], signed_weights(rng, 6, 9)
        search = StructureAnswers(structure).search(cost, truths)
        means = weights @ search.embedding
        values = search.costs(means, search.answers(means))
        table = weights @ cost.between(every, truths).T
        np.testing.assert_allclose(values, table.min(axis=1), atol=1e-9)
        listed = Candidates(every).search(cost, truths)
        means = weights if listed.embedding is None else weights @ listed.embedding
        np.testing.assert_allclose(listed.costs(means, listed.answers(means)), table.min(axis=1), atol=1e-9)


def test_factors_do_not_cancel_far_from_zero():
    years = np.array([2000.0, 2001.0, 2002.0]) + 1e9
    search = Candidates().search(costs.SquaredError(), years)
    assert search.answers(np.array([[0.2, 0.3, 0.5]]) @ search.embedding) == 1e9 + 2001


def test_what_a_kernel_of_the_user_keeps_is_not_written_to():
    X, y = np.linspace(0, 1, 20)[:, None], np.linspace(0, 1, 20)
    kept = rbf_kernel(X)
    before = kept.copy()
    for options in ({}, {"alpha": [1e-2, 1e-3]}, {"solver": "nystrom", "n_centres": 20}):
        LossTrickPredictor(kernel=lambda A, B: kept, **options).fit(X, y, np.linspace(1, 2, 20))
        LossTrickPredictor(costs.KernelCost(lambda A, B: kept), answers="candidates", **options).fit(X, y).predict(X)
        assert np.array_equal(kept, before)


def test_what_is_no_cost_and_no_search_is_named():
    X, y = np.zeros((3, 1)), [1.0, 2.0, 3.0]
    for options, words in (
        ({"cost": costs.Cauchy}, r"cost is the class Cauchy, expected a cost: Cauchy\(...\)"),
        ({"answers": Histogram}, "answers is the class Histogram, expected an object"),
        ({"alpha": "cv"}, "alpha is 'cv', expected a number above 0, some of them, or 'loo'"),
        ({"cost": lambda a, b: "far"}, "gave 'far' for the answer 1.0 and the truth 1.0; expected a number"),
    ):
        with pytest.raises(InvalidInput, match=words):
            LossTrickPredictor(**options).fit(X, y).predict(X)


def test_rounded_histograms_are_histograms():
    rng = np.random.default_rng(20)
    X, Y = rng.normal(size=(30, 2)), rng.dirichlet(np.ones(4), 30).round(3)
    Y[0] = [0.3, 0.3, 0.2, 0.201]
    model = LossTrickPredictor("hellinger").fit(X, Y)
    assert model.answers_ == Histogram()
    expected = np.einsum("bi,bi->b", model.weights(X), costs.Hellinger().between(model.predict(X), Y))
    np.testing.assert_allclose(model.predict_cost(X), expected, atol=1e-9)


def test_searches_refuse_what_they_cannot_do():
    with pytest.raises(InvalidInput, match="the histogram of sample 1 sums to 2"):
        Histogram().search(costs.Hellinger(), np.array([[0.5, 0.5], [1.0, 1.0]]))
    with pytest.raises(IncompatiblePair, match="Ranking.. answers for the cost RatedPairs"):
        LossTrickPredictor("absolute", answers=Ranking()).fit(np.zeros((3, 1)), [1.0, 2.0, 3.0])
    with pytest.raises(InvalidInput, match="the output of sample 0 is 1 away"):
        Sphere().search(costs.SquaredError(), np.array([[2.0, 0.0]]))
    with pytest.raises(IncompatiblePair, match="has no affine form"):
        LossTrickPredictor("edit_distance", answers=Simplex(2)).fit(np.zeros((2, 1)), [0, 1])
    with pytest.raises(InvalidInput, match="compares numbers"):
        LossTrickPredictor("cauchy", answers=Line()).fit(np.zeros((2, 1)), ["a", "b"])


# -- the predictor -----------------------------------------------------------------------------------------------------


def problems():
    rng = np.random.default_rng(13)
    X = rng.uniform(-1, 1, (40, 2))
    turn = 2 * X[:, 0]
    ratings = np.where(rng.random((40, 4)) < 0.8, np.round(3 + X[:, :1] * np.array([2, 1, -1, -2])), np.nan)
    texts = ["north" if a > 0.3 else "middle" if a > -0.3 else "south" for a in X[:, 0]]
    return {
        "cauchy": (X, X[:, 0] + 0.1 * rng.normal(size=40), {}),
        "hellinger": (X, histograms(rng, 40, 5), {}),
        "chi_squared": (X, histograms(rng, 40, 3), {}),
        "rated_pairs": (X, ratings, {}),
        "diffusion": (X, np.column_stack([np.cos(turn), np.sin(turn)]), {}),
        "edit_distance": (X, texts, {}),
        "zero_one": (X, texts, {}),
        "kernel": (X, X[:, :1] ** 2, {}),
        "hamming": (X, (X > 0).astype(int), {"answers": Cube(2)}),
    }


@pytest.mark.parametrize("cost", problems())
def test_predictions_cost_what_is_said_and_no_more_than_any_training_output(cost, tmp_path):
    X, y, options = problems()[cost]
    model = LossTrickPredictor(cost, alpha=0.01, **options).fit(X, y)
    T = np.random.default_rng(14).uniform(-1, 1, (6, 2))
    answers, weights = model.predict(T), model.weights(T)
    assert len(answers) == 6
    expected = (weights * model.cost_.between(answers, model.y_fit_)).sum(axis=1)
    np.testing.assert_allclose(model.predict_cost(T), expected, atol=1e-8)
    np.testing.assert_allclose(model.predict_cost(T, answers), expected, atol=1e-8)
    if cost != "rated_pairs":  # whose truths are no answers
        table = weights @ model.cost_.between(model.y_fit_, model.y_fit_).T
        assert np.all(expected <= table.min(axis=1) + 1e-7)
    assert np.isclose(model.score(X, y), -model.cost_(model.predict(X), model.y_fit_).mean())
    again = fenchel.load(fenchel.save(model, tmp_path / "model.fenchel"))
    for other in (again, pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(other.predict(T), answers)
        np.testing.assert_allclose(other.weights(T), weights, atol=1e-9)
    chosen = LossTrickPredictor(cost, alpha=[1.0, 1e-2, 1e-4], **options).fit(X, y)
    assert chosen.alpha_ in (1.0, 1e-2, 1e-4)


def test_results_do_not_depend_on_blocks_or_threads(monkeypatch):
    X, y, _ = problems()["rated_pairs"]
    model = LossTrickPredictor("rated_pairs").fit(X, y)
    from fenchel.estimators import loss_trick

    whole = model.predict(X)
    monkeypatch.setattr(loss_trick, "_BLOCK_BYTES", 8 * 40 * 3)
    np.testing.assert_array_equal(model.predict(X), whole)
    before = fenchel.set_threads(2)
    np.testing.assert_array_equal(model.predict(X), whole)
    fenchel.set_threads(before)


def test_a_users_own_cost_and_search():
    X = np.linspace(-1, 1, 20)[:, None]
    y = [(1,) * int(3 + 2 * x) for x in X[:, 0]]  # outputs of different lengths
    model = LossTrickPredictor(
        lambda a, b: abs(len(a) - len(b)), alpha=1e-3, answers=lambda w, outputs: outputs[w.argmax()]
    ).fit(X, y)
    assert [len(a) for a in model.predict([[-1.0], [0.8]])] == [1, 4]
    listed = LossTrickPredictor(lambda a, b: abs(len(a) - len(b)), alpha=1e-3).fit(X, y)
    assert [len(a) for a in listed.predict([[-1.0], [0.8]])] == [1, 4]


@parametrize_with_checks([LossTrickPredictor(), LossTrickPredictor("zero_one", solver="nystrom")])
def test_it_is_a_scikit_learn_estimator(estimator, check):
    check(estimator)


def test_nadaraya_watson_plain_and_robust():
    rng = np.random.default_rng(15)
    X, y = rng.uniform(-1, 1, (50, 1)), rng.normal(size=50)
    K = rbf_kernel(X, gamma=3.0)
    options = {"kernel_params": {"gamma": 3.0}, "weighting": "nadaraya_watson"}
    plain = LossTrickPredictor("squared", answers=Line(-9, 9), **options).fit(X, y)
    np.testing.assert_allclose(plain.predict(X), K @ y / K.sum(axis=1), atol=1e-6)
    robust = LossTrickPredictor("cauchy", **options).fit(X, y).predict(X)
    grid = np.linspace(y.min(), y.max(), 20001)
    least = (K @ np.log1p((grid - y[:, None]) ** 2)).min(axis=1)
    value = (K * np.log1p((robust[:, None] - y) ** 2)).sum(axis=1)
    assert np.all(value <= least + 1e-7)
    far = plain.predict([[1e6]])  # all kernel values vanish
    assert np.isclose(far[0], y.mean(), atol=1e-6)


# -- costs -------------------------------------------------------------------------------------------------------------


def outputs_of(cost, rng, n):
    name = type(cost).__name__
    if name == "EditDistance":
        return np.array(["".join(rng.choice(list("abcé"), rng.integers(0, 6))) for _ in range(n)], dtype=object)
    if name == "DiffusionDistance":
        return unit_vectors(rng, n, 3)
    if name in ("Hellinger", "ChiSquared"):
        return histograms(rng, n, 4)
    if name == "KernelCost":
        return rng.normal(size=(n, 3))
    return rng.normal(size=n)


PLAIN = [*NUMBER_COSTS, costs.Hellinger(), costs.Hellinger(squared=False), costs.ChiSquared(), costs.KernelCost(),
         costs.KernelCost("poly", {"degree": 2}), costs.EditDistance(), costs.DiffusionDistance(0.3)]  # fmt: skip


@pytest.mark.parametrize("cost", PLAIN, ids=repr)
def test_costs_between_lists_are_the_costs_of_pairs(cost):
    rng = np.random.default_rng(16)
    answers, truths = outputs_of(cost, rng, 5), outputs_of(cost, rng, 7)
    table = cost.between(answers, truths)
    assert table.shape == (5, 7)
    pairs = [[cost(answers[i : i + 1], truths[j : j + 1])[0] for j in range(7)] for i in range(5)]
    np.testing.assert_allclose(table, pairs, atol=1e-9)
    assert table.min() >= 0
    factors = cost.factors(truths)
    if factors is not None:
        np.testing.assert_allclose(factors[1](answers) @ factors[0].T, table, atol=1e-9)
    if not isinstance(cost, costs.LogisticCost | costs.HingeCost):
        np.testing.assert_allclose(cost(truths, truths), 0, atol=1e-12)  # being right is free
    if not isinstance(cost, costs.Pinball):
        np.testing.assert_allclose(table, cost.between(truths, answers).T, atol=1e-12)
    with pytest.raises(IncompatiblePair, match="LossTrickPredictor"):
        cost.affine(Cube(2)) if not isinstance(cost, costs.Absolute | costs.SquaredError) else costs.Huber().affine(
            Cube(2)
        )
    assert fenchel.costs.Cost.between(cost, answers, truths) == pytest.approx(table, abs=1e-9)


@few
@given(st.text("abc", max_size=7), st.text("abc", max_size=7))
def test_edit_distance_is_the_least_number_of_changes(a, b):
    def plain(x, y):
        if not x or not y:
            return len(x) + len(y)
        return min(plain(x[1:], y) + 1, plain(x, y[1:]) + 1, plain(x[1:], y[1:]) + (x[0] != y[0]))

    assert costs.EditDistance()([a], [b])[0] == plain(a, b)


@few
@some_seeds
def test_rated_pairs_is_its_formula(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 6))
    ratings = np.where(rng.random((4, n)) < 0.7, rng.integers(1, 6, (4, n)), np.nan)
    ranks = rng.integers(0, n, (4, n))  # ties too
    gamma = np.nan_to_num(np.maximum(ratings[:, :, None] - ratings[:, None, :], 0))
    expected = 0.5 * (gamma * (1 + np.sign(ranks[:, :, None] - ranks[:, None, :]))).sum(axis=(1, 2))
    np.testing.assert_allclose(costs.RatedPairs(normalized=False)(ranks, ratings), expected)
    total = gamma.sum(axis=(1, 2))
    np.testing.assert_allclose(
        costs.RatedPairs()(ranks, ratings), np.where(total > 0, expected / np.maximum(total, 1e-9), 0)
    )


def test_the_diffusion_distance_is_how_far_apart_the_heat_is():
    t, angles = 0.4, np.array([0.0, 0.3, 2.0, 3.1])
    cost = costs.DiffusionDistance(t)
    circle = np.linspace(0, 2 * np.pi, 4096, endpoint=False)

    def heat(center):  # wound-up Gaussians, which the Fourier series is, after half the time
        wound = circle - center + 2 * np.pi * np.arange(-8, 9)[:, None]
        return np.exp(-(wound**2) / (2 * t)).sum(axis=0) / np.sqrt(2 * np.pi * t)

    apart = [((heat(a) - heat(0.0)) ** 2).mean() * 2 * np.pi for a in angles]
    np.testing.assert_allclose(cost(angles, np.zeros(4)), apart, atol=1e-10)
    # on the sphere heat sums to one
    from numpy.polynomial.legendre import leggauss

    nodes, weights = leggauss(80)
    assert np.isclose(2 * np.pi * weights @ cost.heat(nodes, 3), 1)


# -- what the theory says ----------------------------------------------------------------------------------------------


def test_zero_one_cost_gives_the_least_squares_classifier():
    rng = np.random.default_rng(17)
    X, T = rng.normal(size=(60, 2)), rng.normal(size=(200, 2))
    y = rng.integers(0, 4, 60)
    model = LossTrickPredictor("zero_one", alpha=0.01, kernel_params={"gamma": 1.0}, answers=[0, 1, 2, 3]).fit(X, y)
    by_squares = KernelRidge(alpha=60 * 0.01, kernel="rbf", gamma=1.0).fit(X, np.eye(4)[y]).predict(T)
    np.testing.assert_array_equal(model.predict(T), by_squares.argmax(axis=1))


@few
@some_seeds
def test_lemma_3_the_answer_is_the_decoded_surrogate_on_finite_spaces(seed):
    """Any cost matrix is ⟨e_ŷ, C e_y⟩; ridge regression of e_y and argmin of C ĝ is the sum over examples, term by term."""
    rng = np.random.default_rng(seed)
    k, n = int(rng.integers(2, 6)), 20
    C = rng.uniform(0, 3, (k, k))
    X, T, y = rng.normal(size=(n, 2)), rng.normal(size=(15, 2)), rng.integers(0, k, n)
    surrogate = KernelRidge(alpha=n * 0.05, kernel="rbf", gamma=0.5).fit(X, np.eye(k)[y]).predict(T)
    expected = surrogate @ C.T
    options = {"alpha": 0.05, "kernel_params": {"gamma": 0.5}}
    for answers in (Simplex(k), list(range(k))):
        model = LossTrickPredictor(C, answers=answers, **options).fit(X, y)
        every = np.array([model.predict_cost(T, np.full(15, answer)) for answer in range(k)]).T
        np.testing.assert_allclose(every, expected, atol=1e-8)
        np.testing.assert_allclose(model.predict_cost(T), expected.min(axis=1), atol=1e-8)


@few
@some_seeds
def test_theorem_2_the_comparison_inequality(seed):
    """E(d∘g) − E(f*) ≤ 2 c √(R(g) − R(g*)) on finite inputs and outputs, for the surrogate ψ(y) = e_y and any g.

    The document's constant c = ‖V‖ max ‖ψ‖ is for one of the two terms of the proof, hence the two.
    """
    rng = np.random.default_rng(seed)
    k, inputs = int(rng.integers(2, 6)), 5
    C = rng.uniform(0, 2, (k, k))
    p = rng.dirichlet(np.full(k, 0.5), inputs)  # g* is the distribution of y
    g = p + rng.normal(0, rng.choice([0.01, 0.3, 2.0]), p.shape)
    answers, best = (g @ C.T).argmin(axis=1), (p @ C.T).argmin(axis=1)
    risk = (p @ C.T)[np.arange(inputs), answers].mean() - (p @ C.T)[np.arange(inputs), best].mean()
    surrogate = ((g - p) ** 2).sum(axis=1).mean()
    assert risk <= 2 * np.linalg.norm(C, 2) * np.sqrt(surrogate) + 1e-12


def test_kernel_dependency_estimation_fails_with_a_kernel_that_is_not_normalised():
    """Where weights do not sum to one h(ŷ, ŷ) − 2 Σ α h(ŷ, y_i) prefers small h(ŷ, ŷ): here the smaller of two outputs.

    One output is seen far more often, but the penalty keeps Σ α below one half of what it should be.
    """
    X = np.zeros((20, 1))
    y = np.array([[3.0]] * 16 + [[1.0]] * 4)
    cost = costs.KernelCost("linear")
    options = {"kernel": "rbf", "alpha": 1.0}
    ours = LossTrickPredictor(cost, **options).fit(X, y)
    theirs = LossTrickPredictor(cost, answers=PreImage(), **options).fit(X, y)
    assert np.isclose(ours.weights(X[:1]).sum(), 0.5)
    assert ours.predict(X[:1]).tolist() == [[3.0]]
    assert theirs.predict(X[:1]).tolist() == [[1.0]]
    assert ours.score(X, y) > theirs.score(X, y)
    # with a normalised kernel the two are the same
    same = costs.KernelCost("rbf", {"gamma": 0.1})
    first, second = (LossTrickPredictor(same, answers=a, **options).fit(X, y).predict(X) for a in ("auto", PreImage()))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("power", [-0.25, -0.5])
def test_theorems_4_and_5_the_excess_risk_goes_to_zero_and_stays_below_its_bound(power):
    from fenchel.experiments.loss_trick_rates import excess_risks

    sizes = [30, 120, 480, 1920]
    risks, bounds = excess_risks(sizes, power, 4)
    assert risks[-1] < 0.25 * risks[0]
    assert np.all(risks <= bounds)
    slope = np.polyfit(np.log(sizes), np.log(risks), 1)[0]
    if power == -0.5:
        assert slope < -0.25, "Theorem 5 promises n^(-1/4)"


# -- experiments -------------------------------------------------------------------------------------------------------


def test_the_surrogates_of_the_ranking_experiment_have_their_gradients_and_values():
    from fenchel.experiments import loss_trick_ranking as experiment

    rng = np.random.default_rng(18)
    Y = np.where(rng.random((6, 5)) < 0.8, rng.integers(1, 4, (6, 5)), np.nan).astype(float)
    cost = costs.RatedPairs()
    ratings, scores = cost.ratings(Y), rng.normal(size=(6, 5))
    scale = cost.scale(ratings)
    every = every_ranking(5)

    def value(method, u):
        """Of one user, whose only feature is 1."""
        return experiment._Objective(np.ones((1, 1)), cost.ratings(Y[u : u + 1]), method)(scores[u][:, None])[0]

    for u in range(6):
        pairs = [(i, j) for i in range(5) for j in range(5) if Y[u, i] > Y[u, j]]

        def score(rank, u=u, pairs=pairs):  # of a ranking, over the pairs of rated items
            rated = np.flatnonzero(~np.isnan(Y[u]))
            ahead = sum(scores[u, i] - scores[u, j] for i in rated for j in rated if rank[i] < rank[j])
            return ahead / max(len(pairs), 1)

        truth = sum(scores[u, i] - scores[u, j] for i, j in pairs) / max(len(pairs), 1)
        best = max(score(rank) + cost(rank[None], Y[u : u + 1])[0] for rank in every) if pairs else truth
        assert np.isclose(value("structured hinge", u), best - truth)
        for logistic in (True, False):
            t = np.array([scores[u, i] - scores[u, j] for i, j in pairs])
            gamma = np.array([Y[u, i] - Y[u, j] for i, j in pairs])
            phi = np.log1p(np.exp(-t)) if logistic else np.maximum(1 - t, 0)
            expected = scale[u] * (gamma @ phi if pairs else 0)
            assert np.isclose(value("logistic" if logistic else "hinge", u), expected)
    X, B, step = rng.normal(size=(6, 2)), rng.normal(size=(5, 2)), 1e-6
    for method in ("structured hinge", "logistic", "hinge"):
        loss = experiment._Objective(X, ratings, method)
        before, gradient = loss(B)
        for i, k in itertools.product(range(5), range(2)):
            moved = B.copy()
            moved[i, k] += step
            assert np.isclose((loss(moved)[0] - before) / step, gradient[i, k], atol=1e-4)


def test_rankings_that_no_scores_find():
    """Preferences in a circle, 4 for a over b, 3 for b over c and 3 for c over a, from pairs that different users rated.

    Of a score for each film the sums of preferences (1, -1 and 0) put c in the middle, which breaks two arcs of 3, not one.
    """
    nan = np.nan
    votes = [[2, 1, nan]] * 44 + [[1, 2, nan]] * 40 + [[1, nan, 2]] * 3 + [[nan, 2, 1]] * 3
    X, Y = np.ones((90, 1)), np.array(votes)
    cost = costs.RatedPairs()
    ranks = np.array(list(itertools.permutations(range(3))))
    least = cost.between(ranks, Y).mean(axis=1).min()
    for method in ("exact", "greedy", "local"):
        model = LossTrickPredictor(cost, kernel="linear", alpha=1e-3, answers=Ranking(method)).fit(X, Y)
        assert np.isclose(cost.between(model.predict(X[:1]), Y).mean(), least)
    for surrogate in ("linear", "hinge", "logistic", "structured hinge"):
        (by_scores,) = _surrogate(X, Y, X[:1], surrogate, [1e-3])
        assert cost.between(by_scores, Y).mean() > least + 0.01


@pytest.mark.parametrize("name", ["robust", "digits", "loss-trick-ranking", "loss-trick-rates"])
def test_experiments_give_whole_tables(name, tmp_path):
    import json

    from fenchel.cli.main import main

    path, picture = tmp_path / "result.json", tmp_path / "picture.png"
    more = ["--picture", str(picture)] if name == "robust" else []
    assert main(["reproduce", name, "--quick", "--quiet", "--json", str(path), *more]) == 0
    result = json.loads(path.read_text())
    assert {len(row) for row in result["rows"]} == {len(result["columns"])}
    assert picture.exists() == (name == "robust")


def test_only_experiments_with_a_figure_are_drawn(tmp_path, capsys):
    from fenchel.cli.main import main

    assert main(["reproduce", "digits", "--quick", "--picture", str(tmp_path / "p.png")]) == 1
    assert "--picture is for experiments that have a figure: robust" in capsys.readouterr().err


def test_movielens_is_read_from_its_folder(tmp_path):
    from fenchel.experiments import loss_trick_ranking as experiment

    (tmp_path / "u.user").write_text("1|24|M|technician|85711\n2|53|F|other|94043\n")
    (tmp_path / "u.data").write_text("1\t1\t5\t0\n1\t3\t2\t0\n2\t1\t1\t0\n0\t2\t3\t0\n")
    facts, ratings = experiment._movielens(tmp_path)
    assert facts.shape == (2, 4)
    np.testing.assert_array_equal(ratings, [[5, np.nan, 2], [1, np.nan, np.nan]])
    with pytest.raises(InvalidInput, match=r"there is no u.data"):
        experiment.run(tmp_path / "elsewhere")
