"""Local search for a histogram of least weighted cost, where costs add up over bins."""

from __future__ import annotations

import numpy as np

from .._core.compile import inline_kernel, kernel

__all__ = ["local_search"]


@inline_kernel
def _bin_cost(value, weights, column, absolute):  # type: ignore[no-untyped-def]
    """Σ_i weights[i] δ(value, y_i) of one bin; ``column`` holds the roots of y_i for the absolute Hellinger cost."""
    total = 0.0
    if absolute:
        root = np.sqrt(value)
        for i in range(len(column)):
            total += weights[i] * abs(root - column[i])
    else:
        for i in range(len(column)):
            both = value + column[i]
            if both > 0.0:
                total += weights[i] * (value - column[i]) ** 2 / both
    return total


@kernel
def local_search(start, stop, weights, columns, absolute, largest, smallest, histograms):  # type: ignore[no-untyped-def]
    """Move mass from bin to bin while that costs less, in steps that halve; ``histograms`` are start and result."""
    bins = len(columns)
    now = np.empty(bins)
    more = np.empty(bins)
    less = np.empty(bins)
    for b in range(start, stop):
        y = histograms[b]
        a = weights[b]
        for k in range(bins):
            now[k] = _bin_cost(y[k], a, columns[k], absolute)
        scale = 0.0
        for i in range(len(a)):
            scale += abs(a[i])
        step = largest
        while step >= smallest:
            for k in range(bins):
                more[k] = _bin_cost(y[k] + step, a, columns[k], absolute) - now[k]
                less[k] = _bin_cost(max(y[k] - step, 0.0), a, columns[k], absolute) - now[k] if y[k] > 0.0 else np.inf
            for _ in range(8 * bins):
                # the best pair of different bins: one of the two best of either side
                give, give2, take, take2 = -1, -1, -1, -1
                for k in range(bins):
                    if give < 0 or less[k] < less[give]:
                        give2 = give
                        give = k
                    elif give2 < 0 or less[k] < less[give2]:
                        give2 = k
                    if take < 0 or more[k] < more[take]:
                        take2 = take
                        take = k
                    elif take2 < 0 or more[k] < more[take2]:
                        take2 = k
                if give == take:
                    if bins < 2:
                        break
                    if less[give2] + more[take] < less[give] + more[take2]:
                        give = give2
                    else:
                        take = take2
                if not less[give] < np.inf:
                    break
                amount = min(step, y[give])
                gain = more[take]
                if amount < step:  # a bin that is emptied gives less than a step
                    gain = _bin_cost(y[take] + amount, a, columns[take], absolute) - now[take]
                if not gain + less[give] < -1e-12 * scale:
                    if amount < step:
                        less[give] = np.inf  # try the others
                        continue
                    break
                y[take] += amount
                y[give] = y[give] - amount if amount == step else 0.0
                for k in (give, take):
                    now[k] = _bin_cost(y[k], a, columns[k], absolute)
                    more[k] = _bin_cost(y[k] + step, a, columns[k], absolute) - now[k]
                    less[k] = (
                        _bin_cost(max(y[k] - step, 0.0), a, columns[k], absolute) - now[k] if y[k] > 0.0 else np.inf
                    )
            step *= 0.5
