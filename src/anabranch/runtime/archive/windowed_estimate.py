"""How large a count, a sum or a mean over a window is, if of some rows only summaries are known.

A window covers some buckets of a summary wholly: these are exact. It may cut one at each end. Of
the rows of a cut bucket it is only known that some of them, none to all, are inside, and that each
value lies between the least and the greatest one. The estimate takes as many as the window covers
of the bucket; the bounds take the worst case. Where size and slide are multiples of the bucket
nothing is cut. Rows that are known are exact in any case.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Final, final

from anabranch.algebra.aggregate import Aggregation
from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import UNBOUNDED, TimeWindow
from anabranch.errors import PlanError
from anabranch.model.record import OMITTED
from anabranch.runtime.archive.summary import ROUNDING, ArchiveSummary, SummaryBucket

_FUNCTIONS: Final = ("count", "sum", "avg")
_HINT: Final = (
    "estimates are for SELECT keys, COUNT(*) or SUM(x) or AVG(x) FROM stream WINDOW(RANGE ... "
    "SLIDE ...) GROUP BY keys, over columns of the stream"
)


@final
@dataclass(frozen=True, slots=True)
class BoundedEstimate:
    """A value, and between which bounds the exact one surely lies."""

    value: float
    low: float
    high: float


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class EstimatedAnswer:
    """An answer that a correction changes: what it was, and what it should be.

    Attributes:
        group: The values of its group, as text where JSON has no such value.
        start: From which instant on it holds.
        end: Until when.
        before: The answer without the correction: estimate, least and greatest value that it may
            have; None where there is none.
        after: The answer with the correction.
    """

    group: tuple[object, ...]
    start: int
    end: int
    before: tuple[float, float, float] | None = field(default=None, metadata=OMITTED)
    after: tuple[float, float, float] | None = field(default=None, metadata=OMITTED)

    @property
    def bound(self) -> float:
        """By how much the estimates are off at most."""
        both = [each for each in (self.before, self.after) if each is not None]
        return max((max(high - value, value - low) for value, low, high in both), default=0.0)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class WindowedSum:
    """What an estimate is about.

    Attributes:
        source: The name of the stream.
        function: `count`, `sum` or `avg`.
        column: The column that is added up; empty where rows are counted.
        by: The columns of the stream that are grouped by.
        named: What the query calls them.
        size: How long a window is.
        slide: How often there is one.
    """

    source: str
    function: str
    column: str
    by: tuple[str, ...]
    named: tuple[str, ...]
    size: int
    slide: int

    def ends(self, instant: int) -> range:
        """The ends of the windows that a row at an instant is in."""
        first = (instant // self.slide + 1) * self.slide
        return range(first, instant + self.size + 1, self.slide)

    def has(self, end: int, instant: int) -> bool:
        """Whether the window with this end has an instant."""
        return end - self.size <= instant < end


@final
@dataclass(frozen=True, slots=True)
class KnownRow:
    """A row of which everything is known: one that is there (`sign` 1) or is withdrawn (-1)."""

    group: tuple[Any, ...]
    value: float
    instant: int
    sign: int


def estimated(
    asked: WindowedSum,
    summary: ArchiveSummary | None,
    group: Sequence[Any],
    end: int,
    rows: Iterable[KnownRow],
) -> BoundedEstimate | None:
    """The answer of a window, from a summary and some rows of its group that are known.

    A withdrawn row is one of those that were summed up.
    """
    start = end - asked.size
    whole: list[SummaryBucket] = []
    cut: list[tuple[SummaryBucket, float]] = []
    width = 1 if summary is None else summary.width
    buckets = [] if summary is None else summary.buckets(group, start - width + 1, end)
    for bucket in buckets:
        inside = min(end, bucket.start + width) - max(start, bucket.start)
        if inside == width:
            whole.append(bucket)
        else:
            cut.append((bucket, inside / width))
    count = sum(bucket.rows for bucket in whole)
    total = sum(bucket.total for bucket in whole)
    slack = sum(bucket.rounding for bucket in whole)
    for row in rows:
        unknown = [
            at for at, (bucket, _) in enumerate(cut) if 0 <= row.instant - bucket.start < width
        ]
        if row.sign < 0 and unknown:
            # It was one of the rows of which nobody knows whether they are inside.
            bucket, share = cut[unknown[0]]
            cut[unknown[0]] = (bucket.without(row.value), share)
        else:
            count, total = count + row.sign, total + row.sign * row.value
            slack += ROUNDING * abs(total)
    return _estimate(asked.function, count, total, slack, cut)


def _estimate(
    function: str,
    count: int,
    total: float,
    slack: float,
    cut: Sequence[tuple[SummaryBucket, float]],
) -> BoundedEstimate | None:
    """The answer for rows that are inside, and buckets of which a share is.

    None where there is surely no row, or where it is more likely that there is none.
    """
    cut = [(bucket, share) for bucket, share in cut if bucket.rows > 0]
    rows = count + sum(share * bucket.rows for bucket, share in cut)
    most = count + sum(bucket.rows for bucket, _ in cut)
    if most <= 0:
        return None
    value = total + sum(share * bucket.total for bucket, share in cut)
    slack += sum(bucket.rounding for bucket, _ in cut)
    match function:
        case "count":
            return BoundedEstimate(rows, max(count, 0), most)
        case "sum":
            parts = [_part(bucket) for bucket, _ in cut]
            low = total + sum(least for least, _ in parts) - slack
            return BoundedEstimate(
                value, low, total + sum(greatest for _, greatest in parts) + slack
            )
        case _:
            # Linear over linear in how many rows of each cut bucket are inside: extremes are where
            # all of a bucket are, or none.
            lows, highs = [], []
            for chosen in product(*(((0, bucket), (bucket.rows, bucket)) for bucket, _ in cut)):
                number = count + sum(taken for taken, _ in chosen)
                if number > 0:
                    lows.append((total + sum(n * each.low for n, each in chosen)) / number)
                    highs.append((total + sum(n * each.high for n, each in chosen)) / number)
            off = slack / max(count, 1)
            return BoundedEstimate(value / rows, min(lows) - off, max(highs) + off)


def _part(bucket: SummaryBucket) -> tuple[float, float]:
    """Between which bounds the sum of some rows of a bucket lies, none of them to all of them.

    Of k rows it is at least k * low, and at least what the others, at most high each, leave of the
    total: the greater of both, which is least where they meet or at an end. With high and low
    exchanged it is the other bound.
    """

    def extreme(own: float, other: float) -> list[float]:
        spread = bucket.high - bucket.low
        meet = bucket.rows * (other - bucket.total / bucket.rows) / (other - own) if spread else 0
        chosen = min(max(meet, 0), bucket.rows)
        return [chosen * own, 0.0, bucket.total]

    return min(extreme(bucket.low, bucket.high)), max(extreme(bucket.high, bucket.low))


def windowed_sum(node: Node) -> WindowedSum:
    """What a plan computes, as far as estimates go.

    Raises:
        PlanError: It is not a sum of a window.
    """
    named: dict[str, str] = {}
    while isinstance(node, Map):
        if not all(each.is_column for _, each in node.columns):
            raise _other(f"'{node.label}' computes something from the answers")
        outer = named
        named = {
            str(e.is_column): outer.get(n, n) for n, e in node.columns if n in outer or not outer
        }
        node = node.input
    if not isinstance(node, Aggregation) or len(node.aggregates) != 1:
        raise _other(f"'{node.label}' is not one aggregate")
    ((_, call),) = node.aggregates
    if call.function not in _FUNCTIONS or call.distinct:
        raise _other(f"{call.label} is not COUNT, SUM or AVG")
    columns = [key.is_column for _, key in node.group_by]
    argument = "" if call.argument is None else call.argument.is_column
    if argument is None or None in columns:
        raise _other(f"'{node.label}' computes something from the rows")
    window = node.input
    while isinstance(window, Map) and all(e.is_column == name for name, e in window.columns):
        window = window.input
    if not isinstance(window, TimeWindow) or window.columns or window.size == UNBOUNDED:
        raise _other(f"'{window.label}' is not a window of time")
    over = window.input
    while isinstance(over, Map) and all(e.is_column == name for name, e in over.columns):
        over = over.input
    if not isinstance(over, Source) or not over.properties.only_points:
        raise _other(f"'{over.label}' is not a stream of points")
    return WindowedSum(
        source=over.name,
        function=call.function,
        column=argument,
        by=tuple(str(each) for each in columns),
        named=tuple(named.get(name, name) for name, _ in node.group_by),
        size=int(window.size),
        slide=int(window.slide),
    )


def _other(what: str) -> PlanError:
    return PlanError("the answers of this query cannot be estimated", where=what, hint=_HINT)
