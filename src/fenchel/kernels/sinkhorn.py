"""Inner loops of matrix scaling: the Kullback-Leibler projection onto the doubly stochastic matrices, total support."""

from __future__ import annotations

import numpy as np

from .._core.compile import exact_inline_kernel, inline_kernel, kernel
from .._core.types import Array
from .assignment import center_duals, solve_one
from .special import fast_exp

__all__ = [
    "add_gram",
    "factor_laplacian",
    "newton_direction",
    "project",
    "scale_rows",
    "solve_laplacian",
    "strong_components",
    "subtract_duals",
    "total_support",
    "write_scaled",
]

# Scores that spread further than this need potentials before exp: beyond, scaling factors could overflow.
_WIDE = 20.0
# exp of less is taken for zero.
_LEAST = -700.0
# Newton's method takes over when Sinkhorn's iteration seems to need this many more rounds.
_PATIENCE = 25.0
# Scaling factors beyond this go into the potentials.
_FAR = 1e100
# The longest step of Newton's method, in the logarithm of a scaling factor, and the most looks of its line search.
_LONGEST = 4.0
_MOST_LOOKS = 30


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
def strong_components(theta, row_of, column_of, component, order, low, path, calls, at):  # type: ignore[no-untyped-def]
    """Number the strong components of the rows, where row i leads to the row matched to any column allowed to i.

    An allowed entry lies in some perfect matching if and only if its row and the row matched to its column are in one
    component. Tarjan, "Depth-first search and linear graph algorithms", 1972, without recursion; O(n^2).
    """
    n = component.shape[0]
    for i in range(n):
        component[i] = -1
        order[i] = -1
    seen = 0
    count = 0
    waiting = 0
    for root in range(n):
        if order[root] >= 0:
            continue
        depth = 0
        calls[0] = root
        while depth >= 0:
            i = calls[depth]
            if order[i] < 0:
                order[i] = seen
                low[i] = seen
                seen += 1
                at[i] = 0
                path[waiting] = i
                waiting += 1
            deeper = False
            while at[i] < n:
                j = at[i]
                at[i] += 1
                if theta[i, j] > -np.inf:
                    k = row_of[j]
                    if order[k] < 0:
                        depth += 1
                        calls[depth] = k
                        deeper = True
                        break
                    if component[k] < 0:
                        low[i] = min(low[i], order[k])
            if deeper:
                continue
            if low[i] == order[i]:
                while True:
                    waiting -= 1
                    k = path[waiting]
                    component[k] = count
                    if k == i:
                        break
                count += 1
            depth -= 1
            if depth >= 0:
                low[calls[depth]] = min(low[calls[depth]], low[i])
    return count


@kernel
def total_support(start: int, stop: int, theta: Array, allowed: Array, status: Array) -> None:
    """allowed[b, i, j] = whether the entry lies in a permutation that avoids the entries with theta = -inf.

    Only such entries can be positive in a doubly stochastic matrix. status is 0, or 1 where there is no permutation at
    all. O(n^2) given a perfect matching; the matching is found by augmenting paths, n^3 at worst.
    """
    n = theta.shape[1]
    scores = np.empty((n, n))
    price, open_price, distance, reached = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    row_of, column_of, previous, done = (
        np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    )  # fmt: skip
    component, low, path, at = (
        np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    )  # fmt: skip
    for b in range(start, stop):
        for i in range(n):
            for j in range(n):
                scores[i, j] = 0.0 if theta[b, i, j] > -np.inf else -np.inf
        fits = solve_one(scores, price, row_of, column_of, open_price, distance, previous, done, reached)
        status[b] = 0 if fits else 1
        if fits:
            strong_components(scores, row_of, column_of, component, previous, low, path, done, at)
        for i in range(n):
            for j in range(n):
                allowed[b, i, j] = fits and scores[i, j] > -np.inf and component[i] == component[row_of[j]]


@inline_kernel
def _absorb(theta, row_dual, column_dual, gibbs):  # type: ignore[no-untyped-def]
    """gibbs = exp(theta - row_dual - column_dual), after the row duals were raised so that each row's maximum is 1."""
    n = theta.shape[0]
    subtract_duals(theta, row_dual, column_dual, gibbs)
    for i in range(n):
        line = gibbs[i]
        top = line[0]
        for j in range(1, n):
            top = max(top, line[j])
        row_dual[i] += top
        for j in range(n):
            d = line[j] - top
            line[j] = fast_exp(d) if d > _LEAST else 0.0


@inline_kernel
def scale_rows(gibbs, row_scale, column_scale, sums):  # type: ignore[no-untyped-def]
    """Scale the rows to sum to one; returns how far the column sums are from one, at most (NaN if a row vanished)."""
    n = sums.shape[0]
    for j in range(n):
        sums[j] = 0.0
    for i in range(n):
        line = gibbs[i]
        a = 1.0 / dot(line, column_scale, n)
        row_scale[i] = a
        for j in range(n):
            sums[j] += a * line[j]
    off = 0.0
    broken = 0.0
    for j in range(n):
        sums[j] *= column_scale[j]
        off = max(off, abs(sums[j] - 1.0))
        broken += sums[j]
    return off if broken < np.inf else np.nan


@inline_kernel
def write_scaled(gibbs, row_scale, column_scale, out, sums):  # type: ignore[no-untyped-def]
    """out = the scaled matrix; returns the largest distance of a row or column sum from one (inf where it is NaN)."""
    n = sums.shape[0]
    off = 0.0
    mass = 0.0
    for j in range(n):
        sums[j] = 0.0
    for i in range(n):
        line, point, a = gibbs[i], out[i], row_scale[i]
        total = 0.0
        for j in range(n):
            p = a * line[j] * column_scale[j]
            point[j] = p
            sums[j] += p
            total += p
        off = max(off, abs(total - 1.0))
        mass += total
    for j in range(n):
        off = max(off, abs(sums[j] - 1.0))
    return off if mass < np.inf else np.inf


@inline_kernel
def _release(row_scale, column_scale, row_dual, column_dual):  # type: ignore[no-untyped-def]
    """Put the scalings into the duals."""
    for i in range(row_scale.shape[0]):
        row_dual[i] -= np.log(row_scale[i])
        column_dual[i] -= np.log(column_scale[i])


@inline_kernel
def _drift(row_scale, column_scale):  # type: ignore[no-untyped-def]
    largest = 0.0
    for i in range(row_scale.shape[0]):
        x, y = row_scale[i], column_scale[i]
        largest = max(largest, max(max(x, 1.0 / x), max(y, 1.0 / y)))
    return largest


@inline_kernel
def _write_transposed(gibbs, row_scale, column_scale, out):  # type: ignore[no-untyped-def]
    """out = the transpose of the scaled matrix, four rows at a time to write whole cache lines."""
    n = row_scale.shape[0]
    last = n // 4 * 4
    for i in range(0, last, 4):
        a, b, c, d = row_scale[i], row_scale[i + 1], row_scale[i + 2], row_scale[i + 3]
        for j in range(n):
            s = column_scale[j]
            line = out[j]
            line[i] = a * gibbs[i, j] * s
            line[i + 1] = b * gibbs[i + 1, j] * s
            line[i + 2] = c * gibbs[i + 2, j] * s
            line[i + 3] = d * gibbs[i + 3, j] * s
    for i in range(last, n):
        for j in range(n):
            out[j, i] = row_scale[i] * gibbs[i, j] * column_scale[j]


@inline_kernel
def newton_direction(gibbs, a, c, sums, off, point, graph, pivot, ground, step):  # type: ignore[no-untyped-def]
    """Solve (diag(sums) - P'P + ridge) step = 1 - sums, a Laplacian as the rows of P sum to one; returns the slope.

    The ridge keeps the rounding errors of sums from moving groups that almost nothing connects.
    """
    n = sums.shape[0]
    _write_transposed(gibbs, a, c, point)
    ridge = max(1e-4 * off, 1e-14)
    for j in range(n):
        ground[j] = ridge
        step[j] = 1.0 - sums[j]
    graph[:] = 0.0
    add_gram(graph, point, n)
    factor_laplacian(graph, ground, pivot)
    solve_laplacian(graph, pivot, step)
    slope = 0.0
    for j in range(n):
        slope += (sums[j] - 1.0) * step[j]
    return slope


@inline_kernel
def _scale(theta, tol, max_iter, u, v, gibbs, graph, point, a, c, sums, step, pivot, ground, trial):  # type: ignore[no-untyped-def]
    """Scale exp(theta - u - v), and write the result and its duals; returns the error and the number of iterations."""
    n = sums.shape[0]
    _absorb(theta, u, v, gibbs)
    c[:] = 1.0
    off = scale_rows(gibbs, a, c, sums)
    before = np.inf
    newton = False
    steps = 0
    aim = 0.9 * tol  # what is written is measured again, and rounded
    while off > aim and steps < max_iter:
        steps += 1
        if not newton:
            rate = off / before
            left = np.log(aim / off) / np.log(rate) if rate < 1.0 else np.inf
            newton = steps > 3 and left > _PATIENCE and steps > 3
        before = off
        if not newton:
            for j in range(n):
                c[j] /= sums[j]
            off = scale_rows(gibbs, a, c, sums)
            continue
        if _drift(a, c) > _FAR:
            _release(a, c, u, v)
            _absorb(theta, u, v, gibbs)
            c[:] = 1.0
            off = scale_rows(gibbs, a, c, sums)
        slope = newton_direction(gibbs, a, c, sums, off, point, graph, pivot, ground, step)
        size = 0.0
        largest = 0.0
        for j in range(n):
            size += abs(step[j])
            largest = max(largest, abs(step[j]))
        # The dual is convex along the step: look for a derivative of at most half the first one.
        t = min(1.0, _LONGEST / largest)
        low, high, slope_low, slope_high = 0.0, -1.0, slope, 0.0
        for _ in range(_MOST_LOOKS):
            for j in range(n):
                trial[j] = c[j] * fast_exp(t * step[j])
            off = scale_rows(gibbs, a, trial, sums)
            now = 0.0
            for j in range(n):
                now += (sums[j] - 1.0) * step[j]
            if abs(now) <= 0.5 * abs(slope) + 4e-15 * size:
                break
            if now < 0.0:
                low, slope_low = t, now
            else:
                high, slope_high = t, now
            if high < 0.0:
                if t * largest >= _LONGEST:
                    break
                t *= 2.0
            else:
                t = low + (high - low) * max(0.1, min(0.9, slope_low / (slope_low - slope_high)))
        for j in range(n):
            c[j] = trial[j]
        if off < 1e-12 and off > 0.5 * before:
            break
    off = write_scaled(gibbs, a, c, point, sums)
    _release(a, c, u, v)
    return off, steps


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
    """out[b] = argmax <theta[b], P> - <P, log P> over the doubly stochastic matrices; -inf forbids an entry.

    out[b] = exp(theta[b] - row_dual[b, :, None] - column_dual[b]), and zero at entries that lie in no permutation
    without forbidden ones. error is the largest distance of a row or column sum from one, as measured on out; status
    is 0, 1 (no permutation avoids the forbidden entries: NaN), or 2 (error > tol after max_iter iterations). With
    ``warm`` the given column duals, where finite, are the start.

    Sinkhorn's iteration (Sinkhorn and Knopp 1967), O(n^2) each, and where that converges slowly Newton's method on the
    dual with the row duals eliminated (Brauer, Clason, Lorenz and Wirth, "A Sinkhorn-Newton method for entropic
    optimal transport", 2017), O(n^3) each. Wide scores are first reduced by central duals of the assignment problem,
    without rounding errors, so that neither accuracy nor the number of iterations depends on their scale.
    """
    n = theta.shape[1]
    gibbs, graph, masked = np.empty((n, n)), np.empty((n, n)), np.empty((n, n))
    a, c, sums, step, pivot, ground, trial = (
        np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    )  # fmt: skip
    row_of, column_of, previous, done = (
        np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    )  # fmt: skip
    component, low, path, at = (
        np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    )  # fmt: skip
    for b in range(start, stop):
        point, u, v = out[b], row_dual[b], column_dual[b]
        widest = 0.0
        forbidden = False
        for i in range(n):
            top, bottom = theta[b, i, 0], theta[b, i, 0]
            for j in range(1, n):
                top = max(top, theta[b, i, j])
                bottom = min(bottom, theta[b, i, j])
            forbidden = forbidden or bottom == -np.inf
            widest = max(widest, top - bottom)
        given = warm
        for j in range(n):
            given = given and abs(v[j]) < np.inf
        scores = theta[b]
        fits = True
        matched = forbidden or (widest > _WIDE and not given)
        if matched:
            fits = solve_one(scores, trial, row_of, column_of, a, sums, previous, done, step)
        if not fits:
            n_iter[b] = 0
            status[b] = 1
            error[b] = np.inf
            point[:] = np.nan
            continue
        if forbidden:
            strong_components(scores, row_of, column_of, component, previous, low, path, done, at)
            for i in range(n):
                for j in range(n):
                    masked[i, j] = scores[i, j] if component[i] == component[row_of[j]] else -np.inf
            scores = masked
        off, steps = np.inf, 0
        if given:
            u[:] = 0.0
            off, steps = _scale(
                scores, tol, max_iter, u, v, gibbs, graph, point, a, c, sums, step, pivot, ground, trial
            )
        if not off <= tol:
            if widest > _WIDE:
                solve_one(scores, trial, row_of, column_of, a, sums, previous, done, step)
                for j in range(n):
                    v[j] = trial[j]
                for i in range(n):
                    u[i] = scores[i, column_of[i]] - v[column_of[i]]
                center_duals(scores, u, v, column_of, gibbs, graph, step, 1.0, 10)
            else:
                u[:] = 0.0
                v[:] = 0.0
            off, more = _scale(scores, tol, max_iter, u, v, gibbs, graph, point, a, c, sums, step, pivot, ground, trial)
            steps += more
        n_iter[b] = steps
        error[b] = off
        status[b] = 0 if off <= tol else 2
