"""Every way to count time on Spark: files and DataFrames, logs, snapshots by instants."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anabranch import Engine
from anabranch.algebra.node import clock_of
from anabranch.model.clock import Clock

pytestmark = pytest.mark.spark
TEN = datetime(2026, 11, 15, 10, tzinfo=timezone.utc)


def moment(timestamps: bool, seconds: float) -> Any:
    return TEN + timedelta(seconds=seconds) if timestamps else int(seconds)


@pytest.mark.parametrize("frame", [False, True])
@pytest.mark.parametrize(
    ("name", "timestamps", "chronon"),
    [
        ("u_integers", False, None),
        ("u_seconds", False, "1 second"),
        ("u_stamps", True, None),
        ("u_coarse", True, "1 second"),
    ],
)
def test_windows_count_chronons_on_spark(
    engine: Engine,
    tmp_path: Path,
    name: str,
    timestamps: bool,
    chronon: str | None,
    frame: bool,
) -> None:
    starts = [moment(timestamps, second) for second in (0.2, 1.9, 4.5)]
    kind = pa.timestamp("us", tz="UTC") if timestamps else pa.int64()
    table = pa.table({"k": [1, 1, 2], "at": pa.array(starts, kind)})
    pq.write_table(table, tmp_path / "in.parquet")
    source = str(tmp_path / "in.parquet")
    rows = engine.stream(
        engine.spark.read.parquet(source) if frame else source,
        name=f"{name}{frame}",
        start="at",
        delay="0",
        chronon=chronon,
    )
    size = 3 if name == "u_integers" else "3 seconds"
    counts = rows.window(size).group_by("k").agg(n="COUNT(*)")
    run = counts.start(str(tmp_path / "out"), available_now=True)
    assert run.await_end(120)

    def at(seconds: float) -> list[tuple[int, int]]:
        found = run.snapshot(moment(timestamps, seconds)).collect()
        return sorted((row["k"], row["n"]) for row in found)

    fine = name == "u_stamps"
    # In microseconds the first row holds from 0.2 to 3.2; in seconds from 0 to 3.
    assert at(0) == ([] if fine else [(1, 1)])
    assert at(2) == [(1, 2)]
    assert at(3) == [(1, 2 if fine else 1)]
    assert at(6) == [(2, 1)]
    again = Engine().stream(str(tmp_path / "out"))
    microseconds = None if name == "u_integers" else 1 if fine else 1_000_000
    assert clock_of(again.node) == Clock(microseconds, timestamps)
