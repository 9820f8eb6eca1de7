"""One of k ordered grades."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .._core import parallel
from .._core.checks import check_count
from .._core.types import Array
from ..kernels import order_simplex as kernels
from .base import Accuracy, Structure
from .simplex import negative_entropy

__all__ = ["OrderSimplex"]


@dataclass(frozen=True, repr=False)
class OrderSimplex(Structure):
    """One of k ordered grades, 0 to k − 1, by its k − 1 thresholds: entry j of φ(y) says whether y > j.

    M = {μ in R^(k−1) : 1 ≥ μ_1 ≥ ... ≥ μ_(k−1) ≥ 0}. Projections are isotonic regressions with bounds, O(k) a row;
    Gibbs marginals are cumulative sums of a softmax over grades, O(k).

    Reference: Blondel, "Structured prediction with projection oracles", 2019, section 4 and Proposition 4.

    >>> from fenchel.structures import OrderSimplex
    >>> OrderSimplex(4).encode(2)
    array([1., 1., 0.])
    >>> OrderSimplex(4).project([0.2, 0.6, -1.0])
    array([0.4, 0.4, 0. ])
    """

    k: int
    class_coding: ClassVar[str | None] = "thresholds"

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", check_count(self.k, "k"))

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.k - 1,)

    @property
    def n_vertices(self) -> int:
        return self.k

    def separation(self, p: float = 2) -> float:
        return 1.0 if self.k > 1 else np.inf

    def diameter(self, p: float = 2) -> float:
        return float((self.k - 1) ** (1 / p))

    @property
    def max_l1(self) -> float:
        return float(self.k - 1)

    def class_distribution(self, mu: Array) -> Array:
        """The probabilities of the k grades, which the point determines: differences of neighbouring thresholds."""
        ones, zeros = np.ones((*mu.shape[:-1], 1)), np.zeros((*mu.shape[:-1], 1))
        return -np.diff(np.concatenate([ones, mu, zeros], axis=-1), axis=-1)

    def class_scores(self, scores: Array) -> tuple[Array, Array]:
        return np.diff(scores, axis=-1), scores[:, 0]

    def class_potentials(self, theta: Array) -> Array:
        potentials = np.zeros((len(theta), self.k), theta.dtype)
        np.cumsum(theta, axis=1, out=potentials[:, 1:])
        return potentials

    def class_mean(self, distribution: Array) -> Array:
        return np.cumsum(distribution[:, :0:-1], axis=1)[:, ::-1]

    def gibbs_omega(self, mu: Array) -> Array:
        return negative_entropy(self.class_distribution(mu)).sum(axis=-1)

    def _encode(self, outputs: Array, dtype: np.dtype[Any]) -> Array:
        grades = self._check_labels(outputs, self.k)
        return (grades[:, None] > np.arange(self.k - 1)).astype(dtype)

    def _decode(self, rows: Array) -> Array:
        return (rows > 0.5).sum(axis=-1)

    def _vertices(self) -> Array:
        return np.tril(np.ones((self.k, self.k)), -1)[:, : self.k - 1]

    def _argmax(self, rows: Array) -> Array:
        totals = np.concatenate([np.zeros((len(rows), 1)), np.cumsum(rows, axis=-1, dtype=np.float64)], axis=1)
        return self._encode(totals.argmax(axis=-1), rows.dtype)

    def _isotonic(self, rows: Array) -> Array:
        out = np.empty_like(rows)
        parallel.run(kernels.isotonic, len(rows), rows.size, rows, 1.0, out)
        return out

    def _project(self, rows: Array, accuracy: Accuracy) -> Array:
        out = self._isotonic(rows)
        return np.clip(out, 0, 1, out=out)

    def _kl_project(self, rows: Array, accuracy: Accuracy) -> Array:
        # Scores enter linearly, so the best common value of a block is exp(mean score - 1): the same pooling.
        return np.exp(np.minimum(self._isotonic(rows) - 1, 0))

    def _marginals(self, rows: Array) -> tuple[Array, Array]:
        out, log_sum = np.empty_like(rows), np.empty(len(rows))
        parallel.run(kernels.grade_marginals, len(rows), rows.size, rows, log_sum, out)
        return log_sum, out

    def _decompose(self, rows: Array) -> tuple[Array, Array]:
        vertices = np.broadcast_to(self._vertices().astype(rows.dtype), (len(rows), self.k, self.k - 1))
        return np.maximum(self.class_distribution(rows), 0), vertices.copy()

    def _violation(self, rows: Array) -> Array:
        return np.maximum(-self.class_distribution(rows), 0).max(axis=-1, initial=0.0)
