"""What if scores come from a network? Losses and layers for PyTorch (optional extra ``fenchel[torch]``)."""

from __future__ import annotations

from .._core.errors import MissingDependency

try:
    import torch as _torch  # noqa: F401
except ImportError:
    raise MissingDependency("fenchel.nn needs PyTorch: pip install 'fenchel[torch]'") from None

from .biaffine import BiaffineScorer, WordIndex
from .layers import Argmax, KLProject, Marginals, Project
from .losses import AdversarialLoss, CRFLoss, FenchelYoungLoss, HingeLoss, StructuredLoss
from .parser import ParsingNetwork, train_network

__all__ = [
    "AdversarialLoss",
    "Argmax",
    "BiaffineScorer",
    "CRFLoss",
    "FenchelYoungLoss",
    "HingeLoss",
    "KLProject",
    "Marginals",
    "ParsingNetwork",
    "Project",
    "StructuredLoss",
    "WordIndex",
    "train_network",
]
