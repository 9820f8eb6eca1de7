"""Do the risks of the loss trick fall as the theorems say? A cost matrix on three classes, one input, known probabilities.

Ciliberto, Rudi and Rosasco, "A consistent regularization approach for structured prediction", 2016: Theorem 4 (with
λ = n^(-1/4) the risk tends to the least), Theorem 5 (with λ = n^(-1/2) the excess risk falls at least as n^(-1/4)), Theorem 2 (it
is bounded by the root of the surrogate's excess risk). The document measures none of them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .._core.types import Array
from ..estimators.loss_trick import LossTrickPredictor
from ..structures.simplex import Simplex

__all__ = ["COST", "excess_risks", "run"]

COST = np.array([[0.0, 1.0, 4.0], [2.0, 0.0, 1.0], [3.0, 3.0, 0.0]])
_POWERS = (-0.25, -0.5)


def run(
    data: Path | None = None, quick: bool = False, progress: Callable[[float, str], None] | None = None
) -> dict[str, Any]:
    """Mean excess risks by sample size, what Theorem 2 allows, and the slopes of their logarithms."""
    sizes = (30, 120, 480) if quick else (50, 100, 200, 400, 800, 1600)
    seeds = 2 if quick else 10
    rows, slopes, values = [], [], {}
    found = []
    for done, power in enumerate(_POWERS):
        if progress is not None:
            progress(done / len(_POWERS), f"alpha = n^{power}")
        found.append(excess_risks(sizes, power, seeds))
    for j, n in enumerate(sizes):
        cells = [f"{risks[j]:.4f}" if k == 0 else f"{bounds[j]:.2f}" for risks, bounds in found for k in (0, 1)]
        rows.append([str(n), *cells])
    for power, (risks, bounds) in zip(_POWERS, found, strict=True):
        slopes.append(f"alpha = n^{power}: {np.polyfit(np.log(sizes), np.log(risks), 1)[0]:.2f}")
        values[str(power)] = {"risks": risks.tolist(), "bounds": bounds.tolist()}
    heads = [f"alpha = n^{power}{what}" for power in _POWERS for what in ("", ", bound")]
    return {
        "title": "Loss trick: excess risk (cost above that of the best answers), by number of examples",
        "columns": ["n", *heads],
        "rows": rows,
        "notes": [
            f"Means over {seeds} samples. Three classes, costs {COST.tolist()} [answer][truth], one input on [-1, 1] whose",
            "class probabilities are smooth functions, answers by one argmax, a Gaussian kernel of gamma 10.",
            f"Slope of log risk against log n, {'; '.join(slopes)}. Theorem 5 promises -0.25 or less for n^-0.5.",
            "The bound is Theorem 2's for the very predictors, 2 ‖C‖ (excess surrogate risk)^(1/2), mean of the samples' bounds.",
        ],
        "values": values,
        "sizes": list(sizes),
    }


def probabilities(x: Array) -> Array:
    """Of the three classes at each input."""
    exp = np.exp(1.5 * np.column_stack([np.cos(5 * x), np.sin(5 * x), 0.5 * np.cos(9 * x)]))
    return exp / exp.sum(axis=1, keepdims=True)


def excess_risks(sizes: Any, power: float, seeds: int) -> tuple[Array, Array]:
    """Mean excess risk at each size with λ = n^power, and the mean of what the comparison inequality allows."""
    t = np.linspace(-1, 1, 400)
    p = probabilities(t)
    expected = p @ COST.T
    risks, bounds = np.zeros(len(sizes)), np.zeros(len(sizes))
    for j, n in enumerate(sizes):
        for seed in range(seeds):
            rng = np.random.default_rng(seed)
            x = rng.uniform(-1, 1, n)
            y = (probabilities(x).cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
            model = LossTrickPredictor(COST, answers=Simplex(3), alpha=n**power, kernel_params={"gamma": 10.0})
            answers = model.fit(x[:, None], y).predict(t[:, None])
            risks[j] += (expected[np.arange(400), answers] - expected.min(axis=1)).mean() / seeds
            surrogate = model.weights(t[:, None]) @ np.eye(3)[y]
            off = np.sqrt(((surrogate - p) ** 2).sum(axis=1).mean())
            bounds[j] += 2 * np.linalg.norm(COST, 2) * off / seeds
    return risks, bounds
