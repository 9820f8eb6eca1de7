"""Items of different sizes: the array that holds them, and structures, losses and solvers over it."""

import dataclasses
from dataclasses import dataclass
from math import isqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fenchel._core.ragged import inner, item_max, item_sums, replaced, scale_items
from fenchel.costs import Hamming, ZeroOne
from fenchel.decoders import MAP, Calibrated
from fenchel.errors import InvalidInput, MissingOracle, OracleError
from fenchel.losses import FenchelYoung, Hinge, Perceptron
from fenchel.scorers.base import Scorer
from fenchel.solvers import LBFGS, BlockFrankWolfe
from fenchel.structures import Birkhoff, Family, Oracle, OrderSimplex, Ragged, Simplex
from fenchel.testing import check_loss, check_structure

quick = settings(deadline=None, max_examples=30)
seeds = st.integers(0, 2**32 - 1)


@dataclass(frozen=True, repr=False)
class Choices(Family):
    """One of a varying number of candidates; an output is the pair (number of candidates, the one chosen)."""

    output_ndim = 1

    def member(self, size):
        return PairSimplex(size)

    def member_of(self, y):
        return PairSimplex(int(y[0]))

    @property
    def examples(self):
        return PairSimplex(2), PairSimplex(1), PairSimplex(5)


@dataclass(frozen=True, repr=False)
class PairSimplex(Simplex):
    output_ndim = 1

    def _encode(self, outputs, dtype):
        return super()._encode(outputs[:, 1] if outputs.ndim > 1 else outputs, dtype)

    def _decode(self, rows):
        return np.stack([np.full(len(rows), self.k), super()._decode(rows)], axis=1)


@dataclass(frozen=True, repr=False)
class Matchings(Family):
    """Permutations of any length."""

    def member(self, size):
        n = isqrt(size)
        if size == 0 or n * n != size:
            raise InvalidInput(f"{size} scores are no square table")
        return Birkhoff(n)

    def member_of(self, y):
        return Birkhoff(len(y))

    @property
    def examples(self):
        return Birkhoff(2), Birkhoff(1), Birkhoff(4)


@dataclass(frozen=True, repr=False)
class Grades(Family):
    """A grade among any number of grades; items of one grade have no scores at all."""

    def member(self, size):
        return PairGrades(size + 1)

    def member_of(self, y):
        return PairGrades(int(y[0]))

    @property
    def examples(self):
        return PairGrades(2), PairGrades(1), PairGrades(4)


@dataclass(frozen=True, repr=False)
class PairGrades(OrderSimplex):
    output_ndim = 1

    def _encode(self, outputs, dtype):
        return super()._encode(outputs[:, 1] if outputs.ndim > 1 else outputs, dtype)

    def _decode(self, rows):
        return np.stack([np.full(len(rows), self.k), super()._decode(rows)], axis=1)


FAMILIES = [Choices(), Matchings(), Grades()]


def sizes_for(family, n, rng):
    shapes = {"Choices": [1, 2, 3, 5], "Matchings": [1, 4, 9, 16], "Grades": [0, 0, 1, 3]}[type(family).__name__]
    return rng.choice(shapes, size=n)


def scores_for(family, n, rng, scale=1.0):
    return [rng.normal(size=size) * scale for size in sizes_for(family, n, rng)]


def listed(ragged):
    return [np.array(item) for item in ragged]


class TestRaggedArray:
    """It behaves as the list of its items."""

    @given(st.lists(st.integers(0, 4), max_size=8), seeds, st.sampled_from([np.float32, np.float64]))
    @quick
    def test_arithmetic_is_arithmetic_on_the_items(self, sizes, seed, dtype):
        rng = np.random.default_rng(seed)
        a, b = ([rng.normal(size=n).astype(dtype) for n in sizes] for _ in range(2))
        if not a:
            dtype = np.float64
        x, y = Ragged.of(a), Ragged.of(b)
        factors = rng.normal(size=len(sizes))
        assert len(x) == len(sizes)
        assert x.dtype == dtype
        for ours, theirs in [
            (x + y, [p + q for p, q in zip(a, b, strict=True)]),
            (2 * x - y / 3, [2 * p - q / 3 for p, q in zip(a, b, strict=True)]),
            (-np.maximum(x, 0.0), [-np.maximum(p, 0) for p in a]),
            (scale_items(x, factors), [p * f for p, f in zip(a, factors, strict=True)]),
            (replaced(x, np.exp), [np.exp(p) for p in a]),
        ]:
            assert isinstance(ours, Ragged)
            assert ours.dtype == dtype
            assert len(ours) == len(theirs)
            assert all(np.allclose(p, q, rtol=1e-5) for p, q in zip(ours, theirs, strict=True))
        assert np.allclose(item_sums(x), [p.sum() for p in a], atol=1e-5)
        assert np.allclose(item_max(x), [p.max(initial=0) for p in a])
        assert np.allclose(inner(x, y, np.float64), [np.dot(p, q) for p, q in zip(a, b, strict=True)], atol=1e-5)

    @given(st.lists(st.integers(0, 4), min_size=1, max_size=8), st.data())
    @quick
    def test_picking_and_replacing_items(self, sizes, data):
        n = len(sizes)
        items = [np.arange(k) + 10.0 * i for i, k in enumerate(sizes)]
        ends = st.none() | st.integers(-n - 2, n + 2)
        step = st.none() | st.integers(1, 3) | st.integers(-3, -1)
        index = data.draw(
            st.integers(-n, n - 1)
            | st.builds(slice, ends, ends, step)
            | st.lists(st.integers(-n, n - 1)).map(lambda i: np.array(i, dtype=int))
            | st.lists(st.booleans(), min_size=n, max_size=n).map(np.array)
        )
        picked = np.atleast_1d(np.arange(n)[index])
        ragged = Ragged.of(items)
        chosen = ragged[index] if not isinstance(index, int) else Ragged.of([ragged[index]])
        assert len(chosen) == len(picked)
        for item, i in zip(chosen, picked, strict=True):
            assert np.array_equal(item, items[i])
        changed = ragged.copy()
        changed[index] = chosen + 100
        for i in range(n):
            assert np.array_equal(changed[i], items[i] + 100 * (i in picked))

    def test_an_item_and_a_slice_are_views(self):
        ragged = Ragged.of([[1.0], [2.0, 3.0], [4.0]])
        ragged[1][:] = 0
        ragged[1:].flat[-1] = 9
        assert listed(ragged)[1].tolist() == [0, 0]
        assert ragged[2] == 9
        total = ragged
        total += 1
        assert ragged.flat.tolist() == [2, 1, 1, 10]

    def test_what_does_not_fit_is_refused(self):
        a, b = Ragged.of([[1.0], [2.0, 3.0]]), Ragged.of([[1.0, 2.0], [3.0]])
        with pytest.raises(InvalidInput, match="do not have items of the same sizes"):
            a + b
        with pytest.raises(InvalidInput, match="has no place for each number"):
            a * np.ones(2)
        with pytest.raises(InvalidInput, match="sizes of the items it should replace"):
            a[:] = b
        with pytest.raises(TypeError, match="no array"):
            np.asarray(a)
        with pytest.raises(TypeError):
            np.add.reduce(a)
        for index in (2, -3, [0, 2]):
            with pytest.raises(IndexError):
                a[index]
            with pytest.raises(IndexError):
                a[index] = 0.0

    def test_forbidden_scores_cost_nothing_where_nothing_is(self):
        theta = Ragged.of([[1.0, -np.inf], [-np.inf]])
        assert inner(theta, Ragged.of([[1.0, 0.0], [0.0]])).tolist() == [1, 0]
        assert inner(theta, Ragged.of([[0.0, 1.0], [0.0]])).tolist() == [-np.inf, 0]


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
class TestFamilies:
    def test_passes_the_conformance_suite(self, family):
        check_structure(family)

    @given(seeds, st.integers(0, 9), st.sampled_from([np.float32, np.float64]))
    @quick
    def test_a_batch_equals_the_loop_over_members(self, family, seed, n, dtype):
        theta = [t.astype(dtype) for t in scores_for(family, n, np.random.default_rng(seed))]
        before = [t.copy() for t in theta]
        for name in ("argmax", "project", "kl_project", "nearest", "marginals"):
            if not family.supports(name):
                continue
            ours = getattr(family, name)(theta)
            flat = getattr(family, name)(Ragged.of(theta))
            if name == "marginals":
                (log_partition, ours), (flat_partition, flat) = ours, flat
                assert np.array_equal(log_partition, flat_partition)
                assert log_partition.dtype == dtype or n == 0
            assert isinstance(ours, list)
            assert isinstance(flat, Ragged)
            for i, t in enumerate(theta):
                member = family.member(t.size)
                expected = getattr(member, name)(t.reshape(member.shape))
                if name == "marginals":
                    assert np.allclose(log_partition[i], expected[0], atol=1e-6)
                    expected = expected[1]
                assert ours[i].shape == member.shape
                assert ours[i].dtype == dtype
                assert np.allclose(ours[i], expected, atol=1e-6)
                assert np.array_equal(ours[i].ravel(), flat[i])
        assert all(np.array_equal(a, b) for a, b in zip(theta, before, strict=True))

    def test_information_is_per_item(self, family):
        theta = scores_for(family, 7, np.random.default_rng(0))
        points, info = family.project(theta, return_info=True)
        assert info.error.shape == info.n_iter.shape == info.converged.shape == (7,)
        assert info.points is points

    def test_outputs_and_vertices(self, family):
        vertices = family.argmax(scores_for(family, 12, np.random.default_rng(0)))
        outputs = family.decode(vertices)
        again = family.encode(outputs, np.float32)
        assert again.dtype == np.float32
        assert all(np.array_equal(a, b.ravel()) for a, b in zip(again, vertices, strict=True))
        assert family.encode([]).sizes.tolist() == []
        assert family.decode(Ragged.of([])) == []

    def test_decompositions_and_samples(self, family):
        rng = np.random.default_rng(0)
        mu = family.project(scores_for(family, 6, rng))
        for point, (weights, vertices) in zip(mu, family.decompose(mu), strict=True):
            assert np.all(weights > 0)
            assert np.isclose(weights.sum(), 1)
            assert np.allclose(np.tensordot(weights, vertices, 1), point, atol=1e-9)
        n = 3000
        draws = family.sample([p for p in mu for _ in range(n)], rng=1)
        family.decode(draws)
        for i, point in enumerate(mu):
            mean = np.mean(draws[i * n : (i + 1) * n], axis=0)
            assert np.all(np.abs(mean - point) < 6 * 0.5 / np.sqrt(n))

    def test_the_sample_that_is_wrong_is_named(self, family):
        rng = np.random.default_rng(0)
        theta = [rng.normal(size=m.dim) for m in family.examples for _ in range(2)]
        largest = len(theta) - 1
        for bad in (np.nan, np.inf):
            broken = [t.copy() for t in theta]
            broken[largest][-1] = bad
            with pytest.raises(InvalidInput, match=f"{bad} at sample {largest}, position"):
                family.project(broken)
        with pytest.raises(InvalidInput, match=f"scores of sample {largest} has type"):
            family.project([*theta[:-1], ["a", "b", "c", "d"]])
        with pytest.raises(InvalidInput, match=r"scores of sample 0 are one number; a batch .* is a list of arrays"):
            family.argmax([0.5, 0.2])
        for nonsense in (3.0, "ab", None, {1: 2}, np.float64(2), np.array(3.0), (x for x in theta)):
            with pytest.raises(InvalidInput, match="expected a list with an array for each item"):
                family.argmax(nonsense)
        with pytest.raises(InvalidInput, match=f"sample {largest} is no vertex"):
            family.decode([*family.argmax(theta[:-1]), np.full(theta[-1].shape, 0.3)])
        with pytest.raises(InvalidInput, match=f"sample {largest} violates"):
            family.sample([*family.argmax(theta[:-1]), np.full(theta[-1].shape, 3.0)])
        with pytest.raises(InvalidInput, match="offsets that do not cut"):
            family.argmax(Ragged(np.zeros(5), np.array([0, 1, 4])))
        with pytest.raises(MissingOracle, match=r"ask member\(size\)"):
            family.vertices()
        for attribute in ("shape", "dim"):
            with pytest.raises(InvalidInput, match="no common"):
                getattr(family, attribute)


def test_everything_forbidden_in_one_item_names_that_item():
    theta = [np.zeros(3), np.zeros(2), np.zeros(3), np.full(3, -np.inf)]
    for oracle in ("argmax", "project", "kl_project", "marginals"):
        with pytest.raises(InvalidInput, match="at sample 3$"):
            getattr(Choices(), oracle)(theta)


def test_a_size_that_no_item_can_have_is_refused():
    with pytest.raises(InvalidInput, match="scores of sample 1: 5 scores are no square table"):
        Matchings().argmax([np.zeros(4), np.zeros(5)])
    with pytest.raises(InvalidInput, match=r"scores of sample 0 have shape \(1, 4\), but Birkhoff\(2\) needs \(2, 2\)"):
        Matchings().argmax([np.zeros((1, 4))])
    with pytest.raises(InvalidInput, match=r"y is \[1, 1\] at sample 1, which is no permutation"):
        Matchings().encode([[0, 1], [1, 1]])


def test_a_wrong_maximiser_is_named_with_its_item():
    class Runs(Family):
        @property
        def examples(self):
            return (Oracle(len, (2,)),)

        def member(self, size):
            return Oracle(lambda theta: np.full(size, 0.5 if theta[0] > 5 else 1.0), (size,))

        def member_of(self, y):
            return self.member(len(y))

    with pytest.raises(OracleError, match="is not 0/1 .* at sample 2"):
        Runs().argmax([np.zeros(2), np.zeros(3), np.array([9.0, 0, 0])])


# -- losses and training -------------------------------------------------------------------------------------------


class PartFeatures(Scorer):
    """Scores of every part of an item from that part's own features: what sequences and candidates have."""

    def __init__(self, features):
        self.features = features
        self.d = features[0].shape[1]

    @property
    def n_examples(self):
        return len(self.features)

    @property
    def weights_shape(self):
        return (self.d,)

    def _at(self, idx):
        chosen = np.arange(len(self.features)) if idx is None else np.arange(len(self.features))[idx]
        return [self.features[i] for i in chosen]

    def scores(self, w, idx=None):
        return Ragged.of([f @ w for f in self._at(idx)])

    def adjoint(self, residual, idx=None):
        return sum((f.T @ r for f, r in zip(self._at(idx), residual, strict=True)), np.zeros(self.d))

    def quadratic(self, direction, idx=None):
        return np.array([((f.T @ r) ** 2).sum() for f, r in zip(self._at(idx), direction, strict=True)])


LOSSES = [
    FenchelYoung(Choices(), "euclidean"),
    FenchelYoung(Choices(), "kl", strength=0.5, multiplier=2.0),
    FenchelYoung(Choices(), "gibbs"),
    FenchelYoung(Matchings(), "euclidean", strength=2.0),
    FenchelYoung(Grades(), "euclidean"),
    FenchelYoung(Grades(), "gibbs"),
    Perceptron(Matchings()),
    Hinge(Choices(), Hamming()),
    Hinge(Matchings(), Hamming()),
]


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
class TestLosses:
    def test_passes_the_conformance_suite(self, loss):
        check_loss(loss)

    def test_is_the_loss_of_each_member(self, loss):
        rng = np.random.default_rng(0)
        family = loss.structure
        for scale in (1e-12, 1.0, 1e12):
            theta = scores_for(family, 9, rng, scale)
            v = family.argmax(scores_for_sizes(theta, rng))
            values, gradients = loss.value_and_grad(theta, v)
            for i, t in enumerate(theta):
                member = family.member(t.size)
                alone = dataclasses.replace(loss, structure=member)
                value, gradient = alone.value_and_grad(t.reshape(member.shape), v[i])
                assert np.isclose(values[i], value, rtol=1e-9, atol=1e-12)
                assert np.allclose(gradients[i], gradient, atol=1e-8)

    def test_solvers_reach_the_minimum_and_the_gap_is_a_bound(self, loss):
        features, v = training_set(loss.structure)
        scorer = PartFeatures(features)
        for weights in (None, np.random.default_rng(3).integers(0, 3, len(features))):
            exact = BlockFrankWolfe(tol=5e-3, random_state=0)
            if loss.differentiable:
                exact = LBFGS(tol=1e-10)
            best = exact.minimize(scorer, loss, v, 0.1, sample_weight=weights)
            for block_size in (1, 5):
                rough = BlockFrankWolfe(tol=2e-2, block_size=block_size, random_state=0)
                result = rough.minimize(scorer, loss, v, 0.1, sample_weight=weights)
                assert result.converged
                for _, value, gap in result.history:
                    assert value - best.value <= gap + 1e-9
                assert result.value >= best.value - best.gap - 1e-12
                assert rough.minimize(scorer, loss, v, 0.1, sample_weight=weights, dual=result.dual).n_iter == 0


def scores_for_sizes(theta, rng):
    return [rng.normal(size=t.shape) for t in theta]


def training_set(family, n=25, d=4):
    rng = np.random.default_rng(0)
    features = [rng.normal(size=(size, d)) for size in sizes_for(family, n, rng)]
    w = rng.normal(size=d)
    return features, family.argmax(Ragged.of([f @ w + rng.normal(size=len(f)) for f in features]))


def test_truths_outside_their_hull_and_of_other_sizes_are_refused():
    features, v = training_set(Choices())
    loss, scorer = FenchelYoung(Choices(), "kl"), PartFeatures(features)
    wrong = v.copy()
    wrong[3] = wrong[3] + 1
    with pytest.raises(InvalidInput, match="truth of sample 3 lies outside"):
        LBFGS().minimize(scorer, loss, wrong, 0.1)
    with pytest.raises(InvalidInput, match="25 inputs but 24 truths"):
        LBFGS().minimize(scorer, loss, v[:-1], 0.1)
    with pytest.raises(InvalidInput, match="items of the same sizes"):
        LBFGS().minimize(scorer, loss, v[::-1], 0.1)


def test_decoders_answer_item_by_item():
    rng = np.random.default_rng(0)
    theta = scores_for(Choices(), 8, rng)
    output = FenchelYoung(Choices(), "kl").output(theta)
    best = [[t.size, int(t.argmax())] for t in theta]
    for decoder in (MAP(), Calibrated(Choices(), Hamming()), Calibrated(Choices(), ZeroOne())):
        assert np.array([list(map(int, y)) for y in decoder.decode(output)]).tolist() == best
