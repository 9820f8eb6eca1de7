"""The constants that regret bounds are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.errors import IncompatiblePair, InvalidInput
from .._core.types import Array
from ..costs.absolute import Absolute
from ..costs.base import Cost, affine_form
from ..costs.hamming import Hamming
from ..costs.scaled import Scaled
from ..costs.spearman import Spearman
from ..costs.zero_one import ZeroOne
from ..losses.fenchel_young import FenchelYoung
from ..losses.regularizers import KL, Euclidean, Gibbs
from ..structures.base import Structure
from ..structures.birkhoff import Birkhoff
from ..structures.cube import Cube
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
    known = _known_slope(cost, structure, p)
    if known is None and isinstance(cost, Hamming) and structure.part_coding == "entry":
        return float(structure.dim ** (1 - 1 / p)), False  # each entry is off by at most |μ − φ(y)| there
    if known is None and isinstance(structure, Permutahedron) and isinstance(cost, Spearman):
        cost.affine(structure)  # refuses weights that are no ranks
        d = structure.dim
        # the dual norm of the centred ranks, which are alike for all truths
        centred = np.asarray(structure.weights) - np.mean(structure.weights)
        return _norm(centred, p) * 6 / max(d * (d * d - 1), 6), False
    return (known, True) if known is not None else (_bounded_slope(cost, structure, p), False)


def _known_slope(cost: Cost, structure: Structure, p: float) -> float | None:
    if isinstance(structure, Simplex) and isinstance(cost, ZeroOne | Hamming):
        return _one_of(structure.k, p)
    if isinstance(structure, Cube) and isinstance(cost, Hamming):
        return float(structure.k ** (1 - 1 / p))
    if isinstance(structure, OrderSimplex) and isinstance(cost, Absolute) and structure.k > 1:
        return float((structure.k - 1) ** (1 - 1 / p))
    if isinstance(structure, Birkhoff) and isinstance(cost, Hamming):
        return float(structure.n ** (1 - 1 / p)) * _one_of(structure.n, p)
    if isinstance(structure, Product) and isinstance(structure.structure, Simplex) and isinstance(cost, Hamming):
        return float(structure.times ** (1 - 1 / p)) * _one_of(structure.structure.k, p)
    if isinstance(structure, Permutahedron) and isinstance(cost, Spearman) and p == 2:
        cost.affine(structure)  # refuses weights that are no ranks
        d = structure.dim
        return float(np.sqrt(3 / (d * (d * d - 1)))) if d > 1 else 0.0
    return None


def _one_of(k: int, p: float) -> float:
    """The slope of being wrong among k classes: steepest where the mistakes are spread over all other classes."""
    return float((1 + (k - 1) ** (1 - p)) ** (-1 / p)) if k > 1 else 0.0


def _bounded_slope(cost: Cost, structure: Structure, p: float) -> float:
    """max over truths of ‖Vφ(y) + b‖ in the dual norm, less what no difference of two points of the set can see."""
    reason = structure.missing().get("vertices")
    n = structure.n_vertices
    if reason is not None or n is None or n > _FEW_VERTICES:
        raise IncompatiblePair(
            f"the slope of {cost!r} on {structure!r} has no formula, and it has too many outputs to try all, so "
            "there is no bound; give step=ConstantStep(rate), with a rate of your own"
        )
    vertices = structure.vertices()
    form = affine_form(cost, structure, structure)
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
