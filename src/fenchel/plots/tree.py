"""Pictures of trees and of methods for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any

import numpy as np

from .._core.errors import InvalidInput
from .._core.types import Array, ArrayLike
from ._figure import INK, axes_or_new

__all__ = ["convergence", "parse"]

_LEAST = 1e-13


def convergence(curves: Mapping[str, Mapping[str, Sequence[float]]], ax: Any = None) -> Any:
    """How far methods are from the solution, by iteration, with 95 % confidence intervals; both axes logarithmic.

    ``curves`` holds for each method ``iterations``, ``distance`` (means) and ``standard_error``, as
    :func:`fenchel.experiments.projection_convergence.curves` returns them.
    """
    if not curves:
        raise InvalidInput("curves is empty, expected one method at least")
    ax = axes_or_new(ax)
    for (name, curve), color in zip(curves.items(), cycle(INK.values()), strict=False):
        x, mean = np.asarray(curve["iterations"]), np.asarray(curve["distance"])
        half = 1.96 * np.asarray(curve["standard_error"])
        ax.plot(x, np.maximum(mean, _LEAST), label=name, color=color)
        ax.fill_between(
            x, np.maximum(mean - half, _LEAST), np.maximum(mean + half, _LEAST), color=color, alpha=0.2, lw=0
        )
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel("iteration")
    ax.set_ylabel("distance to the solution")
    ax.legend()
    return ax


def parse(
    words: Sequence[str],
    heads: ArrayLike,
    *,
    labels: Sequence[str] | None = None,
    marginals: ArrayLike | None = None,
    least: float = 0.05,
    ax: Any = None,
) -> Any:
    """A parse as arcs over the words, each from the head to the word, with what a model thinks of them.

    ``heads`` are 0 for the root, h for word h. With ``marginals`` (words, heads), a point of the tree polytope, each arc of
    the parse is as dark as it is probable and says so in per cent, and other arcs of at least ``least`` are drawn in
    grey.

    >>> from fenchel.plots import parse
    >>> ax = parse(["dogs", "chase", "cats"], [2, 0, 2], labels=["nsubj", "root", "obj"])
    >>> [text.get_text() for text in ax.texts]
    ['dogs', 'chase', 'cats', 'nsubj', 'root', 'obj']
    """
    chosen = np.asarray(heads)
    n = len(words)
    if chosen.shape != (n,) or (labels is not None and len(labels) != n):
        raise InvalidInput(f"there are {n} words, but heads has shape {chosen.shape}" + (
            "" if labels is None else f" and there are {len(labels)} labels"))  # fmt: skip
    shares = None if marginals is None else np.asarray(marginals, dtype=float)
    if shares is not None and shares.shape != (n, n + 1):
        raise InvalidInput(f"marginals has shape {shares.shape}, but {n} words need {(n, n + 1)}")
    top = 0.5 * max([abs(h - m) for m, h in enumerate(chosen, 1) if h > 0], default=1) + 0.6
    ax = axes_or_new(ax, figsize=(max(4.0, 1.1 * n), 0.8 + 0.75 * top))
    for m, word in enumerate(words, 1):
        ax.text(m, -0.25, word, ha="center", va="top", fontsize=11)
    if shares is not None:
        for m, h in zip(*np.nonzero(shares >= least), strict=True):
            if h != chosen[m]:
                _arc(ax, int(h), int(m) + 1, top, INK["grey"], 0.25 + 0.75 * shares[m, h], 1.0)
    for m, h in enumerate(chosen.tolist(), 1):
        share = 1.0 if shares is None else float(shares[m - 1, h])
        x, y = _arc(ax, h, m, top, INK["first"], 0.25 + 0.75 * min(share, 1.0), 2.0)
        said = [] if labels is None else [labels[m - 1]]
        said += [] if shares is None else [f"{100 * share:.0f}"]
        if said:
            ax.text(x, y + 0.04, " ".join(said), ha="center", va="bottom", fontsize=8, color=INK["first"])
    ax.set_xlim(0.4, n + 0.6)
    ax.set_ylim(-0.7, top + 0.3)
    ax.axis("off")
    return ax


def _arc(ax: Any, head: int, word: int, top: float, color: str, alpha: float, width: float) -> tuple[float, float]:
    """Half an ellipse from the head to the word, or a line from above for the root; where its label goes."""
    if head == 0:
        ax.plot([word, word], [0.0, top], color=color, alpha=alpha, lw=width)
        ax.plot([word], [0.06], "v", color=color, alpha=alpha, ms=5)
        return word, top
    angle: Array = np.linspace(0, np.pi, 60)
    middle, half = 0.5 * (head + word), 0.5 * abs(head - word)
    height = 0.5 * abs(head - word)
    # arcs end a little beside the middle of a word, so that those that come and go do not meet
    ax.plot(middle + (half - 0.08) * np.cos(angle), height * np.sin(angle), color=color, alpha=alpha, lw=width)
    ax.plot([word + (0.08 if head > word else -0.08)], [0.06], "v", color=color, alpha=alpha, ms=5)
    return middle, height
