"""Held-out rows, cross-validation of alpha and the final fit: what tasks on tables share."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.base import clone

from .._core.errors import ConvergenceWarning, InvalidInput
from .._core.types import Array
from ..data.tables import Table

__all__ = ["ALPHAS", "Weighted", "choose_alpha", "fold_numbers", "held_out_rows", "row_weights", "split_columns"]

ALPHAS = tuple(float(f"{10**e:.3g}") for e in np.arange(0.0, -5.25, -0.5))
"""The grid of cross-validation, from the strongest penalty on: each fit starts from the weights of the one before."""

FOLDS = 5
_DEFAULT_ALPHA = 1e-3
# Weights that are this near the least objective rank the alphas as well as exact ones do.
_CV_TOL = 1e-3


def split_columns(table: Table, targets: list[str], drop: list[str], weight: str | None) -> Table:
    """The columns to learn from."""
    for target in targets:
        table[target]
        if target in drop:
            raise InvalidInput(f"--drop names the target {target!r}")
        if weight == target:
            raise InvalidInput(f"--weight names the target {target!r}")
    features = table.drop({*targets, *drop, *([] if weight is None else [weight])})
    if not features.names:
        raise InvalidInput(f"{table.source} has no column left to learn from")
    return features


def row_weights(table: Table, name: str | None) -> Array | None:
    """The column of weights, checked."""
    if name is None:
        return None
    column = table[name]
    if not table.is_numeric(name):
        raise InvalidInput(f"{table.source}: the weights {name!r} are not numbers ({column[0]!r} in {table.where(0)})")
    bad = ~(column >= 0)
    if bad.any():
        row = int(np.argmax(bad))
        raise InvalidInput(
            f"{table.source}, {table.where(row)}: the weight {name!r} is {column[row]:g}, expected a number >= 0"
        )
    if not column.any():
        raise InvalidInput(f"{table.source}: the weights {name!r} are all zero")
    return column


def held_out_rows(codes: Array, share: float, rng: np.random.Generator) -> Array:
    """A mask of held-out rows, the same share of each class as nearly as whole rows allow.

    Each class keeps at least one row to learn from, so classes of one row are never held out.
    """
    counts = np.bincount(codes)
    ideal = share * counts
    taken = np.minimum(np.floor(ideal).astype(np.int64), np.maximum(counts - 1, 0))
    lacking = round(share * len(codes)) - int(taken.sum())
    for c in np.lexsort((rng.random(len(counts)), taken - ideal)):  # the largest remainders first
        if lacking > 0 and taken[c] < counts[c] - 1:
            taken[c] += 1
            lacking -= 1
    held = np.zeros(len(codes), dtype=bool)
    for c, n in enumerate(taken):
        held[rng.permutation(np.flatnonzero(codes == c))[:n]] = True
    return held


def fold_numbers(codes: Array, folds: int, rng: np.random.Generator) -> Array:
    """The fold of each row: folds differ by one row at most, overall and in each class.

    A class with fewer rows than folds is in as many folds as it has rows, so two rows are enough for it to be in
    every training part.
    """
    order = np.lexsort((rng.random(len(codes)), codes))
    numbers = np.empty(len(codes), dtype=np.int64)
    numbers[order] = np.arange(len(codes)) % folds
    return numbers


@dataclass(frozen=True)
class Weighted:
    """A weighted mean and its standard error."""

    mean: float
    standard_error: float

    @classmethod
    def of(cls, values: Array, weights: Array | None) -> Weighted:
        p = np.full(len(values), 1.0 / max(len(values), 1)) if weights is None else weights / weights.sum()
        mean = float(p @ values)
        spread = float(np.sqrt(np.square(p) @ np.square(values - mean)))
        return cls(mean, spread)


def choose_alpha(
    estimator: Any,
    X: Array,
    y: Array,
    strata: Array,
    weights: Array | None,
    cost: Callable[[Array, Array], Array],
    rng: np.random.Generator,
    tick: Callable[[str], None],
) -> dict[str, Any]:
    """Alpha of least mean cost over cross-validation folds, which share out each stratum; of equals the largest.

    Returns {"value", "chosen_by", "folds", "grid": [{"alpha", "cost", "standard_error"}], "notes", "seconds"}.
    """
    start = perf_counter()
    folds = min(FOLDS, int(np.bincount(strata).max()), len(strata))
    if folds < 2:
        note = f"there are too few rows for cross-validation: alpha is the default, {_DEFAULT_ALPHA:g}"
        return {
            "value": _DEFAULT_ALPHA,
            "chosen_by": "default",
            "folds": 0,
            "grid": [],
            "notes": [note],
            "seconds": 0.0,
        }
    numbers = fold_numbers(strata, folds, rng)
    costs = np.empty((len(ALPHAS), len(y)))
    missed = 0
    for fold in range(folds):
        out = numbers == fold
        part = None if weights is None else weights[~out]
        model = clone(estimator).set_params(warm_start=True, tol=max(estimator.tol, _CV_TOL))
        for i, alpha in enumerate(ALPHAS):
            tick(f"cross-validation, fold {fold + 1} of {folds}, alpha {alpha:g}")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                model.set_params(alpha=alpha).fit(X[~out], y[~out], sample_weight=part)
            missed += not model.converged_
            costs[i, out] = cost(model.predict(X[out]), y[out])
    means = [Weighted.of(row, weights) for row in costs]
    best = int(np.argmin([m.mean for m in means]))  # the first of equals has the largest alpha
    notes = []
    if missed:
        notes.append(f"{missed} of {folds * len(ALPHAS)} fits of the cross-validation stopped before their tolerance")
    if best in (0, len(ALPHAS) - 1) and means[0].mean != means[-1].mean:
        notes.append(f"alpha {ALPHAS[best]:g} is at the end of the grid; try others with --alpha")
    return {
        "value": ALPHAS[best],
        "chosen_by": "cross-validation",
        "folds": folds,
        "grid": [
            {"alpha": alpha, "cost": m.mean, "standard_error": m.standard_error}
            for alpha, m in zip(ALPHAS, means, strict=True)
        ],
        "notes": notes,
        "seconds": perf_counter() - start,
    }
