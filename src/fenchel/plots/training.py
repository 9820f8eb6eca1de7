"""How training and regularisation went, and whether probabilities can be believed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .._core.errors import InvalidInput
from .._core.types import ArrayLike
from ._figure import INK, axes_or_new

__all__ = ["calibration", "loss_curves", "path"]

_COLOURS = tuple(INK[name] for name in ("first", "second", "third", "fourth"))


def loss_curves(histories: Mapping[str, Any], *, ax: Any = None) -> Any:
    """The duality gap of each run against its iterations, on a logarithmic scale.

    ``histories`` maps a name to a :class:`fenchel.solvers.Result` or its ``history``.

    >>> from fenchel.plots import loss_curves
    >>> ax = loss_curves({"lbfgs": [(0, 1.0, 0.5), (1, 0.7, 0.01)]})
    >>> ax.get_yscale()
    'log'
    """
    ax = axes_or_new(ax, figsize=(5, 3.4))
    for (name, run), colour in zip(histories.items(), _COLOURS * len(histories), strict=False):
        steps, _, gaps = np.array(getattr(run, "history", run), dtype=float).T
        ax.semilogy(steps, np.maximum(gaps, 1e-16), color=colour, label=name)
    ax.set_xlabel("iteration")
    ax.set_ylabel("duality gap")
    ax.legend(frameon=False)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def path(result: Any, *, score: int = 0, ax: Any = None) -> Any:
    """The weights of one score along a regularisation path (:func:`fenchel.estimators.regularization_path`).

    >>> from sklearn.datasets import load_iris
    >>> from fenchel import FenchelYoungClassifier
    >>> from fenchel.estimators import regularization_path
    >>> from fenchel.plots import path
    >>> ax = path(regularization_path(FenchelYoungClassifier(), *load_iris(return_X_y=True), alphas=[1.0, 0.1]))
    >>> len(ax.lines)
    5
    """
    ax = axes_or_new(ax, figsize=(5, 3.4))
    for feature in range(result.weights.shape[1]):
        ax.semilogx(result.alphas, result.weights[:, feature, score], color=_COLOURS[feature % 4], alpha=0.8, lw=1.2)
    ax.invert_xaxis()
    ax.axhline(0, color=INK["grey"], lw=0.8)
    ax.set_xlabel("alpha (weaker penalty to the right)")
    ax.set_ylabel("weight")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def calibration(
    proba: ArrayLike, happened: ArrayLike, *, bins: int = 10, label: str | None = None, ax: Any = None
) -> Any:
    """How often what was given a probability happened, against that probability; on the diagonal it can be believed.

    ``proba`` and ``happened`` have one entry per event: for a classifier, ``predict_proba(X)`` and the one-hot truths. The
    size of a point shows how many events it stands for.

    >>> import numpy as np
    >>> from fenchel.plots import calibration
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(1000)
    >>> ax = calibration(p, rng.random(1000) < p)
    >>> ax.get_ylabel()
    'share that happened'
    """
    p, y = np.asarray(proba, dtype=float).ravel(), np.asarray(happened, dtype=float).ravel()
    if p.shape != y.shape or p.size == 0:
        raise InvalidInput(f"proba holds {p.size} events but happened {y.size}; they must be the same, and some")
    ax = axes_or_new(ax, figsize=(4, 4))
    which = np.minimum((p * bins).astype(int), bins - 1)
    counts = np.bincount(which, minlength=bins)
    used = counts > 0
    x = np.bincount(which, p, bins)[used] / counts[used]
    shares = np.bincount(which, y, bins)[used] / counts[used]
    ax.plot([0, 1], [0, 1], color=INK["grey"], lw=0.8, ls="--")
    ax.scatter(x, shares, s=10 + 190 * np.sqrt(counts[used] / counts.max()), color=INK["first"], alpha=0.7, label=label)
    ax.set_xlim(-0.02, 1.02)
    ax.set_ylim(-0.02, 1.02)
    ax.set_xlabel("probability given")
    ax.set_ylabel("share that happened")
    ax.spines[["top", "right"]].set_visible(False)
    if label is not None:
        ax.legend(frameon=False)
    return ax
