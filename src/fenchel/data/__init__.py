"""Where do examples come from? Readers and generators."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .._core.lazy import names_of_kind, resolve

if TYPE_CHECKING:
    from .reading import read_table
    from .tables import SparseColumns, Table

__all__ = ["SparseColumns", "Table", "read_table", *names_of_kind("transformer")]

_MODULES = {"SparseColumns": ".tables", "Table": ".tables", "read_table": ".reading"}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(importlib.import_module(_MODULES[name], __name__), name)
    return resolve(__name__, name, "transformer")


def __dir__() -> list[str]:
    return sorted(__all__)
