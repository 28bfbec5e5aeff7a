"""Progress of all inputs of a stage by a batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

from anabranch.kernels.contract.command import Command
from anabranch.kernels.contract.kernel import Progress
from anabranch.model.time import BEGINNING, FOREVER, Time
from anabranch.runtime.elements.exchange import Parcel
from anabranch.runtime.messages.heads import ControlHead, SourceHead, StageHead, TimeHead
from anabranch.runtime.store.state_store import CopyState, Manifest
from anabranch.runtime.workers.job import Job


@final
@dataclass(frozen=True, slots=True)
class SourceProgress:
    """What the sources of a stage have promised.

    Attributes:
        sources: How far each of them has.
        silent: For how many microseconds those with a heartbeat have been silent.
        copies: What is known of the copies of a source, by number.
        interest: What of the output ends before this is of no interest.
        ends: The greatest end of all events that have come of each source; FOREVER where a version
            of before has not kept it.
        interest_since: Of what is of interest, nothing starts before this.
    """

    sources: dict[str, int]
    silent: dict[str, int]
    copies: dict[str, dict[int, CopyState]]
    interest: int
    ends: dict[str, int]
    interest_since: int


def source_progress(
    job: Job, stage_index: int, before: Manifest | None, parcels: Sequence[Parcel]
) -> SourceProgress:
    """How far each source that this stage reads has promised by now, and since when it is silent.

    The time of a source that is silent for long enough goes on with the clock.
    """
    sources_seen: Mapping[str, int] = before.sources if before else {}
    reads = job.plan.stages[stage_index].reads
    progress = {name: sources_seen.get(name, int(BEGINNING)) for name in reads}
    silent = dict(before.silent) if before else {}
    unknown = int(BEGINNING if before is None else FOREVER)
    ends = {name: before.ends.get(name, unknown) if before else unknown for name in reads}
    speaking: set[str] = set()
    passed: dict[str, int] = {}
    for parcel in parcels:
        head = parcel.head
        if isinstance(head, TimeHead):
            passed[head.source] = head.passed
        elif isinstance(head, SourceHead):
            progress[head.source] = max(progress[head.source], head.reached)
            ends[head.source] = max(ends[head.source], head.last_end)
            if head.rows:
                speaking.add(head.source)
    for command in commands_in(parcels):
        for name in progress:
            # What Spark does for one use of a source makes it a source of its own, `name.2`.
            is_meant = name == command.source or name.startswith(f"{command.source}.")
            if command.verb == "advance" and is_meant and command.value is not None:
                progress[name] = max(progress[name], command.value)
    for source, microseconds in passed.items():
        promise = job.promises[source]
        waited = 0 if source in speaking else silent.get(source, 0) + microseconds
        # Before its first word there is nothing to count from.
        if progress[source] > BEGINNING and waited >= (promise.heartbeat or FOREVER):
            chronon = promise.clock.chronon or 1
            steps = waited // chronon
            progress[source] = min(progress[source] + steps, int(FOREVER))
            waited -= steps * chronon
        silent[source] = waited
    copies = {
        name: _copies(before.copies.get(name, {}) if before else {}, name, parcels)
        for name in reads
        if job.plan.sources[name].copies
    }
    # The later of two says more: what reaches it is a part of what reached the earlier one, and so
    # starts no earlier. Both instants only rise, as what was purged for them does not come back.
    told = (before.interest, before.interest_since) if before else (int(BEGINNING),) * 2
    for each in commands_in(parcels):
        if each.verb == "feedback" and each.value is not None and each.value >= told[0]:
            since = int(BEGINNING) if each.since is None else each.since
            told = (each.value, max(since, told[1]))
    return SourceProgress(progress, silent, copies, told[0], ends, told[1])


def _copies(
    before: Mapping[int, CopyState], source: str, parcels: Iterable[Parcel]
) -> dict[int, CopyState]:
    """What is known of the copies of a source; one that begins again has promised nothing."""
    heads = [parcel.head for parcel in parcels]
    own = [head for head in heads if isinstance(head, SourceHead) and head.source == source]
    reported = [each for head in own for each in head.copies.items()]
    found = dict(before)
    for number, copy in reported:
        if copy.restart or number not in found:
            found[number] = CopyState(copy.name, int(BEGINNING))
    for number, copy in reported:
        copy_seen = found[number]
        found[number] = replace(
            copy_seen,
            reached=max(copy_seen.reached, copy.reached),
            problem=copy_seen.problem if copy.problem is None else copy.problem,
        )
    return dict(sorted(found.items()))


def commands_in(parcels: Iterable[Parcel]) -> list[Command]:
    """What came through the control stream."""
    heads = [parcel.head for parcel in parcels]
    return [each for head in heads if isinstance(head, ControlHead) for each in head.commands]


def stage_progress(
    job: Job, stage_index: int, sources_seen: SourceProgress, parcels: Sequence[Parcel]
) -> Progress:
    """What all edges promise; an upstream stage promises what its slowest shard does.

    Every task of an upstream stage reports in every batch, for all the shards that it has.
    """
    stables: list[Time] = []
    names = {stage.name: stage for stage in job.plan.stages}
    reports: dict[int, dict[int, StageHead]] = {}
    for parcel in parcels:
        if isinstance(parcel.head, StageHead):
            reports.setdefault(parcel.edge, {})[parcel.part] = parcel.head
    for number, edge in enumerate(job.plan.stages[stage_index].edges):
        name = edge.upstream.name
        if edge.upstream.is_source:
            stables.append(edge.promise(Time(sources_seen.sources[name])))
            continue
        heard, expected = reports.get(number, {}).values(), job.shards_of(names[name])
        count = sum(head.shards for head in heard)
        assert count == expected, f"{count} of {expected} shards of {name} reported"
        stables.append(edge.promise(Time(min(head.stable for head in heard))))
    copies = {
        source: {
            number: (copy.name, Time(copy.reached)) for number, copy in copies_of_source.items()
        }
        for source, copies_of_source in sources_seen.copies.items()
    }
    return job.plan.stages[stage_index].progress(stables, copies, commands_in(parcels))
