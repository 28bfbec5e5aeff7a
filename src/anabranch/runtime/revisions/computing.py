"""The steps of a correction that take time: replay, and what comes of it."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import final

from anabranch.errors import AnabranchError
from anabranch.kernels.contract.command import REVISE, Command
from anabranch.model.batch import EventBatch
from anabranch.model.revision import clipped_changes, snapshot_changes
from anabranch.model.time import Time
from anabranch.runtime.archive.windowed_estimate import EstimatedAnswer
from anabranch.runtime.revisions import large_replay
from anabranch.runtime.revisions.correction_book import CorrectionBook
from anabranch.runtime.revisions.corrections import with_entered
from anabranch.runtime.revisions.estimator import widest
from anabranch.runtime.revisions.large_replay import LargeReplay, past_splits, rows_in_reach
from anabranch.runtime.revisions.records import CorrectionRecord, CorrectionStatus, EmittedStep
from anabranch.runtime.revisions.replayer import (
    Reach,
    missing_inputs,
    refuse_missing,
)
from anabranch.runtime.revisions.revised_query import RevisedQuery
from anabranch.runtime.revisions.stored_past import StoredPast
from anabranch.runtime.store.phases import reached


@final
class RevisionComputer:
    """Computes revisions and hands them to the control stream, noting every step."""

    def __init__(self, query: RevisedQuery, book: CorrectionBook) -> None:
        """For a query, whose corrections are in a book."""
        self._query = query
        self._book = book

    def compute(self, number: int, first: Time, last: Time, batch: int) -> None:
        """Compute what a correction changes in the answers of a span, as known after a batch."""
        began = time.perf_counter()
        query = self._query
        with self._book.changed:
            correction = self._book[number]
            if correction.is_set_aside:
                return
        changes = query.late_rows(correction.source, correction.batch)
        past = query.past(batch)
        reach = query.replayer.reach(correction.source, changes, (first, last), past, query.lineage)
        with self._book.changed:
            self._book.write(replace(self._book[number], status="planned"))
        reached("revision planned", correction.id)
        earlier = with_entered(self._book.earlier(correction), self._book.others(correction), first)
        ran = "driver"
        try:
            if self._is_large(reach, batch):
                ran = "spark"
                refuse_missing(past, reach, query.replayer.plan)
                outputs = self._replay_large(correction, changes, reach, past, earlier, batch)
            else:
                outputs = query.replayer.replay(past, correction.source, changes, reach, earlier)
        except AnabranchError as problem:
            is_gone = bool(missing_inputs(past, reach))
            self._set_aside(number, changes, last, str(problem), is_gone=is_gone)
            return
        with self._book.changed:
            # An earlier step may have been committed since.
            correction = self._book[number]
            numbers = self._book.numbers(outputs)
            step = EmittedStep(
                serial=self._book.next_serial(),
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
            done = replace(correction, status="computed", done=int(last))
            self._book.add_step(done, step, outputs)
            reached("revision computed", correction.id)
            if any(numbers):
                query.control.put(Command(verb=REVISE, value=step.serial))
                reached("revision handed in", correction.id)

    def _set_aside(
        self, number: int, changes: EventBatch, last: Time, reason: str, *, is_gone: bool
    ) -> None:
        """Note that a correction cannot be replayed, with estimates where there are some."""
        query, correction = self._query, self._book[number]
        found: list[EstimatedAnswer] = []
        status: CorrectionStatus = "quarantined"
        if query.estimator is not None and is_gone:
            archive = query.archives[correction.source]
            found = query.estimator.estimates(archive, changes, correction.batch, correction.bound)
            status = "estimated"
        with self._book.changed:
            correction = replace(
                self._book[number],
                status=status,
                done=int(last),
                reason=reason,
                estimated=len(found),
                error=max((each.bound for each in found), default=0.0),
                estimates=widest(found),
            )
            self._book.write(correction)

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
