"""Zero-one cost with a price for no answer."""

from __future__ import annotations

import math

import numpy as np

from ..._core import parallel
from ..._core.types import Array
from ...costs.abstain import Abstain
from ...costs.base import Cost
from ...costs.hamming import Hamming
from ...costs.zero_one import ZeroOne
from ...kernels import games as kernels
from ...kernels.dual_coordinate import ZERO_ONE
from ...structures.base import Structure
from ..base import MoveRule
from .base import Equilibrium
from .classes import ClassGame

__all__ = ["AbstentionGame"]


class AbstentionGame(ClassGame):
    """Zero-one cost, and a price for no answer: exact for every price, O(k) a row up to one half, O(k log k) above.

    With the weight p_0 on no answer the predictor wants the least w with w ≥ 1 − p_y − (1 − price) p_0 + θ_y, so that
    p_y = max(θ_y − u, 0) for some u, and raising u pays as long as more than 1/(1 − price) scores lie above it. Hence,
    with m = ⌈1/(1 − price)⌉ − 1 (one, for prices up to one half), u is the (m + 1)-th largest score and
    p_0 = 1 − Σ (θ_y − u) over the m largest; where that is negative no answer is left out and the game is that of the
    zero-one cost. The adversary plays 1 − price on each of the m largest scores and the rest on the next, which makes
    those answers cost as much as none. For prices up to one half this is the published closed form; above, the
    published way is a linear program.

    Reference: Fathony, Asif, Liu, Bashiri, Xing, Behpour, Zhang and Ziebart, "Consistent robust adversarial prediction
    for general multiclass classification", 2018, Theorems 7 and 8.

    >>> import numpy as np
    >>> from fenchel.costs import Abstain
    >>> from fenchel.losses.games import find_game
    >>> from fenchel.structures import Simplex
    >>> found = find_game(Simplex(3), Abstain(0.25)).solve(np.array([[0.5, 0.25, 0.0]]))
    >>> found.value, found.adversary, found.predictor
    (array([0.6875]), array([[0.75, 0.25, 0.  ]]), array([[0.25, 0.  , 0.  , 0.75]]))
    """

    cost: Abstain

    @classmethod
    def refusal(cls, structure: Structure, cost: Cost) -> str | None:
        if not isinstance(cost, Abstain) or type(cost.cost) not in (ZeroOne, Hamming):
            return "is for the zero-one cost with a price for no answer, Abstain(price)"
        return super().refusal(structure, cost)

    def _counts(self, k: int) -> tuple[float, int]:
        price = self.cost.price
        return price, (max(math.ceil(1 / (1 - price)) - 1, 1) if price < 1 - 1 / (k + 1) else k)

    def _play(self, f: Array) -> Equilibrium:
        n, k = f.shape
        value, risk, q, p = np.empty(n), np.empty(n), np.empty_like(f), np.empty((n, k + 1))
        parallel.run(kernels.abstention_solve, n, f.size, f, *self._counts(k), value, risk, q, p)
        return self._exact(value, risk, q, p)

    def _class_risk(self, distribution: Array) -> Array:
        return np.minimum(1 - distribution.max(axis=1), self.cost.price)

    def _loss(self, f: Array, v: Array) -> tuple[Array, Array]:
        value, residual = np.empty(len(f)), np.empty_like(f)
        parallel.run(kernels.abstention_loss, len(f), f.size, f, v, *self._counts(f.shape[1]), value, residual)
        return value, residual

    def move_rule(self) -> MoveRule | None:
        return MoveRule(ZERO_ONE, self.cost.price) if self.structure.class_coding == "one_hot" else None
