"""Games that fall apart into independent ones: the number of wrong parts of a product or a set of labels."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from ..._core.errors import IncompatiblePair
from ..._core.ragged import inner
from ..._core.types import Array
from ...costs.base import Cost
from ...structures.base import Accuracy, Structure
from ...structures.cube import Cube
from ...structures.product import Product
from .base import USUAL, Equilibrium, Game, find_game

__all__ = ["CubeGame", "ProductGame"]


class ProductGame(Game):
    """The number of wrong parts of a product: one game for each factor, as both players mix each part freely."""

    structure: Product

    @classmethod
    def refusal(cls, structure: Structure, cost: Cost) -> str | None:
        if not isinstance(structure, Product):
            return "is for products of structures"
        try:
            find_game(structure.structure, cost)
        except IncompatiblePair as error:
            return f"plays factor by factor, and {error}"
        return None

    @cached_property
    def factor(self) -> Game:
        return find_game(self.structure.structure, self.cost)

    def solve(self, theta: Any, accuracy: Accuracy = USUAL, start: Any = None) -> Equilibrium:
        n, times = len(theta), self.structure.times
        states = None if start is None else np.concatenate([np.asarray(s, object) for s in start])

        def play(structure: Structure, parts: Array) -> Equilibrium:
            game = self.factor if structure is self.structure.structure else find_game(structure, self.cost)
            return game.solve(parts, accuracy, states)

        part = self.structure._factors(play, theta)
        state = None
        if part.state is not None:
            state = np.empty(n, object)
            for i in range(n):
                state[i] = part.state[i * times : (i + 1) * times]
        return Equilibrium(
            part.value.reshape(n, times).sum(axis=1),
            part.risk.reshape(n, times).sum(axis=1),
            part.adversary.reshape(theta.shape),
            part.predictor.reshape(theta.shape),
            part.gap.reshape(n, times).sum(axis=1),
            part.n_iter.reshape(n, times).max(axis=1, initial=0),
            np.asarray(part.converged.reshape(n, times).all(axis=1)),
            state,
        )

    def risk(self, mu: Any) -> Array:
        return self.factor.risk(self.structure._split(mu)).reshape(len(mu), self.structure.times).sum(axis=1)


class CubeGame(Game):
    """The number of wrong labels of any subset: for each label alone Ω*(θ) = max(0, θ, (1 + θ)/2), O(k) a row.

    Between −1 and 1 the adversary plays one half and the predictor (1 + θ)/2.
    """

    @classmethod
    def refusal(cls, structure: Structure, cost: Cost) -> str | None:
        return None if type(structure) is Cube else "is for any subset of labels"

    def solve(self, theta: Any, accuracy: Accuracy = USUAL, start: Any = None) -> Equilibrium:
        n = len(theta)
        unsure = np.abs(theta) < 1
        q = np.where(unsure, 0.5, theta >= 1).astype(theta.dtype)
        p = np.clip((1 + theta) / 2, 0, 1)
        risk = 0.5 * unsure.sum(axis=1)
        value = risk + inner(theta, q)
        return Equilibrium(value, risk, q, p, np.zeros(n), np.zeros(n, np.int64), np.ones(n, bool))

    def risk(self, mu: Any) -> Array:
        return np.minimum(mu, 1 - mu).sum(axis=1)
