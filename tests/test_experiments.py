"""Experiments: what they measure, that they choose on validation data only, and that a killed run goes on."""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from sklearn.metrics import f1_score, hamming_loss

from fenchel._core import registry
from fenchel.cli.main import main
from fenchel.errors import InvalidInput
from fenchel.experiments import label_ranking, multilabel, ordinal
from fenchel.experiments.resume import Kept, fingerprint, keeping

NAMES = ("label-ranking", "ordinal", "multilabel", "letters", "entities", "matching", "sequence", "tree-labelling")


@pytest.fixture(autouse=True)
def no_data_folder(monkeypatch):
    monkeypatch.delenv("FENCHEL_DATA", raising=False)


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """The results of the quick runs, each made once, by the command line."""
    folder = tmp_path_factory.mktemp("quick")

    def result(name):
        path = folder / f"{name}.json"
        if not path.exists():
            assert main(["reproduce", name, "--quick", "--quiet", "--json", str(path)]) == 0
        return json.loads(path.read_text())

    return result


@pytest.mark.parametrize("name", NAMES)
def test_quick_runs_give_whole_tables(quick, name):
    result = quick(name)
    assert {len(row) for row in result["rows"]} == {len(result["columns"])}
    assert any("No data given" in note for note in result["notes"])
    assert not any("taken from" in note for note in result["notes"])


def test_experiments_are_registered():
    assert set(NAMES) <= {entry.name for entry in registry.entries("experiment")}


def test_the_birkhoff_polytope_is_worth_more_than_no_projection(quick):
    result = quick("label-ranking")
    errors = np.array([np.mean(by_set, axis=0) for by_set in result["values"]["euclidean"].values()]).mean(axis=0)
    columns = ["/".join(pair) for pair in result["pairs"]["euclidean"]]
    assert errors[columns.index("birkhoff/birkhoff")] < errors[columns.index("reals/birkhoff")]
    # An answer that need not be a permutation is wrong more often than one that is.
    assert errors[columns.index("cube/birkhoff")] < errors[columns.index("cube/cube_map")]


def test_rankings_are_those_of_the_naive_bayes_posterior():
    from sklearn.datasets import load_iris
    from sklearn.naive_bayes import GaussianNB

    X, ranks = dict(label_ranking._generated(quick=True))["iris, naive Bayes"]
    posterior = GaussianNB().fit(*load_iris(return_X_y=True)).predict_proba(X)
    np.testing.assert_array_equal(np.sort(ranks, axis=1), np.tile(np.arange(3), (150, 1)))
    np.testing.assert_array_equal(ranks.argmin(axis=1), posterior.argmax(axis=1))


# -- what is measured --------------------------------------------------------------------------------------------------


def test_label_set_measures_are_scikit_learns():
    rng = np.random.default_rng(0)
    truth, answers = rng.random((50, 4)) < 0.3, rng.random((50, 4)) < 0.3
    truth[0] = answers[0] = False
    measured = multilabel._measured(answers, truth.astype(float))
    assert measured["Hamming"] == pytest.approx(100 * hamming_loss(truth, answers))
    assert measured["F1, pooled"] == pytest.approx(100 * f1_score(truth, answers, average="micro"))
    assert measured["F1 of rows"] == pytest.approx(100 * f1_score(truth, answers, average="samples", zero_division=1))


def test_wrong_entries_are_what_the_ranker_answers():
    from fenchel.estimators import LabelRanker
    from fenchel.structures import Birkhoff

    X, ranks = dict(label_ranking._generated(quick=True))["iris, naive Bayes"]
    for decoding in ("birkhoff", "row_stochastic", "cube"):
        model = LabelRanker(projection="row_stochastic", decoding=decoding, alpha=0.01).fit(X, ranks)
        wrong = label_ranking._wrong_entries(model, X, ranks, [decoding])[decoding]
        assert wrong == pytest.approx(100 * (model.predict_matrix(X) != Birkhoff(3).encode(ranks)).mean())


def test_ridge_is_ridge():
    from sklearn.linear_model import Ridge

    rng = np.random.default_rng(0)
    X, y, Z = rng.normal(size=(30, 3)), rng.integers(1, 5, 30), 5 * rng.normal(size=(200, 3))
    scale = np.arange(1, 5)
    raw = Ridge(alpha=0.3).fit(X, y).predict(Z)
    np.testing.assert_array_equal(ordinal._ridge(X, y, scale, 0.01, fair=True)(Z), np.clip(np.floor(raw + 0.5), 1, 4))
    A = np.c_[X, np.ones(30)]
    w = np.linalg.solve(A.T @ A + 0.3 * np.eye(4), A.T @ y)
    answers = ordinal._ridge(X, y, scale, 0.01, fair=False)(Z)
    np.testing.assert_array_equal(answers, np.floor(np.c_[Z, np.ones(200)] @ w + 0.5))
    assert answers.max() > 4  # as published, it may answer with what is no grade


def test_alpha_is_chosen_without_the_test_part():
    """Other truths in the test part change the error and nothing else."""
    rng = np.random.default_rng(0)
    grid = (0.001, 0.1)

    X, ranks = dict(label_ranking._generated(quick=True))["iris, naive Bayes"]
    from sklearn.model_selection import train_test_split

    outside = train_test_split(np.arange(len(X)), test_size=0.2, random_state=3)[1]
    other = ranks.copy()
    other[outside] = 2 - ranks[outside]
    runs = [label_ranking._one(X, r, 3, "euclidean", "cube", grid, lambda share: None) for r in (ranks, other)]
    a, b = (run["decodings"] for run in runs)
    assert all(a[d]["alpha"] == b[d]["alpha"] and a[d]["error"] != b[d]["error"] for d in a)

    X, y = rng.normal(size=(90, 4)), rng.integers(1, 4, 90)
    inside, outside = np.arange(60), np.arange(60, 90)
    other = y.copy()
    other[outside] = y[outside] % 3 + 1
    for method in ("ridge", "order_simplex"):
        a, b = (ordinal._one(X, t, inside, outside, method, 0) for t in (y, other))
        assert a["alpha"] == b["alpha"]
        assert a["error"] != b["error"]

    Y = (rng.random((90, 5)) < 0.3).astype(float)
    other = Y.copy()
    other[outside] = 1 - Y[outside]
    split = multilabel._Split("given", inside, outside, -1)
    a, b = (
        multilabel._one(X, t, split, "euclidean", "cube", grid, lambda share: None)["decodings"] for t in (Y, other)
    )
    for decoding in a:
        assert all(a[decoding][m]["alpha"] == b[decoding][m]["alpha"] for m in a[decoding])
        assert a[decoding]["Hamming"]["value"] != b[decoding]["Hamming"]["value"]


# -- data in files -----------------------------------------------------------------------------------------------------


def test_label_ranking_files(tmp_path):
    folder = tmp_path / "label_ranking"
    folder.mkdir()
    text = "x1,x2,ranking\n0.5,-1,b>a>c\n0.25,2,a>c>b\n"
    (folder / "one.csv").write_text(text)
    with gzip.open(folder / "two.csv.gz", "wt") as stream:
        stream.write(text)
    for _, (X, ranks) in label_ranking._given(tmp_path, ("one", "two")):
        np.testing.assert_array_equal(X, [[0.5, -1], [0.25, 2]])
        np.testing.assert_array_equal(ranks, [[1, 0, 2], [0, 2, 1]])
    with pytest.raises(InvalidInput, match=r"there is no '.*three\.csv'"):
        list(label_ranking._given(tmp_path, ("three",)))


def test_ordinal_files(tmp_path):
    folder = tmp_path / "ordinal" / "gutierrez"
    folder.mkdir(parents=True)
    (folder / "one.csv").write_text("x1,x2,y\n1,,1\n3,4,2\n5,6,2\n")
    with pytest.raises(InvalidInput, match="test-splits"):
        list(ordinal._given(tmp_path, ("one",)))
    (folder / "one.test-splits.csv").write_text("0\n2\n")
    ((_, (X, y, splits)),) = ordinal._given(tmp_path, ("one",))
    np.testing.assert_array_equal(y, [1, 2, 2])
    assert [(a.tolist(), b.tolist()) for a, b in splits] == [([1, 2], [0]), ([0, 1], [2])]
    Z = ordinal._standardised(X, np.array([1, 2]))
    assert Z[0].tolist() == [-3.0, 0.0]  # the missing cell is the mean of the training part
    np.testing.assert_allclose(Z[1:].mean(axis=0), 0)


def test_multilabel_files(tmp_path):
    folder = tmp_path / "multilabel"
    folder.mkdir()
    for part, text in (("train", "0,2 1:0.5 260:3\n 260:7\n"), ("test", "1 2:1 260:3\n")):
        with gzip.open(folder / f"birds-{part}.svm.gz", "wt") as stream:
            stream.write(text)
    with pytest.raises(InvalidInput, match=r"labels\.txt"):
        list(multilabel._given(tmp_path, ("birds",), quick=True))
    (folder / "birds.labels.txt").write_text("wren\nrobin\nowl\n")
    ((_, (X, Y, splits)),) = multilabel._given(tmp_path, ("birds",), quick=True)
    np.testing.assert_array_equal(Y, [[1, 0, 1], [0, 0, 0], [0, 1, 0]])
    np.testing.assert_array_equal(X[:, -2:], [[1, 0], [0, 1], [1, 0]])  # the place, one-hot
    assert [s.name for s in splits] == ["given", "seed 0"]
    assert (splits[0].inside.tolist(), splits[0].outside.tolist()) == ([0, 1], [2])
    assert sorted([*splits[1].inside, *splits[1].outside]) == [0, 1, 2]


# -- going on ----------------------------------------------------------------------------------------------------------


def test_a_killed_run_goes_on(quick, tmp_path):
    target = tmp_path / "result.json"
    partial = tmp_path / "result.json.partial"
    command = ["reproduce", "ordinal", "--quick", "--quiet", "--json", str(target)]
    process = subprocess.Popen([sys.executable, "-m", "fenchel", *command], env={**os.environ, "FENCHEL_DEBUG": "1"})
    try:
        deadline = time.monotonic() + 120
        while not (partial.exists() and partial.read_text().count("\n") >= 4):
            assert process.poll() is None, "the run ended before it could be killed"
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        process.send_signal(signal.SIGKILL) if os.name == "posix" else process.kill()
        process.wait()
    assert not target.exists()
    text = partial.read_text()
    done = text.count("\n") - 1
    partial.write_text(text + '{"hash": "cut off in the mid')
    assert main(command) == 0
    result = json.loads(target.read_text())
    assert [note for note in result["notes"] if "taken from" in note] == [
        f"{done} results were taken from {partial}, where an earlier run left them."
    ]
    assert result["values"] == quick("ordinal")["values"]
    assert not partial.exists()


def test_resume_names_a_file_that_stays(tmp_path, capsys):
    kept = tmp_path / "kept"
    for _ in range(2):
        assert main(["reproduce", "multilabel", "--quick", "--quiet", "--resume", str(kept)]) == 0
    assert re.search(r"\n20 results were taken from .*kept", capsys.readouterr().out)
    assert kept.read_text().count("\n") == 21


def test_a_users_file_is_not_touched(tmp_path, capsys):
    for text in ("my thesis\n", '{"a": 1}\n', "[1, 2]\n"):
        mine = tmp_path / "mine"
        mine.write_text(text)
        assert main(["reproduce", "ordinal", "--quick", "--resume", str(mine)]) == 1
        assert "holds something else" in capsys.readouterr().err
        assert mine.read_text() == text
    assert main(["reproduce", "ordinal", "--resume", str(tmp_path / "no" / "folder")]) == 1
    assert "cannot be kept" in capsys.readouterr().err
    assert main(["reproduce", "--resume", str(mine)]) == 1
    assert "needs the name" in capsys.readouterr().err


def test_results_of_other_settings_or_data_are_not_taken(tmp_path):
    with keeping(tmp_path / "kept"):
        with Kept("table", {"alphas": [1]}) as kept:
            kept.put({"split": 0}, 0.5)
            assert kept.get({"split": 1}) is None
        for name, settings, found in (
            ("table", {"alphas": [1]}, 0.5),
            ("table", {"alphas": [2]}, None),
            ("b", {"alphas": [1]}, None),
        ):
            with Kept(name, settings) as kept:
                assert kept.get({"split": 0}) == found
                assert bool(kept.note) == (found is not None)
    with Kept("table", {"alphas": [1]}) as kept:  # outside, nothing is kept
        assert kept.get({"split": 0}) is None
    X = np.arange(6.0)
    assert fingerprint(X) == fingerprint(X.copy())
    assert len({fingerprint(X), fingerprint(X.reshape(2, 3)), fingerprint(X.astype(int)), fingerprint(X + 1)}) == 4


def test_interrupting_says_how_to_go_on(tmp_path, capsys, monkeypatch):
    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(ordinal, "_one", interrupted)
    kept = tmp_path / "kept"
    assert main(["reproduce", "ordinal", "--quick", "--resume", str(kept)]) == 130
    assert f"results so far are in '{kept}'" in capsys.readouterr().err


def test_reproduce_all(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(
        registry,
        "_entries",
        {k: e for k, e in registry._entries.items() if e.name == "ordinal" or e.kind != "experiment"},
    )
    assert main(["reproduce", "all", "--quick", "--quiet", "--json", "-"]) == 0
    assert list(json.loads(capsys.readouterr().out)) == ["ordinal"]


def test_chains_read_letters_better_than_no_structure(quick):
    values = quick("letters")["values"]
    assert values["crf"]["letter"][0] < values["unstructured"]["letter"][0]
    assert values["perceptron"]["letter"][0] < values["unstructured"]["letter"][0]
    assert all(0 < values[m]["letter"][0] <= values[m]["word"][0] for m in values)


def test_entities_are_found_and_scored_whole(quick):
    values = quick("entities")["values"]
    assert all(0 <= v["f1"] <= 1 and v["accuracy"] > 0.8 for v in values.values())
    assert values["crf"]["f1"] > 0.9


# -- the protocol of the thesis -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["zero-one", "ordinal-adversarial", "abstention"])
def test_quick_runs_of_the_thesis_give_whole_tables(name, tmp_path):
    path = tmp_path / "result.json"
    assert main(["reproduce", name, "--quick", "--quiet", "--json", str(path)]) == 0
    result = json.loads(path.read_text())
    assert {len(row) for row in result["rows"]} == {len(result["columns"])}
    assert any("No data given" in note for note in result["notes"])
    assert {len(costs) for by_set in result["values"]["linear"].values() for costs in by_set.values()} == {2}
    if name == "abstention":
        assert max(np.mean(v) for v in result["silent"]["linear"]["iris (bundled)"].values()) > 0
    # all of it is taken from the file where the same is asked again, and one more split is not
    kept = tmp_path / "kept"
    for splits, expected in (("1", False), ("1", True)):
        out = tmp_path / f"{splits}{expected}.json"
        argv = ["reproduce", name, "--quick", "--quiet", "--splits", splits, "--resume", str(kept), "--json", str(out)]
        assert main(argv) == 0
        assert any("taken from" in note for note in json.loads(out.read_text())["notes"]) == expected


def test_parameters_are_chosen_on_the_first_training_part_only(monkeypatch):
    from fenchel.experiments import protocol, zero_one

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), np.arange(40) % 2
    comparison = protocol.Comparison("zero-one", zero_one._METHODS, "zero_one", False)
    inside, outside = protocol._split(40, 28, 0)
    first = protocol._select((comparison, "AL 0-1", X, y, 28, True, None))
    spoiled = X.copy()
    spoiled[outside] = np.nan
    assert protocol._select((comparison, "AL 0-1", spoiled, y, 28, True, None)) == first
    assert set(inside) | set(outside) == set(range(40))
    assert not set(inside) & set(outside)


def test_what_is_best_or_as_good_is_told_by_paired_differences():
    from fenchel.experiments.protocol import best_methods

    rng = np.random.default_rng(0)
    base = rng.random(20)
    found = best_methods(
        {"best": list(base), "same": list(base + 1e-3 * rng.normal(size=20)), "worse": list(base + 0.01)}
    )
    assert found == ["best", "same"]


def test_experiments_say_what_they_take(capsys):
    assert main(["reproduce", "lower-bound", "--splits", "3"]) == 1
    assert "lower-bound takes no --splits; " in capsys.readouterr().err
    assert main(["reproduce", "zero-one", "--data", ".", "--sets", "moon"]) == 1
    assert "zero-one has no set 'moon'; it has iris, glass" in capsys.readouterr().err


def test_splits_run_in_processes_too():
    from fenchel.experiments import abstention, protocol

    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(30, 2)), np.arange(30) % 2
    comparison = protocol.Comparison("abstention", {"OVA": abstention._METHODS["OVA"]}, "abstain", False)
    results = []
    for here in (True, False):
        with protocol._workers(here) as run_all:
            results.append(list(run_all(protocol._score, [(comparison, "OVA", X, y, 20, s, 0, None) for s in (0, 1)])))
    assert results[0] == results[1]


def test_raters_who_guess_give_no_grade_a_majority():
    from fenchel.experiments.graded_sequences import graded_sequences

    _, Y = graded_sequences(3000, np.random.default_rng(0), guesses=0.75)
    ends = np.array([y[-1] for y in Y if len(y) == 20])  # mostly apex by then
    shares = np.bincount(ends, minlength=3) / len(ends)
    assert shares.argmax() == 2
    assert shares[2] <= 0.5 + 3 * np.sqrt(0.25 / len(ends))
    assert shares.min() >= 0.25 - 3 * np.sqrt(0.2 / len(ends))
