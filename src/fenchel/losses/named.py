"""Well-known members of the family, by their names."""

from __future__ import annotations

from ..structures.base import Structure
from ..structures.reals import Reals
from .fenchel_young import FenchelYoung
from .regularizers import Gibbs

__all__ = ["CRF", "Squared"]


def Squared(structure: Structure) -> FenchelYoung:
    """½‖φ(y) − θ‖², with no projection at all: the surrogate of the loss trick.

    >>> from fenchel.losses import Squared
    >>> from fenchel.structures import Simplex
    >>> float(Squared(Simplex(2)).value([0.5, 0.0], [1.0, 0.0]))
    0.125
    """
    return FenchelYoung(Reals(*structure.shape), "euclidean")


def CRF(structure: Structure, strength: float = 1.0, *, enumerated: bool = False) -> FenchelYoung:
    """The conditional random field loss, log Σ exp ⟨θ, φ(y')⟩ − ⟨θ, φ(y)⟩; ``strength`` is the temperature.

    ``enumerated`` sums over a list of all outputs, where there are few and no algorithm (permutations).

    >>> from fenchel.losses import CRF
    >>> from fenchel.structures import Cube
    >>> float(CRF(Cube(1)).value([0.0], [1.0]).round(4))
    0.6931
    """
    return FenchelYoung(structure, Gibbs(enumerated), strength=strength)
