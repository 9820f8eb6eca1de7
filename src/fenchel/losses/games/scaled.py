"""A cost times a factor."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from ..._core.errors import IncompatiblePair
from ..._core.ragged import scale_items
from ..._core.types import Array
from ...costs.base import Cost
from ...costs.scaled import Scaled
from ...structures.base import Accuracy, Structure
from ..base import Evaluation
from .base import USUAL, Equilibrium, Game, find_game

__all__ = ["ScaledGame"]


class ScaledGame(Game):
    """The game of c · cost at θ is c times that of the cost at θ / c, with the same strategies.

    Reference: Fathony, Asif, Liu, Bashiri, Xing, Behpour, Zhang and Ziebart, "Consistent robust adversarial prediction
    for general multiclass classification", 2018, Theorem 6.

    >>> import numpy as np
    >>> from fenchel.costs import Scaled, ZeroOne
    >>> from fenchel.losses.games import find_game
    >>> from fenchel.structures import Simplex
    >>> game = find_game(Simplex(2), Scaled(ZeroOne(), [1.0, 10.0]))
    >>> game.solve(np.zeros((2, 2))).value
    array([0.5, 5. ])
    """

    cost: Scaled

    @classmethod
    def refusal(cls, structure: Structure, cost: Cost) -> str | None:
        if not isinstance(cost, Scaled):
            return "is for Scaled(cost, factor)"
        try:
            find_game(structure, cost.cost)
        except IncompatiblePair as error:
            return f"scales another game, and {error}"
        return None

    @cached_property
    def inner(self) -> Game:
        return find_game(self.structure, self.cost.cost)

    def _unscaled(self, theta: Any) -> Any:
        self.cost.check_batch(len(theta))
        return scale_items(theta, 1 / self.cost.factor)

    def solve(self, theta: Any, accuracy: Accuracy = USUAL, start: Any = None) -> Equilibrium:
        found = self.inner.solve(self._unscaled(theta), accuracy, start)
        factor = self.cost.factor
        found.value, found.risk, found.gap = factor * found.value, factor * found.risk, factor * found.gap
        return found

    def risk(self, mu: Any) -> Array:
        self.cost.check_batch(len(mu))
        return self.cost.factor * self.inner.risk(mu)

    def evaluate(self, theta: Any, v: Any, accuracy: Accuracy = USUAL, start: Any = None) -> Evaluation:
        found = self.inner.evaluate(self._unscaled(theta), v, accuracy, start)
        gap = None if found.gap is None else self.cost.factor * found.gap
        return Evaluation(self.cost.factor * found.value, found.gradient, gap, found.state)
