"""Accounting for a stream: what was paid, what the best linear model would have lost, and what the bound allows."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.errors import InvalidInput
from .._core.types import Array
from ..scorers.linear import Linear
from ..solvers.lbfgs import LBFGS
from .learner import Learner, Rounds
from .steps import AdaptiveStep, ConstantStep

__all__ = ["RegretTracker"]


class RegretTracker:
    """Plays a learner's rounds and keeps the accounts.

    The surrogate regret against a linear model U is Σ cost_t − Σ S(Uᵀx_t; y_t). With the constant rate its expectation is at most
    ``bound(U)``, a constant, for every U.

    >>> import numpy as np
    >>> from fenchel.online import Learner, RegretTracker
    >>> from fenchel.structures import Simplex
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 3))
    >>> X /= np.linalg.norm(X, axis=1, keepdims=True)
    >>> tracker = RegretTracker(Learner(Simplex(2), "kl", scale="auto", random_state=0))
    >>> tracker.play(X, (X[:, 0] > 0).astype(int))
    >>> U = tracker.best_offline()
    >>> bool(tracker.expected_regret(U)[-1] <= tracker.bound(U))
    True
    """

    def __init__(self, learner: Learner) -> None:
        self.learner = learner
        self._inputs: list[Any] = []
        self._vertices: list[Array] = []
        self._rounds: list[Rounds] = []

    def play(self, X: Any, y: Any) -> None:
        """Let the learner play and learn these rows."""
        rounds = self.learner.play(X, y)
        rows, outputs = self.learner._rows(X, y)
        self._inputs.append(rows)
        self._vertices.append(self.learner.structure.encode(outputs))
        self._rounds.append(rounds)

    def _all(self, name: str) -> Array:
        if not self._rounds:
            raise InvalidInput("no round has been played yet")
        return np.concatenate([getattr(rounds, name) for rounds in self._rounds])

    @property
    def costs(self) -> Array:
        """What the answers cost, round by round."""
        return self._all("costs")

    @property
    def expected_costs(self) -> Array:
        """Their means over the decoder's draws."""
        return self._all("expected_costs")

    @property
    def losses(self) -> Array:
        """The surrogate loss of the learner's weights, round by round."""
        return self._all("losses")

    def _scorer(self) -> Linear:
        import scipy.sparse as sp

        if not self._inputs:
            raise InvalidInput("no round has been played yet")
        width = self.learner.n_inputs_
        blocks = [sp.csr_matrix((r.data, r.indices, r.indptr), shape=(r.shape[0], width)) for r in self._inputs]
        intercept = float(self.learner.intercept)
        return Linear(sp.vstack(blocks).tocsr(), self.learner.structure.shape, intercept_scaling=intercept or None)

    def comparator_losses(self, U: Array) -> Array:
        """S(Uᵀx_t; y_t) of a linear model U, of the shape of ``best_offline()``, round by round."""
        scorer = self._scorer()
        U = np.asarray(U, dtype=np.float64)
        if U.shape != scorer.weights_shape:
            raise InvalidInput(f"U has shape {U.shape}, expected {scorer.weights_shape}")
        return self.learner.loss_.value(scorer.scores(U), np.concatenate(self._vertices))

    def best_offline(self, alpha: float = 1e-6, *, tol: float = 1e-6) -> Array:
        """The linear model with the least surrogate loss on all rounds so far, with a little ridge penalty.

        ``tol`` is the relative duality gap at which its training stops; bounds hold for every U, however good.
        """
        loss = self.learner.loss_
        return LBFGS(tol=tol, max_iter=2000).minimize(self._scorer(), loss, np.concatenate(self._vertices), alpha).w

    def regret(self, U: Array) -> Array:
        """The surrogate regret after each round, as it was paid."""
        return np.cumsum(self.costs - self.comparator_losses(U))

    def expected_regret(self, U: Array) -> Array:
        """The same in the mean over the decoder's draws."""
        return np.cumsum(self.expected_costs - self.comparator_losses(U))

    def bound(self, U: Array, *, delta: float | None = None) -> float:
        """What the expected regret is at most, after any number of rounds; with ``delta`` what the regret is at most with
        probability 1 − delta, which needs the rate ``constants.learning_rate(C, high_probability=True)``."""
        learner = self.learner
        found = learner.constants_
        if found is None:
            raise InvalidInput(f"{learner.loss_!r} with {learner.cost_!r} has no bound")
        length = float(np.linalg.norm(U))
        rule = learner.step_
        if isinstance(rule, AdaptiveStep):
            if delta is not None:
                raise InvalidInput("the adaptive rate has no bound with high probability; leave delta out")
            if length > rule.diameter / 2 * (1 + 1e-12):
                raise InvalidInput(f"U has norm {length:.4g}, but the ball has radius {rule.diameter / 2:g}")
            return found.adaptive_bound(learner.reach_, rule.diameter)
        wanted = found.learning_rate(learner.reach_, high_probability=delta is not None)
        if not (isinstance(rule, ConstantStep) and np.isclose(rule.rate, wanted)):
            raise InvalidInput(f"the bound is for ConstantStep({wanted:.6g}), but the learner steps by {rule!r}")
        if delta is not None:
            return found.high_probability_bound(learner.reach_, length, delta)
        return found.bound(learner.reach_, length)
