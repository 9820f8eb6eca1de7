"""Products of sparse rows (CSR) with weights that only some cells (feature, label) have, the others being zero.

The cells of feature f are cell_starts[f] to cell_starts[f + 1], with their labels in cell_labels; w has a weight for each.
"""

from __future__ import annotations

from .._core.compile import kernel
from .._core.types import Array, IntArray

__all__ = ["cell_adjoint", "cell_scores"]


@kernel
def cell_scores(
    start: int,
    stop: int,
    ends: IntArray,
    columns: IntArray,
    values: Array,
    cell_starts: IntArray,
    cell_labels: IntArray,
    w: Array,
    out: Array,
) -> None:
    """out[t] += sum over the features of row t. O(cells of the features that the rows have)."""
    for t in range(start, stop):
        row = out[t]
        for place in range(ends[t], ends[t + 1]):
            f, x = columns[place], values[place]
            for c in range(cell_starts[f], cell_starts[f + 1]):
                row[cell_labels[c]] += x * w[c]


@kernel
def cell_adjoint(
    start: int,
    stop: int,
    ends: IntArray,
    columns: IntArray,
    values: Array,
    cell_starts: IntArray,
    cell_labels: IntArray,
    residual: Array,
    block: int,
    out: Array,
) -> None:
    """out[b]: the gradient of the rows b * block to (b + 1) * block."""
    for b in range(start, stop):
        gradient = out[b]
        gradient[:] = 0.0
        for t in range(b * block, min((b + 1) * block, residual.shape[0])):
            row = residual[t]
            for place in range(ends[t], ends[t + 1]):
                f, x = columns[place], values[place]
                for c in range(cell_starts[f], cell_starts[f + 1]):
                    gradient[c] += x * row[cell_labels[c]]
