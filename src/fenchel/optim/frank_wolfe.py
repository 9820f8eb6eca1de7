"""Frank-Wolfe methods: smooth convex minimisation over the convex hull of what a maximiser returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from .._core.checks import as_float_array, check_choice, check_count, check_finite_positive
from .._core.errors import InvalidInput, OracleError
from .._core.types import Array, ArrayLike

__all__ = ["HullResult", "Objective", "minimize_over_hull"]

Objective: TypeAlias = Callable[[Array], tuple[float, Array]]
"""``value_and_grad(x)`` of a smooth convex function."""

_METHODS = ("pairwise", "blended", "away", "vanilla", "nearest")
_LINE_SEARCHES = ("adaptive", "exact-quadratic")
_EPS = float(np.finfo(np.float64).eps)
# How often the point is recomputed from its atoms: a step adds a rounding error, recomputing costs O(k D).
_REFRESH = 20
# What is worse than a known vertex by more than this share is no rounding of the oracle.
_ORACLE_SLACK = 1e-6
_TRIALS = 60


@dataclass
class HullResult:
    """A minimiser with its certificate and its decomposition.

    ``gap`` is the Frank-Wolfe duality gap max ⟨∇f(x), x − v⟩ over the vertices v, at the point that is returned: it
    bounds f(x) − min f. ``n_iter`` counts steps, ``n_oracle`` calls of the maximiser (and of ``nearest_extreme``).
    """

    point: Array
    value: float
    gap: float
    n_iter: int
    n_oracle: int
    n_evaluations: int
    converged: bool
    vertices: Array
    weights: Array


def minimize_over_hull(
    value_and_grad: Objective,
    argmax: Callable[[Array], ArrayLike],
    start: ArrayLike | HullResult,
    *,
    method: str = "pairwise",
    tol: float = 1e-6,
    max_iter: int = 1000,
    line_search: str = "adaptive",
    lipschitz: float | None = None,
    nearest_extreme: Callable[[Array, Array, float], ArrayLike] | None = None,
) -> HullResult:
    """Minimise a smooth convex function over the convex hull of the vertices that ``argmax(scores)`` returns.

    ``start`` is a vertex, or an earlier result to continue from. ``method`` is one of

    - ``"pairwise"``: weight moves from the worst vertex in use to the best of all; linear rate on polytopes for
      strongly convex functions (Lacoste-Julien and Jaggi 2015)
    - ``"blended"``: the same among the vertices in use as long as that gains enough, and a Frank-Wolfe step when not,
      with far fewer calls of the maximiser and sparser points (Tsuji, Tanaka and Pokutta 2022, the lazy form)
    - ``"away"``: a Frank-Wolfe step or a step away from the worst vertex in use (Guélat and Marcotte 1986)
    - ``"vanilla"``: Frank-Wolfe steps only, gap O(1/t); for reference
    - ``"nearest"``: steps towards ``nearest_extreme(grad, x, lam)``, a vertex that minimises ⟨grad, v⟩ + lam/2 ‖v − x‖²
      with lam = L · 2/(t + 2), which is the nearest vertex to x − grad/lam; it stays close to low-dimensional faces,
      O(D*²/t) with D* the diameter of the vertices around the solution (Garber and Wolf, "Frank-Wolfe with a nearest
      extreme point oracle", 2021). On 0/1 vertices the oracle is one argmax at −grad − lam (1/2 − x).

    Every method stops when the duality gap is at most ``tol`` (plus the rounding of the gap itself).
    ``line_search="exact-quadratic"`` is for quadratic functions, whose gradient is affine: one evaluation a step,
    exact. ``"adaptive"`` needs one evaluation for most steps; it looks for a zero of the slope, so it still sees where
    differences of function values drown in rounding. ``lipschitz`` is a Lipschitz constant L of the gradient; without
    it the largest curvature met so far takes its place.

    A step costs O(k D) beside the oracle and the function, k the number of vertices in use.
    """
    check_choice(method, "method", _METHODS)
    check_choice(line_search, "line_search", _LINE_SEARCHES)
    tol = check_finite_positive(tol, "tol", zero=True)
    max_iter = check_count(max_iter, "max_iter")
    if method == "nearest" and nearest_extreme is None:
        raise InvalidInput("method is 'nearest', which needs nearest_extreme(grad, x, lam)")
    if lipschitz is not None:
        lipschitz = check_finite_positive(lipschitz, "lipschitz")
    if isinstance(start, HullResult):
        atoms = _Atoms(start.vertices, start.weights)
    else:
        vertex = as_float_array(start, "start").astype(np.float64)
        atoms = _Atoms(vertex[None], np.ones(1))
    run = _Run(value_and_grad, argmax, nearest_extreme, atoms, tol, lipschitz, line_search == "exact-quadratic")
    steps = {
        "pairwise": run.pairwise,
        "blended": run.blended,
        "away": run.away,
        "vanilla": run.vanilla,
        "nearest": run.nearest,
    }
    return run.loop(steps[method], max_iter)


class _Atoms:
    """A convex combination of vertices, the vertices as flat rows."""

    def __init__(self, vertices: Array, weights: Array) -> None:
        self.shape = vertices.shape[1:]
        self.n = len(vertices)
        self.rows = np.empty((max(16, 2 * self.n), int(np.prod(self.shape))))
        self.rows[: self.n] = vertices.reshape(self.n, -1)
        self.weights = np.zeros(len(self.rows))
        self.weights[: self.n] = weights

    def point(self) -> Array:
        base = self.rows[0]
        point: Array = base + self.weights[1 : self.n] @ (self.rows[1 : self.n] - base)
        return point

    def index(self, vertex: Array) -> int:
        """Where this vertex is in use; it is added with weight zero if it is not."""
        same = (self.rows[: self.n] == vertex).all(axis=1)
        if same.any():
            return int(same.argmax())
        if self.n == len(self.rows):
            self.rows = np.concatenate([self.rows, np.empty_like(self.rows)])
            self.weights = np.concatenate([self.weights, np.zeros_like(self.weights)])
        self.rows[self.n] = vertex
        self.weights[self.n] = 0.0
        self.n += 1
        return self.n - 1

    def clean(self) -> None:
        """Forget vertices of no weight and make the weights sum to one."""
        keep = np.flatnonzero(self.weights[: self.n] > 0)
        if len(keep) < self.n:
            self.rows[: len(keep)] = self.rows[keep]
            self.weights[: len(keep)] = self.weights[keep]
            self.weights[len(keep) : self.n] = 0.0
            self.n = len(keep)
        self.weights[: self.n] /= self.weights[: self.n].sum()


class _Run:
    """One minimisation: the point, its gradient, and the steps of each method.

    A step returns whether to go on: False once the gap is small enough, or where no step gains anything.
    """

    def __init__(
        self,
        value_and_grad: Objective,
        argmax: Callable[[Array], ArrayLike],
        nearest_extreme: Callable[[Array, Array, float], ArrayLike] | None,
        atoms: _Atoms,
        tol: float,
        lipschitz: float | None,
        quadratic: bool,
    ) -> None:
        self.objective, self.argmax, self.nearest_extreme = value_and_grad, argmax, nearest_extreme
        self.atoms, self.tol, self.lipschitz, self.quadratic = atoms, tol, lipschitz, quadratic
        self.n_oracle = self.n_evaluations = self.n_iter = 0
        self.curvature = self.largest_curvature = lipschitz or 0.0
        self.converged = False
        self.gap = np.inf
        self.promise = np.inf
        self.refresh()

    def loop(self, step: Callable[[], bool], max_iter: int) -> HullResult:
        while True:
            if self.n_iter < max_iter and step():
                self.n_iter += 1
                self.atoms.clean()
                if self.n_iter % _REFRESH == 0:
                    self.refresh()
            elif self.moved:  # judge again at the point that is returned
                self.refresh()
            else:
                break
        if not self.measured:
            self.best_vertex()
        n, shape = self.atoms.n, self.atoms.shape
        return HullResult(
            self.x.reshape(shape), self.value, self.gap, self.n_iter, self.n_oracle, self.n_evaluations, self.converged,
            self.atoms.rows[:n].reshape(n, *shape).copy(), self.atoms.weights[:n].copy(),
        )  # fmt: skip

    # -- the function and the oracles ----------------------------------------------------------------------------------

    def refresh(self) -> None:
        self.x = self.atoms.point()
        self.value, self.grad = self.evaluate(self.x)
        self.moved = self.measured = False

    def evaluate(self, x: Array) -> tuple[float, Array]:
        self.n_evaluations += 1
        value, grad = self.objective(x.reshape(self.atoms.shape))
        return float(value), np.asarray(grad, dtype=np.float64).ravel()

    def vertex(self, answer: Any, name: str) -> Array:
        self.n_oracle += 1
        vertex = np.array(answer, dtype=np.float64)
        if vertex.shape != self.atoms.shape:
            raise OracleError(f"{name} returned an array of shape {vertex.shape}, expected {self.atoms.shape}")
        if not np.isfinite(vertex).all():
            raise OracleError(f"{name} returned a vertex that is not finite: {_shown(vertex)}")
        return vertex.ravel()

    def best_vertex(self) -> Array:
        """The maximiser's answer at minus the gradient, with the duality gap it measures."""
        s = self.vertex(self.argmax(-self.grad.reshape(self.atoms.shape)), "argmax")
        size = np.abs(self.grad)
        gap = float(self.grad @ (self.x - s))
        noise = 4 * _EPS * float(size @ (np.abs(self.x) + np.abs(s)))
        refuse_worse(s, self.atoms.rows[: self.atoms.n], self.grad)
        self.gap = max(gap, 0.0)
        self.converged = self.gap <= self.tol + noise
        self.measured = True
        return s

    def scores(self) -> Array:
        """⟨∇f(x), v⟩ for each vertex in use."""
        return self.atoms.rows[: self.atoms.n] @ self.grad

    # -- the methods ---------------------------------------------------------------------------------------------------

    def pairwise(self) -> bool:
        s = self.best_vertex()
        if self.converged:
            return False
        return self.transfer(int(self.scores().argmax()), s)

    def blended(self) -> bool:
        scores = self.scores()
        worst, best = int(scores.argmax()), int(scores.argmin())
        if scores[worst] - scores[best] >= self.promise:
            return self.transfer(worst, self.atoms.rows[best])
        while True:
            s = self.best_vertex()
            if self.converged:
                return False
            if self.promise == np.inf:
                self.promise = 0.5 * self.gap
            if self.gap >= 0.5 * self.promise:
                return self.towards(s)
            self.promise *= 0.5
            if scores[worst] - scores[best] >= self.promise:
                return self.transfer(worst, self.atoms.rows[best])

    def away(self) -> bool:
        s = self.best_vertex()
        if self.converged:
            return False
        worst = int(self.scores().argmax())
        weight = self.atoms.weights[worst]
        direction = self.x - self.atoms.rows[worst]
        if weight == 1.0 or self.gap >= -float(self.grad @ direction):
            return self.towards(s)
        step = self.search(direction, weight / (1.0 - weight))
        self.atoms.weights[: self.atoms.n] *= 1.0 + step
        self.atoms.weights[worst] = 0.0 if step == weight / (1.0 - weight) else self.atoms.weights[worst] - step
        return step > 0

    def vanilla(self) -> bool:
        s = self.best_vertex()
        return not self.converged and self.towards(s)

    def nearest(self) -> bool:
        assert self.nearest_extreme is not None
        lam = 2.0 / (self.n_iter + 2.0) * (self.lipschitz or self.largest_curvature)
        shape = self.atoms.shape
        answer = self.nearest_extreme(self.grad.reshape(shape).copy(), self.x.reshape(shape).copy(), lam)
        v = self.vertex(answer, "nearest_extreme")
        # The gap is at least <grad, x - v>: the maximiser is asked only where that does not rule convergence out.
        gain = float(self.grad @ (self.x - v))
        if gain <= self.tol:
            self.best_vertex()
            if self.converged:
                return False
            if gain <= 0:  # no vertex is worth its distance yet: the next, smaller lam lets go of x
                return True
        return self.towards(v)

    # -- steps ---------------------------------------------------------------------------------------------------------

    def transfer(self, worst: int, vertex: Array) -> bool:
        """Move weight from one vertex in use to another vertex."""
        best = self.atoms.index(vertex)
        weights = self.atoms.weights
        limit = weights[worst]
        step = self.search(self.atoms.rows[best] - self.atoms.rows[worst], limit)
        weights[best] += step
        weights[worst] = 0.0 if step == limit else max(limit - step, 0.0)
        return step > 0

    def towards(self, vertex: Array) -> bool:
        """A Frank-Wolfe step."""
        best = self.atoms.index(vertex)
        step = self.search(self.atoms.rows[best] - self.x, 1.0)
        self.atoms.weights[: self.atoms.n] *= 1.0 - step
        self.atoms.weights[best] += step
        return step > 0

    def search(self, direction: Array, limit: float) -> float:
        """The length of a step along a descent direction; moves the point, its value and its gradient."""
        slope = float(self.grad @ direction)
        square = float(direction @ direction)
        if slope >= 0 or square == 0:
            return 0.0
        search = self.search_quadratic if self.quadratic else self.search_adaptive
        step, self.value, self.grad = search(direction, limit, slope, square)
        if step == 0:
            return 0.0
        self.x = self.x + step * direction
        self.moved, self.measured = True, False
        self.largest_curvature = max(self.largest_curvature, self.curvature)
        return step

    def search_quadratic(
        self, direction: Array, limit: float, slope: float, square: float
    ) -> tuple[float, float, Array]:
        value, grad = self.evaluate(self.x + limit * direction)
        end = float(grad @ direction)
        self.curvature = (end - slope) / (limit * square)
        if end <= 0:
            return limit, value, grad
        share = slope / (slope - end)
        return limit * share, self.value + 0.5 * share * limit * slope, self.grad + share * (grad - self.grad)

    def search_adaptive(
        self, direction: Array, limit: float, slope: float, square: float
    ) -> tuple[float, float, Array]:
        """A step at which the slope has mostly vanished: safeguarded secant steps on the slope, which increases."""
        step = min(limit, -slope / (self.curvature * square)) if self.curvature > 0 else limit
        low, low_slope, found = 0.0, slope, (0.0, self.value, self.grad)
        high, high_slope = np.inf, np.inf
        for _ in range(_TRIALS):
            value, grad = self.evaluate(self.x + step * direction)
            now = float(grad @ direction)
            if not (np.isfinite(value) and np.isfinite(now)):  # outside the function's domain
                high, high_slope = step, np.inf
                step = 0.5 * (low + step)
                continue
            self.curvature = (now - slope) / (step * square)
            if now <= 0:
                found = step, value, grad
                if step == limit or now >= 0.5 * slope:
                    break
                low, low_slope = step, now
            else:
                if now <= -0.1 * slope and value <= self.value:
                    found = step, value, grad
                    break
                high, high_slope = step, now
            if high == np.inf:
                wanted = -slope / (self.curvature * square) if self.curvature > 0 else np.inf
                step = min(limit, max(2.0 * step, wanted))
            else:
                share = low_slope / (low_slope - high_slope) if high_slope < np.inf else 0.5
                step = low + (high - low) * min(max(share, 0.05), 0.95)
        return found


def refuse_worse(vertex: Array, known: Array, gradient: Array) -> None:
    """Raise where a maximiser's answer at minus the gradient is worse than a vertex it returned before."""
    best = known[int((known @ gradient).argmin())]
    lack = float(gradient @ (vertex - best))
    slack = _ORACLE_SLACK * float(np.abs(gradient) @ (np.abs(vertex) + np.abs(best)))
    if lack > slack or np.isnan(lack):
        raise OracleError(
            f"argmax does not maximise: it returned a vertex that scores {lack:.3g} less than one it had returned "
            f"earlier: {_shown(vertex)}"
        )


def _shown(vertex: Array) -> str:
    return np.array2string(vertex, precision=4, threshold=12, edgeitems=5, max_line_width=1000)
