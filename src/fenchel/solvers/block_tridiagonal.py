"""A symmetric matrix turned to block tridiagonal form, from which systems with any ridge are solved in no time.

An eigendecomposition answers the same questions, but half of its work is on single vectors and waits for memory. Here
nearly all is products of matrices.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from .._core.parallel import map_items, single_blas_thread
from .._core.types import Array

__all__ = ["BlockTridiagonal"]

_WIDTH = 48
_ROWS = 256  # a block of rows or columns that one thread works on
_CHUNK = 512  # what is made of a block at once, so that it stays in the cache


class BlockTridiagonal:
    """A = Q B Qᵀ with Q orthogonal and B block tridiagonal, by block Householder reflections: about 8/3 n³ operations.

    Then (A + rI)⁻¹ costs O(n²) a column for any r, and the diagonal of the inverse O(n² · width) for each r, by the block
    Cholesky factor of B + rI. A's memory becomes Q's; 4n² bytes beside it while it is made.

    Reference: Bischof, Lang and Sun, "A framework for symmetric band reduction", 2000.

    >>> import numpy as np
    >>> form = BlockTridiagonal(np.array([[2.0, 1.0], [1.0, 2.0]]))
    >>> form.set_ridge(1.0)
    >>> form.solve(np.array([[4.0], [4.0]]))
    array([[1.],
           [1.]])
    """

    def __init__(self, A: Array, width: int = _WIDTH) -> None:
        self.n = len(A)
        starts = [*range(0, self.n, width), self.n]
        self.parts = [slice(a, b) for a, b in pairwise(starts)]
        with single_blas_thread():
            self._diagonal, self._below, reflections = _reduce(A, self.parts)
            self.Q = _accumulate(A, reflections)
        rows = (np.hstack([self._below[k - 1], D]) if k else D for k, D in enumerate(self._diagonal))
        self.norm = max((float(np.abs(row).sum(axis=1).max()) for row in rows), default=0.0)
        """The largest eigenvalue, up to a factor of about the root of the width."""
        self._factor: tuple[list[Array], list[Array]] = ([], [])

    def set_ridge(self, ridge: float) -> None:
        """Use A + ridge · I from now on; ``numpy.linalg.LinAlgError`` where that is not positive definite."""
        self._factor = self._factorise(ridge)

    def _factorise(self, ridge: float) -> tuple[list[Array], list[Array]]:
        try:
            return self._cholesky(ridge)
        except np.linalg.LinAlgError:  # a singular matrix that rounding made indefinite is no reason to fail
            return self._cholesky(ridge + np.finfo(float).eps * self.norm * self.n)

    def _cholesky(self, ridge: float) -> tuple[list[Array], list[Array]]:
        """Of the factor L of B + ridge · I the inverses of the diagonal blocks, and the blocks below these."""
        from scipy.linalg.lapack import dtrtri

        inverses: list[Array] = []
        below: list[Array] = []
        for k, block in enumerate(self._diagonal):
            block = block + ridge * np.eye(len(block))
            if k:
                below.append(self._below[k - 1] @ inverses[-1].T)
                block -= below[-1] @ below[-1].T
            inverses.append(np.asarray(dtrtri(np.linalg.cholesky(block), lower=1)[0]))
        return inverses, below

    def _solve_turned(self, right: Array, factor: tuple[list[Array], list[Array]]) -> Array:
        """(B + ridge · I)⁻¹ times columns."""
        inverses, below = factor
        solved = np.empty(right.shape)
        last = len(self.parts) - 1
        for k, part in enumerate(self.parts):
            block = right[part] - below[k - 1] @ solved[self.parts[k - 1]] if k else right[part]
            solved[part] = inverses[k] @ block
        for k in range(last, -1, -1):
            part = self.parts[k]
            block = solved[part] - below[k].T @ solved[self.parts[k + 1]] if k < last else solved[part]
            solved[part] = inverses[k].T @ block
        return solved

    def solve(self, right: Array) -> Array:
        """(A + ridge · I)⁻¹ times columns."""
        return np.asarray(self.Q @ self._solve_turned(self.Q.T @ right, self._factor))

    def solve_each(self, ridges: Array, right: Array) -> Iterator[Array]:
        """(A + ridge · I)⁻¹ times columns, for one ridge after the other."""
        turned = self.Q.T @ right
        for ridge in ridges:
            yield self.Q @ self._solve_turned(turned, self._factorise(float(ridge)))

    def inverse_rows(self, rows: Array) -> Array:
        """Rows of (A + ridge · I)⁻¹."""
        return np.asarray((self.Q @ self._solve_turned(self.Q[rows].T, self._factor)).T)

    def inverse_diagonals(self, ridges: Array, rows: Array | None = None) -> Array:
        """The diagonal of (A + ridge · I)⁻¹, or some of its entries: a row for each ridge."""
        factors = [self._factorise(float(ridge)) for ridge in ridges]
        count = len(factors)
        if not count:
            return np.zeros((0, self.n if rows is None else len(rows)))
        # block k of L⁻¹Qᵀ is L_kk⁻¹ (Qᵀ)_k − L_kk⁻¹ L_k,k-1 times the block before: for all ridges in two products
        first = [np.vstack([inverses[k] for inverses, _ in factors]) for k in range(len(self.parts))]
        second = [
            np.stack([-inverses[k] @ below[k - 1] for inverses, below in factors]) for k in range(1, len(self.parts))
        ]
        size = self.n if rows is None else len(rows)

        def diagonal(start: int) -> Array:
            some = slice(start, start + _ROWS)
            turned = (self.Q[some] if rows is None else self.Q[rows[some]]).T
            total = np.zeros((count, turned.shape[1]))
            before = np.zeros((0, 0, 0))
            for k, part in enumerate(self.parts):
                block = (first[k] @ turned[part]).reshape(count, -1, turned.shape[1])
                if k:
                    block += second[k - 1] @ before
                total += np.einsum("akb,akb->ab", block, block)
                before = block
            return total

        return np.hstack(map_items(diagonal, range(0, size, _ROWS))) if size else np.zeros((count, 0))


def _reduce(A: Array, parts: list[slice]) -> tuple[list[Array], list[Array], list[tuple[int, Array, Array]]]:
    """The blocks of B, those below them, and the reflections I − V T Vᵀ with the row that each begins at."""
    from scipy.linalg.lapack import dgeqrt

    below: list[Array] = []
    reflections: list[tuple[int, Array, Array]] = []
    for k, part in enumerate(parts[:-1]):
        start = part.stop
        if k == len(parts) - 2:
            below.append(A[start:, part].copy())
            continue
        b = part.stop - part.start
        packed, T, _ = dgeqrt(b, np.asfortranarray(A[start:, part]))
        below.append(np.triu(packed[:b]))
        V = np.ascontiguousarray(np.tril(packed, -1))
        V[np.arange(b), np.arange(b)] = 1
        T = np.triu(T)
        reflections.append((start, V, T))
        _turn(A[start:, start:], V, T, start)
    return [_symmetric(A[part, part]) for part in parts], below, reflections


def _symmetric(lower: Array) -> Array:
    return np.tril(lower) + np.tril(lower, -1).T


def _turn(A: Array, V: Array, T: Array, first: int) -> None:
    """HᵀAH in place of A, with H = I − V T Vᵀ; of both only what is below the diagonal blocks of _ROWS rows, and these.

    ``first`` is the place of A's first row in the whole matrix, by which it is cut: always at the same places.
    HᵀAH = A − W Vᵀ − V Wᵀ with W = X − V Tᵀ(VᵀX) / 2 and X = A V T.
    """
    VT = V @ T
    cuts = [0, *range(_ROWS - first % _ROWS, len(A), _ROWS), len(A)]
    blocks = [slice(a, b) for a, b in pairwise(cuts)][::-1]  # the long ones first

    def product(rows: slice) -> tuple[Array, Array]:
        own = A[rows, : rows.stop] @ VT[: rows.stop]
        return own, A[rows, : rows.start].T @ VT[rows]

    X = np.zeros(V.shape)
    for rows, (own, above) in zip(blocks, map_items(product, blocks), strict=True):
        X[rows] += own
        X[: rows.start] += above
    W = X - 0.5 * (V @ (T.T @ (V.T @ X)))
    left, right = np.hstack([W, V]), np.hstack([V, W]).T.copy()

    def update(rows: slice) -> None:
        own = left[rows]
        for column in range(0, rows.stop, _CHUNK):
            part = slice(column, min(column + _CHUNK, rows.stop))
            A[rows, part] -= own @ right[:, part]

    map_items(update, blocks)


def _accumulate(Q: Array, reflections: list[tuple[int, Array, Array]]) -> Array:
    """The product of the reflections in Q, by blocks of columns; one that begins below a block leaves it as it is."""
    n = len(Q)

    def columns(start: int) -> None:
        stop = min(start + _ROWS, n)
        block = np.zeros((n, stop - start))
        block[np.arange(start, stop), np.arange(stop - start)] = 1
        for first, V, T in reversed(reflections):
            if first < stop:
                below = block[first:]
                Y = T @ (V.T @ below)
                for row in range(0, n - first, _CHUNK):
                    below[row : row + _CHUNK] -= V[row : row + _CHUNK] @ Y
        Q[:, start:stop] = block

    map_items(columns, range(0, n, _ROWS))
    return Q
