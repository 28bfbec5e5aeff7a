"""Find out what a source holds, and check what its owner says about it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.json as pj
import pyarrow.parquet as pq

from anabranch.algebra.source import Source
from anabranch.errors import PlanError, StreamError
from anabranch.model.clock import INTEGERS, MICROSECONDS, Clock
from anabranch.model.files.stream_file import describe as describe_stream
from anabranch.model.files.stream_parquet import ORDER_COLUMNS, has_order, plain_type
from anabranch.runtime.sources.archived.about import archived_columns, is_archive, read_about
from anabranch.runtime.sources.declare.declared import Declared, leaf_of, with_times
from anabranch.runtime.sources.declare.describe_copies import describe_copies
from anabranch.runtime.sources.declare.describe_delta import describe_delta, refuse_delta_inside
from anabranch.runtime.sources.declare.log_properties import relying
from anabranch.runtime.sources.declare.rows_shape import (
    clock_at,
    order_of,
    payload_of,
    refuse_limits,
    shape_of,
)
from anabranch.runtime.sources.files.declared_columns import first_filled, no_column, refuse_missing
from anabranch.runtime.sources.files.delta_table import is_delta_table
from anabranch.runtime.sources.files.listing import (
    FORMS,
    demand_files,
    form_of,
    is_log_folder,
    list_files,
)
from anabranch.runtime.sources.files.log_folder import LogFolder
from anabranch.runtime.sources.spec import (
    ARRIVAL,
    ELEMENTS,
    FileForm,
    FileSource,
    Shape,
)
from anabranch.runtime.store.folder import Folder

_SAMPLE: Final = 1 << 20


def describe_files(path: str, declared: Declared) -> tuple[FileSource, Source]:
    """A source in files, and the leaf it is in a plan.

    Raises:
        StreamError: There is nothing at the path, or it does not hold what is declared.
        PlanError: What is declared makes no sense.
    """
    if declared.copies:
        return describe_copies(path, declared)
    if is_delta_table(path):
        return describe_delta(path, declared)
    if declared.relation:
        declared.refuse_misplaced("table", path)
    if is_archive(path):
        declared.refuse_misplaced("archive", path)
        return _archive(path, declared)
    if is_log_folder(path):
        declared.refuse_misplaced("log", path)
        return _log(path, declared)
    form = _form(path)
    refuse_delta_inside(path, list_files(path, form))
    if declared.may_be_stamped and not _holds_elements(path, form, declared):
        declared = replace(declared, start=ARRIVAL)
    if declared.stamped:
        declared.refuse_misplaced("arrival", path)
        _refuse_missing(path, declared, form)
        return _stamped(path, declared, form)
    if declared.start is None and declared.kind is None and not declared.relation:
        declared.refuse_misplaced("elements", path)
        if form == "json":
            return _lines(path, declared)
        if form == "parquet":
            return _element_table(path, declared)
        raise PlanError(
            "rows need a column with their time",
            where=f"source '{declared.name}': {path}",
            hint="name it: start='<column>'",
        )
    declared.refuse_misplaced("table" if declared.relation else "rows", path)
    _refuse_missing(path, declared, form)
    there = _stored_schema(path, form, declared)
    shape = shape_of(declared, there)
    order = order_of(declared, shape, there)
    schema = payload_of(declared, shape, there)
    schema = pa.schema([field for field in schema if field.name not in order])
    needed = dict.fromkeys([*schema.names, *shape.columns])
    stored = pa.schema([schema.field(n) if n in schema.names else there.field(n) for n in needed])
    return _source(path, declared, form, schema, stored, shape, ordered=not order)


def _holds_elements(path: str, form: FileForm, declared: Declared) -> bool:
    """Whether files are about elements, or about rows with a start that is named."""
    if declared.start is not None or declared.kind is not None or declared.relation:
        return True
    found = None if form == "csv" else first_filled(path, form)
    if found is None:
        return form != "csv"
    if form == "parquet":
        return "start" in _there(found, form).names
    return not _first_keys(found).isdisjoint(("insert", "adjust", "stable"))


def _first_keys(file: Path) -> set[str]:
    """The names in the first line of a file of JSON lines.

    Lines of elements differ: a promise is a number, a time or the word `forever`.
    """
    with pa.input_stream(str(file), compression="detect") as stream:
        lines = bytes(stream.read(_SAMPLE)).split(b"\n")
    first = next((line for line in lines if line.strip()), b"")
    try:
        found = json.loads(first)
    except ValueError:
        # Whoever reads the file says what is wrong with it.
        return set(_there(file, "json").names)
    return set(found) if isinstance(found, dict) else set()


def _stamped(path: str, declared: Declared, form: FileForm) -> tuple[FileSource, Source]:
    schema = payload_of(declared, Shape(start=ARRIVAL), _stored_schema(path, form, declared))
    return _source(path, declared, form, schema, schema, Shape(start=ARRIVAL), MICROSECONDS)


def _source(
    path: str,
    declared: Declared,
    form: FileForm,
    schema: pa.Schema,
    stored: pa.Schema,
    shape: Shape,
    found: Clock | None = None,
    *,
    ordered: bool = True,
) -> tuple[FileSource, Source]:
    if found is None:
        found = INTEGERS if shape.start is None else clock_at(stored.field(shape.start))
    promise = declared.promise(found)
    source = FileSource(
        promise=promise,
        path=str(Path(path).absolute()),
        form=form,
        schema=schema,
        stored=stored,
        shape=None if form == "lines" else shape,
        ends=declared.ends,
        limits=declared.limits,
        ordered=ordered,
        archive=declared.archive_spec(promise.clock, path),
    )
    if not ordered:
        refuse_limits(declared, path)
    return source, leaf_of(declared, schema, shape, promise.clock, in_order=ordered)


def _lines(path: str, declared: Declared) -> tuple[FileSource, Source]:
    found = first_filled(path, "json")
    if found is None and declared.schema is None:
        found = demand_files(path, "json")[0]
    form = describe_stream(found) if found is not None else None
    schema = form.schema if form is not None else pa.schema([])
    if declared.schema is not None:
        # The first block need not hold all columns, so look at the rest before complaining.
        if found is not None and len(schema) and set(declared.schema.names) - set(schema.names):
            schema = describe_stream(found, whole=True).schema
        _refuse_missing_in(declared, schema, f"{found}")
        schema = declared.schema
    clock = INTEGERS if form is None else form.clock
    return _source(path, declared, "lines", schema, schema, ELEMENTS, clock)


def _element_table(path: str, declared: Declared) -> tuple[FileSource, Source]:
    first = demand_files(path, "parquet")[0]
    form = describe_stream(first)
    there = _there(first, "parquet")
    order = order_of(declared, ELEMENTS, there)
    own = ORDER_COLUMNS if has_order(there) and not order else ()
    columns = pa.schema([*form.schema, *(there.field(name) for name in own)])
    _refuse_missing_in(declared, columns, path)
    schema = declared.schema if declared.schema is not None else form.schema
    return _source(
        path,
        declared,
        "parquet",
        schema,
        with_times(schema),
        ELEMENTS,
        form.clock,
        ordered=not order,
    )


def _log(path: str, declared: Declared) -> tuple[FileSource, Source]:
    schema, clock = LogFolder(path).about()
    if declared.schema is not None:
        _refuse_missing_in(declared, schema, path)
        schema = declared.schema
    stored = with_times(schema)
    source, leaf = _source(path, declared, "log", schema, stored, ELEMENTS, clock)
    return relying(source, leaf, LogFolder(path).properties(), declared)


def _archive(path: str, declared: Declared) -> tuple[FileSource, Source]:
    about = read_about(Folder.at(path))
    assert about is not None
    if not about.copied:
        raise StreamError(
            "the archive only refers to the files of its source",
            where=f"source '{declared.name}': {path}",
            hint="read those files; an archive with a path of its own (ARCHIVE '<path>') has rows",
        )
    schema = every = about.payload
    if declared.schema is not None:
        _refuse_missing_in(declared, every, path)
        schema = declared.schema
    stored, shape = archived_columns(schema, every)
    return _source(path, declared, "archive", schema, stored, shape, about.clock)


def _refuse_missing(path: str, declared: Declared, form: FileForm) -> None:
    if declared.schema is not None:
        refuse_missing(declared.schema.names, path, form, source=declared.name)


def _refuse_missing_in(declared: Declared, there: pa.Schema, where: str) -> None:
    """Refuse declared columns that elements do not have; without any element all is open."""
    for name in declared.schema.names if declared.schema is not None and len(there) else ():
        if name not in there.names:
            raise no_column(name, there.names, where=f"source '{declared.name}': {where}")


def _form(path: str) -> FileForm:
    found = list_files(path) or [Path(path)]
    forms = [form for file in found if (form := form_of(file)) is not None]
    if not forms:
        file = demand_files(path)[0]
        raise StreamError(
            f"files of the kind '{file.suffix}' are not supported",
            where=str(file),
            hint=f"supported are: {', '.join(FORMS)}",
        )
    return forms[0]


def _stored_schema(path: str, form: FileForm, declared: Declared) -> pa.Schema:
    """The columns of the first file, with declared types where there are any."""
    named = [None if declared.stamped else declared.start, declared.end, declared.kind]
    times = [name for name in named if name is not None]
    if declared.schema is not None and (
        set(times) <= set(declared.schema.names) or first_filled(path, form) is None
    ):
        return declared.schema
    there = _there(first_filled(path, form) or demand_files(path, form)[0], form)
    columns = {field.name: field for field in declared.schema or ()}
    fields = [pa.field(field.name, _usual(plain_type(field.type))) for field in there]
    fields = [
        field.with_type(declared_time(first_filled(path, form), field.name))
        if form == "json" and field.name in times[:2] and pa.types.is_string(field.type)
        else field
        for field in fields
    ]
    return pa.schema(
        [columns.get(field.name, field) for field in fields]
        + [field for field in columns.values() if field.name not in there.names]
    )


def _there(file: Path, form: FileForm) -> pa.Schema:
    """The columns that a file has."""
    try:
        if form == "parquet":
            return pq.read_schema(file)
        if form == "csv":
            return pcsv.open_csv(file).schema
        return _sampled(file).schema
    except (pa.ArrowInvalid, OSError) as problem:
        raise StreamError(
            "the columns of the file cannot be determined",
            where=f"{file}: {str(problem).strip()[:200]}",
            hint=_format_hint(file, form),
        ) from None


def _format_hint(file: Path, form: FileForm) -> str:
    """What to do about a file whose columns cannot be told."""
    if form == "csv":
        try:
            with pa.input_stream(str(file), compression="detect") as stream:
                head = bytes(stream.read(_SAMPLE)).split(b"\n")[0].decode(errors="replace")
        except OSError:
            head = ""
        for separator, word in ((";", "semicolons"), ("\t", "tabs"), ("|", "bars")):
            if separator in head and "," not in head:
                return (
                    f"its columns are separated by {word}, and commas are expected; read it with "
                    f"pandas: engine.stream(pandas.read_csv(path, sep={separator!r}), start=...)"
                )
    return "check that the format of the file matches its name, or declare the schema"


def _usual(kind: pa.DataType) -> pa.DataType:
    """Timestamps count microseconds."""
    return pa.timestamp("us", tz=kind.tz) if pa.types.is_timestamp(kind) else kind


def _sampled(file: Path) -> pa.Table:
    """The first rows of a file of JSON lines."""
    with pa.input_stream(str(file), compression="detect") as stream:
        data = bytes(stream.read(_SAMPLE))
    whole = data[: data.rfind(b"\n") + 1] or data
    if not whole.strip():
        raise pa.ArrowInvalid("the file is empty")
    options = pj.ReadOptions(use_threads=False, block_size=len(whole) + 1)
    return pj.read_json(pa.BufferReader(whole), options)


def declared_time(file: Path | None, name: str) -> pa.DataType:
    """The type of a column with texts that is named as a time: timestamps, if they all are such.

    JSON has no times, so they are texts: `2026-11-01T10:00:00.250Z`. Where none has a zone, they
    are in UTC.
    """
    texts = None if file is None else _sampled(file).column(name)
    kinds = (pa.timestamp("us", tz="UTC"), pa.timestamp("us"))
    return next((kind for kind in kinds if _reads_as(texts, kind)), pa.string())


def _reads_as(texts: pa.ChunkedArray | None, kind: pa.DataType) -> bool:
    try:
        return texts is not None and texts.cast(kind).null_count < len(texts)
    except pa.ArrowInvalid:
        return False
