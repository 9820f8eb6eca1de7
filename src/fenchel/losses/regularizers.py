"""The regularizers Ψ that make a loss out of a structure: each names the oracle it needs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .._core import registry
from .._core.checks import check_no_nan
from .._core.errors import InvalidInput
from .._core.ragged import Ragged, inner, item_sums, replaced
from .._core.types import Array
from ..structures.base import Structure
from ..structures.generic import marginals_by_enumeration
from ..structures.ragged import Family

__all__ = ["KL", "Euclidean", "Gibbs", "Regularizer", "make_regularizer"]


class Regularizer(ABC):
    """A convex function Ψ on the set of a structure, and the oracle that is the gradient of its conjugate."""

    name: ClassVar[str]
    oracle: ClassVar[str]
    """The oracle of the structure that computes argmax ⟨θ, μ⟩ − Ψ(μ)."""

    @abstractmethod
    def predict(self, structure: Structure, theta: Array) -> Array:
        """argmax ⟨θ, μ⟩ − Ψ(μ) over the structure's set, for rows."""

    @abstractmethod
    def omega(self, structure: Structure, mu: Array) -> Array:
        """Ψ(μ) of each row."""

    @abstractmethod
    def strong_convexity(self, structure: Structure) -> float:
        """A modulus of strong convexity in the Euclidean norm over the structure's set, 0 where there is none."""

    @abstractmethod
    def loss(self, structure: Structure, theta: Array, v: Array, strength: float) -> tuple[Array, Array]:
        """Ω*(θ) + Ω(v) − ⟨θ, v⟩ and ∇Ω*(θ) of rows for Ω = strength Ψ, without differences of large numbers."""


@dataclass(frozen=True)
class Euclidean(Regularizer):
    """Ψ(μ) = ½‖μ‖²: predictions are Euclidean projections (sparsemax, SparseMAP), often sparse."""

    name: ClassVar[str] = "euclidean"
    oracle: ClassVar[str] = "project"

    def predict(self, structure: Structure, theta: Array) -> Array:
        return structure.project(theta)

    def omega(self, structure: Structure, mu: Array) -> Array:
        return 0.5 * inner(mu, mu)

    def strong_convexity(self, structure: Structure) -> float:
        return 1.0

    def loss(self, structure: Structure, theta: Array, v: Array, strength: float) -> tuple[Array, Array]:
        centered = structure.center(theta)
        mu = self.predict(structure, centered / strength)
        return self.loss_at(structure, centered, v, strength, mu), mu

    def loss_at(self, structure: Structure, theta: Array, v: Array, strength: float, mu: Array) -> Array:
        """⟨θ, μ⟩ − Ω(μ) + Ω(v) − ⟨θ, v⟩: the loss where μ is the prediction, below it by at most μ's own gap elsewhere."""
        return strength * self.omega(structure, v - mu) + inner(theta - strength * mu, mu - v)


@dataclass(frozen=True)
class KL(Regularizer):
    """Ψ(μ) = ⟨μ, log μ⟩: predictions are Kullback-Leibler projections (softmax, Sinkhorn), never exactly zero."""

    name: ClassVar[str] = "kl"
    oracle: ClassVar[str] = "kl_project"

    def predict(self, structure: Structure, theta: Array) -> Array:
        return structure.kl_project(theta)

    def omega(self, structure: Structure, mu: Array) -> Array:
        return item_sums(replaced(mu, lambda x: x * np.log(np.where(x > 0, x, 1))))

    def strong_convexity(self, structure: Structure) -> float:
        # 1/max ||μ||_1 in the 1-norm (Blondel 2019, Proposition 2), which is at least the Euclidean norm.
        return 1.0 / structure.max_l1 if structure.max_l1 > 0 else np.inf

    def loss(self, structure: Structure, theta: Array, v: Array, strength: float) -> tuple[Array, Array]:
        centered = structure.center(theta)
        mu = self.predict(structure, centered / strength)
        entropies = self.omega(structure, v) - self.omega(structure, mu)
        return strength * entropies + inner(centered, mu - v), mu


@dataclass(frozen=True)
class Gibbs(Regularizer):
    """Ψ(μ) = −max entropy of a distribution over vertices with mean μ: predictions are Gibbs marginals (CRF).

    With ``enumerated`` they are sums over a list of all outputs, O(vertices · dim): for structures that have no marginals of
    their own, such as permutations of up to six items or so.

    >>> from fenchel.losses import FenchelYoung, Gibbs
    >>> from fenchel.structures import Birkhoff
    >>> FenchelYoung(Birkhoff(2), Gibbs(enumerated=True)).predict([[1.0, 0.0], [0.0, 0.0]]).round(2)
    array([[0.73, 0.27],
           [0.27, 0.73]])
    """

    enumerated: bool = False
    name: ClassVar[str] = "gibbs"

    @property
    def oracle(self) -> str:  # type: ignore[override]
        return "vertices" if self.enumerated else "marginals"

    def predict(self, structure: Structure, theta: Array) -> Array:
        return self._marginals(structure, theta)[1]

    def omega(self, structure: Structure, mu: Array) -> Array:
        return structure.gibbs_omega(mu)

    def strong_convexity(self, structure: Structure) -> float:
        # The log-partition has the covariance of φ(Y) as its Hessian, at most (diameter/2)² in spectral norm.
        diameter = structure.diameter(2)
        return 4.0 / diameter**2 if diameter > 0 else np.inf

    def loss(self, structure: Structure, theta: Array, v: Array, strength: float) -> tuple[Array, Array]:
        centered = structure.center(theta)
        log_partition, mu = self._marginals(structure, centered / strength)
        omega = np.zeros(len(v)) if structure.are_vertices(v) else self.omega(structure, v)
        return strength * (log_partition + omega) - inner(centered, v), mu

    def _marginals(self, structure: Structure, theta: Any) -> tuple[Array, Any]:
        if not self.enumerated:
            return structure.marginals(theta)
        check_no_nan(theta, "scores", structure)
        if not isinstance(structure, Family):
            return marginals_by_enumeration(structure, theta)
        log_partition, mu = np.zeros(len(theta)), Ragged.empty(theta.sizes, theta.dtype)
        for items, (log_sums, means) in structure.answers(theta, marginals_by_enumeration):
            log_partition[items] = log_sums
            mu.set_rows(items, means)
        return log_partition, mu


def make_regularizer(value: Any) -> Regularizer:
    """A regularizer from itself or its name."""
    if isinstance(value, Regularizer):
        return value
    if isinstance(value, str):
        return registry.find("regularizer", value).load()()
    raise InvalidInput(f"regularizer is {value!r}, expected 'euclidean', 'kl', 'gibbs' or a Regularizer")
