"""How training and regularisation went, and whether probabilities can be believed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .._core.checks import check_choice, check_count
from .._core.errors import InvalidInput
from .._core.types import Array, ArrayLike
from ._figure import INK, axes_or_new

__all__ = ["calibration", "loss_curves", "path"]

_COLOURS = tuple(INK[name] for name in ("first", "second", "third", "fourth"))
_STYLES = ("-", "--", ":", "-.")
_LINES = len(_COLOURS) * len(_STYLES)
_ROUNDING = 1e-6


def _line(number: int) -> dict[str, Any]:
    """Colour and dashes that no other of sixteen lines has."""
    return {"color": _COLOURS[number % 4], "ls": _STYLES[number // 4 % 4], "lw": 1.5}


def loss_curves(histories: Mapping[str, Any], *, of: str = "gap", ax: Any = None) -> Any:
    """How training went: each run against its iterations, on a logarithmic scale.

    ``histories`` maps a name to a :class:`fenchel.solvers.Result` or its ``history``. ``of="gap"`` draws the duality gap,
    which bounds how far the objective is from the least one; ``of="objective"`` draws how far it is from the least
    objective that any of the runs reached.

    >>> from fenchel.plots import loss_curves
    >>> ax = loss_curves({"lbfgs": [(0, 1.0, 0.5), (1, 0.7, 0.01)]})
    >>> ax.get_yscale(), ax.get_ylabel()
    ('log', 'duality gap')
    """
    check_choice(of, "of", ("gap", "objective"))
    runs = {name: np.array(getattr(run, "history", run), dtype=float).T for name, run in histories.items()}
    if not runs or any(run.shape[0] != 3 for run in runs.values()):
        raise InvalidInput("histories must hold runs of (iteration, objective, duality gap), one at least")
    ax = axes_or_new(ax, figsize=(5, 3.4))
    least = min(values.min() for _, values, _ in runs.values())
    for number, (name, (steps, values, gaps)) in enumerate(runs.items()):
        heights = gaps if of == "gap" else values - least
        shown = heights > 0  # the least objective itself has no place on a logarithmic scale
        ax.semilogy(steps[shown], heights[shown], label=name, **_line(number))
    ax.set_xlabel("iteration")
    ax.set_ylabel("duality gap" if of == "gap" else "objective above the least reached")
    ax.legend(frameon=False)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def path(result: Any, *, score: int = 0, names: Sequence[Any] | None = None, ax: Any = None) -> Any:
    """The weights of one score along a regularisation path (:func:`fenchel.estimators.regularization_path`).

    ``names`` are those of the weights, features first and then the intercept if there is one; without them
    the lines have their numbers. More than sixteen lines are drawn without names, in one colour.

    >>> from sklearn.datasets import load_iris
    >>> from fenchel import FenchelYoungClassifier
    >>> from fenchel.estimators import regularization_path
    >>> from fenchel.plots import path
    >>> ax = path(regularization_path(FenchelYoungClassifier(), *load_iris(return_X_y=True), alphas=[1.0, 0.1]))
    >>> [text.get_text() for text in ax.texts]
    ['0', '1', '2', '3', '4']
    """
    weights: Array = np.asarray(result.weights)[:, :, score]
    count = weights.shape[1]
    if names is not None and len(names) != count:
        raise InvalidInput(
            f"names holds {len(names)} names, but the path has {count} weights (the intercept is the last)"
        )
    ax = axes_or_new(ax, figsize=(5.5, 3.6))
    few = count <= _LINES
    for j, line in enumerate(weights.T):
        style = _line(j) if few else {"color": INK["first"], "alpha": 0.35, "lw": 0.9}
        ax.semilogx(result.alphas, line, **style)
    ax.axhline(0, color=INK["grey"], lw=0.8, zorder=0)
    if few:
        bottom, top = ax.get_ylim()
        heights = _apart(weights[-1], (top - bottom) / 18)
        for j, height in enumerate(heights):
            ax.annotate(
                str(j if names is None else names[j]),
                (result.alphas[-1], weights[-1, j]),
                (1.02, (height - bottom) / (top - bottom)),
                textcoords="axes fraction",
                va="center",
                fontsize=8,
                color=_line(j)["color"],
                annotation_clip=False,
            )
        ax.set_ylim(bottom, top)
    ax.set_xlim(max(result.alphas), min(result.alphas))
    ax.set_xlabel("alpha (weaker penalty to the right)")
    ax.set_ylabel("weight")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _apart(heights: Array, least: float) -> Array:
    """The heights moved as little as makes neighbours at least so far apart: isotonic regression of what is left."""
    order = np.argsort(heights, kind="stable")
    steps = least * np.arange(len(heights))
    moved = np.empty(len(heights))
    moved[order] = _isotonic(heights[order] - steps) + steps
    return moved


def _isotonic(values: Array) -> Array:
    """The nearest non-decreasing sequence, by pooling neighbours that are out of order."""
    blocks: list[list[float]] = []  # mean, size
    for value in values:
        blocks.append([float(value), 1.0])
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            mean, size = blocks.pop()
            total = blocks[-1][1] + size
            blocks[-1] = [(blocks[-1][0] * blocks[-1][1] + mean * size) / total, total]
    return np.repeat([mean for mean, _ in blocks], [int(size) for _, size in blocks])


def calibration(
    proba: ArrayLike, happened: ArrayLike, *, bins: int = 10, label: str | None = None, ax: Any = None
) -> Any:
    """How often what was given a probability happened, against that probability; on the diagonal it can be believed.

    ``proba`` and ``happened`` have one entry per event: for a classifier, ``predict_proba(X)`` and the one-hot truths. The
    size of a point shows how many events it stands for. Draw several models on the same axes by ``ax``.

    >>> import numpy as np
    >>> from fenchel.plots import calibration
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(1000)
    >>> ax = calibration(p, rng.random(1000) < p)
    >>> ax.get_ylabel()
    'share that happened'
    """
    p, y = np.asarray(proba, dtype=float).ravel(), np.asarray(happened, dtype=float).ravel()
    check_count(bins, "bins")
    if p.shape != y.shape or p.size == 0:
        raise InvalidInput(f"proba holds {p.size} events but happened {y.size}; they must be the same, and some")
    if not (p.min() >= -_ROUNDING and p.max() <= 1 + _ROUNDING):
        raise InvalidInput(f"proba holds {p.min():g} to {p.max():g}, expected probabilities, from 0 to 1")
    ax = axes_or_new(ax, figsize=(4.4, 4.4))
    which = np.clip((p * bins).astype(int), 0, bins - 1)
    counts = np.bincount(which, minlength=bins)
    used = counts > 0
    x = np.bincount(which, p, bins)[used] / counts[used]
    shares = np.bincount(which, y, bins)[used] / counts[used]
    before = len(ax.collections)
    if not before:
        ax.plot([0, 1], [0, 1], color=INK["grey"], lw=0.8, ls="--", zorder=0)
    colour = _line(before)["color"]
    ax.plot(x, shares, color=colour, lw=1, marker="o", ms=3, label=label)
    sizes = 12 + 160 * np.sqrt(counts[used] / counts.max())
    ax.scatter(x, shares, s=sizes, color=colour, alpha=0.45, linewidths=0, clip_on=False)
    ax.set_xlim(-0.03, 1.03)
    ax.set_ylim(-0.03, 1.03)
    ax.set_aspect("equal")
    ax.set_xlabel("probability given")
    ax.set_ylabel("share that happened")
    ax.spines[["top", "right"]].set_visible(False)
    if label is not None:
        ax.legend(frameon=False)
    return ax
