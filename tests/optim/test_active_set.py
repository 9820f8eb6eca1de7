"""Projections from a maximiser alone: closed forms, optimality over listed vertices, degenerate sets, bad oracles."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import fenchel
from fenchel.errors import InvalidInput, OracleError
from fenchel.optim import minimize_over_hull, project_from_argmax
from fenchel.optim.active_set import Supports


def lister(vertices):
    """The maximiser over a list of vertices."""
    vertices = np.asarray(vertices, dtype=float)
    return lambda rows, indices: vertices[(rows @ vertices.T).argmax(axis=1)]


def clipper(rows, indices):
    return rows > 0


def simplex(theta):
    ordered = -np.sort(-theta, axis=1)
    excess = np.cumsum(ordered, axis=1) - 1
    k = np.arange(1, theta.shape[1] + 1)
    size = (ordered - excess / k > 0).sum(axis=1)
    return np.maximum(theta - (excess[np.arange(len(theta)), size - 1] / size)[:, None], 0)


def check(result, theta, vertices, tol=1e-9):
    """Optimality against every vertex, and the decomposition, with scales that grow with the data."""
    vertices = np.asarray(vertices, dtype=float)
    radius = np.square(vertices - vertices[0]).sum(axis=1).max(initial=0.0)
    residual = theta - result.points
    gap = (residual @ vertices.T).max(axis=1) - (residual * result.points).sum(axis=1)
    size = np.abs(vertices).max(initial=0.0) * vertices.shape[1]
    rounding = 1e-14 * size * (1 + np.abs(residual).max(axis=1, initial=0) + size)
    assert result.converged.all()
    assert (gap <= tol * min(1.0, radius) + rounding).all()
    assert (np.abs(result.gap - np.maximum(gap, 0)) <= rounding + 1e-12 * tol).all()
    check_atoms(result, size)
    for atoms in result.vertices:
        assert (atoms[:, None] == vertices).all(axis=2).any(axis=1).all()


def check_atoms(result, size=1.0):
    weights = result.weights
    assert (weights >= 0).all()
    np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-12)
    np.testing.assert_allclose(np.einsum("bm,bmd->bd", weights, result.vertices), result.points, atol=1e-12 * size)
    assert result.vertices.shape == (len(weights), weights.shape[1], result.points.shape[1])
    used = result.weights > 0
    assert (used.sum(axis=1) == result.support.sizes).all()
    for row, mask in zip(result.vertices, used, strict=True):
        assert len(np.unique(row[mask], axis=0)) == mask.sum()


@st.composite
def hulls(draw):
    """Lists of vertices, with duplicates and affine dependence, and scores at many scales."""
    dim = draw(st.integers(1, 7))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    n = draw(st.integers(1, 40))
    kind = draw(st.sampled_from(["binary", "integer", "real", "flat"]))
    if kind == "binary":
        vertices = rng.integers(0, 2, size=(n, dim)).astype(float)
    elif kind == "integer":
        vertices = rng.integers(-3, 4, size=(n, dim)).astype(float)
    elif kind == "real":
        vertices = rng.normal(size=(n, dim))
    else:  # points of a plane
        vertices = rng.integers(-2, 3, size=(n, min(2, dim))) @ rng.normal(size=(min(2, dim), dim))
    scale = 10.0 ** draw(st.integers(-6, 6))
    theta = scale * rng.normal(size=(draw(st.integers(1, 6)), dim))
    if draw(st.booleans()):
        theta = np.round(theta)  # ties
    return vertices, theta


class TestOptimality:
    @settings(deadline=None, max_examples=150)
    @given(hulls())
    def test_every_vertex_of_a_list(self, hull):
        vertices, theta = hull
        check(project_from_argmax(theta, lister(vertices)), theta, vertices)

    @settings(deadline=None, max_examples=60)
    @given(hulls(), st.sampled_from([1e-6, 1e-3, 1e3, 1e6]))
    def test_vertices_of_any_size(self, hull, size):
        vertices, theta = hull
        check(project_from_argmax(theta * size, lister(vertices * size)), theta * size, vertices * size)

    @settings(deadline=None, max_examples=60)
    @given(hulls())
    def test_to_the_last_bit(self, hull):
        """With tol=0 rounding decides, and the fall-back steps run."""
        vertices, theta = hull
        check(project_from_argmax(theta, lister(vertices), tol=0), theta, vertices, tol=0)

    @pytest.mark.parametrize("scale", [1e-6, 1e-3, 1.0, 1e3, 1e6])
    def test_simplex(self, scale):
        theta = scale * np.random.default_rng(0).normal(size=(100, 12))
        result = project_from_argmax(theta, lister(np.eye(12)))
        np.testing.assert_allclose(result.points, simplex(theta), atol=1e-11)
        assert result.converged.all()

    @pytest.mark.parametrize("scale", [1e-6, 1e-3, 1.0, 1e3, 1e6])
    def test_cube(self, scale):
        theta = 0.5 + scale * np.random.default_rng(1).normal(size=(100, 9))
        result = project_from_argmax(theta, clipper)
        np.testing.assert_allclose(result.points, np.clip(theta, 0, 1), atol=2e-8)
        assert result.converged.all()

    @pytest.mark.parametrize("bounds", [(0, 2), (1, 3), (2, 2)])
    def test_budget(self, bounds):
        low, high = bounds
        rng = np.random.default_rng(2)
        theta = 0.5 + rng.normal(size=(12, 6))

        def argmax(rows, indices):
            order = np.argsort(-rows, axis=1)
            size = np.clip((rows > 0).sum(axis=1), low, high)
            out = np.zeros(rows.shape)
            np.put_along_axis(out, order, (np.arange(6) < size[:, None]).astype(float), axis=1)
            return out

        result = project_from_argmax(theta, argmax)
        assert result.converged.all()
        for row, point in zip(theta, result.points, strict=True):
            exact = minimize(
                lambda x, row=row: 0.5 * np.square(x - row).sum(), np.full(6, (low + high) / 12), method="SLSQP",
                jac=lambda x, row=row: x - row, bounds=[(0, 1)] * 6, options={"ftol": 1e-14, "maxiter": 500},
                constraints=[
                    {"type": "ineq", "fun": lambda x: x.sum() - low}, {"type": "ineq", "fun": lambda x: high - x.sum()}
                ],
            )  # fmt: skip
            np.testing.assert_allclose(point, exact.x, atol=1e-6)

    def test_vertices_that_almost_coincide(self):
        rng = np.random.default_rng(3)
        centers = rng.normal(size=(20, 8))
        vertices = (centers[:, None] + 1e-7 * rng.normal(size=(20, 30, 8))).reshape(-1, 8)
        theta = rng.normal(size=(60, 8))
        for tol in (1e-9, 1e-13):
            check(project_from_argmax(theta, lister(vertices), tol=tol), theta, vertices, tol)

    def test_far_from_the_origin(self):
        rng = np.random.default_rng(4)
        vertices, theta = rng.integers(0, 2, size=(100, 10)), rng.normal(size=(50, 10))
        near = project_from_argmax(theta, lister(vertices))
        far = project_from_argmax(theta + 1e6, lister(vertices + 1e6))
        assert far.converged.all()
        np.testing.assert_allclose(far.points - 1e6, near.points, atol=1e-8)

    def test_a_curved_set(self):
        """An ellipsoid: infinitely many vertices, ever closer to each other."""
        axes = np.array([0.5, 1.0, 2.0, 3.0])

        def argmax(rows, indices):
            stretched = rows * axes**2
            return stretched / np.sqrt((rows * stretched).sum(axis=1, keepdims=True))

        theta = 4 * np.random.default_rng(5).normal(size=(30, 4))
        result = project_from_argmax(theta, argmax)
        assert result.converged.all()
        residual = theta - result.points
        outside = np.square(theta / axes).sum(axis=1) > 1
        np.testing.assert_allclose(np.square(result.points[outside] / axes).sum(axis=1), 1, atol=1e-8)
        gap = (residual * (argmax(residual + 1e-300, None) - result.points)).sum(axis=1)
        assert (gap[outside] <= 1e-9).all()
        check_atoms(result)


class TestDegenerate:
    def test_one_vertex(self):
        result = project_from_argmax(np.random.default_rng(0).normal(size=(4, 3)), lister([[1.0, -2.0, 0.5]]))
        assert (result.points == [1.0, -2.0, 0.5]).all()
        assert (result.n_iter == 2).all()
        assert result.converged.all()
        assert (result.gap == 0).all()

    @pytest.mark.parametrize("theta", [[[0.3]], [[-5.0]], [[1e9]]])
    def test_one_coordinate(self, theta):
        result = project_from_argmax(theta, lister([[-1.0], [2.0]]))
        np.testing.assert_allclose(result.points, np.clip(theta, -1, 2), atol=1e-14)

    def test_no_problem(self):
        result = project_from_argmax(np.empty((0, 4)), lambda rows, indices: pytest.fail("nothing to ask"))
        assert result.points.shape == (0, 4)
        assert result.vertices.shape == (0, 0, 4)
        assert result.weights.shape == (0, 0)
        assert len(result.support) == len(result.gap) == len(result.converged) == 0

    def test_inside_the_hull(self):
        rng = np.random.default_rng(1)
        vertices = rng.normal(size=(30, 5))
        theta = rng.dirichlet(np.full(30, 0.5), size=40) @ vertices
        result = project_from_argmax(theta, lister(vertices))
        check(result, theta, vertices)
        np.testing.assert_allclose(result.points, theta, atol=3e-5)

    def test_ties(self):
        theta = np.zeros((3, 6))
        result = project_from_argmax(theta, lister(np.eye(6)))
        np.testing.assert_allclose(result.points, 1 / 6, atol=1e-12)

    def test_agreed_coordinates_are_exact(self):
        """Where all vertices agree, the point does, to the last bit, even at scores of 1e6."""
        rng = np.random.default_rng(2)
        vertices = np.hstack([rng.integers(0, 2, size=(40, 6)), np.full((40, 3), 0.1)])
        result = project_from_argmax(np.hstack([rng.normal(size=(50, 6)), np.full((50, 3), 1e6)]), lister(vertices))
        assert (result.points[:, 6:] == 0.1).all()
        assert result.converged.all()

    def test_other_types_in_and_out(self):
        theta = np.random.default_rng(3).normal(size=(5, 4)).astype(np.float32)
        for kind in (bool, np.int8, np.float32):
            result = project_from_argmax(theta, lambda rows, indices, kind=kind: (rows > 0).astype(kind))
            assert result.points.dtype == np.float64
            np.testing.assert_allclose(result.points, np.clip(theta, 0, 1), atol=1e-7)


class TestBatch:
    def test_is_the_loop(self):
        rng = np.random.default_rng(0)
        argmax = lister(rng.integers(0, 2, size=(200, 15)))
        theta = rng.normal(size=(40, 15))
        batch = project_from_argmax(theta, argmax)
        for i in range(40):
            alone = project_from_argmax(theta[i : i + 1], argmax)
            assert (alone.points[0] == batch.points[i]).all()
            assert alone.gap[0] == batch.gap[i]
            assert alone.n_iter[0] == batch.n_iter[i]

    def test_of_more_rows_than_a_block(self):
        theta = np.random.default_rng(1).normal(size=(2500, 4))
        seen = []

        def argmax(rows, indices):
            seen.append(indices)
            assert rows.shape == (len(indices), 4)
            return lister(np.eye(4))(rows, indices)

        result = project_from_argmax(theta, argmax)
        np.testing.assert_allclose(result.points, simplex(theta), atol=1e-11)
        check(result, theta, np.eye(4))
        assert (np.bincount(np.concatenate(seen)) == result.n_iter).all()
        part = result.support.take([2400, 3])
        weights, vertices = part.unfold()
        np.testing.assert_allclose((weights[:, :, None] * vertices).sum(axis=1), result.points[[2400, 3]], atol=1e-14)

    def test_does_not_depend_on_threads(self):
        rng = np.random.default_rng(2)
        argmax = lister(rng.normal(size=(300, 20)))
        theta = rng.normal(size=(300, 20))
        found = []
        before = fenchel.set_threads(1)
        try:
            for n in (1, 2, 3):
                fenchel.set_threads(n)
                found += [project_from_argmax(theta, argmax).points for _ in range(3)]
        finally:
            fenchel.set_threads(before)
        assert all((points == found[0]).all() for points in found)

    def test_many_atoms_and_coordinates(self):
        """More than fit the first storage: 15 groups of 20, near the middle of their simplices."""
        theta = 0.1 * np.random.default_rng(3).normal(size=(4, 300))

        def argmax(rows, indices):
            groups = rows.reshape(-1, 15, 20)
            return (groups == groups.max(axis=2, keepdims=True)).reshape(len(rows), -1)

        result = project_from_argmax(theta, argmax)
        assert result.support.sizes.max() > 64
        np.testing.assert_allclose(
            result.points.reshape(-1, 20), simplex(theta.reshape(-1, 20)), atol=3e-5
        )  # sqrt(tol) is what a gap promises
        check_atoms(result)


class TestWarmStart:
    def test_same_answer_with_fewer_calls(self):
        rng = np.random.default_rng(0)
        vertices = rng.integers(0, 2, size=(300, 15)).astype(float)
        theta = rng.normal(size=(50, 15))
        first = project_from_argmax(theta, lister(vertices))
        again = project_from_argmax(theta, lister(vertices), warm_start=first.support)
        assert (again.n_iter == 1).all()
        np.testing.assert_allclose(again.points, first.points, atol=1e-10)
        moved = theta + 0.05 * rng.normal(size=theta.shape)
        cold = project_from_argmax(moved, lister(vertices))
        warm = project_from_argmax(moved, lister(vertices), warm_start=first.support)
        check(warm, moved, vertices)
        np.testing.assert_allclose(warm.points, cold.points, atol=1e-7)
        assert warm.n_iter.sum() < 0.6 * cold.n_iter.sum()

    @settings(deadline=None, max_examples=60)
    @given(hulls(), st.integers(0, 100), st.sampled_from([1e-3, 1.0, 1e4]))
    def test_from_any_other_scores(self, hull, seed, scale):
        vertices, theta = hull
        other = scale * np.random.default_rng(seed).normal(size=theta.shape)
        before = project_from_argmax(other, lister(vertices)).support
        after = project_from_argmax(theta, lister(vertices), warm_start=before)
        check(after, theta, vertices)

    def test_chain_of_problems(self):
        """A support that is handed on for many rounds stays exact and small."""
        rng = np.random.default_rng(1)
        vertices = rng.normal(size=(200, 8))
        theta, support = rng.normal(size=(20, 8)), None
        for _ in range(30):
            theta = theta + 0.1 * rng.normal(size=theta.shape)
            result = project_from_argmax(theta, lister(vertices), warm_start=support)
            check(result, theta, vertices)
            support = result.support.take(np.arange(20))
        assert support.sizes.max() <= 9

    def test_atoms_forbidden_by_now_are_left_out(self):
        rng = np.random.default_rng(2)
        theta = rng.normal(size=(6, 5))
        support = project_from_argmax(theta, lister(np.eye(5))).support
        theta[:, 0] = -np.inf
        theta[0, 1:] = [9.0, -np.inf, -np.inf, -np.inf]
        result = project_from_argmax(theta, lister_with_forbidden(np.eye(5)), warm_start=support)
        assert (result.points[:, 0] == 0).all()
        np.testing.assert_allclose(result.points[1:, 1:], simplex(theta[1:, 1:]), atol=1e-11)
        assert (result.points[0] == [0, 1, 0, 0, 0]).all()

    def test_of_other_size_is_refused(self):
        support = project_from_argmax(np.zeros((3, 2)), lister(np.eye(2))).support
        with pytest.raises(InvalidInput, match="warm_start holds 3 problems of 2 scores"):
            project_from_argmax(np.zeros((4, 2)), lister(np.eye(2)), warm_start=support)


def lister_with_forbidden(vertices):
    def argmax(rows, indices):
        scores = [np.where(vertices != 0, vertices * np.maximum(row, -1e300), 0).sum(axis=1) for row in rows]
        return vertices[np.argmax(scores, axis=1)]

    return argmax


class TestForbidden:
    def test_scores_of_minus_infinity(self):
        rng = np.random.default_rng(0)
        theta = rng.normal(size=(50, 7))
        theta[rng.random(theta.shape) < 0.3] = -np.inf
        theta[:, 3] = rng.normal(size=50)
        result = project_from_argmax(theta, lister_with_forbidden(np.eye(7)))
        closed = theta == -np.inf
        assert (result.points[closed] == 0).all()
        np.testing.assert_allclose(result.points, simplex(np.where(closed, -1e9, theta)), atol=1e-6)
        assert result.converged.all()

    def test_a_vertex_that_uses_one(self):
        with pytest.raises(OracleError, match="sample 1 a vertex with entry 1.0 at position 2, whose score of -inf"):
            project_from_argmax([[0.0, 0, 1], [0, 0, -np.inf]], lambda rows, indices: np.array([[0, 0, 1.0]] * 2))


class TestBrokenOracles:
    theta = np.random.default_rng(0).normal(size=(8, 4))

    def test_wrong_shape(self):
        with pytest.raises(OracleError, match=r"shape \(8, 3\) for 8 rows of 4 scores.*\(8, 4\)"):
            project_from_argmax(self.theta, lambda rows, indices: rows[:, :3])
        with pytest.raises(OracleError, match=r"Grid\(2\): argmax returned an array of shape \(4,\)"):
            project_from_argmax(self.theta, lambda rows, indices: rows[0], context="Grid(2)")

    def test_no_numbers(self):
        with pytest.raises(OracleError, match="type"):
            project_from_argmax(self.theta, lambda rows, indices: np.full(rows.shape, "a"))

    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
    @pytest.mark.parametrize("late", [False, True])
    def test_not_finite(self, bad, late):
        calls = []

        def argmax(rows, indices):
            calls.append(1)
            vertices = np.eye(4)[rows.argmax(axis=1)]
            if len(calls) > late:
                vertices[indices == 5, 2] = bad
            return vertices

        with pytest.raises(OracleError, match="not finite at sample 5"):
            project_from_argmax(0.01 * self.theta, argmax)

    def test_a_minimiser_in_disguise(self):
        """Right at first, then the worst vertex: it must score less than the one that is known."""
        calls = []

        def argmax(rows, indices):
            calls.append(1)
            order = rows.argmax(axis=1) if len(calls) == 1 else rows.argmin(axis=1)
            return np.eye(4)[order]

        theta = np.array([[0.0, 0, 0, 0], [9.0, 0, 0, -3.0]])
        with pytest.raises(OracleError, match=r"sample 1 it returned a vertex that scores 11 less than one it had"):
            project_from_argmax(theta, argmax)

    def test_a_random_vertex(self):
        rng = np.random.default_rng(1)
        with pytest.raises(OracleError, match="does not maximise"):
            project_from_argmax(self.theta, lambda rows, indices: np.eye(4)[rng.integers(4, size=len(rows))])

    def test_the_rounding_of_an_oracle_is_no_fault(self):
        rng = np.random.default_rng(2)
        vertices = rng.integers(0, 2, size=(100, 12)).astype(float)

        def single(rows, indices):
            return vertices[(rows.astype(np.float32) @ vertices.T.astype(np.float32)).argmax(axis=1)]

        def noisy(rows, indices):  # the vertices of a linear program's solver
            return lister(vertices)(rows, indices) + 1e-9 * rng.normal(size=rows.shape)

        for scale in (1e-3, 1.0, 1e3, 1e6):
            theta = scale * rng.normal(size=(50, 12))
            exact = project_from_argmax(theta, lister(vertices)).points
            for argmax in (single, noisy):
                result = project_from_argmax(theta, argmax)
                assert result.converged.all()
                np.testing.assert_allclose(result.points, exact, atol=1e-4)

    def test_a_buffer_that_is_used_again(self):
        """Vertices are copied, and the oracle may spoil the rows it gets."""
        rng = np.random.default_rng(3)
        vertices = rng.normal(size=(60, 4))
        buffer = np.empty((8, 4))

        def argmax(rows, indices):
            answer = buffer[: len(rows)]
            answer[:] = vertices[(rows @ vertices.T).argmax(axis=1)]
            rows[:] = np.nan
            return answer

        theta = self.theta.copy()
        check(project_from_argmax(theta, argmax), self.theta, vertices)
        assert (theta == self.theta).all()

    @pytest.mark.parametrize("bad", [np.nan, np.inf])
    def test_scores_that_are_no_scores(self, bad):
        theta = self.theta.copy()
        theta[3, 1] = bad
        with pytest.raises(InvalidInput, match="sample 3"):
            project_from_argmax(theta, clipper)
        with pytest.raises(InvalidInput, match="shape"):
            project_from_argmax(theta[0], clipper)

    @pytest.mark.parametrize("wrong", [{"tol": -1.0}, {"tol": np.nan}, {"max_iter": 0}, {"max_iter": 1.5}])
    def test_settings(self, wrong):
        with pytest.raises(InvalidInput):
            project_from_argmax(self.theta, clipper, **wrong)


class TestLimit:
    def test_gap_belongs_to_the_point(self):
        rng = np.random.default_rng(0)
        vertices = rng.normal(size=(100, 10))
        theta = 0.1 * rng.normal(size=(20, 10))
        for limit in (2, 3, 6):
            result = project_from_argmax(theta, lister(vertices), max_iter=limit)
            residual = theta - result.points
            gap = (residual @ vertices.T).max(axis=1) - (residual * result.points).sum(axis=1)
            np.testing.assert_allclose(result.gap, gap, atol=1e-12)
            assert (result.n_iter <= limit).all()
            assert (result.converged == (gap <= 1e-9)).all()
            assert not result.converged.all()

    def test_one_call_measures_nothing(self):
        result = project_from_argmax(np.ones((2, 3)), lister(np.eye(3)), max_iter=1)
        assert (result.gap == np.inf).all()
        assert not result.converged.any()
        assert (result.points == np.eye(3)[0]).all()

    def test_true_error_is_below_the_gap(self):
        rng = np.random.default_rng(1)
        vertices, theta = rng.normal(size=(100, 10)), 0.3 * rng.normal(size=(30, 10))
        best = project_from_argmax(theta, lister(vertices), tol=1e-14).points
        for tol in (1e-1, 1e-3, 1e-6):
            result = project_from_argmax(theta, lister(vertices), tol=tol)
            assert (np.square(result.points - best).sum(axis=1) <= result.gap + 1e-13).all()
            assert (result.gap <= tol).all()


def grid_paths(n):
    """The maximiser over monotone paths of an n x n grid, as indicators of its 2 n (n - 1) edges, dynamic program."""
    across = n * (n - 1)

    def argmax(rows, indices=None):
        b = len(rows)
        right, down = rows[:, :across].reshape(b, n, n - 1), rows[:, across:].reshape(b, n - 1, n)
        best = np.zeros((b, n, n))
        came_down = np.zeros((b, n, n), dtype=bool)
        best[:, 0, 1:] = np.cumsum(right[:, 0], axis=1)
        for i in range(1, n):
            best[:, i, 0] = best[:, i - 1, 0] + down[:, i - 1, 0]
            came_down[:, i, 0] = True
            for j in range(1, n):
                a, c = best[:, i, j - 1] + right[:, i, j - 1], best[:, i - 1, j] + down[:, i - 1, j]
                came_down[:, i, j] = c > a
                best[:, i, j] = np.maximum(a, c)
        out, every = np.zeros((b, 2 * across)), np.arange(b)
        i, j = np.full(b, n - 1), np.full(b, n - 1)
        for _ in range(2 * n - 2):
            d = came_down[every, i, j]
            out[every, np.where(d, across + (i - 1) * n + j, i * (n - 1) + j - 1)] = 1
            i, j = i - d, j - ~d
        return out

    return argmax


class TestShortestPath:
    @pytest.mark.parametrize("scale", [0.1, 1.0, 5.0])
    def test_grid(self, scale):
        argmax = grid_paths(10)
        theta = scale * np.random.default_rng(0).normal(size=(10, 180))
        result = project_from_argmax(theta, argmax)
        residual = theta - result.points
        gap = (residual * (argmax(residual) - result.points)).sum(axis=1)
        assert (gap <= 1e-9).all()
        check_atoms(result)
        assert result.n_iter.max() <= 100

    def test_fewer_calls_than_pairwise_frank_wolfe(self):
        argmax = grid_paths(10)
        theta = np.random.default_rng(1).normal(size=180)
        ours = project_from_argmax(theta[None], argmax)
        theirs = minimize_over_hull(
            lambda x: (0.5 * np.square(x - theta).sum(), x - theta), lambda scores: argmax(scores[None])[0],
            argmax(theta[None])[0], tol=1e-9, max_iter=5000, line_search="exact-quadratic",
        )  # fmt: skip
        assert theirs.converged
        np.testing.assert_allclose(ours.points[0], theirs.point, atol=3e-5)
        assert 3 * ours.n_iter[0] < theirs.n_oracle


class TestSupportsByIndex:
    def test_blocks_are_read_and_written_like_rows(self):
        rng = np.random.default_rng(0)
        n, dim = 30, 5

        def best(rows, indices):
            return np.eye(dim)[rows.argmax(axis=1)]

        def solved(count):
            return project_from_argmax(rng.normal(size=(count, dim)), best)

        def points(support):
            weights, vertices = support.unfold()
            return (weights[:, :, None] * vertices).sum(axis=1)

        first = solved(n)
        kept, expected = Supports(first.support), first.points.copy()
        for _ in range(150):  # more than are kept apart
            idx = rng.permutation(n)[: rng.integers(1, 6)]
            block = solved(len(idx))
            kept[idx] = Supports(block.support)
            expected[idx] = block.points
            asked = rng.permutation(n)[:7]
            assert np.allclose(points(kept[asked].support), expected[asked], atol=1e-12)
        assert len(kept) == n
        assert len(kept.parts) <= 65
        assert np.allclose(points(kept.support), expected, atol=1e-12)
        assert np.allclose(points(kept[3:9].support), expected[3:9], atol=1e-12)
