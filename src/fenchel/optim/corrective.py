"""A fully corrective method with Newton steps, for separable functions over the hull of what a maximiser returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from .._core.types import Array
from .frank_wolfe import HullResult, refuse_worse

__all__ = ["SeparableObjective", "minimize_separable"]

SeparableObjective: TypeAlias = Callable[[Array], tuple[float, Array, Array]]
"""``(value, gradient, curvature)`` at a point: a convex function with a diagonal Hessian, which curvature holds."""

_EPS = float(np.finfo(np.float64).eps)
_NEWTON_STEPS = 200
_NOTHING = 1e-17


def minimize_separable(
    objective: SeparableObjective,
    argmax: Callable[[Array], Array],
    vertices: Array,
    weights: Array,
    *,
    tol: float,
    max_iter: int,
) -> HullResult:
    """Minimise over the convex hull of what ``argmax(scores)`` returns, from a combination of flat vertices.

    After each call of the maximiser the weights of all vertices in use are optimised by Newton's method with an active
    set, so the number of calls is about the number of vertices that the solution needs, where a first-order method
    needs thousands. A Newton step costs O(k² D + k³) for k vertices in use. Stops when the duality gap is at most ``tol`` (plus
    its own rounding).

    Reference: the fully corrective variant of Lacoste-Julien and Jaggi, "On the global linear convergence of
    Frank-Wolfe optimization variants", 2015.
    """
    atoms, w = _independent(vertices, weights)
    n_iter = n_evaluations = 0
    gap, converged, repeated = np.inf, False, 0
    while n_iter < max_iter:
        n_iter += 1
        atoms, w, evaluations = _newton(objective, atoms, w, 0.1 * tol)
        n_evaluations += evaluations
        x = w @ atoms
        value, gradient, _ = objective(x)
        s = argmax(-gradient)
        refuse_worse(s, atoms, gradient)
        gap = float(gradient @ (x - s))
        noise = 8 * _EPS * float(np.abs(gradient) @ (np.abs(x) + np.abs(s)))
        converged = gap <= tol + noise
        known = (atoms == s).all(axis=1).any()
        repeated = repeated + 1 if known else 0
        if converged or repeated > 2:  # the same vertex again and again: rounding allows no better weights
            break
        if not known:
            atoms, w = _independent(np.vstack([atoms, s]), np.append(w, 0.0))
    return HullResult(x, value, max(gap, 0.0), n_iter, n_iter, n_evaluations, converged, atoms, w)


def _independent(atoms: Array, w: Array) -> tuple[Array, Array]:
    """The same point from affinely independent vertices, among them the last: otherwise its weights are no function of it."""
    while len(atoms) > 1:
        system = np.column_stack([atoms, np.ones(len(atoms))])
        left, sizes, _ = np.linalg.svd(system, full_matrices=True)
        rank = int((sizes > 1e-9 * sizes[0]).sum())
        if rank == len(atoms):
            break
        null = left[:, -1]
        null = null if null[-1] >= 0 else -null
        null[np.abs(null) < 1e-12] = 0
        falling = null < 0
        limits = np.full(len(w), np.inf)
        limits[falling] = -w[falling] / null[falling]
        out = int(limits.argmin())
        w = np.maximum(w + limits[out] * null, 0)
        atoms, w = np.delete(atoms, out, axis=0), np.delete(w, out)
    return atoms, w / w.sum()


def _newton(objective: SeparableObjective, atoms: Array, w: Array, tol: float) -> tuple[Array, Array, int]:
    """The best weights of these vertices; vertices that lose their weight are dropped."""
    evaluations = 1
    value, gradient, curvature = objective(w @ atoms)
    for _ in range(_NEWTON_STEPS):
        slopes = atoms @ gradient
        # A vertex without weight takes part only if weight would flow to it.
        inside = (w > 0) | (slopes < float(w @ slopes) - tol)
        atoms, w, slopes = atoms[inside], w[inside], slopes[inside]
        if float(w @ slopes) - float(slopes.min()) <= tol:
            break
        direction = _newton_direction(atoms, curvature, slopes, w)
        slope = float(slopes @ direction)
        if -slope <= 4 * _EPS * float(np.abs(slopes) @ np.abs(direction)):
            break
        falling = direction < 0
        limits = np.full(len(w), np.inf)
        limits[falling] = -w[falling] / direction[falling]
        # Most of the way to the boundary only: a vertex may need a weight that is tiny, but not zero.
        step, moved = min(1.0, 0.95 * float(limits.min())), False
        for _ in range(40):
            tried = np.maximum(w + step * direction, 0)
            tried[tried < _NOTHING] = 0
            tried /= tried.sum()
            new_value, new_gradient, new_curvature = objective(tried @ atoms)
            evaluations += 1
            noise = 4 * _EPS * abs(value)
            if new_value <= value + 1e-4 * step * slope + noise:
                moved = True
                break
            step *= 0.5
        if not moved:
            break
        w, value, gradient, curvature = tried, new_value, new_gradient, new_curvature
    kept = w > 0
    return atoms[kept], w[kept] / w[kept].sum(), evaluations


def _newton_direction(atoms: Array, curvature: Array, slopes: Array, w: Array) -> Array:
    """The Newton direction of the weights with a fixed sum; a weight of zero may not fall."""
    free = np.ones(len(w), dtype=bool)
    direction = np.zeros(len(w))
    while free.any():
        rows = atoms[free]
        # Scaled by the weights, so that a vertex of tiny weight does not spoil the system's condition.
        scale = np.sqrt(np.maximum(w[free], 1e-12))
        hessian = (rows * curvature) @ rows.T * np.outer(scale, scale)
        hessian[np.diag_indices_from(hessian)] += 1e-13 * max(float(np.trace(hessian)), 1e-300) / len(rows)
        solved = np.linalg.solve(hessian, np.column_stack([scale * slopes[free], scale]))
        multiplier = float(scale @ solved[:, 0]) / float(scale @ solved[:, 1])
        direction[:] = 0
        direction[free] = scale * (multiplier * solved[:, 1] - solved[:, 0])
        wrong = free & (w == 0) & (direction < 0)
        if not wrong.any():
            break
        free &= ~wrong
    return direction
