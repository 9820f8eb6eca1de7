"""Classifiers trained for a cost, and the margin classifiers beside them, as their users meet them."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, make_moons
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

import fenchel
from fenchel import AdversarialClassifier, FenchelYoungClassifier, MarginClassifier
from fenchel.costs import Abstain, CostMatrix
from fenchel.errors import IncompatiblePair, InvalidInput
from fenchel.solvers import Pegasos

WEIGHTS = (
    "compares two fits to 1e-7; fits stop at a duality gap, and losses with kinks have flat places where both are right"
)
ABSTAINS = "expects a column of probabilities for each class and predictions among the classes; no answer is one more"
GRADES = (
    "expects predict to be the highest column; p* mixes two neighbours around its mean, and scores of grades are sums"
)

EXEMPT = ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data")


def exempted(estimator):
    reasons = dict.fromkeys(EXEMPT, WEIGHTS)
    if estimator.abstain is not None:
        reasons |= dict.fromkeys(
            (
                "check_classifiers_train",
                "check_classifiers_classes",
                "check_decision_proba_consistency",
                "check_estimator_sparse_array",
                "check_estimator_sparse_matrix",
            ),
            ABSTAINS,
        )
    elif estimator.cost == "absolute":
        reasons["check_classifiers_train"] = GRADES
    return reasons


@parametrize_with_checks(
    [
        AdversarialClassifier(alpha=0.1, random_state=0),
        AdversarialClassifier("absolute", features="threshold", alpha=0.1, random_state=0),
        AdversarialClassifier(abstain=0.4, alpha=0.1, random_state=0),
        MarginClassifier(alpha=0.1, random_state=0),
    ],
    expected_failed_checks=exempted,
)
@pytest.mark.filterwarnings("ignore::fenchel.errors.ConvergenceWarning")
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return X - X.mean(axis=0), y


def adversarial(*args, **options):
    return AdversarialClassifier(*args, **{"alpha": 0.05, "random_state": 0, **options})


class TestCosts:
    def test_all_ways_to_name_a_cost_are_the_same_cost(self, iris):
        X, y = iris
        names = np.array(["a", "b", "c"])[y]
        table = np.array([[0.0, 1, 4], [2, 0, 1], [3, 3, 0]])
        frame = pd.DataFrame(table, index=list("abc"), columns=list("abc"))
        ways = [
            table,
            CostMatrix(table),
            frame[["c", "a", "b"]],
            {a: {t: frame.loc[a, t] for t in "abc" if t != a} for a in "abc"},
            lambda answer, truth: frame.loc[answer, truth],
        ]
        fits = [adversarial(cost).fit(X, names) for cost in ways]
        for fit in fits[1:]:
            np.testing.assert_allclose(fit.weights_, fits[0].weights_)
            assert fit.answers_.tolist() == list("abc")
        # the projection losses take them too
        asked = FenchelYoungClassifier("kl", cost=frame).fit(X, names)
        assert np.array_equal(asked.predict(X), FenchelYoungClassifier("kl", cost=table).fit(X, names).predict(X))

    def test_answers_need_not_be_classes(self, iris):
        X, y = iris
        bill = {
            "leave": {0: 0, 1: 1, 2: 9},
            "look": {0: 2, 1: 0, 2: 3},
            "pull": {0: 9, 1: 4, 2: 0},
            "ask": {0: 1, 1: 1, 2: 1},
        }
        model = adversarial(bill).fit(X, y)
        assert model.answers_.tolist() == ["leave", "look", "pull", "ask"]
        assert model.classes_.tolist() == [0, 1, 2]
        proba = model.predict_proba(X)
        assert proba.shape == (150, 4)
        np.testing.assert_allclose(proba.sum(axis=1), 1)
        paid = np.mean([bill[a][t] for a, t in zip(model.predict(X), y, strict=True)])
        assert paid < 0.35  # asking always costs 1
        with pytest.raises(IncompatiblePair, match="4 answers to 3 classes; use decoding='likeliest'"):
            adversarial(bill, decoding="map").fit(X, y)

    @pytest.mark.parametrize("labels", [[0, 1, 2], ["x", "y", "z"], [1.0, 2.0, 4.0]], ids=str)
    def test_no_answer_has_a_label_of_its_own(self, iris, labels):
        X, y = iris
        model = adversarial(abstain=0.2).fit(X, np.array(labels)[y])
        missing = "abstain" if isinstance(labels[0], str) else -1
        assert model.answers_.tolist() == [*labels, missing]
        answers = model.predict(X)
        assert set(np.unique(answers)) == {*labels, missing}
        assert np.mean(answers == missing) < 0.4
        kept = answers != missing
        assert np.mean(answers[kept] == np.array(labels)[y][kept]) > 0.97
        with pytest.raises(InvalidInput, match="which is a class too"):
            adversarial(abstain=0.2, abstain_label=labels[0]).fit(X, np.array(labels)[y])
        other = adversarial(abstain=0.2, abstain_label="?").fit(X, np.array(labels)[y])
        assert "?" in other.predict(X).tolist()

    def test_a_cost_of_examples_moves_the_decision(self, iris):
        X, y = iris
        plain = adversarial().fit(X, y)
        dear = adversarial().fit(X, y, example_costs=np.where(y == 1, 10.0, 1.0))
        assert np.mean(dear.predict(X)[y == 1] == 1) > np.mean(plain.predict(X)[y == 1] == 1)
        tables = np.where(y == 1, 10.0, 1.0)[:, None, None] * (1 - np.eye(3))
        same = adversarial().fit(X, y, example_costs=tables)
        np.testing.assert_allclose(same.objective_, dear.objective_, rtol=2e-3)
        assert dear.loss_ == plain.loss_  # new rows have the cost itself
        with pytest.raises(InvalidInput, match=r"expected \(150,\), a factor for each example, or \(150, 3, 3\)"):
            adversarial().fit(X, y, example_costs=np.ones((150, 3)))

    def test_wrong_costs_are_named(self, iris):
        X, y = iris
        for cost, message in (
            ("zeroone", "did you mean 'zero_one'"),
            ({0: {0: 0, 1: 1}}, "says nothing of answering 0 where 2 is true"),
            ({0: 1, 1: 2}, "expected a dict of what that answer costs"),
            (np.ones((3, 4)), "with 4 columns, but y has 3 classes"),
            (lambda answer, truth: "dear", "answering 0 where 0 is true costs 'dear', expected a number"),
            ({0: {0: 0, 1: "x", 2: 1}}, "answering 0 where 1 is true costs 'x'"),
            (pd.DataFrame(np.ones((2, 3)), index=[1, 1], columns=[0, 1, 2]), "names an answer twice"),
        ):
            with pytest.raises(ValueError, match=message):
                adversarial(cost).fit(X, y)
        with pytest.raises(InvalidInput, match="has a price for no answer already"):
            adversarial(Abstain(0.2), abstain=0.3).fit(X, y)
        with pytest.raises(InvalidInput, match="abstain is -1"):
            adversarial(abstain=-1).fit(X, y)
        with pytest.raises(InvalidInput, match="features is 'grades', expected one of 'multiclass', 'threshold'"):
            adversarial(features="grades").fit(X, y)


class TestPredictions:
    @pytest.mark.parametrize(
        "options", [{}, {"cost": "squared"}, {"cost": "absolute", "features": "threshold"}, {"abstain": 0.3}], ids=str
    )
    def test_the_predictor_pays_no_more_than_any_answer_against_the_adversary(self, iris, options):
        X, y = iris
        model = adversarial(**options).fit(X, y)
        p, costs = model.predict_proba(X), model.expected_cost(X)
        assert p.shape == costs.shape == (150, len(model.answers_))
        assert (p >= 0).all()
        np.testing.assert_allclose((p * costs).sum(axis=1), costs.min(axis=1), atol=1e-9)
        np.testing.assert_array_equal(model.decision_distribution(X), p)
        np.testing.assert_array_equal(model.answers_[p.argmax(axis=1)], model.predict(X))
        table = model._answer_table()
        values = model.loss_.value(model._output(X).scores, model.loss_.structure.encode(y))
        assert ((p * table[:, y].T).sum(axis=1) <= values + 1e-9).all()  # the loss bounds what p* costs
        drawn = np.mean(
            [model.sample_predictions(X, random_state=seed) == model.answers_[0] for seed in range(300)], axis=0
        )
        np.testing.assert_allclose(drawn, p[:, 0], atol=0.15)

    def test_half_a_price_abstains_where_the_lead_is_below_one_half(self, iris):
        """Corollary 2.4 of the thesis."""
        X, y = iris
        model = adversarial(abstain=0.5).fit(X, y)
        f = model.decision_function(X)
        top = np.sort(f, axis=1)
        lead = top[:, -1] - top[:, -2]
        clear = abs(lead - 0.5) > 1e-9
        expected = np.where(lead >= 0.5, f.argmax(axis=1), -1)
        np.testing.assert_array_equal(model.predict(X)[clear], expected[clear])

    def test_thresholds_share_a_direction(self, iris):
        X, y = iris
        model = adversarial("absolute", features="threshold").fit(X, y)
        assert model.coef_.shape == (1, 4)
        assert model.intercept_.shape == (2,)
        scores = X @ model.coef_.T + model.intercept_
        np.testing.assert_allclose(np.diff(model.decision_function(X), axis=1), scores)
        assert model.predict_marginals(X).shape == (150, 2)

    def test_decoding_by_the_highest_score_is_zero_one_prediction(self, iris):
        X, y = iris
        likeliest, highest = (adversarial(decoding=d).fit(X, y) for d in ("likeliest", "map"))
        np.testing.assert_array_equal(likeliest.predict(X), highest.predict(X))
        np.testing.assert_array_equal(highest.predict(X), highest.decision_function(X).argmax(axis=1))


class TestTraining:
    @pytest.mark.filterwarnings("ignore::fenchel.errors.ConvergenceWarning")
    @pytest.mark.parametrize(
        "options",
        [
            {"solver": "bcfw"},
            {"solver": "pegasos", "max_iter": 100},
            {"solver": "adam", "max_iter": 50},
            {"solver": "sgd", "max_iter": 50},
            {"solver": "dual_coordinate"},
            {"smoothing": 0.01},
        ],
        ids=lambda o: next(iter(o.values())) if "solver" in o else "smoothed",
    )
    def test_solvers_agree(self, iris, options):
        X, y = iris
        best = adversarial(tol=1e-6).fit(X, y)
        model = adversarial(**options).fit(X, y)
        assert model.objective_ - model.dual_gap_ <= best.objective_ + 0.02 * ("smoothing" in options)
        assert abs(model.objective_ - best.objective_) <= 0.05 * best.objective_
        assert np.mean(model.predict(X) == best.predict(X)) > 0.96

    def test_l1_leaves_features_out(self, iris):
        X, y = iris
        rng = np.random.default_rng(0)
        wide = np.column_stack([X, rng.normal(size=(150, 10))])
        model = adversarial(penalty="l1", smoothing=0.1, alpha=0.05).fit(wide, y)
        assert model.converged_
        assert model.coef_.any(axis=0).sum() <= 4  # of 14
        with pytest.raises(IncompatiblePair, match="does not take penalty='l1'; use Proximal or Adam or SGD"):
            adversarial(penalty="l1", solver="bcfw").fit(X, y)

    def test_a_kernel_is_fitted_in_batches_and_one_by_one(self):
        X, y = make_moons(120, noise=0.1, random_state=0)
        options = {"kernel": "rbf", "kernel_params": {"gamma": 2.0}, "alpha": 0.02}
        batch = adversarial(**options).fit(X, y)
        assert batch.score(X, y) > 0.95
        whole, chunks = (adversarial(solver="pegasos", **options) for _ in range(2))
        for _ in range(2):
            whole.partial_fit(X, y, classes=[0, 1])
            for i in range(0, 120, 25):
                chunks.partial_fit(X[i : i + 25], y[i : i + 25], classes=[0, 1])
        np.testing.assert_allclose(whole.weights_, chunks.weights_, atol=1e-12)
        assert whole.inputs_.shape == (240, 2)
        assert whole.score(X, y) > 0.9
        # coefficients as in the reference: w = -1/(alpha t) times the sum of residuals
        shares = whole.weights_[:240] * options["alpha"] * 240
        assert abs(shares).max() <= 1 + 1e-9
        batch.set_params(solver=Pegasos()).partial_fit(X[:5], y[:5])
        assert batch.inputs_.shape == (125, 2)
        grades = adversarial("absolute", features="threshold", solver="pegasos", **options)
        assert grades.partial_fit(X, y, classes=[0, 1]).score(X, y) > 0.8

    def test_alpha_is_chosen_by_the_cost_of_the_answers(self, iris):
        X, y = iris
        model = adversarial(abstain=0.1, alpha="cv", tol=0.01).fit(X, y)
        means = model.cv_results_["mean_cost"]
        assert model.alpha_ == model.cv_results_["alpha"][means.argmin()]
        assert means.min() < 0.07
        assert means.max() <= 0.1 + 1e-9  # abstaining is always there

    def test_warm_start_takes_up_the_planes(self, iris):
        X, y = iris
        model = adversarial(warm_start=True).fit(X, y)
        cold = model.n_iter_
        assert model.fit(X, y).n_iter_ == 1 < cold


class TestMargins:
    def test_one_vs_all_is_linear_svc(self, iris):
        X, y = iris
        alpha = 0.01
        ours = MarginClassifier("one_vs_all", alpha=alpha, tol=1e-6).fit(X, y)
        theirs = LinearSVC(
            C=1 / (alpha * len(y)), loss="hinge", intercept_scaling=1.0, tol=1e-8, max_iter=1_000_000, random_state=0
        ).fit(X, y)
        np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=0.02)

    @pytest.mark.parametrize(
        ("loss", "options"),
        [
            ("weston_watkins", {}),
            ("lee_lin_wahba", {}),
            ("all_thresholds", {}),
            ("immediate_thresholds", {"kernel": "rbf"}),
            ("threshold_reduction", {"cost": "squared"}),
            ("threshold_reduction", {"cost": "squared", "features": "multiclass"}),
            ("one_sided_regression", {"cost": "absolute"}),
            ("cost_sensitive_one_vs_all", {"cost": "absolute"}),
            ("cost_sensitive_one_vs_one", {"cost": "absolute"}),
        ],
    )
    def test_all_losses_learn(self, iris, loss, options):
        X, y = iris
        model = MarginClassifier(loss, alpha=0.01, **options).fit(X, y)
        assert model.converged_
        assert model.score(X, y) > (0.6 if loss == "lee_lin_wahba" else 0.85)
        shared = loss.endswith("thresholds") or (loss == "threshold_reduction" and "features" not in options)
        assert (model.weights_.ndim == 1) == shared

    def test_abstaining_is_a_matter_of_margins(self, iris):
        X, y = iris
        for loss in ("crammer_singer", "one_vs_all"):
            model = MarginClassifier(loss, abstain=0.3, alpha=0.05).fit(X, y)
            assert model.answers_.tolist() == [0, 1, 2, -1]
            share = np.mean(model.predict(X) == -1)
            assert 0 < share < 0.6
            never = MarginClassifier(
                loss, abstain=0.3, abstain_below=0.0 if loss == "crammer_singer" else -99, alpha=0.05
            )
            assert np.mean(never.fit(X, y).predict(X) == -1) == 0
        with pytest.raises(InvalidInput, match="loss='weston_watkins' cannot abstain"):
            MarginClassifier("weston_watkins", abstain=0.3).fit(X, y)

    def test_what_does_not_go_together_is_said(self, iris):
        X, y = iris
        with pytest.raises(InvalidInput, match="features='threshold' needs a loss on thresholds"):
            MarginClassifier(features="threshold").fit(X, y)
        with pytest.raises(InvalidInput, match="margin losses answer with classes; use AdversarialClassifier"):
            MarginClassifier("one_sided_regression", cost=np.ones((2, 3))).fit(X, y)
        with pytest.raises(InvalidInput, match="loss is 'svm', expected one of 'crammer_singer'"):
            MarginClassifier("svm").fit(X, y)
        assert not hasattr(MarginClassifier().fit(X, y), "predict_proba")


class TestInScikitLearn:
    def test_grids_saving_and_cross_validation(self, iris, tmp_path):
        X, y = iris
        grid = GridSearchCV(adversarial(tol=0.01), {"alpha": [0.01, 1.0], "abstain": [None, 0.9]}).fit(X, y)
        assert grid.best_score_ > 0.9
        assert cross_val_predict(adversarial(tol=0.01), X, y, method="predict_proba").shape == (150, 3)
        for model in (
            adversarial({0: {0: 0, 1: 1, 2: 2}, 1: {0: 1, 1: 0, 2: 1}}, abstain=0.4, abstain_label="?"),
            adversarial("absolute", features="threshold", kernel="rbf"),
            adversarial(solver="pegasos", tol=0.05, warm_start=True),
            MarginClassifier("one_vs_all", abstain=0.3),
        ):
            fitted = clone(model).fit(X, y)
            path = fenchel.save(fitted, tmp_path / "model.fenchel", overwrite=True)
            again = fenchel.load(path)
            assert np.array_equal(again.predict(X), fitted.predict(X))
            assert again.answers_.tolist() == fitted.answers_.tolist()

    def test_digits(self):
        X, y = load_digits(return_X_y=True)
        X = X / 16
        model = AdversarialClassifier(alpha=1e-3).fit(X[:1200], y[:1200])
        assert model.score(X[1200:], y[1200:]) > 0.9
