"""Parsing from few sentences: the moment-robust trainers against head selection, on lexical features or a frozen network's.

Li, Saeed, Zhang, Ziebart and Gimpel, "Moment distributionally robust tree structured prediction", 2022, section 6 and Tables 1
and 2. There the features are vectors of words from a network (``features="neural"``), that of Dozat and Manning (2017): for
Turkish (the low-resource setting) trained on the same few sentences, by one binary cross-entropy for each arc; for Dutch
on the whole training set, by the cross-entropy of each word's head. Then it is frozen, and biaffine layers are learned
on its vectors. With ``features="lexical"`` parsers are linear in the hashed features of the classical ones.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

from .._core.checks import check_choice
from .._core.errors import ConvergenceWarning, InvalidInput
from ..data.conllu import Sentence, read_conllu
from ..data.treebank import small_treebank
from ..estimators.neural import NeuralFeatures
from ..estimators.parse import DependencyParser
from ..metrics import attachment_scores
from .protocol import asked_sets
from .resume import Kept

__all__ = ["TRAINERS", "Trainer", "chosen", "given", "measured", "run"]

Told = Callable[[float, str], None]
Scores = dict[str, dict[int, dict[str, list[float]]]]


@dataclass(frozen=True)
class Trainer:
    """How a last layer is learned."""

    title: str
    options: dict[str, Any]
    """Of DependencyParser."""
    published: str | None = None
    """What the document calls it."""
    most: int | None = None
    """It is left out with more sentences than this."""


TRAINERS = {
    "biaffine": Trainer("head selection", {"loss": "head-selection"}, "BiAF"),
    "marginal": Trainer("robust, marginal", {"loss": "robust-marginal"}, "Marginal"),
    "stochastic": Trainer("robust, stochastic", {"loss": "robust-stochastic"}, "Stochastic"),
    "game": Trainer("robust, game", {"loss": "robust-game"}, "Game", most=100),
    "crf": Trainer("CRF of trees", {"loss": "crf"}),
}


@dataclass(frozen=True)
class _Bank:
    training: tuple[str, ...]
    development: str
    test: str
    low_resource: bool = False


_BANKS = {
    "Turkish": _Bank(("tr_imst-ud2.3-train",), "tr_imst-ud2.3-dev", "tr_imst-ud2.3-test", True),
    "Dutch": _Bank(
        ("nl_lassysmall-ud2.1-extra-train", "nl_lassysmall-ud2.16-extra-train"),
        "nl_lassysmall-ud2.3-dev",
        "nl_lassysmall-ud2.3-test",
    ),
    "English": _Bank(("en_gum-ud2.3-train",), "en_gum-ud2.3-dev", "en_gum-ud2.3-test"),
}
_SETS = {"lexical": ("Turkish", "Dutch", "English"), "neural": ("Turkish", "Dutch")}
_METRICS = ("uas", "las", "ucm", "lcm")
_PUBLISHED: dict[str, dict[int, dict[str, tuple[float, float, float, float]]]] = {
    "Dutch": {
        10: {"BiAF": (90.86, 86.54, 64.11, 48.33), "Marginal": (92.41, 88.10, 67.26, 50.32),
             "Stochastic": (92.40, 88.08, 67.21, 50.48), "Game": (92.32, 87.99, 67.26, 50.46)},
        50: {"BiAF": (93.80, 89.36, 70.57, 52.40), "Marginal": (94.22, 89.79, 72.42, 53.47),
             "Stochastic": (94.23, 89.79, 72.05, 53.40), "Game": (94.34, 89.89, 72.60, 53.58)},
        100: {"BiAF": (94.15, 89.69, 71.71, 53.01), "Marginal": (94.50, 90.04, 73.24, 53.79),
              "Stochastic": (94.47, 90.01, 73.01, 53.70), "Game": (94.59, 90.12, 73.63, 54.13)},
        1000: {"BiAF": (94.98, 90.44, 74.73, 54.59), "Marginal": (95.15, 90.59, 75.87, 55.21),
               "Stochastic": (95.14, 90.59, 75.64, 55.16), "Game": (95.01, 90.44, 75.41, 54.70)},
    },
    "Turkish": {
        10: {"BiAF": (17.64, 4.86, 7.69, 1.46), "Marginal": (24.85, 5.33, 9.03, 1.50),
             "Stochastic": (25.06, 5.40, 7.88, 1.50), "Game": (19.85, 5.02, 10.03, 1.74)},
        50: {"BiAF": (26.59, 10.14, 10.03, 3.24), "Marginal": (32.83, 10.73, 10.63, 3.26),
             "Stochastic": (31.35, 10.74, 10.81, 3.38), "Game": (23.18, 10.10, 10.34, 3.43)},
        100: {"BiAF": (30.75, 10.84, 11.61, 3.53), "Marginal": (33.75, 11.48, 11.30, 3.61),
              "Stochastic": (33.62, 11.69, 11.34, 3.57), "Game": (27.12, 10.48, 11.08, 3.55)},
        1000: {"BiAF": (42.82, 18.44, 15.86, 4.49), "Marginal": (43.18, 18.24, 15.18, 4.37),
               "Stochastic": (41.20, 18.13, 13.78, 4.31), "Game": (36.30, 16.38, 13.52, 4.29)},
    },
}  # fmt: skip
_SIZES = (10, 50, 100, 1000)
_DRAWS = 5
_ALPHAS = {"lexical": (1.0, 1e-1, 1e-2, 1e-3), "neural": (10.0, 1.0, 1e-1, 1e-2)}
_VALIDATION = 200
"""Sentences of the development part by which alpha is chosen."""
_TOL, _MOST = 1e-2, 100
_NETWORK = NeuralFeatures(frozen=True, hidden=100, layers=2, arc_size=100)
_WHOLE_EPOCHS = 12


def run(
    data: Path | None = None,
    quick: bool = False,
    progress: Told | None = None,
    *,
    splits: int | None = None,
    sets: list[str] | None = None,
    features: str | None = None,
    trainers: dict[str, Trainer] | None = None,
) -> dict[str, Any]:
    """Attachment scores on the test sentences, by treebank, number of sentences to learn from, and trainer."""
    features = check_choice(features or "lexical", "features", tuple(_SETS))
    if features == "neural":
        from .. import nn  # noqa: F401  says so if there is no PyTorch

    used = TRAINERS if trainers is None else trainers
    draws = splits or (1 if quick else _DRAWS)
    sizes = (10, 20) if quick or data is None else _SIZES
    names = asked_sets(sets, _SETS[features], "parsing")
    banks = {"made up": _made_up()} if data is None else {name: given(data, name) for name in names}
    if quick:
        banks = {name: (parts[0][:400], parts[1][:40], parts[2][:60]) for name, parts in banks.items()}
    networks: dict[str, Any] = {}
    scores: Scores = {}
    unfinished = 0
    with Kept("parsing", {"protocol": 2, "quick": quick, "features": features, "alphas": _ALPHAS[features]}) as kept:
        jobs = [(bank, m, draw) for m in sizes for bank in banks for draw in range(draws)]
        for done, (bank, m, draw) in enumerate(jobs):
            if progress is not None:
                progress(done / len(jobs), f"{bank}, {m} sentences, draw {draw + 1} of {draws}")
            wanted = {key: t for key, t in used.items() if t.most is None or m <= t.most}
            whats = {
                key: {"bank": bank, "m": m, "draw": draw, "trainer": None if t is None else t.options}
                for key, t in {**({"network": None} if features == "neural" else {}), **wanted}.items()
            }
            found = {key: kept.get(what) for key, what in whats.items()}
            missing = [key for key, value in found.items() if value is None]
            for key, value in _one(banks[bank], bank, m, draw, missing, used, networks, features, quick):
                kept.put(whats[key], value)
                found[key] = value
            for key, value in found.items():
                unfinished += value["unfinished"]
                for metric in (*_METRICS, "seconds"):
                    by_size = scores.setdefault(f"{bank}: {key}", {}).setdefault(m, {})
                    by_size.setdefault(metric, []).append(value[metric])
        note = kept.note
    return {
        "title": f"Parsing from m sentences, {features} features: scores of words and sentences (%), by trainer",
        "columns": [
            "treebank",
            "m",
            "",
            "",
            *(["network"] if features == "neural" else []),
            *(t.title for t in used.values()),
        ],
        "rows": _rows(scores, list(banks), sizes, used, features, data is not None and not quick),
        "notes": [*_notes(draws, data, features, quick, unfinished), *([note] if note else [])],
        "values": {name: {str(m): by for m, by in found.items()} for name, found in scores.items()},
    }


# -- data --------------------------------------------------------------------------------------------------------------

_Parts = tuple[list[Sentence], list[Sentence], list[Sentence]]


def given(data: Path, name: str) -> _Parts:
    """Training, development and test part of a treebank of the folder."""
    bank = _BANKS[name]

    def read(name: str) -> list[Sentence]:
        path = data / "dependency_ud" / f"{name}.conllu.gz"
        if not path.exists():
            raise InvalidInput(f"there is no {str(path)!r}, which the experiment parsing reads")
        return read_conllu(path)

    training = [s for name in bank.training for s in read(name)]
    return training, read(bank.development), read(bank.test)


def _made_up() -> _Parts:
    return small_treebank(60, random_state=0), small_treebank(30, random_state=1), small_treebank(60, random_state=2)


# -- one draw ----------------------------------------------------------------------------------------------------------


def _one(
    parts: _Parts,
    bank: str,
    m: int,
    draw: int,
    wanted: list[str],
    trainers: dict[str, Trainer],
    networks: dict[str, Any],
    features: str,
    quick: bool,
) -> Any:
    """Scores of parsers, and of the network's own last layer, one after the other."""
    if not wanted:
        return
    training, development, test = parts
    rng = np.random.default_rng(draw)
    drawn = [training[i] for i in rng.choice(len(training), size=min(m, len(training)), replace=False)]
    if features == "lexical":
        for key in wanted:
            began = process_time()
            found = chosen(trainers[key].options, features, drawn, development[:_VALIDATION], test)
            yield key, {**found, "seconds": process_time() - began}
        return
    if bank in _BANKS and not _BANKS[bank].low_resource:
        if bank not in networks:
            networks[bank] = _network(training, "head-selection", 0, quick, whole=True)
        network = networks[bank]
    else:
        network = _network(drawn, "binary", draw, quick)
    with network.remembering():
        for key in wanted:
            began = process_time()
            if key == "network":
                found = {**measured(network, test), "alpha": None, "unfinished": 0}
            else:
                found = chosen(trainers[key].options, network, drawn, development[:_VALIDATION], test)
            yield key, {**found, "seconds": process_time() - began}


def _network(sentences: list[Sentence], loss: str, seed: int, quick: bool, whole: bool = False) -> Any:
    from ..nn.parser import train_network

    sizes = {**_NETWORK.sizes, **({"hidden": 24, "layers": 1, "arc_size": 24} if quick else {})}
    options: dict[str, Any] = {"epochs": 30, "learning_rate": 1e-2} if quick else {}
    if whole and not quick:
        options["epochs"] = _WHOLE_EPOCHS
    return train_network(sentences, loss, sizes=sizes, seed=seed, **options).network


def chosen(
    options: dict[str, Any],
    features: Any,
    drawn: list[Sentence],
    development: list[Sentence],
    test: list[Sentence],
    alphas: tuple[float, ...] | None = None,
) -> dict[str, Any]:
    """Alphas from large to small, each from the last one's weights; the best on the development part is tested."""
    lexical = isinstance(features, str)
    parser = DependencyParser(
        **options, features=features, tol=_TOL, max_iter=_MOST, warm_start=True, random_state=0, labels=not lexical
    )
    best: tuple[float, Any, float, bool] = (-1.0, None, 0.0, True)
    for alpha in alphas or _ALPHAS["lexical" if lexical else "neural"]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # counted, and told in the notes
            parser.set_params(alpha=alpha).fit(drawn)
        uas = measured(parser, development)["uas"]
        if uas > best[0]:
            best = (uas, parser.weights_.copy(), alpha, bool(parser.converged_))
    parser.weights_ = best[1]
    if lexical:  # labels are told by a model of their own, the same for all
        parser.set_params(labels=True)
        parser._fit_labels(drawn, None, None)
    return {**measured(parser, test), "alpha": best[2], "unfinished": int(not best[3])}


def measured(parser: Any, sentences: list[Sentence]) -> dict[str, float]:
    """The scores of a parser's answers (%), without punctuation."""
    found = attachment_scores(sentences, parser.predict(sentences), rule="tags")
    return {metric: 100 * float(getattr(found, metric)) for metric in _METRICS}


# -- report ------------------------------------------------------------------------------------------------------------


def _rows(
    scores: Scores, banks: list[str], sizes: tuple[int, ...], trainers: dict[str, Trainer], features: str, beside: bool
) -> list[list[str]]:
    rows = []
    columns = [*(["network"] if features == "neural" else []), *trainers]
    for bank in banks:
        for m in sizes:
            for k, metric in enumerate((*_METRICS, "seconds")):
                by_key = {key: scores.get(f"{bank}: {key}", {}).get(m, {}).get(metric, []) for key in columns}
                if metric == "seconds":
                    rows.append(
                        ["", "", "seconds", "ours", *(f"{np.mean(v):.1f}" if v else "-" for v in by_key.values())]
                    )
                    continue
                base = by_key.get("biaffine", [])
                cells = [_cell(by_key[key], base if key not in ("network", "biaffine") else []) for key in by_key]
                rows.append([bank if k == 0 else "", str(m) if k == 0 else "", metric.upper(), "ours", *cells])
                theirs = _PUBLISHED.get(bank, {}).get(m) if beside and features == "neural" else None
                if theirs is not None:
                    told = [f"{theirs[t.published][k]:.2f}" if t.published else "" for t in trainers.values()]
                    rows.append(["", "", "", "published", "", *told])
    return rows


def _cell(values: list[float], base: list[float]) -> str:
    """Mean ± standard deviation over draws, and † where a paired t-test tells it from the biaffine layer at 0.05."""
    from scipy.stats import ttest_rel

    if not values:
        return "-"
    mark = ""
    if len(values) > 1 and len(base) == len(values) and np.ptp(np.subtract(values, base)) > 0:
        mark = "†" if ttest_rel(values, base).pvalue < 0.05 else ""
    spread = f" ± {np.std(values, ddof=1):.2f}" if len(values) > 1 else ""
    return f"{np.mean(values):.2f}{spread}{mark}"


def _notes(draws: int, data: Path | None, features: str, quick: bool, unfinished: int) -> list[str]:
    sizes, alphas = _NETWORK, ", ".join(f"{a:g}" for a in _ALPHAS[features])
    notes = [
        f"Mean ± standard deviation over {draws} draws of m training sentences (published: {_DRAWS}); † differs from head",
        "selection by a paired t-test at 0.05. Punctuation (by its tag) does not count, as published. Seconds are of one",
        "processor, for all alphas, with the choice among them and the test.",
    ]
    if features == "neural":
        notes += [
            f"The network: {sizes.layers} BiLSTMs of {sizes.hidden} units a direction over words, characters and gold parts of",
            f"speech, vectors of {sizes.arc_size} (published: 500). Turkish: trained on the m sentences with a binary",
            "cross-entropy for each arc. Dutch: trained on the whole training part by head selection, without the published",
            "XLM-RoBERTa; that part is a substitute for UD 2.3's (2960 sentences for 5787). 'network' is the last layer that",
            "it was trained with. Labels are the network's.",
        ]
    else:
        notes += [
            "Features are hashed combinations of forms, lemmas, tags, morphology, direction and distance; labels are told by a",
            "second linear model, the same for all columns. The published features are a network's: see --features neural.",
        ]
    notes += [
        f"Trained to a relative gap of {_TOL:g} or {_MOST} iterations; alpha of {alphas} by the UAS of {_VALIDATION}",
        "development sentences.",
    ]
    notes.append("The double oracle is run up to 100 sentences.")
    if unfinished:
        notes.append(f"{unfinished} trainings ended before the gap was reached.")
    if data is None:
        notes.append("No data given: a treebank from a small grammar.")
    if quick:
        notes.append("Quick: small parts of the files, and with a network a smaller one, trained for 30 epochs.")
    return notes
