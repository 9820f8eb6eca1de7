"""``--task classify``: one of several classes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._core.errors import InvalidInput
from .arguments import add_choice, positive
from .classes import ClassTask, best_constant
from .table_task import CostFunction, Truths, few, label

if TYPE_CHECKING:
    import argparse

    from .._core.types import Array
    from ..data.tables import Table

__all__ = ["Classify"]

_COSTS = ("zero_one", "absolute", "squared")
_PROJECTIONS = ("simplex", "cube", "nonnegative", "reals")
_LOSSES = {
    "projection": "a projection loss, made by --regularizer on --projection, and answers of least expected cost",
    "adversarial": "trained for the cost itself, with probabilities that are best against the worst case",
}


class Classify(ClassTask):
    """A class, by a projection loss, or by the adversarial loss of a cost."""

    name = "classify"
    summary = "one of several classes"
    hull = "simplex"

    def add_arguments(self, group: argparse._ArgumentGroup) -> None:
        meanings = "; ".join(f"{name}: {text}" for name, text in _LOSSES.items())
        group.add_argument(
            "--loss",
            choices=tuple(_LOSSES),
            metavar="NAME",
            help=f"{meanings} (default: adversarial with --abstain, --features or a file of costs, else projection)",
        )
        self.add_regularizer(group)
        group.add_argument(
            "--cost",
            type=_cost,
            default=_COSTS[0],
            metavar="NAME|FILE",
            help=f"what a mistake costs: {', '.join(_COSTS)} (default: {_COSTS[0]}), or a CSV file with the classes as "
            "header and a line for each answer, its name first",
        )
        group.add_argument(
            "--abstain", type=positive, metavar="PRICE", help="allow no answer, for this price; it is written 'abstain'"
        )
        group.add_argument(
            "--features",
            choices=("multiclass", "threshold"),
            metavar="NAME",
            help="of the adversarial loss: multiclass (default), or threshold, one direction with thresholds between grades",
        )
        add_choice(group, "projection", _PROJECTIONS, "the set that scores are projected to", kind="structure")
        self.add_order(group, ", for costs of grades")

    def truths(self, table: Table, targets: list[str], args: argparse.Namespace) -> Truths:
        truths = super().truths(table, targets, args)
        if args.cost not in _COSTS:
            args.cost_table = read_costs(Path(args.cost), [label(value) for value in truths.names.tolist()])
        return truths

    def estimator(self, args: argparse.Namespace) -> Any:
        own = args.cost if args.cost in _COSTS else args.cost_table
        adversarial = args.abstain is not None or args.features is not None or args.cost not in _COSTS
        if args.loss == "projection" and (args.abstain is not None or args.features is not None):
            raise InvalidInput("--abstain and --features are for --loss adversarial")
        if args.loss == "projection" or (args.loss is None and not adversarial):
            from ..estimators.classify import FenchelYoungClassifier

            return FenchelYoungClassifier(cost=own, **self.estimator_options(args))
        from ..estimators.adversarial import AdversarialClassifier

        options = {
            key: value
            for key, value in self.estimator_options(args).items()
            if key not in ("regularizer", "projection")
        }
        # a gap of 1e-4 takes losses with kinks long, and says nothing that 1e-3 does not
        options["tol"] = max(options["tol"], 1e-3)
        return AdversarialClassifier(own, abstain=args.abstain, features=args.features or "multiclass", **options)

    def estimator_class(self) -> Any:
        from ..estimators.classify import FenchelYoungClassifier

        return FenchelYoungClassifier

    def minds_order(self, args: argparse.Namespace) -> bool:
        return bool(args.cost in ("absolute", "squared") or args.features == "threshold")

    def cost(self, estimator: Any) -> CostFunction:
        import numpy as np

        from ..estimators.labelled import labelled_cost, with_abstention
        from ..structures.simplex import Simplex

        table = isinstance(estimator.cost, dict)
        classes = np.arange(len(estimator.cost) if table else 2)  # named costs know no number of classes
        cost, answers = labelled_cost(estimator.cost, classes, Simplex(len(classes)))
        return with_abstention(cost, answers, getattr(estimator, "abstain", None), -1)[0]

    def constant(self, truth: Array, names: Array, cost: CostFunction, weights: Array | None) -> Any:
        import numpy as np

        from ..costs.abstain import Abstain

        best = best_constant(truth, len(names), cost, weights)
        if isinstance(cost, Abstain) and cost.price < np.average(
            cost(np.full(len(truth), best), truth), weights=weights
        ):
            return -1
        return best

    def constant_as_written(self, constant: Any, names: Array) -> Any:
        return "abstain" if constant < 0 else names[constant]

    def how(self, estimator: Any) -> dict[str, Any]:
        cost = estimator.cost if isinstance(estimator.cost, str) else "table"
        if hasattr(estimator, "regularizer"):
            return {
                "loss": "projection",
                "regularizer": estimator.regularizer,
                "projection": estimator.projection,
                "cost": cost,
            }
        return {"loss": "adversarial", "score_features": estimator.features, "abstain": estimator.abstain, "cost": cost}

    def told_loss(self, report: dict[str, Any]) -> str:
        if report["loss"] == "projection":
            return super().told_loss(report)
        silent = "" if report["abstain"] is None else f", no answer for {report['abstain']:g}"
        return f"adversarial, cost {report['cost']}{silent}, {report['score_features']} features"

    def metrics(self, report: dict[str, Any]) -> dict[str, str]:
        shown = {"accuracy": "accuracy", "mean_cost": f"mean cost ({report['cost']})"}
        scores = report.get("held_out") or report
        if report.get("abstain") is not None or scores.get("abstained"):
            shown["abstained"] = "no answer"
        return shown


def _cost(text: str) -> str:
    import argparse

    if text in _COSTS or Path(text).is_file():
        return text
    raise argparse.ArgumentTypeError(f"invalid choice: {text!r} (choose from {', '.join(_COSTS)}, or name a CSV file)")


def read_costs(path: Path, classes: list[str]) -> dict[int, dict[int, float]]:
    """The costs in a file, by the codes of answers and classes; each class must have a line and a column."""
    import csv

    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            lines = [line for line in csv.reader(stream) if any(cell.strip() for cell in line)]
    except OSError as error:
        raise InvalidInput(f"the costs in {str(path)!r} cannot be read: {error.strerror}") from None
    if len(lines) < 2:
        raise InvalidInput(f"{path} holds no costs; it needs a header with the classes and a line for each answer")
    header = [name.strip() for name in lines[0][1:]]
    found: dict[str, list[str]] = {}
    for number, line in enumerate(lines[1:], start=2):
        name = line[0].strip()
        if name in found:
            raise InvalidInput(f"{path}, line {number}: {name!r} has a line already")
        if len(line) != len(header) + 1:
            raise InvalidInput(f"{path}, line {number}: {len(line) - 1} costs for {len(header)} classes")
        found[name] = line[1:]
    # columns first: with all of them there, a line of another name is an answer of another kind and no slip of the pen
    for name in classes:
        if name not in header:
            raise InvalidInput(f"{path} has no column for the class {name!r}; it has {few(header)}")
    for name in found:
        if name not in classes:
            raise InvalidInput(
                f"{path}: the answer {name!r} is no class ({few(classes)}); answers of other kinds need AdversarialClassifier "
                "in Python, and no answer at all --abstain"
            )
    for name in classes:
        if name not in found:
            raise InvalidInput(f"{path} has no line for the class {name!r}; it has {few(list(found))}")
    costs: dict[int, dict[int, float]] = {}
    for answer, name in enumerate(classes):
        costs[answer] = {}
        for truth, column in enumerate(classes):
            text = found[name][header.index(column)]
            try:
                costs[answer][truth] = float(text)
            except ValueError:
                raise InvalidInput(
                    f"{path}: answering {name!r} where {column!r} is true costs {text!r}, expected a number"
                ) from None
    return costs
