"""How far everything that a stage reads has come by a batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

from anabranch.kernels.contract.kernel import Progress
from anabranch.model.time import BEGINNING, FOREVER, Time
from anabranch.runtime.elements.exchange import Parcel
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
    """

    sources: dict[str, int]
    silent: dict[str, int]
    copies: dict[str, dict[str, CopyState]]
    interest: int


def source_progress(
    job: Job, place: int, before: Manifest | None, parcels: Sequence[Parcel]
) -> SourceProgress:
    """How far each source that this stage reads has promised by now, and since when it is silent.

    The time of a source that is silent for long enough goes on with the clock.
    """
    known: Mapping[str, int] = before.sources if before else {}
    reads = job.plan.stages[place].reads
    progress = {name: known.get(name, int(BEGINNING)) for name in reads}
    silent = dict(before.silent) if before else {}
    speaking: set[str] = set()
    passed: dict[str, int] = {}
    for parcel in parcels:
        source = parcel.head.get("source")
        if source is None:
            continue
        progress[source] = max(progress[source], parcel.head["reached"])
        if "passed" in parcel.head:
            passed[source] = parcel.head["passed"]
        elif parcel.head["rows"]:
            speaking.add(source)
    for command in commands_in(parcels):
        for name in progress:
            # What Spark does for one use of a source makes it a source of its own, `name.2`.
            is_meant = name == command["source"] or name.startswith(f"{command['source']}.")
            if command["verb"] == "advance" and is_meant:
                progress[name] = max(progress[name], command["value"])
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
    known_interest = before.interest if before else int(BEGINNING)
    said = [each["value"] for each in commands_in(parcels) if each["verb"] == "feedback"]
    return SourceProgress(progress, silent, copies, max([known_interest, *said]))


def _copies(
    before: Mapping[str, CopyState], source: str, parcels: Iterable[Parcel]
) -> dict[str, CopyState]:
    """What is known of the copies of a source; one that begins again has promised nothing."""
    heads = [parcel.head for parcel in parcels if parcel.head.get("source") == source]
    said = [each for head in heads for each in head.get("copies", {}).items()]
    found = dict(before)
    for number, copy in said:
        if copy["restart"] or number not in found:
            found[number] = CopyState(copy["name"], int(BEGINNING))
    for number, copy in said:
        known = found[number]
        found[number] = replace(
            known,
            reached=max(known.reached, copy["reached"]),
            problem=copy.get("problem", known.problem),
        )
    return dict(sorted(found.items(), key=lambda each: int(each[0])))


def commands_in(parcels: Iterable[Parcel]) -> list[dict[str, Any]]:
    """What came through the control stream."""
    return [command for parcel in parcels for command in parcel.head.get("control", ())]


def stage_progress(
    job: Job, place: int, known: SourceProgress, parcels: Sequence[Parcel]
) -> Progress:
    """What all edges promise; an upstream stage promises what its slowest shard does.

    Every shard of an upstream stage reports in every batch.
    """
    stables: list[Time] = []
    names = {stage.name: stage for stage in job.plan.stages}
    reports: dict[int, dict[int, int]] = {}
    for parcel in parcels:
        if "stable" in parcel.head:
            reports.setdefault(parcel.edge, {})[parcel.part] = parcel.head["stable"]
    for number, edge in enumerate(job.plan.stages[place].edges):
        name = edge.upstream.name
        if edge.upstream.is_source:
            stables.append(edge.promise(Time(known.sources[name])))
            continue
        heard = reports.get(number, {})
        expected = job.shards_of(names[name])
        assert len(heard) == expected, f"{len(heard)} of {expected} shards of {name} reported"
        stables.append(edge.promise(Time(min(heard.values()))))
    copies = {
        source: {int(n): (copy.name, Time(copy.reached)) for n, copy in some.items()}
        for source, some in known.copies.items()
    }
    return job.plan.stages[place].progress(stables, copies, commands_in(parcels))
