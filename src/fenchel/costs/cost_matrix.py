"""A cost for every pair of answer and truth."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.checks import as_float_array
from .._core.errors import IncompatiblePair, InvalidInput
from .._core.types import Array, ArrayLike
from ..structures.base import Structure
from ..structures.simplex import Simplex
from .base import AffineForm, Cost, class_affine, differ_in_size, per_example

__all__ = ["CostMatrices", "CostMatrix"]


class CostMatrix(Cost):
    """L(ŷ, y) = matrix[ŷ, y], always answer by truth; several parts add up. There may be more or fewer answers than truths.

    >>> from fenchel.costs import CostMatrix
    >>> missed_alarm = CostMatrix([[0, 10], [1, 0]])  # answering 0 where the truth is 1 costs 10
    >>> missed_alarm([0, 1, 1], [1, 0, 1])
    array([10.,  1.,  0.])
    """

    def __init__(self, matrix: ArrayLike) -> None:
        array = np.array(as_float_array(matrix, "matrix"), dtype=np.float64)
        if array.ndim != 2 or array.size == 0:
            raise InvalidInput(f"matrix has shape {array.shape}, expected (answers, truths)")
        _check_costs(array, "matrix", "answer {}, truth {}")
        array.setflags(write=False)
        self._matrix = array

    def saved_arguments(self) -> dict[str, Any]:
        """Constructor arguments for a saved model."""
        return {"matrix": self._matrix}

    def __repr__(self) -> str:
        return f"CostMatrix(<{self._matrix.shape[0]} answers x {self._matrix.shape[1]} truths>)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CostMatrix) and np.array_equal(self._matrix, other._matrix)

    def __hash__(self) -> int:
        return hash((self._matrix.shape, self._matrix.tobytes()))

    def __call__(self, y_pred: ArrayLike, y_true: ArrayLike) -> Array:
        if differ_in_size(y_pred, y_true):
            return self._sum_of_parts(y_pred, y_true)
        answers, truths = self._outputs(y_pred, y_true)
        for name, codes, count in (
            ("y_pred", answers, self._matrix.shape[0]),
            ("y_true", truths, self._matrix.shape[1]),
        ):
            if codes.dtype.kind not in "iu" or (codes.size and (codes.min() < 0 or codes.max() >= count)):
                raise InvalidInput(
                    f"{name} must hold whole numbers from 0 to {count - 1}, the rows and columns of {self!r}"
                )
        return per_example(self._matrix[answers, truths])

    def label_matrix(self, k: int) -> Array:
        if self._matrix.shape != (k, k):
            raise IncompatiblePair(f"{self!r} is not for {k} labels: it must have a row and a column for each")
        return self._matrix.copy()

    def answers_to(self, truths: Structure) -> Structure:
        return _answers_of(self._matrix.shape[0], truths)

    def matrix(self, structure: Structure) -> Array:
        if structure.part_coding == "labels":
            self.label_matrix(structure.n_labels)  # refuses another number of labels
            return super().matrix(structure)
        if structure.class_coding is None or structure.n_vertices != self._matrix.shape[1]:
            raise self._refuse(structure, structure, f"it has {self._matrix.shape[1]} truths")
        return self._matrix.copy()

    def affine(self, answers: Structure, truths: Structure | None = None) -> AffineForm:
        truths = answers if truths is None else truths
        if answers.part_coding == "labels":
            return self._position_affine(answers, truths)
        if answers.class_coding is None or truths.class_coding is None:
            raise self._refuse(answers, truths, "a matrix is for classes or grades; use Simplex(k) or OrderSimplex(k)")
        if (answers.n_vertices, truths.n_vertices) != self._matrix.shape:
            raise self._refuse(
                answers, truths, f"the matrix is for {self._matrix.shape[0]} answers and {self._matrix.shape[1]} truths"
            )
        return class_affine(self, self._matrix, answers, truths)


class CostMatrices(Cost):
    """A cost matrix for each example: L_i(ŷ, y) = matrices[i, ŷ, y], of shape (examples, answers, truths).

    It belongs to a batch of as many examples.

    >>> from fenchel.costs import CostMatrices
    >>> dear = CostMatrices([[[0, 1], [1, 0]], [[0, 50], [1, 0]]])  # the second example is one to get right
    >>> dear([0, 0], [1, 1])
    array([ 1., 50.])
    """

    def __init__(self, matrices: ArrayLike) -> None:
        array = np.array(as_float_array(matrices, "matrices"), dtype=np.float64)
        if array.ndim != 3 or 0 in array.shape[1:]:
            raise InvalidInput(f"matrices have shape {array.shape}, expected (examples, answers, truths)")
        _check_costs(array, "matrices", "sample {}, answer {}, truth {}")
        array.setflags(write=False)
        self.matrices = array

    def saved_arguments(self) -> dict[str, Any]:
        """Constructor arguments for a saved model."""
        return {"matrices": self.matrices}

    def __repr__(self) -> str:
        n, answers, truths = self.matrices.shape
        return f"CostMatrices(<{n} examples, {answers} answers x {truths} truths>)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CostMatrices) and np.array_equal(self.matrices, other.matrices)

    def __hash__(self) -> int:
        return hash((self.matrices.shape, self.matrices.tobytes()))

    def __call__(self, y_pred: ArrayLike, y_true: ArrayLike) -> Array:
        answers, truths = self._outputs(y_pred, y_true)
        self.check_batch(len(answers))
        return np.array([float(self.take(i)(a, t)) for i, (a, t) in enumerate(zip(answers, truths, strict=True))])

    def answers_to(self, truths: Structure) -> Structure:
        return _answers_of(self.matrices.shape[1], truths)

    def take(self, idx: Any) -> Cost:
        """The matrix of one example, or the matrices of some."""
        if isinstance(idx, int | np.integer):
            return CostMatrix(self.matrices[idx])
        return CostMatrices(self.matrices[idx])

    def matrix(self, structure: Structure) -> Array:
        raise InvalidInput(f"{self!r} has a matrix for each example; ask take(i).matrix(structure)")

    def affine(self, answers: Structure, truths: Structure | None = None) -> AffineForm:
        truths = answers if truths is None else truths
        if answers.class_coding is None or truths.class_coding is None:
            raise self._refuse(answers, truths, "matrices are for classes or grades; use Simplex(k) or OrderSimplex(k)")
        if (answers.n_vertices, truths.n_vertices) != self.matrices.shape[1:]:
            raise self._refuse(answers, truths, "they are for other numbers of answers and truths")

        def expected(mu: Array) -> tuple[Array, Array]:
            self.check_batch(len(mu))
            return answers.class_scores(np.einsum("nat,nt->na", self.matrices, truths.class_distribution(mu)))

        def adjoint(p: Array) -> tuple[Array, Array]:
            self.check_batch(len(p))
            return truths.class_scores(np.einsum("nat,na->nt", self.matrices, answers.class_distribution(p)))

        return AffineForm(answers, truths, lambda mu: expected(mu)[0], lambda mu: expected(mu)[1], adjoint)

    def check_batch(self, n: int) -> None:
        """Refuse a batch of another number of examples than there are matrices."""
        if len(self.matrices) != n:
            raise InvalidInput(f"{self!r} is for {len(self.matrices)} examples, but the batch has {n}")


def _answers_of(n: int, truths: Structure) -> Structure:
    """As many answers as the matrix has rows: those of the truths where that is their number, or labellings; else classes."""
    return truths if truths.n_vertices == n or truths.part_coding == "labels" else Simplex(n)


def _check_costs(array: Array, name: str, place: str) -> None:
    bad = ~(np.isfinite(array) & (array >= 0))
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        raise InvalidInput(
            f"{name} must hold finite costs, zero or more; got {array[where]:g} at {place.format(*where)}"
        )
