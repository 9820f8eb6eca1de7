"""Rankings by who comes before whom."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from math import factorial
from typing import Any, ClassVar

import numpy as np

from .._core import parallel
from .._core.checks import check_count
from .._core.errors import InvalidInput
from .._core.types import Array
from ..kernels import linear_ordering as kernels
from .base import Accuracy, Solved, Structure

__all__ = ["LinearOrdering"]

_MOST_ITEMS = 18


@dataclass(frozen=True, repr=False)
class LinearOrdering(Structure):
    """Rankings of n items, written pair by pair: entry (i, j) of φ(y) is one where i comes before j.

    M is the linear ordering polytope. An output y is an array of ranks, 0 for the best. Costs that count wrongly
    ordered pairs are affine here, as they are not for permutation matrices. argmax is the linear ordering problem
    (weighted feedback arc set), which is NP-hard: it and the Gibbs marginals are dynamic programmes over subsets,
    O(2ⁿ n) and O(2ⁿ n²) a row, for at most 18 items. Projections and decompositions come from argmax.

    Reference: Grötschel, Jünger and Reinelt, "Facets of the linear ordering polytope", 1985.

    >>> from fenchel.structures import LinearOrdering
    >>> rankings = LinearOrdering(3)
    >>> rankings.encode([1, 0, 2])
    array([[0., 0., 1.],
           [1., 0., 1.],
           [0., 0., 0.]])
    >>> rankings.decode(rankings.argmax([[0, 2, -1], [0, 0, 3], [0, 0, 0]]))
    array([0, 1, 2])
    """

    n: int
    output_ndim: ClassVar[int] = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", check_count(self.n, "n"))
        if self.n > _MOST_ITEMS:
            raise InvalidInput(
                f"LinearOrdering({self.n}) needs sums over 2^{self.n} sets of items; at most {_MOST_ITEMS} items are "
                "possible. Use Birkhoff(n) or Permutahedron(n)"
            )

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.n, self.n)

    @property
    def n_vertices(self) -> int:
        return factorial(self.n)

    def separation(self, p: float = 2) -> float:
        return float(2 ** (1 / p)) if self.n > 1 else np.inf

    def diameter(self, p: float = 2) -> float:
        return float((self.n * (self.n - 1)) ** (1 / p))

    @property
    def max_l1(self) -> float:
        return self.n * (self.n - 1) / 2

    def center(self, theta: Array) -> Array:
        """The larger score of each pair becomes zero: one of the two orders always holds."""
        top = np.maximum(theta, np.swapaxes(theta, -1, -2))
        return theta - np.where(np.isfinite(top), top, 0)

    def _encode(self, outputs: Array, dtype: np.dtype[Any]) -> Array:
        if outputs.shape[1:] != (self.n,):
            raise InvalidInput(f"y has shape {outputs.shape}, but {self!r} needs rows of {self.n} ranks")
        ranks = self._check_labels(outputs, self.n)
        bad = (np.sort(ranks, axis=1) != np.arange(self.n)).any(axis=1)
        if bad.any():
            i = int(bad.argmax())
            raise InvalidInput(
                f"y is {ranks[i].tolist()} at sample {i}, which is no ranking: each of 0 to {self.n - 1} once"
            )
        return (ranks[:, :, None] < ranks[:, None, :]).astype(dtype)

    def _decode(self, rows: Array) -> Array:
        later = rows.sum(axis=2)  # how many come after each item; a permutation of 0 to n - 1 for a vertex
        ranks = np.round(self.n - 1 - later).astype(np.int64)
        bad = (np.sort(ranks, axis=1) != np.arange(self.n)).any(axis=1)
        ranks[bad] = np.arange(self.n)  # no vertex: decode notices that it does not encode to the same
        return ranks

    def _vertices(self) -> Array:
        return self._encode(np.array(list(itertools.permutations(range(self.n)))), np.dtype(np.float64))

    def _work(self, rows: Array) -> int:
        return len(rows) * self.n << self.n

    def _argmax(self, rows: Array) -> Array:
        order = np.zeros((len(rows), self.n), np.int64)
        parallel.run(kernels.argmax, len(rows), self._work(rows), rows.astype(np.float64, copy=False), order)
        self._refuse_impossible(order[:, 0] < 0)
        return self._encode(np.argsort(order, axis=1), rows.dtype)

    def _marginals(self, rows: Array) -> tuple[Array, Array]:
        log_partition, mu = np.empty(len(rows)), np.empty(rows.shape)
        work = self._work(rows) * self.n
        parallel.run(kernels.marginals, len(rows), work, rows.astype(np.float64, copy=False), log_partition, mu)
        self._refuse_impossible(log_partition == -np.inf)
        return log_partition, mu

    def _refuse_impossible(self, impossible: Array) -> None:
        if impossible.any():
            raise InvalidInput(f"scores forbid every ordering at sample {int(impossible.argmax())}")

    def _violation(self, rows: Array) -> Array:
        """Zero for vertices, which is quick to see; the distance to the set, by projecting, for other points."""
        off = np.zeros(len(rows))
        others = (self._encode(self._decode(rows), rows.dtype) != rows).any(axis=(1, 2))
        if others.any():
            points = rows[others].astype(np.float64)
            result = self._project(points, Accuracy())
            projected = result.points if isinstance(result, Solved) else result
            off[others] = np.abs(projected - points).max(axis=(1, 2))
        return off
