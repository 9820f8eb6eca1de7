"""Surrogate losses of pairs of rated items; scores and gradients have an entry for each rating, user by user."""

from __future__ import annotations

import numpy as np

from .._core.compile import kernel

__all__ = ["add_by_item", "pair_loss", "ranking_loss", "rated_scores"]


@kernel
def rated_scores(start, stop, inputs, B, items, offsets, scores):  # type: ignore[no-untyped-def]
    """⟨B_i, x_u⟩ for the items that users rated, which are few of all."""
    for user in range(start, stop):
        x = inputs[user]
        for p in range(offsets[user], offsets[user + 1]):
            b = B[items[p]]
            total = 0.0
            for k in range(len(x)):
                total += b[k] * x[k]
            scores[p] = total


@kernel
def add_by_item(start, stop, inputs, gradient, users, places, bounds, result):  # type: ignore[no-untyped-def]
    """Σ over the ratings of each item of gradient · x_u; ``places`` are the ratings item by item."""
    for item in range(start, stop):
        row = result[item]
        row[:] = 0.0
        for q in range(bounds[item], bounds[item + 1]):
            p = places[q]
            g = gradient[p]
            x = inputs[users[p]]
            for k in range(len(x)):
                row[k] += g * x[k]


@kernel
def pair_loss(start, stop, scores, ratings, offsets, scale, logistic, values, gradient):  # type: ignore[no-untyped-def]
    """Σ (r_i − r_j) φ(s_i − s_j) over the pairs with r_i > r_j of each user: logistic log(1 + e^−t), or hinge (1 − t)₊."""
    for user in range(start, stop):
        low, high = offsets[user], offsets[user + 1]
        total = 0.0
        gradient[low:high] = 0.0
        for p in range(low, high):
            for q in range(low, high):
                weight = (ratings[p] - ratings[q]) * scale[user]
                if weight <= 0.0:
                    continue
                t = scores[p] - scores[q]
                if logistic:
                    e = np.exp(-abs(t))
                    total += weight * (np.log1p(e) + max(-t, 0.0))
                    slope = -weight * (1.0 / (1.0 + e) if t < 0.0 else e / (1.0 + e))
                else:
                    total += weight * max(1.0 - t, 0.0)
                    slope = -weight if t < 1.0 else 0.0
                gradient[p] += slope
                gradient[q] -= slope
        values[user] = total


@kernel
def ranking_loss(start, stop, scores, ratings, offsets, scale, values, gradient):  # type: ignore[no-untyped-def]
    """max over rankings of [cost + score] − score of the ratings' order, the score Σ (s_i − s_j)/P over ordered pairs.

    Each pair i before j earns (s_i − s_j)/P and costs (r_j − r_i)₊ · scale, up to a constant h_i − h_j with
    h = s/P − r · scale/2, so the ranking that is found by sorting h is the exact maximum.
    """
    for user in range(start, stop):
        low, high = offsets[user], offsets[user + 1]
        n = high - low
        values[user] = 0.0
        gradient[low:high] = 0.0
        pairs = 0
        for p in range(low, high):
            for q in range(low, high):
                pairs += ratings[p] > ratings[q]
        if pairs == 0:
            continue
        h = np.empty(n)
        for i in range(n):
            h[i] = ratings[low + i] * scale[user] / 2 - scores[low + i] / pairs
        order = np.argsort(h, kind="mergesort")
        total = 0.5
        for place in range(n):
            p = low + order[place]
            above = 0
            for q in range(low, high):
                above += (ratings[p] > ratings[q]) - (ratings[p] < ratings[q])
            lead = n - 1 - 2 * place
            gradient[p] = (lead - above) / pairs
            # a pair in the wrong order costs (|r_i − r_j| − (r_i − r_j))/2 · scale: one half in all, less a sum over the order
            total += gradient[p] * scores[p] - lead * ratings[p] * scale[user] / 2
        values[user] = total
