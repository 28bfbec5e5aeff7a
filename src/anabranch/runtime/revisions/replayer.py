"""From a correction of an input to the corrections of the answers, by replay."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import final

import pyarrow as pa
import pyarrow.compute as pc

from anabranch.algebra.analysis.filtered import Texts, passing_texts
from anabranch.algebra.analysis.reach import affected, needed
from anabranch.algebra.analysis.restricted import Restriction, restricting_columns
from anabranch.algebra.analysis.spans import EVERYTHING, NOTHING, Span
from anabranch.algebra.node import Node
from anabranch.errors import StreamError
from anabranch.kernels.plan.compile import compile_plan, with_tables
from anabranch.kernels.plan.replay import replayed_changes
from anabranch.kernels.plan.side_by_side import distance_between
from anabranch.kernels.plan.stage import PhysicalPlan
from anabranch.kernels.plan.swap import ReplayedState, replayed_state
from anabranch.model.batch import EventBatch
from anabranch.model.revision import clipped_changes, snapshot_changes
from anabranch.model.time import BEGINNING, Time
from anabranch.runtime.archive.narrowing import Wanted
from anabranch.runtime.revisions.choice import Strategy, StrategyChoice, cheapest
from anabranch.runtime.revisions.lineage import Lineage
from anabranch.runtime.revisions.past import Past


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """What a correction can change, and what has to be replayed to know it.

    Attributes:
        strategy: How the replayed stretches were found.
        changes: The instants of the source that it is about.
        answers: The instants of the answers that may change.
        inputs: Per source, the instants that are replayed.
        needed: Per source, the instants without which the answers cannot be known.
        keep: Per source, the values that rows must have to matter, by column.
    """

    strategy: Strategy
    changes: Span
    answers: Span
    inputs: Mapping[str, Span] = field(default_factory=dict)
    needed: Mapping[str, Span] = field(default_factory=dict)
    keep: Mapping[str, Wanted] = field(default_factory=dict)


def span_of(changes: EventBatch) -> Span:
    """The instants that changes are about; an empty span where there are none."""
    if not len(changes):
        return BEGINNING, BEGINNING
    low = min(int(changes.end.min()), int(changes.new_end.min()))
    high = max(int(changes.end.max()), int(changes.new_end.max()))
    return Time(low), Time(high)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Replayer:
    """Computes what corrections of sources change in the answers of queries.

    Attributes:
        nodes: The logical plans, one per output, that `plan` was compiled from.
        plan: The stages, with speculative emission.
        strategy: How to find what has to be replayed.
        restrictions: By corrected source, the columns whose values have to occur in a correction
            for a row to matter.
        passing: By source, the texts in columns without which a row is filtered out at once.
        distance: How far apart the old and the new input may be put to be replayed in one pass.
    """

    nodes: tuple[Node, ...]
    plan: PhysicalPlan
    strategy: StrategyChoice = "RW"
    restrictions: Mapping[str, Restriction] = field(default_factory=dict)
    passing: Mapping[str, Texts] = field(default_factory=dict)
    distance: int | None = None

    @staticmethod
    def of(
        nodes: Sequence[Node],
        *,
        tables: frozenset[str] = frozenset(),
        strategy: StrategyChoice = "RW",
    ) -> Replayer:
        """For queries with these plans, which look up in these tables.

        Operators that only hold rows back until they are settled are left out: nothing is settled
        while the past is replayed.
        """
        at_once = tuple(map(_at_once, nodes))
        plan = compile_plan(*at_once, tables=tables)
        restrictions = {name: restricting_columns(at_once, name) for name in plan.sources}
        return Replayer(
            nodes=at_once,
            plan=plan,
            strategy=strategy,
            restrictions=restrictions,
            passing=passing_texts(at_once),
            distance=distance_between(at_once),
        )

    def with_tables(self, paths: Mapping[str, str]) -> Replayer:
        """The same, which knows the files of the tables that it looks up in."""
        return replace(self, plan=with_tables(self.plan, paths))

    def reach(
        self,
        source: str,
        changes: EventBatch,
        within: Span = EVERYTHING,
        past: Past | None = None,
        lineage: Lineage | None = None,
    ) -> Reach:
        """What a correction of a source can change in a span, and what that takes.

        Args:
            source: The source that is corrected.
            changes: The correction, as moves.
            within: The answers that are asked for.
            past: The archived input, to know what a strategy costs and where the archive begins.
            lineage: What is known of the lineage of answers, for RM.
        """
        changed = span_of(snapshot_changes(changes))
        reached = [affected(node, source, changed) for node in self.nodes if _reads(node, source)]
        answers = _hull([_common(each, within) for each in reached])
        spans: dict[Strategy, dict[str, Span]] = {"RW": self._needed(answers)}
        spans["RA"] = dict.fromkeys(self.plan.sources, EVERYTHING)
        if lineage is not None:
            # A row that came late may contribute to answers that nobody has given yet.
            named = lineage.covering(source, changed)
            spans["RM"] = {
                name: _hull([span, named.get(name, NOTHING)]) for name, span in spans["RW"].items()
            }
        strategy = self._chosen(spans, past)
        return Reach(
            strategy=strategy,
            changes=changed,
            answers=answers,
            inputs=_as_archived(spans.get(strategy, spans["RW"]), spans["RW"], past),
            needed=spans["RW"],
            keep=self._keep(source, changes),
        )

    def _needed(self, answers: Span) -> dict[str, Span]:
        spans: dict[str, list[Span]] = {}
        for node in self.nodes:
            for name, span in needed(node, answers).items():
                if name in self.plan.sources:
                    spans.setdefault(name, []).append(span)
        return {name: _hull(each) for name, each in spans.items()}

    def _chosen(self, spans: Mapping[Strategy, Mapping[str, Span]], past: Past | None) -> Strategy:
        if self.strategy != "auto":
            return self.strategy
        if past is None:
            return "RW"
        rows = {
            strategy: sum(past.count(name, span) for name, span in each.items())
            for strategy, each in spans.items()
        }
        is_bounded = any(span != EVERYTHING for span in spans["RW"].values())
        return cheapest(rows, is_bounded=is_bounded)

    def _keep(self, source: str, changes: EventBatch) -> dict[str, Wanted]:
        """The values that rows must have to meet the corrected ones, per source and column."""
        columns = changes.payload.schema.names
        found: dict[str, dict[str, pa.Array]] = {
            name: {column: pa.array(sorted(texts)) for column, texts in each.items()}
            for name, each in self.passing.items()
        }
        for name, pairs in self.restrictions.get(source, {}).items():
            own = found.setdefault(name, {})
            for column, corrected in reversed(pairs):
                if corrected in columns:
                    own[column] = pc.unique(changes.payload.column(corrected))
        return {name: wanted for name, wanted in found.items() if wanted}

    def replay(
        self,
        past: Past,
        source: str,
        changes: EventBatch,
        reach: Reach,
        revised: Mapping[str, Collection[int]],
    ) -> list[EventBatch]:
        """The changes of the answers, per output.

        Args:
            past: The archived input.
            source: The source that is corrected.
            changes: The correction, as moves.
            reach: What `reach` says of it.
            revised: Per source, the batches whose late rows are revisions that count already.

        Raises:
            StreamError: The archive does not go back far enough.
        """
        if reach.answers[0] >= reach.answers[1]:
            return [EventBatch.empty(self.plan.stages[at].schema) for at in self.plan.outputs]
        refuse_missing(past, reach, self.plan)
        believed = {
            name: past.believed(name, span, revised.get(name, ()), reach.keep.get(name))
            for name, span in reach.inputs.items()
        }
        own = clipped_changes(snapshot_changes(changes), *reach.inputs[source])
        return replayed_changes(self.plan, believed, {source: own}, reach.answers, self.distance)

    def state(
        self,
        past: Past,
        plan: PhysicalPlan,
        promised: Mapping[str, Time],
        revised: Mapping[str, Collection[int]],
    ) -> ReplayedState:
        """What a guarded plan remembers after all that is archived.

        Args:
            past: The archived input.
            plan: The plan that runs.
            promised: How far each source has promised.
            revised: Per source, the batches whose late rows count.
        """
        believed = {name: past.events(name, revised.get(name, ())) for name in plan.sources}
        return replayed_state(plan, believed, promised)

    def further_state(
        self,
        before: ReplayedState,
        past: Past,
        plan: PhysicalPlan,
        promised: Mapping[str, Time],
        batch: int,
    ) -> ReplayedState:
        """What a guarded plan remembers that has also taken in what the query did since.

        Args:
            before: What it remembers after a batch.
            past: What came up to a later one.
            plan: The plan that runs.
            promised: How far each source has promised with that.
            batch: The earlier batch.
        """
        moves = {name: past.moves_behind(name, batch) for name in plan.sources}
        return replayed_state(plan, moves, promised, before)


def refuse_cut(past: Past, source: str) -> None:
    """Refuse to replay everything where something is gone.

    Raises:
        StreamError: The archive of a source does not go back to its beginning.
    """
    if past.oldest(source) > BEGINNING:
        raise StreamError(
            "the archive no longer has what a revision needs",
            where=f"source '{source}': needed from its beginning on",
            hint="the state of the query depends on all rows: keep the whole source (no KEEP); the "
            "revision is in quarantine, and the query goes on without it",
        )


def missing_inputs(past: Past, reach: Reach) -> list[str]:
    """The sources whose archive begins later than what is needed."""
    return [
        name
        for name, (first, last) in reach.needed.items()
        if first < past.oldest(name) and last > first
    ]


def refuse_missing(past: Past, reach: Reach, plan: PhysicalPlan) -> None:
    """Refuse a replay of input that is no longer there.

    Raises:
        StreamError: The archive of a source begins later than what is needed.
    """
    for name in missing_inputs(past, reach):
        first, last = reach.needed[name]
        clock = plan.sources[name].clock
        shown = str if clock is None else clock.format
        raise StreamError(
            "the archive no longer has what a revision needs",
            where=f"source '{name}': needed [{shown(first)}, {shown(last)}), "
            f"archived from {shown(past.oldest(name))} on",
            hint="keep more of the source (KEEP), or correct the answers elsewhere; the "
            "revision is in quarantine, and the query goes on without it",
        )


def _as_archived(
    spans: Mapping[str, Span], least: Mapping[str, Span], past: Past | None
) -> dict[str, Span]:
    """What of the spans there is, where the archive has at least what is needed of them."""
    found: dict[str, Span] = {}
    for name, (first, last) in spans.items():
        oldest = BEGINNING if past is None else past.oldest(name)
        low, high = least.get(name, NOTHING)
        is_there = low >= high or low >= oldest
        first = Time(max(first, oldest)) if is_there else first
        found[name] = (first, last) if first < last else NOTHING
    return found


def _at_once(node: Node) -> Node:
    """The plan without operators that only wait."""
    inputs = tuple(map(_at_once, node.inputs))
    if node.holds_back and node.traits.same_snapshots:
        (below,) = inputs
        return below
    return node.with_inputs(*inputs) if inputs != node.inputs else node


def _reads(node: Node, source: str) -> bool:
    return any(getattr(each, "name", None) == source for each in node.walk() if not each.inputs)


def _common(one: Span, other: Span) -> Span:
    return Time(max(one[0], other[0])), Time(min(one[1], other[1]))


def _hull(spans: Sequence[Span]) -> Span:
    """The least span that holds all of them; empty ones do not count."""
    there = [span for span in spans if span[0] < span[1]]
    if not there:
        return BEGINNING, BEGINNING
    return min(first for first, _ in there), max(last for _, last in there)
