"""Inner loops of the budget polytope: threshold projections and marginals over counts."""

from __future__ import annotations

import numpy as np

from .._core.compile import inline_kernel, kernel
from .._core.types import Array
from .special import fast_exp

__all__ = ["kl_project", "marginals", "project"]

# A threshold beyond this has lost digits that the projection needs.
_LARGE = 64.0


@inline_kernel
def _clipped_sum(row, tau):  # type: ignore[no-untyped-def]
    """Σ clip(row − tau, 0, 1) and how many entries are strictly inside."""
    total = 0.0
    inside = 0.0
    for j in range(row.shape[0]):
        d = row[j] - tau
        total += min(max(d, 0.0), 1.0)
        inside += 1.0 if (d > 0.0) & (d < 1.0) else 0.0
    return total, inside


@inline_kernel
def _largest(row):  # type: ignore[no-untyped-def]
    top = -np.inf
    for j in range(row.shape[0]):
        top = max(top, row[j])
    return top


@inline_kernel
def _least_finite(row):  # type: ignore[no-untyped-def]
    bottom = np.inf
    for j in range(row.shape[0]):
        bottom = min(bottom, row[j] if row[j] > -np.inf else np.inf)
    return bottom


@inline_kernel
def _threshold(row, total, inside, target):  # type: ignore[no-untyped-def]
    """tau with Σ clip(row − tau, 0, 1) = target.

    Newton's method on a piecewise linear, non-increasing function, kept inside a bracket by bisection. On the piece that
    holds the answer a Newton step is exact.
    """
    if target == 0.0:
        return _largest(row)
    left = 0.0 if total > target else -np.inf  # the sum here is >= target
    right = np.inf if total > target else 0.0  # and here <= target
    tau = 0.0
    for _ in range(200):
        if total == target:
            break
        if total > target:
            left = tau
        else:
            right = tau
        step = tau + (total - target) / inside if inside > 0.0 else np.inf
        if not ((step > left) & (step < right)):
            if right == np.inf:  # seldom needed, and a pass over the row each
                right = _largest(row)
            if left == -np.inf:
                left = _least_finite(row) - 1.0
            step = 0.5 * (left + right)
            if (step <= left) | (step >= right):
                break
        if step == tau:
            break
        tau = step
        total, inside = _clipped_sum(row, tau)
        if abs(total - target) <= 4e-15 * target:
            break
    return tau


@kernel
def project(start: int, stop: int, theta: Array, lows: Array, highs: Array, out: Array) -> None:
    """out[i] = the Euclidean projection of theta[i] onto {0 <= mu <= 1, low <= sum mu <= high}.

    The answer is clip(theta - tau, 0, 1) with tau = 0, or where that breaks a bound m the tau with sum m.
    """
    k = theta.shape[1]
    near = np.empty(k)
    for i in range(start, stop):
        row = theta[i]
        total, inside = _clipped_sum(row, 0.0)
        tau = 0.0
        if total > highs[i]:
            tau = _threshold(row, total, inside, float(highs[i]))
        elif total < lows[i]:
            tau = _threshold(row, total, inside, float(lows[i]))
        if abs(tau) > _LARGE:
            # near the threshold differences of scores are exact, the threshold itself is not: search once more from
            # the score nearest to it
            base = row[0]
            for j in range(1, k):
                base = row[j] if abs(row[j] - tau) < abs(base - tau) else base
            target = highs[i] if total > highs[i] else lows[i]
            for j in range(k):
                near[j] = row[j] - base
            total, inside = _clipped_sum(near, 0.0)
            tau = _threshold(near, total, inside, float(target))
            for j in range(k):
                out[i, j] = min(max(near[j] - tau, 0.0), 1.0)
            continue
        for j in range(k):
            out[i, j] = min(max(row[j] - tau, 0.0), 1.0)


@kernel
def kl_project(start: int, stop: int, theta: Array, descending: Array, lows: Array, highs: Array, out: Array) -> None:
    """out[i] = argmax <theta, mu> - <mu, log mu> over the budget polytope: min(1, exp(theta - 1 - tau)).

    With the scores in decreasing order the entries at one come first: the first count r of them for which the rest,
    scaled to the sum m - r, stays below one.
    """
    k = theta.shape[1]
    tail = np.empty(k)
    for i in range(start, stop):
        row = descending[i]
        low, high = float(lows[i]), float(highs[i])
        total = 0.0
        for j in range(k):
            d = row[j] - 1.0
            total += 1.0 if d >= 0.0 else (fast_exp(d) if d > -708.0 else 0.0)
        base, factor = 1.0, 1.0  # mu = min(1, factor exp(theta - base)): of far scores the differences are exact
        ones = -1
        if total > high or total < low:
            target = high if total > high else low
            if target == 0.0:
                for j in range(k):
                    out[i, j] = 0.0
                continue
            # sum of exp of the scores from j on less the first of them, from the smallest up
            tail[k - 1] = 1.0
            for j in range(k - 2, -1, -1):
                d = row[j + 1] - row[j]
                tail[j] = 1.0 + (fast_exp(d) * tail[j + 1] if d > -708.0 else 0.0)
            for r in range(k):
                rest = target - r
                if rest <= 0.0:
                    ones = r
                    factor = 0.0
                    break
                base, factor = row[r], rest / tail[r]
                if factor <= 1.0:
                    ones = r
                    break
            if ones < 0:
                ones = k
        # entries at one by rank, the others by their score; ties with the last one at one have the same score
        edge = np.inf
        if ones > 0:
            edge = row[ones - 1]
        for j in range(k):
            x = theta[i, j]
            if ones >= 0 and ones > 0 and x >= edge:
                out[i, j] = 1.0
            else:
                d = min(x - base, 0.0)
                out[i, j] = min(factor * fast_exp(d), 1.0) if d > -708.0 else 0.0


@kernel
def marginals(start: int, stop: int, theta: Array, lows: Array, highs: Array, log_sum: Array, out: Array) -> None:
    """Gibbs marginals of subsets with low to high labels, by a dynamic programme over counts, O(k high).

    Forward, in the log domain: the weight of all choices among the first labels with c chosen, and with it the chance
    that the last of them is one. Backward, in chances: the distribution of the count. Scores of any size and -inf
    are fine, and marginals sum to the mean count whatever the scores have lost to rounding.
    """
    k = theta.shape[1]
    most = 0
    for i in range(start, stop):
        most = max(most, highs[i])
    weights = np.empty(most + 1)
    chance = np.empty((k, most + 1))
    count = np.empty(most + 1)
    for i in range(start, stop):
        low, high = lows[i], highs[i]
        for c in range(high + 1):
            weights[c] = -np.inf
        weights[0] = 0.0
        for j in range(k):
            x = theta[i, j]
            for c in range(high, 0, -1):
                without = weights[c]
                chosen = weights[c - 1] + x
                m = max(without, chosen)
                if m == -np.inf:
                    chance[j, c] = 0.0
                else:
                    a = np.exp(without - m)
                    b = np.exp(chosen - m)
                    chance[j, c] = b / (a + b)
                    weights[c] = m + np.log(a + b)
        m = -np.inf
        for c in range(low, high + 1):
            m = max(m, weights[c])
        total = 0.0
        for c in range(high + 1):
            count[c] = np.exp(weights[c] - m) if c >= low else 0.0
            total += count[c]
        log_sum[i] = m + np.log(total)
        for c in range(high + 1):
            count[c] /= total
        for j in range(k - 1, -1, -1):
            p = 0.0
            for c in range(1, high + 1):
                moved = count[c] * chance[j, c]
                p += moved
                count[c] -= moved
                count[c - 1] += moved
            out[i, j] = min(p, 1.0)
