"""Eight numbers abreast against NumPy, small transports against a linear program, and chains against trees."""

import numpy as np
import pytest
from scipy.optimize import linprog

from fenchel._core.compile import exact_kernel, kernel
from fenchel._core.lanes import LANES, exp, load, log, low, pick, splat, store, top
from fenchel.costs import Absolute, CostMatrix, Hamming, Weighted
from fenchel.kernels.transport import best_tables
from fenchel.losses.games import find_game
from fenchel.structures import Chain, Chains, Forest, Ragged
from fenchel.structures.base import Accuracy


def _all_of_them(a, b, out, n):
    for i in range(n):
        x, y = load(a, i), load(b, i)
        store(out, 10 * i, exp(x))
        store(out, 10 * i + 1, log(y))
        store(out, 10 * i + 2, (x + y) * x - 2.0 / y)
        store(out, 10 * i + 3, pick(x, y, x, y))
        store(out, 10 * i + 4, top(x, y))
        store(out, 10 * i + 5, low(x, y))
        store(out, 10 * i + 6, splat(3.0) - x)
        z = x
        z += y
        z -= 1.0
        z *= 0.5
        store(out, 10 * i + 7, z)
        store(out, 10 * i + 8, pick(x, splat(0.0), splat(1.0), splat(-1.0)))
        store(out, 10 * i + 9, 1.0 / y)


@pytest.mark.parametrize("decorator", [kernel, exact_kernel])
def test_lanes_do_what_numpy_does(decorator):
    rng = np.random.default_rng(0)
    n = 200
    a = rng.normal(size=n * LANES) * rng.choice([1e-3, 1.0, 100.0], size=n * LANES)
    b = np.exp(rng.normal(size=n * LANES) * 30)
    out = np.empty(10 * n * LANES)
    decorator(_all_of_them)(a, b, out, n)
    found = out.reshape(n, 10, LANES)
    x, y = a.reshape(n, LANES), b.reshape(n, LANES)
    expected = [
        np.exp(x), np.log(y), (x + y) * x - 2 / y, np.minimum(x, y), np.maximum(x, y), np.minimum(x, y), 3 - x,
        (x + y - 1) / 2, np.where(x < 0, 1, -1), 1 / y,
    ]  # fmt: skip
    for j, values in enumerate(expected):
        assert np.allclose(found[:, j], values, rtol=1e-12, atol=1e-12), j


def test_far_arguments_of_the_exponential():
    a = np.array([-np.inf, -1e9, -700.0, 700.0, 1e9, 0.0, -0.0, 1.0])
    out = np.empty(10 * LANES)
    kernel(_all_of_them)(a, np.ones(LANES), out, 1)
    found = out[:LANES]
    assert np.all(found[:3] < 1e-300)
    assert np.all(np.isfinite(found))
    assert np.allclose(found[5:], [1, 1, np.e])


def test_transports_are_those_of_the_linear_program():
    rng = np.random.default_rng(1)
    for _ in range(60):
        k = int(rng.integers(1, 6))
        rows, columns = rng.dirichlet(np.ones(k)), rng.dirichlet(np.ones(k))
        if rng.random() < 0.3:
            rows = columns = np.full(k, 1 / k)
        scores = rng.normal(size=(k, k)) if rng.random() < 0.7 else rng.integers(0, 2, size=(k, k)).astype(float)
        moved = np.empty((1, k, k))
        best_tables(0, 1, rows[None], columns[None], scores[None], moved)
        assert np.allclose(moved[0].sum(axis=1), rows, atol=1e-12)
        assert np.allclose(moved[0].sum(axis=0), columns, atol=1e-12)
        assert moved.min() >= -1e-15
        sums = [np.kron(np.eye(k), np.ones(k)), np.kron(np.ones(k), np.eye(k))]
        exact = linprog(-scores.ravel(), A_eq=np.vstack(sums), b_eq=np.concatenate([rows, columns]), method="highs")
        assert np.isclose((moved[0] * scores).sum(), -exact.fun, atol=1e-9)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("scale", [0.0, 0.3, 3.0])
def test_chains_abreast_agree_with_single_trees(tied, scale):
    """Chains of different lengths, more than fit into one vector, for costs of both kinds, cold and warm."""
    rng = np.random.default_rng(2)
    k, lengths = 4, np.array([7, 1, 3, 12, 7, 7, 2, 9, 5, 12, 1])
    chains = Chains(k, tied=tied)
    pairs = int((lengths - 1).sum())
    nodes = scale * rng.normal(size=(int(lengths.sum()), k))
    tables = scale * rng.normal(size=(1 if tied else pairs, k * k))
    theta = chains.assemble(lengths, nodes, tables)
    matrix = np.where(np.eye(k), 0, rng.random((k, k)) + 0.2)
    weights = [rng.random(n) + 0.1 for n in lengths]
    for cost in (Hamming(), Absolute(), CostMatrix(matrix), Weighted(Hamming(), weights)):
        game = find_game(chains, cost)
        tight, loose = game.solve(theta), game.solve(theta, Accuracy(tol=1e-3))
        assert tight.converged.all()
        assert tight.gap.max() < 2e-6
        assert np.all(loose.gap <= 1.01e-3 + 1e-6)
        assert np.all(np.abs(loose.value - tight.value) <= 1.1e-3)
        moved = theta + 0.01 * Ragged(rng.normal(size=theta.flat.size), theta.offsets)
        warm = game.solve(moved, Accuracy(tol=1e-3), loose.state)
        assert np.all(warm.gap <= 1.01e-3 + 1e-6)
        assert np.all(np.abs(warm.value - game.solve(moved).value) <= 1.1e-3)
        if not tied:
            for i, n in enumerate(lengths):  # the same chain as a forest rooted elsewhere, which goes alone
                if n > 2:
                    parents = [*range(1, n), -1]
                    forest = Forest(parents, k)
                    node, table = Chain(int(n), k).unpack(theta[i])
                    other = forest.pack(node, table.transpose(0, 2, 1))
                    single = Weighted(Hamming(), weights[i]) if isinstance(cost, Weighted) else cost
                    alone = find_game(forest, single).solve(other[None])
                    assert np.isclose(alone.value[0], tight.value[i], atol=1e-5)
