"""Games on families of structures, member by member."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._core.errors import IncompatiblePair
from ..._core.ragged import Ragged
from ..._core.types import Array
from ...costs.base import Cost
from ...structures.base import Accuracy, Structure
from ...structures.ragged import Family
from .base import USUAL, Equilibrium, Game, find_game

__all__ = ["FamilyGame"]


class FamilyGame(Game):
    """The game of each item is that of its own member: one call for all items of a size.

    A family whose games can be played for all sizes at once has a game of its own; this one is for the others.
    """

    structure: Family

    @classmethod
    def refusal(cls, structure: Structure, cost: Cost) -> str | None:
        if not isinstance(structure, Family):
            return "is for items of many sizes"
        if cost.answers_to(structure) != structure:
            return "needs answers of the same family as the truths"
        try:
            find_game(structure.example, cost)
        except IncompatiblePair as error:
            return f"plays member by member, and {error}"
        return None

    def on(self, member: Structure, items: Any) -> Game:
        """The game of some items of one member."""
        return find_game(member, self.cost.take(items))

    def solve(self, theta: Any, accuracy: Accuracy = USUAL, start: Any = None) -> Equilibrium:
        n = len(theta)
        found = Equilibrium(
            np.zeros(n), np.zeros(n), Ragged.empty(theta.sizes, theta.dtype), Ragged.empty(theta.sizes, theta.dtype),  # type: ignore[arg-type]
            np.zeros(n), np.zeros(n, np.int64), np.ones(n, bool), np.empty(n, object),
        )  # fmt: skip
        for member, items in self.structure.groups(theta):
            states = None if start is None else start[items]
            part = self.on(member, items).solve(theta.rows(items, member.shape), accuracy, states)
            found.value[items], found.risk[items], found.gap[items] = part.value, part.risk, part.gap
            found.n_iter[items], found.converged[items] = part.n_iter, part.converged
            found.adversary.set_rows(items, part.adversary)  # type: ignore[attr-defined]
            found.predictor.set_rows(items, part.predictor)  # type: ignore[attr-defined]
            if part.state is None:
                found.state = None
            elif found.state is not None:
                for i, state in zip(items.tolist(), part.state, strict=True):
                    found.state[i] = state
        return found

    def risk(self, mu: Any) -> Array:
        out = np.zeros(len(mu))
        for member, items in self.structure.groups(mu):
            out[items] = self.on(member, items).risk(mu.rows(items, member.shape))
        return out
