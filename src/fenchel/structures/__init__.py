"""What can be predicted? Output spaces as polytopes, each with its oracles."""

from __future__ import annotations

from typing import Any

from .._core.lazy import names_of_kind, resolve
from .base import ORACLES, Accuracy, Solved, Structure

__all__ = ["ORACLES", "Accuracy", "Solved", "Structure", *names_of_kind("structure")]


def __getattr__(name: str) -> Any:
    return resolve(__name__, name, "structure")


def __dir__() -> list[str]:
    return sorted(__all__)
