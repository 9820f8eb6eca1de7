"""Handwritten words, letter by letter: chains against no structure, and the losses against each other.

Taskar, Guestrin and Koller, "Max-margin Markov networks", 2003, section 6, train on one of ten folds of about 690 words and
test on the other nine; they report errors in a figure only. Here the inputs are the 128 pixels, scores are linear.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .._core.errors import InvalidInput
from ..data.letters import Letters, read_letters
from ..errors import ConvergenceWarning
from ..estimators.classify import FenchelYoungClassifier
from ..estimators.tag import SequenceLabeler
from .resume import Kept, fingerprint

__all__ = ["run"]

Told = Callable[[float, str], None]

_ALPHAS = (1e-1, 1e-2, 1e-3, 1e-4)
_METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "unstructured": ("no structure, logistic", {"tol": 1e-2}),
    "perceptron": ("chain, averaged perceptron", {}),
    "hinge": ("chain, structured hinge", {"tol": 1e-2, "max_iter": 15}),
    "crf": ("chain, CRF", {"tol": 1e-2}),
    "sparsemap": ("chain, SparseMAP", {"tol": 5e-2, "max_iter": 15}),
}
_TUNED = ("unstructured", "hinge", "crf")


def run(data: Path | None = None, quick: bool = False, progress: Told | None = None, folds: int = 10) -> dict[str, Any]:
    """Error by letter and by word of each method, trained on one of the first ``folds`` folds and tested on the others."""
    words = _given(data) if data is not None else _made_up()
    folds = 1 if quick else folds
    if data is None:
        folds = min(folds, 3)
    errors: dict[str, dict[str, list[float]]] = {m: {"letter": [], "word": []} for m in _METHODS}
    alphas: dict[str, float] = {}
    unfinished = 0
    total, done = folds * len(_METHODS) + len(_TUNED), 0
    with Kept("letters", {"protocol": 1, "alphas": _ALPHAS, "quick": quick}) as kept:
        for method in _METHODS:
            if method in _TUNED:
                if progress is not None:
                    progress(done / total, f"alpha of {method}")
                alphas[method] = _chosen(kept, words, method, quick)
                done += 1
        alphas["sparsemap"], alphas["perceptron"] = alphas["crf"], 0.0
        for fold in range(folds):
            inside, outside = np.flatnonzero(words.fold == fold), np.flatnonzero(words.fold != fold)
            if quick:
                inside, outside = inside[:80], outside[:200]
            for method in _METHODS:
                if progress is not None:
                    progress(done / total, f"fold {fold + 1} of {folds}, {method}")
                what = {
                    "fold": fold,
                    "method": method,
                    "content": fingerprint(inside, outside),
                    "alpha": alphas[method],
                }
                value = kept.get(what)
                if value is None:
                    value = _one(words, inside, outside, method, alphas[method])
                    kept.put(what, value)
                for kind in ("letter", "word"):
                    errors[method][kind].append(value[kind])
                unfinished += value["unfinished"]
                done += 1
        note = kept.note
    rows = []
    for method, (title, _) in _METHODS.items():
        alpha = "-" if method == "perceptron" else f"{alphas[method]:g}"
        rows.append([title, alpha, _spread(errors[method]["letter"]), _spread(errors[method]["word"])])
    notes = [
        f"Trained on one fold and tested on the others, {folds} times (± is the standard deviation over these). Alpha is of "
        "the mean loss, by letter error on a fifth of the first fold, from "
        f"{', '.join(f'{a:g}' for a in _ALPHAS)}; a tenth of these without structure, where the mean is over letters. SparseMAP "
        "takes that of the CRF. Answers have the least expected number of wrong letters (CRF, SparseMAP) or the best score.",
        "Hinge and SparseMAP stop after 15 passes or iterations at the latest, the perceptron after 20 passes.",
    ]
    if quick:
        notes.append("Quick: 80 words to learn from and 200 to test on, one fold.")
    if data is None:
        notes.append(
            "No data given: made-up letters of noise around templates, words that tend to repeat their letters."
        )
    if unfinished:
        notes.append(f"{unfinished:.0f} trainings stopped before their duality gap was reached.")
    return {
        "title": "OCR letters: error by letter and by word",
        "columns": ["method", "alpha", "letter error", "word error"],
        "rows": rows,
        "notes": [*notes, *([note] if note else [])],
        "values": errors,
        "alphas": alphas,
    }


def _given(data: Path) -> Letters:
    for name in ("ocr_letters.npz", "letter.data.gz", "letter.data"):
        path = data / "sequence" / name
        if path.exists():
            return read_letters(path)
    raise InvalidInput(
        f"there is no {str(data / 'sequence' / 'ocr_letters.npz')!r}, which the experiment letters reads"
    )


def _made_up() -> Letters:
    rng = np.random.default_rng(0)
    templates = rng.random((8, 128)) < 0.3
    X, y = [], []
    for _ in range(300):
        length = int(rng.integers(3, 9))
        letters = np.zeros(length, dtype=np.int64)
        for t in range(length):
            letters[t] = rng.integers(8) if t == 0 or rng.random() < 0.3 else (letters[t - 1] + 1) % 8
        X.append((templates[letters] ^ (rng.random((length, 128)) < 0.4)).astype(np.float64))
        y.append([chr(ord("a") + i) for i in letters])
    return Letters(X, y, np.arange(300) % 3)


def _chosen(kept: Kept, words: Letters, method: str, quick: bool) -> float:
    inside = np.flatnonzero(words.fold == 0)[: 80 if quick else None]
    order = np.random.default_rng(0).permutation(inside)
    fit, valid = order[len(order) // 5 :], order[: len(order) // 5]
    errors = {}
    # the mean is over letters without a structure and over words with one, of about eight letters each
    for alpha in (a / 10 for a in _ALPHAS) if method == "unstructured" else _ALPHAS:
        what = {"choice": method, "alpha": alpha, "content": fingerprint(fit, valid)}
        value = kept.get(what)
        if value is None:
            value = _one(words, fit, valid, method, alpha)
            kept.put(what, value)
        errors[alpha] = value["letter"]
    return min(errors, key=lambda alpha: errors[alpha])


def _one(words: Letters, inside: Any, outside: Any, method: str, alpha: float) -> dict[str, float]:
    """Train and test: the shares of wrong letters and of words that are not all right."""
    X, y = [words.X[i] for i in inside], [words.y[i] for i in inside]
    tests, truths = [words.X[i] for i in outside], [words.y[i] for i in outside]
    options = {"alpha": alpha, "random_state": 0, **_METHODS[method][1]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # counted and told in the notes
        if method == "unstructured":
            single = FenchelYoungClassifier("gibbs", **options).fit(np.concatenate(X), np.concatenate(y))
            converged = single.converged_
            flat = single.predict(np.concatenate(tests)).tolist()
            ends = np.cumsum([0, *map(len, truths)]).tolist()
            predicted = [flat[a:b] for a, b in itertools.pairwise(ends)]
        else:
            if method == "perceptron":
                del options["alpha"]
            model = SequenceLabeler(method, **options).fit(X, y)
            converged = model.converged_ or method == "perceptron"
            predicted = model.predict(tests)
    wrong = [sum(a != b for a, b in zip(p, t, strict=True)) for p, t in zip(predicted, truths, strict=True)]
    return {
        "letter": sum(wrong) / sum(map(len, truths)),
        "word": sum(w > 0 for w in wrong) / len(wrong),
        "unfinished": float(not converged),
    }


def _spread(values: list[float]) -> str:
    error = f" ± {100 * np.std(values, ddof=1):.2f}" if len(values) > 1 else ""
    return f"{100 * np.mean(values):.2f} %{error}"
