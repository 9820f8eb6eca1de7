"""The one decorator for compiled inner loops.

A kernel is a function over arrays. It is compiled by numba on first use, releases the GIL, and is cached on disk
where some folder is writable. Where none is (a read-only installation with no home folder, a full disk) it is
compiled anew in each process and works all the same.

Kernels never use ``parallel=True``: OpenMP kills forked children, the workqueue layer aborts when two Python threads
call at once. Threads come from :mod:`fenchel._core.parallel`, which drives kernels over chunks of the batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

__all__ = ["exact_inline_kernel", "exact_kernel", "inline_kernel", "kernel"]

F = TypeVar("F", bound=Callable[..., Any])

# Sums may be reassociated (this is what lets LLVM vectorise them) but NaN and infinity keep their meaning: a score of
# -inf forbids a part, and a NaN must be seen.
_FASTMATH = {"reassoc", "contract", "nsz", "arcp"}


def kernel(function: F) -> F:
    """Compile ``function`` to machine code that runs without the GIL, cached on disk where possible."""
    return _compile(function, fastmath=_FASTMATH)


def exact_kernel(function: F) -> F:
    """Like :func:`kernel`, with strict floating-point order, for code whose proofs need it (error-free sums, ties)."""
    return _compile(function, fastmath=False)


def inline_kernel(function: F) -> F:
    """A small helper that kernels call; it is inlined by LLVM and never cached by itself."""
    compiled: Any = numba.njit(nogil=True, fastmath=_FASTMATH, error_model="numpy")(function)
    return compiled


def exact_inline_kernel(function: F) -> F:
    """Like :func:`inline_kernel`, with sums in the order written: split constants rely on it."""
    compiled: Any = numba.njit(nogil=True, fastmath={"contract"}, error_model="numpy")(function)
    return compiled


def _compile(function: Any, *, fastmath: Any) -> Any:
    options = {"nogil": True, "fastmath": fastmath, "error_model": "numpy"}
    try:
        dispatcher = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # numba found no folder to write to
        return numba.njit(**options)(function)
    _forgive_cache_errors(dispatcher)
    return dispatcher


def _forgive_cache_errors(dispatcher: Any) -> None:
    """Turn a cache that cannot be read or written (full disk, folder gone read-only) into no cache at all."""
    cache = getattr(dispatcher, "_cache", None)
    for name in ("load_overload", "save_overload"):
        method = getattr(cache, name, None)
        if method is not None:
            setattr(cache, name, _forgiving(method))


def _forgiving(method: Callable[..., Any]) -> Callable[..., Any]:
    def attempt(*args: Any, **kwargs: Any) -> Any:
        try:
            return method(*args, **kwargs)
        except (OSError, EOFError):
            return None

    return attempt
