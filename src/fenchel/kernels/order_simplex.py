"""Inner loops of the order simplex: bounded isotonic regression and the marginals over grades."""

from __future__ import annotations

import numpy as np

from .._core.compile import kernel
from .._core.types import Array
from .special import fast_exp

__all__ = ["grade_marginals", "isotonic"]


@kernel
def isotonic(start: int, stop: int, theta: Array, scale: float, out: Array) -> None:
    """out[i] = the non-increasing sequence nearest to scale * theta[i] (pool adjacent violators, O(k)), unbounded."""
    k = theta.shape[1]
    sums = np.empty(k)
    lengths = np.empty(k)
    for i in range(start, stop):
        last = -1
        for j in range(k):
            total = theta[i, j] * scale
            length = 1.0
            while last >= 0 and sums[last] * length < total * lengths[last]:
                total += sums[last]
                length += lengths[last]
                last -= 1
            last += 1
            sums[last] = total
            lengths[last] = length
        j = 0
        for b in range(last + 1):
            mean = sums[b] / lengths[b]
            for _ in range(int(lengths[b])):
                out[i, j] = mean
                j += 1


@kernel
def grade_marginals(start: int, stop: int, theta: Array, log_sum: Array, out: Array) -> None:
    """out[i, j] = P(grade > j) and the log-partition, where grade g has the score theta[i, 0] + ... + theta[i, g-1]."""
    k = theta.shape[1]
    for i in range(start, stop):
        top = 0.0
        score = 0.0
        for j in range(k):
            score += theta[i, j]
            top = max(top, score)
        total = fast_exp(-top)
        score = 0.0
        for j in range(k):
            score += theta[i, j]
            d = score - top
            e = fast_exp(d) if d > -708.0 else 0.0
            out[i, j] = e
            total += e
        tail = 0.0
        for j in range(k - 1, -1, -1):
            tail += out[i, j]
            out[i, j] = tail / total
        log_sum[i] = top + np.log(total)
