"""Losses of three classes as surfaces, and of two as curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._core.checks import check_finite_positive
from .._core.errors import IncompatiblePair, InvalidInput
from ..losses.base import Loss
from ._figure import INK, axes_or_new

__all__ = ["loss_surface"]


def loss_surface(
    loss: Loss, truth: int, *, reach: float = 2.5, labels: Sequence[Any] | None = None, ax: Any = None
) -> Any:
    """A loss over how much higher than the truth the other classes score: contours for three classes, a curve for two.

    The axes are the differences f_j − f_y of the potentials, from −``reach`` to ``reach``. Where a loss of hinges has a
    kink, contours bend; where it is flat, there are none. For grades by thresholds potentials are sums of scores.

    >>> from fenchel.costs import ZeroOne
    >>> from fenchel.losses import Adversarial
    >>> from fenchel.plots import loss_surface
    >>> from fenchel.structures import Simplex
    >>> ax = loss_surface(Adversarial(Simplex(3), ZeroOne()), 0)
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('score of class 1 above that of class 0', 'score of class 2 above that of class 0')
    """
    structure = loss.structure
    k = structure.n_vertices
    if structure.class_coding is None or k not in (2, 3):
        raise IncompatiblePair(
            f"a surface is drawn for two or three classes or grades, but the loss is on {structure!r}"
        )
    if not (isinstance(truth, int | np.integer) and 0 <= truth < k):
        raise InvalidInput(f"truth is {truth!r}, expected a class from 0 to {k - 1}")
    check_finite_positive(reach, "reach")
    names = [str(name) for name in (labels if labels is not None else range(k))]
    others = [j for j in range(k) if j != truth]
    steps = np.linspace(-reach, reach, 401 if k == 2 else 161)
    grid = np.stack(np.meshgrid(*[steps] * (k - 1)), axis=-1).reshape(-1, k - 1)
    potentials = np.zeros((len(grid), k))
    potentials[:, others] = grid
    theta = np.diff(potentials, axis=1) if structure.class_coding == "thresholds" else potentials
    values = loss.value(theta, structure.encode(np.full(len(grid), truth)))

    def axis(j: int) -> str:
        return f"score of class {names[j]} above that of class {names[truth]}"

    if k == 2:
        ax = axes_or_new(ax, figsize=(4.2, 3.2))
        before = len(ax.lines)
        colours = [INK[name] for name in ("first", "second", "third", "fourth")]
        ax.plot(steps, values, color=colours[before % 4], ls=("-", "--", ":", "-.")[before // 4 % 4], lw=1.6)
        ax.set_xlabel(axis(others[0]))
        ax.set_ylabel("loss")
        ax.set_xlim(-reach, reach)
        ax.set_ylim(bottom=0)
    else:
        ax = axes_or_new(ax, figsize=(4.2, 4.0))
        surface = values.reshape(len(steps), len(steps))
        levels = np.linspace(0, float(values.max()), 13)
        ax.contourf(steps, steps, surface, levels=levels, cmap="Blues")
        lines = ax.contour(steps, steps, surface, levels=levels[1:-1], colors=INK["grey"], linewidths=0.6)
        ax.clabel(lines, levels[2:-1:2], fmt="%.1f", fontsize=7, colors="black")
        # where the truth no longer scores highest
        ax.plot([-reach, 0, 0], [0, 0, -reach], color=INK["second"], lw=1.4, ls="--")
        ax.set_xlabel(axis(others[0]))
        ax.set_ylabel(axis(others[1]))
        ax.set_aspect("equal")
    ax.spines[["top", "right"]].set_visible(False)
    return ax
