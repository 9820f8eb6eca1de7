"""``--task classify``: one of several classes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from .._core import registry
from .._core.errors import InvalidInput
from .console import columns, duration, number
from .task import Task

if TYPE_CHECKING:
    import argparse

    from .._core.types import Array
    from ..data.tables import Table
    from .model import TableModel
    from .progress import Progress

__all__ = ["Classify"]

_COSTS = ("zero_one", "absolute")
_PROJECTIONS = ("simplex", "cube", "nonnegative", "reals")
_MOST_SHOWN = 20


class Classify(Task):
    """A class, by a projection loss."""

    name = "classify"
    summary = "one of several classes"

    # -- fit -----------------------------------------------------------------------------------------------------------

    def add_arguments(self, group: argparse._ArgumentGroup) -> None:
        _choice(group, "regularizer", [entry.name for entry in registry.entries("regularizer")], "what makes the loss")
        _choice(group, "cost", _COSTS, "what a mistake costs; predictions have the least expected cost")
        _choice(group, "projection", _PROJECTIONS, "the set that scores are projected to", kind="structure")
        group.add_argument(
            "--order",
            nargs="+",
            metavar="CLASS",
            help="the classes from the lowest grade to the highest, for --cost absolute "
            "(default: numbers by size, texts by alphabet)",
        )

    def estimator(self, args: argparse.Namespace) -> Any:
        """The estimator that the options ask for, alpha still to be set."""
        from ..estimators.classify import FenchelYoungClassifier

        return FenchelYoungClassifier(
            regularizer=args.regularizer,
            cost=args.cost,
            projection=args.projection,
            tol=args.tol,
            max_iter=args.max_iter,
            random_state=args.seed,
        )

    def fit(self, table: Table, args: argparse.Namespace, progress: Progress) -> tuple[TableModel, dict[str, Any]]:
        import warnings
        from time import perf_counter

        import numpy as np
        from sklearn.base import clone

        from .._core.errors import ConvergenceWarning
        from ..data.tables import TableEncoder
        from . import fitting
        from .model import TableModel

        start = perf_counter()
        features = fitting.split_columns(table, args.target, args.drop, args.weight)
        weights = fitting.row_weights(table, args.weight)
        codes, classes, notes = read_classes(table, args.target, args.order)
        TableEncoder(args.max_categories).fit(features)  # what all rows together make it refuse is refused first
        if args.cost == "absolute" and classes.dtype == object and args.order is None:
            notes.append(
                f"grades are taken in alphabetical order, {_few(classes)}; if that is wrong, give them with --order"
            )
        rng = np.random.default_rng(args.seed)
        held = fitting.held_out_rows(codes, args.test_share, rng)
        estimator = self.estimator(args)
        cost = _cost_of(estimator)
        n_fits = 1 + bool(held.any()) + (args.alpha is None) * fitting.FOLDS * len(fitting.ALPHAS)
        done = [0]

        def tick(what: str) -> None:
            progress(done[0] / n_fits, what)
            done[0] += 1

        def model(alpha: float, rows: Any) -> TableModel:
            made = TableModel(
                TableEncoder(args.max_categories), clone(estimator).set_params(alpha=alpha), args.target, self.name
            )
            part = None if weights is None else weights[rows]
            return made.fit(features.take(rows), codes[rows], part, classes=np.arange(len(classes)))

        inside, outside = np.flatnonzero(~held), np.flatnonzero(held)
        inside_weights = None if weights is None else weights[inside]
        if args.alpha is None:
            X = TableEncoder(args.max_categories).fit_transform(features.take(inside))
            alpha = fitting.choose_alpha(estimator, X, codes[inside], inside_weights, cost, rng, tick)
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
            held_out = _scores(predicted, codes[outside], classes, cost, outside_weights)
            constant = _best_constant(codes[inside], len(classes), cost, inside_weights)
            baseline = _scores(np.full(len(outside), constant), codes[outside], classes, cost, outside_weights)
            held_out["baseline"] = {
                "answer": classes[constant],
                **{key: baseline[key] for key in ("accuracy", "mean_cost", "standard_error")},
            }
        elif args.test_share > 0:
            notes.append("there are too few rows to hold any out")

        tick("fit on all rows")
        began = perf_counter()
        final = model(alpha["value"], np.arange(len(codes)))
        seconds = {"cross_validation": alpha.pop("seconds"), "final_fit": perf_counter() - began}
        final.classes_ = classes
        progress(1.0, "done")

        fitted = final.estimator
        report = {
            "task": self.name,
            "data": table.source,
            "target": args.target,
            "rows": len(codes),
            "columns": features.names,
            "dropped": args.drop,
            "weight": args.weight,
            "features": len(final.encoder.get_feature_names_out()),
            "classes": classes.tolist(),
            "class_rows": np.bincount(codes, minlength=len(classes)).tolist(),
            "regularizer": args.regularizer,
            "projection": args.projection,
            "cost": args.cost,
            "seed": args.seed,
            "alpha": alpha,
            "held_out": held_out,
            "final": {
                "rows": len(codes),
                "iterations": fitted.n_iter_,
                "objective": fitted.objective_,
                "duality_gap": fitted.dual_gap_,
                "converged": bool(fitted.converged_),
            },
            "seconds": {**seconds, "total": perf_counter() - start},
            "notes": final.encoder.notes_ + notes,
        }
        return final, report

    def show_fit(self, report: dict[str, Any]) -> str:
        n_columns, n_features = len(report["columns"]), report["features"]
        parts = [
            f"{report['data']}: {report['rows']} rows, {_count(n_columns, 'column')} to learn from"
            + (f" ({_count(n_features, 'feature')})" if n_features != n_columns else "")
            + f", target {report['target']} with {len(report['classes'])} classes: {_few(report['classes'])}",
        ]
        alpha, held = report["alpha"], report["held_out"]
        if alpha["grid"]:
            inside = report["rows"] - (held["rows"] if held else 0)
            rows = [["alpha", f"mean cost ({report['cost']})", ""]]
            for point in alpha["grid"]:
                mark = "<- chosen" if point["alpha"] == alpha["value"] else ""
                rows.append([f"{point['alpha']:g}", _plus_minus(point["cost"], point["standard_error"]), mark])
            parts.append(f"Cross-validation of alpha, {alpha['folds']} folds of {inside} rows\n" + columns(rows))
        if held:
            base = held["baseline"]
            rows = [["", "accuracy", f"mean cost ({report['cost']})"]]
            for name, scores in (("this model", held), (f"always {label(base['answer'])}", base)):
                spread = _plus_minus(scores["mean_cost"], scores["standard_error"])
                rows.append([name, f"{scores['accuracy']:.4f}", spread])
            parts.append(f"On {held['rows']} held-out rows\n" + columns(rows))
        final, seconds = report["final"], report["seconds"]
        gap = f"{number(final['duality_gap'], 2)} ({'within' if final['converged'] else 'NOT within'} tolerance)"
        times = f"{duration(seconds['final_fit'])}" + (
            f", cross-validation {duration(seconds['cross_validation'])}" if alpha["grid"] else ""
        )
        rows = [
            ["loss", f"{report['regularizer']} on {report['projection']}"],
            ["alpha", f"{alpha['value']:g} (by {alpha['chosen_by']})".replace("by default", "default")],
            ["iterations", str(final["iterations"])],
            ["objective", number(final["objective"], 6)],
            ["duality gap", gap],
            ["time", times],
        ]
        parts.append(f"The saved model is trained on all {final['rows']} rows\n" + columns(rows, header=False, left=2))
        if report["notes"]:
            parts.append("Notes\n" + "\n".join(f"  - {note}" for note in report["notes"]))
        return "\n\n".join(parts)

    # -- use -----------------------------------------------------------------------------------------------------------

    def text_columns(self, model: TableModel) -> list[str]:
        return super().text_columns(model) + ([model.target] if model.classes_.dtype == object else [])

    def predictions(self, model: TableModel, table: Table, *, proba: bool) -> Iterator[list[str]]:
        labels = [label(value) for value in model.classes_.tolist()]
        codes = model.predict_codes(table)
        if not proba:
            return _lines(["prediction"], labels, codes, None)
        if not hasattr(model.estimator, "predict_proba"):
            raise InvalidInput(
                f"--proba needs a model fitted with --projection simplex; on {model.estimator.projection!r} scores "
                "are projected to points that are no probabilities"
            )
        header = ["prediction", *(f"p({name})" for name in labels)]
        return _lines(header, labels, codes, model.predict_proba(table))

    def evaluate(self, model: TableModel, table: Table, *, weight: str | None) -> dict[str, Any]:
        from . import fitting

        weights = fitting.row_weights(table, weight)
        truth = _known_codes(table, model.target, model.classes_)
        scores = _scores(model.predict_codes(table), truth, model.classes_, _cost_of(model.estimator), weights)
        cost = model.estimator.cost
        return {"task": self.name, "data": table.source, "target": model.target, "cost": cost, **scores}

    def show_evaluation(self, report: dict[str, Any]) -> str:
        head = [
            ["rows", str(report["rows"])],
            ["accuracy", f"{report['accuracy']:.4f}"],
            [f"mean cost ({report['cost']})", _plus_minus(report["mean_cost"], report["standard_error"])],
        ]
        rows = [["class", "rows", "precision", "recall", "F1"]]
        for line in report["classes"]:
            scores = ["-" if line[key] is None else f"{line[key]:.4f}" for key in ("precision", "recall", "f1")]
            rows.append([label(line["class"]), str(line["rows"]), *scores])
        return "\n\n".join(
            [
                f"{report['data']}, target {report['target']}\n" + columns(head, header=False, left=2),
                columns(rows),
            ]
        )

    def describe(self, model: TableModel) -> dict[str, Any]:
        estimator = model.estimator
        return {
            "classes": model.classes_.tolist(),
            **{key: getattr(estimator, key) for key in ("regularizer", "projection", "cost", "alpha")},
            "iterations": estimator.n_iter_,
            "objective": estimator.objective_,
            "duality_gap": estimator.dual_gap_,
            "converged": bool(estimator.converged_),
        }


def _choice(group: argparse._ArgumentGroup, name: str, choices: Any, text: str, kind: str | None = None) -> None:
    """An option that takes the names of registry lines; its help is made of their summaries."""
    told = "; ".join(f"{choice}: {registry.find(kind or name, choice).summary}" for choice in choices)
    default = choices[0]
    group.add_argument(
        f"--{name}", choices=choices, default=default, help=f"{text} (default: {default}). {told}".replace("%", "%%")
    )


# -- classes of a column -----------------------------------------------------------------------------------------------


def label(value: Any) -> str:
    """A class as it is written in a table."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return repr(value) if isinstance(value, float) else str(value)


def read_classes(table: Table, target: str, order: list[str] | None) -> tuple[Array, Array, list[str]]:
    """The classes of a column in their order, the code of each row, and notes. Whole numbers become integers."""
    import numpy as np

    column = table[target]
    _refuse_missing(table, target)
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
    if column.dtype == object:
        classes = np.empty(k, dtype=object)
        classes[:] = values.tolist()
    else:
        classes = (
            values.astype(np.int64) if (values == np.round(values)).all() and np.abs(values).max() < 2**53 else values
        )
    if order is not None:
        places = _places(table, target, [label(value) for value in classes.tolist()], order)
        codes, classes = np.argsort(places)[codes], classes[places]
    counts = np.bincount(codes, minlength=k)
    single = [label(classes.tolist()[c]) for c in np.flatnonzero(counts == 1)]
    notes = [f"only one row has the class {', '.join(single)}: it cannot be held out"] if single else []
    return codes.astype(np.int64), classes, notes


def _refuse_missing(table: Table, target: str) -> None:
    row = table.first_missing(target)
    if row is not None:
        raise InvalidInput(f"{table.source}, {table.where(row)}: the target {target!r} is missing")


def _places(table: Table, target: str, labels: list[str], order: list[str]) -> list[int]:
    if len(set(order)) < len(order):
        raise InvalidInput(f"--order names {next(x for i, x in enumerate(order) if x in order[:i])!r} twice")
    for name in order:
        if name not in labels:
            raise InvalidInput(f"--order names {name!r}, but {target!r} in {table.source} holds {_few(labels)}")
    for name in labels:
        if name not in order:
            raise InvalidInput(f"--order leaves out {name!r}, which {target!r} in {table.source} holds")
    return [labels.index(name) for name in order]


def _known_codes(table: Table, target: str, classes: Array) -> Array:
    """The codes of a column of classes that a model knows."""
    import numpy as np

    column = table[target]
    _refuse_missing(table, target)
    known = {label(value): code for code, value in enumerate(classes.tolist())}
    values, at, inverse = np.unique(
        column.astype(str) if column.dtype == object else column, return_index=True, return_inverse=True
    )
    codes = [known.get(label(value)) for value in values.tolist()]
    if None in codes:
        i = codes.index(None)
        raise InvalidInput(
            f"{table.source}, {table.where(int(at[i]))}: the target {target!r} is {label(values.tolist()[i])!r}, which "
            f"the model does not know; its classes are {_few(classes)}"
        )
    return np.array(codes, dtype=np.int64)[inverse]


def _few(classes: Any) -> str:
    labels = [label(value) for value in list(classes)]
    return ", ".join(labels) if len(labels) <= _MOST_SHOWN else ", ".join(labels[:_MOST_SHOWN]) + ", ..."


def _plus_minus(mean: float, error: float) -> str:
    return f"{mean:.4f} ± {error:.4f}"


def _count(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def _lines(header: list[str], labels: list[str], codes: Array, proba: Array | None) -> Iterator[list[str]]:
    yield header
    for i, code in enumerate(codes.tolist()):
        yield [labels[code]] if proba is None else [labels[code], *map(repr, proba[i].tolist())]


# -- scores ------------------------------------------------------------------------------------------------------------


def _cost_of(estimator: Any) -> Callable[[Array, Array], Array]:
    from ..estimators.base import make_cost

    return make_cost(estimator.cost)


def _best_constant(codes: Array, k: int, cost: Callable[[Array, Array], Array], weights: Array | None) -> int:
    """The class that costs least on these rows when it is always the answer (the majority class under zero_one)."""
    import numpy as np

    counts = np.bincount(codes, weights=weights, minlength=k)
    totals = [counts @ cost(np.full(k, c), np.arange(k)) for c in range(k)]
    return int(np.argmin(totals))


def _scores(
    predicted: Array, truth: Array, classes: Array, cost: Callable[[Array, Array], Array], weights: Array | None
) -> dict[str, Any]:
    """Accuracy, mean cost and, for each class, precision, recall and F1; all means weighted."""
    import numpy as np

    from .fitting import Weighted

    k = len(classes)
    if weights is not None and not weights.any():
        raise InvalidInput("the weights of the rows to score are all zero")
    costs = Weighted.of(cost(predicted, truth), weights)
    confusion = np.bincount(truth * k + predicted, weights=weights, minlength=k * k).reshape(k, k)
    right, true, said = confusion.diagonal(), confusion.sum(axis=1), confusion.sum(axis=0)
    rows = np.bincount(truth, minlength=k)

    def share(part: float, whole: float) -> float | None:
        return float(part / whole) if whole > 0 else None

    return {
        "rows": len(truth),
        "accuracy": Weighted.of((predicted == truth).astype(float), weights).mean,
        "mean_cost": costs.mean,
        "standard_error": costs.standard_error,
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
