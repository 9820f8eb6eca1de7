"""The error classes of the library.

Every error a user can meet derives from :class:`FenchelError`, and also from the built-in class a caller would
expect (``ValueError`` for bad input), so that code which does not know fenchel can still catch it.
"""

from __future__ import annotations

import sys
import warnings
from types import FrameType

__all__ = [
    "ConvergenceWarning",
    "FenchelError",
    "IncompatiblePair",
    "IntractableOracle",
    "InvalidInput",
    "MissingDependency",
    "MissingOracle",
    "OracleError",
    "SavedModelError",
    "warn_user",
]


class FenchelError(Exception):
    """Base class of all errors that fenchel raises on purpose."""


class InvalidInput(FenchelError, ValueError):
    """An argument has the wrong value, shape or type."""


class MissingOracle(FenchelError, NotImplementedError):
    """A structure does not have the oracle that was asked for; the message says why and what to use instead."""


class IntractableOracle(MissingOracle):
    """No tractable algorithm is known (or can exist) for the oracle that was asked for."""


class IncompatiblePair(FenchelError, ValueError):
    """Two parts (a loss and a structure, a cost and a structure, a solver and a loss) do not fit together."""


class OracleError(FenchelError, ValueError):
    """An oracle that the user supplied broke its promise."""


class SavedModelError(FenchelError, ValueError):
    """A file is damaged, foreign, or written by a newer version of fenchel."""


class MissingDependency(FenchelError, ImportError):
    """An optional package is needed; the message names the extra that brings it."""


class ConvergenceWarning(UserWarning):
    """An iterative routine stopped before its tolerance; the message holds the error it reached."""


def warn_user(message: str, category: type[Warning] = ConvergenceWarning) -> None:
    """Warn at the line outside fenchel that led here, which is the one the user can change."""
    depth, frame = 2, sys._getframe(1)
    caller: FrameType | None = frame
    while caller is not None and caller.f_globals.get("__name__", "").partition(".")[0] == "fenchel":
        caller = caller.f_back
        depth += 1
    warnings.warn(message, category, stacklevel=depth)
