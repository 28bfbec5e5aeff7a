"""The answer of a running query: kept small, shown as a table that changes."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from tests.model.revised_streams import SCHEMA as REVISED
from tests.model.revised_streams import Part, meaning, revised_streams

from anabranch.cli.queries.live import LiveView, watch
from anabranch.cli.queries.live_answer import Answer
from anabranch.cli.queries.live_query import LiveQueries, LiveQuery
from anabranch.errors import QueryError
from anabranch.model.batch import EventBatch
from anabranch.model.clock import INTEGERS
from anabranch.model.elements import Adjust, Element, Insert, Stable, batch_of
from anabranch.model.history import History
from anabranch.model.time import BEGINNING, FOREVER, Time
from anabranch.runtime.elements.elements import element_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = pa.schema([("item", pa.string()), ("price", pa.float64())])


def insert(item: str, price: float, start: int, end: int = FOREVER) -> Insert:
    return Insert((item, price), Time(start), Time(end))


def stable(time: int) -> Stable:
    return Stable(Time(time))


def elements(*said: Element) -> pa.Table:
    return element_table([batch_of(said, SCHEMA)], SCHEMA)


def answer_of(*batches: list[Element], most: int = 1000) -> Answer:
    answer = Answer(SCHEMA, clock=INTEGERS, most=most)
    for number, batch in enumerate(batches):
        answer.add(elements(*batch), number)
    return answer


def test_an_answer_is_what_its_elements_say() -> None:
    answer = answer_of(
        [insert("bed", 9.5, 6), insert("chair", 80.0, 5, 9)],
        [Adjust(("chair", 80.0), Time(5), Time(9), FOREVER), stable(8)],
    )
    assert answer.snapshot(Time(100)).to_pydict() == {
        "item": ["bed", "chair"],
        "price": [9.5, 80.0],
    }
    assert answer.history().end.tolist() == [FOREVER, FOREVER]
    assert (answer.stable, answer.latest, answer.batches) == (8, 6, 2)
    assert (answer.instant(), answer.instant("latest")) == (7, 6)


def test_a_batch_that_comes_again_counts_once() -> None:
    answer = answer_of([insert("bed", 9.5, 6)])
    answer.add(elements(insert("bed", 9.5, 6)), 0)
    assert answer.snapshot(Time(6)).num_rows == 1
    answer.replace(elements(insert("bed", 9.5, 6), insert("bed", 9.5, 6)))
    assert answer.snapshot(Time(6)).num_rows == 2


def test_without_a_promise_the_latest_instant_is_shown() -> None:
    assert answer_of([insert("bed", 9.5, 6), stable(FOREVER)]).instant() == 6
    assert answer_of([insert("bed", 9.5, 6)]).instant() == 6
    assert answer_of().instant() == BEGINNING


@given(
    lives=st.lists(st.tuples(st.integers(0, 20), st.integers(1, 9)), max_size=60),
    size=st.integers(1, 7),
    most=st.integers(1, 20),
)
def test_what_is_forgotten_is_final_and_past(
    lives: list[tuple[int, int]], size: int, most: int
) -> None:
    lives.sort()
    inserts: list[Element] = [insert("bed", float(s), s, s + d) for s, d in lives]
    batches = [
        [*inserts[at : at + size], stable(lives[at][0])] for at in range(0, len(lives), size)
    ]
    answer, whole = Answer(SCHEMA, clock=INTEGERS, most=most), list[EventBatch]()
    for number, batch in enumerate(batches):
        answer.add(elements(*batch), number)
        answer._compact()
        whole.append(batch_of(batch, SCHEMA))
    known = History.of(whole, SCHEMA)
    assert answer.forgotten < max(answer.stable, BEGINNING + 1)
    for instant in range(max(answer.forgotten, 0), 30):
        assert answer.snapshot(Time(instant)).num_rows == known.snapshot(instant).num_rows
    if answer.forgotten > BEGINNING:
        with pytest.raises(QueryError, match="no longer kept"):
            answer.snapshot(Time(answer.forgotten - 1))


@given(parts=revised_streams(most=20), most=st.integers(1, 20))
def test_an_answer_is_that_after_its_revisions(parts: list[Part], most: int) -> None:
    answer = Answer(REVISED, clock=INTEGERS, most=most)
    for number, part in enumerate(parts):
        answer.add(element_table([part], REVISED), number)
        answer._compact()
    known = meaning(parts)
    history = answer.history()
    for instant in range(max(answer.forgotten, 0), 30):
        expected = sorted(a for (a,) in known.snapshot(instant).elements())
        assert sorted(answer.snapshot(Time(instant)).column("a").to_pylist()) == expected
        assert sorted(history.snapshot(instant).column("a").to_pylist()) == expected


class FakeRun:
    """A run as far as a view looks at it."""

    name = "query_1"

    def __init__(self) -> None:
        self.batches: list[dict[str, Any]] = []

    def metrics(self) -> list[dict[str, Any]]:
        return self.batches

    def commit(self, rows_in: int, rows_out: int, late: int = 0) -> None:
        number = len(self.batches)
        counts = {"rows_in": rows_in, "rows_out": rows_out, "late": late}
        self.batches.append({"batch": number, "milliseconds": {"all": 1}, **counts})


def live_query(answer: Answer, status: str = "running") -> tuple[LiveQuery, FakeRun]:
    run = FakeRun()
    query = SimpleNamespace(run=run, answer=answer, name=run.name, status=status, feed=lambda: None)
    return cast(LiveQuery, query), run


def drawn(view: LiveView, now: float, height: int = 20) -> list[str]:
    out = Console(file=io.StringIO(), width=100)
    out.print(view.look(now).table(height))
    assert isinstance(out.file, io.StringIO)
    return [line.rstrip() for line in out.file.getvalue().splitlines() if line.strip()]


def test_the_view_shows_rows_rates_and_what_is_new() -> None:
    answer = answer_of()
    query, run = live_query(answer)
    view = LiveView(query)
    assert drawn(view, 0.0)[0] == (
        "query_1: running  no batch yet  0 rows read (0/s)  0 written (0/s)  no stable point"
    )
    assert drawn(view, 0.0)[-1] == "nothing yet"
    answer.add(elements(insert("bed", 9.5, 6), insert("chair", 80.0, 5, 9), stable(8)), 0)
    run.commit(300, 2)
    first = drawn(view, 1.0)
    assert first[0] == (
        "query_1: running  batch 0  300 rows read (300/s)  2 written (2/s)  stable 8"
    )
    assert first[3:] == [
        " +   bed       9.5",
        " +   chair    80.0",
        "2 rows at 7, final; 2 new, 0 gone",
    ]
    answer.add(elements(insert("bed", 9.5, 9), stable(10)), 1)
    run.commit(100, 1, late=3)
    second = drawn(view, 2.0)
    assert second[0].endswith("batch 1  400 rows read (200/s)  3 written (2/s)  stable 10  3 late")
    assert second[3:] == [
        " +   bed      9.5",
        "     bed      9.5",
        "2 rows at 9, final; 1 new, 1 gone",
    ]
    # Nothing has come in: marks stay, rates fall.
    assert drawn(view, 30.0)[0].endswith("(0/s)  3 written (0/s)  stable 10  3 late")
    assert drawn(view, 30.0)[3:] == second[3:]


def test_new_rows_come_first_where_not_all_fit() -> None:
    answer = answer_of([insert(f"item {n}", 1.0, n) for n in range(9)])
    query, _ = live_query(answer)
    view = LiveView(query)
    assert drawn(view, 0.0, 9)[-1] == "9 rows at 8, may still change; 6 more rows do not fit"
    answer.add(elements(insert("new", 1.0, 9)), 1)
    assert drawn(view, 1.0, 9)[3] == " +   new        1.0"


def test_where_nothing_holds_the_last_events_are_shown() -> None:
    points: list[Element] = [insert("bed", float(n), n, n + 1) for n in range(30)]
    withdrawn = Adjust(("bed", 29.0), Time(29), Time(30), Time(29))
    moved = Adjust(("bed", 3.0), Time(3), Time(4), Time(5))
    answer = answer_of(points[:25], [*points[25:], moved], [withdrawn, stable(40)])
    query, _ = live_query(answer)
    shown = drawn(LiveView(query), 0.0, 40)
    assert shown[1].split() == ["item", "price", "start", "end"]
    assert shown[-2].split() == ["bed", "28.0", "28", "29"]
    assert shown[-1] == "0 rows at 39, final; these are the last 20 events"
    assert len(answer_of([insert("bed", 1.0, 3, 4)]).recent(20)) == 1


def test_the_latest_instant_can_be_watched() -> None:
    answer = answer_of([insert("bed", 9.5, 6), insert("chair", 80.0, 20), stable(8)])
    query, _ = live_query(answer)
    assert drawn(LiveView(query, "latest"), 0.0)[-1] == "2 rows at 20, may still change"


def test_watching_ends_with_the_query() -> None:
    query, _ = live_query(answer_of([insert("bed", 9.5, 6)]), "ended")
    console = Console(file=io.StringIO(), width=80)
    assert watch(query, console)
    assert isinstance(console.file, io.StringIO)
    assert "query_1: ended" in console.file.getvalue()


def test_unknown_queries_get_a_hint() -> None:
    with pytest.raises(QueryError, match="no query has been started"):
        LiveQueries().find("query_1")


@pytest.mark.spark
def test_a_query_goes_on_in_the_background_and_ends_when_asked(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from anabranch.cli.queries.entries import RunningQueries
    from anabranch.engine import Engine

    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    bids = tmp_path / "bids"
    bids.mkdir()
    (bids / "1.jsonl").write_text(
        '{"insert": {"item": "bed", "price": 9.5}, "start": 6}\n{"stable": 8}\n'
    )
    engine = Engine(spark)
    try:
        engine.sql(f"CREATE STREAM Bid (item STRING, price DOUBLE) SOURCE '{bids}'")
        memory = LiveQuery(engine.sql("SELECT * FROM Bid"), None, allow_unbounded=False)
        to_file = LiveQuery(
            engine.sql("SELECT item FROM Bid"), str(tmp_path / "o.jsonl"), allow_unbounded=False
        )
        queries = LiveQueries()
        for query in (memory, to_file):
            queries.add(query)
            query.run.drain()
            query.feed(at_once=True)
            assert query.answer.snapshot(Time(7)).num_rows == 1
            assert query.look() is None
        assert [entry.name for entry in RunningQueries().all()] == ["query_1", "query_2"]
        assert LiveView(memory).look(0.0).rows == [("bed", "9.5")]
        assert queries.find("QUERY_2") is to_file
        (bids / "2.jsonl").write_text(
            '{"insert": {"item": "chair", "price": 80.0}, "start": 9}\n{"stable": 12}\n'
        )
        to_file.run.drain()
        to_file.feed(at_once=True)
        assert to_file.answer.stable == 12
        to_file.stop()
        queries.forget_end(to_file)
        [entry] = RunningQueries().all()
        RunningQueries().ask_to_stop(entry)
        # The thread that keeps the entries sees the request.
        assert memory.run.await_end(20)
        queries.close()
        assert queries.notices() == ["query_1 was asked to stop and has stopped"]
        assert RunningQueries().all() == []
    finally:
        engine.stop()
