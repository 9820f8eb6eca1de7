"""The ways to project onto a tree polytope, each with a certificate, for one interface."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .._core import parallel
from .._core.checks import check_choice
from .._core.types import Array, ArrayLike, IntArray
from ..kernels import lifted_tree as kernels
from ..optim.active_set import project_from_argmax
from .base import Accuracy, Solved, Structure

__all__ = ["METHODS", "Graph", "ProjectedTrees", "frank_wolfe", "lifted_admm"]

METHODS = ("active-set", "frank-wolfe", "admm")

# Iterations of ADMM between two certificates.
_ADMM_STEPS = 25

Watch = Callable[[IntArray, Array, IntArray], None]
"""Called with some items, their points and how many iterations each has behind it, for experiments."""


@dataclass(frozen=True)
class Graph:
    """The lifted description's view of a structure: the two ends of each entry of a point, -1 where there is no arc."""

    ends: IntArray
    n_nodes: int
    kind: int
    labels: int = 1


class ProjectedTrees(Structure):
    """A structure of trees whose ``project`` has a choice of methods."""

    projection_methods: ClassVar[tuple[str, ...]] = METHODS

    def graph(self) -> Graph:
        """The nodes that each entry of a point joins."""
        raise NotImplementedError

    def project(
        self,
        theta: ArrayLike,
        *,
        method: str = "active-set",
        tol: float | None = None,
        max_iter: int | None = None,
        return_info: bool = False,
    ) -> Any:
        """The Euclidean projection, argmin ½‖μ − θ‖² over μ in M.

        ``method`` is one of

        - ``"active-set"``: Wolfe's method over argmax calls, exact after finitely many
        - ``"frank-wolfe"``: the classic method with exact line search, gap O(1/t)
        - ``"admm"``: the alternating direction method over the lifted description of M; its answer is near M, and the
          active set moves it there

        All stop when the duality gap ⟨θ − μ, s − μ⟩, s = argmax(θ − μ), of a point that is a mixture of trees is at most ``tol``
        (default 1e-9 in float64), and return that gap with ``return_info=True``. For ADMM it is the difference to the best
        lower bound met.

        Reference: Li, Saeed, Zhang, Ziebart and Gimpel, "Moment distributionally robust tree structured prediction",
        2022, section 4.
        """
        check_choice(method, "method", METHODS)
        if method == "active-set":
            return super().project(theta, tol=tol, max_iter=max_iter, return_info=return_info)
        accuracy = Accuracy.checked(tol, max_iter)
        rows, batch = self._rows(theta, "scores")
        solved = (frank_wolfe if method == "frank-wolfe" else lifted_admm)(self, rows, accuracy)
        return self._finish(solved, batch, rows.dtype, return_info)


def frank_wolfe(
    structure: Structure,
    rows: Array,
    accuracy: Accuracy,
    *,
    line_search: bool = True,
    watch: Watch | None = None,
) -> Solved:
    """The method of Frank and Wolfe (1956) for all rows at once; the step is 2/(t + 2) without ``line_search``."""
    tol = accuracy.tol or (1e-9 if rows.dtype == np.float64 else 1e-6)
    most = accuracy.max_iter or 10_000
    n, dim = len(rows), structure.dim
    theta = rows.reshape(n, dim).astype(np.float64)
    finite = np.where(np.isneginf(theta), 0.0, theta)

    def best(scores: Array, items: IntArray) -> Array:
        shaped = np.where(np.isneginf(theta[items]), -np.inf, scores).reshape(len(items), *structure.shape)
        return np.asarray(structure._argmax_at(shaped, items), np.float64).reshape(len(items), dim)

    items = np.arange(n)
    mu = best(theta, items) if n else theta
    gap, n_iter, converged = np.full(n, np.inf), np.ones(n, np.int64), np.zeros(n, bool)
    while len(items):
        if watch is not None:
            watch(items, mu[items], n_iter[items])
        slope = finite[items] - mu[items]
        way = best(slope, items) - mu[items]
        gap[items] = np.einsum("ij,ij->i", slope, way)
        converged[items] = gap[items] <= tol
        going = ~converged[items] & (n_iter[items] < most)
        items, way = items[going], way[going]
        square = np.einsum("ij,ij->i", way, way)
        if line_search:
            step = np.clip(gap[items] / np.maximum(square, 1e-300), 0.0, 1.0)
        else:
            step = 2.0 / (n_iter[items] + 2.0)
        mu[items] += step[:, None] * way
        n_iter[items] += 1
    return Solved(mu.reshape(n, *structure.shape), np.maximum(gap, 0.0), n_iter, converged)


def lifted_admm(structure: ProjectedTrees, rows: Array, accuracy: Accuracy, *, watch: Watch | None = None) -> Solved:
    """Consensus ADMM over the lifted description: copies of the point in the set U_k of each node k.

    Every 25 iterations argmax at θ − x gives a lower bound that holds for any x. Once it and the distance of the copies say
    that x is good enough, x is projected onto the hull of trees, and the gap between that point's value and the best
    bound decides.
    """
    tol = accuracy.tol or (1e-9 if rows.dtype == np.float64 else 1e-6)
    most = accuracy.max_iter or 10_000
    graph = structure.graph()
    n, dim = len(rows), structure.dim
    theta = rows.reshape(n, dim).astype(np.float64)
    forbidden = np.isneginf(theta) | (graph.ends[:, 0] < 0)
    finite = np.where(forbidden, 0.0, theta)
    ends = np.where(forbidden[:, :, None], -1, graph.ends)
    pairs = np.zeros((n, graph.n_nodes, graph.n_nodes))
    sample, arc = np.nonzero(~forbidden)
    for one, other in ((0, 1), (1, 0)):
        np.add.at(pairs, (sample, graph.ends[arc, one], graph.ends[arc, other]), 1.0)

    def best(scores: Array, items: IntArray) -> Array:
        shaped = np.where(np.isneginf(theta[items]), -np.inf, scores).reshape(len(items), *structure.shape)
        return np.asarray(structure._argmax_at(shaped, items), np.float64).reshape(len(items), dim)

    # a node of its own needs no set: every set says that all other nodes get one in all
    n_sets = graph.n_nodes if graph.kind == kernels.UNDIRECTED else graph.n_nodes - 1
    x = best(theta, np.arange(n)) if n else theta.copy()
    copies, duals = np.zeros((n, n_sets, dim)), np.zeros((n, n_sets, dim))
    splits = np.zeros((n, n_sets, graph.n_nodes, graph.n_nodes))
    rho, residual, done = np.ones((n, n_sets)), np.full(n, np.inf), np.zeros(n, np.int64)
    points, value = x.copy(), 0.5 * ((x - finite) ** 2).sum(axis=1)
    bound = np.full(n, -np.inf if dim else 0.0)
    converged = np.zeros(n, bool)
    items = np.arange(n if dim else 0)
    converged[len(items) :] = True
    wanted = np.full(n, tol)
    while len(items):
        steps = int(min(_ADMM_STEPS if watch is None else 1, most - done[items].min()))
        parallel.run(
            kernels.advance, len(items), float(steps * len(items)) * n_sets * graph.n_nodes**2, items, finite, ends, pairs,
            graph.n_nodes, graph.labels, graph.kind, steps, done, x, copies, duals, splits, rho, residual,
        )  # fmt: skip
        if watch is not None:
            watch(items, x[items], done[items])
        slope = finite[items] - x[items]
        lead = np.einsum("ij,ij->i", slope, best(slope, items) - x[items])
        bound[items] = np.maximum(bound[items], 0.5 * np.einsum("ij,ij->i", slope, slope) - lead)
        out = done[items] >= most
        size = 1.0 + np.sqrt(np.einsum("ij,ij->i", slope, slope))
        near = out | ((np.abs(lead) <= wanted[items]) & (residual[items] * size <= wanted[items]))
        ready = items[near]
        if len(ready):
            moved = project_from_argmax(
                x[ready],
                lambda scores, at, ready=ready: best(scores, ready[at]),  # type: ignore[misc]
                tol=1e-3 * tol**2 + 1e-15,
            )
            values = 0.5 * ((moved.points - finite[ready]) ** 2).sum(axis=1)
            better = values < value[ready]
            points[ready[better]], value[ready[better]] = moved.points[better], values[better]
            converged[ready] = value[ready] - bound[ready] <= tol
            wanted[ready] *= 0.3
        items = items[~(converged[items] | out)]
    return Solved(points.reshape(n, *structure.shape), np.maximum(value - bound, 0.0), done, converged)
