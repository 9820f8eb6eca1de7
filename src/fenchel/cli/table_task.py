"""What tasks on tables share: held-out rows, alpha by cross-validation, the final fit, and how these are told."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .._core import registry
from .._core.errors import InvalidInput
from .arguments import add_choice
from .console import columns, duration, number
from .task import Task, training_state

if TYPE_CHECKING:
    import argparse

    from .._core.types import Array
    from ..data.tables import Table
    from .model import TableModel
    from .progress import Progress

__all__ = [
    "CostFunction",
    "TableTask",
    "Truths",
    "counted",
    "few",
    "label",
    "plus_minus",
    "refuse_missing",
    "shares",
    "wrong_share",
]

CostFunction = Callable[["Array", "Array"], "Array"]

_MOST_SHOWN = 12
_MOST_NOTES = 12


@dataclass(frozen=True)
class Truths:
    """The true answers of a table."""

    values: Array
    """A code (classes) or a row of numbers (label sets, ranks) for each row of the table."""
    names: Array
    """What the codes, or the places in a row, are called."""
    strata: Array
    """Small codes; each keeps its share of rows in every part of a split."""
    notes: list[str]
    taught: Array
    """What the saved estimator is trained on: ``values``, or the same as users write it."""


class TableTask(Task):
    """A task that an estimator with a penalty ``alpha`` does on the features of a table."""

    regularizers: tuple[str, ...] | None = None
    """Those that can be asked for (None: all)."""

    # -- what each task says -------------------------------------------------------------------------------------------

    @abstractmethod
    def estimator(self, args: argparse.Namespace) -> Any:
        """The estimator that the options ask for, alpha still to be set."""

    def targets(self, table: Table, args: argparse.Namespace) -> list[str]:
        """The columns with the truth."""
        return [args.target]

    def features(self, columns: Table, args: argparse.Namespace) -> Table:
        """The columns to learn from, of those that are neither targets nor dropped."""
        return columns

    @abstractmethod
    def truths(self, table: Table, targets: list[str], args: argparse.Namespace) -> Truths:
        """The truth of each row, to train on."""

    @abstractmethod
    def known_truths(self, model: TableModel, table: Table) -> Array:
        """The truth of each row, in the codes of a model."""

    @abstractmethod
    def cost(self, estimator: Any) -> CostFunction:
        """What predictions cost, a number for each row: what alpha is chosen by."""

    @abstractmethod
    def constant(self, truth: Array, names: Array, cost: CostFunction, weights: Array | None) -> Any:
        """The answer of the baseline, which is the same for all rows."""

    @abstractmethod
    def constant_as_written(self, constant: Any, names: Array) -> Any:
        """That answer for reports."""

    @abstractmethod
    def scores(
        self, predicted: Array, truth: Array, names: Array, cost: CostFunction, weights: Array | None
    ) -> dict[str, Any]:
        """The scores of predictions; rows, mean_cost and standard_error among them."""

    @abstractmethod
    def metrics(self, report: dict[str, Any]) -> dict[str, str]:
        """The scores that summaries show, with their titles."""

    @abstractmethod
    def facts(self, truths: Truths) -> dict[str, Any]:
        """What the report says of the truths."""

    @abstractmethod
    def told_target(self, report: dict[str, Any]) -> str:
        """What a summary says of the truths."""

    # -- fit -----------------------------------------------------------------------------------------------------------

    def add_regularizer(self, group: argparse._ArgumentGroup) -> None:
        names = self.regularizers or tuple(entry.name for entry in registry.entries("regularizer"))
        add_choice(group, "regularizer", names, "what makes the loss")

    def estimator_options(self, args: argparse.Namespace) -> dict[str, Any]:
        """The parameters that estimators of all tasks take."""
        return {
            "regularizer": args.regularizer,
            "projection": args.projection,
            "tol": args.tol,
            "max_iter": args.max_iter,
            "random_state": args.seed,
        }

    def fit(self, table: Table, args: argparse.Namespace, progress: Progress) -> tuple[TableModel, dict[str, Any]]:
        import warnings
        from time import perf_counter

        import numpy as np
        from sklearn.base import clone

        from .._core.errors import ConvergenceWarning
        from ..data.encoder import TableEncoder
        from . import fitting
        from .model import TableModel

        start = perf_counter()
        targets = self.targets(table, args)
        features = self.features(fitting.split_columns(table, targets, args.drop, args.weight), args)
        weights = fitting.row_weights(table, args.weight)
        truths = self.truths(table, targets, args)
        n, y, notes = len(table), truths.values, list(truths.notes)
        TableEncoder(args.max_categories).fit(features)  # what all rows together make it refuse is refused first
        rng = np.random.default_rng(args.seed)
        held = fitting.held_out_rows(truths.strata, args.test_share, rng)
        estimator = self.estimator(args)
        cost = self.cost(estimator)
        n_fits = 1 + bool(held.any()) + (args.alpha is None) * fitting.FOLDS * len(fitting.ALPHAS)
        done = [0]
        target = targets if self.many_targets else targets[0]

        def tick(what: str) -> None:
            progress(done[0] / n_fits, what)
            done[0] += 1

        def model(alpha: float, rows: Any) -> TableModel:
            made = TableModel(
                TableEncoder(args.max_categories), clone(estimator).set_params(alpha=alpha), target, self.name
            )
            part = None if weights is None else weights[rows]
            names = np.arange(len(truths.names))
            return made.fit(features.take(rows), truths.taught[rows], part, classes=names)

        inside, outside = np.flatnonzero(~held), np.flatnonzero(held)
        inside_weights = None if weights is None else weights[inside]
        if args.alpha is None:
            X = TableEncoder(args.max_categories).fit_transform(features.take(inside))
            alpha = fitting.choose_alpha(
                estimator, X, y[inside], truths.strata[inside], inside_weights, cost, rng, tick
            )
        else:
            alpha = {"value": args.alpha, "chosen_by": "--alpha", "folds": 0, "grid": [], "notes": [], "seconds": 0.0}
        notes += alpha.pop("notes")

        held_out = None
        if len(outside):
            tick("fit for the held-out rows")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # the final fit will say so
                rest = model(alpha["value"], inside)
            outside_weights = None if weights is None else weights[outside]
            predicted = rest.predict_codes(features.take(outside))
            held_out = self.scores(predicted, y[outside], truths.names, cost, outside_weights)
            constant = self.constant(y[inside], truths.names, cost, inside_weights)
            always = np.broadcast_to(constant, y[outside].shape)
            baseline = self.scores(always, y[outside], truths.names, cost, outside_weights)
            held_out["baseline"] = {
                "answer": self.constant_as_written(constant, truths.names),
                **{key: value for key, value in baseline.items() if isinstance(value, float)},
            }
        elif args.test_share > 0:
            notes.append("there are too few rows to hold any out")

        tick("fit on all rows")
        began = perf_counter()
        final = model(alpha["value"], np.arange(n))
        seconds = {"cross_validation": alpha.pop("seconds"), "final_fit": perf_counter() - began}
        final.classes_ = truths.names
        progress(1.0, "done")

        fitted = final.estimator
        report = {
            "task": self.name,
            "data": table.source,
            "target": target,
            "rows": n,
            "columns": features.names,
            "dropped": args.drop,
            "weight": args.weight,
            "features": len(final.encoder.get_feature_names_out()),
            **self.facts(truths),
            **self.how(fitted),
            "seed": args.seed,
            "alpha": alpha,
            "held_out": held_out,
            "final": {
                "rows": n,
                **training_state(fitted),
            },
            "seconds": {**seconds, "total": perf_counter() - start},
            "notes": final.encoder.notes_ + notes,
        }
        return final, report

    def show_fit(self, report: dict[str, Any]) -> str:
        n_columns, n_features = len(report["columns"]), report["features"]
        parts = [
            f"{report['data']}: {report['rows']} rows, {counted(n_columns, 'column')} to learn from"
            + (f" ({counted(n_features, 'feature')})" if n_features != n_columns else "")
            + f", {self.told_target(report)}",
        ]
        alpha, held = report["alpha"], report["held_out"]
        metrics = self.metrics(report)
        if alpha["grid"]:
            inside = report["rows"] - (held["rows"] if held else 0)
            rows = [["alpha", metrics.get("mean_cost", f"mean cost ({report['cost']})"), ""]]
            for point in alpha["grid"]:
                mark = "<- chosen" if point["alpha"] == alpha["value"] else ""
                rows.append([f"{point['alpha']:g}", plus_minus(point["cost"], point["standard_error"]), mark])
            parts.append(f"Cross-validation of alpha, {alpha['folds']} folds of {inside} rows\n" + columns(rows))
        if held:
            base = held["baseline"]
            rows = [["", *metrics.values()]]
            answer = base["answer"] if isinstance(base["answer"], list) else [base["answer"]]
            for name, scores in (("this model", held), (f"always {few(answer) or 'none'}", base)):
                rows.append([name, *_shown_scores(scores, metrics)])
            parts.append(f"On {held['rows']} held-out rows\n" + columns(rows))
        final, seconds = report["final"], report["seconds"]
        gap = f"{number(final['duality_gap'], 2)} ({'within' if final['converged'] else 'NOT within'} tolerance)"
        times = f"{duration(seconds['final_fit'])}" + (
            f", cross-validation {duration(seconds['cross_validation'])}" if alpha["grid"] else ""
        )
        rows = [
            ["loss", self.told_loss(report)],
            ["alpha", f"{alpha['value']:g} (by {alpha['chosen_by']})".replace("by default", "default")],
            ["iterations", str(final["iterations"])],
            ["objective", number(final["objective"], 6)],
            ["duality gap", gap],
            ["time", times],
        ]
        parts.append(f"The saved model is trained on all {final['rows']} rows\n" + columns(rows, header=False, left=2))
        notes = report["notes"]
        if len(notes) > _MOST_NOTES:
            notes = [*notes[: _MOST_NOTES - 1], f"{len(notes) - _MOST_NOTES + 1} more, which --json lists"]
        if notes:
            parts.append("Notes\n" + "\n".join(f"  - {note}" for note in notes))
        return "\n\n".join(parts)

    # -- use -----------------------------------------------------------------------------------------------------------

    def evaluate(self, model: TableModel, table: Table, *, weight: str | None) -> dict[str, Any]:
        from . import fitting

        weights = fitting.row_weights(table, weight)
        truth = self.known_truths(model, table)
        scores = self.scores(model.predict_codes(table), truth, model.classes_, self.cost(model.estimator), weights)
        cost = self.how(model.estimator)["cost"]
        return {"task": self.name, "data": table.source, "target": model.target, "cost": cost, **scores}

    def how(self, estimator: Any) -> dict[str, Any]:
        """What of an estimator's parameters reports name; the cost among them."""
        return {key: getattr(estimator, key) for key in ("regularizer", "projection", "cost")}

    def told_loss(self, report: dict[str, Any]) -> str:
        """What a summary says of the loss."""
        return f"{report['regularizer']} on {report['projection']}"

    def show_evaluation(self, report: dict[str, Any]) -> str:
        metrics = self.metrics(report)
        shown = _shown_scores(report, metrics)
        head = [["rows", str(report["rows"])], *map(list, zip(metrics.values(), shown, strict=True))]
        target = report["target"]
        told = f"target {target}" if isinstance(target, str) else f"{counted(len(target), 'label')}: {few(target)}"
        return f"{report['data']}, {told}\n" + columns(head, header=False, left=2)

    def describe(self, model: TableModel) -> dict[str, Any]:
        estimator = model.estimator
        return {
            self.names_key: model.classes_.tolist(),
            **self.how(estimator),
            "alpha": estimator.alpha,
            **training_state(estimator),
        }

    def headline(self, report: dict[str, Any]) -> dict[str, Any]:
        return {title: report["held_out"][key] for key, title in self.metrics(report).items()}


def _shown_scores(scores: dict[str, Any], metrics: dict[str, str]) -> list[str]:
    """Scores as texts, the mean cost with its standard error."""
    return [
        plus_minus(scores[key], scores["standard_error"]) if key == "mean_cost" else f"{scores[key]:.4f}"
        for key in metrics
    ]


# -- words -------------------------------------------------------------------------------------------------------------


def label(value: Any) -> str:
    """A class as it is written in a table."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return repr(float(value)) if isinstance(value, float) else str(value)


def few(values: Any) -> str:
    labels = [label(value) for value in list(values)]
    return ", ".join(labels) if len(labels) <= _MOST_SHOWN else ", ".join(labels[:_MOST_SHOWN]) + ", ..."


def shares(row: Array) -> list[str]:
    """Probabilities in full, so that they can be read back; a projection's -0 is 0."""
    return [repr(value) for value in (row + 0.0).tolist()]


def plus_minus(mean: float, error: float) -> str:
    return f"{mean:.4f} ± {error:.4f}"


def counted(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def refuse_missing(table: Table, target: str) -> None:
    row = table.first_missing(target)
    if row is not None:
        raise InvalidInput(f"{table.source}, {table.where(row)}: the target {target!r} is missing")


def wrong_share(predicted: Array, truth: Array) -> Array:
    """The share of wrong parts of each answer, by which the Hamming cost of answers of all sizes compares."""
    return (predicted != truth).mean(axis=1)
