"""Scores of label sequences, linear in features of positions and of pairs of neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.errors import InvalidInput
from .._core.ragged import Ragged, offsets_of
from .._core.types import Array, ArrayLike, IntArray
from ..structures.chain import Chains
from .base import Index, Scorer
from .linear import Linear

__all__ = ["LinearChain"]


class LinearChain(Scorer):
    """θ of each sequence: x_tᵀ W for the node of position t, and for each pair of neighbours a table of edge scores.

    ``X`` holds the features of all positions, sequence after sequence: a dense array or a SciPy sparse matrix, which stays
    sparse. Without ``pairs`` there is one table of transition weights for all pairs (tied weights; on tied chains it is
    never written out per pair). With ``pairs``, features z of each pair of neighbours, sequence after sequence, the table
    of a pair is Σ_f z_f V_f: weights for each feature and transition. Weights are one vector: W row by row, then the table
    or the tables V_f. ``forbidden=(first, transitions)`` are boolean masks of labels that no sequence may begin with, and
    of pairs (before, after) that may not follow each other: their scores are -inf.

    Costs one product with X, and O(labels²) for each pair.

    >>> import numpy as np
    >>> from fenchel.scorers import LinearChain
    >>> from fenchel.structures import Chains
    >>> X = np.array([[1.0], [2.0], [3.0]])  # a sequence of two positions and one of one
    >>> scorer = LinearChain(X, [2, 1], Chains(2, tied=True))
    >>> theta = scorer.scores(np.array([1.0, -1.0, 0.5, 0.0, 0.0, 0.5]))
    >>> theta[0]
    array([ 1. , -1. ,  2. , -2. ,  0.5,  0. ,  0. ,  0.5])
    """

    def __init__(
        self,
        X: Any,
        lengths: ArrayLike,
        structure: Chains,
        *,
        pairs: Any = None,
        intercept_scaling: float | None = None,
        forbidden: tuple[ArrayLike, ArrayLike] | None = None,
    ) -> None:
        self.structure = structure
        self.lengths = np.asarray(lengths, dtype=np.int64)
        self.rows = Ragged(np.zeros(0), offsets_of(self.lengths))
        self.pair_rows = Ragged(np.zeros(0), offsets_of(np.maximum(self.lengths - 1, 0)))
        k = structure.labels
        self.nodes = Linear(X, (k,), intercept_scaling=intercept_scaling)
        if self.nodes.n_examples != self.rows.offsets[-1]:
            raise InvalidInput(f"X has {self.nodes.n_examples} rows, but the lengths add up to {self.rows.offsets[-1]}")
        self.pairs = None if pairs is None else Linear(pairs, (k, k))
        if self.pairs is not None:
            if structure.tied:
                raise InvalidInput(
                    f"{structure!r} has one table of edges per sequence, but pairs have features of their own"
                )
            if self.pairs.n_examples != self.pair_rows.offsets[-1]:
                raise InvalidInput(
                    f"pairs has {self.pairs.n_examples} rows, but there are {self.pair_rows.offsets[-1]} pairs of neighbours"
                )
        self.first = self.barred = None
        if forbidden is not None:
            self.first = _mask(forbidden[0], (k,), "forbidden[0]")
            self.barred = _mask(forbidden[1], (k, k), "forbidden[1]")

    @property
    def n_examples(self) -> int:
        return len(self.lengths)

    @property
    def weights_shape(self) -> tuple[int, ...]:
        k = self.structure.labels
        n_tables = 1 if self.pairs is None else self.pairs.weights_shape[0]
        return (self.nodes.weights_shape[0] * k + n_tables * k * k,)

    def split(self, w: Array) -> tuple[Array, Array]:
        """The weights as (features, labels), and as a table of transitions or one for each feature of pairs. Views."""
        k = self.structure.labels
        cut = self.nodes.weights_shape[0] * k
        return w[:cut].reshape(-1, k), w[cut:].reshape((k, k) if self.pairs is None else (-1, k, k))

    def scores(self, w: Array, idx: Index = None) -> Any:
        k = self.structure.labels
        lengths, positions, places = self._where(idx)
        nodes, tables = self.split(w)
        theta = np.asarray(self.nodes.scores(nodes, positions), dtype=np.float64)
        if self.pairs is not None:
            tables = np.asarray(self.pairs.scores(tables.reshape(-1, k * k), places), dtype=np.float64)
        if self.first is not None:
            starts = offsets_of(lengths)[:-1][lengths > 0]
            theta[starts] += self.first
            tables = tables + self.barred
        return self.structure.assemble(lengths, theta, tables)

    def adjoint(self, residual: Any, idx: Index = None) -> Array:
        k = self.structure.labels
        _, positions, places = self._where(idx)
        nodes = self.nodes.adjoint(self.structure.position_marginals(residual), positions)
        if self.pairs is None:
            edges = self.structure.edge_sum(residual)
        else:
            edges = self.pairs.adjoint(self.structure.edge_rows(residual).reshape(-1, k * k), places)
        return np.concatenate([nodes.ravel(), edges.ravel()])

    def quadratic(self, direction: Any, idx: Index = None) -> Array:
        items = np.arange(self.n_examples) if idx is None else np.arange(self.n_examples)[idx]
        squares = np.empty(len(items))
        for a, i in enumerate(items):
            move = self.adjoint(direction[a : a + 1], np.array([i]))
            squares[a] = move @ move
        return squares

    def _where(self, idx: Index) -> tuple[IntArray, Any, Any]:
        """Lengths, positions and pairs of some sequences; all of them need no index."""
        if idx is None:
            return self.lengths, None, None
        items = np.arange(self.n_examples)[idx]
        pairs = self.pair_rows.places(items) if self.pairs is not None else None
        return self.lengths[items], self.rows.places(items), pairs


def _mask(value: ArrayLike, shape: tuple[int, ...], name: str) -> Array:
    """-inf where the mask is true, and else zero: what is added to scores."""
    mask = np.asarray(value)
    if mask.shape != shape or mask.dtype != bool:
        raise InvalidInput(f"{name} has shape {mask.shape} and type {mask.dtype}, expected booleans of shape {shape}")
    return np.where(mask, -np.inf, 0.0)
