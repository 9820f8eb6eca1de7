"""The tasks of ``fenchel fit --task``. A new one is a file with a :class:`Task` and a line here.

The parser imports all of them, so files of tasks import nothing heavy at their top.
"""

from __future__ import annotations

from .any import AnyOutput
from .classify import Classify
from .match import Match
from .multilabel import Multilabel
from .ordinal import Ordinal
from .parse import Parse
from .rank import Rank
from .tag import Tag
from .task import Task

__all__ = ["TASKS", "Task"]

TASKS: dict[str, Task] = {
    Classify.name: Classify(),
    Ordinal.name: Ordinal(),
    Multilabel.name: Multilabel(),
    Rank.name: Rank(),
    Tag.name: Tag(),
    Parse.name: Parse(),
    Match.name: Match(),
    AnyOutput.name: AnyOutput(),
}
