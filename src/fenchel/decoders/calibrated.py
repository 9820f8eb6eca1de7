"""The answer of least expected cost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._core.errors import IncompatiblePair
from .._core.ragged import forbid_like
from .._core.types import Array
from ..costs.base import AffineForm, Cost, affine_form
from ..losses.base import Output
from ..structures.base import Structure
from .base import Decoder

__all__ = ["Calibrated"]


@dataclass(frozen=True)
class Calibrated(Decoder):
    """The answer of ``structure`` that costs least when truths are distributed with mean μ: argmax at −Vμ − b.

    ``structure`` may be another set than the one trained on, as long as points have the same shape or both are
    classes. One call of the prediction oracle and one argmax. A part that a score of -inf forbids stays forbidden.

    Reference: Blondel, "Structured prediction with projection oracles", 2019, section 5 (Proposition 5: with the
    projection loss, a small surrogate risk makes a small risk in this cost).

    >>> from fenchel.costs import Absolute
    >>> from fenchel.decoders import Calibrated
    >>> from fenchel.losses import FenchelYoung
    >>> from fenchel.structures import Simplex
    >>> output = FenchelYoung(Simplex(3), "kl").output([[0.1, -9.0, 0.0]])
    >>> Calibrated(Simplex(3), Absolute()).decode(output)  # the median grade of half first, half last
    array([0])
    """

    structure: Structure
    cost: Cost

    def structure_for(self, output: Output) -> Structure:
        return self.structure

    def vertices(self, output: Output) -> Array:
        rows, batch = output.structure.as_rows(output.scores, "scores")
        mu = output.structure.as_rows(output.marginals, "marginals")[0]
        wishes = -self.affine(output.structure).apply(mu)
        if self.structure == output.structure and rows.size and rows.min() == -np.inf:
            # what the model's outputs may not hold (a label, a transition), no answer may hold
            wishes = forbid_like(wishes, rows)
        return self.structure.restore(self.structure.argmax(wishes), batch)

    def affine(self, truths: Structure) -> AffineForm:
        """The affine form used for outputs of a model trained on ``truths``."""
        if self.structure.missing().get("argmax"):
            raise IncompatiblePair(f"{self.structure!r} cannot be decoded to: {self.structure.missing()['argmax']}")
        return affine_form(self.cost, self.structure, truths)
