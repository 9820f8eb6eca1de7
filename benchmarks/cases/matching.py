"""Matchings: adversarial training against the structured hinge, and prediction."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness import Case, Contender, Probe, Row

__all__ = ["cases"]

Array = Any
_PAIRS, _ALPHA, _GAP = 50, 1e-2, 1e-3
_SIZES = (12, 16, 18, 30, 34)
_SMOOTHING = 0.1


def cases() -> list[Case | Probe]:
    title = (
        f"Adversarial matching (smoothed), {_PAIRS} pairs of sets, to a relative gap of {_GAP:g}, by number of elements"
    )
    return [
        _training(34, 0.0, "exact"),
        _training(34, _SMOOTHING, "smoothed"),
        Probe("matching-sizes", title, _by_size),
        _prediction(10_000, 12),
    ]


def _tracking(n: int) -> Callable[[np.random.Generator], tuple[list[Array], list[Array]]]:
    """Frames with n boxes that all stay, shaken so much that every fourth is hard to follow."""

    def make(rng: np.random.Generator) -> tuple[list[Array], list[Array]]:
        from fenchel.data import frame_pairs, moving_boxes

        boxes = moving_boxes(_PAIRS + 2, n, turnover=0.0, noise=0.25, random_state=int(rng.integers(2**31)))
        pairs = frame_pairs(boxes)[1 : _PAIRS + 1]
        return [pair.features for pair in pairs], [pair.partners for pair in pairs]

    return make


def _train(**options: Any) -> Callable[[Any], Callable[[Any], Any]]:
    def build(setting: Any) -> Callable[[Any], Any]:
        from fenchel import BipartiteMatcher

        def fit(data: Any) -> Any:
            return BipartiteMatcher(alpha=_ALPHA, tol=_GAP, random_state=0, **options).fit(*data)

        return fit

    return build


def _relative_gap(data: Any, reference: Any, model: Any) -> dict[str, float]:
    return {"relative gap": model.dual_gap_ / model.objective_}


def _training(n: int, smoothing: float, name: str) -> Case:
    return Case(
        name=f"matching-{name}-n{n}",
        title=f"adversarial matching ({name}), {_PAIRS} pairs of sets of {n}, tracking-like, to a relative gap of {_GAP:g}",
        make=_tracking(n),
        ours=Contender(f"adversarial, {name}", _train(loss="adversarial", smoothing=smoothing), threads="each"),
        peers=(
            Contender("structured hinge (ours)", _train(loss="hinge"), threads="each"),
            Contender("SparseMAP (ours)", _train(loss="sparsemap"), threads="each", in_target=False),
        ),
        measure=_relative_gap,
        goals={"relative gap": _GAP},
        peer_goals={"relative gap": _GAP},
        target=1 / 8,
        against="the structured hinge, same data and tolerance (at most 8 times its time; 31 times was published)",
        sets=2,
        checked=1,
        seconds=20.0,
    )


def _by_size(quick: bool) -> list[Row]:
    rows, times = [], []
    fit = _train(loss="adversarial", smoothing=_SMOOTHING)(None)
    for n in _SIZES:
        sets = [_tracking(n)(np.random.default_rng(seed)) for seed in range(2 if quick else 5)]
        fit(sets[0])
        seconds = []
        for data in sets:
            start = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # a run that misses its gap is no timing
                model = fit(data)
            seconds.append(time.perf_counter() - start)
        times.append(float(np.median(seconds)))
        rows.append(Row(f"n = {n}", tuple(seconds), note=f"{model.n_iter_} iterations of L-BFGS"))
    exponent = float(np.polyfit(np.log(_SIZES), np.log(times), 1)[0])
    return [*rows, Row("exponent of n", (exponent,), limit=3.0, unit="", note="slope of log time by log n, medians")]


def _prediction(count: int, n: int) -> Case:
    features = 6

    def make(rng: np.random.Generator) -> tuple[Array, Array]:
        return rng.normal(size=(count, n, n, features)), rng.normal(size=features)

    def ours(setting: Any) -> Callable[[Any], Any]:
        from fenchel import BipartiteMatcher

        def predict(data: tuple[Array, Array]) -> list[Array]:
            return model.predict(data[0])

        rng = np.random.default_rng(0)
        model = BipartiteMatcher(alpha=1.0).fit(rng.normal(size=(2, n, n, features)), [np.arange(n)] * 2)

        def with_weights(data: tuple[Array, Array]) -> list[Array]:
            model.weights_ = data[1]
            return predict(data)

        return with_weights

    def scipy_loop(setting: Any) -> Callable[[Any], Any]:
        from scipy.optimize import linear_sum_assignment

        return lambda data: [linear_sum_assignment(x @ data[1], maximize=True)[1] for x in data[0]]

    def scipy_batch(setting: Any) -> Callable[[Any], Any]:
        from scipy.optimize import linear_sum_assignment

        return lambda data: [linear_sum_assignment(t, maximize=True)[1] for t in data[0] @ data[1]]

    def total(data: tuple[Array, Array], answers: Any) -> Array:
        theta = data[0] @ data[1]
        return np.take_along_axis(theta, np.asarray(answers)[..., None], axis=2).sum(axis=(1, 2))

    return Case(
        name=f"matching-predict-n{n}",
        title=f"BipartiteMatcher.predict, {count} matchings of {n}, {features} features of pairs",
        make=make,
        ours=Contender("fenchel BipartiteMatcher.predict", ours, threads="each"),
        peers=(
            Contender("scipy linear_sum_assignment loop", scipy_loop),
            Contender("scipy loop, scores of all in one product", scipy_batch, in_target=False),
        ),
        reference=lambda data: total(data, scipy_loop(None)(data)),
        measure=lambda data, best, answers: {"score short by": float((best - total(data, answers)).max())},
        goals={"score short by": 1e-9},
        peer_goals={"score short by": 1e-9},
        target=2.0,
        against="scipy linear_sum_assignment loop",
        sets=2,
        checked=1,
        seconds=8.0,
    )
