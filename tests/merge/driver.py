"""Drive the merge kernel through a script of actions, in any batches, on any number of shards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np
import pyarrow as pa

from anabranch.algebra.analysis.merge_case import Case
from anabranch.algebra.merge import Merge, MergePolicy
from anabranch.algebra.source import Source
from anabranch.kernels.contract.column_names import COPY
from anabranch.kernels.contract.command import Command
from anabranch.kernels.contract.kernel import Progress, Trace
from anabranch.kernels.merge.copies import Copies, InputState
from anabranch.kernels.merge.merge import COPIES, MergeKernel
from anabranch.model.payload import Payload
from anabranch.model.time import BEGINNING, Time
from anabranch.testing.physical import Element, KitStable, Move, PhysicalStream, elements_of
from anabranch.testing.replicas import Action, MergeScript
from tests.sharing import of_all_shards

SCHEMA = pa.schema([("payload", pa.string())])


class Driver:
    """A merge of copies that come and go, and what it has emitted."""

    def __init__(
        self,
        case: Case,
        policy: MergePolicy,
        *,
        asserted: bool = False,
        settles: bool = False,
        shards: int = 1,
    ) -> None:
        """Start with nobody; what is `asserted` is not known of the copies.

        With `settles` they are in order before their promises only.
        """
        self.kernel = kernel_of(case, policy, asserted, settles)
        self.traces = [Trace()] * shards
        self.numbers: dict[str, int] = {}
        self.stables: dict[str, int] = {}
        self.stable = BEGINNING
        self.commands: tuple[Command, ...] = ()

    @property
    def copies(self) -> dict[str, list[InputState]]:
        """What is known of the copies, on every shard."""
        found: dict[str, list[InputState]] = {name: [] for name in self.numbers}
        for trace in self.traces:
            for copy in Copies.of(trace.runs.get(COPIES, ())).each:
                found[copy.name].append(copy)
        return found

    def diverged(self) -> dict[str, int]:
        """How often a copy contradicted what is settled, for those who did."""
        counts = {name: sum(it.diverged for it in each) for name, each in self.copies.items()}
        return {name: count for name, count in counts.items() if count}

    def step(self, actions: Sequence[Action]) -> list[Element]:
        """One batch: commands count before elements; what leaves, then the promise if it is new."""
        commands = list(self.commands)
        moves: list[Move] = []
        copies: list[int] = []
        promised: dict[str, int] = {}
        for action in actions:
            name = action[1]
            self.numbers.setdefault(name, len(self.numbers))
            self.stables.setdefault(name, int(BEGINNING))
            if action[0] == "element":
                if isinstance(action[2], KitStable):
                    self.stables[name] = max(self.stables[name], action[2].time)
                    promised[name] = self.stables[name]
                elif not is_late(action[2], promised.get(name, int(BEGINNING))):
                    moves.append(action[2])
                    copies.append(self.numbers[name])
            elif action[0] == "attach":
                commands.append(Command(verb="attach", source=name, value=action[2]))
                self.stables[name] = int(BEGINNING)
            else:
                commands.append(Command(verb="detach", source=name))
        progress = Progress(
            (BEGINNING,),
            {self.numbers[name]: (name, Time(self.stables[name])) for name in self.numbers},
            tuple(commands),
        )
        said: list[Element] = []
        stables = set()
        rows = prepared(self.kernel, moves, copies)
        for place, part in enumerate(of_all_shards(rows, len(self.traces))):
            trace, output = self.kernel.advance(self.traces[place], (part,), progress)
            self.traces[place] = trace
            assert trace.stable == output.stable
            stables.add(output.stable)
            said += elements_of(output)
        # Every shard hears all promises, so that all of them come equally far.
        (stable,) = stables
        if stable > self.stable:
            self.stable = stable
            said.append(KitStable(stable))
        return said


def is_late(move: Move, promised: int) -> bool:
    """Whether a reader leaves out what a copy says against its own promise."""
    return move.start < promised and min(move.end, move.new_end) < promised


@cache
def kernel_of(case: Case, policy: MergePolicy, asserted: bool, settles: bool) -> MergeKernel:
    """A kernel for a source with copies."""
    # What is known of the source makes the case one that need not be asserted.
    ordered = case in ("r0", "r1", "r2") and not asserted
    source = Source(
        name="copies",
        copies=True,
        schema=SCHEMA,
        insert_only=ordered,
        keyed=case in ("r0", "r2", "r3") and not asserted,
        ties=case == "r1" and not asserted,
        settles_order=settles,
        order="strict" if case == "r0" and ordered else "start" if ordered else "none",
    )
    return MergeKernel(Merge(inputs=(source,), case=case, policy=policy))


def prepared(kernel: MergeKernel, moves: Sequence[Move], copies: Sequence[int]) -> pa.RecordBatch:
    """The moves of copies, as the exchange brings them."""
    rows = [_row(kernel, move.payload, move.start) for move in moves]
    if not rows:
        return _row(kernel, ("a",), 0).slice(0, 0)
    batch = pa.concat_batches(rows)
    for name, values in (
        ("__end", [move.end for move in moves]),
        ("__new_end", [move.new_end for move in moves]),
        (COPY, copies),
    ):
        place = batch.schema.get_field_index(name)
        batch = batch.set_column(place, name, pa.array(np.array(values, np.int64)))
    return batch


@cache
def _row(kernel: MergeKernel, payload: Payload, start: int) -> pa.RecordBatch:
    """An event prepared by the kernel; to hash the same few payloads again and again takes long."""
    (batch,) = PhysicalStream(SCHEMA, (Move(payload, start, start, start + 1),)).batches()
    payload_and_copy = batch.payload.append_column(COPY, pa.array([0], pa.int32()))
    return kernel.prepare(batch.with_payload(payload_and_copy))


def forget_rows() -> None:
    """Prepare all rows again."""
    _row.cache_clear()


def batches(
    script: MergeScript, sizes: Iterator[int], *, one_leads: bool = False
) -> Iterator[list[Action]]:
    """Actions in batches of these sizes; who comes or leaves does so between two batches.

    Where some copies miss events, it does harm if one of them promises more in the batch in which
    another makes these final: of a batch only the largest promise counts, and any order of its
    elements is as good. With `one_leads` the promises in a batch are of one copy; and while one is
    there that stands for later times, there is only one promise, as it may join with any.
    """
    waiting: list[Action] = []
    size = next(sizes)
    leads: set[str] = set()
    later: set[str] = set()
    for action in script.actions:
        is_command = action[0] != "element"
        promises = action[0] == "element" and isinstance(action[2], KitStable)
        others = one_leads and promises and (leads if later else leads - {action[1]})
        if waiting and (len(waiting) >= size or is_command or others):
            yield waiting
            waiting, size, leads = [], next(sizes), set()
        waiting.append(action)
        if promises:
            leads.add(action[1])
        if is_command:
            later.discard(action[1])
            if action[0] == "attach" and action[2] > BEGINNING:
                later.add(action[1])
            yield waiting
            waiting = []
    if waiting:
        yield waiting
