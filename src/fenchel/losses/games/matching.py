"""Games between matchings: the number of wrong pairs, exact and smoothed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._core import parallel
from ..._core.checks import check_no_nan
from ..._core.ragged import Ragged, inner, offsets_of
from ..._core.types import Array, IntArray
from ...costs.base import Cost
from ...costs.hamming import Hamming
from ...costs.wrong_partners import WrongPartners
from ...kernels.matching_game import matching_game, state_size
from ...structures.base import Accuracy, Structure
from ...structures.birkhoff import Birkhoff, Birkhoffs
from ...structures.matching import Matching, Matchings
from .base import USUAL, Equilibrium, Game
from .double_oracle import DoubleOracle
from .smoothed import SmoothedGame

__all__ = ["MatchingGame"]


@dataclass(frozen=True)
class MatchingGame(Game):
    """max over q of min over p of n − ⟨p, q⟩ + s/2 ‖p‖² − s/2 ‖q‖² + ⟨θ, q⟩ over matchings, s = 0 being the exact game.

    Both players mix matchings, of which all that counts is how often each pair is in: p and q are doubly stochastic
    (or, where elements may have no partner, their rows sum to one and their columns to at most one). A compiled
    interior point method finds both at once, and the duals of the sums bound the value from both sides, so the gap is
    certified without an assignment or a projection. ``tol`` is that gap (default 1e-9, 1e-12 with smoothing), ``max_iter``
    the number of steps (default 100); 8 to 20 steps of about 5 n³ operations. A later call for the same rows starts from
    their points and duals: with scores that have moved little it takes a third of the steps, or none.

    What this method cannot do, scores of −inf that leave the adversary no interior and scores so large (from about 1e6
    on) that it stops above ``tol``, is left to the double oracle method and to accelerated steps.

    Reference: Fathony, Behpour, Zhang and Ziebart, "Efficient and consistent adversarial bipartite matching", 2018
    (the game; it solves the smoothed one by alternating projections).

    >>> import numpy as np
    >>> from fenchel.costs import Hamming
    >>> from fenchel.losses.games import find_game
    >>> from fenchel.structures import Birkhoff
    >>> found = find_game(Birkhoff(3), Hamming()).solve(np.zeros((1, 3, 3)))
    >>> found.value.round(6), found.predictor.round(6)[0, 0]
    (array([2.]), array([0.333333, 0.333333, 0.333333]))
    """

    smoothing: float = 0.0

    @classmethod
    def refusal(cls, structure: Structure, cost: Cost) -> str | None:
        partial = isinstance(structure, Matching | Matchings)
        if not (partial or isinstance(structure, Birkhoff | Birkhoffs)):
            return "is for matchings"
        if type(cost) is Hamming or (partial and type(cost) is WrongPartners):
            return None
        return "counts wrong partners"

    @property
    def general(self) -> Game:
        """The game by the methods for any structure."""
        if self.smoothing > 0:
            return SmoothedGame(self.structure, self.cost, self.smoothing)
        return DoubleOracle(self.structure, self.cost)

    def on(self, member: Structure) -> MatchingGame:
        """The game of one member of a family."""
        return MatchingGame(member, self.cost, self.smoothing)

    def risk(self, mu: Any) -> Array:
        if isinstance(mu, Ragged):
            return self.structure.per_item(mu, lambda member, rows: self.on(member).risk(rows))  # type: ignore[attr-defined]
        return self.general.risk(mu)

    def omega_and_grad(self, mu: Any) -> tuple[Array, Any]:
        """Ω(μ) and its gradient, with smoothing."""
        return SmoothedGame(self.structure, self.cost, self.smoothing).omega_and_grad(mu)

    def solve(self, theta: Any, accuracy: Accuracy = USUAL, start: Any = None) -> Equilibrium:
        if isinstance(theta, Ragged):
            return self._solve_items(theta, accuracy, start)
        check_no_nan(theta, "scores", self.structure)
        count, rows, columns = theta.shape
        partial = isinstance(self.structure, Matching)
        weights = self.cost.weights(self.structure) if isinstance(self.cost, WrongPartners) else np.ones(columns)
        scores = self.structure.center(theta.astype(np.float64))
        finite = np.where(np.isfinite(scores), np.abs(scores), 0).reshape(count, rows * columns)
        tol = accuracy.tol if accuracy.tol is not None else (1e-9 if self.smoothing == 0 else 1e-12)
        allowed = tol + 1e-14 * (rows + finite.max(axis=1, initial=0))
        if not partial and rows == 1:  # one matching: nothing to play for
            one, nothing = np.ones(scores.shape), np.zeros(count)
            allowed_one = theta[:, 0, 0] > -np.inf
            return Equilibrium(
                theta[:, 0, 0].astype(np.float64), nothing, one.astype(theta.dtype), one.astype(theta.dtype), nothing.copy(),
                np.zeros(count, np.int64), allowed_one, np.zeros((count, state_size(1, 1))),
            )  # fmt: skip
        states = np.zeros((count, state_size(rows, columns)))
        warm = np.zeros(count, bool)
        if start is not None:
            states[:] = np.asarray(list(start), dtype=np.float64)
            warm = np.isfinite(states[:, 0])
        q, p = np.zeros(scores.shape), np.zeros(scores.shape)
        risk, linear, gap, n_iter = np.zeros(count), np.zeros(count), np.zeros(count), np.zeros(count, np.int64)
        possible = (scores[:, :, -1:] if partial else scores).min(axis=(1, 2), initial=0) > -np.inf
        for again in (False, True):  # a start that misled the method is forgotten
            todo = np.flatnonzero(possible & ~(gap <= allowed)) if again else np.flatnonzero(possible)
            if not len(todo):
                break
            part = [
                np.ascontiguousarray(a[todo]) for a in (states, warm & (not again), q, p, risk, linear, gap, n_iter)
            ]
            parallel.run(
                matching_game, len(todo), float(len(todo) * rows * columns * columns),
                np.ascontiguousarray(scores[todo] + weights), partial, self.smoothing, weights, allowed[todo],
                accuracy.max_iter or 100, *part,
            )  # fmt: skip
            states[todo], q[todo], p[todo], risk[todo], linear[todo], gap[todo], n_iter[todo] = (
                part[0], part[2], part[3], part[4], part[5], part[6], part[7]
            )  # fmt: skip
            if not warm.any():
                break
        risk += np.einsum("nij,j->n", q, weights)  # what it would cost to miss all
        value = risk + inner(theta.astype(np.float64, copy=False), q, np.float64)
        found = Equilibrium(value, risk, q, p, gap, n_iter, gap <= allowed, states)
        self._solve_rest(theta, np.flatnonzero(~possible | ~found.converged), accuracy, found)
        found.adversary = found.adversary.astype(theta.dtype, copy=False)
        found.predictor = found.predictor.astype(theta.dtype, copy=False)
        return found

    def _solve_rest(self, theta: Array, rest: IntArray, accuracy: Accuracy, found: Equilibrium) -> None:
        if not len(rest):
            return
        other = self.general.solve(theta[rest].astype(np.float64), accuracy)
        found.value[rest], found.risk[rest], found.gap[rest] = other.value, other.risk, other.gap
        found.adversary[rest], found.predictor[rest] = other.adversary, other.predictor
        found.n_iter[rest], found.converged[rest] = other.n_iter, other.converged
        found.state[rest, 0] = np.nan

    def _solve_items(self, theta: Ragged, accuracy: Accuracy, start: Any) -> Equilibrium:
        n = len(theta)
        groups = list(self.structure.groups(theta))  # type: ignore[attr-defined]
        sizes = np.zeros(n, np.int64)
        for member, items in groups:
            sizes[items] = state_size(*member.shape)
        states = Ragged(np.zeros(int(sizes.sum())), offsets_of(sizes))
        found = Equilibrium(
            np.zeros(n), np.zeros(n), Ragged.empty(theta.sizes, theta.dtype), Ragged.empty(theta.sizes, theta.dtype),  # type: ignore[arg-type]
            np.zeros(n), np.zeros(n, np.int64), np.ones(n, bool), states,
        )  # fmt: skip
        for member, items in groups:
            before = None if start is None else start.rows(items, (int(sizes[items[0]]),))
            part = self.on(member).solve(theta.rows(items, member.shape), accuracy, before)
            found.value[items], found.risk[items], found.gap[items] = part.value, part.risk, part.gap
            found.n_iter[items], found.converged[items] = part.n_iter, part.converged
            found.adversary.set_rows(items, part.adversary)  # type: ignore[attr-defined]
            found.predictor.set_rows(items, part.predictor)  # type: ignore[attr-defined]
            states.set_rows(items, part.state)
        return found
