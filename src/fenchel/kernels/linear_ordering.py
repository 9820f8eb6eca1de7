"""Dynamic programmes over subsets for linear orderings: the best one, and Gibbs marginals.

An ordering is built from its first item on. Placing item i after the set S has been placed earns the scores of i before
every item that is still to come, Σ_{j ∉ S ∪ {i}} θ_ij, which depends on S alone and not on the order within it.
"""

from __future__ import annotations

import numpy as np

from .._core.compile import inline_kernel, kernel

__all__ = ["argmax", "marginals"]


@inline_kernel
def _half_sums(theta, low, first, second):  # type: ignore[no-untyped-def]
    """Σ θ_ij over the items j in a subset, for the subsets of the first ``low`` items and of the others."""
    n = theta.shape[0]
    for i in range(n):
        first[i, 0] = 0.0
        second[i, 0] = 0.0
        for half in range(2):
            table = first if half == 0 else second
            start = 0 if half == 0 else low
            stop = low if half == 0 else n
            for j in range(start, stop):
                size = 1 << (j - start)
                score = 0.0 if i == j else theta[i, j]
                for subset in range(size):
                    table[i, size + subset] = table[i, subset] + score


@kernel
def argmax(start, stop, theta, order):  # type: ignore[no-untyped-def]
    """The order of highest score, first item first; order[b, 0] is -1 where scores forbid every ordering."""
    n = theta.shape[1]
    low = n // 2
    full = (1 << n) - 1
    mask = (1 << low) - 1
    first = np.empty((n, 1 << low))
    second = np.empty((n, 1 << (n - low)))
    best = np.empty(1 << n)
    choice = np.empty(1 << n, np.int8)
    for b in range(start, stop):
        _half_sums(theta[b], low, first, second)
        # best[S]: the most that the items outside S can still earn once S has been placed
        best[full] = 0.0
        for placed in range(full - 1, -1, -1):
            top = -np.inf
            pick = -1
            for i in range(n):
                if placed >> i & 1:
                    continue
                rest = full & ~(placed | (1 << i))
                value = first[i, rest & mask] + second[i, rest >> low] + best[placed | (1 << i)]
                if value > top:
                    top = value
                    pick = i
            best[placed] = top
            choice[placed] = pick
        placed = 0
        if choice[0] < 0:
            order[b, 0] = -1
            continue
        for position in range(n):
            pick = choice[placed]
            order[b, position] = pick
            placed |= 1 << pick


@kernel
def marginals(start, stop, theta, log_partition, mu):  # type: ignore[no-untyped-def]
    """log Σ exp ⟨θ, φ⟩ over all orderings, and the probability that i precedes j; -inf where all are forbidden."""
    n = theta.shape[1]
    low = n // 2
    full = (1 << n) - 1
    mask = (1 << low) - 1
    first = np.empty((n, 1 << low))
    second = np.empty((n, 1 << (n - low)))
    after = np.empty(1 << n)  # log of the sum over orders of what is outside S
    reach = np.empty(1 << n)  # probability that S is placed first
    for b in range(start, stop):
        _half_sums(theta[b], low, first, second)
        after[full] = 0.0
        for placed in range(full - 1, -1, -1):
            top = -np.inf
            for i in range(n):
                if placed >> i & 1:
                    continue
                rest = full & ~(placed | (1 << i))
                top = max(top, first[i, rest & mask] + second[i, rest >> low] + after[placed | (1 << i)])
            if top == -np.inf:
                after[placed] = top
                continue
            total = 0.0
            for i in range(n):
                if placed >> i & 1:
                    continue
                rest = full & ~(placed | (1 << i))
                total += np.exp(first[i, rest & mask] + second[i, rest >> low] + after[placed | (1 << i)] - top)
            after[placed] = top + np.log(total)
        log_partition[b] = after[0]
        mu[b] = 0.0
        if after[0] == -np.inf:
            continue
        reach[:] = 0.0
        reach[0] = 1.0
        for placed in range(full):
            here = reach[placed]
            if here == 0.0:
                continue
            # What is left by rounding of huge scores is spread so that the steps sum to one.
            total = 0.0
            for i in range(n):
                if not placed >> i & 1:
                    rest = full & ~(placed | (1 << i))
                    value = first[i, rest & mask] + second[i, rest >> low] + after[placed | (1 << i)] - after[placed]
                    total += np.exp(value)
            for i in range(n):
                if placed >> i & 1:
                    continue
                rest = full & ~(placed | (1 << i))
                value = first[i, rest & mask] + second[i, rest >> low] + after[placed | (1 << i)] - after[placed]
                p = here * np.exp(value) / total
                if p == 0.0:
                    continue
                reach[placed | (1 << i)] += p
                for j in range(n):
                    if rest >> j & 1:
                        mu[b, i, j] += p
