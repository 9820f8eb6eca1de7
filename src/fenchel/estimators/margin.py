"""A class, by a margin loss: support vector machines and reductions to binary questions."""

from __future__ import annotations

import inspect
from typing import Any

from .._core import registry
from .._core.checks import check_choice
from .._core.errors import InvalidInput
from .._core.types import Array
from ..decoders.likeliest import Likeliest
from ..losses.base import Loss
from ..losses.margins.base import MarginLoss
from ..structures.base import Structure
from ..structures.order_simplex import OrderSimplex
from ..structures.simplex import Simplex
from .labelled import labelled_cost, with_abstention
from .scored import ScoredClassifier, check_features, check_price

__all__ = ["MarginClassifier"]

_LOSSES = (
    "crammer_singer",
    "weston_watkins",
    "lee_lin_wahba",
    "one_vs_all",
    "all_thresholds",
    "immediate_thresholds",
    "threshold_reduction",
    "one_sided_regression",
    "cost_sensitive_one_vs_all",
    "cost_sensitive_one_vs_one",
)
_ON_THRESHOLDS = ("all_thresholds", "immediate_thresholds", "threshold_reduction")
_ABSTAIN_BELOW = {"crammer_singer": 0.5, "one_vs_all": 0.0}


class MarginClassifier(ScoredClassifier):
    """A linear or kernel classifier by a margin loss: the baselines of adversarial and projection losses.

    Minimises the weighted mean of a sum or maximum of hinges, plus alpha/2 ‖W‖². ``"crammer_singer"``,
    ``"weston_watkins"``, ``"lee_lin_wahba"`` and ``"one_vs_all"`` are support vector machines for classes;
    ``"all_thresholds"`` and ``"immediate_thresholds"`` are for grades (SVORIM and SVOREX, with a kernel);
    ``"threshold_reduction"`` is RED, ``"one_sided_regression"``, ``"cost_sensitive_one_vs_all"`` and
    ``"cost_sensitive_one_vs_one"`` reduce a cost to weighted questions.

    Parameters
    ----------
    loss : str, default="crammer_singer"
        The name of the margin loss.
    cost : str, Cost, matrix, DataFrame, dict or callable, default="zero_one"
        What a mistake costs, as in :class:`AdversarialClassifier`, with as many answers as classes. The reductions train
        for it; for all, ``alpha="cv"`` is chosen by it.
    abstain : float or None, default=None
        The price of no answer, for ``"crammer_singer"`` and ``"one_vs_all"``, which then answer only where the lead of the
        best score, or the best score, is above ``abstain_below``. Training does not know the price.
    abstain_below : float or None, default=None
        By default 1/2 for ``"crammer_singer"`` and 0 for ``"one_vs_all"``, as in the reference.
    abstain_label : object, default=None
        What no answer is called; by default −1 where classes are numbers, else ``"abstain"``.
    features : {"auto", "multiclass", "threshold"}, default="auto"
        A direction of its own for each score, or one direction for all thresholds. "auto" takes the latter where the loss
        is on thresholds; ``loss="threshold_reduction"`` is RED-th then, and RED-mc with ``features="multiclass"``.
    alpha : float or "cv", default=1e-3
        The strength of the penalty on the mean loss; "cv" chooses it by five-fold cross-validation of the cost.
        scikit-learn's C is 1 / (alpha · rows).
    penalty : {"l2", "l1", "norm"}, default="l2"
        alpha/2 ‖W‖², alpha ‖W‖₁, which the solvers "adam" and "sgd" take, or alpha ‖W‖₂.
    fit_intercept, intercept_scaling, class_weight, kernel, kernel_params
        As in :class:`AdversarialClassifier`.
    solver : {"auto", "bundle", "dual_coordinate", "bcfw", "pegasos", "adam", "sgd"} or Solver, default="auto"
        How weights are found; "auto" takes "bundle", and with a kernel "dual_coordinate" unless thresholds share a direction.
    tol, max_iter, warm_start, random_state, verbose
        As in :class:`AdversarialClassifier`.

    Attributes
    ----------
    classes_, answers_, cost_, coef_, intercept_, weights_, objective_, dual_gap_, n_iter_, converged_
        As in :class:`AdversarialClassifier`.

    References
    ----------
    Crammer and Singer, "On the algorithmic implementation of multiclass kernel-based vector machines", 2001; Doğan,
    Glasmachers and Igel, "A unified view on multi-class support vector classification", 2016; Chu and Keerthi, "New
    approaches to support vector ordinal regression", 2005; Ramaswamy, Tewari and Agarwal, "Consistent algorithms for
    multiclass classification with an abstain option", 2018.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from fenchel import MarginClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MarginClassifier("weston_watkins", alpha=0.01, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.9), bool(model.dual_gap_ <= 1e-3 * model.objective_)
    (True, True)
    """

    def __init__(
        self,
        loss: str = "crammer_singer",
        *,
        cost: Any = "zero_one",
        abstain: float | None = None,
        abstain_below: float | None = None,
        abstain_label: Any = None,
        features: str = "auto",
        alpha: float | str = 1e-3,
        penalty: str = "l2",
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        class_weight: Any = None,
        kernel: Any = None,
        kernel_params: Any = None,
        solver: Any = "auto",
        tol: float = 1e-3,
        max_iter: int = 1000,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.loss = loss
        self.cost = cost
        self.abstain = abstain
        self.abstain_below = abstain_below
        self.abstain_label = abstain_label
        self.features = features
        self.alpha = alpha
        self.penalty = penalty
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.kernel = kernel
        self.kernel_params = kernel_params
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    def _shares_direction(self) -> bool:
        features = check_features(self.features, ("auto", "multiclass", "threshold"))
        return features == "threshold" or (features == "auto" and self.loss in _ON_THRESHOLDS)

    def _structure(self, k: int) -> Structure:
        return OrderSimplex(k) if self.loss in _ON_THRESHOLDS else Simplex(k)

    def _set_up(self, classes: Array) -> Loss:
        name = check_choice(self.loss, "loss", _LOSSES)
        if self._shares_direction() and name not in _ON_THRESHOLDS:
            raise InvalidInput(
                f"features='threshold' needs a loss on thresholds, {', '.join(map(repr, _ON_THRESHOLDS))}, but loss is {name!r}"
            )
        check_price(self.abstain)
        structure = self._structure(len(classes))
        cost, answers = labelled_cost(self.cost, classes, structure)
        if len(answers) != len(classes):
            raise InvalidInput(
                f"cost has {len(answers)} answers for {len(classes)} classes, but margin losses answer with classes; use "
                "AdversarialClassifier"
            )
        below = self.abstain_below
        if self.abstain is not None or below is not None:
            if name not in _ABSTAIN_BELOW:
                raise InvalidInput(f"loss={name!r} cannot abstain; use {' or '.join(map(repr, _ABSTAIN_BELOW))}")
            below = _ABSTAIN_BELOW[name] if below is None else below
            cost, answers = with_abstention(
                cost, answers, 1.0 if self.abstain is None else self.abstain, self.abstain_label
            )
        cls = registry.find("loss", name).load()
        options: dict[str, Any] = {} if below is None else {"abstain_below": below}
        if "cost" in inspect.signature(cls).parameters and name not in ("all_thresholds", "immediate_thresholds"):
            options["cost"] = cost
        self.cost_, self.answers_ = cost, answers
        self.decoder_ = Likeliest()
        if len(classes) == 1 and name == "cost_sensitive_one_vs_one":
            raise InvalidInput("y has one class only, but loss='cost_sensitive_one_vs_one' compares pairs of classes")
        made: MarginLoss = cls(structure, **options)
        return made

    def predict(self, X: Any) -> Array:
        """The answer for each row, one of ``answers_``."""
        return super().predict(X)
