"""Estimates of corrections whose input is no longer archived.

What the archive has lost was summed up when it was cut, per group and bucket of time. So the
answers that a correction changes can be told before and after it, between bounds that hold, though
they cannot be replayed. They are noted with the correction; the output stays as it is, for it has
exact answers only.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.algebra.node import Node
from anabranch.errors import PlanError
from anabranch.model.batch import EventBatch
from anabranch.model.time import Time
from anabranch.runtime.archive.archive import Archive
from anabranch.runtime.archive.cut_summary import SummaryAbout
from anabranch.runtime.archive.narrowing import Wanted
from anabranch.runtime.archive.windowed_estimate import (
    BoundedEstimate,
    EstimatedAnswer,
    KnownRow,
    WindowedSum,
    estimated,
    windowed_sum,
)

ESTIMATES_IN_RECORD: Final = 100
"""Of so many answers a record has the estimates; of more it has those with the widest bounds."""

_Key: TypeAlias = tuple[tuple[Any, ...], float, int]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionEstimator:
    """Estimates what corrections of a source change in the answers of one query."""

    asked: WindowedSum
    about: SummaryAbout

    @staticmethod
    def of(nodes: Sequence[Node], width: int) -> RevisionEstimator:
        """For a query with this plan, with buckets of so many chronons.

        Raises:
            PlanError: Its answers cannot be estimated.
        """
        if len(nodes) != 1:
            raise PlanError(
                "estimates are for one query at a time",
                where=f"{len(nodes)} queries are started together",
                hint="start the query to be estimated by itself, or leave estimate out",
            )
        asked = windowed_sum(nodes[0])
        is_counted = asked.function == "count"
        about = SummaryAbout(
            by=asked.by,
            column=asked.column,
            width=width,
            is_counted=is_counted and bool(asked.column),
        )
        return RevisionEstimator(asked=asked, about=about)

    def estimates(
        self, archive: Archive, late: EventBatch, batch: int, bound: int
    ) -> list[EstimatedAnswer]:
        """The settled answers that late rows change.

        Args:
            archive: What came, and what is known of what it no longer has.
            late: The late rows of a batch, as changes of snapshots.
            batch: That batch; later ones do not count.
            bound: Answers from this instant on are corrected by the running query.
        """
        asked = self.asked
        cut = archive.index.cut()
        summary = archive.summaries.read(cut)
        corrections = self._rows([late])
        affected = {
            (group, end)
            for group, _, instant in corrections
            for end in asked.ends(instant)
            if end - 1 < bound
        }
        if not affected:
            return []
        ends = [end for _, end in affected]
        span = Time(min(ends) - asked.size), Time(max(ends))
        own = np.unique(late.start)
        fields = archive.about().payload
        schema = pa.schema([fields.field(name) for name in self.about.columns])
        before = self._rows(archive.summaries.read_rows(cut, batch, schema))
        for number, piece in archive.pieces(span, batch):
            rows = archive.read_piece(piece, span, self.about.columns, self._wanted(late))
            # Late rows of a batch are those at instants that were promised away: no row of the
            # batch at one of them came in time.
            kept = (r.where(~np.isin(r.start, own)) if number == batch else r for r in rows)
            before.update(self._rows(kept))
        after = before.copy()
        for key, sign in corrections.items():
            after[key] += sign
        found = []
        for group, end in sorted(affected, key=lambda each: (each[1], repr(each[0]))):
            answers = [
                _told(estimated(asked, summary, group, end, self._inside(rows, group, end)))
                for rows in (before, after)
            ]
            found.append(
                EstimatedAnswer(
                    group=tuple(map(_plain, group)),
                    start=end - 1,
                    end=min(end - 1 + asked.slide, bound),
                    before=answers[0],
                    after=answers[1],
                )
            )
        return found

    def _wanted(self, late: EventBatch) -> Wanted:
        """The groups that matter, by column; floating-point numbers have no equal values."""
        columns = {name: late.payload.column(name) for name in self.about.by}
        return {
            name: pc.unique(column)
            for name, column in columns.items()
            if pa.types.is_integer(column.type) or pa.types.is_string(column.type)
        }

    def _inside(self, rows: Counter[_Key], group: tuple[Any, ...], end: int) -> Iterable[KnownRow]:
        """The rows of a window that are known, each once per copy."""
        for (own, value, instant), count in rows.items():
            if own == group and self.asked.has(end, instant):
                for _ in range(abs(count)):
                    yield KnownRow(own, value, instant, 1 if count > 0 else -1)

    def _rows(self, batches: Iterable[EventBatch]) -> Counter[_Key]:
        """How often rows are there, less how often they were withdrawn."""
        found: Counter[_Key] = Counter()
        column = self.about.column
        for batch in batches:
            groups = [batch.payload.column(name).to_pylist() for name in self.about.by]
            keys = list(zip(*groups)) if groups else [()] * len(batch)
            values = batch.payload.column(column).to_pylist() if column else [0.0] * len(batch)
            for key, value, low, end, new_end in zip(
                keys, values, np.minimum(batch.end, batch.new_end), batch.end, batch.new_end
            ):
                if value is not None:
                    number = 0.0 if self.about.is_counted else float(value)
                    # Equal points that follow each other may be one stretch of time.
                    for instant in range(int(low), int(max(end, new_end))):
                        found[(key, number, instant)] += 1 if new_end > end else -1
        return found


def _told(estimate: BoundedEstimate | None) -> tuple[float, float, float] | None:
    """An estimate as it is noted; None where numbers have no bound."""
    if estimate is None:
        return None
    found = (estimate.value, estimate.low, estimate.high)
    return found if all(map(math.isfinite, found)) else None


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def widest(found: Sequence[EstimatedAnswer]) -> tuple[EstimatedAnswer, ...]:
    """Those that a record has, in order of time."""
    if len(found) <= ESTIMATES_IN_RECORD:
        return tuple(found)
    chosen = sorted(found, key=lambda each: -each.bound)[:ESTIMATES_IN_RECORD]
    return tuple(sorted(chosen, key=lambda each: (each.start, repr(each.group))))
