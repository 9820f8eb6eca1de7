"""``--task classify``: one of several classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .arguments import add_choice
from .classes import ClassTask

if TYPE_CHECKING:
    import argparse

__all__ = ["Classify"]

_COSTS = ("zero_one", "absolute")
_PROJECTIONS = ("simplex", "cube", "nonnegative", "reals")


class Classify(ClassTask):
    """A class, by a projection loss."""

    name = "classify"
    summary = "one of several classes"
    hull = "simplex"

    def add_arguments(self, group: argparse._ArgumentGroup) -> None:
        self.add_regularizer(group)
        add_choice(group, "cost", _COSTS, "what a mistake costs; predictions have the least expected cost")
        add_choice(group, "projection", _PROJECTIONS, "the set that scores are projected to", kind="structure")
        self.add_order(group, ", for --cost absolute")

    def estimator_class(self) -> Any:
        from ..estimators.classify import FenchelYoungClassifier

        return FenchelYoungClassifier

    def minds_order(self, args: argparse.Namespace) -> bool:
        return bool(args.cost == "absolute")

    def metrics(self, report: dict[str, Any]) -> dict[str, str]:
        return {"accuracy": "accuracy", "mean_cost": f"mean cost ({report['cost']})"}
