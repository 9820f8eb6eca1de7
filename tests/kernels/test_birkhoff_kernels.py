"""The kernels of the Birkhoff polytope, by optimality conditions, enumeration and other libraries' solvers."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from fenchel._core import parallel
from fenchel.errors import InvalidInput
from fenchel.kernels import assignment, birkhoff, sinkhorn
from fenchel.optim.admm import birkhoff_admm

KINDS = ["normal", "integers", "constant", "equal rows", "equal columns", "permutation", "rank one", "offsets", "heavy"]
sizes = st.integers(1, 9)
seeds = st.integers(0, 10**6)
kinds = st.sampled_from(KINDS)
scales = st.sampled_from([1e-12, 1e-3, 1.0, 5.0, 50.0, 1e3, 1e6, 1e12])


def scores(kind, batch, n, rng):
    shape = (batch, n, n)
    match kind:
        case "normal":
            return rng.normal(size=shape)
        case "integers":
            return rng.integers(-2, 3, size=shape).astype(float)
        case "constant":
            return np.full(shape, rng.normal())
        case "equal rows":
            return np.repeat(rng.normal(size=(batch, 1, n)), n, axis=1)
        case "equal columns":
            return np.repeat(rng.normal(size=(batch, n, 1)), n, axis=2)
        case "permutation":
            return matrices(np.stack([rng.permutation(n) for _ in range(batch)]))
        case "rank one":
            return rng.random((batch, n, 1)) * rng.random((batch, 1, n))
        case "offsets":
            return rng.normal(size=shape) + 100 * rng.normal(size=(batch, 1, n)) + 100 * rng.normal(size=(batch, n, 1))
        case "heavy":
            return rng.standard_cauchy(size=shape)


def forbid(theta, share, rng):
    """Some scores -inf, at random, but never on one permutation."""
    batch, n, _ = theta.shape
    keep = matrices(np.stack([rng.permutation(n) for _ in range(batch)])) > 0
    return np.where(keep | (rng.random(theta.shape) > share), theta, -np.inf)


def matrices(columns):
    n = columns.shape[-1]
    return np.eye(n)[columns]


def permutations(n):
    return np.array(list(itertools.permutations(range(n))))


def assign(theta):
    batch, n, _ = theta.shape
    columns, status = np.empty((batch, n), np.int64), np.empty(batch, np.int64)
    parallel.run(assignment.solve, batch, theta.size * n, theta, columns, status)
    return columns, status


def assign_dual(theta):
    batch, n, _ = theta.shape
    columns, status = np.empty((batch, n), np.int64), np.empty(batch, np.int64)
    rows, cols = np.empty((batch, n)), np.empty((batch, n))
    parallel.run(assignment.solve_dual, batch, theta.size * n, theta, columns, rows, cols, status)
    return columns, rows, cols, status


def solve(kernel, theta, tol=1e-9, max_iter=1000, start=None):
    batch, n, _ = theta.shape
    out, u, v = np.empty_like(theta), np.empty((batch, n)), np.empty((batch, n))
    if start is not None:
        u[:], v[:] = start
    error, n_iter, status = np.empty(batch), np.empty(batch, np.int64), np.empty(batch, np.int64)
    args = (theta, tol, max_iter, start is not None, out, u, v, error, n_iter, status)
    parallel.run(kernel, batch, theta.size * n, *args)
    return out, u, v, error, n_iter, status


def violation(points):
    return max(np.abs(points.sum(1) - 1).max(), np.abs(points.sum(2) - 1).max(), -points.min())


def largest(theta):
    return max(1.0, np.abs(theta[np.isfinite(theta)]).max())


def round_points(points):
    out = np.empty_like(points)
    parallel.run(birkhoff.round_to_doubly_stochastic, len(points), points.size, points, out)
    return out


def doubly_stochastic(kind, batch, n, rng):
    match kind:
        case "dense":
            return solve(sinkhorn.project, rng.normal(size=(batch, n, n)), tol=1e-13)[0]
        case "sparse":
            return solve(birkhoff.project, rng.normal(size=(batch, n, n)))[0]
        case "vertices":
            return scores("permutation", batch, n, rng)
        case "uniform":
            return np.full((batch, n, n), 1 / n)
        case "ties":
            draws = [matrices(np.stack([rng.permutation(n) for _ in range(4)])).mean(axis=0) for _ in range(batch)]
            return np.stack(draws)


class TestAssignment:
    @settings(deadline=None, max_examples=150)
    @given(n=sizes, seed=seeds, kind=kinds, scale=scales)
    def test_best_sum(self, n, seed, kind, scale):
        theta = scale * scores(kind, 7, n, np.random.default_rng(seed))
        size = np.abs(theta).max()
        rows = np.arange(n)
        columns, status = assign(theta)
        dual_columns, u, v, dual_status = assign_dual(theta)
        assert not status.any()
        assert not dual_status.any()
        for item, first, second in zip(theta, columns, dual_columns, strict=True):
            best = item[linear_sum_assignment(item, maximize=True)].sum()
            for found in (first, second):
                assert sorted(found) == list(range(n))
                assert item[rows, found].sum() == pytest.approx(best, abs=1e-14 * n * size)
        slack = u[:, :, None] + v[:, None] - theta
        assert slack.min() >= -1e-14 * size
        assert np.abs(np.take_along_axis(slack, dual_columns[..., None], axis=2)).max() <= 1e-14 * size

    @pytest.mark.parametrize("n", [20, 34, 100, 300])
    @pytest.mark.parametrize("kind", ["normal", "integers", "rank one", "heavy"])
    def test_large(self, n, kind):
        theta = scores(kind, 3, n, np.random.default_rng(n))
        for item, found in zip(theta, assign(theta)[0], strict=True):
            best = item[linear_sum_assignment(item, maximize=True)].sum()
            assert item[np.arange(n), found].sum() == pytest.approx(best, abs=1e-12 * np.abs(item).max())

    @settings(deadline=None, max_examples=50)
    @given(n=st.integers(1, 6), seed=seeds)
    def test_integers_are_exact_and_ties_go_to_the_first(self, n, seed):
        theta = np.random.default_rng(seed).integers(-2, 3, size=(5, n, n)) * 1e12
        every = permutations(n)
        totals = theta[:, np.arange(n), every].sum(axis=-1)
        np.testing.assert_array_equal(assign(theta)[0], every[totals.argmax(axis=1)])

    @settings(deadline=None, max_examples=100)
    @given(n=sizes, seed=seeds, share=st.floats(0.2, 0.95))
    def test_forbidden(self, n, seed, share):
        rng = np.random.default_rng(seed)
        theta = rng.normal(size=(6, n, n))
        theta[rng.random(theta.shape) < share] = -np.inf
        columns, status = assign(theta)
        np.testing.assert_array_equal(status, assign_dual(theta)[3])
        for item, found, bad in zip(theta, columns, status, strict=True):
            try:
                best = item[linear_sum_assignment(item, maximize=True)].sum()
            except ValueError:  # infeasible
                assert bad == 1
            else:
                assert bad == 0
                assert item[np.arange(n), found].sum() == pytest.approx(best, abs=1e-12)

    def test_mixed_magnitudes_stop(self):
        theta = np.exp(20 * np.random.default_rng(0).normal(size=(20, 12, 12)))
        columns, _ = assign(theta)
        assert (np.sort(columns, axis=1) == np.arange(12)).all()

    @pytest.mark.parametrize("n", [3, 6, 7, 12])
    def test_items_are_independent(self, n):
        theta = np.random.default_rng(1).integers(0, 3, size=(300, n, n)).astype(float)
        together = assign(theta)[0]
        alone = np.concatenate([assign(theta[i : i + 1])[0] for i in range(300)])
        np.testing.assert_array_equal(together, alone)


class TestEuclideanProjection:
    @staticmethod
    def check(theta, tol=1e-9, accuracy=1e-12):
        """Optimality: a feasible point that is max(theta - u - v, 0) is the projection."""
        out, u, v, error, _, status = solve(birkhoff.project, theta, tol)
        assert not status.any()
        assert (error <= tol).all()
        n = theta.shape[1]
        assert violation(out) <= accuracy * max(1.0, n / 10)
        with np.errstate(invalid="ignore"):
            np.testing.assert_allclose(
                np.maximum(theta - u[:, :, None] - v[:, None], 0), out, rtol=0, atol=1e-14 * n * largest(theta)
            )
        return out

    @settings(deadline=None, max_examples=200)
    @given(n=sizes, seed=seeds, kind=kinds, scale=scales)
    def test_optimality(self, n, seed, kind, scale):
        self.check(scale * scores(kind, 5, n, np.random.default_rng(seed)))

    @settings(deadline=None, max_examples=100)
    @given(n=sizes, seed=seeds, kind=kinds, scale=scales, share=st.floats(0.1, 0.9))
    def test_forbidden(self, n, seed, kind, scale, share):
        rng = np.random.default_rng(seed)
        theta = forbid(scale * scores(kind, 5, n, rng), share, rng)
        out = self.check(theta)
        assert (out[theta == -np.inf] == 0).all()

    @pytest.mark.parametrize("n", [34, 100])
    @pytest.mark.parametrize("scale", [0.1, 1.0, 5.0, 50.0, 1e3])
    def test_large(self, n, scale):
        self.check(scale * np.random.default_rng(n).normal(size=(3, n, n)))

    @pytest.mark.parametrize("n", [2, 7, 34])
    def test_structured(self, n):
        i = np.arange(n)
        for theta in (
            np.tril(np.random.default_rng(0).normal(size=(n, n)) * 5),
            np.where(i[:, None] >= i, 1.0, -np.inf),
            -np.abs(i[:, None] - i) * 1.0,
            i[:, None] * i * 1e-2,
            np.where((i[:, None] < n // 2) & (i < n // 3), 5.0, 0.0),
        ):
            self.check(theta[None], accuracy=1e-11)

    @settings(deadline=None, max_examples=60)
    @given(n=st.integers(1, 4), seed=seeds, kind=kinds, scale=st.sampled_from([0.1, 1.0, 5.0]))
    def test_no_vertex_is_better(self, n, seed, kind, scale):
        """The Frank-Wolfe gap over all vertices bounds half the squared distance to the projection."""
        theta = scale * scores(kind, 4, n, np.random.default_rng(seed))
        out = self.check(theta)
        vertices = matrices(permutations(n))
        residual = theta - out
        gap = np.einsum("bij,vij->bv", residual, vertices).max(axis=1) - (residual * out).sum(axis=(1, 2))
        assert (gap <= 1e-13 * n * largest(theta)).all()

    @pytest.mark.parametrize("scale", [0.3, 1.0, 5.0])
    def test_admm_agrees(self, scale):
        theta = scale * np.random.default_rng(3).normal(size=(6, 8, 8))
        theta[0, 0, :4] = -np.inf
        reference = birkhoff_admm(theta, tol=1e-11, max_iter=20_000)
        assert reference.converged
        np.testing.assert_allclose(self.check(theta), reference.points, atol=1e-8)

    @settings(deadline=None, max_examples=50)
    @given(n=st.integers(2, 8), seed=seeds)
    def test_offsets_cost_no_digits(self, n, seed):
        """Scores that hold their differences exactly beside 1e12 give the same point as the differences alone."""
        rng = np.random.default_rng(seed)
        small = rng.integers(-(2**13), 2**13, size=(4, n, n)) / 2.0**12
        offsets = rng.integers(-(2**39), 2**39, size=(4, n, 1)) + rng.integers(-(2**39), 2**39, size=(4, 1, n))
        np.testing.assert_allclose(self.check(small + offsets), self.check(small), rtol=0, atol=1e-13)

    @pytest.mark.parametrize("kind", ["dense", "sparse", "vertices", "uniform", "ties"])
    def test_members_stay(self, kind):
        points = doubly_stochastic(kind, 5, 9, np.random.default_rng(0))
        np.testing.assert_allclose(self.check(points), points, rtol=0, atol=1e-12)

    def test_warm_start(self):
        theta = np.random.default_rng(0).normal(size=(10, 34, 34))
        cold, u, v, _, cold_steps, _ = solve(birkhoff.project, theta)
        again, *_, steps, status = solve(birkhoff.project, theta, start=(u, v))
        assert not status.any()
        assert steps.max() <= 1
        np.testing.assert_allclose(again, cold, rtol=0, atol=1e-13)
        near = theta + 1e-3 * np.random.default_rng(1).normal(size=theta.shape)
        warm, _, _, _, steps, _ = solve(birkhoff.project, near, start=(u, v))
        np.testing.assert_allclose(warm, solve(birkhoff.project, near)[0], rtol=0, atol=1e-12)
        assert steps.mean() < cold_steps.mean()
        far = solve(birkhoff.project, theta, start=(1e9 * u, np.where(v > 0, np.nan, v)))
        np.testing.assert_allclose(far[0], cold, rtol=0, atol=1e-12)

    def test_warm_start_far_away(self):
        theta = np.random.default_rng(0).normal(size=(5, 6, 6))
        start = 1e6 * np.random.default_rng(1).normal(size=(2, 5, 6))
        out, *_, status = solve(birkhoff.project, theta, start=start)
        assert not status.any()
        np.testing.assert_allclose(out, solve(birkhoff.project, theta)[0], rtol=0, atol=1e-12)

    def test_out_of_iterations(self):
        theta = 5 * np.random.default_rng(0).normal(size=(4, 34, 34))
        *_, error, n_iter, status = solve(birkhoff.project, theta, max_iter=1)
        assert (status == 2).all()
        assert (error > 1e-9).all()
        assert (n_iter <= 1).all()

    def test_no_permutation(self):
        theta = np.zeros((3, 4, 4))
        theta[1, :2, 1:] = -np.inf
        out, _, _, error, _, status = solve(birkhoff.project, theta)
        np.testing.assert_array_equal(status, [0, 1, 0])
        assert np.isnan(out[1]).all()
        assert np.isinf(error[1])


class TestKLProjection:
    @staticmethod
    def check(theta, tol=1e-9):
        """Optimality: log P - theta is the sum of a row and a column term where P is positive."""
        out, u, v, error, _, status = solve(sinkhorn.project, theta, tol)
        assert not status.any()
        assert violation(out) <= tol + 1e-14
        assert (error <= tol).all()
        with np.errstate(divide="ignore", invalid="ignore"):
            off = np.where(out > 1e-200, np.log(out) - theta + u[:, :, None] + v[:, None], 0)
        assert np.abs(off).max() <= 1e-14 * theta.shape[1] * largest(theta)
        return out

    @settings(deadline=None, max_examples=200)
    @given(n=sizes, seed=seeds, kind=kinds, scale=scales)
    def test_optimality(self, n, seed, kind, scale):
        self.check(scale * scores(kind, 5, n, np.random.default_rng(seed)))

    @settings(deadline=None, max_examples=100)
    @given(n=sizes, seed=seeds, kind=kinds, scale=scales, share=st.floats(0.1, 0.9))
    def test_forbidden(self, n, seed, kind, scale, share):
        rng = np.random.default_rng(seed)
        theta = forbid(scale * scores(kind, 5, n, rng), share, rng)
        out = self.check(theta)
        allowed = np.empty(theta.shape, bool)
        sinkhorn.total_support(0, 5, theta, allowed, np.empty(5, np.int64))
        assert (out[~allowed] == 0).all()
        if scale <= 5 and kind not in ("heavy", "offsets"):
            assert (out[allowed] > 0).all()

    @pytest.mark.parametrize("n", [34, 100])
    @pytest.mark.parametrize("scale", [1.0, 5.0, 50.0, 1e3, 1e6])
    def test_large(self, n, scale):
        self.check(scale * np.random.default_rng(n).normal(size=(3, n, n)))

    @settings(deadline=None, max_examples=100)
    @given(seed=seeds, scale=scales)
    def test_two_by_two(self, seed, scale):
        theta = scale * np.random.default_rng(seed).normal(size=(6, 2, 2))
        half = (theta[:, 0, 1] + theta[:, 1, 0] - theta[:, 0, 0] - theta[:, 1, 1]) / 2
        exact = [1 / (1 + math.exp(min(x, 700.0))) for x in half]
        out = self.check(theta, tol=1e-12)
        np.testing.assert_allclose(out[:, 0, 0], exact, rtol=0, atol=1e-11)

    def test_tight_tolerance(self):
        theta = np.random.default_rng(0).normal(size=(5, 10, 10)) * np.array([0.1, 1, 5, 50, 500])[:, None, None]
        self.check(theta, tol=1e-13)

    def test_cold_limit_is_the_assignment(self):
        theta = 1e6 * np.random.default_rng(0).normal(size=(20, 6, 6))
        np.testing.assert_allclose(self.check(theta), matrices(assign(theta)[0]), atol=1e-9)

    @settings(deadline=None, max_examples=50)
    @given(n=st.integers(2, 8), seed=seeds)
    def test_offsets_cost_no_digits(self, n, seed):
        rng = np.random.default_rng(seed)
        small = rng.integers(-(2**13), 2**13, size=(4, n, n)) / 2.0**12
        offsets = rng.integers(-(2**39), 2**39, size=(4, n, 1)) + rng.integers(-(2**39), 2**39, size=(4, 1, n))
        np.testing.assert_allclose(self.check(small + offsets, 1e-12), self.check(small, 1e-12), rtol=0, atol=1e-11)

    def test_warm_start(self):
        theta = np.random.default_rng(0).normal(size=(10, 20, 20))
        theta[5:] *= 100
        cold, u, v, _, _, _ = solve(sinkhorn.project, theta)
        again, _, _, _, steps, status = solve(sinkhorn.project, theta, start=(u, v))
        assert not status.any()
        assert (steps == 0).all()
        np.testing.assert_allclose(again, cold, rtol=0, atol=1e-8)
        start = (u, 1e7 * np.random.default_rng(1).normal(size=v.shape))
        far, *_, status = solve(sinkhorn.project, theta, start=start)
        assert not status.any()
        assert violation(far) <= 1e-9

    def test_out_of_iterations(self):
        theta = 5 * np.random.default_rng(0).normal(size=(4, 34, 34))
        out, *_, error, n_iter, status = solve(sinkhorn.project, theta, max_iter=2)
        assert (status == 2).all()
        assert (n_iter <= 2).all()
        for item, off in zip(out, error, strict=True):
            assert off == pytest.approx(violation(item[None]), abs=1e-14)

    def test_no_permutation(self):
        theta = np.zeros((3, 4, 4))
        theta[1, :2, 1:] = -np.inf
        out, *_, status = solve(sinkhorn.project, theta)
        np.testing.assert_array_equal(status, [0, 1, 0])
        assert np.isnan(out[1]).all()

    @settings(deadline=None, max_examples=100)
    @given(n=st.integers(1, 5), seed=seeds, share=st.floats(0.0, 0.9))
    def test_total_support(self, n, seed, share):
        theta = np.zeros((6, n, n))
        theta[np.random.default_rng(seed).random(theta.shape) < share] = -np.inf
        allowed, status = np.empty(theta.shape, bool), np.empty(6, np.int64)
        sinkhorn.total_support(0, 6, theta, allowed, status)
        every = matrices(permutations(n)) > 0
        for item, found, bad in zip(theta, allowed, status, strict=True):
            fitting = every[[not (item[p] == -np.inf).any() for p in every]]
            assert bad == (len(fitting) == 0)
            np.testing.assert_array_equal(found, fitting.any(axis=0))

    def test_total_support_of_a_long_chain(self):
        """Components as long as the matrix, forwards and backwards: no recursion may overflow."""
        n = 400
        theta = np.full((2, n, n), -np.inf)
        theta[:, np.arange(n), np.arange(n)] = 0
        theta[0, np.arange(n - 1), np.arange(1, n)] = 0  # a chain: only the diagonal has support
        theta[1, np.arange(n), np.arange(1, n + 1) % n] = 0  # a ring: everything has
        allowed, status = np.empty(theta.shape, bool), np.empty(2, np.int64)
        sinkhorn.total_support(0, 2, theta, allowed, status)
        np.testing.assert_array_equal(allowed[0], np.eye(n, dtype=bool))
        np.testing.assert_array_equal(allowed[1], theta[1] == 0)


POINTS = st.sampled_from(["dense", "sparse", "vertices", "uniform", "ties"])


class TestRounding:
    @settings(deadline=None, max_examples=100)
    @given(n=sizes, seed=seeds, kind=POINTS, off=st.sampled_from([0.0, 1e-12, 1e-6, 1e-3]))
    def test_exact_and_close(self, n, seed, kind, off):
        rng = np.random.default_rng(seed)
        points = doubly_stochastic(kind, 4, n, rng)
        near = points * (1 + off * rng.uniform(-1, 1, size=points.shape))
        out = round_points(near)
        assert violation(out) <= 1e-14
        assert np.abs(out - near).max() <= 4 * off + 1e-12
        assert (out[points == 0] == 0).all()

    @settings(deadline=None, max_examples=50)
    @given(n=sizes, seed=seeds)
    def test_additive_noise(self, n, seed):
        rng = np.random.default_rng(seed)
        points = doubly_stochastic("sparse", 4, n, rng)
        near = points + 1e-6 * rng.uniform(-1, 1, size=points.shape)
        out = round_points(near)
        assert violation(out) <= 1e-14
        assert np.abs(out - near).max() <= 1e-5 * n

    @pytest.mark.parametrize(
        "point",
        [[[1, 1e-6], [0, 1]], [[0, 0], [0, 0]], [[1, 1], [0, 0]], [[1, 0], [1, 0]], [[2, 0], [0, 0.5]]],
    )
    def test_where_no_scaling_fits(self, point):
        assert violation(round_points(np.array([point], float))) <= 1e-15


class TestDecomposition:
    @settings(deadline=None, max_examples=100)
    @given(n=sizes, seed=seeds, kind=POINTS, off=st.sampled_from([0.0, 1e-9, 1e-6]))
    def test_reconstructs(self, n, seed, kind, off):
        rng = np.random.default_rng(seed)
        points = doubly_stochastic(kind, 4, n, rng)
        points *= 1 + off * rng.uniform(-1, 1, size=points.shape)
        terms = birkhoff.most_terms(points)
        assert terms <= (n - 1) ** 2 + 1
        weights, counts = np.zeros((4, terms)), np.empty(4, np.int64)
        columns = np.zeros((4, terms, n), np.int64)
        parallel.run(birkhoff.decompose, 4, points.size, points, weights, columns, counts)
        for point, w, c, count in zip(points, weights, columns, counts, strict=True):
            assert 1 <= count <= terms
            assert (w[:count] > 0).all()
            assert w[:count].sum() == pytest.approx(1, abs=1e-14)
            assert (np.sort(c[:count], axis=1) == np.arange(n)).all()
            again = np.einsum("t,tij->ij", w[:count], matrices(c[:count]))
            np.testing.assert_allclose(again, point, rtol=0, atol=1e-11 + 4 * off)
            if kind == "vertices":
                assert count == 1

    def test_large(self):
        rng = np.random.default_rng(0)
        for kind in ("dense", "sparse"):
            points = round_points(doubly_stochastic(kind, 2, 40, rng))
            terms = birkhoff.most_terms(points)
            weights, counts = np.zeros((2, terms)), np.empty(2, np.int64)
            columns = np.zeros((2, terms, 40), np.int64)
            birkhoff.decompose(0, 2, points, weights, columns, counts)
            again = np.zeros_like(points)
            for b in range(2):
                np.add.at(again[b], (np.arange(40), columns[b, : counts[b]]), weights[b, : counts[b], None])
            np.testing.assert_allclose(again, points, rtol=0, atol=1e-11)


def draw(points, draw_seeds):
    columns = np.empty(points.shape[:2], np.int64)
    parallel.run(birkhoff.sample, len(points), points.size, points, draw_seeds, columns)
    return columns


class TestSampling:
    @pytest.mark.parametrize("kind", ["dense", "sparse", "vertices", "uniform", "ties"])
    @pytest.mark.parametrize("n", [1, 2, 3, 5, 8])
    def test_mean(self, kind, n):
        count = 20_000
        rng = np.random.default_rng(n)
        point = doubly_stochastic(kind, 1, n, rng)
        columns = draw(np.repeat(point, count, axis=0), rng.integers(0, 2**64, size=count, dtype=np.uint64))
        assert (np.sort(columns, axis=1) == np.arange(n)).all()
        mean = np.stack([np.bincount(columns[:, i], minlength=n) for i in range(n)]) / count
        spread = np.sqrt(point[0] * (1 - point[0]).clip(0) / count)
        assert (np.abs(mean - point[0]) <= 5 * spread + 1e-9).all()

    def test_large_and_repeatable(self):
        rng = np.random.default_rng(0)
        points = np.concatenate([doubly_stochastic(kind, 20, 34, rng) for kind in ("dense", "sparse", "ties")])
        draw_seeds = rng.integers(0, 2**64, size=60, dtype=np.uint64)
        columns = draw(points, draw_seeds)
        assert (np.sort(columns, axis=1) == np.arange(34)).all()
        assert (np.take_along_axis(points, columns[..., None], axis=2) > 0).all()
        alone = np.concatenate([draw(points[i : i + 1], draw_seeds[i : i + 1]) for i in range(60)])
        np.testing.assert_array_equal(columns, alone)

    def test_nearly_doubly_stochastic(self):
        rng = np.random.default_rng(0)
        points = doubly_stochastic("sparse", 200, 7, rng)
        points += 1e-6 * rng.random(points.shape)
        columns = draw(points, rng.integers(0, 2**64, size=200, dtype=np.uint64))
        assert (np.sort(columns, axis=1) == np.arange(7)).all()


class TestAdmm:
    def test_batches_and_refusals(self):
        theta = np.random.default_rng(0).normal(size=(2, 3, 4, 4))
        together = birkhoff_admm(theta, tol=1e-10)
        assert together.converged
        assert together.points.shape == theta.shape
        np.testing.assert_allclose(together.points[1, 2], birkhoff_admm(theta[1, 2], tol=1e-10).points, atol=1e-9)
        short = birkhoff_admm(theta, max_iter=2)
        assert not short.converged
        assert short.primal_residual > 1e-6
        with pytest.raises(InvalidInput, match="square"):
            birkhoff_admm(np.zeros((2, 3)))
