"""The OCR letters: handwritten words as sequences of small black-and-white pictures."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._core.errors import InvalidInput
from .._core.ragged import offsets_of
from .._core.types import Array, IntArray
from .files import ending, text_lines

__all__ = ["Letters", "read_letters"]

_PIXELS = 128


class Letters(NamedTuple):
    """Words as arrays (letters, 128) of pixels 0 and 1, row by row of 16 x 8; their letters; their fold, 0 to 9."""

    X: list[Array]
    y: list[list[str]]
    fold: IntArray


def read_letters(path: str | os.PathLike[str]) -> Letters:
    """Read Taskar's OCR data set: the published ``letter.data`` (also ``.gz``), or an ``.npz`` with its numbers packed.

    A line of ``letter.data`` is a letter: id, letter, id of the next one (-1 at the end of a word), word, position, fold
    and 128 pixels, separated by tabs. The ``.npz`` has ``pixels_packed`` (``np.packbits`` of the pixels), ``letter`` from
    0 to 25, ``word_start`` (offsets) and ``fold`` (of words).

    Reference: Taskar, Guestrin and Koller, "Max-margin Markov networks", 2003, after Kassel's data.
    """
    source = Path(path)
    if not source.is_file():
        raise FileNotFoundError(f"there is no file {str(source)!r}")
    if ending(source) == ".npz":
        with np.load(source, allow_pickle=False) as content:
            absent = [name for name in ("pixels_packed", "letter", "word_start", "fold") if name not in content]
            if absent:
                raise InvalidInput(f"{source} lacks the array {absent[0]!r}")
            pixels = np.unpackbits(content["pixels_packed"], axis=1)[:, :_PIXELS]
            letter, starts, fold = content["letter"], content["word_start"].astype(np.int64), content["fold"]
    else:
        pixels, letter, starts, fold = _published(source)
    cuts = starts[1:-1]
    alphabet = np.array([chr(ord("a") + i) for i in range(26)])
    words = [w.tolist() for w in np.split(alphabet[letter], cuts)]
    return Letters(np.split(pixels.astype(np.float64), cuts), words, np.asarray(fold, dtype=np.int64))


def _published(source: Path) -> tuple[Array, IntArray, IntArray, Any]:
    pixels, letters, lengths, folds = [], [], [], []
    new = True
    with text_lines(source, "letter.data, fields separated by tabs") as lines:
        for number, line in enumerate(lines, 1):
            fields = line.split("\t")
            if fields[-1].strip() == "":
                fields = fields[:-1]
            if len(fields) != 6 + _PIXELS or len(fields[1]) != 1:
                raise InvalidInput(
                    f"{source}, line {number}: it has {len(fields)} fields, expected {6 + _PIXELS}: id, letter, next, word, "
                    "position, fold, pixels"
                )
            if new:
                lengths.append(0)
                folds.append(int(fields[5]))
            lengths[-1] += 1
            letters.append(ord(fields[1]) - ord("a"))
            pixels.append(np.array(fields[6:], dtype=np.uint8))
            new = fields[2] == "-1"
    if not letters:
        raise InvalidInput(f"{source} holds no letters")
    return np.array(pixels), np.array(letters), offsets_of(np.array(lengths)), folds
