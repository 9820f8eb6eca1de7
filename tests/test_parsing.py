"""CoNLL-U files survive being read and written; attachment scores by both rules."""

import gzip

import numpy as np
import pytest

from fenchel import TreePredictor, load, save
from fenchel.costs import Hamming
from fenchel.data import Sentence, read_conllu, write_conllu
from fenchel.decoders import Likeliest
from fenchel.errors import InvalidInput
from fenchel.losses import Adversarial
from fenchel.metrics import attachment_scores
from fenchel.structures import (
    Arborescence,
    Arborescences,
    DependencyTree,
    DependencyTrees,
    SpanningTree,
    SpanningTrees,
)

ROWS = """# sent_id = a-1
# text = Vámonos al mar # with a sign
1-2\tVámonos\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=Yes
1\tVamos\tir\tVERB\t_\tMood=Imp|Number=Plur\t0\troot\t0:root\t_
2\tnos\tnosotros\tPRON\t_\t_\t1\tobj\t1:obj\t_
3-4\tal\t_\t_\t_\t_\t_\t_\t_\t_
3\ta\ta\tADP\t_\t_\t5\tcase\t5:case\t_
4\tel\tel\tDET\t_\t_\t5\tdet\t5:det\t_
5\tmar\tmar\tNOUN\t_\t_\t1\tobl:arg\t1:obl:a\t_

# sent_id = a-2
0.1\t_\t_\tPRON\t_\t_\t_\t_\t2:nsubj\tCopyOf=-1
1\tNew York\tNew York\tPROPN\tNNP\t_\t2\tnsubj\t2:nsubj|3.1:nsubj\t_
2\tshone\tshine\tVERB\tVBD\t_\t0\troot\t0:root\t_
3\tand\tand\tCCONJ\tCC\t_\t2\tcc\t3.1:cc\t_
3.1\tshone\tshine\tVERB\t_\t_\t_\t_\t2:conj\t_
3.2\tBoston\t_\tPROPN\t_\t_\t_\t_\t3.1:nsubj\t_
4\t.\t.\tPUNCT\t.\t_\t2\tpunct\t2:punct\t_

"""


@pytest.mark.parametrize("name", ["file.conllu", "file.conllu.gz"])
def test_everything_survives_a_round_trip(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(gzip.compress(ROWS.encode()) if name.endswith("gz") else ROWS.encode())
    sentences = read_conllu(path)
    write_conllu(path, sentences)
    raw = path.read_bytes()
    assert (gzip.decompress(raw) if name.endswith("gz") else raw).decode() == ROWS
    assert [len(s) for s in sentences] == [5, 4]
    assert sentences[0].forms == ("Vamos", "nos", "a", "el", "mar")
    assert sentences[0].heads.tolist() == [0, 1, 5, 5, 1]
    assert sentences[1].forms[0] == "New York"
    assert sentences[1].column("DEPS")[0] == "2:nsubj|3.1:nsubj"
    assert sentences[0].comments[1] == "# text = Vámonos al mar # with a sign"


def test_a_new_parse_changes_heads_and_labels_alone(tmp_path):
    (tmp_path / "a.conllu").write_text(ROWS, encoding="utf8")
    before = read_conllu(tmp_path / "a.conllu")[1]
    after = before.with_parse([2, 0, 4, 2], ["a", "b", "c", "d"])
    assert after.heads.tolist() == [2, 0, 4, 2]
    assert after.labels == ("a", "b", "c", "d")
    changed = [(a, b) for a, b in zip(before.lines, after.lines, strict=True) if a != b]
    assert len(changed) == 4
    for a, b in changed:
        assert [i for i, (x, y) in enumerate(zip(a.split("\t"), b.split("\t"), strict=True)) if x != y] in ([7], [6, 7])
    assert before.with_parse(before.heads, before.labels) == before
    with pytest.raises(InvalidInput, match="the head of word 1 is 1"):
        before.with_parse([1, 0, 2, 2])
    with pytest.raises(InvalidInput, match="4 words, but there are 3"):
        before.with_parse([2, 0, 2])
    for label in ("", "a\tb", "a\nb"):
        with pytest.raises(InvalidInput, match="the label of word 2 is"):
            before.with_parse([2, 0, 4, 2], ["a", label, "c", "d"])


GOOD = "1\ta\t_\t_\t_\t_\t2\tx\t_\t_\n2\tb\t_\t_\t_\t_\t0\tx\t_\t_\n"


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (GOOD.replace("2\tb", "3\tb"), 2, "word 3 follows word 1"),
        (GOOD.replace("\t2\tx", "\t3\tx"), 1, "HEAD of word 1 is '3'"),
        (GOOD.replace("\t2\tx", "\t1\tx"), 1, "HEAD of word 1 is '1'"),
        (GOOD.replace("\t2\tx", "\ttwo\tx"), 1, "HEAD of word 1 is 'two'"),
        (GOOD.replace("b\t_", "b", 1), 2, "it has 9 columns, expected 10"),
        (GOOD.replace("\t", " "), 1, r"separated by tabs"),
        (GOOD.replace("2\tb\t_", "2\tb\t", 1), 2, "column LEMMA is empty"),
        (GOOD.replace("2\tb", "x\tb"), 2, "ID is 'x'"),
        ("2-3" + "\t_" * 9 + "\n" + GOOD, 1, "does not begin with the next word, 1"),
        ("1-3" + "\t_" * 9 + "\n" + GOOD, 3, "reaches to word 3, but the last word is 2"),
        ("1.1" + "\t_" * 9 + "\n" + GOOD, 1, "the empty node 1.1 does not follow word 0"),
        (GOOD + "# late\n", 3, "comments stand before"),
        ("# alone\n", 1, "a sentence without words"),
    ],
)
def test_a_malformed_line_is_named_by_file_and_line(tmp_path, text, line, message):
    path = tmp_path / "bad.conllu"
    path.write_text("# first\n" + GOOD + "\n" + text, encoding="utf8")
    with pytest.raises(InvalidInput, match=rf"bad.conllu, line {line + 4}: .*{message}"):
        read_conllu(path)


def test_plain_words_have_no_heads_yet():
    sentence = Sentence.of(["Dogs", "bark"])
    assert sentence.heads.tolist() == [-1, -1]
    assert sentence.with_parse([2, 0]).labels == ("_", "_")
    with pytest.raises(InvalidInput, match="2 forms but 1 parts of speech"):
        Sentence.of(["Dogs", "bark"], ["NOUN"])


def test_attachment_scores_by_both_rules(tmp_path):
    (tmp_path / "a.conllu").write_text(ROWS, encoding="utf8")
    gold = read_conllu(tmp_path / "a.conllu")
    system = [
        gold[0].with_parse([0, 1, 5, 5, 1], ["root", "obj", "case", "det", "obl"]),
        gold[1].with_parse([2, 0, 4, 3], ["nsubj", "root", "cc", "punct"]),
    ]
    scores = attachment_scores(gold, system)
    assert (scores.words, scores.heads, scores.labelled) == (9, 7, 7)  # obl:arg counts as obl
    assert (scores.sentences, scores.whole, scores.whole_labelled) == (2, 1, 1)
    by_tags = attachment_scores(gold, system, rule="tags")
    assert (by_tags.words, by_tags.heads, by_tags.labelled) == (8, 7, 6)  # no full stop, and obl:arg is not obl
    assert (by_tags.ucm, by_tags.lcm) == (0.5, 0.0)
    assert attachment_scores(gold, gold, rule="tags", tags={"NNP"}).words == 8
    with pytest.raises(InvalidInput, match="sentence 0 has other words"):
        attachment_scores(gold, gold[::-1])
    with pytest.raises(InvalidInput, match="rule"):
        attachment_scores(gold, gold, rule="conll06")


# -- trees from features -----------------------------------------------------------------------------------------------


def sized(n_items, seed=0, most=7):
    """Nodes with a size and a group; each hangs on the nearest larger one of its group, else on the largest of all."""
    rng = np.random.default_rng(seed)
    items, trees = [], []
    for _ in range(n_items):
        n = int(rng.integers(1, most))
        size, group = rng.permutation(n).astype(float), rng.integers(2, size=n)
        heads = []
        for i in range(n):
            larger = [j for j in range(n) if size[j] > size[i] and group[j] == group[i]]
            top = int(size.argmax())
            heads.append(0 if i == top else min(larger, key=lambda j: size[j]) + 1 if larger else top + 1)
        above = np.concatenate([[float(n)], size])[None, :] - size[:, None]
        same = np.concatenate([np.zeros((n, 1)), group[:, None] == group[None, :]], axis=1)
        largest = np.concatenate([[0.0], size == size.max()])[None, :] + np.zeros((n, 1))
        root = np.zeros((n, n + 1))
        root[:, 0] = 1
        top_below_root = root * (size == size.max())[:, None]
        items.append(
            np.stack([above, above > 0, same, same * (above > 0), same * above, largest, root, top_below_root], axis=2)
        )
        trees.append(heads)
    return items, trees


@pytest.mark.parametrize("loss", ["crf", "adversarial", "hinge", "sparsemap"])
@pytest.mark.parametrize("kind", ["single_root", "multi_root"])
def test_trees_are_learned_from_features_of_arcs(loss, kind):
    game = loss == "adversarial"  # each is milliseconds, so fewer and smaller ones
    X, y = sized(8 if game else 30, most=5 if game else 7)
    model = TreePredictor(loss, kind=kind, alpha=0.03 if game else 1e-3, tol=0.1 if game else 1e-2).fit(X, y)
    fresh, truths = sized(10 if game else 40, seed=1, most=5 if game else 7)
    assert model.score(fresh, truths) > (0.8 if game else 0.95)
    assert model.coef_.shape == (8,)
    marginals = model.predict_marginals(fresh)
    for mu, heads, x in zip(marginals, model.predict(fresh), fresh, strict=True):
        assert mu.shape == (len(x), len(x) + 1)
        assert np.allclose(mu.sum(axis=1), 1)
        (DependencyTree if kind == "single_root" else Arborescence)(len(x)).encode(heads)
    assert model.predict([]) == []


def test_decoding_by_weights_and_by_risk():
    X, y = sized(20)
    by_weights = TreePredictor(decoding="weights", alpha=1.0).fit(X, y)
    by_risk = TreePredictor(alpha=1.0).fit(X, y)
    assert np.allclose(by_weights.coef_, by_risk.coef_)
    for x, answer, safe in zip(X, by_weights.predict(X), by_risk.predict(X), strict=True):
        tree = DependencyTree(len(x))
        theta = x @ by_weights.coef_
        assert np.array_equal(tree.encode(answer), tree.argmax(theta))
        mu = tree.marginals(theta)[1]
        assert np.isclose((tree.encode(safe) * mu).sum(), (tree.argmax(mu) * mu).sum())


@pytest.mark.parametrize("kind", ["single_root", "multi_root", "undirected"])
def test_the_adversarial_answer_is_that_of_the_predictor_and_knows_forbidden_arcs(kind):
    rng = np.random.default_rng(0)
    family = {"single_root": DependencyTrees(), "multi_root": Arborescences(), "undirected": SpanningTrees()}[kind]
    theta = [2.0 * rng.normal(size=shape_of(kind, n)) for n in (3, 5, 4)]
    rows = family.as_rows(theta, "scores")[0]
    for method in ("auto", "double_oracle"):
        output = Adversarial(family, Hamming(), method=method).output(rows)
        p = output.predictor
        answers = Likeliest().vertices(output)
        for i in range(3):  # no tree has more expected right arcs
            best = family.member(p[i].size).argmax(p[i].reshape(family.member(p[i].size).shape)).ravel()
            assert answers[i] @ p[i] == pytest.approx(best @ p[i], abs=1e-6)
    barred = rows.copy()
    worst = [int(np.argmax(np.where(Likeliest().vertices(output)[i] > 0, 1.0, 0.0))) for i in range(3)]
    for i in range(3):
        barred[i][worst[i]] = -np.inf
    answers = Likeliest().vertices(Adversarial(family, Hamming()).output(barred))
    assert all(answers[i][worst[i]] == 0 for i in range(3))


def shape_of(kind, n):
    return (n * (n - 1) // 2,) if kind == "undirected" else (n, n + 1)


def test_features_of_nodes_are_multiplied_out():
    rng = np.random.default_rng(2)
    X = [rng.normal(size=(int(rng.integers(1, 6)), 2)) for _ in range(60)]
    y = []
    for x in X:  # a node prefers heads whose first feature has the sign of its second, and the root if it is small
        n = len(x)
        theta = np.zeros((n, n + 1))
        theta[:, 1:] = 6 * x[:, 1:] * x[:, 0]
        theta[:, 0] = -3 * x[:, 0]
        y.append(DependencyTree(n).decode(DependencyTree(n).argmax(theta)))
    model = TreePredictor(alpha=1e-4).fit(X, y)
    assert model.coef_.shape == (12,)
    assert model.score(X, y) > 0.95


@pytest.mark.parametrize("loss", ["crf", "hinge", "adversarial"])
def test_undirected_trees(loss):
    rng = np.random.default_rng(3)
    X, y = [], []
    for _ in range(8 if loss == "adversarial" else 25):
        n = int(rng.integers(1, 5 if loss == "adversarial" else 6))
        place = rng.normal(size=(n, 2))
        distance = np.linalg.norm(place[:, None] - place[None], axis=2)
        X.append(np.stack([distance, rng.normal() * np.ones((n, n))], axis=2))
        tree = SpanningTree(n)
        y.append(tree.edges(tree.argmax(-tree.pack(distance))))
    model = TreePredictor(loss, kind="undirected", alpha=1e-2, tol=0.05).fit(X, y)
    assert model.coef_[0] < 0
    assert model.score(X, y) > 0.9
    assert model.predict(X)[0].shape == y[0].shape
    mu = model.predict_marginals(X)[0]
    assert np.allclose(mu, mu.T)
    assert np.isclose(mu.sum(), 2 * (len(X[0]) - 1))
    nodes = [rng.normal(size=(4, 2)) for _ in range(3)]
    assert TreePredictor(kind="undirected").fit(nodes, [[(0, 1), (1, 2), (2, 3)]] * 3).coef_.shape == (6,)


def test_predictors_of_trees_are_saved_and_choose_alpha(tmp_path):
    X, y = sized(20)
    model = TreePredictor(alpha="cv", tol=1e-2, max_iter=50).fit(X, y)
    save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    assert all(np.array_equal(a, b) for a, b in zip(model.predict(X), again.predict(X), strict=True))
    barred = [x.copy() for x in X]
    for x, heads in zip(barred, y, strict=True):
        for i, h in enumerate(heads):
            x[i, [j for j in range(x.shape[1]) if j not in (h, i + 1)]] = np.nan
    assert all(np.array_equal(a, b) for a, b in zip(model.predict(barred), y, strict=True))


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ([np.zeros((2, 3, 1))], [[0]], "sample 0: there are 2 nodes"),
        ([np.zeros((2, 2, 1))], [[0, 1]], r"2 nodes have arcs \(2, 3, features\)"),
        ([np.zeros((2, 3, 1)), np.zeros((2, 3, 2))], [[0, 1]] * 2, "sample 1 gives arcs 2 features"),
        ([np.zeros((2, 3, 1)), np.zeros((2, 3))], [[0, 1]] * 2, "sample 1 has features of nodes"),
        ([np.zeros((2, 3, 1))], [[0, 0]], "sample 0.*2 words have the head 0"),
        (
            [np.zeros((2, 3, 1))] * 2,
            [[0, 1], [2, 1]],
            r"^the heads \[2, 1\] of sample 1 are no tree: word 1 is on or behind",
        ),
        ([np.zeros((2, 3, 1))], [[0, 1]] * 2, "X has 1 items but y has 2 trees"),
        ([np.full((2, 3, 1), np.inf)], [[0, 1]], "sample 0 holds infinity"),
        ([], [], "no trees to learn from"),
    ],
)
def test_wrong_inputs_of_trees_are_named(X, y, message):
    with pytest.raises(InvalidInput, match=message):
        TreePredictor().fit(X, y)
