"""Versions of a shard's state: immutable runs, and a manifest per batch that says which count."""

from __future__ import annotations

import threading
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final, final

import pyarrow as pa

from anabranch.errors import EngineError
from anabranch.kernels.contract.kernel import SortedRun, Trace
from anabranch.model.record import OMITTED, plain, record
from anabranch.model.time import BEGINNING, FOREVER, Time
from anabranch.runtime.messages.counters import StageCounters
from anabranch.runtime.store.folder import PARTIAL, Folder
from anabranch.runtime.store.phases import reached

FORMAT: Final = 1
MOST_OPEN_RUNS: Final = 512
"""A process has at most so many runs open; those that it has not used for longest are closed."""

KEEP: Final = 5
"""How many versions stay by default."""

_HINT: Final = (
    "the checkpoint is damaged: restore it from a copy, or start the query with a new checkpoint"
)


@final
@dataclass(frozen=True, slots=True)
class RunFile:
    """A stored run: its file and what must be found there."""

    row: ClassVar[bool] = True

    name: str
    rows: int
    bytes: int
    crc: int


@final
@dataclass(frozen=True, slots=True)
class CopyState:
    """What is known of a copy: its name, what it has promised, and why nothing comes of it."""

    row: ClassVar[bool] = True

    name: str
    reached: int
    problem: str = ""


@final
@dataclass(frozen=True, slots=True)
class StoredTrace:
    """What a stateful kernel remembers: its stable point, its named lists of runs, and its cut."""

    stable: int
    runs: Mapping[str, tuple[RunFile, ...]]
    cut: int = field(default=BEGINNING, metadata=OMITTED)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a shard knew after a batch, as it is in the file `<batch>.json`.

    Attributes:
        format: The version of the file.
        batch: The batch.
        kernels: What each stateful kernel remembers.
        sources: How far each source that the stage reads had promised.
        silent: For how many microseconds sources with a heartbeat had been silent.
        copies: For sources with copies, what was known of each copy, by its number.
        interest: Of the output of the query, what ends before this was of no interest.
        interest_since: Of what was of interest, nothing starts before this.
        counters: What was counted in this batch, for metrics.
        ends: The greatest end of all events that have come of each source.
        rests: For each kernel the last stable point until which the shard needs no step unless rows
            come; nothing where nobody asks for it.
        promise: How far its output is settled at the most meanwhile.
        resting: Of shard 0, where shards may have rested in this batch: how far the output of those
            is settled, unless they promise less. An index tells which version each of them has.
    """

    format: int = FORMAT
    batch: int
    kernels: tuple[StoredTrace, ...] = ()
    sources: Mapping[str, int] = field(default_factory=dict)
    silent: Mapping[str, int] = field(default_factory=dict)
    copies: Mapping[str, Mapping[int, CopyState]] = field(default_factory=dict)
    interest: int = BEGINNING
    interest_since: int = field(default=BEGINNING, metadata=OMITTED)
    counters: StageCounters | None = None
    ends: Mapping[str, int] = field(default_factory=dict, metadata=OMITTED)
    rests: tuple[int, ...] = field(default=(), metadata=OMITTED)
    promise: int = field(default=FOREVER, metadata=OMITTED)
    resting: int | None = field(default=None, metadata=OMITTED)

    @property
    def stable(self) -> int:
        """How far the output of the shard was settled."""
        return int(BEGINNING) if self.counters is None else self.counters.stable

    def files(self) -> Iterable[RunFile]:
        """All runs of all kernels."""
        for trace in self.kernels:
            for runs in trace.runs.values():
                yield from runs

    @staticmethod
    def of_json(content: object, where: str) -> Manifest:
        """From plain values.

        Raises:
            EngineError: It is of another format, or damaged.
        """
        if isinstance(content, dict) and content.get("format") != FORMAT:
            raise EngineError(
                f"a manifest of format {content.get('format')}, this version reads {FORMAT}",
                where=where,
                hint="continue the query with the version of Anabranch that wrote its checkpoint",
            )
        return record(Manifest, content, where=where, hint=_HINT)


class _OpenRuns:
    """The runs this process has opened, least recently used first.

    The key has size and checksum, so a file that another life of the same folder left under the
    same name is never taken for it.
    """

    def __init__(self) -> None:
        self._runs: OrderedDict[tuple[str, RunFile], SortedRun] = OrderedDict()
        # Shards may be computed side by side, and other queries open runs meanwhile.
        self._lock = threading.Lock()

    def get(self, folder: Folder, file: RunFile) -> SortedRun:
        key = (folder.path, file)
        with self._lock:
            run = self._runs.get(key)
            if run is not None:
                self._runs.move_to_end(key)
                return run
        run = SortedRun(_open_run(folder, file), file.name)
        with self._lock:
            self._runs[key] = run
            while len(self._runs) > MOST_OPEN_RUNS:
                self._runs.popitem(last=False)
        return run

    def close(self, folder: str) -> int:
        with self._lock:
            below = [key for key in self._runs if key[0].startswith(f"{folder}/")]
            for key in below:
                del self._runs[key]
        return len(below)


_OPEN: Final = _OpenRuns()


def close_runs(folder: str) -> int:
    """Close what this process has open of a folder of state; gives how many runs that were."""
    return _OPEN.close(folder)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ShardStore:
    """The state of one shard of one stage.

    Batch b starts from the newest version before b, whatever later ones an interrupted attempt
    has left, and writes version b under names that follow from b. So an attempt may be repeated
    at any point and puts the same files in place. `since` is the first batch that there was.
    """

    folder: Folder
    keep: int = KEEP
    since: int = 0

    def newest_before(self, batch: int) -> Manifest | None:
        """The version that batch starts from; None if the shard has none."""
        found = self.version(batch - 1)
        if found is None:
            before = [version for version in self._versions(self.folder.names()) if version < batch]
            found = self.version(max(before)) if before else None
        return found

    def load(self, batch: int) -> Manifest | None:
        """The version that batch starts from; a shard that has lost its state is refused."""
        found = self.newest_before(batch)
        if found is None and batch > self.since:
            raise self.missing(batch)
        return found

    def missing(self, batch: int) -> EngineError:
        """What is to be said where the state before a batch should be there and is not."""
        return EngineError(
            f"the state before batch {batch} is missing", where=self.folder.path, hint=_HINT
        )

    def versions(self) -> list[int]:
        """The batches after which the state is known, oldest first."""
        return sorted(self._versions(self.folder.names()))

    def traces(self, manifest: Manifest) -> tuple[Trace, ...]:
        """The memory of the kernels; runs are mapped, not copied."""
        return tuple(
            Trace(
                {
                    name: tuple(_OPEN.get(self.folder, file) for file in runs)
                    for name, runs in stored.runs.items()
                },
                Time(stored.stable),
                Time(stored.cut),
            )
            for stored in manifest.kernels
        )

    def save(
        self,
        batch: int,
        before: Manifest | None,
        traces: Iterable[Trace],
        *,
        sources: Mapping[str, int],
        counters: StageCounters | None = None,
        silent: Mapping[str, int] | None = None,
        copies: Mapping[str, Mapping[int, CopyState]] | None = None,
        interest: int = BEGINNING,
        ends: Mapping[str, int] | None = None,
        interest_since: int = BEGINNING,
        rests: tuple[int, ...] = (),
        promise: int = FOREVER,
        resting: int | None = None,
    ) -> Manifest:
        """Write the runs that are new, then the manifest, whose appearance is the commit."""
        files = {file.name: file for file in before.files()} if before else {}
        written = 0

        def store(run: SortedRun) -> RunFile:
            nonlocal written
            if run.name:
                return files[run.name]
            file = self.write_run(batch, written, run.rows)
            written += 1
            return file

        kernels = tuple(
            StoredTrace(
                int(trace.stable),
                {name: tuple(map(store, runs)) for name, runs in trace.runs.items()},
                int(trace.cut),
            )
            for trace in traces
        )
        manifest = Manifest(
            batch=batch,
            kernels=kernels,
            sources=sources,
            silent=silent or {},
            copies=copies or {},
            interest=int(interest),
            ends=ends or {},
            interest_since=int(interest_since),
            counters=counters,
            rests=rests,
            promise=int(promise),
            resting=resting,
        )
        reached("runs written", batch)
        self.commit(manifest)
        return manifest

    def write_run(self, batch: int, number: int, rows: pa.RecordBatch) -> RunFile:
        """Write one of the runs that a batch adds; it counts when a manifest names it."""
        name, data = f"{batch}-{number}.arrow", arrow_file(rows)
        self.folder.write(name, data, mark=str(batch))
        return RunFile(name, rows.num_rows, data.size, zlib.crc32(data))

    def commit(self, manifest: Manifest) -> None:
        """Put a version in place, whose runs are there already."""
        batch = manifest.batch
        self.folder.write_json(f"{batch}.json", plain(manifest), mark=str(batch))

    def clean(self, batch: int) -> None:
        """Remove versions that nobody goes back to, and the runs that only they needed.

        A shard that has rested has no version for every batch: what it has of the last ones is
        then older, and nothing that these need is among what goes.
        """
        names = self.folder.names()
        versions = sorted(version for version in self._versions(names) if version <= batch)
        kept, old = versions[-self.keep :], versions[: -self.keep]
        for version in old:
            self.folder.remove(f"{version}.json")
        manifests = [self.version(version) for version in kept]
        needed = {file.name for each in manifests if each for file in each.files()}
        for name in names:
            if name.endswith(".arrow") and name not in needed:
                is_old = int(name.partition("-")[0]) < batch
            else:
                # Whoever wrote this for an earlier batch is dead: that batch is complete.
                mark = name.removeprefix(PARTIAL).partition("-")[0]
                is_old = name.startswith(PARTIAL) and mark.isdigit() and int(mark) < batch
            if is_old:
                self.folder.remove(name)

    def version(self, version: int) -> Manifest | None:
        """The manifest of a batch, if there is one."""
        content = self.folder.read_json(f"{version}.json") if version >= 0 else None
        if content is None:
            return None
        return Manifest.of_json(content, f"{self.folder.path}/{version}.json")

    def _versions(self, names: Iterable[str]) -> list[int]:
        stems = [name.removesuffix(".json") for name in names if name.endswith(".json")]
        return [int(stem) for stem in stems if stem.isdigit()]


def arrow_file(rows: pa.RecordBatch) -> pa.Buffer:
    """The bytes of an Arrow file with these rows."""
    out = pa.BufferOutputStream()
    with pa.ipc.new_file(out, rows.schema) as writer:
        writer.write_batch(rows)
    return out.getvalue()


def check_runs(store: ShardStore, manifest: Manifest) -> None:
    """Read every run of a version and compare checksums: slow, for doubts about a disk.

    Raises:
        EngineError: A run is missing or is not what was written.
    """
    for file in manifest.files():
        opened = store.folder.open(file.name)
        if opened is None or zlib.crc32(opened[0].read_buffer()) != file.crc:
            raise _damaged(store.folder, file, "is missing or has changed")


def _open_run(folder: Folder, file: RunFile) -> pa.RecordBatch:
    opened = folder.open(file.name)
    if opened is None:
        raise _damaged(folder, file, "is missing")
    source, size = opened
    if size != file.bytes:
        raise _damaged(folder, file, f"has {size} bytes, {file.bytes} were written")
    data = source.read_buffer()
    if zlib.crc32(data) != file.crc:
        raise _damaged(folder, file, "has changed since it was written")
    rows = pa.ipc.open_file(data).get_batch(0)
    if rows.num_rows != file.rows:
        raise _damaged(folder, file, f"has {rows.num_rows} rows, {file.rows} were written")
    return rows


def _damaged(folder: Folder, file: RunFile, problem: str) -> EngineError:
    return EngineError(
        f"a run of the state {problem}", where=f"{folder.path}/{file.name}", hint=_HINT
    )
