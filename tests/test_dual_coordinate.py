"""Dual coordinate ascent: its certificate, against the bundle method, with and without a kernel."""

from dataclasses import dataclass

import numpy as np
import pytest

from fenchel import AdversarialClassifier, MarginClassifier
from fenchel.costs import Absolute, Abstain, CostMatrix, ZeroOne
from fenchel.errors import IncompatiblePair, InvalidInput
from fenchel.kernels.dual_coordinate import along_face, find_faces, into_domain
from fenchel.losses import (
    Adversarial,
    CostSensitiveOneVsAll,
    CostSensitiveOneVsOne,
    CrammerSinger,
    LeeLinWahba,
    OneSidedRegression,
    OneVsAll,
    ThresholdReduction,
    WestonWatkins,
)
from fenchel.losses.margins.hinges import HingeTable
from fenchel.scorers import Kernel, Linear, Thresholds
from fenchel.scorers.kernel import Expansion
from fenchel.solvers import Bundle, DualCoordinate
from fenchel.structures import OrderSimplex, Simplex


@dataclass(frozen=True)
class BothWays(HingeTable):
    """Hinges that push each score up and down at once, with a flat part between or without."""

    structure: Simplex

    def _tables(self):
        rng = np.random.default_rng(3)
        up, down = rng.random((4, 4)), rng.random((4, 4))
        return up, down, rng.normal(size=(4, 4)), rng.normal(size=(4, 4))


S = Simplex(4)
LOSSES = [
    Adversarial(S, ZeroOne()),
    Adversarial(S, Abstain(0.5)),
    Adversarial(S, Abstain(0.3)),
    Adversarial(S, Abstain(0.7)),
    Adversarial(S, Abstain(0.9)),
    CrammerSinger(S),
    WestonWatkins(S),
    LeeLinWahba(S),
    OneVsAll(S),
    OneSidedRegression(S, Absolute()),
    CostSensitiveOneVsAll(S, Absolute()),
    CostSensitiveOneVsOne(S, Absolute()),
    ThresholdReduction(OrderSimplex(4), Absolute()),
    BothWays(S),
]
LOSSES_IDS = [f"{type(loss).__name__}-{getattr(getattr(loss, 'cost', None), 'price', '')}" for loss in LOSSES]


def problem(n=60, d=4, k=4):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    X[5] = X[6] = X[7]  # and their classes differ: they cannot all be right
    return X, (X @ rng.normal(size=(d, k)) + rng.gumbel(size=(n, k))).argmax(axis=1)


def scorers(X, shape):
    by_coordinates = Kernel(X, shape, kernel="rbf", params={"gamma": 0.3}, intercept_scaling=0.7)
    gram = np.exp(-0.3 * ((X[:, None] - X) ** 2).sum(axis=2))
    return by_coordinates, Expansion(gram, shape, np.arange(len(X)), intercept_scaling=0.7)


@pytest.mark.parametrize("loss", LOSSES, ids=LOSSES_IDS)
@pytest.mark.parametrize("weighted", [False, True])
def test_it_meets_the_bundle_method_with_a_kernel_and_without(loss, weighted):
    X, y = problem()
    v = loss.structure.encode(y)
    weights = np.random.default_rng(1).integers(0, 4, len(X)).astype(float) if weighted else None
    coordinates, expansion = scorers(X, loss.structure.shape)
    linear = Linear(X, loss.structure.shape, intercept_scaling=0.7)
    for scorer, reference, alpha in (
        (linear, linear, 0.1),
        (expansion, coordinates, 0.1),
        (expansion, coordinates, 1e-4),
    ):
        found = DualCoordinate(tol=1e-7, random_state=0).minimize(scorer, loss, v, alpha, sample_weight=weights)
        assert found.converged
        assert found.n_iter == len(found.history) - 1
        least = Bundle(tol=1e-4).minimize(reference, loss, v, alpha, sample_weight=weights)
        assert found.value - found.gap <= least.value + 1e-12
        assert least.value - least.gap <= found.value + 1e-12
        for _, value, gap in found.history:
            assert value - gap <= found.value + 1e-9
        # the value is that of the weights, by the loss itself
        share = np.full(len(X), 1 / len(X)) if weights is None else weights / weights.sum()
        theta = scorer.scores(found.w)
        penalty = scorer.penalty(found.w)
        if scorer is expansion:
            penalty = 0.5 * (np.vdot(found.w[:-1], scorer.X @ found.w[:-1]) + np.vdot(found.w[-1], found.w[-1]))
        assert share @ loss.value(theta, v) + alpha * penalty == pytest.approx(found.value, rel=1e-8)
        np.testing.assert_allclose(reference.scores(least.w), theta, atol=0.3)


@pytest.mark.parametrize("loss", LOSSES, ids=LOSSES_IDS)
def test_dual_variables_of_another_alpha_are_a_start(loss):
    X, y = problem()
    v = loss.structure.encode(y)
    _, scorer = scorers(X, loss.structure.shape)
    solver = DualCoordinate(tol=1e-6, random_state=0)
    first = solver.minimize(scorer, loss, v, 1e-2)
    again = solver.minimize(scorer, loss, v, 1e-2, dual=first.dual)
    assert again.n_iter == 0
    assert again.value == pytest.approx(first.value, rel=1e-9)
    cold, warm = solver.minimize(scorer, loss, v, 3e-3), solver.minimize(scorer, loss, v, 3e-3, dual=first.dual)
    assert warm.converged
    assert warm.value == pytest.approx(cold.value, rel=3e-6)
    # of other truths they are none
    other = solver.minimize(scorer, loss, v[::-1].copy(), 1e-2, dual=first.dual)
    assert other.history[0][1] == pytest.approx(solver.minimize(scorer, loss, v[::-1].copy(), 1e-2).history[0][1])


@pytest.mark.parametrize("loss", LOSSES, ids=LOSSES_IDS)
def test_duals_lie_in_the_domain_and_faces_are_flat(loss):
    """L*(r) + L(θ) ≥ ⟨r, θ⟩ for every θ, with equality somewhere; along a face L* is linear with the slope that is said."""
    X, y = problem()
    rule = loss.move_rule()
    _, scorer = scorers(X, loss.structure.shape)
    dual = DualCoordinate(tol=1e-3, random_state=0).minimize(scorer, loss, loss.structure.encode(y), 1e-3).dual
    r, conjugate = dual.residual, dual.conjugate
    rng = np.random.default_rng(2)
    v = loss.structure.encode(y)
    for _ in range(50):
        theta = 3 * rng.normal(size=r.shape)
        assert ((r * theta).sum(axis=1) <= conjugate + loss.value(theta, v) + 1e-9).all()
    inside, again = r.copy(), np.empty(len(r))
    into_domain(inside, y, rule.kind, rule.price, *rule.tables, again)
    np.testing.assert_allclose(inside, r, atol=1e-12)
    np.testing.assert_allclose(again, conjugate, atol=1e-9)
    labels, slopes, dimension = np.empty(r.shape, np.int8), np.empty(r.shape), np.empty(len(r), int)
    find_faces(r, y, rule.kind, rule.price, *rule.tables, labels, slopes, dimension)
    assert dimension.max() > 0
    move = rng.normal(size=r.shape)
    along_face(labels, rule.kind == 2, move)
    assert not move[dimension == 0].any()
    step = 1e-9 * move / max(np.abs(move).max(), 1)
    moved = r + step
    into_domain(moved, y, rule.kind, rule.price, *rule.tables, again)
    np.testing.assert_allclose(moved, r + step, atol=1e-14)  # it stays inside
    np.testing.assert_allclose(again - conjugate, (slopes * step).sum(axis=1), atol=1e-14)


def test_small_alphas_and_inputs_much_alike_are_solved():
    """What moves of one example at a time alone leave open after a thousand sweeps."""
    X, y = problem(n=150)
    loss = Adversarial(S, ZeroOne())
    gram = np.exp(-(2.0**-10) * ((X[:, None] - X) ** 2).sum(axis=2))
    scorer = Expansion(gram, (4,), np.arange(len(X)), intercept_scaling=1.0)
    for alpha in (1e-4, 1e-6):
        assert DualCoordinate(tol=1e-2, random_state=0).minimize(scorer, loss, S.encode(y), alpha).converged


def test_what_it_cannot_do_is_refused():
    X, y = problem()
    v = S.encode(y)
    with pytest.raises(IncompatiblePair, match="exact moves"):
        DualCoordinate().minimize(Linear(X, (4,)), Adversarial(S, CostMatrix(np.ones((4, 4)) - np.eye(4))), v, 0.1)
    with pytest.raises(InvalidInput, match="alpha is 0"):
        DualCoordinate().minimize(Linear(X, (4,)), CrammerSinger(S), v, 0.0)
    loss = ThresholdReduction(OrderSimplex(4), Absolute())
    with pytest.raises(IncompatiblePair, match="Thresholds"):
        DualCoordinate().minimize(Thresholds(Linear(X, ()), 4), loss, loss.structure.encode(y), 0.1)
    sparse = pytest.importorskip("scipy.sparse")
    with pytest.raises(IncompatiblePair, match="sparse rows"):
        DualCoordinate().minimize(Linear(sparse.csr_matrix(X), (4,)), CrammerSinger(S), v, 0.1)
    bad = Expansion(-np.eye(len(X)), (4,), np.arange(len(X)))
    with pytest.raises(InvalidInput, match="positive semi-definite"):
        DualCoordinate().minimize(bad, CrammerSinger(S), v, 0.1)


@pytest.mark.parametrize(
    "model",
    [AdversarialClassifier(), AdversarialClassifier(abstain=0.3), MarginClassifier("weston_watkins")],
    ids=["zero-one", "abstain", "weston-watkins"],
)
def test_classifiers_with_a_kernel_take_it(model):
    X, y = problem()
    model.set_params(kernel="rbf", kernel_params={"gamma": 0.3}, alpha=1e-3, tol=1e-5, random_state=0)
    model.fit(X, y)
    scores, objective, gap = model.decision_function(X[:9] + 0.1), model.objective_, model.dual_gap_
    assert model.weights_.shape == (len(X) + 1, 4)  # coefficients of inputs, and the intercept
    other = model.set_params(solver="bundle").fit(X, y)
    assert abs(objective - other.objective_) <= gap + other.dual_gap_
    np.testing.assert_allclose(scores, other.decision_function(X[:9] + 0.1), atol=0.1)
    model.set_params(solver="auto", alpha="cv", tol=1e-3).fit(X, y)
    chosen = model.alpha_
    assert model.set_params(solver="bundle").fit(X, y).alpha_ == chosen


def test_a_kernel_matrix_and_going_on():
    X, y = problem()
    gram = X @ X.T
    model = AdversarialClassifier(kernel="precomputed", alpha=0.01, tol=1e-6, warm_start=True, random_state=0).fit(
        gram, y
    )
    linear = AdversarialClassifier(alpha=0.01, tol=1e-6).fit(X, y)
    assert model.objective_ == pytest.approx(linear.objective_, rel=1e-5)
    np.testing.assert_allclose(model.decision_function(gram[:7]), linear.decision_function(X[:7]), atol=0.02)
    assert model.fit(gram, y).n_iter_ == 1
    with pytest.raises(InvalidInput, match="not symmetric"):
        AdversarialClassifier(kernel=lambda A, B: A @ np.roll(B, 1, axis=1).T).fit(X, y)
