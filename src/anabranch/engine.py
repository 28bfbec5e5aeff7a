"""The facade: streams, queries over them, and runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import pyarrow as pa

from anabranch.algebra.analysis.edges import as_edges
from anabranch.algebra.modules.module import Template
from anabranch.algebra.source import Source
from anabranch.errors import PlanError
from anabranch.expressions.scalar_function import ScalarFunction
from anabranch.fluent import GroupedStream
from anabranch.kernels.plan.compile import Emission
from anabranch.kernels.plan.explain import explain_stages
from anabranch.language.text.statements import (
    CreateDerived,
    CreateFunction,
    CreateSource,
    Describe,
    Drop,
    Explain,
    Select,
    Show,
    Statement,
)
from anabranch.model.clock import chronon_of
from anabranch.registry import Planned, Registry
from anabranch.runs import Runs, places, unlike
from anabranch.runtime.option import FUNCTION, NAME, Option, shown
from anabranch.runtime.query.local import LocalRun
from anabranch.runtime.query.options import check_engine, check_run
from anabranch.runtime.query.run import Run
from anabranch.runtime.sinks.choice import choose_sink
from anabranch.runtime.sources.declare.declared import Declared, column_sets
from anabranch.runtime.sources.declare.shared_results import Published
from anabranch.runtime.sources.options import MOST_ROWS, checked_options
from anabranch.runtime.sources.spec import LatePolicy, Limits
from anabranch.runtime.spark.source_functions import Connect, connect, describe_source
from anabranch.runtime.store.state_store import KEEP
from anabranch.stream import Place, Query, Stream, Target, plan_together, start_together
from anabranch.userops.module_files import modules_in
from anabranch.windowed import Span

__all__ = ["Engine", "GroupedStream", "LocalRun", "Query", "Run", "Stream"]

NAME_OF_FUNCTION: Final = Option(name="name", kind=NAME, nullable=False)
FUNCTION_OF_USER: Final = Option(name="function", kind=FUNCTION, nullable=False)


class Engine:
    """Makes streams out of files and DataFrames, and runs queries over them on Spark.

    Spark starts when it is first needed. As a context manager the engine stops, at the end of the
    block, the runs and the Spark that it has started.
    """

    def __init__(
        self,
        spark: Any = None,
        *,
        shards: int | None = None,
        cores: int | None = None,
        settings: Mapping[str, str] | None = None,
        versions: int = KEEP,
        modules: Mapping[str, Template] | None = None,
    ) -> None:
        """Prepare an engine.

        Args:
            spark: A session to use; None starts one in this process when it is needed.
            shards: Into how many shards keyed state is cut; as many tasks can work on it. A query
                that began with another number gets this one when it is started. None: one per
                core, and a query that has begun keeps the number that it has.
            cores: How many cores a session of our own uses; None: all, at most 8.
            settings: More settings for a session of our own.
            versions: How many versions of its state a query keeps: after so many batches what is
                not needed any more is removed.
            modules: The modules that queries can call by name; None: those that are installed.
        """
        check_engine(
            spark=spark,
            shards=shards,
            cores=cores,
            settings=settings,
            versions=versions,
            modules=modules,
        )
        self.versions = versions
        self._spark = spark
        self._own = spark is None
        self._shards = shards
        self._cores = cores
        self._settings = dict(settings or {})
        self._runs = Runs()
        self._close: list[Callable[[], None]] = []
        self._registry = Registry(modules)
        # One object for all expressions: they are cached by it.
        self._types = self._spark_type

    @property
    def spark(self) -> Any:
        """The Spark session."""
        if self._spark is None:
            from anabranch.runtime.spark.session import local_session

            self._spark = local_session(self._cores, self._settings)
        return self._spark

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
        heartbeat: Span | None = None,
        chronon: Span | None = None,
        ordered: bool = False,
        keyed: bool = False,
        unique: Sequence[str | Sequence[str]] | str | None = None,
        edges: Sequence[str] | str | None = None,
        hide_times: bool = False,
        ends: bool = False,
        max_rows_per_batch: int | None = MOST_ROWS,
        max_files_per_batch: int | None = None,
        copies: bool = False,
        replace: bool = False,
    ) -> Stream:
        """A stream out of files or a DataFrame.

        Args:
            source: A path, folder or pattern (Parquet, CSV, JSON rows, stream files, the log
                folder of another query), a Delta table (its path, or `delta:<path>`), or a
                DataFrame, streaming or not.
            name: What plans and messages call it; None: from the path.
            start: The column with the start of each row, or `ARRIVAL` for the time at which rows
                come. None: files hold elements, a DataFrame has the columns of an element table
                (`start`, `end`, `new_end`, `kind`).
            end: The column with the end; without one every row is a point.
            kind: The column that says `insert`, `adjust` or `stable`.
            schema: The payload columns; None: found out.
            delay: No row comes later than that behind the largest start seen. None: only the
                stable points in the stream itself count.
            late: What happens to rows that are later all the same: `drop`, `adjust` or `fail`.
            heartbeat: After so long without a row the stream's time goes on with the clock, so
                that it holds nobody up. None: a silent stream is waited for.
            chronon: How long one step of time is: of whole numbers, so that durations may have
                units; of timestamps, to count them in coarser steps than microseconds.
            ordered: Rows come in the order of their starts. One that does not is late, so there is
                no delay, and a merge may rely on the order.
            keyed: No two events have the same payload and start: a merge relies on it.
            unique: Columns in which no two rows ever agree: a name, or a list of names and of
                tuples of names that count together. The optimizer relies on it.
            edges: Rows are samples of a signal: each holds until the next one with the same value
                in these columns starts. A name, or a list of names; an empty list: of all rows.
            hide_times: The columns of `start` and `end` are not part of the payload.
            ends: The files that are there when the query starts are all.
            max_rows_per_batch: At most about so many rows of files go into a batch.
            max_files_per_batch: At most so many files go into a batch.
            copies: Every log folder and stream file that the path matches is a copy of one stream,
                now or later; a merge makes one stream of them.
            replace: It takes the place of another stream of this name; what SQL has derived from
                that is bound anew. The same stream again needs none.

        Raises:
            StreamError: There is nothing to read, or it cannot be read.
            PlanError: What is declared makes no sense.
        """
        given = checked_options(
            {
                "name": name,
                "start": start,
                "end": end,
                "kind": kind,
                "schema": schema,
                "delay": delay,
                "late": late,
                "heartbeat": heartbeat,
                "chronon": chronon,
                "ordered": ordered,
                "keyed": keyed,
                "unique": unique,
                "edges": edges,
                "hide_times": hide_times,
                "ends": ends,
                "max_rows_per_batch": max_rows_per_batch,
                "max_files_per_batch": max_files_per_batch,
                "copies": copies,
                "replace": replace,
            },
            where=f"engine.stream({shown(source)})",
        )
        declared = Declared(
            name=self._registry.name_for(name, source),
            start=start,
            end=end,
            kind=kind,
            schema=schema,
            delay=delay,
            late=late,
            heartbeat=heartbeat,
            chronon=None if chronon is None else chronon_of(chronon),
            ordered=ordered,
            keyed=keyed,
            unique=column_sets(unique),
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
            hide_times: As for `stream`.
            replace: As for `stream`.

        Raises:
            StreamError: There is nothing to read, or it cannot be read.
            PlanError: What is declared makes no sense.
        """
        given = checked_options(
            {
                "name": name,
                "start": start,
                "end": end,
                "schema": schema,
                "unique": unique,
                "hide_times": hide_times,
                "replace": replace,
            },
            where=f"engine.relation({shown(source)})",
        )
        declared = Declared(
            name=self._registry.name_for(name, source),
            start=start,
            end=end,
            schema=schema,
            chronon=None if chronon is None else chronon_of(chronon),
            unique=column_sets(unique),
            hides_times=hide_times,
            ends=True,
            limits=Limits(None, None),
            relation=True,
            given=given,
        )
        described, leaf = describe_source(source, declared)
        return self._stream(described, leaf, known=name is not None, replace=replace)

    def sql(self, text: str, *, name: str | None = None) -> Any:
        """Run the statements of a script; the last one gives the result.

        Args:
            text: Statements, separated by semicolons.
            name: The path of the script, for messages and for paths in it.

        Returns:
            For a query or a derived stream a `Stream`; for SHOW, DESCRIBE and EXPLAIN a table; for
            all others None.

        Raises:
            QueryError: A statement is wrong; the message points at the place.
        """
        result = None
        for statement in self._registry.read(text, name):
            result = self._execute(statement)
        return result

    def script(self, text: str, *, name: str | None = None) -> list[Stream]:
        """Run the statements of a script and give all its queries, in order."""
        queries = []
        for statement in self._registry.read(text, name):
            result = self._execute(statement)
            if isinstance(statement, Select):
                queries.append(result)
        return queries

    def register_source(self, name: str, function: Connect) -> None:
        """Let `SOURCE name(...)` call a function that gives a path or a DataFrame."""
        NAME_OF_FUNCTION.checked(name, where="register_source(...)")
        FUNCTION_OF_USER.checked(function, where=f"register_source('{name}', ...)")
        self._registry.connectors[name.lower()] = function

    def register(
        self,
        module: Template | ScalarFunction | Any,
        name: str | None = None,
        *,
        replace: bool = False,
    ) -> None:
        """Let queries of this engine call a module or a function by its name.

        Streams that are there already know it, too. Queries that run keep what they began with.

        Args:
            module: What `@uda`, `@udo` or `@udf` has made, or a class derived from `Aggregate`,
                `Operator` and so on.
            name: What queries call it; case does not count. None: by its own name.
            replace: It takes the place of another one of this name.

        Raises:
            PlanError: It is nothing of the kind, or the name is taken, or is none.
        """
        self._registry.register(module, name, replace=replace)

    def register_file(self, path: str | Path, *, replace: bool = False) -> None:
        """Let queries of this engine call all modules and functions of a Python file.

        Args:
            path: The file; what `@uda`, `@udo` and `@udf` have made in it, and classes derived from
                `Aggregate`, `Operator` and so on.
            replace: They take the place of others of their names.

        Raises:
            OperatorError: The file cannot be read or run, or has none.
            PlanError: A name is taken.
        """
        for each in modules_in(path):
            self._registry.register(each, replace=replace)

    @property
    def modules(self) -> Mapping[str, Template]:
        """The modules that queries can call, by name in small letters."""
        return self._registry.modules

    def _execute(self, statement: Statement) -> Any:
        names = self._registry
        match statement:
            case CreateSource():
                source = connect(statement, names.connectors, lambda: self.spark)
                names.declare(statement, lambda declared: describe_source(source, declared))
                return None
            case CreateDerived():
                planned = self._plan(statement)
                names.derive(statement, planned, lambda: self._plan(statement))
                return self._planned(planned, statement.name)
            case CreateFunction():
                return names.define(statement)
            case Drop():
                return names.drop(statement, self._runs.uses())
            case Show(what="QUERIES"):
                return self._runs.shown()
            case Show():
                return names.show(statement)
            case Describe():
                return names.describe(statement)
            case Explain():
                query = self._planned(self._plan(statement), None)
                return pa.table({"plan": [query.explain()]})
            case Select():
                return self._planned(self._plan(statement), self._runs.next_name())

    def _plan(self, statement: CreateDerived | Explain | Select) -> Planned:
        start, end = statement.span
        text = statement.script.text[start:end]
        return self._registry.plan(statement.query, statement.script, text, self._types)

    def _spark_type(self, text: str, schema: pa.Schema) -> pa.DataType:
        """The type that Spark gives an expression which workers cannot evaluate."""
        from anabranch.runtime.spark.spark_types import spark_type

        return spark_type(self.spark)(text, schema)

    def _planned(self, planned: Planned, name: str | None) -> Stream:
        return Stream(
            engine=self,
            node=planned.node,
            sources=self._registry.sources_of(planned.node),
            name=name,
            remarks=planned.notes,
            uses=planned.uses,
            functions=self._registry.scalars,
        )

    def started(self, run: Run, stream: Stream) -> Run:
        """Keep a run in the catalog of queries, under a name of its own."""
        return self._runs.add(run, stream)

    def published(self) -> list[Published]:
        """What running queries write into log folders."""
        return self._runs.published()

    def start_all(
        self,
        queries: Sequence[Stream],
        to: Place | Sequence[Target],
        *,
        emit: Emission = "speculative",
        checkpoint: Place | None = None,
        trigger: Span | None = None,
        available_now: bool = False,
        allow_unbounded: bool = False,
        changed: bool = False,
    ) -> list[Run]:
        """Run several queries as one query of Spark; what they have in common runs once.

        They share every batch and one checkpoint, and so they stop and go on together.

        Args:
            queries: The queries, as `script` gives them.
            to: A folder, where every query writes a log folder under its own name; or a list with
                a place for each, as for `Stream.start`.
            emit: As for `Stream.start`, like all that follow.
            checkpoint: The folder they live in; None: `_checkpoint` in the folder, or beside the
                first of several places.
            trigger: The time between two batches.
            available_now: Process what is there, then end.
            allow_unbounded: Accept windows without bound.
            changed: The queries may be others than those the checkpoint was left with. What is the
                same in them goes on; what is new begins with the next batch, which must be over
                sources that are never corrected, or that are new as well.

        Raises:
            PlanError: There are no queries, or not as many places; or something new would need
                what came before.
        """
        check_run(
            "start_all",
            emit=emit,
            checkpoint=checkpoint,
            trigger=trigger,
            available_now=available_now,
            allow_unbounded=allow_unbounded,
            changed=changed,
        )
        _refuse_other_than_queries(queries)
        names = unlike(queries)
        targets, place = places(names, to)
        chosen = [choose_sink(target, None) for target in targets]
        place = place or next((beside for _, beside in chosen if beside is not None), None)
        named = [replace(each, name=name) for each, name in zip(queries, names, strict=True)]
        return start_together(
            self,
            [(query, make) for query, (make, _) in zip(named, chosen, strict=True)],
            emit=emit,
            checkpoint=place if checkpoint is None else str(checkpoint),
            trigger=trigger,
            available_now=available_now,
            allow_unbounded=allow_unbounded,
            changed=changed,
        )

    def explain_all(self, queries: Sequence[Stream], *, emit: Emission = "speculative") -> str:
        """The stages in which queries run when they are started together."""
        check_run("explain_all", emit=emit)
        _refuse_other_than_queries(queries)
        return explain_stages(plan_together(queries, emit), unlike(queries))

    def serve_metrics(self, port: int = 0, *, host: str = "127.0.0.1") -> int:
        """Serve what all runs do for Prometheus, at `/metrics`, until the engine stops.

        Gives the port, which is any that is free where 0 is asked for.
        """
        check_run("serve_metrics", port=port, host=host)
        from anabranch.runtime.query.prometheus import serve_metrics

        port, close = serve_metrics(lambda: self._runs.each, port, host)
        self.closes(close)
        return port

    def closes(self, close: Callable[[], None]) -> None:
        """Take note of something to be closed at the end."""
        self._close.append(close)

    def stop(self) -> None:
        """Stop what this engine has started."""
        self._runs.stop()
        for close in self._close:
            close()
        if self._own and self._spark is not None:
            self._spark.stop()
            self._spark = None
        self._close = []

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

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
            engine=self,
            node=node,
            sources={leaf.name: source},
            functions=self._registry.scalars,
        )

    @property
    def has_shards(self) -> bool:
        """Whether somebody said into how many."""
        return self._shards is not None

    def shard_count(self) -> int:
        """Into how many shards keyed state is cut."""
        if self._shards is not None:
            return self._shards
        from anabranch.runtime.spark.session import parallelism

        return parallelism(self.spark)


def _refuse_other_than_queries(queries: Any) -> None:
    """Several queries are started, or explained, together: a list of them."""
    if isinstance(queries, Sequence) and all(isinstance(each, Stream) for each in queries):
        return
    raise PlanError(
        f"queries must be a list of queries, not {shown(queries)}",
        where="start_all(...)",
        hint="give what engine.sql or engine.script has made: [first, second]",
    )
