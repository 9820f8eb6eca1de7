"""Five-fold choice of a kernel's width and of alpha for the loss trick, for several costs at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .._core.parallel import single_blas_thread
from .._core.types import Array
from ..costs.base import Cost
from ..decoders.answers.base import Answers
from ..solvers.kernel_ridge import ExactRidge, KernelSource

__all__ = ["five_fold", "five_fold_each", "folds_of"]


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
    return five_fold_each(X, y, [(cost, answers)], gammas, alphas, rng, kernel=kernel, averaging=averaging)[0]


def five_fold_each(
    X: Array,
    y: Array,
    methods: Sequence[tuple[Cost, Answers]],
    gammas: Sequence[float],
    alphas: Sequence[float],
    rng: np.random.Generator,
    *,
    kernel: str = "rbf",
    averaging: bool = False,
) -> list[tuple[float, float]]:
    """(gamma, alpha) of least mean cost for each method, each by its own cost, on the same folds.

    The weights do not depend on the method, so each Gram matrix is made and factorised once for all of them. For the few
    alphas of an experiment a Cholesky factorisation each takes less time than one eigendecomposition for all.
    """
    folds = folds_of(len(X), rng)
    costs = np.zeros((len(methods), len(gammas), len(alphas)))
    with (
        single_blas_thread()
    ):  # matrices of some hundred rows: on a busy machine threads wait for each other, not compute
        _add_costs(costs, X, y, folds, methods, gammas, alphas, kernel, averaging)
    best = [divmod(int(table.argmin()), len(alphas)) for table in costs]
    return [(float(gammas[g]), float(alphas[a])) for g, a in best]


def _add_costs(
    costs: Array,
    X: Array,
    y: Array,
    folds: Array,
    methods: Sequence[tuple[Cost, Answers]],
    gammas: Sequence[float],
    alphas: Sequence[float],
    kernel: str,
    averaging: bool,
) -> None:
    """Add what each method's answers cost on each fold, by method, gamma and alpha."""
    for fold in range(5):
        inside, outside = folds != fold, folds == fold
        searches = [answers.search(cost, y[inside]) for cost, answers in methods]
        whole = any(search.embedding is None for search in searches)
        for g, gamma in enumerate(gammas):
            source = KernelSource(X[inside], kernel, {"gamma": gamma} if kernel == "rbf" else {})
            rows = source.rows(X[outside])
            gram = None if averaging else KernelSource(source.gram(), "precomputed", {})
            for a, alpha in enumerate(alphas):
                weights: Array | None = None
                if gram is None:
                    total = rows.sum(axis=1, keepdims=True)
                    weights = np.where(total > 0, rows / np.where(total > 0, total, 1), 1 / rows.shape[1])
                else:
                    ridge = ExactRidge(gram)
                    ridge.set_alpha(alpha)
                    if whole:
                        weights = ridge.weights(rows)
                for m, ((cost, _), search) in enumerate(zip(methods, searches, strict=True)):
                    if weights is None:
                        assert search.embedding is not None
                        means = rows @ ridge.coefficients(search.embedding)
                    else:
                        means = weights if search.embedding is None else weights @ search.embedding
                    costs[m, g, a] += cost(search.answers(means), y[outside]).sum()
