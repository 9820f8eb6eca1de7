"""The estimator that labels sequences: inputs of every kind, losses, constraints, held-out data, saving."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split

import fenchel
from fenchel import SequenceLabeler
from fenchel.costs import CostMatrix, Hamming, Weighted
from fenchel.errors import IncompatiblePair, InvalidInput
from fenchel.losses import CRF
from fenchel.solvers import LBFGS, BlockFrankWolfe
from fenchel.structures import Chain

LOSSES = ("crf", "hinge", "perceptron", "sparsemap")
NAMES = np.array(["ant", "bee", "cow"])


def noisy_sequences(seed=0, n=60, d=4, spread=1.0):
    """Labels that tend to stay, and features that point at them; lengths from 0 on."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(size=(3, d)) * 1.5
    X, y = [], []
    for length in rng.integers(0, 9, size=n):
        labels = np.zeros(length, int)
        for t in range(length):
            labels[t] = rng.integers(3) if t == 0 or rng.random() < 0.4 else labels[t - 1]
        X.append(centres[labels] + rng.normal(size=(length, d)) * spread)
        y.append(NAMES[labels].tolist())
    return X, y


def dicts_of(X):
    return [[{f"x{j}": value for j, value in enumerate(row)} for row in x] for x in X]


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_learns_and_answers_with_the_labels_of_the_user(loss):
    X, y = noisy_sequences()
    model = SequenceLabeler(loss, alpha=0.1 if loss == "hinge" else 0.01, tol=5e-2, random_state=0).fit(X, y)
    other, truth = noisy_sequences(1)
    assert model.classes_.tolist() == NAMES.tolist()
    predicted = model.predict(other)
    assert [len(p) for p in predicted] == [len(x) for x in other]
    assert {label for p in predicted for label in p} <= set(NAMES.tolist())
    flat = np.mean([a == b for p, t in zip(predicted, truth, strict=True) for a, b in zip(p, t, strict=True)])
    assert np.isclose(model.score(other, truth), flat)
    assert flat > 0.8
    assert model.predict_single(other[3]) == predicted[3]
    marginals = model.predict_marginals(other)
    assert all(m.shape == (len(x), 3) and np.allclose(m.sum(axis=1), 1) for m, x in zip(marginals, other, strict=True))
    drawn = model.sample_predictions(other, random_state=0)
    assert drawn == model.sample_predictions(other, random_state=0)
    assert [len(p) for p in drawn] == [len(x) for x in other]
    if loss in ("hinge", "perceptron"):
        assert drawn == predicted


def test_the_marginals_are_those_of_the_chain_that_the_weights_describe():
    X, y = noisy_sequences()
    model = SequenceLabeler(alpha=0.05).fit(X, y)
    x = X[int(np.argmax([len(a) for a in X]))]
    chain = Chain(len(x), 3)
    theta = chain.pack(x @ model.coef_.T + model.intercept_, model.transition_table())
    assert np.allclose(model.predict_marginals([x])[0], chain.unpack(chain.marginals(theta)[1])[0])
    best = SequenceLabeler(alpha=0.05, cost="zero_one").fit(X, y)
    assert best.predict_single(x) == NAMES[chain.decode(chain.argmax(theta))].tolist()
    draws = [model.sample_predictions([x], random_state=s)[0] for s in range(300)]
    share = np.mean([[label == "ant" for label in draw] for draw in draws], axis=0)
    assert np.all(np.abs(share - model.predict_marginals([x])[0][:, 0]) < 0.15)


def test_dense_sparse_and_dicts_of_features_are_one_model():
    X, y = noisy_sequences()
    dense = SequenceLabeler(alpha=0.01, tol=1e-8).fit(X, y)
    for inputs in (
        [sparse.csr_matrix(x) for x in X],
        [sparse.csc_array(x) for x in X],
        dicts_of(X),
        [x.tolist() for x in X],
    ):
        model = SequenceLabeler(alpha=0.01, tol=1e-8).fit(inputs, y)
        assert np.allclose(model.weights_, dense.weights_, atol=1e-4)
        assert model.predict(inputs) == dense.predict(X)
    hashed = SequenceLabeler(alpha=0.01, hashed=2**10).fit(dicts_of(X), y)
    assert np.isclose(hashed.objective_, dense.objective_, rtol=1e-3)
    single = SequenceLabeler(alpha=0.01, tol=1e-5).fit([x.astype(np.float32) for x in X], y)
    assert np.allclose(single.weights_, dense.weights_, atol=1e-2)
    three = np.stack([x[:4] for x in X if len(x) >= 4])
    model = SequenceLabeler().fit(three, [labels[:4] for labels in y if len(labels) >= 4])
    assert model.predict(three[:2])[0] == model.predict_single(three[0])


def test_unknown_features_and_labels_and_sequences_of_any_length_at_predict_time():
    X, y = noisy_sequences()
    model = SequenceLabeler(alpha=0.01).fit(dicts_of(X), y)
    new = [[], [{"never": 1.0, "seen": "before"}], [{"x0": 1.0, "unheard": 3}], [{"x1": 0.5}] * 2000]
    assert [len(p) for p in model.predict(new)] == [0, 1, 1, 2000]
    assert [m.shape for m in model.predict_marginals(new)] == [(0, 3), (1, 3), (1, 3), (2000, 3)]
    assert np.isfinite(model.predict_marginals(new)[3]).all()
    assert model.predict([]) == model.predict_marginals([]) == model.sample_predictions([]) == []
    bare = np.append(model.predict_single(new[1]), "zebra").tolist()
    assert model.score([new[1], new[1]], [bare[:1], bare[1:]]) == 0.5
    arrays = SequenceLabeler(alpha=0.01).fit(X, y)
    assert [len(p) for p in arrays.predict([np.zeros((0, 4)), [], np.ones((1, 4)), np.ones((2000, 4))])] == [
        0,
        0,
        1,
        2000,
    ]
    only = SequenceLabeler().fit([[[1.0]], [[2.0], [3.0]]], [[7], [7, 7]])
    assert only.predict([[[5.0]]]) == [[7]]


@pytest.mark.parametrize("loss", ["crf", "hinge", "sparsemap"])
def test_training_for_a_cost_pays_in_that_cost(loss):
    X, y = noisy_sequences(spread=3.0, n=150)
    other, truth = noisy_sequences(5, spread=3.0, n=150)
    dear = CostMatrix([[0, 1, 10], [1, 0, 10], [1, 1, 0]])  # to miss a cow
    code = {name: i for i, name in enumerate(NAMES)}

    def paid(model):
        answers = [[code[label] for label in p] for p in model.predict(other)]
        return float(np.mean(dear(answers, [[code[label] for label in t] for t in truth])))

    common = {"alpha": 0.2, "tol": 5e-2, "random_state": 0}
    assert paid(SequenceLabeler(loss, cost=dear, **common).fit(X, y)) < 0.8 * paid(
        SequenceLabeler(loss, **common).fit(X, y)
    )
    SequenceLabeler(loss, cost=Weighted(Hamming(), [3.0] * 10), **common).fit(X[:20], y[:20])


def bio_data(seed=0, n=80):
    """Words whose kind shows only in the first of an entity."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        tags = []
        while len(tags) < 6:
            kind = rng.choice(["PER", "LOC", "O"])
            tags += ["O"] if kind == "O" else [f"B-{kind}"] + [f"I-{kind}"] * rng.integers(0, 3)
        X.append([{"first": tag if tag[0] == "B" and rng.random() < 0.8 else "?", "cap": tag != "O"} for tag in tags])
        y.append(tags)
    return X, y


@pytest.mark.parametrize("loss", LOSSES)
def test_bio_constraints_hold_in_training_and_in_every_answer(loss):
    X, y = bio_data()
    model = SequenceLabeler(loss, constraints="BIO", alpha=0.1, tol=5e-2, random_state=0).fit(X, y)
    table = model.transition_table()
    classes = model.classes_.tolist()
    assert table[classes.index("O"), classes.index("I-PER")] == -np.inf
    assert table[classes.index("B-LOC"), classes.index("I-PER")] == -np.inf
    assert np.isfinite(table[classes.index("B-LOC"), classes.index("I-LOC")])
    other, _ = bio_data(1, 40)
    blank = [[{"cap": True}] * 6] * 3
    for answers in (
        model.predict(other),
        model.predict(blank),
        model.sample_predictions(other + blank, random_state=0),
    ):
        for tags in answers:
            for before, tag in zip(["O", *tags], tags, strict=False):
                assert tag[0] != "I" or before[2:] == tag[2:]
    y[3][0] = "I-LOC"
    with pytest.raises(InvalidInput, match=r"sample 3 has .*I-LOC.* at position 0, which comes first"):
        SequenceLabeler(loss, constraints="BIO").fit(X, y)


def test_constraints_as_a_matrix():
    X, y = noisy_sequences()
    with pytest.raises(InvalidInput, match="forbids"):
        SequenceLabeler(constraints=np.eye(3, dtype=bool)).fit(X, y)
    kept = [(x, labels) for x, labels in zip(X, y, strict=True) if labels]
    X, same = [x for x, _ in kept], [[labels[0]] * len(labels) for _, labels in kept]
    for allowed in (np.eye(3, dtype=bool), np.vstack([np.eye(3, dtype=bool), [True, True, True]])):
        model = SequenceLabeler(constraints=allowed).fit(X, same)
        assert all(len(set(p)) == 1 for p in model.predict(X))
    with pytest.raises(InvalidInput, match="booleans"):
        SequenceLabeler(constraints=np.ones((3, 3))).fit(X, same)
    with pytest.raises(InvalidInput, match="'BIO' needs labels"):
        SequenceLabeler(constraints="BIO").fit(X, same)


def test_features_of_pairs_and_fixed_tables():
    X, y = noisy_sequences(n=80)
    plain = SequenceLabeler(alpha=0.05, tol=1e-8).fit(X, y)
    with_ones = [(x, np.ones((max(len(x) - 1, 0), 1))) for x in X]
    pairs = SequenceLabeler(edge_features="pairs", alpha=0.05, tol=1e-8).fit(with_ones, y)
    assert np.isclose(pairs.objective_, plain.objective_)
    assert np.allclose(pairs.pair_coef_[0], plain.transition_table(), atol=1e-3)
    every = np.eye(9).reshape(9, 3, 3)
    assert np.isclose(SequenceLabeler(edge_features=every, alpha=0.05, tol=1e-8).fit(X, y).objective_, plain.objective_)
    stay = SequenceLabeler(edge_features=[np.eye(3)], alpha=0.05).fit(X, y)
    table = stay.transition_table()
    assert table[0, 0] == table[1, 1] > 0
    assert table[0, 1] == 0
    with pytest.raises(InvalidInput, match="sample 2 have"):
        SequenceLabeler(edge_features="pairs").fit([*with_ones[:2], (X[2], np.ones((9, 1))), *with_ones[3:]], y)
    with pytest.raises(InvalidInput, match="a pair"):
        SequenceLabeler(edge_features="pairs").fit(X, y)


def test_top_features_and_the_transition_table():
    X, y = bio_data()
    model = SequenceLabeler(alpha=0.01).fit(X, y)
    names = [feature for feature, _, _ in model.top_features(4)]
    assert any(name.startswith(("first:", "cap")) for name in names)
    best = model.top_features(1, label="B-PER")
    assert best[0][:2] == ("first:B-PER", "B-PER")
    assert best[0][2] == model.coef_[model.classes_.tolist().index("B-PER")].max()
    with pytest.raises(InvalidInput, match="label is"):
        model.top_features(label="B-ORG")
    assert model.transition_table().shape == (5, 5)


def test_scikit_learn_splits_ragged_lists():
    X, y = noisy_sequences(n=40)
    parts = train_test_split(X, y, random_state=0)
    assert [len(part) for part in parts] == [30, 10, 30, 10]
    search = GridSearchCV(SequenceLabeler(tol=1e-2), {"alpha": [1e-3, 1.0], "loss": ["crf", "perceptron"]}, cv=3).fit(
        X, y
    )
    assert search.best_score_ > 0.8
    assert len(cross_val_score(SequenceLabeler(alpha=0.1), X, y, cv=4)) == 4
    chosen = SequenceLabeler(alpha="cv", tol=1e-2).fit(X, y)
    assert chosen.alpha_ in chosen.cv_results_["alpha"]
    assert SequenceLabeler(alpha="cv", tol=1e-2, cost="zero_one").fit(X, y).alpha_ > 0
    model = SequenceLabeler(constraints=np.ones((3, 3), bool), cost=Hamming())
    assert clone(model).get_params()["cost"] == Hamming()


def test_held_out_data_end_training_and_keep_the_best_weights():
    X, y = noisy_sequences(n=60, spread=3.0)
    other, truth = noisy_sequences(2, n=60, spread=3.0)
    options = {"alpha": 1e-6, "tol": 1e-9, "max_iter": 400, "n_iter_no_change": 5}
    model = SequenceLabeler(**options).fit(X, y, X_val=other, y_val=truth)
    costs = model.held_out_costs_
    assert len(costs) < 400
    assert len(costs) - 1 - costs.argmin() == 5 or model.converged_
    wrong = [sum(a != b for a, b in zip(p, t, strict=True)) for p, t in zip(model.predict(other), truth, strict=True)]
    assert np.isclose(np.mean(wrong), costs.min())
    own = SequenceLabeler(early_stopping=True, random_state=0, **options).fit(X, y)
    assert np.array_equal(
        own.held_out_costs_, SequenceLabeler(early_stopping=True, random_state=0, **options).fit(X, y).held_out_costs_
    )
    with pytest.raises(InvalidInput, match="go together"):
        model.fit(X, y, X_val=X)
    with pytest.raises(InvalidInput, match="y_val of sample 0 holds 'dog' at position 1"):
        model.fit(X, y, X_val=[X[0][:0].tolist() or np.ones((2, 4))], y_val=[["ant", "dog"]])


def test_partial_fit_in_chunks_of_any_size_gives_the_same_weights():
    X, y = noisy_sequences(n=200)
    whole = SequenceLabeler(alpha=0.01).partial_fit(X, y, classes=NAMES)
    parts = SequenceLabeler(alpha=0.01).partial_fit(X[:7], y[:7], classes=NAMES)
    for start in range(7, 200, 61):
        parts.partial_fit(X[start : start + 61], y[start : start + 61])
    assert np.allclose(whole.weights_, parts.weights_)
    assert whole.score(*noisy_sequences(1)) > 0.8
    with pytest.raises(InvalidInput, match="classes must be given"):
        SequenceLabeler().partial_fit(X, y)
    with pytest.raises(InvalidInput, match="sample 0 holds 'dog'"):
        whole.partial_fit([np.ones((1, 4))], [["dog"]])
    hashed = SequenceLabeler(hashed=64).partial_fit(dicts_of(X), y, classes=NAMES)
    assert hashed.score(dicts_of(X), y) > 0.8
    with pytest.raises(InvalidInput, match="hashed"):
        SequenceLabeler().partial_fit(dicts_of(X), y, classes=NAMES)


def test_sample_weights_count_sequences_as_often():
    X, y = noisy_sequences(n=30)
    weights = np.arange(30) % 3
    twice = [i for i in range(30) for _ in range(weights[i])]
    a = SequenceLabeler(alpha=0.1, tol=1e-9).fit(X, y, sample_weight=weights)
    b = SequenceLabeler(alpha=0.1, tol=1e-9).fit([X[i] for i in twice], [y[i] for i in twice])
    assert np.allclose(a.weights_, b.weights_, atol=1e-4)


def test_warm_starts_and_solvers_agree():
    X, y = noisy_sequences()
    model = SequenceLabeler(alpha=0.05, tol=1e-6, warm_start=True).fit(X, y)
    before = model.n_iter_
    assert model.fit(X, y).n_iter_ <= min(before, 2)
    for solver in (LBFGS(tol=1e-7), BlockFrankWolfe(tol=1e-2, random_state=0)):
        other = SequenceLabeler("sparsemap", alpha=0.05, solver=solver).fit(X, y)
        assert other.dual_gap_ <= 1e-2 * other.objective_
    least = SequenceLabeler(alpha=0.05, tol=1e-6).fit(X, y)
    adam = SequenceLabeler(alpha=0.05, solver="adam", tol=5e-2, random_state=0).fit(X, y)
    assert adam.converged_
    assert adam.objective_ - adam.dual_gap_ <= least.objective_ <= adam.objective_ + least.dual_gap_
    with pytest.raises(IncompatiblePair, match="learn nothing"):
        SequenceLabeler("perceptron", solver="bcfw").fit(X, y)
    with pytest.raises(IncompatiblePair, match="kinks"):
        SequenceLabeler("hinge", solver="lbfgs").fit(X, y)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_saved_model_answers_as_before(loss, tmp_path):
    X, y = bio_data(n=20)
    model = SequenceLabeler(loss, constraints="BIO", tol=1e-1, alpha=0.05, random_state=0).fit(X, y)
    fenchel.save(model, tmp_path / "m.fenchel")
    back = fenchel.load(tmp_path / "m.fenchel")
    assert back.predict(X) == model.predict(X)
    assert back.top_features(3) == model.top_features(3)
    assert np.array_equal(back.transition_table(), model.transition_table())


def test_inputs_that_do_not_fit_are_refused_with_the_sample():
    X, y = noisy_sequences(n=5)
    model = SequenceLabeler().fit(X, y)
    for fit, words in (
        (lambda: SequenceLabeler().fit(X, y[:4]), "X has 5 sequences but y has 4"),
        (lambda: SequenceLabeler().fit([np.ones((2, 3))], [["a"]]), "y of sample 0 has 1 labels, but X has 2 positions"),
        (lambda: SequenceLabeler().fit([np.ones((2, 3)), np.ones((1, 2))], [["a", "b"], ["a"]]), "sample 1 has 2 features"),
        (lambda: SequenceLabeler().fit([np.ones(3)], [["a"]]), r"shape \(3,\), expected \(positions, features\)"),
        (lambda: SequenceLabeler().fit([np.full((1, 2), np.nan)], [["a"]]), "sample 0 holds NaN"),
        (lambda: SequenceLabeler().fit([], []), "no sequences"),
        (lambda: SequenceLabeler().fit([[]], [[]]), "no label at all"),
        (lambda: SequenceLabeler().fit("text", [["a"]]), "X is str"),
        (lambda: SequenceLabeler().fit([[["w"]]], "a"), "y is str"),
        (lambda: SequenceLabeler().fit([[["w"]]], ["a"]), "y of sample 0 is 'a'"),
        (lambda: SequenceLabeler().fit([np.ones((2, 1))], [["a", 1]]), "texts only, or numbers only"),
        (lambda: SequenceLabeler("crv").fit(X, y), "loss is 'crv'"),
        (lambda: SequenceLabeler(edge_features="edge").fit(X, y), "edge_features is 'edge'"),
        (lambda: model.predict([np.ones((2, 7))]), "sample 0 has 7 features, but training had 4"),
        (lambda: model.score(X[:1], [y[0] + ["ant"]]), "y of sample 0"),
    ):  # fmt: skip
        with pytest.raises(InvalidInput, match=words):
            fit()
    with pytest.raises(IncompatiblePair, match="hinge|Hinge"):
        SequenceLabeler("hinge", cost="zero_one").fit(X, y)


def test_the_objective_is_the_negative_log_likelihood_and_the_penalty():
    X, y = noisy_sequences(n=12)
    model = SequenceLabeler(alpha=0.1, tol=1e-9).fit(X, y)
    code = {name: i for i, name in enumerate(NAMES)}
    total = 0.0
    for x, labels in zip(X, y, strict=True):
        chain = Chain(len(x), 3)
        theta = chain.pack(x @ model.coef_.T + model.intercept_, model.transition_table())
        total += float(CRF(chain).value(theta, chain.encode([code[label] for label in labels])))
    assert np.isclose(model.objective_, total / 12 + 0.05 * model.weights_ @ model.weights_)


def test_weights_for_labels_that_features_were_met_with():
    X, y = bio_data()
    full = SequenceLabeler(alpha=0.01).fit(X, y)
    model = SequenceLabeler(alpha=0.01, weights="met", tol=1e-8).fit(X, y)
    names = model.encoder_.get_feature_names_out().tolist()
    seen = {
        (names.index(f"first:{x['first']}"), tag)
        for xs, tags in zip(X, y, strict=True)
        for x, tag in zip(xs, tags, strict=True)
    }
    for j, name in enumerate(names):
        for i, label in enumerate(model.classes_.tolist()):
            if name.startswith("first:"):
                assert (model.coef_[i, j] != 0) == ((j, label) in seen)
    assert model.weights_.size < full.weights_.size
    assert model.objective_ > full.objective_ * 0.999
    assert model.score(X, y) > 0.8
    part = SequenceLabeler(alpha=0.01, weights="met", tol=1e-8, solver="bcfw", max_iter=3).fit
    with pytest.warns(fenchel.errors.ConvergenceWarning):
        other = part(X, y)
    assert other.objective_ >= model.objective_ - model.dual_gap_
    with pytest.raises(InvalidInput, match="sparse features"):
        SequenceLabeler(weights="met").fit(*noisy_sequences())
