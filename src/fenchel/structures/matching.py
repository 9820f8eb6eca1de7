"""Matchings in which elements may stay without a partner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import comb, factorial
from typing import Any, ClassVar

import numpy as np

from .._core import parallel
from .._core.checks import check_count
from .._core.errors import InvalidInput
from .._core.types import Array, IntArray
from ..kernels import assignment
from ..kernels.matching_game import matching_game, state_size
from .base import Accuracy, Solved, Structure
from .birkhoff import Birkhoff
from .generic import project_by_argmax
from .ragged import Family

__all__ = ["Matching", "Matchings"]

_FLOOR = 1e-7  # below this an error cannot be measured, small as it may be


@dataclass(frozen=True, repr=False)
class Matching(Structure):
    """Partners for n elements among m others, or none: y[i] is the partner of i, −1 for none, and nobody has two.

    φ(y) is an n × (m + 1) matrix with one 1 in each row, in the column of the partner or in the last; M is the set of
    non-negative matrices whose rows sum to one and whose columns but the last to at most one. A score for "nobody
    chooses j" is the same as its negative added to column j. argmax is an assignment problem of max(n, m) elements; the
    Euclidean projection an interior point method, about 5 n m² operations a step, 10 to 15 steps; decompositions and
    draws are those of permutations of n + m.

    >>> import numpy as np
    >>> from fenchel.structures import Matching
    >>> matchings = Matching(2, 2)
    >>> theta = np.array([[2.0, 1.0, 0.0], [1.5, -1.0, 0.0]])
    >>> matchings.decode(matchings.argmax(theta))
    array([1, 0])
    >>> matchings.encode([0, -1])
    array([[1., 0., 0.],
           [0., 0., 1.]])
    """

    n: int
    m: int
    output_ndim: ClassVar[int] = 1
    part_coding: ClassVar[str | None] = "one_hot"
    intractable: ClassVar[frozenset[str]] = frozenset({"marginals"})

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", check_count(self.n, "n"))
        object.__setattr__(self, "m", check_count(self.m, "m"))

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.n, self.m + 1)

    @property
    def n_vertices(self) -> int:
        return sum(comb(self.n, k) * comb(self.m, k) * factorial(k) for k in range(min(self.n, self.m) + 1))

    def missing(self) -> Mapping[str, str]:
        return {
            "kl_project": "there is no algorithm for columns that sum to at most one here yet; use project",
            "marginals": "sums over all matchings are #P-complete; use project, or for a few elements the loss "
            "CRF(structure, enumerated=True)",
        }

    def separation(self, p: float = 2) -> float:
        return float(2 ** (1 / p))

    def diameter(self, p: float = 2) -> float:
        return float((2 * min(self.n, 2 * self.m)) ** (1 / p))

    @property
    def max_l1(self) -> float:
        return float(self.n)

    def center(self, theta: Array) -> Array:
        """Row maxima become zero."""
        top = theta.max(axis=-1, keepdims=True)
        return theta - np.where(np.isfinite(top), top, 0)

    # -- outputs -------------------------------------------------------------------------------------------------------

    def _encode(self, outputs: Array, dtype: np.dtype[Any]) -> Array:
        if outputs.shape[1:] != (self.n,):
            raise InvalidInput(f"y has shape {outputs.shape}, but {self!r} needs rows of {self.n} whole numbers")
        partners = outputs
        if outputs.dtype.kind not in "iu" and outputs.size:
            if outputs.dtype.kind != "f" or np.any(outputs != np.floor(outputs)):
                raise InvalidInput(
                    f"outputs of {self!r} are whole numbers from -1 to {self.m - 1}, got {outputs.dtype}"
                )
            partners = outputs.astype(np.int64)
        bad = ((partners < -1) | (partners >= self.m)).any(axis=1)
        if bad.any():
            i = int(bad.argmax())
            raise InvalidInput(
                f"y is {partners[i].tolist()} at sample {i}, but partners in {self!r} go from 0 to {self.m - 1}, or -1"
            )
        order = np.sort(partners, axis=1)
        twice = ((order[:, 1:] == order[:, :-1]) & (order[:, 1:] >= 0)).any(axis=1)
        if twice.any():
            i = int(twice.argmax())
            raise InvalidInput(f"y is {partners[i].tolist()} at sample {i}, which gives one element two partners")
        return self._matrices(np.where(partners < 0, self.m, partners), dtype)

    def _matrices(self, columns: Array, dtype: np.dtype[Any]) -> Array:
        out = np.zeros((*columns.shape, self.m + 1), dtype)
        out.reshape(columns.size, self.m + 1)[np.arange(columns.size), columns.ravel()] = 1
        return out

    def _decode(self, rows: Array) -> Array:
        columns = rows.argmax(axis=-1)
        columns[columns == self.m] = -1
        order = np.sort(columns, axis=1)
        twice = ((order[:, 1:] == order[:, :-1]) & (order[:, 1:] >= 0)).any(axis=1)
        columns[twice] = -1  # no matching: decode notices that it does not encode to the same
        return columns

    def _columns(self) -> IntArray:
        """The columns of all matchings, in the order of the outputs with none as the last."""
        found: list[tuple[int, ...]] = [()]
        for _ in range(self.n):
            found = [(*head, j) for head in found for j in range(self.m + 1) if j == self.m or j not in head]
        return np.array(found)

    def _vertices(self) -> Array:
        return self._matrices(self._columns(), np.dtype(np.float64))

    # -- oracles -------------------------------------------------------------------------------------------------------

    def _argmax(self, rows: Array) -> Array:
        alone = rows[:, :, self.m].astype(np.float64)
        count, size = len(rows), max(self.n, self.m)
        forced = bool((alone == -np.inf).any())
        if forced:  # some element must have a partner: each gets a column of its own for having none
            size = self.n + self.m
            gains = np.zeros((count, size, size))
            gains[:, : self.n, : self.m] = rows[:, :, : self.m]
            gains[:, : self.n, self.m :] = alone[:, :, None]
        else:
            gains = np.zeros((count, size, size))
            np.maximum(rows[:, :, : self.m] - alone[:, :, None], 0, out=gains[:, : self.n, : self.m])
        columns, status = np.empty((count, size), np.int64), np.empty(count, np.int64)
        parallel.run(assignment.solve, count, float(gains.size * size), gains, columns, status)
        if (status == 1).any():
            raise InvalidInput(f"scores forbid every matching at sample {int((status == 1).argmax())}")
        chosen = np.minimum(columns[:, : self.n], self.m)
        if not forced:
            own = np.take_along_axis(gains[:, : self.n], columns[:, : self.n, None], axis=2)[:, :, 0]
            chosen[own <= 0] = self.m
        return self._matrices(chosen, rows.dtype)

    def _project(self, rows: Array, accuracy: Accuracy) -> Solved:
        tol = accuracy.tol or (1e-9 if rows.dtype == np.float64 else 1e-6)
        count, width = len(rows), self.m + 1
        scores = np.ascontiguousarray(self.center(rows.astype(np.float64)))
        out, error, n_iter = np.empty(scores.shape), np.empty(count), np.empty(count, np.int64)
        parallel.run(
            matching_game, count, float(rows.size * width), scores, True, 1.0, np.zeros(width),
            np.full(count, 0.5 * tol * tol), accuracy.max_iter or 100, np.zeros((count, state_size(self.n, width))),
            np.zeros(count, bool), out, np.empty(scores.shape), np.empty(count), np.empty(count), error, n_iter,
        )  # fmt: skip
        # the squared distance to the projection is at most twice the gap, of which rounding hides the last 1e-15
        error = np.sqrt(2 * error)
        solved = Solved(out, error, n_iter, error <= max(tol, _FLOOR))
        off = np.flatnonzero(~solved.converged | (scores[:, :, self.m] == -np.inf).any(axis=1))
        if len(off):
            again = project_by_argmax(self, rows[off], accuracy)
            out[off], error[off], n_iter[off] = again.points, again.error, again.n_iter
            solved.converged[off] = again.converged
        return solved

    def _as_permutations(self, rows: Array) -> Array:
        """Points of permutations of n + m: [Q, diag(none); diag(not chosen), Qᵀ], whose first rows are this matching."""
        n, m = self.n, self.m
        points = np.maximum(rows.astype(np.float64), 0)
        pairs = points[:, :, :m]
        out = np.zeros((len(rows), n + m, n + m))
        out[:, :n, :m] = pairs
        out[:, n:, m:] = pairs.transpose(0, 2, 1)
        out[:, np.arange(n), m + np.arange(n)] = points[:, :, m]
        out[:, n + np.arange(m), np.arange(m)] = np.maximum(1 - pairs.sum(axis=1), 0)
        return out

    def _from_permutations(self, vertices: Array) -> Array:
        columns = vertices[..., : self.n, :].argmax(axis=-1)
        return self._matrices(np.minimum(columns, self.m), vertices.dtype)

    def _decompose(self, rows: Array) -> tuple[Array, Array]:
        weights, vertices = Birkhoff(self.n + self.m)._decompose(self._as_permutations(rows))
        return weights, self._from_permutations(vertices)

    def _sample(self, rows: Array, rng: np.random.Generator) -> Array:
        drawn = Birkhoff(self.n + self.m)._sample(self._as_permutations(rows), rng)
        return self._from_permutations(drawn).astype(rows.dtype, copy=False)

    def _violation(self, rows: Array) -> Array:
        off = np.maximum(-rows, 0).max(axis=(1, 2), initial=0.0)
        off = np.maximum(off, np.abs(rows.sum(axis=2, dtype=np.float64) - 1).max(axis=1, initial=0.0))
        return np.maximum(off, (rows[:, :, : self.m].sum(axis=1, dtype=np.float64) - 1).max(axis=1, initial=0.0))


@dataclass(frozen=True, repr=False)
class Matchings(Family):
    """Matchings of any sizes, squared: an item with k (k + 1) scores is one of :class:`Matching` (k, k).

    Of n elements and m others k is the larger; scores of −inf forbid partners to elements that are only there to make
    up the square, and them to others.

    >>> import numpy as np
    >>> from fenchel.structures import Matchings
    >>> matchings = Matchings()
    >>> matchings.decode(matchings.argmax([np.array([[1.0, 2.0, 0.0], [-1.0, 3.0, 0.0]]), np.array([[-1.0, 0.0]])]))
    [array([0, 1]), array([-1])]
    """

    def member(self, size: int) -> Matching:
        k = round(((4 * size + 1) ** 0.5 - 1) / 2)
        if k * (k + 1) != size or size == 0:
            raise InvalidInput(f"there are {size} scores, but an item of {self!r} is a table of k x (k + 1)")
        return Matching(k, k)

    def member_of(self, y: Any) -> Matching:
        return Matching(len(y), len(y))

    @property
    def examples(self) -> tuple[Matching, ...]:
        return Matching(2, 2), Matching(1, 1), Matching(3, 3)
