"""What the classifiers share that are trained for a cost and answer by a predictor of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._core.checks import check_choice, check_finite_positive, check_generator
from .._core.errors import InvalidInput
from .._core.types import Array
from ..costs.base import Cost, cost_table
from ..losses.base import Loss, Output
from ..scorers.base import Scorer
from ..scorers.linear import Linear
from ..scorers.thresholds import Thresholds
from ..structures.base import Structure, draw_index
from ..structures.order_simplex import OrderSimplex
from ..structures.simplex import Simplex
from .classes import ClassEstimator

__all__ = ["ScoredClassifier"]


class ScoredClassifier(ClassEstimator):
    """A classifier with a score for each class, or one score and thresholds for all grades."""

    abstain: Any
    abstain_label: Any

    answers_: Array
    cost_: Cost

    def _shares_direction(self) -> bool:
        """Whether all thresholds share one direction."""
        raise NotImplementedError

    def _structure(self, k: int) -> Structure:
        return OrderSimplex(k) if self._shares_direction() else Simplex(k)

    def _scorer_over(self, make: Callable[..., Linear], loss: Loss) -> Scorer:
        if not self._shares_direction():
            return super()._scorer_over(make, loss)
        scaling = check_finite_positive(self.intercept_scaling, "intercept_scaling")
        return Thresholds(make(()), loss.structure.n_vertices or 1, intercept_scaling=scaling)

    def _answer_costs(self, loss: Loss, output: Output, v: Array) -> Array:
        cost: Cost = getattr(loss, "cost", self.cost_) if self._trains_for_cost else self.cost_
        return cost(self.decoder_.decode(output), loss.structure.decode(v))

    def _default_solver(self, loss: Loss) -> str:
        if (
            self.kernel is not None
            and self.penalty == "l2"
            and not self._shares_direction()
            and loss.move_rule() is not None
        ):
            return "dual_coordinate"
        # a tenth to a thousandth of the time of "bcfw" where alpha is small, see docs/architecture.md
        return "bundle" if self.penalty != "l1" and not loss.differentiable else super()._default_solver(loss)

    _trains_for_cost = False
    """Whether the loss's own cost, which may differ from one example to the next, is what answers cost."""

    # -- use -----------------------------------------------------------------------------------------------------------

    def decision_function(self, X: Any) -> Array:
        """The score of each class; for two classes the difference of the second and the first.

        With thresholds that share a direction it is the sum of the scores of the thresholds below a grade.
        """
        output = self._output(X)
        theta = output.scores
        if output.structure.class_coding is not None:
            theta = output.structure.class_potentials(theta)
        return theta[:, 1] - theta[:, 0] if theta.shape[1] == 2 else theta

    def decision_distribution(self, X: Any) -> Array:
        """What a randomized answer is drawn from: a row of probabilities of the ``answers_``."""
        output = self._output(X)
        p = np.asarray(output.predictor)
        return np.maximum(output.answers.class_distribution(p), 0).astype(p.dtype, copy=False)

    def predict_marginals(self, X: Any) -> Array:
        """The predictor's p* for each row, as a point of the answers' hull."""
        return np.asarray(self._output(X).predictor)

    def sample_predictions(self, X: Any, random_state: Any = None) -> Array:
        """An answer for each row, drawn from :meth:`decision_distribution`."""
        rng = check_generator(self.random_state if random_state is None else random_state)
        return np.asarray(self.answers_[draw_index(self.decision_distribution(X), rng)])

    @property
    def coef_(self) -> Array:
        if not self._shares_direction():
            rows: Array = super().coef_
            return rows[1:] - rows[:1] if len(rows) == 2 == len(self.classes_) else rows
        w = self._fitted_weights()
        if self.kernel is not None:
            raise AttributeError("with a kernel there is no coef_: scores are not linear in the inputs")
        return w[None, : len(w) - len(self.classes_) + 1]

    @property
    def intercept_(self) -> Array:
        if not self._shares_direction():
            rows = super().intercept_
            return rows[1:] - rows[:1] if len(rows) == 2 == len(self.classes_) else rows
        w = self._fitted_weights()
        return w[len(w) - len(self.classes_) + 1 :] * self.intercept_scaling

    def _answer_table(self) -> Array:
        """C[answer, class], in the order of ``answers_`` and ``classes_``."""
        check_is_fitted(self)
        truths = Simplex(len(self.classes_))
        return cost_table(self.cost_, self.cost_.answers_to(truths), truths)


def check_features(value: Any, choices: tuple[str, ...]) -> str:
    return check_choice(value, "features", choices)


def check_price(abstain: Any) -> None:
    if abstain is not None:
        check_finite_positive(abstain, "abstain", zero=True)


def refuse_example_costs(shape: tuple[int, ...], n: int, answers: int, truths: int) -> InvalidInput:
    return InvalidInput(
        f"example_costs has shape {shape}, expected ({n},), a factor for each example, or ({n}, {answers}, {truths}), a "
        "matrix C[answer, class] for each"
    )
