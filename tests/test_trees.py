"""Trees against enumeration, their polytopes against two extended formulations, projections against linear programs."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import LinearConstraint, linprog, minimize

from fenchel.costs import Hamming
from fenchel.errors import InvalidInput, MissingOracle
from fenchel.experiments import projection_convergence
from fenchel.losses import CRF, Adversarial, FenchelYoung, Hinge
from fenchel.losses.games import find_game
from fenchel.losses.games.double_oracle import DoubleOracle
from fenchel.losses.games.tree import TreeGame
from fenchel.plots import convergence
from fenchel.structures import (
    Accuracy,
    Arborescence,
    Arborescences,
    DependencyTree,
    DependencyTrees,
    HigherOrderTree,
    Ragged,
    SpanningTree,
    SpanningTrees,
)

SMALL = [
    Arborescence(1), Arborescence(2), Arborescence(4), Arborescence(1, labels=3), Arborescence(3, labels=2),
    DependencyTree(1), DependencyTree(2), DependencyTree(4), DependencyTree(3, labels=2),
    SpanningTree(1), SpanningTree(2), SpanningTree(3), SpanningTree(5),
]  # fmt: skip
small = pytest.mark.parametrize("tree", SMALL, ids=repr)


def log_sum_exp(x):
    top = x.max(axis=-1, keepdims=True)
    return (top + np.log(np.exp(x - top).sum(axis=-1, keepdims=True)))[..., 0]


def totals_of(tree, theta):
    """The scores of all trees, those of forbidden ones -inf."""
    every = tree.vertices().reshape(tree.n_vertices, tree.dim)
    batch = theta.shape[: theta.ndim - len(tree.shape)]
    flat = theta.reshape(int(np.prod(batch)), tree.dim)
    barred = np.isneginf(flat) @ every.T > 0
    return np.where(barred, -np.inf, np.where(np.isneginf(flat), 0, flat) @ every.T)


# -- oracles against enumeration ---------------------------------------------------------------------------------------


def trees_by_search(n, single_root):
    """All head sequences, each tested by walking up: another way than the library's."""
    found = []
    for heads in itertools.product(range(n + 1), repeat=n):
        for m in range(n):
            v = m + 1
            for _ in range(n + 1):
                v = heads[v - 1] if v else 0
            if v:
                break
        else:
            if not single_root or heads.count(0) == 1:
                found.append(list(heads))
    return found


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_the_trees_are_those_that_a_search_finds_and_cayley_counts(n):
    assert Arborescence(n).decode(Arborescence(n).vertices()).tolist() == trees_by_search(n, False)
    assert DependencyTree(n).decode(DependencyTree(n).vertices()).tolist() == trees_by_search(n, True)
    assert len(Arborescence(n).vertices()) == (n + 1) ** (n - 1)
    assert len(DependencyTree(n).vertices()) == n ** (n - 1)
    assert len(np.unique(SpanningTree(n).vertices(), axis=0)) == n ** max(n - 2, 0)


@pytest.mark.parametrize(
    "tree", [*SMALL, Arborescence(6), DependencyTree(6), Arborescence(4, labels=2), SpanningTree(6)], ids=repr
)
def test_oracles_agree_with_the_sum_over_all_trees(tree):
    rng = np.random.default_rng(tree.dim)
    every = tree.vertices().reshape(tree.n_vertices, tree.dim)
    for scale in (0.0, 1.0, 40.0):
        theta = rng.normal(size=(3, *tree.shape)) * scale
        totals = totals_of(tree, theta)
        p = np.exp(totals - log_sum_exp(totals)[:, None])
        log_partition, mu = tree.marginals(theta)
        assert np.allclose(log_partition, log_sum_exp(totals), rtol=1e-13, atol=1e-11)
        assert np.allclose(mu.reshape(3, tree.dim), p @ every, atol=1e-12)
        entropy = -(p * np.log(np.maximum(p, 1e-300))).sum(axis=1)
        assert np.allclose(tree.entropy(theta), entropy, atol=1e-9)
        best = tree.argmax(theta)
        assert np.allclose((best * theta).reshape(3, tree.dim).sum(axis=1), totals.max(axis=1))
        scores, outputs = tree.k_best(theta, 7)
        m = min(7, len(every))
        assert np.allclose(scores[:, :m], -np.sort(-totals, axis=1)[:, :m])
        assert np.all(scores[:, m:] == -np.inf)
        assert np.all(outputs[:, m:] == -1)
        for i in range(3):
            vertices = tree.encode(outputs[i, :m]).reshape(m, tree.dim)
            assert np.allclose(vertices @ theta[i].ravel(), scores[i, :m])
            assert len(np.unique(vertices, axis=0)) == m, "a tree is listed twice"


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(SMALL), st.integers(0, 10**6))
def test_ties_and_forbidden_arcs(tree, seed):
    rng = np.random.default_rng(seed)
    theta = rng.integers(-1, 2, size=tree.shape).astype(float)
    theta[rng.random(tree.shape) < 0.4] = -np.inf
    totals = totals_of(tree, theta)[0]
    if totals.max() == -np.inf:
        for oracle in (tree.argmax, tree.marginals, tree.draw, lambda x: tree.k_best(x, 2), tree.project):
            with pytest.raises(InvalidInput, match=r"scores of -inf leave .*sample 0"):
                oracle(theta)
        return
    best = tree.argmax(theta)
    assert totals.max() == np.where(best > 0, theta, 0).sum()
    assert np.array_equal(best, tree.argmax(theta.copy())), "ties go to different trees"
    log_partition, mu = tree.marginals(theta)
    p = np.exp(totals - log_sum_exp(totals))
    assert np.isclose(log_partition, log_sum_exp(totals))
    assert np.allclose(mu.ravel(), p @ tree.vertices().reshape(len(p), tree.dim), atol=1e-12)
    drawn = tree.draw(np.stack([theta] * 5), rng)
    assert np.all(drawn[:, np.isneginf(theta)] == 0)
    tree.decode(drawn)
    assert np.allclose(tree.k_best(theta, 3)[0], [*np.sort(totals)[::-1], *[-np.inf] * 3][:3])


@pytest.mark.parametrize(
    "tree", [Arborescence(4), DependencyTree(4), DependencyTree(3, labels=2), SpanningTree(5)], ids=repr
)
@pytest.mark.parametrize("scale", [1e3, 1e6])
def test_marginals_are_exact_however_large_the_scores(tree, scale):
    """Whole numbers times the scale and small differences: sums are exact, so enumeration is too."""
    rng = np.random.default_rng(3)
    every = tree.vertices().reshape(-1, tree.dim)
    for _ in range(10):
        theta = np.round(rng.normal(size=tree.shape) * 2) * scale + rng.integers(-8, 9, size=tree.shape) / 8
        totals = totals_of(tree, theta)[0]
        log_partition, mu = tree.marginals(theta)
        assert np.isclose(log_partition, log_sum_exp(totals), rtol=1e-15, atol=1e-12)
        assert np.allclose(mu.ravel(), np.exp(totals - log_sum_exp(totals)) @ every, atol=1e-9)


def test_a_nearly_closed_cycle_loses_no_digits():
    """Words 1 and 2 all but insist on each other; only an elimination without subtraction sees how they reach the root."""
    for far in (20.0, 300.0, 2000.0):
        theta = np.array([[-far, 0.0, 0.0], [-far - 1.0, 0.0, 0.0]])
        log_partition, mu = Arborescence(2).marginals(theta)
        weights = np.array([1.0, np.exp(-1.0), np.exp(-far - 1.0)])  # by way of 1, by way of 2, both on the root
        assert np.isclose(log_partition, -far + np.log(weights.sum()), rtol=1e-15)
        assert np.isclose(mu[0, 0], (weights[0] + weights[2]) / weights.sum(), rtol=1e-12)
        assert np.isclose(mu[1, 1], weights[0] / weights.sum(), rtol=1e-12)


@pytest.mark.parametrize("tree", [Arborescence(60), DependencyTree(60), SpanningTree(40)], ids=repr)
def test_marginals_are_the_derivatives_of_the_log_partition(tree):
    rng = np.random.default_rng(0)
    theta, way = rng.normal(size=tree.shape) * 3, rng.normal(size=tree.shape)
    step = 1e-5
    up, down = (tree.marginals(theta + s * way)[0] for s in (step, -step))
    _, mu = tree.marginals(theta)
    assert np.isclose((up - down) / (2 * step), (mu * way).sum(), rtol=1e-7)
    if tree.output_ndim == 1 and len(tree.shape) == 2:
        assert np.allclose(mu.sum(axis=1), 1, atol=1e-12)


@pytest.mark.parametrize("labels", [1, 2])
@pytest.mark.parametrize("kind", [Arborescence, DependencyTree])
def test_matrix_tree_by_determinants(kind, labels):
    """Where scores are harmless, the textbook formulas (Koo et al. 2007) in another arithmetic."""
    rng = np.random.default_rng(1)
    n = 30
    tree = kind(n, labels)
    theta = rng.normal(size=tree.shape)
    a = np.exp(theta.reshape(n, n + 1, labels)).sum(axis=2)
    a[np.arange(n), np.arange(1, n + 1)] = 0
    laplacian = np.diag(a[:, 1:].sum(axis=1)) - a[:, 1:]
    if kind is Arborescence:
        laplacian += np.diag(a[:, 0])
    else:
        laplacian[:, 0] = a[:, 0]
    assert np.isclose(tree.marginals(theta)[0], np.linalg.slogdet(laplacian)[1], rtol=1e-12)


def test_large_trees_need_no_recursion():
    n, rng = 2000, np.random.default_rng(0)
    theta = np.full((n, n + 1), -np.inf)
    theta[np.arange(n), np.arange(n)] = 0.0  # a chain of 2000 words
    assert np.array_equal(Arborescence(n).decode(Arborescence(n).argmax(theta)), np.arange(n))
    theta[0, n] = 5.0  # a cycle through all of them, better than the root
    assert np.array_equal(DependencyTree(n).decode(DependencyTree(n).argmax(theta)), np.arange(n))
    # scores that fall with the distance make nests of cycles
    nested = -np.abs(np.arange(n)[:, None] + 1 - np.arange(n + 1)) + rng.random((n, n + 1)) * 0.5
    for tree in (Arborescence(n), DependencyTree(n)):
        tree.decode(tree.argmax(nested))


@pytest.mark.parametrize(
    "tree", [Arborescence(4), DependencyTree(4), DependencyTree(3, labels=2), SpanningTree(5)], ids=repr
)
@pytest.mark.parametrize("scale", [1.0, 8.0, 900.0], ids=["walks", "long walks", "one by one"])
def test_draws_follow_the_gibbs_distribution(tree, scale):
    """Each tree's share of the draws, not only each arc's."""
    rng = np.random.default_rng(5)
    theta = rng.normal(size=tree.shape)
    if scale > 100:  # only differences between near ties are random then
        theta = np.round(theta) * scale + rng.normal(size=tree.shape)
    else:
        theta *= scale
    totals = totals_of(tree, theta)[0]
    p = np.exp(totals - log_sum_exp(totals))
    m = 20_000
    drawn = tree.draw(np.broadcast_to(theta, (m, *tree.shape)), rng=7).reshape(m, -1)
    every = tree.vertices().reshape(len(p), -1)
    code = 2.0 ** np.arange(tree.dim)
    _, counts = np.unique(np.concatenate([every @ code, drawn @ code]), return_counts=True)
    order = np.argsort(every @ code)
    share = (counts - 1) / m
    assert np.all(np.abs(share - p[order]) <= 6 * np.sqrt(p[order] / m) + 6 / m)


# -- two extended formulations -----------------------------------------------------------------------------------------


def lifted(graph, dim):
    """Constraints A z = b, z >= 0 on (x, splits): Martin's description, for multi-graphs (sections 4.2, 5.1 and 5.2)."""
    nodes = graph.n_nodes
    undirected = graph.kind == 2
    arcs = [a for a in range(dim) if graph.ends[a, 0] >= 0]
    edges = sorted({tuple(sorted(graph.ends[a].tolist())) for a in arcs})
    sets = list(range(nodes)) if undirected else list(range(1, nodes))
    column = {}
    for k in sets:
        for i, j in edges:
            for head, other in ((i, j), (j, i)):
                column[k, head, other] = dim + len(column)
    rows, right = [], []
    for k in sets:
        for j in range(nodes):  # node j takes one in all, node k none
            row = np.zeros(dim + len(column))
            for i, other in [*edges, *[(b, a) for a, b in edges]]:
                if i == j:
                    row[column[k, j, other]] = 1
            rows.append(row)
            right.append(float(j != k))
        for i, j in edges:  # what both ends take of an edge are its arcs
            row = np.zeros(dim + len(column))
            row[column[k, i, j]] = row[column[k, j, i]] = 1
            for a in arcs:
                if set(graph.ends[a].tolist()) == {i, j}:
                    row[a] = -1
            rows.append(row)
            right.append(0.0)
    return with_heads(graph, dim, rows, right, len(column))


def multi_commodity(graph, dim):
    """Wong's description (appendix E): for each word a unit of flow from the root, on each arc at most what the arc has."""
    nodes = graph.n_nodes
    arcs = [a for a in range(dim) if graph.ends[a, 0] >= 0]
    column = {(k, a): dim + i for i, (k, a) in enumerate(itertools.product(range(1, nodes), arcs))}
    slack = {pair: dim + len(column) + i for i, pair in enumerate(column)}
    width = len(column) + len(slack)
    rows, right = [], []
    for k in range(1, nodes):
        for j in range(nodes):
            row = np.zeros(dim + width)
            for a in arcs:
                if graph.ends[a, 1] == j:
                    row[column[k, a]] += 1
                if graph.ends[a, 0] == j:
                    row[column[k, a]] -= 1
            rows.append(row)
            right.append(float(j == k) - float(j == 0))
        for a in arcs:
            row = np.zeros(dim + width)
            row[column[k, a]], row[slack[k, a]], row[a] = 1, 1, -1
            rows.append(row)
            right.append(0.0)
    return with_heads(graph, dim, rows, right, width)


def with_heads(graph, dim, rows, right, width):
    arcs = np.flatnonzero(graph.ends[:, 0] >= 0)
    for j in range(1, graph.n_nodes if graph.kind != 2 else 1):
        row = np.zeros(dim + width)
        row[arcs[graph.ends[arcs, 1] == j]] = 1
        rows.append(row)
        right.append(1.0)
    if graph.kind == 1:
        row = np.zeros(dim + width)
        row[arcs[graph.ends[arcs, 0] == 0]] = 1
        rows.append(row)
        right.append(1.0)
    for a in np.flatnonzero(graph.ends[:, 0] < 0):
        row = np.zeros(dim + width)
        row[a] = 1
        rows.append(row)
        right.append(0.0)
    return np.array(rows), np.array(right)


def largest(theta, constraints):
    a, b = constraints
    found = linprog(-np.concatenate([theta, np.zeros(a.shape[1] - len(theta))]), A_eq=a, b_eq=b, method="highs")
    assert found.status == 0, found.message
    return -found.fun


def contains(point, constraints):
    a, b = constraints
    d = len(point)
    return linprog(np.zeros(a.shape[1] - d), A_eq=a[:, d:], b_eq=b - a[:, :d] @ point, method="highs").status == 0


DESCRIBED = [
    (Arborescence(4), lifted), (Arborescence(3, labels=2), lifted), (Arborescence(4), multi_commodity),
    (Arborescence(3, labels=2), multi_commodity), (DependencyTree(4), lifted), (DependencyTree(3, labels=2), lifted),
    (DependencyTree(4), multi_commodity), (SpanningTree(5), lifted),
]  # fmt: skip


@pytest.mark.parametrize(("tree", "describe"), DESCRIBED, ids=lambda part: getattr(part, "__name__", repr(part)))
def test_extended_formulations_are_the_hulls_of_trees(tree, describe):
    """Propositions 4 and 5 and appendix E: the same largest value in every direction, and every tree inside."""
    rng = np.random.default_rng(0)
    constraints = describe(tree.graph(), tree.dim)
    for vertex in tree.vertices()[:: max(1, tree.n_vertices // 12)]:
        assert contains(vertex.ravel(), constraints)
    for _ in range(25):
        theta = (
            rng.normal(size=tree.shape) if rng.random() < 0.6 else rng.integers(-1, 2, size=tree.shape).astype(float)
        )
        assert np.isclose(largest(theta.ravel(), constraints), totals_of(tree, theta).max(), atol=1e-8)


def test_a_point_that_only_cuts_tell_from_trees_is_outside():
    """Two words on each other have one head each, and so have all three on average; but nothing reaches them."""
    tree = Arborescence(3)
    point = tree.encode([0, 1, 1])
    point[1], point[2] = [0, 0, 0, 1], [0, 0, 1, 0]
    for describe in (lifted, multi_commodity):
        assert not contains(point.ravel(), describe(tree.graph(), tree.dim))
    assert tree.violation(point) > 0.1
    with pytest.raises(InvalidInput, match="points must lie in"):
        tree.decompose(point)


# -- projections -------------------------------------------------------------------------------------------------------

PROJECTED = [
    Arborescence(4),
    Arborescence(3, labels=3),
    DependencyTree(4),
    DependencyTree(3, labels=3),
    SpanningTree(5),
]


@pytest.mark.parametrize("tree", PROJECTED, ids=repr)
@pytest.mark.parametrize("method", ["active-set", "admm", "frank-wolfe"])
def test_projections_satisfy_the_conditions_of_the_quadratic_program(tree, method):
    """x is the minimiser over the lifted polytope exactly if a linear program at θ − x finds nothing better than x."""
    rng = np.random.default_rng(2)
    tol = 1e-3 if method == "frank-wolfe" else 1e-9
    constraints = lifted(tree.graph(), tree.dim)
    for scale in (0.3, 1.0, 5.0):
        theta = rng.normal(size=(2, *tree.shape)) * scale
        mu, info = tree.project(theta, method=method, tol=tol, return_info=True)
        assert info.converged.all()
        for i in range(2):
            x, slope = mu[i].ravel(), (theta[i] - mu[i]).ravel()
            assert contains(x + 0.0 if method == "frank-wolfe" else np.round(x, 12), constraints)
            lead = largest(slope, constraints) - slope @ x
            assert lead <= tol + 1e-8
            assert 0.5 * lead**2 <= info.error[i] + 1e-7 or lead <= info.error[i] + 1e-7


@pytest.mark.parametrize("tree", [Arborescence(3), DependencyTree(3), SpanningTree(4)], ids=repr)
def test_projection_against_a_quadratic_solver_over_the_lifted_polytope(tree):
    rng = np.random.default_rng(4)
    a, b = lifted(tree.graph(), tree.dim)
    keep = [i for i in range(len(a)) if np.linalg.matrix_rank(a[: i + 1]) > np.linalg.matrix_rank(a[:i])]
    a, b = a[keep], b[keep]
    for _ in range(3):
        theta = rng.normal(size=tree.dim)

        def value(z, theta=theta):
            return 0.5 * ((z[: tree.dim] - theta) ** 2).sum()

        def slope(z, theta=theta):
            return np.concatenate([z[: tree.dim] - theta, np.zeros(len(z) - tree.dim)])

        feasible = linprog(np.zeros(a.shape[1]), A_eq=a, b_eq=b, method="highs").x
        found = minimize(
            value, feasible, jac=slope, bounds=[(0, None)] * a.shape[1], constraints=LinearConstraint(a, b, b),
            method="SLSQP", options={"maxiter": 1000, "ftol": 1e-14},
        )  # fmt: skip
        mu = tree.project(theta.reshape(tree.shape)).ravel()
        assert value(mu) <= found.fun + 1e-9
        assert np.allclose(found.x[: tree.dim], mu, atol=1e-5)


@small
@pytest.mark.parametrize("method", ["active-set", "admm"])
def test_methods_of_projection_agree_also_with_forbidden_arcs(tree, method):
    rng = np.random.default_rng(6)
    theta = rng.normal(size=(6, *tree.shape)) * 2
    for i in range(3):
        barred = (rng.random(tree.shape) < 0.3) & (tree.argmax(theta[i]) == 0)
        theta[i][barred] = -np.inf
    mu, info = tree.project(theta, method=method, return_info=True)
    assert info.converged.all()
    assert np.all(mu[np.isneginf(theta)] == 0)
    assert np.allclose(mu, tree.project(theta), atol=1e-6)


def test_the_classic_method_is_slow_and_says_so():
    theta = np.random.default_rng(0).normal(size=(4, 12, 13)) * 0.3
    tree = Arborescence(12)
    with pytest.warns(UserWarning, match="stopped after 50 iterations with the error"):
        tree.project(theta, method="frank-wolfe", max_iter=50)
    mu, info = tree.project(theta, method="frank-wolfe", max_iter=300, return_info=True)
    exact = tree.project(theta)
    assert np.all(((mu - exact) ** 2).sum(axis=(1, 2)) <= info.error)
    with pytest.raises(InvalidInput, match="method"):
        tree.project(theta, method="newton")


# -- sets of trees, costs and losses -----------------------------------------------------------------------------------


@pytest.mark.parametrize("family", [Arborescences(), DependencyTrees(labels=2), SpanningTrees()], ids=repr)
def test_a_family_in_one_call_equals_its_trees(family):
    rng = np.random.default_rng(8)
    trees = [family.examples[i % 3] for i in range(10)]
    theta = [rng.normal(size=tree.shape) for tree in trees]
    flat = Ragged.of(theta)
    for name in ("argmax", "project", "marginals"):
        answers = getattr(family, name)(flat)
        answers = answers[1] if name == "marginals" else answers
        for tree, scores, answer in zip(trees, theta, answers, strict=True):
            alone = getattr(tree, name)(scores)
            assert np.allclose(answer, (alone[1] if name == "marginals" else alone).ravel(), atol=1e-8)
    family.decode(family.draw(flat, rng=0))
    for tree, scores, entropy, (best, first) in zip(
        trees, theta, family.entropy(flat), family.k_best(flat, 2), strict=True
    ):
        assert np.isclose(entropy, tree.entropy(scores))
        assert np.allclose(best, tree.k_best(scores, 2)[0][: len(best)])
        assert np.array_equal(tree.encode(first[0]), tree.argmax(scores))
    outputs = [tree.decode(tree.argmax(t)) for tree, t in zip(trees, theta, strict=True)]
    costs = Hamming()(outputs[::-1], outputs[::-1])
    assert costs.tolist() == [0.0] * 10
    form = Hamming().affine(family)
    truths = family.encode(outputs)
    assert np.allclose(form.value(truths, truths), 0)


def test_hamming_counts_wrong_heads_and_wrong_labels():
    tree = DependencyTree(3, labels=2)
    a, b = np.array([[0, 1], [1, 0], [1, 1]]), np.array([[0, 0], [1, 0], [2, 1]])
    assert Hamming()([a], [b]) == 2
    assert np.isclose(Hamming().affine(tree).value(tree.encode(a), tree.encode(b)), 2)


@pytest.mark.parametrize("family", [DependencyTrees(), Arborescences()], ids=repr)
def test_losses_of_trees_are_their_definitions(family):
    rng = np.random.default_rng(9)
    trees = [family.examples[i % 3] for i in range(6)]
    theta = [rng.normal(size=tree.shape) * 2 for tree in trees]
    truths = [tree.vertices()[rng.integers(tree.n_vertices)] for tree in trees]
    crf, hinge, sparse = CRF(family), Hinge(family, Hamming()), FenchelYoung(family, "euclidean")
    for i, tree in enumerate(trees):
        totals, score = totals_of(tree, theta[i])[0], float((theta[i] * truths[i]).sum())
        assert np.isclose(crf.value(theta, truths)[i], log_sum_exp(totals) - score)
        cost = tree.n - tree.vertices().reshape(len(totals), -1) @ truths[i].ravel()
        assert np.isclose(hinge.value(theta, truths)[i], (totals + cost).max() - score)
        mu = tree.project(theta[i])
        value = (theta[i] * mu).sum() - 0.5 * (mu**2).sum() + 0.5 * tree.n - score
        assert np.isclose(sparse.value(theta, truths)[i], value)


@pytest.mark.parametrize("tree", [Arborescence(3), DependencyTree(3), SpanningTree(4)], ids=repr)
def test_the_adversarial_loss_is_the_value_of_the_whole_game(tree):
    rng = np.random.default_rng(10)
    theta, every = rng.normal(size=(4, *tree.shape)), tree.vertices()
    costs = Hamming().matrix(tree)
    m = len(every)
    for i in range(4):
        potentials = every.reshape(m, -1) @ theta[i].ravel()
        # min t with t >= p' C[:, y] + potential(y): the answers' mixture p against every truth
        found = linprog(
            np.concatenate([np.zeros(m), [1.0]]), A_ub=np.column_stack([costs.T, -np.ones(m)]), b_ub=-potentials,
            A_eq=np.concatenate([np.ones(m), [0.0]])[None], b_eq=[1.0], bounds=[(0, None)] * m + [(None, None)],
            method="highs",
        )  # fmt: skip
        value = Adversarial(tree, Hamming()).value(theta[i], every[0])
        assert np.isclose(value, found.fun - potentials[0], atol=1e-7)


@pytest.mark.parametrize("tree", [Arborescence(1), Arborescence(5), DependencyTree(2), DependencyTree(6)], ids=repr)
def test_the_game_by_interior_points_has_the_value_of_the_double_oracle(tree):
    rng = np.random.default_rng(15)
    game, other = find_game(tree, Hamming()), DoubleOracle(tree, Hamming())
    assert isinstance(game, TreeGame)
    theta = np.concatenate([rng.normal(size=(3, *tree.shape)) * scale for scale in (0.0, 0.2, 1.0, 6.0)])
    theta[-1][:, -1] += 1e5  # too far apart for the interior: the double oracle plays
    theta[-2][0, -1] = -np.inf if tree.n > 2 else theta[-2][0, -1]
    found, expected = game.solve(theta), other.solve(theta)
    assert found.converged.all()
    assert np.all(found.gap <= 1.1e-9)
    assert np.allclose(found.value, expected.value, rtol=1e-12, atol=1e-8)
    assert np.all(found.adversary[np.isneginf(theta)] == 0)
    for points in (found.adversary, found.predictor):
        assert tree.violation(points).max() <= 1e-5  # a distance, whose square is a gap
    loose = game.solve(theta[:9], Accuracy(tol=1e-3))
    assert np.all(loose.gap <= 1e-3)
    assert np.all(np.abs(loose.value - expected.value[:9]) <= 1e-3)


def test_the_adversarial_loss_of_sentences_of_any_length():
    rng = np.random.default_rng(16)
    parses = DependencyTrees()
    theta = [rng.normal(size=(n, n + 1)) for n in (12, 1, 7, 12)]
    truths = [DependencyTree(len(t)).argmax(rng.normal(size=t.shape)) for t in theta]
    loss = Adversarial(parses, Hamming())
    values, residual = loss.value_and_grad(theta, truths)
    step = 1e-5
    for i in (0, 2):
        way = rng.normal(size=theta[i].shape)
        moved = [loss.value([*theta[:i], theta[i] + s * way, *theta[i + 1 :]], truths)[i] for s in (step, -step)]
        assert np.isclose((moved[0] - moved[1]) / (2 * step), (residual[i] * way).sum(), atol=1e-3)
    assert values[1] == 0
    with pytest.raises(MissingOracle):
        HigherOrderTree(3, "siblings").require("argmax")
    assert isinstance(find_game(DependencyTree(2, labels=2), Hamming()), DoubleOracle)


# -- outputs and errors ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tree", "y", "message"),
    [
        (Arborescence(3), [2, 1, 0], "cycle"),
        (Arborescence(3), [0, 2, 0], "word 2 is its own head"),
        (Arborescence(3), [0, 4, 0], "the head of word 2 is 4"),
        (DependencyTree(3), [0, 0, 1], "2 words have the head 0, the root, and one may"),
        (DependencyTree(2, labels=2), [[0, 0], [1, 2]], "the label of word 2 is 2"),
        (DependencyTree(3), [0, 1], "needs rows of 3 heads"),
        (Arborescence(2), [0.5, 0], "whole numbers"),
        (SpanningTree(4), [1, 1, 0, 1, 0, 0], "3 edges that join all nodes"),
    ],
)
def test_what_is_no_tree_is_refused_with_the_reason(tree, y, message):
    with pytest.raises(InvalidInput, match=message):
        tree.encode(y)


def test_sizes_that_no_tree_has_are_refused():
    with pytest.raises(InvalidInput, match="5 numbers are no tree"):
        Arborescences().argmax([[1.0, 2.0, 3.0, 4.0, 5.0]])
    with pytest.raises(InvalidInput, match="4 numbers are no tree"):
        SpanningTrees().argmax([[1.0, 2.0, 3.0, 4.0]])
    with pytest.raises(InvalidInput, match="not symmetric"):
        SpanningTree(2).pack([[0, 1], [2, 0]])


def test_edges_and_matrices_of_spanning_trees():
    tree = SpanningTree(4)
    y = tree.from_edges([(3, 0), (0, 1), (2, 3)])
    assert tree.edges(y).tolist() == [[0, 1], [0, 3], [2, 3]]
    assert tree.unpack(y).sum() == 6
    assert np.array_equal(tree.pack(tree.unpack(y)), y)
    with pytest.raises(InvalidInput, match="join nodes 0 to 3"):
        tree.from_edges([(0, 4)])


# -- the relaxation ----------------------------------------------------------------------------------------------------

PARTS = [
    ("siblings", False),
    ("grandparents", False),
    (("siblings", "grandparents"), True),
    ((((0, 1), (1, 2)),), False),
]


@pytest.mark.parametrize(("parts", "single_root"), PARTS)
def test_the_higher_order_projection_is_the_minimiser_over_the_local_polytope(parts, single_root):
    tree = HigherOrderTree(3, parts, single_root)
    rng = np.random.default_rng(11)
    cut, m = tree.tree.dim, len(tree.parts)
    a, b = lifted(tree.tree.graph(), cut)
    wide = np.zeros((len(a), a.shape[1] + m))
    wide[:, :cut], wide[:, cut + m :] = a[:, :cut], a[:, cut:]
    above = np.zeros((2 * m, wide.shape[1]))
    for s, arcs in enumerate(tree._arcs):
        for e, arc in enumerate(arcs):
            above[2 * s + e, cut + s], above[2 * s + e, arc] = 1, -1
    for scale in (0.3, 1.0, 5.0):
        theta = rng.normal(size=tree.dim) * scale
        mu, info = tree.project(theta, return_info=True)
        assert info.converged.all()
        assert tree.violation(mu) <= 1e-9
        slope = np.concatenate([theta - mu, np.zeros(a.shape[1] - cut)])
        found = linprog(-slope, A_ub=above, b_ub=np.zeros(2 * m), A_eq=wide, b_eq=b, method="highs")
        assert -found.fun - slope[: tree.dim] @ mu <= 1e-4  # a gap of 1e-9 leaves the point off by up to 4e-5


@pytest.mark.parametrize(("parts", "single_root"), PARTS)
def test_an_approximate_tree_is_a_tree_and_seldom_far_from_the_best(parts, single_root):
    tree = HigherOrderTree(4, parts, single_root)
    rng = np.random.default_rng(12)
    theta = rng.normal(size=(8, tree.dim))
    theta[0, tree.dim - 1] = -np.inf
    found = tree.approximate_argmax(theta)
    every = tree.encode(tree.tree.decode(tree.tree.vertices()))
    totals = np.where(np.isneginf(theta), 0, theta) @ every.T
    best, worst = totals.max(axis=1), totals.min(axis=1)
    reached = (np.where(np.isneginf(theta), 0, theta) * found).sum(axis=1)
    assert np.array_equal(tree.encode(tree.decode(found)), found)
    assert np.all(reached >= worst + 0.7 * (best - worst))
    assert np.mean(reached >= best - 1e-9) >= 0.5
    with pytest.raises(MissingOracle, match="NP-hard"):
        tree.argmax(theta)


def test_higher_order_parts_are_checked():
    with pytest.raises(InvalidInput, match="two different arcs"):
        HigherOrderTree(3, [((0, 1), (0, 1))])
    with pytest.raises(InvalidInput, match="none among 3 words"):
        HigherOrderTree(3, [((0, 1), (0, 4))])
    assert HigherOrderTree(3, "siblings") == HigherOrderTree(3, HigherOrderTree(3, "siblings").parts)


# -- the experiment ----------------------------------------------------------------------------------------------------


def test_the_experiment_measures_certified_gaps_and_all_methods_approach_the_projection():
    result = projection_convergence.run(quick=True)
    assert {len(row) for row in result["rows"]} == {len(result["columns"])}
    times = result["values"]["times"]
    assert all(t["reached"] == 1 for t in times if t["method"] in ("active-set", "admm"))
    assert any(t["reached"] < 1 for t in times if t["method"] == "frank-wolfe")
    for by_method in result["values"]["curves"].values():
        assert set(by_method) == {"active set", "Frank-Wolfe, line search", "Frank-Wolfe, 2/(t + 2)", "ADMM"}
        for name, curve in by_method.items():
            assert len(curve["iterations"]) == len(curve["distance"]) == len(curve["standard_error"])
            assert curve["distance"][-1] < 0.3 * curve["distance"][0]
            assert name not in ("active set", "ADMM") or curve["distance"][-1] < 1e-8
        ax = convergence(by_method)
        assert [text.get_text() for text in ax.get_legend().get_texts()] == list(by_method)


@pytest.mark.parametrize(
    "tree", [Arborescence(16), DependencyTree(16), DependencyTree(8, labels=2), SpanningTree(16)], ids=repr
)
def test_kl_projections_cut_off_sets_that_get_too_little(tree):
    """Groups of four that would rather stay among themselves, so that many cuts are tight."""
    rng = np.random.default_rng(13)
    if isinstance(tree, SpanningTree):
        near = tree._pairs[0] // 4 == tree._pairs[1] // 4
    else:
        near = np.arange(tree.n)[:, None] // 4 == (np.arange(tree.n + 1) - 1) // 4
        near = near if tree.labels == 1 else near[..., None]
    theta = rng.normal(size=tree.shape) + 4.0 * near
    mu, info = tree.kl_project(theta, return_info=True)
    assert info.converged.all()
    assert info.error.max() <= 1e-9
    # the distance that the maximiser's active set finds is a second opinion on what is inside
    assert np.abs(tree.project(mu, tol=1e-14) - mu).max() <= 1e-6
    slope = np.where(mu > 0, theta - 1 - np.log(np.maximum(mu, 1e-300)), -np.inf)
    best = tree.argmax(slope)
    assert abs((np.where(mu > 0, slope, 0) * (best - mu)).sum()) <= 1e-9


def test_a_projection_with_many_equal_scores_goes_on_where_rounding_stops_the_factors():
    """Scores that are bounds of one another's: two thirds equal, the others near ties, as in games with small smoothing."""
    tree, rng = DependencyTree(20), np.random.default_rng(14)
    mu = tree.project(rng.normal(size=(6, *tree.shape)) * 0.05)
    _, info = tree.project(10 * (mu - 1), return_info=True)
    assert info.converged.all()
    assert info.error.max() <= 1.1e-9
