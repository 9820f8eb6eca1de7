"""One of k classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .._core import parallel
from .._core.checks import check_count, check_no_nan
from .._core.errors import InvalidInput
from .._core.types import Array
from ..kernels import simplex as kernels
from .base import Accuracy, Structure, draw_index

__all__ = ["Simplex"]


@dataclass(frozen=True, repr=False)
class Simplex(Structure):
    """One of k classes, 0 to k − 1: the probability simplex, with the one-hot vectors as vertices.

    M = {μ in R^k : μ ≥ 0, Σ μ = 1}. Euclidean projection (sparsemax) and softmax cost O(k) a row.

    References: Martins and Astudillo, "From softmax to sparsemax", 2016; Condat, "Fast projection onto the simplex
    and the l1 ball", 2016.

    >>> from fenchel.structures import Simplex
    >>> Simplex(3).project([1.0, 0.5, -2.0])
    array([0.75, 0.25, 0.  ])
    >>> int(Simplex(3).decode(Simplex(3).argmax([1.0, 0.5, -2.0])))
    0
    """

    k: int
    checks_scores: ClassVar[bool] = True
    class_coding: ClassVar[str | None] = "one_hot"
    part_coding: ClassVar[str | None] = "one_hot"

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", check_count(self.k, "k"))

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.k,)

    @property
    def n_vertices(self) -> int:
        return self.k

    def separation(self, p: float = 2) -> float:
        return float(2 ** (1 / p)) if self.k > 1 else np.inf

    def diameter(self, p: float = 2) -> float:
        return float(2 ** (1 / p)) if self.k > 1 else 0.0

    @property
    def max_l1(self) -> float:
        return 1.0

    def class_distribution(self, mu: Array) -> Array:
        return mu

    def class_scores(self, scores: Array) -> tuple[Array, Array]:
        return scores, np.zeros(len(scores))

    def class_potentials(self, theta: Array) -> Array:
        return theta

    def class_mean(self, distribution: Array) -> Array:
        return distribution

    def center(self, theta: Array) -> Array:
        top = theta.max(axis=-1, keepdims=True)
        return theta - np.where(np.isfinite(top), top, 0)

    def gibbs_omega(self, mu: Array) -> Array:
        return negative_entropy(mu).sum(axis=-1)

    def _encode(self, outputs: Array, dtype: np.dtype[Any]) -> Array:
        classes = self._check_labels(outputs, self.k)
        rows = np.zeros((len(classes), self.k), dtype)
        rows[np.arange(len(classes)), classes] = 1
        return rows

    def _decode(self, rows: Array) -> Array:
        return rows.argmax(axis=-1)

    def _vertices(self) -> Array:
        return np.eye(self.k)

    def _argmax(self, rows: Array) -> Array:
        out = np.zeros_like(rows)
        best = rows.argmax(axis=-1)
        chosen = np.take_along_axis(rows, best[:, None], axis=-1)[:, 0]
        self._refuse(~np.isfinite(chosen), rows)  # the first NaN counts as the largest entry
        np.put_along_axis(out, best[:, None], 1, axis=-1)
        return out

    def _project(self, rows: Array, accuracy: Accuracy) -> Array:
        out = np.empty_like(rows)
        parallel.run(kernels.project, len(rows), rows.size, rows, 1.0, out)
        self._refuse(np.isnan(out[:, 0]), rows)
        return out

    def _kl_project(self, rows: Array, accuracy: Accuracy) -> Array:
        return self._marginals(rows)[1]

    def _marginals(self, rows: Array) -> tuple[Array, Array]:
        out, log_sum = np.empty_like(rows), np.empty(len(rows))
        parallel.run(kernels.softmax, len(rows), rows.size, rows, 1.0, out, log_sum)
        self._refuse(np.isnan(out[:, 0]), rows)
        return log_sum, out

    def _nearest(self, rows: Array, p: float) -> Array:
        return self._argmax(rows)

    def _decompose(self, rows: Array) -> tuple[Array, Array]:
        eye = np.eye(self.k, dtype=rows.dtype)
        return np.maximum(rows, 0), np.broadcast_to(eye, (len(rows), self.k, self.k)).copy()

    def _sample(self, rows: Array, rng: np.random.Generator) -> Array:
        return self._encode(draw_index(np.maximum(rows, 0), rng), rows.dtype)

    def _violation(self, rows: Array) -> Array:
        below = np.maximum(-rows, 0).max(axis=-1, initial=0.0)
        return np.maximum(below, np.abs(rows.sum(axis=-1, dtype=np.float64) - 1))

    def fenchel_young(self, psi: str, theta: Array, v: Array, strength: float) -> tuple[Array, Array]:
        """Losses and predictions of the ``psi`` regularizer in one compiled pass over the batch."""
        value, mu = np.empty(len(theta)), np.empty_like(theta)
        body = kernels.sparsemax_loss if psi == "euclidean" else kernels.logistic_loss
        parallel.run(body, len(theta), theta.size, theta, v, float(strength), value, mu)
        self._refuse(np.isnan(mu[:, 0]), theta)
        return value, mu

    def _refuse(self, unanswered: Array, rows: Array) -> None:
        if unanswered.any():
            check_no_nan(rows, "scores", self)
            raise InvalidInput(f"scores forbid every class (all are -inf) at sample {int(unanswered.argmax())}")


def negative_entropy(mu: Array) -> Array:
    """μ log μ entry by entry, with 0 log 0 = 0."""
    safe = np.where(mu > 0, mu, 1)
    result: Array = np.where(mu > 0, mu * np.log(safe), 0.0)
    return result
