"""The small quadratic program of a bundle method, by pairs of coordinates."""

from __future__ import annotations

import numpy as np

from .._core.compile import kernel
from .._core.types import Array

__all__ = ["simplex_quadratic"]


@kernel
def simplex_quadratic(H: Array, a: Array, weights: Array, tol: float, max_iter: int) -> float:
    """min ½ λᵀHλ − aᵀλ over the simplex, from and into ``weights``; returns by how much optimality is missed.

    Each step moves weight from the coordinate of largest slope that has some to that of least slope, exactly.
    """
    m = len(a)
    slope = H @ weights - a
    violation = np.inf
    for _ in range(max_iter):
        low = 0
        high = -1
        for t in range(m):
            if slope[t] < slope[low]:
                low = t
            if weights[t] > 0.0 and (high < 0 or slope[t] > slope[high]):
                high = t
        violation = slope[high] - slope[low]
        if violation <= tol:
            break
        curvature = H[low, low] + H[high, high] - 2.0 * H[low, high]
        step = weights[high]
        if curvature * step > violation:
            step = violation / curvature
        weights[low] += step
        weights[high] -= step
        if weights[high] < 1e-300:
            weights[high] = 0.0
        for t in range(m):
            slope[t] += step * (H[t, low] - H[t, high])
    return violation
