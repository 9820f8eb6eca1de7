"""How good are label sequences? Precision, recall and F1 of whole entities."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from ._core.errors import InvalidInput

__all__ = ["EntityScores", "entities", "entity_scores"]

_OUTSIDE = "O"


@dataclass(frozen=True)
class EntityScores:
    """Counts of entities: in the truth, predicted, and predicted with the right kind, beginning and end."""

    true: int
    predicted: int
    right: int
    by_kind: dict[str, EntityScores] = field(default_factory=dict)
    """The same for each kind of entity."""

    @property
    def precision(self) -> float:
        """The share of predicted entities that are right; 0 where none is predicted."""
        return self.right / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        """The share of true entities that are found; 0 where there is none."""
        return self.right / self.true if self.true else 0.0

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        both = self.true + self.predicted
        return 2 * self.right / both if both else 0.0


def entities(tags: Sequence[str]) -> list[tuple[str, int, int]]:
    """The entities that BIO tags mark: (kind, first position, position after the last).

    An I-x that follows neither B-x nor I-x begins an entity, as CoNLL's evaluation has it.

    >>> from fenchel.metrics import entities
    >>> entities(["B-PER", "I-PER", "O", "B-LOC", "B-LOC", "I-PER"])
    [('PER', 0, 2), ('LOC', 3, 4), ('LOC', 4, 5), ('PER', 5, 6)]
    """
    found: list[tuple[str, int, int]] = []
    kind, first = None, 0
    for t, tag in enumerate(tags):
        if tag != _OUTSIDE and (not isinstance(tag, str) or tag[:2] not in ("B-", "I-")):
            raise InvalidInput(f"the tag at position {t} is {tag!r}, expected 'O', 'B-x' or 'I-x'")
        now = None if tag == _OUTSIDE else tag[2:]
        goes_on = now is not None and tag[0] == "I" and now == kind
        if not goes_on:
            if kind is not None:
                found.append((kind, first, t))
            kind, first = now, t
    if kind is not None:
        found.append((kind, first, len(tags)))
    return found


def entity_scores(y_pred: Sequence[Sequence[str]], y_true: Sequence[Sequence[str]]) -> EntityScores:
    """Precision, recall and F1 of the entities of BIO tags over all sequences together (micro-averaged), and by kind.

    An entity is right when its kind, beginning and end all are.

    Reference: Tjong Kim Sang and De Meulder, "Introduction to the CoNLL-2003 shared task", 2003.

    >>> from fenchel.metrics import entity_scores
    >>> scores = entity_scores([["B-PER", "O", "B-LOC"]], [["B-PER", "I-PER", "B-LOC"]])
    >>> scores.precision, scores.recall, scores.f1, scores.by_kind["PER"].right
    (0.5, 0.5, 0.5, 0)
    """
    if len(y_pred) != len(y_true):
        raise InvalidInput(f"there are {len(y_pred)} predicted sequences but {len(y_true)} true ones")
    counts: list[Counter[str]] = [Counter(), Counter(), Counter()]
    for i, (predicted, true) in enumerate(zip(y_pred, y_true, strict=True)):
        if len(predicted) != len(true):
            raise InvalidInput(f"sample {i} has {len(predicted)} predicted tags but {len(true)} true ones")
        try:
            answers, truths = set(entities(predicted)), set(entities(true))
        except InvalidInput as error:
            raise InvalidInput(f"sample {i}: {error}") from None
        for counter, group in zip(counts, (truths, answers, truths & answers), strict=True):
            counter.update(kind for kind, _, _ in group)
    kinds = sorted(counts[0] | counts[1])
    by_kind = {kind: EntityScores(counts[0][kind], counts[1][kind], counts[2][kind]) for kind in kinds}
    true_all, predicted_all, right = (counter.total() for counter in counts)
    return EntityScores(true_all, predicted_all, right, by_kind)
