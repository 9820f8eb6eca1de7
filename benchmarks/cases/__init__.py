"""The cases, one module for each issue that sets targets."""

from __future__ import annotations

from benchmarks.cases import foundation, online, polytopes
from benchmarks.harness import Case, Probe

__all__ = ["everything"]


def everything() -> list[Case | Probe]:
    return [*foundation.cases(), *polytopes.cases(), *online.cases()]
