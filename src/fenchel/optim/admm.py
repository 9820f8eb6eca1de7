"""Alternating direction method of multipliers for the projection onto doubly stochastic matrices, as a reference."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._core.checks import as_float_array, check_count, check_finite_positive
from .._core.errors import InvalidInput
from .._core.types import Array, ArrayLike

__all__ = ["AdmmResult", "birkhoff_admm"]


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
