"""A cost that counts more at some positions than at others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.checks import check_finite_positive
from .._core.errors import InvalidInput
from .._core.types import Array, ArrayLike, IntArray
from ..structures.base import Structure, items_of
from .base import AffineForm, Cost

__all__ = ["Weighted"]


@dataclass(frozen=True)
class Weighted(Cost):
    """L(ŷ, y) = Σ_t weights[t] cost(ŷ_t, y_t): a cost of single labels, weighted by position.

    ``cost`` is any that adds up over positions (``Hamming()``, ``Absolute()``, ``SquaredError()``, a ``CostMatrix``).
    Weights are one list for all outputs, which may be shorter than it, not longer; or, for the items of one batch, a list for
    each item with a weight for each of its positions or nodes.

    >>> from fenchel.costs import Hamming, Weighted
    >>> first_counts = Weighted(Hamming(), [5.0, 1.0, 1.0])
    >>> first_counts([[0, 1, 1], [0, 1]], [[1, 1, 0], [0, 0]])
    array([6., 1.])
    >>> Weighted(Hamming(), [[5.0, 1.0, 1.0], [0.0, 2.0]])([[0, 1, 1], [0, 1]], [[1, 1, 0], [0, 0]])
    array([6., 2.])
    """

    cost: Cost
    weights: tuple[Any, ...]

    def __init__(self, cost: Cost, weights: Sequence[Any]) -> None:
        if not isinstance(cost, Cost):
            raise InvalidInput(f"cost is {cost!r}, expected a cost such as Hamming()")
        if type(cost).label_matrix is Cost.label_matrix:
            cost.label_matrix(2)  # raises, with the reason
        checked: tuple[Any, ...]
        if len(weights) and all(np.ndim(w) == 1 for w in weights):
            checked = tuple(_checked(w, f"weights[{i}]") for i, w in enumerate(weights))
        else:
            checked = _checked(weights, "weights")
        object.__setattr__(self, "cost", cost)
        object.__setattr__(self, "weights", checked)

    @property
    def by_item(self) -> bool:
        """Whether each item of a batch has weights of its own."""
        return bool(self.weights) and isinstance(self.weights[0], tuple)

    def take(self, idx: Any) -> Weighted:
        if not self.by_item:
            return self
        return Weighted(self.cost, [self.weights[i] for i in items_of(len(self.weights), idx, self)])

    def __repr__(self) -> str:
        shown = f"<{len(self.weights)} items>" if self.by_item else f"{list(self.weights)}"
        return f"Weighted({self.cost!r}, {shown})"

    def __call__(self, y_pred: ArrayLike, y_true: ArrayLike) -> Array:
        if any(np.ndim(output) == 0 for output in y_true):  # type: ignore[union-attr]
            raise InvalidInput("y_true holds single labels, but weights of positions need outputs that are sequences")
        return self.cost._sum_of_parts(y_pred, y_true, lambda places: self._weights_of(places.sizes))

    def label_matrix(self, k: int) -> Array:
        return self.cost.label_matrix(k)

    def position_weights(self, structure: Structure, rows: Any) -> Array:
        return self._weights_of(structure.position_counts(rows))

    def affine(self, answers: Structure, truths: Structure | None = None) -> AffineForm:
        truths = answers if truths is None else truths
        if answers.part_coding != "labels":
            raise self._refuse(answers, truths, "weights of positions are for labels of sequences, trees and graphs")
        return self._position_affine(answers, truths)

    def _weights_of(self, sizes: IntArray) -> Array:
        """The weights of all positions of items with these many."""
        if not self.by_item:
            longest = int(sizes.max(initial=0))
            if longest > len(self.weights):
                raise InvalidInput(f"there are weights for {len(self.weights)} positions, but an output has {longest}")
            where = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
            chosen: Array = np.array(self.weights)[where]
            return chosen
        if len(sizes) != len(self.weights):
            raise InvalidInput(f"{self!r} is for {len(self.weights)} items, but the batch has {len(sizes)}")
        for i, (w, size) in enumerate(zip(self.weights, sizes.tolist(), strict=True)):
            if len(w) != size:
                raise InvalidInput(
                    f"weights[{i}] has {len(w)} entries, but the output has {size} positions (sample {i})"
                )
        return np.concatenate([np.zeros(0), *map(np.array, self.weights)])


def _checked(weights: Any, name: str) -> tuple[float, ...]:
    return tuple(check_finite_positive(w, f"{name}[{t}]", zero=True) for t, w in enumerate(weights))
