"""Any cost between classes, by its table."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ..._core import parallel
from ..._core.types import Array
from ...costs.base import cost_table
from ...costs.cost_matrix import CostMatrices
from ...kernels import matrix_game as kernels
from .base import Equilibrium
from .classes import ClassGame

__all__ = ["MatrixGame"]


class MatrixGame(ClassGame):
    """Any cost between classes: one dense linear program a row, solved exactly by a compiled simplex method.

    Ω*(θ) = max over q of min over answers a of (C q)_a + ⟨θ, q⟩. The table may have more or fewer answers than truths,
    and another one for each example (``CostMatrices``). A pivot costs O(answers · truths), and there are about as many
    as answers and truths together; the gap that is reported is measured on the table.

    Reference: Fathony, Asif, Liu, Bashiri, Xing, Behpour, Zhang and Ziebart, "Consistent robust adversarial prediction
    for general multiclass classification", 2018, section 3.6 (there by a general solver).

    >>> import numpy as np
    >>> from fenchel.costs import CostMatrix
    >>> from fenchel.losses.games import find_game
    >>> from fenchel.structures import Simplex
    >>> found = find_game(Simplex(2), CostMatrix([[0.0, 4.0], [1.0, 0.0]])).solve(np.array([[0.0, 0.0]]))
    >>> found.value, found.adversary, found.predictor
    (array([0.8]), array([[0.8, 0.2]]), array([[0.2, 0.8]]))
    """

    @cached_property
    def table(self) -> Array:
        """C[answer, truth] for all rows, or for each: the first axis counts 1 or the examples."""
        if isinstance(self.cost, CostMatrices):
            return self.cost.matrices
        return np.ascontiguousarray(cost_table(self.cost, self.answers, self.structure)[None])

    def _tables(self, n: int) -> Array:
        if isinstance(self.cost, CostMatrices):
            self.cost.check_batch(n)
        return self.table

    def _play(self, f: Array) -> Equilibrium:
        n = len(f)
        table = self._tables(n)
        _, answers, truths = table.shape
        value, risk, gap, n_iter = np.empty(n), np.empty(n), np.empty(n), np.empty(n, np.int64)
        q, p = np.empty((n, truths)), np.empty((n, answers))
        parallel.run(
            kernels.matrix_game, n, n * float(answers * truths) * (answers + truths), np.ascontiguousarray(f), table,
            np.array([answers]), np.array([truths]), value, risk, q, p, gap, n_iter,
        )  # fmt: skip
        return Equilibrium(value, risk, q, p, gap, n_iter, np.ones(n, bool))

    def _class_risk(self, distribution: Array) -> Array:
        expected: Array = np.einsum("nat,nt->na", np.broadcast_to(
            self._tables(len(distribution)), (len(distribution), *self.table.shape[1:])
        ), distribution)  # fmt: skip
        return expected.min(axis=1)
