"""Makes another plan the one in force, in the checkpoint of a running query."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

from anabranch.algebra.node import Node
from anabranch.errors import AnabranchError, PlanError
from anabranch.kernels.contract.packed_events import pack_events
from anabranch.kernels.plan.stage import PhysicalPlan, StageState
from anabranch.migrate.change import ReadStates
from anabranch.migrate.handover import Handover
from anabranch.model.time import BEGINNING
from anabranch.optimizer.statistics import PlanStatistics
from anabranch.planning import PlannedQueries
from anabranch.runtime.sinks.sinks import Sink
from anabranch.runtime.sources.files.log_records import LogProperties
from anabranch.runtime.sources.spec import Promise
from anabranch.runtime.store.folder import Folder
from anabranch.runtime.store.layout import StateLayout, migrated_layout
from anabranch.runtime.store.migrations import MOVES, MigrationFolder, PlanInForce
from anabranch.runtime.store.phases import reached
from anabranch.runtime.store.query_record import read_query_record
from anabranch.runtime.store.seeding import QueryProgress, progress_before, seed_stage
from anabranch.runtime.store.stage_store import StageStore
from anabranch.runtime.store.state_store import arrow_file
from anabranch.runtime.workers.job import HandedOver

if TYPE_CHECKING:
    from anabranch.runtime.query.assembly import Assembly
    from anabranch.runtime.query.committing import Output
    from anabranch.runtime.query.switching import NextPlan
    from anabranch.runtime.query.work import Work


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PlanExchange:
    """One exchange of the plan.

    Attributes:
        migration: The number of the change.
        batch: The first batch of the new plan.
        work: What is computed from then on.
        then: What is computed behind the change; None: that is `work`.
        asked: The fingerprints of plans that the query may be started with.
        expected: What the newest of them was chosen by; None where that stays as it is.
        known: The files with what the others were chosen by.
        handover: The state of a plan that was replayed, and what outputs take over.
        outputs: For each output of the new plan the number that it had, None for one that begins;
            nothing where all stay.
        make_sinks: What makes the sinks of outputs that begin, in their order.
    """

    migration: int
    batch: int
    work: Work
    then: Work | None
    asked: Sequence[str]
    expected: PlanStatistics | None = None
    known: Sequence[str] = ()
    handover: Handover | None = None
    outputs: Sequence[int | None] = ()
    make_sinks: Sequence[Callable[[Folder], Sink]] = ()

    @property
    def numbers(self) -> Sequence[int | None]:
        """For each output of the new plan the number that it had, None for one that begins."""
        return self.outputs or range(len(self.work.plan.outputs))


def progress_of(assembly: Assembly, batch: int) -> QueryProgress:
    """What the stages of a running query know before a batch."""
    opened = assembly.opened
    shards = assembly.job.shards_of
    return progress_before(
        assembly.work.plan, opened.layout, Folder.at(opened.state), batch, shards
    )


def properties_of(
    before: Work, nodes: Sequence[Node], emit: str
) -> tuple[LogProperties | None, ...]:
    """What is known of each output from the plans that are in force; a log notes what is weaker."""
    return tuple(LogProperties.of(node, emit) for node in nodes) if before.properties else ()


def with_moves(work: Work, outputs: Collection[int]) -> Work:
    """The same where outputs take over events of another plan: they end them by adjusts."""
    known = [
        None
        if each is None
        else each.meet(replace(each, insert_only=False, keyed=False, order="none", ties=False))
        if number in outputs
        else each
        for number, each in enumerate(work.properties)
    ]
    return replace(work, properties=tuple(known))


def states_of(assembly: Assembly, batch: int) -> ReadStates:
    """Reads what stages of a running query remember before a batch."""
    opened, plan = assembly.opened, assembly.work.plan
    stages = {stage.name: stage for stage in plan.stages}

    def read(name: str) -> Iterator[tuple[int, StageState]]:
        home = opened.layout.stages[name]
        folder = Folder.at(opened.state).child(home.folder)
        shards = range(assembly.job.shards_of(stages[name]))
        before = StageStore(folder=folder, since=home.since).newest_before(batch, shards)
        for shard in shards:
            yield shard, before.state(stages[name], shard)

    return read


def put_in_force(assembly: Assembly, step: PlanExchange) -> NextPlan:
    """Write down the state of new stages and the plan, and last that it is the one in force."""
    from anabranch.runtime.query.switching import NextPlan, seal_work

    opened, before = assembly.opened, assembly.work.plan
    folder = MigrationFolder.of(opened.path)
    work = replace(step.work, handed_over=_written_moves(step, folder))
    layout = migrated_layout(
        opened.layout,
        before,
        work.plan,
        query=opened.query,
        batch=step.batch,
        change=step.migration,
        outputs=step.numbers,
    )
    # What may fail comes first.
    plan = seal_work(work)
    outputs = _outputs(assembly, work, layout, step)
    _seed(assembly, work.plan, layout, step)
    reached("migration seeded", step.batch)
    expected = [] if step.expected is None else [folder.write_expected(step.expected)]
    in_force = PlanInForce(
        migration=step.migration,
        file=folder.write_plan(*plan),
        then="" if step.then is None else folder.write_plan(*seal_work(step.then)),
        asked=tuple(dict.fromkeys(step.asked)),
        expected=tuple(dict.fromkeys([*step.known, *expected])),
    )
    streaming = [each.name for each in work.frames if each.frame.isStreaming]
    opened.adopt(work.plan, layout, in_force, streaming)
    opened.drop_left()
    moves = [each.file for each in work.handed_over]
    folder.remove_files(in_force.file, in_force.then, *in_force.expected, *moves)
    return NextPlan(work, outputs)


def _outputs(
    assembly: Assembly, work: Work, layout: StateLayout, step: PlanExchange
) -> tuple[Output, ...]:
    """Those that stay, and those that begin: their sinks are opened.

    Raises:
        PlanError: A sink cannot be opened; nothing has changed yet.
    """
    found: list[Output] = []
    make_sinks = iter(step.make_sinks)
    for number, was in enumerate(step.numbers):
        if was is not None:
            found.append(assembly.outputs[was])
            continue
        home = layout.outputs[number]
        sink = next(make_sinks)(Folder.at(f"{assembly.opened.path}/{home.folder}"))
        try:
            found.append(assembly.open_output(work, number, sink, home))
        except AnabranchError:
            raise
        except Exception as problem:
            # Whatever a database says: the queries that run must not end by it.
            raise PlanError(
                "the output of a query that joins cannot be opened",
                where=" ".join(str(problem).split()),
                hint="the other queries run on; put it right, or name another output",
            ) from problem
    return tuple(found)


def _written_moves(step: PlanExchange, folder: MigrationFolder) -> tuple[HandedOver, ...]:
    """Write down what outputs take over; the batch of the change brings it."""
    found = []
    for output, moves in ({} if step.handover is None else step.handover.moves).items():
        if len(moves):
            file = f"{MOVES}{step.migration}-{output}.arrow"
            folder.folder.write(file, arrow_file(pack_events(moves)))
            path = folder.folder.path
            found.append(HandedOver(output=output, batch=step.batch, folder=path, file=file))
    return tuple(found)


def _seed(assembly: Assembly, plan: PhysicalPlan, layout: StateLayout, step: PlanExchange) -> None:
    """Write what new stages begin with: nothing, but what the others know of the sources."""
    if step.batch == 0:
        return
    progress = progress_of(assembly, step.batch)
    old = assembly.work.plan
    stables = {
        plan.stages[new].name: progress.stables[old.stages[old.outputs[was]].name]
        for new, was in zip(plan.outputs, step.numbers, strict=True)
        if was is not None
    }
    for stage in plan.stages:
        home = layout.stages[stage.name]
        if home.since != step.batch:
            continue
        shards = assembly.job.shards_of(stage)
        states: Iterable[tuple[int, StageState]]
        if step.handover is None:
            states = ((shard, stage.start()) for shard in range(shards))
        else:
            states = step.handover.shards(stage, plan, shards)
        folder = Folder.at(assembly.opened.state).child(home.folder)
        stable = stables.get(stage.name, int(BEGINNING))
        seed_stage(stage, folder, step.batch, progress, states, stable=stable)


def refuse_other_sources(assembly: Assembly, planned: PlannedQueries, where: str) -> None:
    """Refuse a change to queries whose sources a running query cannot read.

    Raises:
        PlanError: A source is read or declared in another way; or it was read until the last query
            left that did.
    """
    work, stored = assembly.work, read_query_record(assembly.opened.path)
    now = {each.name: each.frame for each in work.frames}
    for name, new in planned.frames.items():
        if name not in now or not now[name].sameSemantics(new.frame):
            raise PlanError(
                f"the changed query reads the DataFrame '{name}' in another way",
                where=where,
                hint="Spark evaluates conditions right above a DataFrame, and its part of a "
                "running query cannot change: keep these conditions, or read files",
            )
    kept = {each.name: each for each in work.files}
    gone = set() if stored is None else set(stored.sources) - set(work.plan.sources)
    for source in planned.files:
        if source.name in gone:
            raise PlanError(
                f"the source '{source.name}' was read before, by a query that is not there any "
                "more, and what has come of it is not known any more",
                where=where,
                hint="start the query by itself, with a checkpoint of its own",
            )
        if source.name in kept and not kept[source.name].is_read_like(source):
            raise PlanError(
                f"the source '{source.name}' is declared in another way than in the running query",
                where=where,
                hint="a source that is being read cannot change: declare it as it was",
            )


def revised_sources(work: Work, planned: PlannedQueries) -> frozenset[str]:
    """The sources whose past may be corrected."""
    promises = (*work.promises.values(), *planned.promises)
    return frozenset(each.source for each in promises if each.late == "revise")


def refuse_unrevisable(assembly: Assembly, planned: PlannedQueries, where: str) -> None:
    """Refuse a change after which the past could not be corrected any more.

    Raises:
        PlanError: Corrections exchange the state of a plan, are estimated or found by lineage; or
            a plan does without a source or a column that the other one reads.
    """
    work = assembly.work
    if not revised_sources(work, planned):
        return
    now, then = work.plan.sources.keys(), planned.physical.sources.keys()
    columns = {
        name
        for name in now & then
        if set(assembly.job.columns(name)) != _columns_read(planned.physical, name)
    }
    reasons = {
        "corrections of rows that windows count, or of sessions, exchange the state of its plan": (
            work.swaps or planned.swaps
        ),
        "corrections are estimated": work.estimator is not None,
        "corrections are found by lineage (replay='RM')": work.replay == "RM",
        f"the changed query reads other sources: {', '.join(sorted(now ^ then))}": now != then,
        f"the changed query reads other columns of {', '.join(sorted(columns))}": bool(columns),
    }
    why = next((each for each, holds in reasons.items() if holds), None)
    if why is not None:
        raise PlanError(
            f"a query with LATE REVISE cannot change in this way while it runs: {why}",
            where=where,
            hint="its past is corrected by the old plan before T and by the new one from T on; "
            "start the new query with a checkpoint of its own",
        )


def _columns_read(plan: PhysicalPlan, source: str) -> set[str]:
    edges = [
        edge
        for stage in plan.stages
        for edge in stage.edges
        if edge.upstream.is_source and edge.upstream.name == source
    ]
    every = plan.sources[source].schema.names
    return {name for edge in edges for name in (every if edge.columns is None else edge.columns)}


def refuse_revised(promises: Iterable[Promise], where: str) -> None:
    """Refuse to let queries join and leave over sources that are revised.

    Raises:
        PlanError: There is one.
    """
    for promise in promises:
        if promise.late == "revise":
            raise PlanError(
                f"queries over '{promise.source}' cannot join others or leave them while they run: "
                "with LATE REVISE their past is corrected together",
                where=where,
                hint="declare LATE DROP or LATE ADJUST, or start the new query with a "
                "checkpoint of its own",
            )
