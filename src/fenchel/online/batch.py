"""Online to batch: the averaged weights of a learner as an estimator."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone

from .._core.checks import check_count
from .._core.errors import InvalidInput
from .._core.types import Array
from .learner import Learner

__all__ = ["OnlineToBatch"]


class OnlineToBatch(BaseEstimator):  # type: ignore[misc]
    """An estimator that lets a learner go over the rows and predicts with the mean of the weights that it played.

    On rows from one distribution the expected cost of its randomized answers to new inputs is at most the expected loss of any
    linear model U plus bound(U)/T after one pass over T rows. More passes are for practice; the guarantee is of one.

    Parameters
    ----------
    learner : Learner
        How to learn; it is copied.
    passes : int, default=1
        How often to go over the rows.

    Attributes
    ----------
    learner_ : Learner
        The learner, its weights frozen at their mean.
    coef_ : ndarray
        That mean, a row for each feature.

    References
    ----------
    Sakaue, Bao, Tsuchiya and Oki, "Online structured prediction with Fenchel-Young losses and improved surrogate regret for
    online multiclass classification with logistic loss", 2024, Theorem 4.6.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.model_selection import cross_val_score
    >>> from fenchel.online import Learner, OnlineToBatch
    >>> from fenchel.structures import Simplex
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> y = (X @ [1.0, -2.0] > 0).astype(int)
    >>> learner = Learner(Simplex(2), "kl", scale="auto", step="parameter_free", max_norm=5.0)
    >>> scores = cross_val_score(OnlineToBatch(learner, passes=5), X, y)  # minus the expected cost
    >>> bool(scores.mean() > -0.1)
    True
    """

    def __init__(self, learner: Learner, *, passes: int = 1) -> None:
        self.learner = learner
        self.passes = passes

    def fit(self, X: Any, y: Any) -> OnlineToBatch:
        """Learn the rows in their order, ``passes`` times, and average."""
        if not isinstance(self.learner, Learner):
            raise InvalidInput(f"learner is {self.learner!r}, expected a fenchel.online.Learner")
        learner = clone(self.learner)
        for _ in range(check_count(self.passes, "passes")):
            learner.partial_fit(X, y)
        self.learner_ = learner.frozen()
        return self

    @property
    def coef_(self) -> Array:
        """The weights, a row for each feature (the intercept's last, if there is one)."""
        return self._fitted().coef_

    def predict(self, X: Any) -> Array:
        """Answers, drawn as the learner's decoder draws them."""
        return self._fitted().predict(X)

    def predict_marginals(self, X: Any) -> Array:
        """The model's μ for each row."""
        return self._fitted().predict_marginals(X)

    def decision_distribution(self, X: Any) -> Array:
        """The mean of what the decoder plays for each row: on classes, the probability of each answer."""
        return self._fitted().decision_distribution(X)

    def score(self, X: Any, y: Any) -> float:
        """Minus the mean expected cost of the answers; nothing is drawn."""
        learner = self._fitted()
        truths = learner.structure.encode(y)
        points = learner._points(X)
        if len(points) != len(truths):
            raise InvalidInput(f"there are {len(points)} inputs but {len(truths)} truths")
        return -float(np.mean(learner.decoder_.expected_cost(points, truths, learner.cost_)))

    def _fitted(self) -> Learner:
        learner = getattr(self, "learner_", None)
        if learner is None:
            raise InvalidInput(f"this {type(self).__name__} is not fitted yet; call fit first")
        return learner

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "learner_")
