"""The inner loop of undirected trees: a maximum spanning tree of a dense graph.

Tree i has nodes[i] nodes; its edges (a, b), a < b, stand in the order (0, 1), (0, 2), ..., (1, 2), ... from starts[i] on.
"""

from __future__ import annotations

import numpy as np

from .._core.compile import exact_inline_kernel, exact_kernel
from .._core.types import Array, IntArray
from .arborescence import IMPOSSIBLE, SOLVED, largest

__all__ = ["argmax"]


@exact_inline_kernel
def _edge(a, b, n):  # type: ignore[no-untyped-def]
    if a > b:
        a, b = b, a
    return a * (2 * n - a - 1) // 2 + b - a - 1


@exact_kernel
def argmax(
    start: int,
    stop: int,
    theta: Array,
    starts: IntArray,
    nodes: IntArray,
    edges: IntArray,
    edge_starts: IntArray,
    status: IntArray,
) -> None:
    """The edges of a tree of highest score, as places in the flat array, by Prim's algorithm. O(n^2) each."""
    top = largest(nodes, start, stop)
    best, link = np.empty(top), np.empty(top, np.int64)
    for i in range(start, stop):
        n = nodes[i]
        scores = theta[starts[i] : starts[i] + n * (n - 1) // 2]
        status[i] = SOLVED
        for v in range(1, n):
            best[v] = scores[v - 1]
            link[v] = v - 1
        for r in range(n - 1):
            v = -1
            for u in range(1, n):
                if link[u] >= 0 and (v < 0 or best[u] > best[v]):
                    v = u
            if best[v] == -np.inf:
                status[i] = IMPOSSIBLE
            edges[edge_starts[i] + r] = starts[i] + link[v]
            link[v] = -1
            for u in range(1, n):
                if link[u] >= 0:
                    e = _edge(v, u, n)
                    if scores[e] > best[u]:
                        best[u] = scores[e]
                        link[u] = e
