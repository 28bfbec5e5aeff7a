"""Conditions and projections right above a DataFrame stay with Spark.

All other expressions stay with the workers, to which settings of the user's session mean nothing.
But what only Spark can evaluate is pushed down with all that is below it, under settings of ours
(see `session_free`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Final

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as sf

from anabranch.algebra.filter import Filter
from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.expressions.expression import Expression
from anabranch.expressions.rewriting import conjoin, conjuncts, rebind
from anabranch.runtime.spark.frame_source import FrameSource, frame_schema
from anabranch.runtime.spark.session_free import native_condition, pinned

Frames = dict[str, FrameSource]
_KEEP: Final = "__keep"
_FITS: Final = "__fits"


def push_down(
    nodes: Sequence[Node], frames: Mapping[str, FrameSource]
) -> tuple[list[Node], Frames]:
    """The plans without what Spark does itself, and the DataFrames that do it.

    What the plans have in common they still have. Functions of users stay with the workers; what
    stands beside them, Spark does. A DataFrame with an archive stays whole: a correction has all of
    its columns, and may be of a row that a condition leaves out.
    """
    leaves = {each.name for node in nodes for each in node.walk() if isinstance(each, Source)}
    kept = {name for name, frame in frames.items() if frame.archive is not None}
    pushed: Frames = {name: frames[name] for name in frames if name in kept & leaves}
    visited: dict[Node, Node] = {}
    native = {name: frame for name, frame in frames.items() if name not in kept}
    return [_visit(node, native, pushed, visited) for node in nodes], pushed


def _visit(
    node: Node, frames: Mapping[str, FrameSource], pushed: Frames, visited: dict[Node, Node]
) -> Node:
    if isinstance(node, Source) or node not in visited:
        visited[node] = _visited(node, frames, pushed, visited)
    return visited[node]


def _visited(
    node: Node, frames: Mapping[str, FrameSource], pushed: Frames, visited: dict[Node, Node]
) -> Node:
    match node:
        case Source():
            frame = frames.get(node.name)
            if frame is None:
                return node
            if pushed.setdefault(node.name, frame) is not frame:
                return _adopt(node, node, frame, pushed)
            return node
        case Filter() | Map():
            below = _head(node.input, frames, by_spark=_needs_spark(node))
            if below is not None:
                node = apart(node, below[1])
            head = _head(node, frames)
            if head is not None:
                return _adopt(node, *head, pushed)
            return replace(node, input=_visit(node.input, frames, pushed, visited))
    return node.with_inputs(*(_visit(each, frames, pushed, visited) for each in node.inputs))


def _head(
    node: Node, frames: Mapping[str, FrameSource], *, by_spark: bool = False
) -> tuple[Source, FrameSource] | None:
    """The source and its DataFrame with this node done by Spark, if all below is done so too.

    With `by_spark`, for the sake of something above that only Spark evaluates, Spark does all that
    it can, under settings of ours.
    """
    if isinstance(node, Source):
        return (node, frames[node.name]) if node.name in frames else None
    if not isinstance(node, Filter | Map):
        return None
    by_spark = by_spark or _needs_spark(node)
    below = _head(node.input, frames, by_spark=by_spark)
    if below is None:
        return None
    source, frame = below
    if not _all_native(node, frame, by_spark=by_spark):
        return None
    if isinstance(node, Filter):
        return source, _filtered(node, frame)
    return source, _mapped(node, frame)


def _parts(node: Filter | Map) -> list[Expression]:
    """The expressions of a node."""
    return [node.predicate] if isinstance(node, Filter) else [part for _, part in node.columns]


def _needs_spark(node: Filter | Map) -> bool:
    """Whether something is in it that workers cannot evaluate."""
    return any(part.spark_only for part in _parts(node))


def _all_native(node: Filter | Map, frame: FrameSource | None, *, by_spark: bool) -> bool:
    """Whether Spark does a node as a whole."""
    if isinstance(node, Filter):
        return _is_condition(node.predicate, frame, by_spark=by_spark)
    return all(_is_projection(part, by_spark=by_spark) for part in _parts(node))


def _is_projection(part: Expression, *, by_spark: bool) -> bool:
    """Whether Spark computes a column: only if it is there, or if nobody else can."""
    return not part.functions and (by_spark or part.is_column is not None)


def _is_condition(part: Expression, frame: FrameSource | None, *, by_spark: bool) -> bool:
    """Whether Spark judges a condition: no setting changes its meaning, or nobody else can."""
    if part.functions or by_spark:
        return not part.functions
    types = part.schema if frame is None else _types(frame)
    return native_condition(part.sql, types) is not None


def _types(source: FrameSource) -> pa.Schema:
    """The columns of a DataFrame that hold what is declared; workers convert the others."""
    there = frame_schema(source.frame)
    spark = {field.name: field.dataType.simpleString() for field in source.frame.schema.fields}
    return pa.schema(
        [
            field
            for field in source.schema
            if field.name in there.names
            and there.field(field.name).type == field.type
            # A text with a collation is compared in another way.
            and (spark[field.name] == "string" or not pa.types.is_string(field.type))
        ]
    )


def apart(node: Filter | Map, frame: FrameSource | None = None) -> Filter | Map:
    """The same, as one node over another that holds what Spark does of it, if there is something.

    What is declared of columns is trusted where there is no DataFrame.
    """
    by_spark = _needs_spark(node)
    if _all_native(node, frame, by_spark=by_spark):
        return node
    if isinstance(node, Map):
        return _map_apart(node) if by_spark else node
    first: list[Expression] = []
    rest: list[Expression] = []
    for each in conjuncts(node.predicate):
        # What stands behind a call may be guarded by it.
        native = _is_condition(each, frame, by_spark=by_spark) and not (rest and each.may_fail)
        (first if native else rest).append(each)
    if not first:
        return node
    below = Filter(input=node.input, predicate=conjoin(first))
    return Filter(input=below, predicate=conjoin(rest))


def _map_apart(node: Map) -> Map:
    """Below, columns that Spark computes and those that functions read; above, the functions."""
    schema = node.input.schema
    needed = {
        name: Expression.column(name, schema)
        for _, part in node.columns
        if part.functions or part.is_column is not None
        for name in sorted(part.columns)
    }
    computed = {
        name: _unlike(f"{name}_by_spark", schema.names)
        for name, part in node.columns
        if not part.functions and part.is_column is None
    }
    native = [(computed[name], part) for name, part in node.columns if name in computed]
    below = Map(input=node.input, columns=(*needed.items(), *native))
    columns = [
        (
            name,
            Expression.column(computed[name], below.schema)
            if name in computed
            else rebind(part, below.schema),
        )
        for name, part in node.columns
    ]
    return Map(input=below, columns=tuple(columns))


def _unlike(name: str, names: Sequence[str]) -> str:
    while name in names:
        name += "_"
    return name


def _filtered(node: Filter, source: FrameSource) -> FrameSource:
    """Only the rows that fit; with a declared delay the others still tell how late it is."""
    keep = native_condition(node.predicate.sql, _types(source))
    if keep is None:
        with pinned(source.frame.sparkSession):
            # Analysed here and now, under our settings; the rows are read later.
            frame = source.frame.withColumn(_FITS, sf.expr(node.predicate.sql))
        fitting = _with_condition(sf.col(_FITS), replace(source, frame=frame))
        return replace(fitting, frame=fitting.frame.drop(_FITS))
    return _with_condition(keep(), source)


def _with_condition(keep: Column, source: FrameSource) -> FrameSource:
    if source.promise.delay is not None and source.frame.isStreaming:
        return _marked(keep, source)
    if source.shape.kind is not None:
        keep = (sf.col(source.shape.kind) == "stable") | keep
    return replace(source, frame=source.frame.where(keep))


def _marked(keep: Column, source: FrameSource) -> FrameSource:
    """Rows that do not fit are marked, and leave with nothing but their time."""
    shape, frame = source.shape, source.frame
    fits = sf.coalesce(keep, sf.lit(False))
    if shape.keep is not None:
        fits = sf.col(shape.keep) & fits
    frame = frame.withColumn(_KEEP, fits)
    columns = [
        sf.when(sf.col(_KEEP), sf.col(_quoted(name))).alias(name) for name in source.schema.names
    ]
    times = [sf.col(name) for name in (*shape.columns, *source.order) if name != _KEEP]
    stored = [field for field in source.stored if field.name != _KEEP]
    return replace(
        source,
        frame=frame.select(*columns, *times, sf.col(_KEEP)),
        shape=replace(shape, keep=_KEEP),
        stored=pa.schema([*stored, pa.field(_KEEP, pa.bool_())]),
    )


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _mapped(node: Map, source: FrameSource) -> FrameSource:
    columns = [
        sf.col(_quoted(part.is_column)).alias(name)
        if part.is_column is not None
        else sf.expr(part.sql).alias(name)
        for name, part in node.columns
    ]
    times = [sf.col(name) for name in (*source.shape.columns, *source.order)]
    stored = [*node.schema, *(source.stored.field(name) for name in source.shape.columns)]
    simple = all(part.is_column is not None for _, part in node.columns)
    with nullcontext() if simple else pinned(source.frame.sparkSession):
        frame = source.frame.select(*columns, *times)
    return replace(
        source,
        frame=frame,
        schema=node.schema,
        stored=pa.schema(stored),
    )


def _adopt(node: Node, source: Source, frame: FrameSource, pushed: Frames) -> Source:
    """A leaf in place of the node; each use of a source under operators is a source of its own."""
    name, number = source.name, 1
    while name in pushed:
        number += 1
        name = f"{source.name}.{number}"
    pushed[name] = replace(frame, promise=replace(frame.promise, source=name))
    # Without a column that told them apart, rows may be equal that were not before.
    properties = node.properties
    return replace(
        source,
        name=name,
        schema=node.schema,
        no_duplicates=properties.no_duplicates,
        keyed=properties.keyed,
        unique=(),
    )
