"""What does a mistake cost? Evaluation costs and their affine forms."""

from __future__ import annotations

from typing import Any

from .._core.lazy import names_of_kind, resolve
from .base import AffineForm, Cost

__all__ = ["AffineForm", "Cost", *names_of_kind("cost")]


def __getattr__(name: str) -> Any:
    return resolve(__name__, name, "cost")


def __dir__() -> list[str]:
    return sorted(__all__)
