"""fenchel.nn: layers and losses for PyTorch against the structures' own oracles and against numerical derivatives."""

import subprocess
import sys
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.autograd import gradcheck, gradgradcheck  # noqa: E402

from fenchel.costs import Absolute, Hamming, ZeroOne  # noqa: E402
from fenchel.errors import ConvergenceWarning, IncompatiblePair, InvalidInput, MissingOracle  # noqa: E402
from fenchel.losses import Adversarial, FenchelYoung, Hinge, Perceptron  # noqa: E402
from fenchel.nn import (  # noqa: E402
    AdversarialLoss,
    Argmax,
    BiaffineScorer,
    CRFLoss,
    FenchelYoungLoss,
    HingeLoss,
    KLProject,
    Marginals,
    Project,
    StructuredLoss,
    WordIndex,
    native,
)
from fenchel.nn.batches import as_tensor, numbers  # noqa: E402
from fenchel.scorers import Linear  # noqa: E402
from fenchel.solvers import LBFGS  # noqa: E402
from fenchel.structures import (  # noqa: E402
    Arborescence,
    Birkhoff,
    Birkhoffs,
    Budget,
    Chain,
    Chains,
    Cube,
    DependencyTree,
    DependencyTrees,
    Finite,
    LinearOrdering,
    Matching,
    Matchings,
    NonNegative,
    Oracle,
    OrderSimplex,
    Permutahedron,
    Product,
    Reals,
    Simplex,
    SpanningTree,
)
from fenchel.structures.derivatives import derivative_product  # noqa: E402
from fenchel.structures.examples import example_argmax  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::fenchel.errors.ConvergenceWarning")]

CORNERS = Finite([[2.0, 0.0, 1.0], [0.5, 3.0, 0.0], [1.0, 1.0, 1.0], [0.0, 0.0, 4.0]])
STRUCTURES = [
    Simplex(1), Simplex(4), Cube(3), OrderSimplex(5), Budget(5, 1, 3), Budget(4, 2, 2), Birkhoff(4), Permutahedron(5),
    Permutahedron([3.0, 1.0, 1.0, 0.0]), Matching(3, 3), Matching(2, 4), Chain(4, 3), Chain(4, 2, tied=True), Chain(1, 3),
    Arborescence(4), DependencyTree(4), DependencyTree(3, labels=2), SpanningTree(5), LinearOrdering(4), CORNERS,
    Oracle(example_argmax, (4,)), Product(Simplex(3), 2), Product(Chain(2, 2), 2), NonNegative(3), Reals(3),
]  # fmt: skip
LAYERS = {"euclidean": Project, "kl": KLProject, "gibbs": Marginals}
ORACLES = {"euclidean": "project", "kl": "kl_project", "gibbs": "marginals"}
PAIRS = [pytest.param(s, psi, id=f"{s}-{psi}") for s in STRUCTURES for psi in LAYERS if ORACLES[psi] not in s.missing()]
NO_DERIVATIVE = (Arborescence, DependencyTree, SpanningTree, LinearOrdering, Finite, Oracle)  # of KL projections


def scores(structure, n=3, seed=0, dtype=torch.float64):
    rng = np.random.default_rng(seed)
    return torch.tensor(1.2 * rng.normal(size=(n, *structure.shape)), dtype=dtype, requires_grad=True)


def layer_of(structure, psi, **options):
    exact = {"tol": 1e-15} if psi != "gibbs" and not native.has_native(structure) else {}
    return LAYERS[psi](structure, **exact, **options)


def oracle(structure, psi, theta):
    if psi == "gibbs":
        return structure.marginals(theta)[1]
    return structure.project(theta) if psi == "euclidean" else structure.kl_project(theta)


@pytest.mark.parametrize(("structure", "psi"), PAIRS)
def test_layers_are_the_oracles_and_pass_gradcheck(structure, psi):
    theta = scores(structure)
    layer = layer_of(structure, psi, strength=0.8)
    assert np.allclose(layer(theta).detach().numpy(), oracle(structure, psi, theta.detach().numpy() / 0.8), atol=2e-4)
    if psi == "kl" and isinstance(structure, NO_DERIVATIVE):
        with pytest.raises(IncompatiblePair, match="have no derivative here"):
            layer(theta).sum().backward()
        return
    assert gradcheck(layer, (theta,), eps=1e-5, atol=2e-5, rtol=1e-4)
    if psi == "euclidean":  # piecewise linear: the derivative is a constant linear map
        assert gradgradcheck(layer, (theta,), eps=1e-5, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("structure", [Simplex(4), Cube(3), OrderSimplex(4)], ids=str)
@pytest.mark.parametrize("psi", LAYERS)
def test_closed_forms_know_their_second_derivatives(structure, psi):
    theta = scores(structure, seed=2)
    assert gradgradcheck(LAYERS[psi](structure), (theta,), eps=1e-6, atol=1e-5)


def test_what_has_no_second_derivative_says_so():
    layer, theta = Marginals(Chain(3, 2)), scores(Chain(3, 2))
    (slope,) = torch.autograd.grad(layer(theta)[:, 0].sum(), theta, create_graph=True)
    with pytest.raises(IncompatiblePair, match="second derivatives of the marginals"):
        slope.sum().backward()
    loss = AdversarialLoss(Simplex(3), ZeroOne())
    theta = scores(Simplex(3))
    (slope,) = torch.autograd.grad(loss(theta, torch.tensor([0, 1, 2])), theta, create_graph=True)
    with pytest.raises(IncompatiblePair, match="AdversarialLoss has no second derivatives"):
        slope.sum().backward()


def test_argmax_has_the_derivative_zero():
    theta = scores(Permutahedron(4))
    vertices = Argmax(Permutahedron(4))(theta)
    assert np.array_equal(vertices.detach().numpy(), Permutahedron(4).argmax(theta.detach().numpy()))
    (vertices * torch.randn_like(vertices)).sum().backward()
    assert torch.count_nonzero(theta.grad) == 0
    assert gradcheck(Argmax(Simplex(3)), (scores(Simplex(3)),))


# -- losses ------------------------------------------------------------------------------------------------------------


def truths(structure, n=3, seed=1):
    rng = np.random.default_rng(seed)
    return structure.argmax(rng.normal(size=(n, *structure.shape)))


@pytest.mark.parametrize(("structure", "psi"), PAIRS)
def test_fenchel_young_losses_have_their_values_gradients_and_second_derivatives(structure, psi):
    if structure.missing().get("argmax") or (structure == CORNERS and psi == "gibbs"):
        return
    theta, v = scores(structure), truths(structure)
    loss = FenchelYoungLoss(structure, psi, strength=0.7, reduction="none")
    value, residual = FenchelYoung(structure, psi, 0.7).value_and_grad(theta.detach().numpy(), v)
    made = loss(theta, torch.tensor(v))
    assert np.allclose(made.detach().numpy(), value, rtol=1e-9, atol=1e-12)
    made.sum().backward()
    assert np.allclose(theta.grad.numpy(), residual, atol=1e-12)
    if not isinstance(structure, Finite | Reals | NonNegative):
        assert torch.equal(loss(theta, structure.decode(v)), made)  # outputs instead of points
    loose = isinstance(
        structure, Chain | Product | Birkhoff | Matching | LinearOrdering | Oracle | Finite
    ) or "Tree" in str(structure)
    if psi == "kl" and isinstance(structure, (*NO_DERIVATIVE, Product)):
        return
    assert gradcheck(lambda t: loss(t, torch.tensor(v)), (theta,), eps=1e-4, atol=1e-4 if loose else 1e-6, rtol=1e-3)
    if psi == "gibbs" or native.has_native(structure):
        assert gradgradcheck(lambda t: loss(t, torch.tensor(v)), (theta,), eps=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("made", "plain"),
    [
        (AdversarialLoss(Simplex(4), ZeroOne(), reduction="none"), Adversarial(Simplex(4), ZeroOne())),
        (AdversarialLoss(OrderSimplex(4), Absolute(), reduction="none"), Adversarial(OrderSimplex(4), Absolute())),
        (AdversarialLoss(Birkhoff(3), Hamming(), reduction="none"), Adversarial(Birkhoff(3), Hamming())),
        (HingeLoss(Chain(3, 2), Hamming(), reduction="none"), Hinge(Chain(3, 2), Hamming())),
        (StructuredLoss(Perceptron(Birkhoff(3)), reduction="none"), Perceptron(Birkhoff(3))),
    ],
    ids=str,
)
def test_every_loss_of_the_library(made, plain):
    structure = plain.structure
    theta, v = scores(structure), truths(structure)
    value, gradient = plain.value_and_grad(theta.detach().numpy(), v)
    found = made(theta, structure.decode(v))
    assert np.allclose(found.detach().numpy(), value)
    found.sum().backward()
    assert np.allclose(theta.grad.numpy(), gradient)
    assert np.array_equal(made.predict(theta), structure.decode(structure.argmax(theta.detach().numpy())))


def test_reductions_and_weights_are_those_of_torch():
    theta, y = scores(Simplex(4), 5, dtype=torch.float32), torch.tensor([0, 3, 1, 1, 2])
    weight = torch.tensor([1.0, 0.0, 2.0, 0.5, 1.0])
    each = torch.nn.functional.cross_entropy(theta, y, reduction="none")
    for reduction in ("none", "sum", "mean"):
        ours = CRFLoss(Simplex(4), reduction=reduction)
        theirs = torch.nn.functional.cross_entropy(theta, y, reduction=reduction)
        assert torch.allclose(ours(theta, y), theirs)
    assert torch.allclose(CRFLoss(Simplex(4))(theta, y, weight=weight), (each * weight).sum() / weight.sum())
    assert torch.allclose(CRFLoss(Simplex(4), reduction="sum")(theta, y, weight=weight), (each * weight).sum())
    soft = torch.softmax(torch.randn(5, 4), dim=1)
    entropy = (soft * soft.log()).sum(dim=1)
    ours = FenchelYoungLoss(Simplex(4), "kl", reduction="none")(theta, soft)
    assert torch.allclose(ours, torch.nn.functional.cross_entropy(theta, soft, reduction="none") + entropy, atol=1e-6)
    with pytest.raises(InvalidInput, match="weight has shape"):
        CRFLoss(Simplex(4))(theta, y, weight=weight[:2])


@pytest.mark.parametrize("psi", ["euclidean", "kl", "gibbs"])
@pytest.mark.parametrize("structure", [Simplex(5), Cube(4), OrderSimplex(5)], ids=str)
def test_values_of_closed_forms_at_large_scores_and_forbidden_parts(structure, psi):
    rng = np.random.default_rng(0)
    for scale in (1e-3, 1.0, 30.0, 1e4):
        theta = scale * rng.normal(size=(50, *structure.shape))
        v = truths(structure, 50)
        value = FenchelYoung(structure, psi).value(theta, v)
        ours = FenchelYoungLoss(structure, psi, reduction="none")(torch.tensor(theta), torch.tensor(v))
        assert np.allclose(ours.numpy(), value, rtol=1e-9, atol=1e-11 * scale)
    if structure.can_forbid and not isinstance(structure, OrderSimplex):
        theta = np.zeros((2, *structure.shape))
        theta[0, 0] = -np.inf
        v = np.zeros_like(theta)
        v[:, 1] = 1
        value, residual = FenchelYoung(structure, psi).value_and_grad(theta, v)
        given = torch.tensor(theta, requires_grad=True)
        ours = FenchelYoungLoss(structure, psi, reduction="none")(given, torch.tensor(v))
        ours.sum().backward()
        assert np.allclose(ours.detach().numpy(), value)
        assert np.allclose(given.grad.numpy(), residual)


def test_projections_as_other_devices_compute_them():
    rng = np.random.default_rng(0)
    for k in (1, 2, 7, 40):
        for scale in (0.1, 1.0, 50.0):
            theta = torch.tensor(scale * rng.normal(size=(60, k)))
            assert torch.allclose(
                native.cut_on_device(theta), torch.tensor(Simplex(k).project(theta.numpy())), atol=1e-12
            )
            pooled = torch.tensor(OrderSimplex(k + 1)._isotonic(theta.numpy()))
            assert torch.allclose(native.pool_on_device(theta), pooled, atol=1e-10 * max(scale, 1))


def test_half_precision_is_computed_in_float32():
    for dtype in (torch.float16, torch.bfloat16):
        theta = scores(Chain(3, 2), dtype=dtype)
        loss = CRFLoss(Chain(3, 2))(theta, torch.tensor(truths(Chain(3, 2))))
        loss.backward()
        assert loss.dtype == torch.float32
        assert theta.grad.dtype == dtype
        assert torch.isfinite(theta.grad).all()
    network = torch.nn.Linear(4, 5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inner = network(torch.randn(6, 4))
        loss = (
            FenchelYoungLoss(Simplex(5))(inner, torch.tensor([0, 1, 2, 3, 4, 0]))
            + Project(Budget(5, 1, 2))(inner).sum()
        )
    loss.backward()
    assert inner.dtype == torch.bfloat16
    assert network.weight.grad.dtype == torch.float32


# -- items of different sizes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tied", [False, True])
def test_padded_chains_are_chains_one_by_one(tied):
    rng = np.random.default_rng(0)
    lengths, k = [4, 1, 3, 2], 3
    nodes = torch.tensor(rng.normal(size=(4, 4, k)), requires_grad=True)
    table = torch.tensor(rng.normal(size=(k, k)), requires_grad=True)
    y = torch.tensor(rng.integers(0, k, size=(4, 4)))
    family = Chains(k, tied=tied)
    total = CRFLoss(family, reduction="sum")((nodes, table), y, lengths=torch.tensor(lengths))
    total.backward()
    got = nodes.grad.clone(), table.grad.clone()
    nodes.grad = table.grad = None
    parts = []
    for i, n in enumerate(lengths):
        parts.append(CRFLoss(Chain(n, k))((nodes[i, :n], table), y[i, :n]))
    sum(parts).backward()
    assert torch.allclose(total, sum(parts))
    assert torch.allclose(got[0], nodes.grad)
    assert torch.allclose(got[1], table.grad)
    node, edge = Marginals(family)((nodes, table), lengths)
    for i, n in enumerate(lengths):
        one_node, one_edge = Marginals(Chain(n, k, tied=tied))((nodes[i, :n], table))
        assert torch.allclose(node[i, :n], one_node)
        assert torch.count_nonzero(node[i, n:]) == 0
        if n > 1:
            assert torch.allclose(edge[i] if tied else edge[i, : n - 1], one_edge)
    alone = Project(family)(nodes, lengths)
    assert torch.allclose(alone.sum(dim=2), (torch.arange(4) < torch.tensor(lengths)[:, None]).double())
    assert gradcheck(lambda a, b: Marginals(family)((a, b), lengths)[0], (nodes, table))
    weights = torch.tensor(rng.normal(size=(4, 4, k)))
    assert gradcheck(lambda a: (Project(family)(a, lengths) * weights).sum(), (nodes,), eps=1e-4, atol=1e-3)


def test_tables_by_pair_and_by_item():
    rng = np.random.default_rng(0)
    nodes, tables = torch.tensor(rng.normal(size=(2, 3, 2))), torch.tensor(rng.normal(size=(2, 2, 2, 2)))
    y = torch.tensor([[0, 1, 1], [1, 0, 0]])
    padded = CRFLoss(Chains(2), reduction="none")((nodes, tables), y, lengths=[3, 2])
    assert torch.allclose(padded[0], CRFLoss(Chain(3, 2))((nodes[0], tables[0]), y[0]))
    assert torch.allclose(padded[1], CRFLoss(Chain(2, 2))((nodes[1, :2], tables[1, :1]), y[1, :2]))


def test_padded_trees_and_matchings_and_lists():
    rng = np.random.default_rng(0)
    theta = torch.tensor(rng.normal(size=(3, 5, 6)), requires_grad=True)
    lengths, heads = [5, 2, 3], [[0, 1, 2, 3, 4], [0, 1], [2, 3, 0]]
    padded = torch.zeros(3, 5, dtype=torch.long)
    for i, y in enumerate(heads):
        padded[i, : len(y)] = torch.tensor(y)
    loss = CRFLoss(DependencyTrees(), reduction="none")
    each = loss(theta, padded, lengths=lengths)
    each.sum().backward()
    got, theta.grad = theta.grad.clone(), None
    listed = loss([theta[i, :n, : n + 1] for i, n in enumerate(lengths)], heads)
    listed.sum().backward()
    assert torch.allclose(each, listed)
    assert torch.allclose(got, theta.grad)
    for i, n in enumerate(lengths):
        assert torch.allclose(each[i], CRFLoss(DependencyTree(n))(theta[i, :n, : n + 1], torch.tensor(heads[i])))
    mu = Marginals(DependencyTrees())(theta, lengths)
    assert torch.allclose(mu.sum(dim=2), (torch.arange(5) < torch.tensor(lengths)[:, None]).double())
    assert gradcheck(lambda t: Marginals(DependencyTrees())(t, lengths), (theta,))
    theta = torch.tensor(rng.normal(size=(2, 4, 5)), requires_grad=True)
    points = Project(Matchings())(theta, lengths=[4, 2])
    assert torch.allclose(points[0], Project(Matching(4, 4))(theta[0]), atol=1e-6)
    assert torch.allclose(points[1][:2, [0, 1, 4]], Project(Matching(2, 2))(theta[1][:2, [0, 1, 4]]), atol=1e-6)
    square = Project(Birkhoffs())([theta[0, :2, :2], theta[1, :3, :3]])
    assert torch.allclose(square[1], Project(Birkhoff(3))(theta[1, :3, :3]), atol=1e-6)


def test_soft_truths_of_families_and_pairs():
    """As many points as scores, in the same form; the scores' own prediction loses nothing."""
    rng = np.random.default_rng(0)
    theta = torch.tensor(rng.normal(size=(2, 3, 4)), requires_grad=True)
    lengths, trees = [3, 2], DependencyTrees()
    loss = CRFLoss(trees, reduction="none")
    projected, exact = FenchelYoungLoss(trees, "euclidean", reduction="none"), Project(trees, tol=1e-12)(theta, lengths)
    for truth in (exact.detach(), exact.detach().float()):
        assert torch.allclose(projected(theta, truth, lengths=lengths), torch.zeros(2).double(), atol=1e-6)
    with pytest.raises(MissingOracle, match="largest entropy of a distribution with a given mean"):
        loss(theta, exact.detach(), lengths=lengths)  # for trees Ω of the CRF is known at vertices only
    hard = [DependencyTree(n).encode(np.arange(n)) for n in lengths]
    padded = torch.zeros(2, 3, 4)
    for i, v in enumerate(hard):
        padded[i, : lengths[i], : lengths[i] + 1] = torch.tensor(v)
    heads = [list(range(n)) for n in lengths]
    expected = loss(theta, heads, lengths=lengths)
    assert torch.allclose(loss(theta, padded, lengths=lengths), expected)
    listed = [theta[i, :n, : n + 1] for i, n in enumerate(lengths)]
    assert torch.allclose(loss(listed, [torch.tensor(v) for v in hard]), expected)
    with pytest.raises(InvalidInput, match=r"y has shape \(2, 3\)"):
        loss(theta, [torch.zeros(2, 3), torch.zeros(2, 3)], lengths=lengths)
    nodes, table = torch.tensor(rng.normal(size=(2, 4, 3))), torch.tensor(rng.normal(size=(3, 3)))
    for structure, more in ((Chains(3), {"lengths": [4, 2]}), (Chain(4, 3), {})):
        mu = Marginals(structure)((nodes, table), *more.values())
        value = CRFLoss(structure, reduction="none")((nodes, table), mu, **more)
        assert torch.allclose(value, torch.zeros(2, dtype=value.dtype), atol=1e-9)
    with pytest.raises(InvalidInput, match="must have the shape of the scores"):
        CRFLoss(Chain(4, 3))((nodes, table), (mu[0][:1], mu[1][:1]))


def test_no_item_and_no_position():
    empty = torch.zeros(0, 3, requires_grad=True)
    CRFLoss(Simplex(3))(empty, torch.zeros(0, dtype=torch.long)).backward()
    assert empty.grad.shape == (0, 3)
    nodes = torch.zeros(2, 3, 2, requires_grad=True)
    value = CRFLoss(Chains(2), reduction="none")((nodes, torch.zeros(2, 2)), [[], [0, 1]], lengths=[0, 2])
    assert torch.allclose(value, torch.tensor([0.0, 2 * np.log(2)]).float())
    value.sum().backward()
    assert torch.count_nonzero(nodes.grad[0]) == 0


# -- training ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("structure", "psi"), [(Simplex(3), "euclidean"), (Birkhoff(3), "kl"), (Chain(3, 2), "gibbs")], ids=str
)
def test_one_linear_map_learns_the_weights_of_the_linear_estimator(structure, psi):
    rng = np.random.default_rng(0)
    X, alpha = rng.normal(size=(40, 4)), 0.1
    v = structure.argmax((X @ rng.normal(size=(4, structure.dim))).reshape(-1, *structure.shape))
    wanted = LBFGS(tol=1e-10).minimize(Linear(X, structure.shape), FenchelYoung(structure, psi), v, alpha).w
    network = torch.nn.Linear(4, structure.dim, bias=False, dtype=torch.float64)
    loss, inputs, points = FenchelYoungLoss(structure, psi), torch.tensor(X), torch.tensor(v)
    optimizer = torch.optim.LBFGS(
        network.parameters(), max_iter=500, tolerance_grad=1e-9, line_search_fn="strong_wolfe"
    )

    def closure():
        optimizer.zero_grad()
        objective = loss(network(inputs).reshape(-1, *structure.shape), points)
        objective = objective + alpha / 2 * (network.weight**2).sum()
        objective.backward()
        return objective

    optimizer.step(closure)
    assert np.allclose(network.weight.detach().numpy().T, wanted, atol=1e-4)


def test_arrays_cross_without_a_copy():
    theta = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    assert np.shares_memory(numbers(theta), theta.detach().numpy())
    array = np.zeros((4, 3))
    assert np.shares_memory(as_tensor(array, theta).numpy(), array)
    assert as_tensor(array, theta.float()).dtype == torch.float32


def test_importing_fenchel_does_not_import_torch():
    code = "import sys, fenchel, fenchel.losses, fenchel.structures, fenchel.estimators; print('torch' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"


def test_what_it_refuses():
    theta = torch.zeros(2, 3)
    with pytest.raises(InvalidInput, match=r"scores have shape \(2, 3\), but Simplex\(4\) needs \(..., 4\)"):
        Project(Simplex(4))(theta)
    with pytest.raises(InvalidInput, match=r"expected a torch.Tensor"):
        Project(Simplex(3))(np.zeros(3))
    with pytest.raises(InvalidInput, match="floating-point"):
        Project(Simplex(3))(torch.zeros(3, dtype=torch.long))
    with pytest.raises(MissingOracle, match="no marginals"):
        Marginals(Permutahedron(3))
    with pytest.raises(InvalidInput, match="reduction is 'max'"):
        CRFLoss(Simplex(3), reduction="max")
    with pytest.raises(InvalidInput, match="lengths are for families"):
        Project(Simplex(3))(theta, lengths=[3, 3])
    with pytest.raises(InvalidInput, match="list with a tensor for each item"):
        Marginals(Chains(2))(torch.zeros(1, 3, 2))
    with pytest.raises(InvalidInput, match="at most 3 positions"):
        Marginals(Chains(2))(torch.zeros(1, 3, 2), lengths=[4])
    with pytest.raises(InvalidInput, match="another size than its scores"):
        CRFLoss(DependencyTrees())([torch.zeros(2, 3)], [[0]])
    with pytest.raises(InvalidInput, match="strength is 0"):
        Project(Simplex(3), strength=0)
    with pytest.raises(InvalidInput, match="y is 7"):
        CRFLoss(Simplex(3))(theta, torch.tensor([0, 7]))
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        with pytest.raises(ConvergenceWarning):
            Project(Oracle(example_argmax, (4,)), max_iter=1)(torch.tensor([[0.6, -0.2, 0.7, 0.1]]))


# -- the scorer of arcs ------------------------------------------------------------------------------------------------

SENTENCES = [["a", "dog", "sees", "cats"], ["dogs", "sleep"], ["cats", "see", "a", "sleepy", "dog"], ["sleep"]]
HEADS = [[2, 3, 0, 3], [2, 0], [2, 0, 5, 5, 2], [0]]


@pytest.mark.parametrize("labels", [1, 3])
def test_scores_of_a_sentence_do_not_depend_on_its_batch(labels):
    torch.manual_seed(0)
    index = WordIndex(SENTENCES)
    network = BiaffineScorer(
        index.n_words, index.n_characters, labels=labels, hidden=6, arc_size=5, label_size=4
    ).eval()
    for biaffine in (network.arc, network.label):
        if biaffine is not None:
            torch.nn.init.normal_(biaffine.weight)
    together = network(*index(SENTENCES))
    assert together.shape == (4, 5, 6, *(() if labels == 1 else (labels,)))
    for i, sentence in enumerate(SENTENCES):
        n = len(sentence)
        assert torch.allclose(together[i, :n, : n + 1], network(*index([sentence]))[0], atol=1e-6)
    assert torch.isfinite(network(*index([["unheard", "ofwords!"]]))).all()
    with pytest.raises(InvalidInput, match="sentence 1 has no words"):
        index([["a"], []])


@pytest.mark.parametrize(
    "loss", [CRFLoss(DependencyTrees()), HingeLoss(DependencyTrees(), Hamming())], ids=["crf", "hinge"]
)
def test_the_scorer_learns_trees_by_heart(loss):
    torch.manual_seed(0)
    index = WordIndex(SENTENCES)
    network = BiaffineScorer(
        index.n_words, index.n_characters, word_size=12, character_size=6, hidden=12, layers=1, arc_size=12, dropout=0.1
    )
    words, characters, lengths = index(SENTENCES)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.02)
    for _ in range(60):
        optimizer.zero_grad()
        loss(network(words, characters, lengths), HEADS, lengths=lengths).backward()
        optimizer.step()
    network.eval()
    parses = loss.predict(network(words, characters, lengths), lengths)
    assert [parse.tolist() for parse in parses] == HEADS


def test_words_that_are_rare_or_long_are_numbered():
    index = WordIndex([["a", "a", "bb"], ["cc", "a"]], least=2, longest=3)
    words, characters, lengths = index([["a", "bb"], ["abcabc"]])
    assert words.tolist() == [[2, 1], [1, 0]]
    assert characters.shape == (2, 2, 3)
    assert characters[1, 1].sum() == 0
    assert lengths.tolist() == [2, 1]
    assert (index.n_words, index.n_characters) == (3, 5)


@pytest.mark.parametrize("structure", [Arborescence(4), DependencyTree(4)], ids=str)
def test_covariances_of_trees_keep_their_digits_where_scores_lie_far_apart(structure):
    """Where the Laplacian is nearly singular, too, and where arcs are forbidden: against sums over all trees."""
    vertices = structure.vertices().reshape(-1, structure.dim)
    rng = np.random.default_rng(0)
    for scale in (1.0, 8.0, 40.0):
        theta, u = scale * rng.normal(size=(20, *structure.shape)), rng.normal(size=(20, *structure.shape))
        theta[:5, 1, 3:] = theta[:5, 1, 1] = -np.inf  # word 2 hangs on the root
        finite = np.where(np.isfinite(theta), theta, -1e6).reshape(20, -1)
        p = finite @ vertices.T
        p = np.exp(p - p.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        along = u.reshape(20, -1) @ vertices.T
        along -= (p * along).sum(axis=1, keepdims=True)
        exact = ((p * along) @ vertices).reshape(theta.shape)
        found = derivative_product(structure, "gibbs", theta, structure.marginals(theta)[1], u)
        assert np.abs(found - exact).max() < 1e-9
        single = theta.astype(np.float32)
        rough = derivative_product(structure, "gibbs", single, structure.marginals(single)[1], u)
        assert np.abs(rough - exact).max() < 1e-4 * max(1, scale)
