"""A smooth hinge on the margin of the true class; no Fenchel-Young loss."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._core.checks import check_no_nan
from .._core.errors import IncompatiblePair, InvalidInput, MissingOracle
from .._core.types import Array, ArrayLike
from ..structures.simplex import Simplex
from .base import Loss

__all__ = ["SmoothHinge"]


@dataclass(frozen=True)
class SmoothHinge(Loss):
    """1 − 2m for a margin m ≤ 0 of the true class over the best other one, (1 − m)² up to m = 1, and 0 beyond.

    The loss of the online method that explores uniformly (:class:`~fenchel.decoders.UniformExploration`); it bounds the
    zero-one cost. It is no Fenchel-Young loss: its gradient needs the truth. O(k) a row.

    References: Rennie and Srebro, "Loss functions for preference levels", 2005; van der Hoeven, "Exploiting the surrogate
    gap in online multiclass classification", 2020.

    >>> from fenchel.losses import SmoothHinge
    >>> from fenchel.structures import Simplex
    >>> value, gradient = SmoothHinge(Simplex(3)).value_and_grad([0.5, 0.0, -1.0], [1.0, 0.0, 0.0])
    >>> float(value), gradient
    (0.25, array([-1.,  1.,  0.]))
    """

    structure: Simplex

    def __post_init__(self) -> None:
        if not isinstance(self.structure, Simplex) or self.structure.k < 2:
            raise IncompatiblePair(f"SmoothHinge is for two classes or more, Simplex(k), not {self.structure!r}")

    @property
    def smoothness(self) -> float:
        return np.inf  # smooth in the margin, but which class is the best other one may change

    def value_and_grad(self, theta: ArrayLike, v: ArrayLike) -> tuple[Array, Array]:
        rows, points, batch = self._pair(theta, v)
        check_no_nan(rows, "scores", self.structure, forbid_parts=False)
        if not self.structure.are_vertices(points):
            raise InvalidInput("SmoothHinge compares classes; v must hold one-hot rows")
        truth, n = points.argmax(axis=1), np.arange(len(rows))
        others = rows.copy()
        others[n, truth] = -np.inf
        rival = others.argmax(axis=1)
        margin = rows[n, truth] - others[n, rival]
        inside = np.clip(1 - margin, 0, 1)
        value = inside**2 + 2 * np.maximum(-margin, 0)
        slope = 2 * inside
        gradient = np.zeros_like(rows)
        gradient[n, truth] = -slope
        gradient[n, rival] = slope
        return self._per_example(value, rows, batch), self.structure.restore(gradient, batch)

    def predict(self, theta: ArrayLike) -> Array:
        return self.structure.argmax(theta)

    def omega(self, mu: ArrayLike) -> Array:
        raise MissingOracle("SmoothHinge is no Fenchel-Young loss, so it has no Ω")
