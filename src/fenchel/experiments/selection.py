"""Five-fold choice of a kernel's width and of alpha for the loss trick, one factorisation for all alphas."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .._core.types import Array
from ..costs.base import Cost
from ..decoders.answers.base import Answers
from ..solvers.kernel_ridge import ExactRidge, KernelSource

__all__ = ["five_fold", "folds_of"]


def folds_of(n: int, rng: np.random.Generator) -> Array:
    """The fold of each of n rows, five of nearly the same size."""
    return rng.permutation(np.arange(n) % 5)


def five_fold(
    X: Array,
    y: Array,
    cost: Cost,
    answers: Answers,
    gammas: Sequence[float],
    alphas: Sequence[float],
    rng: np.random.Generator,
    *,
    kernel: str = "rbf",
    averaging: bool = False,
) -> tuple[float, float]:
    """(gamma, alpha) of least mean cost; with ``averaging`` the weights are those of Nadaraya and Watson, without alpha."""
    folds = folds_of(len(X), rng)
    costs = np.zeros((len(gammas), len(alphas)))
    for fold in range(5):
        inside, outside = folds != fold, folds == fold
        search = answers.search(cost, y[inside])
        for g, gamma in enumerate(gammas):
            source = KernelSource(X[inside], kernel, {"gamma": gamma} if kernel == "rbf" else {})
            rows = source.rows(X[outside])
            ridge = None if averaging else ExactRidge(source, many=True)
            for a, alpha in enumerate(alphas):
                if ridge is None:
                    total = rows.sum(axis=1, keepdims=True)
                    weights = np.where(total > 0, rows / np.where(total > 0, total, 1), 1 / rows.shape[1])
                    means = weights if search.embedding is None else weights @ search.embedding
                else:
                    ridge.set_alpha(alpha)
                    embedding = search.embedding
                    means = ridge.weights(rows) if embedding is None else rows @ ridge.coefficients(embedding)
                costs[g, a] += cost(search.answers(means), y[outside]).sum()
    best = divmod(int(costs.argmin()), len(alphas))
    return float(gammas[best[0]]), float(alphas[best[1]])
