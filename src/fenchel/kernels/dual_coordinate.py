"""Inner loops of dual coordinate ascent: the exact best move of one example's dual variable, and sweeps of them.

A loss between classes is L(θ) = max over r of ⟨r, θ⟩ − L*(r). Where the scores of an example follow its own dual variable
with the curvature κ (θ moves by −κ δ when r moves by δ), the best r is the least of L*(r) + κ/2 ‖r − r_old − θ/κ‖²:
the proximal point of L, by Moreau's identity.
"""

from __future__ import annotations

import numpy as np

from .._core.compile import inline_kernel, kernel
from .._core.types import Array

__all__ = [
    "HINGES",
    "LEE_LIN_WAHBA",
    "MAX_MARGIN",
    "WESTON_WATKINS",
    "ZERO_ONE",
    "along_face",
    "climb",
    "find_faces",
    "into_domain",
    "sweep_gram",
    "sweep_rows",
]

# What `kind` says the conjugate is.
MAX_MARGIN = 0  # r = q − e_y, q of the simplex, L* = q_y − 1
ZERO_ONE = 1  # r = q − e_y, L* = max(max q − 1, −price)
HINGES = 2  # sums of hinges of single scores, by tables
WESTON_WATKINS = 3  # r = Σ s_j (e_j − e_y) for j ≠ y, s_j in [0, 1], L* = −Σ s_j
LEE_LIN_WAHBA = 4  # r = s − mean(s), s_y = 0, other s_j in [0, 1], L* = −Σ s_j

_ROUNDS = 100


@inline_kernel
def _lowest(z, total):  # type: ignore[no-untyped-def]
    """nu with Σ (z_j − nu)_+ = total > 0, by Newton's method from the left (finitely many steps)."""
    k = z.shape[0]
    top = z[0]
    for j in range(k):
        top = max(top, z[j])
    nu = -total  # of z − top, so that nothing cancels
    count = k + 1
    for _ in range(_ROUNDS):
        above = 0.0
        now = 0
        for j in range(k):
            d = z[j] - top
            if d > nu:
                above += d
                now += 1
        if now >= count:
            break
        count = now
        nu = (above - total) / now
    return top + nu


@inline_kernel
def _capped(z, cap):  # type: ignore[no-untyped-def]
    """nu with Σ min((z_j − nu)_+, cap) = 1, where cap times the length is at least 1: Newton between two bounds."""
    k = z.shape[0]
    low, high = z[0], z[0]
    for j in range(k):
        low, high = min(low, z[j]), max(high, z[j])
    low -= cap
    nu = low
    for step in range(_ROUNDS):
        total = 0.0
        inside = 0
        for j in range(k):
            d = z[j] - nu
            if d >= cap:
                total += cap
            elif d > 0.0:
                total += d
                inside += 1
        if total > 1.0:
            low = nu
        else:
            high = nu
        if abs(total - 1.0) <= 1e-15 * k:
            break
        nu = nu + (total - 1.0) / inside if inside else 0.5 * (low + high)
        if not low <= nu <= high or step % 10 == 9:
            nu = 0.5 * (low + high)
    return nu


@inline_kernel
def _shared(a, c, sigma):  # type: ignore[no-untyped-def]
    """S with S = Σ over j ≠ c of clip(a_j + sigma S, 0, 1), sigma below 1/(length − 1): Newton between two bounds."""
    k = a.shape[0]
    low, high = 0.0, k - 1.0
    S = 0.0
    for step in range(_ROUNDS):
        total = 0.0
        inside = 0
        for j in range(k):
            if j != c:
                s = a[j] + sigma * S
                if s >= 1.0:
                    total += 1.0
                elif s > 0.0:
                    total += s
                    inside += 1
        rest = total - S
        if rest > 0.0:
            low = S
        else:
            high = S
        if abs(rest) <= 1e-15 * k:
            break
        S += rest / (1.0 - sigma * inside)
        if not low <= S <= high or step % 10 == 9:
            S = 0.5 * (low + high)
    return S


@inline_kernel
def _best(kind, theta, r, c, kappa, price, up, down, up_margin, down_margin, z, new):  # type: ignore[no-untyped-def]
    """The best dual variable of an example of class c, into ``new``; its L*. ``theta`` are its scores with ``r``."""
    k = theta.shape[0]
    conjugate = 0.0
    if kind == HINGES:
        for b in range(k):
            u, d, m, n = up[c, b], down[c, b], up_margin[c, b], -down_margin[c, b]
            first, last = min(m, n), max(m, n)
            # slopes left of both kinks, between them, and right of both
            left, right = -u, d
            between = d - u if n < m else 0.0
            start = theta[b] + kappa * r[b]
            if start - kappa * left < first:
                new[b] = left
            elif start - kappa * between <= first:
                new[b] = min(max((start - first) / kappa, left), between)
            elif start - kappa * between < last:
                new[b] = between
            else:
                new[b] = min(max((start - last) / kappa, between), right)
            at_first = u * max(m - first, 0.0) + d * max(first - n, 0.0)
            at_last = u * max(m - last, 0.0) + d * max(last - n, 0.0)
            conjugate += max(new[b] * first - at_first, new[b] * last - at_last)
        return conjugate
    if kind == WESTON_WATKINS:
        for j in range(k):
            # the slope of the dual in s_j, without the part of the others' sum, which moves the true score as well
            z[j] = r[j] - r[c] + (1.0 + theta[j] - theta[c]) / kappa
        S = _shared(z, c, -1.0)
        for j in range(k):
            new[j] = min(max(z[j] - S, 0.0), 1.0) if j != c else 0.0
            conjugate -= new[j]
        new[c] = conjugate
        return conjugate
    if kind == LEE_LIN_WAHBA:
        mean = 0.0
        for j in range(k):
            mean += theta[j] / k
        for j in range(k):
            z[j] = r[j] + (1.0 + theta[j] - mean) / kappa
        S = _shared(z, c, 1.0 / k)
        total = 0.0
        for j in range(k):
            new[j] = min(max(z[j] + S / k, 0.0), 1.0) if j != c else 0.0
            total += new[j]
        for j in range(k):
            new[j] -= total / k
        return -total
    for j in range(k):
        z[j] = r[j] + theta[j] / kappa
    z[c] += 1.0
    if kind == MAX_MARGIN:
        for j in range(k):
            z[j] += 1.0 / kappa if j != c else 0.0
        nu = _lowest(z, 1.0)
        for j in range(k):
            new[j] = max(z[j] - nu, 0.0)
        conjugate = new[c] - 1.0
    else:  # ZERO_ONE: all entries above `cut` come down to it, for what that wins in the largest
        cap = np.inf
        nu = _lowest(z, 1.0)
        top = z[0]
        for j in range(k):
            top = max(top, z[j])
        if top - nu > 1.0 - price:
            cut = _lowest(z, 1.0 / kappa)
            for j in range(k):
                new[j] = min(z[j], cut)
            nu = _lowest(new, 1.0)
            cap = cut - nu
            if cap < 1.0 - price:  # saying nothing is as good: the largest stays where that begins
                cap = 1.0 - price
                nu = _capped(z, cap)
        largest = 0.0
        for j in range(k):
            new[j] = min(max(z[j] - nu, 0.0), cap)
            largest = max(largest, new[j])
        conjugate = max(largest - 1.0, -price)
    new[c] -= 1.0
    return conjugate


@kernel
def sweep_gram(
    order: Array, gram: Array, share: Array, intercept: float, y: Array, kind: int, price: float, up: Array, down: Array,
    up_margin: Array, down_margin: Array, scores: Array, offsets: Array, r: Array, conjugate: Array, moved: Array,
) -> int:  # fmt: skip
    """The best move of each example of ``order`` in turn, scores being kept for all; how many moved.

    ``scores`` has a row for each class, without the ``offsets``; ``share`` is p_i/alpha, ``intercept`` the square of its
    column. An example that does not move costs O(classes), another O(examples · classes).
    """
    n, k = r.shape
    theta, z, new = np.empty(k), np.empty(k), np.empty(k)
    count = 0
    for at in range(order.shape[0]):
        i = order[at]
        for b in range(k):
            theta[b] = scores[b, i] + offsets[b]
        kappa = max((gram[i, i] + intercept) * share[i], 1e-12)
        conjugate[i] = _best(kind, theta, r[i], y[i], kappa, price, up, down, up_margin, down_margin, z, new)
        moved[i] = False
        for b in range(k):
            delta = new[b] - r[i, b]
            if abs(delta) <= 1e-15:
                continue
            moved[i] = True
            r[i, b] = new[b]
            step = -share[i] * delta
            offsets[b] += step * intercept
            row, column = scores[b], gram[i]
            for j in range(n):
                row[j] += step * column[j]
        count += moved[i]
    return count


@kernel
def sweep_rows(
    order: Array, X: Array, share: Array, intercept: float, y: Array, kind: int, price: float, up: Array, down: Array,
    up_margin: Array, down_margin: Array, norms: Array, w: Array, offsets: Array, r: Array, conjugate: Array, moved: Array,
) -> int:  # fmt: skip
    """The same with weights for the columns of X, a row of ``w`` for each class: O(features · classes) an example."""
    d = X.shape[1]
    k = r.shape[1]
    theta, z, new = np.empty(k), np.empty(k), np.empty(k)
    count = 0
    for at in range(order.shape[0]):
        i = order[at]
        for b in range(k):
            total = offsets[b]
            for j in range(d):
                total += w[b, j] * X[i, j]
            theta[b] = total
        kappa = max((norms[i] + intercept) * share[i], 1e-12)
        conjugate[i] = _best(kind, theta, r[i], y[i], kappa, price, up, down, up_margin, down_margin, z, new)
        moved[i] = False
        for b in range(k):
            delta = new[b] - r[i, b]
            if abs(delta) <= 1e-15:
                continue
            moved[i] = True
            r[i, b] = new[b]
            step = -share[i] * delta
            offsets[b] += step * intercept
            for j in range(d):
                w[b, j] += step * X[i, j]
        count += moved[i]
    return count


# -- faces -------------------------------------------------------------------------------------------------------------
# Near the end each dual variable stays on one face of its domain, where L* is linear. Labels say which: entries of
# _FIXED stay, those of _TIED change alike, those of _FREE each by itself; except for hinges the changes sum to zero.

_FIXED, _FREE, _TIED = 0, 1, 2
_NEAR = 1e-10


@kernel
def find_faces(
    r: Array, y: Array, kind: int, price: float, up: Array, down: Array, up_margin: Array, down_margin: Array,
    labels: Array, slopes: Array, dimension: Array,
) -> None:  # fmt: skip
    """The face of each dual variable, the slope of L* along it, and how many dimensions it has."""
    n, k = r.shape
    for i in range(n):
        c = y[i]
        free = 0
        tied = 0
        if kind == HINGES:
            for b in range(k):
                u, d, m, negative = up[c, b], down[c, b], up_margin[c, b], -down_margin[c, b]
                kink = d - u if negative < m else 0.0
                inside = r[i, b] > -u + _NEAR and r[i, b] < d - _NEAR
                inside = inside and (abs(r[i, b] - kink) > _NEAR or u == 0.0 or d == 0.0)
                labels[i, b] = _FREE if inside else _FIXED
                slopes[i, b] = min(m, negative) if r[i, b] < kink else max(m, negative)
                if u == 0.0 or d == 0.0:
                    slopes[i, b] = negative if u == 0.0 else m
                free += inside
            dimension[i] = free
            continue
        for b in range(k):
            slopes[i, b] = 0.0
        if kind == WESTON_WATKINS:
            slopes[i, c] = 1.0
            for b in range(k):
                inside = b != c and r[i, b] > _NEAR and r[i, b] < 1.0 - _NEAR
                labels[i, b] = _FREE if inside or b == c else _FIXED
                free += inside
            dimension[i] = free
            continue
        if kind == LEE_LIN_WAHBA:
            slopes[i, c] = k
            for b in range(k):
                s = r[i, b] - r[i, c]
                inside = b != c and s > _NEAR and s < 1.0 - _NEAR
                labels[i, b] = _FREE if inside else _TIED
                free += inside
            dimension[i] = free
            continue
        largest = 0.0
        for b in range(k):
            q = r[i, b] + (1.0 if b == c else 0.0)
            labels[i, b] = _FREE if q > _NEAR else _FIXED
            free += q > _NEAR
            largest = max(largest, q)
        if kind == MAX_MARGIN:
            slopes[i, c] = 1.0
        elif largest > 1.0 - price - _NEAR:
            kinked = largest < 1.0 - price + _NEAR
            for b in range(k):
                q = r[i, b] + (1.0 if b == c else 0.0)
                if q > largest - _NEAR:
                    labels[i, b] = _FIXED if kinked else _TIED
                    free -= 1
                    tied += 0 if kinked else 1
            for b in range(k):
                if labels[i, b] == _TIED:
                    slopes[i, b] = 1.0 / tied
        dimension[i] = max(free + min(tied, 1) - 1, 0)


@kernel
def along_face(labels: Array, hinges: bool, x: Array) -> None:
    """The part of each row of x that goes along its face, in place."""
    n, k = x.shape
    for i in range(n):
        if hinges:
            for b in range(k):
                x[i, b] = x[i, b] if labels[i, b] == _FREE else 0.0
            continue
        tied = 0
        total = 0.0
        for b in range(k):
            if labels[i, b] == _TIED:
                tied += 1
                total += x[i, b]
        count = 0
        mean = 0.0
        for b in range(k):
            if labels[i, b] == _FIXED:
                x[i, b] = 0.0
                continue
            if labels[i, b] == _TIED:
                x[i, b] = total / tied
            count += 1
            mean += x[i, b]
        for b in range(k):
            if labels[i, b] != _FIXED:
                x[i, b] -= mean / count


@kernel
def into_domain(
    r: Array, y: Array, kind: int, price: float, up: Array, down: Array, up_margin: Array, down_margin: Array,
    conjugate: Array,
) -> None:  # fmt: skip
    """Each row brought into the domain of its L*, in place, and L* there."""
    n, k = r.shape
    for i in range(n):
        c = y[i]
        conjugate[i] = 0.0
        if kind == HINGES:
            for b in range(k):
                u, d, m, negative = up[c, b], down[c, b], up_margin[c, b], -down_margin[c, b]
                r[i, b] = min(max(r[i, b], -u), d)
                first, last = min(m, negative), max(m, negative)
                at_first = u * max(m - first, 0.0) + d * max(first - negative, 0.0)
                at_last = u * max(m - last, 0.0) + d * max(last - negative, 0.0)
                conjugate[i] += max(r[i, b] * first - at_first, r[i, b] * last - at_last)
        elif kind == WESTON_WATKINS:
            for b in range(k):
                if b != c:
                    r[i, b] = min(max(r[i, b], 0.0), 1.0)
                    conjugate[i] -= r[i, b]
            r[i, c] = conjugate[i]
        elif kind == LEE_LIN_WAHBA:
            own = r[i, c]
            total = 0.0
            for b in range(k):
                r[i, b] = min(max(r[i, b] - own, 0.0), 1.0) if b != c else 0.0
                total += r[i, b]
            for b in range(k):
                r[i, b] -= total / k
            conjugate[i] = -total
        else:
            r[i, c] += 1.0
            nu = _lowest(r[i], 1.0)
            largest = 0.0
            for b in range(k):
                r[i, b] = max(r[i, b] - nu, 0.0)
                largest = max(largest, r[i, b])
            conjugate[i] = r[i, c] - 1.0 if kind == MAX_MARGIN else max(largest - 1.0, -price)
            r[i, c] -= 1.0


@inline_kernel
def _product(dense, by_gram, x, intercept):  # type: ignore[no-untyped-def]
    """The products of inputs with Σ x_i of them, the intercept's column included."""
    image = np.dot(dense, x) if by_gram else np.dot(dense, np.dot(dense.T, x))
    if intercept > 0.0:
        for b in range(x.shape[1]):
            total = 0.0
            for i in range(x.shape[0]):
                total += x[i, b]
            for i in range(x.shape[0]):
                image[i, b] += intercept * total
    return image


@kernel
def climb(
    inputs: Array, by_gram: bool, share: Array, intercept: float, y: Array, kind: int, price: float, up: Array,
    down: Array, up_margin: Array, down_margin: Array, main: Array, offsets: Array, r: Array, conjugate: Array,
    most: int, out: float,
) -> float:  # fmt: skip
    """A step of all dual variables towards the best on the faces where they are; by how much the dual objective rises.

    At most ``most`` steps of conjugate gradients, which end where more than the share ``out`` of the way leaves the
    domains. ``inputs`` and ``main`` are the kernel's matrix and the scores, or rows and weights, as in the sweeps.
    """
    n, k = r.shape
    labels, slopes, dimension = np.empty((n, k), np.int8), np.empty((n, k)), np.empty(n, np.int64)
    find_faces(r, y, kind, price, up, down, up_margin, down_margin, labels, slopes, dimension)
    f = np.flatnonzero((dimension > 0) & (share > 0.0))
    m = f.shape[0]
    if m == 0:
        return 0.0
    hinges = kind == HINGES
    theta, rest, old, face = np.empty((m, k)), np.empty((m, k)), np.empty((m, k)), np.empty((m, k), np.int8)
    classes, scale, before = np.empty(m, np.int64), np.empty((m, 1)), np.empty(m)
    dense = np.empty((m, m if by_gram else inputs.shape[1]))
    total = 0
    for a in range(m):
        i = f[a]
        total += dimension[i]
        classes[a], scale[a, 0], before[a] = y[i], np.sqrt(share[i]), conjugate[i]
        if by_gram:
            for c in range(m):
                dense[a, c] = inputs[i, f[c]]
        else:
            dense[a] = inputs[i]
        for b in range(k):
            if by_gram:
                score = main[b, i]
            else:
                score = 0.0
                for j in range(inputs.shape[1]):
                    score += main[b, j] * inputs[i, j]
            theta[a, b] = score + offsets[b]
            # in units in which the quadratic is symmetric: a change of r is a step / scale
            rest[a, b] = scale[a, 0] * (theta[a, b] - slopes[i, b])
            old[a, b], face[a, b] = r[i, b], labels[i, b]
    along_face(face, hinges, rest)
    step, direction, trial, least = np.zeros((m, k)), rest.copy(), np.empty((m, k)), np.empty(m)
    squares = (rest * rest).sum()
    first = squares
    steepest = scale.max() ** 2
    for _ in range(min(most, total)):
        if squares <= 1e-6 * first or squares == 0.0:
            break
        image = scale * _product(dense, by_gram, scale * direction, intercept)
        along_face(face, hinges, image)
        curvature = (direction * image).sum()
        if curvature <= 1e-12 * (direction * direction).sum() * steepest:
            break
        length = squares / curvature
        step += length * direction
        trial[:] = old + step / scale
        into_domain(trial, classes, kind, price, up, down, up_margin, down_margin, least)
        if ((scale * (trial - old) - step) ** 2).sum() > out**2 * (step * step).sum():
            break
        rest -= length * image
        last = squares
        squares = (rest * rest).sum()
        direction = rest + (squares / last) * direction
    # what leaves its domain is brought back; shorter steps where that loses too much
    best, part = 0.0, 1.0
    chosen, at = np.empty((m, k)), np.empty(m)
    weight = scale * scale
    for _ in range(6):
        trial[:] = old + part * step / scale
        into_domain(trial, classes, kind, price, up, down, up_margin, down_margin, least)
        change = weight * (trial - old)
        image = _product(dense, by_gram, change, intercept)
        gain = 0.0
        for a in range(m):
            won = before[a] - least[a]
            for b in range(k):
                won += theta[a, b] * (trial[a, b] - old[a, b])
                gain -= 0.5 * change[a, b] * image[a, b]
            gain += weight[a, 0] * won
        if gain > best:
            best = gain
            chosen[:], at[:] = trial, least
        elif best > 0.0:
            break
        part *= 0.3
    if best == 0.0:
        return 0.0
    for a in range(m):
        i = f[a]
        conjugate[i] = at[a]
        for b in range(k):
            change[a, b] = -weight[a, 0] * (chosen[a, b] - old[a, b])
            r[i, b] = chosen[a, b]
            offsets[b] += intercept * change[a, b]
    for a in range(m):
        row = inputs[f[a]]
        for b in range(k):
            c = change[a, b]
            if c != 0.0:
                column = main[b]
                for j in range(row.shape[0]):
                    column[j] += c * row[j]
    return best
