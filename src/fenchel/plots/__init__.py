"""What does it look like? Pictures (optional extra ``fenchel[plots]``).

Every function draws on the axes it is given, or on new ones, and returns them; ``ax.figure.savefig(path)`` saves.
"""

from __future__ import annotations

from .classify import compare_losses, soft_predictions
from .loss_trick import robust_regression
from .match import matching
from .online import regret
from .rank import soft_permutation
from .surface import loss_surface
from .training import calibration, loss_curves, path
from .tree import convergence, parse

__all__ = [
    "calibration",
    "compare_losses",
    "convergence",
    "loss_curves",
    "loss_surface",
    "matching",
    "parse",
    "path",
    "regret",
    "robust_regression",
    "soft_permutation",
    "soft_predictions",
]
