"""``fenchel stream``: learn from lines as they come."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO

from .._core.errors import InvalidInput
from .console import Console, check_target, duration, to_json

if TYPE_CHECKING:
    import argparse

    from ..online.stream import RecordLearner

__all__ = ["stream"]

_MOST_TOLD = 5
"""How many malformed lines are named."""


def stream(args: argparse.Namespace, console: Console) -> int:
    source = str(args.data)
    kind = _kind(args)
    state, learner = _start(args)
    out = None if str(args.out) == "-" else args.out
    if out is not None and args.checkpoint is not None and out == args.checkpoint:
        raise InvalidInput("--out and --checkpoint name the same file")
    began, bad = monotonic(), 0
    piped = source == "-" and out is None  # somebody may wait for each answer
    with _lines(args.data) as lines, _answers(out, state, args) as answers:
        header = state.get("header")
        if state["lines"]:
            lines.skip(state["lines"], state["bytes"])
        for raw in lines:
            text = raw.decode("utf-8", errors="replace").rstrip("\r\n")
            if kind == "csv" and header is None:
                header = state["header"] = next(csv.reader([text]))
                if args.target not in header:
                    raise InvalidInput(f"{source} has no column {args.target!r}, it has {', '.join(map(repr, header))}")
            elif text.strip():
                answer = None
                try:
                    record = _record(text, kind, header)
                    answer = _played(learner, record, args.target)
                except (InvalidInput, ValueError) as error:
                    bad += 1
                    state["malformed"] += 1
                    if bad <= _MOST_TOLD:
                        console.warn(f"{source}, line {lines.count}: {error}; the line is left out")
                answers.write(_csv_line("" if answer is None else answer))
                if piped:
                    answers.flush()
            if learner.rows_ and learner.rows_ % args.report == 0 and state["told"] != learner.rows_:
                state["told"] = learner.rows_
                if not args.quiet:
                    print(_line(learner, state), file=sys.stderr, flush=True)
            if args.checkpoint is not None and lines.count % args.every == 0:
                _keep(args, state, learner, lines, answers)
        if args.checkpoint is not None:
            _keep(args, state, learner, lines, answers)
    if bad > _MOST_TOLD:
        console.warn(f"{bad - _MOST_TOLD} more malformed lines were left out")
    seconds = monotonic() - began
    report = {**_report(learner, state), "seconds": seconds}
    if args.json:
        (console.result if out is not None else _to_stderr)(to_json({"command": "stream", "data": source, **report}))
    elif not args.quiet:
        if state["told"] != learner.rows_:
            print(_line(learner, state), file=sys.stderr)
        told = f"{learner.rows_} rows in {duration(seconds)}"
        saved = f"; resume or predict with {args.checkpoint}" if args.checkpoint is not None else ""
        print(f"{told}{saved}", file=sys.stderr)
    return 0


# -- input -------------------------------------------------------------------------------------------------------------


class _Lines:
    """Lines of a file or a pipe, counted, with the place where the next one begins."""

    def __init__(self, stream: BinaryIO, seekable: bool) -> None:
        self.stream, self.seekable = stream, seekable
        self.count = 0
        self.position = 0

    def __iter__(self) -> Iterator[bytes]:
        for line in self.stream:
            self.count += 1
            self.position += len(line)
            yield line

    def skip(self, lines: int, position: int) -> None:
        """Go to where an earlier run stopped; a pipe has to send the same lines again."""
        if self.seekable:
            self.stream.seek(0, os.SEEK_END)
            if self.stream.tell() < position:
                raise InvalidInput("the input is shorter than when the checkpoint was made; it is another file")
            self.stream.seek(position)
            self.count, self.position = lines, position
            return
        for _ in range(lines):
            if not self.stream.readline():
                raise InvalidInput(f"the input ends before line {lines}, where the checkpoint was made")
        self.count, self.position = lines, position


@contextmanager
def _lines(path: Path) -> Iterator[_Lines]:
    if str(path) == "-":
        yield _Lines(sys.stdin.buffer, False)
    elif path.suffix == ".gz":
        with gzip.open(path, "rb") as stream:
            yield _Lines(stream, False)  # type: ignore[arg-type]
    else:
        with path.open("rb") as stream:
            yield _Lines(stream, stream.seekable())


def _kind(args: argparse.Namespace) -> str:
    if args.format != "auto":
        return str(args.format)
    name = args.data.name.removesuffix(".gz").lower()
    if name.endswith(".csv"):
        return "csv"
    if name.endswith((".jsonl", ".ndjson", ".json")):
        return "json"
    raise InvalidInput(f"the format of {str(args.data)!r} cannot be seen from its name; say --format csv or json")


def _record(text: str, kind: str, header: list[str] | None) -> dict[str, Any]:
    if kind == "json":
        try:
            record = json.loads(text)
        except ValueError as error:
            raise InvalidInput(f"no JSON ({error})") from None
        if not isinstance(record, dict):
            raise InvalidInput(f"a JSON {type(record).__name__}, expected an object")
        return record
    assert header is not None
    cells = text.split(",") if '"' not in text else next(csv.reader([text]))
    if len(cells) != len(header):
        raise InvalidInput(f"{len(cells)} fields, but the header has {len(header)}")
    return {name: _cell(cell) for name, cell in zip(header, cells, strict=True)}


def _cell(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text.strip()


def _played(learner: RecordLearner, record: dict[str, Any], target: str) -> str:
    truth = record.pop(target, None)
    if truth is None or truth == "":
        return learner.answer(record)
    return learner.play(record, truth)


# -- output ------------------------------------------------------------------------------------------------------------


@contextmanager
def _answers(out: Path | None, state: dict[str, Any], args: argparse.Namespace) -> Iterator[TextIO]:
    if out is None:
        if not state["lines"]:
            print("prediction")
        yield sys.stdout
        return
    if state["lines"]:
        if not out.exists() or out.stat().st_size < state["out_bytes"]:
            raise InvalidInput(f"{str(out)!r} is not what the run left that made the checkpoint; it cannot go on there")
        with out.open("r+b") as binary:
            binary.truncate(state["out_bytes"])  # answers after the checkpoint will be given again
            binary.seek(state["out_bytes"])
            with io.TextIOWrapper(binary, encoding="utf-8", newline="") as text:
                yield text
        return
    check_target(out, overwrite=args.overwrite, inputs=[] if str(args.data) == "-" else [args.data])
    with out.open("w", encoding="utf-8", newline="") as text:
        text.write("prediction\n")
        yield text


def _csv_line(answer: str) -> str:
    if any(c in answer for c in ',"\n\r'):
        answer = '"' + answer.replace('"', '""') + '"'
    return answer + "\n"


def _report(learner: RecordLearner, state: dict[str, Any]) -> dict[str, Any]:
    n = max(learner.rows_, 1)
    return {
        "rows": learner.rows_,
        "malformed": state["malformed"],
        "mean_cost": learner.cost_ / n,
        "mean_expected_cost": learner.expected_cost_ / n,
        "mean_loss": learner.loss_ / n,
        "mean_loss_of_zero": learner.zero_loss_ / n,
        "regret_against_zero": learner.cost_ - learner.zero_loss_,
        "labels": learner.names_,
        "features": 0 if learner.learner_ is None else learner.learner_.n_inputs_,
    }


def _line(learner: RecordLearner, state: dict[str, Any]) -> str:
    report = _report(learner, state)
    malformed = f"  malformed {report['malformed']}" if report["malformed"] else ""
    return (
        f"rows {report['rows']}  cost {report['mean_cost']:.4f}  expected {report['mean_expected_cost']:.4f}  "
        f"loss {report['mean_loss']:.4f} (of zero weights {report['mean_loss_of_zero']:.4f})  "
        f"regret {report['regret_against_zero']:.1f}{malformed}"
    )


def _to_stderr(text: str) -> None:
    print(text, file=sys.stderr)


# -- checkpoints -------------------------------------------------------------------------------------------------------


def _start(args: argparse.Namespace) -> tuple[dict[str, Any], RecordLearner]:
    """A new learner, or the one of a checkpoint with the place where it goes on."""
    from .._core.saving import load
    from ..online.stream import RecordLearner

    if args.resume:
        if args.checkpoint is None:
            raise InvalidInput("--resume needs --checkpoint FILE, which an earlier run has written")
        if args.checkpoint.exists():
            learner = load(args.checkpoint)
            if not isinstance(learner, RecordLearner) or not getattr(learner, "stream_", None):
                raise InvalidInput(f"{str(args.checkpoint)!r} is no checkpoint of 'fenchel stream'")
            if learner.task != args.task:
                raise InvalidInput(f"{str(args.checkpoint)!r} is of --task {learner.task}, not {args.task}")
            return dict(learner.stream_), learner
    elif args.checkpoint is not None:
        check_target(args.checkpoint, overwrite=args.overwrite)
    made = RecordLearner(
        args.task, args.labels, loss=args.loss, step=args.step, decoder=args.decoder, max_norm=args.max_norm,
        standardize=not args.raw, random_state=args.seed,
    )  # fmt: skip
    return {"lines": 0, "bytes": 0, "out_bytes": 0, "malformed": 0, "told": 0, "header": None}, made


def _keep(
    args: argparse.Namespace, state: dict[str, Any], learner: RecordLearner, lines: _Lines, answers: TextIO
) -> None:
    from .._core.saving import save

    answers.flush()
    state.update(lines=lines.count, bytes=lines.position)
    if answers is not sys.stdout:
        state["out_bytes"] = os.fstat(answers.fileno()).st_size
    learner.stream_ = dict(state)
    save(learner, args.checkpoint, overwrite=True)
