"""A learner on records: fields with names, labels with names, lengths brought into bounds as they come."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from .._core.checks import check_choice
from .._core.errors import InvalidInput
from .._core.types import Array
from ..structures.base import Structure
from ..structures.birkhoff import Birkhoff
from ..structures.cube import Cube
from ..structures.order_simplex import OrderSimplex
from ..structures.simplex import Simplex
from .learner import Learner

__all__ = ["TASKS", "RecordLearner"]

TASKS: dict[str, tuple[type[Any], str]] = {
    "classify": (Simplex, "kl"),
    "ordinal": (OrderSimplex, "euclidean"),
    "multilabel": (Cube, "gibbs"),
    "rank": (Birkhoff, "kl"),
}
"""The structure of each task and the loss it takes by default."""

_MOST_KEPT = 10_000


class RecordLearner(BaseEstimator):  # type: ignore[misc]
    """What ``fenchel stream`` runs: records with named fields in, labels out, all of its state in one object.

    A number is a feature, standardised by the running mean and deviation of what came before; a text is the feature
    "field=text"; null and empty fields are left out. The whole record is shortened to ``max_norm`` where it is longer.
    Labels are all named in ``labels``, except those of "classify", which may appear at any time.

    >>> from fenchel.online.stream import RecordLearner
    >>> learner = RecordLearner("classify", random_state=0)
    >>> for i in range(200):
    ...     _ = learner.play({"colour": "red" if i % 2 else "green", "size": i}, "stop" if i % 2 else "go")
    >>> learner.answer({"colour": "red", "size": 3.0})
    'stop'
    """

    def __init__(
        self,
        task: str = "classify",
        labels: Sequence[str] | None = None,
        *,
        loss: str | None = None,
        step: Any = "parameter_free",
        decoder: str = "randomized",
        max_norm: float = 10.0,
        standardize: bool = True,
        random_state: Any = None,
    ) -> None:
        self.task = task
        self.labels = labels
        self.loss = loss
        self.step = step
        self.decoder = decoder
        self.max_norm = max_norm
        self.standardize = standardize
        self.random_state = random_state
        self._begin()

    def _begin(self) -> None:
        check_choice(self.task, "task", tuple(TASKS))
        if self.labels is None and self.task != "classify":
            raise InvalidInput(f"the task {self.task!r} needs all labels beforehand: labels=[...]")
        self.names_ = [] if self.labels is None else [str(label) for label in self.labels]
        if len(set(self.names_)) < len(self.names_):
            raise InvalidInput(f"labels {self.names_} hold one twice")
        self.rows_ = 0
        self.cost_, self.expected_cost_, self.loss_, self.zero_loss_ = 0.0, 0.0, 0.0, 0.0
        self.moments_: dict[str, list[float]] = {}  # field -> count, mean, sum of squared deviations
        self.learner_: Learner | None = None
        self._codes = {name: i for i, name in enumerate(self.names_)}
        self._zero: dict[bytes, float] = {}
        if self.names_:
            self._make(len(self.names_))

    def _make(self, k: int) -> None:
        structure, loss = TASKS[self.task]
        if self.learner_ is not None:
            self.learner_ = self.learner_.with_classes(k)
            return
        made: Structure = structure(k)
        self.learner_ = Learner(
            made, self.loss or loss, step=self.step, decoder=self.decoder, max_norm=self.max_norm, too_long="rescale",
            scale="auto", intercept=1.0, n_features=0, random_state=self.random_state,
        )  # fmt: skip
        self.learner_.begin(0)

    # -- one record ----------------------------------------------------------------------------------------------------

    def answer(self, record: Mapping[str, Any]) -> str:
        """The answer for a record, without learning."""
        return self._answer(self._features(record, learn=False))

    def play(self, record: Mapping[str, Any], truth: Any) -> str:
        """The answer for a record, and then its truth learned."""
        if len(self._codes) != len(self.names_):  # loaded from a file
            self._codes = {name: i for i, name in enumerate(self.names_)}
        y = self._read(truth)
        x = self._features(record, learn=True)
        if self.task == "classify" and y >= (0 if self.learner_ is None else self.learner_.structure.dim):
            answer = self._answer(x)  # it cannot know this class yet
            self.names_.append(str(truth))
            self._codes[str(truth)] = y
            self._make(y + 1)
            assert self.learner_ is not None
            self.learner_.learn_one(x, y)
            self._account(1.0, 1.0, math.nan, y)
            return answer
        assert self.learner_ is not None
        rounds = self.learner_.play_one(x, y)
        self._account(float(rounds.costs[0]), float(rounds.expected_costs[0]), float(rounds.losses[0]), y)
        return self._written(rounds.answers[0])

    def _account(self, cost: float, expected: float, loss: float, y: Any) -> None:
        zero = self._zero_loss(y)
        self.rows_ += 1
        self.cost_ += cost
        self.expected_cost_ += expected
        self.zero_loss_ += zero
        self.loss_ += zero if math.isnan(loss) else loss

    def _zero_loss(self, y: Any) -> float:
        """The loss of the model that knows nothing."""
        assert self.learner_ is not None
        key = np.asarray(y).tobytes() + bytes(str(self.learner_.structure.dim), "ascii")
        value = self._zero.get(key)
        if value is None:
            structure = self.learner_.structure
            value = float(self.learner_.loss_.value(np.zeros(structure.shape), structure.encode(y)))
            if len(self._zero) < _MOST_KEPT:
                self._zero[key] = value
        return value

    def _answer(self, x: Mapping[str, float]) -> str:
        return "" if self.learner_ is None else self._written(self.learner_.predict_one(x))

    # -- fields and labels ---------------------------------------------------------------------------------------------

    def _features(self, record: Mapping[str, Any], *, learn: bool) -> dict[str, float]:
        x: dict[str, float] = {}
        numbers: dict[str, float] = {}
        for name, value in record.items():
            if value is None or value == "":
                continue
            if isinstance(value, str):
                x[f"{name}={value}"] = 1.0
            elif isinstance(value, int | float):
                number = float(value)
                if not math.isfinite(number):
                    raise InvalidInput(f"the field {name!r} is {number}")
                numbers[name] = number
            else:
                raise InvalidInput(f"the field {name!r} is a {type(value).__name__}, expected a number or a text")
        for name, number in numbers.items():  # only now: what is refused has to leave no trace
            x[name] = self._standardized(name, number, learn) if self.standardize else number
        return x

    def _standardized(self, name: str, number: float, learn: bool) -> float:
        moments = self.moments_.get(name)
        if moments is None:
            moments = [0.0, 0.0, 0.0]
            if learn:
                self.moments_[name] = moments
        count, mean, squares = moments
        scaled = (number - mean) / math.sqrt(squares / count) if squares > 0 else 0.0
        if learn:
            moments[0] = count + 1
            moments[1] = mean + (number - mean) / (count + 1)
            moments[2] = squares + (number - mean) * (number - moments[1])
        return scaled

    def _read(self, truth: Any) -> Any:
        """The output that a truth stands for."""
        if self.task in ("classify", "ordinal"):
            text = _label(truth)
            code = self._codes.get(text)
            if code is None:
                if self.task == "ordinal" or self.labels is not None:
                    raise InvalidInput(f"the truth {text!r} is none of the labels {', '.join(self.names_)}")
                return len(self.names_)
            return code
        separator = ">" if self.task == "rank" else ";"
        parts = truth if isinstance(truth, list) else [p.strip() for p in str(truth).split(separator) if p.strip()]
        names = [_label(part) for part in parts]
        wrong = [name for name in names if name not in self._codes]
        if wrong:
            raise InvalidInput(f"the label {wrong[0]!r} is none of {', '.join(self.names_)}")
        if len(set(names)) < len(names):
            raise InvalidInput(f"the truth {truth!r} holds a label twice")
        places = [self._codes[name] for name in names]
        if self.task == "multilabel":
            output: Array = np.zeros(len(self.names_), dtype=np.int64)
            output[places] = 1
            return output
        if len(places) < len(self.names_):
            raise InvalidInput(f"the ranking {truth!r} does not rank all of {', '.join(self.names_)}")
        return np.argsort(places)

    def _written(self, output: Any) -> str:
        if self.task in ("classify", "ordinal"):
            return self.names_[int(output)]
        if self.task == "multilabel":
            return ";".join(name for name, used in zip(self.names_, output, strict=True) if used)
        return ">".join(self.names_[i] for i in np.argsort(output))


def _label(value: Any) -> str:
    """A label as text; a whole number has no decimal point."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
