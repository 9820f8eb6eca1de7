"""Losses that need only an argmax: the structured perceptron and the structured hinge."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._core.errors import IncompatiblePair, MissingOracle
from .._core.ragged import inner
from .._core.types import Array, ArrayLike
from ..costs.base import Cost, affine_form
from ..structures.base import Structure
from .base import Loss

__all__ = ["Hinge", "Perceptron"]


@dataclass(frozen=True)
class Perceptron(Loss):
    """The structured perceptron loss, max ⟨θ, φ(y')⟩ over y' less ⟨θ, φ(y)⟩: Ω = 0 on the polytope. One argmax.

    It has kinks, and is zero as soon as the truth scores highest, by however little.

    Reference: Collins, "Discriminative training methods for hidden Markov models", 2002.

    >>> from fenchel.losses import Perceptron
    >>> from fenchel.structures import Simplex
    >>> value, gradient = Perceptron(Simplex(3)).value_and_grad([1.0, 0.5, 0.0], [0.0, 1.0, 0.0])
    >>> float(value), gradient
    (0.5, array([ 1., -1.,  0.]))
    """

    structure: Structure

    def __post_init__(self) -> None:
        self._require(self.structure, "argmax", "Perceptron")

    @property
    def smoothness(self) -> float:
        return np.inf

    def value_and_grad(self, theta: ArrayLike, v: ArrayLike) -> tuple[Array, Array]:
        rows, points, batch = self._pair(theta, v)
        best = self.structure.argmax(rows)
        value = inner(self.structure.center(rows), best - points)
        return self._per_example(value, rows, batch), self.structure.restore(best - points, batch)

    def predict(self, theta: ArrayLike) -> Array:
        return self.structure.argmax(theta)

    def omega(self, mu: ArrayLike) -> Array:
        points, batch = self.structure.as_rows(mu, "points mu")
        return self._per_example(np.zeros(len(points)), points, batch)


@dataclass(frozen=True)
class Hinge(Loss):
    """The structured hinge loss, max ⟨θ, φ(y')⟩ + L(y', y) over y' less ⟨θ, φ(y)⟩, for a cost with an affine form.

    The cost of the truth is added to the scores, so an evaluation is one argmax, at θ + Vφ(y) + b. On the simplex with
    the zero-one cost it is the Crammer-Singer loss. It has kinks and is in general not consistent. ``predict`` gives
    the argmax of the scores alone.

    References: Taskar, Guestrin and Koller, "Max-margin Markov networks", 2003; Tsochantaridis, Joachims, Hofmann and
    Altun, "Large margin methods for structured and interdependent output variables", 2005.

    >>> from fenchel.costs import ZeroOne
    >>> from fenchel.losses import Hinge
    >>> from fenchel.structures import Simplex
    >>> value, _ = Hinge(Simplex(3), ZeroOne()).value_and_grad([1.0, 0.5, 0.0], [1.0, 0.0, 0.0])
    >>> float(value)
    0.5
    """

    structure: Structure
    cost: Cost

    def __post_init__(self) -> None:
        self._require(self.structure, "argmax", "Hinge")
        try:
            affine_form(self.cost, self.structure, self.structure)
        except IncompatiblePair as error:
            raise IncompatiblePair(f"Hinge adds the cost to the scores, so it needs an affine form: {error}") from None

    @property
    def smoothness(self) -> float:
        return np.inf

    def value_and_grad(self, theta: ArrayLike, v: ArrayLike) -> tuple[Array, Array]:
        rows, points, batch = self._pair(theta, v)
        form = affine_form(self.cost, self.structure, self.structure)
        added = form.apply(points)
        worst = self.structure.argmax(rows + added.astype(rows.dtype, copy=False)).astype(rows.dtype, copy=False)
        margin = inner(added, worst) + form.constant(points)
        value = inner(self.structure.center(rows), worst - points) + margin
        value = np.maximum(value, 0)
        return self._per_example(value, rows, batch), self.structure.restore(worst - points, batch)

    def predict(self, theta: ArrayLike) -> Array:
        return self.structure.argmax(theta)

    def omega(self, mu: ArrayLike) -> Array:
        raise MissingOracle("the hinge's Ω(μ) = −(expected cost of μ) depends on the truth; value(θ, v) holds it")
