"""Small maximisers that the conformance suite wraps as a user would."""

from __future__ import annotations

import numpy as np

from .._core.types import Array

__all__ = ["example_argmax", "example_batched_argmax", "example_cost"]


def example_argmax(theta: Array) -> Array:
    """The best run of neighbours: a segment of a line, or nothing."""
    n = len(theta)
    best, vertex = 0.0, np.zeros(n)
    for i in range(n):
        for j in range(i + 1, n + 1):
            score = float(theta[i:j].sum())
            if score > best:
                best = score
                vertex = np.zeros(n)
                vertex[i:j] = 1
    return vertex


def example_batched_argmax(theta: Array) -> Array:
    """The best entry of each row of a table, for a batch of tables."""
    vertex = np.zeros_like(theta)
    np.put_along_axis(vertex, theta.argmax(axis=-1)[..., None], 1, axis=-1)
    return vertex


def example_cost(answer: float, truth: float) -> float:
    """Too low costs twice as much as too high."""
    return 2.0 * max(truth - answer, 0.0) + max(answer - truth, 0.0)
