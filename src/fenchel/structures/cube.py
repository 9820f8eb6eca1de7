"""Any subset of k labels."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .._core.checks import check_count
from .._core.errors import InvalidInput
from .._core.types import Array
from .base import Accuracy, Structure
from .simplex import negative_entropy

__all__ = ["Cube"]


@dataclass(frozen=True, repr=False)
class Cube(Structure):
    """Any subset of k labels, written as a row of k zeros and ones: the unit cube.

    M = [0, 1]^k. Every oracle works label by label, O(k) a row: projections clip, Gibbs marginals are sigmoids.
    The cube also contains every other 0/1 polytope of its dimension, so it serves as a cheap larger set to project
    on (Blondel, "Structured prediction with projection oracles", 2019, section 4).

    >>> from fenchel.structures import Cube
    >>> Cube(3).project([1.5, 0.25, -2.0])
    array([1.  , 0.25, 0.  ])
    >>> Cube(3).argmax([1.5, 0.0, -2.0])
    array([1., 0., 0.])
    """

    k: int
    output_ndim: ClassVar[int] = 1
    part_coding: ClassVar[str | None] = "entry"

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", check_count(self.k, "k"))

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.k,)

    @property
    def n_vertices(self) -> int:
        return 2**self.k

    def separation(self, p: float = 2) -> float:
        return 1.0

    def diameter(self, p: float = 2) -> float:
        return float(self.k ** (1 / p))

    @property
    def max_l1(self) -> float:
        return float(self.k)

    def gibbs_omega(self, mu: Array) -> Array:
        return (negative_entropy(mu) + negative_entropy(1 - mu)).sum(axis=-1)

    def _encode(self, outputs: Array, dtype: np.dtype[Any]) -> Array:
        if outputs.shape[1:] != (self.k,):
            raise InvalidInput(f"y has shape {outputs.shape}, but {self!r} needs rows of {self.k} zeros and ones")
        if outputs.dtype.kind not in "iubf":
            raise InvalidInput(f"y has type {outputs.dtype}, but {self!r} needs zeros and ones")
        bad = (outputs != 0) & (outputs != 1)
        if bad.any():
            where = tuple(int(i) for i in np.argwhere(bad)[0])
            raise InvalidInput(f"y is {outputs[where]} at sample {where[0]}, label {where[1]}; expected 0 or 1")
        return outputs.astype(dtype)

    def _decode(self, rows: Array) -> Array:
        return (rows > 0.5).astype(np.int64)

    def _vertices(self) -> Array:
        return np.array(list(itertools.product((0.0, 1.0), repeat=self.k)))

    def _argmax(self, rows: Array) -> Array:
        return (rows > 0).astype(rows.dtype)

    def _project(self, rows: Array, accuracy: Accuracy) -> Array:
        return np.clip(rows, 0, 1)

    def _kl_project(self, rows: Array, accuracy: Accuracy) -> Array:
        return np.exp(np.minimum(rows - 1, 0))

    def _marginals(self, rows: Array) -> tuple[Array, Array]:
        e = np.exp(-np.abs(rows))
        mu = np.where(rows >= 0, 1, e) / (1 + e)
        return (np.maximum(rows, 0) + np.log1p(e)).sum(axis=-1, dtype=np.float64), mu

    def _decompose(self, rows: Array) -> tuple[Array, Array]:
        """At most k + 1 nested subsets: the labels with marginal above t, as t goes from one to zero."""
        order = np.argsort(-rows, axis=-1, kind="stable")
        ordered = np.clip(np.take_along_axis(rows, order, axis=-1), 0, 1)
        edges = np.concatenate([np.ones((len(rows), 1)), ordered, np.zeros((len(rows), 1))], axis=1)
        rank = np.argsort(order, axis=-1, kind="stable")
        atoms = rank[:, None, :] < np.arange(self.k + 1)[None, :, None]
        return edges[:, :-1] - edges[:, 1:], atoms.astype(rows.dtype)

    def _sample(self, rows: Array, rng: np.random.Generator) -> Array:
        return (rng.random(rows.shape) < rows).astype(rows.dtype)

    def _violation(self, rows: Array) -> Array:
        return np.maximum(np.maximum(-rows, rows - 1), 0).max(axis=-1, initial=0.0)
