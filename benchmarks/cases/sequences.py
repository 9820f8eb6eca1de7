"""Sequences: chains, conditional random fields"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Case, Contender, Probe, Row

__all__ = ["cases"]

Array = Any
_N, _LENGTH, _LABELS, _FEATURES = 500, 50, 10, 20
_C2 = 0.5
_ITERATIONS = 20
_SIZE = f"{_N} sequences of {_LENGTH}, {_LABELS} labels, {_FEATURES} dense features"


def cases() -> list[Case | Probe]:
    return [
        _training(),
        _prediction("viterbi", "best labels", "predict", "argmax"),
        _prediction("marginals", "marginals", "predict_marginals", "marginals"),
        Probe(
            "sequences-projection", "Euclidean projection of chains, gap 1e-9, beside one forward-backward", _projection
        ),
        Probe(
            "sequences-entities",
            "The Dutch entity set with sparse text features, to CRFsuite's final loss, in fresh processes",
            _entities,
            missing=_no_entities,
        ),
    ]


def _made(rng: np.random.Generator) -> tuple[list[Array], list[list[str]]]:
    weights = rng.normal(size=(_FEATURES, _LABELS))
    X = [rng.normal(size=(_LENGTH, _FEATURES)) for _ in range(_N)]
    y = [[f"l{c}" for c in (x @ weights + 3 * rng.gumbel(size=(_LENGTH, _LABELS))).argmax(axis=1)] for x in X]
    return X, y


def _dicts(X: list[Array]) -> list[list[dict[str, float]]]:
    return [[{f"f{j}": value for j, value in enumerate(row)} for row in x.tolist()] for x in X]


# -- training ----------------------------------------------------------------------------------------------------------


def _training() -> Case:
    """Both do the same number of L-BFGS iterations from zero weights on the same objective."""

    def objective(data: Any) -> Any:
        from fenchel.losses import CRF
        from fenchel.scorers import LinearChain
        from fenchel.structures import Chains

        X, y = data
        chains = Chains(_LABELS, tied=True)
        scorer = LinearChain(np.concatenate(X), [_LENGTH] * _N, chains)
        return scorer, CRF(chains), chains.encode([[int(label[1:]) for label in labels] for labels in y])

    def minimized(problem: Any, iterations: int, tol: float) -> float:
        import warnings

        from fenchel.solvers import LBFGS

        scorer, loss, v = problem
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = LBFGS(tol=tol, max_iter=iterations, memory=6).minimize(scorer, loss, v, 2 * _C2 / _N)
        return float(result.value * _N)

    def trainer(data: Any) -> Any:
        import pycrfsuite

        X, y = data
        made = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
        for x, labels in zip(_dicts(X), y, strict=True):
            made.append(pycrfsuite.ItemSequence(x), labels)
        made.set_params(
            {
                "c1": 0.0, "c2": _C2, "max_iterations": _ITERATIONS, "feature.minfreq": -1e9,
                "feature.possible_states": True, "feature.possible_transitions": True, "epsilon": 0.0, "delta": 0.0,
            }
        )  # fmt: skip
        return made

    def crfsuite(setting: Any) -> Callable[[Any], Any]:
        import pycrfsuite  # noqa: F401

        path = str(Path(tempfile.mkdtemp()) / "model")

        def train(made: Any) -> float:
            made.train(path)
            return float(made.logparser.last_iteration["loss"])

        return train

    return Case(
        name="sequences-crf-training",
        title=f"{_ITERATIONS} L-BFGS iterations of a CRF, {_SIZE}",
        make=_made,
        ours=Contender(
            "fenchel LBFGS, LinearChain, CRF",
            lambda setting: lambda problem: minimized(problem, _ITERATIONS, 1e-12),
            objective,
            threads="each",
        ),
        peers=(Contender("CRFsuite lbfgs, min_freq=-1e9", crfsuite, trainer),),
        reference=lambda data: minimized(objective(data), 300, 1e-8),
        measure=lambda data, least, value: {"loss over the least": value / least - 1},
        goals={"loss over the least": 1e-3},
        peer_goals={"loss over the least": 1e-2},
        target=1.0,
        against="CRFsuite",
        sets=2,
        checked=1,
        seconds=12.0,
    )


@lru_cache(1)
def _model() -> tuple[Any, Array]:
    """A CRF that CRFsuite has learned, and its weights as ours."""
    import sklearn_crfsuite

    X, y = _made(np.random.default_rng(0))
    made = sklearn_crfsuite.CRF(
        c2=_C2, max_iterations=20, min_freq=-1e9, all_possible_states=True, all_possible_transitions=True
    ).fit(_dicts(X), y)
    features, table = np.zeros((_FEATURES, _LABELS)), np.zeros((_LABELS, _LABELS))
    for (name, label), w in made.state_features_.items():
        features[int(name[1:]), int(label[1:])] = w
    for (before, after), w in made.transition_features_.items():
        table[int(before[1:]), int(after[1:])] = w
    return made, np.concatenate([features.ravel(), table.ravel()])


# -- prediction --------------------------------------------------------------------------------------------------------


def _prediction(name: str, title: str, method: str, oracle: str) -> Case:
    """From features to what users get; torch-struct starts from finished potentials."""

    def scores(X: list[Array]) -> Any:
        from fenchel.scorers import LinearChain
        from fenchel.structures import Chains

        return LinearChain(np.concatenate(X), [_LENGTH] * _N, Chains(_LABELS, tied=True)).scores(_model()[1])

    def ours(setting: Any) -> Callable[[Any], Any]:
        from fenchel import SequenceLabeler

        X, _ = _made(np.random.default_rng(0))
        labels = [[f"l{(t + i) % _LABELS}" for t in range(_LENGTH)] for i in range(_N)]
        model = SequenceLabeler(cost="zero_one", fit_intercept=False, alpha=1.0, tol=0.5).fit(X, labels)
        model.weights_ = _model()[1]
        return lambda X: getattr(model, method)(X)

    def crfsuite(setting: Any) -> Callable[[Any], Any]:
        return getattr(_model()[0], method)

    def crfsuite_answer(answer: Any) -> Any:
        names = [f"l{i}" for i in range(_LABELS)]
        return answer if oracle == "argmax" else [[[p[name] for name in names] for p in one] for one in answer[:10]]

    def potentials(data: Any) -> Any:
        import torch

        theta = scores(data[0])
        nodes = np.stack([t[: _LENGTH * _LABELS].reshape(_LENGTH, _LABELS) for t in theta])
        weights = _model()[1]
        table = weights[_FEATURES * _LABELS :].reshape(_LABELS, _LABELS)
        full = np.broadcast_to(table.T, (_N, _LENGTH - 1, _LABELS, _LABELS)) + nodes[:, 1:, :, None]
        full[:, 0] += nodes[:, 0, None, :]
        return torch.tensor(full)

    def torch_struct(setting: Any) -> Callable[[Any], Any]:
        from torch_struct import LinearChainCRF

        return lambda potentials: getattr(LinearChainCRF(potentials), oracle)

    def nodes_of(edges: Any) -> Array:
        """Of pairs (after, before): the distribution of each position."""
        pairs = edges.detach().numpy()
        return np.concatenate([pairs[:, :1].sum(axis=2), pairs.sum(axis=3)], axis=1)

    def reference(data: Any) -> Array:
        """Scores by the recursion in logarithms, in NumPy, of the first ten sequences."""
        weights = _model()[1]
        table = weights[_FEATURES * _LABELS :].reshape(_LABELS, _LABELS)
        found = []
        for x in data[0][:10]:
            node = x @ weights[: _FEATURES * _LABELS].reshape(_FEATURES, _LABELS)
            reduce = np.logaddexp.reduce if oracle == "marginals" else np.maximum.reduce
            ahead, behind = [node[0]], [np.zeros(_LABELS)]
            for t in range(1, _LENGTH):
                ahead.append(reduce(ahead[-1][:, None] + table, axis=0) + node[t])
                behind.append(reduce(table + (node[-t] + behind[-1])[None, :], axis=1))
            both = np.array(ahead) + np.array(behind[::-1])
            if oracle == "marginals":
                both = np.exp(both - np.logaddexp.reduce(both[0]))
            found.append(both)
        return np.array(found)

    def measure(data: Any, truth: Array, answer: Any) -> dict[str, float]:
        if oracle == "marginals":
            return {"largest error": float(np.abs(np.array(answer[:10]) - truth).max())}
        labels = np.array([[int(label[1:]) for label in one] for one in answer[:10]])
        chosen = np.take_along_axis(truth, labels[:, :, None], axis=2)[:, :, 0]
        return {"largest error": float((truth.max(axis=2) - chosen).max())}

    def torch_answer(result: Any) -> Any:
        nodes = nodes_of(result)
        return nodes if oracle == "marginals" else [[f"l{i}" for i in one.argmax(axis=1)] for one in nodes]

    return Case(
        name=f"sequences-{name}",
        title=f"{title}, {_SIZE}",
        make=_made,
        ours=Contender(f"fenchel SequenceLabeler.{method}", ours, lambda data: data[0], threads="each"),
        peers=(
            Contender(
                f"sklearn-crfsuite {method}", crfsuite, lambda data: _dicts(data[0]), crfsuite_answer,
                note="all have the weights that it learned",
            ),
            Contender(
                f"torch-struct LinearChainCRF.{oracle}", torch_struct, potentials, torch_answer, threads="each",
                note="from finished potentials",
            ),
        ),
        reference=reference,
        measure=measure,
        goals={"largest error": 1e-9},
        peer_goals={"largest error": 1e-5},
        target=10.0,
        against="the best of sklearn-crfsuite, torch-struct",
        sets=3,
        checked=1,
        seconds=12.0,
    )  # fmt: skip


# -- projection --------------------------------------------------------------------------------------------------------


def _projection(quick: bool) -> list[Row]:
    from fenchel import set_threads
    from fenchel.structures import Chains, Ragged

    set_threads(1)
    chains, rows = Chains(_LABELS), []
    n = 10 if quick else 50
    for scale in (1.0, 5.0):
        rng = np.random.default_rng(4)
        theta = Ragged.empty(chains.sizes_of(np.full(n, _LENGTH)))
        theta.flat[:] = rng.normal(scale=scale, size=theta.flat.size)
        chains.marginals(theta)
        start = time.perf_counter()
        for _ in range(5):
            chains.marginals(theta)
        beside = (time.perf_counter() - start) / (5 * n)
        chains.project(theta[:2])
        start = time.perf_counter()
        _, info = chains.project(theta, tol=1e-9, return_info=True)
        seconds = (time.perf_counter() - start) / n
        note = f"{seconds * 1e3:.3g} ms a chain, a forward-backward {beside * 1e3:.3g} ms; largest gap {info.error.max():.1e}"
        rows.append(
            Row(f"active set over Viterbi, scale {scale:g}", tuple(info.n_iter.astype(float)), unit="calls", note=note)
        )
    return rows


# -- the entity set ----------------------------------------------------------------------------------------------------


def _file() -> Path:
    return Path(os.environ.get("FENCHEL_DATA", "")) / "sequence" / "kb_dutch_ner.tsv.gz"


def _no_entities() -> str | None:
    if not _file().is_file():
        return f"there is no {_file()}; FENCHEL_DATA names the folder of data sets"
    try:
        import sklearn_crfsuite  # noqa: F401
    except ImportError:
        return "sklearn-crfsuite is not installed"
    return None


_PROCESS = """
import json, resource, sys, time, warnings
from fenchel.data import read_conll, word_features
path, which, n, goal = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
words, tags = read_conll(path, 0, 1)
words, tags = words[:n], tags[:n]
X = [word_features(w) for w in words]
n, c2 = len(X), 0.1
if which == "fenchel":
    import fenchel
    from fenchel import SequenceLabeler
    fenchel.set_threads(int(sys.argv[5]))
    warnings.simplefilter("ignore")
    SequenceLabeler(weights="met", tol=0.5).fit(X[:9], tags[:9])
    from fenchel.solvers import LBFGS
else:
    import sklearn_crfsuite
def held():
    return int(next(l for l in open("/proc/self/status") if l.startswith("VmHWM")).split()[1]) / 1024
open("/proc/self/clear_refs", "w").write("5")  # the high-water mark begins here
before, start = held(), time.perf_counter()
if which == "fenchel":
    class Stopping(SequenceLabeler):
        def _callback(self, held_out):
            return lambda progress: progress.value * n <= goal
    model = Stopping(weights="met", alpha=2 * c2 / n, fit_intercept=False,
                     solver=LBFGS(tol=1e-12, max_iter=2000, memory=6)).fit(X, tags)
    loss, iterations = model.objective_ * n, model.n_iter_
else:
    model = sklearn_crfsuite.CRF(c1=0, c2=c2, max_iterations=2000, all_possible_transitions=True, min_freq=-1e9).fit(X, tags)
    log = model.training_log_.iterations
    loss, iterations = log[-1]["loss"], len(log)
print(json.dumps({"seconds": time.perf_counter() - start, "megabytes": held() - before, "loss": loss, "iterations": iterations}))
"""


def _entities(quick: bool) -> list[Row]:
    n = 400 if quick else 10**9

    def run(which: str, goal: float, threads: int = 1) -> dict[str, float]:
        command = [sys.executable, "-c", _PROCESS, str(_file()), which, str(n), repr(goal), str(threads)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
        return result

    peer = run("crfsuite", 0.0)
    rows = [
        Row(
            "CRFsuite, seconds",
            (peer["seconds"],),
            note=f"{peer['iterations']:.0f} iterations, loss {peer['loss']:.6g}",
        ),
        Row("CRFsuite, memory", (peer["megabytes"],), unit="MB", note="peak over what the feature dicts take"),
    ]
    ours = run("fenchel", peer["loss"], 2)
    note = f"{ours['iterations']:.0f} iterations, loss {ours['loss']:.6g}; the limit is 1.5 times CRFsuite's"
    return [
        *rows,
        Row("fenchel, seconds", (ours["seconds"],), 1.5 * peer["seconds"], note=note),
        Row("fenchel, memory", (ours["megabytes"],), peer["megabytes"], "MB", "the same peak; the limit is CRFsuite's"),
    ]
