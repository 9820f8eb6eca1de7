"""Orders of many items with few and light arcs that point back, and the preferences that ratings add up to.

``preference[i, j] = -preference[j, i]`` is what it earns to have i before j.
"""

from __future__ import annotations

import numpy as np

from .._core.compile import inline_kernel, kernel

__all__ = ["add_preferences", "order", "rated_pairs"]


@inline_kernel
def _greedy(preference, result):  # type: ignore[no-untyped-def]
    """Eades, Lin and Smyth: sinks to the end, sources to the front, else the item of largest outflow minus inflow."""
    n = len(preference)
    net = np.zeros(n)
    outgoing = np.zeros(n, np.int64)
    incoming = np.zeros(n, np.int64)
    left = np.arange(n)
    for i in range(n):
        for j in range(n):
            w = preference[i, j]
            net[i] += w
            outgoing[i] += w > 0
            incoming[i] += w < 0
    front, back, remaining = 0, n - 1, n
    while remaining > 0:
        pick, at_end = -1, False
        best = -np.inf
        for place in range(remaining):
            i = left[place]
            if outgoing[i] == 0:  # counted, not summed: sums of what is left drift
                pick, at_end = place, incoming[i] > 0
                break
            if incoming[i] == 0:
                pick, at_end = place, False
                break
            if net[i] > best:
                best = net[i]
                pick = place
        item = left[pick]
        if at_end:
            result[back] = item
            back -= 1
        else:
            result[front] = item
            front += 1
        remaining -= 1
        left[pick] = left[remaining]
        for place in range(remaining):
            i = left[place]
            w = preference[item, i]
            net[i] += w  # what i earned against the item, -w, counts no more
            outgoing[i] -= w < 0
            incoming[i] -= w > 0


@inline_kernel
def _insert(preference, result, passes, margin):  # type: ignore[no-untyped-def]
    """Move one item at a time to its best place, until no move earns more than ``margin``."""
    n = len(preference)
    for _ in range(passes):
        moved = False
        for item in range(n):
            place = 0
            while result[place] != item:
                place += 1
            best, target = margin, place
            earned = 0.0
            for q in range(place - 1, -1, -1):
                earned += preference[item, result[q]]
                if earned > best:
                    best, target = earned, q
            earned = 0.0
            for q in range(place + 1, n):
                earned -= preference[item, result[q]]
                if earned > best:
                    best, target = earned, q
            if target != place:
                moved = True
                step = 1 if target > place else -1
                q = place
                while q != target:
                    result[q] = result[q + step]
                    q += step
                result[target] = item
        if not moved:
            break


@kernel
def order(start, stop, preference, passes, orders, earned):  # type: ignore[no-untyped-def]
    """An order for each matrix, first item first, and what it earns: the greedy one, then moved items."""
    n = preference.shape[1]
    for b in range(start, stop):
        _greedy(preference[b], orders[b])
        if passes > 0:
            largest = 0.0
            for i in range(n):
                for j in range(n):
                    largest = max(largest, abs(preference[b, i, j]))
            # a gain within rounding could be undone by the next move, for ever
            _insert(preference[b], orders[b], passes, 1e-12 * largest * n)
        total = 0.0
        for p in range(n):
            i = orders[b, p]
            for q in range(p + 1, n):
                total += preference[b, i, orders[b, q]]
        earned[b] = total


@kernel
def add_preferences(start, stop, weights, items, ratings, offsets, preference):  # type: ignore[no-untyped-def]
    """preference[b, i, j] = Σ_u weights[b, u] (rating of i − rating of j), over users u who rated both."""
    n = preference.shape[1]
    for b in range(start, stop):
        table = preference[b]
        for i in range(n):
            for j in range(n):
                table[i, j] = 0.0
        for user in range(len(offsets) - 1):
            a = weights[b, user]
            for p in range(offsets[user], offsets[user + 1]):
                own = ratings[p]
                row = table[items[p]]
                for q in range(p + 1, offsets[user + 1]):
                    row[items[q]] += a * (own - ratings[q])  # items of a user ascend, so this is the upper half
        for i in range(n):
            for j in range(i + 1, n):
                table[j, i] = -table[i, j]


@kernel
def rated_pairs(start, stop, ranks, items, ratings, offsets, paired, costs):  # type: ignore[no-untyped-def]
    """Σ of rating differences over the pairs that a ranking has in the wrong order, ties half; and all of it."""
    for a in range(start, stop):
        rank = ranks[a]
        low = a if paired else 0
        high = a + 1 if paired else len(offsets) - 1
        for user in range(low, high):
            total = 0.0
            for p in range(offsets[user], offsets[user + 1]):
                for q in range(p + 1, offsets[user + 1]):
                    difference = ratings[p] - ratings[q]
                    apart = rank[items[p]] - rank[items[q]]
                    if apart == 0:
                        total += 0.5 * abs(difference)
                    elif (difference > 0) == (apart > 0):
                        total += abs(difference)
            costs[a, 0 if paired else user] = total
