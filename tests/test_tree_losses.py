"""Head selection and minimum risk over trees, written out over all trees; and what a loss that is not convex may do."""

import itertools

import numpy as np
import pytest

from fenchel import DependencyParser, TreePredictor
from fenchel.costs import Hamming
from fenchel.data import small_treebank
from fenchel.errors import ConvergenceWarning, IncompatiblePair, InvalidInput
from fenchel.losses import CRF, HeadSelection, MinimumRisk
from fenchel.scorers import Pairs
from fenchel.solvers import LBFGS, Adam, Bundle
from fenchel.structures import (
    Arborescence,
    Arborescences,
    DependencyTree,
    DependencyTrees,
    Ragged,
    Simplex,
    SpanningTree,
)

TREES = [DependencyTree(1), DependencyTree(2), DependencyTree(4), Arborescence(3), Arborescence(2, labels=2)]


def scores_of(tree, scale, seed=0):
    rng = np.random.default_rng(seed)
    theta = scale * rng.normal(size=(6, *tree.shape))
    return theta, tree.argmax(rng.normal(size=theta.shape))


@pytest.mark.parametrize("tree", TREES, ids=repr)
@pytest.mark.parametrize("scale", [0.0, 1.0, 40.0])
def test_head_selection_is_the_sum_over_all_choices_of_heads_and_above_the_crf(tree, scale):
    theta, v = scores_of(tree, scale)
    n, arcs = tree.n, [(h, label) for h in range(tree.n + 1) for label in range(tree.labels)]
    value, gradient = HeadSelection(tree).value_and_grad(theta, v)
    mu = HeadSelection(tree).predict(theta)
    for i in range(len(theta)):
        table, truth = theta[i].reshape(n, -1), v[i].reshape(n, -1)
        own = [[j for j, (h, _) in enumerate(arcs) if h != m + 1] for m in range(n)]
        # one head for each word, cycles and all
        totals = {choice: sum(table[m, c] for m, c in enumerate(choice)) for choice in itertools.product(*own)}
        top = max(totals.values())
        mass = sum(np.exp(t - top) for t in totals.values())
        assert value[i] == pytest.approx(top + np.log(mass) - (table * truth).sum(), abs=1e-9)
        expected = np.zeros_like(table)
        for choice, total in totals.items():
            expected[range(n), choice] += np.exp(total - top) / mass
        assert np.allclose(mu[i].reshape(n, -1), expected, atol=1e-12)
        assert np.allclose(gradient[i].reshape(n, -1), expected - truth, atol=1e-12)
    assert np.all(value >= CRF(tree).value(theta, v) - 1e-9)


@pytest.mark.parametrize("tree", [*TREES, SpanningTree(4)], ids=repr)
@pytest.mark.parametrize("scale", [0.0, 1.0, 40.0])
def test_minimum_risk_is_the_expected_cost_over_all_trees(tree, scale):
    theta, v = scores_of(tree, scale)
    every = tree.vertices().reshape(tree.n_vertices, -1)
    outputs = tree.decode(tree.vertices())
    value, gradient = MinimumRisk(tree, Hamming(), strength=2.0).value_and_grad(theta, v)
    for i in range(len(theta)):
        totals = every @ theta[i].ravel() / 2.0
        p = np.exp(totals - totals.max())
        p /= p.sum()
        costs = Hamming()(outputs, np.repeat(tree.decode(v[i : i + 1]), len(every), axis=0))
        assert value[i] == pytest.approx(p @ costs, abs=1e-9)
        slopes = (p * (costs - p @ costs)) @ every / 2.0
        assert np.allclose(gradient[i].ravel(), slopes, atol=1e-8 * (1 + scale))


def test_forbidden_arcs_have_no_part_in_either():
    tree = DependencyTree(3)
    theta, v = scores_of(tree, 1.0)
    barred = np.zeros(tree.shape, bool)
    barred[0, 2] = barred[2, 1] = True
    kept = (v[:, barred] == 0).all(axis=1)
    theta[:, barred] = -np.inf
    for loss in (HeadSelection(tree), MinimumRisk(tree, Hamming())):
        value, gradient = loss.value_and_grad(theta[kept], v[kept])
        assert np.isfinite(value).all()
        assert np.isfinite(gradient).all()
        assert (gradient[:, barred] == 0).all()
    every = tree.vertices()
    every = every[(every[:, barred] == 0).all(axis=1)]
    totals = np.einsum("vij,ij->v", every, np.where(barred, 0, theta[0]))
    p = np.exp(totals) / np.exp(totals).sum()
    costs = (every * (1 - v[0])).sum(axis=(1, 2))
    assert MinimumRisk(tree, Hamming()).value(theta[0], v[0]) == pytest.approx(p @ costs)
    theta[1, 2] = -np.inf
    for call in (HeadSelection(tree).predict, MinimumRisk(tree, Hamming()).predict):
        with pytest.raises(InvalidInput, match="sample 1"):
            call(theta)


def test_a_gradient_is_right_where_two_words_all_but_insist_on_each_other():
    tree, rng = DependencyTree(4), np.random.default_rng(0)
    theta = rng.normal(size=(1, *tree.shape))
    theta[0, 0, 2] = theta[0, 1, 1] = 30.0
    v = tree.encode([[2, 0, 2, 3]])
    loss = MinimumRisk(tree, Hamming())
    gradient = loss.value_and_grad(theta, v)[1]
    for i, h in itertools.product(range(4), range(5)):
        step = np.zeros_like(theta)
        step[0, i, h] = 1e-4
        slope = (loss.value(theta + step, v)[0] - loss.value(theta - step, v)[0]) / 2e-4
        assert gradient[0, i, h] == pytest.approx(slope, abs=1e-7)


def test_head_selection_is_for_directed_trees_and_minimum_risk_for_marginals_and_affine_costs():
    with pytest.raises(IncompatiblePair, match=r"directed trees.*not SpanningTree\(4\); use CRF"):
        HeadSelection(SpanningTree(4))
    with pytest.raises(IncompatiblePair, match="not Simplex"):
        HeadSelection(Simplex(3))
    from fenchel.structures import Birkhoff

    with pytest.raises(IncompatiblePair, match="marginals"):
        MinimumRisk(Birkhoff(3), Hamming())
    with pytest.raises(InvalidInput, match="strength"):
        MinimumRisk(DependencyTree(3), Hamming(), strength=0.0)


def sentences(n=12, seed=0):
    """Features of arcs and trees that follow some weights, with noise."""
    rng = np.random.default_rng(seed)
    items, trees = [], []
    for _ in range(n):
        words = int(rng.integers(1, 6))
        x = rng.normal(size=(words, words + 1, 4))
        tree = DependencyTree(words)
        items.append(x)
        trees.append(tree.decode(tree.argmax(x @ np.array([2.0, -1.0, 0.5, 0.0]) + rng.normal(size=tree.shape))))
    return items, trees


def test_a_loss_that_is_not_convex_is_trained_to_where_it_is_flat_and_has_no_gap():
    items, trees = sentences()
    structure = DependencyTrees()
    loss, v, scorer = MinimumRisk(structure, Hamming()), structure.encode(trees), Pairs(items)
    found = LBFGS(tol=1e-6).minimize(scorer, loss, v, 0.1)
    assert found.converged
    assert found.gap == np.inf

    def whole(w):
        return float(loss.value(scorer.scores(w), v).mean() + 0.05 * w @ w)

    assert found.value == pytest.approx(whole(found.w))
    for step in np.eye(4) * 1e-4:
        assert abs(whole(found.w + step) - whole(found.w - step)) / 2e-4 < 1e-5
        assert whole(found.w + 100 * step) > found.value
    for solver in (Bundle(), Adam()):
        with pytest.raises(IncompatiblePair, match=r"needs a convex loss.*MinimumRisk.*is not; use LBFGS"):
            solver.minimize(scorer, loss, v, 0.1)
    with pytest.warns(ConvergenceWarning, match="not flat to tol"):
        LBFGS(tol=1e-9, max_iter=1).minimize(scorer, loss, v, 0.1)
    radius = LBFGS(tol=1e-5).minimize(scorer, loss, v, 0.05, penalty="norm")
    assert radius.converged


def test_predictors_of_trees_take_them():
    items, trees = sentences(40)
    fresh, truths = sentences(60, seed=1)
    for kind in ("single_root", "multi_root"):
        for loss in ("head-selection", "minimum-risk", "softmax-margin"):
            model = TreePredictor(loss, kind=kind, alpha=1e-2).fit(items, trees)
            assert model.converged_
            assert (model.dual_gap_ == np.inf) == (loss == "minimum-risk")
            assert model.score(fresh, truths) > 0.6
            for answer in (model.predict(fresh), model.set_params(decoding="weights").fit(items, trees).predict(fresh)):
                for heads in answer:
                    (DependencyTree if kind == "single_root" else Arborescence)(len(heads)).encode(heads)
    with pytest.raises(IncompatiblePair, match="HeadSelection lets each word choose its head"):
        TreePredictor("head-selection", kind="undirected").fit([np.zeros((2, 2, 1))], [[(0, 1)]])
    # it starts from the field's weights, so it does not end above them
    risk = TreePredictor("minimum-risk", alpha=1e-2, tol=1e-6).fit(items, trees)
    field = TreePredictor("crf", alpha=1e-2).fit(items, trees)
    structure = DependencyTrees()
    at = MinimumRisk(structure, Hamming()).value(Pairs(items).scores(field.coef_), structure.encode(trees)).mean()
    assert risk.objective_ <= at + 0.005 * field.coef_ @ field.coef_


def test_parsers_of_head_selection_have_words_that_choose_by_themselves():
    train, test = small_treebank(40, random_state=0), small_treebank(30, random_state=1)
    parser = DependencyParser("head-selection", alpha=0.1, labels=False).fit(train)
    for s, mu in zip(test, parser.predict_marginals(test), strict=True):
        assert np.allclose(mu.sum(axis=1), 1)
        assert np.all(mu[np.arange(len(s)), np.arange(1, len(s) + 1)] == 0)
    assert parser.score(test) > 0.85
    rows = parser._rows(test)
    flat = parser._scorer((rows, test), parser.loss_).scores(parser.coef_)
    assert isinstance(flat, Ragged)
    roots = [mu[:, 0].sum() for mu in parser.predict_marginals(test)]
    assert not np.allclose(roots, 1)  # nothing but the answer knows of a single root


def test_families_of_labelled_trees():
    trees = Arborescences(labels=2)
    y = [[[0, 1]], [[0, 0], [1, 1]]]
    theta = [np.zeros((1, 2, 2)), np.zeros((2, 3, 2))]
    value = HeadSelection(trees).value(theta, [trees.kind(len(t), 2).encode(t) for t in y])
    assert np.allclose(value, [np.log(2), 2 * np.log(4)])
