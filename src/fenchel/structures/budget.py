"""Between low and high of k labels."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from math import comb
from typing import Any, ClassVar

import numpy as np

from .._core import parallel
from .._core.checks import check_count
from .._core.errors import InvalidInput
from .._core.types import Array
from ..kernels import budget as kernels
from .base import Accuracy, Structure, items_of
from .cube import Cube

__all__ = ["Budget", "Budgets"]


@dataclass(frozen=True, repr=False)
class Budget(Structure):
    """Any subset of k labels with at least ``low`` and at most ``high`` of them: the budget (knapsack) polytope.

    M = {μ in [0, 1]^k : low ≤ Σ μ ≤ high}. Projections search one threshold, O(k) a row after the cube; Gibbs marginals
    are a dynamic programme over counts, O(k · high); systematic sampling decomposes into at most k + 1 vertices.

    References: Blondel, "Structured prediction with projection oracles", 2019, Proposition 3; Madow, "On the theory of
    systematic sampling", 1949.

    >>> from fenchel.structures import Budget
    >>> Budget(3, 0, 1).project([0.9, 0.7, -1.0])
    array([0.6, 0.4, 0. ])
    >>> Budget(3, 1, 2).argmax([-3.0, -1.0, -2.0])
    array([0., 1., 0.])
    """

    k: int
    low: int
    high: int
    output_ndim: ClassVar[int] = 1
    part_coding: ClassVar[str | None] = "entry"

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", check_count(self.k, "k"))
        object.__setattr__(self, "low", check_count(self.low, "low", minimum=0))
        object.__setattr__(self, "high", check_count(self.high, "high", minimum=0))
        if not self.low <= self.high <= self.k:
            raise InvalidInput(f"Budget({self.k}, {self.low}, {self.high}) is empty: it needs 0 <= low <= high <= k")

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.k,)

    @property
    def n_vertices(self) -> int:
        return sum(comb(self.k, m) for m in range(self.low, self.high + 1))

    def _bounds(self, n: int) -> tuple[Array, Array]:
        """The bounds of each of n rows."""
        return np.full(n, self.low), np.full(n, self.high)

    def separation(self, p: float = 2) -> float:
        if self.low < self.high:
            return 1.0
        return float(2 ** (1 / p)) if 0 < self.low < self.k else np.inf

    def diameter(self, p: float = 2) -> float:
        sizes = range(self.low, self.high + 1)
        return float(max(self._difference(a, b) for a in (self.low, self.high) for b in sizes) ** (1 / p))

    def _difference(self, a: int, b: int) -> int:
        """How many labels can differ between a subset of size a and one of size b."""
        return a + b - 2 * max(0, a + b - self.k)

    @property
    def max_l1(self) -> float:
        return float(self.high)

    def center(self, theta: Array) -> Array:
        if self.low < self.high:
            return theta
        top = theta.max(axis=-1, keepdims=True)
        return theta - np.where(np.isfinite(top), top, 0)

    def _encode(self, outputs: Array, dtype: np.dtype[Any]) -> Array:
        rows = Cube(self.k)._encode(outputs, dtype)
        counts = rows.sum(axis=-1)
        low, high = self._bounds(len(rows))
        bad = (counts < low) | (counts > high)
        if bad.any():
            i = int(bad.argmax())
            raise InvalidInput(
                f"y has {int(counts[i])} labels at sample {i}, but {self!r} allows {int(low[i])} to {int(high[i])}"
            )
        return rows

    def _decode(self, rows: Array) -> Array:
        return (rows > 0.5).astype(np.int64)

    def decode(self, vertex: Any) -> Array:
        rows, _ = self._rows(vertex, "vertices", points=True)
        outside = self._violation(rows) > 0
        if outside.any():
            i = int(outside.argmax())
            raise InvalidInput(f"sample {i} is no vertex of {self!r}: {np.array2string(rows[i], threshold=20)}")
        return super().decode(vertex)

    def _vertices(self) -> Array:
        every = np.array(list(itertools.product((0.0, 1.0), repeat=self.k)))
        counts = every.sum(axis=1)
        return every[(counts >= self.low) & (counts <= self.high)]

    def _check_possible(self, rows: Array) -> None:
        """A row with fewer than ``low`` allowed labels has no output."""
        if rows.size and rows.min() == -np.inf:
            allowed = (rows > -np.inf).sum(axis=-1)
            low = self._bounds(len(rows))[0]
            short = allowed < low
            if short.any():
                i = int(short.argmax())
                raise InvalidInput(
                    f"scores forbid all but {int(allowed[i])} labels at sample {i}, but {self!r} needs {int(low[i])}"
                )

    def _argmax(self, rows: Array) -> Array:
        self._check_possible(rows)
        order = np.argsort(-rows, axis=-1, kind="stable")
        counts = np.clip((rows > 0).sum(axis=-1), *self._bounds(len(rows)))
        rank = np.empty_like(order)
        np.put_along_axis(rank, order, np.broadcast_to(np.arange(self.k), order.shape), axis=-1)
        return (rank < counts[:, None]).astype(rows.dtype)

    def _project(self, rows: Array, accuracy: Accuracy) -> Array:
        self._check_possible(rows)
        out = np.empty_like(rows)
        parallel.run(kernels.project, len(rows), rows.size, rows, *self._bounds(len(rows)), out)
        return out

    def _kl_project(self, rows: Array, accuracy: Accuracy) -> Array:
        self._check_possible(rows)
        out = np.empty_like(rows)
        # The threshold is that of scores in decreasing order; numpy sorts faster than a compiled loop would.
        descending = -np.sort(-rows, axis=-1)
        parallel.run(kernels.kl_project, len(rows), rows.size, rows, descending, *self._bounds(len(rows)), out)
        return out

    def _marginals(self, rows: Array) -> tuple[Array, Array]:
        self._check_possible(rows)
        out, log_sum = np.empty_like(rows), np.empty(len(rows))
        work = rows.size * (self.high + 1)
        parallel.run(kernels.marginals, len(rows), work, rows, *self._bounds(len(rows)), log_sum, out)
        return log_sum, out

    def _decompose(self, rows: Array) -> tuple[Array, Array]:
        """Systematic sampling: one uniform number picks the vertex, so the vertices are the pieces it ranges over."""
        ends = self._ends(rows)
        cuts = np.sort(np.concatenate([np.zeros((len(rows), 1)), ends - np.floor(ends)], axis=1), axis=1)
        edges = np.concatenate([cuts, np.ones((len(rows), 1))], axis=1)
        weights = np.diff(edges, axis=1)
        u = edges[:, :-1] + weights / 2
        return weights, self._systematic(ends, u, rows.dtype)

    def _ends(self, rows: Array) -> Array:
        """Cumulative marginals, their end within the bounds, and whole where rounding alone keeps it from that."""
        ends = np.cumsum(np.clip(rows, 0, 1), axis=-1, dtype=np.float64)
        total = ends[:, -1:]
        whole = np.round(total)
        near = 1e-6 if rows.dtype == np.float32 else 1e-12 * self.k
        low, high = self._bounds(len(rows))
        target = np.clip(np.where(np.abs(total - whole) < near, whole, total), low[:, None], high[:, None])
        return np.where(total > 0, ends * (target / np.where(total > 0, total, 1)), ends)

    @staticmethod
    def _systematic(ends: Array, u: Array, dtype: np.dtype[Any]) -> Array:
        """Label j is chosen when a whole number + u falls into its piece [ends[j-1], ends[j])."""
        before = np.concatenate([np.zeros((len(ends), 1)), ends[:, :-1]], axis=1)
        count = np.ceil(ends[:, None, :] - u[:, :, None]) - np.ceil(before[:, None, :] - u[:, :, None])
        return np.clip(count, 0, 1).astype(dtype)

    def _sample(self, rows: Array, rng: np.random.Generator) -> Array:
        ends = self._ends(rows)
        return self._systematic(ends, rng.random((len(rows), 1)), rows.dtype)[:, 0]

    def _violation(self, rows: Array) -> Array:
        total = rows.sum(axis=-1, dtype=np.float64)
        low, high = self._bounds(len(rows))
        outside = np.maximum(np.maximum(low - total, total - high), 0)
        return np.maximum(Cube(self.k)._violation(rows), outside)


@dataclass(frozen=True, repr=False)
class Budgets(Budget):
    """A :class:`Budget` for each item of a batch: item i may have ``lows[i]`` to ``highs[i]`` of the k labels.

    What multilabel training needs when a truth has more labels than predictions will be allowed: on its own larger
    budget its loss is finite. ``take(idx)`` is the structure for some of the items.

    >>> import numpy as np
    >>> from fenchel.structures import Budgets
    >>> Budgets.of(3, lows=[0, 0], highs=[1, 2]).project([[0.9, 0.7, 0.1], [0.9, 0.7, 0.1]])
    array([[0.6, 0.4, 0. ],
           [0.9, 0.7, 0.1]])
    """

    lows: tuple[int, ...] = ()
    highs: tuple[int, ...] = ()

    @classmethod
    def of(cls, k: int, *, lows: Any, highs: Any) -> Budgets:
        """The budgets with these bounds, one pair per item."""
        low, high = np.broadcast_arrays(np.asarray(lows), np.asarray(highs))
        if low.ndim != 1 or len(low) == 0 or low.dtype.kind not in "iu" or high.dtype.kind not in "iu":
            raise InvalidInput("lows and highs must be rows of whole numbers, one pair per item")
        if np.any(low > high):
            i = int(np.argmax(low > high))
            raise InvalidInput(f"the budget of item {i} is empty: low is {low[i]} and high is {high[i]}")
        return cls(k, int(low.min()), int(high.max()), tuple(map(int, low)), tuple(map(int, high)))

    def __repr__(self) -> str:
        return f"Budgets({self.k}, {len(self.lows)} items, {self.low} to {self.high} labels)"

    def missing(self) -> Mapping[str, str]:
        return {**super().missing(), "vertices": "its items have different vertices; ask Budget for one of them"}

    def take(self, idx: Any) -> Budgets:
        items = items_of(len(self.lows), idx, self)
        return Budgets.of(self.k, lows=np.array(self.lows)[items], highs=np.array(self.highs)[items])

    def _bounds(self, n: int) -> tuple[Array, Array]:
        if n != len(self.lows):
            raise InvalidInput(f"{self!r} was given a batch of {n}; take(idx) gives the structure for other items")
        return np.array(self.lows), np.array(self.highs)
