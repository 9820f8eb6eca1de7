"""Regularisation paths."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from .._core.checks import check_finite_positive
from .._core.types import Array
from .base import ALPHAS, LinearEstimator

__all__ = ["Path", "regularization_path"]


@dataclass
class Path:
    """Weights along a grid of alphas, from the strongest penalty down."""

    alphas: Array
    weights: Array
    """Shape (alphas, features, scores)."""
    objectives: Array
    gaps: Array
    n_iter: Array


def regularization_path(
    estimator: LinearEstimator, X: Any, y: Any, alphas: Iterable[float] = ALPHAS, **fit: Any
) -> Path:
    """Fit an estimator for each alpha, each warm-started from the one before; the estimator itself is not changed.

    >>> from sklearn.datasets import load_iris
    >>> from fenchel import FenchelYoungClassifier
    >>> from fenchel.estimators import regularization_path
    >>> path = regularization_path(FenchelYoungClassifier(), *load_iris(return_X_y=True), alphas=[1.0, 0.1])
    >>> path.weights.shape
    (2, 5, 3)
    """
    grid = sorted((check_finite_positive(a, "alphas") for a in alphas), reverse=True)
    model = clone(estimator).set_params(warm_start=True)
    rows = []
    for alpha in grid:
        model.set_params(alpha=alpha).fit(X, y, **fit)
        rows.append((model.weights_.copy(), model.objective_, model.dual_gap_, model.n_iter_))
    weights, objectives, gaps, n_iter = zip(*rows, strict=True)
    return Path(np.array(grid), np.array(weights), np.array(objectives), np.array(gaps), np.array(n_iter))
