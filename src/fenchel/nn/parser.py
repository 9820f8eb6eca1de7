"""The network of a dependency parser: from sentences to vectors of words, scores of arcs and labels, and its training."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._core.errors import InvalidInput
from .._core.parallel import get_threads
from .._core.ragged import Ragged
from .._core.types import Array, IntArray
from ..data.conllu import Sentence
from ..losses.base import Loss
from ..losses.head_selection import HeadSelection
from ..structures.tree import Arborescences, DependencyTrees
from .biaffine import BiaffineScorer, WordIndex
from .losses import StructuredLoss

__all__ = ["ParsingNetwork", "Training", "train_network"]

_UNKNOWN = 1
_AT_ONCE = 4000
"""Words of a batch where nothing is learned."""
_LARGE = 256
"""From so many units a direction on, PyTorch's own threads are worth having."""
_STEPS, _EPOCHS = 1000, (10, 200)
_CLIP = 5.0
_DECAY = 0.75 ** (1 / 5000)
"""Of the learning rate, with each step, as Dozat and Manning have it."""

Report = Callable[[int, float, "float | None"], None]


class ParsingNetwork:
    """A :class:`BiaffineScorer` and the numbers of the words, characters, tags and labels that it was made for.

    :func:`train_network`, and :class:`fenchel.DependencyParser` with ``features="neural"``, make it; as ``features`` of another
    ``DependencyParser`` it stays as it is, and only the last layer is learned.

    Parameters
    ----------
    words, characters, tags, labels : list of str
        What has a number. Without tags words have no embedding of one; with less than two labels none are scored.
    sizes : dict
        What :class:`BiaffineScorer` takes beside these.
    weights : dict of arrays, optional
        The network's parameters by name; random ones without.
    longest : int, default=20
        Characters read of a word.

    Examples
    --------
    >>> from fenchel.data import small_treebank
    >>> from fenchel.nn import train_network
    >>> sentences = small_treebank(20, random_state=0)
    >>> network = train_network(sentences, "head-selection", sizes={"hidden": 16}, epochs=2, seed=0).network
    >>> dependents, heads = network.vectors(sentences[:1])[0]
    >>> len(heads) - len(dependents), dependents.shape[1] == network.size
    (1, True)
    """

    def __init__(
        self,
        words: Sequence[str],
        characters: Sequence[str],
        tags: Sequence[str],
        labels: Sequence[str],
        sizes: dict[str, Any],
        weights: dict[str, Array] | None = None,
        longest: int = 20,
    ) -> None:
        self.index = WordIndex.of(words, characters, longest)
        self.tags = {tag: i + 2 for i, tag in enumerate(tags)}
        self.labels = tuple(labels)
        self.sizes = dict(sizes)
        n_tags = len(self.tags) + 2 if self.tags else 0
        self.module = BiaffineScorer(
            self.index.n_words, self.index.n_characters, n_tags=n_tags, labels=max(len(self.labels), 1), **self.sizes
        )
        if weights is not None:
            self.module.load_state_dict({name: torch.tensor(array) for name, array in weights.items()})
        self.module.eval()
        self._known: dict[Sentence, Tensor] | None = None

    @classmethod
    def for_sentences(
        cls, sentences: Sequence[Sentence], *, least: int = 1, labels: bool = True, sizes: dict[str, Any]
    ) -> ParsingNetwork:
        """An untrained network for the words, tags and labels of these sentences."""
        met = WordIndex([s.forms for s in sentences], least=least)
        tags = sorted({tag for s in sentences for tag in s.upos})
        names = sorted({label for s in sentences for label in s.labels}) if labels else []
        made = cls(list(met.words), list(met.characters), [] if tags == ["_"] else tags, names, sizes)
        made.module.hiding.copy_(torch.from_numpy(met.rarity))
        return made

    def saved_arguments(self) -> dict[str, Any]:
        weights = {name: tensor.detach().cpu().numpy() for name, tensor in self.module.state_dict().items()}
        return {
            "words": list(self.index.words),
            "characters": list(self.index.characters),
            "tags": list(self.tags),
            "labels": list(self.labels),
            "sizes": self.sizes,
            "weights": weights,
            "longest": self.index.longest,
        }

    def __repr__(self) -> str:
        return f"ParsingNetwork({len(self.index.words)} words, {len(self.labels)} labels, vectors of {self.size})"

    @property
    def size(self) -> int:
        """The length of the vectors of arcs, without the one added to each."""
        return int(self.module.arc.weight.shape[1]) - 1

    @property
    def last_layer(self) -> Array:
        """The biaffine form of arcs, (size + 1, size + 1): a row for each entry of a dependent's vector."""
        weight: Array = self.module.arc.weight[0].detach().cpu().numpy().astype(np.float64)
        return weight

    # -- use -----------------------------------------------------------------------------------------------------------

    def vectors(self, sentences: Sequence[Sentence]) -> list[tuple[Array, Array]]:
        """For each sentence of n words its words as dependents (n, size) and as heads (n + 1, size), the root first.

        With a one added to both, an arc's score is their bilinear form with :attr:`last_layer`.
        """
        found: list[Any] = [None] * len(sentences)
        for batch, features, lengths in self._read(sentences):
            a, b = self.module.arc.vectors(features, self.module.with_root(features))
            dependents, heads = (x[..., :-1].cpu().numpy().astype(np.float64) for x in (a, b))
            for i, at in enumerate(batch):
                found[at] = dependents[i, : lengths[i]], heads[i, : lengths[i] + 1]
        return found

    def told_labels(self, sentences: Sequence[Sentence], heads: Sequence[IntArray]) -> list[list[str]]:
        """The likeliest label of each word's arc, given its head."""
        if self.module.label is None:
            return [list(self.labels) * len(s) for s in sentences]
        found: list[Any] = [None] * len(sentences)
        for batch, features, lengths in self._read(sentences):
            given = _padded([heads[at] for at in batch], features.shape[1])
            best = self.module.label.at(features, self.module.with_root(features), given).argmax(dim=2).tolist()
            for i, at in enumerate(batch):
                found[at] = [self.labels[k] for k in best[i][: lengths[i]]]
        return found

    def predict(self, sentences: Sequence[Sentence], *, single_root: bool = True) -> list[Sentence]:
        """The sentences with the trees of highest score under the network's own last layer, and its labels."""
        if not len(sentences):
            return []
        trees: Any = DependencyTrees() if single_root else Arborescences()
        W = self.last_layer
        scores = [(a @ W[:-1] + W[-1]) @ np.c_[b, np.ones(len(b))].T for a, b in self.vectors(sentences)]
        heads = trees.decode(trees.argmax(Ragged.of(scores)))
        if not self.labels:
            return [s.with_parse(tree) for s, tree in zip(sentences, heads, strict=True)]
        labels = self.told_labels(sentences, heads)
        return [s.with_parse(tree, names) for s, tree, names in zip(sentences, heads, labels, strict=True)]

    @contextmanager
    def remembering(self) -> Iterator[ParsingNetwork]:
        """Inside, each sentence is read once: for many last layers on one network that no longer learns."""
        self._known = {}
        try:
            yield self
        finally:
            self._known = None

    def inputs(self, sentences: Sequence[Sentence]) -> tuple[Any, ...]:
        """What the module takes for these sentences."""
        words, characters, lengths = self.index([s.forms for s in sentences])
        if not self.tags:
            return words, characters, lengths
        numbers = [np.array([self.tags.get(tag, _UNKNOWN) for tag in s.upos], np.int64) for s in sentences]
        return words, characters, lengths, _padded(numbers, words.shape[1])

    def _read(self, sentences: Sequence[Sentence]) -> Iterator[tuple[list[int], Tensor, IntArray]]:
        """Places of a batch of sentences, the vectors of their words, and their lengths."""
        self.module.eval()
        lengths = np.array([len(s) for s in sentences], np.int64)
        with torch.no_grad(), _threads(self.sizes):
            for batch in _batches(np.argsort(lengths, kind="stable"), lengths, _AT_ONCE):
                items = [sentences[i] for i in batch]
                known = self._known
                if known is not None and all(s in known for s in items):
                    yield batch, torch.nn.utils.rnn.pad_sequence([known[s] for s in items], True), lengths[batch]
                    continue
                features = self.module.features(*self.inputs(items))
                if known is not None:
                    known.update((s, features[i, : len(s)].clone()) for i, s in enumerate(items))
                yield batch, features, lengths[batch]


# -- training ----------------------------------------------------------------------------------------------------------


@dataclass
class Training:
    """A trained network and how it went."""

    network: ParsingNetwork
    objectives: list[float] = field(default_factory=list)
    """The mean loss over sentences in each epoch, while weights moved."""
    held_out: list[float] = field(default_factory=list)
    """The share of right heads in the held-out sentences after each epoch."""
    interrupted: bool = False


def train_network(
    sentences: Sequence[Sentence],
    loss: str | Loss,
    *,
    sizes: dict[str, Any] | None = None,
    labels: bool = True,
    least: int = 1,
    epochs: int | None = None,
    batch_words: int = 200,
    learning_rate: float = 2e-3,
    validation: float = 0.0,
    patience: int = 5,
    single_root: bool = True,
    sample_weight: Array | None = None,
    start: ParsingNetwork | None = None,
    seed: int = 0,
    report: Report | None = None,
) -> Training:
    """Train a network of sentences with heads (and labels) end to end, by Adam on batches of sentences of like lengths.

    It minimises the mean over sentences of the loss of their trees and of the cross-entropy of the labels of their arcs.
    ``loss`` is "binary", a binary cross-entropy for each possible arc, "head-selection", the cross-entropy of each word's
    head among all words, or any loss on trees. ``epochs`` is None for as many as make 1000 steps, but 10 to 200.
    ``validation`` is the share of the sentences that decide when to stop: ``patience`` epochs after the best, whose weights
    are kept.

    The same seed gives the same network (with the same number of threads); the random state of PyTorch stays as it was.
    """
    lengths = np.array([len(s) for s in sentences], np.int64)
    shares = np.ones(len(sentences)) if sample_weight is None else np.asarray(sample_weight, np.float64)
    rng = np.random.default_rng(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        order = rng.permutation(len(sentences))
        n_out = min(round(validation * len(sentences)), len(sentences) - 1)
        outside, inside = order[:n_out], np.sort(order[n_out:])
        total = float(shares[inside].sum())
        if not total > 0:
            raise InvalidInput("sample_weight is zero for all sentences that are learned from")
        network = start or ParsingNetwork.for_sentences(
            [sentences[i] for i in inside], least=least, labels=labels, sizes=sizes or {}
        )
        made = Training(network)
        module, value = network.module, _arc_loss(loss)
        places = {label: i for i, label in enumerate(network.labels)}
        if len(places) > 1:
            unmet = {label for i in inside for label in sentences[i].labels} - set(places)
            if unmet:
                raise InvalidInput(f"the network to start from was made without the label {min(unmet)!r}")
        optimizer = torch.optim.Adam(module.parameters(), lr=learning_rate, betas=(0.9, 0.9))
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, _DECAY)
        scale = float(shares[inside] @ lengths[inside]) / total  # gradients are those of a word, whatever the lengths
        best: dict[str, Tensor] | None = None
        try:
            with _threads(network.sizes):
                if epochs is None:
                    batches = len(_shuffled(inside, lengths, batch_words, np.random.default_rng(0)))
                    epochs = min(max(-(-_STEPS // batches), _EPOCHS[0]), _EPOCHS[1])
                for epoch in range(epochs):
                    module.train()
                    met, objective = 0.0, 0.0
                    for batch in _shuffled(inside, lengths, batch_words, rng):
                        weight = torch.tensor(shares[batch], dtype=torch.float32)
                        if not float(weight.sum()) > 0:
                            continue
                        items = [sentences[i] for i in batch]
                        each = _losses(network, items, value, places)
                        mean = (each * weight).sum() / weight.sum()
                        optimizer.zero_grad()
                        (mean / scale).backward()
                        torch.nn.utils.clip_grad_norm_(module.parameters(), _CLIP)
                        optimizer.step()
                        schedule.step()
                        met += float(weight.sum())
                        objective += float(mean.detach()) * float(weight.sum())
                    made.objectives.append(objective / met)
                    score = None
                    if n_out:
                        score = _right_heads(network, [sentences[i] for i in outside], single_root)
                        if not made.held_out or score > max(made.held_out):
                            best = {name: tensor.clone() for name, tensor in module.state_dict().items()}
                        made.held_out.append(score)
                    if report is not None:
                        report(epoch + 1, made.objectives[-1], score)
                    if n_out and epoch - int(np.argmax(made.held_out)) >= patience:
                        break
        except KeyboardInterrupt:
            made.interrupted = True
        if best is not None:
            module.load_state_dict(best)
        module.eval()
    return made


def _losses(
    network: ParsingNetwork, sentences: list[Sentence], value: Callable[[Tensor, list[IntArray], IntArray], Tensor],
    places: dict[str, int],
) -> Tensor:  # fmt: skip
    """What each sentence's tree and labels lose."""
    given = network.inputs(sentences)
    trees, lengths = [s.heads for s in sentences], given[2]
    features = network.module.features(*given)
    heads = _padded(trees, features.shape[1])
    scores, named = network.module.arcs_and_labels(features, heads)
    each = value(scores, trees, lengths)
    if named is None:
        return each
    truth = _padded([np.array([places[label] for label in s.labels], np.int64) for s in sentences], features.shape[1])
    words = torch.nn.functional.cross_entropy(named.transpose(1, 2), truth, reduction="none")
    return each + (words * _inside(words.shape[1], lengths)).sum(dim=1)


def _arc_loss(loss: str | Loss) -> Callable[[Tensor, list[IntArray], IntArray], Tensor]:
    """The losses of the trees of a batch, one for each sentence, from padded scores."""
    if loss == "head-selection":
        loss = HeadSelection(DependencyTrees())
    if isinstance(loss, Loss):
        module = StructuredLoss(loss, reduction="none")
        return lambda scores, trees, lengths: module(scores, trees, lengths=lengths)
    if loss == "binary":
        return _binary
    raise InvalidInput(f"loss is {loss!r}, expected 'binary', 'head-selection' or a fenchel.losses.Loss")


def _binary(scores: Tensor, trees: list[IntArray], lengths: IntArray) -> Tensor:
    chosen = torch.zeros_like(scores).scatter_(2, _padded(trees, scores.shape[1])[:, :, None], 1.0)
    arcs = torch.nn.functional.binary_cross_entropy_with_logits(scores, chosen, reduction="none")
    return torch.where(_possible(scores, lengths), arcs, 0.0).sum(dim=(1, 2))


def _inside(n: int, lengths: IntArray) -> Tensor:
    return torch.arange(n) < torch.as_tensor(lengths)[:, None]


def _possible(scores: Tensor, lengths: IntArray) -> Tensor:
    """Which entries are arcs: neither padding nor from a word to itself."""
    n = scores.shape[1]
    heads = torch.cat([torch.ones(len(scores), 1, dtype=torch.bool), _inside(n, lengths)], dim=1)
    possible = _inside(n, lengths)[:, :, None] & heads[:, None, :]
    possible[:, torch.arange(n), torch.arange(1, n + 1)] = False
    return possible


def _padded(rows: Sequence[IntArray], n: int) -> Tensor:
    out = np.zeros((len(rows), n), np.int64)
    for i, row in enumerate(rows):
        out[i, : len(row)] = row
    return torch.from_numpy(out)


def _right_heads(network: ParsingNetwork, sentences: list[Sentence], single_root: bool) -> float:
    """The share of words whose head is that of the tree of highest score."""
    parses = network.predict(sentences, single_root=single_root)
    right = sum(int((a.heads == s.heads).sum()) for a, s in zip(parses, sentences, strict=True))
    return right / sum(map(len, sentences))


def _shuffled(items: IntArray, lengths: IntArray, most: int, rng: np.random.Generator) -> list[list[int]]:
    """Batches of sentences of like lengths, in random order."""
    mixed = items[rng.permutation(len(items))]
    made = list(_batches(mixed[np.argsort(lengths[mixed], kind="stable")], lengths, most))
    return [made[i] for i in rng.permutation(len(made))]


def _batches(order: IntArray, lengths: IntArray, most: int) -> Iterator[list[int]]:
    """These sentences, in this order, in batches of at most so many words with their padding."""
    batch: list[int] = []
    longest = 0
    for i in order.tolist():
        longest = max(longest, int(lengths[i]))
        if batch and longest * (len(batch) + 1) > most:
            yield batch
            batch, longest = [], int(lengths[i])
        batch.append(i)
    if batch:
        yield batch


@contextmanager
def _threads(sizes: dict[str, Any]) -> Iterator[None]:
    """One thread of PyTorch for small networks, else at most as many as the library may use."""
    before = torch.get_num_threads()
    torch.set_num_threads(min(before, get_threads()) if sizes.get("hidden", _LARGE) >= _LARGE else 1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
