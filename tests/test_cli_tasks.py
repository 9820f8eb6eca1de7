"""The tasks of the command line beyond classes: grades, label sets, rankings; a round trip each and what they refuse."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re

import numpy as np
import pytest
from scipy.stats import kendalltau
from sklearn.datasets import dump_svmlight_file
from sklearn.metrics import f1_score, hamming_loss
from test_cli import fails, run, write

import fenchel
from fenchel.cli.tasks import TASKS
from fenchel.data import TableEncoder, read_table


def table_of(text):
    header, *rows = csv.reader(io.StringIO(text))
    return header, rows


def inputs(n=90, d=3, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, d)).round(4)
    return X, {f"x{j + 1}": X[:, j].tolist() for j in range(d)}


# -- grades ------------------------------------------------------------------------------------------------------------


def graded(seed=0):
    X, columns = inputs(seed=seed)
    grade = np.digitize(2 * X[:, 0] - X[:, 1], [-1, 1])
    return X, grade, {**columns, "stars": np.array(["bad", "fair", "good"])[grade].tolist()}


ORDER = ["--order", "bad", "fair", "good"]


def test_ordinal_from_fit_to_info(tmp_path, capsys):
    _, grade, columns = graded()
    data, model = write(tmp_path / "t.csv", columns), tmp_path / "m"
    args = ["fit", data, "--task", "ordinal", "--target", "stars", "--out", model, *ORDER]
    code, text, err = run(capsys, *args)
    assert (code, err) == (0, "")
    for part in ("target stars with 3 classes: bad, fair, good", "5 folds of 72 rows", "mean absolute error",
                 "On 18 held-out rows", "always fair", "euclidean on order_simplex", "within tolerance"):  # fmt: skip
        assert part in text
    code, text, _ = run(capsys, *args, "--overwrite", "--json")
    report = json.loads(text)
    assert report["task"] == "ordinal"
    assert report["cost"] == "absolute"
    assert report["classes"] == ["bad", "fair", "good"]
    assert report["held_out"]["mean_absolute_error"] == pytest.approx(report["held_out"]["mean_cost"])
    assert report["held_out"]["mean_cost"] < report["held_out"]["baseline"]["mean_cost"]
    assert report["alpha"]["chosen_by"] == "cross-validation"
    assert len(report["alpha"]["grid"]) == 11

    loaded = fenchel.load(model)
    X = TableEncoder().fit_transform(read_table(data).drop(["stars"]))
    ours = fenchel.OrdinalClassifier(alpha=report["alpha"]["value"], random_state=0).fit(X, grade)
    np.testing.assert_array_equal(loaded.estimator.weights_, ours.weights_)
    code, text, _ = run(capsys, "predict", model, data, "--proba")
    header, rows = table_of(text)
    assert header == ["prediction", "p(bad)", "p(fair)", "p(good)"]
    names = np.array(ORDER[1:])
    assert [row[0] for row in rows] == names[ours.predict(X)].tolist()
    proba = np.array([row[1:] for row in rows], dtype=float)
    np.testing.assert_array_equal(proba, ours.predict_proba(X))
    assert "-0.0" not in text
    code, text, _ = run(capsys, "evaluate", model, data, "--json")
    assert json.loads(text)["mean_absolute_error"] == pytest.approx(np.abs(ours.predict(X) - grade).mean())
    code, text, _ = run(capsys, "evaluate", model, data)
    assert re.search(r"mean absolute error +0\.\d{4} ± 0\.\d{4}", text)
    code, text, _ = run(capsys, "info", model)
    assert re.search(r"held out +mean absolute error 0\.\d+, accuracy 0\.\d+", text)
    assert re.search(r"classes +bad, fair, good", text)
    code, text, _ = run(capsys, "info", model, "--json")
    assert json.loads(text)["held_out"]["accuracy"] == report["held_out"]["accuracy"]


def test_grades_without_an_order_are_noted(tmp_path, capsys):
    data = write(tmp_path / "t.csv", graded()[2])
    args = ["fit", data, "--task", "ordinal", "--target", "stars", "--out", tmp_path / "m", "--alpha", "0.1"]
    assert "grades are taken in alphabetical order, bad, fair, good" in run(capsys, *args)[1]


@pytest.mark.parametrize(("cost", "projection"), [("zero_one", "order_simplex"), ("squared", "order_simplex"),
                                                  ("absolute", "cube"), ("absolute", "reals")])  # fmt: skip
def test_ordinal_options(tmp_path, capsys, cost, projection):
    data, model = write(tmp_path / "t.csv", graded()[2]), tmp_path / "m"
    args = ["--task", "ordinal", "--target", "stars", *ORDER, "--alpha", "0.01", "--cost", cost]
    code, text, err = run(capsys, "fit", data, *args, "--projection", projection, "--out", model)
    assert code == 0, err
    assert f"euclidean on {projection}" in text
    assert run(capsys, "evaluate", model, data)[0] == 0
    if projection != "order_simplex":
        assert "--proba needs a model fitted with --projection order_simplex" in fails(
            capsys, "predict", model, data, "--proba"
        )


def test_options_that_do_not_go_together_are_named(tmp_path, capsys):
    data = write(tmp_path / "t.csv", graded()[2])
    err = fails(
        capsys, "fit", data, "--task", "ordinal", "--target", "stars", *ORDER, "--out", tmp_path / "m", "--cost",
        "zero_one", "--projection", "cube"
    )  # fmt: skip
    assert "--regularizer euclidean, --projection cube and --cost zero_one do not go together" in err
    assert not (tmp_path / "m").exists()


# -- label sets --------------------------------------------------------------------------------------------------------

LABELS = ["happy", "sad", "calm", "loud"]


def labelled(seed=0):
    X, columns = inputs(seed=seed)
    W = np.random.default_rng(9).normal(size=(3, 4))
    Y = (X @ W > 0.4).astype(int)
    return X, Y, {**columns, **{name: Y[:, j].tolist() for j, name in enumerate(LABELS)}}


def fit_labels(capsys, data, model, *args):
    code, text, err = run(
        capsys, "fit", data, "--task", "multilabel", "--out", model, "--alpha", "0.01", "--overwrite", *args
    )
    assert code == 0, err
    return text


def test_multilabel_from_fit_to_info(tmp_path, capsys):
    _, Y, columns = labelled()
    data, model = write(tmp_path / "t.csv", columns), tmp_path / "m"
    args = ["fit", data, "--task", "multilabel", "--targets", *LABELS, "--out", model]
    code, text, err = run(capsys, *args)
    assert (code, err) == (0, "")
    for part in ("4 labels, ", " a row: happy, sad, calm, loud", "5 folds of 72 rows", "Hamming loss", "F1 (samples)",
                 "exact match", "euclidean on budget"):  # fmt: skip
        assert part in text
    code, text, _ = run(capsys, *args, "--json", "--overwrite")
    report = json.loads(text)
    assert report["target"] == report["labels"] == LABELS
    assert report["label_rows"] == Y.sum(axis=0).tolist()
    assert report["held_out"]["mean_cost"] < report["held_out"]["baseline"]["mean_cost"]
    X = TableEncoder().fit_transform(read_table(data).drop(LABELS))
    ours = fenchel.MultilabelClassifier(alpha=report["alpha"]["value"], random_state=0).fit(X, Y)
    np.testing.assert_array_equal(fenchel.load(model).estimator.weights_, ours.weights_)

    code, text, _ = run(capsys, "predict", model, data)
    header, rows = table_of(text)
    assert header == LABELS
    predicted = np.array(rows, dtype=int)
    np.testing.assert_array_equal(predicted, ours.predict(X))
    code, text, _ = run(capsys, "predict", model, data, "--proba")
    header, rows = table_of(text)
    assert header[4:] == [f"p({name})" for name in LABELS]
    np.testing.assert_array_equal(np.array(rows, dtype=float)[:, 4:], ours.predict_marginals(X))
    code, text, _ = run(capsys, "evaluate", model, data, "--json")
    scores = json.loads(text)
    assert scores["mean_cost"] == pytest.approx(hamming_loss(Y, predicted))
    assert scores["f1"] == pytest.approx(f1_score(Y, predicted, average="samples", zero_division=1))
    assert scores["exact_match"] == pytest.approx((predicted == Y).all(axis=1).mean())
    assert "4 labels: happy, sad" in run(capsys, "evaluate", model, data)[1]
    code, text, _ = run(capsys, "info", model)
    assert re.search(rf"high +{ours.high_}\n", text)
    assert re.search(r"held out Hamming loss 0\.\d+, F1 \(samples\) 0\.\d+, exact match 0\.\d+", " ".join(text.split()))


def test_every_kind_of_file_gives_the_same_model(tmp_path, capsys):
    X, Y, columns = labelled()
    files = {"csv": (write(tmp_path / "t.csv", columns), ["--targets", *LABELS])}
    head = "".join(f"@attribute {name} {{0,1}}\n" for name in LABELS) + "".join(
        f"@attribute x{j + 1} numeric\n" for j in range(3)
    )
    rows = [[*map(str, y), *map(repr, x)] for x, y in zip(X.tolist(), Y.tolist(), strict=True)]
    dense = "\n".join(map(",".join, rows))
    sparse = "\n".join("{" + ", ".join(f"{j} {v}" for j, v in enumerate(row) if v != "0") + "}" for row in rows)
    for name, relation, body in (("mulan", "songs", dense), ("meka", "'songs: -C 4'", dense), ("s", "s", sparse)):
        path = tmp_path / f"{name}.arff"
        path.write_text(f"@relation {relation}\n{head}@data\n{body}\n")
        files[name] = (path, ["--targets", *LABELS])
    files["meka"] = (files["meka"][0], [])
    xml = "<labels>" + "".join(f'<label name="{name}"></label>' for name in LABELS) + "</labels>"
    (tmp_path / "labels.xml").write_text(xml)
    files["mulan"] = (files["mulan"][0], ["--targets-from", tmp_path / "labels.xml"])
    dump_svmlight_file(X, Y, str(tmp_path / "t.svm"), multilabel=True, zero_based=False)
    (tmp_path / "t.svm.gz").write_bytes(gzip.compress((tmp_path / "t.svm").read_bytes(), mtime=0))
    files["svm"], files["svm.gz"] = (tmp_path / "t.svm", []), (tmp_path / "t.svm.gz", [])
    written = {}
    for name, (path, args) in files.items():
        fit_labels(capsys, path, tmp_path / "m", *args)
        code, text, err = run(capsys, "predict", tmp_path / "m", path, "--proba")
        assert (code, err) == (0, "")
        header, lines = table_of(text)
        assert header[:4] == ([f"label{j}" for j in range(4)] if "svm" in name else LABELS)
        written[name] = np.array(lines, dtype=float)
        assert run(capsys, "evaluate", tmp_path / "m", path)[0] == 0
    for name, numbers in written.items():
        np.testing.assert_allclose(numbers, written["csv"], atol=1e-12, err_msg=name)


def test_svmlight_files_that_do_not_mention_all(tmp_path, capsys):
    """New files may lack the last features and labels, or have others."""
    X, Y, _ = labelled()
    X[0, 2] = 0
    path, new, model = tmp_path / "t.svm", tmp_path / "new.svm", tmp_path / "m"
    dump_svmlight_file(X, Y, str(path), multilabel=True, zero_based=False)
    fit_labels(capsys, path, model)
    new.write_text(f"1 1:{X[0, 0]} 2:{X[0, 1]}\n")
    code, text, _ = run(capsys, "predict", model, new, "--proba")
    assert code == 0
    alone, among = (
        np.array(table_of(t)[1][0], dtype=float) for t in (text, run(capsys, "predict", model, path, "--proba")[1])
    )
    np.testing.assert_allclose(alone, among, atol=1e-12)
    code, text, err = run(capsys, "evaluate", model, new, "--json")
    assert (code, err) == (0, "")
    assert json.loads(text)["rows"] == 1
    new.write_text("1,7 1:0.5 9:1\n")
    code, text, err = run(capsys, "evaluate", model, new)
    assert code == 0
    assert "labels that the model does not know and that are not scored: label7" in err


def test_labels_of_svmlight_are_no_features_and_no_classes(tmp_path, capsys):
    X, Y, _ = labelled()
    path, model = tmp_path / "t.svm", tmp_path / "m"
    dump_svmlight_file(X, Y, str(path), multilabel=True, zero_based=False)
    text = fit_labels(capsys, path, model, "--targets", "label2")
    assert "3 columns to learn from, 1 label, " in text
    assert fenchel.load(model).encoder.feature_names_in_.tolist() == ["x1", "x2", "x3"]
    for task in ("classify", "ordinal"):
        err = fails(capsys, "fit", path, "--task", task, "--target", "label", "--out", tmp_path / "n")
        assert re.search(r"line \d+: the label is '\d,\d[\d,]*', a set of labels; use --task multilabel", err)


def test_sparse_files_train_on_sparse_features(tmp_path, capsys):
    rng = np.random.default_rng(0)
    X = (rng.random((80, 200)) < 0.03) * rng.integers(1, 4, size=(80, 200))
    X[:, :2] = rng.integers(0, 2, size=(80, 2))
    path, model = tmp_path / "t.svm", tmp_path / "m"
    dump_svmlight_file(X, X[:, :2], str(path), multilabel=True, zero_based=False)
    fit_labels(capsys, path, model)
    encoder = fenchel.load(model).encoder
    assert encoder.sparse_.all()
    assert json.loads(run(capsys, "evaluate", model, path, "--json")[1])["mean_cost"] < 0.05


@pytest.mark.parametrize("options", [["--projection", "cube", "--regularizer", "gibbs"], ["--low", "1", "--high", "2"],
                                     ["--projection", "reals"], ["--projection", "nonnegative", "--regularizer", "kl"],
                                     ["--targets-prefix", "l_"]])  # fmt: skip
def test_multilabel_options(tmp_path, capsys, options):
    _, _, columns = labelled()
    columns = {(f"l_{name}" if name in LABELS else name): column for name, column in columns.items()}
    data, model = write(tmp_path / "t.csv", columns), tmp_path / "m"
    targets = [] if "--targets-prefix" in options else ["--targets", *(f"l_{name}" for name in LABELS)]
    fit_labels(capsys, data, model, *targets, *options)
    counts = np.array(table_of(run(capsys, "predict", model, data)[1])[1], dtype=int).sum(axis=1)
    if "--low" in options:
        assert set(counts) == {1, 2}
    if "reals" in options:
        assert "--proba needs a model fitted with --projection budget or cube" in fails(
            capsys, "predict", model, data, "--proba"
        )


def test_words_that_mean_yes_and_no_and_weights(tmp_path, capsys):
    _, Y, columns = labelled()
    columns["happy"] = np.array(["FALSE", "true"])[Y[:, 0]].tolist()
    columns["w"] = [1, 2, 3] * 30
    data = write(tmp_path / "t.csv", columns)
    fit_labels(capsys, data, tmp_path / "m", "--targets", "happy", "sad", "--drop", "calm", "loud", "--weight", "w")
    code, text, _ = run(capsys, "evaluate", tmp_path / "m", data, "--weight", "w", "--json")
    assert code == 0
    assert 0 <= json.loads(text)["mean_cost"] < 0.3


@pytest.mark.parametrize(
    ("change", "args", "message"),
    [
        ({}, [], "needs --targets COL COL ..., --targets-prefix PREFIX or --targets-from FILE"),
        ({}, ["--targets", "happy", "happy"], "--targets names 'happy' twice"),
        ({}, ["--targets", "happy", "sat"], "has no column 'sat', .*did you mean 'sad'"),
        ({}, ["--targets-prefix", "mood"], "has no column whose name begins with 'mood'"),
        ({}, ["--targets-from", "none.txt"], "there is no file 'none.txt'"),
        ({}, ["--targets", *LABELS, "--drop", "sad"], "--drop names the target 'sad'"),
        ({}, ["--targets", *LABELS, "--weight", "sad"], "--weight names the target 'sad'"),
        ({}, ["--targets", *LABELS, "x1", "x2", "x3"], "no column left to learn from"),
        ({"sad": [2, *[0] * 89]}, ["--targets", *LABELS], "line 2: the label 'sad' is 2, expected 0 or 1"),
        ({"sad": ["", *[0] * 89]}, ["--targets", *LABELS], "line 2: the target 'sad' is missing"),
        ({"sad": ["maybe", *["no"] * 89]}, ["--targets", *LABELS], "line 2: the label 'sad' is maybe, expected 0 or 1"),
        ({"happy": [0] * 90, "sad": [1] * 90}, ["--targets", "happy", "sad"], "no label differs between rows"),
        ({}, ["--targets", *LABELS, "--high", "9"], "high is 9, expected low <= high <= 4"),
        ({}, ["--targets", *LABELS, "--regularizer", "kl", "--projection", "reals"], "do not go together: .*NonNeg"),
    ],
)
def test_what_multilabel_refuses(tmp_path, capsys, change, args, message):
    data = write(tmp_path / "t.csv", {**labelled()[2], **change})
    err = fails(capsys, "fit", data, "--task", "multilabel", "--out", tmp_path / "m", *args)
    assert re.search(message, err), err
    assert not (tmp_path / "m").exists()


def test_labels_that_no_row_or_all_rows_have_are_noted(tmp_path, capsys):
    data = write(tmp_path / "t.csv", {**labelled()[2], "happy": [0] * 90, "sad": [1] * 90})
    text = fit_labels(capsys, data, tmp_path / "m", "--targets", *LABELS)
    assert "no row has the label happy" in text
    assert "all rows have the label sad" in text


def test_label_columns_that_are_not_there_to_evaluate(tmp_path, capsys):
    columns = labelled()[2]
    data, model = write(tmp_path / "t.csv", columns), tmp_path / "m"
    fit_labels(capsys, data, model, "--targets", *LABELS)
    columns["Happy"] = columns.pop("happy")
    other = write(tmp_path / "o.csv", columns)
    assert "lacks the column 'happy', " in fails(capsys, "evaluate", model, other)
    assert "did you mean 'Happy'?" in fails(capsys, "evaluate", model, other)
    assert run(capsys, "predict", model, other)[0] == 0


# -- rankings ----------------------------------------------------------------------------------------------------------


def ranked(seed=0):
    X, columns = inputs(seed=seed)
    scores = X @ np.random.default_rng(5).normal(size=(3, 3))
    drinks = np.array(["tea", "coffee", "water"])
    texts = [" > ".join(drinks[np.argsort(-row)]) for row in scores]
    return X, texts, {**columns, "ranking": texts}


def fit_rankings(capsys, data, model, *args):
    code, text, err = run(
        capsys, "fit", data, "--task", "rank", "--target", "ranking", "--out", model, "--alpha", "0.01", "--overwrite",
        *args
    )  # fmt: skip
    assert code == 0, err
    return text


def test_rank_from_fit_to_info(tmp_path, capsys):
    _, texts, columns = ranked()
    data, model = write(tmp_path / "t.csv", columns), tmp_path / "m"
    args = ["fit", data, "--task", "rank", "--target", "ranking", "--out", model]
    code, text, err = run(capsys, *args)
    assert (code, err) == (0, "")
    for part in ("target ranking ranks 3 labels: coffee, tea, water", "labels at a wrong rank", "Kendall tau",
                 "5 folds of 72 rows", "euclidean on birkhoff"):  # fmt: skip
        assert part in text
    code, text, _ = run(capsys, *args, "--json", "--overwrite")
    report = json.loads(text)
    assert report["labels"] == ["coffee", "tea", "water"]
    assert sum(report["mean_ranks"]) == pytest.approx(6)
    assert report["held_out"]["mean_cost"] < report["held_out"]["baseline"]["mean_cost"]
    X = TableEncoder().fit_transform(read_table(data).drop(["ranking"]))
    ours = fenchel.LabelRanker(alpha=report["alpha"]["value"], random_state=0).fit(X, texts)
    np.testing.assert_array_equal(fenchel.load(model).estimator.weights_, ours.weights_)
    code, text, _ = run(capsys, "predict", model, data)
    assert text.splitlines() == ["prediction", *ours.predict(X)]

    truth = [text.split(" > ") for text in texts]
    order = [text.split(">") for text in ours.predict(X)]
    code, text, _ = run(capsys, "evaluate", model, data, "--json")
    scores = json.loads(text)
    assert scores["mean_cost"] == pytest.approx(np.mean([[a != b for a, b in zip(*p, strict=True)]
                                                         for p in zip(truth, order, strict=True)]))  # fmt: skip
    taus = [kendalltau([t.index(x) for x in t], [o.index(x) for x in t])[0] for t, o in zip(truth, order, strict=True)]
    assert scores["kendall_tau"] == pytest.approx(np.mean(taus))
    assert "Kendall tau" in run(capsys, "evaluate", model, data)[1]
    assert re.search(r"held out +labels at a wrong rank 0\.\d+, Kendall tau 0\.\d+", run(capsys, "info", model)[1])
    assert "--proba is not for rankings" in fails(capsys, "predict", model, data, "--proba")


@pytest.mark.parametrize(
    "options",
    [
        ["--projection", "row_stochastic"],
        ["--projection", "cube"],
        ["--projection", "reals"],
        ["--projection", "permutahedron", "--cost", "disagreements"],
        ["--projection", "linear_ordering"],
        ["--projection", "birkhoff", "--regularizer", "kl"],
    ],
)
def test_rank_options(tmp_path, capsys, options):
    data, model = write(tmp_path / "t.csv", ranked()[2]), tmp_path / "m"
    text = fit_rankings(capsys, data, model, *options)
    by_pairs = "disagreements" in options or "linear_ordering" in options
    assert ("pairs in the wrong order" if by_pairs else "labels at a wrong rank") in text
    scores = json.loads(run(capsys, "evaluate", model, data, "--json")[1])
    assert scores["mean_cost"] < 0.3
    if by_pairs:
        assert scores["kendall_tau"] == pytest.approx(1 - 2 * scores["mean_cost"])


def test_rankings_in_arff_and_svmlight(tmp_path, capsys):
    X, texts, columns = ranked()
    csv_file, model = write(tmp_path / "t.csv", columns), tmp_path / "m"
    head = "".join(f"@attribute x{j + 1} numeric\n" for j in range(3)) + "@attribute ranking string\n@data\n"
    rows = "".join(",".join(map(repr, x)) + f",'{t}'\n" for x, t in zip(X.tolist(), texts, strict=True))
    (tmp_path / "t.arff").write_text("@relation r\n" + head + rows)
    lines = [
        t.replace(" ", "") + "".join(f" {j + 1}:{v!r}" for j, v in enumerate(x))
        for x, t in zip(X.tolist(), texts, strict=True)
    ]
    (tmp_path / "t.svm").write_text("\n".join(lines))
    predicted = []
    for path, target in ((csv_file, "ranking"), (tmp_path / "t.arff", "ranking"), (tmp_path / "t.svm", "label")):
        fit_rankings(capsys, path, model, "--target", target)
        assert run(capsys, "evaluate", model, path)[0] == 0
        predicted.append(run(capsys, "predict", model, path)[1])
    assert predicted[0] == predicted[1] == predicted[2]


@pytest.mark.parametrize(
    ("ranking", "args", "message"),
    [
        (["a>b"] * 89 + ["a>c"], [], "line 91: the target 'ranking' is 'a>c', which does not rank each of a, b once"),
        (["a>c"] + ["a>b"] * 89, [], "line 2: the target 'ranking' is 'a>c', which does not rank each of a, b once"),
        (["a>b>a"] + ["a>b"] * 89, [], "line 2: .*'a>b>a'.*ties and incomplete rankings are not supported"),
        (["a>b"] * 89 + ["a=b"], [], "line 91: .*'a=b'"),
        (["a>b"] * 89 + [""], [], "line 91: the target 'ranking' is missing"),
        (["a>b"] * 90, [], "is always 'a>b'; nothing to learn"),
        (["a"] * 90, [], "line 2: the target 'ranking' is 'a', expected a ranking such as a>b>c"),
        ([1.5] * 90, [], "the target 'ranking' holds numbers, expected rankings such as a>b>c"),
        (["a>b", "b>a"] * 45, ["--cost", "disagreements"], "--projection birkhoff and --cost disagreements do not go"),
        (["a>b", "b>a"] * 45, ["--target", "rank"], "has no column 'rank', .*did you mean 'ranking'"),
    ],
)
def test_what_rank_refuses(tmp_path, capsys, ranking, args, message):
    data = write(tmp_path / "t.csv", {**inputs()[1], "ranking": ranking})
    err = fails(
        capsys, "fit", data, "--task", "rank", "--target", "ranking", "--out", tmp_path / "m", "--alpha", "1", *args
    )
    assert re.search(message, err), err


def test_evaluating_rankings_of_other_labels(tmp_path, capsys):
    _, texts, columns = ranked()
    data, model = write(tmp_path / "t.csv", columns), tmp_path / "m"
    fit_rankings(capsys, data, model)
    other = write(tmp_path / "o.csv", {**columns, "ranking": ["tea>juice>water", *texts[1:]]})
    assert "line 2: the target 'ranking' is 'tea>juice>water', which does not rank each of coffee, tea, water" in fails(
        capsys, "evaluate", model, other
    )


# -- classes -----------------------------------------------------------------------------------------------------------


def test_classes_in_arff_and_svmlight(tmp_path, capsys):
    X, grade, _ = graded()
    head = "".join(f"@attribute x{j + 1} real\n" for j in range(3)) + "@attribute class {1,2,3}\n@data\n"
    rows = "".join(",".join(map(repr, x)) + f",{g + 1}\n" for x, g in zip(X.tolist(), grade.tolist(), strict=True))
    (tmp_path / "t.arff").write_text("@relation r\n" + head + rows)
    dump_svmlight_file(X, grade + 1, str(tmp_path / "t.svm"), zero_based=False)
    answers = []
    for name, target in (("t.arff", "class"), ("t.svm", "label")):
        args = ["--target", target, "--out", tmp_path / "m", "--alpha", "0.01", "--overwrite", "--json"]
        code, text, err = run(capsys, "fit", tmp_path / name, *args)
        assert code == 0, err
        assert json.loads(text)["classes"] == [1, 2, 3]
        code, text, _ = run(capsys, "evaluate", tmp_path / "m", tmp_path / name, "--json")
        assert json.loads(text)["accuracy"] > 0.8
        answers.append(run(capsys, "predict", tmp_path / "m", tmp_path / name)[1])
    assert answers[0] == answers[1]
    unlabelled = tmp_path / "u.svm"
    unlabelled.write_text("1:0.5\n 2:1\n")
    code, text, _ = run(capsys, "predict", tmp_path / "m", unlabelled)
    assert len(text.splitlines()) == 3
    assert "line 1: the target 'label' is missing" in fails(capsys, "evaluate", tmp_path / "m", unlabelled)
    assert "lacks the columns 'x1', 'x2', 'x3'" in fails(
        capsys, "predict", tmp_path / "m", write(tmp_path / "n.csv", {"a": [1]})
    )


# -- usage -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--task", "rank"], "required: --target\ntry: fenchel fit --task rank --help"),
        (["--task", "ordinal"], "required: --target"),
        (["--task", "multilabel", "--target", "y"], "unrecognized arguments: --target y"),
        (["--task", "multilabel", "--targets", "a", "--targets-prefix", "b"], "not allowed with argument"),
        (
            ["--task", "multilabel", "--targets", "a", "--high", "many"],
            "'many' is not a whole number from 0 on, or auto",
        ),
        (["--task", "rank", "--target", "y", "--regularizer", "gibbs"], "invalid choice: 'gibbs'"),
        (["--task", "rank", "--target", "y", "--order", "a"], "unrecognized arguments: --order a"),
    ],
)
def test_wrong_usage(capsys, argv, message):
    err = fails(capsys, "fit", "d.csv", "--out", "m", *argv, code=2)
    assert message in err
    assert err.startswith("fenchel: error: ")


def test_data_swallowed_by_an_option_is_explained(capsys):
    err = fails(capsys, "fit", "--task", "multilabel", "--out", "m", "--targets", "a", "b", "d.csv", code=2)
    assert "required: DATA (give it first: an option of several values takes all that follow it)" in err


@pytest.mark.parametrize("task", TASKS)
def test_help_has_the_options_of_the_task(capsys, task):
    code, text, _ = run(capsys, "fit", "--task", task, "--help")
    assert code == 0
    assert f"options of --task {task}" in text
    assert ("--targets-from" in text) == (task == "multilabel")
    others = [name for name in TASKS if name != task]
    assert f"fenchel fit --task {'|'.join(others)} --help" in text
    assert max(map(len, text.splitlines())) <= 110


# -- any output --------------------------------------------------------------------------------------------------------


def any_outputs():
    X, columns = inputs(n=60)
    rng = np.random.default_rng(1)
    price = X[:, 0] + 0.1 * rng.normal(size=60) + np.where(rng.random(60) < 0.1, 30.0, 0.0)
    parts = np.exp(X) / np.exp(X).sum(axis=1, keepdims=True)
    word = np.where(X[:, 0] > 0.3, "upper", np.where(X[:, 0] > -0.3, "middle", "lower"))
    ratings = [["" if rng.random() < 0.2 else str(int(v)) for v in row] for row in np.clip(np.round(3 + X), 1, 5)]
    columns |= {"price": price.tolist(), "word": word.tolist()}
    columns |= {f"p{j}": parts[:, j].tolist() for j in range(3)}
    return X, columns | {f"r{j}": [row[j] for row in ratings] for j in range(3)}


NOT_INPUTS = ["--drop", "price", "word", "p0", "p1", "p2", "r0", "r1", "r2"]


def drop_but(*names):
    return ["--drop", *(name for name in NOT_INPUTS[1:] if name not in names)]


@pytest.mark.parametrize(
    ("cost", "targets", "answers"),
    [
        ("cauchy", ["price"], "Line"),
        ("edit_distance", ["word"], "Candidates"),
        ("hellinger", ["p0", "p1", "p2"], "Histogram"),
        ("rated_pairs", ["r0", "r1", "r2"], "Ranking"),
    ],
)
def test_any_from_fit_to_info(tmp_path, capsys, cost, targets, answers):
    _, table = any_outputs()
    data, model = write(tmp_path / "t.csv", table), tmp_path / "m"
    option = ["--target", *targets] if len(targets) == 1 else ["--targets", *targets]
    args = ["fit", data, "--task", "any", *option, "--cost", cost, "--out", model, *drop_but(*targets)]
    code, text, err = run(capsys, *args)
    assert (code, err) == (0, "")
    for part in ("Leaving one row out", "<- chosen", "On 12 held-out rows", "always", answers, f"mean cost ({cost})"):
        assert part in text
    code, text, _ = run(capsys, *args, "--overwrite", "--json", "--gamma", "0.3")
    report = json.loads(text)
    assert report["held_out"]["mean_cost"] < report["held_out"]["baseline"]["mean_cost"]
    assert report["alpha"]["value"] in [point["alpha"] for point in report["alpha"]["grid"]]
    code, text, _ = run(capsys, "predict", model, data)
    header, rows = table_of(text)
    assert code == 0
    assert header == (["prediction"] if len(targets) == 1 else targets)
    assert len(rows) == 60
    estimator = fenchel.load(model)
    assert [len(row) for row in rows] == [len(targets)] * 60
    if cost == "cauchy":
        table = read_table(data)
        np.testing.assert_allclose([float(row[0]) for row in rows], estimator.predict(table), rtol=1e-12)
    code, text, _ = run(capsys, "evaluate", model, data, "--json")
    assert code == 0
    assert json.loads(text)["cost"] == cost
    code, text, _ = run(capsys, "info", model)
    assert code == 0
    assert answers in text


def test_costs_of_any_take_their_parameters(tmp_path, capsys):
    _, table = any_outputs()
    table |= {f"p{j}": np.round(table[f"p{j}"], 3).tolist() for j in range(3)}  # as files have them
    data, model = write(tmp_path / "t.csv", table), tmp_path / "m"
    base = ["fit", data, "--task", "any", "--out", model, "--overwrite", "--alpha", "0.01", "--targets"]
    for more, check in (
        (["p0", "p1", "p2", "--cost", "hellinger", "--cost-params", "squared=false"], lambda c: c.squared is False),
        (["p0", "p1", "p2", "--cost", "kernel", "--cost-params", "gamma=2"], lambda c: c.params == {"gamma": 2.0}),
    ):
        code, text, err = run(capsys, *base, *more, *drop_but("p0", "p1", "p2"))
        assert (code, err) == (0, "")
        assert check(fenchel.load(model).estimator.cost_)
        assert ("Histogram" in text) == ("hellinger" in more)
    code, text, _ = run(capsys, *base, "p0", "p1", "--cost", "hellinger", *drop_but("p0", "p1"))
    assert code == 0
    assert "not all rows of targets sum to 1" in text
    assert run(capsys, *base, "p0", "p1", "--cost", "hellinger", "--cost-params", "squared=no")[0] == 2


def test_what_any_refuses(tmp_path, capsys):
    _, table = any_outputs()
    data, model = write(tmp_path / "t.csv", table), tmp_path / "m"
    base = ["fit", data, "--task", "any", "--out", model]
    for more, words in (
        (["--target", "word", "--cost", "cauchy"], "but --cost cauchy needs numbers"),
        (["--target", "price", "--cost", "edit_distance"], "needs texts"),
        (
            ["--target", "price", "--cost", "pinball", "--cost-params", "scale=2"],
            "has no parameter 'scale'; it takes quantile",
        ),
        (["--target", "price", "--cost", "squared", "--cost-params", "a=2"], "it takes no parameters"),
        (["--target", "price", "--cost", "pinball", "--cost-params", "quantile=2"], "between 0 and 1"),
        (["--targets", "price", "price"], "names 'price' twice"),
        (["--target", "price", "--answers", "ranking"], "--cost squared does not fit"),
        (["--targets", "r0", "r1", "--cost", "squared"], "the target 'r0' is missing"),
    ):
        code, _, err = run(capsys, *base, *more)
        assert code == 1
        assert words in err
