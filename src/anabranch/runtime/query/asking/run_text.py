"""A run in one line, and as a table for a notebook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import pyarrow as pa

from anabranch.display.progress_line import rewritten_text
from anabranch.display.schema_text import columns_text
from anabranch.display.text_table import html_facts
from anabranch.runtime.query.metrics import BatchMetrics, RunTotals


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """What is told of a run; rates are `timed_rows` over `seconds`."""

    name: str
    status: str
    batches: int
    rows_in: int
    rows_out: int
    late: int
    stable: str
    seconds: float
    timed_rows: int
    columns: pa.Schema
    rewritten: int = 0

    @property
    def rate(self) -> str:
        """`1,200 rows/s`; nothing where no time was measured."""
        return f"{self.timed_rows / self.seconds:,.0f} rows/s" if self.seconds > 0 else ""

    @property
    def progress(self) -> str:
        """`3 batches, 340 rows read (1,200 rows/s), 85 written, stable point 12`."""
        rate = f" ({self.rate})" if self.rate else ""
        late = f", {self.late:,} late" if self.late else ""
        batches = f"{self.batches:,} batch{'' if self.batches == 1 else 'es'}"
        read = f"{self.rows_in:,} row{'' if self.rows_in == 1 else 's'} read{rate}"
        again = f", {rewritten_text(self.rewritten)}" if self.rewritten else ""
        return f"{batches}, {read}{late}{again}, {self.rows_out:,} written, {self.stable}"

    @property
    def line(self) -> str:
        """The run in one line."""
        return f"<Run {self.name + ': ' if self.name else ''}{self.status}; {self.progress}>"

    @property
    def html(self) -> str:
        """The run as a table."""
        facts = [
            ("state", self.status),
            ("batches", f"{self.batches:,}"),
            ("rows read", f"{self.rows_in:,}{f', {self.late:,} late' if self.late else ''}"),
            ("rate", self.rate or "not measured"),
            ("elements written", f"{self.rows_out:,}"),
            ("final", self.stable),
            ("columns", columns_text(self.columns)),
        ]
        if self.rewritten:
            facts.insert(3, ("sources", rewritten_text(self.rewritten)))
        return html_facts(f"Run {self.name}".strip(), facts)


def facts_of_run(
    name: str,
    status: str,
    totals: RunTotals,
    recent: Sequence[BatchMetrics],
    spent: Sequence[Mapping[str, int]],
    stable: str,
    columns: pa.Schema,
) -> RunFacts:
    """The facts of a run on Spark; its rate is that of recent batches, by what Spark measured."""
    timed = [
        (batch.rows_in, each["triggerExecution"])
        for batch, each in zip(recent, spent, strict=True)
        if each.get("triggerExecution")
    ]
    return RunFacts(
        name=name,
        status=status,
        batches=totals.batches,
        rows_in=sum(each.rows for each in totals.sources.values()),
        rows_out=totals.rows_out,
        late=sum(each.late for each in totals.sources.values()),
        stable=stable,
        seconds=sum(milliseconds for _, milliseconds in timed) / 1000,
        timed_rows=sum(rows for rows, _ in timed),
        columns=columns,
        rewritten=sum(each.rewritten for each in totals.sources.values()),
    )
