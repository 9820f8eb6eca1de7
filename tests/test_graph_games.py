"""The additive game on chains, trees and graphs: its value by enumeration, its certificate, and what it is consistent for."""

import itertools
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from fenchel import GraphLabeler, SequenceLabeler
from fenchel.costs import Absolute, CostMatrix, Hamming, Scaled, SquaredError, Weighted, ZeroOne
from fenchel.errors import ConvergenceWarning, IncompatiblePair, InvalidInput
from fenchel.losses import Adversarial, Hinge
from fenchel.losses.games import find_game
from fenchel.losses.games.double_oracle import DoubleOracle
from fenchel.losses.games.dual_decomposition import DualDecomposition
from fenchel.losses.games.graph import ForestGame
from fenchel.structures import Chain, Chains, Forest, Graph, Graphs, Ragged
from fenchel.structures.base import Accuracy


def value_by_enumeration(structure, matrix, weights, theta):
    """max over distributions of labellings of [sum of node-wise Bayes risks + expected score], one linear program."""
    vertices = structure.vertices()
    labels = structure.decode(vertices)
    n, m = labels.shape[1], len(labels)
    scores = np.where(vertices > 0, vertices * np.where(vertices > 0, theta, 0), 0).sum(axis=1)
    allowed = np.isfinite(scores)
    rows = []
    for v in range(n):
        for answer in range(len(matrix)):
            row = np.zeros(m + n)
            row[m + v] = 1
            row[:m] = -weights[v] * matrix[answer, labels[:, v]]
            rows.append(row)
    found = linprog(
        -np.concatenate([np.where(allowed, scores, 0), np.ones(n)]),
        A_ub=np.array(rows),
        b_ub=np.zeros(len(rows)),
        A_eq=[np.concatenate([allowed.astype(float), np.zeros(n)])],
        b_eq=[1],
        bounds=[(0, None) if ok else (0, 0) for ok in allowed] + [(None, None)] * n,
        method="highs",
    )
    return -found.fun


def some_cost(rng, k, n):
    matrix = np.where(np.eye(k), 0, rng.random((k, k)) * 3)
    return [Hamming(), Absolute(), SquaredError(), CostMatrix(matrix), Weighted(Absolute(), rng.random(n) * 3)][
        rng.integers(5)
    ]


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 10**6))
def test_the_value_is_that_of_the_linear_program_over_all_labellings(seed):
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(1, 6)), int(rng.integers(2, 5))
    parents = [-1, *(int(rng.integers(-1, v)) for v in range(1, n))]
    structure = [
        Chain(n, k),
        Chain(n, k, tied=True),
        Forest(parents, k),
        Graph([(v, u) if rng.random() < 0.5 else (u, v) for v, u in enumerate(parents) if u >= 0], k, n),
        Graph([e for e in itertools.combinations(range(n), 2) if rng.random() < 0.6], min(k, 3), n),
    ][rng.integers(5)]
    k = structure.labels
    cost = some_cost(rng, k, n)
    theta = rng.normal(size=(1, structure.dim)) * rng.choice([0.0, 0.1, 1.0, 5.0])
    if rng.random() < 0.3 and structure.binary:
        theta[rng.random(theta.shape) < 0.08] = -np.inf
    weights = np.array(cost.weights) if isinstance(cost, Weighted) else np.ones(n)
    try:
        structure.argmax(theta)
    except InvalidInput:
        return
    found = find_game(structure, cost).solve(theta)
    size = weights.max() * cost.label_matrix(k).max() * n
    assert found.gap[0] <= 2e-8 * (1 + size)
    assert abs(found.value[0] - value_by_enumeration(structure, cost.label_matrix(k), weights, theta[0])) <= 1e-7 * (
        1 + size
    )
    assert structure.violation(found.adversary[0]) < 1e-9
    # both strategies guarantee what they should
    loss = Adversarial(structure, cost)
    q = found.adversary
    finite = np.where(q > 0, theta, 0)
    assert np.isclose(-loss.omega(q)[0] + (finite * q).sum(), found.value[0], atol=1e-8 * (1 + size))
    against = cost.affine(structure).adjoint(found.predictor)[0] + theta
    best = structure.argmax(against)
    worth = against[best > 0].sum() if structure.binary else (np.where(best > 0, against, 0) * best).sum()
    assert worth <= found.value[0] + found.gap[0] + 1e-9 * (1 + size)


def graphs_up_to_isomorphism(n):
    pairs = list(itertools.combinations(range(n), 2))
    seen, found = set(), []
    for chosen in itertools.product((False, True), repeat=len(pairs)):
        edges = [e for e, on in zip(pairs, chosen, strict=True) if on]
        key = min(
            tuple(sorted(tuple(sorted((name[a], name[b]))) for a, b in edges))
            for name in itertools.permutations(range(n))
        )
        if key not in seen:
            seen.add(key)
            found.append(edges)
    return found


@pytest.mark.slow
def test_every_graph_of_up_to_five_nodes_and_four_labels():
    rng = np.random.default_rng(8)
    count = 0
    for n in range(1, 6):
        for edges in graphs_up_to_isomorphism(n):
            for k in (2, 3, 4):
                structure, cost = Graph(edges, k, n), some_cost(rng, k, n)
                theta = rng.normal(size=(1, structure.dim))
                weights = np.array(cost.weights) if isinstance(cost, Weighted) else np.ones(n)
                found = find_game(structure, cost).solve(theta)
                exact = value_by_enumeration(structure, cost.label_matrix(k), weights, theta[0])
                assert np.isclose(found.value[0], exact, atol=1e-6), (edges, k, cost)
                count += 1
    assert count == 3 * (1 + 2 + 4 + 11 + 34)


def test_large_scores_ties_and_forbidden_transitions():
    rng = np.random.default_rng(0)
    chain = Chain(4, 3)
    game = find_game(chain, Hamming())
    for scale in (1e3, 1e6, 1e12):
        theta = rng.normal(size=(5, chain.dim)) * scale
        found = game.solve(theta)
        best = (chain.argmax(theta) * theta).sum(axis=1)
        assert np.all(found.converged)
        assert np.allclose(found.value, best, rtol=1e-12, atol=4)  # the cost is at most four
    barred = np.zeros((3, 3, 3))
    barred[:, 0, 1] = -np.inf
    theta = np.concatenate([np.zeros(12), barred.ravel()])[None]
    found = game.solve(theta)
    assert np.isclose(found.value[0], value_by_enumeration(chain, 1 - np.eye(3), np.ones(4), theta[0]), atol=1e-7)
    assert np.all(found.adversary[theta == -np.inf] == 0)


def test_a_long_chain_and_what_a_warm_start_saves():
    rng = np.random.default_rng(1)
    chains = Chains(5, tied=True)
    theta = chains.assemble(np.array([30, 1, 12]), rng.normal(size=(43, 5)), rng.normal(size=(1, 25)))
    game = find_game(chains, Absolute())
    cold = game.solve(theta, Accuracy(tol=1e-4))
    again = game.solve(theta, Accuracy(tol=1e-4), cold.state)
    assert np.all(again.n_iter == 0)
    assert np.array_equal(again.adversary.flat, cold.adversary.flat)
    moved = theta + 0.01 * Ragged(rng.normal(size=theta.flat.size), theta.offsets)
    warm, fresh = game.solve(moved, Accuracy(tol=1e-4), cold.state), game.solve(moved, Accuracy(tol=1e-4))
    assert warm.n_iter.sum() < fresh.n_iter.sum()
    assert np.all(np.abs(warm.value - fresh.value) <= 2e-4)
    assert warm.gap.max() <= 2e-4


def test_a_batch_of_different_graphs_plays_each_its_own_game():
    rng = np.random.default_rng(2)
    members = [Forest([-1, 0, 0, 2], 3), Graph([(0, 1), (1, 2), (2, 0)], 3), Forest([], 3), Forest([-1], 3)]
    weights = [rng.random(m.n_nodes) + 0.2 for m in members]
    for chosen in ([0, 2, 3], [0, 1, 3]):
        graphs = Graphs([members[i] for i in chosen])
        theta = Ragged.of([rng.normal(size=members[i].dim) for i in chosen])
        cost = Weighted(Absolute(), [weights[i] for i in chosen])
        found = find_game(graphs, cost).solve(theta)
        again = find_game(graphs, cost).solve(theta, start=found.state)
        assert np.allclose(again.value, found.value, atol=1e-7)
        for j, i in enumerate(chosen):
            alone = find_game(members[i], Weighted(Absolute(), weights[i])).solve(theta[j][None])
            assert np.isclose(found.value[j], alone.value[0], atol=1e-6)
            assert np.isclose(found.risk[j], find_game(graphs, cost).risk(found.adversary)[j], atol=1e-9)


def test_the_published_dual_decomposition_and_the_double_oracle_agree():
    rng = np.random.default_rng(3)
    for structure in (Chain(4, 3), Forest([-1, 0, 0, 1], 3)):
        theta = rng.normal(size=(2, structure.dim))
        for cost in (Hamming(), Absolute()):
            exact = find_game(structure, cost).solve(theta)
            assert np.allclose(DoubleOracle(structure, cost).solve(theta).value, exact.value, atol=1e-6)
            published = DualDecomposition(structure, cost).solve(theta, Accuracy(tol=0.03, max_iter=3000))
            assert np.all(published.gap <= 0.03)
            assert np.all(published.value <= exact.value + 1e-6)
            assert np.all(published.value + published.gap >= exact.value - 1e-6)
            assert np.all(structure.violation(published.adversary) < 1e-8)


def test_the_smoothed_game_has_its_formula():
    rng = np.random.default_rng(4)
    chain, s = Chain(3, 2), 0.5
    loss = Adversarial(chain, Hamming(), smoothing=s)
    theta = rng.normal(size=(3, chain.dim))
    found = loss.solve(theta)
    q, p = found.adversary, found.predictor
    costs = 1 - (chain.unpack(p)[0] * chain.unpack(q)[0]).sum(axis=2)
    value = costs.sum(axis=1) + s / 2 * (p**2).sum(axis=1) - s / 2 * (q**2).sum(axis=1) + (theta * q).sum(axis=1)
    assert np.allclose(found.value, value, atol=1e-8)
    assert np.all(found.gap <= 1e-9)
    assert isinstance(find_game(chain, Scaled(Hamming(), 2.0)), object)


def test_a_cost_that_does_not_add_up_over_nodes_is_refused():
    for structure in (Chain(3, 2), Forest([-1, 0], 2), Chains(2)):
        with pytest.raises(IncompatiblePair, match="adds up over nodes"):
            Adversarial(structure, ZeroOne())
    with pytest.raises(IncompatiblePair, match="adds up over nodes"):
        SequenceLabeler("adversarial", cost="zero_one").fit([np.eye(2)], [[0, 1]])
    assert "without loops" in str(ForestGame.refusal(Graph([(0, 1), (1, 2), (2, 0)], 2), Hamming()))


def minimize_on_population(loss, structure, population):
    """The least mean loss over all scores, and the scores: the loss is convex, so subgradients with averaging do."""
    vertices = structure.encode([y for y, _ in population])
    p = np.array([share for _, share in population])
    theta, mean, least = np.zeros(structure.dim), np.zeros(structure.dim), np.inf
    for t in range(1, 1500):
        value, slope = loss.value_and_grad(np.tile(theta, (len(p), 1)), vertices)
        least = min(least, float(p @ value))
        theta = theta - 1.0 / np.sqrt(t) * (p @ slope)
        mean += (theta - mean) * (2.0 / (t + 1))
    return mean


def test_consistency_where_no_labelling_has_a_majority_and_the_hinge_fails():
    """Theorem 3.3 measured: three labels at each of two nodes, 0.4 / 0.3 / 0.3, the nodes alike."""
    structure = Chain(2, 3)
    population = [([0, 0], 0.4), ([1, 1], 0.3), ([2, 2], 0.3)]
    q = sum(share * structure.encode(y) for y, share in population)
    loss = Adversarial(structure, Hamming(), tol=1e-7)
    theta = minimize_on_population(loss, structure, population)
    answer = structure.decode(structure.argmax(theta))
    assert answer.tolist() == [0, 0]
    p = structure.unpack(loss.output(theta).predictor)[0]
    assert np.all(p.argmax(axis=1) == 0)
    bayes = float(-loss.omega(q))  # the Bayes risk: what the answer 0 costs at both
    assert np.isclose(bayes, 1.2)
    # the hinge is least at scores that do not tell the labels apart
    hinge = Hinge(structure, Hamming())
    vertices, shares = structure.encode([y for y, _ in population]), np.array([0.4, 0.3, 0.3])
    at_zero = float(shares @ hinge.value(np.zeros((3, structure.dim)), vertices))
    at_bayes = float(shares @ hinge.value(np.tile(structure.encode([0, 0]), (3, 1)), vertices))
    assert at_zero < at_bayes - 1e-6
    found = minimize_on_population(hinge, structure, population)
    least = float(shares @ hinge.value(np.tile(found, (3, 1)), vertices))
    assert least >= at_zero - 0.02


def data(rng, n, k=3, noise=0.8):
    X, Y = [], []
    for _ in range(n):
        size = int(rng.integers(2, 7))
        parents = [-1, *(int(rng.integers(0, v)) for v in range(1, size))]
        y = np.empty(size, int)
        for v, u in enumerate(parents):
            y[v] = rng.integers(k) if u < 0 or rng.random() < 0.3 else y[u]
        edges = [(u, v) for v, u in enumerate(parents) if u >= 0]
        X.append((np.eye(k)[y] + noise * rng.normal(size=(size, k)), edges))
        Y.append(y)
    return X, Y


def test_the_estimators_learn_and_agree():
    rng = np.random.default_rng(5)
    X, Y = data(rng, 60)
    Xt, Yt = data(rng, 60)
    for loss in ("adversarial", "crf", "hinge"):
        model = GraphLabeler(loss, alpha=0.05, tol=0.02).fit(X, Y)
        assert model.score(Xt, Yt) > 0.6
    paths = [(x, [(i, i + 1) for i in range(len(x) - 1)]) for x, _ in X]
    for loss in ("crf", "adversarial"):
        graph = GraphLabeler(loss, alpha=0.1, tol=1e-3, random_state=0).fit(paths, Y)
        chain = SequenceLabeler(loss, alpha=0.1, tol=1e-3, random_state=0).fit([x for x, _ in X], Y)
        assert np.isclose(graph.objective_, chain.objective_, rtol=3e-3)
        assert np.allclose(graph.coef_, chain.coef_, atol=0.05)
        assert (
            np.mean([a == b for a, b in zip(graph.predict(paths), chain.predict([x for x, _ in X]), strict=True)]) > 0.9
        )
    for way in ("potentials", "predictor", "expected_cost"):
        again = GraphLabeler("adversarial", alpha=0.1, tol=0.02, decode=way).fit(X, Y)
        assert again.score(Xt, Yt) > 0.6
    marginals = again.predict_marginals(X[:2])
    assert [m.shape for m in marginals] == [(len(y), 3) for y in Y[:2]]
    assert all(np.allclose(m.sum(axis=1), 1) for m in marginals)


def test_labels_of_graphs_by_edge_features_weights_and_loops():
    rng = np.random.default_rng(6)
    X, Y = data(rng, 30)
    wide = [(x, edges, np.ones((len(edges), 1))) for x, edges in X]
    one = GraphLabeler("crf", alpha=0.1).fit(X, Y)
    other = GraphLabeler("crf", alpha=0.1, edge_features="pairs").fit(wide, Y)
    assert np.isclose(one.objective_, other.objective_, rtol=1e-3)
    weights = [np.where(np.arange(len(y)) == 0, 5.0, 0.0) for y in Y]
    heavy = GraphLabeler("adversarial", alpha=0.1, tol=0.02).fit(X, Y, node_weights=weights)
    first = np.mean([p[0] == y[0] for p, y in zip(heavy.predict(X), Y, strict=True)])
    assert first > 0.6
    loops = [(x, [(i, (i + 1) % len(x)) for i in range(len(x))] if len(x) > 2 else [(0, 1)]) for x, _ in X]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = GraphLabeler("crf", alpha=0.1, early_stopping=True, random_state=0).fit(loops, Y)
    assert model.score(loops, Y) > 0.5
    with pytest.raises(InvalidInput, match="sample 0 name nodes 0 to 9"):
        model.predict([(np.eye(3), [(0, 9)])])
    with pytest.raises(InvalidInput, match=r"expected \(nodes, edges\)"):
        model.predict([np.eye(3)])
    with pytest.raises(IncompatiblePair, match="does not give"):
        GraphLabeler("hinge", decode="predictor").fit(X, Y)
