"""What games between classes or grades share."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np

from ..._core.checks import check_no_nan
from ..._core.errors import InvalidInput
from ..._core.types import Array
from ...costs.base import Cost
from ...structures.base import Accuracy, Structure
from ..base import Evaluation
from .base import USUAL, Equilibrium, Game

__all__ = ["ClassGame"]


class ClassGame(Game):
    """A game whose truths are classes: potentials f_y = ⟨θ, φ(y)⟩ go in, distributions over classes come out.

    A concrete game implements :meth:`_play`, :meth:`_class_risk` and, where a fused kernel is faster, :meth:`_loss`.
    """

    checks_scores: ClassVar[bool] = True

    @classmethod
    def refusal(cls, structure: Structure, cost: Cost) -> str | None:
        if structure.class_coding is None:
            return "is for classes and grades, such as those of Simplex(k) or OrderSimplex(k)"
        return None

    @abstractmethod
    def _play(self, f: Array) -> Equilibrium:
        """The equilibrium at potentials, in float64, both players as distributions over classes."""

    @abstractmethod
    def _class_risk(self, distribution: Array) -> Array:
        """min over answers of the expected cost under each distribution over truths."""

    def _loss(self, f: Array, v: Array) -> tuple[Array, Array] | None:
        """Loss and residual at potentials and distributions, in one pass; None leaves it to :meth:`_play`."""
        return None

    def solve(self, theta: Any, accuracy: Accuracy = USUAL, start: Any = None) -> Equilibrium:
        f = self.structure.class_potentials(theta)
        found = self._play(f.astype(np.float64, copy=False))
        self._check(found.adversary, theta)
        found.adversary = self.structure.class_mean(found.adversary).astype(theta.dtype, copy=False)
        found.predictor = self.answers.class_mean(found.predictor).astype(theta.dtype, copy=False)
        return found

    def risk(self, mu: Any) -> Array:
        return self._class_risk(self.structure.class_distribution(mu))

    def evaluate(self, theta: Any, v: Any, accuracy: Accuracy = USUAL, start: Any = None) -> Evaluation:
        f = self.structure.class_potentials(theta)
        distribution = self.structure.class_distribution(v)
        fused = self._loss(f, distribution.astype(f.dtype, copy=False))
        if fused is None:
            return super().evaluate(theta, v, accuracy, start)
        value, residual = fused
        self._check(residual, theta)
        return Evaluation(np.maximum(value, 0), self.structure.class_mean(residual).astype(theta.dtype, copy=False))

    def _check(self, answered: Array, theta: Array) -> None:
        missing = np.isnan(answered[:, 0]) if answered.shape[1] else np.zeros(0, bool)
        if missing.any():
            check_no_nan(theta, "scores", self.structure)
            raise InvalidInput(f"scores forbid every class (all are -inf) at sample {int(missing.argmax())}")

    @staticmethod
    def _exact(value: Array, risk: Array, q: Array, p: Array) -> Equilibrium:
        n = len(value)
        return Equilibrium(value, risk, q, p, np.zeros(n), np.zeros(n, np.int64), np.ones(n, bool))
