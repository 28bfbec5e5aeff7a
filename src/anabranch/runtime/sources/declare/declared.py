"""Declarations of users about a stream, checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, final, get_args

import pyarrow as pa

from anabranch.algebra.source import Source
from anabranch.errors import PlanError, QueryError
from anabranch.model.clock import Clock
from anabranch.model.time import FOREVER, Duration
from anabranch.runtime.sources.archive_bounds import EVERYTHING, Keep, archive_folder, lies_in
from anabranch.runtime.sources.expectations import rate_per_chronon
from anabranch.runtime.sources.options import SourceKind, refuse_misplaced
from anabranch.runtime.sources.spec import (
    ARRIVAL,
    USUAL,
    ArchiveSpec,
    LatePolicy,
    Limits,
    Promise,
    Shape,
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """What the user says about a stream.

    Attributes:
        name: The name of the source.
        start: The column with the start, or ARRIVAL; None if rows are elements.
        end: The column with the end; None if rows are points.
        kind: The column with the kind of element.
        schema: The payload columns.
        delay: How late rows may be.
        late: What happens to those that are later.
        archive: The folder in which its rows are kept to be read again; None: with `keep`, or if
            late rows are revised, it is in the checkpoint, else there is none.
        keep: How much the archive keeps.
        heartbeat: How long it may be silent before its time goes on with the clock.
        chronon: How many microseconds one step of its time is.
        ends: Whether what is there now is all.
        limits: How much of it goes into one batch.
        relation: Whether it is a table that is all there: without a start its rows hold always.
        hides_times: Whether the columns of time are not part of the payload.
        unique: Sets of columns in which no two rows ever agree.
        rate: How many rows are expected to come, as it was written; None: nobody knows.
        distinct: How many different values columns are expected to have.
        ordered: Whether rows come in order of their starts; those that do not are late. Elements
            in order are inserts and stable points only. `ties`: rows of one start are in the same
            order in every copy of the stream, too.
        keyed: Whether no two events have the same payload and start.
        may_be_stamped: Whether rows that are no elements, and have no start, get the time of their
            arrival.
        copies: Whether everything that matches the path is a copy of one stream.
        given: The options that somebody has set, by name.
    """

    name: str
    start: str | None = None
    end: str | None = None
    kind: str | None = None
    schema: pa.Schema | None = None
    delay: Any = None
    late: LatePolicy = "drop"
    archive: str | None = None
    keep: Keep = EVERYTHING
    heartbeat: Any = None
    chronon: Duration | None = None
    ends: bool = False
    limits: Limits = USUAL
    relation: bool = False
    hides_times: bool = False
    unique: tuple[tuple[str, ...], ...] = ()
    rate: Any = None
    distinct: tuple[tuple[str, float], ...] = ()
    ordered: bool | Literal["ties"] = False
    keyed: bool = False
    may_be_stamped: bool = False
    copies: bool = False
    given: frozenset[str] = frozenset()

    def refuse_misplaced(self, kind: SourceKind, path: str = "") -> None:
        """Refuse options that mean nothing for this kind of source.

        Raises:
            PlanError: There is one.
        """
        what = "relation" if self.relation else "source"
        behind = f": {path}" if path else ""
        where = f"{what} '{self.name}'{behind}"
        refuse_misplaced(self.given, kind, where=where)
        if self.relation and self.start is None and "chronon" in self.given:
            raise PlanError(
                "CHRONON (chronon in Python) has no meaning for a table without times",
                where=where,
                hint="leave it out, or name the column with the time: ORDERED BY column",
            )

    @property
    def stamped(self) -> bool:
        """Whether rows get the time of their arrival."""
        return self.start == ARRIVAL

    def clock(self, found: Clock) -> Clock:
        """How the stream counts time, if its data count it like `found`.

        Whole numbers are what they are, and the chronon says how long one step is. Timestamps can
        be counted in coarser steps than those of the data.

        Raises:
            PlanError: The chronon that is declared does not go with the data.
        """
        if self.chronon is None:
            return found
        declared = Clock(self.chronon, found.timestamps)
        chronon = found.chronon
        if chronon is not None and (
            self.chronon % chronon if found.timestamps else declared != found
        ):
            raise PlanError(
                f"the declared chronon {declared.label} does not fit the data, whose chronon is "
                f"{found.label}",
                where=f"source '{self.name}'",
                hint="leave CHRONON out, or declare that of the data"
                + (" or a multiple of it" if found.timestamps else ""),
            )
        return declared

    def promise(self, found: Clock) -> Promise:
        """The promise of a stream whose data count time like `found`, checked."""
        if self.late not in get_args(LatePolicy):
            raise PlanError(
                f"there is no policy '{self.late}' for late rows",
                where=f"source '{self.name}'",
                hint=f"policies are: {', '.join(get_args(LatePolicy))}",
            )
        clock = self.clock(found)
        delay = None if self.delay is None else self._span(clock, self.delay)
        if self.stamped:
            if delay is not None:
                raise PlanError(
                    "rows that are timed by their arrival are never late",
                    where=f"source '{self.name}'",
                    hint="leave the delay out, or name the column with the time of the rows",
                )
            delay = Duration(0)
        if self.ordered:
            if delay:
                raise PlanError(
                    "a source whose rows are in order has no delay",
                    where=f"source '{self.name}'",
                    hint="leave the delay out, or leave the order out",
                )
            # A row that starts before one in front of it is late, so what is left is in order.
            delay = Duration(0)
        return Promise(
            source=self.name,
            delay=delay,
            late=self.late,
            clock=clock,
            step=(clock.chronon or 1) // (found.chronon or 1) if clock.timestamps else 1,
            heartbeat=self._heartbeat(clock),
            stamped=self.stamped,
            only_inserts=bool(self.ordered),
        )

    def archive_spec(self, clock: Clock, path: str | None = None) -> ArchiveSpec | None:
        """The archive of a stream that counts time like this, checked; None: there is none.

        Args:
            clock: How the stream counts time.
            path: Where the rows are, if they are in files.

        Raises:
            PlanError: The archive would be among the files of the source.
            QueryError: The age that it keeps is not one for this clock.
        """
        if self.archive is None and self.keep == EVERYTHING and self.late != "revise":
            return None
        folder = None if self.archive is None else archive_folder(self.archive, self.name)
        if folder is not None and path is not None and lies_in(folder, path):
            raise PlanError(
                "the archive of a source cannot be among its own files",
                where=f"source '{self.name}': {path}, archive {self.archive}",
                hint="choose another folder: ARCHIVE 'archive/name' in SQL, archive='archive/name' "
                "in Python",
            )
        age = None if self.keep.age is None else self._span(clock, self.keep.age)
        return ArchiveSpec(path=folder, keep_age=age, keep_rows=self.keep.rows)

    def _span(self, clock: Clock, span: Any) -> Duration:
        try:
            return clock.duration(span)
        except QueryError as problem:
            problem.where = problem.where or f"source '{self.name}'"
            raise

    def _heartbeat(self, clock: Clock) -> Duration | None:
        """In microseconds, as it is waited for by the clock on the wall."""
        if self.heartbeat is None:
            return None
        if clock.chronon is None:
            raise PlanError(
                "a heartbeat needs a declared chronon",
                where=f"source '{self.name}'",
                hint="write CHRONON 1 SECOND in SQL, chronon='1 second' in Python; or use "
                "timestamps",
            )
        heartbeat = self._span(clock, self.heartbeat)
        if not heartbeat:
            raise PlanError(
                "a heartbeat must be longer than 0",
                where=f"source '{self.name}'",
                hint="give the time to wait for a silent source, such as '10 seconds'",
            )
        return Duration(min(heartbeat * clock.chronon, FOREVER))


def leaf_of(
    declared: Declared, schema: pa.Schema, shape: Shape, clock: Clock, *, in_order: bool = True
) -> Source:
    """The leaf of a plan; whether rows are read in their order decides about ties."""
    always = declared.relation and shape.start is None
    if always and declared.chronon is not None:
        raise PlanError(
            "rows that always hold have no time and no chronon",
            where=f"relation '{declared.name}'",
            hint="leave CHRONON out, or name the columns with the period of the rows",
        )
    return Source(
        name=declared.name,
        schema=schema,
        # With revisions rows that were settled may change.
        insert_only=(shape.kind is None or bool(declared.ordered)) and declared.late != "revise",
        only_points=shape.kind is None and shape.end is None and shape.start is not None,
        timestamps=clock.timestamps,
        chronon=None if clock.is_usual else clock.chronon,
        relation=declared.relation,
        unique=_unique_sets(declared, schema),
        rate=None
        if declared.rate is None
        else rate_per_chronon(declared.rate, clock, where=f"source '{declared.name}'"),
        distinct=_value_counts(declared, schema),
        order="start" if declared.ordered and declared.late != "revise" else "none",
        keyed=declared.keyed,
        ties=declared.ordered == "ties" and in_order and declared.late != "revise",
        always=always,
    )


def column_sets(given: Any) -> tuple[tuple[str, ...], ...]:
    """What `unique=` says: one column, or several sets of them.

    >>> column_sets("id"), column_sets(["id", ("day", "number")])
    ((('id',),), (('id',), ('day', 'number')))
    """
    every = [given] if isinstance(given, str) else given or ()
    return tuple((each,) if isinstance(each, str) else tuple(each) for each in every)


def _unique_sets(declared: Declared, schema: pa.Schema) -> tuple[tuple[str, ...], ...]:
    """The sets of columns that are unique; those with a column of time that is hidden are not kept.

    Raises:
        PlanError: A column is not one of the source.
    """
    for name in (name for names in declared.unique for name in names):
        _demand_column(declared, schema, name, "UNIQUE")
    return tuple(names for names in declared.unique if set(names) <= set(schema.names))


def _value_counts(declared: Declared, schema: pa.Schema) -> tuple[tuple[str, float], ...]:
    """The expected numbers of values, of the columns that are part of the payload.

    Raises:
        PlanError: A column is not one of the source.
    """
    spelled = {name.lower(): name for name in schema.names}
    found = [(spelled.get(name.lower(), name), count) for name, count in declared.distinct]
    for name, _ in found:
        _demand_column(declared, schema, name, "DISTINCT")
    return tuple((name, count) for name, count in found if name in schema.names)


def _demand_column(declared: Declared, schema: pa.Schema, name: str, clause: str) -> None:
    if name not in schema.names and name not in (declared.start, declared.end):
        raise PlanError(
            f"there is no column '{name}' for {clause}",
            where=f"source '{declared.name}'",
            hint=f"columns are: {', '.join(schema.names)}",
        )


def with_times(schema: pa.Schema) -> pa.Schema:
    """The columns of an element table with this payload."""
    times = [pa.field(name, pa.int64()) for name in ("start", "end", "new_end")]
    return pa.schema([*schema, pa.field("kind", pa.string()), *times])
