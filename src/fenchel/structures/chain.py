"""Sequences of labels."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, cast

import numpy as np

from .._core import parallel
from .._core.checks import as_float_array, check_count, check_generator, check_no_nan, for_kernels
from .._core.errors import InvalidInput
from .._core.ragged import Ragged, inner, offsets_of
from .._core.types import Array, ArrayLike, IntArray
from ..kernels import chain as kernels
from . import graph
from .base import Accuracy, Solved, Structure
from .ragged import Family, project_padded

__all__ = ["Chain", "Chains"]

_NO_LABELS = np.zeros(0, np.int64)
# Tables are added up in blocks of chains, so that sums do not depend on threads.
_SUM_BLOCK = 32


@dataclass(frozen=True)
class _Layout:
    """Where the chains of a batch stand in flat numbers."""

    flat: Array
    starts: IntArray
    lengths: IntArray
    labels: int

    @property
    def n(self) -> int:
        return len(self.starts)

    @property
    def ends(self) -> IntArray:
        """The offsets of the positions of each chain, in arrays with an entry for each position."""
        return offsets_of(self.lengths)

    @property
    def pair_starts(self) -> IntArray:
        return offsets_of(np.maximum(self.lengths - 1, 0))

    @property
    def work(self) -> float:
        return float(self.lengths.sum()) * self.labels**2


class _ChainOracles(Structure):
    """What one chain and a family of chains share: the calls of the kernels, for any layout of the batch."""

    labels: int
    tied: bool
    output_ndim: ClassVar[int] = 1
    part_coding: ClassVar[str | None] = "labels"

    def _layout(self, rows: Any) -> _Layout:
        raise NotImplementedError

    def _empty_like(self, rows: Any, dtype: Any = np.float64) -> tuple[Any, Array]:
        """Rows of the same layout, and the flat view that kernels write to."""
        raise NotImplementedError

    @property
    def n_labels(self) -> int:
        return self.labels

    # -- positions, for costs ------------------------------------------------------------------------------------------

    def position_marginals(self, mu: Any) -> Array:
        lay = self._layout(mu)
        out = np.empty((int(lay.lengths.sum()), self.labels))
        parallel.run(
            kernels.gather_nodes, lay.n, out.size, lay.flat, lay.starts, lay.lengths, self.labels, lay.ends, out
        )
        return out

    def position_scores(self, values: Array, like: Any) -> Any:
        return self._assemble(values, np.zeros((0, self.labels**2)), like)

    def position_counts(self, rows: Any) -> IntArray:
        return self._layout(rows).lengths

    def as_forest(self, rows: Any) -> graph.Layout:
        """The chains as paths, for what is written for forests; tied, all edges of a chain stand at one table."""
        lay = self._layout(rows)
        lengths, which = np.unique(lay.lengths, return_inverse=True)
        return graph.Layout(lay.flat, lay.starts, which, _paths(tuple(lengths.tolist())), self.labels)

    def independent(self, nodes: Array, like: Any) -> Any:
        """The points whose positions have these distributions, independently of each other."""
        lay = self._layout(like)
        inside = np.arange(len(nodes) - 1) if len(nodes) else np.zeros(0, np.int64)
        inside = np.setdiff1d(inside, lay.ends[1:] - 1)
        tables = (nodes[inside][:, :, None] * nodes[inside + 1][:, None, :]).reshape(len(inside), self.labels**2)
        if not self.tied:
            return self._assemble(nodes, tables, like)
        out, flat = self._empty_like(like)
        sums = np.zeros((lay.n, self.labels**2))
        np.add.at(sums, np.repeat(np.arange(lay.n), np.maximum(lay.lengths - 1, 0)), tables)
        node_at = np.repeat(lay.starts - lay.ends[:-1] * self.labels, lay.lengths) + np.arange(len(nodes)) * self.labels
        flat[node_at[:, None] + np.arange(self.labels)] = nodes
        flat[(lay.starts + lay.lengths * self.labels)[:, None] + np.arange(self.labels**2)] = sums
        return out

    def _assemble(self, nodes: Array, tables: Array, like: Any) -> Any:
        lay = self._layout(like)
        out, flat = self._empty_like(like)
        parallel.run(
            kernels.assemble, lay.n, out.size, np.ascontiguousarray(nodes, np.float64),
            np.ascontiguousarray(tables, np.float64), lay.pair_starts, lay.ends, lay.starts, lay.lengths, self.labels,
            self.tied, flat,
        )  # fmt: skip
        return out

    # -- vertices ------------------------------------------------------------------------------------------------------

    def _written(self, labels: IntArray, like: Any, dtype: Any = np.float64) -> Any:
        """The vertices of these labels, one after the other."""
        lay = self._layout(like)
        out, flat = self._empty_like(like, dtype)
        parallel.run(
            kernels.write_vertices, lay.n, out.size, labels, lay.ends, lay.starts, lay.lengths, self.labels, self.tied,
            flat,
        )  # fmt: skip
        return out

    def _read(self, rows: Any) -> tuple[IntArray, Array]:
        """The largest entry of each position, and for which chains every position has one 1 and else zeros."""
        lay = self._layout(rows)
        labels, sure = np.empty(int(lay.lengths.sum()), np.int64), np.empty(lay.n, bool)
        parallel.run(
            kernels.read_labels, lay.n, labels.size * self.labels, lay.flat, lay.starts, lay.lengths, self.labels,
            labels, lay.ends, sure,
        )  # fmt: skip
        return labels, sure

    def are_vertices(self, rows: Any) -> bool:
        return bool(self._read(rows)[1].all())  # of points of the set: one label at each position says the rest

    # -- oracles -------------------------------------------------------------------------------------------------------

    def center(self, theta: Any) -> Any:
        """Each position's largest score becomes zero, and each table's: a point adds up to one on either."""
        lay = self._layout(theta)
        out, flat = self._empty_like(theta)
        parallel.run(kernels.center, lay.n, flat.size, lay.flat, lay.starts, lay.lengths, self.labels, self.tied, flat)
        return out.astype(theta.dtype, copy=False)

    def _best_labels(self, lay: _Layout) -> tuple[IntArray, IntArray]:
        labels, status = np.empty(int(lay.lengths.sum()), np.int64), np.empty(lay.n, np.int64)
        parallel.run(
            kernels.viterbi, lay.n, lay.work, lay.flat, lay.starts, lay.lengths, self.labels, self.tied, labels,
            lay.ends, status,
        )  # fmt: skip
        return labels, status

    def _argmax(self, rows: Any) -> Any:
        return self._argmax_at(rows, np.arange(len(rows)))

    def _argmax_at(self, rows: Any, indices: Any) -> Any:
        labels, status = self._best_labels(self._layout(rows))
        self._refuse_impossible(status, indices)
        return self._written(labels, rows)

    def _marginals(self, rows: Any) -> tuple[Array, Any]:
        log_partition, _, mu = self._forward_backward(rows, _NO_LABELS)
        return log_partition, mu

    def _forward_backward(self, rows: Any, truth: IntArray) -> tuple[Array, Array, Any]:
        lay = self._layout(rows)
        mu, flat = self._empty_like(rows)
        log_partition, log_likelihood, status = np.empty(lay.n), np.empty(lay.n), np.empty(lay.n, np.int64)
        parallel.run(
            kernels.forward_backward, lay.n, lay.work, lay.flat, lay.starts, lay.lengths, self.labels, self.tied, truth,
            lay.ends, flat, log_partition, log_likelihood, status,
        )  # fmt: skip
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
        _, log_likelihood, mu = self._forward_backward(theta if strength == 1 else theta / strength, truth)
        return -strength * log_likelihood, mu.astype(theta.dtype, copy=False)

    def entropy(self, theta: Any) -> Array:
        """The entropy of the Gibbs distribution, −Σ p(y) log p(y), in nats."""
        rows, batch = self._rows(theta, "scores")
        centered = self.center(rows.astype(np.float64))
        log_partition, mu = self._marginals(centered)
        entropy = np.maximum(log_partition - inner(centered, mu), 0)
        return cast(Array, entropy.astype(rows.dtype, copy=False).reshape(batch)[()])

    def draw(self, theta: Any, rng: Any = None) -> Any:
        """A random vertex from the Gibbs distribution p(y) ∝ exp ⟨θ, φ(y)⟩, exactly. O(length labels²).

        >>> import numpy as np
        >>> from fenchel.structures import Chain
        >>> chain = Chain(3, 2)
        >>> chain.decode(chain.draw(np.zeros(chain.dim), rng=0))
        array([1, 0, 0])
        """
        rows, batch = self._rows(theta, "scores")
        lay = self._layout(rows)
        uniform = check_generator(rng, "rng").random(int(lay.lengths.sum()))
        labels, status = np.empty(uniform.size, np.int64), np.empty(lay.n, np.int64)
        parallel.run(
            kernels.draw, lay.n, lay.work, lay.flat, lay.starts, lay.lengths, self.labels, self.tied, uniform, labels,
            lay.ends, status,
        )  # fmt: skip
        self._refuse_impossible(status)
        return self._restore(self._written(labels, rows), batch, rows.dtype)

    def _k_best(self, rows: Any, m: int) -> tuple[Array, IntArray, _Layout]:
        lay = self._layout(rows)
        m = check_count(m, "k")
        labels = np.empty(m * int(lay.lengths.sum()), np.int64)
        scores, status = np.empty((lay.n, m)), np.empty(lay.n, np.int64)
        parallel.run(
            kernels.k_best, lay.n, lay.work * m, lay.flat, lay.starts, lay.lengths, self.labels, self.tied, m, labels,
            lay.ends, scores, status,
        )  # fmt: skip
        self._refuse_impossible(status)
        return scores, labels, lay

    def missing(self) -> Mapping[str, str]:
        absent = dict(super().missing())
        if self.tied:
            absent["kl_project"] = (
                "no algorithm is known for the entropy of transition counts; use marginals or project"
            )
        return absent

    def _kl_project(self, rows: Any, accuracy: Accuracy) -> Solved:
        lay = self._layout(self.center(rows))
        mu, flat = self._empty_like(rows)
        gap, n_iter, status = np.empty(lay.n), np.empty(lay.n, np.int64), np.empty(lay.n, np.int64)
        tol = accuracy.tol or (1e-15 if rows.dtype == np.float64 else 1e-12)
        parallel.run(
            kernels.kl_project, lay.n, lay.work, lay.flat, lay.starts, lay.lengths, self.labels, tol,
            accuracy.max_iter or 2000, flat, gap, n_iter, status,
        )  # fmt: skip
        self._refuse_impossible(status)
        return Solved(points=mu, error=gap, n_iter=n_iter, converged=status == kernels.SOLVED)

    def _sample(self, rows: Any, rng: np.random.Generator) -> Any:
        if self.tied:
            return super()._sample(rows, rng)
        lay = self._layout(rows)
        uniform = rng.random(int(lay.lengths.sum()))
        labels = np.empty(uniform.size, np.int64)
        parallel.run(
            kernels.draw_path, lay.n, uniform.size * self.labels, lay.flat, lay.starts, lay.lengths, self.labels,
            uniform, labels, lay.ends,
        )  # fmt: skip
        return self._written(labels, rows)

    def gibbs_omega(self, mu: Any) -> Array:
        """Σ μ log μ over pairs less Σ μ log μ over the positions that two pairs share; zero at vertices.

        With tied transitions a point does not say which pairs it consists of, so there is no formula inside the set.
        """
        if self.tied:
            return np.zeros(len(mu)) if self.are_vertices(mu) else Structure.gibbs_omega(self, mu)
        lay = self._layout(mu)
        out = np.empty(lay.n)
        parallel.run(
            kernels.negative_entropy, lay.n, lay.flat.size, lay.flat, lay.starts, lay.lengths, self.labels, out
        )
        return out

    def _constraint_violation(self, rows: Any) -> Array:
        lay = self._layout(rows)
        out = np.empty(lay.n)
        parallel.run(
            kernels.violation, lay.n, lay.flat.size, lay.flat, lay.starts, lay.lengths, self.labels, self.tied, out
        )
        return out

    def _refuse_impossible(self, status: IntArray, indices: Any = None) -> None:
        bad = status == kernels.IMPOSSIBLE
        if bad.any():
            i = int(bad.argmax())
            i = i if indices is None else int(indices[i])
            raise InvalidInput(f"scores of -inf forbid every labelling of {self!r} at sample {i}")


@dataclass(frozen=True, repr=False)
class Chain(_ChainOracles):
    """Sequences of ``length`` labels out of ``labels``, 0 to labels − 1, with a score for each pair of neighbours.

    A vertex holds, position by position, the label as a one-hot vector, and then for each pair of neighbours a table
    (labels × labels) with a 1 at row y_t, column y_{t+1}; :meth:`pack` and :meth:`unpack` go between this flat form and
    the two parts. M is the set of node and edge marginals that agree: μ ≥ 0, Σ_i μ_t(i) = 1, Σ_j μ_t(i, j) = μ_t(i),
    Σ_i μ_t(i, j) = μ_{t+1}(j). With ``tied=True`` all pairs share one table of scores, and a point holds how often each
    transition occurs (their sum over pairs): the same model with labels² numbers for the edges instead of
    (length − 1) labels². A score of -inf forbids a label at a position, or a transition.

    argmax (Viterbi) and Gibbs marginals (forward-backward) cost O(length labels²); probabilities are scaled at each
    position, and where scores spread so far that this would lose digits, logarithms are used. The Euclidean
    projection (SparseMAP) is the active-set method over Viterbi calls. Tied, points other than vertices are
    decomposed and drawn from by that method too.

    References: Viterbi, "Error bounds for convolutional codes and an asymptotically optimum decoding algorithm", 1967;
    Rabiner, "A tutorial on hidden Markov models and selected applications in speech recognition", 1989; Lafferty,
    McCallum and Pereira, "Conditional random fields", 2001; Niculae, Martins, Blondel and Cardie, "SparseMAP:
    differentiable sparse structured inference", 2018.

    >>> from fenchel.structures import Chain
    >>> chain = Chain(3, 2)
    >>> stay = [[0.0, -1.0], [-1.0, 0.0]]
    >>> theta = chain.pack([[1.0, 0.0], [0.0, 0.4], [0.5, 0.0]], [stay, stay])
    >>> chain.decode(chain.argmax(theta))
    array([0, 0, 0])
    >>> node, edge = chain.unpack(chain.marginals(theta)[1])
    >>> node.round(3)
    array([[0.715, 0.285],
           [0.565, 0.435],
           [0.626, 0.374]])
    """

    length: int
    labels: int
    tied: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "length", check_count(self.length, "length", minimum=0))
        object.__setattr__(self, "labels", check_count(self.labels, "labels"))
        object.__setattr__(self, "tied", bool(self.tied))

    def __repr__(self) -> str:
        return f"Chain({self.length}, {self.labels}{', tied=True' if self.tied else ''})"

    # -- what it is ----------------------------------------------------------------------------------------------------

    @property
    def n_tables(self) -> int:
        """How many tables of edge scores there are."""
        return 1 if self.tied else max(self.length - 1, 0)

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.length * self.labels + self.n_tables * self.labels**2,)

    @property
    def binary(self) -> bool:  # type: ignore[override]
        return not self.tied

    @property
    def n_vertices(self) -> int:
        return self.labels**self.length

    def separation(self, p: float = 2) -> float:
        if self.labels == 1 or self.length == 0:
            return np.inf
        return float((4 if self.length > 1 else 2) ** (1 / p))  # another label at an end: two nodes, two edges

    def diameter(self, p: float = 2) -> float:
        if self.labels == 1 or self.length == 0:
            return 0.0
        pairs = self.length - 1
        # tied, two constant sequences are farthest apart: each has all its transitions in one entry
        return float((2 * self.length + 2 * (pairs**p if self.tied else pairs)) ** (1 / p))

    @property
    def max_l1(self) -> float:
        return float(max(2 * self.length - 1, 0))

    def pack(self, node: ArrayLike, edge: ArrayLike) -> Array:
        """Scores (or points) from nodes ``(*batch, length, labels)`` and edges ``(*batch, length - 1, labels, labels)``.

        A single table ``(labels, labels)`` stands for the same at all pairs.

        >>> Chain(2, 2, tied=True).pack([[1, 2], [3, 4]], [[5, 6], [7, 8]])
        array([1., 2., 3., 4., 5., 6., 7., 8.])
        """
        nodes, edges = as_float_array(node, "node"), as_float_array(edge, "edge")
        k = self.labels
        if nodes.shape[-2:] != (self.length, k) or nodes.ndim < 2:
            raise InvalidInput(f"node has shape {nodes.shape}, but {self!r} needs (..., {self.length}, {k})")
        tables = (k, k) if self.tied else (self.length - 1, k, k)
        full = nodes.shape[:-2] + ((k, k) if self.tied else (max(self.length - 1, 0), k, k))
        try:
            edges = np.broadcast_to(edges.reshape(full) if edges.size == 0 else edges, full)
        except ValueError:
            needed = ", ".join(map(str, tables))
            raise InvalidInput(
                f"edge has shape {edges.shape}, but with node of shape {nodes.shape} {self!r} needs (..., {needed})"
            ) from None
        batch = nodes.shape[:-2]
        n = int(np.prod(batch))
        flat = [nodes.reshape(n, self.length * k), edges.reshape(n, self.n_tables * k * k)]
        return np.concatenate(flat, axis=1).reshape(*batch, self.dim)

    def unpack(self, theta: ArrayLike) -> tuple[Array, Array]:
        """Nodes ``(*batch, length, labels)`` and edges: a table for each pair, or the one table if tied. Views."""
        array = np.asarray(theta)
        if array.shape[-1:] != self.shape:
            raise InvalidInput(f"scores have shape {array.shape}, but {self!r} needs (..., {self.dim})")
        k, cut, batch = self.labels, self.length * self.labels, array.shape[:-1]
        tables = (k, k) if self.tied else (self.n_tables, k, k)
        return array[..., :cut].reshape(*batch, self.length, k), array[..., cut:].reshape(*batch, *tables)

    # -- how a batch is laid out ---------------------------------------------------------------------------------------

    def _layout(self, rows: Array) -> _Layout:
        flat = for_kernels(rows.reshape(-1))
        n = len(rows)
        return _Layout(flat, np.arange(n) * self.dim, np.full(n, self.length), self.labels)

    def _empty_like(self, rows: Array, dtype: Any = np.float64) -> tuple[Array, Array]:
        out = np.empty((len(rows), self.dim), dtype)
        return out, out.reshape(-1)

    # -- outputs and vertices ------------------------------------------------------------------------------------------

    def _encode(self, outputs: Array, dtype: np.dtype[Any]) -> Array:
        if outputs.shape[1:] != (self.length,):
            raise InvalidInput(f"y has shape {outputs.shape}, but {self!r} needs rows of {self.length} labels")
        labels = np.ascontiguousarray(self._check_labels(outputs, self.labels), np.int64).reshape(-1)
        return cast(Array, self._written(labels, outputs, dtype))

    def _decode(self, rows: Array) -> Array:
        return self._read(rows)[0].reshape(len(rows), self.length)

    def _vertices(self) -> Array:
        every = np.array(list(itertools.product(range(self.labels), repeat=self.length)), np.int64)
        return self._encode(every.reshape(self.n_vertices, self.length), np.dtype(np.float64))

    # -- oracles -------------------------------------------------------------------------------------------------------

    def k_best(self, theta: ArrayLike, k: int) -> tuple[Array, Array]:
        """``(scores, outputs)`` of the k labellings of highest score, best first: ``(*batch, k)``, ``(*batch, k, length)``.

        Where there are fewer the score is -inf and the labels are −1. O(length labels² k).

        >>> Chain(2, 2).k_best([1.0, 0.0, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0], 3)
        (array([1.5, 1. , 0.5]), array([[0, 0],
               [0, 1],
               [1, 0]]))
        """
        rows, batch = self._rows(theta, "scores")
        scores, labels, _ = self._k_best(rows, k)
        return scores.astype(rows.dtype, copy=False).reshape(*batch, k), labels.reshape(*batch, k, self.length)

    def _decompose(self, rows: Array) -> tuple[Array, Array]:
        """Paths of the flow that the pairs are: each uses one pair up."""
        if self.tied:
            return super()._decompose(rows)
        if self.length < 2:
            weights = np.maximum(rows, 0) if self.length else np.ones((len(rows), 1))
            vertices = np.broadcast_to(self._vertices(), (len(rows), self.n_vertices, self.dim)).astype(rows.dtype)
            return weights / weights.sum(axis=1, keepdims=True), vertices
        most = self.n_tables * self.labels**2 + 1
        found: list[tuple[Array, Array]] = []
        for i in range(len(rows)):
            rest = rows[i, self.length * self.labels :].astype(np.float64)
            weights, labels = np.empty(most), np.empty((most, self.length), np.int64)
            m = kernels.decompose(0, 1, rest, self.length, self.labels, weights, labels)
            found.append((weights[:m] / weights[:m].sum(), self._encode(labels[:m], rows.dtype)))
        most = max((len(w) for w, _ in found), default=1)
        padded = np.zeros((len(rows), most)), np.zeros((len(rows), most, self.dim), rows.dtype)
        for i, (weights, vertices) in enumerate(found):
            padded[0][i, : len(weights)] = weights
            padded[1][i] = vertices[0]  # what has no weight is a vertex all the same
            padded[1][i, : len(weights)] = vertices
        return padded

    def _violation(self, rows: Array) -> Array:
        worst = self._constraint_violation(rows)
        if not self.tied or not len(rows):
            return worst
        labels, sure = self._read(rows)
        inside = sure & (self._written(labels, rows) == rows).all(axis=1)
        worst[inside] = 0.0
        # tied, the constraints do not describe the set: other points are projected
        rest = np.flatnonzero(~inside)
        if len(rest):
            worst[rest] = np.maximum(worst[rest], super()._violation(rows[rest]))
        return worst


@dataclass(frozen=True, repr=False)
class Chains(_ChainOracles, Family):
    """Sequences of any lengths with labels 0 to labels − 1: :class:`Chain` for each length, in one call for all.

    Outputs are lists of label sequences, scores and points flat numbers with offsets (:class:`Ragged`) or lists of
    arrays. With ``tied=True`` all pairs of a sequence share one table, so that a sequence of n positions has
    n labels + labels² numbers; the exponential of a table is taken once for all neighbours in the batch that have the
    same one. The empty sequence is allowed.

    >>> from fenchel.structures import Chains
    >>> chains = Chains(2)
    >>> theta = chains.pack([[[1.0, 0.0], [0.0, 0.4], [0.5, 0.0]], [[0.0, 0.3]]], [[0.0, -1.0], [-1.0, 0.0]])
    >>> chains.decode(chains.argmax(theta))
    [array([0, 0, 0]), array([1])]
    """

    labels: int
    tied: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", check_count(self.labels, "labels"))
        object.__setattr__(self, "tied", bool(self.tied))

    def __repr__(self) -> str:
        return f"Chains({self.labels}{', tied=True' if self.tied else ''})"

    @property
    def examples(self) -> tuple[Structure, ...]:
        return tuple(Chain(length, self.labels, self.tied) for length in (3, 1, 2, 0))

    def member(self, size: int) -> Chain:
        length = int(self._lengths(np.array([size]))[0])
        chain = Chain(max(length, 0), self.labels, self.tied)
        if length < 0 or chain.dim != size:
            per = f"n * {self.labels} + " + (f"{self.labels**2}" if self.tied else f"(n - 1) * {self.labels**2}")
            raise InvalidInput(f"{size} numbers are no sequence of {self!r}: one of n labels has {per}")
        return chain

    def member_of(self, y: Any) -> Chain:
        if not hasattr(y, "__len__"):
            raise InvalidInput(f"an output is {y!r}, expected a sequence of labels")
        return Chain(len(y), self.labels, self.tied)

    def _lengths(self, sizes: IntArray) -> IntArray:
        k = self.labels
        if self.tied:
            return (sizes - k * k) // k
        return np.where(sizes > 0, (sizes + k * k) // (k + k * k), 0)

    def sizes_of(self, lengths: IntArray) -> IntArray:
        """How many numbers sequences of these lengths have."""
        k, lengths = self.labels, np.asarray(lengths)
        return lengths * k + k * k * (1 if self.tied else np.maximum(lengths - 1, 0))

    def _layout(self, rows: Ragged) -> _Layout:
        flat = for_kernels(rows.flat)
        return _Layout(flat, rows.offsets[:-1], self._lengths(rows.sizes), self.labels)

    def _empty_like(self, rows: Ragged, dtype: Any = np.float64) -> tuple[Ragged, Array]:
        out = np.empty(rows.flat.size, dtype)
        return Ragged(out, rows.offsets), out

    # -- nodes and edges -----------------------------------------------------------------------------------------------

    def pack(self, node: Sequence[ArrayLike], edge: Any) -> Ragged:
        """Scores from a list of nodes ``(length, labels)`` and the edges of all: one table, or a list, an item each.

        Items are tables ``(length - 1, labels, labels)``, or the single table of a tied chain.
        """
        k = self.labels
        nodes = [as_float_array(x, f"node of sample {i}") for i, x in enumerate(node)]
        # one table is an array of numbers; a list with an item for each chain has two axes more (or one, if tied)
        flat = all(np.ndim(row) == 1 and all(np.ndim(x) == 0 for x in row) for row in edge)
        shared = flat and len(edge) == k and all(len(row) == k for row in edge)
        if not shared and len(edge) != len(nodes):
            raise InvalidInput(f"node has {len(nodes)} items but edge has {len(edge)}; or give one table ({k}, {k})")
        items = []
        for i, x in enumerate(nodes):
            try:
                items.append(Chain(len(x), k, self.tied).pack(x.reshape(-1, k) if x.size == 0 else x,
                                                              edge if shared else edge[i]))  # fmt: skip
            except InvalidInput as error:
                raise InvalidInput(f"sample {i}: {error}") from None
        return Ragged.of(items)

    def unpack(self, theta: Any) -> list[tuple[Array, Array]]:
        """Nodes and edges of each item: views."""
        rows = theta if isinstance(theta, Ragged) else self.as_rows(theta, "scores")[0]
        return [self.member(len(item)).unpack(item) for item in rows]

    def assemble(self, lengths: IntArray, nodes: Array, tables: Array) -> Ragged:
        """Scores from a row of nodes for each position of the set, and one table for all pairs or one for each pair.

        What a scorer computes for all positions at once; tied chains take one table.
        """
        like = Ragged.empty(self.sizes_of(lengths), np.dtype(np.float64))
        return cast(Ragged, self._assemble(nodes, tables.reshape(-1, self.labels**2), like))

    def edge_rows(self, values: Ragged) -> Array:
        """The tables of all pairs of the set, ``(pairs, labels, labels)``; not tied."""
        lay = self._layout(values)
        out = np.empty((int(lay.pair_starts[-1]), self.labels**2))
        parallel.run(
            kernels.gather_edges, lay.n, out.size, lay.flat, lay.starts, lay.lengths, self.labels, lay.pair_starts, out
        )
        return out.reshape(-1, self.labels, self.labels)

    def edge_sum(self, values: Ragged) -> Array:
        """The sum of all tables of the set: the adjoint of one table for all."""
        return cast(Array, self.edge_sums(values, _SUM_BLOCK).sum(axis=0))

    def edge_sums(self, values: Ragged, block: int = 1) -> Array:
        """The sums of the tables of each sequence, or of each ``block`` of sequences."""
        lay = self._layout(values)
        sums = np.empty((-(-lay.n // block), self.labels**2))
        parallel.run(
            kernels.edge_sums, len(sums), lay.flat.size, lay.flat, lay.starts, lay.lengths, self.labels, self.tied,
            block, sums,
        )  # fmt: skip
        return sums.reshape(-1, self.labels, self.labels)

    def lengths_of(self, values: Ragged) -> IntArray:
        """How many positions each sequence has."""
        return self._lengths(values.sizes)

    # -- outputs -------------------------------------------------------------------------------------------------------

    def encode(self, y: Any, dtype: Any = np.float64) -> Any:
        if isinstance(y, str | bytes | dict) or not hasattr(y, "__len__"):
            raise InvalidInput(f"y is {type(y).__name__}, expected a list of label sequences")
        arrays = []
        for i, output in enumerate(y):
            array = np.asarray(output)
            if array.ndim != 1:
                raise InvalidInput(f"y of sample {i} has shape {array.shape}, expected a sequence of labels")
            if array.size and array.dtype.kind not in "iuf":
                raise InvalidInput(f"y of sample {i} has type {array.dtype}, expected whole numbers")
            arrays.append(array if array.size else _NO_LABELS)
        lengths = np.array([len(a) for a in arrays], np.int64)
        flat = np.concatenate([_NO_LABELS, *arrays])
        bad = (flat < 0) | (flat >= self.labels) | (flat != np.floor(flat))
        if bad.any():
            place = int(bad.argmax())
            i, where = Ragged(flat, offsets_of(lengths)).item_of(place)
            raise InvalidInput(
                f"y is {flat[place]} at sample {i}, position {where[0]}, but labels of {self!r} are whole numbers from 0 "
                f"to {self.labels - 1}"
            )
        like = Ragged.empty(self.sizes_of(lengths), np.dtype(dtype))
        return self._written(flat.astype(np.int64, copy=False), like, dtype)

    def decode(self, vertex: Any) -> Any:
        rows: Any = self._rows(vertex, "vertices", points=True)[0]
        labels, _ = self._read(rows)
        wrong = np.flatnonzero(self._written(labels, rows).flat != rows.flat)
        if len(wrong):
            i, _ = rows.item_of(int(wrong[0]))
            raise InvalidInput(f"sample {i} is no vertex of {self!r}: {np.array2string(rows[i], threshold=20)}")
        return np.split(labels, self._layout(rows).ends[1:-1]) if len(rows) else []

    # -- oracles -------------------------------------------------------------------------------------------------------

    def best(self, theta: Any) -> Any:
        """The labellings of highest score, without a detour by vertices."""
        rows: Any = self._rows(theta, "scores")[0]
        lay = self._layout(rows)
        labels, status = self._best_labels(lay)
        self._refuse_impossible(status)
        return np.split(labels, lay.ends[1:-1]) if lay.n else []

    def k_best(self, theta: Any, k: int) -> list[tuple[Array, Array]]:
        """A pair ``(scores, outputs)`` for each item, best first: as many as there are, at most k."""
        rows = self._rows(theta, "scores")[0]
        scores, labels, lay = self._k_best(rows, k)
        pairs = []
        for i, length in enumerate(lay.lengths.tolist()):
            m = int((scores[i] > -np.inf).sum())
            start = k * int(lay.ends[i])
            pairs.append((scores[i, :m], labels[start : start + m * length].reshape(m, length)))
        return pairs

    def _project(self, rows: Any, accuracy: Accuracy) -> Solved:
        lengths = self._lengths(rows.sizes)

        def best(scores: Array, items: IntArray) -> Array:
            m, width = scores.shape
            lay = _Layout(scores.reshape(-1), np.arange(m) * width, lengths[items], self.labels)
            labels, status = self._best_labels(lay)
            self._refuse_impossible(status, items)
            out = np.zeros((m, width))
            parallel.run(
                kernels.write_vertices, m, out.size, labels, lay.ends, lay.starts, lay.lengths, self.labels, self.tied,
                out.reshape(-1),
            )  # fmt: skip
            return out

        return project_padded(rows, best, accuracy)

    def _violation(self, rows: Any) -> Array:
        return Family._violation(self, rows) if self.tied else self._constraint_violation(rows)


@lru_cache(maxsize=256)
def _paths(lengths: tuple[int, ...]) -> graph.Plan:
    """Walks over paths of these lengths."""
    parents = [np.arange(-1, n - 1) for n in lengths]
    return graph.forest_plan(np.concatenate([_NO_LABELS, *parents]), np.array(lengths, np.int64))[0]
