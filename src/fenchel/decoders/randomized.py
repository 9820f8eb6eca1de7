"""Answers drawn at random: a vertex near the prediction, or one whose mean is the prediction."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._core.checks import check_generator
from .._core.errors import IncompatiblePair, InvalidInput
from .._core.ragged import item_sums, replaced, scale_items
from .._core.types import Array
from ..costs.base import Cost, affine_form
from ..losses.base import Output
from ..structures.base import Structure
from ..structures.simplex import Simplex
from .base import Decoder

__all__ = ["AlwaysRandom", "MixtureDecoder", "Nearest", "Randomized", "UniformExploration"]


class MixtureDecoder(Decoder):
    """Plays the vertex nearest to the prediction μ with probability 1 − p, and else a random vertex with mean μ.

    Concrete decoders say how large p is.
    """

    structure: Structure
    norm: float
    random_state: Any

    def _prepare(self) -> None:
        if not (isinstance(self.norm, int | float) and 1 <= self.norm < np.inf):
            raise InvalidInput(f"norm is {self.norm!r}, expected the p of a p-norm, 1 <= p < inf")
        if not isinstance(self.structure, Structure):
            raise InvalidInput(f"structure is {self.structure!r}, expected a structure such as Simplex(3)")
        for oracle in ("nearest", "sample"):
            reason = self.structure.missing().get(oracle)
            if reason is not None:
                raise IncompatiblePair(
                    f"{type(self).__name__} needs the oracle {oracle!r} of {self.structure!r}: {reason}"
                )
        object.__setattr__(self, "_rng", check_generator(self.random_state))

    @abstractmethod
    def probability_at(self, mu: Array, nearest: Array) -> Array:
        """p for each point, given its nearest vertex."""

    def structure_for(self, output: Output) -> Structure:
        if output.structure.shape != self.structure.shape:
            raise IncompatiblePair(
                f"{self!r} is for {self.structure!r}, but the model's outputs are of {output.structure!r}"
            )
        return self.structure

    def point(self, output: Output) -> Array:
        """What of a model's output the other methods take: its prediction μ."""
        return output.marginals

    def draw(self, rows: Array, items: Array, rng: np.random.Generator) -> Array:
        """A random vertex for each row; ``items`` says which of the batch they are."""
        return self.structure.take(items).sample(rows, rng)

    def drawn_mean(self, rows: Array) -> Array:
        """The mean of :meth:`draw`."""
        return rows

    def mixture(self, mu: Array) -> tuple[Array, Array]:
        """The nearest vertex of each point, and the probability p of not playing it on purpose."""
        nearest = self.structure.nearest(mu, self.norm)
        return nearest, self.probability_at(mu, nearest)

    def mean(self, mu: Array) -> Array:
        """The mean of what is played, (1 − p) y* + p μ: on classes the distribution of answers."""
        nearest, p = self.mixture(mu)
        rows, batch = self.structure.as_rows(mu, "points mu")
        near, _ = self.structure.as_rows(nearest, "vertices")
        share = np.atleast_1d(p).astype(rows.dtype).ravel()
        return self.structure.restore(near + scale_items(self.drawn_mean(rows) - near, share), batch)

    def expected_cost(self, mu: Array, truths: Array, cost: Cost) -> Array:
        """The mean cost of playing at ``mu`` when the truths are these vertices: exact, nothing is drawn."""
        return affine_form(cost, self.structure, self.structure).value(self.mean(mu), truths)

    def play(self, mu: Array, rng: Any = None) -> Array:
        """One random vertex for each point; ``rng`` takes the place of the decoder's own generator."""
        generator = self._rng if rng is None else check_generator(rng, "rng")  # type: ignore[attr-defined]
        rows, batch = self.structure.as_rows(mu, "points mu")
        nearest, p = self.mixture(rows)
        draw = np.flatnonzero(generator.random(len(rows)) < np.atleast_1d(p))
        if len(draw):
            nearest = nearest.copy()
            nearest[draw] = self.draw(rows[draw], draw, generator)
        return self.structure.restore(nearest, batch)

    def vertices(self, output: Output) -> Array:
        self.structure_for(output)
        return self.play(self.point(output))


@dataclass(frozen=True)
class Randomized(MixtureDecoder):
    """Randomized decoding: p = min(1, 2 Δ/ν), Δ the distance from μ to the nearest vertex, ν that between vertices.

    Near a vertex the answer is certain; far from all it is drawn with mean μ. With a Fenchel-Young loss S whose Ω is
    λ-strongly convex in the norm, and a cost with L(μ, y) ≤ γ ‖μ − φ(y)‖, the expected cost is at most 4 γ/(λ ν) S(θ; y) at every
    score. ``norm`` is the p of the p-norm. The cost is one nearest vertex and, sometimes, one draw.

    Reference: Sakaue, Bao, Tsuchiya and Oki, "Online structured prediction with Fenchel-Young losses and improved
    surrogate regret for online multiclass classification with logistic loss", 2024, Algorithm 1 and Lemma 3.1.

    >>> from fenchel.costs import ZeroOne
    >>> from fenchel.decoders import Randomized
    >>> from fenchel.structures import Simplex
    >>> decoder = Randomized(Simplex(3), norm=1)
    >>> decoder.mean([0.75, 0.25, 0.0])  # half of the time the first class, half of the time a draw
    array([0.875, 0.125, 0.   ])
    >>> float(decoder.expected_cost([0.75, 0.25, 0.0], [0.0, 1.0, 0.0], ZeroOne()))
    0.875
    """

    structure: Structure
    norm: float = 2.0
    random_state: Any = field(default=None, compare=False)

    def __post_init__(self) -> None:
        self._prepare()

    def probability_at(self, mu: Array, nearest: Array) -> Array:
        rows, batch = self.structure.as_rows(mu, "points mu")
        near, _ = self.structure.as_rows(nearest, "vertices")
        distance = item_sums(replaced(abs(rows - near), lambda x: x.astype(np.float64) ** self.norm)) ** (1 / self.norm)
        p: Array = np.minimum(1.0, 2 * distance / self.structure.separation(self.norm)).reshape(_shape(batch))[()]
        return p


@dataclass(frozen=True)
class Nearest(MixtureDecoder):
    """The vertex nearest to the prediction, always: p = 0. Nothing is random.

    >>> from fenchel.decoders import Nearest
    >>> from fenchel.structures import Simplex
    >>> Nearest(Simplex(3)).play([0.2, 0.5, 0.3])
    array([0., 1., 0.])
    """

    structure: Structure
    norm: float = 2.0
    random_state: Any = field(default=None, compare=False)

    def __post_init__(self) -> None:
        self._prepare()

    def probability_at(self, mu: Array, nearest: Array) -> Array:
        _, batch = self.structure.as_rows(mu, "points mu")
        return np.zeros(_shape(batch))[()]


@dataclass(frozen=True)
class AlwaysRandom(MixtureDecoder):
    """A random vertex whose mean is the prediction, always: p = 1.

    >>> from fenchel.decoders import AlwaysRandom
    >>> from fenchel.structures import Simplex
    >>> AlwaysRandom(Simplex(2), random_state=0).play([[0.5, 0.5]] * 1000).mean(axis=0).round(1)
    array([0.5, 0.5])
    """

    structure: Structure
    norm: float = 2.0
    random_state: Any = field(default=None, compare=False)

    def __post_init__(self) -> None:
        self._prepare()

    def probability_at(self, mu: Array, nearest: Array) -> Array:
        _, batch = self.structure.as_rows(mu, "points mu")
        return np.ones(_shape(batch))[()]


@dataclass(frozen=True)
class UniformExploration(MixtureDecoder):
    """The class of the highest score, or with probability (1 − m)² for its margin m < 1 any class, all alike.

    The decoding of the method before randomized decoding, for :class:`~fenchel.losses.SmoothHinge`: its expected zero-one
    cost is at most 1 − 1/k of that loss, a gap which vanishes as the number k of classes grows. Its methods take scores.

    Reference: van der Hoeven, "Exploiting the surrogate gap in online multiclass classification", 2020.

    >>> from fenchel.decoders import UniformExploration
    >>> from fenchel.structures import Simplex
    >>> UniformExploration(Simplex(2)).mean([0.5, 0.0])
    array([0.875, 0.125])
    """

    structure: Structure
    norm: float = 1.0
    random_state: Any = field(default=None, compare=False)

    def __post_init__(self) -> None:
        self._prepare()
        if not isinstance(self.structure, Simplex):
            raise IncompatiblePair(
                f"UniformExploration is for classes, Simplex(k), not {self.structure!r}; use Randomized"
            )

    def point(self, output: Output) -> Array:
        return output.scores

    def mixture(self, mu: Array) -> tuple[Array, Array]:
        best = self.structure.argmax(mu)
        return best, self.probability_at(mu, best)

    def probability_at(self, mu: Array, nearest: Array) -> Array:
        if self.structure.dim == 1:
            return np.zeros(np.shape(mu)[:-1])[()]
        top = np.sort(mu, axis=-1)[..., -2:]
        p: Array = (1 - np.minimum(1.0, top[..., 1] - top[..., 0])) ** 2
        return p

    def draw(self, rows: Array, items: Array, rng: np.random.Generator) -> Array:
        return self.structure.encode(rng.integers(self.structure.dim, size=len(rows)), rows.dtype)

    def drawn_mean(self, rows: Array) -> Array:
        return np.full_like(rows, 1 / self.structure.dim)


def _shape(batch: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(batch)  # a list of items has the shape of a list of numbers
