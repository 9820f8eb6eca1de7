"""What is proved of the moment-robust loss of trees, measured where everything can be written out.

Li, Saeed, Zhang, Ziebart and Gimpel, "Moment distributionally robust tree structured prediction" (2022): Proposition 1 (the
robust objective with the norm is the dual of the game against an adversary who may move mean features by the radius),
Theorem 2 (excess worst-case risk), Corollary 3 and the remark after it (consistency, and radii m^(-a)). The document prints
no table of these.

A population has a few inputs and any distribution of trees for each. So risks are sums, and the worst distribution in a
ball of moments is a linear program with a cut for each direction in which the ball was left.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from .._core.types import Array
from ..costs.hamming import Hamming
from ..losses.adversarial import Adversarial
from ..losses.margin import Hinge
from ..losses.named import CRF
from ..scorers.pairs import Pairs
from ..solvers.bundle import Bundle
from ..solvers.lbfgs import LBFGS
from ..structures.tree import Arborescence, Arborescences, DependencyTree, DependencyTrees

__all__ = ["Population", "fit", "predictors", "primal", "risk", "run", "worst_case"]

Tree = DependencyTree | Arborescence


@dataclass(frozen=True)
class Population:
    """Inputs with their probabilities, their features of arcs (n, n + 1, d), and how probable each tree of each is.

    ``seen`` counts the examples where it is a sample.
    """

    trees: tuple[Tree, ...]
    features: tuple[Array, ...]
    shares: Array
    truths: tuple[Array, ...]
    seen: int | None = None

    @cached_property
    def every(self) -> list[Array]:
        """All trees of each input, as rows."""
        return [tree.vertices().reshape(-1, tree.dim) for tree in self.trees]

    @cached_property
    def means(self) -> list[Array]:
        """The mean tree of each input."""
        return [d @ rows for d, rows in zip(self.truths, self.every, strict=True)]

    @cached_property
    def moments(self) -> list[Array]:
        """The features of each tree of each input, as rows."""
        return [rows @ x.reshape(len(x) * x.shape[1], -1) for rows, x in zip(self.every, self.features, strict=True)]

    @property
    def most_words(self) -> int:
        """The largest cost, K."""
        return max(tree.n for tree in self.trees)

    @property
    def longest(self) -> float:
        """The length of the longest features of a tree, B."""
        return max(float(np.linalg.norm(rows, axis=1).max()) for rows in self.moments)

    def sample(self, m: int, rng: np.random.Generator) -> Population:
        """The empirical distribution of m draws of an input and a tree; inputs that were not drawn have no share."""
        counts = rng.multinomial(m, self.shares)
        truths = tuple(rng.multinomial(c, d) / c if c else d for c, d in zip(counts.tolist(), self.truths, strict=True))
        return replace(self, shares=counts / m, truths=truths, seen=m)


@dataclass
class Fitted:
    """Weights, the objective that they reach, and a bound below all objectives."""

    w: Array
    value: float
    bound: float


def fit(population: Population, radius: float, tol: float = 1e-4, loss: str = "robust") -> Fitted:
    """The least of the mean loss + radius ‖w‖ over a population (or a sample).

    All trees of an input share their scores, so an example is an input with its mean tree μ, whose robust loss lacks the
    constant Ω(φ(y)) − Ω(μ) = min over p of cost(p, μ) only.
    """
    kept = [i for i, share in enumerate(population.shares) if share > 0]
    family = DependencyTrees() if population.trees[0].single_root else Arborescences()
    shares = population.shares[kept]
    scorer = Pairs([population.features[i] for i in kept])
    if loss == "robust":
        made: Any = Adversarial(family, Hamming())
        v = family.as_rows([population.means[i].reshape(population.trees[i].shape) for i in kept], "truths")[0]
        constant = float(-shares @ made.omega(v))
    elif loss == "crf":
        return _fit_all(population, kept, CRF(family), LBFGS(tol=tol), radius)
    else:
        return _fit_all(population, kept, Hinge(family, Hamming()), Bundle(tol=tol), radius)
    found = Bundle(tol=tol).minimize(scorer, made, v, radius, penalty="norm", sample_weight=shares)
    return Fitted(found.w, found.value + constant, found.value + constant - found.gap)


def _fit_all(population: Population, kept: list[int], loss: Any, solver: Any, radius: float) -> Fitted:
    """The same with an example for each tree."""
    items, rows, weights = [], [], []
    for i in kept:
        for y, d in zip(population.every[i], population.truths[i], strict=True):
            if d > 0:
                items.append(population.features[i])
                rows.append(y.reshape(population.trees[i].shape))
                weights.append(population.shares[i] * d)
    v = loss.structure.as_rows(rows, "truths")[0]
    found = solver.minimize(Pairs(items), loss, v, radius, penalty="norm", sample_weight=np.array(weights))
    return Fitted(found.w, found.value, found.value - found.gap)


def scores(population: Population, w: Array) -> list[Array]:
    return [x @ w for x in population.features]


def predictors(population: Population, w: Array) -> list[Array]:
    """The predictor's p* for each input, flat."""
    found = []
    for tree, theta in zip(population.trees, scores(population, w), strict=True):
        p = Adversarial(tree, Hamming()).output(theta).predictor
        found.append(np.asarray(p).ravel())
    return found


def risk(population: Population, answers: list[Array]) -> float:
    """The expected number of wrong heads of mean answers."""
    parts = zip(population.trees, answers, population.means, strict=True)
    return float(population.shares @ [tree.n - p @ mu for tree, p, mu in parts])


def best_risk(population: Population) -> float:
    """That of the Bayes answers."""
    return risk(population, _best_trees(population, population.means))


def _best_trees(population: Population, points: list[Array]) -> list[Array]:
    return [t.argmax(mu.reshape(t.shape)).ravel() for t, mu in zip(population.trees, points, strict=True)]


def primal(population: Population, radius: float, tol: float = 1e-6) -> tuple[float, float]:
    """Bounds of the game of Proposition 1 itself: the adversary's distribution of most risk for who knows it."""
    return _least_favourable(population, radius, None, tol)


def worst_case(population: Population, answers: list[Array], radius: float, tol: float = 1e-6) -> tuple[float, float]:
    """Bounds of the largest risk of given answers over the ball of moments around the population."""
    return _least_favourable(population, radius, answers, tol)


def _least_favourable(
    population: Population, radius: float, answers: list[Array] | None, tol: float
) -> tuple[float, float]:
    """max over q of the risk of answers, or of the best answers to q, where mean features move by at most the radius."""
    from scipy.optimize import linprog

    p = population
    counts = [len(rows) for rows in p.every]
    ends = np.concatenate([[0], np.cumsum(counts)])
    n, extra = int(ends[-1]), 0 if answers is not None else len(counts)
    gain, equal = np.zeros(n + extra), np.zeros((len(counts), n + extra))
    rows, rights = [], []
    for i, every in enumerate(p.every):
        part = slice(ends[i], ends[i + 1])
        equal[i, part] = 1.0
        if answers is not None:
            gain[part] = p.shares[i] * (p.trees[i].n - every @ answers[i])
        else:  # t_i is at most the risk of each answer
            gain[n + i] = p.shares[i]
            block = np.zeros((counts[i], n + extra))
            block[:, part] = every @ every.T - p.trees[i].n
            block[:, n + i] = 1.0
            rows.append(block)
            rights.append(np.zeros(counts[i]))
    moved = np.zeros((n + extra, p.moments[0].shape[1]))
    moved[:n] = np.concatenate([s * m for s, m in zip(p.shares, p.moments, strict=True)])
    there = np.concatenate([*p.truths, np.zeros(extra)]) @ moved

    def value(q: Array) -> float:
        if answers is not None:
            return float(gain[:n] @ q)
        means = [q[ends[i] : ends[i + 1]] @ p.every[i] for i in range(len(counts))]
        return risk(
            replace(p, truths=tuple(q[ends[i] : ends[i + 1]] for i in range(len(counts)))), _best_trees(p, means)
        )

    truth = np.concatenate(p.truths)
    for sign in (1.0, -1.0):
        rows.append(sign * moved.T / radius)
        rights.append(sign * there / radius + 1.0)
    lower, upper = -np.inf, np.inf
    while True:
        found = linprog(
            -gain, A_ub=np.concatenate(rows), b_ub=np.concatenate(rights), A_eq=equal, b_eq=np.ones(len(counts)),
            bounds=[(0, None)] * (n + extra), method="highs", options={"primal_feasibility_tolerance": 1e-10},
        )  # fmt: skip
        q = found.x[:n]
        off = found.x @ moved - there
        size = float(np.linalg.norm(off))
        inside = truth + min(1.0, radius / size if size > 0 else 1.0) * (q - truth)
        lower = max(lower, value(inside))
        stuck, upper = -found.fun > upper - 1e-9 * tol, min(upper, -float(found.fun))
        if upper - lower <= tol or size <= radius or stuck:
            return lower, max(lower, upper)
        rows.append((moved @ (off / size))[None] / radius)
        rights.append(np.array([there @ off / size / radius + 1.0]))


def theorem_2(population: Population, radius: float, m: int, doubt: float) -> float:
    """The excess worst-case risk that Theorem 2 allows with probability 1 − doubt."""
    k, b = population.most_words, population.longest
    return 4 * k * b / (radius * math.sqrt(m)) * (1 + 1.5 * math.sqrt(math.log(4 / doubt) / 2))


def no_majority(seeds: tuple[int, ...] = (4, 22, 34), words: int = 3, own: bool = True) -> Population:
    """An input for each seed, with a random distribution of its trees; of the default seeds' none has a majority.

    These were looked for: of the first two the hinge's answer at the population is not Bayes, of the last the highest score
    of the CRF is not. With ``own`` features, each arc of each input has a weight of its own; else there are six for all.
    """
    tree = DependencyTree(words)
    truths = tuple(np.random.default_rng(seed).dirichlet(np.full(tree.n_vertices, 0.7)) for seed in seeds)
    arcs = [(i, h) for i in range(words) for h in range(words + 1) if h != i + 1]
    rng, features = np.random.default_rng(0), []
    for j in range(len(seeds)):
        x = np.zeros((words, words + 1, len(seeds) * len(arcs) if own else 6))
        for k, (i, h) in enumerate(arcs):
            x[i, h] = np.eye(x.shape[2])[j * len(arcs) + k] if own else rng.normal(size=6) / math.sqrt(6 * words)
        features.append(x)
    return Population((tree,) * len(seeds), tuple(features), np.full(len(seeds), 1 / len(seeds)), truths)


_RADII = (0.01, 0.03, 0.1)
_RADIUS, _DOUBT, _POWERS = 0.02, 0.05, (0.25, 0.4)


def run(
    data: Path | None = None, quick: bool = False, progress: Callable[[float, str], None] | None = None
) -> dict[str, Any]:
    """Excess risks of samples of growing size, beside Theorem 2, and what radii m^(-a) make of them."""
    sizes, draws = ([10, 160], 2) if quick else ([10, 160, 2560, 40960], 10)
    shared, own = no_majority(own=False), no_majority()
    best, at_best = primal(shared, _RADIUS), best_risk(own)
    excess: dict[int, list[float]] = {m: [] for m in sizes}
    lengths: dict[int, list[float]] = {m: [] for m in sizes}
    rules: dict[str, Callable[[int], float]] = {f"radius {_RADIUS:g}": lambda m: _RADIUS}
    for a in _POWERS:
        rules[f"radius m^-{a:g}"] = lambda m, a=a: m**-a  # type: ignore[misc]
    lines: dict[str, dict[int, list[float]]] = {}
    for done, m in enumerate(sizes):
        for draw in range(draws):
            if progress is not None:
                progress((done + draw / draws) / len(sizes), f"{m} examples")
            rng = np.random.default_rng([m, draw])
            fitted = fit(shared.sample(m, rng), _RADIUS)
            excess[m].append(worst_case(shared, predictors(shared, fitted.w), _RADIUS)[1] - best[0])
            lengths[m].append(float(np.linalg.norm(fitted.w)))
            sample = own.sample(m, rng)
            for name, rule in rules.items():
                w = fit(sample, rule(m)).w
                p = predictors(own, w)
                _note(lines, f"{name}: draws from p*", m, risk(own, p) - at_best)
                _note(lines, f"{name}: trees of least risk", m, risk(own, _best_trees(own, p)) - at_best)
            for loss in ("crf", "hinge"):
                theta = scores(own, fit(sample, m**-0.4, tol=1e-3, loss=loss).w)
                answers = _best_trees(own, [t.ravel() for t in theta])
                _note(lines, f"{loss}, radius m^-0.4: trees of highest score", m, risk(own, answers) - at_best)
                if loss == "crf":
                    mu = [tree.marginals(t)[1].ravel() for tree, t in zip(own.trees, theta, strict=True)]
                    _note(
                        lines, "crf, radius m^-0.4: trees of least risk", m, risk(own, _best_trees(own, mu)) - at_best
                    )
    radii = _RADII[1:2] if quick else _RADII
    duality = max(abs(fit(p, radius, tol=1e-6).value - primal(p, radius)[1]) for p in (shared, own) for radius in radii)
    rows = [
        [f"excess worst-case risk, radius {_RADIUS:g}: mean", *(f"{np.mean(excess[m]):.4f}" for m in sizes)],
        ["its 95 % quantile", *(f"{np.quantile(excess[m], 1 - _DOUBT):.4f}" for m in sizes)],
        ["what Theorem 2 allows in 95 %", *(f"{theorem_2(shared, _RADIUS, m, _DOUBT):.1f}" for m in sizes)],
        [
            f"longest weights (K / radius = {shared.most_words / _RADIUS:g})",
            *(f"{max(lengths[m]):.2f}" for m in sizes),
        ],
        *(
            [f"risk over Bayes, {name}", *(f"{np.mean(by_size[m]):.4f}" for m in sizes)]
            for name, by_size in lines.items()
        ),
    ]
    return {
        "title": "Moment-robust trees: samples of m from a known population",
        "columns": ["mean over draws", *(f"m = {m}" for m in sizes)],
        "rows": rows,
        "notes": [
            f"{draws} draws. Three inputs of three words; each has a distribution of trees of its own without a majority, two of",
            "them chosen as ones where the hinge is not consistent and one where the CRF's highest score is not.",
            f"The first four rows: six features for all. Worst cases are over distributions within the radius {_RADIUS:g} of",
            f"the population's mean features; the best that can be had there is {best[0]:.4f}. The others: a weight for each",
            f"arc of each input; the Bayes risk is {at_best:.4f} wrong heads of three.",
            "Proposition 1: the least of the mean loss + radius ‖w‖ and the value of the game between distributions, by linear",
            f"programs over all trees, differ by at most {duality:.0e} at radii of {', '.join(f'{r:g}' for r in radii)}.",
        ],
        "values": {"duality": duality, "excess": excess, "lengths": lengths, "over_bayes": lines},
    }


def _note(lines: dict[str, dict[int, list[float]]], name: str, m: int, value: float) -> None:
    lines.setdefault(name, {}).setdefault(m, []).append(value)
