"""What ``fenchel fit --task match`` saves: a matcher, and how the rows of a file become pairs of sets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from .._core.errors import InvalidInput
from .._core.types import Array, IntArray

__all__ = ["Candidates", "MatchModel", "candidates_of"]


@dataclass(frozen=True)
class Candidates:
    """Pairs of sets: names of both sets' elements, and which row of a table speaks of each pair, −1 for none."""

    groups: list[Any]
    first: list[list[Any]]
    second: list[list[Any]]
    rows: list[IntArray]

    def __len__(self) -> int:
        return len(self.groups)

    def features(self, table: Array) -> list[Array]:
        """(n, m, features) for each pair of sets; NaN where a pair is no candidate."""
        padded = np.concatenate([table, np.full((1, table.shape[1]), np.nan)])
        return [padded[rows] for rows in self.rows]

    def partners(self, together: Array, where: Any) -> list[IntArray]:
        """Index arrays from a column that says of each row whether the two belong together."""
        found = []
        for rows in self.rows:
            linked = (rows >= 0) & (together[rows] > 0)
            twice = np.concatenate([np.flatnonzero(linked.sum(axis=axis) > 1) for axis in (0, 1)])
            if len(twice):
                row = int(rows[linked].max())
                raise InvalidInput(f"{where(row)}: an element belongs to two others of its group")
            found.append(np.where(linked.any(axis=1), linked.argmax(axis=1) if linked.size else 0, -1))
        return found

    def answers(self, partners: list[IntArray], count: int) -> IntArray:
        """1 for each row whose pair is matched, else 0."""
        out = np.zeros(count, dtype=np.int64)
        for rows, found in zip(self.rows, partners, strict=True):
            at = np.flatnonzero(found >= 0)
            chosen = rows[at, found[at]]
            out[chosen[chosen >= 0]] = 1
        return out


def candidates_of(group: Any, first: Any, second: Any, where: Any) -> Candidates:
    """The pairs of sets that rows speak of: a row for each candidate pair, with its group and both elements."""
    places: dict[Any, tuple[dict[Any, int], dict[Any, int], list[tuple[int, int, int]]]] = {}
    for row, (g, a, b) in enumerate(zip(group, first, second, strict=True)):
        left, right, pairs = places.setdefault(g, ({}, {}, []))
        pairs.append((left.setdefault(a, len(left)), right.setdefault(b, len(right)), row))
    tables: list[IntArray] = []
    for g, (left, right, pairs) in places.items():
        rows = np.full((len(left), len(right)), -1, dtype=np.int64)
        for i, j, row in pairs:
            if rows[i, j] >= 0:
                raise InvalidInput(f"{where(row)}: the pair was there already, in the same group {g!r}")
            rows[i, j] = row
        tables.append(rows)
    return Candidates(
        list(places),
        [list(left) for left, _, _ in places.values()],
        [list(right) for _, right, _ in places.values()],
        tables,
    )


class MatchModel(BaseEstimator):  # type: ignore[misc]
    """A matcher of elements that rows of a table speak of, or of boxes in frames.

    Parameters
    ----------
    estimator : BipartiteMatcher
        What matches.
    encoder : TableEncoder or None
        Makes features of the columns; None for boxes.
    target, group, first, second : str or None
        The columns that say whether a pair belongs together, which pairs of sets there are, and which two elements.
    step : int, default=1
        How many frames apart boxes are matched.
    task : str
        The name of the task on the command line.

    Examples
    --------
    >>> import numpy as np
    >>> from fenchel import BipartiteMatcher
    >>> from fenchel.cli.match_model import MatchModel
    >>> model = MatchModel(BipartiteMatcher(), None)
    >>> [answer.tolist() for answer in model.fit([np.eye(2)[:, :, None]], [[0, 1]]).predict([np.eye(3)[:, :, None]])]
    [[0, 1, 2]]
    """

    def __init__(
        self,
        estimator: Any,
        encoder: Any,
        target: str | None = None,
        group: str | None = None,
        first: str | None = None,
        second: str | None = None,
        step: int = 1,
        task: str = "match",
    ) -> None:
        self.estimator = estimator
        self.encoder = encoder
        self.target = target
        self.group = group
        self.first = first
        self.second = second
        self.step = step
        self.task = task

    def fit(self, X: Any, y: Any) -> MatchModel:
        """Train on features of pairs and partners."""
        self.estimator.fit(X, y)
        self.report_: dict[str, Any] = {}
        return self

    def predict(self, X: Any) -> list[IntArray]:
        """The partners in each pair of sets."""
        check_is_fitted(self)
        found: list[IntArray] = self.estimator.predict(X)
        return found

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "report_")
