"""``--task match``: partners of elements, in a table of pairs or in frames of boxes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._core.errors import InvalidInput
from .arguments import add_choice, count
from .console import columns
from .task import Task, final_rows, training_state

if TYPE_CHECKING:
    import argparse

    from .progress import Progress

__all__ = ["Match"]

_LOSSES = {
    "adversarial": "made for the number of wrong partners",
    "hinge": "the structured hinge",
    "crf": "the conditional random field, up to six elements",
    "sparsemap": "sparse marginals",
}
_ALPHAS = (1.0, 1e-1, 1e-2, 1e-3, 1e-4)
_CV_TOL = 1e-2


@dataclass(frozen=True)
class _File:
    """Pairs of sets with features, what the file is, and what writing the answers needs."""

    source: str
    X: list[Any]
    y: list[Any] | None
    table: Any = None
    candidates: Any = None
    pairs: Any = None

    def __len__(self) -> int:
        return sum(x.shape[0] for x in self.X) if self.table is None else len(self.table)


class Match(Task):
    """Partners, by a linear model of matchings."""

    name = "match"
    summary = "which elements of two sets belong together: a table of pairs, or boxes in frames"

    # -- options -------------------------------------------------------------------------------------------------------

    def add_target(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--target",
            metavar="COLUMN",
            help="the column that says whether the two elements of a row belong together (1) or not (0); without it DATA is a "
            "file of boxes: frame,id,left,top,width,height, as of MOTChallenge",
        )

    def add_arguments(self, group: argparse._ArgumentGroup) -> None:
        add_choice(group, "loss", _LOSSES, "what training minimises", told=_LOSSES)
        group.add_argument("--group", metavar="COL", help="the column that says which pair of sets a row is about")
        group.add_argument("--first", metavar="COL", help="the column with the element of the first set")
        group.add_argument("--second", metavar="COL", help="the column with the element of the second set")
        group.add_argument(
            "--step", type=count(1), default=1, metavar="N", help="match boxes N frames apart (default: 1)"
        )

    # -- files ---------------------------------------------------------------------------------------------------------

    def read_training(self, args: argparse.Namespace) -> Any:
        if args.target is None:
            return _boxes(args.data, args.step, truth=True)
        from ..data.reading import read_table

        for name in ("group", "first", "second"):
            if getattr(args, name) is None:
                raise InvalidInput(f"a table of pairs needs --{name}, the column {_MEANINGS[name]}")
        return read_table(args.data)

    def read_inputs(self, model: Any, path: Path, *, truth: bool) -> _File:
        if model.encoder is None:
            return _boxes(path, model.step, truth=truth)
        from ..data.reading import read_table

        table = read_table(path, text=self.text_columns(model), needed=self.needed_columns(model, truth=truth))
        return _pairs(table, model, model.encoder.transform(table), truth=truth)

    # -- fit -----------------------------------------------------------------------------------------------------------

    def fit(self, table: Any, args: argparse.Namespace, progress: Progress) -> tuple[Any, dict[str, Any]]:
        import warnings
        from time import perf_counter

        import numpy as np
        from sklearn.base import clone

        from .._core.errors import ConvergenceWarning
        from ..data.encoder import TableEncoder
        from ..estimators.match import BipartiteMatcher
        from .match_model import MatchModel

        start = perf_counter()
        if args.weight is not None:
            raise InvalidInput("--weight is not for --task match")
        encoder = None if args.target is None else TableEncoder(args.max_categories)
        estimator = BipartiteMatcher(args.loss, tol=args.tol, max_iter=args.max_iter, random_state=args.seed)
        model = MatchModel(estimator, encoder, args.target, args.group, args.first, args.second, args.step)
        file = table
        if encoder is not None:
            named = {args.target, args.group, args.first, args.second}
            for name in (*sorted(named), *args.drop):
                table[name]
            features = table.drop({*named, *args.drop})
            if not features.names:
                raise InvalidInput(f"{table.source} has no column left to learn from")
            file = _pairs(table, model, encoder.fit_transform(features), truth=True)
        X, y = file.X, file.y
        assert y is not None
        partial = any(x.shape[0] != x.shape[1] or (p < 0).any() for x, p in zip(X, y, strict=True))
        estimator.set_params(unmatched="allowed" if partial else "forbidden")

        def trained(alpha: float, items: Any, **options: Any) -> Any:
            made = clone(estimator).set_params(alpha=alpha, **options)
            return made.fit([X[i] for i in items], [y[i] for i in items])

        rng = np.random.default_rng(args.seed)
        order = rng.permutation(len(X))
        n_out = min(round(args.test_share * len(X)), len(X) - 1)
        outside, inside = np.sort(order[:n_out]), np.sort(order[n_out:])
        grid: list[dict[str, float]] = []
        notes: list[str] = []
        value, by = args.alpha, "--alpha"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the final fit will say so
            if value is None and len(inside) < 5:
                value, by = 1e-3, "default"
            if value is None:
                shuffled = rng.permutation(inside)
                n_valid = max(1, len(inside) // 5)
                for i, alpha in enumerate(_ALPHAS):
                    progress(0.6 * i / len(_ALPHAS), f"alpha {alpha:g}")
                    found = trained(alpha, shuffled[n_valid:], tol=max(args.tol, _CV_TOL))
                    grid.append({"alpha": alpha, "cost": 1 - _scores(found, X, y, shuffled[:n_valid])["accuracy"]})
                value, by = min(grid, key=lambda point: point["cost"])["alpha"], "validation"
            held_out = None
            if n_out:
                progress(0.6, "fit for the held-out pairs of sets")
                held_out = _scores(trained(value, inside), X, y, outside)
            elif args.test_share > 0:
                notes.append("there are too few pairs of sets to hold any out")
        progress(0.8, "fit on all pairs of sets")
        began = perf_counter()
        model.estimator = estimator.set_params(alpha=value)
        model.fit(X, y)
        progress(1.0, "done")
        return model, {
            "task": self.name,
            "data": file.source,
            "target": args.target,
            "pairs_of_sets": len(X),
            "elements": sum(len(p) for p in y),
            "without_partner": int(sum((p < 0).sum() for p in y)),
            "features": _names(model),
            "loss": args.loss,
            "seed": args.seed,
            "alpha": {"value": value, "chosen_by": by, "grid": grid},
            "held_out": held_out,
            "final": training_state(estimator),
            "seconds": {"final_fit": perf_counter() - began, "total": perf_counter() - start},
            "notes": notes,
        }

    def show_fit(self, report: dict[str, Any]) -> str:
        parts = [
            f"{report['data']}: {report['pairs_of_sets']} pairs of sets, {report['elements']} elements in the first, "
            f"{report['without_partner']} of them without a partner"
        ]
        alpha, held = report["alpha"], report["held_out"]
        if alpha["grid"]:
            rows = [["alpha", "wrong partners", ""]]
            rows += [
                [f"{p['alpha']:g}", f"{p['cost']:.4f}", "<- chosen" if p["alpha"] == alpha["value"] else ""]
                for p in alpha["grid"]
            ]
            parts.append("Choice of alpha on a fifth of the training pairs of sets\n" + columns(rows))
        if held:
            rows = [["", *_METRICS.values()], ["this model", *(f"{held[key]:.4f}" for key in _METRICS)]]
            parts.append(f"On {held['pairs_of_sets']} held-out pairs of sets\n" + columns(rows))
        rows = final_rows(report)
        parts.append("Final fit on all pairs of sets\n" + columns(rows, header=False, left=2))
        parts += [f"Note: {note}" for note in report["notes"]]
        return "\n\n".join(parts)

    # -- use -----------------------------------------------------------------------------------------------------------

    def predictions(self, model: Any, table: Any, *, proba: bool) -> Iterator[list[str]]:
        if proba:
            raise InvalidInput("--proba is not for matchings; in Python see BipartiteMatcher.predict_marginals")
        answers = model.predict(table.X)
        if table.table is None:
            return _links(table.pairs, answers)
        found = table.candidates.answers(answers, len(table.table))
        return iter([["prediction"], *([str(int(value))] for value in found)])

    def evaluate(self, model: Any, table: Any, *, weight: str | None) -> dict[str, Any]:
        if weight is not None:
            raise InvalidInput("--weight is not for a model of --task match")
        scores = _scores(model.estimator, table.X, table.y, range(len(table.X)))
        return {"task": self.name, "data": table.source, "target": model.target, **scores}

    def show_evaluation(self, report: dict[str, Any]) -> str:
        rows = [["pairs of sets", str(report["pairs_of_sets"])]]
        rows += [[title, f"{report[key]:.4f}"] for key, title in _METRICS.items()]
        return f"{report['data']}\n" + columns(rows, header=False, left=2)

    def describe(self, model: Any) -> dict[str, Any]:
        estimator = model.estimator
        weights = zip(_names(model), estimator.weights_.tolist(), strict=False)
        return {
            "weights": dict(weights),
            **{key: getattr(estimator, key) for key in ("loss", "unmatched", "alpha")},
            **training_state(estimator),
        }

    def headline(self, report: dict[str, Any]) -> dict[str, Any]:
        return {title: report["held_out"][key] for key, title in _METRICS.items()}


_MEANINGS = {
    "group": "that says which pair of sets a row is about",
    "first": "with the element of the first set",
    "second": "with the element of the second set",
}
_METRICS = {"accuracy": "partners right", "all_right": "pairs of sets right"}


def _boxes(path: Path, step: int, *, truth: bool) -> _File:
    from ..data.tracking import frame_pairs, read_boxes

    pairs = frame_pairs(read_boxes(path), step, truth=truth)
    if not pairs:
        raise InvalidInput(f"{path} has no two frames {step} apart")
    return _File(str(path), [p.features for p in pairs], [p.partners for p in pairs] if truth else None, pairs=pairs)


def _pairs(table: Any, model: Any, features: Any, *, truth: bool) -> _File:
    import numpy as np

    from .match_model import candidates_of

    def where(row: int) -> str:
        return f"{table.source}, {table.where(row)}"

    keys = [table[name].tolist() for name in (model.group, model.first, model.second)]
    candidates = candidates_of(keys[0], keys[1], keys[2], where)
    dense = features.toarray() if hasattr(features, "toarray") else features
    y = None
    if truth:
        together = table[model.target]
        if not table.is_numeric(model.target) or not np.isin(together, (0, 1)).all():
            raise InvalidInput(f"{table.source}: the target {model.target!r} must be 1 or 0 in each row")
        y = candidates.partners(together, where)
    return _File(table.source, candidates.features(np.asarray(dense, dtype=np.float64)), y, table, candidates)


def _scores(estimator: Any, X: list[Any], y: Any, items: Any) -> dict[str, Any]:
    """The mean share of right partners, and the share of pairs of sets with no mistake."""
    import numpy as np

    answers = estimator.predict([X[i] for i in items])
    right = [answer == y[i] for answer, i in zip(answers, items, strict=True)]
    return {
        "pairs_of_sets": len(right),
        "accuracy": float(np.mean([one.mean() if len(one) else 1.0 for one in right])),
        "all_right": float(np.mean([one.all() for one in right])),
    }


def _names(model: Any) -> list[str]:
    if model.encoder is not None:
        return [str(name) for name in model.encoder.get_feature_names_out()]
    from ..data.tracking import BOX_FEATURES

    return list(BOX_FEATURES)


def _links(pairs: Any, answers: list[Any]) -> Iterator[list[str]]:
    """A line for each box of a frame, by its number there from 0: its partner in the later frame, empty for none."""
    yield ["frame", "box", "later_frame", "partner"]
    for pair, partners in zip(pairs, answers, strict=True):
        for i, j in enumerate(partners.tolist()):
            yield [str(pair.frames[0]), str(i), str(pair.frames[1]), "" if j < 0 else str(j)]
