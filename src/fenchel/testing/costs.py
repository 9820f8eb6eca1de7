"""The conformance suite of costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ..costs.base import Cost
from ..structures.base import Structure

__all__ = ["check_cost", "cost_checks"]


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
