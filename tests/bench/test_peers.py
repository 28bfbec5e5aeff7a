"""`bench peers`: the input, the right answer, and how engines are asked."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

import duckdb
import pytest

from anabranch.bench.peers.contestants import CONSTRAINTS, CONTESTANTS, Contestant
from anabranch.bench.peers.jobs import TABLES, verdict, write_inputs
from anabranch.bench.peers.peers import PeerResult, PeersSize, _figures, _job, peers
from anabranch.bench.peers.process import JobProcess, JobTime, job_process
from anabranch.bench.report import Report
from anabranch.errors import PlanError, QueryError


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("peers") / "input"
    write_inputs(made, 4_000, 3)
    return made


COUNTS = "SELECT k, ts // 10000 AS w, count(*) AS n FROM read_parquet('{}') GROUP BY ALL"


def test_an_answer_is_compared_row_by_row(folder: Path) -> None:
    counts = COUNTS.format(folder / "parquet" / "rows" / "*.parquet")
    assert verdict("tumbling", folder, counts).is_right
    wrong = verdict("tumbling", folder, f"SELECT k, w, n + (k < 50)::INT AS n FROM ({counts})")
    assert wrong.missing == wrong.extra > 0
    assert f"{wrong.missing:,} of {wrong.rows:,} rows missing" in str(wrong)
    twice = verdict("tumbling", folder, f"({counts}) UNION ALL ({counts})")
    assert twice.extra == twice.rows


def test_rows_that_come_and_go_are_added_up(folder: Path) -> None:
    counts = COUNTS.format(folder / "parquet" / "rows" / "*.parquet")
    moved = (
        f"SELECT *, 1 AS diff FROM ({counts}) UNION ALL SELECT k, w, n - 1, 1 FROM ({counts}) "
        f"UNION ALL SELECT k, w, n - 1, -1 FROM ({counts})"
    )
    assert verdict("tumbling", folder, moved).is_right


def test_all_forms_of_the_input_hold_the_same_rows(folder: Path) -> None:
    with duckdb.connect() as base:
        for name in {name for names in TABLES.values() for name in names}:
            files = f"read_parquet('{folder}/parquet/{name}/*.parquet')"
            stored = f'SELECT * EXCLUDE ("at") FROM {files}'
            text = f"FROM read_csv('{folder}/csv/{name}/*.csv', header = true)"
            bare = f"FROM read_csv('{folder}/bare/{name}/*.csv', header = false)"
            for other in (text, bare):
                (differ,) = base.execute(
                    f"SELECT count(*) FROM (({stored}) EXCEPT ALL ({other}))"
                ).fetchone() or (None,)
                assert differ == 0
        elements = f"read_parquet('{folder}/parquet/elements/*.parquet')"
        found = dict(base.execute(f"SELECT kind, count(*) FROM {elements} GROUP BY 1").fetchall())
        changes = f"read_parquet('{folder}/parquet/changes/*.parquet')"
        gone = base.execute(f"SELECT count(*) FROM {changes} WHERE op < 0").fetchall()[0][0]
        assert found["adjust"] == gone > 300
        assert found["stable"] == 3


def test_peers_are_pinned_and_installed_nowhere_else(tmp_path: Path) -> None:
    lines = [line for line in CONSTRAINTS.read_text().splitlines() if not line.startswith("#")]
    assert all(line.count("==") == 1 and "/" not in line for line in lines)
    pinned = {line.partition("==")[0] for line in lines}
    for each in CONTESTANTS:
        assert set(each.packages) <= pinned
        why = each.why_missing(install=False, root=tmp_path)
        assert (why is None) == (not each.packages)
        assert why is None or str(tmp_path / each.name) in why


def test_who_is_missing_is_named_and_a_peer_that_nobody_knows_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    said: list[Mapping[str, Any]] = []
    with pytest.raises(QueryError, match="no peer 'flnk'") as problem:
        peers(Report("peers", said.append, "smoke"), ["flnk"])
    assert "spark, flink, pathway, bytewax" in str(problem.value)
    asked = Contestant(name="flink", module="flink_job", answer="", packages=("py4j",))
    monkeypatch.chdir(tmp_path)
    assert asked.why_missing(install=False) == "flink is not installed in build/peers/flink"


def test_our_run_over_csv_files_is_a_control() -> None:
    report = Report("peers", lambda _: None)
    results = {
        name: PeerResult(rows_per_s=rate, cpu_per_million=1 / rate, p99_seconds=1.0)
        for name, rate in (("anabranch", 8.0), ("csv", 3.0), ("spark", 4.0), ("flink", 2.0))
    }
    _figures(report, {("top", name): result for name, result in results.items()})
    assert report.figures["pairs"] == 2
    assert report.figures["worst_vs_peers"] == 2.0
    assert report.figures["top_csv_vs_flink"] == 1.5
    assert not {"top_csv_vs_spark", "top_vs_csv"} & set(report.figures)


def test_who_has_failed_is_missing_among_the_pairs() -> None:
    said: list[Mapping[str, Any]] = []
    report = Report("peers", said.append)
    fast = PeerResult(rows_per_s=2.0, cpu_per_million=1.0, p99_seconds=1.0)
    slow = PeerResult(rows_per_s=1.0, cpu_per_million=2.0, p99_seconds=2.0)
    reached = {("top", "anabranch"): fast, ("top", "flink"): slow, ("join", "flink"): slow}
    _figures(report, reached)
    assert report.figures["pairs"] == 1, "nobody of ours to compare the join of Flink with"
    assert report.figures["ahead"] == 1
    _figures(report, {("top", "anabranch"): fast})
    assert report.figures["pairs"] == 0


@pytest.mark.parametrize(("first", "runs", "counted"), [(61.0, 2, 7.0), (59.0, 5, 9.0)])
def test_a_slow_engine_runs_twice(first: float, runs: int, counted: float, folder: Path) -> None:
    """Its first run warms it up, and the second one counts."""
    said: list[Mapping[str, Any]] = []
    spent = iter([first, 7.0, 8.0, 9.0, 10.0])

    class Process:
        memory: Final = (1,)

        def run(self, job: str, out: Path) -> JobTime:
            del job, out
            return JobTime(seconds=next(spent), cpu_seconds=1.0, p99_seconds=1.0)

        def answer(self) -> None:
            """It is the right one."""

    counts = COUNTS.format(folder / "parquet" / "rows" / "*.parquet")
    size = PeersSize(rows=1_000, files=3, warm_ups=2, repeats=3)
    slow = Contestant(name="x", module="x_job", answer=counts)
    process, out = cast("JobProcess", Process()), folder / "out"
    result = _job(Report("peers", said.append), slow, process, "tumbling", folder, out, size)
    assert len(said) == runs + 1
    assert result.rows_per_s == 1_000 / counted
    assert sum("repeat" in line for line in said) == (1 if runs == 2 else 3)


def test_a_job_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process answers in lines of JSON; whatever else is printed does not matter."""
    failing = tmp_path / "python"
    lines = json.dumps({"ready": True}), json.dumps({"problem": "ValueError: no such window"})
    failing.write_text(f"#!{sys.executable}\nprint('talk')\nprint('''{lines[0]}\n{lines[1]}''')\n")
    failing.chmod(0o755)
    contestant = Contestant(name="x", module="x_job", answer="")
    monkeypatch.setattr(sys, "executable", str(failing))
    with job_process(contestant, tmp_path) as process:
        with pytest.raises(PlanError, match="no such window"):
            process.run("top", tmp_path / "out")
        with pytest.raises(PlanError, match="without a word"):
            process.answer()
