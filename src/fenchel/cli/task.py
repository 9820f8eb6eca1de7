"""The contract of a task of the command line."""

from __future__ import annotations

import csv
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from .console import duration, number

if TYPE_CHECKING:
    import argparse

    from ..data.tables import Table
    from .model import TableModel
    from .progress import Progress

__all__ = ["Task", "final_rows", "training_state"]


class Task(ABC):
    """What the commands ask of a task. Reports are dicts that become JSON as they are."""

    name: str
    summary: str
    many_targets = False
    """Whether several columns are predicted."""
    names_key = "classes"
    """What reports call the names of the answers."""
    data = "a table: .csv, .tsv, .arff, .svm or .svmlight (all also .gz), or .parquet"
    """What ``fenchel fit`` reads."""
    examples: tuple[str, ...] = ()
    """Arguments of ``fenchel fit`` for the end of its help; by default those of tables."""
    columns = True
    """Whether DATA has columns to drop or to weigh by."""
    tol, max_iter = 1e-4, 1000
    """When training stops, unless the options say it."""

    def add_target(self, parser: argparse.ArgumentParser) -> None:
        """Add the option that says what is predicted."""
        parser.add_argument("--target", required=True, metavar="COLUMN", help="the column to predict")

    @abstractmethod
    def add_arguments(self, group: argparse._ArgumentGroup) -> None:
        """Add the options of ``fenchel fit`` that only this task has."""

    @abstractmethod
    def fit(self, table: Table, args: argparse.Namespace, progress: Progress) -> tuple[TableModel, dict[str, Any]]:
        """Choose alpha, score on held-out rows, train on all rows: the model and a report.

        Besides what the task adds, ``args`` has data, drop, weight, alpha (None: cross-validate), test_share, seed,
        tol, max_iter and max_categories.
        """

    @abstractmethod
    def show_fit(self, report: dict[str, Any]) -> str:
        """The report of :meth:`fit` for people."""

    def text_columns(self, model: TableModel) -> list[str]:
        """The columns that must be read as they are written, digits or not."""
        encoder = model.encoder
        return [
            str(name) for name, numeric in zip(encoder.feature_names_in_, encoder.numeric_, strict=True) if not numeric
        ]

    def needed_columns(self, model: TableModel, *, truth: bool) -> list[str]:
        """The columns that must be there, with zeros where a sparse file does not mention them."""
        names = [str(name) for name in model.encoder.feature_names_in_]
        return names + ([*model.target] if truth and self.many_targets else [])

    def read_training(self, args: argparse.Namespace) -> Any:
        """What ``fenchel fit`` learns from."""
        from ..data.reading import read_table

        return read_table(args.data, label_sets=self.many_targets)

    def read_inputs(self, model: TableModel, path: Path, *, truth: bool) -> Any:
        """What ``fenchel predict`` answers, or with the ``truth`` ``fenchel evaluate`` scores."""
        from ..data.reading import read_table

        return read_table(
            path,
            text=self.text_columns(model),
            label_sets=self.many_targets and truth,
            needed=self.needed_columns(model, truth=truth),
        )

    def write(self, stream: TextIO, lines: Iterator[list[str]]) -> None:
        """Write predictions."""
        csv.writer(stream, lineterminator="\n").writerows(lines)

    @abstractmethod
    def predictions(self, model: TableModel, table: Table, *, proba: bool) -> Iterator[list[str]]:
        """The predictions as rows of texts, a header first. What can fail does so before the first row."""

    @abstractmethod
    def evaluate(self, model: TableModel, table: Table, *, weight: str | None) -> dict[str, Any]:
        """Score the model on a table that has the truth."""

    @abstractmethod
    def show_evaluation(self, report: dict[str, Any]) -> str:
        """The report of :meth:`evaluate` for people."""

    @abstractmethod
    def describe(self, model: TableModel) -> dict[str, Any]:
        """What ``fenchel info`` adds for this task: how the model is made, in the order of printing."""

    @abstractmethod
    def headline(self, report: dict[str, Any]) -> dict[str, Any]:
        """The scores on held-out rows that ``fenchel info`` shows, by their titles."""


def training_state(estimator: Any) -> dict[str, Any]:
    """How far a fitted estimator was trained, for reports."""
    return {
        "iterations": estimator.n_iter_,
        "objective": estimator.objective_,
        "duality_gap": estimator.dual_gap_,
        "converged": bool(estimator.converged_),
    }


def final_rows(report: dict[str, Any]) -> list[list[str]]:
    """The rows on the final fit in a summary: what was trained, how far, and how long it took."""
    alpha, final, seconds = report["alpha"], report["final"], report["seconds"]
    return [
        ["loss", report["loss"]],
        ["alpha", f"{alpha['value']:g} (by {alpha['chosen_by']})".replace("by default", "default")],
        ["iterations", str(final["iterations"])],
        ["objective", number(final["objective"], 6)],
        ["duality gap", number(final["duality_gap"], 2)],
        ["time", f"{duration(seconds['final_fit'])}, all in all {duration(seconds['total'])}"],
    ]
