"""Scores from a kernel between inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .._core.errors import InvalidInput
from .._core.kernel_matrix import kernel_matrix
from .._core.types import Array
from .base import Index
from .linear import Linear

__all__ = ["Expansion", "Kernel", "check_symmetric"]


class Kernel(Linear):
    """θ(x) = Σ_j β_j k(x, x_j): scores from a kernel, with the penalty of its function space.

    By the representer theorem this is a linear scorer on the coordinates of the training inputs in the span of the
    kernel: K = Φ Φᵀ with Φ = U S^(1/2) from an eigendecomposition, so every solver, certificate and warm start holds
    unchanged. O(n³) once and O(n²) memory; directions below 1e-12 of the largest are left out.

    ``kernel`` is any name scikit-learn's ``pairwise_kernels`` knows or a function of two matrices of rows
    (``kernel(A, B) -> (len(A), len(B))``); ``params`` go to it. ``features(X)`` gives the coordinates of other inputs.

    >>> import numpy as np
    >>> from fenchel.scorers import Kernel
    >>> X = np.array([[0.0], [1.0], [2.0]])
    >>> scorer = Kernel(X, (2,), kernel="rbf", params={"gamma": 1.0})
    >>> bool(np.allclose(scorer.X @ scorer.X.T, np.exp(-((X - X.T) ** 2))))
    True
    """

    def __init__(
        self,
        X: Any,
        shape: tuple[int, ...],
        *,
        kernel: str | Callable[..., Any] = "rbf",
        params: Mapping[str, Any] | None = None,
        intercept_scaling: float | None = None,
    ) -> None:
        self.inputs = X
        self.kernel = kernel
        self.params = dict(params or {})
        gram = kernel_matrix(X, X, kernel, self.params)
        check_symmetric(gram, kernel)
        values, vectors = np.linalg.eigh((gram + gram.T) / 2)
        largest = float(values.max(initial=0))
        if values.size and values.min() < -1e-6 * max(largest, 1e-300):
            raise InvalidInput(
                f"kernel {kernel!r} is not positive semi-definite on the training inputs "
                f"(an eigenvalue is {values.min():.3g})"
            )
        kept = values > 1e-12 * largest
        if not kept.any():
            raise InvalidInput(f"kernel {kernel!r} is zero between all training inputs")
        roots = np.sqrt(values[kept])
        self.to_features = vectors[:, kept] / roots
        super().__init__(np.ascontiguousarray(vectors[:, kept] * roots), shape, intercept_scaling=intercept_scaling)

    @property
    def rank(self) -> int:
        """How many coordinates there are."""
        return int(self.X.shape[1])

    def features(self, X: Any) -> Array:
        """The coordinates of inputs, for which scores are linear in the weights."""
        return kernel_matrix(X, self.inputs, self.kernel, self.params) @ self.to_features


def check_symmetric(gram: Array, kernel: Any) -> None:
    if not np.allclose(gram, gram.T, atol=1e-8 * max(1.0, float(np.abs(gram).max(initial=0)))):
        raise InvalidInput(f"kernel {kernel!r} is not symmetric on the training inputs")


class Expansion(Linear):
    """θ(x) = Σ_j β_j k(x, x_j) with the coefficients β as weights, for steps that go down in the kernel's function space.

    ``gram`` holds k(x, x_j) for the inputs at hand against all that have coefficients, and ``places`` says which of those
    the inputs at hand are: a gradient is a residual at the input's own place. It serves learning one by one, where the
    inputs that have coefficients become more and more, and :class:`~fenchel.solvers.DualCoordinate`, which needs no
    coordinates; it is no transpose pair, so other batch solvers take ``Kernel``.
    """

    def __init__(
        self, gram: Array, shape: tuple[int, ...], places: Array, *, intercept_scaling: float | None = None
    ) -> None:
        super().__init__(gram, shape, intercept_scaling=intercept_scaling)
        self.places = places

    def take(self, idx: Any) -> Expansion:
        return Expansion(self.X[idx], self.shape, self.places[idx], intercept_scaling=self.intercept_scaling)

    def adjoint(self, residual: Array, idx: Index = None) -> Array:
        flat = residual.reshape(len(residual), self.n_scores)
        gradient = np.zeros(self.weights_shape)
        np.add.at(gradient, self.places if idx is None else self.places[idx], flat)
        if self.intercept_scaling is not None:
            gradient[-1] = self.intercept_scaling * flat.sum(axis=0, dtype=np.float64)
        return gradient
