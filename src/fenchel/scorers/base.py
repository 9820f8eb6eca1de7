"""The contract of a scorer: the linear map from weights to the scores of all training examples, and its adjoint."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from .._core.types import Array

__all__ = ["Index", "Scorer"]

Index = Any
"""Which examples: None for all, an integer array, or a slice."""


class Scorer(ABC):
    """θ = A w for the examples at hand: how inputs become scores. Solvers know nothing else of the inputs."""

    @property
    @abstractmethod
    def n_examples(self) -> int:
        """How many examples there are."""

    @property
    @abstractmethod
    def weights_shape(self) -> tuple[int, ...]:
        """The shape of w."""

    @abstractmethod
    def scores(self, w: Array, idx: Index = None) -> Array:
        """The scores of the examples ``idx`` under the weights w."""

    @abstractmethod
    def adjoint(self, residual: Array, idx: Index = None) -> Array:
        """Σ A_iᵀ r_i over the examples ``idx``, in the shape of w and in float64."""

    @abstractmethod
    def quadratic(self, direction: Array, idx: Index = None) -> Array:
        """‖A_iᵀ d_i‖² of each example: what an exact line search over one block needs."""

    def take(self, idx: Any) -> Scorer:
        """The scorer of some examples, with weights of the same meaning."""
        raise NotImplementedError(f"{type(self).__name__} cannot be cut into examples")

    def gram(self, p: Array | float) -> Array | None:
        """Σ p_i A_iᵀA_i for one score, where all scores share it and it is worth its cost; else None."""
        return None

    def penalty(self, w: Array) -> float:
        """½‖w‖²."""
        return 0.5 * float(np.vdot(w, w))

    def zero_weights(self) -> Array:
        return np.zeros(self.weights_shape)
