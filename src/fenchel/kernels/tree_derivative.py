"""How the marginals of trees move with the scores: the elimination of ``matrix_tree`` and its way back, differentiated."""

from __future__ import annotations

import numpy as np

from .._core.compile import kernel

__all__ = ["directional"]


@kernel
def directional(start, stop, weights, moved, single_root, out):  # type: ignore[no-untyped-def]
    """out = the derivative, along ``moved``, of the derivatives of the log-partition by the weights of the arcs.

    Each number goes with its tangent through the elimination without subtractions, so that all is divided by are sums of
    positive numbers, and nothing is lost however near to singular the Laplacian is. O(n³).
    """
    n = weights.shape[1]
    a, d = np.empty((n, n + 1)), np.empty((n, n + 1))
    grad, dgrad = np.empty((n, n + 1)), np.empty((n, n + 1))
    s, ds, g, dg = np.empty(n), np.empty(n), np.empty(n + 1), np.empty(n + 1)
    order = np.empty(n, np.int64)
    for item in range(start, stop):
        a[:] = weights[item]
        d[:] = moved[item]
        possible = True
        swapped = False
        for m in range(n):
            order[m] = m
        for k in range(n - 1, -1, -1):
            size = 0.0
            for _ in range(2):
                size = 0.0
                for j in range(1 if single_root and k > 0 else 0, k + 1):
                    size += a[k, j]
                if size > 0.0 or not single_root or k == 0 or swapped:
                    break
                # a word that has no other word left must be the last: it changes places with word 0
                for h in range(n + 1):
                    a[0, h], a[k, h] = a[k, h], a[0, h]
                    d[0, h], d[k, h] = d[k, h], d[0, h]
                for m in range(n):
                    a[m, 1], a[m, k + 1] = a[m, k + 1], a[m, 1]
                    d[m, 1], d[m, k + 1] = d[m, k + 1], d[m, 1]
                order[0], order[k] = order[k], order[0]
                swapped = True
            if not size > 0.0:
                possible = False
                break
            dsize = 0.0
            for j in range(1 if single_root and k > 0 else 0, k + 1):
                dsize += d[k, j]
            s[k], ds[k] = size, dsize
            for j in range(k + 1):
                a[k, j] /= size
                d[k, j] = (d[k, j] - a[k, j] * dsize) / size
            for i in range(k):
                x, dx = a[i, k + 1], d[i, k + 1]
                for j in range(k + 1):
                    a[i, j] += x * a[k, j]
                    d[i, j] += dx * a[k, j] + x * d[k, j]
        if not possible:
            out[item] = 0.0
            continue
        for k in range(n):
            for j in range(k + 1):
                g[j] = 0.0
                dg[j] = 0.0
            for i in range(k):
                x, dx = a[i, k + 1], d[i, k + 1]
                total, dtotal = 0.0, 0.0
                for j in range(k + 1):
                    total += grad[i, j] * a[k, j]
                    dtotal += dgrad[i, j] * a[k, j] + grad[i, j] * d[k, j]
                    g[j] += x * grad[i, j]
                    dg[j] += dx * grad[i, j] + x * dgrad[i, j]
                grad[i, k + 1], dgrad[i, k + 1] = total, dtotal
            mean, dmean = 0.0, 0.0
            for j in range(k + 1):
                mean += g[j] * a[k, j]
                dmean += dg[j] * a[k, j] + g[j] * d[k, j]
            for j in range(k + 1):
                plain = single_root and k > 0 and j == 0  # the root is no part of s there
                grad[k, j] = (g[j] if plain else 1.0 + g[j] - mean) / s[k]
                dgrad[k, j] = ((dg[j] if plain else dg[j] - dmean) - grad[k, j] * ds[k]) / s[k]
            grad[k, k + 1], dgrad[k, k + 1] = 0.0, 0.0
        for p in range(n):
            out[item, order[p], 0] = dgrad[p, 0]
            for q in range(n):
                out[item, order[p], order[q] + 1] = dgrad[p, q + 1]
