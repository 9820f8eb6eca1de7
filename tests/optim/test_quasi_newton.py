"""Projected quasi-Newton and spectral projected gradients, against exact solutions and each other."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from fenchel.errors import InvalidInput, OracleError
from fenchel.optim import projected_quasi_newton, spectral_projected_gradient

METHODS = [projected_quasi_newton, spectral_projected_gradient]


def box(x):
    return np.clip(x, 0, 1)


def simplex(x):
    ordered = -np.sort(-x)
    excess = np.cumsum(ordered) - 1
    size = (ordered - excess / np.arange(1, len(x) + 1) > 0).sum()
    return np.maximum(x - excess[size - 1] / size, 0)


def quadratic(seed, dim, condition):
    rng = np.random.default_rng(seed)
    turn, _ = np.linalg.qr(rng.normal(size=(dim, dim)))
    matrix = (turn * np.logspace(0, np.log10(condition), dim)) @ turn.T
    linear = 0.1 * condition * rng.normal(size=dim)
    return lambda x: (float(0.5 * x @ matrix @ x - linear @ x), matrix @ x - linear)


def check(result, function, project, tol):
    value, grad = function(result.point)
    assert result.value == value
    assert result.residual == pytest.approx(np.linalg.norm(project(result.point - grad) - result.point), abs=1e-11)
    assert result.converged == (result.residual <= tol + 1e-15 * (1 + np.linalg.norm(grad)))
    np.testing.assert_allclose(project(result.point), result.point, atol=1e-12)


@pytest.mark.parametrize("method", METHODS)
class TestMinimum:
    @settings(deadline=None, max_examples=100)
    @given(seed=st.integers(0, 10**6), dim=st.integers(1, 20), project=st.sampled_from([box, simplex]))
    def test_quadratics(self, method, seed, dim, project):
        function = quadratic(seed, dim, 100.0)
        result = method(function, project, np.zeros(dim), tol=1e-8, max_iter=2000)
        check(result, function, project, 1e-8)
        assert result.converged

    @pytest.mark.parametrize("condition", [1e2, 1e4, 1e6])
    def test_ill_conditioned(self, method, condition):
        function = quadratic(0, 60, condition)
        result = method(function, box, np.full(60, 0.5), tol=1e-7, max_iter=3000)
        assert result.converged
        exact = minimize(
            function, np.full(60, 0.5), jac=True, bounds=[(0, 1)] * 60, method="L-BFGS-B",
            options={"ftol": 0, "gtol": 1e-9, "maxiter": 10000, "maxfun": 20000},
        )  # fmt: skip
        assert result.value <= exact.fun + 1e-10 * abs(exact.fun)

    def test_log_loss(self, method):
        rng = np.random.default_rng(0)
        data, sign = rng.normal(size=(300, 20)), rng.choice([-1.0, 1.0], size=300)

        def function(x):
            margin = sign * (data @ x)
            return float(np.logaddexp(0, -margin).sum()), -(data.T @ (sign / (1 + np.exp(margin))))

        def project(x):
            return np.clip(x, -0.05, 0.05)

        result = method(function, project, np.zeros(20), tol=1e-10)
        check(result, function, project, 1e-10)
        assert result.converged
        assert (np.abs(result.point) == 0.05).any()
        assert result.n_evaluations < 80

    def test_value_with_a_domain(self, method):
        """Steps out of the domain, where the value is infinite, are taken back."""
        share = np.array([0.1, 0.2, 0.3, 0.4])

        def function(x):
            with np.errstate(divide="ignore", invalid="ignore"):
                return float(-(share * np.log(x)).sum()), -share / x

        result = method(function, lambda x: np.maximum(simplex(x), 1e-12), np.full(4, 0.25), tol=1e-9)
        assert result.converged
        np.testing.assert_allclose(result.point, share, atol=1e-8)

    def test_start_at_the_minimum(self, method):
        function = quadratic(1, 5, 10.0)
        first = method(function, box, np.zeros(5), tol=1e-10)
        again = method(function, box, first.point, tol=1e-9)
        assert again.n_iter == 0
        assert again.converged

    def test_start_outside_and_any_shape(self, method):
        theta = np.random.default_rng(2).normal(size=(3, 4))
        shapes = set()

        def project(x):
            shapes.add(x.shape)
            return box(x)

        start = np.full((3, 4), 7.0)
        start.flags.writeable = False
        result = method(lambda x: (0.5 * np.square(x - theta).sum(), x - theta), project, start, tol=1e-12)
        np.testing.assert_allclose(result.point, box(theta), atol=1e-12)
        assert shapes == {(3, 4)}

    def test_large_and_tiny_values(self, method):
        theta = np.random.default_rng(3).normal(size=8)
        for scale in (1e-6, 1e6):
            result = method(
                lambda x, scale=scale: (0.5 * scale * np.square(x - theta).sum(), scale * (x - theta)),
                simplex, np.zeros(8), tol=1e-9 * min(1.0, scale), max_iter=2000,
            )  # fmt: skip
            assert result.converged
            np.testing.assert_allclose(result.point, simplex(theta), atol=1e-7)


@pytest.mark.parametrize("method", METHODS)
class TestContract:
    def test_a_gap_of_the_callers(self, method):
        function = quadratic(0, 10, 50.0)

        def gap(x, grad):
            return float(grad @ x - grad.min())  # the Frank-Wolfe gap on the simplex

        best = method(function, simplex, np.zeros(10), tol=1e-10)
        for tol in (1.0, 1e-3, 1e-6):
            result = method(function, simplex, np.zeros(10), tol=tol, gap=gap)
            assert result.converged
            assert result.gap <= tol
            assert result.gap == gap(result.point, function(result.point)[1])
            assert result.value - best.value <= result.gap + 1e-12
        assert np.isnan(best.gap)

    def test_limit(self, method):
        function = quadratic(0, 60, 1e4)
        for limit in (1, 5):
            result = method(function, box, np.full(60, 0.5), tol=1e-9, max_iter=limit)
            assert result.n_iter <= limit
            assert not result.converged
            check(result, function, box, 1e-9)

    def test_never_above_the_start(self, method):
        function = quadratic(0, 60, 1e4)
        start = np.full(60, 0.5)
        for limit in range(1, 12):
            assert method(function, box, start, tol=0, max_iter=limit).value <= function(start)[0]

    def test_broken_projections(self, method):
        function = quadratic(0, 4, 10.0)
        with pytest.raises(OracleError, match="shape"):
            method(function, lambda x: x[:2], np.zeros(4))
        with pytest.raises(OracleError, match="not finite"):
            method(function, lambda x: x * np.nan, np.zeros(4))

    @pytest.mark.parametrize("wrong", [{"tol": -1.0}, {"max_iter": 0}, {"memory": 0}])
    def test_settings(self, method, wrong):
        with pytest.raises(InvalidInput):
            method(quadratic(0, 4, 10.0), box, np.zeros(4), **wrong)


def test_a_model_saves_evaluations():
    """What projected quasi-Newton is for: fewer evaluations of the function, paid for in projections."""
    rng = np.random.default_rng(0)
    data = rng.normal(size=(200, 40)) * np.logspace(0, 2, 40)
    sign = np.sign(data @ rng.normal(size=40) + rng.normal(size=200))

    def function(x):
        margin = sign * (data @ x)
        return float(np.logaddexp(0, -margin).sum()), -(data.T @ (sign / (1 + np.exp(np.minimum(margin, 700)))))

    def project(x):
        return np.clip(x, -0.5, 0.5)

    newton, spectral = (method(function, project, np.zeros(40), tol=1e-5, max_iter=2000) for method in METHODS)
    assert newton.converged
    assert newton.value <= spectral.value + 1e-9
    assert 2 * newton.n_evaluations < spectral.n_evaluations
    assert newton.n_projections > newton.n_evaluations
