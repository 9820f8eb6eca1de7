"""``--task rank``: a ranking of labels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .._core.errors import InvalidInput
from .arguments import add_choice
from .table_task import CostFunction, TableTask, Truths, few, refuse_missing, wrong_share

if TYPE_CHECKING:
    import argparse

    from .._core.types import Array
    from ..data.tables import Table
    from .model import TableModel

__all__ = ["Rank"]

_PROJECTIONS = ("birkhoff", "row_stochastic", "cube", "permutahedron", "linear_ordering", "nonnegative", "reals")
_COSTS = ("auto", "hamming", "disagreements")


class Rank(TableTask):
    """A ranking, by a projection loss."""

    name = "rank"
    summary = "a ranking of labels, given as texts a>b>c"
    names_key = "labels"
    regularizers = ("euclidean", "kl")

    def add_arguments(self, group: argparse._ArgumentGroup) -> None:
        self.add_regularizer(group)
        add_choice(
            group,
            "cost",
            _COSTS,
            "what a mistake costs; predictions have the least expected cost",
            told={
                "auto": "disagreements on linear_ordering, else hamming",
                "hamming": "the share of labels at a wrong rank",
                "disagreements": "the share of pairs in the wrong order",
            },
        )
        add_choice(
            group,
            "projection",
            _PROJECTIONS,
            "the set that scores are projected to",
            kind="structure",
            told={"row_stochastic": "a rank for each label, alone"},
        )

    def estimator(self, args: argparse.Namespace) -> Any:
        from ..estimators.rank import LabelRanker

        auto = "disagreements" if args.projection == "linear_ordering" else "hamming"
        return LabelRanker(cost=auto if args.cost == "auto" else args.cost, **self.estimator_options(args))

    # -- truths --------------------------------------------------------------------------------------------------------

    def truths(self, table: Table, targets: list[str], args: argparse.Namespace) -> Truths:
        import numpy as np

        column = table[targets[0]]
        refuse_missing(table, targets[0])
        labels = _labels(column)
        ranks = _read_rankings(table, targets[0], labels)
        if (ranks == ranks[0]).all():
            raise InvalidInput(f"{table.source}: the target {targets[0]!r} is always {column[0]!r}; nothing to learn")
        names = np.empty(len(labels), dtype=object)
        names[:] = labels
        return Truths(ranks, names, np.zeros(len(ranks), dtype=np.int64), [], column)

    def known_truths(self, model: TableModel, table: Table) -> Array:
        refuse_missing(table, str(model.target))
        return _read_rankings(table, str(model.target), model.classes_.tolist())

    def facts(self, truths: Truths) -> dict[str, Any]:
        return {"labels": truths.names.tolist(), "mean_ranks": (truths.values.mean(axis=0) + 1).tolist()}

    def told_target(self, report: dict[str, Any]) -> str:
        return f"target {report['target']} ranks {len(report['labels'])} labels: {few(report['labels'])}"

    # -- scores --------------------------------------------------------------------------------------------------------

    def cost(self, estimator: Any) -> CostFunction:
        return wrong_share if estimator.cost == "hamming" else _wrong_pairs

    def metrics(self, report: dict[str, Any]) -> dict[str, str]:
        what = "labels at a wrong rank" if report["cost"] == "hamming" else "pairs in the wrong order"
        return {"mean_cost": what, "kendall_tau": "Kendall tau"}

    def constant(self, truth: Array, names: Array, cost: CostFunction, weights: Array | None) -> Any:
        import numpy as np

        order = np.argsort(np.average(truth, axis=0, weights=weights), kind="stable")
        return np.argsort(order)

    def constant_as_written(self, constant: Any, names: Array) -> Any:
        return _written(constant, names.tolist())

    def scores(
        self, predicted: Array, truth: Array, names: Array, cost: CostFunction, weights: Array | None
    ) -> dict[str, Any]:
        from .fitting import Weighted

        costs = Weighted.of(cost(predicted, truth), weights)
        return {
            "rows": len(truth),
            "mean_cost": costs.mean,
            "standard_error": costs.standard_error,
            "kendall_tau": Weighted.of(_kendall_tau(predicted, truth), weights).mean,
        }

    # -- use -----------------------------------------------------------------------------------------------------------

    def text_columns(self, model: TableModel) -> list[str]:
        return [*super().text_columns(model), str(model.target)]

    def predictions(self, model: TableModel, table: Table, *, proba: bool) -> Iterator[list[str]]:
        if proba:
            raise InvalidInput("--proba is not for rankings: their projections are no probabilities of whole rankings")
        return _lines(model.predict_codes(table), model.classes_.tolist())


def _labels(column: Array) -> list[str]:
    """The labels that most rows rank, so that a slip in one row is found there."""
    from collections import Counter

    sets = Counter(frozenset(part.strip() for part in str(text).split(">")) for text in column.tolist())
    return sorted(sets.most_common(1)[0][0])


def _read_rankings(table: Table, target: str, labels: list[str]) -> Array:
    """The ranks of the labels in each row, from 0."""
    import numpy as np

    column = table[target]
    if column.dtype != object:
        raise InvalidInput(f"{table.source}: the target {target!r} holds numbers, expected rankings such as a>b>c")
    if len(labels) < 2:
        raise InvalidInput(
            f"{table.source}, {table.where(0)}: the target {target!r} is {column[0]!r}, expected a ranking "
            "such as a>b>c"
        )
    texts, at, inverse = np.unique(column.astype(str), return_index=True, return_inverse=True)
    place = {name: i for i, name in enumerate(labels)}
    ranks = np.empty((len(texts), len(labels)), dtype=np.int64)
    bad = []
    for i, text in enumerate(texts.tolist()):
        order = [place.get(part.strip(), -1) for part in text.split(">")]
        if sorted(order) == list(range(len(labels))):
            ranks[i, order] = np.arange(len(labels))
        else:
            bad.append(int(at[i]))
    if bad:
        raise InvalidInput(
            f"{table.source}, {table.where(min(bad))}: the target {target!r} is {column[min(bad)]!r}, which does not "
            f"rank each of {few(labels)} once (ties and incomplete rankings are not supported)"
        )
    return ranks[inverse]


def _written(ranks: Array, labels: list[str]) -> str:
    return ">".join(labels[i] for i in ranks.argsort())


def _kendall_tau(predicted: Array, truth: Array) -> Array:
    """The share of pairs in the right order minus the share in the wrong one; O(k²) a row."""
    import numpy as np

    k = truth.shape[1]
    total = np.zeros(len(truth))
    for i in range(k):
        for j in range(i):
            total += np.sign((predicted[:, i] - predicted[:, j]) * (truth[:, i] - truth[:, j]))
    return total / (k * (k - 1) / 2)


def _wrong_pairs(predicted: Array, truth: Array) -> Array:
    """The share of pairs in the wrong order."""
    return (1 - _kendall_tau(predicted, truth)) / 2


def _lines(ranks: Array, labels: list[str]) -> Iterator[list[str]]:
    yield ["prediction"]
    for row in ranks:
        yield [_written(row, labels)]
