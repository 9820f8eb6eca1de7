"""Inner loops of the zero-sum games between classes that have a closed form.

For potentials f, each pair of functions solves max over distributions q of min over p of cost(p, q) + ⟨f, q⟩. The
``*_loss`` kernels give S(f; v) and its residual q − v and nothing else, which is what training asks for; ``*_solve``
gives the value, the adversary's risk min_p cost(p, q), q itself and the predictor's p. A residual or q that starts
with NaN marks a row with no answer. Potentials are shifted by the largest first, so that nothing large cancels.
"""

from __future__ import annotations

import numpy as np

from .._core.compile import inline_kernel, kernel
from .._core.types import Array
from .simplex import _row_max, _threshold

__all__ = [
    "absolute_loss",
    "absolute_solve",
    "absolute_thresholds",
    "abstention_loss",
    "abstention_solve",
    "squared_loss",
    "squared_solve",
    "zero_one_loss",
    "zero_one_solve",
]


# -- zero-one ----------------------------------------------------------------------------------------------------------


@kernel
def zero_one_loss(start: int, stop: int, f: Array, v: Array, value: Array, residual: Array) -> None:
    """With tau the threshold of the Euclidean projection of f, the game is worth 1 + tau and q is uniform above it."""
    k = f.shape[1]
    buffer = np.empty(k)
    for i in range(start, stop):
        row = f[i]
        top = _row_max(row)
        if top == -np.inf:
            residual[i, 0] = np.nan
            continue
        tau = _threshold(row, top, 1.0, buffer)
        count = 0.0
        best = 0.0
        linear = 0.0
        for j in range(k):
            d = row[j] - top
            w = v[i, j]
            count += 1.0 if d > tau else 0.0
            best = max(best, w)
            linear += w * (tau - d) if w != 0.0 else 0.0
        share = 1.0 / count
        for j in range(k):
            residual[i, j] = (share if row[j] - top > tau else 0.0) - v[i, j]
        value[i] = best + linear


@kernel
def zero_one_solve(start: int, stop: int, f: Array, value: Array, risk: Array, q: Array, p: Array) -> None:
    k = f.shape[1]
    buffer = np.empty(k)
    for i in range(start, stop):
        row = f[i]
        top = _row_max(row)
        if top == -np.inf:
            q[i, 0] = np.nan
            continue
        tau = _threshold(row, top, 1.0, buffer)
        count = 0.0
        for j in range(k):
            p[i, j] = max(row[j] - top - tau, 0.0)
            count += 1.0 if row[j] - top > tau else 0.0
        for j in range(k):
            q[i, j] = 1.0 / count if row[j] - top > tau else 0.0
        risk[i] = 1.0 - 1.0 / count
        value[i] = top + (1.0 + tau)


# -- absolute ----------------------------------------------------------------------------------------------------------


@inline_kernel
def _absolute_ends(row, top):  # type: ignore[no-untyped-def]
    """The grades that maximise f_i − i and f_j + j, with these maxima; ties go inwards."""
    low = 0
    high = 0
    below = -np.inf
    above = -np.inf
    for j in range(row.shape[0]):
        d = row[j] - top
        if d - j > below:
            below = d - j
            low = j
        if d + j > above:
            above = d + j
            high = j
    return low, high, below, above


@kernel
def absolute_loss(start: int, stop: int, f: Array, v: Array, value: Array, residual: Array) -> None:
    k = f.shape[1]
    for i in range(start, stop):
        row = f[i]
        top = _row_max(row)
        if top == -np.inf:
            residual[i, 0] = np.nan
            continue
        low, high, below, above = _absolute_ends(row, top)
        slack = 0.0
        risk = 0.0
        passed = 0.0
        for j in range(k):
            w = v[i, j]
            if w != 0.0:
                d = row[j] - top
                slack += w * (0.5 * (below - (d - j)) + 0.5 * (above - (d + j)))
            passed += w
            if j + 1 < k:
                risk += max(min(passed, 1.0 - passed), 0.0)
            residual[i, j] = -w
        residual[i, low] += 0.5
        residual[i, high] += 0.5
        value[i] = slack - risk


@kernel
def absolute_thresholds(
    start: int, stop: int, s: Array, breaks: Array, grades: Array, heights: Array, y: Array, value: Array,
    low: Array, high: Array,
) -> None:  # fmt: skip
    """The loss where f_j = j s + heights_j, by two binary searches.

    Only the corners (``grades``) of the concave hull of the heights can be best; ``breaks`` are minus its slopes, which
    rise, so the best corner at s is the number of breaks below it.
    """
    for i in range(start, stop):
        total = 0.0
        for side in range(2):
            t = s[i] - 1.0 if side == 0 else s[i] + 1.0
            first = 0
            last = len(breaks)
            while first < last:
                middle = (first + last) // 2
                if breaks[middle] < t:
                    first = middle + 1
                else:
                    last = middle
            best = grades[first]
            total += 0.5 * (best * t + heights[best])
            if side == 0:
                low[i] = best
            else:
                high[i] = best
        value[i] = max(total - (y[i] * s[i] + heights[y[i]]), 0.0)


@kernel
def absolute_solve(start: int, stop: int, f: Array, value: Array, risk: Array, q: Array, p: Array) -> None:
    for i in range(start, stop):
        row = f[i]
        top = _row_max(row)
        if top == -np.inf:
            q[i, 0] = np.nan
            continue
        low, high, below, above = _absolute_ends(row, top)
        q[i, :] = 0.0
        q[i, low] += 0.5
        q[i, high] += 0.5
        risk[i] = 0.5 * abs(high - low)
        value[i] = top + 0.5 * (below + above)
        _mix(p[i], 0.5 * (above - below), low, high)


@inline_kernel
def _mix(p, mean, low, high):  # type: ignore[no-untyped-def]
    """The distribution on two neighbouring grades with this mean, kept between low and high against rounding."""
    p[:] = 0.0
    mean = min(max(mean, low), high)
    left = int(np.floor(mean))
    share = mean - left
    p[left] = 1.0 - share
    if share > 0.0:
        p[left + 1] = share


# -- squared -----------------------------------------------------------------------------------------------------------


@inline_kernel
def _squared_saddle(row, top, lines, begins):  # type: ignore[no-untyped-def]
    """(j1, j2, a): the adversary's grades j1 >= j2 and the mean answer a; j1 = j2 = a where it plays one grade.

    The lines c_j − 2 j a with c_j = j² + f_j have sorted slopes, so their upper envelope is built in one pass from the
    steepest on: ``lines[s]`` is the highest from ``begins[s]`` on. On [l, l + 1] the slope of g is 2 l + 1, so the
    sum's slope under line j turns positive at a = j, or where a line begins that is already past its own grade.
    """
    m = 0
    for r in range(row.shape[0]):
        j = row.shape[0] - 1 - r
        d = row[j] - top
        if d == -np.inf:
            continue
        c = d + float(j) * j
        begin = -np.inf
        while m > 0:
            last = lines[m - 1]
            before = row[last] - top + float(last) * last
            begin = (before - c) / (2.0 * (last - j))
            if begin > begins[m - 1]:
                break
            m -= 1
        if m == 0:
            begin = -np.inf
        lines[m] = j
        begins[m] = begin
        m += 1
    for s in range(m):
        j = lines[s]
        if s + 1 == m or begins[s + 1] >= j:
            if begins[s] <= j:
                return j, j, float(j)
            return lines[s - 1], j, begins[s]
    return 0, 0, 0.0


@inline_kernel
def _squared_share(upper, lower, mean):  # type: ignore[no-untyped-def]
    """The adversary's weight on its upper grade, which makes both neighbours of the mean answer cost the same."""
    if upper == lower:
        return 1.0
    return min(max((np.floor(mean) + 0.5 - lower) / (upper - lower), 0.0), 1.0)


@inline_kernel
def _squared_risk(first, second):  # type: ignore[no-untyped-def]
    """The least E(a − y)² over grades a, from the mean and the mean square of y."""
    best = np.floor(first + 0.5)
    return max(second - first * first + (best - first) * (best - first), 0.0)


@kernel
def squared_loss(start: int, stop: int, f: Array, v: Array, value: Array, residual: Array) -> None:
    k = f.shape[1]
    lines = np.empty(k, np.int64)
    begins = np.empty(k)
    for i in range(start, stop):
        row = f[i]
        top = _row_max(row)
        if top == -np.inf:
            residual[i, 0] = np.nan
            continue
        upper, lower, mean = _squared_saddle(row, top, lines, begins)
        share = _squared_share(upper, lower, mean)
        spread = float(upper - lower)
        first = lower + share * spread
        rest = np.floor(first + 0.5) - first
        gain = share * (1.0 - share) * spread * spread + rest * rest
        gain += share * (row[upper] - top)
        if share < 1.0:
            gain += (1.0 - share) * (row[lower] - top)
        first = 0.0
        for j in range(k):
            first += v[i, j] * j
        second = 0.0  # about the mean, where nothing cancels
        linear = 0.0
        for j in range(k):
            w = v[i, j]
            if w != 0.0:
                second += w * (j - first) * (j - first)
                linear += w * (gain - (row[j] - top))
            residual[i, j] = -w
        rest = np.floor(first + 0.5) - first
        residual[i, upper] += share
        residual[i, lower] += 1.0 - share
        value[i] = linear - (second + rest * rest)


@kernel
def squared_solve(start: int, stop: int, f: Array, value: Array, risk: Array, q: Array, p: Array) -> None:
    k = f.shape[1]
    lines = np.empty(k, np.int64)
    begins = np.empty(k)
    for i in range(start, stop):
        row = f[i]
        top = _row_max(row)
        if top == -np.inf:
            q[i, 0] = np.nan
            continue
        upper, lower, mean = _squared_saddle(row, top, lines, begins)
        share = _squared_share(upper, lower, mean)
        spread = float(upper - lower)
        first = lower + share * spread
        rest = np.floor(first + 0.5) - first
        risk[i] = share * (1.0 - share) * spread * spread + rest * rest
        q[i, :] = 0.0
        q[i, upper] += share
        q[i, lower] += 1.0 - share
        linear = share * (row[upper] - top)
        if share < 1.0:
            linear += (1.0 - share) * (row[lower] - top)
        value[i] = top + (risk[i] + linear)
        _mix(p[i], mean, lower, upper)


# -- zero-one with abstention ------------------------------------------------------------------------------------------


@inline_kernel
def _abstention_cut(row, top, m, buffer):  # type: ignore[no-untyped-def]
    """(u, a): the (m + 1)-th largest potential (less the largest) and the predictor's weight on abstaining.

    Weight 1 − Σ (f_i − u) over the m largest is left when answers are worth their lead over u; none is if that is
    negative, or if there are no more than m classes.
    """
    k = row.shape[0]
    if k <= m:
        return -np.inf, 0.0
    if m == 1:
        second = -np.inf
        seen = False
        for j in range(k):
            d = row[j] - top
            if d == 0.0 and not seen:
                seen = True
            else:
                second = max(second, d)
        return second, max(1.0 + second, 0.0)
    for j in range(k):
        buffer[j] = row[j] - top
    ordered = np.sort(buffer)
    u = ordered[k - 1 - m]
    if u == -np.inf:
        return u, 0.0
    left = 1.0
    for j in range(k - m, k):
        left -= ordered[j] - u
    return u, max(left, 0.0)


@inline_kernel
def _abstention_play(row, top, price, m, u, q):  # type: ignore[no-untyped-def]
    """q where abstaining is played: 1 − price on the m largest potentials, the rest on the next one.

    Returns the mean potential under q.
    """
    k = row.shape[0]
    full = 1.0 - price
    rest = 1.0 - m * full
    placed = 0
    for j in range(k):
        above = row[j] - top > u
        q[j] = full if above else 0.0
        placed += 1 if above else 0
    last = -1
    for j in range(k):  # ties at u: the first of them fill what is missing
        if row[j] - top == u:
            if placed < m:
                q[j] = full
                placed += 1
            elif last < 0:
                q[j] = rest
                last = j
    linear = 0.0
    for j in range(k):
        if q[j] != 0.0:
            linear += q[j] * (row[j] - top)
    return linear


@kernel
def abstention_loss(
    start: int, stop: int, f: Array, v: Array, price: float, m: int, value: Array, residual: Array
) -> None:
    k = f.shape[1]
    buffer = np.empty(k)
    q = np.empty(k)
    for i in range(start, stop):
        row = f[i]
        top = _row_max(row)
        if top == -np.inf:
            residual[i, 0] = np.nan
            continue
        u, abstained = _abstention_cut(row, top, m, buffer)
        if abstained > 0.0:
            worth = price + _abstention_play(row, top, price, m, u, q)
        else:
            tau = _threshold(row, top, 1.0, buffer)
            count = 0.0
            for j in range(k):
                count += 1.0 if row[j] - top > tau else 0.0
            for j in range(k):
                q[j] = 1.0 / count if row[j] - top > tau else 0.0
            worth = 1.0 + tau
        best = 0.0
        linear = 0.0
        for j in range(k):
            w = v[i, j]
            best = max(best, w)
            linear += w * (worth - (row[j] - top)) if w != 0.0 else 0.0
            residual[i, j] = q[j] - w
        value[i] = linear - min(1.0 - best, price)


@kernel
def abstention_solve(
    start: int, stop: int, f: Array, price: float, m: int, value: Array, risk: Array, q: Array, p: Array
) -> None:
    k = f.shape[1]
    buffer = np.empty(k)
    for i in range(start, stop):
        row = f[i]
        top = _row_max(row)
        if top == -np.inf:
            q[i, 0] = np.nan
            continue
        u, abstained = _abstention_cut(row, top, m, buffer)
        p[i, k] = abstained
        if abstained > 0.0:
            for j in range(k):
                p[i, j] = max(row[j] - top - u, 0.0)
            risk[i] = price
            value[i] = top + (price + _abstention_play(row, top, price, m, u, q[i]))
        else:
            tau = _threshold(row, top, 1.0, buffer)
            count = 0.0
            for j in range(k):
                p[i, j] = max(row[j] - top - tau, 0.0)
                count += 1.0 if row[j] - top > tau else 0.0
            for j in range(k):
                q[i, j] = 1.0 / count if row[j] - top > tau else 0.0
            risk[i] = 1.0 - 1.0 / count
            value[i] = top + (1.0 + tau)
