"""The contract of a game between a predictor and an adversary, and how one is found for a structure and a cost."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from ..._core import registry
from ..._core.errors import IncompatiblePair
from ..._core.ragged import inner
from ..._core.types import Array
from ...costs.base import AffineForm, Cost, affine_form
from ...structures.base import Accuracy, Structure
from ..base import Evaluation, MoveRule

__all__ = ["USUAL", "Equilibrium", "Game", "find_game"]

USUAL = Accuracy()
"""The default accuracy of each game."""


@dataclass
class Equilibrium:
    """What both players do at the scores of each row, and how exactly that is known.

    ``value`` is what the adversary's q guarantees, min over p of cost(p, q) + ⟨θ, q⟩; what the predictor's p guarantees
    is ``value + gap``, and the game is worth something between. ``risk`` is the first part, −Ω(q). ``state`` starts a
    later call for the same rows: something with one entry for each row that takes an index like an array, or None.
    """

    value: Array
    risk: Array
    adversary: Array
    predictor: Array
    gap: Array
    n_iter: Array
    converged: Array
    state: Any = None


@dataclass(frozen=True)
class Game(ABC):
    """max over q of [min over p of cost(p, q) + ⟨θ, q⟩]: q a point of ``structure``, p a point of ``answers``.

    This is Ω*(θ) for the negative Bayes risk Ω(q) = −min over p of cost(p, q), so whoever solves it has a Fenchel-Young
    loss. A concrete game says with :meth:`refusal` which pairs it is for and implements :meth:`solve` and :meth:`risk`
    on rows (or on :class:`~fenchel.structures.Ragged` items of a family); :meth:`evaluate` is derived and may be
    overridden where loss and residual are cheaper than both players' strategies.
    """

    structure: Structure
    cost: Cost
    checks_scores: ClassVar[bool] = False
    """Whether :meth:`solve` and :meth:`evaluate` look for NaN and +inf themselves, in a pass they make anyway."""

    @classmethod
    def refusal(cls, structure: Structure, cost: Cost) -> str | None:
        """Why this game is not for the pair, or None if it is."""
        return None

    def __getstate__(self) -> dict[str, Any]:
        """The fields alone: what was derived from them is derived again."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @cached_property
    def answers(self) -> Structure:
        """What the predictor mixes."""
        return self.cost.answers_to(self.structure)

    @cached_property
    def form(self) -> AffineForm:
        """The cost as an affine form between answers and truths."""
        return affine_form(self.cost, self.answers, self.structure)

    def form_of(self, rows: Array) -> AffineForm:
        """The affine form for some rows of a batch, where cost or structures differ from one to the next."""
        cost, answers, truths = self.cost.take(rows), self.answers.take(rows), self.structure.take(rows)
        if cost is self.cost and answers is self.answers and truths is self.structure:
            return self.form
        return cost.affine(answers, truths)

    @abstractmethod
    def solve(self, theta: Any, accuracy: Accuracy = USUAL, start: Any = None) -> Equilibrium:
        """The equilibrium for rows of scores. ``start`` is the ``state`` of an earlier one for the same rows."""

    @abstractmethod
    def risk(self, mu: Any) -> Array:
        """min over p of cost(p, μ) = −Ω(μ), for rows of points."""

    def evaluate(self, theta: Any, v: Any, accuracy: Accuracy = USUAL, start: Any = None) -> Evaluation:
        """S(θ; v) = Ω*(θ) + Ω(v) − ⟨θ, v⟩ and its residual q − v, for rows."""
        found = self.solve(theta, accuracy, start)
        residual = found.adversary - v
        gain = found.risk - self.risk(v)
        value = gain + inner(self.structure.center(theta), residual, np.float64)
        return Evaluation(np.maximum(value, 0), residual, found.gap, found.state)

    def move_rule(self) -> MoveRule | None:
        """What dual coordinate ascent needs to know of the loss; None where it has no exact moves for it."""
        return None


def find_game(structure: Structure, cost: Cost, smoothing: float = 0.0, method: str = "auto") -> Game:
    """The game of a structure and a cost: the most special one that the registry knows and that takes the pair.

    Lines of the kind "game" are named by a pair of classes, such as ``"Simplex, ZeroOne"``. Subclasses count, those of
    the cost before those of the structure, so ``"Structure, Cost"`` is the last resort. Smoothed games are lines of the
    kind "smoothed_game", whose classes take the smoothing as a third argument. With ``method="double_oracle"`` it is the double
    oracle, whatever there is.

    >>> from fenchel.costs import CostMatrix, ZeroOne
    >>> from fenchel.losses.games import find_game
    >>> from fenchel.structures import Simplex
    >>> type(find_game(Simplex(3), ZeroOne())).__name__
    'ZeroOneGame'
    >>> type(find_game(Simplex(2), CostMatrix([[0, 5], [1, 0]]))).__name__
    'MatrixGame'
    """
    if method == "double_oracle":
        return _double_oracle(structure, cost, smoothing)
    reasons = []
    for entry in _candidates(structure, cost, "smoothed_game" if smoothing > 0 else "game"):
        game_class: type[Game] = entry.load()
        reason = game_class.refusal(structure, cost)
        if reason is None:
            return game_class(structure, cost, smoothing) if smoothing > 0 else game_class(structure, cost)  # type: ignore[call-arg]
        reasons.append(f"{entry.class_name} {reason}")
    if smoothing > 0:
        raise IncompatiblePair(f"smoothing={smoothing:g} {'; '.join(reasons)}; use smoothing=0 with BlockFrankWolfe()")
    raise IncompatiblePair(f"no game between {structure!r} and {cost!r} can be solved: {'; '.join(reasons)}")


def _double_oracle(structure: Structure, cost: Cost, smoothing: float) -> Game:
    from ...structures.ragged import Family
    from .double_oracle import DoubleOracle, DoubleOracles

    if smoothing > 0:
        raise IncompatiblePair(f"the double oracle plays games without smoothing, but smoothing is {smoothing:g}")
    game_class = DoubleOracles if isinstance(structure, Family) else DoubleOracle
    reason = game_class.refusal(structure, cost)
    if reason is not None:
        raise IncompatiblePair(f"the double oracle {reason}")
    return game_class(structure, cost)


def _candidates(structure: Structure, cost: Cost, kind: str) -> Iterator[registry.Entry]:
    lines = {entry.name: entry for entry in registry.entries(kind)}
    seen = set()
    for cost_class in type(cost).__mro__:
        for structure_class in type(structure).__mro__:
            entry = lines.get(f"{structure_class.__name__}, {cost_class.__name__}")
            if entry is not None and entry.target not in seen:
                seen.add(entry.target)
                yield entry
