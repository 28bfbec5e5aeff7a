"""A copy that promises less joins a merge on Spark; from then on all others may be gone."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.e2e.test_merging import QUERY, copy_of, right, rows
from tests.e2e.weaker_copies import IN_ORDER, KEYED, History

from anabranch import Engine, LogicalStream, Run, Stream
from anabranch.cli.queries.copy_news import CopyNewsTeller
from anabranch.merging.logs import merge_logs
from anabranch.model.files.stream_file import read_batches
from anabranch.runtime.query.state_view import view_state
from anabranch.runtime.sources.files.log_folder import LogFolder
from anabranch.runtime.sources.files.log_records import NOTHING_KNOWN, LogProperties

pytestmark = pytest.mark.spark

HALVES = """
CREATE OR REPLACE STREAM rows (k INT, v INT, ts INT)
  SOURCE '{folder}/rows/*.jsonl' ORDERED BY ts DELAY 12;
SELECT k, COUNT(*) AS n, SUM(v) AS total FROM rows WINDOW(RANGE 20 SLIDE 10) WHERE k = 1 GROUP BY k
UNION ALL
SELECT k, COUNT(*) AS n, SUM(v) AS total FROM rows WINDOW(RANGE 20 SLIDE 10) WHERE k <> 1 GROUP BY k
"""


def released(engine: Engine, folder: Path, name: str) -> Run:
    """A copy whose results leave whole and in order."""
    query: Stream = engine.sql(QUERY.format(folder=folder))
    return query.cleanse(cut=False).start(to=folder / "copies" / name, share=False)


def released_view(engine: Engine, folder: Path, name: str) -> Run:
    """The same as a script of a copy has it, with something above."""
    declared, counted = QUERY.format(folder=folder).split(";")
    query: Stream = engine.sql(
        f"{declared}; CREATE OR REPLACE VIEW counted AS {counted};"
        "SELECT k, n, total FROM CLEANSE(counted, cut => FALSE) WHERE n > 0"
    )
    return query.canonical().start(to=folder / "copies" / name, share=False)


def by_halves(engine: Engine, folder: Path, name: str) -> Run:
    """A copy by another plan, of which less is known."""
    query: Stream = engine.sql(HALVES.format(folder=folder))
    return query.start(to=folder / "copies" / name, share=False)


def more(folder: Path, numbers: range, *runs: Run) -> None:
    for number in numbers:
        rows(folder, number, 5)
        for run in runs:
            run.drain()


def cases(run: Run) -> set[str]:
    """The weaker cases that the shards report."""
    (stage,) = run.metrics()[-1]["stages"].values()
    return {str(report.get("case")) for report in stage["reports"]}


@pytest.mark.parametrize(
    ("begin", "known"), [(copy_of, "r3"), (released, "r2"), (released_view, "r2")]
)
def test_the_merge_goes_over_to_a_weaker_case_and_resumes_by_it(
    engine: Engine, tmp_path: Path, begin: object, known: str
) -> None:
    assert callable(begin)
    more(tmp_path, range(5))
    first: Run = begin(engine, tmp_path, "first")
    first.drain()

    def merge() -> Run:
        return merge_logs(engine, tmp_path / "copies", tmp_path / "merged", detach_after=None)

    merged = merge()
    merged.drain()
    assert f"Merge copies by {known}" in merged.explain()
    assert cases(merged) == {"None"}
    more(tmp_path, range(5, 7), first, merged)
    # What joins later may promise less, so that the merged log promises nothing.
    log = LogFolder(str(tmp_path / "merged"))
    assert log.properties() == NOTHING_KNOWN
    second = by_halves(engine, tmp_path, "second")
    second.drain()
    assert not LogFolder(str(tmp_path / "copies" / "second")).properties().is_keyed
    merged.drain()
    assert cases(merged) == {"r4"}
    teller = CopyNewsTeller()
    told = [line for batch in merged.metrics() for line in teller.of(batch)]
    assert told == [
        "the merge continues by r4 (anything): a copy promises less than those with which it began"
    ]
    # The first one is gone for good, and the merge is restarted.
    first.stop()
    merged.stop()
    merged = merge()
    more(tmp_path, range(7, 10), second, merged)
    assert cases(merged) == {"r4"}
    merged.stop()
    second.stop()
    got = LogicalStream.of_batches(list(log.read()))
    _, shards = view_state(str(tmp_path / "merged"))
    says = "merged by r4 since a copy has joined that promises less"
    assert [shard.operators[-1] for shard in shards] == [says] * 2
    assert merged.stable == second.stable > first.stable
    assert got.difference(right(tmp_path), merged.stable) == ""
    (stage,) = merged.metrics()[-1]["stages"].values()
    diverged = {c["name"]: c["diverged"] for each in stage["reports"] for c in each["copies"]}
    assert diverged == {"first": 0, "second": 0}


def test_logs_with_equal_events_are_merged_by_r1(engine: Engine, tmp_path: Path) -> None:
    declared, _ = QUERY.format(folder=tmp_path).split(";")
    text = f"{declared}; SELECT k FROM rows WINDOW(RANGE 7)"
    more(tmp_path, range(3))
    runs = []
    for name in ("first", "second"):
        copy: Stream = engine.sql(text).cleanse(cut=False).canonical()
        runs.append(copy.start(to=tmp_path / "copies" / name, share=False))
        # The second one begins later, and has other batches.
        runs[0].drain()
        more(tmp_path, range(3, 5) if name == "first" else range(5, 7))
    runs[1].drain()
    merged = merge_logs(engine, tmp_path / "copies", tmp_path / "merged", detach_after=None)
    assert "Merge copies by r1" in merged.explain()
    merged.drain()
    more(tmp_path, range(7, 9), *reversed(runs), merged)
    for run in (*runs, merged):
        run.stop()
    Engine().sql(text).run_local(to=tmp_path / "meant.jsonl")
    meant = LogicalStream.of_batches(list(read_batches(tmp_path / "meant.jsonl")))
    found = LogicalStream.of_batches(list(LogFolder(str(tmp_path / "merged")).read()))
    assert merged.stable == max(run.stable for run in runs)
    assert found.difference(meant, merged.stable) == ""


def test_a_log_that_readers_rely_on_promises_less_only_when_a_weaker_copy_joins(
    engine: Engine, tmp_path: Path
) -> None:
    """Merges of earlier versions wrote down in their log what their case says."""
    more(tmp_path, range(4))
    first = copy_of(engine, tmp_path, "first")
    first.drain()
    merged = merge_logs(engine, tmp_path / "copies", tmp_path / "merged", detach_after=None)
    merged.drain()
    merged.stop()
    log = LogFolder(str(tmp_path / "merged"))
    about = log.record()
    assert about is not None
    promised = LogProperties(keyed=True)
    about_file = tmp_path / "merged" / "_log" / "stream.json"
    text = about_file.read_text()
    assert '"properties"' not in text
    about_file.write_text(text.rstrip()[:-1] + ', "properties": {"keyed": true}}')
    assert log.properties() == promised
    merged = merge_logs(engine, tmp_path / "copies", tmp_path / "merged", detach_after=None)
    more(tmp_path, range(4, 6), first, merged)
    assert log.properties() == promised
    second = by_halves(engine, tmp_path, "second")
    second.drain()
    merged.drain()
    assert log.properties() == NOTHING_KNOWN
    for run in (first, second, merged):
        run.stop()
    got = LogicalStream.of_batches(list(log.read()))
    assert got.difference(right(tmp_path), merged.stable) == ""


@pytest.mark.parametrize(("known", "case"), [(KEYED, "r3"), (IN_ORDER, "r2")])
def test_many_rows_of_a_weaker_copy_in_several_shards(
    engine: Engine, tmp_path: Path, known: LogProperties, case: str
) -> None:
    """DuckDB finds the same events: 126,000 of them, of which a half has passed when it joins."""
    history = History(rows=126_000, chunks=6)
    copies, merged_log = tmp_path / "copies", tmp_path / "merged"
    history.tell(copies / "strong", known, range(3))
    merged = merge_logs(engine, copies, merged_log, detach_after=None)
    merged.drain()
    assert f"Merge copies by {case}" in merged.explain()
    history.tell(copies / "weak", None, range(4))
    merged.drain()
    assert cases(merged) == {"r4"}
    (stage,) = merged.metrics()[-1]["stages"].values()
    assert len(stage["reports"]) == 2
    # From here on there is no other copy.
    history.tell(copies / "weak", None, range(4, 6))
    merged.drain()
    merged.stop()
    history.assert_merged(merged_log, 6)
