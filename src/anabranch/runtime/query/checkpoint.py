"""The folder a query lives in: what must not change while it does."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, final

from anabranch.errors import PlanError
from anabranch.kernels.contract.kernel import Stateful
from anabranch.kernels.merge.merge import MergeKernel
from anabranch.kernels.plan.compile import PhysicalPlan, Stage, tables_of
from anabranch.kernels.plan.identity import plan_fingerprint
from anabranch.model.clock import INTEGERS, Clock, log_of_clock
from anabranch.optimizer.statistics import PlanStatistics
from anabranch.runtime.query.rescale import (
    Rescale,
    refuse_unfinished,
    rescaled,
    sweep_unfinished,
    sweep_unknown,
)
from anabranch.runtime.store.control import source_clocks
from anabranch.runtime.store.folder import Folder
from anabranch.runtime.store.layout import (
    StateLayout,
    changed_layout,
    first_layout,
    refuse_other_forms,
    same_layout,
)
from anabranch.runtime.store.migrations import PlanInForce
from anabranch.runtime.store.phases import reached
from anabranch.runtime.store.query_record import (
    FORMAT,
    SIGNED,
    QueryRecord,
    read_query_record,
    write_query_record,
)
from anabranch.runtime.store.query_statistics import keep_priced_with


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a checkpoint says about its query.

    Attributes:
        query: The identity of the query.
        shards: How many shards it has.
        clocks: How its sources count time.
        operators: Per stage the operators that remember something.
        tables: The relations that it looks up in.
        sources: Its sources, and whether they are in files.
        copies: Those of its sources that have copies.
        inputs: The streams that its merges read, besides copies; None: that was not noted.
        folders: Per stage the folder of its state.
    """

    query: str
    shards: int
    clocks: Mapping[str, Clock]
    operators: Mapping[str, Sequence[str]]
    tables: Sequence[str]
    sources: Mapping[str, bool]
    copies: Sequence[str]
    inputs: tuple[str, ...] | None
    folders: Mapping[str, str]

    @property
    def clock(self) -> Clock:
        """How it counts time."""
        return next(iter(self.clocks.values()), INTEGERS)


def read_facts(path: str) -> Facts | None:
    """What the checkpoint in a folder says; None if there is none."""
    about = read_query_record(path)
    if about is None:
        return None
    return Facts(
        query=about.query,
        shards=about.shards,
        clocks=about.source_clocks(),
        operators=about.operators,
        tables=about.tables,
        sources=about.sources,
        copies=about.copies,
        inputs=about.inputs,
        folders=about.folders(),
    )


def merge_inputs(plan: PhysicalPlan) -> tuple[str, ...]:
    """The names of the streams that merges of a plan read, besides copies."""
    kernels = [kernel for stage in plan.stages for kernel in stage.kernels]
    named = [name for each in kernels if isinstance(each, MergeKernel) for name in each.input_names]
    return tuple(dict.fromkeys(named))


@final
class Checkpoint:
    """The parts of a checkpoint: Spark's own, the state, the plans of file sources.

    Attributes:
        path: The folder.
        query: The identity of the query, the same for its whole life.
        shards: How many shards it has.
        plan: The stages, as the query began with them.
        fresh: Whether it begins just now.
        layout: Where each part of it keeps what it has to remember.
    """

    def __init__(
        self,
        path: str | None,
        plan: PhysicalPlan,
        shards: int,
        frames: Collection[str] = (),
        *,
        changed: bool = False,
        reshard: bool = False,
        older: Callable[[], PhysicalPlan] | None = None,
        priced: PlanStatistics | None = None,
    ) -> None:
        """Open the checkpoint of a query, or begin a new one.

        `frames` are those of its sources that are streaming DataFrames. With `changed` the plan
        may be another one than before: what is the same in it keeps its state. With `reshard` a
        query that has another number of shards gets this one. `older` gives the plan as it was
        for queries that began before state told its shard. `priced` is what the plan was chosen by:
        it leads to the same plan at the next start.

        Raises:
            PlanError: It belongs to another query, or one that is running; or its number of
                shards cannot change.
        """
        self.plan: PhysicalPlan = plan
        self._temporary = path is None
        self.path: str = tempfile.mkdtemp(prefix="anabranch-") if path is None else _absolute(path)
        self._lock: IO[bytes] | None = self._locked()
        folder = Folder.at(self.path)
        self._priced = priced
        try:
            stored = read_query_record(self.path)
            self.fresh: bool = stored is None
            if stored is not None and not stored.routed and older is not None:
                self.plan = older()
            about = self._about(folder, stored, shards, frames, changed=changed, reshard=reshard)
        except BaseException:
            self.close()
            raise
        assert about.layout is not None
        self.query: str = about.query
        self.shards: int = about.shards
        self.layout: StateLayout = about.layout
        for each in (folder, Folder.at(self.plans), *self.outs):
            each.sweep()

    def _about(
        self,
        folder: Folder,
        stored: QueryRecord | None,
        shards: int,
        frames: Collection[str],
        *,
        changed: bool,
        reshard: bool,
    ) -> QueryRecord:
        """What is written down about the query, brought up to date."""
        state = Folder.at(self.state)
        about = self._now(stored, shards, frames, changed=changed)
        # Whoever should have done that may have been interrupted.
        for name in about.left:
            state.drop(name)
        sweep_unfinished(state, about.epoch)
        if stored is not None and stored.layout is not None:
            sweep_unknown(state, _state_folders(stored))
        about = replace(about, left=())
        if reshard and about.shards != shards:
            about = self._resharded(about, shards)
        left = _state_folders(stored) - _state_folders(about)
        about = replace(about, left=tuple(sorted(left)))
        if self._priced is not None:
            # Before the record, which says that there is a query that will resume.
            keep_priced_with(self.path, self._priced, begins=stored is None)
        if about != stored:
            write_query_record(folder, about)
            reached("written down", self.next_batch)
        for name in left:
            state.drop(name)
        return about

    def _now(
        self, stored: QueryRecord | None, shards: int, frames: Collection[str], *, changed: bool
    ) -> QueryRecord:
        """What is to be said of the plan, and the layout that it gets.

        Raises:
            PlanError: The checkpoint belongs to another query.
        """
        plan = self.plan
        sources = {name: name not in frames for name in plan.sources}
        now = self._record(stored, plan, shards, frames)
        query = now.query
        if stored is None:
            return replace(now, layout=first_layout(plan, query))
        if stored.plan == now.plan:
            # One of the first format has all its state where a new query has it.
            layout = first_layout(plan, query)
            if stored.layout is not None:
                layout = same_layout(stored.layout, plan)
        elif changed and stored.layout is not None and stored.format >= SIGNED:
            if stored.in_force is not None:
                raise PlanError(
                    "a query that was changed while it ran cannot be changed at a start",
                    where=f"{self.path}: change {stored.in_force.migration}",
                    hint="start the queries as they are, and change them while they run: "
                    "run.migrate, anabranch migrate, or ALTER QUERY",
                )
            self._refuse_other_frames(stored.sources, sources)
            layout = changed_layout(
                stored.layout, plan, query, sources_before=stored.sources, batch=self.next_batch
            )
        else:
            raise self._other_query(stored)
        refuse_other_forms(layout, plan, where=self.path)
        return replace(now, layout=layout)

    def _record(
        self, stored: QueryRecord | None, plan: PhysicalPlan, shards: int, frames: Collection[str]
    ) -> QueryRecord:
        """What is to be said of a plan, without its layout."""
        sources = {name: name not in frames for name in plan.sources}
        return QueryRecord(
            plan=plan_fingerprint(plan),
            timestamps=any(source.timestamps for source in plan.sources.values()),
            clocks={name: log_of_clock(clock) for name, clock in source_clocks(plan).items()},
            operators={stage.name: _remembering(stage) for stage in plan.stages},
            tables=tuple(sorted(tables_of(plan))),
            sources=sources if stored is None else {**stored.sources, **sources},
            copies=tuple(name for name, source in plan.sources.items() if source.copies),
            inputs=merge_inputs(plan),
            query=uuid.uuid4().hex if stored is None else stored.query,
            shards=shards if stored is None else stored.shards,
            routed=True if stored is None else stored.routed,
            epoch=0 if stored is None else stored.epoch,
            left=() if stored is None else stored.left,
            in_force=None if stored is None else stored.in_force,
        )

    def _other_query(self, stored: QueryRecord) -> PlanError:
        if stored.format < SIGNED:
            # None of its stages would be found again, and all would begin with nothing.
            return PlanError(
                "the checkpoint belongs to another query, or to this one as an earlier version "
                "of Anabranch ran it",
                where=f"{self.path}: format {stored.format}, now {FORMAT}",
                hint="before format 5, a checkpoint identified its query in another way: "
                "resume the query with the version of Anabranch that wrote the checkpoint, "
                "or start it with a new checkpoint (and a new output folder)",
            )
        return PlanError(
            "the checkpoint belongs to another query",
            where=self.path,
            hint="a changed query needs a new checkpoint (and a new output folder); queries "
            "started with start_all or --all can be declared as changed",
        )

    def _resharded(self, about: QueryRecord, shards: int) -> QueryRecord:
        """The state for another number of shards, which counts when `query.json` says so."""
        batch = self.next_batch
        if not about.routed:
            raise PlanError(
                f"the number of shards of this query is fixed: {about.shards}",
                where=self.path,
                hint="it began with a version of Anabranch whose state does not tell where keys "
                "belong; leave the number out, or start the query with a new checkpoint",
            )
        if str(batch) in Folder.at(f"{self.spark}/offsets").names():
            refuse_unfinished(self.plan, self.path)
        epoch = about.epoch + 1
        change = Rescale(before=about.shards, after=shards, batch=batch, epoch=epoch)
        assert about.layout is not None
        layout = rescaled(self.plan, about.layout, Folder.at(self.state), change)
        return replace(about, shards=shards, epoch=epoch, layout=layout)

    def _refuse_other_frames(self, before: Mapping[str, bool], now: Mapping[str, bool]) -> None:
        """Spark counts its own sources, and wants the same ones again."""
        was, is_ = (
            [n for n, in_files in sources.items() if not in_files] for sources in (before, now)
        )
        if was != is_:
            raise PlanError(
                "a query cannot change its DataFrames",
                where=f"then {', '.join(was) or 'none'}, now {', '.join(is_) or 'none'}",
                hint="start the changed query with a new checkpoint, or read files",
            )

    def adopt(
        self,
        plan: PhysicalPlan,
        layout: StateLayout,
        in_force: PlanInForce,
        frames: Collection[str],
    ) -> None:
        """Make another plan the one in force: from here on a start resumes with it."""
        stored = read_query_record(self.path)
        assert stored is not None
        now = self._record(stored, plan, stored.shards, frames)
        left = _state_folders(stored) - {home.folder for home in layout.stages.values()}
        about = replace(now, layout=layout, in_force=in_force, left=tuple(sorted(left)))
        write_query_record(Folder.at(self.path), about)
        self.plan, self.layout = plan, layout
        for each in self.outs:
            each.sweep()

    def drop_left(self) -> None:
        """Remove the state that nobody needs any more."""
        about = read_query_record(self.path)
        assert about is not None
        for name in about.left:
            Folder.at(self.state).drop(name)

    @property
    def next_batch(self) -> int:
        """The batch that Spark does next, maybe not for the first time."""
        names = Folder.at(f"{self.spark}/commits").names()
        return max((int(name) for name in names if name.isdigit()), default=-1) + 1

    @property
    def spark(self) -> str:
        """Spark's part."""
        return f"{self.path}/spark"

    @property
    def state(self) -> str:
        """The state of all stages."""
        return f"{self.path}/state"

    @property
    def plans(self) -> str:
        """The planned batches of file sources."""
        return f"{self.path}/planned"

    @property
    def frames(self) -> str:
        """DataFrames that were written down."""
        return f"{self.path}/frames"

    @property
    def tables(self) -> str:
        """The relations that the query looks up in."""
        return f"{self.path}/tables"

    @property
    def control(self) -> str:
        """Commands for the query."""
        return f"{self.path}/control"

    @property
    def revisions(self) -> str:
        """What came too late, and what becomes of it."""
        return f"{self.path}/revisions"

    @property
    def archive(self) -> str:
        """The archives of sources that have no folder of their own."""
        return f"{self.path}/archive"

    @property
    def outs(self) -> list[Folder]:
        """What each sink has to remember."""
        return [Folder.at(f"{self.path}/{home.folder}") for home in self.layout.outputs]

    def close(self) -> None:
        """Let others have it; a temporary one is removed."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None
        if self._temporary:
            shutil.rmtree(self.path, ignore_errors=True)

    def _locked(self) -> IO[bytes] | None:
        if "://" in self.path:
            return None
        Path(self.path).mkdir(parents=True, exist_ok=True)
        lock = (Path(self.path) / "lock").open("ab")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            raise PlanError(
                "the query of this checkpoint is already running",
                where=self.path,
                hint="stop it first, or use another checkpoint",
            ) from None
        return lock


def _state_folders(about: QueryRecord | None) -> set[str]:
    """The folders of the state, as far as a layout tells."""
    if about is None or about.layout is None:
        return set()
    return {home.folder for home in about.layout.stages.values()}


def _remembering(stage: Stage) -> tuple[str, ...]:
    return tuple(kernel.label for kernel in stage.kernels if isinstance(kernel, Stateful))


def _absolute(path: str) -> str:
    return path if "://" in path else str(Path(path).absolute())
