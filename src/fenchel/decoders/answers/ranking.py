"""Rankings of items that truths rate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..._core import parallel
from ..._core.checks import check_choice, check_count
from ..._core.errors import IncompatiblePair, InvalidInput
from ..._core.types import Array
from ...costs.base import Cost
from ...costs.rated_pairs import RatedPairs
from ...kernels import feedback_arc_set as kernels
from ...optim.feedback_arc_set import order_antisymmetric
from .base import Answers, Search, block_rows

__all__ = ["Ranking"]


@dataclass(frozen=True)
class Ranking(Answers):
    """Rankings of least weighted :class:`fenchel.costs.RatedPairs` cost, by :func:`fenchel.optim.feedback_arc_set`.

    With W_ij = Σ_u α_u max(y_ui − y_uj, 0), what it costs to have j before i, and D = W − Wᵀ, a ranking costs
    Σ_ij min(W_ij, W_ji)/2 plus the positive entries of D that point back. The weights have signs and so has W: the
    heuristic works on D, and the constant comes back in the cost. O(rated pairs + items²) an input.

    ``method`` is "auto" (exact for at most 10 items, else "local"), "exact", "local" or "greedy".

    >>> import numpy as np
    >>> from fenchel.costs import RatedPairs
    >>> from fenchel.decoders.answers import Ranking
    >>> ratings = np.array([[5.0, 1.0, 3.0], [1.0, 5.0, np.nan]])
    >>> Ranking().search(RatedPairs(), ratings).answers(np.array([[0.9, 0.2], [0.1, 0.9]]))
    array([[0, 2, 1],
           [1, 0, 2]])
    """

    method: str = "auto"
    max_passes: int = 100

    def __post_init__(self) -> None:
        check_choice(self.method, "method", ("auto", "exact", "local", "greedy"))
        check_count(self.max_passes, "max_passes", minimum=0)

    def search(self, cost: Cost, truths: Array) -> Search:
        if not isinstance(cost, RatedPairs):
            raise IncompatiblePair(
                f"Ranking() answers for the cost RatedPairs(), not for {cost!r}; for costs of complete rankings give a structure "
                "such as LinearOrdering(n)"
            )
        return _RankingSearch(cost, truths, self)


class _RankingSearch(Search):
    def __init__(self, cost: RatedPairs, truths: Array, answers: Ranking) -> None:
        super().__init__(cost, truths)
        self.ratings = cost.ratings(truths)
        self.scale = cost.scale(self.ratings)
        n = self.ratings.n_items
        self.method = ("exact" if n <= 10 else "local") if answers.method == "auto" else answers.method
        if self.method == "exact" and n > 18:
            raise InvalidInput(f"method is 'exact' for {n} items, at most 18 are possible; use 'local'")
        self.max_passes = answers.max_passes

    def references(self, rng: np.random.Generator, count: int) -> Array:
        """Rankings at random: truths are ratings and no answers."""
        return rng.permuted(np.tile(np.arange(self.ratings.n_items), (count, 1)), axis=1)

    def answers(self, means: Array) -> Array:
        n, data = self.ratings.n_items, self.ratings
        ranks = np.empty((len(means), n), np.int64)
        step = block_rows(n * n)
        pairs = float(np.square(np.diff(data.offsets)).sum()) / 2
        for start in range(0, len(means), step):
            weights = np.ascontiguousarray(means[start : start + step] * self.scale)
            preference = np.empty((len(weights), n, n))
            arguments = (weights, data.items, data.values, data.offsets, preference)
            parallel.run(kernels.add_preferences, len(weights), len(weights) * (pairs + n * n), *arguments)
            order, _ = order_antisymmetric(preference, self.method, self.max_passes)
            np.put_along_axis(ranks[start : start + step], order, np.arange(n)[None, :], axis=1)
        return ranks
