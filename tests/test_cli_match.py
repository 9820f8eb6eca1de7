"""``fenchel fit --task match``: tables of pairs and files of boxes."""

import csv
import json

import numpy as np
import pytest

from fenchel.cli.main import main
from fenchel.data import moving_boxes


@pytest.fixture
def boxes(tmp_path):
    found = moving_boxes(40, 4, turnover=0.1, random_state=0)
    path = tmp_path / "boxes.csv"
    lines = [
        f"{f},{i},{','.join(f'{x:.2f}' for x in box)}"
        for f, i, box in zip(found.frame, found.id, found.box, strict=True)
    ]
    path.write_text("frame,id,left,top,width,height\n" + "\n".join(lines) + "\n")
    return path


def pair_table(path, groups=30, seed=0, candidates=0.9):
    """Persons and their names spelt otherwise; not every pair is a candidate."""
    rng = np.random.default_rng(seed)
    lines = ["day,left,right,near,old,same"]
    for g in range(groups):
        partner = rng.permutation(4)
        for i in range(4):
            for j in range(4):
                same = int(partner[i] == j and i != g % 4)
                if same or rng.random() < candidates:
                    near = 2.0 * same + 0.4 * rng.normal()
                    lines.append(f"d{g},a{i},b{j},{near:.4f},{rng.integers(9)},{same}")
    path.write_text("\n".join(lines) + "\n")
    return path


def run(capsys, *args):
    code = main([str(a) for a in args])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_boxes_are_followed(boxes, tmp_path, capsys):
    model, out = tmp_path / "m.fenchel", tmp_path / "links.csv"
    code, text, _ = run(capsys, "fit", boxes, "--task", "match", "--out", model, "--tol", "0.001")
    assert code == 0
    for part in ("39 pairs of sets", "without a partner", "<- chosen", "held-out pairs of sets", "partners right"):
        assert part in text
    assert run(capsys, "predict", model, boxes, "--out", out)[0] == 0
    lines = list(csv.reader(out.open()))
    assert lines[0] == ["frame", "box", "later_frame", "partner"]
    assert lines[1][:3] == ["1", "0", "2"]
    report = json.loads(run(capsys, "evaluate", model, boxes, "--json")[1])
    assert report["accuracy"] > 0.95
    code, text, _ = run(capsys, "info", model)
    assert code == 0
    assert "moved overlap" in text
    bare = tmp_path / "detections.csv"
    bare.write_text("frame,left,top,width,height\n1,0,0,10,20\n2,1,0,10,20\n")
    assert run(capsys, "predict", model, bare)[1].splitlines()[1] == "1,0,2,0"
    code, _, error = run(capsys, "evaluate", model, bare)
    assert code == 1
    assert "have no id" in error


def test_pairs_of_a_table_are_matched(tmp_path, capsys):
    data, model = pair_table(tmp_path / "pairs.csv"), tmp_path / "m.fenchel"
    named = ["--group", "day", "--first", "left", "--second", "right"]
    fit = ["fit", data, "--task", "match", "--target", "same", "--out", model, "--tol", "0.001", *named]
    code, text, error = run(capsys, *fit, "--json")
    assert (code, error) == (0, "")
    report = json.loads(text)
    assert report["pairs_of_sets"] == 30
    assert report["held_out"]["accuracy"] > 0.85
    fresh = pair_table(tmp_path / "fresh.csv", seed=1)
    assert json.loads(run(capsys, "evaluate", model, fresh, "--json")[1])["accuracy"] > 0.85
    answers = run(capsys, "predict", model, fresh)[1].splitlines()
    rows = list(csv.DictReader(fresh.open()))
    assert answers[0] == "prediction"
    assert len(answers) == len(rows) + 1
    taken = [(row["day"], row["left"]) for row, a in zip(rows, answers[1:], strict=True) if a == "1"]
    assert len(taken) == len(set(taken))
    assert np.mean([a == row["same"] for row, a in zip(rows, answers[1:], strict=True)]) > 0.9
    assert "near" in run(capsys, "info", model)[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--target", "same", "--group", "day", "--first", "left"], "needs --second"),
        (["--target", "near", "--group", "day", "--first", "left", "--second", "right"], "must be 1 or 0"),
        (["--target", "same", "--group", "left", "--first", "left", "--second", "right"], "was there already"),
        (["--target", "same", "--group", "day", "--first", "left", "--second", "nobody"], "nobody"),
        (["--target", "same", "--weight", "old"], "needs --group"),
        ([], "line 1"),
    ],
)
def test_what_does_not_fit_is_said_in_one_line(tmp_path, capsys, options, message):
    data = pair_table(tmp_path / "pairs.csv", groups=3)
    code, _, error = run(capsys, "fit", data, "--task", "match", "--out", tmp_path / "m.fenchel", *options)
    assert code == 1
    assert len(error.strip().splitlines()) == 1
    assert message in error
