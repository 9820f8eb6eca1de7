"""Inner loops of the probability simplex: Euclidean projection (sparsemax), softmax, and their losses in one pass."""

from __future__ import annotations

import numpy as np

from .._core.compile import inline_kernel, kernel
from .._core.types import Array
from .special import fast_exp

__all__ = ["logistic_loss", "project", "softmax", "sparsemax_loss"]

# Above this length the entries that can be positive are gathered first, so that the threshold search reads few.
_GATHER_FROM = 64


@inline_kernel
def _row_max(row):  # type: ignore[no-untyped-def]
    """The largest score; -inf where nothing may be chosen or where a score is NaN or +inf (the caller looks again)."""
    top = row[0]
    bad = 0
    for j in range(row.shape[0]):
        top = max(top, row[j])
        bad += 0 if row[j] < np.inf else 1
    return top if bad == 0 else -np.inf


@inline_kernel
def _threshold(row, top, scale, buffer):  # type: ignore[no-untyped-def]
    """tau with sum max((row - top) * scale - tau, 0) = 1.

    Newton's method on a convex, decreasing, piecewise linear function, from the left (at -1 the largest entry alone
    gives 1, so the root is not below): it never overshoots and ends after finitely many steps, three to five as a rule
    (Michelot 1986; Condat 2016).
    """
    k = row.shape[0]
    tau = -1.0
    count = k + 1.0  # it can only fall; where it does not, or rounding makes it rise, the threshold is found
    if k >= _GATHER_FROM:
        m = 0
        for j in range(k):
            d = (row[j] - top) * scale
            if d > -1.0:
                buffer[m] = d
                m += 1
        while True:
            total = 0.0
            now = 0.0
            for j in range(m):
                d = buffer[j]
                total += d if d > tau else 0.0
                now += 1.0 if d > tau else 0.0
            if now >= count:
                return tau
            count = now
            tau = (total - 1.0) / now
    while True:
        total = 0.0
        now = 0.0
        for j in range(k):
            d = (row[j] - top) * scale
            total += d if d > tau else 0.0
            now += 1.0 if d > tau else 0.0
        if now >= count:
            return tau
        count = now
        tau = (total - 1.0) / now


@kernel
def project(start: int, stop: int, theta: Array, scale: float, out: Array) -> None:
    """out[i] = the Euclidean projection of scale * theta[i] onto the simplex; NaN marks a row with no answer."""
    k = theta.shape[1]
    buffer = np.empty(k)
    for i in range(start, stop):
        row = theta[i]
        top = _row_max(row)
        if top == -np.inf:
            out[i, 0] = np.nan
            continue
        tau = _threshold(row, top, scale, buffer)
        for j in range(k):
            out[i, j] = max((row[j] - top) * scale - tau, 0.0)


@kernel
def softmax(start: int, stop: int, theta: Array, scale: float, out: Array, log_sum: Array) -> None:
    """out[i] = softmax(scale * theta[i]) and its log-sum-exp; NaN marks a row with no answer."""
    k = theta.shape[1]
    for i in range(start, stop):
        row = theta[i]
        top = _row_max(row)
        if top == -np.inf:
            out[i, 0] = np.nan
            log_sum[i] = -np.inf
            continue
        total = 0.0
        for j in range(k):
            d = (row[j] - top) * scale
            e = fast_exp(d) if d > -708.0 else 0.0
            out[i, j] = e
            total += e
        inverse = 1.0 / total
        for j in range(k):
            out[i, j] *= inverse
        log_sum[i] = top * scale + np.log(total)


@kernel
def sparsemax_loss(start: int, stop: int, theta: Array, v: Array, strength: float, value: Array, mu: Array) -> None:
    """value[i] = S(theta[i]; v[i]) for Omega = strength/2 ||.||^2 on the simplex, and mu[i] its prediction.

    Written as strength/2 ||v - mu||^2 + <theta - strength mu, mu - v>, two terms that are both non-negative, so that
    nothing large cancels.
    """
    k = theta.shape[1]
    buffer = np.empty(k)
    scale = 1.0 / strength
    for i in range(start, stop):
        row = theta[i]
        top = _row_max(row)
        if top == -np.inf:
            mu[i, 0] = np.nan
            value[i] = np.nan
            continue
        tau = _threshold(row, top, scale, buffer)
        square = 0.0
        linear = 0.0
        for j in range(k):
            d = row[j] - top
            m = max(d * scale - tau, 0.0)
            mu[i, j] = m
            gap = v[i, j] - m
            square += gap * gap
            # theta - strength * mu, less the constant strength * tau that sum(mu - v) = 0 cancels
            slack = min(d - strength * tau, 0.0)
            linear -= slack * gap if gap != 0.0 else 0.0
        value[i] = 0.5 * strength * square + linear


@kernel
def logistic_loss(start: int, stop: int, theta: Array, v: Array, strength: float, value: Array, mu: Array) -> None:
    """value[i] = S(theta[i]; v[i]) for Omega = strength <., log .> on the simplex, and mu[i] its prediction."""
    k = theta.shape[1]
    scale = 1.0 / strength
    for i in range(start, stop):
        row = theta[i]
        top = _row_max(row)
        if top == -np.inf:
            mu[i, 0] = np.nan
            value[i] = np.nan
            continue
        total = 0.0
        linear = 0.0
        mass = 0.0
        for j in range(k):
            d = (row[j] - top) * scale
            e = fast_exp(d) if d > -708.0 else 0.0
            mu[i, j] = e
            total += e
            w = v[i, j]
            linear += w * d if w != 0.0 else 0.0
            mass += w
        inverse = 1.0 / total
        entropy = 0.0
        for j in range(k):
            mu[i, j] *= inverse
        for j in range(k):
            w = v[i, j]
            if w != 0.0 and w != 1.0:
                entropy += w * np.log(w)
        value[i] = strength * (mass * np.log(total) + entropy - linear)
