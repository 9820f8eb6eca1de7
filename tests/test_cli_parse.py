"""``fenchel fit --task parse``: CoNLL-U files in, a parser, CoNLL-U files out; scores of one file by another."""

import json

import pytest
from test_cli import fails, run

import fenchel
from fenchel.data import read_conllu, small_treebank, write_conllu
from fenchel.metrics import attachment_scores


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parse")
    write_conllu(folder / "train.conllu", small_treebank(60, random_state=0))
    write_conllu(folder / "test.conllu.gz", small_treebank(40, random_state=1))
    return folder


def test_from_fit_to_evaluate(files, tmp_path, capsys):
    train, test, model = files / "train.conllu", files / "test.conllu.gz", tmp_path / "m"
    args = ["fit", train, "--task", "parse", "--out", model, "--tol", "0.01"]
    code, text, err = run(capsys, *args)
    assert (code, err) == (0, "")
    for part in ("60 sentences", "14 labels", "Choice of alpha", "<- chosen", "On 12 held-out sentences", "UAS",
                 "without punctuation", "Saved"):  # fmt: skip
        assert part in text
    code, text, _ = run(capsys, *args, "--overwrite", "--json")
    report = json.loads(text)
    assert report["held_out"]["uas"] > 0.85
    assert report["alpha"]["chosen_by"] == "validation"
    assert report["final"]["converged"]
    loaded = fenchel.load(model)
    gold = read_conllu(test)
    expected = attachment_scores(gold, loaded.predict(gold))
    code, text, _ = run(capsys, "evaluate", model, test, "--json")
    scores = json.loads(text)
    assert scores["las"] == pytest.approx(expected.las)
    assert expected.las > 0.85
    out = tmp_path / "system.conllu"
    code, text, _ = run(capsys, "predict", model, test, "--out", out)
    assert "Wrote 40 predictions" in text
    assert [str(s) for s in read_conllu(out)] == [str(s) for s in loaded.predict(gold)]
    code, text, _ = run(capsys, "evaluate", test, out, "--json")
    compared = json.loads(text)
    for key in ("uas", "las", "ucm", "lcm", "without_punctuation", "words"):
        assert compared[key] == scores[key]
    assert f"{expected.uas:.4f}" in run(capsys, "evaluate", test, out)[1]
    text = run(capsys, "info", model)[1]
    for part in ("HEAD and DEPREL", "nsubj", "LAS"):
        assert part in text


@pytest.mark.torch
def test_a_network(files, tmp_path, capsys):
    pytest.importorskip("torch")
    few = tmp_path / "few.conllu"
    write_conllu(few, small_treebank(6, random_state=0))
    fit = ["fit", few, "--task", "parse", "--features", "neural", "--loss", "head-selection", "--out", tmp_path / "m"]
    assert "--alpha is not for --features neural" in fails(capsys, *fit, "--alpha", "0.1")
    code, text, err = run(capsys, *fit, "--test-share", "0")
    assert (code, err) == (0, "")
    assert "epochs" in text
    assert "alpha" not in text
    assert "gap" not in text
    scores = json.loads(run(capsys, "evaluate", tmp_path / "m", few, "--json")[1])
    assert scores["uas"] == 1.0
    text = run(capsys, "info", tmp_path / "m")[1]
    assert "head-selection" in text


def test_what_is_in_the_file_stays(files, tmp_path, capsys):
    model = tmp_path / "m"
    options = ["--alpha", "0.1", "--test-share", "0", "--tol", "0.1", "--quiet"]
    assert run(capsys, "fit", files / "train.conllu", "--task", "parse", "--out", model, *options)[0] == 0
    text = "# a = 1\n1-2\tdu\t_\t_\t_\t_\t_\t_\t_\t_\n1\tthe\t_\tDET\t_\t_\t_\t_\t_\tx\n2\tdog\t_\tNOUN\t_\t_\t_\t_\t_\t_\n"
    (tmp_path / "in.conllu").write_text(text + "2.1\tran\t_\t_\t_\t_\t_\t_\t0:root\t_\n\n")
    code, out, _ = run(capsys, "predict", model, tmp_path / "in.conllu")
    assert code == 0
    rows = [line.split("\t") for line in out.splitlines()]
    assert rows[0] == ["# a = 1"]
    assert rows[1] == ["1-2", "du", "_", "_", "_", "_", "_", "_", "_", "_"]
    assert rows[2][6:] == ["2", "det", "_", "x"]
    assert rows[3][6] == "0"
    assert rows[4][8] == "0:root"
    assert out.endswith("\n\n")


def test_mistakes_are_named(files, tmp_path, capsys):
    train = files / "train.conllu"
    fit = ["fit", train, "--task", "parse", "--out", tmp_path / "m"]
    assert "--weight is not for --task parse" in fails(capsys, *fit, "--weight", "a")
    assert "--drop is not for --task parse" in fails(capsys, *fit, "--drop", "a")
    assert "loss is 'binary'" in fails(capsys, *fit, "--loss", "binary")
    bare = tmp_path / "bare.conllu"
    bare.write_text("1\tthe\t_\tDET\t_\t_\t_\t_\t_\t_\n\n")
    assert "word 1 has no head" in fails(capsys, "fit", bare, "--task", "parse", "--out", tmp_path / "m")
    assert "sentence 1 has words without a head" in fails(capsys, "evaluate", bare, bare)
    assert "has 60 sentences" in fails(capsys, "evaluate", train, files / "test.conllu.gz")
    assert "--weight is not for comparing" in fails(capsys, "evaluate", train, train, "--weight", "a")
    (tmp_path / "bad.conllu").write_text("1\tthe\n")
    assert "bad.conllu, line 1" in fails(capsys, "evaluate", train, tmp_path / "bad.conllu")
    two = tmp_path / "two.conllu"
    two.write_text("1\ta\t_\t_\t_\t_\t0\troot\t_\t_\n2\tb\t_\t_\t_\t_\t0\troot\t_\t_\n\n" * 4)
    assert "2 words hang on the root" in fails(capsys, "fit", two, "--task", "parse", "--out", tmp_path / "m")
    code, _, _ = run(capsys, "fit", two, "--task", "parse", "--out", tmp_path / "m", "--many-roots", "--quiet")
    assert code == 0
    assert "--proba is not for parses" in fails(capsys, "predict", tmp_path / "m", two, "--proba")
    assert "--weight is not for a model" in fails(capsys, "evaluate", tmp_path / "m", two, "--weight", "a")


def test_a_conllu_file_is_parsed_where_no_task_is_named_and_the_help_speaks_of_it(files, tmp_path, capsys):
    out = tmp_path / "m"
    options = ["--alpha", "0.1", "--test-share", "0", "--loss", "head-selection", "--penalty", "norm", "--json"]
    code, text, _ = run(capsys, "fit", files / "train.conllu", "--out", out, *options)
    report = json.loads(text)
    assert (code, report["task"], report["loss"], report["penalty"]) == (0, "parse", "head-selection", "norm")
    estimator = fenchel.load(out).estimator
    assert (estimator.penalty, estimator.tol, estimator.max_iter) == ("norm", 1e-2, 200)
    assert "norm" in run(capsys, "info", out)[1]
    text = run(capsys, "fit", "--task", "parse", "--help")[1]
    for part in ("a CoNLL-U file", "train.conllu --out parser.fenchel", "(default: 0.01)", "(default: 200)"):
        assert part in text
    for part in ("--drop COL", "flowers.csv", ".parquet"):
        assert part not in text
    assert "--target" in fails(capsys, "fit", files / "train.conllu", "--task", "classify", "--out", out, code=2)


def test_minimum_risk_has_no_gap_to_tell(files, tmp_path, capsys):
    out = tmp_path / "m"
    options = ["--alpha", "0.1", "--test-share", "0", "--loss", "minimum-risk"]
    code, text, err = run(capsys, "fit", files / "train.conllu", "--out", out, *options)
    assert (code, err) == (0, "")
    assert next(line for line in text.splitlines() if "duality gap" in line).split()[-1] == "-"
    assert json.loads(run(capsys, "info", out, "--json")[1])["duality_gap"] is None
    assert fenchel.load(out).estimator.dual_gap_ == float("inf")


def test_sentences_that_are_no_trees_are_named_by_file_and_place(files, tmp_path, capsys):
    good = "# sent_id = a\n1\tx\t_\t_\t_\t_\t0\troot\t_\t_\n\n"
    path = tmp_path / "wrong.conllu"
    for heads, message in (
        ((2, 3, 1), r"sentence 2 (sent_id = b): the heads [2, 3, 1] are no tree: word 1 is on or behind a cycle"),
        ((0, 3, 0), "2 words hang on the root; --many-roots allows that"),
        ((0, "_", 1), "word 2 has no head"),
    ):
        rows = "".join(f"{i}\tw\t_\t_\t_\t_\t{h}\tdep\t_\t_\n" for i, h in enumerate(heads, 1))
        path.write_text(good + "# sent_id = b\n" + rows + "\n")
        err = fails(capsys, "fit", path, "--out", tmp_path / "m")
        assert "wrong.conllu, sentence 2" in err
        assert message in err


def test_files_of_other_words_are_not_compared(files, tmp_path, capsys):
    gold, system = tmp_path / "gold.conllu", tmp_path / "system.conllu"
    gold.write_text("1\tdogs\t_\t_\t_\t_\t2\t_\t_\t_\n2\tbark\t_\t_\t_\t_\t0\t_\t_\t_\n\n")
    system.write_text("1\tdogs\t_\t_\t_\t_\t2\t_\t_\t_\n2\tmeow\t_\t_\t_\t_\t0\t_\t_\t_\n\n")
    err = fails(capsys, "evaluate", gold, system)
    assert "sentence 1 has other words" in err
    assert "word 2 is 'meow', not 'bark'" in err
    system.write_text("1\tdogs\t_\t_\t_\t_\t0\t_\t_\t_\n\n")
    assert "word 2 is missing, not 'bark'" in fails(capsys, "evaluate", gold, system)
