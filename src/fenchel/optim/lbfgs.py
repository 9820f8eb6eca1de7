"""Limited-memory BFGS with a strong-Wolfe line search, for smooth convex functions of an array."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .._core.types import Array

__all__ = ["LBFGSState", "lbfgs"]

Function = Callable[[Array], tuple[float, Array]]

_ARMIJO, _CURVATURE, _MOST_TRIALS = 1e-4, 0.9, 30


@dataclass
class LBFGSState:
    """A point with its value and gradient, handed to ``stop`` after each iteration."""

    x: Array
    value: float
    gradient: Array
    n_iter: int
    n_evaluations: int


def lbfgs(
    function: Function,
    start: Array,
    *,
    stop: Callable[[LBFGSState], bool],
    max_iter: int = 1000,
    memory: int = 10,
    precondition: Callable[[Array], Array] | None = None,
) -> LBFGSState:
    """Minimise a smooth convex ``function`` (value and gradient) from ``start`` until ``stop`` says so.

    ``precondition(g)`` applies an approximation of the inverse Hessian, up to scale; without it that is the identity.
    Two-loop recursion over the last ``memory`` steps, O(memory · size) an iteration beside the function. Ends without
    ``stop`` at ``max_iter`` or where rounding allows no further decrease.

    Reference: Nocedal and Wright, "Numerical Optimization", 2006, algorithms 7.4, 3.5 and 3.6.
    """
    x = start.copy()
    value, gradient = function(x)
    state = LBFGSState(x, value, gradient, 0, 1)
    steps: list[Array] = []
    changes: list[Array] = []
    rhos: list[float] = []
    while not stop(state) and state.n_iter < max_iter:
        direction = _two_loops(state.gradient, steps, changes, rhos, precondition)
        slope = float(np.vdot(direction, state.gradient))
        if not slope < 0:  # rounding has spoiled the memory, or the gradient is zero
            if not steps:
                break
            steps, changes, rhos = [], [], []
            continue
        first = 1.0 if steps or precondition else min(1.0, 1.0 / np.abs(state.gradient).sum())
        found = _line_search(function, state, direction, slope, first)
        if found is None:
            if not steps:
                break
            steps, changes, rhos = [], [], []
            continue
        x, value, gradient, evaluations = found
        step, change = x - state.x, gradient - state.gradient
        curvature = float(np.vdot(step, change))
        if curvature > 1e-10 * float(np.vdot(change, change)) * np.finfo(float).eps ** 0.5:
            steps.append(step)
            changes.append(change)
            rhos.append(1.0 / curvature)
            if len(steps) > memory:
                del steps[0], changes[0], rhos[0]
        state = LBFGSState(x, value, gradient, state.n_iter + 1, state.n_evaluations + evaluations)
    return state


def _two_loops(
    gradient: Array,
    steps: list[Array],
    changes: list[Array],
    rhos: list[float],
    precondition: Callable[[Array], Array] | None,
) -> Array:
    q = -gradient
    if not steps:
        return q if precondition is None else precondition(q)
    coefficients = []
    for step, change, rho in zip(reversed(steps), reversed(changes), reversed(rhos), strict=True):
        a = rho * float(np.vdot(step, q))
        coefficients.append(a)
        q -= a * change
    if precondition is None:
        q *= 1.0 / (rhos[-1] * float(np.vdot(changes[-1], changes[-1])))
    else:
        q = precondition(q)
        q *= 1.0 / (rhos[-1] * float(np.vdot(changes[-1], precondition(changes[-1]))))
    for step, change, rho, a in zip(steps, changes, rhos, reversed(coefficients), strict=True):
        q += (a - rho * float(np.vdot(change, q))) * step
    return q


def _line_search(
    function: Function, state: LBFGSState, direction: Array, slope0: float, first: float
) -> tuple[Array, float, Array, int] | None:
    """A step that satisfies the strong Wolfe conditions, or the best one found; None where nothing gets better.

    Near the minimum rounding hides decreases of the value; there a step is better if its gradient is smaller
    (Hager and Zhang, "A new conjugate gradient method with guaranteed descent and an efficient line search", 2005).
    """
    value0 = state.value
    noise = 4e-16 * abs(value0)
    norm0 = float(np.linalg.norm(state.gradient))
    low, f_low, s_low = 0.0, value0, slope0
    high, f_high, s_high = np.inf, np.inf, 0.0
    best: tuple[float, Array, float, Array] | None = None  # the norm of its gradient first
    t = first
    for trial in range(1, _MOST_TRIALS + 1):
        x = state.x + t * direction
        f, g = function(x)
        s = float(np.vdot(g, direction))
        if f <= value0 + noise:
            norm = float(np.linalg.norm(g))
            if (f < value0 - noise or norm < norm0) and (best is None or norm < best[0]):
                best = (norm, x, f, g)
        if not f <= value0 + _ARMIJO * t * slope0 + noise or f > f_low + noise:
            high, f_high, s_high = t, f, s
        elif abs(s) <= -_CURVATURE * slope0:
            return x, f, g, trial
        elif s >= 0:
            high, f_high, s_high = t, f, s
        else:
            low, f_low, s_low = t, f, s
        if np.isinf(high):
            t *= 4.0
        else:
            t = _interpolate(low, f_low, s_low, high, f_high, s_high)
            if abs(high - low) <= 1e-12 * high:
                break
    return None if best is None else (*best[1:], trial)


def _interpolate(a: float, fa: float, sa: float, b: float, fb: float, sb: float) -> float:
    """The minimiser of the cubic through both ends, kept inside the middle four fifths."""
    width = b - a
    t = 0.5 * (a + b)
    if np.isfinite(fb):
        d1 = sa + sb - 3 * (fa - fb) / (a - b)
        square = d1 * d1 - sa * sb
        if square >= 0:
            d2 = np.sign(width) * np.sqrt(square)
            bottom = sb - sa + 2 * d2
            if bottom != 0:
                t = b - width * (sb + d2 - d1) / bottom
    lower, upper = a + 0.1 * width, a + 0.9 * width
    return float(min(max(t, min(lower, upper)), max(lower, upper))) if np.isfinite(t) else 0.5 * (a + b)
