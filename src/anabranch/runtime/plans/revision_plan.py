"""What late rows of sources with LATE REVISE lead to, for `explain`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, final

from anabranch.algebra.analysis.reach import Way, way_of_change
from anabranch.algebra.analysis.reach_in_words import (
    InstantReach,
    about,
    describe_reach,
    reach_of_instant,
)
from anabranch.algebra.analysis.restricted import restricting_columns
from anabranch.algebra.node import Node, clock_of
from anabranch.algebra.source import Source
from anabranch.kernels.plan.address import Address
from anabranch.kernels.plan.stage import PhysicalPlan
from anabranch.model.time import FOREVER
from anabranch.runtime.sources.spec import ArchiveSpec, FileSource

_STRATEGIES: Final = {
    "RW": "RW, what the windows of the plan reach",
    "RA": "RA, all that is archived",
    "swap": "RA, all that is archived; the state of the query is exchanged between two batches",
}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RevisedSource:
    """What a correction of one source leads to; in `explain_json` these are the keys.

    Attributes:
        source: Its name.
        way: How a correction is applied.
        reason: Why.
        reach: Which answers it can change, and which input that takes, in words.
        strategy: What is replayed with `replay='auto'`; None where nothing can be.
        restricted: By source, the columns in which replayed rows have a value of the correction.
        archives: By source that is replayed, where its rows are read again.
        warnings: By source, why its archive may be too short.
    """

    source: str
    way: Way
    reason: str
    reach: str
    strategy: str | None
    restricted: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    archives: Mapping[str, str] = field(default_factory=dict)
    warnings: Mapping[str, str] = field(default_factory=dict)

    def text(self) -> str:
        """For people."""
        lines = [f"{self.source}: {self.way}, {self.reason}"]
        if self.strategy is not None:
            lines += [f"  {self.reach}", f"  replays {_STRATEGIES[self.strategy]}"]
        if self.restricted:
            columns = [f"{name}.{each}" for name, own in self.restricted.items() for each in own]
            lines.append(f"  reads only rows with the values of the correction in {_list(columns)}")
        lines += [f"  archive of {name}: {words}" for name, words in self.archives.items()]
        lines += [f"  WARNING: {problem}" for problem in self.warnings.values()]
        return "\n".join(lines)


def revised_sources(
    node: Node, plan: PhysicalPlan, sources: Mapping[str, Any]
) -> tuple[RevisedSource, ...]:
    """Of each source with LATE REVISE that a query reads, what its corrections lead to.

    Args:
        node: The plan that runs.
        plan: Its stages.
        sources: Files and DataFrames that are read as streams, by the names of the leaves.
    """
    names = dict.fromkeys(each.name for each in node.walk() if isinstance(each, Source))
    revised = [name for name in names if _late(sources.get(name)) == "revise"]
    own = {name: sources.get(name) for name in names}
    return tuple(_revised(node, plan, name, own) for name in revised)


def _revised(
    node: Node, plan: PhysicalPlan, source: str, sources: Mapping[str, Any]
) -> RevisedSource:
    found = way_of_change(node, source)
    reach = reach_of_instant(node, source)
    words = describe_reach(node, source, clock_of(node))
    if found.way == "refused":
        return RevisedSource(
            source=source, way=found.way, reason=found.reason, reach=words, strategy=None
        )
    is_direct = found.way == "direct"
    is_bounded = any(width < FOREVER for width in reach.widths.values())
    pairs = restricting_columns([node], source) if is_direct else {}
    streams = {name: each for name, each in sources.items() if _late(each) is not None}
    return RevisedSource(
        source=source,
        way=found.way,
        reason=found.reason,
        reach=words,
        strategy=("RW" if is_bounded else "RA") if is_direct else "swap",
        restricted={
            name: columns
            for name, own in pairs.items()
            if name in streams and (columns := _read_columns(plan, name, own))
        },
        archives={name: _archive(each) for name, each in streams.items()},
        warnings={
            name: problem
            for name, each in streams.items()
            if (problem := _too_short(name, each, reach, is_direct=is_direct)) is not None
        },
    )


def _read_columns(
    plan: PhysicalPlan, source: str, pairs: Sequence[tuple[str, str]]
) -> tuple[str, ...]:
    """Those of the columns that somebody reads; others are not there when rows are replayed."""
    edges = [edge for stage in plan.stages for edge in stage.edges]
    read = [edge.columns for edge in edges if edge.upstream == Address.source(source)]
    names = dict.fromkeys(column for column, _ in pairs)
    return tuple(each for each in names if any(own is None or each in own for own in read))


def _too_short(name: str, source: Any, reach: InstantReach, *, is_direct: bool) -> str | None:
    """Why an archive may not have what a correction needs."""
    spec: ArchiveSpec = source.archive or ArchiveSpec()
    width = reach.widths.get(name, 0) if is_direct else int(FOREVER)
    clock = source.promise.clock
    kept = []
    if spec.keep_age is not None and spec.keep_age < width:
        kept.append(f"KEEP {clock.format_duration(spec.keep_age)}")
    if spec.keep_rows is not None and width == FOREVER:
        kept.append(f"KEEP {spec.keep_rows} rows")
    if not kept:
        return None
    wanted = f"all of {name}" if width == FOREVER else about(width, clock)
    return f"{' and '.join(kept)} of {name} is shorter than what a revision needs: {wanted}"


def _archive(source: Any) -> str:
    """Where rows are read again: in the files of the source, or in a copy."""
    spec: ArchiveSpec = source.archive or ArchiveSpec()
    stays = isinstance(source, FileSource) or not source.frame.isStreaming
    kind = "by reference, index" if stays and spec.path is None else "copied,"
    return f"{kind} {spec.label(source.promise.clock)}"


def _late(source: Any) -> str | None:
    """What becomes of late rows of a stream; None of a table, which is looked up in."""
    return None if source is None else str(source.promise.late)


def _list(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
