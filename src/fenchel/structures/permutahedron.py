"""Rankings, by the value of each item's rank."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from math import factorial, prod
from typing import Any, ClassVar

import numpy as np

from .._core import parallel
from .._core.checks import as_float_array
from .._core.errors import InvalidInput
from .._core.types import Array, ArrayLike
from ..kernels import permutahedron as kernels
from .base import Accuracy, Structure

__all__ = ["Permutahedron"]


@dataclass(frozen=True, repr=False)
class Permutahedron(Structure):
    """Rankings of n items, each item written by the weight of its rank: the hull of all permutations of ``weights``.

    An output y is the array of ranks, y[i] = 0 for the best item; φ(y)[i] = weights[y[i]], weights in decreasing order.
    An int n stands for the weights n, ..., 1. argmax sorts; the Euclidean projection sorts and pools adjacent
    violators, O(n log n); so does the KL projection, in the log domain; any nearest vertex sorts. A decomposition has
    at most n vertices, and a draw with a given mean needs n − 1 random transpositions. Gibbs marginals are
    permanents.

    References: Zeng and Figueiredo, "The ordered weighted l1 norm: atomic formulation, projections, and algorithms",
    2014; Lim and Wright, "Efficient Bregman projections onto the permutahedron and related polytopes", 2016; Blondel,
    Teboul, Berthet and Djolonga, "Fast differentiable sorting and ranking", 2020.

    >>> from fenchel.structures import Permutahedron
    >>> Permutahedron(3).encode([0, 2, 1])
    array([3., 1., 2.])
    >>> Permutahedron(3).project([2.6, 2.4, -9.0])
    array([2.6, 2.4, 1. ])
    """

    weights: tuple[float, ...]
    binary: ClassVar[bool] = False
    output_ndim: ClassVar[int] = 1
    can_forbid: ClassVar[bool] = False
    intractable: ClassVar[frozenset[str]] = frozenset({"marginals"})

    def __init__(self, weights: int | ArrayLike) -> None:
        if isinstance(weights, int | np.integer) and not isinstance(weights, bool):
            if weights < 1:
                raise InvalidInput(f"weights is {weights}, expected a number of items >= 1 or the weights themselves")
            values = np.arange(int(weights), 0, -1, dtype=np.float64)
        else:
            values = as_float_array(weights, "weights").astype(np.float64)
        if values.ndim != 1 or len(values) == 0 or not np.isfinite(values).all():
            raise InvalidInput(f"weights are {weights!r}, expected a number of items or a row of finite numbers")
        object.__setattr__(self, "weights", tuple(-np.sort(-values) + 0.0))

    def __repr__(self) -> str:
        n = len(self.weights)
        shown = n if self.weights == tuple(range(n, 0, -1)) else [float(w) for w in self.weights]
        return f"Permutahedron({shown})"

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.weights),)

    @property
    def n_vertices(self) -> int:
        return factorial(len(self.weights)) // prod(factorial(m) for m in Counter(self.weights).values())

    def missing(self) -> Mapping[str, str]:
        absent = {
            "marginals": "sums over all permutations are permanents, which are #P-complete; use kl_project or project"
        }
        if self.weights[-1] < 0:
            absent["kl_project"] = (
                "a weight is negative, where μ log μ is not defined; use project or shift the weights"
            )
        return absent

    def separation(self, p: float = 2) -> float:
        steps = -np.diff(self._w)
        steps = steps[steps > 0]
        return float(2 ** (1 / p) * steps.min()) if len(steps) else np.inf

    def diameter(self, p: float = 2) -> float:
        return float((np.abs(self._w - self._w[::-1]) ** p).sum() ** (1 / p))

    @property
    def max_l1(self) -> float:
        return float(np.abs(self._w).sum())

    @property
    def _w(self) -> Array:
        return np.array(self.weights)

    def center(self, theta: Array) -> Array:
        with np.errstate(invalid="ignore"):  # infinite scores are refused later, by name
            return np.asarray(theta - theta.mean(axis=-1, keepdims=True))

    def _encode(self, outputs: Array, dtype: np.dtype[Any]) -> Array:
        n = len(self.weights)
        if outputs.shape[1:] != (n,):
            raise InvalidInput(f"y has shape {outputs.shape}, but {self!r} needs rows of {n} ranks, 0 for the best")
        ranks = self._check_labels(outputs, n)
        bad = (np.sort(ranks, axis=1) != np.arange(n)).any(axis=1)
        if bad.any():
            i = int(bad.argmax())
            raise InvalidInput(
                f"y is {ranks[i].tolist()} at sample {i}, which is no ranking: each of 0 to {n - 1} once"
            )
        return self._w[ranks].astype(dtype)

    def _decode(self, rows: Array) -> Array:
        return self._ranks(self._order(rows))

    @staticmethod
    def _order(rows: Array) -> Array:
        """Items in decreasing order of score; ties in the order of items."""
        return np.argsort(-rows, axis=-1, kind="stable")

    @staticmethod
    def _ranks(order: Array) -> Array:
        ranks = np.empty_like(order)
        np.put_along_axis(ranks, order, np.broadcast_to(np.arange(order.shape[1]), order.shape), axis=1)
        return ranks

    def _vertices(self) -> Array:
        return np.array(sorted(set(itertools.permutations(self.weights)), reverse=True))

    def _argmax(self, rows: Array) -> Array:
        out = np.empty_like(rows)
        np.put_along_axis(out, self._order(rows), np.broadcast_to(self._w.astype(rows.dtype), rows.shape), axis=1)
        return out

    def _project(self, rows: Array, accuracy: Accuracy) -> Array:
        out = np.empty_like(rows)
        ascending = np.empty_like(rows)
        parallel.run(_sort_values, len(rows), rows.size, rows, ascending)
        if (ascending[:, -1] - ascending[:, 0]).sum() <= len(rows) * (self.weights[0] - self.weights[-1]):
            parallel.run(kernels.project, len(rows), rows.size, rows, ascending, self._w, out)
        else:  # scores farther apart than the weights: most of them are a block of their own
            parallel.run(kernels.project_in_order, len(rows), rows.size, rows, _descending(rows), self._w, out)
        return out

    def _kl_project(self, rows: Array, accuracy: Accuracy) -> Array:
        out = np.empty_like(rows)
        parallel.run(kernels.kl_isotonic, len(rows), rows.size, rows, _descending(rows), self._w, out)
        return out

    def _nearest(self, rows: Array, p: float) -> Array:
        return self._argmax(rows)

    def _decompose(self, rows: Array) -> tuple[Array, Array]:
        n = len(self.weights)
        points = rows.astype(np.float64)
        coefficients, atoms = np.empty((len(rows), n)), np.empty((len(rows), n, n))
        size = float(np.abs(self._w).max())
        parallel.run(kernels.decompose, len(rows), rows.size * n, points, self._w, size, coefficients, atoms)
        return coefficients, atoms

    def _sample(self, rows: Array, rng: np.random.Generator) -> Array:
        points = rows.astype(np.float64)
        out = np.empty_like(points)
        seeds = rng.integers(0, 2**64, size=len(rows), dtype=np.uint64)
        parallel.run(
            kernels.sample, len(rows), rows.size * rows.shape[1], points, self._order(points), self._w, seeds, out
        )
        return out

    def _violation(self, rows: Array) -> Array:
        """The largest excess of the r highest entries over the r highest weights, and the error of the sum."""
        ordered = -np.sort(-rows.astype(np.float64), axis=-1)
        excess = np.cumsum(ordered - self._w, axis=-1)
        return np.maximum(excess.max(axis=-1, initial=0.0), np.abs(excess[:, -1]))


def _sort_values(start: int, stop: int, rows: Array, ascending: Array) -> None:
    ascending[start:stop] = rows[start:stop]
    ascending[start:stop].sort(axis=-1)


def _descending(rows: Array) -> Array:
    """The order of each row from its largest entry down; numpy sorts faster than a compiled loop, and on the pool."""
    order = np.empty(rows.shape, dtype=np.intp)
    parallel.run(_sort_rows, len(rows), rows.size, rows, order)
    return order


def _sort_rows(start: int, stop: int, rows: Array, order: Array) -> None:
    order[start:stop] = np.argsort(rows[start:stop], axis=-1)[:, ::-1]
