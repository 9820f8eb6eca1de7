"""Between tensors as networks make them and rows as structures take them: padding, parts, types, devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._core.errors import InvalidInput
from .._core.ragged import Ragged, offsets_of
from .._core.types import Array, IntArray
from ..structures.base import Structure
from ..structures.birkhoff import Birkhoffs
from ..structures.chain import Chain, Chains
from ..structures.matching import Matchings
from ..structures.ragged import Family
from ..structures.tree import Arborescences, DependencyTrees

__all__ = ["Batch", "as_scores", "as_tensor", "flat_of", "numbers", "outputs_of", "pack"]


@dataclass
class Batch:
    """Scores in the form of rows, and the way back to the form they came in."""

    structure: Structure
    scores: Tensor
    """Rows ``(items, *shape)``, or for a family the flat numbers of all items."""
    sizes: IntArray | None
    shape: tuple[int, ...]
    """The batch shape."""
    restore: Callable[[Tensor], Any]
    """From a tensor like :attr:`scores` to one like what was given; padding is zero."""

    def rows(self, values: Array) -> Any:
        """What the structure's oracles take, of numbers like those of :attr:`scores`."""
        return values if self.sizes is None else Ragged(values, offsets_of(self.sizes))


def numbers(tensor: Tensor) -> Array:
    """The numbers of a tensor, without a copy if they lie on the CPU in order."""
    array: Array = tensor.detach().cpu().contiguous().numpy()
    return array


def flat_of(rows: Any) -> Array:
    """The numbers of rows, for a family without their offsets."""
    return rows.flat if isinstance(rows, Ragged) else rows


def as_tensor(rows: Any, like: Tensor) -> Tensor:
    """Rows as a tensor of the type and on the device of another, without a copy where both are the same."""
    return torch.from_numpy(np.ascontiguousarray(flat_of(rows))).to(device=like.device, dtype=like.dtype)


def as_scores(value: Any, name: str = "scores") -> Tensor:
    """A tensor of float32 or float64; half precision becomes float32, as autocast does for losses."""
    if not isinstance(value, torch.Tensor):
        raise InvalidInput(f"{name} are {type(value).__name__}, expected a torch.Tensor")
    if not value.is_floating_point():
        raise InvalidInput(f"{name} have the type {value.dtype}, expected floating-point numbers")
    return value.float() if value.dtype in (torch.float16, torch.bfloat16) else value


def pack(structure: Structure, theta: Any, lengths: Any = None) -> Batch:
    """Bring scores into rows.

    One structure takes ``(*batch, *shape)``, a chain also a pair of nodes ``(*batch, length, labels)`` and edges. A family
    takes a list with a tensor for each item, or padded tensors with ``lengths``.
    """
    if isinstance(structure, Family):
        if lengths is None:
            return _pack_list(structure, theta)
        return _pack_padded(structure, theta, _checked_lengths(lengths))
    if lengths is not None:
        raise InvalidInput(f"lengths are for families of structures of different sizes, not {structure!r}")
    if isinstance(theta, tuple):
        return _pack_chain(structure, theta)
    scores = as_scores(theta)
    shape, k = structure.shape, len(structure.shape)
    if scores.ndim < k or tuple(scores.shape[scores.ndim - k :]) != shape:
        wanted = ", ".join(["...", *map(str, shape)])
        raise InvalidInput(f"scores have shape {tuple(scores.shape)}, but {structure!r} needs ({wanted})")
    batch = tuple(scores.shape[: scores.ndim - k])
    rows = scores.reshape(-1, *shape) if 0 not in batch else scores.reshape(0, *shape)
    return Batch(structure, rows, None, batch, lambda out: out.reshape(batch + shape))


def _pack_chain(structure: Structure, parts: tuple[Any, ...]) -> Batch:
    if not isinstance(structure, Chain) or len(parts) != 2:
        raise InvalidInput(f"a pair of nodes and edges is for chains, not {structure!r}")
    nodes, edges = as_scores(parts[0], "node scores"), as_scores(parts[1], "edge scores")
    n, k = structure.length, structure.labels
    batch = tuple(nodes.shape[:-2])
    if tuple(nodes.shape[-2:]) != (n, k):
        raise InvalidInput(f"node scores have shape {tuple(nodes.shape)}, but {structure!r} needs (..., {n}, {k})")
    table = (k, k) if structure.tied else (max(n - 1, 0), k, k)
    wide = edges.expand(*batch, *table) if 0 not in table else edges.new_zeros(*batch, *table)
    flat = torch.cat([nodes.reshape(*batch, n * k), wide.reshape(*batch, structure.dim - n * k)], dim=-1)
    rows = flat.reshape(-1, structure.dim) if 0 not in batch else flat.reshape(0, structure.dim)

    def restore(out: Tensor) -> tuple[Tensor, Tensor]:
        return out[:, : n * k].reshape(*batch, n, k), out[:, n * k :].reshape(*batch, *table)

    return Batch(structure, rows, None, batch, restore)


def _pack_list(structure: Family, theta: Any) -> Batch:
    if isinstance(theta, torch.Tensor) or not isinstance(theta, Sequence):
        raise InvalidInput(
            f"scores of {structure!r} are a list with a tensor for each item, or padded tensors with lengths=..."
        )
    items = [as_scores(item, f"scores of item {i}") for i, item in enumerate(theta)]
    sizes = np.array([item.numel() for item in items], np.int64)
    flat = torch.cat([item.reshape(-1) for item in items]) if items else torch.zeros(0)

    def restore(out: Tensor) -> list[Tensor]:
        return [part.reshape(item.shape) for part, item in zip(out.split(sizes.tolist()), items, strict=True)]

    return Batch(structure, flat, sizes, (len(items),), restore)


def _checked_lengths(lengths: Any) -> IntArray:
    found = np.asarray(numbers(lengths) if isinstance(lengths, torch.Tensor) else lengths)
    if found.ndim != 1 or (found.size and (found.dtype.kind not in "iu" or found.min() < 0)):
        raise InvalidInput("lengths must be a whole number, zero or more, for each item")
    return found.astype(np.int64)


def _pack_padded(structure: Family, theta: Any, lengths: IntArray) -> Batch:
    if isinstance(structure, Chains):
        return _pack_chains(structure, theta, lengths)
    scores = as_scores(theta)
    if len(lengths) != len(scores):
        raise InvalidInput(f"there are {len(scores)} items, but {len(lengths)} lengths")
    keep = torch.from_numpy(_inside(structure, tuple(scores.shape), lengths)).to(scores.device)
    places = keep.reshape(-1).nonzero()[:, 0]
    sizes = keep.reshape(len(scores), -1).sum(dim=1).cpu().numpy().astype(np.int64)

    def restore(out: Tensor) -> Tensor:
        return out.new_zeros(scores.numel()).index_put((places,), out).reshape(scores.shape)

    return Batch(structure, scores.reshape(-1)[places], sizes, (len(scores),), restore)


def _inside(structure: Family, shape: tuple[int, ...], lengths: IntArray) -> Array:
    """Which entries of the padded tensor are an item's own."""
    if not isinstance(structure, Birkhoffs | Arborescences | DependencyTrees | Matchings):
        raise InvalidInput(f"{structure!r} takes a list of tensors, not padded ones")
    if len(shape) < 3:
        raise InvalidInput(f"scores have shape {shape}, expected (items, rows, columns)")
    more = 0 if isinstance(structure, Birkhoffs) else 1  # the column of the root, or of no partner
    room = (lengths <= shape[1]) & (lengths + more <= shape[2])
    if not room.all():
        i = int((~room).argmax())
        raise InvalidInput(f"item {i} has length {lengths[i]}, but the padded shape {shape} has no room for it")
    row, column = np.arange(shape[1]), np.arange(shape[2])
    if isinstance(structure, Matchings):  # no partner is the last column of all
        wide = (column < lengths[:, None]) | (column == shape[2] - 1)
    else:
        wide = column < lengths[:, None] + more
    keep = (row < lengths[:, None])[:, :, None] & wide[:, None, :]
    extra = shape[3:]
    return np.broadcast_to(keep.reshape(*keep.shape, *(1 for _ in extra)), (*keep.shape, *extra)).copy()


def _pack_chains(structure: Chains, theta: Any, lengths: IntArray) -> Batch:
    nodes_given, edges_given = theta if isinstance(theta, tuple) else (theta, None)
    nodes, k = as_scores(nodes_given, "node scores"), structure.labels
    if nodes.ndim != 3 or nodes.shape[2] != k:
        raise InvalidInput(f"node scores have shape {tuple(nodes.shape)}, but {structure!r} needs (items, length, {k})")
    b, longest = int(nodes.shape[0]), int(nodes.shape[1])
    if len(lengths) != b or lengths.max(initial=0) > longest:
        raise InvalidInput(f"there are {b} items of at most {longest} positions, but lengths are {lengths.tolist()}")
    sizes = structure.sizes_of(lengths)
    tables = (sizes - lengths * k) // (k * k)
    stride = 1 if structure.tied else longest - 1
    at_node, node_rows = _runs(sizes, lengths, 0 * lengths, k, longest, nodes.device)
    at_edge, edge_rows = _runs(sizes, tables, lengths * k, k * k, stride, nodes.device)
    flat = nodes.new_zeros(int(sizes.sum()))
    flat = flat.index_put((at_node,), nodes.reshape(b * longest, k)[node_rows].reshape(-1))
    shape: tuple[int, ...] = (b, k, k) if structure.tied else (b, max(longest - 1, 0), k, k)
    if edges_given is not None:
        edges = as_scores(edges_given, "edge scores").to(nodes.dtype)
        if edges.ndim == 2:  # one table for all pairs of all items
            values = edges.expand(len(edge_rows), k, k)
        else:
            values = edges.expand(shape).reshape(-1, k, k)[edge_rows]
        flat = flat.index_put((at_edge,), values.reshape(-1))

    def restore(out: Tensor) -> Any:
        node = out.new_zeros(b * longest, k).index_put((node_rows,), out[at_node].reshape(-1, k)).reshape(b, longest, k)
        if edges_given is None:
            return node
        empty = out.new_zeros(int(np.prod(shape[:-2])), k, k)
        return node, empty.index_put((edge_rows,), out[at_edge].reshape(-1, k, k)).reshape(shape)

    return Batch(structure, flat, sizes, (b,), restore)


def _runs(
    sizes: IntArray, counts: IntArray, skipped: IntArray, step: int, stride: int, device: Any
) -> tuple[Tensor, Tensor]:
    """Of ``counts`` blocks of ``step`` numbers in each item, after the ``skipped`` first: their places among the flat numbers,
    and their rows where each item has ``stride`` of them."""
    item = np.repeat(np.arange(len(counts)), counts)
    within = np.arange(int(counts.sum())) - np.repeat(offsets_of(counts)[:-1], counts)
    places = ((offsets_of(sizes)[:-1] + skipped)[item] + within * step)[:, None] + np.arange(step)
    return torch.from_numpy(places.reshape(-1)).to(device), torch.from_numpy(item * stride + within).to(device)


def _soft_points(batch: Batch, y: Any, lengths: Any) -> Any:
    """Truths that are points like the scores of a family's items, or of a chain's nodes and edges; None if they are outputs."""

    def floating(value: Any) -> bool:
        return isinstance(value, torch.Tensor) and value.is_floating_point()

    if isinstance(y, tuple):
        if len(y) != 2 or not all(map(floating, y)) or y[0].ndim < 2:
            return None
    elif batch.sizes is None:
        return None  # one structure, one tensor: the caller knows its shape
    elif floating(y):
        if y.ndim < 3:
            return None
    elif not (
        isinstance(y, list)
        and len(y) == len(batch.sizes) > 0
        and all(floating(item) and item.numel() == n for item, n in zip(y, batch.sizes, strict=True))
    ):
        return None
    points = pack(batch.structure, y, lengths)
    if points.scores.shape != batch.scores.shape:
        raise InvalidInput("truths that are points of the hull must have the shape of the scores")
    return points.rows(numbers(points.scores.to(batch.scores.dtype)))


def outputs_of(batch: Batch, y: Any, lengths: Any) -> Any:
    """The points v of truths: whole numbers are outputs, floating-point numbers like the scores are points themselves."""
    structure = batch.structure
    soft = _soft_points(batch, y, lengths)
    if soft is not None:
        return soft
    given: Any = numbers(y) if isinstance(y, torch.Tensor) else y
    is_points = isinstance(y, torch.Tensor) and y.is_floating_point() and batch.sizes is None
    if is_points and given.shape == batch.shape + structure.shape:
        return given.reshape(tuple(batch.scores.shape))
    if batch.sizes is None:
        encoded = structure.encode(np.asarray(given))
        batch_shape = encoded.shape[: encoded.ndim - len(structure.shape)]
        if batch_shape != batch.shape:
            raise InvalidInput(f"there are scores of batch shape {batch.shape}, but truths of {batch_shape}")
        return encoded.reshape(tuple(batch.scores.shape))
    items = [numbers(item) if isinstance(item, torch.Tensor) else item for item in given]
    if lengths is not None and isinstance(given, np.ndarray):
        items = [item[: int(n)] for item, n in zip(items, _checked_lengths(lengths), strict=True)]
    v: Any = structure.encode(items)
    if not np.array_equal(v.sizes, batch.sizes):
        wrong = np.flatnonzero(v.sizes != batch.sizes) if len(v) == len(batch.sizes) else np.array([0])
        raise InvalidInput(f"the truth of item {int(wrong[0])} has another size than its scores")
    return v
