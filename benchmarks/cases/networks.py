"""Layers and losses for PyTorch on the CPU: a forward and a backward pass, against the libraries that PyTorch users have."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness import Case, Contender, Probe

__all__ = ["cases"]

Array = Any


def cases() -> list[Case | Probe]:
    sparsemax = [_sparsemax(batch, k) for batch, k in ((1024, 10), (512, 100), (128, 1000))]
    crf = [_crf(32, 30, k, against) for k in (10, 20) for against in ("torch-struct", "pytorch-crf")]
    return [*sparsemax, *crf, *(_non_projective(16, n) for n in (10, 30)), _adversarial_trees(32, 30)]


def _needs(module: str) -> Callable[[], str | None]:
    def missing() -> str | None:
        return None if importlib.util.find_spec(module) else f"{module} is not installed"

    return missing


def _differences(names: tuple[str, ...]) -> Callable[[Any, Any, Any], dict[str, float]]:
    def measure(data: Any, reference: Any, found: Any) -> dict[str, float]:
        return {
            f"{name} off by": float(np.abs(np.asarray(a) - np.asarray(b)).max())
            for name, a, b in zip(names, found, reference, strict=True)
        }

    return measure


def _numbers(found: Any) -> tuple[Array, ...]:
    return tuple(part.detach().numpy().astype(np.float64) for part in found)


# -- sparsemax ---------------------------------------------------------------------------------------------------------


def _sparsemax(batch: int, k: int) -> Case:
    def leaves(data: tuple[Array, Array]) -> Any:
        import torch

        theta, g = (torch.tensor(x, dtype=torch.float32) for x in data)
        return theta.requires_grad_(), g

    def run(layer: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def both(data: Any) -> Any:
            theta, g = data
            theta.grad = None
            mu = layer(theta)
            mu.backward(g)
            return mu, theta.grad

        return both

    def ours(setting: Any) -> Callable[[Any], Any]:
        from fenchel.nn import Project
        from fenchel.structures import Simplex

        return run(Project(Simplex(k)))

    def theirs(setting: Any) -> Callable[[Any], Any]:
        from entmax import sparsemax

        return run(lambda theta: sparsemax(theta, dim=1))

    def exact(data: tuple[Array, Array]) -> tuple[Array, Array]:
        theta, g = (x.astype(np.float32).astype(np.float64) for x in data)
        top = -np.sort(-theta, axis=1)
        sums = np.cumsum(top, axis=1) - 1
        size = (np.arange(1, k + 1) * top > sums).sum(axis=1)
        mu = np.maximum(theta - (sums[np.arange(batch), size - 1] / size)[:, None], 0)
        free = mu > 0
        return mu, free * (g - ((free * g).sum(axis=1) / free.sum(axis=1))[:, None])

    return Case(
        name=f"torch-sparsemax-k{k}",
        title=f"sparsemax, forward and backward, {batch} rows of {k}, float32",
        make=lambda rng: (rng.normal(size=(batch, k)), rng.normal(size=(batch, k))),
        ours=Contender("fenchel.nn.Project(Simplex(k))", ours, leaves, _numbers, threads="each"),
        peers=(Contender("entmax sparsemax", theirs, leaves, _numbers, threads="each"),),
        reference=exact,
        measure=_differences(("points", "gradients")),
        goals={"points off by": 1e-5, "gradients off by": 1e-5},
        peer_goals={"points off by": 1e-5, "gradients off by": 1e-5},
        target=1.0,
        against="entmax",
        scale=1.0,
        missing=_needs("entmax"),
        seconds=4.0,
    )


# -- CRF ---------------------------------------------------------------------------------------------------------------


def _crf(batch: int, longest: int, k: int, against: str) -> Case:
    """The CRF loss of padded sentences with one table of transitions: its value, and the gradients of nodes and table."""

    def make(rng: np.random.Generator) -> Any:
        lengths = rng.integers(longest // 2, longest + 1, size=batch)
        lengths[0] = longest
        return (
            rng.normal(size=(batch, longest, k)), rng.normal(size=(k, k)), rng.integers(k, size=(batch, longest)), lengths,
        )  # fmt: skip

    def leaves(data: Any) -> Any:
        import torch

        nodes, table, y, lengths = data
        return (
            torch.tensor(nodes, dtype=torch.float32, requires_grad=True),
            torch.tensor(table, dtype=torch.float32, requires_grad=True), torch.tensor(y), torch.tensor(lengths),
        )  # fmt: skip

    def passes(value: Callable[[Any, Any, Any, Any], Any]) -> Callable[[Any], Any]:
        def both(data: Any) -> Any:
            nodes, table, y, lengths = data
            nodes.grad = table.grad = None
            loss = value(nodes, table, y, lengths)
            loss.backward()
            return loss, nodes.grad, table.grad

        return both

    def ours(setting: Any) -> Callable[[Any], Any]:
        from fenchel.nn import CRFLoss
        from fenchel.structures import Chains

        loss = CRFLoss(Chains(k, tied=True), reduction="sum")
        return passes(lambda nodes, table, y, lengths: loss((nodes, table), y, lengths=lengths))

    def torch_struct(setting: Any) -> Callable[[Any], Any]:
        import torch
        from torch_struct import LinearChain, LinearChainCRF  # type: ignore[import-not-found]

        def value(nodes: Any, table: Any, y: Any, lengths: Any) -> Any:
            # [sentence, pair, label of the second, label of the first]; the first node joins the first pair
            scores = table.t()[None, None] + nodes[:, 1:, :, None]
            first = torch.zeros_like(scores)
            first[:, 0] = nodes[:, 0][:, None, :]
            distribution = LinearChainCRF((scores + first).contiguous(), lengths=lengths)
            truth = LinearChain.to_parts(y, k, lengths=lengths).type_as(nodes)
            return -distribution.log_prob(truth).sum()

        return passes(value)

    def pytorch_crf(setting: Any) -> Callable[[Any], Any]:
        import torch
        from torchcrf import CRF  # type: ignore[import-not-found]

        def both(data: Any) -> Any:
            nodes, table, y, lengths = data
            crf = CRF(k, batch_first=True)
            with torch.no_grad():
                crf.transitions.copy_(table)
                crf.start_transitions.zero_()
                crf.end_transitions.zero_()
            nodes.grad = None
            mask = torch.arange(longest)[None, :] < lengths[:, None]
            loss = -crf(nodes, y, mask=mask, reduction="sum")
            loss.backward()
            return loss, nodes.grad, crf.transitions.grad

        return both

    def exact(data: Any) -> Any:
        from fenchel.structures import Chains

        nodes, table, y, lengths = data
        family = Chains(k, tied=True)
        theta = [np.concatenate([nodes[i, :n].ravel(), table.ravel()]) for i, n in enumerate(lengths)]
        truths = family.encode([y[i, :n] for i, n in enumerate(lengths)])
        log_partition, mu = family.marginals(theta)
        value = sum(z - t @ v for z, t, v in zip(log_partition, theta, truths, strict=True))
        slope = np.zeros_like(nodes)
        tables = np.zeros(k * k)
        for i, n in enumerate(lengths):
            off = np.asarray(mu[i]).ravel() - truths[i]
            slope[i, :n] = off[: n * k].reshape(n, k)
            tables += off[n * k :]
        return np.array(value), slope, tables.reshape(k, k)

    build, module = (torch_struct, "torch_struct") if against == "torch-struct" else (pytorch_crf, "torchcrf")
    goals = {"value off by": 0.05, "node gradients off by": 1e-4, "table gradients off by": 1e-2}
    return Case(
        name=f"torch-crf-k{k}-{against}",
        title=f"CRF loss, forward and backward, {batch} sentences of at most {longest}, {k} labels, float32",
        make=make,
        ours=Contender("fenchel.nn.CRFLoss(Chains(k, tied=True))", ours, leaves, _numbers, threads="each"),
        peers=(Contender(against, build, leaves, _numbers, threads="each"),),
        reference=exact,
        measure=_differences(("value", "node gradients", "table gradients")),
        goals=goals,
        peer_goals=goals,
        target=5.0,
        against=against,
        scale=1.0,
        sets=8,
        missing=_needs(module),
        seconds=5.0,
    )


# -- non-projective trees ----------------------------------------------------------------------------------------------


def _non_projective(batch: int, n: int) -> Case:
    def ours(setting: Any) -> Callable[[Any], Any]:
        from fenchel.nn import Marginals
        from fenchel.structures import Arborescence

        layer = Marginals(Arborescence(n))

        def both(data: Any) -> Any:
            theta, g = data
            theta.grad = None
            mu = layer(theta)
            mu.backward(g)
            return mu, theta.grad

        return both

    def theirs(setting: Any) -> Callable[[Any], Any]:
        from torch_struct import NonProjectiveDependencyCRF  # type: ignore[import-not-found]

        def both(data: Any) -> Any:
            scores, g = data
            scores.grad = None
            mu = NonProjectiveDependencyCRF(scores, multiroot=True).marginals
            mu.backward(g)
            return mu, scores.grad

        return both

    def leaves(data: Any) -> Any:
        import torch

        return tuple(torch.tensor(x, requires_grad=i == 0) for i, x in enumerate(data))

    def by_head(data: Any) -> Any:
        import torch

        made = []
        for x in data:  # [head, word], the root's on the diagonal
            scores = np.swapaxes(x[:, :, 1:], 1, 2).copy()
            scores[:, np.arange(n), np.arange(n)] = x[:, :, 0]
            made.append(scores)
        return torch.tensor(made[0], requires_grad=True), torch.tensor(made[1])

    def by_word(found: Any) -> Any:
        parts = []
        for x in _numbers(found):
            out = np.zeros((batch, n, n + 1))
            out[:, :, 1:] = np.swapaxes(x, 1, 2)
            out[:, :, 0] = np.einsum("bii->bi", x)
            out[:, np.arange(n), np.arange(1, n + 1)] = 0
            parts.append(out)
        return tuple(parts)

    def exact(data: Any) -> Any:
        from fenchel.structures import Arborescence

        theta, g = data
        trees, step = Arborescence(n), 1e-5
        ahead, behind = (trees.marginals(theta + sign * step * g)[1] for sign in (1, -1))
        return trees.marginals(theta)[1], (ahead - behind) / (2 * step)

    def make(rng: np.random.Generator) -> Any:
        theta, g = rng.normal(size=(2, batch, n, n + 1))
        g[:, np.arange(n), np.arange(1, n + 1)] = 0
        return theta, g

    return Case(
        name=f"torch-non-projective-n{n}",
        title=f"non-projective marginals, forward and backward, {batch} sentences of {n}, float64",
        make=make,
        ours=Contender("fenchel.nn.Marginals(Arborescence(n))", ours, leaves, _numbers, threads="each"),
        peers=(Contender("torch-struct", theirs, by_head, by_word, threads="each", note="adds 1e-5 to every arc"),),
        reference=exact,
        measure=_differences(("marginals", "gradients")),
        goals={"marginals off by": 1e-9, "gradients off by": 1e-6},
        peer_goals={"marginals off by": 1e-3, "gradients off by": 1e-2},
        target=1.0,
        against="torch-struct",
        scale=1.0,
        sets=8,
        missing=_needs("torch_struct"),
        seconds=4.0,
    )


# -- the adversarial loss of trees -------------------------------------------------------------------------------------


def _adversarial_trees(batch: int, n: int) -> Case:
    """The loss to a gap of 1e-3, forward and backward, beside a step of the parser's network that makes its scores.

    The network is that of ``DependencyParser(features="neural")`` in the sizes of Dozat and Manning (2017, Table 1): words and
    tags of 100, a BiLSTM over characters, 3 BiLSTMs of 400, vectors of 500 and 100, dropout; arcs, and labels of the true
    arcs.
    """

    def make(rng: np.random.Generator) -> Any:
        from fenchel.structures import DependencyTree

        trees = DependencyTree(n)
        truths = trees.argmax(rng.normal(size=(batch, n, n + 1)))
        # the truth is favoured, not always enough, as in a parser at work
        theta = rng.normal(size=truths.shape) + 4 * truths
        return (
            theta,
            trees.decode(truths),
            rng.integers(2, 5000, size=(batch, n)),
            rng.integers(2, 60, size=(batch, n, 8)),
            rng.integers(2, 18, size=(batch, n)),
        )

    def leaves(data: Any) -> Any:
        import torch

        theta, *others = (torch.tensor(x) for x in data)
        return theta.requires_grad_(), *others

    def ours(setting: Any) -> Callable[[Any], Any]:
        from fenchel.costs import Hamming
        from fenchel.nn import AdversarialLoss
        from fenchel.structures import DependencyTrees

        loss = AdversarialLoss(DependencyTrees(), Hamming(), tol=1e-3, reduction="none")

        def both(data: Any) -> Any:
            theta, heads, *_ = data
            theta.grad = None
            value = loss(theta, heads, lengths=[n] * batch)
            value.sum().backward()
            return value, theta.grad

        return both

    def network(setting: Any) -> Callable[[Any], Any]:
        import torch

        from fenchel.nn import BiaffineScorer

        torch.manual_seed(0)
        scorer = BiaffineScorer(
            5000, 60, n_tags=18, labels=40, word_size=100, character_size=50, tag_size=100, hidden=400, layers=3,
            arc_size=500, label_size=100,
        )  # fmt: skip

        def both(data: Any) -> Any:
            _, heads, words, characters, tags = data
            scorer.zero_grad()
            scores, labels = scorer.arcs_and_labels(scorer.features(words, characters, [n] * batch, tags), heads)
            (scores.sum() + labels.sum()).backward()
            return scores, scores

        return both

    def exact(data: Any) -> Any:
        from fenchel.costs import Hamming
        from fenchel.losses import Adversarial
        from fenchel.structures import DependencyTree

        trees = DependencyTree(n)
        return (Adversarial(trees, Hamming(), tol=1e-4).value(data[0], trees.encode(data[1])),)

    def measure(data: Any, reference: Any, found: Any) -> dict[str, float]:
        return {"value off by": float(np.abs(np.asarray(found[0]) - reference[0]).max())}

    return Case(
        name=f"torch-adversarial-trees-n{n}",
        title=f"adversarial loss of trees, forward and backward, {batch} sentences of {n}, gap 1e-3",
        make=make,
        ours=Contender("fenchel.nn.AdversarialLoss(DependencyTrees())", ours, leaves, _numbers, threads="each"),
        peers=(
            Contender(
                "the parser's network, forward and backward",
                network,
                leaves,
                lambda found: None,
                threads="each",
                floor=True,
                note="BiaffineScorer, arcs and labels, in the sizes of Dozat and Manning: it makes the scores",
            ),
        ),
        reference=exact,
        measure=measure,
        goals={"value off by": 2e-3},
        target=0.5,
        against="the forward and backward pass of the parser's network",
        sets=1,
        checked=1,
        missing=_needs("torch"),
        seconds=8.0,
    )
