"""Inner loops of the permutahedron: isotonic steps, decomposition and sampling without decomposing."""

from __future__ import annotations

import numpy as np

from .._core.compile import exact_kernel, inline_kernel, kernel
from .._core.types import Array
from .special import uniform

__all__ = ["decompose", "kl_isotonic", "project", "project_in_order", "sample"]


@inline_kernel
def _pool(scores, weights, tops, lengths, heights, means, sums):  # type: ignore[no-untyped-def]
    """Pool adjacent violators: blocks of decreasing ``scores`` on which the projection is scores less a constant.

    Of each block the largest score, the length, the mean weight and the mean score less the largest; returns the last.
    """
    last = 0  # blocks before the one under way, which stays in registers
    total = scores[0] - weights[0]
    length = 1.0
    for r in range(1, scores.shape[0]):
        value = scores[r] - weights[r]
        if total <= value * length:
            total += value
            length += 1.0
            while last > 0 and sums[last - 1] * length <= total * lengths[last - 1]:
                last -= 1
                total += sums[last]
                length += lengths[last]
        else:
            sums[last] = total
            lengths[last] = length
            last += 1
            total = value
            length = 1.0
    lengths[last] = length
    r = 0
    for b in range(last + 1):
        size = int(lengths[b])
        top = scores[r]
        mean_weight = 0.0
        mean_score = 0.0
        for q in range(r, r + size):
            mean_weight += weights[q]
            mean_score += scores[q] - top
        tops[b] = top
        heights[b] = mean_weight / size if size > 1 else weights[r]
        means[b] = mean_score / size
        r += size
    return last


@kernel
def project(start: int, stop: int, theta: Array, ascending: Array, weights: Array, out: Array) -> None:
    """out[i] = the projection of theta[i] onto the hull of the permutations of ``weights`` (decreasing).

    With the scores in decreasing order it is theta minus the non-increasing sequence nearest to theta - weights. That is
    constant on blocks of neighbouring scores, so a score's block is found by its value: with few blocks, as where the
    scores lie closer together than the weights, the sorted scores will do, which numpy makes faster than their order.
    """
    n = theta.shape[1]
    scores, tops, lengths, heights, means, sums = (
        np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    )  # fmt: skip
    for i in range(start, stop):
        for r in range(n):
            scores[r] = ascending[i, n - 1 - r]
        last = _pool(scores, weights, tops, lengths, heights, means, sums)
        for j in range(n):
            score = theta[i, j]
            b = 0
            high = last
            while b < high:  # the last block whose largest score is not below this one
                middle = (b + high + 1) // 2
                if tops[middle] >= score:
                    b = middle
                else:
                    high = middle - 1
            # mean of the weights + deviation from the block's mean score, so that large scores cancel before the small
            # weights are added
            out[i, j] = heights[b] + ((score - tops[b]) - means[b])


@kernel
def project_in_order(start: int, stop: int, theta: Array, order: Array, weights: Array, out: Array) -> None:
    """The same by the order of the scores, which is faster where there are many blocks."""
    n = theta.shape[1]
    scores, tops, lengths, heights, means, sums = (
        np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    )  # fmt: skip
    for i in range(start, stop):
        for r in range(n):
            scores[r] = theta[i, order[i, r]]
        last = _pool(scores, weights, tops, lengths, heights, means, sums)
        r = 0
        for b in range(last + 1):
            for q in range(r, r + int(lengths[b])):
                out[i, order[i, q]] = heights[b] + ((scores[q] - tops[b]) - means[b])
            r += int(lengths[b])


@exact_kernel
def kl_isotonic(start: int, stop: int, theta: Array, order: Array, weights: Array, out: Array) -> None:
    """out[i] = the KL projection of exp(theta[i] - 1): blocks share a shift log sum exp(theta) - log sum weights.

    Blocks are kept as (largest score, sum of exponentials relative to it, sum of weights).
    """
    n = theta.shape[1]
    tops = np.empty(n)
    masses = np.empty(n)
    totals = np.empty(n)
    shifts = np.empty(n)
    lengths = np.empty(n, np.int64)
    for i in range(start, stop):
        last = -1
        for r in range(n):
            top = theta[i, order[i, r]]
            mass = 1.0
            total = weights[r]
            length = 1
            shift = top - np.log(total) if total > 0.0 else np.inf
            while last >= 0 and shifts[last] <= shift:
                # the earlier block has the larger scores
                mass = masses[last] + mass * np.exp(top - tops[last])
                top = tops[last]
                total += totals[last]
                length += lengths[last]
                shift = top + np.log(mass) - np.log(total) if total > 0.0 else np.inf
                last -= 1
            last += 1
            tops[last] = top
            masses[last] = mass
            totals[last] = total
            shifts[last] = shift
            lengths[last] = length
        r = 0
        for b in range(last + 1):
            for q in range(r, r + lengths[b]):
                j = order[i, q]
                if totals[b] > 0.0:
                    out[i, j] = np.exp(theta[i, j] - tops[b]) * (totals[b] / masses[b])
                else:
                    out[i, j] = 0.0
            r += lengths[b]


@exact_kernel
def sample(start: int, stop: int, points: Array, order: Array, weights: Array, seeds: Array, out: Array) -> None:
    """out[i] = a random permutation of ``weights`` with mean points[i], by at most n - 1 random transpositions.

    A point that the weights majorise is reached from them by n - 1 transfers between two entries (Hardy, Littlewood and
    Polya 1934), each a mixture of staying and swapping; drawing each swap at random keeps the mean.
    """
    n = points.shape[1]
    y = np.empty(n)
    drawn = np.empty(n)
    for i in range(start, stop):
        state = seeds[i]
        for r in range(n):
            y[r] = weights[r]
            drawn[r] = weights[r]
        # Transfer between the last entry that still has too much and the first after it that has too little.
        for _ in range(n):
            big = -1
            for r in range(n):
                if y[r] > points[i, order[i, r]]:
                    big = r
            small = -1
            if big >= 0:
                for r in range(big + 1, n):
                    if y[r] < points[i, order[i, r]]:
                        small = r
                        break
            if small < 0:
                break
            surplus = y[big] - points[i, order[i, big]]
            need = points[i, order[i, small]] - y[small]
            amount = min(surplus, need)
            spread = y[big] - y[small]
            if amount <= 1e-14 * abs(spread):  # rounding of a point on the boundary
                if surplus <= need:
                    y[big] = points[i, order[i, big]]
                else:
                    y[small] = points[i, order[i, small]]
                continue
            u, state = uniform(state)
            if u * spread < amount:
                t = drawn[big]
                drawn[big] = drawn[small]
                drawn[small] = t
            if surplus <= need:
                y[big] = points[i, order[i, big]]
                y[small] += amount
            else:
                y[small] = points[i, order[i, small]]
                y[big] -= amount
        for r in range(n):
            out[i, order[i, r]] = drawn[r]


@exact_kernel
def decompose(
    start: int, stop: int, points: Array, weights: Array, scale: float, coefficients: Array, atoms: Array
) -> None:
    """points[i] = sum_t coefficients[i, t] atoms[i, t] with at most n permutations of ``weights`` (decreasing).

    From the point walk away from a vertex of its face until a new constraint is tight; what is left lies in a smaller
    face (Groetschel, Lovasz and Schrijver 1988). Faces are ordered partitions of the items into blocks, so each
    step is a search for the largest step in each block: Newton's method on the most violated set, which the items in
    decreasing order show. O(n^2 log n) as a rule.
    """
    n = points.shape[1]
    tiny = 1e-11 * max(scale, 1e-300)
    x = np.empty(n)
    direction = np.empty(n)
    items = np.empty(n, np.int64)  # in the order of blocks, decreasing inside
    block_end = np.empty(n, np.bool_)
    for i in range(start, stop):
        for t in range(n):
            coefficients[i, t] = 0.0
            for j in range(n):
                atoms[i, t, j] = weights[j]
        for j in range(n):
            x[j] = points[i, j]
            items[j] = j
            block_end[j] = j == n - 1
        left = 1.0
        for t in range(n):
            # sort inside blocks, and split them where a prefix is tight
            begin = 0
            for r in range(n):
                if block_end[r]:
                    _sort_block(items, x, begin, r + 1)
                    begin = r + 1
            excess = 0.0
            for r in range(n):
                excess += weights[r] - x[items[r]]
                if block_end[r]:
                    excess = 0.0
                elif excess <= tiny:
                    block_end[r] = True
                    excess = 0.0
            done = True
            for r in range(n):
                atoms[i, t, items[r]] = weights[r]
                if abs(weights[r] - x[items[r]]) > 10 * tiny:
                    done = False
            if done or t == n - 1:
                coefficients[i, t] = left
                break
            for r in range(n):
                direction[items[r]] = x[items[r]] - weights[r]
            step, edge = _largest_step(items, block_end, x, direction, weights, n)
            if edge < 0 or not step < 1e14:  # nothing is left but rounding
                coefficients[i, t] = left
                break
            share = step / (1.0 + step)
            coefficients[i, t] = left * share
            left *= 1.0 - share
            for j in range(n):
                x[j] += step * direction[j]
            # What stopped the step is tight now, whatever rounding says: the next face is smaller.
            begin = 0
            for r in range(n):
                if block_end[r]:
                    _sort_block(items, x, begin, r + 1)
                    begin = r + 1
            block_end[edge] = True


@inline_kernel
def _sort_block(items, x, begin, end):  # type: ignore[no-untyped-def]
    """Insertion sort of items[begin:end] by decreasing x; blocks are nearly sorted from step to step."""
    for r in range(begin + 1, end):
        item = items[r]
        value = x[item]
        q = r - 1
        while q >= begin and x[items[q]] < value:
            items[q + 1] = items[q]
            q -= 1
        items[q + 1] = item


@inline_kernel
def _largest_step(items, block_end, x, direction, weights, n):  # type: ignore[no-untyped-def]
    """The largest s for which x + s direction keeps every block inside its permutahedron, and where it gets tight.

    In each block Newton's method from above: at a step that is too long take the prefix that exceeds its weights most,
    and shorten the step until that prefix fits. The prefix that fits last is where the block will split.
    """
    step = np.inf
    edge = -1
    order = items.copy()
    moved = np.empty(n)
    begin = 0
    for r in range(n):
        if not block_end[r]:
            continue
        if r > begin:
            s = np.inf
            at = -1
            for q in range(begin, r + 1):  # no entry may pass the largest or the smallest weight of its block
                d = direction[items[q]]
                if d > 0.0:
                    limit = (weights[begin] - x[items[q]]) / d
                    if limit < s:
                        s = limit
                        at = begin
                elif d < 0.0:
                    limit = (weights[r] - x[items[q]]) / d
                    if limit < s:
                        s = limit
                        at = r - 1
            for _ in range(100):
                if at < 0 or s <= 0.0:
                    break
                for q in range(begin, r + 1):
                    moved[items[q]] = x[items[q]] + s * direction[items[q]]
                _sort_block(order, moved, begin, r + 1)
                worst = 0.0
                over = -1
                excess = 0.0
                for q in range(begin, r):
                    excess += moved[order[q]] - weights[q]
                    if excess > worst:
                        worst = excess
                        over = q
                if over < 0:
                    break
                here = 0.0
                slope = 0.0
                for q in range(begin, over + 1):
                    here += weights[q] - x[order[q]]
                    slope += direction[order[q]]
                shorter = here / slope if slope > 0.0 else s
                if not shorter < s:
                    break
                s = shorter
                at = over
            s = max(s, 0.0)
            if at >= 0 and s < step:
                step = s
                edge = at
        begin = r + 1
    return step, edge
