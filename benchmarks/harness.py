"""A small frame for fair timings.

All contenders of a case run in one process, in turns and in random order, on data sets that rotate: repeating one
small batch lets the processor learn its branches by heart and flatters compiled loops. A contender is run at each
thread count and its better one counts. Before any timing, what each contender returns is compared with a trusted
reference, and iterative ones are given the loosest tolerance that meets the accuracy the case asks of them.

A turn is a burst of calls, the first of which does not count: it wakes the contender's threads and fills the caches.
Conversions between array types happen outside the clock.
"""

from __future__ import annotations

import datetime
import gc
import importlib.metadata
import json
import math
import os
import platform
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from benchmarks.peers import research_commits

__all__ = [
    "Case", "Contender", "Outcome", "Probe", "Report", "Row", "Settings", "Timed", "probe_table", "summary_table",
]  # fmt: skip

PACKAGES = (
    "numpy", "scipy", "scikit-learn", "numba", "threadpoolctl", "entmax", "jax", "jaxlib", "jaxopt", "torch", "POT",
    "lap", "mord", "river", "vowpalwabbit", "sklearn-crfsuite", "python-crfsuite",
)  # fmt: skip


def _identity(value: Any) -> Any:
    return value


# -- what a case is ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Contender:
    """One way to do the work of a case."""

    name: str
    build: Callable[[Any], Callable[[Any], Any]]
    """Takes a setting (None without ``settings``), imports what it needs and returns the function to time."""
    prepare: Callable[[Any], Any] = _identity
    """From a data set to what the function takes; not timed."""
    answer: Callable[[Any], Any] = _identity
    """From what the function returns to what ``Case.measure`` takes; not timed."""
    threads: Literal["each", "one", "own"] = "one"
    """Run at each thread count, at one thread (it has no others), or with the threads it takes for itself."""
    settings: tuple[Any, ...] = ()
    """Tolerances, the loosest first: the first that meets the goals is timed."""
    in_target: bool = True
    """Whether the target is against it; others are shown for comparison."""
    floor: bool = False
    """Not an answer but a part of the work that no contender can leave out; nothing is checked."""
    once: bool = False
    """A call takes minutes and compiles nothing: it is called once at each thread count, with one thread when it is checked."""
    note: str = ""


@dataclass(frozen=True)
class Case:
    """Work that several contenders do."""

    name: str
    title: str
    make: Callable[[np.random.Generator], Any]
    """One data set."""
    ours: Contender
    peers: tuple[Contender, ...]
    measure: Callable[[Any, Any, Any], dict[str, float]]
    """(data set, its reference, answer) -> how far off the answer is, in one or several measures."""
    target: float
    """The least ratio of the best peer's time to ours."""
    against: str
    reference: Callable[[Any], Any] = lambda data: None
    goals: dict[str, float] = field(default_factory=dict)
    """The largest error allowed to ours, by measure."""
    peer_goals: dict[str, float] = field(default_factory=dict)
    scale: float | None = None
    """The standard deviation of the scores."""
    sets: int = 16
    checked: int = 2
    """How many data sets answers are checked on."""
    seconds: float = 6.0
    """About how long to time all contenders together."""
    missing: Callable[[], str | None] = lambda: None
    """Why the case cannot run here, or None."""
    why: str = ""
    """Printed where the target is missed: what stands in the way."""


@dataclass(frozen=True)
class Row:
    """One reported number, with all its repeats."""

    name: str
    values: tuple[float, ...] = ()
    limit: float | None = None
    unit: str = "s"
    note: str = ""

    @property
    def median(self) -> float:
        return float(np.median(self.values)) if self.values else math.nan


@dataclass(frozen=True)
class Probe:
    """Numbers of ours alone (start-up times, counts)."""

    name: str
    title: str
    run: Callable[[bool], list[Row]]
    """Takes whether to be quick."""
    missing: Callable[[], str | None] = lambda: None


@dataclass(frozen=True)
class Settings:
    quick: bool = False
    threads: tuple[int, ...] = (1, 2)

    @property
    def rounds(self) -> int:
        return 4 if self.quick else 10


_LONG = 10.0
"""A call that takes this many seconds is timed once: noise is small over such a time."""

# -- running one case --------------------------------------------------------------------------------------------------


class _Threads:
    """Sets the thread count of everything in the process that has one."""

    def __init__(self) -> None:
        from threadpoolctl import ThreadpoolController

        self.controller = ThreadpoolController()
        self.limit: Any = None
        self.now: int | None = None

    def use(self, n: int) -> None:
        if n == self.now:
            return
        self.now = n
        self.limit = self.controller.limit(limits=n)
        if "torch" in sys.modules:
            sys.modules["torch"].set_num_threads(n)
        import fenchel

        fenchel.set_threads(n)


@dataclass
class _Entry:
    """A contender in a running case: ready to be timed, or the reason why not."""

    contender: Contender
    function: Callable[[Any], Any] | None = None
    inputs: list[Any] = field(default_factory=list)
    setting: Any = None
    accuracy: dict[str, float] = field(default_factory=dict)
    accurate: bool = True
    problem: str = ""
    warned: list[str] = field(default_factory=list)
    checked: float = math.nan
    """Seconds that the last call took whose answer was checked."""


@dataclass
class _Variant:
    """A contender at a thread count, with its times by round."""

    entry: _Entry
    threads: int
    position: int = 0
    burst: int = 1
    warm: bool = True
    plan: set[int] = field(default_factory=set)
    rounds: dict[int, list[float]] = field(default_factory=dict)

    @property
    def times(self) -> list[float]:
        return [t for times in self.rounds.values() for t in times]

    def next_input(self) -> Any:
        self.position += 1
        return self.entry.inputs[self.position % len(self.entry.inputs)]


def _short(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:160]}" if text else type(error).__name__


def _meets(accuracy: dict[str, float], goals: dict[str, float]) -> bool:
    return all(accuracy[name] <= goal for name, goal in goals.items())


def _ready(contender: Contender, case: Case, data: list[Any], references: list[Any], goals: dict[str, float]) -> _Entry:
    """Build a contender, find its setting and measure its accuracy."""
    entry = _Entry(contender)
    warned: list[Warning | str] = []
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            low, high = 0, len(contender.settings)  # bisection: the settings get stricter
            while entry.function is None or low < high:
                middle = min((low + high) // 2, max(len(contender.settings) - 1, 0))
                setting = contender.settings[middle] if contender.settings else None
                caught.clear()
                function = contender.build(setting)
                _Threads().use(1)  # of what is loaded by now: on a busy machine two threads can be 50 times slower
                entry.inputs = entry.inputs or [contender.prepare(one) for one in data]
                worst: dict[str, float] = {}
                for i, reference in enumerate([] if contender.floor else references):
                    start = time.perf_counter()
                    result = function(entry.inputs[i])
                    entry.checked = time.perf_counter() - start
                    measured = case.measure(data[i], reference, contender.answer(result))
                    worst = {name: max(value, worst.get(name, -math.inf)) for name, value in measured.items()}
                    if middle < len(contender.settings) - 1 and not _meets(worst, goals):
                        break
                accurate = contender.floor or _meets(worst, goals)
                if accurate or middle >= len(contender.settings) - 1:
                    entry.function, entry.setting, entry.accuracy, entry.accurate = function, setting, worst, accurate
                    warned = [w.message for w in caught]
                low, high = (low, middle) if accurate else (middle + 1, high)
        seen = {_short(w) for w in warned if isinstance(w, Warning)}
        entry.warned = sorted(s for s in seen if not s.startswith(("DeprecationWarning", "FutureWarning")))
    except ImportError as error:
        entry.function = None
        entry.problem = f"absent: {error}"
    except Exception as error:  # a peer may fail in any way, and its failure is a result
        entry.function = None
        entry.problem = f"failed: {_short(error)}"
        if contender is case.ours:
            traceback.print_exc()
    return entry


def _plan(variant: _Variant, share: float, rounds: int, best: float) -> float:
    """How often to call: to fill its share of the time, spread evenly over the rounds. Returns the time of a call.

    ``best`` is that of the same contender at another thread count: one several times slower is not called again.
    """
    assert variant.entry.function is not None
    last = math.inf
    for _ in range(4):
        one = variant.next_input()
        start = time.perf_counter()
        result = variant.entry.function(one)
        last = min(last, time.perf_counter() - start)
        del result
        if last > 1.0:
            break
    if last > max(4 * best, 0.1):
        variant.rounds[-1] = [last]
        return last
    variant.warm = last < 0.1
    wanted = share / last
    if wanted >= rounds:
        # A burst long enough that what went before (caches, sleeping threads) does not show.
        variant.burst = max(1, min(100, int(wanted / rounds)))
        variant.plan = set(range(rounds))
    else:
        turns = max(3, math.ceil(wanted)) if last < _LONG else 1
        variant.plan = {round(i) for i in np.linspace(0, rounds - 1, min(turns, rounds))}
    return last


def _once(variant: _Variant) -> float:
    """The time of a single call: the checked one's, which had one thread, or another's."""
    assert variant.entry.function is not None
    if variant.threads == 1 and math.isfinite(variant.entry.checked):
        return variant.entry.checked
    one = variant.next_input()
    start = time.perf_counter()
    variant.entry.function(one)
    return time.perf_counter() - start


def _burst(variant: _Variant) -> list[float]:
    function = variant.entry.function
    assert function is not None
    times = []
    gc.collect()
    gc.disable()
    try:
        if variant.warm:
            function(variant.next_input())
        for _ in range(variant.burst):
            one = variant.next_input()
            start = time.perf_counter()
            result = function(one)
            times.append(time.perf_counter() - start)
            del result
    finally:
        gc.enable()
    return times


def _time_all(variants: list[_Variant], case: Case, settings: Settings, threads: _Threads) -> float:
    """Fill in the times; returns how many cores other processes used meanwhile."""
    rng = np.random.default_rng(0)
    seconds = case.seconds / 4 if settings.quick else case.seconds
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fastest: dict[int, float] = {}
        for variant in variants:
            threads.use(variant.threads)
            best = fastest.get(id(variant.entry), math.inf)
            if variant.entry.contender.once:
                variant.rounds[-1] = [_once(variant)]
                continue
            last = _plan(variant, seconds / len(variants), settings.rounds, best)
            fastest[id(variant.entry)] = min(best, last)
        load = _Load()
        gc.collect()
        gc.freeze()  # or collecting would go through all that torch and jax have loaded, each time
        try:
            for turn in range(settings.rounds):
                for i in rng.permutation(len(variants)):
                    variant = variants[i]
                    if turn not in variant.plan:
                        continue
                    threads.use(variant.threads)
                    time.sleep(0.02)  # threads of the last contender may still be spinning
                    variant.rounds[turn] = _burst(variant)
        finally:
            gc.unfreeze()
        return load.others()


class _Load:
    """CPU time of other processes, from /proc (NaN elsewhere)."""

    def __init__(self) -> None:
        self.wall, self.busy, self.own = time.perf_counter(), self._busy(), self._own()

    @staticmethod
    def _busy() -> float:
        try:
            fields = Path("/proc/stat").read_text().splitlines()[0].split()[1:]
        except OSError:
            return math.nan
        user, nice, system, _idle, _wait, irq, softirq = (int(x) for x in fields[:7])
        return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")

    @staticmethod
    def _own() -> float:
        t = os.times()
        return t.user + t.system + t.children_user + t.children_system

    def others(self) -> float:
        wall = time.perf_counter() - self.wall
        return max(0.0, (self._busy() - self.busy - (self._own() - self.own)) / wall)


# -- results -----------------------------------------------------------------------------------------------------------


@dataclass
class Timed:
    """One contender's line in the tables."""

    name: str
    median: float | None = None
    quartiles: tuple[float, float] | None = None
    calls: int = 0
    threads: str = ""
    other_threads: dict[str, float] = field(default_factory=dict)
    """Medians at the thread counts that were not the better one."""
    setting: Any = None
    accuracy: dict[str, float] = field(default_factory=dict)
    accurate: bool = True
    in_target: bool = True
    ratio: float | None = None
    """Its time over ours."""
    problem: str = ""
    note: str = ""


@dataclass
class Outcome:
    """One case's line in the table."""

    name: str
    title: str
    scale: float | None
    against: str
    target: float
    verdict: str
    ratio: float | None = None
    ratio_quartiles: tuple[float, float] | None = None
    """Over rounds, each round's medians compared."""
    best_peer: str = ""
    contenders: list[Timed] = field(default_factory=list)
    others_cores: float = math.nan
    notes: list[str] = field(default_factory=list)


def _compare(case: Case, settings: Settings) -> Outcome:
    outcome = Outcome(case.name, case.title, case.scale, case.against, case.target, "skipped")
    reason = case.missing()
    if reason:
        outcome.notes.append(reason)
        return outcome
    rng = np.random.default_rng(1)
    data = [case.make(rng) for _ in range(max(case.sets, case.checked))]
    references = [case.reference(one) for one in data[: case.checked]]
    ours = _ready(case.ours, case, data, references, case.goals)
    peers = [_ready(peer, case, data, references, case.peer_goals) for peer in case.peers]
    threads = _Threads()  # only now: it finds the libraries that are loaded
    variants: list[_Variant] = []
    for entry in (ours, *peers):
        if entry.function is not None:
            counts = {"each": settings.threads, "one": (1,), "own": (max(settings.threads),)}[entry.contender.threads]
            variants += [_Variant(entry, n) for n in counts]
    outcome.others_cores = _time_all(variants, case, settings, threads)
    threads.use(max(settings.threads))
    best = {id(entry): _better(entry, variants) for entry in (ours, *peers)}
    mine = best[id(ours)]
    outcome.contenders = [_line(entry, best[id(entry)], variants, mine) for entry in (ours, *peers)]
    _judge(case, outcome, ours, mine, [(entry, best[id(entry)]) for entry in peers])
    return outcome


def _better(entry: _Entry, variants: list[_Variant]) -> _Variant | None:
    mine = [v for v in variants if v.entry is entry]
    return min(mine, key=lambda v: float(np.median(v.times))) if mine else None


def _line(entry: _Entry, best: _Variant | None, variants: list[_Variant], ours: _Variant | None) -> Timed:
    contender = entry.contender
    line = Timed(
        contender.name, in_target=contender.in_target, problem=entry.problem, setting=entry.setting,
        accuracy=entry.accuracy, accurate=entry.accurate, note="; ".join([contender.note, *entry.warned]).strip("; "),
    )  # fmt: skip
    if best is None:
        return line
    line.median = float(np.median(best.times))
    line.quartiles = (float(np.quantile(best.times, 0.25)), float(np.quantile(best.times, 0.75)))
    line.calls = len(best.times)
    line.threads = "own" if contender.threads == "own" else str(best.threads)
    line.other_threads = {
        str(v.threads): float(np.median(v.times)) for v in variants if v.entry is entry and v is not best
    }
    if ours is not None:
        line.ratio = line.median / float(np.median(ours.times))
    return line


def _judge(
    case: Case, outcome: Outcome, ours: _Entry, mine: _Variant | None, peers: list[tuple[_Entry, _Variant | None]]
) -> None:
    for entry, _ in peers:
        if entry.problem:
            outcome.notes.append(f"{entry.contender.name}: {entry.problem}")
    if mine is None:
        outcome.verdict = "ours " + ours.problem
        return
    counted = [(e, v) for e, v in peers if v is not None and e.contender.in_target]
    if not counted:
        outcome.verdict = "no peer"
        return
    accurate = [(e, v) for e, v in counted if e.accurate]
    if not accurate:
        outcome.notes.append("no peer reaches the accuracy asked of it; compared with the fastest all the same")
    entry, rival = min(accurate or counted, key=lambda pair: float(np.median(pair[1].times)))
    outcome.best_peer = entry.contender.name
    outcome.ratio = float(np.median(rival.times)) / float(np.median(mine.times))
    shared = sorted(mine.rounds.keys() & rival.rounds.keys())
    by_round = [float(np.median(rival.rounds[r]) / np.median(mine.rounds[r])) for r in shared]
    if by_round:
        outcome.ratio_quartiles = (float(np.quantile(by_round, 0.25)), float(np.quantile(by_round, 0.75)))
    if outcome.others_cores > 0.25:
        outcome.notes.append(f"provisional: other processes used {outcome.others_cores:.1f} cores")
    absent = [e.contender.name for e, v in peers if v is None and e.contender.in_target]
    if not ours.accurate:
        outcome.verdict = "ours misses the accuracy"
    elif outcome.ratio >= case.target:
        outcome.verdict = "pass"
    else:
        outcome.verdict = "below"
        if case.why:
            outcome.notes.append(f"why: {case.why}")
    if absent:
        outcome.verdict += f" (without {', '.join(absent)})"


# -- the report --------------------------------------------------------------------------------------------------------


class Report:
    """Runs cases; ``bench.md`` and ``bench.json`` are written anew after each, so that an early end loses none."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.folder = folder
        self.settings = settings
        self.meta = machine(settings)
        self.outcomes: list[Outcome] = []
        self.probes: list[dict[str, Any]] = []
        self.start = time.perf_counter()
        folder.mkdir(parents=True, exist_ok=True)

    def add(self, case: Case | Probe) -> None:
        print(f"{case.name} ...", end=" ", flush=True)
        start = time.perf_counter()
        try:
            text = self._probe(case) if isinstance(case, Probe) else self._case(case)
        except Exception as error:  # one broken case must not cost the others
            traceback.print_exc()
            text = f"broken, {_short(error)}"
            if isinstance(case, Probe):
                self.probes.append({"name": case.name, "title": case.title, "rows": [], "skipped": text})
            else:
                self.outcomes.append(Outcome(case.name, case.title, case.scale, case.against, case.target, text))
        print(f"{text}  [{time.perf_counter() - start:.0f} s]", flush=True)
        self.write()

    def _case(self, case: Case) -> str:
        outcome = _compare(case, self.settings)
        self.outcomes.append(outcome)
        if outcome.ratio is None:
            return f"{outcome.verdict}: {'; '.join(outcome.notes)}" if outcome.notes else outcome.verdict
        return f"{outcome.ratio:.2f}x of {outcome.target:g}x against {outcome.best_peer}: {outcome.verdict}"

    def _probe(self, probe: Probe) -> str:
        reason = probe.missing()
        rows = [] if reason else probe.run(self.settings.quick)
        kept = [{**asdict(row), "median": row.median if row.values else None} for row in rows]
        self.probes.append({"name": probe.name, "title": probe.title, "rows": kept, "skipped": reason or ""})
        return f"skipped: {reason}" if reason else f"{len(rows)} numbers"

    def finish(self) -> None:
        self.meta["seconds"] = round(time.perf_counter() - self.start)
        self.write()
        print(f"{self.meta['seconds']} s; {self.folder / 'bench.md'} and bench.json")

    def write(self) -> None:
        everything = {"meta": self.meta, "cases": [asdict(o) for o in self.outcomes], "probes": self.probes}
        text = json.dumps(_without_nan(everything), indent=1, default=str)
        (self.folder / "bench.json").write_text(text + "\n", encoding="utf-8")
        (self.folder / "bench.md").write_text("\n".join(self._markdown()) + "\n", encoding="utf-8")

    # -- Markdown

    def _markdown(self) -> list[str]:
        m = self.meta
        lines = [
            "# Benchmarks",
            "",
            f"{m['date']}, commit {m['commit']}{' with changes' if m['changed'] else ''}. "
            f"{m['cpu']}, {m['cores']} usable cores, {m['memory']}, {m['system']}, Python {m['python']}.",
            ", ".join(f"{name} {version}" for name, version in m["versions"].items()) + ".",
            "Research peers: " + "; ".join(f"{name} {text}" for name, text in m["research"].items()) + ".",
            "",
            f"float64, thread counts {' and '.join(map(str, m['threads']))}, each contender at its better one; medians "
            "with quartiles, all contenders of a case in one process, in turns, on rotating data. The ratio is the "
            "best peer's time over ours, with quartiles over rounds. The noise between runs is about 25 %: smaller "
            "differences mean nothing.",
        ]
        if self.settings.quick:
            lines += ["", "**A quick run: few repeats.**"]
        busiest = max((o.others_cores for o in self.outcomes if o.others_cores == o.others_cores), default=0.0)
        if busiest > 0.1:
            lines += ["", f"**Other processes used up to {busiest:.2f} cores meanwhile: the numbers are provisional.**"]
        if self.outcomes:
            summary = summary_table(self.outcomes)
            lines += ["", "## Against the targets", "", *summary, "", "## All contenders", "", *self._details()]
        for probe in self.probes:
            lines += ["", f"## {probe['title']}", "", *probe_table(probe)]
        return lines

    def _details(self) -> list[str]:
        lines = [
            "| work | scale | contender | median (quartiles) | threads | / ours | accuracy | setting | calls | notes |",
            "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
        ]
        for o in self.outcomes:
            for c in o.contenders:
                accuracy = ", ".join(f"{name} {_measure(value)}" for name, value in c.accuracy.items())
                notes = [c.problem, c.note]
                notes.append("" if c.in_target or c.problem else "not in the target")
                notes.append("" if c.accurate else "misses the accuracy asked, not counted")
                notes += [f"{_seconds(t)} with {n}" for n, t in c.other_threads.items()]
                cells = [
                    o.title, _scale(o.scale), c.name, _time(c), c.threads, "" if c.ratio is None else f"{c.ratio:.3g}",
                    accuracy, "" if c.setting is None else str(c.setting), str(c.calls or ""),
                    "; ".join(n for n in notes if n),
                ]  # fmt: skip
                lines.append("| " + " | ".join(map(_cell, cells)) + " |")
        busy = [f"{o.title} {_scale(o.scale)}: {o.others_cores:.2f}" for o in self.outcomes if o.others_cores > 0.1]
        if busy:
            lines += ["", "Cores used by other processes during the timings: " + "; ".join(busy) + "."]
        return lines


def summary_table(outcomes: Sequence[Outcome]) -> list[str]:
    """A line for each case: ours, the best peer, the ratio and the target."""
    lines = [
        "| work | scale | ours | best peer | its time | ratio | target | result |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for o in outcomes:
        ours = o.contenders[0] if o.contenders else None
        best = next((c for c in o.contenders[1:] if c.name == o.best_peer), None)
        result = "**below**" + o.verdict.removeprefix("below") if o.verdict.startswith("below") else o.verdict
        cells = [
            o.title, _scale(o.scale), _time(ours), _cell(o.best_peer) or f"({_cell(o.against)})", _time(best),
            _ratio(o), f"{o.target:g}x", "; ".join([_cell(result), *map(_cell, o.notes)]),
        ]  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def probe_table(probe: dict[str, Any]) -> list[str]:
    """A line for each number of a probe."""
    if probe["skipped"]:
        return [f"Skipped: {probe['skipped']}."]
    lines = ["| what | median (least to most) | limit | result | notes |", "| --- | --- | --- | --- | --- |"]
    for row in probe["rows"]:
        text, limit, result = "", "", ""
        if row["values"]:
            show = _seconds if row["unit"] == "s" else lambda value, unit=row["unit"]: f"{value:g} {unit}"
            low, high = min(row["values"]), max(row["values"])
            text = show(row["median"]) + (f" ({show(low)} to {show(high)})" if len(row["values"]) > 1 else "")
            if row["limit"] is not None:
                limit = show(row["limit"])
                result = "pass" if row["median"] <= row["limit"] else "**above**"
        lines.append("| " + " | ".join(map(_cell, [row["name"], text, limit, result, row["note"]])) + " |")
    return lines


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _measure(value: float) -> str:
    """Errors by their size, values (an objective) with the digits that tell contenders apart."""
    return f"{value:.1e}" if value < 1e-2 or not math.isfinite(value) else f"{value:.9g}"


def _scale(scale: float | None) -> str:
    return "" if scale is None else f"{scale:g}"


def _seconds(value: float) -> str:
    unit, factor = _unit(value)
    return f"{value * factor:.3g} {unit}"


def _unit(value: float) -> tuple[str, float]:
    """The unit in which three digits of a time read best."""
    return ("s", 1.0) if value >= 0.9995 else ("ms", 1e3) if value >= 0.9995e-3 else ("us", 1e6)


def _time(line: Timed | None) -> str:
    if line is None or line.median is None or line.quartiles is None:
        return ""
    unit, factor = _unit(line.median)
    low, high = line.quartiles
    return f"{line.median * factor:.3g} {unit} ({low * factor:.3g}-{high * factor:.3g})"


def _ratio(outcome: Outcome) -> str:
    if outcome.ratio is None:
        return ""
    if outcome.ratio_quartiles is None:
        return f"{outcome.ratio:.3g}x"
    low, high = outcome.ratio_quartiles
    return f"{outcome.ratio:.3g}x ({low:.3g}-{high:.3g})"


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_nan(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(v) for v in value]
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    return value


# -- where it ran ------------------------------------------------------------------------------------------------------


def machine(settings: Settings) -> dict[str, Any]:
    """What the numbers depend on."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    variables = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "FENCHEL_NUM_THREADS", "NUMBA_CACHE_DIR")
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": _git("rev-parse", "--short=12", "HEAD") or "unknown",
        "changed": bool(_git("status", "--porcelain", "--", "src", "benchmarks")),
        "cpu": _from_proc("/proc/cpuinfo", "model name") or platform.processor() or platform.machine(),
        "cores": cores,
        "memory": _memory(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "threads": list(settings.threads),
        "quick": settings.quick,
        "variables": {name: os.environ[name] for name in variables if name in os.environ},
        "load_at_start": os.getloadavg() if hasattr(os, "getloadavg") else None,
        "versions": {name: _version(name) for name in ("fenchel", *PACKAGES)},
        "research": research_commits(),
    }


def _git(*args: str) -> str:
    try:
        done = subprocess.run(["git", *args], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _version(name: str) -> str:
    if name == "fenchel":
        import fenchel

        return fenchel.__version__
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "absent"


def _memory() -> str:
    kilobytes = _from_proc("/proc/meminfo", "MemTotal").split()
    return f"{int(kilobytes[0]) / 2**20:.1f} GiB" if kilobytes else "unknown memory"


def _from_proc(path: str, key: str) -> str:
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return ""
    for line in lines:
        if line.startswith(key):
            return line.partition(":")[2].strip()
    return ""
