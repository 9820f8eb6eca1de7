"""Costs between real numbers: those of robust statistics, of quantiles, and of classification by a sign.

Answers and truths are numbers, or rows of numbers whose costs add up. None has an affine form; the loss trick
(:class:`fenchel.LossTrickPredictor`) predicts for all of them.

Reference for the robust ones: Huber and Ronchetti, "Robust Statistics", 2011.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from .._core.checks import check_finite_positive
from .._core.errors import InvalidInput
from .._core.types import Array, ArrayLike
from .base import Cost, as_numbers, number_rows, per_example

__all__ = [
    "L2L1",
    "Cauchy",
    "EpsilonInsensitive",
    "Fair",
    "GemanMcClure",
    "HingeCost",
    "Huber",
    "LogisticCost",
    "NumberCost",
    "Pinball",
]


class NumberCost(Cost):
    """A cost of an answer and a truth that are numbers; of rows of numbers the costs add up."""

    @abstractmethod
    def of_numbers(self, answers: Array, truths: Array) -> Array:
        """The cost of each pair of numbers; the two arrays broadcast."""

    def __call__(self, y_pred: ArrayLike, y_true: ArrayLike) -> Array:
        answers, truths = as_numbers(y_pred, "y_pred", self), as_numbers(y_true, "y_true", self)
        if answers.shape != truths.shape:
            raise InvalidInput(f"y_pred has shape {answers.shape} but y_true has shape {truths.shape}")
        return per_example(self.of_numbers(answers, truths))

    def between(self, answers: ArrayLike, truths: ArrayLike) -> Array:
        ours, theirs = number_rows(answers, truths, self)
        costs = np.zeros((len(ours), len(theirs)))
        for part in range(ours.shape[1]):
            costs += self.of_numbers(ours[:, part, None], theirs[None, :, part])
        return costs


class _ResidualCost(NumberCost):
    """A cost of the difference ŷ − y alone."""

    def of_numbers(self, answers: Array, truths: Array) -> Array:
        return self.of_residual(answers - truths)

    @abstractmethod
    def of_residual(self, residual: Array) -> Array:
        """The cost of an answer that is this much too large."""


@dataclass(frozen=True)
class _ScaledResidualCost(_ResidualCost):
    """c² ρ(r / c): near r²/2 for residuals much smaller than c."""

    scale: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", check_finite_positive(self.scale, "scale"))

    def of_residual(self, residual: Array) -> Array:
        return self.scale**2 * self._rho(residual / self.scale)

    @staticmethod
    @abstractmethod
    def _rho(r: Array) -> Array:
        """The cost for the scale one."""


@dataclass(frozen=True)
class Huber(_ScaledResidualCost):
    """Half the squared difference up to c = ``scale``, linear beyond: c² ρ(r/c), ρ(u) = u²/2 or |u| − 1/2.

    >>> from fenchel.costs import Huber
    >>> Huber(scale=1.0)([0.5, 3.0], [0.0, 0.0])
    array([0.125, 2.5  ])
    """

    @staticmethod
    def _rho(r: Array) -> Array:
        size = np.abs(r)
        inside = np.minimum(size, 1.0)
        return inside * (size - 0.5 * inside)


@dataclass(frozen=True)
class Cauchy(_ScaledResidualCost):
    """c² log(1 + (r/c)²) / 2 with c = ``scale``: outliers cost only the logarithm of their distance. Not convex.

    >>> from fenchel.costs import Cauchy
    >>> Cauchy(scale=1.0)([0.0, 1.0, 100.0], [0.0, 0.0, 0.0]).round(4)
    array([0.    , 0.3466, 4.6052])
    """

    @staticmethod
    def _rho(r: Array) -> Array:
        return np.asarray(0.5 * np.log1p(r * r))


@dataclass(frozen=True)
class GemanMcClure(_ScaledResidualCost):
    """c² u² / (2 (1 + u²)) with u = r/c, c = ``scale``: all far outliers cost the same, c²/2. Not convex.

    >>> from fenchel.costs import GemanMcClure
    >>> GemanMcClure(scale=1.0)([0.0, 1.0, 100.0], [0.0, 0.0, 0.0]).round(4)
    array([0.  , 0.25, 0.5 ])
    """

    @staticmethod
    def _rho(r: Array) -> Array:
        square = r * r
        return np.asarray(0.5 * square / (1 + square))


@dataclass(frozen=True)
class Fair(_ScaledResidualCost):
    """c² (|u| − log(1 + |u|)) with u = r/c, c = ``scale``: like Huber's, with all derivatives up to the third.

    >>> from fenchel.costs import Fair
    >>> Fair(scale=1.0)([0.0, 1.0], [0.0, 0.0]).round(4)
    array([0.    , 0.3069])
    """

    @staticmethod
    def _rho(r: Array) -> Array:
        size = np.abs(r)
        return np.asarray(size - np.log1p(size))


@dataclass(frozen=True)
class L2L1(_ScaledResidualCost):
    """2 c² (√(1 + u²/2) − 1) with u = r/c, c = ``scale``: smooth, squared near zero and absolute far away.

    >>> from fenchel.costs import L2L1
    >>> L2L1(scale=1.0)([0.0, 4.0], [0.0, 0.0])
    array([0., 4.])
    """

    @staticmethod
    def _rho(r: Array) -> Array:
        square = 0.5 * r * r
        return np.asarray(2 * square / (np.sqrt(1 + square) + 1))


@dataclass(frozen=True)
class EpsilonInsensitive(_ResidualCost):
    """max(|r| − ``epsilon``, 0): being off by less than epsilon is free.

    >>> from fenchel.costs import EpsilonInsensitive
    >>> EpsilonInsensitive(epsilon=0.5)([0.25, 2.0], [0.0, 0.0])
    array([0. , 1.5])
    """

    epsilon: float = 0.1

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_finite_positive(self.epsilon, "epsilon", zero=True))

    def of_residual(self, residual: Array) -> Array:
        return np.maximum(np.abs(residual) - self.epsilon, 0)


@dataclass(frozen=True)
class Pinball(_ResidualCost):
    """``quantile`` times how much an answer is too small, 1 − ``quantile`` times how much it is too large.

    The answer of least expected cost is that quantile of the truth.

    Reference: Steinwart and Christmann, "Estimating conditional quantiles with the help of the pinball loss", 2011.

    >>> from fenchel.costs import Pinball
    >>> Pinball(quantile=0.75)([0.0, 2.0], [1.0, 1.0])
    array([0.75, 0.25])
    """

    quantile: float = 0.5

    def __post_init__(self) -> None:
        quantile = check_finite_positive(self.quantile, "quantile")
        if quantile >= 1:
            raise InvalidInput(f"quantile is {quantile}, expected a number between 0 and 1")
        object.__setattr__(self, "quantile", quantile)

    def of_residual(self, residual: Array) -> Array:
        return np.maximum((1 - self.quantile) * residual, -self.quantile * residual)


@dataclass(frozen=True)
class LogisticCost(NumberCost):
    """log(1 + exp(−ŷ y)): an answer is a number whose sign counts, a truth is −1 or 1.

    >>> from fenchel.costs import LogisticCost
    >>> LogisticCost()([0.0, 5.0], [1.0, 1.0]).round(4)
    array([0.6931, 0.0067])
    """

    def of_numbers(self, answers: Array, truths: Array) -> Array:
        return np.asarray(np.logaddexp(0, -answers * truths))


@dataclass(frozen=True)
class HingeCost(NumberCost):
    """max(1 − ŷ y, 0): an answer is a number whose sign counts, a truth is −1 or 1.

    >>> from fenchel.costs import HingeCost
    >>> HingeCost()([0.0, 5.0], [1.0, -1.0])
    array([1., 6.])
    """

    def of_numbers(self, answers: Array, truths: Array) -> Array:
        return np.maximum(1 - answers * truths, 0)
