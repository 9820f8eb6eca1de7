"""A set of labels, by a projection loss."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from .._core.checks import check_choice, check_count
from .._core.errors import InvalidInput
from .._core.types import Array
from ..decoders.calibrated import Calibrated
from ..losses.fenchel_young import FenchelYoung
from ..structures.base import Structure
from ..structures.budget import Budget, Budgets
from ..structures.cube import Cube
from ..structures.reals import NonNegative, Reals
from .base import LinearEstimator, make_cost

__all__ = ["MultilabelClassifier"]

_PROJECTIONS = ("budget", "cube", "nonnegative", "reals")


class MultilabelClassifier(LinearEstimator):
    """A linear model of label sets: one score per label, projected on the cube or on a budget of labels.

    Minimises the weighted mean of S(Wᵀx_i; y_i) + alpha/2 ‖W‖² with the Fenchel-Young loss on the chosen set, and answers
    with the label set of least expected cost. On the cube every label is learned alone (``regularizer="gibbs"`` is
    one logistic regression per label). The budget polytope knows how many labels an example has: between ``low`` and
    ``high``. A training example with more labels than ``high`` is trained on its own larger budget (its loss
    would be infinite otherwise); predictions keep to the rule. An iteration costs O(rows · features · labels).

    Parameters
    ----------
    regularizer : {"euclidean", "kl", "gibbs"} or Regularizer, default="euclidean"
        Ψ, which makes the loss.
    cost : {"hamming"} or Cost, default="hamming"
        What a mistake costs.
    projection : {"budget", "cube", "nonnegative", "reals"}, default="budget"
        The set that scores are projected to.
    low : int, default=0
        The least number of labels of a prediction (budget).
    high : int or "auto", default="auto"
        The largest number; "auto" is the ceiling of mean plus standard deviation of the label count in training.
    alpha : float or "cv", default=1e-3
        The strength of the ridge penalty on the mean loss; "cv" chooses it by five-fold cross-validation of the cost.
    strength : float, default=1.0
        Scales the regularizer: larger values make softer predictions.
    fit_intercept : bool, default=True
        Add a column of the value ``intercept_scaling``, penalised like the others.
    intercept_scaling : float, default=1.0
        The value of that column.
    kernel : str, callable or None, default=None
        A kernel between inputs, by scikit-learn's name or as a function; None is linear.
    kernel_params : dict or None, default=None
        Parameters of the kernel, such as ``{"gamma": 0.1}``.
    solver : {"auto", "lbfgs", "bcfw"} or Solver, default="auto"
        How weights are found.
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
    n_labels_ : int
        The number of labels.
    low_, high_ : int
        The bounds that predictions keep to.
    objective_, dual_gap_ : float
        The objective reached, and how far at most it is from the least one.

    References
    ----------
    Blondel, "Structured prediction with projection oracles", 2019, section 4 (unit cube, knapsack) and section 6.

    Examples
    --------
    >>> from sklearn.datasets import make_multilabel_classification
    >>> from fenchel.estimators import MultilabelClassifier
    >>> X, Y = make_multilabel_classification(n_samples=200, n_classes=4, random_state=0)
    >>> model = MultilabelClassifier(alpha=0.1).fit(X, Y)
    >>> model.predict(X[:2])
    array([[1, 0, 0, 0],
           [0, 1, 0, 0]])
    >>> model.high_
    4
    """

    def __init__(
        self,
        regularizer: Any = "euclidean",
        *,
        cost: Any = "hamming",
        projection: str = "budget",
        low: int = 0,
        high: int | str = "auto",
        alpha: float | str = 1e-3,
        strength: float = 1.0,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        kernel: Any = None,
        kernel_params: Any = None,
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
        self.low = low
        self.high = high
        self.alpha = alpha
        self.strength = strength
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.kernel = kernel
        self.kernel_params = kernel_params
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MultilabelClassifier:
        """Train on rows X and their label sets: rows of zeros and ones, dense or sparse."""
        X, Y = self._check_data(X, y)
        k = Y.shape[1]
        projection = check_choice(self.projection, "projection", _PROJECTIONS)
        counts = Y.sum(axis=1).astype(np.int64)
        low = check_count(self.low, "low", minimum=0)
        high = self._upper_bound(counts, k, low)
        decoding: Structure = Budget(k, low, high) if projection == "budget" else Cube(k)
        sets = {"cube": Cube(k), "nonnegative": NonNegative(k), "reals": Reals(k), "budget": decoding}
        loss = FenchelYoung(sets[projection], self.regularizer, strength=self.strength)
        self.decoder_ = self._check_decoding(Calibrated(decoding, make_cost(self.cost)), loss)
        training = loss
        if projection == "budget" and ((counts > high).any() or (counts < low).any()):
            own = Budgets.of(k, lows=np.minimum(low, counts), highs=np.maximum(high, counts))
            training = FenchelYoung(own, self.regularizer, strength=self.strength)
        weights = None if sample_weight is None else _check_sample_weight(sample_weight, X, dtype=np.float64)
        self.n_labels_, self.low_, self.high_ = k, low, high
        self._train(X, Y, training, weights)
        self.loss_ = loss
        return self

    def _check_data(self, X: Any, y: Any) -> tuple[Any, Array]:
        if y is None:
            raise InvalidInput(f"{type(self).__name__} requires y to be passed, but the target y is None")
        if sp.issparse(y):
            y = y.toarray()
        X, Y = validate_data(self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], multi_output=True)
        if Y.ndim != 2:
            raise InvalidInput(f"y has shape {Y.shape}, expected a row of zeros and ones per example, (n, labels)")
        return X, Cube(Y.shape[1]).encode(Y, X.dtype)

    def _upper_bound(self, counts: Array, k: int, low: int) -> int:
        if self.high == "auto":
            return int(min(k, max(low, 1, np.ceil(counts.mean() + counts.std()))))
        high = check_count(self.high, "high", minimum=0)
        if not low <= high <= k:
            raise InvalidInput(f"high is {high}, expected low <= high <= {k} (low is {low}; there are {k} labels)")
        return high

    def predict(self, X: Any) -> Array:
        """The label set of least expected cost for each row, as zeros and ones."""
        check_is_fitted(self)
        return self.decoder_.decode(self._output(X))

    def decision_function(self, X: Any) -> Array:
        """The scores θ of the labels."""
        return self._output(X).scores

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """One minus the mean share of wrong labels (the Hamming loss)."""
        if sp.issparse(y):
            y = y.toarray()
        wrong = (self.predict(X) != np.asarray(y)).mean(axis=1)
        return float(1 - np.average(wrong, weights=sample_weight))

    def __sklearn_tags__(self) -> Any:
        tags = BaseEstimator.__sklearn_tags__(self)
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        tags.target_tags.single_output = False
        tags.target_tags.multi_output = True
        tags.estimator_type = None
        return tags
