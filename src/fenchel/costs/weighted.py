"""A cost that counts more at some positions than at others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .._core.checks import check_finite_positive
from .._core.errors import InvalidInput
from .._core.types import Array, ArrayLike
from ..structures.base import Structure
from .base import AffineForm, Cost

__all__ = ["Weighted"]


@dataclass(frozen=True)
class Weighted(Cost):
    """L(ŷ, y) = Σ_t weights[t] cost(ŷ_t, y_t): a cost of single labels, weighted by position.

    ``cost`` is any that adds up over positions (``Hamming()``, ``Absolute()``, ``SquaredError()``, a ``CostMatrix``).
    Outputs may be shorter than the weights, not longer.

    >>> from fenchel.costs import Hamming, Weighted
    >>> first_counts = Weighted(Hamming(), [5.0, 1.0, 1.0])
    >>> first_counts([[0, 1, 1], [0, 1]], [[1, 1, 0], [0, 0]])
    array([6., 1.])
    """

    cost: Cost
    weights: tuple[float, ...]

    def __init__(self, cost: Cost, weights: Sequence[float]) -> None:
        if not isinstance(cost, Cost):
            raise InvalidInput(f"cost is {cost!r}, expected a cost such as Hamming()")
        if type(cost).label_matrix is Cost.label_matrix:
            cost.label_matrix(2)  # raises, with the reason
        checked = tuple(check_finite_positive(w, f"weights[{t}]", zero=True) for t, w in enumerate(weights))
        object.__setattr__(self, "cost", cost)
        object.__setattr__(self, "weights", checked)

    def __call__(self, y_pred: ArrayLike, y_true: ArrayLike) -> Array:
        if any(np.ndim(output) == 0 for output in y_true):  # type: ignore[union-attr]
            raise InvalidInput("y_true holds single labels, but weights of positions need outputs that are sequences")
        return self.cost._sum_of_parts(y_pred, y_true, np.array(self.weights))

    def affine(self, answers: Structure, truths: Structure | None = None) -> AffineForm:
        truths = answers if truths is None else truths
        if answers.part_coding != "labels":
            raise self._refuse(answers, truths, "weights of positions are for sequences of labels")
        return self.cost._position_affine(answers, truths, np.array(self.weights))
