"""Filters and projections right above a DataFrame stay with Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as sf

from anabranch.algebra.expression import Expression
from anabranch.algebra.filter import Filter
from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.algebra.rewriting import conjoin, conjuncts, rebind
from anabranch.algebra.source import Source
from anabranch.runtime.frame_source import FrameSource

Frames = dict[str, FrameSource]
_KEEP: Final = "__keep"


def push_down(
    nodes: Sequence[Node], frames: Mapping[str, FrameSource]
) -> tuple[list[Node], Frames]:
    """The plans without what Spark does itself, and the DataFrames that do it.

    What the plans have in common they still have. Functions of users stay with the workers; what
    stands beside them, Spark does.
    """
    pushed: Frames = {}
    known: dict[Node, Node] = {}
    return [_visit(node, frames, pushed, known) for node in nodes], pushed


def _visit(
    node: Node, frames: Mapping[str, FrameSource], pushed: Frames, known: dict[Node, Node]
) -> Node:
    if isinstance(node, Source) or node not in known:
        known[node] = _visited(node, frames, pushed, known)
    return known[node]


def _visited(
    node: Node, frames: Mapping[str, FrameSource], pushed: Frames, known: dict[Node, Node]
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
            if _calls_own(node) and _head(node.input, frames) is not None:
                node = apart(node)
            head = _head(node, frames)
            if head is not None:
                return _adopt(node, *head, pushed)
            return replace(node, input=_visit(node.input, frames, pushed, known))
    return node.with_inputs(*(_visit(each, frames, pushed, known) for each in node.inputs))


def _head(node: Node, frames: Mapping[str, FrameSource]) -> tuple[Source, FrameSource] | None:
    """The source and its DataFrame with this node done by Spark, if all below is done so too."""
    if isinstance(node, Source):
        return (node, frames[node.name]) if node.name in frames else None
    if not isinstance(node, Filter | Map) or _calls_own(node):
        return None
    below = _head(node.input, frames)
    if below is None:
        return None
    source, frame = below
    if isinstance(node, Filter):
        return source, _filtered(node, frame)
    return source, _mapped(node, frame)


def _calls_own(node: Filter | Map) -> bool:
    """Whether a function of a user is in it, which Spark does not know."""
    parts = [node.predicate] if isinstance(node, Filter) else [part for _, part in node.columns]
    return any(part.functions for part in parts)


def apart(node: Filter | Map) -> Filter | Map:
    """The same, as one node over another that holds what Spark can do of it."""
    if isinstance(node, Map):
        return _map_apart(node)
    first: list[Expression] = []
    rest: list[Expression] = []
    for each in conjuncts(node.predicate):
        # What stands behind a call may be guarded by it.
        native = not each.functions and not (rest and each.may_fail)
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
    keep = sf.expr(node.predicate.sql)
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
    columns = [sf.expr(part.sql).alias(name) for name, part in node.columns]
    times = [sf.col(name) for name in (*source.shape.columns, *source.order)]
    stored = [*node.schema, *(source.stored.field(name) for name in source.shape.columns)]
    return replace(
        source,
        frame=source.frame.select(*columns, *times),
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
    known = node.properties
    return replace(
        source,
        name=name,
        schema=node.schema,
        no_duplicates=known.no_duplicates,
        keyed=known.keyed,
        unique=(),
    )
