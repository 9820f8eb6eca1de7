"""``fenchel stream``: records in, answers out, malformed lines counted, and runs that go on after a kill."""

import gzip
import io
import json
import math
import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest

import fenchel
from fenchel.cli.main import main
from fenchel.errors import InvalidInput
from fenchel.online.stream import RecordLearner


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3)) * [1, 10, 100] + [0, 5, -3]
    z = (X - X.mean(axis=0)) / X.std(axis=0)
    y = np.where(z @ [1.0, 0.5, -1.0] > 0, "yes", "no")
    return [dict(zip("abc", map(float, x), strict=True)) | {"colour": "red" if x[0] > 0 else "blue"} for x in X], y


def as_csv(records, truths, path):
    lines = ["a,b,c,colour,label"]
    lines += [f"{r['a']},{r['b']},{r['c']},{r['colour']},{t}" for r, t in zip(records, truths, strict=True)]
    path.write_text("\n".join(lines) + "\n")
    return path


def as_json(records, truths, path):
    path.write_text("".join(json.dumps(r | {"label": t}) + "\n" for r, t in zip(records, truths, strict=True)))
    return path


def run(capsys, *args):
    code = main(["stream", *map(str, args)])
    printed = capsys.readouterr()
    return SimpleNamespace(code=code, out=printed.out, err=printed.err)


def test_csv_and_json_lines_and_a_gzip_give_the_same_answers(rows, tmp_path, capsys):
    table, lines = as_csv(*rows, tmp_path / "s.csv"), as_json(*rows, tmp_path / "s.jsonl")
    packed = tmp_path / "s.csv.gz"
    packed.write_bytes(gzip.compress(table.read_bytes()))
    answers = []
    for path in (table, lines, packed):
        done = run(capsys, path, "--target", "label", "--out", tmp_path / f"{path.name}.out", "--report", "100")
        assert done.code == 0, done.err
        answers.append((tmp_path / f"{path.name}.out").read_text())
    assert answers[0] == answers[1] == answers[2]
    answered = answers[0].splitlines()
    assert answered[0] == "prediction"
    assert len(answered) == 401
    late = np.mean([a == t for a, t in zip(answered[201:], rows[1][200:], strict=True)])
    assert late > 0.8
    assert done.err.count("rows ") == 5
    assert "rows 400  cost 0." in done.err


def test_from_a_pipe_with_answers_as_they_come(rows):
    command = [sys.executable, "-m", "fenchel", "stream", "-", "--format", "json", "--target", "label", "--quiet"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps({"a": 1, "label": "x"}) + "\n")
        process.stdin.flush()
        assert process.stdout.readline() == "prediction\n"
        assert process.stdout.readline() == "\n"  # no class was known yet
        process.stdin.write(json.dumps({"a": 2}) + "\n")
        process.stdin.flush()
        assert process.stdout.readline() == "x\n"
        process.stdin.close()
        assert process.wait() == 0


def test_malformed_lines_are_named_counted_and_left_out(tmp_path, capsys):
    path = tmp_path / "s.csv"
    path.write_text('a,label\n1,x\n2\n"3",y\n4,x,5\ninf,x\n,y\n' + "6,x\n" * 3)
    done = run(capsys, path, "--target", "label", "--out", tmp_path / "o.csv", "--json")
    assert done.code == 0
    report = json.loads(done.out)
    assert (report["rows"], report["malformed"]) == (6, 3)
    assert "line 3: 1 fields, but the header has 2" in done.err
    assert "line 5: 3 fields" in done.err
    assert "line 6: the field 'a' is inf" in done.err
    assert len((tmp_path / "o.csv").read_text().splitlines()) == 10
    lines = tmp_path / "s.jsonl"
    lines.write_text('{"a": 1, "label": "x"}\nnot json\n[1]\n{"a": [1], "label": "x"}\n' + "{\n" * 9)
    done = run(capsys, lines, "--target", "label", "--out", tmp_path / "o2.csv", "--json")
    assert json.loads(done.out)["malformed"] == 12
    assert "line 3: a JSON list, expected an object" in done.err
    assert "line 4: the field 'a' is a list" in done.err
    assert "7 more malformed lines" in done.err


@pytest.mark.parametrize(
    ("task", "labels", "truths"),
    [
        ("ordinal", ["bad", "fair", "good"], ["bad", "good", "fair"]),
        ("multilabel", ["u", "v", "w"], ["u;w", "", "v"]),
        ("multilabel", ["u", "v", "w"], [["u", "w"], [], ["v"]]),
        ("rank", ["u", "v", "w"], ["u>v>w", "w>u>v", "v>w>u"]),
        ("rank", ["u", "v", "w"], [["u", "v", "w"], ["w", "u", "v"], ["v", "w", "u"]]),
    ],
)
def test_the_other_tasks(task, labels, truths, tmp_path, capsys):
    rng = np.random.default_rng(0)
    path = tmp_path / "s.jsonl"
    kinds = rng.integers(3, size=300)
    path.write_text("".join(json.dumps({"kind": "pqr"[k], "label": truths[k]}) + "\n" for k in kinds))
    done = run(capsys, path, "--task", task, "--labels", *labels, "--target", "label", "--out", tmp_path / "o.csv",
               "--decoder", "deterministic", "--json")  # fmt: skip
    assert done.code == 0, done.err
    separator = ">" if task == "rank" else ";"
    expected = [t if isinstance(t, str) else separator.join(t) for t in truths]
    answered = (tmp_path / "o.csv").read_text().splitlines()[1:]
    if task == "multilabel" and not isinstance(truths[1], list):  # an empty text is no truth, an empty list is one
        kinds, answered = kinds[kinds != 1], [a for a, k in zip(answered, kinds, strict=True) if k != 1]
    right = [a == expected[k] for a, k in zip(answered[150:], kinds[150:], strict=False)]
    assert np.mean(right) > 0.95


def test_a_killed_run_goes_on_to_the_same_weights_bit_for_bit(rows, tmp_path):
    path = as_csv(rows[0] * 40, list(rows[1]) * 40, tmp_path / "s.csv")

    def command(name, *more):
        return [sys.executable, "-m", "fenchel", "stream", str(path), "--target", "label", "--every", "1000", "--seed", "3",
                "--checkpoint", str(tmp_path / f"{name}.fenchel"), "--out", str(tmp_path / f"{name}.csv"), *more]  # fmt: skip

    subprocess.run(command("whole"), check=True, capture_output=True)
    killed = subprocess.Popen(command("killed"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    checkpoint, since = tmp_path / "killed.fenchel", time.monotonic()
    while not checkpoint.exists() and killed.poll() is None and time.monotonic() - since < 120:
        time.sleep(0.02)
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    subprocess.run(command("killed", "--resume"), check=True, capture_output=True)
    whole, again = fenchel.load(tmp_path / "whole.fenchel"), fenchel.load(tmp_path / "killed.fenchel")
    assert np.array_equal(whole.learner_.coef_, again.learner_.coef_)
    assert np.array_equal(whole.learner_.average_coef_, again.learner_.average_coef_)
    assert (tmp_path / "whole.csv").read_bytes() == (tmp_path / "killed.csv").read_bytes()
    assert whole.rows_ == again.rows_ == 16000


def test_what_it_refuses(rows, tmp_path, capsys, monkeypatch):
    path = as_csv(*rows, tmp_path / "s.csv")
    for args, words in (
        ((path, "--target", "nothing"), "has no column 'nothing', it has 'a', 'b'"),
        ((path, "--target", "label", "--task", "rank"), "needs all labels beforehand"),
        ((path, "--target", "label", "--resume"), "--resume needs --checkpoint"),
        ((path, "--target", "label", "--out", path), "is what is read"),
        ((tmp_path / "nowhere.csv", "--target", "label"), "No such file"),
        ((path, "--target", "label", "--labels", "x", "x"), "hold one twice"),
    ):
        done = run(capsys, *args)
        assert done.code == 1
        assert words in done.err
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"")))
    assert "say --format csv or json" in run(capsys, "-", "--target", "label").err
    other = tmp_path / "other.fenchel"
    fenchel.save(fenchel.FenchelYoungClassifier(), other)
    assert "is no checkpoint" in run(capsys, path, "--target", "label", "--checkpoint", other, "--resume").err
    assert "exists" in run(capsys, path, "--target", "label", "--checkpoint", other).err


def test_a_refused_record_leaves_no_trace():
    learner, other = RecordLearner("classify", ["x", "y"]), RecordLearner("classify", ["x", "y"])
    for i in range(20):
        for one in (learner, other):
            one.play({"a": i % 7, "b": -i}, "xy"[i % 2])
        for bad in ({"a": 1e9, "b": [1]}, {"a": 1e9, "b": math.nan}):
            with pytest.raises(InvalidInput, match="the field 'b'"):
                learner.play(bad, "x")
        with pytest.raises(InvalidInput, match="none of the labels"):
            learner.play({"a": 1e9, "new": 1.0}, "z")
    assert learner.moments_ == other.moments_
    assert np.array_equal(learner.learner_.coef_, other.learner_.coef_)


def test_labels_given_beforehand_are_all_there_is():
    learner = RecordLearner("classify", ["x", "y"])
    with pytest.raises(InvalidInput, match="'z' is none of the labels x, y"):
        learner.play({"a": 1}, "z")
    ranker = RecordLearner("rank", ["x", "y"])
    with pytest.raises(InvalidInput, match="does not rank all of x, y"):
        ranker.play({"a": 1}, "x")
    with pytest.raises(InvalidInput, match="holds a label twice"):
        ranker.play({"a": 1}, "x>x")
