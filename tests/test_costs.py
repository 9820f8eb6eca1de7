"""Costs beyond the conformance suite: what users write themselves, pairs in the wrong order, and what is refused."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fenchel
from fenchel import LabelRanker, OrdinalClassifier
from fenchel.costs import AffineCost, CostFunction, CostMatrices, CostMatrix, Disagreements, FMeasure, Hamming
from fenchel.decoders import Calibrated
from fenchel.errors import IncompatiblePair, InvalidInput
from fenchel.losses import FenchelYoung
from fenchel.structures import Birkhoff, Budget, Cube, LinearOrdering, OrderSimplex, Simplex


def missed_alarms(answer, truth):
    return 5.0 * max(truth - answer, 0) + max(answer - truth, 0)


@settings(deadline=None, max_examples=30)
@given(st.integers(2, 5), st.integers(0, 2**32 - 1))
def test_the_best_ordering_has_the_fewest_disagreements_with_a_distribution(n, seed):
    """Calibrated decoding for pairwise disagreements is Kemeny's rule, here against all n! answers."""
    rng = np.random.default_rng(seed)
    rankings = LinearOrdering(n)
    every = np.array(list(itertools.permutations(range(n))))
    weights = rng.dirichlet(np.full(len(every), 0.2))
    mean = np.tensordot(weights, rankings.encode(every), 1)
    cost = Disagreements()
    expected = np.array([weights @ cost(np.broadcast_to(answer, every.shape), every) for answer in every])
    output = FenchelYoung(rankings, "euclidean").output(mean)  # a point of the set is its own projection
    answer = Calibrated(rankings, cost).decode(output)
    assert weights @ cost(np.broadcast_to(answer, every.shape), every) <= expected.min() + 1e-6


def test_ties_disagree_with_nothing():
    assert Disagreements()([[0, 0, 1]], [[1, 0, 2]]).tolist() == [0.0]


@given(st.integers(1, 6), st.floats(0.3, 3), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=50)
def test_f_measure_is_the_weighted_harmonic_mean(k, beta, seed):
    rng = np.random.default_rng(seed)
    answer, truth = rng.integers(0, 2, (2, k))
    both, ours, theirs = (answer & truth).sum(), answer.sum(), truth.sum()
    cost = FMeasure(beta)(answer[None], truth[None])[0]
    if both == 0:
        assert cost == (0 if ours == theirs == 0 else 1)
    else:
        precision, recall = both / ours, both / theirs
        assert np.isclose(cost, 1 - (1 + beta**2) * precision * recall / (beta**2 * precision + recall))


@pytest.mark.parametrize(
    ("cost", "structure", "words"),
    [
        (Disagreements(), Birkhoff(3), "use LinearOrdering"),
        (FMeasure(), Cube(3), "use Budget"),
        (FMeasure(), Budget(3, 1, 2), "use Budget"),
        (CostFunction(missed_alarms), Birkhoff(8), "too many outputs"),
        (CostFunction(lambda a, t: float(abs(int(a.sum()) - int(t.sum())))), Cube(3), "off by"),
        (AffineCost(Cube(2), np.eye(2)), Cube(3), "was given for Cube"),
    ],
)
def test_costs_without_an_affine_form_say_why(cost, structure, words):
    with pytest.raises(IncompatiblePair, match=words):
        cost.affine(structure)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: CostFunction(3), "expected a function"),
        (lambda: CostFunction(lambda a, t: -1.0)([0, 1], [1, 0]), "gave -1.0 for the answer 0"),
        (lambda: CostFunction(lambda a, t: np.ones(3), vectorized=True)([0, 1], [1, 0]), r"shape \(3,\) for 2"),
        (lambda: AffineCost(Cube(2), np.eye(3)), r"V has shape \(3, 3\), expected \(2, 2\)"),
        (lambda: AffineCost("cube", np.eye(3)), "expected a structure"),
        (lambda: Disagreements()([[0.5, 1.0]], [[0, 1]]), "whole ranks"),
        (lambda: LinearOrdering(30), "at most 18 items"),
    ],
)
def test_what_costs_refuse(call, words):
    with pytest.raises(InvalidInput, match=words):
        call()


def test_one_output_costs_one_number():
    assert CostFunction(missed_alarms)(0, 2) == 10.0


def test_a_function_of_classes_is_its_matrix():
    function = CostFunction(missed_alarms)
    for structure in (Simplex(4), OrderSimplex(4)):
        form, vertices = function.affine(structure), structure.vertices()
        matrix = function.matrix(structure)
        for a, t in itertools.product(range(4), repeat=2):
            assert np.isclose(form.value(vertices[a], vertices[t]), matrix[a, t])


def test_estimators_take_a_name_a_matrix_a_function_or_a_cost():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    y = np.digitize(X[:, 0] + 0.5 * rng.normal(size=120), [-1, 0, 1])
    grades = np.arange(4)
    matrix = np.array([[missed_alarms(a, t) for t in grades] for a in grades])
    by_matrix = OrdinalClassifier(cost=matrix).fit(X, y).predict(X)
    assert np.array_equal(by_matrix, OrdinalClassifier(cost=matrix.tolist()).fit(X, y).predict(X))
    assert np.array_equal(by_matrix, OrdinalClassifier(cost=missed_alarms).fit(X, y).predict(X))
    assert by_matrix.mean() > OrdinalClassifier().fit(X, y).predict(X).mean()
    with pytest.raises(InvalidInput, match=r"needs k; give fenchel.costs.PrecisionAt"):
        OrdinalClassifier(cost="precision_at").fit(X, y)
    with pytest.raises(InvalidInput, match="expected the name of a cost"):
        OrdinalClassifier(cost=3).fit(X, y)


def test_a_model_with_a_function_as_cost_is_saved_by_its_name(tmp_path):
    X, y = np.arange(12.0).reshape(-1, 1), np.repeat([0, 1, 2], 4)
    model = OrdinalClassifier(cost=missed_alarms).fit(X, y)
    path = fenchel.save(model, tmp_path / "model.fenchel")
    with pytest.raises(fenchel.errors.SavedModelError, match="missed_alarms"):
        fenchel.load(path)
    again = fenchel.load(path, objects={"missed_alarms": missed_alarms})
    assert np.array_equal(again.predict(X), model.predict(X))


def test_rankers_on_pairs_answer_with_fewer_disagreements_than_always_the_same():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(150, 3))
    y = np.argsort(np.argsort(X @ rng.normal(size=(3, 4)) + 0.3 * rng.normal(size=(150, 4))), axis=1) + 1
    for regularizer in ("euclidean", "gibbs"):
        model = LabelRanker(regularizer, projection="linear_ordering", alpha=1e-2).fit(X[:100], y[:100])
        answers = model.predict(X[100:])
        assert (np.sort(answers, axis=1) == [1, 2, 3, 4]).all()
        assert Disagreements()(answers, y[100:]).mean() < 1.2
        assert model.predict_matrix(X[:2]).shape == (2, 4, 4)
    with pytest.raises(IncompatiblePair, match="linear_ordering"):
        LabelRanker(cost="disagreements").fit(X, y)
    with pytest.raises(InvalidInput, match="no matrices of ranks"):
        LabelRanker(projection="linear_ordering", decoding="cube").fit(X, y)


def test_hamming_on_a_larger_decoding_set_counts_wrong_entries():
    form = Hamming().affine(Birkhoff(3))
    P = Birkhoff(3).encode([[0, 1, 2], [1, 0, 2]])
    assert form.value(P[0], P[1]) == 2


def test_a_matrix_with_an_impossible_cost_says_where():
    with pytest.raises(InvalidInput, match="got nan at answer 1, truth 0"):
        CostMatrix([[0, 1], [np.nan, 0]])
    with pytest.raises(InvalidInput, match="got -1 at sample 0, answer 0, truth 1"):
        CostMatrices([[[0, -1], [1, 0]]])
