"""The inner loop of separation: which sets of nodes a point near a tree polytope gives too little, by maximum flows."""

from __future__ import annotations

import numpy as np

from .._core.compile import exact_inline_kernel, exact_kernel
from .._core.types import Array, IntArray

__all__ = ["separate"]

# What is less than this of a unit is no capacity.
_NOTHING = 1e-15


@exact_inline_kernel
def _levels(rest, n, source, level, queue):  # type: ignore[no-untyped-def]
    """Distances from the source over arcs with capacity left; -1 where there is no way."""
    for v in range(n):
        level[v] = -1
    level[source] = 0
    queue[0] = source
    first, last = 0, 1
    while first < last:
        u = queue[first]
        first += 1
        for v in range(n):
            if level[v] < 0 and rest[u, v] > _NOTHING:
                level[v] = level[u] + 1
                queue[last] = v
                last += 1


@exact_inline_kernel
def _max_flow(rest, n, source, sink, level, queue, cursor, path):  # type: ignore[no-untyped-def]
    """The value of a maximum flow by Dinic's method; level >= 0 marks the source's side of a minimum cut. O(n^4) at worst."""
    flow = 0.0
    while True:
        _levels(rest, n, source, level, queue)
        if level[sink] < 0:
            return flow
        for v in range(n):
            cursor[v] = 0
        depth = 0
        path[0] = source
        while True:
            u = path[depth]
            if u == sink:
                least = np.inf
                for j in range(depth):
                    least = min(least, rest[path[j], path[j + 1]])
                flow += least
                back = depth
                for j in range(depth - 1, -1, -1):
                    rest[path[j], path[j + 1]] -= least
                    rest[path[j + 1], path[j]] += least
                    if rest[path[j], path[j + 1]] <= _NOTHING:
                        back = j
                depth = back
                continue
            while cursor[u] < n and not (level[cursor[u]] == level[u] + 1 and rest[u, cursor[u]] > _NOTHING):
                cursor[u] += 1
            if cursor[u] < n:
                depth += 1
                path[depth] = cursor[u]
            elif depth == 0:
                break
            else:
                depth -= 1
                cursor[path[depth]] += 1


@exact_kernel
def separate(start: int, stop: int, points: Array, undirected: bool, inside: IntArray, lack: Array) -> None:
    """For each node of each point a set of nodes with it that gets too little, as inside[i, v] = 1 for its members.

    points[p, u, v] is what goes from u to v. Directed, the set of node t > 0 gets least from outside, and lack is one less
    that. Undirected, what lies within the set of node t exceeds its size less one by most, and lack is by how much.
    """
    n = points.shape[1]
    size = n + 2 if undirected else n
    rest = np.empty((size, size))
    level, queue, cursor, path = (
        np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size + 1, np.int64),
    )  # fmt: skip
    for p in range(start, stop):
        x = points[p]
        for t in range(n):
            if not undirected:
                if t == 0:
                    lack[p, t] = 0.0
                    continue
                for u in range(n):
                    for v in range(n):
                        rest[u, v] = x[u, v]
                lack[p, t] = 1.0 - _max_flow(rest, n, 0, t, level, queue, cursor, path)
                for v in range(n):
                    inside[p, t, v] = 1 if level[v] < 0 else 0
                continue
            source, sink = n, n + 1
            below = 0.0
            for u in range(n + 2):
                for v in range(n + 2):
                    rest[u, v] = 0.5 * x[u, v] if (u < n and v < n) else 0.0
            for u in range(n):
                degree = 0.0
                for v in range(n):
                    degree += x[u, v]
                weight = 1.0 - 0.5 * degree
                if u == t:
                    rest[source, u] = 4.0 * n
                    rest[u, sink] = max(weight, 0.0)
                    below += min(weight, 0.0)
                elif weight > 0.0:
                    rest[u, sink] = weight
                else:
                    rest[source, u] = -weight
                    below += weight
            cut = _max_flow(rest, n + 2, source, sink, level, queue, cursor, path)
            lack[p, t] = 1.0 - (cut + below)
            for v in range(n):
                inside[p, t, v] = 1 if level[v] >= 0 else 0
