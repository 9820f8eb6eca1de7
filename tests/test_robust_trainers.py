"""The compiled game of trees, bilinear scores of arcs, and the three trainers of the moment-robust loss."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fenchel import DependencyParser
from fenchel.costs import Hamming
from fenchel.data import small_treebank
from fenchel.errors import IncompatiblePair, InvalidInput
from fenchel.losses import CRF, Adversarial
from fenchel.losses.games import find_game
from fenchel.losses.games.double_oracle import DoubleOracle, DoubleOracles
from fenchel.losses.games.smoothed import SmoothedGame
from fenchel.losses.games.tree import TreeGame
from fenchel.scorers import Bilinear, Pairs
from fenchel.solvers import LBFGS, DualFrankWolfe
from fenchel.structures import Arborescence, Arborescences, DependencyTree, DependencyTrees
from fenchel.structures.base import Accuracy

# -- the game ----------------------------------------------------------------------------------------------------------


@given(
    n=st.integers(1, 7),
    single=st.booleans(),
    scale=st.sampled_from([0.0, 1e-3, 0.3, 1.0, 4.0, 30.0, 1e3]),
    seed=st.integers(0, 2**32 - 1),
    whole=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_both_players_are_certified_by_best_answers(n, single, scale, seed, whole):
    tree = (DependencyTree if single else Arborescence)(n)
    rng = np.random.default_rng(seed)
    theta = scale * rng.normal(size=(3, *tree.shape))
    if whole:
        theta = np.round(theta)  # ties
    found = TreeGame(tree, Hamming()).solve(theta)
    assert found.converged.all()
    lower = n - (tree.argmax(found.adversary) * found.adversary).sum(axis=(1, 2))
    own = np.zeros(tree.shape, bool)
    own[np.arange(n), np.arange(1, n + 1)] = True
    free = np.where(own, 0.0, theta)
    upper = n + (tree.argmax(theta - found.predictor) * (free - found.predictor)).sum(axis=(1, 2))
    allowed = 1e-8 * (1 + scale) * n
    np.testing.assert_allclose(lower + (free * found.adversary).sum(axis=(1, 2)), found.value, atol=allowed)
    assert np.all(upper <= found.value + found.gap + allowed)
    for point in (found.adversary, found.predictor):
        np.testing.assert_allclose(point.sum(axis=2), 1.0, atol=1e-9)
        assert point.min() >= 0
        if single:
            np.testing.assert_allclose(point[:, :, 0].sum(axis=1), 1.0, atol=1e-9)


@pytest.mark.parametrize("smoothing", [0.02, 0.3, 2.0])
def test_the_smoothed_game_is_that_of_accelerated_steps(smoothing):
    rng = np.random.default_rng(3)
    tree = DependencyTree(5)
    theta = rng.normal(size=(4, *tree.shape)) * np.array([0.1, 1.0, 3.0, 10.0])[:, None, None]
    game = find_game(tree, Hamming(), smoothing)
    assert isinstance(game, TreeGame)
    found = game.solve(theta)
    expected = SmoothedGame(tree, Hamming(), smoothing).solve(theta, Accuracy(tol=1e-8))
    np.testing.assert_allclose(found.value, expected.value, atol=1e-7)
    np.testing.assert_allclose(found.adversary, expected.adversary, atol=2e-3)
    np.testing.assert_allclose(found.predictor, expected.predictor, atol=2e-3)


def test_sentences_of_any_length_are_played_as_each_alone_and_go_on_from_where_they_ended():
    rng = np.random.default_rng(4)
    theta = [rng.normal(size=(n, n + 1)) for n in (9, 1, 4, 12, 2)]
    game = find_game(DependencyTrees(), Hamming())
    rows, _ = DependencyTrees().as_rows(theta, "scores")
    found = game.solve(rows)
    for i, scores in enumerate(theta):
        alone = find_game(DependencyTree(len(scores)), Hamming()).solve(scores[None])
        assert found.value[i] == pytest.approx(alone.value[0], abs=1e-9)
    again = game.solve(rows, Accuracy(tol=1e-6), found.state)
    assert not again.n_iter.any()
    moved = rows.like(rows.flat + 1e-3 * rng.normal(size=rows.flat.shape))
    warm, cold = game.solve(moved, Accuracy(tol=1e-4), found.state), game.solve(moved, Accuracy(tol=1e-4))
    assert warm.converged.all()
    np.testing.assert_allclose(warm.value, cold.value, atol=2e-4)
    assert warm.n_iter.sum() < cold.n_iter.sum()


def test_the_double_oracle_can_be_asked_for():
    rng = np.random.default_rng(5)
    theta = [rng.normal(size=(n, n + 1)) for n in (3, 4, 3)]
    truths = [DependencyTree(len(t)).argmax(rng.normal(size=t.shape)) for t in theta]
    by_trees = Adversarial(DependencyTrees(), Hamming(), method="double_oracle")
    assert isinstance(by_trees.game, DoubleOracles)
    assert isinstance(Adversarial(DependencyTree(3), Hamming(), method="double_oracle").game, DoubleOracle)
    by_arcs = Adversarial(DependencyTrees(), Hamming())
    np.testing.assert_allclose(by_trees.value(theta, truths), by_arcs.value(theta, truths), atol=1e-8)
    with pytest.raises(IncompatiblePair, match="without smoothing, but smoothing is 0.1"):
        Adversarial(DependencyTrees(), Hamming(), 0.1, method="double_oracle")
    with pytest.raises(InvalidInput, match="method is 'oracle'"):
        Adversarial(DependencyTrees(), Hamming(), method="oracle")


def test_forbidden_arcs_are_left_to_the_double_oracle():
    theta = np.zeros((1, 3, 4))
    theta[0, 0, 0] = -np.inf
    found = find_game(DependencyTree(3), Hamming()).solve(theta)
    assert found.converged.all()
    assert found.adversary[0, 0, 0] == 0
    assert found.value[0] == pytest.approx(DoubleOracle(DependencyTree(3), Hamming()).solve(theta).value[0], abs=1e-8)


# -- bilinear scores ---------------------------------------------------------------------------------------------------


def sentences(rng, sizes, a=3, b=2):
    return [rng.normal(size=(n, a)) for n in sizes], [rng.normal(size=(n + 1, b)) for n in sizes]


def test_bilinear_scores_are_linear_ones_of_outer_products():
    rng = np.random.default_rng(6)
    words, heads = sentences(rng, (4, 1, 3))
    scorer = Bilinear(words, heads)
    arcs = Pairs(
        [np.einsum("ma,hb->mhab", x, z).reshape(len(x), len(z), -1) for x, z in zip(words, heads, strict=True)]
    )
    w = rng.normal(size=(3, 2))
    for idx in (None, np.array([2, 0]), slice(0, 2)):
        theta = scorer.scores(w, idx)
        np.testing.assert_allclose(theta.flat, arcs.scores(w.ravel(), idx).flat)
        residual = theta.like(rng.normal(size=theta.flat.shape))
        np.testing.assert_allclose(scorer.adjoint(residual, idx).ravel(), arcs.adjoint(residual, idx))
        np.testing.assert_allclose(scorer.quadratic(residual, idx), arcs.quadratic(residual, idx))
    part = scorer.take([2, 1])
    np.testing.assert_allclose(part.scores(w).flat, scorer.scores(w, np.array([2, 1])).flat)
    single = Bilinear([x.astype(np.float32) for x in words], [z.astype(np.float32) for z in heads])
    assert single.scores(w).flat.dtype == np.float32
    assert single.adjoint(single.scores(w)).dtype == np.float64


def test_bilinear_features_that_do_not_fit_are_named():
    with pytest.raises(InvalidInput, match=r"sample 1 have shapes \(2, 3\) for words and \(2, 2\) for heads"):
        Bilinear([np.ones((1, 3)), np.ones((2, 3))], [np.ones((2, 2)), np.ones((2, 2))])
    with pytest.raises(
        InvalidInput, match="words and heads of sample 1 have 4 and 2 features, but those of sample 0 3"
    ):
        Bilinear([np.ones((1, 3)), np.ones((2, 4))], [np.ones((2, 2)), np.ones((3, 2))])
    with pytest.raises(InvalidInput, match="words of 1 sentences, but of heads of 0"):
        Bilinear([np.ones((1, 3))], [])


# -- trainers ----------------------------------------------------------------------------------------------------------


def test_steps_on_the_dual_end_where_steps_on_the_weights_do():
    rng = np.random.default_rng(7)
    words, heads = sentences(rng, (5, 3, 6, 4))
    scorer, trees = Bilinear(words, heads), DependencyTrees()
    truths = trees._argmax(trees.as_rows([rng.normal(size=(n, n + 1)) for n in (5, 3, 6, 4)], "scores")[0])
    loss = Adversarial(trees, Hamming(), smoothing=0.5)
    by_weights = LBFGS(tol=1e-8).minimize(scorer, loss, truths, 0.5)
    by_points = DualFrankWolfe(tol=1e-2, max_iter=5000).minimize(scorer, loss, truths, 0.5)
    assert by_points.converged
    assert by_points.value - by_points.gap <= by_weights.value <= by_points.value + 1e-9
    values, gaps = np.array([(value, gap) for _, value, gap in by_points.history]).T
    assert np.all(values >= by_weights.value - 1e-8)
    assert np.all(values - gaps <= by_weights.value + 1e-8)
    more = DualFrankWolfe(tol=1e-2).minimize(scorer, loss, truths, 0.5, dual=by_points.dual)
    assert more.n_iter == 0


def test_steps_on_the_dual_need_an_omega_with_a_gradient():
    words, heads = sentences(np.random.default_rng(8), (3,))
    truths = DependencyTrees()._argmax(Bilinear(words, heads).scores(np.ones((3, 2))))
    for loss in (Adversarial(DependencyTrees(), Hamming()), CRF(Arborescences())):
        with pytest.raises(IncompatiblePair, match="needs the gradient of Ω"):
            DualFrankWolfe().minimize(Bilinear(words, heads), loss, truths, 0.1)
    with pytest.raises(InvalidInput, match="alpha is 0"):
        DualFrankWolfe().minimize(Bilinear(words, heads), Adversarial(DependencyTrees(), Hamming(), 0.1), truths, 0.0)


def test_the_three_trainers_of_the_parser_agree():
    train, test = small_treebank(12, random_state=0), small_treebank(40, random_state=1)
    options = {"alpha": 0.3, "labels": False, "tol": 2e-2, "max_iter": 3000}
    smooth = DependencyParser("robust-stochastic", **options).fit(train)
    dual = DependencyParser("robust-marginal", **options).fit(train)
    plain = DependencyParser("robust-stochastic", smoothing=0.0, **options).fit(train)
    game = DependencyParser("robust-game", **options).fit(train)
    for one, other in ((smooth, dual), (plain, game)):
        assert one.objective_ - one.dual_gap_ <= other.objective_ + 1e-9
        assert other.objective_ - other.dual_gap_ <= one.objective_ + 1e-9
    for parser in (smooth, dual, plain, game):
        assert parser.dual_gap_ <= 2e-2 * parser.objective_
        assert parser.score(test) > 0.9
        assert parser.coef_.shape == (2**18,)


def test_parsers_refuse_what_their_trainer_cannot_do():
    train = small_treebank(5, random_state=0)
    with pytest.raises(InvalidInput, match="smoothing"):
        DependencyParser("robust-marginal", smoothing=0.0).fit(train)
    with pytest.raises(IncompatiblePair, match="without smoothing"):
        DependencyParser("robust-game", smoothing=0.1).fit(train)
    with pytest.raises(InvalidInput, match="inner_tol"):
        DependencyParser("robust-stochastic", inner_tol=-1.0).fit(train)
