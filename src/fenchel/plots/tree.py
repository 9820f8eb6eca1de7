"""Pictures of trees and of methods for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any

import numpy as np

from .._core.errors import InvalidInput
from ._figure import INK, axes_or_new

__all__ = ["convergence"]

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
