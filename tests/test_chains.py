"""Chains against enumeration, chains of many lengths against one at a time, and what costs and losses make of them."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fenchel.costs import Absolute, CostMatrix, Hamming, SquaredError, Weighted, ZeroOne
from fenchel.decoders import MAP, Calibrated
from fenchel.errors import IncompatiblePair, InvalidInput, MissingOracle
from fenchel.losses import CRF, FenchelYoung, Hinge, Perceptron
from fenchel.structures import Chain, Chains, Ragged
from fenchel.testing._tools import in_many_threads, with_thread_counts

SIZES = [(length, k) for length in range(6) for k in range(1, 5)]
both_kinds = pytest.mark.parametrize("tied", [False, True], ids=["pairs", "tied"])


def every_labelling(length, k):
    return np.array(list(itertools.product(range(k), repeat=length)), dtype=int).reshape(k**length, length)


def scores_of(chain, theta, labels):
    """The score of each labelling, added up by hand."""
    node, edge = chain.unpack(theta)
    tables = [edge] * (chain.length - 1) if chain.tied else edge
    totals = []
    for y in labels:
        total = sum(node[t, y[t]] for t in range(chain.length))
        total += sum(tables[t][y[t], y[t + 1]] for t in range(chain.length - 1))
        totals.append(float(total))
    return np.array(totals)


def log_sum_exp(x):
    top = x.max()
    return top + np.log(np.exp(x - top).sum())


def lengths_and_scores(chains, rng, lengths=(3, 0, 1, 6, 2, 3, 4), scale=1.5):
    lengths = np.array(lengths)
    theta = Ragged.empty(chains.sizes_of(lengths))
    theta.flat[:] = rng.normal(size=theta.flat.size) * scale
    return lengths, theta


# -- one chain ---------------------------------------------------------------------------------------------------------


@both_kinds
@pytest.mark.parametrize(("length", "k"), SIZES)
def test_oracles_agree_with_the_sum_over_all_labellings(length, k, tied):
    chain, rng = Chain(length, k, tied), np.random.default_rng(10 * length + k)
    every, vertices = every_labelling(length, k), chain.vertices()
    assert np.array_equal(chain.decode(vertices), every)
    for scale in (0.0, 1.0, 40.0):
        theta = rng.normal(size=chain.dim) * scale
        totals = scores_of(chain, theta, every)
        p = np.exp(totals - log_sum_exp(totals))
        log_partition, mu = chain.marginals(theta)
        assert np.isclose(log_partition, log_sum_exp(totals), atol=1e-10)
        assert np.allclose(mu, p @ vertices, atol=1e-12)
        assert np.isclose(chain.entropy(theta), -(p * np.log(np.maximum(p, 1e-300))).sum(), atol=1e-9)
        best = chain.decode(chain.argmax(theta))
        assert np.isclose(scores_of(chain, theta, [best])[0], totals.max())
        scores, labels = chain.k_best(theta, 7)
        m = min(7, len(every))
        assert np.allclose(scores[:m], np.sort(totals)[::-1][:m])
        assert np.allclose(scores_of(chain, theta, labels[:m]), scores[:m])
        assert len({tuple(y) for y in labels[:m]}) == m, "a labelling is listed twice"
        assert np.all(scores[m:] == -np.inf)
        assert np.all(labels[m:] == -1)
        assert np.array_equal(labels[0], best)


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 5), st.integers(1, 3), st.booleans(), st.integers(0, 10**6))
def test_ties_go_to_the_first_labelling_and_forbidden_parts_are_never_used(length, k, tied, seed):
    chain, rng = Chain(length, k, tied), np.random.default_rng(seed)
    theta = rng.integers(-1, 2, size=chain.dim).astype(float)
    theta[rng.random(chain.dim) < 0.2] = -np.inf
    every = every_labelling(length, k)
    totals = scores_of(chain, theta, every)
    if totals.max() == -np.inf:
        for oracle in (chain.argmax, chain.marginals, chain.draw, lambda x: chain.k_best(x, 2), chain.project):
            with pytest.raises(InvalidInput, match="forbid every labelling"):
                oracle(theta)
        return
    assert np.array_equal(chain.decode(chain.argmax(theta)), every[int(totals.argmax())])
    finite = totals > -np.inf
    first = [y for _, y in sorted(zip(-totals[finite], every[finite].tolist(), strict=True))][:3]
    assert chain.k_best(theta, 3)[1][: len(first)].tolist() == first
    log_partition, mu = chain.marginals(theta)
    p = np.exp(totals - log_sum_exp(totals))
    assert np.isclose(log_partition, log_sum_exp(totals))
    assert np.allclose(mu, p @ chain.vertices(), atol=1e-12)
    assert np.all(mu[theta == -np.inf] == 0)
    used = np.stack([chain.draw(theta, rng) for _ in range(5)])
    assert np.all(used[:, theta == -np.inf] == 0)


@both_kinds
@pytest.mark.parametrize("scale", [1.0, 1e3, 1e6])
def test_marginals_and_likelihoods_are_exact_however_large_the_scores(scale, tied):
    """Whole numbers times the scale and small differences: sums are exact, so enumeration is too."""
    rng = np.random.default_rng(3)
    chain = Chain(5, 3, tied)
    every, vertices = every_labelling(5, 3), chain.vertices()
    for _ in range(20):
        theta = np.round(rng.normal(size=chain.dim) * 2) * scale + rng.integers(-8, 9, size=chain.dim) / 8
        totals = scores_of(chain, theta, every)
        p = np.exp(totals - log_sum_exp(totals))
        log_partition, mu = chain.marginals(theta)
        assert np.allclose(mu, p @ vertices, atol=1e-9)
        assert np.isclose(log_partition, log_sum_exp(totals), rtol=1e-15, atol=1e-12)
        truths = rng.integers(len(every), size=4)
        value = CRF(chain).value(np.stack([theta] * 4), vertices[truths])
        assert np.allclose(value, totals.max() - totals[truths] + np.log(np.exp(totals - totals.max()).sum()),
                           rtol=1e-12, atol=1e-9)  # fmt: skip


@both_kinds
def test_what_scaled_probabilities_would_lose_is_computed_with_logarithms(tied):
    """Two groups of labels that never meet: one falls behind by e^-4000 and then makes it up."""
    length = 8000
    node = np.zeros((length, 2))
    node[: length // 2, 1] = -1.0
    node[length // 2 :, 1] = 1.0
    never = np.array([[0.0, -np.inf], [-np.inf, 0.0]])
    chain = Chain(length, 2, tied)
    theta = chain.pack(node, never if tied else np.broadcast_to(never, (length - 1, 2, 2)))
    log_partition, mu = chain.marginals(theta)
    assert np.isclose(log_partition, np.log(2))
    assert np.allclose(chain.unpack(mu)[0], 0.5)
    last = chain.decode(chain.draw(np.stack([theta] * 40), rng=0))
    assert np.all(last == last[:, :1])
    assert 5 < last[:, 0].sum() < 35


@both_kinds
def test_long_sequences_in_both_types(tied):
    length, k, rng = 2000, 4, np.random.default_rng(0)
    chain = Chain(length, k, tied)
    theta = rng.normal(size=chain.dim)
    node, edge = chain.unpack(theta)
    forward = node[0]
    for t in range(1, length):
        forward = np.logaddexp.reduce(forward[:, None] + (edge if tied else edge[t - 1]), axis=0) + node[t]
    log_partition, mu = chain.marginals(theta)
    assert np.isclose(log_partition, np.logaddexp.reduce(forward), rtol=1e-13)
    assert chain.violation(mu) < 1e-9 if not tied else np.isclose(chain.unpack(mu)[1].sum(), length - 1)
    single, points = chain.marginals(theta.astype(np.float32))
    assert single.dtype == points.dtype == np.float32
    assert np.isclose(single, log_partition, rtol=1e-6)
    assert np.allclose(points, mu, atol=1e-4 * (length if tied else 1))
    assert np.isclose((theta * chain.argmax(theta)).sum(), chain.k_best(theta, 1)[0][0])


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 5), st.integers(1, 3), st.integers(0, 10**6))
def test_a_tied_chain_is_the_chain_with_its_table_at_every_pair(length, k, seed):
    rng = np.random.default_rng(seed)
    tied, full = Chain(length, k, tied=True), Chain(length, k)
    theta = rng.normal(size=tied.dim) * 3
    node, table = tied.unpack(theta)
    spread = full.pack(node, np.broadcast_to(table, (length - 1, k, k)))
    assert np.array_equal(tied.decode(tied.argmax(theta)), full.decode(full.argmax(spread)))
    (a, mu), (b, nu) = tied.marginals(theta), full.marginals(spread)
    assert np.isclose(a, b)
    assert np.allclose(tied.unpack(mu)[0], full.unpack(nu)[0])
    assert np.allclose(tied.unpack(mu)[1], full.unpack(nu)[1].sum(axis=0))
    assert np.isclose(tied.entropy(theta), full.entropy(spread))
    assert np.array_equal(tied.decode(tied.draw(theta, 5)), full.decode(full.draw(spread, 5)))


def test_marginals_and_entropy_by_finite_differences():
    rng = np.random.default_rng(1)
    for chain in (Chain(4, 3), Chain(4, 3, tied=True)):
        theta, step = rng.normal(size=chain.dim), 1e-5
        _, mu = chain.marginals(theta)
        covariance = np.empty((chain.dim, chain.dim))
        for j in range(chain.dim):
            up, down = theta.copy(), theta.copy()
            up[j] += step
            down[j] -= step
            slope = (chain.marginals(up)[0] - chain.marginals(down)[0]) / (2 * step)
            assert np.isclose(slope, mu[j], atol=1e-9)
            covariance[j] = (chain.marginals(up)[1] - chain.marginals(down)[1]) / (2 * step)
            slope = (chain.entropy(up) - chain.entropy(down)) / (2 * step)
            assert np.isclose(slope, -covariance[j] @ theta, atol=1e-7)  # H = A(theta) - <theta, mu>


def test_the_entropy_of_marginals_is_that_of_the_gibbs_distribution():
    rng = np.random.default_rng(2)
    for length, k in SIZES:
        chain = Chain(length, k)
        theta = rng.normal(size=(5, chain.dim)) * 2
        assert np.allclose(-chain.gibbs_omega(chain.marginals(theta)[1]), chain.entropy(theta))
    tied = Chain(3, 2, tied=True)
    assert np.array_equal(tied.gibbs_omega(tied.vertices()), np.zeros(8))
    with pytest.raises(MissingOracle, match="no formula"):
        tied.gibbs_omega(tied.marginals(np.zeros((1, tied.dim)))[1])


@both_kinds
def test_draws_have_the_gibbs_distribution(tied):
    chain, rng = Chain(3, 2, tied), np.random.default_rng(4)
    for scale in (1.0, 1e5):
        theta = rng.integers(-1, 2, size=chain.dim) * scale + rng.normal(size=chain.dim)
        totals = scores_of(chain, theta, every_labelling(3, 2))
        p = np.exp(totals - log_sum_exp(totals))
        n = 20000
        draws = chain.decode(chain.draw(np.broadcast_to(theta, (n, chain.dim)), rng))
        counts = np.bincount(draws @ [4, 2, 1], minlength=8)
        assert np.all(np.abs(counts / n - p) <= 5 * np.sqrt(p * (1 - p) / n) + 1e-9)


def test_the_kl_projection_of_a_long_chain_meets_its_certificate():
    rng = np.random.default_rng(5)
    chain = Chain(40, 5)
    theta = rng.normal(size=(6, chain.dim)) * np.array([0.1, 1, 3, 8, 30, 1e4])[:, None]
    theta[1, [3, 250, 700]] = -np.inf
    mu, info = chain.kl_project(theta, return_info=True)
    assert info.converged.all()
    assert np.all(chain.violation(mu) < 1e-9)
    assert np.all(mu[theta == -np.inf] == 0)
    # the certificate bounds how much better any other point of the set is
    finite = np.where(np.isfinite(theta), theta, 0)

    def value(x):
        return (finite * x).sum(axis=1) - (x * np.log(np.maximum(x, 1e-300))).sum(axis=1)

    for other in (chain.argmax(theta), chain.marginals(theta)[1], chain.project(theta)):
        for step in (1e-6, 1e-3, 1.0):
            better = value((1 - step) * mu + step * other) - value(mu)
            assert np.all(better <= info.error + 1e-11 * (1 + np.abs(finite).max(axis=1)))
    with pytest.raises(MissingOracle, match="transition counts"):
        Chain(3, 2, tied=True).kl_project(np.zeros(10))


def test_pack_and_unpack_are_inverse_views():
    chain = Chain(3, 2)
    node, edge = np.arange(6.0).reshape(3, 2), np.arange(8.0).reshape(2, 2, 2)
    theta = chain.pack(node, edge)
    back = chain.unpack(theta)
    assert np.array_equal(back[0], node)
    assert np.array_equal(back[1], edge)
    assert np.shares_memory(back[0], theta)
    assert np.shares_memory(back[1], theta)
    assert chain.pack(np.stack([node] * 4), edge).shape == (4, chain.dim)
    assert np.array_equal(chain.pack(node, edge[0]), chain.pack(node, np.stack([edge[0]] * 2)))
    assert Chain(1, 3).pack(np.ones((1, 3)), np.zeros((0, 3, 3))).shape == (3,)
    assert Chain(0, 3).pack(np.ones((2, 0, 3)), np.zeros((2, 0, 3, 3))).shape == (2, 0)
    with pytest.raises(InvalidInput, match=r"node has shape \(2, 2\)"):
        chain.pack(node[:2], edge)
    with pytest.raises(InvalidInput, match=r"edge has shape \(3, 2, 2\)"):
        chain.pack(node, np.zeros((3, 2, 2)))
    with pytest.raises(InvalidInput, match="needs"):
        chain.unpack(np.zeros(3))
    with pytest.raises(InvalidInput, match="from 0 to 1"):
        chain.encode([0, 2, 1])
    with pytest.raises(InvalidInput, match="rows of 3 labels"):
        chain.encode([0, 1])


# -- chains of many lengths --------------------------------------------------------------------------------------------


@both_kinds
def test_chains_of_many_lengths_equal_one_at_a_time(tied):
    rng = np.random.default_rng(6)
    chains = Chains(3, tied)
    lengths, theta = lengths_and_scores(chains, rng)
    truths = [rng.integers(3, size=n) for n in lengths]
    v = chains.encode(truths)
    members = [Chain(n, 3, tied) for n in lengths]
    for truth, back, vertex, member in zip(truths, chains.decode(v), v, members, strict=True):
        assert np.array_equal(truth, back)
        assert np.array_equal(vertex, member.encode(truth))
    log_partition, mu = chains.marginals(theta)
    best, projected = chains.argmax(theta), chains.project(theta)
    listed = chains.k_best(theta, 4)
    entropy, near = chains.entropy(theta), None if tied else chains.nearest(mu)
    for i, member in enumerate(members):
        one = member.marginals(theta[i])
        assert np.isclose(log_partition[i], one[0])
        assert np.allclose(mu[i], one[1])
        assert np.array_equal(best[i], member.argmax(theta[i]))
        assert np.allclose(projected[i], member.project(theta[i]), atol=1e-7)
        assert np.isclose(entropy[i], member.entropy(theta[i]))
        scores, labels = member.k_best(theta[i], 4)
        m = min(4, 3 ** int(lengths[i]))
        assert np.allclose(listed[i][0], scores[:m])
        assert np.array_equal(listed[i][1], labels[:m])
        if not tied:
            assert np.allclose(chains.kl_project(theta)[i], member.kl_project(theta[i]), atol=1e-7)
            assert np.array_equal(near[i], member.nearest(mu[i]))
            assert np.isclose(chains.gibbs_omega(mu)[i], member.gibbs_omega(mu[i][None])[0])
        weights, vertices = chains.decompose(projected)[i]
        assert np.allclose(weights @ vertices, projected[i], atol=1e-6)
    assert np.all(chains.violation(mu) < 1e-8)
    assert chains.are_vertices(v)
    assert not chains.are_vertices(mu)
    assert chains.decode(chains.draw(theta, 0))[1].size == 0
    mean = sum(chains.sample(mu, rng).flat for _ in range(400)) / 400
    assert np.all(np.abs(mean - mu.flat) < (0.6 if tied else 0.15))


@both_kinds
def test_a_list_of_arrays_is_answered_by_a_list(tied):
    chains, rng = Chains(2, tied), np.random.default_rng(7)
    _, theta = lengths_and_scores(chains, rng)
    answers = chains.argmax(list(theta))
    assert isinstance(answers, list)
    assert all(np.array_equal(a, b) for a, b in zip(answers, chains.argmax(theta), strict=True))
    assert chains.argmax([]) == []
    assert chains.decode(chains.encode([])) == []
    assert len(chains.marginals(Ragged.of([]))[1]) == 0
    single = chains.marginals(theta.astype(np.float32))
    assert single[0].dtype == single[1].dtype == np.float32
    packed = chains.pack([a for a, _ in chains.unpack(theta)], [b for _, b in chains.unpack(theta)])
    assert np.array_equal(packed.flat, theta.flat)


def test_errors_of_families_name_the_sample():
    chains = Chains(2)
    with pytest.raises(InvalidInput, match="sample 1, position 2"):
        chains.encode([[0, 1], [0, 1, 2]])
    with pytest.raises(InvalidInput, match="sample 1 has type"):
        chains.encode([[0, 1], ["a", "b"]])
    with pytest.raises(InvalidInput, match="sample 0 has shape"):
        chains.encode([[[0], [1]]])
    with pytest.raises(InvalidInput, match=r"sample 1: 3 numbers are no sequence of Chains\(2\)"):
        chains.argmax([np.zeros(2), np.zeros(3)])
    theta = Ragged.of([np.zeros(2), np.zeros(8), np.zeros(14)])
    theta[1][3] = np.nan
    with pytest.raises(InvalidInput, match="sample 1, position"):
        chains.argmax(theta)
    theta[1][:] = 0
    theta[2][:2] = -np.inf
    for oracle in (chains.argmax, chains.marginals, chains.project, chains.kl_project, chains.draw):
        with pytest.raises(InvalidInput, match="forbid every labelling of .* at sample 2"):
            oracle(theta)
    with pytest.raises(InvalidInput, match="sample 1 is no vertex"):
        chains.decode(Ragged.of([[1.0, 0.0], [0.5, 0.5]]))
    with pytest.raises(InvalidInput, match="label sequences"):
        chains.encode("abc")


@both_kinds
def test_results_do_not_depend_on_threads(tied):
    chains, rng = Chains(3, tied), np.random.default_rng(8)
    lengths, theta = lengths_and_scores(chains, rng, rng.integers(0, 9, size=40), scale=4.0)
    theta.flat[: theta.flat.size // 2] *= 100  # some of them with logarithms
    v = chains.encode([rng.integers(3, size=n) for n in lengths])
    loss = CRF(chains)

    def compute():
        value, residual = loss.value_and_grad(theta, v)
        return [value, residual.flat, chains.argmax(theta).flat, chains.draw(theta, 0).flat, chains.edge_sum(theta)]

    results = dict(with_thread_counts(compute))
    for result in [*results.values(), *in_many_threads(compute)]:
        assert all(np.array_equal(a, b) for a, b in zip(results[1], result, strict=True))


def test_assembling_scores_and_its_adjoint():
    """<assemble(node, table), r> = <node, nodes of r> + <table, edges of r>, tied, shared and by pair."""
    rng = np.random.default_rng(9)
    lengths = np.array([3, 0, 1, 5])
    nodes, table, tables = rng.normal(size=(9, 3)), rng.normal(size=(3, 3)), rng.normal(size=(6, 3, 3))
    for chains, edges in ((Chains(3, tied=True), table), (Chains(3), table), (Chains(3), tables)):
        theta = chains.assemble(lengths, nodes, edges)
        r = theta.like(rng.normal(size=theta.flat.size))
        total = (nodes * chains.position_marginals(r)).sum()
        total += (edges * (chains.edge_sum(r) if edges is table else chains.edge_rows(r))).sum()
        assert np.isclose(theta.flat @ r.flat, total)
        by_hand = chains.pack(np.split(nodes, [3, 3, 4]), table if edges is table else np.split(tables, [2, 2, 2]))
        assert np.array_equal(theta.flat, by_hand.flat)


# -- losses and costs --------------------------------------------------------------------------------------------------


@both_kinds
@pytest.mark.parametrize("kind", ["crf", "tempered", "euclidean", "perceptron", "hinge"])
def test_losses_of_a_family_equal_those_of_its_members(kind, tied):
    rng = np.random.default_rng(11)
    make = {
        "crf": CRF,
        "tempered": lambda s: CRF(s, strength=0.3),
        "euclidean": lambda s: FenchelYoung(s, "euclidean"),
        "perceptron": Perceptron,
        "hinge": lambda s: Hinge(s, Weighted(Hamming(), [3.0, 1, 1, 2, 1, 1])),
    }[kind]
    chains = Chains(3, tied)
    lengths, theta = lengths_and_scores(chains, rng)
    v = chains.encode([rng.integers(3, size=n) for n in lengths])
    value, residual = make(chains).value_and_grad(theta, v)
    for i, n in enumerate(lengths):
        one, gradient = make(Chain(n, 3, tied)).value_and_grad(theta[i], v[i])
        assert np.isclose(value[i], one, atol=1e-8)
        assert np.allclose(residual[i], gradient, atol=1e-6)
    assert np.all(value >= 0)


def test_the_crf_loss_is_the_same_formula_at_points_that_are_no_vertices():
    rng = np.random.default_rng(12)
    chain = Chain(4, 3)
    theta, mu = rng.normal(size=(5, chain.dim)), chain.marginals(rng.normal(size=(5, chain.dim)))[1]
    value, residual = CRF(chain).value_and_grad(theta, mu)
    log_partition, prediction = chain.marginals(theta)
    assert np.allclose(value, log_partition + chain.gibbs_omega(mu) - (theta * mu).sum(axis=1))
    assert np.allclose(residual, prediction - mu)
    v = chain.argmax(theta)
    assert np.allclose(CRF(chain).value(theta, v), log_partition - (theta * v).sum(axis=1))


def test_costs_add_up_over_positions_of_any_number():
    pred, true = [[0, 2], [1], []], [[1, 2], [2], []]
    assert Hamming()(pred, true).tolist() == [1, 1, 0]
    assert Absolute()(pred, true).tolist() == [1, 1, 0]
    assert SquaredError()([[0, 2], [0]], [[2, 2], [1]]).tolist() == [4, 1]
    assert ZeroOne()([[0, 2], [1], []], [[1, 1], [1], []]).tolist() == [1, 0, 0]
    table = CostMatrix([[0, 1, 4], [2, 0, 1], [3, 3, 0]])
    assert table(pred, true).tolist() == [1, 1, 0]
    assert table([[0, 1], [2, 2]], [[1, 1], [0, 1]]).tolist() == [1, 6]
    weighted = Weighted(table, [2, 10])
    assert weighted([[0, 1], [2]], [[1, 2], [2]]).tolist() == [12, 0]
    with pytest.raises(InvalidInput, match="sample 1 has an answer of shape"):
        Hamming()([[0, 1], [1, 2]], [[0, 1], [1]])
    with pytest.raises(InvalidInput, match="weights for 2 positions"):
        weighted([[0, 1, 2]], [[0, 1, 2]])
    with pytest.raises(InvalidInput, match="sequences"):
        weighted([0, 1], [0, 1])
    with pytest.raises(IncompatiblePair, match="does not add up"):
        Weighted(ZeroOne(), [1])
    with pytest.raises(IncompatiblePair, match="not for 2 labels"):
        table.affine(Chains(2))
    with pytest.raises(IncompatiblePair, match=r"Hamming\(\)"):
        Hinge(Chains(2), ZeroOne())


@both_kinds
@pytest.mark.parametrize(
    "cost",
    [Hamming(), Absolute(), SquaredError(), CostMatrix([[0, 1, 9], [2, 0, 1], [3, 3, 0]]), Weighted(Absolute(), [5, 1, 2])],
    ids=repr,
)  # fmt: skip
def test_the_answer_of_least_expected_cost_by_enumeration(cost, tied):
    """Among the labellings that the scores allow, also where the best label of each position makes a forbidden pair."""
    chains, chain, rng = Chains(3, tied), Chain(3, 3, tied), np.random.default_rng(13)
    every, vertices = every_labelling(3, 3), chain.vertices()
    matrix = cost.matrix(chain)
    for i in range(12):
        theta = rng.normal(size=chain.dim)
        if i > 3:
            theta[9:][rng.random(chain.dim - 9) < 0.3] = -np.inf
        totals = scores_of(chain, theta, every)
        p = np.exp(totals - log_sum_exp(totals))
        expected = np.where(p > 0, matrix @ p, np.inf)
        answer = Calibrated(chains, cost).decode(CRF(chains).output(Ragged.of([theta])))[0]
        index = int(answer @ [9, 3, 1])
        assert np.isclose(expected[index], expected.min())
        assert np.array_equal(Calibrated(chain, cost).decode(CRF(chain).output(theta)), answer)
        form = cost.affine(chain)
        assert np.isclose(form.value(vertices[index], p @ vertices), expected[index])
        scores, offset = form.adjoint(p @ vertices)  # turned round: what each truth makes the mean answer cost
        assert np.allclose(vertices @ scores + offset, p @ matrix)
    assert np.array_equal(MAP().decode(CRF(chain).output(theta)), every[int(totals.argmax())])
