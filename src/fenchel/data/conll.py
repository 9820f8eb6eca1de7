"""CoNLL column files: a token on each line with its columns, an empty line after each sentence."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from .._core.errors import InvalidInput
from .files import text_lines

__all__ = ["read_conll"]

_UNIVERSAL = 10
"""Columns of CoNLL-U, where lines with an id such as 3-4 or 5.1 are no tokens of the sentence."""
_NO_TOKEN = re.compile(r"\d+[-.]\d+")


def read_conll(path: str | os.PathLike[str], *columns: int) -> tuple[list[list[str]], ...]:
    """The sentences of a column file (also ``.gz``), for each column asked for: a list of lists of texts.

    Columns count from 0, or from the end with negative numbers; without any all are read. They are separated by tabs or,
    where the first token has no tab, by spaces. Lines that begin with ``#`` and do not have the columns of the others, and
    those of ``-DOCSTART-``, are left out, and of CoNLL-U also multiword and empty tokens.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from fenchel.data import read_conll
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "names.tsv")
    ...     _ = file.write_text("# doc = 1\\nAda\\tB-PER\\nslept\\tO\\n\\nRome\\tB-LOC\\n")
    ...     words, tags = read_conll(file, 0, -1)
    >>> words, tags
    ([['Ada', 'slept'], ['Rome']], [['B-PER', 'O'], ['B-LOC']])
    """
    source = Path(path)
    if not source.is_file():
        raise FileNotFoundError(f"there is no file {str(source)!r}")
    sentences: list[list[list[str]]] = []
    open_sentence: list[list[str]] = []
    width = 0
    for number, fields in _tokens(source):
        if not fields:
            if open_sentence:
                sentences.append(open_sentence)
                open_sentence = []
            continue
        if not width:
            width = len(fields)
            for column in columns:
                if not -width <= column < width:
                    raise InvalidInput(f"{source} has {width} columns, so there is no column {column}")
        if len(fields) != width:
            raise InvalidInput(
                f"{source}, line {number}: it has {len(fields)} columns, but the first token has {width}"
            )
        open_sentence.append(fields)
    if open_sentence:
        sentences.append(open_sentence)
    if not sentences:
        raise InvalidInput(f"{source} holds no tokens")
    return tuple([[fields[c] for fields in s] for s in sentences] for c in columns or range(width))


def _tokens(source: Path) -> Iterator[tuple[int, list[str]]]:
    """The fields of each line with its number; none where a sentence ends."""
    separator: str | None = None
    width = 0
    with text_lines(source, "a column file") as lines:
        for number, line in enumerate(lines, 1):
            text = line.rstrip("\r\n")
            if not text.strip():
                yield number, []
                continue
            if not width and not text.startswith("#"):
                separator = "\t" if "\t" in text else None
                width = len(text.split(separator))
            fields = text.split(separator)
            if text.startswith("#") and len(fields) != width:
                continue
            if fields[0] == "-DOCSTART-":
                yield number, []
                continue
            if width == _UNIVERSAL and _NO_TOKEN.fullmatch(fields[0]):
                continue
            yield number, fields
