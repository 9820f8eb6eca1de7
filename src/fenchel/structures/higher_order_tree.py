"""Trees whose scores look at several arcs at once: a relaxation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, TypeAlias

import numpy as np

from .._core.checks import check_choice, check_count
from .._core.errors import InvalidInput, MissingOracle
from .._core.types import Array, ArrayLike, IntArray
from ..optim.active_set import Support, project_from_argmax
from .base import Accuracy, Solved, Structure
from .tree import Arborescence, DependencyTree

__all__ = ["HigherOrderTree"]

_Part: TypeAlias = tuple[tuple[int, int], tuple[int, int]]

# The penalty is changed by this factor when one residual is that many times the other (He, Yang and Wang 2000).
_BALANCE, _OUT_OF_BALANCE = 2.0, 4.0
_ADAPT = 400
_CHANGES = 200


@dataclass(frozen=True, repr=False)
class HigherOrderTree(Structure):
    """A relaxation of arborescences with scores for pairs of arcs that occur together.

    ``parts`` is ``"siblings"`` (two words with one head), ``"grandparents"`` (a word, its head and its head's head), both
    in a tuple, or lists pairs of arcs, an arc being (head, word) with 0 for the root and words from 1. A point holds the
    n (n + 1) arcs of an :class:`Arborescence` (or, with ``single_root=True``, of a :class:`DependencyTree`) and then an
    entry for each part. The set is the local polytope

        M = {(x, p) : x in the tree polytope, 0 ≤ p_s ≤ x_a for every arc a of part s}.

    Every tree is in it, with p_s = 1 where both arcs are there, but so are other vertices, fractional ones among them,
    and p_s may stay below what the tree says. So there is no exact argmax (over trees it is NP-hard, McDonald and Satta,
    2007) and points are not decoded; :meth:`project` is exact on M, and :meth:`approximate_argmax` finds a good tree.

    The projection splits into trees and parts by the alternating direction method: the trees by active-set projections,
    the parts in closed form. Its point is in M and its gap a true duality gap.

    Reference: Li, Saeed, Zhang, Ziebart and Gimpel, "Moment distributionally robust tree structured prediction", 2022,
    section 5.3.

    >>> import numpy as np
    >>> from fenchel.structures import HigherOrderTree
    >>> trees = HigherOrderTree(3, "siblings")
    >>> theta = np.zeros(trees.dim)
    >>> theta[trees.part_index(((1, 2), (1, 3)))] = 2.0  # words 2 and 3 like to hang on word 1 together
    >>> trees.decode(trees.approximate_argmax(theta))
    array([0, 1, 1])
    >>> arcs, parts = trees.unpack(trees.project(theta))
    >>> arcs.round(2)
    array([[0.48, 0.  , 0.26, 0.26],
           [0.26, 0.7 , 0.  , 0.04],
           [0.26, 0.7 , 0.04, 0.  ]])
    """

    n: int
    parts: Any
    single_root: bool = False
    binary: ClassVar[bool] = False
    output_ndim: ClassVar[int] = 1
    intractable: ClassVar[frozenset[str]] = frozenset({"argmax", "marginals"})
    exact_constants: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", check_count(self.n, "n"))
        object.__setattr__(self, "single_root", bool(self.single_root))
        given: list[Any] = []
        for part in [self.parts] if isinstance(self.parts, str) else self.parts:
            if isinstance(part, str):
                check_choice(part, "parts", ("siblings", "grandparents"))
                given += _siblings(self.n) if part == "siblings" else _grandparents(self.n)
            else:
                given.append(part)
        parts = []
        for part in given:
            arcs = tuple(tuple(int(v) for v in arc) for arc in part)
            if len(arcs) != 2 or any(len(arc) != 2 for arc in arcs) or arcs[0] == arcs[1]:
                raise InvalidInput(f"part {part!r} is not two different arcs (head, word)")
            for head, word in arcs:
                if not (0 <= head <= self.n and 1 <= word <= self.n and head != word):
                    raise InvalidInput(
                        f"arc {(head, word)} of part {part!r} is none among {self.n} words and the root 0"
                    )
            parts.append(tuple(sorted(arcs)))
        if len(set(parts)) != len(parts):
            raise InvalidInput("parts has the same pair of arcs twice")
        object.__setattr__(self, "parts", tuple(parts))

    def __repr__(self) -> str:
        return f"HigherOrderTree({self.n}, <{len(self.parts)} parts>{', single_root=True' if self.single_root else ''})"

    @cached_property
    def tree(self) -> Arborescence | DependencyTree:
        """The structure of the arcs alone."""
        return (DependencyTree if self.single_root else Arborescence)(self.n)

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.tree.dim + len(self.parts),)

    @cached_property
    def _arcs(self) -> IntArray:
        """The places of both arcs of each part."""
        ends = np.array(self.parts, np.int64).reshape(-1, 2, 2)
        return (ends[..., 1] - 1) * (self.n + 1) + ends[..., 0]

    def part_index(self, part: Sequence[Sequence[int]]) -> int:
        """Where a point has the entry of this part."""
        wanted = tuple(sorted((int(h), int(m)) for h, m in part))
        if wanted not in self.parts:
            raise InvalidInput(f"{self!r} has no part {wanted}")
        return self.tree.dim + int(self.parts.index(wanted))

    def unpack(self, points: ArrayLike) -> tuple[Array, Array]:
        """Arcs ``(*batch, n, n + 1)`` and parts ``(*batch, parts)`` of scores or points: views."""
        array = np.asarray(points)
        if array.shape[-1:] != self.shape:
            raise InvalidInput(f"points have shape {array.shape}, but {self!r} needs (..., {self.dim})")
        cut = self.tree.dim
        return array[..., :cut].reshape(*array.shape[:-1], *self.tree.shape), array[..., cut:]

    def missing(self) -> Mapping[str, str]:
        no_trees = "its vertices are not all trees; use approximate_argmax, or Arborescence(n) for arcs alone"
        return {
            "vertices": no_trees,
            "argmax": "with scores for pairs of arcs the best tree is NP-hard to find; use approximate_argmax or project",
            "kl_project": "no algorithm for this relaxation is known here; use project",
            "marginals": "sums over trees with scores for pairs of arcs are intractable; use project",
            "nearest": no_trees,
            "decompose": no_trees,
            "sample": no_trees,
        }

    @property
    def max_l1(self) -> float:
        return float(self.n + len(self.parts))

    def diameter(self, p: float = 2) -> float:
        return float((2 * self.n + len(self.parts)) ** (1 / p))

    def separation(self, p: float = 2) -> float:
        raise MissingOracle(f"{self!r} does not know its vertices, and so not how close two of them are")

    # -- outputs -------------------------------------------------------------------------------------------------------

    def _with_parts(self, trees: Array) -> Array:
        flat = trees.reshape(len(trees), self.tree.dim)
        return np.concatenate([flat, flat[:, self._arcs].min(axis=2)], axis=1)

    def _encode(self, outputs: Array, dtype: np.dtype[Any]) -> Array:
        return self._with_parts(self.tree._encode(outputs, dtype))

    def _decode(self, rows: Array) -> Array:
        return self.tree._decode(rows[:, : self.tree.dim].reshape(len(rows), *self.tree.shape))

    # -- a good tree ---------------------------------------------------------------------------------------------------

    def approximate_argmax(self, theta: ArrayLike, tol: float = 1e-3) -> Array:
        """The encoded tree of high score ⟨θ, φ(y)⟩, with no promise that none is higher.

        The best trees for the arcs' scores alone, and for the arcs of the projection of θ, each improved by changing one
        head at a time as long as the score rises; the better one. O(n² (n² + parts)) a change.
        """
        rows, batch = self._rows(theta, "scores")
        scores = rows.astype(np.float64)
        relaxed: Any = self._project(scores, Accuracy(tol=tol, max_iter=200))
        cut = self.tree.dim
        starts = [scores[:, :cut], np.where(np.isneginf(scores[:, :cut]), -np.inf, relaxed.points[:, :cut])]
        best = np.full(len(rows), -np.inf)
        out = np.zeros((len(rows), self.dim))
        for arcs in starts:
            heads = self.tree._decode(self.tree._argmax(arcs.reshape(len(rows), *self.tree.shape)))
            for i in range(len(rows)):
                value, improved = self._climb(scores[i], heads[i])
                if value > best[i]:
                    best[i] = value
                    out[i] = self._with_parts(self.tree._encode(improved[None], np.dtype(np.float64)))[0]
        return self._restore(out, batch, rows.dtype)

    def _climb(self, scores: Array, heads: IntArray) -> tuple[float, IntArray]:
        value = self._values(scores, heads[None])[0]
        for _ in range(_CHANGES):
            words, others = np.nonzero(~np.isneginf(scores[: self.tree.dim].reshape(self.tree.shape)))
            near = np.repeat(heads[None], len(words), axis=0)
            near[np.arange(len(words)), words] = others
            if self.single_root:  # the root's word changes only together with another
                near = np.concatenate([near, self._other_roots(heads)])
            near = near[self._are_trees(near)]
            values = self._values(scores, near)
            if not len(near) or not values.max() > value + 1e-12 * abs(value):
                break
            heads, value = near[int(values.argmax())], values.max()
        return float(value), heads

    def _other_roots(self, heads: IntArray) -> IntArray:
        """Another word hangs on the root, and the one that did on it."""
        near = np.repeat(heads[None], self.n, axis=0)
        near[:, int((heads == 0).argmax())] = np.arange(1, self.n + 1)
        near[np.arange(self.n), np.arange(self.n)] = 0
        return near

    def _are_trees(self, heads: IntArray) -> Array:
        good = (heads != np.arange(1, self.n + 1)).all(axis=1) & (not self.single_root or (heads == 0).sum(axis=1) == 1)
        above = heads
        for _ in range(self.n):  # every word reaches the root
            above = np.where(above > 0, np.take_along_axis(heads, np.maximum(above - 1, 0), axis=1), 0)
        return np.asarray(good & (above == 0).all(axis=1))

    def _values(self, scores: Array, heads: IntArray) -> Array:
        cut = self.tree.dim
        present = np.zeros((len(heads), self.n, self.n + 1), bool)
        np.put_along_axis(present, heads[..., None], True, axis=2)
        flat = present.reshape(len(heads), cut)
        both = flat[:, self._arcs].all(axis=2)
        finite = np.where(np.isneginf(scores), 0.0, scores)
        values = flat @ finite[:cut] + both @ finite[cut:]
        barred = (flat & np.isneginf(scores[:cut])).any(axis=1)
        return np.where(barred, -np.inf, values)

    # -- projection ----------------------------------------------------------------------------------------------------

    def _project(self, rows: Array, accuracy: Accuracy) -> Solved:
        tol = accuracy.tol or (1e-9 if rows.dtype == np.float64 else 1e-5)
        n = len(rows)
        solved = Solved(np.zeros((n, self.dim)), np.zeros(n), np.zeros(n, np.int64), np.ones(n, bool))
        for i in range(n):
            one = _Splitting(self, rows[i].astype(np.float64), i, tol, accuracy.max_iter or 5000)
            one.run()
            solved.points[i], solved.error[i] = one.point, one.gap
            solved.n_iter[i], solved.converged[i] = one.n_iter, one.gap <= one.tol
        return solved

    def _violation(self, rows: Array) -> Array:
        arcs, parts = rows[:, : self.tree.dim], rows[:, self.tree.dim :]
        off = self.tree._violation(arcs.reshape(len(rows), *self.tree.shape))
        above = (parts[..., None] - arcs[:, self._arcs]).max(axis=(1, 2), initial=0.0)
        return np.maximum(off, np.maximum(above, (-parts).max(axis=1, initial=0.0)))


class _Splitting:
    """The alternating direction method for one item: x a point of the tree polytope, y the arcs as each part sees them.

    min ½‖x − w‖² + ½‖p − v‖² with y = x on the arcs of each part and 0 ≤ p_s ≤ y_a. The step in x is linearised by
    the largest number of parts on one arc, so that it is a Euclidean projection; the multipliers are never positive.
    """

    def __init__(self, structure: HigherOrderTree, scores: Array, sample: int, tol: float, max_iter: int) -> None:
        cut = structure.tree.dim
        self.structure, self.sample, self.max_iter = structure, sample, max_iter
        self.w, self.v = scores[:cut], np.where(np.isneginf(scores[cut:]), 0.0, scores[cut:])
        self.barred = np.isneginf(scores[cut:])
        self.finite = np.where(np.isneginf(self.w), 0.0, self.w)
        self.arcs = structure._arcs
        self.crowd = float(np.bincount(self.arcs.reshape(-1), minlength=cut).max(initial=0))
        scale = 1.0 + float(self.finite @ self.finite + self.v @ self.v)
        self.tol = tol + 1e-15 * scale  # and the rounding of the two values
        self.start = max(1.0, float(np.sqrt(scale / structure.dim)))  # forces grow with the scores, the set does not
        self.warm: dict[str, Support | None] = {"step": None, "bound": None}
        self.n_iter, self.gap = 0, np.inf
        self.point = np.zeros(structure.dim)
        self.best, self.bound = np.inf, -np.inf

    def trees(self, target: Array, which: str) -> tuple[Array, float]:
        """The projection of ``target`` onto the tree polytope, and its gap."""
        tree = self.structure.tree

        def best(scores: Array, indices: IntArray) -> Array:
            rows = scores.reshape(len(scores), *tree.shape)
            return tree._argmax_at(rows, np.full(len(scores), self.sample)).reshape(len(scores), tree.dim)

        result = project_from_argmax(
            target[None], best, tol=1e-3 * self.tol, max_iter=10_000, warm_start=self.warm[which]
        )
        self.warm[which] = result.support
        return result.points[0], float(result.gap[0])

    def run(self) -> None:
        x, _ = self.trees(self.w, "step")
        y = x[self.arcs]
        duals = np.zeros_like(y)  # the multipliers divided by rho
        rho = self.start
        self.certify(x, duals * rho)
        while self.gap > self.tol and self.n_iter < self.max_iter:
            self.n_iter += 1
            pull = np.zeros_like(x)
            np.add.at(pull, self.arcs, x[self.arcs] - y + duals)
            weight = 1.0 + rho * self.crowd
            x, _ = self.trees((self.w + rho * (self.crowd * x - pull)) / weight, "step")
            seen = x[self.arcs] + duals
            p = self._parts(seen, rho)
            before, y = y, np.maximum(seen, p[:, None])
            duals = seen - y
            if self.n_iter % 10 == 0 or self.n_iter == self.max_iter:
                self.certify(x, duals * rho)
            apart, moved = (
                float(np.abs(x[self.arcs] - y).max(initial=0)),
                rho * float(np.abs(y - before).max(initial=0)),
            )
            if self.n_iter < _ADAPT and (apart > _OUT_OF_BALANCE * moved or moved > _OUT_OF_BALANCE * apart):
                factor = _BALANCE if apart > moved else 1 / _BALANCE
                rho *= factor
                duals = duals / factor

    def _parts(self, seen: Array, rho: float) -> Array:
        """argmin ½(p − v)² + rho/2 Σ max(p − seen_a, 0)² over p ≥ 0: the sum may press on no arc, the lower one, or both."""
        low, high = seen.min(axis=1, initial=np.inf), seen.max(axis=1, initial=-np.inf)
        one = (self.v + rho * low) / (1 + rho)
        two = (self.v + rho * (low + high)) / (1 + 2 * rho)
        p = np.where(self.v <= low, self.v, np.where(one <= high, one, two))
        return np.where(self.barred, 0.0, np.maximum(p, 0.0))

    def certify(self, x: Array, multipliers: Array) -> None:
        """The value of the best point with these arcs, and the Lagrangian's lower bound at multipliers ν ≤ 0."""
        p = np.where(self.barred, 0.0, np.clip(self.v, 0.0, np.maximum(x[self.arcs].min(axis=1, initial=1.0), 0.0)))
        value = 0.5 * float((x - self.finite) @ (x - self.finite) + (p - self.v) @ (p - self.v))
        if value < self.best:
            self.best, self.point = value, np.concatenate([x, p])
        pull = np.zeros_like(x)
        np.add.at(pull, self.arcs, multipliers)
        nearest, gap = self.trees(self.w - pull, "bound")
        bound = 0.5 * float((nearest - self.finite) @ (nearest - self.finite)) + float(pull @ nearest) - gap
        total = multipliers.sum(axis=1)
        p = np.where(self.barred, 0.0, np.maximum(self.v + total, 0.0))
        bound += 0.5 * float((p - self.v) @ (p - self.v)) - float(total @ p)
        self.bound = max(self.bound, bound)
        self.gap = max(self.best - self.bound, 0.0)


def _siblings(n: int) -> list[_Part]:
    every = range(1, n + 1)
    return [((h, a), (h, b)) for h in range(n + 1) for a in every for b in every if a < b and h not in (a, b)]


def _grandparents(n: int) -> list[_Part]:
    every = range(1, n + 1)
    return [((g, h), (h, m)) for g in range(n + 1) for h in every for m in every if len({g, h, m}) == 3]
