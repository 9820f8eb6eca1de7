"""Dual coordinate ascent with exact moves, for losses between classes with or without kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.checks import check_count, check_finite_positive, check_generator
from .._core.errors import IncompatiblePair, InvalidInput
from .._core.types import Array
from ..kernels.dual_coordinate import climb, sweep_gram, sweep_rows
from ..losses.base import Loss, MoveRule
from ..scorers.kernel import Expansion
from ..scorers.linear import Linear
from .base import Callback, Objective, Progress, Result, Solver
from .bcfw import digest

__all__ = ["DualCoordinate", "ResidualState"]

# Sweeps over those that moved, between two over all.
_INNER = 2
# Steps along faces in a round, and the products with the kernel in each.
_FACES = 10
_PRODUCTS = 100
# They begin after a round that leaves more than this share of the gap, and end with a gain below this share of the round's best.
_SLOW = 0.3
_WORTH = 0.03
# How far the step may have left the domains, as a share of its length, before conjugate gradients end (measured).
_OUT = 0.2


@dataclass
class ResidualState:
    """The dual variables r_i, a row for each example. They belong to one loss and one list of truths, and to any alpha."""

    residual: Array
    conjugate: Array
    """The conjugate of the loss there."""
    loss: Loss | None = None
    truths: str = ""


@dataclass(frozen=True)
class DualCoordinate(Solver):
    """Dual coordinate ascent: each example's dual variable in turn takes its best value, exactly; alpha must be positive.

    Weights are w = −(1/alpha) Σ p_i x_i r_iᵀ for r_i in the domain of the conjugate of the loss of example i. The best r_i with
    all others fixed is a proximal step of the loss: one or two projections onto a simplex for the adversarial
    zero-one loss (with and without a price for no answer) and Crammer-Singer, a clipping for sums of hinges, and a
    search in one number for Weston-Watkins and Lee-Lin-Wahba.

    A round is a sweep over all examples in random order, two over those that moved and, once a round has left more than
    a third of the gap, up to ten steps along faces: the dual variables, each on the face of its domain where it lies,
    move together towards the best there by conjugate gradients, and what leaves its domain is brought back. Without
    these steps small alphas take thousands of sweeps.

    With an :class:`~fenchel.scorers.Expansion` scorer, a kernel without coordinates, scores of all examples are kept
    up to date: an example at its best value costs O(classes) to pass by, and one that moves O(examples · classes). With
    rows it is O(features · classes) each, and where there are many more rows than features ``Bundle`` is often faster.
    ``max_iter`` counts rounds. The dual variables of one ``alpha`` are a start for any other; a ``start`` of weights is not used.

    References: Moré and Toraldo, "On the solution of large quadratic programming problems with bound constraints", 1991
    (for the steps along faces); Keerthi, Sundararajan, Chang, Hsieh and Lin, "A sequential dual method for large scale
    multi-class linear SVMs", 2008; Shalev-Shwartz and Zhang, "Stochastic dual coordinate ascent methods for regularized loss
    minimization", 2013.

    >>> import numpy as np
    >>> from fenchel.costs import ZeroOne
    >>> from fenchel.losses import Adversarial
    >>> from fenchel.scorers import Linear
    >>> from fenchel.solvers import DualCoordinate
    >>> from fenchel.structures import Simplex
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), [0, 0, 1, 1]
    >>> scorer, loss = Linear(X, (2,), intercept_scaling=1.0), Adversarial(Simplex(2), ZeroOne())
    >>> result = DualCoordinate(tol=1e-6, random_state=0).minimize(scorer, loss, np.eye(2)[y], 0.1)
    >>> result.converged, bool(result.gap <= 1e-6 * result.value)
    (True, True)
    """

    tol: float = 1e-4
    max_iter: int = 1000
    random_state: Any = None

    def __post_init__(self) -> None:
        check_finite_positive(self.tol, "tol")
        check_count(self.max_iter, "max_iter", minimum=0)

    def _check_loss(self, loss: Loss) -> None:
        if loss.move_rule() is None:
            raise IncompatiblePair(
                f"DualCoordinate knows no exact moves for {loss!r}; it has them for the adversarial zero-one loss, with and "
                "without abstention, and for margin losses with a direction for each score. Use Bundle()"
            )

    def _minimize(self, objective: Objective, start: Array | None, dual: Any, callback: Callback | None) -> Result:
        if objective.alpha == 0:
            raise InvalidInput("alpha is 0, but DualCoordinate solves the dual problem, which needs alpha > 0")
        scorer = objective.scorer
        if not isinstance(scorer, Linear) or scorer.sparse:
            raise IncompatiblePair(
                f"DualCoordinate takes dense rows or a kernel with a direction for each score, but the scorer is "
                f"{type(scorer).__name__}{' of sparse rows' if isinstance(scorer, Linear) else ''}; use Bundle()"
            )
        rng = check_generator(self.random_state)
        truths = digest(objective.v)
        warm = isinstance(dual, ResidualState) and dual.truths == truths and dual.loss == objective.loss
        duals = _Duals(objective, dual if warm else None)
        # the weights of the duals are not better in each round: the best so far are kept, and the highest bound
        result = now = duals.certified(0)
        result.converged = result.gap <= self.tol * abs(result.value)
        result.w = duals.weights()
        history = [(0, result.value, result.gap)]
        lowest, slow = result.value - result.gap, False
        everyone = np.arange(scorer.n_examples)
        try:
            while not result.converged and history[-1][0] < self.max_iter:
                if callback is not None and callback(Progress(history[-1][0], result.value, result.gap, result.w)):
                    break
                duals.sweep(rng.permutation(everyone))
                for _ in range(_INNER):
                    some = np.flatnonzero(duals.moved)
                    if not len(some) or not duals.sweep(rng.permutation(some)):
                        break
                gained = 0.0
                for _ in range(_FACES if slow else 0):
                    gain = duals.climb()
                    if gain <= _WORTH * gained:
                        break
                    gained = max(gained, gain)
                before, now = now.gap, duals.certified(history[-1][0] + 1)
                slow = slow or now.gap > _SLOW * before
                lowest = max(lowest, now.value - now.gap)
                if now.value < result.value:
                    result = now
                    result.w = duals.weights()
                result.gap = result.value - lowest
                result.converged = result.gap <= self.tol * abs(result.value)
                history.append((now.n_iter, result.value, result.gap))
        except KeyboardInterrupt:
            result.interrupted = True
        result.n_iter = history[-1][0]
        result.dual = ResidualState(duals.r, duals.conjugate, objective.loss, truths)
        result.history = history
        return result


class _Duals:
    """The dual variables of all examples, and what follows from them: scores, or weights."""

    def __init__(self, objective: Objective, start: ResidualState | None) -> None:
        self.objective = objective
        scorer = objective.scorer
        assert isinstance(scorer, Linear)
        rule = objective.loss.move_rule()
        assert isinstance(rule, MoveRule)
        n, k = scorer.n_examples, scorer.n_scores
        self.y = np.ascontiguousarray(objective.loss.structure.decode(objective.v), dtype=np.int64)
        self.share = np.broadcast_to(np.asarray(objective.shares()) / objective.alpha, (n,)).astype(np.float64)
        self.intercept = (scorer.intercept_scaling or 0.0) ** 2
        self.rule = (self.y, rule.kind, rule.price, *rule.tables)
        self.kernel = isinstance(scorer, Expansion)
        if isinstance(scorer, Expansion):
            gram = scorer.X if _all_of(scorer.places, scorer.X.shape[1]) else scorer.X[:, scorer.places]
            self.gram = np.ascontiguousarray(gram, dtype=np.float64)
            if n and float(self.gram.diagonal().min()) < 0:
                raise InvalidInput("the kernel is not positive semi-definite: k(x, x) is negative for some example")
        else:
            self.rows = np.ascontiguousarray(scorer.X, dtype=np.float64)
            self.norms = np.einsum("ij,ij->i", self.rows, self.rows)
        self.r = np.zeros((n, k)) if start is None else start.residual.copy()
        self.conjugate = rule.conjugate_at_zero(self.y) if start is None else start.conjugate.copy()
        self.moved = np.zeros(n, dtype=np.bool_)
        self.refresh()

    def refresh(self) -> None:
        """Scores or weights from the dual variables anew, so that rounding does not add up."""
        coefficients = -self.share[:, None] * self.r
        self.offsets = self.intercept * coefficients.sum(axis=0)
        self.main = np.ascontiguousarray(coefficients.T @ (self.gram if self.kernel else self.rows))

    def sweep(self, order: Array) -> int:
        """The best move of each of these in turn; how many moved."""
        self.moved[:] = False
        if self.kernel:
            return int(
                sweep_gram(order, self.gram, self.share, self.intercept, *self.rule, self.main, self.offsets, self.r,
                           self.conjugate, self.moved)
            )  # fmt: skip
        return int(
            sweep_rows(order, self.rows, self.share, self.intercept, *self.rule, self.norms, self.main, self.offsets, self.r,
                       self.conjugate, self.moved)
        )  # fmt: skip

    def climb(self) -> float:
        """A step along the faces where all are now; by how much the dual objective rises.

        All examples move together, which is what single moves are slow at where inputs are much alike.
        """
        inputs = self.gram if self.kernel else self.rows
        return float(
            climb(inputs, self.kernel, self.share, self.intercept, *self.rule, self.main, self.offsets, self.r,
                  self.conjugate, _PRODUCTS, _OUT)
        )  # fmt: skip

    def certified(self, n_iter: int) -> Result:
        """The objective and the gap: the mean of L(θ_i) + L*(r_i) − ⟨θ_i, r_i⟩."""
        self.refresh()
        theta = (self.main.T if self.kernel else self.rows @ self.main.T) + self.offsets
        values = self.objective.evaluate(np.ascontiguousarray(theta)).value
        inner = np.einsum("ij,ij->i", theta, self.r)
        value = self.objective.mean(values - 0.5 * inner)  # alpha ‖w‖² is −Σ p_i ⟨θ_i, r_i⟩
        gap = max(self.objective.mean(values + self.conjugate - inner), 0.0)
        return Result(np.zeros(0), value, gap, n_iter, False)

    def weights(self) -> Array:
        scorer = self.objective.scorer
        assert isinstance(scorer, Linear)
        w = scorer.zero_weights()
        if isinstance(scorer, Expansion):
            w[scorer.places] = -self.share[:, None] * self.r
        else:
            w[: self.main.shape[1]] = self.main.T
        if scorer.intercept_scaling is not None:
            w[-1] = self.offsets / scorer.intercept_scaling
        return w


def _all_of(places: Array, n: int) -> bool:
    return len(places) == n and bool((places == np.arange(n)).all())
