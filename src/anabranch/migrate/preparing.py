"""A change by replay is prepared while the old plan goes on.

The new plan reads again what the query has read, then what has come meanwhile, and again, until a
round is short. The results of the old plan that are still open are read along with it. What is left
for the batch of the change is what came since the last round.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np

from anabranch.algebra.node import Node
from anabranch.kernels.plan.stage import PhysicalPlan
from anabranch.migrate.handover import Handover, ReplayedStates, closing_moves, opening_moves
from anabranch.migrate.replay import ReplayedPlan
from anabranch.migrate.rereading import ReadSoFar
from anabranch.model.batch import EventBatch
from anabranch.model.netting import net
from anabranch.model.time import Time
from anabranch.runtime.sinks.sinks import Sink

CATCH_UP_ROUNDS: Final = 12
"""So often what has come meanwhile is read, at most: a stream may be as fast as the replay."""

CATCH_UP_SECONDS: Final = 0.1
"""A round that takes no longer is the last one: the batch of the change does no more than that."""


@final
class OpenResults:
    """The results of a query that have not ended yet, as its output has them."""

    def __init__(self, sink: Sink) -> None:
        """Nothing is read yet."""
        self._sink = sink
        self._rows: list[EventBatch] = []
        self._position = 0

    @property
    def rows(self) -> Sequence[EventBatch]:
        """The events that do not end before the stable point that was given last.

        Of each there is the last move: from an end that is settled, or from the start.
        """
        return self._rows

    def read(self, settled: Time, *, before: int | None = None) -> None:
        """Read on, up to a batch; what ends before a stable point stays as it is.

        Only the last end of an event counts in the end. So moves between two ends that are both
        settled are left out before anything is added up, and most of a long log goes that way.
        """
        if self._sink.delivery == "nothing":
            return
        self._position, new = self._sink.batches_from(self._position, before=before)
        rows = [*self._rows, *(_beyond(batch, settled) for batch in new if len(batch))]
        if rows:
            live = net(EventBatch.concat(rows))
            # What ends at the stable point may be prolonged.
            self._rows = [live.where(live.new_end >= np.int64(settled))]

    def closing(self, at: Time) -> EventBatch | None:
        """How they are cut at T; None where there are none."""
        return closing_moves(self._rows, at)


def _beyond(rows: EventBatch, settled: Time) -> EventBatch:
    """The moves from or to an end that is not settled."""
    return rows.where(np.maximum(rows.end, rows.new_end) >= np.int64(settled))


@final
@dataclass(frozen=True, slots=True)
class ReplayedOutput:
    """An output whose new answer is read again.

    Attributes:
        number: Its number in the new plan.
        node: Its new logical plan.
        sink: What the old plan writes to.
    """

    number: int
    node: Node
    sink: Sink


@final
class PreparedReplay:
    """The new plan after what the query has read, and the open results of the old one."""

    def __init__(
        self, outputs: Sequence[ReplayedOutput], plan: PhysicalPlan, replayed: ReplayedPlan
    ) -> None:
        """Nothing is read yet.

        Args:
            outputs: Those that change.
            plan: The stages of their new plans.
            replayed: Reads again what the query has read.
        """
        self.replayed: ReplayedPlan = replayed
        self.outputs: Sequence[ReplayedOutput] = tuple(outputs)
        self._plan = plan
        self._open = {each.number: OpenResults(each.sink) for each in outputs}

    def catch_up(
        self, read: Callable[[], ReadSoFar], stables: Callable[[], Mapping[int, Time]]
    ) -> int:
        """Read until little is left to read; how many rounds that took.

        Args:
            read: How far the query has read by now.
            stables: How far each output is settled by now.
        """
        for number in range(1, CATCH_UP_ROUNDS + 1):
            began = time.perf_counter()
            # The stable point first: results that are read later may only be settled further.
            settled = stables()
            self.replayed.read(read())
            for number, open_results in self._open.items():
                open_results.read(settled[number])
            if time.perf_counter() - began <= CATCH_UP_SECONDS:
                return number
        return CATCH_UP_ROUNDS

    @property
    def open_results(self) -> Mapping[int, OpenResults]:
        """The open results of the old plan, by output."""
        return self._open

    def handed_over(
        self,
        at: Time,
        settled: Mapping[int, Time],
        to: ReadSoFar,
        promised: Mapping[str, int],
    ) -> Handover:
        """Read what has come since, up to a batch, and take over what the old plan has put out."""
        self.replayed.read(to)
        states, outs = self.replayed.finished(promised)
        moves: dict[int, EventBatch] = {}
        for each, out in zip(self.outputs, outs, strict=True):
            opening = opening_moves(out, each.node, at)
            open_results = self._open[each.number]
            open_results.read(settled[each.number], before=to.batch)
            closing = open_results.closing(at)
            both = [opening] if closing is None else [closing, opening]
            moves[each.number] = EventBatch.concat(both)
        return ReplayedStates(self._plan, states, moves)
