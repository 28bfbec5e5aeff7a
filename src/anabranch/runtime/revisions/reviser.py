"""Corrects the past of a running query, beside it: a thread of the driver.

Who does what, in the order of a correction:

    task         leaves late rows in `withheld/` and where all rows are in `arrived/`
    committer    when the batch is committed: adds to the archives, writes `<id>.json`: received
    this thread  when enough is settled: finds the reach (planned), replays it, writes the changes
                 (computed), and hands a command `revise <serial>` to the control stream
    planner      takes the command into a batch, as it takes rows
    committer    finds the command in the results of that batch: the changes go to the sinks in one
                 commit with the rows of the batch, then the record says so: committed

A crash at any point leaves records from which the next start goes on. The batch that brings the
changes is written down by the planner before it runs, so a batch that is repeated brings them
again, and no other batch does.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, final

from anabranch.errors import AnabranchError, EngineError
from anabranch.kernels.columns.grouped import start_loading
from anabranch.kernels.contract.command import FEED, REVISE, Command
from anabranch.model.record import REPORT, plain, record
from anabranch.model.revision import Revision
from anabranch.model.time import BEGINNING, Time
from anabranch.runtime.archive.arrived import ArrivedFolder, ArrivedPart
from anabranch.runtime.revisions.computing import RevisionComputer
from anabranch.runtime.revisions.correction_book import CorrectionBook
from anabranch.runtime.revisions.corrections import due, pieces
from anabranch.runtime.revisions.exchanging import PendingExchange, StateExchanger
from anabranch.runtime.revisions.handing_in import put_again
from anabranch.runtime.revisions.holding import EventHolder
from anabranch.runtime.revisions.lineage import Lifetimes
from anabranch.runtime.revisions.records import CorrectionRecord, CorrectionStatus
from anabranch.runtime.revisions.replayer import span_of
from anabranch.runtime.revisions.revised_query import RevisedQuery
from anabranch.runtime.revisions.submissions import SubmissionFolder
from anabranch.runtime.sources.archived.pieces import ArchivedBatch
from anabranch.runtime.store.busy import BusyMark
from anabranch.runtime.store.folder import Folder
from anabranch.runtime.store.phases import reached

_PROGRESS: Final = "progress.json"
_CUT_EVERY: Final = 64
"""Batches between two looks at what archives need not keep."""


def _now() -> int:
    return time.time_ns() // 1000


@final
@dataclass(frozen=True, slots=True)
class OutputProgress:
    """How far all outputs were settled, after a batch; as it is in `revisions/progress.json`."""

    batch: int
    stable: int
    stables: tuple[int, ...] = ()


class Reviser:
    """Takes note of what batches bring, and computes the revisions of their late rows."""

    def __init__(self, query: RevisedQuery, *, now: Callable[[], int] = _now) -> None:
        """Go on where the records in the checkpoint end."""
        self._query = query
        self._now = now
        self._folder = Folder.at(query.folder)
        self._book = CorrectionBook(self._folder)
        self._computer = RevisionComputer(query, self._book)
        self._exchanger = StateExchanger(query, self._book)
        self._holder = EventHolder(query)
        self._busy = BusyMark(self._folder)
        self._arrived = ArrivedFolder.of(query.folder)
        self._submissions = SubmissionFolder(query.folder)
        self._handed_in = 0
        self._changed = self._book.changed
        self._batch, self._stable = self._query.next_batch - 1, BEGINNING
        self._stables: tuple[Time, ...] = (BEGINNING,) * len(query.outputs)
        self._take_up()
        self._failure: AnabranchError | None = None
        self._is_closing = False
        self._works = False
        self._begun = self._batch
        self._holds = False
        self._pending: PendingExchange | None = None
        self._exchanger.forget(query.next_batch)
        self._put_again()
        self._note()
        self._thread = threading.Thread(target=self._work, name="anabranch-reviser", daemon=True)
        self._thread.start()

    @property
    def corrections(self) -> list[CorrectionRecord]:
        """All records, oldest first."""
        return self._book.all()

    def begin(self, batch: int) -> None:
        """A batch begins: what it may take in is decided, also if it began before and was lost."""
        with self._changed:
            self._begun = batch
            self._exchanger.forget(batch)
            if self._query.swapper is not None:
                self._holder.hold_open(batch, self._book.outside())

    def hold_back(self, batch: int) -> bool:
        """Whether a batch that was computed has to be computed again; see `holding.py`."""
        return self._query.swapper is not None and self._holder.hold_back(batch)

    def revisions(self, batch: int, commands: Sequence[Command]) -> list[list[Revision]]:
        """Per output, the revisions that a batch with these commands brings.

        Where state was exchanged, a guard may have been told of something below its stable point:
        that is a revision of the batch, too, behind the others.
        """
        with self._changed:
            if self._query.swapper is not None:
                # Before anything is numbered: what a batch has missed gives its numbers back.
                missed = self._book.drop_missed(batch, _values(commands, REVISE))
                self._holds = self._holds or missed
        steps = [self._book.of_serial(serial) for serial in self._brought(batch, commands)]
        if self._query.swapper is not None:
            below = self._exchanger.below(batch, self._now())
            if below is not None:
                steps.append((below, 0))
        found: list[list[Revision]] = [[] for _ in self._query.outputs]
        for correction, step in steps:
            brought = self._book.revisions(correction, step, self._query.outputs)
            for own, revision in zip(found, brought, strict=True):
                if revision is not None:
                    own.append(revision)
        return found

    def _brought(self, batch: int, commands: Sequence[Command]) -> list[int]:
        """The steps that a batch brings, by serial number."""
        named = _values(commands, REVISE)
        return named if self._query.swapper is None else self._book.brought(named, batch)

    def committed(
        self,
        batch: int,
        commands: Sequence[Command],
        stables: Sequence[Time],
        lifetimes: Sequence[Lifetimes] = (),
    ) -> None:
        """Take note of a batch that the sinks have.

        Args:
            batch: Its number.
            commands: What the control stream brought with it.
            stables: How far each output is settled.
            lifetimes: Those of what each output got, where lineage is noted.

        Raises:
            AnabranchError: Revisions cannot be computed any more, so the query must not go on.
        """
        with self._changed:
            if self._failure is not None:
                raise self._failure
            if self._query.lineage is not None and lifetimes:
                self._query.lineage.add(batch, lifetimes)
            for serial in self._brought(batch, commands):
                for number in self._book.commit(serial, batch):
                    reached("revision committed", number)
                self._pending = None
            for number in _values(commands, FEED):
                # Before the archive has them: whoever looks for rows asks it first.
                self._submissions.committed(number, batch)
            self._put_submissions_again()
            self._take(batch)
            self._batch, self._stable, self._stables = batch, Time(min(stables)), tuple(stables)
            if batch % _CUT_EVERY == 0 and self._query.swapper is not None:
                self._holder.forget(batch)
            if self._book.open():
                progress = OutputProgress(batch, int(self._stable), tuple(map(int, stables)))
                self._folder.write_json(_PROGRESS, plain(progress))
            self._holds = self._holds or (self._waits and bool(self._to_swap()))
            self._note()
            self._changed.notify_all()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until there is nothing to compute; whether that is so.

        Raises:
            AnabranchError: The thread has failed.
        """
        with self._changed:
            idle = self._changed.wait_for(
                lambda: self._failure is not None or self._is_closing or not self._is_busy, timeout
            )
            if self._failure is not None:
                raise self._failure
            return idle

    def close(self) -> None:
        """End the thread; a replay that is under way is done again by the next start."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        if self._thread is not threading.current_thread():
            self._thread.join(timeout=30)

    @property
    def has_work(self) -> bool:
        """Whether something is being computed, or is computed and waits for a batch."""
        with self._changed:
            waits = bool(self._book.waiting())
            return self._failure is None and not self._is_closing and (self._is_busy or waits)

    @property
    def _is_busy(self) -> bool:
        return self._works or bool(self._due()) or bool(self._to_swap())

    @property
    def _waits(self) -> bool:
        """Whether input waits as soon as state has to be exchanged."""
        return self._query.rounds == 0

    def _note(self) -> None:
        """Keep the mark for the planner true."""
        works = self._failure is None
        self._busy.set(busy=works and self._is_busy, hold=works and self._holds)

    def _take_up(self) -> None:
        """Go on from how far outputs were settled when it mattered last."""
        content = self._folder.read_json(_PROGRESS)
        if content is None:
            return
        where = f"{self._folder.path}/{_PROGRESS}"
        found = record(OutputProgress, content, where=where, hint=REPORT)
        if found.batch <= self._batch:
            self._stable = Time(found.stable)
            self._stables = tuple(map(Time, found.stables)) or self._stables

    def _put_again(self) -> None:
        """Hand in commands that a crash may have kept from being handed in."""
        waiting = self._book.waiting()
        if waiting:
            for serial in sorted(waiting - self._query.control.values(REVISE)):
                self._query.control.put(Command(verb=REVISE, value=serial))
        self._put_submissions_again()

    def _put_submissions_again(self) -> None:
        """Hand in submissions whose command is missing, where there are new ones."""
        count = self._submissions.count()
        if count != self._handed_in and put_again(self._query.folder, self._query.control):
            self._handed_in = count

    def _take(self, batch: int) -> None:
        """Add what a batch brought to the archives, and note what came late."""
        parts: dict[str, list[ArrivedPart]] = {}
        for part in self._arrived.take(batch):
            parts.setdefault(part.source, []).append(part)
        for source, own in parts.items():
            archive = self._query.archives[source]
            entry = ArchivedBatch(
                batch=batch,
                pieces=tuple(piece for part in own for piece in part.pieces),
                promised=max(max(part.reached, part.promised) for part in own),
                known_at=self._now(),
            )
            archive.add(entry)
            late = [part for part in own if part.withheld]
            if late and source in self._query.revised:
                number = self._receive(source, batch, late, entry.known_at)
                if self._query.response != "ignore":
                    archive.add_late(number, entry)
            if batch % _CUT_EVERY == 0 and not self._book.open():
                archive.cut(Time(entry.promised))
                if self._query.lineage is not None:
                    every = self._query.archives.items()
                    self._query.lineage.cut({name: each.oldest() for name, each in every})

    def _receive(self, source: str, batch: int, late: Sequence[ArrivedPart], known_at: int) -> int:
        """Note a correction, and return its number."""
        for each in self._book.all():
            if (each.source, each.batch) == (source, batch):
                return each.id
        first, last = span_of(self._query.late_rows(source, batch))
        response = self._query.response
        bound = max(part.bound for part in late)
        if self._query.swapper is not None:
            bound = max(int(last), bound)
        correction = CorrectionRecord(
            id=self._book.next_id(),
            source=source,
            batch=batch,
            rows=sum(part.withheld for part in late),
            first=int(first),
            last=int(last),
            bound=bound,
            known_at=known_at,
        )
        if response != "emit":
            status: CorrectionStatus = "ignored" if response == "ignore" else "archived"
            correction = replace(correction, status=status, done=bound)
        self._book.write(correction)
        reached("revision received", correction.id)
        return correction.id

    def _to_swap(self) -> list[CorrectionRecord]:
        """The corrections that the state has to be exchanged for, one exchange after the other."""
        if self._query.swapper is None or self._book.waiting():
            return []
        return self._open()

    def _open(self) -> list[CorrectionRecord]:
        """The corrections of committed batches that something is still to be computed of.

        A process that was killed may have noted one of a batch that is repeated after the start.
        """
        return [each for each in self._book.open() if each.batch <= self._batch]

    def _due(self) -> list[tuple[CorrectionRecord, Time, Time]]:
        if self._query.swapper is not None:
            return []
        return due(self._open(), self._stable)

    def _work(self) -> None:
        while True:
            with self._changed:
                self._works = False
                self._note()
                self._changed.notify_all()
                self._changed.wait_for(
                    lambda: self._is_closing or bool(self._due()) or bool(self._to_swap())
                )
                if self._is_closing:
                    return
                todo, swaps = self._due(), self._to_swap()
                batch = self._batch
                self._works = True
            try:
                if swaps:
                    self._exchange(swaps, batch)
                for correction, first, last in todo:
                    for begin, end in pieces(self._book.others(correction), first, last):
                        if not self._goes_on():
                            return
                        self._computer.compute(correction.id, begin, end, batch)
                # Where there is one correction there will be more, and few rows each: compiled
                # loops halve what they take.
                start_loading()
            except AnabranchError as problem:
                self._fail(problem)
                return
            except Exception as problem:  # noqa: BLE001 (a thread must not die silently)
                self._fail(EngineError(f"a revision failed: {problem}", hint=REPORT))
                return

    def _exchange(self, corrections: Sequence[CorrectionRecord], batch: int) -> None:
        """Exchange the state for some corrections; the query runs on but for the end of it."""
        with self._changed:
            pending = self._pending
            self._holds = self._waits or (pending is not None and self._holds)
            self._note()
        if pending is None:
            pending = self._exchanger.begin(corrections, batch)
        rounds = 0
        while pending is not None and self._goes_on():
            with self._changed:
                self._pending = pending
                if rounds == self._query.rounds or self._batch == pending.batch:
                    # No batch is planned from here on; one may be under way.
                    self._holds = True
                    self._note()
                    self._changed.wait_for(lambda: self._is_closing or self._begun <= self._batch)
                if self._is_closing:
                    return
                batch, stables = self._batch, self._stables
                if batch == pending.batch and self._begun <= batch:
                    self._exchanger.finish(pending, stables)
                    self._holds = False
                    return
            pending = self._exchanger.catch_up(pending, batch)
            rounds = min(rounds + 1, self._query.rounds)

    def _goes_on(self) -> bool:
        with self._changed:
            return not self._is_closing

    def _fail(self, problem: AnabranchError) -> None:
        with self._changed:
            self._failure, self._works = problem, False
            self._note()
            self._changed.notify_all()


def _values(commands: Sequence[Command], verb: str) -> list[int]:
    return [each.value for each in commands if each.verb == verb and each.value is not None]
