"""Every code block of the README and the docs runs, and prints what it says it prints."""

import contextlib
import gzip
import io
import re
import shlex
import sys
import types
from pathlib import Path

import numpy as np
import pytest

from fenchel.data import moving_boxes, small_treebank, write_conllu

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page, language):
    return [code for kind, code in BLOCK.findall(page.read_text()) if kind == language]


def with_python():
    """The pages with code; those whose code is for PyTorch are marked."""
    for page in PAGES:
        code = "".join(blocks(page, "python"))
        if code:
            yield pytest.param(page, marks=[pytest.mark.torch] if "import torch" in code else [], id=page.name)


@pytest.mark.parametrize("page", list(with_python()))
def test_python_blocks(page, monkeypatch, tmp_path):
    if "import torch" in page.read_text():
        pytest.importorskip("torch")
    module = types.ModuleType("docs_page")  # a real module, so that what the page defines can be pickled
    monkeypatch.setitem(sys.modules, "docs_page", module)
    monkeypatch.chdir(tmp_path)
    names = vars(module)
    for code in blocks(page, "python"):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(page), "exec"), names)
        expected = re.findall(r"# -> (.*)$", code, re.MULTILINE)
        lines = printed.getvalue().splitlines()
        if expected:
            assert [line.strip() for line in lines] == [line.strip() for line in expected]


def write_examples(folder, X, y):
    """The files that the page on the command line speaks of, made of irises."""
    for name in ("train", "test"):
        write_conllu(folder / f"{name}.conllu", small_treebank(30, random_state=len(name)))
    grades = np.array(["bad", "fair", "good"])[y]
    orders = np.array(["rice>soup>beans", "soup>rice>beans", "beans>soup>rice"])[y]
    for name, column, values in (("reviews", "stars", grades), ("meals", "ranking", orders)):
        lines = [",".join(map(str, x)) + f",{value}" for x, value in zip(X, values, strict=True)]
        (folder / f"{name}.csv").write_text("\n".join([f"a,b,c,d,{column}", *lines]))
    sets = np.column_stack([y == 0, y > 0, X[:, 1] > 3]).astype(int)
    head = "".join(f"@attribute {name} {{0,1}}\n" for name in ("happy", "sad", "calm"))
    head += "".join(f"@attribute '{name} of it' numeric\n" for name in "abcd")
    body = "\n".join(",".join(map(str, [*labels, *x])) for labels, x in zip(sets, X, strict=True))
    (folder / "songs.arff").write_text(f"@relation songs\n{head}@data\n{body}\n")
    boxes = moving_boxes(30, 4, random_state=0)
    rows = [f"{f},{i},{','.join(map(str, box))}" for f, i, box in zip(boxes.frame, boxes.id, boxes.box, strict=True)]
    (folder / "boxes.csv").write_text("\n".join(["frame,id,left,top,width,height", *rows]) + "\n")
    lines = [
        ",".join(map(str, np.flatnonzero(labels))) + "".join(f" {j + 1}:{value}" for j, value in enumerate(x))
        for labels, x in zip(sets, X, strict=True)
    ]
    (folder / "songs.svm.gz").write_bytes(gzip.compress("\n".join(lines).encode(), mtime=0))
    sentences = ("Ada\tB-PER\nsaw\tO\nNew\tB-LOC\nYork\tI-LOC", "Rome\tB-LOC\nis\tO", "Bob\tB-PER\nsaw\tO\nAda\tB-PER")
    for name in ("train", "test", "new"):
        (folder / f"{name}.tsv").write_text("\n\n".join(sentences * 5))


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "console")], ids=lambda p: p.name)
def test_console_blocks(page, tmp_path, monkeypatch, capsys):
    from sklearn.datasets import load_iris

    from fenchel.cli.main import main

    iris = load_iris()
    rows = ["sepal length,sepal width,petal length,petal width,species"]
    rows += [",".join(map(str, x)) + f",{iris.target_names[y]}" for x, y in zip(iris.data, iris.target, strict=True)]
    (tmp_path / "iris.csv").write_text("\n".join(rows) + "\n")
    write_examples(tmp_path, iris.data[::2], iris.target[::2])
    for table in blocks(page, "csv"):
        (tmp_path / "costs.csv").write_text(table)
    monkeypatch.chdir(tmp_path)
    for code in blocks(page, "console"):
        for line in code.splitlines():
            if line.startswith("$ fenchel "):
                assert main(shlex.split(line.removeprefix("$ fenchel "))) == 0, capsys.readouterr().err


def test_the_site_lists_every_page():
    nav = (ROOT / "mkdocs.yml").read_text()
    for page in (ROOT / "docs").glob("*.md"):
        assert page.name in nav, f"{page.name} is not in mkdocs.yml"


def test_the_reference_lists_every_kind_of_registered_part():
    from fenchel._core import registry

    text = (ROOT / "docs" / "reference.md").read_text()
    inner = {
        "smoothed_game",
        "experiment",
        "state",
        "transformer",
        "regularizer",
    }  # run by name, or of no use by themselves
    for kind in {entry.kind for entry in registry.entries()} - inner:
        assert f"<!-- reference:{kind} -->" in text, f"the {kind}s are missing from reference.md"


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}, which is not there"
