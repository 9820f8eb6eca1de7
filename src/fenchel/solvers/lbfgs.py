"""Limited-memory BFGS on the training objective."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .._core.checks import check_count, check_finite_positive
from .._core.errors import IncompatiblePair
from .._core.types import Array
from ..losses.base import Loss
from ..optim.lbfgs import LBFGSState, lbfgs
from .base import Callback, Objective, Progress, Result, Solver

__all__ = ["LBFGS"]


@dataclass(frozen=True)
class LBFGS(Solver):
    """Limited-memory BFGS, for smooth losses. Stops on the duality gap, ‖∇P(w)‖² / (2 alpha).

    With dense inputs of moderate width it is preconditioned by the inputs' Gram matrix, which a quadratic loss makes
    exact (one iteration) and which makes a third to four fifths of the iterations unnecessary on ill-conditioned data.

    The gap is that of the model's own predictions as dual variables, so it costs nothing beside the gradient; with
    ``alpha=0`` there is none, and it stops when the gradient is ``tol`` of the one at the start. So it does with a loss
    that is not convex. With ``penalty="norm"`` it looks first whether zero is the minimum, which a gradient no longer than
    alpha shows, and else starts below the value there: the norm is smooth wherever it comes then.

    >>> import numpy as np
    >>> from fenchel.losses import FenchelYoung
    >>> from fenchel.scorers import Linear
    >>> from fenchel.solvers import LBFGS
    >>> from fenchel.structures import Simplex
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), [0, 0, 1, 1]
    >>> loss = FenchelYoung(Simplex(2), "kl")
    >>> result = LBFGS(tol=1e-8).minimize(Linear(X, (2,), intercept_scaling=1.0), loss, loss.structure.encode(y), 0.1)
    >>> result.converged, bool(result.gap <= 1e-8 * result.value)
    (True, True)
    """

    tol: float = 1e-4
    max_iter: int = 1000
    memory: int = 10
    penalties: ClassVar[tuple[str, ...]] = ("l2", "norm")
    any_loss: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_finite_positive(self.tol, "tol")
        check_count(self.max_iter, "max_iter", minimum=0)
        check_count(self.memory, "memory")

    def _check_loss(self, loss: Loss) -> None:
        if not loss.differentiable:
            raise IncompatiblePair(f"{self!r} needs a smooth loss, but {loss!r} has kinks; use BlockFrankWolfe()")

    def _minimize(self, objective: Objective, start: Array | None, dual: Any, callback: Callback | None) -> Result:
        start = objective.scorer.zero_weights() if start is None else np.asarray(start, dtype=np.float64)
        history: list[tuple[int, float, float]] = []
        best: list[LBFGSState] = []
        first_norm: list[float] = []
        done = {"converged": False}
        if objective.norm:
            away = self._away_from_zero(objective, start)
            if isinstance(away, Result):
                if callback is not None:
                    callback(Progress(0, away.value, away.gap, away.w))
                return away
            start = away

        def stop(state: LBFGSState) -> bool:
            best[:] = [state]
            gap = objective.gap_of_gradient(state.x, state.value, state.gradient)
            history.append((state.n_iter, state.value, gap))
            norm = float(np.linalg.norm(state.gradient))
            first_norm.append(norm)
            if objective.alpha > 0 and objective.loss.convex:
                done["converged"] = gap <= self.tol * abs(state.value)
            else:
                done["converged"] = norm <= self.tol * first_norm[0]
            asked = callback is not None and bool(callback(Progress(state.n_iter, state.value, gap, state.x)))
            return done["converged"] or asked

        interrupted = False
        try:
            lbfgs(
                objective.value_and_grad,
                start,
                stop=stop,
                max_iter=self.max_iter,
                memory=self.memory,
                precondition=self._preconditioner(objective),
            )
        except KeyboardInterrupt:
            interrupted = True
            if not best:
                raise
        state = best[0]
        return Result(
            w=state.x,
            value=state.value,
            gap=history[-1][2],
            n_iter=state.n_iter,
            converged=done["converged"],
            interrupted=interrupted,
            history=history,
        )

    def _away_from_zero(self, objective: Objective, start: Array) -> Array | Result:
        """Weights from which the way down never meets the kink of the norm at zero, or zero where that is the minimum."""
        zero = objective.scorer.zero_weights()
        value, gradient = objective.mean_loss(zero)
        length = float(np.linalg.norm(gradient))
        gap = objective.gap_of_gradient(zero, value, gradient)
        flat = length <= objective.alpha
        if flat or gap <= self.tol * abs(value):
            return Result(zero, value, gap, 0, True, history=[(0, value, gap)])
        if start.any() and objective.value_and_grad(start)[0] < value:
            return start
        step = -gradient * (value / length**2)  # where the tangent would reach a loss of zero
        for _ in range(60):
            if objective.value_and_grad(step)[0] < value:
                return step
            step *= 0.5
        return Result(zero, value, gap, 0, False, history=[(0, value, gap)])

    @staticmethod
    def _preconditioner(objective: Objective) -> Callable[[Array], Array] | None:
        """Solving with c Σ p_i A_iᵀA_i + alpha: the Hessian, were every loss of the same curvature c."""
        curvature = objective.loss.typical_curvature
        gram = objective.scorer.gram(objective.shares()) if np.isfinite(curvature) else None
        if gram is None:
            return None
        gram *= curvature
        gram[np.diag_indices_from(gram)] += objective.alpha + 1e-12 * float(np.trace(gram)) / len(gram)
        try:
            inverse = np.linalg.inv(np.linalg.cholesky(gram))
        except np.linalg.LinAlgError:
            return None
        inverse = inverse.T @ inverse
        return lambda gradient: inverse @ gradient
