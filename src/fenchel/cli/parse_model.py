"""What ``fenchel fit --task parse`` saves: a dependency parser and how it was trained."""

from __future__ import annotations

from typing import Any, ClassVar

from sklearn.base import BaseEstimator

__all__ = ["ParseModel"]


class ParseModel(BaseEstimator):  # type: ignore[misc]
    """A parser of CoNLL-U files.

    Parameters
    ----------
    estimator : DependencyParser
        What parses.
    task : str
        The name of the task on the command line.

    Examples
    --------
    >>> from fenchel import DependencyParser
    >>> from fenchel.cli.parse_model import ParseModel
    >>> from fenchel.data import small_treebank
    >>> sentences = small_treebank(20, random_state=0)
    >>> len(ParseModel(DependencyParser()).fit(sentences).predict(sentences))
    20
    """

    target: ClassVar[str] = "HEAD and DEPREL"

    def __init__(self, estimator: Any, task: str = "parse") -> None:
        self.estimator = estimator
        self.task = task

    def fit(self, X: Any, y: Any = None) -> ParseModel:
        """Train on sentences with heads and labels."""
        self.estimator.fit(X)
        self.report_: dict[str, Any] = {}
        return self

    def predict(self, X: Any) -> Any:
        """The sentences with new heads and labels."""
        return self.estimator.predict(X)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "report_")
