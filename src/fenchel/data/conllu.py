"""CoNLL-U, the format of Universal Dependencies, read without loss."""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from .._core.errors import InvalidInput
from .._core.types import IntArray
from .files import text_lines

__all__ = ["Sentence", "read_conllu", "write_conllu"]

_COLUMNS = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")
_HEAD, _LABEL = _COLUMNS.index("HEAD"), _COLUMNS.index("DEPREL")
_WORD, _RANGE, _EMPTY = re.compile(r"[1-9]\d*"), re.compile(r"([1-9]\d*)-([1-9]\d*)"), re.compile(r"(\d+)\.([1-9]\d*)")


@dataclass(frozen=True)
class Sentence:
    """A sentence of a CoNLL-U file, line by line: comments, multiword tokens and empty nodes are kept as they are.

    Lists like ``forms`` and ``heads`` speak of the syntactic words only, in their order. :meth:`with_parse` gives the
    same sentence with other heads and labels; :func:`write_conllu` writes it back.

    >>> rows = ["1-2 du _ _ _ _ _ _ _ _", "1 de _ ADP _ _ 2 case _ _", "2 le _ DET _ _ 0 root _ _"]
    >>> sentence = Sentence.parse("\\n".join(rows).replace(" ", "\\t"))
    >>> len(sentence), sentence.forms, sentence.heads.tolist(), sentence.labels
    (2, ('de', 'le'), [2, 0], ('case', 'root'))
    >>> sentence.with_parse([0, 1]).heads.tolist()
    [0, 1]
    """

    lines: tuple[str, ...]
    """Comments first, then a line for each word, multiword token and empty node, with ten columns."""

    @classmethod
    def parse(cls, text: str) -> Sentence:
        """The sentence of these lines, checked."""
        return _checked(tuple(text.rstrip("\n").split("\n")), "the sentence", 1)

    @classmethod
    def of(cls, forms: Sequence[str], upos: Sequence[str] | None = None) -> Sentence:
        """A sentence of plain words, with nothing else known but perhaps their parts of speech."""
        tags = ["_"] * len(forms) if upos is None else list(upos)
        if len(tags) != len(forms):
            raise InvalidInput(f"there are {len(forms)} forms but {len(tags)} parts of speech")
        lines = (
            f"{i}\t{form}\t_\t{tag}\t_\t_\t_\t_\t_\t_" for i, (form, tag) in enumerate(zip(forms, tags, strict=True), 1)
        )
        return _checked(tuple(lines), "the sentence", 1)

    def __len__(self) -> int:
        """The number of syntactic words."""
        return len(self._words)

    def __str__(self) -> str:
        return "\n".join(self.lines)

    @cached_property
    def _words(self) -> tuple[tuple[str, ...], ...]:
        rows = (tuple(line.split("\t")) for line in self.lines if not line.startswith("#"))
        return tuple(row for row in rows if _WORD.fullmatch(row[0]))

    @property
    def comments(self) -> tuple[str, ...]:
        return tuple(line for line in self.lines if line.startswith("#"))

    def column(self, name: str) -> tuple[str, ...]:
        """A column of the words, by its name in the format's description (``"LEMMA"``, ``"FEATS"``, ...)."""
        if name not in _COLUMNS:
            raise InvalidInput(f"column is {name!r}, expected one of {', '.join(map(repr, _COLUMNS))}")
        at = _COLUMNS.index(name)
        return tuple(row[at] for row in self._words)

    @property
    def forms(self) -> tuple[str, ...]:
        return self.column("FORM")

    @property
    def upos(self) -> tuple[str, ...]:
        return self.column("UPOS")

    @property
    def xpos(self) -> tuple[str, ...]:
        return self.column("XPOS")

    @property
    def labels(self) -> tuple[str, ...]:
        return self.column("DEPREL")

    @property
    def heads(self) -> IntArray:
        """The head of each word, 0 for the root, −1 where the file has none (``_``)."""
        return np.array([-1 if head == "_" else int(head) for head in self.column("HEAD")], np.int64)

    def with_parse(self, heads: Sequence[int] | IntArray, labels: Sequence[str] | None = None) -> Sentence:
        """The same sentence with these heads, and labels if given; all other columns, enhanced ones too, stay."""
        given = [int(head) for head in heads]
        if len(given) != len(self) or (labels is not None and len(labels) != len(self)):
            count = len(given) if labels is None or len(given) != len(self) else len(labels)
            raise InvalidInput(f"the sentence has {len(self)} words, but there are {count} heads or labels")
        for i, label in enumerate(labels or ()):
            if not label or any(c in label for c in "\t\r\n"):
                raise InvalidInput(
                    f"the label of word {i + 1} is {label!r}, expected a text without tabs and line ends"
                )
        for i, head in enumerate(given):
            if not 0 <= head <= len(self) or head == i + 1:
                raise InvalidInput(f"the head of word {i + 1} is {head}, expected another word or 0")
        lines = []
        for line in self.lines:
            row = line.split("\t")
            if not line.startswith("#") and _WORD.fullmatch(row[0]):
                i = int(row[0]) - 1
                row[_HEAD] = str(given[i])
                if labels is not None:
                    row[_LABEL] = labels[i]
                line = "\t".join(row)
            lines.append(line)
        return Sentence(tuple(lines))


def read_conllu(path: str | os.PathLike[str]) -> list[Sentence]:
    """The sentences of a CoNLL-U file (also ``.gz``). A malformed line is refused by file and line.

    What :func:`write_conllu` writes of them is the file again, but for more than one empty line between two sentences and for
    line ends of Windows.
    """
    source = Path(path)
    if not source.is_file():
        raise FileNotFoundError(f"there is no file {str(source)!r}")
    sentences = [_checked(lines, str(source), first) for first, lines in _blocks(source)]
    if not sentences:
        raise InvalidInput(f"{source} holds no sentences")
    return sentences


def write_conllu(path: str | os.PathLike[str], sentences: Iterable[Sentence]) -> None:
    """Write sentences to a file, compressed if its name ends in ``.gz``."""
    target = Path(path)
    text = "".join(f"{sentence}\n\n" for sentence in sentences).encode()
    target.write_bytes(gzip.compress(text) if target.name.lower().endswith(".gz") else text)


def _blocks(source: Path) -> Iterator[tuple[int, tuple[str, ...]]]:
    """The number of the first line of each sentence, and its lines."""
    block: list[str] = []
    first = 1
    with text_lines(source, "a CoNLL-U file") as lines:
        for number, line in enumerate(lines, 1):
            text = line.rstrip("\r\n")
            if text.strip():
                if not block:
                    first = number
                block.append(text)
            elif block:
                yield first, tuple(block)
                block = []
    if block:
        yield first, tuple(block)


def _checked(lines: tuple[str, ...], source: str, first: int) -> Sentence:
    def fault(offset: int, message: str) -> InvalidInput:
        return InvalidInput(f"{source}, line {first + offset}: {message}")

    words = 0
    sub = 0  # the number of the last empty node after the last word
    covered = 0  # the last word of the last multiword token
    heads: list[tuple[int, str]] = []
    for offset, line in enumerate(lines):
        if line.startswith("#"):
            if words or sub or covered:
                raise fault(offset, "a comment between words; comments stand before a sentence")
            continue
        row = line.split("\t")
        if len(row) != len(_COLUMNS):
            hint = " (columns are separated by tabs)" if len(row) == 1 else ""
            raise fault(offset, f"it has {len(row)} columns, expected {len(_COLUMNS)}{hint}")
        if any(field == "" for field in row):
            raise fault(offset, f"column {_COLUMNS[row.index('')]} is empty; write _ for nothing")
        if _WORD.fullmatch(row[0]):
            if int(row[0]) != words + 1:
                raise fault(offset, f"word {row[0]} follows word {words}; words are numbered 1, 2, 3, ...")
            words, sub = words + 1, 0
            heads.append((offset, row[_HEAD]))
        elif match := _RANGE.fullmatch(row[0]):
            low, high = int(match[1]), int(match[2])
            if low != words + 1 or high <= low or low <= covered:
                raise fault(offset, f"the multiword token {row[0]} does not begin with the next word, {words + 1}")
            covered = high
        elif match := _EMPTY.fullmatch(row[0]):
            if int(match[1]) != words or int(match[2]) != sub + 1:
                raise fault(offset, f"the empty node {row[0]} does not follow word {words}, empty node {sub}")
            sub += 1
        else:
            raise fault(offset, f"ID is {row[0]!r}, expected 3, 3-4 or 3.1")
    if not words:
        raise fault(0, "a sentence without words")
    if covered > words:
        raise fault(len(lines) - 1, f"a multiword token reaches to word {covered}, but the last word is {words}")
    for i, (offset, head) in enumerate(heads, 1):
        if head != "_" and not (head.isdecimal() and int(head) <= words and int(head) != i):
            raise fault(offset, f"HEAD of word {i} is {head!r}, expected _, 0 or another word up to {words}")
    return Sentence(lines)
