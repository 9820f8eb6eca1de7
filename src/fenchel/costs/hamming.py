"""The number of wrong parts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._core.ragged import item_sums
from .._core.types import Array, ArrayLike
from ..structures.base import Structure
from ..structures.product import Product
from ..structures.ragged import Family
from .base import AffineForm, Cost, differ_in_size, per_example
from .zero_one import ZeroOne

__all__ = ["Hamming"]


@dataclass(frozen=True)
class Hamming(Cost):
    """L(ŷ, y) = the number of parts in which ŷ and y differ: labels, positions, pairs.

    Lists of outputs of different lengths are compared one by one.

    >>> from fenchel.costs import Hamming
    >>> Hamming()([[1, 0, 1], [0, 0, 0]], [[1, 1, 0], [0, 0, 0]])
    array([2., 0.])
    """

    def __call__(self, y_pred: ArrayLike, y_true: ArrayLike) -> Array:
        if differ_in_size(y_pred, y_true):
            return self._sum_of_parts(y_pred, y_true)
        answers, truths = self._outputs(y_pred, y_true)
        return per_example(answers != truths)

    def label_matrix(self, k: int) -> Array:
        return 1 - np.eye(k)

    def affine(self, answers: Structure, truths: Structure | None = None) -> AffineForm:
        truths = answers if truths is None else truths
        if answers.part_coding == "labels":
            return self._position_affine(answers, truths)
        if isinstance(answers, Family) or isinstance(truths, Family):
            if answers != truths:
                raise self._refuse(answers, truths, "outputs of different sizes are compared within one structure")
        elif answers.shape != truths.shape:
            raise self._refuse(answers, truths, f"their points have the shapes {answers.shape} and {truths.shape}")
        if isinstance(answers, Product) and isinstance(truths, Product):
            inner = self.affine(answers.structure, truths.structure)
            return AffineForm(
                answers,
                truths,
                lambda mu: inner.apply(mu).reshape(len(mu), *answers.shape),
                lambda mu: np.sum(inner.constant(mu), axis=1),
                lambda p: _summed(*inner.adjoint(p)),
            )
        if answers.part_coding == "entry":
            # An entry is wrong when the bits differ: ŷ + y − 2ŷy.
            return AffineForm(answers, truths, lambda mu: 1 - 2 * mu, item_sums, lambda p: (1 - 2 * p, item_sums(p)))
        if answers.part_coding == "one_hot":
            # A part is wrong unless both have the same one: 1 − ⟨ŷ, y⟩, summed over parts. Truths may be points of
            # a larger set. Outputs with several numbers for each part count each number.
            most, agreement = answers.numbers_per_part, answers.agreement
            return AffineForm(
                answers,
                truths,
                lambda mu: most - agreement(mu),
                lambda mu: np.zeros(len(mu)),
                lambda p: (-agreement(p), most * item_sums(p)),
            )
        if answers.class_coding is not None:
            return ZeroOne().affine(answers, truths)
        raise self._refuse(answers, truths, "its outputs have no parts to count; use ZeroOne() or Absolute()")


def _summed(scores: Array, offsets: Array) -> tuple[Array, Array]:
    return scores, np.sum(offsets, axis=1)
