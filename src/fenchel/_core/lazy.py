"""Packages whose public names come from the registry and load on first use."""

from __future__ import annotations

import sys
from typing import Any

from . import registry

__all__ = ["names_of_kind", "resolve"]


def names_of_kind(*kinds: str) -> list[str]:
    return [entry.class_name for kind in kinds for entry in registry.entries(kind)]


def resolve(package: str, name: str, *kinds: str) -> Any:
    """The public class ``name`` of ``package``: a module-level ``__getattr__`` in one line."""
    for kind in kinds:
        for entry in registry.entries(kind):
            if entry.class_name == name and entry.target.startswith(package + "."):
                value = entry.load()
                setattr(sys.modules[package], name, value)
                return value
    raise AttributeError(f"module {package!r} has no attribute {name!r}")
