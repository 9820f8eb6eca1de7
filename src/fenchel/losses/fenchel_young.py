"""The loss that a regularizer on a structure generates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.checks import check_finite_positive, check_no_nan
from .._core.errors import InvalidInput
from .._core.ragged import inner
from .._core.types import Array, ArrayLike
from ..optim.active_set import Supports
from ..structures.base import Structure
from ..structures.generic import project_again
from ..structures.ragged import Family
from .base import Evaluation, Loss
from .regularizers import Euclidean, Regularizer, make_regularizer

__all__ = ["FenchelYoung"]

# More bytes of vertices than this are not kept from one evaluation to the next.
_MOST_KEPT = 2**28


@dataclass(frozen=True)
class FenchelYoung(Loss):
    """The Fenchel-Young loss of Ω = strength · Ψ restricted to the set of ``structure``.

    S(θ; v) = multiplier · (Ω*(θ) + Ω(v) − ⟨θ, v⟩). It is convex, non-negative, zero exactly where ∇Ω*(θ) = v, and
    its gradient is the residual ∇Ω*(θ) − v. ``regularizer`` is ``Euclidean()``, ``KL()``, ``Gibbs()`` or its
    name. ``strength`` scales Ω and so changes the prediction; ``multiplier`` scales only the loss. The cost is
    that of one projection or one call of the marginals.

    References: Blondel, Martins and Niculae, "Learning with Fenchel-Young losses", 2020; Blondel, "Structured
    prediction with projection oracles", 2019.

    >>> from fenchel.losses import FenchelYoung
    >>> from fenchel.structures import Simplex
    >>> loss = FenchelYoung(Simplex(3), "euclidean")
    >>> value, residual = loss.value_and_grad([1.0, 0.5, -2.0], [1.0, 0.0, 0.0])
    >>> float(value), residual
    (0.0625, array([-0.25,  0.25,  0.  ]))
    """

    structure: Structure
    regularizer: Regularizer
    strength: float = 1.0
    multiplier: float = 1.0

    def __init__(
        self, structure: Structure, regularizer: Regularizer | str, strength: float = 1.0, multiplier: float = 1.0
    ) -> None:
        if not isinstance(structure, Structure):
            raise InvalidInput(f"structure is {structure!r}, expected a structure such as Simplex(3)")
        object.__setattr__(self, "structure", structure)
        object.__setattr__(self, "regularizer", make_regularizer(regularizer))
        object.__setattr__(self, "strength", check_finite_positive(strength, "strength"))
        object.__setattr__(self, "multiplier", check_finite_positive(multiplier, "multiplier"))
        # a family has no vertices of its own, but its members have
        oracle = self.regularizer.oracle
        asked = structure.example if oracle == "vertices" and isinstance(structure, Family) else structure
        self._require(asked, oracle, repr(self.regularizer))

    @property
    def smoothness(self) -> float:
        modulus = self.strength * self.regularizer.strong_convexity(self.structure)
        return self.multiplier / modulus if modulus > 0 else np.inf

    @property
    def differentiable(self) -> bool:
        return True  # every regularizer is strictly convex

    @property
    def typical_curvature(self) -> float:
        # with no set to project on the loss is a quadratic
        return super().typical_curvature if self.structure.bounded else self.smoothness

    def value_and_grad(self, theta: ArrayLike, v: ArrayLike) -> tuple[Array, Array]:
        return self._value_and_grad(*self._pair(theta, v))

    def _value_and_grad(self, rows: Array, points: Array, batch: tuple[int, ...]) -> tuple[Array, Array]:
        fused = self.structure.fenchel_young(self.regularizer.name, rows, points, self.strength)
        value, mu = fused or self.regularizer.loss(self.structure, rows, points, self.strength)
        value = np.maximum(value, 0)  # only rounding can have taken it below
        # what the structure has just made is written over: at training sizes a copy would be most of the memory
        residual = np.subtract(mu, points, out=mu) if fused is not None else mu - points
        if self.multiplier != 1:
            value = self.multiplier * value
            residual *= self.multiplier
        return self._per_example(value, rows, batch), self.structure.restore(residual, batch)

    def evaluate(self, theta: ArrayLike, v: ArrayLike, start: Any = None) -> Evaluation:
        """Where projections come from argmax alone they go on from the vertices of last time, and say how exact they are."""
        structure, psi = self.structure, self.regularizer
        rows, points, batch = self._pair(theta, v, known=True)
        by_argmax = structure.projects_by_argmax and not (rows.size and rows.min() == -np.inf)
        if not isinstance(psi, Euclidean) or not by_argmax:
            return Evaluation(*self._value_and_grad(rows, points, batch))
        check_no_nan(rows, "scores", structure)
        centered = structure.center(rows)
        solved = project_again(structure, centered / self.strength, None if start is None else start.support)
        mu = solved.points
        value = np.maximum(psi.loss_at(structure, centered, points, self.strength, mu), 0)
        return Evaluation(
            self.multiplier * self._per_example(value, rows, batch),
            self.multiplier * structure.restore(mu - points, batch),
            gap=self.multiplier * self.strength * solved.error,
            state=Supports(solved.support) if solved.support.values.nbytes <= _MOST_KEPT else None,
        )

    def predict(self, theta: ArrayLike) -> Array:
        rows, batch = self._scores(theta)
        scores = rows if self.strength == 1 else rows / self.strength
        return self.structure.restore(self.regularizer.predict(self.structure, scores), batch)

    def omega_and_grad(self, mu: Any) -> tuple[Array, Any]:
        if self.regularizer.name != "euclidean":
            return super().omega_and_grad(mu)
        return 0.5 * self.strength * inner(mu, mu, np.float64), self.strength * mu

    def omega(self, mu: ArrayLike) -> Array:
        points, batch = self.structure.as_rows(mu, "points mu")
        return self._per_example(self.strength * self.regularizer.omega(self.structure, points), points, batch)
