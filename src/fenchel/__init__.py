"""fenchel: structured prediction that trains for the mistake cost its users care about, and decodes for it too."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_SUBPACKAGES = (
    "costs", "data", "decoders", "errors", "estimators", "experiments", "losses", "metrics", "model_selection", "online",
    "optim", "plots", "scorers", "solvers", "structures", "testing",
)  # fmt: skip
_FUNCTIONS = {
    "get_threads": "fenchel._core.parallel",
    "set_threads": "fenchel._core.parallel",
    "save": "fenchel._core.saving",
    "load": "fenchel._core.saving",
}

_ESTIMATORS = (
    "AdversarialClassifier",
    "BipartiteMatcher",
    "DependencyParser",
    "FenchelYoungClassifier",
    "GraphLabeler",
    "LabelRanker",
    "LossTrickPredictor",
    "MarginClassifier",
    "MultilabelClassifier",
    "OrdinalClassifier",
    "SequenceLabeler",
    "TreePredictor",
)

# Written out, so that type checkers see what is exported; a test compares it with the above.
__all__ = [
    "AdversarialClassifier", "BipartiteMatcher", "DependencyParser", "FenchelYoungClassifier", "GraphLabeler", "LabelRanker",
    "LossTrickPredictor",
    "MarginClassifier", "MultilabelClassifier", "OrdinalClassifier", "SequenceLabeler", "TreePredictor",
    "__version__", "costs", "data",
    "decoders", "errors", "estimators", "experiments", "get_threads", "load", "losses", "metrics", "model_selection",
    "online", "optim", "plots", "save", "scorers", "set_threads", "solvers", "structures", "testing",
]  # fmt: skip

if TYPE_CHECKING:
    from . import (
        costs,
        data,
        decoders,
        errors,
        estimators,
        experiments,
        losses,
        metrics,
        model_selection,
        online,
        optim,
        plots,
        scorers,
        solvers,
        structures,
        testing,
    )
    from ._core.parallel import get_threads, set_threads
    from ._core.saving import load, save
    from .estimators.adversarial import AdversarialClassifier
    from .estimators.classify import FenchelYoungClassifier
    from .estimators.graph import GraphLabeler
    from .estimators.loss_trick import LossTrickPredictor
    from .estimators.margin import MarginClassifier
    from .estimators.match import BipartiteMatcher
    from .estimators.multilabel import MultilabelClassifier
    from .estimators.ordinal import OrdinalClassifier
    from .estimators.parse import DependencyParser
    from .estimators.rank import LabelRanker
    from .estimators.tag import SequenceLabeler
    from .estimators.tree import TreePredictor


def __getattr__(name: str) -> Any:
    if name in _SUBPACKAGES:
        return importlib.import_module(f"fenchel.{name}")
    if name in _FUNCTIONS:
        value = getattr(importlib.import_module(_FUNCTIONS[name]), name)
    elif name in _ESTIMATORS:
        value = getattr(importlib.import_module("fenchel.estimators"), name)
    else:
        raise AttributeError(f"module 'fenchel' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
