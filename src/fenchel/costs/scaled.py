"""A cost times a number."""

from __future__ import annotations

from dataclasses import dataclass

from .._core.checks import check_finite_positive
from .._core.errors import InvalidInput
from .._core.types import Array, ArrayLike
from ..structures.base import Structure
from .base import AffineForm, Cost

__all__ = ["Scaled"]


@dataclass(frozen=True)
class Scaled(Cost):
    """L(ŷ, y) = factor · cost(ŷ, y): the same mistakes in other units, such as shares instead of counts.

    >>> from fenchel.costs import Hamming, Scaled
    >>> Scaled(Hamming(), 1 / 3)([[1, 0, 1]], [[1, 1, 0]]).round(4)
    array([0.6667])
    """

    cost: Cost
    factor: float

    def __post_init__(self) -> None:
        if not isinstance(self.cost, Cost):
            raise InvalidInput(f"cost is {self.cost!r}, expected a fenchel.costs.Cost")
        object.__setattr__(self, "factor", check_finite_positive(self.factor, "factor"))

    def __call__(self, y_pred: ArrayLike, y_true: ArrayLike) -> Array:
        return self.factor * self.cost(y_pred, y_true)

    def matrix(self, structure: Structure) -> Array:
        return self.factor * self.cost.matrix(structure)

    def affine(self, answers: Structure, truths: Structure | None = None) -> AffineForm:
        form = self.cost.affine(answers, truths)
        return AffineForm(
            form.answers,
            form.truths,
            lambda mu: self.factor * form._apply(mu),
            lambda mu: self.factor * form._constant(mu),
        )
