"""Two plans of one query, each slow where the other is fast, and what their merge tells them.

Both plans select by the same function of a value X; one is slow for small values, the other for
large ones. What that costs is simulated, at the published cost of an element; what the merge costs
is its CPU time. Plans and merge have a processor each, with a clock. The plan whose clock is behind
works next. What a plan gives reaches the merge, and what the merge promises reaches the plans, when
the clock of the sender says so.
"""

from __future__ import annotations

import heapq
import time
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Final, final

import numpy as np
import pyarrow as pa

from anabranch.bench.merge.lab import MergeLab, Plain
from anabranch.model.batch import EventBatch
from anabranch.model.time import BEGINNING, FOREVER, Time

SCHEMA: Final = pa.schema([("x", pa.int64()), ("number", pa.int64())])
MIDDLE: Final = 200
"""Values below are small."""

SWITCHES: Final = 9
LASTS: Final = 50
"""An event holds as long as so many follow it."""

CHEAP: Final = 34.0
DEAR: Final = 300.0
"""Seconds for the whole stream: 34 if all of it is cheap, 163 and 176 if half of it is (VI-E)."""


@final
@dataclass(slots=True)
class TurnPlan:
    """One of the two, what its work has cost up to each element, and how far it is."""

    spent: np.ndarray
    next_row: int = 0
    clock: float = 0.0
    worked: int = 0
    stable: int = BEGINNING

    @staticmethod
    def of(x: np.ndarray, *, dear_if_small: bool) -> TurnPlan:
        """A plan over elements with these values."""
        each = np.where((x < MIDDLE) == dear_if_small, DEAR, CHEAP) / len(x)
        return TurnPlan(np.concatenate([[0.0], np.cumsum(each)]))

    def work(self, seconds: float) -> np.ndarray:
        """Go on for about so long; the elements that were worked on."""
        begin = self.spent[self.next_row]
        last = int(np.searchsorted(self.spent, begin + seconds))
        last = min(max(last, self.next_row + 1), len(self.spent) - 1)
        rows = np.arange(self.next_row, last)
        self.clock += float(self.spent[last] - begin)
        self.worked += len(rows)
        self.next_row = last
        return rows


@final
@dataclass(slots=True)
class Race:
    """The plans and their merge."""

    stream: EventBatch
    plans: list[TurnPlan]
    feedback: bool
    every: float
    merge_clock: float = 0.0
    inserts: int = 0
    promised: list[tuple[float, int]] = field(default_factory=list)

    def run(self) -> float:
        """The clock of the merge when its output is complete."""
        merger = Plain("r3", 2, SCHEMA)
        count = 0
        coming: list[tuple[float, int, int, EventBatch]] = []
        while True:
            number = min((0, 1), key=lambda each: self.plans[each].clock)
            plan = self.plans[number]
            while coming and coming[0][0] <= plan.clock:
                sent, _, source, batch = heapq.heappop(coming)
                self.merge_clock = max(self.merge_clock, sent)
                if self._merged(merger, source, batch) == FOREVER:
                    return self.merge_clock
            if plan.next_row >= len(self.stream):
                # It is done; what it has said last is on its way.
                plan.clock = coming[0][0]
                continue
            output = self._chunk(plan, self._heard(plan))
            count += 1
            heapq.heappush(coming, (plan.clock, count, number, output))

    def _heard(self, plan: TurnPlan) -> int:
        """How far the merge is, as a plan knows by now."""
        if not self.feedback:
            return int(BEGINNING)
        index = bisect_right(self.promised, (plan.clock, int(FOREVER)))
        return self.promised[index - 1][1] if index else int(BEGINNING)

    def _chunk(self, plan: TurnPlan, wanted: int) -> EventBatch:
        """Work on the next elements that still matter to somebody."""
        # Starts and ends are in order: whatever ends before that is of no interest.
        plan.next_row = max(plan.next_row, int(np.searchsorted(self.stream.new_end, wanted)))
        if plan.next_row >= len(self.stream):
            return EventBatch.empty(SCHEMA, FOREVER)
        rows = plan.work(self.every)
        chosen = rows[_selected(self.stream.payload.column("x").to_numpy()[rows])]
        last = plan.next_row
        over = last == len(self.stream)
        return self.stream.take(chosen).with_stable(
            FOREVER if over else Time(int(self.stream.start[last]))
        )

    def _merged(self, merger: Plain, source: int, batch: EventBatch) -> int:
        self.plans[source].stable = max(self.plans[source].stable, int(batch.stable))
        empty = EventBatch.empty(SCHEMA)
        batches = [batch if number == source else empty for number in (0, 1)]
        began = time.process_time()
        output = merger.step(batches, [plan.stable for plan in self.plans])
        self.merge_clock += time.process_time() - began
        self.promised.append((self.merge_clock, int(output.stable)))
        self.inserts += int((output.end == output.start).sum())
        return int(output.stable)


def _selected(x: np.ndarray) -> np.ndarray:
    """About half of all elements, the same for both plans."""
    mixed = x.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return np.asarray(mixed >> np.uint64(63) == 1)


def plan_switching(lab: MergeLab) -> None:
    """The plans alone, merged, and merged with feedback."""
    elements, every = lab.size.switched
    stream = _alternating(elements)
    x = stream.payload.column("x").to_numpy()

    def plans() -> list[TurnPlan]:
        return [TurnPlan.of(x, dear_if_small=small) for small in (True, False)]

    alone = {f"plan {n}": float(plan.spent[-1]) for n, plan in enumerate(plans(), 1)}
    plain, informed = (Race(stream, plans(), feedback, every) for feedback in (False, True))
    seconds = {**alone, "merged": plain.run(), "merged with feedback": informed.run()}
    assert plain.inserts == informed.inserts, "both give the same"
    for name, value in seconds.items():
        lab.point("feedback", name, 0, seconds=value)
    faster = seconds["merged"] / seconds["merged with feedback"]
    lab.report.figure("feedback_speedup", faster)
    worked = sum(plan.worked for plan in informed.plans) / len(stream)
    lab.state(
        "feedback",
        "about 5x",
        faster >= 4,
        f"{faster:.1f} times as fast; the two plans together work on {worked:.2f} of the elements "
        "instead of 2",
    )


def _alternating(elements: int) -> EventBatch:
    """Stretches of small and large values, which differ in length by up to three times."""
    random = np.random.default_rng(2)
    shares = random.uniform(1, 3, SWITCHES + 1)
    cuts = (np.cumsum(shares) / shares.sum() * elements).astype(np.int64)
    stretch = np.searchsorted(cuts, np.arange(elements), side="right")
    x = random.integers(0, MIDDLE, elements) + MIDDLE * (stretch % 2)
    start = np.arange(elements) * 1_000
    arrays = [pa.array(x), pa.array(np.arange(elements))]
    payload = pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
    return EventBatch(payload, start, start, start + LASTS * 1_000)
