"""Inner loops of margin losses between classes: sums of binary hinges by table, and relative margins."""

from __future__ import annotations

from .._core.compile import kernel
from .._core.types import Array

__all__ = ["crammer_singer", "hinge_table", "weston_watkins"]


@kernel
def hinge_table(
    start: int, stop: int, f: Array, y: Array, up: Array, down: Array, up_margin: Array, down_margin: Array,
    value: Array, gradient: Array,
) -> None:  # fmt: skip
    """Σ_b up[y, b] (up_margin[y, b] − f_b)_+ + down[y, b] (down_margin[y, b] + f_b)_+."""
    for i in range(start, stop):
        c = y[i]
        total = 0.0
        for b in range(f.shape[1]):
            short = up_margin[c, b] - f[i, b]
            over = down_margin[c, b] + f[i, b]
            slope = 0.0
            if short > 0.0:
                total += up[c, b] * short
                slope -= up[c, b]
            if over > 0.0:
                total += down[c, b] * over
                slope += down[c, b]
            gradient[i, b] = slope
        value[i] = total


@kernel
def weston_watkins(start: int, stop: int, f: Array, y: Array, value: Array, gradient: Array) -> None:
    """Σ over j ≠ y of (1 + f_j − f_y)_+."""
    for i in range(start, stop):
        c = y[i]
        total = 0.0
        count = 0.0
        for j in range(f.shape[1]):
            margin = 1.0 + (f[i, j] - f[i, c])
            violated = j != c and margin > 0.0
            total += margin if violated else 0.0
            count += 1.0 if violated else 0.0
            gradient[i, j] = 1.0 if violated else 0.0
        gradient[i, c] = -count
        value[i] = total


@kernel
def crammer_singer(start: int, stop: int, f: Array, y: Array, value: Array, gradient: Array) -> None:
    """max over j ≠ y of (1 + f_j − f_y)_+."""
    for i in range(start, stop):
        c = y[i]
        worst = 0.0
        rival = c
        for j in range(f.shape[1]):
            gradient[i, j] = 0.0
            margin = 1.0 + (f[i, j] - f[i, c])
            if j != c and margin > worst:
                worst = margin
                rival = j
        gradient[i, rival] += 1.0
        gradient[i, c] -= 1.0
        value[i] = worst
