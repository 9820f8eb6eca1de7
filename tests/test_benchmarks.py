"""The frame of the benchmarks: names, verdicts, and the tables that go into the docs. Nothing is timed in earnest."""

import json
import sys
import time
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import run  # noqa: E402
from benchmarks.cases import everything, topics  # noqa: E402
from benchmarks.harness import Case, Contender, Probe, Report, Row, Settings  # noqa: E402
from benchmarks.page import BEGIN, END, Results, fill  # noqa: E402


def sorts(seconds=0.0, wrong=0.0):
    def build(setting):
        def work(rows):
            time.sleep(seconds)
            return np.sort(rows, axis=1) + wrong

        return work

    return build


def case(name, ours, *peers, target=1.0):
    return Case(
        name=name,
        title=f"sorting, {name}",
        make=lambda rng: rng.normal(size=(3, 4)),
        ours=Contender("ours", ours),
        peers=peers,
        reference=lambda rows: np.sort(rows, axis=1),
        measure=lambda data, reference, answer: {"error": float(np.abs(answer - reference).max())},
        goals={"error": 1e-12},
        peer_goals={"error": 1e-3},
        target=target,
        against="others",
        sets=2,
        seconds=0.05,
        why="sorting is sorting",
    )


def absent(setting):
    raise ImportError("no such peer")


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    made = Report(tmp_path_factory.mktemp("bench"), Settings(quick=True, threads=(1,)))
    slow = Contender("slow", sorts(0.004))
    made.add(case("fast", sorts(), slow, target=2.0))
    made.add(case("slow", sorts(0.004), Contender("quick", sorts()), target=2.0))
    made.add(case("wrong", sorts(wrong=1.0), slow))
    made.add(case("liar", sorts(0.001), Contender("liar", sorts(wrong=1.0)), slow))
    made.add(case("alone", sorts(), Contender("absent", absent)))
    made.add(Probe("count", "Calls", lambda quick: [Row("calls", (3.0, 4.0), 5.0, "calls")]))
    made.finish()
    return made


def test_verdicts(report):
    verdicts = {outcome.name: outcome for outcome in report.outcomes}
    assert verdicts["fast"].verdict == "pass"
    assert verdicts["fast"].ratio > 2
    assert verdicts["slow"].verdict == "below"
    assert "why: sorting is sorting" in verdicts["slow"].notes
    assert verdicts["wrong"].verdict == "ours misses the accuracy"
    assert verdicts["liar"].best_peer == "slow"  # a peer that is not right is not counted
    assert verdicts["alone"].verdict == "no peer"
    assert verdicts["alone"].notes == ["absent: absent: no such peer"]


def test_a_page_is_filled_from_several_runs_and_the_last_counts(report, tmp_path):
    one = report.folder / "bench.json"
    later = json.loads(one.read_text())
    later["cases"] = [dict(later["cases"][1], verdict="pass", ratio=7.0)]
    later["probes"] = []
    two = tmp_path / "two.json"
    two.write_text(json.dumps(later))
    results = Results.read([one, two])
    assert results.outcomes["slow"].ratio == 7.0
    assert results.outcomes["fast"].verdict == "pass"
    known = dict(list(topics().items())[:1])
    name = next(iter(known.values()))[0]
    results.outcomes[name] = results.outcomes["fast"]
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    for _ in range(2):  # filling again replaces
        fill(page, results)
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert text.count("sorting, fast") == 1
    page.write_text("no marks")
    with pytest.raises(SystemExit, match="no marks for the tables"):
        fill(page, results)


def test_every_case_has_a_name_of_its_own_and_the_page_on_speed_has_marks(capsys):
    names = [made.name for made in everything()]
    assert len(set(names)) == len(names)
    assert sorted(names) == sorted(name for by_topic in topics().values() for name in by_topic)
    assert run.main(["--only", "simplex-euclidean-10000x10", "--list"]) == 0
    assert "simplex, Euclidean, 10000 x 10" in capsys.readouterr().out
    assert run.main(["--only", "no such case"]) == 2
    text = (ROOT / "docs" / "speed.md").read_text()
    assert BEGIN in text
    assert END in text


@pytest.mark.parametrize("name", ["label-ranking-glass", "grades-calhousing", "label-sets-tmc2007-500"])
def test_cases_on_data_say_what_is_missing(name, monkeypatch, tmp_path):
    monkeypatch.delenv("FENCHEL_DATA", raising=False)
    made = {one.name: one for one in everything()}[name]
    assert made.missing() == "FENCHEL_DATA does not name the folder of data sets"
    monkeypatch.setenv("FENCHEL_DATA", str(tmp_path))
    assert "in FENCHEL_DATA" in made.missing()
