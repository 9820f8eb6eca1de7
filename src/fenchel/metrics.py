"""How good are label sequences and parses? Precision, recall and F1 of whole entities; attachment scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ._core.checks import check_choice
from ._core.errors import InvalidInput

if TYPE_CHECKING:
    from .data.conllu import Sentence

__all__ = ["PUNCTUATION_TAGS", "AttachmentScores", "EntityScores", "attachment_scores", "entities", "entity_scores"]

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


@dataclass(frozen=True)
class AttachmentScores:
    """Counts of words and sentences, and of those whose heads are right, or heads and labels."""

    words: int
    heads: int
    labelled: int
    sentences: int
    whole: int
    whole_labelled: int

    @property
    def uas(self) -> float:
        """The share of words with the right head."""
        return self.heads / self.words if self.words else 0.0

    @property
    def las(self) -> float:
        """The share of words with the right head and label."""
        return self.labelled / self.words if self.words else 0.0

    @property
    def ucm(self) -> float:
        """The share of sentences in which all heads are right."""
        return self.whole / self.sentences if self.sentences else 0.0

    @property
    def lcm(self) -> float:
        """The share of sentences in which all heads and labels are right."""
        return self.whole_labelled / self.sentences if self.sentences else 0.0


PUNCTUATION_TAGS = frozenset({"PUNCT", "PU", "``", "''", ":", ",", "."})
"""Tags of punctuation in Universal Dependencies, the Chinese and the English Penn treebank."""


def attachment_scores(
    gold: Sequence[Sentence],
    system: Sequence[Sentence],
    *,
    rule: str = "conll18",
    tags: Collection[str] = PUNCTUATION_TAGS,
) -> AttachmentScores:
    """How good are parses? UAS, LAS, UCM and LCM of sentences with the same words.

    ``rule="conll18"`` is that of the CoNLL 2018 shared task: every word counts, punctuation too, and of a label only
    what stands before the colon. ``rule="tags"`` leaves out words whose part of speech in ``gold`` (universal or the
    treebank's own) is one of ``tags``, as papers on the Penn treebanks do, and compares whole labels. A sentence with no word
    left counts as right.

    >>> from fenchel.data import Sentence
    >>> from fenchel.metrics import attachment_scores
    >>> words = Sentence.of(["Dogs", "bark", "."], ["NOUN", "VERB", "PUNCT"])
    >>> gold = words.with_parse([2, 0, 2], ["nsubj", "root", "punct"])
    >>> system = words.with_parse([2, 0, 1], ["obj", "root", "punct"])
    >>> scores = attachment_scores([gold], [system])
    >>> round(scores.uas, 3), round(scores.las, 3), scores.ucm
    (0.667, 0.333, 0.0)
    >>> attachment_scores([gold], [system], rule="tags").ucm
    1.0
    """
    check_choice(rule, "rule", ("conll18", "tags"))
    if len(gold) != len(system):
        raise InvalidInput(f"gold has {len(gold)} sentences, system {len(system)}")
    words = heads = labelled = whole = whole_labelled = 0
    for i, (truth, answer) in enumerate(zip(gold, system, strict=True)):
        if truth.forms != answer.forms:
            raise InvalidInput(f"sentence {i} has other words in gold than in system")
        counts = [rule == "conll18" or not {u, x} & set(tags) for u, x in zip(truth.upos, truth.xpos, strict=True)]
        cut = (lambda label: label.split(":")[0]) if rule == "conll18" else str
        same_head = [a == b for a, b in zip(truth.heads.tolist(), answer.heads.tolist(), strict=True)]
        same_label = [cut(a) == cut(b) for a, b in zip(truth.labels, answer.labels, strict=True)]
        right = [h for h, c in zip(same_head, counts, strict=True) if c]
        both = [h and b for h, b, c in zip(same_head, same_label, counts, strict=True) if c]
        words, heads, labelled = words + len(right), heads + sum(right), labelled + sum(both)
        whole, whole_labelled = whole + all(right), whole_labelled + all(both)
    return AttachmentScores(words, heads, labelled, len(gold), whole, whole_labelled)
