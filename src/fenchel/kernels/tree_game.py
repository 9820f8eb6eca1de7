"""The game of a cost that adds up over the nodes of forests: an interior-point method on the labels and pairs that matter.

The adversary's q is a point of the marginal polytope of each forest, the predictor's p a distribution for each node:

    max over q of sum_v w_v min over p_v of p_v C q_v + <theta, q>.

As a linear program, q is one flow Q_v(a, b) for each node v, label b, and label a of its parent, with sum_b Q_v(a, b) =
q_parent(a); its dual are messages that bound the best score below. Only pairs on labellings near the best one can be used, so
the program is solved for those; messages over all labels at the p found then say what it is worth against every labelling,
which is the certificate, and which pairs are missing. One Newton step costs O(nodes m^3) for m labels that matter: systems of
trees are solved from the leaves to the roots and back.
"""

from __future__ import annotations

import numpy as np

from .._core.compile import inline_kernel, kernel
from .._core.types import Array, IntArray
from .chain import IMPOSSIBLE, SOLVED, UNFINISHED, _top_of

__all__ = ["IMPOSSIBLE", "SOLVED", "expected_costs", "losses", "take_state", "tree_game", "write_state"]

_FIRST, _SECOND, _REPAIR = range(3)


@inline_kernel
def _best_ahead(table, row, flip, out):  # type: ignore[no-untyped-def]
    """out[a] = max table[a, b] + row[b] over b; the table is turned round where ``flip``."""
    k = out.shape[0]
    if flip:
        for a in range(k):
            out[a] = -np.inf
        for b in range(k):
            line, x = table[b], row[b]
            for a in range(k):
                y = line[a] + x
                out[a] = y if y > out[a] else out[a]
    else:
        for a in range(k):
            line = table[a]
            high = -np.inf
            for b in range(k):
                y = line[b] + row[b]
                high = y if y > high else high
            out[a] = high


@inline_kernel
def _slacks(nodes, tables, order, up, up_edge, flip, tied, added, below, ahead, slack):  # type: ignore[no-untyped-def]
    """How far the best labelling with each label lies below the best of all, at scores plus ``added``; and that score.

    below[v] are the best scores of what is below each label, itself included, less a constant; ahead[v] what the parent
    hears of it. The score is -inf where no labelling is possible.
    """
    n, k = nodes.shape
    best = 0.0
    for v in range(n):
        for b in range(k):
            below[v, b] = nodes[v, b] + added[v, b]
    for t in range(n):
        v = order[t]
        top = _top_of(below[v])
        if not top > -np.inf:
            return -np.inf
        best += top
        for b in range(k):
            below[v, b] -= top
        u = up[v]
        if u >= 0:
            _best_ahead(tables[0 if tied else up_edge[v]], below[v], flip[v], ahead[v])
            for a in range(k):
                below[u, a] += ahead[v, a]
    for t in range(n - 1, -1, -1):
        v = order[t]
        u = up[v]
        if u < 0:
            for b in range(k):
                slack[v, b] = -below[v, b]
            continue
        table = tables[0 if tied else up_edge[v]]
        for b in range(k):
            slack[v, b] = np.inf
        if flip[v]:
            for b in range(k):
                least = np.inf
                for a in range(k):
                    x = slack[u, a] - table[b, a] + ahead[v, a] if slack[u, a] < np.inf else np.inf
                    least = x if x < least else least
                slack[v, b] = least
        else:
            for a in range(k):
                if slack[u, a] < np.inf:
                    x = slack[u, a] + ahead[v, a]
                    line = table[a]
                    for b in range(k):
                        y = x - line[b]
                        slack[v, b] = y if y < slack[v, b] else slack[v, b]
        for b in range(k):
            slack[v, b] -= below[v, b]
    return best


@inline_kernel
def _cholesky(A, m):  # type: ignore[no-untyped-def]
    """The lower factor in place; False if the matrix is not positive definite."""
    for i in range(m):
        row = A[i]
        for j in range(i + 1):
            other = A[j]
            x = row[j]
            for s in range(j):
                x -= row[s] * other[s]
            if i == j:
                if not x > 0.0:
                    return False
                row[i] = np.sqrt(x)
            else:
                row[j] = x / other[j]
    return True


@inline_kernel
def _solve_lower(L, m, x):  # type: ignore[no-untyped-def]
    for i in range(m):
        row = L[i]
        y = x[i]
        for s in range(i):
            y -= row[s] * x[s]
        x[i] = y / row[i]


@inline_kernel
def _solve_upper(L, m, x):  # type: ignore[no-untyped-def]
    for i in range(m - 1, -1, -1):
        row = L[i]
        y = x[i] / row[i]
        x[i] = y
        for s in range(i):
            x[s] -= row[s] * y


@inline_kernel
def _factor(order, up, count, answers, Q, Z, p, u, q, CC, W, X, D, B, L, G, P, N, y, dc, base, rest):  # type: ignore[no-untyped-def]
    """Eliminate the Newton system from the leaves to the roots; False where rounding ended it.

    Changes of q_v add up to what comes in, so each node's likeliest label ``base`` is left out: all matrices are over the
    ``rest``. Else the mass would be determined by differences of large numbers. G[v] is how much more each label costs at
    and below v as q_v changes, B[v] the factor of what is solved for q_v, L[v] that of what is solved for its message.
    """
    n = order.shape[0]
    for v in range(n):
        m = count[v]
        best = 0
        for b in range(1, m):
            best = b if q[v, b] > q[v, best] else best
        base[v] = best
        j = 0
        for b in range(m):
            if b != best:
                rest[v, j] = b
                j += 1
        for j in range(m - 1):
            for h in range(m - 1):
                G[v, j, h] = 0.0
    for t in range(n):
        v = order[t]
        m, o, w = count[v], base[v], up[v]
        c = count[w] if w >= 0 else 1
        for b in range(m):
            dc[v, b] = 0.0
        sums = dc[v]
        for a in range(c):
            flow, slack, weight = Q[v, a], Z[v, a], W[v, a]
            for b in range(m):
                x = flow[b] / slack[b]  # not a pair that matters: 0 / 1
                weight[b] = x
                sums[b] += x
        for a in range(c):
            weight, share = W[v, a], X[v, a]
            for b in range(m):
                share[b] = weight[b] / sums[b]
        s = answers[v]
        if s > 1:
            total = 0.0
            for i in range(s):
                y[v, i] = p[v, i] / u[v, i]
                total += y[v, i]
                for j in range(m - 1):
                    D[v, i, j] = CC[v, i, rest[v, j]] - CC[v, i, o]
            for j in range(m - 1):
                mean = 0.0
                for i in range(s):
                    mean += y[v, i] * D[v, i, j]
                mean /= total
                for h in range(j + 1):
                    x = 0.0
                    for i in range(s):
                        x += y[v, i] * (D[v, i, j] - mean) * D[v, i, h]
                    G[v, j, h] += x
                    if h < j:
                        G[v, h, j] += x
        for j in range(m - 1):
            for h in range(j + 1):
                B[v, j, h] = G[v, j, h] + 1.0 / dc[v, o]
            B[v, j, j] += 1.0 / dc[v, rest[v, j]]
        if not _cholesky(B[v], m - 1):
            return False
        if w < 0 or c == 1:
            continue
        # the Laplacian of the pairs, and what q_v can make up for
        factor = L[v]
        for i in range(c - 1):
            a = rest[w, i]
            for j in range(m - 1):
                N[i, j] = X[v, a, rest[v, j]] - X[v, a, o]
            _solve_lower(B[v], m - 1, N[i])
            for h in range(i + 1):
                row, other = N[i], N[h]
                x = 0.0
                for j in range(m - 1):
                    x += row[j] * other[j]
                factor[i, h] = x
        for i in range(c - 1):
            a = rest[w, i]
            share = X[v, a]
            for h in range(c):
                if h != a:
                    weight = W[v, h]
                    x = 0.0
                    for b in range(m):
                        x += share[b] * weight[b]
                    factor[i, i] += x
                    if h != base[w]:
                        g = h if h < base[w] else h - 1
                        if g < i:
                            factor[i, g] -= x
        if not _cholesky(factor, c - 1):
            return False
        above = G[w]
        for i in range(c - 1):
            line = P[i]
            for h in range(c - 1):
                line[h] = 1.0 if h == i else 0.0
            _solve_lower(factor, c - 1, line)
            _solve_upper(factor, c - 1, line)
        for i in range(c - 1):
            for h in range(c - 1):
                above[i, h] += 0.5 * (P[i, h] + P[h, i])
    return True


@inline_kernel
def _direction(  # type: ignore[no-untyped-def]
    order,
    up,
    count,
    answers,
    Q,
    Z,
    p,
    u,
    CC,
    W,
    X,
    D,
    B,
    L,
    y,
    dc,
    base,
    rest,
    short,
    off,
    aim,
    kind,
    dQ,
    dZ,
    dp,
    du,
    dq,
    f,
    g,
    turn,
    mass,
    high,
):
    """The Newton direction towards products of ``aim`` that makes up for what flows are ``short`` of.

    With _SECOND the products of the direction before are taken off; with _REPAIR products stay as they are and the slacks of
    answers are moved by ``off``. Messages and p change consistently, whatever rounding does to q.
    """
    n = order.shape[0]
    second, repair = kind == _SECOND, kind == _REPAIR
    for v in range(n):
        for b in range(count[v]):
            f[v, b] = 0.0
    for t in range(n - 1, -1, -1):
        v = order[t]
        w = up[v]
        x = mass[w] if w >= 0 else 0.0
        for a in range(count[w] if w >= 0 else 1):
            x += short[v, a]
        mass[v] = x
    for t in range(n):
        v = order[t]
        m, s, o, w = count[v], answers[v], base[v], up[v]
        c = count[w] if w >= 0 else 1
        if s > 1:
            total, sums = 0.0, 0.0
            for i in range(s):
                x = aim - p[v, i] * u[v, i] - (dp[v, i] * du[v, i] if second else 0.0)
                dp[v, i] = -y[v, i] * off[v, i] if repair else x / u[v, i]
                total += dp[v, i] - y[v, i] * CC[v, i, o] * mass[v]
                sums += y[v, i]
            mean = total / sums
            for i in range(s):
                x = dp[v, i] - y[v, i] * (CC[v, i, o] * mass[v] + mean)
                for j in range(m - 1):
                    f[v, j] += D[v, i, j] * x
        for b in range(m):
            g[v, b] = 0.0
        coming = g[v]
        for a in range(c):
            flow, slack, change, other, share = Q[v, a], Z[v, a], dQ[v, a], dZ[v, a], X[v, a]
            x = 0.0
            for b in range(m):
                r = 0.0
                if flow[b] > 0.0 and not repair:
                    r = (aim - flow[b] * slack[b] - (change[b] * other[b] if second else 0.0)) / slack[b]
                change[b] = r
                x += r
                coming[b] += r
            high[a] = x - short[v, a] + share[o] * mass[v]
        for a in range(c):
            share = X[v, a]
            x = high[a]
            for b in range(m):
                x -= share[b] * coming[b]
            high[a] = x
        for j in range(m - 1):
            b = rest[v, j]
            dq[v, j] = g[v, b] / dc[v, b] - g[v, o] / dc[v, o] + mass[v] / dc[v, o] + f[v, j]
        if w < 0 or c == 1:
            continue
        for j in range(m - 1):
            g[v, j] = dq[v, j]
        _solve_lower(B[v], m - 1, g[v])
        _solve_upper(B[v], m - 1, g[v])
        for i in range(c - 1):
            a = rest[w, i]
            x = high[a]
            for j in range(m - 1):
                x += (X[v, a, rest[v, j]] - X[v, a, o]) * g[v, j]
            turn[v, i] = x
        for i in range(c - 1):
            high[i] = turn[v, i]
        _solve_lower(L[v], c - 1, high)
        _solve_upper(L[v], c - 1, high)
        for i in range(c - 1):
            f[w, i] += high[i]
    for t in range(n - 1, -1, -1):
        v = order[t]
        m, s, o, w = count[v], answers[v], base[v], up[v]
        c = count[w] if w >= 0 else 1
        if c > 1:
            for i in range(c - 1):
                turn[v, i] -= dq[w, i]
            _solve_lower(L[v], c - 1, turn[v])
            _solve_upper(L[v], c - 1, turn[v])
            for j in range(m - 1):
                x = dq[v, j]
                for i in range(c - 1):
                    a = rest[w, i]
                    x -= (X[v, a, rest[v, j]] - X[v, a, o]) * turn[v, i]
                dq[v, j] = x
        _solve_lower(B[v], m - 1, dq[v])
        _solve_upper(B[v], m - 1, dq[v])
        for b in range(m):
            g[v, b] = 0.0
        if s > 1:
            total, sums = 0.0, 0.0
            for i in range(s):
                x = CC[v, i, o] * mass[v]
                for j in range(m - 1):
                    x += D[v, i, j] * dq[v, j]
                du[v, i] = x
                sums += y[v, i]
                total += y[v, i] * x - dp[v, i]
            move = total / sums
            total = 0.0
            for i in range(s):
                du[v, i] -= move
                dp[v, i] -= y[v, i] * du[v, i]
                total += dp[v, i]
                if repair:
                    du[v, i] += off[v, i]
            for i in range(s):
                dp[v, i] -= total * y[v, i] / sums  # p goes on summing to one
                for b in range(m):
                    g[v, b] += CC[v, i, b] * dp[v, i]
    for t in range(n):
        v = order[t]
        m, w = count[v], up[v]
        c = count[w] if w >= 0 else 1
        for a in range(c):
            high[a] = 0.0
        for i in range(c - 1):
            high[rest[w, i]] = turn[v, i]
        # the constant of the message is the one with which flows add up to what comes in
        total, sums = -mass[v], 0.0
        below = g[v]
        for a in range(c):
            change, weight = dQ[v, a], W[v, a]
            y = high[a]
            for b in range(m):
                total += change[b] - weight[b] * (y - below[b])
                sums += weight[b]
        total /= sums
        for a in range(c):
            high[a] += total
            if w >= 0:
                g[w, a] += high[a]
            flow, change, other, weight = Q[v, a], dQ[v, a], dZ[v, a], W[v, a]
            y = high[a]
            for b in range(m):
                x = y - below[b] if flow[b] > 0.0 else 0.0
                other[b] = x
                change[b] -= weight[b] * x


@inline_kernel
def _short(order, up, count, answers, CC, Q, dQ, du, q, dq, short, off):  # type: ignore[no-untyped-def]
    """What the flows of Q + dQ are short of, and how far slacks of answers are off what q says; the most of both."""
    worst = 0.0
    for t in range(order.shape[0] - 1, -1, -1):
        v = order[t]
        m, w = count[v], up[v]
        c = count[w] if w >= 0 else 1
        for b in range(m):
            dq[v, b] = 0.0
        for a in range(c):
            x = q[w, a] + dq[w, a] if w >= 0 else 1.0
            for b in range(m):
                x -= Q[v, a, b]
                x -= dQ[v, a, b]
                dq[v, b] += dQ[v, a, b]
            short[v, a] = x
            worst = max(worst, abs(x))
        if answers[v] > 1:
            mean = 0.0
            for i in range(answers[v]):
                x = -du[v, i]
                for b in range(m):
                    x += CC[v, i, b] * dq[v, b]
                off[v, i] = x
                mean += x / answers[v]
            for i in range(answers[v]):
                off[v, i] -= mean
                worst = max(worst, abs(off[v, i]))
    return worst


@inline_kernel
def _add(up, count, answers, Q, dQ, dZ, dp, du, eQ, eZ, ep, eu, times):  # type: ignore[no-untyped-def]
    for v in range(up.shape[0]):
        for a in range(count[up[v]] if up[v] >= 0 else 1):
            for b in range(count[v]):
                if Q[v, a, b] > 0.0:
                    dQ[v, a, b] += times * eQ[v, a, b]
                    dZ[v, a, b] += times * eZ[v, a, b]
        if answers[v] > 1:
            for i in range(answers[v]):
                dp[v, i] += times * ep[v, i]
                du[v, i] += times * eu[v, i]


@inline_kernel
def _longest(order, up, count, answers, Q, Z, p, u, dQ, dZ, dp, du):  # type: ignore[no-untyped-def]
    """How far the direction can be followed by q and by p before something becomes negative."""
    for_q, for_p = 1e300, 1e300
    for v in range(order.shape[0]):
        c = count[up[v]] if up[v] >= 0 else 1
        for a in range(c):
            flow, slack, change, other = Q[v, a], Z[v, a], dQ[v, a], dZ[v, a]
            for b in range(count[v]):
                if flow[b] > 0.0:
                    if change[b] < 0.0:
                        for_q = min(for_q, -flow[b] / change[b])
                    if other[b] < 0.0:
                        for_p = min(for_p, -slack[b] / other[b])
        if answers[v] > 1:
            for i in range(answers[v]):
                if du[v, i] < 0.0:
                    for_q = min(for_q, -u[v, i] / du[v, i])
                if dp[v, i] < 0.0:
                    for_p = min(for_p, -p[v, i] / dp[v, i])
    return for_q, for_p


@inline_kernel
def _products(order, up, count, answers, Q, Z, p, u, dQ, dZ, dp, du, for_q, for_p):  # type: ignore[no-untyped-def]
    """The duality gap after steps of these lengths, and of how many products it is the sum."""
    total, terms = 0.0, 0
    for v in range(order.shape[0]):
        c = count[up[v]] if up[v] >= 0 else 1
        for a in range(c):
            flow, slack, change, other = Q[v, a], Z[v, a], dQ[v, a], dZ[v, a]
            for b in range(count[v]):
                if flow[b] > 0.0:
                    total += (flow[b] + for_q * change[b]) * (slack[b] + for_p * other[b])
                    terms += 1
        if answers[v] > 1:
            for i in range(answers[v]):
                total += (u[v, i] + for_q * du[v, i]) * (p[v, i] + for_p * dp[v, i])
                terms += 1
    return total, terms


@kernel
def tree_game(
    start: int,
    stop: int,
    items: IntArray,
    theta: Array,
    starts: IntArray,
    which: IntArray,
    node_off: IntArray,
    edge_off: IntArray,
    all_order: IntArray,
    all_up: IntArray,
    all_up_edge: IntArray,
    all_flip: Array,
    tied: bool,
    k: int,
    costs: Array,
    weights: Array,
    label_starts: IntArray,
    known: Array,
    tol: float,
    max_iter: int,
    mu: Array,
    predictor: Array,
    value: Array,
    risk: Array,
    gap: Array,
    n_iter: IntArray,
    status: IntArray,
) -> None:
    """Both players' strategies: mu (in the layout of theta) and predictor (a row for each node).

    For items that are ``known`` these hold an earlier solution: where that is good enough still it stays, else its p is
    where the search for what matters starts, unless its gap is so large that it would mislead. n_iter counts Newton steps,
    added to what it holds. The items from start to stop are those of the list ``items``.
    """
    most = 1
    for i in items[start:stop]:
        most = max(most, node_off[which[i] + 1] - node_off[which[i]])
    below, ahead, slack, added = np.empty((most, k)), np.empty((most, k)), np.empty((most, k)), np.empty((most, k))
    psi, Q, Z = np.empty((most, k, k)), np.empty((most, k, k)), np.empty((most, k, k))
    eQ, eZ, ep, eu = np.zeros((most, k, k)), np.zeros((most, k, k)), np.zeros((most, k)), np.zeros((most, k))
    short, off = np.empty((most, k)), np.zeros((most, k))
    dQ, dZ, W = np.zeros((most, k, k)), np.zeros((most, k, k)), np.empty((most, k, k))
    X, B, L, G = np.empty((most, k, k)), np.empty((most, k, k)), np.empty((most, k, k)), np.empty((most, k, k))
    D, P = np.empty((most, k, k)), np.empty((k, k))
    base, rest, mass, g = np.empty(most, np.int64), np.empty((most, k), np.int64), np.empty(most), np.empty((most, k))
    CC, N = np.empty((most, k, k)), np.empty((k, k))
    p, u, dp, du, y = (
        np.empty((most, k)),
        np.empty((most, k)),
        np.zeros((most, k)),
        np.zeros((most, k)),
        np.empty((most, k)),
    )
    q, dq, f, turn, dc = (
        np.empty((most, k)),
        np.empty((most, k)),
        np.empty((most, k)),
        np.empty((most, k)),
        np.empty((most, k)),
    )
    kept_p, kept_nodes, kept_tables = np.empty((most, k)), np.empty((most, k)), np.empty((most, k, k))
    high = np.empty(k)
    count, answers = np.empty(most, np.int64), np.empty(most, np.int64)
    label, answer = np.empty((most, k), np.int64), np.empty((most, k), np.int64)
    dearest = 0.0
    for a in range(k):
        for b in range(k):
            dearest = max(dearest, costs[a, b])
    for i in items[start:stop]:
        warm = known[i]
        lo = node_off[which[i]]
        n, edges = node_off[which[i] + 1] - lo, edge_off[which[i] + 1] - edge_off[which[i]]
        order, up, up_edge, flip = (
            all_order[lo : lo + n],
            all_up[lo : lo + n],
            all_up_edge[lo : lo + n],
            all_flip[lo : lo + n],
        )
        n_tables = 1 if tied else edges
        first = starts[i] + n * k
        nodes = theta[starts[i] : first].reshape((n, k))
        tables = theta[first : first + n_tables * k * k].reshape((n_tables, k, k))
        mu_nodes = mu[starts[i] : first].reshape((n, k))
        mu_tables = mu[first : first + n_tables * k * k].reshape((n_tables, k, k))
        mine = predictor[label_starts[i] : label_starts[i] + n]
        weight = weights[label_starts[i] : label_starts[i] + n]
        status[i], gap[i], value[i], risk[i] = SOLVED, 0.0, 0.0, 0.0
        largest, scale = 0.0, 0.0
        for v in range(n):
            largest = max(largest, weight[v] * dearest)
            for b in range(k):
                x = abs(nodes[v, b])
                scale = x if (x > scale and x < np.inf) else scale
        for e in range(n_tables):
            for a in range(k):
                for b in range(k):
                    x = abs(tables[e, a, b])
                    scale = x if (x > scale and x < np.inf) else scale
        enough = tol + 4e-16 * scale * n + 5e-9 * largest * n  # digits lost to rounding
        for v in range(n):
            for b in range(k):
                added[v, b] = 0.0
            if warm:
                for a in range(k):
                    x = weight[v] * mine[v, a]
                    if x > 0.0:
                        for b in range(k):
                            added[v, b] += x * costs[a, b]
        best = _slacks(nodes, tables, order, up, up_edge, flip, tied, added, below, ahead, slack)
        if not best > -np.inf:
            status[i] = IMPOSSIBLE
            continue
        if warm:
            worth, part = _worth(nodes, tables, tied, costs, weight, mu_nodes, mu_tables)
            if best - worth <= enough:
                value[i], risk[i], gap[i] = worth, part, max(best - worth, 0.0)
                continue
        # labellings of the solution are on average as near the best one as the gap, so few are much farther; of many nodes
        # each adds a part of the gap only
        window = largest + enough
        resumed = warm and best - worth < 0.5 * n * largest
        if resumed:
            window = min(window, max(min(3.0, 12.0 / n) * (best - worth), 0.05 * largest))
        elif warm:  # scores have moved so far that the earlier p is no help
            for v in range(n):
                for b in range(k):
                    added[v, b] = 0.0
            best = _slacks(nodes, tables, order, up, up_edge, flip, tied, added, below, ahead, slack)
        gap[i] = np.inf
        least_gap, kept_value, kept_risk, failures = np.inf, 0.0, 0.0, 0
        for attempt in range(40):
            # labels and pairs on labellings within the window; whatever is on such a labelling is kept together
            several = False
            warmth = 0.3 * window
            away = min(0.2, warmth / max(largest, 1e-300))
            for v in range(n):
                count[v] = 0
                for b in range(k):
                    if slack[v, b] <= window:
                        label[v, count[v]] = b
                        count[v] += 1
                several = several or count[v] > 1
            for v in range(n):
                w, m = up[v], count[v]
                c = count[w] if w >= 0 else 1
                for a in range(c):
                    for b in range(m):
                        j = label[v, b]
                        x = below[v, j]
                        behind = 0.0
                        if w >= 0:
                            h = label[w, a]
                            table = tables[0 if tied else up_edge[v]]
                            x += (table[j, h] if flip[v] else table[h, j]) - ahead[v, h]
                            behind = slack[w, h]
                        psi[v, a, b] = min(x, 0.0) if behind - x <= window * (1.0 + 1e-12) + 1e-13 * scale else -np.inf
                # answers that no other is better than at every label
                answers[v] = 0
                for a in range(k):
                    beaten = False
                    for h in range(k):
                        if h != a:
                            better, equal = True, True
                            for b in range(m):
                                mine_cost, other = weight[v] * costs[a, label[v, b]], weight[v] * costs[h, label[v, b]]
                                better = better and other <= mine_cost
                                equal = equal and other == mine_cost
                            beaten = beaten or (better and (not equal or h < a))
                    if not beaten:
                        s = answers[v]
                        answer[v, s] = a
                        for b in range(m):
                            CC[v, s, b] = weight[v] * costs[a, label[v, b]]
                        answers[v] += 1
                # a start for p: the one at hand, away from the border
                s = answers[v]
                total = 0.0
                for j in range(s):
                    x = 1.0 / s
                    if resumed or attempt > 0:
                        x = mine[v, answer[v, j]] + away * (x - mine[v, answer[v, j]])
                    p[v, j] = x
                    total += x
                for j in range(s):
                    p[v, j] /= total
            if not several:
                for v in range(n):
                    q[v, 0] = 1.0
                    Q[v, 0, 0] = 1.0
            else:
                # the start for q: a Gibbs distribution, whose messages also are the dual start
                for v in range(n):
                    for b in range(count[v]):
                        x = -added[v, label[v, b]]
                        for s in range(answers[v]):
                            x += p[v, s] * CC[v, s, b]
                        f[v, b] = x
                for t in range(n):
                    v = order[t]
                    w, m = up[v], count[v]
                    c = count[w] if w >= 0 else 1
                    for a in range(c):
                        top = -np.inf
                        for b in range(m):
                            top = max(top, psi[v, a, b] + f[v, b])
                        total = 0.0
                        for b in range(m):
                            x = psi[v, a, b] + f[v, b] - top
                            x = np.exp(x / warmth) if x > -200.0 * warmth else (np.exp(-200.0) if x > -np.inf else 0.0)
                            Q[v, a, b] = x
                            total += x
                        for b in range(m):
                            x = Q[v, a, b] / total
                            Q[v, a, b] = x
                            Z[v, a, b] = warmth * (1.0 - np.log(x)) if x > 0.0 else 1.0
                        if w >= 0:
                            f[w, a] += top + warmth * np.log(total)
                for t in range(n - 1, -1, -1):
                    v = order[t]
                    w, m = up[v], count[v]
                    c = count[w] if w >= 0 else 1
                    for b in range(m):
                        q[v, b] = 0.0
                    for a in range(c):
                        for b in range(m):
                            if w >= 0:
                                Q[v, a, b] *= q[w, a]
                            q[v, b] += Q[v, a, b]
                    if answers[v] > 1:
                        least = np.inf
                        for s in range(answers[v]):
                            x = 0.0
                            for b in range(m):
                                x += CC[v, s, b] * q[v, b]
                            u[v, s] = x
                            least = min(least, x)
                        for s in range(answers[v]):
                            u[v, s] += warmth - least
                for _step in range(60):
                    total, terms = _products(order, up, count, answers, Q, Z, p, u, dQ, dZ, dp, du, 0.0, 0.0)
                    if total <= 0.3 * enough or not total < np.inf or n_iter[i] >= max_iter:
                        break
                    if not _factor(
                        order, up, count, answers, Q, Z, p, u, q, CC, W, X, D, B, L, G, P, N, y, dc, base, rest
                    ):
                        break
                    for v in range(n):
                        for a in range(count[up[v]] if up[v] >= 0 else 1):
                            x = q[up[v], a] if up[v] >= 0 else 1.0
                            for b in range(count[v]):
                                x -= Q[v, a, b]
                            short[v, a] = x
                    _direction(order, up, count, answers, Q, Z, p, u, CC, W, X, D, B, L, y, dc, base, rest, short, off,
                               0.0, _FIRST, dQ, dZ, dp, du, dq, f, g, turn, mass, high)  # fmt: skip
                    for_q, for_p = _longest(order, up, count, answers, Q, Z, p, u, dQ, dZ, dp, du)
                    left, _ = _products(order, up, count, answers, Q, Z, p, u, dQ, dZ, dp, du, min(1.0, for_q),
                                        min(1.0, for_p))  # fmt: skip
                    ratio = max(left, 0.0) / total
                    # products stay near each other and do not go below what is asked, else digits are lost
                    aim = max(max(ratio * ratio * ratio, 1e-3) * total, 0.1 * enough) / terms
                    _direction(order, up, count, answers, Q, Z, p, u, CC, W, X, D, B, L, y, dc, base, rest, short, off,
                               aim, _SECOND, dQ, dZ, dp, du, dq, f, g, turn, mass, high)  # fmt: skip
                    # systems far from singular to rounding only are solved once more, for what is left
                    left = _short(order, up, count, answers, CC, Q, dQ, du, q, dq, short, off)
                    for _ in range(3):
                        if left <= 1e-2 * enough / (n * max(largest, 1.0)):
                            break
                        before = left
                        _direction(order, up, count, answers, Q, Z, p, u, CC, W, X, D, B, L, y, dc, base, rest, short, off,
                                   0.0, _REPAIR, eQ, eZ, ep, eu, dq, f, g, turn, mass, high)  # fmt: skip
                        _add(up, count, answers, Q, dQ, dZ, dp, du, eQ, eZ, ep, eu, 1.0)
                        left = _short(order, up, count, answers, CC, Q, dQ, du, q, dq, short, off)
                        if left > before:  # that is all the digits there are
                            _add(up, count, answers, Q, dQ, dZ, dp, du, eQ, eZ, ep, eu, -1.0)
                            left = before
                            break
                    if left * max(largest, 1.0) > 0.3 * total:  # rounding would do more harm than the step good
                        break
                    for_q, for_p = _longest(order, up, count, answers, Q, Z, p, u, dQ, dZ, dp, du)
                    keep = max(0.95, min(0.999, 1.0 - total / terms))
                    for_q, for_p = min(1.0, keep * for_q), min(1.0, keep * for_p)
                    if not (for_q > 1e-8 or for_p > 1e-8):
                        break
                    n_iter[i] += 1
                    for v in range(n):
                        c = count[up[v]] if up[v] >= 0 else 1
                        for b in range(count[v]):
                            q[v, b] = 0.0
                        for a in range(c):
                            for b in range(count[v]):
                                if Q[v, a, b] > 0.0:
                                    Q[v, a, b] += for_q * dQ[v, a, b]
                                    Z[v, a, b] += for_p * dZ[v, a, b]
                                    q[v, b] += Q[v, a, b]
                        if answers[v] > 1:
                            for s in range(answers[v]):
                                u[v, s] += for_q * du[v, s]
                                p[v, s] += for_p * dp[v, s]
            # both strategies, feasible to rounding, and what they are worth
            for v in range(n):
                total = 0.0
                for s in range(answers[v]):
                    total += p[v, s]
                for a in range(k):
                    mine[v, a] = 0.0
                for s in range(answers[v]):
                    mine[v, answer[v, s]] = p[v, s] / total
            for v in range(n):
                for b in range(k):
                    mu_nodes[v, b] = 0.0
            mu_tables[:] = 0.0
            for t in range(n - 1, -1, -1):
                v = order[t]
                w, m = up[v], count[v]
                c = count[w] if w >= 0 else 1
                for a in range(c):
                    total = 0.0
                    for b in range(m):
                        total += Q[v, a, b]
                    share = 1.0 if w < 0 else mu_nodes[w, label[w, a]]
                    share = share / total if total > 0.0 else 0.0
                    for b in range(m):
                        x = Q[v, a, b] * share
                        j = label[v, b]
                        mu_nodes[v, j] += x
                        if w >= 0:
                            h = label[w, a]
                            if flip[v]:
                                mu_tables[up_edge[v], j, h] += x
                            else:
                                mu_tables[0 if tied else up_edge[v], h, j] += x
            value[i], risk[i] = _worth(nodes, tables, tied, costs, weight, mu_nodes, mu_tables)
            for v in range(n):
                for b in range(k):
                    x = 0.0
                    for a in range(k):
                        x += mine[v, a] * costs[a, b]
                    added[v, b] = weight[v] * x
            best = _slacks(nodes, tables, order, up, up_edge, flip, tied, added, below, ahead, slack)
            gap[i] = max(best - value[i], 0.0)
            if gap[i] < least_gap:
                failures = 0 if gap[i] < 0.5 * least_gap else failures + 1
                least_gap = gap[i]
                kept_value, kept_risk = value[i], risk[i]
                for v in range(n):
                    for b in range(k):
                        kept_p[v, b], kept_nodes[v, b] = mine[v, b], mu_nodes[v, b]
                for e in range(n_tables):
                    for a in range(k):
                        for b in range(k):
                            kept_tables[e, a, b] = mu_tables[e, a, b]
            else:
                failures += 1
            if gap[i] <= enough or n_iter[i] >= max_iter or failures > 4:
                break
            # what is missing lies on labellings worth more than the value: those near the best by as much come in
            window = max(min(3.0, 9.0 / np.sqrt(n)) * gap[i], 0.3 * window if attempt < 3 else 3.0 * window)
        if not gap[i] <= enough:
            status[i] = UNFINISHED
            gap[i], value[i], risk[i] = least_gap, kept_value, kept_risk
            mine[:], mu_nodes[:], mu_tables[:] = kept_p[:n], kept_nodes[:n], kept_tables[:n_tables]


@inline_kernel
def _worth(nodes, tables, tied, costs, weight, mu_nodes, mu_tables):  # type: ignore[no-untyped-def]
    """What q guarantees, and the part of it that is expected cost."""
    n, k = nodes.shape
    scores, part = 0.0, 0.0
    for v in range(n):
        least = np.inf
        for a in range(k):
            x = 0.0
            for b in range(k):
                x += costs[a, b] * mu_nodes[v, b]
            least = min(least, x)
        part += weight[v] * least
        for b in range(k):
            x = mu_nodes[v, b]
            scores += x * nodes[v, b] if x > 0.0 else 0.0
    for e in range(tables.shape[0]):
        for a in range(k):
            for b in range(k):
                x = mu_tables[e, a, b]
                scores += x * tables[e, a, b] if x > 0.0 else 0.0
    return scores + part, part


@kernel
def expected_costs(
    start: int,
    stop: int,
    mu: Array,
    starts: IntArray,
    label_starts: IntArray,
    costs: Array,
    weights: Array,
    risk: Array,
) -> None:
    """What the best answers to points of the marginal polytope cost: sum_v w_v min_a (C q_v)_a of each item."""
    k = costs.shape[0]
    expected = np.empty(k)
    for i in range(start, stop):
        n = label_starts[i + 1] - label_starts[i]
        nodes = mu[starts[i] : starts[i] + n * k].reshape((n, k))
        total = 0.0
        for v in range(n):
            for a in range(k):
                expected[a] = 0.0
            for b in range(k):
                x = nodes[v, b]
                if x != 0.0:
                    for a in range(k):
                        expected[a] += costs[a, b] * x
            least = np.inf
            for a in range(k):
                least = min(least, expected[a])
            total += weights[label_starts[i] + v] * least
        risk[i] = total


@kernel
def losses(
    start: int, stop: int, theta: Array, mu: Array, v: Array, ends: IntArray, gain: Array, residual: Array, value: Array
) -> None:
    """mu - v and gain + <theta, mu - v> for each item; gain is what the adversary's risk exceeds that of the truth by."""
    for i in range(start, stop):
        here, other, scores, out = (
            mu[ends[i] : ends[i + 1]], v[ends[i] : ends[i + 1]], theta[ends[i] : ends[i + 1]], residual[ends[i] : ends[i + 1]]
        )  # fmt: skip
        total = gain[i]
        for t in range(here.shape[0]):
            x = here[t] - other[t]
            out[t] = x
            total += scores[t] * x if x != 0.0 else 0.0
        value[i] = max(total, 0.0)


@kernel
def write_state(
    start: int,
    stop: int,
    mu: Array,
    predictor: Array,
    ends: IntArray,
    label_ends: IntArray,
    state: Array,
    offsets: IntArray,
) -> None:
    """q and p of each item, one after the other."""
    for i in range(start, stop):
        size = ends[i + 1] - ends[i]
        out = state[offsets[i] : offsets[i + 1]]
        out[:size] = mu[ends[i] : ends[i + 1]]
        out[size:] = predictor[label_ends[i] : label_ends[i + 1]]


@kernel
def take_state(
    start: int,
    stop: int,
    mu: Array,
    predictor: Array,
    ends: IntArray,
    label_ends: IntArray,
    state: Array,
    offsets: IntArray,
) -> None:
    """The way back from :func:`write_state`."""
    for i in range(start, stop):
        size = ends[i + 1] - ends[i]
        kept = state[offsets[i] : offsets[i + 1]]
        mu[ends[i] : ends[i + 1]] = kept[:size]
        predictor[label_ends[i] : label_ends[i + 1]] = kept[size:]
