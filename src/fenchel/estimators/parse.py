"""Dependency parses of sentences."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from .._core.checks import check_choice, check_count, check_finite_positive
from .._core.errors import ConvergenceWarning, InvalidInput
from .._core.ragged import offsets_of
from .._core.types import Array, IntArray
from ..costs.base import affine_form
from ..costs.hamming import Hamming
from ..data.arc_features import arc_rows, label_rows
from ..data.conllu import Sentence
from ..decoders.calibrated import Calibrated
from ..decoders.likeliest import Likeliest
from ..decoders.map import MAP
from ..losses.adversarial import Adversarial
from ..losses.base import Loss, Output
from ..losses.head_selection import HeadSelection
from ..losses.margin import Hinge
from ..losses.minimum_risk import MinimumRisk
from ..losses.named import CRF
from ..losses.softmax_margin import SoftmaxMargin
from ..scorers.base import Scorer
from ..scorers.bilinear import Bilinear
from ..scorers.pairs import Pairs
from ..solvers.base import Result
from ..structures.ragged import Family
from ..structures.tree import Arborescences, DependencyTrees
from . import neural
from .base import HeldOut, LinearEstimator
from .classify import FenchelYoungClassifier

__all__ = ["DependencyParser"]

_ROBUST = ("robust-marginal", "robust-stochastic", "robust-game")
_LOSSES = ("crf", "softmax-margin", "head-selection", "minimum-risk", "hinge", *_ROBUST)
_NETWORK_LOSSES = ("binary",)
_DECODINGS = ("risk", "weights")
_LABEL_COLUMNS = 2**14
# The smoothing of robust losses unless it is said, and the first and the largest last gap of games, in wrong heads.
_SMOOTHING = 0.1
_FIRST_GAP = 0.1
_LAST_GAP = 1e-3


class DependencyParser(LinearEstimator):
    """A linear dependency parser: from annotated sentences to heads and labels of new ones.

    A parse scores Σ ⟨w, x_hm⟩ over its arcs from heads h to words m. Training minimises the mean over sentences of
    S(θ; y) + alpha/2 ‖w‖². S is the loss of a conditional random field over trees ("crf"), the same with the number of wrong
    heads added to the scores ("softmax-margin"), the cross-entropy of each word's head by itself ("head-selection"), the
    expected number of wrong heads of a draw from the field ("minimum-risk", which is not convex: it starts at the
    field's weights and ends where it is flat), the structured hinge of that number ("hinge"), or the moment-robust loss
    ("robust-..."): the adversarial loss of that number, max over q of min over p of E[wrong heads] + ⟨θ, q − φ(y)⟩,
    with p and q distributions over trees. With the norm as penalty it is the dual of the game against an adversary whose
    mean features are near those of the training sentences. It has three trainers: "robust-marginal" moves the adversary's
    points of all sentences, with weights in closed form; "robust-stochastic" moves the weights and plays each sentence's
    game with the marginals of arcs; "robust-game" plays it with trees, by the double oracle. The second is the one to use,
    the others are there to compare. Labels are told by a second linear model, a logistic one, of each arc by itself.

    ``X`` is a list of :class:`~fenchel.data.Sentence`, as :func:`~fenchel.data.read_conllu` reads them, with heads and labels
    for ``fit`` and ``score``; ``y`` is not used. ``predict`` gives the same sentences with new heads and labels; other
    columns stay. The CRF's step costs O(n³) for n words, besides one product with the features.

    Parameters
    ----------
    loss : {"crf", "softmax-margin", "head-selection", "minimum-risk", "hinge", "robust-marginal", "robust-stochastic",
            "robust-game"}, default="crf"
        What training minimises. A network can also be trained end to end by "binary", a cross-entropy for each possible arc.
    features : "lexical", "neural", NeuralFeatures, ParsingNetwork or function, default="lexical"
        "lexical" are hashed combinations of forms, lemmas, tags, morphology, direction and distance
        (:func:`~fenchel.data.arc_features.arc_rows`), of the columns of the file alone. "neural" are vectors of words from a
        network that is trained end to end through ``loss``; :class:`~fenchel.estimators.NeuralFeatures` has its settings, one of
        which freezes the network and learns the last layer alone. A network that was trained before
        (:class:`fenchel.nn.ParsingNetwork`, the ``network_`` of another parser) is frozen. A function of a sentence of n words
        gives an array (n, n + 1, d): row i, column h for the arc from word h (0: the root) to word i + 1.
    labels : bool, default=True
        Whether to learn and tell labels of arcs; without, those of the sentences stay.
    single_root : bool, default=True
        Whether exactly one word hangs on the root, as in Universal Dependencies, or any number.
    decoding : {"risk", "weights"}, default="risk"
        Answer with the tree of least expected number of wrong heads under the model's marginals, or with that of highest score
        (always so for the hinge).
    alpha : float, function or "cv", default=1e-2
        The strength of the penalty on the mean loss, or a function of the number of sentences that gives it (as
        ``lambda m: m**-0.25``); "cv" chooses it by five-fold cross-validation of wrong heads. Networks
        trained end to end have none.
    penalty : {"l2", "norm"}, default="l2"
        alpha/2 ‖w‖², or alpha ‖w‖: with the robust loss alpha is then the radius of the ball of moments, by how much the
        adversary may move the mean features of the training sentences. Both have the same solutions, for other alphas.
    smoothing : float or None, default=None
        Of the robust losses: s/2 ‖·‖² added for each player, which makes the loss smooth and training much faster; None is
        0.1, and 0 for "robust-game", which can have none. "robust-marginal" needs some.
    inner_tol : float or None, default=None
        The gap of each sentence's game in training, in wrong heads. Games are played to 0.1 first, and each goes on from where
        it ended; then to this gap, or, with None, to a twentieth of what training may be off.
    label_alpha : float, default=1e-5
        That of the labels' model, on its mean loss over words.
    hashed : int, default=2**18
        The number of columns that lexical features are hashed to.
    solver : {"auto", "lbfgs", "bundle", "adam", ...} or Solver, default="auto"
        How weights are found: "auto" is L-BFGS for losses without kinks, else the bundle method.
    tol : float, default=1e-2
        Training stops when the duality gap is below ``tol`` times the objective.
    max_iter : int, default=200
        Most iterations.
    warm_start : bool, default=False
        Go on from the weights of the last ``fit``.
    random_state : int, Generator or None, default=None
        For solvers that draw examples.
    verbose : int, default=0
        Print every ``verbose``-th iteration to standard error.

    Attributes
    ----------
    coef_ : ndarray of shape (d,), with a network (d + 1, d + 1)
        The weights of the features of arcs; with a network the biaffine form W.
    labels_ : ndarray
        The labels met in training, sorted (with ``labels=True``).
    network_ : ParsingNetwork or None
        The network that was trained.
    objective_, dual_gap_ : float
        The objective reached, and how far at most it is from the least one (infinity with "minimum-risk": no bound is known;
        NaN of a network trained end to end).

    References
    ----------
    McDonald, Crammer and Pereira, "Online large-margin training of dependency parsers", 2005; Koo, Globerson, Carreras and
    Collins, "Structured prediction models via the matrix-tree theorem", 2007; Li, Saeed, Zhang, Ziebart and Gimpel, "Moment
    distributionally robust tree structured prediction", 2022.

    Examples
    --------
    >>> from fenchel import DependencyParser
    >>> from fenchel.data import Sentence, small_treebank
    >>> parser = DependencyParser().fit(small_treebank(50, random_state=0))
    >>> words = Sentence.of(["the", "cat", "saw", "a", "bird"], ["DET", "NOUN", "VERB", "DET", "NOUN"])
    >>> (parse,) = parser.predict([words])
    >>> parse.heads.tolist(), parse.labels
    ([2, 3, 0, 5, 3], ('det', 'nsubj', 'root', 'det', 'obj'))
    """

    kernel: Any = None
    kernel_params: Any = None
    decoder_: Any

    def __init__(
        self,
        loss: str = "crf",
        *,
        features: Any = "lexical",
        labels: bool = True,
        single_root: bool = True,
        decoding: str = "risk",
        alpha: Any = 1e-2,
        penalty: str = "l2",
        smoothing: float | None = None,
        inner_tol: float | None = None,
        label_alpha: float = 1e-5,
        hashed: int = 2**18,
        solver: Any = "auto",
        tol: float = 1e-2,
        max_iter: int = 200,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.loss = loss
        self.features = features
        self.labels = labels
        self.single_root = single_root
        self.decoding = decoding
        self.alpha = alpha
        self.penalty = penalty
        self.smoothing = smoothing
        self.inner_tol = inner_tol
        self.label_alpha = label_alpha
        self.hashed = hashed
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    # -- training ------------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> DependencyParser:
        """Train on sentences with heads (and labels)."""
        network = neural.as_features(self.features)
        whole = isinstance(network, neural.NeuralFeatures) and not network.frozen
        check_choice(self.loss, "loss", (*_LOSSES, *_NETWORK_LOSSES) if whole else _LOSSES)
        check_choice(self.decoding, "decoding", _DECODINGS)
        check_count(self.hashed, "hashed")
        if isinstance(self.features, str):
            check_choice(self.features, "features", ("lexical", "neural"))
        elif not callable(self.features) and network is None:
            raise InvalidInput(
                f"features is {self.features!r}, expected 'lexical', 'neural' or a function of a sentence"
            )
        sentences = _sentences(X)
        if not sentences:
            raise InvalidInput("there are no sentences to learn from")
        structure = self._family()
        truths = structure.encode(_heads(sentences, structure))
        loss = self._make_loss(structure)
        plain = self.decoding == "weights" or self.loss == "hinge"
        # the adversary's q makes many trees cost the same; what the model would answer is the predictor's p*
        fair = Likeliest() if isinstance(loss, Adversarial) else Calibrated(structure, Hamming())
        self.decoder_ = MAP() if plain else fair
        weights = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        training = self._fit_network(network, sentences, loss, weights)
        rows = None if whole else self._rows(sentences)
        self.n_features_in_ = self._width(rows)
        if whole:
            self._keep_network(training, loss)
        else:
            self._train((rows, sentences), truths, loss, weights)
        self._fit_labels(sentences, rows, weights)
        return self

    def _fit_network(self, given: Any, sentences: list[Sentence], loss: Loss, weights: Array | None) -> Any:
        """Train the network, unless it was given, or its last layer alone should go on learning."""
        old = getattr(self, "network_", None) if self.warm_start else None
        self.network_ = None
        if given is None:
            return None
        if neural.is_network(given):
            if self.labels and not given.labels:
                raise InvalidInput("the network was trained without labels; say labels=False")
            return None
        if given.frozen and old is not None:
            self.network_ = old
            return None
        through = given.pretraining if given.frozen else self.loss if self.loss in neural.PRETRAINING else loss
        training = neural.train(
            given,
            sentences,
            through,
            labels=self.labels,
            single_root=self.single_root,
            sample_weight=weights,
            start=old,
            random_state=self.random_state,
            verbose=self.verbose,
        )
        self.network_ = training.network
        if given.frozen and training.interrupted:
            raise KeyboardInterrupt("training was interrupted before the last layer was learned")
        return training

    def _keep_network(self, training: Any, loss: Loss) -> None:
        """The network's last layer as weights of its vectors."""
        self.alpha_ = 0.0
        objective = training.objectives[-1] if training.objectives else float("nan")
        done = not training.interrupted
        epochs = len(training.objectives)
        self._keep(Result(training.network.last_layer, objective, float("nan"), epochs, done, not done), loss)
        self.held_out_scores_ = np.array(training.held_out)
        if training.interrupted:
            raise KeyboardInterrupt(
                f"training was interrupted after {epochs} epochs; the estimator holds the network so far"
            )

    def _any_network(self) -> Any:
        """The network whose vectors are this parser's features, if it has one."""
        return self.features if neural.is_network(self.features) else getattr(self, "network_", None)

    def _make_loss(self, structure: Family) -> Loss:
        if self.loss in _ROBUST:
            if self.inner_tol is not None:
                check_finite_positive(self.inner_tol, "inner_tol")
            smoothing = self.smoothing
            if smoothing is None:
                smoothing = 0.0 if self.loss == "robust-game" else _SMOOTHING
            check_finite_positive(smoothing, "smoothing", zero=self.loss != "robust-marginal")
            method = "double_oracle" if self.loss == "robust-game" else "auto"
            return Adversarial(structure, Hamming(), smoothing, tol=self.inner_tol or _LAST_GAP, method=method)
        if self.loss == "hinge":
            return Hinge(structure, Hamming())
        if self.loss == "softmax-margin":
            return SoftmaxMargin(structure, Hamming())
        if self.loss == "head-selection":
            return HeadSelection(structure)
        if self.loss == "minimum-risk":
            return MinimumRisk(structure, Hamming())
        return CRF(structure)  # of "binary", too: what it says of words, given that it is a tree

    def _fit_labels(self, sentences: list[Sentence], rows: Any, weights: Array | None) -> None:
        self.labels_ = self.labeler_ = None
        if not self.labels:
            return
        network = self._any_network()
        if network is not None:
            self.labels_ = np.array(network.labels)
            return
        found = np.array([label for sentence in sentences for label in sentence.labels])
        self.labels_ = np.unique(found)
        if len(self.labels_) > 1:
            heads = [sentence.heads for sentence in sentences]
            self.labeler_ = FenchelYoungClassifier(
                "kl", alpha=self.label_alpha, tol=self.tol, max_iter=self.max_iter
            ).fit(
                self._label_rows(sentences, heads, rows),
                found,
                sample_weight=None if weights is None else np.repeat(weights, [len(s) for s in sentences]),
            )

    def _scorer(self, X: Any, loss: Loss) -> Scorer:
        rows, sentences = X
        if self._any_network() is not None:
            return Bilinear([neural.with_one(x) for x, _ in rows], [neural.with_one(z) for _, z in rows])
        return Pairs.of_rows(rows, _arc_counts(sentences))

    def _training_scorer(self, X: Any, loss: Loss) -> Scorer:
        """Only features that the training sentences have get weights; the rest would stay zero, and take time all the same."""
        rows, sentences = X
        self._met = None
        if hasattr(rows, "indices"):
            self._met = np.unique(rows.indices)
            rows = rows[:, self._met]
        return self._scorer((rows, sentences), loss)

    def _warm_weights(self, scorer: Scorer, v: Array) -> tuple[Array | None, Any]:
        met, old = self._met, getattr(self, "weights_", None)
        if met is None or old is None or old.shape != (self.n_features_in_,):
            return super()._warm_weights(scorer, v)
        try:
            self.weights_ = old[met]
            return super()._warm_weights(scorer, v)
        finally:
            self.weights_ = old

    def _keep(self, result: Result, loss: Loss) -> None:
        met = getattr(self, "_met", None)
        if met is not None and result.w.shape == met.shape:
            w = np.zeros(self.n_features_in_)
            w[met] = result.w
            result = replace(result, w=w)
        self._met = None
        super()._keep(result, loss)

    def _default_solver(self, loss: Loss) -> str:
        if self.loss == "robust-marginal":
            return "dual_frank_wolfe"
        return super()._default_solver(loss) if loss.differentiable else "bundle"

    def _train(
        self, X: Any, v: Array, loss: Loss, sample_weight: Array | None, *, held_out: HeldOut | None = None
    ) -> None:
        """Games are played loosely at first, and then so well that what they leave open is little of what training may."""
        self._loose: tuple[Array, float] | None = None
        if isinstance(loss, Adversarial) and self.loss in _ROBUST[1:]:
            kept = self.get_params(deep=False)
            try:
                self.tol = 10 * self.tol
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    super()._train(X, v, replace(loss, tol=_FIRST_GAP), sample_weight)
            finally:
                self.tol = kept["tol"]
            if self.inner_tol is None:
                enough = 0.05 * self.tol * (self.objective_ - min(self.dual_gap_, 0.9 * self.objective_))
                loss = replace(loss, tol=float(np.clip(enough, 1e-9, _LAST_GAP)))
            self._loose = self.weights_, self.alpha_
        super()._train(X, v, loss, sample_weight, held_out=held_out)

    def _first_weights(self, X: Any, v: Array, loss: Loss, sample_weight: Array | None) -> Array | None:
        loose = getattr(self, "_loose", None)
        if loose is None:
            return super()._first_weights(X, v, loss, sample_weight)
        self._loose = None
        weights: Array = loose[0]
        return weights if self._met is None else weights[self._met]

    def _answer_costs(self, loss: Loss, output: Output, v: Any) -> Array:
        wrong = affine_form(Hamming(), loss.structure, loss.structure).value(self.decoder_.vertices(output), v)
        words = [self._family().member(int(size)).max_l1 for size in v.sizes]
        return np.asarray(wrong) / np.array(words)

    def _family(self) -> Family:
        return DependencyTrees() if self.single_root else Arborescences()

    # -- features ------------------------------------------------------------------------------------------------------

    def _width(self, rows: Any) -> int:
        network = self._any_network()
        return int(rows.shape[1]) if network is None else int(network.size)

    def _rows(self, sentences: list[Sentence]) -> Any:
        """Features of all arcs of all sentences, a row for each; of a network vectors of the words of each sentence."""
        network = self._any_network()
        if network is not None:
            return network.vectors(sentences)
        if isinstance(self.features, str):
            return arc_rows(sentences, self.hashed)
        blocks: list[Array] = []
        for i, sentence in enumerate(sentences):
            n = len(sentence)
            given = np.asarray(self.features(sentence), dtype=np.float64)
            width = f"d = {blocks[0].shape[1]}" if blocks else "d"
            if given.shape[:2] != (n, n + 1) or given.ndim != 3 or (blocks and given.shape[2] != blocks[0].shape[1]):
                raise InvalidInput(
                    f"features of sample {i}, a sentence of {n} words, have shape {given.shape}, expected "
                    f"({n}, {n + 1}, {width})"
                )
            given = given.copy()
            given[np.arange(n), np.arange(1, n + 1)] = 0.0  # a word is no head of its own
            if not np.isfinite(given).all():
                raise InvalidInput(f"features of sample {i} hold infinity or NaN")
            blocks.append(given.reshape(n * (n + 1), -1))
        return np.concatenate(blocks)

    def _label_rows(self, sentences: list[Sentence], heads: Sequence[IntArray], rows: Any) -> Any:
        """Features of the arcs of these trees: own ones, or of arcs whose heads are known."""
        if isinstance(self.features, str):
            return label_rows(sentences, heads, _LABEL_COLUMNS)
        sizes = np.array([len(s) for s in sentences])
        starts = np.repeat(offsets_of(_arc_counts(sentences))[:-1], sizes)
        own = np.concatenate([np.arange(n) * (n + 1) for n in sizes])
        return rows[starts + own + np.concatenate(list(heads))]

    # -- use -----------------------------------------------------------------------------------------------------------

    def predict(self, X: Any) -> list[Sentence]:
        """The sentences with the heads and labels that the model gives them."""
        sentences, rows, output = self._outputs(X)
        if output is None:
            return []
        heads = [np.asarray(tree) for tree in self.decoder_.decode(output)]
        if self.labels_ is None:
            return [s.with_parse(tree) for s, tree in zip(sentences, heads, strict=True)]
        network = self._any_network()
        if network is not None:
            told = np.concatenate([np.array(names) for names in network.told_labels(sentences, heads)])
        elif self.labeler_ is None:
            told = np.repeat(self.labels_, sum(map(len, sentences)))
        else:
            told = self.labeler_.predict(self._label_rows(sentences, heads, rows))
        ends = offsets_of(np.array([len(s) for s in sentences]))
        return [
            s.with_parse(tree, told[start:stop].tolist())
            for s, tree, start, stop in zip(sentences, heads, ends[:-1], ends[1:], strict=True)
        ]

    def predict_marginals(self, X: Any) -> list[Array]:  # type: ignore[override]
        """The probability of each head, (n, n + 1) for each sentence, column 0 for the root.

        For the robust loss those of the predictor's p*; for head selection of each word by itself.
        """
        _, _, output = self._outputs(X)
        if output is None:
            return []
        structure: Any = output.structure
        return list(structure.unpacked(structure.as_rows(output.predictor, "marginals")[0]))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """UAS: the share of words with the right head. :func:`fenchel.metrics.attachment_scores` tells more."""
        sentences = _sentences(X)
        truths = _heads(sentences, self._family())
        right = [int((a.heads == t).sum()) for a, t in zip(self.predict(sentences), truths, strict=True)]
        weights = np.ones(len(right)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        words = float(weights @ [len(s) for s in sentences]) if sentences else 0.0
        return float(weights @ right) / words if words else float("nan")

    def _outputs(self, X: Any) -> tuple[list[Sentence], Any, Any]:
        check_is_fitted(self)
        sentences = _sentences(X)
        if not sentences:
            return [], None, None
        rows = self._rows(sentences)
        if self._width(rows) != self.n_features_in_:
            raise InvalidInput(
                f"arcs have {self._width(rows)} features, but in training they had {self.n_features_in_}"
            )
        scores = self._scorer((rows, sentences), self.loss_).scores(self.weights_)
        return sentences, rows, self.loss_.output(scores)

    @property
    def coef_(self) -> Array:
        """The weights of the features of arcs."""
        return self._fitted_weights()

    @property
    def intercept_(self) -> Array:
        raise AttributeError("DependencyParser has no intercept: all trees of a sentence have as many arcs")

    def __sklearn_tags__(self) -> Any:
        tags = BaseEstimator.__sklearn_tags__(self)
        tags.input_tags.two_d_array = False
        tags.no_validation = True
        return tags


def _sentences(X: Any) -> list[Sentence]:
    if isinstance(X, str | bytes | Sentence) or not hasattr(X, "__iter__"):
        raise InvalidInput(
            f"X is {type(X).__name__}, expected a list of sentences, as fenchel.data.read_conllu reads them"
        )
    sentences = list(X)
    for i, sentence in enumerate(sentences):
        if not isinstance(sentence, Sentence):
            raise InvalidInput(
                f"sample {i} is {type(sentence).__name__}, expected a fenchel.data.Sentence; Sentence.of makes one of words"
            )
    return sentences


def _heads(sentences: list[Sentence], structure: Family) -> list[IntArray]:
    """The heads of each sentence, checked to be a tree."""
    found = []
    for i, sentence in enumerate(sentences):
        heads = sentence.heads
        if (heads < 0).any():
            raise InvalidInput(f"sample {i}: word {int(np.argmax(heads < 0)) + 1} has no head")
        roots = int((heads == 0).sum())
        if roots > 1 and isinstance(structure, DependencyTrees):
            raise InvalidInput(f"sample {i}: {roots} words hang on the root; single_root=False allows that")
        found.append(heads)
    return found


def _arc_counts(sentences: Sequence[Sentence]) -> IntArray:
    return np.array([len(s) * (len(s) + 1) for s in sentences], np.int64)
