"""The shared thread pool, and how kernels are driven over it.

A kernel takes ``(start, stop, *arrays)`` and handles the items ``start <= i < stop`` of a batch. :func:`run` calls it
once for small work and in chunks on several threads for large work. Items never share state, so results do not
depend on the number of threads.

What is large is measured, not guessed: for each kernel the pool keeps the time of a unit of work (an exponential
average over serial calls; the first, which may compile, does not count), and splits when the predicted time exceeds
what waking a thread costs.

The pool survives nothing it should not: it is dropped in forked children (a pool's threads do not exist there) and a
call from inside a worker runs serially, so a user's oracle may call the library back.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from time import perf_counter
from typing import Any, TypeVar

from .errors import InvalidInput

__all__ = [
    "get_threads",
    "inside_pool",
    "map_items",
    "run",
    "run_blocks",
    "set_threads",
    "single_blas_thread",
    "split_always",
]

T = TypeVar("T")
R = TypeVar("R")

# Waking a worker and handing over the GIL costs about 0.08 ms (measured); twice that much work has to be there.
_WORTH_SPLITTING = 2.5e-4
_CHUNKS_PER_THREAD = 4


class _State:
    """What is shared by all calls in the process: the thread count, the pool and the measured speeds."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.pool: ThreadPoolExecutor | None = None
        self.threads = _threads_from_environment()
        self.worth_splitting = _WORTH_SPLITTING
        self.speeds: dict[Any, float] = {}  # kernel -> seconds per unit of work; NaN after the first, compiling call
        self.blas_users = 0
        self.blas_controller: Any = None
        self.blas_limit: Any = None

    def executor(self) -> ThreadPoolExecutor:
        with self.lock:
            if self.pool is None:
                self.pool = ThreadPoolExecutor(max_workers=max(1, self.threads - 1), thread_name_prefix="fenchel")
            return self.pool


class _Local(threading.local):
    inside = False


def _usable_cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else (os.cpu_count() or 1)


def _threads_from_environment() -> int:
    text = os.environ.get("FENCHEL_NUM_THREADS")
    if text is None:
        return _usable_cores()
    try:
        n = int(text)
    except ValueError:
        n = 0
    if n < 1:
        raise InvalidInput(f"the environment variable FENCHEL_NUM_THREADS is {text!r}, expected a whole number >= 1")
    return n


_state = _State()
_local = _Local()


def _reset_after_fork() -> None:
    threads, speeds = _state.threads, _state.speeds
    _state.__init__()  # type: ignore[misc]
    _state.threads, _state.speeds = threads, speeds
    _local.inside = False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)


def get_threads() -> int:
    """The number of threads that fenchel uses at most."""
    return _state.threads


def set_threads(n: int | None) -> int:
    """Set the number of threads that fenchel uses at most; ``None`` means all usable cores. Returns the old number.

    The environment variable ``FENCHEL_NUM_THREADS`` sets the number at start. Results do not depend on it.

    >>> import fenchel
    >>> before = fenchel.set_threads(1)
    >>> fenchel.get_threads()
    1
    >>> _ = fenchel.set_threads(before)
    """
    if n is None:
        n = _usable_cores()
    if isinstance(n, bool) or not hasattr(n, "__index__") or n < 1:
        raise InvalidInput(f"n is {n!r}, expected a whole number of threads >= 1 or None for all usable cores")
    with _state.lock:
        old, pool = _state.threads, _state.pool
        _state.threads = int(n)
        _state.pool = None
    if pool is not None:
        pool.shutdown(wait=False)
    return old


def inside_pool() -> bool:
    """Whether the calling thread is already working on a chunk (then everything below runs serially)."""
    return _local.inside


def run(kernel: Callable[..., Any], n_items: int, work: float, *args: Any) -> None:
    """Call ``kernel(start, stop, *args)`` so that the chunks cover ``range(n_items)``.

    ``work`` is an estimate of the whole work in any unit that is the same for all calls of this kernel (scores read,
    say, or n**3 for an assignment); the time of a unit is measured.
    """
    if n_items == 0:
        return
    speed = _state.speeds.get(kernel)
    known = speed is not None and speed == speed
    if (
        _state.threads > 1
        and n_items > 1
        and speed is not None
        and known
        and speed * work > _state.worth_splitting
        and not _local.inside
    ):
        _run_chunks(kernel, n_items, work, args)
        return
    start = perf_counter()
    kernel(0, n_items, *args)
    if speed is None:
        _state.speeds[kernel] = float("nan")
        return
    _learn_speed(kernel, (perf_counter() - start) / max(work, 1.0))


def _learn_speed(kernel: Callable[..., Any], sample: float) -> None:
    old = _state.speeds.get(kernel, sample)
    _state.speeds[kernel] = 0.7 * old + 0.3 * sample if old == old else sample


def _run_chunks(kernel: Callable[..., Any], n_items: int, work: float, args: tuple[Any, ...]) -> None:
    threads = min(_state.threads, n_items)
    n_chunks = min(n_items, threads * _CHUNKS_PER_THREAD)
    bounds = [n_items * i // n_chunks for i in range(n_chunks + 1)]
    ticket = itertools.count()  # next() on it is atomic
    caller = threading.get_ident()

    def work_off() -> None:
        _local.inside = True
        start, done = perf_counter(), 0
        try:
            while (i := next(ticket)) < n_chunks:
                kernel(bounds[i], bounds[i + 1], *args)
                done += bounds[i + 1] - bounds[i]
        finally:
            _local.inside = False
        if done and threading.get_ident() == caller:
            _learn_speed(kernel, (perf_counter() - start) * n_items / (done * max(work, 1.0)))

    _share(work_off, threads)


def _share(work_off: Callable[[], None], threads: int) -> None:
    """Run ``work_off`` in this thread and, as far as they wake up in time, in the pool's."""
    helpers: list[Future[None]] = []
    for _ in range(threads - 1):
        try:
            helpers.append(_state.executor().submit(work_off))
        except RuntimeError:  # the pool was replaced by set_threads, or the interpreter is closing
            break
    error: BaseException | None = None
    try:
        work_off()
    except BaseException as problem:
        error = problem
    for helper in helpers:
        if not helper.cancel():
            error = error or helper.exception()
    if error is not None:
        raise error


def run_blocks(function: Callable[[int, int, int], None], n_items: int, block: int, *, worth: bool) -> None:
    """Call ``function(b, start, stop)`` for the b-th block of ``block`` items each, on the pool if it is ``worth`` it.

    For work that is not a kernel (a BLAS product) and whose rounding depends on where it is cut: blocks are the same
    for any number of threads, so results are too. BLAS runs on one thread inside.
    """
    bounds = [*range(0, n_items, block), n_items]

    def one(b: int) -> None:
        function(b, bounds[b], bounds[b + 1])

    map_items(one, range(len(bounds) - 1), threads=None if worth else 1)


def map_items(function: Callable[[T], R], items: Iterable[T], *, threads: int | None = None) -> list[R]:
    """``[function(item) for item in items]`` on the pool, BLAS capped to one thread; serial inside the pool."""
    items = list(items)
    results: list[Any] = [None] * len(items)
    n = min(_state.threads if threads is None else threads, len(items))
    if n <= 1 or _local.inside:
        with single_blas_thread():
            return [function(item) for item in items]
    ticket = itertools.count()

    def work_off() -> None:
        _local.inside = True
        try:
            while (i := next(ticket)) < len(items):
                results[i] = function(items[i])
        finally:
            _local.inside = False

    with single_blas_thread():
        _share(work_off, n)
    return results


@contextmanager
def split_always() -> Iterator[None]:
    """Split even the smallest work over the threads, so that tests of threading test it."""
    old, _state.worth_splitting = _state.worth_splitting, 0.0
    try:
        yield
    finally:
        _state.worth_splitting = old


@contextmanager
def single_blas_thread() -> Iterator[None]:
    """Cap BLAS to one thread: inside the pool its own threads would only compete, and small products run slower.

    The cap is the process's, so overlapping uses from several threads count: the last one to leave lifts it.
    """
    with _state.lock:
        _state.blas_users += 1
        if _state.blas_users == 1:
            if _state.blas_controller is None:
                from threadpoolctl import ThreadpoolController

                _state.blas_controller = ThreadpoolController()
            _state.blas_limit = _state.blas_controller.limit(limits=1, user_api="blas")
            _state.blas_limit.__enter__()
    try:
        yield
    finally:
        with _state.lock:
            _state.blas_users -= 1
            if _state.blas_users == 0:
                _state.blas_limit.__exit__(None, None, None)
