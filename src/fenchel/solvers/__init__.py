"""How are weights found?"""

from __future__ import annotations

from typing import Any

from .._core.lazy import names_of_kind, resolve
from .base import Progress, Result, Solver

__all__ = ["Progress", "Result", "Solver", *names_of_kind("solver")]


def __getattr__(name: str) -> Any:
    return resolve(__name__, name, "solver")


def __dir__() -> list[str]:
    return sorted(__all__)
