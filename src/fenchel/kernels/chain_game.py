"""The game of a cost that adds up over the nodes of chains, eight chains abreast in the lanes of a vector.

The same interior-point method as in :mod:`.tree_game`, for labels and pairs on labellings near the best one, which says what is
solved and how; here for chains of like length, so that one instruction serves eight of them, and without the repairs that
the last digits need. What is not solved to the tolerance here is left to :mod:`.tree_game`, which begins where this ended.

Node v stands below node v - 1; node 0 is the root. Numbers of eight chains are side by side; a chain shorter than the longest
of its eight has no labels at the nodes beyond its end. The first of a node's labels is its base, a likely one: Newton
systems are over the others, since changes of q add up to nothing.
"""

from __future__ import annotations

import numpy as np

from .._core.compile import inline_kernel, kernel
from .._core.lanes import LANES, exp, load, log, low, pick, splat, store, top
from .._core.types import Array, IntArray
from .chain import SOLVED, UNFINISHED

__all__ = ["LANES", "chain_game"]

_NEVER = 1e30


@inline_kernel
def _room(n):  # type: ignore[no-untyped-def]
    """Space for n times eight numbers, beginning where a line of the cache does."""
    space = np.zeros(LANES * n + LANES)
    shift = ((64 - space.ctypes.data % 64) % 64) // 8
    return space[shift : shift + LANES * n]


@inline_kernel
def _sweep(n, k, tied, S, T, added, below, ahead, slack, lens):  # type: ignore[no-untyped-def]
    """How far the best labelling with each label lies below the best of all, at scores plus ``added``; and that score."""
    zero = splat(0.0)
    best = zero
    for v in range(n - 1, -1, -1):
        here = splat(float(v))
        high = splat(-_NEVER)
        for b in range(k):
            x = load(S, v * k + b) + load(added, v * k + b)
            if v < n - 1:
                x = x + load(ahead, (v + 1) * k + b)
            store(below, v * k + b, x)
            high = top(high, x)
        high = pick(here, lens, high, zero)
        best = best + high
        for b in range(k):
            store(below, v * k + b, load(below, v * k + b) - high)
        if v > 0:
            table = 0 if tied else (v - 1) * k * k
            for a in range(k):
                high = splat(-_NEVER)
                for b in range(k):
                    high = top(high, load(T, table + a * k + b) + load(below, v * k + b))
                store(ahead, v * k + a, pick(here, lens, high, zero))
    for b in range(k):
        store(slack, b, zero - load(below, b))
    for v in range(1, n):
        table = 0 if tied else (v - 1) * k * k
        for b in range(k):
            least = splat(_NEVER)
            for a in range(k):
                least = low(least, load(slack, (v - 1) * k + a) + load(ahead, v * k + a) - load(T, table + a * k + b))
            store(slack, v * k + b, least - load(below, v * k + b))
    return best


@inline_kernel
def _decompose(A, at, m, D, d_at):  # type: ignore[no-untyped-def]
    """A = L diag(1 / D) L' in place of the lower half of an m x m matrix; a pivot lost to rounding frees nothing any more."""
    for i in range(m):
        row = at + i * m
        for j in range(i):
            x = load(A, row + j)
            for s in range(j):
                x = x - load(A, row + s) * load(A, at + j * m + s)
            store(A, row + j, x)
        x = load(A, row + i)
        least = x * 1e-13
        for j in range(i):
            t = load(A, row + j)
            y = t * load(D, d_at + j)
            store(A, row + j, y)
            x = x - t * y
        store(D, d_at + i, pick(least, x, 1.0 / x, splat(0.0)))


@inline_kernel
def _forward(A, at, m, x, x_at):  # type: ignore[no-untyped-def]
    for i in range(m):
        y = load(x, x_at + i)
        for s in range(i):
            y = y - load(A, at + i * m + s) * load(x, x_at + s)
        store(x, x_at + i, y)


@inline_kernel
def _backward(A, at, m, D, d_at, x, x_at):  # type: ignore[no-untyped-def]
    """What is left after :func:`_forward`."""
    for i in range(m - 1, -1, -1):
        y = load(x, x_at + i) * load(D, d_at + i)
        for s in range(i + 1, m):
            y = y - load(A, at + s * m + i) * load(x, x_at + s)
        store(x, x_at + i, y)


@inline_kernel
def _factor(n, k, cnt, off, plain, Q, Z, iQ, iZ, W, B, BD, G, P, idc, p, u, y, iY, D, w2, val, rv, seen, X, E, F, H):  # type: ignore[no-untyped-def]
    """Eliminate the Newton system from the last node to the first."""
    zero, one = splat(0.0), splat(1.0)
    kk = k * k
    for v in range(n - 1, -1, -1):
        m = cnt[v]
        c = cnt[v - 1] if v > 0 else 1
        o, r = off[v], m - 1
        for b in range(m):
            total = zero
            for a in range(c):
                at = o + a * m + b
                q, z = load(Q, at), load(Z, at)
                store(iQ, at, pick(zero, q, 1.0 / q, zero))
                x = pick(zero, q, 1.0 / z, zero)
                store(iZ, at, x)
                x = x * q
                store(W, at, x)
                total = total + x
            store(idc, v * k + b, pick(zero, total, 1.0 / total, zero))
        # what the answers make of changes of q
        Y = zero
        for s in range(m if plain else k):
            x = load(p, v * k + s)
            x = x * load(seen, v * k + s) / load(u, v * k + s)
            store(y, v * k + s, x)
            Y = Y + x
        Y = pick(zero, Y, 1.0 / Y, zero)
        store(iY, v, Y)
        g = v * kk
        weight = load(w2, v)
        if plain:
            first = load(y, v * k)
            squared = weight * weight
            for j in range(r):
                mean = (first - load(y, v * k + j + 1)) * Y
                for h in range(j + 1):
                    x = first - mean * (first - load(y, v * k + h + 1))
                    if j == h:
                        x = x + load(y, v * k + j + 1)
                    x = x * squared
                    if v < n - 1:
                        x = x + load(G, g + j * r + h)
                    store(G, g + j * r + h, x)
        else:
            for j in range(r):
                mean = zero
                for s in range(k):
                    mean = mean + load(y, v * k + s) * load(D, g + s * k + j)
                mean = mean * Y
                for h in range(j + 1):
                    x = zero
                    for s in range(k):
                        x = x + load(y, v * k + s) * (load(D, g + s * k + j) - mean) * load(D, g + s * k + h)
                    if v < n - 1:
                        x = x + load(G, g + j * r + h)
                    store(G, g + j * r + h, x)
        base = load(idc, v * k)
        for j in range(r):
            here = load(val, v * k + j + 1)
            for h in range(j + 1):
                x = (load(G, g + j * r + h) + base) * here * load(val, v * k + h + 1)
                if j == h:
                    x = x + load(idc, v * k + j + 1) + (one - here)
                store(B, g + j * r + h, x)
        _decompose(B, g, r, BD, v * k)
        if v == 0:
            continue
        # the Laplacian of the pairs, and what q can make up for
        for a in range(c):
            for b in range(m):
                store(X, a * m + b, load(W, o + a * m + b) * load(idc, v * k + b))
        above = (v - 1) * kk
        e = c - 1
        for a in range(c):
            store(H, a, zero)
        for a in range(c):
            own = zero
            for h in range(a):
                x = zero
                for b in range(m):
                    x = x + load(X, a * m + b) * load(W, o + h * m + b)
                own = own + x
                store(H, h, load(H, h) + x)
                if h > 0:
                    store(P, g + (a - 1) * e + h - 1, zero - x)
            store(H, a, load(H, a) + own)
        for i in range(e):
            row = zero
            for b in range(m):
                row = row + load(W, o + (i + 1) * m + b)
            row = pick(zero, row, one, zero)
            store(rv, v * k + i, row)
            base = load(X, (i + 1) * m)
            for j in range(r):
                store(E, i * r + j, (load(X, (i + 1) * m + j + 1) - base) * load(val, v * k + j + 1))
            _forward(B, g, r, E, i * r)
            for j in range(r):
                store(F, i * r + j, load(E, i * r + j) * load(BD, v * k + j))
            for h in range(i + 1):
                t = load(H, i + 1) + (one - row)
                if h < i:
                    t = load(P, g + i * e + h)
                for j in range(r):
                    t = t + load(F, i * r + j) * load(E, h * r + j)
                store(P, g + i * e + h, t)
        # its inverse: by the same decomposition, column by column
        _decompose(P, g, e, X, 0)
        for h in range(e):
            for i in range(e):
                store(E, h * e + i, one if i == h else zero)
            for i in range(h + 1, e):
                t = zero
                for s in range(h, i):
                    t = t - load(P, g + i * e + s) * load(E, h * e + s)
                store(E, h * e + i, t)
            _backward(P, g, e, X, 0, E, h * e)
        for h in range(e):
            for i in range(h + 1):
                x = load(E, h * e + i) * load(rv, v * k + i) * load(rv, v * k + h)
                store(P, g + i * e + h, x)
                store(P, g + h * e + i, x)
                store(G, above + h * e + i, x)


@inline_kernel
def _direction(n, k, cnt, off, plain, aim, second, Q, Z, iQ, iZ, W, B, BD, P, idc, p, u, y, iY, D, C0, CC, w2, val, rv, seen,
               dQ, dZ, dp, du, dq, f, g, turn, X, H):  # type: ignore[no-untyped-def]  # fmt: skip
    """The Newton direction towards products of ``aim``; how far each player can follow it, and sums that say what is left.

    With ``second`` the products of the direction before are taken off. Returned are the largest shares of q and of p that a
    full step takes away, and the sums of dQ Z, Q dZ and dQ dZ.
    """
    zero = splat(0.0)
    kk = k * k
    for v in range(n - 1, -1, -1):
        m = cnt[v]
        c = cnt[v - 1] if v > 0 else 1
        o, r, s_n = off[v], m - 1, m if plain else k
        if v == n - 1:
            for j in range(r):
                store(f, v * k + j, zero)
        total = zero
        for s in range(s_n):
            at = v * k + s
            x = aim - load(p, at) * load(u, at)
            if second:
                x = x - load(dp, at) * load(du, at)
            x = x * load(seen, at) / load(u, at)
            store(dp, at, x)
            total = total + x
        mean = total * load(iY, v)
        if plain:
            weight = load(w2, v)
            first = load(dp, v * k) - load(y, v * k) * mean
            for j in range(r):
                at = v * k + j + 1
                x = first - (load(dp, at) - load(y, at) * mean)
                store(f, v * k + j, load(f, v * k + j) + weight * x * load(val, at))
        else:
            for s in range(k):
                x = load(dp, v * k + s) - load(y, v * k + s) * mean
                for j in range(r):
                    store(f, v * k + j, load(f, v * k + j) + load(D, v * kk + s * k + j) * x)
        for b in range(m):
            store(g, v * k + b, zero)
        for a in range(c):
            x = zero
            for b in range(m):
                at = o + a * m + b
                t = aim - load(Q, at) * load(Z, at)
                if second:
                    t = t - load(dQ, at) * load(dZ, at)
                t = t * load(iZ, at)
                store(dQ, at, t)
                x = x + t
                store(g, v * k + b, load(g, v * k + b) + t)
            store(H, a, x)
        base = load(g, v * k) * load(idc, v * k)
        for j in range(r):
            x = load(g, v * k + j + 1) * load(idc, v * k + j + 1) - base + load(f, v * k + j)
            x = x * load(val, v * k + j + 1)
            store(dq, v * k + j, x)
            store(X, j, x)
        if v == 0:
            continue
        _forward(B, v * kk, r, X, 0)
        _backward(B, v * kk, r, BD, v * k, X, 0)
        base = zero
        for j in range(r):
            x = load(X, j) * load(val, v * k + j + 1)
            base = base - x
            store(g, v * k + j + 1, (x - load(g, v * k + j + 1)) * load(idc, v * k + j + 1))
        store(g, v * k, (base - load(g, v * k)) * load(idc, v * k))
        e = c - 1
        for i in range(e):
            x = load(H, i + 1)
            for b in range(m):
                x = x + load(W, o + (i + 1) * m + b) * load(g, v * k + b)
            store(turn, v * k + i, x)
        for i in range(e):
            x = zero
            for h in range(e):
                x = x + load(P, v * kk + i * e + h) * load(turn, v * k + h)
            store(f, (v - 1) * k + i, x)
    for v in range(n):
        m = cnt[v]
        c = cnt[v - 1] if v > 0 else 1
        o, r, s_n, e = off[v], m - 1, m if plain else k, c - 1
        if e > 0:
            for i in range(e):
                store(H, i, load(turn, v * k + i) - load(dq, (v - 1) * k + i))
            for b in range(m):
                store(g, v * k + b, zero)
            for i in range(e):
                x = zero
                for h in range(e):
                    x = x + load(P, v * kk + i * e + h) * load(H, h)
                store(turn, v * k + i, x)
                for b in range(m):
                    store(g, v * k + b, load(g, v * k + b) + load(W, o + (i + 1) * m + b) * x)
            base = load(g, v * k) * load(idc, v * k)
            for j in range(r):
                x = load(g, v * k + j + 1) * load(idc, v * k + j + 1) - base
                store(dq, v * k + j, load(dq, v * k + j) - x * load(val, v * k + j + 1))
        _forward(B, v * kk, r, dq, v * k)
        _backward(B, v * kk, r, BD, v * k, dq, v * k)
        total = zero
        if plain:
            weight = load(w2, v)
            x = zero
            for j in range(r):
                x = x + load(dq, v * k + j)
            store(du, v * k, weight * x)
            for j in range(r):
                store(du, v * k + j + 1, zero - weight * load(dq, v * k + j))
            for s in range(m):
                total = total + load(y, v * k + s) * load(du, v * k + s) - load(dp, v * k + s)
        else:
            for s in range(k):
                x = zero
                for j in range(r):
                    x = x + load(D, v * kk + s * k + j) * load(dq, v * k + j)
                store(du, v * k + s, x)
                total = total + load(y, v * k + s) * x - load(dp, v * k + s)
        move = total * load(iY, v)
        total = zero
        for s in range(s_n):
            at = v * k + s
            x = (load(du, at) - move) * load(seen, at)
            store(du, at, x)
            x = load(dp, at) - load(y, at) * x
            store(dp, at, x)
            total = total + x
        total = total * load(iY, v)
        for s in range(s_n):  # p goes on summing to one
            at = v * k + s
            store(dp, at, load(dp, at) - total * load(y, at))
        if plain:
            weight = load(w2, v)
            for b in range(m):
                store(g, v * k + b, zero - weight * load(dp, v * k + b))
        else:
            for b in range(m):
                x = zero
                for s in range(k):
                    x = x + load(CC, v * kk + s * k + b) * load(dp, v * k + s)
                store(g, v * k + b, x)
    lose_q, lose_p, first, other, both = zero, zero, zero, zero, zero
    for v in range(n - 1, -1, -1):
        m = cnt[v]
        c = cnt[v - 1] if v > 0 else 1
        o, s_n = off[v], m if plain else k
        # the constant of the message is the one with which flows add up to what comes in
        total, sums = zero, zero
        for a in range(c):
            y_a = load(turn, v * k + a - 1) if a > 0 else zero
            for b in range(m):
                at = o + a * m + b
                x = load(W, at)
                total = total + load(dQ, at) - x * (y_a - load(g, v * k + b))
                sums = sums + x
        total = pick(zero, sums, total / sums, zero)
        for a in range(c):
            y_a = total
            if a > 0:
                y_a = y_a + load(turn, v * k + a - 1)
            if v > 0:
                store(g, (v - 1) * k + a, load(g, (v - 1) * k + a) + y_a)
            for b in range(m):
                at = o + a * m + b
                z = y_a - load(g, v * k + b)
                q = load(dQ, at) - load(W, at) * z
                store(dZ, at, z)
                store(dQ, at, q)
                lose_q = top(lose_q, zero - q * load(iQ, at))
                lose_p = top(lose_p, zero - z * load(iZ, at))
                mine, slack = load(Q, at), load(Z, at)
                first = first + q * slack
                other = other + mine * z
                both = both + q * pick(zero, mine, z, zero)
        for s in range(s_n):
            at = v * k + s
            here = load(seen, at)
            a_p, a_u, c_p, c_u = load(p, at), load(u, at), load(dp, at), load(du, at)
            lose_q = top(lose_q, zero - here * c_u / a_u)
            lose_p = top(lose_p, pick(zero, a_p, zero - here * c_p / a_p, zero))
            first = first + c_u * a_p * here
            other = other + a_u * c_p * here
            both = both + c_u * c_p * here
    return lose_q, lose_p, first, other, both


@inline_kernel
def _settle(v, k, m, n, heat, cold, w2, f, p, y, g, dq, val, X):  # type: ignore[no-untyped-def]
    """The p of a node that is best given those of all others, when all mistakes cost the same: it fills up to one level."""
    zero, one = splat(0.0), splat(1.0)
    weight = load(w2, v)
    peak = splat(-_NEVER)
    for b in range(m):
        at = v * k + b
        x = load(dq, at)
        if v < n - 1:
            x = x * load(g, at + k)
        # what the label's best labellings are worth without p
        x = heat * log(top(x, splat(1e-300))) + load(f, at) + weight * load(p, at)
        x = pick(zero, load(val, at), x, splat(-_NEVER))
        store(X, b, x)
        peak = top(peak, x)
    level = peak - weight
    for _ in range(5):
        total, number = zero, zero
        for b in range(m):
            x = load(X, b)
            total = total + pick(level, x, x, zero)
            number = number + pick(level, x, one, zero)
        level = top(level, pick(zero, number, (total - weight) / number, level))
    each = pick(zero, weight, 1.0 / weight, zero)
    for b in range(m):
        at = v * k + b
        before = load(p, at)
        after = top(load(X, b) - level, zero) * each
        after = pick(zero, weight, after, before)
        change = load(f, at) - weight * (after - before)
        store(p, at, after)
        store(f, at, change)
        store(y, at, exp(change * cold) * load(val, at))


@inline_kernel
def _fill(n, k, cnt, off, plain, turns, heat, least, lens, psi, W, w2, f, p, y, g, dq, val, seen, turn, X):  # type: ignore[no-untyped-def]
    """Coordinate steps for p at a temperature: each node's in its turn, from the root to the end and back.

    W are the exponentials of pairs, y those of nodes, g the messages to each node's parent (last not least at the p that comes
    out, which is kept ``least`` away from zero), dq those to its children.
    """
    zero, one = splat(0.0), splat(1.0)
    cold = 1.0 / heat
    for t in range(off[n]):
        x = load(psi, t)
        store(W, t, pick(splat(-0.5 * _NEVER), x, exp(x * cold), zero))
    for v in range(n):
        for b in range(cnt[v]):
            at = v * k + b
            store(y, at, exp(load(f, at) * cold) * load(val, at))
    for visit in range(turns + 1):
        last = visit == turns
        for v in range(n - 1, -1, -1):
            m = cnt[v]
            c = cnt[v - 1] if v > 0 else 1
            if last:
                total = zero
                for b in range(k):
                    total = total + top(load(p, v * k + b), least) * load(seen, v * k + b)
                total = pick(zero, total, 1.0 / total, one)
                weight = load(w2, v)
                for b in range(k):
                    at = v * k + b
                    x = load(p, at)
                    moved = pick(zero, load(seen, at), top(x, least) * total, x)
                    store(p, at, moved)
                    if plain and b < m:
                        x = load(f, at) - weight * (moved - x)
                        store(f, at, x)
                        store(y, at, exp(x * cold) * load(val, at))
            elif visit > 0 and plain:
                _settle(v, k, m, n, heat, cold, w2, f, p, y, g, dq, val, X)
            total = zero
            for a in range(c):
                x = zero
                for b in range(m):
                    at = v * k + b
                    t = load(W, off[v] + a * m + b) * load(y, at)
                    if v < n - 1:
                        t = t * load(g, at + k)
                    x = x + t
                store(turn, a, x)
                total = total + x
            total = pick(zero, total, 1.0 / total, one)
            if v > 0:
                for a in range(c):
                    store(g, v * k + a, pick(splat(float(v)), lens, load(turn, a) * total, one))
        if last or not plain:
            continue
        for v in range(n):
            m = cnt[v]
            c = cnt[v - 1] if v > 0 else 1
            total = zero
            for b in range(m):
                x = zero
                for a in range(c):
                    t = load(W, off[v] + a * m + b)
                    if v > 0:
                        at = (v - 1) * k + a
                        t = t * load(dq, at) * load(y, at)
                    x = x + t
                store(turn, b, x)
                total = total + x
            total = pick(zero, total, 1.0 / total, one)
            for b in range(m):
                store(dq, v * k + b, load(turn, b) * total)
            _settle(v, k, m, n, heat, cold, w2, f, p, y, g, dq, val, X)


@kernel
def chain_game(
    start: int,
    stop: int,
    items: IntArray,
    theta: Array,
    starts: IntArray,
    lengths: IntArray,
    label_starts: IntArray,
    tied: bool,
    k: int,
    costs: Array,
    plain: bool,
    weights: Array,
    warm: bool,
    tol: float,
    mu: Array,
    predictor: Array,
    value: Array,
    risk: Array,
    gap: Array,
    n_iter: IntArray,
    status: IntArray,
) -> None:
    """Both players' strategies of eight of the ``items`` at a time, as of :func:`.tree_game`; UNFINISHED where left to that.

    With ``plain`` all mistakes cost the same.
    """
    most = 1
    for i in range(start * LANES, min(stop * LANES, items.shape[0])):
        most = max(most, lengths[items[i]])
    kk = k * k
    S, added, below, ahead, slack = _room(most * k), _room(most * k), _room(most * k), _room(most * k), _room(most * k)
    T = _room(kk if tied else most * kk)
    mine, before, w2 = _room(most * k), _room(most * k), _room(most)
    Q, Z, iQ, iZ, W, dQ, dZ = (_room(most * kk), _room(most * kk), _room(most * kk), _room(most * kk),
                               _room(most * kk), _room(most * kk), _room(most * kk))  # fmt: skip
    B, P, G, BD = _room(most * kk), _room(most * kk), _room(most * kk), _room(most * k)
    general = 1 if plain else most * kk
    D, CC = _room(general), _room(general)
    idc, val, rv, seen = _room(most * k), _room(most * k), _room(most * k), _room(most * k)
    p, u, y, iY, dp, du = (
        _room(most * k),
        _room(most * k),
        _room(most * k),
        _room(most),
        _room(most * k),
        _room(most * k),
    )
    q, dq, f, g, turn = _room(most * k), _room(most * k), _room(most * k), _room(most * k), _room(most * k)
    X, E, F, H = _room(kk), _room(kk), _room(kk), _room(k)
    cnt, off = np.zeros(most, np.int64), np.zeros(most + 1, np.int64)
    label, count = np.zeros(most * k * LANES, np.int64), np.zeros(most * LANES, np.int64)
    answer, n_answers = np.zeros(most * k * LANES, np.int64), np.zeros(most * LANES, np.int64)
    item, long = np.zeros(LANES, np.int64), np.zeros(LANES, np.int64)
    lens, worth, enough, largest, window, open_, mean, now = (
        np.zeros(LANES), np.zeros(LANES), np.zeros(LANES), np.zeros(LANES), np.zeros(LANES), np.zeros(LANES),
        np.zeros(LANES), np.zeros(LANES),
    )  # fmt: skip
    parts, bests, totals, run, terms = (
        np.zeros(LANES),
        np.zeros(LANES),
        np.zeros(LANES),
        np.zeros(LANES),
        np.zeros(LANES),
    )
    zero, one = splat(0.0), splat(1.0)
    dearest = 0.0
    for a in range(k):
        for b in range(k):
            dearest = max(dearest, costs[a, b])
    unit = costs[0, 1] if plain and k > 1 else 1.0
    for group in range(start, stop):
        n = 1
        for lane in range(LANES):
            j = group * LANES + lane
            item[lane] = items[min(j, items.shape[0] - 1)]
            open_[lane] = 1.0 if j < items.shape[0] else 0.0
            long[lane] = lengths[item[lane]]
            lens[lane] = float(long[lane])
            n = max(n, long[lane])
        # numbers of the eight chains side by side
        for lane in range(LANES):
            i, size = item[lane], long[lane]
            first = starts[i] + size * k
            nodes = theta[starts[i] : first]
            n_tables = 1 if tied else max(size - 1, 0)
            tables = theta[first : first + n_tables * kk]
            scale, dear = 0.0, 0.0
            for t in range(size * k):
                S[t * LANES + lane] = nodes[t]
                scale = max(scale, abs(nodes[t]))
            for t in range(size * k, n * k):
                S[t * LANES + lane] = 0.0
            for t in range(n_tables * kk):
                T[t * LANES + lane] = tables[t]
                scale = max(scale, abs(tables[t]))
            if not tied:
                for t in range(n_tables * kk, (n - 1) * kk):
                    T[t * LANES + lane] = 0.0
            rows = predictor[label_starts[i] : label_starts[i] + size]
            kept = mu[starts[i] : first]
            x = 0.0
            if warm:
                for t in range(size * k):
                    x += nodes[t] * kept[t]
                of_pairs = mu[first : first + n_tables * kk]
                for t in range(n_tables * kk):
                    x += tables[t] * of_pairs[t]
            worth[lane] = x
            for v in range(n):
                weight = weights[label_starts[i] + v] if v < size else 0.0
                w2[v * LANES + lane] = weight * unit
                dear = max(dear, weight * dearest)
                for a in range(k):
                    at = (v * k + a) * LANES + lane
                    mine[at] = rows[v, a] if warm and v < size else 0.0
                    before[at] = kept[v * k + a] if warm and v < size else 0.0
            largest[lane] = dear
            enough[lane] = tol + 4e-16 * scale * size + 5e-9 * dear * size
            if not scale < 1e15:
                open_[lane] = 0.0
        for lane in range(LANES):
            if group * LANES + lane < items.shape[0]:
                i = item[lane]
                status[i], n_iter[i], gap[i], value[i], risk[i] = UNFINISHED, 0, np.inf, 0.0, 0.0
        for again in range(2):
            for v in range(n):
                weight = load(w2, v)
                if plain:
                    total = zero
                    for a in range(k):
                        total = total + load(mine, v * k + a)
                    for b in range(k):
                        store(added, v * k + b, weight * (total - load(mine, v * k + b)))
                else:
                    for b in range(k):
                        x = zero
                        for a in range(k):
                            x = x + costs[a, b] * load(mine, v * k + a)
                        store(added, v * k + b, weight * x)
            best = _sweep(n, k, tied, S, T, added, below, ahead, slack, load(lens, 0))
            store(bests, 0, best)
            if again == 1 or not warm:
                break
            total = zero
            for v in range(n):
                least = splat(_NEVER)
                for a in range(k):
                    x = zero
                    for b in range(k):
                        x = x + costs[a, b] * load(before, v * k + b)
                    least = low(least, x)
                total = total + least * load(w2, v) / unit
            store(parts, 0, total)
            far = False
            for lane in range(LANES):
                i = item[lane]
                worth[lane] += parts[lane]
                now[lane] = bests[lane] - worth[lane]
                if open_[lane] > 0.0:
                    value[i], risk[i], gap[i] = worth[lane], parts[lane], max(now[lane], 0.0)
                    if now[lane] <= enough[lane]:
                        status[i], open_[lane] = SOLVED, 0.0
                    elif not now[lane] < 0.5 * long[lane] * largest[lane]:
                        far = True
                        for t in range(n * k):
                            mine[t * LANES + lane] = 0.0
            if not far:
                break
        working = False
        for lane in range(LANES):
            cold = not warm or not now[lane] < 0.5 * long[lane] * largest[lane]
            window[lane] = largest[lane] + enough[lane]
            if not cold:
                window[lane] = min(window[lane], max(min(3.0, 4.0 / long[lane]) * now[lane], 0.01 * largest[lane]))
            else:
                now[lane] = 0.3 * long[lane] * largest[lane]
            working = working or open_[lane] > 0.0
            run[lane] = 0.0 if cold else 1.0
        if working and plain:
            # p follows the scores, over all labels
            for v in range(n):
                off[v] = 0 if v == 0 else off[v - 1] + cnt[v - 1] * (k if v > 1 else 1)
                cnt[v] = k
                inside = pick(splat(float(v)), load(lens, 0), one, zero)
                table = 0 if tied else (v - 1) * kk
                for b in range(k):
                    x = load(below, v * k + b)
                    store(p, v * k + b, load(mine, v * k + b))
                    store(f, v * k + b, zero)
                    store(val, v * k + b, inside)
                    store(seen, v * k + b, inside)
                    if v == 0:
                        store(Z, b, x)
                    else:
                        for a in range(k):
                            store(Z, off[v] + a * k + b, x + load(T, table + a * k + b) - load(ahead, v * k + a))
            off[n] = off[n - 1] + k * (k if n > 1 else 1)
            for lane in range(LANES):
                mean[lane] = max(0.25 * now[lane] / long[lane], 1e-12 * largest[lane])
            _fill(
                n,
                k,
                cnt,
                off,
                plain,
                2,
                load(mean, 0),
                zero,
                load(lens, 0),
                Z,
                W,
                w2,
                f,
                p,
                y,
                g,
                dq,
                val,
                seen,
                turn,
                X,
            )
            for t in range(n * k):
                store(mine, t, load(p, t))
            for v in range(n):
                weight = load(w2, v)
                for b in range(k):
                    store(added, v * k + b, weight * (one - load(mine, v * k + b)))
            best = _sweep(n, k, tied, S, T, added, below, ahead, slack, load(lens, 0))
            store(bests, 0, best)
            for lane in range(LANES):
                if run[lane] > 0.0:
                    now[lane] = bests[lane] - worth[lane]
                    window[lane] = min(
                        largest[lane] + enough[lane], max(min(3.0, 4.0 / long[lane]) * now[lane], 0.01 * largest[lane])
                    )
        for attempt in range(4):
            if not working:
                break
            # labels and pairs on labellings within the window
            off[0] = 0
            for v in range(n):
                cnt[v] = 1
                for lane in range(LANES):
                    c, lead, most_likely = 0, 0, -1.0
                    if v < long[lane] and open_[lane] > 0.0:
                        for b in range(k):
                            at = (v * k + b) * LANES + lane
                            if slack[at] <= window[lane]:
                                x = before[at] + 1e-3 * (1.0 - slack[at] / window[lane])
                                if x > most_likely:
                                    most_likely, lead = x, c
                                label[(v * k + c) * LANES + lane] = b
                                c += 1
                        if lead > 0:
                            at = v * k * LANES + lane
                            other = label[at]
                            label[at] = label[at + lead * LANES]
                            label[at + lead * LANES] = other
                    count[v * LANES + lane] = c
                    cnt[v] = max(cnt[v], c)
                off[v + 1] = off[v] + cnt[v] * (cnt[v - 1] if v > 0 else 1)
            for lane in range(LANES):
                terms[lane] = 1.0
            for v in range(n):
                m = cnt[v]
                c = cnt[v - 1] if v > 0 else 1
                for lane in range(LANES):
                    size = count[v * LANES + lane]
                    ahead_size = count[(v - 1) * LANES + lane] if v > 0 else 1
                    pairs = 0
                    for b in range(k):
                        val[(v * k + b) * LANES + lane] = 1.0 if b < size else 0.0
                    for a in range(c):
                        for b in range(m):
                            at = (off[v] + a * m + b) * LANES + lane
                            Z[at] = -_NEVER
                            if a < ahead_size and b < size:
                                j = label[(v * k + b) * LANES + lane]
                                x = below[(v * k + j) * LANES + lane]
                                behind = 0.0
                                if v > 0:
                                    h = label[((v - 1) * k + a) * LANES + lane]
                                    x += T[((0 if tied else (v - 1) * kk) + h * k + j) * LANES + lane]
                                    x -= ahead[(v * k + h) * LANES + lane]
                                    behind = slack[((v - 1) * k + h) * LANES + lane]
                                if behind - x <= window[lane] * (1.0 + 1e-12):
                                    Z[at] = min(x, 0.0)
                                    pairs += 1
                    # answers that no other is better than at every label
                    chosen = 0
                    if plain:
                        chosen = size
                        for s in range(size):
                            answer[(v * k + s) * LANES + lane] = label[(v * k + s) * LANES + lane]
                    else:
                        for s in range(k if size > 0 else 0):
                            beaten = False
                            for h in range(k):
                                if h != s and not beaten:
                                    better, equal = True, True
                                    for b in range(size):
                                        j = label[(v * k + b) * LANES + lane]
                                        better = better and costs[h, j] <= costs[s, j]
                                        equal = equal and costs[h, j] == costs[s, j]
                                    beaten = better and (not equal or h < s)
                            if not beaten:
                                answer[(v * k + chosen) * LANES + lane] = s
                                chosen += 1
                    n_answers[v * LANES + lane] = chosen
                    terms[lane] += pairs + chosen
                    weight = w2[v * LANES + lane]
                    total = 0.0
                    for s in range(k):
                        at = (v * k + s) * LANES + lane
                        seen[at] = 1.0 if chosen > 1 and s < chosen else 0.0
                        x = 0.0
                        if s < chosen:
                            a = answer[at]
                            x = mine[(v * k + a) * LANES + lane]
                            if not (plain or run[lane] > 0.0):
                                x = 1.0 / chosen
                        p[at] = x
                        total += x
                        if not plain:
                            for b in range(m):
                                x = 0.0
                                if s < chosen and b < size:
                                    x = weight * costs[answer[at], label[(v * k + b) * LANES + lane]]
                                CC[(v * kk + s * k + b) * LANES + lane] = x
                    for s in range(chosen):
                        p[(v * k + s) * LANES + lane] /= total
                    if not plain:
                        for s in range(k):
                            for j in range(m - 1):
                                at = (v * kk + s * k + j) * LANES + lane
                                CC_here = (
                                    CC[(v * kk + s * k + j + 1) * LANES + lane] - CC[(v * kk + s * k) * LANES + lane]
                                )
                                D[at] = CC_here if s < chosen and j + 1 < size else 0.0
                    for b in range(m):
                        x = 0.0
                        if b < size:
                            j = label[(v * k + b) * LANES + lane]
                            if plain:
                                x = weight * (1.0 - p[(v * k + b) * LANES + lane])
                            else:
                                for s in range(chosen):
                                    x += p[(v * k + s) * LANES + lane] * CC[(v * kk + s * k + b) * LANES + lane]
                            x -= added[(v * k + j) * LANES + lane]
                        f[(v * k + b) * LANES + lane] = x
            for lane in range(LANES):
                mean[lane] = (
                    max(1.0 * now[lane] / long[lane], window[lane] / 300.0) if attempt == 0 else 0.5 * mean[lane]
                )
            # the start: Gibbs distributions, at which p is best node by node
            heat = load(mean, 0)
            _fill(
                n, k, cnt, off, plain, 2, heat, heat * 0.6, load(lens, 0), Z, W, w2, f, p, y, g, dq, val, seen, turn, X
            )
            aim = heat * 0.5
            small = (20.0 * heat) * load(lens, 0) / load(terms, 0)
            for v in range(n):
                m = cnt[v]
                c = cnt[v - 1] if v > 0 else 1
                for b in range(m):
                    at = v * k + b
                    x = load(y, at)
                    t_ = zero - load(f, at)
                    if v < n - 1:
                        x = x * load(g, at + k)
                        t_ = t_ - heat * log(top(load(g, at + k), splat(1e-300)))
                    store(X, b, x)
                    store(E, b, t_)
                for a in range(c):
                    total = zero
                    for b in range(m):
                        at = off[v] + a * m + b
                        x = load(W, at) * load(X, b)
                        store(Q, at, x)
                        total = total + x
                    message = heat * (1.0 + log(top(total, splat(1e-300))))
                    total = pick(zero, total, 1.0 / total, zero)
                    for b in range(m):
                        at = off[v] + a * m + b
                        x = load(Z, at)
                        here = pick(splat(-0.5 * _NEVER), x, one, zero)
                        store(Z, at, pick(zero, here, top(message - x + load(E, b), 1e-3 * heat), one))
                        store(Q, at, pick(zero, here, top(load(Q, at) * total, splat(1e-300)), zero))
            for v in range(n):
                m = cnt[v]
                c = cnt[v - 1] if v > 0 else 1
                for b in range(m):
                    store(q, v * k + b, zero)
                for a in range(c):
                    comes = load(q, (v - 1) * k + a) if v > 0 else one
                    total = zero
                    for b in range(m):
                        at = off[v] + a * m + b
                        x = top(load(Q, at) * comes, pick(zero, load(Q, at), small / load(Z, at), zero))
                        store(Q, at, x)
                        total = total + x
                    comes = comes * pick(zero, total, 1.0 / total, zero)
                    for b in range(m):
                        at = off[v] + a * m + b
                        x = load(Q, at) * comes
                        store(Q, at, x)
                        store(q, v * k + b, load(q, v * k + b) + x)
                least = splat(_NEVER)
                weight = load(w2, v)
                for s in range(m if plain else k):
                    x = zero
                    if plain:
                        x = weight * (one - load(q, v * k + s))
                    else:
                        for b in range(m):
                            x = x + load(CC, v * kk + s * k + b) * load(q, v * k + b)
                    store(u, v * k + s, x)
                    least = pick(zero, load(seen, v * k + s), low(least, x), least)
                for s in range(m if plain else k):
                    x = load(u, v * k + s) - least + aim
                    store(u, v * k + s, pick(zero, load(seen, v * k + s), x, one))
            # predictor and corrector, until all lanes are done
            for _ in range(40):
                total = zero
                for t in range(off[n]):
                    total = total + load(Q, t) * load(Z, t)
                for v in range(n):
                    for s in range(cnt[v] if plain else k):
                        at = v * k + s
                        total = total + load(p, at) * load(u, at) * load(seen, at)
                store(totals, 0, total)
                going = False
                for lane in range(LANES):
                    run[lane] = (
                        1.0 if open_[lane] > 0.0 and totals[lane] > 0.9 * enough[lane] and totals[lane] < 1e300 else 0.0
                    )
                    going = going or run[lane] > 0.0
                if not going:
                    break
                _factor(n, k, cnt, off, plain, Q, Z, iQ, iZ, W, B, BD, G, P, idc, p, u, y, iY, D, w2, val, rv, seen,
                        X, E, F, H)  # fmt: skip
                lose_q, lose_p, first_sum, other_sum, both = _direction(
                    n, k, cnt, off, plain, zero, False, Q, Z, iQ, iZ, W, B, BD, P, idc, p, u, y, iY, D, D, CC, w2, val, rv,
                    seen, dQ, dZ, dp, du, dq, f, g, turn, X, H)  # fmt: skip
                for_q = low(one, 1.0 / top(lose_q, splat(1e-300)))
                for_p = low(one, 1.0 / top(lose_p, splat(1e-300)))
                left = total + for_q * first_sum + for_p * other_sum + for_q * for_p * both
                ratio = top(left, zero) / total
                share = top(ratio * ratio * ratio, splat(1e-3))
                aim = top(share * total, 0.1 * load(enough, 0)) / load(terms, 0)
                lose_q, lose_p, first_sum, other_sum, both = _direction(
                    n, k, cnt, off, plain, aim, True, Q, Z, iQ, iZ, W, B, BD, P, idc, p, u, y, iY, D, D, CC, w2, val, rv,
                    seen, dQ, dZ, dp, du, dq, f, g, turn, X, H)  # fmt: skip
                keep = top(splat(0.95), low(splat(0.999), 1.0 - total / load(terms, 0)))
                for_q = low(one, keep / top(lose_q, splat(1e-300)))
                for_p = low(one, keep / top(lose_p, splat(1e-300)))
                moves = load(run, 0)
                for t in range(off[n]):
                    x, z = load(Q, t), load(Z, t)
                    store(Q, t, pick(zero, moves * x, x + for_q * load(dQ, t), x))
                    store(Z, t, pick(zero, moves * x, z + for_p * load(dZ, t), z))
                for t in range(n * k):
                    live = moves * load(seen, t)
                    x, z = load(p, t), load(u, t)
                    store(p, t, pick(zero, live, x + for_p * load(dp, t), x))
                    store(u, t, pick(zero, live, z + for_q * load(du, t), z))
                for lane in range(LANES):
                    if run[lane] > 0.0:
                        n_iter[item[lane]] += 1
            # both strategies and what they are worth
            for v in range(n):
                m = cnt[v]
                c = cnt[v - 1] if v > 0 else 1
                for b in range(m):
                    store(q, v * k + b, zero)
                for a in range(c):
                    total = zero
                    for b in range(m):
                        total = total + load(Q, off[v] + a * m + b)
                    total = pick(zero, total, 1.0 / total, zero)
                    if v > 0:
                        total = total * load(q, (v - 1) * k + a)
                    for b in range(m):
                        at = off[v] + a * m + b
                        x = load(Q, at) * total
                        store(dQ, at, x)
                        store(q, v * k + b, load(q, v * k + b) + x)
                for lane in range(LANES):
                    if not open_[lane] > 0.0:
                        continue
                    for a in range(k):
                        mine[(v * k + a) * LANES + lane] = 0.0
                        slack[(v * k + a) * LANES + lane] = 0.0
                    total_p = 0.0
                    for s in range(n_answers[v * LANES + lane]):
                        total_p += p[(v * k + s) * LANES + lane]
                    for s in range(n_answers[v * LANES + lane]):
                        at = (v * k + s) * LANES + lane
                        mine[(v * k + answer[at]) * LANES + lane] = p[at] / total_p
                    for b in range(count[v * LANES + lane]):
                        at = (v * k + b) * LANES + lane
                        slack[(v * k + label[at]) * LANES + lane] = q[at]
                total = zero
                for b in range(k):
                    store(before, v * k + b, load(slack, v * k + b))
                least = splat(_NEVER)
                weight = load(w2, v)
                for a in range(k):
                    x = zero
                    for b in range(k):
                        x = x + costs[a, b] * load(before, v * k + b)
                    least = low(least, x)
                    x = zero
                    if plain:
                        for b in range(k):
                            x = x + load(mine, v * k + b)
                        x = weight * (x - load(mine, v * k + a))
                    else:
                        for b in range(k):
                            x = x + costs[b, a] * load(mine, v * k + b)
                        x = weight * x
                    store(added, v * k + a, x)
                store(u, v, least * weight / unit)
            best = _sweep(n, k, tied, S, T, added, below, ahead, slack, load(lens, 0))
            store(bests, 0, best)
            working = False
            for lane in range(LANES):
                if not open_[lane] > 0.0:
                    continue
                i, size = item[lane], long[lane]
                part, scores = 0.0, 0.0
                for v in range(size):
                    part += u[v * LANES + lane]
                    for b in range(k):
                        scores += before[(v * k + b) * LANES + lane] * S[(v * k + b) * LANES + lane]
                for v in range(1, size):
                    m = cnt[v]
                    table = 0 if tied else (v - 1) * kk
                    for a in range(count[(v - 1) * LANES + lane]):
                        h = label[((v - 1) * k + a) * LANES + lane]
                        for b in range(count[v * LANES + lane]):
                            x = dQ[(off[v] + a * m + b) * LANES + lane]
                            scores += x * T[(table + h * k + label[(v * k + b) * LANES + lane]) * LANES + lane]
                now[lane] = bests[lane] - part - scores
                better = now[lane] < gap[i]
                if better:
                    value[i], risk[i], gap[i] = part + scores, part, max(now[lane], 0.0)
                    rows = predictor[label_starts[i] : label_starts[i] + size]
                    first = starts[i] + size * k
                    nodes = mu[starts[i] : first].reshape((size, k))
                    for v in range(size):
                        for b in range(k):
                            rows[v, b] = mine[(v * k + b) * LANES + lane]
                            nodes[v, b] = before[(v * k + b) * LANES + lane]
                    n_tables = 1 if tied else max(size - 1, 0)
                    tables = mu[first : first + n_tables * kk]
                    tables[:] = 0.0
                    for v in range(1, size):
                        m = cnt[v]
                        table = 0 if tied else (v - 1) * kk
                        for a in range(count[(v - 1) * LANES + lane]):
                            h = label[((v - 1) * k + a) * LANES + lane]
                            for b in range(count[v * LANES + lane]):
                                j = label[(v * k + b) * LANES + lane]
                                tables[table + h * k + j] += dQ[(off[v] + a * m + b) * LANES + lane]
                if now[lane] <= enough[lane]:
                    status[i], open_[lane] = SOLVED, 0.0
                elif better:
                    # what is missing lies on labellings worth more than the value: those near the best by as much come in
                    window[lane] = max(min(3.0, 9.0 / np.sqrt(size)) * now[lane], 1.3 * window[lane])
                    working = True
                else:
                    open_[lane] = 0.0
                run[lane] = 1.0
