"""Smoothed games: a Euclidean penalty for each player, which makes the loss smooth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._core.checks import check_no_nan
from ..._core.errors import IncompatiblePair
from ..._core.ragged import Ragged, inner, scale_items
from ..._core.types import Array, IntArray
from ...costs.base import Cost, affine_form
from ...structures.base import Accuracy, Structure
from .base import USUAL, Equilibrium, Game

__all__ = ["SmoothedGame"]


@dataclass(frozen=True)
class SmoothedGame(Game):
    """max over q of min over p of cost(p, q) + s/2 ‖p‖² − s/2 ‖q‖² + ⟨θ, q⟩, for any affine cost and two projections.

    Ω(q) = max over p of [−cost(p, q) − s/2 ‖p‖²] + s/2 ‖q‖² is s-strongly convex, so its loss has a (1/s)-Lipschitz
    gradient. At a given q the best p is a projection, of −(Vq + b)/s, and the gradient in q is at hand; the maximum
    over q is found by accelerated projected gradient steps whose length adapts to each row. (Projecting in turn for
    one player and the other need not converge when s is small.) The best q against the best p so far bounds the value
    from above, so the gap is certified; ``tol`` is that gap (default 1e-12, which
    knows q to about √(2e-12/s)), ``max_iter`` the number of steps (default
    10000). About (‖V‖/s) log(1/tol) steps of two projections each.

    References: Nesterov, "Smooth minimization of non-smooth functions", 2005; Beck and Teboulle, "A fast iterative
    shrinkage-thresholding algorithm for linear inverse problems", 2009; O'Donoghue and Candès, "Adaptive restart for
    accelerated gradient schemes", 2015.
    """

    smoothing: float = 1.0

    @classmethod
    def refusal(cls, structure: Structure, cost: Cost) -> str | None:
        try:
            answers = cost.answers_to(structure)
            affine_form(cost, answers, structure)
        except IncompatiblePair as error:
            return f"needs an affine form of the cost: {error}"
        for role, part in (("truths", structure), ("answers", answers)):
            if not part.supports("project"):
                return f"needs a Euclidean projection for {role}, which {part!r} does not have"
        return None

    def risk(self, mu: Any) -> Array:
        return _Ascent(self, np.arange(len(mu))).reply(mu)[1] - 0.5 * self.smoothing * inner(mu, mu, np.float64)

    def omega_and_grad(self, mu: Any) -> tuple[Array, Any]:
        """Ω(μ) and its gradient, from the predictor's best reply."""
        _, worth, slope = _Ascent(self, np.arange(len(mu))).reply(mu)
        return 0.5 * self.smoothing * inner(mu, mu, np.float64) - worth, self.smoothing * mu - slope

    def solve(self, theta: Any, accuracy: Accuracy = USUAL, start: Any = None) -> Equilibrium:
        check_no_nan(theta, "scores", self.structure)
        n = len(theta)
        scores = self.structure.center(theta.astype(np.float64))
        q = self.structure.project(scores / self.smoothing if start is None else start).astype(np.float64)
        everyone = np.arange(n)
        allowed = (1e-12 if accuracy.tol is None else accuracy.tol) + 1e-14 * _largest(scores)
        found = _Ascent(self, everyone).run(scores, q, allowed, accuracy.max_iter or 10_000)
        # what centering took off the scores, seen at one point of the set
        found.value += inner(theta, found.adversary, np.float64) - inner(scores, found.adversary, np.float64)
        found.state = found.adversary
        found.adversary = found.adversary.astype(theta.dtype)
        found.predictor = found.predictor.astype(theta.dtype)
        return found


class _Ascent:
    """Accelerated projected gradient ascent over q for some rows, which leave when their own gap is closed."""

    def __init__(self, game: SmoothedGame, rows: IntArray) -> None:
        self.game = game
        self.keep(rows)

    def keep(self, rows: IntArray) -> None:
        self.rows = rows
        self.form = self.game.form_of(rows)
        self.answers = self.game.answers.take(rows)
        self.truths = self.game.structure.take(rows)

    def project(self, scores: Any) -> Any:
        return self.truths.project(scores).astype(np.float64)

    def reply(self, q: Any) -> tuple[Any, Array, Any]:
        """The best p against q, min over p of cost(p, q) + s/2 ‖p‖², and its slope in q."""
        s = self.game.smoothing
        costs = self.form._apply(q)
        p = self.answers.project(costs / (-s))
        worth = inner(costs, p, np.float64) + self.form._constant(q) + 0.5 * s * inner(p, p, np.float64)
        return p, worth, self.form._adjoint(p)[0]

    def bound(self, scores: Any, p: Any) -> Array:
        """What p guarantees: the adversary's best point against it is again a projection."""
        s = self.game.smoothing
        against, offset = self.form._adjoint(p)
        total = scores + against
        best = self.project(total / s)
        return inner(total, best) + offset - 0.5 * s * inner(best, best) + 0.5 * s * inner(p, p)

    def run(self, scores: Any, q: Any, allowed: Array, most: int) -> Equilibrium:
        s, n = self.game.smoothing, len(q)
        p, worth, slope = self.reply(q)
        risk = worth - 0.5 * s * inner(q, q)
        value, upper = risk + inner(scores, q), self.bound(scores, p)
        allowed = allowed + 1e-14 * (np.abs(worth) + np.abs(value))
        found = Equilibrium(
            value,
            risk,
            q.copy(),
            p.copy(),
            np.maximum(upper - value, 0),
            np.zeros(n, np.int64),
            upper - value <= allowed,
        )
        ahead, ahead_worth, ahead_slope = q, worth, slope
        curvature = np.ones(n)  # of the concave part, min over p, as far as it was met
        for step in range(1, most + 1):
            left = ~found.converged[self.rows]
            if not left.any():
                break
            if not left.all():
                self.keep(self.rows[left])
                scores, q, ahead, ahead_slope = scores[left], q[left], ahead[left], ahead_slope[left]
                ahead_worth, curvature, upper = ahead_worth[left], curvature[left], upper[left]
            while True:
                # maximise the linear model − curvature/2 ‖x − ahead‖² − s/2 ‖x‖²: one projection
                x = self.project(scale_items(scale_items(ahead, curvature) + scores + ahead_slope, 1 / (curvature + s)))
                p, worth, slope = self.reply(x)
                move = x - ahead
                model = ahead_worth + inner(ahead_slope, move) - 0.5 * curvature * inner(move, move)
                short = worth < model - 1e-12 * (1 + np.abs(model))
                if not short.any():
                    break
                curvature = np.where(short, 2 * curvature, curvature)
            rows = self.rows
            risk = worth - 0.5 * s * inner(x, x)
            value, bound = risk + inner(scores, x), self.bound(scores, p)
            up, down = value > found.value[rows], bound < upper
            found.value[rows[up]], found.risk[rows[up]] = value[up], risk[up]
            found.adversary[rows[up]], found.predictor[rows[down]] = x[up], p[down]
            upper = np.minimum(bound, upper)
            found.gap[rows] = np.maximum(upper - found.value[rows], 0)
            found.converged[rows] = found.gap[rows] <= allowed[rows]
            found.n_iter[rows] = step
            ratio = np.sqrt(s / (curvature + s))
            weight = np.where(inner(ahead - x, x - q) > 0, 0.0, (1 - ratio) / (1 + ratio))  # back means: start anew
            ahead, q = x + scale_items(x - q, weight), x
            _, ahead_worth, ahead_slope = self.reply(ahead)
        return found


def _largest(scores: Any) -> Array:
    """The largest finite size of a score of each row, or of all items of different sizes."""
    if isinstance(scores, Ragged):
        return np.full(len(scores), np.abs(np.where(np.isfinite(scores.flat), scores.flat, 0)).max(initial=0))
    flat = scores.reshape(len(scores), int(np.prod(scores.shape[1:])))
    return np.asarray(np.abs(np.where(np.isfinite(flat), flat, 0)).max(axis=1, initial=0))
