"""Kullback-Leibler projections onto tree polytopes by cutting planes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .._core.types import Array
from .base import Accuracy, Solved, Structure
from .generic import kl_project_by_argmax

__all__ = ["CutSolution", "Separate", "project_with_cuts", "solve_entropic"]

Separate = Callable[[Array], tuple[Array, Array]]
"""From a point to linear functionals A (m, D) and bounds b of constraints A x >= b that it violates, the worst first."""

# Scores larger than this are left to the general method.
_FAR = 1e3
_ROUNDS = 200
_NEWTON_STEPS = 100


@dataclass
class CutSolution:
    """The point, logarithms of its entries, and by how much it violates the constraints."""

    point: Array
    logs: Array
    violation: float
    n_rounds: int
    converged: bool


def project_with_cuts(
    scores: Array, mass: float, equalities: tuple[Array, Array], separate: Separate, tol: float
) -> CutSolution:
    """argmax ⟨θ, x⟩ − ⟨x, log x⟩ over x whose rows sum to ``mass`` and that satisfy all constraints which ``separate`` knows.

    The dual is smooth: Σ_rows mass log Σ exp(θ + Aᵀλ) − ⟨b, λ⟩, minimised over λ ≥ 0 (free for equalities) by projected Newton
    steps. Constraints are added where the point violates them and dropped where λ is zero; tight sets of a tree
    polytope can be chosen so that none crosses another, so few are needed.
    """
    rows = scores.shape
    a, b = equalities
    n_free = len(b)
    weights = np.zeros(n_free)
    violation, n_rounds = np.inf, 0
    while n_rounds < _ROUNDS:
        n_rounds += 1
        weights, x, logs, stalled = _newton(scores, mass, a, b, weights, n_free, 0.1 * tol)
        more_a, more_b = separate(x.reshape(-1))
        residual = float(np.abs(a[:n_free] @ x.reshape(-1) - b[:n_free]).max(initial=0))
        violation = max(float((more_b - more_a @ x.reshape(-1)).max(initial=0)), residual)
        if violation <= tol:
            return CutSolution(x.reshape(rows), logs, violation, n_rounds, True)
        if stalled:
            break
        keep = (np.arange(len(b)) < n_free) | (weights > 0)
        a, b = np.concatenate([a[keep], more_a]), np.concatenate([b[keep], more_b])
        weights = np.concatenate([weights[keep], np.zeros(len(more_b))])
    return CutSolution(x.reshape(rows), logs, violation, n_rounds, False)


def solve_entropic(
    structure: Structure,
    rows: Array,
    accuracy: Accuracy,
    solve: Callable[[Array], tuple[Array, Array, CutSolution]],
) -> Solved:
    """Each row by ``solve(theta) -> (point, its logarithms, solution)``, with its duality gap; what fails, by argmax alone.

    It fails where scores are so far apart that the dual is flat but for single points.
    """
    tol = accuracy.tol or (1e-8 if rows.dtype == np.float64 else 1e-5)
    n = len(rows)
    solved = Solved(np.zeros(rows.shape), np.zeros(n), np.zeros(n, np.int64), np.zeros(n, bool))
    for i in range(n):
        theta = rows[i].astype(np.float64)
        if not np.abs(theta[np.isfinite(theta)]).max(initial=0) <= _FAR:
            continue
        point, logs, found = solve(theta)
        allowed = np.isfinite(theta) & np.isfinite(logs)
        slope = np.where(allowed, np.where(allowed, theta, 0) - np.where(allowed, logs, 0) - 1, -np.inf)
        best = np.asarray(structure._argmax_at(slope[None], np.array([i])))[0]
        gap = float((np.where(allowed, slope, 0) * (best - point)).sum())
        solved.points[i], solved.error[i], solved.n_iter[i] = point, abs(gap) + found.violation, found.n_rounds
        solved.converged[i] = found.converged and solved.error[i] <= tol
    left = np.flatnonzero(~solved.converged)
    if len(left):
        rest = kl_project_by_argmax(structure, rows[left], accuracy)
        solved.points[left], solved.error[left] = rest.points, rest.error
        solved.n_iter[left], solved.converged[left] = rest.n_iter, rest.converged
    return solved


def _newton(
    scores: Array, mass: float, a: Array, b: Array, weights: Array, n_free: int, tol: float
) -> tuple[Array, Array, Array, bool]:
    rows = len(scores)
    free = np.arange(len(b)) < n_free
    value, x, logs = _dual(scores, mass, a, b, weights)
    for _ in range(_NEWTON_STEPS):
        slope = a @ x.reshape(-1) - b
        pressed = free | (weights > 0) | (slope < 0)
        if np.abs(slope[pressed]).max(initial=0) <= tol:
            return weights, x, logs, False
        c = a[pressed]
        per_row = np.einsum("jrd,rd->jr", c.reshape(len(c), rows, -1), x)
        hessian = (c * x.reshape(-1)) @ c.T - per_row @ per_row.T / mass
        hessian[np.diag_indices_from(hessian)] += 1e-14 + 1e-12 * np.trace(hessian) / len(c)
        step = np.zeros(len(b))
        step[pressed] = -np.linalg.solve(hessian, slope[pressed])
        length = 1.0
        while True:
            trial = np.where(free, weights + length * step, np.maximum(weights + length * step, 0))
            moved = trial - weights
            new_value, new_x, new_logs = _dual(scores, mass, a, b, trial)
            if new_value <= value + 1e-4 * float(slope @ moved) + 1e-14 * (1 + abs(value)):
                break
            length *= 0.5
            if length < 1e-10:
                return weights, x, logs, True
        if np.array_equal(trial, weights):
            return weights, x, logs, True
        weights, value, x, logs = trial, new_value, new_x, new_logs
    return weights, x, logs, True


def _dual(scores: Array, mass: float, a: Array, b: Array, weights: Array) -> tuple[float, Array, Array]:
    raised = scores + (weights @ a).reshape(scores.shape)
    top = raised.max(axis=1, keepdims=True)
    sums = np.exp(raised - top).sum(axis=1, keepdims=True)
    logs = raised - top - np.log(sums) + np.log(mass)
    value = mass * float((top + np.log(sums)).sum()) - float(b @ weights)
    return value, np.exp(logs), logs
