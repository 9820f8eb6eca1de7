"""Every registered part passes the public conformance suite."""

import pytest

from fenchel._core import registry
from fenchel.costs import (
    Absolute,
    AffineCost,
    CostFunction,
    CostMatrix,
    Disagreements,
    Discounted,
    FMeasure,
    Hamming,
    PrecisionAt,
    Spearman,
    SquaredError,
    Weighted,
    WrongPartners,
    ZeroOne,
)
from fenchel.structures import (
    Arborescence,
    Birkhoff,
    Budget,
    Chain,
    Cube,
    DependencyTree,
    LinearOrdering,
    Matching,
    OrderSimplex,
    Permutahedron,
    Product,
    Simplex,
    SpanningTree,
)
from fenchel.testing import cost_between_checks, cost_checks, loss_checks, structure_checks


def _named(pairs, checks):
    return [pytest.param(check, id=f"{label}-{name}") for label, part in pairs for name, check in checks(part)]


@pytest.mark.parametrize("check", _named(registry.instances("structure"), structure_checks))
def test_structure(check):
    check()


@pytest.mark.parametrize("check", _named(registry.instances("loss"), loss_checks))
def test_loss(check):
    check()


COSTS = [
    (ZeroOne(), Simplex(4)),
    (ZeroOne(), OrderSimplex(4)),
    (Absolute(), Simplex(4)),
    (Absolute(), OrderSimplex(5)),
    (Hamming(), Cube(3)),
    (Hamming(), Simplex(3)),
    (Hamming(), OrderSimplex(3)),
    (Hamming(), Product(Simplex(3), 2)),
    (Hamming(), Product(OrderSimplex(3), 2)),
    (Hamming(), Product(Cube(2), 2)),
    (Hamming(), Birkhoff(3)),
    (Hamming(), Budget(4, 1, 2)),
    (Hamming(), Matching(2, 3)),
    (WrongPartners(0.25), Matching(3, 2)),
    (Hamming(), Arborescence(3)),
    (Hamming(), DependencyTree(2, labels=2)),
    (Hamming(), SpanningTree(4)),
    (SquaredError(), Simplex(4)),
    (SquaredError(), OrderSimplex(5)),
    (CostMatrix([[0, 1, 4], [2, 0, 1], [3, 3, 0]]), Simplex(3)),
    (CostMatrix([[0, 1, 4], [2, 0, 1], [3, 3, 0]]), OrderSimplex(3)),
    (Discounted(), Birkhoff(1)),
    (Discounted(), Birkhoff(4)),
    (Discounted(exponential=True), Birkhoff(3)),
    (PrecisionAt(2), Budget(4, 2, 2)),
    (Disagreements(), LinearOrdering(1)),
    (Disagreements(), LinearOrdering(4)),
    (Spearman(), Permutahedron(4)),
    (Spearman(), Permutahedron(1)),
    (Spearman(), Birkhoff(4)),
    (FMeasure(), Budget(4, 2, 2)),
    (FMeasure(2.0), Budget(3, 1, 1)),
    (FMeasure(), Budget(2, 0, 0)),
    (CostFunction(lambda answer, truth: 3.0 * abs(answer - truth)), OrderSimplex(4)),
    (CostFunction(lambda answer, truth: (answer != truth).sum() / 3), Cube(3)),
    (CostFunction(lambda answers, truths: ((answers - truths) ** 2).sum(axis=1), vectorized=True), Permutahedron(3)),
    (AffineCost(Cube(2), [[-3.0, 0.0], [0.0, -12.0]], [1.0, 2.0], [2.0, 10.0]), Cube(2)),
    (Hamming(), Chain(3, 2)),
    (Hamming(), Chain(3, 2, tied=True)),
    (Absolute(), Chain(2, 3)),
    (SquaredError(), Chain(2, 3)),
    (CostMatrix([[0, 1, 4], [2, 0, 1], [3, 3, 0]]), Chain(2, 3)),
    (Weighted(Absolute(), [3, 1, 0]), Chain(3, 3)),
]


@pytest.mark.parametrize(
    "check",
    [
        pytest.param(check, id=f"{cost}-{structure}-{name}")
        for cost, structure in COSTS
        for name, check in cost_checks(cost, structure)
    ],
)
def test_cost(check):
    check()


NUMBERS, SETS = [0.0, 0.5, -2.0, 3.0], [[0.2, 0.3, 0.5], [1.0, 0.0, 0.0], [0.0, 0.5, 0.5]]
BETWEEN = {
    "absolute": NUMBERS, "squared": NUMBERS, "huber": NUMBERS, "cauchy": NUMBERS, "geman_mcclure": NUMBERS,
    "fair": NUMBERS, "l2_l1": NUMBERS, "epsilon_insensitive": NUMBERS, "pinball": NUMBERS, "logistic": NUMBERS,
    "hinge": NUMBERS, "hellinger": SETS, "chi_squared": SETS, "kernel": SETS, "zero_one": ["a", "b", "a"],
    "rated_pairs": [[2, 0, 1], [1, 0, 2]], "diffusion": [[1.0, 0.0], [0.6, 0.8], [0.0, -1.0]],
    "edit_distance": ["tea", "", "coffee"], "hamming": [[0, 1, 1], [1, 1, 0]], "f_measure": [[0, 1, 1], [1, 1, 0]],
}  # fmt: skip


@pytest.mark.parametrize(
    "check",
    [
        pytest.param(check, id=f"{example}-{name}")
        for entry in registry.entries("cost")
        if entry.name in BETWEEN
        for example in entry.examples
        for cost in [eval(example, {}, registry._Names())]
        for name, check in cost_between_checks(cost, BETWEEN[entry.name][:2], BETWEEN[entry.name])
    ],
)
def test_cost_between_outputs(check):
    check()
