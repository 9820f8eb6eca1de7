"""The classifier as its users meet it."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from fenchel import FenchelYoungClassifier
from fenchel.costs import Hamming
from fenchel.errors import ConvergenceWarning, IncompatiblePair, InvalidInput
from fenchel.solvers import LBFGS

WEIGHTS = (
    "compares weights of two fits to 1e-7 on 15 rows at alpha=1e-3; fits stop at a duality gap, and a gap of 1e-16 "
    "of it still allows more than that. tests/test_solvers.py compares fits with weights and with repeated rows."
)

MEDIAN = "expects predict to be the class of highest score; for the absolute cost it is the median grade"


@parametrize_with_checks(
    [
        FenchelYoungClassifier(),
        FenchelYoungClassifier("kl"),
        FenchelYoungClassifier("gibbs", cost="absolute", strength=0.5),
        FenchelYoungClassifier(projection="cube", alpha=0.1),
        FenchelYoungClassifier(projection="reals"),
        FenchelYoungClassifier(solver="bcfw", alpha=0.1, max_iter=50, random_state=0),
    ],
    expected_failed_checks=lambda estimator: {
        "check_sample_weight_equivalence_on_dense_data": WEIGHTS,
        "check_sample_weight_equivalence_on_sparse_data": WEIGHTS,
        **({"check_classifiers_train": MEDIAN} if estimator.cost == "absolute" else {}),
    },
)
@pytest.mark.filterwarnings("ignore::fenchel.errors.ConvergenceWarning")
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


class TestAgainstKnownModels:
    def test_kl_is_multinomial_logistic_regression(self, iris):
        X, y = iris
        ours = FenchelYoungClassifier("kl", alpha=0.01, fit_intercept=False, tol=1e-12).fit(X, y)
        theirs = LogisticRegression(C=1 / (0.01 * len(y)), fit_intercept=False, tol=1e-10, max_iter=10_000).fit(X, y)
        assert np.allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-5)
        assert np.allclose(ours.coef_, theirs.coef_, atol=1e-4)

    def test_no_projection_is_ridge_regression_on_indicators(self, iris):
        X, y = iris
        ours = FenchelYoungClassifier(projection="reals", alpha=0.01, fit_intercept=False, tol=1e-14).fit(X, y)
        theirs = Ridge(alpha=0.01 * len(y), fit_intercept=False).fit(X, np.eye(3)[y])
        assert np.allclose(ours.coef_, theirs.coef_, atol=1e-6)

    def test_sparsemax_gives_exact_zeros(self):
        X, y = load_digits(return_X_y=True)
        proba = FenchelYoungClassifier(alpha=1e-3).fit(X / 16, y).predict_proba(X / 16)
        assert np.allclose(proba.sum(axis=1), 1)
        assert (proba == 0).mean() > 0.7


class TestCosts:
    def test_absolute_cost_answers_with_the_median_grade(self):
        """Half the truths are grade 0 and half grade 2 wherever x is: any grade costs one on average, but the ends tie
        with the middle only here; with 0.4 / 0.2 / 0.4 the middle is strictly best although it is never likeliest."""
        y = np.repeat([0, 1, 2], [40, 20, 40])
        X = np.ones((100, 1))
        assert FenchelYoungClassifier("kl", cost="absolute", alpha=1e-6).fit(X, y).predict(X[:1]) == 1
        assert FenchelYoungClassifier("kl", cost="zero_one", alpha=1e-6).fit(X, y).predict(X[:1]) != 1

    def test_a_cost_that_does_not_fit_is_refused_before_training(self, iris):
        with pytest.raises(IncompatiblePair, match="cannot decode for this cost.*no affine form"):
            FenchelYoungClassifier(projection="cube", cost="absolute").fit(*iris)
        with pytest.raises(InvalidInput, match="cost is 'zeroone'.*did you mean 'zero_one'"):
            FenchelYoungClassifier(cost="zeroone").fit(*iris)

    def test_hamming_of_one_part_is_zero_one(self, iris):
        X, y = iris
        assert np.array_equal(
            FenchelYoungClassifier(cost=Hamming()).fit(X, y).predict(X), FenchelYoungClassifier().fit(X, y).predict(X)
        )


class TestTraining:
    def test_the_gap_bounds_the_distance_to_the_minimum(self, iris):
        X, y = iris
        best = FenchelYoungClassifier(tol=1e-12).fit(X, y).objective_
        for tol in (1e-1, 1e-2, 1e-4):
            model = FenchelYoungClassifier(tol=tol).fit(X, y)
            assert model.converged_
            assert 0 <= model.objective_ - best + 1e-14 <= model.dual_gap_ + 1e-12 <= tol * model.objective_ + 2e-12

    def test_class_weight_is_sample_weight(self, iris):
        X, y = iris
        one = FenchelYoungClassifier(class_weight={0: 1, 1: 3, 2: 1}, tol=1e-12).fit(X, y)
        two = FenchelYoungClassifier(tol=1e-12).fit(X, y, sample_weight=np.where(y == 1, 3, 1))
        assert np.allclose(one.weights_, two.weights_, atol=1e-5)
        heavy = FenchelYoungClassifier(class_weight="balanced").fit(X[:120], y[:120])
        assert heavy.score(X, y) > 0.9

    @pytest.mark.parametrize("options", [{}, {"regularizer": "kl"}, {"projection": "cube"}, {"class_weight": {0: 2.0}}])
    def test_integer_weights_are_repeated_rows(self, iris, options):
        X, y = iris
        counts = np.random.default_rng(0).integers(0, 4, len(y))
        model = FenchelYoungClassifier(alpha=0.1, tol=1e-13, **options)
        one = clone(model).fit(X, y, sample_weight=counts)
        other = clone(model).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
        assert np.allclose(one.weights_, other.weights_, atol=1e-5)
        assert np.isclose(one.objective_, other.objective_, rtol=1e-9)

    def test_partial_fit_in_chunks_equals_one_by_one(self, iris):
        X, y = iris
        order = np.random.default_rng(0).permutation(len(y))
        X, y = X[order], y[order]
        weight = np.random.default_rng(1).random(len(y))
        fits = []
        for size in (1, 7, 150):
            model = FenchelYoungClassifier("kl")
            for i in range(0, len(y), size):
                model.partial_fit(
                    X[i : i + size], y[i : i + size], classes=[0, 1, 2], sample_weight=weight[i : i + size]
                )
            fits.append(model.weights_)
        assert np.array_equal(fits[0], fits[1])
        assert np.array_equal(fits[0], fits[2])

    def test_partial_fit_learns(self):
        X, y = load_digits(return_X_y=True)
        X = X / 16
        model = FenchelYoungClassifier(alpha=1e-3)
        for _ in range(5):
            model.partial_fit(X[:1200], y[:1200], classes=np.arange(10))
        assert model.score(X[1200:], y[1200:]) > 0.88
        full = FenchelYoungClassifier(alpha=1e-3).fit(X[:1200], y[:1200])
        assert full.score(X[1200:], y[1200:]) > 0.88

    def test_partial_fit_refusals(self, iris):
        X, y = iris
        with pytest.raises(InvalidInput, match="classes must be given in the first call"):
            FenchelYoungClassifier().partial_fit(X, y)
        model = FenchelYoungClassifier().partial_fit(X, y, classes=[0, 1, 2])
        with pytest.raises(InvalidInput, match="the first call named"):
            model.partial_fit(X, y, classes=[0, 1])
        with pytest.raises(InvalidInput, match="not among the classes"):
            model.partial_fit(X[:1], [9])
        with pytest.raises(InvalidInput, match="balanced"):
            FenchelYoungClassifier(class_weight="balanced").partial_fit(X, y, classes=[0, 1, 2])

    @pytest.mark.parametrize("solver", ["lbfgs", "bcfw"])
    def test_warm_start(self, iris, solver):
        X, y = iris
        model = FenchelYoungClassifier(warm_start=True, solver=solver, alpha=0.1, random_state=0).fit(X, y)
        cold = model.n_iter_
        assert model.fit(X, y).n_iter_ == 1 < cold
        with pytest.raises(InvalidInput, match="warm_start=True needs the classes of the last fit"):
            model.fit(X, np.where(y == 2, 5, y))

    def test_float32_stays_close(self, iris):
        X, y = iris
        exact = FenchelYoungClassifier().fit(X, y)
        single = FenchelYoungClassifier().fit(X.astype(np.float32), y)
        assert single.predict_proba(X.astype(np.float32)).dtype == np.float32
        assert np.allclose(single.predict_proba(X), exact.predict_proba(X), atol=0.02)

    def test_sparse_and_dense_agree(self, iris):
        X, y = iris
        dense, sparse = (FenchelYoungClassifier(tol=1e-10).fit(rows, y) for rows in (X, sp.csr_matrix(X)))
        assert np.allclose(dense.predict_proba(X), sparse.predict_proba(sp.csr_matrix(X)), atol=1e-4)

    def test_a_solver_object_brings_its_own_tolerance(self, iris):
        with pytest.warns(ConvergenceWarning, match="stopped after 3 iterations"):
            model = FenchelYoungClassifier(solver=LBFGS(max_iter=3, tol=1e-9)).fit(*iris)
        assert model.n_iter_ == 3

    def test_verbose_prints_progress(self, iris, capsys):
        FenchelYoungClassifier(verbose=5, tol=1e-3).fit(*iris)
        lines = capsys.readouterr().err.splitlines()
        assert lines[0].startswith("[FenchelYoungClassifier] iteration    0  objective")
        assert len(lines) > 1

    def test_ctrl_c_leaves_a_usable_estimator(self, iris, monkeypatch):
        X, y = iris

        def interrupt(self, progress):
            if progress.n_iter == 4:
                raise KeyboardInterrupt

        monkeypatch.setattr(FenchelYoungClassifier, "_report", interrupt)
        model = FenchelYoungClassifier(verbose=1, tol=1e-12)
        with pytest.raises(KeyboardInterrupt, match="holds the weights so far"):
            model.fit(X, y)
        assert not model.converged_
        assert model.score(X, y) > 0.5


class TestInScikitLearn:
    def test_pipelines_grids_and_frames(self, iris):
        X, y = iris
        frame = pd.DataFrame(X, columns=list("abcd"))
        names = np.array(["setosa", "versicolor", "virginica"])[y]
        grid = GridSearchCV(
            make_pipeline(StandardScaler(), FenchelYoungClassifier()),
            {"fenchelyoungclassifier__alpha": [1e-3, 1e-1], "fenchelyoungclassifier__regularizer": ["kl", "euclidean"]},
        ).fit(frame, names)
        assert grid.best_score_ > 0.93
        assert set(grid.predict(frame)) == set(names)
        model = FenchelYoungClassifier().fit(frame, names)
        assert list(model.feature_names_in_) == list("abcd")
        assert cross_val_predict(model, X, y, method="predict_proba").shape == (150, 3)
        with pytest.raises(ValueError, match="feature names"):
            model.predict(frame[["b", "a", "c", "d"]])

    def test_clone_pickle_repr(self, iris):
        model = FenchelYoungClassifier("kl", alpha=0.5, cost="absolute").fit(*iris)
        assert (
            repr(clone(model)) == repr(model) == "FenchelYoungClassifier(alpha=0.5, cost='absolute', regularizer='kl')"
        )
        assert np.array_equal(pickle.loads(pickle.dumps(model)).predict(iris[0]), model.predict(iris[0]))

    def test_scores_are_coef_and_intercept(self, iris):
        X, y = iris
        for scaling in (1.0, 10.0):
            model = FenchelYoungClassifier(intercept_scaling=scaling).fit(X, y)
            assert np.allclose(model.decision_function(X), X @ model.coef_.T + model.intercept_)
            two = FenchelYoungClassifier(intercept_scaling=scaling).fit(X[:100], y[:100])
            assert two.coef_.shape == (1, 4)
            assert np.allclose(two.decision_function(X), (X @ two.coef_.T + two.intercept_)[:, 0])

    def test_probabilities_only_where_they_are_some(self, iris):
        model = FenchelYoungClassifier(projection="cube").fit(*iris)
        assert not hasattr(model, "predict_proba")
        assert model.predict_marginals(iris[0]).shape == (150, 3)
        assert np.array_equal(
            np.log(FenchelYoungClassifier("kl").fit(*iris).predict_proba(iris[0])),
            FenchelYoungClassifier("kl").fit(*iris).predict_log_proba(iris[0]),
        )

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"regularizer": "l2"}, "regularizer is 'l2'"),
            ({"projection": "ball"}, "projection is 'ball', expected one of 'simplex'"),
            ({"alpha": -1}, "alpha is -1"),
            ({"strength": 0}, "strength is 0"),
            ({"solver": "newton"}, "solver is 'newton', expected one of 'auto', 'lbfgs', 'bcfw'"),
            ({"tol": 0}, "tol is 0"),
            ({"max_iter": 1.5}, "max_iter is 1.5"),
            ({"projection": "reals", "regularizer": "kl"}, "needs the oracle 'kl_project'"),
            ({"intercept_scaling": 0}, "intercept_scaling is 0"),
        ],
    )
    def test_wrong_parameters_are_named(self, iris, options, message):
        with pytest.raises(ValueError, match=message):
            FenchelYoungClassifier(**options).fit(*iris)
