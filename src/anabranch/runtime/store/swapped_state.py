"""State that takes the place of that of a running query, in the folder `revisions`.

`swap-<serial>/<stage>/<shard>` has the state of a shard as a version of its own; the batch that is
told to exchange state begins with it. `swap-<serial>/guard-<stage>.arrow` has what a guard is told
beside its rows in that batch. `swap-<serial>/after` has the batch that the state is that after: if
another one came in between, the state is not taken.

It is removed when the batch behind the one that began with it begins: Spark has committed that, and
does not repeat it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final, final

import pyarrow as pa

from anabranch.kernels.contract.kernel import SortedRun, Trace
from anabranch.kernels.contract.packed_events import pack_events, unpack_events
from anabranch.model.batch import EventBatch
from anabranch.model.time import BEGINNING, Time
from anabranch.runtime.store.folder import Folder
from anabranch.runtime.store.phases import FORGETTING, reached
from anabranch.runtime.store.state_store import ShardStore, arrow_file

_AFTER: Final = "after"
_SWAP: Final = "swap-"


@final
@dataclass(frozen=True, slots=True)
class SwappedState:
    """The state of one exchange."""

    folder: Folder

    @staticmethod
    def of(revisions: str, serial: int) -> SwappedState:
        """That of the revision of this serial number."""
        return SwappedState(Folder.at(revisions).child(f"{_SWAP}{serial}"))

    def write(self, stage: str, shard: int, traces: Iterable[Trace]) -> None:
        """Keep the state of a shard."""
        self._store(stage, shard).save(0, None, traces, sources={})

    def shards(self, stage: str) -> int:
        """How many shards the state of a stage was written for."""
        return len(self.folder.child(stage).folders())

    def read(self, stage: str, shard: int) -> tuple[Trace, ...]:
        """The state of a shard, as runs that are not stored where the query has its own."""
        store = self._store(stage, shard)
        manifest = store.load(1)
        assert manifest is not None, f"{self.folder.path}: nothing for {stage}, shard {shard}"
        return tuple(
            Trace(
                {
                    name: tuple(SortedRun(run.rows) for run in runs)
                    for name, runs in trace.runs.items()
                },
                trace.stable,
                trace.cut,
            )
            for trace in store.traces(manifest)
        )

    def write_batch(self, batch: int) -> None:
        """Note after which batch the state is that."""
        self.folder.write(_AFTER, str(batch).encode())

    def is_for(self, batch: int) -> bool:
        """Whether a batch begins with it: no other one came in between."""
        data = self.folder.read(_AFTER)
        if data is None:
            # Earlier versions let no batch in between, and wrote no note. What was removed, since a
            # batch has begun with it, is for no other one.
            return bool(self.folder.folders())
        return int(data) == batch - 1

    def write_guarded(self, stage: int, moves: EventBatch) -> None:
        """Keep what a guard is told."""
        self.folder.write(f"guard-{stage}.arrow", arrow_file(pack_events(moves)))

    def read_guarded(self, stage: int, schema: pa.Schema) -> EventBatch:
        """What a guard is told."""
        data = self.folder.read(f"guard-{stage}.arrow")
        assert data is not None, f"{self.folder.path}: nothing for the guard of stage {stage}"
        rows = pa.ipc.open_file(pa.py_buffer(data)).get_batch(0)
        return unpack_events(rows, schema, Time(BEGINNING))

    def _store(self, stage: str, shard: int) -> ShardStore:
        return ShardStore(folder=self.folder.child(stage).child(str(shard)), since=0)


@final
class SwappedStates:
    """The states of all exchanges of a query, as the process knows them that writes them."""

    def __init__(self, revisions: str) -> None:
        """Those that are in the folder `revisions`; one without a step was left by a crash."""
        self._revisions = revisions
        names = [name for name in Folder.at(revisions).folders() if name.startswith(_SWAP)]
        self._stored = {int(name.removeprefix(_SWAP)) for name in names}

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._stored)

    def add(self, serial: int) -> None:
        """One is about to be written."""
        self._stored.add(serial)

    def forget(self, needed: Collection[int]) -> None:
        """Remove all but some: no batch that may still run, or run again, begins with the others.

        The note goes last. A command that names a state once more, in another batch, finds that it
        is not meant: by the note, or because nothing is there. A crash leaves a folder that the
        next start finds.
        """
        home = Folder.at(self._revisions)
        for serial in sorted(self._stored.difference(needed)):
            folder = home.child(f"{_SWAP}{serial}")
            for stage in folder.folders():
                folder.drop(stage)
            reached(FORGETTING, serial)
            for file in folder.names():
                if file != _AFTER:
                    folder.remove(file)
            home.drop(f"{_SWAP}{serial}")
            self._stored.discard(serial)
