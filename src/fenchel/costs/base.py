"""The contract of an evaluation cost, and its affine form."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from .._core.errors import IncompatiblePair, InvalidInput
from .._core.ragged import Ragged, inner, item_sums
from .._core.types import Array, ArrayLike
from ..structures.base import Structure
from ..structures.ragged import Family

__all__ = [
    "AffineForm",
    "Cost",
    "affine_form",
    "as_numbers",
    "as_outputs",
    "check_class_counts",
    "class_affine",
    "cost_table",
    "differ_in_size",
    "number_rows",
    "per_example",
]

_PAIRS_AT_ONCE = 2**18


class AffineForm:
    """L(ŷ, y) = ⟨φ(ŷ), Vφ(y) + b⟩ + c(y), as operators over rows.

    ``apply(mu)`` is Vμ + b, an array of the answers' shape: the answer of least expected cost at μ is one argmax at
    its negative. ``constant(mu)`` is c at μ (affine in μ, so that it also averages). ``adjoint(p)`` turns it round: the
    scores and the offset with which a mean answer p costs ⟨scores, φ(y)⟩ + offset, so that the truth which costs it most
    is one argmax at the scores.

    A cost gives ``apply`` and ``constant`` and may give ``adjoint``; without, it is found by applying the form to unit
    vectors, O(size of a truth · size of an answer).
    """

    def __init__(
        self,
        answers: Structure,
        truths: Structure,
        apply: Callable[[Array], Array],
        constant: Callable[[Array], Array],
        adjoint: Callable[[Array], tuple[Array, Array]] | None = None,
    ) -> None:
        self.answers = answers
        self.truths = truths
        self._apply = apply
        self._constant = constant
        self._adjoint = adjoint or self._probed

    def apply(self, mu: ArrayLike) -> Array:
        """Vμ + b for points of the truths' hull."""
        rows, batch = self.truths._rows(mu, "points mu", points=True)
        return self.answers.restore(self._apply(rows), batch)

    def constant(self, mu: ArrayLike) -> Array:
        """c(y) at truths, or its mean at points of the hull."""
        rows, batch = self.truths._rows(mu, "points mu", points=True)
        return self._constant(rows).reshape(batch)[()]

    def adjoint(self, answer: ArrayLike) -> tuple[Array, Array]:
        """Scores and offset with cost(p, y) = ⟨scores, φ(y)⟩ + offset, for vertices or points p of the answers' hull."""
        rows, batch = self.answers._rows(answer, "answers", points=True)
        scores, offset = self._adjoint(rows)
        return self.truths.restore(scores, batch), offset.reshape(batch)[()]

    def _probed(self, rows: Array) -> tuple[Array, Array]:
        table, slope, base, constant = self._probe
        flat = rows.reshape(len(rows), self.answers.dim)
        scores = flat @ table.T + slope
        return scores.reshape(len(rows), *self.truths.shape), flat @ base + constant

    @cached_property
    def _probe(self) -> tuple[Array, Array, Array, float]:
        """V transposed, the slope of c, b and c(0), from what the form answers to zero and to unit vectors."""
        d = self.truths.dim
        units = np.concatenate([np.zeros((1, d)), np.eye(d)]).reshape(d + 1, *self.truths.shape)
        images = np.asarray(self._apply(units), dtype=np.float64).reshape(d + 1, self.answers.dim)
        constants = np.asarray(self._constant(units), dtype=np.float64)
        return images[1:] - images[0], constants[1:] - constants[0], images[0], float(constants[0])

    def value(self, answer: ArrayLike, mu: ArrayLike) -> Array:
        """The (expected) cost of each answer vertex, or mean answer, against each truth vertex or point."""
        a, batch = self.answers._rows(answer, "answers", points=True)
        rows, _ = self.truths._rows(mu, "points mu", points=True)
        return (inner(self._apply(rows), a) + self._constant(rows)).reshape(batch)[()]


class Cost(ABC):
    """What a mistake costs: a number per example, zero or more, from an answer and a truth as the user writes them.

    A cost carries no size of its own; ``matrix`` and ``affine`` take the structures.
    """

    @abstractmethod
    def __call__(self, y_pred: ArrayLike, y_true: ArrayLike) -> Array:
        """The cost of each example; the first axis counts the examples."""

    def matrix(self, structure: Structure) -> Array:
        """C[answer, truth] over all outputs of a finite structure, in the order of its vertices.

        >>> from fenchel.costs import Absolute
        >>> from fenchel.structures import Simplex
        >>> Absolute().matrix(Simplex(3))
        array([[0., 1., 2.],
               [1., 0., 1.],
               [2., 1., 0.]])
        """
        outputs = structure.decode(structure.vertices())
        n = len(outputs)
        first = np.repeat(np.arange(n), n)
        second = np.tile(np.arange(n), n)
        return np.asarray(self(outputs[first], outputs[second]), dtype=float).reshape(n, n)

    def between(self, answers: Any, truths: Any) -> Array:
        """The cost of each of these answers against each of these truths, as a matrix [answer, truth].

        >>> from fenchel.costs import Absolute
        >>> Absolute().between([0.0, 2.0], [1.0, 2.5, 4.0])
        array([[1. , 2.5, 4. ],
               [1. , 0.5, 2. ]])
        """
        ours, theirs = as_outputs(answers), as_outputs(truths)
        n = len(theirs)
        costs = np.empty((len(ours), n))
        at_once = max(1, _PAIRS_AT_ONCE // max(n, 1))
        for start in range(0, len(ours), at_once):
            some = ours[start : start + at_once]
            tiled = np.tile(theirs, (len(some),) + (1,) * (theirs.ndim - 1))
            amounts = np.asarray(self(np.repeat(some, n, axis=0), tiled), dtype=np.float64)
            costs[start : start + len(some)] = amounts.reshape(len(some), n)
        return costs

    def factors(self, truths: Any) -> tuple[Array, Callable[[Any], Array]] | None:
        """Rows R(y) for these truths and a function L of answers with cost(ŷ, y) = ⟨L(ŷ), R(y)⟩, if few numbers are enough.

        These are the loss trick's embeddings. Where a cost gives them, sums over truths are taken once and not for each answer.
        """
        return None

    def affine(self, answers: Structure, truths: Structure | None = None) -> AffineForm:
        """The affine form between answers and truths of these structures; a pair without one raises."""
        truths = answers if truths is None else truths
        raise self._refuse(
            answers,
            truths,
            "it compares outputs, not points of a set; LossTrickPredictor predicts for any cost, without a structure",
        )

    def answers_to(self, truths: Structure) -> Structure:
        """The structure of the answers to truths of this structure: the same, unless the cost allows other answers."""
        return truths

    def take(self, idx: Any) -> Cost:
        """The cost of some items of a batch; only one that differs from item to item overrides this."""
        return self

    def label_matrix(self, k: int) -> Array:
        """C[answer, truth] between the k labels of one position, for costs that add up over positions."""
        raise IncompatiblePair(f"{self!r} does not add up over positions; use Hamming(), Absolute() or CostMatrix(...)")

    def position_weights(self, structure: Structure, rows: Any) -> Array | None:
        """How much each position of rows counts, for costs that add up over positions; None where all count one."""
        return None

    def _position_affine(self, answers: Structure, truths: Structure) -> AffineForm:
        """The affine form where outputs are labels of positions: each position's expected costs, for its node scores."""
        if answers != truths:
            raise self._refuse(answers, truths, "labels of positions are compared within one structure")
        matrix = self.label_matrix(answers.n_labels)

        def scores(points: Array, costs: Array) -> Array:
            values = truths.position_marginals(points) @ costs
            weights = self.position_weights(truths, points)
            if weights is not None:
                values *= weights[:, None]
            nodes: Array = answers.position_scores(values, points)
            return nodes

        return AffineForm(
            answers,
            truths,
            lambda mu: scores(mu, matrix.T),
            lambda mu: np.zeros(len(mu)),
            lambda p: (scores(p, matrix), np.zeros(len(p))),
        )

    def _sum_of_parts(self, y_pred: Any, y_true: Any, weigh: Callable[[Ragged], Array] | None = None) -> Array:
        """This cost of every single label, added up over the positions of each output; outputs may differ in length.

        ``weigh`` says how much each position counts, from where outputs begin.
        """
        answers, truths = list(y_pred), list(y_true)
        if len(answers) != len(truths):
            raise InvalidInput(f"y_pred holds {len(answers)} outputs but y_true holds {len(truths)}")
        parts: list[list[Array]] = [[], []]
        for i, pair in enumerate(zip(answers, truths, strict=True)):
            a, t = (np.asarray(output) for output in pair)
            if a.shape != t.shape:
                raise InvalidInput(f"sample {i} has an answer of shape {a.shape} and a truth of shape {t.shape}")
            parts[0].append(a.ravel())
            parts[1].append(t.ravel())
        sizes = np.array([len(part) for part in parts[0]], dtype=np.int64)
        places = Ragged.empty(sizes)
        if not sizes.any():
            return np.zeros(len(sizes))
        # an empty output is an array of floats, which would make whole numbers floats too
        flat = [np.concatenate([part for part in side if part.size]) for side in parts]
        amounts = np.asarray(self(flat[0], flat[1]), dtype=np.float64)
        if weigh is not None:
            amounts = amounts * weigh(places)
        return item_sums(places.like(amounts))

    def _refuse(self, answers: Structure, truths: Structure, reason: str) -> IncompatiblePair:
        return IncompatiblePair(f"{self!r} has no affine form from {truths!r} to {answers!r}: {reason}")

    def _outputs(self, y_pred: ArrayLike, y_true: ArrayLike) -> tuple[Array, Array]:
        try:
            answers, truths = np.asarray(y_pred), np.asarray(y_true)
        except ValueError as error:
            raise InvalidInput(f"outputs cannot be read as arrays: {error}") from None
        if answers.shape != truths.shape:
            raise InvalidInput(f"y_pred has shape {answers.shape} but y_true has shape {truths.shape}")
        return answers, truths


def as_outputs(outputs: Any) -> Array:
    """Outputs of any kind as an array whose first axis counts them: numbers as numbers, all else as objects.

    >>> as_outputs(["ab", "c"])
    array(['ab', 'c'], dtype=object)
    >>> as_outputs([[0.5, 0.5], [1, 0]]).shape
    (2, 2)
    """
    array: Array
    if isinstance(outputs, str) or not (hasattr(outputs, "__len__") or hasattr(outputs, "__array__")):
        raise InvalidInput(f"outputs are {outputs!r}, expected a list or an array of outputs")
    if hasattr(outputs, "__array__") or not any(isinstance(output, str) for output in outputs):
        try:
            array = np.asarray(outputs)
        except ValueError:  # they differ in size
            array = np.empty(len(outputs), dtype=object)
            array[:] = list(outputs)
    else:
        array = np.empty(len(outputs), dtype=object)
        array[:] = list(outputs)
    if array.ndim == 0:
        raise InvalidInput(f"outputs are {outputs!r}, expected a list or an array of outputs")
    return array.astype(object) if array.dtype.kind in "US" else array


def as_numbers(outputs: Any, name: str, cost: object) -> Array:
    """Outputs that are numbers, or rows of numbers, as float64; anything else raises."""
    try:
        numbers = np.asarray(outputs, dtype=np.float64)
    except (ValueError, TypeError):
        raise InvalidInput(f"{name} hold {str(outputs)[:60]}; {cost!r} compares numbers, or rows of them") from None
    if numbers.size and not np.isfinite(numbers).all():
        sample = int(np.argwhere(~np.isfinite(numbers))[0][0]) if numbers.ndim else 0
        raise InvalidInput(f"{name} hold a number that is not finite at sample {sample}; {cost!r} needs finite ones")
    return numbers


def number_rows(answers: Any, truths: Any, cost: object) -> tuple[Array, Array]:
    """Both sides as matrices with a row for each output."""
    sides = [as_numbers(answers, "answers", cost), as_numbers(truths, "truths", cost)]
    if sides[0].ndim == 0 or sides[0].shape[1:] != sides[1].shape[1:]:
        raise InvalidInput(f"answers have shape {sides[0].shape}, truths {sides[1].shape}; outputs must be of one size")
    width = int(np.prod(sides[0].shape[1:]))
    return sides[0].reshape(len(sides[0]), width), sides[1].reshape(len(sides[1]), width)


def differ_in_size(*sides: Any) -> bool:
    """Whether outputs of these sides come in different lengths, so that they are no array."""
    for outputs in sides:
        if isinstance(outputs, np.ndarray):
            if outputs.dtype == object:
                return True
        elif (
            hasattr(outputs, "__len__")
            and len({len(o) if hasattr(o, "__len__") and not isinstance(o, str) else None for o in outputs}) > 1
        ):
            return True
    return False


@lru_cache(maxsize=256)
def affine_form(cost: Cost, answers: Structure, truths: Structure) -> AffineForm:
    """``cost.affine``, remembered; on families the form works member by member, unless their outputs label positions."""
    if not isinstance(answers, Family) or answers.part_coding == "labels":
        return cost.affine(answers, truths)
    if answers != truths:
        raise IncompatiblePair(f"answers are of {answers!r}, truths of {truths!r}; of items of many sizes both must be")
    cost.affine(answers.example, answers.example)  # refuses here what no member can have
    family = answers

    def apply(mu: Ragged) -> Ragged:
        return family.by_member(mu, lambda member, rows: cost.affine(member, member).apply(rows))

    def constant(mu: Ragged) -> Array:
        return family.per_item(mu, lambda member, rows: cost.affine(member, member).constant(rows))

    def adjoint(p: Ragged) -> tuple[Ragged, Array]:
        offset = np.zeros(len(p))
        scores = Ragged.empty(p.sizes, p.dtype)
        for member, items in family.groups(p):
            part, offset[items] = cost.affine(member, member).adjoint(p.rows(items, member.shape))
            scores.set_rows(items, part)
        return scores, offset

    return AffineForm(answers, truths, apply, constant, adjoint)  # type: ignore[arg-type]


def class_affine(cost: Cost, matrix: Array, answers: Structure, truths: Structure) -> AffineForm:
    """The affine form of a cost matrix C[answer, truth] between structures whose outputs are classes.

    A point of the truths' hull holds a distribution p over classes; the answers' scores are those that give class a
    the score (Cp)_a.
    """

    def expected(mu: Array) -> tuple[Array, Array]:
        return answers.class_scores(truths.class_distribution(mu) @ matrix.T)

    def adjoint(p: Array) -> tuple[Array, Array]:
        return truths.class_scores(answers.class_distribution(p) @ matrix)

    return AffineForm(answers, truths, lambda mu: expected(mu)[0], lambda mu: expected(mu)[1], adjoint)


def cost_table(cost: Cost, answers: Structure, truths: Structure) -> Array:
    """C[answer, truth] over all vertices of two structures, from the affine form."""
    form = affine_form(cost, answers, truths)
    rows, columns = answers._vertices(), truths._vertices()
    images = np.asarray(form._apply(columns), dtype=np.float64).reshape(len(columns), -1)
    return rows.reshape(len(rows), -1) @ images.T + np.asarray(form._constant(columns), dtype=np.float64)


def check_class_counts(cost: Cost, answers: Structure, truths: Structure) -> int:
    """How many classes both structures have; different numbers raise."""
    k, other = answers.n_vertices, truths.n_vertices
    if k is None or k != other:
        raise IncompatiblePair(f"{cost!r} compares outputs of one kind, but {answers!r} has {k} and {truths!r} {other}")
    return k


def per_example(amount: Array) -> Array:
    """Sum over all axes but the first, which counts the examples; a single output gives a single number."""
    if amount.ndim == 0:
        return np.asarray(amount, dtype=float)
    return amount.reshape(len(amount), int(np.prod(amount.shape[1:]))).sum(axis=1, dtype=float)
