"""Inner loops of sums over trees: Gibbs marginals, log-partition and draws. Trees are laid out as in ``arborescence``.

With a[m, h] = exp(score of the arc from head h to word m), the sum over all trees of the product of their arcs is the determinant
of the Laplacian (Kirchhoff 1847; Tutte 1984). It is computed by eliminating one word after the other without a single
subtraction (Grassmann, Taksar and Heyman 1985): a word k hands what reaches it on to its own heads,

    a[i, j] += a[i, k] a[k, j] / s[k],    s[k] = sum of a[k, j] over the root and the words that are left,

and the partition function is the product of all s[k]. So every digit is right, however near to singular the Laplacian
is. Marginals are the derivatives of its logarithm, by the same steps backwards, O(n^3) in all. With a single root the
arcs from the root count to first order only: they enter s[k] of the last word alone.

Each word's scores are taken relative to its largest (every tree has one arc per word). Where scores lie so far apart
that exponentials would underflow, the same recursion works with logarithms.
"""

from __future__ import annotations

import numpy as np

from .._core.compile import inline_kernel, kernel
from .._core.types import Array, IntArray
from .arborescence import IMPOSSIBLE, SOLVED, largest
from .special import fast_exp, uniform

__all__ = ["draw", "marginals"]

# exp is taken of scores no further below the largest than this; and no product of an elimination may be smaller than
# _LEAST, which it cannot be where no arc is forbidden and all are above _SAFE. Elsewhere logarithms are used.
_FARTHEST = -330.0
_SAFE = -150.0
_LEAST = 1e-290
# Wilson's algorithm is used where its expected number of steps is at most this often n^2, the cost of reading the scores.
_WILSON_STEPS = 20.0


@inline_kernel
def _log_add(x, y):  # type: ignore[no-untyped-def]
    if x < y:
        x, y = y, x
    return x + np.log1p(np.exp(y - x)) if y > -np.inf else x


@inline_kernel
def _weights(block, n, k, single_root, logs, shift):  # type: ignore[no-untyped-def]
    """logs[m, h] = log of the sum over labels of the arcs from h to m, less shift[m] (and shift[n] from the root, if single).

    Returns the least that is finite, and no more than twice _SAFE where an arc is forbidden.
    """
    for m in range(n):
        row = logs[m]
        line = block[m * (n + 1) * k : (m + 1) * (n + 1) * k]
        for h in range(n + 1):
            top = line[h * k]
            for j in range(1, k):
                top = max(top, line[h * k + j])
            if k > 1 and top > -np.inf:
                total = 0.0
                for j in range(k):
                    total += np.exp(line[h * k + j] - top)
                top += np.log(total)
            row[h] = top
        row[m + 1] = -np.inf
        top = -np.inf
        for h in range(1 if single_root else 0, n + 1):
            top = max(top, row[h])
        if top == -np.inf:
            top = row[0]
        if top == -np.inf:
            top = 0.0
        shift[m] = top
        for h in range(n + 1):
            row[h] -= top
    shift[n] = 0.0
    if single_root:
        top = -np.inf
        for m in range(n):
            top = max(top, logs[m, 0])
        if top > -np.inf:
            shift[n] = top
            for m in range(n):
                logs[m, 0] -= top
    least = 0.0
    forbidden = False
    for m in range(n):
        row = logs[m]
        for h in range(n + 1):
            if row[h] > -np.inf:
                least = min(least, row[h])
            elif h != m + 1:
                forbidden = True
    if forbidden and least >= _FARTHEST:
        least = min(least, 2.0 * _SAFE)
    return least


@inline_kernel
def _swap(a, n, p, q, order):  # type: ignore[no-untyped-def]
    """Words p and q change their names."""
    for h in range(n + 1):
        a[p, h], a[q, h] = a[q, h], a[p, h]
    for m in range(n):
        a[m, p + 1], a[m, q + 1] = a[m, q + 1], a[m, p + 1]
    order[p], order[q] = order[q], order[p]


@inline_kernel
def _eliminate(a, n, single_root, s, order, safe):  # type: ignore[no-untyped-def]
    """Eliminate words n - 1, ..., 0; row k of a becomes the distribution that it hands on. Returns log of the product of s.

    -inf means that there is no tree, NaN that a product became too small. With a single root a word that has no other
    word left must be the last: it changes places with word 0.
    """
    total = 0.0
    for m in range(n):
        order[m] = m
    moved = False
    for k in range(n - 1, -1, -1):
        row = a[k]
        for _ in range(2):
            size = 0.0
            for j in range(1 if single_root and k > 0 else 0, k + 1):
                size += row[j]
            if size > 0.0 or not single_root or k == 0 or moved:
                break
            _swap(a, n, 0, k, order)
            moved = True
        if not size > 0.0:
            return -np.inf
        s[k] = size
        total += np.log(size)
        head = row[: k + 1]
        share = 1.0 / size
        for j in range(k + 1):
            head[j] *= share
        if not safe:
            least_row = np.inf
            for j in range(k + 1):
                least_row = min(least_row, head[j]) if head[j] > 0.0 else least_row
            least_column = np.inf
            for i in range(k):
                x = a[i, k + 1]
                least_column = min(least_column, x) if x > 0.0 else least_column
            if size < _LEAST or least_row < _LEAST or least_row * least_column < _LEAST:
                return np.nan
        for i in range(k):
            x = a[i, k + 1]
            if x > 0.0:
                line = a[i, : k + 1]
                for j in range(k + 1):
                    line[j] += x * head[j]
    return total


@inline_kernel
def _differentiate(a, n, single_root, s, grad, work):  # type: ignore[no-untyped-def]
    """grad = the derivatives of the log-partition by the weights, from what ``_eliminate`` left in a and s."""
    for k in range(n):
        head = a[k, : k + 1]
        g = work[: k + 1]
        for j in range(k + 1):
            g[j] = 0.0
        for i in range(k):
            x = a[i, k + 1]
            line = grad[i, : k + 1]
            total = 0.0
            if x > 0.0:
                for j in range(k + 1):
                    total += line[j] * head[j]
                    g[j] += x * line[j]
            else:
                for j in range(k + 1):
                    total += line[j] * head[j]
            grad[i, k + 1] = total
        mean = 0.0
        for j in range(k + 1):
            mean += g[j] * head[j]
        row = grad[k]
        for j in range(k + 1):
            row[j] = (1.0 + g[j] - mean) / s[k]
        if single_root and k > 0:
            row[0] = g[0] / s[k]
        row[k + 1] = 0.0


@inline_kernel
def _eliminate_logs(a, n, single_root, s, order):  # type: ignore[no-untyped-def]
    """``_eliminate`` with logarithms in a and s."""
    total = 0.0
    for m in range(n):
        order[m] = m
    moved = False
    for k in range(n - 1, -1, -1):
        row = a[k]
        for _ in range(2):
            size = -np.inf
            for j in range(1 if single_root and k > 0 else 0, k + 1):
                size = _log_add(size, row[j])
            if size > -np.inf or not single_root or k == 0 or moved:
                break
            _swap(a, n, 0, k, order)
            moved = True
        if size == -np.inf:
            return -np.inf
        s[k] = size
        total += size
        for j in range(k + 1):
            row[j] -= size
        for i in range(k):
            x = a[i, k + 1]
            if x > -np.inf:
                for j in range(k + 1):
                    a[i, j] = _log_add(a[i, j], x + row[j])
    return total


@inline_kernel
def _differentiate_logs(a, n, single_root, s, grad, work):  # type: ignore[no-untyped-def]
    """``_differentiate`` with logarithms in a, s and grad. What a word hands on is at most n in all, so it is no logarithm."""
    for k in range(n):
        row, out = a[k], grad[k]
        for j in range(k + 1):
            work[j] = -np.inf
        for i in range(k):
            x = a[i, k + 1]
            total = -np.inf
            for j in range(k + 1):
                y = grad[i, j]
                if y > -np.inf:
                    total = _log_add(total, y + row[j])
                    work[j] = _log_add(work[j], y + x)
            grad[i, k + 1] = total
        mean = 0.0
        for j in range(k + 1):
            mean += np.exp(work[j] + row[j])
        for j in range(k + 1):
            if row[j] > -np.inf:
                share = np.exp(row[j]) * (1.0 - mean) + np.exp(work[j] + row[j])
                out[j] = np.log(share) - row[j] - s[k] if share > 0.0 else -np.inf
            else:
                out[j] = -np.inf
        if single_root and k > 0:
            out[0] = work[0] - s[k]
        out[k + 1] = -np.inf


@inline_kernel
def _arc_marginals(logs, n, single_root, a, weights, s, grad, work, order, least):  # type: ignore[no-untyped-def]
    """The log of the sum over trees; a[m, h] becomes the probability of the arc, grad (renamed by order) the derivative."""
    total = np.nan
    if least >= _FARTHEST:
        for m in range(n):
            for h in range(n + 1):
                x = logs[m, h]
                y = fast_exp(x)
                a[m, h] = y if x > -np.inf else 0.0
                weights[m, h] = a[m, h]
        total = _eliminate(a, n, single_root, s, order, least >= _SAFE)
        if total > -np.inf:
            _differentiate(a, n, single_root, s, grad, work)
            for p in range(n):
                m = order[p]
                a[m, 0] = grad[p, 0] * weights[m, 0]
                for q in range(n):
                    h = order[q] + 1
                    a[m, h] = grad[p, q + 1] * weights[m, h]
    if np.isnan(total):
        for m in range(n):
            for h in range(n + 1):
                a[m, h] = logs[m, h]
        total = _eliminate_logs(a, n, single_root, s, order)
        if total > -np.inf:
            _differentiate_logs(a, n, single_root, s, grad, work)
            for p in range(n):
                m = order[p]
                a[m, 0] = np.exp(grad[p, 0] + logs[m, 0])
                for q in range(n):
                    h = order[q] + 1
                    a[m, h] = np.exp(grad[p, q + 1] + logs[m, h])
                    grad[p, q + 1] = np.exp(grad[p, q + 1])
                grad[p, 0] = np.exp(grad[p, 0])
    return total


@kernel
def marginals(
    start: int,
    stop: int,
    theta: Array,
    starts: IntArray,
    sizes: IntArray,
    k: int,
    single_root: bool,
    mu: Array,
    log_partition: Array,
    status: IntArray,
) -> None:
    """mu = the probability of each arc under p(tree) ~ exp(its score). O(n^3) each."""
    top = largest(sizes, start, stop)
    space = np.empty((4, top * (top + 1)))
    s, shift, work, order = np.empty(top), np.empty(top + 1), np.empty(top + 1), np.empty(top, np.int64)
    for i in range(start, stop):
        n = sizes[i]
        width = (n + 1) * k
        block = theta[starts[i] : starts[i] + n * width]
        out = mu[starts[i] : starts[i] + n * width]
        logs, a, grad = (
            space[0, : n * (n + 1)].reshape((n, n + 1)),
            space[1, : n * (n + 1)].reshape((n, n + 1)),
            space[2, : n * (n + 1)].reshape((n, n + 1)),
        )
        weights = space[3, : n * (n + 1)].reshape((n, n + 1))
        least = _weights(block, n, k, single_root, logs, shift)
        total = _arc_marginals(logs, n, single_root, a, weights, s, grad, work, order, least)
        status[i] = SOLVED
        if total == -np.inf:
            status[i] = IMPOSSIBLE
            log_partition[i] = -np.inf
            continue
        for m in range(n + 1):
            total += shift[m]
        log_partition[i] = total
        for m in range(n):
            line = out[m * width : (m + 1) * width]
            for h in range(n + 1):
                p = min(max(a[m, h], 0.0), 1.0)
                if k == 1:
                    line[h] = p
                else:
                    whole = logs[m, h] + shift[m] + (shift[n] if h == 0 else 0.0)
                    for j in range(k):
                        x = block[m * width + h * k + j]
                        line[h * k + j] = p * np.exp(x - whole) if (x > -np.inf and p > 0.0) else 0.0


@inline_kernel
def _walk(logs, n, root, state, head, inside, cumulative):  # type: ignore[no-untyped-def]
    """Wilson's algorithm: loop-erased random walks to the root or to the tree so far. head[m] of every word but ``root``."""
    for m in range(n):
        top = 0.0
        for h in range(n + 1):
            x = logs[m, h]
            # the root of the walk is word ``root`` where there is one; arcs from the real root are then no steps
            if x > -np.inf and (h > 0 or root < 0):
                top += np.exp(x)
            cumulative[m, h] = top
        inside[m] = m == root
    for first in range(n):
        m = first
        while not inside[m]:
            u, state = uniform(state)
            target = u * cumulative[m, n]
            low, high = 0, n
            while low < high:
                middle = (low + high) // 2
                if cumulative[m, middle] > target:
                    high = middle
                else:
                    low = middle + 1
            head[m] = low
            if low == 0:
                break
            m = low - 1
        m = first
        while not inside[m]:
            inside[m] = True
            if head[m] == 0:
                break
            m = head[m] - 1
    return state


@inline_kernel
def _absorb(b, alive, words, count, pick, state):  # type: ignore[no-untyped-def]
    """Draw the head of word ``pick`` given the graph that is left, whose weights are the logarithms b.

    The head is h with the probability of the arc times that of a walk from h to reach the root before it comes back: the
    other words are eliminated one by one, with the root (column 0) and ``pick`` left over.
    """
    a = b.copy()
    others = np.empty(count, np.int64)
    n_others = 0
    for q in range(count):
        if words[q] != pick:
            others[n_others] = words[q]
            n_others += 1
    for e in range(n_others - 1, -1, -1):
        v = others[e]
        size = _log_add(a[v, 0], a[v, pick + 1])
        for q in range(e):
            size = _log_add(size, a[v, others[q] + 1])
        a[v, 0] -= size
        a[v, pick + 1] -= size
        for q in range(e):
            a[v, others[q] + 1] -= size
        for q in range(e):
            m = others[q]
            x = a[m, v + 1]
            if x > -np.inf:
                a[m, 0] = _log_add(a[m, 0], x + a[v, 0])
                a[m, pick + 1] = _log_add(a[m, pick + 1], x + a[v, pick + 1])
                for r in range(e):
                    a[m, others[r] + 1] = _log_add(a[m, others[r] + 1], x + a[v, others[r] + 1])
    # the probability of reaching the root first, from the words eliminated last to the first
    reach = np.full(b.shape[0], -np.inf)
    for e in range(n_others):
        v = others[e]
        total = a[v, 0]
        for q in range(e):
            total = _log_add(total, a[v, others[q] + 1] + reach[others[q]])
        reach[v] = total
    top = b[pick, 0]
    for e in range(n_others):
        top = max(top, b[pick, others[e] + 1] + reach[others[e]])
    whole = np.exp(b[pick, 0] - top)
    for e in range(n_others):
        whole += np.exp(b[pick, others[e] + 1] + reach[others[e]] - top)
    u, state = uniform(state)
    target = u * whole
    answer = 0
    whole = np.exp(b[pick, 0] - top)
    if whole <= target or whole == 0.0:
        for e in range(n_others):
            x = np.exp(b[pick, others[e] + 1] + reach[others[e]] - top)
            whole += x
            if x > 0.0:
                answer = others[e] + 1
                if whole > target:
                    break
    return answer, state


@inline_kernel
def _one_by_one(logs, n, root, state, head):  # type: ignore[no-untyped-def]
    """A random tree by drawing one word's head after the other, each given those before. O(n^4).

    A word that has its head becomes one with it: whoever attaches to it attaches to the whole, whose head is the head's.
    ``origin`` remembers which word an arc into the whole really comes from.
    """
    b = logs.copy()
    words = np.empty(n, np.int64)
    alive = np.ones(n, np.bool_)
    for m in range(n):
        if root >= 0:
            b[m, 0] = -np.inf
    if root >= 0:  # the word ``root`` is the root of the walk
        for m in range(n):
            b[m, 0] = b[m, root + 1]
            b[m, root + 1] = -np.inf
        alive[root] = False
    # which[v] = the word whose arcs to heads stand for v; joint[h] = where word h's column went (0: the root)
    joint = np.empty(n + 1, np.int64)
    for h in range(n + 1):
        joint[h] = h
    if root >= 0:
        joint[root + 1] = 0
    for pick in range(n):
        if not alive[pick]:
            continue
        count = 0
        for m in range(n):
            if alive[m]:
                words[count] = m
                count += 1
        target, state = _absorb(b, alive, words, count, pick, state)
        # a word of the whole that it attaches to, in proportion to the original weights
        top = -np.inf
        for h in range(n + 1):
            if joint[h] == target and (root < 0 or h > 0):
                top = max(top, logs[pick, h])
        whole = 0.0
        for h in range(n + 1):
            if joint[h] == target and (root < 0 or h > 0):
                whole += np.exp(logs[pick, h] - top)
        u, state = uniform(state)
        level = u * whole
        whole = 0.0
        for h in range(n + 1):
            if joint[h] == target and (root < 0 or h > 0):
                x = np.exp(logs[pick, h] - top)
                whole += x
                if x > 0.0:
                    head[pick] = h
                    if whole > level:
                        break
        # pick joins its head
        alive[pick] = False
        for h in range(n + 1):
            if joint[h] == pick + 1:
                joint[h] = target
        for m in range(n):
            if alive[m]:
                b[m, target] = -np.inf if target == m + 1 else _log_add(b[m, target], b[m, pick + 1])
    return state


@kernel
def draw(
    start: int,
    stop: int,
    theta: Array,
    starts: IntArray,
    sizes: IntArray,
    k: int,
    single_root: bool,
    seeds: Array,
    arcs: IntArray,
    word_starts: IntArray,
    status: IntArray,
) -> None:
    """The arcs of a random tree, exactly from p(tree) ~ exp(its score), as places in the flat array.

    With a single root its word is drawn first, from its marginals. Then Wilson's algorithm ("Generating random spanning
    trees more quickly than the cover time", 1996) where walks are short: their expected number of steps is the sum over
    words of the sum of weights times the derivative by the root's arc. Where they are not, one word after the other.
    """
    top = largest(sizes, start, stop)
    space = np.empty((6, top * (top + 1)))
    s, shift, work, order = np.empty(top), np.empty(top + 1), np.empty(top + 1), np.empty(top, np.int64)
    head, inside = np.empty(top, np.int64), np.empty(top, np.bool_)
    for i in range(start, stop):
        n = sizes[i]
        width = (n + 1) * k
        block = theta[starts[i] : starts[i] + n * width]
        state = seeds[i]
        logs, a, grad = (
            space[0, : n * (n + 1)].reshape((n, n + 1)),
            space[1, : n * (n + 1)].reshape((n, n + 1)),
            space[2, : n * (n + 1)].reshape((n, n + 1)),
        )
        cumulative = space[4, : n * (n + 1)].reshape((n, n + 1))
        weights = space[5, : n * (n + 1)].reshape((n, n + 1))
        least = _weights(block, n, k, single_root, logs, shift)
        total = _arc_marginals(logs, n, single_root, a, weights, s, grad, work, order, least)
        status[i] = SOLVED
        if total == -np.inf:
            status[i] = IMPOSSIBLE
            for m in range(n):
                arcs[word_starts[i] + m] = starts[i]
            continue
        root = -1
        if single_root:
            whole = 0.0
            for m in range(n):
                whole += max(a[m, 0], 0.0)
            u, state = uniform(state)
            level = u * whole
            whole = 0.0
            for m in range(n):
                x = max(a[m, 0], 0.0)
                whole += x
                if x > 0.0:
                    root = m
                    if whole > level:
                        break
            head[root] = 0
            # the walks end at the word below the root: the same sums with that word as the root
            smaller = space[3, : (n - 1) * n].reshape((n - 1, n))
            p = 0
            for m in range(n):
                if m == root:
                    continue
                smaller[p, 0] = logs[m, root + 1]
                q = 1
                for h in range(1, n + 1):
                    if h != root + 1:
                        smaller[p, q] = logs[m, h]
                        q += 1
                p += 1
            if n > 1:
                a_small = space[1, : (n - 1) * n].reshape((n - 1, n))
                grad_small = space[2, : (n - 1) * n].reshape((n - 1, n))
                weights_small = space[5, : (n - 1) * n].reshape((n - 1, n))
                _arc_marginals(smaller, n - 1, False, a_small, weights_small, s, grad_small, work, order, least)
        steps = 0.0
        if not single_root:
            for p in range(n):
                m = order[p]
                whole = 0.0
                for h in range(n + 1):
                    whole += np.exp(logs[m, h])
                steps += whole * grad[p, 0]
        elif n > 1:
            grad_small = space[2, : (n - 1) * n].reshape((n - 1, n))
            for p in range(n - 1):
                whole = 0.0
                for h in range(n):
                    whole += np.exp(space[3, order[p] * n + h])
                steps += whole * grad_small[p, 0]
        if steps <= _WILSON_STEPS * (n + 1) ** 2:
            state = _walk(logs, n, root, state, head, inside, cumulative)
        else:
            state = _one_by_one(logs, n, root, state, head)
        for m in range(n):
            place = m * width + head[m] * k
            best = place
            if k > 1:
                high = -np.inf
                for j in range(k):
                    high = max(high, block[place + j])
                whole = 0.0
                for j in range(k):
                    whole += np.exp(block[place + j] - high)
                u, state = uniform(state)
                level = u * whole
                whole = 0.0
                for j in range(k):
                    x = np.exp(block[place + j] - high)
                    whole += x
                    if x > 0.0:
                        best = place + j
                        if whole > level:
                            break
            arcs[word_starts[i] + m] = starts[i] + best
