"""Smooth minimisation over a convex set that is known through its Euclidean projection."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from .._core.checks import as_float_array, check_count, check_finite_positive
from .._core.errors import OracleError
from .._core.types import Array, ArrayLike
from .frank_wolfe import Objective

__all__ = ["ProjectedResult", "projected_quasi_newton", "spectral_projected_gradient"]

_EPS = float(np.finfo(np.float64).eps)
_DECREASE = 1e-4
# The longest step before projecting, in units of x.
_FAR = 1e3
# The projection of a point this far away, in units of x, is off by as many roundings; it is projected again.
_NEAR = 10.0
_INNER_ITER = 50
_HALVINGS = 50


@dataclass
class ProjectedResult:
    """A minimiser with its measured error.

    ``residual`` is ‖P(x − ∇f(x)) − x‖, zero exactly at minimisers; ``gap`` is what the caller's ``gap(x, grad)`` said
    at the point, NaN without one.
    """

    point: Array
    value: float
    residual: float
    gap: float
    n_iter: int
    n_evaluations: int
    n_projections: int
    converged: bool


class _Problem:
    """The function and the projection, counted and checked, on flat vectors."""

    def __init__(
        self,
        value_and_grad: Objective,
        project: Callable[[Array], ArrayLike],
        shape: tuple[int, ...],
        tol: float,
        gap: Callable[[Array, Array], float] | None = None,
    ) -> None:
        self.value_and_grad, self.projection, self.gap_function = value_and_grad, project, gap
        self.shape, self.tol = shape, tol
        self.n_evaluations = self.n_projections = 0

    def evaluate(self, x: Array) -> tuple[float, Array]:
        self.n_evaluations += 1
        value, grad = self.value_and_grad(x.reshape(self.shape))
        return float(value), np.array(grad, dtype=np.float64).ravel()

    def project(self, x: Array) -> Array:
        self.n_projections += 1
        point = np.array(self.projection(x.reshape(self.shape)), dtype=np.float64)
        if point.shape != self.shape:
            raise OracleError(f"project returned an array of shape {point.shape}, expected {self.shape}")
        if not np.isfinite(point).all():
            raise OracleError("project returned a point that is not finite")
        return point.ravel()

    def along(self, x: Array, grad: Array, length: float) -> Array:
        """P(x − length grad) − x."""
        point = self.project(x - length * grad)
        if length * np.abs(grad).max() > _NEAR * max(1.0, np.abs(x).max()):
            point = self.project(point)
        return point - x

    def residual(self, x: Array, grad: Array) -> float:
        return float(np.linalg.norm(self.along(x, grad, 1.0)))

    def gap(self, x: Array, grad: Array) -> float:
        if self.gap_function is None:
            return float("nan")
        return float(self.gap_function(x.reshape(self.shape), grad.reshape(self.shape)))

    def solved(self, x: Array, grad: Array, error: float) -> bool:
        """Whether the gap, or else the residual (or a bound on it), is small enough."""
        if self.gap_function is not None:
            return self.gap(x, grad) <= self.tol
        return error <= self.tol + 4 * _EPS * float(np.linalg.norm(x) + np.linalg.norm(grad))

    def result(self, x: Array, value: float, grad: Array, n_iter: int) -> ProjectedResult:
        residual = self.residual(x, grad)
        return ProjectedResult(
            x.reshape(self.shape), value, residual, self.gap(x, grad), n_iter, self.n_evaluations, self.n_projections,
            self.solved(x, grad, residual),
        )  # fmt: skip


def spectral_projected_gradient(
    value_and_grad: Objective,
    project: Callable[[Array], ArrayLike],
    start: ArrayLike,
    *,
    tol: float = 1e-6,
    max_iter: int = 1000,
    memory: int = 10,
    gap: Callable[[Array, Array], float] | None = None,
) -> ProjectedResult:
    """Minimise a smooth function over the set that ``project(x)`` projects on, by spectral projected gradients.

    Stops when ‖P(x − ∇f(x)) − x‖ is at most ``tol``, or, where ``gap(x, grad)`` is given, when that is. ``start`` is
    projected first. Steps have the Barzilai-Borwein length; a step must improve on the worst of the last ``memory``
    values. One projection and O(D) a step (Birgin, Martínez and Raydan 2000).
    """
    max_iter, memory = check_count(max_iter, "max_iter"), check_count(memory, "memory")
    x = as_float_array(start, "start").astype(np.float64)
    problem = _Problem(value_and_grad, project, x.shape, check_finite_positive(tol, "tol", zero=True), gap)
    return problem.result(*_spectral(problem, problem.project(x), max_iter, memory))


def _spectral(
    problem: _Problem, x: Array, max_iter: int, memory: int, length: float = 0.0
) -> tuple[Array, float, Array, int]:
    value, grad = problem.evaluate(x)
    best = x, value, grad
    recent = deque([value], maxlen=memory)
    if length == 0:
        first = problem.along(x, grad, 1.0)
        if problem.solved(x, grad, float(np.linalg.norm(first))):
            return x, value, grad, 0
        length = min(1.0 / float(np.abs(first).max()), _longest(x, grad))
    n_iter = 0
    while n_iter < max_iter:
        direction = problem.along(x, grad, length)
        square = float(direction @ direction)
        # ‖P(x − a grad) − x‖ grows with a, divided by a it falls: this bounds the residual without a projection.
        if problem.solved(x, grad, np.sqrt(square) * max(1.0, 1.0 / length)):
            break
        # What the slope is at most, by the projection's optimality; below rounding it is all that is known of it.
        slope = min(float(grad @ direction), -square / length)
        found = _backtrack(problem, x, value, grad, direction, slope, max(recent))
        if found is None:
            found = _residual_step(problem, x, value, grad, length)
        if found is None:
            break
        n_iter += 1
        s, value, new_grad = found
        curvature = float(s @ (new_grad - grad))
        x, grad = x + s, new_grad
        length = _longest(x, grad)
        if curvature > 0:
            length = min(float(s @ s) / curvature, length)
        recent.append(value)
        if value <= best[1]:
            best = x, value, grad
    # Values need not fall at every step; the best point is kept, unless the last one is as good up to rounding.
    return *((x, value, grad) if _as_good(value, best[1]) else best), n_iter


def _longest(x: Array, grad: Array) -> float:
    return _FAR * max(1.0, float(np.abs(x).max())) / max(float(np.abs(grad).max()), 1e-300)


_Step: TypeAlias = tuple[Array, float, Array]
"""A step with the value and the gradient where it leads."""


def _backtrack(
    problem: _Problem, x: Array, value: float, grad: Array, direction: Array, slope: float, reference: float
) -> _Step | None:
    """The first of a few shrinking steps that decreases enough below ``reference``.

    Where values differ by no more than rounding, slopes decide (the approximate Wolfe test of Hager and Zhang 2005).
    The change of the slope is taken from the change of the gradient: the gradient's part normal to the set, times the
    rounding by which x misses the set, would drown the slope itself.
    """
    length = 1.0
    for _ in range(_HALVINGS if slope < 0 else 0):
        step = length * direction
        new_value, new_grad = problem.evaluate(x + step)
        if new_value <= reference + _DECREASE * length * slope:
            return step, new_value, new_grad
        if _as_good(new_value, reference) and (new_grad - grad) @ direction <= -(2 - 2 * _DECREASE) * slope:
            return step, new_value, new_grad
        rise = new_value - value - length * slope
        wanted = -0.5 * length * length * slope / rise if np.isfinite(rise) and rise > 0 else 0.0
        length = min(max(wanted, 0.1 * length), 0.5 * length)
    return None


def _residual_step(problem: _Problem, x: Array, value: float, grad: Array, length: float) -> _Step | None:
    """A projected gradient step that is judged by the residual.

    x does not lie in the set to the last bit. Where that drowns values and slopes, residuals still tell steps apart.
    """
    residual = problem.residual(x, grad)
    for shorter in (1.0, 0.1, 0.01):
        step = problem.along(x, grad, shorter * length)
        new_value, new_grad = problem.evaluate(x + step)
        if _as_good(new_value, value) and problem.residual(x + step, new_grad) < residual:
            return step, new_value, new_grad
    return None


def _as_good(value: float, reference: float) -> bool:
    return value <= reference + 10 * _EPS * abs(reference)


def projected_quasi_newton(
    value_and_grad: Objective,
    project: Callable[[Array], ArrayLike],
    start: ArrayLike,
    *,
    tol: float = 1e-6,
    max_iter: int = 500,
    memory: int = 10,
    gap: Callable[[Array, Array], float] | None = None,
) -> ProjectedResult:
    """Minimise a smooth function over the set that ``project(x)`` projects on, by projected quasi-Newton steps.

    Each step minimises a limited-memory BFGS model of the function over the set, approximately, by spectral projected
    gradients (a product with the model costs O(memory D)), then searches the line to that point. It is for functions
    that cost more than projections: it trades evaluations for projections. Stops when ‖P(x − ∇f(x)) − x‖ is at most
    ``tol``, or, where ``gap(x, grad)`` is given, when that is. (Schmidt, van den Berg, Friedlander and Murphy 2009)
    """
    max_iter, memory = check_count(max_iter, "max_iter"), check_count(memory, "memory")
    x = as_float_array(start, "start").astype(np.float64)
    problem = _Problem(value_and_grad, project, x.shape, check_finite_positive(tol, "tol", zero=True), gap)
    x = problem.project(x)
    value, grad = problem.evaluate(x)
    model = _Model(memory)
    n_iter = 0
    while n_iter < max_iter:
        residual = problem.residual(x, grad)
        if problem.solved(x, grad, residual):
            break
        direction, slope = _newton_direction(problem, model, x, value, grad, residual)
        found = _backtrack(problem, x, value, grad, direction, slope, value)
        if found and _as_good(value, found[1]) and problem.residual(x + found[0], found[2]) >= residual:
            found = None  # no gain that rounding does not explain
        if found is None and model.pairs:
            model.pairs.clear()
            continue
        if found is None:  # too near to rounding for a model
            x, value, grad, more = _spectral(problem, x, max_iter - n_iter, memory, 1.0 / model.scale)
            n_iter += more
            break
        n_iter += 1
        s, value, new_grad = found
        model.add(s, new_grad - grad)
        x, grad = x + s, new_grad
    return problem.result(x, value, grad, n_iter)


def _newton_direction(
    problem: _Problem, model: _Model, x: Array, value: float, grad: Array, residual: float
) -> tuple[Array, float]:
    """From x to a point of the set at which the model is (nearly) least, and the slope in that direction."""
    if model.pairs:
        model.prepare()

        def around(point: Array) -> tuple[float, Array]:
            p = point.ravel() - x
            product = model.product(p)
            return value + float(p @ (grad + 0.5 * product)), grad + product

        inner = _Problem(around, problem.projection, problem.shape, min(0.1, np.sqrt(residual)) * residual)
        point, least, _, _ = _spectral(inner, x, _INNER_ITER, 10)
        problem.n_projections += inner.n_projections
        direction = point - x
        if _as_good(least, value) and direction.any():  # then the slope is at most minus half the curvature
            return direction, min(float(grad @ direction), -0.5 * float(direction @ model.product(direction)))
        length = 1.0 / model.scale
    else:
        length = min(1.0, 1.0 / float(np.abs(grad).sum()))
    direction = problem.along(x, grad, length)
    return direction, min(float(grad @ direction), -float(direction @ direction) / length)


class _Model:
    """The limited-memory BFGS matrix B in compact form, σI − N M⁻¹ Nᵀ (Byrd, Nocedal and Schnabel 1994)."""

    def __init__(self, memory: int) -> None:
        self.pairs: deque[tuple[Array, Array]] = deque(maxlen=memory)
        self.scale = 1.0

    def add(self, s: Array, y: Array) -> None:
        curvature = float(s @ y)
        if curvature > 1e-12 * float(np.linalg.norm(s) * np.linalg.norm(y)):
            size = float(np.linalg.norm(s))  # B does not see it, but the middle matrix's condition does
            self.pairs.append((s / size, y / size))
            self.scale = float(y @ y) / curvature

    def prepare(self) -> None:
        s = np.array([pair[0] for pair in self.pairs])
        y = np.array([pair[1] for pair in self.pairs])
        products = s @ y.T
        lower = np.tril(products, -1)
        middle = np.block([[self.scale * (s @ s.T), lower], [lower.T, -np.diag(np.diag(products))]])
        self.sides = np.concatenate([self.scale * s, y])
        self.middle = np.linalg.pinv(middle)

    def product(self, p: Array) -> Array:
        result: Array = self.scale * p - (self.middle @ (self.sides @ p)) @ self.sides
        return result
