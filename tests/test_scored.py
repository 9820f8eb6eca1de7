"""Classifiers trained for a cost, and the margin classifiers beside them, as their users meet them."""

import pytest
from sklearn.datasets import load_iris
from sklearn.utils.estimator_checks import parametrize_with_checks

from fenchel import AdversarialClassifier, MarginClassifier

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
            ("check_classifiers_train", "check_classifiers_classes", "check_decision_proba_consistency"), ABSTAINS
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
