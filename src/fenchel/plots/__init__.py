"""What does it look like? Pictures (optional extra ``fenchel[plots]``).

Every function draws on the axes it is given, or on new ones, and returns them.
"""

from __future__ import annotations

from .classify import compare_losses, soft_predictions

__all__ = ["compare_losses", "soft_predictions"]
