"""Features of arcs between words, as graph-based dependency parsers have them."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._core.ragged import Ragged, offsets_of
from .._core.types import Array, IntArray
from .conllu import Sentence

__all__ = ["arc_rows", "label_rows"]

# What features are made of: columns of CoNLL-U of the head (h) and its dependent (m), and of their neighbours.
_ARCS = """
h.FORM h.UPOS|h.FORM|h.UPOS|h.LEMMA|m.FORM m.UPOS|m.FORM|m.UPOS|m.LEMMA
h.FORM h.UPOS m.FORM m.UPOS|h.UPOS m.FORM m.UPOS|h.FORM m.FORM m.UPOS|h.FORM h.UPOS m.UPOS|h.FORM h.UPOS m.FORM
h.FORM m.FORM|h.LEMMA m.LEMMA|h.UPOS m.UPOS|h.LEMMA m.UPOS|h.UPOS m.LEMMA|h.XPOS m.XPOS|h.UPOS m.FEATS|h.FEATS m.UPOS
h.UPOS h+1.UPOS m-1.UPOS m.UPOS|h-1.UPOS h.UPOS m-1.UPOS m.UPOS
h.UPOS h+1.UPOS m.UPOS m+1.UPOS|h-1.UPOS h.UPOS m.UPOS m+1.UPOS
h.UPOS m-1.UPOS m.UPOS|h.UPOS m.UPOS m+1.UPOS|h-1.UPOS h.UPOS m.UPOS|h.UPOS h+1.UPOS m.UPOS
"""
_LABELS = """
m.FORM|m.LEMMA|m.UPOS|m.XPOS|m.FEATS|h.FORM|h.LEMMA|h.UPOS|h.XPOS|h.FEATS|h.UPOS m.UPOS|h.XPOS m.XPOS|h.LEMMA m.LEMMA
h.UPOS m.LEMMA|h.LEMMA m.UPOS|h.UPOS m.FEATS|m-1.UPOS m.UPOS|m.UPOS m+1.UPOS|h.UPOS m-1.UPOS m.UPOS|h.UPOS m.UPOS m+1.UPOS
"""
_COLUMNS = ("FORM", "LEMMA", "UPOS", "XPOS", "FEATS")
_DISTANCES = np.array([2, 3, 4, 5, 6, 11])
"""Where classes of distances begin."""
_ARCS_AT_ONCE = 20_000

_Part = tuple[int, int, int]  # 0 for the head and 1 for its dependent, the offset of a neighbour, the column


def _templates(text: str) -> list[list[_Part]]:
    def part(name: str) -> _Part:
        place, column = name.split(".")
        return int(place[0] == "m"), int(place[1:] or 0), _COLUMNS.index(column)

    return [[part(name) for name in item.split()] for item in text.strip().replace("\n", "|").split("|")]


_ARC_TEMPLATES, _LABEL_TEMPLATES = _templates(_ARCS), _templates(_LABELS)


def arc_rows(sentences: Sequence[Sentence], columns: int) -> Any:
    """A CSR matrix with a row for each word and each possible head, features hashed to so many columns.

    For a sentence of n words there are n · (n + 1) rows: word by word, and of each word head by head, 0 for the root. The row of
    a word as its own head is empty. Features are combinations of form, lemma, tags and morphology of both words and
    of the tags next to them, each with the direction of the arc and again with its distance too, and the tags of the
    words between, as in McDonald, Crammer and Pereira, "Online large-margin training of dependency parsers", 2005.
    All values are 1. Costs O(n²) numbers for each template and O(n³) for the words between.

    >>> from fenchel.data import Sentence
    >>> from fenchel.data.arc_features import arc_rows
    >>> arc_rows([Sentence.of(["dogs", "bark"], ["NOUN", "VERB"])], 1000).shape
    (6, 1000)
    """
    from scipy import sparse

    blocks = []
    for part in _parts(sentences):
        words = _Words(part)
        n = words.sizes
        first = np.repeat(words.first, n)  # of each word's sentence, the root
        counts = np.repeat(n + 1, n)
        m = np.repeat(_counted(first + 1, words), counts)
        h = np.repeat(first, counts) + _within(counts)
        rows = np.flatnonzero(h != m)
        codes, places = _codes(words, h[rows], m[rows], _ARC_TEMPLATES, columns)
        between = _between(words, h[rows], m[rows], columns)
        cols = np.concatenate([codes.ravel(), between[1]])
        at = np.concatenate([rows[places], rows[between[0]]])
        blocks.append(_ones(at, cols, (len(h), columns)))
    return sparse.vstack(blocks, format="csr") if blocks else sparse.csr_matrix((0, columns))


def label_rows(sentences: Sequence[Sentence], heads: Sequence[IntArray], columns: int) -> Any:
    """A CSR matrix with a row for each word and the head it has: what tells the label of the arc, hashed.

    >>> from fenchel.data import Sentence
    >>> from fenchel.data.arc_features import label_rows
    >>> label_rows([Sentence.of(["dogs", "bark"], ["NOUN", "VERB"])], [[2, 0]], 1000).shape
    (2, 1000)
    """
    words = _Words(sentences)
    first = np.repeat(words.first, words.sizes)
    h = first + np.concatenate([np.zeros(0, np.int64), *(np.asarray(own, np.int64) for own in heads)])
    codes, rows = _codes(words, h, _counted(first + 1, words), _LABEL_TEMPLATES, columns)
    return _ones(rows, codes.ravel(), (len(h), columns))


class _Words:
    """Hashes of the columns of all words; each sentence between a start and an end, its root before the first word."""

    def __init__(self, sentences: Sequence[Sentence]) -> None:
        self.sizes = np.array([len(sentence) for sentence in sentences], np.int64)
        self.first = offsets_of(self.sizes + 3)[:-1] + 1
        known: dict[str, int] = {}

        def code(text: str) -> int:
            found = known.get(text)
            if found is None:
                found = known[text] = zlib.crc32(text.encode())
            return found

        self.codes = np.array(
            [
                [code(text) for s in sentences for text in ("<s>", "<root>", *s.column(name), "</s>")]
                for name in _COLUMNS
            ],
            dtype=np.uint64,
        )


def _parts(sentences: Sequence[Sentence]) -> list[list[Sentence]]:
    """Sentences in groups that fit into memory."""
    parts: list[list[Sentence]] = []
    room = 0
    for sentence in sentences:
        arcs = len(sentence) * (len(sentence) + 1)
        if room < arcs:
            parts.append([])
            room = max(_ARCS_AT_ONCE, arcs)
        parts[-1].append(sentence)
        room -= arcs
    return parts


def _within(counts: IntArray) -> IntArray:
    """0, 1, ... up to each count."""
    return Ragged(np.zeros(0), offsets_of(counts)).places(np.arange(len(counts))) - np.repeat(
        offsets_of(counts)[:-1], counts
    )


def _counted(start: IntArray, words: _Words) -> IntArray:
    return start + _within(words.sizes)


def _codes(
    words: _Words, h: IntArray, m: IntArray, templates: list[list[_Part]], columns: int
) -> tuple[IntArray, IntArray]:
    """The columns of the features of each arc, and the arc that each belongs to."""
    side = (h < m).astype(np.uint64)
    far = side + np.uint64(2) * (1 + np.searchsorted(_DISTANCES, np.abs(h - m), side="right")).astype(np.uint64)
    codes = np.empty((len(h), 2 * len(templates) + 1), np.int64)
    for t, template in enumerate(templates):
        mixed = np.full(len(h), t + 1, np.uint64)
        for who, offset, column in template:
            mixed = _mixed(mixed, words.codes[column, (m if who else h) + offset])
        codes[:, 2 * t] = _mixed(mixed, side) % np.uint64(columns)
        codes[:, 2 * t + 1] = _mixed(mixed, far) % np.uint64(columns)
    codes[:, -1] = _mixed(np.zeros(len(h), np.uint64), far) % np.uint64(columns)
    return codes, np.repeat(np.arange(len(h)), codes.shape[1])


def _between(words: _Words, h: IntArray, m: IntArray, columns: int) -> tuple[IntArray, IntArray]:
    """For each word between the two of an arc the arc's number and the feature's column."""
    counts = np.abs(h - m) - 1
    arc = np.repeat(np.arange(len(h)), counts)
    middle = np.minimum(h, m)[arc] + 1 + _within(counts)
    tags: Callable[[IntArray], Array] = words.codes[_COLUMNS.index("UPOS")].__getitem__
    mixed = np.full(len(arc), len(_ARC_TEMPLATES) + 1, np.uint64)
    for part in (tags(h)[arc], tags(middle), tags(m)[arc], (h < m)[arc].astype(np.uint64)):
        mixed = _mixed(mixed, part)
    return arc, (mixed % np.uint64(columns)).astype(np.int64)


def _mixed(state: Array, part: Array) -> Array:
    """One round of multiplying and shifting, in unsigned numbers that wrap around."""
    state = (state ^ (part + np.uint64(0x9E3779B97F4A7C15))) * np.uint64(0xBF58476D1CE4E5B9)
    out: Array = state ^ (state >> np.uint64(31))
    return out


def _ones(rows: IntArray, cols: IntArray, shape: tuple[int, int]) -> Any:
    from scipy import sparse

    matrix = sparse.coo_matrix((np.ones(len(rows)), (rows, cols)), shape=shape).tocsr()
    matrix.data[:] = 1.0
    return matrix
