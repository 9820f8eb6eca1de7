"""Parsing from few sentences with a network: losses for its last layer, on features that the network learned from the same few.

Li, Saeed, Zhang, Ziebart and Gimpel, "Moment distributionally robust tree structured prediction", 2022, section 6 and Table 1
(the low-resource setting). The network is that of Dozat and Manning (2017), pretrained with one binary cross-entropy for each
arc; then its features are frozen and the biaffine layer is trained anew.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .._core.errors import InvalidInput
from ..data.conll import read_conll
from .protocol import asked_sets
from .resume import Kept

__all__ = ["run"]

Told = Callable[[float, str], None]
Treebank = tuple[list[list[str]], list[list[int]]]

_FILES = {
    "Turkish": ("tr_imst-ud2.3-train", "tr_imst-ud2.3-dev", "tr_imst-ud2.3-test"),
    "Dutch": ("nl_lassysmall-ud2.1-extra-train", "nl_lassysmall-ud2.3-dev", "nl_lassysmall-ud2.3-test"),
}
_METHODS = {
    "biaffine": "biaffine layer, head by head",
    "crf": "trees: CRF",
    "hinge": "trees: structured hinge",
    "adversarial": "trees: adversarial loss",
}
_PUBLISHED = {  # UAS in the low-resource setting, for Turkish; the last two are adversarial
    "BiAF": (17.64, 26.59, 30.75, 42.82),
    "Marginal": (24.85, 32.83, 33.75, 43.18),
    "Game": (19.85, 23.18, 27.12, 36.30),
}
_SIZES = (10, 50, 100, 1000)
_PENALTIES = (1e-4, 1e-2)
_MANY = 1000
"""From so many sentences on: one draw, the smaller penalty, fewer steps."""
_MOST_GAMES = 50
"""The adversarial loss is run up to so many sentences, with the larger penalty and 40 steps: its games take the time."""
_LONGEST = 40
"""Words of the longest sentence to learn from."""


def run(
    data: Path | None = None,
    quick: bool = False,
    progress: Told | None = None,
    *,
    splits: int | None = None,
    sets: list[str] | None = None,
) -> dict[str, Any]:
    """Unlabelled attachment scores on the test sentences, by treebank, loss and number of sentences to learn from."""
    from .. import nn  # noqa: F401  says so if there is no PyTorch

    import torch  # isort: skip

    runs = splits or (1 if quick else 3)
    sizes = (10, 20) if quick or data is None else _SIZES
    methods = list(_METHODS)
    banks = (
        dict(_given(data, asked_sets(sets, tuple(_FILES), "neural-parsing")))
        if data is not None
        else {"made up": _made_up()}
    )
    if quick:
        banks = {name: tuple(_shortened(part, 60) for part in parts) for name, parts in banks.items()}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    values: dict[str, dict[str, Any]] = {}
    try:
        with Kept("neural-parsing", {"protocol": 1, "quick": quick}) as kept:
            jobs = [(bank, m, seed) for m in sizes for bank in banks for seed in range(runs if m < _MANY else 1)]
            for done, (bank, m, seed) in enumerate(jobs):
                if progress is not None:
                    progress(done / len(jobs), f"{bank}, {m} sentences, draw {seed + 1} of {runs}")
                what = {"bank": bank, "m": m, "seed": seed, "methods": methods}
                scores = kept.get(what)
                if scores is None:
                    scores = _one(banks[bank], m, seed, methods, quick)
                    kept.put(what, scores)
                for method, score in scores.items():
                    values.setdefault(f"{bank}: {method}", {}).setdefault(str(m), []).append(score)
            note = kept.note
    finally:
        torch.set_num_threads(threads)
    rows = []
    for bank in banks:
        for method in ("network", *methods):
            found = values[f"{bank}: {method}"]
            title = "the network itself, arc by arc" if method == "network" else _METHODS[method]
            rows.append([bank if method == "network" else "", title, *(_cell(found.get(str(m), [])) for m in sizes)])
        if bank == "Turkish" and sizes == _SIZES:
            for method, published in _PUBLISHED.items():
                rows.append(["", f"published: {method}", *(f"{score:.2f}" for score in published)])
    notes = [
        "Turkish is IMST, Dutch is Lassy Small, both of Universal Dependencies 2.3 (2.1 for the Dutch training part).",
        f"Mean ± standard deviation over {runs} draws of m sentences of at most {_LONGEST} words. Everything is",
        "learned from those: the network arc by arc with binary cross-entropy, then on its frozen features the",
        "last layer with each loss, 100 steps of Adam over the whole batch. The penalty (1e-4 or 1e-2) and the",
        "step (of every twentieth) are those of the highest score on 200 sentences of the development part.",
        "m = 1000: one draw, 60 steps, the smaller penalty. Adversarial loss: up to 50 sentences, 40 steps, the",
        "larger penalty, games to a gap of 1e-3. Answers are trees with one word on the root;",
        "punctuation counts.",
    ]
    if data is None:
        notes.append("No data given: made-up sentences.")
    return {
        "title": "Neural parsing from m sentences: unlabelled attachment score (%)",
        "columns": ["treebank", "loss of the last layer", *(f"m = {m}" for m in sizes)],
        "rows": rows,
        "notes": [*notes, *([note] if note else [])],
        "values": values,
    }


def _cell(scores: list[float]) -> str:
    if not scores:
        return "-"
    mean = f"{100 * np.mean(scores):.2f}"
    return mean if len(scores) < 2 else f"{mean} ± {100 * np.std(scores, ddof=1):.2f}"


def _shortened(bank: Treebank, most: int) -> Treebank:
    return bank[0][:most], bank[1][:most]


def _given(data: Path, names: tuple[str, ...]) -> Any:
    for name in names:
        parts = []
        for file in _FILES[name]:
            path = data / "dependency_ud" / f"{file}.conllu.gz"
            if not path.exists():
                raise InvalidInput(f"there is no {str(path)!r}, which the experiment neural-parsing reads")
            words, heads = read_conll(path, 1, 6)
            parts.append((words, [[int(h) for h in sentence] for sentence in heads]))
        yield name, tuple(parts)


def _made_up() -> tuple[Treebank, Treebank, Treebank]:
    """Nouns hang on the next verb or, behind the last, on that; verbs on the first verb, and that on the root."""
    rng = np.random.default_rng(0)
    banks = []
    for n in (60, 30, 60):
        words, heads = [], []
        for _ in range(n):
            kinds = rng.integers(2, size=int(rng.integers(3, 8)))
            kinds[rng.integers(len(kinds))] = 1
            verbs = np.flatnonzero(kinds)
            words.append([f"{'ran' if kind else 'cat'}{rng.integers(5)}" for kind in kinds])
            heads.append(
                [
                    (0 if t == verbs[0] else int(verbs[0]) + 1)
                    if kind
                    else int(next((v for v in verbs if v > t), verbs[-1])) + 1
                    for t, kind in enumerate(kinds)
                ]
            )
        banks.append((words, heads))
    return banks[0], banks[1], banks[2]


def _one(
    bank: tuple[Treebank, Treebank, Treebank], m: int, seed: int, methods: list[str], quick: bool
) -> dict[str, float]:
    import torch

    from ..nn.biaffine import BiaffineScorer, WordIndex

    (words, heads), development, test = bank
    rng = np.random.default_rng(seed)
    short = np.array([i for i, sentence in enumerate(words) if len(sentence) <= _LONGEST])
    drawn = rng.choice(short, size=min(m, len(short)), replace=False)
    sentences, trees = [words[i] for i in drawn], [heads[i] for i in drawn]
    torch.manual_seed(seed)
    index = WordIndex(sentences, least=2 if m >= 50 else 1)
    size = 16 if quick else 64
    network = BiaffineScorer(
        index.n_words, index.n_characters, hidden=size, layers=1, word_size=50, character_size=25, arc_size=size
    )
    _pretrain(network, index, sentences, trees, rng, quick)
    network.eval()
    with torch.no_grad():
        parts = [_features(network, index, *part) for part in ((sentences, trees), _shortened(development, 200), test)]
    found = {"network": _attachment(parts[2], network.arc.weight[0].detach())}
    steps = 20 if quick else 100 if m < _MANY else 60
    for method in methods:
        if method == "adversarial" and m > _MOST_GAMES:
            continue
        best, kept = -1.0, None
        slow = method == "adversarial" or m >= _MANY
        for penalty in _PENALTIES[1:] if method == "adversarial" else _PENALTIES[:1] if slow else _PENALTIES:
            score, weight = _last_layer(
                method, parts[0], parts[1], penalty, min(steps, 40) if method == "adversarial" else steps
            )
            if score > best:
                best, kept = score, weight
        found[method] = _attachment(parts[2], kept)
    return found


def _pretrain(network: Any, index: Any, sentences: Any, trees: Any, rng: np.random.Generator, quick: bool) -> None:
    """End to end, one binary cross-entropy for each arc, so that features lean to no loss of the last layer."""
    import torch

    optimizer = torch.optim.Adam(network.parameters(), lr=2e-3, betas=(0.9, 0.9))
    n = len(sentences)
    steps = 30 if quick else 300
    for _ in range(steps):
        batch = rng.choice(n, size=min(32, n), replace=False)
        scores, lengths = _scored(network, index, [sentences[i] for i in batch])
        target = torch.zeros_like(scores)
        for i, j in enumerate(batch):
            target[i, torch.arange(len(trees[j])), torch.tensor(trees[j])] = 1.0
        inside = _arcs_inside(scores.shape, lengths)
        optimizer.zero_grad()
        loss = torch.nn.functional.binary_cross_entropy_with_logits(scores[inside], target[inside], reduction="sum")
        (loss / int(lengths.sum())).backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 5.0)
        optimizer.step()


def _scored(network: Any, index: Any, sentences: Any) -> Any:
    words, characters, lengths = index(sentences)
    return network(words, characters, lengths), lengths


def _arcs_inside(shape: Any, lengths: Any) -> Any:
    import torch

    n, m = shape[1:]
    sizes = torch.as_tensor(lengths)[:, None]
    inside = (torch.arange(n) < sizes)[:, :, None] & (torch.arange(m) < sizes + 1)[:, None, :]
    inside[:, torch.arange(n), torch.arange(1, n + 1)] = False  # no word is its own head
    return inside


def _features(network: Any, index: Any, sentences: Any, trees: Any) -> list[Any]:
    """Batches of the two vectors of each word, with a one added, the lengths, and the trees."""
    import torch

    batches = []
    for first in range(0, len(sentences), 100):
        words, characters, lengths = index(sentences[first : first + 100])
        features = network.features(words, characters, lengths)
        heads = torch.cat([network.root.expand(len(features), 1, -1), features], dim=1)
        dependents, heads = network.arc.vectors(features, heads)
        batches.append((dependents, heads, lengths, trees[first : first + 100]))
    return batches


def _attachment(batches: list[Any], weight: Any) -> float:
    """The share of words that get their head."""
    from ..nn.losses import CRFLoss
    from ..structures.tree import DependencyTrees

    loss, right, total = CRFLoss(DependencyTrees()), 0, 0
    for dependents, heads, lengths, trees in batches:
        for parse, tree in zip(loss.predict(dependents @ weight @ heads.transpose(1, 2), lengths), trees, strict=True):
            right += int((parse == np.array(tree)).sum())
            total += len(tree)
    return right / total


def _last_layer(
    method: str, batches: list[Any], development: list[Any], penalty: float, steps: int
) -> tuple[float, Any]:
    """The biaffine matrix trained with a loss: the best on the development part of those met every twenty steps."""
    import torch

    from ..costs.hamming import Hamming
    from ..nn.losses import AdversarialLoss, CRFLoss, HingeLoss
    from ..structures.tree import DependencyTrees

    trees = DependencyTrees()
    made: dict[str, Callable[[], Any]] = {
        "crf": lambda: CRFLoss(trees, reduction="sum"),
        "hinge": lambda: HingeLoss(trees, Hamming(), reduction="sum"),
        "adversarial": lambda: AdversarialLoss(trees, Hamming(), tol=1e-3, reduction="sum"),
    }
    loss = None if method == "biaffine" else made[method]()
    weight = torch.zeros(batches[0][0].shape[2], batches[0][1].shape[2], requires_grad=True)
    optimizer = torch.optim.Adam([weight], lr=0.02)
    n = sum(len(batch[3]) for batch in batches)
    best, kept = -1.0, weight.detach().clone()
    for step in range(1, steps + 1):
        optimizer.zero_grad()
        for dependents, heads, lengths, truths in batches:
            scores = dependents @ weight @ heads.transpose(1, 2)
            if loss is None:
                scores = scores.masked_fill(~_arcs_inside(scores.shape, lengths), -torch.inf)
                chosen = [torch.log_softmax(scores[i, :k], dim=1) for i, k in enumerate(lengths.tolist())]
                value = -sum(
                    c[torch.arange(len(t)), torch.tensor(t)].sum() for c, t in zip(chosen, truths, strict=True)
                )
            else:
                value = loss(scores, truths, lengths=lengths)
            (value / n).backward()
        (penalty / 2 * (weight**2).sum()).backward()
        optimizer.step()
        if step % 20 == 0:
            score = _attachment(development, weight.detach())
            if score > best:
                best, kept = score, weight.detach().clone()
    return best, kept
