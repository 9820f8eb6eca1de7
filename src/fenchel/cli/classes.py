"""What the tasks whose answer is one class share: the classes of a column, their scores, probabilities."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .._core.errors import InvalidInput
from .console import columns
from .table_task import CostFunction, TableTask, Truths, few, label, refuse_missing, shares

if TYPE_CHECKING:
    import argparse

    from .._core.types import Array
    from ..data.tables import Table
    from .model import TableModel

__all__ = ["ClassTask"]


class ClassTask(TableTask):
    """One of several classes, in a column of the table."""

    hull: str
    """The projection whose points are distributions over the classes."""

    @abstractmethod
    def estimator_class(self) -> Any:
        """The estimator, imported when it is needed."""

    @abstractmethod
    def minds_order(self, args: argparse.Namespace) -> bool:
        """Whether the order of the classes changes what is learned."""

    def add_order(self, group: argparse._ArgumentGroup, when: str) -> None:
        group.add_argument(
            "--order",
            nargs="+",
            metavar="CLASS",
            help=f"the classes from the lowest grade to the highest{when} "
            "(default: numbers by size, texts by alphabet)",
        )

    def estimator(self, args: argparse.Namespace) -> Any:
        return self.estimator_class()(cost=args.cost, **self.estimator_options(args))

    def truths(self, table: Table, targets: list[str], args: argparse.Namespace) -> Truths:
        _refuse_label_sets(table, targets[0], args)
        codes, classes, notes = read_classes(table, targets[0], args.order)
        if self.minds_order(args) and classes.dtype == object and args.order is None:
            notes.append(
                f"grades are taken in alphabetical order, {few(classes)}; if that is wrong, give them with --order"
            )
        return Truths(codes, classes, codes, notes, codes)

    def known_truths(self, model: TableModel, table: Table) -> Array:
        return known_codes(table, str(model.target), model.classes_)

    def cost(self, estimator: Any) -> CostFunction:
        from ..estimators.base import make_cost

        return make_cost(estimator.cost)

    def constant(self, truth: Array, names: Array, cost: CostFunction, weights: Array | None) -> Any:
        return best_constant(truth, len(names), cost, weights)

    def constant_as_written(self, constant: Any, names: Array) -> Any:
        return names[constant]

    def scores(
        self, predicted: Array, truth: Array, names: Array, cost: CostFunction, weights: Array | None
    ) -> dict[str, Any]:
        return class_scores(predicted, truth, names, cost, weights)

    def facts(self, truths: Truths) -> dict[str, Any]:
        import numpy as np

        counts = np.bincount(truths.values, minlength=len(truths.names))
        return {"classes": truths.names.tolist(), "class_rows": counts.tolist()}

    def told_target(self, report: dict[str, Any]) -> str:
        return f"target {report['target']} with {len(report['classes'])} classes: {few(report['classes'])}"

    def text_columns(self, model: TableModel) -> list[str]:
        return super().text_columns(model) + ([str(model.target)] if model.classes_.dtype == object else [])

    def predictions(self, model: TableModel, table: Table, *, proba: bool) -> Iterator[list[str]]:
        labels = [label(value) for value in model.classes_.tolist()]
        if getattr(model.estimator, "abstain", None) is not None:
            labels.append("abstain")  # its code is -1, which is the last
        codes = model.predict_codes(table)
        if not proba:
            return prediction_lines(["prediction"], labels, codes, None)
        if not hasattr(model.estimator, "predict_proba"):
            raise InvalidInput(
                f"--proba needs a model fitted with --projection {self.hull}; on {model.estimator.projection!r} scores "
                "are projected to points that are no probabilities"
            )
        header = ["prediction", *(f"p({name})" for name in labels)]
        return prediction_lines(header, labels, codes, model.predict_proba(table))

    def show_evaluation(self, report: dict[str, Any]) -> str:
        rows = [["class", "rows", "precision", "recall", "F1"]]
        for line in report["classes"]:
            scores = ["-" if line[key] is None else f"{line[key]:.4f}" for key in ("precision", "recall", "f1")]
            rows.append([label(line["class"]), str(line["rows"]), *scores])
        return super().show_evaluation(report) + "\n\n" + columns(rows)


# -- classes of a column -----------------------------------------------------------------------------------------------


def read_classes(table: Table, target: str, order: list[str] | None) -> tuple[Array, Array, list[str]]:
    """The classes of a column in their order, the code of each row, and notes. Whole numbers become integers."""
    import numpy as np

    column = table[target]
    refuse_missing(table, target)
    values, codes = np.unique(column.astype(str) if column.dtype == object else column, return_inverse=True)
    n, k = len(column), len(values)
    if k == 1:
        raise InvalidInput(
            f"{table.source}: the target {target!r} is always {label(values.tolist()[0])!r}; nothing to learn"
        )
    if k > max(n / 2, 2) and n >= 10:
        raise InvalidInput(
            f"{table.source}: the target {target!r} has {k} different values in {n} rows, too many to be classes"
        )
    if column.dtype == object and _written_numbers(values.tolist()):
        values, places = np.unique(values.astype(float), return_inverse=True)
        codes, column = places[codes], values
    if column.dtype == object:
        classes = np.empty(k, dtype=object)
        classes[:] = values.tolist()
    else:
        classes = (
            values.astype(np.int64) if (values == np.round(values)).all() and np.abs(values).max() < 2**53 else values
        )
    if order is not None:
        ordered = _places(table, target, [label(value) for value in classes.tolist()], order)
        codes, classes = np.argsort(ordered)[codes], classes[ordered]
    counts = np.bincount(codes, minlength=k)
    single = [label(classes.tolist()[c]) for c in np.flatnonzero(counts == 1)]
    notes = []
    if single:
        one = f"only one row has the class {single[0]}: it"
        many = f"{len(single)} classes have only one row ({few(single)}): they"
        notes.append(f"{one if len(single) == 1 else many} cannot be held out")
    return codes.astype(np.int64), classes, notes


def _refuse_label_sets(table: Table, target: str, args: argparse.Namespace) -> None:
    from ..data.svmlight import LABEL, is_svmlight

    if is_svmlight(args.data) and target == LABEL and not table.is_numeric(target):
        row = next((i for i, text in enumerate(table[target].tolist()) if text and "," in text), None)
        if row is not None:
            raise InvalidInput(
                f"{table.source}, {table.where(row)}: the label is {table[target][row]!r}, a set of labels; "
                "use --task multilabel, without --target"
            )


def _written_numbers(texts: list[str]) -> bool:
    """Whether nominal values are the numbers that we would write: 01 and 1.0 are names."""
    try:
        return all(label(float(text)) == text for text in texts)
    except ValueError:
        return False


def _places(table: Table, target: str, labels: list[str], order: list[str]) -> list[int]:
    if len(set(order)) < len(order):
        raise InvalidInput(f"--order names {next(x for i, x in enumerate(order) if x in order[:i])!r} twice")
    for name in order:
        if name not in labels:
            raise InvalidInput(f"--order names {name!r}, but {target!r} in {table.source} holds {few(labels)}")
    for name in labels:
        if name not in order:
            raise InvalidInput(f"--order leaves out {name!r}, which {target!r} in {table.source} holds")
    return [labels.index(name) for name in order]


def known_codes(table: Table, target: str, classes: Array) -> Array:
    """The codes of a column of classes that a model knows."""
    import numpy as np

    column = table[target]
    refuse_missing(table, target)
    known = {label(value): code for code, value in enumerate(classes.tolist())}
    values, at, inverse = np.unique(
        column.astype(str) if column.dtype == object else column, return_index=True, return_inverse=True
    )
    codes = [known.get(label(value)) for value in values.tolist()]
    if None in codes:
        i = codes.index(None)
        raise InvalidInput(
            f"{table.source}, {table.where(int(at[i]))}: the target {target!r} is {label(values.tolist()[i])!r}, which "
            f"the model does not know; its classes are {few(classes)}"
        )
    return np.array(codes, dtype=np.int64)[inverse]


def prediction_lines(header: list[str], labels: list[str], codes: Array, proba: Array | None) -> Iterator[list[str]]:
    yield header
    for i, code in enumerate(codes.tolist()):
        yield [labels[code]] if proba is None else [labels[code], *shares(proba[i])]


# -- scores ------------------------------------------------------------------------------------------------------------


def best_constant(codes: Array, k: int, cost: CostFunction, weights: Array | None) -> int:
    """The class that costs least on these rows when it is always the answer (the majority class under zero_one)."""
    import numpy as np

    counts = np.bincount(codes, weights=weights, minlength=k)
    totals = [counts @ cost(np.full(k, c), np.arange(k)) for c in range(k)]
    return int(np.argmin(totals))


def class_scores(
    predicted: Array, truth: Array, classes: Array, cost: CostFunction, weights: Array | None
) -> dict[str, Any]:
    """Accuracy, mean cost and, for each class, precision, recall and F1; all means weighted."""
    import numpy as np

    from .fitting import Weighted

    k = len(classes)
    if weights is not None and not weights.any():
        raise InvalidInput("the weights of the rows to score are all zero")
    costs = Weighted.of(cost(predicted, truth), weights)
    silent = predicted < 0
    answers = k + bool(silent.any())  # no answer is a column of its own, the last
    column = np.where(silent, k, predicted)
    confusion = np.bincount(truth * answers + column, weights=weights, minlength=k * answers).reshape(k, answers)
    right, true, said = confusion.diagonal(), confusion.sum(axis=1), confusion.sum(axis=0)
    rows = np.bincount(truth, minlength=k)

    def share(part: float, whole: float) -> float | None:
        return float(part / whole) if whole > 0 else None

    return {
        "rows": len(truth),
        "accuracy": Weighted.of((predicted == truth).astype(float), weights).mean,
        "mean_cost": costs.mean,
        "standard_error": costs.standard_error,
        "abstained": Weighted.of(silent.astype(float), weights).mean,
        "classes": [
            {
                "class": value,
                "rows": int(rows[c]),
                "precision": share(right[c], said[c]),
                "recall": share(right[c], true[c]),
                "f1": share(2 * right[c], true[c] + said[c]),
            }
            for c, value in enumerate(classes.tolist())
        ],
        "confusion": confusion.tolist(),
    }
