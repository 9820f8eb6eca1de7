"""Costs of rankings and of the first places."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._core.checks import check_count
from .._core.errors import InvalidInput
from .._core.types import Array, ArrayLike
from ..structures.base import Structure
from ..structures.birkhoff import Birkhoff
from ..structures.budget import Budget
from .base import AffineForm, Cost

__all__ = ["Discounted", "PrecisionAt"]


@dataclass(frozen=True)
class Discounted(Cost):
    """One minus the normalised discounted cumulative gain (NDCG) of a ranking, the gains given by the true ranking.

    Rankings are arrays of ranks, 0 for the best. The item of true rank r has the gain n − 1 − r (or 2^(n−1−r) − 1 with
    ``exponential=True``) and an item put at rank s counts 1/log₂(s + 2) of its gain:

    L(ŷ, y) = 1 − Σ_i gain(y_i) discount(ŷ_i) / Σ_r gain(r) discount(r).

    Between permutation matrices it is bilinear, so the answer of least expected cost is one assignment.

    Reference: Järvelin and Kekäläinen, "Cumulated gain-based evaluation of IR techniques", 2002.

    >>> from fenchel.costs import Discounted
    >>> Discounted()([[0, 1, 2], [2, 1, 0]], [[0, 1, 2], [0, 1, 2]]).round(4)
    array([0.    , 0.3801])
    """

    exponential: bool = False

    def _table(self, n: int) -> Array:
        """The share of the ideal gain that an item of true rank r earns at rank s, as a table [s, r]."""
        left = np.arange(n - 1, -1, -1, dtype=float)
        gains = 2**left - 1 if self.exponential else left
        discounts = 1 / np.log2(np.arange(n) + 2)
        ideal = float(gains @ discounts)
        return np.outer(discounts, gains / ideal) if ideal > 0 else np.full((n, n), 1.0 / n)

    def __call__(self, y_pred: ArrayLike, y_true: ArrayLike) -> Array:
        answers, truths = self._outputs(y_pred, y_true)
        n = answers.shape[-1] if answers.ndim else 0
        if answers.ndim == 0 or answers.dtype.kind not in "iu" or truths.dtype.kind not in "iu":
            raise InvalidInput("rankings are arrays of whole ranks, 0 for the best")
        if answers.size and (min(answers.min(), truths.min()) < 0 or max(answers.max(), truths.max()) >= n):
            raise InvalidInput(f"ranks of {n} items go from 0 to {n - 1}")
        return np.maximum(1 - self._table(n)[answers, truths].sum(axis=-1), 0)

    def affine(self, answers: Structure, truths: Structure | None = None) -> AffineForm:
        truths = answers if truths is None else truths
        if not isinstance(answers, Birkhoff) or truths.shape != answers.shape:
            raise self._refuse(answers, truths, "it needs permutation matrices; use Birkhoff(n)")
        table = self._table(answers.n)
        return AffineForm(
            answers,
            truths,
            lambda mu: -(mu @ table.T),
            lambda mu: np.ones(len(mu)),
            lambda p: (-(p @ table), np.ones(len(p))),
        )


@dataclass(frozen=True)
class PrecisionAt(Cost):
    """The share of wrong labels among k that are answered: L(ŷ, y) = 1 − |ŷ ∩ y| / k.

    Answers are label sets of exactly k labels, ``Budget(n, k, k)``; truths are any label sets of n labels.

    >>> from fenchel.costs import PrecisionAt
    >>> PrecisionAt(2)([[1, 1, 0], [0, 1, 1]], [[1, 0, 0], [0, 1, 1]])
    array([0.5, 0. ])
    """

    k: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", check_count(self.k, "k"))

    def __call__(self, y_pred: ArrayLike, y_true: ArrayLike) -> Array:
        answers, truths = self._outputs(y_pred, y_true)
        if answers.size and np.any(answers.sum(axis=-1) != self.k):
            raise InvalidInput(f"answers must have {self.k} labels each; {self!r} counts the wrong ones among them")
        return 1 - (answers * truths).sum(axis=-1) / self.k

    def affine(self, answers: Structure, truths: Structure | None = None) -> AffineForm:
        truths = answers if truths is None else truths
        right = isinstance(answers, Budget) and answers.low == answers.high == self.k
        if not right or answers.shape != truths.shape:
            raise self._refuse(answers, truths, f"answers need {self.k} labels each; use Budget(n, {self.k}, {self.k})")
        return AffineForm(
            answers,
            truths,
            lambda mu: -mu / self.k,
            lambda mu: np.ones(len(mu)),
            lambda p: (-p / self.k, np.ones(len(p))),
        )
