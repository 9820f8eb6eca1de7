"""The protocol of the thesis: random splits, parameters chosen in two stages on the first, and tests of what is best.

Fathony, "Performance-aligned learning algorithms with statistical guarantees", 2019, section 2.8.
"""

from __future__ import annotations

import csv
import gzip
import os
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from .._core.errors import ConvergenceWarning, InvalidInput
from .._core.types import Array
from .resume import Kept, fingerprint

__all__ = [
    "Comparison",
    "Told",
    "asked_kernels",
    "asked_sets",
    "best_methods",
    "bundled",
    "compare",
    "protocol_notes",
    "read_set",
    "table",
]

Told = Callable[[float, str], None]

_FIRST_C, _FIRST_GAMMA = (0, 3, 6, 9, 12), (-12, -9, -6, -3, 0)
_SECOND = (-2, -1, 0, 1, 2)
_FOLDS = 5
_TOL, _MOST, _MOST_AT_LAST, _ROUNDS = 1e-2, 300, 1000, 3000
"""The relative gap; evaluations at most when choosing and when training with what was chosen; with a kernel's matrix,
rounds in both, which are cheaper."""
_SPLITS = 20


@dataclass(frozen=True)
class Comparison:
    """What an experiment compares."""

    name: str
    methods: dict[str, dict[str, Any]]
    """For each column the estimator's name in the registry ("estimator") and its parameters."""
    cost: str
    """What answers are measured by: "zero_one", "absolute" or "abstain"."""
    gaussian: bool
    coordinates: bool = False
    """Whether a kernel is used by the inputs' coordinates in its space; else by its matrix, and solved in the dual."""


# -- data --------------------------------------------------------------------------------------------------------------


def read_set(path: Path, target: str, drop: tuple[str, ...], experiment: str) -> tuple[Array, Array]:
    """Features and whole-number classes of a file, or of the same with ``.gz``."""
    packed = path.with_name(path.name + ".gz")
    if not path.exists() and not packed.exists():
        raise InvalidInput(f"there is no {str(path)!r} (or .gz), which the experiment {experiment} reads")
    with path.open(newline="") if path.exists() else gzip.open(packed, "rt", newline="") as stream:
        header, *rows = csv.reader(stream)
    features = [j for j, name in enumerate(header) if name not in drop and name != target]
    y = np.array([float(row[header.index(target)]) for row in rows]).astype(np.int64)
    return np.array([[float(row[j]) for j in features] for row in rows]), y


def bundled(quick: bool, *, graded: bool = False) -> Iterator[tuple[str, tuple[Array, Array]]]:
    """scikit-learn's bundled sets, in place of those that are not given."""
    from sklearn.datasets import load_diabetes, load_iris, load_wine

    if graded:
        X, y = load_diabetes(return_X_y=True)
        kept = np.arange(len(y))[: 120 if quick else None]
        grades = np.digitize(y, np.quantile(y, [0.2, 0.4, 0.6, 0.8]))
        yield "diabetes progression in fifths", (X[kept], grades[kept])
        return
    for name, loader in (("iris", load_iris), ("wine", load_wine)):
        X, y = loader(return_X_y=True)
        yield f"{name} (bundled)", (X, y)


# -- running -----------------------------------------------------------------------------------------------------------


def compare(
    comparison: Comparison,
    sets: dict[str, tuple[Array, Array]],
    *,
    train_rows: dict[str, int],
    splits: int | None,
    quick: bool,
    progress: Told | None,
    selection_rows: int | None = None,
) -> dict[str, Any]:
    """For each set and method the costs (and shares of no answer) over the splits, and what was chosen on the first.

    With ``selection_rows``, parameters are chosen on as many rows of the first split's training part, if it has more.

    Selections, then splits, run in processes of their own, one thread each; with ``quick`` in this one.
    """
    count = splits or (2 if quick else _SPLITS)
    settings = {"protocol": 2, "tol": _TOL, "max_iter": _MOST, "quick": quick, "cost": comparison.cost}
    keys = [(name, method) for name in sets for method in comparison.methods]
    base = {
        (name, method): {
            "data": name,
            "content": fingerprint(*sets[name]),
            "method": comparison.methods[method],
            "gaussian": comparison.gaussian,
            **({"rounds": _ROUNDS} if comparison.gaussian and not comparison.coordinates else {}),
        }
        for name, method in keys
    }
    done, total = 0, len(keys) * (count + 4)
    with Kept(comparison.name, settings) as kept, _workers(quick) as run_all:

        def work(jobs: list[tuple[Any, dict[str, Any], tuple[Any, ...]]], function: Any, share: int, what: str) -> Any:
            nonlocal done
            found = {key: kept.get(label) for key, label, _ in jobs}
            done += share * sum(value is not None for value in found.values())
            left = [job for job in jobs if found[job[0]] is None]
            for (key, label, _), value in zip(left, run_all(function, [job[2] for job in left]), strict=False):
                kept.put(label, value)
                found[key] = value
                done += share
                if progress is not None:
                    progress(done / total, f"{key[0]}, {key[1]}: {what}")
            return found

        rows = {name: train_rows.get(name, round(0.7 * len(y))) for name, (_, y) in sets.items()}
        chosen = work(
            [
                (
                    key,
                    {**base[key], "stage": "selection", "rows": min(rows[key[0]], selection_rows or rows[key[0]])},
                    (comparison, key[1], *sets[key[0]], rows[key[0]], quick, selection_rows),
                )
                for key in keys
            ],
            _select,
            4,
            "choosing parameters",
        )
        scores = work(
            [
                (
                    (*key, split),
                    {**base[key], "split": split, "C": chosen[key]["C"], "gamma": chosen[key]["gamma"]},
                    (comparison, key[1], *sets[key[0]], rows[key[0]], split, chosen[key]["C"], chosen[key]["gamma"]),
                )
                for key in keys
                for split in range(count)
            ],
            _score,
            1,
            "splits",
        )
        note = kept.note
    return {
        "costs": {n: {m: [scores[n, m, s]["cost"] for s in range(count)] for m in comparison.methods} for n in sets},
        "silent": {n: {m: [scores[n, m, s]["silent"] for s in range(count)] for m in comparison.methods} for n in sets},
        "chosen": {n: {m: chosen[n, m] for m in comparison.methods} for n in sets},
        "selection_rows": selection_rows,
        "fewer": [] if selection_rows is None else [name for name in sets if rows[name] > selection_rows],
        "unfinished": sum(value["unfinished"] for value in scores.values()),
        "splits": count,
        "note": note,
    }


class _workers:
    """Runs a function over argument tuples, results in order: in processes, or here where that is quicker."""

    def __init__(self, here: bool) -> None:
        self.pool = None if here else ProcessPoolExecutor(os.cpu_count(), get_context("spawn"), _one_thread)

    def __enter__(self) -> Any:
        return self.run

    def run(self, function: Any, jobs: list[tuple[Any, ...]]) -> Iterator[Any]:
        return map(function, jobs) if self.pool is None else self.pool.map(function, jobs)

    def __exit__(self, *error: object) -> None:
        if self.pool is not None:
            self.pool.shutdown(wait=error[0] is None, cancel_futures=True)


def _one_thread() -> None:
    from threadpoolctl import threadpool_limits

    from .._core.parallel import set_threads

    set_threads(1)
    threadpool_limits(1)


def _split(n: int, rows: int, split: int) -> tuple[Array, Array]:
    order = np.random.default_rng(split).permutation(n)
    return np.sort(order[:rows]), np.sort(order[rows:])


def _select(job: tuple[Any, ...]) -> dict[str, Any]:
    """C and gamma of least mean cost over five folds of the first split's training part: a coarse grid, then a fine one.

    Of equals the first is chosen, and the coarse before the fine. Costs of folds add up, so what has cost more than the
    best already is left out of the remaining folds: it cannot be chosen.
    """
    comparison, method, X, y, rows, quick, most = job
    inside, _ = _split(len(y), rows, 0)
    if most is not None and most < len(inside):
        inside = np.sort(np.random.default_rng(2).permutation(inside)[:most])
    X, y = X[inside], y[inside]
    folds = np.random.default_rng(1).permutation(np.arange(len(y)) % _FOLDS)
    best: tuple[float, int, int | None] = (np.inf, 0, None)
    Cs: tuple[int, ...]
    gammas: tuple[int, ...]
    for stage in range(1 if quick else 2):
        if stage == 0:
            Cs, gammas = (_FIRST_C[:3] if quick else _FIRST_C), ((-6, -3) if quick else _FIRST_GAMMA)
        else:
            Cs = tuple(best[1] + step for step in _SECOND)
            gammas = tuple((best[2] or 0) + step for step in _SECOND)
        for gamma in gammas if comparison.gaussian else (None,):
            costs = np.zeros(len(Cs))
            for fold in range(2 if quick else _FOLDS):
                left = np.flatnonzero(costs < best[0] - 1e-12)
                if not len(left):
                    break
                training, testing = folds != fold, folds == fold
                inputs, outside = _features(comparison, X[training], X[testing], gamma)
                model = _model(comparison, method).set_params(warm_start=True)
                for c in left.tolist():
                    _fit(model.set_params(alpha=1 / (2.0 ** Cs[c] * len(inputs))), inputs, y[training])
                    costs[c] += _measure(comparison, model.predict(outside), y[testing])[0] * testing.sum()
            i = int(np.argmin(costs))
            if costs[i] < best[0] - 1e-12:
                best = (float(costs[i]), Cs[i], gamma)
    return {"C": best[1], "gamma": best[2], "unfinished": 0}


def _score(job: tuple[Any, ...]) -> dict[str, Any]:
    comparison, method, X, y, rows, split, C, gamma = job
    inside, outside = _split(len(y), rows, split)
    inputs, others = _features(comparison, X[inside], X[outside], gamma)
    model = _model(comparison, method, _MOST_AT_LAST).set_params(alpha=1 / (2.0**C * len(inside)))
    finished = _fit(model, inputs, y[inside])
    cost, silent = _measure(comparison, model.predict(others), y[outside])
    return {"cost": cost, "silent": silent, "unfinished": int(not finished)}


def _features(comparison: Comparison, inside: Array, outside: Array, gamma: int | None) -> tuple[Array, Array]:
    """Standardised inputs, or with a Gaussian kernel its matrix, or coordinates in its space, computed once for all C."""
    from .._core.kernel_matrix import kernel_matrix
    from ..scorers.kernel import Kernel

    mean, spread = inside.mean(axis=0), inside.std(axis=0)
    spread[spread == 0] = 1
    inside, outside = (inside - mean) / spread, (outside - mean) / spread
    if gamma is None:
        return inside, outside
    params = {"gamma": 2.0**gamma}
    if not comparison.coordinates:
        return kernel_matrix(inside, inside, "rbf", params), kernel_matrix(outside, inside, "rbf", params)
    kernel = Kernel(inside, (1,), kernel="rbf", params=params)
    return kernel.X, kernel.features(outside)


def _model(comparison: Comparison, method: str, most: int = _MOST) -> Any:
    from .._core import registry

    parameters = dict(comparison.methods[method])
    made = registry.find("estimator", parameters.pop("estimator")).load()
    if comparison.gaussian and not comparison.coordinates:
        parameters["kernel"] = "precomputed"
    return made(**parameters, tol=_TOL, max_iter=_ROUNDS if "kernel" in parameters else most, random_state=0)


def _fit(model: Any, X: Array, y: Array) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # counted and reported in the notes instead
        return bool(model.fit(X, y).converged_)


def _measure(comparison: Comparison, answers: Array, y: Array) -> tuple[float, float]:
    if comparison.cost == "absolute":
        return float(np.abs(answers - y).mean()), 0.0
    if comparison.cost == "zero_one":
        return float(np.mean(answers != y)), 0.0
    silent = answers == -1
    return float(np.where(silent, 0.5, answers != y).mean()), float(silent.mean())


# -- report ------------------------------------------------------------------------------------------------------------


def best_methods(costs: dict[str, list[float]]) -> list[str]:
    """The method of least mean cost and those not worse by Wilcoxon's signed-rank test at 0.05."""
    from scipy.stats import wilcoxon

    means = {method: float(np.mean(values)) for method, values in costs.items()}
    least = min(means, key=lambda method: means[method])
    kept = []
    for method, values in costs.items():
        difference = np.subtract(values, costs[least])
        if method == least or not difference.any() or wilcoxon(difference).pvalue >= 0.05:
            kept.append(method)
    return kept


def table(
    parts: dict[str, tuple[Comparison, dict[str, Any]]],
    published: dict[str, dict[str, tuple[float, ...]]],
    show: Callable[[float], float],
    digits: int,
    *,
    silent: bool = False,
) -> tuple[list[list[str]], list[str], dict[str, Any]]:
    """Rows of a table (ours, and the published means beneath), notes, and how often each method was among the best."""
    methods = list(next(iter(parts.values()))[0].methods)
    rows: list[list[str]] = []
    wins: dict[str, dict[str, int]] = {}
    notes = []
    for kernel, (comparison, found) in parts.items():
        wins[kernel] = dict.fromkeys(comparison.methods, 0)
        for name, costs in found["costs"].items():
            best = best_methods(costs)
            cells = []
            for method in comparison.methods:
                wins[kernel][method] += method in best
                values = np.array([show(c) for c in costs[method]])
                spread = values.std(ddof=1) if len(values) > 1 else 0.0
                share = f" [{100 * np.mean(found['silent'][name][method]):.0f}%]" if silent else ""
                cells.append(f"{values.mean():.{digits}f} ± {spread:.{digits}f}{'*' if method in best else ' '}{share}")
            rows.append([f"{name}, {kernel}", "ours", *cells, *[""] * (len(methods) - len(cells))])
            theirs = published.get(kernel, {}).get(name)
            if theirs is not None:
                texts = [f"{value:.{digits}f}" for value in theirs]
                rows.append(["", "published", *texts, *[""] * (len(methods) - len(texts))])
        sets = list(found["costs"])
        means = [np.mean([show(np.mean(found["costs"][n][m])) for n in sets]) for m in comparison.methods]
        rows.append([f"mean, {kernel}", "ours", *[f"{v:.{digits}f}" for v in means]])
        known = [published[kernel][n] for n in sets if n in published.get(kernel, {})]
        if known and len(known) == len(sets):
            rows.append(["", "published", *[f"{v:.{digits}f}" for v in np.mean(known, axis=0)]])
        rows.append([f"best or as good, {kernel}", "ours", *[str(wins[kernel][m]) for m in comparison.methods]])
        if found["unfinished"]:
            by_gram = comparison.gaussian and not comparison.coordinates
            notes.append(
                f"{kernel}: {found['unfinished']} of {len(sets) * len(comparison.methods) * found['splits']} trainings "
                f"stopped after {_ROUNDS if by_gram else _MOST_AT_LAST} iterations with a relative gap above {_TOL:g}."
            )
        if found["note"] and found["note"] not in notes:
            notes.append(found["note"])
    return [[*row, *[""] * (2 + len(methods) - len(row))] for row in rows], notes, wins


def protocol_notes(found: dict[str, Any], given: bool, quick: bool) -> list[str]:
    chosen = (
        "C from 1, 4, 16 and gamma from 2^-6, 2^-3 over two folds (quick)"
        if quick
        else "C = 2^0, 2^3, ..., 2^12 and gamma = 2^-12, 2^-9, ..., 2^0, then both times 2^-2, ..., 2^2, over five folds"
    )
    fewer = "" if found["splits"] == _SPLITS else f" (published: {_SPLITS})"
    notes = [
        f"{found['splits']} random splits{fewer}; parameters are chosen "
        f"on the training part of the first: {chosen}. Features are standardised on the training part, an intercept is "
        f"learned, alpha is 1/(C rows), and training stops at a relative gap of {_TOL:g} (while choosing, also after {_MOST} "
        f"evaluations, or {_ROUNDS} rounds of dual coordinate ascent with the Gaussian kernel).",
        "* marks the best mean, and what is not worse by Wilcoxon's signed-rank test at 0.05.",
    ]
    if found["splits"] < 6:
        notes.append("With fewer than six splits that test cannot reach 0.05: everything is marked.")
    if found["fewer"]:
        notes.append(
            f"Parameters were chosen on {found['selection_rows']} rows, drawn at random, of the first training part of "
            f"{', '.join(found['fewer'])} (published: on all). Training and testing are on all."
        )
    if not given:
        notes.append(
            "No data given: sets that scikit-learn brings along, so there is nothing published to compare with."
        )
    return notes


def asked_sets(names: list[str] | None, known: tuple[str, ...], experiment: str) -> tuple[str, ...]:
    """The sets to run, of those that the experiment has."""
    for name in names or ():
        if name not in known:
            raise InvalidInput(f"{experiment} has no set {name!r}; it has {', '.join(known)}")
    return tuple(name for name in known if names is None or name in names)


def asked_kernels(names: list[str] | None) -> tuple[str, ...]:
    """The kernels to run with, in the order of the tables."""
    known = ("linear", "Gaussian")
    for name in names or ():
        if name not in known:
            raise InvalidInput(f"kernels holds {name!r}; there are {' and '.join(known)}")
    return tuple(name for name in known if names is None or name in names)
