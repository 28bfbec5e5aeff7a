"""What users see of streams, plans, runs and answers."""

import json
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

import anabranch as ab
from anabranch.display.result_table import ResultTable
from anabranch.errors import PlanError

SEVEN, TWELVE = "2026-11-01 10:00:07", "2026-11-01 10:00:12"


@pytest.fixture
def bids(tmp_path: Path) -> ab.Stream:
    rows = [(1, 80.0, 1), (2, 15.0, 4), (1, 95.0, 7), (2, 20.0, 12), (1, 90.0, 21)]
    lines = [
        json.dumps({"item": i, "price": p, "at": f"2026-11-01T10:00:{s:02d}"}) for i, p, s in rows
    ]
    (tmp_path / "bids.jsonl").write_text("\n".join(lines))
    engine = ab.Engine()
    return engine.stream(
        tmp_path / "bids.jsonl", start="at", delay="10 s", name="Bid", hide_times=True
    )


@pytest.fixture
def run(bids: ab.Stream) -> ab.LocalRun:
    return bids.window("10 seconds").group_by("item").agg(top="MAX(price)").run_local()


def test_a_stream_shows_its_columns_and_lifetimes(
    bids: ab.Stream, capsys: pytest.CaptureFixture[str]
) -> None:
    assert repr(bids) == (
        "Stream Bid[item: bigint, price: double]; rows hold for one instant, times are timestamps"
    )
    held = bids.window("1 minute")
    assert "rows have lifetimes" in repr(held)
    html = held._repr_html_()
    assert "<td" in html
    assert "TimeWindow 1m\n  Source Bid" in html
    held.printSchema()
    held.where("price > 90").show()
    held.where("price > 90").show(at=SEVEN)
    assert capsys.readouterr().out.splitlines() == [
        "root",
        " |-- item: bigint (nullable = true)",
        " |-- price: double (nullable = true)",
        "item  price  start                end                  final",
        "   1   95.0  2026-11-01 10:00:07  2026-11-01 10:01:07  false",
        "1 event; stable point 2026-11-01T10:00:11",
        "item  price",
        "   1   95.0",
        "1 row at 2026-11-01T10:00:07",
    ]


def test_long_values_are_cut_as_spark_cuts_them(
    bids: ab.Stream, capsys: pytest.CaptureFixture[str]
) -> None:
    long = bids.select(t=ab.lit("abcdefghijklmnopqrstuvwxyz"))
    long.show(1, True, at=SEVEN)
    long.show(1, 3, at=SEVEN)
    long.show(1, at=SEVEN)
    words = capsys.readouterr().out.split()
    assert "abcdefghijklmnopq..." in words
    assert "abc" in words
    assert "abcdefghijklmnopqrstuvwxyz" in words


def test_a_plan_prints_itself(bids: ab.Stream) -> None:
    plan = bids.where("price > 90").explain()
    assert repr(plan) == str(plan)
    assert plan.startswith("Plan\n  Filter price > 90")
    assert plan._repr_html_().startswith("<pre>Plan\n  Filter price &gt; 90")


def test_a_run_shows_its_state_and_its_answers(
    run: ab.LocalRun, capsys: pytest.CaptureFixture[str]
) -> None:
    assert repr(run).startswith("<Run ended; 1 batch, 5 rows read (")
    assert repr(run).endswith(" rows/s), 5 written, stable point 2026-11-01T10:00:11>")
    assert "<strong>Run</strong>" in run._repr_html_()
    assert run.stable_time.isoformat() == "2026-11-01T10:00:11+00:00"
    run.show(at=TWELVE)
    run.show(n=1)
    assert capsys.readouterr().out.splitlines() == [
        "item   top",
        "   1  95.0",
        "   2  20.0",
        "2 rows at 2026-11-01T10:00:12; not final: stable point 2026-11-01T10:00:11",
        "item   top  start                end                  final",
        "   1  80.0  2026-11-01 10:00:01  2026-11-01 10:00:07  true",
        "1 of 5 events; stable point 2026-11-01T10:00:11",
    ]


def test_events_become_frames_of_every_kind(run: ab.LocalRun) -> None:
    events = run.events()
    assert isinstance(events, ResultTable)
    assert events.column_names == ["item", "top", "start", "end", "final"]
    assert events.schema.field("start").type == pa.timestamp("us", tz="UTC")
    assert events.num_rows == len(events) == 5
    frame = run.to_pandas()
    assert str(frame["start"].dtype) == "datetime64[us, UTC]"
    assert frame["final"].tolist() == [True, False, False, False, False]
    assert events.to_polars()["top"].to_list() == [80.0, 15.0, 95.0, 20.0, 90.0]
    assert pa.table(events).equals(events.to_arrow())
    assert pl.DataFrame(events).height == 5
    assert '<th style="text-align:right">top</th>' in events._repr_html_()
    with pytest.raises(PlanError, match="needs a session"):
        events.to_spark()


def test_several_snapshots_are_those_of_each_instant(run: ab.LocalRun) -> None:
    instants = [TWELVE, SEVEN, "2026-11-01 11:00:00"]
    several = run.snapshots(instants)
    assert several.column_names == ["at", "item", "top"]
    for instant in instants:
        one = run.snapshot(instant).to_pylist()
        at = instant.replace(" ", "T") + "+00:00"
        same = [row for row in several.to_pylist() if row.pop("at").isoformat() == at]
        assert sorted(same, key=str) == sorted(one, key=str)


def test_ends_that_are_forever_are_null(bids: ab.Stream) -> None:
    last = bids.rows_window(1).run_local()
    assert last.events()["end"].to_pylist()[-1] is None


def test_a_run_is_drawn(run: ab.LocalRun) -> None:
    import matplotlib as mpl

    mpl.use("agg")
    axes = run.plot()
    assert axes.get_ylabel() == "top"
    assert [line.get_label() for line in axes.get_lines()] == ["1", "2"]
    assert len(run.plot(by=[]).get_lines()) == 1
    with pytest.raises(PlanError, match="'name' is not a column with numbers"):
        run.plot("name")
    mpl.pyplot.close("all")


def test_a_snapshot_is_an_arrow_table_that_shows_itself(run: ab.LocalRun) -> None:
    found = run.snapshot(SEVEN)
    assert repr(found).splitlines() == [
        "item   top",
        "   1  95.0",
        "   2  15.0",
        "2 rows at 2026-11-01T10:00:07; final",
    ]
    assert found["top"].to_pylist() == [95.0, 15.0]
    assert found == found.to_arrow()
