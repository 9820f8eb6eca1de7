"""Pegasos: subgradient steps of length 1/(alpha t)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._core.checks import check_choice, check_count, check_finite_positive, check_generator
from .._core.errors import InvalidInput
from .._core.ragged import inner, scale_items
from .._core.types import Array
from ..losses.base import Loss
from .base import Callback, Objective, Progress, Result, Solver
from .bcfw import digest

__all__ = ["Pegasos", "PegasosState"]


@dataclass
class PegasosState:
    """Where Pegasos goes on from: sums over all steps, which belong to one loss and one list of truths."""

    total: Array
    """The sum of all gradients."""
    residual: Any
    """The sum of the residuals that each example has met, and in ``omega`` that of ⟨θ, residual⟩ − loss, which bounds Ω."""
    omega: Array
    steps: int = 0
    passes: int = 0
    loss: Loss | None = None
    truths: str = ""
    """A digest of the truths."""


@dataclass(frozen=True)
class Pegasos(Solver):
    """Subgradient steps of length 1/(alpha t) on an example, or a few, at a time; any loss, alpha above 0.

    After t steps w = −(1/(alpha t)) Σ of all gradients, so with a :class:`~fenchel.scorers.Kernel` scorer these are the
    iterates of the method with kernels: coefficients add up residuals, and the scores are −1/(alpha t) Σ coefficients ·
    k(x_i, x). About 1/(alpha · tol) steps.

    ``sampling="passes"`` visits the examples in a new random order in each pass. At the end of a pass w then belongs to
    dual variables, the mean of all predictions that each example has met, and the gap that is reported is theirs: it
    vanishes for losses with kinks too. ``"uniform"`` draws each example at random, as the reference does; there the gap
    is that of the model's own predictions. ``max_iter`` counts passes over the data. ``dual`` of an earlier result goes
    on from there; a ``start`` alone cannot, since the first step leaves nothing of it.

    Reference: Shalev-Shwartz, Singer, Srebro and Cotter, "Pegasos: primal estimated sub-gradient solver for SVM", 2011.

    >>> import numpy as np
    >>> from fenchel.costs import ZeroOne
    >>> from fenchel.losses import Adversarial
    >>> from fenchel.scorers import Kernel
    >>> from fenchel.solvers import Pegasos
    >>> from fenchel.structures import Simplex
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), [0, 1, 1, 0]
    >>> scorer, loss = Kernel(X, (2,), kernel="rbf"), Adversarial(Simplex(2), ZeroOne())
    >>> result = Pegasos(tol=0.01, random_state=0).minimize(scorer, loss, np.eye(2)[y], 0.1)
    >>> result.converged, scorer.scores(result.w).argmax(axis=1)
    (True, array([0, 1, 1, 0]))
    """

    tol: float = 1e-3
    max_iter: int = 1000
    batch_size: int = 1
    sampling: str = "passes"
    random_state: Any = None

    def __post_init__(self) -> None:
        check_finite_positive(self.tol, "tol")
        check_count(self.max_iter, "max_iter", minimum=0)
        check_count(self.batch_size, "batch_size")
        check_choice(self.sampling, "sampling", ("passes", "uniform"))

    def _minimize(self, objective: Objective, start: Array | None, dual: Any, callback: Callback | None) -> Result:
        if objective.alpha == 0:
            raise InvalidInput("alpha is 0, but the steps of Pegasos are 1/(alpha t) long; give alpha > 0")
        rng = check_generator(self.random_state)
        state = self._start(objective, dual)
        best = self._certified(objective, state, 0)
        history = [(0, best.value, best.gap)]
        lowest = best.value - best.gap
        try:
            while not best.converged and history[-1][0] < self.max_iter:
                for idx in self._batches(objective.scorer.n_examples, rng):
                    self._step(objective, state, idx)
                state.passes += 1
                now = self._certified(objective, state, history[-1][0] + 1)
                history.append((now.n_iter, now.value, now.gap))
                lowest = max(lowest, now.value - now.gap)
                if now.value <= best.value:
                    best = now
                best.gap = best.value - lowest
                best.converged = best.gap <= self.tol * abs(best.value)
                if callback is not None and callback(Progress(now.n_iter, best.value, best.gap, best.w)):
                    break
        except KeyboardInterrupt:
            best.interrupted = True
        best.n_iter = history[-1][0]
        best.dual = state
        best.history = history
        return best

    @staticmethod
    def _start(objective: Objective, dual: Any) -> PegasosState:
        truths = digest(objective.v)
        if isinstance(dual, PegasosState) and dual.truths == truths and dual.loss == objective.loss:
            return replace(dual, total=dual.total.copy(), residual=dual.residual.copy(), omega=dual.omega.copy())
        return PegasosState(
            objective.scorer.zero_weights(),
            objective.v.astype(np.float64) * 0.0,
            np.zeros(objective.scorer.n_examples),
            loss=objective.loss,
            truths=truths,
        )

    def _batches(self, n: int, rng: np.random.Generator) -> Iterator[Array]:
        order = rng.permutation(n) if self.sampling == "passes" else rng.integers(n, size=n)
        for first in range(0, n, self.batch_size):
            yield order[first : first + self.batch_size]

    def _step(self, objective: Objective, state: PegasosState, idx: Array) -> None:
        n = objective.scorer.n_examples
        w = _weights(objective, state)
        theta = objective.scorer.scores(w, idx)
        found = objective.evaluate(theta, idx)
        # weighted so that the mean over a pass is the gradient of the mean loss
        steps = -(-n // self.batch_size) if self.sampling == "passes" else n / len(idx)
        share = np.broadcast_to(np.asarray(objective.shares(idx)) * steps, (len(idx),))
        state.total += objective.scorer.adjoint(scale_items(found.gradient, share), idx)
        state.steps += 1
        if self.sampling == "passes":
            state.residual[idx] = state.residual[idx] + found.gradient
            state.omega[idx] += inner(theta, found.gradient, np.float64) - found.value

    def _certified(self, objective: Objective, state: PegasosState, n_iter: int) -> Result:
        w = _weights(objective, state)
        if self.sampling != "passes":
            value, gap = objective.certify(w)
        else:
            theta = objective.scorer.scores(w)
            values = objective.evaluate(theta).value
            value = objective.mean(values) + objective.alpha * objective.scorer.penalty(w)
            passes = max(state.passes, 1)
            gaps = values + (state.omega - inner(theta, state.residual, np.float64)) / passes
            gap = max(objective.mean(gaps), 0.0) + objective.inner_gap
        return Result(w=w, value=value, gap=gap, n_iter=n_iter, converged=False)


def _weights(objective: Objective, state: PegasosState) -> Array:
    return state.total / (-objective.alpha * max(state.steps, 1))
