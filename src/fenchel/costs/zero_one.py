"""One for every wrong answer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._core.types import Array, ArrayLike
from ..structures.base import Structure
from .base import AffineForm, Cost, as_outputs, check_class_counts, class_affine, differ_in_size, per_example

__all__ = ["ZeroOne"]


@dataclass(frozen=True)
class ZeroOne(Cost):
    """L(ŷ, y) = 1 if ŷ differs from y, else 0, however large an output is.

    >>> from fenchel.costs import ZeroOne
    >>> ZeroOne()([0, 1, 2], [0, 2, 2])
    array([0., 1., 0.])
    """

    def __call__(self, y_pred: ArrayLike, y_true: ArrayLike) -> Array:
        if differ_in_size(y_pred, y_true):
            return np.minimum(self._sum_of_parts(y_pred, y_true), 1)
        answers, truths = self._outputs(y_pred, y_true)
        return np.minimum(per_example(answers != truths), 1)

    def between(self, answers: ArrayLike, truths: ArrayLike) -> Array:
        ours, theirs = as_outputs(answers), as_outputs(truths)
        if ours.ndim == theirs.ndim == 1 and not any(
            isinstance(o[0], np.ndarray | list) for o in (ours, theirs) if len(o)
        ):
            return np.asarray(ours[:, None] != theirs, dtype=np.float64)
        return super().between(ours, theirs)

    def affine(self, answers: Structure, truths: Structure | None = None) -> AffineForm:
        truths = answers if truths is None else truths
        if answers.class_coding == "one_hot" and answers.shape == truths.shape:
            # Truths may be points of a larger set: the answer alone makes this affine, L = ⟨φ(ŷ), 1 − φ(y)⟩.
            return AffineForm(
                answers, truths, lambda mu: 1 - mu, lambda mu: np.zeros(len(mu)), lambda p: (-p, p.sum(axis=-1))
            )
        if answers.class_coding is None or truths.class_coding is None:
            raise self._refuse(
                answers, truths, "being right as a whole is no linear function of the parts; use Hamming()"
            )
        k = check_class_counts(self, answers, truths)
        return class_affine(self, 1 - np.eye(k), answers, truths)
