"""How badly two rankings correlate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._core.errors import InvalidInput
from .._core.types import Array, ArrayLike
from ..structures.base import Structure
from ..structures.birkhoff import Birkhoff
from ..structures.permutahedron import Permutahedron
from .base import AffineForm, Cost

__all__ = ["Spearman"]


@dataclass(frozen=True)
class Spearman(Cost):
    """L(ŷ, y) = (1 − ρ)/2 with Spearman's rank correlation ρ: 0 for the same ranking, 1 for the reverse.

    With ranks y_i it is 3 Σ (ŷ_i − y_i)² / (n (n² − 1)). On ``Permutahedron(n)``, whose vertices write ranks, it is
    ⟨φ(y), φ(y) − φ(ŷ)⟩ / M with M = n (n² − 1)/6; on ``Birkhoff(n)`` it is bilinear too.

    Reference: Spearman, "The proof and measurement of association between two things", 1904.

    >>> from fenchel.costs import Spearman
    >>> Spearman()([[0, 1, 2], [2, 1, 0], [0, 2, 1]], [[0, 1, 2], [0, 1, 2], [0, 1, 2]])
    array([0.  , 1.  , 0.25])
    """

    def __call__(self, y_pred: ArrayLike, y_true: ArrayLike) -> Array:
        answers, truths = self._outputs(y_pred, y_true)
        if answers.ndim == 0 or answers.dtype.kind not in "iu" or truths.dtype.kind not in "iu":
            raise InvalidInput("rankings are arrays of whole ranks, 0 for the best")
        off = answers.astype(float) - truths.astype(float)
        return np.asarray((off**2).sum(axis=-1) / (2 * _largest(answers.shape[-1])))

    def affine(self, answers: Structure, truths: Structure | None = None) -> AffineForm:
        truths = answers if truths is None else truths
        if isinstance(answers, Permutahedron) and truths == answers:
            n = answers.dim
            steps = np.diff(np.sort(np.asarray(answers.weights, dtype=float)))
            if np.all(steps == 1):
                largest, square = _largest(n), float(np.sum(np.square(answers.weights)))
                return AffineForm(
                    answers, truths, lambda mu: -mu / largest, lambda mu: np.full(len(mu), square / largest)
                )
        if isinstance(answers, Birkhoff) and truths.shape == answers.shape:
            ranks = np.arange(answers.n, dtype=float)
            table = (ranks[:, None] - ranks) ** 2 / (2 * _largest(answers.n))
            return AffineForm(answers, truths, lambda mu: mu @ table, lambda mu: np.zeros(len(mu)))
        raise self._refuse(answers, truths, "it compares ranks; use Permutahedron(n) or Birkhoff(n)")


def _largest(n: int) -> float:
    """Half the largest Σ (ŷ_i − y_i)²; one where there is a single item, which cannot be off."""
    return max(n * (n * n - 1) / 6, 1.0)
