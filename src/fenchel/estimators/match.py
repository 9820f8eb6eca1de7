"""A matching between two sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from .._core.checks import check_choice, check_finite_positive, check_generator
from .._core.errors import InvalidInput
from .._core.types import Array, IntArray
from ..costs.base import Cost, affine_form
from ..costs.hamming import Hamming
from ..costs.wrong_partners import WrongPartners
from ..decoders.calibrated import Calibrated
from ..decoders.map import MAP
from ..losses.adversarial import Adversarial
from ..losses.base import Loss, Output
from ..losses.fenchel_young import FenchelYoung
from ..losses.margin import Hinge
from ..losses.named import CRF
from ..scorers.base import Scorer
from ..scorers.pairs import Pairs
from ..structures.birkhoff import Birkhoffs
from ..structures.matching import Matchings
from ..structures.ragged import Family
from .base import LinearEstimator

__all__ = ["BipartiteMatcher"]

_LOSSES = ("adversarial", "hinge", "crf", "sparsemap")
_UNMATCHED = ("auto", "allowed", "forbidden")


_NO_WEIGHT = 1e-6
"""What the method that plays the games leaves to matchings that it should give up."""


@dataclass(frozen=True)
class _Batch:
    """Features of all pairs of each two sets, and of elements alone where these are given."""

    pairs: Sequence[Array] | Array
    """A list, or one array where all have the same size."""
    alone: list[tuple[Array, Array]] | None

    def __len__(self) -> int:
        return len(self.pairs)


class BipartiteMatcher(LinearEstimator):
    """A linear model of matchings: objects in two frames, words of two sentences, records of two tables.

    A matching scores Σ ⟨w, x_ij⟩ over its pairs, for features x_ij of an element i of one set and j of another. Training
    minimises the mean of S(θ; y) + alpha/2 ‖w‖²; S is the adversarial loss of the number of wrong partners, whose minimiser
    gives Bayes-optimal answers where scores can be anything ("adversarial"), or the structured hinge ("hinge"), or the loss
    of a conditional random field, which enumerates matchings of up to six elements ("crf"), or SparseMAP ("sparsemap").
    ``predict`` answers with the matching of highest score (adversarial, hinge) or of least expected cost (crf, sparsemap).

    ``X`` is a list with an array (n, m, d) for each pair of sets, whose sizes may differ; ``y`` is a list of index arrays:
    y[i] is the partner of element i of the first set, −1 for none. Elements without a partner are matched to dummies,
    which have weights of their own: for an element of the first set that is left over, one of the second, and a constant
    of pairs (both of whose elements leave their dummies behind). An item of X may also be a triple (pairs, first, second), where
    arrays (n, a) and (m, b) take the place of these three indicators. With ``pair_features``, items of X are pairs of
    tables (A, B). A pair whose features are all NaN is no candidate: it is never matched.

    An iteration costs one product with all features and, for each item, an interior point method of O(k³) a step
    (adversarial), an assignment (hinge) or a projection (sparsemap).

    Parameters
    ----------
    loss : {"adversarial", "hinge", "crf", "sparsemap"}, default="adversarial"
        What training minimises.
    alpha : float or "cv", default=1e-3
        The strength of the ridge penalty on the mean loss; "cv" chooses it by five-fold cross-validation of the cost.
    smoothing : float, default=0.1
        Added for both players of the adversarial loss, which L-BFGS then minimises; 0 is the exact loss.
    unmatched : {"auto", "allowed", "forbidden"}, default="auto"
        Whether elements may have no partner; "auto" allows it where an item of training has sets of different sizes or a −1.
    unmatched_cost : float, default=1.0
        What it costs to give a partner to an element of the first set that has none; a wrong partner costs 1.
    pair_features : callable or None, default=None
        A function of two tables that gives the features of all pairs of their rows, (n, m, d).
    strength : float, default=1.0
        Scales the regularizer of "crf" and "sparsemap": larger values make softer predictions.
    solver : {"auto", "lbfgs", "bcfw", "dual_projected", ...} or Solver, default="auto"
        How weights are found: "auto" is L-BFGS for losses without kinks, else block-coordinate Frank-Wolfe.
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
        The weights of the features of pairs.
    unmatched_coef_ : ndarray
        The weights of dummies: pair constant, first set, second set; or those of the features that were given.
    objective_, dual_gap_ : float
        The objective reached, and how far at most it is from the least one.

    References
    ----------
    Fathony, Behpour, Zhang and Ziebart, "Efficient and consistent adversarial bipartite matching", 2018.

    Examples
    --------
    >>> from fenchel import BipartiteMatcher
    >>> from fenchel.data import frame_pairs, moving_boxes
    >>> pairs = frame_pairs(moving_boxes(40, 5, random_state=0))
    >>> X, y = [pair.features for pair in pairs], [pair.partners for pair in pairs]
    >>> model = BipartiteMatcher().fit(X[:30], y[:30])
    >>> model.predict(X[30:31])
    [array([0, 1, 2])]
    >>> model.score(X[30:], y[30:]) > 0.9
    True
    """

    kernel: Any = None
    kernel_params: Any = None
    decoder_: Any

    def __init__(
        self,
        loss: str = "adversarial",
        *,
        alpha: float | str = 1e-3,
        smoothing: float = 0.1,
        unmatched: str = "auto",
        unmatched_cost: float = 1.0,
        pair_features: Any = None,
        strength: float = 1.0,
        solver: Any = "auto",
        tol: float = 1e-4,
        max_iter: int = 1000,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.loss = loss
        self.alpha = alpha
        self.smoothing = smoothing
        self.unmatched = unmatched
        self.unmatched_cost = unmatched_cost
        self.pair_features = pair_features
        self.strength = strength
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    # -- training ------------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> BipartiteMatcher:
        """Train on pairs of sets and their matchings; (A, B) and one index array are a single pair of tables."""
        check_choice(self.loss, "loss", _LOSSES)
        check_choice(self.unmatched, "unmatched", _UNMATCHED)
        check_finite_positive(self.unmatched_cost, "unmatched_cost", zero=True)
        if self._is_one_pair(X):
            X, y = [X], [y]
        batch = self._read(X)
        if not len(batch):
            raise InvalidInput("there are no pairs of sets to learn from")
        partners = _read_partners(y, batch)
        incomplete = [
            i for i, (x, p) in enumerate(zip(batch.pairs, partners, strict=True))
            if x.shape[0] != x.shape[1] or (p < 0).any()
        ]  # fmt: skip
        if self.unmatched == "forbidden" and incomplete:
            i = incomplete[0]
            raise InvalidInput(
                f"unmatched='forbidden', but sample {i} has {batch.pairs[i].shape[0]} x {batch.pairs[i].shape[1]} elements "
                f"and the partners {partners[i].tolist()}"
            )
        self.incomplete_ = self.unmatched == "allowed" or bool(incomplete)
        self.given_alone_ = batch.alone is not None
        if self.given_alone_ and not self.incomplete_:
            raise InvalidInput("there are features of elements alone, but every element has a partner")
        self.n_features_in_ = batch.pairs[0].shape[2]
        self.n_alone_ = (1, 1) if batch.alone is None else (batch.alone[0][0].shape[1], batch.alone[0][1].shape[1])
        structure: Family = Matchings() if self.incomplete_ else Birkhoffs()
        cost: Cost = WrongPartners(self.unmatched_cost) if self.incomplete_ and self.unmatched_cost != 1 else Hamming()
        loss = self._make_loss(structure, cost, batch)
        self.cost_ = cost
        self.decoder_ = MAP() if self.loss in ("adversarial", "hinge") else Calibrated(structure, cost)
        weights = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        self._train(batch, self._truths(structure, partners, batch), loss, weights)
        return self

    def _make_loss(self, structure: Family, cost: Cost, batch: _Batch) -> Loss:
        if self.loss == "adversarial":
            return Adversarial(structure, cost, self.smoothing)
        if self.loss == "hinge":
            return Hinge(structure, cost)
        if self.loss == "sparsemap":
            return FenchelYoung(structure, "euclidean", self.strength)
        for i, pairs in enumerate(batch.pairs):
            k = max(*pairs.shape[:2], 1)
            if k > 6:
                raise InvalidInput(
                    f"loss='crf' enumerates matchings of up to 6 elements, but sample {i} has {k}; use loss='adversarial'"
                )
        return CRF(structure, self.strength, enumerated=True)

    @staticmethod
    def _truths(structure: Family, partners: list[IntArray], batch: _Batch) -> Any:
        if isinstance(structure, Matchings):
            partners = [
                np.concatenate([p, np.full(max(*x.shape[:2], 1) - len(p), -1)])
                for p, x in zip(partners, batch.pairs, strict=True)
            ]
        return structure.encode(partners)

    def _training_scorer(self, X: Any, loss: Loss) -> Scorer:
        return self._scorer(X, loss)

    def _scorer(self, X: Any, loss: Loss) -> Pairs:
        if not self.incomplete_:
            return Pairs(X.pairs)
        if X.alone is not None:
            return Pairs(X.pairs, X.alone)
        pairs = [np.concatenate([x, np.ones((*x.shape[:2], 1), x.dtype)], axis=2) for x in X.pairs]
        return Pairs(pairs, [(np.ones((x.shape[0], 1)), np.ones((x.shape[1], 1))) for x in X.pairs])

    def _answer_costs(self, loss: Loss, output: Output, v: Any) -> Array:
        structure: Any = loss.structure
        costs = affine_form(self.cost_, structure, structure).value(self.decoder_.vertices(output), v)
        return np.asarray(costs / np.array([structure.member(size).shape[0] for size in v.sizes]))

    # -- use -----------------------------------------------------------------------------------------------------------

    def predict(self, X: Any) -> list[IntArray]:
        """The matching of each pair of sets: for each element of the first its partner in the second, −1 for none."""
        batch, output = self._batch_and_output(X)
        return self._as_partners(list(self.decoder_.decode(output)), batch)

    def match(self, A: Any, B: Any) -> IntArray:
        """For each row of the table A its partner in B, −1 for none; needs ``pair_features``."""
        if self.pair_features is None:
            raise InvalidInput("match(A, B) needs pair_features, a function of two tables; without it use predict")
        return self.predict([(A, B)])[0]

    def predict_marginals(self, X: Any) -> list[Array]:  # type: ignore[override]
        """How often each pair is matched by what the model would play, (n, m) for each item.

        For the adversarial loss that is the predictor's p*. Where elements may have no partner there is one more column
        for it, so that rows sum to one.
        """
        batch, output = self._batch_and_output(X)
        points = output.structure.restore(output.structure.as_rows(output.predictor, "marginals")[0], (len(batch),))
        return [self._cut(mu, x) for mu, x in zip(output.structure.unpacked(points), batch.pairs, strict=True)]  # type: ignore[attr-defined]

    def decision_distribution(self, X: Any) -> list[tuple[Array, Array]]:
        """For each item weights and matchings, a row each; their mean is what ``predict_marginals`` gives, to about 1e-5."""
        batch, output = self._batch_and_output(X)
        found = []
        parts = output.structure.decompose(output.predictor)
        for (weights, vertices), x in zip(parts, batch.pairs, strict=True):
            member = output.structure.member(vertices[0].size)  # type: ignore[attr-defined]
            answers = np.stack([self._shorten(y, x) for y in member.decode(vertices)])
            answers, place = np.unique(answers, axis=0, return_inverse=True)
            sums = np.bincount(place.ravel(), weights=weights, minlength=len(answers))
            order = np.argsort(-sums, kind="stable")
            order = order[sums[order] > _NO_WEIGHT]
            found.append((sums[order] / sums[order].sum(), answers[order]))
        return found

    def sample_predictions(self, X: Any, random_state: Any = None) -> list[IntArray]:
        """One draw for each item, of the distribution of ``decision_distribution``."""
        batch, output = self._batch_and_output(X)
        drawn = output.structure.sample(output.predictor, check_generator(random_state, "random_state"))
        return self._as_partners(list(output.structure.decode(drawn)), batch)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """One minus the mean share of elements of the first set whose partner is wrong."""
        if self._is_one_pair(X):
            X, y = [X], [y]
        batch = self._read(X)
        truths = _read_partners(y, batch)
        shares = [
            float(np.mean(answer != truth)) if len(truth) else 0.0
            for answer, truth in zip(self.predict(X), truths, strict=True)
        ]
        return float(1 - np.average(shares, weights=sample_weight)) if shares else float("nan")

    def _output(self, X: Any) -> Output:
        return self._batch_and_output(X)[1]

    def _batch_and_output(self, X: Any) -> tuple[_Batch, Output]:
        check_is_fitted(self)
        # one array of numbers is looked at through its scores, which are fewer
        batch = self._read([X] if self._is_one_pair(X) else X, trusted=True)
        for i, x in enumerate(batch.pairs[:1] if isinstance(batch.pairs, np.ndarray) else batch.pairs):
            if x.shape[2] != self.n_features_in_:
                raise InvalidInput(
                    f"X of sample {i} has {x.shape[2]} features of pairs, training had {self.n_features_in_}"
                )
            if not self.incomplete_ and x.shape[0] != x.shape[1]:
                raise InvalidInput(
                    f"X of sample {i} has {x.shape[0]} x {x.shape[1]} elements, but in training every element had a partner; "
                    "fit with unmatched='allowed'"
                )
        if len(batch) and (batch.alone is not None) != self.given_alone_:
            raise InvalidInput("items of X are triples with features of elements alone where those of training were")
        if batch.alone is not None:
            for i, (first, second) in enumerate(batch.alone):
                if (first.shape[1], second.shape[1]) != self.n_alone_:
                    raise InvalidInput(
                        f"X of sample {i} has {first.shape[1]} and {second.shape[1]} features of elements alone, "
                        f"training had {self.n_alone_[0]} and {self.n_alone_[1]}"
                    )
        if not len(batch):
            empty = np.zeros((0, 0, self.n_features_in_))
            scorer = self._scorer(_Batch([empty], None), self.loss_).take(slice(0, 0))
            return batch, self.loss_.output(scorer.scores(self.weights_))
        theta = self._scorer(batch, self.loss_).scores(self.weights_)
        if isinstance(batch.pairs, np.ndarray) and not np.isfinite(theta.flat).all():
            return self._batch_and_output(list(X))  # says which, or leaves out pairs that are no candidates
        return batch, self.loss_.output(theta)

    def _as_partners(self, outputs: Sequence[Array], batch: _Batch) -> list[IntArray]:
        if not self.incomplete_:
            return list(outputs)
        return [self._shorten(np.asarray(y), x) for y, x in zip(outputs, batch.pairs, strict=True)]

    @staticmethod
    def _shorten(y: Array, x: Array) -> IntArray:
        """The partners of real elements; one that only makes up the square is none."""
        kept = y[: x.shape[0]]
        return np.where(kept >= x.shape[1], -1, kept)

    def _cut(self, mu: Array, x: Array) -> Array:
        n, m = x.shape[:2]
        pairs = mu[:n, :m]
        return np.concatenate([pairs, 1 - pairs.sum(axis=1, keepdims=True)], axis=1) if self.incomplete_ else pairs

    @property
    def coef_(self) -> Array:
        """The weights of the features of pairs."""
        return self._fitted_weights()[: self.n_features_in_]

    @property
    def unmatched_coef_(self) -> Array:
        """The weights of dummies: of the pair constant, the first set and the second, or of the features given for them."""
        return self._fitted_weights()[self.n_features_in_ :]

    @property
    def intercept_(self) -> Array:
        raise AttributeError("BipartiteMatcher has no intercept: a constant of all pairs matters only beside dummies")

    # -- reading inputs ------------------------------------------------------------------------------------------------

    def _is_one_pair(self, X: Any) -> bool:
        return self.pair_features is not None and isinstance(X, tuple) and len(X) == 2

    def _read(self, X: Any, trusted: bool = False) -> _Batch:
        if X is None or isinstance(X, str | bytes | dict) or not hasattr(X, "__iter__"):
            raise InvalidInput(f"X is {type(X).__name__}, expected a list with an array (n, m, features) for each item")
        stacked = isinstance(X, np.ndarray) and X.ndim == 4 and X.dtype in (np.float32, np.float64)
        if stacked and self.pair_features is None and (trusted or np.isfinite(X).all()):
            return _Batch(X, None)
        pairs: list[Array] = []
        alone: list[tuple[Array, Array]] = []
        for i, given in enumerate(X):
            item = given
            if self.pair_features is not None:
                if not isinstance(item, tuple | list) or len(item) != 2:
                    raise InvalidInput(f"X of sample {i} is {type(item).__name__}, expected a pair of tables (A, B)")
                item = self.pair_features(item[0], item[1])
            triple = isinstance(item, tuple) and len(item) == 3
            x = _numbers(item[0] if triple else item, 3, f"X of sample {i}", "(n, m, features)", barred=True)
            if pairs and x.shape[2] != pairs[0].shape[2]:
                raise InvalidInput(f"X of sample {i} has {x.shape[2]} features, but sample 0 has {pairs[0].shape[2]}")
            if triple:
                first = _numbers(item[1], 2, f"X of sample {i}, first set", "(n, features)")
                second = _numbers(item[2], 2, f"X of sample {i}, second set", "(m, features)")
                if (len(first), len(second)) != x.shape[:2]:
                    raise InvalidInput(
                        f"X of sample {i} has {x.shape[0]} x {x.shape[1]} pairs, but features of {len(first)} and "
                        f"{len(second)} elements alone"
                    )
                if alone and (first.shape[1], second.shape[1]) != (alone[0][0].shape[1], alone[0][1].shape[1]):
                    raise InvalidInput(f"X of sample {i} has other numbers of features of elements alone than sample 0")
                alone.append((first, second))
            pairs.append(x)
        if alone and len(alone) != len(pairs):
            raise InvalidInput("some items of X are triples with features of elements alone and some are not")
        return _Batch(pairs, alone or None)

    def __sklearn_tags__(self) -> Any:
        tags = BaseEstimator.__sklearn_tags__(self)
        tags.input_tags.two_d_array = False
        tags.target_tags.required = True
        tags.target_tags.one_d_labels = False
        tags.no_validation = True
        return tags


def _numbers(value: Any, ndim: int, name: str, expected: str, barred: bool = False) -> Array:
    try:
        array = np.asarray(value)
        array = array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(f"{name} is no array of numbers {expected}") from None
    if array.ndim != ndim:
        raise InvalidInput(f"{name} has shape {array.shape}, expected {expected}")
    bad = ~np.isfinite(array)
    if bad.any() and not (barred and (np.isnan(array).all(axis=-1) == bad.any(axis=-1)).all()):
        raise InvalidInput(f"{name} holds NaN or infinity")
    return array


def _read_partners(y: Any, batch: _Batch) -> list[IntArray]:
    """The index arrays, each checked against the sizes of its sets."""
    if y is None or not hasattr(y, "__len__"):
        raise InvalidInput("y is no list of index arrays: for each element of the first set its partner, -1 for none")
    if len(y) != len(batch):
        raise InvalidInput(f"X has {len(batch)} items but y has {len(y)}")
    found = []
    for i, (given, x) in enumerate(zip(y, batch.pairs, strict=True)):
        n, m = x.shape[:2]
        partners = np.asarray(given)
        if partners.size == 0:
            partners = partners.reshape(-1).astype(np.int64)
        if partners.shape != (n,) or (partners.dtype.kind not in "iu" and np.any(partners != np.floor(partners))):
            raise InvalidInput(f"y of sample {i} has shape {partners.shape}, expected {n} whole numbers")
        partners = partners.astype(np.int64)
        if n and (partners.min() < -1 or partners.max() >= m):
            raise InvalidInput(f"y of sample {i} is {partners.tolist()}, but partners go from 0 to {m - 1}, or -1")
        chosen = partners[partners >= 0]
        if len(np.unique(chosen)) < len(chosen):
            raise InvalidInput(f"y of sample {i} is {partners.tolist()}, which gives one element two partners")
        rows = np.flatnonzero(partners >= 0)
        barred = np.isnan(x[rows, partners[rows]]).any(axis=1) if rows.size and x.shape[2] else np.zeros(0, bool)
        if barred.any():
            j = int(rows[barred.argmax()])
            raise InvalidInput(f"y of sample {i} matches {j} with {partners[j]}, but the features of that pair are NaN")
        found.append(partners)
    return found
