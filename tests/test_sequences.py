"""Learning to label sequences: scorers, solvers and estimators on chains."""

import numpy as np
import pytest
from scipy import sparse

from fenchel.costs import Hamming
from fenchel.data import SequenceEncoder
from fenchel.errors import InvalidInput
from fenchel.losses import CRF, FenchelYoung, Hinge
from fenchel.scorers import LinearChain
from fenchel.solvers import LBFGS, BlockFrankWolfe
from fenchel.structures import Chains


def make_scorers(rng, k=3, d=4):
    lengths = np.array([3, 0, 1, 5, 2])
    X, pairs = rng.normal(size=(11, d)), rng.normal(size=(7, 2))
    X[rng.random(X.shape) < 0.5] = 0
    for matrix in (X, sparse.csr_matrix(X)):
        for tied in (False, True):
            yield LinearChain(matrix, lengths, Chains(k, tied), intercept_scaling=2.0)
            yield LinearChain(matrix, lengths, Chains(k, tied))
        yield LinearChain(matrix, lengths, Chains(k), pairs=pairs)
        yield LinearChain(matrix, lengths, Chains(k, True), basis=rng.normal(size=(2, k, k)))
    for scaling in (None, 0.5):
        yield LinearChain(matrix, lengths, Chains(k, True), cells=[0, 4, 5, 9], intercept_scaling=scaling)


def test_scores_are_linear_and_the_adjoint_is_theirs():
    rng = np.random.default_rng(0)
    for scorer in make_scorers(rng):
        w = rng.normal(size=scorer.weights_shape)
        whole = scorer.scores(w)
        for idx in (None, np.array([3, 0, 1]), slice(1, 4)):
            theta = scorer.scores(w, idx)
            items = range(5) if idx is None else np.arange(5)[idx]
            assert all(np.allclose(theta[a], whole[int(i)]) for a, i in enumerate(items))
            r = theta.like(rng.normal(size=theta.flat.size))
            assert np.isclose(theta.flat @ r.flat, w @ scorer.adjoint(r, idx))
            taken = scorer.take(np.arange(5) if idx is None else np.arange(5)[idx])
            assert np.allclose(taken.scores(w).flat, theta.flat)
            squares = [np.sum(scorer.adjoint(r[a : a + 1], np.array([i])) ** 2) for a, i in enumerate(items)]
            assert np.allclose(scorer.quadratic(r, idx), squares)


def test_scores_are_what_they_say():
    rng = np.random.default_rng(1)
    X, w = rng.normal(size=(5, 2)), rng.normal(size=2 * 3 + 9)
    never = np.zeros((3, 3), bool)
    never[0, 2] = True
    scorer = LinearChain(X, [3, 2], Chains(3), forbidden=(np.array([False, False, True]), never))
    W, table = scorer.split(w)
    table = np.where(never, -np.inf, table)
    for (node, edge), rows in zip(scorer.structure.unpack(scorer.scores(w)), (X[:3], X[3:]), strict=True):
        expected = rows @ W
        expected[0, 2] = -np.inf
        assert np.allclose(node, expected)
        assert np.array_equal(edge, np.broadcast_to(table, edge.shape))
    with pytest.raises(InvalidInput, match="the lengths add up to 6"):
        LinearChain(X, [3, 3], Chains(3))
    with pytest.raises(InvalidInput, match="there are 3 pairs"):
        LinearChain(X, [3, 2], Chains(3), pairs=X)
    with pytest.raises(InvalidInput, match="features of their own"):
        LinearChain(X, [3, 2], Chains(3, tied=True), pairs=X[:3])
    with pytest.raises(InvalidInput, match="booleans"):
        LinearChain(X, [3, 2], Chains(3), forbidden=(np.zeros(2), never))


def noisy_sequences(rng, n=40, k=3, d=4):
    """Labels that tend to stay, and features that point at them."""
    lengths = rng.integers(0, 7, size=n)
    centres = rng.normal(size=(k, d))
    labels, rows = [], []
    for length in lengths:
        y = np.zeros(length, int)
        for t in range(length):
            y[t] = rng.integers(k) if t == 0 or rng.random() < 0.4 else y[t - 1]
        labels.append(y)
        rows.append(centres[y] + rng.normal(size=(length, d)) * 1.5)
    return np.concatenate(rows), lengths, labels


@pytest.mark.parametrize("kind", ["crf", "hinge", "sparsemap"])
def test_solvers_reach_their_gap_and_agree_on_tied_and_untied_chains(kind):
    rng = np.random.default_rng(2)
    X, lengths, labels = noisy_sequences(rng)
    objectives = []
    for tied in (True, False):
        chains = Chains(3, tied)
        scorer, v = LinearChain(X, lengths, chains, intercept_scaling=1.0), chains.encode(labels)
        if kind == "crf":
            result = LBFGS(tol=1e-7).minimize(scorer, CRF(chains), v, 0.05)
        elif kind == "hinge":
            result = BlockFrankWolfe(tol=5e-2, random_state=0).minimize(scorer, Hinge(chains, Hamming()), v, 0.05)
        elif tied:
            continue  # another loss
        else:
            loss = FenchelYoung(chains, "euclidean")
            result = LBFGS(tol=1e-6).minimize(scorer, loss, v, 0.05)
            other = BlockFrankWolfe(tol=1e-4, random_state=0).minimize(scorer, loss, v, 0.05)
            assert other.converged
            assert abs(result.value - other.value) <= other.gap + result.gap
        assert result.converged
        objectives.append((result.value, result.gap))
    (a, first), (b, second) = objectives[0], objectives[-1]
    assert abs(a - b) <= first + second


def test_feature_dicts_become_a_sparse_matrix():
    train = [
        [{"w": "to", "n": 2}, {"w": "Rome", "upper": True}],
        [],
        [{"w": "to", "tags": {"b", "a"}, "next": {"n": 0.5}}],
    ]
    encoder = SequenceEncoder()
    matrix = encoder.fit_transform(train)
    assert sparse.issparse(matrix)
    assert (matrix != encoder.transform(train)).nnz == 0
    assert list(encoder.get_feature_names_out()) == ["w:to", "n", "w:Rome", "upper", "tags:a", "tags:b", "next:n"]
    assert matrix.toarray().tolist() == [[1, 2, 0, 0, 0, 0, 0], [0, 0, 1, 1, 0, 0, 0], [1, 0, 0, 0, 1, 1, 0.5]]
    assert encoder.transform([[["n", "unheard of"]]]).toarray().tolist() == [[0, 1, 0, 0, 0, 0, 0]]
    assert encoder.transform([]).shape == (0, 7)
    frequent = SequenceEncoder(min_count=2)
    assert frequent.fit_transform(train).toarray().tolist() == [[1], [0], [1]]
    assert frequent.transform(train).toarray().tolist() == [[1], [0], [1]]
    hashed = SequenceEncoder(hashed=64)
    assert hashed.fit_transform(train).shape == (3, 64)
    assert (hashed.fit([]).transform(train) != hashed.fit_transform(train)).nnz == 0
    assert hashed.transform(train).sum() == matrix.sum()
    for bad, words in (
        ([[{"w": None}]], "sample 0, position 0"),
        ([[{}], [3]], "sample 1, position 0"),
        (["ab"], "sample 0"),
    ):
        with pytest.raises(InvalidInput, match=words):
            encoder.fit(bad)
    with pytest.raises(InvalidInput, match="not finite"):
        encoder.fit_transform([[{"a": float("nan")}]])


def test_losses_in_parts_are_the_losses_of_all(monkeypatch):
    from fenchel.solvers import base

    rng = np.random.default_rng(3)
    X, lengths, labels = noisy_sequences(rng)
    chains, p = Chains(3, tied=True), rng.random(40)
    v = chains.encode(labels)
    for matrix, cells in ((X, None), (sparse.csr_matrix(X), None), (sparse.csr_matrix(X), np.arange(0, 12, 2))):
        scorer = LinearChain(matrix, lengths, chains, cells=cells, intercept_scaling=1.0)
        w = rng.normal(size=scorer.weights_shape)
        for weights in (None, p):
            for loss in (CRF(chains), Hinge(chains, Hamming())):
                whole = base.Objective(scorer, loss, v, 0.1, weights)
                monkeypatch.setattr(base, "_PART", 100)
                parts = base.Objective(scorer, loss, v, 0.1, weights)
                monkeypatch.undo()
                assert len(parts._parts) > 3 > len(whole._parts)
                (a, g), (b, h) = whole.value_and_grad(w), parts.value_and_grad(w)
                assert np.isclose(a, b)
                assert np.allclose(g, h)
