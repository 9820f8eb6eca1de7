"""Robust regression: one sample, and errors by sample size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ._figure import INK, figure

__all__ = ["robust_regression"]

_COLOURS = ("first", "second", "third", "fourth")


def robust_regression(result: Mapping[str, Any], *, left: Any = None, right: Any = None) -> Any:
    """What the experiment "robust" found: one sample with each method's curve, and mean distances with their deviations.

    ``result`` is what ``fenchel reproduce robust --json`` writes, ``left`` and ``right`` are axes to draw on. Returns the figure.

    >>> from fenchel.experiments.robust import run
    >>> figure = robust_regression(run(quick=True))
    >>> [ax.get_xlabel() for ax in figure.axes]
    ['x', 'training examples']
    """
    if left is None or right is None:
        left, right = figure(figsize=(9, 3.6)).subplots(1, 2, width_ratios=[1.4, 1])
    example = result["example"]
    grid = np.asarray(example["grid"])
    left.plot(example["x"], example["y"], ".", color=INK["grey"], ms=4, zorder=1)
    left.plot(grid, np.sin(6 * np.pi * grid), color="black", lw=0.8, ls="--", label="without noise")
    names = list(example["curves"])
    for name, colour in zip(names, _COLOURS, strict=False):
        left.plot(grid, example["curves"][name], color=INK[colour], lw=2 if name == names[0] else 1.1, label=name)
    left.set_xlabel("x")
    left.set_ylabel("y")
    sizes = result["sizes"]
    for name, colour in zip(names, _COLOURS, strict=False):
        runs = [np.asarray(result["values"][str(n)][name]) for n in sizes]  # fewer of the larger sizes
        mean = np.array([run.mean() for run in runs])
        spread = np.array([run.std(ddof=1) for run in runs])
        right.plot(sizes, mean, "o-", color=INK[colour], ms=3.5, label=name)
        right.fill_between(sizes, mean - spread, mean + spread, color=INK[colour], alpha=0.15, lw=0)
    right.set_xscale("log")
    right.set_xticks(sizes, [str(n) for n in sizes])
    right.minorticks_off()
    right.set_xlabel("training examples")
    right.set_ylabel("mean distance from the sine")
    right.legend(frameon=False, fontsize=8)
    for ax in (left, right):
        ax.spines[["top", "right"]].set_visible(False)
    return left.figure
