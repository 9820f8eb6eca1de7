"""Inner loops of labelled chains: Viterbi, the k best, forward-backward, draws, and what reads and writes points.

All take chains of any lengths at once. Chain n has lengths[n] positions; its numbers begin at starts[n] of a flat array:
the nodes, position by position, then one k x k table of edges (row: the label on the left) for each pair of neighbours.
With ``tied`` there is a single table, the same at all pairs; in a point it holds how often each transition occurs.
"""

from __future__ import annotations

import numpy as np

from .._core.compile import exact_inline_kernel, exact_kernel, inline_kernel, kernel
from .._core.types import Array, IntArray
from .special import fast_exp

__all__ = [
    "IMPOSSIBLE",
    "SOLVED",
    "UNFINISHED",
    "assemble",
    "center",
    "decompose",
    "draw",
    "draw_path",
    "edge_sums",
    "forward_backward",
    "gather_edges",
    "gather_nodes",
    "k_best",
    "kl_project",
    "negative_entropy",
    "read_labels",
    "squares_of_products",
    "violation",
    "viterbi",
    "write_vertices",
]

SOLVED, IMPOSSIBLE, UNFINISHED, _LOSES_DIGITS = range(4)

# exp is taken of scores less the largest of their position (or table). Where none that is allowed lies further below
# than this, and no forward probability is smaller than _LEAST, every product of two probabilities and two exponentials
# is a normal number, so nothing is lost; elsewhere the recursion works with logarithms.
_FARTHEST = -115.0
_LEAST = 1e-150
_NO_EXP = -700.0


@inline_kernel
def _largest(lengths, start, stop):  # type: ignore[no-untyped-def]
    top = 0
    for n in range(start, stop):
        top = max(top, lengths[n])
    return top


@inline_kernel
def _parts(values, lo, length, k, tied):  # type: ignore[no-untyped-def]
    """Views of one chain's nodes (length, k) and tables (1 or length - 1, k, k).

    Loops over their rows become vector code; those over flat places do not, for each may be counted from the end.
    """
    first = lo + length * k
    m = 1 if tied else max(length - 1, 0)
    return values[lo:first].reshape((length, k)), values[first : first + m * k * k].reshape((m, k, k))


@inline_kernel
def _top_of(row):  # type: ignore[no-untyped-def]
    top = row[0]
    for i in range(1, row.shape[0]):
        top = row[i] if row[i] > top else top
    return top


@inline_kernel
def _exp_row(row, top, out):  # type: ignore[no-untyped-def]
    """out = exp(row - top), zero where that is forbidden; how many that are not lie too far below."""
    low = row[0]
    for i in range(row.shape[0]):
        low = row[i] if row[i] < low else low
    for i in range(row.shape[0]):  # nothing else in this loop, so that it becomes vector code
        out[i] = fast_exp(row[i] - top)
    far = 0
    if low - top < _FARTHEST:
        for i in range(row.shape[0]):
            x = row[i] - top
            if x < _FARTHEST:
                out[i] = 0.0
                far += 1 if x > -np.inf else 0
    return far


@exact_inline_kernel
def _same(a, b):  # type: ignore[no-untyped-def]
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            if a[i, j] != b[i, j]:
                return False
    return True


# -- the best labelling ------------------------------------------------------------------------------------------------


@exact_inline_kernel
def _best_ahead(turned, after, best):  # type: ignore[no-untyped-def]
    """best[i] = max turned[j, i] + after[j] over j."""
    k = best.shape[0]
    line, x = turned[0], after[0]
    for i in range(k):
        best[i] = line[i] + x
    for j in range(1, k):
        line, x = turned[j], after[j]
        for i in range(k):
            y = line[i] + x
            best[i] = y if y > best[i] else best[i]


@exact_kernel
def viterbi(
    start: int,
    stop: int,
    theta: Array,
    starts: IntArray,
    lengths: IntArray,
    k: int,
    tied: bool,
    labels: IntArray,
    label_starts: IntArray,
    status: IntArray,
) -> None:
    """A labelling of highest score; of several the first in lexicographic order. O(length k^2) each.

    rest[t, i] is the best score of positions t, t + 1, ... when t has label i, less a constant of the position, so that
    numbers do not grow with the length. It runs from the back, so that the labels can be read off from the front.
    """
    rest = np.empty((_largest(lengths, start, stop), k))
    source, turned, best_ahead = np.full((k, k), np.nan), np.empty((k, k)), np.empty(k)
    for n in range(start, stop):
        length = lengths[n]
        nodes, tables = _parts(theta, starts[n], length, k, tied)
        chosen = labels[label_starts[n] : label_starts[n] + length]
        status[n] = SOLVED
        for t in range(length - 1, -1, -1):
            row, node = rest[t], nodes[t]
            for i in range(k):
                row[i] = node[i]
            if t < length - 1:
                table = tables[0 if tied else t]
                if not tied or (t == length - 2 and not _same(table, source)):
                    for i in range(k):
                        for j in range(k):
                            turned[j, i] = table[i, j]
                            source[i, j] = table[i, j]
                _best_ahead(turned, rest[t + 1], best_ahead)
                for i in range(k):
                    row[i] += best_ahead[i]
            top = _top_of(row)
            if not top > -np.inf:
                status[n] = IMPOSSIBLE
                break
            for i in range(k):
                row[i] -= top
        label = 0
        for t in range(length):
            if status[n] == IMPOSSIBLE:
                chosen[t] = 0
                continue
            row = rest[t]
            best = -np.inf
            before = label
            for j in range(k):
                x = row[j] if t == 0 else tables[0 if tied else t - 1, before, j] + row[j]
                if x > best:
                    best = x
                    label = j
            chosen[t] = label


@exact_kernel
def k_best(
    start: int,
    stop: int,
    theta: Array,
    starts: IntArray,
    lengths: IntArray,
    k: int,
    tied: bool,
    m: int,
    labels: IntArray,
    label_starts: IntArray,
    scores: Array,
    status: IntArray,
) -> None:
    """The m labellings of highest score, best first; labels are -1 and the score -inf where there are fewer.

    labels[m * label_starts[n]:] holds chain n's, one after the other. O(length k^2 m) each: for each label of a
    position the m best completions, merged from those of the next position.
    """
    longest = _largest(lengths, start, stop)
    value = np.empty((longest, k, m))
    label_after = np.empty((longest, k, m), np.int64)
    rank_after = np.empty((longest, k, m), np.int64)
    count = np.empty((longest, k), np.int64)
    ahead = np.empty(k, np.int64)
    for n in range(start, stop):
        length, lo, out = lengths[n], starts[n], m * label_starts[n]
        for t in range(length - 1, -1, -1):
            for i in range(k):
                if t == length - 1:
                    value[t, i, 0] = 0.0
                    count[t, i] = 1
                    continue
                table = lo + length * k + (0 if tied else t * k * k) + i * k
                node = lo + (t + 1) * k
                ahead[:] = 0
                found = 0
                while found < m:
                    best = -np.inf
                    chosen = -1
                    for j in range(k):
                        if ahead[j] < count[t + 1, j]:
                            x = theta[table + j] + theta[node + j] + value[t + 1, j, ahead[j]]
                            if x > best:
                                best = x
                                chosen = j
                    if chosen < 0:
                        break
                    value[t, i, found] = best
                    label_after[t, i, found] = chosen
                    rank_after[t, i, found] = ahead[chosen]
                    ahead[chosen] += 1
                    found += 1
                count[t, i] = found
        ahead[:] = 0
        status[n] = SOLVED
        for r in range(m):
            best = -np.inf
            chosen = -1
            if length == 0:
                best = 0.0 if r == 0 else -np.inf
            for i in range(k):
                if length > 0 and ahead[i] < count[0, i]:
                    x = theta[lo + i] + value[0, i, ahead[i]]
                    if x > best:
                        best = x
                        chosen = i
            scores[n, r] = best
            if chosen < 0:
                for t in range(length):
                    labels[out + r * length + t] = -1
                if r == 0 and length > 0:
                    status[n] = IMPOSSIBLE
                continue
            label = chosen
            rank = ahead[chosen]
            ahead[chosen] += 1
            for t in range(length):
                labels[out + r * length + t] = label
                if t < length - 1:
                    label, rank = label_after[t, label, rank], rank_after[t, label, rank]


# -- sums over all labellings ------------------------------------------------------------------------------------------


@inline_kernel
def _forward(nodes, tables, tied, edges, fresh, alpha, into):  # type: ignore[no-untyped-def]
    """Forward probabilities in the scale of probabilities; (status, log of the sum over all labellings).

    alpha[t] is the distribution of the label at t given the scores up to t, into[t, j] the sum of alpha[t - 1, i] E[i, j]
    over i. E, the exponential of a table less its largest score, goes to ``edges``; where there is one table for all
    pairs and it is not ``fresh``, it is there already.
    """
    length, k = nodes.shape
    log_sum = 0.0
    product = 1.0
    edge_top, far = 0.0, 0
    for t in range(length):
        node, row = nodes[t], alpha[t]
        top = _top_of(node)
        if not top > -np.inf:
            return IMPOSSIBLE, -np.inf
        if t > 0 and (t == 1 or not tied):
            table, exponentials = tables[t - 1], edges[t - 1]
            edge_top = table[0, 0]
            for i in range(k):
                edge_top = max(edge_top, _top_of(table[i]))
            if not edge_top > -np.inf:
                return IMPOSSIBLE, -np.inf
            if fresh or not tied:
                for i in range(k):
                    far += _exp_row(table[i], edge_top, exponentials[i])
        far += _exp_row(node, top, row)
        if far > 0:
            return _LOSES_DIGITS, 0.0
        log_sum += top
        if t > 0:
            log_sum += edge_top
            exponentials = edges[0 if tied else t - 1]
            before, arriving = alpha[t - 1], into[t]
            a, line = before[0], exponentials[0]
            for j in range(k):
                arriving[j] = a * line[j]
            for i in range(1, k):
                a, line = before[i], exponentials[i]
                for j in range(k):
                    arriving[j] += a * line[j]
            for j in range(k):
                row[j] *= arriving[j]
        total = 0.0
        for j in range(k):
            total += row[j]
        if not total > 0.0:
            return IMPOSSIBLE, -np.inf
        share = 1.0 / total
        tiny = 0
        for j in range(k):
            x = row[j] * share
            row[j] = x
            tiny += 1 if (x > 0.0 and x < _LEAST) else 0
        if tiny > 0:
            return _LOSES_DIGITS, 0.0
        product *= total
        if product < 1e-140 or product > 1e140:
            log_sum += np.log(product)
            product = 1.0
    return SOLVED, log_sum + np.log(product)


@inline_kernel
def _forward_in_logs(nodes, tables, tied, alpha, into, peak):  # type: ignore[no-untyped-def]
    """The same with logarithms: alpha[t] less its largest, and log sum exp(alpha[t - 1, i] + e[i, j]) over i as
    peak[t, j] + log(into[t, j])."""
    length, k = nodes.shape
    log_sum = 0.0
    for t in range(length):
        row = alpha[t]
        top = -np.inf
        for j in range(k):
            x = nodes[t, j]
            if t > 0:
                before, table = alpha[t - 1], tables[0 if tied else t - 1]
                high = -np.inf
                for i in range(k):
                    high = max(high, before[i] + table[i, j])
                total = 0.0
                if high > -np.inf:
                    for i in range(k):
                        total += np.exp(before[i] + table[i, j] - high)
                    x += high + np.log(total)
                else:
                    x = -np.inf
                peak[t, j] = high
                into[t, j] = total
            row[j] = x
            top = max(top, x)
        if not top > -np.inf:
            return IMPOSSIBLE, -np.inf
        for j in range(k):
            row[j] -= top
        log_sum += top
    total = 1.0
    if length > 0:
        row = alpha[length - 1]
        total = 0.0
        for j in range(k):
            total += np.exp(row[j])
    return SOLVED, log_sum + np.log(total)


@inline_kernel
def _collect(product, log_product, factor):  # type: ignore[no-untyped-def]
    """One more factor, at most one, of a product whose logarithm is wanted."""
    if factor < 1e-140:
        return product, log_product + np.log(factor)
    product *= factor
    if product < 1e-140:
        return 1.0, log_product + np.log(product)
    return product, log_product


@inline_kernel
def _backward(alpha, into, edges, tied, mu_nodes, mu_tables, truth, weight):  # type: ignore[no-untyped-def]
    """Marginals from forward probabilities; returns the log-probability of the truth, if any was given."""
    length, k = mu_nodes.shape
    asked = truth.shape[0] > 0
    product, log_product = 1.0, 0.0
    row = alpha[length - 1]
    for j in range(k):
        mu_nodes[length - 1, j] = row[j]
    if asked:
        product, log_product = _collect(product, log_product, row[truth[length - 1]])
    for t in range(length - 2, -1, -1):
        row, arriving = alpha[t], into[t + 1]
        node, after = mu_nodes[t], mu_nodes[t + 1]
        exponentials, table = edges[0 if tied else t], mu_tables[0 if tied else t]
        if asked:
            i, j = truth[t], truth[t + 1]
            share = row[i] * exponentials[i, j] / arriving[j] if arriving[j] > 0.0 else 0.0
            product, log_product = _collect(product, log_product, share)
        for j in range(k):
            x = arriving[j]
            y = after[j] / (x if x > 0.0 else 1.0)
            weight[j] = y if x > 0.0 else 0.0
        for i in range(k):
            a = row[i]
            line, out = exponentials[i], table[i]
            total = 0.0
            if tied:
                for j in range(k):
                    x = weight[j]
                    total += line[j] * x
                    out[j] += a * x
            else:
                for j in range(k):
                    x = line[j] * weight[j]
                    total += x
                    out[j] = a * x
            node[i] = a * total
    return log_product + np.log(product)


@inline_kernel
def _backward_in_logs(tables, tied, alpha, into, peak, mu_nodes, mu_tables, truth):  # type: ignore[no-untyped-def]
    length, k = mu_nodes.shape
    asked = truth.shape[0] > 0
    row = alpha[length - 1]
    total = 0.0
    for j in range(k):
        total += np.exp(row[j])
    for j in range(k):
        mu_nodes[length - 1, j] = np.exp(row[j]) / total
    log_product = row[truth[length - 1]] - np.log(total) if asked else 0.0
    for t in range(length - 2, -1, -1):
        row, table, out = alpha[t], tables[0 if tied else t], mu_tables[0 if tied else t]
        if asked:
            i, j = truth[t], truth[t + 1]
            allowed = peak[t + 1, j] > -np.inf
            log_product += row[i] + table[i, j] - peak[t + 1, j] - np.log(into[t + 1, j]) if allowed else -np.inf
        for i in range(k):
            mu_nodes[t, i] = 0.0
        for j in range(k):
            high = peak[t + 1, j]
            allowed = high > -np.inf
            x = mu_nodes[t + 1, j] / into[t + 1, j] if allowed else 0.0
            for i in range(k):
                y = x * np.exp(row[i] + table[i, j] - high) if allowed else 0.0
                mu_nodes[t, i] += y
                out[i, j] = (out[i, j] if tied else 0.0) + y
    return log_product


@kernel
def forward_backward(
    start: int,
    stop: int,
    theta: Array,
    starts: IntArray,
    lengths: IntArray,
    k: int,
    tied: bool,
    truth: IntArray,
    label_starts: IntArray,
    mu: Array,
    log_partition: Array,
    log_likelihood: Array,
    status: IntArray,
) -> None:
    """Marginals and log-partition of the Gibbs distribution; if ``truth`` is not empty also its log-probability.

    Backwards, the pair (i, j) has the probability of j times that of i given j and the scores before, a quotient of
    forward numbers. So pairs and single labels agree to rounding, and the log-probability of the truth is a sum of terms
    of one sign: no two large numbers are subtracted. O(length k^2) each.
    """
    longest = _largest(lengths, start, stop)
    alpha, into, peak = np.empty((longest, k)), np.empty((longest, k)), np.empty((longest, k))
    weight = np.empty(k)
    shared, source = np.empty((1, k, k)), np.full((k, k), np.nan)
    for n in range(start, stop):
        length = lengths[n]
        nodes, tables = _parts(theta, starts[n], length, k, tied)
        mu_nodes, mu_tables = _parts(mu, starts[n], length, k, tied)
        goal = truth[label_starts[n] : label_starts[n] + length] if truth.shape[0] > 0 else truth
        log_likelihood[n] = 0.0
        edges = mu_tables
        fresh = True
        if tied:
            mu_tables[:] = 0.0
            edges = shared
            fresh = not _same(tables[0], source)
        done, log_partition[n] = _forward(nodes, tables, tied, edges, fresh, alpha, into)
        if tied and fresh and length > 1:
            source[:] = tables[0]
            source[0, 0] = source[0, 0] if done == SOLVED else np.nan  # it may have ended before it took exponentials
        if done == SOLVED and length > 0:
            log_likelihood[n] = _backward(alpha, into, edges, tied, mu_nodes, mu_tables, goal, weight)
            if tied and length > 1:
                for i in range(k):
                    for j in range(k):
                        mu_tables[0, i, j] *= shared[0, i, j]
        if done == _LOSES_DIGITS:
            done, log_partition[n] = _forward_in_logs(nodes, tables, tied, alpha, into, peak)
            if done == SOLVED:
                log_likelihood[n] = _backward_in_logs(tables, tied, alpha, into, peak, mu_nodes, mu_tables, goal)
        status[n] = done


@kernel
def draw(
    start: int,
    stop: int,
    theta: Array,
    starts: IntArray,
    lengths: IntArray,
    k: int,
    tied: bool,
    uniform: Array,
    labels: IntArray,
    label_starts: IntArray,
    status: IntArray,
) -> None:
    """A labelling from the Gibbs distribution, by one uniform number for each position: forwards, then draws back."""
    longest = _largest(lengths, start, stop)
    alpha, into, peak = np.empty((longest, k)), np.empty((longest, k)), np.empty((longest, k))
    share = np.empty(k)
    edges = np.empty((1 if tied else max(longest - 1, 1), k, k))
    for n in range(start, stop):
        length = lengths[n]
        nodes, tables = _parts(theta, starts[n], length, k, tied)
        done, _ = _forward(nodes, tables, tied, edges, True, alpha, into)
        logs = done == _LOSES_DIGITS
        if logs:
            done, _ = _forward_in_logs(nodes, tables, tied, alpha, into, peak)
        status[n] = done
        label = 0
        for t in range(length - 1, -1, -1):
            at = label_starts[n] + t
            if done == IMPOSSIBLE:
                labels[at] = 0
                continue
            for i in range(k):
                x = alpha[t, i]
                if logs:
                    if t < length - 1:
                        x += tables[0 if tied else t, i, label] - peak[t + 1, label]
                    x = np.exp(x)
                elif t < length - 1:
                    x *= edges[0 if tied else t, i, label]
                share[i] = x
            label = _draw_index(share, k, uniform[at])
            labels[at] = label


@inline_kernel
def _draw_index(share, k, u):  # type: ignore[no-untyped-def]
    """An index in proportion to the shares, never one without a share."""
    total = 0.0
    for i in range(k):
        total += share[i]
    total *= u
    chosen = 0
    for i in range(k):
        if share[i] > 0.0:
            chosen = i
            total -= share[i]
            if total < 0.0:
                break
    return chosen


# -- points of the hull ------------------------------------------------------------------------------------------------


@kernel
def draw_path(
    start: int,
    stop: int,
    mu: Array,
    starts: IntArray,
    lengths: IntArray,
    k: int,
    uniform: Array,
    labels: IntArray,
    label_starts: IntArray,
) -> None:
    """A labelling whose mean vertex is mu (not tied): the Markov chain with these pairs."""
    share = np.empty(k)
    for n in range(start, stop):
        length, lo = lengths[n], starts[n]
        label = 0
        for t in range(length):
            at = lo if t == 0 else lo + length * k + (t - 1) * k * k + label * k
            for j in range(k):
                share[j] = max(mu[at + j], 0.0)
            label = _draw_index(share, k, uniform[label_starts[n] + t])
            labels[label_starts[n] + t] = label


@kernel
def write_vertices(
    start: int,
    stop: int,
    labels: IntArray,
    label_starts: IntArray,
    starts: IntArray,
    lengths: IntArray,
    k: int,
    tied: bool,
    out: Array,
) -> None:
    """The vertex of each labelling."""
    for n in range(start, stop):
        length, lo, at = lengths[n], starts[n], label_starts[n]
        first = lo + length * k
        size = length * k + k * k * (1 if tied else max(length - 1, 0))
        for x in range(size):
            out[lo + x] = 0.0
        for t in range(length):
            j = labels[at + t]
            out[lo + t * k + j] = 1.0
            if t > 0:
                out[first + (0 if tied else (t - 1) * k * k) + labels[at + t - 1] * k + j] += 1.0


@kernel
def read_labels(
    start: int,
    stop: int,
    points: Array,
    starts: IntArray,
    lengths: IntArray,
    k: int,
    labels: IntArray,
    label_starts: IntArray,
    sure: Array,
) -> None:
    """The label with the largest entry at each position; ``sure`` where every position has one 1 and zeros."""
    for n in range(start, stop):
        lo = starts[n]
        sure[n] = True
        for t in range(lengths[n]):
            at = lo + t * k
            best = 0
            zeros = 0
            for i in range(k):
                zeros += 1 if points[at + i] == 0.0 else 0
                if points[at + i] > points[at + best]:
                    best = i
            labels[label_starts[n] + t] = best
            if zeros != k - 1 or points[at + best] != 1.0:
                sure[n] = False


@kernel
def assemble(
    start: int,
    stop: int,
    nodes: Array,
    tables: Array,
    pair_starts: IntArray,
    label_starts: IntArray,
    starts: IntArray,
    lengths: IntArray,
    k: int,
    tied: bool,
    out: Array,
) -> None:
    """Nodes (a row for each position of the set) and tables in the layout of scores.

    ``tables`` holds no table (edges become zero), one for all pairs, or one for each pair, those of chain n from
    pair_starts[n] on.
    """
    for n in range(start, stop):
        length, lo, row = lengths[n], starts[n], label_starts[n]
        for t in range(length):
            for i in range(k):
                out[lo + t * k + i] = nodes[row + t, i]
        for t in range(1 if tied else max(length - 1, 0)):
            at = lo + length * k + t * k * k
            which = pair_starts[n] + t if tables.shape[0] > 1 else 0
            for x in range(k * k):
                out[at + x] = tables[which, x] if tables.shape[0] > 0 else 0.0


@kernel
def gather_nodes(
    start: int,
    stop: int,
    values: Array,
    starts: IntArray,
    lengths: IntArray,
    k: int,
    label_starts: IntArray,
    out: Array,
) -> None:
    """The numbers of the nodes, a row for each position of the set."""
    for n in range(start, stop):
        for t in range(lengths[n]):
            for i in range(k):
                out[label_starts[n] + t, i] = values[starts[n] + t * k + i]


@kernel
def gather_edges(
    start: int,
    stop: int,
    values: Array,
    starts: IntArray,
    lengths: IntArray,
    k: int,
    pair_starts: IntArray,
    out: Array,
) -> None:
    """The numbers of the edges (not tied), a table for each pair of the set."""
    for n in range(start, stop):
        for t in range(lengths[n] - 1):
            for x in range(k * k):
                out[pair_starts[n] + t, x] = values[starts[n] + lengths[n] * k + t * k * k + x]


@kernel
def edge_sums(
    start: int,
    stop: int,
    values: Array,
    starts: IntArray,
    lengths: IntArray,
    k: int,
    tied: bool,
    block: int,
    out: Array,
) -> None:
    """out[b]: the sum of the tables of chains b * block to (b + 1) * block."""
    for b in range(start, stop):
        out[b] = 0.0
        for n in range(b * block, min((b + 1) * block, lengths.shape[0])):
            for t in range(1 if tied else max(lengths[n] - 1, 0)):
                at = starts[n] + lengths[n] * k + t * k * k
                for x in range(k * k):
                    out[b, x] += values[at + x]


@kernel
def squares_of_products(start: int, stop: int, X: Array, D: Array, offsets: IntArray, out: Array) -> None:
    """out[n] = |X_n^T D_n|^2 of the rows offsets[n] to offsets[n + 1] of both."""
    d, m = X.shape[1], D.shape[1]
    product = np.empty((d, m))
    for n in range(start, stop):
        product[:] = 0.0
        for t in range(offsets[n], offsets[n + 1]):
            row = D[t]
            for i in range(d):
                x, line = X[t, i], product[i]
                if x != 0.0:
                    for j in range(m):
                        line[j] += x * row[j]
        total = 0.0
        for i in range(d):
            line = product[i]
            for j in range(m):
                total += line[j] * line[j]
        out[n] = total


@exact_kernel
def center(
    start: int,
    stop: int,
    theta: Array,
    starts: IntArray,
    lengths: IntArray,
    k: int,
    tied: bool,
    out: Array,
) -> None:
    """Scores less the largest of their position, or of their table."""
    for n in range(start, stop):
        length, lo = lengths[n], starts[n]
        n_tables = 1 if tied else max(length - 1, 0)
        for t in range(length + n_tables):
            m = k if t < length else k * k
            at = lo + t * k if t < length else lo + length * k + (t - length) * k * k
            top = -np.inf
            for i in range(m):
                top = theta[at + i] if theta[at + i] > top else top
            top = top if top > -np.inf else 0.0
            for i in range(m):
                out[at + i] = theta[at + i] - top


@kernel
def violation(
    start: int, stop: int, mu: Array, starts: IntArray, lengths: IntArray, k: int, tied: bool, out: Array
) -> None:
    """The largest violation of: nothing negative, each position sums to one, pairs agree with their two positions.

    Tied, pairs are known by their sums over positions only: they agree with the sums of all positions but the last
    (labels on the left) and but the first (on the right), which is necessary, not sufficient.
    """
    left, right = np.empty(k), np.empty(k)
    for n in range(start, stop):
        length, lo = lengths[n], starts[n]
        first = lo + length * k
        worst = 0.0
        for t in range(length):
            total = 0.0
            for i in range(k):
                x = mu[lo + t * k + i]
                total += x
                worst = max(worst, -x)
            worst = max(worst, abs(total - 1.0))
        n_tables = 1 if tied else max(length - 1, 0)
        for t in range(n_tables):
            left[:] = 0.0
            right[:] = 0.0
            if tied:
                for s in range(length - 1):
                    for i in range(k):
                        left[i] -= mu[lo + s * k + i]
                        right[i] -= mu[lo + (s + 1) * k + i]
            else:
                for i in range(k):
                    left[i] -= mu[lo + t * k + i]
                    right[i] -= mu[lo + (t + 1) * k + i]
            at = first + t * k * k
            for i in range(k):
                for j in range(k):
                    x = mu[at + i * k + j]
                    left[i] += x
                    right[j] += x
                    worst = max(worst, -x)
            for i in range(k):
                worst = max(worst, abs(left[i]), abs(right[i]))
        out[n] = worst


@kernel
def negative_entropy(start: int, stop: int, mu: Array, starts: IntArray, lengths: IntArray, k: int, out: Array) -> None:
    """Minus the entropy of the Markov chain with these pairs (not tied): pairs less the positions they share."""
    for n in range(start, stop):
        length, lo = lengths[n], starts[n]
        total = 0.0
        for x in range(length * k):
            inner = k <= x < (length - 1) * k
            if length == 1 or inner:
                p = mu[lo + x]
                total -= (p * np.log(p) if p > 0.0 else 0.0) * (1.0 if length > 1 else -1.0)
        for x in range(k * k * max(length - 1, 0)):
            p = mu[lo + length * k + x]
            total += p * np.log(p) if p > 0.0 else 0.0
        out[n] = total


@kernel
def decompose(start: int, stop: int, rest: Array, length: int, k: int, weights: Array, labels: IntArray) -> int:
    """Labellings and weights whose mean is the chain with the pairs ``rest`` (two positions at least), which are used up.

    Every labelling takes the largest pair that is left at each step and uses up at least one pair, so there are at
    most as many as pairs. Returns their number. O(length k) each. The range is not used: one chain a call.
    """
    count = 0
    while count < weights.shape[0]:
        best = 0
        for x in range(k * k):
            best = x if rest[x] > rest[best] else best
        amount = rest[best]
        label = best % k
        labels[count, 0] = best // k
        labels[count, 1] = label
        for t in range(1, length - 1):
            at = t * k * k + label * k
            chosen = 0
            for j in range(k):
                chosen = j if rest[at + j] > rest[at + chosen] else chosen
            amount = min(amount, rest[at + chosen])
            label = chosen
            labels[count, t + 1] = label
        if amount <= 1e-14:
            break
        for t in range(length - 1):
            at = t * k * k + labels[count, t] * k + labels[count, t + 1]
            rest[at] -= amount
        weights[count] = amount
        count += 1
    return count


# -- the Kullback-Leibler projection -----------------------------------------------------------------------------------


@inline_kernel
def _sum_ahead(theta, table, price, k, out):  # type: ignore[no-untyped-def]
    """out[i] = log sum exp(theta[i, j] + price[j]) over j."""
    for i in range(k):
        line = table + i * k
        top = -np.inf
        for j in range(k):
            top = max(top, theta[line + j] + price[j])
        total = 0.0
        if top > -np.inf:
            for j in range(k):
                x = theta[line + j] + price[j] - top
                total += fast_exp(x) if x > _NO_EXP else 0.0
            top += np.log(total)
        out[i] = top


@inline_kernel
def _sum_behind(theta, table, price, k, out):  # type: ignore[no-untyped-def]
    """out[j] = log sum exp(theta[i, j] + price[i]) over i."""
    for j in range(k):
        top = -np.inf
        for i in range(k):
            top = max(top, theta[table + i * k + j] + price[i])
        total = 0.0
        if top > -np.inf:
            for i in range(k):
                x = theta[table + i * k + j] + price[i] - top
                total += fast_exp(x) if x > _NO_EXP else 0.0
            top += np.log(total)
        out[j] = top


@inline_kernel
def _settle_node(theta, at, k, ahead, behind, has_ahead, has_behind, right, left):  # type: ignore[no-untyped-def]
    """The prices of one position at which the dual is least while all others stay; False if no label is possible.

    The position and its pairs then agree on (theta + ahead + behind) / 3 as its log-distribution: all three entropies
    count alike.
    """
    count = 1.0 + (1.0 if has_ahead else 0.0) + (1.0 if has_behind else 0.0)
    top = -np.inf
    for i in range(k):
        x = theta[at + i] + (ahead[i] if has_ahead else 0.0) + (behind[i] if has_behind else 0.0)
        top = max(top, x / count)
    if not top > -np.inf:
        return False
    for i in range(k):
        x = theta[at + i] + (ahead[i] if has_ahead else 0.0) + (behind[i] if has_behind else 0.0)
        possible = x > -np.inf
        x = x / count - top
        right[i] = x - (ahead[i] if has_ahead else 0.0) if possible else -np.inf
        left[i] = x - (behind[i] if has_behind else 0.0) if possible else -np.inf
    return True


@inline_kernel
def _divergence(p, log_q):  # type: ignore[no-untyped-def]
    """p log(p / q) - p + q, which is never negative, without a difference of nearly equal numbers."""
    q = np.exp(log_q)
    if p <= 0.0 or log_q == -np.inf:
        return q
    x = (q - p) / p
    return p * (x - np.log1p(x)) if x < 1e8 else q + p * (np.log(p) - log_q) - p


@kernel
def kl_project(
    start: int,
    stop: int,
    theta: Array,
    starts: IntArray,
    lengths: IntArray,
    k: int,
    tol: float,
    max_iter: int,
    mu: Array,
    gap: Array,
    n_iter: IntArray,
    status: IntArray,
) -> None:
    """argmax <theta, mu> - <mu, log mu> over chains (not tied), by exact descent of the dual in one position's prices.

    Each pair pays prices for the labels of its two positions, left[t] of the pair before t and right[t] of the pair after,
    and position t gets them; at the least dual value pairs and positions agree. Sweeps go forwards and backwards,
    O(length k^2) each. The start are prices that are optimal without entropies (from Viterbi's sums), so that what is
    left to do does not grow with the scores. The point is the Markov chain that the pairs describe, feasible exactly; its
    duality gap is a sum of divergences between the point and what each pair and position would choose.
    """
    longest = _largest(lengths, start, stop)
    right, left = np.empty((longest, k)), np.empty((longest, k))
    ahead, behind = np.empty((longest, k)), np.empty((longest, k))
    p = np.empty((longest, k))
    for n in range(start, stop):
        length, lo = lengths[n], starts[n]
        first = lo + length * k
        status[n], gap[n], n_iter[n] = SOLVED, 0.0, 0
        if length == 0:
            continue
        # best scores of what comes before a label, itself included, and of what comes after
        scale = 0.0
        for t in range(length):
            for j in range(k):
                top = 0.0 if t == 0 else -np.inf
                if t > 0:
                    for i in range(k):
                        top = max(top, behind[t - 1, i] + theta[first + (t - 1) * k * k + i * k + j])
                x = theta[lo + t * k + j]
                behind[t, j] = top + x
                scale = max(scale, abs(x) if x > -np.inf else 0.0)
        for t in range(length - 1, -1, -1):
            top = -np.inf
            for i in range(k):
                best = 0.0 if t == length - 1 else -np.inf
                if t < length - 1:
                    for j in range(k):
                        x = theta[first + t * k * k + i * k + j]
                        best = max(best, x + theta[lo + (t + 1) * k + j] + ahead[t + 1, j])
                        scale = max(scale, abs(x) if x > -np.inf else 0.0)
                ahead[t, i] = best
                top = max(top, best + behind[t, i])
            if not top > -np.inf:
                status[n] = IMPOSSIBLE
                break
            for i in range(k):
                half = 0.5 * (ahead[t, i] + behind[t, i] - top)
                possible = half > -np.inf
                right[t, i] = behind[t, i] - half if possible else -np.inf
                left[t, i] = theta[lo + t * k + i] + ahead[t, i] - half if possible else -np.inf
        if status[n] == IMPOSSIBLE:
            continue
        enough = tol + (2e-14 * scale) ** 2 * length
        for t in range(length - 1):
            _sum_ahead(theta, first + t * k * k, left[t + 1], k, ahead[t])
        gap[n] = np.inf
        for sweep in range(max_iter):
            for t in range(length):
                if t > 0:
                    _sum_behind(theta, first + (t - 1) * k * k, right[t - 1], k, behind[t])
                _settle_node(theta, lo + t * k, k, ahead[t], behind[t], t < length - 1, t > 0, right[t], left[t])
            for t in range(length - 1, -1, -1):
                if t < length - 1:
                    _sum_ahead(theta, first + t * k * k, left[t + 1], k, ahead[t])
                _settle_node(theta, lo + t * k, k, ahead[t], behind[t], t < length - 1, t > 0, right[t], left[t])
            n_iter[n] = sweep + 1
            gap[n] = _markov_gap(theta, lo, first, length, k, right, left, ahead, p, mu)
            if gap[n] <= enough:
                break
        if not gap[n] <= enough:
            status[n] = UNFINISHED


@inline_kernel
def _markov_gap(theta, lo, first, length, k, right, left, ahead, p, mu):  # type: ignore[no-untyped-def]
    """Write the Markov chain of the pairs to mu; returns its duality gap."""
    gap = 0.0
    for t in range(length):
        at = lo + t * k
        # what the position would choose: its scores less the prices
        row = p[t]
        top = -np.inf
        for i in range(k):
            x = theta[at + i]
            if t < length - 1:
                x -= right[t, i] if right[t, i] > -np.inf else 0.0
            if t > 0:
                x -= left[t, i] if left[t, i] > -np.inf else 0.0
            if (t < length - 1 and right[t, i] == -np.inf) or (t > 0 and left[t, i] == -np.inf):
                x = -np.inf
            row[i] = x
            top = max(top, x)
        total = 0.0
        for i in range(k):
            total += np.exp(row[i] - top)
        top += np.log(total)
        if t == 0:
            for i in range(k):
                mu[at + i] = np.exp(row[i] - top)
        for i in range(k):
            gap += _divergence(mu[at + i], row[i] - top)
        if t == length - 1:
            continue
        table, after = first + t * k * k, lo + (t + 1) * k
        top = -np.inf
        for i in range(k):
            mu[after + i] = 0.0
            if right[t, i] > -np.inf:
                top = max(top, right[t, i] + ahead[t, i])
        total = 0.0
        for i in range(k):
            total += np.exp(right[t, i] + ahead[t, i] - top) if right[t, i] > -np.inf else 0.0
        top += np.log(total)
        for i in range(k):
            x = mu[at + i]
            for j in range(k):
                score = theta[table + i * k + j] + left[t + 1, j]
                allowed = score > -np.inf and ahead[t, i] > -np.inf
                y = x * np.exp(score - ahead[t, i]) if allowed else 0.0
                mu[table + i * k + j] = y
                mu[after + j] += y
                gap += _divergence(y, right[t, i] + score - top if allowed else -np.inf)
    return gap
