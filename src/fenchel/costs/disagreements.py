"""The number of pairs in the wrong order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._core.errors import InvalidInput
from .._core.types import Array, ArrayLike
from ..structures.base import Structure
from ..structures.linear_ordering import LinearOrdering
from .base import AffineForm, Cost

__all__ = ["Disagreements"]


@dataclass(frozen=True)
class Disagreements(Cost):
    """L(ŷ, y) = the number of pairs of items that ŷ and y rank in different orders (Kendall's distance).

    Rankings are arrays of ranks, 0 for the best. On ``LinearOrdering(n)``, whose vertices write the order of each pair,
    it is bilinear: Σ_ij φ(ŷ)_ij φ(y)_ji. It is not on permutation matrices. The answer of least expected cost is a
    weighted feedback arc set problem, exact for the numbers of items that ``LinearOrdering`` takes.

    References: Kendall, "A new measure of rank correlation", 1938; Duchi, Mackey and Jordan, "On the consistency of
    ranking algorithms", 2010.

    >>> from fenchel.costs import Disagreements
    >>> Disagreements()([[0, 1, 2], [2, 1, 0]], [[0, 2, 1], [0, 1, 2]])
    array([1., 3.])
    """

    def __call__(self, y_pred: ArrayLike, y_true: ArrayLike) -> Array:
        answers, truths = self._outputs(y_pred, y_true)
        if answers.ndim == 0 or answers.dtype.kind not in "iu" or truths.dtype.kind not in "iu":
            raise InvalidInput("rankings are arrays of whole ranks, 0 for the best")
        ours = np.sign(answers[..., :, None] - answers[..., None, :])
        theirs = np.sign(truths[..., :, None] - truths[..., None, :])
        return np.asarray((ours * theirs < 0).sum(axis=(-1, -2)) / 2)

    def affine(self, answers: Structure, truths: Structure | None = None) -> AffineForm:
        truths = answers if truths is None else truths
        if not isinstance(answers, LinearOrdering) or truths.shape != answers.shape or truths.class_coding is not None:
            raise self._refuse(
                answers,
                truths,
                "the order of a pair is no linear function of ranks; use LinearOrdering(n) "
                "(of an estimator: projection='linear_ordering')",
            )
        return AffineForm(answers, truths, lambda mu: np.swapaxes(mu, -1, -2), lambda mu: np.zeros(len(mu)))
