"""Scores of matchings, linear in features of pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._core.errors import InvalidInput
from .._core.ragged import Ragged, item_sums, offsets_of
from .._core.types import Array
from .base import Index, Scorer
from .linear import Linear

__all__ = ["Pairs"]


class Pairs(Scorer):
    """θ_ij = ⟨w, x_ij⟩ for the features x_ij of each pair of an element i of one set and j of another.

    ``items`` is a list with an array (n, m, d) for each pair of sets, and one score for each of its n × m entries.

    With ``alone``, a list of pairs of arrays (n, a) and (m, b), elements may stay without a partner. Weights are then
    those of the d features of pairs, of the a features of having no partner in the second set, and of the b features of
    not being chosen. Scores are those of :class:`~fenchel.structures.Matchings`, tables of k × (k + 1) with k the
    larger of n and m, and −inf in rows and columns that are only there to make up the square. Not being chosen is what
    a pair takes from element j, so its features count negative in column j.

    A pair with a feature that is NaN is no candidate: its score is −inf. Costs one product with all features.

    >>> import numpy as np
    >>> from fenchel.scorers import Pairs
    >>> scorer = Pairs([np.array([[[1.0, 0.5]]]), np.ones((2, 2, 2))])
    >>> scorer.scores(np.array([1.0, 2.0]))[0], scorer.weights_shape
    (array([2.]), (2,))
    """

    def __init__(self, items: Sequence[Array] | Array, alone: Sequence[tuple[Array, Array]] | None = None) -> None:
        self.n_pair_features = int(items[0].shape[2]) if len(items) else 0
        if alone is None and isinstance(items, np.ndarray):
            self.rows = _ragged(np.full(len(items), items.shape[1] * items.shape[2]))
            self.mask: Array | None = None
            self.linear = Linear(items.reshape(-1, self.n_pair_features), (1,))
            return
        if alone is None:
            blocks = [item.reshape(-1, self.n_pair_features) for item in items]
            self.rows = _ragged([len(block) for block in blocks])
            self.mask = None
        else:
            blocks, masks = [], []
            for item, (leaving, entering) in zip(items, alone, strict=True):
                block, mask = _square(item, leaving, entering)
                blocks.append(block)
                masks.append(mask)
            self.rows = _ragged([len(block) for block in blocks])
            self.mask = np.concatenate(masks) if masks else np.zeros(0)
        features = np.concatenate(blocks) if blocks else np.zeros((0, self.n_pair_features))
        barred = np.asarray(np.isnan(features).any(axis=1))
        if barred.any():
            features = np.where(barred[:, None], 0, features)
            self.mask = np.where(barred, -np.inf, 0.0 if self.mask is None else self.mask)
        if self.mask is not None and not self.mask.any():
            self.mask = None
        self.linear = Linear(features, (1,))

    @classmethod
    def of_rows(cls, X: Any, sizes: Any) -> Pairs:
        """Features of the pairs of all items one below the other, dense or a SciPy sparse matrix.

        ``sizes`` are the numbers of pairs of the items.
        """
        made = cls.__new__(cls)
        made.n_pair_features = int(X.shape[1])
        made.rows = _ragged(sizes)
        made.mask = None
        made.linear = Linear(X, (1,))
        return made

    @property
    def n_examples(self) -> int:
        return len(self.rows)

    @property
    def weights_shape(self) -> tuple[int, ...]:
        return (self.linear.X.shape[1],)

    def take(self, idx: Any) -> Pairs:
        items = np.arange(self.n_examples)[idx]
        places = self.rows.places(items)
        part = Pairs.__new__(Pairs)
        part.n_pair_features = self.n_pair_features
        part.rows = _ragged(self.rows.sizes[items])
        part.mask = None if self.mask is None else self.mask[places]
        part.linear = Linear(self.linear.X[places], (1,))
        return part

    def _where(self, idx: Index) -> tuple[Ragged, Any]:
        if idx is None:
            return self.rows, None
        items = np.arange(self.n_examples)[idx]
        return _ragged(self.rows.sizes[items]), self.rows.places(items)

    def scores(self, w: Array, idx: Index = None) -> Any:
        rows, places = self._where(idx)
        flat = self.linear.scores(w[:, None], places).ravel()
        if self.mask is not None:
            flat = flat + (self.mask if places is None else self.mask[places]).astype(flat.dtype)
        return rows.like(flat)

    def adjoint(self, residual: Any, idx: Index = None) -> Array:
        _, places = self._where(idx)
        return self.linear.adjoint(residual.flat[:, None], places)[:, 0]

    def quadratic(self, direction: Any, idx: Index = None) -> Array:
        rows, places = self._where(idx)
        X = self.linear.X if places is None else self.linear.X[places]
        if self.linear.sparse:
            from scipy import sparse

            blocks = sparse.csr_matrix(
                (direction.flat, np.arange(len(direction.flat)), rows.offsets), (len(rows), X.shape[0])
            )
            sums = blocks @ X
            return np.asarray(sums.multiply(sums).sum(axis=1), dtype=np.float64).ravel()
        moved = X * direction.flat[:, None]
        return np.asarray(sum(item_sums(rows.like(np.ascontiguousarray(column))) ** 2 for column in moved.T))

    def gram(self, p: Array | float) -> Array | None:
        """Σ p_i A_iᵀA_i with the mean of each item's features taken off, which moves no matching."""
        X = self.linear.X
        if self.linear.sparse:
            return None
        if self.mask is not None:
            X = X[self.mask == 0]
        if X.shape[1] > min(1000, len(X)):
            return None
        rows = self.rows if self.mask is None else _ragged(item_sums(self.rows.like((self.mask == 0).astype(np.int64))))
        sizes = np.maximum(rows.sizes, 1)
        means = np.stack([item_sums(rows.like(np.ascontiguousarray(column))) / sizes for column in X.T], axis=1)
        centered = X - np.repeat(means, rows.sizes, axis=0)
        scaled = centered * (p if np.ndim(p) == 0 else np.repeat(np.asarray(p), rows.sizes)[:, None])
        return np.asarray(scaled.T @ centered, dtype=np.float64)


def _ragged(sizes: Any) -> Ragged:
    """Places of items of these sizes; the numbers are those of whoever asks."""
    return Ragged(np.zeros(0), offsets_of(np.asarray(sizes, dtype=np.int64)))


def _square(item: Array, leaving: Array, entering: Array) -> tuple[Array, Array]:
    """Features of the k × (k + 1) entries of one item, and −inf at those that must not be."""
    n, m, d = item.shape
    if leaving.shape[:1] != (n,) or entering.shape[:1] != (m,):
        raise InvalidInput(
            f"{n} x {m} pairs need as many rows of features of elements alone, got {leaving.shape} and {entering.shape}"
        )
    a, b = leaving.shape[1], entering.shape[1]
    k = max(n, m, 1)
    features, mask = np.zeros((k, k + 1, d + a + b), item.dtype), np.zeros((k, k + 1))
    features[:n, :m, :d] = item
    features[:n, :m, d + a :] = -entering
    features[:n, k, d : d + a] = leaving
    mask[n:, :k] = -np.inf
    mask[:, m:k] = -np.inf
    return features.reshape(k * (k + 1), d + a + b), mask.ravel()
