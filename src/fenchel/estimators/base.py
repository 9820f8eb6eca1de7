"""What the linear estimators share: parameters, training, partial training and scores."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from .._core import registry
from .._core.checks import check_choice, check_count, check_finite_positive
from .._core.errors import IncompatiblePair, InvalidInput
from .._core.types import Array
from ..costs.base import Cost
from ..decoders.base import Decoder
from ..losses.base import Loss, Output
from ..scorers.linear import Linear
from ..solvers.base import Progress, Result, Solver
from ..solvers.sgd import StreamState, stream_steps

__all__ = ["LinearEstimator", "make_cost"]


def make_cost(value: Any) -> Cost:
    """A cost from itself or its name."""
    if isinstance(value, Cost):
        return value
    if isinstance(value, str):
        return registry.find("cost", value).load()()
    raise InvalidInput(f"cost is {value!r}, expected the name of a cost or a fenchel.costs.Cost")


class LinearEstimator(BaseEstimator):  # type: ignore[misc]
    """A linear scorer, a loss on a structure, a solver and a decoder. Concrete estimators say which."""

    # Every concrete estimator takes these, in this meaning.
    alpha: float
    solver: Any
    tol: float
    max_iter: int
    fit_intercept: bool
    intercept_scaling: float
    warm_start: bool
    random_state: Any
    verbose: int

    loss_: Loss
    decoder_: Decoder
    weights_: Array

    # -- training ------------------------------------------------------------------------------------------------------

    def _train(self, X: Any, v: Array, loss: Loss, sample_weight: Array | None) -> None:
        """Fit the weights for checked inputs and truths v, and set the fitted attributes."""
        check_finite_positive(self.alpha, "alpha", zero=True)
        check_count(self.verbose, "verbose", minimum=0)
        scorer = self._scorer(X, loss)
        start, dual = self._warm_weights(scorer, v) if self.warm_start else (None, None)
        solver = self._solver(loss)
        result = solver.minimize(
            scorer,
            loss,
            v,
            float(self.alpha),
            sample_weight=sample_weight,
            start=start,
            dual=dual,
            callback=self._report if self.verbose else None,
        )
        self._keep(result, loss)
        if result.interrupted:
            raise KeyboardInterrupt(
                f"training was interrupted after {result.n_iter} iterations; the estimator holds the weights so far"
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
        alpha = check_finite_positive(self.alpha, "alpha", zero=True)
        loss.check_truths(v)
        scorer = self._scorer(X, loss)
        state = getattr(self, "_stream", None)
        if state is None:
            old = getattr(self, "weights_", None)
            state = StreamState(scorer.zero_weights() if old is None else old)
        self._stream = stream_steps(state, scorer, loss, v, alpha, sample_weight)
        self.loss_ = loss
        self.weights_ = self._stream.w
        self.n_iter_ = 1
        self.objective_ = self.dual_gap_ = float("nan")
        self.converged_ = False

    def _scorer(self, X: Any, loss: Loss) -> Linear:
        scaling = check_finite_positive(self.intercept_scaling, "intercept_scaling") if self.fit_intercept else None
        return Linear(X, loss.structure.shape, intercept_scaling=scaling)

    def _warm_weights(self, scorer: Linear, v: Array) -> tuple[Array | None, Any]:
        old = getattr(self, "weights_", None)
        dual = getattr(self, "_dual", None)
        return (old if old is not None and old.shape == scorer.weights_shape else None), dual

    def _solver(self, loss: Loss) -> Solver:
        if isinstance(self.solver, Solver):
            return self.solver
        if self.solver == "auto":
            name = "lbfgs" if loss.differentiable else "bcfw"
        else:
            names = tuple(entry.name for entry in registry.entries("solver"))
            name = check_choice(self.solver, "solver", ("auto", *names))
        options: dict[str, Any] = {"tol": self.tol, "max_iter": self.max_iter}
        if name == "bcfw":
            options["random_state"] = self.random_state
        made: Solver = registry.find("solver", name).load()(**options)
        return made

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
        """The weights of the features, a row for each score."""
        w = self._fitted_weights()
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
