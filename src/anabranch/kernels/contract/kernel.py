"""The contract of a physical operator: a pure step over batches and a trace."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, final

import pyarrow as pa

from anabranch.kernels.contract.column_names import COPY
from anabranch.kernels.contract.command import Command
from anabranch.kernels.contract.routing import Route, Routing
from anabranch.model.batch import EventBatch
from anabranch.model.identity import Identity
from anabranch.model.time import BEGINNING, FOREVER, Time


def with_copy(schema: pa.Schema) -> pa.Schema:
    """The columns of rows that say which copy they are from."""
    return schema.append(pa.field(COPY, pa.int32()))


@final
@dataclass(frozen=True, slots=True, eq=False)
class SortedRun:
    """A sorted immutable piece of a trace.

    `name` is empty until the run has been stored; a stored run never changes under its name. What
    follows from its rows may be `derived` when it is first asked for. It is kept as long as the run
    is in memory, never stored, and may be missing at any time.
    """

    rows: pa.RecordBatch
    name: str = ""
    derived: dict[Hashable, object] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return int(self.rows.num_rows)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """The memory of a kernel.

    Attributes:
        runs: Named lists of runs, oldest first.
        stable: The stable point reached.
        cut: After feedback, snapshots of the inputs before this are not kept: what arrives for them
            is cut there. It never sinks, for what was forgotten does not come back.
    """

    runs: Mapping[str, tuple[SortedRun, ...]] = field(default_factory=dict)
    stable: Time = BEGINNING
    cut: Time = BEGINNING

    def rows(self) -> int:
        """How many rows are held, over all runs."""
        return sum(len(run) for runs in self.runs.values() for run in runs)


@final
@dataclass(frozen=True, slots=True)
class Rest:
    """How long a trace rests: steps without rows put out nothing and need not be done.

    Attributes:
        until: The last stable point for which that holds. FOREVER: for all of them; BEGINNING: for
            none, not even where nothing is promised.
        promise: While it rests, output is settled as far as that of a new trace, but no further
            than this.
    """

    until: Time
    promise: Time = FOREVER


RESTLESS: Final = Rest(BEGINNING)


@final
@dataclass(frozen=True, slots=True)
class Need:
    """What of some rows is still needed after feedback: each bound is sufficient by itself.

    Attributes:
        end: Events that end there or later, with their starts.
        first: The snapshots from there on.
    """

    end: Time = BEGINNING
    first: Time = BEGINNING

    @property
    def instant(self) -> Time:
        """Rows that end before it, and never end later, do not matter."""
        after = self.first if self.first == BEGINNING else min(self.first + 1, FOREVER)
        return Time(max(self.end, after))


ALL_NEEDED: Final = Need()
"""Nobody has sent feedback, or it says nothing of these rows."""


Arrived = tuple[pa.RecordBatch, ...]
"""What the exchange brought, one batch per side of an operator."""


@final
@dataclass(frozen=True, slots=True)
class Progress:
    """How far the inputs of an operator have come, and what somebody wants of it.

    Attributes:
        sides: What each side has promised.
        copies: Where a side holds copies of one stream that come and go: by their numbers, what
            they are called and what each of them has promised.
        commands: What came through the control stream, oldest first.
    """

    sides: tuple[Time, ...]
    copies: Mapping[int, tuple[str, Time]] = field(default_factory=dict)
    commands: tuple[Command, ...] = ()

    @property
    def least(self) -> Time:
        """What all sides have promised."""
        return Time(min(self.sides))


class Kernel(ABC):
    """A physical operator."""

    __slots__ = ()

    identity: ClassVar[Identity]
    """What it is called, what it computes, and in which form it keeps its state."""

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The payload columns of the output."""

    @property
    @abstractmethod
    def label(self) -> str:
        """One line for `explain`, with how it goes about it where there is a choice."""

    def interest(self, end: Time, side: int = 0) -> Time:
        """Rows of a side that end before this do not matter to output that ends at `end` or later.

        BEGINNING: all rows may matter, also to the start of such output.
        """
        del end, side
        return BEGINNING


class Stateless(Kernel):
    """A step without memory: any row order, any batching."""

    __slots__ = ()

    @abstractmethod
    def apply(self, batch: EventBatch) -> EventBatch:
        """The rows of the output; the stable point is passed on by the caller."""

    def promise(self, stable: Time) -> Time:
        """How far the output is settled once the input is."""
        return stable


@dataclass(frozen=True, slots=True)
class Stateful(Kernel):
    """A step with memory, for one shard, with one input or two (its sides).

    `prepare` runs before the exchange, where the rows are: it turns events into what the step
    needs, as small as it can (rows of one key may already be added up). Its result has the
    column `__id`; rows with one id meet in one shard. `step` runs after the exchange.

    `route` says how its rows tell by which ids the stage got them. Plans of queries that began
    before this was written down have none.
    """

    route: Route | None = field(default=None, kw_only=True)

    @property
    def sides(self) -> int:
        """How many inputs there are."""
        return 1

    @property
    def spread(self) -> str:
        """What the rows that meet in one shard have in common, in words."""
        return "payload"

    @property
    def broadcast(self) -> frozenset[int]:
        """The sides whose rows go to all shards, whatever their id."""
        return frozenset()

    @property
    def takes_copies(self) -> bool:
        """Whether a side may be a source with copies, whose rows have the column `__copy`."""
        return False

    def routed(self, route: Route) -> Stateful:
        """The same kernel in a stage whose rows tell where they belong."""
        return replace(self, route=route)

    def replayable(self) -> Stateful:
        """The same kernel, whose output does not depend on how its input came."""
        return self

    @property
    def promises_by_state(self) -> bool:
        """Whether how far the output is settled depends on what a shard holds."""
        return False

    @property
    def remembers_events(self) -> bool:
        """Whether a move must name an event as it came; else snapshots are all that counts."""
        return True

    @property
    def can_be_shared_anew(self) -> bool:
        """Whether what shards remember can be shared out to another number of them."""
        return True

    @property
    def looks_back(self) -> bool:
        """Whether a step depends on the stable point of the one before."""
        return False

    @abstractmethod
    def routing(self, name: str) -> Routing:
        """How the rows of one of the lists of runs tell in which shard they belong."""

    @abstractmethod
    def prepared_schema(self, side: int = 0) -> pa.Schema:
        """The columns of what `prepare` gives for a side, whatever the rows are.

        Senders of one edge see different rows, and theirs are put together on arrival: names,
        types and order follow from the plan alone.
        """

    @abstractmethod
    def prepare(self, batch: EventBatch, side: int = 0) -> pa.RecordBatch:
        """What the exchange carries from one side."""

    @abstractmethod
    def step(self, trace: Trace, arrived: Arrived, stable: Time) -> tuple[Trace, EventBatch]:
        """Take in what arrived and the least stable point of the sides; give memory and output.

        The stable point of the output says how far it is settled. The result does not depend on
        the order of the rows, and nothing is written in place.
        """

    def advance(
        self, trace: Trace, arrived: Arrived, progress: Progress
    ) -> tuple[Trace, EventBatch]:
        """The same, for operators that want to know more than the least stable point."""
        return self.step(trace, arrived, progress.least)

    def remember(self, trace: Trace, arrived: Arrived, progress: Progress) -> Trace:
        """The memory that `advance` gives, where nobody asks for the output.

        Whoever replays the past wants to know what a correction changes: what was put out before
        is known. Kernels whose output takes a part of the time leave it out here.
        """
        return self.advance(trace, arrived, progress)[0]

    def tell(self, trace: Trace, arrived: Arrived, progress: Progress) -> EventBatch:
        """The output of `advance`, where nothing comes after it: the memory is not kept."""
        return self.advance(trace, arrived, progress)[1]

    def purge(
        self, trace: Trace, arrived: Arrived, need: Need, sides: Sequence[Time]
    ) -> tuple[Trace, Arrived]:
        """Leave out of memory, and of what arrived, what cannot matter to what is still needed.

        It is called before every step from the first feedback on. What of the output is needed does
        not change by it; what is not needed may. A row that an adjust may still prolong stays,
        unless such an adjust is understood without it. The default keeps everything.

        Args:
            trace: The memory.
            arrived: What arrived since.
            need: What is needed of the output; it never asks for more than it did before.
            sides: What the inputs had promised with what arrived.
        """
        del need, sides
        return trace, arrived

    def rest(self, trace: Trace) -> Rest:
        """How long nothing has to be done for a shard with this memory that gets no rows.

        Most shards of a query with many get no rows in a batch, and are not even looked at while
        they rest. A kernel may say less than it could: a step that was not needed does no harm.
        """
        del trace
        return RESTLESS

    def rested(self, trace: Trace, stable: Time) -> Trace:
        """The memory after steps without rows up to a stable point until which it rested."""
        return replace(trace, stable=stable)

    def report(self, trace: Trace) -> dict[str, Any]:
        """What the last step noticed, as plain values for people."""
        del trace
        return {}
