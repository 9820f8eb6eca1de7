"""Pictures show what they are given."""

import numpy as np
import pytest

from fenchel.errors import InvalidInput
from fenchel.estimators.path import Path
from fenchel.plots import calibration, compare_losses, loss_curves, path, soft_permutation, soft_predictions
from fenchel.plots.training import _apart


def colour(artist):
    return tuple(np.ravel(artist.get_color()))


def test_soft_permutation_shows_truth_and_decoded_ranking():
    mu = np.array([[0.5, 0.5, 0.0], [0.25, 0.5, 0.25], [0.25, 0.0, 0.75]])
    ax = soft_permutation(mu, truth=[1, 0, 2], decoded=[0, 1, 2], labels=["x", "y", "z"])
    outlined = [(round(p.get_x() + p.get_width() / 2), round(p.get_y() + p.get_height() / 2)) for p in ax.patches]
    assert outlined == [(1, 0), (0, 1), (2, 2)]
    dots = next(line for line in ax.lines if line.get_label() == "decoded")
    np.testing.assert_array_equal(np.round(np.c_[dots.get_xdata(), dots.get_ydata()]), [[0, 0], [1, 1], [2, 2]])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["truth", "decoded"]
    assert [text.get_text() for text in ax.texts] == ["50", "50", "25", "50", "25", "25", "75"]
    shown = ax.images[0].get_array()
    assert np.array_equal(np.ma.getmaskarray(shown) | ~np.isfinite(np.ma.filled(shown, np.nan)), mu == 0)
    assert [t.get_text() for t in ax.get_yticklabels()] == ["x", "y", "z"]
    assert soft_permutation(mu).get_legend() is None


def made_path(features):
    weights = np.random.default_rng(0).normal(size=(3, features, 2))
    return Path(np.array([1.0, 0.1, 0.01]), weights, np.zeros(3), np.zeros(3), np.zeros(3))


def test_path_draws_every_weight_of_one_score():
    result = made_path(5)
    ax = path(result, score=1, names=list("abcde"))
    drawn = np.array([line.get_ydata() for line in ax.lines[:5]]).T
    np.testing.assert_array_equal(drawn, result.weights[:, :, 1])
    assert [text.get_text() for text in ax.texts] == list("abcde")
    assert len({(line.get_color(), line.get_linestyle()) for line in ax.lines[:5]}) == 5
    assert ax.get_xlim() == (1.0, 0.01)
    assert not path(made_path(17)).texts  # too many to name
    with pytest.raises(InvalidInput, match="names holds 2 names, but the path has 5 weights"):
        path(result, names=["a", "b"])


def test_names_keep_their_distance_and_order():
    rng = np.random.default_rng(0)
    for n in (1, 2, 7, 16):
        heights = rng.integers(0, 4, n) / 2.0
        moved = _apart(heights, 0.3)
        order = np.argsort(heights, kind="stable")
        assert np.all(np.diff(moved[order]) >= 0.3 - 1e-12)
        assert moved.mean() == pytest.approx(heights.mean())
    np.testing.assert_allclose(_apart(np.array([5.0, 0.0, 1.0]), 0.3), [5.0, 0.0, 1.0])
    np.testing.assert_allclose(_apart(np.array([1.0, 1.0]), 0.4), [0.8, 1.2])


def test_loss_curves_draw_gaps_or_objectives():
    runs = {"a": [(0, 2.0, 1.5), (1, 0.6, 0.2)], "b": [(0, 2.0, 1.0), (5, 0.5, 0.1)]}
    a, b = loss_curves(runs).lines
    assert a.get_ydata().tolist() == [1.5, 0.2]
    assert b.get_xdata().tolist() == [0, 5]
    assert colour(a) != colour(b)
    a, b = loss_curves(runs, of="objective").lines
    np.testing.assert_allclose(a.get_ydata(), [1.5, 0.1])
    np.testing.assert_allclose(b.get_ydata(), [1.5])  # the least one itself has no logarithm
    with pytest.raises(InvalidInput, match="of is 'loss'"):
        loss_curves(runs, of="loss")
    with pytest.raises(InvalidInput, match="histories"):
        loss_curves({})


def test_calibration_is_on_the_diagonal_for_the_truth():
    rng = np.random.default_rng(0)
    p = rng.random(200_000)
    ax = calibration(p, rng.random(p.size) < p, label="truth")
    x, shares = ax.collections[0].get_offsets().T
    np.testing.assert_allclose(x, np.arange(0.05, 1, 0.1), atol=0.01)
    np.testing.assert_allclose(shares, x, atol=0.02)
    ax = calibration(p**2, rng.random(p.size) < p, label="timid", bins=4, ax=ax)
    curves = {line.get_label(): line for line in ax.lines}
    assert colour(curves["truth"]) != colour(curves["timid"])
    assert np.all(curves["timid"].get_ydata() > curves["timid"].get_xdata())
    assert len(curves["timid"].get_xdata()) == 4


def test_calibration_refuses_what_are_no_probabilities():
    with pytest.raises(InvalidInput, match="2 events but happened 3"):
        calibration([0.1, 0.2], [0, 1, 1])
    with pytest.raises(InvalidInput, match="expected probabilities, from 0 to 1"):
        calibration([0.1, 1.2], [0, 1])
    with pytest.raises(InvalidInput, match="expected probabilities"):
        calibration([np.nan], [1])
    assert len(calibration([1.0, 1.0 + 1e-9], [1, 1]).collections) == 1


def test_soft_predictions_and_compared_losses():
    ax = soft_predictions(np.array([[0.7, 0.3, 0.0]]), [1])
    assert [text.get_text() for text in ax.texts] == ["70", "30"]
    assert [p.get_x() for p in ax.patches] == [0.5]
    ax = compare_losses({"a": [1.0, 3.0], "b": [5.0, 5.0]})
    assert [bar.get_width() for bar in ax.patches] == [2.0, 5.0]


def test_the_surface_of_a_loss_shows_its_values():
    from fenchel.costs import Absolute, ZeroOne
    from fenchel.errors import IncompatiblePair
    from fenchel.losses import Adversarial
    from fenchel.plots import loss_surface
    from fenchel.structures import OrderSimplex, Simplex

    ax = loss_surface(Adversarial(Simplex(2), ZeroOne()), 1)
    x, y = ax.lines[0].get_data()
    np.testing.assert_allclose(y, np.maximum(0, np.maximum((1 + x) / 2, x)))  # the binary loss in closed form
    again = loss_surface(Adversarial(Simplex(2), ZeroOne()), 0, ax=ax)
    assert len(again.lines) == 2
    assert again.lines[0].get_color() != again.lines[1].get_color()
    classes = loss_surface(Adversarial(Simplex(3), Absolute()), 2, labels=["a", "b", "c"])
    grades = loss_surface(Adversarial(OrderSimplex(3), Absolute()), 2)
    assert classes.get_xlabel() == "score of class a above that of class c"
    first, second = (ax.collections[0].get_clim() for ax in (classes, grades))
    assert first == pytest.approx(second)
    with pytest.raises(IncompatiblePair, match="two or three classes"):
        loss_surface(Adversarial(Simplex(4), ZeroOne()), 0)
    with pytest.raises(ValueError, match="truth is 3, expected a class from 0 to 2"):
        loss_surface(Adversarial(Simplex(3), ZeroOne()), 3)
