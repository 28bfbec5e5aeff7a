"""Files as people have them: nanoseconds of pandas, times as texts, other separators."""

from datetime import datetime, timezone
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import anabranch as ab
from anabranch.errors import PlanError, StreamError
from anabranch.runtime.sources.rows import in_microseconds

NANOSECONDS = 1_793_523_604_508_819_631
MICROSECONDS = datetime(2026, 11, 1, 9, 0, 4, 508_819, tzinfo=timezone.utc)


@given(st.lists(st.integers(-(2**62), 2**62) | st.none()))
def test_nanoseconds_are_cut_towards_the_past(times: list[int | None]) -> None:
    found = in_microseconds(pa.array(times, pa.int64()).cast(pa.timestamp("ns")))
    wanted = [None if time is None else time // 1000 for time in times]
    assert found.cast(pa.int64()).to_pylist() == wanted


def test_times_of_pandas_have_nanoseconds(tmp_path: Path) -> None:
    frame = pd.DataFrame({"user": [1], "ts": pd.to_datetime([NANOSECONDS])})
    frame.to_parquet(tmp_path / "clicks.parquet")
    for source in (frame, tmp_path / "clicks.parquet"):
        (row,) = ab.Engine().stream(source, start="ts").run_local().events().to_pylist()
        assert row["start"] == MICROSECONDS
        assert row["ts"] == MICROSECONDS.replace(tzinfo=None)


def test_times_of_elements_and_other_columns_may_have_nanoseconds(tmp_path: Path) -> None:
    at = pa.array([NANOSECONDS]).cast(pa.timestamp("ns", tz="UTC"))
    rows = pa.table({"start": at, "end": at, "sent": at, "k": [1]})
    pq.write_table(rows, tmp_path / "rows.parquet")
    stream = ab.Engine().stream(tmp_path / "rows.parquet", start="start", name="S")
    (row,) = stream.run_local().events().to_pylist()
    assert row["sent"] == MICROSECONDS


@pytest.mark.parametrize(
    "text", ["2026-11-01T10:00:00Z", "2026-11-01T12:00:00+02:00", "2026-11-01 10:00:00.000"]
)
def test_times_in_json_are_texts(tmp_path: Path, text: str) -> None:
    path = tmp_path / "log.json"
    path.write_text(f'{{"@timestamp": "{text}", "k": 1}}\n')
    stream = ab.Engine().stream(path, start="@timestamp", delay="1 s", name="Log")
    (row,) = stream.run_local().events().to_pylist()
    assert row["start"] == datetime(2026, 11, 1, 10, tzinfo=timezone.utc)


def test_texts_that_are_no_times_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    path.write_text('{"at": "yesterday", "k": 1}\n')
    with pytest.raises(PlanError, match="holds string, not times") as caught:
        ab.Engine().stream(path, start="at")
    assert "declared" in str(caught.value)


def test_rows_without_a_named_time_get_a_hint(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    path.write_text('{"at": "2026-11-01T10:00:00Z", "k": 1}\n')
    with pytest.raises(StreamError, match="rows need the name of their column of time: start="):
        ab.Engine().stream(path).run_local()


@pytest.mark.parametrize(("separator", "word"), [(";", "semicolons"), ("\t", "tabs")])
def test_other_separators_than_commas_are_named(tmp_path: Path, separator: str, word: str) -> None:
    path = tmp_path / "eu.csv"
    path.write_text(f"k{separator}at\n1{separator}2,5\n")
    with pytest.raises(StreamError, match=f"separated by {word}, and commas are expected"):
        ab.Engine().stream(path, start="at")


@pytest.mark.parametrize("name", ["answer.csv", "answer.parquet", "answer.xlsx"])
def test_a_file_that_cannot_be_written_does_not_become_a_folder(tmp_path: Path, name: str) -> None:
    stream = ab.Engine().stream([{"at": 1}], start="at")
    with pytest.raises(PlanError, match="results are not written as"):
        stream.run_local(to=str(tmp_path / name))
    assert not (tmp_path / name).exists()


def test_an_expression_is_not_a_column_of_time(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("at\n1\n")
    with pytest.raises(PlanError, match="name a column, not an expression"):
        ab.Engine().stream(tmp_path / "a.csv", start="upper(at)")


def test_an_engine_tells_what_it_has() -> None:
    engine = ab.Engine()
    assert repr(engine) == "<Engine; no streams; 0 runs; Spark not started>"
    engine.stream([{"at": 1}], start="at", name="Bid")
    assert repr(engine) == "<Engine; Bid; 0 runs; Spark not started>"


def test_windows_that_have_not_ended_are_explained(capsys: pytest.CaptureFixture[str]) -> None:
    rows = pa.table({"at": [1, 2]})
    path = ab.Engine().stream(rows, start="at", name="S")
    path.tumbling(10).agg(n="COUNT(*)").filter("n > 5").show()
    assert "open_windows=True shows the others" in capsys.readouterr().out


def test_a_field_of_a_struct_keeps_its_name() -> None:
    stream = ab.Engine().stream([{"at": 1, "http": {"path": "/", "status": 200}}], start="at")
    assert stream.select("http.path", "http.status").columns == ["path", "status"]
    assert stream.group_by("http.path").agg(n="COUNT(*)").columns == ["path", "n"]


@pytest.mark.parametrize("text", ["5 min", "5 mins", "300 sec", "300 secs", "5 minutes"])
def test_units_have_their_usual_abbreviations(text: str) -> None:
    stream = ab.Engine().stream([{"at": "2026-11-01T10:00:00"}], start="at")
    assert stream.window(text).node == stream.window("300 s").node
