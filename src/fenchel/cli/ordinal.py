"""``--task ordinal``: one of several ordered grades."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .arguments import add_choice
from .classes import ClassTask, best_constant, class_scores
from .table_task import CostFunction

if TYPE_CHECKING:
    import argparse

    from .._core.types import Array

__all__ = ["Ordinal"]

_COSTS = ("absolute", "zero_one", "squared")
_PROJECTIONS = ("order_simplex", "cube", "nonnegative", "reals")


class Ordinal(ClassTask):
    """A grade, by a projection loss on thresholds."""

    name = "ordinal"
    summary = "one of several ordered grades"
    hull = "order_simplex"

    def add_arguments(self, group: argparse._ArgumentGroup) -> None:
        self.add_regularizer(group)
        add_choice(group, "cost", _COSTS, "what a mistake costs; predictions have the least expected cost")
        add_choice(group, "projection", _PROJECTIONS, "the set that scores are projected to", kind="structure")
        self.add_order(group, "")

    def estimator_class(self) -> Any:
        from ..estimators.ordinal import OrdinalClassifier

        return OrdinalClassifier

    def minds_order(self, args: argparse.Namespace) -> bool:
        return True

    def metrics(self, report: dict[str, Any]) -> dict[str, str]:
        if report["cost"] == "absolute":
            return {"mean_cost": "mean absolute error", "accuracy": "accuracy"}
        return {
            "mean_absolute_error": "mean absolute error",
            "accuracy": "accuracy",
            "mean_cost": f"mean cost ({report['cost']})",
        }

    def constant(self, truth: Array, names: Array, cost: CostFunction, weights: Array | None) -> Any:
        from ..costs.absolute import Absolute

        return best_constant(truth, len(names), Absolute(), weights)  # the median grade, whatever the cost

    def scores(
        self, predicted: Array, truth: Array, names: Array, cost: CostFunction, weights: Array | None
    ) -> dict[str, Any]:
        import numpy as np

        from .fitting import Weighted

        scores = class_scores(predicted, truth, names, cost, weights)
        error = Weighted.of(np.abs(predicted - truth).astype(float), weights).mean
        return {"rows": scores.pop("rows"), "mean_absolute_error": error, **scores}
