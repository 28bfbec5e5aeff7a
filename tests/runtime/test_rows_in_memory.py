"""pandas, Polars, Arrow and lists of dictionaries are sources like files."""

from datetime import datetime, timezone
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from anabranch import Engine
from anabranch.errors import PlanError

ROWS: list[dict[str, Any]] = [
    {"item": 1, "name": "a", "at": "2026-11-01T10:00:01"},
    {"item": 2, "name": None, "at": "2026-11-01T10:00:04"},
]
FRAME = pd.DataFrame(ROWS).assign(at=lambda frame: pd.to_datetime(frame["at"]))


@pytest.mark.parametrize(
    "rows",
    [
        ROWS,
        FRAME,
        pl.DataFrame(FRAME),
        pa.Table.from_pandas(FRAME),
        pa.RecordBatch.from_pandas(FRAME),
    ],
    ids=["list", "pandas", "polars", "table", "batch"],
)
def test_rows_of_every_kind_are_the_same_stream(rows: Any) -> None:
    engine = Engine()
    found = engine.stream(rows, start="at", name="Bid")
    assert found.dtypes == [("item", "bigint"), ("name", "string"), ("at", "timestamp_ntz")]
    assert found.snapshot("2026-11-01 10:00:04").to_pylist() == [
        {"item": 2, "name": None, "at": datetime(2026, 11, 1, 10, 0, 4)}
    ]
    run = engine.sql("SELECT item FROM Bid WINDOW(RANGE 1 MINUTE)").run_local()
    assert run.events()["final"].to_pylist() == [True, True]


def test_the_same_rows_are_the_same_file() -> None:
    first, again, other = (
        next(iter(Engine().stream(rows, start="at").sources.values())).path
        for rows in (ROWS, [dict(row) for row in ROWS], ROWS[:1])
    )
    assert first == again != other


def test_a_relation_is_made_of_rows() -> None:
    engine = Engine()
    bids = engine.stream(ROWS, start="at")
    names = engine.relation(pd.DataFrame({"item": [1], "title": ["one"]}))
    assert bids.join(names, "item").run_local().events()["title"].to_pylist() == ["one"]


def test_times_with_a_zone_keep_it() -> None:
    at = datetime(2026, 11, 1, 10, tzinfo=timezone.utc)
    bids = Engine().stream([{"item": 1, "at": at}], start="at")
    assert bids.run_local().events()["start"].to_pylist() == [at]


def test_rows_that_cannot_be_a_stream_are_refused() -> None:
    engine = Engine()
    with pytest.raises(PlanError, match="a list without rows has no columns"):
        engine.stream([], start="at")
    with pytest.raises(PlanError, match="rows need a column with their time"):
        engine.stream(FRAME)
    with pytest.raises(PlanError, match="the rows do not fit together"):
        engine.stream([{"a": 1, "at": 1}, {"a": "x", "at": 2}], start="at")
    with pytest.raises(PlanError, match="cannot be read from list"):
        engine.stream([1, 2], start="at")


def test_rows_that_are_all_there_cannot_go_on() -> None:
    with pytest.raises(PlanError, match="end with the last one") as refused:
        Engine().stream(ROWS, start="at", ends=False)
    assert "ends=False" in refused.value.where
    assert "a folder" in refused.value.hint
    assert Engine().stream(ROWS, start="at", ends=True).run_local().events()["final"][0].as_py()
