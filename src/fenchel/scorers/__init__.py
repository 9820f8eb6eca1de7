"""How do inputs become scores? Linear maps from weights to scores, with their adjoints."""

from __future__ import annotations

from typing import Any

from .._core.lazy import names_of_kind, resolve
from .base import Scorer

__all__ = ["Scorer", *names_of_kind("scorer")]


def __getattr__(name: str) -> Any:
    return resolve(__name__, name, "scorer")


def __dir__() -> list[str]:
    return sorted(__all__)
