"""Scores of labelled graphs, linear in features of nodes and of edges."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.errors import InvalidInput
from .._core.ragged import Ragged, offsets_of
from .._core.types import Array, IntArray
from ..structures.graph import Graphs
from .base import Index, Scorer
from .linear import Linear

__all__ = ["LinearGraph"]


class LinearGraph(Scorer):
    """θ of each graph: x_vᵀ W for node v, and for each edge a table of scores for its two labels.

    ``X`` holds the features of all nodes, graph after graph: a dense array or a SciPy sparse matrix. Without ``edges`` all
    edges share one table of weights (row: the label of an edge's first node); with features z of each edge, graph after
    graph, the table of an edge is Σ_f z_f V_f. Weights are one vector: W row by row, then the table or the tables V_f.

    >>> import numpy as np
    >>> from fenchel.scorers import LinearGraph
    >>> from fenchel.structures import Forest, Graphs
    >>> scorer = LinearGraph(np.array([[1.0], [2.0], [3.0]]), Graphs([Forest([-1, 0], 2), Forest([-1], 2)]))
    >>> scorer.scores(np.array([1.0, -1.0, 0.5, 0.0, 0.0, 0.5]))[0]
    array([ 1. , -1. ,  2. , -2. ,  0.5,  0. ,  0. ,  0.5])
    """

    def __init__(self, X: Any, structure: Graphs, *, edges: Any = None, intercept_scaling: float | None = None) -> None:
        self.structure = structure
        k = structure.labels
        self.nodes = Linear(X, (k,), intercept_scaling=intercept_scaling)
        self.edges = None if edges is None else Linear(edges, (k, k))
        self.node_rows = Ragged(np.zeros(0), offsets_of(structure.plan.n_nodes))
        self.edge_rows = Ragged(np.zeros(0), offsets_of(structure.plan.n_edges))
        for name, linear, rows in (("X", self.nodes, self.node_rows), ("edges", self.edges, self.edge_rows)):
            if linear is not None and linear.n_examples != rows.offsets[-1]:
                raise InvalidInput(
                    f"{name} has {linear.n_examples} rows, but the graphs have {rows.offsets[-1]} in all"
                )

    @property
    def n_examples(self) -> int:
        return len(self.structure.members)

    @property
    def weights_shape(self) -> tuple[int, ...]:
        tables = 1 if self.edges is None else self.edges.weights_shape[0]
        return (self._cut + tables * self.structure.labels**2,)

    @property
    def _cut(self) -> int:
        return int(np.prod(self.nodes.weights_shape))

    def split(self, w: Array) -> tuple[Array, Array]:
        """The weights as (features, labels), and as one table or one for each feature of edges. Views."""
        k = self.structure.labels
        return w[: self._cut].reshape(-1, k), w[self._cut :].reshape((k, k) if self.edges is None else (-1, k, k))

    def take(self, idx: Any) -> LinearGraph:
        structure, nodes, edges = self._where(idx)
        return LinearGraph(
            self.nodes.X[nodes],
            structure,
            edges=None if self.edges is None else self.edges.X[edges],
            intercept_scaling=self.nodes.intercept_scaling,
        )

    def scores(self, w: Array, idx: Index = None) -> Any:
        structure, nodes, edges = self._where(idx)
        k = structure.labels
        coefficients, tables = self.split(w)
        theta = np.asarray(self.nodes.scores(coefficients, nodes), dtype=np.float64)
        if self.edges is not None:
            tables = np.asarray(self.edges.scores(tables.reshape(-1, k * k), edges), dtype=np.float64)
        return structure.assemble(theta, tables)

    def adjoint(self, residual: Any, idx: Index = None) -> Array:
        structure, nodes, edges = self._where(idx)
        by_node = self.nodes.adjoint(structure.position_marginals(residual), nodes)
        tables = structure.edge_rows(residual)
        if self.edges is None:
            by_edge = tables.sum(axis=0)
        else:
            by_edge = self.edges.adjoint(tables.reshape(len(tables), -1), edges)
        return np.concatenate([by_node.ravel(), by_edge.ravel()])

    def quadratic(self, direction: Any, idx: Index = None) -> Array:
        items = np.arange(self.n_examples) if idx is None else np.arange(self.n_examples)[idx]
        squares = np.empty(len(items))
        for a, i in enumerate(items):
            move = self.adjoint(direction[a : a + 1], np.array([i]))
            squares[a] = move @ move
        return squares

    def _where(self, idx: Index) -> tuple[Graphs, Any, Any]:
        """The graphs, nodes and edges of some examples; all of them need no index."""
        if idx is None:
            return self.structure, None, None
        items: IntArray = np.arange(self.n_examples)[idx]
        edges = None if self.edges is None else self.edge_rows.places(items)
        return self.structure.take(items), self.node_rows.places(items), edges
