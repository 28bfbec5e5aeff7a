"""A query laid out for Spark: which stage runs where, and who sends what to whom."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final, Literal, final

import pyarrow as pa

from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.errors import OperatorError, PlanError
from anabranch.kernels.contract.kernel import Need, Stateful
from anabranch.kernels.contract.packed_events import unpack_events
from anabranch.kernels.plan.address import Address
from anabranch.kernels.plan.interest import Interest, source_instants, stage_needs
from anabranch.kernels.plan.stage import Edge, PhysicalPlan, Stage
from anabranch.model.batch import EventBatch, no_rows
from anabranch.model.clock import INTEGERS, Clock
from anabranch.model.time import BEGINNING, Time
from anabranch.runtime.sources.spec import Promise
from anabranch.runtime.store.folder import Folder
from anabranch.runtime.store.layout import Home
from anabranch.runtime.store.stage_store import StageStore
from anabranch.runtime.store.state_store import KEEP, Manifest
from anabranch.runtime.workers.part_log import PartLog, PastJob

Delivery = Literal["ship", "log", "rows", "nothing"]
"""What becomes of output: it goes to the driver, into files, to Spark as rows, or nowhere."""

QUERY: Final = "{query}"
"""Stands in the path of the state for the identity of Spark's query."""


@final
@dataclass(frozen=True, slots=True)
class Outlet:
    """A way out of a sender: an edge of a stage, and how that stage is sharded.

    With `by_event` all moves of one event go to one shard, of a stage that has no key of its own.
    Its shards are in so many `partitions`.
    """

    target: int
    edge: int
    shards: int
    keyed: bool
    everywhere: bool
    by_event: bool = False
    partitions: int = 1


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class HandedOver:
    """Moves that an output gets in a batch, in front of all others, as a file in a folder."""

    output: int
    batch: int
    folder: str
    file: str

    def rows(self, schema: pa.Schema) -> EventBatch:
        """The moves."""
        data = Folder.at(self.folder).read(self.file)
        assert data is not None, f"{self.folder}/{self.file} is missing"
        rows = pa.ipc.open_file(pa.py_buffer(data)).get_batch(0)
        return unpack_events(rows, schema, BEGINNING)


@final
class _Derived(dict[str, Any]):
    """What was found from a job once; whoever is sent the job finds it anew."""

    def __reduce__(self) -> tuple[type[_Derived], tuple[()]]:
        return _Derived, ()


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Everything a worker has to know.

    Levels of stages run one after the other, each behind an exchange: a stage is one level behind
    the last stage it reads. What is meant for a later level passes through the earlier ones, so
    that nothing is computed twice and every stage runs in every batch, whichever source has
    something new.

    Attributes:
        plan: The stages.
        shards: How many shards keyed stages have; the same for as long as a query runs.
        state: The folder of the state.
        promises: What each source promises.
        deliveries: What becomes of each output of the plan.
        outs: The folders for `log`.
        clocks: How the results of each output count time.
        keep: How many versions of the state stay.
        homes: Where each stage keeps its state; where it is called, if nothing is said.
        tasks: How many tasks share the shards of a stage, at most; 0: as many as there are shards.
            This may change whenever a query is started.
        unordered: The sources whose rows have no order within a batch: DataFrames.
        past: How the past of the query is kept; None: it is not.
        handed_over: What outputs get beside their rows in one batch, where a changed plan takes
            over what another one has put out.
        sampled: Per source the columns whose values are counted, as a sample tells.
        measures: Whether operators are measured.
        nodes: The logical plan of each output; none where nobody has to know.
    """

    plan: PhysicalPlan
    shards: int
    state: str
    promises: Mapping[str, Promise]
    deliveries: tuple[Delivery, ...]
    outs: tuple[str, ...]
    clocks: tuple[Clock, ...] = (INTEGERS,)
    keep: int = KEEP
    homes: Mapping[str, Home] = field(default_factory=dict)
    tasks: int = 0
    unordered: frozenset[str] = frozenset()
    past: PastJob | None = None
    handed_over: tuple[HandedOver, ...] = ()
    sampled: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    measures: bool = True
    nodes: tuple[Node, ...] = ()
    # Asked for once per stage and batch, and plans may have hundreds of stages.
    _derived: _Derived = field(default_factory=_Derived, init=False, repr=False, compare=False)

    @property
    def notes_lineage(self) -> bool:
        """Whether the lifetimes of results are told to the driver."""
        return self.past is not None and self.past.lineage

    def shards_of(self, stage: Stage) -> int:
        """The number of shards of a stage."""
        return self.shards if is_spread(stage) else 1

    def levels(self) -> list[tuple[int, ...]]:
        """The indexes of the stages that run in one Spark stage, level by level."""
        if "levels" not in self._derived:
            self._derived["levels"] = self._found_levels()
        found: list[tuple[int, ...]] = self._derived["levels"]
        return found

    def _found_levels(self) -> list[tuple[int, ...]]:
        level: dict[Address, int] = {}
        for stage in self.plan.stages:
            below = [level.get(edge.upstream, -1) for edge in stage.edges]
            level[Address.stage(stage.name)] = max(below, default=-1) + 1
        found = list(level.values())
        return [
            tuple(stage_index for stage_index, one in enumerate(found) if one == number)
            for number in range(max(found) + 1)
        ]

    def most_shards(self, stages: Sequence[int]) -> int:
        """The shards of the widest stage among a level and those behind it."""
        levels = self.levels()
        still = [
            stage_index for level in levels[levels.index(tuple(stages)) :] for stage_index in level
        ]
        return max(self.shards_of(self.plan.stages[stage_index]) for stage_index in still)

    def width(self, level: Sequence[int]) -> int:
        """The number of partitions that the exchange before a level needs.

        Enough for its stages, and for all parcels that only pass; a partition has every so-many-th
        shard.
        """
        most = self.most_shards(level)
        return min(most, self.tasks or most)

    def goes_out_at_once(self, route: Outlet) -> bool:
        """Whether what a source sends there is output as it is, so that the sender delivers it.

        What senders deliver is read in the order of source, part and message. If that is not the
        order of the stream, an adjust could stand before its insert.
        """
        if self._is_jumbled(self.edge(route)):
            return False
        stage = self.plan.stages[route.target]
        kinds = [self.deliveries[number] for number in self.outputs_of(route.target)]
        return (
            bool(kinds)
            and {"log", "nothing"}.issuperset(kinds)
            and not stage.kernels
            and not self.routes(Address.stage(stage.name))
        )

    def nets(self, stage_index: int) -> bool:
        """Whether a stage has to add up the moves of each event, for they come in any order."""
        stage = self.plan.stages[stage_index]
        return not is_keyed(stage) and any(map(self._is_jumbled, stage.edges))

    def outputs_of(self, stage_index: int) -> list[int]:
        """The numbers of the outputs that a stage's rows are."""
        return [number for number, at in enumerate(self.plan.outputs) if at == stage_index]

    @property
    def is_delivered_by_senders(self) -> bool:
        """Whether all output leaves before the first exchange, so that there is little to do."""
        names = self.plan.sources
        routes = [route for name in names for route in self.routes(Address.source(name))]
        return len(self.levels()) == 1 and all(map(self.goes_out_at_once, routes))

    def routes(self, upstream: Address) -> list[Outlet]:
        """Where the rows of a source or a stage go."""
        if "outlets" not in self._derived:
            self._derived["outlets"] = self._found_outlets()
        found: list[Outlet] = self._derived["outlets"].get(upstream, [])
        return found

    def _found_outlets(self) -> dict[Address, list[Outlet]]:
        widths = {index: self.width(level) for level in self.levels() for index in level}
        found: dict[Address, list[Outlet]] = {}
        for target, stage in enumerate(self.plan.stages):
            for number, edge in enumerate(stage.edges):
                outlet = Outlet(
                    target,
                    number,
                    self.shards_of(stage),
                    is_keyed(stage) or self._may_adjust(stage, edge),
                    everywhere=stage.is_broadcast(number),
                    by_event=self._may_adjust(stage, edge),
                    partitions=widths[target],
                )
                found.setdefault(edge.upstream, []).append(outlet)
        return found

    def columns(self, source: str) -> tuple[str, ...]:
        """The payload columns of a source that anyone needs."""
        wanted = [self.edge(route).columns for route in self.routes(Address.source(source))]
        schema = self.plan.sources[source].schema
        if any(columns is None for columns in wanted):
            return tuple(schema.names)
        needed = {name for columns in wanted for name in columns or ()}
        return tuple(name for name in schema.names if name in needed)

    def nothing(self, stage_index: int, side: int) -> pa.RecordBatch:
        """What a side of a stage gets where no rows arrive."""
        stage = self.plan.stages[stage_index]
        number = next(n for n, edge in enumerate(stage.edges) if edge.side == side)
        return no_rows(stage.prepared_schema(number))

    def stage_store(self, stage_index: int) -> StageStore:
        """The state of a stage."""
        name = self.plan.stages[stage_index].name
        home = self.homes.get(name, Home(name, ""))
        folder = Folder.at(self.state).child(home.folder)
        return StageStore(folder=folder, keep=self.keep, since=home.since)

    def progress_of(self, source: str, batch: int) -> tuple[Time, Time]:
        """What stages that read a source remember of it from before a batch.

        How far it had promised, and what of it matters: rows that end before that instant do not.
        """
        manifest = self._heard(source, batch)
        if manifest is None:
            return BEGINNING, BEGINNING
        promised = Time(manifest.sources.get(source, BEGINNING))
        if manifest.interest == BEGINNING:
            return promised, BEGINNING
        told = Interest(Time(manifest.interest), Time(manifest.interest_since))
        return promised, source_instants(self.plan, self.nodes, told)[source]

    def needs(self, stage_index: int, interest: int, since: int) -> tuple[Need, ...]:
        """What feedback leaves to be needed of the kernels of a stage; empty: there was none."""
        if interest == BEGINNING:
            return ()
        told = Interest(Time(interest), Time(since))
        known = self._derived.get("needs")
        if known is None or known[0] != told:
            known = self._derived["needs"] = (told, stage_needs(self.plan, told))
        found: tuple[Need, ...] = known[1][stage_index]
        return found

    def part_log(self, source: str, part: int, batch: int) -> PartLog | None:
        """Where a task keeps what it reads of a source; None where the past is not kept."""
        if self.past is None:
            return None
        promised, _ = self.progress_of(source, batch)
        return PartLog(self.past, self.plan, source, part, batch, promised)

    def promised_copies(self, source: str, batch: int) -> dict[int, Time]:
        """What the copies of a source had promised before a batch, by number."""
        manifest = self._heard(source, batch)
        copies = manifest.copies.get(source, {}) if manifest else {}
        return {number: Time(copy.reached) for number, copy in copies.items()}

    def _heard(self, source: str, batch: int) -> Manifest | None:
        """What the stage that has heard most of a source remembers from before a batch."""
        targets = {route.target for route in self.routes(Address.source(source))}
        # Those that came later may not have heard of it.
        stores = [self.stage_store(target) for target in targets]
        return min(stores, key=lambda store: store.since).lead(batch)

    def _may_adjust(self, stage: Stage, edge: Edge) -> bool:
        """Whether moves of one event may come from several senders to a stage that has no key.

        A source cuts its stream into parts wherever it likes: the insert may be in one of them,
        the adjust in the next. (Shards of a stage have all moves of their events.) Unless all moves
        of an event meet in one shard, nobody knows their order.
        """
        source = self._source(edge)
        return source is not None and not source.insert_only and not is_keyed(stage)

    def _is_jumbled(self, edge: Edge) -> bool:
        """Whether a sender may have the adjust of an event whose insert comes from a later one."""
        source = self._source(edge)
        return source is not None and not source.insert_only and source.name in self.unordered

    def _source(self, edge: Edge) -> Source | None:
        """The source that comes through an edge, if it is one."""
        return self.plan.sources[edge.upstream.name] if edge.upstream.is_source else None

    def edge(self, route: Outlet) -> Edge:
        """The edge that a route leads through."""
        return self.plan.stages[route.target].edges[route.edge]


def is_keyed(stage: Stage) -> bool:
    """Whether rows of a stage have to go to the shard of their key."""
    return bool(stage.kernels) and isinstance(stage.kernels[0], Stateful)


def is_spread(stage: Stage) -> bool:
    """Whether a stage has as many shards as the query, not just one."""
    return stage.sharded or not is_keyed(stage)


def seal(job: Job) -> bytes:
    """The job as bytes, for the way to the workers.

    Code of users goes along, where workers could not import it.

    Raises:
        PlanError: Something that it refers to cannot be sent.
    """
    from pyspark import cloudpickle

    try:
        data: bytes = cloudpickle.dumps(job)  # type: ignore[no-untyped-call]
    except (pickle.PicklingError, TypeError, AttributeError) as problem:
        raise PlanError(
            "the query cannot be sent to workers",
            where=" ".join(str(problem).split()),
            hint="a function refers to an object that exists in this process only: a "
            "connection, a lock, a session; open it inside the function",
        ) from problem
    return data


@lru_cache(maxsize=16)
def unseal(sealed: bytes, query: str) -> Job:
    """The job in these bytes; a worker opens it once, and all batches share what it computes.

    Raises:
        OperatorError: Code of a user cannot be loaded here.
    """
    try:
        job = pickle.loads(sealed)  # noqa: S301 (written by `seal`, on the way from the driver)
    except (Exception, SystemExit) as problem:
        raise OperatorError(
            "a worker cannot load the code of a module or function",
            where=f"{type(problem).__name__}: {' '.join(str(problem).split())}",
            hint="make it available to workers: install its package where they run, send its "
            "file with "
            "spark.addArtifact(path, pyfile=True), or write it into the script itself",
        ) from problem
    assert isinstance(job, Job)
    return replace(job, state=job.state.replace(QUERY, query))


def check_sources(job: Job, given: Sequence[str]) -> None:
    """Refuse a plan that reads a source nobody provides."""
    missing = [name for name in job.plan.sources if name not in given]
    if missing:
        raise PlanError(
            f"the source '{missing[0]}' is not declared", hint="create streams with engine.stream"
        )
