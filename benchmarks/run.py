"""``python -m benchmarks.run``: all cases, or those that ``--only`` names."""

from __future__ import annotations

import argparse
import fnmatch
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.cases import everything
from benchmarks.harness import Case, Probe, Report, Settings
from benchmarks.page import Results, fill


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.add_argument("--only", metavar="PATTERN", action="append", help="names that match (* and ?) or contain it")
    parser.add_argument("--quick", action="store_true", help="a quarter of the time, fewer repeats")
    parser.add_argument("--list", action="store_true", help="print the names and stop")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="thread counts to try (default: 1 2)")
    parser.add_argument("--out", type=Path, default=Path("build/bench"), help="folder for bench.md and bench.json")
    parser.add_argument("--page", type=Path, metavar="FILE", help="put the tables between the marks of this page, too")
    parser.add_argument(
        "--from", dest="given", type=Path, nargs="+", metavar="JSON",
        help="with --page: run nothing, take the bench.json of these runs (where several have a case the last counts)",
    )  # fmt: skip
    options = parser.parse_args(argv)
    if options.given and not options.page:
        parser.error("--from needs --page, the file to write to")
    if options.given:
        fill(options.page, Results.read(options.given))
        return 0
    chosen: list[Case | Probe] = [case for case in everything() if _matches(case.name, options.only)]
    if not chosen:
        print(f"no case matches {' or '.join(options.only)}; --list prints the names", file=sys.stderr)
        return 2
    if options.list:
        for case in chosen:
            print(f"{case.name:44s} {case.title}")
        return 0
    report = Report(options.out, Settings(quick=options.quick, threads=tuple(sorted(set(options.threads)))))
    for case in chosen:
        report.add(case)
    report.finish()
    if options.page:
        fill(options.page, Results.read([options.out / "bench.json"]))
    return 0


def _matches(name: str, patterns: list[str] | None) -> bool:
    return not patterns or any(fnmatch.fnmatch(name, p) or p in name for p in patterns)


if __name__ == "__main__":
    sys.exit(main())
