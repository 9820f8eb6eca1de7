"""``--task multilabel``: a set of labels."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._core.errors import InvalidInput
from .arguments import add_choice, count
from .table_task import CostFunction, TableTask, Truths, counted, few, refuse_missing, shares, wrong_share

if TYPE_CHECKING:
    import argparse

    from .._core.types import Array
    from ..data.tables import Table
    from .model import TableModel

__all__ = ["Multilabel"]

_PROJECTIONS = ("budget", "cube", "nonnegative", "reals")
_WITH_MARGINALS = ("budget", "cube")
_NO, _YES = ("0", "false"), ("1", "true")


class Multilabel(TableTask):
    """A set of labels, by a projection loss."""

    name = "multilabel"
    summary = "a set of labels, given as columns of 0 and 1"
    many_targets = True
    names_key = "labels"

    # -- options -------------------------------------------------------------------------------------------------------

    def add_target(self, parser: argparse.ArgumentParser) -> None:
        which = parser.add_mutually_exclusive_group()
        which.add_argument("--targets", nargs="+", metavar="COL", help="the columns to predict, of 0 and 1")
        which.add_argument(
            "--targets-prefix",
            metavar="PREFIX",
            help="predict all columns whose names begin so (default for svmlight files: the file's label sets; for "
            "MEKA's ARFF files: the attributes that -C counts)",
        )
        which.add_argument(
            "--targets-from",
            type=Path,
            metavar="FILE",
            help="predict the columns that a file names: Mulan's labels in XML, or a text with a name on each line",
        )

    def add_arguments(self, group: argparse._ArgumentGroup) -> None:
        self.add_regularizer(group)
        add_choice(group, "projection", _PROJECTIONS, "the set that scores are projected to", kind="structure")
        group.add_argument(
            "--low", type=count(0), default=0, metavar="N", help="least labels of a prediction, for budget (default: 0)"
        )
        group.add_argument(
            "--high",
            type=_high,
            default="auto",
            metavar="N",
            help="most labels of a prediction, for budget (default: auto, the mean plus the standard deviation of the "
            "number of labels in training, rounded up)",
        )

    def estimator(self, args: argparse.Namespace) -> Any:
        from ..estimators.multilabel import MultilabelClassifier

        return MultilabelClassifier(low=args.low, high=args.high, **self.estimator_options(args))

    # -- truths --------------------------------------------------------------------------------------------------------

    def targets(self, table: Table, args: argparse.Namespace) -> list[str]:
        from ..data.labels import meka_labels, read_label_names
        from ..data.svmlight import LABEL, is_svmlight

        named, origin = args.targets, "--targets"
        if args.targets_from is not None:
            named, origin = read_label_names(args.targets_from), str(args.targets_from)
        if named:
            twice = next((x for i, x in enumerate(named) if x in named[:i]), None)
            if twice is not None:
                raise InvalidInput(f"{origin} names {twice!r} twice")
            return list(named)
        prefix = args.targets_prefix
        if prefix is None:
            found = meka_labels(args.data)
            if found:
                return found
            if not is_svmlight(args.data):
                raise InvalidInput(
                    "--task multilabel needs --targets COL COL ..., --targets-prefix PREFIX or --targets-from FILE"
                )
            prefix = LABEL
        found = [name for name in table.names if name.startswith(prefix)]
        if not found:
            raise InvalidInput(f"{table.source} has no column whose name begins with {prefix!r}")
        return found

    def features(self, columns: Table, args: argparse.Namespace) -> Table:
        from ..data.svmlight import is_label, is_svmlight

        # Labels of a svmlight file that are not to be predicted are labels all the same.
        return columns.drop([name for name in columns.names if is_label(name)]) if is_svmlight(args.data) else columns

    def truths(self, table: Table, targets: list[str], args: argparse.Namespace) -> Truths:
        import numpy as np

        sets = _label_sets(table, targets)
        rows = sets.sum(axis=0)
        if not ((rows > 0) & (rows < len(sets))).any():
            raise InvalidInput(f"{table.source}: no label differs between rows; nothing to learn")
        notes = []
        for n, word in ((0, "no row has"), (len(sets), "all rows have")):
            same = [name for name, known in zip(targets, rows, strict=True) if known == n]
            if same:
                notes.append(f"{word} the label{'s' if len(same) > 1 else ''} {few(same)}")
        names = np.empty(len(targets), dtype=object)
        names[:] = targets
        return Truths(sets, names, np.zeros(len(sets), dtype=np.int64), notes, sets)

    def known_truths(self, model: TableModel, table: Table) -> Array:
        names = model.classes_.tolist()
        _warn_of_unknown_labels(table, names)
        return _label_sets(table, names)

    def facts(self, truths: Truths) -> dict[str, Any]:
        return {
            "labels": truths.names.tolist(),
            "label_rows": truths.values.sum(axis=0).tolist(),
            "labels_per_row": float(truths.values.sum(axis=1).mean()),
        }

    def told_target(self, report: dict[str, Any]) -> str:
        labels = report["labels"]
        return f"{counted(len(labels), 'label')}, {report['labels_per_row']:.3g} a row: {few(labels)}"

    # -- scores --------------------------------------------------------------------------------------------------------

    def cost(self, estimator: Any) -> CostFunction:
        return wrong_share

    def metrics(self, report: dict[str, Any]) -> dict[str, str]:
        return {"mean_cost": "Hamming loss", "f1": "F1 (samples)", "exact_match": "exact match"}

    def constant(self, truth: Array, names: Array, cost: CostFunction, weights: Array | None) -> Any:
        import numpy as np

        return (np.average(truth, axis=0, weights=weights) > 0.5).astype(np.int64)

    def constant_as_written(self, constant: Any, names: Array) -> Any:
        return names[constant == 1].tolist()

    def scores(
        self, predicted: Array, truth: Array, names: Array, cost: CostFunction, weights: Array | None
    ) -> dict[str, Any]:
        import numpy as np

        from .fitting import Weighted

        costs = Weighted.of(cost(predicted, truth), weights)
        both, all_labels = (predicted * truth).sum(axis=1), (predicted + truth).sum(axis=1)
        f1 = np.where(all_labels > 0, 2 * both / np.maximum(all_labels, 1), 1.0)  # an empty set that is right is right
        return {
            "rows": len(truth),
            "mean_cost": costs.mean,
            "standard_error": costs.standard_error,
            "f1": Weighted.of(f1, weights).mean,
            "exact_match": Weighted.of((predicted == truth).all(axis=1).astype(float), weights).mean,
        }

    # -- use -----------------------------------------------------------------------------------------------------------

    def predictions(self, model: TableModel, table: Table, *, proba: bool) -> Iterator[list[str]]:
        names = model.classes_.tolist()
        sets = model.predict_codes(table)
        if not proba:
            return _lines(names, sets, None)
        if model.estimator.projection not in _WITH_MARGINALS:
            raise InvalidInput(
                f"--proba needs a model fitted with --projection {' or '.join(_WITH_MARGINALS)}; on "
                f"{model.estimator.projection!r} scores are projected to points that are no probabilities"
            )
        return _lines([*names, *(f"p({name})" for name in names)], sets, model.predict_marginals(table))

    def describe(self, model: TableModel) -> dict[str, Any]:
        bounds = {}
        if model.estimator.projection == "budget":
            bounds = {"low": model.estimator.low_, "high": model.estimator.high_}
        return {**super().describe(model), **bounds}


def _high(text: str) -> int | str:
    try:
        return text if text == "auto" else count(0)(text)
    except ArgumentTypeError as error:
        raise ArgumentTypeError(f"{error}, or auto") from None


def _warn_of_unknown_labels(table: Table, names: list[str]) -> None:
    """Say which labels of a svmlight file are not scored, because the model was trained on rows without them."""
    import warnings

    from ..data.svmlight import is_label

    if all(map(is_label, names)):
        unknown = [name for name in table.names if is_label(name) and name not in names]
        if unknown:
            warnings.warn(
                f"{table.source} has labels that the model does not know and that are not scored: {few(unknown)}",
                UserWarning,
                stacklevel=2,
            )


def _label_sets(table: Table, targets: list[str]) -> Array:
    """The columns as rows of zeros and ones."""
    import numpy as np

    sets = np.empty((len(table), len(targets)), dtype=np.int64)
    for j, name in enumerate(targets):
        column = table[name]
        refuse_missing(table, name)
        if column.dtype == object:
            texts = [text.lower() for text in column]
            yes, no = np.isin(texts, _YES), np.isin(texts, _NO)
        else:
            yes, no = column == 1, column == 0
        if not (yes | no).all():
            row = int(np.argmin(yes | no))
            value = column[row]
            raise InvalidInput(
                f"{table.source}, {table.where(row)}: the label {name!r} is "
                f"{value if isinstance(value, str) else format(value, 'g')}, expected 0 or 1"
            )
        sets[:, j] = yes
    return sets


def _lines(header: list[str], sets: Array, marginals: Array | None) -> Iterator[list[str]]:
    yield header
    for i, row in enumerate(sets.tolist()):
        yield [*map(str, row), *([] if marginals is None else shares(marginals[i]))]
