"""Head selection: each word of a tree chooses its head by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .._core import parallel
from .._core.checks import for_kernels
from .._core.errors import IncompatiblePair
from .._core.ragged import Ragged, item_sums, replaced
from .._core.types import Array, ArrayLike
from ..kernels.head_selection import head_selection
from ..structures.base import Structure
from ..structures.tree import Arborescence, Arborescences, DependencyTree, DependencyTrees
from .base import Loss

__all__ = ["HeadSelection"]


@dataclass(frozen=True)
class HeadSelection(Loss):
    """Σ over words of log Σ_h exp(θ_mh) − θ_m,head: the cross-entropy of each word's head, chosen by itself. O(n²).

    It is the CRF's loss on a larger set, in which nothing forbids cycles, and so at least the CRF's over trees. It
    takes no determinant, which is why neural parsers train by it. ``predict`` gives each word's distribution over
    heads, rows that sum to one; in general no distribution over trees has them as its marginals. Decoders answer with trees all
    the same: ``MAP`` with that of highest score, ``Calibrated`` with that of most expected right heads.

    References: Dozat and Manning, "Deep biaffine attention for neural dependency parsing", 2017; Zhang, Cheng and Lapata,
    "Dependency parsing as head selection", 2017.

    >>> from fenchel.losses import CRF, HeadSelection
    >>> from fenchel.structures import DependencyTree
    >>> trees = DependencyTree(2)
    >>> theta, y = [[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]], trees.encode([0, 1])
    >>> float(HeadSelection(trees).value(theta, y).round(3)), float(CRF(trees).value(theta, y).round(3))
    (1.362, 0.127)
    >>> HeadSelection(trees).predict(theta).round(3)
    array([[0.269, 0.   , 0.731],
           [0.047, 0.953, 0.   ]])
    """

    structure: Structure
    relaxed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not isinstance(self.structure, Arborescence | DependencyTree | Arborescences | DependencyTrees):
            raise IncompatiblePair(
                f"HeadSelection lets each word choose its head, so it is for directed trees such as DependencyTrees(), not "
                f"{self.structure!r}; use CRF"
            )

    @property
    def smoothness(self) -> float:
        return 0.5  # diag(p) − p pᵀ for each word

    @property
    def has_omega(self) -> bool:
        return True

    def value_and_grad(self, theta: ArrayLike, v: ArrayLike) -> tuple[Array, Array]:
        rows, points, batch = self._pair(theta, v)
        value, residual = self._choose(rows, points, 1.0)
        return self._per_example(np.maximum(value, 0), rows, batch), self.structure.restore(residual, batch)

    def predict(self, theta: ArrayLike) -> Array:
        rows, batch = self._scores(theta)
        return self.structure.restore(self._choose(rows, rows, 0.0)[1], batch)

    def omega(self, mu: ArrayLike) -> Array:
        points, batch = self.structure._rows(mu, "points mu", points=True)
        entropies = replaced(points, lambda x: x * np.log(np.where(x > 0, x, 1)))
        return self._per_example(item_sums(entropies), points, batch)

    def _scores(self, theta: ArrayLike) -> tuple[Array, tuple[int, ...]]:
        return self.structure._rows(theta, "scores")

    def _choose(self, rows: Any, points: Any, less: float) -> tuple[Array, Any]:
        """Losses and predictions less so many times the points."""
        structure: Any = self.structure
        lay = structure._layout(rows)
        flat = points.flat if isinstance(points, Ragged) else points.reshape(-1)
        out, numbers = structure._zeros_like(rows)
        value, status = np.zeros(lay.n), np.zeros(lay.n, np.int64)
        parallel.run(
            head_selection, lay.n, lay.squares, lay.flat, lay.starts, lay.words, lay.labels, for_kernels(flat), less, value,
            numbers, status,
        )  # fmt: skip
        structure._refuse_impossible(status)
        return value, out.astype(rows.dtype, copy=False)
