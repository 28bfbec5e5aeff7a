"""The chain of stages with shards and parcels, run in this process, without Spark."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

from anabranch.algebra.node import Node
from anabranch.kernels.contract.command import Command
from anabranch.kernels.contract.packed_events import unpack_events
from anabranch.kernels.plan.compile import Emission, PhysicalPlan, compile_plan
from anabranch.model.arrivals import Arrivals
from anabranch.model.batch import EventBatch
from anabranch.model.clock import INTEGERS
from anabranch.model.time import BEGINNING, Time
from anabranch.runtime.messages.heads import OutputHead
from anabranch.runtime.query.rescale import Rescale, rescaled
from anabranch.runtime.sinks.sinks import ShardResult
from anabranch.runtime.sources.files.planned_parts import CLOCK, CONTROL
from anabranch.runtime.sources.spec import Promise
from anabranch.runtime.store.folder import Folder
from anabranch.runtime.store.layout import Home, StateLayout
from anabranch.runtime.workers import resting_shards
from anabranch.runtime.workers.job import Delivery, Job
from anabranch.runtime.workers.row_order import ordered
from anabranch.runtime.workers.source_task import Arrived, send_commands, send_source, send_time
from anabranch.runtime.workers.stage_task import run_level

Parts = Mapping[str, Sequence[EventBatch]]


def arrivals(batch: EventBatch) -> Arrivals:
    """A batch as it comes from a stream: its stable point stands behind its rows."""
    said = [batch.stable] if batch.stable > BEGINNING else []
    return Arrivals(
        batch=batch,
        position=np.arange(1, len(batch) + 1),
        is_adjust=batch.end != batch.start,
        stables=np.array(said, np.int64),
        stable_positions=np.array([len(batch) + 1] * len(said), np.int64),
    )


SHIP: Delivery = "ship"


class ShardedRunner:
    """What Spark does, step by step: parts of sources, exchanges, stages, results."""

    def __init__(
        self,
        node: Node | Sequence[Node] | PhysicalPlan,
        folder: Path,
        *,
        shards: int = 3,
        emit: Emission = "speculative",
        promises: Mapping[str, Promise] | None = None,
        seed: int = 0,
        pieces: int = 1,
        deliver: Delivery = SHIP,
        unordered: Iterable[str] = (),
        resting_from: int = 1,
    ) -> None:
        if isinstance(node, PhysicalPlan):
            plan = node
        else:
            plan = compile_plan(*([node] if isinstance(node, Node) else node), emit=emit)
        known = {name: Promise(source=name) for name in plan.sources}
        self.job = Job(
            plan=plan,
            shards=shards,
            state=str(folder / "state"),
            promises={**known, **(promises or {})},
            deliveries=(deliver,) * len(plan.outputs),
            outs=tuple(str(folder / f"out{number}") for number in range(len(plan.outputs))),
            clocks=(INTEGERS,) * len(plan.outputs),
            keep=3,
            unordered=frozenset(unordered),
        )
        self.resting_from = resting_from
        self.batch = 0
        self.heads: list[OutputHead] = []
        self.outputs: list[EventBatch] = []
        self.results: list[ShardResult] = []
        self.rows = pa.table({})
        self._random = random.Random(seed)
        self._changes = 0
        self._pieces = pieces

    def rescale(self, shards: int) -> None:
        """Go on with another number of shards."""
        homes = {
            stage.name: self.job.homes.get(stage.name, Home(stage.name, ""))
            for stage in self.job.plan.stages
        }
        self._changes += 1
        change = Rescale(
            before=self.job.shards, after=shards, batch=self.batch, epoch=self._changes
        )
        layout = rescaled(self.job.plan, StateLayout(homes), Folder.at(self.job.state), change)
        self.job = replace(self.job, shards=shards, homes=layout.stages)

    def step(
        self,
        arrived: Parts,
        ends: Sequence[str] = (),
        passed: Mapping[str, int] | None = None,
        commands: Sequence[Command] = (),
        sent: Iterable[pa.RecordBatch] = (),
    ) -> EventBatch:
        output = self.attempt(arrived, ends, passed=passed, commands=commands, sent=sent)
        self.batch += 1
        return output

    def attempt(
        self,
        arrived: Parts,
        ends: Sequence[str] = (),
        until: int = 99,
        passed: Mapping[str, int] | None = None,
        commands: Sequence[Command] = (),
        sent: Iterable[pa.RecordBatch] = (),
    ) -> EventBatch:
        """One try at the current batch; it may stop before the level `until`.

        For sources in `passed` so many microseconds have gone by; `sent` is what somebody else
        has sent.
        """
        rows = list(sent)
        rows += [
            row
            for name, parts in arrived.items()
            for part, batch in enumerate(parts)
            for row in send_source(
                self.job,
                name,
                part,
                self.batch,
                self._read(batch),
                ends=name in ends,
                in_order=name not in self.job.unordered,
            )
        ]
        for name, time in (passed or {}).items():
            rows += send_time(self.job, name, CLOCK, time)
        if commands:
            rows += send_commands(self.job, CONTROL, commands)
        with patch.object(resting_shards, "RESTING_FROM_SHARDS", self.resting_from):
            for level, places in enumerate(self.job.levels()):
                if level == until:
                    return EventBatch.empty(pa.schema([]))
                rows = self._level(places, rows)
        if self.job.deliveries == ("rows",):
            self.rows = pa.Table.from_batches(rows) if rows else pa.table({})
            return EventBatch.empty(pa.schema([]))
        self.results = results = ShardResult.of_table(pa.Table.from_batches(rows))
        self.heads = [result.head for result in results]
        self.outputs = [
            self._output(number, [each for each in results if each.head.output == number])
            for number in range(len(self.job.plan.outputs))
        ]
        return self.outputs[0]

    def _read(self, batch: EventBatch) -> list[Arrived]:
        """A part in so many pieces, as files are read; the stable point stands behind the last."""
        cuts = np.linspace(0, len(batch), self._pieces + 1).astype(int)
        rows = [batch.take(np.arange(low, high)) for low, high in pairwise(cuts)]
        stables = [BEGINNING] * (self._pieces - 1) + [batch.stable]
        return [
            (arrivals(each.with_stable(stable)), "here")
            for each, stable in zip(rows, stables, strict=True)
        ]

    def _output(self, number: int, results: Sequence[ShardResult]) -> EventBatch:
        stable = Time(min(result.head.stable for result in results))
        schema = self.job.plan.stages[self.job.plan.outputs[number]].schema
        found = [
            unpack_events(each.rows, schema, stable) for each in results if each.rows is not None
        ]
        return ordered(EventBatch.concat([EventBatch.empty(schema, stable), *found]))

    def _level(self, places: tuple[int, ...], rows: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
        width, most = self.job.width(places), self.job.most_shards(places)
        # Spark says nothing about the order in which the senders' rows come.
        singles = [row.slice(i, 1) for row in rows for i in range(row.num_rows)]
        self._random.shuffle(singles)
        shards = [
            [one for one in singles if one["shard"][0].as_py() % width == s] for s in range(width)
        ]
        assert sum(map(len, shards)) == len(singles)
        return [
            result
            for first, mine in enumerate(shards)
            for result in run_level(
                self.job, places, range(first, most, width), self.batch, iter(mine)
            )
        ]


@pytest.fixture
def sharded(tmp_path: Path) -> Callable[..., ShardedRunner]:
    """Makes runners in a folder of their own."""
    count = 0

    def make(node: Node | PhysicalPlan, **options: Any) -> ShardedRunner:
        nonlocal count
        count += 1
        return ShardedRunner(node, options.pop("folder", tmp_path / str(count)), **options)

    return make
