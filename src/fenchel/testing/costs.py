"""The conformance suite of costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..costs.base import Cost, as_outputs
from ..structures.base import Structure

__all__ = ["check_cost", "check_cost_between", "cost_between_checks", "cost_checks"]


def check_cost(cost: Cost, structure: Structure) -> None:
    """Check a cost and its affine form over all pairs of outputs of a small structure.

    >>> from fenchel.costs import Hamming
    >>> from fenchel.structures import Cube
    >>> from fenchel.testing import check_cost
    >>> check_cost(Hamming(), Cube(3))
    """
    for name, check in cost_checks(cost, structure):
        try:
            check()
        except AssertionError as error:
            raise AssertionError(f"{cost!r} on {structure!r} fails the check {name!r}: {error}") from error


def cost_checks(cost: Cost, structure: Structure) -> Iterator[tuple[str, Callable[[], None]]]:
    """The checks of a cost on a structure, as (name, function) pairs."""
    vertices = structure.vertices()
    n = len(vertices)
    matrix = cost.matrix(structure)

    def check_matrix() -> None:
        assert matrix.shape == (n, n), "the matrix does not cover all pairs"
        assert np.all(np.isfinite(matrix)), "a cost is not finite"
        assert np.all(matrix >= 0), "a cost is negative"
        assert np.allclose(np.diag(matrix), 0), "being right is not free"

    def check_affine_form() -> None:
        form = cost.affine(structure)
        answers, truths = np.repeat(vertices, n, axis=0), np.tile(vertices, (n,) + (1,) * len(structure.shape))
        assert np.allclose(form.value(answers, truths).reshape(n, n), matrix), "the affine form is not the cost"

    def check_affine_form_averages() -> None:
        form = cost.affine(structure)
        rng = np.random.default_rng(0)
        weights = rng.dirichlet(np.ones(n), size=5)
        mu = np.tensordot(weights, vertices, axes=1)
        expected = weights @ matrix.T
        for a in range(n):
            answer = np.broadcast_to(vertices[a], mu.shape)
            assert np.allclose(form.value(answer, mu), expected[:, a]), "the affine form does not average"

    def check_calls_are_per_example() -> None:
        outputs = structure.decode(vertices)
        costs = cost(outputs, outputs[::-1])
        assert np.shape(costs) == (n,), "a call does not give one cost per example"

    yield "matrix", check_matrix
    yield "affine_form", check_affine_form
    yield "affine_form_averages", check_affine_form_averages
    yield "calls_are_per_example", check_calls_are_per_example


def check_cost_between(cost: Cost, answers: Any, truths: Any) -> None:
    """Check a cost between outputs of any kind, which the loss trick takes, on two lists of examples.

    >>> from fenchel.costs import EditDistance
    >>> from fenchel.testing import check_cost_between
    >>> check_cost_between(EditDistance(), ["tea", "coffee"], ["water", "tee", ""])
    """
    for name, check in cost_between_checks(cost, answers, truths):
        try:
            check()
        except AssertionError as error:
            raise AssertionError(f"{cost!r} fails the check {name!r}: {error}") from error


def cost_between_checks(cost: Cost, answers: Any, truths: Any) -> Iterator[tuple[str, Callable[[], None]]]:
    """The checks of a cost between lists of outputs, as (name, function) pairs."""
    ours, theirs = as_outputs(answers), as_outputs(truths)

    def table() -> Any:
        return np.asarray(cost.between(ours, theirs))

    def check_shape_and_sign() -> None:
        assert table().shape == (len(ours), len(theirs)), "the costs are no matrix [answer, truth]"
        assert np.isfinite(table()).all(), "a cost is not finite"
        assert table().min(initial=0) >= 0, "a cost is negative"

    def check_pairs() -> None:
        n = min(len(ours), len(theirs))
        costs = np.asarray(cost(ours[:n], theirs[:n]))
        assert costs.shape == (n,), "a call does not give one cost per example"
        assert np.allclose(costs, np.diag(table())), "the cost of pairs is not that between lists"

    def check_blocks() -> None:
        parts = np.concatenate([cost.between(ours[:1], theirs), cost.between(ours[1:], theirs)])
        assert np.allclose(parts, table()), "costs depend on the other answers"

    def check_factors() -> None:
        factors = cost.factors(theirs)
        if factors is not None:
            rows, of_answers = factors
            assert np.allclose(of_answers(ours) @ rows.T, table()), "the factors do not give the cost"

    yield "shape_and_sign", check_shape_and_sign
    yield "pairs", check_pairs
    yield "blocks", check_blocks
    yield "factors", check_factors
