"""Stochastic gradient steps: in mini-batches, and one example after the other, which is what ``partial_fit`` runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .._core.checks import check_choice, check_finite_positive
from .._core.ragged import replaced
from .._core.types import Array
from ..losses.base import Loss
from ..scorers.base import Scorer
from .base import Objective
from .minibatch import MiniBatch, shrunk, soft_threshold

__all__ = ["SGD", "StreamState", "stream_steps"]


@dataclass(frozen=True)
class SGD(MiniBatch):
    """Stochastic (sub)gradient descent on mini-batches: for any scorer and any loss, and each penalty.

    Step t has the length 1 / (L + alpha t), with L the smoothness of the loss (its slope where it has kinks) times the
    mean squared length of the inputs, or ``learning_rate`` / √(1 + passes) if one is given. The l1 penalty and the
    norm, which are not strongly convex, take 1 / (L √t) and a proximal step, which gives exact zeros. ``max_iter``
    counts passes over the data; the weights of the lowest objective at the end of a pass are kept, with their duality gap.

    References: Bottou, Curtis and Nocedal, "Optimization methods for large-scale machine learning", 2018; Duchi and Singer,
    "Efficient online and batch learning using forward backward splitting", 2009.

    >>> import numpy as np
    >>> from fenchel.losses import FenchelYoung
    >>> from fenchel.scorers import Linear
    >>> from fenchel.solvers import SGD
    >>> from fenchel.structures import Simplex
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), [0, 0, 1, 1]
    >>> loss = FenchelYoung(Simplex(2), "kl")
    >>> solver = SGD(tol=1e-2, batch_size=2, random_state=0, max_iter=500)
    >>> solver.minimize(Linear(X, (2,), intercept_scaling=1.0), loss, loss.structure.encode(y), 0.1).converged
    True
    """

    learning_rate: float | str = "auto"
    penalties: ClassVar[tuple[str, ...]] = ("l2", "l1", "norm")

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.learning_rate, str):
            check_choice(self.learning_rate, "learning_rate", ("auto",))
        else:
            check_finite_positive(self.learning_rate, "learning_rate")

    def _start(self, objective: Objective, w: Array) -> dict[str, float]:
        curvature = 0.0
        if self.learning_rate == "auto":
            scorer, loss = objective.scorer, objective.loss
            theta = scorer.scores(w)
            unit = scorer.quadratic(theta * 0 + 1)
            sizes = np.array([row.size for row in theta])
            lengths = unit / np.maximum(sizes, 1)
            smoothness = loss.smoothness if np.isfinite(loss.smoothness) else loss.multiplier
            curvature = smoothness * (objective.mean(lengths) + float(lengths.max()) / self.batch_size)
        return {"steps": 0.0, "curvature": max(curvature, 1e-12)}

    def _step(self, objective: Objective, state: Any, w: Array, gradient: Array) -> None:
        state["steps"] += 1
        t = state["steps"]
        if not isinstance(self.learning_rate, str):
            passes = (t * self.batch_size) // objective.scorer.n_examples
            rate = self.learning_rate / np.sqrt(1 + passes)
        elif objective.l1 or objective.norm:
            rate = 1 / (state["curvature"] * np.sqrt(t))
        else:
            rate = 1 / (state["curvature"] + objective.alpha * t)
        if objective.l1:
            w -= rate * gradient
            soft_threshold(w, rate * objective.alpha)
        elif objective.norm:
            w[...] = shrunk(w - rate * gradient, rate * objective.alpha)
        else:
            w *= 1 - min(rate * objective.alpha, 1.0)
            w -= rate * gradient


@dataclass
class StreamState:
    """What one-by-one learning carries from call to call."""

    w: Array
    seen: int = 0
    curvature: float = 0.0
    """The largest smoothness of one example's loss in w so far, ‖x‖² times that of the loss."""


def stream_steps(
    state: StreamState,
    scorer: Scorer,
    loss: Loss,
    v: Array,
    alpha: float,
    sample_weight: Array | None = None,
    *,
    cautious: bool = True,
) -> StreamState:
    """One gradient step on S(θ_i; v_i) + alpha/2 ‖w‖² for each example in turn, of length 1 / (L + alpha t).

    L is the largest curvature met, so no step overshoots, and alpha t takes over in the long run, which makes the
    method converge. Without ``cautious`` L is zero, which is Pegasos. Examples are taken one at a time, so chunks of any
    size give the same weights.
    """
    w = state.w.copy()
    seen, curvature = state.seen, state.curvature
    smoothness = loss.smoothness if np.isfinite(loss.smoothness) else 1.0
    for i in range(scorer.n_examples):
        idx = slice(i, i + 1)
        weight = 1.0 if sample_weight is None else float(sample_weight[i])
        theta = scorer.scores(w, idx)
        _, residual = loss.take(idx).value_and_grad(theta, v[idx])
        if cautious:
            unit = float(scorer.quadratic(replaced(residual, np.ones_like), idx)[0]) / max(residual.size, 1)
            curvature = max(curvature, smoothness * unit * max(weight, 1.0))
        seen += 1
        step = 1.0 / (curvature + alpha * seen)
        w *= 1.0 - step * alpha
        w -= (step * weight) * scorer.adjoint(residual, idx)
    return StreamState(w, seen, curvature)
