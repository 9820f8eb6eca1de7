"""A network that scores the arcs of dependency trees: BiLSTMs over words and characters, and deep biaffine attention."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._core.checks import check_count
from .._core.errors import InvalidInput
from .._core.types import Array, IntArray

__all__ = ["BiaffineScorer", "WordIndex"]

_PADDING, _UNKNOWN = 0, 1
_RARITY = 0.25


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
        self._number(kept, sorted({c for word in counts for c in word}))
        self.longest = check_count(longest, "longest")
        self.counts: IntArray = np.array([0, 0, *(counts[word] for word in kept)], np.int64)
        """How often the word of each number was met."""

    @classmethod
    def of(cls, words: Sequence[str], characters: Sequence[str], longest: int = 20) -> WordIndex:
        """The index that gives these words, and these characters, the numbers 2, 3, ..., without having met any."""
        made = cls([], longest=longest)
        made._number(words, characters)
        made.counts = np.zeros(made.n_words, np.int64)
        return made

    def _number(self, words: Sequence[str], characters: Sequence[str]) -> None:
        self.words = {word: i + 2 for i, word in enumerate(words)}
        self.characters = {c: i + 2 for i, c in enumerate(characters)}

    @property
    def n_words(self) -> int:
        """How many numbers words have."""
        return len(self.words) + 2

    @property
    def n_characters(self) -> int:
        """How many numbers characters have."""
        return len(self.characters) + 2

    @property
    def rarity(self) -> Array:
        """a / (a + count) for each number, with a = 1/4: how often training should hide a word (none at padding)."""
        shares = _RARITY / (_RARITY + self.counts)
        shares[:2] = 0.0
        return shares

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

    A BiLSTM over the characters of a word, an embedding of the word and, with ``n_tags``, one of its tag go into a BiLSTM over
    the sentence. Each word gets a vector as a dependent and one as a head, and an arc's score is biaffine in the two; with
    ``labels`` > 1 that of the label is added, by a second pair of vectors. Scores are what the losses on ``DependencyTrees``
    take, with ``lengths``.

    Parameters
    ----------
    n_words, n_characters : int
        Of the :class:`WordIndex`.
    n_tags : int, default=0
        How many numbers tags have, 0 being padding; without, there are none.
    labels : int, default=1
        Kinds of arcs.
    word_size, character_size, tag_size, hidden, layers, arc_size, label_size : int
        Sizes of embeddings, of each direction of the sentence's LSTM and its layers, and of the vectors of arcs and labels.
    dropout : float, default=0.33
        On embeddings, between layers, on vectors: the same entries for all words of a sentence.
    hiding : float or array, default=0.33
        How often training puts the unknown word in a word's place: for all words, or for each number
        (:attr:`WordIndex.rarity`), so that words met once teach what to do with words never met.

    References
    ----------
    Dozat and Manning, "Deep biaffine attention for neural dependency parsing", 2017; Kiperwasser and Goldberg, "Simple and
    accurate dependency parsing using bidirectional LSTM feature representations", 2016; Gal and Ghahramani, "A theoretically
    grounded application of dropout in recurrent neural networks", 2016.

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
        n_tags: int = 0,
        labels: int = 1,
        word_size: int = 100,
        character_size: int = 50,
        tag_size: int = 50,
        hidden: int = 200,
        layers: int = 2,
        arc_size: int = 100,
        label_size: int = 50,
        dropout: float = 0.33,
        hiding: float | Array = 0.33,
    ) -> None:
        super().__init__()
        self.labels = check_count(labels, "labels")
        self.words = torch.nn.Embedding(n_words, word_size, padding_idx=_PADDING)
        self.characters = torch.nn.Embedding(n_characters, character_size, padding_idx=_PADDING)
        self.tags = torch.nn.Embedding(n_tags, tag_size, padding_idx=_PADDING) if n_tags else None
        self.spelling = _BiLSTM(character_size, character_size)
        given = word_size + 2 * character_size + (tag_size if n_tags else 0)
        self.context = torch.nn.ModuleList(
            _BiLSTM(2 * hidden if i else given, hidden) for i in range(check_count(layers, "layers"))
        )
        self.root = torch.nn.Parameter(torch.zeros(2 * hidden))
        self.dropout = _SharedDropout(dropout)
        self.arc = _Biaffine(2 * hidden, arc_size, 1, dropout)
        self.label = _Biaffine(2 * hidden, label_size, labels, dropout) if labels > 1 else None
        shares = np.broadcast_to(np.asarray(hiding, np.float32), n_words)
        self.register_buffer("hiding", torch.tensor(shares))

    def features(self, words: Tensor, characters: Tensor, lengths: Any, tags: Tensor | None = None) -> Tensor:
        """A vector for each word in its sentence, ``(sentences, words, 2 hidden)``."""
        if (tags is None) != (self.tags is None):
            raise InvalidInput(f"the network was made {'with' if self.tags is not None else 'without'} tags")
        sizes = torch.as_tensor(lengths, dtype=torch.long, device=words.device)
        n = words.shape[1]
        if self.training:  # what to do with unknown words is learned from words that are hidden
            hidden = torch.rand(words.shape, device=words.device) < self.hiding[words]
            words = torch.where(hidden & (words != _PADDING), _UNKNOWN, words)
        parts = [self.words(words), self._spelled(characters, sizes, n)]
        if self.tags is not None:
            parts.append(self.tags(tags))
        out: Tensor = self.dropout(torch.cat(parts, dim=2))
        for i, layer in enumerate(self.context):
            out = layer(self.dropout(out) if i else out, sizes)
        return out

    def _spelled(self, characters: Tensor, sizes: Tensor, n: int) -> Tensor:
        """The last states of the LSTM over characters, which is run once for each different word."""
        b, _, width = characters.shape
        inside = (torch.arange(n, device=sizes.device) < sizes[:, None]).reshape(-1)
        different, where = torch.unique(characters.reshape(b * n, width)[inside], dim=0, return_inverse=True)
        counts = (different != _PADDING).sum(dim=1).clamp(min=1)
        ends = self.spelling.ends(self.dropout(self.characters(different)), counts)
        places = inside.nonzero()[:, 0]
        return ends.new_zeros(b * n, ends.shape[1]).index_put((places,), ends[where]).reshape(b, n, -1)

    def forward(self, words: Tensor, characters: Tensor, lengths: Any, tags: Tensor | None = None) -> Tensor:
        """Scores of all arcs."""
        return self.arcs(self.features(words, characters, lengths, tags))

    def arcs(self, features: Tensor) -> Tensor:
        """Scores of all arcs from the vectors of words: the last layer alone."""
        features = self.dropout(features)
        heads = self.with_root(features)
        scores: Tensor = self.arc(features, heads)
        if self.label is None:
            return scores[..., 0]
        total: Tensor = scores + self.label(features, heads)
        return total

    def arcs_and_labels(self, features: Tensor, heads: Tensor) -> tuple[Tensor, Tensor | None]:
        """Scores of all arcs without labels, and those of the labels of the arcs from ``heads``, ``(sentences, words)``."""
        features = self.dropout(features)
        among = self.with_root(features)
        scores: Tensor = self.arc(features, among)[..., 0]
        return scores, None if self.label is None else self.label.at(features, among, heads)

    def with_root(self, features: Tensor) -> Tensor:
        """The vectors of all that can be heads: the root's before those of the words."""
        return torch.cat([self.root.expand(len(features), 1, -1), features], dim=1)


class _SharedDropout(torch.nn.Module):
    """Dropout that takes the same entries at all positions of a sequence."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return x
        mask = torch.empty(len(x), 1, x.shape[2], dtype=x.dtype, device=x.device).bernoulli_(1 - self.p)
        return x * (mask / (1 - self.p))

    def extra_repr(self) -> str:
        return f"p={self.p}"


class _BiLSTM(torch.nn.Module):
    """One layer of an LSTM in both directions over padded sequences.

    Each direction reads from where its sequences begin, so padding comes last and is never seen. On the CPU this takes half the
    time of packed sequences.
    """

    def __init__(self, size: int, hidden: int) -> None:
        super().__init__()
        self.ahead = torch.nn.LSTM(size, hidden, batch_first=True)
        self.back = torch.nn.LSTM(size, hidden, batch_first=True)

    def forward(self, x: Tensor, sizes: Tensor) -> Tensor:
        there = _reversal(sizes, x.shape[1])
        return torch.cat([self.ahead(x)[0], _moved(self.back(_moved(x, there))[0], there)], dim=2)

    def ends(self, x: Tensor, sizes: Tensor) -> Tensor:
        """The state of each direction after its last step."""
        last = (sizes - 1)[:, None]
        states = self.ahead(x)[0], self.back(_moved(x, _reversal(sizes, x.shape[1])))[0]
        return torch.cat([_moved(state, last)[:, 0] for state in states], dim=1)


def _reversal(sizes: Tensor, n: int) -> Tensor:
    """Where to find each place of sequences that are turned around, their padding staying behind them."""
    at = torch.arange(n, device=sizes.device)
    return torch.where(at < sizes[:, None], sizes[:, None] - 1 - at, at)


def _moved(x: Tensor, places: Tensor) -> Tensor:
    return x.gather(1, places[:, :, None].expand(-1, -1, x.shape[2]))


class _Biaffine(torch.nn.Module):
    """A bilinear form of two transformed vectors, with a one added to each: scores of pairs."""

    def __init__(self, size: int, inner: int, outputs: int, dropout: float) -> None:
        super().__init__()
        self.dependent = torch.nn.Linear(size, inner)
        self.head = torch.nn.Linear(size, inner)
        self.dropout = _SharedDropout(dropout)
        self.weight = torch.nn.Parameter(torch.zeros(outputs, inner + 1, inner + 1))

    def vectors(self, dependents: Tensor, heads: Tensor) -> tuple[Tensor, Tensor]:
        """What the form is bilinear in."""
        a, b = (
            self.dropout(torch.nn.functional.leaky_relu(map_(x), 0.1))
            for map_, x in ((self.dependent, dependents), (self.head, heads))
        )
        return torch.cat([a, torch.ones_like(a[..., :1])], dim=-1), torch.cat([b, torch.ones_like(b[..., :1])], dim=-1)

    def forward(self, dependents: Tensor, heads: Tensor) -> Tensor:
        """Of all pairs, ``(sentences, dependents, heads, outputs)``."""
        a, b = self.vectors(dependents, heads)
        if len(self.weight) == 1:
            scores: Tensor = (a @ self.weight[0] @ b.transpose(1, 2))[..., None]
            return scores
        return torch.einsum("bnoj,bmj->bnmo", torch.einsum("bni,oij->bnoj", a, self.weight), b)

    def at(self, dependents: Tensor, heads: Tensor, places: Tensor) -> Tensor:
        """Of each dependent with one head, ``(sentences, dependents, outputs)``."""
        a, b = self.vectors(dependents, heads)
        return torch.einsum("bnoj,bnj->bno", torch.einsum("bni,oij->bnoj", a, self.weight), _moved(b, places))
