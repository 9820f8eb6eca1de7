"""Squared cost between grades."""

from __future__ import annotations

import numpy as np

from ..._core import parallel
from ..._core.types import Array
from ...kernels import games as kernels
from .base import Equilibrium
from .classes import ClassGame

__all__ = ["SquaredGame"]


class SquaredGame(ClassGame):
    """Ω*(θ) = min over a in [0, k − 1] of g(a) + max_j (j² + f_j − 2 j a), exact in O(k) a row.

    An answer distribution p meets the grade j at the expected cost E(a²) − 2 j E(a) + j². It enters by its mean and its
    mean square only, and of all distributions on grades with the mean a the one on the two grades around a has the
    least mean square, g(a): the linear interpolation of a² at the integers. So the predictor mixes two neighbours and
    chooses a. Both terms are convex and piecewise linear: g has its kinks at the integers, and the maximum is the upper
    envelope of k lines whose slopes −2j come sorted, built in one pass. Their slopes are odd and even whole numbers, so
    the minimum is a single point: an integer where the adversary plays that grade alone, or a kink of the envelope,
    where it mixes the two lines that meet so that both neighbours of a cost the same. The published form is the
    maximum over all triples of grades, O(k³).

    Reference: Fathony, Asif, Liu, Bashiri, Xing, Behpour, Zhang and Ziebart, "Consistent robust adversarial prediction
    for general multiclass classification", 2018, Theorem 5.

    >>> import numpy as np
    >>> from fenchel.costs import SquaredError
    >>> from fenchel.losses.games import find_game
    >>> from fenchel.structures import Simplex
    >>> found = find_game(Simplex(3), SquaredError()).solve(np.array([[0.0, 0.0, 0.0]]))
    >>> found.value, found.adversary, found.predictor
    (array([1.]), array([[0.25, 0.  , 0.75]]), array([[0., 1., 0.]]))
    """

    def _play(self, f: Array) -> Equilibrium:
        value, risk, q, p = np.empty(len(f)), np.empty(len(f)), np.empty_like(f), np.empty_like(f)
        parallel.run(kernels.squared_solve, len(f), f.size, f, value, risk, q, p)
        return self._exact(value, risk, q, p)

    def _class_risk(self, distribution: Array) -> Array:
        grades = np.arange(distribution.shape[1])
        mean = distribution @ grades
        spread = ((grades - mean[:, None]) ** 2 * distribution).sum(axis=1)
        return spread + (np.floor(mean + 0.5) - mean) ** 2

    def _loss(self, f: Array, v: Array) -> tuple[Array, Array]:
        value, residual = np.empty(len(f)), np.empty_like(f)
        parallel.run(kernels.squared_loss, len(f), f.size, f, v, value, residual)
        return value, residual
