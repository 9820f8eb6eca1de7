"""Costs that add up over the nodes of chains, forests and graphs."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from ..._core import parallel
from ..._core.checks import check_no_nan
from ..._core.errors import IncompatiblePair, InvalidInput
from ..._core.ragged import Ragged, inner
from ..._core.types import Array, IntArray
from ...costs.base import Cost
from ...kernels import chain_game as abreast
from ...kernels import tree_game as kernels
from ...structures.base import Accuracy, Structure
from ...structures.graph import Layout
from ..base import Evaluation
from .base import USUAL, Equilibrium, Game

__all__ = ["ForestGame", "additive_refusal"]


def additive_refusal(structure: Structure, cost: Cost) -> str | None:
    """Why the cost of a labelling is not the sum of what its labels cost, or None if it is."""
    if structure.part_coding != "labels":
        return "is for labels of chains, forests and graphs"
    try:
        cost.label_matrix(structure.n_labels)
    except IncompatiblePair as error:
        return f"needs a cost that adds up over nodes, as the game is played on node and edge marginals: {error}"
    return None


class ForestGame(Game):
    """A cost Σ_v w_v C[ŷ_v, y_v] on chains and forests: an interior-point method on the labels that matter, O(nodes labels³).

    A cost that adds up over nodes sees only node marginals, so p is a distribution for each node and

        Ω*(θ) = max over q of Σ_v w_v min_a (C q_v)_a + ⟨θ, q⟩,    q a point of the marginal polytope.

    That is a linear program over node and edge marginals. Pairs of labels on labellings far below the best one are left out,
    Newton steps (predictor and corrector) go to a duality gap of 0.3 ``tol``, and messages over all labels say what p
    guarantees: they bound the value from above and bring in what was missing. ``tol`` is the certified gap, in units
    of the cost (default 1e-8), ``max_iter`` the number of Newton steps (default 300). An earlier solution for the same items
    is kept as long as it is that good, and else says where to look. Graphs with loops are left to the double oracle.

    Chains go through the same method eight abreast (``kernels.chain_game``), their p moved first by coordinate steps at a
    temperature where all mistakes cost the same; what that leaves above the tolerance goes on one by one.

    References: Fathony, Rezaei, Bashiri, Zhang and Ziebart, "Distributionally robust graphical models", 2018, Theorem 3.1;
    Mehrotra, "On the implementation of a primal-dual interior point method", 1992.

    >>> import numpy as np
    >>> from fenchel.costs import Hamming
    >>> from fenchel.losses.games import find_game
    >>> from fenchel.structures import Chain
    >>> chain = Chain(2, 2)
    >>> found = find_game(chain, Hamming()).solve(chain.pack([[[0.5, 0.0], [0.0, 0.0]]], [[2.0, 0.0], [0.0, 2.0]]))
    >>> p = chain.unpack(found.predictor)[0]  # many are as good: the first labels have 1.25 between them
    >>> found.value.round(6), p[0, :, 0].sum().round(3), bool(found.gap[0] <= 1e-7)
    (array([3.25]), np.float64(1.25), True)
    """

    checks_scores: ClassVar[bool] = True

    @classmethod
    def refusal(cls, structure: Structure, cost: Cost) -> str | None:
        reason = additive_refusal(structure, cost)
        if reason is None and getattr(structure, "treewidth", 1) > 1:
            reason = "is for graphs without loops"
        return reason

    @cached_property
    def matrix(self) -> Array:
        """C[answer, truth] of a node."""
        return self.cost.label_matrix(self.structure.n_labels)

    def weights_of(self, rows: Any, n: int) -> Array:
        weights = self.cost.position_weights(self.structure, rows)
        return np.ones(n) if weights is None else weights

    def risk(self, mu: Any) -> Array:
        structure: Any = self.structure
        lay: Layout = structure.as_forest(mu)
        risk = np.empty(lay.n)
        parallel.run(
            kernels.expected_costs, lay.n, float(lay.ends[-1]) * lay.labels**2, np.asarray(lay.flat, np.float64), lay.starts,
            lay.ends, self.matrix, self.weights_of(mu, int(lay.ends[-1])), risk,
        )  # fmt: skip
        return risk

    def solve(self, theta: Any, accuracy: Accuracy = USUAL, start: Any = None) -> Equilibrium:
        structure: Any = self.structure
        scores, lay, mu, flat, predictor, found = self._play(theta, accuracy, start)
        value, risk, gap, n_iter, status = found
        # what centering took off the scores, seen at one point of the set
        value += inner(theta, mu, np.float64) - inner(scores, mu, np.float64)
        return Equilibrium(
            value,
            risk,
            mu.astype(theta.dtype, copy=False),
            structure.independent(predictor, scores).astype(theta.dtype, copy=False),
            gap,
            n_iter,
            status == kernels.SOLVED,
            self._state(lay, flat, predictor),
        )

    def evaluate(self, theta: Any, v: Any, accuracy: Accuracy = USUAL, start: Any = None) -> Evaluation:
        structure: Any = self.structure
        scores, lay, _, flat, predictor, (_, risk, gap, _, _) = self._play(theta, accuracy, start)
        truths = np.asarray(structure.as_forest(v).flat, np.float64)
        residual, differences = structure._empty_like(scores)
        value = np.empty(lay.n)
        parallel.run(
            kernels.losses,
            lay.n,
            flat.size,
            lay.flat,
            flat,
            truths,
            _ends(lay),
            risk - self.risk(v),
            differences,
            value,
        )
        return Evaluation(value, residual, gap, self._state(lay, flat, predictor))

    def _play(self, theta: Any, accuracy: Accuracy, start: Any) -> tuple[Any, Layout, Any, Array, Array, Any]:
        """Centered scores and their layout, q as rows and flat, p, and value, risk, gap, steps and status of each item."""
        check_no_nan(theta, "scores", self.structure)
        structure: Any = self.structure
        scores = structure.center(theta.astype(np.float64))
        lay: Layout = structure.as_forest(scores)
        mu, flat = structure._empty_like(scores)
        predictor = np.zeros((int(lay.ends[-1]), structure.labels))
        if start is not None:
            self._resume(start, lay, flat, predictor)
        value, risk, gap = np.empty(lay.n), np.empty(lay.n), np.empty(lay.n)
        n_iter, status = np.zeros(lay.n, np.int64), np.empty(lay.n, np.int64)
        p = lay.plan
        tied = bool(getattr(structure, "tied", False))
        weights = self.weights_of(scores, len(predictor))
        tol = 1e-8 if accuracy.tol is None else accuracy.tol
        known, items = np.full(lay.n, start is not None), np.arange(lay.n)
        if p.paths and lay.labels > 1:
            # eight chains abreast, those of like length together
            items = np.argsort(lay.node_counts, kind="stable")
            parallel.run(
                abreast.chain_game, -(-lay.n // abreast.LANES), lay.work, items, lay.flat, lay.starts, lay.node_counts, lay.ends,
                tied, lay.labels, self.matrix, self._plain,
                weights, start is not None, tol, flat, predictor, value, risk, gap, n_iter, status,
            )  # fmt: skip
            items = np.flatnonzero(status != kernels.SOLVED)
            known = known | (gap < np.inf)
        if len(items):
            parallel.run(
                kernels.tree_game, len(items), lay.work, items, lay.flat, lay.starts, lay.which, p.node_off, p.edge_off, *p.walk,
                tied, structure.labels, self.matrix, weights, lay.ends, known, tol, accuracy.max_iter or 300, flat,
                predictor, value, risk, gap, n_iter, status,
            )  # fmt: skip
        structure._refuse_impossible(status)
        return scores, lay, mu, flat, predictor, (value, risk, gap, n_iter, status)

    @cached_property
    def _plain(self) -> bool:
        """Whether all mistakes cost the same."""
        others = self.matrix[~np.eye(len(self.matrix), dtype=bool)]
        return bool(len(others) and others[0] > 0 and np.all(others == others[0]) and not np.diag(self.matrix).any())

    # -- what a later call for the same items starts with: each item's q and p, one after the other -------------------

    def _state(self, lay: Layout, flat: Array, predictor: Array) -> Ragged:
        ends, label_ends = _ends(lay), lay.ends * lay.labels
        state = Ragged.empty(np.diff(ends) + np.diff(label_ends))
        parallel.run(
            kernels.write_state,
            lay.n,
            state.flat.size,
            flat,
            predictor.ravel(),
            ends,
            label_ends,
            state.flat,
            state.offsets,
        )
        return state

    def _resume(self, state: Any, lay: Layout, flat: Array, predictor: Array) -> None:
        if not isinstance(state, Ragged):  # of items that a family of games had in other batches
            state = Ragged.of(list(state))
        ends, label_ends = _ends(lay), lay.ends * lay.labels
        if not np.array_equal(state.sizes, np.diff(ends) + np.diff(label_ends)):
            raise InvalidInput("start is the state of other items than these")
        parallel.run(
            kernels.take_state,
            lay.n,
            state.flat.size,
            flat,
            predictor.reshape(-1),
            ends,
            label_ends,
            state.flat,
            state.offsets,
        )


def _ends(lay: Layout) -> IntArray:
    """Where the numbers of each item begin and end."""
    return np.append(lay.starts, lay.flat.size)
