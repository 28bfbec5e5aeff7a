"""What was read is read again in rounds, from files or an archive; open results are followed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anabranch.algebra.source import Source
from anabranch.errors import PlanError
from anabranch.migrate.handover import closing_moves
from anabranch.migrate.preparing import OpenResults
from anabranch.migrate.replayable import RereadableSources
from anabranch.migrate.rereading import (
    ArchivedRows,
    ArchiveReading,
    FileReading,
    ReadSoFar,
    is_over,
    rows_between,
    units_between,
)
from anabranch.model.arrivals import Arrivals
from anabranch.model.batch import EventBatch
from anabranch.model.clock import INTEGERS
from anabranch.model.elements import Element, Insert
from anabranch.model.logical import LogicalStream
from anabranch.model.time import BEGINNING, Time
from anabranch.runtime.archive.archive import Archive
from anabranch.runtime.archive.bucket import write_bucket
from anabranch.runtime.sinks.sinks import Begin, LogSink
from anabranch.runtime.sources.archived.pieces import ArchivedBatch
from anabranch.runtime.sources.files.log_cut import cut_log
from anabranch.runtime.sources.files.log_folder import write_part
from anabranch.runtime.sources.files.planned_batch import positions_after
from anabranch.runtime.sources.files.planner import FilePlanner
from anabranch.runtime.sources.late import judge, reached
from anabranch.runtime.sources.spec import FileSource, Limits
from anabranch.runtime.store.folder import Folder
from anabranch.testing.strategies import batchings, streams
from tests.migrate.test_change import Written
from tests.optimizer.plans import SCHEMA
from tests.runtime.late_sources import (
    FORMS,
    PAYLOAD,
    effect_of,
    expected,
    files,
    leaf,
    moves_of,
    promise_of,
    write_source,
)

INDEPENDENT = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def read_by_now(source: FileSource, folder: Path) -> list[ReadSoFar]:
    """How far a query has read the source, batch by batch."""
    planner = FilePlanner((source,), Folder.at(str(folder)), 2)
    found = [ReadSoFar({}, 0)]
    while planner.latest(found[-1].batch) > found[-1].batch:
        batch = found[-1].batch + 1
        found.append(ReadSoFar(positions_after(Folder.at(str(folder)), batch), batch))
    return found


@pytest.mark.parametrize("form", FORMS)
@given(data=st.data())
@INDEPENDENT
def test_files_are_read_again_as_they_were_read(
    form: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    content = data.draw(files(form), label="files")
    delay = data.draw(st.sampled_from([0, 1, 3, 8]) | st.none(), label="delay")
    late = data.draw(st.sampled_from(["drop", "adjust"]), label="late")
    folder = tmp_path_factory.mktemp("again")
    limits = Limits(data.draw(st.none() | st.integers(1, 4), label="rows per batch"))
    source = write_source(
        folder / "in",
        form,
        content,
        promise_of(delay, late),  # type: ignore[arg-type]
        limits,
        group=data.draw(st.integers(1, 3), label="rows in a row group"),
    )
    if not any(content):
        return
    reading = FileReading(source, leaf(source), BEGINNING)
    moves = []
    for to in read_by_now(source, folder / "planned"):
        # Some rounds read several batches at once.
        if data.draw(st.booleans(), label="round"):
            moves += [move for rows in reading.pieces(to) for move in moves_of(rows)]
    moves += [move for rows in reading.pieces(to) for move in moves_of(rows)]
    right = expected([each for one in content for each in one], delay, late)  # type: ignore[arg-type]
    assert effect_of(moves) == right.effect
    assert reading.promised == right.stable


@given(
    starts=st.lists(st.lists(st.integers(0, 60), max_size=5), min_size=1, max_size=5),
    data=st.data(),
)
@INDEPENDENT
def test_pieces_that_are_over_are_not_read_and_still_promise(
    starts: list[list[int]], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("over")
    delay = data.draw(st.sampled_from([0, 5, 100]), label="delay")
    source = points(folder / "in", starts, delay)
    node = replace(leaf(source), only_points=True)
    first = Time(data.draw(st.integers(0, 70), label="first"))
    *_, last = read_by_now(source, folder / "planned")
    if not last.batch:
        return
    whole, part = FileReading(source, node, BEGINNING), FileReading(source, node, first)
    every = [move for rows in whole.pieces(last) for move in moves_of(rows)]
    estimated = rows_between(part, last)
    found = [move for rows in part.pieces(last) for move in moves_of(rows)]
    assert found == [move for move in every if move[2] > first]
    assert part.promised == whole.promised
    # A piece is read as a whole, or not at all.
    assert part.rows <= estimated <= sum(map(len, starts))
    units = [unit for unit in units_between(source, {}, last.positions["s"]) if unit.rows]
    latest = [max(split.latest or 0 for split in unit.splits) for unit in units]
    over = [is_over(source, node, unit, first) for unit in units]
    assert over == [at < first for at in latest]
    # Events may hold for longer than their start tells.
    assert not any(is_over(source, leaf(source), unit, first) for unit in units)


def points(folder: Path, starts: Sequence[Sequence[int]], delay: int) -> FileSource:
    """Files of points."""
    content = [[Insert({"a": at}, at, at + 1) for at in one] for one in starts]
    source = write_source(folder, "parquet", content, promise_of(delay, "drop"), Limits(None, 1))
    assert source.shape is not None
    return replace(source, shape=replace(source.shape, end=None))


@given(
    batches=st.lists(st.lists(st.lists(st.integers(0, 30), max_size=4), max_size=3), max_size=5),
    data=st.data(),
)
@INDEPENDENT
def test_an_archive_is_read_again_with_what_was_promised_batch_by_batch(
    batches: list[list[list[int]]], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Rows of a DataFrame: those of a batch are late by what was promised before it."""
    folder = Folder.at(str(tmp_path_factory.mktemp("archive")))
    late = data.draw(st.sampled_from(["drop", "adjust"]), label="late")
    promise = promise_of(data.draw(st.sampled_from([0, 3]), label="delay"), late)  # type: ignore[arg-type]
    node = Source(name="s", schema=PAYLOAD, insert_only=True, only_points=True)
    archive = Archive(folder, None)
    archive.create("s", PAYLOAD, promise.clock, copied=True)
    promised, right = BEGINNING, []
    for batch, parts in enumerate(batches):
        pieces, furthest = [], promised
        for part, starts in enumerate(parts):
            elements: list[Element] = [Insert({"a": at}, at, at + 1) for at in starts]
            arrivals = Arrivals.of(elements, PAYLOAD)
            piece = write_bucket(
                folder, arrivals.batch, batch=batch, part=part, message=0, clock=promise.clock
            )
            pieces.append(piece)
            verdict = judge(promise, promised, arrivals, where="here", in_order=False)
            right += list(moves_of(verdict.batch))
            furthest = Time(max(furthest, reached(promise, arrivals)))
        promised = furthest
        archive.add(ArchivedBatch(batch=batch, pieces=tuple(pieces), promised=int(promised)))
    reading = ArchiveReading(ArchivedRows(promise, archive, ordered=False), node, BEGINNING)
    found = []
    for batch in range(len(batches)):
        if data.draw(st.booleans(), label="round"):
            read = ReadSoFar({}, batch + 1)
            found += [move for rows in reading.pieces(read) for move in moves_of(rows)]
    last = ReadSoFar({}, len(batches))
    found += [move for rows in reading.pieces(last) for move in moves_of(rows)]
    assert sorted(found) == sorted(right)
    assert reading.promised == promised


@given(streams(SCHEMA).flatmap(batchings), st.data())
def test_open_results_are_followed_and_those_that_are_over_forgotten(
    batches: list[EventBatch], data: st.DataObject
) -> None:
    sink = Written([])
    results = OpenResults(sink)
    stable = BEGINNING
    for batch in batches:
        sink.written.append(batch)
        stable = Time(max(stable, batch.stable))
        if data.draw(st.booleans(), label="round"):
            results.read(stable)
    at = Time(max(stable, data.draw(st.integers(0, 20), label="at")))
    results.read(at)
    found, right = results.closing(at), closing_moves(batches, at)
    shown = [LogicalStream.of_batches([*batches, each]) for each in (found, right) if each]
    assert len(shown) != 1 or found is None or not len(found)
    if len(shown) == 2:
        assert shown[0] == shown[1]


def test_a_log_is_followed_from_a_batch_on_and_not_beyond_the_one_that_is_done_again(
    tmp_path: Path,
) -> None:
    def batch(at: int) -> EventBatch:
        elements: list[Element] = [Insert({"a": at}, at, at + 100)]
        return Arrivals.of(elements, PAYLOAD).batch

    sink = LogSink(str(tmp_path / "log"))
    sink.open(Begin(PAYLOAD, "q", INTEGERS, True))
    for number in range(4):
        file = write_part(sink.out, number, 0, batch(number), clock=INTEGERS)
        sink.log.commit(number, number, [file])
    position, found = sink.batches_from(0, before=2)
    assert (position, [each.start.tolist() for each in found]) == (2, [[0], [1]])
    position, found = sink.batches_from(position, before=3)
    assert (position, [each.start.tolist() for each in found]) == (3, [[2]])
    assert sink.batches_from(3, before=3) == (3, [])
    cut_log(sink.out, 2)
    with pytest.raises(PlanError, match="was cut while it was being read"):
        sink.batches_from(1)


def test_what_cannot_be_read_again_is_refused_with_what_can_be_done(tmp_path: Path) -> None:
    source = points(tmp_path / "in", [[1], [2]], 0)
    *_, last = read_by_now(source, tmp_path / "planned")
    needed = {"s": BEGINNING}
    chosen, why = RereadableSources({"s": source}).choose(needed, last)
    assert (chosen, why) == ({"s": source}, None)
    _, why = RereadableSources({}).choose(needed, last)
    assert why == (
        "the rows of 's' come from a DataFrame and are not kept, and it has no archive "
        "(ARCHIVE '<folder>' keeps them)"
    )
    (tmp_path / "in" / "0.parquet").unlink()
    _, why = RereadableSources({"s": source}).choose(needed, last)
    assert why is not None
    assert "files of 's' are gone" in why
    archive = Archive(Folder.at(str(tmp_path / "archive")), None)
    archive.create("s", PAYLOAD, source.promise.clock, copied=True)
    rows = ArchivedRows(source.promise, archive, ordered=True)
    chosen, why = RereadableSources({"s": source}, {"s": rows}).choose(needed, last)
    assert (chosen, why) == ({"s": rows}, None)
    with_stables = replace(rows, has_stables=True)
    _, why = RereadableSources({}, {"s": with_stables}).choose(needed, last)
    assert why == "which rows of 's' were late, its archive does not tell"
