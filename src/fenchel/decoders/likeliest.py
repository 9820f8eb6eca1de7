"""The likeliest answer of the predictor."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._core.ragged import forbid_like
from .._core.types import Array
from ..losses.base import Output
from ..structures.base import Structure
from .base import Decoder

__all__ = ["Likeliest"]


@dataclass(frozen=True)
class Likeliest(Decoder):
    """The vertex nearest to what the predictor plays: its likeliest answer, where answers are classes.

    Of labels of positions or nodes it is the labelling of which most labels are expected to be right, by what the predictor
    plays at each, of trees the one of most expected right arcs; labels, pairs and arcs that scores of -inf forbid stay
    forbidden.

    For an adversarial loss that is the mode of p*, which may be no answer at all; for other losses it is the vertex
    nearest to μ. One call of ``nearest``.

    Reference: Fathony, Asif, Liu, Bashiri, Xing, Behpour, Zhang and Ziebart, "Consistent robust adversarial prediction
    for general multiclass classification", 2018, section 4 and Corollary 4.

    >>> from fenchel.costs import Abstain
    >>> from fenchel.decoders import Likeliest
    >>> from fenchel.losses import Adversarial
    >>> from fenchel.structures import Simplex
    >>> Likeliest().decode(Adversarial(Simplex(2), Abstain(0.3)).output([[1.0, 0.2], [0.5, 0.1]]))
    array([ 0, -1])
    """

    def structure_for(self, output: Output) -> Structure:
        return output.answers

    def vertices(self, output: Output) -> Array:
        answers = output.answers
        rows, batch = answers.as_rows(output.predictor, "points")
        scores = output.structure.as_rows(output.scores, "scores")[0]
        forbids = answers == output.structure and scores.size > 0 and scores.min() == -np.inf
        if answers.part_coding == "labels":
            wishes = answers.position_scores(answers.position_marginals(rows), rows)
        elif answers.binary and forbids:  # ‖y − μ‖² is linear in y where its entries are 0 and 1
            wishes = rows - 0.5
        else:
            return answers.nearest(output.predictor)
        if forbids:
            wishes = forbid_like(wishes, scores)
        return answers.restore(answers.argmax(wishes), batch)
