"""Games of any structure with a maximiser: both players' best answers are added until nobody can do better."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._core import parallel
from ..._core.errors import IncompatiblePair
from ..._core.ragged import inner
from ..._core.types import Array, IntArray
from ...costs.base import AffineForm, Cost
from ...kernels import matrix_game as kernels
from ...structures.base import Accuracy, Structure
from .base import USUAL, Equilibrium, Game
from .family import FamilyGame

__all__ = ["DoubleOracle", "DoubleOracles", "Support"]

# Rows are solved together in chunks whose vertices fill about this many numbers.
_CHUNK_NUMBERS = 4_000_000


@dataclass(frozen=True)
class Support:
    """The vertices that both players mixed for one example, flat; a later call for it starts with them."""

    answers: Array
    truths: Array


class DoubleOracle(Game):
    """The double oracle method, for any cost with an affine form between structures that have an argmax.

    Both players start with one vertex. In each round the game between the vertices at hand is solved exactly, as a
    small linear program, and each player adds its best answer to the other's mixture: one argmax of ``structure`` at
    the scores plus what the predictor's mean answer costs, one argmax of ``answers`` at minus what each part is expected
    to cost. What the two best answers are worth bounds the game from both sides, so the gap is certified. It ends, as
    there are finitely many vertices; in practice after tens of rounds. ``tol`` is the gap, in units of the cost
    (default 1e-9), ``max_iter`` the number of rounds (default 1000).

    References: McMahan, Gordon and Blum, "Planning in the presence of cost functions controlled by an adversary", 2003;
    for adversarial prediction, Wang, Xing, Asif and Ziebart, "Adversarial prediction games for multivariate losses",
    2015.

    >>> import numpy as np
    >>> from fenchel.costs import Hamming
    >>> from fenchel.losses.games import find_game
    >>> from fenchel.structures import Birkhoff
    >>> found = find_game(Birkhoff(2), Hamming()).solve(np.array([[[0.5, 0.0], [0.0, 0.5]]]))
    >>> found.value.round(6), found.adversary.round(6).tolist(), bool(found.gap <= 1e-9)
    (array([1.5]), [[[0.5, 0.5], [0.5, 0.5]]], True)
    """

    @classmethod
    def refusal(cls, structure: Structure, cost: Cost) -> str | None:
        try:
            answers = cost.answers_to(structure)
            cost.affine(answers, structure)
        except IncompatiblePair as error:
            return f"needs an affine form of the cost: {error}"
        for role, part in (("truths", structure), ("answers", answers)):
            reason = part.missing().get("argmax")
            if reason is not None:
                return f"needs an argmax over {role}, which {part!r} does not have: {reason}"
        return None

    def risk(self, mu: Any) -> Array:
        costs = self.form._apply(mu)
        best = self.answers._argmax_at(-costs, np.arange(len(mu)))
        return inner(costs, best, np.float64) + self.form._constant(mu)

    def solve(self, theta: Any, accuracy: Accuracy = USUAL, start: Any = None) -> Equilibrium:
        n = len(theta)
        found = Equilibrium(
            np.zeros(n), np.zeros(n), np.empty((n, *self.structure.shape)), np.empty((n, *self.answers.shape)),
            np.zeros(n), np.zeros(n, np.int64), np.ones(n, bool), np.empty(n, object),
        )  # fmt: skip
        step = max(1, _CHUNK_NUMBERS // (16 * max(self.structure.dim, self.answers.dim, 1)))
        for first in range(0, n, step):
            _Rounds(self, theta, np.arange(first, min(first + step, n)), accuracy, start, found).run()
        found.adversary = found.adversary.astype(theta.dtype, copy=False)
        found.predictor = found.predictor.astype(theta.dtype, copy=False)
        return found


class DoubleOracles(FamilyGame):
    """The double oracle method for items of many sizes, one call for all of a size."""

    def on(self, member: Structure, items: Any) -> Game:
        return DoubleOracle(member, self.cost.take(items))


class _Rounds:
    """The rounds for some rows of a batch, which all go on until their own gap is closed."""

    def __init__(
        self, game: DoubleOracle, theta: Array, rows: IntArray, accuracy: Accuracy, start: Any, found: Equilibrium
    ) -> None:
        self.game, self.rows, self.found = game, rows, found
        self.theta = game.structure.center(theta[rows].astype(np.float64))
        self.tol = 1e-9 if accuracy.tol is None else accuracy.tol
        self.most = accuracy.max_iter or 1000
        self.n_answers = np.zeros(len(rows), np.int64)
        self.n_truths = np.zeros(len(rows), np.int64)
        self.answers = np.zeros((len(rows), 4, game.answers.dim))
        self.truths = np.zeros((len(rows), 4, game.structure.dim))
        self.costs = np.zeros((len(rows), 4, 4))
        self.potentials = np.zeros((len(rows), 4))
        everyone = np.arange(len(rows))
        top = self._best_truths(self.theta, everyone)
        shaped = top.reshape(self.theta.shape)
        self.shift = inner(theta[rows].astype(np.float64), shaped) - inner(
            self.theta, shaped
        )  # what centering took off
        if start is not None:
            self._restart(start)
        self._add(everyone, self._best_answers(top, everyone)[0], top)

    # -- the players' oracles ------------------------------------------------------------------------------------------

    def _best_truths(self, scores: Array, at: IntArray) -> Array:
        vertices = self.game.structure._argmax_at(scores, self.rows[at])
        return np.asarray(vertices, dtype=np.float64).reshape(len(at), -1)

    def _best_answers(self, q: Array, at: IntArray) -> tuple[Array, Array]:
        """The best answers to points q (flat), and what they are expected to cost."""
        form = self._form(at)
        points = q.reshape(len(at), *self.game.structure.shape)
        costs = form._apply(points)
        best = self.game.answers._argmax_at(-costs, self.rows[at])
        worth = inner(costs, np.asarray(best, dtype=np.float64), np.float64) + form._constant(points)
        return np.asarray(best, dtype=np.float64).reshape(len(at), -1), worth

    def _form(self, at: IntArray) -> AffineForm:
        return self.game.form_of(self.rows[at])

    # -- the vertices at hand ------------------------------------------------------------------------------------------

    def _restart(self, start: Any) -> None:
        """Take up the supports of an earlier call, vertex by vertex for all rows."""
        supports = [start[row] for row in self.rows.tolist()]
        depth = max((max(len(s.answers), len(s.truths)) for s in supports if s is not None), default=0)
        for t in range(depth):
            at = np.array(
                [i for i, s in enumerate(supports) if s is not None and t < max(len(s.answers), len(s.truths))]
            )
            answers = [supports[i].answers[min(t, len(supports[i].answers) - 1)] for i in at]
            truths = [supports[i].truths[min(t, len(supports[i].truths) - 1)] for i in at]
            self._add(at, np.array(answers), np.array(truths))

    def _add(self, at: IntArray, answers: Array, truths: Array) -> Array:
        """Add a vertex for each player where it is new (and not forbidden); which rows got any."""
        allowed = np.isfinite(inner(self.theta[at], truths.reshape(self.theta[at].shape), np.float64))
        new_truth = allowed & ~self._known(self.truths, self.n_truths, at, truths)
        new_answer = ~self._known(self.answers, self.n_answers, at, answers)
        self._make_room(int(max(self.n_answers.max(), self.n_truths.max())) + 1)
        form_shape = self.game.structure.shape, self.game.answers.shape
        if new_truth.any():
            rows, vertices = at[new_truth], truths[new_truth]
            place = self.n_truths[rows]
            self.truths[rows, place] = vertices
            self.potentials[rows, place] = inner(
                self.theta[rows], vertices.reshape(len(vertices), *form_shape[0]), np.float64
            )
            form = self._form(rows)
            points = vertices.reshape(len(vertices), *form_shape[0])
            images = np.asarray(form._apply(points), dtype=np.float64).reshape(len(rows), -1)
            column = np.einsum("nad,nd->na", self.answers[rows], images) + np.asarray(form._constant(points))[:, None]
            self.costs[rows, :, place] = column
            self.n_truths[rows] += 1
        if new_answer.any():
            rows, vertices = at[new_answer], answers[new_answer]
            place = self.n_answers[rows]
            self.answers[rows, place] = vertices
            scores, offset = self._form(rows)._adjoint(vertices.reshape(len(vertices), *form_shape[1]))
            flat = np.asarray(scores, dtype=np.float64).reshape(len(rows), -1)
            self.costs[rows, place, :] = np.einsum("ntd,nd->nt", self.truths[rows], flat) + offset[:, None]
            self.n_answers[rows] += 1
        return np.asarray(new_truth | new_answer)

    @staticmethod
    def _known(vertices: Array, counts: IntArray, at: IntArray, candidates: Array) -> Array:
        same = (vertices[at] == candidates[:, None, :]).all(axis=2)
        return np.asarray((same & (np.arange(vertices.shape[1]) < counts[at][:, None])).any(axis=1))

    def _make_room(self, needed: int) -> None:
        room = self.potentials.shape[1]
        if needed < room:
            return
        extra = room
        self.answers = np.pad(self.answers, ((0, 0), (0, extra), (0, 0)))
        self.truths = np.pad(self.truths, ((0, 0), (0, extra), (0, 0)))
        self.costs = np.pad(self.costs, ((0, 0), (0, extra), (0, extra)))
        self.potentials = np.pad(self.potentials, ((0, 0), (0, extra)))

    def _restricted(self, at: IntArray) -> tuple[Array, Array]:
        """Both players' weights in the game between the vertices at hand."""
        n, room = len(at), int(max(self.n_answers[at].max(), self.n_truths[at].max()))
        q, p, gap, pivots = np.zeros((n, room)), np.zeros((n, room)), np.zeros(n), np.zeros(n, np.int64)
        parallel.run(
            kernels.matrix_game, n, float(n * room**3),
            np.ascontiguousarray(self.potentials[at, :room]), np.ascontiguousarray(self.costs[at, :room, :room]),
            self.n_answers[at], self.n_truths[at], np.zeros(n), np.zeros(n), q, p, gap, pivots,
        )  # fmt: skip
        return q, p

    # -- rounds --------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        n = len(self.rows)
        lower, upper = np.full(n, -np.inf), np.full(n, np.inf)
        risk, rounds, closed = np.zeros(n), np.zeros(n, np.int64), np.zeros(n, bool)
        best_q, best_p = np.zeros((n, self.truths.shape[2])), np.zeros((n, self.answers.shape[2]))
        weights: list[tuple[Array, Array]] = [(np.zeros(0), np.zeros(0))] * n
        finite = np.where(np.isfinite(self.theta), self.theta, 0).reshape(n, -1)
        allowed = self.tol + 1e-14 * np.abs(finite).max(axis=1, initial=0)
        active = np.arange(n)
        for _ in range(self.most):
            q_weights, p_weights = self._restricted(active)
            room = q_weights.shape[1]
            q = np.einsum("nt,ntd->nd", q_weights, self.truths[active, :room])
            p = np.einsum("na,nad->nd", p_weights, self.answers[active, :room])
            answer, worth = self._best_answers(q, active)
            guaranteed = worth + inner(self.theta[active], q.reshape(self.theta[active].shape), np.float64)
            better = guaranteed > lower[active]
            ahead = active[better]
            lower[ahead], risk[ahead], best_q[ahead] = guaranteed[better], worth[better], q[better]
            scores, offset = self._form(active)._adjoint(p.reshape(len(active), *self.game.answers.shape))
            scores = self.theta[active] + scores
            truth = self._best_truths(scores, active)
            bound = inner(scores, truth.reshape(scores.shape), np.float64) + offset
            better = bound < upper[active]
            upper[active[better]], best_p[active[better]] = bound[better], p[better]
            rounds[active] += 1
            for i, row in enumerate(active.tolist()):
                weights[row] = p_weights[i], q_weights[i]
            open_ = upper[active] - lower[active] > allowed[active]
            closed[active[~open_]] = True
            active, answer, truth = active[open_], answer[open_], truth[open_]
            if len(active):  # where nobody has a new vertex, only rounding keeps the gap open
                active = active[self._add(active, answer, truth)]
            if not len(active):
                break
        rows, found = self.rows, self.found
        found.value[rows], found.risk[rows] = lower + self.shift, risk
        found.gap[rows] = np.maximum(upper - lower, 0)
        found.adversary[rows] = best_q.reshape(n, *self.game.structure.shape)
        found.predictor[rows] = best_p.reshape(n, *self.game.answers.shape)
        found.n_iter[rows] = rounds
        found.converged[rows] = closed
        for i, row in enumerate(rows.tolist()):
            used_answers, used_truths = np.flatnonzero(weights[i][0]), np.flatnonzero(weights[i][1])
            found.state[row] = Support(self.answers[i, used_answers], self.truths[i, used_truths])
