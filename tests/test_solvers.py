"""Certificates are true, solvers agree, and every way of training tells the same story."""

import os
import signal
import threading
import time

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from fenchel.costs import Absolute, Hamming, ZeroOne
from fenchel.errors import ConvergenceWarning, IncompatiblePair, InvalidInput
from fenchel.losses import FenchelYoung, Hinge, Perceptron
from fenchel.optim.lbfgs import lbfgs
from fenchel.scorers import Linear
from fenchel.solvers import LBFGS, BlockFrankWolfe
from fenchel.structures import Birkhoff, Cube, Oracle, OrderSimplex, Product, Reals, Simplex


def problem(structure, n=60, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    theta = rng.normal(size=(n, *structure.shape)) + (X @ rng.normal(size=(d, structure.dim))).reshape(
        n, *structure.shape
    )
    v = structure.argmax(theta) if structure.supports("argmax") else structure.project(theta)
    return X, v


LOSSES = [
    FenchelYoung(Simplex(4), "euclidean"),
    FenchelYoung(Simplex(4), "kl", strength=0.5, multiplier=3.0),
    FenchelYoung(Cube(3), "euclidean", strength=2.0),
    FenchelYoung(Cube(3), "gibbs"),
    FenchelYoung(OrderSimplex(4), "kl"),
    FenchelYoung(Product(Simplex(3), 2), "euclidean", multiplier=0.5),
    FenchelYoung(Reals(3), "euclidean"),
]


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("weighted", [False, True])
class TestSolversAgree:
    def test_on_the_minimum_and_the_gap_is_a_bound(self, loss, weighted):
        X, v = problem(loss.structure)
        weights = np.random.default_rng(1).integers(0, 4, len(X)).astype(float) if weighted else None
        scorer = Linear(X, loss.structure.shape, intercept_scaling=2.0)
        best = LBFGS(tol=1e-12).minimize(scorer, loss, v, 0.1, sample_weight=weights)
        for solver in (
            LBFGS(tol=1e-3),
            BlockFrankWolfe(tol=1e-3, random_state=0),
            BlockFrankWolfe(tol=1e-3, block_size=7, random_state=0),
        ):
            result = solver.minimize(scorer, loss, v, 0.1, sample_weight=weights)
            assert result.converged
            excess = result.value - best.value
            assert -1e-12 <= excess <= result.gap + 1e-12
            assert result.gap <= 1e-3 * result.value
            for _, value, gap in result.history:  # the certificate holds at every iterate, not only the last
                assert value - best.value <= gap + 1e-12

    def test_integer_weights_are_repeated_rows(self, loss, weighted):
        X, v = problem(loss.structure)
        counts = np.random.default_rng(2).integers(0, 4, len(X))
        solver = LBFGS(tol=1e-13)
        one = solver.minimize(
            Linear(X, loss.structure.shape), loss, v, 0.1, sample_weight=counts * (2.5 if weighted else 1)
        )
        rows = np.repeat(np.arange(len(X)), counts)
        other = solver.minimize(Linear(X[rows], loss.structure.shape), loss, v[rows], 0.1)
        assert np.allclose(one.w, other.w, atol=1e-5)
        assert np.isclose(one.value, other.value, rtol=1e-10)

    def test_integer_weights_are_repeated_rows_in_blocks_too(self, loss, weighted):
        """The gap bounds the distance of the weights, alpha/2 ||w - w*||² <= gap."""
        X, v = problem(loss.structure)
        counts = np.random.default_rng(2).integers(0, 4, len(X))
        solver = BlockFrankWolfe(tol=1e-3, random_state=0)
        one = solver.minimize(
            Linear(X, loss.structure.shape), loss, v, 0.1, sample_weight=counts * (2.5 if weighted else 1)
        )
        rows = np.repeat(np.arange(len(X)), counts)
        other = LBFGS(tol=1e-12).minimize(Linear(X[rows], loss.structure.shape), loss, v[rows], 0.1)
        assert 0 <= one.value - other.value + 1e-12 <= one.gap + 2e-12
        assert 0.05 * np.square(one.w - other.w).sum() <= one.gap + 1e-12

    def test_on_sparse_rows(self, loss, weighted):
        X, v = problem(loss.structure)
        X = np.where(np.abs(X) < 0.8, 0, X)
        weights = np.linspace(0.5, 2, len(X)) if weighted else None
        for solver in (LBFGS(tol=1e-13), BlockFrankWolfe(tol=1e-3, random_state=0)):
            dense = solver.minimize(
                Linear(X, loss.structure.shape, intercept_scaling=1.0), loss, v, 0.1, sample_weight=weights
            )
            sparse = solver.minimize(
                Linear(sp.csr_array(X), loss.structure.shape, intercept_scaling=1.0),
                loss,
                v,
                0.1,
                sample_weight=weights,
            )
            assert np.allclose(dense.w, sparse.w, atol=1e-5)  # only dense inputs are preconditioned


@given(st.integers(1, 40), st.integers(1, 6), st.integers(0, 10**6), st.booleans())
@settings(deadline=None, max_examples=40)
def test_scorer_and_adjoint_are_transposes(n, d, seed, intercept):
    rng = np.random.default_rng(seed)
    X, shape = rng.normal(size=(n, d)), (2, 3)
    for rows in (X, sp.csr_array(X), np.asfortranarray(X)):
        scorer = Linear(rows, shape, intercept_scaling=1.7 if intercept else None)
        w, r = rng.normal(size=scorer.weights_shape), rng.normal(size=(n, *shape))
        assert np.isclose(np.vdot(scorer.scores(w), r), np.vdot(w, scorer.adjoint(r)))
        idx = rng.integers(0, n, size=3)
        assert np.allclose(scorer.scores(w, idx), scorer.scores(w)[idx])
        alone = [scorer.adjoint(r[i : i + 1], np.array([i])) for i in range(n)]
        assert np.allclose(sum(alone), scorer.adjoint(r))
        assert np.allclose(scorer.quadratic(r), [np.vdot(a, a) for a in alone])


@pytest.mark.parametrize(
    "loss",
    [
        Hinge(Simplex(4), ZeroOne()),
        Hinge(OrderSimplex(4), Absolute()),
        Hinge(Birkhoff(3), Hamming()),
        Perceptron(Cube(3)),
    ],
    ids=repr,
)
def test_losses_with_kinks_are_solved_to_a_true_gap(loss):
    X, v = problem(loss.structure)
    scorer = Linear(X, loss.structure.shape, intercept_scaling=1.0)
    best = BlockFrankWolfe(tol=1e-3, max_iter=3000, random_state=0).minimize(scorer, loss, v, 0.1)
    lower = best.value - best.gap
    rough = BlockFrankWolfe(tol=0.05, block_size=5, random_state=1).minimize(scorer, loss, v, 0.1)
    for _, value, gap in rough.history:
        assert value >= lower - 1e-12
        assert value - best.value <= gap + 1e-12
    rng = np.random.default_rng(0)
    for _ in range(20):  # no weights nearby do better than the certificate allows
        w = best.w + 0.05 * rng.normal(size=best.w.shape)
        value = loss.value(scorer.scores(w), v).mean() + 0.05 * np.vdot(w, w)
        assert value >= lower - 1e-12


def test_the_multiclass_hinge_is_crammer_and_singers():
    from sklearn.svm import LinearSVC

    X, v = problem(Simplex(3), n=80, d=3)
    y = v.argmax(axis=1)
    alpha = 0.05
    ours = BlockFrankWolfe(tol=5e-5, max_iter=5000, random_state=0).minimize(
        Linear(X, (3,)), Hinge(Simplex(3), ZeroOne()), v, alpha
    )
    theirs = LinearSVC(
        multi_class="crammer_singer", C=1 / (alpha * len(y)), fit_intercept=False, tol=1e-8, max_iter=10**6
    )
    w = theirs.fit(X, y).coef_.T
    value = Hinge(Simplex(3), ZeroOne()).value(X @ w, v).mean() + alpha / 2 * np.vdot(w, w)
    assert np.isclose(ours.value, value, rtol=1e-4)


def test_products_do_not_depend_on_threads():
    import fenchel

    rng = np.random.default_rng(0)
    scorer = Linear(rng.normal(size=(30_000, 40)), (10,), intercept_scaling=1.0)
    w, r = rng.normal(size=(41, 10)), rng.normal(size=(30_000, 10))
    before = fenchel.set_threads(1)
    results = []
    for n in (1, 2, 3):
        fenchel.set_threads(n)
        results.append((scorer.scores(w), scorer.adjoint(r)))
    fenchel.set_threads(before)
    for theta, gradient in results[1:]:
        assert np.array_equal(theta, results[0][0])
        assert np.array_equal(gradient, results[0][1])
    assert np.allclose(results[0][0], scorer.X @ w[:-1] + w[-1])


class TestStopping:
    loss = FenchelYoung(Simplex(4), "kl")

    @pytest.mark.parametrize(
        "solver", [LBFGS(max_iter=2, tol=1e-10), BlockFrankWolfe(max_iter=2, tol=1e-10, random_state=0)]
    )
    def test_too_few_iterations_warn_with_the_gap(self, solver):
        X, v = problem(self.loss.structure)
        with pytest.warns(ConvergenceWarning, match=r"stopped after 2 iterations with the duality gap") as caught:
            result = solver.minimize(Linear(X, (4,)), self.loss, v, 1e-3)
        assert caught[0].filename == __file__
        assert not result.converged
        assert result.n_iter == 2

    @pytest.mark.parametrize("solver", [LBFGS(tol=1e-10), BlockFrankWolfe(tol=1e-10, random_state=0)])
    def test_a_callback_can_stop_it(self, solver):
        X, v = problem(self.loss.structure)
        seen = []

        def callback(progress):
            seen.append(progress)
            return len(seen) == 3

        result = solver.minimize(Linear(X, (4,)), self.loss, v, 1e-3, callback=callback)
        assert result.stopped
        assert not result.converged
        assert len(seen) == 3
        assert np.array_equal(result.w, seen[-1].w)

    @pytest.mark.parametrize("solver", [LBFGS(tol=1e-10), BlockFrankWolfe(tol=1e-10, random_state=0)])
    def test_ctrl_c_keeps_the_weights_so_far(self, solver):
        X, v = problem(self.loss.structure)

        def callback(progress):
            if progress.n_iter == 2:
                raise KeyboardInterrupt

        result = solver.minimize(Linear(X, (4,)), self.loss, v, 1e-3, callback=callback)
        assert result.interrupted
        assert not result.converged
        assert result.n_iter == 2
        assert np.abs(result.w).max() > 0

    @pytest.mark.parametrize("solver", [LBFGS(tol=1e-300), BlockFrankWolfe(tol=1e-300, random_state=0)])
    def test_a_signal_in_the_middle_of_the_work(self, solver, request):
        """Ctrl-C as it comes: from outside, at any place; the weights so far have a true certificate."""
        before = signal.signal(signal.SIGINT, signal.default_int_handler)  # shells have background jobs ignore it
        request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
        X, v = problem(self.loss.structure, n=500)
        scorer = Linear(X, (4,))
        best = LBFGS(tol=1e-12).minimize(scorer, self.loss, v, 1e-2)
        for delay in (0.0, 0.003, 0.02):

            def callback(progress, delay=delay):
                if progress.n_iter == 1:
                    threading.Timer(delay, os.kill, (os.getpid(), signal.SIGINT)).start()
                time.sleep(0.005)  # so that it is not done before the signal comes

            result = solver.minimize(scorer, self.loss, v, 1e-2, callback=callback)
            assert result.interrupted
            assert 0 <= result.value - best.value + 1e-12 <= result.gap + 2e-12

    def test_warm_start_needs_no_iterations(self):
        X, v = problem(self.loss.structure)
        scorer = Linear(X, (4,))
        first = LBFGS(tol=1e-6).minimize(scorer, self.loss, v, 0.1)
        assert LBFGS(tol=1e-5).minimize(scorer, self.loss, v, 0.1, start=first.w).n_iter == 0
        dual = BlockFrankWolfe(tol=1e-5, random_state=0)
        assert dual.minimize(scorer, self.loss, v, 0.1, dual=dual.minimize(scorer, self.loss, v, 0.1).dual).n_iter == 0

    def test_a_certificate_survives_a_warm_start_from_other_truths_or_another_loss(self):
        X, v = problem(Cube(3))
        other = 1 - v
        scorer = Linear(X, (3,))
        solver = BlockFrankWolfe(tol=1e-3, random_state=0)
        losses = [FenchelYoung(Cube(3), "euclidean"), FenchelYoung(Cube(3), "euclidean", strength=20.0),
                  FenchelYoung(Cube(3), "gibbs"), Hinge(Cube(3), Hamming())]  # fmt: skip
        for first in losses:
            dual = solver.minimize(scorer, first, v, 0.1).dual
            for loss in losses:
                for truths in (v, other):
                    least = BlockFrankWolfe(tol=1e-4, random_state=1).minimize(scorer, loss, truths, 0.1)
                    result = solver.minimize(scorer, loss, truths, 0.1, dual=dual)
                    for _, value, gap in result.history:
                        assert value - least.value <= gap + 1e-12
                    if loss is first and truths is v:
                        assert result.n_iter == 0

    def test_without_a_penalty(self):
        X, v = problem(Reals(3))
        result = LBFGS(tol=1e-9).minimize(Linear(X, (3,)), FenchelYoung(Reals(3), "euclidean"), v, 0.0)
        assert result.converged
        assert np.allclose(result.w, np.linalg.lstsq(X, v, rcond=None)[0], atol=1e-6)
        with pytest.raises(InvalidInput, match="needs alpha > 0"):
            BlockFrankWolfe().minimize(Linear(X, (3,)), FenchelYoung(Reals(3), "euclidean"), v, 0.0)


class TestRefusals:
    loss = FenchelYoung(Simplex(3), "kl")
    X = np.zeros((4, 2))

    def run(self, v=None, **options):
        v = np.eye(3)[[0, 1, 2, 0]] if v is None else v
        return LBFGS().minimize(Linear(self.X, (3,)), self.loss, v, options.pop("alpha", 1.0), **options)

    def test_lengths(self):
        with pytest.raises(InvalidInput, match="4 inputs but 3 truths"):
            self.run(np.eye(3))

    def test_truths_outside_the_set(self):
        with pytest.raises(InvalidInput, match="truth of sample 2 lies outside Simplex"):
            self.run(np.array([[1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1.0]]))

    @pytest.mark.parametrize("weights", [[1, 2], [1, 1, 1, -1], [0, 0, 0, 0], [1, 1, 1, np.nan]])
    def test_weights(self, weights):
        with pytest.raises(InvalidInput, match="sample_weight"):
            self.run(sample_weight=weights)

    @pytest.mark.parametrize("alpha", [-1, np.nan, "x"])
    def test_alpha(self, alpha):
        with pytest.raises(InvalidInput, match="alpha is"):
            self.run(alpha=alpha)

    def test_a_loss_with_kinks(self):
        class Kinked(FenchelYoung):
            differentiable = False

        with pytest.raises(IncompatiblePair, match="has kinks; use BlockFrankWolfe"):
            LBFGS().minimize(Linear(self.X, (3,)), Kinked(Simplex(3), "kl"), np.eye(3)[[0, 0, 0, 0]], 1.0)


@pytest.mark.parametrize("condition", [1.0, 1e3, 1e6])
def test_lbfgs_on_quadratics_of_any_conditioning(condition):
    rng = np.random.default_rng(0)
    q, _ = np.linalg.qr(rng.normal(size=(8, 8)))
    a = q @ np.diag(np.geomspace(1, condition, 8)) @ q.T
    solution = rng.normal(size=8)
    state = lbfgs(
        lambda x: (0.5 * (x - solution) @ a @ (x - solution), a @ (x - solution)),
        np.zeros(8),
        stop=lambda s: np.abs(s.gradient).max() < 1e-9,
        max_iter=500,
    )
    assert np.allclose(state.x, solution, atol=1e-7)
    assert state.n_iter < 300


def test_lbfgs_on_a_function_with_flat_and_steep_parts():
    state = lbfgs(
        lambda x: (float(np.logaddexp(0, 50 * x).sum() - 10 * x.sum()), 50 / (1 + np.exp(-50 * x)) - 10),
        np.full(3, 4.0),
        stop=lambda s: np.abs(s.gradient).max() < 1e-8,
        max_iter=200,
    )
    assert np.allclose(state.x, np.log(10 / 40) / 50, atol=1e-9)


class TestMaximisersOnly:
    """A loss that has a maximiser and nothing else goes on from the vertices of the last evaluation."""

    @pytest.mark.parametrize("solver", [LBFGS(tol=1e-6), BlockFrankWolfe(tol=1e-2, random_state=0)])
    @pytest.mark.parametrize(("strength", "multiplier"), [(1.0, 1.0), (0.5, 3.0)])
    def test_it_is_asked_less_often_and_the_answer_is_that_of_closed_forms(self, solver, strength, multiplier):
        calls = []

        def best(rows):
            calls.append(len(rows))
            return np.eye(6)[rows.argmax(axis=1)]

        X, v = problem(Simplex(6))
        alone = FenchelYoung(Oracle(best, (6,), batched=True), "euclidean", strength, multiplier)
        closed = FenchelYoung(Simplex(6), "euclidean", strength, multiplier)
        result = solver.minimize(Linear(X, (6,)), alone, v, 0.1)
        expected = solver.minimize(Linear(X, (6,)), closed, v, 0.1)
        assert np.isclose(result.value, expected.value, atol=1e-7)
        assert result.gap >= result.value - LBFGS(tol=1e-10).minimize(Linear(X, (6,)), closed, v, 0.1).value
        theta = Linear(X, (6,)).scores(result.w)
        calls.clear()
        first = alone.evaluate(theta, v)
        cold = sum(calls)
        calls.clear()
        again = alone.evaluate(theta + 1e-6, v, first.state)
        assert sum(calls) <= len(v) < cold / 2
        assert np.allclose(again.value, closed.value(theta, v), atol=1e-7)

    def test_what_projections_leave_open_is_part_of_the_loss(self):
        _, v = problem(Simplex(6))
        theta = 5 * np.random.default_rng(2).normal(size=(len(v), 6))
        oracle = Oracle(lambda t: np.eye(6)[t.argmax()], (6,))
        found = FenchelYoung(oracle, "euclidean").evaluate(theta, v)
        exact = FenchelYoung(Simplex(6), "euclidean").value(theta, v)
        assert np.all(found.gap >= 0)
        assert np.all((found.value <= exact + 1e-12) & (exact <= found.value + found.gap + 1e-12))


@pytest.mark.parametrize("memory", [4, 300])
@pytest.mark.parametrize("scale", [0.01, 1.0, 100.0])
def test_bundle_with_many_examples_for_each_weight(scale, memory):
    """There the next plane is sought near the best weights: the same minimum, by another solver's certificate."""
    from fenchel.costs import ZeroOne
    from fenchel.losses import Adversarial
    from fenchel.solvers import Bundle

    structure = Simplex(3)
    X, v = problem(structure, n=400, d=3)
    scorer, loss, alpha = Linear(scale * X, structure.shape), Adversarial(structure, ZeroOne()), 0.01 * scale**2
    found = Bundle(tol=1e-4 if memory > 4 else 1e-2, max_iter=2000, memory=memory).minimize(scorer, loss, v, alpha)
    other = BlockFrankWolfe(tol=1e-2, max_iter=500, random_state=0).minimize(scorer, loss, v, alpha)
    assert found.converged
    assert other.converged
    assert other.value - other.gap <= found.value + 1e-12
    assert found.value - found.gap <= other.value + 1e-12
    again = Bundle(tol=1e-2, memory=memory).minimize(scorer, loss, v, alpha, start=found.w, dual=found.dual)
    assert again.n_iter <= 1
