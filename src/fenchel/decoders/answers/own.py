"""The weighted mean, and a user's own search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..._core.errors import InvalidInput
from ..._core.types import Array
from ...costs.base import Cost, as_numbers, as_outputs
from .base import Answers, Search

__all__ = ["FunctionAnswers", "WeightedMean"]


@dataclass(frozen=True)
class WeightedMean(Answers):
    """Σ_i α_i y_i, whatever the cost: with ridge weights this is kernel ridge regression. It is here to compare with.

    The answer of least squared cost is Σ_i α_i y_i / Σ_i α_i.

    >>> import numpy as np
    >>> from fenchel.costs import SquaredError
    >>> from fenchel.decoders.answers import WeightedMean
    >>> search = WeightedMean().search(SquaredError(), np.array([1.0, 3.0]))
    >>> search.answers(np.array([[0.5, 0.25]]) @ search.embedding)
    array([1.25])
    """

    def search(self, cost: Cost, truths: Array) -> Search:
        return _MeanSearch(cost, truths)


class _MeanSearch(Search):
    def __init__(self, cost: Cost, truths: Array) -> None:
        super().__init__(cost, truths)
        rows = as_numbers(truths, "outputs", "WeightedMean()")
        self.shape = rows.shape[1:]
        self.embedding = rows.reshape(len(rows), -1)

    def answers(self, means: Array) -> Array:
        return means.reshape(len(means), *self.shape)


@dataclass(frozen=True, eq=False)
class FunctionAnswers(Answers):
    """A user's own search: ``function(weights, outputs)`` of the weights of one input and the training outputs.

    >>> import numpy as np
    >>> from fenchel.costs import ZeroOne
    >>> from fenchel.decoders.answers import FunctionAnswers
    >>> heaviest = FunctionAnswers(lambda weights, outputs: outputs[weights.argmax()])
    >>> heaviest.search(ZeroOne(), np.array(["a", "b"], dtype=object)).answers(np.array([[0.1, 0.4]]))
    array(['b'], dtype=object)
    """

    function: Callable[[Array, Array], Any]

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise InvalidInput(f"answers is {self.function!r}, expected a function of weights and outputs")

    def search(self, cost: Cost, truths: Array) -> Search:
        return _FunctionSearch(cost, truths, self.function)


class _FunctionSearch(Search):
    def __init__(self, cost: Cost, truths: Array, function: Callable[[Array, Array], Any]) -> None:
        super().__init__(cost, truths)
        self.function = function

    def answers(self, means: Array) -> Array:
        return as_outputs([self.function(row, self.truths) for row in means])
