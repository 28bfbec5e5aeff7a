"""Find out what a Delta table holds: rows with a time, elements, or a relation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from anabranch.algebra.source import Source
from anabranch.errors import PlanError, StreamError
from anabranch.kernels.contract.column_names import END, NEW_END
from anabranch.model.clock import INTEGERS, MICROSECONDS
from anabranch.model.files.stream_parquet import plain_type
from anabranch.runtime.sources.declare.declared import Declared, leaf_of
from anabranch.runtime.sources.declare.rows_shape import (
    clock_at,
    order_of,
    payload_of,
    refuse_limits,
    shape_of,
)
from anabranch.runtime.sources.files.declared_columns import no_column
from anabranch.runtime.sources.files.delta_rows import KIND, OWN
from anabranch.runtime.sources.files.delta_table import DELTA_LOG, delta_schema
from anabranch.runtime.sources.spec import ARRIVAL, ELEMENTS, FileSource, Shape


def describe_delta(path: str, declared: Declared) -> tuple[FileSource, Source]:
    """A Delta table as a source, and the leaf it is in a plan.

    As a stream it begins with the version that is there, and goes on with what later versions add.
    Where the table keeps a feed of its changes, rows that later versions take away are withdrawn.

    Raises:
        StreamError: There is no table, or it cannot be read here, or lacks a declared column.
        PlanError: What is declared makes no sense.
    """
    declared.refuse_misplaced("table" if declared.relation else "delta", path)
    stored, feed = delta_schema(path)
    there = pa.schema([pa.field(each.name, plain_type(each.type)) for each in stored])
    for name in declared.schema.names if declared.schema is not None else ():
        if name not in there.names:
            raise no_column(name, there.names, where=f"source '{declared.name}': {path}")
    declared = _with_times(path, declared, there)
    if declared.stamped:
        shape = Shape(start=ARRIVAL)
    else:
        shape = shape_of(declared, there)
    order = order_of(declared, shape, there)
    schema = payload_of(declared, shape, there)
    schema = pa.schema([field for field in schema if field.name not in order])
    if order:
        refuse_limits(declared, path)
    found = MICROSECONDS if declared.stamped else INTEGERS
    if shape.start is not None and not declared.stamped:
        found = clock_at(stored.field(shape.start))
    promise = declared.promise(found)
    if feed and shape.kind is None and shape.start not in (None, ARRIVAL):
        shape = replace(shape, kind=KIND, end=shape.end or END, new_end=NEW_END)
    fields_by_name = {field.name: field for field in (*there, *OWN, *schema)}
    needed = [name for name in (*schema.names, *shape.columns) if name != ARRIVAL]
    source = FileSource(
        promise=promise,
        path=str(Path(path).absolute()),
        form="delta",
        schema=schema,
        stored=pa.schema([fields_by_name[name] for name in dict.fromkeys(needed)]),
        shape=shape,
        ends=declared.ends,
        limits=declared.limits,
        # Its versions are in order, but somebody may have rewritten files: then rows are not.
        ordered=not order,
        archive=declared.archive_spec(promise.clock, path),
    )
    return source, leaf_of(declared, schema, shape, promise.clock, in_order=not order)


def refuse_delta_inside(path: str, files: list[Path]) -> None:
    """Refuse files that a folder or a pattern finds inside a Delta table: dead ones are among them.

    Raises:
        StreamError: There is one.
    """
    if Path(path).is_file():
        return
    for folder in dict.fromkeys(parent for file in files for parent in file.parents):
        if (folder / DELTA_LOG).is_dir():
            raise StreamError(
                "these are files of a Delta table, and some may be obsolete",
                where=f"{path}: {folder} has a folder {DELTA_LOG}",
                hint=f"name the table itself: delta:{folder}",
            )


def _with_times(path: str, declared: Declared, there: pa.Schema) -> Declared:
    """Say which columns are times where nobody has: a table of elements has names of its own."""
    if declared.relation or declared.start is not None or declared.kind is not None:
        return declared
    elements = {name for name in ELEMENTS.columns if name in there.names}
    if {"start", "kind"} <= elements:
        return replace(declared, kind="kind")
    if declared.may_be_stamped:
        return replace(declared, start=ARRIVAL)
    raise PlanError(
        "rows need a column with their time",
        where=f"source '{declared.name}': {path}",
        hint=f"name it: start='<column>'; columns are: {', '.join(there.names)}",
    )
