"""What a batch did, added up over shards, and what all batches of a run did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, final

from anabranch.kernels.contract.command import Command
from anabranch.model.record import OMITTED
from anabranch.model.time import BEGINNING
from anabranch.runtime.messages.counters import CopyCounters, SourceCounters, StageCounters
from anabranch.runtime.sinks.sinks import ShardResult

RanIn = Literal["driver", "tasks"]
"""Where a batch was computed: in the driver itself, or by tasks of Spark."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class StageMetrics:
    """What all shards of a stage did in a batch.

    `seconds` are those of the slowest shard, `reports` what its operators noticed, shard by shard.
    """

    rows_in: int = 0
    rows_out: int = 0
    state_rows: int = 0
    state_bytes: int = 0
    state_runs: int = 0
    seconds: Mapping[str, float] = field(default_factory=dict)
    reports: tuple[Mapping[str, object], ...] = field(default=(), metadata=OMITTED)

    def plus(self, shard: StageCounters) -> StageMetrics:
        """The same with one more shard."""
        steps = {**self.seconds, **shard.seconds}
        report: tuple[Mapping[str, object], ...] = ()
        if shard.report:
            report = ({"shard": shard.shard, **shard.report},)
        return StageMetrics(
            rows_in=self.rows_in + shard.rows_in,
            rows_out=self.rows_out + shard.rows_out,
            state_rows=self.state_rows + shard.state_rows,
            state_bytes=self.state_bytes + shard.state_bytes,
            state_runs=self.state_runs + shard.state_runs,
            seconds={
                step: max(self.seconds.get(step, 0.0), shard.seconds.get(step, 0.0))
                for step in steps
            },
            reports=self.reports + report,
        )


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class BatchMetrics:
    """What `Run.metrics` tells of a batch; users know these names as keys.

    Attributes:
        batch: Its number.
        stable: The stable point of the output.
        rows_in: The rows of all sources.
        rows_out: The rows of the output.
        late: How many rows were dropped because they were late.
        adjusted: How many rows were cut to what was not settled yet.
        revised: How many rows came late and become revisions.
        lag: How far the output is behind the most advanced source; None while nobody knows.
        sources: The counters of each source.
        stages: What each stage did.
        failed_windows: For how many windows user operators gave no results.
        control: The commands that took effect.
        rewritten: Of how many files it was noticed that they were written again.
        ran: Where it was computed.
    """

    batch: int
    stable: int
    rows_in: int
    rows_out: int
    late: int
    adjusted: int
    lag: int | None
    sources: Mapping[str, SourceCounters]
    stages: Mapping[str, StageMetrics]
    failed_windows: int
    control: tuple[Command, ...]
    revised: int = field(default=0, metadata=OMITTED)
    rewritten: int = field(default=0, metadata=OMITTED)
    ran: RanIn = "tasks"


def batch_metrics(
    batch: int, results: Sequence[ShardResult], output: int = 0, *, ran: RanIn = "tasks"
) -> BatchMetrics:
    """The counters of all stages and sources in one batch, and of one output."""
    counted = {
        (each.stage, each.shard): each for result in results for each in result.head.counters
    }
    stages: dict[str, StageMetrics] = {}
    sources: dict[str, SourceCounters] = {}
    for (name, _), each in sorted(counted.items()):
        stages[name] = stages.get(name, StageMetrics()).plus(each)
        sources.update(each.sources)
    own = [result.head for result in results if result.head.output == output]
    stable = min(head.stable for head in own)
    return BatchMetrics(
        batch=batch,
        stable=stable,
        rows_in=sum(each.rows for each in sources.values()),
        rows_out=sum(head.own.rows_out for head in own),
        late=sum(each.late for each in sources.values()),
        adjusted=sum(each.adjusted for each in sources.values()),
        lag=_lag(sources, stable),
        sources=sources,
        stages=stages,
        failed_windows=sum(each.failed_windows for each in counted.values()),
        control=next((each.control for each in counted.values() if each.control), ()),
        revised=sum(each.revised for each in sources.values()),
        rewritten=sum(len(each.rewritten) for each in sources.values()),
        ran=ran,
    )


def _lag(sources: Mapping[str, SourceCounters], stable: int) -> int | None:
    """How far the output's stable point is behind that of the most advanced source."""
    ahead = [each.reached for each in sources.values() if each.reached > BEGINNING]
    return max(ahead) - stable if ahead and stable > BEGINNING else None


@final
@dataclass(frozen=True, slots=True)
class RowTotals:
    """What came of a source, or of a copy of one, in all batches of a run.

    `rewritten` counts its files that were written again after they were read.
    """

    rows: int = 0
    late: int = 0
    adjusted: int = 0
    revised: int = field(default=0, metadata=OMITTED)
    rewritten: int = field(default=0, metadata=OMITTED)

    def plus(self, seen: SourceCounters | CopyCounters | RowTotals) -> RowTotals:
        """The same with what else came."""
        revised = 0 if isinstance(seen, CopyCounters) else seen.revised
        return RowTotals(
            self.rows + seen.rows,
            self.late + seen.late,
            self.adjusted + seen.adjusted,
            self.revised + revised,
            self.rewritten + (len(seen.rewritten) if isinstance(seen, SourceCounters) else 0),
        )


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RunTotals:
    """What all batches of a run did; `copies` is by source and name."""

    batches: int = 0
    rows_out: int = 0
    failed_windows: int = 0
    sources: Mapping[str, RowTotals] = field(default_factory=dict)
    copies: Mapping[str, Mapping[str, RowTotals]] = field(default_factory=dict)

    def plus(self, batch: BatchMetrics) -> RunTotals:
        """The same with one more batch."""
        sources = dict(self.sources)
        copies = {name: dict(several) for name, several in self.copies.items()}
        for name, seen in batch.sources.items():
            sources[name] = sources.get(name, RowTotals()).plus(seen)
            for called, own in (seen.copies or {}).items():
                several = copies.setdefault(name, {})
                several[called] = several.get(called, RowTotals()).plus(own)
        return RunTotals(
            batches=self.batches + 1,
            rows_out=self.rows_out + batch.rows_out,
            failed_windows=self.failed_windows + batch.failed_windows,
            sources=sources,
            copies=copies,
        )
