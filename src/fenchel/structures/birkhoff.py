"""Permutations as matrices: matchings and rankings."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from math import factorial
from typing import Any, ClassVar

import numpy as np

from .._core import parallel
from .._core.checks import check_count
from .._core.errors import InvalidInput
from .._core.types import Array
from ..kernels import assignment, birkhoff, sinkhorn
from .base import Accuracy, Solved, Structure
from .ragged import Family

__all__ = ["Birkhoff", "Birkhoffs"]


@dataclass(frozen=True, repr=False)
class Birkhoff(Structure):
    """Permutations of n: entry (i, y_i) of φ(y) is one, so M is the set of doubly stochastic matrices.

    M = {P ≥ 0 : P 1 = 1, Pᵀ 1 = 1}. An output y is an array with y[i] the partner of row i (a matching) or the rank of item
    i, 0 for the best (a ranking). argmax is the assignment problem, O(n³) at worst; the Euclidean projection a
    semismooth Newton method on its dual, O(n³) a step, about six steps; the KL projection Sinkhorn's iteration, with Newton
    steps where that is slow. A score of -inf forbids a pair; where no permutation avoids such pairs an error is raised.
    Decompositions need at most (n − 1)² + 1 permutations, and draws none. Gibbs marginals are permanents, which no
    algorithm computes fast.

    References: Jonker and Volgenant, "A shortest augmenting path algorithm for dense and sparse linear assignment
    problems", 1987; Li, Sun and Toh, "On the efficient computation of a projector over the Birkhoff polytope", 2020;
    Sinkhorn and Knopp, "Concerning nonnegative matrices and doubly stochastic matrices", 1967.

    >>> from fenchel.structures import Birkhoff
    >>> matchings = Birkhoff(3)
    >>> theta = [[0.9, 0.1, 0.0], [0.8, 0.6, 0.0], [0.0, 0.0, 0.7]]
    >>> matchings.decode(matchings.argmax(theta))
    array([0, 1, 2])
    >>> matchings.project(theta).round(3)
    array([[0.617, 0.242, 0.142],
           [0.383, 0.608, 0.008],
           [0.   , 0.15 , 0.85 ]])
    """

    n: int
    output_ndim: ClassVar[int] = 1
    part_coding: ClassVar[str | None] = "one_hot"
    intractable: ClassVar[frozenset[str]] = frozenset({"marginals"})

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", check_count(self.n, "n"))

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.n, self.n)

    @property
    def n_vertices(self) -> int:
        return factorial(self.n)

    def missing(self) -> Mapping[str, str]:
        return {
            "marginals": "sums over all permutations are permanents, which are #P-complete; use kl_project, or for a few "
            "items the loss CRF(structure, enumerated=True)"
        }

    def separation(self, p: float = 2) -> float:
        return float(4 ** (1 / p)) if self.n > 1 else np.inf

    def diameter(self, p: float = 2) -> float:
        return float((2 * self.n) ** (1 / p)) if self.n > 1 else 0.0

    @property
    def max_l1(self) -> float:
        return float(self.n)

    def center(self, theta: Array) -> Array:
        """Row maxima, then column maxima, become zero."""
        for axis in (-1, -2):
            top = theta.max(axis=axis, keepdims=True)
            theta = theta - np.where(np.isfinite(top), top, 0)
        return theta

    def _encode(self, outputs: Array, dtype: np.dtype[Any]) -> Array:
        if outputs.shape[1:] != (self.n,):
            raise InvalidInput(f"y has shape {outputs.shape}, but {self!r} needs rows of {self.n} whole numbers")
        columns = self._check_labels(outputs, self.n)
        bad = (np.sort(columns, axis=1) != np.arange(self.n)).any(axis=1)
        if bad.any():
            i = int(bad.argmax())
            raise InvalidInput(
                f"y is {columns[i].tolist()} at sample {i}, which is no permutation: each of 0 to {self.n - 1} once"
            )
        return self._matrices(columns, dtype)

    def _matrices(self, columns: Array, dtype: np.dtype[Any]) -> Array:
        out = np.zeros((*columns.shape, self.n), dtype)
        out.reshape(columns.size, self.n)[np.arange(columns.size), columns.ravel()] = 1
        return out

    def _decode(self, rows: Array) -> Array:
        # of a row with one 1, its place; a product is several times faster than argmax over short rows
        places = rows @ np.arange(self.n, dtype=rows.dtype)
        columns = np.clip(np.rint(places), 0, self.n - 1).astype(np.int64)
        bad = (np.sort(columns, axis=1) != np.arange(self.n)).any(axis=1)
        columns[bad] = np.arange(self.n)  # no permutation: decode notices that it does not encode to the same
        return columns

    def _vertices(self) -> Array:
        return self._matrices(np.array(list(itertools.permutations(range(self.n)))), np.dtype(np.float64))

    def _argmax(self, rows: Array) -> Array:
        columns, status = np.empty((len(rows), self.n), np.int64), np.empty(len(rows), np.int64)
        scores = rows.astype(np.float64, copy=False)
        parallel.run(assignment.solve, len(rows), rows.size * self.n, scores, columns, status)
        self._refuse_impossible(status)
        return self._matrices(columns, rows.dtype)

    def _project(self, rows: Array, accuracy: Accuracy) -> Solved:
        tol = accuracy.tol or (1e-10 if rows.dtype == np.float64 else 1e-6)
        return self._solve(birkhoff.project, rows, tol, accuracy.max_iter or 200)

    def _kl_project(self, rows: Array, accuracy: Accuracy) -> Solved:
        tol = accuracy.tol or (1e-9 if rows.dtype == np.float64 else 1e-6)
        return self._solve(sinkhorn.project, rows, tol, accuracy.max_iter or 10_000)

    def _solve(self, kernel: Any, rows: Array, tol: float, max_iter: int) -> Solved:
        scores = rows.astype(np.float64, copy=False)
        count = len(rows)
        out = np.empty(scores.shape)
        row_dual, column_dual = np.empty((count, self.n)), np.empty((count, self.n))
        error, n_iter, status = np.empty(count), np.empty(count, np.int64), np.empty(count, np.int64)
        parallel.run(
            kernel, count, rows.size * self.n, scores, tol, max_iter, False, out, row_dual, column_dual, error, n_iter,
            status,
        )  # fmt: skip
        status[np.isnan(out[:, 0, 0])] = 1
        self._refuse_impossible(status)
        return Solved(points=out, error=error, n_iter=n_iter, converged=status == 0)

    def _refuse_impossible(self, status: Array) -> None:
        if (status == 1).any():
            raise InvalidInput(
                f"scores forbid every permutation (each uses a pair of score -inf) at sample {int((status == 1).argmax())}"
            )

    def _decompose(self, rows: Array) -> tuple[Array, Array]:
        points = np.maximum(rows.astype(np.float64), 0)
        terms = birkhoff.most_terms(points)
        weights, counts = np.zeros((len(rows), terms)), np.empty(len(rows), np.int64)
        columns = np.broadcast_to(np.arange(self.n), (len(rows), terms, self.n)).copy()
        parallel.run(birkhoff.decompose, len(rows), rows.size * terms, points, weights, columns, counts)
        used = max(1, int(counts.max(initial=1)))
        return weights[:, :used], self._matrices(columns[:, :used], np.dtype(np.float64))

    def _sample(self, rows: Array, rng: np.random.Generator) -> Array:
        points = np.maximum(rows.astype(np.float64), 0)
        columns = np.empty((len(rows), self.n), np.int64)
        seeds = rng.integers(0, 2**64, size=len(rows), dtype=np.uint64)
        parallel.run(birkhoff.sample, len(rows), rows.size * self.n, points, seeds, columns)
        return self._matrices(columns, rows.dtype)

    def _violation(self, rows: Array) -> Array:
        off = np.maximum(-rows, 0).max(axis=(1, 2), initial=0.0)
        for axis in (1, 2):
            off = np.maximum(off, np.abs(rows.sum(axis=axis, dtype=np.float64) - 1).max(axis=1, initial=0.0))
        return off


@dataclass(frozen=True, repr=False)
class Birkhoffs(Family):
    """Permutations of any numbers of elements: an item with n² scores is one of :class:`Birkhoff` (n).

    >>> import numpy as np
    >>> from fenchel.structures import Birkhoffs
    >>> matchings = Birkhoffs()
    >>> matchings.decode(matchings.argmax([np.array([[1.0, 0.0], [2.0, 0.0]]), np.array([[0.0]])]))
    [array([1, 0]), array([0])]
    """

    def member(self, size: int) -> Birkhoff:
        n = round(size**0.5)
        if n * n != size or size == 0:
            raise InvalidInput(f"there are {size} scores, but an item of {self!r} is a square table of n x n")
        return Birkhoff(n)

    def member_of(self, y: Any) -> Birkhoff:
        return Birkhoff(len(y))

    @property
    def examples(self) -> tuple[Birkhoff, ...]:
        return Birkhoff(2), Birkhoff(1), Birkhoff(4)
