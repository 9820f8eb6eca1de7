"""The contract of an output space.

A structure knows a finite set of outputs y, writes each as a vertex φ(y) of a polytope M, and answers questions about
M. The public methods of :class:`Structure` check their input, bring it into one form (contiguous rows, one batch
axis) and restore batch shape and type afterwards; a concrete structure implements the underscored twins on rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, ClassVar

import numpy as np

from .._core.checks import (
    as_float_array,
    batch_rows,
    check_count,
    check_finite_positive,
    check_generator,
    check_no_nan,
)
from .._core.errors import IntractableOracle, InvalidInput, MissingOracle, warn_user
from .._core.ragged import item_max
from .._core.types import Array, ArrayLike, IntArray

__all__ = ["ORACLES", "Accuracy", "Solved", "Structure"]

ORACLES = ("vertices", "argmax", "project", "kl_project", "marginals", "nearest", "decompose", "sample")
"""What a structure may be able to do beyond encoding; :meth:`Structure.missing` declares what it cannot."""

_MOST_VERTEX_NUMBERS = 50_000_000


@dataclass(frozen=True)
class Accuracy:
    """How exactly an iterative oracle should work: ``None`` is the default of the oracle and the type."""

    tol: float | None = None
    max_iter: int | None = None

    @classmethod
    def checked(cls, tol: Any, max_iter: Any) -> Accuracy:
        """The accuracy that a caller asked for, refused if it makes no sense."""
        return cls(
            None if tol is None else check_finite_positive(tol, "tol"),
            None if max_iter is None else check_count(max_iter, "max_iter"),
        )


@dataclass
class Solved:
    """What an iterative oracle reports beside its points.

    ``error`` is the measured error of each row (a duality gap or a residual, never an iteration's progress).
    """

    points: Array
    error: Array
    n_iter: Array
    converged: Array
    support: Any = None
    """The vertices in use, packed (:class:`fenchel.optim.Support`), where the points come from an active set."""


class Structure(ABC):
    """An output space: a finite set of outputs as the vertices of a polytope, with its oracles.

    Structures are frozen value objects: equal parameters make equal structures. All oracles take scores or points of
    shape ``(*batch, *shape)`` in float32 or float64 and answer in the same type; inputs are never changed.
    A score of -inf forbids its part (the point is zero there); NaN and +inf raise.
    """

    binary: ClassVar[bool] = True
    """Whether vertices have only the entries 0 and 1."""
    bounded: ClassVar[bool] = True
    """Whether the set is bounded (a polytope)."""
    output_ndim: ClassVar[int] = 0
    """How many axes one output y has, as a user writes it."""
    can_forbid: ClassVar[bool] = True
    """Whether a score of -inf has a meaning."""
    class_coding: ClassVar[str | None] = None
    """How a vertex writes a class, where outputs are classes: ``"one_hot"`` or ``"thresholds"``."""
    part_coding: ClassVar[str | None] = None
    """How a vertex writes its parts: ``"entry"`` (each entry is one), ``"one_hot"`` (each is a group with one 1) or
    ``"labels"`` (outputs are labels of positions, which ``position_marginals`` reads; there may be other parts)."""
    intractable: ClassVar[frozenset[str]] = frozenset()
    """Which of the missing oracles no tractable algorithm can exist for."""
    exact_constants: ClassVar[bool] = True
    """Whether ``separation``, ``diameter`` and ``max_l1`` are exact; otherwise they are bounds on the safe side."""
    checks_scores: ClassVar[bool] = False
    """Whether the oracles look for NaN and +inf themselves, in the pass over the scores that they make anyway."""

    def __repr__(self) -> str:
        values = ", ".join(repr(getattr(self, f.name)) for f in fields(self)) if is_dataclass(self) else ""
        return f"{type(self).__name__}({values})"

    # -- what it is ----------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """The shape of one vertex, one point, one set of scores."""

    @property
    def dim(self) -> int:
        """The number of scores of one output."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def n_vertices(self) -> int | None:
        """How many outputs there are, or None where that is unknown or infinite."""
        return None

    def missing(self) -> Mapping[str, str]:
        """The oracles this structure does not have, each with the reason and what to use instead.

        By default what a class implements decides: with ``_argmax`` alone there are projections, nearest vertices (of
        0/1 vertices), decompositions and samples; each costs a number of argmax calls.
        """
        absent: dict[str, str] = {}
        if not self._implements("_vertices"):
            absent["vertices"] = "its outputs are not enumerated; use argmax"
        if not self._implements("_marginals"):
            absent["marginals"] = "it has no algorithm for sums over all outputs; use project or kl_project"
        if not self._implements("_argmax"):
            reason = "it has no argmax, from which this could be computed; implement _argmax"
            needs = {"argmax": "_argmax", "project": "_project", "kl_project": "_kl_project", "decompose": "_decompose"}
            absent.update({name: reason for name, method in needs.items() if not self._implements(method)})
        if not self._implements("_nearest") and not (self.binary and "argmax" not in absent):
            absent["nearest"] = "one argmax finds it only where vertices are 0/1 (set binary = True if they are)"
        if not self._implements("_sample") and "decompose" in absent:
            absent["sample"] = absent["decompose"]
        return absent

    @property
    def projects_by_argmax(self) -> bool:
        """Whether Euclidean projections come from argmax alone, by the active-set method."""
        return not self._implements("_project") and "project" not in self.missing()

    def _implements(self, method: str) -> bool:
        return getattr(type(self), method) is not getattr(Structure, method)

    def supports(self, oracle: str) -> bool:
        """Whether the oracle of this name works.

        >>> from fenchel.structures import Reals
        >>> Reals(3).supports("project"), Reals(3).supports("argmax")
        (True, False)
        """
        if oracle not in ORACLES:
            raise InvalidInput(f"oracle is {oracle!r}, expected one of {', '.join(map(repr, ORACLES))}")
        return oracle not in self.missing()

    def require(self, oracle: str) -> None:
        """Raise :class:`MissingOracle`, with the reason, unless the oracle works."""
        reason = self.missing().get(oracle)
        if reason is not None:
            raise self._missing_error(oracle, reason)

    def _missing_error(self, oracle: str, reason: str) -> MissingOracle:
        kind = IntractableOracle if oracle in self.intractable else MissingOracle
        return kind(f"{self!r} has no {oracle}: {reason}")

    # -- outputs and vertices ------------------------------------------------------------------------------------------

    def encode(self, y: ArrayLike, dtype: Any = np.float64) -> Array:
        """The vertex φ(y) of each output."""
        outputs = np.asarray(y)
        if outputs.ndim < self.output_ndim:
            raise InvalidInput(f"y has shape {outputs.shape}, but one output of {self!r} has {self.output_ndim} axes")
        batch = outputs.shape[: outputs.ndim - self.output_ndim]
        rows = outputs.reshape(int(np.prod(batch)), *outputs.shape[len(batch) :])
        return self._encode(rows, np.dtype(dtype)).reshape(batch + self.shape)

    def decode(self, vertex: ArrayLike) -> Array:
        """The output y of each vertex; the inverse of :meth:`encode`. A point that is no vertex raises."""
        rows, batch = self._rows(vertex, "vertices", points=True)
        outputs = self._decode(rows)
        # in the type of the rows: the float32 of a vertex is that vertex
        bad = (self._encode(outputs, rows.dtype) != rows).reshape(len(rows), self.dim).any(axis=1)
        if bad.any():
            i = int(bad.argmax())
            raise InvalidInput(f"sample {i} is no vertex of {self!r}: {np.array2string(rows[i], threshold=20)}")
        return outputs.reshape(batch + outputs.shape[1:])

    def vertices(self) -> Array:
        """All vertices, shape ``(n_vertices, *shape)``, in the order of the outputs; only for small spaces."""
        self.require("vertices")
        n = self.n_vertices
        if n is None or n * self.dim > _MOST_VERTEX_NUMBERS:
            count = "too many" if n is None else f"{n}"
            raise InvalidInput(f"{self!r} has {count} vertices of {self.dim} numbers; listing them would not fit")
        return self._vertices()

    # -- oracles -------------------------------------------------------------------------------------------------------

    def argmax(self, theta: ArrayLike) -> Array:
        """A vertex of highest score, argmax ⟨θ, φ(y)⟩ over y (MAP). Ties go to the first output in order."""
        self.require("argmax")
        rows, batch = self._rows(theta, "scores")
        return self._restore(self._argmax(rows), batch, rows.dtype)

    def best(self, theta: ArrayLike) -> Any:
        """The outputs of highest score, ``decode(argmax(theta))``; a structure that finds them first says so at once."""
        return self.decode(self.argmax(theta))

    def project(
        self, theta: ArrayLike, *, tol: float | None = None, max_iter: int | None = None, return_info: bool = False
    ) -> Any:
        """The Euclidean projection, argmin ½‖μ − θ‖² over μ in M.

        ``tol`` and ``max_iter`` are for structures that iterate; with ``return_info=True`` the answer is a pair
        of the points and a :class:`Solved` with the measured error of each row.
        """
        self.require("project")
        accuracy = Accuracy.checked(tol, max_iter)
        rows, batch = self._rows(theta, "scores")
        return self._finish(self._project(rows, accuracy), batch, rows.dtype, return_info)

    def kl_project(
        self, theta: ArrayLike, *, tol: float | None = None, max_iter: int | None = None, return_info: bool = False
    ) -> Any:
        """The Kullback-Leibler projection of exp(θ − 1), argmax ⟨θ, μ⟩ − ⟨μ, log μ⟩ over μ in M."""
        self.require("kl_project")
        accuracy = Accuracy.checked(tol, max_iter)
        rows, batch = self._rows(theta, "scores")
        return self._finish(self._kl_project(rows, accuracy), batch, rows.dtype, return_info)

    def marginals(self, theta: ArrayLike) -> tuple[Array, Array]:
        """``(log_partition, mu)`` of the Gibbs distribution p(y) ∝ exp ⟨θ, φ(y)⟩; mu is its mean vertex."""
        self.require("marginals")
        rows, batch = self._rows(theta, "scores")
        log_partition, mu = self._marginals(rows)
        return log_partition.astype(rows.dtype, copy=False).reshape(batch)[()], self._restore(mu, batch, rows.dtype)

    def nearest(self, mu: ArrayLike, p: float = 2) -> Array:
        """A vertex nearest to the point in the p-norm, 1 <= p < inf.

        On 0/1 vertices this is one argmax, at the scores |μ|^p − |1 − μ|^p: Sakaue, Bao, Tsuchiya and Oki (2024),
        Proposition 3.2.
        """
        self.require("nearest")
        if not (isinstance(p, int | float | np.number) and 1 <= p < np.inf):
            raise InvalidInput(f"p is {p!r}, expected a finite number >= 1")
        rows, batch = self._rows(mu, "points", points=True)
        return self._restore(self._nearest(rows, float(p)), batch, rows.dtype)

    def decompose(self, mu: ArrayLike) -> tuple[Array, Array]:
        """``(weights, vertices)`` with mu = Σ weights[j] vertices[j], weights ≥ 0 that sum to one.

        For a batch both are padded with zero weights to the largest number of vertices needed:
        shapes ``(*batch, m)`` and ``(*batch, m, *shape)``.
        """
        self.require("decompose")
        rows, batch = self._rows(mu, "points", points=True)
        self._check_inside(rows)
        weights, atoms = self._decompose(rows)
        m = weights.shape[1]
        return (
            weights.astype(rows.dtype, copy=False).reshape(*batch, m),
            atoms.astype(rows.dtype, copy=False).reshape(*batch, m, *self.shape),
        )

    def sample(self, mu: ArrayLike, rng: Any = None) -> Array:
        """A random vertex whose mean is mu; ``rng`` is a ``numpy.random.Generator``, a seed or None."""
        self.require("sample")
        rows, batch = self._rows(mu, "points", points=True)
        self._check_inside(rows)
        return self._restore(self._sample(rows, check_generator(rng, "rng")), batch, rows.dtype)

    # -- constants and measures ----------------------------------------------------------------------------------------

    def separation(self, p: float = 2) -> float:
        """The least p-norm distance between two different vertices (infinite if there is only one)."""
        if self.binary:
            return 1.0
        raise MissingOracle(f"{self!r} does not know how close two of its vertices can be; implement separation")

    def diameter(self, p: float = 2) -> float:
        """The largest p-norm distance between two points of M."""
        if self.binary:
            return float(self.dim ** (1 / p))
        raise MissingOracle(f"{self!r} does not know how far apart its vertices can be; implement diameter")

    @property
    def max_l1(self) -> float:
        """The largest 1-norm of a point of M."""
        if self.binary:
            return float(self.dim)
        raise MissingOracle(f"{self!r} does not know how large its vertices can be; implement max_l1")

    def violation(self, mu: ArrayLike) -> Array:
        """How far each point is from satisfying the constraints of M: the largest violation, 0 inside."""
        rows, batch = self._rows(mu, "points", points=True)
        return self._violation(rows).reshape(batch)[()]

    def class_distribution(self, mu: Array) -> Array:
        """The distribution over classes that a point of M holds, for rows, where outputs are classes."""
        raise NotImplementedError

    def class_scores(self, scores: Array) -> tuple[Array, Array]:
        """Scores θ and an offset c with ⟨θ, φ(y)⟩ + c = scores[y] for every class y, for rows."""
        raise NotImplementedError

    def class_potentials(self, theta: Array) -> Array:
        """⟨θ, φ(y)⟩ for every class y, for rows, where outputs are classes."""
        return theta.reshape(len(theta), self.dim) @ self._vertices().reshape(-1, self.dim).T

    def class_mean(self, distribution: Array) -> Array:
        """Σ p_y φ(y) for rows of numbers p over classes: the point that a distribution makes."""
        return (distribution @ self._vertices().reshape(-1, self.dim)).reshape(-1, *self.shape)

    @property
    def n_labels(self) -> int:
        """How many labels a position may have, where outputs label positions."""
        raise NotImplementedError

    def position_marginals(self, mu: Any) -> Array:
        """Each position's distribution over labels, (positions of all rows, labels), where outputs label positions."""
        raise NotImplementedError

    def position_scores(self, values: Array, like: Any) -> Any:
        """Rows of the sizes of ``like`` that give each label of each position its value, and other parts zero."""
        raise NotImplementedError

    def position_counts(self, rows: Any) -> IntArray:
        """How many positions each row has, where outputs label positions."""
        raise NotImplementedError

    @property
    def numbers_per_part(self) -> int:
        """How many numbers of an output say one part, where parts are ``"one_hot"``."""
        return 1

    def agreement(self, mu: Any) -> Any:
        """Aμ with ⟨φ(ŷ), A φ(y)⟩ = how many numbers the outputs ŷ and y share, where parts are ``"one_hot"``; A is symmetric."""
        return mu

    def take(self, idx: Any) -> Structure:
        """The structure for some items of the batch; only one whose items differ (contexts) overrides this."""
        return self

    def center(self, theta: Array) -> Array:
        """Scores that every point of M tells apart exactly as it does ``theta``, brought near zero.

        A loss is unchanged by it but for rounding: adding a constant to all scores of a simplex, or to a row of a
        permutation matrix, changes nothing. It is called with rows, before any difference of large numbers.
        """
        return theta

    def are_vertices(self, rows: Array) -> bool:
        """Whether all these points of the set are vertices; False where that is not cheap to say."""
        return self.binary and bool(((rows == 0) | (rows == 1)).all())

    def gibbs_omega(self, mu: Array) -> Array:
        """−max entropy of a distribution over vertices with mean mu, for rows; where it has no formula it raises."""
        raise MissingOracle(
            f"{self!r} has no formula for the largest entropy of a distribution with a given mean; "
            "losses at vertices do not need it"
        )

    def fenchel_young(self, psi: str, theta: Array, v: Array, strength: float) -> tuple[Array, Array] | None:
        """Losses and predictions of the regularizer named ``psi`` in one compiled pass over rows, where there is one.

        ``None`` (the default) leaves it to the oracles; only a structure that can be faster overrides this.
        """
        return None

    # -- for concrete structures ---------------------------------------------------------------------------------------

    def _encode(self, outputs: Array, dtype: np.dtype[Any]) -> Array:
        raise NotImplementedError

    def _decode(self, rows: Array) -> Array:
        raise NotImplementedError

    def _vertices(self) -> Array:
        raise NotImplementedError

    def _argmax(self, rows: Array) -> Array:
        raise NotImplementedError

    def _argmax_at(self, rows: Array, indices: Array) -> Array:
        """argmax for some items of a batch; a structure whose items differ needs to know which."""
        return self._argmax(rows)

    def _project(self, rows: Array, accuracy: Accuracy) -> Array | Solved:
        from .generic import project_by_argmax

        return project_by_argmax(self, rows, accuracy)

    def _kl_project(self, rows: Array, accuracy: Accuracy) -> Array | Solved:
        from .generic import kl_project_by_argmax

        return kl_project_by_argmax(self, rows, accuracy)

    def _marginals(self, rows: Array) -> tuple[Array, Array]:
        raise NotImplementedError

    def _nearest(self, rows: Array, p: float) -> Array:
        if not self.binary:
            raise NotImplementedError
        return self._argmax(np.abs(rows) ** p - np.abs(1 - rows) ** p)

    def _decompose(self, rows: Array) -> tuple[Array, Array]:
        from .generic import decompose_by_argmax

        return decompose_by_argmax(self, rows)

    def _sample(self, rows: Array, rng: np.random.Generator) -> Array:
        distinct, which = self._distinct(rows)
        weights, atoms = self._decompose(distinct)
        return atoms[which, draw_index(weights[which], rng)]

    def _violation(self, rows: Array) -> Array:
        """The distance to the set, by projecting."""
        distinct, which = self._distinct(rows)
        result = self._project(distinct.astype(np.float64), Accuracy(tol=1e-13))  # a gap is a distance squared
        points = result.points if isinstance(result, Solved) else result
        return np.abs(points - distinct).reshape(len(distinct), self.dim).max(axis=1, initial=0.0)[which]

    def _distinct(self, rows: Array) -> tuple[Array, IntArray]:
        """The distinct rows and which of them each row is: many draws from one point should look at it once."""
        if (
            len(rows) < 2 or not self.dim or self.take(np.arange(1)) is not self
        ):  # equal points of items that differ are not the same
            return rows, np.arange(len(rows))
        flat, which = np.unique(rows.reshape(len(rows), self.dim), axis=0, return_inverse=True)
        return flat.reshape(len(flat), *self.shape), which.reshape(-1)

    # -- the common form -----------------------------------------------------------------------------------------------

    def _rows(self, value: ArrayLike, name: str, *, points: bool = False) -> tuple[Array, tuple[int, ...]]:
        rows, batch = self.as_rows(value, name)
        if points or not self.checks_scores:
            check_no_nan(rows, name, self, forbid_parts=self.can_forbid and not points)
        return rows, batch

    def as_rows(self, value: ArrayLike, name: str) -> tuple[Array, tuple[int, ...]]:
        """Scores or points as rows with one batch axis, and the batch shape to :meth:`restore`. Values go unchecked."""
        return batch_rows(as_float_array(value, name), self.shape, name, self)

    def restore(self, rows: Array, batch: tuple[int, ...]) -> Array:
        """Rows in the shape of the batch."""
        return rows.reshape(batch + self.shape)

    def _restore(self, rows: Array, batch: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        return self.restore(rows.astype(dtype, copy=False), batch)

    def _finish(self, result: Array | Solved, batch: tuple[int, ...], dtype: np.dtype[Any], return_info: bool) -> Any:
        if isinstance(result, Solved):
            points = self._restore(result.points, batch, dtype)
            result.points = points
            if not return_info:
                self.warn_unsolved(result)
        else:
            points = self._restore(result, batch, dtype)
        if not return_info:
            return points
        if not isinstance(result, Solved):  # a closed form: exact to rounding, no iterations
            n = int(np.prod(batch))
            result = Solved(points, np.zeros(n), np.zeros(n, dtype=np.int64), np.ones(n, dtype=bool))
        return points, result

    def warn_unsolved(self, solved: Solved) -> None:
        """Warn of the row whose projection is farthest from done, if there is one."""
        if not solved.converged.all():
            i = int(np.argmax(np.where(solved.converged, -np.inf, solved.error)))
            warn_user(
                f"a projection on {self!r} stopped after {int(solved.n_iter[i])} iterations with the error "
                f"{solved.error[i]:.2g} (sample {i}); raise max_iter or tol, or scale the scores down"
            )

    def _check_inside(self, rows: Array) -> None:
        if len(rows) == 0:
            return
        off = self._violation(rows)
        # what rounding does grows with the entries
        excess = off / np.maximum(item_max(np.abs(rows)), 1.0)
        i = int(excess.argmax())
        if excess[i] > (1e-4 if rows.dtype == np.float32 else 1e-6):
            raise InvalidInput(
                f"points must lie in {self!r}, but sample {i} violates its constraints by {off[i]:.2g}: "
                f"{np.array2string(rows[i], threshold=20)}"
            )

    def _check_labels(self, outputs: Array, count: int) -> Array:
        """Outputs that are class numbers 0, ..., count − 1, checked."""
        if outputs.dtype.kind == "f" and outputs.size and np.all(outputs == np.floor(outputs)):
            outputs = outputs.astype(np.int64)
        if outputs.size == 0:
            return outputs.astype(np.int64)
        if outputs.dtype.kind not in "iu":
            raise InvalidInput(f"outputs of {self!r} are whole numbers from 0 to {count - 1}, got {outputs.dtype}")
        bad = (outputs < 0) | (outputs >= count)
        if bad.any():
            where = tuple(int(i) for i in np.argwhere(bad)[0])
            raise InvalidInput(
                f"y is {outputs[where]} at sample {where[0]}, but outputs of {self!r} go from 0 to {count - 1}"
            )
        return outputs


def items_of(n: int, idx: Any, owner: object) -> Array:
    """The numbers of the items that ``idx`` picks among n, for :meth:`Structure.take`."""
    try:
        return np.arange(n)[idx]
    except IndexError:
        raise InvalidInput(f"{owner!r} is for {n} items, of which {idx!r} asks for others") from None


def draw_index(weights: Array, rng: np.random.Generator) -> Array:
    """One index per row, drawn in proportion to the row's weights."""
    cumulative = np.cumsum(weights, axis=-1, dtype=np.float64)
    u = rng.random(weights.shape[:-1]) * cumulative[..., -1:].sum(axis=-1)
    index: Array = np.minimum((cumulative <= u[..., None]).sum(axis=-1), weights.shape[-1] - 1)
    return index
