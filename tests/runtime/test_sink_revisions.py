"""What sinks make of revisions: each counts once, in front of the rows of its batch."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from tests.runtime.heads import output_head
from tests.runtime.revised_streams import Round, meaning, revised_rounds, revision

from anabranch.errors import PlanError
from anabranch.kernels.contract.packed_events import pack_events
from anabranch.model.batch import EventBatch
from anabranch.model.clock import INTEGERS
from anabranch.model.elements import Adjust, Element, Insert, batch_of
from anabranch.model.logical import LogicalStream
from anabranch.model.revision import Revision
from anabranch.model.time import FOREVER, Time
from anabranch.runtime.elements.elements import element_table
from anabranch.runtime.sinks.line_sinks import LinesSink, StreamFileSink
from anabranch.runtime.sinks.message_sink import Messages, MessageSink
from anabranch.runtime.sinks.sinks import (
    Begin,
    CallbackSink,
    LogSink,
    MemorySink,
    ShardResult,
    Sink,
)
from anabranch.runtime.sources.files.log_folder import LogFolder, write_part
from anabranch.runtime.store.folder import Folder

SCHEMA = pa.schema([("k", pa.int64())])


def rows(*elements: Element) -> EventBatch:
    return batch_of(elements, SCHEMA)


FIRST = rows(Insert({"k": 1}, 15, 40))
SECOND = rows(Insert({"k": 2}, 31))
ONE = revision(1, [Adjust({"k": 1}, 20, 30, 20), Insert({"k": 3}, 20, 30)], SCHEMA)
TWO = revision(2, [Insert({"k": 1}, 21, 22)], SCHEMA)
REVISED = [
    ((1,), 15, 20),
    ((1,), 21, 22),
    ((1,), 30, 40),
    ((2,), 31, FOREVER),
    ((3,), 20, 30),
]
LINES = [
    '{"insert": {"k": 1}, "start": 15, "end": 40}',
    '{"stable": 30}',
    '{"revise": 1, "from": 20, "to": 30, "changes": ['
    '{"adjust": {"k": 1}, "start": 20, "end": 30, "new_end": 20}, '
    '{"insert": {"k": 3}, "start": 20, "end": 30}]}',
    '{"revise": 2, "from": 21, "to": 22, "changes": ['
    '{"insert": {"k": 1}, "start": 21, "end": 22}]}',
    '{"insert": {"k": 2}, "start": 31}',
    '{"stable": 31}',
]


def begin(*, fresh: bool = True) -> Begin:
    return Begin(SCHEMA, "q", INTEGERS, fresh=fresh, revisable=True)


def results(sink: Sink, number: int, batch: EventBatch, before: int) -> list[ShardResult]:
    if sink.delivery == "log":
        files = [write_part(sink.out, number, 0, batch, clock=INTEGERS)] if len(batch) else []
        return [ShardResult(0, output_head(before=before, files=files), None)]
    return [ShardResult(0, output_head(before=before), pack_events(batch))]


def commit(
    sink: Sink, number: int, batch: EventBatch, stable: int, revisions: Sequence[Revision] = ()
) -> None:
    before = {0: 0, 1: 30}.get(number, 31)
    sink.commit(number, Time(stable), results(sink, number, batch, before), revisions)


def readable(folder: Path) -> list[Callable[[], Sink]]:
    """Sinks that can be read back; made twice they are the same one, if they outlive a process."""
    memory = MemorySink()
    return [
        lambda: LogSink(str(folder / "log")),
        lambda: StreamFileSink(str(folder / "out.jsonl"), Folder.at(str(folder / "sizes"))),
        lambda: memory,
    ]


@pytest.mark.parametrize("kind", range(3))
def test_what_can_be_read_back_has_the_revisions(tmp_path: Path, kind: int) -> None:
    sink = readable(tmp_path)[kind]()
    sink.open(begin())
    commit(sink, 0, FIRST, 30)
    commit(sink, 1, SECOND, 31, [ONE, TWO])
    found = sink.batches()
    assert LogicalStream.of_batches(found).events() == sorted(
        REVISED, key=lambda event: (event[1], event[2])
    )
    assert [(each.number, each.first, each.last) for each in sink.revisions()] == [
        (1, 20, 30),
        (2, 21, 22),
    ]
    assert found[-1].stable == 31
    assert element_table(sink.parts(), SCHEMA).column("kind").to_pylist() == [
        "insert",
        "stable",
        "revise",
        "revise-adjust",
        "revise-insert",
        "revise",
        "revise-insert",
        "insert",
        "stable",
    ]


@pytest.mark.parametrize("kind", range(3))
def test_a_revision_that_comes_again_counts_once(tmp_path: Path, kind: int) -> None:
    make = readable(tmp_path)[kind]
    make().open(begin())
    lasts = kind < 2
    for number, batch, stable, revisions in (
        (0, FIRST, 30, []),
        (1, SECOND, 31, [ONE]),
        (1, SECOND, 31, [ONE]),
        (2, rows(), 31, [ONE, TWO]),
        (2, rows(), 31, [ONE, TWO]),
        (3, rows(), 31, [TWO]),
    ):
        sink = make()
        if lasts:
            sink.open(begin(fresh=False))
        commit(sink, number, batch, stable, revisions)
    assert [each.number for each in make_opened(make, lasts).revisions()] == [1, 2]
    found = LogicalStream.of_batches(make_opened(make, lasts).batches())
    assert sorted(found.events()) == REVISED


def make_opened(make: Callable[[], Sink], lasts: bool) -> Sink:
    sink = make()
    if lasts:
        sink.open(begin(fresh=False))
    return sink


@given(revised_rounds(SCHEMA))
def test_memory_has_the_snapshots_after_all_revisions(rounds: list[Round]) -> None:
    sink = MemorySink()
    sink.open(begin())
    for number, each in enumerate(rounds):
        for _ in range(2):
            sink.commit(
                number, each.rows.stable, results(sink, number, each.rows, 0), each.revisions
            )
    assert LogicalStream.of_batches(sink.batches()) == meaning(rounds)


def test_lines_have_a_revision_on_one_line_before_the_rows(tmp_path: Path) -> None:
    out = io.BytesIO()
    sinks = [LinesSink(out), readable(tmp_path)[1]()]
    for sink in sinks:
        sink.open(begin())
        commit(sink, 0, FIRST, 30)
        commit(sink, 1, SECOND, 31, [ONE, TWO])
    assert out.getvalue().decode().splitlines() == LINES
    assert (tmp_path / "out.jsonl").read_text().splitlines() == LINES


def test_a_file_is_cut_back_with_its_revisions(tmp_path: Path) -> None:
    make = readable(tmp_path)[1]
    sink = make()
    sink.open(begin())
    commit(sink, 0, FIRST, 30)
    commit(sink, 1, SECOND, 31, [ONE, TWO])
    file = tmp_path / "out.jsonl"
    file.write_bytes(file.read_bytes()[:-30])
    again = make()
    again.open(begin(fresh=False))
    commit(again, 1, SECOND, 31, [ONE, TWO])
    assert file.read_text().splitlines() == LINES


def test_a_log_lists_a_file_per_revision(tmp_path: Path) -> None:
    sink = LogSink(str(tmp_path / "log"))
    sink.open(begin())
    commit(sink, 0, FIRST, 30)
    commit(sink, 1, SECOND, 31, [ONE, TWO])
    (before, entry) = sink.log.entries()
    assert [(each.number, each.first, each.last) for each in entry.revisions] == [
        (1, 20, 30),
        (2, 21, 22),
    ]
    assert (before.format, entry.format) == (1, 2)
    for each in entry.revisions:
        assert (tmp_path / "log" / each.file.name).exists()


def test_a_log_knows_the_revisions_of_entries_that_were_removed(tmp_path: Path) -> None:
    LogFolder(str(tmp_path / "log")).create(SCHEMA, query="q", clock=INTEGERS, revised=1)
    sink = LogSink(str(tmp_path / "log"))
    sink.open(begin(fresh=False))
    commit(sink, 0, FIRST, 30, [ONE, TWO])
    assert [each.number for each in sink.revisions()] == [2]


def test_a_revision_is_one_message_with_a_key_of_its_own() -> None:
    sent: dict[bytes, bytes] = {}
    order: list[bytes] = []

    def send(messages: Sequence[tuple[bytes, bytes]]) -> None:
        sent.update(messages)
        order.extend(key for key, _ in messages)

    for _ in range(2):
        sink = MessageSink(Messages(send))
        sink.open(begin())
        commit(sink, 1, SECOND, 31, [ONE, TWO])
    commit(sink, 2, rows(), 31, [TWO])
    assert {key.decode(): value.decode() for key, value in sent.items()} == dict(
        zip(
            ["q/revision/000000001", "q/revision/000000002"]
            + [f"q/000000001/{number:09}" for number in range(2)],
            LINES[2:],
        )
    )
    assert order[:4] == list(sent)
    assert len(order) == 8


def test_a_function_gets_a_revision_as_rows_with_its_number() -> None:
    seen: list[list[tuple[object, ...]]] = []
    sink = CallbackSink(
        lambda table, _: seen.append([tuple(r.values()) for r in table.to_pylist()])
    )
    sink.open(begin())
    for _ in range(2):
        commit(sink, 1, SECOND, 31, [ONE])
    commit(sink, 2, rows(), 31, [ONE])
    assert seen[0] == [
        ("revise", 20, 30, 1, None, 1),
        ("revise-adjust", 20, 30, 20, 1, 1),
        ("revise-insert", 20, 30, None, 3, 1),
        ("insert", 31, None, None, 2, None),
        ("stable", 31, None, None, None, None),
    ]
    assert seen[1:] == [seen[0], []]


def test_the_column_for_revisions_is_reserved_where_they_may_come() -> None:
    schema = pa.schema([("_revision", pa.int64())])
    CallbackSink(print).open(Begin(schema, "q", INTEGERS, fresh=True))
    with pytest.raises(PlanError, match="called '_revision'"):
        CallbackSink(print).open(Begin(schema, "q", INTEGERS, fresh=True, revisable=True))
