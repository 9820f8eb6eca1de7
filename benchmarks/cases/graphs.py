"""Labelled graphs: sum-product on trees, the additive game, adversarial training"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness import Case, Probe, Row

__all__ = ["cases", "mirror_prox"]

Array = Any
_N, _LENGTH, _LABELS, _FEATURES = 500, 50, 10, 20


def cases() -> list[Case | Probe]:
    return [
        Probe("graphs-sums", "Sum-product on 10,000 random trees of 20 nodes, 9 labels, beside NumPy", _sums),
        Probe("graphs-training", "Adversarial training of 500 sequences of 50, 10 labels, per pass", _training),
        Probe("graphs-game", "Ways to solve the additive game: seconds for an item, to the same certified gap", _games),
    ]


def _best(call: Callable[[], Any], times: int) -> float:
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


# -- sum-product -------------------------------------------------------------------------------------------------------


def _numpy_sums(parents: list[int], nodes: Array, tables: Array) -> Array:
    """Message passing on one tree, whose parents come before their children, as one writes it with NumPy."""
    n, k = nodes.shape
    below, messages = nodes.copy(), np.zeros((n, k))
    for v in range(n - 1, 0, -1):
        scores = tables[v - 1] + below[v]
        top = scores.max(axis=1)
        messages[v] = top + np.log(np.exp(scores - top[:, None]).sum(axis=1))
        below[parents[v]] += messages[v]
    total = np.logaddexp.reduce(below[0])
    marginals = np.empty((n, k))
    marginals[0] = np.exp(below[0] - total)
    pairs = np.empty((n - 1, k, k))
    for v in range(1, n):
        given = np.exp(tables[v - 1] + below[v] - messages[v][:, None])
        pairs[v - 1] = marginals[parents[v]][:, None] * given
        marginals[v] = pairs[v - 1].sum(axis=0)
    return np.concatenate([marginals.ravel(), pairs.ravel()])


def _sums(quick: bool) -> list[Row]:
    from fenchel import set_threads
    from fenchel.structures import Forest, Graphs, Ragged

    rng = np.random.default_rng(0)
    n, count, looped = 20, 500 if quick else 10_000, 50 if quick else 200
    parents = [[-1, *(int(rng.integers(0, v)) for v in range(1, n))] for _ in range(count)]
    graphs = Graphs([Forest(p, 9) for p in parents])
    theta = Ragged.empty(graphs.sizes)
    theta.flat[:] = rng.normal(size=theta.flat.size)
    parts = [(p, *member.unpack(row)) for p, member, row in zip(parents, graphs.members, theta, strict=False)][:looped]
    expected = [_numpy_sums(*part) for part in parts]
    found = graphs._marginals(theta)[1]
    off = max(float(np.abs(a - b).max()) for a, b in zip(expected, found, strict=False))
    theirs = _best(lambda: [_numpy_sums(*part) for part in parts], 3) / looped
    rows = []
    for threads in (1, 2):
        set_threads(threads)
        graphs._marginals(theta)
        ours = _best(lambda: graphs._marginals(theta), 5) / count
        note = (
            f"{ours * 1e6:.3g} µs a tree, NumPy {theirs * 1e6:.4g} µs, largest difference {off:.1e}; asked was 200. "
            "The 1539 exponentials of a tree's tables take 0.7 of about 5.4 µs of a thread; the rest goes to short loops "
            "over rows of nine, which vectors of eight did not make faster"
        )
        rows.append(Row(f"NumPy's time through ours, {threads} threads", (theirs / ours,), unit="times", note=note))
    return rows


# -- training ----------------------------------------------------------------------------------------------------------


def _training(quick: bool) -> list[Row]:
    """A pass evaluates all losses at the weights there are and their gradient; both train with the same steps.

    Costs count wrong labels. The inner gap is 1e-3 of the loss (about 0.03 wrong labels in a sequence of 50), as solvers count
    their own; the stricter reading, 1e-3 wrong labels in a sequence, is measured beside it.
    """
    from fenchel import set_threads
    from fenchel.costs import Hamming
    from fenchel.losses import CRF, Adversarial
    from fenchel.scorers import LinearChain
    from fenchel.solvers.base import Objective
    from fenchel.structures import Chains

    n = 100 if quick else _N
    passes = 20 if quick else 40
    rng = np.random.default_rng(1)
    truth = rng.normal(size=(_FEATURES, _LABELS))
    X = rng.normal(size=(n * _LENGTH, _FEATURES))
    y = (X @ truth + 3 * rng.gumbel(size=(n * _LENGTH, _LABELS))).argmax(axis=1)
    chains = Chains(_LABELS, tied=True)
    scorer = LinearChain(X, [_LENGTH] * n, chains)
    v = chains.encode(list(y.reshape(n, _LENGTH)))
    rows, all_seconds = [], []
    set_threads(2)
    for name, loss in (
        ("conditional random field", CRF(chains)),
        ("adversarial, inner gap 1e-3 of the loss", Adversarial(chains, Hamming(), tol=0.03)),
        ("adversarial, inner gap 1e-3 wrong labels", Adversarial(chains, Hamming(), tol=1e-3)),
    ):
        objective = Objective(scorer, loss, v, 0.1, None)
        w, seconds, worst = scorer.zero_weights(), [], 0.0
        first, _ = objective.value_and_grad(w)
        for t in range(1, passes + 1):  # steps short enough for the objective to fall: else nothing is warm-started
            start = time.perf_counter()
            value, gradient = objective.value_and_grad(w)
            seconds.append(time.perf_counter() - start)
            worst = max(worst, objective.inner_gap)
            w = w - gradient * (2 / (0.1 * (t + 2000)))
        note = f"last half of {passes} passes; objective from {first:.3g} to {value:.3g}"
        if worst:
            note += f"; mean inner gap at most {worst:.1e} wrong labels a sequence"
        rows.append(Row(name, tuple(seconds[passes // 2 :]), note=note))
        all_seconds.append(seconds)
    for row, seconds in zip(rows[1:], all_seconds[1:], strict=True):
        ratio, early = (
            float(np.median(part(seconds)) / np.median(part(all_seconds[0])))
            for part in (lambda s: s[passes // 2 :], lambda s: s[1:10])
        )
        note = f"at most 8 was asked; in passes 2 to 10, with most labels in play, {early:.3g} times"
        rows.append(Row(f"{row.name}, through a CRF pass", (ratio,), unit="times", note=note))
    return rows


# -- ways to solve the game --------------------------------------------------------------------------------------------


def mirror_prox(structure: Any, theta: Array, tol: float, most: int) -> tuple[float, int]:
    """Entropic mirror-prox on the game of wrong nodes: a softmax for p, sum-product for q. Gap and steps of one item."""
    from fenchel.costs import Hamming

    n, k = structure.length, structure.labels
    form = Hamming().affine(structure)
    p, dual = np.full((n, k), 1 / k), np.zeros(structure.dim)
    rate, averages, gap = 1.0, [np.zeros((n, k)), np.zeros(structure.dim)], np.inf

    def at(p: Array, dual: Array) -> tuple[Array, Array, Array]:
        q = structure.marginals(dual)[1]
        costs = 1 - structure.unpack(q)[0]
        slope = theta + structure.pack(1 - p, np.zeros((k, k)))
        return q, costs, slope

    def moved(p: Array, costs: Array) -> Array:
        out = p * np.exp(-rate * (costs - costs.min(axis=1, keepdims=True)))
        return out / out.sum(axis=1, keepdims=True)

    for step in range(1, most + 1):
        _, costs, slope = at(p, dual)
        half_p, half_dual = moved(p, costs), dual + rate * slope
        q, costs, slope = at(half_p, half_dual)
        p, dual = moved(p, costs), dual + rate * slope
        averages[0] += (half_p - averages[0]) / step
        averages[1] += (q - averages[1]) / step
        if step % 10 == 0:
            against = theta + structure.pack(1 - averages[0], np.zeros((k, k)))
            upper = float(against @ structure.argmax(against))
            costs = form.apply(averages[1][None])[0]
            lower = float(structure.unpack(costs)[0].min(axis=1).sum() + theta @ averages[1])
            gap = upper - lower
            if gap <= tol:
                break
    return gap, step


def _games(quick: bool) -> list[Row]:
    from fenchel import set_threads
    from fenchel.costs import Hamming
    from fenchel.losses.games.double_oracle import DoubleOracle
    from fenchel.losses.games.dual_decomposition import DualDecomposition
    from fenchel.losses.games.graph import ForestGame
    from fenchel.structures import Chain
    from fenchel.structures.base import Accuracy

    set_threads(1)
    rows = []
    count = 16  # two vectors of eight, as in training; the published way works on all of a batch at once too
    for n, k, tol in ((10, 3, 0.1), (20, 5, 0.1)) if quick else ((10, 3, 0.1), (20, 5, 0.1), (50, 10, 0.5)):
        structure = Chain(n, k, tied=False)
        theta = np.random.default_rng(2).normal(size=(count, structure.dim))
        accuracy = Accuracy(tol=tol)
        times: dict[str, tuple[float, float]] = {}
        for name, made in (
            ("interior points", ForestGame),
            ("dual decomposition", DualDecomposition),
            ("double oracle", DoubleOracle),
        ):
            game = made(structure, Hamming())
            game.solve(theta[:1], accuracy)
            start = time.perf_counter()
            found = game.solve(theta, accuracy)
            times[name] = (time.perf_counter() - start) / count, float(found.gap.max())
        start = time.perf_counter()
        gaps = [mirror_prox(structure, row, tol, 2000)[0] for row in theta[:2]]
        times["mirror-prox"] = (time.perf_counter() - start) / 2, max(gaps)
        for name, (seconds, gap) in times.items():
            note = f"largest gap {gap:.2g}, asked {tol:g}; {seconds / times['interior points'][0]:.3g} times the default's time"
            rows.append(Row(f"{name}, {n} nodes, {k} labels", (seconds,), note=note))
    return rows
