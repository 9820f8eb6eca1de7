"""The cases, a module for each topic; the first line of its docstring is the topic's title."""

from __future__ import annotations

from benchmarks.cases import (
    adversarial,
    foundation,
    graphs,
    learning,
    loss_trick,
    matching,
    networks,
    online,
    parsing,
    polytopes,
    sequences,
    trees,
)  # fmt: skip
from benchmarks.harness import Case, Probe

__all__ = ["everything", "topics"]

_TOPICS = (
    foundation,
    polytopes,
    adversarial,
    learning,
    online,
    trees,
    parsing,
    matching,
    loss_trick,
    networks,
    sequences,
    graphs,
)


def everything() -> list[Case | Probe]:
    return [case for topic in _TOPICS for case in topic.cases()]


def topics() -> dict[str, list[str]]:
    """The names of the cases by the title of their topic."""
    return {str(topic.__doc__).partition("\n")[0]: [case.name for case in topic.cases()] for topic in _TOPICS}
