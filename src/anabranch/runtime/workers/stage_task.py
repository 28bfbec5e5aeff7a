"""One shard of a stage in one batch: gather, step, store, send on."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any, Final

import numpy as np
import pyarrow as pa

from anabranch.kernels.contract.kernel import Arrived, Trace
from anabranch.kernels.contract.packed_events import pack_events
from anabranch.kernels.plan.address import Address
from anabranch.model.batch import EventBatch
from anabranch.model.netting import net
from anabranch.model.time import BEGINNING, FOREVER, Time
from anabranch.runtime.elements.elements import ElementPosition, element_rows
from anabranch.runtime.elements.exchange import Parcel, gather, pack, unpack
from anabranch.runtime.sources.files.log_folder import SENDER, write_part
from anabranch.runtime.store.phases import reached
from anabranch.runtime.workers.job import Job
from anabranch.runtime.workers.own_settings import own_settings
from anabranch.runtime.workers.stage_progress import (
    SourceProgress,
    commands_in,
    source_progress,
    stage_progress,
)

RESULTS: Final = pa.schema([("shard", pa.int32()), ("head", pa.string()), ("blob", pa.binary())])
RESULTS_DDL: Final = "shard int, head string, blob binary"

Batches = Iterator[pa.RecordBatch]


def run_level(
    job: Job, places: Sequence[int], shards: Sequence[int], batch: int, arriving: Batches
) -> Batches:
    """Do the work of some shards for some stages; parcels for later ones pass.

    The state is stored before anything leaves. If the task fails after that, the next attempt
    starts from the same older version and gives the same.
    """
    began = time.perf_counter()
    mine: list[Parcel] = []
    is_last = tuple(places) == job.levels()[-1]
    for rows in arriving:
        targets = np.isin(rows.column("target").to_numpy(), places)
        if targets.all():
            mine += unpack(rows)
            continue
        for row, is_mine in enumerate(targets):
            one = rows.slice(row, 1)
            if is_mine:
                mine += unpack(one)
            else:
                # To a later stage, or out.
                yield one.select(RESULTS.names) if is_last else one
    for place, shard in product(places, shards):
        stage = job.plan.stages[place]
        if shard >= job.shards_of(stage):
            continue
        parcels = [one for one in mine if (one.target, one.shard) == (place, shard)]
        output, head = _step(job, place, shard, batch, parcels, began)
        yield from pack(job.parcels(Address.stage(stage.name), output, head, part=shard))
        for number in job.outputs_of(place):
            if job.deliveries[number] == "rows":
                place_of = ElementPosition.of_shard(batch, shard, job.shards_of(stage))
                yield from _as_elements(place_of, output, head)
                continue
            rows = pack(_deliver(job, number, shard, batch, output, head, parcels))
            yield from (each.select(RESULTS.names) for each in rows) if is_last else rows
        began = time.perf_counter()


def _step(
    job: Job, place: int, shard: int, batch: int, parcels: list[Parcel], began: float
) -> tuple[EventBatch, dict[str, Any]]:
    stage, store = job.plan.stages[place], job.store(place, shard)
    before = store.load(batch)
    known = source_progress(job, place, before, parcels)
    progress = stage_progress(job, place, known, parcels)
    arrived = _arrived(job, place, parcels)
    gathered = time.perf_counter()
    state = store.traces(before) if before else stage.start()
    with own_settings():
        state, output = stage.step(state, arrived, progress)
    output = netted(output) if job.nets(place) else ordered(output)
    stepped = time.perf_counter()
    counters = _count(stage.name, shard, arrived, output, state, parcels)
    counters["sources"] = _with_copies(job, place, shard, known, counters["sources"])
    report = stage.report(state)
    if report:
        counters["report"] = report
    counters["rows_out"] += sum(
        parcel.head["delivered"]["rows"] for parcel in _delivered(job, place, shard, parcels)
    )
    after = store.save(
        batch,
        before,
        state,
        sources=known.sources,
        silent=known.silent,
        copies=known.copies,
        interest=known.interest,
        counters=counters,
    )
    reached("manifest written", batch)
    if batch % store.keep == 0:
        store.clean(batch)
    counters["state_bytes"] = sum(file.bytes for file in after.files())
    counters["seconds"] = {
        "gather": round(gathered - began, 4),
        "step": round(stepped - gathered, 4),
        "store": round(time.perf_counter() - stepped, 4),
    }
    # Shard 0 hands on what it hears; it hears from all shards before it.
    heard = [each for parcel in parcels if shard == 0 for each in parcel.head.get("counters", ())]
    last = int(before.counters["stable"] if before else BEGINNING)
    head = {"stable": int(output.stable), "stable_before": last, "counters": [*heard, counters]}
    return output, head


def _delivered(job: Job, place: int, shard: int, parcels: Iterable[Parcel]) -> list[Parcel]:
    """Of what senders have delivered themselves, that which one shard has to tell of."""
    shards = job.shards_of(job.plan.stages[place])
    said = [parcel for parcel in parcels if "delivered" in parcel.head]
    return [parcel for parcel in said if parcel.part % shards == shard]


def deliver_part(
    job: Job, place: int, batch: int, sender: Sequence[int], output: EventBatch
) -> dict[str, Any]:
    """Deliver what a sender has for a stage that only collects, before the exchange.

    The sender is the edge, the part of its source and the number of its message: the order in
    which files of a batch are read.
    """
    output = ordered(output)
    found: dict[str, Any] = {"rows": len(output), "files": {}}
    for number in job.outputs_of(place):
        if job.deliveries[number] == "log" and len(output):
            out = job.outs[number]
            name = "-".join(map(str, sender))
            file = write_part(out, batch, name, output, clock=job.clocks[number])
            found["files"][str(number)] = {**file, SENDER: [*sender]}
    return found


def _arrived(job: Job, place: int, parcels: Sequence[Parcel]) -> Arrived:
    """The rows of each side, in an order that does not depend on what came first."""
    stage = job.plan.stages[place]
    sides: list[list[Parcel]] = [[] for _ in range(stage.sides)]
    for parcel in parcels:
        if parcel.rows is not None:
            stage.check(parcel.edge, parcel.rows)
        sides[stage.edges[parcel.edge].side].append(parcel)
    return tuple(gather(some, partial(job.nothing, place, side)) for side, some in enumerate(sides))


def _count(
    stage: str,
    shard: int,
    arrived: Arrived,
    output: EventBatch,
    state: tuple[Trace, ...],
    parcels: Iterable[Parcel],
) -> dict[str, Any]:
    sources: dict[str, dict[str, Any]] = {}
    if shard == 0:
        for parcel in parcels:
            # A source that goes through several edges is counted at one of them.
            if parcel.head.get("counted_at") == [parcel.target, parcel.edge]:
                seen = sources.setdefault(
                    parcel.head["source"],
                    {"rows": 0, "late": 0, "adjusted": 0, "reached": int(BEGINNING)},
                )
                for name in ("rows", "late", "adjusted"):
                    seen[name] += parcel.head[name]
                if "order" in parcel.head:
                    seen["order"] = parcel.head["order"]
                if parcel.head.get("skipped"):
                    seen["skipped"] = seen.get("skipped", 0) + parcel.head["skipped"]
                seen["reached"] = max(seen["reached"], parcel.head["reached"])
                for copy in parcel.head.get("copies", {}).values():
                    own = seen.setdefault("copies", {}).setdefault(copy["name"], Counter())
                    own.update({name: copy[name] for name in ("rows", "late", "adjusted")})
    return {
        "stage": stage,
        "shard": shard,
        "rows_in": sum(side.num_rows for side in arrived),
        "rows_out": len(output),
        "state_rows": sum(trace.rows() for trace in state),
        "state_runs": sum(len(runs) for trace in state for runs in trace.runs.values()),
        "stable": int(output.stable),
        "sources": sources,
        "control": commands_in(parcels) if shard == 0 else [],
    }


def _with_copies(
    job: Job, place: int, shard: int, known: SourceProgress, counted: dict[str, dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    """What was counted of sources, with how far they are; of copies also where nothing came."""
    nothing = {"rows": 0, "late": 0, "adjusted": 0}
    for name, copies in known.copies.items():
        if shard or job.routes(Address.source(name))[0].target != place:
            continue
        seen = counted.setdefault(name, {**nothing, "reached": int(BEGINNING)})
        came = seen.get("copies", {})
        seen["copies"] = {
            copy.name: {
                **nothing,
                **came.get(copy.name, {}),
                "reached": copy.reached,
                **({"problem": copy.problem} if copy.problem else {}),
            }
            for copy in copies.values()
        }
    for name, seen in counted.items():
        seen["reached"] = max(seen["reached"], known.sources[name])
    return counted


def ordered(batch: EventBatch) -> EventBatch:
    """The rows by time, so that output does not depend on how kernels happen to go about it.

    An event may move several times in a batch, and its moves keep their order.
    """
    if len(batch) < 2:
        return batch
    if (batch.end != batch.start).any():
        return batch.take(np.argsort(batch.start, kind="stable"))
    order = np.lexsort((batch.new_end, batch.end, batch.start))
    return batch if (order[1:] > order[:-1]).all() else batch.take(order)


def netted(batch: EventBatch) -> EventBatch:
    """One move per event, for rows whose order says nothing; inserts stay as they are."""
    return net(batch) if (batch.end != batch.start).any() else ordered(batch)


def _as_elements(position: ElementPosition, output: EventBatch, head: Mapping[str, Any]) -> Batches:
    """One stable point for all shards, and only when it is news."""
    after = FOREVER if position.first else Time(head["stable_before"])
    return element_rows(output, after=after, position=position)


def _deliver(
    job: Job,
    number: int,
    shard: int,
    batch: int,
    output: EventBatch,
    head: Mapping[str, Any],
    parcels: Iterable[Parcel],
) -> Iterator[Parcel]:
    """What the driver gets to know of an output: a parcel that no stage opens."""
    own = head["counters"][-1]
    summary = {name: own[name] for name in ("rows_in", "rows_out", "state_rows", "stable")}
    said = {**head, "output": number, "said": summary}
    delivery, rows = job.deliveries[number], None
    if delivery == "log":
        place, key = job.plan.outputs[number], str(number)
        there = [each.head["delivered"] for each in _delivered(job, place, shard, parcels)]
        said["files"] = [each["files"][key] for each in there if key in each["files"]]
        if len(output):
            out = job.outs[number]
            file = write_part(out, batch, shard, output, clock=job.clocks[number])
            said["files"].append(file)
        reached("part written", batch)
    elif len(output) and delivery != "nothing":
        rows = pack_events(output)
    target = len(job.plan.stages) + number
    yield Parcel(shard=shard, target=target, edge=0, part=shard, head=said, rows=rows)
