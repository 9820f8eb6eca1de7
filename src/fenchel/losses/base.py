"""The contract of a training loss, and what it hands to a decoder."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from .._core.checks import check_no_nan
from .._core.errors import IncompatiblePair, InvalidInput, MissingOracle
from .._core.ragged import Ragged
from .._core.types import Array, ArrayLike
from ..structures.base import Structure

__all__ = ["Evaluation", "Loss", "MoveRule", "Output", "SharedLosses"]


@dataclass
class Evaluation:
    """Losses and their gradients, and what is known of how exact they are."""

    value: Array
    gradient: Array
    gap: Array | None = None
    """How far at most each value lies below the true one; None where values are exact."""
    state: Any = None
    """What starts a later evaluation of the same examples: it takes an index like an array. None where nothing does."""


@dataclass
class SharedLosses:
    """Losses where the scores of an example are one number plus offsets for all; their residual is the mean of two grades,
    ``low`` and ``high``, less the true one."""

    value: Array
    low: Array
    high: Array
    grades: Array


@dataclass(frozen=True)
class MoveRule:
    """How a dual variable of a loss takes its best value, in the words of ``kernels.dual_coordinate``."""

    kind: int
    price: float = 1.0
    tables: tuple[Array, Array, Array, Array] = (np.zeros((0, 0)),) * 4
    """For sums of hinges: weights of those that push up and of those that push down, and the margins of both."""

    def conjugate_at_zero(self, y: Array) -> Array:
        """L*(0), where dual variables start, for examples of these classes: minus the least loss."""
        if not self.tables[0].size:
            return np.zeros(len(y))
        up, down, up_margin, down_margin = self.tables
        crossing = np.maximum(up_margin + down_margin, 0)  # both push where they meet
        return -np.asarray((np.minimum(up, down) * crossing).sum(axis=1)[y])


class Loss(ABC):
    """A loss S(θ; v) between scores θ and a point v of a structure's hull (a truth φ(y), or a dual variable).

    Values are per example; the gradient in θ is the residual ``predict(theta) - v`` (times the multiplier).
    """

    structure: Structure
    multiplier: float = 1.0
    """A factor on the loss that leaves predictions alone."""
    identifies: ClassVar[bool] = True
    """Whether the loss is positive wherever the prediction is not the truth."""
    convex: ClassVar[bool] = True
    """Whether it is convex in the scores: all are but a few, and solvers that bound the minimum refuse those."""
    relaxed: ClassVar[bool] = False
    """Whether predictions lie in a larger set than the hull of the structure, in which decoders look for its outputs."""

    @property
    @abstractmethod
    def smoothness(self) -> float:
        """A Lipschitz constant of the gradient in the Euclidean norm; infinite for a loss with kinks."""

    @property
    def differentiable(self) -> bool:
        """Whether the loss has a gradient everywhere (Ω is strictly convex)."""
        return bool(np.isfinite(self.smoothness))

    @property
    def typical_curvature(self) -> float:
        """About how curved the loss is where training ends, for preconditioning; the smoothness is the most.

        0.3 of it, by iteration counts over digits, wine, breast cancer and Gaussian data at alpha 1e-4 and 1e-2.
        """
        return 0.3 * self.smoothness

    @property
    def has_omega(self) -> bool:
        """Whether :meth:`omega` is exact, and cheap, at all points of the hull and not only at vertices."""
        return False

    @property
    def strong_convexity(self) -> float:
        """A modulus of strong convexity of Ω in the Euclidean norm (0 where there is none); solvers step by it."""
        return 0.0 if np.isinf(self.smoothness) else self.multiplier / self.smoothness

    @abstractmethod
    def value_and_grad(self, theta: ArrayLike, v: ArrayLike) -> tuple[Array, Array]:
        """The loss of each example and its gradient in θ."""

    def evaluate(self, theta: ArrayLike, v: ArrayLike, start: Any = None) -> Evaluation:
        """Losses and gradients with their accuracy, for solvers; a batch with one axis.

        A loss whose oracle iterates overrides this, so that a solver can hand back the ``state`` of an earlier
        evaluation of the same examples as ``start``. The loss itself stays a frozen value.
        """
        return Evaluation(*self.value_and_grad(theta, v))

    def value(self, theta: ArrayLike, v: ArrayLike) -> Array:
        """The loss of each example."""
        return self.value_and_grad(theta, v)[0]

    @abstractmethod
    def predict(self, theta: ArrayLike) -> Array:
        """∇Ω*(θ), the prediction in the hull."""

    @abstractmethod
    def omega(self, mu: ArrayLike) -> Array:
        """Ω(μ) of each point (without the multiplier)."""

    def omega_and_grad(self, mu: Any) -> tuple[Array, Any]:
        """Ω(μ) and ∇Ω(μ) of rows of points, without the multiplier, where Ω is smooth: what dual methods need."""
        raise MissingOracle(f"{self!r} does not know the gradient of its Ω; use LBFGS() or BlockFrankWolfe()")

    def output(self, theta: ArrayLike) -> Output:
        """What a decoder takes: the scores and, computed when first asked for, the marginals."""
        rows, batch = self._scores(theta)
        # items of different sizes stay one ragged array: what decoders do with it is arithmetic
        return Output(self, rows if isinstance(rows, Ragged) else self.structure.restore(rows, batch))

    def on_thresholds(self, s: Array, offsets: Array, grades: Array) -> SharedLosses | None:
        """The losses of grades at the scores s_i + offset_j, where that is faster than writing them out; else None."""
        return None

    def move_rule(self) -> MoveRule | None:
        """What dual coordinate ascent needs to know; None where it has no exact moves for this loss."""
        return None

    def take(self, idx: Any) -> Loss:
        """The loss for some examples of the batch; itself unless its structure or its cost differ from one to the next."""
        parts = {name: part for name in ("structure", "cost") if (part := getattr(self, name, None)) is not None}
        taken = {name: part.take(idx) for name, part in parts.items()}
        if all(taken[name] is part for name, part in parts.items()):
            return self
        made: Loss = dataclasses.replace(self, **taken)  # type: ignore[type-var]
        return made

    def check_truths(self, v: Array) -> None:
        """Refuse points outside the hull, where the loss would be infinite; solvers call it once before they start."""
        off = np.atleast_1d(self.structure.violation(v))
        if off.size and off.max() > 1e-6:
            i = int(off.argmax())
            raise InvalidInput(
                f"the truth of sample {i} lies outside {self.structure!r} (by {off[i]:.2g}), so its loss is infinite"
            )

    def _scores(self, theta: ArrayLike) -> tuple[Array, tuple[int, ...]]:
        """Rows of scores; the structure's oracles look at their values."""
        return self.structure.as_rows(theta, "scores")

    def _pair(self, theta: ArrayLike, v: ArrayLike, *, known: bool = False) -> tuple[Array, Array, tuple[int, ...]]:
        """Scores and points as rows; ``known`` points were checked before (a solver's truths)."""
        rows, batch = self._scores(theta)
        points, point_batch = self.structure.as_rows(v, "points v")
        if batch != point_batch:
            raise InvalidInput(f"scores have batch shape {batch} but points v have {point_batch}")
        if not known:
            check_no_nan(points, "points v", self.structure, forbid_parts=False)
        return rows, points.astype(rows.dtype, copy=False), batch

    def _per_example(self, values: Array, rows: Array, batch: tuple[int, ...]) -> Array:
        """Values of rows in the type of the scores and the shape of the batch."""
        shaped: Array = values.astype(rows.dtype, copy=False).reshape(batch)[()]
        return shaped

    @staticmethod
    def _require(structure: Structure, oracle: str, needed_by: str) -> None:
        reason = structure.missing().get(oracle)
        if reason is not None:
            raise IncompatiblePair(
                f"{needed_by} needs the oracle {oracle!r}, which {structure!r} does not have: {reason}"
            )


class Output:
    """Scores and what a loss predicts from them, each computed when first asked for."""

    def __init__(self, loss: Loss, scores: Array) -> None:
        self.loss = loss
        self.structure = loss.structure
        self.scores = scores

    @property
    def answers(self) -> Structure:
        """The structure of :attr:`predictor`."""
        return self.structure

    @cached_property
    def marginals(self) -> Array:
        """The model's μ = ∇Ω*(θ)."""
        return self.loss.predict(self.scores)

    @property
    def predictor(self) -> Array:
        """What the model itself would answer, as a point of the hull of :attr:`answers`: μ, or the p* of a game."""
        return self.marginals
