"""Trees: maximisers, matrix-tree marginals, projections."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.harness import Case, Contender, Probe
from benchmarks.peers import drtreesp, supar_mst

__all__ = ["cases"]

Array = Any
_BATCH = 200


def cases() -> list[Case | Probe]:
    chosen: list[Case | Probe] = []
    for n in (10, 30, 100):
        chosen += [_argmax(n, single_root) for single_root in (False, True)]
    chosen += [_marginals(n) for n in (10, 30, 100)]
    chosen += [_projection(5, 3, 1.0, 2.0), _projection(5, 3, 5.0, 2.0)]
    return [*chosen, _projection(20, 1, 1.0, 0.25), _projection(20, 1, 0.1, 0.0)]


def _tree(n: int, labels: int, single_root: bool) -> Any:
    from fenchel.structures import Arborescence, DependencyTree

    return (DependencyTree if single_root else Arborescence)(n, labels)


def _ours(n: int, labels: int, single_root: bool, oracle: str, **options: Any) -> Callable[[Any], Callable[[Any], Any]]:
    def build(setting: Any) -> Callable[[Any], Any]:
        method: Callable[[Any], Any] = getattr(_tree(n, labels, single_root), oracle)
        return partial(method, **options)

    return build


def _by_arc(theta: Array) -> Array:
    """(batch, words, heads[, labels]) as (batch, from, to, labels) with the root as node 0, as drtreesp wants it."""
    theta = theta if theta.ndim == 4 else theta[..., None]
    batch, n, _, labels = theta.shape
    out = np.zeros((batch, n + 1, n + 1, labels))
    out[:, :, 1:] = np.swapaxes(theta, 1, 2)
    return out


def _from_arcs(arcs: Array, labels: int) -> Array:
    words = np.swapaxes(np.asarray(arcs)[:, :, 1:], 1, 2)
    return words if labels > 1 else words[..., 0]


# -- argmax ------------------------------------------------------------------------------------------------------------


def _argmax(n: int, single_root: bool) -> Case:
    def their_c(setting: Any) -> Callable[[Any], Any]:
        drtreesp()
        import mst  # type: ignore[import-not-found]

        return lambda costs: [mst.get_mst_np(one, single_root) for one in costs]

    def supar(setting: Any) -> Callable[[Any], Any]:
        import torch

        mst, mask = supar_mst(), torch.ones(1, n + 1, dtype=torch.bool)
        mask[:, 0] = False
        return lambda scores: [mst(one[None], mask, multiroot=not single_root)[0] for one in scores]

    def for_supar(theta: Array) -> Array:
        import torch

        scores = np.full((len(theta), n + 1, n + 1), -1e32)
        scores[:, 1:] = theta
        scores[:, np.arange(1, n + 1), np.arange(1, n + 1)] = -1e32
        return torch.tensor(scores)

    def heads_of(heads: Any) -> Array:
        out = np.zeros((len(heads), n, n + 1))
        np.put_along_axis(out, np.stack([np.asarray(h)[1:] for h in heads])[..., None], 1, axis=2)
        return out

    def networkx(setting: Any) -> Callable[[Any], Any]:
        import networkx

        def solve(theta: Array) -> Array:
            out = np.zeros_like(theta)
            for i, scores in enumerate(theta):
                arcs = ((h, m + 1, {"weight": scores[m, h]}) for m in range(n) for h in range(n + 1) if h != m + 1)
                tree = networkx.maximum_spanning_arborescence(networkx.DiGraph(arcs))
                for h, m in tree.edges:
                    out[i, m - 1, h] = 1
            return out

        return solve

    def measure(theta: Array, best: Array, trees: Array) -> dict[str, float]:
        totals = (np.asarray(trees) * theta).sum(axis=(1, 2))
        return {"score off by": float(np.abs(best - totals).max())}

    peers = [Contender("drtreesp C routine, loop", their_c, prepare=lambda theta: -_by_arc(theta),
                       answer=lambda arcs: _from_arcs(np.stack(arcs), 1))]  # fmt: skip
    if n <= 30:
        peers.append(Contender("SuPar mst, loop", supar, prepare=for_supar, answer=heads_of))
    if n == 10 and not single_root:
        peers.append(Contender("networkx, loop", networkx))
    return Case(
        name=f"tree-argmax-n{n}-{'single' if single_root else 'multi'}-root",
        title=f"best tree, {n} words, batch {_BATCH}, {'one arc' if single_root else 'any arcs'} from the root",
        make=lambda rng: rng.normal(size=(_BATCH, n, n + 1)),
        ours=Contender("fenchel argmax", _ours(n, 1, single_root, "argmax"), threads="each"),
        peers=tuple(peers),
        # by another loop of ours; that the C routine, SuPar and networkx reach the same score is checked with it
        reference=lambda theta: (_tree(n, 1, single_root).k_best(theta, 1)[0])[:, 0],
        measure=measure,
        goals={"score off by": 1e-10},
        peer_goals={"score off by": 1e-8},
        target=3.0,
        against="the C routine of drtreesp, SuPar, networkx",
        scale=1.0,
        sets=12,
        seconds=4.0,
    )


# -- marginals ---------------------------------------------------------------------------------------------------------


def _by_determinant(theta: Array) -> tuple[Array, Array]:
    """Log-partition and marginals by determinant and inverse, in float64 (Koo et al. 2007)."""
    n = theta.shape[1]
    a = np.exp(theta)
    a[:, np.arange(n), np.arange(1, n + 1)] = 0
    laplacian = -a[:, :, 1:]
    laplacian[:, np.arange(n), np.arange(n)] = a.sum(axis=2)
    inverse = np.swapaxes(np.linalg.inv(laplacian), 1, 2)
    own = np.einsum("bii->bi", inverse)
    mu = a.copy()
    mu[:, :, 0] *= own
    mu[:, :, 1:] *= own[:, :, None] - inverse
    return np.linalg.slogdet(laplacian)[1], mu


def _marginals(n: int) -> Case:
    def torch_struct(setting: Any) -> Callable[[Any], Any]:
        import torch_struct as library  # type: ignore[import-not-found]

        def compute(scores: Any) -> Any:
            distribution = library.NonProjectiveDependencyCRF(scores, multiroot=True)
            return distribution.partition, distribution.marginals

        return compute

    def prepare(theta: Array) -> Any:
        import torch

        scores = np.swapaxes(theta[:, :, 1:], 1, 2).copy()  # [head, word], the root's on the diagonal
        scores[:, np.arange(n), np.arange(n)] = theta[:, :, 0]
        return torch.tensor(scores)

    def answer(found: Any) -> Any:
        log_partition, marginals = (np.asarray(part.detach()) for part in found)
        mu = np.zeros((len(marginals), n, n + 1))
        mu[:, :, 1:] = np.swapaxes(marginals, 1, 2)
        mu[:, :, 0] = np.einsum("bii->bi", marginals)
        mu[:, np.arange(n), np.arange(1, n + 1)] = 0
        return log_partition, mu

    def measure(theta: Array, exact: Any, found: Any) -> dict[str, float]:
        off = [float(np.abs(np.asarray(a) - b).max()) for a, b in zip(found, exact, strict=True)]
        return {"log-partition off by": off[0], "marginals off by": off[1]}

    return Case(
        name=f"tree-marginals-n{n}",
        title=f"matrix-tree marginals and log-partition, {n} words, batch {_BATCH}",
        make=lambda rng: rng.normal(size=(_BATCH, n, n + 1)),
        ours=Contender("fenchel Arborescence.marginals", _ours(n, 1, False, "marginals"), threads="each"),
        peers=(
            Contender(
                "torch-struct, float64",
                torch_struct,
                prepare=prepare,
                answer=answer,
                threads="each",
                note="adds 1e-5 to every arc",
            ),
            Contender("NumPy inverse (reference)", lambda setting: _by_determinant, threads="each", in_target=False),
        ),
        reference=_by_determinant,
        measure=measure,
        goals={"log-partition off by": 1e-10, "marginals off by": 1e-10},
        peer_goals={"marginals off by": 1e-4},
        target=1.0,
        against="torch-struct",
        scale=1.0,
        sets=12 if n < 100 else 4,
        seconds=5.0,
    )


# -- projection --------------------------------------------------------------------------------------------------------


def _projection(n: int, labels: int, scale: float, target: float) -> Case:
    shape = (n, n + 1) if labels == 1 else (n, n + 1, labels)
    batch = 20

    def frank_wolfe(setting: Any) -> Callable[[Any], Any]:
        theirs = drtreesp()
        return lambda arcs: [theirs.proj_arb(one.reshape(-1), n + 1, labels) for one in arcs]

    def admm(setting: Any) -> Callable[[Any], Any]:
        theirs = drtreesp()
        return lambda arcs: [theirs.proj_arb_admm(arcs[0].reshape(-1), n + 1, labels)] * len(arcs)

    def answer(points: Any) -> Array:
        return _from_arcs(np.stack(points).reshape(batch, n + 1, n + 1, labels), labels)

    def measure(theta: Array, exact: Any, mu: Array) -> dict[str, float]:
        tree = _tree(n, labels, True)
        slope = theta - mu
        axes = tuple(range(1, theta.ndim))
        gap = (slope * (tree.argmax(slope) - mu)).sum(axis=axes)
        return {"gap": float(np.abs(gap).max()), "distance": float(np.sqrt(((mu - exact) ** 2).sum(axis=axes)).max())}

    peers = [Contender("drtreesp Frank-Wolfe, 100 steps (its default)", frank_wolfe, prepare=_by_arc, answer=answer)]
    if labels > 1:
        peers.append(
            Contender("drtreesp ADMM (its default), the first of the batch only", admm, prepare=_by_arc, answer=answer,
                      in_target=False, note="multi-root sets; time of one problem, not of the batch")
        )  # fmt: skip
    return Case(
        name=f"tree-projection-n{n}-labels{labels}-scale{scale:g}",
        title=f"Euclidean projection, single root, {n} words, {labels} parallel arcs, batch {batch}",
        make=lambda rng: rng.normal(scale=scale, size=(batch, *shape)),
        ours=Contender("fenchel DependencyTree.project", _ours(n, labels, True, "project", tol=1e-9), threads="each"),
        peers=tuple(peers),
        reference=lambda theta: _tree(n, labels, True).project(theta, tol=1e-12),
        measure=measure,
        goals={"gap": 1e-9},
        target=target,
        against="drtreesp's Frank-Wolfe, which stops far from the projection",
        scale=scale,
        sets=8,
        seconds=4.0,
    )
