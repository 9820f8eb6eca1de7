"""The contract of a solver, and the training objective they all share.

    P(w) = Σ p_i S(θ_i(w); v_i) + alpha/2 ‖w‖²,   p_i = sample_weight_i / Σ sample_weight

For dual variables μ_i in the hull, w(μ) = (1/alpha) Σ p_i A_iᵀ(v_i − μ_i), and for any weights w

    P(w) − min P ≤ gap = Σ p_i S(θ_i(w); μ_i) + alpha/2 ‖w − w(μ)‖².

With ``penalty="l1"`` the last term of P is alpha ‖w‖₁, and dual variables must keep Σ p_i A_iᵀ(v_i − μ_i) within ±alpha.
With ``penalty="norm"`` it is alpha ‖w‖₂, and that vector must be no longer than alpha: an adversary who may move the mean
features of the examples by at most alpha (Li et al., "Moment distributionally robust tree structured prediction", 2022).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from .._core import registry
from .._core.checks import check_choice, check_finite_positive
from .._core.errors import IncompatiblePair, InvalidInput, warn_user
from .._core.parallel import single_blas_thread
from .._core.ragged import Ragged, inner, scale_items
from .._core.types import Array
from ..losses.base import Evaluation, Loss, SharedLosses
from ..scorers.base import Index, Scorer
from ..scorers.thresholds import Thresholds

__all__ = ["PENALTIES", "Callback", "Objective", "Progress", "Result", "Solver"]

PENALTIES = ("l2", "l1", "norm")
"""The names of alpha/2 ‖w‖², alpha ‖w‖₁ and alpha ‖w‖₂."""


# Numbers of scores that are worked on at a time; more are taken in parts.
_PART = 100_000


@dataclass(frozen=True)
class Progress:
    """What a callback sees after each iteration; returning True stops the solver."""

    n_iter: int
    value: float
    gap: float
    w: Array


Callback = Callable[[Progress], Any]


@dataclass
class Result:
    """The weights found and how good they are: ``value - gap`` bounds the least objective from below."""

    w: Array
    value: float
    gap: float
    n_iter: int
    converged: bool
    interrupted: bool = False
    stopped: bool = False
    """Whether it ended early because that was asked for, by the callback or by the solver's own rule."""
    dual: Any = None
    """What a dual solver needs to go on from here."""
    history: list[tuple[int, float, float]] = field(default_factory=list)
    """(iteration, objective, gap) after each iteration."""


class Objective:
    """P(w) for one training set, with its certificate."""

    def __init__(
        self,
        scorer: Scorer,
        loss: Loss,
        v: Array,
        alpha: float,
        sample_weight: Array | None,
        penalty: str = "l2",
    ) -> None:
        self.scorer = scorer
        self.loss = loss
        self.v = v
        self.l1 = check_choice(penalty, "penalty", PENALTIES) == "l1"
        self.alpha = check_finite_positive(alpha, "alpha", zero=True)
        self.norm = penalty == "norm" and self.alpha > 0
        """Whether the penalty is the norm itself; with an alpha of zero all penalties are none."""
        n = scorer.n_examples
        if len(v) != n:
            raise InvalidInput(f"there are {n} inputs but {len(v)} truths")
        if n == 0:
            raise InvalidInput("there are no examples to learn from")
        loss.check_truths(v)
        self.inner_gap = 0.0
        """What the losses of the last evaluation of all examples may lie below the true ones, on average."""
        self._state: Any = None
        self._parts: list[slice] = _parts_of(v) if isinstance(v, Ragged) else []
        self.p: Array | None = None
        if sample_weight is not None:
            weights = np.asarray(sample_weight, dtype=np.float64)
            if weights.shape != (n,):
                raise InvalidInput(f"sample_weight has shape {weights.shape}, expected ({n},)")
            if not (np.isfinite(weights).all() and weights.min() >= 0 and weights.sum() > 0):
                raise InvalidInput("sample_weight must be finite and not negative, with a positive sum")
            if np.ptp(weights) > 0:
                self.p = weights / weights.sum()

    def shares(self, idx: Index = None) -> Array | float:
        """The weights p_i, as one number where they are all the same."""
        if self.p is None:
            return 1.0 / self.scorer.n_examples
        return self.p if idx is None else self.p[idx]

    def mean(self, values: Array) -> float:
        return float(values.mean(dtype=np.float64)) if self.p is None else float(self.p @ values)

    def weighted_adjoint(self, residual: Array) -> Array:
        """Σ p_i A_iᵀ r_i."""
        if self.p is None:
            return self.scorer.adjoint(residual) / self.scorer.n_examples
        return self.scorer.adjoint(scale_items(residual, self.p))

    def evaluate(self, theta: Array, idx: Any = None) -> Evaluation:
        """The losses of all examples, or some, going on from where the loss's own iterations ended for each."""
        if idx is None:
            found = self.loss.evaluate(theta, self.v, self._state)
            self._state = found.state
            self.inner_gap = 0.0 if found.gap is None else self.mean(found.gap)
            return found
        start = None if self._state is None else self._state[idx]
        found = self.loss.take(idx).evaluate(theta, self.v[idx], start)
        if self._state is not None:
            self._state[idx] = found.state
        return found

    def mean_loss(self, w: Array) -> tuple[float, Array]:
        """The weighted mean of the losses and its gradient, without the penalty."""
        if self._parts:
            found = self._mean_loss_by_parts(w)
            if found is not None:
                return found
        mean, residual = self.mean_at(self.scores(w))
        return mean, self.weighted_adjoint(residual)

    def _mean_loss_by_parts(self, w: Array) -> tuple[float, Array] | None:
        """The same, of a part of the examples after the other, so that scores and residuals are never all there at once.

        None, and never again, for a loss that iterates: it goes on from where it was for all examples together.
        """
        mean, gradient = 0.0, np.zeros(self.scorer.weights_shape)
        for idx in self._parts:
            found = self.loss.take(idx).evaluate(self.scorer.scores(w, idx), self.v[idx])
            if found.state is not None or found.gap is not None:
                self._parts = []
                return None
            residual = found.gradient
            if self.p is None:
                mean += float(found.value.sum(dtype=np.float64))
            else:
                mean += float(self.p[idx] @ found.value)
                residual = scale_items(residual, self.p[idx])
            gradient += self.scorer.adjoint(residual, idx)
        n = 1 if self.p is not None else self.scorer.n_examples
        return mean / n, gradient / n

    # Solvers that look at the whole mean loss, and not at each example, ask these; scores and residuals are theirs to hand
    # back and mix only.

    def scores(self, w: Array) -> Any:
        """The scores of all examples."""
        return self.scorer.scores(w)

    def mean_at(self, theta: Any) -> tuple[float, Any]:
        """The weighted mean of the losses at scores, and their residuals."""
        found = self.evaluate(theta)
        return self.mean(found.value), found.gradient

    def mix(self, theta: Any, other: Any, share: float) -> Any:
        """Scores on the line to others, or None where some are -inf."""
        flat = theta.flat if isinstance(theta, Ragged) else theta
        return (1 - share) * theta + share * other if np.isfinite(flat).all() else None

    def mean_inner(self, theta: Any, other: Any, residual: Any) -> float | None:
        """The weighted mean of ⟨other − theta, residual⟩, or None where some scores are -inf."""
        flat = theta.flat if isinstance(theta, Ragged) else theta
        return self.mean(inner(other - theta, residual, np.float64)) if np.isfinite(flat).all() else None

    def batch_gradient(self, w: Array, idx: Array) -> Array:
        """The mean gradient of the losses of some examples, weighted so that its mean over batches is that of the loss."""
        found = self.evaluate(self.scorer.scores(w, idx), idx)
        if self.p is None:
            return self.scorer.adjoint(found.gradient, idx) / len(idx)
        return self.scorer.adjoint(scale_items(found.gradient, self.p[idx] * (self.scorer.n_examples / len(idx))), idx)

    def penalty(self, w: Array) -> float:
        """What weights cost beside the mean loss."""
        if self.l1:
            return self.alpha * float(np.abs(w).sum())
        return self.alpha * (float(np.linalg.norm(w)) if self.norm else self.scorer.penalty(w))

    def penalty_slope(self, w: Array, direction: Array) -> float:
        """The derivative of the penalty at w along a direction, of the ridge or the norm; forward where it has a kink."""
        along = float(np.vdot(w, direction))
        if not self.norm:
            return self.alpha * along
        size = float(np.linalg.norm(w))
        return self.alpha * (along / size if size > 0 else float(np.linalg.norm(direction)))

    def value_and_grad(self, w: Array) -> tuple[float, Array]:
        """P(w) and its gradient, for penalties that have one at w (of the norm at 0: the one of least length)."""
        value, gradient = self.mean_loss(w)
        return value + self.penalty(w), gradient + self._penalty_gradient(w)

    def _penalty_gradient(self, w: Array) -> Array:
        if not self.norm:
            return self.alpha * w
        size = float(np.linalg.norm(w))
        return w * (self.alpha / size) if size > 0 else np.zeros_like(w)

    def gap_of_gradient(self, w: Array, value: float, gradient: Array) -> float:
        """The certificate with the model's own predictions as dual variables, from P(w) and its gradient.

        With μ_i = ∇Ω*(θ_i) the losses S(θ_i; μ_i) vanish (or are what their own iterations left) and alpha (w − w(μ))
        is the gradient. No loss that is not convex has one.
        """
        if not self.loss.convex:
            return np.inf
        if self.norm:
            return self._drawn_gap(w, value - self.penalty(w), gradient - self._penalty_gradient(w))
        squared = float(np.vdot(gradient, gradient))
        if self.alpha == 0:
            return 0.0 if squared == 0 else np.inf
        return squared / (2 * self.alpha) + self.inner_gap

    def _drawn_gap(self, w: Array, mean: float, gradient: Array) -> float:
        """The certificate where dual variables are bounded: they are drawn towards the truths until they may be some.

        For the mean loss L, its gradient g and the share c = min(1, alpha/‖g‖) that they keep of the way, with the dual norm
        of the penalty's, the gap is (1 − c) L + alpha ‖w‖ + c ⟨g, w⟩.
        """
        steepest = float(np.abs(gradient).max(initial=0) if self.l1 else np.linalg.norm(gradient))
        kept = min(1.0, self.alpha / steepest) if steepest > 0 else 1.0
        gap = (1 - kept) * mean + self.penalty(w) + kept * float(np.vdot(gradient, w))
        return max(gap, 0.0) + self.inner_gap

    def certify(self, w: Array) -> tuple[float, float]:
        """P(w) and its gap with the model's own predictions as dual variables; exact subgradients will do."""
        mean, gradient = self.mean_loss(w)
        value = mean + self.penalty(w)
        if self.l1:
            return value, self._drawn_gap(w, mean, gradient) if self.loss.convex else np.inf
        return value, self.gap_of_gradient(w, value, gradient + self._penalty_gradient(w))


class SharedObjective(Objective):
    """P(w) for grades with thresholds of one direction, where the loss is found by a search in them.

    Scores are kept as one number for each example and the offsets of all; nothing as long as the grades is written for
    each example. What asks for scores of single examples gets them written out, as from any objective.
    """

    scorer: Thresholds

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.grades = np.ascontiguousarray(self.loss.structure.decode(self.v), dtype=np.int64)

    def scores(self, w: Array) -> Any:
        return self.scorer.split(w)

    def _find(self, theta: tuple[Array, Array], grades: Array) -> SharedLosses:
        for part in theta:
            if not np.isfinite(part).all():
                raise InvalidInput("scores hold NaN or an infinity; check X and the weights to start from")
        found = self.loss.on_thresholds(*theta, grades)
        assert found is not None
        return found

    def mean_at(self, theta: Any) -> tuple[float, Any]:
        found = self._find(theta, self.grades)
        self.inner_gap = 0.0
        shared, offsets = self._residual(found, self.p)
        return self.mean(found.value), (shared, offsets)

    def _residual(self, found: SharedLosses, p: Array | None) -> tuple[Array, Array]:
        """The residual in each score, and the weighted mean residual in the offsets."""
        k = self.scorer.grades
        counts = (
            0.5 * np.bincount(found.low, p, k) + 0.5 * np.bincount(found.high, p, k) - np.bincount(found.grades, p, k)
        )
        above = np.cumsum(counts[:0:-1])[::-1]
        return 0.5 * (found.low + found.high) - found.grades, above / (len(found.grades) if p is None else 1.0)

    def mix(self, theta: Any, other: Any, share: float) -> Any:
        return tuple((1 - share) * a + share * b for a, b in zip(theta, other, strict=True))

    def mean_inner(self, theta: Any, other: Any, residual: Any) -> float | None:
        return self.mean((other[0] - theta[0]) * residual[0]) + float((other[1] - theta[1]) @ residual[1])

    def weighted_adjoint(self, residual: Any) -> Array:
        if not isinstance(residual, tuple):
            return super().weighted_adjoint(residual)
        shared, offsets = residual
        n = self.scorer.n_examples
        return self.scorer.join(shared / n if self.p is None else shared * self.p, offsets)

    def batch_gradient(self, w: Array, idx: Array) -> Array:
        found = self._find(self.scorer.split(w, idx), self.grades[idx])
        factor = 1.0 if self.p is None else self.p[idx] * self.scorer.n_examples
        share = np.broadcast_to(factor / len(idx), (len(idx),))
        shared, offsets = self._residual(found, share)
        return self.scorer.join(shared * share, offsets, idx)


def make_objective(
    scorer: Scorer, loss: Loss, v: Array, alpha: float, sample_weight: Array | None, penalty: str = "l2"
) -> Objective:
    """The training objective, in the form that is fastest for this scorer and this loss."""
    shares = isinstance(scorer, Thresholds) and loss.on_thresholds(
        np.zeros(0), np.zeros(scorer.grades - 1), np.zeros(0, int)
    )
    return (SharedObjective if shares else Objective)(scorer, loss, v, alpha, sample_weight, penalty)


def _parts_of(v: Ragged) -> list[slice]:
    """Cuts of items of different sizes into parts of about ``_PART`` numbers; none where they are few."""
    n_parts = v.flat.size // _PART
    if n_parts < 2:
        return []
    cuts = np.searchsorted(v.offsets, np.linspace(0, v.flat.size, n_parts + 1)).tolist()
    return [slice(a, b) for a, b in pairwise(cuts) if b > a]


class Solver(ABC):
    """Minimises the training objective over weights."""

    tol: float
    max_iter: int
    penalties: ClassVar[tuple[str, ...]] = ("l2",)
    """The penalties that it takes."""
    any_loss: ClassVar[bool] = False
    """Whether it also goes down losses that are not convex, to where it is flat."""

    def minimize(
        self,
        scorer: Scorer,
        loss: Loss,
        v: Array,
        alpha: float,
        *,
        penalty: str = "l2",
        sample_weight: Array | None = None,
        start: Array | None = None,
        dual: Any = None,
        callback: Callback | None = None,
    ) -> Result:
        """Weights whose duality gap is at most ``tol`` times the objective, or the best found.

        ``v`` holds the truths as vertices φ(y_i), a row each. ``penalty`` is "l2", alpha/2 ‖w‖², "l1", alpha ‖w‖₁, or
        "norm", alpha ‖w‖₂, where the solver takes it. ``start`` and ``dual`` (of an earlier result) warm-start. A loss that
        is not convex has no gap (it is infinite), and what is found is a place where it is flat.
        ``callback`` is called with a :class:`Progress` after each iteration and stops the solver by returning True.
        Ctrl-C ends it with the weights so far, and ``interrupted`` set.
        """
        self._check_loss(loss)
        objective = make_objective(scorer, loss, v, alpha, sample_weight, penalty)
        if penalty not in self.penalties:
            able = [e.class_name for e in registry.entries("solver") if penalty in e.load().penalties]
            raise IncompatiblePair(f"{self!r} does not take penalty={penalty!r}; use {' or '.join(able)}")
        if not (loss.convex or self.any_loss):
            able = [e.class_name for e in registry.entries("solver") if e.load().any_loss]
            raise IncompatiblePair(
                f"{self!r} needs a convex loss, for its bounds from below, and {loss!r} is not; use {' or '.join(able)}"
            )
        asked = False

        def watch(progress: Progress) -> bool:
            nonlocal asked
            asked = bool(callback is not None and callback(progress))
            return asked

        with single_blas_thread():
            result = self._minimize(objective, start, dual, None if callback is None else watch)
        result.stopped = result.stopped or asked
        if not (result.converged or result.interrupted or result.stopped) and not loss.convex:
            warn_user(
                f"{type(self).__name__} stopped after {result.n_iter} iterations at the objective {result.value:.6g}, where "
                f"it was not flat to tol={self.tol:g} yet. Raise max_iter or tol."
            )
        elif not (result.converged or result.interrupted or result.stopped):
            warn_user(
                f"{type(self).__name__} stopped after {result.n_iter} iterations with the duality gap "
                f"{result.gap:.3g} at the objective {result.value:.6g}; asked was {self.tol:g} of the objective. "
                "Raise max_iter or tol, scale the inputs, or raise alpha."
            )
        return result

    def _check_loss(self, loss: Loss) -> None:
        """Refuse a loss that this solver cannot minimise, with the reason and what can."""
        return

    @abstractmethod
    def _minimize(self, objective: Objective, start: Array | None, dual: Any, callback: Callback | None) -> Result: ...
