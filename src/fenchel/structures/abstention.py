"""One of k classes, or no answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.types import Array
from .base import draw_index
from .simplex import Simplex

__all__ = ["Abstention"]


@dataclass(frozen=True, repr=False)
class Abstention(Simplex):
    """One of k classes, 0 to k − 1, or −1 for no answer: what a predictor that may abstain answers.

    A point is a distribution over k + 1 outcomes, the last of them to abstain; oracles are those of the simplex.

    >>> from fenchel.structures import Abstention
    >>> Abstention(2).encode([1, -1])
    array([[0., 1., 0.],
           [0., 0., 1.]])
    """

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.k + 1,)

    @property
    def n_vertices(self) -> int:
        return self.k + 1

    def separation(self, p: float = 2) -> float:
        return float(2 ** (1 / p))

    def diameter(self, p: float = 2) -> float:
        return float(2 ** (1 / p))

    def _encode(self, outputs: Array, dtype: np.dtype[Any]) -> Array:
        answered = outputs != -1
        classes = np.full(len(outputs), self.k)
        classes[answered] = self._check_labels(outputs[answered], self.k)
        return self._one_hot(classes, dtype)

    def _one_hot(self, classes: Array, dtype: np.dtype[Any]) -> Array:
        rows = np.zeros((len(classes), self.k + 1), dtype)
        rows[np.arange(len(classes)), classes] = 1
        return rows

    def _decode(self, rows: Array) -> Array:
        best = rows.argmax(axis=-1)
        return np.where(best == self.k, -1, best)

    def _vertices(self) -> Array:
        return np.eye(self.k + 1)

    def _decompose(self, rows: Array) -> tuple[Array, Array]:
        eye = np.eye(self.k + 1, dtype=rows.dtype)
        return np.maximum(rows, 0), np.broadcast_to(eye, (len(rows), self.k + 1, self.k + 1)).copy()

    def _sample(self, rows: Array, rng: np.random.Generator) -> Array:
        return self._one_hot(draw_index(np.maximum(rows, 0), rng), rows.dtype)
