"""Find out what a source holds, and check what its owner says about it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, final, get_args

import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.json as pj
import pyarrow.parquet as pq

from anabranch.algebra.source import Source
from anabranch.errors import PlanError, StreamError
from anabranch.model.stream_file import describe as describe_stream
from anabranch.model.stream_parquet import plain_type
from anabranch.model.time import MICROSECOND, Duration, parse_duration
from anabranch.runtime.file_listing import (
    FORMS,
    demand_files,
    form_of,
    is_log_folder,
    list_files,
)
from anabranch.runtime.log_folder import LogFolder
from anabranch.runtime.rows import time_type
from anabranch.runtime.source_spec import (
    ARRIVAL,
    ELEMENTS,
    USUAL,
    FileForm,
    FileSource,
    LatePolicy,
    Limits,
    Promise,
    Shape,
)

_SAMPLE: Final = 1 << 20


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
        heartbeat: How long it may be silent before its time goes on with the clock.
        chronon: How long one step of integer time is.
        ends: Whether what is there now is all.
        limits: How much of it goes into one batch.
        relation: Whether it is a table that is all there: without a start its rows hold always.
        hides_times: Whether the columns of time are not part of the payload.
        unique: Sets of columns in which no two rows ever agree.
        may_be_stamped: Whether rows that are no elements, and have no start, get the time of their
            arrival.
    """

    name: str
    start: str | None = None
    end: str | None = None
    kind: str | None = None
    schema: pa.Schema | None = None
    delay: Any = None
    late: LatePolicy = "drop"
    heartbeat: Any = None
    chronon: Duration | None = None
    ends: bool = False
    limits: Limits = USUAL
    relation: bool = False
    hides_times: bool = False
    unique: tuple[tuple[str, ...], ...] = ()
    may_be_stamped: bool = False

    @property
    def stamped(self) -> bool:
        """Whether rows get the time of their arrival."""
        return self.start == ARRIVAL

    def promise(self, *, timestamps: bool) -> Promise:
        """The promise, checked."""
        if self.late not in get_args(LatePolicy):
            raise PlanError(
                f"there is no policy '{self.late}' for late rows",
                where=f"source '{self.name}'",
                hint=f"policies are: {', '.join(get_args(LatePolicy))}",
            )
        delay = None if self.delay is None else parse_duration(self.delay)
        if self.stamped:
            if delay is not None:
                raise PlanError(
                    "rows that get the time of their arrival are never late",
                    where=f"source '{self.name}'",
                    hint="leave the delay out, or name the column with the time of the rows",
                )
            delay = Duration(0)
        chronon = MICROSECOND if timestamps else self.chronon
        return Promise(
            source=self.name,
            delay=delay,
            late=self.late,
            timestamps=timestamps,
            heartbeat=self._heartbeat(chronon),
            chronon=chronon or MICROSECOND,
            stamped=self.stamped,
        )

    def _heartbeat(self, chronon: Duration | None) -> Duration | None:
        if self.heartbeat is None:
            return None
        if chronon is None:
            raise PlanError(
                "a heartbeat needs to know how long one step of time is",
                where=f"source '{self.name}'",
                hint="say CHRONON 1 SECOND in SQL, chronon='1 second' in Python; or use timestamps",
            )
        heartbeat = parse_duration(self.heartbeat)
        if not heartbeat:
            raise PlanError(
                "a heartbeat of no length",
                where=f"source '{self.name}'",
                hint="say how long a silent source is waited for, such as '10 seconds'",
            )
        return heartbeat


def describe_files(path: str, declared: Declared) -> tuple[FileSource, Source]:
    """A source in files, and the leaf it is in a plan.

    Raises:
        StreamError: There is nothing at the path, or it does not hold what is declared.
        PlanError: What is declared makes no sense.
    """
    if is_log_folder(path):
        return _log(path, declared)
    form = _form(path)
    if declared.may_be_stamped and not _holds_elements(path, form, declared):
        declared = replace(declared, start=ARRIVAL)
    if declared.stamped:
        return _stamped(path, declared, form)
    if declared.start is None and declared.kind is None and not declared.relation:
        if form == "json":
            return _lines(path, declared)
        if form == "parquet":
            return _element_table(path, declared)
        raise PlanError(
            "rows need a column with their time",
            where=f"source '{declared.name}': {path}",
            hint="name it: start='<column>'",
        )
    there = _stored_schema(path, form, declared)
    shape = shape_of(declared, there)
    schema = payload_of(declared, shape, there)
    needed = dict.fromkeys([*schema.names, *shape.columns])
    stored = pa.schema([schema.field(n) if n in schema.names else there.field(n) for n in needed])
    return _source(path, declared, form, schema, stored, shape)


def _holds_elements(path: str, form: FileForm, declared: Declared) -> bool:
    """Whether files are about elements, or about rows with a start that is named."""
    if declared.start is not None or declared.kind is not None or declared.relation:
        return True
    found = list_files(path, form)
    if form == "csv" or not found:
        return form != "csv"
    names = set(_there(found[0], form).names)
    return bool(names & ({"insert", "adjust", "stable"} if form == "json" else {"start"}))


def _stamped(path: str, declared: Declared, form: FileForm) -> tuple[FileSource, Source]:
    schema = payload_of(declared, Shape(start=ARRIVAL), _stored_schema(path, form, declared))
    return _source(path, declared, form, schema, schema, Shape(start=ARRIVAL), timestamps=True)


def shape_of(declared: Declared, there: pa.Schema) -> Shape:
    """Which of the columns that are there are times."""
    if declared.relation and declared.start is None:
        if declared.end is not None:
            raise PlanError(
                "a relation with an end needs a start as well",
                where=f"relation '{declared.name}'",
                hint="name both columns of the period: start='<column>', end='<column>'",
            )
        return Shape(start=None)
    start = declared.start or "start"
    end, new_end = declared.end, None
    if declared.kind is not None:
        end = end or ("end" if "end" in there.names else None)
        new_end = "new_end" if "new_end" in there.names else None
    shape = Shape(start=start, end=end, new_end=new_end, kind=declared.kind)
    for name in shape.columns:
        if name not in there.names:
            near = get_close_matches(name, there.names, 1)
            hint = f"did you mean '{near[0]}'? " if near else ""
            raise PlanError(
                f"source '{declared.name}' has no column '{name}'",
                hint=f"{hint}columns are: {', '.join(there.names)}",
            )
        if name != shape.kind and not time_type(there.field(name).type):
            raise PlanError(
                f"column '{name}' holds {there.field(name).type}, not times",
                where=f"source '{declared.name}'",
                hint="times are integers or timestamps",
            )
    return shape


def payload_of(declared: Declared, shape: Shape, there: pa.Schema) -> pa.Schema:
    """The payload columns.

    The times of elements do not belong to the payload: an adjust would change it. Nor do columns
    that are called as in element tables. Other columns stay, those with times as well.
    """
    taken = set(shape.columns) if shape.kind is not None or declared.hides_times else set()
    if declared.schema is not None:
        kept = [field for field in declared.schema if field.name not in taken]
        return pa.schema([pa.field(field.name, field.type) for field in kept])
    taken |= set(ELEMENTS.columns) & set(shape.columns)
    return pa.schema([pa.field(f.name, plain_type(f.type)) for f in there if f.name not in taken])


def leaf_of(declared: Declared, schema: pa.Schema, shape: Shape, *, timestamps: bool) -> Source:
    """The leaf of a plan."""
    return Source(
        name=declared.name,
        schema=schema,
        insert_only=shape.kind is None,
        only_points=shape.kind is None and shape.end is None and shape.start is not None,
        timestamps=timestamps,
        relation=declared.relation,
        unique=declared.unique,
        always=declared.relation and shape.start is None,
    )


def is_clock(kind: pa.DataType) -> bool:
    """Whether times of this type are microseconds."""
    return not pa.types.is_integer(kind)


def _source(
    path: str,
    declared: Declared,
    form: FileForm,
    schema: pa.Schema,
    stored: pa.Schema,
    shape: Shape,
    *,
    timestamps: bool | None = None,
) -> tuple[FileSource, Source]:
    if timestamps is None:
        timestamps = shape.start is not None and is_clock(stored.field(shape.start).type)
    source = FileSource(
        promise=declared.promise(timestamps=timestamps),
        path=str(Path(path).absolute()),
        form=form,
        schema=schema,
        stored=stored,
        shape=None if form == "lines" else shape,
        ends=declared.ends,
        limits=declared.limits,
    )
    return source, leaf_of(declared, schema, shape, timestamps=timestamps)


def _lines(path: str, declared: Declared) -> tuple[FileSource, Source]:
    found = list_files(path, "json")
    if not found and declared.schema is None:
        demand_files(path, "json")
    form = describe_stream(found[0]) if found else None
    schema = declared.schema if declared.schema is not None else form.schema if form else None
    assert schema is not None
    timestamps = form is not None and form.timestamps
    return _source(path, declared, "lines", schema, schema, ELEMENTS, timestamps=timestamps)


def _element_table(path: str, declared: Declared) -> tuple[FileSource, Source]:
    form = describe_stream(demand_files(path, "parquet")[0])
    schema = declared.schema if declared.schema is not None else form.schema
    stored = _with_times(schema)
    return _source(path, declared, "parquet", schema, stored, ELEMENTS, timestamps=form.timestamps)


def _log(path: str, declared: Declared) -> tuple[FileSource, Source]:
    schema, timestamps = LogFolder(path).about()
    stored = _with_times(schema)
    return _source(path, declared, "log", schema, stored, ELEMENTS, timestamps=timestamps)


def _with_times(schema: pa.Schema) -> pa.Schema:
    times = [pa.field(name, pa.int64()) for name in ("start", "end", "new_end")]
    return pa.schema([*schema, pa.field("kind", pa.string()), *times])


def _form(path: str) -> FileForm:
    found = list_files(path) or [Path(path)]
    forms = [form for file in found if (form := form_of(file)) is not None]
    if not forms:
        file = demand_files(path)[0]
        raise StreamError(
            f"files of the kind '{file.suffix}' are not known",
            where=str(file),
            hint=f"known are: {', '.join(FORMS)}",
        )
    return forms[0]


def _stored_schema(path: str, form: FileForm, declared: Declared) -> pa.Schema:
    """The columns of the first file, with declared types where there are any."""
    named = [None if declared.stamped else declared.start, declared.end, declared.kind]
    times = [name for name in named if name is not None]
    if declared.schema is not None and (
        set(times) <= set(declared.schema.names) or not list_files(path, form)
    ):
        return declared.schema
    there = _there(demand_files(path, form)[0], form)
    known = {field.name: field for field in declared.schema or ()}
    fields = [pa.field(field.name, _usual(plain_type(field.type))) for field in there]
    return pa.schema(
        [known.get(field.name, field) for field in fields]
        + [field for field in known.values() if field.name not in there.names]
    )


def _there(file: Path, form: FileForm) -> pa.Schema:
    """The columns that a file has."""
    try:
        if form == "parquet":
            return pq.read_schema(file)
        if form == "csv":
            return pcsv.open_csv(file).schema
        return _sampled(file)
    except (pa.ArrowInvalid, OSError) as problem:
        raise StreamError(
            "cannot find out the columns of the file",
            where=f"{file}: {str(problem).strip()[:200]}",
            hint="check that the file is what its name says, or declare the schema",
        ) from None


def _usual(kind: pa.DataType) -> pa.DataType:
    """Timestamps count microseconds."""
    return pa.timestamp("us", tz=kind.tz) if pa.types.is_timestamp(kind) else kind


def _sampled(file: Path) -> pa.Schema:
    with pa.input_stream(str(file), compression="detect") as stream:
        data = bytes(stream.read(_SAMPLE))
    whole = data[: data.rfind(b"\n") + 1] or data
    if not whole.strip():
        raise pa.ArrowInvalid("the file is empty")
    options = pj.ReadOptions(use_threads=False, block_size=len(whole) + 1)
    return pj.read_json(pa.BufferReader(whole), options).schema
