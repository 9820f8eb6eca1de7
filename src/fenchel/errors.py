"""The errors and warnings that fenchel raises."""

from ._core.errors import (
    ConvergenceWarning,
    FenchelError,
    IncompatiblePair,
    IntractableOracle,
    InvalidInput,
    MissingDependency,
    MissingOracle,
    OracleError,
    SavedModelError,
)

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
]
