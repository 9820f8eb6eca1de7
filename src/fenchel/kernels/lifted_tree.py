"""Inner loops of the consensus ADMM over the lifted description of tree polytopes.

A point x of a multi-graph's arcs is a mixture of trees if and only if, for every node k, the sums over parallel and opposite
arcs can be split between the ends of each edge so that every node but k gets one in all (Martin 1991; Friesen 2019): x is
in the set U_k. In the directed case x also gives each word one head: the set of the root. Here a graph is a list of the
two ends of each arc; both ends are -1 where the arc is forbidden.
"""

from __future__ import annotations

import numpy as np

from .._core.compile import inline_kernel, kernel
from .._core.types import Array, IntArray

__all__ = ["MULTI_ROOT", "SINGLE_ROOT", "UNDIRECTED", "advance"]

MULTI_ROOT, SINGLE_ROOT, UNDIRECTED = range(3)

# Of appendix C of Li et al. (2022): penalties grow or shrink by this factor with the larger of their two residuals. They
# rest after _ADAPT iterations, without which convergence is not proved.
_GROWTH = 1.1
_ADAPT = 400
# Splits are found node by node, until a sweep moves none by more than this share of the residual.
_INNER = 0.05
_SWEEPS = 60


@inline_kernel
def _weighted_simplex(c, weight, size, out):  # type: ignore[no-untyped-def]
    """out = max(c - weight tau, 0) with the tau that makes it sum to one; entries of weight zero stay zero (Michelot 1986)."""
    total = -1.0
    whole = 0.0
    for i in range(size):
        if weight[i] > 0.0:
            total += c[i]
            whole += weight[i]
            out[i] = 1.0
        else:
            out[i] = 0.0
    if whole == 0.0:
        return
    tau = total / whole
    dropped = True
    while dropped:
        dropped = False
        for i in range(size):
            if out[i] > 0.0 and c[i] <= weight[i] * tau:
                out[i] = 0.0
                total -= c[i]
                whole -= weight[i]
                dropped = True
        if dropped and whole > 0.0:
            tau = total / whole
    for i in range(size):
        out[i] = c[i] - weight[i] * tau if out[i] > 0.0 else 0.0


@inline_kernel
def _project_on_split(v, ends, pairs, k, n_nodes, sums, split, tol, c, fresh, out):  # type: ignore[no-untyped-def]
    """out = the point of U_k nearest to v: the least change of the sums over edges that can be split.

    split[j, i] is what node j takes of the edge {i, j}. Each node in turn takes its best share given the others', a
    weighted projection onto the simplex, whose threshold is half the multiplier alpha_j of the dual.
    """
    for i in range(n_nodes):
        for j in range(n_nodes):
            sums[i, j] = 0.0
    for a in range(v.shape[0]):
        i, j = ends[a, 0], ends[a, 1]
        if i >= 0:
            sums[i, j] += v[a]
            sums[j, i] += v[a]
    for _ in range(_SWEEPS):
        change = 0.0
        for j in range(n_nodes):
            if j == k:
                continue
            for i in range(n_nodes):
                c[i] = sums[i, j] - split[i, j]
            _weighted_simplex(c, pairs[j], n_nodes, fresh)
            for i in range(n_nodes):
                change = max(change, abs(fresh[i] - split[j, i]))
                split[j, i] = fresh[i]
        if change <= tol:
            break
    for a in range(v.shape[0]):
        i, j = ends[a, 0], ends[a, 1]
        out[a] = v[a] + (split[i, j] + split[j, i] - sums[i, j]) / pairs[i, j] if i >= 0 else 0.0


@inline_kernel
def _project_heads(v, ends, n, width, labels, beta, ones, c, out):  # type: ignore[no-untyped-def]
    """Each word's arcs on the simplex, arcs from the root lowered by beta. Returns what the root gets, and its slope."""
    mass = 0.0
    slope = 0.0
    for m in range(n):
        first = m * width
        for j in range(width):
            ones[j] = 1.0 if ends[first + j, 0] >= 0 else 0.0
            c[j] = v[first + j] - (beta if j < labels else 0.0)
        _weighted_simplex(c, ones, width, out[first : first + width])
        n_root = 0
        n_all = 0
        for j in range(width):
            if out[first + j] > 0.0:
                n_all += 1
                if j < labels:
                    n_root += 1
                    mass += out[first + j]
        if n_all > 0:
            slope -= n_root - n_root * n_root / n_all
    return mass, slope


@inline_kernel
def _project_on_root_set(v, ends, n, width, labels, kind, ones, c, out):  # type: ignore[no-untyped-def]
    """out = the nearest point with one head for each word and, with a single root, one arc from the root in all.

    That constraint's multiplier beta is the zero of a piecewise linear function that decreases, found by Newton's method
    kept inside a bracket (appendix D of Li et al. sorts its kinks instead).
    """
    if kind == UNDIRECTED:
        for a in range(v.shape[0]):
            out[a] = v[a] if ends[a, 0] >= 0 else 0.0
        return
    mass, slope = _project_heads(v, ends, n, width, labels, 0.0, ones, c, out)
    if kind == MULTI_ROOT:
        return
    spread = 1.0
    for a in range(v.shape[0]):
        if ends[a, 0] >= 0:
            spread = max(spread, abs(v[a]))
    low, high = -4.0 * spread - 2.0, 4.0 * spread + 2.0
    beta = 0.0
    for _ in range(200):
        if abs(mass - 1.0) <= 1e-14:
            break
        if mass > 1.0:
            low = beta
        else:
            high = beta
        step = beta - (mass - 1.0) / slope if slope < 0.0 else low
        beta = step if low < step < high else 0.5 * (low + high)
        mass, slope = _project_heads(v, ends, n, width, labels, beta, ones, c, out)
        if high - low <= 1e-16 * spread:
            break


@kernel
def advance(
    start: int,
    stop: int,
    items: IntArray,
    theta: Array,
    ends: IntArray,
    pairs: Array,
    n_nodes: int,
    labels: int,
    kind: int,
    steps: int,
    done: IntArray,
    x: Array,
    copies: Array,
    duals: Array,
    splits: Array,
    rho: Array,
    residual: Array,
) -> None:
    """``steps`` iterations more for each problem items[q]: copies u_k of x in U_k, x in the set of the root, multipliers.

    As in section 4.2 of Li, Saeed, Zhang, Ziebart and Gimpel (2022), each copy carrying its share of the objective.
    residual = the largest distance of a copy from x. O(n_nodes^3) a sweep, n_nodes sets of n_nodes^2 edges.
    """
    dim = theta.shape[1]
    n_sets = copies.shape[1]
    width = dim // max(n_nodes - 1, 1)
    v, goal, fresh_x = np.empty(dim), np.empty(dim), np.empty(dim)
    sums, c, fresh = np.empty((n_nodes, n_nodes)), np.empty(max(n_nodes, width)), np.empty(n_nodes)
    ones = np.empty(max(n_nodes, width))
    share = float(n_sets + 1)
    for q in range(start, stop):
        p = items[q]
        w, arcs, at = theta[p], ends[p], x[p]
        for _ in range(steps):
            done[p] += 1
            inner = _INNER * min(residual[p], 1.0)
            total = 2.0
            for a in range(dim):
                goal[a] = 2.0 * w[a]
            for s in range(n_sets):
                r = rho[p, s] * share
                out, dual = copies[p, s], duals[p, s]
                for a in range(dim):
                    v[a] = (2.0 * w[a] + r * (at[a] + dual[a])) / (2.0 + r)
                node = s if kind == UNDIRECTED else s + 1
                _project_on_split(v, arcs, pairs[p], node, n_nodes, sums, splits[p, s], inner, c, fresh, out)
                for a in range(dim):
                    goal[a] += r * (out[a] - dual[a])
                total += r
            for a in range(dim):
                goal[a] /= total
            _project_on_root_set(goal, arcs, n_nodes - 1, width, labels, kind, ones, c, fresh_x)
            moved = 0.0
            for a in range(dim):
                moved += (fresh_x[a] - at[a]) ** 2
                at[a] = fresh_x[a]
            moved = np.sqrt(moved)
            worst = moved
            for s in range(n_sets):
                out, dual = copies[p, s], duals[p, s]
                apart = 0.0
                for a in range(dim):
                    gap = at[a] - out[a]
                    apart += gap * gap
                    dual[a] += gap
                apart = np.sqrt(apart)
                worst = max(worst, apart)
                factor = 1.0
                if done[p] <= _ADAPT:
                    if apart > rho[p, s] * moved:
                        factor = _GROWTH
                    elif apart < rho[p, s] * moved:
                        factor = 1.0 / _GROWTH
                rho[p, s] *= factor
                for a in range(dim):
                    dual[a] /= factor
            residual[p] = worst
