"""``fenchel fit --task classify`` with costs of files and a price for no answer."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest
from test_cli import fails, run, write

import fenchel
from fenchel import AdversarialClassifier

COSTS = "answer,low,high,middle\nlow,0,9,1\nmiddle,1,2,0\nhigh,3,0,1\n"


@pytest.fixture
def data(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2)).round(4)
    y = np.digitize(X[:, 0] + 0.7 * rng.normal(size=120), [-0.5, 0.5])
    columns = {"a": X[:, 0].tolist(), "b": X[:, 1].tolist(), "level": np.array(["low", "middle", "high"])[y].tolist()}
    (tmp_path / "costs.csv").write_text(COSTS)
    return write(tmp_path / "t.csv", columns)


def test_a_file_of_costs_and_a_price_from_fit_to_info(data, tmp_path, capsys):
    model = tmp_path / "m.fenchel"
    args = ["fit", data, "--target", "level", "--cost", tmp_path / "costs.csv", "--abstain", "0.8", "--out", model]
    code, text, err = run(capsys, *args)
    assert (code, err) == (0, "")
    for part in ("adversarial, cost table, no answer for 0.8", "no answer", "always abstain", "within tolerance"):
        assert part in text
    code, text, _ = run(capsys, *args, "--overwrite", "--json", "--alpha", "0.01")
    report = json.loads(text)
    assert (report["loss"], report["cost"], report["abstain"]) == ("adversarial", "table", 0.8)
    assert report["held_out"]["mean_cost"] <= 1.2
    assert report["held_out"]["baseline"]["mean_cost"] <= 0.8

    code, text, _ = run(capsys, "predict", model, data, "--proba")
    header, *rows = csv.reader(io.StringIO(text))
    assert header == ["prediction", "p(high)", "p(low)", "p(middle)", "p(abstain)"]
    answers = {row[0] for row in rows}
    assert "abstain" in answers
    assert answers <= {"high", "low", "middle", "abstain"}
    assert all(abs(sum(map(float, row[1:])) - 1) < 1e-9 for row in rows)

    code, text, _ = run(capsys, "evaluate", model, data, "--json")
    scores = json.loads(text)
    silent = np.mean([row[0] == "abstain" for row in rows])
    assert scores["abstained"] == pytest.approx(silent)
    price = {"low": {"low": 0, "high": 9, "middle": 1}, "middle": {"low": 1, "high": 2, "middle": 0}}
    price["high"] = {"low": 3, "high": 0, "middle": 1}
    truth = [line[2] for line in list(csv.reader(data.open()))[1:]]
    paid = [0.8 if r[0] == "abstain" else price[r[0]][t] for r, t in zip(rows, truth, strict=True)]
    assert scores["mean_cost"] == pytest.approx(np.mean(paid))
    assert sum(map(sum, scores["confusion"])) == 120
    code, text, _ = run(capsys, "info", model)
    assert "0.8" in text
    assert isinstance(fenchel.load(model).estimator, AdversarialClassifier)


def test_costs_by_name_choose_the_loss(data, tmp_path, capsys):
    def loss(*options):
        args = [
            "fit",
            data,
            "--target",
            "level",
            "--alpha",
            "0.1",
            "--out",
            tmp_path / "m",
            "--overwrite",
            "--json",
            *options,
        ]
        return json.loads(run(capsys, *args)[1])["loss"]

    assert loss() == loss("--cost", "squared", "--order", "low", "middle", "high") == "projection"
    assert loss("--loss", "adversarial") == loss("--abstain", "0.4") == "adversarial"
    assert loss("--features", "threshold", "--cost", "absolute", "--order", "low", "middle", "high") == "adversarial"
    assert loss("--cost", str(tmp_path / "costs.csv"), "--loss", "projection") == "projection"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("answer,low,high\nlow,0,1\nhigh,1,0\nmiddle,1,1\n", "has no column for the class 'middle'"),
        ("answer,low,high,middle\nlow,0,1,1\nhigh,1,0,1\n", "has no line for the class 'middle'"),
        (COSTS + "ask,1,1,1\n", "the answer 'ask' is no class"),
        ("answer,low,high,middle\nkeep,0,1,1\nsell,1,0,1\n", "the answer 'keep' is no class"),
        (COSTS + "low,1,1,1\n", "line 5: 'low' has a line already"),
        (COSTS.replace("9", "much"), "answering 'low' where 'high' is true costs 'much', expected a number"),
        (COSTS + "x,1\n", "line 5: 1 costs for 3 classes"),
        ("", "holds no costs"),
    ],
)
def test_files_of_costs_are_checked(data, tmp_path, capsys, content, message):
    path = tmp_path / "bad.csv"
    path.write_text(content)
    assert message in fails(capsys, "fit", data, "--target", "level", "--cost", path, "--out", tmp_path / "m")


def test_what_does_not_go_together_is_said(data, tmp_path, capsys):
    args = ["fit", data, "--target", "level", "--out", tmp_path / "m"]
    assert "invalid choice: 'dear'" in fails(capsys, *args, "--cost", "dear", code=2)
    both = fails(capsys, *args, "--loss", "projection", "--abstain", "1")
    assert "--abstain and --features are for --loss adversarial" in both
