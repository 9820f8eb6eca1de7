"""Inner loops of the Birkhoff polytope, the doubly stochastic matrices: Euclidean projection."""

from __future__ import annotations

import numpy as np

from .._core.compile import exact_inline_kernel, inline_kernel, kernel
from .._core.types import Array
from .assignment import center_duals, solve_one

__all__ = ["project"]

# How often a line search may look, and how often duals may be absorbed into the scores.
_MOST_LOOKS = 40
_MOST_SHIFTS = 3


@exact_inline_kernel
def subtract_duals(theta, row_dual, column_dual, out):  # type: ignore[no-untyped-def]
    """out = theta - row_dual - column_dual with one rounding: where large numbers cancel, nothing is lost (two-sum)."""
    n = theta.shape[0]
    for i in range(n):
        u = row_dual[i]
        for j in range(n):
            a = theta[i, j]
            s = a - u
            t = s - a
            first = (a - (s - t)) - (u + t)
            v = column_dual[j]
            r = s - v
            t = r - s
            second = (s - (r - t)) - (v + t)
            out[i, j] = r + (first + second) if a > -np.inf else a


@inline_kernel
def dot(a, b, m):  # type: ignore[no-untyped-def]
    """The inner product of the first m entries."""
    total = 0.0
    for i in range(m):
        total += a[i] * b[i]
    return total


@inline_kernel
def _four_dots(a, b, c, d, e, m):  # type: ignore[no-untyped-def]
    s, t, u, v = 0.0, 0.0, 0.0, 0.0
    for i in range(m):
        x = a[i]
        s += x * b[i]
        t += x * c[i]
        u += x * d[i]
        v += x * e[i]
    return s, t, u, v


@inline_kernel
def add_gram(graph, rows, m):  # type: ignore[no-untyped-def]
    """graph[j, k] += <rows[j], rows[k]> over the first m entries, below the diagonal; O(m n^2 / 2)."""
    for j in range(1, graph.shape[0]):
        row, line = rows[j], graph[j]
        last = j // 4 * 4
        for k in range(0, last, 4):
            s, t, u, v = _four_dots(row, rows[k], rows[k + 1], rows[k + 2], rows[k + 3], m)
            line[k] += s
            line[k + 1] += t
            line[k + 2] += u
            line[k + 3] += v
        for k in range(last, j):
            line[k] += dot(row, rows[k], m)


@inline_kernel
def factor_laplacian(graph, ground, pivot):  # type: ignore[no-untyped-def]
    """Cholesky factor of diag(ground + degrees) - graph, in place below the diagonal of graph; O(n^3 / 6).

    Weights are only ever added (Grassmann, Taksar and Heyman 1985), so all digits are right whatever their range. The
    last node of a component without ground gets the pivot zero.
    """
    n = graph.shape[0]
    for k in range(0, n, 4):
        width = min(4, n - k)
        if width == 4:
            b, c, d, e = graph[k], graph[k + 1], graph[k + 2], graph[k + 3]
            for i in range(k + 1, n):
                line = graph[i]
                s, t, u, v = _four_dots(line, b, c, d, e, k)
                line[k] += s
                if i > k + 1:
                    line[k + 1] += t
                if i > k + 2:
                    line[k + 2] += u
                if i > k + 3:
                    line[k + 3] += v
        else:
            for q in range(k, k + width):
                for i in range(q + 1, n):
                    graph[i, q] += dot(graph[i], graph[q], k)
        for q in range(k, k + width):
            base = graph[q]
            held = ground[q] + dot(base, ground, q)
            total = held
            for i in range(q + 1, n):
                w = graph[i, q]
                for r in range(k, q):
                    w += graph[i, r] * base[r]
                graph[i, q] = w
                total += w
            pivot[q] = np.sqrt(total)
            inverse = 1.0 / pivot[q] if total > 0.0 else 0.0
            ground[q] = held * inverse
            for i in range(q + 1, n):
                graph[i, q] *= inverse


@inline_kernel
def solve_laplacian(graph, pivot, x):  # type: ignore[no-untyped-def]
    """Solve in place after :func:`factor_laplacian`; returns what no solution can meet, the imbalance of components.

    In a component without ground the last node gets zero.
    """
    n = graph.shape[0]
    imbalance = 0.0
    for k in range(n):
        total = x[k] + dot(graph[k], x, k)
        if pivot[k] > 0.0:
            x[k] = total / pivot[k]
        else:
            imbalance += abs(total)
            x[k] = 0.0
    for k in range(n - 1, -1, -1):
        if pivot[k] > 0.0:
            x[k] /= pivot[k]
            w, line = x[k], graph[k]
            for i in range(k):
                x[i] += w * line[i]
        else:
            x[k] = 0.0
    return imbalance


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
        n_iter[b] = 0
        if cold or forbidden:
            if not solve_one(scores, price, row_of, column_of, level, sums, previous, done, step):
                status[b] = 1
                error[b] = np.inf
                point[:] = np.nan
                continue
        if cold:
            for j in range(n):
                v[j] = price[j]
            for i in range(n):
                u[i] = scores[i, column_of[i]] - v[column_of[i]]
            center_duals(scores, u, v, column_of, shifted, back, price, 0.25, 10)
        shifts = 0
        steps = 0
        fresh = True
        factored = False
        polished = False
        bound = np.inf
        residual = 0.0
        while True:
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
        for i in range(n):
            u[i] += level[i]
            v[i] += price[i]
        n_iter[b] = steps
        error[b] = bound
        status[b] = 0 if bound <= tol else 2
