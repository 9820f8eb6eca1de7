"""Adversarial losses: games against linear programs, theorems of consistency, certificates, margin losses beside them."""

import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize

from fenchel.costs import (
    Absolute,
    Abstain,
    CostMatrices,
    CostMatrix,
    Discounted,
    Hamming,
    Scaled,
    SquaredError,
    ZeroOne,
)
from fenchel.costs.base import AffineForm, cost_table
from fenchel.decoders import Likeliest
from fenchel.errors import IncompatiblePair, InvalidInput
from fenchel.losses import (
    Adversarial,
    AllThresholds,
    CostSensitiveOneVsAll,
    CostSensitiveOneVsOne,
    CrammerSinger,
    Hinge,
    ImmediateThresholds,
    LeeLinWahba,
    OneSidedRegression,
    OneVsAll,
    ThresholdReduction,
    WestonWatkins,
)
from fenchel.losses.games import find_game
from fenchel.losses.games.double_oracle import DoubleOracle
from fenchel.losses.games.matrix import MatrixGame
from fenchel.losses.games.smoothed import SmoothedGame
from fenchel.scorers import Linear
from fenchel.solvers import LBFGS, BlockFrankWolfe
from fenchel.structures import Birkhoff, Budget, Cube, OrderSimplex, Product, Ragged, Reals, Simplex
from fenchel.structures.base import Accuracy
from fenchel.structures.ragged import Family
from fenchel.testing import check_structure


def table_costs(k):
    rng = np.random.default_rng(k)
    return [
        ZeroOne(),
        Absolute(),
        SquaredError(),
        *[Abstain(price) for price in (0.0, 0.25, 0.5, 0.6, 2 / 3, 0.9, 1.5)],
        Abstain(0.8, Absolute()),
        CostMatrix(rng.random((k, k))),
        CostMatrix(3 * rng.random((k + 2, k))),
        CostMatrix(rng.integers(0, 3, size=(max(k - 1, 1), k))),
    ]


def potentials(k, rng):
    yield rng.normal(size=(8, k))
    yield 5 * rng.normal(size=(4, k))
    yield rng.integers(-2, 3, size=(6, k)).astype(float)  # ties everywhere
    yield rng.integers(-4, 5, size=(6, k)) / 2
    yield np.zeros((1, k))
    yield 1e-4 * rng.normal(size=(3, k))  # below 1e-7 the solver's own tolerance is in the way
    yield 1e7 * rng.normal(size=(3, k))


def value_by_linear_program(table, f):
    """max over q, w of w + <f, q> with w at most every row's cost under q."""
    answers, truths = table.shape
    found = linprog(
        np.append(-f, -1.0),
        A_ub=np.column_stack([-table, np.ones(answers)]),
        b_ub=np.zeros(answers),
        A_eq=[[1.0] * truths + [0.0]],
        b_eq=[1.0],
        bounds=[(0, None)] * truths + [(None, None)],
    )
    assert found.status == 0
    return -found.fun


def check_equilibrium(found, table, f, atol=1e-9):
    """Both strategies are distributions, and both guarantee what the linear program says the game is worth."""
    q, p = found.adversary, found.predictor
    for strategy in (q, p):
        assert strategy.min() >= 0
        np.testing.assert_allclose(strategy.sum(axis=1), 1, atol=1e-12)
    size = 1 + np.abs(f).max()
    expected = np.array([value_by_linear_program(table, row) for row in f])
    lower = (table @ q.T).min(axis=0) + (q * f).sum(axis=1)
    upper = (p @ table + f).max(axis=1)
    np.testing.assert_allclose(found.value, expected, rtol=0, atol=atol * size)
    np.testing.assert_allclose(lower, expected, rtol=0, atol=atol * size)
    np.testing.assert_allclose(upper, expected, rtol=0, atol=atol * size)
    np.testing.assert_allclose(found.risk, (table @ q.T).min(axis=0), atol=atol)
    return expected


# -- games between classes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 2, 3, 7])
def test_games_of_classes_equal_a_linear_program_in_value_and_in_both_strategies(k):
    rng = np.random.default_rng(k)
    for cost in table_costs(k):
        loss = Adversarial(Simplex(k), cost)
        table = cost_table(cost, loss.answers, loss.structure)
        for f in potentials(k, rng):
            found = loss.solve(f)
            expected = check_equilibrium(found, table, f)
            assert found.gap.max() <= 1e-12 * (1 + np.abs(f).max())
            for v in (np.eye(k)[rng.integers(k, size=len(f))], rng.dirichlet(np.ones(k), len(f))):
                value, residual = loss.value_and_grad(f, v)
                definition = expected - (table @ v.T).min(axis=0) - (f * v).sum(axis=1)
                np.testing.assert_allclose(value, definition, atol=1e-9 * (1 + np.abs(f).max()))
                np.testing.assert_allclose(residual + v, found.adversary, atol=1e-12)  # a subgradient: an optimal q


@settings(deadline=None, max_examples=60)
@given(
    st.integers(1, 6).flatmap(
        lambda k: st.tuples(
            st.lists(st.lists(st.integers(0, 4), min_size=k, max_size=k), min_size=1, max_size=6),
            st.lists(st.integers(-3, 3), min_size=k, max_size=k),
        )
    )
)
def test_the_matrix_game_is_exact_on_degenerate_tables(case):
    table, f = np.array(case[0], dtype=float), np.array([case[1]], dtype=float)
    check_equilibrium(find_game(Simplex(table.shape[1]), CostMatrix(table)).solve(f), table, f)


def test_large_matrix_games_close_their_gap():
    rng = np.random.default_rng(0)
    for answers, truths in ((60, 60), (90, 40), (40, 90)):
        game = find_game(Simplex(truths), CostMatrix(rng.random((answers, truths))))
        for scale in (0.01, 0.1):
            assert game.solve(scale * rng.normal(size=(20, truths))).gap.max() <= 1e-12


def test_zero_one_is_the_largest_of_all_facets():
    rng = np.random.default_rng(1)
    f = rng.normal(size=(50, 5)) * 2
    sets = [[j for j in range(5) if code >> j & 1] for code in range(1, 32)]
    facets = np.array([(f[:, s].sum(axis=1) + len(s) - 1) / len(s) for s in sets])
    np.testing.assert_allclose(Adversarial(Simplex(5), ZeroOne()).solve(f).value, facets.max(axis=0), atol=1e-13)


def test_the_predictor_of_zero_one_is_the_euclidean_projection():
    f = np.random.default_rng(2).normal(size=(50, 6)) * 2
    found = Adversarial(Simplex(6), ZeroOne()).solve(f)
    np.testing.assert_allclose(found.predictor, Simplex(6).project(f), atol=1e-15)


def test_absolute_is_half_a_sum_of_two_maxima():
    f = np.random.default_rng(3).normal(size=(50, 6)) * 3
    grades = np.arange(6)
    expected = 0.5 * (f - grades).max(axis=1) + 0.5 * (f + grades).max(axis=1)
    np.testing.assert_allclose(Adversarial(Simplex(6), Absolute()).solve(f).value, expected, atol=1e-13)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.one_of(st.integers(-20, 20), st.floats(-30, 30)), min_size=1, max_size=9))
def test_squared_is_the_published_maximum_over_triples(scores):
    f = np.array(scores, dtype=float)
    k = len(f)
    best = f.max()
    for i in range(k):
        for j in range(i + 1, k):
            for m in range(i + 1, j + 1):
                above, below = 2 * (j - m) + 1, 2 * (m - i) - 1
                facet = (above * (f[i] + (m - i) ** 2) + below * (f[j] + (j - m) ** 2)) / (2 * (j - i))
                best = max(best, facet)
    found = find_game(Simplex(k), SquaredError()).solve(f[None])
    np.testing.assert_allclose(found.value, best, atol=1e-11)


@pytest.mark.parametrize("price", [0.0, 0.2, 0.5])
def test_abstention_is_the_published_closed_form(price):
    f = np.random.default_rng(4).normal(size=(200, 5))
    first, second = np.sort(f, axis=1)[:, ::-1][:, :2].T
    found = Adversarial(Simplex(5), Abstain(price)).solve(f)
    expected = np.maximum((1 - price) * first + price * second + price, first)
    np.testing.assert_allclose(found.value, expected, atol=1e-13)
    lead = first - second
    np.testing.assert_allclose(found.predictor[:, -1], np.maximum(1 - lead, 0), atol=1e-13)
    answers = Likeliest().decode(Adversarial(Simplex(5), Abstain(price)).output(f))
    np.testing.assert_array_equal(answers, np.where(lead >= 0.5, f.argmax(axis=1), -1))


def test_abstention_above_its_highest_sensible_price_is_zero_one():
    f = np.random.default_rng(5).normal(size=(50, 4))
    for price in (0.76, 0.8, 1.0, 3.0):
        ours, plain = (Adversarial(Simplex(4), c).solve(f) for c in (Abstain(price), ZeroOne()))
        np.testing.assert_allclose(ours.value, plain.value, atol=1e-13)
        np.testing.assert_allclose(ours.predictor[:, -1], 0, atol=1e-13)


@pytest.mark.parametrize("cost", [ZeroOne(), Absolute(), SquaredError(), Abstain(0.4), CostMatrix(np.eye(4)[::-1])])
def test_grades_by_thresholds_play_the_same_game_as_grades_by_classes(cost):
    rng = np.random.default_rng(6)
    theta, codes = rng.normal(size=(30, 3)), rng.integers(4, size=30)
    f = np.column_stack([np.zeros(30), np.cumsum(theta, axis=1)])
    steps, classes = Adversarial(OrderSimplex(4), cost), Adversarial(Simplex(4), cost)
    value, residual = steps.value_and_grad(theta, OrderSimplex(4).encode(codes))
    expected, class_residual = classes.value_and_grad(f, Simplex(4).encode(codes))
    np.testing.assert_allclose(value, expected, atol=1e-12)
    np.testing.assert_allclose(residual, class_residual @ OrderSimplex(4).vertices(), atol=1e-12)


def test_a_forbidden_class_is_never_the_adversarys():
    f = np.random.default_rng(7).normal(size=(20, 4))
    f[:, 2] = -np.inf
    for cost in (ZeroOne(), Absolute(), SquaredError(), Abstain(0.3), Abstain(0.7), CostMatrix(1.5 * (1 - np.eye(4)))):
        loss = Adversarial(Simplex(4), cost)
        found = loss.solve(f)
        table = np.delete(cost_table(cost, loss.answers, loss.structure), 2, axis=1)
        assert np.all(found.adversary[:, 2] == 0)
        for row, value in zip(f, found.value, strict=True):
            assert value == pytest.approx(value_by_linear_program(table, np.delete(row, 2)), abs=1e-9)


# -- theorems ----------------------------------------------------------------------------------------------------------


def test_the_loss_bounds_what_the_predictor_costs_but_not_what_the_highest_score_costs():
    rng = np.random.default_rng(8)
    f = rng.normal(size=(300, 4)) * 2
    beaten = 0
    for cost in (ZeroOne(), Absolute(), SquaredError(), Abstain(0.3), CostMatrix(0.2 + rng.random((3, 4)))):
        loss = Adversarial(Simplex(4), cost)
        table = cost_table(cost, loss.answers, loss.structure)
        p = loss.solve(f).predictor
        for y in range(4):
            value = loss.value(f, np.broadcast_to(np.eye(4)[y], f.shape))
            regret = p @ (table[:, y] - table[:, y].min())
            assert np.all(regret <= value + 1e-12)
            if table.shape == (4, 4):
                beaten += int((table[f.argmax(axis=1), y] > value + 0.05).sum())
    assert beaten > 0


@pytest.mark.parametrize("cost", table_costs(4), ids=str)
def test_scaling_the_cost_scales_the_value_and_keeps_the_strategies(cost):
    rng = np.random.default_rng(9)
    f, factor = rng.normal(size=(20, 4)), rng.uniform(0.2, 5, size=20)
    plain, scaled = Adversarial(Simplex(4), cost), Adversarial(Simplex(4), Scaled(cost, factor))
    before, after = plain.solve(f), scaled.solve(factor[:, None] * f)
    np.testing.assert_allclose(after.value, factor * before.value, atol=1e-12)
    np.testing.assert_allclose(after.adversary, before.adversary, atol=1e-12)
    truths = np.eye(4)[rng.integers(4, size=20)]
    table = cost_table(cost, plain.answers, plain.structure)
    expected = [value_by_linear_program(c * table, row) for c, row in zip(factor, f, strict=True)]
    offset = factor * (table @ truths.T).min(axis=0)
    np.testing.assert_allclose(
        scaled.value(f, truths), np.array(expected) - offset - (f * truths).sum(axis=1), atol=1e-9
    )


def test_a_matrix_for_each_example_is_that_examples_matrix():
    rng = np.random.default_rng(10)
    f, truths, tables = rng.normal(size=(15, 3)), np.eye(3)[rng.integers(3, size=15)], rng.random((15, 4, 3))
    loss = Adversarial(Simplex(3), CostMatrices(tables))
    assert isinstance(loss.game, MatrixGame)
    values, residuals = loss.value_and_grad(f, truths)
    for i in range(15):
        one = Adversarial(Simplex(3), CostMatrix(tables[i]))
        value, residual = one.value_and_grad(f[i], truths[i])
        assert values[i] == pytest.approx(value, abs=1e-12)
        np.testing.assert_allclose(residuals[i], residual, atol=1e-12)
    idx = np.array([3, 7])
    np.testing.assert_allclose(loss.take(idx).value(f[idx], truths[idx]), values[idx])
    with pytest.raises(InvalidInput, match="is for 15 examples, but the batch has 2"):
        loss.value(f[:2], truths[:2])


def population_minimum(loss, distribution, box=20.0):
    """Scores that minimise Σ d_y S(θ; φ(y)) over a box, by cutting planes: exact for piecewise linear losses."""
    truths = loss.structure.vertices()
    size = loss.structure.dim
    rows, rights = [], []
    theta = np.zeros(size)
    best, best_theta = np.inf, theta
    for _ in range(400):
        values, slopes = loss.value_and_grad(np.broadcast_to(theta, truths.shape).copy(), truths)
        value, slope = float(distribution @ values), distribution @ slopes
        if value < best:
            best, best_theta = value, theta
        rows.append(np.append(slope, -1.0))
        rights.append(slope @ theta - value)
        found = linprog(
            np.append(np.zeros(size), 1.0), A_ub=rows, b_ub=rights, bounds=[(-box, box)] * size + [(None, None)]
        )
        if best - found.fun <= 1e-9:
            return best_theta, best
        theta = found.x[:size]
    raise AssertionError("cutting planes did not converge")


NO_MAJORITY = [np.array([0.4, 0.35, 0.25]), np.array([0.26, 0.3, 0.44]), np.array([0.34, 0.33, 0.33])]


@pytest.mark.parametrize(
    "cost",
    [ZeroOne(), Absolute(), SquaredError(), CostMatrix([[0, 1, 4], [2, 0, 1], [3, 3, 0]])],
    ids=["zero-one", "absolute", "squared", "matrix"],
)
@pytest.mark.parametrize("population", NO_MAJORITY, ids=str)
def test_minimising_the_population_loss_gives_the_bayes_answer(cost, population):
    loss = Adversarial(Simplex(3), cost)
    table = cost.matrix(Simplex(3))
    risks = table @ population
    bayes = int(risks.argmin())
    theta, value = population_minimum(loss, population)
    assert int(theta.argmax()) == bayes
    assert value == pytest.approx(risks.min() - population @ table.min(axis=0), abs=1e-8)  # −Ω at the population
    # the minimiser reflects the cost: θ_y + C[bayes, y] is the same for all y
    assert np.ptp(theta + table[bayes]) <= 1e-6
    p = loss.solve(theta[None]).predictor[0]
    assert p @ risks == pytest.approx(risks.min(), abs=1e-6)


@pytest.mark.parametrize("population", NO_MAJORITY, ids=str)
def test_crammer_singer_cannot_tell_classes_apart_without_a_majority(population):
    loss = CrammerSinger(Simplex(3))
    _, least = population_minimum(loss, population)
    truths = np.eye(3)
    for wrong in np.delete(np.arange(3), population.argmax()):
        theta = np.zeros(3)
        theta[wrong] = 1e-7  # as good as any score vector, and it answers wrongly
        value = population @ loss.value(np.broadcast_to(theta, (3, 3)).copy(), truths)
        assert value == pytest.approx(least, abs=1e-6)


def test_lee_lin_wahba_is_consistent_and_weston_watkins_is_not():
    population = np.array([0.4, 0.35, 0.25])
    absolute, _ = population_minimum(LeeLinWahba(Simplex(3)), population)
    assert int(absolute.argmax()) == 0
    relative, _ = population_minimum(WestonWatkins(Simplex(3)), population)
    assert relative[0] == pytest.approx(relative[1], abs=1e-6)  # the two likelier classes score the same


def test_ties_between_bayes_answers():
    """With several Bayes answers the minimisers are the mixtures of minus their rows of costs, plus constants."""
    population = np.array([0.4, 0.4, 0.2])
    loss, table = Adversarial(Simplex(3), ZeroOne()), ZeroOne().matrix(Simplex(3))
    truths = np.eye(3)
    least = population_minimum(loss, population)[1]
    for share in (0.0, 0.3, 1.0):
        theta = 2.0 - share * table[0] - (1 - share) * table[1]
        value = population @ loss.value(np.broadcast_to(theta, (3, 3)).copy(), truths)
        assert value == pytest.approx(least, abs=1e-9)
        assert int(theta.argmax()) in (0, 1)
    outside = 2.0 - table[2]
    assert population @ loss.value(np.broadcast_to(outside, (3, 3)).copy(), truths) > least + 0.01


@pytest.mark.parametrize("seed", range(6))
def test_the_predictor_is_bayes_for_rectangular_costs_too(seed):
    rng = np.random.default_rng(seed)
    population = rng.dirichlet(np.ones(4))
    for cost in (Abstain(0.3), Abstain(0.6), CostMatrix(rng.random((2, 4))), CostMatrix(rng.random((7, 4)))):
        loss = Adversarial(Simplex(4), cost)
        risks = cost_table(cost, loss.answers, loss.structure) @ population
        theta, _ = population_minimum(loss, population)
        p = loss.solve(theta[None]).predictor[0]
        assert p @ risks == pytest.approx(risks.min(), abs=1e-6)


# -- other structures --------------------------------------------------------------------------------------------------


GENERIC = [
    (Birkhoff(3), Hamming()),
    (Birkhoff(3), Discounted()),
    (Birkhoff(4), Hamming()),
    (Budget(5, 1, 3), Hamming()),
    (Cube(4), Hamming()),
    (Product(Simplex(3), 2), Hamming()),
    (Product(Budget(3, 1, 2), 2), Hamming()),
    (OrderSimplex(4), Absolute()),
    (OrderSimplex(3), Abstain(0.6)),
    (Simplex(4), CostMatrix([[0, 2, 1, 1], [1, 0, 3, 1], [2, 2, 0, 5], [1, 1, 1, 1], [0, 4, 4, 4]])),
]


@pytest.mark.parametrize(("structure", "cost"), GENERIC, ids=str)
def test_structured_games_equal_the_full_linear_program(structure, cost):
    rng = np.random.default_rng(11)
    found_by_pair, generic = find_game(structure, cost), DoubleOracle(structure, cost)
    table = cost_table(cost, generic.answers, structure)
    vertices = structure.vertices().reshape(-1, structure.dim)
    for theta in (rng.normal(size=(6, *structure.shape)), rng.integers(-1, 2, size=(6, *structure.shape)) / 2.0):
        expected = [value_by_linear_program(table, vertices @ row.ravel()) for row in theta]
        for game in (found_by_pair, generic):
            found = game.solve(theta)
            np.testing.assert_allclose(found.value, expected, atol=1e-9)
            assert found.gap.max() <= 1e-9
            assert structure.violation(found.adversary).max() <= 1e-9
            assert game.answers.violation(found.predictor).max() <= 1e-9
            np.testing.assert_allclose(game.risk(found.adversary), found.risk, atol=1e-9)
            # the predictor's guarantee, over all truths
            form = cost.affine(game.answers, structure)
            upper = [
                form.value(np.broadcast_to(p, (len(vertices), *p.shape)), structure.vertices()) + vertices @ row.ravel()
                for p, row in zip(found.predictor, theta, strict=True)
            ]
            np.testing.assert_allclose(np.max(upper, axis=1), expected, atol=1e-9)


def test_the_double_oracle_goes_on_from_an_earlier_support():
    theta = np.random.default_rng(12).normal(size=(10, 5, 5))
    game = DoubleOracle(Birkhoff(5), Hamming())
    first = game.solve(theta)
    again = game.solve(theta, start=first.state)
    assert again.n_iter.max() == 1
    np.testing.assert_allclose(again.value, first.value, atol=1e-12)
    near = game.solve(theta + 0.01, start=first.state)
    assert near.n_iter.sum() < game.solve(theta + 0.01).n_iter.sum()


def test_a_game_that_is_stopped_early_says_by_how_much():
    theta = np.random.default_rng(13).normal(size=(10, 5, 5))
    game = DoubleOracle(Birkhoff(5), Hamming())
    exact, rough = game.solve(theta), game.solve(theta, Accuracy(max_iter=3))
    assert not rough.converged.all()
    assert np.all(rough.value <= exact.value + 1e-9)
    assert np.all(exact.value <= rough.value + rough.gap + 1e-9)
    with pytest.warns(UserWarning, match="stopped after 3 rounds with the gap"):
        Adversarial(Birkhoff(5), Hamming(), max_iter=3).predict(theta)


class Matchings(Family):
    """Square matchings of any size."""

    def __eq__(self, other):
        return isinstance(other, Matchings)

    def __hash__(self):
        return hash(Matchings)

    @property
    def examples(self):
        return Birkhoff(2), Birkhoff(3)

    def member(self, size):
        return Birkhoff(int(np.sqrt(size)))

    def member_of(self, y):
        return Birkhoff(len(y))


def test_items_of_many_sizes_play_their_own_games():
    rng = np.random.default_rng(14)
    items = [rng.normal(size=(n, n)) for n in (2, 4, 3, 2, 1)]
    loss = Adversarial(Matchings(), Hamming())
    truths = Matchings().encode([rng.permutation(len(item)) for item in items])
    theta = Ragged.of(items)
    values, residual = loss.value_and_grad(theta, truths)
    found = loss.evaluate(theta, truths)
    again = loss.evaluate(theta, truths, found.state)
    np.testing.assert_allclose(again.value, values, atol=1e-12)
    for i, item in enumerate(items):
        one = Adversarial(Birkhoff(len(item)), Hamming())
        value, slope = one.value_and_grad(item, truths[i].reshape(item.shape))
        assert values[i] == pytest.approx(value, abs=1e-9)
        np.testing.assert_allclose(residual[i], slope.ravel(), atol=1e-9)
    smooth = Adversarial(Matchings(), Hamming(), smoothing=0.5)
    each = [
        float(Adversarial(Birkhoff(len(item)), Hamming(), smoothing=0.5).value(item, truths[i].reshape(item.shape)))
        for i, item in enumerate(items)
    ]
    np.testing.assert_allclose(smooth.value(theta, truths), each, atol=1e-8)


# -- smoothing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("smoothing", [0.05, 0.5, 3.0])
@pytest.mark.parametrize(
    ("structure", "cost"),
    [(Simplex(5), ZeroOne()), (Simplex(4), Abstain(0.3)), (OrderSimplex(5), Absolute()), (Birkhoff(3), Hamming())],
    ids=str,
)
def test_smoothed_games_are_a_saddle_point_of_their_penalised_cost(structure, cost, smoothing):
    theta = np.random.default_rng(15).normal(size=(8, *structure.shape))
    game = SmoothedGame(structure, cost, smoothing)
    found = game.solve(theta)
    assert found.converged.all()
    form = cost.affine(game.answers, structure)
    # each strategy is the other's projection
    p = game.answers.project(-form.apply(found.adversary) / smoothing)
    q = structure.project((theta + form.adjoint(found.predictor)[0]) / smoothing)
    np.testing.assert_allclose(found.predictor, p, atol=2e-5)
    np.testing.assert_allclose(found.adversary, q, atol=2e-5)


def test_less_smoothing_comes_nearer_to_the_game():
    theta = np.random.default_rng(16).normal(size=(10, 4))
    exact = Adversarial(Simplex(4), ZeroOne()).solve(theta).value
    distances = [
        np.abs(Adversarial(Simplex(4), ZeroOne(), smoothing=s).solve(theta).value - exact).max() for s in (1, 0.1, 0.01)
    ]
    assert distances == sorted(distances, reverse=True)
    assert distances[-1] <= 0.005  # at most s/2 for each player


def test_smoothing_needs_a_projection_and_says_so():
    with pytest.raises(IncompatiblePair, match="smoothing=0.5 SmoothedGame needs an affine form"):
        Adversarial(Birkhoff(3), ZeroOne(), smoothing=0.5)


# -- training ----------------------------------------------------------------------------------------------------------


def training_set(n=120, k=3, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(k, size=n)
    X = rng.normal(size=(n, 4)) + np.eye(k, 4)[y] * 1.5
    return X, y


@pytest.mark.parametrize("cost", [ZeroOne(), Absolute(), SquaredError(), Abstain(0.3)], ids=str)
def test_block_frank_wolfe_certifies_adversarial_training(cost):
    X, y = training_set()
    scorer, v = Linear(X, (3,), intercept_scaling=1.0), np.eye(3)[y]
    loss = Adversarial(Simplex(3), cost)
    rough = BlockFrankWolfe(tol=0.1, random_state=0).minimize(scorer, loss, v, 0.05)
    fine = BlockFrankWolfe(tol=1e-3, random_state=1).minimize(scorer, loss, v, 0.05)
    assert fine.converged
    assert rough.value - rough.gap <= fine.value + 1e-12
    # a general method that knows nothing of duality finds nothing below the certified bound

    def objective(w):
        shaped = w.reshape(scorer.weights_shape)
        return float(loss.value(scorer.scores(shaped), v).mean() + 0.05 * scorer.penalty(shaped))

    found = minimize(objective, fine.w.ravel(), method="Powell", options={"maxiter": 3})
    assert found.fun >= fine.value - fine.gap - 1e-12


def test_what_an_inner_game_leaves_open_is_part_of_the_gap():
    rng = np.random.default_rng(17)
    n = 12
    inputs, permutations = rng.normal(size=(n, 3)), np.array([rng.permutation(4) for _ in range(n)])
    scorer, v = Linear(inputs, (4, 4)), Birkhoff(4).encode(permutations)
    sharp = BlockFrankWolfe(tol=1e-3, random_state=0).minimize(scorer, Adversarial(Birkhoff(4), Hamming()), v, 0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        blunt = BlockFrankWolfe(tol=1e-3, max_iter=40, random_state=0).minimize(
            scorer, Adversarial(Birkhoff(4), Hamming(), tol=0.3), v, 0.5
        )
    assert blunt.value - blunt.gap <= sharp.value
    assert sharp.value - sharp.gap <= blunt.value + blunt.gap


def test_lbfgs_minimises_the_smoothed_loss_and_refuses_the_other():
    X, y = training_set(40)
    scorer, v = Linear(X, (3,), intercept_scaling=1.0), np.eye(3)[y]
    with pytest.raises(IncompatiblePair, match="use BlockFrankWolfe"):
        LBFGS().minimize(scorer, Adversarial(Simplex(3), ZeroOne()), v, 0.1)
    smooth = Adversarial(Simplex(3), ZeroOne(), smoothing=0.5)
    one = LBFGS(tol=1e-5).minimize(scorer, smooth, v, 0.1)
    two = BlockFrankWolfe(tol=1e-3, block_size=40, random_state=0).minimize(scorer, smooth, v, 0.1)
    assert one.value - one.gap <= two.value
    assert two.value - two.gap <= one.value


def test_examples_of_different_costs_are_trained_block_by_block():
    X, y = training_set()
    factor = np.random.default_rng(18).uniform(0.5, 3, size=len(y))
    scorer, v = Linear(X, (3,)), np.eye(3)[y]
    scaled = Adversarial(Simplex(3), Scaled(ZeroOne(), factor))
    tables = Adversarial(Simplex(3), CostMatrices(factor[:, None, None] * ZeroOne().matrix(Simplex(3))))
    results = [BlockFrankWolfe(tol=1e-3, random_state=0).minimize(scorer, loss, v, 0.05) for loss in (scaled, tables)]
    assert results[0].value == pytest.approx(results[1].value, rel=2e-3)


def test_a_loss_survives_pickling_with_what_it_derived():
    loss = Adversarial(Birkhoff(3), Hamming())
    loss.predict(np.zeros((1, 3, 3)))
    assert pickle.loads(pickle.dumps(loss)) == loss
    assert pickle.loads(pickle.dumps(loss.game)) == loss.game


# -- refusals ----------------------------------------------------------------------------------------------------------


def test_pairs_that_cannot_work_are_refused_with_the_reason():
    with pytest.raises(IncompatiblePair, match=r"no game between Cube\(3\) and ZeroOne.*use Hamming\(\)"):
        Adversarial(Cube(3), ZeroOne())
    with pytest.raises(IncompatiblePair, match=r"no game between Reals\(3\) and Hamming"):
        Adversarial(Reals(3), Hamming())
    with pytest.raises(IncompatiblePair, match=r"use Simplex\(k\) or OrderSimplex\(k\)"):
        Adversarial(Cube(3), Abstain(0.3))
    with pytest.raises(InvalidInput, match="price is -0.1"):
        Abstain(-0.1)


@pytest.mark.parametrize(
    "loss",
    [Adversarial(s, c) for s, c in [(Simplex(3), ZeroOne()), (OrderSimplex(3), SquaredError()), (Cube(3), Hamming())]]
    + [Adversarial(Birkhoff(2), Hamming()), Adversarial(Simplex(3), CostMatrix(1 - np.eye(3)))],
    ids=str,
)
def test_scores_that_are_no_numbers_are_named_by_sample(loss):
    theta = np.zeros((3, *loss.structure.shape))
    theta.reshape(3, -1)[1, 0] = np.nan
    truths = loss.structure.argmax(np.zeros((3, *loss.structure.shape)))
    with pytest.raises(InvalidInput, match="sample 1"):
        loss.value_and_grad(theta, truths)
    with pytest.raises(InvalidInput, match="sample 1"):
        loss.predict(theta)


# -- the form of a cost turned round -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("structure", "cost"), GENERIC, ids=str)
def test_the_adjoint_form_is_the_cost_and_equals_what_probing_finds(structure, cost):
    answers = cost.answers_to(structure)
    form = cost.affine(answers, structure)
    rng = np.random.default_rng(19)
    p, mu = (
        answers.project(rng.normal(size=(5, *answers.shape))),
        structure.project(rng.normal(size=(5, *structure.shape))),
    )
    scores, offset = form.adjoint(p)
    direct = (scores * mu).reshape(5, -1).sum(axis=1) + offset
    np.testing.assert_allclose(direct, form.value(p, mu), atol=1e-9)
    probed = AffineForm(answers, structure, form._apply, form._constant)
    again, constant = probed.adjoint(p)
    np.testing.assert_allclose((again * mu).reshape(5, -1).sum(axis=1) + constant, direct, atol=1e-9)


def test_no_answer_is_an_output_of_its_own():
    cost, k = Abstain(0.4, Absolute()), 3
    answers = cost.answers_to(Simplex(k))
    check_structure(answers)
    outputs, truths = answers.decode(answers.vertices()), np.arange(k)
    pairs = np.array([[float(cost([a], [t])[0]) for t in truths] for a in outputs])
    np.testing.assert_allclose(pairs, cost.matrix(Simplex(k)))
    assert outputs[-1] == -1


# -- margin losses -----------------------------------------------------------------------------------------------------


def test_margin_losses_are_their_formulas():
    rng = np.random.default_rng(20)
    k, n = 5, 40
    f, y = rng.normal(size=(n, k)) * 2, rng.integers(k, size=n)
    v = np.eye(k)[y]
    own = f[np.arange(n), y]
    margins = np.maximum(1 + f - own[:, None], 0) * (1 - v)
    np.testing.assert_allclose(WestonWatkins(Simplex(k)).value(f, v), margins.sum(axis=1))
    np.testing.assert_allclose(CrammerSinger(Simplex(k)).value(f, v), margins.max(axis=1))
    np.testing.assert_allclose(CrammerSinger(Simplex(k)).value(f, v), Hinge(Simplex(k), ZeroOne()).value(f, v))
    centered = f - f.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(LeeLinWahba(Simplex(k)).value(f, v), (np.maximum(1 + centered, 0) * (1 - v)).sum(axis=1))
    signs = 2 * v - 1
    np.testing.assert_allclose(OneVsAll(Simplex(k)).value(f, v), np.maximum(1 - signs * f, 0).sum(axis=1))

    theta, passed = f[:, : k - 1], (y[:, None] > np.arange(k - 1)).astype(float)
    hinges = np.maximum(1 - (2 * passed - 1) * theta, 0)
    near = (np.arange(k - 1) == y[:, None]) | (np.arange(k - 1) == y[:, None] - 1)
    np.testing.assert_allclose(AllThresholds(OrderSimplex(k)).value(theta, passed), hinges.sum(axis=1))
    np.testing.assert_allclose(ImmediateThresholds(OrderSimplex(k)).value(theta, passed), (hinges * near).sum(axis=1))
    np.testing.assert_allclose(ThresholdReduction(OrderSimplex(k), Absolute()).value(theta, passed), hinges.sum(axis=1))
    squared = SquaredError().matrix(Simplex(k))
    steps = np.abs(np.diff(squared, axis=0))[:, y].T
    np.testing.assert_allclose(
        ThresholdReduction(OrderSimplex(k), SquaredError()).value(theta, passed), (steps * hinges).sum(axis=1)
    )

    costs = squared[:, y].T
    sided = np.where(v == 1, np.maximum(-costs - f, 0), np.maximum(costs + f, 0)).sum(axis=1)
    np.testing.assert_allclose(OneSidedRegression(Simplex(k), SquaredError()).value(f, v), sided)
    dearest = costs.max(axis=1, keepdims=True)
    expected = np.where(v == 1, dearest * np.maximum(1 - f, 0), costs * np.maximum(1 + f, 0))
    np.testing.assert_allclose(CostSensitiveOneVsAll(Simplex(k), SquaredError()).value(f, v), expected.sum(axis=1))

    loss = CostSensitiveOneVsOne(Simplex(k), SquaredError())
    pairs = [(i, j) for i in range(k) for j in range(i + 1, k)]
    scores = rng.normal(size=(n, len(pairs)))
    expected = np.zeros(n)
    for s, (i, j) in enumerate(pairs):
        sign = np.sign(costs[:, j] - costs[:, i])
        expected += np.abs(costs[:, i] - costs[:, j]) * np.maximum(1 - sign * scores[:, s], 0)
    np.testing.assert_allclose(loss.value(scores, loss.structure.encode(y)), expected)


def test_margin_losses_answer_by_their_own_rules():
    assert AllThresholds(OrderSimplex(4)).output([1.0, -0.5, 2.0]).predictor.tolist() == [1.0, 1.0, 0.0]
    votes = CostSensitiveOneVsOne(Simplex(3), Absolute())
    assert Likeliest().decode(votes.output([[-1.0, 0.5, 2.0]])).tolist() == [1]
    lead = CrammerSinger(Simplex(3), abstain_below=0.5)
    assert Likeliest().decode(lead.output([[0.4, 0.0, 0.0], [0.6, 0.0, 0.0]])).tolist() == [-1, 0]


@pytest.mark.parametrize(
    "loss",
    [
        CrammerSinger(Simplex(3)),
        WestonWatkins(Simplex(3)),
        LeeLinWahba(Simplex(3)),
        OneVsAll(Simplex(3)),
        OneSidedRegression(Simplex(3), Absolute()),
        CostSensitiveOneVsAll(Simplex(3), Absolute()),
        CostSensitiveOneVsOne(Simplex(3), Absolute()),
        AllThresholds(OrderSimplex(3)),
        ImmediateThresholds(OrderSimplex(3)),
    ],
    ids=lambda loss: type(loss).__name__,
)
def test_block_frank_wolfe_certifies_margin_losses(loss):
    X, y = training_set(60)
    scorer, v = Linear(X, loss.structure.shape), loss.structure.encode(y)
    result = BlockFrankWolfe(tol=0.02, random_state=0).minimize(scorer, loss, v, 0.1)
    assert result.converged

    def objective(w):
        shaped = w.reshape(scorer.weights_shape)
        return float(loss.value(scorer.scores(shaped), v).mean() + 0.1 * scorer.penalty(shaped))

    found = minimize(objective, result.w.ravel(), method="Powell", options={"maxiter": 3})
    assert found.fun >= result.value - result.gap - 1e-12


def test_margin_losses_refuse_what_they_cannot_take():
    with pytest.raises(
        IncompatiblePair, match=r"AllThresholds takes a score for each threshold.*use OrderSimplex\(k\)"
    ):
        AllThresholds(Simplex(3))
    with pytest.raises(IncompatiblePair, match="takes a score for each class"):
        WestonWatkins(Cube(3))
    with pytest.raises(NotImplementedError, match="margin loss"):
        WestonWatkins(Simplex(3)).omega([1.0, 0.0, 0.0])
    with pytest.raises(InvalidInput, match="sample 0 is no vertex"):
        WestonWatkins(Simplex(2)).value([[0.0, 0.0]], [[0.5, 0.5]])
