"""The averaged perceptron: a rule of updates, not a minimiser."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.checks import check_count, check_generator
from .._core.errors import IncompatiblePair
from .._core.ragged import scale_items
from .._core.types import Array
from ..losses.base import Loss
from ..losses.margin import Perceptron
from .base import Callback, Objective, Progress, Result, Solver

__all__ = ["AveragedPerceptron"]


@dataclass(frozen=True)
class AveragedPerceptron(Solver):
    """The averaged structured perceptron: w ← w + Σ A_iᵀ(φ(y_i) − φ(ŷ_i)) for blocks of examples, ŷ_i the best output under w.

    The weights returned are the mean of all that were tried, which answers far better than the last ones. The perceptron
    loss cannot be minimised (it is zero at w = 0); what holds is a bound on the number of mistakes, where some
    weights make none. Training ends with the first pass without a mistake, or after ``max_iter`` passes; the penalty
    ``alpha`` plays no part, and there is no duality gap. ``block_size`` examples are answered with the same weights
    (``"auto"``: n/200, at least one), in random order. Each pass costs two argmax calls per example, one of them to
    report the loss.

    References: Collins, "Discriminative training methods for hidden Markov models", 2002; Freund and Schapire, "Large
    margin classification using the perceptron algorithm", 1999.

    >>> import numpy as np
    >>> from fenchel.losses import Perceptron
    >>> from fenchel.scorers import Linear
    >>> from fenchel.solvers import AveragedPerceptron
    >>> from fenchel.structures import Simplex
    >>> X, loss = np.array([[-4.0, 1.0], [-3.0, 1.0], [3.0, 1.0], [4.0, 1.0]]), Perceptron(Simplex(2))
    >>> solver = AveragedPerceptron(max_iter=50, random_state=0)
    >>> result = solver.minimize(Linear(X, (2,)), loss, loss.structure.encode([0, 0, 1, 1]), 0.0)
    >>> (X @ result.w).argmax(axis=1), result.converged
    (array([0, 0, 1, 1]), True)
    """

    max_iter: int = 20
    block_size: int | str = "auto"
    random_state: Any = None
    tol: float = 0.0

    def __post_init__(self) -> None:
        check_count(self.max_iter, "max_iter", minimum=0)
        if self.block_size != "auto":
            check_count(self.block_size, "block_size")

    def _check_loss(self, loss: Loss) -> None:
        if not isinstance(loss, Perceptron):
            raise IncompatiblePair(f"AveragedPerceptron is for the Perceptron loss, not {loss!r}")

    def _minimize(self, objective: Objective, start: Array | None, dual: Any, callback: Callback | None) -> Result:
        scorer, n = objective.scorer, objective.scorer.n_examples
        rng = check_generator(self.random_state)
        size = min(n, max(1, n // 200) if self.block_size == "auto" else int(self.block_size))
        shares = objective.p if objective.p is None else objective.p * n
        w = scorer.zero_weights() if start is None else np.array(start, dtype=np.float64)
        # the mean of w after each step is w − late / steps, where late adds up (number of the step − 1) · update
        late, steps = np.zeros_like(w), 0
        result = self._report(objective, w, 0, False)
        history = [(0, result.value, result.gap)]
        try:
            while not result.converged and result.n_iter < self.max_iter:
                wrong = False
                order = rng.permutation(n)
                for first in range(0, n, size):
                    idx = np.sort(order[first : first + size])
                    residual = objective.evaluate(scorer.scores(w, idx), idx).gradient
                    if residual.any():
                        wrong = True
                        if shares is not None:
                            residual = scale_items(residual, shares[idx])
                        update = scorer.adjoint(residual, idx)
                        w -= update
                        late -= steps * update
                    steps += 1
                result = self._report(objective, w - late / steps, result.n_iter + 1, not wrong)
                history.append((result.n_iter, result.value, result.gap))
                if callback is not None and callback(Progress(result.n_iter, result.value, result.gap, result.w)):
                    break
        except KeyboardInterrupt:
            result = self._report(objective, w - late / max(steps, 1), result.n_iter, False)
            result.interrupted = True
        result.stopped = True  # no certificate was promised, so none is missed
        result.history = history
        return result

    @staticmethod
    def _report(objective: Objective, w: Array, n_iter: int, converged: bool) -> Result:
        value = objective.mean(objective.evaluate(objective.scorer.scores(w)).value)
        return Result(w=w, value=value, gap=float("nan"), n_iter=n_iter, converged=converged)
