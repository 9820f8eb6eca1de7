"""Each word's distribution over its heads by itself. Trees are laid out as in ``arborescence``."""

from __future__ import annotations

import numpy as np

from .._core.compile import kernel
from .arborescence import IMPOSSIBLE, SOLVED
from .special import fast_exp

__all__ = ["head_selection"]


@kernel
def head_selection(start, stop, flat, starts, words, labels, points, less, value, out, status):  # type: ignore[no-untyped-def]
    """value = Σ over words of log Σ exp(scores) + Σ v log v − ⟨scores, v⟩ at v = ``points``; out = softmax − less · v.

    A word's distribution is over all its heads but itself, and their labels. With ``less`` = 0 there is no value. O(n²).
    """
    for item in range(start, stop):
        n = words[item]
        width = (n + 1) * labels
        total = 0.0
        status[item] = SOLVED
        for m in range(n):
            first = starts[item] + m * width
            scores, v, mu = flat[first : first + width], points[first : first + width], out[first : first + width]
            own, after = (m + 1) * labels, (m + 2) * labels
            top = -np.inf
            for h in range(own):
                top = max(top, scores[h])
            for h in range(after, width):
                top = max(top, scores[h])
            if top == -np.inf:
                status[item] = IMPOSSIBLE
                break
            for h in range(width):
                d = scores[h] - top
                mu[h] = fast_exp(d) if d > -708.0 else 0.0
            for h in range(own, after):
                mu[h] = 0.0
            mass = 0.0
            for h in range(width):
                mass += mu[h]
            inverse = 1.0 / mass
            if less == 0.0:
                for h in range(width):
                    mu[h] *= inverse
                continue
            size, linear = 0.0, 0.0
            for h in range(width):
                x = v[h]
                if x != 0.0:
                    size += x
                    linear += x * (scores[h] - top)
                    if x != 1.0:
                        linear -= x * np.log(x)
                mu[h] = mu[h] * inverse - less * x
            total += size * np.log(mass) - linear
        value[item] = total
