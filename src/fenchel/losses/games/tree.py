"""The game of trees under Hamming cost: an interior point method, with cuts as they are needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._core import parallel
from ..._core.checks import check_no_nan
from ..._core.ragged import Ragged, inner, offsets_of
from ..._core.types import Array, IntArray
from ...costs.base import Cost
from ...kernels.arborescence_game import arborescence_game, state_size
from ...structures.base import Accuracy, Structure
from ...structures.ragged import Family
from .base import USUAL, Equilibrium, Game
from .double_oracle import DoubleOracle
from .smoothed import SmoothedGame

__all__ = ["TreeGame"]

# Scores beyond this are left to the methods for any structure.
_FAR = 1e5
# Most steps; 10 to 40 are usual.
_STEPS = 200


@dataclass(frozen=True)
class TreeGame(Game):
    """max over q of min over p of n − ⟨p, q⟩ + ⟨θ, q⟩ for directed trees without labels; ``smoothing`` adds s/2 ‖·‖² for each.

    Both polytopes have an equation for each word, one for a single root, and an inequality for each set of words, of which
    few matter. With those found so far, both players' points follow one central path to the equilibrium, and maximum
    flows find the sets that get too little on the way. All but the sets is diagonal, so a step costs about O(n²) for n
    words and O(r³) for r sets; there are 10 to 40 steps. Duals certify the gap; ``tol`` is that gap in wrong heads
    (default 1e-9), ``max_iter`` the number of steps (default 200). A later call for the same rows starts from their
    points, duals and sets: with scores that have moved little it takes a quarter of the steps, or none.

    Scores of −inf, and so large ones (from 1e5 on) that little is left of the interior, are left to the double oracle
    method and, smoothed, to accelerated steps.

    References: Li, Saeed, Zhang, Ziebart and Gimpel, "Moment distributionally robust tree structured prediction", 2022, for
    the game, there played by projections or by the double oracle; Mehrotra, "On the implementation of a primal-dual
    interior point method", 1992.

    >>> import numpy as np
    >>> from fenchel.costs import Hamming
    >>> from fenchel.losses.games import find_game
    >>> from fenchel.structures import DependencyTree
    >>> found = find_game(DependencyTree(3), Hamming()).solve(np.zeros((1, 3, 4)))
    >>> found.value.round(6), found.adversary.round(3).tolist()[0], bool(found.gap <= 1e-9)
    (array([2.]), [[0.333, 0.0, 0.333, 0.333], [0.333, 0.333, 0.0, 0.333], [0.333, 0.333, 0.333, 0.0]], True)
    """

    smoothing: float = 0.0

    @classmethod
    def refusal(cls, structure: Structure, cost: Cost) -> str | None:
        member = structure.example if isinstance(structure, Family) else structure
        if getattr(member, "labels", 0) != 1 or not hasattr(member, "single_root"):
            return "is for directed trees without labels"
        return None

    @property
    def general(self) -> Game:
        """The game by the methods for any structure."""
        if self.smoothing > 0:
            return SmoothedGame(self.structure, self.cost, self.smoothing)
        return DoubleOracle(self.structure, self.cost)

    def risk(self, mu: Any) -> Array:
        if self.smoothing > 0:
            return self.general.risk(mu)
        if isinstance(mu, Ragged):
            best = self.structure._argmax(mu.astype(np.float64))  # type: ignore[arg-type]
            return self._words(mu) - inner(mu, best, np.float64)
        return DoubleOracle(self.structure, self.cost).risk(mu)

    def omega_and_grad(self, mu: Any) -> tuple[Array, Any]:
        """Ω(μ) and its gradient, with smoothing."""
        return SmoothedGame(self.structure, self.cost, self.smoothing).omega_and_grad(mu)

    def _words(self, rows: Any) -> IntArray:
        return np.asarray(self.structure._layout(rows).words)  # type: ignore[attr-defined]

    def solve(self, theta: Any, accuracy: Accuracy = USUAL, start: Any = None) -> Equilibrium:
        check_no_nan(theta, "scores", self.structure)
        structure: Any = self.structure
        scores = structure.center(theta.astype(np.float64))
        lay = structure._layout(scores)
        count, words = len(lay.words), np.asarray(lay.words)
        sizes = np.array([state_size(int(n)) for n in words], np.int64)
        states = Ragged(np.zeros(int(sizes.sum())), offsets_of(sizes))
        warm = np.zeros(count, bool)
        if start is not None:
            states.flat[:] = start.flat
            warm = np.isfinite(states.flat[states.offsets[:-1]])
        finite = np.isfinite(lay.flat)
        flat = np.where(finite, lay.flat, 0.0)
        largest = np.maximum.reduceat(np.abs(flat), lay.starts) if count else np.zeros(0)
        forbidden = ~finite
        forbidden[self._own_places(lay)] = False
        near = largest <= _FAR
        if count:
            near &= ~np.logical_or.reduceat(forbidden, lay.starts)
        tol = (1e-9 if self.smoothing == 0 else 1e-11) if accuracy.tol is None else accuracy.tol
        allowed = tol + 1e-14 * words * (1.0 + largest)
        q, q_flat = structure._zeros_like(scores)
        p, p_flat = structure._zeros_like(scores)
        risk, linear, gap = np.zeros(count), np.zeros(count), np.full(count, np.inf)
        n_iter = np.zeros(count, np.int64)
        for again in (False, True):  # a start that misled the method is forgotten
            todo = np.flatnonzero(near & ~(gap <= allowed)) if again else np.flatnonzero(near)
            if not len(todo) or (again and not warm.any()):
                break
            part = [np.ascontiguousarray(a[todo]) for a in (risk, linear, gap, n_iter)]
            parallel.run(
                arborescence_game, len(todo), float((words[todo].astype(np.float64) ** 2).sum()), flat,
                np.ascontiguousarray(lay.starts[todo]), np.ascontiguousarray(words[todo]), bool(structure.single_root),
                self.smoothing, allowed[todo], accuracy.max_iter or _STEPS, states.flat,
                np.ascontiguousarray(states.offsets[:-1][todo]), np.ascontiguousarray(warm[todo] & (not again)),
                q_flat, p_flat, *part,
            )  # fmt: skip
            risk[todo], linear[todo], gap[todo], n_iter[todo] = part
        risk += words
        value = risk + linear + inner(theta.astype(np.float64), q, np.float64) - inner(scores, q, np.float64)
        found = Equilibrium(value, risk, q, p, gap, n_iter, gap <= allowed, states)
        self._solve_rest(theta, np.flatnonzero(~found.converged), accuracy, found)
        found.adversary = found.adversary.astype(theta.dtype, copy=False)
        found.predictor = found.predictor.astype(theta.dtype, copy=False)
        return found

    @staticmethod
    def _own_places(lay: Any) -> IntArray:
        """Where the arcs from words to themselves stand in flat numbers."""
        return np.concatenate(
            [start + np.arange(n) * (n + 1) + np.arange(1, n + 1) for start, n in zip(lay.starts, lay.words, strict=True)]
        ) if len(lay.words) else np.zeros(0, np.int64)  # fmt: skip

    def _solve_rest(self, theta: Any, rest: IntArray, accuracy: Accuracy, found: Equilibrium) -> None:
        for i in rest.tolist():
            structure: Any = self.structure
            if isinstance(theta, Ragged):
                structure = structure.member(int(theta.sizes[i]))
                row = theta.rows(np.array([i]), structure.shape)
            else:
                row = theta[i : i + 1]
            game = TreeGame(structure, self.cost, self.smoothing).general
            other = game.solve(row.astype(np.float64), accuracy)
            if not other.gap[0] < found.gap[i]:
                continue
            found.value[i], found.risk[i], found.gap[i] = other.value[0], other.risk[0], other.gap[0]
            found.n_iter[i], found.converged[i] = other.n_iter[0], other.converged[0]
            if isinstance(theta, Ragged):
                found.adversary.set_rows(np.array([i]), other.adversary)  # type: ignore[attr-defined]
                found.predictor.set_rows(np.array([i]), other.predictor)  # type: ignore[attr-defined]
            else:
                found.adversary[i], found.predictor[i] = other.adversary[0], other.predictor[0]
            found.state.flat[found.state.offsets[i]] = np.nan
