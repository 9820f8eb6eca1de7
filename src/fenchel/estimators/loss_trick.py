"""Any output, with any cost between two outputs."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _check_sample_weight, check_consistent_length, check_is_fitted, validate_data

from .._core import registry
from .._core.checks import check_choice, check_count, check_finite_positive, check_generator
from .._core.errors import IncompatiblePair, InvalidInput
from .._core.types import Array
from ..costs.absolute import Absolute
from ..costs.base import Cost, as_outputs
from ..costs.diffusion import DiffusionDistance
from ..costs.histograms import ChiSquared, Hellinger
from ..costs.numbers import NumberCost
from ..costs.rated_pairs import RatedPairs
from ..costs.squared_error import SquaredError
from ..decoders.answers.base import Answers, Search
from ..decoders.answers.candidates import Candidates, distinct
from ..decoders.answers.histogram import SUM_SLACK, Histogram
from ..decoders.answers.line import Line
from ..decoders.answers.manifold import Sphere
from ..decoders.answers.own import FunctionAnswers
from ..decoders.answers.ranking import Ranking
from ..decoders.answers.structure import StructureAnswers
from ..solvers.kernel_ridge import ExactRidge, KernelSource, NystromRidge, RidgeSystem
from ..structures.base import Structure
from .base import make_cost

__all__ = ["ALPHAS", "LossTrickPredictor", "make_answers"]

ALPHAS = tuple(float(f"{10**e:.3g}") for e in np.linspace(0, -7, 15))
"""What ``alpha="loo"`` tries, from the strongest penalty down."""

_MOST_EXACT = 5000
_REFERENCES = 64
_MOST_LEFT_OUT = 2000
_BLOCK_BYTES = 2**27  # larger blocks of inputs mean that tables of costs are made less often


class LossTrickPredictor(BaseEstimator):  # type: ignore[misc]
    """Outputs of any kind, from a kernel between inputs and a cost between two outputs (the loss trick).

    The answer to x is

        argmin over ŷ of Σ_i α_i(x) cost(ŷ, y_i),    α(x) = (K + nλI)⁻¹ K_x,

    with λ = ``alpha``: the expected cost is learned by kernel ridge regression without saying in which space, and
    minimised. For every cost on a finite or compact set that is continuous enough it is consistent: with a universal
    kernel and λ = n^(-1/4) its risk tends to the least possible (Theorem 4 of the reference), and with λ = n^(-1/2) at
    the rate n^(-1/4) or better where the truth is as smooth as the kernel (Theorem 5). The weights have signs and need
    not sum to one.

    scikit-learn's ridge parameter is nλ: ``KernelRidge(alpha=n * alpha)``.

    Parameters
    ----------
    cost : str, Cost, matrix or callable, default="squared"
        What an answer costs where the truth is another output: any of ``fenchel.costs``, a matrix C[answer, truth] for
        classes, or a function of an answer and a truth.
    kernel : str, callable or "precomputed", default="rbf"
        A kernel between inputs: a name scikit-learn knows or a function of two matrices. With "precomputed", X holds
        the kernel between its rows and the training inputs.
    kernel_params : dict or None, default=None
        Parameters of the kernel, such as ``{"gamma": 0.1}``.
    alpha : float, sequence of floats or "loo", default=1e-3
        λ. Of several ("loo": fifteen from 1 down to 1e-7) the best is chosen by leaving one example out, in closed form.
    answers : str, Answers, Structure, list or callable, default="auto"
        How the least is found, see ``fenchel.decoders.answers``: a list of candidates; a structure, on which the cost
        must be affine; a function of weights and training outputs. "auto" is :class:`Ranking` for ratings,
        :class:`Histogram` for histogram costs, :class:`Line` for costs of real numbers, :class:`Sphere` for diffusion
        distances, else the distinct training outputs as candidates.
    weighting : {"ridge", "nadaraya_watson"}, default="ridge"
        "nadaraya_watson" takes α_i(x) = k(x, x_i) / Σ_j k(x, x_j) instead, without alpha: with the squared cost the
        Nadaraya-Watson estimator, with a robust cost its robust form (Härdle, 1984). To compare with.
    solver : {"auto", "exact", "nystrom"}, default="auto"
        Exact up to 5000 examples, above with ``n_centres`` centres (Nyström).
    n_centres : int or None, default=None
        How many of the training inputs are centres; None is 2000 (or all, if there are fewer).
    max_memory : int, default=2**32
        Most bytes that training may take for matrices. What needs more is refused before it starts: exact 16n²,
        Nyström 40m² + 256 MiB for m centres, besides inputs, outputs and blocks of 128 MiB (a few).
    random_state : int, Generator or None, default=None
        For the choice of centres, and of the outputs that alphas are compared on.

    Attributes
    ----------
    alpha_ : float
        λ as it was used or chosen.
    cv_results_ : dict
        Where alpha was chosen: "alpha", "surrogate_error" (leaving one out, closed form, of predicted costs) and
        "mean_cost" (of the decoded answers; NaN for all but the three alphas of least surrogate error).
    solver_ : str
        "exact", "nystrom" or "nadaraya_watson".
    answers_ : Answers
        How the least is found.

    References
    ----------
    Ciliberto, Rudi and Rosasco, "A consistent regularization approach for structured prediction", 2016.

    Examples
    --------
    >>> import numpy as np
    >>> from fenchel import LossTrickPredictor
    >>> X = np.linspace(0, 1, 30).reshape(-1, 1)
    >>> y = ["left" if x < 0.4 else "middle" if x < 0.7 else "right" for x in X[:, 0]]
    >>> model = LossTrickPredictor("edit_distance", kernel_params={"gamma": 20.0}).fit(X, y)
    >>> model.predict([[0.1], [0.9]])
    array(['left', 'right'], dtype=object)
    """

    def __init__(
        self,
        cost: Any = "squared",
        *,
        kernel: Any = "rbf",
        kernel_params: Any = None,
        alpha: Any = 1e-3,
        answers: Any = "auto",
        weighting: str = "ridge",
        solver: str = "auto",
        n_centres: int | None = None,
        max_memory: int = 2**32,
        random_state: Any = None,
    ) -> None:
        self.cost = cost
        self.kernel = kernel
        self.kernel_params = kernel_params
        self.alpha = alpha
        self.answers = answers
        self.weighting = weighting
        self.solver = solver
        self.n_centres = n_centres
        self.max_memory = max_memory
        self.random_state = random_state

    # -- training ------------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LossTrickPredictor:
        """Train on rows X and their outputs y, a list or an array of anything that the cost takes."""
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64)
        if y is None:
            raise InvalidInput("requires y to be passed, but the target y is None")
        outputs = as_outputs(y)
        check_consistent_length(X, outputs)
        weighting = check_choice(self.weighting, "weighting", ("ridge", "nadaraya_watson"))
        check_choice(self.solver, "solver", ("auto", "exact", "nystrom"))
        if self.kernel == "precomputed" and X.shape[0] != X.shape[1]:
            raise InvalidInput(f"with kernel='precomputed' X is the square matrix of kernels, not of shape {X.shape}")
        alphas = self._alphas()
        rng = check_generator(self.random_state)
        self._ridge: RidgeSystem | None = None
        self.cost_ = make_cost(self.cost)
        self.answers_ = make_answers(self.answers, self.cost_, outputs)
        self._search: Search | None = self.answers_.search(self.cost_, outputs)
        self.X_fit_, self.y_fit_ = X, outputs
        self.roots_ = self.coef_ = self.centres_ = None
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, X, dtype=np.float64)
            if weights.min() < 0 or weights.sum() == 0:
                raise InvalidInput("sample_weight must be zero or more, and not all zero")
            self.roots_ = np.sqrt(weights / weights.mean())
        self.alpha_ = alphas[0]
        if weighting == "nadaraya_watson":
            self.solver_ = weighting
            return self
        n = X.shape[0]
        self.solver_ = self.solver if self.solver != "auto" else ("exact" if n <= _MOST_EXACT else "nystrom")
        if self.solver_ == "nystrom":
            m = min(n, check_count(2000 if self.n_centres is None else self.n_centres, "n_centres"))
            self.centres_ = np.sort(rng.choice(n, m, replace=False))
        self._ridge = self._system(many=len(alphas) > 1)
        if len(alphas) > 1:
            self.alpha_ = self._choose_alpha(np.array(alphas), rng)
        self._ridge.set_alpha(self.alpha_)
        if self._search.embedding is not None:
            self.coef_ = self._ridge.coefficients(self._search.embedding)
        return self

    def _alphas(self) -> list[float]:
        """The alphas to choose from, the largest first."""
        if isinstance(self.alpha, str):
            if self.alpha != "loo":
                raise InvalidInput(f"alpha is {self.alpha!r}, expected a number above 0, some of them, or 'loo'")
            return list(ALPHAS)
        if np.ndim(self.alpha) == 0:
            return [check_finite_positive(self.alpha, "alpha")]
        alphas = sorted({check_finite_positive(a, "alpha") for a in self.alpha}, reverse=True)
        if not alphas:
            raise InvalidInput("alpha is an empty list, expected a number above 0, some of them, or 'loo'")
        return alphas

    def _system(self, *, many: bool) -> RidgeSystem:
        """The system of the training inputs, refused early where it does not fit into memory."""
        source = KernelSource(self.X_fit_, self.kernel, dict(self.kernel_params or {}))
        budget = check_count(self.max_memory, "max_memory")
        if self.centres_ is None:
            needed = ExactRidge.bytes_needed(source.n)
            if needed > budget:
                raise InvalidInput(
                    f"exact training on {source.n} examples needs {needed} bytes, "
                    f"max_memory is {budget}; use solver='nystrom', or a larger max_memory"
                )
            return ExactRidge(source, self.roots_, many=many)
        needed = NystromRidge.bytes_needed(source.n, len(self.centres_))
        if needed > budget:
            raise InvalidInput(
                f"training on {source.n} examples with {len(self.centres_)} centres needs {needed} bytes, "
                f"max_memory is {budget}; use a smaller n_centres, or a larger max_memory"
            )
        return NystromRidge(source, self.centres_, self.roots_)

    def _choose_alpha(self, alphas: Array, rng: np.random.Generator) -> float:
        """Leaving one out: errors in closed form for all, decoded costs for the three best; ties go to the larger."""
        ridge, search = self._fitted_ridge(), self._fitted_search()
        n = len(self.y_fit_)
        targets = search.embedding
        if targets is None:
            targets = search.cost.between(search.references(rng, _REFERENCES), self.y_fit_).T
        errors = ridge.leave_one_out_errors(alphas, targets)
        rows = np.arange(n) if n <= _MOST_LEFT_OUT else np.sort(rng.choice(n, _MOST_LEFT_OUT, replace=False))
        importance = None if self.roots_ is None else self.roots_[rows] ** 2
        costs = np.full(len(alphas), np.nan)
        step = max(1, _BLOCK_BYTES // (8 * n))
        for j in np.argsort(errors, kind="stable")[:3]:
            ridge.set_alpha(float(alphas[j]))
            amounts = np.empty(len(rows))
            if search.embedding is not None:
                everything = ridge.leave_one_out_means(rows, search.embedding)
            for start in range(0, len(rows), step):
                part = rows[start : start + step]
                if search.embedding is None:
                    means = ridge.leave_one_out_weights(part)
                else:
                    means = everything[start : start + step]
                amounts[start : start + step] = self.cost_(search.answers(means), self.y_fit_[part])
            costs[j] = np.average(amounts, weights=importance)
        self.cv_results_ = {"alpha": alphas, "surrogate_error": errors, "mean_cost": costs}
        return float(alphas[int(np.nanargmin(costs))])

    # -- use -----------------------------------------------------------------------------------------------------------

    def predict(self, X: Any) -> Array:
        """The answer of least weighted cost for each row."""
        X = self._inputs(X)
        search = self._fitted_search()
        parts = [search.answers(means) for _, means in self._means(X, search.embedding is not None)]
        return np.concatenate(parts) if parts else self.y_fit_[:0]

    def weights(self, X: Any) -> Array:
        """α(x), a row for each row of X and a column for each training example."""
        X = self._inputs(X)
        needed = 8 * X.shape[0] * len(self.y_fit_)
        if needed > self.max_memory:
            raise InvalidInput(
                f"the weights of {X.shape[0]} inputs need {needed} bytes, max_memory is {self.max_memory}; ask for fewer rows"
            )
        parts = [weights for _, weights in self._means(X, False)]
        return np.concatenate(parts) if parts else np.zeros((0, len(self.y_fit_)))

    def predict_cost(self, X: Any, answers: Any = None) -> Array:
        """Σ_i α_i(x) cost(ŷ, y_i), the cost that is expected of an answer to each row, by default of the predictions."""
        X = self._inputs(X)
        search = self._fitted_search()
        given = None if answers is None else as_outputs(answers)
        if given is not None and len(given) != X.shape[0]:
            raise InvalidInput(f"there are {len(given)} answers for {X.shape[0]} rows of X")
        costs = np.empty(X.shape[0])
        chosen = self.predict(X) if given is None else given
        for part, means in self._means(X, search.embedding is not None and search.costs_from_means):
            if search.embedding is not None and not search.costs_from_means:
                costs[part] = Search.costs(search, means, chosen[part])
            else:
                costs[part] = search.costs(means, chosen[part])
        return costs

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Minus the mean cost of the predictions, so that more is better."""
        truths = as_outputs(y)
        check_consistent_length(X, truths)
        return -float(np.average(self.cost_(self.predict(X), truths), weights=sample_weight))

    def _inputs(self, X: Any) -> Any:
        check_is_fitted(self)
        return validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)

    def _means(self, X: Any, embedded: bool) -> Any:
        """Blocks of rows with their weights, or with the sums that the search embeds outputs for."""
        n = len(self.y_fit_)
        step = max(1, _BLOCK_BYTES // (8 * n))
        embedding = self._fitted_search().embedding
        source = KernelSource(self.X_fit_, self.kernel, dict(self.kernel_params or {}))
        for start in range(0, X.shape[0], step):
            part = slice(start, min(start + step, X.shape[0]))
            rows = source.rows(X[part], self.centres_)
            if self.solver_ == "nadaraya_watson":
                weights = self._averaging(rows)
                yield part, weights @ embedding if embedded and embedding is not None else weights
            elif embedded:
                yield part, rows @ self.coef_
            else:
                yield part, self._fitted_ridge().weights(rows)

    def _averaging(self, rows: Array) -> Array:
        """Kernel values, which must not be negative, over their sum; where all vanish every example counts the same."""
        if rows.size and rows.min() < 0:
            raise IncompatiblePair("weighting='nadaraya_watson' needs a kernel without negative values, such as 'rbf'")
        if self.roots_ is not None:
            rows = rows * self.roots_**2
        total = rows.sum(axis=1, keepdims=True)
        return np.where(total > 0, rows / np.where(total > 0, total, 1), 1 / rows.shape[1])

    def _fitted_ridge(self) -> RidgeSystem:
        """The factorised system; a loaded model makes it again when it is first needed."""
        ridge = getattr(self, "_ridge", None)
        if ridge is None:
            ridge = self._system(many=False)
            ridge.set_alpha(self.alpha_)
            self._ridge = ridge
        return ridge

    def _fitted_search(self) -> Search:
        search = getattr(self, "_search", None)
        if search is None:
            self._search = search = self.answers_.search(self.cost_, self.y_fit_)
        return search

    def __getstate__(self) -> Any:
        state = super().__getstate__().copy()
        for name in ("_ridge", "_search"):
            state.pop(name, None)
        return state

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "y_fit_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        return tags


def make_answers(value: Any, cost: Cost, truths: Array) -> Answers:
    """A search from itself, its name, a structure, a list of candidates, a function, or what suits cost and outputs."""
    if isinstance(value, Answers):
        return value
    if isinstance(value, Structure):
        return StructureAnswers(value)
    if isinstance(value, type):
        raise InvalidInput(f"answers is the class {value.__name__}, expected an object: {value.__name__}(...)")
    if isinstance(value, str) and value != "auto":
        made: Answers = registry.find("answers", value).load()()
        return made
    if callable(value):
        return FunctionAnswers(value)
    if not isinstance(value, str):
        return Candidates(value)
    real = truths.ndim == 1 and truths.dtype.kind == "f"
    if isinstance(cost, RatedPairs):
        return Ranking()
    if (
        isinstance(cost, Hellinger | ChiSquared)
        and truths.ndim == 2
        and np.abs(truths.sum(axis=1) - 1).max() <= SUM_SLACK
    ):
        return Histogram()
    if isinstance(cost, DiffusionDistance):
        return Line(0.0, 2 * np.pi) if truths.ndim == 1 else Sphere()
    if isinstance(cost, NumberCost | Absolute | SquaredError) and real and len(distinct(truths)) > 1:
        return Line()
    return Candidates()
