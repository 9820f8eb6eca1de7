"""Parsing: passes of the moment-robust trainers, and a parser with lexical features"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Case, Probe, Row

__all__ = ["cases"]

Array = Any
_SENTENCES, _WORDS, _FEATURES, _GAP, _ALPHA = 200, 20, 500, 1e-3, 1e-2
# So long that the training heads are soon told apart. Of steps a tenth as long the double oracle's passes did not end in
# nine minutes: with many heads in doubt it needs very many trees, and no other trainer does.
_STEP = 2e-3


def cases() -> list[Case | Probe]:
    title = (
        f"One pass of training over {_SENTENCES} sentences of {_WORDS} tokens, {_FEATURES} x {_FEATURES} bilinear features, "
        f"games to {_GAP:g} wrong heads, through a pass of head-selection cross-entropy"
    )
    return [
        Probe("parsing-passes", title, _passes),
        Probe("parsing-lexical", "A parser with lexical features on one thread, sentences of English GUM", _lexical),
    ]


def _problem(rng: np.random.Generator) -> tuple[Any, Any]:
    """Vectors of words whose arcs are told by a bilinear form and noise, so that some heads stay in doubt."""
    from fenchel.scorers import Bilinear
    from fenchel.structures import DependencyTrees

    words, heads = [], []
    for _ in range(_SENTENCES):
        x = rng.normal(size=(_WORDS, _FEATURES - 1))
        words.append(np.c_[x, np.ones(_WORDS)])
        heads.append(np.c_[np.r_[np.zeros((1, _FEATURES - 1)), x], np.ones(_WORDS + 1)])
    scorer = Bilinear(words, heads)
    theta = scorer.scores(3 * rng.normal(size=scorer.weights_shape) / _FEATURES)
    theta = theta.like(theta.flat + rng.normal(size=theta.flat.shape))
    return scorer, DependencyTrees().argmax(theta)


def _passes(quick: bool) -> list[Row]:
    from fenchel._core.parallel import single_blas_thread
    from fenchel.costs import Hamming
    from fenchel.losses import Adversarial, HeadSelection
    from fenchel.solvers.base import make_objective
    from fenchel.solvers.dual_frank_wolfe import _Steps
    from fenchel.structures import DependencyTrees

    trees = DependencyTrees()
    scorer, truths = _problem(np.random.default_rng(0))
    count = 5 if quick else 10
    passes = {
        "head selection": HeadSelection(trees),
        "stochastic, no smoothing": Adversarial(trees, Hamming(), tol=_GAP),
        "stochastic, smoothing 0.1": Adversarial(trees, Hamming(), 0.1, tol=_GAP),
        "game": Adversarial(trees, Hamming(), tol=_GAP, method="double_oracle"),
    }
    seconds: dict[str, list[float]] = {}
    left: dict[str, float] = {}
    with single_blas_thread():
        for name, loss in passes.items():
            objective = make_objective(scorer, loss, truths, _ALPHA, None)
            w, seconds[name], worst = scorer.zero_weights(), [], 0.0
            for step in range(count + 1):
                start = time.perf_counter()
                _, gradient = objective.value_and_grad(w)
                if step:  # the first compiles, and starts cold
                    seconds[name].append(time.perf_counter() - start)
                    worst = max(worst, objective.inner_gap)
                w = w - _STEP * gradient
            left[name] = worst
        objective = make_objective(scorer, passes["stochastic, smoothing 0.1"], truths, _ALPHA, None)
        steps = _Steps(objective, truths.astype(np.float64))
        steps.step()
        seconds["marginal"] = [_timed(steps.step) for _ in range(count)]
    base = np.array(seconds["head selection"])
    rows = [Row("head selection", tuple(base), note="the pass that the others are compared with")]
    limits = {"marginal": 2.0, "stochastic, smoothing 0.1": 5.0, "stochastic, no smoothing": 5.0, "game": 15.0}
    for name, limit in limits.items():
        note = f"{1e3 * float(np.median(seconds[name])):.3g} ms a pass"
        if name in left:
            note += f", mean gap of games at most {left[name]:.1g}"
        ratios = tuple(np.array(seconds[name]) / float(np.median(base)))
        rows.append(Row(f"{name} over head selection", ratios, limit=limit, unit="times", note=note))
    return rows


def _timed(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _lexical(quick: bool) -> list[Row]:
    from fenchel import DependencyParser, set_threads
    from fenchel.data import read_conllu, small_treebank
    from fenchel.data.arc_features import arc_rows, label_rows

    folder = os.environ.get("FENCHEL_DATA")
    path = None if folder is None else Path(folder) / "dependency_ud" / "en_gum-ud2.3-test.conllu.gz"
    if path is not None and path.exists():
        sentences = read_conllu(path)
        train, test = sentences[:100], sentences[100 : 200 if quick else 500]
        note = "GUM"
    else:
        train, test = small_treebank(100, random_state=0), small_treebank(100 if quick else 400, random_state=1)
        note = "a treebank from a small grammar"
    before = set_threads(1)
    try:
        parser = DependencyParser(alpha=0.1, tol=0.1).fit(train)
        parser.predict(test[:5])
        words = sum(map(len, test))
        whole = _timed(lambda: parser.predict(test))
        features = _timed(lambda: arc_rows(test, parser.hashed))
        rows_of = arc_rows(test, parser.hashed)
        scores: list[Any] = []
        scoring = _timed(lambda: scores.append(parser._scorer((rows_of, test), parser.loss_).scores(parser.weights_)))
        answering = _timed(lambda: parser.decoder_.decode(parser.loss_.output(scores[0])))
        heads = [s.heads for s in test]
        labels = _timed(lambda: parser.labeler_.predict(label_rows(test, heads, 2**14)))
    finally:
        set_threads(before)
    rows = [
        Row("sentences a second", (len(test) / whole,), unit="", note=f"{note}, {words / len(test):.1f} words each")
    ]
    parts = {"features of arcs": features, "scores": scoring, "marginals and trees": answering, "labels": labels}
    for name, seconds in parts.items():
        rows.append(
            Row(f"{name}, of a sentence", (seconds / len(test),), note=f"{100 * seconds / whole:.0f} % of the time")
        )
    return rows
