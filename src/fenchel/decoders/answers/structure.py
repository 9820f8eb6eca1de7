"""One argmax, where the cost is affine on a structure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..._core.errors import IncompatiblePair
from ..._core.types import Array
from ...costs.base import Cost, affine_form
from ...structures.base import Structure
from ...structures.ragged import Family
from .base import Answers, Search

__all__ = ["StructureAnswers"]


@dataclass(frozen=True)
class StructureAnswers(Answers):
    """Answers from a structure on which the cost is affine, L(ŷ, y) = ⟨φ(ŷ), Vφ(y) + b⟩ + c(y): one argmax.

    Σ_i α_i L(ŷ, y_i) = ⟨φ(ŷ), Σ_i α_i (Vφ(y_i) + b)⟩ + Σ_i α_i c(y_i), whatever signs the weights have and whatever they sum to.

    >>> import numpy as np
    >>> from fenchel.costs import Absolute
    >>> from fenchel.decoders.answers import StructureAnswers
    >>> from fenchel.structures import OrderSimplex
    >>> search = StructureAnswers(OrderSimplex(4)).search(Absolute(), np.array([0, 3, 2]))
    >>> weights = np.array([[0.5, 0.4, 0.3]])
    >>> search.answers(weights @ search.embedding)
    array([2])
    """

    structure: Structure

    def search(self, cost: Cost, truths: Array) -> Search:
        return _StructureSearch(cost, truths, self.structure)


class _StructureSearch(Search):
    costs_from_means = True

    def __init__(self, cost: Cost, truths: Array, structure: Structure) -> None:
        super().__init__(cost, truths)
        if isinstance(structure, Family):
            raise IncompatiblePair(f"{structure!r} has items of many sizes; answers need one size, or Candidates()")
        reason = structure.missing().get("argmax")
        if reason:
            raise IncompatiblePair(f"{structure!r} cannot be searched: {reason}")
        self.structure = structure
        answers = cost.answers_to(structure)
        self.form = affine_form(cost, answers, structure)
        points = structure.encode(truths)
        wishes = np.asarray(self.form.apply(points), dtype=np.float64)
        constants = np.asarray(self.form.constant(points), dtype=np.float64)
        self.embedding = np.column_stack([wishes.reshape(len(truths), -1), constants])

    def answers(self, means: Array) -> Array:
        answers = self.form.answers
        wishes = -means[:, :-1].reshape(len(means), *answers.shape)
        return np.asarray(answers.decode(answers.argmax(wishes)))

    def costs(self, means: Array, answers: Array) -> Array:
        points = self.form.answers.encode(answers).reshape(len(answers), -1)
        return np.asarray(np.einsum("ij,ij->i", means[:, :-1], points) + means[:, -1])
