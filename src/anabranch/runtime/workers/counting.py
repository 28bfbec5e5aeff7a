"""Counters of one shard of a stage: rows that senders have read, and rows they have delivered."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from anabranch.kernels.plan.address import Address
from anabranch.runtime.elements.exchange import Parcel
from anabranch.runtime.messages.counters import CopyCounters, SourceCounters
from anabranch.runtime.messages.heads import CopyReport, DeliveredRows, SourceHead
from anabranch.runtime.workers.job import Job
from anabranch.runtime.workers.stage_progress import SourceProgress


def count_sources(
    job: Job, index: int, shard: int, progress: SourceProgress, parcels: Iterable[Parcel]
) -> dict[str, SourceCounters]:
    """What came of the sources that are counted at a stage, and how far they are.

    Every shard hears of every message, so shard 0 counts alone; and a source that goes through
    several edges is counted at one of them. Copies are told of also where nothing came of them.
    """
    if shard:
        return {}
    counted: dict[str, SourceCounters] = {}
    for parcel in parcels:
        head = parcel.head
        if isinstance(head, SourceHead) and head.counted_at == (parcel.target, parcel.edge):
            counted[head.source] = _added(counted.get(head.source, SourceCounters()), head)
    for name, copies in progress.copies.items():
        if job.routes(Address.source(name))[0].target != index:
            continue
        seen = counted.get(name, SourceCounters())
        copies_seen = seen.copies or {}
        own = {
            copy.name: replace(
                copies_seen.get(copy.name, CopyCounters()),
                reached=copy.reached,
                problem=copy.problem,
            )
            for copy in copies.values()
        }
        counted[name] = replace(seen, copies=own)
    return {
        name: replace(seen, reached=max(seen.reached, progress.sources[name]))
        for name, seen in counted.items()
    }


def delivered_before(
    job: Job, index: int, shard: int, parcels: Iterable[Parcel]
) -> list[DeliveredRows]:
    """Of what senders have delivered themselves, that which one shard has to tell of."""
    shards = job.shards_of(job.plan.stages[index])
    own = [parcel.head for parcel in parcels if parcel.part % shards == shard]
    heads = [head for head in own if isinstance(head, SourceHead)]
    return [head.delivered for head in heads if head.delivered is not None]


def delivering_shards(job: Job, index: int, parcels: Iterable[Parcel]) -> list[int]:
    """The shards that have to tell of what senders have delivered themselves."""
    shards = job.shards_of(job.plan.stages[index])
    found = {
        parcel.part % shards
        for parcel in parcels
        if isinstance(parcel.head, SourceHead) and parcel.head.delivered is not None
    }
    return sorted(found)


def _added(seen: SourceCounters, head: SourceHead) -> SourceCounters:
    copies = dict(seen.copies or {})
    for copy in head.copies.values():
        copies[copy.name] = _added_copy(copies.get(copy.name, CopyCounters()), copy)
    return SourceCounters(
        rows=seen.rows + head.rows,
        late=seen.late + head.late,
        adjusted=seen.adjusted + head.adjusted,
        reached=max(seen.reached, head.reached),
        order=seen.order if head.ordered else "none",
        revised=seen.revised + head.revised,
        skipped=seen.skipped + head.skipped,
        copies=copies or None,
        rewritten=seen.rewritten + head.rewritten,
    )


def _added_copy(seen: CopyCounters, copy: CopyReport) -> CopyCounters:
    return replace(
        seen,
        rows=seen.rows + copy.rows,
        late=seen.late + copy.late,
        adjusted=seen.adjusted + copy.adjusted,
    )
