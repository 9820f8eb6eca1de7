"""The same likelihood and the same weights as CRFsuite, on the same features.

Where sklearn-crfsuite is not installed its answers are those recorded from ``python tests/test_crfsuite.py`` with
sklearn-crfsuite 0.5.0 and python-crfsuite 0.9.12.
"""

import numpy as np
import pytest

from fenchel import SequenceLabeler
from fenchel.losses import CRF
from fenchel.scorers import LinearChain

C2 = 0.3
RECORDED = {
    "all": (142.964931, [0.143608, 0.094046, 0.106439, 0.193821, -0.334657, 0.545387]),
    "met": (143.786462, [0.148192, 0.09917, 0.120452, 0.266019, -0.31586, 0.56692]),
}


def data():
    """Forty sentences of a small language, the same everywhere: no random numbers are drawn."""
    words, state = [], 7
    X, y = [], []
    for i in range(40):
        words = []
        for _ in range(1 + i % 7):
            state = (state * 1103515245 + 12345) % 2**31
            words.append((state >> 16) % 11)
        X.append([{"w": f"w{w}", "length": float(w % 4), "first": t == 0, "ends": [f"e{w % 3}", f"s{w % 2}"],
                   "before": {"w": f"w{words[t - 1]}"} if t else {}} for t, w in enumerate(words)])  # fmt: skip
        y.append([["N", "V", "D"][(w + (words[t - 1] if t else 0) + i % 2) % 3] for t, w in enumerate(words)])
    return X, y


def by_crfsuite(weights):
    """Final loss, and the weights of features and of transitions."""
    import sklearn_crfsuite

    model = sklearn_crfsuite.CRF(
        algorithm="lbfgs", c1=0, c2=C2, max_iterations=5000, epsilon=1e-12, delta=1e-13, period=50, min_freq=-1e9,
        all_possible_states=weights == "all", all_possible_transitions=True,
    )  # fmt: skip
    model.fit(*data())
    return model.training_log_.iterations[-1]["loss"], model.state_features_, model.transition_features_


def some(features, transitions):
    """A few weights, for the record."""
    return [features.get(("w:w3", "N"), 0.0), features.get(("length", "V"), 0.0), features.get(("ends:e1", "D"), 0.0),
            features.get(("first", "N"), 0.0), transitions["N", "V"], transitions["D", "D"]]  # fmt: skip


def ours(weights):
    X, y = data()
    model = SequenceLabeler(alpha=2 * C2 / len(X), weights=weights, fit_intercept=False, tol=1e-13).fit(X, y)
    names, labels = model.encoder_.get_feature_names_out().tolist(), model.classes_.tolist()
    features = {(n, label): model.coef_[i, j] for j, n in enumerate(names) for i, label in enumerate(labels)}
    table = model.transition_table()
    transitions = {(a, b): table[i, j] for i, a in enumerate(labels) for j, b in enumerate(labels)}
    return model.objective_ * len(X), features, transitions


@pytest.mark.parametrize("weights", ["all", "met"])
def test_likelihood_and_weights_equal_those_recorded_from_crfsuite(weights):
    loss, few = RECORDED[weights]
    value, features, transitions = ours(weights)
    assert np.isclose(value, loss, rtol=1e-6)
    assert np.allclose(some(features, transitions), few, atol=1e-4)


@pytest.mark.parametrize("weights", ["all", "met"])
def test_likelihood_and_all_weights_equal_those_of_crfsuite(weights):
    pytest.importorskip("sklearn_crfsuite")
    loss, features, transitions = by_crfsuite(weights)
    value, own, table = ours(weights)
    assert np.isclose(value, loss, rtol=1e-6)
    assert max(abs(own[key] - features.get(key, 0.0)) for key in own) < 1e-3
    assert max(abs(table[key] - transitions.get(key, 0.0)) for key in table) < 1e-3
    # and at CRFsuite's own weights the two likelihoods are the same number
    X, y = data()
    model = SequenceLabeler(fit_intercept=False, alpha=2 * C2 / len(X)).fit(X, y)
    names, labels = model.encoder_.get_feature_names_out().tolist(), model.classes_.tolist()
    w = [features.get((n, label), 0.0) for n in names for label in labels]
    w = np.array(w + [transitions.get((a, b), 0.0) for a in labels for b in labels])
    scorer = model._scorer(model._read(X, fit=False), model.loss_)
    assert isinstance(scorer, LinearChain)
    v = model.loss_.structure.encode([[labels.index(label) for label in one] for one in y])
    assert np.isclose(CRF(model.loss_.structure).value(scorer.scores(w), v).sum() + C2 * w @ w, loss, rtol=1e-5)


if __name__ == "__main__":
    for kind in RECORDED:
        loss, features, transitions = by_crfsuite(kind)
        print(kind, round(loss, 6), [round(w, 6) for w in some(features, transitions)])
