"""Minimum risk: the expected cost of a draw from the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .._core.checks import check_finite_positive
from .._core.errors import IncompatiblePair, MissingOracle
from .._core.ragged import inner
from .._core.types import Array, ArrayLike
from ..costs.base import Cost, affine_form
from ..structures.base import Structure
from ..structures.derivatives import derivative_product
from .base import Loss
from .named import CRF

__all__ = ["MinimumRisk"]


@dataclass(frozen=True)
class MinimumRisk(Loss):
    """Σ p(y') L(y', y) under the Gibbs distribution p(y') ∝ exp(⟨θ, φ(y')⟩ / strength): what a draw from the model costs.

    For a cost with an affine form it is linear in the marginals μ, ⟨μ, Vφ(y) + b⟩ + c(y), and its gradient the covariance of
    φ(y') times Vφ(y) + b: for trees O(n³), as the marginals. It is smooth and bounded by the largest cost, but **not
    convex**: solvers find a place where it is flat, and there is no duality gap. Where all of the cost is far away,
    so is the gradient, so start from weights that are good already. ``predict`` gives the Gibbs marginals.

    References: Smith and Eisner, "Minimum risk annealing for training log-linear models", 2006; Li and Eisner, "First- and
    second-order expectation semirings with applications to minimum-risk training on translation forests", 2009; Zmigrod,
    Vieira and Cotterell, "Efficient computation of expectations under spanning tree distributions", 2021.

    >>> from fenchel.costs import ZeroOne
    >>> from fenchel.losses import MinimumRisk
    >>> from fenchel.structures import Simplex
    >>> value, gradient = MinimumRisk(Simplex(2), ZeroOne()).value_and_grad([1.0, 0.0], [1.0, 0.0])
    >>> float(value.round(4)), gradient.round(4)  # 1 / (1 + e)
    (0.2689, array([-0.1966,  0.1966]))
    """

    structure: Structure
    cost: Cost
    strength: float = 1.0
    convex: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "strength", check_finite_positive(self.strength, "strength"))
        self._require(self.structure, "marginals", "MinimumRisk")
        try:
            affine_form(self.cost, self.structure, self.structure)
        except IncompatiblePair as error:
            raise IncompatiblePair(
                f"MinimumRisk takes the mean of the cost from marginals, so it needs an affine form: {error}"
            ) from None

    @property
    def smoothness(self) -> float:
        return np.inf  # it is smooth, but no constant is known that solvers could step by

    @property
    def differentiable(self) -> bool:
        return True

    def value(self, theta: ArrayLike, v: ArrayLike) -> Array:
        rows, points, batch = self._pair(theta, v)
        return self._per_example(self._risk(rows, points)[0], rows, batch)

    def value_and_grad(self, theta: ArrayLike, v: ArrayLike) -> tuple[Array, Array]:
        rows, points, batch = self._pair(theta, v)
        value, scores, mu, prices = self._risk(rows, points)
        gradient = derivative_product(self.structure, "gibbs", scores, mu, prices) / self.strength
        return self._per_example(value, rows, batch), self.structure.restore(
            gradient.astype(rows.dtype, copy=False), batch
        )

    def _risk(self, rows: Any, points: Any) -> tuple[Array, Any, Any, Any]:
        """The expected cost, and what it is made of: centered scores, their marginals, what each part costs."""
        form = affine_form(self.cost, self.structure, self.structure)
        scores = self.structure.center(rows.astype(np.float64, copy=False)) / self.strength
        mu, points = CRF(self.structure).predict(scores), points.astype(np.float64, copy=False)
        prices = form.apply(points)
        return np.maximum(inner(mu, prices) + form.constant(points), 0), scores, mu, prices

    def predict(self, theta: ArrayLike) -> Array:
        return CRF(self.structure, self.strength).predict(theta)

    def omega(self, mu: ArrayLike) -> Array:
        raise MissingOracle("MinimumRisk is no Fenchel-Young loss, so it has no Ω")
