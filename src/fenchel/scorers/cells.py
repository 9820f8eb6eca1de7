"""Scores linear in sparse rows, with weights for some features and labels only."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core import parallel
from .._core.errors import InvalidInput
from .._core.types import Array, ArrayLike, IntArray
from ..kernels import cells as kernels
from .base import Index
from .linear import Linear

__all__ = ["LinearCells", "cells_met"]

# Gradients are added up in at most this many blocks of rows, so that sums do not depend on threads.
_BLOCKS = 4
_LEAST_ROWS = 4000


class LinearCells(Linear):
    """θ_i = Wᵀ x_i for sparse rows x_i, where W has weights in the given cells (feature · labels + label) and else zeros.

    What CRFsuite learns by default: a feature has weights for the labels it was met with, which is few of them for most
    words. Weights are one vector, a number for each cell in increasing order and then the intercept of each label. A
    product costs O(non-zeros · labels met with each).

    >>> import numpy as np
    >>> from scipy.sparse import csr_matrix
    >>> from fenchel.scorers.cells import LinearCells
    >>> scorer = LinearCells(csr_matrix([[1.0, 2.0]]), (3,), [0, 4, 5])
    >>> scorer.scores(np.array([1.0, 10.0, 100.0]))
    array([[  1.,  20., 200.]])
    """

    def __init__(
        self, X: Any, shape: tuple[int, ...], cells: ArrayLike, *, intercept_scaling: float | None = None
    ) -> None:
        super().__init__(X, shape, intercept_scaling=intercept_scaling)
        if not self.sparse:
            raise InvalidInput("weights for some cells only are for sparse features; X is a dense array")
        self.X.sort_indices()
        k = self.n_scores
        self.cells: IntArray = np.asarray(cells, dtype=np.int64)
        d = self.X.shape[1]
        ordered = self.cells.ndim == 1 and (np.diff(self.cells) > 0).all()
        if not ordered or (len(self.cells) and not 0 <= self.cells[0] <= self.cells[-1] < d * k):
            raise InvalidInput(f"cells must be increasing numbers from 0 to {d * k - 1} (feature · {k} + label)")
        self._labels = (self.cells % k).astype(np.int32)
        self._starts = np.searchsorted(self.cells, np.arange(d + 1) * k).astype(np.int32)

    @property
    def weights_shape(self) -> tuple[int, ...]:
        return (len(self.cells) + (self.n_scores if self.intercept_scaling is not None else 0),)

    def matrix(self, w: Array) -> Array:
        """The weights as (features [+ 1], labels)."""
        d, k = self.X.shape[1], self.n_scores
        full = np.zeros((d + (self.intercept_scaling is not None)) * k)
        full[self.cells] = w[: len(self.cells)]
        full[d * k :] = w[len(self.cells) :]
        return full.reshape(-1, k)

    def mask(self) -> Array:
        """Which features have a weight for which label."""
        met = np.zeros(self.X.shape[1] * self.n_scores, dtype=bool)
        met[self.cells] = True
        return met.reshape(-1, self.n_scores)

    def take(self, idx: Any) -> LinearCells:
        return LinearCells(self.X[idx], self.shape, self.cells, intercept_scaling=self.intercept_scaling)

    def scores(self, w: Array, idx: Index = None) -> Array:
        ends, columns, values = self._csr(idx)
        w = np.ascontiguousarray(w, dtype=np.float64)
        theta = np.zeros((len(ends) - 1, self.n_scores))
        if self.intercept_scaling is not None:
            theta += self.intercept_scaling * w[len(self.cells) :]
        work = float(ends[-1] - ends[0])
        parallel.run(kernels.cell_scores, len(theta), work, ends, columns, values, self._starts, self._labels, w, theta)
        return theta.reshape(len(theta), *self.shape)

    def adjoint(self, residual: Array, idx: Index = None) -> Array:
        ends, columns, values = self._csr(idx)
        flat = np.ascontiguousarray(residual.reshape(len(residual), self.n_scores), dtype=np.float64)
        n_blocks = int(np.clip(len(flat) // _LEAST_ROWS, 1, _BLOCKS))
        block = -(-len(flat) // n_blocks) if len(flat) else 1
        parts = np.zeros((n_blocks, len(self.cells)))
        work = float(ends[-1] - ends[0])
        parallel.run(
            kernels.cell_adjoint, n_blocks, work, ends, columns, values, self._starts, self._labels, flat, block, parts
        )
        gradient = parts.sum(axis=0) if n_blocks > 1 else parts[0]
        if self.intercept_scaling is None:
            return gradient
        return np.concatenate([gradient, self.intercept_scaling * flat.sum(axis=0)])

    def _csr(self, idx: Index) -> tuple[IntArray, IntArray, Array]:
        """Where rows end, their columns and values; of rows that follow each other without a copy."""
        if isinstance(idx, slice) and idx.step in (None, 1):
            start, stop, _ = idx.indices(self.X.shape[0])
            rows, ends = self.X, self.X.indptr[start : max(start, stop) + 1]
        else:
            rows = self._rows(idx)
            ends = rows.indptr
        index = np.int32 if rows.nnz < 2**31 else np.int64
        return ends.astype(index, copy=False), rows.indices.astype(index, copy=False), rows.data

    def gram(self, p: Array | float) -> Array | None:
        return None

    def quadratic(self, direction: Array, idx: Index = None) -> Array:
        rows = self._rows(idx)
        flat = direction.reshape(len(direction), self.n_scores)
        coo = rows.tocoo()
        products = (coo.data[:, None] * flat[coo.row]) ** 2 * self.mask()[coo.col]
        squares = np.bincount(coo.row, products.sum(axis=1), minlength=len(flat))
        if self.intercept_scaling is not None:
            squares += self.intercept_scaling**2 * np.einsum("ij,ij->i", flat, flat)
        return np.asarray(squares)


def cells_met(X: Any, labels: IntArray, k: int) -> IntArray:
    """The cells (feature · k + label) of the features of each row of X, a CSR matrix, with the label of that row."""
    met = np.zeros(X.shape[1] * k, dtype=bool)
    for start in range(0, X.shape[0], _LEAST_ROWS):  # little by little, for cells are larger numbers than columns
        ends = X.indptr[start : start + _LEAST_ROWS + 1]
        place = slice(int(ends[0]), int(ends[-1]))
        label = np.repeat(labels[start : start + _LEAST_ROWS], np.diff(ends))
        met[(X.indices[place].astype(np.int64) * k + label)[X.data[place] != 0]] = True
    return np.flatnonzero(met)
