"""A label for each position of a sequence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.checks import check_choice, check_finite_positive
from .._core.errors import InvalidInput
from .._core.ragged import Ragged, offsets_of
from .._core.types import Array, IntArray
from ..data.sequences import SequenceEncoder
from ..losses.base import Loss
from ..losses.named import CRF
from ..scorers.cells import cells_met
from ..scorers.linear_chain import LinearChain
from ..solvers.lbfgs import LBFGS
from ..structures.chain import Chains
from .labeler import Labeler

__all__ = ["SequenceLabeler"]

_EDGES = ("transition", "pairs")
_ROUGHLY = 0.1


@dataclass(frozen=True)
class _Sequences:
    """A batch of inputs: the rows of all positions, and of all pairs of neighbours where these have features."""

    X: Any
    lengths: IntArray
    pairs: Any = None

    def __len__(self) -> int:
        return len(self.lengths)

    def take(self, idx: IntArray) -> _Sequences:
        rows = Ragged(np.zeros(0), offsets_of(self.lengths)).places(idx)
        pairs = self.pairs
        if pairs is not None:
            pairs = pairs[Ragged(np.zeros(0), offsets_of(np.maximum(self.lengths - 1, 0))).places(idx)]
        return _Sequences(self.X[rows], self.lengths[idx], pairs)


class SequenceLabeler(Labeler):
    """A linear model of label sequences: words and their parts of speech, letters of a word, states over time.

    A labelling scores Σ_t ⟨W[y_t], x_t⟩ + Σ_t T[y_t, y_{t+1}], with a weight for each feature and label and for each
    transition. Training minimises the weighted mean of S(θ_i; y_i) + alpha/2 ‖w‖² over sequences, transitions penalised
    like the rest; S is the loss of a conditional random field ("crf"), the structured hinge with the cost added to the scores
    ("hinge"), the SparseMAP loss ("sparsemap"), or the adversarial loss of the cost ("adversarial", for costs that add up over
    positions); "perceptron" is the averaged perceptron. ``predict`` answers with the
    labels of least expected cost under the model's marginals (crf, sparsemap), or with the best scoring labelling (hinge,
    adversarial, perceptron, and everywhere with ``cost="zero_one"``, which counts whole sequences); see ``decode``. An
    iteration costs one product with the features and O(labels²) for each position (adversarial: O(labels³)).

    ``X`` is a list with an item for each sequence: a dense array or a SciPy sparse matrix with a row for each position, or a
    list with a dict of features for each position, as sklearn-crfsuite takes them
    (:func:`~fenchel.data.sequences.features_of`). ``y`` is a list of label sequences; labels are texts or numbers.

    Parameters
    ----------
    loss : {"crf", "hinge", "perceptron", "sparsemap", "adversarial"}, default="crf"
        What training minimises.
    cost : str, matrix, function or Cost, default="hamming"
        What a mistake costs. "hamming" counts wrong positions, "absolute" and "squared_error" the distance of labels in
        their sorted order, a matrix C[answer, truth] is added up over positions, ``fenchel.costs.Weighted`` weighs
        positions, and "zero_one" counts wrong sequences.
    edge_features : {"transition", "pairs"} or array of shape (m, labels, labels), default="transition"
        What the scores of neighbouring labels are made of: one weight for each transition; features of each pair
        of neighbours, with a table of weights for each feature (items of X are then pairs of arrays, (positions, pairs), with
        one row less in the second); or fixed tables with one weight each, for labels in sorted order.
    constraints : "BIO", matrix of bool or None, default=None
        Which labels may follow each other, for training and prediction: "BIO" lets I-x follow B-x and I-x only; a matrix
        allowed[before, after] for labels in sorted order, with another row at its end that says which labels may come first.
    hashed : int or None, default=None
        For dicts of features: hash their names to that many columns, in place of a column for each name met in training.
    min_count : int, default=1
        For dicts of features: leave out names met fewer times in training.
    weights : {"all", "met"}, default="all"
        Which features have weights for which labels: all for all, or only for labels that they were met with in training, as
        CRFsuite has it by default; for sparse features, where it saves most of the memory.
    alpha : float or "cv", default=1e-3
        The strength of the ridge penalty on the mean loss; "cv" chooses it by five-fold cross-validation of the cost. CRFsuite's
        ``c2`` is alpha · sequences / 2.
    strength : float, default=1.0
        Scales the regularizer (crf: the temperature, sparsemap): larger values make softer predictions.
    decode : {"auto", "potentials", "predictor", "expected_cost"}, default="auto"
        What ``predict`` answers: the labelling of highest score, the likeliest labels of what the model itself would play (its
        marginals, or the predictor's p* of the adversarial loss), or those of least expected cost under its marginals.
    fit_intercept : bool, default=True
        Add a feature of the value ``intercept_scaling`` to each position, penalised like the others.
    intercept_scaling : float, default=1.0
        The value of that feature.
    solver : {"auto", "lbfgs", "bcfw", "perceptron"} or Solver, default="auto"
        How weights are found; "auto" takes L-BFGS for crf and sparsemap, block-coordinate Frank-Wolfe for the hinge.
    tol : float, default=1e-4
        Training stops when the duality gap is below ``tol`` times the objective.
    max_iter : int or "auto", default="auto"
        Most iterations (passes, for "bcfw" and "perceptron"): 1000, for the perceptron 20.
    early_stopping : bool, default=False
        Hold out a share of the sequences, stop when their mean cost no longer falls, and keep the best weights.
    validation_fraction : float, default=0.1
        That share.
    n_iter_no_change : int, default=10
        Iterations without a lower cost before training stops.
    warm_start : bool, default=False
        Go on from the weights of the last ``fit``.
    random_state : int, Generator or None, default=None
        For solvers that draw examples, and for the choice of held-out sequences.
    verbose : int, default=0
        Print every ``verbose``-th iteration to standard error.

    Attributes
    ----------
    classes_ : ndarray
        The labels, sorted.
    encoder_ : SequenceEncoder or None
        What made dicts of features into columns.
    coef_, intercept_ : ndarray of shape (labels, features) and (labels,)
    objective_, dual_gap_ : float
        The objective reached, and how far at most it is from the least one (NaN for the perceptron).
    held_out_costs_ : ndarray
        With early stopping, the mean cost on held-out sequences after each iteration.

    References
    ----------
    Lafferty, McCallum and Pereira, "Conditional random fields", 2001; Taskar, Guestrin and Koller, "Max-margin Markov
    networks", 2003; Collins, "Discriminative training methods for hidden Markov models", 2002; Niculae, Martins, Blondel
    and Cardie, "SparseMAP: differentiable sparse structured inference", 2018; Fathony, Rezaei, Bashiri, Zhang and Ziebart,
    "Distributionally robust graphical models", 2018.

    Examples
    --------
    >>> from fenchel import SequenceLabeler
    >>> X = [[{"word": "Ada"}, {"word": "likes"}, {"word": "Rome"}], [{"word": "Rome"}, {"word": "likes"}, {"word": "Ada"}]]
    >>> y = [["PER", "O", "LOC"], ["LOC", "O", "PER"]]
    >>> model = SequenceLabeler(alpha=0.01).fit(X, y)
    >>> model.predict([[{"word": "Ada"}, {"word": "likes"}, {"word": "Ada"}]])
    [['PER', 'O', 'PER']]
    >>> model.predict_marginals([[{"word": "Rome"}]])[0].round(1)  # columns: LOC, O, PER
    array([[0.9, 0. , 0. ]])
    """

    def __init__(
        self,
        loss: str = "crf",
        *,
        cost: Any = "hamming",
        edge_features: Any = "transition",
        constraints: Any = None,
        hashed: int | None = None,
        min_count: int = 1,
        weights: str = "all",
        alpha: float | str = 1e-3,
        strength: float = 1.0,
        decode: str = "auto",
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        solver: Any = "auto",
        tol: float = 1e-4,
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
        self.constraints = constraints
        self.hashed = hashed
        self.min_count = min_count
        self.weights = weights
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
    n_pair_features_: int
    encoder_: SequenceEncoder | None
    cells_: IntArray | None

    # -- inputs --------------------------------------------------------------------------------------------------------

    def _read(self, X: Any, *, fit: bool, more: bool = False) -> _Sequences:
        items = _items(X)
        if isinstance(self.edge_features, str):
            check_choice(self.edge_features, "edge_features", _EDGES)
        pairs: list[Any] | None = None
        if isinstance(self.edge_features, str) and self.edge_features == "pairs":
            items, pairs = _nodes_and_pairs(items)
        if more and self.hashed is None and _has_dicts(items):
            raise InvalidInput(
                "partial_fit of dicts of features needs hashed=N, a number of columns: names that come later have none else"
            )
        if fit:
            self.encoder_ = SequenceEncoder(self.hashed, self.min_count) if _has_dicts(items) else None
        if self.encoder_ is not None:
            lengths: IntArray = np.array([len(item) for item in items], dtype=np.int64)
            rows = self.encoder_.fit_transform(items) if fit else self.encoder_.transform(items)
        else:
            rows, lengths = _stacked(items, "X", None if fit else self.n_features_in_)
        if self.weights == "met" and not isinstance(rows, np.ndarray):
            single = rows.data.astype(np.float32)
            if (single == rows.data).all():  # counts and zeros and ones are: a third of the memory less
                rows.data = single
        if fit:
            self.n_features_in_ = rows.shape[1]
        if pairs is None:
            return _Sequences(rows, lengths)
        pair_rows, counts = _stacked(pairs, "the pairs of X", None if fit else self.n_pair_features_)
        wrong = np.flatnonzero(counts != np.maximum(lengths - 1, 0))
        if len(wrong):
            i = int(wrong[0])
            raise InvalidInput(
                f"the pairs of X of sample {i} have {counts[i]} rows, but there are {lengths[i]} positions, so "
                f"{max(lengths[i] - 1, 0)} pairs of neighbours"
            )
        if fit:
            self.n_pair_features_ = pair_rows.shape[1]
        return _Sequences(rows, lengths, pair_rows)

    def _check_sizes(self, batch: _Sequences, y: Sequence[Any]) -> None:
        if len(batch) != len(y):
            raise InvalidInput(f"X has {len(batch)} sequences but y has {len(y)}")
        if len(y) == 0:
            raise InvalidInput("there are no sequences to learn from")
        for i, (length, labels) in enumerate(zip(batch.lengths.tolist(), y, strict=True)):
            if len(labels) != length:
                raise InvalidInput(f"y of sample {i} has {len(labels)} labels, but X has {length} positions there")

    # -- the model -----------------------------------------------------------------------------------------------------

    def _structure(self, k: int, loss: str) -> Chains:
        # half the squared norm of transition counts is another regularizer than that of pairs, which is meant
        return Chains(k, tied=loss != "sparsemap" and not self._has_pairs)

    @property
    def _has_pairs(self) -> bool:
        return isinstance(self.edge_features, str) and self.edge_features == "pairs"

    def _scorer(self, X: _Sequences, loss: Loss) -> LinearChain:
        scaling = check_finite_positive(self.intercept_scaling, "intercept_scaling") if self.fit_intercept else None
        return LinearChain(
            X.X,
            X.lengths,
            loss.structure,  # type: ignore[arg-type]
            pairs=X.pairs,
            basis=None if isinstance(self.edge_features, str) else self.edge_features,
            intercept_scaling=scaling,
            cells=self.cells_,
            forbidden=self._forbidden(),
        )

    def _meet(self, batch: _Sequences, labels: Ragged) -> None:
        self.cells_ = None
        if check_choice(self.weights, "weights", ("all", "met")) == "met":
            if isinstance(batch.X, np.ndarray):
                raise InvalidInput("weights='met' is for sparse features or dicts; X holds dense arrays")
            self.cells_ = cells_met(batch.X, labels.flat, len(self.classes_))

    def _first_weights(self, X: Any, v: Any, loss: Loss, sample_weight: Array | None) -> Array | None:
        """For SparseMAP those of a roughly trained CRF: near zero weights marginals are dense, and projections slow."""
        if self.loss != "sparsemap":
            return None
        chains = Chains(len(self.classes_), tied=not self._has_pairs)
        truths = v if not chains.tied else chains.encode(loss.structure.decode(v))
        result = LBFGS(tol=_ROUGHLY, max_iter=100).minimize(
            self._scorer(X, CRF(chains)), CRF(chains), truths, self.alpha_, sample_weight=sample_weight,
            callback=lambda progress: progress.gap <= _ROUGHLY * progress.value,
        )  # fmt: skip
        return result.w * self.strength

    def _forbidden(self) -> tuple[Array, Array] | None:
        """Labels that may not come first, and pairs that may not follow each other."""
        if self.constraints is None:
            return None
        k = len(self.classes_)
        if isinstance(self.constraints, str):
            check_choice(self.constraints, "constraints", ("BIO",))
            return bio_constraints(self.classes_.tolist())
        allowed = np.asarray(self.constraints)
        if allowed.shape not in ((k, k), (k + 1, k)) or allowed.dtype != bool:
            raise InvalidInput(
                f"constraints has shape {allowed.shape} and type {allowed.dtype}, expected 'BIO' or a matrix of booleans "
                f"({k}, {k}), with another row for the first label if need be"
            )
        first = ~allowed[k] if len(allowed) > k else np.zeros(k, dtype=bool)
        return first, ~allowed[:k]

    def _check_allowed(self, labels: Ragged) -> None:
        masks = self._forbidden()
        if masks is None:
            return
        first, barred = masks
        flat = labels.flat
        starts = labels.offsets[:-1][labels.sizes > 0]
        bad = np.zeros(flat.size, dtype=bool)
        bad[1:] = barred[flat[:-1], flat[1:]]
        bad[starts] = first[flat[starts]]
        if bad.any():
            i, (t,) = labels.item_of(int(bad.argmax()))
            label, before = self.classes_[labels[i][t]], "comes first" if t == 0 else ""
            after = before or f"follows {self.classes_[labels[i][t - 1]]!r}"
            raise InvalidInput(
                f"y of sample {i} has {label!r} at position {t}, which {after}; constraints={self.constraints!r} forbids that. "
                "Correct the labels, or leave constraints out"
            )

    def _label_counts(self, rows: Any) -> IntArray:
        return self.loss_.structure.lengths_of(rows)  # type: ignore[attr-defined]

    # -- what was learned ----------------------------------------------------------------------------------------------

    def transition_table(self) -> Array:
        """The score of each transition, T[before, after] in the order of ``classes_``; -inf where it is forbidden."""
        self._fitted_weights()
        if self._has_pairs:
            raise InvalidInput(
                "with edge_features='pairs' the scores of transitions depend on the pair; see pair_coef_"
            )
        return np.array(self._empty_scorer().table(self.weights_))

    def top_features(self, n: int = 10, label: Any = None) -> list[tuple[str, Any, float]]:
        """The n features of largest weight in absolute value, as (feature, label, weight); of one label, if it is named."""
        names, weights = self._feature_names(), self.coef_
        if label is not None:
            found = np.flatnonzero(self.classes_ == label)
            if not len(found):
                raise InvalidInput(f"label is {label!r}, expected one of {self.classes_.tolist()}")
            rows = found
        else:
            rows = np.arange(len(self.classes_))
        chosen = weights[rows]
        order = np.argsort(-np.abs(chosen), axis=None, kind="stable")[:n]
        at, column = np.unravel_index(order, chosen.shape)
        labels = self.classes_[rows[at]].tolist()
        return [(str(names[j]), y, float(w)) for j, y, w in zip(column, labels, chosen[at, column], strict=True)]

    def _feature_names(self) -> Array:
        if self.encoder_ is not None:
            return self.encoder_.get_feature_names_out()
        return np.array([f"x{j}" for j in range(self.n_features_in_)], dtype=object)

    def _empty_scorer(self) -> LinearChain:
        pairs = np.zeros((0, self.n_pair_features_)) if self._has_pairs else None
        X: Any = np.zeros((0, self.n_features_in_))
        if self.cells_ is not None:
            from scipy.sparse import csr_matrix

            X = csr_matrix(X.shape)
        return self._scorer(_Sequences(X, np.zeros(0, np.int64), pairs), self.loss_)

    def _node_weights(self) -> Array:
        w = self._fitted_weights()
        return self._empty_scorer().split(w)[0]

    @property
    def coef_(self) -> Array:
        """The weights of the features of positions, a row for each label."""
        w = self._node_weights()
        return (w[:-1] if self.fit_intercept else w).T

    @property
    def intercept_(self) -> Array:
        """The intercept of each label (zeros without ``fit_intercept``)."""
        w = self._node_weights()
        return w[-1] * self.intercept_scaling if self.fit_intercept else np.zeros(w.shape[1])

    @property
    def pair_coef_(self) -> Array:
        """With ``edge_features="pairs"``: a table of transition weights for each feature of pairs."""
        w = self._fitted_weights()
        if not self._has_pairs:
            raise AttributeError("there are no features of pairs; see transition_table()")
        return self._empty_scorer().split(w)[1]


def bio_constraints(labels: Sequence[Any]) -> tuple[Array, Array]:
    """Which of these labels may not come first, and which pairs (before, after) may not be: I-x follows B-x or I-x only.

    >>> from fenchel.estimators.tag import bio_constraints
    >>> first, pairs = bio_constraints(["B-x", "I-x", "O"])
    >>> first, pairs[2]
    (array([False,  True, False]), array([False,  True, False]))
    """
    for label in labels:
        if not (isinstance(label, str) and (label == "O" or label[:2] in ("B-", "I-"))):
            raise InvalidInput(f"constraints='BIO' needs labels 'O', 'B-x' and 'I-x', but y holds {label!r}")
    inside = np.array([label[:2] == "I-" for label in labels])
    kind = np.array([label[2:] if label != "O" else None for label in labels], dtype=object)
    return inside, inside[None, :] & (kind[:, None] != kind[None, :])


# -- reading inputs ----------------------------------------------------------------------------------------------------


def _items(X: Any) -> list[Any]:
    if isinstance(X, str | bytes | Mapping) or not hasattr(X, "__iter__") or hasattr(X, "tocsr"):
        raise InvalidInput(
            f"X is {type(X).__name__}, expected a list of sequences: arrays with a row for each position, or lists of dicts"
        )
    return list(X)


def _nodes_and_pairs(items: list[Any]) -> tuple[list[Any], list[Any]]:
    for i, item in enumerate(items):
        if not isinstance(item, tuple | list) or len(item) != 2 or any(isinstance(x, Mapping) for x in item):
            raise InvalidInput(
                f"X of sample {i} is {type(item).__name__}, but with edge_features='pairs' it is a pair: features of "
                "positions, features of pairs of neighbours"
            )
    return [item[0] for item in items], [item[1] for item in items]


def _has_dicts(items: list[Any]) -> bool:
    """Whether positions are dicts (or lists of names) of features and not rows of numbers."""
    for item in items:
        if hasattr(item, "tocsr") or isinstance(item, np.ndarray):
            return False
        for position in item if hasattr(item, "__iter__") else ():
            if isinstance(position, Mapping | set | frozenset):
                return True
            if isinstance(position, list | tuple) and len(position):
                return isinstance(position[0], str)
            if not isinstance(position, list | tuple):
                return False
    return False


def _stacked(items: list[Any], name: str, width: int | None) -> tuple[Any, IntArray]:
    """The rows of all items one after the other, dense or CSR, and how many each has."""
    sparse = [hasattr(item, "tocsr") for item in items]
    if any(sparse) and not all(sparse):
        i = sparse.index(not sparse[0])
        raise InvalidInput(f"{name} of sample {i} is {'' if sparse[i] else 'not '}sparse, but sample 0 is otherwise")
    arrays = [item.tocsr() for item in items] if any(sparse) else [_rows(item, i, name) for i, item in enumerate(items)]
    first = next((i for i, a in enumerate(arrays) if a.shape[0] or a.shape[1]), None)
    wide = width if width is not None else (0 if first is None else arrays[first].shape[1])
    lengths = np.array([a.shape[0] for a in arrays], dtype=np.int64)
    for i, a in enumerate(arrays):
        if a.shape[0] and a.shape[1] != wide:
            origin = f"sample {first} has" if width is None else "training had"
            raise InvalidInput(f"{name} of sample {i} has {a.shape[1]} features, but {origin} {wide}")
    kept = [a for a in arrays if a.shape[0]]
    if any(sparse):
        from scipy.sparse import csr_matrix, vstack

        stacked: Any = vstack(kept, format="csr") if kept else csr_matrix((0, wide))
        numbers = stacked.data
    else:
        stacked = numbers = np.concatenate(kept) if kept else np.zeros((0, wide))
    if not np.isfinite(numbers).all():
        i = next(i for i, a in enumerate(arrays) if not np.isfinite(a.data if any(sparse) else a).all())
        raise InvalidInput(f"{name} of sample {i} holds NaN or infinity")
    return stacked, lengths


def _rows(item: Any, i: int, name: str) -> Array:
    try:
        array = np.asarray(item)
        array = array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(f"{name} of sample {i} is no array of numbers with a row for each position") from None
    if array.size == 0 and array.ndim < 2:
        return array.reshape(0, 0)
    if array.ndim != 2:
        raise InvalidInput(f"{name} of sample {i} has shape {array.shape}, expected (positions, features)")
    return array
