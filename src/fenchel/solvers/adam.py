"""Adam: mini-batch steps whose length adapts to each weight."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.checks import check_finite_positive
from .._core.errors import InvalidInput
from .._core.types import Array
from .base import Objective
from .minibatch import MiniBatch, soft_threshold

__all__ = ["Adam"]


@dataclass
class _Moments:
    first: Array
    second: Array
    steps: int = 0


@dataclass(frozen=True)
class Adam(MiniBatch):
    """Adam on mini-batches: for any scorer and any loss, with kinks or without, penalty l2 or l1.

    A step divides the running mean of the gradients by the root of the running mean of their squares; its length
    shrinks as ``learning_rate`` / √(1 + passes), so that it settles where the loss has kinks too. The l1 penalty is a
    proximal step in the same scaling, which gives exact zeros. It touches all weights in each step, O(batch · work of
    scores + size of w). ``max_iter`` counts passes over the data; the weights of the lowest objective at the end
    of a pass are kept, with their duality gap.

    Reference: Kingma and Ba, "Adam: a method for stochastic optimization", 2015.

    >>> import numpy as np
    >>> from fenchel.losses import FenchelYoung
    >>> from fenchel.scorers import Linear
    >>> from fenchel.solvers import Adam
    >>> from fenchel.structures import Simplex
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), [0, 0, 1, 1]
    >>> loss = FenchelYoung(Simplex(2), "kl")
    >>> solver = Adam(tol=1e-3, learning_rate=0.1, batch_size=2, random_state=0)
    >>> solver.minimize(Linear(X, (2,), intercept_scaling=1.0), loss, loss.structure.encode(y), 0.1).converged
    True
    """

    learning_rate: float = 0.05
    decay: tuple[float, float] = (0.9, 0.999)
    """How much of the running means of gradients and of their squares is kept from step to step."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_finite_positive(self.learning_rate, "learning_rate")
        if len(self.decay) != 2 or not all(0 <= d < 1 for d in self.decay):
            raise InvalidInput(f"decay is {self.decay!r}, expected two numbers from 0 to below 1")

    def _start(self, objective: Objective, w: Array) -> _Moments:
        return _Moments(np.zeros_like(w), np.zeros_like(w))

    def _step(self, objective: Objective, state: Any, w: Array, gradient: Array) -> None:
        if not objective.l1:
            gradient += objective.alpha * w
        keep, keep_square = self.decay
        state.steps += 1
        state.first *= keep
        state.first += (1 - keep) * gradient
        state.second *= keep_square
        state.second += (1 - keep_square) * np.square(gradient)
        passes = (state.steps * self.batch_size) // objective.scorer.n_examples
        rate = self.learning_rate / np.sqrt(1 + passes)
        root = np.sqrt(state.second / (1 - keep_square**state.steps)) + 1e-8
        w -= rate * (state.first / (1 - keep**state.steps)) / root
        if objective.l1:
            soft_threshold(w, rate * objective.alpha / root)
