"""Options: numbers that are checked as they are read, and choices whose help comes from the registry."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable, Mapping

from .._core import registry

__all__ = ["add_choice", "alpha", "count", "positive", "share"]


def add_choice(
    group: argparse._ArgumentGroup,
    name: str,
    choices: Iterable[str],
    text: str,
    kind: str | None = None,
    told: Mapping[str, str] | None = None,
) -> None:
    """An option that takes names of registry lines, the first by default; its help is made of their summaries.

    ``told`` explains the names that are no line of the registry.
    """
    names, own = tuple(choices), told or {}
    meanings = "; ".join(f"{x}: {own[x] if x in own else registry.find(kind or name, x).summary}" for x in names)
    told_text = f"{text} (default: {names[0]}). {meanings}".replace("%", "%%")
    group.add_argument(f"--{name}", choices=names, default=names[0], metavar="NAME", help=told_text)


def alpha(text: str) -> float | None:
    return None if text == "cv" else _real(text, lambda x: x > 0, "a number above 0 or cv")


def positive(text: str) -> float:
    return _real(text, lambda x: x > 0, "a number above 0")


def share(text: str) -> float:
    return _real(text, lambda x: 0 <= x < 1, "a number from 0 to below 1")


def count(least: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least} on")
        return value

    return read


def _real(text: str, fits: Callable[[float], bool], expected: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and fits(value)):
        raise argparse.ArgumentTypeError(f"{text!r} is not {expected}")
    return value
