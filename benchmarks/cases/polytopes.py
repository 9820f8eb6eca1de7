"""Permutahedron, assignment, Birkhoff polytope and budget; a shortest path by its maximiser alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.cases.foundation import jax_contender, largest_entry_error
from benchmarks.harness import Case, Contender, Probe, Row
from benchmarks.peers import fast_soft_sort, projection_losses

__all__ = ["cases", "exact_birkhoff"]

Array = Any
_SCALES = (1.0, 5.0)


def cases() -> list[Case | Probe]:
    chosen: list[Case | Probe] = []
    for scale in _SCALES:
        chosen += [_permutahedron(1000, 100, 3.0, scale), _permutahedron(100, 10000, 1.3, scale)]
    for scale in _SCALES:
        chosen += [
            _assignment(1000, 5, 4.5, scale),
            _assignment(1000, 10, 2.5, scale),
            _assignment(1000, 34, 1.5, scale),
            _assignment(1, 500, 0.9, scale),
        ]
    for scale in _SCALES:
        chosen += [_birkhoff_kl(n, target, scale) for n, target in ((10, 15.0), (34, 6.0), (100, 2.0))]
    for scale in _SCALES:
        chosen += [_birkhoff_euclidean(n, target, scale) for n, target in ((10, 20.0), (34, 6.0), (100, 1.5))]
    chosen += [_budget(scale) for scale in _SCALES]
    title = "Shortest path on a 10 x 10 grid as Oracle, projected to a gap of 1e-9"
    return [*chosen, Probe("path-oracle-calls", title, _path_counts, missing=_no_oracle)]


def _needs(name: str, oracle: str, *parameters: int) -> Callable[[], str | None]:
    """Why the structure's oracle cannot be timed, or None."""

    def missing() -> str | None:
        from fenchel import structures

        made = getattr(structures, name, None)
        if made is None:
            return f"fenchel.structures has no {name} yet"
        structure = made(*parameters)
        return None if structure.supports(oracle) else f"{structure!r} has no {oracle} yet"

    return missing


def _ours(name: str, oracle: str, *parameters: int, **options: Any) -> Callable[[Any], Callable[[Any], Any]]:
    def build(setting: Any) -> Callable[[Any], Any]:
        from fenchel import structures

        method: Callable[[Any], Any] = getattr(getattr(structures, name)(*parameters), oracle)
        return partial(method, **options) if options else method

    return build


def _normal(scale: float, *shape: int) -> Callable[[np.random.Generator], Any]:
    return lambda rng: rng.normal(scale=scale, size=shape)


# -- permutahedron -----------------------------------------------------------------------------------------------------


def _permutahedron(n: int, k: int, target: float, scale: float) -> Case:
    weights = np.arange(k, 0, -1.0)

    def loop(regression: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def project(theta: Array) -> Array:
            out = np.empty_like(theta)
            order = np.argsort(-theta, axis=1)
            for i, row in enumerate(theta):
                descending = row[order[i]]
                out[i, order[i]] = descending - regression(descending - weights)
            return out

        return project

    def sklearn_loop(setting: Any) -> Callable[[Any], Any]:
        from sklearn.isotonic import isotonic_regression

        return loop(partial(isotonic_regression, increasing=False))

    def scipy_loop(setting: Any) -> Callable[[Any], Any]:
        from scipy.optimize import isotonic_regression

        return loop(lambda values: isotonic_regression(values, increasing=False).x)

    def fast_soft_sort_loop(setting: Any) -> Callable[[Any], Any]:
        module = fast_soft_sort()
        return lambda theta: np.stack([module.Projection(row, weights).compute() for row in theta])

    checked = 20 if k < 1000 else 3
    return Case(
        name=f"permutahedron-{n}x{k}-scale{scale:g}",
        title=f"permutahedron, Euclidean, {n} x {k}",
        make=_normal(scale, n, k),
        ours=Contender("fenchel Permutahedron.project", _ours("Permutahedron", "project", k), threads="each"),
        peers=(
            Contender("fast-soft-sort Projection loop", fast_soft_sort_loop),
            Contender("argsort, scikit-learn isotonic loop", sklearn_loop),
            Contender("argsort, scipy isotonic loop", scipy_loop, in_target=False),
            Contender("sort (floor)", lambda setting: partial(np.sort, axis=1), in_target=False, floor=True),
        ),
        reference=lambda theta: scipy_loop(None)(theta[:checked]),
        measure=largest_entry_error(checked, relative=True),
        goals={"largest error": 1e-12},
        peer_goals={"largest error": 1e-9},
        target=target,
        against="fast-soft-sort, scikit-learn isotonic",
        scale=scale,
        sets=12 if k < 1000 else 5,
        seconds=4.0,
        missing=_needs("Permutahedron", "project", k),
    )


# -- assignment --------------------------------------------------------------------------------------------------------


def _assignment(batch: int, n: int, target: float, scale: float) -> Case:
    def scipy_loop(setting: Any) -> Callable[[Any], Any]:
        from scipy.optimize import linear_sum_assignment

        return lambda theta: [linear_sum_assignment(one, maximize=True)[1] for one in theta]

    def lap_loop(setting: Any) -> Callable[[Any], Any]:
        from lap import lapjv

        def solve(theta: Array) -> list[Array]:
            costs = -theta
            return [lapjv(one, return_cost=False)[0] for one in costs]

        return solve

    def total(theta: Array, columns: Array) -> Array:
        return np.take_along_axis(theta, columns[..., None], axis=2).sum(axis=(1, 2))

    def measure(theta: Array, best: Array, columns: Array) -> dict[str, float]:
        if (np.sort(columns, axis=1) != np.arange(n)).any():
            return {"score short by": np.inf}
        return {"score short by": float((best - total(theta, columns)).max() / scale)}

    def columns(answer: Any) -> Array:
        return np.asarray(answer)

    return Case(
        name=f"assignment-n{n}-batch{batch}-scale{scale:g}",
        title=f"assignment, n = {n}, batch {batch}",
        make=_normal(scale, batch, n, n),
        ours=Contender(
            "fenchel Birkhoff.argmax",
            _ours("Birkhoff", "argmax", n),
            answer=lambda vertices: vertices.argmax(axis=2),
            threads="each",
            note="returns 0/1 matrices, the others columns",
        ),
        peers=(
            Contender("scipy linear_sum_assignment loop", scipy_loop, answer=columns),
            Contender("lap lapjv loop", lap_loop, answer=columns),
        ),
        reference=lambda theta: total(theta, columns(scipy_loop(None)(theta))),
        measure=measure,
        goals={"score short by": 1e-10},
        peer_goals={"score short by": 1e-9},
        target=target,
        against="scipy and lap loops",
        scale=scale,
        sets=24 if n < 100 else 30,
        seconds=3.0,
        missing=_needs("Birkhoff", "argmax", n),
    )


# -- Birkhoff ----------------------------------------------------------------------------------------------------------

_BATCH, _CHECKED = 100, 8
_MARGINALS, _ENTRIES = "marginals", "largest error"


def exact_birkhoff(theta: Array, entropic: bool) -> Array:
    """The projection of one score matrix, by damped Newton steps on the dual until the marginals are exact to 1e-12.

    The plan is exp(theta + a + b) or max(theta + a + b, 0), potentials a on rows and b on columns.
    """
    n = len(theta)
    scores = theta - theta.max(axis=1, keepdims=True)
    a, b = (np.full(n, -np.log(n)) if entropic else np.full(n, 1.0)), np.zeros(n)
    for _ in range(200 if entropic else 0):  # Sinkhorn steps bring the start near enough not to overflow
        a -= np.log(np.exp(scores + a[:, None] + b).sum(axis=1))
        b -= np.log(np.exp(scores + a[:, None] + b).sum(axis=0))

    def plan_and_dual(a: Array, b: Array) -> tuple[Array, float]:
        z = scores + a[:, None] + b
        plan = np.exp(np.minimum(z, 50)) if entropic else np.maximum(z, 0)
        return plan, float((plan if entropic else 0.5 * plan * plan).sum() - a.sum() - b.sum())

    plan, dual = plan_and_dual(a, b)
    for _ in range(500):
        gradient = np.concatenate([plan.sum(axis=1), plan.sum(axis=0)]) - 1
        size = np.abs(gradient).max()
        if size < 1e-12:
            return plan
        slope = plan if entropic else (plan > 0).astype(float)
        hessian = np.block([[np.diag(slope.sum(axis=1)), slope], [slope.T, np.diag(slope.sum(axis=0))]])
        hessian += (1e-12 + 1e-3 * min(size, 1.0)) * np.eye(2 * n)
        step = np.linalg.solve(hessian, -gradient)
        length = 1.0
        while True:
            new = a + length * step[:n], b + length * step[n:]
            new_plan, new_dual = plan_and_dual(*new)
            if new_dual <= dual + 1e-4 * length * float(gradient @ step) + 1e-14 * abs(dual) or length < 1e-8:
                break
            length *= 0.5
        (a, b), plan, dual = new, new_plan, new_dual
    if size > 1e-11:
        raise RuntimeError(f"the reference projection has marginals off by {size:.1e}")
    return plan


def _reference(entropic: bool) -> Callable[[Any], Any]:
    return lambda theta: np.stack([exact_birkhoff(one, entropic) for one in theta[:_CHECKED]])


def _against_plan(theta: Array, reference: Array, plans: Array) -> dict[str, float]:
    plans = np.asarray(plans).reshape(theta.shape)
    off = max(np.abs(plans.sum(axis=axis) - 1).max() for axis in (1, 2))
    return {_MARGINALS: float(off), _ENTRIES: float(np.abs(plans[:_CHECKED] - reference).max())}


def _projection_losses(kind: str, **options: Any) -> Contender:
    def build(tol: Any) -> Callable[[Any], Any]:
        theirs = projection_losses()
        project = getattr(theirs.polytopes.Birkhoff(max_iter=5000, tol=tol), f"{kind}_project")
        return lambda theta: theirs.call(project, theta.reshape(len(theta), -1))

    tolerances = (1e-11, 1e-12, 3e-13, 1e-13, 3e-14, 1e-14, 3e-15, 1e-15, 1e-16)
    return Contender(f"projection-losses Birkhoff ({kind})", build, settings=tolerances, **options)


def _birkhoff_kl(n: int, target: float, scale: float) -> Case:
    ones = np.ones((_BATCH, n))

    def sinkhorn_loop(tol: Any) -> Callable[[Any], Any]:
        import ot

        one = np.ones(n)

        def project(theta: Array) -> Array:
            return np.stack([
                ot.sinkhorn(one, one, -scores, 1.0, stopThr=tol, numItermax=100000, warn=False) for scores in theta
            ])  # fmt: skip

        return project

    def sinkhorn_batch(tol: Any) -> Callable[[Any], Any]:
        from ot.batch import bregman_projection_batch

        return lambda theta: bregman_projection_batch(np.exp(theta), ones, ones, max_iter=100000, tol=tol)["T"]

    def sinkhorn_log_batch(tol: Any) -> Callable[[Any], Any]:
        from ot.batch import bregman_log_projection_batch

        return lambda theta: bregman_log_projection_batch(theta, ones, ones, max_iter=100000, tol=tol)["T"]

    few = n <= 34 and scale == 1
    tolerances = tuple(float(f"{m}e{e}") for e in range(-4, -9, -1) for m in (3, 1))
    return Case(
        name=f"birkhoff-kl-n{n}-scale{scale:g}",
        title=f"Birkhoff, KL, n = {n}, batch {_BATCH}",
        make=_normal(scale, _BATCH, n, n),
        ours=Contender("fenchel Birkhoff.kl_project", _ours("Birkhoff", "kl_project", n, tol=1e-9), threads="each"),
        peers=(
            Contender("POT sinkhorn loop", sinkhorn_loop, threads="each", settings=tolerances),
            Contender("POT sinkhorn, batch", sinkhorn_batch, settings=tolerances),
            # The same iterations several times slower: where they are many it would take most of the time of a run.
            *([Contender("POT sinkhorn, log-domain batch", sinkhorn_log_batch, settings=tolerances)] if few else []),
            _projection_losses("KL", in_target=False),
        ),
        reference=_reference(entropic=True),
        measure=_against_plan,
        goals={_MARGINALS: 1e-9},
        peer_goals={_MARGINALS: 1e-6},
        target=target,
        against="POT Sinkhorn at 1e-6",
        scale=scale,
        sets=6 if n < 100 else 3,
        checked=2 if n < 100 else 1,
        seconds=6.0,
        missing=_needs("Birkhoff", "kl_project", n),
        why=""
        if n > 10 or scale > 1
        else "POT's batch needs 10 us for a small matrix already, ours 2 us: 13 iterations "
        "to 1e-9, the call from Python, exp and the answer a third of it",
    )


def _birkhoff_euclidean(n: int, target: float, scale: float) -> Case:
    def smooth(name: str) -> Callable[[Any], Callable[[Any], Any]]:
        def build(tol: Any) -> Callable[[Any], Any]:
            import ot.smooth

            solve, one = getattr(ot.smooth, name), np.ones(n)
            options = {"reg_type": "l2", "stopThr": tol, "numItermax": 5000}
            return lambda theta: np.stack([solve(one, one, -scores, 1.0, **options) for scores in theta])

        return build

    def admm(tol: Any) -> Callable[[Any], Any]:
        from fenchel.optim.admm import birkhoff_admm

        return lambda theta: birkhoff_admm(theta, tol=tol).points

    name, settings = "ADMM of Fathony (2019), in NumPy", (1e-5, 1e-6, 1e-7, 1e-8)
    slow = [Contender(name, admm, settings=settings, in_target=False)] if n == 10 else []  # later it takes minutes
    tolerances = (1e-13, 3e-14, 1e-14, 3e-15, 1e-15, 1e-16)
    return Case(
        name=f"birkhoff-euclidean-n{n}-scale{scale:g}",
        title=f"Birkhoff, Euclidean, n = {n}, batch {_BATCH}",
        make=_normal(scale, _BATCH, n, n),
        ours=Contender("fenchel Birkhoff.project", _ours("Birkhoff", "project", n, tol=1e-9), threads="each"),
        peers=(
            Contender("POT smooth_ot_dual", smooth("smooth_ot_dual"), threads="each", settings=tolerances),
            Contender("POT smooth_ot_semi_dual", smooth("smooth_ot_semi_dual"), threads="each", settings=tolerances),
            _projection_losses("Euclidean", threads="each"),
            *slow,
        ),
        reference=_reference(entropic=False),
        measure=_against_plan,
        goals={_ENTRIES: 1e-9},
        peer_goals={_MARGINALS: 1e-6},
        target=target,
        against="POT's and projection-losses' duals at 1e-6",
        scale=scale,
        sets=4 if n < 100 else 2,
        checked=1,
        seconds=8.0 if n < 100 else 12.0,
        missing=_needs("Birkhoff", "project", n),
    )


# -- budget ------------------------------------------------------------------------------------------------------------


def _budget(scale: float) -> Case:
    n, k, low, high = 10000, 100, 0, 20

    def box_section(jax: Any) -> Callable[[Any], Any]:
        from jaxopt.projection import projection_box_section

        def project(row: Any) -> Any:
            """Its section fixes the sum; where the cube's projection is within the bounds, that is the answer."""
            numpy = jax.numpy
            inside = numpy.clip(row, 0.0, 1.0)
            total = inside.sum()
            zeros, ones = numpy.zeros(k), numpy.ones(k)
            bound = numpy.clip(total, low, high)
            section = projection_box_section(row, (zeros, ones, ones, bound))
            return numpy.where(total == bound, inside, section)

        return project

    def knapsack(setting: Any) -> Callable[[Any], Any]:
        theirs = projection_losses()
        project = theirs.polytopes.Knapsack(max_labels=high, min_labels=low).Euclidean_project
        return lambda theta: theirs.call(project, theta)

    return Case(
        name=f"budget-{n}x{k}-scale{scale:g}",
        title=f"budget of {low} to {high}, Euclidean, {n} x {k}",
        make=_normal(scale, n, k),
        ours=Contender("fenchel Budget.project", _ours("Budget", "project", k, low, high), threads="each"),
        peers=(
            jax_contender("jaxopt projection_box_section", box_section, note="bisects to 1e-5, not adjustable"),
            Contender("projection-losses Knapsack", knapsack),
        ),
        reference=lambda theta: _budget_by_breakpoints(theta[:200].astype(np.longdouble), low, high),
        measure=largest_entry_error(200),
        goals={"largest error": 1e-12},
        target=10.0,
        against="jaxopt box section, projection-losses",
        scale=scale,
        sets=8,
        seconds=6.0,
        missing=_needs("Budget", "project", k, low, high),
        why="jaxopt's bisection stops at 1e-5 and takes 5.7 ns an entry; ours is exact and takes 1.5 to 2 on one thread, "
        "which is five passes over a row and fresh memory for the answer, and two threads share one memory",
    )


def _budget_by_breakpoints(theta: Array, low: float, high: float) -> Array:
    """Row by row: the shift that meets the violated bound is found between the two breakpoints that enclose it."""
    out = np.clip(theta, 0, 1)
    for i, row in enumerate(theta):
        total = out[i].sum()
        bound = min(max(total, low), high)
        if bound == total:
            continue
        breaks = np.sort(np.concatenate([row, row - 1]))
        sums = np.array([np.clip(row - t, 0, 1).sum() for t in breaks])  # falls as the shift grows
        j = int(np.searchsorted(-sums, -bound))
        t0, t1, s0, s1 = breaks[j - 1], breaks[j], sums[j - 1], sums[j]
        out[i] = np.clip(row - (t0 + (s0 - bound) / (s0 - s1) * (t1 - t0)), 0, 1)
    return out


# -- a maximiser and nothing else --------------------------------------------------------------------------------------

_GRID = 10


def _no_oracle() -> str | None:
    from fenchel import structures

    return None if hasattr(structures, "Oracle") else "fenchel.structures has no Oracle yet"


def _best_path(theta: Array) -> Array:
    """The path of highest score from the first to the last cell of a grid, by steps down or right."""
    n, m = theta.shape
    best = np.full((n + 1, m + 1), -np.inf)
    best[0, 1] = 0.0
    for i in range(n):
        for j in range(m):
            best[i + 1, j + 1] = theta[i, j] + max(best[i, j + 1], best[i + 1, j])
    vertex = np.zeros((n, m))
    i, j = n, m
    while i > 0 and j > 0:
        vertex[i - 1, j - 1] = 1.0
        if best[i - 1, j] >= best[i, j - 1]:
            i -= 1
        else:
            j -= 1
    return vertex


def _path_counts(quick: bool) -> list[Row]:
    rows = []
    for scale in _SCALES:
        rng = np.random.default_rng(3)
        problems = rng.normal(scale=scale, size=(5 if quick else 20, _GRID, _GRID))
        points, calls, seconds = _count(problems, _by_active_set)
        others = []
        for method in ("pairwise", "blended"):
            their_points, their_calls, their_seconds = _count(problems, partial(_by_frank_wolfe, method=method))
            apart = float(np.abs(points - their_points).max())
            note = f"{np.median(their_seconds) * 1e3:.3g} ms, answers at most {apart:.1e} apart"
            others.append(Row(f"{method} Frank-Wolfe, scale {scale:g}", their_calls, unit="calls", note=note))
        note = f"{np.median(seconds) * 1e3:.3g} ms; the limit is what pairwise needs"
        rows += [Row(f"Oracle.project, scale {scale:g}", calls, others[0].median, "calls", note), *others]
    return rows


def _count(
    problems: Array, project: Callable[[Any, Callable[[Any], Any]], Any]
) -> tuple[Array, tuple[float, ...], Array]:
    """Points, calls of the maximiser and seconds, problem by problem."""
    points, calls, seconds = [], [], []
    project(problems[0], _best_path)  # compiles
    for theta in problems:
        count = [0]

        def counted(scores: Array, count: list[int] = count) -> Array:
            count[0] += 1
            return _best_path(scores)

        start = time.perf_counter()
        points.append(project(theta, counted))
        seconds.append(time.perf_counter() - start)
        calls.append(float(count[0]))
    return np.stack(points), tuple(calls), np.array(seconds)


def _by_active_set(theta: Array, argmax: Callable[[Any], Any]) -> Array:
    from fenchel.structures import Oracle

    return Oracle(argmax, theta.shape).project(theta, tol=1e-9)


def _by_frank_wolfe(theta: Array, argmax: Callable[[Any], Any], method: str) -> Array:
    from fenchel.optim.frank_wolfe import minimize_over_hull

    def half_distance(x: Array) -> tuple[float, Array]:
        return 0.5 * float(((x - theta) ** 2).sum()), x - theta

    options: dict[str, Any] = {"tol": 1e-9, "max_iter": 100000, "line_search": "exact-quadratic"}
    return minimize_over_hull(half_distance, argmax, argmax(theta), method=method, **options).point
