"""The state of a stage: what each of its shards has, also of those that have rested.

A shard that rests writes no version. What it knew after batch b is what it had at its own newest
version, and what shard 0, which writes one in every batch, knew of the sources after b: all shards
of a stage hear the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, final

import numpy as np

from anabranch.kernels.columns.grouped import Mask
from anabranch.kernels.plan.resting import StageRest, rested
from anabranch.kernels.plan.stage import Stage, StageState
from anabranch.model.time import BEGINNING, FOREVER
from anabranch.runtime.messages.counters import StageCounters
from anabranch.runtime.option import MOST_SHARDS
from anabranch.runtime.store.folder import PARTIAL, Folder
from anabranch.runtime.store.shard_index import NO_VERSION, ShardIndex
from anabranch.runtime.store.state_store import KEEP, Manifest, ShardStore, StoredTrace

ALONE: Final = 1 << 30
"""Stands for the number of tasks where a task has a single shard: more than there ever are."""

LAST_BATCH: Final = 1 << 62
"""Before this, there are all batches."""

INDEX: Final = "index"
"""The folder beside those of the shards with files `<batch>-<task>-<tasks>.arrow`."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class StageStore:
    """The folder of a stage; `since` is the first batch that there was."""

    folder: Folder
    keep: int = KEEP
    since: int = 0

    def shard(self, shard: int) -> ShardStore:
        """The state of one shard."""
        return ShardStore(folder=self.folder.child(str(shard)), keep=self.keep, since=self.since)

    def lead(self, batch: int) -> Manifest | None:
        """The version of shard 0 that a batch starts from, which knows what all shards heard."""
        return self.shard(0).load(batch)

    def before(self, batch: int, shards: Sequence[int]) -> StageVersion:
        """What some shards had before a batch.

        Raises:
            EngineError: A shard has lost its state.
        """
        return StageVersion(self, batch, self.lead(batch), shards)

    def newest_before(self, batch: int, shards: Sequence[int]) -> StageVersion:
        """The same; a stage that has nothing is one that has not begun."""
        return StageVersion(self, batch, self.shard(0).newest_before(batch), shards)

    def shards(self) -> list[int]:
        """All shards that there is something of, in a checkpoint without its query."""
        found = {int(name) for name in self.folder.folders() if name.isdigit()}
        lead = self.shard(0).newest_before(LAST_BATCH)
        if lead is not None and lead.resting is not None:
            index = self.read_index(lead.batch, range(MOST_SHARDS))
            found |= set() if index is None else set(index.shard.tolist())
        return sorted(found)

    def read_index(self, batch: int, shards: Sequence[int]) -> ShardIndex | None:
        """What attempts at a batch have written down of some shards, or more; None: nothing."""
        own, step = np.asarray(shards), _step(shards)
        folder, parts = self._index, list[ShardIndex]()
        for name in folder.names():
            found = _numbers(name)
            if found is None or found[0] != batch:
                continue
            _, task, tasks = found
            # Tasks of one attempt share no shard.
            if (tasks == step and task != own[0]) or not (own % tasks == task).any():
                continue
            data = folder.read(name)
            if data is not None:
                parts.append(ShardIndex.of_data(data, f"{folder.path}/{name}"))
        if not parts:
            return None
        index = ShardIndex.together(parts)
        return index.where(np.isin(index.shard, own))

    def write_index(self, batch: int, index: ShardIndex) -> None:
        """Write down what a task knows of its shards in a batch."""
        shards = index.shard.tolist()
        name = f"{batch}-{shards[0]}-{_step(shards)}.arrow"
        self._index.write(name, index.data(), mark=str(batch))

    def clean_index(self, batch: int) -> None:
        """Remove what nobody goes back to."""
        folder = self._index
        for name in folder.names():
            found = _numbers(name)
            if found is not None and found[0] <= batch - self.keep:
                folder.remove(name)
            mark = name.removeprefix(PARTIAL).partition("-")[0]
            if name.startswith(PARTIAL) and mark.isdigit() and int(mark) < batch:
                folder.remove(name)

    @property
    def _index(self) -> Folder:
        return self.folder.child(INDEX)


@final
class StageVersion:
    """What some shards of a stage had before a batch."""

    def __init__(
        self, store: StageStore, batch: int, lead: Manifest | None, shards: Sequence[int]
    ) -> None:
        """`lead` is what shard 0 had."""
        self.lead: Final = lead
        self.index: Final = (
            None if lead is None or lead.resting is None else store.read_index(lead.batch, shards)
        )
        self.store: Final = store
        self._batch = batch
        self._found: dict[int, Manifest | None] = {}
        self._positions: dict[int, int] = {}
        if self.index is not None:
            self._positions = {s: at for at, s in enumerate(self.index.shard.tolist())}

    @property
    def stables(self) -> tuple[int, ...] | None:
        """How far the kernels of shards that have rested were; None before the first batch."""
        return None if self.lead is None else tuple(each.stable for each in self.lead.kernels)

    def version(self, shard: int) -> int:
        """The batch after which a shard has written its state."""
        if self.lead is None:
            return NO_VERSION
        if self.lead.resting is None:
            return self.lead.batch
        if self.index is None or shard not in self._positions:
            raise self.store.shard(shard).missing(self._batch)
        return int(self.index.version[self._positions[shard]])

    def knows(self, shard: int) -> bool:
        """Whether it is known which version a shard has: not where a batch was interrupted."""
        is_listed = shard in self._positions
        return shard == 0 or is_listed or (self.lead is not None and self.lead.resting is None)

    def has_rested(self, shard: int) -> bool:
        """Whether a shard has what it had in an older batch."""
        return self.lead is not None and self.version(shard) < self.lead.batch

    def manifest(self, shard: int) -> Manifest | None:
        """What a shard knew; None before the first batch."""
        if self.lead is None or shard == 0:
            return self.lead
        if shard not in self._found:
            self._found[shard] = self._manifest(self.lead, shard)
        return self._found[shard]

    def state(self, stage: Stage, shard: int) -> StageState:
        """What a shard remembered, brought up to date where it had rested."""
        manifest = self.manifest(shard)
        if manifest is None:
            return stage.start()
        state = self.store.shard(shard).traces(manifest)
        if self.has_rested(shard):
            state = rested(stage, state, [trace.stable for trace in manifest.kernels])
        return state

    def least_stable(self, shards: Sequence[int]) -> int:
        """How far the output of all these shards was settled."""
        if self.lead is None:
            return int(BEGINNING)
        awake, found = list(shards), list[int]()
        if self.index is not None and self.lead.resting is not None:
            index = self.index.where(np.isin(self.index.shard, shards))
            rested = index.version < self.lead.batch
            awake = index.shard[~rested].tolist()
            if rested.any():
                found.append(min(self.lead.resting, int(index.promise[rested].min())))
        manifests = [self.manifest(shard) for shard in awake]
        return min([*found, *(each.stable for each in manifests if each is not None)])

    def entries(self, shards: Sequence[int], busy: Mask, begin: StageRest) -> ShardIndex:
        """What is known of how long shards rest; of those that are `busy` nobody asks it.

        Shards that have never had rows rest as long as one that begins.
        """
        kernels = len(begin.until)
        unknown = [shard for shard in shards if not self.knows(shard)] if self.lead else []
        if unknown:
            raise self.store.shard(unknown[0]).missing(self._batch)
        if self.index is not None:
            index = self.index
        else:
            version = NO_VERSION if self.lead is None else self.lead.batch
            index = ShardIndex.busy(shards, version, kernels)
        until, promise = index.until.copy(), index.promise.copy()
        rows, runs, sizes = index.rows.copy(), index.runs.copy(), index.size.copy()
        new = index.version == NO_VERSION
        until[new] = begin.until
        promise[new] = begin.promise
        written = NO_VERSION if self.lead is None else self.lead.batch
        for at in np.flatnonzero(~busy & ~new & (index.version == written)).tolist():
            found = self.manifest(int(index.shard[at]))
            if found is None or len(found.rests) != kernels:
                continue
            until[at], promise[at] = found.rests, found.promise
            for kernel, trace in enumerate(found.kernels):
                files = [file for held in trace.runs.values() for file in held]
                rows[at, kernel] = sum(file.rows for file in files)
                runs[at] += len(files)
                sizes[at] += sum(file.bytes for file in files)
        return replace(index, until=until, promise=promise, rows=rows, runs=runs, size=sizes)

    def _manifest(self, lead: Manifest, shard: int) -> Manifest | None:
        store, version = self.store.shard(shard), self.version(shard)
        if lead.resting is None:
            return store.load(self._batch)
        own = None if version == NO_VERSION else store.version(version)
        if own is None and version != NO_VERSION:
            raise store.missing(self._batch)
        if own is not None and version == lead.batch:
            return own
        return _caught_up(lead, own, shard)


def _caught_up(lead: Manifest, own: Manifest | None, shard: int) -> Manifest:
    """What a shard knew that had rested since its own version, if it ever had one."""
    began = [StoredTrace(each.stable, {}) for each in lead.kernels]
    kernels = tuple(
        replace(held, stable=each.stable)
        for each, held in zip(lead.kernels, own.kernels if own else began, strict=True)
    )
    runs = [each.runs for each in kernels]
    promise = own.promise if own else int(FOREVER)
    assert lead.resting is not None
    files = [file for held in runs for each in held.values() for file in each]
    counters = StageCounters(
        stage="" if lead.counters is None else lead.counters.stage,
        shard=shard,
        state_rows=sum(file.rows for file in files),
        state_runs=len(files),
        stable=min(lead.resting, promise),
    )
    return replace(
        lead,
        kernels=kernels,
        counters=counters,
        rests=own.rests if own else (),
        promise=promise,
        resting=None,
    )


def _step(shards: Sequence[int]) -> int:
    """How many tasks share the shards of a stage, as one of them sees it that has some of them."""
    return int(shards[1]) - int(shards[0]) if len(shards) > 1 else ALONE


def _numbers(name: str) -> tuple[int, int, int] | None:
    """The batch, the task and the number of tasks in the name of an index."""
    stem, _, kind = name.partition(".")
    parts = stem.split("-")
    if kind != "arrow" or len(parts) != 3 or not all(part.isdigit() for part in parts):
        return None
    batch, task, tasks = map(int, parts)
    return batch, task, tasks
