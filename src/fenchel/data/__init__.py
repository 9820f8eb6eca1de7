"""Where do examples come from? Readers and generators."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .._core.lazy import names_of_kind, resolve

if TYPE_CHECKING:
    from .tables import Table, read_table

__all__ = ["Table", "read_table", *names_of_kind("transformer")]


def __getattr__(name: str) -> Any:
    if name in ("Table", "read_table"):
        return getattr(importlib.import_module(".tables", __name__), name)
    return resolve(__name__, name, "transformer")


def __dir__() -> list[str]:
    return sorted(__all__)
