"""What estimators of many labels that depend on each other share: sequences of labels, labelled graphs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from itertools import chain, pairwise
from typing import Any, ClassVar, TypeVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from .._core.checks import check_choice, check_count, check_finite_positive, check_generator
from .._core.errors import IncompatiblePair, InvalidInput
from .._core.ragged import Ragged, item_max
from .._core.types import Array, IntArray
from ..costs.base import Cost, affine_form
from ..costs.zero_one import ZeroOne
from ..decoders.base import Decoder
from ..decoders.calibrated import Calibrated
from ..decoders.likeliest import Likeliest
from ..decoders.map import MAP
from ..losses.adversarial import Adversarial
from ..losses.base import Loss, Output
from ..losses.fenchel_young import FenchelYoung
from ..losses.margin import Hinge, Perceptron
from ..losses.named import CRF
from ..scorers.base import Scorer
from ..solvers.base import Solver
from ..structures.base import Structure
from ..structures.ragged import Family
from .base import HeldOut, LinearEstimator, make_cost

__all__ = ["Labeler", "label_codes", "read_labels"]

Self = TypeVar("Self", bound="Labeler")

_INNER_GAP = 1e-4
"""How exactly games are solved in training, in units of the cost of an example."""
_MOST_PASSES = 20
"""Of the perceptron, where ``max_iter`` is "auto"."""


class Labeler(LinearEstimator):
    """An estimator whose outputs are many labels of one set each; concrete ones say how inputs are read and scored.

    The concrete class gives :meth:`_read` (inputs as a batch that can be indexed by ``take``), :meth:`_scorer` and
    :meth:`_structure`; the losses are in ``_losses``, to which a subclass may add.
    """

    loss: str
    cost: Any
    strength: float
    decode: str
    early_stopping: bool
    validation_fraction: float
    n_iter_no_change: int
    kernel: Any = None

    classes_: Array

    _losses: ClassVar[dict[str, Callable[[Structure, Cost, float], Loss]]] = {
        "crf": lambda structure, cost, strength: CRF(structure, strength),
        "hinge": lambda structure, cost, strength: Hinge(structure, cost),
        "perceptron": lambda structure, cost, strength: Perceptron(structure),
        "sparsemap": lambda structure, cost, strength: FenchelYoung(structure, "euclidean", strength),
        "adversarial": lambda structure, cost, strength: Adversarial(structure, cost, tol=_INNER_GAP),
    }
    _margins = ("hinge", "perceptron")
    """Losses whose prediction is the output of highest score and nothing more."""
    _ways: ClassVar[tuple[str, ...]] = ("auto", "potentials", "predictor", "expected_cost")

    # -- what a concrete estimator says --------------------------------------------------------------------------------

    @abstractmethod
    def _read(self, X: Any, *, fit: bool, more: bool = False) -> Any:
        """The inputs as a batch: ``len``, and ``take(indices)``. ``more`` says that others will follow to learn from."""

    @abstractmethod
    def _structure(self, k: int, loss: str) -> Family:
        """The structure whose outputs are labellings with k labels, for the loss of this name."""

    @abstractmethod
    def _scorer(self, X: Any, loss: Loss) -> Any:
        """The scorer of a batch."""

    @abstractmethod
    def _check_sizes(self, batch: Any, y: Sequence[Any]) -> None:
        """Refuse outputs that do not have as many labels as their inputs ask for."""

    def _meet(self, batch: Any, labels: Ragged) -> None:
        """What the model's shape takes from the training data as a whole."""

    def _check_allowed(self, labels: Ragged) -> None:
        """Refuse truths that the model's constraints rule out."""

    # -- training ------------------------------------------------------------------------------------------------------

    def fit(self: Self, X: Any, y: Any, sample_weight: Any = None, *, X_val: Any = None, y_val: Any = None) -> Self:
        """Train on inputs X and their labels y, a list of label sequences.

        With ``X_val`` and ``y_val`` training stops when the mean cost on them no longer falls, and the best weights are
        kept; with ``early_stopping=True`` a share of X is set aside for that.
        """
        self._check_parameters()
        if (X_val is None) != (y_val is None):
            raise InvalidInput("X_val and y_val go together")
        y = read_labels(y, "y")
        batch = self._read(X, fit=True)
        self._check_sizes(batch, y)
        old = getattr(self, "classes_", None)
        classes = _classes_of(y)
        if self.warm_start and old is not None and not np.array_equal(old, classes):
            raise InvalidInput(
                f"warm_start=True needs the labels of the last fit, {list(old)}, but y has {list(classes)}"
            )
        self.classes_ = classes
        self._meet(batch, label_codes(y, classes))
        loss = self._set_up(classes)
        v = self._truths(loss, y)
        weights = _weights(sample_weight, len(y))
        held_out = None
        if X_val is not None:
            y_val = read_labels(y_val, "y_val")
            rest = self._read(X_val, fit=False)
            self._check_sizes(rest, y_val)
            there = self._loss_on(loss, rest)
            held_out = HeldOut(
                self, self._scorer(rest, there), there, self._truths(there, y_val, "y_val"), self.n_iter_no_change
            )
        elif self.early_stopping:
            inside, outside = self._split(len(y))
            there, loss = loss.take(outside), loss.take(inside)
            held_out = HeldOut(self, self._scorer(batch.take(outside), there), there, v[outside], self.n_iter_no_change)
            batch, v = batch.take(inside), v[inside]
            weights = None if weights is None else weights[inside]
        self._train(batch, v, loss, weights, held_out=held_out)
        return self

    def partial_fit(self: Self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from the examples one by one, going on from what was learned before.

        The first call names all ``classes`` that will come. Chunks of any size give the same weights.
        """
        self._check_parameters()
        first = not hasattr(self, "classes_")
        y = read_labels(y, "y")
        if first:
            if classes is None:
                raise InvalidInput("classes must be given in the first call of partial_fit: all labels that will come")
            self.classes_ = _classes_of([list(classes)])
        elif classes is not None and not np.array_equal(self.classes_, _classes_of([list(classes)])):
            raise InvalidInput(f"classes are {list(classes)}, but the first call named {list(self.classes_)}")
        batch = self._read(X, fit=first, more=first)
        self._check_sizes(batch, y)
        if first:
            self._meet(batch, label_codes(y, self.classes_))
        loss = self._set_up(self.classes_)
        self._train_part(batch, self._truths(loss, y), loss, _weights(sample_weight, len(y)))
        return self

    def _check_parameters(self) -> None:
        check_choice(self.loss, "loss", tuple(self._losses))
        check_choice(self.decode, "decode", self._ways)
        if not isinstance(self.early_stopping, bool | np.bool_):
            raise InvalidInput(f"early_stopping is {self.early_stopping!r}, expected True or False")
        check_count(self.n_iter_no_change, "n_iter_no_change")
        share = check_finite_positive(self.validation_fraction, "validation_fraction")
        if share >= 1:
            raise InvalidInput(f"validation_fraction is {self.validation_fraction}, expected a share below 1")

    def _set_up(self, classes: Array) -> Loss:
        """The loss and the decoder for these labels, refused here if they do not fit."""
        structure = self._structure(len(classes), self.loss)
        cost = make_cost(self.cost)
        loss = self._losses[self.loss](structure, cost, self.strength)
        self.decoder_ = self._decoder(structure, cost, loss)
        return loss

    def _decoder(self, structure: Structure, cost: Cost, loss: Loss) -> Decoder:
        way = self.decode
        if way == "auto":
            potentials = isinstance(cost, ZeroOne) or self.loss in (*self._margins, "adversarial")
            way = "potentials" if potentials else "expected_cost"
        if way == "potentials":
            return MAP()
        if self.loss in self._margins:
            raise IncompatiblePair(
                f"decode={way!r} needs a distribution over labels, which loss={self.loss!r} does not give; use "
                "decode='potentials'"
            )
        return Likeliest() if way == "predictor" else self._check_decoding(Calibrated(structure, cost), loss)

    def _loss_on(self, loss: Loss, batch: Any) -> Loss:
        """The loss of other inputs; another one only where the structure differs from input to input."""
        return loss

    def _decoder_for(self, output: Output) -> Decoder:
        """The decoder of these outputs; estimators whose structure differs by input bind it to theirs."""
        return self.decoder_

    def _truths(self, loss: Loss, y: Sequence[Any], name: str = "y") -> Any:
        codes = label_codes(y, self.classes_, name)
        self._check_allowed(codes)
        return loss.structure.encode(list(codes))

    def _split(self, n: int) -> tuple[IntArray, IntArray]:
        """Examples to learn from, and those held out."""
        out = max(1, round(self.validation_fraction * n))
        if out >= n:
            raise InvalidInput(f"early_stopping holds out {out} of {n} examples, which leaves none to learn from")
        order = check_generator(self.random_state, "random_state").permutation(n)
        return np.sort(order[out:]), np.sort(order[:out])

    def _training_scorer(self, X: Any, loss: Loss) -> Scorer:
        return self._scorer(X, loss)

    def _solver(self, loss: Loss) -> Solver:
        own = isinstance(self.solver, Solver) or self.solver in ("auto", "perceptron")
        if isinstance(loss, Perceptron) and not own:
            raise IncompatiblePair(
                f"the perceptron loss is least at weights of zero, so solver={self.solver!r} would learn nothing; use "
                "solver='auto', the averaged perceptron, or loss='hinge'"
            )
        return super()._solver(loss)

    def _default_solver(self, loss: Loss) -> str:
        return "perceptron" if isinstance(loss, Perceptron) else super()._default_solver(loss)

    def _iterations(self, solver: str) -> int:
        if isinstance(self.max_iter, str) and self.max_iter == "auto":
            return _MOST_PASSES if solver == "perceptron" else 1000
        return self.max_iter

    # -- use -----------------------------------------------------------------------------------------------------------

    def _output(self, X: Any) -> Output:
        check_is_fitted(self)
        batch = self._read(X, fit=False)
        return self.loss_.output(self._scorer(batch, self.loss_).scores(self.weights_))

    def predict(self, X: Any) -> list[list[Any]]:
        """The labels of least expected cost, a list for each input."""
        output = self._output(X)
        return self._as_labels(self._decoder_for(output).decode(output))

    def predict_single(self, x: Any) -> list[Any]:
        """The labels of one input."""
        return self.predict([x])[0]

    def predict_marginals(self, X: Any) -> list[Array]:  # type: ignore[override]
        """The model's μ: for each input a row for each of its labels, with a column for each class.

        With ``loss="crf"`` these are the probabilities of the labels; with "sparsemap" a sparse distribution.
        """
        output = self._output(X)
        rows = output.structure.as_rows(output.predictor, "marginals")[0]
        mu = self.loss_.structure.position_marginals(rows)
        ends = np.cumsum(self._label_counts(rows))
        return np.split(mu, ends[:-1]) if len(ends) else []

    def sample_predictions(self, X: Any, random_state: Any = None) -> list[list[Any]]:
        """One draw for each input: from p(y | x) with ``loss="crf"``, else labels whose mean is the model's μ."""
        rng = check_generator(random_state, "random_state")
        output = self._output(X)
        structure: Any = output.structure
        drawable = isinstance(self.loss_, FenchelYoung) and self.loss_.regularizer.name == "gibbs"
        if drawable and hasattr(structure, "draw"):
            vertices = structure.draw(output.scores / self.strength, rng)
        else:
            vertices = structure.sample(output.predictor, rng)
        return self._as_labels(structure.decode(vertices))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of labels that are right, over all inputs together."""
        truths = read_labels(y, "y")
        predicted = self.predict(X)
        if len(predicted) != len(truths):
            raise InvalidInput(f"there are {len(predicted)} inputs but {len(truths)} truths")
        for i, (a, b) in enumerate(zip(predicted, truths, strict=True)):
            if len(a) != len(b):
                raise InvalidInput(f"y of sample {i} has {len(b)} labels, but its input has {len(a)}")
        right = np.array(
            [sum(p == t for p, t in zip(a, b, strict=True)) for a, b in zip(predicted, truths, strict=True)]
        )
        sizes = np.array([len(a) for a in predicted])
        weights = _weights(sample_weight, len(truths))
        weights = np.ones(len(truths)) if weights is None else weights
        total = float(weights @ sizes)
        return float(weights @ right) / total if total > 0 else float("nan")

    def _as_labels(self, codes: Any) -> list[list[Any]]:
        if not len(codes):
            return []
        names = self.classes_[np.concatenate(codes)].tolist()
        ends = np.cumsum([len(one) for one in codes]).tolist()
        return [names[a:b] for a, b in pairwise([0, *ends])]

    def _label_counts(self, rows: Any) -> IntArray:
        """How many labels each item of these rows has."""
        raise NotImplementedError

    # -- costs of answers ----------------------------------------------------------------------------------------------

    def _answer_costs(self, loss: Loss, output: Output, v: Any) -> Array:
        cost = make_cost(self.cost)
        answers = self._decoder_for(output).vertices(output)
        if isinstance(cost, ZeroOne):
            return np.asarray(item_max(abs(answers - v)) > 0, dtype=np.float64)
        return np.asarray(affine_form(cost, loss.structure, loss.structure).value(answers, v))

    def __sklearn_tags__(self) -> Any:
        tags = BaseEstimator.__sklearn_tags__(self)
        tags.input_tags.sparse = True
        tags.input_tags.two_d_array = False
        tags.target_tags.required = True
        tags.target_tags.one_d_labels = False
        tags.no_validation = True
        return tags


# -- labels ------------------------------------------------------------------------------------------------------------


def read_labels(y: Any, name: str) -> list[Any]:
    """A list with a sequence of labels for each example."""
    if y is None:
        raise InvalidInput(f"{name} is None, expected a list of label sequences")
    if isinstance(y, str | bytes | dict) or not hasattr(y, "__iter__"):
        raise InvalidInput(f"{name} is {type(y).__name__}, expected a list of label sequences")
    listed = []
    for i, labels in enumerate(y):
        if isinstance(labels, str | bytes | dict) or not hasattr(labels, "__iter__") or getattr(labels, "ndim", 1) == 0:
            raise InvalidInput(
                f"{name} of sample {i} is {labels!r}, expected a sequence of labels: one for each part of its input"
            )
        listed.append(labels.tolist() if isinstance(labels, np.ndarray) else list(labels))
    return listed


def _classes_of(y: Sequence[Sequence[Any]]) -> Array:
    """The labels that occur, sorted."""
    try:
        found = sorted(set(chain.from_iterable(y)))
    except TypeError as error:
        raise InvalidInput(f"y holds labels that cannot be sorted ({error}); use texts only, or numbers only") from None
    if not found:
        raise InvalidInput("y holds no label at all")
    kinds = {type(label) for label in found}
    if kinds <= {str} or all(issubclass(kind, int | float | np.number | np.bool_) for kind in kinds):
        return np.array(found)
    classes = np.empty(len(found), dtype=object)
    classes[:] = found
    return classes


def label_codes(y: Sequence[Sequence[Any]], classes: Array, name: str = "y") -> Ragged:
    """Each label as its place in ``classes``."""
    code = {label: i for i, label in enumerate(classes.tolist())}
    sizes = np.array([len(labels) for labels in y], dtype=np.int64)
    flat = np.fromiter((code.get(label, -1) for label in chain.from_iterable(y)), np.int64, int(sizes.sum()))
    codes = Ragged(flat, np.concatenate([[0], np.cumsum(sizes)]))
    if flat.min(initial=0) < 0:
        i, where = codes.item_of(int(np.argmin(flat)))
        raise InvalidInput(
            f"{name} of sample {i} holds {y[i][where[0]]!r} at position {where[0]}, which is not among the labels "
            f"{classes.tolist()}"
        )
    return codes


def _weights(sample_weight: Any, n: int) -> Array | None:
    if sample_weight is None:
        return None
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.shape != (n,):
        raise InvalidInput(f"sample_weight has shape {weights.shape}, expected ({n},): a weight for each example")
    return weights
