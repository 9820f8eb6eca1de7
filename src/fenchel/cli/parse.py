"""``--task parse``: heads and labels of the words of a CoNLL-U file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from .._core.errors import InvalidInput
from .arguments import add_choice
from .console import columns
from .task import Task, final_rows, training_state

if TYPE_CHECKING:
    import argparse

    from .progress import Progress

__all__ = ["Parse", "compare_files", "is_treebank", "show_scores"]

_LOSSES = {
    "crf": "the conditional random field over trees",
    "softmax-margin": "the same with wrong heads added to the scores",
    "head-selection": "the cross-entropy of each word's head by itself; the fastest",
    "minimum-risk": "the expected number of wrong heads; not convex",
    "hinge": "the structured hinge",
    "robust-stochastic": "the moment-robust loss, a game for each sentence",
    "robust-marginal": "the same, smoothed, by steps of the adversary's points",
    "robust-game": "the same by the double oracle; slow",
    "binary": "binary cross-entropy of each arc (neural)",
}
_FEATURES = {
    "lexical": "of words, tags and morphology, hashed",
    "neural": "a network, trained end to end (needs PyTorch)",
}
_PENALTIES = {
    "l2": "alpha/2 times the squared norm of the weights",
    "norm": "alpha times the norm, the moment ball's radius",
}
_DECODINGS = {"risk": "fewest expected wrong heads", "weights": "highest score"}
_ALPHAS = (1e-1, 1e-2, 1e-3)
_CV_TOL = 1e-2
_RULES = {"conll18": "all words", "tags": "without punctuation"}
_METRICS = {"uas": "UAS", "las": "LAS", "ucm": "UCM", "lcm": "LCM"}


@dataclass(frozen=True)
class _File:
    """A CoNLL-U file."""

    source: str
    sentences: list[Any]

    def __len__(self) -> int:
        return len(self.sentences)


class Parse(Task):
    """Dependency trees of sentences, by a linear model of arcs or a network."""

    name = "parse"
    summary = "a head and a label for each word of a CoNLL-U file"
    names_key = "labels"
    data = "a CoNLL-U file: .conllu, also .gz"
    examples = (
        "train.conllu --out parser.fenchel",
        "train.conllu.gz --loss head-selection --alpha 0.01 --test-share 0 --out parser.fenchel --json",
        "few.conllu --loss robust-stochastic --penalty norm --out parser.fenchel",
    )
    columns = False
    tol, max_iter = 1e-2, 200  # as DependencyParser: heads are the same long before the objective is exact

    # -- options -------------------------------------------------------------------------------------------------------

    def add_target(self, parser: argparse.ArgumentParser) -> None:
        """The format says which columns are predicted."""

    def add_arguments(self, group: argparse._ArgumentGroup) -> None:
        add_choice(group, "loss", _LOSSES, "what training minimises", told=_LOSSES)
        add_choice(group, "penalty", _PENALTIES, "what weights cost", told=_PENALTIES)
        add_choice(group, "features", _FEATURES, "what arcs are scored by", told=_FEATURES)
        add_choice(group, "decoding", _DECODINGS, "the answer", told=_DECODINGS)
        group.add_argument(
            "--many-roots", action="store_true", help="any number of words may hang on the root, in place of one"
        )

    # -- files ---------------------------------------------------------------------------------------------------------

    def read_training(self, args: argparse.Namespace) -> _File:
        file = _read(args.data)
        _check_trees(file, args.many_roots)
        return file

    def read_inputs(self, model: Any, path: Path, *, truth: bool) -> _File:
        return _read(path)

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
        from ..estimators.parse import DependencyParser
        from .parse_model import ParseModel

        start = perf_counter()
        for option in ("weight", "drop"):
            if getattr(args, option):
                raise InvalidInput(f"--{option} is not for --task parse")
        neural = args.features == "neural"
        if neural and args.alpha is not None:
            raise InvalidInput("--alpha is not for --features neural: networks have no ridge penalty")
        sentences = table.sentences
        estimator = DependencyParser(
            args.loss,
            penalty=args.penalty,
            features=args.features,
            decoding=args.decoding,
            single_root=not args.many_roots,
            tol=args.tol,
            max_iter=args.max_iter,
            random_state=args.seed,
        )

        def trained(alpha: float, items: Any, **options: Any) -> Any:
            made = ParseModel(clone(estimator).set_params(alpha=alpha, **options))
            return made.fit([sentences[i] for i in items])

        def scored(model: Any, items: Any) -> dict[str, Any]:
            truths = [sentences[i] for i in items]
            return _scores(truths, model.predict(truths))

        rng = np.random.default_rng(args.seed)
        order = rng.permutation(len(sentences))
        n_out = min(round(args.test_share * len(sentences)), len(sentences) - 1)
        outside, inside = np.sort(order[:n_out]), np.sort(order[n_out:])
        grid: list[dict[str, float]] = []
        notes: list[str] = []
        value, by = args.alpha, "--alpha"
        if value is None and (neural or len(inside) < 5):
            value, by = 1e-2, "default"
        held_out = None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the final fit will say so
            if value is None:
                shuffled = rng.permutation(inside)
                n_valid = max(1, len(inside) // 5)
                for i, alpha in enumerate(_ALPHAS):
                    progress(0.6 * i / len(_ALPHAS), f"alpha {alpha:g}")
                    found = trained(alpha, shuffled[n_valid:], tol=max(args.tol, _CV_TOL), labels=False)
                    grid.append({"alpha": alpha, "uas": scored(found, shuffled[:n_valid])["uas"]})
                value, by = max(grid, key=lambda point: point["uas"])["alpha"], "validation"
            if n_out:
                progress(0.6, "fit for the held-out sentences")
                held_out = scored(trained(value, inside), outside)
            elif args.test_share > 0:
                notes.append("there are too few sentences to hold any out")
        progress(0.8, "fit on all sentences")
        began = perf_counter()
        final = trained(value, range(len(sentences)))
        progress(1.0, "done")
        fitted = final.estimator
        return final, {
            "task": self.name,
            "data": table.source,
            "sentences": len(sentences),
            "words": sum(map(len, sentences)),
            "labels": fitted.labels_.tolist(),
            "loss": args.loss,
            "penalty": args.penalty,
            "features": args.features,
            "decoding": args.decoding,
            "seed": args.seed,
            "alpha": {"value": value, "chosen_by": by, "grid": grid},
            "held_out": held_out,
            "final": training_state(fitted),
            "seconds": {"final_fit": perf_counter() - began, "total": perf_counter() - start},
            "notes": notes,
        }

    def show_fit(self, report: dict[str, Any]) -> str:
        parts = [
            f"{report['data']}: {report['sentences']} sentences, {report['words']} words, {len(report['labels'])} labels"
        ]
        alpha, held = report["alpha"], report["held_out"]
        if alpha["grid"]:
            rows = [["alpha", "UAS", ""]]
            rows += [
                [f"{p['alpha']:g}", f"{p['uas']:.4f}", "<- chosen" if p["alpha"] == alpha["value"] else ""]
                for p in alpha["grid"]
            ]
            parts.append("Choice of alpha on a fifth of the training sentences\n" + columns(rows))
        if held:
            parts.append(f"On {held['sentences']} held-out sentences\n" + _table(held))
        rows = final_rows(report)
        if report["features"] == "neural":
            told = {"iterations": "epochs", "objective": "mean loss while learning"}
            rows = [[told.get(name, name), *rest] for name, *rest in rows if name not in ("alpha", "duality gap")]
        parts.append("Final fit on all sentences\n" + columns(rows, header=False, left=2))
        parts += [f"Note: {note}" for note in report["notes"]]
        return "\n\n".join(parts)

    # -- use -----------------------------------------------------------------------------------------------------------

    def predictions(self, model: Any, table: Any, *, proba: bool) -> Iterator[list[str]]:
        if proba:
            raise InvalidInput("--proba is not for parses; in Python see DependencyParser.predict_marginals")
        parses = model.predict(table.sentences)
        return (line.split("\t") for parse in parses for line in (*parse.lines, ""))

    def evaluate(self, model: Any, table: Any, *, weight: str | None) -> dict[str, Any]:
        if weight is not None:
            raise InvalidInput("--weight is not for a model of --task parse")
        _check_heads(table)
        scores = _scores(table.sentences, model.predict(table.sentences))
        return {"task": self.name, "data": table.source, **scores}

    def show_evaluation(self, report: dict[str, Any]) -> str:
        return show_scores(report)

    def describe(self, model: Any) -> dict[str, Any]:
        estimator = model.estimator
        return {
            "labels": estimator.labels_.tolist(),
            "features": estimator.n_features_in_,
            **{key: getattr(estimator, key) for key in ("loss", "decoding", "single_root")},
            **(
                {} if estimator.features == "neural" else {key: getattr(estimator, key) for key in ("penalty", "alpha")}
            ),
            **training_state(estimator),
        }

    def headline(self, report: dict[str, Any]) -> dict[str, Any]:
        return {title: report["held_out"][key] for key, title in _METRICS.items()}


def is_treebank(path: Path) -> bool:
    """Whether a file's name is that of a CoNLL-U file."""
    return path.name.lower().endswith((".conllu", ".conllu.gz"))


def compare_files(gold: Path, system: Path) -> dict[str, Any]:
    """``fenchel evaluate GOLD SYSTEM``: attachment scores of one CoNLL-U file by another."""
    truth, answers = _read(gold), _read(system)
    for file in (truth, answers):
        _check_heads(file)
    if len(truth) != len(answers):
        raise InvalidInput(f"{truth.source} has {len(truth)} sentences, {answers.source} {len(answers)}")
    for i, (a, b) in enumerate(zip(truth.sentences, answers.sentences, strict=True), 1):
        if a.forms != b.forms:
            at = next(
                (m for m, (x, y) in enumerate(zip(a.forms, b.forms, strict=False)) if x != y), min(len(a), len(b))
            )
            one, other = (repr(s.forms[at]) if at < len(s) else "missing" for s in (a, b))
            raise InvalidInput(
                f"sentence {i} has other words in {answers.source} than in {truth.source}: word {at + 1} is {other}, not {one}"
            )
    return {
        "task": Parse.name,
        "gold": truth.source,
        "data": answers.source,
        **_scores(truth.sentences, answers.sentences),
    }


def show_scores(report: dict[str, Any]) -> str:
    """Scores of a file for people."""
    return f"{report['data']}: {report['sentences']} sentences, {report['words']} words\n" + _table(report)


def _read(path: Path) -> _File:
    from ..data.conllu import read_conllu

    return _File(str(path), read_conllu(path))


def _check_heads(file: _File) -> None:
    for i, sentence in enumerate(file.sentences, 1):
        if (sentence.heads < 0).any():
            raise InvalidInput(f"{file.source}: sentence {i} has words without a head, so there is nothing to compare")


def _check_trees(file: _File, many_roots: bool) -> None:
    """Refuse sentences that are no trees by what their file calls them."""
    from ..structures.tree import Arborescence, DependencyTree

    for i, sentence in enumerate(file.sentences, 1):
        heads = sentence.heads
        fault = None
        if (heads < 0).any():
            fault = f"word {int((heads < 0).argmax()) + 1} has no head"
        elif not many_roots and (heads == 0).sum() > 1:
            fault = f"{int((heads == 0).sum())} words hang on the root; --many-roots allows that"
        else:
            tree = (Arborescence if many_roots else DependencyTree)(len(sentence))
            try:
                tree.encode(heads)
            except InvalidInput as error:
                fault = str(error).replace(" of sample 0", "")
        if fault is not None:
            name = next((c[1:].strip() for c in sentence.comments if c[1:].strip().startswith("sent_id")), None)
            raise InvalidInput(f"{file.source}, sentence {i}{'' if name is None else f' ({name})'}: {fault}")


def _scores(gold: list[Any], system: list[Any]) -> dict[str, Any]:
    """The attachment scores by the rule of CoNLL 2018, and those without punctuation."""
    from ..metrics import attachment_scores

    found = {rule: attachment_scores(gold, system, rule=rule) for rule in _RULES}
    by_rule = {rule: {key: float(getattr(scores, key)) for key in _METRICS} for rule, scores in found.items()}
    return {
        "sentences": len(gold),
        "words": found["conll18"].words,
        **by_rule["conll18"],
        "without_punctuation": by_rule["tags"],
    }


def _table(scores: dict[str, Any]) -> str:
    rows = [["", *_METRICS.values()]]
    for title, part in zip(_RULES.values(), (scores, scores["without_punctuation"]), strict=True):
        rows.append([title, *(f"{part[key]:.4f}" for key in _METRICS)])
    return columns(rows)
