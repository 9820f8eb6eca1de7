"""Scores of label sequences, linear in features of positions and of pairs of neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core import parallel
from .._core.errors import InvalidInput
from .._core.ragged import Ragged, offsets_of
from .._core.types import Array, ArrayLike, IntArray
from ..kernels import chain as kernels
from ..structures.chain import Chains
from .base import Index, Scorer
from .cells import LinearCells
from .linear import Linear

__all__ = ["LinearChain"]


class LinearChain(Scorer):
    """θ of each sequence: x_tᵀ W for the node of position t, and for each pair of neighbours a table of edge scores.

    ``X`` holds the features of all positions, sequence after sequence: a dense array or a SciPy sparse matrix, which stays
    sparse. Without ``pairs`` there is one table of transition weights for all pairs (tied weights; on tied chains it is
    never written out per pair). With ``pairs``, features z of each pair of neighbours, sequence after sequence, the table
    of a pair is Σ_f z_f V_f: weights for each feature and transition. With ``basis``, fixed tables B_m, the one table is
    Σ_m w_m B_m. Weights are one vector: W row by row, then the table, the tables V_f, or the w_m.
    ``forbidden=(first, transitions)`` are boolean masks of labels that no sequence may begin with, and of pairs
    (before, after) that may not follow each other: their scores are -inf. ``cells`` are the features and labels that have
    weights (:class:`~fenchel.scorers.cells.LinearCells`), for sparse X.

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
        basis: ArrayLike | None = None,
        cells: ArrayLike | None = None,
        intercept_scaling: float | None = None,
        forbidden: tuple[ArrayLike, ArrayLike] | None = None,
    ) -> None:
        self.structure = structure
        self.lengths = np.asarray(lengths, dtype=np.int64)
        self.rows = Ragged(np.zeros(0), offsets_of(self.lengths))
        self.pair_rows = Ragged(np.zeros(0), offsets_of(np.maximum(self.lengths - 1, 0)))
        k = structure.labels
        if cells is None:
            self.nodes = Linear(X, (k,), intercept_scaling=intercept_scaling)
        else:
            self.nodes = LinearCells(X, (k,), cells, intercept_scaling=intercept_scaling)
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
        self.basis = None if basis is None else np.asarray(basis, dtype=np.float64)
        if self.basis is not None:
            if pairs is not None:
                raise InvalidInput("pairs and basis are both given; a table of edges is made of one or the other")
            if self.basis.shape[1:] != (k, k) or not np.isfinite(self.basis).all():
                raise InvalidInput(f"basis has shape {self.basis.shape}, expected (m, {k}, {k}) finite numbers")
        self.forbidden = forbidden
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
        if self.basis is not None:
            n_edges = len(self.basis)
        else:
            n_edges = k * k * (1 if self.pairs is None else self.pairs.weights_shape[0])
        return (self._cut + n_edges,)

    @property
    def _cut(self) -> int:
        """How many weights positions have."""
        return int(np.prod(self.nodes.weights_shape))

    def split(self, w: Array) -> tuple[Array, Array]:
        """The weights as (features, labels), and those of edges: one table, one for each feature of pairs, or the w_m."""
        nodes = w[: self._cut]
        full = (
            nodes.reshape(-1, self.structure.labels)
            if not isinstance(self.nodes, LinearCells)
            else self.nodes.matrix(nodes)
        )
        return full, self._edges(w)

    def _edges(self, w: Array) -> Array:
        k = self.structure.labels
        edges = w[self._cut :]
        if self.basis is None:
            edges = edges.reshape((k, k) if self.pairs is None else (-1, k, k))
        return edges

    def table(self, w: Array) -> Array:
        """The one table of transition scores, -inf where they are forbidden; not with features of pairs."""
        tables = self._edges(w)
        if self.basis is not None:
            tables = np.tensordot(tables, self.basis, axes=1)
        return tables if self.barred is None else tables + self.barred

    def take(self, idx: Any) -> LinearChain:
        lengths, positions, places = self._where(idx)
        return LinearChain(
            self.nodes.X[positions],
            lengths,
            self.structure,
            pairs=None if self.pairs is None else self.pairs.X[places],
            basis=self.basis,
            cells=self.nodes.cells if isinstance(self.nodes, LinearCells) else None,
            intercept_scaling=self.nodes.intercept_scaling,
            forbidden=self.forbidden,
        )

    def scores(self, w: Array, idx: Index = None) -> Any:
        k = self.structure.labels
        lengths, positions, places = self._where(idx)
        theta = np.asarray(self.nodes.scores(w[: self._cut].reshape(self.nodes.weights_shape), positions), np.float64)
        if self.pairs is None:
            tables = self.table(w)
        else:
            tables = np.asarray(self.pairs.scores(self._edges(w).reshape(-1, k * k), places), dtype=np.float64)
            if self.barred is not None:
                tables = tables + self.barred.reshape(-1)
        if self.first is not None:
            starts = offsets_of(lengths)[:-1][lengths > 0]
            theta[starts] += self.first
        return self.structure.assemble(lengths, theta, tables)

    def adjoint(self, residual: Any, idx: Index = None) -> Array:
        k = self.structure.labels
        _, positions, places = self._where(idx)
        nodes = self.nodes.adjoint(self.structure.position_marginals(residual), positions)
        if self.pairs is not None:
            edges = self.pairs.adjoint(self.structure.edge_rows(residual).reshape(-1, k * k), places)
        else:
            edges = self.structure.edge_sum(residual)
            if self.basis is not None:
                edges = np.tensordot(self.basis, edges, axes=2)
        return np.concatenate([nodes.ravel(), edges.ravel()])

    def quadratic(self, direction: Any, idx: Index = None) -> Array:
        k = self.structure.labels
        lengths, positions, places = self._where(idx)
        squares = _squares_of_items(self.nodes, positions, self.structure.position_marginals(direction), lengths)
        if self.pairs is not None:
            edges = self.structure.edge_rows(direction).reshape(-1, k * k)
            return squares + _squares_of_items(self.pairs, places, edges, np.maximum(lengths - 1, 0))
        tables = self.structure.edge_sums(direction)
        if self.basis is not None:
            tables = np.tensordot(tables, self.basis, axes=([1, 2], [1, 2]))
        flat = tables.reshape(len(tables), -1)
        return squares + np.einsum("ij,ij->i", flat, flat)

    def _where(self, idx: Index) -> tuple[IntArray, Any, Any]:
        """Lengths, positions and pairs of some sequences; all of them need no index."""
        if idx is None:
            return self.lengths, None, None
        if isinstance(idx, slice) and idx.step in (None, 1):  # rows that follow each other need no copy
            start, stop, _ = idx.indices(self.n_examples)
            stop = max(start, stop)
            cut = slice(int(self.rows.offsets[start]), int(self.rows.offsets[stop]))
            pair_cut = slice(int(self.pair_rows.offsets[start]), int(self.pair_rows.offsets[stop]))
            return self.lengths[start:stop], cut, pair_cut
        items = np.arange(self.n_examples)[idx]
        pairs = self.pair_rows.places(items) if self.pairs is not None else None
        return self.lengths[items], self.rows.places(items), pairs


def _squares_of_items(linear: Linear, rows: Any, values: Array, lengths: IntArray) -> Array:
    """‖X_iᵀ D_i‖² of each item, X_i and D_i being its rows; one product for the whole block."""
    X = linear.X if rows is None else linear.X[rows]
    item = np.repeat(np.arange(len(lengths)), lengths)
    out = np.zeros(len(lengths))
    if linear.sparse:
        # the columns that an item uses, item after item, as the columns of one matrix
        coo = X.tocoo()
        used, column = np.unique(item[coo.row] * X.shape[1] + coo.col, return_inverse=True)
        own = type(X)((coo.data, (coo.row, column)), shape=(X.shape[0], len(used)))
        sums = own.T @ values
        if isinstance(linear, LinearCells):
            sums *= linear.mask()[used % X.shape[1]]
        out += np.bincount(used // max(X.shape[1], 1), np.einsum("ij,ij->i", sums, sums), minlength=len(lengths))
    else:
        offsets, X = offsets_of(lengths), np.ascontiguousarray(X, dtype=np.float64)
        parallel.run(
            kernels.squares_of_products, len(lengths), float(X.size) * values.shape[1], X, values, offsets, out
        )
    if linear.intercept_scaling is not None:
        totals = np.zeros((len(lengths), values.shape[1]))
        np.add.at(totals, item, values)
        out += linear.intercept_scaling**2 * np.einsum("ij,ij->i", totals, totals)
    return out


def _mask(value: ArrayLike, shape: tuple[int, ...], name: str) -> Array:
    """-inf where the mask is true, and else zero: what is added to scores."""
    mask = np.asarray(value)
    if mask.shape != shape or mask.dtype != bool:
        raise InvalidInput(f"{name} has shape {mask.shape} and type {mask.dtype}, expected booleans of shape {shape}")
    return np.where(mask, -np.inf, 0.0)
