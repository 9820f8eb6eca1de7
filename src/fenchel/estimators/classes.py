"""What estimators of one class or grade share: labels, class weights, probabilities."""

from __future__ import annotations

from inspect import signature
from typing import Any, TypeVar

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from .._core.checks import check_choice
from .._core.errors import InvalidInput
from .._core.types import Array
from ..decoders.calibrated import Calibrated
from ..losses.base import Loss
from ..losses.fenchel_young import FenchelYoung
from ..structures.base import Structure
from .base import LinearEstimator
from .labelled import labelled_cost

__all__ = ["ClassEstimator", "ProjectionClassifier"]

Self = TypeVar("Self", bound="ClassEstimator")


class ClassEstimator(ClassifierMixin, LinearEstimator):  # type: ignore[misc]
    """An estimator whose truths are classes; concrete ones say by which loss."""

    cost: Any
    class_weight: Any

    def _set_up(self, classes: Array) -> Loss:
        """The loss for these classes; sets ``decoder_`` and ``answers_``, and refuses here what does not fit."""
        raise NotImplementedError

    def _truths(self, codes: Array, loss: Loss, dtype: Any) -> Array:
        """Classes as vertices of what the loss takes."""
        return loss.structure.encode(codes, dtype)

    def _training_loss(self, loss: Loss, n: int, example_costs: Any) -> Loss:
        """The loss of the n examples to train on, where their costs differ."""
        return loss

    def fit(self: Self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on rows X and their classes y."""
        return self._fit(X, y, sample_weight)

    def _fit(self: Self, X: Any, y: Any, sample_weight: Any, example_costs: Any = None) -> Self:
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
        self._train(
            X, self._truths(codes, loss, X.dtype), self._training_loss(loss, len(codes), example_costs), weights
        )
        self.loss_ = loss
        return self

    def partial_fit(self: Self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from the rows one by one, going on from what was learned before.

        The first call names all ``classes`` that will come. Chunks of any size give the same weights.
        """
        return self._partial_fit(X, y, classes, sample_weight)

    def _partial_fit(self: Self, X: Any, y: Any, classes: Any, sample_weight: Any, example_costs: Any = None) -> Self:
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
        truths = self._truths(codes, loss, X.dtype)
        training = self._training_loss(loss, len(codes), example_costs)
        self._train_part(X, truths, training, self._weights(X, codes, sample_weight))
        self.loss_ = loss
        return self

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
        """The answer for each row."""
        check_is_fitted(self)
        answers = getattr(self, "answers_", self.classes_)  # models saved before there were others than classes
        return np.asarray(answers[self.decoder_.decode(self._output(X))])


def _has_probabilities(self: ProjectionClassifier) -> bool:
    if self.projection != self._projections[0]:
        raise AttributeError(
            f"with projection={self.projection!r} marginals are no probabilities; use predict_marginals"
        )
    return True


class ProjectionClassifier(ClassEstimator):
    """A classifier by a projection loss; concrete ones say on which structure, and on which sets to project."""

    _projections: tuple[str, ...]
    """Names of the sets that scores may be projected to; the first is the hull of the outputs."""

    regularizer: Any
    projection: str
    strength: float

    def _classes(self, k: int) -> Structure:
        """The structure whose outputs are the k classes."""
        raise NotImplementedError

    def _projection_set(self, projection: str, k: int) -> Structure:
        """The set of this name that scores for k classes are projected to."""
        raise NotImplementedError

    def _truths(self, codes: Array, loss: Loss, dtype: Any) -> Array:
        return self._classes(len(self.classes_)).encode(codes, dtype)

    def _set_up(self, classes: Array) -> FenchelYoung:
        k = len(classes)
        projection = check_choice(self.projection, "projection", self._projections)
        loss = FenchelYoung(self._projection_set(projection, k), self.regularizer, strength=self.strength)
        truths = self._classes(k)
        cost, self.answers_ = labelled_cost(self.cost, classes, truths)
        self.decoder_ = self._check_decoding(Calibrated(cost.answers_to(truths), cost), loss)
        return loss

    def predict(self, X: Any) -> Array:
        """The class of least expected cost for each row."""
        return super().predict(X)

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Array:
        """The probability of each class; only where scores are projected to the hull of the outputs."""
        marginals = self.predict_marginals(X)
        return self._classes(len(self.classes_)).class_distribution(marginals)

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Array:
        """The logarithm of :meth:`predict_proba`; -inf for classes that are ruled out."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))


def _weighting(sample_weight: Any, weights: Array) -> dict[str, Any]:
    """scikit-learn balances by weighted counts from 1.7 on; before, compute_class_weight does not take weights."""
    takes = "sample_weight" in signature(compute_class_weight).parameters
    return {"sample_weight": weights} if takes and sample_weight is not None else {}
