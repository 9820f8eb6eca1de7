"""fenchel: structured prediction that trains for the mistake cost its users care about, and decodes for it too."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_SUBPACKAGES = (
    "costs", "data", "decoders", "errors", "estimators", "experiments", "losses", "plots", "scorers", "solvers",
    "structures", "testing",
)  # fmt: skip
_FUNCTIONS = {
    "get_threads": "fenchel._core.parallel",
    "set_threads": "fenchel._core.parallel",
    "save": "fenchel._core.saving",
    "load": "fenchel._core.saving",
}

__all__ = ["__version__", *_SUBPACKAGES, *_FUNCTIONS, "FenchelYoungClassifier"]

if TYPE_CHECKING:
    from . import (
        costs,
        data,
        decoders,
        errors,
        estimators,
        experiments,
        losses,
        plots,
        scorers,
        solvers,
        structures,
        testing,
    )
    from ._core.parallel import get_threads, set_threads
    from ._core.saving import load, save
    from .estimators import FenchelYoungClassifier


def __getattr__(name: str) -> Any:
    if name in _SUBPACKAGES:
        return importlib.import_module(f"fenchel.{name}")
    if name in _FUNCTIONS:
        value = getattr(importlib.import_module(_FUNCTIONS[name]), name)
    elif not name.startswith("_") and name in __all__:
        value = getattr(importlib.import_module("fenchel.estimators"), name)
    else:
        raise AttributeError(f"module 'fenchel' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
