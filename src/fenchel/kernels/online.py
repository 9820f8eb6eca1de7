"""Online gradient descent in compiled loops: the step rules, and a stream of softmax rounds.

Everything is an exact kernel: a round has to give the same bits whichever of the loops it runs in.

Weights are m · s · V with two numbers in front, so that a step on a sparse row touches only the rows of V that the input has,
even where the rule shrinks or rescales all weights. The state of a rule is a short row of numbers:

    0 kind (0 constant, 1 adaptive, 2 parameter-free)   1 parameter (rate, diameter, bound on gradients)
    2 sum of squared gradients   3 squared norm of s·V   4 wealth   5 betting fraction   6 curvature of the bets
    7 s   8 m   9 rounds   10 sum of the multipliers m·s over rounds (for the average)
"""

from __future__ import annotations

import numpy as np

from .._core.compile import exact_kernel

__all__ = ["STATE_SIZE", "softmax_answer", "softmax_learn", "softmax_rounds", "update"]

STATE_SIZE = 11
_BETS = 2.0 / (2.0 - np.log(3.0))
_TINY = 1e-300


@exact_kernel
def _advance(state, g2, gu):  # type: ignore[no-untyped-def]
    """Numbers (a, b) of the step U ← a U + b g; ``gu`` is ⟨g, U⟩, ``g2`` is ‖g‖². The rest is noted in the state."""
    kind = int(state[0])
    if g2 == 0.0:
        return 1.0, 0.0
    if kind == 0:
        rate = state[1]
        state[3] = max(state[3] - 2 * rate * gu + rate * rate * g2, 0.0)
        return 1.0, -rate
    state[2] += g2
    if kind == 1:
        radius = 0.5 * state[1]
        rate = state[1] / np.sqrt(2.0 * state[2])
    else:
        # the bet: a gradient in one dimension, in units of the bound on gradients
        slope = gu / state[1]
        state[4] -= slope * state[5] * state[4]
        z = slope / (1.0 - slope * state[5])
        state[6] += z * z
        state[5] = min(0.5, max(-0.5, state[5] - _BETS * z / state[6]))
        state[8] = state[5] * state[4]
        radius = 1.0
        rate = np.sqrt(2.0) / np.sqrt(state[2])
    square = max(state[3] - 2 * rate * gu + rate * rate * g2, 0.0)
    shrink = 1.0 if square <= radius * radius else radius / np.sqrt(square)
    state[3] = min(square, radius * radius)
    return shrink, -shrink * rate


@exact_kernel
def _apply(state, a, b, indices, values, residual, weights, total):  # type: ignore[no-untyped-def]
    """U ← a U + b x rᵀ on U = s V; ``total`` completes the sum of all past weights m s V."""
    s = state[7] * a
    if not 1e-100 < abs(s) < 1e100:  # fold the scale before it loses digits
        weights *= s
        state[10] /= s
        s = 1.0
    state[7] = s
    played = state[10]
    for i in range(len(indices)):
        row, sums = weights[indices[i]], total[indices[i]]
        step = b * values[i] / s
        for j in range(len(residual)):
            change = step * residual[j]
            row[j] += change
            sums[j] -= played * change


@exact_kernel
def update(state, indices, values, residual, theta, weights, total):  # type: ignore[no-untyped-def]
    """One round of learning from a sparse input: the gradient of the loss in the weights is x rᵀ."""
    state[9] += 1
    state[10] += state[8] * state[7]  # the weights that were played count in the average
    x2 = 0.0
    for i in range(len(values)):
        x2 += values[i] * values[i]
    r2 = 0.0
    inner = 0.0
    for j in range(len(residual)):
        r2 += residual[j] * residual[j]
        inner += residual[j] * theta[j]
    if x2 == 0.0 or r2 == 0.0:
        return
    gu = inner / state[8] if abs(state[8]) > _TINY else _direction(state, indices, values, residual, weights)
    a, b = _advance(state, x2 * r2, gu)
    _apply(state, a, b, indices, values, residual, weights, total)


@exact_kernel
def _direction(state, indices, values, residual, weights):  # type: ignore[no-untyped-def]
    """⟨x rᵀ, U⟩ from the weights themselves, where m is zero and the scores say nothing."""
    gu = 0.0
    for i in range(len(indices)):
        row = indices[i]
        for j in range(len(residual)):
            gu += values[i] * residual[j] * weights[row, j]
    return gu * state[7]


@exact_kernel
def _gathered(indices, data, start, stop, intercept, last, places, numbers):  # type: ignore[no-untyped-def]
    """One row with its intercept; how many entries it has."""
    n = stop - start
    for i in range(n):
        places[i] = indices[start + i]
        numbers[i] = data[start + i]
    if intercept != 0.0:
        places[n] = last
        numbers[n] = intercept
        n += 1
    return n


@exact_kernel
def _softmax(state, strength, places, numbers, n, weights, theta, mu):  # type: ignore[no-untyped-def]
    """Scores and class probabilities; the likeliest class, its score and Σ exp relative to it."""
    k = weights.shape[1]
    scale = state[7] * state[8]
    theta[:] = 0.0
    for i in range(n):
        row = weights[places[i]]
        number = numbers[i] * scale
        for j in range(k):
            theta[j] += number * row[j]
    top = -np.inf
    best = 0
    for j in range(k):
        if theta[j] > top:
            top = theta[j]
            best = j
    norm = 0.0
    for j in range(k):
        mu[j] = np.exp((theta[j] - top) / strength)
        norm += mu[j]
    for j in range(k):
        mu[j] /= norm
    return best, top, norm


@exact_kernel
def _drawn(mu, best, coin, u):  # type: ignore[no-untyped-def]
    """The answer of randomized decoding in the 1-norm, and the probability that it was drawn."""
    k = len(mu)
    # the nearest vertex is the likeliest class; twice its distance over that of two vertices
    p = min(1.0, 2.0 * (1.0 - mu[best])) if k > 1 else 0.0
    if coin >= p:
        return best, p
    below = 0.0
    for j in range(k):
        below += mu[j]
        if u < below:
            return j, p
    return k - 1, p


@exact_kernel
def softmax_answer(indices, data, strength, intercept, coin, u, state, weights):  # type: ignore[no-untyped-def]
    """The class that randomized decoding plays for one row."""
    k = weights.shape[1]
    places, numbers = np.empty(len(indices) + 1, np.int64), np.empty(len(indices) + 1)
    theta, mu = np.empty(k), np.empty(k)
    n = _gathered(indices, data, 0, len(indices), intercept, weights.shape[0] - 1, places, numbers)
    best, _, _ = _softmax(state, strength, places, numbers, n, weights, theta, mu)
    return _drawn(mu, best, coin, u)[0]


@exact_kernel
def softmax_learn(data, indices, indptr, truths, multiplier, strength, intercept, state, weights, total):  # type: ignore[no-untyped-def]
    """Learn rows (CSR) one after the other with the logistic loss, playing nothing."""
    k = weights.shape[1]
    theta, mu = np.empty(k), np.empty(k)
    longest = 0
    for t in range(len(indptr) - 1):
        longest = max(longest, indptr[t + 1] - indptr[t])
    places, numbers = np.empty(longest + 1, np.int64), np.empty(longest + 1)
    for t in range(len(indptr) - 1):
        n = _gathered(indices, data, indptr[t], indptr[t + 1], intercept, weights.shape[0] - 1, places, numbers)
        _softmax(state, strength, places, numbers, n, weights, theta, mu)
        mu[truths[t]] -= 1.0
        for j in range(k):
            mu[j] *= multiplier
        update(state, places[:n], numbers[:n], mu, theta, weights, total)


@exact_kernel
def softmax_rounds(data, indices, indptr, truths, multiplier, strength, intercept, uniforms, state, weights, total,
                   answers, random_probability, expected, surrogate):  # type: ignore[no-untyped-def]  # fmt: skip
    """Rounds of online classification with the logistic loss: predict, play at random, learn.

    Rows are sparse (CSR); ``intercept`` is the value of a last column that every row has (0: none). ``uniforms`` holds two
    numbers in [0, 1) per round. Outputs: the class played, the probability of a random draw, the expected
    zero-one cost and the loss of each round.
    """
    k = weights.shape[1]
    theta, mu = np.empty(k), np.empty(k)
    longest = 0
    for t in range(len(indptr) - 1):
        longest = max(longest, indptr[t + 1] - indptr[t])
    places, numbers = np.empty(longest + 1, np.int64), np.empty(longest + 1)
    for t in range(len(indptr) - 1):
        n = _gathered(indices, data, indptr[t], indptr[t + 1], intercept, weights.shape[0] - 1, places, numbers)
        best, top, norm = _softmax(state, strength, places, numbers, n, weights, theta, mu)
        answer, p = _drawn(mu, best, uniforms[t, 0], uniforms[t, 1])
        answers[t] = answer
        random_probability[t] = p
        y = truths[t]
        wrong = 0.0 if y == best else 1.0
        expected[t] = (1.0 - p) * wrong + p * (1.0 - mu[y])
        surrogate[t] = multiplier * (strength * np.log(norm) + top - theta[y])
        mu[y] -= 1.0
        for j in range(k):
            mu[j] *= multiplier
        update(state, places[:n], numbers[:n], mu, theta, weights, total)
