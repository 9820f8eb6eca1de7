"""A class, by a projection loss."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from .._core import registry
from .._core.checks import check_choice
from .._core.errors import InvalidInput
from .._core.types import Array
from ..decoders.calibrated import Calibrated
from ..losses.fenchel_young import FenchelYoung
from ..structures.simplex import Simplex
from .base import LinearEstimator, make_cost

__all__ = ["FenchelYoungClassifier"]

_PROJECTIONS = ("simplex", "cube", "nonnegative", "reals")


def _has_probabilities(self: FenchelYoungClassifier) -> bool:
    if self.projection != "simplex":
        raise AttributeError(
            f"with projection={self.projection!r} marginals are no probabilities; use predict_marginals"
        )
    return True


class FenchelYoungClassifier(ClassifierMixin, LinearEstimator):  # type: ignore[misc]
    """A linear classifier trained by a projection loss and decoded for the cost of a mistake.

    Minimises the weighted mean of S(Wᵀx_i; φ(y_i)) + alpha/2 ‖W‖², where S is the Fenchel-Young loss of the chosen
    regularizer on the chosen set. On the simplex ``regularizer="kl"`` is multinomial logistic regression and
    ``"euclidean"`` the sparsemax loss, whose probabilities are often exactly zero. Larger sets give the losses that
    know less of the outputs: ``projection="reals"`` with ``"euclidean"`` is the squared loss. An iteration costs
    O(rows · features · classes).

    Parameters
    ----------
    regularizer : {"euclidean", "kl", "gibbs"} or Regularizer, default="euclidean"
        Ψ, which makes the loss.
    cost : {"zero_one", "absolute"} or Cost, default="zero_one"
        What a mistake costs; ``predict`` answers with the class of least expected cost. ``"absolute"`` takes the
        classes, in sorted order, as grades.
    projection : {"simplex", "cube", "nonnegative", "reals"}, default="simplex"
        The set that scores are projected to.
    alpha : float, default=1e-3
        The strength of the ridge penalty on the mean loss. scikit-learn's C is 1 / (alpha · rows).
    strength : float, default=1.0
        Scales the regularizer: larger values make softer predictions.
    fit_intercept : bool, default=True
        Add a column of the value ``intercept_scaling``, penalised like the others.
    intercept_scaling : float, default=1.0
        The value of that column; a larger one is penalised less.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, multiplied onto ``sample_weight``.
    solver : {"auto", "lbfgs", "bcfw"} or Solver, default="auto"
        How weights are found. A Solver brings its own ``tol`` and ``max_iter``.
    tol : float, default=1e-4
        Training stops when the duality gap is below ``tol`` times the objective.
    max_iter : int, default=1000
        Most iterations (passes, for "bcfw").
    warm_start : bool, default=False
        Go on from the weights of the last ``fit``.
    random_state : int, Generator or None, default=None
        For solvers that draw examples ("bcfw").
    verbose : int, default=0
        Print every ``verbose``-th iteration to standard error.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted.
    coef_, intercept_ : ndarray
        A row for each class; for two classes the difference of their rows, as scikit-learn has it.
    weights_ : ndarray of shape (n_features [+ 1], n_classes)
        The weights as trained.
    objective_, dual_gap_ : float
        The objective reached, and how far at most it is from the least one.
    n_iter_ : int
        Iterations.
    converged_ : bool
        Whether the gap was met.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    References
    ----------
    Blondel, "Structured prediction with projection oracles", 2019; Blondel, Martins and Niculae, "Learning with
    Fenchel-Young losses", 2020.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from fenchel import FenchelYoungClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = FenchelYoungClassifier(regularizer="euclidean", alpha=1e-3).fit(X, y)
    >>> model.predict(X[:3])
    array([0, 0, 0])
    >>> bool(model.dual_gap_ <= 1e-4 * model.objective_)
    True
    """

    def __init__(
        self,
        regularizer: Any = "euclidean",
        *,
        cost: Any = "zero_one",
        projection: str = "simplex",
        alpha: float = 1e-3,
        strength: float = 1.0,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        class_weight: Any = None,
        solver: Any = "auto",
        tol: float = 1e-4,
        max_iter: int = 1000,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.regularizer = regularizer
        self.cost = cost
        self.projection = projection
        self.alpha = alpha
        self.strength = strength
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> FenchelYoungClassifier:
        """Train on rows X and their classes y."""
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32])
        check_classification_targets(y)
        old_classes = getattr(self, "classes_", None)
        classes, codes = np.unique(y, return_inverse=True)
        loss = self._set_up(classes)
        if self.warm_start and old_classes is not None and not np.array_equal(old_classes, classes):
            raise InvalidInput(
                f"warm_start=True needs the classes of the last fit, {list(old_classes)}, but y has {list(classes)}"
            )
        self.classes_ = classes
        weights = self._weights(X, codes, sample_weight)
        self._train(X, Simplex(len(classes)).encode(codes, X.dtype), loss, weights)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> FenchelYoungClassifier:
        """Learn from the rows one by one, going on from what was learned before.

        The first call names all ``classes`` that will come. Chunks of any size give the same weights.
        """
        first = not hasattr(self, "classes_")
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], reset=first)
        check_classification_targets(y)
        if first:
            if classes is None:
                raise InvalidInput("classes must be given in the first call of partial_fit: all that will come")
            self.classes_ = unique_labels(classes)
        elif classes is not None and not np.array_equal(self.classes_, unique_labels(classes)):
            raise InvalidInput(f"classes are {list(classes)}, but the first call named {list(self.classes_)}")
        if self.class_weight == "balanced":
            raise InvalidInput("class_weight='balanced' needs all of y at once; give partial_fit a dict of weights")
        known = np.isin(y, self.classes_)
        if not known.all():
            raise InvalidInput(f"y holds {y[~known][0]!r}, which is not among the classes {list(self.classes_)}")
        codes = np.searchsorted(self.classes_, y)
        loss = self._set_up(self.classes_)
        truths = Simplex(len(self.classes_)).encode(codes, X.dtype)
        self._train_part(X, truths, loss, self._weights(X, codes, sample_weight))
        return self

    def _set_up(self, classes: Array) -> FenchelYoung:
        """The loss and the decoder for these classes, refused here if they do not fit."""
        k = len(classes)
        projection = check_choice(self.projection, "projection", _PROJECTIONS)
        structure = registry.find("structure", projection).load()(k)
        loss = FenchelYoung(structure, self.regularizer, strength=self.strength)
        self.decoder_ = self._check_decoding(Calibrated(Simplex(k), make_cost(self.cost)), loss)
        return loss

    def _weights(self, X: Any, codes: Array, sample_weight: Any) -> Array | None:
        if sample_weight is None and self.class_weight is None:
            return None
        weights = np.array(_check_sample_weight(sample_weight, X, dtype=np.float64))
        if self.class_weight is not None:
            y = self.classes_[codes]
            present = np.unique(y)
            by_class = compute_class_weight(
                self.class_weight, classes=present, y=y, **_weighting(sample_weight, weights)
            )
            weights *= by_class[np.searchsorted(present, y)]
        return weights

    def predict(self, X: Any) -> Array:
        """The class of least expected cost for each row."""
        check_is_fitted(self)
        return np.asarray(self.classes_[self.decoder_.decode(self._output(X))])

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Array:
        """The probability of each class, the model's μ; only where scores are projected to the simplex."""
        return self.predict_marginals(X)

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Array:
        """The logarithm of :meth:`predict_proba`; -inf for classes that are ruled out."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))

    def decision_function(self, X: Any) -> Array:
        """The scores θ of the classes; for two classes the difference of the second and the first."""
        theta = self._output(X).scores
        return theta[:, 1] - theta[:, 0] if theta.shape[1] == 2 else theta

    @property
    def coef_(self) -> Array:
        return _binary_difference(super().coef_)

    @property
    def intercept_(self) -> Array:
        return _binary_difference(super().intercept_)


def _binary_difference(rows: Array) -> Array:
    return rows[1:] - rows[:1] if len(rows) == 2 else rows


def _weighting(sample_weight: Any, weights: Array) -> dict[str, Any]:
    """scikit-learn balances by weighted counts from 1.7 on; before, compute_class_weight does not take weights."""
    from inspect import signature

    takes = "sample_weight" in signature(compute_class_weight).parameters
    return {"sample_weight": weights} if takes and sample_weight is not None else {}
