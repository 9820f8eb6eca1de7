"""A label for each node of a graph."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._core.checks import check_choice, check_finite_positive
from .._core.errors import InvalidInput
from .._core.types import Array, IntArray
from ..costs.weighted import Weighted
from ..data.sequences import SequenceEncoder
from ..decoders.base import Decoder
from ..decoders.calibrated import Calibrated
from ..losses.base import Loss, Output
from ..scorers.linear_graph import LinearGraph
from ..structures.graph import Forest, Graph, Graphs
from .base import make_cost
from .labeler import Labeler
from .tag import _has_dicts, _stacked

__all__ = ["GraphLabeler"]

Self = TypeVar("Self", bound="GraphLabeler")


@dataclass(frozen=True)
class _Batch:
    """A batch of inputs: the rows of all nodes, the edges of each graph, and the rows of all edges if there are any."""

    X: list[Any]
    sizes: list[int]
    edges: list[IntArray]
    features: list[Any] | None = None

    def __len__(self) -> int:
        return len(self.sizes)

    def take(self, idx: IntArray) -> _Batch:
        return _Batch(
            [self.X[i] for i in idx],
            [self.sizes[i] for i in idx],
            [self.edges[i] for i in idx],
            None if self.features is None else [self.features[i] for i in idx],
        )

    def graphs(self, k: int) -> Graphs:
        return Graphs([_member(edges, n, k) for edges, n in zip(self.edges, self.sizes, strict=True)], k)


class GraphLabeler(Labeler):
    """A linear model of the labels of nodes of trees and graphs: roles in a parse, types of atoms, parts of a page.

    A labelling scores Σ_v ⟨W[y_v], x_v⟩ + Σ_e T[y_u, y_v] over nodes v and edges e = (u, v), with a weight for each feature
    and label and one for each pair of labels (or a table for each feature of edges). Training minimises the weighted mean
    of S(θ_i; y_i) + alpha/2 ‖w‖² over graphs; S is "adversarial", the adversarial loss of the cost, "crf", "hinge",
    "sparsemap", or "perceptron", the averaged perceptron. Graphs with loops should have a small treewidth (cycles, ladders,
    grids of three rows): an iteration costs O(nodes labels^(treewidth + 1)).

    ``X`` is a list with an item for each graph: ``(nodes, edges)``, or ``(nodes, edges, edge features)`` with
    ``edge_features="pairs"``. ``nodes`` is a dense array or a SciPy sparse matrix with a row for each node, or a list with a
    dict of features for each; ``edges`` is a list of pairs of nodes, whose order says which label is the table's row, so a
    tree is given by pairs (parent, child). ``y`` is a list with the labels of the nodes of each graph.

    Parameters
    ----------
    loss : {"adversarial", "crf", "hinge", "perceptron", "sparsemap"}, default="adversarial"
        What training minimises.
    cost : str, matrix, function or Cost, default="hamming"
        What a mistake costs: "hamming" counts wrong nodes, "absolute" and "squared_error" the distance of labels in their
        sorted order, a matrix C[answer, truth] is added up over nodes.
    edge_features : {"transition", "pairs"}, default="transition"
        One table of weights for all edges, or features of each edge with a table of weights for each.
    hashed, min_count : see :class:`SequenceLabeler`
    alpha : float or "cv", default=1e-3
        The strength of the ridge penalty on the mean loss; "cv" chooses it by five-fold cross-validation of the cost.
    strength : float, default=1.0
        Scales the regularizer (crf: the temperature, sparsemap).
    decode : {"auto", "potentials", "predictor", "expected_cost"}, default="auto"
        What ``predict`` answers: the labelling of highest score, the likeliest labels of what the model itself would play (its
        marginals, or the predictor's p* of the adversarial loss), or those of least expected cost under its marginals.
    fit_intercept, intercept_scaling, solver, tol, max_iter, early_stopping, validation_fraction, n_iter_no_change, warm_start,
    random_state, verbose : see :class:`SequenceLabeler`

    Attributes
    ----------
    classes_ : ndarray
        The labels, sorted.
    coef_, intercept_ : ndarray of shape (labels, features) and (labels,)
    edge_coef_ : ndarray
        The table of weights of edges, or one for each feature of edges.
    objective_, dual_gap_ : float
        The objective reached, and how far at most it is from the least one.

    References
    ----------
    Fathony, Rezaei, Bashiri, Zhang and Ziebart, "Distributionally robust graphical models", 2018; Lafferty, McCallum and
    Pereira, "Conditional random fields", 2001; Taskar, Guestrin and Koller, "Max-margin Markov networks", 2003.

    Examples
    --------
    >>> from fenchel import GraphLabeler
    >>> tree = [(0, 1), (0, 2)]
    >>> X = [([{"word": "sees"}, {"word": "Ada"}, {"word": "Bob"}], tree), ([{"word": "sees"}, {"word": "Bob"}], [(0, 1)])]
    >>> model = GraphLabeler(alpha=0.3, tol=0.01).fit(X, [["verb", "name", "name"], ["verb", "name"]])
    >>> model.predict([([{"word": "sees"}, {"word": "Eve"}], [(0, 1)])])
    [['verb', 'name']]
    """

    def __init__(
        self,
        loss: str = "adversarial",
        *,
        cost: Any = "hamming",
        edge_features: str = "transition",
        hashed: int | None = None,
        min_count: int = 1,
        alpha: float | str = 1e-3,
        strength: float = 1.0,
        decode: str = "auto",
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        solver: Any = "auto",
        tol: float = 1e-3,
        max_iter: Any = "auto",
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.loss = loss
        self.cost = cost
        self.edge_features = edge_features
        self.hashed = hashed
        self.min_count = min_count
        self.alpha = alpha
        self.strength = strength
        self.decode = decode
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    n_features_in_: int
    n_edge_features_: int
    encoder_: SequenceEncoder | None
    _batch: Any = None
    """What was read last."""
    _weights_of_nodes: list[Array] | None = None

    # -- inputs --------------------------------------------------------------------------------------------------------

    def _read(self, X: Any, *, fit: bool, more: bool = False) -> _Batch:
        wide = check_choice(self.edge_features, "edge_features", ("transition", "pairs")) == "pairs"
        if isinstance(X, str | bytes | dict) or not hasattr(X, "__iter__") or hasattr(X, "tocsr"):
            raise InvalidInput(f"X is {type(X).__name__}, expected a list with (nodes, edges) for each graph")
        items = list(X)
        expected = "(nodes, edges, edge features)" if wide else "(nodes, edges)"
        for i, item in enumerate(items):
            if not isinstance(item, tuple | list) or len(item) != 2 + wide:
                what = f"{len(item)} parts" if isinstance(item, tuple | list) else type(item).__name__
                raise InvalidInput(f"X of sample {i} is {what}, expected {expected}")
        nodes = [item[0] for item in items]
        if more and self.hashed is None and _has_dicts(nodes):
            raise InvalidInput("partial_fit of dicts of features needs hashed=N, a number of columns")
        if fit:
            self.encoder_ = SequenceEncoder(self.hashed, self.min_count) if _has_dicts(nodes) else None
        if self.encoder_ is not None:
            sizes: IntArray = np.array([len(item) for item in nodes], dtype=np.int64)
            rows = self.encoder_.fit_transform(nodes) if fit else self.encoder_.transform(nodes)
        else:
            rows, sizes = _stacked(nodes, "X", None if fit else self.n_features_in_)
        if fit:
            self.n_features_in_ = rows.shape[1]
        ends = np.concatenate([[0], np.cumsum(sizes)])
        edges = [_edges(item[1], i, int(sizes[i])) for i, item in enumerate(items)]
        features: list[Any] | None = None
        if wide:
            stacked, counts = _stacked(
                [item[2] for item in items], "the edges of X", None if fit else self.n_edge_features_
            )
            for i, (count, pairs) in enumerate(zip(counts.tolist(), edges, strict=True)):
                if count != len(pairs):
                    raise InvalidInput(f"X of sample {i} has {len(pairs)} edges but {count} rows of edge features")
            if fit:
                self.n_edge_features_ = stacked.shape[1]
            cuts = np.concatenate([[0], np.cumsum(counts)])
            features = [stacked[a:b] for a, b in pairwise(cuts)]
        # trees list their edges in the order of the children
        for i, pairs in enumerate(edges):
            order = _order_of_children(pairs, int(sizes[i]))
            edges[i] = pairs[order]
            if features is not None:
                features[i] = features[i][order]
        nodes = [rows[a:b] for a, b in pairwise(ends)]
        self._batch = _Batch(nodes, sizes.tolist(), edges, features)
        return self._batch

    def _check_sizes(self, batch: _Batch, y: Sequence[Any]) -> None:
        if len(batch) != len(y):
            raise InvalidInput(f"X has {len(batch)} graphs but y has {len(y)}")
        if len(y) == 0:
            raise InvalidInput("there are no graphs to learn from")
        for i, (size, labels) in enumerate(zip(batch.sizes, y, strict=True)):
            if len(labels) != size:
                raise InvalidInput(f"y of sample {i} has {len(labels)} labels, but X has {size} nodes there")

    # -- the model -----------------------------------------------------------------------------------------------------

    def fit(
        self: Self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        node_weights: Any = None,
        X_val: Any = None,
        y_val: Any = None,
    ) -> Self:
        """Train on graphs X and the labels y of their nodes.

        ``node_weights`` is a list with a weight for each node of each graph: how much a mistake there costs in training.
        """
        self._weights_of_nodes = (
            None if node_weights is None else [np.asarray(w, dtype=np.float64) for w in node_weights]
        )
        try:
            super().fit(X, y, sample_weight, X_val=X_val, y_val=y_val)
        finally:
            self._forget()
        return self

    def partial_fit(self: Self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from the graphs one by one, going on from what was learned before; the first call names all ``classes``."""
        try:
            super().partial_fit(X, y, classes, sample_weight)
        finally:
            self._forget()
        return self

    def _forget(self) -> None:
        """The model does not depend on the graphs it was trained on."""
        self._weights_of_nodes = self._batch = None
        if hasattr(self, "loss_"):
            self.loss_ = self._bound(self.loss_, Graphs([], len(self.classes_)))

    def _structure(self, k: int, loss: str) -> Graphs:
        return self._batch.graphs(k)

    def _set_up(self, classes: Array) -> Loss:
        """The loss of this batch: its graphs, and the weights of its nodes."""
        structure = self._batch.graphs(len(classes))
        cost = make_cost(self.cost)
        self.decoder_ = self._decoder(structure, cost, self._losses[self.loss](structure, cost, self.strength))
        if isinstance(self.decoder_, Calibrated):
            self.decoder_ = Calibrated(Graphs([], len(classes)), cost)
        if self._weights_of_nodes is not None:
            if len(self._weights_of_nodes) != len(self._batch):
                raise InvalidInput(
                    f"node_weights has {len(self._weights_of_nodes)} items, but X has {len(self._batch)} graphs"
                )
            cost = Weighted(cost, self._weights_of_nodes)
        return self._losses[self.loss](structure, cost, self.strength)

    @staticmethod
    def _bound(loss: Loss, graphs: Graphs) -> Loss:
        """The loss on other graphs; weights of the nodes of a training set stay behind."""
        changes: dict[str, Any] = {"structure": graphs}
        cost = getattr(loss, "cost", None)
        if isinstance(cost, Weighted) and cost.by_item:
            changes["cost"] = cost.cost
        made: Loss = dataclasses.replace(loss, **changes)  # type: ignore[type-var]
        return made

    def _scorer(self, X: _Batch, loss: Loss) -> LinearGraph:
        structure: Any = loss.structure
        if len(structure.members) != len(X):
            structure = X.graphs(structure.labels)
        scaling = check_finite_positive(self.intercept_scaling, "intercept_scaling") if self.fit_intercept else None
        return LinearGraph(
            _joined(X.X, self.n_features_in_),
            structure,
            edges=None if X.features is None else _joined(X.features, self.n_edge_features_),
            intercept_scaling=scaling,
        )

    def _loss_on(self, loss: Loss, batch: _Batch) -> Loss:
        return self._bound(loss, batch.graphs(len(self.classes_)))

    def _decoder_for(self, output: Output) -> Decoder:
        if isinstance(self.decoder_, Calibrated):
            return Calibrated(output.structure, self.decoder_.cost)
        return self.decoder_

    def _output(self, X: Any) -> Output:
        check_is_fitted(self)
        batch = self._read(X, fit=False)
        self._batch = None
        loss = self._loss_on(self.loss_, batch)
        return loss.output(self._scorer(batch, loss).scores(self.weights_))

    def predict_marginals(self, X: Any) -> list[Array]:  # type: ignore[override]
        """For each graph a row for each node with a column for each class: the model's μ, of the adversarial loss p*."""
        output = self._output(X)
        structure: Any = output.structure
        nodes = structure.position_marginals(structure.as_rows(output.predictor, "marginals")[0])
        ends = np.cumsum(structure.plan.n_nodes)
        return np.split(nodes, ends[:-1]) if len(ends) else []

    @property
    def coef_(self) -> Array:
        """The weights of the features of nodes, a row for each label."""
        w = self._node_weights()
        return (w[:-1] if self.fit_intercept else w).T

    @property
    def intercept_(self) -> Array:
        """The intercept of each label (zeros without ``fit_intercept``)."""
        w = self._node_weights()
        return w[-1] * self.intercept_scaling if self.fit_intercept else np.zeros(w.shape[1])

    @property
    def edge_coef_(self) -> Array:
        """The weights of edges: a table for the labels of their two nodes, or one for each feature."""
        k = len(self.classes_)
        tables = self._fitted_weights()[self._node_weights().size :]
        return tables.reshape((k, k) if self.edge_features == "transition" else (-1, k, k))

    def _node_weights(self) -> Array:
        rows = self.n_features_in_ + bool(self.fit_intercept)
        k = len(self.classes_)
        return self._fitted_weights()[: rows * k].reshape(rows, k)


# -- reading graphs ----------------------------------------------------------------------------------------------------


def _edges(value: Any, i: int, n: int) -> IntArray:
    """The edges of a graph as an array of pairs."""
    try:
        pairs = np.asarray(value if hasattr(value, "shape") else list(value))
    except (TypeError, ValueError):
        raise InvalidInput(f"the edges of X of sample {i} are {value!r}, expected pairs of nodes") from None
    if pairs.size == 0:
        return np.zeros((0, 2), np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise InvalidInput(
            f"the edges of X of sample {i} have shape {pairs.shape} and type {pairs.dtype}, expected pairs of node numbers"
        )
    if pairs.min() < 0 or pairs.max() >= n:
        raise InvalidInput(f"the edges of X of sample {i} name nodes {pairs.min()} to {pairs.max()}, but it has {n}")
    return pairs.astype(np.int64)


def _parents(edges: IntArray, n: int) -> IntArray | None:
    """The parent of each node where edges (parent, child) make a forest, else None."""
    if len(np.unique(edges[:, 1])) < len(edges) or len(edges) >= max(n, 1):
        return None
    parents = np.full(n + 1, n)  # node n is above all roots
    parents[edges[:, 1]] = edges[:, 0]
    above = parents
    for _ in range(max(n, 1).bit_length()):
        above = above[above]
    return np.where(parents[:n] == n, -1, parents[:n]) if (above == n).all() else None


def _order_of_children(edges: IntArray, n: int) -> IntArray:
    return np.arange(len(edges)) if _parents(edges, n) is None else np.argsort(edges[:, 1], kind="stable")


def _member(edges: IntArray, n: int, k: int) -> Forest | Graph:
    parents = _parents(edges, n)
    if parents is not None:
        return Forest(tuple(parents.tolist()), k)
    return Graph(tuple((int(a), int(b)) for a, b in edges), k, n)


def _joined(parts: list[Any], width: int) -> Any:
    """Rows of all parts, one after the other."""
    if any(hasattr(part, "tocsr") for part in parts):
        from scipy.sparse import vstack

        return vstack(parts, format="csr")
    return np.concatenate(parts) if parts else np.zeros((0, width))
