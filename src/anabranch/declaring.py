"""Streams and relations are declared: files and DataFrames get names, times and promises."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import pyarrow as pa

from anabranch.algebra.analysis.edges import as_edges
from anabranch.algebra.source import Source
from anabranch.host import Host
from anabranch.model.clock import chronon_of
from anabranch.registry import Registry
from anabranch.runtime.option import shown
from anabranch.runtime.sources.archive_bounds import Keep
from anabranch.runtime.sources.declare.declared import Declared, column_sets
from anabranch.runtime.sources.declare.rows_in_memory import (
    is_in_memory,
    refuse_more_rows,
    stored_rows,
)
from anabranch.runtime.sources.expectations import value_counts
from anabranch.runtime.sources.options import checked_options
from anabranch.runtime.sources.spec import MOST_ROWS, LatePolicy, Limits
from anabranch.runtime.spark.source_functions import describe_source
from anabranch.stream import Stream
from anabranch.targets import PathText
from anabranch.windowed import Span


class Declares(ABC):
    """What declares streams and relations, and knows those that have a name."""

    _host: Host
    _registry: Registry

    def stream(
        self,
        source: Any,
        *,
        name: str | None = None,
        start: str | None = None,
        end: str | None = None,
        kind: str | None = None,
        schema: pa.Schema | None = None,
        delay: Span | None = None,
        late: LatePolicy = "drop",
        archive: PathText | None = None,
        keep: Span | tuple[Span | None, int | None] | None = None,
        heartbeat: Span | None = None,
        chronon: Span | None = None,
        ordered: bool | Literal["ties"] = False,
        keyed: bool = False,
        unique: Sequence[str | Sequence[str]] | str | None = None,
        rate: float | str | None = None,
        distinct: Mapping[str, float] | None = None,
        edges: Sequence[str] | str | None = None,
        hide_times: bool = False,
        ends: bool | None = None,
        max_rows_per_batch: int | None = MOST_ROWS,
        max_files_per_batch: int | None = None,
        copies: bool = False,
        replace: bool = False,
    ) -> Stream:
        """A stream out of files or a DataFrame.

        Args:
            source: A path, folder or pattern (Parquet, CSV, JSON rows, stream files, the log
                folder of another query), a Delta table (its path, or `delta:<path>`), a DataFrame
                of Spark, streaming or not; or rows of this process: a DataFrame of pandas or
                Polars, an Arrow table, or a list of dictionaries, which all end with their last
                row.
            name: What plans and messages call it; None: from the path.
            start: The column with the start of each row, or `ARRIVAL` for the time at which rows
                come. None: files hold elements, a DataFrame has the columns of an element table
                (`start`, `end`, `new_end`, `kind`).
            end: The column with the end; without one every row is a point.
            kind: The column that says `insert`, `adjust` or `stable`.
            schema: The payload columns; None: found out.
            delay: No row comes later than that behind the largest start seen. None: only the
                stable points in the stream itself count.
            late: What happens to rows that are later all the same: `drop`, `adjust` (cut off the
                part before the stable point), `fail`, or `revise` (correct the results, also
                those that are final).
            archive: The folder in which rows are kept after they were read, so that they can be
                read again. None: with `late="revise"` or `keep` it is in the checkpoint, else
                nothing is kept.
            keep: How much the archive keeps: `"30 days"` behind the stable point, a number of rows,
                or both: `("30 days", 10_000_000)`. None: everything.
            heartbeat: After so long without a row the stream's time goes on with the clock, so
                that it holds nobody up. None: a silent stream is waited for.
            chronon: How long one step of time is: of whole numbers, so that durations may have
                units; of timestamps, to count them in coarser steps than microseconds.
            ordered: Rows come in the order of their starts. One that does not is late, so there is
                no delay, and a merge may rely on the order. `"ties"`: those of one start come in
                the same order in every copy of the stream, too.
            keyed: No two events have the same payload and start: a merge relies on it.
            unique: Columns in which no two rows ever agree: a name, or a list of names and of
                tuples of names that count together. The optimizer relies on it.
            rate: How many rows are expected: a number per second (per chronon, where whole
                numbers of time have no unit), or `"600 per minute"`. The optimizer prices plans by
                it, until it has measured the stream; if it is wrong, a plan is slower.
            distinct: How many different values columns are expected to have: `{"item": 1000}`. It
                serves like the rate.
            edges: Rows are samples of a signal: each holds until the next one with the same value
                in these columns starts. A name, or a list of names; an empty list: of all rows.
            hide_times: The columns of `start` and `end` are not part of the payload.
            ends: True: the files that are there when the query starts are all. Rows of this
                process always end; None: those end, and files do not.
            max_rows_per_batch: At most about so many rows of files go into a batch; within that its
                size adapts to what batches cost. None: all that is there.
            max_files_per_batch: At most so many files go into a batch.
            copies: Every log folder and stream file that the path matches is a copy of one stream,
                now or later; a merge makes one stream of them.
            replace: It takes the place of another stream of this name; what SQL has derived from
                that is bound anew. The same stream again needs none.

        Raises:
            StreamError: There is nothing to read, or it cannot be read.
            PlanError: What is declared makes no sense.
        """
        called = shown(source)
        name_after, stays = source, False
        refuse_more_rows(source, ends, where=f"engine.stream({called})")
        if is_in_memory(source):
            # What is there is all there will be.
            source, stays = stored_rows(source, (start, end), where="engine.stream(...)"), True
            name_after = "stream"
        ends = stays if ends is None else ends
        given = checked_options(
            {
                "name": name,
                "start": start,
                "end": end,
                "kind": kind,
                "schema": schema,
                "delay": delay,
                "late": late,
                "archive": archive,
                "keep": keep,
                "heartbeat": heartbeat,
                "chronon": chronon,
                "ordered": ordered,
                "keyed": keyed,
                "unique": unique,
                "rate": rate,
                "distinct": distinct,
                "edges": edges,
                "hide_times": hide_times,
                "ends": ends,
                "max_rows_per_batch": max_rows_per_batch,
                "max_files_per_batch": max_files_per_batch,
                "copies": copies,
                "replace": replace,
            },
            where=f"engine.stream({called})",
        )
        declared = Declared(
            name=self._registry.name_for(name, name_after),
            start=start,
            end=end,
            kind=kind,
            schema=schema,
            delay=delay,
            late=late,
            archive=None if archive is None else str(archive),
            keep=Keep.of(keep),
            heartbeat=heartbeat,
            chronon=None if chronon is None else chronon_of(chronon),
            ordered=ordered,
            keyed=keyed,
            unique=column_sets(unique),
            rate=rate,
            distinct=value_counts(distinct),
            hides_times=hide_times,
            ends=ends,
            limits=Limits(max_rows_per_batch, max_files_per_batch),
            copies=copies,
            given=given,
        )
        key = (edges,) if isinstance(edges, str) else edges
        time = None if declared.stamped else start
        described, leaf = describe_source(source, declared)
        named = name is not None
        return self._stream(described, leaf, known=named, time=time, edges=key, replace=replace)

    def relation(
        self,
        source: Any,
        *,
        name: str | None = None,
        start: str | None = None,
        end: str | None = None,
        schema: pa.Schema | None = None,
        chronon: Span | None = None,
        unique: Sequence[str | Sequence[str]] | str | None = None,
        distinct: Mapping[str, float] | None = None,
        hide_times: bool = False,
        replace: bool = False,
    ) -> Stream:
        """A table that is all there when a query starts, as a partner for streams.

        Args:
            source: A path, folder or pattern (Parquet, CSV, JSON rows), a Delta table, or a
                DataFrame.
            name: What plans and messages call it; None: from the path.
            start: The column with the start of each row's period; None: rows hold always.
            end: The column with the end of the period; an end that is NULL is forever.
            schema: The payload columns; None: found out.
            chronon: How long one step of time is, as for `stream`.
            unique: As for `stream`.
            distinct: As for `stream`.
            hide_times: As for `stream`.
            replace: As for `stream`.

        Raises:
            StreamError: There is nothing to read, or it cannot be read.
            PlanError: What is declared makes no sense.
        """
        called, name_after = shown(source), source
        if is_in_memory(source):
            source = stored_rows(
                source, (start, end), where="engine.relation(...)", needs_time=False
            )
            name_after = "stream"
        given = checked_options(
            {
                "name": name,
                "start": start,
                "end": end,
                "schema": schema,
                "unique": unique,
                "distinct": distinct,
                "hide_times": hide_times,
                "replace": replace,
            },
            where=f"engine.relation({called})",
        )
        declared = Declared(
            name=self._registry.name_for(name, name_after),
            start=start,
            end=end,
            schema=schema,
            chronon=None if chronon is None else chronon_of(chronon),
            unique=column_sets(unique),
            distinct=value_counts(distinct),
            hides_times=hide_times,
            ends=True,
            limits=Limits(None, None),
            relation=True,
            given=given,
        )
        described, leaf = describe_source(source, declared)
        return self._stream(described, leaf, known=name is not None, replace=replace)

    def _stream(
        self,
        source: Any,
        leaf: Source,
        *,
        known: bool,
        time: str | None = None,
        edges: Sequence[str] | None = None,
        replace: bool = False,
    ) -> Stream:
        key = None if edges is None else tuple(edges)
        node = leaf if key is None else as_edges(leaf, key)
        if known:
            hidden = () if time is None or time in leaf.schema.names else (time,)
            self._registry.add_leaf(leaf, source, hidden, time, key, replace=replace)
        return Stream(
            host=self._host,
            node=node,
            sources={leaf.name: source},
            functions=self._registry.scalars,
        )
