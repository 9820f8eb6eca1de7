"""Structures of one kind and many sizes as one: what sentences, sequences and matchings need."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, TypeVar

import numpy as np

from .._core.checks import as_float_array
from .._core.errors import InvalidInput, MissingOracle, OracleError
from .._core.ragged import Ragged, offsets_of
from .._core.types import Array, IntArray
from ..optim.active_set import project_from_argmax
from .base import Accuracy, Solved, Structure

__all__ = ["Family", "Listed", "Ragged", "project_padded"]

T = TypeVar("T")


class Listed(tuple[int, ...]):
    """The batch shape of items that came as a list, and go back as one."""


class Family(Structure):
    """Structures of one kind whose items differ in size, as one structure.

    A batch is a :class:`Ragged` array (flat numbers and offsets) or a list with an array for each item; oracles answer
    in kind. ``member(size)`` is the structure of the items with that many scores, and what a family does not override
    is done member by member, in one call for all items of a size. A family with ragged kernels overrides
    ``_argmax`` and its siblings, which get the whole :class:`Ragged`.
    """

    exact_constants: ClassVar[bool] = False

    # -- what a concrete family says ---------------------------------------------------------------------------------

    @abstractmethod
    def member(self, size: int) -> Structure:
        """The structure of items with this many scores; a size that no item can have raises ``InvalidInput``."""

    @abstractmethod
    def member_of(self, y: Any) -> Structure:
        """The structure that this output belongs to."""

    @property
    @abstractmethod
    def examples(self) -> tuple[Structure, ...]:
        """A few small members of different sizes, for the conformance suite; the first also says what oracles there are."""

    # -- what follows --------------------------------------------------------------------------------------------------

    @property
    def example(self) -> Structure:
        return self.examples[0]

    @property
    def shape(self) -> tuple[int, ...]:
        raise InvalidInput(f"items of {self!r} have no common shape; ask member(size)")

    @property
    def dim(self) -> int:
        raise InvalidInput(f"items of {self!r} have no common size; ask member(size)")

    @property
    def binary(self) -> bool:  # type: ignore[override]
        return self.example.binary

    @property
    def bounded(self) -> bool:  # type: ignore[override]
        return self.example.bounded

    @property
    def can_forbid(self) -> bool:  # type: ignore[override]
        return self.example.can_forbid

    @property
    def part_coding(self) -> str | None:  # type: ignore[override]
        return self.example.part_coding

    @property
    def output_ndim(self) -> int:  # type: ignore[override]
        return self.example.output_ndim

    def missing(self) -> Mapping[str, str]:
        absent = dict(self.example.missing())
        absent["vertices"] = "its items have different vertices; ask member(size) for those of one"
        return absent

    def separation(self, p: float = 2) -> float:
        """The least over the examples, which are the smallest members."""
        return min(member.separation(p) for member in self.examples)

    def diameter(self, p: float = 2) -> float:
        """No bound holds for all sizes."""
        return np.inf

    @property
    def max_l1(self) -> float:
        return np.inf

    def groups(self, rows: Ragged) -> Iterator[tuple[Structure, IntArray]]:
        """The members, each with the items that are its own."""
        sizes, inverse = np.unique(rows.sizes, return_inverse=True)
        for j, size in enumerate(sizes.tolist()):
            yield self.member(size), np.flatnonzero(inverse == j)

    def answers(self, rows: Ragged, compute: Callable[[Structure, Array], T]) -> Iterator[tuple[IntArray, T]]:
        """``compute(member, its rows)`` with the items they are; a complaint names the item in the whole batch."""
        for member, items in self.groups(rows):
            block = rows.rows(items, member.shape)
            try:
                answer = compute(member, block)
            except (InvalidInput, OracleError):
                for j, i in enumerate(items.tolist()):
                    try:
                        compute(member, block[j : j + 1])
                    except (InvalidInput, OracleError) as alone:
                        raise type(alone)(re.sub(r"\bsample 0\b", f"sample {i}", str(alone))) from None
                raise
            yield items, answer

    def by_member(self, rows: Ragged, compute: Callable[[Structure, Array], Array]) -> Ragged:
        """``compute(member, its rows)``, arrays of the same shape, put back in place."""
        out = Ragged.empty(rows.sizes, rows.dtype)
        for items, answer in self.answers(rows, compute):
            out.set_rows(items, np.asarray(answer))
        return out

    def per_item(self, rows: Ragged, compute: Callable[[Structure, Array], Array]) -> Array:
        """``compute(member, its rows)``, a number for each row, put back in place."""
        out = np.zeros(len(rows))
        for items, answer in self.answers(rows, compute):
            out[items] = answer
        return out

    def unpacked(self, rows: Ragged) -> list[Array]:
        """Each item as an array of its member's shape (views)."""
        return [item.reshape(self.member(len(item)).shape) for item in rows]

    # -- outputs and vertices ------------------------------------------------------------------------------------------

    def encode(self, y: Any, dtype: Any = np.float64) -> Any:
        """The vertices φ(y) of a list of outputs, as one :class:`Ragged`."""
        outputs = _listed(y, "y")
        items = []
        for i, output in enumerate(outputs):
            try:
                items.append(self.member_of(output).encode(output, dtype))
            except InvalidInput as error:
                text, named = re.subn(r"\bsample 0\b", f"sample {i}", str(error))
                raise InvalidInput(text if named else f"sample {i}: {error}") from None
        return Ragged.of(items, dtype)

    def decode(self, vertex: Any) -> Any:
        """The list of outputs of these vertices."""
        rows: Any = self._rows(vertex, "vertices", points=True)[0]
        outputs: list[Any] = [None] * len(rows)
        for items, decoded in self.answers(rows, lambda member, block: member.decode(block)):
            for i, output in zip(items.tolist(), decoded, strict=True):
                outputs[i] = output
        return outputs

    def decompose(self, mu: Any) -> Any:
        """A pair ``(weights, vertices)`` for each item, without padding."""
        self.require("decompose")
        rows: Any = self._rows(mu, "points", points=True)[0]
        pairs: list[Any] = [None] * len(rows)
        for items, (weights, atoms) in self.answers(rows, lambda member, block: member.decompose(block)):
            for i, w, a in zip(items.tolist(), weights, atoms, strict=True):
                pairs[i] = (w[w > 0], a[w > 0])
        return pairs

    # -- oracles, member by member ------------------------------------------------------------------------------------

    def _argmax(self, rows: Any) -> Any:
        return self.by_member(rows, lambda member, block: member._argmax(block))

    def _project(self, rows: Any, accuracy: Accuracy) -> Any:
        return self._iterate(rows, lambda member, block: member._project(block, accuracy))

    def _kl_project(self, rows: Any, accuracy: Accuracy) -> Any:
        return self._iterate(rows, lambda member, block: member._kl_project(block, accuracy))

    def _iterate(self, rows: Ragged, compute: Callable[[Structure, Array], Array | Solved]) -> Ragged | Solved:
        n = len(rows)
        solved = Solved(Ragged.empty(rows.sizes), np.zeros(n), np.zeros(n, np.int64), np.ones(n, bool))  # type: ignore[arg-type]
        for items, result in self.answers(rows, compute):
            if isinstance(result, Solved):
                solved.error[items], solved.n_iter[items] = result.error, result.n_iter
                solved.converged[items] = result.converged
                result = result.points
            solved.points.set_rows(items, result)  # type: ignore[attr-defined]
        return solved

    def _marginals(self, rows: Any) -> Any:
        log_partition, out = np.zeros(len(rows)), Ragged.empty(rows.sizes, rows.dtype)
        for items, (log_sums, mu) in self.answers(rows, lambda member, block: member._marginals(block)):
            log_partition[items] = log_sums
            out.set_rows(items, mu)
        return log_partition, out

    def _nearest(self, rows: Any, p: float) -> Any:
        return self.by_member(rows, lambda member, block: member._nearest(block, p))

    def _sample(self, rows: Any, rng: np.random.Generator) -> Any:
        return self.by_member(rows, lambda member, block: member._sample(block, rng))

    def _violation(self, rows: Any) -> Array:
        return self.per_item(rows, lambda member, block: member._violation(block))

    def are_vertices(self, rows: Any) -> bool:
        return all(member.are_vertices(rows.rows(items, member.shape)) for member, items in self.groups(rows))

    def center(self, theta: Any) -> Any:
        if type(self.example).center is Structure.center:
            return theta
        return self.by_member(theta, lambda member, block: member.center(block))

    def gibbs_omega(self, mu: Any) -> Array:
        return self.per_item(mu, lambda member, block: member.gibbs_omega(block))

    # -- the common form -----------------------------------------------------------------------------------------------

    def as_rows(self, value: Any, name: str) -> Any:
        if isinstance(value, Ragged):
            rows = Ragged(as_float_array(value.flat, name), value.offsets)
            self._check_sizes(rows, name)
            return rows, (len(rows),)
        items = []
        for i, given in enumerate(_listed(value, name)):
            array = as_float_array(given, f"{name} of sample {i}")
            if array.ndim == 0:
                raise InvalidInput(f"{name} of sample {i} are one number; a batch of {self!r} is a list of arrays")
            member = self._member(array.size, i, name)
            if array.ndim > 1 and array.shape != member.shape:
                raise InvalidInput(
                    f"{name} of sample {i} have shape {array.shape}, but {member!r} needs {member.shape}"
                )
            items.append(array)
        return Ragged.of(items), Listed((len(items),))

    def _check_sizes(self, rows: Ragged, name: str) -> None:
        sizes = rows.sizes
        if rows.offsets[0] != 0 or rows.offsets[-1] != rows.flat.size or sizes.min(initial=0) < 0:
            raise InvalidInput(f"{name} have offsets that do not cut their {rows.flat.size} numbers into items")
        for size in np.unique(sizes).tolist():
            try:
                _known_member(self, size)
            except InvalidInput:
                self._member(size, int(np.argmax(sizes == size)), name)

    def _member(self, size: int, i: int, name: str) -> Structure:
        try:
            return self.member(size)
        except InvalidInput as error:
            raise InvalidInput(f"{name} of sample {i}: {error}") from None

    def restore(self, rows: Any, batch: tuple[int, ...]) -> Any:
        return self.unpacked(rows) if isinstance(batch, Listed) else rows

    def vertices(self) -> Array:
        raise MissingOracle(f"{self!r} has no vertices of its own: {self.missing()['vertices']}")


@lru_cache(maxsize=4096)
def _known_member(family: Family, size: int) -> Structure:
    """The member of a size: batches come with the same sizes again and again."""
    return family.member(size)


def _listed(value: Any, name: str) -> Sequence[Any]:
    listed = hasattr(value, "__len__") and hasattr(value, "__getitem__") and not isinstance(value, str | bytes | dict)
    if not listed or (isinstance(value, np.ndarray) and value.ndim == 0):
        raise InvalidInput(f"{name} is {type(value).__name__}, expected a list with an array for each item")
    items: Sequence[Any] = value
    return items


# Items of different sizes are projected together, padded to the largest of this share of the smallest, or by so many.
_PADDING, _LEAST_PADDING = 1.5, 32


def project_padded(rows: Any, best: Callable[[Array, IntArray], Array], accuracy: Accuracy) -> Solved:
    """Euclidean projections of ragged rows by the active-set method, items of similar size together.

    ``best(scores, items)`` gets rows of one width, of which an item fills the first numbers and no vertex has the rest,
    and which items they are.
    """
    n, sizes = len(rows), rows.sizes
    solved = Solved(Ragged.empty(sizes), np.zeros(n), np.zeros(n, np.int64), np.ones(n, bool))  # type: ignore[arg-type]
    points: Any = solved.points
    order = np.argsort(sizes, kind="stable")
    start = 0
    while start < n:
        most = max(int(_PADDING * sizes[order[start]]), int(sizes[order[start]]) + _LEAST_PADDING)
        stop = start + int(np.searchsorted(sizes[order[start:]], most, side="right"))
        items = order[start:stop]
        start = stop
        width = int(sizes[items[-1]])
        place = np.arange(width) < sizes[items][:, None]
        padded = np.zeros((len(items), width))
        padded[place] = rows[items].flat
        result = project_from_argmax(
            padded,
            lambda scores, indices, items=items: best(scores, items[indices]),  # type: ignore[misc]
            tol=accuracy.tol or (1e-9 if rows.dtype == np.float64 else 1e-6),
            max_iter=accuracy.max_iter or 10_000,
        )
        points[items] = Ragged(result.points[place], offsets_of(sizes[items]))
        solved.error[items], solved.n_iter[items] = result.gap, result.n_iter
        solved.converged[items] = result.converged
    return solved
