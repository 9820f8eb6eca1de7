"""``fenchel fit --task tag``: column files in, a tagger, column files out."""

import json
import re

import numpy as np
import pytest
from test_cli import fails, run

import fenchel
from fenchel.data import read_conll
from fenchel.metrics import entity_scores

NAMES = {"PER": ["Ada", "Bob", "Eve"], "LOC": ["Rome", "Oslo"]}


def corpus(path, n=60, seed=0, tags=True):
    rng = np.random.default_rng(seed)
    lines = []
    for _ in range(n):
        for _ in range(rng.integers(2, 6)):
            kind = rng.choice(["PER", "LOC", "O"])
            if kind == "O":
                lines.append((rng.choice(["goes", "to", "sleeps", '"']), "v", "O"))
            else:
                for t in range(rng.integers(1, 3)):
                    lines.append((rng.choice(NAMES[kind]), "n", ("B-" if t == 0 else "I-") + kind))
        lines.append(())
    path.write_text("\n".join("\t".join(line if tags else line[:-1]) for line in lines))
    return path


def test_from_fit_to_info(tmp_path, capsys):
    data, model = corpus(tmp_path / "t.tsv"), tmp_path / "m"
    args = ["fit", data, "--task", "tag", "--out", model]
    code, text, err = run(capsys, *args)
    assert (code, err) == (0, "")
    for part in ("60 sentences", "5 tags", "Choice of alpha", "<- chosen", "On 12 held-out sentences", "entity F1",
                 "always ", "Saved"):  # fmt: skip
        assert part in text
    code, text, _ = run(capsys, *args, "--overwrite", "--json")
    report = json.loads(text)
    assert report["held_out"]["f1"] > 0.6 > report["held_out"]["baseline"]["f1"]
    assert report["columns"] == [0, 1]
    other = corpus(tmp_path / "o.tsv", seed=1)
    code, text, _ = run(capsys, "evaluate", model, other, "--json")
    scores = json.loads(text)
    loaded = fenchel.load(model)
    words, kinds, truth = read_conll(other)
    ours = loaded.predict([list(pair) for pair in zip(words, kinds, strict=True)])
    assert scores["f1"] == pytest.approx(entity_scores(ours, truth).f1)
    assert scores["by_kind"]["PER"]["true"] > 0
    assert "F1 of LOC" in run(capsys, "evaluate", model, other)[1]
    bare = corpus(tmp_path / "b.tsv", seed=1, tags=False)
    code, text, _ = run(capsys, "predict", model, bare)
    (tmp_path / "p.tsv").write_text(text)
    assert read_conll(tmp_path / "p.tsv", 0, -1) == (words, ours)
    code, text, _ = run(capsys, "predict", model, other, "--proba", "--out", tmp_path / "q.tsv")
    assert "Wrote" in text
    back = read_conll(tmp_path / "q.tsv")
    assert back[2:4] == (truth, ours)
    assert all(0 < float(p) <= 1 for sentence in back[4] for p in sentence)
    code, text, _ = run(capsys, "info", model)
    assert re.search(r"tags +B-LOC, B-PER, I-LOC, I-PER, O", text)
    assert "entity F1" in text


@pytest.mark.parametrize("options", [["--loss", "perceptron"], ["--constraints", "BIO", "--cost", "zero_one", "--weights", "all"],
                                     ["--loss", "sparsemap", "--drop", "1", "--alpha", "0.01", "--test-share", "0"]])  # fmt: skip
def test_options(tmp_path, capsys, options):
    data, model = corpus(tmp_path / "t.tsv", 30), tmp_path / "m"
    code, _, err = run(
        capsys, "fit", data, "--task", "tag", "--out", model, "--max-iter", "300", "--tol", "0.01", *options
    )
    assert code == 0, err
    assert run(capsys, "evaluate", model, data)[0] == 0
    if "perceptron" in options:
        assert "--proba needs a model fitted with --loss crf" in fails(capsys, "predict", model, data, "--proba")


def test_what_does_not_fit_is_said_in_one_line(tmp_path, capsys):
    data, model = corpus(tmp_path / "t.tsv", 10), tmp_path / "m"
    fit = ["fit", data, "--task", "tag", "--out", model]
    for options, words in (
        (["--target", "3"], "has 3 columns, so there is no column 3, which --target names"),
        (["--word", "-1"], "both name column 2"),
        (["--drop", "pos"], "expected the number of a column"),
        (["--weight", "w"], "--weight is not for --task tag"),
        (
            ["--loss", "hinge", "--cost", "zero_one", "--alpha", "1"],
            "--loss hinge and --cost zero_one do not go together",
        ),
    ):
        assert words in fails(capsys, *fit, *options)
    assert run(capsys, *fit, "--alpha", "0.1")[0] == 0
    wrong = tmp_path / "w.tsv"
    wrong.write_text("a\tb\tc\td\n")
    assert "has 4 columns, but the model was trained with 3" in fails(capsys, "evaluate", model, wrong)
