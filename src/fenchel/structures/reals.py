"""The whole space and the non-negative orthant: sets to project on that know little or nothing of the outputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from .._core.checks import check_count
from .._core.types import Array
from .base import Accuracy, Structure

__all__ = ["NonNegative", "Reals"]

_UNBOUNDED = "the set is unbounded, so a linear score has no maximiser; use a polytope around your outputs instead"


class _Unbounded(Structure):
    """What the two unbounded sets share: outputs are the points themselves and there are no vertices."""

    binary: ClassVar[bool] = False
    bounded: ClassVar[bool] = False

    def __init__(self, *shape: int) -> None:
        self._shape = tuple(check_count(n, f"shape[{i}]") for i, n in enumerate(shape))

    def saved_arguments(self) -> dict[str, Any]:
        """Constructor arguments for a saved model; ``*`` holds the positional ones."""
        return {"*": self._shape}

    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(str, self._shape))})"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._shape == other._shape

    def __hash__(self) -> int:
        return hash((type(self), self._shape))

    @property
    def output_ndim(self) -> int:  # type: ignore[override]
        return len(self._shape)

    def missing(self) -> Mapping[str, str]:
        absent = dict.fromkeys(("vertices", "argmax", "nearest", "decompose", "sample"), _UNBOUNDED)
        absent["marginals"] = "there is no finite set of outputs to put a Gibbs distribution on"
        return absent

    def separation(self, p: float = 2) -> float:
        return np.inf

    def diameter(self, p: float = 2) -> float:
        return np.inf

    @property
    def max_l1(self) -> float:
        return np.inf

    def _encode(self, outputs: Array, dtype: np.dtype[Any]) -> Array:
        rows, _ = self._rows(outputs, "y", points=True)
        return rows.astype(dtype)

    def _decode(self, rows: Array) -> Array:
        return rows.astype(np.float64)


class Reals(_Unbounded):
    """All real arrays of a shape: projecting changes nothing, and the Euclidean loss is the squared loss.

    Its use is as the largest set to project on: with ``Euclidean()`` the loss is ½‖φ(y) − θ‖², to be compared with
    sets that know the outputs (Blondel, "Structured prediction with projection oracles", 2019, section 3).

    >>> from fenchel.structures import Reals
    >>> Reals(2).project([0.5, -3.0])
    array([ 0.5, -3. ])
    """

    can_forbid: ClassVar[bool] = False

    def missing(self) -> Mapping[str, str]:
        return {**super().missing(), "kl_project": "points have negative entries; use NonNegative or a polytope"}

    def _project(self, rows: Array, accuracy: Accuracy) -> Array:
        return rows.copy()

    def _violation(self, rows: Array) -> Array:
        return np.zeros(len(rows))


class NonNegative(_Unbounded):
    """All arrays of a shape with no negative entry.

    >>> from fenchel.structures import NonNegative
    >>> NonNegative(2).project([0.5, -3.0])
    array([0.5, 0. ])
    >>> NonNegative(2).kl_project([1.0, -float("inf")])
    array([1., 0.])
    """

    def _project(self, rows: Array, accuracy: Accuracy) -> Array:
        return np.maximum(rows, 0)

    def _kl_project(self, rows: Array, accuracy: Accuracy) -> Array:
        with np.errstate(over="ignore"):
            return np.exp(rows - 1)

    def _violation(self, rows: Array) -> Array:
        return np.maximum(-rows, 0).reshape(len(rows), self.dim).max(axis=1, initial=0.0)
