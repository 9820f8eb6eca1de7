"""How many grades the answer is off, squared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.types import Array, ArrayLike
from ..structures.base import Structure
from .base import AffineForm, Cost, check_class_counts, class_affine, differ_in_size, number_rows, per_example

__all__ = ["SquaredError"]


@dataclass(frozen=True)
class SquaredError(Cost):
    """L(ŷ, y) = (ŷ − y)². Classes are taken as ordered grades 0, 1, 2, ...; several parts add up.

    >>> from fenchel.costs import SquaredError
    >>> SquaredError()([0, 1, 4], [2, 1, 3])
    array([4., 0., 1.])
    """

    def __call__(self, y_pred: ArrayLike, y_true: ArrayLike) -> Array:
        if differ_in_size(y_pred, y_true):
            return self._sum_of_parts(y_pred, y_true)
        answers, truths = self._outputs(y_pred, y_true)
        return per_example((answers.astype(float) - truths.astype(float)) ** 2)

    def between(self, answers: ArrayLike, truths: ArrayLike) -> Array:
        from scipy.spatial.distance import cdist

        return np.asarray(cdist(*number_rows(answers, truths, self), "sqeuclidean"))

    def factors(self, truths: ArrayLike) -> tuple[Array, Callable[[Any], Array]]:
        rows = number_rows(truths, truths, self)[0]
        origin = rows.mean(axis=0) if len(rows) else 0.0  # squares of numbers far from zero would cancel
        rows = rows - origin

        def answer_factors(answers: Any) -> Array:
            points = number_rows(answers, answers, self)[0] - origin
            return np.column_stack([-2 * points, (points**2).sum(axis=1), np.ones(len(points))])

        return np.column_stack([rows, np.ones(len(rows)), (rows**2).sum(axis=1)]), answer_factors

    def label_matrix(self, k: int) -> Array:
        grades = np.arange(k, dtype=float)
        return np.asarray((grades[:, None] - grades) ** 2)

    def affine(self, answers: Structure, truths: Structure | None = None) -> AffineForm:
        truths = answers if truths is None else truths
        if answers.part_coding == "labels":
            return self._position_affine(answers, truths)
        if answers.class_coding is None or truths.class_coding is None:
            raise self._refuse(answers, truths, "it is defined for grades; use Simplex(k) or OrderSimplex(k)")
        return class_affine(self, self.label_matrix(check_class_counts(self, answers, truths)), answers, truths)
