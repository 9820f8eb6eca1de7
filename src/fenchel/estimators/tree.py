"""Trees over the nodes of each input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from .._core.checks import check_choice, check_finite_positive
from .._core.errors import InvalidInput
from .._core.types import Array, IntArray
from ..costs.base import affine_form
from ..costs.hamming import Hamming
from ..decoders.calibrated import Calibrated
from ..decoders.likeliest import Likeliest
from ..decoders.map import MAP
from ..losses.adversarial import Adversarial
from ..losses.base import Loss, Output
from ..losses.fenchel_young import FenchelYoung
from ..losses.head_selection import HeadSelection
from ..losses.margin import Hinge
from ..losses.minimum_risk import MinimumRisk
from ..losses.named import CRF
from ..losses.softmax_margin import SoftmaxMargin
from ..scorers.base import Scorer
from ..scorers.pairs import Pairs
from ..structures.ragged import Family
from ..structures.spanning_tree import SpanningTree, SpanningTrees
from ..structures.tree import Arborescences, DependencyTrees
from .base import LinearEstimator

__all__ = ["TreePredictor"]

_LOSSES = ("crf", "softmax-margin", "head-selection", "minimum-risk", "adversarial", "hinge", "sparsemap")
_KINDS = ("single_root", "multi_root", "undirected")
_DECODINGS = ("risk", "weights")


class TreePredictor(LinearEstimator):
    """A linear model of trees: parses, hierarchies, networks, from features of nodes or of arcs.

    A tree scores Σ ⟨w, x_a⟩ over its arcs a. Training minimises the mean of S(θ; y) + alpha/2 ‖w‖² (or alpha ‖w‖); S is the
    loss of a conditional random field ("crf"), the same with the number of wrong arcs added to the scores ("softmax-margin"),
    the expected number of wrong arcs of a draw from the field ("minimum-risk", which is not convex: it starts at the
    field's weights and ends where it is flat), the cross-entropy of each node's head by itself ("head-selection",
    directed), the adversarial loss of the number of wrong arcs, whose minimiser gives Bayes-optimal answers where scores can
    be anything ("adversarial"), the structured hinge ("hinge") or SparseMAP ("sparsemap").

    ``X`` is a list with an item for each tree, of any sizes. An item is an array (n, a) of features of its nodes, from which
    arcs get the products of all pairs of a feature of the head and one of the other node, constants among them (that of the
    root is another than that of nodes); or an array of features of arcs, (n, n + 1, d): row i, column h for the arc from head
    h to node i + 1, 0 for the root. Undirected trees have node features, whose products are made symmetric, or arcs
    (n, n, d), symmetric. An arc whose features are all NaN is in no tree. ``y`` is a list of heads for each node, 0 for the
    root and h for node h; for undirected trees of edges (n − 1, 2) between nodes 0 to n − 1.

    Parameters
    ----------
    loss : {"crf", "softmax-margin", "head-selection", "minimum-risk", "adversarial", "hinge", "sparsemap"}, default="crf"
        What training minimises.
    kind : {"single_root", "multi_root", "undirected"}, default="single_root"
        Whether one node hangs on the root, any number, or arcs have no direction.
    decoding : {"risk", "weights"}, default="risk"
        Answer with the tree of least expected number of wrong arcs under the model's marginals, or with that of highest
        score.
    alpha : float, function or "cv", default=1e-3
        The strength of the penalty on the mean loss, or a function of the number of trees that gives it (as
        ``lambda m: m**-0.25``); "cv" chooses it by five-fold cross-validation of wrong arcs.
    penalty : {"l2", "norm"}, default="l2"
        alpha/2 ‖w‖², or alpha ‖w‖: with the adversarial loss alpha is then the radius of the ball of moments, by how much
        the adversary may move the mean features of the training trees. Both have the same solutions, for other alphas.
    strength : float, default=1.0
        Scales the regularizer of "crf", "minimum-risk" and "sparsemap": larger values make softer predictions.
    solver : {"auto", "lbfgs", "bcfw", ...} or Solver, default="auto"
        How weights are found: "auto" is L-BFGS for losses without kinks, else the bundle method.
    tol : float, default=1e-4
        Training stops when the duality gap is below ``tol`` times the objective.
    max_iter : int, default=1000
        Most iterations.
    warm_start : bool, default=False
        Go on from the weights of the last ``fit``.
    random_state : int, Generator or None, default=None
        For solvers that draw examples.
    verbose : int, default=0
        Print every ``verbose``-th iteration to standard error.

    Attributes
    ----------
    coef_ : ndarray of shape (d,)
        The weights of the features of arcs.
    objective_, dual_gap_ : float
        The objective reached, and how far at most it is from the least one (infinity with "minimum-risk": no bound is known).

    References
    ----------
    Li, Saeed, Zhang, Ziebart and Gimpel, "Moment distributionally robust tree structured prediction", 2022; Koo, Globerson,
    Carreras and Collins, "Structured prediction models via the matrix-tree theorem", 2007.

    Examples
    --------
    Each node hangs on the node that is next larger, the largest on the root:

    >>> import numpy as np
    >>> from fenchel import TreePredictor
    >>> rng = np.random.default_rng(0)
    >>> def arcs(size):  # features of the arc from h to i: how much larger h is, and that squared
    ...     above = np.concatenate([[6.0], size])[None, :] - size[:, None]
    ...     return np.stack([above, above**2, above > 0], axis=2)
    >>> sizes = [rng.normal(size=rng.integers(2, 6)) for _ in range(30)]
    >>> def heads(size):
    ...     return [int(np.argmin(np.where(size > s, size, np.inf))) + 1 if s < size.max() else 0 for s in size]
    >>> model = TreePredictor().fit([arcs(s) for s in sizes], [heads(s) for s in sizes])
    >>> model.predict([arcs(np.array([0.3, 2.0, 1.0]))])
    [array([3, 0, 2])]
    """

    kernel: Any = None
    kernel_params: Any = None
    decoder_: Any

    def __init__(
        self,
        loss: str = "crf",
        *,
        kind: str = "single_root",
        decoding: str = "risk",
        alpha: Any = 1e-3,
        penalty: str = "l2",
        strength: float = 1.0,
        solver: Any = "auto",
        tol: float = 1e-4,
        max_iter: int = 1000,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.loss = loss
        self.kind = kind
        self.decoding = decoding
        self.alpha = alpha
        self.penalty = penalty
        self.strength = strength
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    # -- training ------------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> TreePredictor:
        """Train on items and their trees."""
        check_choice(self.loss, "loss", _LOSSES)
        check_choice(self.kind, "kind", _KINDS)
        check_choice(self.decoding, "decoding", _DECODINGS)
        check_finite_positive(self.strength, "strength")
        self.from_nodes_: bool | None = None
        arcs = self._read(X)
        if not arcs:
            raise InvalidInput("there are no trees to learn from")
        self.n_features_in_ = arcs[0].shape[2]
        structure = self._family()
        truths = structure.encode(self._outputs(y, arcs))
        loss = self._make_loss(structure)
        plain = self.decoding == "weights" or self.loss == "hinge"
        # the adversary's q makes many trees cost the same; what the model would answer is the predictor's p*
        fair = Likeliest() if isinstance(loss, Adversarial) else Calibrated(structure, Hamming())
        self.decoder_ = MAP() if plain else fair
        self._train(arcs, truths, loss, None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64))
        return self

    def _make_loss(self, structure: Family) -> Loss:
        if self.loss == "adversarial":
            return Adversarial(structure, Hamming())
        if self.loss == "hinge":
            return Hinge(structure, Hamming())
        if self.loss == "softmax-margin":
            return SoftmaxMargin(structure, Hamming())
        if self.loss == "head-selection":
            return HeadSelection(structure)
        if self.loss == "minimum-risk":
            return MinimumRisk(structure, Hamming(), self.strength)
        if self.loss == "sparsemap":
            return FenchelYoung(structure, "euclidean", self.strength)
        return CRF(structure, self.strength)

    def _scorer(self, X: Any, loss: Loss) -> Scorer:
        return Pairs(X)

    def _training_scorer(self, X: Any, loss: Loss) -> Scorer:
        return Pairs(X)

    def _default_solver(self, loss: Loss) -> str:
        # the bundle method plays each game a few dozen times, block-coordinate steps hundreds of times
        return super()._default_solver(loss) if loss.differentiable else "bundle"

    def _answer_costs(self, loss: Loss, output: Output, v: Any) -> Array:
        costs = affine_form(Hamming(), loss.structure, loss.structure).value(self.decoder_.vertices(output), v)
        return np.asarray(costs / np.array([self._size(s) for s in v.sizes]))

    def _size(self, numbers: int) -> int:
        """The number of arcs of a tree of so many scores."""
        return int(self._family().member(numbers).max_l1) or 1

    def _family(self) -> Family:
        return {"single_root": DependencyTrees(), "multi_root": Arborescences(), "undirected": SpanningTrees()}[
            self.kind
        ]

    # -- use -----------------------------------------------------------------------------------------------------------

    def predict(self, X: Any) -> list[IntArray]:
        """The heads of the nodes of each item, or the edges of undirected trees."""
        output = self._output(X)
        if output is None:
            return []
        outputs = list(self.decoder_.decode(output))
        if self.kind != "undirected":
            return outputs
        return [SpanningTrees().member(len(bits)).edges(bits) for bits in outputs]

    def predict_marginals(self, X: Any) -> list[Array]:  # type: ignore[override]
        """The probability of each arc, (n, n + 1) for each item, or (n, n), symmetric, for undirected trees.

        For the adversarial loss those of the predictor's p*.
        """
        output = self._output(X)
        if output is None:
            return []
        structure: Any = output.structure
        points = structure.unpacked(structure.as_rows(output.predictor, "marginals")[0])
        if self.kind == "undirected":
            return [structure.member(mu.size).unpack(mu) for mu in points]
        return list(points)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The mean share of arcs that are right."""
        arcs = self._read(X)
        truths = self._outputs(y, arcs)
        shares = []
        for answer, truth in zip(self.predict(X), truths, strict=True):
            if self.kind == "undirected":
                tree = SpanningTrees().member(len(truth))
                right = float(tree.from_edges(answer) @ np.asarray(truth)) / max(tree.n - 1, 1) if tree.n > 1 else 1.0
            else:
                right = float(np.mean(np.asarray(answer) == np.asarray(truth)))
            shares.append(right)
        return float(np.average(shares, weights=sample_weight)) if shares else float("nan")

    def _output(self, X: Any) -> Any:
        check_is_fitted(self)
        arcs = self._read(X)
        for i, x in enumerate(arcs):
            if x.shape[2] != self.n_features_in_:
                raise InvalidInput(
                    f"X of sample {i} gives arcs {x.shape[2]} features, but in training they had {self.n_features_in_}"
                )
        return self.loss_.output(Pairs(arcs).scores(self.weights_)) if arcs else None

    @property
    def coef_(self) -> Array:
        """The weights of the features of arcs."""
        return self._fitted_weights()

    @property
    def intercept_(self) -> Array:
        raise AttributeError("TreePredictor has no intercept: all trees of an item have as many arcs")

    # -- reading inputs ------------------------------------------------------------------------------------------------

    def _read(self, X: Any) -> list[Array]:
        """For each item features (rows, columns, d), one row and column for each score of its structure."""
        if X is None or isinstance(X, str | bytes | dict) or not hasattr(X, "__iter__"):
            raise InvalidInput(f"X is {type(X).__name__}, expected a list with an array of features for each tree")
        arcs: list[Array] = []
        for i, given in enumerate(X):
            try:
                x = np.asarray(given, dtype=np.float64)
            except (TypeError, ValueError):
                raise InvalidInput(f"X of sample {i} is no array of numbers") from None
            if x.ndim not in (2, 3) or len(x) == 0:
                raise InvalidInput(
                    f"X of sample {i} has shape {x.shape}, expected features of nodes (n, a) or of arcs "
                    + ("(n, n, d)" if self.kind == "undirected" else "(n, n + 1, d)")
                )
            from_nodes = x.ndim == 2
            if self.from_nodes_ is None:
                self.from_nodes_ = from_nodes
            if from_nodes != self.from_nodes_:
                raise InvalidInput(f"X of sample {i} has features of {'nodes' if from_nodes else 'arcs'}, others not")
            if (
                np.isinf(x) | (np.isnan(x) if from_nodes else np.isnan(x) != np.isnan(x).all(axis=-1, keepdims=True))
            ).any():
                raise InvalidInput(f"X of sample {i} holds infinity or NaN (an arc that is none has all features NaN)")
            x = self._undirected(x, i) if self.kind == "undirected" else self._directed(x, i)
            if arcs and x.shape[2] != arcs[0].shape[2]:
                raise InvalidInput(f"X of sample {i} gives arcs {x.shape[2]} features, but sample 0 {arcs[0].shape[2]}")
            arcs.append(x)
        return arcs

    @staticmethod
    def _directed(x: Array, i: int) -> Array:
        n = len(x)
        if x.ndim == 2:
            words = np.concatenate([x, np.ones((n, 1))], axis=1)
            heads = np.zeros((n + 1, words.shape[1] + 1))
            heads[0, -1] = 1.0
            heads[1:, :-1] = words
            return np.einsum("ha,mb->mhab", heads, words).reshape(n, n + 1, -1)
        if x.shape[1] != n + 1:
            raise InvalidInput(f"X of sample {i} has shape {x.shape}, but {n} nodes have arcs ({n}, {n + 1}, features)")
        return x

    @staticmethod
    def _undirected(x: Array, i: int) -> Array:
        n = len(x)
        first, second = SpanningTree(n)._pairs
        if x.ndim == 2:
            nodes = np.concatenate([x, np.ones((n, 1))], axis=1)
            products = nodes[first][:, :, None] * nodes[second][:, None, :]
            upper = np.triu_indices(nodes.shape[1])
            return (products + products.swapaxes(1, 2))[:, upper[0], upper[1]][:, None, :]
        if x.shape[1] != n or not np.array_equal(x, x.swapaxes(0, 1), equal_nan=True):
            raise InvalidInput(f"X of sample {i} has shape {x.shape}, expected symmetric features ({n}, {n}, features)")
        return x[first, second][:, None, :]

    def _outputs(self, y: Any, arcs: Sequence[Array]) -> list[IntArray]:
        if y is None or not hasattr(y, "__len__") or len(y) != len(arcs):
            count = "nothing" if y is None or not hasattr(y, "__len__") else f"{len(y)} trees"
            raise InvalidInput(f"X has {len(arcs)} items but y has {count}")
        found = []
        for i, (given, x) in enumerate(zip(y, arcs, strict=True)):
            try:
                if self.kind == "undirected":
                    tree = SpanningTrees().member(len(x))
                    found.append(tree.from_edges(given))
                    continue
                heads = np.asarray(given)
                if heads.shape != (len(x),):
                    raise InvalidInput(f"there are {len(x)} nodes, but heads have shape {heads.shape}")
            except InvalidInput as error:
                raise InvalidInput(f"y of sample {i}: {error}") from None
            found.append(heads)
        return found

    def __sklearn_tags__(self) -> Any:
        tags = BaseEstimator.__sklearn_tags__(self)
        tags.input_tags.two_d_array = False
        tags.target_tags.required = True
        tags.target_tags.one_d_labels = False
        tags.no_validation = True
        return tags
