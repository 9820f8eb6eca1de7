"""Solvers that step on a few examples or by proximal points, against the batch solvers and against their own papers."""

import numpy as np
import pytest
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

from fenchel import AdversarialClassifier, FenchelYoungClassifier
from fenchel.costs import Absolute, Hamming, ZeroOne
from fenchel.errors import IncompatiblePair, InvalidInput
from fenchel.losses import CRF, Adversarial, AllThresholds, FenchelYoung, Hinge
from fenchel.scorers import Kernel, Linear, LinearChain, Thresholds
from fenchel.scorers.kernel import kernel_matrix
from fenchel.solvers import LBFGS, SGD, Adam, BlockFrankWolfe, Bundle, Pegasos, Proximal
from fenchel.solvers.base import Objective, SharedObjective, make_objective
from fenchel.structures import Birkhoff, Chains, OrderSimplex, Simplex


def problem(structure, n=50, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    theta = rng.normal(size=(n, structure.dim)) + X @ rng.normal(size=(d, structure.dim))
    return X, structure.argmax(theta.reshape(n, *structure.shape))


STOCHASTIC = [
    Adam(tol=1e-4, max_iter=40, random_state=0),
    SGD(tol=1e-4, max_iter=40, random_state=0, batch_size=8),
    Pegasos(tol=1e-4, max_iter=30, random_state=0, batch_size=2),
    Pegasos(tol=1e-4, max_iter=30, random_state=0, sampling="uniform", batch_size=4),
]


@pytest.mark.filterwarnings("ignore::fenchel.errors.ConvergenceWarning")
@pytest.mark.parametrize(
    ("loss", "solvers"),
    [
        (FenchelYoung(OrderSimplex(4), "euclidean", multiplier=2.0), [*STOCHASTIC, Proximal(tol=1e-4), Bundle()]),
        (Adversarial(Simplex(3), ZeroOne()), [*STOCHASTIC, Bundle(), Bundle(memory=4)]),
        (Hinge(Birkhoff(2), Hamming()), [*STOCHASTIC[:3], Bundle()]),
    ],
    ids=["smooth", "game", "hinge"],
)
@pytest.mark.parametrize("weighted", [False, True])
def test_every_iterate_bounds_the_minimum_and_the_last_is_near_it(loss, solvers, weighted):
    X, v = problem(loss.structure)
    weights = np.random.default_rng(1).integers(0, 4, len(X)).astype(float) if weighted else None
    scorer = Linear(X, loss.structure.shape, intercept_scaling=1.5)
    best = BlockFrankWolfe(tol=1e-4, random_state=0, max_iter=300).minimize(scorer, loss, v, 0.1, sample_weight=weights)
    for solver in solvers:
        found = solver.minimize(scorer, loss, v, 0.1, sample_weight=weights)
        for _, value, gap in found.history:
            assert value - gap <= best.value + 1e-10
        assert found.value - found.gap <= best.value + 1e-10
        assert best.value - best.gap <= found.value <= 1.05 * best.value
        assert found.n_iter == len(found.history) - 1


def test_pegasos_closes_its_gap_where_the_loss_has_kinks():
    X, v = problem(Simplex(3))
    scorer = Linear(X, (3,), intercept_scaling=1.0)
    loss = Adversarial(Simplex(3), ZeroOne())
    found = Pegasos(tol=0.01, random_state=0).minimize(scorer, loss, v, 0.05)
    assert found.converged
    # and goes on from there
    again = Pegasos(tol=0.01, max_iter=3, random_state=1).minimize(scorer, loss, v, 0.05, dual=found.dual)
    assert again.converged
    assert again.history[0][1:] == pytest.approx(found.history[-1][1:])


def test_pegasos_is_the_published_algorithm_with_kernels():
    """Algorithm 1 of the thesis, written out with coefficients and kernel values; its 1/(λt) of the scores read as 1/(λ(t−1))."""
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(30, 2)), rng.integers(3, size=30)
    alpha, loss = 0.1, Adversarial(Simplex(3), ZeroOne())
    v, gram = np.eye(3)[y], kernel_matrix(X, X, "rbf", {"gamma": 0.5})
    draws = np.random.default_rng(7)
    coefficients, t = np.zeros((30, 3)), 0
    for _ in range(3):
        for i in draws.integers(30, size=30):
            f = -(gram[i] @ coefficients) / (alpha * max(t, 1))
            t += 1
            coefficients[i] += loss.value_and_grad(f, v[i])[1]
    scorer = Kernel(X, (3,), kernel="rbf", params={"gamma": 0.5})
    solver = Pegasos(tol=1e-9, max_iter=3, sampling="uniform", random_state=7)
    with pytest.warns(UserWarning, match="stopped after 3 iterations"):
        result = solver.minimize(scorer, loss, v, alpha)
    last = result.dual.total / (-alpha * result.dual.steps)
    np.testing.assert_allclose(scorer.scores(last), -(gram @ coefficients) / (alpha * t), atol=1e-8)


@pytest.mark.filterwarnings("ignore::fenchel.errors.ConvergenceWarning")
def test_adam_and_sgd_train_sequences_of_different_lengths():
    rng = np.random.default_rng(4)
    lengths = rng.integers(1, 5, size=25)
    X = rng.normal(size=(lengths.sum(), 3))
    chains = Chains(2, tied=True)
    scorer = LinearChain(X, lengths, chains, intercept_scaling=1.0)
    v = chains.argmax(scorer.scores(rng.normal(size=scorer.weights_shape)))
    loss = CRF(chains)
    best = LBFGS(tol=1e-6).minimize(scorer, loss, v, 0.05)
    for solver in (Adam(max_iter=40, batch_size=5, random_state=0), SGD(max_iter=40, batch_size=5, random_state=0)):
        found = solver.minimize(scorer, loss, v, 0.05)
        assert found.value - found.gap <= best.value <= found.value + 1e-9
        assert found.value <= 1.03 * best.value


# -- bundles ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "loss",
    [Adversarial(Simplex(3), Absolute()), Hinge(OrderSimplex(4), Absolute()), FenchelYoung(Simplex(3), "kl")],
    ids=repr,
)
def test_the_bundle_method_closes_its_gap_and_goes_on_from_its_planes(loss):
    X, v = problem(loss.structure)
    scorer = Linear(X, loss.structure.shape, intercept_scaling=1.0)
    found = Bundle(tol=1e-8).minimize(scorer, loss, v, 0.02)
    assert found.converged
    assert found.n_iter < 150
    other = BlockFrankWolfe(tol=1e-3, random_state=0).minimize(scorer, loss, v, 0.02)
    assert found.value - found.gap <= other.value
    assert other.value - other.gap <= found.value
    again = Bundle(tol=1e-8).minimize(scorer, loss, v, 0.02, start=found.w, dual=found.dual)
    assert again.n_iter <= 1
    # planes of other inputs are not used, though truths and loss are the same
    moved = Linear(X[::-1].copy(), loss.structure.shape, intercept_scaling=1.0)
    fresh, led = (Bundle(tol=1e-6).minimize(moved, loss, v, 0.02, dual=dual) for dual in (None, found.dual))
    assert fresh.value == led.value


def test_the_bundle_method_takes_sequences_with_forbidden_labels():
    rng = np.random.default_rng(8)
    lengths = rng.integers(1, 5, size=20)
    X = rng.normal(size=(lengths.sum(), 3))
    chains = Chains(3, tied=True)
    barred = np.zeros((3, 3), bool)
    barred[0, 2] = True
    scorer = LinearChain(X, lengths, chains, forbidden=(np.zeros(3, bool), barred))
    v = chains.argmax(scorer.scores(rng.normal(size=scorer.weights_shape)))
    found = Bundle(tol=1e-5).minimize(scorer, CRF(chains), v, 0.05)
    exact = LBFGS(tol=1e-7).minimize(scorer, CRF(chains), v, 0.05)
    assert found.value == pytest.approx(exact.value, rel=1e-4)


# -- l1 ----------------------------------------------------------------------------------------------------------------


def test_l1_equals_scikit_learn_and_the_gap_is_a_bound():
    X, v = problem(Simplex(2), n=120, d=6)
    loss, alpha = FenchelYoung(Simplex(2), "kl"), 0.03
    scorer = Linear(X, (2,))
    found = Proximal(tol=1e-9, max_iter=5000).minimize(scorer, loss, v, alpha, penalty="l1")
    assert found.converged
    # with two classes only the difference of the scores counts, and l1 puts it into one of the two columns
    recent = tuple(map(int, sklearn.__version__.split(".")[:2])) >= (1, 8)
    l1 = {"l1_ratio": 1.0} if recent else {"penalty": "l1"}
    model = LogisticRegression(
        C=1 / (alpha * len(X)), solver="saga", fit_intercept=False, tol=1e-10, max_iter=10_000, **l1
    )
    theirs = model.fit(X, v[:, 1]).coef_[0]
    np.testing.assert_allclose(found.w[:, 1] - found.w[:, 0], theirs, atol=1e-4)
    for _, value, gap in found.history:
        assert -1e-12 <= value - found.value <= gap + 1e-9


@pytest.mark.filterwarnings("ignore::fenchel.errors.ConvergenceWarning")
@pytest.mark.parametrize("solver", [Adam(max_iter=100, random_state=0), SGD(max_iter=100, random_state=0)], ids=repr)
def test_stochastic_l1_bounds_the_minimum_and_gives_zeros(solver):
    X, v = problem(Simplex(3), n=120, d=6)
    X[:, 3:] *= 0.1
    scorer = Linear(X, (3,))
    loss = FenchelYoung(Simplex(3), "euclidean")
    best = Proximal(tol=1e-8, max_iter=5000).minimize(scorer, loss, v, 0.1, penalty="l1")
    found = solver.minimize(scorer, loss, v, 0.1, penalty="l1")
    assert found.value - found.gap <= best.value + 1e-10 <= found.value + 2e-10
    assert found.value <= 1.01 * best.value
    assert (found.w == 0).sum() >= 3
    assert (best.w == 0).sum() >= 3


def test_a_zero_weight_is_best_where_l1_is_strong():
    X, v = problem(Simplex(3))
    for loss in (Adversarial(Simplex(3), ZeroOne()), FenchelYoung(Simplex(3), "kl")):
        found = Adam().minimize(Linear(X, (3,)), loss, v, 100.0, penalty="l1")
        assert found.converged
        assert found.n_iter == 0
        assert not found.w.any()


def test_solvers_say_which_penalty_and_which_loss_they_take():
    X, v = problem(Simplex(3))
    scorer, loss = Linear(X, (3,)), FenchelYoung(Simplex(3), "kl")
    with pytest.raises(IncompatiblePair, match=r"LBFGS.*does not take penalty='l1'; use Proximal or Adam or SGD"):
        LBFGS().minimize(scorer, loss, v, 0.1, penalty="l1")
    with pytest.raises(InvalidInput, match="penalty is 'l0', expected one of 'l2', 'l1'"):
        LBFGS().minimize(scorer, loss, v, 0.1, penalty="l0")
    with pytest.raises(IncompatiblePair, match="needs a smooth loss"):
        Proximal().minimize(scorer, Adversarial(Simplex(3), ZeroOne()), v, 0.1)
    with pytest.raises(InvalidInput, match="alpha is 0, but the steps of Pegasos"):
        Pegasos().minimize(scorer, loss, v, 0.0)
    for wrong in (lambda: Adam(decay=(1.0, 0.9)), lambda: SGD(learning_rate="fast"), lambda: Pegasos(sampling="all")):
        with pytest.raises(InvalidInput):
            wrong()


# -- the norm itself ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("alpha", [0.5, 0.1, 0.01])
def test_the_norm_as_penalty_is_minimised_and_every_gap_is_a_bound(alpha, weighted):
    X, v = problem(Simplex(3), n=60, d=4)
    weights = np.random.default_rng(1).integers(0, 4, len(X)).astype(float) if weighted else None
    p = np.full(len(X), 1 / len(X)) if weights is None else weights / weights.sum()
    scorer = Linear(X, (3,))
    for loss, solvers in (
        (FenchelYoung(Simplex(3), "kl"), [LBFGS(tol=1e-6), Proximal(tol=1e-6), Bundle(tol=1e-5)]),
        (FenchelYoung(Simplex(3), "euclidean"), [LBFGS(tol=1e-6), Proximal(tol=1e-6), Bundle(tol=1e-5)]),
        (Adversarial(Simplex(3), ZeroOne()), [Bundle(tol=1e-5), Bundle(tol=1e-4, memory=8)]),
    ):

        def whole(w, loss=loss):
            w = w.reshape(4, 3)
            return p @ loss.value(scorer.scores(w), v) + alpha * np.linalg.norm(w)

        # the truth from a method that knows no derivatives, from many starts, and zero
        rng = np.random.default_rng(0)
        found = [minimize(whole, rng.normal(size=12) * 0.3, method="Powell", options={"xtol": 1e-8}) for _ in range(3)]
        least = min(whole(np.zeros(12)), *(r.fun for r in found))
        for solver in solvers:
            result = solver.minimize(scorer, loss, v, alpha, penalty="norm", sample_weight=weights)
            assert result.converged
            assert result.value == pytest.approx(whole(result.w))
            assert result.value <= least * (1 + 1e-4)
            for _, value, gap in result.history:
                assert value - gap <= least + 1e-12


def test_zero_weights_are_found_exactly_and_at_once_where_the_radius_is_large():
    X, v = problem(Simplex(3))
    scorer = Linear(X, (3,))
    for loss in (Adversarial(Simplex(3), ZeroOne()), FenchelYoung(Simplex(3), "kl")):
        value, gradient = Objective(scorer, loss, v, 0.0, None).mean_loss(scorer.zero_weights())
        radius = float(np.linalg.norm(gradient))
        solvers = [Bundle()] if not loss.differentiable else [Bundle(), LBFGS(), Proximal()]
        for solver in solvers:
            for start in (None, np.ones((4, 3))):
                found = solver.minimize(scorer, loss, v, 1.01 * radius, penalty="norm", start=start)
                assert found.converged
                if (
                    isinstance(solver, Bundle | LBFGS) or start is None
                ):  # Proximal comes down from its start step by step
                    assert not found.w.any()
                assert found.value == pytest.approx(value, rel=1e-3)
            if loss.differentiable:  # there the radius is the least that zero is best for
                assert solver.minimize(scorer, loss, v, 0.8 * radius, penalty="norm").w.any()


def test_zero_at_a_kink_needs_a_mixture_of_subgradients():
    # at w = 0 every subgradient that the hinge answers with is longer than the radius, but some mixture is not
    X = np.array([[1.0], [1.0], [-1.0], [-1.0]])
    v = np.eye(2)[[0, 1, 0, 1]]
    loss, scorer = Hinge(Simplex(2), ZeroOne()), Linear(X + 0.01, (2,))
    found = Bundle(tol=1e-8).minimize(scorer, loss, v, 0.05, penalty="norm")
    assert found.converged
    assert found.value == pytest.approx(1.0)
    assert not found.w.any()


def test_the_norm_and_its_square_have_the_same_minima():
    X, v = problem(Simplex(3), n=80, d=5)
    scorer, loss = Linear(X, (3,)), Adversarial(Simplex(3), ZeroOne())
    radius = 0.05
    norm = Bundle(tol=1e-8).minimize(scorer, loss, v, radius, penalty="norm")
    size = float(np.linalg.norm(norm.w))
    square = Bundle(tol=1e-8).minimize(scorer, loss, v, radius / size)
    np.testing.assert_allclose(norm.w, square.w, atol=1e-3)
    assert norm.value == pytest.approx(square.value + radius * size / 2, rel=1e-6)
    # planes are those of the loss, whatever the penalty
    again = Bundle(tol=1e-6).minimize(scorer, loss, v, radius / size, dual=norm.dual)
    assert again.converged
    assert again.n_iter < square.n_iter
    back = Bundle(tol=1e-6).minimize(scorer, loss, v, radius, penalty="norm", dual=again.dual)
    assert back.converged
    assert back.value == pytest.approx(norm.value, rel=1e-5)


@pytest.mark.filterwarnings("ignore::fenchel.errors.ConvergenceWarning")
def test_stochastic_steps_go_down_the_norm_too():
    X, v = problem(Simplex(3), n=120, d=6)
    scorer, loss = Linear(X, (3,)), FenchelYoung(Simplex(3), "euclidean")
    best = LBFGS(tol=1e-8).minimize(scorer, loss, v, 0.1, penalty="norm")
    found = SGD(max_iter=100, random_state=0).minimize(scorer, loss, v, 0.1, penalty="norm")
    assert found.value - found.gap <= best.value + 1e-10 <= found.value + 2e-10
    assert found.value <= 1.01 * best.value


def test_a_radius_of_zero_is_no_penalty():
    X, v = problem(Simplex(3))
    scorer, loss = Linear(X, (3,)), FenchelYoung(Simplex(3), "kl")
    plain, norm = (LBFGS().minimize(scorer, loss, v, 0.0, penalty=p) for p in ("l2", "norm"))
    np.testing.assert_array_equal(plain.w, norm.w)
    with pytest.raises(InvalidInput, match="alpha is 0"):
        Bundle().minimize(scorer, loss, v, 0.0, penalty="norm")


def test_an_alpha_that_depends_on_the_number_of_examples():
    X, v = problem(Simplex(3))
    y = v.argmax(axis=1)
    for penalty in ("l2", "norm"):
        model = FenchelYoungClassifier(alpha=lambda m: m**-0.25).fit(X, y)
        assert model.alpha_ == pytest.approx(len(X) ** -0.25)
        model = AdversarialClassifier(alpha=lambda m: m**-0.25, penalty=penalty).fit(X, y)
        assert model.alpha_ == pytest.approx(len(X) ** -0.25)
        assert model.converged_
    with pytest.raises(InvalidInput, match=r"alpha\(50\) is -1"):
        FenchelYoungClassifier(alpha=lambda m: -1.0).fit(X, y)
    with pytest.raises(InvalidInput, match="partial_fit does not know how many"):
        FenchelYoungClassifier(alpha=lambda m: 1.0).partial_fit(X, y, classes=[0, 1, 2])
    with pytest.raises(InvalidInput, match="penalty is 'ridge', expected one of 'l2', 'l1', 'norm'"):
        AdversarialClassifier(penalty="ridge").fit(X, y)


# -- thresholds that share a direction ---------------------------------------------------------------------------------


@pytest.mark.parametrize("base", [Linear, Kernel])
def test_scores_and_adjoint_of_thresholds_are_transposes(base):
    rng = np.random.default_rng(5)
    scorer = Thresholds(base(rng.normal(size=(12, 3)), ()), 5, intercept_scaling=2.0)
    w, r = rng.normal(size=scorer.weights_shape), rng.normal(size=(12, 4))
    assert np.isclose(np.vdot(scorer.scores(w), r), np.vdot(w, scorer.adjoint(r)))
    idx = np.array([3, 3, 0])
    np.testing.assert_allclose(scorer.scores(w, idx), scorer.scores(w)[idx])
    np.testing.assert_allclose(scorer.take(idx).scores(w), scorer.scores(w)[idx])
    each = [np.square(scorer.adjoint(r[i : i + 1], np.array([i]))).sum() for i in range(12)]
    np.testing.assert_allclose(scorer.quadratic(r), each)
    assert np.ptp(np.diff(scorer.scores(w), axis=1), axis=0).max() <= 1e-12  # one direction for all


def test_thresholds_are_trained_with_a_certificate():
    rng = np.random.default_rng(6)
    X = rng.normal(size=(60, 3))
    y = np.digitize(X @ [1.0, -1.0, 0.5] + 0.3 * rng.normal(size=60), [-1, 0, 1])
    scorer, grades = Thresholds(Linear(X, ()), 4), OrderSimplex(4)
    v = grades.encode(y)
    for loss in (Adversarial(grades, Absolute()), AllThresholds(grades)):
        found = BlockFrankWolfe(tol=1e-3, random_state=0).minimize(scorer, loss, v, 0.02)
        assert found.converged

        def objective(w, loss=loss):
            return float(loss.value(scorer.scores(w), v).mean() + 0.02 * scorer.penalty(w))

        rival = minimize(objective, found.w, method="Powell", options={"maxiter": 3}).fun
        assert rival >= found.value - found.gap - 1e-12


def test_thresholds_refuse_a_base_with_an_intercept_of_its_own():
    with pytest.raises(InvalidInput, match="base must give one score and no intercept"):
        Thresholds(Linear(np.ones((2, 1)), (), intercept_scaling=1.0), 3)
    with pytest.raises(InvalidInput, match="base must give one score"):
        Thresholds(Linear(np.ones((2, 1)), (2,)), 3)


# -- the search in thresholds -----------------------------------------------------------------------------------------


@given(
    st.integers(1, 8).flatmap(
        lambda k: st.tuples(
            st.lists(st.integers(-4, 4), min_size=k - 1, max_size=k - 1),
            st.lists(st.tuples(st.integers(-9, 9), st.integers(0, k - 1)), min_size=1, max_size=6),
        )
    ),
    st.sampled_from([0.5, 1.0, 0.37, 1e6]),
)
@settings(deadline=None, max_examples=60)
def test_a_search_in_thresholds_gives_the_loss_of_all_grades(case, scale):
    offsets, rows = case
    offsets, s, y = (
        scale * np.array(offsets, dtype=float),
        scale * np.array([r[0] for r in rows], float),
        [r[1] for r in rows],
    )
    grades = OrderSimplex(len(offsets) + 1)
    loss = Adversarial(grades, Absolute())
    found = loss.on_thresholds(s, offsets, np.array(y))
    theta, v = s[:, None] + offsets, grades.encode(y)
    np.testing.assert_allclose(found.value, loss.value(theta, v), atol=1e-12 * (1 + scale * 40))
    # both grades are maximisers, though ties may be broken otherwise
    f = grades.class_potentials(theta)
    codes = np.arange(len(offsets) + 1)
    rows = np.arange(len(s))
    np.testing.assert_allclose((f - codes)[rows, found.low], (f - codes).max(axis=1), atol=1e-12 * (1 + scale * 40))
    np.testing.assert_allclose((f + codes)[rows, found.high], (f + codes).max(axis=1), atol=1e-12 * (1 + scale * 40))


@pytest.mark.parametrize("weighted", [False, True])
def test_the_objective_on_thresholds_is_the_written_out_one(weighted):
    rng = np.random.default_rng(9)
    X, y = rng.normal(size=(40, 3)), rng.integers(5, size=40)
    weights = rng.integers(0, 3, size=40).astype(float) if weighted else None
    grades = OrderSimplex(5)
    scorer, loss, v = (
        Thresholds(Linear(X, ()), 5, intercept_scaling=1.5),
        Adversarial(grades, Absolute()),
        grades.encode(y),
    )
    fast = make_objective(scorer, loss, v, 0.1, weights)
    plain = Objective(scorer, loss, v, 0.1, weights)
    assert isinstance(fast, SharedObjective)
    assert type(make_objective(scorer, AllThresholds(grades), v, 0.1, weights)) is Objective
    w, idx = rng.normal(size=scorer.weights_shape), np.array([4, 7, 9])
    for one, other in ((fast, plain),):
        np.testing.assert_allclose(one.value_and_grad(w)[0], other.value_and_grad(w)[0])
        np.testing.assert_allclose(one.value_and_grad(w)[1], other.value_and_grad(w)[1], atol=1e-12)
        np.testing.assert_allclose(one.batch_gradient(w, idx), other.batch_gradient(w, idx), atol=1e-12)
    a, b = Bundle(tol=1e-6).minimize(scorer, loss, v, 0.05), BlockFrankWolfe(tol=1e-3).minimize(scorer, loss, v, 0.05)
    assert b.value - b.gap <= a.value <= b.value + 1e-6
    with pytest.raises(InvalidInput, match="scores hold NaN"):
        fast.value_and_grad(np.full(scorer.weights_shape, np.nan))
