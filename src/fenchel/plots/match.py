"""What a model of matchings answers: two frames and the links between them."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.errors import InvalidInput
from .._core.types import Array, ArrayLike
from ._figure import INK, axes_or_new

__all__ = ["matching"]


def matching(
    first: ArrayLike, second: ArrayLike, predicted: ArrayLike, *, truth: ArrayLike | None = None, ax: Any = None
) -> Any:
    """Boxes of two frames side by side, and a line from each box of the first to its predicted partner in the second.

    Boxes are rows of left, top, width and height; ``predicted`` and ``truth`` hold the partner of each first box, −1 for
    none. With ``truth`` right links are green and wrong ones orange, with the right ones dashed beside them. A box of the
    first frame without a predicted partner, and one of the second that nobody chose, are drawn dotted.

    >>> from fenchel.plots import matching
    >>> boxes = [[0, 0, 10, 20], [40, 5, 10, 20]]
    >>> ax = matching(boxes, boxes, [1, 0], truth=[0, 1])
    >>> len(ax.patches), len(ax.lines)
    (4, 5)
    """
    from matplotlib.patches import Rectangle

    a, b = _boxes(first, "first"), _boxes(second, "second")
    links = _links(predicted, "predicted", len(a), len(b))
    truths = None if truth is None else _links(truth, "truth", len(a), len(b))
    both = np.concatenate([a, b])
    if not len(both):
        raise InvalidInput("there are no boxes to draw")
    low, high = both[:, :2].min(axis=0), (both[:, :2] + both[:, 2:]).max(axis=0)
    width, height = np.maximum(high - low, 1e-9)
    shift = np.array([width * 1.15, 0.0])
    ax = axes_or_new(ax, figsize=(9, max(2.5, 9 * height / (2.15 * width) + 0.8)))
    chosen = np.isin(np.arange(len(b)), links)
    for boxes, offset, linked in ((a, 0 * shift, links >= 0), (b, shift, chosen)):
        for i, (left, top, w, h) in enumerate(boxes):
            color, style = (INK["first"], "-") if linked[i] else (INK["grey"], ":")
            ax.add_patch(Rectangle((left + offset[0], top), w, h, fill=False, lw=1.6, ec=color, ls=style))
            ax.annotate(
                str(i), (left + offset[0] + w / 2, top), ha="center", va="bottom", fontsize=8, color=INK["grey"]
            )
    start, end = a[:, :2] + a[:, 2:] / 2, b[:, :2] + b[:, 2:] / 2 + shift
    seen: set[str] = set()

    def draw(i: int, j: int, label: str, color: str, style: str) -> None:
        ax.plot(
            [start[i, 0], end[j, 0]], [start[i, 1], end[j, 1]], style, color=color, lw=1.4, marker="o", ms=3,
            label=None if label in seen else label,
        )  # fmt: skip
        seen.add(label)

    for i, j in enumerate(links.tolist()):
        right = truths is None or truths[i] == j
        if truths is not None and not right and truths[i] >= 0:
            draw(i, int(truths[i]), "true", INK["grey"], "--")
        if j >= 0:
            label = "predicted" if truths is None else ("right" if right else "wrong")
            draw(i, j, label, INK["third"] if right else INK["second"], "-")
    ax.axvline(low[0] + 1.075 * width, color=INK["grey"], lw=0.6)
    ax.set_xlim(low[0] - 0.03 * width, low[0] + 2.18 * width)
    ax.set_ylim(high[1] + 0.04 * height, low[1] - 0.08 * height)
    ax.set_aspect("equal")
    ax.set_xticks([])
    ax.set_yticks([])
    if seen:
        ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3, frameon=False, fontsize=9)
    return ax


def _boxes(value: ArrayLike, name: str) -> Array:
    boxes = np.asarray(value, dtype=float)
    if boxes.size == 0:
        return boxes.reshape(0, 4)
    if boxes.ndim != 2 or boxes.shape[1] != 4:
        raise InvalidInput(f"{name} has shape {boxes.shape}, expected rows of left, top, width, height")
    return boxes


def _links(value: ArrayLike, name: str, n: int, m: int) -> Array:
    links = np.asarray(value, dtype=np.int64).reshape(-1)
    if links.shape != (n,) or (n and (links.min() < -1 or links.max() >= m)):
        raise InvalidInput(f"{name} is {links.tolist()}, expected {n} partners from 0 to {m - 1}, or -1")
    return links
