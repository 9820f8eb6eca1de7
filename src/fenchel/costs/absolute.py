"""How many grades the answer is off."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._core.types import Array, ArrayLike
from ..structures.base import Structure
from .base import AffineForm, Cost, check_class_counts, class_affine, differ_in_size, number_rows, per_example

__all__ = ["Absolute"]


@dataclass(frozen=True)
class Absolute(Cost):
    """L(ŷ, y) = |ŷ − y|: how many grades the answer is off. Classes are taken as ordered grades 0, 1, 2, ...

    Several parts add up.

    >>> from fenchel.costs import Absolute
    >>> Absolute()([0, 1, 4], [2, 1, 3])
    array([2., 0., 1.])
    """

    def __call__(self, y_pred: ArrayLike, y_true: ArrayLike) -> Array:
        if differ_in_size(y_pred, y_true):
            return self._sum_of_parts(y_pred, y_true)
        answers, truths = self._outputs(y_pred, y_true)
        return per_example(np.abs(answers.astype(float) - truths.astype(float)))

    def between(self, answers: ArrayLike, truths: ArrayLike) -> Array:
        from scipy.spatial.distance import cdist

        return np.asarray(cdist(*number_rows(answers, truths, self), "cityblock"))

    def label_matrix(self, k: int) -> Array:
        grades = np.arange(k, dtype=float)
        return np.abs(grades[:, None] - grades)

    def affine(self, answers: Structure, truths: Structure | None = None) -> AffineForm:
        truths = answers if truths is None else truths
        if answers.part_coding == "labels":
            return self._position_affine(answers, truths)
        if answers.class_coding == "thresholds" and answers.shape == truths.shape:
            # One for every threshold on the wrong side; truths may be points of a larger set.
            return AffineForm(
                answers,
                truths,
                lambda mu: 1 - 2 * mu,
                lambda mu: mu.sum(axis=-1),
                lambda p: (1 - 2 * p, p.sum(axis=-1)),
            )
        if answers.class_coding is None or truths.class_coding is None:
            raise self._refuse(answers, truths, "it is defined for grades; use Simplex(k) or OrderSimplex(k)")
        return class_affine(self, self.label_matrix(check_class_counts(self, answers, truths)), answers, truths)
