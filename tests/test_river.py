"""The river wrapper: river's own checks, and the learner it stands for."""

import numpy as np
import pytest

river = pytest.importorskip("river")

from river import datasets, evaluate, metrics, preprocessing  # noqa: E402
from river.checks import check_estimator  # noqa: E402

from fenchel.online import Learner  # noqa: E402
from fenchel.online.river import RandomizedClassifier  # noqa: E402
from fenchel.structures import Simplex  # noqa: E402


@pytest.mark.parametrize("decoder", ["randomized", "deterministic"])
def test_it_passes_the_checks_of_river(decoder):
    check_estimator(RandomizedClassifier(decoder=decoder, seed=1))


def test_it_is_the_learner_once_all_classes_are_known():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)) / 4, rng.integers(0, 3, 60)
    X[:3], y[:3] = 0, [0, 1, 2]  # nothing is learned from nothing: the first rounds only name the classes
    model = RandomizedClassifier(step="constant", intercept=0.0)
    learner = Learner(Simplex(3), "kl", scale="auto", too_long="rescale", n_features=3)
    for x, label in zip(X, y, strict=True):
        model.learn_one({f"x{j}": x[j] for j in range(3)}, f"class {label}")
        learner.learn_one(x, label)
    proba = model.predict_proba_one({"x0": 0.1, "x1": -0.2, "x2": 0.05})
    assert list(proba) == ["class 0", "class 1", "class 2"]
    assert np.allclose(list(proba.values()), learner.predict_marginals([[0.1, -0.2, 0.05]])[0])


def test_progressive_validation():
    model = preprocessing.StandardScaler() | RandomizedClassifier(decoder="deterministic", max_norm=10, seed=1)
    metric = evaluate.progressive_val_score(datasets.ImageSegments().take(800), model, metrics.Accuracy())
    assert metric.get() > 0.7  # river's softmax regression reaches 0.77 on these
