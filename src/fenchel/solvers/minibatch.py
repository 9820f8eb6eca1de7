"""What solvers share that step on a few examples at a time."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .._core.checks import check_count, check_finite_positive, check_generator
from .._core.types import Array
from .base import Callback, Objective, Progress, Result, Solver

__all__ = ["MiniBatch", "shrunk", "soft_threshold"]


@dataclass(frozen=True)
class MiniBatch(Solver):
    """Passes over the examples in random order, a step for each few of them; keeps the best weights that a pass ended with.

    Concrete solvers say what a step is. After each pass objective and gap are measured on all examples (the gap is that
    of the model's own predictions as dual variables: it vanishes at the minimum of a smooth loss, and only bounds the
    distance to it where the loss has kinks).
    """

    tol: float = 1e-4
    max_iter: int = 100
    batch_size: int = 32
    random_state: Any = None
    penalties: ClassVar[tuple[str, ...]] = ("l2", "l1")

    def __post_init__(self) -> None:
        check_finite_positive(self.tol, "tol")
        check_count(self.max_iter, "max_iter", minimum=0)
        check_count(self.batch_size, "batch_size")

    @abstractmethod
    def _start(self, objective: Objective, w: Array) -> Any:
        """What the steps carry along."""

    @abstractmethod
    def _step(self, objective: Objective, state: Any, w: Array, gradient: Array) -> None:
        """One step in place, by the gradient of the loss of a batch; the penalty is the step's own matter."""

    def _minimize(self, objective: Objective, start: Array | None, dual: Any, callback: Callback | None) -> Result:
        w = objective.scorer.zero_weights() if start is None else np.array(start, dtype=np.float64)
        state = self._start(objective, w)
        rng = check_generator(self.random_state)
        best = self._certified(objective, w, 0)
        history = [(0, best.value, best.gap)]
        lowest = best.value - best.gap
        try:
            while not best.converged and history[-1][0] < self.max_iter:
                self._pass(objective, state, w, rng)
                now = self._certified(objective, w, history[-1][0] + 1)
                history.append((now.n_iter, now.value, now.gap))
                lowest = max(lowest, now.value - now.gap)
                if now.value < best.value:
                    best = now
                # every pass bounds the minimum from below, and the highest of the bounds counts
                best.gap = best.value - lowest
                best.converged = best.gap <= self.tol * abs(best.value)
                if callback is not None and callback(Progress(now.n_iter, best.value, best.gap, best.w)):
                    break
        except KeyboardInterrupt:
            best.interrupted = True
        best.n_iter = history[-1][0]
        best.history = history
        return best

    def _pass(self, objective: Objective, state: Any, w: Array, rng: np.random.Generator) -> None:
        n = objective.scorer.n_examples
        order = rng.permutation(n)
        for first in range(0, n, self.batch_size):
            idx = np.sort(order[first : first + self.batch_size])
            self._step(objective, state, w, objective.batch_gradient(w, idx))

    def _certified(self, objective: Objective, w: Array, n_iter: int) -> Result:
        value, gap = objective.certify(w)
        return Result(w=w.copy(), value=value, gap=gap, n_iter=n_iter, converged=gap <= self.tol * abs(value))


def soft_threshold(w: Array, amount: Array | float) -> None:
    """Move weights towards zero by an amount, in place: the proximal step of the l1 penalty."""
    np.copyto(w, np.sign(w) * np.maximum(np.abs(w) - amount, 0.0))


def shrunk(w: Array, amount: float) -> Array:
    """Weights made shorter by an amount, or zero where they are no longer: the proximal point of the norm."""
    size = float(np.linalg.norm(w))
    return w * max(0.0, 1.0 - amount / size) if size > 0 else w
