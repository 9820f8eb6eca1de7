"""Costs that the user writes: as a function, or by their affine form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from .._core.checks import as_float_array
from .._core.errors import IncompatiblePair, InvalidInput
from .._core.types import Array, ArrayLike
from ..structures.base import Structure
from .base import AffineForm, Cost, class_affine

__all__ = ["AffineCost", "CostFunction"]

# With more vertices than this all pairs are not compared.
_MOST_VERTICES = 2000


@dataclass(frozen=True)
class CostFunction(Cost):
    """A user's own ``function(y_pred, y_true)`` of one answer and one truth, as the user writes them.

    For classes its matrix is its affine form. On other structures small enough to list (2000 vertices) the form is
    found from all pairs, by least squares for V, b and c, and refused if there is none. ``vectorized=True`` if
    the function takes arrays of examples and gives an array of costs.

    >>> from fenchel.costs import CostFunction
    >>> from fenchel.structures import Simplex
    >>> late = CostFunction(lambda answer, truth: max(answer - truth, 0) + 5.0 * max(truth - answer, 0))
    >>> late.matrix(Simplex(3))
    array([[ 0.,  5., 10.],
           [ 1.,  0.,  5.],
           [ 2.,  1.,  0.]])
    """

    function: Callable[..., Any]
    vectorized: bool = False

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise InvalidInput(f"function is {self.function!r}, expected a function of an answer and a truth")

    def __repr__(self) -> str:
        return f"CostFunction({getattr(self.function, '__qualname__', type(self.function).__name__)})"

    def __call__(self, y_pred: ArrayLike, y_true: ArrayLike) -> Array:
        answers, truths = self._outputs(y_pred, y_true)
        if answers.ndim == 0:
            return self._one_call(answers[None], truths[None])[0]
        return self._one_call(answers, truths)

    def _one_call(self, answers: Array, truths: Array) -> Array:
        if self.vectorized:
            costs = np.asarray(self.function(answers, truths), dtype=np.float64)
        else:
            given = [self.function(a, t) for a, t in zip(answers, truths, strict=True)]
            try:
                costs = np.array(given, dtype=np.float64)
            except (TypeError, ValueError):
                i = next((i for i, cost in enumerate(given) if not isinstance(cost, Real)), 0)
                raise InvalidInput(
                    f"the cost {self.function!r} gave {given[i]!r} for the answer {answers[i]} and the truth {truths[i]}; "
                    "expected a number"
                ) from None
        if costs.shape != (len(answers),):
            raise InvalidInput(
                f"the cost {self.function!r} gave an array of shape {costs.shape} for {len(answers)} examples"
            )
        if not np.isfinite(costs).all() or costs.min(initial=0) < 0:
            i = int(np.argmin(np.where(np.isfinite(costs), costs, -np.inf)))
            raise InvalidInput(
                f"the cost {self.function!r} gave {costs[i]} for the answer {answers[i]} and the truth {truths[i]}; "
                "expected a finite number, zero or more"
            )
        return costs

    def affine(self, answers: Structure, truths: Structure | None = None) -> AffineForm:
        truths = answers if truths is None else truths
        for side in (answers, truths):
            if side.missing().get("vertices") or (side.n_vertices or np.inf) > _MOST_VERTICES:
                raise self._refuse(
                    answers, truths, f"a function is tried on all pairs, and {side!r} has too many outputs to list"
                )
        table = self._between(answers, truths)
        if answers.class_coding is not None and truths.class_coding is not None:
            return class_affine(self, table, answers, truths)
        return _fitted_form(self, table, answers, truths)

    def _between(self, answers: Structure, truths: Structure) -> Array:
        ours, theirs = answers.decode(answers.vertices()), truths.decode(truths.vertices())
        if ours.shape[1:] != theirs.shape[1:]:
            raise self._refuse(answers, truths, f"outputs have the shapes {ours.shape[1:]} and {theirs.shape[1:]}")
        n, m = len(ours), len(theirs)
        return self._one_call(np.repeat(ours, m, axis=0), np.tile(theirs, (n,) + (1,) * (theirs.ndim - 1))).reshape(
            n, m
        )


def _fitted_form(cost: Cost, table: Array, answers: Structure, truths: Structure) -> AffineForm:
    """V, b and c with table[ŷ, y] = ⟨φ(ŷ), Vφ(y) + b⟩ + c(y), if there are any.

    With a column of ones beside the vertices this is table = A W Bᵀ, whose least-squares solution is A⁺ table (B⁺)ᵀ.
    """
    left = np.column_stack([answers.vertices().reshape(answers.n_vertices or 0, -1), np.ones(answers.n_vertices or 0)])
    right = np.column_stack([truths.vertices().reshape(truths.n_vertices or 0, -1), np.ones(truths.n_vertices or 0)])
    w = np.linalg.pinv(left) @ table @ np.linalg.pinv(right).T
    off = np.abs(left @ w @ right.T - table)
    if off.max(initial=0) > 1e-8 * max(1.0, float(table.max(initial=0))):
        raise IncompatiblePair(
            f"{cost!r} has no affine form from {truths!r} to {answers!r}: the nearest is off by {off.max():.2g}; "
            "decode for a cost that is linear in the parts of answer and truth"
        )
    V, b, c, c0 = w[:-1, :-1], w[:-1, -1], w[-1, :-1], w[-1, -1]
    shape = answers.shape
    return AffineForm(
        answers,
        truths,
        lambda mu: (mu.reshape(len(mu), -1) @ V.T + b).reshape(len(mu), *shape),
        lambda mu: mu.reshape(len(mu), -1) @ c + c0,
    )


class AffineCost(Cost):
    """A user's own affine form, L(ŷ, y) = ⟨φ(ŷ), Vφ(y) + b⟩ + ⟨c, φ(y)⟩ + c₀, for one structure of answers and truths.

    ``V`` has shape (answers.dim, truths.dim); ``b`` and ``c`` are vectors (zero if left out), ``c0`` a number.

    >>> from fenchel.costs import AffineCost
    >>> from fenchel.structures import Cube
    >>> import numpy as np
    >>> weighted = AffineCost(Cube(2), V=np.diag([-3.0, -12.0]), b=[1.0, 2.0], c=[2.0, 10.0])
    >>> weighted([[1, 0], [0, 0]], [[0, 1], [0, 0]])  # a false label costs 1 or 2, a missed one 2 or 10
    array([11.,  0.])
    """

    def __init__(
        self,
        answers: Structure,
        V: ArrayLike,
        b: ArrayLike | None = None,
        c: ArrayLike | None = None,
        *,
        c0: float = 0.0,
        truths: Structure | None = None,
    ) -> None:
        if not isinstance(answers, Structure) or not (truths is None or isinstance(truths, Structure)):
            raise InvalidInput(f"answers is {answers!r}, expected a structure such as Cube(3)")
        self.answers = answers
        self.truths = answers if truths is None else truths
        self.V = self._array(V, "V", (answers.dim, self.truths.dim))
        self.b = self._array(np.zeros(answers.dim) if b is None else b, "b", (answers.dim,))
        self.c = self._array(np.zeros(self.truths.dim) if c is None else c, "c", (self.truths.dim,))
        self.c0 = float(c0)

    @staticmethod
    def _array(value: ArrayLike, name: str, shape: tuple[int, ...]) -> Array:
        array = np.array(as_float_array(value, name), dtype=np.float64)
        if array.size == int(np.prod(shape)) and array.ndim != len(shape):
            array = array.reshape(shape)
        if array.shape != shape:
            raise InvalidInput(f"{name} has shape {array.shape}, expected {shape}")
        if not np.isfinite(array).all():
            raise InvalidInput(f"{name} must be finite")
        array.setflags(write=False)
        return array

    def saved_arguments(self) -> dict[str, Any]:
        """Constructor arguments for a saved model."""
        return {"answers": self.answers, "V": self.V, "b": self.b, "c": self.c, "c0": self.c0, "truths": self.truths}

    def __repr__(self) -> str:
        return f"AffineCost({self.answers!r}, <V of shape {self.V.shape}>)"

    def _key(self) -> tuple[Any, ...]:
        return (self.answers, self.truths, self.V.tobytes(), self.b.tobytes(), self.c.tobytes(), self.c0)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AffineCost) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __call__(self, y_pred: ArrayLike, y_true: ArrayLike) -> Array:
        return self.affine(self.answers, self.truths).value(self.answers.encode(y_pred), self.truths.encode(y_true))

    def affine(self, answers: Structure, truths: Structure | None = None) -> AffineForm:
        truths = answers if truths is None else truths
        if answers.shape != self.answers.shape or truths.shape != self.truths.shape:
            raise self._refuse(answers, truths, f"it was given for {self.truths!r} and {self.answers!r}")
        return AffineForm(
            answers,
            truths,
            lambda mu: (mu.reshape(len(mu), -1) @ self.V.T + self.b).reshape(len(mu), *answers.shape),
            lambda mu: mu.reshape(len(mu), -1) @ self.c + self.c0,
        )
