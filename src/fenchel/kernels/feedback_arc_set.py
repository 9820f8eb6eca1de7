"""Orders of many items with few and light arcs that point back, and the preferences that ratings add up to.

``preference[i, j] = -preference[j, i]`` is what it earns to have i before j.
"""

from __future__ import annotations

import numpy as np

from .._core.compile import inline_kernel, kernel

__all__ = ["add_preferences", "order", "rated_pairs"]


_BLOCK = 256
_GONE = 1e307  # finite, so that what is computed of items that have left is no NaN


@inline_kernel
def _ordered(bits):  # type: ignore[no-untyped-def]
    """An integer from the bits of a float, in the same order: of integers LLVM vectorises the maximum."""
    return bits ^ ((bits >> 63) & np.int64(2**63 - 1))


@inline_kernel
def _largest(bits):  # type: ignore[no-untyped-def]
    largest = np.int64(-(2**63))
    for i in range(len(bits)):
        largest = max(largest, _ordered(bits[i]))
    return largest


@inline_kernel
def _place_of_largest(bits):  # type: ignore[no-untyped-def]
    """Where the largest number is: by blocks, of which one is searched."""
    largest, start = np.int64(-(2**63)), 0
    for first in range(0, len(bits), _BLOCK):
        here = _largest(bits[first : first + _BLOCK])
        if here > largest:
            largest, start = here, first
    while _ordered(bits[start]) != largest:
        start += 1
    return start


@inline_kernel
def _flows(preference, net, mass):  # type: ignore[no-untyped-def]
    """Σ_j and Σ_j | | of each row. The upper triangle would do, but whole rows leave the matrix in the cache."""
    for i in range(len(preference)):
        row = preference[i]
        total, size = 0.0, 0.0
        for j in range(len(row)):
            total += row[j]
            size += abs(row[j])
        net[i], mass[i] = total, size


@inline_kernel
def _leave(net, mass, row, slack):  # type: ignore[no-untyped-def]
    """Take an item's row from the flows; how many items may be a sink or a source now."""
    near = np.int64(0)
    for i in range(len(net)):
        net[i] += row[i]  # what i earned against the item, -row[i], counts no more
        mass[i] -= abs(row[i])
        near += np.int64(mass[i] - abs(net[i]) <= slack)
    return near


@inline_kernel
def _greedy(preference, result):  # type: ignore[no-untyped-def]
    """Eades, Lin and Smyth: sinks to the end, sources to the front, else the item of largest outflow minus inflow.

    Gives what the order earns. Whole rows are worked on, those of items that have left too: that is faster than to
    gather the others, and most of the time is that of reading the matrix twice. An item whose flows nearly all point
    one way may be a sink or a source; its row tells.
    """
    n = len(preference)
    net = np.zeros(n)
    mass = np.zeros(n)
    bits = net.view(np.int64)
    there = np.ones(n, np.bool_)
    _flows(preference, net, mass)
    slack = 0.0  # what sums of what is left may be off by
    for i in range(n):
        slack = max(slack, mass[i])
    slack *= 1e-13 * n
    front, back = 0, n - 1
    earned = 0.0
    near = np.int64(n)
    while front <= back:
        item, at_end = -1, False
        if near > 0:
            for i in range(n):
                if there[i] and mass[i] - abs(net[i]) <= slack:
                    row = preference[i]
                    out, into = 0, 0
                    for j in range(n):
                        out += there[j] and row[j] > 0.0
                        into += there[j] and row[j] < 0.0
                    if out == 0 or into == 0:
                        item, at_end = i, out == 0 and into > 0
                        break
        if item < 0:
            item = _place_of_largest(bits)
        if at_end:
            result[back] = item
            back -= 1
            earned -= net[item]
        else:
            result[front] = item
            front += 1
            earned += net[item]
        there[item] = False
        net[item] = -_GONE
        mass[item] = 10 * _GONE
        near = _leave(net, mass, preference[item], slack)
    return earned


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
        earned[b] = _greedy(preference[b], orders[b])
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
