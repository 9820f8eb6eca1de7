"""Online learning: one example at a time, rows at a time, and what randomized decoding costs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Case, Contender, Probe, Row

__all__ = ["cases"]

Array = Any
_FEATURES, _CLASSES = 20, 10


def cases() -> list[Case | Probe]:
    return [
        _one_by_one(),
        _rows(),
        _decoders("birkhoff", 10, 100),
        _decoders("permutahedron", 100, 300),
        Probe("online-stream", "fenchel stream on JSON lines, 10 numbers each, in a fresh process", _stream_files),
    ]


def _stream(n: int) -> Callable[[np.random.Generator], tuple[Array, Array]]:
    def make(rng: np.random.Generator) -> tuple[Array, Array]:
        X = rng.normal(size=(n, _FEATURES))
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        W = 6 * rng.normal(size=(_FEATURES, _CLASSES))
        return X, (X @ W + rng.gumbel(size=(n, _CLASSES))).argmax(axis=1)

    return make


def _mistakes(data: Any, reference: Any, answers: Any) -> dict[str, float]:
    return {"share of mistakes": float(np.mean(np.asarray(answers) != data[1]))}


def _learner(**options: Any) -> Any:
    from fenchel.online import Learner
    from fenchel.structures import Simplex

    return Learner(Simplex(_CLASSES), "kl", scale="auto", random_state=0, n_features=_FEATURES, **options)


def _one_by_one() -> Case:
    def ours(setting: Any) -> Callable[[Any], Any]:
        def play(data: tuple[list[Array], list[int]]) -> list[int]:
            learner = _learner()
            answers = []
            for x, y in zip(*data, strict=True):
                answers.append(learner.predict_one(x))
                learner.learn_one(x, y)
            return answers

        return play

    def river(setting: Any) -> Callable[[Any], Any]:
        from river import linear_model

        def play(data: tuple[list[dict[int, float]], list[int]]) -> list[int | None]:
            model = linear_model.SoftmaxRegression()
            answers = []
            for x, y in zip(*data, strict=True):
                answers.append(model.predict_one(x))
                model.learn_one(x, y)
            return answers

        return play

    return Case(
        name="online-one-by-one",
        title="predict_one + learn_one, 20 dense features, 10 classes, 1000 rounds",
        make=_stream(1000),
        ours=Contender("fenchel Learner", ours, lambda data: (list(data[0]), data[1].tolist())),
        peers=(
            Contender(
                "river SoftmaxRegression",
                river,
                lambda data: ([dict(enumerate(row)) for row in data[0].tolist()], data[1].tolist()),
            ),
        ),
        measure=_mistakes,
        target=5.0,
        against="river softmax regression, both calls",
        sets=4,
    )


def _rows() -> Case:
    n = 20000

    def ours(setting: Any) -> Callable[[Any], Any]:
        return lambda data: _learner().play(*data).answers

    def fit_only(setting: Any) -> Callable[[Any], Any]:
        def fit(data: tuple[Array, Array]) -> Array:
            learner = _learner().partial_fit(*data)
            return (data[0] @ learner.coef_).argmax(axis=1)

        return fit

    def vowpal(setting: Any) -> Callable[[Any], Any]:
        from vowpalwabbit import Workspace

        def play(lines: list[str]) -> list[int]:
            model = Workspace(f"--oaa {_CLASSES} --loss_function logistic --noconstant --quiet -b 10")
            examples = [model.parse(line) for line in lines]
            answers = []
            for example in examples:
                answers.append(model.predict(example) - 1)
                model.learn(example)
            model.finish()
            return answers

        return play

    def as_lines(data: tuple[Array, Array]) -> list[str]:
        return [f"{y + 1} | " + " ".join(f"{j}:{v:.6f}" for j, v in enumerate(x)) for x, y in zip(*data, strict=True)]

    return Case(
        name="online-rows",
        title="the same by rows, 20000 rounds",
        make=_stream(n),
        ours=Contender("fenchel Learner.play", ours),
        peers=(
            Contender("Vowpal Wabbit predict and learn", vowpal, as_lines, note="its parsing of text included"),
            Contender("fenchel Learner.partial_fit (learns only)", fit_only, in_target=False),
        ),
        measure=_mistakes,
        target=5.0,
        against="Vowpal Wabbit's Python API, predict and learn",
        sets=2,
    )


def _decoders(kind: str, n: int, rounds: int) -> Case:
    def structure() -> Any:
        from fenchel.structures import Birkhoff, Permutahedron

        return Birkhoff(n) if kind == "birkhoff" else Permutahedron(n)

    def make(rng: np.random.Generator) -> tuple[Array, Array]:
        X = rng.normal(size=(rounds, _FEATURES))
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        theta = X @ rng.normal(size=(_FEATURES, n)) + 0.2 * rng.normal(size=(rounds, n))
        return X, np.argsort(np.argsort(-theta, axis=1), axis=1)

    def decoder(name: str) -> Callable[[Any], Callable[[Any], Any]]:
        def build(setting: Any) -> Callable[[Any], Any]:
            from fenchel.online import Learner

            psi = "kl" if kind == "birkhoff" else "euclidean"

            def play(data: tuple[Array, Array]) -> Array:
                learner = Learner(structure(), psi, decoder=name, scale="auto", random_state=0, n_features=_FEATURES)
                return learner.play(*data).expected_costs

            return play

        return build

    def measure(data: Any, reference: Any, answers: Any) -> dict[str, float]:
        return {"mean expected cost": float(np.mean(answers))}

    label = "Birkhoff, KL" if kind == "birkhoff" else "permutahedron, Euclidean"
    return Case(
        name=f"online-{kind}-{n}",
        title=f"rankings of {n} ({label}), {rounds} rounds: randomized against deterministic decoding",
        make=make,
        ours=Contender("randomized", decoder("randomized")),
        peers=(
            Contender("deterministic", decoder("deterministic")),
            Contender("always random", decoder("random"), in_target=False),
        ),
        measure=measure,
        target=0.5,
        against="deterministic decoding with the same loss",
        sets=2,
    )


def _stream_files(quick: bool) -> list[Row]:
    """Two files, one four times the other: the memory is the same. FENCHEL_BENCH_STREAM_MB names the larger one's size."""
    largest = float(os.environ.get("FENCHEL_BENCH_STREAM_MB", "20" if quick else "80"))
    rows = []
    for megabytes in (largest / 4, largest):
        with tempfile.TemporaryDirectory() as folder:
            path, out = Path(folder) / "stream.jsonl", Path(folder) / "answers.csv"
            count = _write_lines(path, int(megabytes * 1e6))
            command = [sys.executable, "-c", _MEASURED, str(path), str(out)]
            done = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            seconds, size = done["seconds"], path.stat().st_size / 1e6
        note = f"{count} rows in {seconds:.1f} s: {count / seconds:.0f} rows/s"
        rows.append(Row(f"peak memory, file of {size:.0f} MB", (done["megabytes"],), unit="MB", note=note))
    return rows


# The peak is that of the process's own memory map: ru_maxrss also counts that of the process which started it.
_MEASURED = """
import json, re, sys
from pathlib import Path
from time import perf_counter
from fenchel.cli.main import main
start = perf_counter()
assert main(["stream", sys.argv[1], "--target", "label", "--out", sys.argv[2], "--quiet"]) == 0
peak = int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text()).group(1)) / 1000
print(json.dumps({"seconds": perf_counter() - start, "megabytes": peak}))
"""


def _write_lines(path: Path, size: int) -> int:
    rng = np.random.default_rng(0)
    count, written = 0, 0
    with path.open("w") as stream:
        while written < size:
            for x in rng.normal(size=(1000, 10)).round(5).tolist():
                label = "abc"[int(x[0] > 0) + int(x[1] > 0)]
                line = json.dumps({**{f"feature_{j}": v for j, v in enumerate(x)}, "label": label}) + "\n"
                written += stream.write(line)
                count += 1
    return count
