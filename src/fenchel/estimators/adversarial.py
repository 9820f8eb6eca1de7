"""A class, trained for exactly the cost of a mistake."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.checks import as_float_array, check_choice
from .._core.errors import IncompatiblePair
from .._core.types import Array
from ..costs.base import Cost, affine_form
from ..costs.cost_matrix import CostMatrices
from ..costs.scaled import Scaled
from ..decoders.base import Decoder
from ..decoders.likeliest import Likeliest
from ..decoders.map import MAP
from ..losses.adversarial import Adversarial
from ..losses.base import Loss
from .labelled import labelled_cost, with_abstention
from .scored import ScoredClassifier, check_features, check_price, refuse_example_costs

__all__ = ["AdversarialClassifier"]


class AdversarialClassifier(ScoredClassifier):
    """A linear or kernel classifier trained for exactly the cost of a mistake that you name.

    Minimises the weighted mean of S(Wᵀx_i; φ(y_i)) + alpha/2 ‖W‖², where S is the adversarial loss of the cost: an
    adversary chooses the distribution q of the truth, paid by the scores for what the data know of it, and a predictor
    answers by a distribution p* of the least expected cost. S bounds what p* costs, and with enough data the answers
    are Bayes answers for that cost, which margin losses do not give without a class of majority. A cost matrix may have
    more answers than classes, or fewer; ``abstain=0.3`` lets the classifier say nothing for 0.3.

    Parameters
    ----------
    cost : str, Cost, matrix, DataFrame, dict or callable, default="zero_one"
        What a mistake costs: ``"zero_one"``, ``"absolute"`` or ``"squared"`` (the classes, in sorted order, are grades), a
        matrix C[answer, class], a DataFrame with a row for each answer and a column for each class, a dict
        {answer: {class: cost}}, or a function of the labels of an answer and a class.
    abstain : float or None, default=None
        The price of no answer; None has no such answer.
    abstain_label : object, default=None
        What no answer is called; by default −1 where classes are numbers, else ``"abstain"``.
    features : {"multiclass", "threshold"}, default="multiclass"
        A direction of its own for each class, or one direction for all grades with thresholds between them.
    decoding : {"likeliest", "map"}, default="likeliest"
        ``predict`` gives the likeliest answer under p*, or the class of the highest score.
    alpha : float or "cv", default=1e-3
        The strength of the penalty on the mean loss; "cv" chooses it by five-fold cross-validation of the cost.
    penalty : {"l2", "l1", "norm"}, default="l2"
        alpha/2 ‖W‖², alpha ‖W‖₁ or alpha ‖W‖₂. The solvers "proximal" (with ``smoothing``), "adam" and "sgd" take l1.
    smoothing : float, default=0.0
        Adds smoothing/2 ‖·‖² for each player, which makes the loss smooth, for "lbfgs" and "proximal".
    fit_intercept : bool, default=True
        Add a column of the value ``intercept_scaling``, penalised like the others. Thresholds are always learned.
    intercept_scaling : float, default=1.0
        The value of that column; a larger one is penalised less.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, multiplied onto ``sample_weight``.
    kernel : str, callable or None, default=None
        A kernel between inputs, by scikit-learn's name or as a function; None is linear.
    kernel_params : dict or None, default=None
        Parameters of the kernel, such as ``{"gamma": 0.1}``.
    solver : {"auto", "bundle", "dual_coordinate", "bcfw", "pegasos", "adam", "sgd", "lbfgs", "proximal"} or Solver
        How weights are found. "auto" takes "bundle"; with a kernel and the zero-one cost "dual_coordinate", with smoothing
        "lbfgs", and with l1 "adam" or "proximal".
        ``partial_fit`` takes cautious gradient steps, or those of "pegasos" (which take kernels too).
    tol : float, default=1e-3
        Training stops when the duality gap is below ``tol`` times the objective.
    max_iter : int, default=1000
        Most iterations (passes, for solvers that draw examples).
    warm_start : bool, default=False
        Go on from the weights of the last ``fit``.
    random_state : int, Generator or None, default=None
        For solvers that draw examples, and for ``sample_predictions``.
    verbose : int, default=0
        Print every ``verbose``-th iteration to standard error.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted.
    answers_ : ndarray of shape (n_answers,)
        What may be answered, in the order of the columns of ``predict_proba``: the classes, then no answer if there is a
        price for it; or the rows of the cost.
    cost_ : Cost
        The cost as trained for.
    coef_, intercept_ : ndarray
        A row for each class, or one direction and the offsets of the thresholds.
    weights_ : ndarray
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
    Fathony, Asif, Liu, Bashiri, Xing, Behpour, Zhang and Ziebart, "Consistent robust adversarial prediction for general
    multiclass classification", 2018; Fathony, Bashiri and Ziebart, "Adversarial surrogate losses for ordinal
    regression", 2017.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from fenchel import AdversarialClassifier
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> y = y.map({0: "setosa", 1: "versicolor", 2: "virginica"})
    >>> model = AdversarialClassifier(abstain=0.2, alpha=0.01, abstain_label="?", random_state=0).fit(X, y)
    >>> model.answers_.tolist()
    ['setosa', 'versicolor', 'virginica', '?']
    >>> model.predict(X.iloc[[0, 70, 100]]).tolist()
    ['setosa', '?', 'virginica']
    """

    _trains_for_cost = True

    def __init__(
        self,
        cost: Any = "zero_one",
        *,
        abstain: float | None = None,
        abstain_label: Any = None,
        features: str = "multiclass",
        decoding: str = "likeliest",
        alpha: float | str = 1e-3,
        penalty: str = "l2",
        smoothing: float = 0.0,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        class_weight: Any = None,
        kernel: Any = None,
        kernel_params: Any = None,
        solver: Any = "auto",
        tol: float = 1e-3,
        max_iter: int = 1000,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.cost = cost
        self.abstain = abstain
        self.abstain_label = abstain_label
        self.features = features
        self.decoding = decoding
        self.alpha = alpha
        self.penalty = penalty
        self.smoothing = smoothing
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.kernel = kernel
        self.kernel_params = kernel_params
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, example_costs: Any = None) -> AdversarialClassifier:
        """Train on rows X and their classes y.

        ``example_costs`` says that mistakes on some rows cost more: a factor on the cost for each row, or a matrix
        C[answer, class] for each, of shape (rows, answers, classes).
        """
        return self._fit(X, y, sample_weight, example_costs)

    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None, *, example_costs: Any = None
    ) -> AdversarialClassifier:
        """Learn from the rows one by one, going on from what was learned before.

        The first call names all ``classes`` that will come. Chunks of any size give the same weights. With
        ``solver="pegasos"`` the steps are 1/(alpha t) long, and a kernel may be used: then every row seen is kept.
        """
        return self._partial_fit(X, y, classes, sample_weight, example_costs)

    def _shares_direction(self) -> bool:
        return check_features(self.features, ("multiclass", "threshold")) == "threshold"

    def _set_up(self, classes: Array) -> Adversarial:
        check_price(self.abstain)
        structure = self._structure(len(classes))
        cost, answers = labelled_cost(self.cost, classes, structure)
        self.cost_, self.answers_ = with_abstention(cost, answers, self.abstain, self.abstain_label)
        loss = Adversarial(structure, self.cost_, smoothing=self.smoothing)
        affine_form(self.cost_, loss.answers, structure)  # a matrix of another size is refused here
        decoder: Decoder = Likeliest()
        if check_choice(self.decoding, "decoding", ("likeliest", "map")) == "map":
            if loss.answers.n_vertices != len(classes):
                raise IncompatiblePair(
                    f"decoding='map' answers with the class of the highest score, but there are {len(self.answers_)} "
                    f"answers to {len(classes)} classes; use decoding='likeliest'"
                )
            decoder = MAP()
        self.decoder_ = decoder
        return loss

    def _training_loss(self, loss: Loss, n: int, example_costs: Any) -> Loss:
        if example_costs is None:
            return loss
        costs = as_float_array(example_costs, "example_costs")
        truths = loss.structure.n_vertices or 0
        cost: Cost
        if costs.shape == (n,):
            cost = Scaled(self.cost_, costs)
        elif costs.shape == (n, len(self.answers_), truths):
            cost = CostMatrices(costs)
        else:
            raise refuse_example_costs(costs.shape, n, len(self.answers_), truths)
        return Adversarial(loss.structure, cost, smoothing=self.smoothing)

    def predict(self, X: Any) -> Array:
        """The answer for each row, one of ``answers_``."""
        return super().predict(X)

    def predict_proba(self, X: Any) -> Array:
        """p* for each row, the distribution over ``answers_`` of the least cost that the adversary can make it pay."""
        return self.decision_distribution(X)

    def predict_log_proba(self, X: Any) -> Array:
        """The logarithm of :meth:`predict_proba`; -inf for answers that are never given."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))

    def expected_cost(self, X: Any) -> Array:
        """What each of ``answers_`` costs for each row, when the truth is drawn as the adversary would.

        All answers that p* gives cost the same there: that is what the adversary is after.
        """
        output = self._output(X)
        q = output.structure.class_distribution(np.asarray(output.marginals))
        return np.asarray(q @ self._answer_table().T)
