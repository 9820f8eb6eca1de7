"""Scores of thresholds between grades that share one direction."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.checks import check_count, check_finite_positive
from .._core.errors import InvalidInput
from .._core.types import Array
from .base import Index, Scorer
from .linear import Linear

__all__ = ["Thresholds"]


class Thresholds(Scorer):
    """θ_ij = s_i + b_j for the k − 1 thresholds between k grades: one score s = wᵀx for all, and −b_j the thresholds.

    ``base`` scores each input by one number: ``Linear(X, ())``, or ``Kernel(X, ())``. Weights are one vector, those of
    ``base`` and then the k − 1 offsets, each the weight of a column of the value ``intercept_scaling`` and penalised
    like the rest. With k grades and m features there are m + k − 1 weights instead of m (k − 1). Costs as much as
    one score, and O(k) a row to write the sums out.

    Reference: Fathony, Bashiri and Ziebart, "Adversarial surrogate losses for ordinal regression", 2017, the
    thresholded regression features.

    >>> import numpy as np
    >>> from fenchel.scorers import Linear, Thresholds
    >>> scorer = Thresholds(Linear(np.array([[1.0], [3.0]]), ()), 3)
    >>> scorer.scores(np.array([2.0, -1.0, -4.0]))  # thresholds at 1 and 4
    array([[ 1., -2.],
           [ 5.,  2.]])
    """

    def __init__(self, base: Linear, grades: int, *, intercept_scaling: float = 1.0) -> None:
        if base.n_scores != 1 or base.intercept_scaling is not None:
            raise InvalidInput(
                "base must give one score and no intercept, such as Linear(X, ()): thresholds are enough"
            )
        self.base = base
        self.grades = check_count(grades, "grades")
        self.intercept_scaling = check_finite_positive(intercept_scaling, "intercept_scaling")

    @property
    def n_examples(self) -> int:
        return self.base.n_examples

    @property
    def weights_shape(self) -> tuple[int, ...]:
        return (self.base.weights_shape[0] + self.grades - 1,)

    def split(self, w: Array, idx: Index = None) -> tuple[Array, Array]:
        """The score s of each input, and the offsets b of the thresholds."""
        cut = self.base.weights_shape[0]
        s = self.base.scores(np.ascontiguousarray(w[:cut]).reshape(-1, 1), idx)
        return s.reshape(-1), self.intercept_scaling * w[cut:].astype(s.dtype, copy=False)

    def scores(self, w: Array, idx: Index = None) -> Array:
        s, b = self.split(w, idx)
        return np.asarray(s[:, None] + b)

    def adjoint(self, residual: Array, idx: Index = None) -> Array:
        rows = residual.reshape(len(residual), self.grades - 1)
        return self.join(rows.sum(axis=1), rows.sum(axis=0, dtype=np.float64), idx)

    def join(self, shared: Array, offsets: Array, idx: Index = None) -> Array:
        """The gradient in the weights, from that in each score s and that in the offsets b."""
        base = self.base.adjoint(shared.reshape(-1, 1), idx)
        return np.concatenate([base.ravel(), self.intercept_scaling * offsets])

    def quadratic(self, direction: Array, idx: Index = None) -> Array:
        rows = direction.reshape(len(direction), self.grades - 1)
        squares = self.intercept_scaling**2 * np.einsum("ij,ij->i", rows, rows)
        return self.base.quadratic(rows.sum(axis=1).reshape(-1, 1), idx) + squares

    def take(self, idx: Any) -> Thresholds:
        return Thresholds(self.base.take(idx), self.grades, intercept_scaling=self.intercept_scaling)
