"""Euclidean projection onto the convex hull of what a maximiser returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from .._core import parallel
from .._core.checks import as_float_array, check_count, check_finite_positive, check_no_nan
from .._core.errors import InvalidInput, OracleError
from .._core.types import Array, ArrayLike, IntArray
from ..kernels import active_set as kernels

__all__ = ["ActiveSetResult", "Argmax", "Support", "Supports", "project_from_argmax"]

Argmax: TypeAlias = Callable[[Array, IntArray], ArrayLike]
"""``argmax(rows, indices)``: a vertex of highest score for each row; ``indices`` says which problem each row is of."""

_FIRST_CAPACITY = 16
_FIRST_COLUMNS = 128
_RESTARTS = 2
# Problems under way at once: enough to make the cost of a Python call per round small, few enough that their
# factors (one square array each) stay a modest part of what the atoms themselves need.
_BLOCK_NUMBERS = 1 << 22
_BLOCK_ROWS = (16, 1024)


@dataclass(frozen=True)
class Support:
    """The vertices of several problems with their weights, packed: a warm start, or a decomposition to unfold.

    The atoms of problem i are those from ``atom_offsets[i]`` to ``atom_offsets[i + 1]``. They equal ``origin[i]`` but
    for the coordinates ``live[live_offsets[i]:live_offsets[i + 1]]``, whose values are kept.
    """

    origin: Array
    weights: Array
    live: IntArray
    values: Array
    atom_offsets: IntArray
    live_offsets: IntArray
    value_offsets: IntArray

    def __len__(self) -> int:
        return len(self.origin)

    @property
    def sizes(self) -> IntArray:
        """The number of atoms of each problem."""
        return np.diff(self.atom_offsets)

    def take(self, indices: ArrayLike) -> Support:
        """The support of the problems of these indices, in this order."""
        index = np.asarray(indices, dtype=np.int64)
        atoms, atom_offsets = _pick(self.atom_offsets, index)
        live, live_offsets = _pick(self.live_offsets, index)
        values, value_offsets = _pick(self.value_offsets, index)
        return Support(
            self.origin[index], self.weights[atoms], self.live[live], self.values[values],
            atom_offsets, live_offsets, value_offsets,
        )  # fmt: skip

    @classmethod
    def join(cls, parts: Sequence[Support]) -> Support:
        """The supports of all these problems, one after the other."""
        if len(parts) == 1:
            return parts[0]
        flat = (np.concatenate([getattr(part, f) for part in parts]) for f in ("origin", "weights", "live", "values"))
        offsets = (
            _offsets(np.concatenate([np.diff(getattr(part, f)) for part in parts]))
            for f in ("atom_offsets", "live_offsets", "value_offsets")
        )
        return cls(*flat, *offsets)

    def unfold(self) -> tuple[Array, Array]:
        """Weights (B, m), padded with zeros, and vertices (B, m, D), padded with copies of each problem's first."""
        used = np.arange(self.sizes.max(initial=0)) < self.sizes[:, None]
        weights = np.zeros(used.shape)
        weights[used] = self.weights
        vertices = np.empty((*used.shape, self.origin.shape[1]))
        parallel.run(
            kernels.expand, len(self), vertices.size, self.origin, self.atom_offsets, self.live_offsets,
            self.value_offsets, self.live, self.values, vertices,
        )  # fmt: skip
        return weights, vertices


class Supports:
    """The supports of a batch that is solved again and again, all of it or a block at a time: read and written by index.

    Blocks are kept as they come and put together now and then, so that writing one costs what the block holds.
    """

    _MOST_PARTS = 64

    def __init__(self, support: Support) -> None:
        self.parts = [support]
        self.part = np.zeros(len(support), dtype=np.int64)
        self.place = np.arange(len(support))

    def __len__(self) -> int:
        return len(self.part)

    @property
    def support(self) -> Support:
        """All of them, packed."""
        if len(self.parts) > 1:
            self.__init__(self._gather(np.arange(len(self))))  # type: ignore[misc]
        return self.parts[0]

    def __getitem__(self, idx: Any) -> Supports:
        return Supports(self._gather(np.arange(len(self))[idx]))

    def __setitem__(self, idx: Any, new: Supports) -> None:
        rows = np.arange(len(self))[idx]
        self.parts.append(new.support)
        self.part[rows] = len(self.parts) - 1
        self.place[rows] = np.arange(len(rows))
        if len(self.parts) > self._MOST_PARTS:
            _ = self.support

    def _gather(self, rows: IntArray) -> Support:
        part, place = self.part[rows], self.place[rows]
        used = np.unique(part)
        if len(used) == 1:
            return self.parts[used[0]].take(place)
        order = np.argsort(part, kind="stable")
        taken = [self.parts[p].take(place[part == p]) for p in used]
        return Support.join(taken).take(np.argsort(order, kind="stable"))


def _pick(offsets: IntArray, index: IntArray) -> tuple[IntArray, IntArray]:
    """Which entries of a ragged array the rows of this index hold, and the offsets of what is picked."""
    sizes = np.diff(offsets)[index]
    picked = _offsets(sizes)
    return np.arange(picked[-1]) + np.repeat(offsets[index] - picked[:-1], sizes), picked


def _offsets(sizes: IntArray) -> IntArray:
    offsets = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


@dataclass
class ActiveSetResult:
    """Projections with their certificate and their decomposition into vertices.

    ``gap`` is the Frank-Wolfe duality gap ⟨θ − μ, s − μ⟩, s the oracle's answer at θ − μ: it bounds both ‖μ − μ*‖² and
    the error of ½‖μ − θ‖². It is infinite where ``max_iter`` left no call to measure it. ``n_iter`` counts the oracle's
    calls.
    """

    points: Array
    gap: Array
    n_iter: IntArray
    converged: Array
    support: Support
    """The vertices of positive weight; ``warm_start`` for a later call with other scores."""

    @property
    def weights(self) -> Array:
        """The weight of each vertex, shape (B, m), padded with zeros."""
        return self._unfolded[0]

    @property
    def vertices(self) -> Array:
        """The vertices whose combinations the points are, shape (B, m, D), padded with copies of each row's first."""
        return self._unfolded[1]

    @cached_property
    def _unfolded(self) -> tuple[Array, Array]:
        return self.support.unfold()


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
    the largest distance of a vertex from the first one. So the gap is at most ``tol`` whatever the scores, and a set
    much smaller than one is projected on as accurately as the same set scaled up. ``max_iter`` bounds the oracle
    calls per row. No warning is given: the caller looks at ``converged``.

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
    if warm_start is not None and (len(warm_start) != n or warm_start.origin.shape[1] != dim):
        raise InvalidInput(
            f"warm_start holds {len(warm_start)} problems of {warm_start.origin.shape[1]} scores, but theta has shape "
            f"{rows.shape}; use warm_start.take(indices) to pick problems"
        )
    oracle = _Oracle(argmax, "argmax" if context is None else f"{context}: argmax")
    result = _solved(rows, np.arange(n), oracle, tol, max_iter, warm_start)
    for _ in range(_RESTARTS):
        # where rounding in the factors stopped the method, one from scratch at the same atoms goes on as a rule
        left = np.flatnonzero(~result.converged & (result.n_iter < max_iter))
        if not len(left):
            break
        rest = max_iter - int(result.n_iter[left].max())
        more = _solved(rows[left], left, oracle, tol, rest, result.support.take(left))
        more.n_iter += result.n_iter[left]
        order = np.arange(n)
        order[left] = n + np.arange(len(left))
        result = _picked(_joined([result, more], dim), order)
    return result


def _solved(
    rows: Array, numbers: IntArray, oracle: _Oracle, tol: float, max_iter: int, warm_start: Support | None
) -> ActiveSetResult:
    """Problems ``numbers`` of the batch, in blocks."""
    n, dim = rows.shape
    size = int(np.clip(_BLOCK_NUMBERS // max(dim, 1), *_BLOCK_ROWS))
    blocks = []
    for start in range(0, n, size):
        part = slice(start, min(start + size, n))
        block = _Block(rows[part], numbers[part], oracle, tol, max_iter)
        whole = warm_start is None or part == slice(0, n)
        block.solve(warm_start if whole else warm_start.take(range(part.start, part.stop)))  # type: ignore[union-attr]
        blocks.append(block.result())
    return _joined(blocks, dim)


def _picked(result: ActiveSetResult, index: IntArray) -> ActiveSetResult:
    return ActiveSetResult(
        result.points[index],
        result.gap[index],
        result.n_iter[index],
        result.converged[index],
        result.support.take(index),
    )


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
                f"{self.name} returned an array of shape {answer.shape} for {expected[0]} rows of {expected[1]} "
                f"scores, expected one vertex per row: {expected}"
            )
        if answer.dtype.kind not in "fiub":
            raise OracleError(f"{self.name} returned an array of type {answer.dtype}, expected real numbers")
        return np.ascontiguousarray(answer, dtype=np.float64)

    def fail(self, status: int, sample: int, vertex: Array, by: float) -> OracleError:
        shown = np.array2string(vertex, precision=4, threshold=12, edgeitems=5, max_line_width=1000)
        if status == kernels.NOT_FINITE:
            return OracleError(f"{self.name} returned a vertex that is not finite at sample {sample}: {shown}")
        return OracleError(
            f"{self.name} does not maximise: at sample {sample} it returned a vertex that scores {by:.3g} less than "
            f"one it had returned earlier: {shown}"
        )


class _Block:
    """Problems under way together: their state in arrays, which the kernels share."""

    def __init__(self, rows: Array, numbers: IntArray, oracle: _Oracle, tol: float, max_iter: int) -> None:
        n, dim = rows.shape
        forbidden = rows == -np.inf
        self.forbidden = forbidden if forbidden.any() else np.zeros((0, 0), dtype=bool)
        self.theta = np.where(forbidden, 0.0, rows) if len(self.forbidden) else rows
        self.numbers, self.oracle, self.tol, self.max_iter = numbers, oracle, tol, max_iter
        self.pool = np.empty((4 * n, min(dim, _FIRST_COLUMNS)))
        self.used = 0
        self.slots = np.full((n, _FIRST_CAPACITY), -1)
        self.weights, self.residuals, self.ridge = np.zeros((3, n, _FIRST_CAPACITY))
        self.factor = np.empty((n, _FIRST_CAPACITY, _FIRST_CAPACITY))
        self.count, self.owned, self.stalls, self.n_calls, self.status = np.zeros((5, n), dtype=np.int64)
        self.origin, self.mu, self.direction = np.empty((3, n, dim))
        self.live = np.empty((n, dim), dtype=np.int32)
        self.where = np.full((n, dim), -1, dtype=np.int32)
        self.n_live, self.filled = np.zeros((2, n), dtype=np.int64)
        self.tau, self.radius, self.reach = np.zeros((3, n))
        self.gap = np.full(n, np.inf)

    def solve(self, warm: Support | None) -> None:
        if warm is not None:
            self._resume(warm)
        cold = np.flatnonzero(self.count == 0)
        if len(cold):
            self._begin(cold)
        active: IntArray = np.flatnonzero(self.n_calls < self.max_iter)
        while len(active):
            active = self._advance(active)

    def result(self) -> ActiveSetResult:
        used = np.arange(self.slots.shape[1]) < self.count[:, None]
        offsets = _offsets(self.count), _offsets(self.filled), _offsets(self.count * self.filled)
        live = np.empty(offsets[1][-1], dtype=np.int32)
        values = np.empty(offsets[2][-1])
        parallel.run(
            kernels.pack, len(self.mu), values.size, self.pool, self.slots, self.live, self.filled, *offsets,
            live, values,
        )  # fmt: skip
        support = Support(self.origin, self.weights[used], live, values, *offsets)
        return ActiveSetResult(self.mu, self.gap, self.n_calls, self.status == kernels.CONVERGED, support)

    def _begin(self, items: IntArray) -> None:
        vertices = self._ask(self.theta, items)
        self._reserve(items)
        parallel.run(
            kernels.begin, len(items), vertices.size, items, vertices, self.theta, self.slots, self.count, self.owned,
            self.weights, self.residuals, self.origin, self.mu, self.direction, self.n_calls, self.status,
        )  # fmt: skip
        self._check(items, vertices)

    def _resume(self, warm: Support) -> None:
        n_atoms = len(warm.weights)
        self._grow(int(warm.sizes.max(initial=0)) + 1, n_atoms, int(np.diff(warm.live_offsets).max(initial=0)))
        self.used = n_atoms
        self.origin[:] = warm.origin
        parallel.run(
            kernels.resume, len(self.theta), warm.values.size, self.theta, self.forbidden, warm.atom_offsets,
            warm.live_offsets, warm.value_offsets, warm.weights, warm.live, warm.values, self.pool, self.slots,
            self.count, self.owned, self.weights, self.origin, self.tau, self.radius, self.reach, self.mu,
            self.direction, self.live, self.where, self.n_live, self.filled,
        )  # fmt: skip
        items = np.flatnonzero(self.count)
        if len(items):
            self._step(items, np.full(len(items), -1), np.empty((0, self.theta.shape[1])))

    def _advance(self, items: IntArray) -> IntArray:
        """One round; the problems that go on."""
        vertices = self._ask(self.direction, items)
        parallel.run(
            kernels.judge, len(items), vertices.size, items, vertices, self.pool, self.slots, self.owned,
            self.residuals, self.origin, self.radius, self.reach, self.mu, self.direction, self.live, self.where,
            self.n_live, self.filled, self.n_calls, self.max_iter, self.tol, self.gap, self.status,
        )  # fmt: skip
        self._check(items, vertices)
        rows = np.flatnonzero(self.status[items] == kernels.RUNNING)
        items = items[rows]
        if not len(items):
            return items
        self._reserve(items)
        self._step(items, rows, vertices)
        going: IntArray = items[self.status[items] == kernels.RUNNING]
        return going

    def _step(self, items: IntArray, rows: IntArray, vertices: Array) -> None:
        count = self.count[items]
        work = float((count + 1) @ self.n_live[items] + count @ count)
        parallel.run(
            kernels.step, len(items), work, items, rows, vertices, self.theta, self.pool, self.slots, self.count,
            self.owned, self.weights, self.residuals, self.factor, self.ridge, self.origin, self.tau, self.radius,
            self.reach, self.mu, self.direction, self.live, self.n_live, self.filled, self.stalls, self.tol,
            self.status,
        )  # fmt: skip

    def _ask(self, scores: Array, items: IntArray) -> Array:
        """One answer for each problem; the oracle gets copies, which it may overwrite."""
        rows = scores[items]
        if not len(self.forbidden):
            return self.oracle(rows, self.numbers[items])
        closed = self.forbidden[items]
        rows[closed] = -np.inf
        vertices = self.oracle(rows, self.numbers[items])
        used = closed & (vertices != 0) & ~np.isnan(vertices)
        if used.any():
            a, position = (int(k) for k in np.argwhere(used)[0])
            raise OracleError(
                f"{self.oracle.name} returned at sample {self.numbers[items[a]]} a vertex with entry "
                f"{vertices[a, position]} at position {position}, whose score of -inf forbids it"
            )
        return vertices

    def _reserve(self, items: IntArray) -> None:
        """See that every problem has a free slot for one more atom, and a column for each live coordinate."""
        owned = self.owned[items]
        full = owned == self.count[items]
        self._grow(int(owned.max()) + 1, self.used + int(full.sum()), int(self.n_live[items].max()))
        full &= self.slots[items, owned] < 0
        missing = items[full]
        self.slots[missing, owned[full]] = np.arange(self.used, self.used + len(missing))
        self.used += len(missing)

    def _grow(self, capacity: int, atoms: int, columns: int) -> None:
        n_rows, n_columns = self.pool.shape
        if atoms > n_rows or columns > n_columns:
            if atoms > n_rows:
                n_rows = max(atoms, 2 * n_rows)
            if columns > n_columns:
                n_columns = min(max(columns, 2 * n_columns), self.theta.shape[1])
            pool = np.empty((n_rows, n_columns))
            pool[: self.used, : self.pool.shape[1]] = self.pool[: self.used]
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
            raise self.oracle.fail(int(status[a]), int(self.numbers[i]), vertices[a], float(self.gap[i]))


def _joined(blocks: list[ActiveSetResult], dim: int) -> ActiveSetResult:
    if len(blocks) == 1:
        return blocks[0]
    if not blocks:
        none = np.empty((0, dim)), np.empty(0), np.empty(0, dtype=np.int64), np.empty(0, dtype=bool)
        zero = _offsets(none[2])
        return ActiveSetResult(*none, Support(none[0], none[1], none[2].astype(np.int32), none[1], zero, zero, zero))
    points, gap, n_iter, converged = (
        np.concatenate([getattr(b, f) for b in blocks]) for f in ("points", "gap", "n_iter", "converged")
    )
    return ActiveSetResult(points, gap, n_iter, converged, Support.join([block.support for block in blocks]))
