"""Covariances of chains: how Gibbs marginals move with the scores."""

from __future__ import annotations

import numpy as np

from .._core.compile import kernel

__all__ = ["covariances"]


@kernel
def covariances(start, stop, mu, direction, starts, lengths, labels, out):  # type: ignore[no-untyped-def]
    """out = Cov(φ) u for chains with untied transitions, from their marginals alone.

    The distribution is a Markov chain, so that E[⟨u, φ⟩ | y_t = i] is a sum over what comes before t and one over what
    comes after, each a recursion with the conditional probabilities that the marginals hold.
    """
    k = labels
    for item in range(start, stop):
        n = lengths[item]
        if n == 0:
            continue
        base = starts[item]
        node = mu[base : base + n * k].reshape(n, k)
        edge = mu[base + n * k : base + n * k + (n - 1) * k * k].reshape((n - 1) * k, k)
        u_node = direction[base : base + n * k].reshape(n, k)
        u_edge = direction[base + n * k : base + n * k + (n - 1) * k * k].reshape((n - 1) * k, k)
        d_node = out[base : base + n * k].reshape(n, k)
        d_edge = out[base + n * k : base + n * k + (n - 1) * k * k].reshape((n - 1) * k, k)
        before, after = np.zeros((n, k)), np.zeros((n, k))
        for i in range(k):
            before[0, i] = u_node[0, i]
        for t in range(n - 1):
            row = before[t + 1]
            for i in range(k):
                here = before[t, i]
                for j in range(k):
                    row[j] += edge[t * k + i, j] * (here + u_edge[t * k + i, j])
            for j in range(k):
                p = node[t + 1, j]
                row[j] = u_node[t + 1, j] + (row[j] / p if p > 0.0 else 0.0)
        for t in range(n - 2, -1, -1):
            for i in range(k):
                total = 0.0
                for j in range(k):
                    total += edge[t * k + i, j] * (u_edge[t * k + i, j] + u_node[t + 1, j] + after[t + 1, j])
                p = node[t, i]
                after[t, i] = total / p if p > 0.0 else 0.0
        mean = 0.0
        for i in range(k):
            mean += node[0, i] * (before[0, i] + after[0, i])
        for t in range(n):
            for i in range(k):
                d_node[t, i] = node[t, i] * (before[t, i] + after[t, i] - mean)
        for t in range(n - 1):
            for i in range(k):
                here = before[t, i] - mean
                for j in range(k):
                    d_edge[t * k + i, j] = edge[t * k + i, j] * (
                        here + u_edge[t * k + i, j] + u_node[t + 1, j] + after[t + 1, j]
                    )
