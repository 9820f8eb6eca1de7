"""Trees of arcs: who is whose head."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np

from .._core import parallel
from .._core.checks import check_count, check_generator, for_kernels
from .._core.errors import InvalidInput
from .._core.ragged import Ragged, inner, offsets_of
from .._core.types import Array, ArrayLike, IntArray
from ..kernels import arborescence as kernels
from ..kernels import lifted_tree, matrix_tree, tree_cuts
from .base import Accuracy, Solved, Structure
from .ragged import Family, project_padded
from .tree_entropy import CutSolution, project_with_cuts, solve_entropic
from .tree_projection import Graph, ProjectedTrees

__all__ = ["Arborescence", "Arborescences", "DependencyTree", "DependencyTrees"]

# Sets of words that get less than one from outside by no more than this are not cut off.
_NO_LACK = 1e-12


@dataclass(frozen=True)
class TreeLayout:
    """Where the trees of a batch stand in flat numbers."""

    flat: Array
    starts: IntArray
    words: IntArray
    labels: int

    @property
    def n(self) -> int:
        return len(self.starts)

    @property
    def ends(self) -> IntArray:
        """The offsets of the words of each tree, in arrays with an entry for each word."""
        return offsets_of(self.words)

    @property
    def squares(self) -> float:
        return float((self.words.astype(np.float64) ** 2).sum()) * self.labels

    @property
    def cubes(self) -> float:
        return float((self.words.astype(np.float64) ** 3).sum())


class _TreeOracles(Structure):
    """What one tree and a family of trees share: the calls of the kernels, for any layout of the batch."""

    labels: int
    single_root: ClassVar[bool]
    part_coding: ClassVar[str | None] = "one_hot"

    def _layout(self, rows: Any) -> TreeLayout:
        raise NotImplementedError

    def _zeros_like(self, rows: Any, dtype: Any = np.float64) -> tuple[Any, Array]:
        """Rows of the same layout, zero, and their flat view."""
        raise NotImplementedError

    def _written(self, arcs: IntArray, like: Any) -> Any:
        out, flat = self._zeros_like(like)
        flat[arcs] = 1.0
        return out

    def _argmax(self, rows: Any) -> Any:
        return self._argmax_at(rows, np.arange(len(rows)))

    def _argmax_at(self, rows: Any, indices: Any) -> Any:
        arcs, status = self._best_arcs(self._layout(rows))
        self._refuse_impossible(status, indices)
        return self._written(arcs, rows)

    def _best_arcs(self, lay: TreeLayout) -> tuple[IntArray, IntArray]:
        arcs, status = np.empty(int(lay.words.sum()), np.int64), np.empty(lay.n, np.int64)
        parallel.run(
            kernels.argmax, lay.n, lay.squares, lay.flat, lay.starts, lay.words, self.labels, self.single_root, arcs,
            lay.ends, status,
        )  # fmt: skip
        return arcs, status

    def _k_best(self, rows: Any, most: int) -> tuple[Array, IntArray, TreeLayout]:
        lay = self._layout(rows)
        most = check_count(most, "k")
        arcs = np.zeros(most * int(lay.words.sum()), np.int64)
        scores, status = np.empty((lay.n, most)), np.empty(lay.n, np.int64)
        parallel.run(
            kernels.k_best, lay.n, lay.cubes * lay.labels * most, lay.flat, lay.starts, lay.words, self.labels,
            self.single_root, most, arcs, lay.ends, scores, status,
        )  # fmt: skip
        self._refuse_impossible(status)
        return scores, arcs, lay

    def _marginals(self, rows: Any) -> tuple[Array, Any]:
        lay = self._layout(rows)
        mu, flat = self._zeros_like(rows)
        log_partition, status = np.empty(lay.n), np.empty(lay.n, np.int64)
        parallel.run(
            matrix_tree.marginals, lay.n, lay.cubes, lay.flat, lay.starts, lay.words, self.labels, self.single_root,
            flat, log_partition, status,
        )  # fmt: skip
        self._refuse_impossible(status)
        return log_partition, mu

    def entropy(self, theta: Any) -> Array:
        """The entropy of the Gibbs distribution, −Σ p(y) log p(y), in nats."""
        rows, batch = self._rows(theta, "scores")
        centered = self.center(rows.astype(np.float64))
        log_partition, mu = self._marginals(centered)
        entropy = np.maximum(log_partition - inner(centered, mu), 0)
        return cast(Array, entropy.astype(rows.dtype, copy=False).reshape(batch)[()])

    def draw(self, theta: Any, rng: Any = None) -> Any:
        """A random vertex from the Gibbs distribution p(y) ∝ exp ⟨θ, φ(y)⟩, exactly.

        Marginals first, O(n³), then Wilson's random walks where they are short, one word after the other where not.

        >>> import numpy as np
        >>> from fenchel.structures import Arborescence
        >>> trees = Arborescence(3)
        >>> trees.decode(trees.draw(np.zeros(trees.shape), rng=0))
        array([0, 3, 1])
        """
        rows, batch = self._rows(theta, "scores")
        lay = self._layout(rows)
        seeds = check_generator(rng, "rng").integers(0, 2**64, size=lay.n, dtype=np.uint64)
        arcs, status = np.empty(int(lay.words.sum()), np.int64), np.empty(lay.n, np.int64)
        parallel.run(
            matrix_tree.draw, lay.n, 2 * lay.cubes, lay.flat, lay.starts, lay.words, self.labels, self.single_root,
            seeds, arcs, lay.ends, status,
        )  # fmt: skip
        self._refuse_impossible(status)
        return self._restore(self._written(arcs, rows), batch, rows.dtype)

    def gibbs_omega(self, mu: Any) -> Array:
        """Zero at vertices; the largest entropy of trees with a given mean has no formula."""
        return np.zeros(len(mu)) if self.are_vertices(mu) else Structure.gibbs_omega(self, mu)

    def _refuse_impossible(self, status: IntArray, indices: Any = None) -> None:
        bad = status == kernels.IMPOSSIBLE
        if bad.any():
            i = int(bad.argmax())
            i = i if indices is None else int(indices[i])
            why = "with a single arc from the root " if self.single_root else ""
            raise InvalidInput(
                f"scores of -inf leave no tree of {self!r} at sample {i}: some words cannot be reached from the root {why}"
                "by arcs that are allowed"
            )


class _Tree(_TreeOracles, ProjectedTrees):
    """One tree: shapes, outputs and vertices."""

    n: int
    labels: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", check_count(self.n, "n"))
        object.__setattr__(self, "labels", check_count(self.labels, "labels"))

    def __repr__(self) -> str:
        labels = "" if self.labels == 1 else f", labels={self.labels}"
        return f"{type(self).__name__}({self.n}{labels})"

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.n, self.n + 1) if self.labels == 1 else (self.n, self.n + 1, self.labels)

    @property
    def output_ndim(self) -> int:  # type: ignore[override]
        return 1 if self.labels == 1 else 2

    @property
    def n_vertices(self) -> int:
        # Cayley: (n + 1)^(n - 1) trees on n words and the root, n^(n - 1) of them with a single arc from the root
        return int((self.n if self.single_root else self.n + 1) ** (self.n - 1) * self.labels**self.n)

    def separation(self, p: float = 2) -> float:
        if self.labels > 1 or self.n > 2 or (self.n == 2 and not self.single_root):
            return float(2 ** (1 / p))  # another label, or another head of one word
        return float(4 ** (1 / p)) if self.n == 2 else np.inf

    def diameter(self, p: float = 2) -> float:
        return float((2 * self.n) ** (1 / p)) if self.n > 1 or self.labels > 1 else 0.0

    @property
    def max_l1(self) -> float:
        return float(self.n)

    def center(self, theta: Array) -> Array:
        """Each word's largest score becomes zero: it has exactly one head."""
        finite = theta.reshape(len(theta), self.n, (self.n + 1) * self.labels)
        top = finite.max(axis=2, keepdims=True, initial=-np.inf)
        return (finite - np.where(np.isfinite(top), top, 0)).reshape(theta.shape)

    @property
    def numbers_per_part(self) -> int:
        return 1 if self.labels == 1 else 2

    def agreement(self, mu: Array) -> Array:
        """With labels an output has two numbers for each word: an arc shares the head with some, the label with others."""
        if self.labels == 1:
            return mu
        return mu.sum(axis=-1, keepdims=True) + mu.sum(axis=-2, keepdims=True)

    def graph(self) -> Graph:
        word, head = np.repeat(np.arange(self.n), self.n + 1) + 1, np.tile(np.arange(self.n + 1), self.n)
        ends = np.where((word == head)[:, None], -1, np.stack([head, word], axis=1))
        kind = lifted_tree.SINGLE_ROOT if self.single_root else lifted_tree.MULTI_ROOT
        return Graph(np.repeat(ends, self.labels, axis=0), self.n + 1, kind, self.labels)

    def _project(self, rows: Array, accuracy: Accuracy) -> Array | Solved:
        return super()._project(self.center(rows), accuracy)  # smaller numbers, the same projection

    def _kl_project(self, rows: Array, accuracy: Accuracy) -> Solved:
        """By cutting planes: the sets of words that get too little are found by maximum flows."""
        self._argmax(rows)  # complains where no tree is left
        n, width = self.n, self.n + 1
        equal = np.zeros((int(self.single_root), n, width))
        equal[:, :, 0] = 1.0

        def separate(x: Array) -> tuple[Array, Array]:
            flows = np.zeros((1, width, width))
            flows[0, :, 1:] = x.reshape(n, width).T
            inside, lack = np.zeros((1, width, width), np.int64), np.zeros((1, width))
            tree_cuts.separate(0, 1, flows, False, inside, lack)
            sets = np.unique(inside[0, lack[0] > _NO_LACK].astype(bool), axis=0)
            cuts = (sets[:, 1:, None] & ~sets[:, None, :]).astype(np.float64)
            return cuts.reshape(len(sets), n * width), np.ones(len(sets))

        own = (np.arange(n), np.arange(1, width))

        def solve(theta: Array) -> tuple[Array, Array, CutSolution]:
            labelled = theta.reshape(n, width, self.labels).copy()
            labelled[own] = -np.inf
            heads = np.logaddexp.reduce(labelled, axis=2)
            found = project_with_cuts(heads, 1.0, (equal.reshape(-1, n * width), np.ones(len(equal))), separate, 1e-11)
            logs = found.logs[..., None] + labelled - np.where(np.isfinite(heads), heads, 0)[..., None]
            return np.exp(logs).reshape(self.shape), logs.reshape(self.shape), found

        return solve_entropic(self, rows, accuracy, solve)

    # -- how a batch is laid out ---------------------------------------------------------------------------------------

    def _layout(self, rows: Array) -> TreeLayout:
        flat = for_kernels(rows.reshape(-1))
        return TreeLayout(flat, np.arange(len(rows)) * self.dim, np.full(len(rows), self.n), self.labels)

    def _zeros_like(self, rows: Array, dtype: Any = np.float64) -> tuple[Array, Array]:
        out = np.zeros((len(rows), *self.shape), dtype)
        return out, out.reshape(-1)

    # -- outputs and vertices ------------------------------------------------------------------------------------------

    def _encode(self, outputs: Array, dtype: np.dtype[Any]) -> Array:
        wanted = (self.n,) if self.labels == 1 else (self.n, 2)
        if outputs.shape[1:] != wanted:
            what = f"{self.n} heads" if self.labels == 1 else f"{self.n} pairs of a head and a label"
            raise InvalidInput(f"y has shape {outputs.shape}, but {self!r} needs rows of {what}")
        numbers = self._whole(outputs)
        heads = numbers if self.labels == 1 else np.ascontiguousarray(numbers[..., 0])
        if self.labels > 1:
            self._check_range(numbers[..., 1], self.labels, "label")
        self._check_range(heads, self.n + 1, "head")
        at = np.empty(len(heads), np.int64)
        parallel.run(
            kernels.is_tree, len(heads), heads.size, heads.reshape(-1), np.arange(len(heads)) * self.n,
            np.full(len(heads), self.n), self.single_root, at,
        )  # fmt: skip
        if (at >= 0).any():
            i = int((at >= 0).argmax())
            raise InvalidInput(
                f"the heads {heads[i].tolist()} of sample {i} are no tree: {self._fault(heads[i], int(at[i]))}"
            )
        return self._matrices(numbers, dtype)

    def _fault(self, heads: Array, word: int) -> str:
        if heads[word] == word + 1:
            return f"word {word + 1} is its own head"
        if heads[word] == 0:
            return f"{int((heads == 0).sum())} words have the head 0, the root, and one may"
        return f"word {word + 1} is on or behind a cycle"

    def _whole(self, outputs: Array) -> Array:
        if outputs.dtype.kind == "f" and np.all(outputs == np.floor(outputs)):
            outputs = outputs.astype(np.int64)
        if outputs.dtype.kind not in "iu":
            raise InvalidInput(f"outputs of {self!r} are whole numbers, got {outputs.dtype}")
        return np.ascontiguousarray(outputs, np.int64)

    def _check_range(self, numbers: Array, count: int, name: str) -> None:
        bad = (numbers < 0) | (numbers >= count)
        if bad.any():
            i, m = (int(x) for x in np.argwhere(bad)[0])
            raise InvalidInput(
                f"the {name} of word {m + 1} is {numbers[i, m]} at sample {i}, but in {self!r} it is from 0 to {count - 1}"
            )

    def _matrices(self, numbers: IntArray, dtype: np.dtype[Any]) -> Array:
        heads = numbers if self.labels == 1 else numbers[..., 0]
        flat = np.zeros((len(heads), self.n, (self.n + 1) * self.labels), dtype)
        place: IntArray = heads * self.labels + (0 if self.labels == 1 else numbers[..., 1])
        np.put_along_axis(flat, place[..., None], 1, axis=-1)
        return flat.reshape(len(heads), *self.shape)

    def _decode(self, rows: Array) -> Array:
        place = rows.reshape(len(rows), self.n, (self.n + 1) * self.labels).argmax(axis=-1)
        heads = np.ascontiguousarray(place // self.labels)
        at = np.empty(len(heads), np.int64)
        parallel.run(
            kernels.is_tree, len(heads), heads.size, heads.reshape(-1), np.arange(len(heads)) * self.n,
            np.full(len(heads), self.n), self.single_root, at,
        )  # fmt: skip
        chain = np.arange(self.n)
        heads[at >= 0] = chain  # no tree: decode notices that it does not encode to the same
        return heads if self.labels == 1 else np.stack([heads, place % self.labels], axis=-1)

    def _vertices(self) -> Array:
        # head by head, in the order of the outputs; for the small sizes where all fit
        heads = np.array(list(self._every_tree()), np.int64).reshape(-1, self.n)
        if self.labels == 1:
            return self._matrices(heads, np.dtype(np.float64))
        labels = np.array(list(itertools.product(range(self.labels), repeat=self.n)), np.int64)
        pairs = np.stack(
            [np.repeat(heads, len(labels), axis=0), np.tile(labels, (len(heads), 1))], axis=-1
        )  # fmt: skip
        return self._matrices(pairs, np.dtype(np.float64))

    def _every_tree(self) -> Iterator[tuple[int, ...]]:
        """All trees, growing them head by head and dropping what closes a cycle."""

        def extend(heads: list[int]) -> Iterator[tuple[int, ...]]:
            m = len(heads)
            if m == self.n:
                if 0 in heads:
                    yield tuple(heads)
                return
            for h in range(self.n + 1):
                if h == m + 1 or (h == 0 and self.single_root and 0 in heads):
                    continue
                v = h
                while 0 < v <= m:
                    v = heads[v - 1]
                if v != m + 1:
                    yield from extend([*heads, h])

        yield from extend([])

    # -- oracles -------------------------------------------------------------------------------------------------------

    def k_best(self, theta: ArrayLike, k: int) -> tuple[Array, Array]:
        """``(scores, outputs)`` of the k trees of highest score, best first: ``(*batch, k)`` and ``(*batch, k, *output)``.

        Where there are fewer the score is -inf and the heads are −1. O(k n³) (Lawler's partition over maximisations).

        >>> from fenchel.structures import DependencyTree
        >>> scores, heads = DependencyTree(2).k_best([[3.0, 0.0, 1.0], [1.0, 2.0, 0.0]], 3)
        >>> scores, heads.tolist()
        (array([ 5.,   2., -inf]), [[0, 1], [2, 0], [-1, -1]])
        """
        rows, batch = self._rows(theta, "scores")
        scores, arcs, _ = self._k_best(rows, k)
        place = arcs.reshape(len(rows), k, self.n) % ((self.n + 1) * self.labels)
        out = self._outputs(place)
        out[scores == -np.inf] = -1
        return scores.astype(rows.dtype, copy=False).reshape(*batch, k), out.reshape(*batch, *out.shape[1:])

    def _outputs(self, place: Array) -> Array:
        heads: Array = place // self.labels
        return heads if self.labels == 1 else np.stack([heads, place % self.labels], axis=-1)


@dataclass(frozen=True, repr=False)
class Arborescence(_Tree):
    """Directed trees over ``n`` words whose arcs lead away from a root; any number of words may hang on the root.

    An output y lists the head of each word: 0 for the root, h for word h (words count from 1, as in CoNLL-U). Scores
    have shape ``(n, n + 1)``: entry (i, h) is the score of the arc from head h to word i + 1. With ``labels`` > 1
    (parallel arcs) the shape is ``(n, n + 1, labels)`` and y has a pair of head and label for each word. A word is no
    head of itself: what stands at (i, i + 1) is ignored. A score of -inf forbids an arc. M is the r-arborescence polytope:
    μ ≥ 0, one head for each word, and at least one arc into every set of words.

    argmax is Edmonds' algorithm by growing paths, O(n²). Log-partition and Gibbs marginals are the matrix-tree
    theorem, O(n³), by an elimination without subtractions, exact also where scores lie far apart. The Euclidean
    projection is the active-set method over argmax calls; ``method`` offers the others. The KL projection adds cuts
    by maximum flows. Ties go to some tree, always the same.

    References: Edmonds, "Optimum branchings", 1967; Gabow, Galil, Spencer and Tarjan, "Efficient algorithms for
    finding minimum spanning trees in undirected and directed graphs", 1986; Koo, Globerson, Carreras and Collins,
    "Structured prediction models via the matrix-tree theorem", 2007; Wilson, "Generating random spanning trees more quickly
    than the cover time", 1996; Li, Saeed, Zhang, Ziebart and Gimpel, "Moment distributionally robust tree structured
    prediction", 2022.

    >>> from fenchel.structures import Arborescence
    >>> trees = Arborescence(3)
    >>> theta = [[2.0, 0.0, 1.0, 0.0], [0.5, 3.0, 0.0, 0.5], [1.0, 0.0, 0.8, 0.0]]
    >>> trees.decode(trees.argmax(theta))
    array([0, 1, 0])
    >>> trees.marginals(theta)[1].round(3)
    array([[0.904, 0.   , 0.035, 0.061],
           [0.097, 0.847, 0.   , 0.056],
           [0.504, 0.16 , 0.336, 0.   ]])
    """

    n: int
    labels: int = 1
    single_root: ClassVar[bool] = False


@dataclass(frozen=True, repr=False)
class DependencyTree(_Tree):
    """Directed trees over ``n`` words in which exactly one word hangs on the root: the parses of a sentence.

    Everything is as in :class:`Arborescence` but for the one arc from the root, which is a linear constraint more on M:
    Σ_i μ(i, 0) = 1. argmax keeps its O(n²): the root is taken only where nothing else is left, which is the limit of
    lowering the scores of all its arcs alike.

    Reference: Stanojević and Cohen, "A root of a problem: optimizing single-root dependency parsing", 2021.

    >>> from fenchel.structures import DependencyTree
    >>> trees = DependencyTree(3)
    >>> theta = [[2.0, 0.0, 1.0, 0.0], [0.5, 3.0, 0.0, 0.5], [1.0, 0.0, 0.8, 0.0]]
    >>> trees.decode(trees.argmax(theta))
    array([0, 1, 2])
    >>> trees.project(theta).round(3)
    array([[0.971, 0.   , 0.   , 0.029],
           [0.   , 1.   , 0.   , 0.   ],
           [0.029, 0.086, 0.886, 0.   ]])
    """

    n: int
    labels: int = 1
    single_root: ClassVar[bool] = True


class _TreeFamily(_TreeOracles, Family):
    labels: int
    kind: ClassVar[type[_Tree]]

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", check_count(self.labels, "labels"))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'' if self.labels == 1 else f'labels={self.labels}'})"

    @property
    def numbers_per_part(self) -> int:
        return 1 if self.labels == 1 else 2

    def agreement(self, mu: Any) -> Any:
        return mu if self.labels == 1 else self.by_member(mu, lambda member, block: member.agreement(block))

    def _one(self, n: int) -> _Tree:
        return self.kind(n, self.labels)  # type: ignore[call-arg]

    @property
    def examples(self) -> tuple[Structure, ...]:
        return tuple(self._one(n) for n in (3, 1, 2))

    def _words(self, sizes: IntArray) -> IntArray:
        """How many words trees of these many numbers have."""
        per_label = np.asarray(sizes) // self.labels
        return np.floor((np.sqrt(4.0 * per_label + 1.0) - 1.0) / 2.0 + 1e-6).astype(np.int64)

    def member(self, size: int) -> _Tree:
        n = int(self._words(np.array([size]))[0])
        if n < 1 or n * (n + 1) * self.labels != size:
            per = "n (n + 1)" + ("" if self.labels == 1 else f" {self.labels}")
            raise InvalidInput(f"{size} numbers are no tree of {self!r}: one of n words has {per}")
        return self._one(n)

    def member_of(self, y: Any) -> _Tree:
        if not hasattr(y, "__len__") or len(y) == 0:
            raise InvalidInput(f"an output is {y!r}, expected the heads of one word or more")
        return self._one(len(y))

    def sizes_of(self, words: IntArray) -> IntArray:
        """How many numbers trees of these many words have."""
        words = np.asarray(words)
        return words * (words + 1) * self.labels

    def _layout(self, rows: Ragged) -> TreeLayout:
        return TreeLayout(for_kernels(rows.flat), rows.offsets[:-1], self._words(rows.sizes), self.labels)

    def _zeros_like(self, rows: Ragged, dtype: Any = np.float64) -> tuple[Ragged, Array]:
        out = np.zeros(rows.flat.size, dtype)
        return Ragged(out, rows.offsets), out

    def _project(self, rows: Any, accuracy: Accuracy) -> Solved:
        words = self._words(rows.sizes)

        def best(scores: Array, items: IntArray) -> Array:
            m, width = scores.shape
            arcs, status = self._best_arcs(
                TreeLayout(scores.reshape(-1), np.arange(m) * width, words[items], self.labels)
            )
            self._refuse_impossible(status, items)
            out = np.zeros((m, width))
            out.reshape(-1)[arcs] = 1.0
            return out

        return project_padded(self.center(rows), best, accuracy)

    def k_best(self, theta: Any, k: int) -> list[tuple[Array, Array]]:
        """A pair ``(scores, outputs)`` for each item, best first: as many as there are, at most k."""
        rows = self._rows(theta, "scores")[0]
        scores, arcs, lay = self._k_best(rows, k)
        pairs = []
        for i, n in enumerate(lay.words.tolist()):
            most = int((scores[i] > -np.inf).sum())
            start = k * int(lay.ends[i])
            place = arcs[start : start + most * n].reshape(most, n) % ((n + 1) * self.labels)
            pairs.append((scores[i, :most], self._one(n)._outputs(place)))
        return pairs


@dataclass(frozen=True, repr=False)
class Arborescences(_TreeFamily):
    """Directed trees of any numbers of words, any of which may hang on the root: :class:`Arborescence` for each, in one call.

    >>> from fenchel.structures import Arborescences
    >>> trees = Arborescences()
    >>> trees.decode(trees.argmax([[[1.0, 0.0, 0.0], [0.0, 2.0, 0.0]], [[0.5, 0.0]]]))
    [array([0, 1]), array([0])]
    """

    labels: int = 1
    single_root: ClassVar[bool] = False
    kind: ClassVar[type[_Tree]] = Arborescence


@dataclass(frozen=True, repr=False)
class DependencyTrees(_TreeFamily):
    """Parses of sentences of any lengths: :class:`DependencyTree` for each, in one call.

    >>> from fenchel.structures import DependencyTrees
    >>> trees = DependencyTrees()
    >>> trees.decode(trees.argmax([[[1.0, 0.0, 0.0], [5.0, 2.0, 0.0]], [[0.5, 0.0]]]))
    [array([2, 0]), array([0])]
    """

    labels: int = 1
    single_root: ClassVar[bool] = True
    kind: ClassVar[type[_Tree]] = DependencyTree
