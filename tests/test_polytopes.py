"""The hard polytopes: against a quadratic or linear program, an independent algorithm, or a count."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize

from fenchel.errors import ConvergenceWarning, IntractableOracle, InvalidInput, MissingOracle, OracleError
from fenchel.losses import FenchelYoung
from fenchel.scorers import Linear
from fenchel.solvers import LBFGS, BlockFrankWolfe
from fenchel.structures import (
    Birkhoff,
    Budget,
    Budgets,
    Cube,
    Finite,
    Oracle,
    OrderSimplex,
    Permutahedron,
    Product,
    Simplex,
)

seeds = st.integers(0, 2**32 - 1)
quick = settings(deadline=None, max_examples=25)


def by_quadratic_program(vertices, theta):
    """The projection through weights of the vertices, by SciPy's SLSQP: slow and independent."""
    flat = vertices.reshape(len(vertices), -1)
    n = len(flat)
    result = minimize(
        lambda w: 0.5 * np.sum((w @ flat - theta.ravel()) ** 2),
        np.full(n, 1 / n),
        jac=lambda w: flat @ (w @ flat - theta.ravel()),
        bounds=[(0, 1)] * n,
        constraints=[{"type": "eq", "fun": lambda w: w.sum() - 1, "jac": lambda w: np.ones(n)}],
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-14},
    )
    return (result.x @ flat).reshape(theta.shape)


SMALL = [
    Budget(4, 1, 2),
    Budget(3, 2, 2),
    Birkhoff(3),
    Permutahedron(3),
    Permutahedron([2.0, 2.0, -1.0]),
    Simplex(4),
    Cube(3),
]


@pytest.mark.parametrize("structure", SMALL, ids=repr)
def test_projections_solve_the_quadratic_program(structure):
    rng = np.random.default_rng(0)
    for scale in (0.3, 1.0, 4.0):
        theta = rng.normal(size=structure.shape) * scale
        expected = by_quadratic_program(structure.vertices(), theta)
        assert np.allclose(structure.project(theta), expected, atol=2e-5)


@pytest.mark.parametrize("structure", SMALL, ids=repr)
def test_argmax_solves_the_linear_program(structure):
    rng = np.random.default_rng(1)
    flat = structure.vertices().reshape(-1, structure.dim)
    for _ in range(5):
        theta = rng.normal(size=structure.shape)
        program = linprog(-(flat @ theta.ravel()), A_eq=np.ones((1, len(flat))), b_eq=[1])
        assert np.isclose(np.vdot(theta, structure.argmax(theta)), -program.fun)


@given(seeds, st.integers(1, 6), st.data())
@quick
def test_budget_marginals_and_projections_for_every_pair_of_bounds(seed, k, data):
    low = data.draw(st.integers(0, k))
    high = data.draw(st.integers(low, k))
    structure = Budget(k, low, high)
    theta = np.random.default_rng(seed).normal(size=(3, k)) * data.draw(st.sampled_from([0.1, 1.0, 10.0, 1e6]))
    vertices = structure.vertices()
    assert len(vertices) == structure.n_vertices
    mu = structure.project(theta)
    assert np.all(structure.violation(mu) < 1e-9 * max(1, k))
    gaps = np.einsum("ij,vij->vi", theta - mu, vertices[:, None] - mu)
    assert gaps.max() <= 1e-9 * max(1, np.abs(theta).max())
    weights, atoms = structure.decompose(mu)
    assert (weights > 0).sum(axis=1).max() <= k + 1
    assert np.allclose(np.einsum("im,imk->ik", weights, atoms), mu, atol=1e-9)


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e6, 1e12])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_budgets_keep_their_bounds_at_any_scale(scale, dtype):
    """Far scores round the threshold, but not the answer."""
    rng = np.random.default_rng(0)
    for k, low, high in [(1, 1, 1), (4, 2, 2), (6, 3, 5), (6, 6, 6), (5, 0, 2)]:
        structure = Budget(k, low, high)
        theta = (rng.normal(size=(200, k)) * scale).astype(dtype)
        theta[::4] = np.round(theta[::4] / scale) * scale
        theta[1::4] -= 3 * scale
        accuracy = 1e-12 if dtype == np.float64 else 1e-6
        for mu in (structure.project(theta), structure.kl_project(theta), structure.marginals(theta)[1]):
            assert structure.violation(mu).max() <= k * accuracy


def test_a_sum_near_a_whole_number_is_kept():
    weights, vertices = Budget(3, 0, 2).decompose([0.5, 0.25, 0.25 + 4e-7])
    assert np.allclose(weights @ vertices, [0.5, 0.25, 0.25 + 4e-7], rtol=0, atol=1e-15)


@given(seeds, st.sampled_from([1.0, 1.5, 2.0, 3.0]))
@quick
def test_the_nearest_vertex_of_any_point(seed, p):
    """Also of points that no projection gives: grades whose thresholds are in no order."""
    rng = np.random.default_rng(seed)
    for structure in (OrderSimplex(5), Product(OrderSimplex(3), 2), Simplex(4), Budget(5, 1, 2), Permutahedron(4)):
        point = rng.normal(size=structure.shape) * 2
        distances = (np.abs(structure.vertices() - point) ** p).reshape(structure.n_vertices, -1).sum(axis=1)
        near = structure.nearest(point, p)
        structure.decode(near)
        assert (np.abs(near - point) ** p).sum() <= distances.min() + 1e-9


def test_vertices_are_decoded_in_the_type_they_come_in():
    for structure in (Permutahedron([0.3, 0.1, -0.7]), Finite([[0.1, 0.2], [0.3, 0.7]])):
        theta = np.random.default_rng(0).normal(size=(5, *structure.shape))
        vertices = structure.argmax(theta.astype(np.float32))
        assert np.array_equal(structure.decode(vertices), structure.decode(structure.argmax(theta)))
        with pytest.raises(InvalidInput, match="is no vertex"):
            structure.decode(vertices + np.float32(1e-6))


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6, 1e12])
def test_a_projection_can_be_decomposed_and_sampled_whatever_the_size_of_the_set(scale):
    structure = Permutahedron(np.array([3.0, 1.0, 0.2]) * scale)
    mu = structure.project(np.array([1.0, 2.0, 3.0]) * scale)
    weights, vertices = structure.decompose(mu)
    assert np.allclose(weights @ vertices, mu, rtol=1e-9, atol=0)
    structure.decode(structure.sample(mu, rng=0))
    many = Permutahedron(2000)
    soft = many.project(np.random.default_rng(0).normal(size=2000).astype(np.float32) * 300)
    many.decode(many.sample(soft, rng=0))


def test_a_budget_without_bounds_is_the_cube():
    theta = np.random.default_rng(0).normal(size=(50, 6)) * 3
    for oracle in ("argmax", "project", "kl_project"):
        assert np.allclose(getattr(Budget(6, 0, 6), oracle)(theta), getattr(Cube(6), oracle)(theta))
    assert np.allclose(Budget(6, 0, 6).marginals(theta)[0], Cube(6).marginals(theta)[0])
    assert np.allclose(Budget(6, 1, 1).project(theta), Simplex(6).project(theta))
    assert np.allclose(Budget(6, 1, 1).kl_project(theta), Simplex(6).kl_project(theta))
    assert np.allclose(Budget(6, 1, 1).marginals(theta)[1], Simplex(6).marginals(theta)[1])


@pytest.mark.parametrize("bounds", [(3, 2), (0, 6), (-1, 2), (4, 6)])
def test_an_empty_budget_is_refused(bounds):
    with pytest.raises(InvalidInput, match=r"empty|expected a whole number >= 0"):
        Budget(5, *bounds)


class TestPermutahedron:
    @pytest.mark.parametrize("n", [2, 7, 60])
    def test_rows_near_and_far_are_the_same_alone_and_together(self, n):
        """Near scores are projected by their values, far ones by their order; a batch goes one way."""
        rng = np.random.default_rng(n)
        theta = rng.normal(size=(40, n)) * np.geomspace(1e-3, 1e2, 40)[:, None]
        theta[::3] = np.round(theta[::3])  # ties
        structure = Permutahedron(n)
        together = structure.project(theta)
        alone = np.stack([structure.project(row) for row in theta])
        near = structure.project(np.concatenate([theta, np.zeros((8000, n))]))[:40]
        scale = np.abs(theta).max(axis=1, keepdims=True) + n
        assert np.all(np.abs(together - alone) <= 1e-13 * scale)
        assert np.all(np.abs(near - alone) <= 1e-13 * scale)
        best = structure.argmax(theta - alone)
        assert np.all(((theta - alone) * (best - alone)).sum(axis=1) <= 1e-9 * scale[:, 0] * n)

    @given(seeds, st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0, 2.0, 7.0]), min_size=1, max_size=5))
    @quick
    def test_any_weights(self, seed, weights):
        structure = Permutahedron(weights)
        theta = np.random.default_rng(seed).normal(size=(4, len(weights))) * 3
        vertices = structure.vertices()
        assert len(vertices) == structure.n_vertices
        mu = structure.project(theta)
        assert np.einsum("ij,vij->vi", theta - mu, vertices[:, None] - mu).max() <= 1e-9
        kl = structure.kl_project(theta)
        positive = kl > 0
        slope = np.where(positive, theta - 1 - np.log(np.where(positive, kl, 1)), 0)
        assert np.einsum("ij,vij->vi", slope, np.where(positive, vertices[:, None] - kl, 0)).max() <= 1e-8

    @pytest.mark.parametrize("n", [2, 5, 20, 100])
    def test_decomposes_into_at_most_n_vertices(self, n):
        structure = Permutahedron(n)
        rng = np.random.default_rng(n)
        points = np.concatenate([
            structure.project(rng.normal(size=(5, n)) * n),
            structure.project(rng.normal(size=(5, n)) * n / 5 + n / 2),
            structure.argmax(rng.normal(size=(2, n))),
            np.full((1, n), (n + 1) / 2),
        ])  # fmt: skip
        weights, vertices = structure.decompose(points)
        assert weights.shape[1] == n
        assert np.all(weights >= 0)
        assert np.allclose(weights.sum(axis=1), 1, atol=1e-12)
        assert np.allclose(np.sort(vertices, axis=-1), np.arange(1, n + 1))
        assert np.allclose(np.einsum("im,imk->ik", weights, vertices), points, atol=1e-9 * n)

    def test_samples_have_the_right_mean(self):
        structure = Permutahedron([5.0, 2.0, 2.0, 1.0, -3.0])
        rng = np.random.default_rng(0)
        for mu in structure.project(rng.normal(size=(3, 5)) * 2 + 1):
            draws = structure.sample(np.broadcast_to(mu, (40_000, 5)), rng)
            assert np.allclose(np.sort(draws), [-3, 1, 2, 2, 5])
            assert np.abs(draws.mean(axis=0) - mu).max() < 6 * 4 / 200

    def test_zero_weights_rule_out_the_last_items(self):
        mu = Permutahedron([2.0, 1.0, 0.0, 0.0]).kl_project([300.0, 200.0, 0.0, -500.0])
        assert np.allclose(mu, [2, 1, 0, 0])

    def test_refusals(self):
        with pytest.raises(IntractableOracle, match="#P-complete; use kl_project"):
            Permutahedron(3).marginals([0.0, 0, 0])
        with pytest.raises(MissingOracle, match="a weight is negative"):
            Permutahedron([1, -1]).kl_project([0.0, 0])
        with pytest.raises(InvalidInput, match="no ranking: each of 0 to 2 once"):
            Permutahedron(3).encode([[0, 1, 2], [0, 1, 1]])
        for bad in (0, -1, [], [[1, 2]], [np.nan, 1]):
            with pytest.raises(InvalidInput, match="weights"):
                Permutahedron(bad)


class TestBirkhoff:
    def test_agrees_with_the_projection_from_argmax_alone(self):
        structure = Birkhoff(5)
        oracle = Oracle(structure.argmax, (5, 5), batched=True)
        for scale in (0.5, 3.0):
            theta = np.random.default_rng(0).normal(size=(4, 5, 5)) * scale
            assert np.allclose(structure.project(theta), oracle.project(theta), atol=1e-6)
            assert np.allclose(structure.kl_project(theta), oracle.kl_project(theta), atol=2e-4)

    @pytest.mark.parametrize("scale", [1.0, 5.0, 1e3, 1e6])
    def test_kl_marginals_are_right_at_any_scale(self, scale):
        theta = np.random.default_rng(0).normal(size=(10, 12, 12)) * scale
        mu, info = Birkhoff(12).kl_project(theta, return_info=True)
        assert info.converged.all()
        assert Birkhoff(12).violation(mu).max() <= 2e-9

    def test_forbidden_pairs_in_no_permutation_vanish(self):
        """Row 0 may only take column 0, so nobody else may: the entries below it are in no permutation."""
        theta = np.zeros((3, 3))
        theta[0, 1:] = -np.inf
        expected = np.array([[1, 0, 0], [0, 0.5, 0.5], [0, 0.5, 0.5]])
        assert np.allclose(Birkhoff(3).kl_project(theta), expected)
        assert np.allclose(Birkhoff(3).project(theta), expected)
        theta[1, 1:] = -np.inf
        for oracle in (Birkhoff(3).argmax, Birkhoff(3).project, Birkhoff(3).kl_project):
            with pytest.raises(InvalidInput, match="forbid every permutation .* at sample 1"):
                oracle(np.stack([np.zeros((3, 3)), theta]))

    @pytest.mark.parametrize("n", [1, 2, 3, 8, 20])
    def test_decomposition_and_samples(self, n):
        structure = Birkhoff(n)
        rng = np.random.default_rng(n)
        points = structure.kl_project(rng.normal(size=(4, n, n)))
        weights, vertices = structure.decompose(points)
        assert weights.shape[1] <= (n - 1) ** 2 + 1
        assert np.allclose(np.einsum("im,imjk->ijk", weights, vertices), points, atol=1e-8)
        draws = structure.sample(np.broadcast_to(points[0], (5000, n, n)), rng)
        structure.decode(draws)
        assert np.abs(draws.mean(axis=0) - points[0]).max() < 6 * 0.5 / np.sqrt(5000)

    @given(seeds, st.integers(1, 4), st.sampled_from([0.3, 0.6, 0.9]), st.sampled_from([1e-12, 1.0, 30.0, 1e12]))
    @quick
    def test_any_pattern_of_forbidden_pairs(self, seed, n, share, scale):
        """Refused exactly where every permutation uses a forbidden pair; elsewhere zero exactly where it must be."""
        rng = np.random.default_rng(seed)
        structure = Birkhoff(n)
        forbidden = rng.random((n, n)) < share
        theta = np.where(forbidden, -np.inf, rng.normal(size=(n, n)) * scale)
        every = structure.vertices()
        allowed = every[(every[:, forbidden] == 0).all(axis=1)]
        oracles = structure.argmax, structure.project, structure.kl_project
        if len(allowed) == 0:
            for oracle in oracles:
                with pytest.raises(InvalidInput, match="forbid every permutation .* at sample 0"):
                    oracle(theta)
            return
        finite = np.where(forbidden, 0, theta)
        for oracle in oracles:
            mu = oracle(theta)
            assert np.all(mu[~allowed.any(axis=0)] < 1e-9)
            assert np.all(mu[forbidden] == 0)
            assert structure.violation(mu) < 1e-8
        best, nearest = structure.argmax(theta), structure.project(theta)
        size = max(np.abs(finite).max(), 1)
        assert np.vdot(finite, best) >= (allowed * finite).sum(axis=(1, 2)).max() - 1e-12 * n * size
        assert ((finite - nearest) * (allowed - nearest)).sum(axis=(1, 2)).max() <= 1e-8 * size

    def test_a_row_with_nothing_allowed_is_refused_wherever_it_stands(self):
        for n in (2, 3, 8):
            for row in range(n):
                theta = np.zeros((2, n, n))
                theta[1, row] = -np.inf
                for scores in (theta, theta.swapaxes(1, 2)):
                    with pytest.raises(InvalidInput, match="forbid every permutation .* at sample 1"):
                        Birkhoff(n).kl_project(scores)

    def test_gibbs_marginals_are_intractable(self):
        with pytest.raises(IntractableOracle, match="permanents.*use kl_project"):
            Birkhoff(3).marginals(np.zeros((3, 3)))
        with pytest.raises(ValueError, match="needs the oracle 'marginals'"):
            FenchelYoung(Birkhoff(3), "gibbs")

    def test_missing_its_tolerance_warns_with_the_error(self):
        with pytest.warns(ConvergenceWarning, match=r"stopped after \d+ iterations with the error"):
            Birkhoff(30).kl_project(np.random.default_rng(0).normal(size=(30, 30)) * 30, max_iter=1)


class TestOracle:
    def test_contexts_reach_the_maximiser_and_follow_blocks(self):
        """Each example has its own forbidden class; training in blocks must ask with the right one."""

        def best_but(theta, forbidden):
            scores = np.where(np.arange(4) == forbidden, -np.inf, theta)
            return (np.arange(4) == scores.argmax()).astype(float)

        rng = np.random.default_rng(0)
        forbidden = rng.integers(0, 4, 60)
        X = rng.normal(size=(60, 3))
        structure = Oracle(best_but, (4,), contexts=forbidden)
        truths = structure.argmax(X @ rng.normal(size=(3, 4)))
        assert np.all(truths[np.arange(60), forbidden] == 0)
        loss = FenchelYoung(structure, "euclidean")
        reference = LBFGS(tol=1e-8).minimize(Linear(X, (4,)), loss, truths, 0.1)
        result = BlockFrankWolfe(tol=1e-3, block_size=7, random_state=0).minimize(Linear(X, (4,)), loss, truths, 0.1)
        assert 0 <= result.value - reference.value <= result.gap
        mu = loss.predict(X @ result.w)
        assert np.abs(mu[np.arange(60), forbidden]).max() == 0
        with pytest.raises(InvalidInput, match="has 60 contexts, but the batch has more items"):
            structure.argmax(np.zeros((61, 4)))
        assert structure.bind([0]).argmax([[9.0, 1, 0, 0]]).tolist() == [[0, 1, 0, 0]]

    @pytest.mark.parametrize(
        ("function", "message"),
        [
            (lambda t: np.zeros(2), "returned a vertex of shape"),
            (lambda t: np.full(3, np.nan), "is not finite"),
            (lambda t: np.full(3, 0.5), "is not 0/1"),
            (lambda t: "path", "returned str"),
            (lambda t: None, "is not finite|returned NoneType|of shape"),
        ],
    )
    def test_a_broken_maximiser_is_named(self, function, message):
        for oracle in ("argmax", "project"):
            with pytest.raises(OracleError, match=message):
                getattr(Oracle(function, (3,)), oracle)(np.ones((2, 3)))

    def test_a_maximiser_that_is_not_best_is_named(self):
        calls = itertools.count()

        def forgetful(theta):
            vertex = np.zeros(5)
            vertex[theta.argmax() if next(calls) < 3 else theta.argmin()] = 1
            return vertex

        with pytest.raises(OracleError, match="at sample 0 it returned a vertex that scores 3.45 less"):
            Oracle(forgetful, (5,)).project([[1.0, 0.9, -1.0, -2.0, -3.0]])

    @pytest.mark.parametrize(
        "options", [{}, {"contexts": "abc"}, {"batched": True}, {"batched": True, "contexts": "abc"}]
    )
    def test_a_minimiser_is_named(self, options):
        def cheapest(theta, *context):
            return np.eye(4)[np.asarray(theta).argmin(axis=-1)]

        theta = np.random.default_rng(0).normal(size=(3, 4))
        theta[0] = 0  # which says nothing of it
        for oracle in ("argmax", "project", "kl_project"):
            with pytest.raises(OracleError, match=r"at sample [01] .* does it minimise a cost\? Then give it -theta"):
                getattr(Oracle(cheapest, (4,), **options), oracle)(theta)

    def test_looking_for_a_minimiser_costs_one_call_in_all(self):
        calls = []

        def best(theta):
            calls.append(theta)
            return np.eye(4)[theta.argmax()]

        structure = Oracle(best, (4,))
        for _ in range(3):
            structure.argmax(np.random.default_rng(0).normal(size=(2, 4)))
        assert len(calls) == 7

    def test_forbidden_parts_must_be_left_alone(self):
        with pytest.raises(OracleError, match="uses a part whose score is -inf"):
            Oracle(lambda t: np.ones(2), (2,)).argmax([0.0, -np.inf])

    def test_a_maximiser_that_is_not_best_is_named_by_kl_projections_too(self):
        calls = itertools.count()

        def forgetful(theta):
            return (theta > 0 if next(calls) < 4 else theta < 0).astype(float)

        with pytest.raises(OracleError, match=r"Oracle\(forgetful, \(4,\)\), at sample 0: argmax does not maximise"):
            Oracle(forgetful, (4,)).kl_project([[1.0, 0.9, -1.0, 0.2]])

    def test_contexts_may_be_arrays_or_hold_them(self):
        def best(theta, context):
            return np.eye(2)[(theta + context["bonus"]).argmax()]

        def made():
            return Oracle(best, (2,), contexts=[{"bonus": np.array([0.0, 3.0])}, {"bonus": np.zeros(2)}])

        assert made() == made()
        assert hash(made()) == hash(made())
        assert made() != made().take([1, 0])
        assert made().take([1, 0]).argmax([[1.0, 0.0], [1.0, 0.0]]).tolist() == [[1, 0], [0, 1]]
        with pytest.raises(InvalidInput, match="is for 2 items"):
            made().take([2])

    @pytest.mark.parametrize("options", [{"tol": -1}, {"tol": 0}, {"tol": np.nan}, {"max_iter": 0}, {"max_iter": 2.5}])
    def test_accuracies_that_make_no_sense_are_refused(self, options):
        for structure in (Simplex(3), Birkhoff(3), Oracle(lambda t: np.eye(3)[t.argmax()], (3,))):
            for oracle in (structure.project, structure.kl_project):
                with pytest.raises(InvalidInput, match="tol is|max_iter is"):
                    oracle(np.zeros(structure.shape), **options)


def test_factors_of_a_product_share_what_their_item_has():
    """Contexts and budgets belong to items of the batch; each factor of an item has its item's."""

    def best(theta, bonus):
        return np.eye(3)[(theta + bonus).argmax()]

    pairs = Product(Oracle(best, (3,), contexts=[np.array([9.0, 0, 0]), np.array([0, 9.0, 0])]), 2)
    assert pairs.argmax(np.zeros((2, 2, 3)))[:, 0].tolist() == [[1, 0, 0], [0, 1, 0]]
    assert pairs.project(np.zeros((2, 2, 3))).argmax(axis=-1).tolist() == [[0, 0], [1, 1]]
    assert pairs.take([1]).argmax(np.zeros((1, 2, 3)))[0, 1].tolist() == [0, 1, 0]
    assert Product(Simplex(3), 2).take([0]) == Product(Simplex(3), 2)
    budgets = Product(Budgets.of(4, lows=[0, 2], highs=[1, 3]), 3)
    theta = np.random.default_rng(0).normal(size=(2, 3, 4))
    for i, (low, high) in enumerate([(0, 1), (2, 3)]):
        for oracle in ("argmax", "project", "kl_project"):
            expected = getattr(Budget(4, low, high), oracle)(theta[i])
            assert np.allclose(getattr(budgets, oracle)(theta)[i], expected)
            assert np.allclose(getattr(budgets.take([i]), oracle)(theta[[i]])[0], expected)


def test_products_of_hard_polytopes():
    structure = Product(Birkhoff(3), 2)
    theta = np.random.default_rng(0).normal(size=(5, 2, 3, 3))
    mu, info = structure.project(theta, return_info=True)
    assert np.allclose(mu, Birkhoff(3).project(theta))
    assert info.error.shape == (5,)
    weights, vertices = structure.decompose(mu)
    assert weights.shape[1] <= 2 * 5
    assert np.allclose(np.einsum("im,imabc->iabc", weights, vertices), mu)


def test_finite_refuses_duplicates_and_nonsense():
    with pytest.raises(InvalidInput, match="two of the vertices are the same"):
        Finite([[0, 1], [0, 1]])
    with pytest.raises(InvalidInput, match="expected \\(N, ...\\)"):
        Finite([1.0, 2.0])
    with pytest.raises(InvalidInput, match="must be finite"):
        Finite([[np.nan, 1.0]])
    with pytest.raises(InvalidInput, match="forbid every output at sample 0"):
        Finite([[1.0, 0.0], [1.0, 1.0]]).argmax([-np.inf, 0.0])


def test_nearest_where_vertices_are_not_binary_is_enumerated_or_refused():
    square = Finite([[0.0, 0.0], [3.0, 0.0], [0.0, 3.0]])
    assert square.nearest([2.0, 0.5]).tolist() == [3.0, 0.0]
    oracle = Oracle(square.argmax, (2,), binary=False)
    with pytest.raises(MissingOracle, match="one argmax finds it only where vertices are 0/1"):
        oracle.nearest([2.0, 0.5])


@pytest.mark.parametrize("oracle", ["argmax", "project", "kl_project"])
def test_budgets_are_a_budget_per_item(oracle):
    rng = np.random.default_rng(0)
    lows, highs = np.array([0, 1, 2, 0]), np.array([1, 1, 4, 0])
    theta = rng.normal(size=(4, 5))
    structure = Budgets.of(5, lows=lows, highs=highs)
    expected = [getattr(Budget(5, int(a), int(b)), oracle)(t) for a, b, t in zip(lows, highs, theta, strict=True)]
    assert np.allclose(getattr(structure, oracle)(theta), expected)
    assert np.allclose(getattr(structure.take([2, 0]), oracle)(theta[[2, 0]]), [expected[2], expected[0]])
    assert np.allclose(structure.marginals(theta)[1][2], Budget(5, 2, 4).marginals(theta[2])[1])
    with pytest.raises(InvalidInput, match="batch of 3; take"):
        getattr(structure, oracle)(theta[:3])


def test_training_on_budgets_in_blocks():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 4))
    truths = (X @ rng.normal(size=(4, 5)) + rng.normal(size=(50, 5)) > 0.3).astype(float)
    highs = np.maximum(2, truths.sum(axis=1).astype(int))
    loss = FenchelYoung(Budgets.of(5, lows=np.zeros(50, int), highs=highs), "euclidean")
    best = LBFGS(tol=1e-8).minimize(Linear(X, (5,)), loss, truths, 0.1)
    other = BlockFrankWolfe(tol=1e-3, block_size=6, random_state=0).minimize(Linear(X, (5,)), loss, truths, 0.1)
    assert 0 <= other.value - best.value <= other.gap


def test_a_score_within_rounding_of_the_threshold_ends_the_search():
    """These scores made the count of positive entries alternate between three and four for ever."""
    digits = ["-0x1.402751fb2a42ep-1", "-0x1.ff8bc0dc5e0ffp-2", "-0x1.52fb5be10396ap-2", "-0x1.82289c5bc6ea7p-1",
              "0x1.4e5bac4f50a2ap-2", "-0x1.2757ab0fa4827p-1", "-0x1.95de7399049a4p-5", "-0x1.272df17a13e14p-1",
              "-0x1.66f5b453135c2p-1", "-0x1.67c92a019bd7ap-2"]  # fmt: skip
    theta = np.array([float.fromhex(d) for d in digits])
    assert np.isclose(Simplex(10).project(theta).sum(), 1)


@given(seeds, st.integers(2, 12))
@quick
def test_projecting_again_changes_nothing_but_rounding(seed, k):
    """Points of the set have many entries on its thresholds: the hardest input for a search."""
    rng = np.random.default_rng(seed)
    for structure in (Simplex(k), Budget(k, k // 3, k // 2 + 1), Permutahedron(k), Cube(k)):
        mu = structure.project(rng.normal(size=(200, k)))
        shifted = mu + rng.normal(size=(200, 1)) if not isinstance(structure, Cube | Budget) else mu
        assert np.allclose(structure.project(shifted), mu, atol=1e-12)
