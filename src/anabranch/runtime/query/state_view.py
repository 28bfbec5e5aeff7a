"""Look into a checkpoint without the query: what each shard of each stage remembers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, final

import pyarrow.compute as pc

from anabranch.errors import StreamError
from anabranch.kernels.contract.column_names import TIME
from anabranch.kernels.contract.kernel import Trace
from anabranch.kernels.merge.copies import Copies
from anabranch.kernels.merge.merge import COPIES
from anabranch.model.time import Time
from anabranch.runtime.query.checkpoint import Facts, read_facts
from anabranch.runtime.sources.files.log_home import checkpoint_paths
from anabranch.runtime.sources.files.planned_batch import newest_entry, positions_after
from anabranch.runtime.sources.files.rewritten import rewritten_files
from anabranch.runtime.store.folder import Folder
from anabranch.runtime.store.stage_store import LAST_BATCH, StageStore
from anabranch.runtime.store.state_store import Manifest, ShardStore, check_runs

_BESIDE: Final = 3
"""The folders to look in that follow from the path alone."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ShardState:
    """What one shard of a stage remembers.

    Attributes:
        stage: The name of the stage.
        operators: Its operators that remember, as `explain` calls them; none if that is not known.
        shard: The number of the shard.
        batch: The last batch that it has stored.
        stable: How far its output had promised.
        runs: How many sorted runs it holds.
        rows: How many rows are in them.
        bytes: How many bytes their files have.
        oldest: The least instant in its runs; None where it holds nothing.
        versions: How many versions of the state are kept.
    """

    stage: str
    operators: tuple[str, ...]
    shard: int
    batch: int
    stable: Time
    runs: int
    rows: int
    bytes: int
    oldest: Time | None
    versions: int


def view_state(path: str, *, check: bool = False) -> tuple[Facts, list[ShardState]]:
    """All shards of all stages of a checkpoint, as their newest versions say.

    Args:
        path: The folder of the checkpoint, or of a log that has one beside it.
        check: Read every run and compare checksums.

    Raises:
        StreamError: There is no checkpoint.
        EngineError: A run is missing or damaged.
    """
    folder, facts = find_checkpoint(path)
    state = Folder.at(f"{folder}/state")
    found = []
    for stage in sorted(facts.folders, key=_stage_order):
        home = StageStore(folder=state.child(facts.folders[stage]))
        shards = home.shards()
        newest = home.newest_before(LAST_BATCH, shards)
        for shard in shards:
            store = home.shard(shard)
            is_known = newest.knows(shard)
            manifest = newest.manifest(shard) if is_known else store.newest_before(LAST_BATCH)
            if manifest is not None:
                if check:
                    check_runs(store, manifest)
                found.append(_shard(facts, stage, shard, store, manifest))
    return facts, found


def rewritten_since_read(path: str) -> dict[str, list[str]]:
    """The files of a query that were written again after they were read, by source, if any were.

    Raises:
        StreamError: There is no checkpoint.
    """
    planned = Folder.at(f"{find_checkpoint(path)[0]}/planned")
    return rewritten_files(positions_after(planned, newest_entry(planned)))


def find_checkpoint(path: str) -> tuple[str, Facts]:
    """The checkpoint in a folder, of an output or of a log, and what it says.

    Raises:
        StreamError: There is none.
    """
    folders = checkpoint_paths(path)
    for folder in folders:
        facts = read_facts(folder)
        if facts is not None:
            return folder, facts
    home = f"; the log names {folders[-1]}, which is not there" if len(folders) > _BESIDE else ""
    raise StreamError(
        "there is no checkpoint",
        where=f"{path}{home}",
        hint="name the folder that the query was started with (checkpoint='...'), or its output",
    )


def _stage_order(stage: str) -> tuple[int, str]:
    """Stages are called `<number>-<operator>`."""
    number = stage.partition("-")[0]
    return int(number) if number.isdigit() else -1, stage


def _shard(
    facts: Facts, stage: str, shard: int, store: ShardStore, manifest: Manifest
) -> ShardState:
    traces = store.traces(manifest)
    runs = [run.rows for trace in traces for runs in trace.runs.values() for run in runs]
    times = [pc.min(run.column(TIME)).as_py() for run in runs if TIME in run.schema.names]
    given_times = [time for time in times if time is not None]
    return ShardState(
        stage=stage,
        operators=(*facts.operators.get(stage, ()), *_weaker_cases(traces)),
        shard=shard,
        batch=manifest.batch,
        stable=Time(manifest.stable),
        runs=len(runs),
        rows=sum(run.num_rows for run in runs),
        bytes=sum(file.bytes for file in manifest.files()),
        oldest=Time(min(given_times)) if given_times else None,
        versions=len(store.versions()),
    )


def _weaker_cases(traces: Sequence[Trace]) -> Iterator[str]:
    """The case by which a merge continues, where it is not that of its plan."""
    for trace in traces:
        case = Copies.of(trace.runs.get(COPIES, ())).case
        if case is not None:
            yield f"merged by {case} since a copy has joined that promises less"
