"""The number of elements with a wrong partner, where having none may count for less."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._core.checks import check_finite_positive
from .._core.ragged import item_sums
from .._core.types import Array, ArrayLike
from ..structures.base import Structure
from ..structures.matching import Matching
from .base import AffineForm, Cost, differ_in_size, per_example

__all__ = ["WrongPartners"]


@dataclass(frozen=True)
class WrongPartners(Cost):
    """L(ŷ, y) = the number of elements whose partner is wrong; one that has none (−1 in y) counts ``unmatched``.

    With ``unmatched=1`` it is the Hamming cost.

    >>> from fenchel.costs import WrongPartners
    >>> WrongPartners(unmatched=0.25)([[0, 1, 2], [0, 2, 1]], [[0, 1, -1], [2, 0, 1]])
    array([0.25, 2.  ])
    """

    unmatched: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "unmatched", check_finite_positive(self.unmatched, "unmatched", zero=True))

    def __call__(self, y_pred: ArrayLike, y_true: ArrayLike) -> Array:
        if differ_in_size(y_pred, y_true):
            pairs = zip(y_pred, y_true, strict=True)  # type: ignore[arg-type]
            return np.array([float(self(np.asarray(a), np.asarray(t))) for a, t in pairs])
        answers, truths = self._outputs(y_pred, y_true)
        amounts = np.where(answers != truths, np.where(truths < 0, self.unmatched, 1.0), 0.0)
        return np.asarray(amounts.sum()) if amounts.ndim == 1 else per_example(amounts)

    def affine(self, answers: Structure, truths: Structure | None = None) -> AffineForm:
        truths = answers if truths is None else truths
        if not isinstance(answers, Matching) or answers != truths:
            raise self._refuse(answers, truths, "it compares matchings in which elements may have no partner")
        weights = self.weights(answers)
        return AffineForm(
            answers,
            truths,
            lambda mu: -weights * mu,
            lambda mu: item_sums(weights * mu),
            lambda p: (weights * (1 - p), np.zeros(len(p))),
        )

    def weights(self, structure: Structure) -> Array:
        """What it costs to miss a part, by column."""
        weights = np.ones(structure.shape[-1])
        weights[-1] = self.unmatched
        return weights
