"""Zero-one cost between classes."""

from __future__ import annotations

import numpy as np

from ..._core import parallel
from ..._core.types import Array
from ...kernels import games as kernels
from ...kernels.dual_coordinate import ZERO_ONE
from ..base import MoveRule
from .base import Equilibrium
from .classes import ClassGame

__all__ = ["ZeroOneGame"]


class ZeroOneGame(ClassGame):
    """Ω*(θ) = max over sets S of (Σ over S of θ + |S| − 1) / |S|, exact in O(k) a row.

    The best S holds the largest scores, found without sorting: the predictor wants the least w with
    w ≥ 1 − p_y + θ_y for every y, so p_y = max(θ_y + 1 − w, 0), which is the Euclidean projection of θ onto the simplex.
    Its threshold τ gives w = 1 + τ, and the adversary is uniform over the scores above τ.

    Reference: Fathony, Asif, Liu, Bashiri, Xing, Behpour, Zhang and Ziebart, "Consistent robust adversarial prediction
    for general multiclass classification", 2018, Theorems 2 and 3.

    >>> import numpy as np
    >>> from fenchel.costs import ZeroOne
    >>> from fenchel.losses.games import find_game
    >>> from fenchel.structures import Simplex
    >>> found = find_game(Simplex(3), ZeroOne()).solve(np.array([[1.0, 0.5, -2.0]]))
    >>> found.value, found.adversary, found.predictor
    (array([1.25]), array([[0.5, 0.5, 0. ]]), array([[0.75, 0.25, 0.  ]]))
    """

    def _play(self, f: Array) -> Equilibrium:
        value, risk, q, p = np.empty(len(f)), np.empty(len(f)), np.empty_like(f), np.empty_like(f)
        parallel.run(kernels.zero_one_solve, len(f), f.size, f, value, risk, q, p)
        return self._exact(value, risk, q, p)

    def _class_risk(self, distribution: Array) -> Array:
        return 1 - distribution.max(axis=1)

    def _loss(self, f: Array, v: Array) -> tuple[Array, Array]:
        value, residual = np.empty(len(f)), np.empty_like(f)
        parallel.run(kernels.zero_one_loss, len(f), f.size, f, v, value, residual)
        return value, residual

    def move_rule(self) -> MoveRule | None:
        return MoveRule(ZERO_ONE) if self.structure.class_coding == "one_hot" else None
