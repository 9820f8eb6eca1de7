"""The loss that a mistake cost makes: the negative Bayes risk as regularizer, a zero-sum game as oracle."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from .._core.checks import check_choice, check_count, check_finite_positive
from .._core.errors import InvalidInput, MissingOracle, warn_user
from .._core.types import Array, ArrayLike
from ..costs.base import Cost
from ..structures.base import Accuracy, Structure
from .base import Evaluation, Loss, MoveRule, Output, SharedLosses
from .games.base import Equilibrium, Game, find_game

__all__ = ["Adversarial", "GameOutput"]


@dataclass(frozen=True)
class Adversarial(Loss):
    """The adversarial loss of a cost: Ω(q) = −min over p of cost(p, q), the negative Bayes risk.

    Ω*(θ) is the value of a zero-sum game, max over q of [min over p of cost(p, q) + ⟨θ, q⟩]: an adversary q chooses what
    the truth is, paid by the scores for what the data know of it, and a predictor p answers. So

        S(θ; y) = max over q of min over p of cost(p, q) + ⟨θ, q − φ(y)⟩ − (the least cost of any answer to y),

    which is the published adversarial surrogate loss where each truth has a free answer. ``predict`` gives the
    adversary's q, ``output(theta).predictor`` the predictor's p*, which may be of another structure (more or fewer
    answers, no answer at all). The loss bounds the expected cost of p* from above (what it costs beyond the best
    answer), and minimising it gives Bayes answers for every cost (consistency; no margin loss does that).

    The game is found by the pair of structure and cost: O(k) closed forms for zero-one, absolute and squared cost and
    for a price of no answer, a compiled linear program for any table, and a double oracle for all else that has an
    affine form and an argmax. ``smoothing`` s > 0 adds s/2 ‖·‖² for each player, which makes the loss 1/s-smooth.
    ``tol`` and ``max_iter`` are for games that iterate; ``evaluate`` reports their gaps, and solvers count them.
    ``method="double_oracle"`` plays by best answers in turn even where there is a better method.

    References: Fathony, Asif, Liu, Bashiri, Xing, Behpour, Zhang and Ziebart, "Consistent robust adversarial prediction
    for general multiclass classification", 2018; Fathony, Rezaei, Bashiri, Zhang and Ziebart, "Distributionally robust
    graphical models", 2018; Nowak-Vila, Bach and Rudi, "Consistent structured prediction with max-min margin Markov
    networks", 2020.

    >>> from fenchel.costs import ZeroOne
    >>> from fenchel.losses import Adversarial
    >>> from fenchel.structures import Simplex
    >>> loss = Adversarial(Simplex(3), ZeroOne())
    >>> value, residual = loss.value_and_grad([1.0, 0.5, -2.0], [1.0, 0.0, 0.0])
    >>> float(value), residual
    (0.25, array([-0.5,  0.5,  0. ]))
    >>> loss.output([1.0, 0.5, -2.0]).predictor
    array([0.75, 0.25, 0.  ])
    """

    structure: Structure
    cost: Cost
    smoothing: float = 0.0
    tol: float | None = None
    max_iter: int | None = None
    method: str = "auto"

    def __post_init__(self) -> None:
        if not isinstance(self.structure, Structure):
            raise InvalidInput(f"structure is {self.structure!r}, expected a structure such as Simplex(3)")
        if not isinstance(self.cost, Cost):
            raise InvalidInput(f"cost is {self.cost!r}, expected a fenchel.costs.Cost such as ZeroOne()")
        object.__setattr__(self, "smoothing", check_finite_positive(self.smoothing, "smoothing", zero=True))
        check_choice(self.method, "method", ("auto", "double_oracle"))
        if self.tol is not None:
            check_finite_positive(self.tol, "tol")
        if self.max_iter is not None:
            check_count(self.max_iter, "max_iter")
        self.__dict__["game"] = self._find_game()  # a pair that cannot work is refused before any computing

    def __getstate__(self) -> dict[str, Any]:
        """The fields alone: what was derived from them is derived again."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @cached_property
    def game(self) -> Game:
        """The game between the predictor and the adversary."""
        return self._find_game()

    def _find_game(self) -> Game:
        return find_game(self.structure, self.cost, self.smoothing, self.method)

    @property
    def answers(self) -> Structure:
        """The structure of the predictor's answers."""
        return self.game.answers

    @property
    def accuracy(self) -> Accuracy:
        return Accuracy(self.tol, self.max_iter)

    @property
    def smoothness(self) -> float:
        return 1.0 / self.smoothing if self.smoothing > 0 else np.inf

    @property
    def has_omega(self) -> bool:
        return True

    def evaluate(self, theta: ArrayLike, v: ArrayLike, start: Any = None) -> Evaluation:
        rows, points, _ = self._pair(theta, v)
        return self.game.evaluate(rows, points, self.accuracy, start)

    def value_and_grad(self, theta: ArrayLike, v: ArrayLike) -> tuple[Array, Array]:
        rows, points, batch = self._pair(theta, v)
        found = self.game.evaluate(rows, points, self.accuracy)
        gradient = found.gradient.astype(rows.dtype, copy=False)
        return self._per_example(found.value, rows, batch), self.structure.restore(gradient, batch)

    def on_thresholds(self, s: Array, offsets: Array, grades: Array) -> SharedLosses | None:
        search = getattr(self.game, "on_thresholds", None)
        if search is None or self.structure.class_coding != "thresholds":
            return None
        found: SharedLosses = search(s, offsets, grades)
        return found

    def move_rule(self) -> MoveRule | None:
        return self.game.move_rule()

    def solve(self, theta: ArrayLike, start: Any = None) -> Equilibrium:
        """Both players' strategies at each row of scores, with the certified gap."""
        rows, _ = self._scores(theta)
        found = self.game.solve(rows, self.accuracy, start)
        if not found.converged.all():
            i = int(np.argmax(np.where(found.converged, -np.inf, found.gap)))
            warn_user(
                f"the game of {self.structure!r} and {self.cost!r} stopped after {int(found.n_iter[i])} rounds with the gap "
                f"{found.gap[i]:.2g} (sample {i}); raise max_iter or tol"
            )
        return found

    def predict(self, theta: ArrayLike) -> Array:
        _, batch = self._scores(theta)
        return self.structure.restore(self.solve(theta).adversary, batch)

    def omega(self, mu: ArrayLike) -> Array:
        points, batch = self.structure._rows(mu, "points mu", points=True)
        return self._per_example(-self.game.risk(points), points, batch)

    def omega_and_grad(self, mu: Any) -> tuple[Array, Any]:
        if self.smoothing == 0:
            raise MissingOracle(f"the Ω of {self!r} has kinks; give it smoothing, or use BlockFrankWolfe()")
        return self.game.omega_and_grad(mu)  # type: ignore[attr-defined]

    def output(self, theta: ArrayLike) -> GameOutput:
        rows, batch = self._scores(theta)
        return GameOutput(self, self.structure.restore(rows, batch))

    def _scores(self, theta: ArrayLike) -> tuple[Array, tuple[int, ...]]:
        if self.structure.checks_scores or self.game.checks_scores:
            return self.structure.as_rows(theta, "scores")
        return self.structure._rows(theta, "scores")


class GameOutput(Output):
    """Scores and both players' strategies there, computed when first asked for."""

    loss: Adversarial

    @property
    def answers(self) -> Structure:
        return self.loss.answers

    @cached_property
    def equilibrium(self) -> Equilibrium:
        """Both players' strategies, row by row."""
        return self.loss.solve(self.scores)

    @cached_property
    def marginals(self) -> Array:
        """The adversary's q, a point of the truths' hull."""
        return self._shaped(self.structure, self.equilibrium.adversary)

    @cached_property
    def predictor(self) -> Array:
        """The predictor's p*, a point of the answers' hull."""
        return self._shaped(self.answers, self.equilibrium.predictor)

    def _shaped(self, structure: Structure, rows: Array) -> Array:
        _, batch = self.structure.as_rows(self.scores, "scores")
        return structure.restore(rows, batch)
