"""The contract of a search for the answer of least weighted cost."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from ..._core.errors import InvalidInput
from ..._core.types import Array
from ...costs.base import Cost

__all__ = ["SMALL_TABLE", "Answers", "Search", "block_rows", "weighted_costs"]

BLOCK_BYTES = 2**26
"""Tables of costs are made in blocks of about this size."""
SMALL_TABLE = 2**22
"""Tables with no more entries than this are made once and kept."""


class Answers(ABC):
    """A way to find the answer of least weighted cost; :meth:`search` ties it to a cost and to the training outputs.

    A new one is a file with an ``Answers`` and a :class:`Search`, and a line in the registry.
    """

    @abstractmethod
    def search(self, cost: Cost, truths: Array) -> Search:
        """The search for this cost among these truths; what cannot work is refused here."""


class Search(ABC):
    """argmin over ŷ of Σ_i α_i cost(ŷ, y_i), for rows of weights α.

    Where all that matters of the weights are some sums Σ_i α_i e_i, ``embedding`` holds the rows e_i, and both methods
    are handed these sums ("means") in place of weights. The predictor then never makes the weights.
    """

    embedding: Array | None = None
    costs_from_means: bool = False
    """Whether :meth:`costs`, too, is content with the means; else it takes weights."""

    def __init__(self, cost: Cost, truths: Array) -> None:
        self.cost = cost
        self.truths = truths

    @abstractmethod
    def answers(self, means: Array) -> Array:
        """The best answer for each row of weights (or of means)."""

    def references(self, rng: np.random.Generator, count: int) -> Array:
        """Answers whose costs are predicted to compare alphas; by default some of the training outputs."""
        return self.truths[rng.choice(len(self.truths), min(count, len(self.truths)), replace=False)]

    def costs(self, means: Array, answers: Array) -> Array:
        """Σ_i α_i cost(ŷ, y_i) of an answer for each row."""
        return weighted_costs(self.cost, answers, self.truths, means)


def block_rows(width: int, bytes_: int = BLOCK_BYTES) -> int:
    """How many rows of so many float64 numbers a block has."""
    return max(1, bytes_ // (8 * max(width, 1)))


def weighted_costs(cost: Cost, answers: Array, truths: Array, weights: Array) -> Array:
    """Σ_i weights[b, i] cost(answers[b], y_i) for each b, in blocks."""
    if len(answers) != len(weights):
        raise InvalidInput(f"there are {len(answers)} answers for {len(weights)} inputs")
    total = np.zeros(len(answers))
    step = block_rows(len(truths))
    for start in range(0, len(answers), step):
        part = slice(start, start + step)
        total[part] = np.einsum("bi,bi->b", cost.between(answers[part], truths), weights[part])
    return total
