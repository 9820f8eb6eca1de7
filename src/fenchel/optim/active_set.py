"""Euclidean projection onto the convex hull of what a maximiser returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from .._core import parallel
from .._core.checks import as_float_array, check_count, check_finite_positive, check_no_nan
from .._core.errors import InvalidInput, OracleError
from .._core.types import Array, ArrayLike, IntArray
from ..kernels import active_set as kernels

__all__ = ["ActiveSetResult", "Argmax", "Support", "project_from_argmax"]

Argmax: TypeAlias = Callable[[Array, IntArray], ArrayLike]
"""``argmax(rows, indices)``: a vertex of highest score for each row; ``indices`` says which problem each row is of."""

_FIRST_CAPACITY = 16
# Problems under way at once: enough to make the cost of a Python call per round small, few enough that their
# factors (one square array each) stay a modest part of what the atoms themselves need.
_BLOCK_NUMBERS = 1 << 22
_BLOCK_ROWS = (16, 1024)


@dataclass(frozen=True)
class Support:
    """Atoms of several problems, one after the other: those of problem i are ``atoms[offsets[i]:offsets[i + 1]]``."""

    atoms: Array
    weights: Array
    offsets: IntArray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def take(self, indices: ArrayLike) -> Support:
        """The support of the problems of these indices, in this order."""
        index = np.asarray(indices, dtype=np.int64)
        counts = np.diff(self.offsets)[index]
        offsets = np.concatenate(([0], np.cumsum(counts)))
        rows = np.arange(offsets[-1]) + np.repeat(self.offsets[index] - offsets[:-1], counts)
        return Support(self.atoms[rows], self.weights[rows], offsets)


@dataclass
class ActiveSetResult:
    """Projections with their certificate and their decomposition into vertices.

    ``gap`` is the Frank-Wolfe duality gap ⟨θ − μ, s − μ⟩, s the oracle's answer at θ − μ: it bounds both ‖μ − μ*‖² and
    the error of ½‖μ − θ‖². It is infinite where ``max_iter`` left no call to measure it. ``n_iter`` counts oracle calls.
    """

    points: Array
    gap: Array
    n_iter: IntArray
    converged: Array
    support: Support
    """The vertices with positive weight; ``warm_start`` for a later call with other scores."""

    @cached_property
    def weights(self) -> Array:
        """Weights on ``vertices``, shape (B, m), padded with zeros."""
        weights = np.zeros(self._padded.shape)
        weights[self._padded] = self.support.weights
        return weights

    @cached_property
    def vertices(self) -> Array:
        """The vertices of each problem, shape (B, m, D), padded with copies of its first."""
        starts = self.support.offsets[:-1, None]
        rows = np.where(self._padded, starts + np.arange(self._padded.shape[1]), starts)
        return self.support.atoms[rows]

    @cached_property
    def _padded(self) -> Array:
        counts = np.diff(self.support.offsets)
        mask: Array = np.arange(counts.max(initial=0)) < counts[:, None]
        return mask


def project_from_argmax(
    theta: ArrayLike,
    argmax: Argmax,
    *,
    tol: float = 1e-9,
    max_iter: int = 1000,
    warm_start: Support | None = None,
    context: object = None,
) -> ActiveSetResult:
    """The projection argmin ½‖μ − θ‖² over the convex hull of the vertices ``argmax`` returns, for each row of scores.

    ``argmax(rows, indices)`` gets scores (m, D) of the problems not yet finished and answers one vertex per row,
    (m, D). A score of -inf forbids its coordinate: it is passed on, and vertices must be zero there.

    A row has converged when its duality gap is at most ``tol * min(1, r²)`` plus the rounding of the gap itself, r
    the largest distance of a vertex from the first one. So the gap is at most ``tol`` whatever the scores, and sets much
    smaller than one are projected on as accurately as the same set scaled up. ``max_iter`` bounds the oracle calls
    per row. No warning is given: the caller looks at ``converged``.

    An answer of wrong shape, one that is not finite, and one that scores less than a vertex returned earlier raise
    :class:`OracleError`; ``context`` is named in the message.

    Wolfe's method (Wolfe, "Finding the nearest point in a polytope", 1976), which is also the active set of SparseMAP
    (Niculae, Martins, Blondel and Cardie 2018). It ends after finitely many steps; one step costs an oracle call and
    O(k D + k²) with k active vertices.
    """
    rows = _rows(theta)
    tol = check_finite_positive(tol, "tol", zero=True)
    max_iter = check_count(max_iter, "max_iter")
    n, dim = rows.shape
    if warm_start is not None and (len(warm_start) != n or warm_start.atoms.shape[1] != dim):
        raise InvalidInput(
            f"warm_start holds {len(warm_start)} problems of {warm_start.atoms.shape[1]} scores, but theta has shape "
            f"{rows.shape}; use warm_start.take(indices) to pick problems"
        )
    oracle = _Oracle(argmax, "argmax" if context is None else f"{context}: argmax")
    size = int(np.clip(_BLOCK_NUMBERS // max(dim, 1), *_BLOCK_ROWS))
    blocks = []
    for start in range(0, n, size):
        part = range(start, min(start + size, n))
        block = _Block(rows[part.start : part.stop], start, oracle, tol, max_iter)
        block.solve(None if warm_start is None else warm_start.take(part))
        blocks.append(block.result())
    return _joined(blocks, dim)


def _rows(theta: ArrayLike) -> Array:
    rows = as_float_array(theta, "theta").astype(np.float64, copy=False)
    if rows.ndim != 2:
        raise InvalidInput(f"theta has shape {rows.shape}, expected (problems, scores)")
    check_no_nan(rows, "theta", project_from_argmax)
    return rows


@dataclass(frozen=True)
class _Oracle:
    """The user's maximiser, its answers checked for shape and type."""

    argmax: Argmax
    name: str

    def __call__(self, rows: Array, indices: IntArray) -> Array:
        expected = rows.shape
        answer = np.asarray(self.argmax(rows, indices))
        if answer.shape != expected:
            raise OracleError(
                f"{self.name} returned an array of shape {answer.shape} for {expected[0]} rows of {expected[1]} scores, "
                f"expected one vertex per row: {expected}"
            )
        if answer.dtype.kind not in "fiub":
            raise OracleError(f"{self.name} returned an array of type {answer.dtype}, expected real numbers")
        return np.ascontiguousarray(answer, dtype=np.float64)

    def fail(self, status: int, sample: int, vertex: Array, by: float) -> OracleError:
        shown = np.array2string(vertex, threshold=20)
        if status == kernels.NOT_FINITE:
            return OracleError(f"{self.name} returned a vertex that is not finite at sample {sample}: {shown}")
        return OracleError(
            f"{self.name} does not maximise: at sample {sample} it returned a vertex that scores {by:.3g} less than one "
            f"it had returned earlier: {shown}"
        )


class _Block:
    """Problems under way together: their state in arrays, which the kernels share."""

    def __init__(self, rows: Array, first: int, oracle: _Oracle, tol: float, max_iter: int) -> None:
        n, dim = rows.shape
        forbidden = rows == -np.inf
        self.forbidden = forbidden if forbidden.any() else None
        self.theta = np.where(forbidden, 0.0, rows) if self.forbidden is not None else rows
        self.first, self.oracle, self.tol, self.max_iter = first, oracle, tol, max_iter
        self.pool = np.empty((4 * n, dim))
        self.used = 0
        self.slots = np.full((n, _FIRST_CAPACITY), -1)
        self.count, self.owned, self.stalls, self.n_calls, self.status = np.zeros((5, n), dtype=np.int64)
        self.weights, self.residuals, self.ridge = np.zeros((3, n, _FIRST_CAPACITY))
        self.factor = np.empty((n, _FIRST_CAPACITY, _FIRST_CAPACITY))
        self.origin, self.mu, self.direction = np.empty((3, n, dim))
        self.tau, self.radius = np.zeros((2, n))
        self.gap = np.full(n, np.inf)

    def solve(self, warm: Support | None) -> None:
        active = np.arange(len(self.theta))
        cold = active
        if warm is not None and self._adopt(warm):
            self._resume(np.flatnonzero(self.count))
            cold = np.flatnonzero(self.count == 0)
        if len(cold):
            self._begin(cold)
        if self.max_iter == 1:
            active = active[self.n_calls == 0]
        while len(active):
            self._advance(active)
            active = active[self.status[active] == kernels.RUNNING]

    def result(self) -> ActiveSetResult:
        mask = np.arange(self.slots.shape[1]) < self.count[:, None]
        support = Support(
            self.pool[self.slots[mask]], self.weights[mask], np.concatenate(([0], np.cumsum(self.count)))
        )
        return ActiveSetResult(self.mu, self.gap, self.n_calls, self.status == kernels.CONVERGED, support)

    def _begin(self, items: IntArray) -> None:
        vertices = self._ask(self.theta, items)
        self._reserve(items)
        parallel.run(
            kernels.begin, len(items), vertices.size, items, vertices, self.theta, self.pool, self.slots, self.count,
            self.owned, self.weights, self.residuals, self.origin, self.mu, self.direction, self.n_calls, self.status,
        )  # fmt: skip
        self._check(items, vertices)

    def _adopt(self, warm: Support) -> bool:
        """Take over atoms, all but those that use a coordinate forbidden by now; whether any are left."""
        keep = warm.weights > 0
        problem = np.repeat(np.arange(len(warm)), np.diff(warm.offsets))
        if self.forbidden is not None:
            keep &= ~((warm.atoms != 0) & self.forbidden[problem]).any(axis=1)
        problem = problem[keep]
        self.count[:] = np.bincount(problem, minlength=len(warm))
        self.owned[:] = self.count
        self.used = len(problem)
        if self.used == 0:
            return False
        self._grow(int(self.count.max()) + 1, self.used)
        self.pool[: self.used] = warm.atoms[keep]
        place = np.arange(self.used) - (np.cumsum(self.count) - self.count)[problem]
        self.slots[problem, place] = np.arange(self.used)
        self.weights[problem, place] = warm.weights[keep]
        return True

    def _resume(self, items: IntArray) -> None:
        parallel.run(
            kernels.resume, len(items), self._work(items), items, self.theta, self.pool, self.slots, self.count,
            self.owned, self.weights, self.residuals, self.factor, self.ridge, self.origin, self.tau, self.radius,
            self.mu, self.direction, self.tol,
        )  # fmt: skip

    def _advance(self, items: IntArray) -> None:
        vertices = self._ask(self.direction, items)
        self._reserve(items)
        parallel.run(
            kernels.advance, len(items), self._work(items), items, vertices, self.theta, self.pool, self.slots,
            self.count, self.owned, self.weights, self.residuals, self.factor, self.ridge, self.origin, self.tau,
            self.radius, self.mu, self.direction, self.stalls, self.n_calls, self.max_iter, self.tol, self.gap,
            self.status,
        )  # fmt: skip
        self._check(items, vertices)

    def _work(self, items: IntArray) -> float:
        """Numbers read in one round, roughly."""
        count = self.count[items]
        return float(3 * count.sum() + 4 * len(items)) * self.theta.shape[1] + float(count @ count)

    def _ask(self, scores: Array, items: IntArray) -> Array:
        """One answer for each problem; the oracle gets copies, which it may overwrite."""
        rows = scores[items]
        if self.forbidden is None:
            return self.oracle(rows, items + self.first)
        closed = self.forbidden[items]
        rows[closed] = -np.inf
        vertices = self.oracle(rows, items + self.first)
        used = closed & (vertices != 0) & ~np.isnan(vertices)
        if used.any():
            a, position = (int(k) for k in np.argwhere(used)[0])
            raise OracleError(
                f"{self.oracle.name} returned at sample {items[a] + self.first} a vertex with entry "
                f"{vertices[a, position]} at position {position}, whose score of -inf forbids it"
            )
        return vertices

    def _reserve(self, items: IntArray) -> None:
        """See that every problem has a free slot for one more atom."""
        full = items[self.owned[items] == self.count[items]]
        if not len(full):
            return
        owned = self.owned[full]
        self._grow(int(owned.max()) + 1, self.used + len(full))
        full = full[self.slots[full, owned] < 0]
        self.slots[full, self.owned[full]] = np.arange(self.used, self.used + len(full))
        self.used += len(full)

    def _grow(self, capacity: int, atoms: int) -> None:
        if atoms > len(self.pool):
            pool = np.empty((max(atoms, 2 * len(self.pool)), self.pool.shape[1]))
            pool[: self.used] = self.pool[: self.used]
            self.pool = pool
        old = self.slots.shape[1]
        if capacity <= old:
            return
        n, new = len(self.slots), max(capacity, 2 * old)
        slots = np.full((n, new), -1)
        slots[:, :old] = self.slots
        floats = np.zeros((3, n, new))
        for array, before in zip(floats, (self.weights, self.residuals, self.ridge), strict=True):
            array[:, :old] = before
        factor = np.empty((n, new, new))
        parallel.run(kernels.grow_factor, n, n * old * old, self.count, self.factor, factor)
        self.slots, self.factor = slots, factor
        self.weights, self.residuals, self.ridge = floats

    def _check(self, items: IntArray, vertices: Array) -> None:
        status = self.status[items]
        bad = status >= kernels.NOT_FINITE
        if bad.any():
            a = int(bad.argmax())
            i = items[a]
            raise self.oracle.fail(int(status[a]), int(i) + self.first, vertices[a], float(self.gap[i]))


def _joined(blocks: list[ActiveSetResult], dim: int) -> ActiveSetResult:
    if len(blocks) == 1:
        return blocks[0]
    if not blocks:
        none = Support(np.empty((0, dim)), np.empty(0), np.zeros(1, dtype=np.int64))
        return ActiveSetResult(
            np.empty((0, dim)), np.empty(0), np.empty(0, dtype=np.int64), np.empty(0, dtype=bool), none
        )
    parts: list[Any] = [block.support for block in blocks]
    support = Support(
        np.concatenate([s.atoms for s in parts]),
        np.concatenate([s.weights for s in parts]),
        np.concatenate(([0], np.cumsum(np.concatenate([np.diff(s.offsets) for s in parts])))),
    )
    names = ("points", "gap", "n_iter", "converged")
    return ActiveSetResult(*(np.concatenate([getattr(b, name) for b in blocks]) for name in names), support)
