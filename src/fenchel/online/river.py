"""The learner as a river estimator (optional extra ``fenchel[river]``); import this module to use it."""

from __future__ import annotations

from typing import Any

from .._core.errors import MissingDependency
from ..structures.simplex import Simplex
from .learner import Learner

try:
    from river import base
except ImportError:
    raise MissingDependency("fenchel.online.river needs river: pip install 'fenchel[river]'") from None

__all__ = ["RandomizedClassifier"]


class RandomizedClassifier(base.Classifier):  # type: ignore[misc]
    """Online logistic regression with randomized decoding, for river's pipelines and evaluations.

    Classes and features may appear at any time. ``decoder`` is "randomized" (with the bound on the number of mistakes),
    "deterministic" (the likeliest class) or "random". Inputs longer than ``max_norm`` are shortened to it: put a scaler
    before, or raise it.

    Parameters
    ----------
    loss
        The surrogate loss on the simplex: "kl" (logistic) or "euclidean" (sparsemax).
    step
        "constant", "parameter_free", or a step rule of ``fenchel.online``.
    decoder
        How answers are found.
    max_norm
        The largest norm of an input, which rates are made of.
    intercept
        The value of a feature that all inputs have (0 for none).
    seed
        Seed of the draws.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics, preprocessing
    >>> from fenchel.online.river import RandomizedClassifier
    >>> model = preprocessing.StandardScaler() | RandomizedClassifier(decoder="deterministic", max_norm=10, seed=1)
    >>> metric = evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy())
    >>> metric.get() > 0.8
    True
    """

    def __init__(
        self,
        loss: str = "kl",
        step: Any = "parameter_free",
        decoder: str = "randomized",
        max_norm: float = 1.0,
        intercept: float = 1.0,
        seed: int | None = None,
    ) -> None:
        self.loss = loss
        self.step = step
        self.decoder = decoder
        self.max_norm = max_norm
        self.intercept = intercept
        self.seed = seed
        self._classes: dict[Any, int] = {}
        self._learner: Learner | None = None

    @property
    def _multiclass(self) -> bool:
        return True

    def learn_one(self, x: dict[Any, Any], y: Any) -> None:
        """Learn the class of one input."""
        if y not in self._classes:
            self._add_class(y)
        assert self._learner is not None
        self._learner.learn_one(_numbers(x), self._classes[y])

    def predict_proba_one(self, x: dict[Any, Any], **kwargs: Any) -> dict[Any, float]:
        """The model's μ: the probability of each class met so far."""
        if self._learner is None:
            return {}
        mu = self._learner.marginals_one(_numbers(x))
        return {label: float(mu[code]) for label, code in self._classes.items()}

    def predict_one(self, x: dict[Any, Any], **kwargs: Any) -> Any:
        """The class that the decoder plays."""
        if self._learner is None:
            return None
        answer = self._learner.predict_one(_numbers(x))
        return next(label for label, code in self._classes.items() if code == answer)

    def _add_class(self, y: Any) -> None:
        """A class met for the first time: its scores begin at zero, the others keep their weights."""
        k = len(self._classes) + 1
        self._classes[y] = k - 1
        if self._learner is not None:
            self._learner = self._learner.with_classes(k)
            return
        self._learner = Learner(
            Simplex(k), self.loss, "zero_one", step=self.step, decoder=self.decoder, max_norm=self.max_norm,
            too_long="rescale", scale="auto", intercept=self.intercept, n_features=0, random_state=self.seed,
        )  # fmt: skip
        self._learner.begin(0)


def _numbers(x: dict[Any, Any]) -> dict[Any, float]:
    """The numeric features; a text becomes a feature of its own, as one-hot coding would have it."""
    out: dict[Any, float] = {}
    for key, value in x.items():
        if isinstance(value, str):
            out[f"{key}={value}"] = 1.0
        else:
            out[str(key)] = float(value)
    return out
