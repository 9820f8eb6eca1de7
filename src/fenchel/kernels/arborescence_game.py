"""The game of a predictor and an adversary who both mix trees, by an interior point method with cuts as they are needed.

    max over q of min over p of -<p, q> + s/2 |p|^2 - s/2 |q|^2 + <theta, q>

for p and q in an arborescence polytope: each word has one head, with a single root one word hangs on the root, and every set
of words gets at least one from outside. Of these sets few matter; those found so far are the cuts of a player. A tree of n
words has n (n + 1) scores, a row for each word and a column for each head, 0 the root; what stands at a word and itself is
ignored.
"""

from __future__ import annotations

import numpy as np

from .._core.compile import inline_kernel, kernel
from .._core.types import Array, IntArray

__all__ = ["arborescence_game", "state_size"]

# How near to the boundary a step may go, and the shortest that is worth taking: below, rounding is all that is left.
_STEP = 0.995
_SHORTEST = 1e-8
# How far a start is pulled into the interior: one from earlier scores, and one after new cuts.
_PULL = 0.03
_PULL_AFTER_CUTS = 0.05
# Flows that miss one by less than this miss nothing.
_ALLOWED = 1e-13
# Which part of the tolerance products are brought down to: nearer to the boundary rounding grows.
_ENOUGH = 0.1
# How often it is begun again from further inside where rounding ended it.
_TRIES = 3
# Products from which on a step is solved twice.
_REFINE = 1e-3
# Pivots below this share of the largest entry are rounding.
_ROUNDING = 1e-40
# Sets are looked for when the gap between the cuts has shrunk by this factor.
_SEPARATE = 0.9


@inline_kernel
def _room(n):  # type: ignore[no-untyped-def]
    """The number of cuts of a player that are carried over to a later game."""
    return 2 * n + 8


def state_size(n: int) -> int:
    """How many numbers carry a game of n words over to the next: points, duals, and the cuts with theirs."""
    return 2 * n * (n + 1) + 2 * n + 4 + 2 * (2 * n + 8) * (n + 1)


_state_length = inline_kernel(state_size)


@inline_kernel
def _pull_inside(x, single_root, share):  # type: ignore[no-untyped-def]
    """Mix a point with that in the middle, where every head is as likely, the root twice where it may be."""
    n = x.shape[0]
    root = 1.0 / n if single_root else 2.0 / (n + 1.0)
    other = 1.0 / n if single_root else 1.0 / (n + 1.0)
    for m in range(n):
        row = x[m]
        row[0] += share * (root - row[0])
        for h in range(1, n + 1):
            row[h] += share * (other - row[h])
        row[m + 1] = 0.0


@inline_kernel
def _margin(n, single_root):  # type: ignore[no-untyped-def]
    """By how much at least every set of the middle point gets more than one."""
    return max((n - 2.0) / n if single_root else (n - 1.0) / (n + 1.0), 1e-9)


@inline_kernel
def _separate(x, single_root, members, count, room, free, flow_in, rest, entry, parent, queue):  # type: ignore[no-untyped-def]
    """Add sets of words that get less than one to ``members``; the number of sets, and the most that one is short of one.

    Words are merged into the root one after the other, each once no set with it gets too little: it has enough from those
    merged before, or a maximum flow shows it. So what is decided costs O(n^2) in all.
    """
    n = x.shape[0]
    lack = 0.0
    for m in range(n):
        free[m] = True
        flow_in[m] = x[m, 0]
    for _ in range(n):
        t = -1
        for m in range(n):
            if free[m] and (t < 0 or flow_in[m] > flow_in[t]):
                t = m
        if flow_in[t] < 1.0 - _ALLOWED:
            for m in range(n):
                entry[m] = flow_in[m]
                for h in range(n):
                    rest[h, m] = x[m, h + 1]
            flow = entry[t]
            entry[t] = 0.0
            while flow < 1.0 - _ALLOWED:
                # backwards from t to a word that has something left from outside
                for m in range(n):
                    parent[m] = -1
                parent[t] = t
                queue[0] = t
                first, last, found = 0, 1, -1
                while first < last and found < 0:
                    m = queue[first]
                    first += 1
                    for h in range(n):
                        if free[h] and parent[h] < 0 and rest[h, m] > 1e-15:
                            parent[h] = m
                            queue[last] = h
                            last += 1
                            if entry[h] > 1e-15:
                                found = h
                                break
                if found < 0:
                    break
                least = entry[found]
                m = found
                while m != t:
                    least = min(least, rest[m, parent[m]])
                    m = parent[m]
                entry[found] -= least
                m = found
                while m != t:
                    rest[m, parent[m]] -= least
                    rest[parent[m], m] += least
                    m = parent[m]
                flow += least
            if flow < 1.0 - _ALLOWED:
                lack = max(lack, 1.0 - flow)
                size = 0
                for m in range(n):
                    size += 1 if parent[m] >= 0 else 0
                # single words, and all words beside a single root, have one by equations: what they lack is rounding
                if count < room and size > 1 and not (single_root and size == n):
                    known = False
                    for c in range(count):
                        same = True
                        for m in range(n):
                            if (members[c, m] > 0.0) != (parent[m] >= 0):
                                same = False
                                break
                        if same:
                            known = True
                            break
                    if not known:
                        for m in range(n):
                            members[count, m] = 1.0 if parent[m] >= 0 else 0.0
                        count += 1
        free[t] = False
        for m in range(n):
            flow_in[m] += x[m, t + 1]
    return count, max(lack, _ALLOWED)


@inline_kernel
def _write_masks(members, count, mask):  # type: ignore[no-untyped-def]
    """mask[c, 0, h] = 1 where head h is outside of set c, and mask[c, 1, h] = 1 where it is inside."""
    n = members.shape[1]
    for c in range(count):
        mask[c, 0, 0] = 1.0
        mask[c, 1, 0] = 0.0
        for m in range(n):
            mask[c, 0, m + 1] = 1.0 - members[c, m]
            mask[c, 1, m + 1] = members[c, m]


@inline_kernel
def _entering(x, members, mask, c):  # type: ignore[no-untyped-def]
    total = 0.0
    outside = mask[c, 0]
    for m in range(x.shape[0]):
        if members[c, m] > 0.0:
            row = x[m]
            for h in range(row.shape[0]):
                total += outside[h] * row[h]
    return total


@inline_kernel
def _prices(m, members, mask, duals, count, root, out):  # type: ignore[no-untyped-def]
    """out[h] = what the duals of the root and of the sets add to the price of head h for word m."""
    for h in range(out.shape[0]):
        out[h] = 0.0
    out[0] = root
    for c in range(count):
        if members[c, m] > 0.0:
            d = duals[c]
            outside = mask[c, 0]
            for h in range(out.shape[0]):
                out[h] -= d * outside[h]


@inline_kernel
def _bounds(T, s, Q, P, a, c, roots, counts, members, mask, duals, price):  # type: ignore[no-untyped-def]
    """What q guarantees without the scores, the scores' part, and what p guarantees, by the duals."""
    n = T.shape[0]
    risk, linear, upper = -roots[1], 0.0, roots[0]
    for k in range(counts[0]):
        upper -= duals[0, k]
    for k in range(counts[1]):
        risk += duals[1, k]
    for m in range(n):
        risk -= c[m]
        upper += a[m]
        _prices(m, members[1], mask[1], duals[1], counts[1], roots[1], price)
        worst = 0.0 if s > 0.0 else -np.inf
        for h in range(n + 1):
            if h != m + 1:
                linear += T[m, h] * Q[m, h]
                over = Q[m, h] - c[m] - price[h]
                if s > 0.0:
                    over = max(over, 0.0)
                    worst += 0.5 * over * over / s + 0.5 * s * Q[m, h] * Q[m, h]
                else:
                    worst = max(worst, over)
        risk -= worst
        _prices(m, members[0], mask[0], duals[0], counts[0], roots[0], price)
        worst = 0.0 if s > 0.0 else -np.inf
        for h in range(n + 1):
            if h != m + 1:
                over = T[m, h] - P[m, h] - a[m] - price[h]
                if s > 0.0:
                    over = max(over, 0.0)
                    worst += 0.5 * over * over / s + 0.5 * s * P[m, h] * P[m, h]
                else:
                    worst = max(worst, over)
        upper += worst
    return risk, linear, upper


@inline_kernel
def _factor(S, order):  # type: ignore[no-untyped-def]
    """L U of a symmetric matrix given by its lower half, in its place, rows exchanged so that pivots are large.

    Where both players use the same arcs the diagonal all but vanishes beside what couples them, so pivots cannot be taken
    as they come. Constraints that follow from others leave a pivot of rounding errors; their duals stay as they are.
    """
    size = S.shape[0]
    top = 0.0
    for r in range(size):
        order[r] = r
        for t in range(r + 1):
            S[t, r] = S[r, t]
            top = max(top, abs(S[r, t]))
    for k in range(size):
        best = k
        for r in range(k + 1, size):
            if abs(S[r, k]) > abs(S[best, k]):
                best = r
        if best != k:
            order[k], order[best] = order[best], order[k]
            for t in range(size):
                S[k, t], S[best, t] = S[best, t], S[k, t]
        line = S[k]
        if abs(line[k]) <= _ROUNDING * top:
            line[k] = 1e200
        inverse = 1.0 / line[k]
        for r in range(k + 1, size):
            row = S[r]
            f = row[k] * inverse
            row[k] = f
            if f != 0.0:
                for t in range(k + 1, size):
                    row[t] -= f * line[t]


@inline_kernel
def _solve(S, order, h, work):  # type: ignore[no-untyped-def]
    size = S.shape[0]
    for r in range(size):
        x = h[order[r]]
        line = S[r]
        for t in range(r):
            x -= line[t] * work[t]
        work[r] = x
    for r in range(size - 1, -1, -1):
        x = work[r]
        line = S[r]
        for t in range(r + 1, size):
            x -= line[t] * h[t]
        h[r] = x / line[r]


@inline_kernel
def _settle(T, s, Q, P, Y, Z, a, c, roots, counts, members, mask, duals, slack, push, price):  # type: ignore[no-untyped-def]
    """Duals of the words and slacks that make the points strictly feasible, those of the arcs at least ``push``.

    The mean product of points and slacks, and the number of products.
    """
    n = T.shape[0]
    total, count = 0.0, 2.0 * n * n
    for side in range(2):
        x, other = (Q, P) if side == 0 else (P, Q)
        y, by_word = (Y, a) if side == 0 else (Z, c)
        for k in range(counts[side]):
            duals[side, k] = max(duals[side, k], push)
            slack[side, k] = _entering(x, members[side], mask[side], k) - 1.0
            total += duals[side, k] * slack[side, k]
            count += 1.0
        for m in range(n):
            _prices(m, members[side], mask[side], duals[side], counts[side], roots[side], price)
            high = -np.inf
            for h in range(n + 1):
                gain = T[m, h] - other[m, h] if side == 0 else other[m, h]
                y[m, h] = s * x[m, h] + price[h] - gain
                if h != m + 1:
                    high = max(high, -y[m, h])
            by_word[m] = high + push
            for h in range(n + 1):
                y[m, h] += by_word[m]
            y[m, m + 1] = 1.0  # neither point nor slack ever change there
            for h in range(n + 1):
                total += x[m, h] * y[m, h]
    return total / count, count


@inline_kernel
def _repaired(x, single_root, lack, out):  # type: ignore[no-untyped-def]
    """A point near x that gives every set one, by as much of the middle point as that takes."""
    n = x.shape[0]
    for m in range(n):
        total = 0.0
        for h in range(n + 1):
            out[m, h] = max(x[m, h], 0.0)
            total += out[m, h]
        for h in range(n + 1):
            out[m, h] /= total
    if n > 1 and lack > _ALLOWED:
        _pull_inside(out, single_root, lack / (lack + _margin(n, single_root)))


@inline_kernel
def _drop(counts, side, members, duals, slack):  # type: ignore[no-untyped-def]
    """Forget cuts that are far from tight and cost nothing."""
    kept = 0
    for k in range(counts[side]):
        if slack[side, k] < 0.5 or duals[side, k] > 1e-3:
            if kept < k:
                members[side, kept] = members[side, k]
                duals[side, kept] = duals[side, k]
                slack[side, kept] = slack[side, k]
            kept += 1
    counts[side] = kept


@inline_kernel
def _move_prices(m, n_active, active, second, chosen, sign, moved, price, other_price):  # type: ignore[no-untyped-def]
    """What changes of the constraints' duals add to the prices of the heads of a word, for either player."""
    price[:] = 0.0
    other_price[:] = 0.0
    for i in range(n_active[m]):
        r = active[m, i]
        row = chosen[m, i]
        if r >= second:
            x = -sign[m, i] * moved[r]
            for h in range(row.shape[0]):
                other_price[h] += x * row[h]
        else:
            x = sign[m, i] * moved[r]
            for h in range(row.shape[0]):
                price[h] += x * row[h]


@inline_kernel
def _play(T, single_root, s, tol, max_iter, state, warm, q, p):  # type: ignore[no-untyped-def]
    """One game: (risk, linear, gap, steps); q and p are filled and the state is left for a later game."""
    n = T.shape[0]
    width = n + 1
    if n == 1:
        q[0, 0], q[0, 1], p[0, 0], p[0, 1] = 1.0, 0.0, 1.0, 0.0
        return -1.0, T[0, 0], 0.0, 0
    room = _room(n)
    size = n * width
    # what is carried over: q, p, duals of words, of the root, numbers of cuts, their duals, their members
    at = 2 * size
    a, c = state[at : at + n], state[at + n : at + 2 * n]
    roots, numbers = state[at + 2 * n : at + 2 * n + 2], state[at + 2 * n + 2 : at + 2 * n + 4]
    at += 2 * n + 4
    duals = state[at : at + 2 * room].reshape((2, room))
    members = state[at + 2 * room : at + 2 * room * (n + 1)].reshape((2, room, n))
    Q, P = np.empty((n, width)), np.empty((n, width))
    mask, price = np.zeros((2, room, 2, width)), np.empty(width)
    counts = np.zeros(2, np.int64)
    slack, dslack, ddual = np.zeros((2, room)), np.zeros((2, room)), np.zeros((2, room))
    spread = 0.0
    for m in range(n):
        low, high = np.inf, -np.inf
        for h in range(width):
            if h != m + 1:
                low, high = min(low, T[m, h]), max(high, T[m, h])
        spread = max(spread, high - low)
    risk, linear, gap = 0.0, 0.0, np.inf
    if warm:
        counts[0], counts[1] = int(numbers[0]), int(numbers[1])
        Q[:] = state[:size].reshape((n, width))
        P[:] = state[size : 2 * size].reshape((n, width))
        for side in range(2):
            point = Q if side == 0 else P
            _write_masks(members[side], counts[side], mask[side])
            for k in range(counts[side]):
                slack[side, k] = _entering(point, members[side], mask[side], k) - 1.0
            _drop(counts, side, members, duals, slack)
            _write_masks(members[side], counts[side], mask[side])
        # the duals of the words fit the new scores; often nothing else is needed
        for m in range(n):
            _prices(m, members[0], mask[0], duals[0], counts[0], roots[0], price)
            high = -np.inf
            for h in range(width):
                if h != m + 1:
                    high = max(high, T[m, h] - P[m, h] - s * Q[m, h] - price[h])
            a[m] = high
        risk, linear, upper = _bounds(T, s, Q, P, a, c, roots, counts, members, mask, duals, price)
        gap = upper - risk - linear
        q[:], p[:] = Q, P
        if gap <= tol:
            return risk, linear, max(gap, 0.0), 0
        share, push = _PULL, min(_PULL * (1.0 + s), gap / n)
    else:
        Q[:] = 0.0
        P[:] = 0.0
        roots[:] = 0.0
        duals[:] = 0.0
        share, push = 1.0, 0.5 * (1.0 + s) / n + 0.05 * spread
    _pull_inside(Q, single_root, share)
    _pull_inside(P, single_root, share)

    Y, Z, D, E, F = (
        np.empty((n, width)), np.empty((n, width)), np.empty((n, width)), np.empty((n, width)), np.empty((n, width)),
    )  # fmt: skip
    IQ, IP = np.empty((n, width)), np.empty((n, width))
    KA, KB, G, H = np.empty((n, width)), np.empty((n, width)), np.empty((n, width)), np.empty((n, width))
    dQ, dP, dY, dZ = np.zeros((n, width)), np.zeros((n, width)), np.zeros((n, width)), np.zeros((n, width))
    RQ, RP = np.empty((n, width)), np.empty((n, width))
    full = 2 * room + 2
    R0, R1 = np.zeros((n, full)), np.zeros((n, full))
    pivot, g = np.empty((n, 3)), np.empty((n, 2))
    active, n_active = np.zeros((n, full), np.int64), np.zeros(n, np.int64)
    da, dc, droot = np.zeros(n), np.zeros(n), np.zeros(2)
    weights, other_weights, other_price = np.empty(width), np.empty(width), np.empty(width)
    free, flow_in, entry = np.empty(n, np.bool_), np.empty(n), np.empty(n)
    rest, parent, queue = np.empty((n, n)), np.empty(n, np.int64), np.empty(n, np.int64)
    lead = 1 if single_root else 0  # the root's constraint comes before the cuts
    root_mask = np.ones((2, width))
    root_mask[0, 1:] = 0.0
    root_mask[1, 0] = 0.0
    chosen, sign = np.zeros((n, full, width)), np.zeros((n, full))
    mu, count = _settle(T, s, Q, P, Y, Z, a, c, roots, counts, members, mask, duals, slack, push, price)
    S, rhs, found, work, order = np.empty((0, 0)), np.empty(0), np.empty(0), np.empty(0), np.empty(0, np.int64)
    rebuild = True
    stalled = False
    tries = 0
    steps = 0
    check = max(_SEPARATE * mu * count, 0.4 * tol)
    while True:
        if mu * count <= check or stalled or steps >= max_iter:
            # -- which sets get too little?
            for side in range(2):
                if 4 * counts[side] > 3 * room:
                    _drop(counts, side, members, duals, slack)
                    rebuild = True
            before = counts[0] + counts[1]
            counts[0], lack_q = _separate(
                Q, single_root, members[0], counts[0], room, free, flow_in, rest, entry, parent, queue
            )
            counts[1], lack_p = _separate(
                P, single_root, members[1], counts[1], room, free, flow_in, rest, entry, parent, queue
            )
            fresh = counts[0] + counts[1] > before
            if mu * count <= 0.4 * tol or stalled or steps >= max_iter:
                _repaired(Q, single_root, lack_q, RQ)
                _repaired(P, single_root, lack_p, RP)
                for side in range(2):
                    _write_masks(members[side], counts[side], mask[side])
                low, line, high = _bounds(T, s, RQ, RP, a, c, roots, counts, members, mask, duals, price)
                if high - low - line < gap:
                    risk, linear, gap = low, line, high - low - line
                    q[:], p[:] = RQ, RP
                if gap <= tol or steps >= max_iter or (not fresh and tries == _TRIES):
                    break
                if not fresh:
                    tries += 1
            if fresh or stalled or mu * count <= 0.4 * tol:
                rebuild = rebuild or fresh
                for side in range(2):
                    _write_masks(members[side], counts[side], mask[side])
                lack = max(lack_q, lack_p)
                share = max(1.2 * lack / (lack + _margin(n, single_root)), _PULL_AFTER_CUTS * min(1.0, mu * count))
                share = min(1.0, max(share, 1e-5 * 10.0**tries))
                _pull_inside(Q, single_root, share)
                _pull_inside(P, single_root, share)
                push = share * (1.0 + s)
                mu, count = _settle(T, s, Q, P, Y, Z, a, c, roots, counts, members, mask, duals, slack, push, price)
            stalled = False
            check = max(min(_SEPARATE * mu * count, check), 0.4 * tol)
        if rebuild:
            rebuild = False
            total = 2 * lead + counts[0] + counts[1]
            S, rhs, found, work = np.zeros((total, total)), np.zeros(total), np.zeros(total), np.zeros(total)
            order = np.zeros(total, np.int64)
            second = lead + counts[0]  # where the predictor's constraints begin
            for m in range(n):
                k = 0
                for side in range(2):
                    begin = side * second
                    if single_root:
                        active[m, k] = begin
                        k += 1
                    for j in range(counts[side]):
                        if members[side, j, m] > 0.0:
                            active[m, k] = begin + lead + j
                            k += 1
                n_active[m] = k
        steps += 1
        # -- the system: pairs of entries are eliminated, then the words
        S[:] = 0.0
        for m in range(n):
            u, v, x = 0.0, 0.0, 0.0
            to_q, to_p, y_row, z_row, ka, kb, kk = IQ[m], IP[m], Y[m], Z[m], KA[m], KB[m], D[m]
            q_row, p_row = Q[m], P[m]
            for h in range(width):
                to_q[h] = 1.0 / q_row[h]
                to_p[h] = 1.0 / p_row[h]
            to_q[m + 1], to_p[m + 1] = 0.0, 0.0
            for h in range(width):
                e, f = s + y_row[h] * to_q[h], s + z_row[h] * to_p[h]
                both = 1.0 / (1.0 + e * f)
                kk[h] = both
                ka[h] = e * both
                kb[h] = f * both
            ka[m + 1], kb[m + 1], kk[m + 1] = 0.0, 0.0, 0.0
            for h in range(width):
                u += kb[h]
                v += kk[h]
                x += ka[h]
            inverse = 1.0 / (u * x + v * v)
            pivot[m, 0], pivot[m, 1], pivot[m, 2] = x * inverse, v * inverse, -u * inverse
            for i in range(n_active[m]):
                r = active[m, i]
                of_p = r >= second
                j = r - (second if of_p else 0) - lead
                # Of this word a constraint takes the heads outside (of the root's, the root), or, as the word has one head
                # in all, the others with the sign turned: those that are less likely, so that little is lost to rounding.
                point = p_row if of_p else q_row
                outside = root_mask[0] if j < 0 else mask[1 if of_p else 0, j, 0]
                x = 0.0
                for h in range(width):
                    x += outside[h] * point[h]
                turned = 1 if x > 0.5 else 0
                sign[m, i] = 1.0 if (j < 0) != (turned == 1) else -1.0
                e_i = chosen[m, i]
                e_i[:] = root_mask[turned] if j < 0 else mask[1 if of_p else 0, j, turned]
                e0, e1, first_weights, second_weights = 0.0, 0.0, kk if of_p else kb, ka if of_p else kk
                for h in range(width):
                    e0 += e_i[h] * first_weights[h]
                    e1 += e_i[h] * second_weights[h]
                own = -e1 if of_p else e0
                if of_p:
                    e1 = -e1
                R0[m, r], R1[m, r] = sign[m, i] * e0, sign[m, i] * e1
                S[r, r] += own
                for t in range(i):
                    o = active[m, t]
                    e_t = chosen[m, t]
                    between = (ka if o >= second else kk) if of_p else kb
                    x = 0.0
                    for h in range(width):
                        x += e_i[h] * e_t[h] * between[h]
                    S[r, o] += sign[m, i] * sign[m, t] * (-x if (of_p and o >= second) else x)
            for i in range(n_active[m]):
                r = active[m, i]
                f0 = pivot[m, 0] * R0[m, r] + pivot[m, 1] * R1[m, r]
                f1 = pivot[m, 1] * R0[m, r] + pivot[m, 2] * R1[m, r]
                for t in range(i + 1):
                    o = active[m, t]
                    S[r, o] -= f0 * R0[m, o] + f1 * R1[m, o]
        for j in range(counts[0]):
            S[lead + j, lead + j] += slack[0, j] / duals[0, j]
        for j in range(counts[1]):
            S[second + lead + j, second + lead + j] -= slack[1, j] / duals[1, j]
        _factor(S, order)
        # -- a predictor step to the boundary, then a corrected one
        target, alpha = 0.0, 1.0
        for corrected in range(2):
            for m in range(n):
                _prices(m, members[0], mask[0], duals[0], counts[0], roots[0], price)
                _prices(m, members[1], mask[1], duals[1], counts[1], roots[1], other_price)
                t_row, q_row, p_row, y_row, z_row, to_q, to_p = T[m], Q[m], P[m], Y[m], Z[m], IQ[m], IP[m]
                g_row, h_row, e_row, f_row = G[m], H[m], E[m], F[m]
                ka, kb, kk = KA[m], KB[m], D[m]
                alpha_m, gamma_m = a[m], c[m]
                if corrected == 0:
                    for h in range(width):
                        e_row[h] = -q_row[h] * y_row[h]
                        f_row[h] = -p_row[h] * z_row[h]
                else:
                    dq, dy, dp, dz = dQ[m], dY[m], dP[m], dZ[m]
                    for h in range(width):
                        e_row[h] = target - q_row[h] * y_row[h] - dq[h] * dy[h]
                        f_row[h] = target - p_row[h] * z_row[h] - dp[h] * dz[h]
                for h in range(width):
                    g_row[h] = e_row[h] * to_q[h] + y_row[h] - (p_row[h] + s * q_row[h] + alpha_m + price[h] - t_row[h])
                    h_row[h] = f_row[h] * to_p[h] + z_row[h] - (s * p_row[h] - q_row[h] + gamma_m + other_price[h])
            da[:], dc[:], rhs[:] = 0.0, 0.0, 0.0
            # solved once more for what rounding left of the constraints: near the end that is more than the products
            for _ in range(2 if mu * count < _REFINE else 1):
                found[:] = 0.0
                for side in range(2):
                    begin, turn = side * second, 1.0 if side == 0 else -1.0
                    if single_root:
                        found[begin] -= 1.0
                    for j in range(counts[side]):
                        r = begin + lead + j
                        product = target - slack[side, j] * (duals[side, j] + turn * rhs[r])
                        if corrected == 1:
                            product -= dslack[side, j] * ddual[side, j]
                        found[r] += 1.0 + slack[side, j] + product / duals[side, j]
                for m in range(n):
                    _move_prices(m, n_active, active, second, chosen, sign, rhs, price, other_price)
                    q_row, p_row, g_row, h_row, ka, kb, kk = Q[m], P[m], G[m], H[m], KA[m], KB[m], D[m]
                    move, change = da[m], dc[m]
                    e0, e1 = -1.0, -1.0
                    for h in range(width):
                        e = g_row[h] - move - price[h]
                        f = h_row[h] - change - other_price[h]
                        x = kb[h] * e - kk[h] * f + q_row[h]
                        y = kk[h] * e + ka[h] * f + p_row[h]
                        weights[h] = x
                        other_weights[h] = y
                        e0 += x
                        e1 += y
                    g[m, 0], g[m, 1] = e0, e1
                    f0 = pivot[m, 0] * e0 + pivot[m, 1] * e1
                    f1 = pivot[m, 1] * e0 + pivot[m, 2] * e1
                    for i in range(n_active[m]):
                        r = active[m, i]
                        of_p = r >= second
                        of_root = (r == 0 and single_root) or (r == second and single_root)
                        moved, e_i = other_weights if of_p else weights, chosen[m, i]
                        x = 0.0
                        for h in range(width):
                            x += e_i[h] * moved[h]
                        x *= sign[m, i]
                        if sign[m, i] < 0.0 and of_root:
                            x += 1.0
                        elif sign[m, i] > 0.0 and not of_root:
                            x -= 1.0
                        found[r] += x - f0 * R0[m, r] - f1 * R1[m, r]
                _solve(S, order, found, work)
                for m in range(n):
                    e0, e1 = g[m, 0], g[m, 1]
                    for i in range(n_active[m]):
                        r = active[m, i]
                        e0 -= R0[m, r] * found[r]
                        e1 -= R1[m, r] * found[r]
                    da[m] += pivot[m, 0] * e0 + pivot[m, 1] * e1
                    dc[m] -= pivot[m, 1] * e0 + pivot[m, 2] * e1
                for r in range(found.shape[0]):
                    rhs[r] += found[r]
            for side in range(2):
                begin, turn = (0, 1.0) if side == 0 else (second, -1.0)
                if single_root:
                    droot[side] = turn * rhs[begin]
            ratio = 1.0 / (_STEP if corrected == 1 else 1.0)
            most = 0.0
            for side in range(2):
                begin, turn = (lead, 1.0) if side == 0 else (second + lead, -1.0)
                for j in range(counts[side]):
                    product = target - slack[side, j] * duals[side, j]
                    if corrected == 1:
                        product -= dslack[side, j] * ddual[side, j]
                    change = turn * rhs[begin + j]
                    move = (product - slack[side, j] * change) / duals[side, j]
                    dslack[side, j], ddual[side, j] = move, change
                    most = max(most, max(-move / slack[side, j], -change / duals[side, j]))
            for m in range(n):
                move, change = da[m], dc[m]  # where all constraints are as chosen
                _move_prices(m, n_active, active, second, chosen, sign, rhs, price, other_price)
                for i in range(n_active[m]):
                    r = active[m, i]
                    of_root = (r == 0 and single_root) or (r == second and single_root)
                    if (sign[m, i] < 0.0) == of_root:  # turned: the word's own dual takes the rest
                        if r >= second:
                            dc[m] -= sign[m, i] * rhs[r]
                        else:
                            da[m] += sign[m, i] * rhs[r]
                q_row, p_row, y_row, z_row, to_q, to_p = Q[m], P[m], Y[m], Z[m], IQ[m], IP[m]
                g_row, h_row, e_row, f_row = G[m], H[m], E[m], F[m]
                ka, kb, kk = KA[m], KB[m], D[m]
                dq, dy, dp, dz = dQ[m], dY[m], dP[m], dZ[m]
                for h in range(width):
                    x = g_row[h] - move - price[h]
                    y = h_row[h] - change - other_price[h]
                    e = kb[h] * x - kk[h] * y
                    f = kk[h] * x + ka[h] * y
                    dq[h] = e
                    dp[h] = f
                    dy[h] = (e_row[h] - y_row[h] * e) * to_q[h]
                    dz[h] = (f_row[h] - z_row[h] * f) * to_p[h]
                most_q, most_p, most_y, most_z = 0.0, 0.0, 0.0, 0.0
                for h in range(width):
                    x, y, e, f = -dq[h] * to_q[h], -dp[h] * to_p[h], -dy[h] / y_row[h], -dz[h] / z_row[h]
                    most_q = x if x > most_q else most_q
                    most_p = y if y > most_p else most_p
                    most_y = e if e > most_y else most_y
                    most_z = f if f > most_z else most_z
                most = max(most, max(max(most_q, most_p), max(most_y, most_z)))
            alpha = 1.0 / max(most * ratio, 1.0)
            ahead = 0.0
            for m in range(n):
                q_row, p_row, y_row, z_row = Q[m], P[m], Y[m], Z[m]
                dq, dy, dp, dz = dQ[m], dY[m], dP[m], dZ[m]
                for h in range(width):
                    ahead += (q_row[h] + alpha * dq[h]) * (y_row[h] + alpha * dy[h])
                    ahead += (p_row[h] + alpha * dp[h]) * (z_row[h] + alpha * dz[h])
            for side in range(2):
                for j in range(counts[side]):
                    ahead += (slack[side, j] + alpha * dslack[side, j]) * (duals[side, j] + alpha * ddual[side, j])
            ahead /= count
            if corrected == 0:
                share = max(ahead / mu, 0.0)
                target = max(mu * min(share * share * share, 1.0), _ENOUGH * tol / count)
        if not (alpha > _SHORTEST and 0.0 < ahead < np.inf):
            stalled = True
            continue
        mu = ahead
        for m in range(n):
            a[m] += alpha * da[m]
            c[m] += alpha * dc[m]
            for h in range(width):
                Q[m, h] += alpha * dQ[m, h]
                P[m, h] += alpha * dP[m, h]
                Y[m, h] += alpha * dY[m, h]
                Z[m, h] += alpha * dZ[m, h]
        for side in range(2):
            roots[side] += alpha * droot[side]
            for j in range(counts[side]):
                slack[side, j] += alpha * dslack[side, j]
                duals[side, j] += alpha * ddual[side, j]
    numbers[0], numbers[1] = counts[0], counts[1]
    state[:size].reshape((n, width))[:] = q
    state[size : 2 * size].reshape((n, width))[:] = p
    return risk, linear, max(gap, 0.0), steps


@kernel
def arborescence_game(
    start: int,
    stop: int,
    theta: Array,
    starts: IntArray,
    words: IntArray,
    single_root: bool,
    s: float,
    tol: Array,
    max_iter: int,
    states: Array,
    state_starts: IntArray,
    warm: Array,
    q: Array,
    p: Array,
    risk: Array,
    linear: Array,
    gap: Array,
    n_iter: Array,
) -> None:
    """The game at the scores of each tree; flat numbers, those of tree i from starts[i] on, and words[i] words.

    risk[i] + linear[i] is what q guarantees and gap[i] more what p does; both points lie in the polytope, and the bounds
    come from duals. A state holds points, duals and cuts where warm[i], and is left with those of this game. Scores are finite.

    Both players' optimality conditions are one monotone complementarity problem, to which Mehrotra's predictor-corrector
    steps are taken from strictly feasible points. Each pair of entries is eliminated, then the duals of the words; a
    symmetric quasi-definite system of the r cuts is left: O(n^2 + n r'^2 n + r^3) a step for r' cuts with a word. Sets that
    get too little are looked for each time the products have shrunk tenfold. (Mehrotra, "On the implementation of a
    primal-dual interior point method", 1992; Vanderbei, "Symmetric quasidefinite matrices", 1995.)
    """
    for i in range(start, stop):
        n = words[i]
        first, last = starts[i], starts[i] + n * (n + 1)
        risk[i], linear[i], gap[i], n_iter[i] = _play(
            theta[first:last].reshape((n, n + 1)), single_root, s, tol[i], max_iter,
            states[state_starts[i] : state_starts[i] + _state_length(n)], warm[i],
            q[first:last].reshape((n, n + 1)), p[first:last].reshape((n, n + 1)),
        )  # fmt: skip
