"""What a family adds to the checks of its members: batches of items that differ in size."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np

from .._core.errors import InvalidInput
from .._core.types import Array
from ..structures.base import Structure
from ..structures.ragged import Family, Ragged
from ._tools import in_forked_child, in_many_threads, raises, with_thread_counts

__all__ = ["FamilySuite", "family_batch"]


def family_batch(family: Family, rng: np.random.Generator, rounds: int = 3, scale: float = 2.0) -> list[Array]:
    """Scores for items of all the example sizes, mixed."""
    members = [member for _ in range(rounds) for member in family.examples]
    return [rng.normal(size=members[i].shape) * scale for i in rng.permutation(len(members))]


class FamilySuite:
    def __init__(self, family: Family, seed: int, accuracy: float) -> None:
        self.family = family
        self.seed = seed
        self.accuracy = accuracy
        self.rng = np.random.default_rng(seed)

    def batch(self, rounds: int = 3) -> list[Array]:
        return family_batch(self.family, self.rng, rounds)

    def oracles(self) -> list[tuple[str, Callable[[Structure, Any], Any]]]:
        """Oracles that answer with one point for each item."""
        calls: list[tuple[str, Callable[[Structure, Any], Any]]] = [
            ("argmax", lambda s, theta: s.argmax(theta)),
            ("project", lambda s, theta: s.project(theta)),
            ("kl_project", lambda s, theta: s.kl_project(theta)),
            ("marginals", lambda s, theta: s.marginals(theta)[1]),
            ("nearest", lambda s, theta: s.nearest(theta)),
        ]
        return [(name, call) for name, call in calls if self.family.supports(name)]

    def check_is_a_value_object(self) -> None:
        twin = copy.deepcopy(self.family)
        assert twin == self.family, "a copy is not equal to it"
        assert hash(twin) == hash(self.family), "equal families have different hashes"
        assert pickle.loads(pickle.dumps(self.family)) == self.family, "it does not survive pickling"

    def check_members_are_found_by_size_and_by_output(self) -> None:
        for member in self.family.examples:
            assert self.family.member(member.dim) == member, f"member({member.dim}) is not {member!r}"
            if member.supports("argmax"):
                output = member.decode(member.argmax(np.zeros(member.shape)))
                assert self.family.member_of(output) == member, f"member_of an output of {member!r} is another"

    def check_a_batch_equals_its_members(self) -> None:
        theta = self.batch()
        for name, oracle in self.oracles():
            answers = oracle(self.family, theta)
            flat = oracle(self.family, Ragged.of(theta))
            assert isinstance(answers, list), f"{name} of a list is no list"
            assert isinstance(flat, Ragged), f"{name} of a Ragged is no Ragged"
            assert len(answers) == len(flat) == len(theta), f"{name} loses items"
            for i, scores in enumerate(theta):
                expected = oracle(self.family.member(scores.size), scores)
                assert answers[i].shape == expected.shape, f"{name}: item {i} has another shape"
                off = np.abs(answers[i] - expected).max(initial=0)
                assert off <= 10 * self.accuracy, f"{name}: item {i} of the batch is off by {off:.1e}"
                assert np.array_equal(flat[i], answers[i].ravel()), f"{name}: item {i} differs between list and Ragged"
        if self.family.supports("marginals"):
            sums = self.family.marginals(theta)[0]
            for i, scores in enumerate(theta):
                expected = self.family.member(scores.size).marginals(scores)[0]
                assert np.isclose(sums[i], expected, atol=1e-9), f"log_partition: item {i} differs"

    def check_no_items(self) -> None:
        for name, oracle in self.oracles():
            assert oracle(self.family, []) == [], f"{name} of no items"
            assert len(oracle(self.family, Ragged.of([]))) == 0, f"{name} of no items"

    def check_types_are_kept_and_inputs_unchanged(self) -> None:
        theta = self.batch()
        before = [t.copy() for t in theta]
        ragged = Ragged.of(theta)
        for name, oracle in self.oracles():
            oracle(self.family, theta)
            oracle(self.family, ragged)
            assert all(map(np.array_equal, theta, before)), f"{name} changes its input"
            assert np.array_equal(ragged.flat, Ragged.of(before).flat), f"{name} changes its input"
            single = oracle(self.family, [t.astype(np.float32) for t in theta])
            assert all(t.dtype == np.float32 for t in single), f"{name}: float32 in, another type out"
            exact = oracle(self.family, theta)
            assert all(t.dtype == np.float64 for t in exact), f"{name}: float64 in, another type out"
            if name not in ("argmax", "nearest"):
                close = all(np.allclose(a, b, atol=2e-3) for a, b in zip(single, exact, strict=True))
                assert close, f"{name} in float32 is off"

    def check_outputs_are_encoded_and_decoded(self) -> None:
        if not self.family.supports("argmax"):
            return
        vertices: Any = self.family.argmax(Ragged.of(self.batch()))
        outputs = self.family.decode(vertices)
        assert len(outputs) == len(vertices), "decode loses items"
        again: Any = self.family.encode(outputs)
        assert np.array_equal(again.sizes, vertices.sizes), "encode(decode(v)) has other sizes than v"
        assert np.array_equal(again.flat, vertices.flat), "encode(decode(v)) is not v"
        assert self.family.encode(outputs, np.float32).dtype == np.float32, "encode ignores dtype"
        assert np.all(self.family.violation(vertices) <= 1e-9), "a vertex violates the constraints"

    def check_decompositions_and_samples(self) -> None:
        if not (self.family.supports("decompose") and self.family.supports("project")):
            return
        points = self.family.project([t / 4 for t in self.batch()])
        for i, (weights, vertices) in enumerate(self.family.decompose(points)):
            assert np.isclose(weights.sum(), 1, atol=1e-9), f"weights of item {i} do not sum to one"
            off = np.abs(np.tensordot(weights, vertices, 1) - points[i]).max(initial=0)
            assert off <= 1e-7, f"the combination misses item {i} by {off:.1e}"
        draws = [self.family.sample(points, np.random.default_rng(5)) for _ in range(2)]
        self.family.decode(draws[0])
        assert all(map(np.array_equal, *draws)), "equal generators give different draws"

    def check_the_wrong_sample_is_named(self) -> None:
        theta = self.batch()
        i = max(range(len(theta)), key=lambda i: (theta[i].size, i))
        for bad in (np.nan, np.inf):
            broken = [t.copy() for t in theta]
            broken[i].ravel()[-1] = bad
            for name, oracle in self.oracles():
                with raises(InvalidInput, f"{name} takes {bad}", f"sample {i}"):
                    oracle(self.family, broken)
                with raises(InvalidInput, f"{name} takes {bad}", f"sample {i}"):
                    oracle(self.family, Ragged.of(broken))
        for name, oracle in self.oracles():
            with raises(InvalidInput, f"{name} takes a number"):
                oracle(self.family, 1.0)
            with raises(InvalidInput, f"{name} takes strings", f"sample {i}"):
                oracle(self.family, [*theta[:i], np.full(theta[i].shape, "a"), *theta[i + 1 :]])

    def check_threads_and_forks(self) -> None:
        theta = Ragged.of(self.batch(rounds=6))

        def compute() -> list[Array]:
            return [oracle(self.family, theta).flat for _, oracle in self.oracles()]

        expected = compute()
        for n, results in with_thread_counts(compute):
            assert all(map(np.array_equal, expected, results)), f"{n} threads give another result than one"
        for results in in_many_threads(compute):
            assert all(map(np.array_equal, expected, results)), "concurrent calls disturb each other"
        problem = in_forked_child(compute, expected)
        assert problem is None, problem
