"""One minus the F-measure of a label set."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._core.checks import check_finite_positive
from .._core.types import Array, ArrayLike
from ..structures.base import Structure
from ..structures.budget import Budget
from .base import AffineForm, Cost

__all__ = ["FMeasure"]


@dataclass(frozen=True)
class FMeasure(Cost):
    """One minus the F-measure of the answered label set, the weighted harmonic mean of precision and recall:

    L(ŷ, y) = 1 − (1 + β²) |ŷ ∩ y| / (|ŷ| + β² |y|), and 0 where both sets are empty.

    It is affine only between sets of known sizes, ``Budget(k, m, m)``: otherwise the truth's size divides, which no
    linear function of its labels is.

    Reference: van Rijsbergen, "Information retrieval", 1979.

    >>> from fenchel.costs import FMeasure
    >>> FMeasure()([[1, 1, 0], [0, 0, 0]], [[1, 0, 0], [0, 0, 0]]).round(4)
    array([0.3333, 0.    ])
    """

    beta: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "beta", check_finite_positive(self.beta, "beta"))

    def __call__(self, y_pred: ArrayLike, y_true: ArrayLike) -> Array:
        answers, truths = self._outputs(y_pred, y_true)
        both = (answers * truths).sum(axis=-1)
        sizes = answers.sum(axis=-1) + self.beta**2 * truths.sum(axis=-1)
        safe = np.where(sizes > 0, sizes, 1)
        return np.asarray(np.where(sizes > 0, 1 - (1 + self.beta**2) * both / safe, 0.0))

    def affine(self, answers: Structure, truths: Structure | None = None) -> AffineForm:
        truths = answers if truths is None else truths
        for side in (answers, truths):
            if type(side) is not Budget or side.low != side.high:
                raise self._refuse(
                    answers,
                    truths,
                    "the sizes of the sets divide; use Budget(k, m, m) for both, Hamming(), or PrecisionAt(m)",
                )
        assert isinstance(answers, Budget)
        assert isinstance(truths, Budget)
        if answers.k != truths.k:
            raise self._refuse(answers, truths, f"they have {answers.k} and {truths.k} labels")
        total = answers.high + self.beta**2 * truths.high
        factor = (1 + self.beta**2) / total if total > 0 else 0.0
        constant = 1.0 if total > 0 else 0.0
        return AffineForm(answers, truths, lambda mu: -factor * mu, lambda mu: np.full(len(mu), constant))
