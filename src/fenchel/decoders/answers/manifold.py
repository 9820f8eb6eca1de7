"""The best point of a curved surface, by Riemannian steps."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from ..._core.checks import check_count, check_finite_positive
from ..._core.errors import InvalidInput, warn_user
from ..._core.types import Array
from ...costs.base import Cost, as_numbers
from .base import Answers, Search, block_rows, weighted_costs
from .candidates import distinct

__all__ = ["Manifold", "Rotations", "Sphere"]

_MOST_CANDIDATES = 2048


@dataclass(frozen=True)
class Manifold(Answers):
    """Points of a smooth surface in a space of arrays; a subclass gives :meth:`nearest` and :meth:`tangent`.

    From the ``starts`` best training outputs on, Riemannian gradient descent: a step along the tangent part of the
    gradient, then back to the nearest point of the surface, the step doubled after each success and halved until the
    cost falls enough. Gradients are central differences along the surface, so that any cost will do that is smooth in
    its answer. The best point found costs no more than any training output tried; a weighted cost with weights of both
    signs may have other minima.
    """

    starts: int = 3
    tol: float = 1e-6
    max_iter: int = 200

    def __post_init__(self) -> None:
        check_count(self.starts, "starts")
        check_finite_positive(self.tol, "tol")
        check_count(self.max_iter, "max_iter")

    @abstractmethod
    def nearest(self, points: Array) -> Array:
        """The point of the surface that is nearest to each point of the space around it."""

    @abstractmethod
    def tangent(self, points: Array, directions: Array) -> Array:
        """The parts of directions that are tangent to the surface at its points."""

    def check(self, points: Array) -> None:
        """Refuse what does not lie on the surface."""
        off = np.abs(self.nearest(points) - points).reshape(len(points), -1).max(axis=1, initial=0)
        if off.max(initial=0) > 1e-6:
            i = int(off.argmax())
            raise InvalidInput(f"the output of sample {i} is {off[i]:.2g} away from the surface of {self!r}")

    def search(self, cost: Cost, truths: Array) -> Search:
        points = as_numbers(truths, "outputs", self)
        if points.ndim < 2:
            raise InvalidInput(
                f"outputs have shape {points.shape}, but {self!r} needs an array for each; angles go with Line()"
            )
        self.check(points)
        return _RiemannianSearch(cost, points, self)


@dataclass(frozen=True)
class Sphere(Manifold):
    """Unit vectors: the circle (2 numbers), the sphere (3), and those of more dimensions.

    >>> import numpy as np
    >>> from fenchel.costs import SquaredError
    >>> from fenchel.decoders.answers import Sphere
    >>> search = Sphere().search(SquaredError(), np.eye(3))
    >>> search.answers(np.array([[2.0, 1.0, -2.0]])).round(4)  # the mean, back on the sphere
    array([[ 0.6667,  0.3333, -0.6667]])
    """

    def nearest(self, points: Array) -> Array:
        lengths = np.linalg.norm(points, axis=-1, keepdims=True)
        return np.asarray(points / np.where(lengths > 0, lengths, 1))

    def tangent(self, points: Array, directions: Array) -> Array:
        return np.asarray(directions - (points * directions).sum(axis=-1, keepdims=True) * points)


@dataclass(frozen=True)
class Rotations(Manifold):
    """Rotations, as orthogonal matrices of determinant one.

    >>> import numpy as np
    >>> from fenchel.costs import SquaredError
    >>> from fenchel.decoders.answers import Rotations
    >>> turn = lambda a: np.array([[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]])
    >>> search = Rotations().search(SquaredError(), np.array([turn(0.0), turn(1.0)]))
    >>> bool(np.allclose(search.answers(np.array([[0.5, 0.5]]))[0], turn(0.5), atol=1e-5))
    True
    """

    def nearest(self, points: Array) -> Array:
        left, _, right = np.linalg.svd(points)
        sign = np.linalg.det(left @ right)
        left[..., :, -1] *= np.where(sign < 0, -1.0, 1.0)[..., None]
        return np.asarray(left @ right)

    def tangent(self, points: Array, directions: Array) -> Array:
        inner = np.swapaxes(points, -1, -2) @ directions
        return np.asarray(points @ (inner - np.swapaxes(inner, -1, -2)) / 2)


class _RiemannianSearch(Search):
    def __init__(self, cost: Cost, truths: Array, manifold: Manifold) -> None:
        super().__init__(cost, truths)
        self.manifold = manifold
        candidates = distinct(truths)
        if len(candidates) > _MOST_CANDIDATES:
            candidates = candidates[np.linspace(0, len(candidates) - 1, _MOST_CANDIDATES).astype(np.int64)]
        self.candidates = candidates

    def answers(self, means: Array) -> Array:
        scores = np.zeros((len(means), len(self.candidates)))
        step = block_rows(len(self.candidates))
        for start in range(0, len(self.truths), step):
            part = slice(start, start + step)
            scores += means[:, part] @ self.cost.between(self.candidates, self.truths[part]).T
        starts = np.argsort(scores, axis=1, kind="stable")[:, : self.manifold.starts]
        rows = np.arange(len(means))
        best, least = self.candidates[starts[:, 0]], scores[rows, starts[:, 0]]
        off = 0.0
        for column in starts.T:
            points, values, residual = self._descend(means, self.candidates[column])
            off = max(off, residual)
            better = values < least
            best = np.where(better.reshape(-1, *(1,) * (best.ndim - 1)), points, best)
            least = np.where(better, values, least)
        if off > 10 * self.manifold.tol:
            warn_user(f"{self.manifold!r} stopped with a gradient of {off:.2g} (relative); more max_iter may help")
        return best

    def _descend(self, weights: Array, points: Array) -> tuple[Array, Array, float]:
        manifold, points = self.manifold, points.copy()
        values = weighted_costs(self.cost, points, self.truths, weights)
        scale = np.abs(weights).sum(axis=1) + 1e-300
        rates = 0.1 / scale
        residual = np.full(len(points), np.inf)
        active = np.arange(len(points))
        for _ in range(manifold.max_iter):
            here, w = points[active], weights[active]
            slope = self._gradient(w, here)
            size = (slope**2).reshape(len(here), -1).sum(axis=1)
            residual[active] = np.sqrt(size) / scale[active]
            going = residual[active] > manifold.tol
            active, here, w, slope, size = active[going], here[going], w[going], slope[going], size[going]
            if not len(active):
                break
            waiting = np.arange(len(active))
            for _ in range(40):
                rate = rates[active[waiting]]
                steps = rate.reshape(-1, *(1,) * (here.ndim - 1)) * slope[waiting]
                moved = manifold.nearest(here[waiting] - steps)
                value = weighted_costs(self.cost, moved, self.truths, w[waiting])
                enough = value <= values[active[waiting]] - 0.25 * rate * size[waiting]
                done = active[waiting[enough]]
                points[done], values[done] = moved[enough], value[enough]
                rates[done] *= 2
                waiting = waiting[~enough]
                if not len(waiting):
                    break
                rates[active[waiting]] /= 2
            stuck = active[
                waiting
            ]  # the differences have drowned in rounding: this is the minimum as far as it can be seen
            residual[stuck] = np.minimum(residual[stuck], manifold.tol)
            active = np.setdiff1d(active, stuck)
            if not len(active):
                break
        return points, values, float(residual.max(initial=0))

    def _gradient(self, weights: Array, points: Array) -> Array:
        """The Riemannian gradient, by central differences in the space around the surface."""
        shape = points.shape[1:]
        d = int(np.prod(shape))
        h = 1e-5
        gradient = np.zeros((len(points), d))
        for j in range(d):
            step = np.zeros(d)
            step[j] = h
            up, down = (self.manifold.nearest(points + sign * step.reshape(shape)) for sign in (1, -1))
            rise = weighted_costs(self.cost, up, self.truths, weights)
            rise -= weighted_costs(self.cost, down, self.truths, weights)
            gradient[:, j] = rise / (2 * h)
        # moving along step j and back to the surface moves by its tangent part, so these are already tangent derivatives
        return self.manifold.tangent(points, gradient.reshape(-1, *shape))
