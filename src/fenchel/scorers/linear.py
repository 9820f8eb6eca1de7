"""Scores linear in dense or sparse rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core import parallel
from .._core.checks import check_finite_positive
from .._core.errors import InvalidInput
from .._core.types import Array
from .base import Index, Scorer

__all__ = ["Linear"]


class Linear(Scorer):
    """θ_i = Wᵀ x_i for the rows x_i of a dense array or a SciPy sparse matrix, with W of shape (features, scores).

    With ``intercept_scaling`` each row has one more column of that value, which is never materialised; its weights
    are penalised like the rest. Scores cost O(rows · features · scores), or O(non-zeros · scores).

    >>> import numpy as np
    >>> from fenchel.scorers import Linear
    >>> scorer = Linear(np.array([[1.0, 2.0], [0.0, 1.0]]), (3,), intercept_scaling=1.0)
    >>> scorer.weights_shape
    (3, 3)
    >>> scorer.scores(np.ones((3, 3)))
    array([[4., 4., 4.],
           [2., 2., 2.]])
    """

    def __init__(self, X: Any, shape: tuple[int, ...], *, intercept_scaling: float | None = None) -> None:
        if not hasattr(X, "ndim") or X.ndim != 2:
            raise InvalidInput(f"X is {type(X).__name__}, expected a two-dimensional array or sparse matrix of rows")
        self.sparse = not isinstance(X, np.ndarray)
        self.X = X.tocsr() if self.sparse else X
        if self.X.dtype not in (np.float32, np.float64):
            self.X = self.X.astype(np.float64)
        self.shape = tuple(shape)
        self.intercept_scaling = (
            None if intercept_scaling is None else check_finite_positive(intercept_scaling, "intercept_scaling")
        )
        self._squared_norms: Array | None = None

    @property
    def n_examples(self) -> int:
        return int(self.X.shape[0])

    @property
    def n_scores(self) -> int:
        return int(np.prod(self.shape))

    @property
    def weights_shape(self) -> tuple[int, ...]:
        return (self.X.shape[1] + (self.intercept_scaling is not None), self.n_scores)

    def take(self, idx: Any) -> Linear:
        return Linear(self.X[idx], self.shape, intercept_scaling=self.intercept_scaling)

    def _rows(self, idx: Index) -> Any:
        return self.X if idx is None else self.X[idx]

    def scores(self, w: Array, idx: Index = None) -> Array:
        rows = self._rows(idx)
        w = w.astype(self.X.dtype, copy=False)
        coefficients = w if self.intercept_scaling is None else w[:-1]
        if self.sparse:
            theta = np.asarray(rows @ coefficients)
        elif self._small(len(rows)):
            theta = rows @ coefficients
        else:
            theta = np.empty((len(rows), self.n_scores), self.X.dtype)
            coefficients = np.ascontiguousarray(coefficients)

            def block(b: int, start: int, stop: int) -> None:
                np.matmul(rows[start:stop], coefficients, out=theta[start:stop])

            parallel.run_blocks(block, len(rows), self._block_rows, worth=self._worth_threads(len(rows)))
        if self.intercept_scaling is not None:
            theta += self.intercept_scaling * w[-1]
        return theta.reshape(len(theta), *self.shape)

    def adjoint(self, residual: Array, idx: Index = None) -> Array:
        rows = self._rows(idx)
        flat = residual.reshape(len(residual), self.n_scores)
        gradient = np.zeros(self.weights_shape)
        main = gradient if self.intercept_scaling is None else gradient[:-1]
        if self.sparse or self._small(len(flat)):
            main += rows.T @ flat
        else:
            parts: list[Array] = [main] * -(-len(flat) // self._block_rows)

            def block(b: int, start: int, stop: int) -> None:
                parts[b] = rows[start:stop].T @ flat[start:stop]

            parallel.run_blocks(block, len(flat), self._block_rows, worth=self._worth_threads(len(flat)))
            for part in parts:  # in order, so that rounding is the same for any number of threads
                main += part
        if self.intercept_scaling is not None:
            gradient[-1] = self.intercept_scaling * flat.sum(axis=0, dtype=np.float64)
        return gradient

    @property
    def _block_rows(self) -> int:
        """Rows whose product makes about a millisecond of work."""
        return max(64, 4_000_000 // max(1, self.X.shape[1] * (self.n_scores + 4)))

    def _small(self, n: int) -> bool:
        """Whether a product is too small for BLAS to start threads of its own, or for anybody to."""
        return n * self.X.shape[1] * self.n_scores < 50_000

    def _worth_threads(self, n: int) -> bool:
        return n > self._block_rows

    def gram(self, p: Array | float) -> Array | None:
        """Xᵀ diag(p) X over the rows, intercept included: O(rows · features²), as much as a few evaluations."""
        n, d = self.X.shape
        if self.sparse or d > min(n, 1000, max(64, 10 * self.n_scores)):
            return None
        full = np.empty((self.weights_shape[0],) * 2)
        weights = None if np.ndim(p) == 0 else np.asarray(p)
        block = max(64, 2_000_000 // (d * d))
        parts: list[Any] = [None] * -(-n // block)

        def add(b: int, start: int, stop: int) -> None:
            rows = self.X[start:stop]
            scaled = rows if weights is None else rows * weights[start:stop, None].astype(rows.dtype)
            parts[b] = rows.T @ scaled, scaled.sum(axis=0, dtype=np.float64)

        parallel.run_blocks(add, n, block, worth=n > block)
        full[:d, :d] = sum(part[0] for part in parts)
        if self.intercept_scaling is not None:
            total = float(n) if weights is None else float(weights.sum())
            full[d, :d] = full[:d, d] = self.intercept_scaling * sum(part[1] for part in parts)
            full[d, d] = self.intercept_scaling**2 * total
        return full * float(p) if weights is None else full

    def squared_norms(self) -> Array:
        """‖x_i‖² of each row, the intercept's column included."""
        if self._squared_norms is None:
            if self.sparse:
                squares = np.asarray(self.X.multiply(self.X).sum(axis=1), dtype=np.float64).ravel()
            else:
                squares = np.einsum("ij,ij->i", self.X, self.X, dtype=np.float64)
            self._squared_norms = squares + (self.intercept_scaling or 0.0) ** 2
        return self._squared_norms

    def quadratic(self, direction: Array, idx: Index = None) -> Array:
        flat = direction.reshape(len(direction), self.n_scores)
        norms = self.squared_norms()
        return np.einsum("ij,ij->i", flat, flat) * (norms if idx is None else norms[idx])
