"""What the experiments on merging share: sizes, mergers side by side, statements."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, Final, Protocol, final

import numpy as np
import pyarrow as pa

from anabranch.algebra.analysis.merge_case import Case
from anabranch.algebra.forms.cleanse import Cleanse
from anabranch.algebra.merge import Merge, MergePolicy
from anabranch.algebra.source import Source
from anabranch.bench.report import Report
from anabranch.kernels.contract.kernel import Progress, Trace
from anabranch.kernels.lifetimes.cleanse import CleanseKernel
from anabranch.kernels.merge.merge import MergeKernel
from anabranch.model.batch import EventBatch
from anabranch.model.time import BEGINNING, FOREVER, Time
from anabranch.workloads.lmerge import PAYLOAD, LMerge, copy_batches

_USUAL: Final = MergePolicy()


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class MergeSize:
    """How much is measured.

    Attributes:
        events: Events of the stream that all copies tell of.
        live: How many of them hold at one instant.
        batch: Elements of each copy per batch.
        text: Bytes of a payload.
        inputs: How many copies are merged, one after the other.
        kernel: Events and elements per batch where each case is measured by itself.
        shares: Disorder, from none to much.
        lags: By how many seconds two of three inputs lag.
        stables: Shares of stable points.
        seconds: How long bursts and congestion are watched.
        switched: Elements of the two plans that take turns, and after how many seconds each hands
            over what it has.
        repeats: The median of so many counts where each case is measured by itself.
        spark: Files of each copy and elements per file, for Spark; no files: not on Spark.
        feedback: Files and rows per file, for feedback between two queries on Spark. With few rows
            a batch takes as long as Spark needs for any batch, whatever is skipped of it.
    """

    events: int
    live: int
    batch: int
    text: int
    inputs: tuple[int, ...]
    kernel: tuple[int, int]
    shares: tuple[float, ...]
    lags: tuple[float, ...]
    stables: tuple[float, ...]
    seconds: int
    switched: tuple[int, float]
    repeats: int
    spark: tuple[int, int]
    feedback: tuple[int, int]


class Merger(Protocol):
    """Something that merges copies batch by batch."""

    def step(self, batches: Sequence[EventBatch], stables: Sequence[int]) -> EventBatch:
        """One batch of each copy, and how far each has come."""

    def size(self) -> int:
        """Bytes it holds."""


@final
class Plain:
    """The product's kernel as one of the five cases."""

    def __init__(
        self,
        case: Case,
        inputs: int,
        schema: pa.Schema = PAYLOAD,
        policy: MergePolicy = _USUAL,
    ) -> None:
        """Nothing merged yet."""
        node = Merge(inputs=_sources(case, inputs, schema), case=case, policy=policy)
        self.kernel: MergeKernel = MergeKernel(node)
        self.trace: Trace = Trace()

    def step(self, batches: Sequence[EventBatch], stables: Sequence[int]) -> EventBatch:
        """Prepare all, advance once."""
        arrived = tuple(self.kernel.prepare(batch, side) for side, batch in enumerate(batches))
        progress = Progress(tuple(Time(stable) for stable in stables))
        self.trace, output = self.kernel.advance(self.trace, arrived, progress)
        return output

    def size(self) -> int:
        """The buffers of its trace."""
        return trace_bytes([self.trace])


@final
class Naive:
    """LMR3-: an index per input and one for the output, with all payloads in each."""

    def __init__(self, inputs: int) -> None:
        """Nothing merged yet."""
        self.each: list[Plain] = [Plain("r3", 1) for _ in range(inputs)]
        self.output: Plain = Plain("r3", inputs)

    def step(self, batches: Sequence[EventBatch], stables: Sequence[int]) -> EventBatch:
        """Every input looks its elements up by itself, and then so does the output."""
        streams_out = [
            index.step([batch], [stable])
            for index, batch, stable in zip(self.each, batches, stables, strict=True)
        ]
        return self.output.step(streams_out, stables)

    def size(self) -> int:
        """The buffers of all indexes."""
        return trace_bytes([*(index.trace for index in self.each), self.output.trace])


@final
class Cleansed:
    """C+LMR1: every input is brought into order first."""

    def __init__(self, inputs: int) -> None:
        """Nothing merged yet."""
        sources = _sources("r3", inputs, PAYLOAD)
        self.kernels: list[CleanseKernel] = [
            CleanseKernel(Cleanse(input=source, cut=False)) for source in sources
        ]
        self.traces: list[Trace] = [Trace() for _ in range(inputs)]
        self.output: Plain = Plain("r1", inputs)

    def step(self, batches: Sequence[EventBatch], stables: Sequence[int]) -> EventBatch:
        """Hold back, let go in order, merge that."""
        ordered = []
        for index, (kernel, batch) in enumerate(zip(self.kernels, batches, strict=True)):
            arrived = (kernel.prepare(batch),)
            self.traces[index], output = kernel.step(
                self.traces[index], arrived, Time(stables[index])
            )
            ordered.append(output)
        return self.output.step(ordered, [output.stable for output in ordered])

    def size(self) -> int:
        """The buffers of everything held back, and of the merge."""
        return trace_bytes([*self.traces, self.output.trace])


MERGERS: Final[Mapping[str, Callable[[int], Merger]]] = {
    "r0": lambda inputs: Plain("r0", inputs),
    "r1": lambda inputs: Plain("r1", inputs),
    "r2": lambda inputs: Plain("r2", inputs),
    "r3": lambda inputs: Plain("r3", inputs),
    "r4": lambda inputs: Plain("r4", inputs),
    "r3-": Naive,
    "c+r1": Cleansed,
}


def _sources(case: str, inputs: int, schema: pa.Schema) -> tuple[Source, ...]:
    """Sources that are known to be what the case says, so that nothing has to be checked."""
    ordered = case in ("r0", "r1", "r2")
    return tuple(
        Source(
            name=f"copy {number}",
            schema=schema,
            insert_only=ordered,
            keyed=case not in ("r1", "r4"),
            order="strict" if case == "r0" else "start" if ordered else "none",
        )
        for number in range(inputs)
    )


def trace_bytes(traces: Sequence[Trace]) -> int:
    """Bytes of the buffers of all runs, each buffer once."""
    buffers: dict[int, int] = {}
    for trace in traces:
        for runs in trace.runs.values():
            for run in runs:
                for column in run.rows.columns:
                    held = [each for each in column.buffers() if each is not None]
                    buffers.update({each.address: each.size for each in held})
    return sum(buffers.values())


@final
@dataclass(slots=True)
class MergerRun:
    """What one merger did, over all steps.

    Attributes:
        elements: Elements in, per step.
        seconds: CPU seconds of each step, preparing included.
        bytes: What it held after each step.
        inserts: Inserts out.
        adjusts: Adjusts out, removals included.
        waits: How long inserts took to leave, in the stream's own seconds, by step.
    """

    elements: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    bytes: list[int] = field(default_factory=list)
    inserts: int = 0
    adjusts: int = 0
    waits: list[tuple[float, int]] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Elements per CPU second; the first step warms up, the last ones only end the stream."""
        full = max(self.elements, default=0)
        pairs = [
            pair for pair in zip(self.elements, self.seconds, strict=True) if 2 * pair[0] >= full
        ]
        pairs = pairs[1:] or pairs
        return sum(pair[0] for pair in pairs) / max(sum(pair[1] for pair in pairs), 1e-9)

    @property
    def memory(self) -> float:
        """Bytes held on average in the second half, before the end."""
        steady = self.bytes[len(self.bytes) // 2 : -1] or self.bytes
        return statistics.fmean(steady)

    @property
    def wait(self) -> float:
        """The mean time from the start of an event to its insert, in seconds of the stream."""
        many = sum(count for _, count in self.waits)
        return sum(total for total, _ in self.waits) / max(many, 1) / 1e6

    def note(
        self, elements: int, seconds: float, held: int, output: EventBatch, clock: int
    ) -> None:
        """One more step."""
        self.elements.append(elements)
        self.seconds.append(seconds)
        self.bytes.append(held)
        first = output.end == output.start
        self.inserts += int(first.sum())
        self.adjusts += int((~first).sum())
        self.waits.append((float((clock - output.start[first]).sum()), int(first.sum())))


def feeds(config: LMerge, inputs: int, batch: int) -> Iterator[list[EventBatch]]:
    """One batch of every copy at a time."""
    empty = EventBatch.empty(PAYLOAD, FOREVER)
    copies = [copy_batches(config, number, batch) for number in range(inputs)]
    for step in zip_longest(*copies, fillvalue=empty):
        yield list(step)


def race(
    mergers: Mapping[str, Merger], steps: Iterator[list[EventBatch]], *, ends: bool = True
) -> dict[str, MergerRun]:
    """Feed the same batches to all mergers, in turns; another one is first every time.

    Whoever is first finds the batches out of the processor's caches.
    """
    runs = {name: MergerRun() for name in mergers}
    order = list(mergers)
    stables: list[int] = []
    clock = int(BEGINNING)
    for batches in steps:
        stables = stables or [int(BEGINNING)] * len(batches)
        stables = [max(was, int(b.stable)) for was, b in zip(stables, batches, strict=True)]
        elements = sum(len(batch) for batch in batches)
        clock = max([clock, *(int(b.start.max()) for b in batches if len(b))])
        if not ends and min(stables) == FOREVER:
            break
        order = [*order[1:], order[0]]
        for name in order:
            began = time.process_time()
            output = mergers[name].step(batches, stables)
            seconds = time.process_time() - began
            runs[name].note(elements, seconds, mergers[name].size(), output, clock)
    return runs


@final
@dataclass(slots=True)
class MergeLab:
    """What all experiments share: the report, the size, and what was stated so far."""

    report: Report
    size: MergeSize
    checks: list[bool] = field(default_factory=list)

    def config(self, **changes: Any) -> LMerge:
        """The workload in this size."""
        usual: dict[str, Any] = {
            "events": self.size.events,
            "live": self.size.live,
            "text": self.size.text,
        }
        return LMerge(**{**usual, **changes})

    def point(self, row: str, series: str, at: float, **values: float) -> None:
        """One point of a curve."""
        shown = {name: float(np.round(value, 6)) for name, value in values.items()}
        self.report.measured("point", row=row, series=series, at=at, **shown)

    def state(self, row: str, expected: str, holds: bool, here: str) -> None:
        """The shape that the paper has, and whether it is so here."""
        self.checks.append(bool(holds))
        self.report.measured("verdict", row=row, expected=expected, holds=bool(holds), here=here)
