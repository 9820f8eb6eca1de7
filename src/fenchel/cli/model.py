"""What ``fenchel fit`` saves: an estimator with the table encoder before it."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils.validation import check_is_fitted

from .._core.types import Array

__all__ = ["TableModel"]


class TableModel(BaseEstimator):  # type: ignore[misc]
    """A model of one column of a table, or of several, by the others.

    Classifiers are trained on the numbers 0, 1, ... of the answers in ``classes_``, whose order is that of the grades
    where a cost needs one. Other estimators are trained on the answers as they are given.

    Parameters
    ----------
    encoder : TableEncoder
        Makes features of the columns.
    estimator : estimator
        What predicts from features.
    target : str or list of str
        The column that is predicted, or the columns.
    task : str
        The name of the task on the command line.

    Attributes
    ----------
    classes_ : ndarray
        The answers, or the labels that they are made of.
    report_ : dict
        How it was trained: rows, alpha, the held-out scores.

    Examples
    --------
    >>> from fenchel import FenchelYoungClassifier
    >>> from fenchel.cli.model import TableModel
    >>> from fenchel.data import Table, TableEncoder
    >>> table = Table({"size": [1.0, 2.0, 8.0, 9.0]})
    >>> model = TableModel(TableEncoder(), FenchelYoungClassifier(), target="kind")
    >>> model.fit(table, ["small", "small", "large", "large"]).predict(Table({"size": [0.0, 10.0]}))
    array(['small', 'large'], dtype=object)
    """

    def __init__(self, encoder: Any, estimator: Any, target: Any = "y", task: str = "classify") -> None:
        self.encoder = encoder
        self.estimator = estimator
        self.target = target
        self.task = task

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, classes: Any = None) -> TableModel:
        """Train on a table, all of whose columns become features, and the answers y.

        ``classes`` lists the answers in an order; without it they are sorted. For label sets and rankings it names the
        labels.
        """
        y = np.asarray(y)
        if is_classifier(self.estimator):
            self.classes_ = _unique(y) if classes is None else np.asarray(classes)
            place = {value: code for code, value in enumerate(self.classes_.tolist())}
            y = np.array([place[value] for value in y.tolist()], dtype=np.int64)
        self.estimator.fit(self.encoder.fit_transform(X), y, sample_weight=sample_weight)
        if not is_classifier(self.estimator):
            self.classes_ = np.arange(self.estimator.n_labels_) if classes is None else np.asarray(classes)
        self.report_: dict[str, Any] = {}
        return self

    def predict(self, X: Any) -> Array:
        """The answer for each row of a table with the columns of training."""
        if is_classifier(self.estimator):
            return np.asarray(self.classes_[self.predict_codes(X)])
        check_is_fitted(self)
        return np.asarray(self.estimator.predict(self.encoder.transform(X)))

    def predict_codes(self, X: Any) -> Array:
        """The places of the answers in ``classes_``; for label sets rows of 0 and 1, for rankings rows of ranks from 0."""
        check_is_fitted(self)
        predict = getattr(self.estimator, "predict_ranks", self.estimator.predict)
        return np.asarray(predict(self.encoder.transform(X)), dtype=np.int64)

    def predict_proba(self, X: Any) -> Array:
        """The probability of each answer, a column for each of ``classes_``."""
        check_is_fitted(self)
        return np.asarray(self.estimator.predict_proba(self.encoder.transform(X)))

    def predict_marginals(self, X: Any) -> Array:
        """The estimator's μ for each row."""
        check_is_fitted(self)
        return np.asarray(self.estimator.predict_marginals(self.encoder.transform(X)))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "classes_")


def _unique(y: Array) -> Array:
    values = sorted(set(y.tolist()))
    if y.dtype.kind not in "OU":
        return np.array(values, dtype=y.dtype)
    classes = np.empty(len(values), dtype=object)
    classes[:] = values
    return classes
