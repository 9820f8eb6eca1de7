"""Learning with projections: rankings, label sets and ordered grades on real data, against estimators of others.

The sets are read from the folder that ``FENCHEL_DATA`` names, as the experiments have them; without it these cases are
skipped. Repeats run on random four fifths of the rows.
"""

from __future__ import annotations

import csv
import gzip
import os
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cases.polytopes import exact_birkhoff
from benchmarks.harness import Case, Contender, Probe
from benchmarks.peers import projection_losses

__all__ = ["cases"]

Array = Any
_EXCESS = "objective excess"
_TOLERANCES = tuple(float(f"{m}e{e}") for e in range(-3, -9, -1) for m in (3, 1))


def cases() -> list[Case | Probe]:
    return [_label_ranking("glass", 0.01), _label_ranking("vowel", 0.1), _label_sets(0.01), _grades()]


def _data(*path: str) -> Path:
    return Path(os.environ["FENCHEL_DATA"]).joinpath(*path)


def _no_data(*path: str) -> Callable[[], str | None]:
    def missing() -> str | None:
        if not os.environ.get("FENCHEL_DATA"):
            return "FENCHEL_DATA does not name the folder of data sets"
        return None if _data(*path).exists() else f"there is no {'/'.join(path)} in FENCHEL_DATA"

    return missing


def _four_fifths(n: int, rng: np.random.Generator) -> Array:
    return rng.permutation(n)[: 4 * n // 5]


def _standardised(X: Array) -> Array:
    return (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-12)


# -- training objectives, written here so that no contender judges itself ----------------------------------------------

Projection = Callable[[Any], Any]


def _objective(project: Projection, X: Any, Y: Array, alpha: float, w: Array) -> tuple[float, Array]:
    """Mean of 1/2 ||y||^2 + max over the set of <theta, mu> - 1/2 ||mu||^2, less <theta, y>, plus the ridge penalty.

    X has the intercept's column of ones last, w a column for each score. Also the gradient.
    """
    theta = X @ w
    mu = project(theta)
    values = (theta * (mu - Y)).sum(axis=1) + 0.5 * (Y * Y).sum(axis=1) - 0.5 * (mu * mu).sum(axis=1)
    return float(values.mean() + 0.5 * alpha * (w * w).sum()), X.T @ (mu - Y) / len(Y) + alpha * w


def _least(project: Projection, X: Any, Y: Array, alpha: float, w: Array) -> float:
    """The least objective, from weights near to it: strong convexity bounds how far below theirs it can be."""
    value, gradient = _objective(project, X, Y, alpha, w)
    if (gradient * gradient).sum() / (2 * alpha) > 3e-8 * value:
        raise RuntimeError("the reference solution is not exact enough")
    return value


def _measure(project: Projection, alpha: float) -> Callable[[Any, Any, Any], dict[str, float]]:
    def measure(data: Any, least: float, w: Array) -> dict[str, float]:
        value = _objective(project, data["inputs"], data["truths"], alpha, w)[0]
        return {_EXCESS: (value - least) / least, "objective": value}

    return measure


def _estimator_of_projection_losses(
    projection_set: str, alpha: float, tolerances: tuple[tuple[float, float], ...], **options: Any
) -> Contender:
    """Their estimator. Settings are L-BFGS' ``factr``, which it leaves at SciPy's default, and the projection's ``tol``."""

    def build(setting: tuple[float, float]) -> Callable[[Any], Any]:
        theirs = projection_losses()
        factr, tol = setting

        class Accurate(theirs.estimators.Estimator):  # type: ignore[misc, name-defined]
            def _get_set(self, name: str) -> Any:
                if name == "Birkhoff":
                    return theirs.polytopes.Birkhoff(max_iter=5000, tol=tol)
                return super()._get_set(name)

        def fit(data: Any) -> Array:
            plain = theirs.estimators.fmin_l_bfgs_b
            theirs.estimators.fmin_l_bfgs_b = partial(plain, factr=factr, pgtol=0.0, maxfun=10**6)
            try:
                model = Accurate(projection_set=projection_set, alpha=alpha, max_iter=10000, **options)
                coef: Array = theirs.call(model.fit, data["X"], data["truths"]).coef_
            finally:
                theirs.estimators.fmin_l_bfgs_b = plain
            return coef

        return fit

    def weights(coef: Array) -> Array:
        return np.roll(coef.T, -1, axis=0)  # its intercept comes first

    return Contender("projection-losses Estimator", build, answer=weights, settings=tolerances)


# -- rankings ----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=2)
def _rankings(name: str) -> tuple[Array, Array]:
    from fenchel.estimators.rank import parse_rankings

    with _data("label_ranking", f"{name}.csv").open(newline="") as stream:
        rows = list(csv.reader(stream))[1:]
    X = np.array([row[:-1] for row in rows], dtype=np.float64)
    return _standardised(X), parse_rankings([row[-1] for row in rows])[0]


def _label_ranking(name: str, alpha: float) -> Case:
    def make(rng: np.random.Generator) -> dict[str, Any]:
        X, ranks = _rankings(name)
        rows = _four_fifths(len(X), rng)
        truths = (ranks[rows][:, :, None] == np.arange(ranks.shape[1])).astype(np.float64).reshape(len(rows), -1)
        return {"X": X[rows], "inputs": np.c_[X[rows], np.ones(len(rows))], "truths": truths, "ranks": ranks[rows]}

    def project(theta: Array) -> Array:
        k = round(theta.shape[1] ** 0.5)
        return np.stack([exact_birkhoff(one.reshape(k, k), entropic=False).ravel() for one in theta])

    def ours(tol: Any) -> Callable[[Any], Any]:
        from fenchel.estimators import LabelRanker

        model = LabelRanker(alpha=alpha, tol=tol, max_iter=10000)
        return lambda data: model.fit(data["X"], data["ranks"]).weights_

    def least(data: dict[str, Any]) -> float:
        return _least(project, data["inputs"], data["truths"], alpha, ours(1e-9)(data))

    settings = ((1e7, 1e-6), (1e5, 1e-9), (1e3, 1e-12), (10.0, 1e-14))
    return Case(
        name=f"label-ranking-{name}",
        title=f"LabelRanker (Birkhoff, Euclidean), {name}, alpha {alpha:g}",
        make=make,
        ours=Contender("fenchel LabelRanker", ours, threads="each", settings=_TOLERANCES),
        peers=(_estimator_of_projection_losses("Birkhoff", alpha, settings),),
        reference=least,
        measure=_measure(project, alpha),
        goals={_EXCESS: 1e-6},
        peer_goals={_EXCESS: 1e-6},
        target=10.0,
        against="projection-losses' estimator",
        sets=3,
        checked=1,
        seconds=6.0,
        missing=_no_data("label_ranking", f"{name}.csv"),
    )


# -- label sets --------------------------------------------------------------------------------------------------------

_TMC = "tmc2007-500"


@lru_cache(maxsize=1)
def _documents() -> tuple[Any, Array, int]:
    """Inputs and label sets of the training part, without the documents that have more labels than the rule's budget."""
    from sklearn.datasets import load_svmlight_file

    path = _data("multilabel", f"{_TMC}-train.svm.gz")
    X, sets = load_svmlight_file(str(path), n_features=500, zero_based=False, multilabel=True)
    Y = np.zeros((X.shape[0], 22))
    for row, labels in zip(Y, sets, strict=True):
        row[np.asarray(labels, dtype=np.int64)] = 1
    counts = Y.sum(axis=1)
    high = int(np.ceil(counts.mean() + counts.std()))
    return X[counts <= high], Y[counts <= high], high


def _label_sets(alpha: float) -> Case:
    import scipy.sparse as sp

    def make(rng: np.random.Generator) -> dict[str, Any]:
        X, Y, _ = _documents()
        rows = _four_fifths(len(Y), rng)
        return {"X": X[rows], "inputs": sp.hstack([X[rows], np.ones((len(rows), 1))], format="csr"), "truths": Y[rows]}

    def project(theta: Array) -> Array:
        """The cube's projection, and where that has too many labels the shift that leaves ``high``, by bisection."""
        high = _documents()[2]
        mu = np.clip(theta, 0, 1)
        over = np.flatnonzero(mu.sum(axis=1) > high)
        lower, upper = np.zeros(len(over)), theta[over].max(axis=1, initial=0.0)
        for _ in range(70):
            middle = 0.5 * (lower + upper)
            many = np.clip(theta[over] - middle[:, None], 0, 1).sum(axis=1) > high
            lower, upper = np.where(many, middle, lower), np.where(many, upper, middle)
        mu[over] = np.clip(theta[over] - upper[:, None], 0, 1)
        return mu

    def ours(tol: Any) -> Callable[[Any], Any]:
        from fenchel.estimators import MultilabelClassifier

        model = MultilabelClassifier(alpha=alpha, high=_documents()[2], tol=tol, max_iter=10000)
        return lambda data: model.fit(data["X"], data["truths"]).weights_

    def least(data: dict[str, Any]) -> float:
        return _least(project, data["inputs"], data["truths"], alpha, ours(1e-9)(data))

    def theirs() -> Contender:
        settings = ((1e7, 0.0), (1e5, 0.0), (1e3, 0.0), (10.0, 0.0))
        return _estimator_of_projection_losses("knapsack", alpha, settings, max_labels=_documents()[2])

    missing = _no_data("multilabel", f"{_TMC}-train.svm.gz")
    return Case(
        name=f"label-sets-{_TMC}",
        title=f"MultilabelClassifier with budget, {_TMC}, alpha {alpha:g}",
        make=make,
        ours=Contender("fenchel MultilabelClassifier", ours, threads="each", settings=_TOLERANCES),
        peers=() if missing() else (theirs(),),
        reference=least,
        measure=_measure(project, alpha),
        goals={_EXCESS: 1e-6},
        peer_goals={_EXCESS: 1e-6},
        target=10.0,
        against="projection-losses' estimator",
        sets=2,
        checked=1,
        seconds=12.0,
        missing=missing,
    )


# -- grades ------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _houses() -> tuple[Array, Array]:
    """California housing: 20640 rows, the price in ten grades of equal length."""
    with gzip.open(_data("ordinal", "chu_ghahramani", "calhousing.csv.gz"), "rt", newline="") as stream:
        names, *rows = csv.reader(stream)
    table = np.array(rows, dtype=np.float64)
    return _standardised(table[:, : names.index("target")]), table[:, names.index("bin_len10")].astype(np.int64)


def _grades() -> Case:
    """The losses differ, so each is trained as far as its defaults go and both are judged by their mistakes."""

    def make(rng: np.random.Generator) -> dict[str, Any]:
        X, y = _houses()
        order = rng.permutation(len(X))
        inside, outside = order[: 4 * len(X) // 5], order[4 * len(X) // 5 :]
        return {"X": X[inside], "y": y[inside], "X_test": X[outside], "y_test": y[outside]}

    def ours(setting: Any) -> Callable[[Any], Any]:
        from fenchel.estimators import OrdinalClassifier

        return lambda data: (data, OrdinalClassifier(alpha=1 / len(data["X"])).fit(data["X"], data["y"]))

    def mord(setting: Any) -> Callable[[Any], Any]:
        from mord import LogisticAT

        return lambda data: (data, LogisticAT(alpha=1.0).fit(data["X"], data["y"]))

    def answers(fitted: Any) -> Any:
        data, model = fitted
        return model.predict(data["X_test"])

    def measure(data: dict[str, Any], reference: Any, predicted: Array) -> dict[str, float]:
        return {"mean absolute error, held out": float(np.abs(predicted - data["y_test"]).mean())}

    return Case(
        name="grades-calhousing",
        title="OrdinalClassifier, California housing, 16512 x 8, 10 grades",
        make=make,
        ours=Contender(
            "fenchel OrdinalClassifier", ours, answer=answers, threads="each", note="alpha = 1 / rows, mord's default"
        ),
        peers=(Contender("mord LogisticAT", mord, answer=answers, threads="each"),),
        measure=measure,
        target=1.0,
        against="mord LogisticAT",
        sets=4,
        seconds=6.0,
        missing=_no_data("ordinal", "chu_ghahramani", "calhousing.csv.gz"),
    )
