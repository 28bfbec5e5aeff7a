"""Reports of copies that contradict what is settled: the event, and both views of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, final

import numpy as np
import pyarrow as pa

from anabranch.errors import StreamError
from anabranch.kernels.columns.grouped import Ints, Mask
from anabranch.kernels.contract.column_names import ID
from anabranch.kernels.contract.kernel import SortedRun
from anabranch.model.batch import EventBatch
from anabranch.model.clock import INTEGERS, Clock
from anabranch.model.payload import Payload, payloads, show_payload

SHOWN: Final = 5
"""This many contradictions of a step are described; all are counted."""


@final
@dataclass(frozen=True, slots=True)
class Contradiction:
    """An event that the output and an input (given by its index) see differently, for good."""

    payload: Payload
    start: int
    by: int
    ours: tuple[int, ...]
    theirs: tuple[int, ...]

    def text(self, name: str, *, clock: Clock = INTEGERS) -> str:
        """For people: `('a') from 5: settled until 9, but 'two' says until 7`."""
        ours, theirs = (_view(ends, clock) for ends in (self.ours, self.theirs))
        settled = ours if self.ours else f"that {ours}"
        start = clock.format(self.start)
        event = f"{show_payload(self.payload)} from {start}"
        return f"{event}: settled {settled}, but '{name}' says {theirs}"


def _view(ends: Sequence[int], clock: Clock) -> str:
    counts = sorted(Counter(ends).items())
    if not counts:
        return "there is none"
    times = [clock.format(end) for end, _ in counts]
    if counts == [(ends[0], 1)]:
        return f"until {times[0]}"
    return ", ".join(f"{count} until {time}" for time, (_, count) in zip(times, counts))


Events = Callable[[Ints], EventBatch]
"""Payloads and starts of nodes, in the order in which they are asked for."""

Views = Callable[[int, int], tuple[tuple[int, ...], ...]]
"""The ends that the output and an input have for a node."""


def describe(
    node: Ints, by: Ints, arrived: Mask, find: Events, views: Views
) -> tuple[Contradiction, ...]:
    """Some contradictions in detail, of every input one at least.

    `node` and `by` are their nodes and inputs, `arrived` marks nodes with elements in the batch.
    """
    if not len(by):
        return ()
    first = np.unique(by, return_index=True)[1]
    shown = np.union1d(first, np.arange(min(len(by), SHOWN)))
    shown = shown[np.argsort(~arrived[node[shown]], kind="stable")]
    events = find(node[shown])
    return tuple(
        Contradiction(payload, int(start), index, *views(which, index))
        for payload, start, which, index in zip(
            payloads(events.payload, len(events)),
            events.start,
            node[shown].tolist(),
            by[shown].tolist(),
        )
    )


def contradiction(
    name: str, found: Sequence[Contradiction], *, clock: Clock = INTEGERS
) -> StreamError:
    """An input says something else than what is settled."""
    return StreamError(
        f"input '{name}' contradicts what is settled",
        where="\n".join(each.text(name, clock=clock) for each in found[:SHOWN]),
        hint="find out which copy is right; divergence='quarantine' continues without this one",
    )


Note: TypeAlias = tuple[str, str]
"""The name of an input, and what it contradicts."""


def report_run(notes: Sequence[Note]) -> SortedRun:
    """What a step noticed, as it is stored."""
    names, texts = zip(*notes)
    return SortedRun(
        pa.RecordBatch.from_pydict(
            {
                ID: pa.array(np.arange(len(notes), dtype=np.uint64)),
                "copy": pa.array(names, pa.string()),
                "event": pa.array(texts, pa.string()),
            }
        )
    )
