"""Inner loops of the active-set method for projections from a maximiser: Wolfe's minimum-norm point, many at a time.

Each problem i keeps atoms (rows of a shared pool, named by slots[i]), weights on the simplex, the lower Cholesky factor
of the atoms' shifted Gram matrix, and the residuals r[j] = <d, atom j - mu>, d = theta - mu. The first count[i] slots
are active (weight > 0); those from there to owned[i] hold atoms that were dropped and serve as a cache.

Three choices keep it right to rounding. Steps are *corrections* for the residual measured at the present point, so
errors of the factor cost passes, never accuracy. The Gram matrix gets a ridge that acts on the correction only (a
proximal step), so affinely dependent atoms need no special case. Points are sums of differences from one atom, exact
in every coordinate on which the active atoms agree.
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
    "advance",
    "begin",
    "grow_factor",
    "resume",
]

RUNNING, CONVERGED, OUT_OF_CALLS, STALLED, NOT_FINITE, NOT_MAXIMAL = range(6)

_EPS = 2.220446049250313e-16
# An oracle may compute in float32; what is worse than an earlier vertex by more than this share is no rounding.
_ORACLE_SLACK = 1e-6
_RIDGE = 1e-12
_RIDGE_GROWTH = 100.0
_MOST_RIDGE = 1e-6
_MOST_STALLS = 8


@inline_kernel
def _dot_from(d, v, mu):  # type: ignore[no-untyped-def]
    """<d, v - mu>."""
    total = 0.0
    for t in range(d.shape[0]):
        total += d[t] * (v[t] - mu[t])
    return total


@inline_kernel
def _rounding(d, v, mu):  # type: ignore[no-untyped-def]
    """How far off <d, v - mu> may be for mu's own rounding; coordinates on which v and mu agree add nothing."""
    total = 0.0
    for t in range(d.shape[0]):
        size = abs(mu[t])
        total += abs(d[t]) * (abs(v[t]) + size) + size * abs(v[t] - mu[t]) if v[t] != mu[t] else 0.0
    return 8.0 * _EPS * total


@inline_kernel
def _dot_of_differences(u, v, origin):  # type: ignore[no-untyped-def]
    """<u - origin, v - origin>."""
    total = 0.0
    for t in range(u.shape[0]):
        total += (u[t] - origin[t]) * (v[t] - origin[t])
    return total


@inline_kernel
def _same(u, v):  # type: ignore[no-untyped-def]
    for t in range(u.shape[0]):
        if u[t] != v[t]:
            return False
    return True


@inline_kernel
def _correction(factor, n, r, p, q):  # type: ignore[no-untyped-def]
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
def _append_row(factor, ridge, n, square, tau, share):  # type: ignore[no-untyped-def]
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
def _drop(factor, ridge, slots, w, r, n, q, cosines, sines):  # type: ignore[no-untyped-def]
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
def _solve_active(factor, ridge, slots, w, r, n, p, q):  # type: ignore[no-untyped-def]
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
def _place(theta, pool, slots, w, n, owned, mu, d, r, point):  # type: ignore[no-untyped-def]
    """Recompute mu, d and the residuals of all owned atoms; returns by how much 1/2 ||d||^2 fell. O(owned D)."""
    base = pool[slots[0]]
    point[:] = base
    for j in range(1, n):
        v = pool[slots[j]]
        a = w[j]
        for t in range(point.shape[0]):
            point[t] += a * (v[t] - base[t])
    fall = 0.0
    for t in range(point.shape[0]):
        now = theta[t] - point[t]
        fall += (point[t] - mu[t]) * (0.5 * d[t] + 0.5 * now)  # no difference of two large values
        mu[t] = point[t]
        d[t] = now
    for j in range(owned):
        r[j] = _dot_from(d, pool[slots[j]], mu)
    return fall


@inline_kernel
def _activate(pool, slots, w, r, n, k, factor, ridge, origin, tau, share):  # type: ignore[no-untyped-def]
    """Make owned atom k >= n the active atom n, with weight 0; returns its squared distance from the origin. O(n D)."""
    slots[n], slots[k] = slots[k], slots[n]
    r[n], r[k] = r[k], r[n]
    w[n] = 0.0
    v = pool[slots[n]]
    for j in range(n):
        factor[n, j] = _dot_of_differences(pool[slots[j]], v, origin) + tau
    square = _dot_of_differences(v, v, origin)
    _append_row(factor, ridge, n, square, tau, share)
    return square


@inline_kernel
def _refactor(pool, slots, n, factor, ridge, origin, tau, share):  # type: ignore[no-untyped-def]
    """The factor of the active atoms from scratch; returns their largest squared distance from the origin."""
    radius = 0.0
    for i in range(n):
        v = pool[slots[i]]
        for j in range(i):
            factor[i, j] = _dot_of_differences(pool[slots[j]], v, origin) + tau
        square = _dot_of_differences(v, v, origin)
        radius = max(radius, square)
        _append_row(factor, ridge, i, square, tau, share)
    return radius


@inline_kernel
def _settle(theta, pool, slots, w, r, n, owned, factor, ridge, origin, tau, share, mu, d, tol, p, q, point):  # type: ignore[no-untyped-def]
    """Solve over all known atoms, active or dropped, to the tolerance; returns the count and the fall of 1/2 ||d||^2.

    Known atoms are looked at before the oracle is asked again: that costs as much as measuring the residuals.
    """
    fall = 0.0
    refinements = 0
    for _ in range(4 * owned + 8):
        n = _solve_active(factor, ridge, slots, w, r, n, p, q)
        fall += _place(theta, pool, slots, w, n, owned, mu, d, r, point)
        rough = 0.0
        for j in range(n):
            rough = max(rough, abs(r[j]))
        best = n
        for j in range(n + 1, owned):
            if r[j] > r[best]:
                best = j
        if best < owned and r[best] > tol and r[best] > tol + _rounding(d, pool[slots[best]], mu):
            _activate(pool, slots, w, r, n, best, factor, ridge, origin, tau, share)
            n += 1
        elif rough > 0.1 * tol and refinements < 3:
            refinements += 1
        else:
            break
    return n, fall


@kernel
def begin(
    start: int,
    stop: int,
    items: IntArray,
    vertices: Array,
    theta: Array,
    pool: Array,
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
    """The first atom of each problem items[a] is vertices[a]; its slot is assigned already."""
    for a in range(start, stop):
        i = items[a]
        v = pool[slots[i, 0]]
        v[:] = vertices[a]
        origin[i] = v
        mu[i] = v
        total = 0.0
        for t in range(v.shape[0]):
            direction[i, t] = theta[i, t] - v[t]
            total += direction[i, t]
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
    items: IntArray,
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
    mu: Array,
    direction: Array,
    tol: float,
) -> None:
    """Start problems from atoms and weights that are in place already (from a solution at other scores)."""
    n_max = slots.shape[1]
    p = np.empty(n_max)
    q = np.empty(n_max)
    point = np.empty(theta.shape[1])
    for a in range(start, stop):
        i = items[a]
        n = count[i]
        origin[i] = pool[slots[i, 0]]
        for j in range(1, n):
            v = pool[slots[i, j]]
            tau[i] = max(tau[i], _dot_of_differences(v, v, origin[i]))
        if tau[i] > 0.0:
            radius[i] = _refactor(pool, slots[i], n, factor[i], ridge[i], origin[i], tau[i], _RIDGE)
        mu[i] = origin[i]
        direction[i] = theta[i]
        _place(theta[i], pool, slots[i], weights[i], n, n, mu[i], direction[i], residuals[i], point)
        n, _ = _settle(
            theta[i], pool, slots[i], weights[i], residuals[i], n, n, factor[i], ridge[i], origin[i],
            tau[i], _RIDGE, mu[i], direction[i], tol * min(1.0, radius[i]), p, q, point,
        )  # fmt: skip
        count[i] = n


@kernel
def advance(
    start: int,
    stop: int,
    items: IntArray,
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
    mu: Array,
    direction: Array,
    stalls: IntArray,
    n_calls: IntArray,
    max_calls: int,
    tol: float,
    gap: Array,
    status: IntArray,
) -> None:
    """One major cycle of each problem items[a] with the oracle's answer vertices[a] at direction[i].

    Every problem owns, or has been given at slots[i, owned[i]], a free slot.
    """
    n_max = slots.shape[1]
    p = np.empty(n_max)
    q = np.empty(n_max)
    point = np.empty(theta.shape[1])
    for a in range(start, stop):
        i = items[a]
        s = vertices[a]
        d = direction[i]
        m = mu[i]
        w = weights[i]
        r = residuals[i]
        slot = slots[i]
        n = count[i]
        n_calls[i] += 1
        value = _dot_from(d, s, m)
        if not np.isfinite(value):
            status[i] = NOT_FINITE
            continue
        noise = _rounding(d, s, m)
        top = 0
        for j in range(1, owned[i]):
            if r[j] > r[top]:
                top = j
        if r[top] > value + noise:
            v = pool[slot[top]]
            scale = 0.0
            for t in range(d.shape[0]):
                scale += abs(d[t] * (v[t] - s[t]))
            if r[top] > value + noise + _ORACLE_SLACK * scale:
                status[i] = NOT_MAXIMAL
                gap[i] = r[top] - value
                continue
        square = _dot_of_differences(s, s, origin[i])
        radius[i] = max(radius[i], square)
        fine = tol * min(1.0, radius[i])
        gap[i] = max(max(value, r[top]), 0.0)
        if gap[i] <= fine + noise:
            status[i] = CONVERGED
            continue
        if n_calls[i] >= max_calls:
            status[i] = OUT_OF_CALLS
            continue

        known = -1
        for j in range(owned[i]):
            if _same(pool[slot[j]], s):
                known = j
                break
        if known < 0:
            if owned[i] == n:
                owned[i] += 1
            known = owned[i] - 1
            pool[slot[known]] = s
        r[known] = value
        share = min(_RIDGE * _RIDGE_GROWTH ** stalls[i], _MOST_RIDGE)
        if tau[i] == 0.0:  # the second atom gives the scale; the factor starts with the first
            tau[i] = square
            _refactor(pool, slot, 1, factor[i], ridge[i], origin[i], square, share)
        fall = 0.0
        if known >= n and stalls[i] == 0:
            _activate(pool, slot, w, r, n, known, factor[i], ridge[i], origin[i], tau[i], share)
            n += 1
        else:
            # The exact step failed, or the best vertex is active already: rounding in the factor. Take one pairwise
            # step, which always gains, and factorise afresh with more ridge.
            if known >= n:
                slot[n], slot[known] = slot[known], slot[n]
                r[known] = r[n]
                r[n] = value
                w[n] = 0.0
                known = n
                n += 1
            worst = 0 if known > 0 else 1
            for j in range(n):
                if j != known and r[j] < r[worst] and w[j] > 0.0:
                    worst = j
            if worst < n:
                v = pool[slot[worst]]
                length = 0.0
                for t in range(d.shape[0]):
                    length += (s[t] - v[t]) ** 2
                step = min(w[worst], max(value - r[worst], 0.0) / length) if length > 0.0 else 0.0
                w[known] += step
                w[worst] -= step
                if w[worst] <= 0.0:
                    n -= 1
                    slot[n], slot[worst] = slot[worst], slot[n]
                    w[worst] = w[n]
                    w[n] = 0.0
            fall = _place(theta[i], pool, slot, w, n, owned[i], m, d, r, point)
            _refactor(pool, slot, n, factor[i], ridge[i], origin[i], tau[i], share)
        n, more = _settle(
            theta[i], pool, slot, w, r, n, owned[i], factor[i], ridge[i], origin[i], tau[i], share, m, d,
            fine, p, q, point,
        )  # fmt: skip
        count[i] = n
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
