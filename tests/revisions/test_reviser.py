"""The thread that corrects the past of a query, over archives in folders, without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from anabranch.algebra.analysis.spans import EVERYTHING
from anabranch.algebra.node import Node
from anabranch.algebra.time_window import TimeWindow
from anabranch.errors import StreamError
from anabranch.kernels.plan.late_rows import open_bound
from anabranch.model.batch import EventBatch
from anabranch.model.clock import INTEGERS
from anabranch.model.lifetimes import lifetimes_of
from anabranch.model.logical import LogicalStream
from anabranch.model.payload import payloads, rows_of
from anabranch.model.revision import Revision
from anabranch.model.time import BEGINNING, Duration, Time
from anabranch.runtime.archive.archive import Archive
from anabranch.runtime.archive.arrived import ArrivedFolder, ArrivedPart, WithheldFolder
from anabranch.runtime.archive.bucket import write_bucket
from anabranch.runtime.revisions.choice import StrategyChoice
from anabranch.runtime.revisions.lineage import LineageFolder
from anabranch.runtime.revisions.past import touching
from anabranch.runtime.revisions.records import CorrectionRecord
from anabranch.runtime.revisions.replayer import Replayer
from anabranch.runtime.revisions.revised_query import RevisedQuery
from anabranch.runtime.revisions.reviser import Reviser
from anabranch.runtime.revisions.stored_past import StoredPast
from anabranch.runtime.sources.spec import ArchiveSpec
from anabranch.runtime.store.control import ControlFolder
from anabranch.runtime.store.folder import Folder
from tests.kernels.plans import SCHEMA, SOURCE, aggregate

SUMS: Final[Node] = aggregate(
    TimeWindow(input=SOURCE, size=Duration(10), slide=Duration(10)), ("k",), "s"
)
KEYS: Final = ("a", "b", "c", "d")


def points(*rows: tuple[str | None, int, int]) -> EventBatch:
    """Rows (k, v, at) that hold at one instant."""
    at = np.array([at for *_, at in rows], np.int64)
    return EventBatch(
        rows_of([(k, v, None) for k, v, _ in rows], SCHEMA), at, at, at + 1, BEGINNING
    )


class Kept:
    """A query whose batches are brought by hand: 10 instants each, a row per key and instant."""

    def __init__(self, folder: Path, strategy: StrategyChoice, keep: int | None = None) -> None:
        self.folder = str(folder / "revisions")
        self.replayer = Replayer.of([SUMS], strategy=strategy)
        spec = ArchiveSpec(keep_age=None if keep is None else Duration(keep))
        self.archive = Archive(Folder.at(str(folder / "archive")), None, spec)
        self.archive.create("S", SCHEMA, INTEGERS, copied=True)
        self.control = ControlFolder(Folder.at(str(folder / "control")))
        lineage = LineageFolder(Folder.at(self.folder).child("lineage"), self.replayer.nodes)
        self.query = RevisedQuery(
            folder=self.folder,
            replayer=self.replayer,
            archives={"S": self.archive},
            columns={"S": SCHEMA},
            revised=frozenset({"S"}),
            outputs=(SUMS.schema,),
            control=self.control,
            lineage=lineage if strategy == "RM" else None,
        )
        self.reviser = Reviser(self.query)
        self.batch = 0
        self.promised = BEGINNING

    def bring(self, rows: EventBatch, reached: int) -> None:
        """A batch with these rows, of which some may be late."""
        late = rows.where(rows.start < self.promised)
        piece = write_bucket(self.archive.folder, rows, batch=self.batch, part=0, clock=INTEGERS)
        if len(late):
            WithheldFolder.of(self.folder, "S").write(self.batch, 0, late)
        part = ArrivedPart(
            source="S",
            part=0,
            pieces=(piece,),
            promised=int(self.promised),
            bound=int(open_bound(self.replayer.plan, "S", self.promised)) if len(late) else 0,
            withheld=len(late),
            reached=reached,
        )
        ArrivedFolder.of(self.folder).write(self.batch, part)
        self.promised = Time(max(self.promised, reached))
        told = [lifetimes_of(points(*((None, 0, at) for at in range(reached - 1, reached))))]
        self.reviser.committed(self.batch, [], [Time(reached)], told)
        self.batch += 1
        assert self.reviser.wait(timeout=30)

    def bring_all(self, batches: int) -> None:
        for number in range(batches):
            instants = range(10 * number, 10 * number + 10)
            self.bring(points(*((k, at, at) for at in instants for k in KEYS)), 10 * number + 10)

    def revisions(self) -> list[Revision]:
        """Those that were handed in and not taken into a batch yet."""
        commands = [self.control.read(name, {"S": True}) for name in self.control.waiting()]
        found = [each for each in commands if each is not None]
        (own,) = self.reviser.revisions(self.batch, found)
        return own

    @property
    def records(self) -> Sequence[CorrectionRecord]:
        return self.reviser.corrections


@contextmanager
def kept(
    folder: Path, strategy: StrategyChoice = "auto", keep: int | None = None
) -> Iterator[Kept]:
    found = Kept(folder, strategy, keep)
    try:
        yield found
    finally:
        found.reviser.close()


def changes(revision: Revision) -> list[tuple[object, ...]]:
    """Key, sum, and from when to when; withdrawals have their times the other way round."""
    rows = revision.changes
    return sorted(
        (*payload, int(end), int(new_end))
        for payload, end, new_end in zip(
            payloads(rows.payload, len(rows)), rows.end, rows.new_end, strict=True
        )
    )


@pytest.mark.parametrize("strategy", ["auto", "RA", "RM", "RW"])
def test_a_late_row_corrects_the_window_it_is_in(tmp_path: Path, strategy: StrategyChoice) -> None:
    with kept(tmp_path, strategy) as query:
        query.bring_all(10)
        query.bring(points(("b", 1000, 25)), 100)
        (revision,) = query.revisions()
        assert changes(revision) == [("b", 245, 39, 29), ("b", 1245, 29, 39)]
        (record,) = query.records
        (step,) = record.emissions
        assert step.strategy == ("RW" if strategy == "auto" else strategy)
        assert step.restricted == {"S": ("k",)}
        # Of all keys only one, and but for RA of all batches the one with the window. The late row
        # itself came alone, and need not be read again.
        assert step.replayed == (100 if strategy == "RA" else 10)


@pytest.mark.parametrize("strategy", ["auto", "RA", "RM", "RW"])
@pytest.mark.parametrize("beside", [(), (("b", 7, 26),), (("b", 7, 102), ("b", 8, 27))])
def test_late_rows_count_once_whatever_they_come_with(
    tmp_path: Path, strategy: StrategyChoice, beside: Sequence[tuple[str, int, int]]
) -> None:
    """The second correction is of a window with a row of the first one."""
    with kept(tmp_path, strategy) as query:
        query.bring_all(10)
        query.bring(points(("b", 1000, 25), *beside), 100)
        query.bring(points(("b", 5, 28)), 100)
        more = sum(v for _, v, at in beside if at < 100)
        first, second = query.revisions()
        assert changes(first) == [("b", 245, 39, 29), ("b", 1245 + more, 29, 39)]
        assert changes(second) == [("b", 1245 + more, 39, 29), ("b", 1250 + more, 29, 39)]


def test_batches_of_which_nothing_was_taken_in_are_not_read(tmp_path: Path) -> None:
    with kept(tmp_path) as query:
        query.bring_all(10)
        query.bring(points(("a", 1, 25), ("b", 2, 26)), 100)
        query.bring(points(("a", 1, 27), ("b", 2, 101)), 110)
        query.bring(points(("a", 1, 28), ("b", 2, 55)), 110)
        span = (Time(20), Time(30))
        past, careful = query.query.past(99), replace(query.query, revised=frozenset()).past(99)
        withheld = [(batch, touching(each, span)) for batch, each in past.withheld("S", span)]
        # Of the last one a row was withheld that is at another time: it is not known of which.
        assert past.absent("S", span, withheld) == {10}
        assert careful.absent("S", span, withheld) == frozenset()
        for revised in ((), (10,), (11, 12), (10, 11, 12)):
            found, wanted = (
                LogicalStream.of_batches([each.believed("S", span, revised)])
                for each in (past, careful)
            )
            assert not found.difference(wanted)


def test_what_the_archive_no_longer_has_is_in_quarantine(tmp_path: Path) -> None:
    with kept(tmp_path, keep=30) as query:
        query.bring_all(10)
        assert query.archive.cut(Time(100)) == 60
        query.bring(points(("b", 1000, 25)), 100)
        assert query.revisions() == []
        (record,) = query.records
        assert record.status == "quarantined"
        assert "source 'S': needed [20, 30), archived from 60 on" in record.reason
        assert "KEEP" in record.reason


@pytest.mark.parametrize("strategy", ["auto", "RA", "RM", "RW"])
def test_later_revisions_do_without_what_is_in_quarantine(
    tmp_path: Path, strategy: StrategyChoice
) -> None:
    with kept(tmp_path, strategy, keep=30) as query:
        query.bring_all(10)
        query.archive.cut(Time(100))
        query.bring(points(("b", 1000, 25)), 100)
        query.bring(points(("b", 7, 85)), 100)
        first, second = query.records
        assert (first.status, second.status) == ("quarantined", "computed")
        (revision,) = query.revisions()
        assert revision.number == 1
        assert changes(revision) == [("b", 845, 99, 89), ("b", 852, 89, 99)]


def test_a_quarantine_is_there_after_a_restart(tmp_path: Path) -> None:
    with kept(tmp_path, keep=30) as query:
        query.bring_all(10)
        query.archive.cut(Time(100))
        query.bring(points(("b", 1000, 25)), 100)
    again = Reviser(query.query)
    try:
        assert again.wait(timeout=30)
        assert [each.status for each in again.corrections] == ["quarantined"]
    finally:
        again.close()


@pytest.mark.parametrize("strategy", ["auto", "RA", "RM", "RW"])
def test_every_strategy_refuses_input_that_is_gone_and_no_other(
    tmp_path: Path, strategy: StrategyChoice
) -> None:
    with kept(tmp_path, strategy, keep=30) as query:
        query.bring_all(10)
        query.archive.cut(Time(100))
        past = StoredPast(query.folder, query.query.archives, query.query.columns, 99)
        for row, is_there in ((points(("a", 1, 58)), False), (points(("a", 1, 60)), True)):
            reach = query.replayer.reach("S", row, EVERYTHING, past, query.query.lineage)
            if is_there:
                assert query.replayer.replay(past, "S", row, reach, {})
            else:
                with pytest.raises(StreamError, match=r"needed \[50, 60\), archived from 60 on"):
                    query.replayer.replay(past, "S", row, reach, {})
