"""The conformance suite of structures.

Oracles are checked through their optimality conditions, not through values of another implementation: a projection μ of
θ is right if and only if ⟨θ − μ, s − μ⟩ ≤ 0 for every vertex s. Vertices come from enumeration where the space is
small, from the structure's own argmax (itself checked by enumeration on small instances) where it is not.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from .._core.errors import InvalidInput, MissingOracle
from .._core.types import Array
from ..structures.base import ORACLES, Structure
from ..structures.ragged import Family
from ._tools import awkward_scores, in_forked_child, in_many_threads, raises, with_thread_counts
from .families import FamilySuite

__all__ = ["check_structure", "structure_checks"]

_FEW_VERTICES = 3000
_PS = (1.0, 1.5, 2.0, 3.0)


def check_structure(structure: Structure, *, seed: int = 0, accuracy: float = 1e-7) -> None:
    """Run the whole conformance suite on an instance, small enough for its vertices to be listed if possible.

    ``accuracy`` is the relative error that optimality conditions may show, for oracles that iterate.

    >>> from fenchel.structures import Simplex
    >>> from fenchel.testing import check_structure
    >>> check_structure(Simplex(4))
    """
    for name, check in structure_checks(structure, seed=seed, accuracy=accuracy):
        try:
            check()
        except AssertionError as error:
            raise AssertionError(f"{structure!r} fails the check {name!r}: {error}") from error
        except Exception as error:
            raise AssertionError(
                f"{structure!r} fails the check {name!r}: it raises {type(error).__name__}: {error}"
            ) from error


def structure_checks(
    structure: Structure, *, seed: int = 0, accuracy: float = 1e-7
) -> Iterator[tuple[str, Callable[[], None]]]:
    """The checks that apply to a structure, as (name, function) pairs; of a family also those of its examples."""
    suite: _Suite | FamilySuite
    if isinstance(structure, Family):
        for member in structure.examples:
            for name, check in structure_checks(member, seed=seed, accuracy=accuracy):
                yield f"{member!r}-{name}", check
        suite = FamilySuite(structure, seed, accuracy)
    else:
        suite = _Suite(structure, seed, accuracy)
    # argmax first: what follows from it would fail in ways that say less
    for name in sorted(dir(suite), key=lambda name: (name != "check_argmax_is_best", name)):
        if name.startswith("check_"):
            yield name.removeprefix("check_"), partial(_run, suite, name)


def _run(suite: _Suite | FamilySuite, name: str) -> None:
    suite.rng = np.random.default_rng(suite.seed)
    getattr(suite, name)()


class _Suite:
    def __init__(self, structure: Structure, seed: int, accuracy: float) -> None:
        self.s = structure
        self.seed = seed
        self.accuracy = accuracy
        self.rng = np.random.default_rng(seed)
        n = structure.n_vertices
        small = n is not None and n <= _FEW_VERTICES and structure.supports("vertices")
        self.all: Array | None = structure.vertices() if small else None

    # -- tools ---------------------------------------------------------------------------------------------------------

    def normal(self, *batch: int, scale: float = 1.0) -> Array:
        return self.rng.normal(size=(*batch, *self.s.shape)) * scale

    def inside(self, n: int) -> Array:
        """Points of the set: corners, middles and random ones."""
        if self.all is not None:
            weights = self.rng.dirichlet(np.full(len(self.all), 0.3), size=n)
            weights[0] = 0
            weights[0, 0] = 1
            weights[-1] = 1 / len(self.all)
            return np.tensordot(weights, self.all, axes=1)
        if self.s.supports("argmax"):
            corners = [self.s.argmax(self.normal(n)) for _ in range(3)]
            weights = self.rng.dirichlet(np.ones(3), size=n)
            return sum(w.reshape(n, *(1 for _ in self.s.shape)) * c for w, c in zip(weights.T, corners, strict=True))
        return np.asarray(self.s.project(self.normal(n)))

    def others(self, theta: Array) -> Array:
        """Points to compare with, (m, n, *shape): all vertices, or the best for each score and some inside."""
        if self.all is not None:
            return self.all[:, None]
        inside = self.inside(20)[:, None]
        if not self.s.supports("argmax"):
            return inside
        corners = self.s.argmax(self.normal(20))[:, None]
        points = np.broadcast_to(np.concatenate([inside, corners]), (40, *theta.shape))
        return np.concatenate([points, self.s.argmax(theta)[None]])

    def oracles(self) -> list[tuple[str, Callable[[Array], Any]]]:
        """Oracles that take scores, where there are any."""
        calls: list[tuple[str, Callable[[Array], Any]]] = [
            ("argmax", self.s.argmax),
            ("project", self.s.project),
            ("kl_project", self.s.kl_project),
            ("log_partition", lambda theta: self.s.marginals(theta)[0]),
            ("marginals", lambda theta: self.s.marginals(theta)[1]),
        ]
        return [(n, f) for n, f in calls if self.s.supports("marginals" if n == "log_partition" else n)]

    def point_oracles(self) -> list[tuple[str, Callable[[Array], Any]]]:
        """Oracles that take points of the set."""
        calls: list[tuple[str, Callable[[Array], Any]]] = [
            ("nearest", self.s.nearest),
            ("decompose", self._recomposed),
            ("sample", lambda points: self.s.sample(points, np.random.default_rng(11))),
        ]
        return [(n, f) for n, f in calls if self.s.supports(n)]

    def _recomposed(self, points: Array) -> Array:
        weights, vertices = self.s.decompose(points)
        return (weights.reshape(*weights.shape, *(1 for _ in self.s.shape)) * vertices).sum(axis=np.ndim(weights) - 1)

    def dot(self, a: Array, b: Array) -> Array:
        axes = tuple(range(-len(self.s.shape), 0))
        return (a * b).sum(axis=axes)

    def norm(self, a: Array) -> Array:
        return np.sqrt(self.dot(a, a))

    # -- the object ----------------------------------------------------------------------------------------------------

    def check_is_a_value_object(self) -> None:
        twin = copy.deepcopy(self.s)
        assert twin == self.s, "a copy is not equal to it"
        assert hash(twin) == hash(self.s), "equal structures have different hashes"
        assert pickle.loads(pickle.dumps(self.s)) == self.s, "it does not survive pickling"
        assert self.s != object(), "it equals an unrelated object"
        assert isinstance(self.s.shape, tuple), "shape is no tuple"
        assert self.s.dim == int(np.prod(self.s.shape)), "dim is not the product of the shape"

    def check_missing_oracles_say_why(self) -> None:
        calls: dict[str, Callable[[], Any]] = {
            "vertices": self.s.vertices,
            "argmax": lambda: self.s.argmax(self.normal()),
            "project": lambda: self.s.project(self.normal()),
            "kl_project": lambda: self.s.kl_project(self.normal()),
            "marginals": lambda: self.s.marginals(self.normal()),
            "nearest": lambda: self.s.nearest(self.normal()),
            "decompose": lambda: self.s.decompose(self.normal()),
            "sample": lambda: self.s.sample(self.normal()),
        }
        for name, reason in self.s.missing().items():
            assert name in ORACLES, f"missing() names the unknown oracle {name!r}"
            assert len(reason) > 20, f"missing() gives no reason for {name!r}"
            try:
                calls[name]()
            except MissingOracle as error:
                assert reason in str(error), f"the error of {name!r} does not hold the reason"
            else:
                raise AssertionError(f"{name!r} is declared missing but answers")

    # -- outputs and vertices ------------------------------------------------------------------------------------------

    def check_encode_and_decode_are_inverse(self) -> None:
        vertices = self._some_vertices()
        if vertices is None:
            return
        outputs = self.s.decode(vertices)
        assert np.array_equal(self.s.encode(outputs), vertices), "encode(decode(v)) is not v"
        assert self.s.encode(outputs, np.float32).dtype == np.float32, "encode ignores dtype"
        for i in range(min(len(vertices), 3)):
            assert np.array_equal(self.s.decode(vertices[i]), outputs[i]), "decoding one differs from decoding many"
            assert np.array_equal(self.s.encode(outputs[i]), vertices[i]), "encoding one differs from encoding many"
        different = np.unique(vertices, axis=0)
        if self.s.bounded and len(different) > 1:
            middle = 0.5 * different[0] + 0.5 * different[1]
            with raises(InvalidInput, "decode takes a point that is no vertex"):
                self.s.decode(middle)

    def check_vertices_are_what_they_should_be(self) -> None:
        vertices = self._some_vertices()
        if vertices is None:
            return
        assert np.all(self.s.violation(vertices) <= max(1e-12, 0.1 * self.accuracy)), (
            "a vertex violates the constraints"
        )
        if self.s.binary:
            assert set(np.unique(vertices)) <= {0.0, 1.0}, "binary is declared, but a vertex is not 0/1"
        if self.all is not None:
            flat = vertices.reshape(len(vertices), -1)
            assert len(vertices) == self.s.n_vertices, "n_vertices is not their number"
            assert len(np.unique(flat, axis=0)) == len(flat), "a vertex is listed twice"

    def check_constants_against_enumeration(self) -> None:
        if self.all is None:
            return
        flat = self.all.reshape(len(self.all), -1)
        largest = np.abs(flat).sum(axis=1).max(initial=0)
        assert largest <= self.s.max_l1 * (1 + 1e-9), "a vertex has a larger 1-norm than max_l1"
        assert not self.s.exact_constants or np.isclose(largest, self.s.max_l1), "max_l1 is wrong"
        flat = flat[:400]
        pairs = np.abs(flat[:, None] - flat[None])[np.triu_indices(len(flat), 1)]
        for p in _PS:
            distances = (pairs**p).sum(axis=-1) ** (1 / p)
            separation, diameter = self.s.separation(p), self.s.diameter(p)
            if len(flat) < len(self.all) or not self.s.exact_constants:
                assert distances.min(initial=np.inf) >= separation - 1e-9, (
                    f"two vertices are closer than separation({p})"
                )
                assert distances.max(initial=0) <= diameter + 1e-9, f"two vertices are farther apart than diameter({p})"
                continue
            assert np.isclose(distances.min(initial=np.inf), separation), f"separation({p}) is wrong"
            assert np.isclose(distances.max(initial=0), diameter), f"diameter({p}) is wrong"

    def _some_vertices(self) -> Array | None:
        if self.all is not None:
            return self.all[:200]
        return self.s.argmax(self.normal(20)) if self.s.supports("argmax") else None

    # -- oracles through their optimality conditions -------------------------------------------------------------------

    def check_argmax_is_best(self) -> None:
        if not self.s.supports("argmax"):
            return
        for name, theta in awkward_scores(self.s, self.rng):
            best = self.s.argmax(theta)
            self.s.decode(best)
            lead = self.dot(theta, self.others(theta) - best)
            size = np.maximum(self.norm(theta), 1e-300)
            assert np.all(lead <= 1e-12 * size * max(self.s.diameter(2), 1)), f"a vertex beats argmax ({name})"

    def check_project_is_nearest(self) -> None:
        if not self.s.supports("project"):
            return
        for name, theta in awkward_scores(self.s, self.rng):
            mu, info = self.s.project(theta, return_info=True)
            assert info.converged.all(), f"it did not converge ({name})"
            self._inside(mu, name)
            scale = np.maximum(self.norm(theta), 1.0) * np.maximum(self.norm(mu), 1.0)
            gap = self.dot(theta - mu, self.others(theta - mu) - mu)
            worst = float((gap / scale).max(initial=0))
            assert worst <= self.accuracy, f"another point is nearer than the projection ({name}, by {worst:.1e})"

    def check_kl_project_is_optimal(self) -> None:
        if not self.s.supports("kl_project"):
            return
        for name, theta in awkward_scores(self.s, self.rng):
            if np.abs(theta).max(initial=0) > 300:
                if self.s.bounded:
                    self._inside(self.s.kl_project(theta), name)
                continue
            mu, info = self.s.kl_project(theta, return_info=True)
            assert info.converged.all(), f"it did not converge ({name})"
            self._inside(mu, name)
            # Too small an entry takes part only as zero: its logarithm says nothing, or not what an oracle that
            # iterates can resolve.
            positive = mu > (1e-280 if not info.error.any() else 1e-9)
            slope = np.where(positive, theta - 1 - np.log(np.where(positive, mu, 1)), 0)
            others = self.others(theta)
            gap = self.dot(slope, np.where(positive, others - mu, 0))
            assert np.all(gap <= 10 * self.accuracy * np.maximum(np.abs(slope).max(initial=1), 1)), (
                f"another point is better in KL divergence ({name})"
            )

    def check_marginals_against_enumeration(self) -> None:
        if not self.s.supports("marginals") or self.all is None:
            return
        for name, theta in awkward_scores(self.s, self.rng):
            log_partition, mu = self.s.marginals(theta)
            scores = np.tensordot(theta.reshape(len(theta), -1), self.all.reshape(len(self.all), -1), (1, 1))
            top = scores.max(axis=1, keepdims=True)
            weights = np.exp(scores - top)
            expected = top[:, 0] + np.log(weights.sum(axis=1))
            size = np.maximum(np.abs(theta).max(initial=1), 1)
            assert np.allclose(log_partition, expected, rtol=1e-10, atol=1e-11 * size), f"log_partition ({name})"
            if size > 1e9:  # rounding of the scores decides between near ties
                continue
            mean = np.tensordot(weights / weights.sum(axis=1, keepdims=True), self.all, axes=1)
            assert np.allclose(mu, mean, atol=1e-9), f"marginals are not the mean vertex ({name})"

    def check_nearest_against_enumeration(self) -> None:
        if not self.s.supports("nearest"):
            return
        points = np.concatenate([self.inside(12), self.normal(6), self.normal(6, scale=4.0)])  # also outside the set
        for p in _PS:
            near = self.s.nearest(points, p)
            self.s.decode(near)
            others = self.all[:, None] if self.all is not None else self._some_vertices()[:, None]  # type: ignore[index]
            axes = tuple(range(-len(self.s.shape), 0))
            ours = (np.abs(near - points) ** p).sum(axis=axes)
            theirs = (np.abs(others - points) ** p).sum(axis=axes)
            assert np.all(ours <= theirs + 1e-9), f"another vertex is nearer in the {p}-norm"
        with raises(InvalidInput, "nearest takes p = 0.5"):
            self.s.nearest(points, 0.5)

    def check_decompose_is_a_convex_combination(self) -> None:
        if not self.s.supports("decompose"):
            return
        points = np.concatenate([self.inside(8), self._some_vertices()[:2]])  # type: ignore[index]
        weights, vertices = self.s.decompose(points)
        assert vertices.shape == (*weights.shape, *self.s.shape), "weights and vertices do not belong together"
        assert np.all(weights >= 0), "a weight is negative"
        assert np.allclose(weights.sum(axis=-1), 1, atol=1e-9), "weights do not sum to one"
        assert (weights > 0).sum(axis=-1).max() <= self.s.dim + 1, "more vertices than Caratheodory needs"
        self.s.decode(vertices[weights > 0])
        shaped = weights.reshape(*weights.shape, *(1 for _ in self.s.shape))
        error = np.abs((shaped * vertices).sum(axis=1) - points).max(initial=0)
        assert error <= 1e-7, f"the combination misses the point by {error:.1e}"
        one_w, one_v = self.s.decompose(points[0])
        assert one_v.shape == (*one_w.shape, *self.s.shape), "one point: shapes"

    def check_sample_has_the_right_mean(self) -> None:
        if not self.s.supports("sample"):
            return
        points = self.inside(4)
        n = 4000
        draws = np.stack([self.s.sample(np.broadcast_to(p, (n, *p.shape)), self.rng) for p in points])
        self.s.decode(draws[:, :50])
        spread = draws.std(axis=1) + 1e-3
        error = np.abs(draws.mean(axis=1) - points) / (spread / np.sqrt(n))
        assert error.max(initial=0) < 6.5, "the mean of draws is off by more than six standard errors"
        again = [self.s.sample(points, np.random.default_rng(5)) for _ in range(2)]
        assert np.array_equal(again[0], again[1]), "equal generators give different draws"
        if len(points) and self.s.dim:
            with raises(InvalidInput, "sample takes a point outside the set"):
                self.s.sample(points + 7.5, self.rng)

    def _inside(self, mu: Array, name: str) -> None:
        assert np.all(np.isfinite(mu)), f"a point is not finite ({name})"
        off = float(np.max(self.s.violation(mu), initial=0))
        assert off <= max(1e-9, self.accuracy), f"a point violates the constraints by {off:.1e} ({name})"

    # -- forbidden parts -----------------------------------------------------------------------------------------------

    def check_minus_infinity_forbids(self) -> None:
        if not self.s.can_forbid or self.all is None or self.s.dim == 0:
            return
        flat = self.all.reshape(len(self.all), -1)
        for part in range(min(self.s.dim, 6)):
            allowed = self.all[flat[:, part] == 0]
            theta = self.normal(5)
            theta.reshape(5, -1)[:, part] = -np.inf
            if len(allowed) == 0:
                for name, oracle in self.oracles():
                    with raises(InvalidInput, f"{name} answers though every output is forbidden"):
                        oracle(theta)
                continue
            finite = np.where(np.isinf(theta), 0, theta)
            for name, oracle in self.oracles():
                answer = oracle(theta)
                if name == "log_partition":
                    assert np.all(np.isfinite(answer)), "log_partition is not finite with a part forbidden"
                    continue
                forbidden = answer.reshape(5, -1)[:, part]
                assert np.all(forbidden == 0), f"{name} gives {forbidden.max():.1e} to a forbidden part"
                self._inside(answer, f"{name} with a part forbidden")
                if name == "argmax":
                    lead = self.dot(finite, allowed[:, None] - answer)
                    assert np.all(lead <= 1e-9), "argmax is not the best of what is allowed"
                if name == "project":
                    gap = self.dot(finite - answer, allowed[:, None] - answer)
                    assert np.all(gap <= 10 * self.accuracy), "the projection is not nearest among what is allowed"
                if name == "kl_project":
                    positive = answer > 1e-9
                    slope = np.where(positive, finite - 1 - np.log(np.where(positive, answer, 1)), 0)
                    gap = self.dot(slope, np.where(positive, allowed[:, None] - answer, 0))
                    size = np.maximum(np.abs(slope).max(initial=1), 1)
                    assert np.all(gap <= 10 * self.accuracy * size), (
                        "the KL projection is not the best of what is allowed"
                    )
                if name == "marginals":
                    weights = np.exp(self.dot(finite, allowed[:, None]))
                    shaped = (weights / weights.sum(axis=0)).reshape(*weights.shape, *(1 for _ in self.s.shape))
                    mean = (shaped * allowed[:, None]).sum(axis=0)
                    assert np.allclose(answer, mean, atol=1e-9), "marginals are not the mean of what is allowed"

    # -- forms of input ------------------------------------------------------------------------------------------------

    def check_a_batch_equals_the_loop(self) -> None:
        theta = self.normal(3, 2, scale=2.0)
        for name, oracle in self.oracles():
            whole = oracle(theta)
            assert whole.shape == theta.shape or name == "log_partition", f"{name} changes the shape"
            for i in np.ndindex(3, 2):
                one = oracle(theta[i])
                assert np.allclose(whole[i], one, atol=10 * self.accuracy, rtol=1e-9), f"{name}: item {i} differs"
        if not self.point_oracles():
            return
        points = self.inside(6).reshape(3, 2, *self.s.shape)
        for name, oracle in self.point_oracles():
            whole = oracle(points)
            assert whole.shape == points.shape, f"{name} changes the shape"
            for i in np.ndindex(3, 2):
                one = oracle(points[i])
                assert one.shape == self.s.shape, f"{name} of one point has the wrong shape"
                if name != "sample":  # which draws one after the other
                    assert np.allclose(whole[i], one, atol=1e-7), f"{name}: item {i} differs"

    def check_empty_batches(self) -> None:
        for shape in ((0,), (3, 0)):
            theta = np.zeros((*shape, *self.s.shape))
            for name, oracle in self.oracles():
                expected = shape if name == "log_partition" else theta.shape
                assert np.shape(oracle(theta)) == expected, f"{name} of an empty batch has the wrong shape"
            for name, oracle in self.point_oracles():
                assert np.shape(oracle(theta)) == theta.shape, f"{name} of an empty batch has the wrong shape"
            assert np.shape(self.s.violation(theta)) == shape, "violation of an empty batch has the wrong shape"
            if self.s.supports("argmax"):
                outputs = self.s.decode(theta)
                assert outputs.shape[: len(shape)] == shape, "decode of an empty batch has the wrong shape"
                assert self.s.encode(outputs).shape == theta.shape, "encode of an empty batch has the wrong shape"

    def check_types_are_kept_and_inputs_unchanged(self) -> None:
        theta = self.normal(4, scale=2.0)
        before = theta.copy()
        theta.setflags(write=False)
        for name, oracle in self.oracles():
            exact = oracle(theta)
            assert np.array_equal(theta, before), f"{name} changes its input"
            single = oracle(theta.astype(np.float32))
            assert np.asarray(exact).dtype == np.float64, f"{name}: float64 in, {np.asarray(exact).dtype} out"
            assert np.asarray(single).dtype == np.float32, f"{name}: float32 in, {np.asarray(single).dtype} out"
            if name != "argmax":
                assert np.allclose(exact, single, atol=2e-3), f"{name} in float32 is off"
            turned = np.asfortranarray(theta)
            assert np.allclose(oracle(turned), exact, atol=10 * self.accuracy), f"{name} depends on memory order"
            oracle(np.round(theta).astype(int))
            oracle(theta.tolist())
            if name == "argmax":
                self.s.decode(single)
        points = self.inside(4) if self.point_oracles() else theta
        before = points.copy()
        for name, oracle in self.point_oracles():
            exact, single = oracle(points), oracle(points.astype(np.float32))
            assert np.array_equal(points, before), f"{name} changes its input"
            assert exact.dtype == np.float64, f"{name}: float64 in, {exact.dtype} out"
            assert single.dtype == np.float32, f"{name}: float32 in, {single.dtype} out"
            if name == "decompose":
                assert np.allclose(exact, single, atol=2e-3), "decompose in float32 is off"
            else:
                self.s.decode(single)

    def check_bad_input_is_refused_and_named(self) -> None:
        theta = self.normal(4)
        if self.s.dim == 0:
            return
        for bad in (np.nan, np.inf):
            broken = theta.copy()
            broken.reshape(4, -1)[2, 0] = bad
            for name, oracle in self.oracles():
                with raises(InvalidInput, f"{name} takes {bad}", "sample 2"):
                    oracle(broken)
        checked = self.oracles()
        if self.point_oracles():
            inside = self.inside(4)
            checked += [*self.point_oracles(), ("decode", self.s.decode)]
            for bad in (np.nan, np.inf, -np.inf):
                broken = inside.copy()
                broken.reshape(4, -1)[2, 0] = bad
                for name, oracle in [*self.point_oracles(), ("decode", self.s.decode), ("violation", self.s.violation)]:
                    with raises(InvalidInput, f"{name} takes {bad}", "sample 2"):
                        oracle(broken)
        wrong = np.zeros((4, *self.s.shape[:-1], self.s.shape[-1] + 1))
        for name, oracle in checked:
            with raises(InvalidInput, f"{name} takes the wrong shape", "shape"):
                oracle(wrong)
            with raises(InvalidInput, f"{name} takes strings"):
                oracle(np.full(self.s.shape, "a"))
            with raises(InvalidInput, f"{name} takes complex numbers"):
                oracle(np.full(self.s.shape, 1j))

    # -- threads and processes -----------------------------------------------------------------------------------------

    def _compute_all(self, theta: Array) -> Callable[[], list[Array]]:
        points = self.inside(23) if self.point_oracles() else theta
        return lambda: [
            *(np.asarray(oracle(theta)) for _, oracle in self.oracles()),
            *(np.asarray(oracle(points)) for _, oracle in self.point_oracles()),
        ]

    def check_results_do_not_depend_on_threads(self) -> None:
        compute = self._compute_all(self.normal(23, scale=3.0))
        compute()
        results = dict(with_thread_counts(compute))
        for n, result in results.items():
            for a, b in zip(results[1], result, strict=True):
                assert np.array_equal(a, b), f"{n} threads give another result than one"

    def check_several_python_threads_at_once(self) -> None:
        compute = self._compute_all(self.normal(23, scale=3.0))
        expected = compute()
        for result in in_many_threads(compute):
            for a, b in zip(expected, result, strict=True):
                assert np.array_equal(a, b), "concurrent calls disturb each other"

    def check_a_forked_child_works(self) -> None:
        compute = self._compute_all(self.normal(23, scale=3.0))
        expected = compute()
        problem = in_forked_child(compute, expected)
        assert problem is None, problem
