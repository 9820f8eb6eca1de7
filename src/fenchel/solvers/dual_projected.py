"""Accelerated projected gradient steps on the dual of the training objective."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.checks import check_count, check_finite_positive
from .._core.errors import IncompatiblePair, InvalidInput, MissingOracle
from .._core.ragged import inner, scale_items
from .._core.types import Array
from ..losses.base import Loss
from .base import Callback, Objective, Progress, Result
from .bcfw import DualSolver, DualState

__all__ = ["DualProjected"]

_CERTIFY = 5
"""A certificate needs the prediction oracle at the weights, which costs more than a step: one in so many steps."""


@dataclass(frozen=True)
class DualProjected(DualSolver):
    """Accelerated projected gradient on the dual variables, for losses whose Ω has a gradient; alpha must be positive.

    Minimises Σ p_i Ω(μ_i) + alpha/2 ‖w(μ)‖² over points μ_i of the hull, with the weights in closed form:
    w(μ) = (1/alpha) Σ p_i A_iᵀ(v_i − μ_i). For a smoothed adversarial loss μ_i is the adversary's point, and the
    gradient asks for the predictor's best reply, a projection; each step is one more. So nothing but Euclidean
    projections is needed, and every ``_CERTIFY`` steps the game itself, for the gap. Steps restart where they
    turn back, and their length adapts. The number of steps grows like 1/√(alpha · smoothing): where there are few
    features L-BFGS on the weights is faster.

    References: Fathony, Behpour, Zhang and Ziebart, "Efficient and consistent adversarial bipartite matching", 2018,
    section 3.2 (the dual, there by projected quasi-Newton steps); Beck and Teboulle, "A fast iterative
    shrinkage-thresholding algorithm for linear inverse problems", 2009; O'Donoghue and Candès, "Adaptive restart for
    accelerated gradient schemes", 2015.

    >>> import numpy as np
    >>> from fenchel.losses import FenchelYoung
    >>> from fenchel.scorers import Linear
    >>> from fenchel.solvers import DualProjected
    >>> from fenchel.structures import Simplex
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), [0, 0, 1, 1]
    >>> loss = FenchelYoung(Simplex(2), "euclidean")
    >>> result = DualProjected(tol=1e-6).minimize(Linear(X, (2,)), loss, loss.structure.encode(y), 0.1)
    >>> result.converged, bool(result.gap <= 1e-6 * result.value)
    (True, True)
    """

    tol: float = 1e-4
    max_iter: int = 1000

    def __post_init__(self) -> None:
        check_finite_positive(self.tol, "tol")
        check_count(self.max_iter, "max_iter", minimum=0)

    def _check_loss(self, loss: Loss) -> None:
        reason = loss.structure.missing().get("project")
        if reason is not None:
            raise IncompatiblePair(f"{self!r} projects on {loss.structure!r}, which has no projection: {reason}")

    def _minimize(self, objective: Objective, start: Array | None, dual: Any, callback: Callback | None) -> Result:
        if objective.alpha == 0:
            raise InvalidInput("alpha is 0, but DualProjected solves the dual problem, which needs alpha > 0")
        state = self._start(objective, dual)
        try:
            objective.loss.omega_and_grad(state.mu[:1])
        except MissingOracle as error:
            raise IncompatiblePair(f"{self!r} needs the gradient of Ω: {error}") from None
        best = self._certify(objective, state, 0)
        history = [(0, best.value, best.gap)]
        interrupted = False
        steps = _Steps(objective, state)
        try:
            while not best.converged and best.n_iter < self.max_iter:
                count = min(_CERTIFY, self.max_iter - best.n_iter)
                for _ in range(count):
                    steps.step()
                state.mu, state.omega = steps.x, steps.omega_at_x()
                now = self._certify(objective, state, best.n_iter + count)
                history.append((now.n_iter, now.value, now.gap))
                best = now
                if callback is not None and callback(Progress(now.n_iter, now.value, now.gap, now.w)):
                    break
        except KeyboardInterrupt:
            interrupted = True
        best.interrupted = interrupted
        best.dual = state
        best.history = history
        return best


class _Steps:
    """The iterates. Distances weigh each example by its share, so that all shares drop out of the steps."""

    def __init__(self, objective: Objective, state: DualState) -> None:
        self.objective = objective
        self.truth_omega = objective.loss.omega_and_grad(objective.v)[0]
        self.x = self.ahead = state.mu
        self.curvature = 1.0
        self.momentum = 1.0
        self.value, self.descent = self.evaluate(self.ahead)

    def evaluate(self, mu: Any) -> tuple[float, Any]:
        """The dual objective, and its negative gradient divided by the shares: −inf at parts that scores forbid."""
        objective, c = self.objective, self.objective.loss.multiplier
        omega, slope = objective.loss.omega_and_grad(mu)
        w = objective.weighted_adjoint(objective.v - mu) * (c / objective.alpha)
        value = c * objective.mean(omega - self.truth_omega) + objective.alpha * objective.scorer.penalty(w)
        return value, c * (objective.scorer.scores(w).astype(np.float64, copy=False) - slope)

    def omega_at_x(self) -> Array:
        return np.asarray(self.objective.loss.omega_and_grad(self.x)[0] - self.truth_omega)

    def dot(self, a: Any, b: Any) -> float:
        return self.objective.mean(inner(a, b, np.float64))

    def step(self) -> None:
        structure = self.objective.loss.structure
        while True:
            x = structure.project(self.ahead + scale_items(self.descent, 1 / self.curvature))
            move = x - self.ahead
            value, descent = self.evaluate(x)
            model = self.value - self.dot(self.descent, move) + 0.5 * self.curvature * self.dot(move, move)
            if value <= model + 1e-12 * (1 + abs(self.value)):
                break
            self.curvature *= 2
        if self.dot(self.ahead - x, x - self.x) > 0:  # back means: start anew
            self.momentum = 1.0
        faster = (1 + np.sqrt(1 + 4 * self.momentum**2)) / 2
        share = (self.momentum - 1) / faster
        self.ahead = x + share * (x - self.x)
        self.momentum, self.x = faster, x
        self.curvature *= 0.95
        self.value, self.descent = (value, descent) if share == 0 else self.evaluate(self.ahead)
