"""Sums of binary hinges: one for each class, each threshold or each pair of classes."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, TypeAlias

import numpy as np

from ..._core import parallel
from ..._core.errors import InvalidInput
from ..._core.types import Array
from ...costs.base import Cost, cost_table
from ...kernels import margins as kernels
from ...kernels.dual_coordinate import HINGES, LEE_LIN_WAHBA
from ...structures.abstention import Abstention
from ...structures.base import Structure
from ...structures.finite import Finite
from ..base import MoveRule
from .base import MarginLoss, require_classes

__all__ = [
    "AllThresholds",
    "CostSensitiveOneVsAll",
    "CostSensitiveOneVsOne",
    "ImmediateThresholds",
    "LeeLinWahba",
    "OneSidedRegression",
    "OneVsAll",
    "ThresholdReduction",
]

_Tables: TypeAlias = tuple[Array, Array, Array, Array]


class HingeTable(MarginLoss):
    """Σ_b u[y, b] (m[y, b] − θ_b)_+ + d[y, b] (n[y, b] + θ_b)_+ for tables u, d, m, n of true class by score."""

    @abstractmethod
    def _tables(self) -> _Tables:
        """Weights of hinges that push up, of those that push down, and the margins of both."""

    @cached_property
    def tables(self) -> _Tables:
        up, down, up_margin, down_margin = (np.ascontiguousarray(t, dtype=np.float64) for t in self._tables())
        return up, down, up_margin, down_margin

    def __getstate__(self) -> dict[str, Any]:
        """The fields alone: the tables are derived from them."""
        return {name: getattr(self, name) for name in type(self).__dataclass_fields__}  # type: ignore[attr-defined]

    def _losses(self, f: Array, y: Array, value: Array, gradient: Array) -> None:
        parallel.run(kernels.hinge_table, len(f), f.size, f, y, *self.tables, value, gradient)

    def _answer(self, f: Array) -> Array:
        return np.asarray(f.argmax(axis=1))

    def move_rule(self) -> MoveRule:
        return MoveRule(HINGES, tables=self.tables)


def _unit_margins(up: Array, down: Array) -> _Tables:
    return up, down, np.ones(up.shape), np.ones(up.shape)


@dataclass(frozen=True)
class OneVsAll(HingeTable):
    """(1 − θ_y)_+ + Σ over j ≠ y of (1 + θ_j)_+: each class against the rest, O(k). A margin loss.

    With ``abstain_below`` it answers only where the best score is above that (0 by default in the reference) and
    abstains elsewhere; training is the same.

    Reference: Ramaswamy, Tewari and Agarwal, "Consistent algorithms for multiclass classification with an abstain
    option", 2018.

    >>> from fenchel.losses import OneVsAll
    >>> from fenchel.structures import Simplex
    >>> float(OneVsAll(Simplex(3)).value([0.5, -1.0, -0.5], [1.0, 0.0, 0.0]))
    1.0
    >>> loss = OneVsAll(Simplex(3), abstain_below=0.0)
    >>> loss.output([-0.5, -1.0, -0.5]).predictor
    array([0., 0., 0., 1.])
    """

    structure: Structure
    abstain_below: float | None = None

    def __post_init__(self) -> None:
        require_classes(self, "one_hot", "Simplex(k)")
        if self.abstain_below is not None and not np.isfinite(self.abstain_below):
            raise InvalidInput(f"abstain_below is {self.abstain_below!r}, expected a finite number or None")

    @property
    def answers(self) -> Structure:
        return self.structure if self.abstain_below is None else Abstention(self.structure.dim)

    def _tables(self) -> _Tables:
        own = np.eye(self.structure.dim)
        return _unit_margins(own, 1 - own)

    def _mode(self, f: Array) -> Array:
        return np.asarray(f.argmax(axis=1))

    def _answer(self, f: Array) -> Array:
        best = self._mode(f)
        return best if self.abstain_below is None else np.where(f.max(axis=1) > self.abstain_below, best, -1)


@dataclass(frozen=True)
class LeeLinWahba(HingeTable):
    """Σ over j ≠ y of (1 + f_j)_+ for scores that sum to zero, f = θ − mean(θ), O(k). A margin loss, consistent.

    Centering the scores inside the loss is the constraint of the reference: a ridge penalty keeps no constant part.

    Reference: Lee, Lin and Wahba, "Multicategory support vector machines", 2004.

    >>> from fenchel.losses import LeeLinWahba
    >>> from fenchel.structures import Simplex
    >>> float(LeeLinWahba(Simplex(3)).value([3.0, 0.0, 0.0], [1.0, 0.0, 0.0]))
    0.0
    """

    structure: Structure

    def __post_init__(self) -> None:
        require_classes(self, "one_hot", "Simplex(k)")

    def _tables(self) -> _Tables:
        own = np.eye(self.structure.dim)
        return _unit_margins(np.zeros(own.shape), 1 - own)

    def _losses(self, f: Array, y: Array, value: Array, gradient: Array) -> None:
        super()._losses(f - f.mean(axis=1, keepdims=True), y, value, gradient)
        gradient -= gradient.mean(axis=1, keepdims=True)

    def move_rule(self) -> MoveRule:
        return MoveRule(LEE_LIN_WAHBA)


@dataclass(frozen=True)
class ThresholdReduction(HingeTable):
    """Σ over thresholds j of |C[j, y] − C[j + 1, y]| (1 ∓ θ_j)_+: ordinal regression as weighted binary questions.

    Score j answers whether the grade is above j, and counts for the difference in cost that it makes. The answer is
    the number of positive scores. With a score for each threshold from features of its own this is RED-mc, with one
    direction shared by all (threshold features) it is RED-th. O(k). A margin loss.

    Reference: Li and Lin, "Ordinal regression by extended binary classification", 2007.

    >>> from fenchel.costs import SquaredError
    >>> from fenchel.losses import ThresholdReduction
    >>> from fenchel.structures import OrderSimplex
    >>> loss = ThresholdReduction(OrderSimplex(3), SquaredError())
    >>> float(loss.value([0.0, 0.0], [0.0, 0.0]))  # the first grade: thresholds count 1 and 3
    4.0
    """

    structure: Structure
    cost: Cost

    def __post_init__(self) -> None:
        require_classes(self, "thresholds", "OrderSimplex(k)")
        self._tables()  # a cost that is none between grades is refused here

    def _weights(self) -> Array:
        table = cost_table(self.cost, self.structure, self.structure)
        return np.abs(np.diff(table, axis=0)).T

    def _tables(self) -> _Tables:
        passed = self.structure.vertices()
        weights = self._weights()
        return _unit_margins(weights * passed, weights * (1 - passed))

    def _answer(self, f: Array) -> Array:
        return np.asarray((f > 0).sum(axis=1))


@dataclass(frozen=True)
class AllThresholds(ThresholdReduction):
    """Σ over thresholds j of (1 ∓ θ_j)_+: every threshold on the wrong side counts, O(k). A margin loss.

    With a kernel it is SVORIM. It is ``ThresholdReduction`` with the absolute cost.

    References: Shashua and Levin, "Ranking with large margin principle: two approaches", 2003; Chu and Keerthi, "New
    approaches to support vector ordinal regression", 2005.

    >>> from fenchel.losses import AllThresholds
    >>> from fenchel.structures import OrderSimplex
    >>> float(AllThresholds(OrderSimplex(4)).value([0.5, -2.0, -2.0], [1.0, 1.0, 0.0]))
    3.5
    """

    cost: Cost = None  # type: ignore[assignment]

    def _weights(self) -> Array:
        return np.ones((self.structure.dim + 1, self.structure.dim))


@dataclass(frozen=True)
class ImmediateThresholds(AllThresholds):
    """(1 − θ_{y−1})_+ + (1 + θ_y)_+: only the two thresholds next to the true grade count, O(k). A margin loss.

    With a kernel it is SVOREX. Where thresholds need not be in order, several grades may have the loss zero at once.

    References: Shashua and Levin, "Ranking with large margin principle: two approaches", 2003; Chu and Keerthi, "New
    approaches to support vector ordinal regression", 2005.

    >>> from fenchel.losses import ImmediateThresholds
    >>> from fenchel.structures import OrderSimplex
    >>> float(ImmediateThresholds(OrderSimplex(4)).value([-0.5, 0.5, 0.0], [0.0, 0.0, 0.0]))
    0.5
    """

    identifies: ClassVar[bool] = False

    def _weights(self) -> Array:
        k = self.structure.dim + 1
        grade, threshold = np.indices((k, k - 1))
        return ((threshold == grade - 1) | (threshold == grade)).astype(float)


@dataclass(frozen=True)
class OneSidedRegression(HingeTable):
    """Scores regress the negative costs from one side: (−C[y*, y] − θ_{y*})_+ + Σ over the others of (C[j, y] + θ_j)_+.

    −θ_j estimates what answering j costs; for the cheapest answers it must not be too high, for the others not too
    low. O(k). A margin loss.

    Reference: Tu and Lin, "One-sided support vector regression for multiclass cost-sensitive classification", 2010.

    >>> from fenchel.costs import Absolute
    >>> from fenchel.losses import OneSidedRegression
    >>> from fenchel.structures import Simplex
    >>> float(OneSidedRegression(Simplex(3), Absolute()).value([0.0, 0.0, -2.0], [1.0, 0.0, 0.0]))
    1.0
    """

    structure: Structure
    cost: Cost

    def __post_init__(self) -> None:
        require_classes(self, "one_hot", "Simplex(k)")
        self._tables()  # refuses a cost that is none between classes

    def _tables(self) -> _Tables:
        costs = cost_table(self.cost, self.structure, self.structure).T
        cheapest = (costs == costs.min(axis=1, keepdims=True)).astype(float)
        return cheapest, 1 - cheapest, -costs, costs


@dataclass(frozen=True)
class CostSensitiveOneVsAll(HingeTable):
    """One-vs-all where mistakes count what they cost: (1 − θ_j)_+ for the cheapest answers, (1 + θ_j)_+ for the others.

    Score j says whether j is a cheapest answer to y. A yes counts max(C[·, y]) − min(C[·, y]), a no C[j, y] − min(C[·, y]).
    O(k). A margin loss. (Writing an example as one of every class j with the weight max(C[·, y]) − C[j, y] is another
    reduction, which fails with hinges: with the absolute cost of five grades or more the noes to each question outweigh
    the yes of every single example, so that θ = −1 everywhere is the minimum, whatever the inputs.)

    Reference: Lin, "From ordinal ranking to binary classification", 2008, proposes cost-sensitive one-vs-all; these
    weights are ours.

    >>> from fenchel.costs import ZeroOne
    >>> from fenchel.losses import CostSensitiveOneVsAll, OneVsAll
    >>> from fenchel.structures import Simplex
    >>> truth = [1.0, 0.0, 0.0]
    >>> loss = CostSensitiveOneVsAll(Simplex(3), ZeroOne())
    >>> bool(loss.value([0.2, 0.1, 0.0], truth) == OneVsAll(Simplex(3)).value([0.2, 0.1, 0.0], truth))
    True
    """

    structure: Structure
    cost: Cost

    def __post_init__(self) -> None:
        require_classes(self, "one_hot", "Simplex(k)")
        self._tables()  # refuses a cost that is none between classes

    def _tables(self) -> _Tables:
        costs = cost_table(self.cost, self.structure, self.structure).T
        least = costs.min(axis=1, keepdims=True)
        return _unit_margins((costs == least) * (costs.max(axis=1, keepdims=True) - least), costs - least)


@dataclass(frozen=True)
class CostSensitiveOneVsOne(HingeTable):
    """A score for each pair i < j of classes, with the hinge of the cheaper one weighted by |C[i, y] − C[j, y]|.

    Positive scores vote for i, others for j; the answer has most votes. There are k (k − 1)/2 scores, so truths are
    written by pairs: 1 where the truth is the first of the pair, 0 where it is the second, one half elsewhere
    (``loss.structure``). O(k²). A margin loss.

    Reference: Lin, "Reduction from cost-sensitive multiclass classification to one-versus-one binary classification",
    2014.

    >>> from fenchel.costs import Absolute
    >>> from fenchel.losses import CostSensitiveOneVsOne
    >>> from fenchel.structures import Simplex
    >>> loss = CostSensitiveOneVsOne(Simplex(3), Absolute())
    >>> loss.structure.encode(0)
    array([1. , 1. , 0.5])
    >>> float(loss.value([0.0, 0.0, 0.0], loss.structure.encode(0)))
    4.0
    """

    classes: Structure
    cost: Cost

    def __post_init__(self) -> None:
        if not isinstance(self.classes, Structure) or self.classes.class_coding is None or self._k < 2:
            raise InvalidInput(f"classes is {self.classes!r}, expected a structure of two or more classes, Simplex(k)")
        self._tables()  # refuses a cost that is none between classes

    @property
    def _k(self) -> int:
        return self.classes.n_vertices or 0

    @cached_property
    def structure(self) -> Structure:  # type: ignore[override]
        """The classes, written by pairs."""
        first, second = np.triu_indices(self._k, 1)
        own = np.arange(self._k)[:, None]
        return Finite(0.5 + 0.5 * (first == own) - 0.5 * (second == own))

    def take(self, idx: Any) -> CostSensitiveOneVsOne:
        return self

    def _tables(self) -> _Tables:
        costs = cost_table(self.cost, self.classes, self.classes).T
        first, second = np.triu_indices(self._k, 1)
        lead = costs[:, second] - costs[:, first]  # how much cheaper the first of the pair is
        return _unit_margins(np.maximum(lead, 0), np.maximum(-lead, 0))

    def _answer(self, f: Array) -> Array:
        first, second = np.triu_indices(self._k, 1)
        votes = np.zeros((len(f), self._k))
        for pair in range(f.shape[1]):
            won = f[:, pair] > 0
            votes[:, first[pair]] += won
            votes[:, second[pair]] += ~won
        return np.asarray(votes.argmax(axis=1))
