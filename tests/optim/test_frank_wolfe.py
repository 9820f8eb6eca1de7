"""Frank-Wolfe methods: they agree with exact solutions, their gaps are true, their decompositions add up."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fenchel.errors import InvalidInput, OracleError
from fenchel.optim import minimize_over_hull, project_from_argmax

LINEAR = ["pairwise", "blended", "away"]
METHODS = [*LINEAR, "vanilla", "nearest"]


def single(vertices):
    return lambda scores: vertices[(vertices.reshape(len(vertices), -1) @ scores.ravel()).argmax()]


def nearest_of(vertices):
    def nearest_extreme(grad, x, lam):
        cost = vertices @ grad + 0.5 * lam * np.square(vertices - x).sum(axis=1)
        return vertices[cost.argmin()]

    return nearest_extreme


def distance_to(theta):
    return lambda x: (0.5 * float(np.square(x - theta).sum()), x - theta)


def log_loss(seed, dim):
    """A smooth convex function that is no quadratic."""
    rng = np.random.default_rng(seed)
    data, sign = rng.normal(size=(50, dim)), rng.choice([-1.0, 1.0], size=50)

    def value_and_grad(x):
        margin = sign * (data @ x)
        return float(np.logaddexp(0, -margin).mean()), -(data.T @ (sign / (1 + np.exp(margin)))) / 50

    return value_and_grad


def check(result, value_and_grad, vertices, tol):
    value, grad = value_and_grad(result.point)
    gap = float(((result.point - vertices) * grad).reshape(len(vertices), -1).sum(axis=1).max())
    assert result.value == pytest.approx(value, abs=1e-12)
    assert result.gap == pytest.approx(max(gap, 0), abs=1e-12)
    assert result.converged == (result.gap <= tol + 1e-13)
    assert (result.weights > 0).all()
    assert result.weights.sum() == pytest.approx(1, abs=1e-12)
    np.testing.assert_allclose(np.tensordot(result.weights, result.vertices, 1), result.point, atol=1e-12)


class TestAgainstProjection:
    @settings(deadline=None, max_examples=60)
    @given(st.integers(0, 10**6), st.sampled_from(LINEAR), st.sampled_from(["adaptive", "exact-quadratic"]))
    def test_random_lists(self, seed, method, line_search):
        rng = np.random.default_rng(seed)
        dim = rng.integers(1, 7)
        vertices = rng.integers(0, 2, size=(20, dim)).astype(float)
        theta = rng.choice([0.1, 1.0, 10.0]) * rng.normal(size=dim)
        function = distance_to(theta)
        result = minimize_over_hull(
            function, single(vertices), vertices[0], method=method, tol=1e-9, max_iter=5000, line_search=line_search
        )
        check(result, function, vertices, 1e-9)
        assert result.converged
        exact = project_from_argmax(theta[None], lambda rows, i: single(vertices)(rows[0])[None])
        np.testing.assert_allclose(result.point, exact.points[0], atol=7e-5)

    @pytest.mark.parametrize("method", METHODS)
    def test_slow_methods_get_near(self, method):
        rng = np.random.default_rng(0)
        vertices = rng.integers(0, 2, size=(40, 6)).astype(float)
        function = distance_to(0.5 + 0.5 * rng.normal(size=6))
        result = minimize_over_hull(
            function, single(vertices), vertices[0], method=method, tol=1e-3, max_iter=5000, lipschitz=1.0,
            nearest_extreme=nearest_of(vertices),
        )  # fmt: skip
        check(result, function, vertices, 1e-3)
        assert result.converged

    def test_scores_far_out(self):
        """At scores of 1e6 the solution is a vertex, and gaps are judged by their own rounding."""
        vertices = np.eye(5)
        theta = 1e6 * np.random.default_rng(1).normal(size=5)
        for method in LINEAR:
            result = minimize_over_hull(distance_to(theta), single(vertices), vertices[0], method=method, tol=1e-9)
            assert result.converged
            assert (result.point == np.eye(5)[theta.argmax()]).all()


class TestSmoothFunctions:
    @pytest.mark.parametrize("method", LINEAR)
    @pytest.mark.parametrize("seed", range(3))
    def test_log_loss_on_a_polytope(self, method, seed):
        rng = np.random.default_rng(seed)
        vertices = 2 * rng.normal(size=(60, 5))
        function = log_loss(seed, 5)
        result = minimize_over_hull(function, single(vertices), vertices[0], method=method, tol=1e-9, max_iter=5000)
        check(result, function, vertices, 1e-9)
        assert result.converged
        # the gap bounds the error of the value: no vertex, no mixture does better
        mixtures = rng.dirichlet(np.full(60, 0.1), size=300) @ vertices
        assert min(function(x)[0] for x in mixtures) >= result.value - result.gap

    @pytest.mark.parametrize("method", METHODS)
    def test_gap_bounds_the_error_all_along(self, method):
        vertices = 2 * np.random.default_rng(0).normal(size=(60, 5))
        function = log_loss(0, 5)
        best = minimize_over_hull(function, single(vertices), vertices[0], tol=1e-11, max_iter=20000)
        for limit in (1, 3, 10, 40):
            result = minimize_over_hull(
                function, single(vertices), vertices[0], method=method, tol=0, max_iter=limit,
                nearest_extreme=nearest_of(vertices),
            )  # fmt: skip
            check(result, function, vertices, 0)
            assert result.n_iter <= limit
            assert result.value - best.value <= result.gap + 1e-12

    def test_a_function_with_a_domain(self):
        """-sum log is infinite on the boundary; the minimiser on the simplex is its weights."""
        share = np.array([0.1, 0.2, 0.3, 0.4])

        def value_and_grad(x):
            with np.errstate(divide="ignore"):
                return float(-(share * np.log(x)).sum()), -share / x

        start = minimize_over_hull(distance_to(np.full(4, 0.25)), single(np.eye(4)), np.eye(4)[0], tol=1e-12)
        result = minimize_over_hull(value_and_grad, single(np.eye(4)), start, tol=1e-10)
        assert result.converged
        np.testing.assert_allclose(result.point, share, atol=1e-5)

    def test_points_of_any_shape(self):
        vertices = np.eye(9)[:, :, None].repeat(2, axis=2).reshape(9, 3, 6)
        theta = np.random.default_rng(0).normal(size=(3, 6))
        result = minimize_over_hull(distance_to(theta), single(vertices), vertices[0], tol=1e-9)
        assert result.point.shape == (3, 6)
        assert result.vertices.shape[1:] == (3, 6)
        check(result, distance_to(theta), vertices, 1e-9)


class TestDetails:
    vertices = np.random.default_rng(0).integers(0, 2, size=(100, 12)).astype(float)
    function = staticmethod(distance_to(0.5 + 0.4 * np.random.default_rng(1).normal(size=12)))

    def run(self, **settings):
        settings = {"tol": 1e-9, "max_iter": 5000, "line_search": "exact-quadratic"} | settings
        return minimize_over_hull(self.function, single(self.vertices), self.vertices[0], **settings)

    def test_blended_asks_the_oracle_less(self):
        assert 2 * self.run(method="blended").n_oracle < self.run(method="pairwise").n_oracle

    def test_nearest_at_weight_zero_is_the_maximiser(self):
        """With lam = 0 the oracle is the maximiser at minus the gradient, so the method is Frank-Wolfe."""
        seen = []

        def nearest(grad, x, lam):
            seen.append(lam)
            return nearest_of(self.vertices)(grad, x, 0.0)

        ours = self.run(method="nearest", nearest_extreme=nearest, lipschitz=1.0, max_iter=50)
        theirs = self.run(method="vanilla", max_iter=50)
        np.testing.assert_allclose(ours.point, theirs.point, atol=1e-12)
        np.testing.assert_allclose(seen[:3], [1.0, 2 / 3, 0.5])

    def test_nearest_keeps_near_a_face(self):
        """Where the solution lies on a small face, far vertices are never touched (Garber and Wolf 2021)."""
        vertices = np.concatenate([np.eye(30), 1 - np.eye(30)])
        target = np.zeros(30)
        target[:3] = 1 / 3
        result = minimize_over_hull(
            distance_to(target), single(vertices), vertices[0], method="nearest", tol=1e-4, lipschitz=1.0,
            nearest_extreme=nearest_of(vertices), max_iter=3000,
        )  # fmt: skip
        assert result.converged
        assert (result.vertices.sum(axis=1) == 1).all()

    def test_goes_on_from_a_result(self):
        part = self.run(max_iter=10)
        assert not part.converged
        whole = minimize_over_hull(self.function, single(self.vertices), part, tol=1e-9, max_iter=5000)
        assert whole.converged
        np.testing.assert_allclose(whole.point, self.run().point, atol=7e-5)
        again = minimize_over_hull(self.function, single(self.vertices), whole, tol=1e-8)
        assert again.n_iter == 0
        assert again.converged

    def test_inputs_are_left_alone(self):
        start = self.vertices[0].copy()
        start.flags.writeable = False
        minimize_over_hull(self.function, single(self.vertices), start, tol=1e-6)

    def test_a_buffer_that_is_used_again(self):
        buffer = np.empty(12)

        def argmax(scores):
            buffer[:] = single(self.vertices)(scores)
            return buffer

        result = minimize_over_hull(self.function, argmax, self.vertices[0], tol=1e-8, max_iter=5000)
        check(result, self.function, self.vertices, 1e-8)

    def test_broken_oracles(self):
        with pytest.raises(OracleError, match=r"argmax returned an array of shape \(3,\), expected \(12,\)"):
            minimize_over_hull(self.function, lambda scores: scores[:3], self.vertices[0])
        with pytest.raises(OracleError, match="not finite"):
            minimize_over_hull(self.function, lambda scores: np.full(12, np.nan), self.vertices[0])
        rng = np.random.default_rng(0)
        with pytest.raises(OracleError, match="does not maximise"):
            minimize_over_hull(self.function, lambda scores: self.vertices[rng.integers(100)], self.vertices[0], tol=0)

    def test_settings(self):
        for wrong in ({"method": "fast"}, {"line_search": "none"}, {"tol": -1.0}, {"max_iter": 0}, {"lipschitz": 0.0}):
            with pytest.raises(InvalidInput):
                self.run(**wrong)
        with pytest.raises(InvalidInput, match="nearest_extreme"):
            self.run(method="nearest")
