"""What if data never stops? Learners that play, are told the truth and learn, with bounds on their regret."""

from __future__ import annotations

from .batch import OnlineToBatch
from .constants import Constants, constants_of
from .learner import Learner, Rounds
from .regret import RegretTracker
from .steps import AdaptiveStep, ConstantStep, ParameterFree, StepRule, Steps

__all__ = [
    "AdaptiveStep",
    "ConstantStep",
    "Constants",
    "Learner",
    "OnlineToBatch",
    "ParameterFree",
    "RegretTracker",
    "Rounds",
    "StepRule",
    "Steps",
    "constants_of",
]
