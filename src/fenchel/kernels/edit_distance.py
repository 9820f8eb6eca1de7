"""Levenshtein's distance between many pairs of texts."""

from __future__ import annotations

import numpy as np

from .._core.compile import kernel

__all__ = ["between"]


@kernel
def between(start, stop, first, first_offsets, second, second_offsets, paired, costs):  # type: ignore[no-untyped-def]
    """costs[a, b] for the a-th text of the first list and every b-th of the second, or only b = a if ``paired``."""
    longest = 0
    for b in range(len(second_offsets) - 1):
        longest = max(longest, second_offsets[b + 1] - second_offsets[b])
    row = np.empty(longest + 1, np.int64)
    for a in range(start, stop):
        x = first[first_offsets[a] : first_offsets[a + 1]]
        low = a if paired else 0
        high = a + 1 if paired else len(second_offsets) - 1
        for b in range(low, high):
            y = second[second_offsets[b] : second_offsets[b + 1]]
            m = len(y)
            for j in range(m + 1):
                row[j] = j
            for i in range(len(x)):
                diagonal = row[0]
                row[0] = i + 1
                left = i + 1
                for j in range(m):
                    above = row[j + 1]
                    best = diagonal + (0 if x[i] == y[j] else 1)
                    best = min(best, above + 1)
                    left = min(best, left + 1)
                    row[j + 1] = left
                    diagonal = above
            costs[a, 0 if paired else b] = row[m]
