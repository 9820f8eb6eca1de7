"""Frank-Wolfe steps on the dual of the training objective, all examples at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.checks import check_count, check_finite_positive
from .._core.errors import IncompatiblePair, InvalidInput, MissingOracle
from .._core.ragged import inner
from .._core.types import Array
from ..losses.base import Loss
from .base import Callback, Objective, Progress, Result
from .bcfw import DualSolver

__all__ = ["DualFrankWolfe"]


@dataclass(frozen=True)
class DualFrankWolfe(DualSolver):
    """Frank-Wolfe on the dual variables of all examples, for losses whose Ω has a gradient; alpha must be positive.

    Minimises Σ p_i Ω(μ_i) + alpha/2 ‖w(μ)‖² over points μ_i of the hull, with the weights in closed form, w(μ) = (1/alpha) Σ p_i
    A_iᵀ(v_i − μ_i). A step moves towards the vertices argmax ⟨θ_i − ∇Ω(μ_i), s⟩. For a smoothed adversarial loss ∇Ω
    is the predictor's best reply to μ_i, one projection; so a step takes one product with the features each way, one projection
    and one argmax for each example, and never plays a game. That is the ``marginal`` trainer of trees.
    Σ p_i ⟨θ_i − ∇Ω(μ_i), s_i − μ_i⟩ bounds the duality gap, so it tells when to stop; at the end the gap itself is measured.

    Steps are cheap and many, about 1/tol; their length comes from a curvature that adapts. On the weights
    (``LBFGS``, ``Bundle``) steps are dear and few, which is faster to a small gap.

    References: Li, Saeed, Zhang, Ziebart and Gimpel, "Moment distributionally robust tree structured prediction", 2022,
    section 3.3 and appendix C; Pedregosa, Negiar, Askari and Jaggi, "Linearly convergent Frank-Wolfe with backtracking
    line-search", 2020.

    >>> import numpy as np
    >>> from fenchel.costs import ZeroOne
    >>> from fenchel.losses import Adversarial
    >>> from fenchel.scorers import Linear
    >>> from fenchel.solvers import DualFrankWolfe
    >>> from fenchel.structures import Simplex
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), [0, 0, 1, 1]
    >>> loss = Adversarial(Simplex(2), ZeroOne(), smoothing=0.1)
    >>> result = DualFrankWolfe(tol=1e-2).minimize(Linear(X, (2,)), loss, loss.structure.encode(y), 0.1)
    >>> result.converged, bool(result.gap <= 1e-2 * result.value)
    (True, True)
    """

    tol: float = 1e-2
    max_iter: int = 1000

    def __post_init__(self) -> None:
        check_finite_positive(self.tol, "tol")
        check_count(self.max_iter, "max_iter", minimum=0)

    def _check_loss(self, loss: Loss) -> None:
        reason = loss.structure.missing().get("argmax")
        if reason is not None:
            raise IncompatiblePair(f"{self!r} asks for vertices of {loss.structure!r}, which has no argmax: {reason}")

    def _minimize(self, objective: Objective, start: Array | None, dual: Any, callback: Callback | None) -> Result:
        if objective.alpha == 0:
            raise InvalidInput("alpha is 0, but DualFrankWolfe solves the dual problem, which needs alpha > 0")
        state = self._start(objective, dual)
        try:
            objective.loss.omega_and_grad(state.mu[:1])
        except MissingOracle as error:
            raise IncompatiblePair(f"{self!r} needs the gradient of Ω: {error}") from None
        history: list[tuple[int, float, float]] = []
        interrupted = stopped = False
        steps = _Steps(objective, state.mu)
        taken = 0
        try:
            while True:
                value, gap = steps.bounds()
                history.append((taken, value, gap))
                if gap <= self.tol * abs(value) or taken >= self.max_iter:
                    break
                if callback is not None and callback(Progress(taken, value, gap, steps.w)):
                    stopped = True
                    break
                steps.step()
                taken += 1
        except KeyboardInterrupt:
            interrupted = True
        state.mu, state.omega = steps.mu, steps.omega - steps.truth_omega
        result = self._certify(objective, state, taken)
        if history and history[-1][2] < result.gap:  # both bound the same gap
            result.gap = max(history[-1][2], 0.0)
            result.converged = result.gap <= self.tol * abs(result.value)
        result.interrupted, result.stopped, result.dual, result.history = interrupted, stopped, state, history
        return result


class _Steps:
    """The iterates: dual points with Ω and its gradient there, the weights and the scores they give."""

    def __init__(self, objective: Objective, mu: Any) -> None:
        self.objective, self.mu = objective, mu
        self.structure = objective.loss.structure
        self.factor = objective.loss.multiplier
        self.truth_omega = np.asarray(objective.loss.omega_and_grad(objective.v)[0])
        self.curvature = 1.0
        self.w = self._weights(objective.v - mu)
        self.theta = objective.scorer.scores(self.w)
        self.omega, self.slope = objective.loss.omega_and_grad(mu)
        self._aim()

    def _weights(self, difference: Any) -> Array:
        """What dual variables that differ from the truths by this make of the weights."""
        return self.objective.weighted_adjoint(difference) * (self.factor / self.objective.alpha)

    def _mean(self, a: Any, b: Any) -> float:
        return self.objective.mean(inner(a, b, np.float64))

    def _aim(self) -> None:
        """The vertices to move to, and by how much the dual falls on the way at first."""
        descent = self.theta.astype(np.float64) - self.slope
        self.way = self.structure.argmax(descent).astype(np.float64) - self.mu
        self.gap = self.factor * self._mean(descent, self.way)

    def bounds(self) -> tuple[float, float]:
        """An upper bound of the objective at the weights, and of its gap."""
        v, factor, objective = self.objective.v, self.factor, self.objective
        mean = factor * (
            self._mean(self.theta, self.mu - v) - objective.mean(np.asarray(self.omega - self.truth_omega))
        )
        return mean + self.gap + objective.alpha * objective.scorer.penalty(self.w), self.gap

    def step(self) -> None:
        objective = self.objective
        turn = -self._weights(self.way)
        moved = objective.scorer.scores(turn)
        in_weights = objective.alpha * float(np.vdot(turn, turn))
        size = self._mean(self.way, self.way)
        level = objective.mean(np.asarray(self.omega))
        falling = self._mean(self.slope, self.way)
        while True:
            curve = in_weights + self.factor * self.curvature * size
            share = min(1.0, self.gap / curve) if curve > 0 else 1.0
            mu = self.mu + share * self.way
            omega, slope = objective.loss.omega_and_grad(mu)
            model = level + share * falling + 0.5 * self.curvature * share**2 * size
            if objective.mean(np.asarray(omega)) <= model + 1e-9 * (1.0 + abs(level)):
                break
            self.curvature *= 2.0
        self.curvature *= 0.9
        self.mu, self.omega, self.slope = mu, omega, slope
        self.w = self.w + share * turn
        self.theta = self.theta + share * moved
        self._aim()
