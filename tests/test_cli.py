"""The command line: what it prints, what it saves, and every way it can fail."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
import sys
import time
import types
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine

import fenchel
from fenchel._core import registry
from fenchel.cli import fitting
from fenchel.cli.console import columns, duration, number, size, to_json
from fenchel.cli.main import main
from fenchel.cli.model import TableModel
from fenchel.cli.progress import Progress
from fenchel.data import Table, TableEncoder, read_table
from fenchel.errors import ConvergenceWarning, MissingDependency
from fenchel.losses import FenchelYoung


def write(path: Path, table: dict) -> Path:
    with path.open("w", newline="") as stream:
        out = csv.writer(stream)
        out.writerow(table)
        out.writerows(zip(*table.values(), strict=True))
    return path


def iris_columns() -> dict:
    data = load_iris()
    names = ["sepal length", "sepal width", "petal length", "petal width"]
    return {**dict(zip(names, data.data.T.tolist(), strict=True)), "species": data.target_names[data.target].tolist()}


@pytest.fixture
def iris(tmp_path):
    return write(tmp_path / "iris.csv", iris_columns())


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A model fitted once for the tests that only use it."""
    folder = tmp_path_factory.mktemp("fitted")
    data = write(folder / "iris.csv", iris_columns())
    model = folder / "iris.fenchel"
    assert main(["fit", str(data), "--target", "species", "--out", str(model), "--alpha", "0.01", "--quiet"]) == 0
    return data, model


def run(capsys, *argv) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main([str(argument) for argument in argv])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def fails(capsys, *argv, code: int = 1) -> str:
    """The one-line error of a command that must fail."""
    got, out, err = run(capsys, *argv)
    assert got == code, err
    assert out == ""
    if code == 1:
        assert err.startswith("fenchel: error: ")
        assert err.count("\n") == 1
        assert "Traceback" not in err
        assert "should not happen" not in err
    return err


# -- fit ---------------------------------------------------------------------------------------------------------------


def test_fit_prints_a_summary(iris, tmp_path, capsys):
    out = tmp_path / "m.fenchel"
    code, text, err = run(capsys, "fit", iris, "--target", "species", "--out", out)
    assert code == 0
    assert err == ""
    for part in ("150 rows, 4 columns", "3 classes: setosa, versicolor, virginica", "5 folds of 120 rows", "<- chosen",
                 "On 30 held-out rows", "always setosa", "trained on all 150 rows", "duality gap", "within tolerance",
                 f"Saved {out}"):  # fmt: skip
        assert part in text
    assert max(map(len, text.replace(str(iris), "").replace(str(out), "").splitlines())) <= 100


def test_fit_as_json(iris, tmp_path, capsys):
    out = tmp_path / "m.fenchel"
    code, text, _ = run(capsys, "fit", iris, "--target", "species", "--out", out, "--json", "--cost", "zero_one")
    report = json.loads(text)
    assert code == 0
    assert report["command"] == "fit"
    assert report["rows"] == report["final"]["rows"] == 150
    assert report["classes"] == ["setosa", "versicolor", "virginica"]
    assert report["class_rows"] == [50, 50, 50]
    assert report["alpha"]["chosen_by"] == "cross-validation"
    assert [point["alpha"] for point in report["alpha"]["grid"]] == list(fitting.ALPHAS)
    assert report["alpha"]["value"] in fitting.ALPHAS
    held = report["held_out"]
    assert held["rows"] == 30
    assert held["accuracy"] > 0.85
    assert held["mean_cost"] == pytest.approx(1 - held["accuracy"])
    assert held["baseline"]["accuracy"] == pytest.approx(1 / 3)
    assert report["final"]["converged"]
    assert report["final"]["duality_gap"] <= 1e-4 * report["final"]["objective"]
    assert fenchel.load(out).report_["alpha"] == report["alpha"]


def test_the_grid():
    assert fitting.ALPHAS[0] == 1
    assert fitting.ALPHAS[-1] == 1e-5
    assert len(fitting.ALPHAS) == 11
    assert all(np.diff(fitting.ALPHAS) < 0)


def test_quiet_prints_nothing(iris, tmp_path, capsys):
    code, out, err = run(
        capsys, "fit", iris, "--target", "species", "--out", tmp_path / "m", "--quiet", "--alpha", "0.1"
    )
    assert (code, out, err) == (0, "", "")


@pytest.mark.parametrize(
    "options",
    [
        {"regularizer": "euclidean"},
        {"regularizer": "kl"},
        {"regularizer": "gibbs", "projection": "cube"},
        {"regularizer": "euclidean", "projection": "reals"},
        {"regularizer": "kl", "projection": "nonnegative"},
        {"regularizer": "kl", "cost": "absolute"},
    ],
)
def test_the_model_is_the_estimator_on_all_rows(iris, tmp_path, capsys, options):
    flags = [text for name, value in options.items() for text in (f"--{name}", value)]
    out = tmp_path / "m"
    code, _, _ = run(
        capsys, "fit", iris, "--target", "species", "--out", out, "--alpha", "0.02", "--order", "setosa", "versicolor",
        "virginica", *flags
    )  # fmt: skip
    assert code == 0
    table = read_table(iris)
    X = TableEncoder().fit_transform(table.drop(["species"]))
    ours = fenchel.FenchelYoungClassifier(alpha=0.02, random_state=0, **options).fit(X, load_iris().target)
    model = fenchel.load(out)
    assert model.estimator.get_params() == ours.get_params()
    np.testing.assert_array_equal(model.estimator.weights_, ours.weights_)
    code, text, _ = run(capsys, "predict", out, iris)
    assert code == 0
    assert text.splitlines() == ["prediction", *load_iris().target_names[ours.predict(X)]]


def test_a_seed_makes_it_repeatable(iris, tmp_path, capsys):
    def report(seed):
        _, text, _ = run(
            capsys, "fit", iris, "--target", "species", "--out", tmp_path / "m", "--json", "--seed", seed, "--overwrite"
        )
        return {**json.loads(text), "seconds": None}

    assert report(3) == report(3)
    assert report(3)["alpha"]["grid"] != report(4)["alpha"]["grid"]


def test_held_out_scores_are_those_of_a_model_that_has_not_seen_the_rows(iris, tmp_path, capsys):
    _, text, _ = run(
        capsys, "fit", iris, "--target", "species", "--out", tmp_path / "m", "--json", "--alpha", "0.01", "--seed", 5
    )
    y = load_iris().target
    held = fitting.held_out_rows(y, 0.2, np.random.default_rng(5))
    features = read_table(iris).drop(["species"])
    model = TableModel(TableEncoder(), fenchel.FenchelYoungClassifier(alpha=0.01))
    model.fit(features.take(np.flatnonzero(~held)), y[~held])
    accuracy = (model.predict(features.take(np.flatnonzero(held))) == y[held]).mean()
    assert json.loads(text)["held_out"]["accuracy"] == pytest.approx(accuracy)


def test_mixed_columns_missing_values_drop_and_weights(tmp_path, capsys):
    rng = np.random.default_rng(0)
    n = 120
    size = rng.normal(size=n)
    colour = rng.choice(["red", "blue", ""], size=n)
    kind = np.where(size + (colour == "red") > 0, "big", "small")
    table = {
        "id": [f"row {i}" for i in range(n)],
        "size": ["" if i % 10 == 0 else repr(float(x)) for i, x in enumerate(size)],
        "colour": colour.tolist(),
        "flat": [3] * n,
        "w": rng.integers(1, 4, size=n).tolist(),
        "kind": kind.tolist(),
    }
    data, out = write(tmp_path / "t.csv", table), tmp_path / "m"
    err = fails(capsys, "fit", data, "--target", "kind", "--out", out)
    assert "text column 'id' holds 120 different values" in err
    assert "--drop id" in err
    code, text, err = run(
        capsys, "fit", data, "--target", "kind", "--out", out, "--drop", "id", "--weight", "w", "--json"
    )
    assert code == 0, err
    report = json.loads(text)
    assert report["columns"] == ["size", "colour", "flat"]
    assert report["features"] == 5
    assert report["dropped"] == ["id"]
    assert report["weight"] == "w"
    assert report["notes"][0] == "column 'flat' is left out: it is always 3"
    assert report["held_out"]["accuracy"] > 0.7
    read = read_table(data)
    ours = fenchel.FenchelYoungClassifier(alpha=report["alpha"]["value"], random_state=0)
    ours.fit(
        TableEncoder().fit_transform(read.drop(["id", "w", "kind"])), read["kind"] == "small", sample_weight=read["w"]
    )
    np.testing.assert_allclose(fenchel.load(out).estimator.weights_, ours.weights_)
    # Columns that are not needed may be absent, others may be there.
    some = write(tmp_path / "new.csv", {"colour": ["green", "red"], "size": ["", 2], "more": [1, 2], "flat": ["", 4]})
    code, text, _ = run(capsys, "predict", out, some)
    assert code == 0
    assert text.splitlines()[2] == "big"


def test_weights_weigh_the_scores(fitted, tmp_path, capsys):
    _, model = fitted
    table = iris_columns()
    table["w"] = [0.0] * 75 + [2.0] * 75
    weighted = write(tmp_path / "w.csv", table)
    part = write(tmp_path / "p.csv", {name: values[75:] for name, values in table.items()})
    _, a, _ = run(capsys, "evaluate", model, weighted, "--weight", "w", "--json")
    _, b, _ = run(capsys, "evaluate", model, part, "--json")
    a, b = json.loads(a), json.loads(b)
    assert a["accuracy"] == pytest.approx(b["accuracy"])
    assert a["standard_error"] == pytest.approx(b["standard_error"])
    assert a["classes"][2]["precision"] == pytest.approx(b["classes"][2]["precision"])


def test_absolute_cost_and_grades(tmp_path, capsys):
    rng = np.random.default_rng(1)
    x = rng.normal(size=200)
    grade = np.digitize(x + 0.5 * rng.normal(size=200), [-0.5, 0.5])
    data = write(tmp_path / "t.csv", {"x": x.tolist(), "g": np.array(["low", "mid", "top"])[grade].tolist()})
    words = write(tmp_path / "w.csv", {"x": x.tolist(), "g": np.array(["poor", "fair", "good"])[grade].tolist()})
    args = ["--target", "g", "--cost", "absolute", "--alpha", "0.01", "--json", "--overwrite", "--out", tmp_path / "m"]
    code, text, _ = run(capsys, "fit", data, *args)
    assert code == 0
    assert "alphabetical order, low, mid, top" in json.loads(text)["notes"][0]
    right = json.loads(text)["held_out"]
    code, text, _ = run(capsys, "fit", words, *args, "--order", "poor", "fair", "good")
    report = json.loads(text)
    assert report["classes"] == ["poor", "fair", "good"]
    assert report["notes"] == []
    assert report["held_out"]["mean_cost"] == right["mean_cost"]
    assert report["held_out"]["baseline"]["answer"] == "fair"  # the median, whichever class has most rows
    model = fenchel.load(tmp_path / "m")
    truth = model.classes_.tolist().index
    predicted = model.predict(read_table(words))
    expected = np.mean([abs(truth(p) - truth(t)) for p, t in zip(predicted, read_table(words)["g"], strict=True)])
    _, text, _ = run(capsys, "evaluate", tmp_path / "m", words, "--json")
    assert json.loads(text)["mean_cost"] == pytest.approx(expected)
    assert "leaves out 'poor'" in fails(capsys, "fit", words, *args, "--order", "fair", "good")
    assert "names 'bad'" in fails(capsys, "fit", words, *args, "--order", "fair", "good", "poor", "bad")
    assert "names 'fair' twice" in fails(capsys, "fit", words, *args, "--order", "fair", "fair")


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (["10", "9", "9", "10"], [9, 10]),
        (["0.5", "1", "10.5", "1"], [0.5, 1.0, 10.5]),
        (["b", "a1", "a1", "b"], ["a1", "b"]),
        (["-1.0", "1.0", "1.0", "-1.0"], [-1, 1]),
    ],
)
def test_labels_are_numbers_where_they_are(tmp_path, capsys, labels, classes):
    labels = labels * 10
    data = write(tmp_path / "t.csv", {"x": [hash(v) % 7 + 0.1 * i for i, v in enumerate(labels)], "y": labels})
    out = tmp_path / "m"
    code, text, _ = run(capsys, "fit", data, "--target", "y", "--out", out, "--alpha", "0.1", "--json")
    assert code == 0
    assert json.loads(text)["classes"] == classes
    assert [type(c) for c in fenchel.load(out).classes_.tolist()] == [type(c) for c in classes]
    code, text, _ = run(capsys, "evaluate", out, data, "--json")
    assert code == 0
    assert sum(line["rows"] for line in json.loads(text)["classes"]) == 40


def test_small_classes(tmp_path, capsys):
    rng = np.random.default_rng(0)
    y = ["a"] * 20 + ["b"] * 2 + ["c"]
    data = write(tmp_path / "t.csv", {"x": rng.normal(size=23).tolist(), "y": y})
    code, text, err = run(capsys, "fit", data, "--target", "y", "--out", tmp_path / "m", "--json")
    assert code == 0, err
    report = json.loads(text)
    assert "only one row has the class c: it cannot be held out" in report["notes"]
    assert report["held_out"]["classes"][2]["rows"] == 0
    assert report["held_out"]["classes"][2]["recall"] is None
    tiny = write(tmp_path / "tiny.csv", {"x": [1, 2], "y": ["a", "b"]})
    code, text, _ = run(capsys, "fit", tiny, "--target", "y", "--out", tmp_path / "m2", "--json")
    assert code == 0
    report = json.loads(text)
    assert report["held_out"] is None
    assert report["alpha"]["chosen_by"] == "default"
    code, text, _ = run(capsys, "fit", tiny, "--target", "y", "--out", tmp_path / "m3", "--test-share", "0")
    assert code == 0
    assert "held-out rows" not in text


def test_split_and_folds_are_stratified():
    rng = np.random.default_rng(0)
    for _ in range(50):
        codes = np.repeat(np.arange(6), rng.integers(1, 30, size=6))
        rng.shuffle(codes)
        share = float(rng.uniform(0, 0.6))
        held = fitting.held_out_rows(codes, share, rng)
        counts, taken = np.bincount(codes), np.bincount(codes[held], minlength=6)
        assert (taken < counts).all()
        assert (np.abs(taken - share * counts) < 1 + 1e-9).all()
        assert abs(held.sum() - share * len(codes)) <= 6
        folds = fitting.fold_numbers(codes, 5, rng)
        for part in (folds, *(folds[codes == c] for c in range(6))):
            sizes = np.bincount(part, minlength=5)
            assert np.ptp(sizes) <= 1


def test_the_end_of_the_grid_and_unconverged_folds_are_noted(tmp_path, capsys):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 30))
    y = np.sign(X[:, 0] + 5 * rng.normal(size=60))
    table = {f"x{j}": X[:, j].tolist() for j in range(30)} | {"y": y.tolist()}
    data = write(tmp_path / "t.csv", table)
    code, text, err = run(
        capsys, "fit", data, "--target", "y", "--out", tmp_path / "m", "--max-iter", "2", "--tol", "1e-9",
        "--regularizer", "kl", "--json"
    )  # fmt: skip
    assert code == 0
    notes = " ".join(json.loads(text)["notes"])
    assert re.search(r"\d+ of 55 fits of the cross-validation stopped before their tolerance", notes)
    lines = err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("fenchel: warning: LBFGS stopped after 2 iterations with the duality gap")
    assert not json.loads(text)["final"]["converged"]


def test_warnings_filters_are_restored(fitted, capsys):
    before = list(warnings.filters)
    run(capsys, "info", fitted[1])
    assert warnings.filters == before


@pytest.mark.parametrize(
    ("change", "args", "message"),
    [
        ({}, ["--target", "spezies"], "has no column 'spezies', it has 'sepal length'.*did you mean 'species'"),
        (
            {"species": ["a"] * 7 + [""] + ["b"] * 142},
            ["--target", "species"],
            "line 9: the target 'species' is missing",
        ),
        ({"species": ["a"] * 150}, ["--target", "species"], "always 'a'; nothing to learn"),
        ({}, ["--target", "species", "--drop", "petal"], "has no column 'petal'"),
        ({}, ["--target", "species", "--drop", "species"], "--drop names the target"),
        ({}, ["--target", "species", "--weight", "species"], "--weight names the target"),
        ({}, ["--target", "species", "--weight", "w"], "has no column 'w'"),
        ({"w": ["x"] * 150}, ["--target", "species", "--weight", "w"], "'w' are not numbers"),
        ({"w": [1] * 149 + [-2]}, ["--target", "species", "--weight", "w"], "line 151: the weight 'w' is -2"),
        ({"w": [1] * 149 + [""]}, ["--target", "species", "--weight", "w"], "line 151: the weight 'w' is nan"),
        ({"w": [0] * 150}, ["--target", "species", "--weight", "w"], "all zero"),
        ({}, ["--target", "species", "--regularizer", "kl", "--projection", "reals"], "needs the oracle 'kl_project'"),
        ({"y": [0.1 * i for i in range(150)]}, ["--target", "y"], "150 different values in 150 rows, too many"),
        (
            {},
            ["--target", "species", "--drop", "sepal length", "sepal width", "petal length", "petal width"],
            "no column left to learn from",
        ),
    ],
)
def test_what_fit_refuses(tmp_path, capsys, change, args, message):
    data = write(tmp_path / "iris.csv", {**iris_columns(), **change})
    out = tmp_path / "m.fenchel"
    assert re.search(message, fails(capsys, "fit", data, "--out", out, *args))
    assert not out.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["iris.csv"]


def test_where_a_model_cannot_be_saved(iris, tmp_path, capsys):
    target = ["--target", "species", "--alpha", "1"]
    there = tmp_path / "there"
    there.write_text("mine")
    assert "exists; choose another name or pass --overwrite" in fails(capsys, "fit", iris, *target, "--out", there)
    assert there.read_text() == "mine"
    assert "is a folder" in fails(capsys, "fit", iris, *target, "--out", tmp_path)
    assert "there is no folder" in fails(capsys, "fit", iris, *target, "--out", tmp_path / "no" / "m")
    assert "is what is read" in fails(capsys, "fit", iris, *target, "--out", iris, "--overwrite")
    code, _, _ = run(capsys, "fit", iris, *target, "--out", there, "--overwrite")
    assert code == 0
    assert fenchel.load(there).target == "species"


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_is_not_writable(iris, tmp_path, capsys):
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o500)
    assert "is not writable" in fails(capsys, "fit", iris, "--target", "species", "--out", folder / "m")


def test_tables_that_cannot_be_read(tmp_path, capsys):
    out = ["--target", "y", "--out", tmp_path / "m"]
    assert "there is no file" in fails(capsys, "fit", tmp_path / "none.csv", *out)
    (tmp_path / "t.json").write_text("{}")
    assert "no known kind of table" in fails(capsys, "fit", tmp_path / "t.json", *out)
    (tmp_path / "t.csv").write_text("a,y\n1,2\n3\n")
    assert "line 3: 1 field, but the header names 2" in fails(capsys, "fit", tmp_path / "t.csv", *out)


# -- predict, evaluate, info -------------------------------------------------------------------------------------------


def test_predict_to_a_file(fitted, tmp_path, capsys):
    data, model = fitted
    answers = tmp_path / "answers.csv"
    code, text, _ = run(capsys, "predict", model, data, "--out", answers)
    assert code == 0
    assert text == f"Wrote 150 predictions to {answers}\n"
    written = answers.read_text()
    assert written.splitlines()[1:] == fenchel.load(model).predict(read_table(data)).tolist()
    assert "exists" in fails(capsys, "predict", model, data, "--out", answers)
    assert "there is no folder" in fails(capsys, "predict", model, data, "--out", tmp_path / "no" / "a.csv")
    for path in (data, model):
        assert "is what is read" in fails(capsys, "predict", model, data, "--out", path, "--overwrite")
    answers.write_text("old")
    code, text, _ = run(capsys, "predict", model, data, "--out", answers, "--overwrite", "--quiet")
    assert (code, text) == (0, "")
    assert answers.read_text() == written
    assert [path.name for path in tmp_path.iterdir()] == ["answers.csv"]


def test_predict_probabilities(fitted, capsys):
    data, model = fitted
    code, text, _ = run(capsys, "predict", model, data, "--proba")
    assert code == 0
    header, *rows = csv.reader(io.StringIO(text))
    assert header == ["prediction", "p(setosa)", "p(versicolor)", "p(virginica)"]
    got = np.array([row[1:] for row in rows], dtype=float)
    loaded = fenchel.load(model)
    np.testing.assert_array_equal(got, loaded.predict_proba(read_table(data)))
    assert [row[0] for row in rows] == loaded.predict(read_table(data)).tolist()


def test_no_probabilities_without_the_simplex(iris, tmp_path, capsys):
    out = tmp_path / "m"
    run(capsys, "fit", iris, "--target", "species", "--out", out, "--projection", "cube", "--alpha", "0.1")
    assert "--proba needs a model fitted with --projection simplex" in fails(capsys, "predict", out, iris, "--proba")


def test_columns_that_do_not_fit(fitted, tmp_path, capsys):
    _, model = fitted
    table = iris_columns()
    lacking = write(tmp_path / "a.csv", {k: v for k, v in table.items() if not k.startswith("petal")})
    assert "lacks the columns 'petal length', 'petal width'" in fails(capsys, "predict", model, lacking)
    texts = write(tmp_path / "b.csv", {**table, "sepal width": [*map(str, table["sepal width"][:-1]), "wide"]})
    assert "line 151: column 'sepal width' holds 'wide'" in fails(capsys, "predict", model, texts)


def test_evaluate(fitted, capsys):
    data, model = fitted
    code, text, _ = run(capsys, "evaluate", model, data)
    assert code == 0
    assert "mean cost (zero_one)" in text
    assert re.search(r"setosa +50 +1\.0000 +1\.0000 +1\.0000", text)
    code, text, _ = run(capsys, "evaluate", model, data, "--json")
    report = json.loads(text)
    from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

    truth, predicted = read_table(data)["species"], fenchel.load(model).predict(read_table(data))
    assert report["confusion"] == confusion_matrix(truth, predicted).tolist()
    theirs = precision_recall_fscore_support(truth, predicted)
    for key, expected in zip(("precision", "recall", "f1", "rows"), theirs, strict=True):
        np.testing.assert_allclose([line[key] for line in report["classes"]], expected)
    assert report["accuracy"] == pytest.approx((truth == predicted).mean())


def test_what_evaluate_refuses(fitted, tmp_path, capsys):
    _, model = fitted
    table = iris_columns()
    species = table["species"]
    other = write(tmp_path / "a.csv", {**table, "species": [*species[:-1], "tulip"]})
    assert "line 151: the target 'species' is 'tulip', which the model does not know" in fails(
        capsys, "evaluate", model, other
    )
    missing = write(tmp_path / "b.csv", {**table, "species": ["", *species[1:]]})
    assert "line 2: the target 'species' is missing" in fails(capsys, "evaluate", model, missing)
    without = write(tmp_path / "c.csv", {k: v for k, v in table.items() if k != "species"})
    assert "has no column 'species'" in fails(capsys, "evaluate", model, without)


def test_evaluate_on_some_of_the_classes(fitted, tmp_path, capsys):
    _, model = fitted
    part = write(tmp_path / "a.csv", {name: values[:50] for name, values in iris_columns().items()})
    code, text, _ = run(capsys, "evaluate", model, part)
    assert code == 0
    assert re.search(r"virginica +0 +- +- +-", text)


def test_info(fitted, capsys):
    _, model = fitted
    code, text, _ = run(capsys, "info", model)
    assert code == 0
    for part in ("task  ", "classify", "sepal length, sepal width", "setosa, versicolor, virginica", "duality gap",
 "150 rows of", f"fenchel {fenchel.__version__}"):  # fmt: skip
        assert part in text
    code, text, _ = run(capsys, "info", model, "--json")
    facts = json.loads(text)
    assert facts["alpha"] == 0.01
    assert facts["target"] == "species"
    assert facts["bytes"] == model.stat().st_size
    assert facts["duality_gap"] == fenchel.load(model).estimator.dual_gap_


def test_models_that_fit_did_not_make(tmp_path, capsys, iris):
    path = fenchel.save(fenchel.FenchelYoungClassifier(alpha=0.5).fit([[0.0], [1.0]], [0, 1]), tmp_path / "m")
    code, text, _ = run(capsys, "info", path)
    assert code == 0
    assert "FenchelYoungClassifier" in text
    for command in ("predict", "evaluate"):
        assert "holds a FenchelYoungClassifier, not a model made by 'fenchel fit'" in fails(capsys, command, path, iris)
    alien = TableModel(TableEncoder(), fenchel.FenchelYoungClassifier(), task="divination")
    alien.fit(Table({"a": [0, 1]}), [0, 1])
    assert "task 'divination', which this fenchel does not know" in fails(
        capsys, "predict", fenchel.save(alien, tmp_path / "alien"), iris
    )
    code, text, _ = run(capsys, "info", tmp_path / "alien")
    assert code == 0
    assert "divination" in text


@pytest.mark.parametrize("command", ["predict", "evaluate", "info"])
def test_damaged_models(fitted, tmp_path, capsys, command):
    data, model = fitted
    rest = [] if command == "info" else [data]
    whole = model.read_bytes()
    cut = tmp_path / "cut"
    cut.write_bytes(whole[: len(whole) // 2])
    assert "not a model saved by fenchel, or was cut short" in fails(capsys, command, cut, *rest)
    assert "not a model" in fails(capsys, command, data, *rest)
    assert "there is no file" in fails(capsys, command, tmp_path / "none", *rest)
    assert "is a folder" in fails(capsys, command, tmp_path, *rest)
    broken = tmp_path / "broken"
    middle = whole.index(b"arrays/0.npy") + 40
    broken.write_bytes(whole[:middle] + b"\xff" * 20 + whole[middle + 20 :])
    assert "damaged" in fails(capsys, command, broken, *rest)


def test_parquet_is_as_csv(iris, tmp_path, capsys):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    table = {**iris_columns(), "kind": ["1", "2", "x"] * 50}
    data = write(tmp_path / "t.csv", table)
    pq.write_table(pa.table(table), tmp_path / "t.parquet")
    args = ["--target", "species", "--alpha", "0.01"]
    assert run(capsys, "fit", data, *args, "--out", tmp_path / "a")[0] == 0
    assert run(capsys, "fit", tmp_path / "t.parquet", *args, "--out", tmp_path / "b")[0] == 0
    answers = {run(capsys, "predict", tmp_path / m, tmp_path / d)[1] for m in "ab" for d in ("t.csv", "t.parquet")}
    assert len(answers) == 1


# -- demo and reproduce ------------------------------------------------------------------------------------------------


def test_demo_hands_over(monkeypatch, capsys, tmp_path):
    calls = []
    fake = types.SimpleNamespace(run=lambda *args: calls.append(args) or 0)
    monkeypatch.setitem(sys.modules, "fenchel.experiments.demo", fake)
    assert run(capsys, "demo", "--out", tmp_path, "--overwrite", "--json")[0] == 0
    assert calls == [(tmp_path, True, True)]


@pytest.fixture
def experiment(monkeypatch):
    calls = []

    def run(data=None, quick=False, progress=None):
        progress(0.5, "half of it")
        calls.append((data, quick))
        return {"title": "A table", "columns": ["x", "ours"], "rows": [["a", 1.5]], "notes": ["a note"]}

    monkeypatch.setattr(registry, "_entries", dict(registry._entries))
    monkeypatch.setitem(sys.modules, "some_experiment", types.SimpleNamespace(run=run))
    registry.register("experiment", "some-table", "some_experiment:run", "some table of some paper")
    return calls


def test_reproduce_all_leaves_out_what_needs_a_package_that_is_not_there(monkeypatch, capsys):
    def needy(data, quick, progress):
        raise MissingDependency("fenchel.nn needs PyTorch")

    def plain(data, quick, progress):
        return {"title": "plain", "columns": ["a"], "rows": [["1"]], "notes": ["a note"]}

    monkeypatch.setitem(sys.modules, "two_experiments", types.SimpleNamespace(needy=needy, plain=plain))
    others = {key: entry for key, entry in registry._entries.items() if entry.kind != "experiment"}
    monkeypatch.setattr(registry, "_entries", others)
    for name in ("needy", "plain"):
        registry.register("experiment", name, f"two_experiments:{name}", "an experiment")
    assert main(["reproduce", "all"]) == 0
    printed = capsys.readouterr()
    assert "needy is left out: fenchel.nn needs PyTorch" in printed.err
    assert "plain" in printed.out
    assert main(["reproduce", "needy"]) == 1
    assert "fenchel.nn needs PyTorch" in capsys.readouterr().err


def test_reproduce(experiment, capsys, tmp_path, monkeypatch):
    monkeypatch.delenv("FENCHEL_DATA", raising=False)
    for args in ([], ["--list"]):
        code, text, _ = run(capsys, "reproduce", *args)
        assert code == 0
        assert re.search("some-table +some table of some paper", text)
    code, text, _ = run(capsys, "reproduce", "some-table", "--quick")
    assert code == 0
    assert "A table" in text
    assert "a note" in text
    code, text, _ = run(capsys, "reproduce", "some-table", "--json", "-", "--data", tmp_path)
    assert json.loads(text)["rows"] == [["a", 1.5]]
    monkeypatch.setenv("FENCHEL_DATA", str(tmp_path))
    code, text, _ = run(capsys, "reproduce", "some-table", "--json", tmp_path / "r.json")
    assert json.loads((tmp_path / "r.json").read_text())["title"] == "A table"
    assert experiment == [(None, True), (tmp_path, False), (tmp_path, False)]
    assert "exists" in fails(capsys, "reproduce", "some-table", "--json", tmp_path / "r.json")
    assert "did you mean 'some-table'" in fails(capsys, "reproduce", "sometable")
    assert "--data names" in fails(capsys, "reproduce", "some-table", "--data", tmp_path / "no")
    assert "--json needs the name" in fails(capsys, "reproduce", "--json", "-")
    monkeypatch.setenv("FENCHEL_DATA", str(tmp_path / "no"))
    assert "the variable FENCHEL_DATA names" in fails(capsys, "reproduce", "some-table")


# -- the command itself ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "the following arguments are required: COMMAND"),
        (["train"], "invalid choice: 'train'"),
        (["fit"], "required: DATA, --target, --out"),
        (["fit", "d.csv", "--target", "y", "--out", "m", "--task", "guess"], "invalid choice: 'guess'"),
        (["fit", "d.csv", "--target", "y", "--out", "m", "--cost", "dear"], "invalid choice: 'dear'"),
        (["fit", "d.csv", "--target", "y", "--out", "m", "--alpha", "much"], "'much' is not a number above 0 or cv"),
        (["fit", "d.csv", "--target", "y", "--out", "m", "--alpha", "-1"], "not a number above 0"),
        (["fit", "d.csv", "--target", "y", "--out", "m", "--test-share", "1"], "'1' is not a number from 0 to below 1"),
        (["fit", "d.csv", "--target", "y", "--out", "m", "--tol", "nan"], "'nan' is not a number above 0"),
        (["fit", "d.csv", "--target", "y", "--out", "m", "--max-iter", "0"], "'0' is not a whole number from 1 on"),
        (["fit", "d.csv", "--target", "y", "--out", "m", "--seed", "x"], "'x' is not a whole number from 0 on"),
        (["fit", "d.csv", "--targ", "y", "--out", "m"], "required: --target"),
        (["predict", "m"], "required: DATA"),
        (["info", "m", "--what"], "unrecognized arguments: --what"),
    ],
)
def test_wrong_usage(capsys, argv, message):
    err = fails(capsys, *argv, code=2)
    assert message in err
    assert err.startswith("fenchel: error: ")
    assert "--help" in err


def test_version_and_help(capsys):
    assert run(capsys, "--version") == (0, f"fenchel {fenchel.__version__}\n", "")
    code, text, _ = run(capsys, "--help")
    assert code == 0
    for name in ("fit", "predict", "evaluate", "info", "demo", "reproduce"):
        assert re.search(rf"^    {name}\b", text, re.MULTILINE)
        code, own, _ = run(capsys, name, "--help")
        assert code == 0
        assert "examples:" in own
        assert f"fenchel {name}" in own
    for args in (["fit", "--help"], ["fit", "--help", "--task", "classify"], ["fit", "--task=classify", "--help"]):
        code, text, _ = run(capsys, *args)
        assert "options of --task classify" in text
        for entry in registry.entries("regularizer"):
            assert entry.name in text


def test_traceback_only_with_debug(capsys, tmp_path, monkeypatch):
    monkeypatch.delenv("FENCHEL_DEBUG", raising=False)
    path = tmp_path / "none"
    fails(capsys, "info", path)
    for argv in (["--debug", "info", path], ["info", path, "--debug"]):
        code, _, err = run(capsys, *argv)
        assert code == 1
        assert "Traceback" in err
        assert err.splitlines()[-1].startswith("fenchel: error: there is no file")
    monkeypatch.setenv("FENCHEL_DEBUG", "1")
    assert "Traceback" in run(capsys, "info", path)[2]
    monkeypatch.setenv("FENCHEL_DEBUG", "0")
    assert "Traceback" not in run(capsys, "info", path)[2]


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (KeyboardInterrupt(), 130, "fenchel: error: interrupted; nothing was saved"),
        (MemoryError(), 1, "fenchel: error: there is not enough memory"),
        (PermissionError(13, "Permission denied", "x.csv"), 1, "fenchel: error: x.csv: Permission denied"),
        (OSError(28, "No space left on device"), 1, "fenchel: error: No space left on device"),
        (ZeroDivisionError("two\nlines"), 1, "fenchel: error: ZeroDivisionError: two lines (this should not happen"),
    ],
)
def test_exit_codes_of_errors(monkeypatch, capsys, error, code, line):
    def demo(args, console):
        raise error

    monkeypatch.setattr("fenchel.cli.commands.demo", demo)
    got, out, err = run(capsys, "demo")
    assert (got, out) == (code, "")
    assert err.startswith(line)
    assert err.count("\n") == 1


def test_warnings_are_lines_and_come_once(monkeypatch, capsys):
    def demo(args, console):
        for _ in range(2):
            warnings.warn("too\nfew", ConvergenceWarning, stacklevel=1)
        warnings.warn("internal", RuntimeWarning, stacklevel=1)
        return 0

    monkeypatch.setattr("fenchel.cli.commands.demo", demo)
    assert run(capsys, "demo") == (0, "", "fenchel: warning: too few\n")
    assert "internal" in run(capsys, "demo", "--debug")[2]


def command(*argv, **options):
    return [sys.executable, "-m", "fenchel", *map(str, argv)], {"env": {**os.environ, **ENVIRONMENT}, **options}


ENVIRONMENT = {"PYTHONPATH": str(Path(fenchel.__file__).parents[1])}


def test_as_a_module_and_start_up_time():
    argv, options = command("--help", capture_output=True, text=True)
    times = []
    for _ in range(3):
        start = time.perf_counter()
        done = subprocess.run(argv, **options, check=True)
        times.append(time.perf_counter() - start)
    assert done.stdout.startswith("usage: fenchel ")
    print(f"fenchel --help takes {sorted(times)[1]:.3f} s")  # the promise is 0.5 s; machines are busy, so not asserted


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from fenchel.cli.main import main; main(['fit', '--help']); "
        "print([m for m in ('numpy', 'scipy', 'sklearn', 'numba') if m in sys.modules], file=sys.stderr)"
    )
    options = command(capture_output=True, text=True)[1]
    assert subprocess.run([sys.executable, "-c", code], **options, check=True).stderr.strip() == "[]"


@pytest.mark.parametrize("calls_before", [1, 40, 700])
def test_ctrl_c_saves_nothing(iris, tmp_path, capsys, monkeypatch, calls_before):
    original, calls = FenchelYoung.evaluate, []

    def evaluate(self, theta, v, start=None):
        calls.append(None)
        if len(calls) == calls_before:
            raise KeyboardInterrupt
        return original(self, theta, v, start)

    monkeypatch.setattr(FenchelYoung, "evaluate", evaluate)
    got = run(capsys, "fit", iris, "--target", "species", "--out", tmp_path / "m")
    assert got == (130, "", "fenchel: error: interrupted; nothing was saved\n")
    assert [path.name for path in tmp_path.iterdir()] == ["iris.csv"]


@pytest.mark.skipif(os.name != "posix", reason="signals and pipes as POSIX has them")
def test_a_closed_pipe_is_quiet(fitted, tmp_path):
    many = {name: values * 40 for name, values in iris_columns().items()}
    data = write(tmp_path / "t.csv", many)
    argv, options = command("predict", fitted[1], data, "--proba", stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    process = subprocess.Popen(argv, **options)
    assert process.stdout.readline() == b"prediction,p(setosa),p(versicolor),p(virginica)\n"
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 141


# -- small parts -------------------------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_on_a_terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    screen = Terminal()
    with Progress(stream=screen) as progress:
        progress(0.0, "start")
        progress(0.01, "too soon to draw")
        progress(1.0, "done")
    text = screen.getvalue()
    assert "  0 %" in text
    assert "100 %" in text
    assert "too soon" not in text
    assert text.endswith("\r\x1b[K")
    assert max(map(len, text.split("\r\x1b[K"))) < 80


def test_progress_is_silent_elsewhere(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    for stream, quiet in ((io.StringIO(), False), (Terminal(), True)):
        Progress(stream=stream, quiet=quiet)(1.0, "done")
        assert stream.getvalue() == ""
    monkeypatch.setenv("TERM", "dumb")
    dumb = Terminal()
    Progress(stream=dumb)(1.0, "done")
    assert dumb.getvalue() == ""


def test_texts():
    assert columns([["a", "bb"], ["ccc", "d"]]) == "  a    bb\n  ---  --\n  ccc   d"
    assert [duration(s) for s in (0.0123, 1.26, 300)] == ["12 ms", "1.3 s", "5.0 min"]
    assert [size(n) for n in (999, 1500, 2_000_000, 3 * 10**9)] == ["999 bytes", "1.5 kB", "2 MB", "3 GB"]
    assert [number(x) for x in (None, float("nan"), 1 / 3)] == ["-", "-", "0.3333"]
    value = {"a": np.float32(1), "b": np.array([1, 2]), "c": float("inf"), "d": (Path("x"), True, None), 1: "é"}
    assert json.loads(to_json(value)) == {"a": 1, "b": [1, 2], "c": None, "d": ["x", True, None], "1": "é"}


def test_model_in_python(tmp_path):
    pd = pytest.importorskip("pandas")
    data = load_wine(as_frame=True)
    model = TableModel(TableEncoder(), fenchel.FenchelYoungClassifier(alpha=0.01), target="kind")
    names = np.array(["barolo", "grignolino", "barbera"], dtype=object)
    y = names[data.target]
    model.fit(data.data, y, classes=names)
    assert model.classes_.tolist() == names.tolist()
    assert (model.predict(data.data) == y).mean() > 0.95
    again = fenchel.load(fenchel.save(model, tmp_path / "m"))
    np.testing.assert_array_equal(again.predict(pd.DataFrame(data.data)), model.predict(data.data))
    np.testing.assert_array_equal(again.predict_proba(data.data), model.predict_marginals(data.data))
