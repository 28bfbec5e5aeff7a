"""The plan of a running query, with what was expected and what was measured side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, final

from anabranch.errors import PlanError
from anabranch.model.clock import Clock
from anabranch.model.record import OMITTED
from anabranch.runtime.sources.files.batch_sizing import BatchSize, read_size
from anabranch.runtime.store.folder import Folder
from anabranch.runtime.store.migrations import MigrationFolder, MigrationRecord
from anabranch.runtime.store.query_record import read_query_record
from anabranch.runtime.store.query_statistics import (
    BetterPlan,
    PlanLine,
    QueryStatistics,
    read_statistics,
)

_HEADINGS: Final = ("expected", "measured", "selects", "keys", "state", "ms/batch")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedFigures:
    """What an operator was expected to do when the plan was chosen: rows per chronon, rows held."""

    rate: float
    state_rows: float


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredFigures:
    """What an operator or a source did: rates per chronon, rows and seconds per batch."""

    rate: float | None
    lifetime: float | None = field(default=None, metadata=OMITTED)
    distinct: Mapping[str, float] = field(default_factory=dict, metadata=OMITTED)
    rows_in: tuple[float, ...] = field(default=(), metadata=OMITTED)
    rows_out: float | None = field(default=None, metadata=OMITTED)
    selectivity: float | None = field(default=None, metadata=OMITTED)
    keys: float | None = field(default=None, metadata=OMITTED)
    state_rows: int | None = field(default=None, metadata=OMITTED)
    state_bytes: int | None = field(default=None, metadata=OMITTED)
    seconds: float | None = field(default=None, metadata=OMITTED)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RunningOperator:
    """A line of the plan of a running query; without measurements where none are known."""

    depth: int
    operator: str
    expected: ExpectedFigures
    measured: MeasuredFigures | None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RunningPlans:
    """The plan of each output of a running query, line by line, as of its last batch.

    `in_driver` of all `batches` ran in the driver, without a job of Spark. `change` is the change
    of the query that is in progress, if there is one. `better` are the plans that outputs should
    have, as measured when the query resumed. `size` is how large batches are while the
    query is behind, once that was measured.
    """

    batch: int
    batches: int
    in_driver: int
    chronon: int | None
    plans: tuple[tuple[RunningOperator, ...], ...]
    change: MigrationRecord | None = field(default=None, metadata=OMITTED)
    size: BatchSize | None = field(default=None, metadata=OMITTED)
    better: tuple[BetterPlan, ...] = field(default=(), metadata=OMITTED)


def explain_running(checkpoint: str) -> str:
    """The plans of the query of a checkpoint as text, as measured by now.

    Raises:
        PlanError: There is no query, or it has not measured anything yet.
    """
    change = MigrationFolder.of(checkpoint).unfinished()
    return running_text(_found(checkpoint), change, batch_size(checkpoint))


def running_plans(checkpoint: str) -> RunningPlans:
    """The same for programs."""
    change = MigrationFolder.of(checkpoint).unfinished()
    return plans_as_measured(_found(checkpoint), change, batch_size(checkpoint))


def batch_size(checkpoint: str) -> BatchSize | None:
    """How large the batches of a query are while it is behind; None where nothing was measured."""
    return read_size(Folder.at(f"{checkpoint}/planned"))


def running_text(
    measured: QueryStatistics,
    change: MigrationRecord | None = None,
    size: BatchSize | None = None,
) -> str:
    """A table per output: rows per second, selectivity, keys, state and milliseconds per batch.

    Under `expected` is what the plan was chosen by, in brackets of the state, too.
    """
    clock = Clock(measured.chronon)
    parts = []
    for number, lines in enumerate(measured.plans):
        rows: list[tuple[str, ...]] = [("Plan", *_HEADINGS)]
        rows += [_row(line, measured, clock) for line in lines]
        title = f"Output {number}\n" if len(measured.plans) > 1 else ""
        parts.append(title + _table(rows))
    parts.append(
        f"measured in {measured.batches} batches, the last of them {measured.batch}; "
        "rates and times are averages that fade\n"
        f"{measured.in_driver} of them ran in the driver, {measured.batches - measured.in_driver} "
        "in tasks of Spark" + ("" if size is None else f"\n{size.in_words()}")
    )
    if change is not None:
        parts.append(change.in_words(clock))
    elif measured.better:
        parts.append(_advice(measured))
    return "\n\n".join(parts)


def plans_as_measured(
    measured: QueryStatistics,
    change: MigrationRecord | None = None,
    size: BatchSize | None = None,
) -> RunningPlans:
    """What `running_text` shows, with rates in rows per chronon."""
    return RunningPlans(
        batch=measured.batch,
        batches=measured.batches,
        in_driver=measured.in_driver,
        chronon=measured.chronon,
        plans=tuple(tuple(_entry(line, measured) for line in lines) for lines in measured.plans),
        change=change,
        size=size,
        better=measured.better if change is None else (),
    )


def _advice(measured: QueryStatistics) -> str:
    """Which plans outputs should have, and how they get them."""
    several = len(measured.plans) > 1
    found = [
        f"output {each.output}: {each.reason}" if several else each.reason
        for each in measured.better
    ]
    return "\n".join(
        [
            "as measured when the query resumed:",
            *found,
            "a running query takes it by run.migrate(), or anabranch migrate CHECKPOINT "
            "--reoptimize",
        ]
    )


def _found(checkpoint: str) -> QueryStatistics:
    if read_query_record(checkpoint) is None:
        raise PlanError(
            "there is no query with this checkpoint",
            where=checkpoint,
            hint="pass the folder that the query was started with; `anabranch ps` lists them",
        )
    found = read_statistics(checkpoint)
    if found is None:
        raise PlanError(
            "the query of this checkpoint has not measured anything yet",
            where=checkpoint,
            hint="wait for its first batch with rows, or run it with this version of Anabranch",
        )
    return found


def _entry(line: PlanLine, measured: QueryStatistics) -> RunningOperator:
    return RunningOperator(
        depth=line.depth,
        operator=line.label,
        expected=ExpectedFigures(rate=line.rate, state_rows=line.state),
        measured=_figures(line.signature, measured),
    )


def _figures(signature: str, measured: QueryStatistics) -> MeasuredFigures | None:
    source, own = measured.sources.get(signature), measured.operators.get(signature)
    if source is not None:
        return MeasuredFigures(
            rate=source.rate, lifetime=source.lifetime, distinct=dict(source.values)
        )
    if own is None or not own.batches:
        return None
    return MeasuredFigures(
        rate=own.rate,
        rows_in=tuple(each / own.batches for each in own.rows_in),
        rows_out=own.rows_out / own.batches,
        selectivity=own.ratio if own.share is None else own.share,
        keys=own.keys,
        state_rows=own.state_rows,
        state_bytes=own.state_bytes,
        seconds=own.seconds / own.batches,
    )


def _row(line: PlanLine, measured: QueryStatistics, clock: Clock) -> tuple[str, ...]:
    label = "  " * line.depth + line.label
    expected = clock.format_rate(line.rate)
    own, source = measured.operators.get(line.signature), measured.sources.get(line.signature)
    if source is not None:
        rate = "" if source.rate is None else clock.format_rate(source.rate)
        keys = ", ".join(f"{name} {count:.3g}" for name, count in source.values.items())
        return (label, expected, rate, "", keys, "", "")
    if own is None or not own.batches:
        return (label, expected, "", "", "", "", "")
    share = own.ratio if own.share is None else own.share
    return (
        label,
        expected,
        "" if own.rate is None else clock.format_rate(own.rate),
        "" if share is None else f"{share:.3g}",
        f"{own.keys:.3g}" if own.keys else "",
        f"{own.state_rows} ({line.state:.3g})" if own.state_rows or line.state else "",
        f"{1000 * own.seconds / own.batches:.3g}",
    )


def _table(rows: Sequence[Sequence[str]]) -> str:
    """Columns next to each other: the first to the left, numbers to the right."""
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
    lines = []
    for first, *others in rows:
        cells = [each.rjust(width) for each, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *cells]).rstrip())
    return "\n".join(lines)
