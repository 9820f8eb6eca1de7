"""Inner loops of the Birkhoff polytope, the doubly stochastic matrices: projection, decomposition, sampling."""

from __future__ import annotations

import numpy as np

from .._core.compile import inline_kernel, kernel
from .._core.types import Array
from .assignment import center_duals, solve_one
from .sinkhorn import (
    add_gram,
    factor_laplacian,
    newton_direction,
    scale_rows,
    solve_laplacian,
    subtract_duals,
    write_scaled,
)

__all__ = ["decompose", "most_terms", "project", "round_to_doubly_stochastic", "sample"]

# How often a line search may look, and how often duals may be absorbed into the scores.
_MOST_LOOKS = 40
_MOST_SHIFTS = 3
# Steps from given duals before the method starts anew from its own.
_PATIENCE = 20
# Sums are right at this distance from one, and good enough for a decomposition or a draw at that; Newton steps of a
# rounding; entries taken for zero; mass taken for none.
_ROUNDING = 1e-15
_CLOSE = 1e-13
_MOST_ROUNDS = 12
_NOTHING = 1e-14
_LEFT_OVER = 1e-12


@inline_kernel
def _count_above(row, price, level):  # type: ignore[no-untyped-def]
    total = 0.0
    count = 0.0
    for j in range(row.shape[0]):
        d = row[j] - price[j] - level
        total += d if d > 0.0 else 0.0
        count += 1.0 if d > 0.0 else 0.0
    return total, count


@inline_kernel
def _project_rows(theta, price, level, out, sums):  # type: ignore[no-untyped-def]
    """out[i] = the projection of theta[i] - price onto the simplex, and the column sums; returns their distance to 1.

    level[i], the threshold, starts where it was: Newton's method on a convex piecewise linear function goes to the left
    of the root in one step and then up to it, never beyond.
    """
    n = price.shape[0]
    for j in range(n):
        sums[j] = 0.0
    for i in range(n):
        row = theta[i]
        t = level[i]
        seen = -1.0
        for _ in range(2 * n + 8):
            total, count = _count_above(row, price, t)
            if count == 0.0:
                t = -np.inf
                for j in range(n):
                    t = max(t, row[j] - price[j])
                t -= 1.0
                seen = -1.0
                continue
            rise = (total - 1.0) / count
            t += rise
            if seen >= 0.0 and (count == seen or rise <= 0.0):
                break
            seen = count
        level[i] = t
        point = out[i]
        for j in range(n):
            p = max(row[j] - price[j] - t, 0.0)
            point[j] = p
            sums[j] += p
    square = 0.0
    for j in range(n):
        d = sums[j] - 1.0
        square += d * d
    return np.sqrt(square)


@inline_kernel
def _list_support(point, support, sizes):  # type: ignore[no-untyped-def]
    """The positive columns of each row; whether they differ from those listed before."""
    n = point.shape[0]
    changed = False
    for i in range(n):
        m = 0
        for j in range(n):
            if point[i, j] > 0.0:
                changed = changed or support[i, m] != j
                support[i, m] = j
                m += 1
        changed = changed or sizes[i] != m
        sizes[i] = m
    return changed


@inline_kernel
def _join_support(support, sizes, graph, dense):  # type: ignore[no-untyped-def]
    """The graph on the columns in which each row joins the columns of its support, with weight 1 / their number."""
    n = graph.shape[0]
    graph[:] = 0.0
    count = 0
    for i in range(n):
        m = sizes[i]
        if 4 * m > n:
            if count == 0:
                dense[:] = 0.0
            for a in range(m):
                dense[support[i, a], count] = np.sqrt(1.0 / m)
            count += 1
        else:
            w = 1.0 / m
            for a in range(m):
                line = graph[support[i, a]]
                for c in range(a):
                    line[support[i, c]] += w
    if count > 0:
        add_gram(graph, dense, count)


@inline_kernel
def _error_bound(point, support, sizes, step, imbalance):  # type: ignore[no-untyped-def]
    """How far the point is from the projection, from the linearised correction of its columns.

    The corrected point lies in the polytope and, where no entry turns negative, has the same support; then half the
    squared correction is a duality gap, and the projection is no further from either than the correction's length.
    """
    square = 0.0
    negative = 0.0
    for i in range(sizes.shape[0]):
        m = sizes[i]
        mean = 0.0
        for a in range(m):
            mean += step[support[i, a]]
        mean /= m
        for a in range(m):
            j = support[i, a]
            d = mean - step[j]
            square += d * d
            negative -= min(point[i, j] + d, 0.0)
    return 2.0 * np.sqrt(square) + negative + imbalance


@kernel
def project(
    start: int,
    stop: int,
    theta: Array,
    tol: float,
    max_iter: int,
    warm: bool,
    out: Array,
    row_dual: Array,
    column_dual: Array,
    error: Array,
    n_iter: Array,
    status: Array,
) -> None:
    """out[b] = the Euclidean projection of theta[b] onto the doubly stochastic matrices; -inf forbids an entry.

    out[b] = max(theta[b] - row_dual[b, :, None] - column_dual[b], 0). error bounds the distance to the exact
    projection; status is 0, 1 (no permutation avoids the forbidden entries: NaN), or 2 (error > tol after max_iter
    Newton steps). With ``warm`` the given duals, where finite, are the start.

    Semismooth Newton method on the dual with the row duals eliminated exactly, so that its matrix is the Laplacian of
    a graph on the columns: O(n^3 / 6) per step, about six steps (Li, Sun and Toh, "On the efficient computation of a
    projector over the Birkhoff polytope", 2020). It starts at central duals of the assignment problem, from which the
    way to the solution does not grow with the scale of the scores, and which are subtracted without rounding errors.
    """
    n = theta.shape[1]
    shifted, graph, dense, back = np.empty((n, n)), np.empty((n, n)), np.empty((n, n)), np.empty((n, n))
    support = np.zeros((n, n + 1), np.int32)
    sizes, row_of, column_of = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    previous, done = np.empty(n, np.int64), np.empty(n, np.int64)
    price, level, sums, step, pivot, ground = (
        np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    )  # fmt: skip
    trial = np.empty(n)
    for b in range(start, stop):
        scores, point, u, v = theta[b], out[b], row_dual[b], column_dual[b]
        cold = not warm
        forbidden = False
        for i in range(n):
            cold = cold or not (abs(u[i]) < np.inf and abs(v[i]) < np.inf)
            for j in range(n):
                forbidden = forbidden or scores[i, j] == -np.inf
        given = not cold
        n_iter[b] = 0
        fits = True
        if forbidden and given:
            fits = solve_one(scores, price, row_of, column_of, level, sums, previous, done, step)
        shifts = 0
        steps = 0
        fresh = True
        factored = False
        polished = False
        bound = np.inf
        residual = 0.0
        while fits:
            if cold:
                fits = solve_one(scores, price, row_of, column_of, level, sums, previous, done, step)
                if not fits:
                    break
                for i in range(n):
                    j = column_of[i]
                    v[j] = price[j]
                    u[i] = scores[i, j] - price[j]
                center_duals(scores, u, v, column_of, shifted, back, price, 0.25, 10)
                cold = False
            if fresh:
                subtract_duals(scores, u, v, shifted)
                for i in range(n):
                    price[i] = 0.0
                    level[i] = 0.0
                residual = _project_rows(shifted, price, level, point, sums)
                fresh = False
            balanced = residual * residual * n < 0.25
            changed = _list_support(point, support, sizes)
            if changed or not factored:
                # A component of the support with more rows than columns has no Newton step: a ridge gives it one. The
                # difference would be a whole number, so at a small residual there is none.
                ridge = 0.0 if balanced else 0.1 * min(1.0, residual)
                for j in range(n):
                    ground[j] = ridge
                _join_support(support, sizes, graph, dense)
                factor_laplacian(graph, ground, pivot)
                factored = balanced
            for j in range(n):
                step[j] = sums[j] - 1.0
            imbalance = solve_laplacian(graph, pivot, step)
            before = bound
            bound = _error_bound(point, support, sizes, step, imbalance) if balanced else np.inf
            if bound <= 4e-16 * n or (polished and (bound <= tol or bound > 0.25 * before)) or steps >= max_iter:
                largest = 0.0
                for i in range(n):
                    largest = max(largest, max(abs(price[i]), abs(level[i])))
                if largest < 64.0 or shifts == _MOST_SHIFTS or steps >= max_iter:
                    break
                # entries are differences of numbers this large: take these out of the scores, exactly
                for i in range(n):
                    u[i] += level[i]
                    v[i] += price[i]
                shifts += 1
                fresh = True
                factored = False
                polished = False
                continue
            if given and steps == _PATIENCE:  # the given duals were no good start
                given = False
                cold = True
                fresh = True
                factored = False
                continue
            polished = bound <= tol
            steps += 1
            slope = 0.0
            size = 0.0
            for j in range(n):
                slope += (1.0 - sums[j]) * step[j]
                size += abs(step[j])
            # The dual is convex along the step: look for a derivative of at most half the first one.
            low, high, slope_low, slope_high, t = 0.0, -1.0, slope, 0.0, 1.0
            for _ in range(_MOST_LOOKS):
                for j in range(n):
                    trial[j] = price[j] + t * step[j]
                residual = _project_rows(shifted, trial, level, point, sums)
                now = 0.0
                for j in range(n):
                    now += (1.0 - sums[j]) * step[j]
                if polished or abs(now) <= 0.5 * abs(slope) + 4e-15 * size:
                    break
                if now < 0.0:
                    low, slope_low = t, now
                else:
                    high, slope_high = t, now
                if high < 0.0:
                    t *= 2.0
                else:
                    part = slope_low / (slope_low - slope_high)
                    t = low + (high - low) * max(0.1, min(0.9, part))
            for j in range(n):
                price[j] = trial[j]
        if not fits:
            status[b] = 1
            error[b] = np.inf
            point[:] = np.nan
            continue
        for i in range(n):
            u[i] += level[i]
            v[i] += price[i]
        n_iter[b] = steps
        error[b] = bound
        status[b] = 0 if bound <= tol else 2


@inline_kernel
def _fill(point, row_left, column_left):  # type: ignore[no-untyped-def]
    """Shrink what is too large, then spread what is missing: Altschuler, Weed and Rigollet 2017, Algorithm 2."""
    n = point.shape[0]
    missing = 0.0
    for i in range(n):
        total = 0.0
        for j in range(n):
            total += point[i, j]
        shrink = 1.0 / total if total > 1.0 else 1.0
        for j in range(n):
            point[i, j] *= shrink
    for j in range(n):
        column_left[j] = 0.0
    for i in range(n):
        for j in range(n):
            column_left[j] += point[i, j]
    for j in range(n):
        shrink = 1.0 / column_left[j] if column_left[j] > 1.0 else 1.0
        column_left[j] = max(1.0 - column_left[j], 0.0)
        if shrink < 1.0:
            for i in range(n):
                point[i, j] *= shrink
    for i in range(n):
        total = 0.0
        for j in range(n):
            total += point[i, j]
        row_left[i] = max(1.0 - total, 0.0)
        missing += row_left[i]
    if missing > 0.0:
        for i in range(n):
            share = row_left[i] / missing
            for j in range(n):
                point[i, j] += share * column_left[j]


@inline_kernel
def _round_one(point, out, goal, shape, graph, a, c, sums, step, pivot, ground):  # type: ignore[no-untyped-def]
    """Newton's method on the scaling factors of the rows and columns, all near one; what it leaves over is filled in."""
    n = a.shape[0]
    off = 0.0
    for j in range(n):
        c[j] = 1.0
        sums[j] = 0.0
    for i in range(n):
        total = 0.0
        for j in range(n):
            x = max(point[i, j], 0.0)
            shape[i, j] = x
            out[i, j] = x
            total += x
            sums[j] += x
        off = max(off, abs(total - 1.0))
    for j in range(n):
        off = max(off, abs(sums[j] - 1.0))
    if off <= goal:
        return
    off = scale_rows(shape, a, c, sums)
    before = np.inf
    for _ in range(_MOST_ROUNDS):
        if not (off > _ROUNDING and off < 0.5 * before):
            break
        before = off
        newton_direction(shape, a, c, sums, off, out, graph, pivot, ground, step)
        longest = 0.0
        for j in range(n):
            longest = max(longest, abs(step[j]))
        # far from one a Newton step may overshoot, as where an entry has to vanish
        t = min(1.0, 1.0 / longest)
        for j in range(n):
            c[j] *= np.exp(t * step[j])
        off = scale_rows(shape, a, c, sums)
    if off < 0.5:
        write_scaled(shape, a, c, out, sums)
    else:
        for i in range(n):
            for j in range(n):
                out[i, j] = shape[i, j]
    if not off <= 8.0 * _ROUNDING:
        _fill(out, a, c)


@kernel
def round_to_doubly_stochastic(start: int, stop: int, points: Array, out: Array) -> None:
    """out[b] = a doubly stochastic matrix near points[b], which is nearly one; its sums are right to about 1e-15.

    Rows and columns are scaled, so zeros stay zeros, unless no scaling with these zeros fits; then what is missing is
    spread over the rows and columns that lack it. O(n^3 / 6) per step, two steps as a rule.
    """
    n = points.shape[1]
    shape, graph = np.empty((n, n)), np.empty((n, n))
    a, c, sums, step, pivot, ground = (
        np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    )  # fmt: skip
    for b in range(start, stop):
        _round_one(points[b], out[b], _ROUNDING, shape, graph, a, c, sums, step, pivot, ground)


def most_terms(points: Array) -> int:
    """How many permutations :func:`decompose` needs at most for any of the points, which are rounded already.

    A point with m positive entries in k connected blocks lies on a face of dimension m - 2n + k, where k <= n and the
    dimension is at most (n - 1)^2; one more vertex suffices (Caratheodory).
    """
    n = points.shape[1]
    positive = int((points > 0).sum(axis=(1, 2)).max(initial=0))
    return max(1, min(positive - n, (n - 1) ** 2) + 1)


@inline_kernel
def _widest_path(rest, row_of, column_of, root, width, barrier, previous):  # type: ignore[no-untyped-def]
    """Match row ``root`` along an alternating path whose smallest new entry is as large as possible; O(n^2)."""
    n = row_of.shape[0]
    line = rest[root]
    for j in range(n):
        width[j] = line[j]
        barrier[j] = np.inf
        previous[j] = root
    for _ in range(n):
        k = 0
        best = width[0]
        for j in range(1, n):
            if width[j] > best:
                best = width[j]
                k = j
        if not best > 0.0:
            return False
        if row_of[k] < 0:
            while True:
                i = previous[k]
                row_of[k] = i
                k, column_of[i] = column_of[i], k
                if i == root:
                    return True
        width[k] = -1.0
        barrier[k] = -1.0
        i = row_of[k]
        line = rest[i]
        for j in range(n):
            w = min(min(best, line[j]), barrier[j])
            wider = w > width[j]
            width[j] = w if wider else width[j]
            previous[j] = i if wider else previous[j]
    return False


@kernel
def decompose(start: int, stop: int, points: Array, weights: Array, columns: Array, counts: Array) -> None:
    """points[b] = the sum over t < counts[b] of weights[b, t] times the permutation columns[b, t] (Birkhoff, von Neumann).

    Weights are positive and sum to one. The arrays must have room for :func:`most_terms`. Each permutation is taken
    with its smallest entry, and only the rows whose entry is used up are matched anew, along a path whose smallest
    entry is largest: O(n^2) per row. Points should come from :func:`round_to_doubly_stochastic`; if the arrays are too
    small for one that does not, the weights found are scaled up.
    """
    n = points.shape[1]
    shape, graph, rest = np.empty((n, n)), np.empty((n, n)), np.empty((n, n))
    a, c, sums, step, pivot, ground = (
        np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    )  # fmt: skip
    row_of, column_of, previous = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    for b in range(start, stop):
        _round_one(points[b], rest, _CLOSE, shape, graph, a, c, sums, step, pivot, ground)
        for i in range(n):
            row_of[i] = -1
            column_of[i] = -1
            for j in range(n):
                rest[i, j] = rest[i, j] if rest[i, j] > _NOTHING else 0.0
        count = 0
        mass = 0.0
        while count < weights.shape[1]:
            matched = True
            for i in range(n):
                if column_of[i] < 0:
                    matched = matched and _widest_path(rest, row_of, column_of, i, a, c, previous)
            if not matched:
                break
            weight = np.inf
            for i in range(n):
                weight = min(weight, rest[i, column_of[i]])
            weights[b, count] = weight
            mass += weight
            for i in range(n):
                j = column_of[i]
                columns[b, count, i] = j
                left = rest[i, j] - weight
                if left <= _NOTHING:
                    left = 0.0
                    row_of[j] = -1
                    column_of[i] = -1
                rest[i, j] = left
            count += 1
            if 1.0 - mass <= _LEFT_OVER:
                break
        counts[b] = count
        for t in range(count):
            weights[b, t] /= mass


_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_A = np.uint64(0xBF58476D1CE4E5B9)
_MIX_B = np.uint64(0x94D049BB133111EB)


@inline_kernel
def _mix(state):  # type: ignore[no-untyped-def]
    """A uniform number in [0, 1) from a counter (the output function of splitmix64; Steele, Lea and Flood 2014)."""
    z = (state ^ (state >> np.uint64(30))) * _MIX_A
    z = (z ^ (z >> np.uint64(27))) * _MIX_B
    z = z ^ (z >> np.uint64(31))
    return np.float64(z >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@inline_kernel
def _value(rest, x, y):  # type: ignore[no-untyped-def]
    """The entry between two nodes, rows being numbered 0 to n - 1 and columns n to 2n - 1."""
    n = rest.shape[0]
    return rest[x, y - n] if x < n else rest[y, x - n]


@inline_kernel
def _set_value(rest, x, y, value):  # type: ignore[no-untyped-def]
    n = rest.shape[0]
    if x < n:
        rest[x, y - n] = value
    else:
        rest[y, x - n] = value


@inline_kernel
def _other_neighbour(rest, neighbours, degrees, x, avoid):  # type: ignore[no-untyped-def]
    """A node joined to x by a positive entry, other than ``avoid``, or -1; entries that became zero are forgotten."""
    line = neighbours[x]
    while degrees[x] > 0:
        d = degrees[x]
        y = line[d - 1]
        if _value(rest, x, y) <= 0.0:
            degrees[x] = d - 1
        elif y != avoid:
            return y
        elif d == 1:
            return -1
        elif _value(rest, x, line[d - 2]) <= 0.0:
            line[d - 2] = y
            degrees[x] = d - 1
        else:
            return line[d - 2]
    return -1


@inline_kernel
def _rotate(rest, path, first, last, u):  # type: ignore[no-untyped-def]
    """Shift mass around the cycle path[first..last], one way or the other, so that an entry vanishes and the mean stays.

    Returns the place of the first node whose entry to the next one vanished.
    """
    falling, rising = np.inf, np.inf
    for p in range(first, last + 1):
        x, y = path[p], path[p + 1 if p < last else first]
        value = _value(rest, x, y)
        if (p - first) % 2 == 0:
            falling = min(falling, value)
        else:
            rising = min(rising, value)
    shift = -falling if u * (falling + rising) < rising else rising
    cut = last
    for p in range(last, first - 1, -1):
        x, y = path[p], path[p + 1 if p < last else first]
        value = _value(rest, x, y) + (shift if (p - first) % 2 == 0 else -shift)
        if value <= _NOTHING:
            value = 0.0
            cut = p
        _set_value(rest, x, y, value)
    return cut


@inline_kernel
def _settle(rest, neighbours, degrees, x, y):  # type: ignore[no-untyped-def]
    """y has no neighbour but x: they belong together, and what rounding left at x elsewhere goes."""
    for d in range(degrees[x]):
        z = neighbours[x, d]
        if z != y:
            _set_value(rest, x, z, 0.0)


@kernel
def sample(start: int, stop: int, points: Array, seeds: Array, columns: Array) -> None:
    """columns[b] = a random permutation whose mean matrix is points[b], from the uint64 seeds[b].

    Without a decomposition: around cycles of fractional entries mass is shifted one way or the other, with chances
    that keep the mean, until no cycle is left; O(n) per cycle, O(n^3) in all (dependent rounding: Gandhi, Khuller,
    Parthasarathy and Srinivasan 2006). Points that are only nearly doubly stochastic are rounded first.
    """
    n = points.shape[1]
    shape, graph, rest = np.empty((n, n)), np.empty((n, n)), np.empty((n, n))
    a, c, sums, step, pivot, ground = (
        np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    )  # fmt: skip
    neighbours = np.empty((2 * n, n), np.int64)
    degrees, path, place = np.empty(2 * n, np.int64), np.empty(2 * n + 1, np.int64), np.empty(2 * n, np.int64)
    row_of, previous, done = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    for b in range(start, stop):
        state = seeds[b]
        _round_one(points[b], rest, _CLOSE, shape, graph, a, c, sums, step, pivot, ground)
        degrees[:] = 0
        place[:] = -1
        for i in range(n):
            for j in range(n):
                if rest[i, j] > _NOTHING:
                    neighbours[i, degrees[i]] = n + j
                    degrees[i] += 1
                    neighbours[n + j, degrees[n + j]] = i
                    degrees[n + j] += 1
                else:
                    rest[i, j] = 0.0
        for i in range(n):
            columns[b, i] = -1
            row_of[i] = -1
        for root in range(n):
            length = 1
            path[0] = root
            place[root] = 0
            while length > 0:
                x = path[length - 1]
                before = path[length - 2] if length > 1 else -1
                y = _other_neighbour(rest, neighbours, degrees, x, before)
                if y >= 0 and place[y] < 0:
                    path[length] = y
                    place[y] = length
                    length += 1
                    continue
                if y >= 0:
                    state += _GOLDEN
                    keep = _rotate(rest, path, place[y], length - 1, _mix(state)) + 1
                elif length == 1:
                    keep = 0
                else:
                    _settle(rest, neighbours, degrees, before, x)
                    i, j = (x, before - n) if x < n else (before, x - n)
                    columns[b, i] = j
                    row_of[j] = i
                    keep = length - 2
                while length > keep:
                    length -= 1
                    place[path[length]] = -1
        complete = True
        for i in range(n):
            complete = complete and columns[b, i] >= 0 and row_of[columns[b, i]] == i
        if not complete:  # rounding errors were all that remained of some row: any permutation of the support will do
            for i in range(n):
                for j in range(n):
                    rest[i, j] = points[b, i, j] if points[b, i, j] > 0.0 else -np.inf
            solve_one(rest, a, row_of, columns[b], c, sums, previous, done, step)
