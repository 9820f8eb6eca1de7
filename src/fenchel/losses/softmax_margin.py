"""Softmax-margin: a conditional random field that is told the cost of mistakes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._core.errors import IncompatiblePair, MissingOracle
from .._core.ragged import inner
from .._core.types import Array, ArrayLike
from ..costs.base import Cost, affine_form
from ..structures.base import Structure
from .base import Loss
from .named import CRF

__all__ = ["SoftmaxMargin"]


@dataclass(frozen=True)
class SoftmaxMargin(Loss):
    """log Σ exp(⟨θ, φ(y')⟩ + L(y', y)) − ⟨θ, φ(y)⟩ for a cost L with an affine form: the hinge with a soft maximum.

    It is the CRF's loss at scores to which the cost of the truth is added, so an evaluation is one call of the marginals.
    It is smooth, at least the structured hinge, and never zero. ``predict`` gives the marginals at the scores alone.

    Reference: Gimpel and Smith, "Softmax-margin CRFs: training log-linear models with cost functions", 2010.

    >>> from fenchel.costs import ZeroOne
    >>> from fenchel.losses import SoftmaxMargin
    >>> from fenchel.structures import Simplex
    >>> value, _ = SoftmaxMargin(Simplex(2), ZeroOne()).value_and_grad([1.0, 0.0], [1.0, 0.0])
    >>> float(value.round(4))  # log(e + e) - 1
    0.6931
    """

    structure: Structure
    cost: Cost

    def __post_init__(self) -> None:
        self._require(self.structure, "marginals", "SoftmaxMargin")
        try:
            affine_form(self.cost, self.structure, self.structure)
        except IncompatiblePair as error:
            raise IncompatiblePair(
                f"SoftmaxMargin adds the cost to the scores, so it needs an affine form: {error}"
            ) from None

    @property
    def smoothness(self) -> float:
        return CRF(self.structure).smoothness

    @property
    def differentiable(self) -> bool:
        return True

    def value_and_grad(self, theta: ArrayLike, v: ArrayLike) -> tuple[Array, Array]:
        rows, points, batch = self._pair(theta, v)
        form = affine_form(self.cost, self.structure, self.structure)
        added = form.apply(points)
        value, residual = CRF(self.structure)._value_and_grad(
            rows + added.astype(rows.dtype, copy=False), points, batch
        )
        own = inner(added, points) + form.constant(points)  # what a truth costs as an answer, zero for most costs
        return np.maximum(value + self._per_example(own, rows, batch), 0), residual

    def predict(self, theta: ArrayLike) -> Array:
        return CRF(self.structure).predict(theta)

    def omega(self, mu: ArrayLike) -> Array:
        raise MissingOracle("the Ω of SoftmaxMargin depends on the truth; value(θ, v) holds it")
