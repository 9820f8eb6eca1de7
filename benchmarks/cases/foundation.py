"""Closed-form structures, the first estimator and what starting costs."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Case, Contender, Probe, Row
from benchmarks.peers import jax_x64

__all__ = ["cases", "jax_contender", "largest_entry_error"]

Array = Any


def cases() -> list[Case | Probe]:
    return [
        _simplex(10000, 10, 1.5),
        _simplex(10000, 100, 6.0),
        _simplex(1000, 10000, 15.0),
        _bounded_isotonic(),
        _classifier("kl", 0.8),
        _classifier("euclidean", 5.0),
        Probe("start-small-fit", "A fit on 100 rows, in a fresh process with a filled cache", _small_fits),
        Probe("start-import", "Starting: fresh processes, byte code and kernels cached", _imports),
        Probe("start-kernels", "First call of each kernel, in a fresh process (in that process's clock)", _first_calls),
    ]


# -- projections -------------------------------------------------------------------------------------------------------


def largest_entry_error(rows: int, relative: bool = False) -> Callable[[Any, Any, Any], dict[str, float]]:
    """Compare the first ``rows`` rows with the reference."""

    def measure(data: Any, reference: Any, answer: Any) -> dict[str, float]:
        error = np.abs(np.asarray(answer)[:rows] - reference).max()
        return {"largest error": float(error / np.abs(reference).max() if relative else error)}

    return measure


def jax_contender(name: str, row_function: Callable[[Any], Callable[[Any], Any]], **options: Any) -> Contender:
    """A jaxopt projection of one row, mapped over rows and compiled; jax chooses its threads itself."""

    def build(setting: Any) -> Callable[[Any], Any]:
        jax = jax_x64()
        function = jax.jit(jax.vmap(row_function(jax)))
        return lambda rows: function(rows).block_until_ready()

    def prepare(rows: Array) -> Any:
        return jax_x64().numpy.asarray(rows)

    return Contender(name, build, prepare, np.asarray, threads="own", **options)


def _sorted_projection(theta: Array) -> Array:
    """The textbook way in NumPy: sort, cumulate, find the threshold (Held, Wolfe and Crowder 1974)."""
    descending = np.sort(theta, axis=1)[:, ::-1]
    excess = np.cumsum(descending, axis=1) - 1
    support = np.count_nonzero(descending * np.arange(1, theta.shape[1] + 1) > excess, axis=1)
    tau = np.take_along_axis(excess, support[:, None] - 1, axis=1) / support[:, None]
    return np.maximum(theta - tau, 0)


_WHY_BIG = "reading the scores and touching fresh memory for the answer is part of it: see the floor"
_WHY_SORT = "NumPy's sort of rows of 100 took 15 ms where the target was set, and half of that here"


def _simplex(n: int, k: int, target: float) -> Case:
    def ours(setting: Any) -> Callable[[Any], Any]:
        from fenchel.structures import Simplex

        project: Callable[[Any], Any] = Simplex(k).project
        return project

    def entmax(limit: int | None) -> Callable[[Any], Callable[[Any], Any]]:
        def build(setting: Any) -> Callable[[Any], Any]:
            from entmax import sparsemax

            return lambda theta: sparsemax(theta, dim=-1, k=limit)

        return build

    def jax_simplex(jax: Any) -> Callable[[Any], Any]:
        from jaxopt.projection import projection_simplex

        return projection_simplex  # type: ignore[no-any-return]

    peers = [
        Contender("entmax.sparsemax", entmax(None), to_torch, np.asarray, threads="each"),
        Contender("NumPy sort", lambda setting: _sorted_projection),
        jax_contender("jaxopt projection_simplex", jax_simplex),
    ]
    if k >= 100:
        peers.insert(1, Contender("entmax.sparsemax k=100", entmax(100), to_torch, np.asarray, threads="each"))
    big = n * k > 5_000_000
    if big:
        peers.append(Contender("copy (floor)", lambda setting: np.copy, in_target=False, floor=True))
    return Case(
        name=f"simplex-euclidean-{n}x{k}",
        title=f"simplex, Euclidean, {n} x {k}",
        make=lambda rng: rng.normal(size=(n, k)),
        ours=Contender("fenchel Simplex.project", ours, threads="each"),
        peers=tuple(peers),
        # Extended precision decides in place of any contender's arithmetic.
        reference=lambda theta: _sorted_projection(theta[:200].astype(np.longdouble)),
        measure=largest_entry_error(200),
        goals={"largest error": 1e-13},
        peer_goals={"largest error": 1e-9},
        target=target,
        against="entmax, jaxopt, NumPy sort",
        scale=1.0,
        sets=3 if big else 12,
        seconds=10.0 if big else 6.0,
        why=_WHY_BIG if big else _WHY_SORT,
    )


def to_torch(array: Array) -> Any:
    import torch

    return torch.from_numpy(array)


def _bounded_isotonic() -> Case:
    n, k = 1000, 100

    def ours(setting: Any) -> Callable[[Any], Any]:
        from fenchel.structures import OrderSimplex

        project: Callable[[Any], Any] = OrderSimplex(k + 1).project
        return project

    def scipy_loop(setting: Any) -> Callable[[Any], Any]:
        from scipy.optimize import isotonic_regression

        def project(theta: Array) -> Array:
            out = np.empty_like(theta)
            for i, row in enumerate(theta):
                out[i] = isotonic_regression(row, increasing=False).x
            return np.clip(out, 0, 1, out=out)

        return project

    def sklearn_loop(setting: Any) -> Callable[[Any], Any]:
        from sklearn.isotonic import isotonic_regression

        def project(theta: Array) -> Array:
            return np.stack([isotonic_regression(row, increasing=False, y_min=0, y_max=1) for row in theta])

        return project

    return Case(
        name="order-simplex-1000x100",
        title="order simplex (bounded isotonic), 1000 x 100",
        make=lambda rng: rng.normal(size=(n, k)),
        ours=Contender("fenchel OrderSimplex.project", ours, threads="each"),
        peers=(
            Contender("scipy isotonic_regression loop", scipy_loop),
            Contender("scikit-learn isotonic_regression loop", sklearn_loop, in_target=False),
        ),
        reference=_isotonic_by_min_max,
        measure=largest_entry_error(50),
        goals={"largest error": 1e-13},
        peer_goals={"largest error": 1e-9},
        target=8.0,
        against="scipy.optimize.isotonic_regression loop",
        scale=1.0,
        sets=16,
        seconds=4.0,
    )


def _isotonic_by_min_max(theta: Array) -> Array:
    """Decreasing isotonic regression by its min-max formula, in extended precision: no pooling to get wrong."""
    rows = theta[:50].astype(np.longdouble)
    n, k = rows.shape
    sums = np.concatenate([np.zeros((n, 1), np.longdouble), np.cumsum(rows, axis=1)], axis=1)
    out = np.empty_like(rows)
    starts, ends = np.arange(k), np.arange(1, k + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        means = (sums[:, None, 1:] - sums[:, :-1, None]) / (ends[None, None, :] - starts[None, :, None])
    for j in range(k):  # the smallest over starts <= j of the largest mean over ends > j
        out[:, j] = means[:, : j + 1, j:].max(axis=2).min(axis=1)
    return np.clip(out, 0, 1)


# -- the classifier ----------------------------------------------------------------------------------------------------

_ROWS, _FEATURES, _CLASSES = 20000, 50, 10
_ALPHA = 1.0 / _ROWS  # scikit-learn's default, C = 1
_EXCESS = "objective excess"
_EVALUATIONS = 8  # of the objective, what our L-BFGS needs here for 1e-6
_TOLERANCES = tuple(float(f"{m}e{e}") for e in range(-1, -10, -1) for m in (3, 1))


def _examples(rng: np.random.Generator) -> tuple[Array, Array]:
    X = rng.normal(size=(_ROWS, _FEATURES))
    truth = rng.normal(size=(_FEATURES, _CLASSES)) * (2 / np.sqrt(_FEATURES))
    return X, (X @ truth + rng.gumbel(size=(_ROWS, _CLASSES))).argmax(axis=1)


def _objective(kind: str, X: Array, y: Array, w: Array) -> tuple[float, Array]:
    """Mean loss + alpha/2 ||w||^2 and its gradient, written here so that no contender judges itself."""
    theta = X @ w
    truth = theta[np.arange(len(y)), y]
    if kind == "kl":
        top = theta.max(axis=1, keepdims=True)
        p = np.exp(theta - top)
        total = p.sum(axis=1, keepdims=True)
        p /= total
        values = (np.log(total) + top)[:, 0] - truth
    else:
        p = _sorted_projection(theta)
        values = (theta * p).sum(axis=1) - 0.5 * (p * p).sum(axis=1) + 0.5 - truth
    p[np.arange(len(y)), y] -= 1
    return float(values.mean() + 0.5 * _ALPHA * (w * w).sum()), X.T @ p / len(y) + _ALPHA * w


def _least_objective(kind: str) -> Callable[[Any], float]:
    def solve(data: tuple[Array, Array]) -> float:
        from scipy.optimize import minimize

        def function(flat: Array) -> tuple[float, Array]:
            value, gradient = _objective(kind, *data, flat.reshape(_FEATURES, _CLASSES))
            return value, gradient.ravel()

        options = {"ftol": 0.0, "gtol": 1e-9, "maxiter": 2000, "maxfun": 4000, "maxcor": 30}
        start = np.zeros(_FEATURES * _CLASSES)
        found = minimize(function, start, jac=True, method="L-BFGS-B", options=options)
        value, gradient = function(found.x)
        # Strong convexity: the least value is at most ||gradient||^2 / (2 alpha) below.
        if gradient @ gradient / (2 * _ALPHA) > 1e-9 * value:
            raise RuntimeError("the reference solution is not exact enough")
        return value

    return solve


def _classifier(kind: str, target: float) -> Case:
    def measure(data: tuple[Array, Array], least: float, w: Array) -> dict[str, float]:
        value = _objective(kind, *data, np.asarray(w, dtype=np.float64))[0]
        return {_EXCESS: (value - least) / least, "objective": value}

    def ours(tol: Any) -> Callable[[Any], Any]:
        from fenchel import FenchelYoungClassifier

        model = FenchelYoungClassifier(kind, alpha=_ALPHA, fit_intercept=False, tol=tol, max_iter=2000)
        return lambda data: model.fit(*data).weights_

    def sklearn(solver: str) -> Callable[[Any], Callable[[Any], Any]]:
        def build(tol: Any) -> Callable[[Any], Any]:
            from sklearn.linear_model import LogisticRegression

            model = LogisticRegression(
                C=1 / (_ALPHA * _ROWS), fit_intercept=False, tol=tol, max_iter=2000, solver=solver
            )
            return lambda data: model.fit(*data).coef_.T

        return build

    def entmax_torch(tol: Any) -> Callable[[Any], Any]:
        import torch
        from entmax import SparsemaxLoss

        loss = SparsemaxLoss()

        def fit(data: tuple[Any, Any]) -> Any:
            X, y = data
            w = torch.zeros(_FEATURES, _CLASSES, dtype=torch.float64, requires_grad=True)
            optimizer = torch.optim.LBFGS(
                [w], max_iter=2000, max_eval=5000, tolerance_grad=tol, tolerance_change=1e-15,
                history_size=10, line_search_fn="strong_wolfe",
            )  # fmt: skip

            def closure() -> Any:
                optimizer.zero_grad()
                value = loss(X @ w, y) + 0.5 * _ALPHA * (w * w).sum()
                value.backward()
                return value

            optimizer.step(closure)
            return w.detach().numpy()

        return fit

    def products(setting: Any) -> Callable[[Any], Any]:
        w = np.zeros((_FEATURES, _CLASSES))

        def run(data: tuple[Array, Array]) -> Any:
            for _ in range(_EVALUATIONS):
                theta = data[0] @ w
                gradient = data[0].T @ theta
            return gradient

        return run

    if kind == "kl":
        peers: tuple[Contender, ...] = (
            Contender("scikit-learn lbfgs", sklearn("lbfgs"), threads="each", settings=_TOLERANCES),
            Contender("scikit-learn newton-cg", sklearn("newton-cg"), threads="each", settings=_TOLERANCES),
        )
    else:
        peers = (
            Contender(
                "entmax SparsemaxLoss, torch LBFGS",
                entmax_torch,
                prepare=lambda data: tuple(map(to_torch, data)),
                threads="each",
                settings=_TOLERANCES,
            ),
            Contender(
                f"{_EVALUATIONS} times X @ w and X.T @ r (floor)", products, threads="each", in_target=False, floor=True
            ),
        )
    return Case(
        name=f"classifier-{kind}",
        title=f"FenchelYoungClassifier({kind}), {_ROWS} x {_FEATURES}, {_CLASSES} classes, C = 1",
        make=_examples,
        ours=Contender("fenchel FenchelYoungClassifier", ours, threads="each", settings=_TOLERANCES),
        peers=peers,
        reference=_least_objective(kind),
        measure=measure,
        goals={_EXCESS: 1e-6},
        peer_goals={_EXCESS: 1e-6},
        target=target,
        against="scikit-learn LogisticRegression" if kind == "kl" else "entmax and torch L-BFGS",
        sets=3,
        checked=3,
        seconds=12.0,
        why="" if kind == "kl" else "both need the two products with X in each evaluation: see the floor",
    )


# -- starting ----------------------------------------------------------------------------------------------------------


def _python(code: str, cache: str | None = None) -> tuple[float, str]:
    """Run code in a fresh process: wall time and what it printed."""
    environment = dict(os.environ)
    if cache is not None:
        environment["NUMBA_CACHE_DIR"] = cache
    return _timed([sys.executable, "-c", code], environment)


def _timed(command: list[str], environment: dict[str, str]) -> tuple[float, str]:
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    seconds = time.perf_counter() - start
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise RuntimeError(lines[-1][:200])
    return seconds, done.stdout


def _walls(name: str, command: list[str], limit: float | None, repeats: int, note: str = "") -> Row:
    environment = dict(os.environ)
    try:
        _timed(command, environment)  # fills the byte-code cache
        values = tuple(_timed(command, environment)[0] for _ in range(repeats))
    except RuntimeError as error:
        return Row(name, limit=limit, note=f"failed: {error}")
    return Row(name, values, limit, note=note)


def _imports(quick: bool) -> list[Row]:
    repeats = 3 if quick else 9
    python = [sys.executable, "-c"]
    rows = [
        _walls("python -c pass", [*python, "pass"], None, repeats, "the floor"),
        _walls("import numpy", [*python, "import numpy"], None, repeats),
        _walls("import fenchel", [*python, "import fenchel"], 0.4, repeats),
        _walls("import fenchel.structures", [*python, "import fenchel.structures"], None, repeats, "loads numba"),
        _walls("from fenchel import FenchelYoungClassifier",
               [*python, "from fenchel import FenchelYoungClassifier"], None, repeats, "loads scikit-learn"),
    ]  # fmt: skip
    if not _has_module("fenchel.cli.main"):
        return [*rows, Row("fenchel --help", limit=0.5, note="skipped: there is no fenchel.cli.main yet")]
    script = Path(sys.executable).with_name("fenchel")
    if script.exists():
        command, note = [str(script), "--help"], ""
    else:
        code = "import sys; sys.argv = ['fenchel', '--help']; from fenchel.cli.main import main; sys.exit(main())"
        command, note = [*python, code], "the console script is not installed: its entry point called"
    return [*rows, _walls("fenchel --help", command, 0.5, repeats, note)]


def _has_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ImportError:
        return False


_FIT = """
import json, time
import numpy as np
from fenchel import FenchelYoungClassifier
rng = np.random.default_rng({seed})
times = []
for _ in range(2):
    X, y = rng.normal(size=(100, 5)), rng.integers(3, size=100)
    model = FenchelYoungClassifier({kind!r})
    start = time.perf_counter()
    model.fit(X, y)
    times.append(time.perf_counter() - start)
print(json.dumps(times))
"""


def _small_fits(quick: bool) -> list[Row]:
    rows = []
    for kind in ("euclidean", "kl"):
        name = f"FenchelYoungClassifier({kind}), 100 x 5, 3 classes"
        try:
            _python(_FIT.format(seed=0, kind=kind))
            runs = [json.loads(_python(_FIT.format(seed=s, kind=kind))[1]) for s in range(1, 4 if quick else 8)]
        except RuntimeError as error:
            rows.append(Row(name, limit=0.03, note=f"failed: {error}"))
            continue
        rows.append(Row(f"{name}, first fit in the process", tuple(run[0] for run in runs), note="kernels cached"))
        rows.append(Row(f"{name}, second fit", tuple(run[1] for run in runs), 0.03, note="other data, same process"))
    return rows


# One call for each compiled path: what has to be imported, and the call.
_STRUCTURES = "from fenchel import structures"
_LOSS = "from fenchel import losses, structures; loss = losses.FenchelYoung(structures.Simplex(5), "
_KERNELS: dict[str, tuple[str, str]] = {
    "simplex project": (_STRUCTURES, "structures.Simplex(5).project(x(5))"),
    "simplex softmax": (_STRUCTURES, "structures.Simplex(5).kl_project(x(5))"),
    "simplex sparsemax loss": (_LOSS + "'euclidean')", "loss.value_and_grad(x(5), np.eye(5))"),
    "simplex logistic loss": (_LOSS + "'kl')", "loss.value_and_grad(x(5), np.eye(5))"),
    "order simplex project": (_STRUCTURES, "structures.OrderSimplex(6).project(x(5))"),
    "order simplex marginals": (_STRUCTURES, "structures.OrderSimplex(6).marginals(x(5))"),
    "permutahedron project": (_STRUCTURES, "structures.Permutahedron(5).project(x(5))"),
    "permutahedron kl_project": (_STRUCTURES, "structures.Permutahedron(5).kl_project(x(5))"),
    "birkhoff argmax": (_STRUCTURES, "structures.Birkhoff(5).argmax(x(5, 5))"),
    "birkhoff project": (_STRUCTURES, "structures.Birkhoff(5).project(x(5, 5))"),
    "birkhoff kl_project": (_STRUCTURES, "structures.Birkhoff(5).kl_project(x(5, 5))"),
    "birkhoff decompose": (_STRUCTURES, "structures.Birkhoff(5).decompose(np.full((5, 5), 0.2))"),
    "budget project": (_STRUCTURES, "structures.Budget(5, 1, 2).project(x(5))"),
    "budget kl_project": (_STRUCTURES, "structures.Budget(5, 1, 2).kl_project(x(5))"),
    "budget marginals": (_STRUCTURES, "structures.Budget(5, 1, 2).marginals(x(5))"),
    "projection from argmax": (
        "from fenchel.optim.active_set import project_from_argmax",
        "project_from_argmax(x(5), lambda rows, i: np.eye(5)[rows.argmax(axis=1)])",
    ),
}
_CALL = """
import json, time
import numpy as np
rng = np.random.default_rng(0)
def x(*shape):
    return rng.normal(size=(5, *shape))
start = time.perf_counter()
{setup}
imported = time.perf_counter()
{call}
first = time.perf_counter()
{call}
print(json.dumps([imported - start, first - imported, time.perf_counter() - first]))
"""


def _first_calls(quick: bool) -> list[Row]:
    rows = []
    with tempfile.TemporaryDirectory(prefix="fenchel-bench-") as folder:
        for i, (name, (setup, call)) in enumerate(_KERNELS.items()):
            rows += _first_call(name, _CALL.format(setup=setup, call=call), f"{folder}/{i}")
        present = [(setup, call) for name, (setup, call) in _KERNELS.items() if not _skips(rows, name)]
        # Each set-up may bind the same names, so it goes right before its call.
        together = "\n".join(f"{setup}\n{call}" for setup, call in present)
        rows += _first_call("all of these, imports included", _CALL.format(setup="", call=together), f"{folder}/all")
    return rows


def _skips(rows: list[Row], name: str) -> bool:
    return any(row.name == name and not row.values for row in rows)


def _first_call(name: str, code: str, cache: str) -> list[Row]:
    Path(cache).mkdir()
    try:
        cold = json.loads(_python(code, cache)[1])
        cached = [json.loads(_python(code, cache)[1]) for _ in range(2)]
    except RuntimeError as error:
        return [Row(name, note=f"skipped: {error}")]
    before = f"imports {cold[0]:.2f} s before it" if cold[0] > 1e-3 else ""
    note = f"second call {np.median([run[2] for run in cached]) * 1e3:.2g} ms"
    return [
        Row(f"{name}, cold", (cold[1],), note=before),
        Row(f"{name}, cached", tuple(run[1] for run in cached), note=note),
    ]
