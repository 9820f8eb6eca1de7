"""Labelled graphs: every oracle against enumeration, batches of different graphs, and trees against equivalent chains."""

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fenchel
from fenchel.errors import InvalidInput
from fenchel.losses import CRF
from fenchel.structures import Chain, Forest, Graph, Graphs, Ragged


def cycle(n):
    return [(i, (i + 1) % n) for i in range(n)]


def ladder(n):
    return [(2 * i, 2 * i + 1) for i in range(n)] + [(2 * i + r, 2 * i + 2 + r) for i in range(n - 1) for r in (0, 1)]


def grid(rows, columns):
    down = [(rows * c + r, rows * c + r + 1) for c in range(columns) for r in range(rows - 1)]
    return down + [(rows * c + r, rows * c + rows + r) for c in range(columns - 1) for r in range(rows)]


def gibbs(structure, theta):
    """Log-partition and mean vertex by enumeration."""
    vertices = structure.vertices()
    scores = np.where(vertices > 0, theta, 0).sum(axis=1)
    top = scores.max()
    weights = np.exp(scores - top)
    return top + np.log(weights.sum()), (weights / weights.sum()) @ vertices, scores


SHAPES = [
    Forest([-1, 0, 0, 1], 3),
    Forest([3, 0, -1, -1, 0], 2),
    Graph(cycle(4), 3),
    Graph([(2, 1), (1, 0), (3, 1)], 3),
    Graph([(1, 0), (2, 1), (2, 0), (4, 3), (0, 4)], 2),
    Graph(ladder(3), 2),
    Graph(grid(3, 2), 2),
    Graph(list(itertools.combinations(range(4), 2)), 3),
    Graph([], 2, 3),
]


@pytest.mark.parametrize("graph", SHAPES, ids=repr)
def test_oracles_are_those_of_enumeration(graph):
    rng = np.random.default_rng(0)
    for scale in (0.0, 1.0, 40.0, 1e3):
        theta = np.round(rng.normal(size=(4, graph.dim)) * scale, 3)
        log_partition, mu = graph.marginals(theta)
        scores, labels = graph.k_best(theta, 5)
        for i in range(4):
            expected_sum, mean, every = gibbs(graph, theta[i])
            size = max(1.0, np.abs(every).max())
            assert np.isclose(log_partition[i], expected_sum, rtol=1e-12, atol=1e-12 * size)
            assert np.allclose(mu[i], mean, atol=1e-10)
            assert np.isclose(graph.argmax(theta[i]) @ theta[i], every.max(), rtol=1e-12)
            best = np.sort(every)[::-1][:5]
            assert np.allclose(scores[i, : len(best)], best, rtol=1e-12, atol=1e-12 * size)
            found = graph.encode(labels[i][: len(best)])
            assert len(np.unique(found, axis=0)) == len(best)
            assert np.allclose(found @ theta[i], best, rtol=1e-12, atol=1e-12 * size)


@pytest.mark.parametrize("graph", [SHAPES[0], SHAPES[2]], ids=repr)
def test_what_is_forbidden_has_no_probability(graph):
    rng = np.random.default_rng(1)
    for _ in range(10):
        theta = rng.normal(size=graph.dim)
        theta[rng.random(graph.dim) < 0.15] = -np.inf
        expected, mean, every = gibbs(graph, theta)
        if every.max() == -np.inf:
            with pytest.raises(InvalidInput, match="forbid every labelling"):
                graph.argmax(theta)
            continue
        log_partition, mu = graph.marginals(theta)
        assert np.isclose(log_partition, expected)
        assert np.allclose(mu, mean, atol=1e-12)
        vertex = graph.argmax(theta)
        assert np.isclose(theta[vertex > 0].sum(), every.max())
        point = graph.project(theta)
        assert np.all(point[theta == -np.inf] == 0)


def test_draws_have_the_gibbs_marginals_as_their_mean():
    rng = np.random.default_rng(2)
    for graph in (SHAPES[1], SHAPES[4]):
        theta = rng.normal(size=graph.dim)
        draws = graph.draw(np.broadcast_to(theta, (20_000, graph.dim)), rng)
        assert np.abs(draws.mean(axis=0) - graph.marginals(theta)[1]).max() < 0.02
        assert np.array_equal(graph.draw(theta, 5), graph.draw(theta, 5))


def test_the_entropy_and_its_conjugate():
    rng = np.random.default_rng(3)
    for graph in SHAPES[:5]:
        theta = rng.normal(size=graph.dim) * 2
        log_partition, mu = graph.marginals(theta)
        _, _, every = gibbs(graph, theta)
        p = np.exp(every - log_partition)
        assert np.isclose(graph.entropy(theta), -(p * np.log(p)).sum())
        if graph.treewidth <= 1:
            assert np.isclose(graph.gibbs_omega(mu[None])[0], -graph.entropy(theta))


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6))
def test_a_path_is_a_chain_whatever_its_nodes_are_called(seed):
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(1, 7)), int(rng.integers(1, 5))
    chain = Chain(n, k)
    node, edge = rng.normal(size=(n, k)) * 3, rng.normal(size=(max(n - 1, 0), k, k)) * 3
    theta = chain.pack(node, edge)
    name = rng.permutation(n)  # position t is node name[t]
    turned = rng.random(max(n - 1, 0)) < 0.5
    pairs = [(name[t + 1], name[t]) if turned[t] else (name[t], name[t + 1]) for t in range(n - 1)]
    graph = Graph([(int(a), int(b)) for a, b in pairs], k, n)
    nodes = np.empty((n, k))
    nodes[name] = node
    tables = np.array([e.T if flip else e for e, flip in zip(edge, turned, strict=True)]).reshape(-1, k, k)
    other = graph.pack(nodes, tables)
    assert graph.treewidth <= 1
    assert np.isclose(graph.marginals(other)[0], chain.marginals(theta)[0])
    assert np.allclose(graph.unpack(graph.marginals(other)[1])[0][name], chain.unpack(chain.marginals(theta)[1])[0])
    assert np.array_equal(graph.decode(graph.argmax(other))[name], chain.decode(chain.argmax(theta)))
    kl = graph.unpack(graph.kl_project(other))[0][name]
    assert np.allclose(kl, chain.unpack(chain.kl_project(theta))[0], atol=1e-6)
    assert np.allclose(graph.unpack(graph.project(other))[0][name], chain.unpack(chain.project(theta))[0], atol=1e-4)


def test_a_grid_is_a_chain_of_its_columns():
    """The junction tree of a 3 x m grid against the chain whose labels are the labellings of a column."""
    rng = np.random.default_rng(4)
    m, k = 4, 2
    graph = Graph(grid(3, m), k)
    node, edge = rng.normal(size=(3 * m, k)), rng.normal(size=(graph.n_edges, k, k))
    columns = list(itertools.product(range(k), repeat=3))
    chain = Chain(m, len(columns))
    nodes = np.array(
        [
            [
                sum(node[3 * c + r, y[r]] for r in range(3)) + sum(edge[2 * c + r, y[r], y[r + 1]] for r in range(2))
                for y in columns
            ]
            for c in range(m)
        ]
    )
    tables = np.array(
        [
            [[sum(edge[2 * m + 3 * c + r, a[r], b[r]] for r in range(3)) for b in columns] for a in columns]
            for c in range(m - 1)
        ]
    )
    theta, clusters = graph.pack(node, edge), chain.pack(nodes, tables)
    assert graph.treewidth == 3
    assert np.isclose(graph.marginals(theta)[0], chain.marginals(clusters)[0])
    mu = chain.unpack(chain.marginals(clusters)[1])[0]
    of_first = np.array([[mu[c][[y[0] == a for y in columns]].sum() for a in range(k)] for c in range(m)])
    assert np.allclose(graph.unpack(graph.marginals(theta)[1])[0][::3], of_first)
    best = chain.decode(chain.argmax(clusters))
    assert np.array_equal(graph.decode(graph.argmax(theta)), np.concatenate([columns[j] for j in best]))


def test_treewidths_of_known_graphs():
    assert Graph(cycle(9), 2).treewidth == 2
    assert Graph(ladder(8), 2).treewidth == 2
    assert [Graph(grid(3, m), 2).treewidth for m in (3, 10)] == [3, 3]
    assert Graph(list(itertools.combinations(range(5), 2)), 2).treewidth == 4
    assert Forest([-1, 0, 1, 1], 2).treewidth == 1
    assert Graph([], 2, 3).treewidth == 0


def test_a_batch_of_different_graphs_is_its_members():
    rng = np.random.default_rng(5)
    members = [Forest([-1, 0, 0], 2), Graph(cycle(3), 2), Graph([(1, 0)], 2, 3), Forest([], 2), Forest([1, -1], 2)]
    for graphs in (Graphs(members), Graphs([m for m in members if m.treewidth <= 1])):
        theta = [rng.normal(size=m.dim) * 2 for m in graphs.members]
        log_partition, mu = graphs.marginals(theta)
        for name in ("argmax", "project", "kl_project", "nearest"):
            together = getattr(graphs, name)(theta)
            for one, scores, member in zip(together, theta, graphs.members, strict=True):
                assert np.allclose(one, getattr(member, name)(scores), atol=1e-6), name
        for i, (scores, member) in enumerate(zip(theta, graphs.members, strict=True)):
            assert np.isclose(log_partition[i], member.marginals(scores)[0])
            assert np.allclose(mu[i], member.marginals(scores)[1])
        outputs = graphs.decode(graphs.argmax(theta))
        assert np.array_equal(graphs.encode(outputs).flat, Ragged.of(graphs.argmax(theta)).flat)
        some = graphs.take([2, 0])
        assert some.members == (graphs.members[2], graphs.members[0])
        assert np.allclose(some.marginals([theta[2], theta[0]])[0], log_partition[[2, 0]])
        for found, scores, member in zip(graphs.k_best(theta, 2), theta, graphs.members, strict=True):
            expected = member.k_best(scores, 2)[0]
            assert np.allclose(found[0], expected[np.isfinite(expected)])
        for point, (weights, vertices) in zip(mu, graphs.decompose(mu), strict=True):
            assert np.allclose(weights @ vertices, point, atol=1e-6)
        assert pickle.loads(pickle.dumps(graphs)) == graphs
        assert np.all(graphs.violation(mu) < 1e-8)
        assert np.array_equal(graphs.sample(mu, 3)[0], graphs.sample(mu, 3)[0])


def test_threads_do_not_change_the_sums_over_a_batch():
    rng = np.random.default_rng(6)
    trees = [Forest([-1, *rng.integers(0, np.arange(1, n))], 4) for n in rng.integers(1, 20, size=200)]
    graphs = Graphs(trees)
    theta = Ragged.of([rng.normal(size=t.dim) for t in trees])
    before = fenchel.set_threads(1)
    try:
        one = graphs.marginals(theta)[1].flat
        fenchel.set_threads(3)
        assert np.array_equal(graphs.marginals(theta)[1].flat, one)
    finally:
        fenchel.set_threads(before)


def test_the_loss_of_a_conditional_random_field_on_a_batch():
    rng = np.random.default_rng(7)
    graphs = Graphs([Forest([-1, 0], 3), Graph(cycle(3), 3)])
    theta = [rng.normal(size=m.dim) for m in graphs.members]
    truths = graphs.encode([[0, 2], [1, 1, 0]])
    value, gradient = CRF(graphs).value_and_grad(Ragged.of(theta), truths)
    for i, (scores, member) in enumerate(zip(theta, graphs.members, strict=True)):
        log_partition, mu = member.marginals(scores)
        assert np.isclose(value[i], log_partition - scores @ truths[i])
        assert np.allclose(gradient[i], mu - truths[i])


def test_mistakes_are_named():
    with pytest.raises(InvalidInput, match="go in a circle"):
        Forest([1, 0], 2).argmax(np.zeros(8))
    with pytest.raises(InvalidInput, match=r"parents\[1\] is 5"):
        Forest([-1, 5], 2)
    with pytest.raises(InvalidInput, match="joins a node to itself"):
        Graph([(1, 1)], 2)
    with pytest.raises(InvalidInput, match="there already"):
        Graph([(0, 1), (1, 0)], 2)
    with pytest.raises(InvalidInput, match="nodes 0 to 1"):
        Graph([(0, 2)], 2, 2)
    with pytest.raises(InvalidInput, match=r"width 8.*leave out edges that close loops"):
        Graph(list(itertools.combinations(range(9), 2)), 10)
    graphs = Graphs([Forest([-1, 0], 2), Forest([-1], 2)])
    with pytest.raises(InvalidInput, match="sample 1 are 8 numbers"):
        graphs.argmax([np.zeros(8), np.zeros(8)])
    with pytest.raises(InvalidInput, match=r"for 2; take\(idx\)"):
        graphs.argmax([np.zeros(8)])
    with pytest.raises(InvalidInput, match="sample 1"):
        graphs.encode([[0, 1], [2]])
    with pytest.raises(InvalidInput, match="have 2 labels"):
        Graphs([Forest([-1, 0], 2), Forest([-1], 3)])
    with pytest.raises(InvalidInput, match="sample 1"):
        graphs.argmax([np.zeros(8), np.array([0.0, np.nan])])
