"""Names of persons, places and organisations in Dutch newspapers: F1 of whole entities, by loss.

The corpus (97 pages with errors of character recognition, CC0) comes with the package seqlearn; no results on it are published.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from .._core.errors import InvalidInput
from ..data.conll import read_conll
from ..data.sequences import SequenceEncoder
from ..data.words import word_features
from ..errors import ConvergenceWarning
from ..estimators.classify import FenchelYoungClassifier
from ..estimators.tag import SequenceLabeler
from ..metrics import entity_scores
from .resume import Kept, fingerprint

__all__ = ["run"]

Told = Callable[[float, str], None]
Sentences = list[list[str]]

_ALPHA = 2e-5
_METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "unstructured": ("no structure, logistic", {"tol": 1e-2}),
    "perceptron": ("chain, averaged perceptron", {}),
    "hinge": ("chain, structured hinge", {"tol": 1e-2, "max_iter": 15}),
    "crf": ("chain, CRF", {"tol": 1e-2}),
}


def run(
    data: Path | None = None, quick: bool = False, progress: Told | None = None, sentences: int | None = None
) -> dict[str, Any]:
    """Precision, recall and F1 on the last fifth of the pages, trained on the others; of the first ``sentences`` only."""
    words, tags = _given(data) if data is not None else _made_up()
    cut = 300 if quick else sentences
    words, tags = words[:cut], tags[:cut]
    cut = len(words) * 4 // 5
    values: dict[str, dict[str, float]] = {}
    with Kept("entities", {"protocol": 1, "alpha": _ALPHA}) as kept:
        for done, method in enumerate(_METHODS):
            if progress is not None:
                progress(done / len(_METHODS), method)
            what = {"method": method, "content": fingerprint(np.array([len(words), cut])), "given": data is not None}
            value = kept.get(what)
            if value is None:
                value = _one(words[:cut], tags[:cut], words[cut:], tags[cut:], method)
                kept.put(what, value)
            values[method] = value
        note = kept.note
    rows = [
        [
            title,
            *(f"{100 * values[m][key]:.2f} %" for key in ("precision", "recall", "f1", "accuracy")),
            f"{values[m]['seconds']:.0f} s",
        ]
        for m, (title, _) in _METHODS.items()
    ]
    notes = [
        f"The first {cut} sentences to learn from, the last {len(words) - cut} to test on; features are those of "
        f"fenchel.data.word_features, weights only for tags that a feature was met with, alpha {_ALPHA:g} for all (for CRFsuite "
        f"c2 = {_ALPHA * cut / 2:.3g}).",
    ]
    if data is None:
        notes.append("No data given: made-up sentences.")
    if quick:
        notes.append("Quick: the first 300 sentences only.")
    unfinished = sum(value["unfinished"] for value in values.values())
    if unfinished:
        told = (
            "1 training stopped before its" if unfinished == 1 else f"{unfinished:.0f} trainings stopped before their"
        )
        notes.append(f"{told} duality gap was reached.")
    return {
        "title": "Dutch entities: precision, recall and F1",
        "columns": ["method", "precision", "recall", "F1", "tags right", "training"],
        "rows": rows,
        "notes": [*notes, *([note] if note else [])],
        "values": values,
    }


def _given(data: Path) -> tuple[Sentences, Sentences]:
    path = data / "sequence" / "kb_dutch_ner.tsv.gz"
    if not path.exists():
        raise InvalidInput(f"there is no {str(path)!r}, which the experiment entities reads")
    words, tags = read_conll(path, 0, 1)
    return words, tags


def _made_up() -> tuple[Sentences, Sentences]:
    """Sentences of fillers and names; a name's second part is told by its first only."""
    rng = np.random.default_rng(0)
    stems = {
        "PER": ["Jan", "Piet", "Ada", "Eva"],
        "LOC": ["Rotterdam", "Delft", "Leiden", "Gent"],
        "O": ["de", "een", "gaat", "ziet", "in"],
    }
    words, tags = [], []
    for _ in range(300):
        sentence: list[str] = []
        labels: list[str] = []
        for kind in rng.choice(["PER", "LOC", "O", "O"], size=int(rng.integers(2, 7))):
            sentence.append(str(rng.choice(stems[kind])))
            labels.append("O" if kind == "O" else f"B-{kind}")
            if kind != "O" and rng.random() < 0.4:
                sentence.append(str(rng.choice(["Zee", "Berg", "Bos"])))
                labels.append(f"I-{kind}")
        words.append(sentence)
        tags.append(labels)
    return words, tags


def _one(words: Sentences, tags: Sentences, others: Sentences, truths: Sentences, method: str) -> dict[str, float]:
    X, tests = [word_features(s) for s in words], [word_features(s) for s in others]
    options = {"alpha": _ALPHA, "random_state": 0, **_METHODS[method][1]}
    start = perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # counted and told in the notes
        if method == "unstructured":
            encoder = SequenceEncoder()
            flat_tags = [tag for sentence in tags for tag in sentence]
            # the mean is over tokens here and over sentences there
            options["alpha"] *= len(tags) / len(flat_tags)
            model: Any = FenchelYoungClassifier("gibbs", **options).fit(encoder.fit_transform(X), flat_tags)
            seconds = perf_counter() - start
            flat = model.predict(encoder.transform(tests)).tolist()
            ends = np.cumsum([0, *map(len, truths)]).tolist()
            predicted = [flat[a:b] for a, b in itertools.pairwise(ends)]
        else:
            model = SequenceLabeler(method, weights="met", **options).fit(X, tags)
            seconds = perf_counter() - start
            predicted = model.predict(tests)
    found = entity_scores(predicted, truths)
    right = sum(a == b for p, t in zip(predicted, truths, strict=True) for a, b in zip(p, t, strict=True))
    return {
        "precision": found.precision,
        "recall": found.recall,
        "f1": found.f1,
        "accuracy": right / sum(map(len, truths)),
        "seconds": seconds,
        "unfinished": float(not (model.converged_ or method == "perceptron")),
    }
