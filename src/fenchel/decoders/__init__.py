"""What do we answer? From a model's output to an answer the user can act on."""

from __future__ import annotations

from typing import Any

from .._core.lazy import names_of_kind, resolve
from .base import Decoder

__all__ = ["Decoder", *names_of_kind("decoder")]


def __getattr__(name: str) -> Any:
    return resolve(__name__, name, "decoder")


def __dir__() -> list[str]:
    return sorted(__all__)
