"""Scores of arcs, bilinear in features of the word and of its head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._core.errors import InvalidInput
from .._core.ragged import Ragged, offsets_of
from .._core.types import Array
from .base import Index, Scorer

__all__ = ["Bilinear"]


class Bilinear(Scorer):
    """θ_mh = x_mᵀ W z_h for the features x_m of each word m and z_h of each head h, the root among them.

    ``words`` is a list with an array (n, a) for each sentence of n words, ``heads`` one with arrays (n + 1, b), the root
    first. The n (n + 1) outer products of a sentence are never made: scores and adjoint are two products of matrices, O(n a b
    + n² b) for each sentence instead of O(n² a b), the first for all sentences at once. A constant feature is a column of ones.

    Reference: Dozat and Manning, "Deep biaffine attention for neural dependency parsing", 2017.

    >>> import numpy as np
    >>> from fenchel.scorers import Bilinear
    >>> scorer = Bilinear([np.array([[1.0, 2.0]])], [np.array([[1.0], [3.0]])])
    >>> scorer.scores(np.array([[1.0], [0.5]]))[0], scorer.weights_shape
    (array([2., 6.]), (2, 1))
    """

    def __init__(self, words: Sequence[Array], heads: Sequence[Array]) -> None:
        if len(words) != len(heads):
            raise InvalidInput(f"there are features of words of {len(words)} sentences, but of heads of {len(heads)}")
        for i, (x, z) in enumerate(zip(words, heads, strict=True)):
            if x.ndim != 2 or z.ndim != 2 or len(z) != len(x) + 1:
                raise InvalidInput(
                    f"features of sample {i} have shapes {x.shape} for words and {z.shape} for heads, expected (n, a) and "
                    "(n + 1, b): the root is the first head"
                )
            if x.shape[1] != words[0].shape[1] or z.shape[1] != heads[0].shape[1]:
                raise InvalidInput(
                    f"words and heads of sample {i} have {x.shape[1]} and {z.shape[1]} features, but those of sample 0 "
                    f"{words[0].shape[1]} and {heads[0].shape[1]}"
                )
        self.sizes = np.array([len(x) for x in words], np.int64)
        self.word_ends, self.head_ends = offsets_of(self.sizes), offsets_of(self.sizes + 1)
        dtype = np.result_type(words[0], heads[0], np.float32) if len(words) else np.dtype(np.float64)
        self.words = np.concatenate(words).astype(dtype, copy=False) if len(words) else np.zeros((0, 0))
        self.heads = np.concatenate(heads).astype(dtype, copy=False) if len(words) else np.zeros((0, 0))

    @property
    def n_examples(self) -> int:
        return len(self.sizes)

    @property
    def weights_shape(self) -> tuple[int, ...]:
        return (self.words.shape[1], self.heads.shape[1])

    def take(self, idx: Any) -> Bilinear:
        items = np.arange(self.n_examples)[idx].tolist()
        return Bilinear([self._words(i) for i in items], [self._heads(i) for i in items])

    def _words(self, i: int) -> Array:
        return self.words[self.word_ends[i] : self.word_ends[i + 1]]

    def _heads(self, i: int) -> Array:
        return self.heads[self.head_ends[i] : self.head_ends[i + 1]]

    def _items(self, idx: Index) -> tuple[list[int], Array, Array]:
        """The sentences, the features of their words one below the other, and where those of each end."""
        if idx is None:
            return list(range(self.n_examples)), self.words, self.word_ends
        items = np.arange(self.n_examples)[idx].tolist()
        rows = [self._words(i) for i in items]
        return items, np.concatenate(rows) if rows else self.words[:0], offsets_of(self.sizes[items])

    def scores(self, w: Array, idx: Index = None) -> Any:
        items, rows, ends = self._items(idx)
        sizes = self.sizes[items]
        out = Ragged(np.empty(int((sizes * (sizes + 1)).sum()), self.words.dtype), offsets_of(sizes * (sizes + 1)))
        moved = rows @ w.astype(rows.dtype, copy=False)
        for k, i in enumerate(items):
            place = out.flat[out.offsets[k] : out.offsets[k + 1]].reshape(sizes[k], sizes[k] + 1)
            np.matmul(moved[ends[k] : ends[k + 1]], self._heads(i).T, out=place)
        return out

    def adjoint(self, residual: Any, idx: Index = None) -> Array:
        items, rows, ends = self._items(idx)
        pulled = np.empty((len(rows), self.heads.shape[1]), np.result_type(self.words, residual.flat))
        for k, i in enumerate(items):
            np.matmul(self._item(residual, k, i), self._heads(i), out=pulled[ends[k] : ends[k + 1]])
        return np.asarray(rows.T @ pulled, dtype=np.float64)

    def quadratic(self, direction: Any, idx: Index = None) -> Array:
        items, _, _ = self._items(idx)
        found = np.empty(len(items))
        for k, i in enumerate(items):
            x, z, d = self._words(i), self._heads(i), self._item(direction, k, i)
            # the squared norm of xᵀ d z by products of words with words and heads with heads
            found[k] = float((((x @ x.T) @ d) * (d @ (z @ z.T))).sum(dtype=np.float64))
        return found

    def _item(self, values: Any, k: int, i: int) -> Array:
        n = int(self.sizes[i])
        return np.asarray(values.flat[values.offsets[k] : values.offsets[k + 1]]).reshape(n, n + 1)
