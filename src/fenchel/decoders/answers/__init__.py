"""How is the answer of least weighted cost found? Searches for argmin over ŷ of Σ_i α_i cost(ŷ, y_i).

The weights α_i come from the loss trick and have signs, so the sum of convex costs need not be convex.
"""

from __future__ import annotations

from typing import Any

from ..._core.lazy import names_of_kind, resolve
from .base import Answers, Search

__all__ = ["Answers", "Search", *names_of_kind("answers")]


def __getattr__(name: str) -> Any:
    return resolve(__name__, name, "answers")


def __dir__() -> list[str]:
    return sorted(__all__)
