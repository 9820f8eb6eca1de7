"""Pictures of classifiers: how losses compare, and what soft predictions look like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .._core.types import Array
from ._figure import INK, axes_or_new

__all__ = ["compare_losses", "soft_predictions"]


def compare_losses(errors: Mapping[str, Sequence[float]], *, ax: Any = None) -> Any:
    """A dot for each split's held-out error, in per cent, and a bar for the mean, per loss.

    >>> from fenchel.plots import compare_losses
    >>> ax = compare_losses({"logistic": [3.1, 2.9], "sparsemax": [2.5, 2.8]})
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['logistic', 'sparsemax']
    """
    ax = axes_or_new(ax, figsize=(6, 0.5 + 0.45 * len(errors)))
    for row, values in enumerate(errors.values()):
        ax.barh(row, np.mean(values), height=0.55, color=INK["first"], alpha=0.25)
        ax.plot(values, np.full(len(values), row), "o", ms=4, color=INK["first"])
        ax.annotate(f"{np.mean(values):.2f}", (np.max(values), row), (6, 0), textcoords="offset points", va="center")
    ax.set_yticks(range(len(errors)), list(errors))
    ax.invert_yaxis()
    ax.set_xlim(0, 1.15 * max(np.max(v) for v in errors.values()))
    ax.set_xlabel("held-out error (%)")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def soft_predictions(proba: Array, truth: Sequence[int], *, labels: Sequence[Any] | None = None, ax: Any = None) -> Any:
    """Probabilities of a few examples as rows of a grid, the true class outlined; exact zeros stay white.

    >>> import numpy as np
    >>> from fenchel.plots import soft_predictions
    >>> ax = soft_predictions(np.array([[0.7, 0.3, 0.0], [0.0, 0.0, 1.0]]), [0, 2])
    >>> ax.get_xlabel()
    'class'
    """
    from matplotlib.patches import Rectangle

    n, k = proba.shape
    ax = axes_or_new(ax, figsize=(0.45 * k + 1, 0.4 * n + 0.8))
    shown = np.where(proba == 0, np.nan, proba)
    ax.imshow(shown, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for i, j in zip(*np.nonzero(proba > 0.005), strict=True):
        dark = proba[i, j] > 0.55
        ax.text(
            j, i, f"{100 * proba[i, j]:.0f}", ha="center", va="center", fontsize=7, color="white" if dark else "black"
        )
    for i, j in enumerate(truth):
        ax.add_patch(Rectangle((j - 0.5, i - 0.5), 1, 1, fill=False, edgecolor=INK["second"], lw=1.8))
    ax.set_xticks(range(k), [str(c) for c in (labels if labels is not None else range(k))])
    ax.set_yticks([])
    ax.set_xlabel("class")
    return ax
