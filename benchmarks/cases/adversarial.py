"""Adversarial losses of classes and grades, the classifiers trained by them, and the margin losses beside them."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Case, Contender, Probe, Row
from benchmarks.peers import Absent, maxminloss_oracles

__all__ = ["cases"]

Array = Any
_VALUE, _EXCESS = "largest error of a value", "objective above the least"
_TOLERANCES = tuple(float(f"{m}e{e}") for e in range(-1, -7, -1) for m in (3, 1))


def cases() -> list[Case | Probe]:
    return [
        *[_loss(name) for name in ("zero_one", "absolute", "abstain")],
        _squared(),
        _matrix(),
        _classifier(),
        _grades(),
        Probe("gaussian-4000x36", "Gaussian kernel, 4000 x 36, 6 classes, relative gap 1e-3", _gaussian),
        Probe(
            "mrcpy-objective", "The objective of MRCpy's CMRC, by our loss, at its solution", _mrcpy, missing=_no_mrcpy
        ),
        Probe(
            "maxminloss-oracle",
            "The oracle of alexnowakvila/maxminloss, 10 classes",
            _maxminloss,
            missing=_no_maxminloss,
        ),
    ]


# -- losses ------------------------------------------------------------------------------------------------------------


def _scores(n: int, k: int) -> Callable[[np.random.Generator], Any]:
    return lambda rng: (2 * rng.normal(size=(n, k)), np.eye(k)[rng.integers(k, size=n)])


def _our_loss(name: str, k: int) -> Any:
    from fenchel.costs import Absolute, Abstain, SquaredError, ZeroOne
    from fenchel.losses import Adversarial
    from fenchel.structures import Simplex

    cost = {"zero_one": ZeroOne(), "absolute": Absolute(), "abstain": Abstain(0.3), "squared": SquaredError()}[name]
    return Adversarial(Simplex(k), cost)


def _ours(name: str, k: int) -> Callable[[Any], Callable[[Any], Any]]:
    def build(setting: Any) -> Callable[[Any], Any]:
        loss = _our_loss(name, k)
        return lambda data: loss.value_and_grad(*data)

    return build


def _softmax_cross_entropy(data: tuple[Array, Array]) -> tuple[Array, Array]:
    theta, v = data
    p = np.exp(theta - theta.max(axis=1, keepdims=True))
    total = p.sum(axis=1, keepdims=True)
    top = theta.max(axis=1)
    value = np.log(total[:, 0]) + top - (theta * v).sum(axis=1)
    p /= total
    return value, p - v


def _by_linear_program(name: str, checked: int) -> Callable[[Any], Array]:
    """Values of the first rows by SciPy's HiGHS."""

    def solve(data: tuple[Array, Array]) -> Array:
        from fenchel.costs.base import cost_table

        loss = _our_loss(name, data[0].shape[1])
        table = cost_table(loss.cost, loss.answers, loss.structure)
        return np.array([_highs(table, f, v) for f, v in zip(data[0][:checked], data[1][:checked], strict=True)])

    return solve


def _highs(table: Array, f: Array, v: Array) -> float:
    from scipy.optimize import linprog

    answers, truths = table.shape
    found = linprog(
        np.append(-f, -1.0),
        A_ub=np.column_stack([-table, np.ones(answers)]),
        b_ub=np.zeros(answers),
        A_eq=[[1.0] * truths + [0.0]],
        b_eq=[1.0],
        bounds=[(0, None)] * truths + [(None, None)],
    )
    return float(-found.fun - f @ v - (table @ v).min())


def _first_values(checked: int) -> Callable[[Any, Any, Any], dict[str, float]]:
    return lambda data, reference, answer: {_VALUE: float(np.abs(answer[0][:checked] - reference).max())}


def _loss(name: str) -> Case:
    return Case(
        name=f"adversarial-{name}",
        title=f"adversarial loss, {name}: value and gradient, 10000 x 10",
        make=_scores(10_000, 10),
        ours=Contender("fenchel Adversarial.value_and_grad", _ours(name, 10), threads="each"),
        peers=(
            Contender(
                "NumPy softmax cross-entropy", lambda setting: _softmax_cross_entropy,
                answer=lambda found: (np.full(10_000, np.nan), found[1]), threads="each", floor=True,
                note="another loss: the measure of what is cheap",
            ),
        ),
        reference=_by_linear_program(name, 20),
        measure=_first_values(20),
        goals={_VALUE: 1e-8},
        target=1.0,
        against="NumPy's softmax cross-entropy on the same batch",
    )  # fmt: skip


def _squared() -> Case:
    def published(setting: Any) -> Callable[[Any], Any]:
        from numba import njit

        @njit(cache=True)  # type: ignore[untyped-decorator]
        def triples(f: Array, y: Array) -> Array:
            """The published maximum over pairs i <= l around each j: their mixture makes two neighbours cost the same."""
            n, k = f.shape
            value = np.empty(n)
            for r in range(n):
                best = -np.inf
                for j in range(k):
                    best = max(best, f[r, j])
                    for i in range(j + 1):
                        for m in range(j + 1, k):
                            # q on i and m with 2 E(y) = 2 j + 1, so that j and j + 1 cost the same
                            share = (2.0 * m - (2 * j + 1)) / (2.0 * (m - i))
                            worth = share * (f[r, i] + (j - i) ** 2) + (1 - share) * (f[r, m] + (m - j) ** 2)
                            best = max(best, worth)
                value[r] = best - f[r, y[r]]
            return value

        return lambda data: (triples(data[0], data[1].argmax(axis=1)),)

    return Case(
        name="adversarial-squared-100",
        title="adversarial loss, squared cost: 1000 x 100",
        make=_scores(1000, 100),
        ours=Contender("fenchel Adversarial.value_and_grad", _ours("squared", 100), threads="each"),
        peers=(Contender("the published triple loop, compiled (values only)", published),),
        reference=_by_linear_program("squared", 5),
        measure=_first_values(5),
        goals={_VALUE: 1e-7},
        peer_goals={_VALUE: 1e-7},
        target=100.0,
        against="the published triple loop, compiled",
        sets=4,
    )


def _matrix() -> Case:
    n, k = 1000, 10
    table = np.random.default_rng(1).random((k, k)) * (1 - np.eye(k))

    def ours(setting: Any) -> Callable[[Any], Any]:
        from fenchel.costs import CostMatrix
        from fenchel.losses import Adversarial
        from fenchel.structures import Simplex

        loss = Adversarial(Simplex(k), CostMatrix(table))
        return lambda data: loss.value_and_grad(*data)

    def row_by_row(setting: Any) -> Callable[[Any], Any]:
        return lambda data: (np.array([_highs(table, f, v) for f, v in zip(*data, strict=True)]),)

    return Case(
        name="adversarial-matrix-10",
        title="adversarial loss, any cost matrix: 1000 x 10, exact",
        make=_scores(n, k),
        ours=Contender("fenchel Adversarial.value_and_grad", ours, threads="each"),
        peers=(Contender("SciPy HiGHS, row by row", row_by_row),),
        reference=lambda data: np.array([_highs(table, f, v) for f, v in zip(data[0][:20], data[1][:20], strict=True)]),
        measure=_first_values(20),
        goals={_VALUE: 1e-8},
        peer_goals={_VALUE: 1e-8},
        target=100.0,
        against="SciPy's HiGHS per row",
        sets=2,
        seconds=10.0,
    )


# -- classifiers -------------------------------------------------------------------------------------------------------

_ROWS, _FEATURES, _CLASSES, _ALPHA, _GRADES_ALPHA = 20_000, 50, 10, 1 / 20_000, 1e-3


def _examples(rng: np.random.Generator) -> tuple[Array, Array]:
    X = rng.normal(size=(_ROWS, _FEATURES))
    truth = rng.normal(size=(_FEATURES, _CLASSES)) * (2 / np.sqrt(_FEATURES))
    return X, (X @ truth + rng.gumbel(size=(_ROWS, _CLASSES))).argmax(axis=1)


def _objective(loss: str, X: Array, y: Array, w: Array) -> float:
    """Mean loss + alpha/2 ||w||^2, written here so that no contender judges itself."""
    theta = X @ w
    rows = np.arange(len(y))
    if loss == "crammer_singer":
        margins = 1 + theta - theta[rows, y][:, None]
        margins[rows, y] = 0
        values = margins.max(axis=1)
    else:  # the largest of (sum of the m largest + m - 1) / m
        descending = -np.sort(-theta, axis=1)
        m = np.arange(1, theta.shape[1] + 1)
        values = ((np.cumsum(descending, axis=1) + m - 1) / m).max(axis=1) - theta[rows, y]
    return float(values.mean() + 0.5 * _ALPHA * (w * w).sum())


def _classifier() -> Case:
    """Two objectives: each contender is within 1e-3 of the least of its own, LinearSVC at the loosest tol that does it.

    C = 1 (alpha = 1 / rows): the objective falls from 0.9 at zero weights to 0.585.
    """

    def ours(tol: Any) -> Callable[[Any], Any]:
        from fenchel import AdversarialClassifier

        model = AdversarialClassifier(alpha=_ALPHA, fit_intercept=False, tol=tol)
        return lambda data: ("zero_one", model.fit(*data).weights_)

    def liblinear(tol: Any) -> Callable[[Any], Any]:
        from sklearn.svm import LinearSVC

        model = LinearSVC(
            multi_class="crammer_singer", C=1 / (_ALPHA * _ROWS), fit_intercept=False, tol=tol, max_iter=100_000,
            random_state=0,
        )  # fmt: skip
        return lambda data: ("crammer_singer", model.fit(*data).coef_.T)

    def least(data: tuple[Array, Array]) -> dict[str, float]:
        from fenchel import AdversarialClassifier, MarginClassifier

        bounds = {}
        for loss, estimator in (("zero_one", AdversarialClassifier), ("crammer_singer", MarginClassifier)):
            model = estimator(alpha=_ALPHA, fit_intercept=False, tol=1e-4, max_iter=3000).fit(*data)
            bounds[loss] = model.objective_ - model.dual_gap_  # no weights have less, by the certificate
        return bounds

    def measure(data: tuple[Array, Array], bounds: dict[str, float], answer: tuple[str, Array]) -> dict[str, float]:
        loss, w = answer
        return {_EXCESS: _objective(loss, *data, np.asarray(w, dtype=np.float64)) / bounds[loss] - 1}

    return Case(
        name="zero-one-classifier",
        title=f"AdversarialClassifier, zero-one, {_ROWS} x {_FEATURES}, {_CLASSES} classes, C = 1",
        make=_examples,
        ours=Contender("fenchel AdversarialClassifier", ours, threads="each", settings=(1e-3,)),
        peers=(Contender("scikit-learn LinearSVC crammer_singer", liblinear, settings=_TOLERANCES),),
        reference=least,
        measure=measure,
        goals={_EXCESS: 1e-3},
        peer_goals={_EXCESS: 1e-3},
        target=5.0,
        against="LinearSVC(multi_class='crammer_singer') to the same relative accuracy of its objective",
        sets=2,
        checked=1,
        seconds=30.0,
    )


def _graded(rng: np.random.Generator) -> tuple[Array, Array]:
    X = rng.normal(size=(_ROWS, _FEATURES))
    s = X @ rng.normal(size=_FEATURES) * (2 / np.sqrt(_FEATURES)) + rng.normal(size=_ROWS)
    return X, np.digitize(s, np.quantile(s, np.linspace(0, 1, _CLASSES + 1)[1:-1]))


def _grades() -> Case:
    def ours(setting: Any) -> Callable[[Any], Any]:
        from fenchel import AdversarialClassifier

        model = AdversarialClassifier("absolute", features="threshold", alpha=_GRADES_ALPHA)
        return lambda data: model.fit(*data)

    def mord(setting: Any) -> Callable[[Any], Any]:
        from mord import LogisticAT

        model = LogisticAT(alpha=_GRADES_ALPHA * _ROWS)
        return lambda data: model.fit(*data)

    def measure(data: tuple[Array, Array], reference: Any, model: Any) -> dict[str, float]:
        X, y = data
        return {"mean absolute error": float(np.abs(model.predict(X) - y).mean())}

    return Case(
        name="adversarial-thresholds",
        title=f"threshold features, absolute cost, {_ROWS} x {_FEATURES}, {_CLASSES} grades, alpha 1e-3",
        make=_graded,
        ours=Contender("fenchel AdversarialClassifier, relative gap 1e-3", ours, threads="each"),
        peers=(Contender("mord LogisticAT", mord, threads="each"),),
        measure=measure,
        goals={"mean absolute error": 1.6},
        target=1.0,
        against="mord LogisticAT fit (its own loss, its own stopping)",
        sets=2,
        checked=1,
        seconds=20.0,
    )


def _gaussian(quick: bool) -> list[Row]:
    """Both losses on the same matrix of the same kernel, by the solver that estimators take for it."""
    from fenchel._core.kernel_matrix import kernel_matrix
    from fenchel.costs import ZeroOne
    from fenchel.losses import Adversarial, CrammerSinger
    from fenchel.scorers.kernel import Expansion
    from fenchel.solvers import DualCoordinate
    from fenchel.structures import Simplex

    X, y, origin = _sat(4000)
    n, d, k = *X.shape, int(y.max()) + 1
    gram = kernel_matrix(X, X, "rbf", {"gamma": 1 / (2 * d)})
    scorer, v = Expansion(gram, (k,), np.arange(n), intercept_scaling=1.0), np.eye(k)[y]
    losses = {"adversarial": Adversarial(Simplex(k), ZeroOne()), "Crammer-Singer": CrammerSinger(Simplex(k))}
    times: dict[str, list[float]] = {name: [] for name in losses}
    for loss in losses.values():  # what compiles, compiles before
        few = Expansion(gram[:50, :50], (k,), np.arange(50), intercept_scaling=1.0)
        DualCoordinate(tol=1e-3, random_state=0).minimize(few, loss, v[:50], 1e-3)
    for _ in range(2 if quick else 3):
        for name, loss in losses.items():
            begin = time.perf_counter()
            result = DualCoordinate(tol=1e-3, random_state=0).minimize(scorer, loss, v, 1e-3)
            times[name].append(time.perf_counter() - begin)
            if not result.converged:
                raise RuntimeError(f"{name} missed the gap of 1e-3")
    ratio = float(np.median(times["adversarial"]) / np.median(times["Crammer-Singer"]))
    return [
        *[Row(f"{name}, relative gap 1e-3", tuple(values)) for name, values in times.items()],
        Row(
            "adversarial over Crammer-Singer",
            (ratio,),
            1.5,
            "times",
            f"{origin}, {n} rows; the shared kernel matrix is not timed",
        ),
    ]


def _sat(n: int) -> tuple[Array, Array, str]:
    """Rows of the UCI set sat, standardised, where FENCHEL_DATA has it; else generated ones of the same size."""
    folder = os.environ.get("FENCHEL_DATA")
    path = Path(folder or "") / "uci_multiclass" / "sat.csv.gz"
    rng = np.random.default_rng(0)
    if folder and path.exists():
        from fenchel.experiments.protocol import read_set

        X, y = read_set(path.with_suffix(""), "y", ("split",), "gaussian-4000x36")
        kept = rng.permutation(len(y))[:n]
        X, y = X[kept], np.unique(y[kept], return_inverse=True)[1]
        return (X - X.mean(axis=0)) / X.std(axis=0), y, "sat"
    d, k = 36, 6
    centres = rng.normal(size=(3 * k, d))
    parts = rng.integers(3 * k, size=n)
    return centres[parts] + 1.2 * rng.normal(size=(n, d)), parts % k, "generated (no sat in FENCHEL_DATA)"


# -- the same problem elsewhere ----------------------------------------------------------------------------------------


def _no_mrcpy() -> str | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import MRCpy  # noqa: F401
    except ImportError as reason:
        return f"MRCpy is not installed ({reason}); it needs scikit-learn below 1.6"
    return None


def _mrcpy(quick: bool) -> list[Row]:
    """CMRC with the 0-1 loss minimises the adversarial zero-one loss with an l1 penalty, a weight for each parameter."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from MRCpy import CMRC
        from sklearn.datasets import load_iris, load_wine

        from fenchel.costs import ZeroOne
        from fenchel.losses import Adversarial
        from fenchel.structures import Simplex

        worst = 0.0
        for loader in (load_iris, load_wine):
            X, y = loader(return_X_y=True)
            X = (X - X.mean(axis=0)) / X.std(axis=0)
            model = CMRC(loss="0-1", s=0.3, solver="cvx", phi="linear").fit(X, y)
            scores = model.phi.eval_x(X) @ model.mu_
            loss = Adversarial(Simplex(3), ZeroOne())
            ours = loss.solve(scores).value.mean() - model.tau_ @ model.mu_ + model.lambda_ @ np.abs(model.mu_)
            worst = max(worst, float(abs(ours / model.upper_ - 1)))
    return [Row("relative difference of the two objectives", (worst,), 1e-6, "", "iris and wine")]


def _no_maxminloss() -> str | None:
    try:
        maxminloss_oracles()
    except (Absent, ImportError) as reason:
        return str(reason)
    return None


def _maxminloss(quick: bool) -> list[Row]:
    module = maxminloss_oracles()
    from fenchel.costs import CostMatrix
    from fenchel.losses import Adversarial
    from fenchel.structures import Simplex

    rng = np.random.default_rng(0)
    k, n = 10, 20 if quick else 100
    table, scores = rng.random((k, k)) * (1 - np.eye(k)), rng.normal(size=(n, k))
    loss = Adversarial(Simplex(k), CostMatrix(table))
    begin = time.perf_counter()
    theirs = np.array([module.maxmin_multiclass_cvxopt(f, table)[1] for f in scores])
    took = time.perf_counter() - begin
    error = float(np.abs(loss.solve(scores).value - theirs).max())
    begin = time.perf_counter()
    for _ in range(10):
        loss.solve(scores)
    ours = (time.perf_counter() - begin) / 10
    eta = np.log(k) / (2 * table.max() * np.log(k))
    flat = np.full(k, 1 / k)
    *_, gaps, _ = module.maxmin_spmp_multiclass_p(flat, flat, scores[0], table, 1000, eta)
    return [
        Row("largest difference of values", (error,), 1e-6, "", "their exact way, an interior point method of CVXOPT"),
        Row("our exact games", (ours,), None, "s", f"{n} rows"),
        Row("their exact way", (took,), None, "s", f"{n} rows"),
        Row("gap of their saddle point method after 1000 steps", (float(gaps[-1]),), None, "", "one row"),
    ]
