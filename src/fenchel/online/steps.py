"""Step rules of online convex optimisation: how weights follow from the gradients met so far.

They work alone on any convex losses (:meth:`StepRule.start`, then ``steps.weights`` and ``steps.update(gradient)``), and
inside :class:`~fenchel.online.Learner`, which knows that gradients are x rᵀ.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .._core.checks import check_finite_positive
from .._core.errors import InvalidInput
from .._core.types import Array
from ..kernels import online as kernels

__all__ = ["AdaptiveStep", "ConstantStep", "ParameterFree", "StepRule", "Steps"]


class StepRule(ABC):
    """A rule; its state lives in :class:`Steps` or in a learner."""

    kind: ClassVar[int]

    @property
    @abstractmethod
    def parameter(self) -> float:
        """The one number that compiled steps need."""

    def first_state(self) -> Array:
        """The state before the first round."""
        state = np.zeros(kernels.STATE_SIZE)
        state[0], state[1] = self.kind, self.parameter
        state[7] = state[8] = 1.0
        return state

    def start(self, shape: tuple[int, ...]) -> Steps:
        """Steps of this rule on weights of this shape, from zero."""
        return Steps(self, shape)


@dataclass(frozen=True)
class ConstantStep(StepRule):
    """Online gradient descent with one rate: w ← w − rate · g.

    Against any U: Σ f(w_t) − f(U) ≤ ‖U‖²/(2 rate) + rate/2 Σ ‖g_t‖².

    Reference: Zinkevich, "Online convex programming and generalized infinitesimal gradient ascent", 2003.

    >>> import numpy as np
    >>> from fenchel.online import ConstantStep
    >>> steps = ConstantStep(0.5).start((2,))
    >>> steps.update(np.array([1.0, -1.0]))
    >>> steps.weights
    array([-0.5,  0.5])
    """

    rate: float
    kind: ClassVar[int] = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", check_finite_positive(self.rate, "rate"))

    @property
    def parameter(self) -> float:
        return self.rate


@dataclass(frozen=True)
class AdaptiveStep(StepRule):
    """Gradient descent on the ball of a given diameter B around zero, with the rate B/√(2 Σ_{s ≤ t} ‖g_s‖²) in round t.

    Against any U in the ball the regret is at most √2 B √(Σ ‖g_t‖²).

    Reference: McMahan and Streeter, "Adaptive bound optimization for online convex optimization", 2010.
    """

    diameter: float
    kind: ClassVar[int] = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "diameter", check_finite_positive(self.diameter, "diameter"))

    @property
    def parameter(self) -> float:
        return self.diameter


@dataclass(frozen=True)
class ParameterFree(StepRule):
    """No rate to choose: a bet on the distance, times a direction in the unit ball.

    The distance is played by betting a fraction of the wealth, found by online Newton steps; the direction by gradient descent
    with an adaptive rate. The regret against U grows as ‖U‖ √(Σ ‖g_t‖² log(‖U‖ Σ ‖g_t‖²)), for every U at once.
    ``gradient_bound`` is the largest norm that a gradient can have.

    Reference: Cutkosky and Orabona, "Black-box reductions for parameter-free online learning in Banach spaces", 2018,
    section 3.
    """

    gradient_bound: float
    initial_wealth: float = 1.0
    kind: ClassVar[int] = 2

    def __post_init__(self) -> None:
        object.__setattr__(self, "gradient_bound", check_finite_positive(self.gradient_bound, "gradient_bound"))
        object.__setattr__(self, "initial_wealth", check_finite_positive(self.initial_wealth, "initial_wealth"))

    @property
    def parameter(self) -> float:
        return self.gradient_bound

    def first_state(self) -> Array:
        state = super().first_state()
        state[4] = self.initial_wealth
        state[6] = 1.0
        state[8] = 0.0  # no bet yet
        return state


class Steps:
    """A rule at work on weights of its own: play ``weights``, then ``update`` with the gradient there."""

    def __init__(self, rule: StepRule, shape: tuple[int, ...]) -> None:
        self.rule = rule
        self.shape = tuple(shape)
        size = int(np.prod(self.shape, dtype=np.int64))
        self._state = rule.first_state()
        self._direction, self._total = np.zeros((size, 1)), np.zeros((size, 1))
        self._places = np.arange(size)

    @property
    def weights(self) -> Array:
        """What to play next."""
        return (self._state[7] * self._state[8]) * self._direction.reshape(self.shape)

    @property
    def average(self) -> Array:
        """The mean of the weights played so far."""
        if self._state[9] == 0:
            return np.zeros(self.shape)
        return (self._state[10] * self._direction + self._total).reshape(self.shape) / self._state[9]

    def update(self, gradient: Array) -> None:
        """Learn from the gradient at the weights that were played."""
        g = np.asarray(gradient, dtype=np.float64)
        if g.shape != self.shape or not np.isfinite(g).all():
            raise InvalidInput(f"gradient has shape {g.shape}, expected finite numbers of shape {self.shape}")
        bound = getattr(self.rule, "gradient_bound", np.inf)
        norm = float(np.linalg.norm(g))
        if norm > bound * (1 + 1e-9):
            raise InvalidInput(f"the gradient has norm {norm:.6g}, but gradient_bound is {bound:g}; raise it")
        flat = g.reshape(-1)
        theta = np.array([float(flat @ self.weights.reshape(-1))])
        kernels.update(  # type: ignore[no-untyped-call]
            self._state, self._places, flat, np.ones(1), theta, self._direction, self._total
        )
