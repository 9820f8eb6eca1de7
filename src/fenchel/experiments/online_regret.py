"""Does the surrogate regret stay finite? Streams of five structures, three step rules, and other ways to decode.

Sakaue, Bao, Tsuchiya and Oki, "Online structured prediction with Fenchel-Young losses and improved surrogate regret for online
multiclass classification with logistic loss" (2024), Theorems 4.2, E.1 and E.3. The document is theoretical and prints no
table; here the expected regret against the best linear model in hindsight is measured and put beside the bounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .._core.types import Array
from ..losses.fenchel_young import FenchelYoung
from ..losses.smooth_hinge import SmoothHinge
from ..online import AdaptiveStep, ConstantStep, Learner, RegretTracker
from ..scorers.linear import Linear
from ..solvers.lbfgs import LBFGS
from ..structures.base import Structure
from ..structures.birkhoff import Birkhoff
from ..structures.cube import Cube
from ..structures.order_simplex import OrderSimplex
from ..structures.permutahedron import Permutahedron
from ..structures.simplex import Simplex

__all__ = ["run", "stream"]

_FEATURES = 5
_LENGTH = 3.0  # of the rows of the model that makes the truths


def run(
    data: Path | None = None, quick: bool = False, progress: Callable[[float, str], None] | None = None
) -> dict[str, Any]:
    """Expected regret after T rounds against the best linear model of those rounds, over seeded streams."""
    horizons = (50, 100, 200) if quick else (250, 1000, 4000)
    seeds = 2 if quick else 10
    cases: list[tuple[str, Callable[[int], Learner]]] = []
    structures: list[tuple[Structure, str, str]] = [
        (Simplex(5), "kl", "zero_one"),
        (Cube(4), "gibbs", "hamming"),
        (OrderSimplex(5), "euclidean", "absolute"),
        (Birkhoff(4), "kl", "hamming"),
        (Permutahedron(5), "euclidean", "spearman"),
    ]
    for structure, psi, cost in structures:
        for step in ("constant", "adaptive", "parameter_free"):
            rule: Any = AdaptiveStep(20 * _LENGTH) if step == "adaptive" else step
            cases.append((f"{structure!r}, {psi}: {step.replace('_', '-')}", _maker(structure, psi, cost, rule)))
    for decoder in ("deterministic", "random"):
        cases.append(
            (f"Simplex(5), kl: constant, {decoder} decoding", _maker(Simplex(5), "kl", "zero_one", "constant", decoder))
        )
    for d in (2, 8, 32):
        cases.append((f"{d} classes: logistic (base 2), randomized", _logistic(d)))
        cases.append((f"{d} classes: smooth hinge, uniform exploration", _earlier(d)))

    rows: list[list[str]] = []
    values: dict[str, Any] = {}
    best: dict[tuple[str, int, int], Array] = {}
    for done, (name, make) in enumerate(cases):
        regrets = np.empty((seeds, len(horizons)))
        bounds = np.full(seeds, np.nan)
        for seed in range(seeds):
            if progress is not None:
                progress((done + seed / seeds) / len(cases), f"{name}, stream {seed + 1} of {seeds}")
            learner = make(seed)
            X, y = stream(learner.structure, horizons[-1], seed)
            tracker, start = RegretTracker(learner), 0
            for j, horizon in enumerate(horizons):
                tracker.play(X[start:horizon], y[start:horizon])
                start = horizon
                if isinstance(learner.loss_, FenchelYoung):
                    key = (
                        repr(learner.loss_),
                        seed,
                        horizon,
                    )  # rules and decoders that share a loss share its best model
                    if key not in best:
                        best[key] = tracker.best_offline(alpha=1e-3, tol=1e-2)
                    U = best[key]
                    regrets[seed, j] = tracker.expected_regret(U)[-1]
                    if not isinstance(learner.step_, ConstantStep | AdaptiveStep) or learner.constants_ is None:
                        continue
                    if isinstance(learner.step_, AdaptiveStep):  # the comparator has to lie in the ball
                        U = U * min(1.0, learner.step_.diameter / 2 / max(float(np.linalg.norm(U)), 1e-300))
                        regrets[seed, j] = tracker.expected_regret(U)[-1]
                    bounds[seed] = tracker.bound(U)
                else:
                    U = _best_smooth_hinge(X[:horizon], y[:horizon], learner.loss_)
                    regrets[seed, j] = float(
                        tracker.expected_costs.sum()
                        - learner.loss_.value(X[:horizon] @ U, np.eye(len(U[0]))[y[:horizon]]).sum()
                    )
                    d, eta = learner.structure.dim, learner.step_.parameter
                    bounds[seed] = float(np.linalg.norm(U)) ** 2 / (2 * eta) if d > 1 else np.nan
        spread = regrets.std(axis=0, ddof=1)
        cells = [f"{m:.1f} ± {s:.1f}" for m, s in zip(regrets.mean(axis=0), spread, strict=True)]
        rows.append([name, *cells, "-" if np.isnan(bounds).all() else f"{np.nanmean(bounds):.0f}"])
        values[name] = {"regret": regrets.tolist(), "bound": bounds.tolist()}
    return {
        "title": "Expected surrogate regret against the best linear model in hindsight",
        "columns": ["structure, loss: step rule", *(f"T = {t}" for t in horizons), "bound"],
        "rows": rows,
        "notes": [
            f"{seeds} streams each (seeds 0 to {seeds - 1}), inputs on the unit sphere of {_FEATURES} dimensions,",
            "truths the best outputs of a linear model without noise. Mean ± standard deviation.",
            "The regret is Σ E cost(ŷ_t, y_t) − Σ S(Uᵀx_t; y_t), with U the minimiser of the surrogate loss on the T rounds",
            "(alpha 1e-3; for the adaptive rate shrunk into its ball). The bound is that of the rule at the last U, Theorem 4.2",
            "or E.1; the parameter-free rule has one with an unnamed constant. Negative regret: fewer mistakes than U's loss.",
            "The loss is scaled so that a = 1/2 where it has to be (scale='auto'). No published counterpart.",
        ],
        "values": values,
        "horizons": list(horizons),
    }


def stream(structure: Structure, n: int, seed: int) -> tuple[Array, Array]:
    """Inputs on the unit sphere and the outputs that score best under a linear model.

    There is no noise: where no model is right all the time, the loss of the best one grows with T and any learner of ours
    makes fewer mistakes than that, by more and more.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, _FEATURES))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    W = rng.normal(size=(_FEATURES, structure.dim))
    theta = (X @ (_LENGTH * W / np.linalg.norm(W, axis=0))).reshape(n, *structure.shape)
    return X, structure.decode(structure.argmax(theta))


def _maker(
    structure: Structure, psi: str, cost: str, step: Any, decoder: str = "randomized"
) -> Callable[[int], Learner]:
    return lambda seed: Learner(
        structure, psi, cost, step=step, decoder=decoder, scale="auto", random_state=seed, n_features=_FEATURES
    )


def _logistic(d: int) -> Callable[[int], Learner]:
    """Theorem 5.1's setting."""
    loss = FenchelYoung(Simplex(d), "kl", multiplier=1 / math.log(2))
    return lambda seed: Learner(Simplex(d), loss, "zero_one", random_state=seed, n_features=_FEATURES)


def _earlier(d: int) -> Callable[[int], Learner]:
    """van der Hoeven (2020): the smooth hinge, uniform exploration, and a rate that its gap of 1/d allows.

    ‖∇S‖² ≤ 8 ‖x‖² S for the smooth hinge (the gradient has two entries ±s with s² ≤ 4 S), so Proposition 4.1 with a = 1/d and
    b = 8 gives the rate 2 a/b.
    """
    step = ConstantStep(2 * min(0.5, 1 / d) / 8)
    return lambda seed: Learner(
        Simplex(d), SmoothHinge(Simplex(d)), "zero_one", step=step, decoder="uniform_exploration", random_state=seed,
        n_features=_FEATURES,
    )  # fmt: skip


def _best_smooth_hinge(X: Array, y: Array, loss: Any) -> Array:
    """A linear model with little smooth hinge loss on these rounds."""
    from scipy.optimize import minimize

    d = loss.structure.dim
    truths = np.eye(d)[y]

    def objective(w: Array) -> tuple[float, Array]:
        W = w.reshape(X.shape[1], d)
        value, gradient = loss.value_and_grad(X @ W, truths)
        n = len(X)
        return float(value.mean() + 0.5e-3 * w @ w), (X.T @ gradient / n + 1e-3 * W).ravel()

    # at zero all classes tie, where the loss has a kink: begin at the logistic minimiser
    scorer, logistic = Linear(X, (d,)), FenchelYoung(loss.structure, "kl")
    start = LBFGS(tol=1e-2).minimize(scorer, logistic, truths, 1e-4).w.ravel()
    return np.asarray(minimize(objective, start, jac=True, method="L-BFGS-B").x.reshape(-1, d))
