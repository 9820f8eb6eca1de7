"""What ``fenchel fit --task tag`` saves: a sequence labeler and how the columns of a file become features."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ..data.words import word_features

__all__ = ["TagModel"]


class TagModel(BaseEstimator):  # type: ignore[misc]
    """A tagger of sentences whose tokens have several columns, the first of them the word.

    Parameters
    ----------
    estimator : SequenceLabeler
        What tags.
    columns : list of int
        The columns to learn from, by their place in the training file; the first is the word.
    target : int
        The column with the tags.
    width : int
        How many columns the training file has.
    window : int, default=2
        How many neighbours on either side are looked at.
    task : str
        The name of the task on the command line.

    Examples
    --------
    >>> from fenchel import SequenceLabeler
    >>> from fenchel.cli.tag_model import TagModel
    >>> model = TagModel(SequenceLabeler(), columns=[0], target=1, width=2)
    >>> model.fit([[["Ada", "slept"]]], [["B-PER", "O"]]).predict([[["Ada"]]])
    [['B-PER']]
    """

    def __init__(
        self,
        estimator: Any,
        columns: list[int],
        target: int,
        width: int,
        window: int = 2,
        task: str = "tag",
    ) -> None:
        self.estimator = estimator
        self.columns = columns
        self.target = target
        self.width = width
        self.window = window
        self.task = task

    def features(self, sentences: Any) -> list[list[dict[str, Any]]]:
        """Dicts of features. A sentence is a list of columns, each with a text for every token."""
        return [self._features(columns) for columns in sentences]

    def _features(self, columns: Any) -> list[dict[str, Any]]:
        items = word_features(columns[0], window=self.window)
        for j, values in enumerate(columns[1:], 1):
            for t, item in enumerate(items):
                for step in range(-1, 2):
                    if 0 <= t + step < len(values):
                        item[f"column {self.columns[j]}, {step:+d}"] = values[t + step]
        return items

    def fit(self, X: Any, y: Any) -> TagModel:
        """Train on sentences and their tags."""
        self.estimator.fit(self.features(X), y)
        self.classes_ = self.estimator.classes_
        self.report_: dict[str, Any] = {}
        return self

    def predict(self, X: Any) -> list[list[str]]:
        """The tags of each sentence."""
        check_is_fitted(self)
        tags: list[list[str]] = self.estimator.predict(self.features(X))
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "classes_")
