"""The loss trick: training, choosing alpha, predicting among candidates, and ordering many items."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Case, Contender, Probe, Row

__all__ = ["cases"]

Array = Any


def cases() -> list[Case | Probe]:
    return [
        _fit_one(),
        _fit_many(),
        Probe("trick-nystrom", "fit n=100000, d=20, 2000 centres, in a fresh process", _nystrom, _no_proc),
        _predict(),
        Probe(
            "trick-predict-memory",
            "predict 1000 inputs among 5000 histograms, in a fresh process",
            _predict_memory,
            _no_proc,
        ),
        _feedback(),
    ]


def _no_proc() -> str | None:
    return None if Path("/proc/self/status").exists() else "peak memory is read from /proc, which is not here"


def _regression(n: int) -> Callable[[np.random.Generator], tuple[Array, Array]]:
    def make(rng: np.random.Generator) -> tuple[Array, Array]:
        X = rng.normal(size=(n, 20))
        return X, np.sin(X[:, 0]) + 0.5 * X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=n)

    return make


def _off(data: Any, reference: Any, answers: Any) -> dict[str, float]:
    _, y = data
    return {"mean squared error in training": float(np.mean((np.ravel(answers) - y) ** 2))}


def _fit_one() -> Case:
    n, alpha = 5000, 1e-4

    def ours(setting: Any) -> Callable[[Any], Any]:
        from fenchel import LossTrickPredictor
        from fenchel.decoders.answers import WeightedMean

        def fit(data: tuple[Array, Array]) -> Any:
            return LossTrickPredictor("squared", alpha=alpha, answers=WeightedMean()).fit(*data), data[0]

        return fit

    def theirs(setting: Any) -> Callable[[Any], Any]:
        from sklearn.kernel_ridge import KernelRidge

        return lambda data: (KernelRidge(alpha=n * alpha, kernel="rbf").fit(*data), data[0])

    def answer(result: Any) -> Array:
        model, X = result
        return model.predict(X)

    return Case(
        name="trick-fit-one",
        title=f"fit n={n} exact, d=20, one alpha",
        make=_regression(n),
        ours=Contender("fenchel LossTrickPredictor", ours, answer=answer, threads="each"),
        peers=(Contender("scikit-learn KernelRidge", theirs, answer=answer, threads="each"),),
        measure=_off,
        target=1.0,
        against="scikit-learn KernelRidge",
        sets=2,
        checked=1,
        seconds=20,
    )


def _fit_many() -> Case:
    n = 5000
    alphas = np.geomspace(1e-6, 1e-1, 20)

    def ours(setting: Any) -> Callable[[Any], Any]:
        from fenchel import LossTrickPredictor
        from fenchel.decoders.answers import WeightedMean

        def fit(data: tuple[Array, Array]) -> Any:
            return LossTrickPredictor("squared", alpha=alphas, answers=WeightedMean(), random_state=0).fit(*data), data[
                0
            ]

        return fit

    def theirs(setting: Any) -> Callable[[Any], Any]:
        from sklearn.kernel_ridge import KernelRidge
        from sklearn.model_selection import GridSearchCV

        def fit(data: tuple[Array, Array]) -> Any:
            search = GridSearchCV(
                KernelRidge(kernel="rbf"), {"alpha": n * alphas}, cv=5, scoring="neg_mean_squared_error"
            )
            return search.fit(*data), data[0]

        return fit

    def answer(result: Any) -> Array:
        model, X = result
        return model.predict(X)

    return Case(
        name="trick-fit-many",
        title=f"fit n={n} exact, d=20, the best of twenty alphas",
        make=_regression(n),
        ours=Contender("fenchel, leaving one out in closed form", ours, answer=answer, threads="each"),
        peers=(
            Contender(
                "scikit-learn KernelRidge, five-fold grid search", theirs, answer=answer, threads="each", once=True
            ),
        ),
        measure=_off,
        target=5.0,
        against="scikit-learn's grid search over KernelRidge",
        sets=1,
        checked=1,
        seconds=10,
    )


_PRELUDE = """
import json
from time import perf_counter
import numpy as np


def peak_megabytes():
    # of this program alone: getrusage begins with what the process that started it had
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1000


"""


def _measured(code: str) -> dict[str, Any]:
    """What a fresh process prints as JSON."""
    program = _PRELUDE + code
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


_NYSTROM = """
from fenchel import LossTrickPredictor
from fenchel.decoders.answers import WeightedMean
n, m, alpha = {n}, {m}, 1e-5
rng = np.random.default_rng(0)
X = rng.normal(size=(n, 20))
clean = np.sin(X[:, 0]) + 0.5 * X[:, 1] * X[:, 2]
y = clean + 0.1 * rng.normal(size=n)
options = dict(answers=WeightedMean(), random_state=0)
start = perf_counter()
model = LossTrickPredictor("squared", alpha=alpha, solver="nystrom", n_centres=m, **options).fit(X, y)
seconds = perf_counter() - start
peak = peak_megabytes()
T = rng.normal(size=(2000, 20))
truth = np.sin(T[:, 0]) + 0.5 * T[:, 1] * T[:, 2]
error = float(np.sqrt(np.mean((model.predict(T) - truth) ** 2)))
part = slice(0, {subset})
small = LossTrickPredictor("squared", alpha=alpha, solver="nystrom", n_centres=m, **options).fit(X[part], y[part])
exact = LossTrickPredictor("squared", alpha=alpha, solver="exact", **options).fit(X[part], y[part])
errors = [float(np.sqrt(np.mean((f.predict(T) - truth) ** 2))) for f in (small, exact)]
passes = getattr(model._ridge, "cg_iterations", 0)
print(json.dumps(dict(seconds=seconds, megabytes=peak, passes=passes, error=error, small=errors[0], exact=errors[1])))
"""


def _nystrom(quick: bool) -> list[Row]:
    n, m, subset = 100_000, 2000, 10_000
    done = _measured(_NYSTROM.format(n=n, m=m, subset=subset))
    how = f"{done['passes']} passes of conjugate gradients" if done["passes"] else "one factorisation"
    note = f"n = {n}, {m} centres, {how}"
    return [
        Row("fit", (done["seconds"],), note=note),
        Row("peak memory of the process", (done["megabytes"],), limit=2000.0, unit="MB"),
        Row("error on new inputs (root mean square)", (done["error"],), unit=""),
        Row(f"the same, {subset} examples, centres", (done["small"],), unit=""),
        Row(f"the same, {subset} examples, exact", (done["exact"],), unit=""),
    ]  # fmt: skip


def _histograms(rng: np.random.Generator, n: int) -> Array:
    rows = rng.gamma(0.3, size=(n, 128))
    return rows / rows.sum(axis=1, keepdims=True)


def _predict() -> Case:
    n = candidates = 5000

    def make(rng: np.random.Generator) -> Any:
        X, y = rng.normal(size=(n, 10)), _histograms(rng, n)
        return X, y, _histograms(rng, candidates), rng.normal(size=(1000, 10))

    def fitted(data: Any) -> Any:
        from fenchel import LossTrickPredictor
        from fenchel.decoders.answers import Candidates

        X, y, options, T = data
        model = LossTrickPredictor("hellinger", alpha=1e-3, answers=Candidates(options)).fit(X, y)
        return model, model.weights(T), data

    def ours(setting: Any) -> Callable[[Any], Any]:
        return lambda inputs: inputs[0].predict(inputs[2][3])

    def broadcast(setting: Any) -> Callable[[Any], Any]:
        def predict(inputs: Any) -> Array:
            _, weights, (_, y, options, _) = inputs
            roots, others = np.sqrt(y), np.sqrt(options)
            scores = np.empty((len(weights), len(options)))
            for start in range(0, len(options), 50):  # 250 MB at once
                gaps = others[start : start + 50, None, :] - roots[None]
                scores[:, start : start + 50] = weights @ np.einsum("cnk,cnk->cn", gaps, gaps).T
            return options[scores.argmin(axis=1)]

        return predict

    def reference(data: Any) -> Array:
        return np.asarray(broadcast(None)(fitted(data)))

    def measure(data: Any, expected: Any, answers: Any) -> dict[str, float]:
        return {"share of other answers": float(np.mean((answers != expected).any(axis=1)))}

    return Case(
        name="trick-predict",
        title="predict 1000 inputs among 5000 histograms of 128 bins, 5000 training outputs, squared Hellinger",
        make=make,
        ours=Contender("fenchel predict (kernels included)", ours, fitted, threads="each"),
        peers=(Contender("NumPy broadcast in chunks (weights given)", broadcast, fitted, once=True),),
        measure=measure,
        target=1.5,
        against="a chunked NumPy broadcast",
        reference=reference,
        goals={"share of other answers": 0.001},
        sets=1,
        checked=1,
        seconds=10,
    )


_PREDICT_MEMORY = """
from fenchel import LossTrickPredictor
from fenchel.decoders.answers import Candidates
rng = np.random.default_rng(0)
n = {n}
Y = rng.gamma(0.3, size=(2 * n, 128))
Y /= Y.sum(axis=1, keepdims=True)
X, T = rng.normal(size=(n, 10)), rng.normal(size=(1000, 10))
model = LossTrickPredictor("hellinger", solver="nystrom", n_centres=1000, answers=Candidates(Y[n:]), random_state=0)
model.fit(X, Y[:n])
start = perf_counter()
model.predict(T)
seconds = perf_counter() - start
print(json.dumps(dict(seconds=seconds, megabytes=peak_megabytes())))
"""


def _predict_memory(quick: bool) -> list[Row]:
    done = _measured(_PREDICT_MEMORY.format(n=5000))
    return [
        Row("predict", (done["seconds"],)),
        Row(
            "peak memory of the process, training with 1000 centres included",
            (done["megabytes"],),
            limit=500.0,
            unit="MB",
        ),
    ]


def _feedback() -> Case:
    n = 1682

    def make(rng: np.random.Generator) -> Array:
        ranks = rng.permutation(n)
        table = np.triu(np.sign(ranks[None, :] - ranks[:, None]) + rng.normal(size=(n, n)), 1)
        return table - table.T

    def ours(setting: Any) -> Callable[[Any], Any]:
        from fenchel.optim.feedback_arc_set import order_antisymmetric

        return lambda table: order_antisymmetric(table[None], "greedy")[0][0]

    def ours_checked(setting: Any) -> Callable[[Any], Any]:
        from fenchel.optim import feedback_arc_set

        return lambda table: feedback_arc_set(table, "greedy").order

    def ours_local(setting: Any) -> Callable[[Any], Any]:
        from fenchel.optim import feedback_arc_set

        return lambda table: feedback_arc_set(table, "local").order

    def plain(setting: Any) -> Callable[[Any], Any]:
        return _eades_lin_smyth

    def measure(data: Any, reference: Any, order: Any) -> dict[str, float]:
        table = data[np.ix_(order, order)]
        upper = np.triu(table, 1)
        return {"share of weight that points back": float(-upper[upper < 0].sum() / np.abs(upper).sum())}

    return Case(
        name="trick-feedback-arc-set",
        title=f"an order of {n} items by the heuristic of Eades, Lin and Smyth",
        make=make,
        ours=Contender("fenchel, greedy, as the loss trick calls it", ours),
        peers=(
            Contender("the same in plain Python", plain, lambda table: table.tolist()),
            Contender(
                "fenchel feedback_arc_set, greedy",
                ours_checked,
                in_target=False,
                note="checks and antisymmetrises first",
            ),
            Contender("fenchel feedback_arc_set, with local search", ours_local, in_target=False),
        ),
        measure=measure,
        target=100.0,
        against="the same heuristic in plain Python",
        sets=2,
        checked=1,
        seconds=12,
    )


def _eades_lin_smyth(table: list[list[float]]) -> list[int]:
    """Over lists, with flows that are updated as items leave: O(n²)."""
    n = len(table)
    net = [sum(row) for row in table]
    outgoing = [sum(w > 0 for w in row) for row in table]
    incoming = [sum(w < 0 for w in row) for row in table]
    left = set(range(n))
    front: list[int] = []
    back: list[int] = []
    while left:
        pick = next((i for i in left if outgoing[i] == 0 or incoming[i] == 0), -1)
        if pick < 0:
            pick = max(left, key=net.__getitem__)
        (back if outgoing[pick] == 0 and incoming[pick] > 0 else front).append(pick)
        left.remove(pick)
        row = table[pick]
        for i in left:
            w = row[i]
            net[i] += w
            if w < 0:
                outgoing[i] -= 1
            elif w > 0:
                incoming[i] -= 1
    return front + back[::-1]
