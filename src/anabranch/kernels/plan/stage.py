"""Stages: kernels that share a partitioning, behind one exchange."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, final

import numpy as np
import pyarrow as pa

from anabranch.algebra.source import Source
from anabranch.kernels.contract.column_names import COPY, END, ID, NEW_END
from anabranch.kernels.contract.command import Command
from anabranch.kernels.contract.kernel import (
    ALL_NEEDED,
    Arrived,
    Kernel,
    Need,
    Progress,
    Stateful,
    Stateless,
    Trace,
    with_copy,
)
from anabranch.kernels.contract.packed_events import pack_events, packed_schema, unpack_events
from anabranch.kernels.contract.prepared import check_prepared
from anabranch.kernels.plan.address import Address
from anabranch.kernels.trace.timeline_rows import COUNT
from anabranch.model.batch import EventBatch
from anabranch.model.numbers.hashing import stable_hash
from anabranch.model.time import BEGINNING, Time

StageState = tuple[Trace, ...]

Observe = Callable[[EventBatch, Trace | None], None]
"""Is told, operator by operator, of the rows that one hands on, and of what it remembers."""

GUARD: Final = "guard"
"""What stages are called that guard an output; see `swap.py`."""

HEAL: Final = "heal"
"""What stages are called that join again what a change of the plan has cut at T."""

Copies = Mapping[int, tuple[str, Time]]
"""The copies of a source by number: what they are called, and what each has promised."""


@final
@dataclass(frozen=True, slots=True)
class Edge:
    """What a stage reads: a source or another stage, through a chain of steps without memory.

    `columns` are the source's columns that anything on the way needs (None: all of them). `side`
    is the input of the stage's first operator that the rows are for.
    """

    upstream: Address
    chain: tuple[Stateless, ...]
    columns: tuple[str, ...] | None = None
    side: int = 0

    def promise(self, stable: Time) -> Time:
        """How far what comes through is settled once the upstream is."""
        for step in self.chain:
            stable = step.promise(stable)
        return stable


@final
@dataclass(frozen=True, slots=True)
class Stage:
    """Kernels that share one partitioning; rows reach them through one exchange."""

    name: str
    edges: tuple[Edge, ...]
    kernels: tuple[Kernel, ...]
    sharded: bool
    schema: pa.Schema
    # What edges declare follows from the kernels, and every batch is compared with it.
    _declared: dict[int, pa.Schema] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def is_guard(self) -> bool:
        """Whether it keeps the output right when the state before it is exchanged."""
        return self.name.endswith(f"-{GUARD}")

    @property
    def is_healing(self) -> bool:
        """Whether it coalesces what comes from an old plan before T and from a new one behind it.

        It looks at snapshots only, so its state does not depend on who computes them.
        """
        return self.name.endswith(f"-{HEAL}")

    @property
    def _head(self) -> Stateful | None:
        first = self.kernels[0] if self.kernels else None
        return first if isinstance(first, Stateful) else None

    def prepare(
        self,
        edge: int,
        batch: EventBatch,
        *,
        by_event: bool = False,
        late: EventBatch | None = None,
        observe: Observe | None = None,
    ) -> pa.RecordBatch:
        """Run an edge's chain, then bring the rows into the form the exchange carries.

        Rows of a stage without a key have no id, or with `by_event` that of their event. `late`
        rows have passed the chain already. `observe` is told of every step.
        """
        for step in self.edges[edge].chain:
            batch = step.apply(batch)
            if observe is not None:
                observe(batch, None)
        if late is not None and len(late):
            batch = EventBatch.concat([batch, late])
        side = self.edges[edge].side
        if self._head is None:
            ids = np.zeros(len(batch), np.uint64)
            if by_event:
                ids = stable_hash([*batch.payload.columns, pa.array(batch.start)], len(batch))
            rows = pack_events(batch, hashed={ID: ids})
        else:
            rows = self._head.prepare(batch, side)
        return self.check(edge, rows)

    def prepared_schema(self, edge: int) -> pa.Schema:
        """The columns that all senders of an edge give, whatever their rows are."""
        known = self._declared.get(edge)
        if known is None:
            if self._head is not None:
                known = self._head.prepared_schema(self.edges[edge].side)
            else:
                known = packed_schema(self._arriving_schema(), hashed=(ID,))
            self._declared[edge] = known
        return known

    def check(self, edge: int, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of an edge, which have the columns that were declared for it.

        Raises:
            EngineError: They do not.
        """
        whence = self.edges[edge].upstream
        where = f"stage {self.name}, edge {edge} from {whence.kind} {whence.name}"
        return check_prepared(rows, self.prepared_schema(edge), where)

    @property
    def sides(self) -> int:
        """How many inputs the first operator has."""
        return 1 if self._head is None else self._head.sides

    def is_broadcast(self, edge: int) -> bool:
        """Whether the rows of an edge go to all shards."""
        return self._head is not None and self.edges[edge].side in self._head.broadcast

    def start(self) -> StageState:
        """The state before anything arrived."""
        return tuple(Trace() for kernel in self.kernels if isinstance(kernel, Stateful))

    @property
    def reads(self) -> tuple[str, ...]:
        """The names of the sources that come in."""
        sources = [edge.upstream.name for edge in self.edges if edge.upstream.is_source]
        return tuple(dict.fromkeys(sources))

    def progress(
        self,
        stables: Sequence[Time],
        copies: Mapping[str, Copies] | None = None,
        commands: Sequence[Command] = (),
    ) -> Progress:
        """What the sides have promised, given what each edge has, and what somebody wants.

        Args:
            stables: What comes through each edge is settled up to there.
            copies: What the copies of sources have promised, as far as they are known.
            commands: What came through the control stream; a command for a copy is for whoever
                reads its source, and names the copy as what it is to it: an input.
        """
        sides: list[Time] = []
        for side in range(self.sides):
            stables_of_side = [
                t for edge, t in zip(self.edges, stables, strict=True) if edge.side == side
            ]
            sides.append(Time(min(stables_of_side)))
        own = [promised for name, promised in (copies or {}).items() if name in self.reads]
        return Progress(tuple(sides), own[0] if own else {}, tuple(self._heard(commands)))

    def _heard(self, commands: Sequence[Command]) -> Iterator[Command]:
        for command in commands:
            if command.copy is None:
                yield command
            elif command.source in self.reads:
                yield Command(verb=command.verb, source=command.copy, value=command.value)

    def step(
        self,
        state: StageState,
        arrived: Arrived,
        progress: Progress,
        observe: Observe | None = None,
        needs: Sequence[Need] = (),
    ) -> tuple[StageState, EventBatch]:
        """Take in one batch, given per side, and how far the sides have come.

        `observe` is told of every kernel. After feedback `needs` says what is needed of the output
        of each kernel with memory.
        """
        traces, kernels = list(state), self.kernels
        needed = [*needs] or [ALL_NEEDED] * len(traces)
        after: list[Trace] = []
        if self._head is not None:
            before, arrived = _purged(
                self._head, traces.pop(0), arrived, needed.pop(0), progress.sides
            )
            trace, batch = self._head.advance(before, arrived, progress)
            after.append(_cut_like(before, trace))
            kernels = kernels[1:]
            if observe is not None:
                observe(batch, trace)
        else:
            batch = unpack_events(arrived[0], self._arriving_schema(), progress.least)
        for kernel in kernels:
            if isinstance(kernel, Stateful):
                where = f"stage {self.name}, inside: {kernel.label}"
                rows = check_prepared(kernel.prepare(batch), kernel.prepared_schema(), where)
                before, own = _purged(
                    kernel, traces.pop(0), (rows,), needed.pop(0), (batch.stable,)
                )
                trace, batch = kernel.step(before, own, batch.stable)
                after.append(_cut_like(before, trace))
            else:
                assert isinstance(kernel, Stateless)
                batch = kernel.apply(batch).with_stable(kernel.promise(batch.stable))
            if observe is not None:
                observe(batch, after[-1] if isinstance(kernel, Stateful) else None)
        return tuple(after), batch

    def remember(self, state: StageState, arrived: Arrived, progress: Progress) -> StageState:
        """The state that `step` gives, where nobody asks for the output."""
        if self._head is None or len(state) > 1:
            return self.step(state, arrived, progress)[0]
        before, arrived = _purged(self._head, state[0], arrived, ALL_NEEDED, progress.sides)
        return (_cut_like(before, self._head.remember(before, arrived, progress)),)

    def tell(self, state: StageState, arrived: Arrived, progress: Progress) -> EventBatch:
        """The output that `step` gives, where nothing comes after it."""
        if self._head is None or len(state) > 1:
            return self.step(state, arrived, progress)[1]
        before, arrived = _purged(self._head, state[0], arrived, ALL_NEEDED, progress.sides)
        return self._behind_head(self._head.tell(before, arrived, progress))

    def _behind_head(self, batch: EventBatch) -> EventBatch:
        """What the other kernels, none of which has state, make of the output of the first."""
        for kernel in self.kernels[1:]:
            assert isinstance(kernel, Stateless)
            batch = kernel.apply(batch).with_stable(kernel.promise(batch.stable))
        return batch

    def guarded(
        self, state: StageState, arrived: Arrived, progress: Progress
    ) -> tuple[Arrived, Progress, EventBatch]:
        """What a guard takes in, and what comes too late for that.

        After an exchange of state, the stages before a guard may be settled less far than they
        were: a session that was over goes on. The guard keeps its promise. Moves below its stable
        point are cut there; what they change before it is returned apart, for a revision.
        """
        stable = state[0].stable
        sides = self.guarded_sides(stable, progress)
        (rows,) = arrived
        end, new_end = (rows.column(name).to_numpy() for name in (END, NEW_END))
        below = np.minimum(end, new_end) < stable
        if not below.any():
            return arrived, replace(progress, sides=sides), EventBatch.empty(self.guarded_schema())
        late = rows.filter(pa.array(below))
        count = late.column(COUNT).to_numpy()
        keys = [late.column(f"key{n}") for n in range(len(self.guarded_schema()))]
        payload = pa.RecordBatch.from_arrays(keys, schema=self.guarded_schema())
        low, high = (np.minimum(each[below], stable) for each in (end, new_end))
        moves = EventBatch(payload, np.minimum(low, high), low, high)
        # Where a count is negative, the move runs backwards so many times.
        repeated = moves.take(np.repeat(np.arange(len(moves)), np.abs(count)))
        backwards = np.repeat(count < 0, np.abs(count))
        repeated = repeated.with_ends(
            np.where(backwards, repeated.new_end, repeated.end),
            np.where(backwards, repeated.end, repeated.new_end),
        )
        kept = {END: np.maximum(end, stable), NEW_END: np.maximum(new_end, stable)}
        for name, times in kept.items():
            at = rows.schema.get_field_index(name)
            rows = rows.set_column(at, rows.schema.field(name), pa.array(times))
        rows = rows.filter(pa.array(kept[END] != kept[NEW_END]))
        return (rows,), replace(progress, sides=sides), repeated

    def guarded_sides(self, stable: Time, progress: Progress) -> tuple[Time, ...]:
        """How far the sides of a guard have come for it, which keeps what it has promised."""
        return tuple(Time(max(stable, side)) for side in progress.sides)

    def guarded_schema(self) -> pa.Schema:
        """The columns of what a guard is told."""
        assert self._head is not None
        return self._head.schema

    def prepare_guarded(self, moves: EventBatch) -> pa.RecordBatch:
        """What a guard is told beside its rows, in the form the exchange carries."""
        assert self._head is not None
        return self._head.prepare(moves)

    def report(self, state: StageState) -> dict[str, Any]:
        """What its operators noticed in the last step, each under its own keys."""
        remembering = [kernel for kernel in self.kernels if isinstance(kernel, Stateful)]
        reports: dict[str, Any] = {}
        for kernel, trace in zip(remembering, state, strict=True):
            reports |= kernel.report(trace)
        return reports

    def _arriving_schema(self) -> pa.Schema:
        chain = self.edges[0].chain
        return chain[-1].schema if chain else self.schema


def _purged(
    kernel: Stateful, trace: Trace, arrived: Arrived, need: Need, sides: Sequence[Time]
) -> tuple[Trace, Arrived]:
    """Memory and rows without what nobody needs; what was cut once is cut ever after."""
    if need == ALL_NEEDED and trace.cut == BEGINNING:
        return trace, arrived
    return kernel.purge(trace, arrived, need, sides)


def _cut_like(before: Trace, after: Trace) -> Trace:
    """The memory after a step, which does not change where it is cut."""
    return after if before.cut == BEGINNING else replace(after, cut=before.cut)


@final
@dataclass(frozen=True, slots=True)
class PhysicalPlan:
    """Stages in an order in which each reads only earlier ones.

    `outputs` are the indexes of those whose rows leave, one for each query; others may read them,
    too.
    """

    stages: tuple[Stage, ...]
    outputs: tuple[int, ...]
    sources: Mapping[str, Source]

    def arriving(self, source: str, columns: Sequence[str] | None = None) -> pa.Schema:
        """The columns that rows of a source come with, all that it has or some."""
        leaf = self.sources[source]
        names = leaf.schema.names if columns is None else columns
        schema = pa.schema([leaf.schema.field(name) for name in names])
        return with_copy(schema) if leaf.copies else schema

    @property
    def schema(self) -> pa.Schema:
        """The columns of the only output."""
        (index,) = self.outputs
        return self.stages[index].schema


def with_columns_of(batch: EventBatch, columns: Sequence[str] | None) -> EventBatch:
    """The rows with the columns that an edge needs (None: all); their copy is kept."""
    if columns is None:
        return batch
    own = [COPY] if COPY in batch.schema.names else []
    return batch.with_payload(batch.payload.select([*columns, *own]))


def with_one_promise(plan: PhysicalPlan) -> PhysicalPlan:
    """The plan with an output whose shards all make the same promise.

    Where each makes its own, which follows from what it remembers, a stage is added that collects
    what they give: it knows the least of their promises.
    """
    (index,) = plan.outputs
    last = plan.stages[index]
    remembering = [kernel for kernel in last.kernels if isinstance(kernel, Stateful)]
    if not last.sharded or not any(kernel.promises_by_state for kernel in remembering):
        return plan
    edge = Edge(Address.stage(last.name), ())
    collect = Stage(f"{len(plan.stages)}-collect", (edge,), (), True, last.schema)
    return replace(plan, stages=(*plan.stages, collect), outputs=(len(plan.stages),))
