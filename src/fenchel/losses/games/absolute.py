"""Absolute cost between grades."""

from __future__ import annotations

import numpy as np

from ..._core import parallel
from ..._core.types import Array
from ...kernels import games as kernels
from ..base import SharedLosses
from .base import Equilibrium
from .classes import ClassGame

__all__ = ["AbsoluteGame"]


class AbsoluteGame(ClassGame):
    """Ω*(θ) = ½ max (f_i − i) + ½ max (f_j + j), exact in O(k) a row.

    The adversary plays the two maximising grades i ≤ j with probability one half each. The predictor needs the mean
    grade m = ½ (max (f_j + j) − max (f_i − i)): mixed from the two grades around m, its expected cost at any grade y is
    |m − y|, and m equalises the two sides.

    Reference: Fathony, Bashiri and Ziebart, "Adversarial surrogate losses for ordinal regression", 2017.

    >>> import numpy as np
    >>> from fenchel.costs import Absolute
    >>> from fenchel.losses.games import find_game
    >>> from fenchel.structures import Simplex
    >>> found = find_game(Simplex(4), Absolute()).solve(np.array([[0.5, 0.0, 0.0, 0.0]]))
    >>> found.value, found.adversary, found.predictor
    (array([1.75]), array([[0.5, 0. , 0. , 0.5]]), array([[0.  , 0.75, 0.25, 0.  ]]))
    """

    def _play(self, f: Array) -> Equilibrium:
        value, risk, q, p = np.empty(len(f)), np.empty(len(f)), np.empty_like(f), np.empty_like(f)
        parallel.run(kernels.absolute_solve, len(f), f.size, f, value, risk, q, p)
        return self._exact(value, risk, q, p)

    def on_thresholds(self, s: Array, offsets: Array, grades: Array) -> SharedLosses:
        """The losses where θ_ij = s_i + offset_j: O(k) for all together, then O(log k) a row.

        The potentials f_j = j s + h_j are lines in s, and max_j (f_j ∓ j) is attained at a corner of the concave hull of the
        heights h, found by a binary search for s ∓ 1 among its slopes.

        Reference: Fathony, Bashiri and Ziebart, "Adversarial surrogate losses for ordinal regression", 2017.

        >>> import numpy as np
        >>> from fenchel.costs import Absolute
        >>> from fenchel.losses.games import find_game
        >>> from fenchel.structures import OrderSimplex
        >>> game = find_game(OrderSimplex(4), Absolute())
        >>> game.on_thresholds(np.array([0.5]), np.array([0.0, -1.0, -2.0]), np.array([3])).value
        array([2.5])
        """
        heights = np.append(0.0, np.cumsum(offsets, dtype=np.float64))
        corners = _concave_corners(heights)
        breaks = -np.diff(heights[corners]) / np.diff(corners)
        n = len(s)
        value, low, high = np.empty(n), np.empty(n, np.int64), np.empty(n, np.int64)
        parallel.run(
            kernels.absolute_thresholds, n, n * (2.0 + np.log2(len(heights))), s.astype(np.float64, copy=False), breaks,
            corners, heights, grades, value, low, high,
        )  # fmt: skip
        return SharedLosses(value, low, high, grades)

    def _class_risk(self, distribution: Array) -> Array:
        # a median is best for every threshold at once
        passed = np.cumsum(distribution[:, :-1], axis=1)
        return np.maximum(np.minimum(passed, 1 - passed), 0).sum(axis=1)

    def _loss(self, f: Array, v: Array) -> tuple[Array, Array]:
        value, residual = np.empty(len(f)), np.empty_like(f)
        parallel.run(kernels.absolute_loss, len(f), f.size, f, v, value, residual)
        return value, residual


def _concave_corners(heights: Array) -> Array:
    """The places where the concave hull of a sequence touches it as a corner, the first and the last among them."""
    corners: list[int] = []
    for j, height in enumerate(heights):
        while len(corners) > 1:
            a, b = corners[-2], corners[-1]
            if (heights[b] - heights[a]) * (j - a) > (height - heights[a]) * (b - a):
                break
            corners.pop()
        corners.append(j)
    return np.array(corners, dtype=np.int64)
