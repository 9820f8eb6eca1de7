"""A price for not answering."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from .._core.checks import check_finite_positive
from .._core.errors import IncompatiblePair, InvalidInput
from .._core.types import Array, ArrayLike
from ..structures.abstention import Abstention
from ..structures.base import Structure
from .base import AffineForm, Cost, class_affine, cost_table
from .zero_one import ZeroOne

__all__ = ["Abstain"]


@dataclass(frozen=True)
class Abstain(Cost):
    """A cost between classes, and a ``price`` for no answer: L(−1, y) = price, L(ŷ, y) = cost(ŷ, y).

    Answers are those of ``Abstention(k)``: a class, or −1. Abstaining pays when every answer is expected to cost more
    than the price. At the zero-one cost a price above (k − 1)/k is never worth paying.

    References: Chow, "On optimum recognition error and reject tradeoff", 1970; Ramaswamy, Tewari and Agarwal,
    "Consistent algorithms for multiclass classification with an abstain option", 2018.

    >>> from fenchel.costs import Abstain
    >>> Abstain(0.3)([0, 1, -1], [0, 2, 2])
    array([0. , 1. , 0.3])
    """

    price: float
    cost: Cost = field(default_factory=ZeroOne)

    def __post_init__(self) -> None:
        object.__setattr__(self, "price", check_finite_positive(self.price, "price", zero=True))
        if not isinstance(self.cost, Cost) or isinstance(self.cost, Abstain):
            raise InvalidInput(f"cost is {self.cost!r}, expected a cost between classes such as ZeroOne()")

    def __call__(self, y_pred: ArrayLike, y_true: ArrayLike) -> Array:
        answers, truths = self._outputs(y_pred, y_true)
        answered = answers != -1
        costs = np.full(answers.shape, self.price)
        costs[answered] = self.cost(answers[answered], truths[answered])
        return costs

    def answers_to(self, truths: Structure) -> Structure:
        inner = self.cost.answers_to(truths)
        if inner.class_coding is None or inner.n_vertices is None:
            raise IncompatiblePair(
                f"{self!r} lets a predictor of classes or grades abstain, but answers to {truths!r} are of {inner!r}; "
                "use Simplex(k) or OrderSimplex(k)"
            )
        return Abstention(inner.n_vertices)

    def matrix(self, structure: Structure) -> Array:
        """C[answer, truth], the last row to abstain."""
        return self._table(structure)

    def affine(self, answers: Structure, truths: Structure | None = None) -> AffineForm:
        truths = answers if truths is None else truths
        if not isinstance(answers, Abstention) or answers != self.answers_to(truths):
            raise self._refuse(answers, truths, f"answers are of {self.answers_to(truths)!r}")
        return class_affine(self, self._table(truths), answers, truths)

    def _table(self, truths: Structure) -> Array:
        inner = cost_table(self.cost, self.cost.answers_to(truths), truths)
        return np.vstack([inner, np.full((1, inner.shape[1]), self.price)])
