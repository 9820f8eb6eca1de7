"""The best of a list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._core.errors import IncompatiblePair, InvalidInput
from ..._core.types import Array
from ...costs.base import Cost, as_outputs
from ...costs.kernel_cost import KernelCost
from .base import SMALL_TABLE, Answers, Search, block_rows

__all__ = ["Candidates", "PreImage", "distinct"]


@dataclass(frozen=True, eq=False)
class _Listed(Answers):
    """Answers from a list; None is the distinct training outputs."""

    outputs: Any = None

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other) or (self.outputs is None) != (other.outputs is None):
            return False
        if self.outputs is None:
            return True
        return np.array_equal(as_outputs(self.outputs), as_outputs(other.outputs))

    __hash__ = None  # type: ignore[assignment]

    def _list(self, truths: Array) -> Array:
        outputs = distinct(truths) if self.outputs is None else as_outputs(self.outputs)
        if len(outputs) == 0:
            raise InvalidInput("there is no candidate to answer with")
        return outputs


@dataclass(frozen=True, eq=False)
class Candidates(_Listed):
    """The best of a list of outputs, by default the distinct training outputs; of equals the first.

    Tables of costs between candidates and training outputs are made in blocks; only small ones are kept. With a cost that
    has ``factors`` (squared, Hellinger's squared) no such table is made: O(candidates · factors) an input, else
    O(candidates · training outputs).

    >>> import numpy as np
    >>> from fenchel.costs import EditDistance
    >>> from fenchel.decoders.answers import Candidates
    >>> search = Candidates(["cat", "cart", "dog"]).search(EditDistance(), np.array(["cat", "bat", "dog"], dtype=object))
    >>> search.answers(np.array([[0.2, 0.6, 0.1], [0.1, 0.0, 0.9]]))
    array(['cat', 'dog'], dtype=object)
    """

    def search(self, cost: Cost, truths: Array) -> Search:
        outputs = self._list(truths)
        factors = cost.factors(truths)
        if factors is not None:
            return _FactorSearch(cost, truths, outputs, *factors)
        return CandidateSearch(cost, truths, outputs)


class CandidateSearch(Search):
    """The best candidate, by tables of costs in blocks."""

    def __init__(self, cost: Cost, truths: Array, outputs: Array) -> None:
        super().__init__(cost, truths)
        self.outputs = outputs
        self._table: Array | None = None

    def answers(self, means: Array) -> Array:
        return self.outputs[self.best(means)]

    def best(self, means: Array) -> Array:
        """The place of the best candidate for each row of weights."""
        step = block_rows(len(self.truths))
        return _running_argmin(means, len(self.outputs), step, lambda part: means @ self.table(part).T)

    def table(self, part: slice) -> Array:
        """The costs of some candidates against all truths; a small table is made once."""
        if len(self.outputs) * len(self.truths) > SMALL_TABLE:
            return self.cost.between(self.outputs[part], self.truths)
        if self._table is None:
            self._table = self.cost.between(self.outputs, self.truths)
        return self._table[part]


class _FactorSearch(Search):
    costs_from_means = True

    def __init__(self, cost: Cost, truths: Array, outputs: Array, rows: Array, answer_factors: Any) -> None:
        super().__init__(cost, truths)
        self.outputs = outputs
        self.embedding = rows
        self.answer_factors = answer_factors

    def answers(self, means: Array) -> Array:
        step = block_rows(max(len(means), means.shape[1]))

        def scores(part: slice) -> Array:
            return means @ self.answer_factors(self.outputs[part]).T

        return self.outputs[_running_argmin(means, len(self.outputs), step, scores)]

    def costs(self, means: Array, answers: Array) -> Array:
        return np.asarray(np.einsum("ij,ij->i", means, self.answer_factors(answers)))


def _running_argmin(means: Array, count: int, step: int, scores: Any) -> Array:
    best = np.full(len(means), np.inf)
    place = np.zeros(len(means), np.int64)
    rows = np.arange(len(means))
    for start in range(0, count, step):
        table = scores(slice(start, start + step))
        first = table.argmin(axis=1)
        better = table[rows, first] < best
        place[better] = first[better] + start
        best[better] = table[rows, first][better]
    return place


@dataclass(frozen=True, eq=False)
class PreImage(_Listed):
    """How kernel dependency estimation decodes: argmin h(ŷ, ŷ) − 2 Σ_i α_i h(ŷ, y_i) over a list of outputs.

    This is the least of the cost h(ŷ, ŷ) − 2 h(ŷ, y) + h(y, y) only where h(ŷ, ŷ) is the same for all ŷ or the weights
    sum to one; with a kernel that is not normalised it is not consistent. It is here to compare with.

    Reference: Cortes, Mohri and Weston, "A general regression technique for learning transductions", 2005.

    >>> import numpy as np
    >>> from fenchel.costs import KernelCost
    >>> from fenchel.decoders.answers import Candidates, PreImage
    >>> truths, weights = np.array([[1.0], [2.0]]), np.array([[0.2, 0.4]])
    >>> PreImage().search(KernelCost("linear"), truths).answers(weights)
    array([[1.]])
    >>> Candidates().search(KernelCost("linear"), truths).answers(weights)
    array([[2.]])
    """

    def search(self, cost: Cost, truths: Array) -> Search:
        if not isinstance(cost, KernelCost):
            raise IncompatiblePair(f"PreImage decodes for KernelCost(...), not for {cost!r}; use Candidates()")
        return _PreImageSearch(cost, truths, self._list(truths))


class _PreImageSearch(CandidateSearch):
    def best(self, means: Array) -> Array:
        cost: Any = self.cost

        def scores(part: slice) -> Array:
            some = self.outputs[part]
            return cost.kernel_diagonal(some) - 2 * means @ cost.kernel_between(some, self.truths).T

        return _running_argmin(means, len(self.outputs), block_rows(len(self.truths)), scores)


def distinct(outputs: Array) -> Array:
    """The different ones among outputs, in the order in which they come."""
    if outputs.dtype == object:
        try:
            first = {output: i for i, output in reversed(list(enumerate(outputs.tolist())))}
        except TypeError:  # lists and arrays cannot be keys
            return outputs
        return outputs[np.sort(np.fromiter(first.values(), np.int64, len(first)))]
    return outputs[np.sort(np.unique(outputs, axis=0, return_index=True)[1])]
