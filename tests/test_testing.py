"""The conformance suite can fail: broken parts are caught, each by the check that should."""

import numpy as np
import pytest

from fenchel.costs import Absolute, Hamming
from fenchel.errors import MissingOracle
from fenchel.losses import FenchelYoung
from fenchel.structures import Cube, Oracle, Simplex
from fenchel.testing import check_cost, check_loss, check_structure


def broken(base, **methods):
    made = type("Broken" + base.__name__, (base,), {**methods, "__module__": __name__})
    globals()[made.__name__] = made  # so that it pickles
    return made


STRUCTURES = {
    "project_is_nearest": {"_project": lambda self, rows, accuracy: self._kl_project(rows, accuracy)},
    "kl_project_is_optimal": {"_kl_project": lambda self, rows, accuracy: self._project(rows, accuracy)},
    "argmax_is_best": {"_argmax": lambda self, rows: self._encode(np.asarray(rows).argmin(-1), rows.dtype)},
    "marginals_against_enumeration": {
        "_marginals": lambda self, rows: (Simplex._marginals(self, rows)[0], np.full_like(rows, 1 / self.k))
    },
    "sample_has_the_right_mean": {"_sample": lambda self, rows, rng: self._argmax(rows)},
    "decompose_is_a_convex_combination": {
        "_decompose": lambda self, rows: (rows[:, ::-1], Simplex._decompose(self, rows)[1])
    },
    "constants_against_enumeration": {"separation": lambda self, p=2: 1.0},
    "encode_and_decode_are_inverse": {"_decode": lambda self, rows: np.zeros(len(rows), dtype=int)},
    "missing_oracles_say_why": {"missing": lambda self: {"sample": "no"}},
    "a_batch_equals_the_loop": {
        "_project": lambda self, rows, accuracy: Simplex._project(self, rows, accuracy)[:: -1 if len(rows) == 6 else 1]
    },
    "types_are_kept_and_inputs_unchanged": {
        "_restore": lambda self, rows, batch, dtype: rows.astype(float).reshape(batch + self.shape)
    },
    "bad_input_is_refused_and_named": {
        "_rows": lambda self, value, name, points=False: (
            np.nan_to_num(np.atleast_2d(np.asarray(value, dtype=float))),
            np.shape(value)[:-1],
        )
    },
}


@pytest.mark.parametrize(("name", "methods"), STRUCTURES.items(), ids=list(STRUCTURES))
def test_a_broken_structure_is_caught(name, methods):
    from fenchel.testing import structure_checks

    with pytest.raises((AssertionError, ValueError, TypeError, MissingOracle)):
        dict(structure_checks(broken(Simplex, **methods)(4)))[name]()


def test_an_oracle_that_is_second_best_fails_first_by_its_argmax():
    def second_best(theta):
        return np.eye(5)[np.argsort(theta)[-2]]

    with pytest.raises(AssertionError, match="fails the check 'argmax_is_best': a vertex beats argmax"):
        check_structure(Oracle(second_best, (5,)))


def test_an_error_inside_a_check_names_the_check():
    def halts(self, rows):
        raise ZeroDivisionError("inside")

    with pytest.raises(AssertionError, match="fails the check '.*': it raises ZeroDivisionError: inside"):
        check_structure(broken(Simplex, _marginals=halts)(4))


def test_the_message_names_the_structure_and_the_check():
    with pytest.raises(AssertionError, match=r"BrokenSimplex\(4\) fails the check 'argmax_is_best': a vertex beats"):
        check_structure(broken(Simplex, **STRUCTURES["argmax_is_best"])(4))


LOSSES = {
    "value": lambda self, theta, v: (lambda r: (r[0] + 0.01, r[1]))(FenchelYoung.value_and_grad(self, theta, v)),
    "gradient": lambda self, theta, v: (lambda r: (r[0], 1.1 * r[1]))(FenchelYoung.value_and_grad(self, theta, v)),
    "convexity": lambda self, theta, v: (lambda r: (np.sqrt(r[0]), r[1]))(FenchelYoung.value_and_grad(self, theta, v)),
}


@pytest.mark.parametrize("method", LOSSES.values(), ids=list(LOSSES))
def test_a_broken_loss_is_caught(method):
    with pytest.raises(AssertionError, match="fails the check"):
        check_loss(broken(FenchelYoung, value_and_grad=method)(Simplex(3), "kl"))


def test_a_wrong_smoothness_is_caught():
    with pytest.raises(AssertionError, match="smoothness"):
        check_loss(broken(FenchelYoung, smoothness=property(lambda self: 0.1))(Simplex(3), "euclidean"))


def test_a_broken_cost_is_caught():
    class Half(Hamming):
        def affine(self, answers, truths=None):
            return Hamming().affine(answers, truths) if answers.k == 1 else Absolute().affine(Simplex(3))

    with pytest.raises((AssertionError, ValueError)):
        check_cost(Half(), Cube(3))
