"""Distances by the flow of heat, on the circle and the sphere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.checks import check_finite_positive
from .._core.errors import InvalidInput
from .._core.types import Array, ArrayLike
from .base import Cost, as_numbers

__all__ = ["DiffusionDistance"]

_SMALLEST = 1e-17  # terms of the series below this share of the first are left out


@dataclass(frozen=True)
class DiffusionDistance(Cost):
    """The squared diffusion distance p(ŷ, ŷ) − 2 p(ŷ, y) + p(y, y) of points on the circle or the sphere.

    p is the heat kernel at ``time`` t, so this is the squared L2 distance of the heat that has flowed from the two
    points for the time t/2. On the circle p = (1 + 2 Σ_m exp(−m² t) cos(m a)) / 2π at the angle a, on the sphere p =
    Σ_l (2l + 1) exp(−l (l + 1) t) P_l(cos a) / 4π. Outputs are angles (the circle), or unit vectors of two (the circle)
    or three numbers (the sphere). The time is that within which points count as near: about the square of an angle.

    Reference: Coifman and Lafon, "Diffusion maps", 2006.

    >>> import numpy as np
    >>> from fenchel.costs import DiffusionDistance
    >>> DiffusionDistance(time=1.0)([0.0, 0.0], [np.pi, 2 * np.pi]).round(4)
    array([0.4686, 0.    ])
    """

    time: float = 0.5

    def __post_init__(self) -> None:
        time = check_finite_positive(self.time, "time")
        if time < 1e-5:
            raise InvalidInput(f"time is {time}, expected at least 1e-5: the series would need thousands of terms")
        object.__setattr__(self, "time", time)

    def __call__(self, y_pred: ArrayLike, y_true: ArrayLike) -> Array:
        answers, truths = self._points(y_pred, "y_pred"), self._points(y_true, "y_true")
        if answers.shape != truths.shape:
            raise InvalidInput(f"y_pred has points of shape {answers.shape}, y_true of shape {truths.shape}")
        return self._costs(np.einsum("ij,ij->i", answers, truths), answers.shape[1])

    def between(self, answers: ArrayLike, truths: ArrayLike) -> Array:
        ours, theirs = self._points(answers, "answers"), self._points(truths, "truths")
        if ours.shape[1] != theirs.shape[1]:
            raise InvalidInput(f"answers are points of {ours.shape[1]} numbers, truths of {theirs.shape[1]}")
        return self._costs(ours @ theirs.T, ours.shape[1])

    def heat(self, cosines: ArrayLike, dim: int) -> Array:
        """The heat kernel at the cosine of an angle; ``dim`` is 2 for the circle and 3 for the sphere."""
        cosines = np.clip(cosines, -1, 1)
        last = 1
        while (2 * last + 1) * np.exp(-_rate(last, dim) * self.time) > _SMALLEST:
            last += 1
        m = np.arange(last + 1.0)
        decay = np.exp(-_rate(m, dim) * self.time)
        evaluate: Callable[[Array, Array], Array]
        if dim == 2:
            evaluate, series = np.polynomial.chebyshev.chebval, np.where(m == 0, 1.0, 2.0) * decay / (2 * np.pi)
        else:
            evaluate, series = np.polynomial.legendre.legval, (2 * m + 1) * decay / (4 * np.pi)
        return np.asarray(evaluate(cosines, series))

    def _costs(self, cosines: Array, dim: int) -> Array:
        return np.maximum(2 * (self.heat(1.0, dim) - self.heat(cosines, dim)), 0)

    def _points(self, outputs: ArrayLike, name: str) -> Array:
        points = as_numbers(outputs, name, self)
        if points.ndim == 1:
            return np.column_stack([np.cos(points), np.sin(points)])
        if points.ndim != 2 or points.shape[1] not in (2, 3):
            raise InvalidInput(
                f"{name} has shape {points.shape}; {self!r} needs angles, or unit vectors of 2 or 3 numbers"
            )
        lengths = np.linalg.norm(points, axis=1)
        bad = np.abs(lengths - 1) > 1e-6
        if bad.any():
            i = int(bad.argmax())
            raise InvalidInput(
                f"{name} holds a vector of length {lengths[i]:g} at sample {i}; {self!r} needs unit vectors"
            )
        return points


def _rate(m: Any, dim: int) -> Any:
    """The eigenvalues of the Laplacian."""
    return m * m if dim == 2 else m * (m + 1)
