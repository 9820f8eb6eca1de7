"""Hold a part to its contract: the suite that fenchel's own parts pass, for a user's own.

Each ``check_*`` function runs all its checks and raises ``AssertionError`` at the first that fails, saying which
promise was broken and where. The ``*_checks`` functions list them as (name, function) pairs, for pytest's parametrize.
"""

from __future__ import annotations

from .costs import check_cost, check_cost_between, cost_between_checks, cost_checks
from .losses import check_loss, loss_checks
from .structures import check_structure, structure_checks

__all__ = [
    "check_cost",
    "check_cost_between",
    "check_loss",
    "check_structure",
    "cost_between_checks",
    "cost_checks",
    "loss_checks",
    "structure_checks",
]
