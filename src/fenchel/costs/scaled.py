"""A cost times a factor, for all examples or for each."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.errors import InvalidInput
from .._core.ragged import scale_items
from .._core.types import Array, ArrayLike
from ..structures.base import Structure
from .base import AffineForm, Cost, affine_form

__all__ = ["Scaled"]


class Scaled(Cost):
    """L(ŷ, y) = factor · cost(ŷ, y), with one positive factor for all examples or one for each.

    An array of factors belongs to a batch of as many examples. It is not a sample weight: it changes what the loss of
    an example is at given scores, not how much that loss counts.

    >>> from fenchel.costs import Absolute, Hamming, Scaled
    >>> Scaled(Hamming(), 1 / 3)([[1, 0, 1]], [[1, 1, 0]]).round(4)  # the share of wrong labels
    array([0.6667])
    >>> Scaled(Absolute(), [1.0, 10.0])([0, 0], [2, 2])
    array([ 2., 20.])
    """

    def __init__(self, cost: Cost, factor: ArrayLike) -> None:
        if not isinstance(cost, Cost):
            raise InvalidInput(f"cost is {cost!r}, expected a fenchel.costs.Cost")
        try:
            factors = np.array(factor, dtype=np.float64)
        except (TypeError, ValueError):
            raise InvalidInput(f"factor is {factor!r}, expected a positive number or one for each example") from None
        if factors.ndim > 1 or not np.all(np.isfinite(factors) & (factors > 0)):
            raise InvalidInput("factor must be a finite number > 0, or a list with one for each example")
        factors.setflags(write=False)
        self.cost = cost
        self.factor: Any = factors if factors.ndim else float(factors)

    def saved_arguments(self) -> dict[str, Any]:
        """Constructor arguments for a saved model."""
        return {"cost": self.cost, "factor": self.factor}

    def __repr__(self) -> str:
        shown = f"<{len(self.factor)} factors>" if np.ndim(self.factor) else f"{self.factor:g}"
        return f"Scaled({self.cost!r}, {shown})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scaled) and self.cost == other.cost and np.array_equal(self.factor, other.factor)

    def __hash__(self) -> int:
        return hash((self.cost, np.asarray(self.factor).tobytes()))

    def __call__(self, y_pred: ArrayLike, y_true: ArrayLike) -> Array:
        costs = self.cost(y_pred, y_true)
        self.check_batch(np.size(costs))
        return np.asarray(self.factor * costs)

    def answers_to(self, truths: Structure) -> Structure:
        return self.cost.answers_to(truths)

    def take(self, idx: Any) -> Cost:
        inner = self.cost.take(idx)
        if np.ndim(self.factor):
            return Scaled(inner, self.factor[idx])
        return self if inner is self.cost else Scaled(inner, self.factor)

    def matrix(self, structure: Structure) -> Array:
        if np.ndim(self.factor):
            raise InvalidInput(f"{self!r} has a matrix for each example; ask take(i), or the cost it scales")
        return self.factor * self.cost.matrix(structure)

    def affine(self, answers: Structure, truths: Structure | None = None) -> AffineForm:
        truths = answers if truths is None else truths
        form = affine_form(self.cost, answers, truths)

        def scaled(values: Any) -> Any:
            self.check_batch(len(values))
            return scale_items(values, self.factor)

        def adjoint(p: Array) -> tuple[Array, Array]:
            scores, offset = form._adjoint(p)
            return scaled(scores), scaled(offset)

        return AffineForm(
            answers, truths, lambda mu: scaled(form._apply(mu)), lambda mu: scaled(form._constant(mu)), adjoint
        )

    def check_batch(self, n: int) -> None:
        """Refuse a batch of another number of examples than there are factors."""
        if np.ndim(self.factor) and len(self.factor) != n:
            raise InvalidInput(f"{self!r} is for {len(self.factor)} examples, but the batch has {n}")
