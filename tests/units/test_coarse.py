"""Timestamps that are counted in coarser steps than microseconds."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from typer.testing import CliRunner

from anabranch import AnabranchError, Engine, read_batches
from anabranch.algebra.node import clock_of
from anabranch.algebra.session_window import SessionWindow
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import TimeWindow
from anabranch.cli.app import app
from anabranch.model.arrivals import Arrivals
from anabranch.model.clock import INTEGERS, Clock
from anabranch.model.coarser import coarser
from anabranch.model.elements import Adjust, Insert, Stable, batch_of
from anabranch.model.files.stream_file import describe, write_stream
from anabranch.model.legality import first_violation
from anabranch.model.time import BEGINNING, FOREVER, Duration
from anabranch.runtime.elements.event_table import EventColumns, event_changes
from anabranch.runtime.sources.files import earlier_parts
from anabranch.runtime.sources.files.reader import FileSplit, read_times
from anabranch.testing.oracle import assert_agrees
from anabranch.testing.physical import Move, PhysicalStream
from anabranch.testing.strategies import streams

COARSE: Final = Clock(1_000_000, timestamps=True)
TEN: Final = int(datetime(2026, 11, 15, 10, tzinfo=timezone.utc).timestamp())
SCHEMA: Final = pa.schema([("k", pa.int64())])


def written(folder: Path, *rows: dict[str, Any]) -> Path:
    path = folder / "rows.json"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def clicks(folder: Path, *seconds: float) -> Path:
    moments = [f"2026-11-15T10:00:{second:09.6f}" for second in seconds]
    return written(folder, *({"k": 1, "at": moment} for moment in moments))


def counted(path: Path, chronon: str = "1 SECOND", more: str = "") -> Any:
    engine = Engine()
    engine.sql(
        f"CREATE STREAM S (k INT, at TIMESTAMP) SOURCE '{path}' ORDERED BY at KEEP "
        f"CHRONON {chronon} {more} WITH (ends = TRUE)"
    )
    return engine


def test_a_start_lies_in_a_chronon_and_a_point_lasts_one(tmp_path: Path) -> None:
    engine = counted(clicks(tmp_path, 0.2, 0.9, 1.5))
    run = engine.sql("SELECT COUNT(*) AS n FROM S").run_local()
    held = {"10:00:00": [2], "10:00:00.999999": [2], "10:00:01": [1], "10:00:02": []}
    for at, n in held.items():
        assert run.snapshot(f"2026-11-15 {at}").to_pydict() == {"n": n}
    assert run.snapshot(TEN).to_pydict() == {"n": [2]}


def test_columns_keep_their_microseconds(tmp_path: Path) -> None:
    run = counted(clicks(tmp_path, 0.2)).sql("SELECT at FROM S").run_local()
    (at,) = run.snapshot("2026-11-15 10:00").column("at").to_pylist()
    assert at.microsecond == 200_000


def test_days_are_a_chronon(tmp_path: Path) -> None:
    engine = counted(clicks(tmp_path, 0.2), "1 DAY")
    stream = engine.sql("SELECT k FROM S WINDOW(RANGE 1 WEEK)")
    assert stream.node.input.size == 7
    run = stream.run_local()
    assert run.snapshot("2026-11-21 23:59").num_rows == 1
    assert run.snapshot("2026-11-22").num_rows == 0


def test_windows_say_their_bounds_as_timestamps(tmp_path: Path) -> None:
    engine = counted(clicks(tmp_path, 0.2, 7.5))
    tumbled = engine.sql(
        "SELECT window_start, window_end, COUNT(*) AS n "
        "FROM TUMBLE(S, DESCRIPTOR(at), 5 SECONDS) GROUP BY window_start, window_end"
    )
    assert tumbled.schema.field("window_start").type == pa.timestamp("us", tz="UTC")
    grouped = engine.sql(
        "SELECT window_start, window_end, COUNT(*) AS n FROM S GROUP BY TUMBLING(5 SECONDS)"
    )
    sessions = engine.sql(
        "SELECT window_start, window_end, COUNT(*) AS n "
        "FROM SESSION(S, DESCRIPTOR(at), 3 SECONDS) GROUP BY window_start, window_end"
    )
    for query, last in ((tumbled, 5), (grouped, 5), (sessions, 3)):
        rows = query.run_local().table(raw=True).to_pylist()
        row = min((r for r in rows if r["kind"] == "insert"), key=lambda r: r["window_start"])
        bounds = [row[name].timestamp() for name in ("window_start", "window_end")]
        assert bounds == [TEN, TEN + last]


def test_lifetimes_last_at_least_one_chronon(tmp_path: Path) -> None:
    pairs = {("00.1", "00.2"): (0, 1), ("00.1", "02.0"): (0, 2), ("01.9", "04.7"): (1, 4)}
    rows = [
        {"k": n, "at": f"2026-11-15T10:00:{one}", "until": f"2026-11-15T10:00:{other}"}
        for n, (one, other) in enumerate(pairs)
    ]
    stream = Engine().stream(
        str(written(tmp_path, *rows)),
        start="at",
        end="until",
        schema=pa.schema(
            [("k", pa.int64())] + [(n, pa.timestamp("us", tz="UTC")) for n in ("at", "until")]
        ),
        chronon="1 second",
        ends=True,
    )
    elements = stream.select("k").run_local().table(raw=True).to_pylist()
    inserts = {row["k"]: (row["start"], row["end"]) for row in elements if row["kind"] == "insert"}
    assert inserts == {n: (TEN + a, TEN + b) for n, (a, b) in enumerate(pairs.values())}


elements = st.lists(
    st.tuples(st.integers(-50, 50), st.integers(1, 40), st.integers(0, 40)), max_size=8
)


@given(elements, st.integers(1, 12), st.integers(-50, 50))
def test_coarser_elements_are_legal(
    drawn: list[tuple[int, int, int]], step: int, stable: int
) -> None:
    told: list[Any] = []
    for number, (start, length, new) in enumerate(drawn):
        told.append(Insert((number,), start, start + length))
        told.append(Adjust((number,), start, start + length, start + new))
    told.append(Stable(stable))
    late = [start for start, _, _ in drawn if start >= stable]
    told += [Insert((100 + n,), start, FOREVER) for n, start in enumerate(late)]
    came = coarser(Arrivals.of(told, SCHEMA), step)
    assert first_violation([came]) is None
    batch = came.batch
    for row, (start, length, _) in enumerate(drawn):
        insert = 2 * row
        assert batch.start[insert] == start // step
        assert batch.new_end[insert] == max((start + length) // step, start // step + 1)
        # An adjust meets the lifetime that was announced, and withdraws it if it did.
        assert batch.end[insert + 1] == batch.new_end[insert]
        gone = drawn[row][2] == 0
        assert (batch.new_end[insert + 1] == batch.start[insert + 1]) == gone


@pytest.mark.parametrize("to", ["out.jsonl", "out.parquet.jsonl", "folder"])
def test_what_is_written_is_read_as_the_same_instants(to: str, tmp_path: Path) -> None:
    engine = counted(clicks(tmp_path, 0.2, 1.5))
    engine.sql("SELECT k FROM S WINDOW(RANGE 5 SECONDS)").run_local(str(tmp_path / to))
    again = Engine()
    coarse = again.stream(str(tmp_path / to), name="C", chronon="1 second")
    assert clock_of(coarse.node) == COARSE
    run = coarse.run_local()
    answers = [run.snapshot(f"2026-11-15 10:00:0{s}").num_rows for s in range(8)]
    assert answers == [1, 2, 2, 2, 2, 1, 0, 0]


def test_json_lines_have_iso_times(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    counted(clicks(tmp_path, 0.2)).sql("SELECT k FROM S").run_local(str(out))
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert lines[0] == {
        "insert": {"k": 1},
        "start": "2026-11-15T10:00:00",
        "end": "2026-11-15T10:00:01",
    }
    # Without a chronon they are what they say, in microseconds.
    fine = Engine().stream(str(out), name="F").run_local()
    assert fine.snapshot("2026-11-15 10:00:00.7").num_rows == 1
    assert fine.snapshot("2026-11-15 10:00:01").num_rows == 0


def test_a_log_folder_knows_its_chronon(tmp_path: Path) -> None:
    counted(clicks(tmp_path, 0.2)).sql("SELECT k FROM S").run_local(str(tmp_path / "log"))
    known = Engine().stream(str(tmp_path / "log"))
    assert clock_of(known.node) == COARSE
    minutes = Engine().stream(str(tmp_path / "log"), chronon="1 minute")
    assert minutes.run_local().snapshot("2026-11-15 10:00:59").num_rows == 1
    with pytest.raises(AnabranchError, match="does not fit the data"):
        Engine().stream(str(tmp_path / "log"), chronon="1500 ms")


@given(
    st.lists(st.integers(TEN, TEN + 100), min_size=1, max_size=5),
    st.sampled_from(["s.jsonl", "s.parquet"]),
)
def test_stream_files_come_back(tmp_path_factory: Any, starts: list[int], name: str) -> None:
    path = tmp_path_factory.mktemp("s") / name
    rows = batch_of([Insert((n,), s, s + 5) for n, s in enumerate(starts)], SCHEMA)
    write_stream(path, [rows.with_stable(TEN)], clock=COARSE)  # type: ignore[arg-type]
    clock = describe(path).clock
    scale = COARSE.chronon // clock.chronon  # type: ignore[operator]
    (back,) = read_batches(path, SCHEMA)
    assert (back.start == np.array(starts) * scale).all()
    assert back.stable == TEN * scale
    assert clock.timestamps


def test_tables_of_events_have_timestamps() -> None:
    rows = batch_of([Insert((1,), TEN, TEN + 5), Insert((2,), TEN, FOREVER)], SCHEMA)
    table = event_changes(rows, EventColumns(COARSE))
    found = {row["k"]: (row["valid_from"], row["valid_to"]) for row in table.to_pylist()}
    ten = datetime(2026, 11, 15, 10, tzinfo=timezone.utc)
    assert found == {1: (ten, ten.replace(second=5)), 2: (ten, None)}


def test_delay_and_late_rows_count_chronons(tmp_path: Path) -> None:
    path = clicks(tmp_path, 0.2, 5.9, 3.1, 2.9)
    run = counted(path, more="DELAY 2 SECONDS LATE DROP").sql("SELECT COUNT(*) AS n FROM S")
    promise = run.sources["S"].promise
    assert (promise.delay, promise.step, promise.clock) == (2, 1_000_000, COARSE)


def test_rows_can_be_stamped_in_seconds(tmp_path: Path) -> None:
    path = written(tmp_path, {"k": 1})
    engine = Engine()
    engine.sql(f"CREATE STREAM S (k INT) SOURCE '{path}' CHRONON 1 SECOND WITH (ends = TRUE)")
    rows = engine.sql("SELECT k FROM S").run_local().table(raw=True).to_pylist()
    (insert,) = [row for row in rows if row["kind"] == "insert"]
    assert insert["end"] == insert["start"] + 1
    assert abs(insert["start"] - datetime.now(timezone.utc).timestamp()) < 3600


def test_clip_takes_beginnings_of_chronons(tmp_path: Path) -> None:
    stream = counted(clicks(tmp_path, 0.2)).sql("SELECT k FROM S")
    clipped = stream.clip("2026-11-15 10:00:00", "2026-11-15 10:00:05")
    assert (clipped.node.start, clipped.node.end) == (TEN, TEN + 5)
    assert "2026-11-15T10:00:00" in clipped.explain()
    with pytest.raises(AnabranchError, match="not the beginning of a chronon"):
        stream.clip("2026-11-15 10:00:00.5")


def test_whole_numbers_have_no_timestamps(tmp_path: Path) -> None:
    path = written(tmp_path, {"k": 1, "at": 5})
    stream = Engine().stream(str(path), start="at", chronon="1 second", ends=True)
    with pytest.raises(AnabranchError, match="whole numbers"):
        stream.clip("2026-11-15 10:00:00")
    with pytest.raises(AnabranchError, match="whole numbers"):
        stream.run_local().snapshot("2026-11-15 10:00:00")
    assert stream.run_local().snapshot(5).num_rows == 1


def test_the_command_line_shows_timestamps(tmp_path: Path) -> None:
    out = tmp_path / "log.parquet"
    rows = batch_of([Insert((7,), TEN, TEN + 5)], SCHEMA)
    write_stream(out, [rows.with_stable(TEN)], clock=COARSE)  # type: ignore[arg-type]
    shown = CliRunner().invoke(app, ["show", str(out)])
    assert "2026-11-15T10:00:05" in shown.stdout
    at = CliRunner().invoke(app, ["show", str(out), "--at", "2026-11-15 10:00:04.5", "--json"])
    assert json.loads(at.stdout) == {"k": 7}
    fine = tmp_path / "fine.jsonl"
    write_stream(fine, [rows.with_stable(TEN)], clock=COARSE)  # type: ignore[arg-type]
    assert CliRunner().invoke(app, ["diff", str(out), str(fine)]).exit_code == 0
    assert CliRunner().invoke(app, ["merge", str(out), str(fine), "--to", "-"]).exit_code == 2


POINTS: Final = Source(
    name="S",
    schema=SCHEMA,
    insert_only=False,
    only_points=True,
    timestamps=True,
    chronon=1_000_000,
)


@given(streams(SCHEMA, only_points=True), st.integers(1, 6), st.integers(1, 4))
def test_kernels_mean_what_they_say(stream: PhysicalStream, size: int, batch: int) -> None:
    # Python has no datetime for the last instants that are drawn.
    assume(all(abs(move.start) < 2**32 for move in stream.elements if isinstance(move, Move)))
    bounds = ("window_start", "window_end")
    tumbling = TimeWindow(input=POINTS, size=Duration(size), slide=Duration(size), columns=bounds)
    sessions = SessionWindow(input=POINTS, gap=Duration(size), columns=bounds)
    for node in (tumbling, sessions):
        assert_agrees(node, stream, batch_size=batch)


def test_instants_beyond_microseconds_saturate() -> None:
    days = Clock(86_400_000_000, timestamps=True)
    far = np.array([FOREVER - 1, BEGINNING + 1, 0, FOREVER], np.int64)
    assert days.microseconds(far).tolist() == [FOREVER, BEGINNING, 0, FOREVER]
    assert INTEGERS.microseconds(far).tolist() == far.tolist()


@pytest.mark.parametrize("form", ["parquet", "json", "lines"])
def test_earlier_parts_of_a_file_promise_in_chronons(form: str, tmp_path: Path) -> None:
    starts = [datetime(2026, 11, 15, 10, 0, second, tzinfo=timezone.utc) for second in (1, 5, 9)]
    stream_of: dict[str, Any] = {"chronon": "1 second", "delay": "3 seconds"}
    if form == "parquet":
        path = tmp_path / "s.parquet"
        table = pa.table({"k": [1, 2, 3], "at": pa.array(starts, pa.timestamp("us", tz="UTC"))})
        pq.write_table(table, path, row_group_size=1)
        stream_of["start"] = "at"
    elif form == "json":
        path = clicks(tmp_path, 1, 5, 9)
        stream_of |= {"start": "at", "schema": table_schema()}
    else:
        path = tmp_path / "s.jsonl"
        batch = batch_of(
            [Insert((n,), TEN + s, TEN + s + 1) for n, s in enumerate((1, 5, 9))], SCHEMA
        )
        write_stream(path, [batch], clock=COARSE)
    (source,) = Engine().stream(str(path), **stream_of).sources.values()
    units = [FileSplit(str(path), 0, 1 if form == "parquet" else -1)]
    latest, _ = read_times(source, units[0])
    assert latest == TEN + (1 if form == "parquet" else 9)
    known = replace(units[0], latest=(TEN + 9) * 1_000_000)
    assert earlier_parts.promise_of(source, known) == TEN + 6


def table_schema() -> pa.Schema:
    return pa.schema([("k", pa.int64()), ("at", pa.timestamp("us", tz="UTC"))])
