"""Undirected trees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, cast

import numpy as np

from .._core import parallel
from .._core.checks import as_float_array, check_count, check_generator, for_kernels
from .._core.errors import InvalidInput
from .._core.ragged import Ragged, inner, offsets_of
from .._core.types import Array, ArrayLike, IntArray
from ..kernels import lifted_tree, tree_cuts
from ..kernels import spanning_tree as kernels
from ..kernels.arborescence import IMPOSSIBLE
from .base import Accuracy, Solved, Structure
from .ragged import Family, project_padded
from .tree import Arborescence
from .tree_entropy import CutSolution, project_with_cuts, solve_entropic
from .tree_projection import Graph, ProjectedTrees

__all__ = ["SpanningTree", "SpanningTrees"]

# Sets of nodes with no more than this beyond their size less one between them are not cut off.
_NO_EXCESS = 1e-12


class _SpanningOracles(Structure):
    """What one spanning tree and a family of them share."""

    output_ndim: ClassVar[int] = 1
    part_coding: ClassVar[str | None] = "entry"

    def _flat(self, rows: Any) -> tuple[Array, IntArray, IntArray]:
        """The numbers of all items, where each item starts, and how many nodes it has."""
        raise NotImplementedError

    def _zeros_like(self, rows: Any) -> tuple[Any, Array]:
        raise NotImplementedError

    def _argmax(self, rows: Any) -> Any:
        return self._argmax_at(rows, np.arange(len(rows)))

    def _argmax_at(self, rows: Any, indices: Any) -> Any:
        edges, status = _best_edges(*self._flat(rows))
        self._refuse_impossible(status, indices)
        out, flat = self._zeros_like(rows)
        flat[edges] = 1.0
        return out

    def gibbs_omega(self, mu: Any) -> Array:
        """Zero at vertices; the largest entropy of trees with a given mean has no formula."""
        return np.zeros(len(mu)) if self.are_vertices(mu) else Structure.gibbs_omega(self, mu)

    def _refuse_impossible(self, status: IntArray, indices: Any) -> None:
        bad = status == IMPOSSIBLE
        if bad.any():
            i = int(indices[int(bad.argmax())])
            raise InvalidInput(
                f"scores of -inf leave a graph of several pieces to {self!r} at sample {i}: no tree spans it"
            )


def _best_edges(flat: Array, starts: IntArray, nodes: IntArray) -> tuple[IntArray, IntArray]:
    counts = nodes - 1
    edges, status = np.empty(int(counts.sum()), np.int64), np.empty(len(starts), np.int64)
    parallel.run(
        kernels.argmax, len(starts), float((nodes.astype(float) ** 2).sum()), flat, starts, nodes, edges,
        offsets_of(counts), status,
    )  # fmt: skip
    return edges, status


@dataclass(frozen=True, repr=False)
class SpanningTree(_SpanningOracles, ProjectedTrees):
    """Undirected trees that span ``n`` nodes: φ(y) = y has a 1 for each edge of the tree.

    Points have an entry for each pair of nodes i < j, in the order of ``numpy.triu_indices(n, 1)``; :meth:`pack` and
    :meth:`unpack` go between this and symmetric matrices, :meth:`from_edges` and :meth:`edges` between outputs and lists of
    edges. M is the spanning tree polytope: μ ≥ 0, Σ μ = n − 1, at most |S| − 1 within any set S of nodes. A score of -inf
    forbids an edge. Two trees that differ in one edge differ in two entries, so Hamming counts a wrong edge twice.

    argmax is Prim's algorithm, O(n²). Marginals, log-partition, draws and the k best are those of the arborescences from
    node 0 that have the same score in both directions: each undirected tree is one of them. The Euclidean projection
    is the active-set method over argmax calls.

    References: Kirchhoff, "Über die Auflösung der Gleichungen, auf welche man bei der Untersuchung der linearen Verteilung
    galvanischer Ströme geführt wird", 1847; Prim, "Shortest connection networks and some generalizations", 1957;
    Edmonds, "Matroids and the greedy algorithm", 1971.

    >>> from fenchel.structures import SpanningTree
    >>> trees = SpanningTree(4)
    >>> theta = trees.pack([[0, 3, 1, 0], [3, 0, 2, 0], [1, 2, 0, 1], [0, 0, 1, 0]])
    >>> trees.edges(trees.decode(trees.argmax(theta))).tolist()
    [[0, 1], [1, 2], [2, 3]]
    >>> trees.unpack(trees.marginals(theta)[1]).round(3)
    array([[0.   , 0.888, 0.302, 0.258],
           [0.888, 0.   , 0.684, 0.248],
           [0.302, 0.684, 0.   , 0.62 ],
           [0.258, 0.248, 0.62 , 0.   ]])
    """

    n: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", check_count(self.n, "n"))

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.n * (self.n - 1) // 2,)

    @property
    def n_vertices(self) -> int:
        return int(self.n ** max(self.n - 2, 0))

    def separation(self, p: float = 2) -> float:
        return float(2 ** (1 / p)) if self.n > 2 else np.inf

    def diameter(self, p: float = 2) -> float:
        if self.n < 3:
            return 0.0
        return float(
            (2 if self.n == 3 else 2 * (self.n - 1)) ** (1 / p)
        )  # from four nodes on two trees can be disjoint

    @property
    def max_l1(self) -> float:
        return float(self.n - 1)

    def center(self, theta: Array) -> Array:
        """The largest score becomes zero: every tree has as many edges."""
        top = theta.max(axis=1, keepdims=True, initial=-np.inf)
        return theta - np.where(np.isfinite(top), top, 0)

    # -- forms of scores and outputs -----------------------------------------------------------------------------------

    @cached_property
    def _pairs(self) -> tuple[IntArray, IntArray]:
        rows, columns = np.triu_indices(self.n, 1)
        return rows, columns

    @cached_property
    def _directed(self) -> IntArray:
        """Which entry of a point, with one more at the end, each arc of the arborescence from node 0 has."""
        places = np.full((self.n, self.n), self.dim)
        places[self._pairs] = places[self._pairs[::-1]] = np.arange(self.dim)
        return places[1:]

    def pack(self, matrix: ArrayLike) -> Array:
        """Scores (or points) from symmetric matrices ``(*batch, n, n)``, whose diagonal is ignored.

        >>> SpanningTree(3).pack([[0, 1, 2], [1, 0, 3], [2, 3, 0]])
        array([1., 2., 3.])
        """
        full = as_float_array(matrix, "matrix")
        if full.shape[-2:] != (self.n, self.n):
            raise InvalidInput(f"matrix has shape {full.shape}, but {self!r} needs (..., {self.n}, {self.n})")
        upper, lower = full[..., self._pairs[0], self._pairs[1]], full[..., self._pairs[1], self._pairs[0]]
        if not np.array_equal(upper, lower):
            raise InvalidInput(f"matrix is not symmetric, but an edge of {self!r} has no direction; add its transpose?")
        return upper

    def unpack(self, theta: ArrayLike) -> Array:
        """Symmetric matrices ``(*batch, n, n)``, zero on the diagonal."""
        array = np.asarray(theta)
        if array.shape[-1:] != self.shape:
            raise InvalidInput(f"scores have shape {array.shape}, but {self!r} needs (..., {self.dim})")
        full = np.zeros((*array.shape[:-1], self.n, self.n), array.dtype)
        full[..., self._pairs[0], self._pairs[1]] = full[..., self._pairs[1], self._pairs[0]] = array
        return full

    def from_edges(self, edges: ArrayLike) -> IntArray:
        """The output y that has these n − 1 edges, pairs of nodes.

        >>> SpanningTree(3).from_edges([(0, 2), (2, 1)])
        array([0, 1, 1])
        """
        pairs = np.asarray(edges, dtype=np.int64).reshape(-1, 2)
        if pairs.size and (pairs.min() < 0 or pairs.max() >= self.n):
            raise InvalidInput(f"edges of {self!r} join nodes 0 to {self.n - 1}, got {pairs.tolist()}")
        y = np.zeros((self.n, self.n), np.int64)
        y[pairs[:, 0], pairs[:, 1]] = y[pairs[:, 1], pairs[:, 0]] = 1
        out: IntArray = y[self._pairs]
        self._encode(out[None], np.dtype(np.float64))
        return out

    def edges(self, y: ArrayLike) -> IntArray:
        """The edges (n − 1, 2) of an output or a vertex, each with the lower node first."""
        at = np.flatnonzero(np.asarray(y))
        return np.stack([self._pairs[0][at], self._pairs[1][at]], axis=1)

    def graph(self) -> Graph:
        return Graph(np.stack(self._pairs, axis=1), self.n, lifted_tree.UNDIRECTED)

    def _flat(self, rows: Array) -> tuple[Array, IntArray, IntArray]:
        return for_kernels(rows.reshape(-1)), np.arange(len(rows)) * self.dim, np.full(len(rows), self.n)

    def _zeros_like(self, rows: Array) -> tuple[Array, Array]:
        out = np.zeros((len(rows), self.dim))
        return out, out.reshape(-1)

    # -- outputs and vertices ------------------------------------------------------------------------------------------

    def _encode(self, outputs: Array, dtype: np.dtype[Any]) -> Array:
        if outputs.shape[1:] != self.shape:
            raise InvalidInput(
                f"y has shape {outputs.shape}, but {self!r} needs rows of {self.dim} zeros and ones, one for each pair of "
                "nodes; see from_edges"
            )
        bits = outputs.astype(np.float64)
        wrong = ~((bits == 0) | (bits == 1)).all(axis=1)
        wrong |= bits.sum(axis=1) != self.n - 1
        if not wrong.any() and self.n > 1:
            # n - 1 edges are a tree exactly if they connect all nodes: only then their scores sum to zero at best
            best = self._argmax_at(bits, np.arange(len(bits)))
            wrong = (best != bits).any(axis=1)
        if wrong.any():
            i = int(wrong.argmax())
            raise InvalidInput(
                f"y is no tree of {self!r} at sample {i}: it needs {self.n - 1} edges that join all nodes"
            )
        return bits.astype(dtype)

    def _decode(self, rows: Array) -> Array:
        outputs = (rows > 0.5).astype(np.int64)
        if self.n > 1:
            best = self._argmax_at(rows.astype(np.float64), np.arange(len(rows))).astype(np.int64)
            outputs = np.where((best == outputs).all(axis=1, keepdims=True), outputs, best)
        return outputs

    def _vertices(self) -> Array:
        """By Prüfer's code: the sequences of n − 2 nodes."""
        n = self.n
        if n < 3:
            return np.ones((1, self.dim))
        codes = np.stack(np.meshgrid(*[np.arange(n)] * (n - 2), indexing="ij"), axis=-1).reshape(-1, n - 2)
        out = np.zeros((len(codes), n, n))
        every = np.arange(len(codes))
        degree = 1 + (codes[:, :, None] == np.arange(n)).sum(axis=1)
        for step in range(n - 2):
            leaf = (degree == 1).argmax(axis=1)
            out[every, leaf, codes[:, step]] = out[every, codes[:, step], leaf] = 1
            degree[every, leaf] -= 1
            degree[every, codes[:, step]] -= 1
        rest = np.argsort(degree != 1, axis=1, kind="stable")[:, :2]
        out[every, rest[:, 0], rest[:, 1]] = out[every, rest[:, 1], rest[:, 0]] = 1
        vertices: Array = out[:, self._pairs[0], self._pairs[1]]
        return vertices

    # -- oracles by arborescences from node 0 --------------------------------------------------------------------------

    def _arcs(self, rows: Array) -> Array:
        """Scores of the arborescences from node 0: both directions of an edge have its score."""
        padded = np.concatenate([rows.astype(np.float64, copy=False), np.full((len(rows), 1), -np.inf)], axis=1)
        return padded[:, self._directed]

    def _folded(self, arcs: Array) -> Array:
        """The sum over both directions."""
        full = np.zeros((len(arcs), self.n, self.n))
        full[:, 1:] = arcs
        return self.pack(full + full.swapaxes(1, 2))

    def _checked_rows(self, theta: ArrayLike) -> tuple[Array, tuple[int, ...]]:
        rows, batch = self._rows(theta, "scores")
        self._argmax(rows)  # complains where no tree is left
        return rows, batch

    def _marginals(self, rows: Array) -> tuple[Array, Array]:
        if self.n == 1:
            return np.zeros(len(rows)), np.zeros((len(rows), 0))
        self._argmax(rows)
        log_partition, mu = Arborescence(self.n - 1)._marginals(self._arcs(rows))
        return log_partition, np.minimum(self._folded(mu), 1.0)

    def _project(self, rows: Array, accuracy: Accuracy) -> Array | Solved:
        return super()._project(self.center(rows), accuracy)  # smaller numbers, the same projection

    def _kl_project(self, rows: Array, accuracy: Accuracy) -> Solved:
        """By cutting planes: sets of nodes with too much between them are found by maximum flows."""
        if self.n < 3:  # a single tree
            return Solved(
                self._argmax(rows), np.zeros(len(rows)), np.zeros(len(rows), np.int64), np.ones(len(rows), bool)
            )
        self._argmax(rows)

        def separate(x: Array) -> tuple[Array, Array]:
            inside, lack = np.zeros((1, self.n, self.n), np.int64), np.zeros((1, self.n))
            tree_cuts.separate(0, 1, self.unpack(x)[None], True, inside, lack)
            sets = np.unique(inside[0, lack[0] > _NO_EXCESS].astype(bool), axis=0)
            within = (sets[:, self._pairs[0]] & sets[:, self._pairs[1]]).astype(np.float64)
            return -within, 1.0 - sets.sum(axis=1)

        def solve(theta: Array) -> tuple[Array, Array, CutSolution]:
            none = np.zeros((0, self.dim)), np.zeros(0)
            found = project_with_cuts(theta[None], self.n - 1.0, none, separate, 1e-11)
            return found.point[0], found.logs[0], found

        return solve_entropic(self, rows, accuracy, solve)

    def entropy(self, theta: ArrayLike) -> Array:
        """The entropy of the Gibbs distribution, −Σ p(y) log p(y), in nats."""
        rows, batch = self._rows(theta, "scores")
        centered = self.center(rows.astype(np.float64))
        log_partition, mu = self._marginals(centered)
        entropy = np.maximum(log_partition - inner(centered, mu), 0)
        return cast(Array, entropy.astype(rows.dtype, copy=False).reshape(batch)[()])

    def draw(self, theta: ArrayLike, rng: Any = None) -> Array:
        """A random vertex from the Gibbs distribution p(y) ∝ exp ⟨θ, φ(y)⟩, exactly.

        >>> SpanningTree(4).draw([0.0, 0.0, 0.0, 5.0, 5.0, 0.0], rng=0)
        array([1., 0., 0., 1., 1., 0.])
        """
        rows, batch = self._checked_rows(theta)
        if self.n == 1:
            return np.zeros((*batch, 0), rows.dtype)
        drawn = Arborescence(self.n - 1).draw(self._arcs(rows), rng)
        return self._restore(self._folded(drawn), batch, rows.dtype)

    def k_best(self, theta: ArrayLike, k: int) -> tuple[Array, Array]:
        """``(scores, outputs)`` of the k trees of highest score, best first: ``(*batch, k)`` and ``(*batch, k, dim)``.

        Where there are fewer the score is -inf and the entries are −1. O(k n³).

        >>> SpanningTree(3).k_best([2.0, 1.0, 0.0], 2)
        (array([3., 2.]), array([[1, 1, 0],
               [1, 0, 1]]))
        """
        rows, batch = self._checked_rows(theta)
        k = check_count(k, "k")
        if self.n == 1:
            scores = np.where(np.arange(k) == 0, 0.0, -np.inf) + np.zeros((len(rows), 1))
            return scores.reshape(*batch, k), np.zeros((*batch, k, 0), np.int64)
        trees = Arborescence(self.n - 1)
        scores, heads = trees.k_best(self._arcs(rows), k)
        found = scores > -np.inf
        out = np.full((len(rows), k, self.dim), -1)
        out[found] = self._folded(trees._matrices(heads[found], np.dtype(np.float64))).astype(np.int64)
        return scores.astype(rows.dtype, copy=False).reshape(*batch, k), out.reshape(*batch, k, self.dim)


@dataclass(frozen=True)
class SpanningTrees(_SpanningOracles, Family):
    """Undirected trees over any numbers of nodes: :class:`SpanningTree` for each.

    >>> from fenchel.structures import SpanningTrees
    >>> SpanningTrees().argmax([[1.0, 2.0, 3.0], [0.5]])
    [array([0., 1., 1.]), array([1.])]
    """

    @property
    def examples(self) -> tuple[Structure, ...]:
        return SpanningTree(3), SpanningTree(1), SpanningTree(4)

    def _nodes(self, sizes: IntArray) -> IntArray:
        return np.floor((np.sqrt(8.0 * np.asarray(sizes) + 1.0) + 1.0) / 2.0 + 1e-6).astype(np.int64)

    def member(self, size: int) -> SpanningTree:
        tree = SpanningTree(int(self._nodes(np.array([size]))[0]))
        if tree.dim != size:
            raise InvalidInput(f"{size} numbers are no tree of {self!r}: one of n nodes has n (n - 1) / 2")
        return tree

    def member_of(self, y: Any) -> SpanningTree:
        if not hasattr(y, "__len__"):
            raise InvalidInput(f"an output is {y!r}, expected zeros and ones for the edges")
        return self.member(len(cast(Sequence[Any], y)))

    def _flat(self, rows: Ragged) -> tuple[Array, IntArray, IntArray]:
        return for_kernels(rows.flat), rows.offsets[:-1], self._nodes(rows.sizes)

    def _zeros_like(self, rows: Ragged) -> tuple[Ragged, Array]:
        out = np.zeros(rows.flat.size)
        return Ragged(out, rows.offsets), out

    def entropy(self, theta: Any) -> Array:
        """The entropy of each item's Gibbs distribution, in nats."""
        rows, batch = self._rows(theta, "scores")
        found: Any = self.per_item(cast(Ragged, rows), lambda member, block: cast(SpanningTree, member).entropy(block))
        return cast(Array, found.astype(rows.dtype, copy=False).reshape(batch)[()])

    def draw(self, theta: Any, rng: Any = None) -> Any:
        """A random tree for each item from its Gibbs distribution, exactly."""
        rows, batch = self._rows(theta, "scores")
        generator = check_generator(rng, "rng")
        drawn = self.by_member(
            cast(Ragged, rows), lambda member, block: cast(SpanningTree, member).draw(block, generator)
        )
        return self._restore(cast(Any, drawn), batch, rows.dtype)

    def k_best(self, theta: Any, k: int) -> list[tuple[Array, Array]]:
        """A pair ``(scores, outputs)`` for each item, best first: as many as there are, at most k."""
        rows: Any = self._rows(theta, "scores")[0]
        pairs: list[Any] = [None] * len(rows)
        for items, (scores, outputs) in self.answers(
            rows, lambda member, block: cast(SpanningTree, member).k_best(block, k)
        ):
            for i, score, output in zip(items.tolist(), scores, outputs, strict=True):
                pairs[i] = (score[score > -np.inf], output[score > -np.inf])
        return pairs

    def _project(self, rows: Any, accuracy: Accuracy) -> Solved:
        nodes = self._nodes(rows.sizes)

        def best(scores: Array, items: IntArray) -> Array:
            m, width = scores.shape
            edges, status = _best_edges(scores.reshape(-1), np.arange(m) * width, nodes[items])
            self._refuse_impossible(status, items)
            out = np.zeros((m, width))
            out.reshape(-1)[edges] = 1.0
            return out

        return project_padded(rows, best, accuracy)
