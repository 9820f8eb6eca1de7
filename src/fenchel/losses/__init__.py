"""What does training minimise? Fenchel-Young losses of a regularizer on a structure, and the like."""

from __future__ import annotations

from typing import Any

from .._core.lazy import names_of_kind, resolve
from .base import Loss, Output

__all__ = ["Loss", "Output", *names_of_kind("loss", "regularizer")]


def __getattr__(name: str) -> Any:
    return resolve(__name__, name, "loss", "regularizer")


def __dir__() -> list[str]:
    return sorted(__all__)
