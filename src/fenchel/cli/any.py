"""``--task any``: outputs of any kind, by the loss trick."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .._core.errors import InvalidInput
from .arguments import add_choice, count, positive
from .console import columns, duration
from .table_task import counted, few, plus_minus, refuse_missing
from .task import Task

if TYPE_CHECKING:
    from .._core.types import Array
    from ..data.tables import Table
    from .model import TableModel
    from .progress import Progress

__all__ = ["AnyOutput"]

_COSTS = (
    "squared", "absolute", "zero_one", "huber", "cauchy", "geman_mcclure", "fair", "l2_l1", "epsilon_insensitive",
    "pinball", "logistic", "hinge", "hellinger", "chi_squared", "kernel", "rated_pairs", "diffusion", "edit_distance",
)  # fmt: skip
_ANSWERS = ("auto", "candidates", "line", "histogram", "ranking", "sphere")
_KERNELS = ("rbf", "laplacian", "linear")


class AnyOutput(Task):
    """Numbers, texts, or rows of numbers, with any cost between two of them."""

    name = "any"
    summary = "numbers, texts, histograms, ratings or points, for any cost between two of them"

    def add_target(self, parser: argparse.ArgumentParser) -> None:
        which = parser.add_mutually_exclusive_group(required=True)
        which.add_argument("--target", metavar="COLUMN", help="the column to predict, of numbers or texts")
        which.add_argument(
            "--targets",
            nargs="+",
            metavar="COL",
            help="the columns to predict, of numbers: together they are one output",
        )

    def add_arguments(self, group: argparse._ArgumentGroup) -> None:
        add_choice(group, "cost", _COSTS, "what an answer costs where the truth is another output")
        group.add_argument(
            "--cost-params",
            nargs="+",
            type=_parameter,
            default=[],
            metavar="NAME=X",
            help="what the cost takes, such as scale=0.5, quantile=0.9, squared=false, or gamma=2 with --cost kernel",
        )
        own = {"auto": "what suits the cost"}
        add_choice(group, "answers", _ANSWERS, "how the answer of least expected cost is found", told=own)
        kernels = {"rbf": "exp(-gamma squared distance)", "laplacian": "exp(-gamma distance)", "linear": "a product"}
        add_choice(group, "kernel", _KERNELS, "how alike rows are", told=kernels)
        group.add_argument("--gamma", type=positive, help="of the kernel (default: one over the number of features)")
        group.add_argument(
            "--centres", type=count(1), metavar="N", help="kernels to learn with above 5000 rows (default: 2000)"
        )

    # -- fit -----------------------------------------------------------------------------------------------------------

    def fit(self, table: Table, args: argparse.Namespace, progress: Progress) -> tuple[TableModel, dict[str, Any]]:
        from time import perf_counter

        import numpy as np
        from sklearn.base import clone

        from ..data.encoder import TableEncoder
        from . import fitting
        from .model import TableModel

        start = perf_counter()
        names = [args.target] if args.targets is None else list(args.targets)
        if len(set(names)) < len(names):
            raise InvalidInput(f"--targets names {next(x for x in names if names.count(x) > 1)!r} twice")
        target = args.target if args.targets is None else names
        features = fitting.split_columns(table, names, args.drop, args.weight)
        weights = fitting.row_weights(table, args.weight)
        estimator = self._estimator(args)
        y = _outputs(table, target, args.cost)
        n = len(table)
        rng = np.random.default_rng(args.seed)
        held = fitting.held_out_rows(np.zeros(n, np.int64), args.test_share, rng)
        inside, outside = np.flatnonzero(~held), np.flatnonzero(held)

        def model(rows: Array) -> TableModel:
            made = TableModel(TableEncoder(args.max_categories), clone(estimator), target, self.name)
            part = None if weights is None else weights[rows]
            return made.fit(features.take(rows), y[rows], part, classes=np.array(names, dtype=object))

        held_out = None
        notes = []
        if len(outside):
            progress(0.1, "fit for the held-out rows")
            rest = model(inside)
            outside_weights = None if weights is None else weights[outside]
            held_out = self._scores(rest, features.take(outside), y[outside], outside_weights)
            search = rest.estimator.answers_.search(rest.estimator.cost_, y[inside])
            even = np.ones((1, len(inside))) if weights is None else weights[None, inside]
            means = even / even.sum() if search.embedding is None else even / even.sum() @ search.embedding
            constant = search.answers(means)[0]
            always = _repeated(constant, len(outside))
            base = fitting.Weighted.of(rest.estimator.cost_(always, y[outside]), outside_weights)
            written = constant.tolist() if hasattr(constant, "tolist") else constant
            held_out["baseline"] = {"answer": written, "mean_cost": base.mean, "standard_error": base.standard_error}
        elif args.test_share > 0:
            notes.append("there are too few rows to hold any out")
        progress(0.5, "fit on all rows")
        began = perf_counter()
        final = model(np.arange(n))
        seconds = {"final_fit": perf_counter() - began, "total": perf_counter() - start}
        progress(1.0, "done")
        fitted = final.estimator
        results = getattr(fitted, "cv_results_", None)
        grid = [] if results is None else _grid(results)
        if grid and fitted.alpha_ in (grid[0]["alpha"], grid[-1]["alpha"]):
            notes.append(f"alpha {fitted.alpha_:g} is at the end of the grid; try others with --alpha")
        if args.cost in ("hellinger", "chi_squared") and args.answers == "auto" and _is_listed(fitted):
            notes.append("not all rows of targets sum to 1, so answers are those of training rows, not any histogram")
        return final, {
            "task": self.name,
            "data": table.source,
            "target": target,
            "rows": n,
            "columns": features.names,
            "dropped": args.drop,
            "weight": args.weight,
            "features": len(final.encoder.get_feature_names_out()),
            "cost": args.cost,
            "cost_params": dict(args.cost_params),
            "kernel": args.kernel,
            "answers": type(fitted.answers_).__name__,
            "solver": fitted.solver_,
            "seed": args.seed,
            "alpha": {
                "value": fitted.alpha_,
                "chosen_by": "leaving one out" if grid else "--alpha",
                "grid": grid,
            },
            "held_out": held_out,
            "seconds": seconds,
            "notes": final.encoder.notes_ + notes,
        }

    def _estimator(self, args: argparse.Namespace) -> Any:
        from ..estimators.loss_trick import LossTrickPredictor

        return LossTrickPredictor(
            _cost(args.cost, dict(args.cost_params)),
            kernel=args.kernel,
            kernel_params=None if args.gamma is None or args.kernel == "linear" else {"gamma": args.gamma},
            alpha="loo" if args.alpha is None else args.alpha,
            answers=args.answers,
            n_centres=args.centres,
            random_state=args.seed,
        )

    def show_fit(self, report: dict[str, Any]) -> str:
        held, alpha = report["held_out"], report["alpha"]
        target = report["target"]
        told = f"target {target}" if isinstance(target, str) else f"{counted(len(target), 'target')}: {few(target)}"
        parts = [
            f"{report['data']}: {report['rows']} rows, {counted(len(report['columns']), 'column')} to learn from, {told}"
        ]
        if alpha["grid"]:
            rows = [["alpha", "error of predicted costs", f"mean cost ({report['cost']})", ""]]
            for point in alpha["grid"]:
                mark = "<- chosen" if point["alpha"] == alpha["value"] else ""
                cost = "-" if point["cost"] is None else f"{point['cost']:.4f}"
                rows.append([f"{point['alpha']:g}", f"{point['surrogate_error']:.4g}", cost, mark])
            parts.append("Leaving one row out\n" + columns(rows))
        if held:
            base = held["baseline"]
            answer = base["answer"] if isinstance(base["answer"], list) else [base["answer"]]
            rows = [["", f"mean cost ({report['cost']})"]]
            for name, scores in (("this model", held), (f"always {few(answer)}", base)):
                rows.append([name, plus_minus(scores["mean_cost"], scores["standard_error"])])
            parts.append(f"On {held['rows']} held-out rows\n" + columns(rows))
        rows = [
            ["answers", report["answers"]],
            ["kernel", f"{report['kernel']}, {report['solver']}"],
            ["alpha", f"{alpha['value']:g} (by {alpha['chosen_by']})"],
            ["time", duration(report["seconds"]["final_fit"])],
        ]
        parts.append(f"The saved model is trained on all {report['rows']} rows\n" + columns(rows, header=False, left=2))
        if report["notes"]:
            parts.append("Notes\n" + "\n".join(f"  - {note}" for note in report["notes"]))
        return "\n\n".join(parts)

    # -- use -----------------------------------------------------------------------------------------------------------

    def text_columns(self, model: TableModel) -> list[str]:
        texts = super().text_columns(model)
        return [*texts, model.target] if isinstance(model.target, str) and _is_text(model) else texts

    def needed_columns(self, model: TableModel, *, truth: bool) -> list[str]:
        names = [str(name) for name in model.encoder.feature_names_in_]
        return names + ([*model.target] if truth and not isinstance(model.target, str) else [])

    def predictions(self, model: TableModel, table: Table, *, proba: bool) -> Iterator[list[str]]:
        if proba:
            raise InvalidInput("--proba is not for --task any: answers are found without probabilities")
        answers = model.predict(table)
        return _lines(answers, ["prediction"] if isinstance(model.target, str) else [*model.target])

    def evaluate(self, model: TableModel, table: Table, *, weight: str | None) -> dict[str, Any]:
        from . import fitting

        weights = fitting.row_weights(table, weight)
        name = _cost_name(model)
        truths = _outputs(table, model.target, name)
        scores = self._scores(model, table, truths, weights)
        return {"task": self.name, "data": table.source, "target": model.target, "cost": name, **scores}

    def _scores(self, model: TableModel, features: Any, truths: Array, weights: Array | None) -> dict[str, Any]:
        from . import fitting

        costs = fitting.Weighted.of(model.estimator.cost_(model.predict(features), truths), weights)
        return {"rows": len(truths), "mean_cost": costs.mean, "standard_error": costs.standard_error}

    def show_evaluation(self, report: dict[str, Any]) -> str:
        target = report["target"]
        told = f"target {target}" if isinstance(target, str) else f"{counted(len(target), 'target')}: {few(target)}"
        rows = [
            ["rows", str(report["rows"])],
            [f"mean cost ({report['cost']})", plus_minus(report["mean_cost"], report["standard_error"])],
        ]
        return f"{report['data']}, {told}\n" + columns(rows, header=False, left=2)

    def describe(self, model: TableModel) -> dict[str, Any]:
        estimator = model.estimator
        return {
            "cost": _cost_name(model),
            "answers": type(estimator.answers_).__name__,
            "kernel": estimator.kernel,
            "alpha": estimator.alpha_,
            "solver": estimator.solver_,
            "examples": len(estimator.y_fit_),
        }

    def headline(self, report: dict[str, Any]) -> dict[str, Any]:
        return {f"mean cost ({report['cost']})": report["held_out"]["mean_cost"]}


def _parameter(text: str) -> tuple[str, float | bool]:
    name, _, value = text.partition("=")
    if value.lower() in ("true", "false"):
        return name, value.lower() == "true"
    try:
        return name, float(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=NUMBER, NAME=true or NAME=false") from None


def _cost(name: str, given: dict[str, Any]) -> Any:
    """A cost with parameters from the command line; those of the cost "kernel" are its kernel's."""
    import inspect

    from .._core import registry

    made = registry.find("cost", name).load()
    if name == "kernel":
        return made(params=given)
    known = list(inspect.signature(made).parameters)
    wrong = next((p for p in given if p not in known), None)
    if wrong is not None:
        takes = ", ".join(known) if known else "no parameters"
        raise InvalidInput(f"--cost {name} has no parameter {wrong!r}; it takes {takes}")
    return made(**given)


def _cost_name(model: TableModel) -> str:
    from .._core import registry

    entry = registry.lookup(type(model.estimator.cost_))
    return type(model.estimator.cost_).__name__ if entry is None else entry.name


def _is_listed(estimator: Any) -> bool:
    from ..decoders.answers.candidates import Candidates

    return isinstance(estimator.answers_, Candidates)


def _is_text(model: TableModel) -> bool:
    return bool(model.estimator.y_fit_.dtype == object)


def _outputs(table: Table, target: Any, cost: str) -> Array:
    """The outputs of all rows: numbers, texts, or rows of numbers, where only ratings may be missing."""
    import numpy as np

    for name in [target] if isinstance(target, str) else target:
        column = table[name]
        if cost != "rated_pairs":
            refuse_missing(table, name)
        if not table.is_numeric(name) and (not isinstance(target, str) or cost not in ("edit_distance", "zero_one")):
            raise InvalidInput(
                f"{table.source}: the target {name!r} holds {column[0]!r} in {table.where(0)}, but --cost {cost} needs numbers"
            )
    if not isinstance(target, str):
        return np.column_stack([np.asarray(table[name], dtype=np.float64) for name in target])
    column = table[target]
    if table.is_numeric(target):
        if cost == "edit_distance":
            raise InvalidInput(
                f"{table.source}: the target {target!r} holds numbers, but --cost edit_distance needs texts"
            )
        return np.asarray(column, dtype=np.float64)
    return np.asarray(column, dtype=object)


def _repeated(answer: Any, n: int) -> Array:
    import numpy as np

    if isinstance(answer, str):
        texts = np.empty(n, dtype=object)
        texts[:] = answer
        return texts
    return np.repeat(np.asarray(answer)[None], n, axis=0)


def _grid(results: dict[str, Array]) -> list[dict[str, Any]]:
    costs = [None if cost != cost else cost for cost in results["mean_cost"].tolist()]
    pairs = zip(results["alpha"].tolist(), results["surrogate_error"].tolist(), costs, strict=True)
    return [{"alpha": alpha, "surrogate_error": error, "cost": cost} for alpha, error, cost in pairs]


def _lines(answers: Array, header: list[str]) -> Iterator[list[str]]:
    yield header
    for answer in answers.tolist():
        yield [_written(part) for part in (answer if isinstance(answer, list) else [answer])]


def _written(value: Any) -> str:
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    return str(value)
