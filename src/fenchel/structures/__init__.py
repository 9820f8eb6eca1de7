"""What can be predicted? Output spaces as polytopes, each with its oracles."""

from __future__ import annotations

from typing import Any

from .._core.lazy import names_of_kind, resolve
from .base import ORACLES, Accuracy, Solved, Structure
from .ragged import Family, Ragged

__all__ = [
    "ORACLES", "Accuracy", "Family", "Ragged", "Solved", "Structure", *names_of_kind("structure", "relaxation")
]  # fmt: skip


def __getattr__(name: str) -> Any:
    return resolve(__name__, name, "structure", "relaxation")


def __dir__() -> list[str]:
    return sorted(__all__)
