"""What does a user call? scikit-learn estimators, one file per task."""

from __future__ import annotations

from typing import Any

from .._core import registry
from .._core.lazy import resolve

_KINDS = ("estimator", "features")
_CLASSES = [e.class_name for k in _KINDS for e in registry.entries(k) if e.target.startswith("fenchel.estimators.")]

__all__ = [*_CLASSES, "regularization_path"]


def __getattr__(name: str) -> Any:
    if name == "regularization_path":
        from .path import regularization_path

        return regularization_path
    return resolve(__name__, name, *_KINDS)


def __dir__() -> list[str]:
    return sorted(__all__)
