"""The online learner: it plays, is told the truth, and learns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from .._core.checks import check_choice, check_count, check_finite_positive, check_generator
from .._core.errors import IncompatiblePair, InvalidInput
from .._core.types import Array, IntArray
from ..costs.base import Cost
from ..costs.zero_one import ZeroOne
from ..decoders.randomized import AlwaysRandom, MixtureDecoder, Nearest, Randomized, UniformExploration
from ..estimators.base import make_cost
from ..kernels import online as kernels
from ..losses.base import Loss
from ..losses.fenchel_young import FenchelYoung
from ..losses.regularizers import KL, Gibbs
from ..structures.base import Structure
from ..structures.permutahedron import Permutahedron
from ..structures.simplex import Simplex
from .constants import Constants, constants_of
from .steps import ConstantStep, ParameterFree, StepRule

if TYPE_CHECKING:
    from .batch import OnlineToBatch

__all__ = ["Learner", "Rounds"]

_STEPS = ("constant", "parameter_free")
_DECODERS: dict[str, Any] = {
    "randomized": Randomized,
    "deterministic": Nearest,
    "random": AlwaysRandom,
    "uniform_exploration": UniformExploration,
}


@dataclass
class Rounds:
    """What happened in some rounds: the answers, what they cost, and what the bounds are about."""

    answers: Array
    costs: Array
    expected_costs: Array
    """The mean of the costs over the decoder's draws."""
    losses: Array
    """The surrogate loss of the weights that played."""
    random_probability: Array
    """How likely the answer was drawn at random instead of being the nearest vertex."""


class Learner(BaseEstimator):  # type: ignore[misc]
    """Online structured prediction with a finite surrogate regret: play an output, see the truth, learn.

    In round t the scores are θ_t = W_tᵀ x_t, the answer is drawn by randomized decoding from μ_t = ∇Ω*(θ_t), and W takes a step
    on the Fenchel-Young loss. Where the constants allow (``learner.constants_.gap > 0``), the expected total cost stays within a
    constant of the total loss of any linear model, however long the stream. A round costs one prediction oracle, one
    nearest vertex, sometimes a draw, and O(non-zeros of x · scores).

    Parameters
    ----------
    structure : Structure
        What is predicted.
    loss : {"kl", "euclidean", "gibbs"} or Loss, default="euclidean"
        The surrogate loss.
    cost : str, matrix, function or Cost, default="auto"
        What a mistake costs; "auto" is zero-one for classes, the absolute error for grades, Spearman's cost on the
        permutahedron and the Hamming cost elsewhere.
    step : {"constant", "parameter_free"} or StepRule, default="constant"
        How weights follow from gradients; "constant" takes the rate of the regret bound.
    decoder : {"randomized", "deterministic", "random", "uniform_exploration"} or MixtureDecoder, default="randomized"
        How answers are found; the last is for the smooth hinge loss.
    max_norm : float, default=1.0
        C, the largest Euclidean norm that an input may have. It must be known beforehand: rates and bounds are made of it.
    too_long : {"raise", "rescale"}, default="raise"
        What to do with a longer input.
    scale : float or "auto", default=1.0
        A factor on the loss. "auto" chooses the one that makes the bound smallest (a = 1/2) where it would not hold otherwise.
    intercept : float, default=0.0
        The value of an extra feature that all inputs have; 0 for none.
    n_features : int or None, default=None
        The number of features; None takes that of the first input. Inputs that are dicts may bring new features at any time.
    random_state : int, Generator or None, default=None
        For the draws.

    References
    ----------
    Sakaue, Bao, Tsuchiya and Oki, "Online structured prediction with Fenchel-Young losses and improved surrogate regret for
    online multiclass classification with logistic loss", 2024, Algorithm 2.

    Examples
    --------
    >>> import numpy as np
    >>> from fenchel.online import Learner
    >>> from fenchel.structures import Simplex
    >>> learner = Learner(Simplex(2), "kl", scale="auto", random_state=0)
    >>> for x in np.tile([[1.0, 0.0], [0.0, 1.0]], (50, 1)):
    ...     _ = learner.learn_one(x, int(x[1]))
    >>> learner.predict_one([1.0, 0.0]), learner.predict_one({0: 0.0, 1: 1.0})
    (0, 1)
    """

    def __init__(
        self,
        structure: Structure,
        loss: Any = "euclidean",
        cost: Any = "auto",
        *,
        step: Any = "constant",
        decoder: Any = "randomized",
        max_norm: float = 1.0,
        too_long: str = "raise",
        scale: Any = 1.0,
        intercept: float = 0.0,
        n_features: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.structure = structure
        self.loss = loss
        self.cost = cost
        self.step = step
        self.decoder = decoder
        self.max_norm = max_norm
        self.too_long = too_long
        self.scale = scale
        self.intercept = intercept
        self.n_features = n_features
        self.random_state = random_state

    # -- one round -----------------------------------------------------------------------------------------------------

    def predict_one(self, x: Any) -> Any:
        """The answer for one input: an array, a sparse row, or a dict of features."""
        places, values = self._input(x, "x")
        if self.fused_:
            coin, u = self.rng_.random(2)
            return kernels.softmax_answer(  # type: ignore[no-untyped-call]
                places, values, self.strength_, self.intercept_, coin, u, self.state_, self.weights_
            )
        output = self.loss_.output(self._scores(places, values))
        return _plain(self.structure.decode(self.decoder_.play(self.decoder_.point(output), self.rng_)))

    def learn_one(self, x: Any, y: Any) -> Learner:
        """Learn the truth of one input."""
        places, values = self._input(x, "x")
        if self.fused_:
            self._softmax_learn(values, places, np.array([0, len(places)]), self._classes([y]))
            return self
        self._learn(places, values, self.structure.encode(y))
        return self

    def play_one(self, x: Any, y: Any) -> Rounds:
        """Predict, pay and learn."""
        places, values = self._input(x, "x")
        if self.fused_:
            return self._softmax(values, places, np.array([0, len(places)]), self._classes([y]))
        return self._round(places, values, self.structure.encode(y)[None], np.asarray(y)[None])

    def marginals_one(self, x: Any) -> Array:
        """The model's μ for one input."""
        places, values = self._input(x, "x")
        if self.fused_:
            places, values = self._and_intercept(places, values)
        return self.loss_.predict(self._scores(places, values))

    # -- many rounds ---------------------------------------------------------------------------------------------------

    def partial_fit(self, X: Any, y: Any) -> Learner:
        """Learn rows one after the other: exactly the weights of calling ``learn_one`` for each."""
        rows, outputs = self._rows(X, y)
        if self.fused_:
            self._softmax_learn(rows.data, rows.indices, rows.indptr, self._classes(outputs))
            return self
        vertices = self.structure.encode(outputs)
        for i in range(rows.shape[0]):
            part = slice(rows.indptr[i], rows.indptr[i + 1])
            self._learn(*self._with_intercept(rows.indices[part], rows.data[part]), vertices[i])
        return self

    def play(self, X: Any, y: Any) -> Rounds:
        """Predict, pay and learn, row after row: exactly what ``play_one`` does for each."""
        rows, outputs = self._rows(X, y)
        if self.fused_:
            return self._softmax(rows.data, rows.indices, rows.indptr, self._classes(outputs))
        vertices = self.structure.encode(outputs)
        parts = []
        for i in range(rows.shape[0]):
            part = slice(rows.indptr[i], rows.indptr[i + 1])
            places, values = self._with_intercept(rows.indices[part], rows.data[part])
            parts.append(self._round(places, values, vertices[i : i + 1], outputs[i : i + 1]))
        return _joined(parts, self.structure)

    def predict(self, X: Any) -> Array:
        """Answers for many rows, without learning."""
        return self.structure.decode(self.decoder_.play(self._points(X), self.rng_))

    def predict_marginals(self, X: Any) -> Array:
        """The model's μ for many rows."""
        rows, _ = self._rows(X, None)
        return self.loss_.predict(self._all_scores(rows))

    def decision_distribution(self, X: Any) -> Array:
        """The mean of what the decoder plays for each row: on classes, the probability of each answer."""
        return self.decoder_.mean(self._points(X))

    def _points(self, X: Any) -> Array:
        rows, _ = self._rows(X, None)
        return self.decoder_.point(self.loss_.output(self._all_scores(rows)))

    # -- what was learned ----------------------------------------------------------------------------------------------

    @property
    def coef_(self) -> Array:
        """The weights, a row for each feature (the intercept's last, if there is one)."""
        self._check_begun()
        return (self.state_[7] * self.state_[8]) * self.weights_

    @property
    def average_coef_(self) -> Array:
        """The mean of the weights over all rounds, which carries the regret bound over to new data (online to batch)."""
        self._check_begun()
        return (self.state_[10] * self.weights_ + self.total_) / max(self.state_[9], 1)

    @property
    def n_rounds_(self) -> int:
        """How many truths have been learned."""
        self._check_begun()
        return int(self.state_[9])

    def to_batch(self) -> OnlineToBatch:
        """The mean of the weights played so far, as an estimator for new data."""
        from .batch import OnlineToBatch

        model = OnlineToBatch(self)
        model.learner_ = self.frozen()
        return model

    def frozen(self) -> Learner:
        """A copy whose weights are the mean of those played."""
        self._check_begun()
        copy = Learner(**self.get_params(deep=False))
        copy.begin(self.n_inputs_)
        copy.weights_ = self.average_coef_
        copy.total_ = np.zeros_like(copy.weights_)
        copy.state_[7] = copy.state_[8] = 1.0  # the weights are the array itself, whatever the rule
        copy.features_ = dict(self.features_)
        return copy

    def with_classes(self, k: int) -> Learner:
        """This learner of classes with more of them: their scores begin at zero, what was learned stays.

        >>> from fenchel.online import Learner
        >>> from fenchel.structures import Simplex
        >>> learner = Learner(Simplex(2), "kl", scale="auto").learn_one([1.0, 0.0], 1)
        >>> learner.with_classes(3).coef_.shape
        (2, 3)
        """
        self._check_begun()
        if type(self.structure) is not Simplex or not isinstance(self.loss, str) or k < self.structure.k:
            raise InvalidInput(f"only learners of classes with a loss by name take more of them, not {self!r} with {k}")
        grown = Learner(**{**self.get_params(deep=False), "structure": Simplex(k)})
        grown.begin(self.n_inputs_)
        new = np.zeros((len(self.weights_), k - self.structure.k))
        grown.features_, grown.columns_, grown.rng_ = self.features_, self.columns_, self.rng_
        grown.weights_, grown.total_ = np.hstack([self.weights_, new]), np.hstack([self.total_, new])
        first, grown.state_ = grown.state_, self.state_.copy()
        grown.state_[1] = first[1]  # the rate, or the bound on gradients, for this many classes
        return grown

    # -- set-up --------------------------------------------------------------------------------------------------------

    def _check_begun(self) -> None:
        if not hasattr(self, "weights_"):
            raise InvalidInput(f"this {type(self).__name__} has seen nothing yet; call learn_one or partial_fit")

    def begin(self, n_features: int) -> None:
        """Check the parameters and set the weights to zero."""
        if not isinstance(self.structure, Structure):
            raise InvalidInput(f"structure is {self.structure!r}, expected a structure such as Simplex(3)")
        self.length_ = check_finite_positive(self.max_norm, "max_norm")
        check_choice(self.too_long, "too_long", ("raise", "rescale"))
        self.intercept_ = intercept = check_finite_positive(self.intercept, "intercept", zero=True)
        self.rng_ = check_generator(self.random_state)
        self.cost_ = self._make_cost()
        loss = self.loss if isinstance(self.loss, Loss) else FenchelYoung(self.structure, self.loss)
        if loss.structure != self.structure:
            raise InvalidInput(f"the loss is for {loss.structure!r}, but structure is {self.structure!r}")
        self.loss_, self.constants_ = self._scaled(loss)
        self.decoder_ = self._make_decoder()
        self.reach_ = float(np.hypot(self.length_, intercept))  # the longest input, its intercept included
        self.step_ = self._make_step()
        self.n_inputs_ = n_features
        self.features_: dict[Any, int] = {}
        shape = (n_features + (intercept > 0), self.structure.dim)
        self.weights_, self.total_ = np.zeros(shape), np.zeros(shape)
        self.state_ = self.step_.first_state()
        self.columns_ = np.arange(n_features)
        self.fused_ = self._is_fused()
        self.strength_ = float(getattr(self.loss_, "strength", 1.0))

    def _make_cost(self) -> Cost:
        if not isinstance(self.cost, str) or self.cost != "auto":
            return make_cost(self.cost)
        names = {"one_hot": "zero_one", "thresholds": "absolute"}
        name = names.get(self.structure.class_coding or "", "hamming")
        return make_cost("spearman" if isinstance(self.structure, Permutahedron) else name)

    def _scaled(self, loss: Loss) -> tuple[Loss, Constants | None]:
        """The loss with the scale asked for, and the constants of the bound, if there is one."""
        automatic = isinstance(self.scale, str)
        if automatic:
            check_choice(self.scale, "scale", ("auto",))
        if not isinstance(loss, FenchelYoung):
            if automatic:
                raise InvalidInput(f"scale='auto' needs a Fenchel-Young loss, not {loss!r}")
            return loss, None
        factor = 1.0 if automatic else check_finite_positive(self.scale, "scale")
        scaled = FenchelYoung(loss.structure, loss.regularizer, loss.strength, loss.multiplier * factor)
        norm = self.decoder.norm if isinstance(self.decoder, MixtureDecoder) else None
        try:
            found = constants_of(scaled, self.cost_, norm=norm)
        except IncompatiblePair:
            if automatic or not isinstance(self.step, StepRule):
                raise
            return scaled, None  # a rule of the user's own needs no constants
        if automatic and found.gap <= 0:
            factor = 2 * found.needed_multiplier
            scaled = FenchelYoung(loss.structure, loss.regularizer, loss.strength, factor)
            found = constants_of(scaled, self.cost_, norm=found.norm)
        return scaled, found

    def _make_decoder(self) -> MixtureDecoder:
        if isinstance(self.decoder, MixtureDecoder):
            return self.decoder
        name = check_choice(self.decoder, "decoder", tuple(_DECODERS))
        made: MixtureDecoder = _DECODERS[name](self.structure, norm=self.constants_.norm if self.constants_ else 2.0)
        return made

    def _make_step(self) -> StepRule:
        if isinstance(self.step, StepRule):
            return self.step
        if self.step == "adaptive":
            raise InvalidInput(
                "step='adaptive' needs the diameter of the ball that weights stay in: step=AdaptiveStep(diameter=...)"
            )
        name = check_choice(self.step, "step", _STEPS)
        if self.constants_ is None:
            raise InvalidInput(
                f"step={name!r} needs the constants of a Fenchel-Young loss; give step=ConstantStep(rate)"
            )
        if name == "constant":
            return ConstantStep(self.constants_.learning_rate(self.reach_))
        largest = self.loss_.multiplier * self.reach_ * self.structure.diameter(2)
        return ParameterFree(max(largest, 1e-300))

    # -- inputs --------------------------------------------------------------------------------------------------------

    def _input(self, x: Any, name: str) -> tuple[IntArray, Array]:
        """One input as places and values; the first one begins the learner."""
        if isinstance(x, Mapping):
            places, values = self._from_mapping(x)
        else:
            if sp.issparse(x):
                row = x.tocsr()
                if row.shape[0] != 1:
                    raise InvalidInput(f"{name} has shape {row.shape}, expected one row; partial_fit takes many")
                places, values, width = row.indices.astype(np.int64), row.data.astype(np.float64), row.shape[1]
            else:
                array = np.asarray(x, dtype=np.float64)
                if array.ndim != 1:
                    raise InvalidInput(
                        f"{name} has shape {array.shape}, expected one row of numbers; partial_fit takes many"
                    )
                places, values, width = np.arange(len(array)), array, len(array)
            self._check_width(width)
        square = values @ values
        if not square <= self.length_**2 * (1 + 1e-12):
            values = self._shortened(values, np.sqrt(square), name)
        return self._with_intercept(places, values)

    def _from_mapping(self, x: Mapping[Any, Any]) -> tuple[IntArray, Array]:
        if not hasattr(self, "weights_"):
            self.begin(0 if self.n_features is None else check_count(self.n_features, "n_features", minimum=0))
        places = np.empty(len(x), np.int64)
        values = np.empty(len(x))
        for i, (key, value) in enumerate(x.items()):
            place = self.features_.get(key)
            if place is None:
                place = self._new_feature(key)
            places[i], values[i] = place, value
        return places, values

    def _new_feature(self, key: Any) -> int:
        """A row of zeros for a feature that is met for the first time; whole numbers name columns."""
        if isinstance(key, int | np.integer) and 0 <= key < self.n_inputs_ and not self.features_:
            return int(key)
        place = self.n_inputs_
        self.features_[key] = place
        self.n_inputs_ += 1
        if self.n_inputs_ + (self.intercept > 0) > len(self.weights_):
            grown = max(16, 2 * len(self.weights_))
            for name in ("weights_", "total_"):
                old = getattr(self, name)
                new = np.zeros((grown, old.shape[1]))
                last = len(old) - 1 if self.intercept > 0 else len(old)
                new[:last] = old[:last]
                if self.intercept > 0:
                    new[-1] = old[-1]
                setattr(self, name, new)
        return place

    def _check_width(self, width: int) -> None:
        if not hasattr(self, "weights_"):
            self.begin(width if self.n_features is None else check_count(self.n_features, "n_features", minimum=0))
        if width != self.n_inputs_:
            raise InvalidInput(f"an input has {width} features, expected {self.n_inputs_}")

    def _shortened(self, values: Array, norm: float, name: str) -> Array:
        if not np.isfinite(norm):
            raise InvalidInput(f"{name} holds NaN or infinity")
        if self.too_long == "raise":
            raise InvalidInput(
                f"{name} has norm {norm:.6g}, but max_norm is {self.length_:g}; raise max_norm, scale the inputs, or say "
                "too_long='rescale'"
            )
        return values * (self.length_ / norm)

    def _with_intercept(self, places: IntArray, values: Array) -> tuple[IntArray, Array]:
        # compiled rounds add it themselves
        return (places, values) if self.fused_ else self._and_intercept(places, values)

    def _and_intercept(self, places: IntArray, values: Array) -> tuple[IntArray, Array]:
        if self.intercept_ > 0:
            return np.append(places, len(self.weights_) - 1), np.append(values, self.intercept_)
        return places, values

    def _rows(self, X: Any, y: Any) -> tuple[Any, Array]:
        """Inputs as CSR rows with their lengths checked, and the outputs."""
        if sp.issparse(X):
            rows = X.tocsr().astype(np.float64)
        elif isinstance(X, list) and X and isinstance(X[0], Mapping):
            pairs = [self._from_mapping(x) for x in X]
            sizes = [len(places) for places, _ in pairs]
            rows = sp.csr_matrix(
                (
                    np.concatenate([v for _, v in pairs]),
                    np.concatenate([p for p, _ in pairs]),
                    np.concatenate([[0], np.cumsum(sizes)]),
                ),
                shape=(len(pairs), self.n_inputs_),
            )
        else:
            array = np.ascontiguousarray(X, dtype=np.float64)
            if array.ndim != 2:
                raise InvalidInput(f"X has shape {array.shape}, expected rows of features")
            n, d = array.shape
            rows = sp.csr_matrix(
                (array.reshape(-1), np.tile(np.arange(d), n), np.arange(0, n * d + 1, d)), shape=(n, d)
            )
        self._check_width(rows.shape[1])
        outputs = np.asarray([] if y is None else y)
        if y is not None and len(outputs) != rows.shape[0]:
            raise InvalidInput(f"there are {rows.shape[0]} inputs but {len(outputs)} truths")
        squares = np.add.reduceat(np.append(rows.data**2, 0.0), rows.indptr[:-1]) * (np.diff(rows.indptr) > 0)
        long = np.flatnonzero(~(squares <= self.length_**2 * (1 + 1e-12)))
        if len(long):
            rows = rows.copy()
            for i in long:
                part = slice(rows.indptr[i], rows.indptr[i + 1])
                rows.data[part] = self._shortened(rows.data[part], float(np.sqrt(squares[i])), f"row {i} of X")
        return rows, outputs

    # -- rounds --------------------------------------------------------------------------------------------------------

    def _is_fused(self) -> bool:
        """Whether rounds run in one compiled loop: classes, the logistic loss, the zero-one cost, randomized decoding."""
        return (
            type(self.structure) is Simplex
            and isinstance(self.loss_, FenchelYoung)
            and isinstance(self.loss_.regularizer, KL | Gibbs)
            and isinstance(self.decoder_, Randomized)
            and self.decoder_.norm == 1
            and isinstance(self.cost_, ZeroOne)
        )

    def _classes(self, y: Any) -> IntArray:
        truths = np.asarray(y)
        k = self.weights_.shape[1]
        if truths.dtype.kind not in "iu" or truths.ndim != 1 or truths.min(initial=0) < 0 or truths.max(initial=0) >= k:
            self.structure._check_labels(truths, k)
            raise InvalidInput(f"y has shape {truths.shape}, but outputs of {self.structure!r} are whole numbers")
        return truths.astype(np.int64, copy=False)

    def _softmax_learn(self, data: Array, indices: Array, indptr: Array, truths: IntArray) -> None:
        loss: Any = self.loss_
        kernels.softmax_learn(  # type: ignore[no-untyped-call]
            data, indices.astype(np.int64, copy=False), indptr.astype(np.int64, copy=False), truths, loss.multiplier,
            loss.strength, self.intercept_, self.state_, self.weights_, self.total_,
        )  # fmt: skip

    def _softmax(self, data: Array, indices: Array, indptr: Array, truths: IntArray) -> Rounds:
        n = len(truths)
        answers, p, expected, losses = np.empty(n, np.int64), np.empty(n), np.empty(n), np.empty(n)
        loss: Any = self.loss_
        kernels.softmax_rounds(  # type: ignore[no-untyped-call]
            data, indices.astype(np.int64, copy=False), indptr.astype(np.int64, copy=False), truths, loss.multiplier,
            loss.strength, self.intercept_, self.rng_.random((n, 2)), self.state_, self.weights_, self.total_, answers, p,
            expected, losses,
        )  # fmt: skip
        return Rounds(answers, (answers != truths).astype(float), expected, losses, p)

    def _scores(self, places: IntArray, values: Array) -> Array:
        theta = (self.state_[7] * self.state_[8]) * (values @ self.weights_[places])
        return np.asarray(theta).reshape(self.structure.shape)

    def _all_scores(self, rows: Any) -> Array:
        theta = rows @ self.weights_[: rows.shape[1]]
        if self.intercept > 0:
            theta = theta + self.intercept_ * self.weights_[-1]
        return (self.state_[7] * self.state_[8]) * np.asarray(theta).reshape(-1, *self.structure.shape)

    def _learn(self, places: IntArray, values: Array, vertex: Array) -> tuple[Array, Array]:
        theta = self._scores(places, values)
        value, residual = self.loss_.value_and_grad(theta, vertex)
        kernels.update(  # type: ignore[no-untyped-call]
            self.state_, places, values, residual.reshape(-1), theta.reshape(-1), self.weights_, self.total_
        )
        return theta, value

    def _round(self, places: IntArray, values: Array, vertex: Array, output: Array) -> Rounds:
        mu = self.decoder_.point(self.loss_.output(self._scores(places, values)[None]))
        played = self.decoder_.play(mu, self.rng_)
        _, p = self.decoder_.mixture(mu)
        answer = self.structure.decode(played)
        cost = np.atleast_1d(self.cost_(answer, output))
        expected = np.atleast_1d(self.decoder_.expected_cost(mu, vertex, self.cost_))
        _, value = self._learn(places, values, vertex[0])
        return Rounds(answer, cost, expected, np.atleast_1d(value), np.atleast_1d(p))


def _joined(parts: list[Rounds], structure: Structure) -> Rounds:
    if not parts:
        empty = np.zeros(0)
        return Rounds(structure.decode(np.zeros((0, *structure.shape))), empty, empty, empty, empty)
    names = ("answers", "costs", "expected_costs", "losses", "random_probability")
    return Rounds(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def _plain(output: Array) -> Any:
    """A number as Python's own, an array as it is."""
    return output.item() if output.ndim == 0 else output
