"""Several independent outputs of one structure."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from .._core.checks import check_count, check_no_nan
from .._core.errors import InvalidInput
from .._core.types import Array
from .base import Accuracy, Solved, Structure

__all__ = ["Product"]

T = TypeVar("T")


@dataclass(frozen=True, repr=False)
class Product(Structure):
    """``times`` independent outputs of one structure, stacked along a new first axis.

    M = C × ... × C. Every oracle works factor by factor, so ``Product(Simplex(k), k)`` is the set of row-stochastic
    matrices.

    >>> from fenchel.structures import Product, Simplex
    >>> Product(Simplex(3), 2).encode([2, 0])
    array([[0., 0., 1.],
           [1., 0., 0.]])
    """

    structure: Structure
    times: int

    def __post_init__(self) -> None:
        if not isinstance(self.structure, Structure):
            raise InvalidInput(f"structure is {self.structure!r}, expected a structure such as Simplex(3)")
        object.__setattr__(self, "times", check_count(self.times, "times"))

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.times, *self.structure.shape)

    @property
    def binary(self) -> bool:  # type: ignore[override]
        return self.structure.binary

    @property
    def bounded(self) -> bool:  # type: ignore[override]
        return self.structure.bounded

    @property
    def checks_scores(self) -> bool:  # type: ignore[override]
        return self.structure.checks_scores

    @property
    def part_coding(self) -> str | None:  # type: ignore[override]
        coding = self.structure.part_coding
        return None if coding == "labels" else coding  # positions are those of one sequence

    @property
    def can_forbid(self) -> bool:  # type: ignore[override]
        return self.structure.can_forbid

    @property
    def output_ndim(self) -> int:  # type: ignore[override]
        return 1 + self.structure.output_ndim

    @property
    def n_vertices(self) -> int | None:
        n = self.structure.n_vertices
        return None if n is None else n**self.times

    def missing(self) -> Mapping[str, str]:
        return self.structure.missing()

    def separation(self, p: float = 2) -> float:
        return self.structure.separation(p)

    def diameter(self, p: float = 2) -> float:
        return float(self.times ** (1 / p)) * self.structure.diameter(p)

    @property
    def max_l1(self) -> float:
        return self.times * self.structure.max_l1

    def center(self, theta: Array) -> Array:
        return self._factor(len(theta)).center(self._split(theta)).reshape(theta.shape)

    def gibbs_omega(self, mu: Array) -> Array:
        return self._factor(len(mu)).gibbs_omega(self._split(mu)).reshape(len(mu), self.times).sum(axis=1)

    def fenchel_young(self, psi: str, theta: Array, v: Array, strength: float) -> tuple[Array, Array] | None:
        fused = self._factors(lambda s, parts: s.fenchel_young(psi, parts, self._split(v), strength), theta)
        if fused is None:
            return None
        return fused[0].reshape(len(theta), self.times).sum(axis=1), fused[1].reshape(theta.shape)

    def _factors(self, oracle: Callable[[Structure, Array], T], rows: Array) -> T:
        """The oracle on all factors at once; its complaint is put in terms of this structure's samples."""
        try:
            return oracle(self._factor(len(rows)), self._split(rows))
        except InvalidInput as error:
            check_no_nan(rows, "scores", self, forbid_parts=self.can_forbid)
            for i in range(len(rows)):
                if np.all(rows[i].reshape(self.times, -1) == -np.inf, axis=1).any():
                    raise InvalidInput(f"scores forbid every output of a factor of {self!r} at sample {i}") from error
            raise

    def take(self, idx: Any) -> Product:
        taken = self.structure.take(idx)
        return self if taken is self.structure else Product(taken, self.times)

    def _factor(self, n: int) -> Structure:
        """The structure of all factors of n items; where items differ, the factors of an item are like it."""
        if type(self.structure).take is Structure.take:
            return self.structure
        return self.structure.take(np.repeat(np.arange(n), self.times))

    def _split(self, rows: Array) -> Array:
        return rows.reshape(len(rows) * self.times, *self.structure.shape)

    def _join(self, rows: Array) -> Array:
        return rows.reshape(len(rows) // self.times, self.times, *rows.shape[1:])

    def _encode(self, outputs: Array, dtype: np.dtype[Any]) -> Array:
        if outputs.ndim < 2 or outputs.shape[1] != self.times:
            raise InvalidInput(f"y has shape {outputs.shape}, but an output of {self!r} has {self.times} parts")
        parts = outputs.reshape(len(outputs) * self.times, *outputs.shape[2:])
        return self._join(self._factor(len(outputs))._encode(parts, dtype))

    def _decode(self, rows: Array) -> Array:
        return self._join(self._factor(len(rows))._decode(self._split(rows)))

    def _vertices(self) -> Array:
        inner = self.structure._vertices()
        return np.array([inner[list(choice)] for choice in itertools.product(range(len(inner)), repeat=self.times)])

    def _argmax(self, rows: Array) -> Array:
        return self._join(self._factors(lambda s, parts: s._argmax(parts), rows))

    def _project(self, rows: Array, accuracy: Accuracy) -> Array | Solved:
        return self._join_solved(self._factors(lambda s, parts: s._project(parts, accuracy), rows))

    def _kl_project(self, rows: Array, accuracy: Accuracy) -> Array | Solved:
        return self._join_solved(self._factors(lambda s, parts: s._kl_project(parts, accuracy), rows))

    def _join_solved(self, result: Array | Solved) -> Array | Solved:
        if not isinstance(result, Solved):
            return self._join(result)
        return Solved(
            points=self._join(result.points),
            error=self._join(result.error).sum(axis=1),
            n_iter=self._join(result.n_iter).max(axis=1),
            converged=np.asarray(self._join(result.converged).all(axis=1)),
        )

    def _marginals(self, rows: Array) -> tuple[Array, Array]:
        log_partition, mu = self._factors(lambda s, parts: s._marginals(parts), rows)
        return self._join(log_partition).sum(axis=1), self._join(mu)

    def _nearest(self, rows: Array, p: float) -> Array:
        return self._join(self._factor(len(rows))._nearest(self._split(rows), p))

    def _sample(self, rows: Array, rng: np.random.Generator) -> Array:
        return self._join(self._factor(len(rows))._sample(self._split(rows), rng))

    def _decompose(self, rows: Array) -> tuple[Array, Array]:
        """Walk the factors' cumulative weights together: at most the sum of their numbers of vertices."""
        weights, atoms = self._factor(len(rows))._decompose(self._split(rows))
        weights = weights.reshape(len(rows), self.times, weights.shape[1])
        weights = weights / weights.sum(axis=-1, keepdims=True)
        atoms = atoms.reshape(len(rows), self.times, weights.shape[2], *self.structure.shape)
        ends = np.cumsum(weights, axis=-1)
        ends[..., -1] = 1
        edges = np.sort(ends.reshape(len(rows), self.times * weights.shape[2]), axis=-1)
        starts = np.concatenate([np.zeros((len(rows), 1)), edges[:, :-1]], axis=1)
        middles = (starts + edges) / 2
        which = (ends[:, :, None, :] <= middles[:, None, :, None]).sum(axis=-1)  # (row, factor, piece)
        which = np.minimum(which, weights.shape[-1] - 1)
        index = which.reshape(which.shape + (1,) * len(self.structure.shape))
        chosen = np.take_along_axis(atoms, index, axis=2)
        return edges - starts, np.moveaxis(chosen, 1, 2)

    def _violation(self, rows: Array) -> Array:
        return self._join(self._factor(len(rows))._violation(self._split(rows))).max(axis=1)
