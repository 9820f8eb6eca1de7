"""Regression with outliers: the loss trick with the Cauchy cost against averaging and ridge regression.

Ciliberto, Rudi and Rosasco, "A consistent regularization approach for structured prediction", 2016, section 6 and Figure 1:
y = sin(6πx) + noise of variance 0.1 + an outlier, uniform on [-3, 3], with probability 0.1. The figure prints no numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .._core.types import Array
from ..costs.base import Cost
from ..costs.numbers import Cauchy
from ..costs.squared_error import SquaredError
from ..decoders.answers.base import Answers
from ..decoders.answers.line import Line
from ..decoders.answers.own import WeightedMean
from ..estimators.loss_trick import LossTrickPredictor
from .resume import Kept
from .selection import five_fold

__all__ = ["draw", "run", "sample"]

_SCALE = 1.0  # of the Cauchy cost
_GAMMAS = (3.0, 10.0, 30.0, 100.0, 300.0)
_ALPHAS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
_REPEATS = dict.fromkeys((50, 100, 200, 500, 1000), 100)
"""Samples of each size, as many as in the document."""
_SHOWN = 200
METHODS: dict[str, tuple[Cost, Answers, bool]] = {
    "ours": (Cauchy(_SCALE), Line(), False),
    "Nadaraya-Watson, robust": (Cauchy(_SCALE), Line(), True),
    "Nadaraya-Watson": (SquaredError(), WeightedMean(), True),
    "kernel ridge": (SquaredError(), WeightedMean(), False),
}


def run(
    data: Path | None = None, quick: bool = False, progress: Callable[[float, str], None] | None = None
) -> dict[str, Any]:
    """Mean distance of each method from the sine, over seeded samples of growing size."""
    repeats = {50: 3, 100: 2} if quick else _REPEATS
    sizes = list(repeats)
    values: dict[str, dict[str, list[float]]] = {str(n): {name: [] for name in METHODS} for n in sizes}
    total = sum(n * count for n, count in repeats.items())
    done = 0
    with Kept("robust", {"protocol": 2, "scale": _SCALE, "gammas": _GAMMAS, "alphas": _ALPHAS}) as kept:
        for n in sizes:
            for seed in range(repeats[n]):
                if progress is not None:
                    progress(done / total, f"n = {n}, sample {seed + 1} of {repeats[n]}")
                what = {"n": n, "seed": seed}
                errors = kept.get(what)
                if errors is None:
                    errors = {name: _distance(name, n, seed) for name in METHODS}
                    kept.put(what, errors)
                for name in METHODS:
                    values[str(n)][name].append(errors[name])
                done += n
        note = kept.note
    rows = [[str(n), *(f"{np.mean(v):.3f} ± {np.std(v, ddof=1):.3f}" for v in values[str(n)].values())] for n in sizes]
    best = [min(values[str(n)], key=lambda name: float(np.mean(values[str(n)][name]))) for n in sizes]
    return {
        "title": "Robust regression: mean distance from sin(6πx), by number of training examples",
        "columns": ["n", *METHODS],
        "rows": rows,
        "notes": [
            f"Samples by n: {', '.join(f'{count} of {n}' for n, count in repeats.items())}; the document has 100 of each.",
            "Mean ± standard deviation of the mean absolute distance on 1000 test inputs.",
            f"Ours and the robust average minimise the Cauchy cost of scale {_SCALE}, which the document does not say.",
            "Gamma and alpha are chosen by five folds of each method's own cost,",
            f"gamma from {_GAMMAS[0]:g} to {_GAMMAS[-1]:g}, alpha from {_ALPHAS[-1]:g} to {_ALPHAS[0]:g}.",
            f"Best in mean: {', '.join(f'{name} at n = {n}' for n, name in zip(sizes, best, strict=True))}.",
            *([note] if note else []),
        ],
        "values": values,
        "sizes": sizes,
        "example": _example(50 if quick else _SHOWN),
    }


def sample(n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Inputs on [-1, 1] and noisy outputs, one in ten of them an outlier."""
    x = rng.uniform(-1, 1, n)
    outlier = np.where(rng.random(n) < 0.1, rng.uniform(-3, 3, n), 0.0)
    return x[:, None], np.sin(6 * np.pi * x) + rng.normal(0, np.sqrt(0.1), n) + outlier


def _fitted(name: str, X: Array, y: Array, rng: np.random.Generator) -> LossTrickPredictor:
    cost, answers, averaging = METHODS[name]
    coarse = Line(polish=False, grid=128) if isinstance(answers, Line) else answers
    gamma, alpha = five_fold(
        X, y, cost, coarse, _GAMMAS, _ALPHAS[:1] if averaging else _ALPHAS, rng, averaging=averaging
    )
    model = LossTrickPredictor(
        cost,
        alpha=alpha,
        kernel_params={"gamma": gamma},
        answers=answers,
        weighting="nadaraya_watson" if averaging else "ridge",
    )
    return model.fit(X, y)


def _distance(name: str, n: int, seed: int) -> float:
    rng = np.random.default_rng([seed, n])
    X, y = sample(n, rng)
    T = rng.uniform(-1, 1, (1000, 1))
    model = _fitted(name, X, y, rng)
    return float(np.abs(model.predict(T) - np.sin(6 * np.pi * T[:, 0])).mean())


def _example(n: int) -> dict[str, Any]:
    """One sample and what each method makes of it."""
    rng = np.random.default_rng(0)
    X, y = sample(n, rng)
    grid = np.linspace(-1, 1, 400)
    curves = {name: _fitted(name, X, y, np.random.default_rng(1)).predict(grid[:, None]).tolist() for name in METHODS}
    return {"x": X[:, 0].tolist(), "y": y.tolist(), "grid": grid.tolist(), "curves": curves}


def draw(result: dict[str, Any]) -> Any:
    """The two pictures of Figure 1 from a result of :func:`run`."""
    from ..plots.loss_trick import robust_regression

    return robust_regression(result)
