"""The best histogram of all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..._core import parallel
from ..._core.checks import check_finite_positive
from ..._core.errors import IncompatiblePair, InvalidInput
from ..._core.types import Array
from ...costs.base import Cost
from ...costs.histograms import ChiSquared, Hellinger, histogram_rows
from ...kernels import histograms as kernels
from .base import Answers, Search
from .candidates import CandidateSearch, distinct

__all__ = ["SUM_SLACK", "Histogram"]

SUM_SLACK = 1e-2
"""How far the sum of a histogram may lie from one: files hold rounded numbers."""


@dataclass(frozen=True)
class Histogram(Answers):
    """Any histogram that sums to one, for costs between histograms.

    For the squared Hellinger cost Σ_i α_i Σ_k (√ŷ_k − √y_ik)² is least where ŷ ∝ max(c, 0)² with c = Σ_i α_i √y_i, and
    at the vertex of the largest c_k where c has no positive entry, whatever signs the weights have: O(bins) an input
    after the sum.

    For the absolute Hellinger cost and chi-squared there is no formula and with weights of both signs the sum is not
    convex. There the best training output and the formula's answer are the starts of a local search: mass is moved from
    the bin that gains most by losing it to the bin that gains most by getting it, in steps that halve from 0.05 to
    ``precision``. The answer costs no more than any training output; that it is the best of all histograms is not
    promised. O(bins · training outputs) for a move.

    >>> import numpy as np
    >>> from fenchel.costs import Hellinger
    >>> from fenchel.decoders.answers import Histogram
    >>> search = Histogram().search(Hellinger(), np.array([[1.0, 0.0], [0.0, 1.0]]))
    >>> search.answers(np.array([[0.4, 0.2], [0.4, -0.2]]) @ search.embedding)
    array([[0.8, 0.2],
           [1. , 0. ]])
    """

    precision: float = 1e-3

    def __post_init__(self) -> None:
        object.__setattr__(self, "precision", check_finite_positive(self.precision, "precision"))

    def search(self, cost: Cost, truths: Array) -> Search:
        if not isinstance(cost, Hellinger | ChiSquared):
            raise IncompatiblePair(
                f"Histogram() answers for Hellinger() and ChiSquared(), not for {cost!r}; use Candidates()"
            )
        rows = histogram_rows(truths, cost)
        if rows.ndim != 2:
            raise InvalidInput(f"outputs have shape {rows.shape}, expected a histogram in each row")
        off = np.abs(rows.sum(axis=1) - 1)
        if off.max(initial=0) > SUM_SLACK:
            i = int(off.argmax())
            raise InvalidInput(
                f"the histogram of sample {i} sums to {rows[i].sum():g}, expected 1; divide each by its sum"
            )
        if isinstance(cost, Hellinger) and cost.squared:
            return _RootSearch(cost, rows)
        return _TransferSearch(cost, rows, self.precision)


class _RootSearch(Search):
    costs_from_means = True

    def __init__(self, cost: Cost, truths: Array) -> None:
        super().__init__(cost, truths)
        # of an answer that sums to one the cost is 1 + mass of the truth − 2 products of roots
        self.embedding = np.column_stack([np.sqrt(truths), (1 + truths.sum(axis=1)) / 2])

    def answers(self, means: Array) -> Array:
        return _from_roots(means[:, :-1])

    def costs(self, means: Array, answers: Array) -> Array:
        mass = histogram_rows(answers, self.cost).sum(axis=1)
        return np.asarray((1 + mass) * means[:, -1] - 2 * np.einsum("ij,ij->i", means[:, :-1], np.sqrt(answers)))


class _TransferSearch(Search):
    def __init__(self, cost: Cost, truths: Array, precision: float) -> None:
        super().__init__(cost, truths)
        self.precision = precision
        self.list = CandidateSearch(cost, truths, distinct(truths))
        self.absolute = isinstance(cost, Hellinger)
        self.columns = np.ascontiguousarray((np.sqrt(truths) if self.absolute else truths).T)

    def answers(self, means: Array) -> Array:
        from_list = self.list.answers(means)
        smooth = _from_roots(means @ np.sqrt(self.truths))
        means = np.ascontiguousarray(means)
        found = []
        for starts in (from_list, smooth):
            rows = np.array(starts, dtype=np.float64)
            work = float(rows.size) * len(self.truths) * 20
            arguments = (means, self.columns, self.absolute, 0.05, self.precision, rows)
            parallel.run(kernels.local_search, len(rows), work, *arguments)
            found.append(rows)
        first, second = (self.costs(means, rows) for rows in found)
        return np.where((second < first)[:, None], found[1], found[0])


def _from_roots(c: Array) -> Array:
    """max(c, 0)² over its sum; the vertex of the largest entry where there is no positive one."""
    top = c.max(axis=1, keepdims=True)
    roots = np.maximum(c, 0) / np.where(top > 0, top, 1)  # no square overflows or vanishes
    roots[(top <= 0)[:, 0]] = 0
    none = np.flatnonzero(top[:, 0] <= 0)
    roots[none, c[none].argmax(axis=1)] = 1
    squares = roots**2
    return np.asarray(squares / squares.sum(axis=1, keepdims=True))
