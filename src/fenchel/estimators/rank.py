"""A ranking of labels, by a projection loss."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import (
    _check_sample_weight,
    check_array,
    check_consistent_length,
    check_is_fitted,
    validate_data,
)

from .._core.checks import check_choice
from .._core.errors import InvalidInput
from .._core.types import Array
from ..decoders.calibrated import Calibrated
from ..losses.fenchel_young import FenchelYoung
from ..structures.base import Structure
from ..structures.birkhoff import Birkhoff
from ..structures.cube import Cube
from ..structures.linear_ordering import LinearOrdering
from ..structures.permutahedron import Permutahedron
from ..structures.product import Product
from ..structures.reals import NonNegative, Reals
from ..structures.simplex import Simplex
from .base import LinearEstimator, make_cost

__all__ = ["LabelRanker", "parse_rankings"]

_PROJECTIONS = ("birkhoff", "row_stochastic", "cube", "permutahedron", "linear_ordering", "nonnegative", "reals")
_DECODINGS = ("auto", "birkhoff", "row_stochastic", "cube")


class LabelRanker(LinearEstimator):
    """A linear model of rankings of k labels (label ranking): a score per label and rank, projected to soft permutations.

    A ranking is the permutation matrix with a one where label i has rank j. The loss is the Fenchel-Young loss on the
    chosen set of k × k matrices: the Birkhoff polytope (soft permutations), row-stochastic matrices, the unit cube, or no
    projection; or on the permutahedron, with one score per label only; or on the linear ordering polytope, with a score for
    each pair of labels (at most 18). ``predict`` answers with the ranking of
    least expected Hamming cost (labels at a wrong rank), an assignment problem. An iteration costs O(rows · features · k²)
    and one projection per row.

    Rankings are rows of ranks, one per label, best first counted from 1 (or from 0), or strings such as ``"b>a>c"``. Ties and
    incomplete rankings are refused.

    Parameters
    ----------
    regularizer : {"euclidean", "kl", "gibbs"} or Regularizer, default="euclidean"
        Ψ, which makes the loss. "gibbs", a distribution over rankings, needs ``projection="linear_ordering"``, where "kl" has
        no projection of its own and is slow.
    cost : {"auto", "hamming", "discounted", "disagreements"} or Cost, default="auto"
        What a mistake costs: labels at a wrong rank ("hamming", the default for permutation matrices), one minus the
        NDCG, or pairs in the wrong order ("disagreements", on the linear ordering polytope, where it is the default).
        On the permutahedron the answer sorts the soft ranks.
    projection : {"birkhoff", "row_stochastic", "cube", "permutahedron", "linear_ordering", "nonnegative", "reals"}
        The set that scores are projected to; "birkhoff" by default.
    decoding : {"auto", "birkhoff", "row_stochastic", "cube"}, default="auto"
        The set of answers. "auto" gives rankings; the larger sets give 0/1 matrices that may be no permutations, which
        ``predict_matrix`` returns and the published tables compare.
    alpha : float or "cv", default=1e-3
        The strength of the ridge penalty on the mean loss; "cv" chooses it by five-fold cross-validation of the cost.
    strength : float, default=1.0
        Scales the regularizer: larger values make softer predictions.
    fit_intercept : bool, default=True
        Add a column of the value ``intercept_scaling``, penalised like the others.
    intercept_scaling : float, default=1.0
        The value of that column.
    kernel : str, callable or None, default=None
        A kernel between inputs, by scikit-learn's name or as a function; None is linear.
    kernel_params : dict or None, default=None
        Parameters of the kernel, such as ``{"gamma": 0.1}``.
    solver : {"auto", "lbfgs", "bcfw"} or Solver, default="auto"
        How weights are found.
    tol : float, default=1e-4
        Training stops when the duality gap is below ``tol`` times the objective.
    max_iter : int, default=1000
        Most iterations.
    warm_start : bool, default=False
        Go on from the weights of the last ``fit``.
    random_state : int, Generator or None, default=None
        For solvers that draw examples.
    verbose : int, default=0
        Print every ``verbose``-th iteration to standard error.

    Attributes
    ----------
    labels_ : list of str or None
        The names of the labels, where rankings were strings.
    n_labels_ : int
        The number of labels.
    objective_, dual_gap_ : float
        The objective reached, and how far at most it is from the least one.

    References
    ----------
    Blondel, "Structured prediction with projection oracles", 2019, sections 4 and 6.

    Examples
    --------
    >>> import numpy as np
    >>> from fenchel.estimators import LabelRanker
    >>> X = np.linspace(-1, 1, 40).reshape(-1, 1)
    >>> y = ["a>b>c" if x < 0 else "c>b>a" for x in X[:, 0]]
    >>> LabelRanker(alpha=1e-3).fit(X, y).predict([[-1.0], [1.0]])
    array(['a>b>c', 'c>b>a'], dtype=object)
    """

    decoder_: Any

    def __init__(
        self,
        regularizer: Any = "euclidean",
        *,
        cost: Any = "auto",
        projection: str = "birkhoff",
        decoding: str = "auto",
        alpha: float | str = 1e-3,
        strength: float = 1.0,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        kernel: Any = None,
        kernel_params: Any = None,
        solver: Any = "auto",
        tol: float = 1e-4,
        max_iter: int = 1000,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.regularizer = regularizer
        self.cost = cost
        self.projection = projection
        self.decoding = decoding
        self.alpha = alpha
        self.strength = strength
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.kernel = kernel
        self.kernel_params = kernel_params
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LabelRanker:
        """Train on rows X and their rankings y."""
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32])
        ranks, labels, first = parse_rankings(y)
        check_consistent_length(X, ranks)
        k = ranks.shape[1]
        projection = check_choice(self.projection, "projection", _PROJECTIONS)
        decoding = check_choice(self.decoding, "decoding", _DECODINGS)
        sets: dict[str, Structure] = {
            "birkhoff": Birkhoff(k),
            "row_stochastic": Product(Simplex(k), k),
            "cube": Product(Cube(k), k),
            "nonnegative": NonNegative(k, k),
            "reals": Reals(k, k),
            "permutahedron": Permutahedron(k),
        }
        if projection == "linear_ordering":
            sets[projection] = LinearOrdering(k)
        loss = FenchelYoung(sets[projection], self.regularizer, strength=self.strength)
        own = projection in (
            "permutahedron",
            "linear_ordering",
        )  # rankings are encoded, and answered, on the set itself
        if own and decoding != "auto":
            raise InvalidInput(f"decoding is {decoding!r}, but points of {sets[projection]!r} are no matrices of ranks")
        coding = sets[projection] if own else Birkhoff(k)
        if projection == "permutahedron":
            self.decoder_ = None
        else:
            answers = coding if decoding == "auto" else sets[decoding]
            cost = self.cost if self.cost != "auto" else ("disagreements" if own else "hamming")
            self.decoder_ = self._check_decoding(Calibrated(answers, make_cost(cost)), loss)
        truths = coding.encode(ranks, X.dtype)
        weights = None if sample_weight is None else _check_sample_weight(sample_weight, X, dtype=np.float64)
        self.n_labels_, self.labels_, self.first_rank_ = k, labels, first
        self._train(X, truths, loss, weights)
        return self

    def predict(self, X: Any) -> Array:
        """The ranking of each row, in the form that training rankings had."""
        ranks = self.predict_ranks(X)
        if self.labels_ is None:
            return ranks + self.first_rank_
        names = np.array(self.labels_, dtype=object)
        return np.array([">".join(names[np.argsort(row)]) for row in ranks], dtype=object)

    def predict_ranks(self, X: Any) -> Array:
        """The rank of each label, 0 for the best."""
        check_is_fitted(self)
        if self.decoder_ is None:
            mu = self.predict_marginals(X)
            return Permutahedron(self.n_labels_)._ranks(np.argsort(-mu, axis=1, kind="stable"))
        if not isinstance(self.decoder_.structure, Birkhoff | LinearOrdering):
            raise InvalidInput(f"decoding={self.decoding!r} gives matrices that may be no rankings; use predict_matrix")
        return self.decoder_.decode(self._output(X))

    def predict_matrix(self, X: Any) -> Array:
        """The answers as 0/1 matrices, label by rank, of the decoding set."""
        check_is_fitted(self)
        if self.decoder_ is None or isinstance(self.decoder_.structure, LinearOrdering):
            return Birkhoff(self.n_labels_).encode(self.predict_ranks(X))
        return self.decoder_.vertices(self._output(X))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """One minus the mean share of labels at a wrong rank."""
        ranks, _, _ = parse_rankings(y, getattr(self, "labels_", None))
        wrong = (self.predict_ranks(X) != ranks).mean(axis=1)
        return float(1 - np.average(wrong, weights=sample_weight))

    def __sklearn_tags__(self) -> Any:
        tags = BaseEstimator.__sklearn_tags__(self)
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        tags.target_tags.single_output = False
        tags.target_tags.multi_output = True
        return tags


def parse_rankings(y: Any, labels: list[str] | None = None) -> tuple[Array, list[str] | None, int]:
    """Ranks from 0 as an (n, k) array, the labels' names where rankings are strings, and what the first rank was called.

    >>> parse_rankings(["b>a>c", "c>b>a"])
    (array([[1, 0, 2],
           [2, 1, 0]]), ['a', 'b', 'c'], 0)
    >>> parse_rankings([[2, 1, 3]])
    (array([[1, 0, 2]]), None, 1)
    """
    if y is None:
        raise InvalidInput("requires y to be passed, but the target y is None")
    array = np.asarray(y)
    if array.dtype.kind in "UO" and array.ndim == 1 and all(isinstance(item, str) for item in array):
        return _from_strings(array, labels)
    if array.ndim != 2 or array.dtype.kind in "US":
        raise InvalidInput(
            f"y has shape {array.shape} and type {array.dtype}, expected a row of ranks per example, (n, labels), "
            "or strings a>b>c"
        )
    ranks = check_array(array, dtype="numeric", ensure_all_finite="allow-nan", ensure_min_samples=1, input_name="y")
    if ranks.dtype.kind == "f" and np.isnan(ranks).any():
        i, j = np.argwhere(np.isnan(ranks))[0]
        raise InvalidInput(
            f"y has no rank for label {j} at sample {i}; incomplete rankings are not supported: rank all labels, or leave "
            "the example out"
        )
    k = ranks.shape[1]
    first = int(ranks.min())
    if first not in (0, 1) or np.any(ranks != np.floor(ranks)):
        raise InvalidInput(f"y holds the rank {ranks.min():g}, expected whole numbers from 1 to {k} (or 0 to {k - 1})")
    whole = ranks.astype(np.int64) - first
    bad = (np.sort(whole, axis=1) != np.arange(k)).any(axis=1)
    if bad.any():
        i = int(bad.argmax())
        raise InvalidInput(
            f"y is {ranks[i].tolist()} at sample {i}, which is no complete ranking without ties: "
            f"each of {first} to {k - 1 + first} once"
        )
    return whole, None, first


def _from_strings(array: Array, labels: list[str] | None) -> tuple[Array, list[str] | None, int]:
    orders = [[part.strip() for part in str(text).split(">")] for text in array]
    names = sorted(set(orders[0])) if labels is None else labels
    place = {name: i for i, name in enumerate(names)}
    ranks = np.empty((len(orders), len(names)), np.int64)
    for i, order in enumerate(orders):
        if sorted(order) != sorted(names):
            raise InvalidInput(
                f"y is {str(array[i])!r} at sample {i}, which does not rank each of {', '.join(names)} once; "
                "ties and incomplete rankings are not supported"
            )
        ranks[i, [place[name] for name in order]] = np.arange(len(names))
    return ranks, names, 0
