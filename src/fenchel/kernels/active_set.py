"""Inner loops of the active-set method for projections from a maximiser: Wolfe's minimum-norm point, many at a time.

Each problem i keeps atoms (rows of a shared pool, named by slots[i]), weights on the simplex, the lower Cholesky factor
of the atoms' shifted Gram matrix, and the residuals r[j] = <d, atom j - mu>, d = theta - mu. The first count[i] slots
are active (weight > 0); those from there to owned[i] hold atoms that were dropped and serve as a cache.

Pool rows hold only the problem's live coordinates live[i, : n_live[i]], those on which two of its atoms differ; all
atoms and mu equal origin[i] elsewhere. where[i] is the inverse of live[i], -1 outside. Vertices of large structures
differ from each other in few coordinates, so this is what makes a step cheap; it also keeps mu exact where atoms agree.

Two choices keep it right to rounding. Steps are corrections for the residual measured at the present point, so errors
of the factor cost passes, never accuracy. The Gram matrix gets a ridge that acts on the correction only (a proximal
step), so affinely dependent atoms need no special case.
"""

from __future__ import annotations

import numpy as np

from .._core.compile import inline_kernel, kernel
from .._core.types import Array, IntArray

__all__ = [
    "CONVERGED",
    "NOT_FINITE",
    "NOT_MAXIMAL",
    "OUT_OF_CALLS",
    "RUNNING",
    "STALLED",
    "begin",
    "expand",
    "grow_factor",
    "judge",
    "pack",
    "resume",
    "step",
]

RUNNING, CONVERGED, OUT_OF_CALLS, STALLED, NOT_FINITE, NOT_MAXIMAL = range(6)

_EPS = 2.220446049250313e-16
# An oracle may compute in float32, or its vertices come from a linear program's solver. What is worse than an earlier
# vertex by more than this share of the sum of the scores' sizes is no rounding.
_ORACLE_SLACK = 1e-6
_RIDGE = 1e-12
_RIDGE_GROWTH = 100.0
_MOST_RIDGE = 1e-6
_MOST_STALLS = 8
_TILE = 256


@inline_kernel
def _dot_from(d, v, mu, k):
    """<d, v - mu> over the first k coordinates."""
    total = 0.0
    for t in range(k):
        total += d[t] * (v[t] - mu[t])
    return total


@inline_kernel
def _rounding(d, v, mu, k, reach):
    """How far off <d, v - mu> may be for the rounding of mu and of d = theta - mu.

    mu is a vertex plus differences of vertices, none of which exceeds ``reach`` by much in any coordinate. Coordinates
    on which v and mu agree add nothing.
    """
    total = 0.0
    for t in range(k):
        far = abs(v[t] - mu[t])
        total += (reach + abs(mu[t])) * (abs(d[t]) + far) if far > 0.0 else 0.0
    return 4.0 * _EPS * total


@inline_kernel
def _largest_entry(v, origin, k):
    """max |v - origin|."""
    top = 0.0
    for t in range(k):
        top = max(top, abs(v[t] - origin[t]))
    return top


@inline_kernel
def _gram(u, v, origin, k):
    """<u - origin, v - origin>."""
    total = 0.0
    for t in range(k):
        total += (u[t] - origin[t]) * (v[t] - origin[t])
    return total


@inline_kernel
def _same(u, v, k):
    for t in range(k):
        if u[t] != v[t]:
            return False
    return True


@inline_kernel
def _correction(factor, n, r, p, q):
    """p = M^-1 (r - shift 1), M = L L^T, with the shift, returned, that makes sum p = 0. O(n^2)."""
    for i in range(n):
        row = factor[i]
        a = r[i]
        b = 1.0
        for j in range(i):
            a -= row[j] * p[j]
            b -= row[j] * q[j]
        p[i] = a / row[i]
        q[i] = b / row[i]
    for i in range(n - 1, -1, -1):
        row = factor[i]
        a = p[i] / row[i]
        b = q[i] / row[i]
        p[i] = a
        q[i] = b
        for j in range(i):
            p[j] -= row[j] * a
            q[j] -= row[j] * b
    top = 0.0
    bottom = 0.0
    for i in range(n):
        top += p[i]
        bottom += q[i]
    shift = top / bottom
    for i in range(n):
        p[i] -= shift * q[i]
    return shift


@inline_kernel
def _append_row(factor, ridge, n, square, tau, share):
    """Complete row n of the factor, which holds the Gram entries with atoms 0..n-1. O(n^2)."""
    row = factor[n]
    rest = square + tau
    for i in range(n):
        earlier = factor[i]
        a = row[i]
        for j in range(i):
            a -= earlier[j] * row[j]
        a /= earlier[i]
        row[i] = a
        rest -= a * a
    least = share * (square + tau)
    pivot = max(rest + least, least)  # rest < 0 is rounding: the atom then gets a larger ridge
    ridge[n] = pivot - rest
    row[n] = np.sqrt(pivot)


@inline_kernel
def _drop(factor, ridge, slots, w, r, n, q, cosines, sines):
    """Move active atom q behind the others and remove its row from the factor by Givens rotations. O((n - q) n)."""
    slot = slots[q]
    for j in range(q, n - 1):
        slots[j] = slots[j + 1]
        w[j] = w[j + 1]
        r[j] = r[j + 1]
        ridge[j] = ridge[j + 1]
    slots[n - 1] = slot
    w[n - 1] = 0.0
    for i in range(q, n - 1):
        row = factor[i]
        below = factor[i + 1]
        for k in range(i + 2):
            row[k] = below[k]
        for k in range(q, i):
            a = row[k]
            b = row[k + 1]
            row[k] = cosines[k] * a + sines[k] * b
            row[k + 1] = cosines[k] * b - sines[k] * a
        a = row[i]
        b = row[i + 1]
        length = np.sqrt(a * a + b * b)
        cosines[i] = a / length
        sines[i] = b / length
        row[i] = length


@inline_kernel
def _solve_active(factor, ridge, slots, w, r, n, p, q):
    """Wolfe's minor cycles: to the least-squares point of the active atoms' hull, dropping what blocks the way.

    After a step of length a the residuals are known without the atoms, since M p = r - shift. Returns the new count.
    """
    while n > 1:
        shift = _correction(factor, n, r, p, q)
        length = 1.0
        block = -1
        for j in range(n):
            if p[j] < 0.0 and w[j] < -length * p[j]:
                length = w[j] / -p[j]
                block = j
        for j in range(n):
            w[j] += length * p[j]
            r[j] = (1.0 - length) * r[j] + length * (shift + ridge[j] * p[j])
        if block < 0:
            break
        w[block] = 0.0
        for j in range(n - 1, -1, -1):
            if w[j] <= 0.0 and n > 1:
                _drop(factor, ridge, slots, w, r, n, j, p, q)
                n -= 1
    total = 0.0
    for j in range(n):
        total += w[j]
    for j in range(n):
        w[j] /= total
    return n


@inline_kernel
def _place(theta, pool, slots, w, n, owned, mu, d, r, k, tile):
    """Recompute mu, d and the residuals of all owned atoms, O(owned k); returns by how much 1/2 ||d||^2 fell.

    Coordinates go by in tiles, so that large atoms are read from memory once.
    """
    fall = 0.0
    for j in range(owned):
        r[j] = 0.0
    for first in range(0, k, _TILE):
        size = min(_TILE, k - first)
        base = pool[slots[0]][first : first + size]
        goal = theta[first : first + size]
        old = mu[first : first + size]
        way = d[first : first + size]
        for t in range(size):
            tile[t] = base[t]
        for j in range(1, n):
            v = pool[slots[j]][first : first + size]
            a = w[j]
            for t in range(size):
                tile[t] += a * (v[t] - base[t])
        for t in range(size):
            now = goal[t] - tile[t]
            fall += (tile[t] - old[t]) * (0.5 * way[t] + 0.5 * now)  # no difference of two large values
            old[t] = tile[t]
            way[t] = now
        for j in range(owned):
            r[j] += _dot_from(way, pool[slots[j]][first : first + size], old, size)
    return fall


@inline_kernel
def _activate(pool, slots, w, r, n, a, factor, ridge, origin, k, tau, share):
    """Make owned atom a >= n the active atom n, with weight 0. O(n (n + k))."""
    slots[n], slots[a] = slots[a], slots[n]
    r[n], r[a] = r[a], r[n]
    w[n] = 0.0
    v = pool[slots[n]]
    for j in range(n):
        factor[n, j] = _gram(pool[slots[j]], v, origin, k) + tau
    _append_row(factor, ridge, n, _gram(v, v, origin, k), tau, share)


@inline_kernel
def _refactor(pool, slots, n, factor, ridge, origin, k, tau, share):
    """The factor of the active atoms from scratch. O(n^2 (n + k))."""
    for i in range(n):
        v = pool[slots[i]]
        for j in range(i):
            factor[i, j] = _gram(pool[slots[j]], v, origin, k) + tau
        _append_row(factor, ridge, i, _gram(v, v, origin, k), tau, share)


@inline_kernel
def _settle(
    theta, pool, slots, w, r, n, owned, factor, ridge, origin, k,
    tau, share, mu, d, tol, reach, p, q, tile,
):  # fmt: skip
    """Solve over all known atoms, active or dropped, to the tolerance; returns the count and the fall of 1/2 ||d||^2.

    Known atoms are looked at before the oracle is asked again: measuring their residuals is all it costs.
    """
    fall = 0.0
    refinements = 0
    for _ in range(4 * owned + 8):
        n = _solve_active(factor, ridge, slots, w, r, n, p, q)
        fall += _place(theta, pool, slots, w, n, owned, mu, d, r, k, tile)
        rough = 0.0
        for j in range(n):
            rough = max(rough, abs(r[j]))
        best = n
        for j in range(n + 1, owned):
            if r[j] > r[best]:
                best = j
        if best < owned and r[best] > tol and r[best] > tol + _rounding(d, pool[slots[best]], mu, k, reach):
            _activate(pool, slots, w, r, n, best, factor, ridge, origin, k, tau, share)
            n += 1
        elif rough > 0.1 * tol and refinements < 3:
            refinements += 1
        else:
            break
    return n, fall


@inline_kernel
def _pairwise(pool, slots, w, r, n, best, k):
    """Move weight from the worst active atom to the best, by exact line search; returns the new count. O(k).

    The factor is not kept up.
    """
    worst = 0 if best > 0 else 1
    for j in range(n):
        if j != best and r[j] < r[worst] and w[j] > 0.0:
            worst = j
    if worst >= n:
        return n
    u = pool[slots[best]]
    v = pool[slots[worst]]
    square = 0.0
    for t in range(k):
        square += (u[t] - v[t]) ** 2
    length = min(w[worst], max(r[best] - r[worst], 0.0) / square) if square > 0.0 else 0.0
    w[best] += length
    w[worst] -= length
    if w[worst] > 0.0:
        return n
    n -= 1
    slots[n], slots[worst] = slots[worst], slots[n]
    w[worst] = w[n]
    w[n] = 0.0
    return n


@kernel
def begin(
    start: int,
    stop: int,
    items: IntArray,
    vertices: Array,
    theta: Array,
    slots: IntArray,
    count: IntArray,
    owned: IntArray,
    weights: Array,
    residuals: Array,
    origin: Array,
    mu: Array,
    direction: Array,
    n_calls: IntArray,
    status: IntArray,
) -> None:
    """The first atom of each problem items[a] is vertices[a]: its origin. It has no live coordinates yet."""
    for a in range(start, stop):
        i = items[a]
        total = 0.0
        for t in range(theta.shape[1]):
            x = vertices[a, t]
            origin[i, t] = x
            mu[i, t] = x
            direction[i, t] = theta[i, t] - x
            total += x
        count[i] = 1
        owned[i] = 1
        weights[i, 0] = 1.0
        residuals[i, 0] = 0.0
        n_calls[i] += 1
        if not np.isfinite(total):
            status[i] = NOT_FINITE


@kernel
def resume(
    start: int,
    stop: int,
    theta: Array,
    closed: Array,
    atom_offsets: IntArray,
    live_offsets: IntArray,
    value_offsets: IntArray,
    packed_weights: Array,
    packed_live: IntArray,
    packed_values: Array,
    pool: Array,
    slots: IntArray,
    count: IntArray,
    owned: IntArray,
    weights: Array,
    origin: Array,
    tau: Array,
    radius: Array,
    reach: Array,
    mu: Array,
    direction: Array,
    live: IntArray,
    where: IntArray,
    n_live: IntArray,
    filled: IntArray,
) -> None:
    """Take over the packed atoms and weights of a solution at other scores, without those that have an entry at a
    coordinate that is closed by now. A problem of which nothing is left keeps count 0."""
    dim = theta.shape[1]
    for i in range(start, stop):
        k = live_offsets[i + 1] - live_offsets[i]
        for t in range(k):
            live[i, t] = packed_live[live_offsets[i] + t]
            where[i, live[i, t]] = t
        n = 0
        total = 0.0
        for j in range(atom_offsets[i + 1] - atom_offsets[i]):
            at = value_offsets[i] + j * k
            usable = packed_weights[atom_offsets[i] + j] > 0.0
            if closed.shape[0] > 0:
                for t in range(dim):
                    x = origin[i, t] if where[i, t] < 0 else packed_values[at + where[i, t]]
                    usable &= not (closed[i, t] and x != 0.0)
            if not usable:
                continue
            v = pool[atom_offsets[i] + j]
            square = 0.0
            for t in range(k):
                v[t] = packed_values[at + t]
                far = abs(v[t] - origin[i, live[i, t]])
                square += far * far
                reach[i] = max(reach[i], far)
            radius[i] = max(radius[i], square)
            slots[i, n] = atom_offsets[i] + j
            weights[i, n] = packed_weights[atom_offsets[i] + j]
            total += weights[i, n]
            n += 1
        if n == 0:
            for t in range(k):
                where[i, live[i, t]] = -1
            continue
        for j in range(n):
            weights[i, j] /= total
        if n > 1:
            tau[i] = radius[i]
        n_live[i] = k
        filled[i] = k
        owned[i] = n
        count[i] = n
        for t in range(dim):
            mu[i, t] = origin[i, t]
            direction[i, t] = theta[i, t] - origin[i, t]


@kernel
def judge(
    start: int,
    stop: int,
    items: IntArray,
    vertices: Array,
    pool: Array,
    slots: IntArray,
    owned: IntArray,
    residuals: Array,
    origin: Array,
    radius: Array,
    reach: Array,
    mu: Array,
    direction: Array,
    live: IntArray,
    where: IntArray,
    n_live: IntArray,
    filled: IntArray,
    n_calls: IntArray,
    max_calls: int,
    tol: float,
    gap: Array,
    status: IntArray,
) -> None:
    """Measure the gap of each problem items[a] by the oracle's answer vertices[a] at direction[i]; where the problem
    goes on, list the answer's new live coordinates."""
    dim = vertices.shape[1]
    for a in range(start, stop):
        i = items[a]
        s = vertices[a]
        d = direction[i]
        m = mu[i]
        n_calls[i] += 1
        value = _dot_from(d, s, m, dim)
        if not np.isfinite(value):
            status[i] = NOT_FINITE
            continue
        radius[i] = max(radius[i], _gram(s, s, origin[i], dim))
        reach[i] = max(reach[i], _largest_entry(s, origin[i], dim))
        noise = _rounding(d, s, m, dim, reach[i])
        r = residuals[i]
        top = 0
        for j in range(1, owned[i]):
            if r[j] > r[top]:
                top = j
        if r[top] > value + noise:
            v = pool[slots[i, top]]
            slack = noise
            for t in range(dim):
                x = v[where[i, t]] if 0 <= where[i, t] < filled[i] else origin[i, t]
                slack += _ORACLE_SLACK * abs(d[t]) * (abs(x) + abs(s[t]))
                slack += 4.0 * _EPS * (reach[i] + abs(m[t])) * (abs(d[t]) + abs(x - m[t]))
            if r[top] > value + slack:
                status[i] = NOT_MAXIMAL
                gap[i] = r[top] - value
                continue
        gap[i] = max(max(value, r[top]), 0.0)
        if gap[i] <= tol * min(1.0, radius[i]) + noise:
            status[i] = CONVERGED
            continue
        if n_calls[i] >= max_calls:
            status[i] = OUT_OF_CALLS
            continue
        k = n_live[i]
        for t in range(dim):
            if s[t] != origin[i, t] and where[i, t] < 0:
                where[i, t] = k
                live[i, k] = t
                k += 1
        n_live[i] = k


@kernel
def step(
    start: int,
    stop: int,
    items: IntArray,
    rows: IntArray,
    vertices: Array,
    theta: Array,
    pool: Array,
    slots: IntArray,
    count: IntArray,
    owned: IntArray,
    weights: Array,
    residuals: Array,
    factor: Array,
    ridge: Array,
    origin: Array,
    tau: Array,
    radius: Array,
    reach: Array,
    mu: Array,
    direction: Array,
    live: IntArray,
    n_live: IntArray,
    filled: IntArray,
    stalls: IntArray,
    tol: float,
    status: IntArray,
) -> None:
    """One major cycle: take vertices[rows[a]] into problem items[a] and solve over its known atoms; rows[a] = -1 takes
    nothing in and starts from the atoms and weights that are there.

    Every problem has a free slot (at owned[i], or an inactive atom's), and the pool a column per live coordinate.
    """
    p = np.empty(slots.shape[1])
    q = np.empty(slots.shape[1])
    work = np.empty((5, pool.shape[1]))
    o, m, d, y, s = work[0], work[1], work[2], work[3], work[4]
    tile = np.empty(_TILE)
    for a in range(start, stop):
        i = items[a]
        w = weights[i]
        r = residuals[i]
        slot = slots[i]
        n = count[i]
        k = n_live[i]
        for t in range(k):
            at = live[i, t]
            o[t] = origin[i, at]
            m[t] = mu[i, at]
            d[t] = direction[i, at]
            y[t] = theta[i, at]
        known = -1
        if rows[a] >= 0:
            for t in range(k):
                s[t] = vertices[rows[a], live[i, t]]
            if filled[i] == k:
                for j in range(owned[i]):
                    if _same(pool[slot[j]], s, k):
                        known = j
                        break
            for j in range(owned[i]):
                for t in range(filled[i], k):
                    pool[slot[j], t] = o[t]
            filled[i] = k
            if known < 0:
                if owned[i] == n:
                    owned[i] += 1
                known = owned[i] - 1
                for t in range(k):
                    pool[slot[known], t] = s[t]
            r[known] = _dot_from(d, s, m, k)
        share = min(_RIDGE * _RIDGE_GROWTH ** stalls[i], _MOST_RIDGE)
        if tau[i] == 0.0 and known >= 0:  # the second atom gives the scale; the factor starts with the first
            v = pool[slot[0]]
            tau[i] = max(_gram(s, s, o, k), _gram(v, v, o, k))
            _refactor(pool, slot, 1, factor[i], ridge[i], o, k, tau[i], share)
        fall = 0.0
        if known >= n and stalls[i] == 0:
            _activate(pool, slot, w, r, n, known, factor[i], ridge[i], o, k, tau[i], share)
            n += 1
        else:
            # A fresh start; or the exact step failed, or the best vertex is active already, which means rounding in the
            # factor. Then a pairwise step, which always gains, and a factor from scratch with more ridge.
            if known >= n:
                slot[n], slot[known] = slot[known], slot[n]
                r[n], r[known] = r[known], r[n]
                w[n] = 0.0
                known = n
                n += 1
            if known >= 0:
                n = _pairwise(pool, slot, w, r, n, known, k)
            fall = _place(y, pool, slot, w, n, owned[i], m, d, r, k, tile)
            if tau[i] > 0.0:
                _refactor(pool, slot, n, factor[i], ridge[i], o, k, tau[i], share)
        n, more = _settle(
            y, pool, slot, w, r, n, owned[i], factor[i], ridge[i], o, k,
            tau[i], share, m, d, tol * min(1.0, radius[i]), reach[i], p, q, tile,
        )  # fmt: skip
        count[i] = n
        for t in range(k):
            mu[i, live[i, t]] = m[t]
            direction[i, live[i, t]] = d[t]
        if known < 0:
            continue
        if fall + more > 0.0:
            stalls[i] = max(stalls[i] - 1, 0)
        elif stalls[i] < _MOST_STALLS:
            stalls[i] += 1
        else:
            status[i] = STALLED


@kernel
def grow_factor(start: int, stop: int, count: IntArray, old: Array, new: Array) -> None:
    """Copy the used corner of each factor into a larger array."""
    for i in range(start, stop):
        for j in range(count[i]):
            for k in range(j + 1):
                new[i, j, k] = old[i, j, k]


@kernel
def pack(
    start: int,
    stop: int,
    pool: Array,
    slots: IntArray,
    live: IntArray,
    filled: IntArray,
    atom_offsets: IntArray,
    live_offsets: IntArray,
    value_offsets: IntArray,
    packed_live: IntArray,
    packed_values: Array,
) -> None:
    """The active atoms of each problem on its live coordinates, one problem after the other."""
    for i in range(start, stop):
        k = filled[i]
        for t in range(k):
            packed_live[live_offsets[i] + t] = live[i, t]
        at = value_offsets[i]
        for j in range(atom_offsets[i + 1] - atom_offsets[i]):
            v = pool[slots[i, j]]
            for t in range(k):
                packed_values[at + t] = v[t]
            at += k


@kernel
def expand(
    start: int,
    stop: int,
    origin: Array,
    atom_offsets: IntArray,
    live_offsets: IntArray,
    value_offsets: IntArray,
    packed_live: IntArray,
    packed_values: Array,
    out: Array,
) -> None:
    """Write out packed atoms in full: problem i's to the first rows of out[i], copies of the first to the rest."""
    for i in range(start, stop):
        k = live_offsets[i + 1] - live_offsets[i]
        n = atom_offsets[i + 1] - atom_offsets[i]
        for j in range(out.shape[1]):
            at = value_offsets[i] + (j if j < n else 0) * k
            for t in range(origin.shape[1]):
                out[i, j, t] = origin[i, t]
            for t in range(k):
                out[i, j, packed_live[live_offsets[i] + t]] = packed_values[at + t]
