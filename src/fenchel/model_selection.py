"""Cross-validation of outputs that scikit-learn cannot put together: lists of sequences, of graphs, of rankings."""

from __future__ import annotations

from typing import Any

from ._core.checks import check_choice
from ._core.errors import InvalidInput

__all__ = ["cross_val_predict"]

_METHODS = ("predict", "predict_marginals", "predict_proba", "decision_function", "sample_predictions")


def cross_val_predict(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    groups: Any = None,
    cv: Any = 5,
    method: str = "predict",
    fit_params: dict[str, Any] | None = None,
) -> list[Any]:
    """The prediction for each example by a model that was trained without it, in the order of the examples.

    Like scikit-learn's, whose own stacks the answers of the folds into an array and so fails where they differ in size.
    ``cv`` is a number of folds (not shuffled), one of scikit-learn's splitters, or pairs of index arrays that test each
    example once. ``fit_params`` go to ``fit``; those with an entry for each example are cut like X.

    >>> from fenchel import SequenceLabeler
    >>> from fenchel.model_selection import cross_val_predict
    >>> X = [[["a"], ["b"]], [["b"]], [["a"], ["a"], ["b"]], [["b"], ["a"]]]
    >>> y = [[0, 1], [1], [0, 0, 1], [1, 0]]
    >>> cross_val_predict(SequenceLabeler(), X, y, cv=2)
    [[0, 1], [1], [0, 0, 1], [1, 0]]
    """
    from sklearn.base import clone
    from sklearn.model_selection import check_cv

    check_choice(method, "method", _METHODS)
    n = len(X) if hasattr(X, "__len__") else X.shape[0]
    if len(y) != n:
        raise InvalidInput(f"there are {n} inputs but {len(y)} truths")
    splits = check_cv(cv, classifier=False).split(range(n), groups=groups)
    answers: list[Any] = [None] * n
    times = [0] * n
    for inside, outside in splits:
        params = {
            name: _take(value, inside) if hasattr(value, "__len__") and len(value) == n else value
            for name, value in (fit_params or {}).items()
        }
        model = clone(estimator).fit(_take(X, inside), _take(y, inside), **params)
        for i, answer in zip(outside, getattr(model, method)(_take(X, outside)), strict=True):
            answers[i] = answer
            times[i] += 1
    wrong = next((i for i, count in enumerate(times) if count != 1), None)
    if wrong is not None:
        raise InvalidInput(
            f"cv tests sample {wrong} {times[wrong]} times, expected once: its folds must be a partition"
        )
    return answers


def _take(values: Any, items: Any) -> Any:
    if hasattr(values, "iloc"):
        return values.iloc[items]
    if hasattr(values, "shape"):
        return values[items]
    return [values[int(i)] for i in items]
