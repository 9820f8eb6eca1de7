"""The published way to solve additive games on trees: dual decomposition with subgradient steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._core import parallel
from ..._core.checks import check_no_nan
from ..._core.ragged import inner
from ..._core.types import Array, IntArray
from ...costs.cost_matrix import CostMatrix
from ...costs.hamming import Hamming
from ...costs.zero_one import ZeroOne
from ...kernels.transport import best_tables
from ...structures.base import Accuracy
from ...structures.graph import Layout
from ...structures.simplex import Simplex
from .base import USUAL, Equilibrium, find_game
from .graph import ForestGame

__all__ = ["DualDecomposition"]

_CHECK_EVERY = 25


class DualDecomposition(ForestGame):
    """Dual decomposition with subgradient steps and optimal transport, for comparison with :class:`ForestGame`.

    Each node v has a table Q_v of its label and its parent's, and multipliers u_v for the constraint that these tables agree
    on the parent's label. Given u, every node plays a game of classes of its own, with the columns' best scores; u then moves
    against the disagreement, by steps that fall like 1/√t. Every 25 steps the distributions of nodes are averaged over
    the steps and made into a point of the marginal polytope by an optimal transport for each edge, and bounded from above by
    messages against the mean p, which certifies the gap. O(nodes labels²) a step, and very many steps: the gap falls like
    1/√t. It is not used by default.

    Reference: Fathony, Rezaei, Bashiri, Zhang and Ziebart, "Distributionally robust graphical models", 2018, sections 3.2
    and 3.3.

    >>> import numpy as np
    >>> from fenchel.costs import Hamming
    >>> from fenchel.losses.games.dual_decomposition import DualDecomposition
    >>> from fenchel.structures import Chain
    >>> from fenchel.structures.base import Accuracy
    >>> found = DualDecomposition(Chain(2, 2), Hamming()).solve(np.zeros((1, 8)), Accuracy(tol=0.05))
    >>> bool(abs(found.value[0] - 1) <= 0.05)
    True
    """

    def solve(self, theta: Any, accuracy: Accuracy = USUAL, start: Any = None) -> Equilibrium:
        check_no_nan(theta, "scores", self.structure)
        structure: Any = self.structure
        scores = structure.center(theta.astype(np.float64))
        lay: Layout = structure.as_forest(scores)
        tree = _Nodes(lay)
        weights = self.weights_of(scores, tree.n)
        tol, most = accuracy.tol or 1e-2, accuracy.max_iter or 20_000
        k = lay.labels
        u = np.zeros((tree.n, k))
        nodes, players, total = np.zeros((tree.n, k)), np.zeros((tree.n, k)), 0.0
        mu, flat = structure._empty_like(scores)
        best = np.zeros(flat.size)
        value, risk, upper = np.full(lay.n, -np.inf), np.zeros(lay.n), np.full(lay.n, np.inf)
        predictor = np.full((tree.n, k), 1 / k)
        step = 0
        while step < most:
            step += 1
            scores_of_pairs = tree.tables + tree.nodes[:, None, :] - u[:, :, None]
            np.add.at(scores_of_pairs, tree.up[tree.child], u[tree.child][:, None, :])
            scores_of_pairs[tree.roots, 1:] = -np.inf  # a root has a parent with a single label
            at = scores_of_pairs.argmax(axis=1)
            columns = scores_of_pairs.max(axis=1)
            r, p = self._node_games(columns, weights)
            wanted = np.zeros((tree.n, k))
            np.add.at(wanted, (np.arange(tree.n)[:, None], at), r)
            disagreement = np.where(tree.up[:, None] >= 0, r[tree.up] - wanted, 0)
            u = u - 1.0 / np.sqrt(step) * disagreement
            total += 1
            nodes += (r - nodes) / total
            players += (p - players) / total
            if step % _CHECK_EVERY and step < most:
                continue
            tree.transport(nodes, flat)
            now = self.risk(mu)
            worth = now + inner(scores, mu, np.float64)
            up = worth > value
            value[up], risk[up] = worth[up], now[up]
            places = np.repeat(up, np.diff(np.append(lay.starts, flat.size)))
            best[places] = flat[places]
            added = structure.position_scores((players @ self.matrix) * weights[:, None], scores)
            against = scores + added
            bound = inner(against, structure._argmax(against), np.float64)
            down = np.repeat(bound < upper, lay.node_counts)
            predictor[down] = players[down]
            upper = np.minimum(upper, bound)
            if np.all(upper - value <= tol):
                break
            if step in (4 * _CHECK_EVERY, 16 * _CHECK_EVERY, 64 * _CHECK_EVERY):
                total = 0.0  # early steps say nothing: averages begin anew
        flat[:] = best
        gap = np.maximum(upper - value, 0)
        value = value + inner(theta, mu, np.float64) - inner(scores, mu, np.float64)
        return Equilibrium(
            value,
            risk,
            mu.astype(theta.dtype, copy=False),
            structure.independent(predictor, scores).astype(theta.dtype, copy=False),
            gap,
            np.full(lay.n, step),
            gap <= tol,
        )

    def _node_games(self, scores: Array, weights: Array) -> tuple[Array, Array]:
        """max over r of scores · r + w min_a (C r)_a for every node, by the games of classes."""
        k = self.structure.n_labels
        cost = ZeroOne() if isinstance(self.cost, Hamming) else CostMatrix(self.matrix)
        scale = np.maximum(weights, 1e-12)[:, None]  # the game of c times a cost is that of the scores divided by c
        found = find_game(Simplex(k), cost).solve(scores / scale)
        return found.adversary, found.predictor


class _Nodes:
    """The nodes of all forests of a batch, one after the other, with the table to its parent for each."""

    def __init__(self, lay: Layout) -> None:
        plan, k = lay.plan, lay.labels
        counts = lay.node_counts
        picked = np.repeat(plan.node_off[lay.which] - lay.ends[:-1], counts) + np.arange(int(lay.ends[-1]))
        shift = np.repeat(lay.ends[:-1], counts)
        self.n, self.k, self.lay = int(lay.ends[-1]), k, lay
        up = plan.up[picked]
        self.up: IntArray = np.where(up >= 0, up + shift, -1)
        self.child, self.roots = np.flatnonzero(up >= 0), np.flatnonzero(up < 0)
        self.order: IntArray = plan.order[picked] + shift
        begin = np.repeat(lay.starts + counts * k, counts)
        self.edge_at = begin + plan.up_edge[picked] * k * k
        self.flip = plan.flip[picked]
        self.nodes = lay.nodes()
        self.tables = np.zeros((self.n, k, k))
        grid = np.arange(k)[:, None] * k + np.arange(k)
        for turned, places in ((False, grid), (True, grid.T)):
            chosen = self.child[self.flip[self.child] == turned]
            self.tables[chosen] = lay.flat[self.edge_at[chosen][:, None, None] + places]

    def transport(self, nodes: Array, flat: Array) -> None:
        """The points of highest score whose nodes have these distributions: an optimal transport for each edge."""
        k = self.k
        flat[:] = 0.0
        flat[self.lay.node_at[:, None] + np.arange(k)] = nodes
        moved = np.zeros((len(self.child), k, k))
        rows, columns = nodes[self.up[self.child]], nodes[self.child]
        parallel.run(
            best_tables, len(self.child), len(self.child) * k**3, rows, columns, self.tables[self.child], moved
        )
        grid = np.arange(k)[:, None] * k + np.arange(k)
        for turned, places in ((False, grid), (True, grid.T)):
            chosen = self.flip[self.child] == turned
            at = self.edge_at[self.child[chosen]][:, None, None] + places
            flat[at] = moved[chosen]
