"""Margins of the true class over the others: Crammer-Singer, Weston-Watkins."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..._core import parallel
from ..._core.checks import check_finite_positive
from ..._core.types import Array
from ...kernels import margins as kernels
from ...kernels.dual_coordinate import MAX_MARGIN, WESTON_WATKINS
from ...structures.abstention import Abstention
from ...structures.base import Structure
from ..base import MoveRule
from .base import MarginLoss, require_classes

__all__ = ["CrammerSinger", "WestonWatkins"]


@dataclass(frozen=True)
class CrammerSinger(MarginLoss):
    """max over j ≠ y of (1 + θ_j − θ_y)_+: the hinge of the best wrong class, O(k). A margin loss, not consistent.

    It equals ``Hinge(Simplex(k), ZeroOne())``. With ``abstain_below`` it answers only where the best score leads the
    next by more than that (1/2 by default in the reference), and abstains elsewhere; training is the same.

    References: Crammer and Singer, "On the algorithmic implementation of multiclass kernel-based vector machines",
    2001; Ramaswamy, Tewari and Agarwal, "Consistent algorithms for multiclass classification with an abstain option",
    2018.

    >>> from fenchel.losses import CrammerSinger
    >>> from fenchel.structures import Simplex
    >>> value, gradient = CrammerSinger(Simplex(3)).value_and_grad([1.0, 0.5, 0.0], [1.0, 0.0, 0.0])
    >>> float(value), gradient
    (0.5, array([-1.,  1.,  0.]))
    """

    structure: Structure
    abstain_below: float | None = None

    def __post_init__(self) -> None:
        require_classes(self, "one_hot", "Simplex(k)")
        if self.abstain_below is not None:
            check_finite_positive(self.abstain_below, "abstain_below", zero=True)

    @property
    def answers(self) -> Structure:
        return self.structure if self.abstain_below is None else Abstention(self.structure.dim)

    def _losses(self, f: Array, y: Array, value: Array, gradient: Array) -> None:
        parallel.run(kernels.crammer_singer, len(f), f.size, f, y, value, gradient)

    def _mode(self, f: Array) -> Array:
        return np.asarray(f.argmax(axis=1))

    def _answer(self, f: Array) -> Array:
        best = self._mode(f)
        if self.abstain_below is None or f.shape[1] == 1:
            return best
        top = np.partition(f, -2, axis=1)
        return np.where(top[:, -1] - top[:, -2] > self.abstain_below, best, -1)

    def move_rule(self) -> MoveRule:
        return MoveRule(MAX_MARGIN)


@dataclass(frozen=True)
class WestonWatkins(MarginLoss):
    """Σ over j ≠ y of (1 + θ_j − θ_y)_+: a hinge for every wrong class, O(k). A margin loss, not consistent.

    Reference: Weston and Watkins, "Support vector machines for multi-class pattern recognition", 1999.

    >>> from fenchel.losses import WestonWatkins
    >>> from fenchel.structures import Simplex
    >>> value, gradient = WestonWatkins(Simplex(3)).value_and_grad([0.0, 0.5, 0.0], [1.0, 0.0, 0.0])
    >>> float(value), gradient
    (2.5, array([-2.,  1.,  1.]))
    """

    structure: Structure

    def __post_init__(self) -> None:
        require_classes(self, "one_hot", "Simplex(k)")

    def _losses(self, f: Array, y: Array, value: Array, gradient: Array) -> None:
        parallel.run(kernels.weston_watkins, len(f), f.size, f, y, value, gradient)

    def _answer(self, f: Array) -> Array:
        return np.asarray(f.argmax(axis=1))

    def move_rule(self) -> MoveRule:
        return MoveRule(WESTON_WATKINS)
