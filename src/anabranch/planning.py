"""The one way from queries to what runs: share, optimise, push down, check, compile.

`explain`, `start`, `start_all`, `run_local` and `to_df` all ask `plan_queries`, with the same
arguments for the same options. So what is explained is what is started.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Protocol, final

from anabranch.algebra.analysis.canonical import is_for_merge
from anabranch.algebra.analysis.reach import way_of_change
from anabranch.algebra.node import Node, clock_of
from anabranch.algebra.source import Source
from anabranch.errors import PlanError
from anabranch.kernels.plan.compile import Emission, PhysicalPlan, compile_plan
from anabranch.kernels.plan.identity import plan_fingerprint
from anabranch.model.clock import Clock
from anabranch.optimizer.common_parts import optimize_all
from anabranch.optimizer.cost import CostModel
from anabranch.optimizer.driver import Optimized
from anabranch.optimizer.meaning.products import without_products
from anabranch.optimizer.meaning.sharing import SHARED_LESS, Sharing
from anabranch.optimizer.meaning.unify import unify
from anabranch.optimizer.normalizer import Step
from anabranch.optimizer.statistics import UNKNOWN, PlanStatistics, SourceStatistics
from anabranch.runtime.plans.bounded import find_unbounded
from anabranch.runtime.plans.explanation import Explanation, spark_plan
from anabranch.runtime.plans.log_events import with_log_events
from anabranch.runtime.plans.revision_plan import revised_sources
from anabranch.runtime.plans.unrevisable import changes_state, find_unrevisable
from anabranch.runtime.plans.workers_can import find_spark_only
from anabranch.runtime.query.notes import notes_of
from anabranch.runtime.query.options import PlanChoice
from anabranch.runtime.query.tables import lookup_tables
from anabranch.runtime.sources.archived.about import read_about
from anabranch.runtime.sources.declare.shared_results import Published, reuse
from anabranch.runtime.sources.spec import ArchiveSpec, FileSource, Promise
from anabranch.runtime.store.folder import Folder
from anabranch.runtime.store.resuming import expectations, resumes_better

if TYPE_CHECKING:
    from anabranch.runtime.spark.frame_source import FrameSource


class AskedQuery(Protocol):
    """A query as it was asked: a plan, its sources by name, remarks of whoever bound it."""

    @property
    def node(self) -> Node:
        """The logical plan, as written."""

    @property
    def sources(self) -> Mapping[str, Any]:
        """Files and DataFrames, by the names of the leaves."""

    @property
    def remarks(self) -> tuple[str, ...]:
        """What is odd about the text."""

    @property
    def is_copy(self) -> bool:
        """Whether a merge reads it beside other copies, event by event."""

    def canonical(self) -> AskedQuery:
        """The same as such a copy."""


def is_merged_copy(query: AskedQuery) -> bool:
    """Whether a merge reads the query beside other copies."""
    return query.is_copy or is_for_merge(query.node)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedQuery:
    """One query: as it was written, and what becomes of it.

    Attributes:
        written: The logical plan as written.
        shared: The same over results that other queries publish; `written` where there are none.
        optimized: The plan that runs, and the rules that led to it.
        notes: Remarks for the author of the query.
        source_notes: What the order of rows in its sources means for lateness, and which of them
            have an archive.
        leaves: What is known of the output, in words.
        clock: How its results count time.
        unbounded: Why its state may grow for ever; None where it does not.
        spark_only: What is left to workers though only Spark evaluates it; None where nothing is.
        unrevisable: Why its answers cannot be corrected with its sources; None where they can.
    """

    written: Node
    shared: Node
    optimized: Optimized
    notes: tuple[str, ...]
    source_notes: tuple[str, ...]
    leaves: str
    clock: Clock
    unbounded: PlanError | None
    spark_only: PlanError | None
    unrevisable: PlanError | None = None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedQueries:
    """Queries that run together, and the one physical plan that computes them all.

    Attributes:
        queries: The queries, in the order of the outputs of the physical plan.
        emit: What leaves, and when.
        workers: What is left of their plans for workers, below which Spark does the rest.
        physical: The stages.
        files: The sources in files that the stages read.
        frames: The DataFrames that they read, each with what Spark does itself.
        tables: The relations in files that joins may look up in.
        swaps: Whether corrections of sources change the state, so that it is exchanged.
        priced: How the sources were expected to be when the plans were chosen.
    """

    queries: tuple[PlannedQuery, ...]
    emit: Emission
    workers: tuple[Node, ...]
    physical: PhysicalPlan
    files: tuple[FileSource, ...]
    frames: Mapping[str, FrameSource] = field(default_factory=dict)
    tables: Mapping[str, FileSource] = field(default_factory=dict)
    swaps: bool = False
    priced: PlanStatistics = UNKNOWN

    @property
    def promises(self) -> tuple[Promise, ...]:
        """What the sources promise, that are read as streams."""
        in_files = tuple(each.promise for each in self.files)
        return in_files + tuple(each.promise for each in self.frames.values())

    @property
    def archives(self) -> Mapping[str, ArchiveSpec]:
        """The archives of the sources that have one."""
        found = {each.name: each.archive for each in self.files}
        found |= {name: each.archive for name, each in self.frames.items()}
        return {name: archive for name, archive in found.items() if archive is not None}

    def refusals(
        self, *, allow_unbounded: bool = False, emits_revisions: bool = True
    ) -> tuple[PlanError, ...]:
        """Why they cannot be started: nothing for queries that can.

        Without `emits_revisions` it does not matter whether answers can be corrected.
        """
        unbounded = [] if allow_unbounded else [query.unbounded for query in self.queries]
        if emits_revisions:
            unbounded += [query.unrevisable for query in self.queries]
            unbounded.append(self._cut_past())
        past = [_past_knowledge(source) for source in self.files]
        past.append(_one_archive(self.archives))
        found = [*unbounded, *(query.spark_only for query in self.queries), *past]
        return tuple(each for each in found if each is not None)

    def _cut_past(self) -> PlanError | None:
        """Why state cannot be exchanged: an archive forgets rows that the state depends on."""
        if not self.swaps:
            return None
        clocks = {each.source: each.clock for each in self.promises}
        for name, archive in self.archives.items():
            if archive.keep_age is not None or archive.keep_rows is not None:
                reasons = [
                    way_of_change(node, each.source)
                    for node in self.workers
                    for each in self.promises
                    if each.late == "revise"
                ]
                why = next(each.reason for each in reasons if each.way == "swap")
                return PlanError(
                    f"KEEP of source '{name}' leaves out rows that a correction needs",
                    where=f"{archive.label(clocks[name])}; a correction replays all rows: {why}",
                    hint="declare the source without KEEP, or with LATE DROP, LATE ADJUST or LATE "
                    "FAIL for this query, or start it with revisions='ignore' (--revisions ignore)",
                )
        return None

    def refuse(self, *, allow_unbounded: bool = False, emits_revisions: bool = True) -> None:
        """Refuse queries that cannot be started.

        Raises:
            PlanError: State would grow for ever, workers cannot evaluate something, or answers
                cannot be corrected.
        """
        found = self.refusals(allow_unbounded=allow_unbounded, emits_revisions=emits_revisions)
        for refusal in found:
            raise refusal

    def older(self) -> PhysicalPlan:
        """The stages of queries that began before their state told its shard."""
        tables = frozenset(self.tables)
        return compile_plan(*self.workers, emit=self.emit, tables=tables, routed=False)

    def explanation(self) -> Explanation:
        """What `explain` shows of a query that is planned by itself."""
        (query,) = self.queries
        return Explanation(
            written=query.written,
            optimized=query.optimized,
            physical=self.physical,
            leaves=query.leaves,
            notes=(*query.notes, *query.source_notes),
            spark=tuple((name, spark_plan(each.frame)) for name, each in self.frames.items()),
            revisions=revised_sources(
                self.workers[0],
                self.physical,
                {**{each.name: each for each in self.files}, **self.frames},
            ),
        )


def plan_queries(
    queries: Sequence[AskedQuery],
    *,
    emit: Emission = "speculative",
    plan: PlanChoice = "optimized",
    checkpoint: str | None = None,
    published: Sequence[Published] = (),
    sharing: Sharing = "meaning",
    statistics: PlanStatistics | None = None,
    nearby: PlanStatistics | None = None,
) -> PlannedQueries:
    """Plan queries that run together; nothing is started, and no query is refused.

    Args:
        queries: The queries; one of them, or several that share what they have in common.
        emit: What leaves, and when.
        plan: `as-written` leaves the optimiser out. Spark still does what it does itself, and
            what a plan needs to be right is still done when it is compiled.
        checkpoint: The folder of a query that may resume: it keeps its lookup tables, and the
            expectations that its plan was chosen by, so that it gets the same plan.
        published: Results of other queries that may be read in place of sub-plans; not by a copy
            that a merge reads, nor where the state in the checkpoint was written without them.
        sharing: What counts as the same. Where the state in the checkpoint was written by queries
            that shared less, so do these.
        statistics: What plans are priced by instead.
        nearby: What queries that begin now are priced by: other queries have measured it.

    Raises:
        PlanError: There is no way to run them.
    """
    plan_by = partial(
        _plan_by,
        queries,
        emit=emit,
        plan=plan,
        checkpoint=checkpoint,
        published=published,
        sharing=sharing,
    )
    if statistics is not None:
        return plan_by(statistics)
    known = None if checkpoint is None else expectations(checkpoint)
    if known is None:
        return plan_by(nearby)
    first, *others = known.statistics
    planned = plan_by(first)
    if known.accepted is None or plan_fingerprint(planned.physical) in known.accepted:
        return planned
    for each in others:
        other = plan_by(each)
        if plan_fingerprint(other.physical) in known.accepted:
            return other
    # They are other queries than those of the checkpoint, which a start refuses.
    return planned


def _plan_by(
    queries: Sequence[AskedQuery],
    statistics: PlanStatistics | None,
    *,
    emit: Emission,
    plan: PlanChoice,
    checkpoint: str | None,
    published: Sequence[Published],
    sharing: Sharing,
) -> PlannedQueries:
    """The same by certain statistics; None: as sources are declared, else guesses."""
    sharing = "text" if plan == "as-written" else sharing
    over, common = _with_common_parts(queries, published, sharing, statistics)
    sources = {name: source for _, each in over for name, source in each.items()}
    files = {name: each for name, each in sources.items() if isinstance(each, FileSource)}
    expected = _expected(common, statistics)
    optimized = _optimized(common, plan, expected)
    workers, frames = _pushed_down(
        [each.node for each in optimized],
        {name: each for name, each in sources.items() if name not in files},
    )
    tables = lookup_tables(sources, checkpoint)
    by_name: dict[str, FileSource | FrameSource] = {**files, **frames}
    late = frozenset(name for name, each in by_name.items() if each.promise.late == "revise")
    swaps = any(changes_state(node, by_name) for node in workers)
    # Where state is exchanged, late rows enter it as they came.
    cut: frozenset[str] = frozenset() if swaps else late
    physical = compile_plan(*workers, emit=emit, tables=tables, guarded=swaps, late=cut)
    planned = PlannedQueries(
        queries=tuple(
            PlannedQuery(
                written=query.node,
                shared=node,
                optimized=_with_sharing(best, query, node, one),
                notes=(*query.remarks, *map(str, notes_of(node, own, emit))),
                source_notes=_source_notes(own),
                leaves=query.node.properties.emitted(emit).label,
                clock=clock_of(query.node),
                unbounded=find_unbounded(node),
                spark_only=find_spark_only(
                    rest,
                    as_written=plan == "as-written",
                    archived=any(frame.archive is not None for frame in frames.values()),
                ),
                unrevisable=find_unrevisable(rest, {**own, **frames}),
            )
            for query, (node, own), one, best, rest in zip(
                queries, over, common, optimized, workers, strict=True
            )
        ),
        emit=emit,
        workers=tuple(workers),
        physical=physical,
        files=tuple(each for name, each in files.items() if name in physical.sources),
        frames=frames,
        tables={name: files[name] for name in tables},
        swaps=swaps,
        priced=expected,
    )
    if checkpoint is None:
        return planned
    again = partial(_plan_by, queries, statistics, emit=emit, plan=plan, checkpoint=checkpoint)
    others: list[Callable[[], PlannedQueries]] = [
        cache(partial(again, published=published, sharing=less))
        for less in (SHARED_LESS if sharing == "meaning" else ())
        if _with_common_parts(queries, published, less, statistics)[1] != common
    ]
    if any(each.leaf.name in own for each in published for _, own in over):
        others.append(cache(partial(again, published=(), sharing=sharing)))
    return _resuming(planned, others, checkpoint)


def _resuming(
    planned: PlannedQueries,
    others: Sequence[Callable[[], PlannedQueries]],
    checkpoint: str,
) -> PlannedQueries:
    """The plan by which most of the state in a checkpoint is found; the first one if none is."""
    for other in others:
        mine = (planned.physical, planned.older)
        theirs = partial(_both_forms, other)
        if resumes_better(checkpoint, mine, theirs):
            planned = other()
    return planned


def _both_forms(
    plan: Callable[[], PlannedQueries],
) -> tuple[PhysicalPlan, Callable[[], PhysicalPlan]]:
    """The stages as they are compiled now, and as they were before state told its shard."""
    return plan().physical, plan().older


def _with_common_parts(
    queries: Sequence[AskedQuery],
    published: Sequence[Published],
    sharing: Sharing,
    statistics: PlanStatistics | None,
) -> tuple[list[tuple[Node, Mapping[str, Any]]], list[Node]]:
    """Queries over what others publish, each with its sources; and these with common parts."""
    over = [_over_published(query, published, sharing) for query in queries]
    over = [(with_log_events(node, own), own) for node, own in over]
    nodes = [node for node, _ in over]
    if sharing == "text" or len(nodes) == 1:
        return over, nodes
    if sharing == "meaning":
        nodes = [without_products(node) for node in nodes]
    return over, unify(nodes, sharing, statistics)


def _expected(nodes: Sequence[Node], statistics: PlanStatistics | None) -> PlanStatistics:
    """How sources are expected to be: as measured or declared, or a guess.

    The same again for these, so that a plan is found again by what it was chosen by.
    """
    model = CostModel(statistics)
    leaves = dict.fromkeys(each for node in nodes for each in node.walk())
    found: dict[str, SourceStatistics] = {}
    for leaf in leaves:
        if isinstance(leaf, Source):
            expected = model.estimate(leaf)
            given = model.statistics.sources.get(leaf.name, SourceStatistics())
            rate = leaf.rate if given.rate is None else given.rate
            found[leaf.name] = SourceStatistics(
                # As it was given: the estimate has been inverted twice.
                rate=expected.stream.rate if rate is None else rate,
                lifetime=expected.stream.lifetime,
                distinct=expected.distinct,
            )
    return replace(model.statistics, sources=found)


def _over_published(
    query: AskedQuery, published: Sequence[Published], sharing: Sharing
) -> tuple[Node, Mapping[str, Any]]:
    """A query over what others publish, and its sources; as it is where that is nothing."""
    # Copies are there for when one of them fails: none depends on what another one writes.
    if not published or is_merged_copy(query):
        return query.node, query.sources
    node, sources = reuse(query.node, query.sources, published, sharing=sharing)
    return (query.node, query.sources) if node == query.node else (node, sources)


def _past_knowledge(source: FileSource) -> PlanError | None:
    """Why a source cannot be read as it was known."""
    if source.known is None:
        return None
    about = read_about(Folder.at(source.path))
    if about is None:
        return PlanError(
            "the archive of a stream does not exist yet, so nothing was known",
            where=f"source '{source.name}': {source.path}",
            hint="start a query that reads the stream first, or leave FOR KNOWN AS OF out",
        )
    missing = [name for name in source.schema.names if name not in about.payload.names]
    if missing:
        return PlanError(
            f"the archive of a stream has no column '{missing[0]}'",
            where=f"source '{source.name}': {source.path}",
            hint=f"it has the columns {', '.join(about.payload.names)}",
        )
    return None


def _one_archive(archives: Mapping[str, ArchiveSpec]) -> PlanError | None:
    """Why two sources cannot have their archives in one folder."""
    folders: dict[str, str] = {}
    for name, archive in archives.items():
        if archive.path is None:
            continue
        other = folders.setdefault(archive.path, name)
        if other != name:
            return PlanError(
                "two sources cannot have their archives in one folder",
                where=f"sources '{other}' and '{name}': {archive.path}",
                hint="give each of them a folder of its own: ARCHIVE 'archive/name'",
            )
    return None


def _source_notes(sources: Mapping[str, Any]) -> tuple[str, ...]:
    """What `explain` says of the sources themselves."""
    found = [note for each in sources.values() for note in (each.order_note, each.archive_note)]
    return tuple(note for note in found if note is not None)


def _optimized(
    nodes: Sequence[Node], plan: PlanChoice, statistics: PlanStatistics | None
) -> list[Optimized]:
    if plan == "as-written":
        return [Optimized(node, ()) for node in nodes]
    return optimize_all(nodes, statistics)


def _pushed_down(
    nodes: Sequence[Node], frames: Mapping[str, FrameSource]
) -> tuple[list[Node], dict[str, FrameSource]]:
    """What is left for workers, and the DataFrames that do the rest; Spark only if there are."""
    if not frames:
        return list(nodes), {}
    from anabranch.runtime.spark.native_head import push_down

    return push_down(nodes, frames)


def _with_sharing(found: Optimized, query: AskedQuery, shared: Node, one: Node) -> Optimized:
    """That results or parts of another query are used is a step, the first."""
    steps = found.steps
    written = with_log_events(query.node, query.sources)
    if one not in (shared, without_products(shared)):
        steps = (Step("share_equal_parts", shared.label, one.label), *steps)
    if written != shared:
        steps = (Step("read_published_results", written.label, shared.label), *steps)
    if written != query.node:
        steps = (Step("coalesce_revised_logs", query.node.label, written.label), *steps)
    return Optimized(found.node, steps)
