"""The tables of a page in the docs, made from the ``bench.json`` of one run or of several."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.cases import topics
from benchmarks.harness import Outcome, Timed, probe_table, summary_table

__all__ = ["BEGIN", "END", "Results", "fill"]

BEGIN = "<!-- tables: begin; python -m benchmarks.run --page writes what is between these marks -->"
END = "<!-- tables: end -->"


@dataclass
class Results:
    """What runs have measured; where several did a case the last one counts."""

    outcomes: dict[str, Outcome] = field(default_factory=dict)
    probes: dict[str, dict[str, Any]] = field(default_factory=dict)
    runs: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The run of each case, by the name of the case."""

    @classmethod
    def read(cls, files: Sequence[Path]) -> Results:
        results = cls()
        for file in files:
            everything = json.loads(file.read_text(encoding="utf-8"))
            for case in everything["cases"]:
                lines = [Timed(**line) for line in case.pop("contenders")]
                results.outcomes[case["name"]] = Outcome(**case, contenders=lines)
            results.probes.update({probe["name"]: probe for probe in everything["probes"]})
            for one in (*everything["cases"], *everything["probes"]):
                results.runs[one["name"]] = everything["meta"]
        return results

    def markdown(self) -> str:
        """Where it ran, and for each topic what was measured."""
        runs = list({json.dumps(run, sort_keys=True): run for run in self.runs.values()}.values())
        lines: list[str] = [f"{line}\n" for line in dict.fromkeys(map(_where, runs))]
        passed, below, others = self._count()
        if self.outcomes:
            lines.append(
                f"Of {len(self.outcomes)} comparisons {passed} meet their target, {below} do not, "
                f"{others} had no peer or did not run.\n"
            )
        for title, names in topics().items():
            cases = [self.outcomes[name] for name in names if name in self.outcomes]
            probes = [self.probes[name] for name in names if name in self.probes]
            if cases or probes:
                lines.append(f"### {title.rstrip('.')}\n")
            if cases:
                lines += [*summary_table(cases), ""]
            for probe in probes:
                lines += [f"{probe['title']}:\n", *probe_table(probe), ""]
        return "\n".join(lines)

    def _count(self) -> tuple[int, int, int]:
        verdicts = [outcome.verdict for outcome in self.outcomes.values()]
        passed = sum(verdict.startswith("pass") for verdict in verdicts)
        below = sum(verdict.startswith(("below", "ours")) for verdict in verdicts)
        return passed, below, len(verdicts) - passed - below


def _where(run: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in run["versions"].items() if version != "absent")
    quick = " A quick run: few repeats." if run["quick"] else ""
    return (
        f"Run on {run['date'][:10]} at commit {run['commit']}{' with changes' if run['changed'] else ''}: {run['cpu']}, "
        f"{run['cores']} cores, {run['memory']}, {run['system']}, Python {run['python']}; {versions}.{quick}"
    )


def fill(page: Path, results: Results) -> None:
    """Put the tables between the marks of the page."""
    text = page.read_text(encoding="utf-8")
    if BEGIN not in text or END not in text:
        sys.exit(f"{page} has no marks for the tables; put these lines where they belong:\n{BEGIN}\n{END}")
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    page.write_text(f"{before}{BEGIN}\n\n{results.markdown()}\n{END}{after}", encoding="utf-8")
