"""Accelerated proximal gradient steps, for each penalty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .._core.checks import check_count, check_finite_positive
from .._core.errors import IncompatiblePair
from .._core.types import Array
from ..losses.base import Loss
from .base import Callback, Objective, Progress, Result, Solver
from .minibatch import shrunk, soft_threshold

__all__ = ["Proximal"]


@dataclass(frozen=True)
class Proximal(Solver):
    """Accelerated proximal gradient (FISTA) with restarts, for smooth losses and each penalty. Stops on the duality gap.

    A step goes down the gradient of the mean loss and then takes the proximal point of the penalty, which for l1 sets
    weights to exactly zero, and for the norm all of them at once. Step lengths are found by backtracking. Two
    evaluations of all examples an iteration.

    References: Beck and Teboulle, "A fast iterative shrinkage-thresholding algorithm for linear inverse problems", 2009;
    O'Donoghue and Candès, "Adaptive restart for accelerated gradient schemes", 2015.

    >>> import numpy as np
    >>> from fenchel.losses import FenchelYoung
    >>> from fenchel.scorers import Linear
    >>> from fenchel.solvers import Proximal
    >>> from fenchel.structures import Simplex
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 10))
    >>> loss, v = FenchelYoung(Simplex(2), "kl"), np.eye(2)[(X[:, 3] > 0).astype(int)]
    >>> result = Proximal().minimize(Linear(X, (2,)), loss, v, 0.1, penalty="l1")
    >>> result.converged, np.flatnonzero(result.w.any(axis=1))
    (True, array([3]))
    """

    tol: float = 1e-4
    max_iter: int = 1000
    penalties: ClassVar[tuple[str, ...]] = ("l2", "l1", "norm")

    def __post_init__(self) -> None:
        check_finite_positive(self.tol, "tol")
        check_count(self.max_iter, "max_iter", minimum=0)

    def _check_loss(self, loss: Loss) -> None:
        if not loss.differentiable:
            raise IncompatiblePair(
                f"{self!r} needs a smooth loss, but {loss!r} has kinks; smooth it (smoothing=...) or use Adam()"
            )

    def _minimize(self, objective: Objective, start: Array | None, dual: None, callback: Callback | None) -> Result:
        x = objective.scorer.zero_weights() if start is None else np.array(start, dtype=np.float64)
        best = self._certified(objective, x, 0)
        history = [(0, best.value, best.gap)]
        ahead, momentum, length = x, 1.0, 1.0
        try:
            while not best.converged and history[-1][0] < self.max_iter:
                loss, gradient = objective.mean_loss(ahead)
                while True:
                    step = self._proximal_point(objective, ahead - length * gradient, length)
                    move = step - ahead
                    model = loss + float(np.vdot(gradient, move)) + float(np.vdot(move, move)) / (2 * length)
                    now = self._certified(objective, step, history[-1][0] + 1)
                    penalty = objective.penalty(step)
                    if now.value - penalty <= model + 1e-12 * (1 + abs(model)) or length < 1e-18:
                        break
                    length /= 2
                following = 0.5 + np.sqrt(0.25 + momentum**2)
                if float(np.vdot(ahead - step, step - x)) > 0:  # going back means: start anew
                    momentum, following = 1.0, 1.0
                ahead, x, momentum = step + ((momentum - 1) / following) * (step - x), step, following
                length *= 1.1
                history.append((now.n_iter, now.value, now.gap))
                # the weights of the smallest gap
                if now.gap <= best.gap:
                    best = now
                if callback is not None and callback(Progress(now.n_iter, now.value, now.gap, now.w)):
                    break
        except KeyboardInterrupt:
            best.interrupted = True
        best.n_iter = history[-1][0]
        best.history = history
        return best

    @staticmethod
    def _proximal_point(objective: Objective, w: Array, length: float) -> Array:
        if objective.l1:
            soft_threshold(w, length * objective.alpha)
            return w
        if objective.norm:
            return shrunk(w, length * objective.alpha)
        return w / (1 + length * objective.alpha)

    def _certified(self, objective: Objective, w: Array, n_iter: int) -> Result:
        value, gap = objective.certify(w)
        return Result(w=w, value=value, gap=gap, n_iter=n_iter, converged=gap <= self.tol * abs(value))
