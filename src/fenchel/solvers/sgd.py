"""Stochastic gradient steps, one example after the other: what ``partial_fit`` runs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._core.types import Array
from ..losses.base import Loss
from ..scorers.base import Scorer

__all__ = ["StreamState", "stream_steps"]


@dataclass
class StreamState:
    """What one-by-one learning carries from call to call."""

    w: Array
    seen: int = 0
    curvature: float = 0.0
    """The largest smoothness of one example's loss in w so far, ‖x‖² times that of the loss."""


def stream_steps(
    state: StreamState, scorer: Scorer, loss: Loss, v: Array, alpha: float, sample_weight: Array | None = None
) -> StreamState:
    """One gradient step on S(θ_i; v_i) + alpha/2 ‖w‖² for each example in turn, of length 1 / (L + alpha t).

    L is the largest curvature met, so no step overshoots, and alpha t takes over in the long run, which makes the
    method converge. Examples are taken one at a time, so chunks of any size give the same weights.
    """
    w = state.w.copy()
    seen, curvature = state.seen, state.curvature
    smoothness = loss.smoothness if np.isfinite(loss.smoothness) else 1.0
    for i in range(scorer.n_examples):
        idx = slice(i, i + 1)
        weight = 1.0 if sample_weight is None else float(sample_weight[i])
        theta = scorer.scores(w, idx)
        _, residual = loss.value_and_grad(theta, v[idx])
        unit = float(scorer.quadratic(np.ones_like(residual), idx)[0]) / residual.size
        curvature = max(curvature, smoothness * unit * max(weight, 1.0))
        seen += 1
        step = 1.0 / (curvature + alpha * seen)
        w *= 1.0 - step * alpha
        w -= (step * weight) * scorer.adjoint(residual, idx)
    return StreamState(w, seen, curvature)
