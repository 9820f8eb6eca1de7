"""What the linear estimators share: parameters, training, partial training and scores."""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from .._core import registry
from .._core.checks import check_choice, check_count, check_finite_positive
from .._core.errors import ConvergenceWarning, IncompatiblePair, InvalidInput
from .._core.kernel_matrix import kernel_matrix
from .._core.types import Array
from ..costs.base import Cost
from ..costs.cost_matrix import CostMatrix
from ..costs.own import CostFunction
from ..decoders.base import Decoder
from ..losses.base import Loss, Output
from ..losses.minimum_risk import MinimumRisk
from ..losses.named import CRF
from ..scorers.base import Scorer
from ..scorers.kernel import Expansion, Kernel, check_symmetric
from ..scorers.linear import Linear
from ..solvers.base import PENALTIES, Callback, Progress, Result, Solver
from ..solvers.dual_coordinate import DualCoordinate
from ..solvers.lbfgs import LBFGS
from ..solvers.pegasos import Pegasos
from ..solvers.sgd import StreamState, stream_steps

__all__ = ["ALPHAS", "HeldOut", "LinearEstimator", "make_cost"]

ALPHAS = tuple(float(a) for a in np.geomspace(1.0, 1e-5, 11))
"""What ``alpha="cv"`` tries, from the strongest penalty down."""


def make_cost(value: Any) -> Cost:
    """A cost from itself, its name, a matrix C[answer, truth], or a function of an answer and a truth."""
    if isinstance(value, Cost):
        return value
    if isinstance(value, str):
        return named_cost(value)
    if hasattr(value, "__array__") or isinstance(value, list | tuple):
        return CostMatrix(np.asarray(value))
    if isinstance(value, type) and issubclass(value, Cost):
        raise InvalidInput(f"cost is the class {value.__name__}, expected a cost: {value.__name__}(...)")
    if callable(value):
        return CostFunction(value)
    raise InvalidInput(f"cost is {value!r}, expected the name of a cost, a fenchel.costs.Cost, a matrix or a function")


def named_cost(name: str) -> Cost:
    """The cost of this name; one that needs parameters asks for them."""
    cls = registry.find("cost", name).load()
    needed = [p.name for p in inspect.signature(cls).parameters.values() if p.default is p.empty]
    if needed:
        raise InvalidInput(f"cost {name!r} needs {', '.join(needed)}; give fenchel.costs.{cls.__name__}(...)")
    made: Cost = cls()
    return made


class LinearEstimator(BaseEstimator):  # type: ignore[misc]
    """A linear scorer, a loss on a structure, a solver and a decoder. Concrete estimators say which."""

    # Every concrete estimator takes these, in this meaning.
    alpha: Any
    kernel: Any
    kernel_params: Any
    solver: Any
    tol: float
    max_iter: int
    fit_intercept: bool
    intercept_scaling: float
    warm_start: bool
    random_state: Any
    verbose: int
    penalty: Any = "l2"

    loss_: Loss
    decoder_: Decoder
    weights_: Array

    # -- training ------------------------------------------------------------------------------------------------------

    def _train(
        self, X: Any, v: Array, loss: Loss, sample_weight: Array | None, *, held_out: HeldOut | None = None
    ) -> None:
        """Fit the weights for checked inputs and truths v, and set the fitted attributes."""
        if isinstance(self.alpha, str) and self.alpha != "cv":
            raise InvalidInput(
                f"alpha is {self.alpha!r}, expected a number >= 0, a function of the number of examples, or 'cv'"
            )
        alpha = self.alpha(len(v)) if callable(self.alpha) else self.alpha
        if alpha != "cv":
            check_finite_positive(alpha, "alpha" if alpha is self.alpha else f"alpha({len(v)})", zero=True)
        check_choice(self.penalty, "penalty", PENALTIES)
        check_count(self.verbose, "verbose", minimum=0)
        scorer = self._training_scorer(X, loss)
        self.alpha_ = self._choose_alpha(scorer, loss, v, sample_weight) if alpha == "cv" else float(alpha)
        start, dual = self._warm_weights(scorer, v) if self.warm_start else (None, None)
        if start is None and dual is None:
            start = self._first_weights(X, v, loss, sample_weight)
        solver = self._solver(loss)
        result = solver.minimize(
            scorer,
            loss,
            v,
            self.alpha_,
            penalty=self.penalty,
            sample_weight=sample_weight,
            start=start,
            dual=dual,
            callback=self._callback(held_out),
        )
        if held_out is not None and held_out.best is not None:
            best = held_out.best
            result = replace(result, w=best.w, value=best.value, gap=best.gap)
            self.held_out_costs_ = np.array(held_out.costs)
        self._keep(result, loss)
        if result.interrupted:
            raise KeyboardInterrupt(
                f"training was interrupted after {result.n_iter} iterations; the estimator holds the weights so far"
            )

    def _first_weights(self, X: Any, v: Array, loss: Loss, sample_weight: Array | None) -> Array | None:
        """Weights to start from, None for zeros; of the minimum risk, which is not convex, those of the CRF."""
        if not isinstance(loss, MinimumRisk):
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return (
                LBFGS(tol=self.tol, max_iter=self.max_iter)
                .minimize(
                    self._training_scorer(X, loss),
                    CRF(loss.structure, loss.strength),
                    v,
                    self.alpha_,
                    penalty=self.penalty,
                    sample_weight=sample_weight,
                )
                .w
            )

    def _keep(self, result: Result, loss: Loss) -> None:
        self.loss_ = loss
        self.weights_ = result.w
        self.n_iter_ = max(result.n_iter, 1)
        self.objective_ = result.value
        self.dual_gap_ = result.gap
        self.converged_ = result.converged
        self._dual = result.dual if self.warm_start else None
        self._stream: StreamState | None = None

    def _train_part(self, X: Any, v: Array, loss: Loss, sample_weight: Array | None) -> None:
        """One gradient step per example, going on from the weights there are."""
        pegasos = self.solver == "pegasos" or isinstance(self.solver, Pegasos)
        if self.kernel is not None and not pegasos:
            raise InvalidInput(
                "with a kernel the weights of partial_fit grow with every example, which only solver='pegasos' does; use fit"
            )
        if self.alpha == "cv":
            raise InvalidInput("partial_fit cannot choose alpha by cross-validation; give a number")
        if callable(self.alpha):
            raise InvalidInput("partial_fit does not know how many examples there will be; give alpha as a number")
        if self.penalty != "l2":
            raise InvalidInput(f"partial_fit takes the l2 penalty, but penalty is {self.penalty!r}; use fit")
        self.alpha_ = alpha = check_finite_positive(self.alpha, "alpha", zero=not pegasos)
        loss.check_truths(v)
        state = getattr(self, "_stream", None)
        if self.kernel is not None:
            scorer = self._growing_scorer(X, loss)
            state = state and StreamState(self.weights_, state.seen, state.curvature)
        else:
            scorer = self._scorer(X, loss)
        if state is None:
            old = getattr(self, "weights_", None)
            state = StreamState(scorer.zero_weights() if old is None else old)
        self._stream = stream_steps(state, scorer, loss, v, alpha, sample_weight, cautious=not pegasos)
        self.loss_ = loss
        self.weights_ = self._stream.w
        self.n_iter_ = 1
        self.objective_ = self.dual_gap_ = float("nan")
        self.converged_ = False

    def _scorer(self, X: Any, loss: Loss) -> Scorer:
        return self._scorer_over(partial(Linear, X), loss)

    def _scorer_over(self, make: Callable[..., Linear], loss: Loss) -> Scorer:
        """The scorer of these inputs; ``make(shape, intercept_scaling=...)`` gives them linear scores of a shape."""
        scaling = check_finite_positive(self.intercept_scaling, "intercept_scaling") if self.fit_intercept else None
        return make(loss.structure.shape, intercept_scaling=scaling)

    def _training_scorer(self, X: Any, loss: Loss) -> Scorer:
        """The scorer of the training inputs; a kernel's map to coordinates is kept for predictions."""
        self.inputs_ = self.to_features_ = None
        if self.kernel is None:
            return self._scorer(X, loss)
        self.inputs_ = _dense(X)

        if isinstance(self._solver(loss), DualCoordinate):  # it needs no coordinates, which cost O(n³)
            gram = kernel_matrix(self.inputs_, self.inputs_, self.kernel, self.kernel_params or {})
            check_symmetric(gram, self.kernel)
            places = np.arange(len(gram))
            return self._scorer_over(lambda shape, **options: Expansion(gram, shape, places, **options), loss)

        def make(shape: tuple[int, ...], **options: Any) -> Linear:
            made = Kernel(self.inputs_, shape, kernel=self.kernel, params=self.kernel_params, **options)
            self.to_features_ = made.to_features
            return made

        return self._scorer_over(make, loss)

    def _growing_scorer(self, X: Any, loss: Loss) -> Scorer:
        """The scorer of new inputs over all inputs that were seen, with weights for the new ones."""
        X = _dense(X)
        old = getattr(self, "inputs_", None)
        seen = 0 if old is None else len(old)
        if hasattr(self, "weights_"):
            if self.to_features_ is not None:  # weights of coordinates become coefficients of inputs
                cut = self.to_features_.shape[1]
                self.weights_ = np.concatenate([self.to_features_ @ self.weights_[:cut], self.weights_[cut:]])
            new = np.zeros((len(X), *self.weights_.shape[1:]))
            self.weights_ = np.concatenate([self.weights_[:seen], new, self.weights_[seen:]])
        self.inputs_, self.to_features_ = X if old is None else np.concatenate([old, X]), None
        gram = kernel_matrix(X, self.inputs_, self.kernel, self.kernel_params or {})
        places = np.arange(seen, seen + len(X))
        return self._scorer_over(lambda shape, **options: Expansion(gram, shape, places, **options), loss)

    def _choose_alpha(self, scorer: Scorer, loss: Loss, v: Array, sample_weight: Array | None) -> float:
        """The alpha of least mean cost in five folds; ties go to the larger one. Paths are warm-started."""
        from sklearn.model_selection import KFold

        n = len(v)
        if n < 5:
            raise InvalidInput(f"alpha='cv' needs at least 5 examples for its folds, got {n}; give a number")
        seed = self.random_state if isinstance(self.random_state, int | np.integer) else 0
        costs = np.zeros((5, len(ALPHAS)))
        for fold, (inside, outside) in enumerate(KFold(5, shuffle=True, random_state=int(seed)).split(np.arange(n))):
            part, rest = scorer.take(inside), scorer.take(outside)
            training, testing = loss.take(inside), loss.take(outside)
            weights = None if sample_weight is None else sample_weight[inside]
            solver, start, dual = self._solver(loss), None, None
            for j, alpha in enumerate(ALPHAS):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    result = solver.minimize(
                        part,
                        training,
                        v[inside],
                        alpha,
                        penalty=self.penalty,
                        sample_weight=weights,
                        start=start,
                        dual=dual,
                    )
                start, dual = result.w, result.dual
                values = self._answer_costs(testing, testing.output(rest.scores(result.w)), v[outside])
                costs[fold, j] = np.average(
                    values, weights=None if sample_weight is None else sample_weight[outside] + 1e-300
                )
        means = costs.mean(axis=0)
        self.cv_results_ = {"alpha": np.array(ALPHAS), "mean_cost": means, "std_cost": costs.std(axis=0, ddof=1)}
        return float(ALPHAS[int(np.argmin(means))])

    def _answer_costs(self, loss: Loss, output: Output, v: Array) -> Array:
        """What each answer costs; the loss, where the decoder knows no cost."""
        affine = getattr(self.decoder_, "affine", None)
        if affine is None:
            return loss.value(output.scores, v)
        return np.asarray(affine(loss.structure).value(self.decoder_.vertices(output), v))

    def _warm_weights(self, scorer: Scorer, v: Array) -> tuple[Array | None, Any]:
        old = getattr(self, "weights_", None)
        dual = getattr(self, "_dual", None)
        return (old if old is not None and old.shape == scorer.weights_shape else None), dual

    def _solver(self, loss: Loss) -> Solver:
        if isinstance(self.solver, Solver):
            return self.solver
        if self.solver == "auto":
            name = self._default_solver(loss)
        else:
            names = tuple(entry.name for entry in registry.entries("solver"))
            name = check_choice(self.solver, "solver", ("auto", *names))
        cls = registry.find("solver", name).load()
        options = {"tol": self.tol, "max_iter": self._iterations(name), "random_state": self.random_state}
        accepted = inspect.signature(cls).parameters
        made: Solver = cls(**{key: value for key, value in options.items() if key in accepted})
        return made

    def _default_solver(self, loss: Loss) -> str:
        """What ``solver="auto"`` takes."""
        if self.penalty == "l1":
            return "proximal" if loss.differentiable else "adam"
        return "lbfgs" if loss.differentiable else "bundle" if self.penalty == "norm" else "bcfw"

    def _iterations(self, solver: str) -> int:
        """The most iterations of the solver of this name."""
        return self.max_iter

    def _callback(self, held_out: HeldOut | None) -> Callback | None:
        told = self._report if self.verbose else None
        if held_out is None or told is None:
            return held_out or told

        def both(progress: Progress) -> bool:
            told(progress)
            return held_out(progress)

        return both

    def _report(self, progress: Progress) -> None:
        if progress.n_iter % self.verbose == 0:
            print(
                f"[{type(self).__name__}] iteration {progress.n_iter:4d}  "
                f"objective {progress.value:.6g}  gap {progress.gap:.3g}",
                file=sys.stderr,
            )

    # -- use -----------------------------------------------------------------------------------------------------------

    def _output(self, X: Any) -> Output:
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        if getattr(self, "inputs_", None) is not None:
            X = kernel_matrix(_dense(X), self.inputs_, self.kernel, self.kernel_params or {})
            if self.to_features_ is not None:
                X = X @ self.to_features_
        return self.loss_.output(self._scorer(X, self.loss_).scores(self.weights_))

    def predict_marginals(self, X: Any) -> Array:
        """The model's μ for each row: the point of the set that the scores are projected to."""
        return self._output(X).marginals

    def _check_decoding(self, decoder: Decoder, loss: Loss) -> Decoder:
        """Refuse a cost that cannot be decoded for before any computing."""
        affine = getattr(decoder, "affine", None)
        if affine is not None:
            try:
                affine(loss.structure)
            except IncompatiblePair as error:
                raise IncompatiblePair(f"{type(self).__name__} cannot decode for this cost: {error}") from None
        return decoder

    @property
    def coef_(self) -> Array:
        """The weights of the features, a row for each score; with a kernel there are no features."""
        w = self._fitted_weights()
        if self.kernel is not None:
            raise AttributeError("with a kernel there is no coef_: scores are not linear in the inputs")
        return (w[:-1] if self.fit_intercept else w).T

    @property
    def intercept_(self) -> Array:
        """The intercept of each score (zeros without ``fit_intercept``)."""
        w = self._fitted_weights()
        return w[-1] * self.intercept_scaling if self.fit_intercept else np.zeros(w.shape[1])

    def _fitted_weights(self) -> Array:
        try:
            return self.weights_
        except AttributeError:
            raise AttributeError(f"this {type(self).__name__} is not fitted yet; call fit first") from None

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "weights_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class HeldOut:
    """A callback of solvers that stops when the mean cost on held-out examples no longer falls.

    The weights of least cost are kept; of equal costs the first. ``patience`` iterations without a lower cost end training.
    """

    def __init__(self, estimator: LinearEstimator, scorer: Scorer, loss: Loss, v: Any, patience: int) -> None:
        self.estimator = estimator
        self.scorer, self.loss, self.v, self.patience = scorer, loss, v, patience
        self.best: Progress | None = None
        self.costs: list[float] = []

    def __call__(self, progress: Progress) -> bool:
        output = self.loss.output(self.scorer.scores(progress.w))
        cost = float(np.mean(self.estimator._answer_costs(self.loss, output, self.v)))
        if not self.costs or cost < min(self.costs):
            self.best = replace(progress, w=progress.w.copy())
        self.costs.append(cost)
        return len(self.costs) - 1 - int(np.argmin(self.costs)) >= self.patience


def _dense(X: Any) -> Array:
    dense: Array = X.toarray() if hasattr(X, "toarray") else X
    return dense
