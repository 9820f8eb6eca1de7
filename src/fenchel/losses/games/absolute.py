"""Absolute cost between grades."""

from __future__ import annotations

import numpy as np

from ..._core import parallel
from ..._core.types import Array
from ...kernels import games as kernels
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

    def _class_risk(self, distribution: Array) -> Array:
        # a median is best for every threshold at once
        passed = np.cumsum(distribution[:, :-1], axis=1)
        return np.maximum(np.minimum(passed, 1 - passed), 0).sum(axis=1)

    def _loss(self, f: Array, v: Array) -> tuple[Array, Array]:
        value, residual = np.empty(len(f)), np.empty_like(f)
        parallel.run(kernels.absolute_loss, len(f), f.size, f, v, value, residual)
        return value, residual
