"""A dependency parser from annotated sentences: its features, its scores, and what it refuses."""

import numpy as np
import pytest

import fenchel
from fenchel import DependencyParser
from fenchel.costs import Hamming
from fenchel.data import Sentence, small_treebank
from fenchel.data.arc_features import arc_rows, label_rows
from fenchel.errors import InvalidInput
from fenchel.losses import Hinge, SoftmaxMargin
from fenchel.metrics import attachment_scores
from fenchel.scorers import Pairs
from fenchel.structures import DependencyTree, DependencyTrees


def shape_features(sentence):
    """A function of the user's own: the tags of both words, the direction and the distance."""
    tags = ["<root>", *sentence.upos]
    known = ["<root>", "DET", "ADJ", "NOUN", "VERB", "ADV", "ADP", "SCONJ", "CCONJ", "PUNCT"]
    n, k = len(sentence), len(known)
    out = np.zeros((n, n + 1, 2 * k * k + 1))
    for i in range(n):
        for h in range(n + 1):
            pair = known.index(tags[h]) * k + known.index(tags[i + 1])
            out[i, h, 2 * pair + (h < i + 1)] = 1.0
            out[i, h, -1] = abs(h - i - 1)
    return out


def test_the_treebank_holds_trees_and_is_the_same_for_a_seed():
    sentences = small_treebank(200, random_state=3)
    assert [str(s) for s in sentences] == [str(s) for s in small_treebank(200, random_state=3)]
    for s in sentences:
        tree = DependencyTree(len(s))
        assert tree.decode(tree.encode(s.heads)).tolist() == s.heads.tolist()
        assert s.labels[int(np.flatnonzero(s.heads == 0)[0])] == "root"
    assert any("ccomp" in s.labels for s in sentences)
    assert small_treebank(0) == []


def test_a_row_of_features_knows_its_own_sentence_alone():
    sentences = small_treebank(30, random_state=0)
    together = arc_rows(sentences, 2**16)
    apart = [arc_rows([s], 2**16) for s in sentences]
    assert together.shape[0] == sum(len(s) * (len(s) + 1) for s in sentences)
    start = 0
    for s, own in zip(sentences, apart, strict=True):
        assert abs(together[start : start + own.shape[0]] - own).nnz == 0
        n = len(s)
        counts = np.diff(own.indptr).reshape(n, n + 1)
        itself = np.eye(n, n + 1, 1, dtype=bool)
        assert (counts[itself] == 0).all()
        assert (counts[~itself] > 20).all()
        start += own.shape[0]
    assert set(np.unique(together.data)) == {1.0}
    assert arc_rows([], 8).shape == (0, 8)
    heads = [s.heads for s in sentences]
    labels = label_rows(sentences, heads, 2**14)
    assert abs(labels[: len(sentences[0])] - label_rows(sentences[:1], heads[:1], 2**14)).nnz == 0


def test_features_tell_words_heads_directions_and_words_between_apart():
    def row(forms, tags, m, h):
        n = len(forms)
        matrix = arc_rows([Sentence.of(forms, tags)], 2**22)
        return set(matrix[(m - 1) * (n + 1) + h].indices)

    base = row(["a", "b", "c"], ["X", "Y", "Z"], 1, 3)
    assert base == row(["a", "b", "c"], ["X", "Y", "Z"], 1, 3)
    assert not base <= row(["a", "b", "c"], ["X", "Y", "Z"], 3, 1)
    assert base != row(["a", "b", "d"], ["X", "Y", "Z"], 1, 3)
    assert base != row(["a", "b", "c"], ["X", "W", "Z"], 1, 3)
    # an arc from the left and one from the right, of equal words at equal distance
    assert row(["a", "a", "a"], ["X", "X", "X"], 2, 1) != row(["a", "a", "a"], ["X", "X", "X"], 2, 3)


def test_sparse_pairs_score_as_dense_ones():
    from scipy import sparse

    rng = np.random.default_rng(0)
    sizes = [6, 2, 12]
    X = rng.normal(size=(20, 5)) * (rng.random((20, 5)) < 0.5)
    dense, thin = Pairs.of_rows(X, sizes), Pairs.of_rows(sparse.csr_matrix(X), sizes)
    w = rng.normal(size=5)
    direction = dense.scores(w).like(rng.normal(size=20))
    for idx in (None, np.array([2, 0])):
        a, b = dense.scores(w, idx), thin.scores(w, idx)
        assert a.offsets.tolist() == b.offsets.tolist()
        assert np.allclose(a.flat, b.flat)
        part = direction if idx is None else direction[idx]
        assert np.allclose(dense.adjoint(part, idx), thin.adjoint(part, idx))
        by_hand = [np.sum((block.T @ d) ** 2) for block, d in zip(np.split(X, [6, 8]), direction, strict=True)]
        by_hand = np.array(by_hand)[slice(None) if idx is None else idx]
        assert np.allclose(dense.quadratic(part, idx), by_hand)
        assert np.allclose(thin.quadratic(part, idx), by_hand)
    assert np.allclose(thin.take([1]).scores(w).flat, dense.scores(w).flat[6:8])
    assert thin.gram(1.0) is None


@pytest.mark.parametrize(
    "loss", ["crf", "softmax-margin", "head-selection", "minimum-risk", "hinge", "robust-stochastic"]
)
def test_each_loss_learns_the_grammar(loss, tmp_path):
    game = loss == "robust-stochastic"  # each step plays a game for each sentence
    train, test = small_treebank(10 if game else 40, random_state=0), small_treebank(40, random_state=1)
    parser = DependencyParser(loss, alpha=1.0 if game or loss == "hinge" else 0.1, tol=0.1).fit(train)
    assert parser.converged_
    parses = parser.predict(test)
    scores = attachment_scores(test, parses)
    chain = attachment_scores(test, [s.with_parse(np.arange(len(s))) for s in test])
    assert scores.uas > 0.85 > 0.5 > chain.uas
    assert scores.las > 0.8
    assert parser.score(test) == pytest.approx(scores.uas)
    for s, mu in zip(test, parser.predict_marginals(test), strict=True):
        assert mu.shape == (len(s), len(s) + 1)
        assert np.allclose(mu.sum(axis=1), 1)
        assert loss == "head-selection" or np.isclose(mu[:, 0].sum(), 1)
    fenchel.save(parser, tmp_path / "parser")
    again = fenchel.load(tmp_path / "parser").predict(test)
    assert [str(s) for s in again] == [str(s) for s in parses]


def test_the_crf_of_the_parser_is_that_of_its_scores():
    """The objective equals the sum over all trees, written out."""
    train = [s for s in small_treebank(60, random_state=2) if len(s) <= 6][:4]
    assert len(train) == 4
    parser = DependencyParser(features=shape_features, alpha=0.1, tol=1e-8, labels=False).fit(train)
    losses = []
    for s in train:
        tree = DependencyTree(len(s))
        theta = shape_features(s) @ parser.coef_
        every = tree.vertices().reshape(-1, *theta.shape)
        scores = np.einsum("vij,ij->v", every, theta)
        own = float((tree.encode(s.heads) * theta).sum())
        losses.append(np.log(np.exp(scores - own).sum()))
        mu = np.einsum("v,vij->ij", np.exp(scores) / np.exp(scores).sum(), every)
        assert np.allclose(parser.predict_marginals([s])[0], mu)
    assert parser.objective_ == pytest.approx(np.mean(losses) + 0.05 * parser.coef_ @ parser.coef_)


def test_softmax_margin_is_its_sum_over_all_trees_and_above_the_hinge():
    rng = np.random.default_rng(0)
    for n in (1, 2, 4):
        tree = DependencyTree(n)
        every = tree.vertices().reshape(-1, n * (n + 1))
        loss = SoftmaxMargin(tree, Hamming())
        for scale in (0.0, 1.0, 30.0):
            theta, truth = (
                scale * rng.normal(size=tree.shape),
                tree.encode(tree.decode(tree.argmax(rng.normal(size=tree.shape)))),
            )
            scores = every @ theta.ravel() + n - every @ truth.ravel()
            top = scores.max()
            expected = top + np.log(np.exp(scores - top).sum()) - float((theta * truth).sum())
            value, gradient = loss.value_and_grad(theta, truth)
            assert np.isclose(value, expected, atol=1e-9)
            p = np.exp(scores - top) / np.exp(scores - top).sum()
            assert np.allclose(gradient.ravel(), p @ every - truth.ravel(), atol=1e-9)
            assert value >= Hinge(tree, Hamming()).value(theta, truth) - 1e-9


def test_the_robust_loss_is_the_value_of_the_game_over_all_trees():
    from scipy.optimize import linprog

    train = [
        Sentence.of(["dogs", "chase", "cats"], ["NOUN", "VERB", "NOUN"]).with_parse([2, 0, 2]),
        Sentence.of(["the", "old", "dog", "."], ["DET", "ADJ", "NOUN", "PUNCT"]).with_parse([3, 3, 0, 3]),
        Sentence.of(["a", "dog"], ["DET", "NOUN"]).with_parse([2, 0]),
    ]
    parser = DependencyParser(
        "robust-stochastic", features=shape_features, alpha=0.1, smoothing=0.0, tol=1e-6, inner_tol=1e-9, labels=False
    ).fit(train)
    values = []
    for s in train:
        tree = DependencyTree(len(s))
        theta = shape_features(s) @ parser.coef_
        every = tree.vertices().reshape(-1, theta.size)
        k = len(every)
        payoff = len(s) - every @ every.T + (every @ theta.ravel())[None, :]  # rows: the predictor's tree
        result = linprog(
            np.r_[np.zeros(k), 1.0],
            A_ub=np.c_[payoff.T, -np.ones(k)], b_ub=np.zeros(k),
            A_eq=np.r_[np.ones(k), 0.0][None], b_eq=[1.0], bounds=[(0, None)] * k + [(None, None)],
        )  # fmt: skip
        values.append(result.fun - float((tree.encode(s.heads) * theta).sum()))
    assert parser.objective_ == pytest.approx(np.mean(values) + 0.05 * parser.coef_ @ parser.coef_, abs=1e-6)


def test_own_features_labels_and_what_stays():
    train, test = small_treebank(40, random_state=0), small_treebank(20, random_state=1)
    parser = DependencyParser(features=shape_features, alpha=0.01).fit(train)
    assert parser.n_features_in_ == 201
    assert parser.coef_.shape == (201,)
    assert attachment_scores(test, parser.predict(test)).las > 0.8
    bare = DependencyParser(labels=False, alpha=0.1).fit(train)
    emptied = [s.with_parse(s.heads, ["x"] * len(s)) for s in test]
    assert {label for s in bare.predict(emptied) for label in s.labels} == {"x"}
    same = [s.with_parse(s.heads, ["dep"] * len(s)) for s in train]
    told = DependencyParser(alpha=0.1).fit(same).predict(test)
    assert {label for s in told for label in s.labels} == {"dep"}
    assert bare.predict([]) == []
    assert bare.predict_marginals([]) == []
    one = Sentence.of(["saw"], ["VERB"])
    assert parser.predict([one])[0].heads.tolist() == [0]
    lines = "# kept\n1\tdogs\tdog\tNOUN\tNN\tX=1\t_\t_\t_\tA=b\n2\tbark\tbark\tVERB\t_\t_\t_\t_\t_\t_"
    parse = parser.predict([Sentence.parse(lines)])[0]
    assert parse.comments == ("# kept",)
    assert parse.column("MISC") == ("A=b", "_")


def test_several_words_at_the_root_and_the_choice_of_alpha():
    train = small_treebank(30, random_state=0)
    cut = [s.with_parse(np.where(np.array(s.upos) == "PUNCT", 0, s.heads)) for s in train]
    with pytest.raises(InvalidInput, match=r"sample 0: 2 words hang on the root; single_root=False allows that"):
        DependencyParser().fit(cut)
    free = DependencyParser(single_root=False, alpha="cv", labels=False, hashed=2**14).fit(cut)
    assert free.score(cut) > 0.95
    assert free.alpha_ in free.cv_results_["alpha"]
    weights = np.r_[np.ones(10), np.zeros(20)]
    some = DependencyParser(labels=False, alpha=0.1, tol=1e-6).fit(train, sample_weight=weights)
    few = DependencyParser(labels=False, alpha=0.1, tol=1e-6).fit(train[:10])
    assert some.objective_ == pytest.approx(few.objective_, rel=1e-4)


def test_what_is_refused_is_named():
    train = small_treebank(5, random_state=0)
    words = Sentence.of(["dogs", "bark"])
    circle = Sentence.of(["a", "b", "c"]).with_parse([0, 3, 2])
    for X, message in [
        ([*train, words], "sample 5: word 1 has no head"),
        ([*train, circle], "sample 5"),
        ([["dogs", "bark"]], "sample 0 is list, expected a fenchel.data.Sentence"),
        (words, "X is Sentence, expected a list"),
        ([], "no sentences to learn from"),
    ]:
        with pytest.raises(InvalidInput, match=message):
            DependencyParser().fit(X)
    with pytest.raises(InvalidInput, match="loss is 'crff'"):
        DependencyParser("crff").fit(train)
    with pytest.raises(InvalidInput, match="features is 3, expected 'lexical', 'neural' or a function"):
        DependencyParser(features=3).fit(train)
    with pytest.raises(InvalidInput, match="features is 'lexica'"):
        DependencyParser(features="lexica").fit(train)
    with pytest.raises(InvalidInput, match=r"features of sample 0, a sentence of \d+ words, have shape \(2, 2\)"):
        DependencyParser(features=lambda s: np.zeros((2, 2))).fit(train)
    with pytest.raises(InvalidInput, match="features of sample 0 hold infinity or NaN"):
        DependencyParser(features=lambda s: np.full((len(s), len(s) + 1, 1), np.inf)).fit(train)
    assert DependencyTrees().member(6) == DependencyTree(2)


def test_robust_trainers_answer_alike():
    """Each game has many best answers to the adversary's q; the one that is right is told by the predictor's p."""
    train, test = small_treebank(10, random_state=0), small_treebank(30, random_state=1)
    scores = [
        DependencyParser(loss, alpha=1.0, labels=False, tol=0.1, **options).fit(train).score(test)
        for loss, options in (("robust-stochastic", {}), ("robust-game", {}), ("crf", {}))
    ]
    assert min(scores) > 0.9
