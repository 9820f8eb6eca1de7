"""How fast do methods project onto a tree polytope? Figure 1 of Li et al. (2022), with the others of ours beside.

Li, Saeed, Zhang, Ziebart and Gimpel, "Moment distributionally robust tree structured prediction" (2022): 100 random points of
[-5, 5]^75 on a graph of 5 nodes with 3 parallel arcs between any two. (27 of the 75 are arcs into the root or from a node to
itself, which no tree has.) The released code projects with a single-root maximiser in one method and onto multi-root sets in
the other; here each polytope has all methods.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from .._core.types import Array, IntArray
from ..structures.base import Accuracy
from ..structures.tree import Arborescence, DependencyTree
from ..structures.tree_projection import frank_wolfe, lifted_admm

__all__ = ["curves", "run"]

_METHODS = ("active-set", "frank-wolfe", "admm")
_NAMES = {
    "active-set": "active set",
    "frank-wolfe": "Frank-Wolfe, line search",
    "frank-wolfe-2/(t+2)": "Frank-Wolfe, 2/(t + 2)",
    "admm": "ADMM",
}
_GAPS = (1e-3, 1e-6, 1e-9)
_STEPS = tuple(sorted({round(10 ** (k / 8)) for k in range(25)}))  # 1 to 1000, evenly on a logarithmic scale


def run(
    data: Path | None = None, quick: bool = False, progress: Callable[[float, str], None] | None = None
) -> dict[str, Any]:
    """Iterations and time to certified gaps, and the distance to the projection by iteration."""
    most = 300 if quick else 10_000
    rng = np.random.default_rng(0)
    sets: list[tuple[str, Any, Array]] = []
    n = 5 if quick else 100
    for tree in (Arborescence(4, 3), DependencyTree(4, 3)):
        sets.append(("5 nodes, 3 parallel arcs, [-5, 5]", tree, rng.uniform(-5, 5, size=(n, *tree.shape))))
    for scale in () if quick else (1.0, 0.1):
        big = DependencyTree(20)
        sets.append((f"20 words, normal, scale {scale:g}", big, scale * rng.normal(size=(10, *big.shape))))
    rows, times = [], []
    for done, (title, tree, theta) in enumerate(sets):
        for method in _METHODS:
            if progress is not None:
                progress(done / len(sets), f"{tree!r}, {_NAMES[method]}")
            cells = []
            for gap in _GAPS:
                tree.project(theta[:1], method=method, tol=gap, max_iter=5, return_info=True)  # compiles
                start = perf_counter()
                _, info = tree.project(theta, method=method, tol=gap, max_iter=most, return_info=True)
                seconds = (perf_counter() - start) / len(theta)
                reached = float(info.converged.mean())
                iterations = float(np.median(info.n_iter))
                times.append({"set": title, "tree": repr(tree), "method": method, "gap": gap, "seconds": seconds,
                              "iterations": iterations, "reached": reached})  # fmt: skip
                cells.append(
                    f"{iterations:.0f} ({1e3 * seconds:.2f} ms)" if reached == 1 else f"{reached:.0%} in {most}"
                )
            rows.append([title, repr(tree), _NAMES[method], *cells])
    drawn = {repr(tree): curves(tree, theta) for _, tree, theta in sets[:2]}
    return {
        "title": "Projection onto tree polytopes: median iterations (time per problem) to a certified duality gap",
        "columns": ["points", "polytope", "method", *(f"gap {gap:.0e}" for gap in _GAPS)],
        "rows": rows,
        "notes": [
            f"{n} points on 5 nodes; all points of a row at once. An iteration is a call of argmax (active set, Frank-Wolfe),",
            "or an update of all copies (ADMM, which certifies every 25, and whose last step onto the hull is in its time).",
        ],
        "values": {"times": times, "curves": drawn},
    }


def curves(tree: Any, theta: Array) -> dict[str, dict[str, list[float]]]:
    """For each method the distance ‖x − x*‖ to the projection after some numbers of iterations: mean and standard error."""
    exact = tree.project(theta, tol=1e-12).reshape(len(theta), -1)
    found: dict[str, dict[int, Array]] = {name: {} for name in _NAMES.values()}

    def watcher(name: str) -> Callable[[IntArray, Array, IntArray], None]:
        distances = np.full(len(theta), np.nan)

        def watch(items: IntArray, points: Array, steps: IntArray) -> None:
            step = int(steps.max())
            distances[items] = np.linalg.norm(points - exact[items], axis=1)
            if step in _STEPS:  # those that have finished stay where they are
                found[name][step] = distances.copy()

        return watch

    long = Accuracy(tol=1e-12, max_iter=_STEPS[-1])
    frank_wolfe(tree, theta, long, watch=watcher(_NAMES["frank-wolfe"]))
    frank_wolfe(tree, theta, long, line_search=False, watch=watcher(_NAMES["frank-wolfe-2/(t+2)"]))
    lifted_admm(tree, theta, Accuracy(tol=1e-12, max_iter=300), watch=watcher(_NAMES["admm"]))
    for step in _STEPS:
        points, info = tree.project(theta, tol=1e-12, max_iter=step, return_info=True)
        found[_NAMES["active-set"]][step] = np.linalg.norm(points.reshape(len(theta), -1) - exact, axis=1)
        if info.converged.all():
            break
    out = {}
    for name, by_step in found.items():
        distances = np.array(list(by_step.values()))
        error = distances.std(axis=1, ddof=1) / np.sqrt(len(theta)) if len(theta) > 1 else np.zeros(len(distances))
        out[name] = {
            "iterations": [float(step) for step in by_step], "distance": distances.mean(axis=1).tolist(),
            "standard_error": error.tolist(),
        }  # fmt: skip
    return out
