"""What a stream has cost so far."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .._core.errors import InvalidInput
from ._figure import INK, axes_or_new

__all__ = ["regret"]

_COLOURS = tuple(INK[name] for name in ("first", "second", "third", "fourth"))


def regret(runs: Mapping[str, Any], *, bound: float | None = None, ax: Any = None) -> Any:
    """Cumulative surrogate regret against the number of rounds, and the bound that it must stay below.

    ``runs`` maps a name to the regret after each round (:meth:`fenchel.online.RegretTracker.regret`), or to a list of
    such runs, whose mean is drawn with the range they cover.

    >>> import numpy as np
    >>> from fenchel.plots import regret
    >>> ax = regret({"randomized": [np.sqrt(np.arange(50.0)), np.zeros(50)]}, bound=9.0)
    >>> ax.get_xlabel()
    'rounds'
    """
    if not runs:
        raise InvalidInput("there is no run to draw")
    ax = axes_or_new(ax, figsize=(5, 3.4))
    for (name, run), colour in zip(runs.items(), _COLOURS * len(runs), strict=False):
        curves = np.atleast_2d(np.asarray(run, dtype=float))
        rounds = np.arange(1, curves.shape[1] + 1)
        ax.plot(rounds, curves.mean(axis=0), color=colour, label=name)
        if len(curves) > 1:
            ax.fill_between(rounds, curves.min(axis=0), curves.max(axis=0), color=colour, alpha=0.18, lw=0)
    if bound is not None:
        ax.axhline(bound, color=INK["grey"], lw=1, ls="--", label="bound")
    ax.set_xlabel("rounds")
    ax.set_ylabel("surrogate regret")
    ax.legend(frameon=False)
    ax.spines[["top", "right"]].set_visible(False)
    return ax
