"""The exchange of state, step by step, while the query runs on.

A replay takes as long as the past is; meanwhile the query takes in more. So a replay begins after
some batch and then catches up: it takes in what came since, and again what came while it did that.
Each round is shorter than the one before. After some rounds no batch is planned until the last one
is done, and the batch behind it begins with the new state. With no rounds at all input waits from
the moment at which late rows have come.

A batch may have been planned before that. Then it comes in between, and the state is that of a
query which has not taken it in. So the state is noted with the batch it is that after. Whoever
would begin another batch with it leaves it alone: tasks and driver alike, by the same comparison.
Then the step is void, as if it had not been computed, and the replay catches up once more.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

from anabranch.errors import AnabranchError
from anabranch.kernels.contract.command import REVISE, Command
from anabranch.model.revision import snapshot_changes
from anabranch.model.time import Time
from anabranch.runtime.archive.arrived import BelowFolder
from anabranch.runtime.revisions.correction_book import CorrectionBook
from anabranch.runtime.revisions.records import CorrectionRecord, EmittedStep
from anabranch.runtime.revisions.replayer import refuse_cut, span_of
from anabranch.runtime.revisions.revised_query import RevisedQuery
from anabranch.runtime.revisions.swapper import StateReplay
from anabranch.runtime.store.phases import reached
from anabranch.runtime.store.swapped_state import SwappedStates


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PendingExchange:
    """A replay for some corrections that has come as far as a batch.

    Attributes:
        corrections: Their numbers, in order.
        replay: The states after the batch.
        began: When it began.
        read: How many rows were read for it.
    """

    corrections: tuple[int, ...]
    replay: StateReplay
    began: float
    read: int

    @property
    def batch(self) -> int:
        """The batch that it has come as far as."""
        return self.replay.batch


@final
class StateExchanger:
    """Computes states that take the place of others, and hands them to the control stream."""

    def __init__(self, query: RevisedQuery, book: CorrectionBook) -> None:
        """For a query, whose corrections are in a book."""
        self._query = query
        self._book = book
        self._states = SwappedStates(query.folder)

    def forget(self, batch: int) -> None:
        """Remove the states that no batch from this one on begins with; earlier ones are done."""
        with self._book.changed:
            if self._states:
                self._states.forget(self._book.states_from(batch))

    def begin(self, corrections: Sequence[CorrectionRecord], batch: int) -> PendingExchange | None:
        """Replay everything up to a batch; None where the past is not all there."""
        began = time.perf_counter()
        query = self._query
        assert query.swapper is not None
        with self._book.changed:
            for each in corrections:
                self._book.write(replace(each, status="planned"))
        _reached("revision planned", [each.id for each in corrections])
        past = query.past(batch)
        before = self._book.earlier(corrections[0])
        after = {name: set(batches) for name, batches in before.items()}
        for each in corrections:
            after.setdefault(each.source, set()).add(each.batch)
        try:
            for source in query.archives:
                refuse_cut(past, source)
            replay = query.swapper.replay(past, batch, before, after)
        except AnabranchError as problem:
            with self._book.changed:
                for each in corrections:
                    self._book.write(
                        replace(each, status="quarantined", done=each.bound, reason=str(problem))
                    )
            return None
        numbers = tuple(each.id for each in corrections)
        return PendingExchange(corrections=numbers, replay=replay, began=began, read=past.read)

    def catch_up(self, pending: PendingExchange, batch: int) -> PendingExchange:
        """Take in what the query has taken in since, up to a later batch."""
        assert self._query.swapper is not None
        past = self._query.past(batch)
        replay = self._query.swapper.caught_up(pending.replay, past, batch)
        return replace(pending, replay=replay, read=pending.read + past.read)

    def finish(self, pending: PendingExchange, stables: Sequence[Time]) -> None:
        """Hand in the state after the last committed batch, with outputs settled so far."""
        query = self._query
        assert query.swapper is not None
        exchange = query.swapper.exchange(pending.replay, stables)
        with self._book.changed:
            serial, numbers = self._book.next_serial(), self._book.numbers(exchange.settled)
            last = self._book[pending.corrections[-1]]
            self._states.add(serial)
            query.swapper.write(exchange, query.folder, serial)
            _reached("revision state written", pending.corrections)
            step = EmittedStep(
                serial=serial,
                upto=last.bound,
                numbers=numbers,
                rows=tuple(map(len, exchange.settled)),
                strategy="swap",
                replayed=pending.read,
                seconds=round(time.perf_counter() - pending.began, 4),
                together=pending.corrections[:-1],
                after=pending.batch,
            )
            done = replace(last, status="computed", done=last.bound)
            # The one record that is written with the step decides about all of them: who reads it
            # after a crash closes the others (`CorrectionBook`).
            self._book.add_step(done, step, exchange.settled)
            _reached("revision noted", pending.corrections)
            self._book.close_together(step)
            _reached("revision computed", pending.corrections)
            query.control.put(Command(verb=REVISE, value=serial))
            _reached("revision handed in", pending.corrections)

    def below(self, batch: int, known_at: int) -> CorrectionRecord | None:
        """The record of what guards were told of below their stable points in a batch."""
        query = self._query
        with self._book.changed:
            known = [each for each in self._book.all() if each.is_below(batch)]
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
            step = EmittedStep(
                serial=self._book.next_serial(),
                upto=max(int(last) for _, last in spans),
                numbers=self._book.numbers(outputs),
                rows=tuple(map(len, outputs)),
                committed=batch,
                strategy="swap",
            )
            found = CorrectionRecord(
                id=self._book.next_id(),
                source="",
                batch=batch,
                rows=0,
                first=min(int(first) for first, _ in spans),
                last=step.upto,
                bound=step.upto,
                done=step.upto,
                status="committed",
                known_at=known_at,
            )
            self._book.add_step(found, step, outputs)
            return self._book[found.id]


def _reached(phase: str, corrections: Sequence[int]) -> None:
    """Note that a step is done for corrections that go together."""
    for number in corrections:
        reached(phase, number)
