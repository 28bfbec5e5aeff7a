"""What operators and sources are measured by in a batch: rows, seconds, times, values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import ClassVar, final

from anabranch.model.record import OMITTED


@final
@dataclass(frozen=True, slots=True)
class OperatorCounters:
    """What one operator did in a batch, in one shard or in one task before the exchange.

    Attributes:
        rows: How many rows it handed on.
        seconds: How long that took.
        state_rows: How many rows it remembers.
        keys: How many different keys its input has, as a sample tells.
    """

    row: ClassVar[bool] = True

    rows: int = 0
    seconds: float = 0.0
    state_rows: int = field(default=0, metadata=OMITTED)
    keys: float = field(default=0.0, metadata=OMITTED)

    def plus(self, other: OperatorCounters) -> OperatorCounters:
        """Both together; shards have different keys."""
        return OperatorCounters(
            self.rows + other.rows,
            self.seconds + other.seconds,
            self.state_rows + other.state_rows,
            self.keys + other.keys,
        )


def added(
    one: Sequence[OperatorCounters], other: Sequence[OperatorCounters]
) -> tuple[OperatorCounters, ...]:
    """Operator by operator; whoever had nothing to do says nothing."""
    both = zip_longest(one, other, fillvalue=OperatorCounters())
    return tuple(mine.plus(theirs) for mine, theirs in both)


@final
@dataclass(frozen=True, slots=True)
class EdgeCounters:
    """What came through an edge of a stage: the rows at its beginning, and behind each step."""

    row: ClassVar[bool] = True

    rows: int = 0
    steps: tuple[OperatorCounters, ...] = ()

    @property
    def arrived(self) -> int:
        """The rows that reached the stage, before they were prepared for the exchange."""
        return self.steps[-1].rows if self.steps else self.rows

    def plus(self, other: EdgeCounters) -> EdgeCounters:
        """What two senders sent."""
        return EdgeCounters(self.rows + other.rows, added(self.steps, other.steps))


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSample:
    """What the rows of a source are like, as a task has read them.

    Attributes:
        rows: How many events began.
        first: The least start.
        last: The greatest start.
        lifetimes: The sum of their lifetimes, without those that have no end.
        finite: How many have an end.
        values: Of some columns, how many different values there are, as a sample tells.
    """

    rows: int
    first: int
    last: int
    lifetimes: float = field(default=0.0, metadata=OMITTED)
    finite: int = field(default=0, metadata=OMITTED)
    values: Mapping[str, float] = field(default_factory=dict, metadata=OMITTED)


def together(samples: Iterable[SourceSample | None]) -> SourceSample | None:
    """What several tasks have read; each guesses the values, and large tasks guess better."""
    every = [each for each in samples if each is not None and each.rows]
    if len(every) < 2:
        return every[0] if every else None
    rows = sum(each.rows for each in every)
    names = dict.fromkeys(name for each in every for name in each.values)
    return SourceSample(
        rows=rows,
        first=min(each.first for each in every),
        last=max(each.last for each in every),
        lifetimes=sum(each.lifetimes for each in every),
        finite=sum(each.finite for each in every),
        values={
            name: sum(each.values.get(name, 0.0) * each.rows for each in every) / rows
            for name in names
        },
    )
