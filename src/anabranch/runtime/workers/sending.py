"""What senders send to the stages that read them: rows to shards, and heads to partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import final

import numpy as np

from anabranch.kernels.plan.address import Address
from anabranch.kernels.plan.late_rows import LateRows
from anabranch.kernels.plan.stage import with_columns_of
from anabranch.model.batch import EventBatch
from anabranch.model.time import FOREVER
from anabranch.runtime.elements.exchange import Parcel, address, announce
from anabranch.runtime.messages.counters import StageCounters
from anabranch.runtime.messages.heads import DeliveredRows, SourceHead, StageHead, TimeHead
from anabranch.runtime.messages.measured import EdgeCounters
from anabranch.runtime.workers.job import Job, Outlet
from anabranch.runtime.workers.observing import Observer

Deliver = Callable[[EventBatch, Outlet, int], DeliveredRows]
"""Puts output where it belongs; it comes by a route, in a message. What became of it."""


def source_parcels(
    job: Job,
    upstream: Address,
    batch: EventBatch,
    head: SourceHead | TimeHead,
    *,
    part: int,
    message: int = 0,
    deliver: Deliver | None = None,
    late: LateRows | None = None,
) -> Iterator[Parcel]:
    """A message of a source: its rows, prepared for every edge, and its progress.

    What would only be collected is delivered here and now, if that can be done. Of `late` rows
    goes along what lies behind their bound.
    """
    for route in job.routes(upstream):
        wanted = with_columns_of(batch, job.edge(route).columns)
        stage = job.plan.stages[route.target]
        rows, sent_head = wanted, head
        observer = Observer() if job.measures else None
        more = None if late is None else late.through(job.plan, route.target, route.edge)
        at_once = isinstance(head, SourceHead) and job.goes_out_at_once(route)
        if deliver is not None and at_once:
            assert isinstance(head, SourceHead)
            for step in stage.edges[route.edge].chain:
                rows = step.apply(rows)
                if observer is not None:
                    observer(rows)
            if more is not None:
                rows = EventBatch.concat([rows, more])
            sent_head = replace(head, delivered=deliver(rows, route, message))
            rows, more = wanted.where(np.zeros(len(wanted), np.bool_)), None
        delivered = observer is not None and sent_head is not head
        prepared = stage.prepare(
            route.edge,
            rows,
            by_event=route.by_event,
            late=more,
            observe=None if delivered else observer,
        )
        if observer is not None and isinstance(sent_head, SourceHead):
            sent = EdgeCounters(len(wanted), tuple(observer.steps))
            sent_head = replace(sent_head, sent=sent)
        yield from announce(
            sent_head,
            target=route.target,
            edge=route.edge,
            part=part,
            message=message,
            partitions=route.partitions,
        )
        yield from address(
            prepared,
            target=route.target,
            edge=route.edge,
            part=part,
            message=message,
            shards=route.shards,
            keyed=route.keyed,
            everywhere=route.everywhere,
            partitions=route.partitions,
        )


@final
class StageOutbox:
    """What a task has of a stage for those behind it: rows shard by shard, then one head for all.

    The head tells how far the slowest of its shards is, and of how many it tells that.
    """

    def __init__(self, job: Job, stage_index: int, part: int) -> None:
        """The part is the least of the shards."""
        self._job = job
        self._part = part
        self._routes = job.routes(Address.stage(job.plan.stages[stage_index].name))
        self._sent = [EdgeCounters()] * len(self._routes)
        self._counters: list[StageCounters] = []
        self._stable, self._shards = int(FOREVER), 0

    def count(self, counters: tuple[StageCounters, ...]) -> None:
        """Take in what a shard has counted, or several; what it only hands on is in front."""
        own = counters[-1]
        self._stable, self._shards = min(self._stable, own.stable), self._shards + own.shards
        self._counters += counters

    def parcels(self, shard: int, output: EventBatch) -> Iterator[Parcel]:
        """The rows that a shard gave, prepared for every edge."""
        if not len(output):
            return
        job = self._job
        for number, route in enumerate(self._routes):
            wanted = with_columns_of(output, job.edge(route).columns)
            observer = Observer() if job.measures else None
            stage = job.plan.stages[route.target]
            rows = stage.prepare(route.edge, wanted, by_event=route.by_event, observe=observer)
            if observer is not None:
                counted = EdgeCounters(len(wanted), tuple(observer.steps))
                self._sent[number] = self._sent[number].plus(counted)
            yield from address(
                rows,
                target=route.target,
                edge=route.edge,
                part=shard,
                shards=route.shards,
                keyed=route.keyed,
                everywhere=route.everywhere,
                partitions=route.partitions,
            )

    def heads(self) -> Iterator[Parcel]:
        """What is said of all shards; only in the first partition there is somebody who counts."""
        plain = StageHead(stable=self._stable, shards=self._shards)
        counted = replace(plain, counters=tuple(self._counters))
        for route, sent in zip(self._routes, self._sent, strict=True):
            full = replace(counted, sent=sent) if self._job.measures else counted
            for parcel in announce(
                plain,
                target=route.target,
                edge=route.edge,
                part=self._part,
                partitions=route.partitions,
            ):
                yield parcel if parcel.shard else replace(parcel, head=full)
