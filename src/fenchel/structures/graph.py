"""Labelled graphs: forests, graphs of low treewidth, and batches of different ones."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar, cast

import numpy as np

from .._core import parallel
from .._core.checks import as_float_array, check_count, check_generator, check_no_nan, for_kernels
from .._core.errors import InvalidInput
from .._core.ragged import Ragged, inner, item_sums, offsets_of
from .._core.types import Array, ArrayLike, IntArray
from ..kernels import graph as kernels
from .base import Accuracy, Solved, Structure, items_of
from .ragged import Family, project_padded

__all__ = ["Forest", "Graph", "Graphs"]

_NO_LABELS = np.zeros(0, np.int64)
_NO_NUMBERS = np.zeros(0)
# The tables of a junction tree may hold this many numbers.
_MOST_NUMBERS = 2**25


# -- how graphs are walked ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Plan:
    """In which order the nodes of one or more graphs are eliminated, and what is in each bag: see the kernels."""

    node_off: IntArray
    edge_off: IntArray
    first: IntArray
    """The first node of each edge, counted in its graph; rows of tables are its labels."""
    second: IntArray
    order: IntArray
    up: IntArray
    up_edge: IntArray
    flip: Array
    """Whether the node is the first one of its edge ``up_edge``."""
    sep_off: IntArray
    sep: IntArray
    sep_edge: IntArray
    sep_flip: Array
    sep_pos: IntArray

    @cached_property
    def widths(self) -> IntArray:
        """The width of each graph's junction tree."""
        sizes = np.diff(self.sep_off)
        most = np.zeros(len(self.node_off) - 1, np.int64)
        np.maximum.at(most, np.repeat(np.arange(len(most)), np.diff(self.node_off)), sizes)
        return most

    @cached_property
    def n_nodes(self) -> IntArray:
        return np.diff(self.node_off)

    @cached_property
    def n_edges(self) -> IntArray:
        return np.diff(self.edge_off)

    @cached_property
    def paths(self) -> bool:
        """Whether each node but the first hangs below the one before, by an edge whose rows are the earlier's labels."""
        local = np.arange(len(self.up)) - np.repeat(self.node_off[:-1], self.n_nodes)
        return bool(np.all(self.up == local - 1) and np.all(self.up_edge == local - 1) and not self.flip.any())

    @property
    def walk(self) -> tuple[IntArray, IntArray, IntArray, Array]:
        """What walks over trees take."""
        return self.order, self.up, self.up_edge, self.flip

    @property
    def bags(self) -> tuple[IntArray, IntArray, IntArray, Array, IntArray]:
        return self.sep_off, self.sep, self.sep_edge, self.sep_flip, self.sep_pos


def forest_plan(parents: IntArray, sizes: IntArray) -> tuple[Plan, Array]:
    """The plan of forests, given one after the other by the parent of each node (-1: none), and which are sound."""
    node_off = offsets_of(sizes)
    order, up_edge = np.empty(len(parents), np.int64), np.empty(len(parents), np.int64)
    good = np.empty(len(sizes), bool)
    parallel.run(kernels.walk_forests, len(sizes), len(parents), parents, node_off, order, up_edge, good)
    child = parents >= 0
    local = np.arange(len(parents)) - np.repeat(node_off[:-1], sizes)
    edge_off = np.concatenate([[0], np.cumsum(child)])[node_off]
    sep_off = offsets_of(child.astype(np.int64))
    none = np.zeros(len(parents), bool)
    n_sep = int(sep_off[-1])
    return Plan(
        node_off, edge_off, parents[child], local[child], order, parents, up_edge, none,
        sep_off, parents[child], up_edge[child], np.zeros(n_sep, bool), np.zeros(n_sep, np.int64),
    ), good  # fmt: skip


def _graph_plan(edges: IntArray, n: int) -> Plan:
    linked = np.zeros((n, n), bool)
    linked[edges[:, 0], edges[:, 1]] = linked[edges[:, 1], edges[:, 0]] = True
    order, sizes = np.empty(n, np.int64), np.empty(n, np.int64)
    separators = np.empty((n, n), np.int64)
    kernels.eliminate(linked, order, separators, sizes)
    place = np.empty(n, np.int64)
    place[order] = np.arange(n)
    number = {(int(a), int(b)): e for e, (a, b) in enumerate(edges.tolist())}
    bags = [sorted(separators[v, : sizes[v]].tolist(), key=place.__getitem__) for v in range(n)]
    up = np.array([bag[0] if bag else -1 for bag in bags], np.int64)
    up_edge, flip = np.full(n, -1), np.zeros(n, bool)
    sep_edge, sep_flip, sep_pos = [], [], []
    for v, bag in enumerate(bags):
        above = [up[v], *bags[up[v]]] if bag else []
        for j, u in enumerate(bag):
            mine, theirs = number.get((v, u), -1), number.get((u, v), -1)
            sep_edge.append(max(mine, theirs))
            sep_flip.append(mine >= 0)
            sep_pos.append(above.index(u))
            if j == 0:
                up_edge[v], flip[v] = sep_edge[-1], sep_flip[-1]
    return Plan(
        np.array([0, n]), np.array([0, len(edges)]), edges[:, 0].copy(), edges[:, 1].copy(), order, up, up_edge, flip,
        offsets_of(sizes), np.array([u for bag in bags for u in bag], np.int64), np.array(sep_edge, np.int64),
        np.array(sep_flip, bool), np.array(sep_pos, np.int64),
    )  # fmt: skip


def _joined(plans: Sequence[Plan]) -> Plan:
    """Several plans as one."""

    def chained(name: str) -> Any:
        parts = [getattr(plan, name) for plan in plans]
        return np.concatenate(parts) if parts else np.zeros(0, np.int64)

    def shifted(name: str) -> IntArray:
        sizes = [np.diff(getattr(plan, name)) for plan in plans]
        return offsets_of(np.concatenate(sizes) if sizes else np.zeros(0, np.int64))

    offsets = ("node_off", "edge_off", "sep_off")
    return Plan(**{f: shifted(f) if f in offsets else chained(f) for f in Plan.__dataclass_fields__})


@dataclass(frozen=True)
class Layout:
    """Where the labellings of a batch stand in flat numbers, and which plan each follows."""

    flat: Array
    starts: IntArray
    which: IntArray
    plan: Plan
    labels: int

    @property
    def n(self) -> int:
        return len(self.starts)

    @cached_property
    def node_counts(self) -> IntArray:
        return self.plan.n_nodes[self.which]

    @cached_property
    def ends(self) -> IntArray:
        """The offsets of the nodes of each item, in arrays with an entry for each node."""
        return offsets_of(self.node_counts)

    @cached_property
    def edge_ends(self) -> IntArray:
        return offsets_of(self.plan.n_edges[self.which])

    @cached_property
    def node_at(self) -> IntArray:
        """Where the numbers of each node begin."""
        local = np.arange(int(self.ends[-1])) - np.repeat(self.ends[:-1], self.node_counts)
        return np.repeat(self.starts, self.node_counts) + local * self.labels

    @cached_property
    def edge_at(self) -> IntArray:
        counts = np.diff(self.edge_ends)
        local = np.arange(int(self.edge_ends[-1])) - np.repeat(self.edge_ends[:-1], counts)
        begin = self.starts + self.node_counts * self.labels
        return np.repeat(begin, counts) + local * self.labels**2

    @cached_property
    def edge_nodes(self) -> tuple[IntArray, IntArray]:
        """The two nodes of each edge, as places in arrays with an entry for each node."""
        counts = np.diff(self.edge_ends)
        begin = np.repeat(self.plan.edge_off[self.which] - self.edge_ends[:-1], counts)
        picked = begin + np.arange(int(self.edge_ends[-1]))
        shift = np.repeat(self.ends[:-1], counts)
        return self.plan.first[picked] + shift, self.plan.second[picked] + shift

    @cached_property
    def trees(self) -> bool:
        """Whether no graph of the batch has a loop."""
        return bool((self.plan.widths <= 1).all())

    @property
    def work(self) -> float:
        return float(self.ends[-1]) * self.labels**2

    @cached_property
    def bag_work(self) -> float:
        powers = np.add.reduceat(
            np.append(float(self.labels) ** (1 + np.diff(self.plan.sep_off)), 0.0), self.plan.node_off[:-1]
        )
        return float(np.where(self.plan.n_nodes > 0, powers, 0)[self.which].sum())

    def nodes(self) -> Array:
        return self.flat[self.node_at[:, None] + np.arange(self.labels)]

    def tables(self) -> Array:
        return self.flat[self.edge_at[:, None] + np.arange(self.labels**2)]

    def some(self, items: IntArray) -> Layout:
        return Layout(self.flat, self.starts[items], self.which[items], self.plan, self.labels)


# -- what one graph and a batch of graphs share ------------------------------------------------------------------------


class _GraphOracles(Structure):
    """The calls of the kernels, for any layout of the batch."""

    labels: int
    output_ndim: ClassVar[int] = 1
    part_coding: ClassVar[str | None] = "labels"

    def layout(self, rows: Any) -> Layout:
        """Where the numbers of these rows stand, for what works on all graphs of a batch at once."""
        raise NotImplementedError

    def _empty_like(self, rows: Any, dtype: Any = np.float64) -> tuple[Any, Array]:
        """Rows of the same layout, and the flat view that kernels write to."""
        raise NotImplementedError

    @property
    def n_labels(self) -> int:
        return self.labels

    # -- nodes, for costs ----------------------------------------------------------------------------------------------

    def position_marginals(self, mu: Any) -> Array:
        return self.layout(mu).nodes()

    def position_scores(self, values: Array, like: Any) -> Any:
        lay = self.layout(like)
        out, flat = self._empty_like(like)
        flat[:] = 0.0
        flat[lay.node_at[:, None] + np.arange(self.labels)] = values
        return out

    def position_counts(self, rows: Any) -> IntArray:
        return self.layout(rows).node_counts

    def as_forest(self, rows: Any) -> Layout:
        """The same layout; chains have another one."""
        return self.layout(rows)

    def independent(self, nodes: Array, like: Any) -> Any:
        """The points whose nodes have these distributions, independently of each other."""
        lay = self.layout(like)
        out, flat = self._empty_like(like)
        flat[lay.node_at[:, None] + np.arange(self.labels)] = nodes
        first, second = lay.edge_nodes
        tables = nodes[first][:, :, None] * nodes[second][:, None, :]
        flat[lay.edge_at[:, None] + np.arange(self.labels**2)] = tables.reshape(-1, self.labels**2)
        return out

    # -- vertices ------------------------------------------------------------------------------------------------------

    def _written(self, labels: IntArray, like: Any, dtype: Any = np.float64) -> Any:
        """The vertices of these labels, one after the other."""
        lay = self.layout(like)
        out, flat = self._empty_like(like, dtype)
        flat[:] = 0
        first, second = lay.edge_nodes
        flat[lay.node_at + labels] = 1
        flat[lay.edge_at + labels[first] * self.labels + labels[second]] = 1
        return out

    def _read(self, rows: Any) -> tuple[IntArray, Array]:
        """The largest entry of each node, and for which items every node has one 1 and else zeros."""
        lay = self.layout(rows)
        nodes = lay.nodes()
        labels = nodes.argmax(axis=1).astype(np.int64) if len(nodes) else _NO_LABELS
        clean = ((nodes != 0).sum(axis=1) == 1) & (nodes.max(axis=1, initial=0) == 1)
        wrong = item_sums(Ragged((~clean).astype(np.float64), lay.ends))
        return labels, wrong == 0

    def are_vertices(self, rows: Any) -> bool:
        return bool(self._read(rows)[1].all())  # of points of the set: one label at each node says the rest

    # -- oracles -------------------------------------------------------------------------------------------------------

    def center(self, theta: Any) -> Any:
        """Each node's largest score becomes zero, and each table's: a point adds up to one on either."""
        lay = self.layout(theta)
        out, flat = self._empty_like(theta)
        for at, size, values in (
            (lay.node_at, self.labels, lay.nodes()),
            (lay.edge_at, self.labels**2, lay.tables()),
        ):
            top = values.max(axis=1, initial=-np.inf)
            with np.errstate(invalid="ignore"):  # what is not finite is refused later
                flat[at[:, None] + np.arange(size)] = values - np.where(top > -np.inf, top, 0)[:, None]
        return out.astype(theta.dtype, copy=False)

    def _bag_pass(
        self, mode: int, lay: Layout, uniform: Array, labels: IntArray, mu: Array
    ) -> tuple[Array, Array, IntArray]:
        log_partition, log_likelihood, status = np.empty(lay.n), np.empty(lay.n), np.empty(lay.n, np.int64)
        p = lay.plan
        parallel.run(
            kernels.over_bags, lay.n, lay.bag_work, mode, lay.flat, lay.starts, lay.which, p.node_off, p.edge_off,
            p.order, p.up, *p.bags, self.labels, uniform, labels, lay.ends, mu, log_partition, log_likelihood, status,
        )  # fmt: skip
        return log_partition, log_likelihood, status

    def _best_labels(self, lay: Layout) -> tuple[IntArray, IntArray]:
        labels = np.empty(int(lay.ends[-1]), np.int64)
        if not lay.trees:
            return labels, self._bag_pass(kernels.BEST, lay, _NO_NUMBERS, labels, _NO_NUMBERS)[2]
        status = np.empty(lay.n, np.int64)
        parallel.run(
            kernels.best_in_trees, lay.n, lay.work, lay.flat, lay.starts, lay.which, lay.plan.node_off, *lay.plan.walk,
            self.labels, labels, lay.ends, status,
        )  # fmt: skip
        return labels, status

    def _argmax(self, rows: Any) -> Any:
        return self._argmax_at(rows, np.arange(len(rows)))

    def _argmax_at(self, rows: Any, indices: Any) -> Any:
        labels, status = self._best_labels(self.layout(rows))
        self._refuse_impossible(status, indices)
        return self._written(labels, rows)

    def _marginals(self, rows: Any) -> tuple[Array, Any]:
        log_partition, _, mu = self._sums(rows, _NO_LABELS)
        return log_partition, mu

    def _sums(self, rows: Any, truth: IntArray) -> tuple[Array, Array, Any]:
        lay = self.layout(rows)
        mu, flat = self._empty_like(rows)
        if not lay.trees:
            log_partition, log_likelihood, status = self._bag_pass(kernels.MARGINALS, lay, _NO_NUMBERS, truth, flat)
        else:
            log_partition, log_likelihood, status = np.empty(lay.n), np.empty(lay.n), np.empty(lay.n, np.int64)
            p = lay.plan
            parallel.run(
                kernels.sum_over_trees, lay.n, lay.work, lay.flat, lay.starts, lay.which, p.node_off, p.edge_off,
                *p.walk, self.labels, truth, lay.ends, flat, log_partition, log_likelihood, status,
            )  # fmt: skip
            again = np.flatnonzero(status == kernels.LOSES_DIGITS)
            if len(again):
                some = lay.some(again)
                goal = truth[Ragged(truth, lay.ends).places(again)] if len(truth) else truth
                log_partition[again], log_likelihood[again], status[again] = self._bag_pass(
                    kernels.MARGINALS, some, _NO_NUMBERS, goal, flat
                )
        self._refuse_impossible(status)
        return log_partition, log_likelihood, mu

    def fenchel_young(self, psi: str, theta: Any, v: Any, strength: float) -> tuple[Array, Any] | None:
        """The CRF loss at truths that are vertices: minus the log-probability of the truth, with no cancellation."""
        if psi != "gibbs":
            return None
        truth, sure = self._read(v)
        if not sure.all():
            return None
        check_no_nan(theta, "scores", self)
        _, log_likelihood, mu = self._sums(theta if strength == 1 else theta / strength, truth)
        return -strength * np.minimum(log_likelihood, 0), mu.astype(theta.dtype, copy=False)

    def entropy(self, theta: Any) -> Array:
        """The entropy of the Gibbs distribution, −Σ p(y) log p(y), in nats."""
        rows, batch = self._rows(theta, "scores")
        centered = self.center(rows.astype(np.float64))
        log_partition, mu = self._marginals(centered)
        entropy = np.maximum(log_partition - inner(centered, mu), 0)
        return cast(Array, entropy.astype(rows.dtype, copy=False).reshape(batch)[()])

    def draw(self, theta: Any, rng: Any = None) -> Any:
        """A random vertex from the Gibbs distribution p(y) ∝ exp ⟨θ, φ(y)⟩, exactly."""
        rows, batch = self._rows(theta, "scores")
        lay = self.layout(rows)
        uniform = check_generator(rng, "rng").random(int(lay.ends[-1]))
        labels = np.empty(uniform.size, np.int64)
        status = self._bag_pass(kernels.DRAW, lay, uniform, labels, _NO_NUMBERS)[2]
        self._refuse_impossible(status)
        return self._restore(self._written(labels, rows), batch, rows.dtype)

    def _project_ragged(self, rows: Ragged, which: IntArray, plan: Plan, accuracy: Accuracy) -> Solved:
        def best(scores: Array, items: IntArray) -> Array:
            m, width = scores.shape
            lay = Layout(scores.reshape(-1), np.arange(m) * width, which[items], plan, self.labels)
            labels, status = self._best_labels(lay)
            self._refuse_impossible(status, items)
            out = np.zeros(m * width)
            first, second = lay.edge_nodes
            out[lay.node_at + labels] = 1
            out[lay.edge_at + labels[first] * self.labels + labels[second]] = 1
            return out.reshape(m, width)

        return project_padded(rows, best, accuracy)

    def _kl_on_trees(self, rows: Any, accuracy: Accuracy) -> Solved:
        lay = self.layout(self.center(rows.astype(np.float64)))
        mu, flat = self._empty_like(rows)
        gap, n_iter, status = np.empty(lay.n), np.empty(lay.n, np.int64), np.empty(lay.n, np.int64)
        tol = accuracy.tol or (1e-15 if rows.dtype == np.float64 else 1e-12)
        p = lay.plan
        parallel.run(
            kernels.project_on_trees, lay.n, lay.work, lay.flat, lay.starts, lay.which, p.node_off, *p.walk,
            self.labels, tol, accuracy.max_iter or 2000, flat, gap, n_iter, status,
        )  # fmt: skip
        self._refuse_impossible(status)
        return Solved(points=mu, error=gap, n_iter=n_iter, converged=status == kernels.SOLVED)

    def _draw_on_trees(self, rows: Any, rng: np.random.Generator) -> Any:
        lay = self.layout(rows)
        uniform = rng.random(int(lay.ends[-1]))
        labels = np.empty(uniform.size, np.int64)
        parallel.run(
            kernels.draw_from_trees, lay.n, uniform.size * self.labels, lay.flat, lay.starts, lay.which,
            lay.plan.node_off, *lay.plan.walk, self.labels, uniform, labels, lay.ends,
        )  # fmt: skip
        return self._written(labels, rows)

    def _omega_on_trees(self, mu: Any) -> Array:
        """Σ μ log μ over edges, less (degree − 1) Σ μ log μ over nodes: minus the entropy of the Markov tree."""
        lay = self.layout(mu)
        degree = np.zeros(int(lay.ends[-1]))
        for ends in lay.edge_nodes:
            np.add.at(degree, ends, 1)
        nodes = _negentropy(lay.nodes()) * (1 - degree)
        edges = _negentropy(lay.tables())
        return item_sums(Ragged(nodes, lay.ends)) + item_sums(Ragged(edges, lay.edge_ends))

    def _local_violation(self, rows: Any) -> Array:
        """The largest violation of: nothing negative, each node sums to one, edges agree with their two nodes."""
        lay = self.layout(rows)
        nodes, tables = lay.nodes(), lay.tables().reshape(-1, self.labels, self.labels)
        first, second = lay.edge_nodes
        worst = np.maximum(-nodes.min(axis=1, initial=0), np.abs(nodes.sum(axis=1) - 1))
        off = np.maximum(
            np.abs(tables.sum(axis=2) - nodes[first]).max(axis=1, initial=0),
            np.abs(tables.sum(axis=1) - nodes[second]).max(axis=1, initial=0),
        )
        off = np.maximum(off, -tables.min(axis=(1, 2), initial=0))
        out = np.zeros(lay.n)
        np.maximum.at(out, np.repeat(np.arange(lay.n), lay.node_counts), worst)
        np.maximum.at(out, np.repeat(np.arange(lay.n), np.diff(lay.edge_ends)), off)
        return out

    def _k_best(self, lay: Layout, m: int) -> list[tuple[list[float], list[IntArray]]]:
        """By partition (Lawler): what is left after an answer differs from it at some first node; its best is asked for.

        O(m nodes) calls of argmax for each item; those of all items at a time are one call.
        """
        found: list[tuple[list[float], list[IntArray]]] = [([], []) for _ in range(lay.n)]
        waiting: list[list[Any]] = [[] for _ in range(lay.n)]
        count = itertools.count()
        # a part: the item, the labels of its first nodes, and those that the next node may not have
        parts: list[tuple[int, IntArray, tuple[int, ...]]] = [(i, _NO_LABELS, ()) for i in range(lay.n)]
        self._refuse_impossible(self._best_labels(lay)[1])
        going = True
        while going:
            for part, best in self._best_of_parts(lay, parts):
                heapq.heappush(waiting[part[0]], (-self._score(lay, part[0], best), next(count), best, part))
            parts, going = [], False
            for i, queue in enumerate(waiting):
                if not queue or len(found[i][0]) == m:
                    continue
                going = True
                cost, _, best, (_, prefix, barred) = heapq.heappop(queue)
                found[i][0].append(-cost)
                found[i][1].append(best)
                for v in range(len(prefix), len(best)):
                    parts.append((i, best[:v], (*(barred if v == len(prefix) else ()), int(best[v]))))
        return found

    def _best_of_parts(self, lay: Layout, parts: Sequence[Any]) -> Iterator[tuple[Any, IntArray]]:
        k = self.labels
        which = np.array([part[0] for part in parts], np.int64)
        sizes = (lay.node_counts * k + np.diff(lay.edge_ends) * k * k)[which]
        rows = Ragged.empty(sizes)
        for row, (i, prefix, barred) in zip(rows, parts, strict=True):
            row[:] = lay.flat[lay.starts[i] : lay.starts[i] + len(row)]
            for v, label in enumerate(prefix.tolist()):
                keep = row[v * k + label]
                row[v * k : v * k + k] = -np.inf
                row[v * k + label] = keep
            row[len(prefix) * k + np.array(barred, np.int64)] = -np.inf
        some = Layout(rows.flat, rows.offsets[:-1], lay.which[which], lay.plan, k)
        labels, status = self._best_labels(some)
        for j, part in enumerate(parts):
            if status[j] != kernels.IMPOSSIBLE:
                yield part, labels[some.ends[j] : some.ends[j + 1]]

    def _score(self, lay: Layout, i: int, labels: IntArray) -> float:
        p, k = lay.which[i], self.labels
        first = lay.plan.first[lay.plan.edge_off[p] : lay.plan.edge_off[p + 1]]
        second = lay.plan.second[lay.plan.edge_off[p] : lay.plan.edge_off[p + 1]]
        nodes = lay.starts[i] + np.arange(len(labels)) * k + labels
        edges = lay.starts[i] + len(labels) * k + np.arange(len(first)) * k * k + labels[first] * k + labels[second]
        return float(lay.flat[nodes].sum() + lay.flat[edges].sum())

    def _refuse_impossible(self, status: IntArray, indices: Any = None) -> None:
        bad = status == kernels.IMPOSSIBLE
        if bad.any():
            i = int(bad.argmax())
            i = i if indices is None else int(indices[i])
            raise InvalidInput(f"scores of -inf forbid every labelling of {self!r} at sample {i}")


def _negentropy(values: Array) -> Array:
    return np.asarray((values * np.log(np.where(values > 0, values, 1))).sum(axis=1))


class _OneGraph(_GraphOracles):
    """A single graph; rows are a batch of labellings of it."""

    @property
    def plan(self) -> Plan:
        """The order of elimination."""
        raise NotImplementedError

    @property
    def n_nodes(self) -> int:
        raise NotImplementedError

    @cached_property
    def _edges(self) -> IntArray:
        return np.stack([self.plan.first, self.plan.second], axis=1)

    @property
    def n_edges(self) -> int:
        return len(self.plan.first)

    @property
    def treewidth(self) -> int:
        """The width of the junction tree: the largest bag less one. argmax and marginals cost labels^(treewidth + 1)."""
        return int(self.plan.widths[0])

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.n_nodes * self.labels + self.n_edges * self.labels**2,)

    @property
    def n_vertices(self) -> int:
        return self.labels**self.n_nodes

    def separation(self, p: float = 2) -> float:
        if self.labels == 1 or self.n_nodes == 0:
            return np.inf
        degrees = np.bincount(self._edges.ravel(), minlength=self.n_nodes)
        return float((2 + 2 * int(degrees.min())) ** (1 / p))  # another label at one node, and in its edges

    def diameter(self, p: float = 2) -> float:
        if self.labels == 1:
            return 0.0
        return float((2 * self.n_nodes + 2 * self.n_edges) ** (1 / p))

    @property
    def max_l1(self) -> float:
        return float(self.n_nodes + self.n_edges)

    # -- nodes and edges -----------------------------------------------------------------------------------------------

    def pack(self, node: ArrayLike, edge: ArrayLike) -> Array:
        """Scores (or points) from nodes ``(*batch, nodes, labels)`` and edges ``(*batch, edges, labels, labels)``.

        A single table ``(labels, labels)`` stands for the same at all edges.
        """
        nodes, tables = as_float_array(node, "node"), as_float_array(edge, "edge")
        k, n, m = self.labels, self.n_nodes, self.n_edges
        if nodes.ndim < 2 or nodes.shape[-2:] != (n, k):
            raise InvalidInput(f"node has shape {nodes.shape}, but {self!r} needs (..., {n}, {k})")
        batch = nodes.shape[:-2]
        full = (*batch, m, k, k)
        try:
            tables = np.broadcast_to(tables.reshape(full) if tables.size == 0 else tables, full)
        except ValueError:
            raise InvalidInput(
                f"edge has shape {tables.shape}, but with node of shape {nodes.shape} {self!r} needs (..., {m}, {k}, {k})"
            ) from None
        rows = int(np.prod(batch))
        flat = [nodes.reshape(rows, n * k), tables.reshape(rows, m * k * k)]
        return np.concatenate(flat, axis=1).reshape(*batch, self.dim)

    def unpack(self, theta: ArrayLike) -> tuple[Array, Array]:
        """Nodes ``(*batch, nodes, labels)`` and edges ``(*batch, edges, labels, labels)``: views."""
        array = np.asarray(theta)
        if array.shape[-1:] != self.shape:
            raise InvalidInput(f"scores have shape {array.shape}, but {self!r} needs (..., {self.dim})")
        k, cut, batch = self.labels, self.n_nodes * self.labels, array.shape[:-1]
        nodes, edges = array[..., :cut], array[..., cut:]
        return nodes.reshape(*batch, self.n_nodes, k), edges.reshape(*batch, self.n_edges, k, k)

    def layout(self, rows: Array) -> Layout:
        flat = for_kernels(rows.reshape(-1))
        n = len(rows)
        return Layout(flat, np.arange(n) * self.dim, np.zeros(n, np.int64), self.plan, self.labels)

    def _empty_like(self, rows: Array, dtype: Any = np.float64) -> tuple[Array, Array]:
        out = np.empty((len(rows), self.dim), dtype)
        return out, out.reshape(-1)

    # -- outputs and vertices ------------------------------------------------------------------------------------------

    def _encode(self, outputs: Array, dtype: np.dtype[Any]) -> Array:
        if outputs.shape[1:] != (self.n_nodes,):
            raise InvalidInput(f"y has shape {outputs.shape}, but {self!r} needs rows of {self.n_nodes} labels")
        labels = np.ascontiguousarray(self._check_labels(outputs, self.labels), np.int64).reshape(-1)
        like = np.empty((len(outputs), self.dim))
        return cast(Array, self._written(labels, like, dtype))

    def _decode(self, rows: Array) -> Array:
        return self._read(rows)[0].reshape(len(rows), self.n_nodes)

    def _vertices(self) -> Array:
        every = np.array(list(itertools.product(range(self.labels), repeat=self.n_nodes)), np.int64)
        return self._encode(every.reshape(self.n_vertices, self.n_nodes), np.dtype(np.float64))

    # -- oracles -------------------------------------------------------------------------------------------------------

    def k_best(self, theta: ArrayLike, k: int) -> tuple[Array, Array]:
        """``(scores, outputs)`` of the k labellings of highest score, best first: ``(*batch, k)``, ``(*batch, k, nodes)``.

        Where there are fewer the score is -inf and the labels are −1. O(k nodes) calls of argmax.
        """
        rows, batch = self._rows(theta, "scores")
        k = check_count(k, "k")
        scores, labels = np.full((len(rows), k), -np.inf), np.full((len(rows), k, self.n_nodes), -1)
        for i, (values, outputs) in enumerate(self._k_best(self.layout(rows), k)):
            scores[i, : len(values)] = values
            labels[i, : len(values)] = np.reshape(outputs, (len(values), self.n_nodes))
        return scores.astype(rows.dtype, copy=False).reshape(*batch, k), labels.reshape(*batch, k, self.n_nodes)

    def _kl_project(self, rows: Array, accuracy: Accuracy) -> Array | Solved:
        if self.treewidth <= 1:
            return self._kl_on_trees(rows, accuracy)
        return super()._kl_project(rows, accuracy)

    def _sample(self, rows: Array, rng: np.random.Generator) -> Array:
        if self.treewidth <= 1:
            return cast(Array, self._draw_on_trees(rows, rng))
        return super()._sample(rows, rng)

    def gibbs_omega(self, mu: Array) -> Array:
        """Minus the entropy of the Markov tree with these edges; with loops a formula is known at vertices only."""
        if self.treewidth <= 1:
            return self._omega_on_trees(mu)
        return np.zeros(len(mu)) if self.are_vertices(mu) else super().gibbs_omega(mu)

    def _decompose(self, rows: Array) -> tuple[Array, Array]:
        """On trees, labellings that each use an edge's entry up."""
        if self.treewidth > 1:
            return super()._decompose(rows)
        most = self.dim + 1
        found: list[tuple[Array, Array]] = []
        nodes, tables = self.unpack(rows.astype(np.float64))
        for i in range(len(rows)):
            weights, labels = np.empty(most), np.empty((most, self.n_nodes), np.int64)
            m = kernels.peel(
                self.n_nodes, *self.plan.walk, self.labels, nodes[i].copy(), tables[i].copy(), weights, labels
            )
            found.append((weights[:m] / weights[:m].sum(), self._encode(labels[:m], rows.dtype)))
        most = max((len(w) for w, _ in found), default=1)
        padded = np.zeros((len(rows), most)), np.zeros((len(rows), most, self.dim), rows.dtype)
        for i, (weights, vertices) in enumerate(found):
            padded[0][i, : len(weights)] = weights
            padded[1][i] = vertices[0]  # what has no weight is a vertex all the same
            padded[1][i, : len(weights)] = vertices
        return padded

    def _violation(self, rows: Array) -> Array:
        worst = self._local_violation(rows)
        if self.treewidth <= 1 or not len(rows):
            return worst
        labels, sure = self._read(rows)
        inside = sure & (self._written(labels, rows) == rows).all(axis=1)
        worst[inside] = 0.0
        # with loops these constraints do not describe the set: other points are projected
        rest = np.flatnonzero(~inside)
        if len(rest):
            worst[rest] = np.maximum(worst[rest], super()._violation(rows[rest]))
        return worst


@dataclass(frozen=True, repr=False)
class Forest(_OneGraph):
    """Trees of labels: ``parents[v]`` is the parent of node v, −1 for a root; each edge has a table of scores.

    A vertex holds, node by node, the label as a one-hot vector, and then for each edge, in the order of the children, a
    table (labels × labels) with a 1 at row: the parent's label, column: the child's; :meth:`pack` and :meth:`unpack` go
    between this flat form and the two parts. M is the set of node and edge marginals that agree. A score of -inf forbids
    a label at a node, or a pair of labels of an edge.

    argmax (max-product) and Gibbs marginals (sum-product) cost O(nodes labels²). The Euclidean projection is the
    active-set method over argmax calls, the Kullback-Leibler projection exact descent of its dual. A batch of different
    forests is :class:`Graphs`; the path 0, 1, ... is :class:`Chain`.

    References: Pearl, "Probabilistic reasoning in intelligent systems", 1988; Lawler, "A procedure for computing the K
    best solutions to discrete optimization problems", 1972 (for ``k_best``).

    >>> from fenchel.structures import Forest
    >>> tree = Forest([-1, 0, 0], 2)
    >>> stay = [[0.0, -1.0], [-1.0, 0.0]]
    >>> theta = tree.pack([[0.0, 0.5], [1.0, 0.0], [1.0, 0.0]], stay)
    >>> tree.decode(tree.argmax(theta))
    array([0, 0, 0])
    >>> node, edge = tree.unpack(tree.marginals(theta)[1])
    >>> node.round(3)
    array([[0.591, 0.409],
           [0.725, 0.275],
           [0.725, 0.275]])
    """

    parents: tuple[int, ...]
    labels: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "parents", _whole_numbers(self.parents, "parents"))
        object.__setattr__(self, "labels", check_count(self.labels, "labels"))
        n = len(self.parents)
        bad = [v for v, u in enumerate(self.parents) if not -1 <= u < n]
        if bad:
            raise InvalidInput(f"parents[{bad[0]}] is {self.parents[bad[0]]}, expected a node from 0 to {n - 1}, or -1")

    def __repr__(self) -> str:
        shown = list(self.parents) if len(self.parents) <= 12 else f"<{len(self.parents)} nodes>"
        return f"Forest({shown}, {self.labels})"

    def __getstate__(self) -> dict[str, Any]:
        return {"parents": self.parents, "labels": self.labels}

    @cached_property
    def plan(self) -> Plan:
        plan, good = forest_plan(np.array(self.parents, np.int64), np.array([len(self.parents)]))
        if not good[0]:
            raise InvalidInput(f"the parents of {self!r} go in a circle; a graph with loops is Graph(edges, labels)")
        return plan

    @property
    def n_nodes(self) -> int:
        return len(self.parents)


@dataclass(frozen=True, repr=False)
class Graph(_OneGraph):
    """Any graph of labels, loops included: ``edges`` are pairs of nodes, each with a table of scores.

    A vertex holds, node by node, the label as a one-hot vector, and then for each edge, as listed, a table with a 1 at row:
    the label of its first node, column: that of its second. M is the convex hull of all labellings, the marginal polytope.
    Nodes are 0 to the largest that has an edge, or ``n_nodes`` of them.

    The junction tree comes from eliminating nodes in the order that adds fewest edges (min-fill); ``treewidth`` says how
    wide it is: 1 for a tree, 2 for a cycle or a ladder, 3 for a grid of three rows. argmax, marginals and draws cost
    O(nodes labels^(treewidth + 1)); a graph whose tables would not fit is refused. With loops the
    marginal polytope has no short description, so points are projected, decomposed and drawn from by the active-set method.

    References: Lauritzen and Spiegelhalter, "Local computations with probabilities on graphical structures and their
    application to expert systems", 1988; Kjaerulff, "Triangulation of graphs: algorithms giving small total state space",
    1990; Lawler, "A procedure for computing the K best solutions to discrete optimization problems", 1972.

    >>> import numpy as np
    >>> from fenchel.structures import Graph
    >>> cycle = Graph([(0, 1), (1, 2), (2, 3), (3, 0)], 2)
    >>> cycle.treewidth
    2
    >>> theta = cycle.pack([[1.0, 0.0], [0.0, 0.2], [0.0, 0.0], [0.0, 0.2]], np.eye(2))
    >>> cycle.decode(cycle.argmax(theta))
    array([0, 0, 0, 0])
    """

    edges: tuple[tuple[int, int], ...]
    labels: int
    n_nodes: Any = None

    def __post_init__(self) -> None:
        try:
            pairs = tuple((a, b) for a, b in self.edges)
        except (TypeError, ValueError):
            raise InvalidInput(f"edges is {self.edges!r}, expected pairs of nodes such as [(0, 1), (1, 2)]") from None
        flat = _whole_numbers([v for pair in pairs for v in pair], "edges")
        object.__setattr__(self, "edges", tuple(zip(flat[::2], flat[1::2], strict=True)))
        object.__setattr__(self, "labels", check_count(self.labels, "labels"))
        least = max(flat, default=-1) + 1
        n = least if self.n_nodes is None else check_count(self.n_nodes, "n_nodes", minimum=0)
        object.__setattr__(self, "n_nodes", n)
        seen: set[frozenset[int]] = set()
        for e, (a, b) in enumerate(self.edges):
            if not (0 <= a < n and 0 <= b < n):
                raise InvalidInput(f"edge {e} is ({a}, {b}), but there are nodes 0 to {n - 1}")
            if a == b:
                raise InvalidInput(f"edge {e} is ({a}, {b}): it joins a node to itself; add its scores to the node's")
            if frozenset((a, b)) in seen:
                raise InvalidInput(f"edge {e} is ({a}, {b}), which is there already; add its scores to that one's")
            seen.add(frozenset((a, b)))
        size = float(np.sum(float(self.labels) ** (1.0 + np.diff(self.plan.sep_off))))
        if size > _MOST_NUMBERS:
            raise InvalidInput(
                f"{self!r} has a junction tree of width {self.treewidth}, whose tables would hold {size:.3g} numbers "
                f"(at most {_MOST_NUMBERS} are allowed): leave out edges that close loops, merge labels, or give "
                "structures.Oracle an approximate argmax of your own"
            )

    def __repr__(self) -> str:
        shown = list(self.edges) if len(self.edges) <= 8 else f"<{len(self.edges)} edges>"
        least = max((max(pair) for pair in self.edges), default=-1) + 1
        more = "" if self.n_nodes == least else f", n_nodes={self.n_nodes}"
        return f"Graph({shown}, {self.labels}{more})"

    def __getstate__(self) -> dict[str, Any]:
        return {"edges": self.edges, "labels": self.labels, "n_nodes": self.n_nodes}

    @property
    def plan(self) -> Plan:
        return _plan_of(self.edges, self.n_nodes)


@lru_cache(maxsize=4096)
def _plan_of(edges: tuple[tuple[int, int], ...], n: int) -> Plan:
    return _graph_plan(np.array(edges, np.int64).reshape(-1, 2), n)


class Graphs(_GraphOracles, Family):
    """Labellings of a different graph for each item of a batch: forests and graphs, all with the same labels.

    The items belong to their graphs: item i of a batch of scores is on ``members[i]``, and ``take(idx)`` is the structure
    of some of them. Scores and points are flat numbers with offsets (:class:`Ragged`) or lists of arrays; all items go
    through a kernel in one call.

    >>> from fenchel.structures import Forest, Graph, Graphs
    >>> graphs = Graphs([Forest([-1, 0], 2), Graph([(0, 1), (1, 2), (0, 2)], 2)])
    >>> stay = [[1.0, 0.0], [0.0, 1.0]]
    >>> theta = graphs.pack([[[0.0, 2.0], [0.5, 0.0]], [[1.0, 0.0], [0.0, 0.5], [0.0, 0.0]]], stay)
    >>> graphs.decode(graphs.argmax(theta))
    [array([1, 1]), array([0, 0, 0])]
    """

    def __init__(self, members: Iterable[Forest | Graph], labels: int | None = None) -> None:
        self.members = tuple(members)
        for i, member in enumerate(self.members):
            if not isinstance(member, Forest | Graph):
                raise InvalidInput(f"members[{i}] is {member!r}, expected a Forest or a Graph")
        if labels is None:
            if not self.members:
                raise InvalidInput("there are no graphs, so labels must say how many labels a node may have")
            labels = self.members[0].labels
        self.labels = check_count(labels, "labels")
        for i, member in enumerate(self.members):
            if member.labels != self.labels:
                raise InvalidInput(f"members[{i}] is {member!r}, but the others have {self.labels} labels")

    def saved_arguments(self) -> dict[str, Any]:
        """Constructor arguments for a saved model."""
        return {"members": self.members, "labels": self.labels}

    def __getstate__(self) -> dict[str, Any]:
        return {"members": self.members, "labels": self.labels}

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__dict__:
            raise AttributeError(f"{type(self).__name__} is a value: {name} cannot be changed")
        super().__setattr__(name, value)

    def __repr__(self) -> str:
        return f"Graphs(<{len(self.members)} graphs>, {self.labels})"

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Graphs)
            and self.labels == other.labels
            and hash(self) == hash(other)
            and self.members == other.members
        )

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.members, self.labels))

    # -- which graph an item is on -------------------------------------------------------------------------------------

    @cached_property
    def plan(self) -> Plan:
        """The orders of elimination of all graphs."""
        if self.members and all(isinstance(member, Forest) for member in self.members):
            forests = cast("tuple[Forest, ...]", self.members)
            sizes = np.array([len(f.parents) for f in forests], np.int64)
            parents = np.fromiter(itertools.chain.from_iterable(f.parents for f in forests), np.int64, int(sizes.sum()))
            plan, good = forest_plan(parents, sizes)
            if not good.all():
                i = int(np.argmin(good))
                raise InvalidInput(f"the parents of {forests[i]!r} (sample {i}) go in a circle")
            return plan
        return _joined([member.plan for member in self.members])

    @cached_property
    def sizes(self) -> IntArray:
        """How many numbers each item has."""
        return self.plan.n_nodes * self.labels + self.plan.n_edges * self.labels**2

    @property
    def examples(self) -> tuple[Structure, ...]:
        return self.members[:4] or (Forest((-1,), self.labels),)

    @property
    def treewidth(self) -> int:
        """The largest of all graphs."""
        return int(self.plan.widths.max(initial=0))

    def missing(self) -> Mapping[str, str]:
        absent = {name: reason for member in self.examples for name, reason in member.missing().items()}
        absent["vertices"] = "its items have different vertices; ask members[i] for those of one"
        return absent

    def separation(self, p: float = 2) -> float:
        return min((member.separation(p) for member in self.members), default=np.inf)

    def diameter(self, p: float = 2) -> float:
        return max((member.diameter(p) for member in self.members), default=0.0)

    @property
    def max_l1(self) -> float:
        return max((member.max_l1 for member in self.members), default=0.0)

    def take(self, idx: Any) -> Graphs:
        return Graphs([self.members[i] for i in items_of(len(self.members), idx, self)], self.labels)

    def member(self, size: int) -> Structure:
        raise InvalidInput(f"items of {self!r} are told apart by their place in the batch; ask members[i]")

    def member_of(self, y: Any) -> Structure:
        raise InvalidInput(f"items of {self!r} are told apart by their place in the batch; ask members[i]")

    def _member(self, size: int, i: int, name: str) -> Structure:
        if i >= len(self.members) or self.members[i].dim != size:
            what = (
                f"{self.members[i]!r} has {self.members[i].dim}" if i < len(self.members) else "there is no such item"
            )
            raise InvalidInput(f"{name} of sample {i} are {size} numbers, but {what} in {self!r}")
        return self.members[i]

    def as_rows(self, value: Any, name: str) -> Any:
        rows, batch = super().as_rows(value, name)
        if len(rows) != len(self.members):
            raise InvalidInput(
                f"{name} are a batch of {len(rows)} items, but {self!r} is for {len(self.members)}; take(idx) is the "
                "structure of some of them"
            )
        return rows, batch

    def _check_sizes(self, rows: Ragged, name: str) -> None:
        if rows.offsets[0] != 0 or rows.offsets[-1] != rows.flat.size or rows.sizes.min(initial=0) < 0:
            raise InvalidInput(f"{name} have offsets that do not cut their {rows.flat.size} numbers into items")
        if len(rows) == len(self.members):
            wrong = np.flatnonzero(rows.sizes != self.sizes)
            if len(wrong):
                self._member(int(rows.sizes[wrong[0]]), int(wrong[0]), name)

    def groups(self, rows: Ragged) -> Iterator[tuple[Structure, IntArray]]:
        numbers: dict[Structure, list[int]] = {}
        for i, graph in enumerate(self.members):
            numbers.setdefault(graph, []).append(i)
        for member, items in numbers.items():
            yield member, np.array(items, np.int64)

    def unpacked(self, rows: Ragged) -> list[Array]:
        return list(rows)

    def layout(self, rows: Any) -> Layout:
        flat = for_kernels(rows.flat)
        base = self._layout
        if len(rows) != len(self.members):
            raise InvalidInput(f"{self!r} was given a batch of {len(rows)}; take(idx) is the structure for other items")
        made = Layout(flat, base.starts, base.which, base.plan, self.labels)
        made.__dict__.update({name: value for name, value in base.__dict__.items() if name not in ("flat",)})
        return made

    @cached_property
    def _layout(self) -> Layout:
        n = len(self.members)
        lay = Layout(_NO_NUMBERS, offsets_of(self.sizes)[:-1], np.arange(n), self.plan, self.labels)
        _ = lay.node_at, lay.edge_at, lay.edge_nodes, lay.trees, lay.bag_work  # all that does not depend on the numbers
        return lay

    def _empty_like(self, rows: Ragged, dtype: Any = np.float64) -> tuple[Ragged, Array]:
        out = np.empty(rows.flat.size, dtype)
        return Ragged(out, rows.offsets), out

    # -- nodes and edges -----------------------------------------------------------------------------------------------

    def pack(self, node: Sequence[ArrayLike], edge: Any) -> Ragged:
        """Scores from a list of nodes ``(nodes, labels)`` and the edges of all: one table, or a list, an item each."""
        k = self.labels
        shared = np.ndim(edge[0]) == 1 and len(edge) == k if len(edge) else False
        if len(node) != len(self.members) or not (shared or len(edge) == len(self.members)):
            raise InvalidInput(
                f"node has {len(node)} items and edge {len(edge)}, but {self!r} needs one for each graph, or one table of "
                f"edges ({k}, {k})"
            )
        items = []
        for i, member in enumerate(self.members):
            try:
                items.append(member.pack(node[i], edge if shared else edge[i]))
            except InvalidInput as error:
                raise InvalidInput(f"sample {i}: {error}") from None
        return Ragged.of(items, None if items else np.float64)

    def unpack(self, theta: Any) -> list[tuple[Array, Array]]:
        """Nodes and edges of each item: views."""
        rows = theta if isinstance(theta, Ragged) else self.as_rows(theta, "scores")[0]
        return [member.unpack(item) for member, item in zip(self.members, rows, strict=True)]

    def assemble(self, nodes: Array, tables: Array) -> Ragged:
        """Scores from a row of nodes for each node of all graphs, and one table for all edges or one for each edge.

        What a scorer computes for all nodes at once.
        """
        lay = self._layout
        out = Ragged.empty(self.sizes)
        out.flat[lay.node_at[:, None] + np.arange(self.labels)] = nodes
        out.flat[lay.edge_at[:, None] + np.arange(self.labels**2)] = tables.reshape(-1, self.labels**2)
        return out

    def edge_rows(self, values: Ragged) -> Array:
        """The tables of all edges of all graphs, ``(edges, labels, labels)``."""
        return self.layout(values).tables().reshape(-1, self.labels, self.labels)

    # -- outputs -------------------------------------------------------------------------------------------------------

    def encode(self, y: Any, dtype: Any = np.float64) -> Any:
        if isinstance(y, str | bytes | dict) or not hasattr(y, "__len__") or len(y) != len(self.members):
            got = len(y) if hasattr(y, "__len__") else type(y).__name__
            raise InvalidInput(f"y is {got}, expected a list with the labels of each of {len(self.members)} graphs")
        arrays = [np.asarray(output) for output in y]
        for i, (member, array) in enumerate(zip(self.members, arrays, strict=True)):
            if array.shape != (member.n_nodes,):
                raise InvalidInput(f"y of sample {i} has shape {array.shape}, but its graph has {member.n_nodes} nodes")
            if array.size and array.dtype.kind not in "iuf":
                raise InvalidInput(f"y of sample {i} has type {array.dtype}, expected whole numbers")
        flat = np.concatenate([_NO_LABELS, *(a if a.size else _NO_LABELS for a in arrays)])
        bad = (flat < 0) | (flat >= self.labels) | (flat != np.floor(flat))
        if bad.any():
            place = int(bad.argmax())
            i, where = Ragged(flat, self._layout.ends).item_of(place)
            raise InvalidInput(
                f"y is {flat[place]} at sample {i}, node {where[0]}, but labels of {self!r} are whole numbers from 0 to "
                f"{self.labels - 1}"
            )
        like = Ragged.empty(self.sizes, np.dtype(dtype))
        return self._written(flat.astype(np.int64, copy=False), like, dtype)

    def decode(self, vertex: Any) -> Any:
        rows: Any = self._rows(vertex, "vertices", points=True)[0]
        labels, _ = self._read(rows)
        wrong = np.flatnonzero(self._written(labels, rows).flat != rows.flat)
        if len(wrong):
            i, _ = rows.item_of(int(wrong[0]))
            raise InvalidInput(
                f"sample {i} is no vertex of {self.members[i]!r}: {np.array2string(rows[i], threshold=20)}"
            )
        return np.split(labels, self._layout.ends[1:-1]) if len(rows) else []

    # -- oracles -------------------------------------------------------------------------------------------------------

    def k_best(self, theta: Any, k: int) -> list[tuple[Array, Array]]:
        """A pair ``(scores, outputs)`` for each item, best first: as many as there are, at most k."""
        rows = self._rows(theta, "scores")[0]
        found = self._k_best(self.layout(rows), check_count(k, "k"))
        return [
            (np.array(scores), np.reshape(outputs, (len(scores), member.n_nodes)))
            for member, (scores, outputs) in zip(self.members, found, strict=True)
        ]

    def _project(self, rows: Any, accuracy: Accuracy) -> Solved:
        return self._project_ragged(rows, np.arange(len(rows)), self.plan, accuracy)

    def _kl_project(self, rows: Any, accuracy: Accuracy) -> Any:
        if self.treewidth <= 1:
            return self._kl_on_trees(rows, accuracy)
        return Family._kl_project(self, rows, accuracy)

    def _sample(self, rows: Any, rng: np.random.Generator) -> Any:
        if self.treewidth <= 1:
            return self._draw_on_trees(rows, rng)
        return Family._sample(self, rows, rng)

    def gibbs_omega(self, mu: Any) -> Array:
        return self._omega_on_trees(mu) if self.treewidth <= 1 else Family.gibbs_omega(self, mu)

    def _violation(self, rows: Any) -> Array:
        return self._local_violation(rows) if self.treewidth <= 1 else Family._violation(self, rows)

    def _nearest(self, rows: Any, p: float) -> Any:
        return Structure._nearest(self, rows, p)


def _whole_numbers(values: Any, name: str) -> tuple[int, ...]:
    try:
        array = np.asarray(list(values))
    except TypeError:
        raise InvalidInput(f"{name} is {values!r}, expected a list of nodes") from None
    if array.size == 0:
        return ()
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InvalidInput(f"{name} must be whole numbers, got {array.dtype} of shape {array.shape}")
    return tuple(array.tolist())
