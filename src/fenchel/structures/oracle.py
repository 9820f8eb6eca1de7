"""A user's own maximiser as a structure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .._core.checks import check_count
from .._core.errors import InvalidInput, OracleError
from .._core.types import Array, IntArray
from .base import Structure, items_of

__all__ = ["Oracle"]


@dataclass(frozen=True, repr=False)
class Oracle(Structure):
    """Any output space that has a maximiser: ``argmax(theta)`` returns a vertex of highest score.

    From it alone come Euclidean and KL projections, nearest vertices (if ``binary``), decompositions, samples and so
    every loss, decoder and estimator that needs no Gibbs marginals. An oracle that returns a wrong shape, NaN or a
    vertex that is not the best is caught where it shows, and named; one that minimises at its first use, by one call more.

    Parameters
    ----------
    argmax : callable
        ``argmax(theta) -> vertex`` for one array of scores of ``shape``; with ``batched=True`` for a batch
        ``(m, *shape)``. With contexts it is ``argmax(theta, context)``.
    shape : tuple of int
        The shape of scores and vertices.
    binary : bool, default=True
        Whether vertices are 0/1.
    batched : bool, default=False
        Whether ``argmax`` takes a batch at once.
    contexts : sequence, optional
        One context per example (a graph, a table of costs), for outputs whose space differs by example: item i of
        every batch belongs to ``contexts[i]``. ``bind(contexts)`` gives the structure for another set of examples.

    Outputs are the vertices themselves. Projecting costs some tens of calls, as a rule.

    >>> import numpy as np
    >>> from fenchel.structures import Oracle
    >>> def best_pair(theta):  # the two highest of all items
    ...     vertex = np.zeros_like(theta)
    ...     vertex[np.argsort(-theta)[:2]] = 1
    ...     return vertex
    >>> pairs = Oracle(best_pair, (4,))
    >>> pairs.project([0.9, 0.8, 0.5, -1.0]).round(6)
    array([0.833333, 0.733333, 0.433333, 0.      ])
    """

    argmax_function: Callable[..., Any]
    _shape: tuple[int, ...]
    is_binary: bool = True
    batched: bool = False
    contexts: tuple[Any, ...] | None = None
    exact_constants: ClassVar[bool] = False
    _tried: ClassVar[bool] = False
    """Whether it was asked for the opposite of some scores yet; not a part of its value."""

    def __init__(
        self,
        argmax: Callable[..., Any],
        shape: Sequence[int],
        *,
        binary: bool = True,
        batched: bool = False,
        contexts: Sequence[Any] | None = None,
    ) -> None:
        if not callable(argmax):
            raise InvalidInput(f"argmax is {argmax!r}, expected a function from scores to a vertex")
        sizes = (shape,) if isinstance(shape, int) else tuple(shape)
        object.__setattr__(self, "argmax_function", argmax)
        object.__setattr__(self, "_shape", tuple(check_count(n, f"shape[{i}]") for i, n in enumerate(sizes)))
        object.__setattr__(self, "is_binary", bool(binary))
        object.__setattr__(self, "batched", bool(batched))
        object.__setattr__(self, "contexts", None if contexts is None else tuple(contexts))

    def __repr__(self) -> str:
        name = getattr(self.argmax_function, "__name__", type(self.argmax_function).__name__)
        return f"Oracle({name}, {self._shape})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Oracle) and _same(
            (self.argmax_function, self._shape, self.is_binary, self.batched, self.contexts),
            (other.argmax_function, other._shape, other.is_binary, other.batched, other.contexts),
        )

    def __hash__(self) -> int:
        return hash((self.argmax_function, self._shape, self.is_binary, self.batched))

    def saved_arguments(self) -> dict[str, Any]:
        """Constructor arguments for a saved model; the function is stored by name."""
        return {
            "argmax": self.argmax_function,
            "shape": self._shape,
            "binary": self.is_binary,
            "batched": self.batched,
            "contexts": self.contexts,
        }

    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape

    @property
    def binary(self) -> bool:  # type: ignore[override]
        return self.is_binary

    @property
    def part_coding(self) -> str | None:  # type: ignore[override]
        return "entry" if self.is_binary else None

    @property
    def output_ndim(self) -> int:  # type: ignore[override]
        return len(self._shape)

    def bind(self, contexts: Sequence[Any]) -> Oracle:
        """The same space for examples with these contexts."""
        return replace_contexts(self, tuple(contexts))

    def take(self, idx: Any) -> Oracle:
        if self.contexts is None:
            return self
        chosen = items_of(len(self.contexts), idx, self)
        return replace_contexts(self, tuple(self.contexts[i] for i in chosen))

    def _encode(self, outputs: Array, dtype: np.dtype[Any]) -> Array:
        rows, _ = self._rows(outputs, "y", points=True)
        if self.is_binary and rows.size and not np.all((rows == 0) | (rows == 1)):
            i = int(np.argmax(~np.all((rows == 0) | (rows == 1), axis=tuple(range(1, rows.ndim)))))
            raise InvalidInput(f"y is no 0/1 vertex at sample {i}; give binary=False if vertices are others")
        return rows.astype(dtype)

    def _decode(self, rows: Array) -> Array:
        return np.round(rows).astype(np.int64) if self.is_binary else rows.astype(np.float64)

    def _argmax(self, rows: Array) -> Array:
        return self._argmax_at(rows, np.arange(len(rows)))

    def _argmax_at(self, rows: Array, indices: IntArray) -> Array:
        extra: list[Any] = []
        if self.contexts is not None:
            if len(indices) and int(indices.max()) >= len(self.contexts):
                raise InvalidInput(
                    f"{self!r} has {len(self.contexts)} contexts, but the batch has more items; "
                    "bind(contexts) gives the structure for other examples"
                )
            extra = [[self.contexts[i] for i in indices]]
        if self.batched:
            answer = self._array(self.argmax_function(rows.copy(), *extra), int(indices[0]) if len(indices) else 0)
            if answer.shape != rows.shape:
                raise OracleError(f"{self!r} was given scores of shape {rows.shape} and returned shape {answer.shape}")
        else:
            answer = np.empty(rows.shape)
            for j, i in enumerate(indices):
                context = [extra[0][j]] if extra else []
                vertex = self._array(self.argmax_function(rows[j].copy(), *context), int(i))
                if vertex.shape != self._shape:
                    raise OracleError(
                        f"{self!r} returned a vertex of shape {vertex.shape} at sample {int(i)}, expected {self._shape}"
                    )
                answer[j] = vertex
        flat = answer.reshape(len(answer), self.dim)
        bad = ~np.isfinite(flat).all(axis=1)
        if self.is_binary:
            bad |= ~((flat == 0) | (flat == 1)).all(axis=1)
        if bad.any():
            i = int(indices[int(bad.argmax())])
            what = "is not 0/1 (give binary=False if that is meant)" if np.isfinite(flat).all() else "is not finite"
            raise OracleError(f"{self!r} returned a vertex that {what} at sample {i}")
        used = (flat != 0) & (rows.reshape(flat.shape) == -np.inf)
        if used.any():
            i = int(indices[int(used.any(axis=1).argmax())])
            raise OracleError(f"{self!r} returned a vertex that uses a part whose score is -inf at sample {i}")
        if not self._tried:
            self._try(rows, flat, indices, extra)
        return answer.astype(rows.dtype, copy=False)

    def _try(self, rows: Array, vertices: Array, indices: IntArray, extra: list[Any]) -> None:
        """One more call, at the opposite scores: it shows the commonest mistake, a solver that minimises.

        Nothing else would: where a minimiser is asked for the best from its own answer on, it answers the same again.
        """
        scores = rows.reshape(vertices.shape)
        told = np.isfinite(scores).all(axis=1) & scores.any(axis=1)
        if not told.any():
            return
        j = int(told.argmax())
        object.__setattr__(self, "_tried", True)
        opposite = -rows[j : j + 1]
        context = [[extra[0][j]]] if extra else []
        found = self._array(
            self.argmax_function(opposite, *context)
            if self.batched
            else self.argmax_function(opposite[0], *(c[0] for c in context)),
            int(indices[j]),
        )
        if found.size != self.dim or not np.isfinite(found).all():
            return  # the next call with such scores is refused by name
        lead = float(scores[j] @ (found.reshape(-1) - vertices[j]))
        if lead > 1e-9 * float(np.abs(scores[j]).sum()) * float(np.abs(found).max(initial=1.0)):
            raise OracleError(
                f"{self!r} does not maximise: at sample {int(indices[j])} its vertex scores {lead:.3g} less than the one it "
                "returned for the opposite scores; does it minimise a cost? Then give it -theta"
            )

    def _array(self, answer: Any, sample: int) -> Array:
        try:
            return np.asarray(answer, dtype=np.float64)
        except (TypeError, ValueError):
            raise OracleError(
                f"{self!r} returned {type(answer).__name__} at sample {sample}, expected an array"
            ) from None


def _same(a: Any, b: Any) -> bool:
    """Whether two values are equal, arrays among them; what cannot be compared is equal only to itself."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    try:
        return bool(a == b)
    except ValueError:
        return False


def replace_contexts(oracle: Oracle, contexts: tuple[Any, ...]) -> Oracle:
    made = Oracle(oracle.argmax_function, oracle.shape, binary=oracle.binary, batched=oracle.batched, contexts=contexts)
    object.__setattr__(made, "_tried", oracle._tried)
    return made
