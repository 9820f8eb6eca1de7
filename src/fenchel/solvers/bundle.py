"""A bundle method: the objective from below by planes that touch it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from .._core.checks import check_count, check_finite_positive
from .._core.errors import InvalidInput
from .._core.types import Array
from ..kernels.bundle import simplex_quadratic
from ..losses.base import Loss
from .base import Callback, Objective, Progress, Result, Solver
from .bcfw import digest

__all__ = ["Bundle", "BundleState"]

_LINE_STEPS = 3
# Lengths that the search for the norm's minimizer tries; what it leaves open the next plane may close.
_MOST_LENGTHS = 25
# Examples for each weight from which on the mean loss counts as nearly smooth (measured; below, the pull costs time).
_NEARLY_SMOOTH = 20


@dataclass
class BundleState:
    """The planes: mean loss ≥ offset + ⟨slope, w⟩ for each, and their weights. They belong to one training set."""

    slopes: Array
    offsets: Array
    weights: Array
    loss: Loss | None = None
    data: str = ""
    """A digest of the truths, their weights in the mean and of scores at some weights."""


@dataclass(frozen=True)
class Bundle(Solver):
    """A bundle method for losses with kinks (and all other convex ones); alpha must be positive. The fastest where kinks are.

    Each evaluation gives a plane below the mean loss. The minimum of the highest of the planes plus alpha/2 ‖w‖², a
    small quadratic program in as many variables as there are planes, bounds the objective from below; the best weights
    that were met bound it from above, and the difference is the gap. The next plane touches between the best weights,
    after a line search towards the model's minimum, and that minimum. At most 1/(alpha · tol) evaluations, and few
    dozen in practice; a line search needs no new products with the inputs.

    Where there are at least 20 examples for each weight the mean loss is nearly smooth, and planes say little far from
    where they touch. There the model has pull/2 ‖w − best‖² besides, stronger or weaker by the share of the promised
    decrease that comes true; the next plane touches at its minimum, without a line search while that is good.

    With ``penalty="norm"``, alpha ‖w‖ = min over τ of alpha/2 (‖w‖²/τ + τ), so the model's minimum is found by a search in
    one dimension over quadratic programs like the ridge's; that losses are not negative is a plane more.

    Nothing is asked of the loss but values and subgradients, and what an inexact one leaves open is part of the gap.
    ``memory`` planes are kept at most (each as large as the weights); more are merged.

    References: Franc and Sonnenburg, "Optimized cutting plane algorithm for large-scale risk minimization", 2009; Teo,
    Vishwanathan, Smola and Le, "Bundle methods for regularized risk minimization", 2010; Kiwiel, "Proximity control in
    bundle methods for convex nondifferentiable minimization", 1990.

    >>> import numpy as np
    >>> from fenchel.costs import ZeroOne
    >>> from fenchel.losses import Adversarial
    >>> from fenchel.scorers import Linear
    >>> from fenchel.solvers import Bundle
    >>> from fenchel.structures import Simplex
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), [0, 0, 1, 1]
    >>> scorer, loss = Linear(X, (2,), intercept_scaling=1.0), Adversarial(Simplex(2), ZeroOne())
    >>> result = Bundle(tol=1e-6).minimize(scorer, loss, np.eye(2)[y], 0.1)
    >>> result.converged, bool(result.gap <= 1e-6 * result.value)
    (True, True)
    """

    tol: float = 1e-4
    max_iter: int = 1000
    memory: int = 300
    penalties: ClassVar[tuple[str, ...]] = ("l2", "norm")

    def __post_init__(self) -> None:
        check_finite_positive(self.tol, "tol")
        check_count(self.max_iter, "max_iter", minimum=0)
        check_count(self.memory, "memory", minimum=3)

    def _minimize(self, objective: Objective, start: Array | None, dual: Any, callback: Callback | None) -> Result:
        if objective.alpha == 0:
            raise InvalidInput("alpha is 0, but Bundle needs alpha > 0: the planes alone have no minimum")
        scorer = objective.scorer
        planes = _Planes(objective, self.memory, dual)
        best = _Point(objective, scorer.zero_weights() if start is None else np.array(start, dtype=np.float64))
        if objective.norm and best.w.any():  # zero may be the minimum, and only a plane that touches there shows it
            zero = _Point(objective, scorer.zero_weights())
            planes.add(zero)
            best = zero if zero.value <= best.value else best
        result = Result(best.w, np.inf, np.inf, 0, False)
        history: list[tuple[int, float, float]] = []
        touch = best
        pull: float | None = None
        try:
            while True:
                slope = planes.add(touch)
                if touch.value < best.value:
                    best = touch
                rest = best.value + best.inner_gap - planes.bound if planes.solved else np.inf
                planes.solve(max(0.05 * min(rest, best.value), 1e-13 * abs(best.value)), best.value)
                gap = max(best.value + best.inner_gap - planes.bound, 0.0)
                done = gap <= self.tol * abs(best.value)
                result = Result(best.w, best.value, gap, len(history), done)
                history.append((result.n_iter, result.value, gap))
                if callback is not None and callback(Progress(result.n_iter, result.value, gap, best.w)):
                    break
                if done or result.n_iter >= self.max_iter:
                    break
                if pull is None:  # at first as strong as to promise no more than the gap along the slope alone
                    full = slope + objective.alpha * best.w.ravel()
                    nearly_smooth = scorer.n_examples >= _NEARLY_SMOOTH * best.w.size and not objective.norm
                    pull = float(full @ full) / (2 * gap) if nearly_smooth else 0.0
                if pull == 0.0:
                    below = _Point(objective, planes.minimizer, evaluated=False)
                    best = best.search(below)
                    touch = best.between(below, 0.1)
                    continue
                w, model = planes.near(best.w, pull, max(0.01 * gap, 1e-13 * abs(best.value)))
                below = _Point(objective, w)
                promised = max(best.value - model, 1e-15 * abs(best.value))
                kept, weak = (best.value - below.value) / promised, promised < 0.2 * gap
                if kept > 0.3:
                    touch = below
                    pull *= 0.5 if kept > 0.6 or weak else 1.0
                else:
                    best = best.search(below)
                    touch = best.between(below, 0.1)
                    pull *= 0.3 if weak else 2.0 if kept < -1 else 1.0
        except KeyboardInterrupt:
            result.interrupted = True
        result.dual = planes.state
        result.history = history
        return result


class _Point:
    """Weights, their scores, and when asked for the objective and its gradient there."""

    def __init__(self, objective: Objective, w: Array, theta: Any = None, *, evaluated: bool = True) -> None:
        self.objective, self.w = objective, w
        self.theta = objective.scores(w) if theta is None else theta
        self.value = np.inf
        if evaluated:
            self.mean_loss, self.residual = objective.mean_at(self.theta)
            self.value = self.mean_loss + objective.penalty(w)
            self.inner_gap = objective.inner_gap

    def between(self, other: _Point, share: float) -> _Point:
        """The point on the line to another."""
        w = (1 - share) * self.w + share * other.w
        return _Point(self.objective, w, self.objective.mix(self.theta, other.theta, share))

    def slope(self, start: _Point, end: _Point) -> float:
        """The derivative of the objective here, in the direction from one point to another."""
        linear = self.objective.mean_inner(start.theta, end.theta, self.residual)
        if linear is None:
            linear = float(np.vdot(self.objective.weighted_adjoint(self.residual), end.w - start.w))
        return linear + self.objective.penalty_slope(self.w, end.w - start.w)

    def search(self, other: _Point) -> _Point:
        """The lowest point met on the way to another, and at most as far again beyond it, by secants of the slope."""
        best = self
        low, high = 0.0, 1.0
        falling, rising = self.slope(self, other), None
        for step in range(_LINE_STEPS):
            if step == 0:
                share = 1.0
            elif rising is None:
                share = 0.5 * (low + high)
            else:
                secant = falling / (falling - rising) if rising > falling else 0.5
                share = low + (high - low) * min(max(secant, 0.1), 0.9)
            met = other if share == 1.0 and np.isfinite(other.value) else self.between(other, share)
            if met.value < best.value:
                best = met
            slope = met.slope(self, other)
            if slope > 0:
                high, rising = share, slope
                continue
            low, falling = share, slope
            if step == 0:
                high = 2.0
        return best


class _Planes:
    """The planes below the mean loss, and the minimum of the highest of them plus the penalty."""

    def __init__(self, objective: Objective, memory: int, dual: Any) -> None:
        self.objective, self.memory = objective, memory
        self.solved = False
        self.bound = -np.inf
        w = objective.scorer.zero_weights()
        data = _fingerprint(objective)
        if isinstance(dual, BundleState) and dual.data == data and dual.loss == objective.loss:
            self.state = replace(
                dual, slopes=dual.slopes.copy(), offsets=dual.offsets.copy(), weights=dual.weights.copy()
            )
        else:
            self.state = BundleState(np.zeros((0, w.size)), np.zeros(0), np.zeros(0), objective.loss, data)
        self.shape = w.shape
        self.products = self.state.slopes @ self.state.slopes.T
        self.near_weights = self.state.weights.copy()
        self.length = 0.0
        self.room: Array | None = None

    def add(self, point: _Point) -> Array:
        """The plane that touches the mean loss at a point; its slope."""
        s = self.state
        if len(s.offsets) >= self.memory:
            self._shrink()
        slope = self.objective.weighted_adjoint(point.residual).ravel()
        m = len(s.offsets)
        products = np.empty((m + 1, m + 1))
        products[:m, :m] = self.products
        products[m, :m] = products[:m, m] = s.slopes @ slope
        products[m, m] = slope @ slope
        self.products = products
        if self.room is None or s.slopes.base is not self.room or len(self.room) == m:
            # where weights are many, a copy of all slopes for each new one would take most of the time
            self.room = np.empty((min(max(2 * m, 8), self.memory), slope.size))
            self.room[:m] = s.slopes
        self.room[m] = slope
        s.slopes = self.room[: m + 1]
        s.offsets = np.append(s.offsets, point.mean_loss - slope @ point.w.ravel())
        s.weights = np.append(s.weights, 0.0 if m else 1.0)
        self.near_weights = np.append(self.near_weights, 0.0 if m else 1.0)
        return slope

    def solve(self, tol: float, value: float) -> None:
        """Weights of the planes, the minimizer that they give, and the bound; ``value`` is the best that was met."""
        if self.objective.norm:
            self._solve_norm(tol, value)
            return
        s, alpha = self.state, self.objective.alpha
        if not s.weights.sum() > 0:  # of a norm whose planes played no part
            s.weights[:] = 1.0 / len(s.weights)
        simplex_quadratic(self.products / alpha, s.offsets, s.weights, tol, 20_000)
        s.weights /= s.weights.sum()
        combined = s.weights @ s.slopes
        self.minimizer = (combined / -alpha).reshape(self.shape)
        # a combination of planes is a plane below, however well the weights were found
        self.bound = max(self.bound, float(s.weights @ s.offsets - combined @ combined / (2 * alpha)))
        self.solved = True

    def _solve_norm(self, tol: float, value: float) -> None:
        """The same with the norm as penalty: its minimizer of length τ is that with the ridge alpha/τ.

        The combined slope of the planes shrinks as τ grows, and no combination longer than alpha bounds anything; where it
        is as long as alpha the search ends. The plane of slope and offset zero, first of all, makes any combination short
        enough. No minimizer is longer than value / alpha.
        """
        s, alpha = self.state, self.objective.alpha
        products = np.zeros((len(s.offsets) + 1,) * 2)
        products[1:, 1:] = self.products
        offsets = np.append(0.0, s.offsets)
        weights = np.append(max(0.0, 1.0 - s.weights.sum()), s.weights)
        weights /= weights.sum()
        low, high = 0.0, max(value, 1e-300) / alpha
        longest = high
        short: tuple[Array, float] | None = None  # a combination that is no longer than alpha, and its length
        long: tuple[Array, float] | None = None
        best, lowest = weights, np.inf
        bound = -np.inf
        tau = min(self.length, high) if self.length > 0 else 0.1 * high
        for trial in range(_MOST_LENGTHS):
            weights = weights.copy()
            simplex_quadratic(products * (tau / alpha), offsets, weights, tol, 20_000)
            weights /= weights.sum()
            slopes = products @ weights  # what each plane's slope has along the combined one
            size = float(np.sqrt(max(weights @ slopes, 0.0)))
            model = float((offsets - (tau / alpha) * slopes).max()) + tau * size
            if model < lowest:
                lowest, self.minimizer, self.length = model, ((weights[1:] @ s.slopes) * (-tau / alpha)), tau
            if size <= alpha:
                high, short = tau, (weights, size)
            else:
                low, long = tau, (weights, size)
            for found in filter(None, (short, long, _mixed(products, short, long, alpha))):
                combined, its = found
                kept = min(1.0, alpha / its) if its > 0 else 1.0
                if kept * float(offsets @ combined) > bound:
                    bound, best = kept * float(offsets @ combined), kept * combined
            if lowest - bound <= 2 * tol or low >= (1 - 1e-9) * high or (short is not None and high < 1e-11 * longest):
                break
            if (
                short is None or long is None
            ):  # on to ‖w‖, where the search would end if w stayed, and beyond, ever farther
                least = 2.0 ** min(2 ** (trial + 1), 64)
                factor = (size / alpha) ** 2
                tau *= max(factor, least) if size > alpha else min(factor, 1 / least)
                if short is not None:
                    tau = max(tau, 1e-12 * high)
                tau = min(tau, 0.9 * high if short is not None else high)
            else:  # the logarithm of the length falls about as a line in that of τ
                share = np.log(long[1] / alpha) / np.log(long[1] / short[1]) if short[1] > 0 else 0.5
                tau = float(low * (high / low) ** min(max(share, 0.1), 0.9))
        self.minimizer = self.minimizer.reshape(self.shape)
        s.weights = best[1:].copy()
        self.bound = max(self.bound, bound)
        self.solved = True

    def near(self, centre: Array, pull: float, tol: float) -> tuple[Array, float]:
        """The minimizer of the planes plus alpha/2 ‖w‖² and pull/2 ‖w − centre‖², and the model there."""
        s, alpha, c = self.state, self.objective.alpha, centre.ravel()
        total, weights = alpha + pull, self.near_weights
        simplex_quadratic(self.products / total, s.offsets + (pull / total) * (s.slopes @ c), weights, tol, 20_000)
        weights /= weights.sum()
        w = (pull * c - weights @ s.slopes) / total
        return w.reshape(self.shape), float((s.offsets + s.slopes @ w).max() + 0.5 * alpha * (w @ w))

    def _shrink(self) -> None:
        """Drop the planes without weight; where there are none, merge the two of least weight, which loses no bound."""
        s, near = self.state, self.near_weights
        kept = np.flatnonzero(s.weights + near > 0)
        if len(kept) >= self.memory:
            kept = np.flatnonzero(s.weights > 0)  # the bound needs only these
        if len(kept) >= self.memory:
            order = np.argsort(s.weights)
            i, j = order[0], order[1]
            total = s.weights[i] + s.weights[j]
            for part in (s.slopes, s.offsets):
                part[j] = (s.weights[i] * part[i] + s.weights[j] * part[j]) / total
            s.weights[j] = total
            near[j] += near[i]
            kept = np.delete(np.arange(len(s.weights)), i)
            self.products[j] = self.products[:, j] = s.slopes @ s.slopes[j]
        s.slopes, s.offsets, s.weights = s.slopes[kept], s.offsets[kept], s.weights[kept]
        self.products = self.products[np.ix_(kept, kept)]
        near = near[kept]
        self.near_weights = near / near.sum() if near.sum() > 0 else s.weights.copy()


def _mixed(
    products: Array, short: tuple[Array, float] | None, long: tuple[Array, float] | None, length: float
) -> tuple[Array, float] | None:
    """The mixture of two combinations of planes, one too short and one too long, that has the given length."""
    if short is None or long is None:
        return None
    across = float(short[0] @ products @ long[0])
    a, b, c = short[1] ** 2 + long[1] ** 2 - 2 * across, across - short[1] ** 2, short[1] ** 2 - length**2
    if a <= 0:
        return None
    share = (np.sqrt(max(b * b - a * c, 0.0)) - b) / a
    mixture = (1 - share) * short[0] + share * long[0]
    return mixture, float(np.sqrt(max(mixture @ products @ mixture, 0.0)))


def _fingerprint(objective: Objective) -> str:
    """What tells one training set from another: truths, weights in the mean, scores at arbitrary weights."""
    w = np.random.default_rng(0).normal(size=objective.scorer.weights_shape)
    parts = [digest(objective.v), digest(objective.scorer.scores(w))]
    if objective.p is not None:
        parts.append(digest(objective.p))
    return " ".join(parts)
