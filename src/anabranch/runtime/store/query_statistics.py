"""What was measured of a running query, in its checkpoint: the file `statistics.json`.

Operators are known by the fingerprint of what they compute from what, so a measurement outlives a
change of the plan around it. Sums fade: each batch counts (1 - smoothing) times as much as the next
one, so that a sum over a sum is an average of the last batches.

The file serves planning and people, never the answer: one that is damaged or of a later version
is as good as none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar, final

from anabranch.errors import EngineError
from anabranch.model.record import OMITTED, plain, record
from anabranch.optimizer.statistics import PlanStatistics, SourceStatistics
from anabranch.runtime.store.folder import Folder

FORMAT: Final = 1

STATISTICS: Final = "statistics.json"
PRICED_WITH: Final = "priced_with.json"
"""The statistics that the plan of the query was chosen by, when it began."""

FileT = TypeVar("FileT")

MOST_OPERATORS: Final = 1000
"""Of more operators, those go first that have not run for longest."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRecord:
    """What was measured of a source; rows, span and lifetimes fade.

    Attributes:
        rows: How many events began.
        span: In how many chronons of its time.
        lifetimes: The sum of their lifetimes, without those that have no end.
        finite: How many had an end.
        values: Of some columns, how many different values a batch has.
        last: The greatest start.
        elapsed: How many chronons have been measured since the query began; it does not fade.
    """

    rows: float = 0.0
    span: float = 0.0
    lifetimes: float = 0.0
    finite: float = 0.0
    values: Mapping[str, float] = field(default_factory=dict)
    last: int | None = None
    elapsed: float = 0.0

    @property
    def rate(self) -> float | None:
        """Events per chronon; None while time has not gone on."""
        return self.rows / self.span if self.span > 0 and self.rows > 0 else None

    @property
    def lifetime(self) -> float | None:
        """How long an event holds; None where most hold for ever."""
        mostly = self.finite > self.rows / 2
        return self.lifetimes / self.finite if mostly and self.finite else None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorRecord:
    """What was measured of an operator; rows, span, seconds and batches fade.

    Attributes:
        label: What people know it by.
        rows_in: How many rows came, side by side.
        rows_out: How many rows it handed on.
        span: In how many chronons of the time of its sources.
        seconds: How long it worked, in all shards.
        batches: In how many batches.
        state_rows: How many rows it remembers now.
        state_bytes: In how many bytes of files, about.
        keys: How many different keys a batch has.
        batch: The last batch that it was part of.
        condition: What its condition is called in other plans, where it has one.
        share: The part of rows, or of pairs that hold together, which satisfied that.
    """

    label: str
    rows_in: tuple[float, ...] = (0.0,)
    rows_out: float = 0.0
    span: float = 0.0
    seconds: float = 0.0
    batches: float = 0.0
    state_rows: int = 0
    state_bytes: int = 0
    keys: float = 0.0
    batch: int = 0
    condition: str | None = field(default=None, metadata=OMITTED)
    share: float | None = field(default=None, metadata=OMITTED)

    @property
    def ratio(self) -> float | None:
        """Rows out per row in; None where too few rows came to tell."""
        came = sum(self.rows_in)
        return self.rows_out / came if came > 0 else None

    @property
    def rate(self) -> float | None:
        """Rows out per chronon; None while time has not gone on."""
        return self.rows_out / self.span if self.span > 0 else None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PlanLine:
    """An operator of the plan that runs, as `explain` shows it.

    Attributes:
        depth: How far below the root it is.
        label: What people know it by.
        signature: What its measurements are kept by; of a source its name.
        rate: How many rows per chronon were expected of it when the plan was chosen.
        state: How many rows it was expected to hold.
    """

    depth: int
    label: str
    signature: str
    rate: float
    state: float


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class BetterPlan:
    """Another plan that an output should have, as measured when its query resumed.

    Attributes:
        output: The number of the output.
        gain: How many times as much the plan costs that runs, as estimated.
        reason: The same in words.
    """

    output: int
    gain: float
    reason: str


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class QueryStatistics:
    """Everything that was measured of a query.

    Attributes:
        format: The version of the file.
        batch: The last batch that was measured.
        batches: How many batches were measured since the query began.
        in_driver: How many of them ran in the driver, without a job of Spark.
        sources: By name.
        operators: By the fingerprint of an operator with all below it.
        plans: The plan of each output, line by line.
        chronon: The microseconds of one chronon; None where nobody knows.
        better: What was found when the query resumed: plans that outputs should have.
    """

    format: int = FORMAT
    batch: int = -1
    batches: int = 0
    in_driver: int = 0
    sources: Mapping[str, SourceRecord] = field(default_factory=dict)
    operators: Mapping[str, OperatorRecord] = field(default_factory=dict)
    plans: tuple[tuple[PlanLine, ...], ...] = ()
    chronon: int | None = None
    better: tuple[BetterPlan, ...] = field(default=(), metadata=OMITTED)

    def for_plans(self, least_rows: float = 100.0) -> PlanStatistics:
        """What plans of this query are priced by; of too few rows nothing follows."""
        operators = self.operators.values()
        newest = sorted(operators, key=lambda each: each.batch)
        return PlanStatistics(
            sources={
                name: SourceStatistics(
                    rate=each.rate, lifetime=each.lifetime, distinct=dict(each.values)
                )
                for name, each in self.sources.items()
                if each.rows >= least_rows
            },
            shares={
                each.condition: each.share
                for each in newest
                if each.condition is not None
                and each.share is not None
                and sum(each.rows_in) >= least_rows
            },
            ratios={
                signature: each.ratio
                for signature, each in self.operators.items()
                if each.ratio and sum(each.rows_in) >= least_rows
            },
        )


def read_statistics(checkpoint: str) -> QueryStatistics | None:
    """What was measured of the query of a checkpoint; None where nothing can be read."""
    return _read(Folder.at(checkpoint), STATISTICS, QueryStatistics)


def write_statistics(checkpoint: str, measured: QueryStatistics) -> None:
    """Keep what was measured; the file appears whole or stays as it was."""
    Folder.at(checkpoint).write_json(STATISTICS, plain(measured))


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PricedWith:
    """What a plan was chosen by: how its sources and operators were expected to be."""

    format: int = FORMAT
    sources: Mapping[str, SourceStatistics] = field(default_factory=dict)
    shares: Mapping[str, float] = field(default_factory=dict, metadata=OMITTED)
    ratios: Mapping[str, float] = field(default_factory=dict, metadata=OMITTED)

    @staticmethod
    def of(statistics: PlanStatistics) -> PricedWith:
        """These statistics, to be kept."""
        return PricedWith(
            sources=statistics.sources, shares=statistics.shares, ratios=statistics.ratios
        )

    @property
    def statistics(self) -> PlanStatistics:
        """What was kept."""
        return PlanStatistics(sources=self.sources, shares=self.shares, ratios=self.ratios)


def read_priced_with(checkpoint: str) -> PlanStatistics | None:
    """The statistics by which the plan of a checkpoint was chosen; None where there are none."""
    found = _read(Folder.at(checkpoint), PRICED_WITH, PricedWith)
    return None if found is None else found.statistics


def write_priced_with(checkpoint: str, statistics: PlanStatistics) -> None:
    """Keep what the plan was chosen by, so that the query gets the same plan when it resumes."""
    Folder.at(checkpoint).write_json(PRICED_WITH, plain(PricedWith.of(statistics)))


def keep_priced_with(checkpoint: str, now: PlanStatistics, *, begins: bool) -> None:
    """Keep what the plan of a query is chosen by that begins, or gets more sources at a start."""
    known = None if begins else read_priced_with(checkpoint)
    if known is None:
        write_priced_with(checkpoint, now)
    elif not now.sources.keys() <= known.sources.keys():
        write_priced_with(checkpoint, replace(known, sources={**now.sources, **known.sources}))


def read_expected(folder: Folder, name: str) -> PlanStatistics | None:
    """The statistics by which the plan of a changed query was chosen; None where it is damaged."""
    found = _read(folder, name, PricedWith)
    return None if found is None else found.statistics


def _read(folder: Folder, name: str, kind: type[FileT]) -> FileT | None:
    try:
        content = folder.read_json(name)
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            return None
        return record(kind, content, where=f"{folder.path}/{name}")
    except EngineError:
        return None
