"""Where do examples come from? Readers and generators."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .._core.lazy import names_of_kind, resolve

if TYPE_CHECKING:
    from .conll import read_conll
    from .conllu import Sentence, read_conllu, write_conllu
    from .letters import Letters, read_letters
    from .reading import read_table
    from .tables import SparseColumns, Table
    from .tracking import box_features, frame_pairs, moving_boxes, read_boxes
    from .treebank import small_treebank
    from .words import word_features

__all__ = [
    "Letters", "Sentence", "SparseColumns", "Table", "box_features", "frame_pairs", "moving_boxes", "read_boxes", "read_conll",
    "read_conllu", "read_letters", "read_table", "small_treebank", "word_features", "write_conllu",
    *names_of_kind("transformer"),
]  # fmt: skip

_MODULES = {
    "Letters": ".letters", "Sentence": ".conllu", "read_conllu": ".conllu", "write_conllu": ".conllu",
    "SparseColumns": ".tables", "Table": ".tables", "read_table": ".reading",
    "small_treebank": ".treebank",
    "read_conll": ".conll", "read_letters": ".letters", "word_features": ".words", "box_features": ".tracking",
    "frame_pairs": ".tracking", "moving_boxes": ".tracking", "read_boxes": ".tracking",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(importlib.import_module(_MODULES[name], __name__), name)
    return resolve(__name__, name, "transformer")


def __dir__() -> list[str]:
    return sorted(__all__)
