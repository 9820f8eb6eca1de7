"""An explicit list of outputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .._core.checks import as_float_array
from .._core.errors import InvalidInput
from .._core.types import Array, ArrayLike
from .base import Structure

__all__ = ["Finite"]


class Finite(Structure):
    """The outputs 0 to N − 1, each with a vertex of the user's choice.

    ``vertices`` has shape (N, *shape), all different. Every oracle works: argmax and Gibbs marginals read the list,
    O(N · size) a row; projections and decompositions come from argmax (an active-set method).

    >>> import numpy as np
    >>> from fenchel.structures import Finite
    >>> triangle = Finite([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> triangle.project([1.0, 1.0]).round(6)
    array([0.5, 0.5])
    """

    def __init__(self, vertices: ArrayLike) -> None:
        array = np.array(as_float_array(vertices, "vertices"), dtype=np.float64)
        if array.ndim < 2 or array.size == 0:
            raise InvalidInput(f"vertices have shape {array.shape}, expected (N, ...) with at least one vertex")
        if not np.isfinite(array).all():
            raise InvalidInput("vertices must be finite")
        flat = array.reshape(len(array), -1) + 0.0  # no negative zeros
        self._index = {row.tobytes(): i for i, row in enumerate(flat)}
        if len(self._index) < len(flat):
            raise InvalidInput("two of the vertices are the same; outputs need different vertices")
        self._flat = flat
        self._flat.setflags(write=False)
        self._shape = array.shape[1:]

    def saved_arguments(self) -> dict[str, Any]:
        """Constructor arguments for a saved model."""
        return {"vertices": self._flat.reshape(-1, *self._shape)}

    def __repr__(self) -> str:
        return f"Finite(<{len(self._flat)} vertices of shape {self._shape}>)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Finite) and self._shape == other._shape and np.array_equal(self._flat, other._flat)

    def __hash__(self) -> int:
        return hash((self._shape, self._flat.tobytes()))

    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape

    @property
    def n_vertices(self) -> int:
        return len(self._flat)

    @property
    def binary(self) -> bool:  # type: ignore[override]
        return bool(np.all((self._flat == 0) | (self._flat == 1)))

    def missing(self) -> Mapping[str, str]:
        if (self._flat < 0).any():
            return {"kl_project": "a vertex has a negative entry, where μ log μ is not defined; use project"}
        return {}

    def separation(self, p: float = 2) -> float:
        return min((float(d.min()) for d in self._distances(p)), default=np.inf)

    def diameter(self, p: float = 2) -> float:
        return max((float(d.max()) for d in self._distances(p)), default=0.0)

    def _distances(self, p: float) -> Any:
        for i in range(1, len(self._flat)):
            yield (np.abs(self._flat[:i] - self._flat[i]) ** p).sum(axis=1) ** (1 / p)

    @property
    def max_l1(self) -> float:
        return float(np.abs(self._flat).sum(axis=1).max())

    def _encode(self, outputs: Array, dtype: np.dtype[Any]) -> Array:
        return self._flat[self._check_labels(outputs, len(self._flat))].reshape(-1, *self._shape).astype(dtype)

    def _decode(self, rows: Array) -> Array:
        flat = rows.reshape(len(rows), self.dim) + 0.0  # no negative zeros
        index = self._index
        if flat.dtype != np.float64:
            index = {row.tobytes(): i for i, row in enumerate(self._flat.astype(flat.dtype))}
        return np.array([index.get(row.tobytes(), 0) for row in flat], dtype=np.int64)

    def _vertices(self) -> Array:
        return self._flat.reshape(-1, *self._shape).copy()

    def _scores(self, rows: Array) -> Array:
        """⟨θ, vertex⟩ of every vertex; −inf where the vertex uses a forbidden part."""
        theta = rows.reshape(len(rows), self.dim).astype(np.float64)
        forbidden = theta == -np.inf
        if not forbidden.any():
            return theta @ self._flat.T
        scores = np.where(forbidden, 0, theta) @ self._flat.T
        scores[forbidden.astype(float) @ (self._flat.T != 0) > 0] = -np.inf
        impossible = np.all(scores == -np.inf, axis=1)
        if impossible.any():
            raise InvalidInput(f"scores forbid every output at sample {int(impossible.argmax())}")
        return scores

    def _argmax(self, rows: Array) -> Array:
        return self._flat[self._scores(rows).argmax(axis=1)].reshape(rows.shape).astype(rows.dtype)

    def _marginals(self, rows: Array) -> tuple[Array, Array]:
        scores = self._scores(rows)
        top = scores.max(axis=1, keepdims=True)
        weights = np.exp(scores - top)
        total = weights.sum(axis=1, keepdims=True)
        return (top + np.log(total))[:, 0], ((weights / total) @ self._flat).reshape(rows.shape)

    def _nearest(self, rows: Array, p: float) -> Array:
        flat = rows.reshape(len(rows), self.dim)
        best = [int((np.abs(self._flat - row) ** p).sum(axis=1).argmin()) for row in flat]
        return self._flat[best].reshape(rows.shape).astype(rows.dtype)
