"""What Li et al., "Moment distributionally robust tree structured prediction" (2022), prove, where all trees can be listed."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linprog

from fenchel.cli.main import main
from fenchel.costs import Hamming
from fenchel.experiments.robust_theory import (
    Population,
    best_risk,
    fit,
    no_majority,
    predictors,
    primal,
    risk,
    theorem_2,
    worst_case,
)
from fenchel.losses import CRF, Adversarial, Hinge
from fenchel.losses.games import find_game
from fenchel.losses.games.double_oracle import DoubleOracle
from fenchel.scorers import Pairs
from fenchel.solvers import Adam
from fenchel.structures import Arborescence, Arborescences, DependencyTree, DependencyTrees


def small_population(tree, sizes, seed, spread=1.0, d=3):
    rng = np.random.default_rng(seed)
    trees = tuple(tree(n) for n in sizes)
    features = tuple(rng.normal(size=(n, n + 1, d)) for n in sizes)
    truths = tuple(rng.dirichlet(np.full(t.n_vertices, spread)) for t in trees)
    return Population(trees, features, rng.dirichlet(np.ones(len(sizes))), truths)


# -- the game ----------------------------------------------------------------------------------------------------------


def degenerate_scores(tree, rng):
    """Random scores of three scales, and ones with ties, a giant, a forbidden arc."""
    shape = tree.shape
    found = [scale * rng.normal(size=shape) for scale in (0.1, 1.0, 10.0)]
    found += [np.zeros(shape), np.full(shape, -7.0), np.round(rng.normal(size=shape)), rng.integers(0, 2, shape) * 1.0]
    giant, barred = rng.normal(size=shape), rng.normal(size=shape)
    giant[0, 0] += 1e3
    barred[-1, 1] = -np.inf
    return np.stack([*found, giant, *([barred] if tree.n > 2 else [])])


@pytest.mark.parametrize(
    "tree",
    [*(DependencyTree(n) for n in (1, 2, 3, 4)), *(Arborescence(n) for n in (1, 2, 3, 4))],
    ids=repr,
)
def test_the_game_of_trees_is_the_matrix_game_of_all_trees_for_both_players(tree):
    theta = degenerate_scores(tree, np.random.default_rng(1))
    every = tree.vertices().reshape(-1, tree.dim)
    quick, oracle = find_game(tree, Hamming()).solve(theta), DoubleOracle(tree, Hamming()).solve(theta)
    for i, scores in enumerate(theta):
        flat = scores.ravel()
        allowed = (every[:, np.isneginf(flat)] == 0).all(axis=1)
        potentials = every[allowed] @ np.where(np.isneginf(flat), 0, flat)
        costs = tree.n - every @ every[allowed].T  # answers down, truths across
        m, k = costs.shape
        predictor = linprog(
            np.append(np.zeros(m), 1.0), A_ub=np.column_stack([costs.T, -np.ones(k)]), b_ub=-potentials,
            A_eq=np.append(np.ones(m), 0.0)[None], b_eq=[1.0], bounds=[(0, None)] * m + [(None, None)],
        )  # fmt: skip
        adversary = linprog(
            np.append(-potentials, -1.0), A_ub=np.column_stack([-costs, np.ones(m)]), b_ub=np.zeros(m),
            A_eq=np.append(np.ones(k), 0.0)[None], b_eq=[1.0], bounds=[(0, None)] * k + [(None, None)],
        )  # fmt: skip
        assert predictor.fun == pytest.approx(-adversary.fun, abs=1e-6)
        size = 1e-7 * max(1.0, abs(predictor.fun))
        for found in (quick, oracle):
            assert abs(found.value[i] - predictor.fun) <= size
            p, q = found.predictor[i].ravel(), found.adversary[i].ravel()
            assert tree.violation(np.stack([p, q]).reshape(2, *tree.shape)).max() <= 1e-5
            # what each player is sure of against the best the other can do
            sure = float((tree.n - every @ q).min() + q @ np.where(q == 0, 0, flat))
            most = float((tree.n - every[allowed] @ p + potentials).max())
            assert sure <= predictor.fun + size <= most + 2 * size
            assert most - sure <= found.gap[i] + 2 * size


# -- Proposition 1 -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "population",
    [
        small_population(DependencyTree, (2, 3), 0),
        small_population(DependencyTree, (3,), 1, spread=0.3),
        small_population(Arborescence, (2, 2, 1), 2),
        small_population(Arborescence, (3, 2), 3, spread=0.1),
        replace(small_population(DependencyTree, (2, 3), 4), truths=(np.array([1.0, 0.0]), np.eye(9)[4])),  # no noise
    ],
    ids=["single root", "one input", "any root", "nearly certain", "certain"],
)
def test_proposition_1_the_norm_is_the_dual_of_the_ball_of_moments(population):
    flat = fit(population, 0.0 + 1e3)  # so large a ball holds all distributions
    assert not flat.w.any()
    for radius in (1.0, 0.2, 0.05, 0.01):
        fitted = fit(population, radius, tol=1e-6)
        low, high = primal(population, radius)
        assert high - low <= 1e-5
        # the least objective is the value of the game between distributions
        assert fitted.bound - 1e-5 <= high
        assert low <= fitted.value + 1e-5
        assert fitted.value == pytest.approx(high, abs=2e-5)
        # and the predictor of those weights is one that nobody beats in the worst case
        worst = worst_case(population, predictors(population, fitted.w), radius)
        assert worst[0] <= fitted.value + 1e-4
        assert worst[1] >= low - 1e-6
        # Theorem 2's first step
        assert np.linalg.norm(fitted.w) <= population.most_words / radius
        assert np.linalg.norm(fitted.w) <= flat.value / radius + 1e-9
    assert fitted.w.any()  # the smallest radius is no trivial one


@pytest.mark.filterwarnings("ignore::fenchel.errors.ConvergenceWarning")
def test_proposition_1_for_the_largest_coordinate_has_the_l1_penalty():
    population = small_population(DependencyTree, (2, 3), 5)
    family = DependencyTrees()
    loss = Adversarial(family, Hamming())
    means = [mu.reshape(t.shape) for t, mu in zip(population.trees, population.means, strict=True)]
    v = family.as_rows(means, "truths")[0]
    constant = float(-population.shares @ loss.omega(v))
    for radius in (0.3, 0.05):
        exact = linear_program(population, radius)
        found = Adam(tol=1e-4, max_iter=150, batch_size=2, learning_rate=0.1, random_state=0).minimize(
            Pairs(list(population.features)), loss, v, radius, penalty="l1", sample_weight=population.shares
        )
        assert found.value - found.gap + constant <= exact + 1e-7
        assert exact <= found.value + constant + 1e-7
        assert found.value + constant <= exact + 0.01


def linear_program(population, radius):
    """max over q of min over p of the risk, where no mean feature moves by more than the radius: exact."""
    counts = [len(rows) for rows in population.every]
    ends = np.concatenate([[0], np.cumsum(counts)])
    n, k = int(ends[-1]), len(counts)
    rows, equal = [], np.zeros((k, n + k))
    for i, every in enumerate(population.every):
        block = np.zeros((counts[i], n + k))
        block[:, ends[i] : ends[i + 1]] = every @ every.T - population.trees[i].n
        block[:, n + i] = 1.0
        rows.append(block)
        equal[i, ends[i] : ends[i + 1]] = 1.0
    moved = np.concatenate([s * m for s, m in zip(population.shares, population.moments, strict=True)])
    there = np.concatenate(population.truths) @ moved
    wide = np.concatenate([moved, np.zeros((k, moved.shape[1]))]).T
    found = linprog(
        np.append(np.zeros(n), -population.shares), A_ub=np.concatenate([*rows, wide, -wide]),
        b_ub=np.concatenate([np.zeros(sum(counts)), there + radius, radius - there]), A_eq=equal, b_eq=np.ones(k),
        bounds=[(0, None)] * (n + k),
    )  # fmt: skip
    return -float(found.fun)


# -- Theorem 2 ---------------------------------------------------------------------------------------------------------


def test_theorem_2_excess_worst_case_risk_of_samples_is_within_its_bound_and_falls():
    population, radius = no_majority(own=False), 0.02
    best = primal(population, radius)[0]
    means = []
    for m in (10, 90, 810):
        excess = []
        for draw in range(4):
            fitted = fit(population.sample(m, np.random.default_rng([m, draw])), radius, tol=1e-3)
            assert np.linalg.norm(fitted.w) <= population.most_words / radius
            excess.append(worst_case(population, predictors(population, fitted.w), radius)[1] - best)
        assert min(excess) >= -1e-5
        assert max(excess) <= theorem_2(population, radius, m, 0.05)
        means.append(np.mean(excess))
    assert means[1] <= means[0] / 1.5
    assert means[2] <= means[0] / 5  # the bound falls to a ninth


# -- Corollary 3 -------------------------------------------------------------------------------------------------------


def minimum_without_penalty(loss, mean, box=10.0):
    """Scores that minimise the population's loss, by cutting planes in a box; the mean tree stands for all trees."""
    size = loss.structure.dim
    rows, rights, theta, best = [], [], np.zeros(loss.structure.shape), (np.inf, None)
    for _ in range(500):
        value, slope = loss.value_and_grad(theta, mean.reshape(theta.shape))
        if value < best[0]:
            best = float(value), theta
        rows.append(np.append(slope.ravel(), -1.0))
        rights.append(float(slope.ravel() @ theta.ravel() - value))
        bounds = [(-box, box)] * size + [(None, None)]
        found = linprog(np.append(np.zeros(size), 1.0), A_ub=rows, b_ub=rights, bounds=bounds)
        if best[0] - found.fun <= 1e-7:
            return best
        theta = found.x[:size].reshape(theta.shape)
    raise AssertionError("cutting planes did not converge")


@pytest.mark.parametrize(
    ("tree", "seed"), [(DependencyTree(3), 4), (DependencyTree(3), 22), (DependencyTree(3), 34), (Arborescence(3), 1)]
)
def test_corollary_3_without_a_radius_the_answers_are_bayes_where_no_tree_has_a_majority(tree, seed):
    truth = np.random.default_rng(seed).dirichlet(np.full(tree.n_vertices, 0.7))
    assert truth.max() < 0.5
    mean = truth @ tree.vertices().reshape(-1, tree.dim)
    loss = Adversarial(tree, Hamming())
    value, theta = minimum_without_penalty(loss, mean)
    assert value <= 1e-6  # S(θ; μ) = 0: μ is a best answer of the adversary's
    bayes = tree.n - float(tree.argmax(mean.reshape(tree.shape)).ravel() @ mean)
    p = loss.output(theta).predictor
    assert tree.n - p.ravel() @ mean == pytest.approx(bayes, abs=1e-4)
    assert tree.n - tree.argmax(p).ravel() @ mean == pytest.approx(bayes, abs=1e-6)
    # the Bayes tree itself is one of the minimisers
    assert loss.value(tree.argmax(mean.reshape(tree.shape)), mean.reshape(tree.shape)) == pytest.approx(0, abs=1e-7)


@pytest.mark.parametrize("seed", [4, 22])
def test_the_hinge_does_not_know_which_of_its_answers_is_right(seed):
    population = no_majority((seed,))
    (tree,), (mean,), (truth,) = population.trees, population.means, population.truths
    hinge = fit(population, 1e-4, tol=1e-3, loss="hinge")
    theta = population.features[0] @ hinge.w
    loss, every = Hinge(tree, Hamming()), tree.vertices()

    def mean_loss(scores):
        return float(truth @ loss.value(np.broadcast_to(scores, every.shape).copy(), every))

    least = mean_loss(theta)
    assert hinge.bound <= least
    wrong = [y for y in every if tree.n - y.ravel() @ mean > best_risk(population) + 0.1]
    # as good as any score, and it answers wrongly: the best of them tie
    misled = [y for y in wrong if mean_loss(theta + 0.01 * y) <= least + 0.02]
    answers = [tree.argmax(theta + 0.01 * y) for y in misled]
    assert any(tree.n - a.ravel() @ mean > best_risk(population) + 0.1 for a in answers)


def test_the_crf_needs_its_marginals_for_a_bayes_answer():
    population = no_majority((34,))
    (tree,), (mean,) = population.trees, population.means
    theta = population.features[0] @ fit(population, 1e-5, tol=1e-5, loss="crf").w
    mu = CRF(tree).predict(theta)
    assert np.allclose(mu.ravel(), mean, atol=1e-3)  # the field's mean is the population's
    bayes = best_risk(population)
    assert tree.n - tree.argmax(mu).ravel() @ mean == pytest.approx(bayes)
    assert tree.n - tree.argmax(theta).ravel() @ mean > bayes + 0.1


def test_radii_that_shrink_more_slowly_than_the_root_of_m_approach_the_bayes_risk():
    population = no_majority()
    best, over = best_risk(population), []
    for m in (10, 300, 30_000):
        draws = []
        for draw in range(3):
            sample = population.sample(m, np.random.default_rng([m, draw]))
            draws.append(risk(population, predictors(population, fit(sample, m**-0.4, tol=1e-3).w)) - best)
        over.append(np.mean(draws))
    assert over[0] > over[1] > over[2] >= -1e-6
    assert over[2] <= 0.02
    kept = fit(population, 0.2, tol=1e-3)  # all the data there are do not help where the radius stays
    assert risk(population, predictors(population, kept.w)) - best > 0.1


# -- the experiment ----------------------------------------------------------------------------------------------------


def test_the_experiment_gives_a_whole_table(tmp_path):
    path = tmp_path / "theory.json"
    assert main(["reproduce", "robust-theory", "--quick", "--quiet", "--json", str(path)]) == 0
    result = json.loads(path.read_text())
    assert {len(row) for row in result["rows"]} == {len(result["columns"])}
    excess = result["values"]["excess"]
    assert np.mean(excess["160"]) < np.mean(excess["10"])


def test_any_number_of_roots_has_a_family_of_its_own():
    population = small_population(Arborescence, (2, 3), 6)
    assert isinstance(population.trees[0], Arborescence)
    fitted = fit(population, 0.1)
    value = sum(
        share
        * float(truth @ Adversarial(Arborescences(), Hamming()).value([x @ fitted.w] * len(truth), list(t.vertices())))
        for share, truth, x, t in zip(
            population.shares, population.truths, population.features, population.trees, strict=True
        )
    )
    assert fitted.value == pytest.approx(value + 0.1 * np.linalg.norm(fitted.w), abs=1e-6)
