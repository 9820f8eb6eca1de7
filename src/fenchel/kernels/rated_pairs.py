"""Surrogate losses of pairs of rated items."""

from __future__ import annotations

import numpy as np

from .._core.compile import kernel

__all__ = ["pair_loss"]


@kernel
def pair_loss(start, stop, scores, items, ratings, offsets, logistic, values, gradient):  # type: ignore[no-untyped-def]
    """Σ (r_i − r_j) φ(s_i − s_j) over the pairs with r_i > r_j of each user: logistic log(1 + e^−t), or hinge (1 − t)₊."""
    for user in range(start, stop):
        total = 0.0
        gradient[user] = 0.0
        for p in range(offsets[user], offsets[user + 1]):
            for q in range(offsets[user], offsets[user + 1]):
                weight = ratings[p] - ratings[q]
                if weight <= 0.0:
                    continue
                t = scores[user, items[p]] - scores[user, items[q]]
                if logistic:
                    e = np.exp(-abs(t))
                    total += weight * (np.log1p(e) + max(-t, 0.0))
                    slope = -weight * (1.0 / (1.0 + e) if t < 0.0 else e / (1.0 + e))
                else:
                    total += weight * max(1.0 - t, 0.0)
                    slope = -weight if t < 1.0 else 0.0
                gradient[user, items[p]] += slope
                gradient[user, items[q]] -= slope
        values[user] = total
