"""Where do examples come from? Readers and generators."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .._core.lazy import names_of_kind, resolve

if TYPE_CHECKING:
    from .reading import read_table
    from .tables import SparseColumns, Table
    from .tracking import box_features, frame_pairs, moving_boxes, read_boxes

__all__ = [
    "SparseColumns", "Table", "box_features", "frame_pairs", "moving_boxes", "read_boxes", "read_table",
    *names_of_kind("transformer"),
]  # fmt: skip

_MODULES = {
    "SparseColumns": ".tables", "Table": ".tables", "read_table": ".reading", "box_features": ".tracking",
    "frame_pairs": ".tracking", "moving_boxes": ".tracking", "read_boxes": ".tracking",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(importlib.import_module(_MODULES[name], __name__), name)
    return resolve(__name__, name, "transformer")


def __dir__() -> list[str]:
    return sorted(__all__)
