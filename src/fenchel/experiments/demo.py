"""The demonstration: projection losses compared on handwritten digits that scikit-learn bundles."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from .._core.errors import MissingDependency
from .._core.saving import save
from .._core.types import Array
from ..estimators.classify import FenchelYoungClassifier

__all__ = ["LOSSES", "compare", "run"]

LOSSES: dict[str, dict[str, Any]] = {
    "squared (no projection)": {"regularizer": "euclidean", "projection": "reals"},
    "unit cube": {"regularizer": "euclidean", "projection": "cube"},
    "simplex, KL (logistic)": {"regularizer": "kl"},
    "simplex, Euclidean (sparsemax)": {"regularizer": "euclidean"},
}
"""The losses of the comparison, from the set that knows least of the outputs to the one that knows most."""

_ALPHAS = (1e-4, 1e-3, 1e-2, 1e-1)


def compare(splits: int = 5, seed: int = 0) -> dict[str, Any]:
    """Held-out error of each loss over seeded splits; alpha by validation inside the training part only."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    X, y = load_digits(return_X_y=True)
    X = X / 16.0
    rows: dict[str, dict[str, Any]] = {
        name: {"errors": [], "alphas": [], "seconds": [], "support": [], "gap": []} for name in LOSSES
    }
    best: tuple[float, Any, Array, Array] | None = None
    for split in range(splits):
        inside, outside = train_test_split(np.arange(len(y)), test_size=0.25, stratify=y, random_state=seed + split)
        fit, valid = train_test_split(inside, test_size=0.25, stratify=y[inside], random_state=seed + split)
        for name, options in LOSSES.items():
            scores = [
                FenchelYoungClassifier(alpha=a, **options).fit(X[fit], y[fit]).score(X[valid], y[valid])
                for a in _ALPHAS
            ]
            alpha = _ALPHAS[int(np.argmax(scores))]
            start = perf_counter()
            model = FenchelYoungClassifier(alpha=alpha, **options).fit(X[inside], y[inside])
            row = rows[name]
            row["seconds"].append(perf_counter() - start)
            row["errors"].append(100 * (1 - model.score(X[outside], y[outside])))
            row["alphas"].append(alpha)
            row["gap"].append(model.dual_gap_ / model.objective_)
            row["support"].append(float((model.predict_marginals(X[outside]) > 0).sum(axis=1).mean()))
            if name == "simplex, Euclidean (sparsemax)" and best is None:
                best = (alpha, model, X[outside], y[outside])
    assert best is not None
    return {"rows": rows, "model": best[1], "X": best[2], "y": best[3], "n": len(y), "splits": splits}


def run(out: Path, overwrite: bool = False, json: bool = False) -> int:
    """Compare, print a table, save the model and a picture into the folder ``out``."""
    model_path, picture_path = out / "digits.fenchel", out / "digits.png"
    for path in (model_path, picture_path):
        if path.exists() and not overwrite:
            raise FileExistsError(f"{str(path)!r} exists; choose another folder with --out or pass --overwrite")
    if not json:
        print("Handwritten digits (scikit-learn's, 1797 images of 64 pixels, 10 classes), linear models.")
        print("Each loss projects its scores on another set; the smaller the set, the more it knows of the outputs.\n")
    result = compare()
    rows = result["rows"]
    if json:
        print(json_module.dumps({"splits": result["splits"], "losses": rows, "out": str(out)}))
    else:
        print(f"{'loss':32s} {'held-out error':>17s} {'classes left':>13s} {'rel. gap':>9s} {'seconds':>8s}")
        for name, row in rows.items():
            error = f"{np.mean(row['errors']):.2f} ± {np.std(row['errors'], ddof=1):.2f} %"
            print(
                f"{name:32s} {error:>17s} {np.mean(row['support']):13.1f} "
                f"{np.max(row['gap']):9.0e} {np.mean(row['seconds']):8.3f}"
            )
        print(
            f"\nMeans over {result['splits']} seeded splits, alpha by validation inside the training part.\n"
            "'classes left' counts the classes that a prediction does not rule out: sparsemax gives exact zeros.\n"
        )
    out.mkdir(parents=True, exist_ok=True)
    save(result["model"], model_path, overwrite=overwrite)
    drawn = _draw(result, picture_path)
    if not json:
        print(f"model    {model_path}    (fenchel info {model_path})")
        print(f"picture  {picture_path}" if drawn else "picture  skipped: pip install 'fenchel[plots]' to draw it")
    return 0


def _draw(result: dict[str, Any], path: Path) -> bool:
    from ..plots._figure import INK, figure
    from ..plots.classify import compare_losses, soft_predictions

    try:
        picture = figure(figsize=(10, 4.6))
    except MissingDependency:
        return False
    left, right = picture.subfigures(1, 2, width_ratios=[1, 1.1])
    compare_losses({name: row["errors"] for name, row in result["rows"].items()}, ax=left.add_subplot())
    left.suptitle(f"Projection losses on digits, {result['splits']} splits", fontsize=11)

    model, X, y = result["model"], result["X"], result["y"]
    proba = model.predict_proba(X)
    doubtful = np.argsort(proba.max(axis=1), kind="stable")[:8]
    grid = right.add_gridspec(8, 2, width_ratios=[1, 9])
    for row, i in enumerate(doubtful):
        ax = right.add_subplot(grid[row, 0])
        ax.imshow(X[i].reshape(8, 8), cmap="gray_r")
        ax.set_axis_off()
    ax = right.add_subplot(grid[:, 1])
    soft_predictions(proba[doubtful], y[doubtful].tolist(), labels=model.classes_.tolist(), ax=ax)
    right.suptitle("Sparsemax on its eight most doubtful digits (%)", fontsize=11)
    right.text(0.99, 0.005, "outlined: the truth", ha="right", fontsize=8, color=INK["second"])
    picture.savefig(path, dpi=130)
    return True
