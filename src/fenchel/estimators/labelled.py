"""Costs in the labels of a classifier: tables, dicts and functions become matrices C[answer, truth]."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .._core.errors import InvalidInput
from .._core.types import Array
from ..costs.abstain import Abstain
from ..costs.base import Cost
from ..costs.cost_matrix import CostMatrix
from ..structures.base import Structure
from .base import make_cost

__all__ = ["labelled_cost", "with_abstention"]


def labelled_cost(value: Any, classes: Array, truths: Structure) -> tuple[Cost, Array]:
    """The cost that a user means for these classes, and the labels of the answers.

    ``value`` may be a name, a ``Cost`` or a matrix C[answer, truth] (in the order of the classes), a DataFrame with a row
    for each answer and a column for each class, a dict {answer: {class: cost}}, or a function of two labels. Rows that are
    no class are answers of their own.

    >>> import numpy as np
    >>> from fenchel.estimators.labelled import labelled_cost
    >>> from fenchel.structures import Simplex
    >>> bill = {"quiet": {"fire": 10, "none": 0}, "alarm": {"fire": 0, "none": 1}}
    >>> cost, answers = labelled_cost(bill, np.array(["fire", "none"]), Simplex(2))
    >>> answers.tolist(), cost.matrix(Simplex(2)).tolist()
    (['quiet', 'alarm'], [[10.0, 0.0], [0.0, 1.0]])
    """
    if hasattr(value, "columns") and hasattr(value, "index"):
        return _from_rows(
            list(value.index), lambda i: dict(zip(value.columns, np.asarray(value)[i].tolist(), strict=True)), classes
        )
    if isinstance(value, Mapping):
        rows = list(value)
        for row in rows:
            if not isinstance(value[row], Mapping):
                raise InvalidInput(
                    f"cost[{row!r}] is {value[row]!r}, expected a dict of what that answer costs, {{class: cost}}"
                )
        return _from_rows(rows, lambda i: dict(value[rows[i]]), classes)
    if callable(value) and not isinstance(value, Cost):
        labels = classes.tolist()
        return CostMatrix([[_number(value(a, t), a, t) for t in labels] for a in labels]), classes
    cost = make_cost(value)
    columns = cost.saved_arguments()["matrix"].shape[1] if isinstance(cost, CostMatrix) else len(classes)
    if columns != len(classes):
        raise InvalidInput(
            f"cost is a matrix C[answer, class] with {columns} columns, but y has {len(classes)} classes, {classes.tolist()}"
        )
    n = cost.answers_to(truths).n_vertices
    return cost, (classes if n is None or n == len(classes) or isinstance(cost, Abstain) else np.arange(n))


def _from_rows(rows: list[Any], row_of: Any, classes: Array) -> tuple[Cost, Array]:
    if len(set(rows)) < len(rows):
        raise InvalidInput("cost names an answer twice")
    matrix = np.zeros((len(rows), len(classes)))
    for i, answer in enumerate(rows):
        costs = row_of(i)
        for j, truth in enumerate(classes.tolist()):
            if truth in costs:
                matrix[i, j] = _number(costs[truth], answer, truth)
            elif truth != answer:
                raise InvalidInput(
                    f"cost says nothing of answering {answer!r} where {truth!r} is true; it needs every class of y"
                )
    return CostMatrix(matrix), _array(rows)


def _number(cost: Any, answer: Any, truth: Any) -> float:
    try:
        return float(cost)
    except (TypeError, ValueError):
        raise InvalidInput(f"answering {answer!r} where {truth!r} is true costs {cost!r}, expected a number") from None


def with_abstention(cost: Cost, answers: Array, price: Any, label: Any) -> tuple[Cost, Array]:
    """The cost with a price for no answer, and the label of that answer added to those of the others."""
    if price is not None:
        if isinstance(cost, Abstain):
            raise InvalidInput(f"abstain is {price!r}, but the cost {cost!r} has a price for no answer already")
        cost = Abstain(float(price), cost) if isinstance(price, int | float | np.number) else Abstain(price, cost)
    if not isinstance(cost, Abstain):
        return cost, answers
    if label is None:
        label = answers.dtype.type(-1).item() if answers.dtype.kind in "if" else "abstain"
    if label in answers.tolist():
        raise InvalidInput(f"abstain_label is {label!r}, which is a class too; choose another")
    return cost, _array([*answers.tolist(), label])


def _array(labels: list[Any]) -> Array:
    """Labels as an array that keeps each as it is."""
    array = np.array(labels)
    if array.ndim == 1 and all(type(a) is type(b) for a, b in zip(array.tolist(), labels, strict=True)):
        return array
    array = np.empty(len(labels), dtype=object)
    array[:] = labels
    return array
