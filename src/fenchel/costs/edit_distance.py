"""How many letters have to be changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core import parallel
from .._core.errors import InvalidInput
from .._core.types import Array
from ..kernels import edit_distance as kernels
from .base import Cost, as_outputs

__all__ = ["EditDistance"]


@dataclass(frozen=True)
class EditDistance(Cost):
    """The least number of letters to insert, leave out or replace that make one text the other (Levenshtein's distance).

    O(letters · letters) a pair, compiled.

    Reference: Levenshtein, "Binary codes capable of correcting deletions, insertions, and reversals", 1966.

    >>> from fenchel.costs import EditDistance
    >>> EditDistance()(["kitten", "same"], ["sitting", "same"])
    array([3., 0.])
    """

    def __call__(self, y_pred: Any, y_true: Any) -> Array:
        answers, truths = self._codes(y_pred, "y_pred"), self._codes(y_true, "y_true")
        if len(answers[1]) != len(truths[1]):
            raise InvalidInput(f"y_pred holds {len(answers[1]) - 1} texts but y_true holds {len(truths[1]) - 1}")
        return self._run(answers, truths, True)[:, 0]

    def between(self, answers: Any, truths: Any) -> Array:
        return self._run(self._codes(answers, "answers"), self._codes(truths, "truths"), False)

    def _run(self, first: tuple[Array, Array], second: tuple[Array, Array], paired: bool) -> Array:
        n, m = len(first[1]) - 1, len(second[1]) - 1
        costs = np.empty((n, 1 if paired else m))
        work = len(first[0]) * len(second[0]) / (max(m, 1) if paired else 1)
        parallel.run(kernels.between, n, work, *first, *second, paired, costs)
        return costs

    def _codes(self, texts: Any, name: str) -> tuple[Array, Array]:
        """The letters of all texts one after the other, and where each text begins."""
        outputs = as_outputs(texts).tolist()
        for i, text in enumerate(outputs):
            if not isinstance(text, str):
                raise InvalidInput(
                    f"{name} holds {str(text)[:40]!r} ({type(text).__name__}) at sample {i}; {self!r} compares texts"
                )
        sizes = np.array([len(text) for text in outputs], dtype=np.int64)
        letters = np.frombuffer("".join(outputs).encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
        return letters.astype(np.int64), np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
