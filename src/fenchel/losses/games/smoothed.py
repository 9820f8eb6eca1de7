"""Smoothed games: a Euclidean penalty for each player, which makes the loss smooth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._core.checks import check_no_nan
from ..._core.errors import IncompatiblePair
from ..._core.ragged import Ragged, inner, scale_items
from ..._core.types import Array
from ...costs.base import Cost, affine_form
from ...structures.base import Accuracy, Structure
from .base import Equilibrium, Game

__all__ = ["SmoothedGame"]


@dataclass(frozen=True)
class SmoothedGame(Game):
    """max over q of min over p of cost(p, q) + s/2 ‖p‖² − s/2 ‖q‖² + ⟨θ, q⟩, for any affine cost and two projections.

    Ω(q) = max over p of [−cost(p, q) − s/2 ‖p‖²] + s/2 ‖q‖² is s-strongly convex, so its loss has a (1/s)-Lipschitz
    gradient. At a given q the best p is a projection, of −(Vq + b)/s, and the gradient in q is at hand; the maximum
    over q is found by accelerated projected gradient steps whose length adapts to each row. (Projecting in turn for
    one player and the other need not converge when s is small.) The best q against the best p so far bounds the value
    from above, so the gap is certified; ``tol`` is that gap (default 1e-9), ``max_iter`` the number of steps (default
    10000). About (‖V‖/s) log(1/tol) steps of two projections each.

    References: Nesterov, "Smooth minimization of non-smooth functions", 2005; Beck and Teboulle, "A fast iterative
    shrinkage-thresholding algorithm for linear inverse problems", 2009; O'Donoghue and Candès, "Adaptive restart for
    accelerated gradient schemes", 2015.
    """

    smoothing: float = 1.0

    @classmethod
    def refusal(cls, structure: Structure, cost: Cost) -> str | None:
        try:
            answers = cost.answers(structure)
            affine_form(cost, answers, structure)
        except IncompatiblePair as error:
            return f"needs an affine form of the cost: {error}"
        for role, part in (("truths", structure), ("answers", answers)):
            if not part.supports("project"):
                return f"needs a Euclidean projection for {role}, which {part!r} does not have"
        return None

    def _reply(self, q: Any) -> tuple[Any, Array, Any]:
        """The best p against q, min over p of cost(p, q) + s/2 ‖p‖², and its slope in q."""
        s = self.smoothing
        costs = self.form._apply(q)
        p = self.answers.project(costs / (-s))
        worth = inner(costs, p, np.float64) + self.form._constant(q) + 0.5 * s * inner(p, p, np.float64)
        return p, worth, self.form._adjoint(p)[0]

    def risk(self, mu: Any) -> Array:
        return self._reply(mu)[1] - 0.5 * self.smoothing * inner(mu, mu, np.float64)

    def solve(self, theta: Any, accuracy: Accuracy = Accuracy(), start: Any = None) -> Equilibrium:
        check_no_nan(theta, "scores", self.structure)
        s, structure = self.smoothing, self.structure
        n = len(theta)
        tol = 1e-9 if accuracy.tol is None else accuracy.tol
        most = accuracy.max_iter or 10_000
        scores = structure.center(theta.astype(np.float64))
        numbers = scores.flat if isinstance(scores, Ragged) else scores
        allowed = tol + 1e-14 * float(np.abs(np.where(np.isfinite(numbers), numbers, 0)).max(initial=0))

        q = structure.project(scores / s) if start is None else structure.project(start)
        q = q.astype(np.float64)
        p, worth, slope = self._reply(q)
        value = worth - 0.5 * s * inner(q, q) + inner(scores, q)
        found = Equilibrium(
            value.copy(), worth - 0.5 * s * inner(q, q), q, p, np.full(n, np.inf), np.zeros(n, np.int64), np.zeros(n, bool)
        )
        upper = np.full(n, np.inf)
        ahead, ahead_worth, ahead_slope = q, worth, slope
        curvature = np.full(n, 1.0)  # of the concave part min over p of ..., as far as it was met
        for step in range(1, most + 1):
            rise = scores + ahead_slope
            while True:
                # maximise the linear model − curvature/2 ‖x − ahead‖² − s/2 ‖x‖², which is one projection
                target = scale_items(scale_items(ahead, curvature) + rise, 1 / (curvature + s))
                x = structure.project(target).astype(np.float64)
                new_p, new_worth, new_slope = self._reply(x)
                move = x - ahead
                model = ahead_worth + inner(ahead_slope, move) - 0.5 * curvature * inner(move, move)
                short = new_worth < model - 1e-12 * (1 + np.abs(model))
                if not short.any():
                    break
                curvature = np.where(short, 2 * curvature, curvature)
            gain = new_worth - 0.5 * s * inner(x, x) + inner(scores, x)
            found.n_iter[~found.converged] = step
            # what the predictor's reply guarantees: the adversary's best point against it, again a projection
            against, offset = self.form._adjoint(new_p)
            best = structure.project((scores + against) / s).astype(np.float64)
            bound = inner(scores + against, best) + offset - 0.5 * s * inner(best, best) + 0.5 * s * inner(new_p, new_p)
            lower_now, upper_now = gain > found.value, bound < upper
            found.value = np.where(lower_now, gain, found.value)
            found.risk = np.where(lower_now, new_worth - 0.5 * s * inner(x, x), found.risk)
            found.adversary = _chosen(lower_now, x, found.adversary)
            upper = np.where(upper_now, bound, upper)
            found.predictor = _chosen(upper_now, new_p, found.predictor)
            found.gap = np.maximum(upper - found.value, 0)
            found.converged = found.gap <= allowed
            if found.converged.all():
                break
            ratio = np.sqrt(s / (curvature + s))
            weight = (1 - ratio) / (1 + ratio)
            weight = np.where(inner(ahead - x, x - q) > 0, 0.0, weight)  # the last step led back: start anew
            ahead, q = x + scale_items(x - q, weight), x
            _, ahead_worth, ahead_slope = self._reply(ahead)
        found.state = found.adversary
        found.adversary = found.adversary.astype(theta.dtype)
        found.predictor = found.predictor.astype(theta.dtype)
        return found


def _chosen(first: Array, a: Any, b: Any) -> Any:
    """Items of a where first holds, else of b."""
    if isinstance(a, np.ndarray):
        return np.where(first.reshape(-1, *(1,) * (a.ndim - 1)), a, b)
    return a.like(np.where(np.repeat(first, a.sizes), a.flat, b.flat))
