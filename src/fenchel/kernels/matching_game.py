"""The game of a predictor and an adversary who both mix matchings, by a primal-dual interior point method."""

from __future__ import annotations

import numpy as np

from .._core.compile import inline_kernel, kernel
from .._core.types import Array

__all__ = ["matching_game", "state_size"]

# How far a warm start is pulled into the interior, and how near to its boundary a step may go.
_PULL = 0.03
_STEP = 0.995
# A step shorter than this ends the iteration: rounding is all that is left.
_SHORTEST = 1e-8


def state_size(rows: int, columns: int) -> int:
    """How many numbers carry one game over to the next: both points, and both players' duals of rows and columns."""
    return 2 * rows * columns + 2 * (rows + columns)


@inline_kernel
def _pull_inside(point, theta, all_entries, free, share):  # type: ignore[no-untyped-def]
    """Mix a point with one in the interior: all of its entries are positive, or those whose score is not -inf."""
    rows, columns = point.shape
    m = columns - 1 if free else columns
    even = 1.0 / (max(rows, m) + 1.0) if free else 1.0 / rows
    for i in range(rows):
        left = 1.0
        for j in range(m):
            x = even if all_entries or theta[i, j] > -np.inf else 0.0
            left -= x
            point[i, j] += share * (x - point[i, j])
        if free:
            point[i, m] += share * (left - point[i, m])


@inline_kernel
def _fill_slack(point, slack):  # type: ignore[no-untyped-def]
    for j in range(slack.shape[0]):
        total = 0.0
        for i in range(point.shape[0]):
            total += point[i, j]
        slack[j] = 1.0 - total


@inline_kernel
def _bounds(theta, s, w, q, p, c, d, a, b):  # type: ignore[no-untyped-def]
    """What q guarantees without the scores, the scores' part, and what p guarantees; from the duals, O(n^2).

    min over p of -<w p, q> + s/2 |p|^2 is at least -sum c - sum d - sum (w q - c - d)_+^2 / (2 s), for any c and d (d not
    below zero where columns sum to at most one);
    with s = 0 the excess of each row is taken off instead. The same for the adversary.
    """
    rows, columns = theta.shape
    risk = 0.0
    linear = 0.0
    upper = 0.0
    for j in range(columns):
        risk -= d[j]
        upper += b[j]
    for i in range(rows):
        risk -= c[i]
        upper += a[i]
        worst_q = 0.0
        worst_p = 0.0
        for j in range(columns):
            t, x, y = theta[i, j], q[i, j], p[i, j]
            over_q = max(w[j] * x - c[i] - d[j], 0.0)
            over_p = max(t - w[j] * y - a[i] - b[j], 0.0)
            if x != 0.0:
                linear += t * x
            if s > 0.0:
                risk -= 0.5 * over_q * over_q / s + 0.5 * s * x * x
                upper += 0.5 * over_p * over_p / s + 0.5 * s * y * y
            else:
                worst_q = max(worst_q, over_q)
                worst_p = max(worst_p, over_p)
        risk -= worst_q
        upper += worst_p
    return risk, linear, upper


@inline_kernel
def _factor(S, L0, L1, pivots):  # type: ignore[no-untyped-def]
    """Block elimination of a symmetric quasi-definite matrix, lower half, two unknowns at a time."""
    n = S.shape[0]
    for k in range(0, n, 2):
        u, v, x = S[k, k], S[k + 1, k], S[k + 1, k + 1]
        inverse = 1.0 / (u * x - v * v)
        pivots[k, 0], pivots[k, 1] = x * inverse, -v * inverse
        pivots[k + 1, 0], pivots[k + 1, 1] = -v * inverse, u * inverse
        first, second, w0, w1 = L0[k // 2], L1[k // 2], L0[k // 2 + n // 2], L1[k // 2 + n // 2]
        for r in range(k + 2, n):
            w0[r] = S[r, k]
            w1[r] = S[r, k + 1]
            first[r] = pivots[k, 0] * w0[r] + pivots[k, 1] * w1[r]
            second[r] = pivots[k + 1, 0] * w0[r] + pivots[k + 1, 1] * w1[r]
        for r in range(k + 2, n):
            line = S[r]
            f, g = first[r], second[r]
            for t in range(k + 2, r + 1):
                line[t] -= f * w0[t] + g * w1[t]


@inline_kernel
def _solve(L0, L1, pivots, h):  # type: ignore[no-untyped-def]
    n = h.shape[0]
    for k in range(0, n, 2):
        x, y = h[k], h[k + 1]
        first, second = L0[k // 2], L1[k // 2]
        for r in range(k + 2, n):
            h[r] -= first[r] * x + second[r] * y
    for k in range(n - 2, -1, -2):
        x, y = h[k], h[k + 1]
        h[k] = pivots[k, 0] * x + pivots[k, 1] * y
        h[k + 1] = pivots[k + 1, 0] * x + pivots[k + 1, 1] * y
        first, second = L0[k // 2], L1[k // 2]
        f, g = 0.0, 0.0
        for r in range(k + 2, n):
            f += first[r] * h[r]
            g += second[r] * h[r]
        h[k] -= f
        h[k + 1] -= g


@inline_kernel
def _longest(x, dx, most):  # type: ignore[no-untyped-def]
    return min(most, -x / dx) if dx < 0.0 else most


@kernel
def matching_game(
    start: int,
    stop: int,
    theta: Array,
    free: bool,
    s: float,
    w: Array,
    tol: Array,
    max_iter: int,
    states: Array,
    warm: Array,
    q: Array,
    p: Array,
    risk: Array,
    linear: Array,
    gap: Array,
    n_iter: Array,
) -> None:
    """max over q of min over p of -<w p, q> + s/2 |p|^2 - s/2 |q|^2 + <theta, q>, for each theta[i]; w by column.

    Rows of p and q sum to one. Columns do too, or with ``free`` sum to at most one but for the last, which is free (no
    partner). A score of -inf forbids an entry to q, with ``free`` alone. risk[i] + linear[i] is what q guarantees and
    gap[i] more what p does, both from the duals. states[i] holds q, p and the duals where warm[i], and is left with
    those of this game. With w = 0 and s = 1, q is the Euclidean projection.

    Both players' optimality conditions are one monotone complementarity problem, to which Mehrotra's predictor-corrector
    steps are taken from a strictly feasible point. Each pair of entries is eliminated, then the duals of the rows; what
    is left is a symmetric quasi-definite system of two unknowns for each column: about 5 n^3 operations a step, 8 to 20
    steps. (Mehrotra, "On the implementation of a primal-dual interior point method", 1992; Vanderbei, "Symmetric
    quasidefinite matrices", 1995.)
    """
    rows, columns = theta.shape[1], theta.shape[2]
    m = columns - 1 if free else columns  # columns with a sum
    left = m if free else m - 1  # columns whose duals are unknown: without a free column one of them is fixed
    size = rows * columns
    z, y = np.empty((rows, columns)), np.empty((rows, columns))
    A, B, D = np.empty((rows, columns)), np.empty((rows, columns)), np.empty((rows, columns))
    g1, g2 = np.empty((rows, columns)), np.empty((rows, columns))
    dp, dq, dz, dy = (
        np.empty((rows, columns)), np.empty((rows, columns)), np.empty((rows, columns)), np.empty((rows, columns))
    )  # fmt: skip
    barred = np.zeros((rows, columns), np.bool_)
    slots = m if free else 0
    top = 0.0
    for j in range(columns):
        top = max(top, w[j])
    # the slack of the columns: 0 for the predictor, 1 for the adversary; its multipliers are the columns' duals
    slack, dslack, ddual = np.zeros((2, slots)), np.zeros((2, slots)), np.zeros((2, slots))
    S = np.empty((2 * left, 2 * left))
    L0, L1 = np.zeros((2 * left, 2 * left)), np.zeros((2 * left, 2 * left))
    R0, R1, W0, W1 = (
        np.empty((rows, 2 * left)), np.empty((rows, 2 * left)), np.empty(2 * left), np.empty(2 * left)
    )  # fmt: skip
    pivots, row_pivot, g = np.empty((2 * left, 2)), np.empty((rows, 3)), np.empty((rows, 2))
    h, dc, da, dd, db = np.empty(2 * left), np.empty(rows), np.empty(rows), np.empty(columns), np.empty(columns)
    for item in range(start, stop):
        T = theta[item]
        state = states[item]
        Q, P = state[:size].reshape(rows, columns), state[size : 2 * size].reshape(rows, columns)
        rest = state[2 * size :]
        c, a = rest[:rows], rest[rows : 2 * rows]
        d, b = rest[2 * rows : 2 * rows + columns], rest[2 * rows + columns :]
        spread = 0.0
        for i in range(rows):
            for j in range(columns):
                barred[i, j] = T[i, j] == -np.inf
                spread = max(spread, 0.0 if barred[i, j] else abs(T[i, j]))
        if warm[item]:
            # the duals of the rows fit the new scores; often nothing else is needed
            for i in range(rows):
                best = -np.inf
                for j in range(columns):
                    best = max(best, T[i, j] - w[j] * P[i, j] - s * Q[i, j] - b[j])
                a[i] = best
            low, line, high = _bounds(T, s, w, Q, P, c, d, a, b)
            if high - low - line <= tol[item]:
                risk[item], linear[item], gap[item], n_iter[item] = low, line, max(high - low - line, 0.0), 0
                q[item], p[item] = Q, P
                continue
            push = _PULL * (top + s)
            share = _PULL
        else:
            Q[:] = 0.0
            P[:] = 0.0
            push = 0.5 * (top + s) / rows + 0.05 * spread
            share = 1.0
            d[:] = 0.0
            b[:] = 0.0
        _pull_inside(Q, T, False, free, share)
        _pull_inside(P, T, True, free, share)  # the predictor may answer what no truth is
        if free:
            _fill_slack(P, slack[0])
            _fill_slack(Q, slack[1])
            for j in range(m):
                d[j] = max(d[j], push)
                b[j] = max(b[j], push)
            d[m] = 0.0
            b[m] = 0.0
        count = 2.0 * slots
        mu = 0.0
        for i in range(rows):
            low, high = -np.inf, -np.inf
            for j in range(columns):
                low = max(low, w[j] * Q[i, j] - s * P[i, j] - d[j])
                high = max(high, T[i, j] - w[j] * P[i, j] - s * Q[i, j] - b[j])
            c[i] = low + push
            a[i] = high + push
            for j in range(columns):
                z[i, j] = s * P[i, j] - w[j] * Q[i, j] + c[i] + d[j]
                count += 1.0
                mu += z[i, j] * P[i, j]
                if barred[i, j]:
                    y[i, j] = np.inf
                else:
                    y[i, j] = w[j] * P[i, j] + s * Q[i, j] + a[i] + b[j] - T[i, j]
                    count += 1.0
                    mu += y[i, j] * Q[i, j]
        for j in range(slots):
            mu += d[j] * slack[0, j] + b[j] * slack[1, j]
        mu /= count
        low, line, high = _bounds(T, s, w, Q, P, c, d, a, b)
        best_gap = high - low - line
        risk[item], linear[item], gap[item] = low, line, best_gap
        q[item], p[item] = Q, P
        steps = 0
        while best_gap > tol[item] and steps < max_iter:
            steps += 1
            # -- the system
            S[:] = 0.0
            for i in range(rows):
                u, v, x = 0.0, 0.0, 0.0
                for j in range(columns):
                    A[i, j] = s + z[i, j] / P[i, j]
                    if barred[i, j]:
                        k0, k1, k2 = 1.0 / A[i, j], 0.0, 0.0
                    else:
                        B[i, j] = s + y[i, j] / Q[i, j]
                        D[i, j] = 1.0 / (A[i, j] * B[i, j] + w[j] * w[j])
                        k0, k1, k2 = B[i, j] * D[i, j], -w[j] * D[i, j], -A[i, j] * D[i, j]
                    u += k0
                    v += k1
                    x += k2
                    if j < left:
                        W0[2 * j], W0[2 * j + 1], W1[2 * j], W1[2 * j + 1] = k0, k1, k1, k2
                        S[2 * j, 2 * j] += k0
                        S[2 * j + 1, 2 * j] += k1
                        S[2 * j + 1, 2 * j + 1] += k2
                inverse = 1.0 / (u * x - v * v)
                row_pivot[i, 0], row_pivot[i, 1], row_pivot[i, 2] = x * inverse, -v * inverse, u * inverse
                first, second = R0[i], R1[i]
                for r in range(2 * left):
                    first[r] = row_pivot[i, 0] * W0[r] + row_pivot[i, 1] * W1[r]
                    second[r] = row_pivot[i, 1] * W0[r] + row_pivot[i, 2] * W1[r]
                for r in range(2 * left):
                    row = S[r]
                    f0, f1 = first[r], second[r]
                    for t in range(r + 1):
                        row[t] -= f0 * W0[t] + f1 * W1[t]
            for j in range(slots):
                S[2 * j, 2 * j] += slack[0, j] / d[j]
                S[2 * j + 1, 2 * j + 1] -= slack[1, j] / b[j]
            _factor(S, L0, L1, pivots)
            # -- a predictor step to the boundary, then a corrected one
            target = 0.0
            alpha = 1.0
            for corrected in range(2):
                h[:] = 0.0
                for i in range(rows):
                    e0, e1 = -1.0, -1.0
                    for j in range(columns):
                        t1 = target - P[i, j] * z[i, j] - (dp[i, j] * dz[i, j] if corrected else 0.0)
                        g1[i, j] = t1 / P[i, j] + z[i, j] - (s * P[i, j] - w[j] * Q[i, j] + c[i] + d[j])
                        e0 += P[i, j]
                        if barred[i, j]:
                            f0, f1 = g1[i, j] / A[i, j], 0.0
                        else:
                            t2 = target - Q[i, j] * y[i, j] - (dq[i, j] * dy[i, j] if corrected else 0.0)
                            g2[i, j] = (
                                t2 / Q[i, j] + y[i, j] - (w[j] * P[i, j] + s * Q[i, j] + a[i] + b[j] - T[i, j])
                            )  # fmt: skip
                            e1 += Q[i, j]
                            f0 = (B[i, j] * g1[i, j] + w[j] * g2[i, j]) * D[i, j]
                            f1 = (A[i, j] * g2[i, j] - w[j] * g1[i, j]) * D[i, j]
                        e0 += f0
                        e1 += f1
                        if j < left:
                            h[2 * j] += f0 + P[i, j]
                            h[2 * j + 1] += f1 + Q[i, j]
                    g[i, 0], g[i, 1] = e0, e1
                    for r in range(2 * left):
                        h[r] -= R0[i, r] * e0 + R1[i, r] * e1
                for j in range(left):
                    h[2 * j] -= 1.0
                    h[2 * j + 1] -= 1.0
                for j in range(slots):
                    t1 = target - slack[0, j] * d[j] - (dslack[0, j] * ddual[0, j] if corrected else 0.0)
                    t2 = target - slack[1, j] * b[j] - (dslack[1, j] * ddual[1, j] if corrected else 0.0)
                    h[2 * j] += slack[0, j] + t1 / d[j]
                    h[2 * j + 1] += slack[1, j] + t2 / b[j]
                _solve(L0, L1, pivots, h)
                for j in range(columns):
                    dd[j] = h[2 * j] if j < left else 0.0
                    db[j] = -h[2 * j + 1] if j < left else 0.0
                alpha = 1.0 / _STEP
                for j in range(slots):
                    t1 = target - slack[0, j] * d[j] - (dslack[0, j] * ddual[0, j] if corrected else 0.0)
                    t2 = target - slack[1, j] * b[j] - (dslack[1, j] * ddual[1, j] if corrected else 0.0)
                    dslack[0, j] = (t1 - slack[0, j] * dd[j]) / d[j]
                    dslack[1, j] = (t2 - slack[1, j] * db[j]) / b[j]
                    ddual[0, j] = dd[j]
                    ddual[1, j] = db[j]
                    alpha = _longest(slack[0, j], dslack[0, j], alpha)
                    alpha = _longest(slack[1, j], dslack[1, j], alpha)
                    alpha = _longest(d[j], dd[j], alpha)
                    alpha = _longest(b[j], db[j], alpha)
                for i in range(rows):
                    f0 = row_pivot[i, 0] * g[i, 0] + row_pivot[i, 1] * g[i, 1]
                    f1 = row_pivot[i, 1] * g[i, 0] + row_pivot[i, 2] * g[i, 1]
                    for r in range(2 * left):
                        f0 -= R0[i, r] * h[r]
                        f1 -= R1[i, r] * h[r]
                    dc[i] = f0
                    da[i] = -f1
                    for j in range(columns):
                        t1 = target - P[i, j] * z[i, j] - (dp[i, j] * dz[i, j] if corrected else 0.0)
                        e0 = g1[i, j] - dc[i] - dd[j]
                        if barred[i, j]:
                            dp[i, j] = e0 / A[i, j]
                            dq[i, j] = 0.0
                            dy[i, j] = 0.0
                        else:
                            t2 = target - Q[i, j] * y[i, j] - (dq[i, j] * dy[i, j] if corrected else 0.0)
                            e1 = g2[i, j] - da[i] - db[j]
                            dp[i, j] = (B[i, j] * e0 + w[j] * e1) * D[i, j]
                            dq[i, j] = (A[i, j] * e1 - w[j] * e0) * D[i, j]
                            dy[i, j] = (t2 - y[i, j] * dq[i, j]) / Q[i, j]
                            alpha = _longest(Q[i, j], dq[i, j], alpha)
                            alpha = _longest(y[i, j], dy[i, j], alpha)
                        dz[i, j] = (t1 - z[i, j] * dp[i, j]) / P[i, j]
                        alpha = _longest(P[i, j], dp[i, j], alpha)
                        alpha = _longest(z[i, j], dz[i, j], alpha)
                alpha = min(1.0, _STEP * alpha)
                if corrected == 0:
                    ahead = 0.0
                    for i in range(rows):
                        for j in range(columns):
                            ahead += (P[i, j] + alpha * dp[i, j]) * (z[i, j] + alpha * dz[i, j])
                            if not barred[i, j]:
                                ahead += (Q[i, j] + alpha * dq[i, j]) * (y[i, j] + alpha * dy[i, j])
                    for j in range(slots):
                        ahead += (slack[0, j] + alpha * dslack[0, j]) * (d[j] + alpha * ddual[0, j])
                        ahead += (slack[1, j] + alpha * dslack[1, j]) * (b[j] + alpha * ddual[1, j])
                    ratio = max(ahead / count / mu, 0.0)
                    target = mu * min(ratio * ratio * ratio, 1.0)
            if not alpha > _SHORTEST:
                break
            mu = 0.0
            for i in range(rows):
                c[i] += alpha * dc[i]
                a[i] += alpha * da[i]
                for j in range(columns):
                    P[i, j] += alpha * dp[i, j]
                    z[i, j] += alpha * dz[i, j]
                    mu += P[i, j] * z[i, j]
                    if not barred[i, j]:
                        Q[i, j] += alpha * dq[i, j]
                        y[i, j] += alpha * dy[i, j]
                        mu += Q[i, j] * y[i, j]
            for j in range(columns):
                d[j] += alpha * dd[j]
                b[j] += alpha * db[j]
            for j in range(slots):
                slack[0, j] += alpha * dslack[0, j]
                slack[1, j] += alpha * dslack[1, j]
                mu += slack[0, j] * d[j] + slack[1, j] * b[j]
            mu /= count
            low, line, high = _bounds(T, s, w, Q, P, c, d, a, b)
            now = high - low - line
            if not now < np.inf:
                break
            if now < best_gap:
                best_gap = now
                risk[item], linear[item], gap[item] = low, line, max(now, 0.0)
                q[item], p[item] = Q, P
            elif mu * count < 1e-3 * best_gap or mu < 1e-300:
                break
        n_iter[item] = steps
        Q[:] = q[item]
        P[:] = p[item]
