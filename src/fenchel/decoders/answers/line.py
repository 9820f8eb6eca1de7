"""The best real number."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..._core.checks import check_count
from ..._core.errors import IncompatiblePair, InvalidInput
from ..._core.types import Array
from ...costs.base import Cost, as_numbers
from .base import SMALL_TABLE, Answers, Search, block_rows, weighted_costs

__all__ = ["Line"]

_MOST_TRUTHS = 1024
_STEPS = 60
_GOLDEN = (3 - 5**0.5) / 2


@dataclass(frozen=True)
class Line(Answers):
    """One real number between ``low`` and ``high``: the best of a grid, then polished. For any cost of numbers.

    The weighted cost has many minima where the cost is not convex or weights are negative. It is evaluated on ``grid``
    evenly spaced numbers and on the training outputs (at most 1024 of them, evenly through their order), where costs
    that are linear in pieces have their minimum. From the two best valleys on, parabolas and golden sections narrow it
    down to 1e-9 of the bracket. The answer is the global minimum unless a valley is narrower than the grid. Without
    ``low`` and ``high`` the bracket is that of the training outputs.

    ``polish=False`` answers with the best of the grid. O((grid + outputs) · training outputs) an input.

    >>> import numpy as np
    >>> from fenchel.costs import Cauchy
    >>> from fenchel.decoders.answers import Line
    >>> search = Line().search(Cauchy(scale=0.1), np.array([0.0, 0.1, 5.0]))
    >>> search.answers(np.array([[0.4, 0.4, 0.2]])).round(3)  # the outlier hardly counts
    array([0.051])
    """

    low: float | None = None
    high: float | None = None
    grid: int = 256
    polish: bool = True

    def __post_init__(self) -> None:
        check_count(self.grid, "grid", minimum=2)
        if self.low is not None and self.high is not None and not self.low < self.high:
            raise InvalidInput(f"low is {self.low} and high is {self.high}, expected low < high")

    def search(self, cost: Cost, truths: Array) -> Search:
        numbers = as_numbers(truths, "outputs", self)
        if numbers.ndim != 1:
            raise IncompatiblePair(f"Line() answers with one number, but outputs have shape {numbers.shape}")
        low = float(numbers.min()) if self.low is None else float(self.low)
        high = float(numbers.max()) if self.high is None else float(self.high)
        if low > high:
            raise InvalidInput(f"low is {low} and high is {high} with the bounds of the outputs, expected low <= high")
        inside = np.sort(numbers[(numbers >= low) & (numbers <= high)])
        if len(inside) > _MOST_TRUTHS:
            inside = inside[np.linspace(0, len(inside) - 1, _MOST_TRUTHS).round().astype(np.int64)]
        points = np.unique(np.concatenate([np.linspace(low, high, self.grid), inside]))
        return _LineSearch(cost, numbers, points, self.polish)


class _LineSearch(Search):
    def __init__(self, cost: Cost, truths: Array, points: Array, polish: bool) -> None:
        super().__init__(cost, truths)
        self.points = points
        self.polish = polish
        # small tables are made once; larger ones in blocks, each time
        self.table = cost.between(points, truths) if len(points) * len(truths) <= SMALL_TABLE else None

    def answers(self, means: Array) -> Array:
        points, values = self.points, self._on_grid(means)
        if len(points) == 1:
            return np.full(len(means), points[0])
        rows = np.arange(len(means))
        best = values.argmin(axis=1)
        if not self.polish:
            return np.asarray(points[best])
        answer, least = self._polish(means, values, best)
        # the best valley that does not touch the first
        padded = np.pad(values, ((0, 0), (1, 1)), constant_values=np.inf)
        valley = (values <= padded[:, :-2]) & (values <= padded[:, 2:])
        for shift in (-1, 0, 1):
            valley[rows, np.clip(best + shift, 0, len(points) - 1)] = False
        others = np.where(valley, values, np.inf)
        second = others.argmin(axis=1)
        near = np.isfinite(others[rows, second])
        if near.any():
            again, value = self._polish(means[near], values[near], second[near])
            better = value < least[near]
            answer[np.flatnonzero(near)[better]] = again[better]
        return answer

    def _on_grid(self, means: Array) -> Array:
        if self.table is not None:
            return np.asarray(means @ self.table.T)
        values = np.zeros((len(means), len(self.points)))
        step = block_rows(len(self.points))
        for start in range(0, len(self.truths), step):
            part = slice(start, start + step)
            values += means[:, part] @ self.cost.between(self.points, self.truths[part]).T
        return values

    def _polish(self, means: Array, values: Array, best: Array) -> tuple[Array, Array]:
        """Narrow the valley of each row down, by parabolas through three points where these help, else golden sections."""
        rows = np.arange(len(means))
        last = len(self.points) - 1
        left, middle, right = (self.points[np.clip(best + shift, 0, last)].copy() for shift in (-1, 0, 1))
        f_left, f_middle, f_right = (values[rows, np.clip(best + shift, 0, last)].copy() for shift in (-1, 0, 1))
        tol = 1e-9 * max(self.points[-1] - self.points[0], 1e-300)
        for step in range(_STEPS):
            active = np.flatnonzero(right - left > 2 * tol)
            if not len(active):
                break
            a, b, c = left[active], middle[active], right[active]
            fa, fb, fc = f_left[active], f_middle[active], f_right[active]
            with np.errstate(divide="ignore", invalid="ignore"):
                over = (b - a) ** 2 * (fb - fc) - (b - c) ** 2 * (fb - fa)
                under = (b - a) * (fb - fc) - (b - c) * (fb - fa)
                parabola = b - 0.5 * over / under
            golden = np.where(c - b > b - a, b + _GOLDEN * (c - b), b - _GOLDEN * (b - a))
            # every third step, and wherever the parabola leads nowhere, a golden section
            good = np.isfinite(parabola) & (parabola > a) & (parabola < c) & (step % 3 != 2)
            u = np.where(good, parabola, golden)
            u = np.where(np.abs(u - b) < tol, np.where(c - b > b - a, b + tol, b - tol), u)
            f_u = weighted_costs(self.cost, u, self.truths, means[active])
            lower, above = f_u < fb, u > b
            left[active] = np.where(lower, np.where(above, b, a), np.where(above, a, u))
            f_left[active] = np.where(lower, np.where(above, fb, fa), np.where(above, fa, f_u))
            right[active] = np.where(lower, np.where(above, c, b), np.where(above, u, c))
            f_right[active] = np.where(lower, np.where(above, fc, fb), np.where(above, f_u, fc))
            middle[active] = np.where(lower, u, b)
            f_middle[active] = np.where(lower, f_u, fb)
        return middle, f_middle
