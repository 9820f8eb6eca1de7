"""Kernels between inputs (or outputs): scikit-learn's by name, or a function of two matrices of rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .errors import InvalidInput
from .parallel import run_blocks
from .types import Array

__all__ = ["kernel_matrix"]

_BLOCK_BYTES = 2**21  # of distances that are made into kernel values while they are in the cache


def kernel_matrix(A: Any, B: Any, kernel: str | Callable[..., Any], params: Mapping[str, Any]) -> Array:
    """k(a, b) for the rows of two matrices, in an array of its own: a function may keep what it gives."""
    if callable(kernel):
        gram = np.array(kernel(A, B, **params), dtype=np.float64)
    elif kernel == "rbf" and set(params) <= {"gamma"} and _plain(A) and _plain(B):
        gram = _rbf(A, B, params.get("gamma"))
    else:
        from sklearn.metrics.pairwise import pairwise_kernels

        try:
            gram = np.asarray(pairwise_kernels(A, B, metric=kernel, **params), dtype=np.float64)
        except (KeyError, ValueError, TypeError) as error:
            raise InvalidInput(f"kernel is {kernel!r} with parameters {dict(params)!r}: {error}") from None
    if gram.shape != (A.shape[0], B.shape[0]) or not np.isfinite(gram).all():
        raise InvalidInput(f"kernel {kernel!r} must give finite numbers of shape ({A.shape[0]}, {B.shape[0]})")
    return gram


def _plain(rows: Any) -> bool:
    return isinstance(rows, np.ndarray) and rows.ndim == 2 and rows.dtype.kind == "f"


def _rbf(A: Array, B: Array, gamma: float | None) -> Array:
    """exp(−γ‖a − b‖²), block by block on the pool: the exponentials cost more than the products."""
    if gamma is None:
        gamma = 1.0 / max(A.shape[1], 1)
    if A.shape[1] != B.shape[1] or not gamma > 0:
        raise InvalidInput(f"kernel is 'rbf' with gamma {gamma!r} on rows of {A.shape[1]} and {B.shape[1]} numbers")
    same = A is B
    mean = B.mean(axis=0, dtype=np.float64) if len(B) else 0.0  # distances between small numbers cancel less
    B = B - mean
    A = B if same else A - mean
    # −γ‖a − b‖² as one product: (√2γ a, −γ‖a‖², 1) with (√2γ b, 1, −γ‖b‖²)
    root = np.sqrt(2 * gamma)
    left = np.column_stack([root * A, -gamma * np.einsum("ij,ij->i", A, A), np.ones(len(A))])
    right = np.column_stack([root * B, np.ones(len(B)), -gamma * np.einsum("ij,ij->i", B, B)])
    gram = np.empty((len(A), len(B)))
    block = max(1, _BLOCK_BYTES // (8 * max(len(B), 1)))

    def fill(b: int, start: int, stop: int) -> None:
        # of a symmetric matrix the part right of the diagonal block only; the rest is copied below
        first = start if same else 0
        part = left[start:stop] @ right[first:].T
        np.minimum(part, 0, out=part)
        np.exp(part, out=gram[start:stop, first:])

    run_blocks(fill, len(A), block, worth=gram.size > 1e5)
    if same:
        for start in range(0, len(A), 256):
            stop = min(start + 256, len(A))
            gram[stop:, start:stop] = gram[start:stop, stop:].T
            inner = gram[start:stop, start:stop]
            upper = np.triu(inner, 1)
            inner[:] = upper + upper.T
            np.fill_diagonal(inner, 1.0)
    return gram
