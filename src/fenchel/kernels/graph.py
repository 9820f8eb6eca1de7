"""Inner loops of labelled graphs: elimination orders, the best labelling, marginals, draws, and the KL projection on trees.

A batch holds labellings of graphs of any shapes. Item i follows the plan ``which[i]``; its numbers begin at starts[i] of a
flat array: the nodes, then a k x k table for each edge (row: the label of the edge's first node). A plan says in which
order nodes are eliminated, children before parents. What is eliminated with node v is its bag: v and the neighbours it has
by then, its separator; ``up`` is the node of the separator that goes first. In a forest that is the only one, the parent.

Arrays of plans are one after the other: those with an entry for each node from node_off[p] on, edges from edge_off[p] on.
"""

from __future__ import annotations

import numpy as np

from .._core.compile import exact_kernel, inline_kernel, kernel
from .._core.types import Array, IntArray
from .chain import IMPOSSIBLE, SOLVED, UNFINISHED, _collect, _divergence, _draw_index, _exp_row, _top_of
from .special import fast_exp

__all__ = [
    "BEST",
    "DRAW",
    "IMPOSSIBLE",
    "LOSES_DIGITS",
    "MARGINALS",
    "SOLVED",
    "best_in_trees",
    "draw_from_trees",
    "eliminate",
    "over_bags",
    "peel",
    "project_on_trees",
    "sum_over_trees",
    "walk_forests",
]

LOSES_DIGITS = 3
BEST, MARGINALS, DRAW = range(3)
_LEAST = 1e-150


# -- elimination orders ------------------------------------------------------------------------------------------------


@exact_kernel
def walk_forests(
    start: int, stop: int, parents: IntArray, node_off: IntArray, order: IntArray, up_edge: IntArray, good: Array
) -> None:
    """Children before parents, for forests given by parents; ``good`` is False where they go in a circle."""
    for f in range(start, stop):
        lo = node_off[f]
        n = node_off[f + 1] - lo
        waits = np.zeros(n, np.int64)
        edges = 0
        for v in range(n):
            up = parents[lo + v]
            up_edge[lo + v] = -1
            if up >= 0:
                waits[up] += 1
                up_edge[lo + v] = edges
                edges += 1
        count = 0
        for v in range(n):
            u = v
            # a leaf, and then whatever it was the last child of, as long as that has been passed
            while u >= 0 and waits[u] == 0:
                waits[u] = -1
                order[lo + count] = u
                count += 1
                u = parents[lo + u]
                if u >= 0:
                    waits[u] -= 1
                    if u > v:
                        break
        good[f] = count == n


@exact_kernel
def eliminate(linked: Array, order: IntArray, separators: IntArray, sizes: IntArray) -> None:
    """An elimination order that adds few edges (min-fill, then least degree); ``linked`` is used up.

    separators[v, :sizes[v]] are the neighbours that v has when it goes.
    """
    n = linked.shape[0]
    gone = np.zeros(n, np.bool_)
    around = np.empty(n, np.int64)
    fill = np.empty(n, np.int64)
    degree = np.empty(n, np.int64)
    stale = np.ones(n, np.bool_)
    for step in range(n):
        best = -1
        for v in range(n):
            if gone[v]:
                continue
            if stale[v]:
                d = 0
                for u in range(n):
                    if linked[v, u]:
                        around[d] = u
                        d += 1
                missing = 0
                for a in range(d):
                    for b in range(a):
                        missing += 0 if linked[around[a], around[b]] else 1
                fill[v] = missing
                degree[v] = d
                stale[v] = False
            if best < 0 or fill[v] < fill[best] or (fill[v] == fill[best] and degree[v] < degree[best]):
                best = v
        d = 0
        for u in range(n):
            if linked[best, u]:
                around[d] = u
                separators[best, d] = u
                d += 1
        sizes[best] = d
        order[step] = best
        gone[best] = True
        for a in range(d):
            for b in range(a):
                linked[around[a], around[b]] = True
                linked[around[b], around[a]] = True
            linked[around[a], best] = False
            linked[best, around[a]] = False
        for a in range(d):  # whose count of missing edges may have changed: neighbours, and theirs
            stale[around[a]] = True
            for u in range(n):
                if linked[around[a], u]:
                    stale[u] = True


# -- trees -------------------------------------------------------------------------------------------------------------


@inline_kernel
def _most_nodes(which, node_off, start, stop):  # type: ignore[no-untyped-def]
    top = 1
    for i in range(start, stop):
        top = max(top, node_off[which[i] + 1] - node_off[which[i]])
    return top


@exact_kernel
def best_in_trees(
    start: int,
    stop: int,
    theta: Array,
    starts: IntArray,
    which: IntArray,
    node_off: IntArray,
    order: IntArray,
    up: IntArray,
    up_edge: IntArray,
    flip: Array,
    k: int,
    labels: IntArray,
    label_starts: IntArray,
    status: IntArray,
) -> None:
    """A labelling of highest score of each forest (max-product). O(nodes k^2) each."""
    below = np.empty((_most_nodes(which, node_off, start, stop), k))
    best = np.empty(k)
    for i in range(start, stop):
        lo = node_off[which[i]]
        n = node_off[which[i] + 1] - lo
        nodes = theta[starts[i] : starts[i] + n * k].reshape((n, k))
        first = starts[i] + n * k
        chosen = labels[label_starts[i] : label_starts[i] + n]
        status[i] = SOLVED
        for v in range(n):
            for a in range(k):
                below[v, a] = nodes[v, a]
        for t in range(n):
            v = order[lo + t]
            row = below[v]
            top = _top_of(row)
            if not top > -np.inf:
                status[i] = IMPOSSIBLE
                break
            for a in range(k):
                row[a] -= top
            u = up[lo + v]
            if u < 0:
                continue
            at = first + up_edge[lo + v] * k * k
            table = theta[at : at + k * k].reshape((k, k))
            into = below[u]
            if flip[lo + v]:
                for a in range(k):
                    best[a] = -np.inf
                for b in range(k):
                    line, x = table[b], row[b]
                    for a in range(k):
                        y = line[a] + x
                        best[a] = y if y > best[a] else best[a]
            else:
                for a in range(k):
                    line = table[a]
                    high = -np.inf
                    for b in range(k):
                        y = line[b] + row[b]
                        high = y if y > high else high
                    best[a] = high
            for a in range(k):
                into[a] += best[a]
        for t in range(n - 1, -1, -1):
            v = order[lo + t]
            u = up[lo + v]
            if status[i] == IMPOSSIBLE:
                chosen[v] = 0
                continue
            at = first + up_edge[lo + v] * k * k
            high = -np.inf
            label = 0
            for b in range(k):
                x = below[v, b]
                if u >= 0:
                    x += theta[at + (b * k + chosen[u] if flip[lo + v] else chosen[u] * k + b)]
                if x > high:
                    high = x
                    label = b
            chosen[v] = label


@kernel
def sum_over_trees(
    start: int,
    stop: int,
    theta: Array,
    starts: IntArray,
    which: IntArray,
    node_off: IntArray,
    edge_off: IntArray,
    order: IntArray,
    up: IntArray,
    up_edge: IntArray,
    flip: Array,
    k: int,
    truth: IntArray,
    label_starts: IntArray,
    mu: Array,
    log_partition: Array,
    log_likelihood: Array,
    status: IntArray,
) -> None:
    """Marginals and log-partition of the Gibbs distribution on forests; with a ``truth`` also its log-probability.

    Probabilities are scaled at each node. Downwards, an edge has the probability of its parent's label times that of the
    child's given it and what is below, a quotient of upward numbers, so edges and nodes agree to rounding. Where numbers
    are too far apart for this, the status says LOSES_DIGITS and logarithms have to be used (``over_bags``).
    """
    most = _most_nodes(which, node_off, start, stop)
    alpha, into = np.empty((most, k)), np.empty((most, k))
    weight = np.empty(k)
    asked = truth.shape[0] > 0
    for i in range(start, stop):
        p = which[i]
        lo = node_off[p]
        n, m = node_off[p + 1] - lo, edge_off[p + 1] - edge_off[p]
        first = starts[i] + n * k
        nodes = theta[starts[i] : first].reshape((n, k))
        mu_nodes = mu[starts[i] : first].reshape((n, k))
        tables = theta[first : first + m * k * k].reshape((m, k * k))
        mu_flat = mu[first : first + m * k * k].reshape((m, k * k))
        mu_tables = mu[first : first + m * k * k].reshape((m, k, k))
        done, far = SOLVED, 0
        log_sum, product = 0.0, 1.0
        for v in range(n):
            top = _top_of(nodes[v])
            if not top > -np.inf:
                done = IMPOSSIBLE
                break
            far += _exp_row(nodes[v], top, alpha[v])
            log_sum += top
        if done == SOLVED and far > 0:
            done = LOSES_DIGITS
        if done == SOLVED:
            for t in range(n):
                v = order[lo + t]
                row = alpha[v]
                total = 0.0
                for b in range(k):
                    total += row[b]
                if not total > 0.0:
                    done = IMPOSSIBLE
                    break
                share = 1.0 / total
                tiny = 0
                for b in range(k):
                    x = row[b] * share
                    row[b] = x
                    tiny += 1 if (x > 0.0 and x < _LEAST) else 0
                product *= total
                if product < 1e-140 or product > 1e140:
                    log_sum += np.log(product)
                    product = 1.0
                if tiny > 0:
                    done = LOSES_DIGITS
                    break
                u = up[lo + v]
                if u < 0:
                    continue
                e = up_edge[lo + v]
                line = mu_tables[e]
                top = _top_of(tables[e])
                if not top > -np.inf:
                    done = IMPOSSIBLE
                    break
                if _exp_row(tables[e], top, mu_flat[e]) > 0:
                    done = LOSES_DIGITS
                    break
                log_sum += top
                arriving = into[v]
                if flip[lo + v]:
                    x = row[0]
                    for a in range(k):
                        arriving[a] = line[0, a] * x
                    for b in range(1, k):
                        x = row[b]
                        for a in range(k):
                            arriving[a] += line[b, a] * x
                else:
                    for a in range(k):
                        x = 0.0
                        for b in range(k):
                            x += line[a, b] * row[b]
                        arriving[a] = x
                # the parent's numbers are brought to sum to one after each child, so that a product of two never vanishes
                above = alpha[u]
                total, before = 0.0, 0.0
                for a in range(k):
                    before += above[a]
                    x = above[a] * arriving[a]
                    above[a] = x
                    total += x
                if not total > 0.0:
                    done = IMPOSSIBLE
                    break
                share = 1.0 / total
                for a in range(k):
                    x = above[a] * share
                    above[a] = x
                    tiny += 1 if (x > 0.0 and x < _LEAST) else 0
                if tiny > 0:
                    done = LOSES_DIGITS
                    break
                product *= total
                if product < 1e-140 or product > 1e140:
                    log_sum += np.log(product)
                    product = 1.0
        status[i] = done
        log_partition[i] = log_sum + np.log(product)
        log_likelihood[i] = 0.0
        if done != SOLVED:
            continue
        goal = truth[label_starts[i] : label_starts[i] + n] if asked else truth
        product, log_product = 1.0, 0.0
        for t in range(n - 1, -1, -1):
            v = order[lo + t]
            u = up[lo + v]
            row, node = alpha[v], mu_nodes[v]
            if u < 0:
                for b in range(k):
                    node[b] = row[b]
                if asked:
                    product, log_product = _collect(product, log_product, row[goal[v]])
                continue
            line, arriving, above = mu_tables[up_edge[lo + v]], into[v], mu_nodes[u]
            if asked:
                a, b = goal[u], goal[v]
                x = line[b, a] if flip[lo + v] else line[a, b]
                share = row[b] * x / arriving[a] if arriving[a] > 0.0 else 0.0
                product, log_product = _collect(product, log_product, share)
            for a in range(k):
                x = arriving[a]
                y = above[a] / (x if x > 0.0 else 1.0)
                weight[a] = y if x > 0.0 else 0.0
            if flip[lo + v]:
                for b in range(k):
                    x, total = row[b], 0.0
                    out = line[b]
                    for a in range(k):
                        y = out[a] * x * weight[a]
                        out[a] = y
                        total += y
                    node[b] = total
            else:
                for b in range(k):
                    node[b] = 0.0
                for a in range(k):
                    x = weight[a]
                    out = line[a]
                    for b in range(k):
                        y = out[b] * row[b] * x
                        out[b] = y
                        node[b] += y
        log_likelihood[i] = log_product + np.log(product)


@kernel
def draw_from_trees(
    start: int,
    stop: int,
    mu: Array,
    starts: IntArray,
    which: IntArray,
    node_off: IntArray,
    order: IntArray,
    up: IntArray,
    up_edge: IntArray,
    flip: Array,
    k: int,
    uniform: Array,
    labels: IntArray,
    label_starts: IntArray,
) -> None:
    """A labelling whose mean vertex is mu, on forests: each label given its parent's."""
    share = np.empty(k)
    for i in range(start, stop):
        lo = node_off[which[i]]
        n = node_off[which[i] + 1] - lo
        first = starts[i] + n * k
        for t in range(n - 1, -1, -1):
            v = order[lo + t]
            u = up[lo + v]
            at = first + up_edge[lo + v] * k * k
            for b in range(k):
                if u < 0:
                    x = mu[starts[i] + v * k + b]
                else:
                    a = labels[label_starts[i] + u]
                    x = mu[at + (b * k + a if flip[lo + v] else a * k + b)]
                share[b] = max(x, 0.0)
            labels[label_starts[i] + v] = _draw_index(share, k, uniform[label_starts[i] + v])


@kernel
def peel(
    n: int,
    order: IntArray,
    up: IntArray,
    up_edge: IntArray,
    flip: Array,
    k: int,
    nodes: Array,
    tables: Array,
    weights: Array,
    labels: IntArray,
) -> int:
    """Labellings and weights whose mean is a point on a forest, which is used up; returns their number.

    Each takes the largest edge that is left at every step and uses one up, so there are at most as many as numbers.
    """
    count = 0
    left = 1.0
    while count < weights.shape[0]:
        amount = left
        for t in range(n - 1, -1, -1):
            v = order[t]
            u = up[v]
            chosen, high = 0, -1.0
            for b in range(k):
                if u < 0:
                    x = nodes[v, b]
                else:
                    a = labels[count, u]
                    x = tables[up_edge[v], b, a] if flip[v] else tables[up_edge[v], a, b]
                if x > high:
                    high = x
                    chosen = b
            labels[count, v] = chosen
            amount = min(amount, high)
        if amount <= 1e-14:
            break
        for v in range(n):
            u = up[v]
            if u < 0:
                nodes[v, labels[count, v]] -= amount
            elif flip[v]:
                tables[up_edge[v], labels[count, v], labels[count, u]] -= amount
            else:
                tables[up_edge[v], labels[count, u], labels[count, v]] -= amount
        weights[count] = amount
        left -= amount
        count += 1
    return count


# -- any graph: tables over bags ---------------------------------------------------------------------------------------


@inline_kernel
def _power(k, w):  # type: ignore[no-untyped-def]
    size = 1
    for _ in range(w):
        size *= k
    return size


@inline_kernel
def _spread(places, strides, count, k):  # type: ignore[no-untyped-def]
    """places[x] = sum of strides[d] times digit d of x in base k: where a factor over some variables of a bag stands."""
    places[0] = 0
    block = 1
    for d in range(count):
        for a in range(1, k):
            add = a * strides[d]
            for b in range(block):
                places[a * block + b] = places[b] + add
        block *= k


@kernel
def over_bags(
    start: int,
    stop: int,
    mode: int,
    theta: Array,
    starts: IntArray,
    which: IntArray,
    node_off: IntArray,
    edge_off: IntArray,
    order: IntArray,
    up: IntArray,
    sep_off: IntArray,
    sep: IntArray,
    sep_edge: IntArray,
    sep_flip: Array,
    sep_pos: IntArray,
    k: int,
    uniform: Array,
    labels: IntArray,
    label_starts: IntArray,
    mu: Array,
    log_partition: Array,
    log_likelihood: Array,
    status: IntArray,
) -> None:
    """The junction-tree algorithm with logarithms: the best labelling, marginals, or a draw. O(nodes k^(width + 1)).

    Each node has a table over its bag (its own label runs fastest): its score, its edges to the separator, and what
    came from nodes below. Maximised or summed over its own label it goes to the table of the node ``up``. Back from the
    roots, every node is chosen, drawn, or has its distribution, given its separator. With MARGINALS ``labels`` may hold
    truths, whose log-probability is wanted.
    """
    largest, whole, seps, widest, most = 1, 1, 1, 1, 1
    for i in range(start, stop):
        lo, hi = node_off[which[i]], node_off[which[i] + 1]
        tables, inner = 0, 0
        for v in range(lo, hi):
            w = sep_off[v + 1] - sep_off[v]
            size = _power(k, w)
            largest = max(largest, size * k)
            tables += size * k
            inner += size
            widest = max(widest, w + 1)
        whole, seps, most = max(whole, tables), max(seps, inner), max(most, hi - lo)
    table, message = np.empty(whole), np.empty(seps)
    table_at, message_at = np.empty(most, np.int64), np.empty(most, np.int64)
    places, strides = np.empty(largest, np.int64), np.zeros(widest, np.int64)
    share = np.empty(k)
    asked = mode == MARGINALS and labels.shape[0] > 0
    for i in range(start, stop):
        p = which[i]
        lo = node_off[p]
        n, m = node_off[p + 1] - lo, edge_off[p + 1] - edge_off[p]
        first = starts[i] + n * k
        status[i] = SOLVED
        log_sum = 0.0
        at, inner = 0, 0
        for v in range(n):
            w = sep_off[lo + v + 1] - sep_off[lo + v]
            table_at[v], message_at[v] = at, inner
            size = _power(k, w)
            for s in range(size):
                for b in range(k):
                    table[at + s * k + b] = theta[starts[i] + v * k + b]
            for j in range(w):
                e = sep_edge[sep_off[lo + v] + j]
                if e >= 0:
                    strides[:] = 0
                    strides[0] = k if sep_flip[sep_off[lo + v] + j] else 1
                    strides[1 + j] = 1 if sep_flip[sep_off[lo + v] + j] else k
                    _spread(places, strides, w + 1, k)
                    for x in range(size * k):
                        table[at + x] += theta[first + e * k * k + places[x]]
            at += size * k
            inner += size
        for t in range(n):
            v = order[lo + t]
            w = sep_off[lo + v + 1] - sep_off[lo + v]
            size, at, inner = _power(k, w), table_at[v], message_at[v]
            high = -np.inf
            for s in range(size):
                top = -np.inf
                for b in range(k):
                    top = max(top, table[at + s * k + b])
                if mode != BEST and top > -np.inf:
                    total = 0.0
                    for b in range(k):
                        x = table[at + s * k + b] - top
                        total += fast_exp(x) if x > -700.0 else 0.0
                    top += np.log(total)
                message[inner + s] = top
                high = max(high, top)
            if not high > -np.inf:
                status[i] = IMPOSSIBLE
                break
            log_sum += high
            u = up[lo + v]
            if u >= 0:
                strides[:] = 0
                for j in range(w):
                    strides[sep_pos[sep_off[lo + v] + j]] = _power(k, j)
                wide = sep_off[lo + u + 1] - sep_off[lo + u]
                _spread(places, strides, wide + 1, k)
                for x in range(_power(k, wide + 1)):
                    table[table_at[u] + x] += message[inner + places[x]] - high
        log_partition[i] = log_sum
        log_likelihood[i] = 0.0
        if status[i] == IMPOSSIBLE:
            if mode != MARGINALS:
                for v in range(n):
                    labels[label_starts[i] + v] = 0
            continue
        if mode == MARGINALS:
            for x in range(starts[i], first + m * k * k):
                mu[x] = 0.0
        for t in range(n - 1, -1, -1):
            v = order[lo + t]
            w = sep_off[lo + v + 1] - sep_off[lo + v]
            size, at, inner = _power(k, w), table_at[v], message_at[v]
            s = 0
            if mode != MARGINALS or asked:
                for j in range(w - 1, -1, -1):
                    s = s * k + labels[label_starts[i] + sep[sep_off[lo + v] + j]]
            if mode == BEST:
                chosen = 0
                for b in range(k):
                    if table[at + s * k + b] > table[at + s * k + chosen]:
                        chosen = b
                labels[label_starts[i] + v] = chosen
                continue
            if mode == DRAW:
                for b in range(k):
                    share[b] = np.exp(table[at + s * k + b] - message[inner + s])
                labels[label_starts[i] + v] = _draw_index(share, k, uniform[label_starts[i] + v])
                continue
            if asked:
                x = message[inner + s]
                log_likelihood[i] += table[at + s * k + labels[label_starts[i] + v]] - x if x > -np.inf else -np.inf
            u = up[lo + v]
            for s in range(size):  # the table becomes the distribution of a label given the separator
                x = message[inner + s]
                for b in range(k):
                    y = table[at + s * k + b] - x if x > -np.inf else -np.inf
                    table[at + s * k + b] = fast_exp(y) if y > -700.0 else 0.0
                message[inner + s] = 1.0 if u < 0 else 0.0
            if u >= 0:  # and the message the distribution of the separator
                strides[:] = 0
                for j in range(w):
                    strides[sep_pos[sep_off[lo + v] + j]] = _power(k, j)
                wide = sep_off[lo + u + 1] - sep_off[lo + u]
                _spread(places, strides, wide + 1, k)
                for x in range(_power(k, wide + 1)):
                    message[inner + places[x]] += table[table_at[u] + x]
            for s in range(size):
                x = message[inner + s]
                for b in range(k):
                    table[at + s * k + b] *= x
                    mu[starts[i] + v * k + b] += table[at + s * k + b]
            for j in range(w):
                e = sep_edge[sep_off[lo + v] + j]
                if e >= 0:
                    strides[:] = 0
                    strides[0] = k if sep_flip[sep_off[lo + v] + j] else 1
                    strides[1 + j] = 1 if sep_flip[sep_off[lo + v] + j] else k
                    _spread(places, strides, w + 1, k)
                    for x in range(size * k):
                        mu[first + e * k * k + places[x]] += table[at + x]


# -- the Kullback-Leibler projection on trees --------------------------------------------------------------------------


@inline_kernel
def _log_sums(table, price, across, out):  # type: ignore[no-untyped-def]
    """out[a] = log sum exp(table[a, b] + price[b]) over b; ``across`` sums over a instead and gives out[b]."""
    k = out.shape[0]
    for a in range(k):
        top = -np.inf
        for b in range(k):
            x = (table[b, a] if across else table[a, b]) + price[b]
            top = x if x > top else top
        total = 0.0
        if top > -np.inf:
            for b in range(k):
                x = (table[b, a] if across else table[a, b]) + price[b] - top
                total += fast_exp(x) if x > -700.0 else 0.0
            top += np.log(total)
        out[a] = top


@kernel
def project_on_trees(
    start: int,
    stop: int,
    theta: Array,
    starts: IntArray,
    which: IntArray,
    node_off: IntArray,
    order: IntArray,
    up: IntArray,
    up_edge: IntArray,
    flip: Array,
    k: int,
    tol: float,
    max_iter: int,
    mu: Array,
    gap: Array,
    n_iter: IntArray,
    status: IntArray,
) -> None:
    """argmax <theta, mu> - <mu, log mu> over forests, by exact descent of the dual in the prices of one node.

    Each edge pays prices for the labels of its two nodes, and nodes get them; at the least dual value edges and nodes
    agree. Sweeps go down and up, O(nodes k^2) each. The start are prices that are optimal without entropies. The point is
    the Markov tree that the edges describe, feasible exactly; its duality gap is a sum of divergences between the point
    and what each edge and node would choose.
    """
    most = _most_nodes(which, node_off, start, stop)
    table, pair = np.empty((most, k, k)), np.empty((most, k, k))
    to_up, to_child = np.empty((most, k)), np.empty((most, k))
    pay_up, pay_child = np.empty((most, k)), np.empty((most, k))
    wish, point = np.empty((most, k)), np.empty((most, k))
    child, sibling, degree = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.int64)
    for i in range(start, stop):
        p = which[i]
        lo = node_off[p]
        n = node_off[p + 1] - lo
        first = starts[i] + n * k
        nodes = theta[starts[i] : first].reshape((n, k))
        status[i], gap[i], n_iter[i] = SOLVED, 0.0, 0
        scale = 0.0
        child[:n] = -1
        degree[:n] = 0
        for v in range(n):
            u = up[lo + v]
            for b in range(k):
                x = nodes[v, b]
                pay_child[v, b] = x
                scale = max(scale, abs(x) if x > -np.inf else 0.0)
            if u >= 0:
                sibling[v] = child[u]
                child[u] = v
                degree[u] += 1
                degree[v] += 1
                at = first + up_edge[lo + v] * k * k
                for a in range(k):
                    for b in range(k):
                        x = theta[at + (b * k + a if flip[lo + v] else a * k + b)]
                        table[v, a, b] = x
                        scale = max(scale, abs(x) if x > -np.inf else 0.0)
        for t in range(n):  # the start: best scores of what is below each label
            v = order[lo + t]
            u = up[lo + v]
            top = _top_of(pay_child[v])
            if not top > -np.inf:
                status[i] = IMPOSSIBLE
                break
            for b in range(k):
                pay_child[v, b] -= top
            if u < 0:
                continue
            for a in range(k):
                best = -np.inf
                for b in range(k):
                    x = table[v, a, b] + pay_child[v, b]
                    best = x if x > best else best
                pay_up[v, a] = -best if best > -np.inf else -np.inf
                pay_child[u, a] += best
        if status[i] == IMPOSSIBLE:
            continue
        for v in range(n):
            if up[lo + v] >= 0:
                _log_sums(table[v], pay_child[v], False, to_up[v])
        enough = tol + (2e-14 * scale) ** 2 * n
        gap[i] = np.inf
        for sweep in range(max_iter):
            for t in range(2 * n):
                upwards = t >= n
                v = order[lo + (t - n if upwards else n - 1 - t)]
                u = up[lo + v]
                if not upwards and u >= 0:
                    _log_sums(table[v], pay_up[v], True, to_child[v])
                top = -np.inf
                for b in range(k):
                    x = nodes[v, b] + (to_child[v, b] if u >= 0 else 0.0)
                    c = child[v]
                    while c >= 0:
                        x += to_up[c, b]
                        c = sibling[c]
                    x /= 1.0 + degree[v]
                    wish[v, b] = x
                    top = max(top, x)
                if not top > -np.inf:
                    status[i] = IMPOSSIBLE
                    break
                for b in range(k):
                    possible = wish[v, b] > -np.inf
                    x = wish[v, b] - top
                    if u >= 0:
                        pay_child[v, b] = x - to_child[v, b] if possible else -np.inf
                    c = child[v]
                    while c >= 0:
                        pay_up[c, b] = x - to_up[c, b] if possible else -np.inf
                        c = sibling[c]
                if upwards and u >= 0:
                    _log_sums(table[v], pay_child[v], False, to_up[v])
            if status[i] == IMPOSSIBLE:
                break
            n_iter[i] = sweep + 1
            total = 0.0
            for t in range(n - 1, -1, -1):
                v = order[lo + t]
                u = up[lo + v]
                # what the node would choose: its scores less the prices
                top = -np.inf
                for b in range(k):
                    x = nodes[v, b]
                    if u >= 0:
                        x = x - pay_child[v, b] if pay_child[v, b] > -np.inf else -np.inf
                    c = child[v]
                    while c >= 0:
                        x = x - pay_up[c, b] if pay_up[c, b] > -np.inf else -np.inf
                        c = sibling[c]
                    wish[v, b] = x
                    top = max(top, x)
                sums = 0.0
                for b in range(k):
                    sums += np.exp(wish[v, b] - top)
                top += np.log(sums)
                if u < 0:
                    for b in range(k):
                        point[v, b] = np.exp(wish[v, b] - top)
                else:
                    high = -np.inf
                    for a in range(k):
                        if pay_up[v, a] > -np.inf:
                            high = max(high, pay_up[v, a] + to_up[v, a])
                    sums = 0.0
                    for a in range(k):
                        sums += np.exp(pay_up[v, a] + to_up[v, a] - high) if pay_up[v, a] > -np.inf else 0.0
                    high += np.log(sums)
                    for b in range(k):
                        point[v, b] = 0.0
                    for a in range(k):
                        for b in range(k):
                            score = table[v, a, b] + pay_child[v, b]
                            allowed = score > -np.inf and to_up[v, a] > -np.inf and pay_up[v, a] > -np.inf
                            y = point[u, a] * np.exp(score - to_up[v, a]) if allowed else 0.0
                            pair[v, a, b] = y
                            point[v, b] += y
                            total += _divergence(y, pay_up[v, a] + score - high if allowed else -np.inf)
                for b in range(k):
                    total += _divergence(point[v, b], wish[v, b] - top)
            gap[i] = total
            if total <= enough:
                break
        if status[i] == IMPOSSIBLE:
            continue
        if not gap[i] <= enough:
            status[i] = UNFINISHED
        for v in range(n):
            for b in range(k):
                mu[starts[i] + v * k + b] = point[v, b]
            if up[lo + v] >= 0:
                at = first + up_edge[lo + v] * k * k
                for a in range(k):
                    for b in range(k):
                        mu[at + (b * k + a if flip[lo + v] else a * k + b)] = pair[v, a, b]
