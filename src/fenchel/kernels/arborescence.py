"""Inner loops of trees of arcs: the best, the k best, and reading and writing them.

All take trees of any sizes at once. Tree i has sizes[i] = n words besides the root; its numbers begin at starts[i] of a flat
array: for each word the heads it may have, 0 for the root and h for word h - 1, and for each head k labels. A word is no
head of its own: what stands there is ignored. The arcs of a tree are written as places in that block of n (n + 1) k
numbers, one for each word.
"""

from __future__ import annotations

import numpy as np

from .._core.compile import exact_inline_kernel, exact_kernel, inline_kernel
from .._core.types import Array, IntArray

__all__ = ["IMPOSSIBLE", "SOLVED", "argmax", "is_tree", "k_best", "largest"]

SOLVED, IMPOSSIBLE = range(2)


@exact_inline_kernel
def largest(sizes, start, stop):  # type: ignore[no-untyped-def]
    top = 0
    for i in range(start, stop):
        top = max(top, sizes[i])
    return top


@exact_inline_kernel
def _best_labels(block, n, k, w):  # type: ignore[no-untyped-def]
    """w[m, h] = the best score of the arcs from head h to word m, -inf from a word to itself."""
    for m in range(n):
        row = w[m]
        line = block[m * (n + 1) * k : (m + 1) * (n + 1) * k]
        if k == 1:
            for h in range(n + 1):
                row[h] = line[h]
        else:
            for h in range(n + 1):
                best = line[h * k]
                for j in range(1, k):
                    x = line[h * k + j]
                    best = x if x > best else best
                row[h] = best
        row[m + 1] = -np.inf


@inline_kernel
def _largest_of(row, start, stop):  # type: ignore[no-untyped-def]
    """The largest of row[start:stop], four at a time so that comparisons do not wait for each other."""
    a = b = c = d = -np.inf
    whole = start + (stop - start) // 4 * 4
    for j in range(start, whole, 4):
        a = row[j] if row[j] > a else a
        b = row[j + 1] if row[j + 1] > b else b
        c = row[j + 2] if row[j + 2] > c else c
        d = row[j + 3] if row[j + 3] > d else d
    for j in range(whole, stop):
        a = row[j] if row[j] > a else a
    a = b if b > a else a
    c = d if d > c else c
    return c if c > a else a


@exact_inline_kernel
def _best_head(row, n, single_root):  # type: ignore[no-untyped-def]
    """The first head of highest score, -1 if all are forbidden; with a single root, the root only where no other is left."""
    first = 1 if single_root else 0
    best = _largest_of(row, first, n + 1)
    if best > -np.inf:
        for h in range(first, n + 1):
            if row[h] == best:
                return h
    if single_root and row[0] > -np.inf:
        return 0
    return -1


@exact_inline_kernel
def _grow(w, n, single_root, entry, numbers, heads):  # type: ignore[no-untyped-def]
    """heads[m] = the head of word m in a tree of highest score, or False where there is none. O(n^2); w is overwritten.

    Paths grow backwards from a word by best arcs until they reach the root or a finished part; a cycle on the way becomes
    one node, whose row of w holds for each head the gain over the cycle's own arc where it enters best, and entry the
    word where that is. A node's arcs from its own words are struck out, so heads need no merging.

    A single root is a tree with as few arcs from the root as possible. An arc of a cycle never comes from the root, so it
    is enough to take the root only where a node has no other head left.
    """
    group, state, row_of, head_of, into, parent, covered = (
        numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5], numbers[6],
    )  # fmt: skip
    path = numbers[7]
    for m in range(n):
        group[m] = m
        row_of[m] = m
    for s in range(2 * n):
        state[s] = 0
        covered[s] = 0
        parent[s] = -1
    count = n
    n_roots = 0
    for first in range(n):
        s = group[first]
        if state[s] == 2:
            continue
        depth = 0
        while True:
            state[s] = 1
            path[depth] = s
            depth += 1
            r = row_of[s]
            row = w[r]
            u = _best_head(row, n, single_root)
            if u < 0:
                return False
            head_of[s] = u
            into[s] = r if s < n else entry[r, u]
            t = -1
            if u == 0:
                n_roots += 1
                if single_root and n_roots > 1:
                    return False
            else:
                t = group[u - 1]
            if t < 0 or state[t] == 2:
                for j in range(depth):
                    state[path[j]] = 2
                break
            if state[t] == 0:
                s = t
                continue
            # the path from t on is a cycle: it becomes the node ``count``, whose row is that of t
            target = row_of[t]
            kept = w[target]
            gain = kept[head_of[t]]
            for h in range(n + 1):
                kept[h] -= gain
            if t < n:
                for h in range(n + 1):
                    entry[target, h] = target
            parent[t] = count
            depth -= 1
            while path[depth] != t:
                v = path[depth]
                source = row_of[v]
                line = w[source]
                gain = line[head_of[v]]
                for h in range(n + 1):
                    x = line[h] - gain
                    if x > kept[h]:
                        kept[h] = x
                        entry[target, h] = source if v < n else entry[source, h]
                parent[v] = count
                depth -= 1
            row_of[count] = target
            for m in range(n):
                if parent[group[m]] == count:
                    group[m] = count
                    kept[m + 1] = -np.inf
            s = count
            count += 1
    for s in range(count - 1, -1, -1):
        if covered[s] == 1:
            continue
        m = into[s]
        heads[m] = head_of[s]
        while m != s:
            covered[m] = 1
            m = parent[m]
    return True


@exact_inline_kernel
def _arc_of(block, n, k, m, h):  # type: ignore[no-untyped-def]
    """The place of the best arc from head h to word m."""
    place = (m * (n + 1) + h) * k
    best = place
    for j in range(1, k):
        if block[place + j] > block[best]:
            best = place + j
    return best


@exact_kernel
def argmax(
    start: int,
    stop: int,
    theta: Array,
    starts: IntArray,
    sizes: IntArray,
    k: int,
    single_root: bool,
    arcs: IntArray,
    word_starts: IntArray,
    status: IntArray,
) -> None:
    """The arcs of a tree of highest score, as places in the flat array. O(n^2 k) each."""
    top = largest(sizes, start, stop)
    entry, numbers, heads = (
        np.empty((top, top + 1), np.int64),
        np.empty((8, 2 * top + 1), np.int64),
        np.empty(top, np.int64),
    )
    space = np.empty(top * (top + 1))
    for i in range(start, stop):
        n = sizes[i]
        block = theta[starts[i] : starts[i] + n * (n + 1) * k]
        w = space[: n * (n + 1)].reshape((n, n + 1))
        chosen = arcs[word_starts[i] : word_starts[i] + n]
        _best_labels(block, n, k, w)
        status[i] = SOLVED
        if not _grow(w, n, single_root, entry, numbers, heads):
            status[i] = IMPOSSIBLE
            for m in range(n):
                chosen[m] = starts[i]
            continue
        for m in range(n):
            chosen[m] = starts[i] + _arc_of(block, n, k, m, heads[m])


@exact_kernel
def k_best(
    start: int,
    stop: int,
    theta: Array,
    starts: IntArray,
    sizes: IntArray,
    k: int,
    single_root: bool,
    most: int,
    arcs: IntArray,
    word_starts: IntArray,
    scores: Array,
    status: IntArray,
) -> None:
    """The ``most`` best trees, best first: arcs[most word_starts[i]:] holds n arcs (within the block) for each.

    Lawler's partition: what remains after a tree is taken out falls into sets of trees that agree with it up to a word
    and differ there; the best of each set is one maximisation. O(most n^3 + most n^2 k) each.
    """
    top = largest(sizes, start, stop)
    entry, numbers, heads = (
        np.empty((top, top + 1), np.int64),
        np.empty((8, 2 * top + 1), np.int64),
        np.empty(top, np.int64),
    )
    space = np.empty(top * (top + 1))
    room = most * max(top, 1) + 1
    found = np.empty((room, top), np.int64)  # the best tree of each set
    value, level, taken = np.empty(room), np.empty(room, np.int64), np.empty(room, np.bool_)
    # arcs that a set forbids at its word: a chain of (arc, link), as sets inherit them
    arc_at, link_at, chain = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    for i in range(start, stop):
        n = sizes[i]
        width = (n + 1) * k
        block = theta[starts[i] : starts[i] + n * width]
        scratch = block.copy()
        w = space[: n * (n + 1)].reshape((n, n + 1))
        out = arcs[most * word_starts[i] : most * word_starts[i] + most * n]
        n_sets = 0
        n_links = 0
        for j in range(most):
            scores[i, j] = -np.inf
        status[i] = SOLVED
        for j in range(most):
            # the sets to look at: everything at first, then the parts of the set whose best was taken
            if j == 0:
                low, high, origin = 0, 1, -1
            else:
                origin = -1
                for s in range(n_sets):
                    if not taken[s] and (origin < 0 or value[s] > value[origin]):
                        origin = s
                if origin < 0:
                    break
                taken[origin] = True
                scores[i, j - 1] = value[origin]
                for m in range(n):
                    out[(j - 1) * n + m] = found[origin, m]
                low, high = level[origin], n
            for p in range(low, high):
                link = -1
                if origin >= 0:
                    for m in range(n):
                        for x in range(m * width, (m + 1) * width):
                            scratch[x] = block[x] if m >= p or x == found[origin, m] else -np.inf
                    if p == level[origin]:
                        link = chain[origin]
                    arc_at[n_links] = found[origin, p]
                    link_at[n_links] = link
                    link = n_links
                    n_links += 1
                    x = link
                    while x >= 0:
                        scratch[arc_at[x]] = -np.inf
                        x = link_at[x]
                _best_labels(scratch, n, k, w)
                if not _grow(w, n, single_root, entry, numbers, heads):
                    continue
                total = 0.0
                for m in range(n):
                    arc = _arc_of(scratch, n, k, m, heads[m])
                    found[n_sets, m] = arc
                    total += block[arc]
                value[n_sets] = total
                level[n_sets] = p
                chain[n_sets] = link
                taken[n_sets] = False
                n_sets += 1
            if j == 0 and n_sets == 0:
                status[i] = IMPOSSIBLE
                break
        if status[i] == IMPOSSIBLE:
            continue
        # the last one needs no parts
        last = 0
        while last < most and scores[i, last] > -np.inf:
            last += 1
        origin = -1
        for s in range(n_sets):
            if not taken[s] and (origin < 0 or value[s] > value[origin]):
                origin = s
        if last < most and origin >= 0:
            scores[i, last] = value[origin]
            for m in range(n):
                out[last * n + m] = found[origin, m]


@exact_kernel
def is_tree(
    start: int, stop: int, heads: IntArray, word_starts: IntArray, sizes: IntArray, single_root: bool, good: IntArray
) -> None:
    """good[i] = -1 where heads (0 for the root, h for word h - 1) make a tree; else a word that is at fault."""
    seen = np.empty(largest(sizes, start, stop) + 1, np.int64)
    for i in range(start, stop):
        n = sizes[i]
        mine = heads[word_starts[i] : word_starts[i] + n]
        good[i] = -1
        n_roots = 0
        for m in range(n):
            seen[m] = -1
            if mine[m] < 0 or mine[m] > n or mine[m] == m + 1:
                good[i] = m
            elif mine[m] == 0:
                n_roots += 1
                if single_root and n_roots > 1:
                    good[i] = m
        if good[i] >= 0:
            continue
        for m in range(n):
            v = m + 1
            while v > 0 and seen[v - 1] < 0:
                seen[v - 1] = m
                v = mine[v - 1]
            if v > 0 and seen[v - 1] == m:
                good[i] = m
                break
