"""Costs between histograms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.errors import InvalidInput
from .._core.types import Array, ArrayLike
from .base import Cost, as_numbers, number_rows, per_example

__all__ = ["ChiSquared", "Hellinger", "histogram_rows"]


@dataclass(frozen=True)
class Hellinger(Cost):
    """The squared Hellinger distance Σ_k (√ŷ_k − √y_k)² between histograms; ``squared=False``: Σ_k |√ŷ_k − √y_k|.

    The squared form is a squared distance between roots, so among all histograms the answer of least weighted cost has a
    formula. The absolute form, which the reference prints, has none and its weighted sums are not convex.

    Reference: Ciliberto, Rudi and Rosasco, "A consistent regularization approach for structured prediction", 2016, section 6.

    >>> from fenchel.costs import Hellinger
    >>> Hellinger()([[1.0, 0.0], [0.5, 0.5]], [[0.0, 1.0], [0.5, 0.5]])
    array([2., 0.])
    """

    squared: bool = True

    def __call__(self, y_pred: ArrayLike, y_true: ArrayLike) -> Array:
        answers, truths = (np.sqrt(histogram_rows(side, self)) for side in (y_pred, y_true))
        _same_shape(answers, truths)
        return per_example((answers - truths) ** 2 if self.squared else np.abs(answers - truths))

    def between(self, answers: ArrayLike, truths: ArrayLike) -> Array:
        from scipy.spatial.distance import cdist

        rows, others = number_rows(answers, truths, self)
        roots = [np.sqrt(histogram_rows(side, self)) for side in (rows, others)]
        return np.asarray(cdist(*roots, "sqeuclidean" if self.squared else "cityblock"))

    def factors(self, truths: ArrayLike) -> tuple[Array, Callable[[Any], Array]] | None:
        if not self.squared:
            return None
        rows = histogram_rows(number_rows(truths, truths, self)[0], self)

        def answer_factors(answers: Any) -> Array:
            points = histogram_rows(number_rows(answers, answers, self)[0], self)
            return np.column_stack([-2 * np.sqrt(points), points.sum(axis=1), np.ones(len(points))])

        return np.column_stack([np.sqrt(rows), np.ones(len(rows)), rows.sum(axis=1)]), answer_factors


@dataclass(frozen=True)
class ChiSquared(Cost):
    """Σ_k (ŷ_k − y_k)² / (ŷ_k + y_k) between histograms; where both are zero nothing is added.

    >>> from fenchel.costs import ChiSquared
    >>> ChiSquared()([[1.0, 0.0], [0.5, 0.5]], [[0.0, 1.0], [1.0, 0.0]]).round(4)
    array([2.    , 0.6667])
    """

    def __call__(self, y_pred: ArrayLike, y_true: ArrayLike) -> Array:
        answers, truths = (histogram_rows(side, self) for side in (y_pred, y_true))
        _same_shape(answers, truths)
        total = answers + truths
        return per_example(np.divide((answers - truths) ** 2, total, out=np.zeros_like(total), where=total > 0))

    def between(self, answers: ArrayLike, truths: ArrayLike) -> Array:
        from sklearn.metrics.pairwise import additive_chi2_kernel

        rows, others = number_rows(answers, truths, self)
        return -np.asarray(additive_chi2_kernel(histogram_rows(rows, self), histogram_rows(others, self)))


def _same_shape(answers: Array, truths: Array) -> None:
    if answers.shape != truths.shape:
        raise InvalidInput(f"y_pred has shape {answers.shape} but y_true has shape {truths.shape}")


def histogram_rows(outputs: ArrayLike, cost: Cost) -> Array:
    """Outputs checked to hold no negative numbers."""
    rows = as_numbers(outputs, "histograms", cost)
    if rows.size and rows.min() < 0:
        sample = int(np.argwhere(rows < 0)[0][0])
        raise InvalidInput(
            f"a histogram holds {rows.min():g} (the first at sample {sample}); {cost!r} needs numbers >= 0"
        )
    return rows
