"""A network that scores the arcs of dependency trees: BiLSTMs over words and characters, and deep biaffine attention."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from .._core.checks import check_count
from .._core.errors import InvalidInput
from .._core.types import IntArray

__all__ = ["BiaffineScorer", "WordIndex"]

_PADDING, _UNKNOWN = 0, 1


class WordIndex:
    """Numbers for words and for their characters, learned from sentences: 0 is padding, 1 what was not met (often enough).

    >>> from fenchel.nn import WordIndex
    >>> index = WordIndex([["the", "cat"], ["the", "dog"]], least=2)
    >>> words, characters, lengths = index([["the", "cat", "sat"]])
    >>> words.tolist(), tuple(characters.shape), lengths.tolist()
    ([[2, 1, 1]], (1, 3, 3), [3])
    """

    def __init__(self, sentences: Sequence[Sequence[str]], *, least: int = 1, longest: int = 20) -> None:
        counts = Counter(word for sentence in sentences for word in sentence)
        kept = sorted(word for word, count in counts.items() if count >= least)
        self.words = {word: i + 2 for i, word in enumerate(kept)}
        self.characters = {c: i + 2 for i, c in enumerate(sorted({c for word in counts for c in word}))}
        self.longest = check_count(longest, "longest")

    @property
    def n_words(self) -> int:
        """How many numbers words have."""
        return len(self.words) + 2

    @property
    def n_characters(self) -> int:
        """How many numbers characters have."""
        return len(self.characters) + 2

    def __call__(self, sentences: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor, IntArray]:
        """Padded words ``(sentences, words)``, characters ``(sentences, words, characters)``, and lengths."""
        lengths = np.array([len(sentence) for sentence in sentences], np.int64)
        if lengths.min(initial=1) < 1:
            raise InvalidInput(f"sentence {int(lengths.argmin())} has no words")
        n = int(lengths.max(initial=0))
        width = min(self.longest, max((len(w) for sentence in sentences for w in sentence), default=1))
        words = np.zeros((len(lengths), n), np.int64)
        characters = np.zeros((len(lengths), n, max(width, 1)), np.int64)
        for i, sentence in enumerate(sentences):
            for t, word in enumerate(sentence):
                words[i, t] = self.words.get(word, _UNKNOWN)
                ids = [self.characters.get(c, _UNKNOWN) for c in word[:width]]
                characters[i, t, : len(ids)] = ids or [_UNKNOWN]
        return torch.from_numpy(words), torch.from_numpy(characters), lengths


class BiaffineScorer(torch.nn.Module):
    """Scores of all arcs of sentences, ``(sentences, words, words + 1[, labels])``, the root in the first column.

    A BiLSTM over the characters of a word and an embedding of the word go into a BiLSTM over the sentence. Each word gets a
    vector as a dependent and one as a head, and an arc's score is biaffine in the two; with ``labels`` > 1 that of the
    label is added, by a second pair of vectors. Scores are what the losses on ``DependencyTrees`` take, with ``lengths``.

    Parameters
    ----------
    n_words, n_characters : int
        Of the :class:`WordIndex`.
    labels : int, default=1
        Kinds of arcs.
    word_size, character_size, hidden, layers, arc_size, label_size : int
        Sizes of embeddings, of each direction of the sentence's LSTM and its layers, and of the vectors of arcs and labels.
    dropout : float, default=0.33
        On embeddings, between layers, on vectors; whole words are dropped too.

    References
    ----------
    Dozat and Manning, "Deep biaffine attention for neural dependency parsing", 2017; Kiperwasser and Goldberg, "Simple and
    accurate dependency parsing using bidirectional LSTM feature representations", 2016.

    Examples
    --------
    >>> import torch
    >>> from fenchel.nn import BiaffineScorer, CRFLoss, WordIndex
    >>> from fenchel.structures import DependencyTrees
    >>> sentences, heads = [["cats", "sleep"], ["sleep"]], [[2, 0], [0]]
    >>> index = WordIndex(sentences)
    >>> _ = torch.manual_seed(0)
    >>> network = BiaffineScorer(index.n_words, index.n_characters, hidden=8)
    >>> words, characters, lengths = index(sentences)
    >>> scores = network(words, characters, lengths)
    >>> scores.shape
    torch.Size([2, 2, 3])
    >>> CRFLoss(DependencyTrees())(scores, heads, lengths=lengths).backward()
    """

    def __init__(
        self,
        n_words: int,
        n_characters: int,
        *,
        labels: int = 1,
        word_size: int = 100,
        character_size: int = 50,
        hidden: int = 200,
        layers: int = 2,
        arc_size: int = 100,
        label_size: int = 50,
        dropout: float = 0.33,
    ) -> None:
        super().__init__()
        self.labels = check_count(labels, "labels")
        self.words = torch.nn.Embedding(n_words, word_size, padding_idx=_PADDING)
        self.characters = torch.nn.Embedding(n_characters, character_size, padding_idx=_PADDING)
        self.spelling = torch.nn.LSTM(character_size, character_size, batch_first=True, bidirectional=True)
        self.context = torch.nn.LSTM(
            word_size + 2 * character_size, hidden, layers, batch_first=True, bidirectional=True,
            dropout=dropout if layers > 1 else 0.0,
        )  # fmt: skip
        self.root = torch.nn.Parameter(torch.zeros(2 * hidden))
        self.dropout = torch.nn.Dropout(dropout)
        self.arc = _Biaffine(2 * hidden, arc_size, 1, dropout)
        self.label = _Biaffine(2 * hidden, label_size, labels, dropout) if labels > 1 else None

    def features(self, words: Tensor, characters: Tensor, lengths: Any) -> Tensor:
        """A vector for each word in its sentence, ``(sentences, words, 2 hidden)``."""
        sizes = torch.as_tensor(lengths, dtype=torch.long)
        b, n = words.shape
        inside = torch.arange(n)[None, :] < sizes[:, None]
        places = inside.reshape(-1).nonzero()[:, 0].to(words.device)
        spelled = characters.reshape(b * n, -1)[places]
        embedded = self.dropout(self.characters(spelled))
        counts = (spelled != _PADDING).sum(dim=1).clamp(min=1).cpu()
        _, (last, _) = self.spelling(pack_padded_sequence(embedded, counts, batch_first=True, enforce_sorted=False))
        ends = torch.cat([last[0], last[1]], dim=1)
        spelling = ends.new_zeros(b * n, ends.shape[1]).index_put((places,), ends).reshape(b, n, -1)
        if self.training and self.dropout.p > 0:  # rare words are learned from words that are hidden
            hidden_words = torch.rand(words.shape, device=words.device) < self.dropout.p
            words = torch.where(hidden_words & (words != _PADDING), _UNKNOWN, words)
        given = torch.cat([self.dropout(self.words(words)), self.dropout(spelling)], dim=2)
        packed = pack_padded_sequence(given, sizes, batch_first=True, enforce_sorted=False)
        out: Tensor = pad_packed_sequence(self.context(packed)[0], batch_first=True, total_length=n)[0]
        return out

    def forward(self, words: Tensor, characters: Tensor, lengths: Any) -> Tensor:
        """Scores of all arcs."""
        return self.arcs(self.features(words, characters, lengths))

    def arcs(self, features: Tensor) -> Tensor:
        """Scores of all arcs from the vectors of words: the last layer alone."""
        features = self.dropout(features)
        heads = torch.cat([self.root.expand(len(features), 1, -1), features], dim=1)
        scores: Tensor = self.arc(features, heads)
        if self.label is None:
            return scores[..., 0]
        total: Tensor = scores + self.label(features, heads)
        return total


class _Biaffine(torch.nn.Module):
    """A bilinear form of two transformed vectors, with a one added to each: scores of pairs."""

    def __init__(self, size: int, inner: int, outputs: int, dropout: float) -> None:
        super().__init__()
        self.dependent = torch.nn.Linear(size, inner)
        self.head = torch.nn.Linear(size, inner)
        self.dropout = torch.nn.Dropout(dropout)
        self.weight = torch.nn.Parameter(torch.zeros(outputs, inner + 1, inner + 1))

    def vectors(self, dependents: Tensor, heads: Tensor) -> tuple[Tensor, Tensor]:
        """What the form is bilinear in."""
        a, b = (
            self.dropout(torch.nn.functional.leaky_relu(map_(x), 0.1))
            for map_, x in ((self.dependent, dependents), (self.head, heads))
        )
        return torch.cat([a, torch.ones_like(a[..., :1])], dim=-1), torch.cat([b, torch.ones_like(b[..., :1])], dim=-1)

    def forward(self, dependents: Tensor, heads: Tensor) -> Tensor:
        a, b = self.vectors(dependents, heads)
        scores: Tensor = torch.einsum("bni,oij,bmj->bnmo", a, self.weight, b)
        return scores
