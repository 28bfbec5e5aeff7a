"""Drive the merge kernel through a script of actions, in any batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from anabranch.algebra.merge import Case, Merge, MergePolicy
from anabranch.algebra.source import Source
from anabranch.kernels.kernel import COPY, Progress, Trace
from anabranch.kernels.merge import MergeKernel
from anabranch.model.batch import EventBatch
from anabranch.model.time import BEGINNING, Time
from anabranch.testing.physical import Element, Move, PhysicalStream, Stable, elements_of
from anabranch.testing.replicas import Action, MergeScript

SCHEMA = pa.schema([("payload", pa.string())])


class Driver:
    """A merge of copies that come and go, and what it has emitted."""

    def __init__(self, case: Case, policy: MergePolicy, schema: pa.Schema = SCHEMA) -> None:
        """Start with nobody."""
        # What is known of the source makes the case one that need not be asserted.
        ordered = case in ("r0", "r1", "r2")
        source = Source(
            name="copies",
            copies=True,
            schema=schema,
            insert_only=ordered,
            keyed=case != "r4",
            order="strict" if case == "r0" else "start" if ordered else "none",
        )
        self.kernel = MergeKernel(Merge(inputs=(source,), case=case, policy=policy))
        self.trace = Trace()
        self.numbers: dict[str, int] = {}
        self.stables: dict[str, int] = {}

    def step(self, actions: Sequence[Action]) -> EventBatch:
        """One batch: commands count before elements."""
        commands = []
        moves: list[Move] = []
        copies: list[int] = []
        for action in actions:
            name = action[1]
            self.numbers.setdefault(name, len(self.numbers))
            self.stables.setdefault(name, int(BEGINNING))
            if action[0] == "element":
                if isinstance(action[2], Stable):
                    self.stables[name] = max(self.stables[name], action[2].time)
                else:
                    moves.append(action[2])
                    copies.append(self.numbers[name])
            elif action[0] == "attach":
                commands.append({"verb": "attach", "source": name, "value": action[2]})
                self.stables[name] = int(BEGINNING)
            else:
                commands.append({"verb": "detach", "source": name})
        batch = EventBatch.concat(PhysicalStream(self.kernel.schema, tuple(moves)).batches())
        payload = batch.payload.append_column(COPY, pa.array(copies, pa.int32()))
        arrived = (self.kernel.prepare(batch.with_payload(payload)),)
        progress = Progress(
            (BEGINNING,),
            {self.numbers[name]: (name, Time(self.stables[name])) for name in self.numbers},
            tuple(commands),
        )
        self.trace, output = self.kernel.advance(self.trace, arrived, progress)
        return output


def batches(script: MergeScript, sizes: Iterator[int]) -> Iterator[list[Action]]:
    """Actions in batches of these sizes; who comes or leaves does so between two batches."""
    waiting: list[Action] = []
    size = next(sizes)
    for action in script.actions:
        if waiting and (len(waiting) >= size or action[0] != "element"):
            yield waiting
            waiting, size = [], next(sizes)
        waiting.append(action)
        if action[0] != "element":
            yield waiting
            waiting = []
    if waiting:
        yield waiting


def emitted(batch: EventBatch, before: int) -> list[Element]:
    """What left, with the stable point if it is news."""
    found: list[Element] = list(elements_of(batch))
    return [*found, Stable(batch.stable)] if batch.stable > before else found
