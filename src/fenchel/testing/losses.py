"""The conformance suite of losses, by their defining properties."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from .._core.errors import InvalidInput
from .._core.types import Array
from ..losses.base import Loss
from ..losses.fenchel_young import FenchelYoung
from ..structures.base import Structure
from ..structures.ragged import Family, Ragged
from ._tools import in_forked_child, in_many_threads, raises, with_thread_counts
from .families import family_batch

__all__ = ["check_loss", "loss_checks"]


def check_loss(loss: Loss, *, seed: int = 0, accuracy: float = 1e-7) -> None:
    """Run the whole conformance suite on a loss over a small structure.

    >>> from fenchel.losses import FenchelYoung
    >>> from fenchel.structures import Simplex
    >>> from fenchel.testing import check_loss
    >>> check_loss(FenchelYoung(Simplex(3), "kl"))
    """
    for name, check in loss_checks(loss, seed=seed, accuracy=accuracy):
        try:
            check()
        except AssertionError as error:
            raise AssertionError(f"{loss!r} fails the check {name!r}: {error}") from error


def loss_checks(loss: Loss, *, seed: int = 0, accuracy: float = 1e-7) -> Iterator[tuple[str, Callable[[], None]]]:
    """The checks that apply to a loss, as (name, function) pairs; on a family they run on its examples, and together."""
    if isinstance(loss.structure, Family):
        for member in loss.structure.examples:
            for name, check in loss_checks(_on(loss, member), seed=seed, accuracy=accuracy):
                yield f"{member!r}-{name}", check
        yield "batch_equals_members", partial(_check_family, loss, seed, accuracy)
        return
    suite = _Suite(loss, seed, accuracy)
    for name in dir(suite):
        if name.startswith("check_"):
            yield name.removeprefix("check_"), partial(_run, suite, name)


def _on(loss: Loss, structure: Structure) -> Loss:
    made: Loss = dataclasses.replace(loss, structure=structure)  # type: ignore[type-var]
    return made


def _run(suite: _Suite, name: str) -> None:
    suite.rng = np.random.default_rng(suite.seed)
    getattr(suite, name)()


def _check_family(loss: Any, seed: int, accuracy: float) -> None:
    """Values and gradients of items of different sizes are those of each item alone."""
    rng = np.random.default_rng(seed)
    theta = family_batch(loss.structure, rng)
    v = [loss.structure.member(t.size).argmax(t + rng.normal(size=t.shape)) for t in theta]
    for scores, points in ((theta, v), (Ragged.of(theta), Ragged.of(v))):
        values, gradients = loss.value_and_grad(scores, points)
        predictions = loss.predict(scores)
        assert values.shape == (len(theta),), "there is not one value per item"
        for i, t in enumerate(theta):
            alone = _on(loss, loss.structure.member(t.size))
            value, gradient = alone.value_and_grad(t, v[i])
            assert np.isclose(values[i], value, rtol=1e-9, atol=1e-12), f"value {i} differs from its own"
            assert np.allclose(gradients[i].ravel(), gradient.ravel(), atol=10 * accuracy), f"gradient {i} differs"
            assert np.allclose(predictions[i].ravel(), alone.predict(t).ravel(), atol=10 * accuracy), (
                f"prediction {i} differs"
            )
    single, slopes = loss.value_and_grad(Ragged.of([t.astype(np.float32) for t in theta]), Ragged.of(v))
    assert single.dtype == slopes.dtype == np.float32, "float32 scores give another type"
    with raises(InvalidInput, "values are given for other sizes"):
        loss.value(theta, v[::-1] if v[0].size != v[-1].size else v[1:])


class _Suite:
    def __init__(self, loss: Loss, seed: int, accuracy: float) -> None:
        self.loss = loss
        self.s = loss.structure
        self.seed = seed
        self.accuracy = accuracy
        self.rng = np.random.default_rng(seed)

    def scores(self, n: int, scale: float = 2.0) -> Array:
        return self.rng.normal(size=(n, *self.s.shape)) * scale

    def truths(self, n: int) -> Array:
        """Vertices where there are any, else points of the set."""
        theta = self.scores(n)
        return self.s.argmax(theta) if self.s.supports("argmax") else np.asarray(self.s.project(theta))

    def points(self, n: int) -> Array:
        """Points all over the hull."""
        share = self.rng.random((n, *(1 for _ in self.s.shape)))
        mixed: Array = share * self.truths(n) + (1 - share) * self.truths(n)
        return mixed

    def has_omega_inside(self) -> bool:
        from .._core.errors import MissingOracle

        try:
            self.loss.omega(self.points(2))
        except MissingOracle:
            return False
        return True

    def dot(self, a: Array, b: Array) -> Array:
        return (a * b).reshape(len(a), -1).sum(axis=1)

    # -- values --------------------------------------------------------------------------------------------------------

    def check_is_non_negative_and_finite(self) -> None:
        for scale in (1e-12, 1e-6, 1.0, 30.0, 1e6, 1e12):
            theta, v = self.scores(20, scale), self.truths(20)
            if not self.s.bounded and scale > 100:
                continue
            value = self.loss.value(theta, v)
            assert np.all(np.isfinite(value)), f"a value is not finite at score scale {scale:g}"
            assert np.all(value >= 0), f"a value is below zero at score scale {scale:g}"
            if scale < 1e6 or not isinstance(self.loss, FenchelYoung):
                continue
            # Ω is small beside such scores: what is left is how far the truth is behind the best
            lead = self.dot(theta, self.s.argmax(theta) - v) if self.s.supports("argmax") else value
            size = np.abs(theta).reshape(20, -1).max(axis=1, initial=0) + 1e3
            off = np.abs(value / self.loss.multiplier - lead)
            assert np.all(off <= 1e-3 * size), f"a value is far from the lead of the best at score scale {scale:g}"

    def check_tied_scores(self) -> None:
        """Where scores tie, values and gradients are limits of those beside the tie."""
        for theta in (np.zeros((8, *self.s.shape)), np.full((8, *self.s.shape), 2.5), np.round(self.scores(8, 1.0))):
            v = self.truths(8)
            value, gradient = self.loss.value_and_grad(theta, v)
            near, slope = self.loss.value_and_grad(theta + self.scores(8, 1e-8), v)
            assert np.all(np.abs(value - near) <= 1e-6 * (1 + np.abs(value))), "the value jumps at a tie"
            if self.loss.differentiable and np.isfinite(self.loss.smoothness):
                assert np.allclose(gradient, slope, atol=1e-5 * (1 + self.loss.smoothness)), (
                    "the gradient jumps at a tie"
                )

    def check_value_is_its_definition(self) -> None:
        """S = c (Ω*(θ) + Ω(v) − ⟨θ, v⟩), where the prediction attains Ω*(θ) = ⟨θ, μ⟩ − Ω(μ)."""
        if not self.has_omega_inside():
            return
        theta = self.scores(20)
        for v in (self.truths(20), self.points(20)):
            mu = self.loss.predict(theta)
            conjugate = self.dot(theta, mu) - self.loss.omega(mu)
            expected = self.loss.multiplier * (conjugate + self.loss.omega(v) - self.dot(theta, v))
            size = 1 + np.abs(conjugate)
            assert np.all(np.abs(self.loss.value(theta, v) - expected) <= 1e-8 * size), "value is not its definition"
            for _ in range(5):  # no other point does better
                other = self.points(20)
                rival = self.dot(theta, other) - self.loss.omega(other)
                assert np.all(rival <= conjugate + self.accuracy * size), "predict does not attain the maximum"

    def check_is_zero_exactly_at_its_prediction(self) -> None:
        theta = self.scores(20)
        mu = self.loss.predict(theta)
        if self.has_omega_inside():
            value = self.loss.value(theta, mu)
            assert np.all(value <= 1e-8 * (1 + np.abs(theta).max(initial=0))), "S(θ; ∇Ω*(θ)) is not zero"
        if not self.loss.identifies:
            return
        v = self.truths(20)
        far = np.abs(mu - v).reshape(20, self.s.dim).max(axis=1, initial=0) > 1e-3
        assert np.all(self.loss.value(theta, v)[far] > 0), "the loss is zero away from its prediction"

    def check_value_and_grad_agree_with_value(self) -> None:
        theta, v = self.scores(9), self.truths(9)
        value, gradient = self.loss.value_and_grad(theta, v)
        assert np.allclose(value, self.loss.value(theta, v)), "value and value_and_grad differ"
        assert gradient.shape == theta.shape, "the gradient has another shape than the scores"

    # -- slopes --------------------------------------------------------------------------------------------------------

    def check_gradient_against_finite_differences(self) -> None:
        if not self.loss.differentiable:
            return
        theta, v, direction = self.scores(20), self.truths(20), self.scores(20, 1.0)
        step = 1e-5
        slope = (self.loss.value(theta + step * direction, v) - self.loss.value(theta - step * direction, v)) / (
            2 * step
        )
        expected = self.dot(self.loss.value_and_grad(theta, v)[1], direction)
        # where a projection changes its face between the two points the difference is off by the step
        assert np.all(np.abs(slope - expected) <= 1e-3 * (1 + np.abs(expected))), "the gradient is wrong"
        assert np.median(np.abs(slope - expected)) <= 1e-6 * (1 + np.abs(expected).max()), "the gradient is wrong"

    def check_is_convex_along_lines(self) -> None:
        if not self.loss.convex:
            return
        v = self.truths(20)
        a, b = self.scores(20), self.scores(20)
        at_a, at_b = self.loss.value(a, v), self.loss.value(b, v)
        for t in (0.1, 0.5, 0.8):
            between = self.loss.value((1 - t) * a + t * b, v)
            chord = (1 - t) * at_a + t * at_b
            assert np.all(between <= chord + self.accuracy * (1 + np.abs(chord))), "it is not convex in the scores"

    def check_gradient_is_a_subgradient(self) -> None:
        if not self.loss.convex:
            return
        v, a, b = self.truths(20), self.scores(20), self.scores(20)
        at_a, slope = self.loss.value_and_grad(a, v)
        bound = at_a + self.dot(slope, b - a)
        at_b = self.loss.value(b, v)
        assert np.all(bound <= at_b + self.accuracy * (1 + np.abs(at_b))), "the gradient supports no lower bound"

    def check_smoothness_is_true(self) -> None:
        bound = self.loss.smoothness
        if not np.isfinite(bound):
            return
        v, a = self.truths(40), self.scores(40)
        b = a + self.scores(40, 0.3)
        change = self.loss.value_and_grad(a, v)[1] - self.loss.value_and_grad(b, v)[1]
        lengths = np.sqrt(self.dot(change, change)) / np.sqrt(self.dot(a - b, a - b) + 1e-300)
        assert np.all(lengths <= bound * (1 + 1e-6) + self.accuracy), "the gradient changes faster than smoothness says"

    # -- forms of input ------------------------------------------------------------------------------------------------

    def check_predictions_lie_in_the_set(self) -> None:
        if self.loss.relaxed:
            return
        mu = self.loss.predict(self.scores(20, 5.0))
        assert np.all(self.s.violation(mu) <= max(1e-9, self.accuracy)), "a prediction lies outside the set"

    def check_a_batch_equals_the_loop(self) -> None:
        theta, v = self.scores(6), self.truths(6)
        values, gradients = self.loss.value_and_grad(theta.reshape(2, 3, *self.s.shape), v.reshape(2, 3, *self.s.shape))
        assert values.shape == (2, 3), "values do not have the shape of the batch"
        for i in range(6):
            value, gradient = self.loss.value_and_grad(theta[i], v[i])
            assert np.allclose(values.reshape(6)[i], value), f"value {i} of a batch differs from its own"
            assert np.allclose(gradients.reshape(theta.shape)[i], gradient, atol=1e-9), f"gradient {i} differs"

    def check_types_are_kept_and_inputs_unchanged(self) -> None:
        theta, v = self.scores(6), self.truths(6)
        kept = theta.copy(), v.copy()
        exact, _ = self.loss.value_and_grad(theta, v)
        assert np.array_equal(theta, kept[0]), "the scores were changed"
        assert np.array_equal(v, kept[1]), "the truths were changed"
        value, gradient = self.loss.value_and_grad(theta.astype(np.float32), v)
        assert value.dtype == np.float32, "float32 scores give values of another type"
        assert gradient.dtype == np.float32, "float32 scores give gradients of another type"
        assert np.allclose(value, exact, rtol=1e-3, atol=1e-3), "float32 values are off"
        turned, _ = self.loss.value_and_grad(np.asfortranarray(theta), np.asfortranarray(v))
        assert np.allclose(turned, exact), "values depend on memory order"
        for shape in ((0,), (3, 0)):
            nothing = np.zeros((*shape, *self.s.shape))
            empty, slope = self.loss.value_and_grad(nothing, nothing)
            assert empty.shape == shape, "values of an empty batch have the wrong shape"
            assert slope.shape == nothing.shape, "gradients of an empty batch have the wrong shape"
            assert self.loss.predict(nothing).shape == nothing.shape, "predictions of an empty batch: wrong shape"

    def check_bad_input_is_refused_and_named(self) -> None:
        theta, v = self.scores(4), self.truths(4)
        if self.s.dim == 0:
            return
        for bad in (np.nan, np.inf):
            broken = theta.copy()
            broken.reshape(4, -1)[2, 0] = bad
            with raises(InvalidInput, f"value_and_grad takes scores of {bad}", "sample 2"):
                self.loss.value_and_grad(broken, v)
            with raises(InvalidInput, f"predict takes scores of {bad}", "sample 2"):
                self.loss.predict(broken)
        for bad in (np.nan, np.inf, -np.inf):
            broken = v.copy()
            broken.reshape(4, -1)[2, 0] = bad
            with raises(InvalidInput, f"value_and_grad takes points of {bad}", "sample 2"):
                self.loss.value_and_grad(theta, broken)
        wrong = np.zeros((4, *self.s.shape[:-1], self.s.shape[-1] + 1))
        for call in (
            lambda: self.loss.value_and_grad(wrong, v),
            lambda: self.loss.value_and_grad(theta, wrong),
            lambda: self.loss.predict(wrong),
        ):
            with raises(InvalidInput, "a wrong shape is taken", "shape"):
                call()
        with raises(InvalidInput, "three scores are taken for four points", "batch"):
            self.loss.value_and_grad(theta[:3], v)
        for nonsense in (np.full(theta.shape, "a"), theta * 1j):
            with raises(InvalidInput, "scores that are no real numbers are taken"):
                self.loss.value_and_grad(nonsense, v)
            with raises(InvalidInput, "points that are no real numbers are taken"):
                self.loss.value_and_grad(theta, nonsense)

    def check_is_a_value_object(self) -> None:
        twin = pickle.loads(pickle.dumps(self.loss))
        assert twin == self.loss, "it does not survive pickling"
        assert hash(twin) == hash(self.loss), "equal losses have different hashes"

    def check_threads_and_forks(self) -> None:
        theta, v = self.scores(23), self.truths(23)

        def compute() -> list[Array]:
            return list(self.loss.value_and_grad(theta, v))

        expected = compute()
        for n, result in with_thread_counts(compute):
            same = all(np.array_equal(a, b) for a, b in zip(expected, result, strict=True))
            assert same, f"{n} threads give another result than one"
        for result in in_many_threads(compute):
            assert all(np.array_equal(a, b) for a, b in zip(expected, result, strict=True)), "concurrent calls disturb"
        problem = in_forked_child(compute, expected)
        assert problem is None, problem
