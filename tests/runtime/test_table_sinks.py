"""Delta tables and tables of PostgreSQL hold what the stream says, each batch once."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.runtime.heads import output_head
from tests.runtime.postgres import postgres_server
from tests.runtime.revised_streams import Round, at_or_after, meaning, revised_rounds, revision

from anabranch import Engine
from anabranch.errors import EngineError, PlanError
from anabranch.kernels.contract.packed_events import pack_events
from anabranch.model.batch import EventBatch
from anabranch.model.clock import INTEGERS, MICROSECONDS, Clock
from anabranch.model.elements import Adjust, Insert, batch_of
from anabranch.model.files.stream_file import describe, read_batches, read_parts
from anabranch.model.logical import LogicalStream
from anabranch.model.revision import Revision
from anabranch.model.time import FOREVER, Time
from anabranch.runtime.elements.event_table import EventColumns, event_changes
from anabranch.runtime.sinks.choice import choose_sink
from anabranch.runtime.sinks.sinks import Begin, ShardResult, Sink
from anabranch.runtime.store.folder import Folder
from anabranch.testing.strategies import batchings, streams

SCHEMA = pa.schema([("k", pa.int64()), ("name", pa.string())])
Row = tuple[Any, ...]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with postgres_server() as address:
        yield address


def _end(row: dict[str, Any]) -> Any:
    return FOREVER if row["valid_to"] is None else row["valid_to"]


class Tables:
    """Places of one kind, and what is in them."""

    def __init__(self, kind: str, root: Path, address: str) -> None:
        self.kind = kind
        self._root = root
        self._address = address
        self._numbers = itertools.count()

    def place(self, keep: str) -> str:
        number = next(self._numbers)
        if self.kind == "delta":
            return f"delta:{self._root / str(number)}#{keep}"
        return f"{self._address}&table=t{number}_{self._root.name.replace('-', '_')}&keep={keep}"

    def _read(self, place: str) -> list[dict[str, Any]]:
        if self.kind == "delta":
            path = place.removeprefix("delta:").partition("#")[0]
            rows: list[dict[str, Any]] = DeltaTable(path).to_pyarrow_table().to_pylist()
            return rows
        name = place.partition("table=")[2].partition("&")[0]
        with psycopg.connect(self._address) as connection:
            cursor = connection.execute(f"SELECT * FROM {name}")
            names = [column.name for column in cursor.description or ()]
            return [dict(zip(names, row)) for row in cursor]

    def elements(self, place: str) -> Counter[Row]:
        return Counter(tuple(row.values()) for row in self._read(place))

    def rows(self, place: str, schema: pa.Schema = SCHEMA) -> Counter[Row]:
        found = self._read(place)
        counts: Counter[Row] = Counter()
        for row in found:
            payload = tuple(row[name] for name in schema.names)
            counts[(*payload, row["valid_from"], _end(row))] += row["copies"]
            assert row["copies"] > 0
        return counts

    def known(self, place: str, number: int) -> LogicalStream:
        """What the stream said after a revision."""
        return LogicalStream.of(
            ((row["k"], row["name"]), row["valid_from"], _end(row))
            for row in self._read(place)
            if (row.get("known_from") or 0) <= number < (row.get("known_until") or FOREVER)
            for _ in range(row["copies"])
        )


@pytest.fixture(params=["delta", "postgres"])
def tables(request: pytest.FixtureRequest, tmp_path: Path) -> Tables:
    address = request.getfixturevalue("server") if request.param == "postgres" else ""
    return Tables(request.param, tmp_path, address)


_OPEN: list[Sink] = []


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    while _OPEN:
        _OPEN.pop().close()


def opened(
    place: str,
    *,
    query: str = "",
    fresh: bool = True,
    schema: pa.Schema = SCHEMA,
    clock: Clock = INTEGERS,
    revisable: bool = False,
) -> Sink:
    make, _ = choose_sink(place, None)
    sink = make(Folder.at("/nowhere"))
    _OPEN.append(sink)
    sink.open(Begin(schema, query or place, clock, fresh, revisable=revisable))
    return sink


def results(batch: EventBatch) -> list[ShardResult]:
    half = len(batch) // 2
    parts = [batch.payload.slice(0, half), batch.payload.slice(half)]
    bounds = [slice(0, half), slice(half, None)]
    return [
        ShardResult(
            shard,
            output_head(),
            pack_events(EventBatch(rows, batch.start[at], batch.end[at], batch.new_end[at])),
        )
        for shard, (rows, at) in enumerate(zip(parts, bounds))
    ]


def events(batches: Sequence[EventBatch]) -> Counter[Row]:
    """The events that batches leave, one by one."""
    counts: Counter[Row] = Counter()
    for batch in batches:
        rows = zip(batch.payload.to_pylist(), batch.start, batch.end, batch.new_end)
        for payload, start, end, new_end in rows:
            if end > start:
                counts[(*payload.values(), int(start), int(end))] -= 1
            if new_end > start:
                counts[(*payload.values(), int(start), int(new_end))] += 1
    assert min(counts.values(), default=0) >= 0
    return +counts


ROUNDS = [
    batch_of([Insert({"k": 1, "name": "a"}, 3, 9), Insert({"k": 2, "name": None}, 1)], SCHEMA),
    batch_of(
        [
            Insert({"k": 1, "name": "a"}, 3, 9),
            Adjust({"k": 2, "name": None}, 1, FOREVER, 5),
            Insert({"k": 3, "name": ""}, 6, 7),
        ],
        SCHEMA,
    ),
    batch_of(
        [Adjust({"k": 1, "name": "a"}, 3, 9, 3), Insert({"k": 4, "name": 'ü,\n"'}, 8)], SCHEMA
    ),
]


def test_a_history_holds_every_event(tables: Tables) -> None:
    place = tables.place("history")
    sink = opened(place)
    for number, batch in enumerate(ROUNDS):
        sink.commit(number, Time(number), results(batch))
    assert tables.rows(place) == {
        (1, "a", 3, 9): 1,
        (2, None, 1, 5): 1,
        (3, "", 6, 7): 1,
        (4, 'ü,\n"', 8, FOREVER): 1,
    }


def test_what_is_current_is_not_over(tables: Tables) -> None:
    place = tables.place("current")
    sink = opened(place)
    for number, (batch, stable) in enumerate(zip(ROUNDS, (0, 6, 7))):
        sink.commit(number, Time(stable), results(batch))
    assert tables.rows(place) == {
        (1, "a", 3, 9): 1,
        (3, "", 6, 7): 1,
        (4, 'ü,\n"', 8, FOREVER): 1,
    }
    sink.commit(3, FOREVER, [])
    assert tables.rows(place) == {(4, 'ü,\n"', 8, FOREVER): 1}


@pytest.mark.parametrize("keep", ["log", "current", "history"])
def test_a_batch_that_comes_again_changes_nothing(tables: Tables, keep: str) -> None:
    once, again = tables.place(keep), tables.place(keep)
    sink = opened(once)
    for number, batch in enumerate(ROUNDS):
        sink.commit(number, Time(number), results(batch))
    for number, batch in enumerate(ROUNDS):
        for _ in range(2):
            sink = opened(again, fresh=not number)
            sink.commit(number, Time(number), results(batch))
            sink.close()
    if keep == "log":
        assert tables.elements(once) == tables.elements(again)
        assert tables.elements(once).total() == 10
    else:
        assert tables.rows(once) == tables.rows(again)


def test_times_are_timestamps_where_the_stream_has_them(tables: Tables) -> None:
    place = tables.place("history")
    sink = opened(place, clock=MICROSECONDS)
    second = 1_000_000
    batch = batch_of([Insert({"k": 1, "name": "a"}, 5 * second, 7 * second)], SCHEMA)
    sink.commit(0, Time(0), results(batch))
    ((row, count),) = tables.rows(place).items()
    assert (row[2], row[3], count) == (
        datetime.fromtimestamp(5, timezone.utc),
        datetime.fromtimestamp(7, timezone.utc),
        1,
    )
    place = tables.place("current")
    sink = opened(place, clock=MICROSECONDS)
    sink.commit(0, Time(7 * second), results(batch))
    assert len(tables.rows(place)) == 1
    sink.commit(1, Time(7 * second + 1), [])
    assert not tables.rows(place)


def test_binary_values_stay_as_they_are(tables: Tables) -> None:
    schema = pa.schema([("data", pa.binary())])
    values = [b"", b"\\x00", bytes(range(256)), None, b"last"]
    batch = batch_of([Insert({"data": value}, 1, 2) for value in values], schema)
    place = tables.place("history")
    opened(place, schema=schema).commit(0, Time(0), results(batch))
    assert tables.rows(place, schema) == {(value, 1, 2): 1 for value in values}


def test_a_table_of_another_query_is_refused(tables: Tables) -> None:
    place = tables.place("history")
    opened(place)
    opened(place, fresh=False)
    with pytest.raises(PlanError, match=r"already exists|belongs to another query"):
        opened(place, query="another")


def test_names_that_are_taken_are_refused(tables: Tables) -> None:
    with pytest.raises(PlanError, match="called 'copies'"):
        opened(tables.place("history"), schema=pa.schema([("copies", pa.int64())]))


def test_addresses_do_not_show_passwords(server: str) -> None:
    with pytest.raises(PlanError) as raised:
        choose_sink(f"{server}&keep=history", None)
    assert "secret" not in str(raised.value)
    with pytest.raises(EngineError) as failed:
        opened(server.replace("/postgres?", "/nothere?") + "&table=t")
    assert "secret" not in str(failed.value)
    assert "nothere" in str(failed.value)


def test_places_that_make_no_sense_say_what_does() -> None:
    for place in ("delta:", "delta:x#y", "postgresql://h/d", "postgresql://h/d?table=t&keep=all"):
        with pytest.raises(PlanError):
            choose_sink(place, None)


@given(data=st.data())
def test_changes_add_up_to_the_events(data: st.DataObject) -> None:
    stream = data.draw(streams(SCHEMA))
    batches = data.draw(batchings(stream))
    total: Counter[Row] = Counter()
    for batch in batches:
        for row in event_changes(batch, EventColumns(INTEGERS)).to_pylist():
            total[(row["k"], row["name"], row["valid_from"], _end(row))] += row["copies"]
            assert row["copies"] != 0
    assert +total == events(batches)
    assert all(count >= 0 for count in total.values())


@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_tables_hold_what_drawn_streams_say(tables: Tables, data: st.DataObject) -> None:
    batches = data.draw(batchings(data.draw(streams(SCHEMA))))
    history, current = tables.place("history"), tables.place("current")
    sinks = [opened(history), opened(current)]
    for number, batch in enumerate(batches):
        for sink in sinks:
            for _ in range(data.draw(st.integers(1, 2))):
                sink.commit(number, batch.stable, results(batch))
    assert tables.rows(history) == events(batches)
    stable = max((batch.stable for batch in batches), default=Time(0))
    still = {row: n for row, n in events(batches).items() if row[3] >= stable}
    assert tables.rows(current) == still
    for sink in sinks:
        sink.close()


A, B = {"k": 1, "name": "a"}, {"k": 2, "name": None}
OPEN = Round(batch_of([Insert(A, 15, 40), Insert(B, 3, 9)], SCHEMA).with_stable(Time(30)))
CORRECTED = Round(
    batch_of([Insert(B, 31, 33)], SCHEMA).with_stable(Time(31)),
    (
        revision(1, [Adjust(A, 20, 30, 20), Insert(B, 20, 30)], SCHEMA),
        revision(2, [Adjust(B, 3, 9, 3)], SCHEMA),
    ),
)
SHORTER = Round(batch_of([Adjust(A, 15, 40, 35)], SCHEMA).with_stable(Time(31)))
REVISED = [OPEN, CORRECTED, SHORTER]


def commit(sink: Sink, number: int, each: Round) -> None:
    sink.commit(number, each.rows.stable, results(each.rows), each.revisions)


def test_a_history_keeps_what_a_revision_takes_back(tables: Tables) -> None:
    place = tables.place("history")
    sink = opened(place, revisable=True)
    for number, each in enumerate(REVISED):
        commit(sink, number, each)
    names = ("name", "valid_from", "valid_to", "known_from", "known_until", "copies")
    found = {tuple(row[name] for name in names) for row in tables._read(place)}
    assert found == {
        ("a", 15, 35, None, 1, 1),
        ("a", 15, 20, 1, None, 1),
        ("a", 30, 35, 1, None, 1),
        (None, 20, 30, 1, None, 1),
        (None, 3, 9, None, 2, 1),
        (None, 31, 33, None, None, 1),
    }
    for number in range(3):
        assert tables.known(place, number) == meaning(REVISED, number)


def test_what_is_current_is_revised_where_it_is_not_over(tables: Tables) -> None:
    place = tables.place("current")
    sink = opened(place, revisable=True)
    for number, each in enumerate(REVISED):
        commit(sink, number, each)
    assert tables.rows(place) == {(1, "a", 30, 35): 1, (2, None, 31, 33): 1}


def test_a_table_of_elements_has_the_numbers_of_revisions(tables: Tables) -> None:
    place = tables.place("log")
    sink = opened(place, revisable=True)
    commit(sink, 0, OPEN)
    commit(sink, 1, CORRECTED)
    names = ("kind", "start", "end", "new_end", "k", "_revision", "_position")
    found = [[row[name] for name in names] for row in tables._read(place) if row["_batch"] == 1]
    assert sorted(found, key=lambda row: row[-1]) == [
        ["revise", 20, 30, 1, None, 1, 0],
        ["revise-adjust", 20, 30, 20, 1, 1, 1],
        ["revise-insert", 20, 30, None, 2, 1, 2],
        ["revise", 3, 9, 2, None, 2, 3],
        ["revise-adjust", 3, 9, 3, 2, 2, 4],
        ["insert", 31, 33, None, 2, None, 5],
        ["stable", 31, None, None, None, None, 6],
    ]


@pytest.mark.parametrize("keep", ["log", "current", "history"])
def test_a_revision_that_comes_again_is_found_in_the_table(tables: Tables, keep: str) -> None:
    once, again = tables.place(keep), tables.place(keep)
    sink = opened(once, revisable=True)
    for number, each in enumerate(REVISED):
        commit(sink, number, each)
    late = Round(SHORTER.rows, CORRECTED.revisions)
    repeated = [(0, OPEN), (1, CORRECTED), (1, CORRECTED), (2, late), (2, late), (2, SHORTER)]
    for fresh, (number, each) in enumerate(repeated):
        sink = opened(again, fresh=not fresh, revisable=True)
        commit(sink, number, each)
        sink.close()
    assert tables.elements(once) == tables.elements(again)


@pytest.mark.parametrize("keep", ["log", "current", "history"])
def test_a_revision_may_come_after_its_batch(tables: Tables, keep: str) -> None:
    once, later = tables.place(keep), tables.place(keep)
    sink = opened(once, revisable=True)
    commit(sink, 0, OPEN)
    commit(sink, 1, CORRECTED)
    sink = opened(later, revisable=True)
    commit(sink, 0, OPEN)
    commit(sink, 1, Round(CORRECTED.rows))
    commit(sink, 1, CORRECTED)
    if keep == "log":
        assert tables.elements(once).total() == tables.elements(later).total()
    else:
        assert tables.elements(once) == tables.elements(later)


def test_a_crash_in_a_transaction_leaves_no_part_of_a_revision(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tables.place("history")
    sink = opened(place, revisable=True)
    commit(sink, 0, OPEN)
    before = tables.elements(place)
    with monkeypatch.context() as broken:
        # The last step of either sink.
        last = "_merge" if tables.kind == "delta" else "_note"
        broken.setattr(type(sink), last, lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            commit(sink, 1, CORRECTED)
    assert tables.elements(place) == before
    commit(sink, 1, CORRECTED)
    assert tables.known(place, 2) == meaning(REVISED[:2])


def test_times_of_revised_events_are_timestamps(tables: Tables) -> None:
    place, second = tables.place("history"), 1_000_000
    sink = opened(place, clock=Clock(second, timestamps=True), revisable=True)
    for number, each in enumerate(REVISED):
        commit(sink, number, each)
    found = {
        (row["name"], row["valid_from"].timestamp(), row["valid_to"].timestamp())
        for row in tables._read(place)
        if row["known_until"] is None
    }
    assert found == {("a", 15, 20), ("a", 30, 35), (None, 20, 30), (None, 31, 33)}


def test_a_table_without_columns_for_revisions_is_refused_when_they_may_come(
    tables: Tables,
) -> None:
    place = tables.place("history")
    opened(place)
    with pytest.raises(PlanError, match="no columns for revisions"):
        opened(place, fresh=False, revisable=True)
    place = tables.place("log")
    commit(opened(place), 0, OPEN)
    commit(opened(place, fresh=False, revisable=True), 1, CORRECTED)
    assert {row["_revision"] for row in tables._read(place)} == {None, 1, 2}


def test_a_table_that_had_revisions_does_without_them(tables: Tables) -> None:
    place = tables.place("history")
    sink = opened(place, revisable=True)
    commit(sink, 0, OPEN)
    commit(sink, 1, CORRECTED)
    commit(opened(place, fresh=False), 2, SHORTER)
    assert tables.known(place, 2) == meaning(REVISED)


@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_tables_hold_what_drawn_revisions_say(tables: Tables, data: st.DataObject) -> None:
    rounds = data.draw(revised_rounds(SCHEMA))
    history, current = tables.place("history"), tables.place("current")
    sinks = [opened(place, revisable=True) for place in (history, current)]
    for number, each in enumerate(rounds):
        for sink in sinks:
            for _ in range(data.draw(st.integers(1, 2))):
                commit(sink, number, each)
    last = max((r.number for each in rounds for r in each.revisions), default=0)
    for number in range(last + 1):
        assert tables.known(history, number) == meaning(rounds, number)
    stable = Time(max((int(each.rows.stable) for each in rounds), default=0))
    assert at_or_after(tables.known(current, 0), stable) == at_or_after(meaning(rounds), stable)
    for sink in sinks:
        sink.close()


def test_a_table_of_elements_with_revisions_is_a_stream_again(tmp_path: Path) -> None:
    place = f"delta:{tmp_path / 'log'}"
    sink = opened(place, revisable=True)
    for number, each in enumerate(REVISED):
        commit(sink, number, each)
    file = tmp_path / "log.parquet"
    pq.write_table(DeltaTable(str(tmp_path / "log")).to_pyarrow_table(), file)
    assert describe(file).schema == SCHEMA
    for path in (place, str(file)):
        assert Engine().stream(path, name="back").node.schema.names == SCHEMA.names
    parts = list(read_parts(file))
    assert [part.number for part in parts if isinstance(part, Revision)] == [1, 2]
    assert LogicalStream.of_batches(read_batches(file)) == meaning(REVISED)
