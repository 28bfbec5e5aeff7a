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
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, final

import pyarrow as pa

from anabranch.errors import AnabranchError, EngineError
from anabranch.kernels.contract.command import FEED, REVISE, Command
from anabranch.model.batch import EventBatch
from anabranch.model.record import REPORT, plain, record
from anabranch.model.revision import Revision, clipped_changes, snapshot_changes
from anabranch.model.time import BEGINNING, Time
from anabranch.runtime.archive.archive import Archive
from anabranch.runtime.archive.arrived import (
    ArrivedFolder,
    ArrivedPart,
    BelowFolder,
    WithheldFolder,
)
from anabranch.runtime.revisions import large_replay
from anabranch.runtime.revisions.corrections import due, pieces, with_entered
from anabranch.runtime.revisions.large_replay import (
    LargeReplay,
    RunLarge,
    past_splits,
    rows_in_reach,
)
from anabranch.runtime.revisions.lineage import Lifetimes, LineageFolder
from anabranch.runtime.revisions.past import ALWAYS
from anabranch.runtime.revisions.records import (
    CorrectionFolder,
    CorrectionRecord,
    CorrectionStatus,
    EmittedStep,
)
from anabranch.runtime.revisions.replayer import (
    Reach,
    Replayer,
    refuse_cut,
    refuse_missing,
    span_of,
)
from anabranch.runtime.revisions.stored_past import StoredPast
from anabranch.runtime.revisions.submissions import SubmissionFolder
from anabranch.runtime.revisions.swapper import Swapper
from anabranch.runtime.sources.archived.pieces import ArchivedBatch
from anabranch.runtime.store.busy import BusyMark
from anabranch.runtime.store.control import ControlFolder
from anabranch.runtime.store.folder import Folder
from anabranch.runtime.store.phases import reached
from anabranch.runtime.workers.part_log import Response

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


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RevisedQuery:
    """What the reviser has to know of a query.

    Attributes:
        folder: The folder `revisions` of its checkpoint.
        replayer: Its plan.
        archives: Per source, what came.
        columns: Per source, the columns that the query needs.
        revised: The sources with LATE REVISE.
        outputs: The columns of each output.
        control: Its control stream.
        response: What late rows lead to.
        swapper: Exchanges the state of the query, where corrections change it; else None.
        run_large: Runs a replay that is too large for the driver; None: there is no such way.
        next_batch: The batch that comes next.
        lineage: From which input its answers came, where that is noted.
    """

    folder: str
    replayer: Replayer
    archives: Mapping[str, Archive]
    columns: Mapping[str, pa.Schema]
    revised: frozenset[str]
    outputs: tuple[pa.Schema, ...]
    control: ControlFolder
    response: Response = "emit"
    swapper: Swapper | None = None
    run_large: RunLarge | None = None
    next_batch: int = 0
    lineage: LineageFolder | None = None


class Reviser:
    """Takes note of what batches bring, and computes the revisions of their late rows."""

    def __init__(self, query: RevisedQuery, *, now: Callable[[], int] = _now) -> None:
        """Go on where the records in the checkpoint end."""
        self._query = query
        self._now = now
        self._folder = Folder.at(query.folder)
        self._records = CorrectionFolder(self._folder)
        self._busy = BusyMark(self._folder)
        self._arrived = ArrivedFolder.of(query.folder)
        self._submissions = SubmissionFolder(query.folder)
        self._changed = threading.Condition()
        self._all = {each.id: each for each in self._records.read()}
        self._batch, self._stable = self._query.next_batch - 1, BEGINNING
        self._stables: tuple[Time, ...] = (BEGINNING,) * len(query.outputs)
        self._take_up()
        self._failure: AnabranchError | None = None
        self._is_closing = False
        self._works = False
        self._put_again()
        self._note()
        self._thread = threading.Thread(target=self._work, name="anabranch-reviser", daemon=True)
        self._thread.start()

    @property
    def corrections(self) -> list[CorrectionRecord]:
        """All records, oldest first."""
        with self._changed:
            return list(self._all.values())

    def revisions(self, batch: int, commands: Sequence[Command]) -> list[list[Revision]]:
        """Per output, the revisions that a batch with these commands brings.

        Where state was exchanged, a guard may have been told of something below its stable point:
        that is a revision of the batch, too, behind the others.
        """
        found: list[list[Revision]] = [[] for _ in self._query.outputs]
        for serial in _values(commands, REVISE):
            correction, step = self._of_serial(serial)
            for number, schema in enumerate(self._query.outputs):
                revision = self._records.revision(correction, step, number, schema)
                if revision is not None:
                    found[number].append(revision)
        below = self._below(batch)
        if below is not None:
            for number, schema in enumerate(self._query.outputs):
                revision = self._records.revision(below, 0, number, schema)
                if revision is not None:
                    found[number].append(revision)
        return found

    def _below(self, batch: int) -> CorrectionRecord | None:
        """The record of what guards were told of below their stable points in a batch."""
        query = self._query
        if query.swapper is None:
            return None
        with self._changed:
            known = [each for each in self._all.values() if each.is_below(batch)]
            if known:
                return known[0]
            folder = BelowFolder.of(query.folder)
            outputs = [
                snapshot_changes(folder.read(batch, number, schema))
                for number, schema in enumerate(query.outputs)
            ]
            if not any(map(len, outputs)):
                return None
            spans = [span_of(each) for each in outputs if len(each)]
            number = max(self._all, default=0) + 1
            step = EmittedStep(
                serial=self._next_serial(),
                upto=max(int(last) for _, last in spans),
                numbers=self._numbers(outputs),
                rows=tuple(map(len, outputs)),
                committed=batch,
                strategy="swap",
            )
            for output, changes in enumerate(outputs):
                if step.numbers[output]:
                    self._records.write_changes(number, 0, output, changes)
            found = CorrectionRecord(
                id=number,
                source="",
                batch=batch,
                rows=0,
                first=min(int(first) for first, _ in spans),
                last=step.upto,
                bound=step.upto,
                done=step.upto,
                status="committed",
                emissions=(step,),
                known_at=self._now(),
            )
            self._write(found)
            return found

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
            for serial in _values(commands, REVISE):
                correction, step = self._of_serial(serial)
                steps = list(correction.emissions)
                steps[step] = replace(steps[step], committed=batch)
                self._write(_settled(replace(correction, emissions=tuple(steps))))
                reached("revision committed", correction.id)
            for number in _values(commands, FEED):
                # Before the archive has them: whoever looks for rows asks it first.
                self._submissions.committed(number, batch)
            self._take(batch)
            self._batch, self._stable, self._stables = batch, Time(min(stables)), tuple(stables)
            if any(each.is_open for each in self._all.values()):
                progress = OutputProgress(batch, int(self._stable), tuple(map(int, stables)))
                self._folder.write_json(_PROGRESS, plain(progress))
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
            waits = any(
                step.committed is None for each in self._all.values() for step in each.emissions
            )
            return self._failure is None and not self._is_closing and (self._is_busy or waits)

    @property
    def _is_busy(self) -> bool:
        return self._works or bool(self._due()) or bool(self._to_swap())

    def _note(self) -> None:
        """Keep the mark for the planner true."""
        works = self._failure is None
        self._busy.set(busy=works and self._is_busy, hold=works and bool(self._to_swap()))

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
        waiting = {
            step.serial
            for each in self._all.values()
            for step in each.emissions
            if step.committed is None
        }
        if waiting:
            for serial in sorted(waiting - self._commanded(REVISE)):
                self._query.control.put(Command(verb=REVISE, value=serial))
        handed_in = {each.number: each.source for each in self._submissions.read() if each.waits}
        if handed_in:
            for number in sorted(handed_in.keys() - self._commanded(FEED)):
                command = Command(verb=FEED, source=handed_in[number], value=number)
                self._query.control.put(command)

    def _commanded(self, verb: str) -> set[int]:
        """The values of all commands of a kind that were handed in."""
        contents = [note.content for note in self._query.control.notes()]
        own = [each for each in contents if isinstance(each, dict) and each.get("verb") == verb]
        return {each["value"] for each in own if isinstance(each.get("value"), int)}

    def _of_serial(self, serial: int) -> tuple[CorrectionRecord, int]:
        for each in self._all.values():
            for step, emitted in enumerate(each.emissions):
                if emitted.serial == serial:
                    return each, step
        raise EngineError(
            f"revision {serial} is not in the checkpoint",
            where=self._folder.path,
            hint="restore the checkpoint from a copy, or start the query with a new checkpoint",
        )

    def _write(self, correction: CorrectionRecord) -> None:
        self._records.write(correction)
        self._all[correction.id] = correction

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
            if batch % _CUT_EVERY == 0 and not any(each.is_open for each in self._all.values()):
                archive.cut(Time(entry.promised))
                if self._query.lineage is not None:
                    every = self._query.archives.items()
                    self._query.lineage.cut({name: each.oldest() for name, each in every})

    def _receive(self, source: str, batch: int, late: Sequence[ArrivedPart], known_at: int) -> int:
        """Note a correction, and return its number."""
        for each in self._all.values():
            if (each.source, each.batch) == (source, batch):
                return each.id
        first, last = span_of(self._late_rows(source, batch))
        response = self._query.response
        bound = max(part.bound for part in late)
        if self._query.swapper is not None:
            bound = max(int(last), bound)
        correction = CorrectionRecord(
            id=max(self._all, default=0) + 1,
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
        self._write(correction)
        reached("revision received", correction.id)
        return correction.id

    def _late_rows(self, source: str, batch: int) -> EventBatch:
        schema = self._query.columns[source]
        folder = WithheldFolder.of(self._query.folder, source)
        rows = [each for _, each in folder.read(schema, ALWAYS, batch, batch=batch)]
        return snapshot_changes(EventBatch.concat([EventBatch.empty(schema), *rows]))

    def _to_swap(self) -> list[CorrectionRecord]:
        """The corrections that the state has to be exchanged for."""
        if self._query.swapper is None:
            return []
        return [each for each in self._all.values() if each.is_open]

    def _due(self) -> list[tuple[CorrectionRecord, Time, Time]]:
        if self._query.swapper is not None:
            return []
        return due([each for each in self._all.values() if each.is_open], self._stable)

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
                todo, swaps, batch = self._due(), self._to_swap(), self._batch
                self._works = True
            try:
                if swaps:
                    self._swap(swaps, batch)
                for correction, first, last in todo:
                    for begin, end in pieces(self._others(correction), first, last):
                        if not self._goes_on():
                            return
                        self._compute(correction.id, begin, end, batch)
            except AnabranchError as problem:
                self._fail(problem)
                return
            except Exception as problem:  # noqa: BLE001 (a thread must not die silently)
                self._fail(EngineError(f"a revision failed: {problem}", hint=REPORT))
                return

    def _goes_on(self) -> bool:
        with self._changed:
            return not self._is_closing

    def _fail(self, problem: AnabranchError) -> None:
        with self._changed:
            self._failure, self._works = problem, False
            self._note()
            self._changed.notify_all()

    def _compute(self, number: int, first: Time, last: Time, batch: int) -> None:
        began = time.perf_counter()
        query = self._query
        with self._changed:
            correction = self._all[number]
            if correction.status == "quarantined":
                return
        changes = self._late_rows(correction.source, correction.batch)
        past = StoredPast(query.folder, query.archives, query.columns, batch)
        reach = query.replayer.reach(correction.source, changes, (first, last), past, query.lineage)
        with self._changed:
            self._write(replace(self._all[number], status="planned"))
        reached("revision planned", correction.id)
        earlier = with_entered(self._earlier(correction), self._others(correction), first)
        ran = "driver"
        try:
            if self._is_large(reach, batch):
                ran = "spark"
                refuse_missing(past, reach, query.replayer.plan)
                outputs = self._replay_large(correction, changes, reach, past, earlier, batch)
            else:
                outputs = query.replayer.replay(past, correction.source, changes, reach, earlier)
        except AnabranchError as problem:
            with self._changed:
                reason = str(problem)
                correction = self._all[number]
                self._write(
                    replace(correction, status="quarantined", done=int(last), reason=reason)
                )
            return
        with self._changed:
            # An earlier step may have been committed since.
            correction = self._all[number]
            numbers = self._numbers(outputs)
            step = EmittedStep(
                serial=self._next_serial(),
                upto=int(last),
                numbers=numbers,
                rows=tuple(len(each) for each in outputs),
                committed=None if any(numbers) else batch,
                strategy=reach.strategy,
                answers=(int(reach.answers[0]), int(reach.answers[1])),
                inputs={name: (int(a), int(b)) for name, (a, b) in reach.inputs.items()},
                replayed=past.read,
                seconds=round(time.perf_counter() - began, 4),
                restricted={name: tuple(each) for name, each in reach.keep.items() if each},
                ran=ran,
            )
            for output, changed in enumerate(outputs):
                if numbers[output]:
                    at = len(correction.emissions)
                    self._records.write_changes(correction.id, at, output, changed)
            steps = (*correction.emissions, step)
            done = replace(correction, status="computed", done=int(last), emissions=steps)
            self._write(_settled(done))
            reached("revision computed", correction.id)
            if any(numbers):
                query.control.put(Command(verb=REVISE, value=step.serial))
                reached("revision handed in", correction.id)

    def _is_large(self, reach: Reach, batch: int) -> bool:
        query = self._query
        is_plain = all(archive.has_plain_rows for archive in query.archives.values())
        if query.run_large is None or not is_plain or any(reach.keep.values()):
            # Of the rows of a few keys the driver makes short work.
            return False
        rows = rows_in_reach(query.archives, reach, batch)
        return rows >= large_replay.REPLAY_ON_SPARK_FROM_ROWS

    def _replay_large(
        self,
        correction: CorrectionRecord,
        changes: EventBatch,
        reach: Reach,
        past: StoredPast,
        earlier: Mapping[str, Collection[int]],
        batch: int,
    ) -> list[EventBatch]:
        """Replay as a job of Spark, beside the query."""
        query = self._query
        assert query.run_large is not None
        splits = past_splits(query.archives, reach, batch)
        task = LargeReplay(
            home=f"{query.folder}/replay-{correction.id}",
            plan=query.replayer.plan,
            past=splits,
            missing={
                name: past.not_believed(name, reach.inputs[name], earlier.get(name, ()))
                for name in splits
            },
            source=correction.source,
            changes=changes,
        )
        past.read = rows_in_reach(query.archives, reach, batch)
        outputs = query.run_large(task)
        return [clipped_changes(snapshot_changes(each), *reach.answers) for each in outputs]

    def _swap(self, corrections: Sequence[CorrectionRecord], batch: int) -> None:
        """Compute the state after a batch with corrections that are not in it yet."""
        began = time.perf_counter()
        query = self._query
        assert query.swapper is not None
        with self._changed:
            for each in corrections:
                self._write(replace(each, status="planned"))
        reached("revision planned", corrections[-1].id)
        past = StoredPast(query.folder, query.archives, query.columns, batch)
        before = self._earlier(corrections[0])
        after = {name: set(batches) for name, batches in before.items()}
        for each in corrections:
            after.setdefault(each.source, set()).add(each.batch)
        try:
            for source in query.archives:
                refuse_cut(past, source)
            exchange = query.swapper.replay(past, batch, self._stables, before, after)
        except AnabranchError as problem:
            with self._changed:
                for each in corrections:
                    self._write(
                        replace(each, status="quarantined", done=each.bound, reason=str(problem))
                    )
            return
        with self._changed:
            serial, numbers = self._next_serial(), self._numbers(exchange.settled)
            query.swapper.write(exchange, query.folder, serial)
            *earlier, last = corrections
            for each in earlier:
                self._write(replace(each, status="committed", done=each.bound))
            for number, changed in enumerate(exchange.settled):
                if numbers[number]:
                    self._records.write_changes(last.id, 0, number, changed)
            step = EmittedStep(
                serial=serial,
                upto=last.bound,
                numbers=numbers,
                rows=tuple(map(len, exchange.settled)),
                strategy="swap",
                replayed=past.read,
                seconds=round(time.perf_counter() - began, 4),
            )
            done = replace(last, status="computed", done=last.bound, emissions=(step,))
            self._write(done)
            reached("revision computed", last.id)
            query.control.put(Command(verb=REVISE, value=serial))
            reached("revision handed in", last.id)

    def _earlier(self, correction: CorrectionRecord) -> dict[str, set[int]]:
        """The batches whose late rows count already, per source."""
        found: dict[str, set[int]] = {}
        for each in self.corrections:
            if each.id < correction.id and each.is_applied:
                found.setdefault(each.source, set()).add(each.batch)
        return found

    def _others(self, correction: CorrectionRecord) -> list[CorrectionRecord]:
        """All other corrections whose rows enter the query from their bound on."""
        return [
            each
            for each in self.corrections
            if each.id != correction.id and each.source and each.status != "ignored"
        ]

    def _numbers(self, outputs: Sequence[EventBatch]) -> tuple[int, ...]:
        """The number of the revision that each output gets; 0 where nothing changes."""
        last = [0] * len(outputs)
        for each in self._all.values():
            for step in each.emissions:
                last = [max(a, b) for a, b in zip(last, step.numbers, strict=True)]
        return tuple(n + 1 if len(rows) else 0 for n, rows in zip(last, outputs, strict=True))

    def _next_serial(self) -> int:
        serials = [step.serial for each in self._all.values() for step in each.emissions]
        return max(serials, default=0) + 1


def _settled(correction: CorrectionRecord) -> CorrectionRecord:
    """The record, committed if all of it is in the output."""
    waits = any(step.committed is None for step in correction.emissions)
    if correction.done < correction.bound or waits:
        return correction
    return replace(correction, status="committed")


def _values(commands: Sequence[Command], verb: str) -> list[int]:
    return [each.value for each in commands if each.verb == verb and each.value is not None]
