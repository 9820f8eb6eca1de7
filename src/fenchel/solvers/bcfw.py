"""Block-coordinate Frank-Wolfe on the dual of the training objective."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np

from .._core.checks import check_count, check_finite_positive, check_generator
from .._core.errors import InvalidInput
from .._core.ragged import Ragged, inner, scale_items
from .._core.types import Array
from ..losses.base import Loss
from .base import Callback, Objective, Progress, Result, Solver

__all__ = ["BlockFrankWolfe", "DualState", "digest"]


@dataclass
class DualState:
    """Dual variables: a point μ_i of the hull for each example, and Ω_i(μ_i) − Ω_i(v_i) or a bound above it.

    That difference belongs to one loss and one list of truths; for others the solver starts anew.
    """

    mu: Array
    omega: Array
    loss: Loss | None = None
    truths: str = ""
    """A digest of the truths."""


class DualSolver(Solver):
    """A solver that moves dual variables μ_i in the hull; weights are w(μ) = (1/alpha) Σ p_i A_iᵀ(v_i − μ_i)."""

    @staticmethod
    def _auto(n: int, v: Any) -> int:
        """n/200; of items of different sizes about a dozen, for whose bookkeeping a step costs more than for their oracle."""
        few = max(1, n // 200)
        return max(few, min(12, n // 8)) if isinstance(v, Ragged) else few

    @staticmethod
    def _start(objective: Objective, dual: Any) -> DualState:
        v = objective.v
        truths = digest(v)
        if isinstance(dual, DualState) and dual.truths == truths and dual.loss == objective.loss:
            return DualState(dual.mu.copy(), dual.omega.copy(), dual.loss, truths)
        return DualState(v.astype(np.float64), np.zeros(len(v)), objective.loss, truths)

    def _certify(self, objective: Objective, state: DualState, n_iter: int) -> Result:
        """Weights recomputed from the dual variables (nothing drifts), the objective and the gap, over all examples."""
        w = objective.weighted_adjoint(objective.v - state.mu) * (objective.loss.multiplier / objective.alpha)
        theta = objective.scorer.scores(w)
        values = objective.evaluate(theta).value
        value = objective.mean(values) + objective.alpha * objective.scorer.penalty(w)
        if objective.loss.has_omega:
            state.omega = np.asarray(objective.loss.omega(state.mu) - self._truth_omega(objective))
        gaps = self._block_gaps(objective.loss, theta, values, objective.v, state.mu, state.omega)
        gap = max(objective.mean(gaps), 0.0) + objective.inner_gap
        return Result(w=w, value=value, gap=gap, n_iter=n_iter, converged=gap <= self.tol * abs(value))

    @staticmethod
    def _truth_omega(objective: Objective) -> Array:
        return np.asarray(objective.loss.omega(objective.v), dtype=np.float64)

    @staticmethod
    def _block_gaps(loss: Loss, theta: Array, values: Array, v: Array, mu: Array, omega: Array) -> Array:
        """S(θ_i; μ_i) from S(θ_i; v_i): they differ by Ω(μ) − Ω(v) − ⟨θ, μ − v⟩."""
        return values + loss.multiplier * (omega + inner(theta, v - mu, np.float64))


@dataclass(frozen=True)
class BlockFrankWolfe(DualSolver):
    """Block-coordinate Frank-Wolfe, for every loss, with or without kinks; alpha must be positive.

    The dual asks for a point μ_i of the hull per example. One step takes a block of examples at the current weights
    w(μ), asks the loss for s_i = residual_i + v_i = ∇Ω_i*(θ_i), and moves the block towards s by an exact line search.
    Only ``evaluate(θ, v)`` is used, so a loss whose oracle needs the truth (the structured hinge) fits too. Ω_i(μ_i) is
    carried along the convex combination, with the strong convexity that the loss declares; that bounds it from
    above, so the gap is never understated. A loss with a formula for it (``has_omega``) says the exact one after each
    pass. What a loss that iterates leaves open is part of the gap.

    ``block_size`` examples share one step (``"auto"``: n/200, at least one; of sequences and the like a dozen); ``max_iter``
    counts passes over the data.

    Reference: Lacoste-Julien, Jaggi, Schmidt and Pletscher, "Block-coordinate Frank-Wolfe optimization for structural
    SVMs", 2013; the form with a regularized block objective is the generalized conditional gradient of Bach,
    "Duality between subgradient and conditional gradient methods", 2015.
    """

    tol: float = 1e-4
    max_iter: int = 1000
    block_size: int | str = "auto"
    random_state: Any = None

    def __post_init__(self) -> None:
        check_finite_positive(self.tol, "tol")
        check_count(self.max_iter, "max_iter", minimum=0)
        if self.block_size != "auto":
            check_count(self.block_size, "block_size")

    def _minimize(self, objective: Objective, start: Array | None, dual: Any, callback: Callback | None) -> Result:
        if objective.alpha == 0:
            raise InvalidInput("alpha is 0, but BlockFrankWolfe solves the dual problem, which needs alpha > 0")
        state = self._start(objective, dual)
        rng = check_generator(self.random_state)
        n = objective.scorer.n_examples
        size = self._auto(n, objective.v) if self.block_size == "auto" else int(self.block_size)
        size = min(size, n)

        best = self._certify(objective, state, 0)
        history = [(0, best.value, best.gap)]
        interrupted = False
        try:
            while not best.converged and best.n_iter < self.max_iter:
                order = rng.permutation(n)
                w = best.w.copy()
                for first in range(0, n, size):
                    self._block_step(objective, state, w, np.sort(order[first : first + size]))
                now = self._certify(objective, state, best.n_iter + 1)
                history.append((now.n_iter, now.value, now.gap))
                now.converged = now.gap <= self.tol * abs(now.value)
                best = now
                if callback is not None and callback(Progress(now.n_iter, now.value, now.gap, now.w)):
                    break
        except KeyboardInterrupt:
            interrupted = True
            best = self._certify(objective, state, best.n_iter)
        best.interrupted = interrupted
        best.dual = state
        best.history = history
        return best

    def _block_step(self, objective: Objective, state: DualState, w: Array, idx: Array) -> None:
        loss, scorer = objective.loss.take(idx), objective.scorer
        c = loss.multiplier
        v, mu = objective.v[idx], state.mu[idx]
        theta = scorer.scores(w, idx)
        found = objective.evaluate(theta, idx)
        values, residual = found.value, found.gradient / c
        corner_omega = inner(theta, residual, np.float64) - values / c
        direction = v + residual - mu
        squares = inner(direction, direction)
        bend = loss.strong_convexity * squares
        gaps = self._block_gaps(loss, theta, values, v, mu, state.omega[idx])

        p = np.broadcast_to(np.asarray(objective.shares(idx)), gaps.shape)
        if len(idx) == 1:
            move = None
            quadratic = float((c * p[0]) ** 2 * scorer.quadratic(direction, idx)[0])
        else:
            move = scorer.adjoint(scale_items(direction, c * p), idx)
            quadratic = float(np.vdot(move, move))
        ascent = float(p @ (gaps + 0.5 * c * bend))
        bottom = float(c * (p @ bend)) + quadratic / objective.alpha
        step = 1.0 if bottom <= 0 else min(1.0, max(0.0, ascent / bottom))
        if step == 0:
            return
        if move is None:
            move = scorer.adjoint(scale_items(direction, c * p), idx)
        w -= (step / objective.alpha) * move
        state.mu[idx] = mu + step * direction
        state.omega[idx] = (1 - step) * state.omega[idx] + step * corner_omega - 0.5 * step * (1 - step) * bend


def digest(points: Any) -> str:
    """A hash of points, of one size or of many."""
    numbers, layout = (points.flat, points.sizes.tolist()) if isinstance(points, Ragged) else (points, points.shape)
    return sha256(np.ascontiguousarray(numbers, np.float64).tobytes() + repr(layout).encode()).hexdigest()
