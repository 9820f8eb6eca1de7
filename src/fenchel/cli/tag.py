"""``--task tag``: a tag for each token of a column file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from .._core.errors import InvalidInput
from .arguments import add_choice, count
from .console import columns
from .task import Task, final_rows, training_state

if TYPE_CHECKING:
    import argparse

    from .progress import Progress

__all__ = ["Tag"]

_LOSSES = {
    "crf": "the conditional random field",
    "hinge": "the structured hinge",
    "perceptron": "the averaged perceptron",
    "sparsemap": "sparse marginals",
}
_COSTS = {"hamming": "wrong tags", "zero_one": "wrong sentences"}
_WEIGHTS = {"met": "for the tags that a feature was met with", "all": "for all tags"}
_CONSTRAINTS = {"none": "any tag may follow any other", "BIO": "I-x follows B-x and I-x only"}
_ALPHAS = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
_CV_TOL = 1e-2


@dataclass(frozen=True)
class _File:
    """A column file: the columns of each sentence, and which there are."""

    source: str
    sentences: list[list[list[str]]]
    width: int

    def __len__(self) -> int:
        return sum(len(sentence[0]) for sentence in self.sentences)


class Tag(Task):
    """A tag for each token, by a linear model of tag sequences."""

    name = "tag"
    summary = "a tag for each token of a column file (CoNLL), sentences apart by empty lines"
    names_key = "tags"
    data = "a column file (CoNLL): a token a line, sentences apart by empty lines; also .gz"
    examples = (
        "train.conll --task tag --out tagger.fenchel",
        "ner.conll --task tag --constraints BIO --cost zero_one --out tagger.fenchel",
    )

    # -- options -------------------------------------------------------------------------------------------------------

    def add_target(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--target",
            type=int,
            default=-1,
            metavar="N",
            help="the column with the tags, from 0, or from the end (default: -1)",
        )

    def add_arguments(self, group: argparse._ArgumentGroup) -> None:
        add_choice(group, "loss", _LOSSES, "what training minimises", told=_LOSSES)
        add_choice(group, "cost", _COSTS, "what a mistake costs", told=_COSTS)
        add_choice(group, "constraints", _CONSTRAINTS, "which tags may follow each other", told=_CONSTRAINTS)
        add_choice(group, "weights", _WEIGHTS, "which weights there are", told=_WEIGHTS)
        group.add_argument(
            "--word",
            type=int,
            default=0,
            metavar="N",
            help="the column with the word (default: 0); other columns are told too",
        )
        group.add_argument(
            "--window", type=count(0), default=2, metavar="N", help="neighbours on either side to look at (default: 2)"
        )
        group.add_argument(
            "--min-count", type=count(1), default=1, metavar="N", help="leave out features met less often (default: 1)"
        )

    # -- files ---------------------------------------------------------------------------------------------------------

    def read_training(self, args: argparse.Namespace) -> _File:
        return _read(args.data)

    def read_inputs(self, model: Any, path: Path, *, truth: bool) -> _File:
        file = _read(path)
        fits = (model.width,) if truth else (model.width, model.width - 1)
        if file.width not in fits:
            what = f"{model.width}" + ("" if truth else f", or {model.width - 1} without the tags")
            raise InvalidInput(f"{file.source} has {file.width} columns, but the model was trained with {what}")
        return file

    def write(self, stream: TextIO, lines: Iterator[list[str]]) -> None:
        for line in lines:
            stream.write("\t".join(line) + "\n")

    # -- fit -----------------------------------------------------------------------------------------------------------

    def fit(self, table: Any, args: argparse.Namespace, progress: Progress) -> tuple[Any, dict[str, Any]]:
        import warnings
        from time import perf_counter

        import numpy as np
        from sklearn.base import clone

        from .._core.errors import ConvergenceWarning
        from ..estimators.tag import SequenceLabeler
        from .tag_model import TagModel

        start = perf_counter()
        if args.weight is not None:
            raise InvalidInput("--weight is not for --task tag")
        chosen, target = _columns(table, args)
        X = [[sentence[j] for j in chosen] for sentence in table.sentences]
        y = [sentence[target] for sentence in table.sentences]
        estimator = SequenceLabeler(
            args.loss,
            cost=args.cost,
            constraints=None if args.constraints == "none" else args.constraints,
            weights=args.weights,
            min_count=args.min_count,
            tol=args.tol,
            max_iter=args.max_iter if args.loss != "perceptron" else "auto",
            random_state=args.seed,
        )

        def trained(alpha: float, items: Any, **options: Any) -> Any:
            model = TagModel(
                clone(estimator).set_params(alpha=alpha, **options), chosen, target, table.width, window=args.window
            )
            return model.fit([X[i] for i in items], [y[i] for i in items])

        def scored(model: Any, items: Any) -> dict[str, Any]:
            return _scores(model.predict([X[i] for i in items]), [y[i] for i in items], args.cost)

        rng = np.random.default_rng(args.seed)
        order = rng.permutation(len(X))
        n_out = min(round(args.test_share * len(X)), len(X) - 1)
        outside, inside = np.sort(order[:n_out]), np.sort(order[n_out:])
        notes: list[str] = []
        grid: list[dict[str, float]] = []
        began = perf_counter()
        value, by = args.alpha, "--alpha"
        if value is None and (args.loss == "perceptron" or len(inside) < 2):
            value, by = 1e-4, "default"
        if value is None:
            n_valid = max(1, len(inside) // 5)
            shuffled = rng.permutation(inside)
            for i, alpha in enumerate(_ALPHAS):
                progress(0.6 * i / len(_ALPHAS), f"alpha {alpha:g}")
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    model = trained(alpha, shuffled[n_valid:], tol=max(args.tol, _CV_TOL))
                grid.append({"alpha": alpha, "cost": scored(model, shuffled[:n_valid])["mean_cost"]})
            value, by = min(grid, key=lambda point: point["cost"])["alpha"], "validation"
        chosen_in = perf_counter() - began
        held_out = None
        if n_out:
            progress(0.6, "fit for the held-out sentences")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # the final fit will say so
                held_out = scored(trained(value, inside), outside)
            tags, counts = np.unique([tag for i in inside for tag in y[i]], return_counts=True)
            answer = str(tags[counts.argmax()])
            truths = [y[i] for i in outside]
            base = _scores([[answer] * len(tags) for tags in truths], truths, args.cost)
            held_out["baseline"] = {"answer": answer, **{k: v for k, v in base.items() if isinstance(v, float)}}
        elif args.test_share > 0:
            notes.append("there are too few sentences to hold any out")
        progress(0.8, "fit on all sentences")
        began = perf_counter()
        final = trained(value, range(len(X)))
        progress(1.0, "done")
        fitted = final.estimator
        return final, {
            "task": self.name,
            "data": table.source,
            "target": target,
            "sentences": len(X),
            "tokens": len(table),
            "columns": chosen,
            "features": fitted.n_features_in_,
            "weights": int(fitted.weights_.size),
            "tags": final.classes_.tolist(),
            "loss": args.loss,
            "cost": args.cost,
            "seed": args.seed,
            "alpha": {"value": value, "chosen_by": by, "grid": grid},
            "held_out": held_out,
            "final": training_state(fitted),
            "seconds": {
                "alpha": chosen_in,
                "final_fit": perf_counter() - began,
                "total": perf_counter() - start,
            },
            "notes": notes,
        }

    def show_fit(self, report: dict[str, Any]) -> str:
        parts = [
            f"{report['data']}: {report['sentences']} sentences, {report['tokens']} tokens, {len(report['tags'])} tags, "
            f"{report['features']} features"
        ]
        alpha, held = report["alpha"], report["held_out"]
        if alpha["grid"]:
            rows = [["alpha", f"mean cost ({report['cost']})", ""]]
            rows += [
                [f"{p['alpha']:g}", f"{p['cost']:.4f}", "<- chosen" if p["alpha"] == alpha["value"] else ""]
                for p in alpha["grid"]
            ]
            parts.append("Choice of alpha on a fifth of the training sentences\n" + columns(rows))
        if held:
            metrics = _metrics(held)
            rows = [["", *metrics.values()], ["this model", *(f"{held[key]:.4f}" for key in metrics)]]
            rows.append(
                [f"always {held['baseline']['answer']}", *(f"{held['baseline'].get(key, 0.0):.4f}" for key in metrics)]
            )
            parts.append(f"On {held['sentences']} held-out sentences\n" + columns(rows))
        rows = final_rows(report)
        rows.insert(-1, ["weights", str(report["weights"])])
        parts.append("Final fit on all sentences\n" + columns(rows, header=False, left=2))
        parts += [f"Note: {note}" for note in report["notes"]]
        return "\n\n".join(parts)

    # -- use -----------------------------------------------------------------------------------------------------------

    def predictions(self, model: Any, table: Any, *, proba: bool) -> Iterator[list[str]]:
        if proba and model.estimator.loss not in ("crf", "sparsemap"):
            raise InvalidInput(f"--proba needs a model fitted with --loss crf or sparsemap, not {model.estimator.loss}")
        X = _inputs(model, table)
        marginals = model.estimator.predict_marginals(model.features(X)) if proba else None
        return _lines(table, model.predict(X), marginals)

    def evaluate(self, model: Any, table: Any, *, weight: str | None) -> dict[str, Any]:
        if weight is not None:
            raise InvalidInput("--weight is not for a model of --task tag")
        truths = [sentence[model.target] for sentence in table.sentences]
        cost = model.estimator.cost
        scores = _scores(model.predict(_inputs(model, table)), truths, cost)
        return {"task": self.name, "data": table.source, "target": model.target, "cost": cost, **scores}

    def show_evaluation(self, report: dict[str, Any]) -> str:
        rows = [["sentences", str(report["sentences"])], ["tokens", str(report["tokens"])]]
        rows += [[title, f"{report[key]:.4f}"] for key, title in _metrics(report).items()]
        for kind, scores in report.get("by_kind", {}).items():
            rows.append([f"F1 of {kind}", f"{scores['f1']:.4f} ({scores['true']} in the truth)"])
        return f"{report['data']}\n" + columns(rows, header=False, left=2)

    def describe(self, model: Any) -> dict[str, Any]:
        estimator = model.estimator
        return {
            "tags": model.classes_.tolist(),
            "columns": model.columns,
            "features": estimator.n_features_in_,
            **{key: getattr(estimator, key) for key in ("loss", "cost", "constraints", "alpha")},
            **training_state(estimator),
        }

    def headline(self, report: dict[str, Any]) -> dict[str, Any]:
        held = report["held_out"]
        return {title: held[key] for key, title in _metrics(held).items()}


def _read(path: Path) -> _File:
    from ..data.conll import read_conll

    found = read_conll(path)
    return _File(str(path), [list(sentence) for sentence in zip(*found, strict=True)], len(found))


def _columns(file: _File, args: argparse.Namespace) -> tuple[list[int], int]:
    """The columns to learn from, the word first, and the target, all counted from 0."""

    def place(number: int, what: str) -> int:
        if not -file.width <= number < file.width:
            raise InvalidInput(
                f"{file.source} has {file.width} columns, so there is no column {number}, which {what} names"
            )
        return number % file.width

    target, word = place(args.target, "--target"), place(args.word, "--word")
    if word == target:
        raise InvalidInput(f"--word and --target both name column {word}; {file.source} has {file.width} columns")
    dropped = set()
    for text in args.drop:
        try:
            dropped.add(place(int(text), "--drop"))
        except ValueError:
            raise InvalidInput(f"--drop names {text!r}, expected the number of a column") from None
    rest = [j for j in range(file.width) if j not in (word, target) and j not in dropped]
    return [word, *rest], target


def _inputs(model: Any, file: _File) -> list[list[list[str]]]:
    """The columns that the model takes, of a file with or without the tags."""
    shift = file.width < model.width
    places = [j - (shift and j > model.target) for j in model.columns]
    return [[sentence[j] for j in places] for sentence in file.sentences]


def _scores(predicted: list[list[str]], truths: list[list[str]], cost: str) -> dict[str, Any]:
    """Shares of right tags and sentences; of BIO tags also precision, recall and F1 of entities."""
    from ..metrics import entity_scores

    tokens = sum(map(len, truths))
    wrong = [sum(a != b for a, b in zip(p, t, strict=True)) for p, t in zip(predicted, truths, strict=True)]
    right = sum(w == 0 for w in wrong) / len(wrong)
    scores: dict[str, Any] = {
        "sentences": len(truths),
        "tokens": tokens,
        "accuracy": 1.0 - sum(wrong) / tokens,
        "sentences_right": right,
        "mean_cost": 1.0 - right if cost == "zero_one" else sum(wrong) / tokens,
    }
    tags = {tag for sentence in (*predicted, *truths) for tag in sentence}
    if any(tag[:2] == "B-" for tag in tags) and all(tag == "O" or tag[:2] in ("B-", "I-") for tag in tags):
        found = entity_scores(predicted, truths)
        scores.update(precision=found.precision, recall=found.recall, f1=found.f1)
        scores["by_kind"] = {
            kind: {"precision": s.precision, "recall": s.recall, "f1": s.f1, "true": s.true}
            for kind, s in found.by_kind.items()
        }
    return scores


def _metrics(scores: dict[str, Any]) -> dict[str, str]:
    titles = {
        "accuracy": "tags right",
        "sentences_right": "sentences right",
        "precision": "entity precision",
        "recall": "entity recall",
        "f1": "entity F1",
    }
    return {key: title for key, title in titles.items() if key in scores}


def _lines(file: _File, tags: list[list[str]], marginals: Any) -> Iterator[list[str]]:
    """The tokens with all their columns, the prediction after them; an empty line after each sentence."""
    for i, sentence in enumerate(file.sentences):
        for t, tag in enumerate(tags[i]):
            sure = [] if marginals is None else [f"{marginals[i][t].max():.4f}"]
            yield [*(column[t] for column in sentence), tag, *sure]
        yield []
