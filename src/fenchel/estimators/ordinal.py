"""An ordered grade, by a projection loss on thresholds."""

from __future__ import annotations

from typing import Any

from .._core.types import Array
from ..structures.base import Structure
from ..structures.cube import Cube
from ..structures.order_simplex import OrderSimplex
from ..structures.reals import NonNegative, Reals
from .classes import ProjectionClassifier

__all__ = ["OrdinalClassifier"]


class OrdinalClassifier(ProjectionClassifier):
    """A linear model of ordered grades: one score per threshold, projected so that thresholds stay in order.

    Minimises the weighted mean of S(Wᵀx_i; φ(y_i)) + alpha/2 ‖W‖², where φ(y) has a one for every threshold below the
    grade y and S is the Fenchel-Young loss on the order simplex, and answers with the grade of least expected cost. With
    the absolute cost (the default) that is a rounding of the projected thresholds. Grades are the sorted values of y. An
    iteration costs O(rows · features · grades).

    Parameters
    ----------
    regularizer : {"euclidean", "kl", "gibbs"} or Regularizer, default="euclidean"
        Ψ, which makes the loss.
    cost : str, Cost, matrix, DataFrame, dict or callable, default="absolute"
        What a mistake costs: ``"absolute"``, ``"zero_one"``, ``"squared"``, a matrix C[answer, grade], a DataFrame with a
        row for each answer, a dict {answer: {grade: cost}}, or a function of the labels of an answer and a grade.
    projection : {"order_simplex", "cube", "nonnegative", "reals"}, default="order_simplex"
        The set that scores are projected to. ``"cube"`` treats each threshold alone, ``"reals"`` does not project.
    alpha : float or "cv", default=1e-3
        The strength of the ridge penalty on the mean loss; "cv" chooses it by five-fold cross-validation of the cost.
    strength : float, default=1.0
        Scales the regularizer: larger values make softer predictions.
    fit_intercept : bool, default=True
        Add a column of the value ``intercept_scaling``, penalised like the others.
    intercept_scaling : float, default=1.0
        The value of that column; a larger one is penalised less.
    class_weight : dict, "balanced" or None, default=None
        Weights of the grades, multiplied onto ``sample_weight``.
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
    classes_ : ndarray
        The grades, in order.
    coef_, intercept_ : ndarray
        A row for each threshold.
    objective_, dual_gap_ : float
        The objective reached, and how far at most it is from the least one.

    References
    ----------
    Blondel, "Structured prediction with projection oracles", 2019, section 4 (order simplex) and section 6.

    Examples
    --------
    >>> import numpy as np
    >>> from fenchel.estimators import OrdinalClassifier
    >>> X = np.arange(12.0).reshape(-1, 1)
    >>> y = np.repeat([1, 2, 3], 4)
    >>> OrdinalClassifier(alpha=1e-4).fit(X, y).predict([[0.0], [5.5], [11.0]])
    array([1, 2, 3])
    """

    _projections = ("order_simplex", "cube", "nonnegative", "reals")

    def __init__(
        self,
        regularizer: Any = "euclidean",
        *,
        cost: Any = "absolute",
        projection: str = "order_simplex",
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
        return OrderSimplex(k)

    def _projection_set(self, projection: str, k: int) -> Structure:
        if projection == "order_simplex" or k == 1:
            return OrderSimplex(k)
        return {"cube": Cube, "nonnegative": NonNegative, "reals": Reals}[projection](k - 1)

    def predict_thresholds(self, X: Any) -> Array:
        """How far each threshold is passed, between 0 and 1 on the order simplex: the model's μ."""
        return self.predict_marginals(X)
