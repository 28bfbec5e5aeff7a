"""Estimates of corrections lie within their bounds, and are exact where no bucket is cut."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import anabranch as ab
from anabranch.model.batch import EventBatch
from anabranch.model.clock import INTEGERS
from anabranch.runtime.archive.archive import Archive
from anabranch.runtime.archive.bucket import write_bucket
from anabranch.runtime.sources.archived.pieces import ArchivedBatch
from anabranch.runtime.store.folder import Folder

Row = tuple[str, float, int]

SCHEMA = pa.schema([("k", pa.string()), ("n", pa.float64())])


def batch(rows: Sequence[Row]) -> EventBatch:
    keys, values, times = zip(*rows) if rows else ((), (), ())
    payload = pa.record_batch([pa.array(keys, pa.string()), pa.array(values, pa.float64())], SCHEMA)
    at = np.array(times, np.int64)
    return EventBatch(payload, at, at, at + 1)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> ab.Engine:
    path = tmp_path_factory.mktemp("estimate") / "quotes.json"
    path.write_text('{"k": "a", "n": 1.0, "t": 1}\n')
    found = ab.Engine()
    found.sql(f"CREATE STREAM Quote (k TEXT, n DOUBLE, t BIGINT) SOURCE '{path}' ORDERED BY t")
    return found


def query(engine: ab.Engine, function: str, size: int, slide: int) -> Any:
    argument = "*" if function == "COUNT" else "n"
    window = f"WINDOW(RANGE {size} SLIDE {slide})"
    return engine.sql(f"SELECT k, {function}({argument}) AS x FROM Quote {window} GROUP BY k")


def exact(function: str, rows: Sequence[Row], key: str, first: int, last: int) -> float | None:
    inside = [value for own, value, at in rows if own == key and first <= at < last]
    if not inside:
        return None
    if function == "COUNT":
        return len(inside)
    return sum(inside) if function == "SUM" else sum(inside) / len(inside)


rows = st.lists(
    st.tuples(
        st.sampled_from("ab"), st.integers(-20, 40).map(lambda n: n / 4), st.integers(-30, 60)
    ),
    min_size=1,
    max_size=40,
)


@given(
    there=rows,
    missing=rows,
    wrong=st.integers(0, 3),
    function=st.sampled_from(["COUNT", "SUM", "AVG"]),
    window=st.tuples(st.integers(2, 20), st.integers(1, 12)),
    width=st.integers(1, 9),
)
def test_bounds_hold(
    engine: ab.Engine,
    there: list[Row],
    missing: list[Row],
    wrong: int,
    function: str,
    window: tuple[int, int],
    width: int,
) -> None:
    size, slide = window
    gone, stays = there[:wrong], there[wrong:]
    corrections = [{"insert": {"k": k, "n": n}, "start": at} for k, n, at in missing]
    corrections += [{"delete": {"k": k, "n": n}, "start": at} for k, n, at in gone]
    halves = [batch(there[::2]), batch(there[1::2])]
    summaries = [
        ab.ArchiveSummary.of([half], by=["k"], column="n", width=width)
        for half in halves
        if len(half)
    ]
    summary = summaries[0] if len(summaries) == 1 else summaries[0].plus(summaries[1])
    found = ab.estimate_revision(query(engine, function, size, slide), summary, corrections)
    seen = set()
    for row in found.to_pylist():
        end = row["start"] + 1
        assert end % slide == 0
        assert row["end"] == row["start"] + slide
        seen.add((row["k"], end))
        for name, known in (("before", there), ("after", [*stays, *missing])):
            answer = exact(function, known, row["k"], end - size, end)
            if answer is not None:
                assert row[f"{name}_low"] <= answer <= row[f"{name}_high"]
                if size % width == 0 and slide % width == 0:
                    assert row[name] == pytest.approx(answer)
    assert seen == {
        (k, end)
        for k, _, at in [*missing, *gone]
        for end in range(at + 1, at + size + 1)
        if end % slide == 0
    }


def test_without_a_cut_bucket_there_is_no_error(engine: ab.Engine) -> None:
    there = [("a", float(at), at) for at in range(20)]
    summary = ab.ArchiveSummary.of([batch(there)], by=["k"], column="n", width=5)
    late = [{"insert": {"k": "a", "n": 100.0}, "start": 7}]
    (row,) = ab.estimate_revision(query(engine, "AVG", 10, 10), summary, late).to_pylist()
    assert (row["before"], row["start"], row["end"]) == (4.5, 9, 19)
    assert row["after"] == pytest.approx(145 / 11)
    assert row["after_high"] - row["after_low"] < 1e-9


def test_a_summary_of_an_archive_is_kept_in_a_file(engine: ab.Engine, tmp_path: Path) -> None:
    archive = Archive(Folder.at(str(tmp_path / "kept")), None)
    archive.create("Quote", SCHEMA, INTEGERS, copied=True)
    for number in range(2):
        rows = batch([("a", 1.0, 10 * number), ("b", 2.0, 10 * number + 7)])
        piece = write_bucket(archive.folder, rows, batch=number, part=0, clock=INTEGERS)
        archive.add(ArchivedBatch(batch=number, pieces=(piece,), promised=0))
    summary = ab.summarize(tmp_path / "kept", by=["k"], column="n", bucket=10)
    assert [each.rows for each in summary.buckets(("a",), 0, 20)] == [1, 1]
    summary.write(tmp_path / "summary.parquet")
    again = ab.ArchiveSummary.read(tmp_path / "summary.parquet")
    assert (again.by, again.column, again.width) == (("k",), "n", 10)
    assert again.table.equals(summary.table)
    (tmp_path / "late.jsonl").write_text(
        json.dumps({"insert": {"k": "a", "n": 3.0}, "start": 5}) + "\n"
    )
    sums = query(engine, "SUM", 10, 10)
    (row,) = ab.estimate_revision(sums, again, tmp_path / "late.jsonl").to_pylist()
    assert (row["before"], row["after"]) == (1.0, 4.0)
    with pytest.raises(ab.PlanError, match="no column 'x'"):
        ab.summarize(tmp_path / "kept", by=["x"], column="n", bucket=10)
    with pytest.raises(ab.StreamError, match="not a summary"):
        ab.ArchiveSummary.read(tmp_path / "late.jsonl")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("SELECT k, MAX(n) AS x FROM Quote WINDOW(RANGE 5) GROUP BY k", "not COUNT, SUM or AVG"),
        ("SELECT SUM(n) AS x FROM Quote WINDOW(RANGE 5)", "by k, the query asks for"),
        ("SELECT k, SUM(n) + 1 AS x FROM Quote WINDOW(RANGE 5) GROUP BY k", "computes something"),
        ("SELECT k, SUM(n) AS x FROM Quote WINDOW(ROWS 5) GROUP BY k", "not a window of time"),
        ("SELECT k FROM Quote", "not one aggregate"),
    ],
)
def test_other_queries_are_refused(engine: ab.Engine, text: str, why: str) -> None:
    summary = ab.ArchiveSummary.of([batch([("a", 1.0, 1)])], by=["k"], column="n", width=5)
    with pytest.raises(ab.PlanError, match="cannot be estimated") as raised:
        ab.estimate_revision(engine.sql(text), summary, [])
    assert why in str(raised.value.where)


def test_what_cannot_be_summed_up_is_told(engine: ab.Engine) -> None:
    def summed(rows: EventBatch, column: str = "n", width: int = 5) -> None:
        ab.ArchiveSummary.of([rows], by=[], column=column, width=width)

    rows = batch([("a", 1.0, 1)])
    with pytest.raises(ab.PlanError, match="not a number"):
        summed(rows, column="k")
    with pytest.raises(ab.PlanError, match="cannot be 0 instants long"):
        summed(rows, width=0)
    with pytest.raises(ab.StreamError, match="hold for an instant"):
        summed(EventBatch(rows.payload, rows.start, rows.start, rows.start + 5))
    summary = ab.ArchiveSummary.of([rows], by=["k"], column="n", width=5)
    with pytest.raises(ab.StreamError, match="cannot be estimated"):
        ab.estimate_revision(query(engine, "SUM", 5, 5), summary, [{"insert": {"k": "a"}}])
