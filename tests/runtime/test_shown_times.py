import json
import pickle
from datetime import datetime, timezone
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import anabranch as ab
from anabranch.model.clock import Clock
from anabranch.model.elements import Insert, batch_of
from anabranch.model.revision import Revision
from anabranch.model.time import Time
from anabranch.runtime.elements.elements import element_table
from anabranch.runtime.elements.shown_times import ShownTime, shown_elements, shown_time

TEN = datetime(2026, 11, 1, 10, tzinfo=timezone.utc)


@pytest.fixture
def run(tmp_path: Path) -> ab.LocalRun:
    rows = pa.table({"item": [1, 2], "at": [TEN, TEN.replace(second=50)]})
    pq.write_table(rows, tmp_path / "bids.parquet")
    path = tmp_path / "bids.parquet"
    stream = ab.Engine().stream(path, start="at", name="Bid", delay="20 seconds")
    return stream.window("1 minute").group_by("item").agg(n="COUNT(*)").run_local()


def test_the_stable_point_prints_as_a_time_and_counts_as_a_number(run: ab.LocalRun) -> None:
    assert f"{run.stable}" == str(run.stable) == repr(run.stable) == "2026-11-01T10:00:30"
    assert run.stable == int(TEN.timestamp() + 30) * 1_000_000
    assert json.loads(json.dumps(run.stable)) == int(run.stable)
    assert repr(pickle.loads(pickle.dumps(run.stable))) == "2026-11-01T10:00:30"


def test_metrics_and_elements_of_timestamp_streams_have_times(run: ab.LocalRun) -> None:
    (batch,) = run.metrics()
    assert "'stable': 2026-11-01T10:00:30" in repr(batch)
    rows = run.table().to_pylist()
    assert rows[0]["start"] == TEN
    assert rows[-1] == {**dict.fromkeys(rows[0]), "kind": "stable", "start": rows[-1]["start"]}
    assert rows[-1]["start"] == TEN.replace(second=30)
    assert run.table(raw=True).column("start").to_pylist()[-1] == int(run.stable)


def test_whole_numbers_stay_numbers() -> None:
    run = ab.Engine().stream([{"at": 3}], start="at").run_local()
    assert (type(run.stable), run.table()) == (int, run.table(raw=True))
    assert shown_time(Time(5), Clock()) == 5


def test_forever_and_numbers_of_revisions_are_no_times() -> None:
    clock = Clock(1_000_000, timestamps=True)
    payload = pa.schema([("k", pa.int64())])
    changes = batch_of([Insert((7,), Time(60), Time(120))], payload)
    elements = element_table(
        [Revision(number=3, first=Time(60), last=Time(120), changes=changes)], payload
    )
    found = shown_elements(elements, clock).to_pylist()
    assert [row["revision"] for row in found] == [3, None]
    assert found[0]["new_end"] is None
    assert found[0]["start"] == datetime(1970, 1, 1, 0, 1, tzinfo=timezone.utc)
    assert repr(ShownTime(ab.FOREVER, clock)) == "forever"
