"""Alternating direction methods of multipliers: projections onto intersections of sets, each known by its own projection."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from .._core.checks import as_float_array, check_count, check_finite_positive
from .._core.errors import InvalidInput, OracleError
from .._core.types import Array, ArrayLike

__all__ = ["AdmmResult", "IntersectionResult", "birkhoff_admm", "project_on_intersection"]

# The penalty is changed by this factor when one residual is that many times the other (He, Yang and Wang 2000).
_BALANCE, _OUT_OF_BALANCE = 2.0, 10.0


@dataclass
class IntersectionResult:
    """A projection onto an intersection with its certificate.

    ``gap`` is ½‖point − θ‖² less a lower bound on the squared half distance of θ to the intersection. Where ``point`` lies in
    the intersection it is the duality gap, and ½‖point − projection‖² is at most as large. ``violation`` is the
    largest distance of the point from what the single sets answered, zero for a point that was ``repaired``.
    """

    point: Array
    gap: float
    violation: float
    n_iter: int
    converged: bool


def project_on_intersection(
    theta: ArrayLike,
    projections: Sequence[Callable[[Array], ArrayLike]],
    *,
    repair: Callable[[Array], ArrayLike] | None = None,
    rho: float = 1.0,
    tol: float = 1e-8,
    max_iter: int = 10_000,
) -> IntersectionResult:
    """The Euclidean projection onto the intersection of convex sets, argmin ½‖x − θ‖² over x in all of them.

    Each set has a copy z_k of x, projected in turn; x = z_k is enforced by multipliers y_k. A multiplier lies in the
    normal cone of its set at z_k, so Σ_k ⟨y_k, z_k⟩ is the sum of the support functions and ⟨Y, θ⟩ − ½‖Y‖² − Σ_k ⟨y_k, z_k⟩,
    Y = Σ_k y_k, is below ½‖x − θ‖² for every x in the intersection. It stops when the gap to that bound and the
    violation are at most ``tol``. ``repair(x)`` moves a point near the intersection into it; with it the gap is a true
    one, otherwise the point lies in the first set and as near as ``violation`` to the others. O(D) a step beside the
    projections. The penalty ``rho`` is adapted.

    Reference: Boyd, Parikh, Chu, Peleato and Eckstein, "Distributed optimization and statistical learning via the
    alternating direction method of multipliers", 2011, sections 3.4 and 7.1.

    >>> import numpy as np
    >>> from fenchel.optim import project_on_intersection
    >>> box = lambda x: np.clip(x, 0, 1)
    >>> plane = lambda x: x - (x.sum() - 2) / x.size  # entries that sum to two
    >>> result = project_on_intersection([3.0, 0.5, 0.1], [box, plane])
    >>> result.point.round(6), result.converged
    (array([1. , 0.7, 0.3]), True)
    """
    target = as_float_array(theta, "theta").astype(np.float64, copy=False)
    if not len(projections):
        raise InvalidInput("projections is empty, expected at least one set")
    if not np.isfinite(target).all():
        raise InvalidInput("theta must be finite")
    rho = check_finite_positive(rho, "rho")
    tol = check_finite_positive(tol, "tol", zero=True)
    max_iter = check_count(max_iter, "max_iter")
    m = len(projections)
    copies = np.stack([target] * m)
    duals = np.zeros_like(copies)  # divided by rho
    gap = violation = np.inf
    point, n_iter, converged = target, 0, False
    while n_iter < max_iter and not converged:
        n_iter += 1
        x = (target + rho * (copies - duals).sum(axis=0)) / (1 + rho * m)
        before = copies
        copies = np.stack(
            [_checked(project, x + dual, k) for k, (project, dual) in enumerate(zip(projections, duals, strict=True))]
        )
        duals = duals + x - copies
        total = rho * duals.sum(axis=0)
        bound = float(np.vdot(total, target) - 0.5 * np.vdot(total, total) - rho * np.vdot(duals, copies))
        point = copies[0]
        violation = max(float(np.linalg.norm(copy - point)) for copy in copies)
        if repair is not None:
            point, violation = _checked(repair, point, None), 0.0
        gap = 0.5 * float(np.vdot(point - target, point - target)) - bound
        converged = abs(gap) <= tol + _rounding(point, target, total) and violation <= tol
        primal, dual = float(np.linalg.norm(x - copies)), rho * float(np.linalg.norm(copies - before))
        if primal > _OUT_OF_BALANCE * dual or dual > _OUT_OF_BALANCE * primal:
            factor = _BALANCE if primal > dual else 1 / _BALANCE
            rho *= factor
            duals = duals / factor
    return IntersectionResult(point, gap, violation, n_iter, converged)


def _checked(project: Callable[[Array], ArrayLike], point: Array, k: int | None) -> Array:
    answer = np.array(project(point.copy()), dtype=np.float64)
    name = "repair" if k is None else f"projections[{k}]"
    if answer.shape != point.shape:
        raise OracleError(f"{name} returned an array of shape {answer.shape}, expected {point.shape}")
    if not np.isfinite(answer).all():
        raise OracleError(f"{name} returned a point that is not finite")
    return answer


def _rounding(point: Array, target: Array, total: Array) -> float:
    """What differences of squares this large leave of a gap."""
    squares = np.vdot(point - target, point - target) + np.vdot(total, total) + abs(np.vdot(total, target))
    return 16 * float(np.finfo(np.float64).eps * squares)


@dataclass
class AdmmResult:
    """Row-stochastic points, and how far the method was from rest when it stopped.

    ``primal_residual`` is the largest ‖P − S‖ of the batch, the distance to a column-stochastic matrix;
    ``dual_residual`` the largest ρ ‖S − S_before‖. Neither bounds the distance to the projection.
    """

    points: Array
    primal_residual: float
    dual_residual: float
    n_iter: int
    converged: bool


def birkhoff_admm(R: ArrayLike, rho: float = 1.0, tol: float = 1e-6, max_iter: int = 10_000) -> AdmmResult:
    """The Euclidean projection of each matrix onto the doubly stochastic matrices, by ADMM.

    Minimises ½‖P − R‖² + ½‖S − R‖² over row-stochastic P and column-stochastic S with P = S, each step a projection of
    rows or columns onto the simplex, until both residuals are at most ``tol``. This is the method of Fathony
    (*Performance-aligned learning algorithms with statistical guarantees*, 2019, equations 4.20 to 4.23), kept as a
    reference: :meth:`fenchel.structures.Birkhoff.project` is exact and faster. O(n²) per iteration.

    >>> import numpy as np
    >>> from fenchel.optim.admm import birkhoff_admm
    >>> birkhoff_admm(np.array([[1.0, 0.2], [0.4, 0.0]])).points.round(3)
    array([[0.6, 0.4],
           [0.4, 0.6]])
    """
    scores = as_float_array(R, "R").astype(np.float64, copy=False)
    if scores.ndim < 2 or scores.shape[-1] != scores.shape[-2] or scores.shape[-1] == 0:
        raise InvalidInput(f"R has shape {scores.shape}, expected square matrices (..., n, n)")
    rho = check_finite_positive(rho, "rho")
    tol = check_finite_positive(tol, "tol", zero=True)
    max_iter = check_count(max_iter, "max_iter")
    n_iter = 0
    primal, dual = np.inf, np.inf
    W = np.zeros_like(scores)
    S = np.full_like(scores, 1 / scores.shape[-1])
    P = S
    while n_iter < max_iter and not (primal <= tol and dual <= tol):
        n_iter += 1
        P = _project_rows((scores + rho * (S - W)) / (1 + rho))
        before = S
        S = _project_rows(((scores + rho * (P + W)) / (1 + rho)).swapaxes(-1, -2)).swapaxes(-1, -2)
        W += P - S
        primal = float(np.linalg.norm(P - S, axis=(-2, -1)).max(initial=0.0))
        dual = rho * float(np.linalg.norm(S - before, axis=(-2, -1)).max(initial=0.0))
    return AdmmResult(P, primal, dual, n_iter, primal <= tol and dual <= tol)


def _project_rows(scores: Array) -> Array:
    """Each row's projection onto the simplex, by sorting (Held, Wolfe and Crowder 1974): no compiled code, on purpose."""
    scores = scores - scores.max(axis=-1, keepdims=True)
    ordered = -np.sort(-np.maximum(scores, -2.0), axis=-1)  # what is below the maximum by one or more becomes zero
    size = np.arange(1, scores.shape[-1] + 1)
    thresholds = (np.cumsum(ordered, axis=-1) - 1) / size
    last = (ordered > thresholds).sum(axis=-1, keepdims=True) - 1
    return np.maximum(scores - np.take_along_axis(thresholds, last, axis=-1), 0.0)
