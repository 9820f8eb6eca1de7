"""What a model of rankings thinks: soft permutations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._core.types import Array, ArrayLike
from ._figure import INK, axes_or_new

__all__ = ["soft_permutation"]


def soft_permutation(
    mu: ArrayLike,
    *,
    truth: ArrayLike | None = None,
    decoded: ArrayLike | None = None,
    labels: Sequence[Any] | None = None,
    ax: Any = None,
) -> Any:
    """A soft permutation matrix in per cent, labels by ranks, with the true ranking outlined and the decoded one dotted.

    Entries that are exactly zero stay white: ranks that the model rules out. ``truth`` and ``decoded`` are arrays of
    ranks, 0 for the best (Blondel, "Structured prediction with projection
    oracles", 2019, Figure 3).

    >>> import numpy as np
    >>> from fenchel.plots import soft_permutation
    >>> ax = soft_permutation(np.full((3, 3), 1 / 3), truth=[0, 1, 2], decoded=[0, 2, 1])
    >>> ax.get_xlabel(), len(ax.patches)
    ('rank', 3)
    """
    from matplotlib.patches import Rectangle

    matrix: Array = np.asarray(mu, dtype=float)
    n = len(matrix)
    ax = axes_or_new(ax, figsize=(0.5 * n + 1.4, 0.5 * n + 1.3))
    ax.imshow(np.where(matrix > 0, matrix, np.nan), cmap="Blues", vmin=0, vmax=1)
    for i, j in zip(*np.nonzero(matrix > 0.005), strict=True):
        shade = "white" if matrix[i, j] > 0.55 else "black"
        ax.text(j, i, f"{100 * matrix[i, j]:.0f}", ha="center", va="center", fontsize=8, color=shade)
    if truth is not None:
        ax.plot([], [], "s", ms=9, mfc="none", mec=INK["second"], mew=2, label="truth")
        for i, rank in enumerate(np.asarray(truth)):
            ax.add_patch(Rectangle((rank - 0.48, i - 0.48), 0.96, 0.96, fill=False, edgecolor=INK["second"], lw=2))
    if decoded is not None:
        ranks = np.asarray(decoded)
        ax.plot(ranks + 0.33, np.arange(n) - 0.33, "o", ms=6, color=INK["third"], mec="white", mew=0.8, label="decoded")
    if truth is not None or decoded is not None:
        ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2, frameon=False, fontsize=9)
    ax.set_xticks(range(n), [str(r + 1) for r in range(n)])
    ax.set_yticks(range(n), [str(name) for name in (labels if labels is not None else range(n))])
    ax.set_xlabel("rank")
    ax.set_ylabel("label")
    ax.tick_params(length=0)
    return ax
