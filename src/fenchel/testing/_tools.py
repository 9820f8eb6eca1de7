"""What the conformance suites share: scores of every awkward kind, and ways to run a call in odd places."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from .._core.parallel import set_threads, split_always
from .._core.types import Array
from ..structures.base import Structure

__all__ = ["awkward_scores", "in_forked_child", "in_many_threads", "raises", "with_thread_counts"]

Check = Callable[[], None]


def awkward_scores(structure: Structure, rng: np.random.Generator) -> Iterator[tuple[str, Array]]:
    """Batches of scores, each with a name: random at several scales, tied, constant, integer and one-sided."""
    shape = (7, *structure.shape)
    for scale in (1.0, 5.0, 1e-12, 1e-3, 1e3, 1e12):
        yield f"normal at scale {scale:g}", rng.normal(size=shape) * scale
    yield "all zero", np.zeros((2, *structure.shape))
    yield "all equal", np.full((2, *structure.shape), 3.25)
    yield "small integers, many ties", rng.integers(-2, 3, size=(12, *structure.shape)).astype(float)
    yield "all below zero", -np.abs(rng.normal(size=shape)) - 1
    yield "one large entry", np.where(rng.random(shape) < 1 / max(structure.dim, 1), 1e6, 0.0)
    if structure.bounded:
        spread = structure.project(rng.normal(size=shape)) if structure.supports("project") else rng.random(shape)
        yield "points of the set itself", np.asarray(spread, dtype=float)


def with_thread_counts(compute: Callable[[], list[Array]]) -> Iterator[tuple[int, list[Array]]]:
    """Results of ``compute`` with one, two and five threads, splitting even the smallest batch."""
    before = set_threads(1)
    try:
        for n in (1, 2, 5):
            set_threads(n)
            with split_always():
                yield n, compute()
    finally:
        set_threads(before)


def in_many_threads(compute: Callable[[], list[Array]], n: int = 4) -> list[list[Array]]:
    """Results of ``compute`` from several Python threads that start together."""
    with ThreadPoolExecutor(n) as pool, split_always():
        return [job.result() for job in [pool.submit(compute) for _ in range(n)]]


def in_forked_child(compute: Callable[[], list[Array]], expected: list[Array]) -> str | None:
    """Compute in a forked child, after the pool was used here; None if the child agrees, else what happened."""
    if not hasattr(os, "fork"):
        return None
    child = os.fork()
    if child == 0:  # pragma: no cover - runs in the child
        code = 1
        try:
            with split_always():
                results = compute()
            code = 0 if all(np.array_equal(a, b) for a, b in zip(results, expected, strict=True)) else 2
        finally:
            os._exit(code)
    for _ in range(600):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            return None if code == 0 else f"the forked child ended with code {code}"
        _sleep()
    os.kill(child, 9)
    os.waitpid(child, 0)
    return "the forked child hung"


def _sleep() -> None:
    import time

    time.sleep(0.05)


class raises:
    """A small ``pytest.raises``, so that the suite needs no pytest."""

    def __init__(self, error: type[BaseException], broken: str, *words: str) -> None:
        self.error, self.broken, self.words = error, broken, words

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, value: Any, trace: Any) -> bool:
        assert kind is not None, self.broken
        if not issubclass(kind, self.error):
            return False
        for word in self.words:
            assert word in str(value), f"the error does not say {word!r}: {value}"
        return True
