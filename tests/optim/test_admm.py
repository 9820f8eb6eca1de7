"""Projections onto intersections: they agree with exact ones, and their gaps are true."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fenchel.errors import InvalidInput, OracleError
from fenchel.kernels.birkhoff import round_to_doubly_stochastic
from fenchel.optim import project_on_intersection
from fenchel.structures import Birkhoff, Budget, OrderSimplex, Product, Simplex


def box(x):
    return np.clip(x, 0, 1)


def layer(low, high):
    """The slab low <= sum x <= high."""

    def project(x):
        return x - (x.sum() - np.clip(x.sum(), low, high)) / x.size

    return project


def rounded(point):
    out = np.empty((1, *point.shape))
    round_to_doubly_stochastic(0, 1, point[None].copy(), out)
    return out[0]


@given(st.integers(0, 10**6), st.integers(1, 8), st.data())
@settings(deadline=None, max_examples=30)
def test_a_box_and_a_slab_make_a_budget(seed, k, data):
    low = data.draw(st.integers(0, k))
    high = data.draw(st.integers(low, k))
    theta = np.random.default_rng(seed).normal(size=k) * data.draw(st.sampled_from([0.1, 1.0, 10.0]))
    exact = Budget(k, low, high).project(theta)
    result = project_on_intersection(theta, [box, layer(low, high)], tol=1e-10, max_iter=20_000)
    assert result.converged
    assert result.violation <= 1e-10
    assert np.allclose(result.point, exact, atol=1e-4)
    assert np.allclose(box(result.point), result.point)


@pytest.mark.parametrize("n", [2, 4, 7])
def test_rows_and_columns_make_the_birkhoff_polytope(n):
    """With a repair every iterate has a true duality gap, which bounds its distance to the projection."""
    rows = Product(Simplex(n), n).project
    theta = np.random.default_rng(n).normal(size=(n, n)) * 2
    exact = Birkhoff(n).project(theta)
    least = 0.5 * np.square(exact - theta).sum()
    for limit in (1, 3, 10, 30, 5000):
        result = project_on_intersection(
            theta, [rows, lambda x: rows(x.T).T], repair=rounded, tol=1e-11, max_iter=limit
        )
        value = 0.5 * np.square(result.point - theta).sum()
        assert Birkhoff(n).violation(result.point) <= 1e-12
        assert value - least <= result.gap + 1e-10
        assert 0.5 * np.square(result.point - exact).sum() <= result.gap + 1e-10
    assert result.converged
    assert np.allclose(result.point, exact, atol=1e-5)


@pytest.mark.parametrize("rho", [1e-3, 1.0, 1e3])
def test_three_sets_and_any_penalty(rho):
    """Falling sequences are where every neighbour falls: the order simplex from k - 1 half-spaces and a box."""

    def falling(j):
        def project(x):
            x = x.copy()
            if x[j] < x[j + 1]:
                x[j : j + 2] = x[j : j + 2].mean()
            return x

        return project

    theta = np.random.default_rng(0).normal(size=4)
    sets = [box, falling(0), falling(1), falling(2)]
    result = project_on_intersection(theta, sets, rho=rho, tol=1e-10)
    assert result.converged
    assert np.allclose(result.point, OrderSimplex(5).project(theta), atol=1e-4)


def test_one_set_needs_no_more_than_its_projection():
    result = project_on_intersection([2.0, -1.0], [box], tol=1e-12)
    assert result.converged
    assert np.allclose(result.point, [1, 0], atol=1e-6)


def test_sets_that_do_not_meet_do_not_converge():
    result = project_on_intersection(np.zeros(3), [box, layer(5, 6)], max_iter=500)
    assert not result.converged
    assert result.violation > 0.5


def test_refusals():
    with pytest.raises(InvalidInput, match="at least one set"):
        project_on_intersection([1.0], [])
    with pytest.raises(InvalidInput, match="theta must be finite"):
        project_on_intersection([np.nan], [box])
    with pytest.raises(InvalidInput, match="rho is 0"):
        project_on_intersection([1.0], [box], rho=0)
    with pytest.raises(OracleError, match=r"projections\[1\] returned an array of shape \(1,\), expected \(2,\)"):
        project_on_intersection([1.0, 2.0], [box, lambda x: x[:1]])
    with pytest.raises(OracleError, match="repair returned a point that is not finite"):
        project_on_intersection([1.0, 2.0], [box], repair=lambda x: x * np.nan)
