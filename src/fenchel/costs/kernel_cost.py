"""The squared distance that a kernel between outputs makes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._core.errors import InvalidInput
from .._core.kernel_matrix import kernel_matrix
from .._core.types import Array
from .base import Cost, as_numbers, as_outputs

__all__ = ["KernelCost"]

_AT_ONCE = 64


@dataclass(frozen=True)
class KernelCost(Cost):
    """h(ŷ, ŷ) − 2 h(ŷ, y) + h(y, y): the squared distance of two outputs in the space of a kernel h.

    This is the cost of kernel dependency estimation. ``kernel`` is any name that scikit-learn's ``pairwise_kernels`` knows, for
    outputs that are rows of numbers, or a function of two lists of outputs (``h(A, B) -> (len(A), len(B))``), for outputs of any
    kind; ``params`` go to it.

    References: Weston, Chapelle, Vapnik, Elisseeff and Schölkopf, "Kernel dependency estimation", 2002; Cortes, Mohri and
    Weston, "A general regression technique for learning transductions", 2005.

    >>> from fenchel.costs import KernelCost
    >>> KernelCost("linear")([[1.0, 0.0]], [[0.0, 2.0]])  # the squared distance itself
    array([5.])
    """

    kernel: str | Callable[..., Any] = "rbf"
    params: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        name = self.kernel if isinstance(self.kernel, str) else getattr(self.kernel, "__qualname__", "kernel")
        return f"KernelCost({name!r}, {dict(self.params)!r})" if self.params else f"KernelCost({name!r})"

    def __hash__(self) -> int:
        return hash((self.kernel, repr(sorted(self.params.items()))))

    def kernel_between(self, A: Any, B: Any) -> Array:
        """h between two lists of outputs."""
        return kernel_matrix(self._outputs_of(A), self._outputs_of(B), self.kernel, self.params)

    def kernel_diagonal(self, outputs: Any) -> Array:
        """h(y, y) of each output."""
        outputs = self._outputs_of(outputs)
        parts = [
            np.diag(kernel_matrix(part, part, self.kernel, self.params))
            for part in (outputs[i : i + _AT_ONCE] for i in range(0, len(outputs), _AT_ONCE))
        ]
        return np.concatenate(parts) if parts else np.zeros(0)

    def __call__(self, y_pred: Any, y_true: Any) -> Array:
        answers, truths = self._outputs_of(y_pred), self._outputs_of(y_true)
        if answers.shape != truths.shape:
            raise InvalidInput(f"y_pred has shape {answers.shape} but y_true has shape {truths.shape}")
        parts = [
            np.diag(self.between(answers[i : i + _AT_ONCE], truths[i : i + _AT_ONCE]))
            for i in range(0, len(answers), _AT_ONCE)
        ]
        return np.concatenate(parts) if parts else np.zeros(0)

    def between(self, answers: Any, truths: Any) -> Array:
        costs = self.kernel_between(answers, truths)
        costs *= -2
        costs += self.kernel_diagonal(answers)[:, None]
        costs += self.kernel_diagonal(truths)
        return np.maximum(costs, 0, out=costs)

    def _outputs_of(self, outputs: Any) -> Array:
        if callable(self.kernel):
            return as_outputs(outputs)
        rows = as_numbers(outputs, "outputs", self)
        return rows[:, None] if rows.ndim == 1 else rows.reshape(len(rows), -1)
