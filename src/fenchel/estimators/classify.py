"""A class, by a projection loss."""

from __future__ import annotations

from typing import Any

from .._core import registry
from .._core.types import Array
from ..structures.base import Structure
from ..structures.simplex import Simplex
from .classes import ProjectionClassifier

__all__ = ["FenchelYoungClassifier"]


class FenchelYoungClassifier(ProjectionClassifier):
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
    cost : str, Cost, matrix, DataFrame, dict or callable, default="zero_one"
        What a mistake costs; ``predict`` gives the answer of least expected cost. ``"absolute"`` and ``"squared"`` take
        the classes, in sorted order, as grades. A matrix is C[answer, class]; a DataFrame has a row for each answer, a dict
        is {answer: {class: cost}}, and a function takes the labels of an answer and a class.
    projection : {"simplex", "cube", "nonnegative", "reals"}, default="simplex"
        The set that scores are projected to.
    alpha : float or "cv", default=1e-3
        The strength of the ridge penalty on the mean loss; "cv" chooses it by five-fold cross-validation of the cost.
        scikit-learn's C is 1 / (alpha · rows).
    strength : float, default=1.0
        Scales the regularizer: larger values make softer predictions.
    fit_intercept : bool, default=True
        Add a column of the value ``intercept_scaling``, penalised like the others.
    intercept_scaling : float, default=1.0
        The value of that column; a larger one is penalised less.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, multiplied onto ``sample_weight``.
    kernel : str, callable or None, default=None
        A kernel between inputs, by scikit-learn's name or as a function; None is linear.
    kernel_params : dict or None, default=None
        Parameters of the kernel, such as ``{"gamma": 0.1}``.
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

    _projections = ("simplex", "cube", "nonnegative", "reals")

    def __init__(
        self,
        regularizer: Any = "euclidean",
        *,
        cost: Any = "zero_one",
        projection: str = "simplex",
        alpha: float | str = 1e-3,
        strength: float = 1.0,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        class_weight: Any = None,
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
        self.alpha = alpha
        self.strength = strength
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

    def _classes(self, k: int) -> Structure:
        return Simplex(k)

    def _projection_set(self, projection: str, k: int) -> Structure:
        made: Structure = registry.find("structure", projection).load()(k)
        return made

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
