"""Vectors of words from a network in place of features. PyTorch is imported when a network is trained or loaded."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from .._core.checks import check_choice, check_count, check_finite_positive, check_generator
from .._core.errors import InvalidInput
from .._core.ragged import Ragged
from .._core.types import Array
from ..data.conllu import Sentence
from ..losses.adversarial import Adversarial
from ..losses.base import Loss
from ..scorers.base import Index, Scorer

__all__ = ["PRETRAINING", "NeuralFeatures", "as_features", "is_network", "train"]

PRETRAINING = ("binary", "head-selection")
"""What a network can be trained with that is no loss on trees."""
_SIZES = ("word_size", "character_size", "tag_size", "hidden", "layers", "arc_size", "label_size")
_GAME_TOL = 1e-2


@dataclass(frozen=True)
class NeuralFeatures:
    """How :class:`DependencyParser` makes vectors of words by a network: embeddings, BiLSTMs, deep biaffine arcs and labels.

    An embedding of the word, a BiLSTM over its characters and an embedding of its universal part of speech (where the training
    file has them) go into a BiLSTM over the sentence. Each word m gets a vector d_m as a dependent and each possible head
    k, the root too, a vector h_k; the arc scores [d_m; 1]ᵀ W [h_k; 1]. With ``frozen=False`` the whole network learns from
    the parser's loss. With ``frozen=True`` it is trained first, with ``pretraining``, and stays as it is; then W alone is
    learned anew with the parser's loss, a convex problem like that of any linear estimator. Needs PyTorch.

    Parameters
    ----------
    frozen : bool, default=False
        Whether the parser's loss trains W alone, on the vectors of a network trained before.
    pretraining : {"head-selection", "binary"}, default="head-selection"
        What trains a network that is frozen then: the cross-entropy of each word's head among all words, or a binary
        cross-entropy for each possible arc, which takes more epochs but leans less to one loss of the last layer.
    word_size, character_size, tag_size : int
        The lengths of embeddings.
    hidden, layers : int
        The units of each direction of the sentence's BiLSTM, and how many there are one above the other.
    arc_size, label_size : int
        The lengths of the vectors of arcs and of labels.
    dropout : float, default=0.33
        The share of inputs of each layer that a training step leaves out, the same for all words of a sentence.
    least : int, default=1
        Words met less often are unknown words.
    epochs : int or None, default=None
        Passes over the sentences; None for as many as make 1000 steps, but 10 to 200.
    batch_words : int, default=200
        About how many words a step sees.
    learning_rate : float, default=2e-3
        Of Adam.
    validation : float, default=0.0
        The share of the sentences that is held out to stop early; the weights best on them are kept.
    patience : int, default=5
        How many epochs without a better one end training, with ``validation`` > 0.

    References
    ----------
    Dozat and Manning, "Deep biaffine attention for neural dependency parsing", 2017; Li, Saeed, Zhang, Ziebart and Gimpel,
    "Moment distributionally robust tree structured prediction", 2022, section 6.

    Examples
    --------
    >>> from fenchel import DependencyParser
    >>> from fenchel.estimators import NeuralFeatures
    >>> parser = DependencyParser("robust-stochastic", features=NeuralFeatures(frozen=True, hidden=100), random_state=0)
    """

    frozen: bool = False
    pretraining: str = "head-selection"
    word_size: int = 100
    character_size: int = 50
    tag_size: int = 50
    hidden: int = 200
    layers: int = 2
    arc_size: int = 100
    label_size: int = 50
    dropout: float = 0.33
    least: int = 1
    epochs: int | None = None
    batch_words: int = 200
    learning_rate: float = 2e-3
    validation: float = 0.0
    patience: int = 5

    def __post_init__(self) -> None:
        check_choice(self.pretraining, "pretraining", PRETRAINING)
        for name in (*_SIZES, "least", "batch_words", "patience"):
            check_count(getattr(self, name), name)
        if self.epochs is not None:
            check_count(self.epochs, "epochs")
        check_finite_positive(self.learning_rate, "learning_rate")
        for name in ("dropout", "validation"):
            if not 0 <= getattr(self, name) < 1:
                raise InvalidInput(f"{name} is {getattr(self, name)!r}, expected a number from 0 to below 1")

    @property
    def sizes(self) -> dict[str, Any]:
        """What the network's shape is made of."""
        return {name: getattr(self, name) for name in (*_SIZES, "dropout")}


def is_network(features: Any) -> bool:
    """Whether it is a trained network of parsers, of which there are none before PyTorch is imported."""
    module = sys.modules.get("fenchel.nn.parser")
    return module is not None and isinstance(features, module.ParsingNetwork)


def as_features(features: Any) -> Any:
    """The :class:`NeuralFeatures` or the network that a parser's ``features`` mean; None if they mean something else."""
    if isinstance(features, str) and features == "neural":
        return NeuralFeatures()
    return features if isinstance(features, NeuralFeatures) or is_network(features) else None


def train(
    settings: NeuralFeatures,
    sentences: Sequence[Sentence],
    loss: str | Loss,
    *,
    labels: bool,
    single_root: bool,
    sample_weight: Array | None,
    start: Any,
    random_state: Any,
    verbose: int,
) -> Any:
    """The training of a network (:class:`fenchel.nn.parser.Training`), end to end through this loss."""
    from ..nn.parser import train_network

    if isinstance(loss, Adversarial) and loss.tol is None:
        loss = replace(loss, tol=_GAME_TOL)  # steps are noisier than that

    def report(epoch: int, objective: float, score: float | None) -> None:
        if verbose and epoch % verbose == 0:
            told = "" if score is None else f"  held-out heads {score:.4f}"
            print(f"[network] epoch {epoch:4d}  objective {objective:.6g}{told}", file=sys.stderr)

    schedule = {key: value for key, value in asdict(settings).items() if key in _SCHEDULE}
    return train_network(
        sentences,
        loss,
        sizes=settings.sizes,
        labels=labels,
        single_root=single_root,
        sample_weight=sample_weight,
        start=start,
        seed=int(check_generator(random_state, "random_state").integers(2**31)),
        report=report,
        **schedule,
    )


_SCHEDULE = ("least", "epochs", "batch_words", "learning_rate", "validation", "patience")


class Bilinear(Scorer):
    """θ_mh = [x_m; 1]ᵀ W [h_h; 1] for the vectors (x, h) of each sentence."""

    def __init__(self, items: Sequence[tuple[Array, Array]]) -> None:
        self.items = [(_with_one(a), _with_one(b)) for a, b in items]

    @property
    def n_examples(self) -> int:
        return len(self.items)

    @property
    def weights_shape(self) -> tuple[int, ...]:
        a, b = self.items[0]
        return a.shape[1], b.shape[1]

    def _some(self, idx: Index) -> list[tuple[Array, Array]]:
        return self.items if idx is None else [self.items[i] for i in np.arange(len(self.items))[idx]]

    def take(self, idx: Any) -> Bilinear:
        made = Bilinear([])
        made.items = self._some(idx)
        return made

    def scores(self, w: Array, idx: Index = None) -> Any:
        return Ragged.of([a @ w @ b.T for a, b in self._some(idx)], dtype=np.float64)

    def _sums(self, residual: Any, idx: Index) -> Iterator[Array]:
        for (a, b), r in zip(self._some(idx), residual, strict=True):
            yield a.T @ r.reshape(len(a), len(b)) @ b

    def adjoint(self, residual: Any, idx: Index = None) -> Array:
        total = self.zero_weights()
        for part in self._sums(residual, idx):
            total += part
        return total

    def quadratic(self, direction: Any, idx: Index = None) -> Array:
        return np.array([float(np.vdot(part, part)) for part in self._sums(direction, idx)])


def _with_one(x: Array) -> Array:
    return np.concatenate([x, np.ones((len(x), 1))], axis=1)
