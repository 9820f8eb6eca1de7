"""How much smoothing and what radius the moment-robust loss of trees wants.

Li, Saeed, Zhang, Ziebart and Gimpel, "Moment distributionally robust tree structured prediction", 2022, Figure 2: the UAS of
the marginal trainer on Dutch with 100 training sentences, as the smoothing and the weight of the penalty vary.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from .._core.types import Array
from ..data.conllu import Sentence
from .parsing import Told, chosen, given
from .protocol import asked_sets
from .resume import Kept

__all__ = ["draw", "run"]

_SMOOTHINGS = (1e-3, 1e-2, 1e-1, 1.0)
_ALPHAS = (1e-3, 1e-2, 1e-1, 1.0)
_M, _TESTED = 100, 300


def run(
    data: Path | None = None,
    quick: bool = False,
    progress: Told | None = None,
    *,
    splits: int | None = None,
    sets: list[str] | None = None,
) -> dict[str, Any]:
    """UAS (%) by smoothing and alpha, of the trainers on the adversary's points and on the weights."""
    from ..data.treebank import small_treebank

    draws = splits or (1 if quick else 3)
    m, tested = (10, 40) if quick else (_M, _TESTED)
    smoothings, alphas = (_SMOOTHINGS[1:3], _ALPHAS[1:3]) if quick else (_SMOOTHINGS, _ALPHAS)
    parts: tuple[list[Sentence], list[Sentence], list[Sentence]]
    if data is None:
        name = "made up"
        parts = small_treebank(2 * m, random_state=0), [], small_treebank(tested, random_state=2)
    else:
        name = asked_sets(sets, ("Dutch", "Turkish", "English"), "robust-sensitivity")[0]
        parts = given(data, name)
    test = parts[2][:tested]
    found = np.zeros((2, len(smoothings), len(alphas), draws))
    losses = ("robust-marginal", "robust-stochastic")
    jobs = [
        (a, b, c, d) for d in range(draws) for a in range(2) for b in range(len(smoothings)) for c in range(len(alphas))
    ]
    with Kept("robust-sensitivity", {"protocol": 1, "quick": quick, "set": name}) as kept:
        for done, (a, b, c, d) in enumerate(jobs):
            if progress is not None:
                progress(done / len(jobs), f"{losses[a]}, smoothing {smoothings[b]:g}, alpha {alphas[c]:g}")
            what = {"loss": losses[a], "smoothing": smoothings[b], "alpha": alphas[c], "draw": d}
            value = kept.get(what)
            if value is None:
                rng = np.random.default_rng(d)
                drawn = [parts[0][i] for i in rng.choice(len(parts[0]), size=min(m, len(parts[0])), replace=False)]
                options = {"loss": losses[a], "smoothing": smoothings[b]}
                value = chosen(options, "lexical", drawn, drawn[:1], test, (alphas[c],))["uas"]
                kept.put(what, value)
            found[a, b, c, d] = value
        note = kept.note
    means = found.mean(axis=3)
    rows = []
    for a, loss in enumerate(losses):
        for b, smoothing in enumerate(smoothings):
            rows.append([loss if b == 0 else "", f"{smoothing:g}", *(f"{x:.2f}" for x in means[a, b])])
    notes = [
        f"{name}, {m} training sentences, lexical features, {len(test)} test sentences, mean of {draws} draws. alpha/2 times the",
        "squared norm is the penalty (the document's lambda). Punctuation does not count.",
    ]
    if data is None:
        notes.append("No data given: a treebank from a small grammar.")
    return {
        "title": "UAS (%) of the moment-robust loss by smoothing and alpha",
        "columns": ["trainer", "smoothing", *(f"alpha {a:g}" for a in alphas)],
        "rows": rows,
        "notes": [*notes, *([note] if note else [])],
        "values": {loss: means[a].tolist() for a, loss in enumerate(losses)},
        "smoothings": list(smoothings),
        "alphas": list(alphas),
    }


def draw(result: dict[str, Any]) -> Any:
    """Figure 2: a map of the scores for each trainer."""
    from ..plots._figure import figure

    made = figure(figsize=(8, 3.4))
    axes = made.subplots(1, 2)
    for axis, (loss, means) in zip(axes, result["values"].items(), strict=True):
        grid: Array = np.array(means)
        image = axis.imshow(grid, origin="lower", cmap="viridis")
        axis.set_xticks(range(len(result["alphas"])), [f"{a:g}" for a in result["alphas"]])
        axis.set_yticks(range(len(result["smoothings"])), [f"{s:g}" for s in result["smoothings"]])
        axis.set_xlabel("alpha")
        axis.set_ylabel("smoothing")
        axis.set_title(loss)
        for (b, c), value in np.ndenumerate(grid):
            light = value < (grid.min() + grid.max()) / 2
            axis.text(c, b, f"{value:.1f}", ha="center", va="center", color="white" if light else "black")
        made.colorbar(image, ax=axis, label="UAS (%)", shrink=0.8)
    return made
