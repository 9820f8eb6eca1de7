"""Features of words in their sentence, as dicts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from .._core.checks import check_count

__all__ = ["word_features"]

_RUNS = re.compile(r"(.)\1+")


def word_features(words: Sequence[str], *, window: int = 1, affix: int = 4) -> list[dict[str, Any]]:
    """What a tagger asks of each word of a sentence: itself, how it begins and ends, its shape, and its neighbours.

    ``window`` neighbours on either side are told, ends of up to ``affix`` letters. Enough to begin with; for
    more, make your own dicts.

    >>> from fenchel.data import word_features
    >>> word_features(["To", "Rome"], affix=1)[1]
    {'word': 'rome', 'shape': 'Xx', 'prefix': ['r'], 'suffix': ['e'], '-1': {'word': 'to', 'shape': 'Xx'}, '+1': ['end']}
    """
    check_count(window, "window", minimum=0)
    check_count(affix, "affix", minimum=0)
    lower = [word.lower() for word in words]
    shapes = [_shape(word) for word in words]
    found = []
    for t, word in enumerate(lower):
        item: dict[str, Any] = {"word": word, "shape": shapes[t]}
        sizes = range(1, min(affix, len(word)) + 1)
        item["prefix"] = [word[:n] for n in sizes]
        item["suffix"] = [word[-n:] for n in sizes]
        for step in (s for d in range(1, window + 1) for s in (-d, d)):
            if 0 <= t + step < len(words):
                item[f"{step:+d}"] = {"word": lower[t + step], "shape": shapes[t + step]}
            elif abs(step) == 1:
                item[f"{step:+d}"] = ["begin" if step < 0 else "end"]
        found.append(item)
    return found


def _shape(word: str) -> str:
    """Kinds of characters, runs of one kind as one: "McDonald's" is "XxXx.x"."""
    kinds = "".join("X" if c.isupper() else "x" if c.isalpha() else "0" if c.isdigit() else "." for c in word)
    return _RUNS.sub(r"\1", kinds)
