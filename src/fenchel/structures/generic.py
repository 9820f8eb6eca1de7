"""What a maximiser alone gives: projections, decompositions, samples.

These are the defaults behind the underscored oracles of :class:`~fenchel.structures.Structure`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import numpy as np

from .._core.errors import InvalidInput, OracleError
from .._core.types import Array, IntArray
from ..optim.active_set import Support, project_from_argmax
from ..optim.corrective import SeparableObjective, minimize_separable
from ..optim.frank_wolfe import minimize_over_hull
from .base import Accuracy, Solved, Structure

__all__ = ["decompose_by_argmax", "kl_project_by_argmax", "marginals_by_enumeration", "project_by_argmax"]

# Below this μ log μ is continued by a parabola: its slope stays finite, the minimum moves by less than D times this.
_FLOOR = 1e-11

_Argmax: TypeAlias = Callable[[Array], Array]


def project_by_argmax(
    structure: Structure, rows: Array, accuracy: Accuracy, warm_start: Support | None = None
) -> Solved:
    """Euclidean projections by the active-set method, to a duality gap of 1e-9 unless told otherwise."""
    shape = structure.shape

    def argmax(scores: Array, indices: IntArray) -> Array:
        vertices = structure._argmax_at(scores.reshape(len(scores), *shape), indices)
        return np.asarray(vertices).reshape(len(scores), structure.dim)

    result = project_from_argmax(
        rows.reshape(len(rows), structure.dim).astype(np.float64),
        argmax,
        tol=accuracy.tol or (1e-9 if rows.dtype == np.float64 else 1e-6),
        max_iter=accuracy.max_iter or 10_000,
        warm_start=warm_start,
        context=structure,
    )
    return Solved(
        points=result.points.reshape(rows.shape),
        error=result.gap,
        n_iter=result.n_iter,
        converged=result.converged,
        support=result.support,
    )


def project_again(structure: Structure, rows: Array, warm_start: Support | None) -> Solved:
    """Projections by argmax that go on from the vertices of an earlier call; they warn as ``structure.project`` does."""
    solved = project_by_argmax(structure, rows, Accuracy(), warm_start)
    structure._finish(solved, rows.shape[:1], rows.dtype, return_info=False)
    return solved


def decompose_by_argmax(structure: Structure, rows: Array) -> tuple[Array, Array]:
    """The vertices that the active-set method ends with when it projects a point of the hull on the hull."""
    solved = project_by_argmax(structure, rows, Accuracy(tol=1e-15, max_iter=10_000))
    weights, vertices = solved.support.unfold()
    return weights, vertices.reshape(*weights.shape, *structure.shape)


def kl_project_by_argmax(structure: Structure, rows: Array, accuracy: Accuracy) -> Solved:
    """Kullback-Leibler projections by a fully corrective method, to a duality gap of 1e-8 unless told otherwise.

    Where that stalls, at scores so far apart that entries become tiny, pairwise Frank-Wolfe steps finish.

    The start is a mean of vertices that together cover every entry that can be positive, where the slope of μ log μ is
    finite. Vertices must have no negative entry. Entries below 1e-11 are not resolved.
    """
    tol = accuracy.tol or (1e-8 if rows.dtype == np.float64 else 1e-5)
    points = np.zeros(rows.shape)
    gaps, counts, good = np.zeros(len(rows)), np.zeros(len(rows), dtype=np.int64), np.ones(len(rows), dtype=bool)
    for i in range(len(rows)):
        theta = rows[i].astype(np.float64).ravel()

        def argmax(scores: Array, i: int = i) -> Array:
            row = np.asarray(scores).reshape(1, *structure.shape)
            return np.asarray(structure._argmax_at(row, np.array([i])), dtype=np.float64).reshape(-1)

        vertices = _covering_vertices(theta, argmax)
        finite = np.where(np.isfinite(theta), theta, 0)

        def objective(x: Array, finite: Array = finite) -> tuple[float, Array, Array]:
            kept = np.maximum(x, _FLOOR)
            below = np.minimum(x - _FLOOR, 0)
            logs = np.log(kept)
            value = kept @ logs + below @ (logs + 1) + below @ below / (2 * _FLOOR) - finite @ x
            return float(value), logs + 1 + below / _FLOOR - finite, 1 / kept

        def allowed_argmax(scores: Array, theta: Array = theta, argmax: _Argmax = argmax) -> Array:
            return argmax(np.where(np.isfinite(theta), scores, -np.inf))

        start = np.full(len(vertices), 1 / len(vertices))
        try:
            result = minimize_separable(
                objective, allowed_argmax, vertices, start, tol=tol, max_iter=accuracy.max_iter or 2000
            )
            if not result.converged:  # entries so small that Newton steps stall: pairwise steps go on from there
                more = minimize_over_hull(
                    partial(_without_curvature, objective),
                    allowed_argmax,
                    result,
                    tol=tol,
                    max_iter=accuracy.max_iter or 20_000,
                )
                more.n_oracle += result.n_oracle
                result = more
        except OracleError as error:
            if repr(structure) in str(error):
                raise
            raise OracleError(f"{structure!r}, at sample {i}: {error}") from None
        points[i] = result.point.reshape(structure.shape)
        gaps[i], counts[i], good[i] = result.gap, result.n_oracle, result.converged
    return Solved(points=points, error=gaps, n_iter=counts, converged=good)


def _without_curvature(objective: SeparableObjective, x: Array) -> tuple[float, Array]:
    value, gradient, _ = objective(x)
    return value, gradient


def _covering_vertices(theta: Array, argmax: _Argmax) -> Array:
    """Vertices found by asking for one entry after the other until all that can be are positive."""
    forbidden = theta == -np.inf
    atoms = [argmax(theta)]
    covered = atoms[0] > 0
    for j in range(len(theta)):
        if not covered[j] and not forbidden[j]:
            wish = np.where(forbidden, -np.inf, 0.0)
            wish[j] = 1.0
            vertex = argmax(wish)
            if vertex[j] > 0:
                atoms.append(vertex)
                covered |= vertex > 0
    return np.unique(np.array(atoms), axis=0)


def marginals_by_enumeration(structure: Structure, rows: Array) -> tuple[Array, Array]:
    """Log-partition and Gibbs marginals as sums over all vertices of a small structure, O(vertices · dim) for a row."""
    vertices = structure.vertices().reshape(-1, structure.dim)
    log_partition, mu = np.empty(len(rows)), np.empty((len(rows), structure.dim))
    step = max(1, 4_000_000 // len(vertices))
    for first in range(0, len(rows), step):
        block = rows[first : first + step].reshape(-1, structure.dim).astype(np.float64)
        forbidden = block == -np.inf
        totals = np.where(forbidden, 0, block) @ vertices.T
        totals[forbidden.astype(np.float64) @ np.abs(vertices).T > 0] = -np.inf
        top = totals.max(axis=1, keepdims=True)
        impossible = top[:, 0] == -np.inf
        if impossible.any():
            raise InvalidInput(
                f"scores forbid every output (all are -inf) at sample {first + int(impossible.argmax())}"
            )
        weights = np.exp(totals - top)
        sums = weights.sum(axis=1, keepdims=True)
        log_partition[first : first + step] = (np.log(sums) + top)[:, 0]
        mu[first : first + step] = (weights / sums) @ vertices
    return log_partition.astype(rows.dtype, copy=False), mu.reshape(rows.shape).astype(rows.dtype, copy=False)
