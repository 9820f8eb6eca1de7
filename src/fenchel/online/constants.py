"""The constants that regret bounds are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.errors import IncompatiblePair, InvalidInput
from .._core.types import Array
from ..costs.absolute import Absolute
from ..costs.base import Cost, affine_form
from ..costs.disagreements import Disagreements
from ..costs.hamming import Hamming
from ..costs.scaled import Scaled
from ..costs.spearman import Spearman
from ..costs.weighted import Weighted
from ..costs.zero_one import ZeroOne
from ..losses.fenchel_young import FenchelYoung
from ..losses.regularizers import KL, Euclidean, Gibbs
from ..structures.base import Structure
from ..structures.birkhoff import Birkhoff
from ..structures.chain import Chain
from ..structures.cube import Cube
from ..structures.linear_ordering import LinearOrdering
from ..structures.order_simplex import OrderSimplex
from ..structures.permutahedron import Permutahedron
from ..structures.product import Product
from ..structures.simplex import Simplex

__all__ = ["Constants", "constants_of", "cost_slope", "strong_convexity"]

_FEW_VERTICES = 5000


@dataclass(frozen=True)
class Constants:
    """What a loss, a structure and a cost are worth in a p-norm.

    ``gap`` is a = 1 − 4 γ/(c λ ν), the share of the surrogate loss that randomized decoding leaves over at every score;
    with inputs of norm at most C, ‖∇S‖² ≤ b S for b = ``smoothness(C)`` = 2 c C² κ²/λ. Where a > 0 the total of mistakes
    exceeds the surrogate loss of any linear model U by no more than a constant.

    Reference: Sakaue, Bao, Tsuchiya and Oki, "Online structured prediction with Fenchel-Young losses and improved
    surrogate regret for online multiclass classification with logistic loss", 2024, Assumption 2.1 and Theorem 4.2.
    """

    norm: float
    separation: float
    """ν: the least distance between vertices."""
    cost_slope: float
    """γ: L(μ, y) ≤ γ ‖μ − φ(y)‖ for all points μ."""
    cost_slope_exact: bool
    """Whether γ is the least such number, or a bound above it."""
    strong_convexity: float
    """λ: S(θ; y) ≥ λ/2 ‖φ(y) − ∇Ω*(θ)‖² for the loss without its multiplier."""
    norm_ratio: float
    """κ: the Euclidean norm is at most κ times this one."""
    diameter: float
    """D of the set, in the norm."""
    multiplier: float
    """c: the factor on the loss."""

    @property
    def gap(self) -> float:
        """a."""
        if np.isinf(self.separation):
            return 1.0
        return 1.0 - 4 * self.cost_slope / (self.multiplier * self.strong_convexity * self.separation)

    @property
    def needed_multiplier(self) -> float:
        """The multiplier below which a is not positive."""
        return 0.0 if np.isinf(self.separation) else 4 * self.cost_slope / (self.strong_convexity * self.separation)

    def smoothness(self, max_norm: float) -> float:
        """b."""
        return 2 * self.multiplier * (max_norm * self.norm_ratio) ** 2 / self.strong_convexity

    def learning_rate(self, max_norm: float, *, high_probability: bool = False) -> float:
        """The constant rate of Theorem 4.2 (or of Theorem 4.3, for the bound with high probability)."""
        self.require_gap()
        share = self.gap if high_probability else 2 * min(0.5, self.gap)
        return share / self.smoothness(max_norm)

    def bound(self, max_norm: float, comparator_norm: float) -> float:
        """What the expected total cost exceeds the comparator's surrogate loss by, at most (Theorem 4.2)."""
        self.require_gap()
        a, b = self.gap, self.smoothness(max_norm)
        m = min(0.5, a)
        return (1 - a) * b * comparator_norm**2 / (4 * (1 - m) * m)

    def high_probability_bound(self, max_norm: float, comparator_norm: float, delta: float) -> float:
        """What the total cost exceeds the comparator's surrogate loss by, with probability 1 − delta (Theorem 4.3)."""
        self.require_gap()
        if not 0 < delta < 1:
            raise InvalidInput(f"delta is {delta!r}, expected a probability between 0 and 1")
        a, b = self.gap, self.smoothness(max_norm)
        return ((1 - a) * b * comparator_norm**2 + self.cost_slope * self.diameter * np.log(1 / delta)) / a

    def adaptive_bound(self, max_norm: float, diameter: float) -> float:
        """The bound of the adaptive rate on a ball of this diameter (Theorem E.1)."""
        self.require_gap()
        return 2 * (1 - self.gap) * self.smoothness(max_norm) * diameter**2 / self.gap

    def require_gap(self) -> None:
        """Raise unless a is positive, saying by how much to scale."""
        if self.gap <= 0:
            raise IncompatiblePair(
                f"the loss is too small for its cost: a = 1 - 4γ/(cλν) is {self.gap:.4g}, and a bound needs a > 0. "
                f"Multiply the loss by more than {self.needed_multiplier / self.multiplier:.4g} "
                f"(multiplier={2 * self.needed_multiplier:.4g} gives a = 1/2), raise strength, or say scale='auto'"
            )


def constants_of(loss: FenchelYoung, cost: Cost, *, norm: float | None = None) -> Constants:
    """The constants of a loss and a cost; without ``norm`` in that of the 1- and the 2-norm which leaves the larger a.

    >>> from fenchel.costs import ZeroOne
    >>> from fenchel.losses import FenchelYoung
    >>> from fenchel.online import constants_of
    >>> from fenchel.structures import Simplex
    >>> import math
    >>> logistic = FenchelYoung(Simplex(10), "kl", multiplier=1 / math.log(2))  # to the base 2
    >>> found = constants_of(logistic, ZeroOne())
    >>> found.norm, round(found.gap, 4)  # 1 - ln 2
    (1.0, 0.3069)
    """
    if not isinstance(loss, FenchelYoung):
        raise IncompatiblePair(
            f"{loss!r} has no strong convexity to bound mistakes with; use FenchelYoung(structure, regularizer)"
        )
    if norm is None:
        return max((constants_of(loss, cost, norm=p) for p in (1.0, 2.0)), key=lambda found: found.gap)
    if not (isinstance(norm, int | float) and 1 <= norm < np.inf):
        raise InvalidInput(f"norm is {norm!r}, expected the p of a p-norm, 1 <= p < inf")
    structure, p = loss.structure, float(norm)
    if not structure.bounded:
        raise IncompatiblePair(f"{structure!r} is no polytope of outputs; use a structure with an argmax")
    slope, exact = cost_slope(cost, structure, p)
    return Constants(
        norm=p,
        separation=structure.separation(p),
        cost_slope=slope,
        cost_slope_exact=exact,
        strong_convexity=loss.strength * strong_convexity(loss, p),
        norm_ratio=1.0 if p <= 2 else float(structure.dim ** (0.5 - 1 / p)),
        diameter=structure.diameter(p),
        multiplier=loss.multiplier,
    )


def strong_convexity(loss: FenchelYoung, p: float) -> float:
    """λ of Ψ in the p-norm, on the structure of the loss (without strength and multiplier)."""
    structure, psi = loss.structure, loss.regularizer
    to_p = 1.0 if p >= 2 else float(structure.dim ** -(2 / p - 1))  # ‖d‖_p² ≤ ‖d‖_2² / to_p
    if isinstance(psi, Euclidean):
        return to_p
    largest = structure.max_l1
    if largest == 0:
        return np.inf
    if isinstance(psi, KL):
        # 1/max ‖μ‖₁ in the 1-norm, hence in every p-norm; and the Hessian diag(1/μ) is at least 1 where μ ≤ 1.
        return max(1 / largest, to_p) if structure.binary else 1 / largest
    if isinstance(psi, Gibbs):
        if isinstance(structure, Cube):
            return 4 * to_p  # a sum of binary entropies
        if isinstance(structure, Simplex):
            return max(1.0, to_p)  # the same as KL
        return max(1 / largest**2, to_p * 4 / structure.diameter(2) ** 2)
    return to_p * psi.strong_convexity(structure)


def cost_slope(cost: Cost, structure: Structure, p: float) -> tuple[float, bool]:
    """γ with L(μ, y) ≤ γ ‖μ − φ(y)‖_p for all points and truths, and whether it is the least such number."""
    if isinstance(cost, Scaled):
        slope, exact = cost_slope(cost.cost, structure, p)
        return cost.factor * slope, exact
    if isinstance(structure, Product) and isinstance(cost, Hamming):  # steepest where all factors err alike
        slope, exact = cost_slope(cost, structure.structure, p)
        return float(structure.times ** (1 - 1 / p)) * slope, exact
    if type(structure) is Simplex:
        known = _class_slope(cost, structure, p)
    elif isinstance(structure, Chain):
        known = _chain_slope(cost, structure, p)
    elif isinstance(structure, Permutahedron) and isinstance(cost, Spearman):
        known = _ranks_slope(cost, structure, p)
    else:
        known = _parts_slope(cost, structure, p)
    return (_bounded_slope(cost, structure, p), False) if known is None else known


def _parts_slope(cost: Cost, structure: Structure, p: float) -> tuple[float, bool] | None:
    """Costs that count parts: steepest where every part is wrong to the same degree."""
    if isinstance(structure, Cube) and isinstance(cost, Hamming):
        return float(structure.k ** (1 - 1 / p)), True
    if isinstance(structure, OrderSimplex) and isinstance(cost, Absolute) and structure.k > 1:
        return float((structure.k - 1) ** (1 - 1 / p)), True
    if isinstance(structure, Birkhoff) and isinstance(cost, Hamming):
        return float(structure.n ** (1 - 1 / p)) * _one_of(structure.n, p), True
    if isinstance(structure, LinearOrdering) and isinstance(cost, Disagreements):  # a pair is held by two entries
        pairs = structure.n * (structure.n - 1) / 2
        return float(pairs ** (1 - 1 / p) * 2 ** (-1 / p)) if pairs else 0.0, True
    if isinstance(cost, Hamming) and structure.part_coding == "entry":  # each entry is off by |μ − φ(y)| there
        return float(structure.dim ** (1 - 1 / p)), p == 1
    if isinstance(cost, Hamming) and structure.part_coding == "one_hot" and structure.max_l1 > 0:
        parts = structure.max_l1
        return structure.numbers_per_part * parts ** (1 - 1 / p) * _one_of(int(structure.dim / parts), p), False
    return None


def _class_slope(cost: Cost, structure: Simplex, p: float) -> tuple[float, bool] | None:
    if isinstance(cost, ZeroOne | Hamming):
        return _one_of(structure.k, p), True
    if p == 1 and structure.k > 1:
        return float(_checked(cost.matrix(structure), cost).max()) / 2, True  # ‖μ − e_y‖₁ is 2 (1 − μ_y)
    return None


def _ranks_slope(cost: Spearman, structure: Permutahedron, p: float) -> tuple[float, bool]:
    cost.affine(structure)  # refuses weights that are no ranks
    d = structure.dim
    if p == 2:
        return float(np.sqrt(3 / (d * (d * d - 1)))) if d > 1 else 0.0, True
    # the dual norm of the centred ranks, which are alike for all truths
    centred = np.asarray(structure.weights) - np.mean(structure.weights)
    return _norm(centred, p) * 6 / max(d * (d * d - 1), 6), False


def _chain_slope(cost: Cost, structure: Chain, p: float) -> tuple[float, bool] | None:
    """Costs that add up over positions. Let position t be wrong with probability e_t.

    Nodes are off by e_t (1 + (k − 1)^{1−p})^{1/p} at least, and a pair by (max^p + c min^p)^{1/p} of its two e's, with
    c = (k − 1)^{2−2p}: where both are wrong together and all mistakes are equally likely. A pair is as much as any
    x e_t^p + (1 + c − x) e_{t+1}^p with c ≤ x ≤ 1; sharing pairs out evenly leaves Σ β_t e_t^p, which is least, for
    a given Σ e_t, by Hölder's inequality. With few labels and many positions no even sharing exists, and the number is a bound.
    """
    n, k = structure.length, structure.labels
    if n == 0 or k == 1:
        return 0.0, True
    if isinstance(cost, Hamming):
        largest, uniform = 1.0, True
    elif isinstance(cost, Weighted) and structure.part_coding == "labels":
        if len(cost.weights) < n:
            raise IncompatiblePair(f"{cost!r} has weights for {len(cost.weights)} positions, {structure!r} has {n}")
        slope, _ = _chain_slope(cost.cost, structure, p) or (0.0, False)
        return max(cost.weights[:n]) * slope, False
    elif type(cost).label_matrix is Cost.label_matrix:
        return None
    else:
        largest, uniform = float(_checked(cost.label_matrix(k), cost).max()), False
    spread = float(k - 1) ** (1 - p)
    beta = np.full(n, 1 + spread)
    exact = p == 1 or uniform
    if not structure.tied and n > 1:  # how often transitions occur may be right where labels are wrong
        even = (1 + spread**2) * np.arange(1, n) / n
        to_the_right = np.clip(even, spread**2, 1.0)
        beta[1:] += to_the_right
        beta[:-1] += 1 + spread**2 - to_the_right
        exact = exact and (p == 1 or bool(np.all(to_the_right == even)))
    else:
        exact = exact and not structure.tied
    if p == 1:
        return largest * n / (2 * n + (0 if structure.tied else 2 * (n - 1))), exact
    return largest * float(np.sum(beta ** (-1 / (p - 1))) ** (1 - 1 / p)), exact


def _checked(matrix: Array, cost: Cost) -> Array:
    """C[answer, truth], if a right answer costs nothing."""
    if np.diagonal(matrix).any():
        raise _charges(cost)
    return matrix


def _charges(cost: Cost) -> IncompatiblePair:
    return IncompatiblePair(
        f"{cost!r} charges for right answers, so no loss that can be zero bounds it; subtract what they cost"
    )


def _one_of(k: int, p: float) -> float:
    """The slope of being wrong among k classes: steepest where the mistakes are spread over all other classes."""
    return float((1 + (k - 1) ** (1 - p)) ** (-1 / p)) if k > 1 else 0.0


def _bounded_slope(cost: Cost, structure: Structure, p: float) -> float:
    """max over truths of ‖Vφ(y) + b‖ in the dual norm, less what no difference of two points of the set can see."""
    n = structure.n_vertices
    if structure.missing().get("vertices") is not None or n is None or n > _FEW_VERTICES:
        return _slope_by_entries(cost, structure, p)
    vertices = structure.vertices()
    form = affine_form(cost, structure, structure)
    if np.any(np.abs(form.value(vertices, vertices)) > 1e-9):
        raise _charges(cost)
    gradients = np.asarray(form.apply(vertices)).reshape(n, -1)
    flat = vertices.reshape(n, -1)
    _, sizes, directions = np.linalg.svd(flat - flat.mean(axis=0), full_matrices=True)
    rank = int((sizes > 1e-10 * max(float(sizes.max(initial=0)), 1.0)).sum())
    seen = directions[:rank]
    if rank == 0:
        return 0.0
    within = gradients @ seen.T @ seen
    if p == 2:
        return float(np.linalg.norm(within, axis=1).max())
    free = directions[rank:]
    return float(max(_dual_norm(g, free, p) for g in np.unique(within, axis=0)))


def _slope_by_entries(cost: Cost, structure: Structure, p: float) -> float:
    """The dual norm of the largest absolute values that entries of Vφ(y) + b have over all truths, by 2 dim argmax calls."""
    form = affine_form(cost, structure, structure)
    one_for_all = structure.take(np.array([0])) == structure
    if structure.dim > _FEW_VERTICES or structure.missing().get("argmax") is not None or not one_for_all:
        raise IncompatiblePair(
            f"the slope of {cost!r} on {structure!r} has no formula, and it has too many outputs to try all, so "
            "there is no bound; give step=ConstantStep(rate), with a rate of your own"
        )
    table, _, base, _ = form._probe
    rows = table.T.reshape(-1, *structure.shape)
    largest = np.zeros(len(rows))
    for sign in (1.0, -1.0):
        extremes = structure.argmax(sign * rows)
        if np.any(np.abs(form.value(extremes, extremes)) > 1e-9):
            raise _charges(cost)
        values = (rows * extremes).reshape(len(rows), -1).sum(axis=1) + base
        largest = np.maximum(largest, np.abs(values))
    return _norm(largest, p)


def _dual_norm(gradient: Array, free: Array, p: float) -> float:
    """min over t of ‖gradient + tᵀ free‖_q, with q the dual exponent of p."""
    if len(free) == 0:
        return _norm(gradient, p)
    from scipy.optimize import linprog, minimize

    if p == 1:  # q is infinite: a linear programme
        k = len(free)
        c = np.zeros(k + 1)
        c[-1] = 1
        ones = np.ones((len(gradient), 1))
        A = np.block([[free.T, -ones], [-free.T, -ones]])
        solved = linprog(c, A_ub=A, b_ub=np.concatenate([-gradient, gradient]), bounds=[(None, None)] * (k + 1))
        return float(solved.fun)
    found: Any = minimize(lambda t: _norm(gradient + t @ free, p), np.zeros(len(free)))
    return min(float(found.fun), _norm(gradient, p))  # every t gives a bound


def _norm(gradient: Array, p: float) -> float:
    return float(np.abs(gradient).max()) if p == 1 else float((np.abs(gradient) ** (p / (p - 1))).sum() ** (1 - 1 / p))
