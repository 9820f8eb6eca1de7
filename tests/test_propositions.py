"""What Blondel, "Structured prediction with projection oracles" (2019), proves, measured on random instances."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fenchel.costs import Absolute, Hamming, ZeroOne
from fenchel.decoders import Calibrated
from fenchel.losses import FenchelYoung
from fenchel.structures import Birkhoff, Budget, Cube, NonNegative, OrderSimplex, Product, Reals, Simplex

seeds = st.integers(0, 2**32 - 1)
quick = settings(deadline=None, max_examples=30)

# Each chain goes from the hull of the outputs (first) to larger sets.
EUCLIDEAN_CHAINS = [
    (Simplex(4), Cube(4), Reals(4)),
    (Simplex(4), NonNegative(4), Reals(4)),
    (OrderSimplex(5), Cube(4), Reals(4)),
    (Budget(5, 1, 2), Budget(5, 0, 3), Cube(5), Reals(5)),
    (Birkhoff(3), Product(Simplex(3), 3), Product(Cube(3), 3), Reals(3, 3)),
]
KL_CHAINS = [
    (Simplex(4), Cube(4), NonNegative(4)),
    (OrderSimplex(5), Cube(4), NonNegative(4)),
    (Budget(5, 1, 2), Budget(5, 0, 3), Cube(5), NonNegative(5)),
    (Birkhoff(3), Product(Simplex(3), 3), NonNegative(3, 3)),
]


@pytest.mark.parametrize("chain", EUCLIDEAN_CHAINS, ids=lambda chain: repr(chain[0]))
@given(seed=seeds, scale=st.sampled_from([0.1, 1.0, 5.0]))
@quick
def test_proposition_1_smaller_sets_have_smaller_losses_and_equation_7(chain, seed, scale):
    """½‖φ(y) − P_C(θ)‖² ≤ S_C(θ; y) ≤ S_C'(θ; y) ≤ ½‖φ(y) − θ‖² for C inside C'."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=(5, *chain[0].shape)) * scale
    y = chain[0].argmax(rng.normal(size=theta.shape))
    values = [FenchelYoung(c, "euclidean").value(theta, y) for c in chain]
    for smaller, larger in itertools.pairwise(values):
        assert np.all(smaller <= larger + 1e-9 * (1 + scale**2))
    assert np.allclose(values[-1], 0.5 * ((y - theta) ** 2).reshape(5, -1).sum(axis=1))
    for c, value in zip(chain, values, strict=True):
        below = 0.5 * ((y - c.project(theta)) ** 2).reshape(5, -1).sum(axis=1)
        assert np.all(below <= value + 1e-9 * (1 + scale**2))


@pytest.mark.parametrize("chain", KL_CHAINS, ids=lambda chain: repr(chain[0]))
@given(seed=seeds)
@quick
def test_proposition_1_in_the_kl_geometry(chain, seed):
    """KL(φ(y), P_C(θ)) ≤ S_C(θ; y) ≤ S_C'(θ; y)."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=(5, *chain[0].shape)) * 2
    y = chain[0].argmax(rng.normal(size=theta.shape))
    values = [FenchelYoung(c, "kl").value(theta, y) for c in chain]
    for smaller, larger in itertools.pairwise(values):
        assert np.all(smaller <= larger + 1e-7)
    for c, value in zip(chain, values, strict=True):
        mu = c.kl_project(theta)
        logs = np.where(y > 0, np.log(np.where(y > 0, y, 1)) - np.log(mu), 0)
        divergence = (y * logs - y + mu).reshape(5, -1).sum(axis=1)
        assert np.all(divergence <= value + 1e-7)


@pytest.mark.parametrize("structure", [Simplex(4), Cube(3), OrderSimplex(5), Budget(4, 1, 2), Birkhoff(3)], ids=repr)
def test_proposition_2_strong_convexity_of_the_negative_entropy(structure):
    """Ψ(u) ≥ Ψ(v) + ⟨∇Ψ(v), u − v⟩ + ‖u − v‖₁² / (2 max ‖·‖₁) over the polytope."""
    rng = np.random.default_rng(0)
    vertices = structure.vertices().reshape(-1, structure.dim)
    u = rng.dirichlet(np.full(len(vertices), 0.5), size=400) @ vertices
    v = (0.98 * rng.dirichlet(np.full(len(vertices), 0.5), size=400) + 0.02 / len(vertices)) @ vertices
    psi = lambda x: np.sum(x * np.log(np.where(x > 0, x, 1)), axis=1)
    bound = psi(v) + np.sum((np.log(v) + 1) * (u - v), axis=1) + np.abs(u - v).sum(axis=1) ** 2 / (2 * structure.max_l1)
    assert np.all(psi(u) >= bound - 1e-12)


@pytest.mark.parametrize("k", [1, 2, 3, 6])
def test_proposition_4_vertices_of_the_order_simplex(k):
    """The points 1 ≥ μ_1 ≥ ... ≥ μ_(k−1) ≥ 0 are exactly the mixtures of 0, e_1, e_1 + e_2, ..."""
    structure = OrderSimplex(k)
    rng = np.random.default_rng(k)
    inside = -np.sort(-rng.random((50, k - 1)), axis=1)
    weights, vertices = structure.decompose(inside)
    assert np.all(weights >= 0)
    assert np.allclose(np.einsum("im,imd->id", weights, vertices), inside)
    assert np.array_equal(structure.vertices(), np.tri(k, k - 1, -1))


@pytest.mark.parametrize(
    ("structure", "cost", "regularizer"),
    [
        (Simplex(4), ZeroOne(), "euclidean"),
        (Simplex(4), ZeroOne(), "kl"),
        (Simplex(4), Absolute(), "kl"),
        (OrderSimplex(4), Absolute(), "euclidean"),
        (Cube(3), Hamming(), "euclidean"),
        (Budget(4, 1, 2), Hamming(), "euclidean"),
        (Birkhoff(3), Hamming(), "euclidean"),
        (Birkhoff(3), Hamming(), "kl"),
    ],
    ids=repr,
)
def test_proposition_5_calibration_of_excess_risks(structure, cost, regularizer):
    """(excess cost)² / (8 β σ²) ≤ excess surrogate risk, at every score, for every distribution of the truth.

    β is the smoothness of the loss and σ = max ‖Vᵀφ(ŷ)‖ in the dual norms: 2 for the Euclidean, ∞ for the KL geometry.
    """
    rng = np.random.default_rng(0)
    vertices = structure.vertices()
    flat = vertices.reshape(len(vertices), -1)
    loss = FenchelYoung(structure, regularizer)
    form = cost.affine(structure)
    zero = np.zeros((1, *structure.shape))
    columns = []  # V, column by column, from what apply does to unit vectors
    for j in range(structure.dim):
        unit = zero.copy().reshape(1, -1)
        unit[0, j] = 1
        columns.append((form._apply(unit.reshape(zero.shape)) - form._apply(zero)).ravel())
    products = flat @ np.array(columns).T
    euclidean = regularizer == "euclidean"
    sigma = np.linalg.norm(products, axis=1).max() if euclidean else np.abs(products).max()
    beta = 1.0 if euclidean else structure.max_l1
    matrix = cost.matrix(structure)
    decoder = Calibrated(structure, cost)
    for _ in range(60):
        p = rng.dirichlet(np.full(len(vertices), rng.choice([0.2, 1.0])))
        theta = rng.normal(size=(8, *structure.shape)) * rng.choice([0.3, 1.0, 4.0])
        answers = decoder.vertices(loss.output(theta)).reshape(8, -1)
        which = [int(np.flatnonzero((flat == a).all(axis=1))[0]) for a in answers]
        risks = matrix @ p
        excess = risks[which] - risks.min()
        surrogate = np.array([[loss.value(t, v) for v in vertices] for t in theta]) @ p
        mean = np.tensordot(p, vertices, 1)
        # the least surrogate risk is the mean of Ω(φ(y)) − Ω(mean)
        omega = loss.omega(vertices) @ p - loss.omega(mean)
        assert np.all(excess**2 / (8 * beta * sigma**2) <= surrogate - omega + 1e-9)
