"""Ordinal, multilabel and ranking estimators; kernels, paths and chosen alphas, which all estimators share."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_iris, make_moons, make_multilabel_classification
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.utils.estimator_checks import parametrize_with_checks

import fenchel
from fenchel import FenchelYoungClassifier, LabelRanker, MultilabelClassifier, OrdinalClassifier
from fenchel.costs import CostMatrix
from fenchel.errors import IncompatiblePair, InvalidInput
from fenchel.estimators import regularization_path
from fenchel.scorers import Kernel

WEIGHTS = "compares weights of two fits to 1e-7; fits stop at a duality gap (see tests/test_classify.py)"
MEDIAN = "expects predict to be the class of highest probability; for the absolute cost it is the median grade"
CLASSES = "expects predictions of shape (n, 1) of what has several outputs; answers are rows of ranks or label sets"


def classes(y):
    """The classes in scikit-learn's y, which it reshapes to (n, 1) for estimators of several outputs; else None."""
    y = np.asarray(y)
    if y.dtype.kind not in "iufbO" or y.ndim == 0 or y.size != len(y):
        return None
    numbers = y.astype(float).ravel()
    return numbers.astype(int) if np.all(np.isfinite(numbers)) else None


class RankerOfClasses(LabelRanker):
    """Turns the classes that scikit-learn's checks use into rankings: class c is ranked c, c+1, ... (mod 3)."""

    def fit(self, X, y, sample_weight=None):
        return super().fit(X, self.rankings(y), sample_weight)

    def score(self, X, y, sample_weight=None):
        return super().score(X, self.rankings(y), sample_weight)

    @staticmethod
    def rankings(y):
        codes = None if y is None else classes(y)
        return y if codes is None else (np.arange(3) - codes[:, None]) % 3


class LabelsOfClasses(MultilabelClassifier):
    """Turns classes into label sets: class c has the label c mod 3, and odd classes the label 0 too."""

    def fit(self, X, y, sample_weight=None):
        codes = None if y is None else classes(y)
        if codes is not None:
            y = np.eye(3, dtype=int)[codes % 3] | (codes % 2)[:, None] * np.array([1, 0, 0])
        return super().fit(X, y, sample_weight)


@parametrize_with_checks(
    [
        OrdinalClassifier(),
        OrdinalClassifier("kl", projection="cube"),
        RankerOfClasses(alpha=0.1),
        LabelsOfClasses(alpha=0.1),
    ],
    expected_failed_checks=lambda estimator: {
        "check_sample_weight_equivalence_on_dense_data": WEIGHTS,
        "check_sample_weight_equivalence_on_sparse_data": WEIGHTS,
        **(
            {"check_classifiers_train": MEDIAN}
            if type(estimator) is OrdinalClassifier
            else {"check_estimator_sparse_array": CLASSES, "check_estimator_sparse_matrix": CLASSES}
        ),
    },
)
@pytest.mark.filterwarnings("ignore::fenchel.errors.ConvergenceWarning")
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def grades(n=300, k=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    score = X @ [2.0, -1.0, 0.5, 0.0] + rng.normal(size=n) * 0.5
    return X, np.digitize(score, np.quantile(score, np.linspace(0, 1, k + 1)[1:-1]))


class TestOrdinal:
    def test_it_beats_the_classifier_in_absolute_error(self):
        X, y = grades()
        test_X, test_y = grades(seed=1)
        ordinal = np.abs(OrdinalClassifier(alpha=1e-3).fit(X, y).predict(test_X) - test_y).mean()
        nominal = np.abs(FenchelYoungClassifier(alpha=1e-3).fit(X, y).predict(test_X) - test_y).mean()
        assert ordinal < nominal

    def test_smaller_sets_have_smaller_objectives(self):
        X, y = grades()
        values = [
            OrdinalClassifier(projection=p, tol=1e-8).fit(X, y).objective_ for p in ("order_simplex", "cube", "reals")
        ]
        assert values == sorted(values)

    def test_probabilities_are_of_grades(self):
        X, y = grades()
        for regularizer in ("euclidean", "kl", "gibbs"):
            model = OrdinalClassifier(regularizer).fit(X, y)
            proba = model.predict_proba(X)
            assert proba.shape == (300, 5)
            assert np.allclose(proba.sum(axis=1), 1)
            assert proba.min() >= -1e-12
            thresholds = model.predict_thresholds(X)
            assert np.all(np.diff(thresholds, axis=1) <= 1e-9)
        assert not hasattr(OrdinalClassifier(projection="cube").fit(X, y), "predict_proba")

    def test_any_cost_between_grades(self):
        X, y = grades(k=3)
        late = OrdinalClassifier("kl", cost=CostMatrix([[0, 9, 9], [1, 0, 9], [1, 1, 0]])).fit(X, y).predict(X)
        early = OrdinalClassifier("kl", cost=CostMatrix([[0, 1, 1], [9, 0, 1], [9, 9, 0]])).fit(X, y).predict(X)
        assert late.mean() > y.mean() > early.mean()

    def test_string_grades_keep_their_sorted_order(self):
        X, y = grades(k=3)
        names = np.array(["a low", "b middle", "c high"])
        model = OrdinalClassifier().fit(X, names[y])
        assert list(model.classes_) == list(names)
        assert set(model.predict(X)) <= set(names)


class TestMultilabel:
    def data(self):
        X, Y = make_multilabel_classification(n_samples=300, n_classes=6, n_labels=2, random_state=0)
        return X / X.std(axis=0), Y

    def test_predictions_keep_to_the_bounds_and_truths_need_not(self):
        X, Y = self.data()
        model = MultilabelClassifier(alpha=1e-2).fit(X, Y)
        counts = Y.sum(axis=1)
        assert model.high_ == np.ceil(counts.mean() + counts.std()) < counts.max()
        assert model.predict(X).sum(axis=1).max() <= model.high_
        assert np.isfinite(model.objective_)
        assert model.converged_
        assert model.score(X, Y) > 0.75
        fixed = MultilabelClassifier(low=1, high=1).fit(X, Y)
        assert np.all(fixed.predict(X).sum(axis=1) == 1)

    def test_gibbs_on_the_cube_is_one_logistic_regression_per_label(self):
        X, Y = self.data()
        model = MultilabelClassifier("gibbs", projection="cube", alpha=0.01, tol=1e-12, fit_intercept=False).fit(X, Y)
        for j in range(2):
            one = FenchelYoungClassifier("kl", alpha=0.02, tol=1e-12, fit_intercept=False).fit(X, Y[:, j])
            assert np.allclose(one.decision_function(X), model.decision_function(X)[:, j], atol=1e-4)

    def test_sparse_labels_weights_and_grids(self):
        X, Y = self.data()
        dense, sparse = (
            MultilabelClassifier(tol=1e-8).fit(X, Y),
            MultilabelClassifier(tol=1e-8).fit(X, sp.csr_matrix(Y)),
        )
        assert np.array_equal(dense.weights_, sparse.weights_)
        assert np.isclose(dense.score(X, Y), sparse.score(X, sp.csr_matrix(Y)))
        assert GridSearchCV(MultilabelClassifier(), {"alpha": [1e-3, 1e-1]}, cv=3).fit(X, Y).best_score_ > 0.7
        MultilabelClassifier().fit(X, Y, sample_weight=np.linspace(0.1, 1, 300))

    @pytest.mark.parametrize(
        ("options", "y", "message"),
        [
            ({}, [[0, 2]] * 5, "y is 2 at sample 0, label 1; expected 0 or 1"),
            ({"high": 9}, [[0, 1]] * 5, "high is 9, expected low <= high <= 2"),
            ({"low": 2, "high": 1}, [[0, 1]] * 5, "high is 1, expected low <= high"),
            ({"projection": "ball"}, [[0, 1]] * 5, "projection is 'ball', expected one of 'budget'"),
            ({"cost": "absolute"}, [[0, 1]] * 5, "cannot decode for this cost"),
            ({}, [0, 1, 0, 1, 0], "expected a row of zeros and ones per example"),
        ],
    )
    def test_refusals(self, options, y, message):
        with pytest.raises(ValueError, match=message):
            MultilabelClassifier(**options).fit(np.ones((5, 2)), y)


def rankings(n=200, k=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    scores = X @ np.random.default_rng(9).normal(size=(3, k)) + 0.3 * rng.normal(size=(n, k))
    return X, np.argsort(np.argsort(-scores, axis=1), axis=1)


class TestRanker:
    @pytest.mark.parametrize(
        "projection", ["birkhoff", "row_stochastic", "cube", "permutahedron", "reals", "nonnegative"]
    )
    @pytest.mark.parametrize("regularizer", ["euclidean", "kl"])
    def test_every_set_learns_to_rank(self, projection, regularizer):
        if (projection, regularizer) == ("reals", "kl"):
            with pytest.raises(IncompatiblePair, match="use NonNegative"):
                LabelRanker("kl", projection="reals").fit(*rankings())
            return
        X, ranks = rankings()
        model = LabelRanker(regularizer, projection=projection, alpha=1e-3).fit(X, ranks)
        assert model.converged_
        test_X, test_ranks = rankings(seed=1)
        assert model.score(test_X, test_ranks) > 0.6
        predicted = model.predict(test_X)
        assert np.array_equal(np.sort(predicted, axis=1), np.tile(np.arange(4), (200, 1)))
        assert np.array_equal(model.predict_matrix(test_X).argmax(axis=2), model.predict_ranks(test_X))

    def test_three_ways_to_write_a_ranking(self):
        X, ranks = rankings()
        names = np.array(["ant", "bee", "cat", "dog"])
        texts = [">".join(names[np.argsort(row)]) for row in ranks]
        zero, one, text = (LabelRanker(tol=1e-8).fit(X, y) for y in (ranks, ranks + 1, texts))
        assert np.array_equal(zero.weights_, one.weights_)
        assert np.array_equal(zero.weights_, text.weights_)
        assert np.array_equal(zero.predict(X) + 1, one.predict(X))
        assert text.labels_ == list(names)
        assert [">".join(names[np.argsort(row)]) for row in zero.predict(X)] == list(text.predict(X))
        assert text.score(X, texts) == zero.score(X, ranks)

    def test_larger_decoding_sets_give_matrices(self):
        X, ranks = rankings()
        model = LabelRanker(projection="cube", decoding="cube").fit(X, ranks)
        assert set(np.unique(model.predict_matrix(X))) <= {0, 1}
        with pytest.raises(InvalidInput, match="use predict_matrix"):
            model.predict(X)
        rows = LabelRanker(projection="row_stochastic", decoding="row_stochastic").fit(X, ranks).predict_matrix(X)
        assert np.all(rows.sum(axis=2) == 1)

    @pytest.mark.parametrize(
        ("y", "message"),
        [
            ([[0, 1], [1, 1]], "is \\[1, 1\\] at sample 1, which is no complete ranking without ties"),
            ([[2, 3], [3, 2]], "expected whole numbers from 1 to 2"),
            (["a>b", "a>c"], "'a>c' at sample 1, which does not rank each of a, b once; ties and incomplete"),
            ([0, 1], "expected a row of ranks per example"),
            ([["a", "b"], ["b", "a"]], "or strings a>b>c"),
            ([[1, 2], [1, np.nan]], "no rank for label 1 at sample 1; incomplete rankings are not supported"),
        ],
    )
    def test_refusals(self, y, message):
        with pytest.raises(InvalidInput, match=message):
            LabelRanker().fit(np.ones((2, 1)), y)

    def test_grids_and_cross_validation(self):
        X, ranks = rankings()
        assert GridSearchCV(LabelRanker(), {"alpha": [1e-3, 1.0]}, cv=3).fit(X, ranks).best_params_ == {"alpha": 1e-3}
        assert cross_val_predict(LabelRanker(), X, ranks, cv=3).shape == ranks.shape
        assert clone(LabelRanker(projection="cube")).projection == "cube"


class TestKernel:
    def test_squared_loss_is_kernel_ridge_regression(self):
        X, y = load_iris(return_X_y=True)
        n = len(y)
        model = FenchelYoungClassifier(
            projection="reals", kernel="rbf", kernel_params={"gamma": 0.3}, alpha=0.01, tol=1e-14, fit_intercept=False
        ).fit(X, y)
        theirs = KernelRidge(alpha=0.01 * n, kernel="rbf", gamma=0.3).fit(X, np.eye(3)[y])
        assert np.allclose(model.decision_function(X + 0.1), theirs.predict(X + 0.1), atol=1e-6)

    def test_it_separates_what_a_line_cannot_and_saves(self, tmp_path):
        X, y = make_moons(200, noise=0.1, random_state=0)
        model = FenchelYoungClassifier(kernel="rbf", kernel_params={"gamma": 3.0}, alpha=1e-3).fit(X, y)
        assert model.score(X, y) > 0.98 > FenchelYoungClassifier(alpha=1e-3).fit(X, y).score(X, y)
        again = fenchel.load(fenchel.save(model, tmp_path / "m.fenchel"))
        assert np.allclose(again.predict_proba(X), model.predict_proba(X), atol=1e-12)  # BLAS may round otherwise
        with pytest.raises(AttributeError, match="no coef_"):
            _ = model.coef_

    def test_bad_kernels_are_named(self):
        X = np.arange(6.0).reshape(3, 2)
        with pytest.raises(InvalidInput, match="kernel is 'unknown'"):
            Kernel(X, (2,), kernel="unknown")
        with pytest.raises(InvalidInput, match="not positive semi-definite"):
            Kernel(X, (2,), kernel=lambda a, b: -(a @ b.T))
        with pytest.raises(InvalidInput, match="not symmetric"):
            Kernel(X, (2,), kernel=lambda a, b: a @ b.T + np.arange(len(b)))
        with pytest.raises(InvalidInput, match="must give finite numbers of shape"):
            Kernel(X, (2,), kernel=lambda a, b: np.ones(3))
        with pytest.raises(InvalidInput, match="weights of partial_fit grow with every example"):
            FenchelYoungClassifier(kernel="rbf").partial_fit(X, [0, 1, 0], classes=[0, 1])


class TestAlpha:
    @pytest.mark.parametrize(
        ("model", "data"),
        [
            (FenchelYoungClassifier(alpha="cv"), load_iris(return_X_y=True)),
            (OrdinalClassifier(alpha="cv"), grades()),
            (MultilabelClassifier(alpha="cv"), make_multilabel_classification(n_samples=100, random_state=0)),
            (LabelRanker(alpha="cv"), rankings(n=80)),
            (LabelRanker(alpha="cv", projection="permutahedron"), rankings(n=80)),
        ],
        ids=repr,
    )
    def test_it_is_chosen_on_held_out_folds(self, model, data):
        model = clone(model).fit(*data)
        assert model.alpha_ in model.cv_results_["alpha"]
        assert (
            model.cv_results_["mean_cost"].min()
            == model.cv_results_["mean_cost"][list(model.cv_results_["alpha"]).index(model.alpha_)]
        )
        assert model.fit(*data).alpha_ == model.alpha_

    def test_numbers_stay_numbers(self):
        model = FenchelYoungClassifier(alpha=0.5).fit(*load_iris(return_X_y=True))
        assert model.alpha_ == 0.5
        with pytest.raises(InvalidInput, match="alpha is 'best'"):
            FenchelYoungClassifier(alpha="best").fit(*load_iris(return_X_y=True))
        with pytest.raises(InvalidInput, match="at least 5 examples"):
            FenchelYoungClassifier(alpha="cv").fit([[0.0], [1.0], [2.0]], [0, 1, 0])

    def test_a_path_is_the_fits_along_it(self):
        X, y = load_iris(return_X_y=True)
        path = regularization_path(FenchelYoungClassifier(tol=1e-10), X, y, alphas=[1e-2, 1.0, 0.1])
        assert path.alphas.tolist() == [1.0, 0.1, 1e-2]
        for alpha, objective in zip(path.alphas, path.objectives, strict=True):
            assert np.isclose(FenchelYoungClassifier(alpha=alpha, tol=1e-10).fit(X, y).objective_, objective, rtol=1e-8)
        assert np.all(path.gaps <= 1e-10 * path.objectives)
