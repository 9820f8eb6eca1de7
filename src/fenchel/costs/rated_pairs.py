"""How much worse a ranking orders items than their ratings do."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._core import parallel
from .._core.errors import InvalidInput
from .._core.types import Array, ArrayLike
from ..kernels import feedback_arc_set as kernels
from .base import Cost, as_outputs

__all__ = ["RatedPairs", "Ratings"]


@dataclass(frozen=True)
class Ratings:
    """The items that each user rated, ascending, one user after the other."""

    items: Array
    values: Array
    offsets: Array
    n_items: int

    def totals(self) -> Array:
        """Σ |difference| over the rated pairs of each user: the cost of the worst ranking."""
        totals = np.zeros(len(self.offsets) - 1)
        for user in range(len(totals)):
            sorted_ratings = np.sort(self.values[self.offsets[user] : self.offsets[user + 1]])
            n = len(sorted_ratings)
            totals[user] = (2 * np.arange(n) - n + 1) @ sorted_ratings
        return totals


@dataclass(frozen=True)
class RatedPairs(Cost):
    """Σ (rating of i − rating of j) over the pairs with i rated above j, which the answer ranks below; ties count half.

    L(ŷ, y) = ½ Σ_ij max(y_i − y_j, 0) (1 + sign(ŷ_i − ŷ_j)), where an answer ŷ is an array of ranks, 0 for the best,
    and a truth y an array of ratings with NaN for items that are not rated; only pairs of rated items count. With
    ``normalized`` it is divided by the cost of the worst ranking, so that it lies between 0 and 1. The ranking of least
    weighted cost is a weighted feedback arc set problem.

    Reference: Duchi, Mackey and Jordan, "On the consistency of ranking algorithms", 2010.

    >>> import numpy as np
    >>> from fenchel.costs import RatedPairs
    >>> RatedPairs()([[0, 1, 2], [2, 1, 0]], [[5, 3, np.nan], [5, 3, 1]])
    array([0., 1.])
    """

    normalized: bool = True

    def __call__(self, y_pred: ArrayLike, y_true: ArrayLike) -> Array:
        ratings, ranks = self.ratings(y_true), self._ranks(y_pred)
        n = len(ratings.offsets) - 1
        if len(ranks) != n or ranks.shape[1] != ratings.n_items:
            raise InvalidInput(f"y_pred has shape {ranks.shape} but y_true has shape {(n, ratings.n_items)}")
        return self._run(ranks, ratings, True)[:, 0]

    def between(self, answers: ArrayLike, truths: ArrayLike) -> Array:
        ratings, ranks = self.ratings(truths), self._ranks(answers)
        if ranks.shape[1] != ratings.n_items:
            raise InvalidInput(f"answers rank {ranks.shape[1]} items, truths rate {ratings.n_items}")
        return self._run(ranks, ratings, False)

    def _run(self, ranks: Array, ratings: Ratings, paired: bool) -> Array:
        costs = np.empty((len(ranks), 1 if paired else len(ratings.offsets) - 1))
        pairs = float(np.square(np.diff(ratings.offsets)).sum())
        work = pairs if paired else pairs * len(ranks)
        arguments = (ranks, ratings.items, ratings.values, ratings.offsets, paired, costs)
        parallel.run(kernels.rated_pairs, len(ranks), work, *arguments)
        if self.normalized:
            totals = self.scale(ratings)
            costs *= totals[:, None] if paired else totals
        return costs

    def scale(self, ratings: Ratings) -> Array:
        """What each user's cost is multiplied with."""
        totals = ratings.totals()
        if not self.normalized:
            return np.ones(len(totals))
        return np.divide(1.0, totals, out=np.zeros_like(totals), where=totals > 0)

    def ratings(self, truths: ArrayLike) -> Ratings:
        """Truths as lists of rated items."""
        table = as_outputs(truths)
        if table.ndim != 2 or table.dtype.kind not in "fiub":
            raise InvalidInput(
                f"ratings have shape {table.shape}, expected a row of numbers for each user, NaN for none"
            )
        table = table.astype(np.float64)
        if np.isinf(table).any():
            raise InvalidInput(f"ratings are not finite at sample {int(np.argwhere(np.isinf(table))[0][0])}")
        users, items = np.nonzero(~np.isnan(table))
        offsets = np.concatenate([[0], np.cumsum(np.bincount(users, minlength=len(table)))]).astype(np.int64)
        return Ratings(items.astype(np.int64), table[users, items], offsets, table.shape[1])

    def _ranks(self, answers: ArrayLike) -> Array:
        ranks = as_outputs(answers)
        if ranks.ndim != 2 or ranks.dtype.kind not in "iuf":
            raise InvalidInput(f"rankings have shape {ranks.shape}, expected a row of ranks for each, 0 for the best")
        return np.ascontiguousarray(ranks, dtype=np.float64)
