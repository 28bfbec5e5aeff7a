"""Which sink a target asks for."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from anabranch.errors import PlanError
from anabranch.runtime.sinks.line_sinks import LinesSink, StreamFileSink
from anabranch.runtime.sinks.message_sink import Messages, MessageSink
from anabranch.runtime.sinks.sinks import (
    Callback,
    CallbackSink,
    LogSink,
    MemorySink,
    NothingSink,
    Sink,
)
from anabranch.runtime.sources.location import STREAM_FILES, sink_scheme
from anabranch.runtime.store.folder import Folder

_OTHER_FORMATS: Final = (".csv", ".tsv", ".parquet", ".xlsx", ".txt", ".db", ".avro", ".orc")
"""Ends of names that nobody gives to a folder."""

_POSTGRES: Final = ("postgresql://", "postgres://")


def shown_target(to: str) -> str:
    """A target as others may see it: without passwords.

    >>> shown_target("postgresql://ann:secret@db/shop?table=top"), shown_target("out/")
    ('postgresql://db/shop, table top', 'out/')
    """
    if not to.startswith(_POSTGRES):
        return to
    from anabranch.runtime.sinks.postgres_table import PostgresTable

    table = PostgresTable.parse(to)
    return f"{table.shown}, table {'.'.join(table.table)}"


def choose_sink(
    to: str | Path | Messages | None, foreach: Callback | None
) -> tuple[Callable[[Folder], Sink], str | None]:
    """How to make the sink that a user asks for, and where its query lives by default.

    The sink gets a folder for what it has to remember. A `Path` is a path, whatever it looks like.

    Raises:
        PlanError: Nothing can be written there.
    """
    if foreach is not None:
        if to is not None:
            raise PlanError(
                "results have exactly one output",
                where=f"to={to!r}, foreach={getattr(foreach, '__name__', foreach)}",
                hint="give `to` or `foreach`, not both",
            )
        return (lambda _: CallbackSink(foreach)), None
    if isinstance(to, Messages):
        return (lambda _: MessageSink(to)), None
    if to is None or to == "memory":
        return (lambda _: MemorySink()), None
    if to == "nothing":
        return (lambda _: NothingSink()), None
    if to == "-":
        return (lambda _: LinesSink(sys.stdout.buffer)), None
    path = str(to).removeprefix("file://")
    scheme = None if isinstance(to, Path) else sink_scheme(path)
    if scheme == "delta":
        from anabranch.runtime.sinks.delta_sink import DeltaSink, parse_delta

        table, keep = parse_delta(path)
        return (lambda _: DeltaSink(table, keep)), f"{table.rstrip('/')}.checkpoint"
    if scheme in ("postgresql", "postgres"):
        from anabranch.runtime.sinks.postgres_sink import PostgresSink
        from anabranch.runtime.sinks.postgres_table import PostgresTable

        relation = PostgresTable.parse(path)
        return (lambda _: PostgresSink(relation)), None
    if path.endswith(STREAM_FILES):
        return (lambda out: StreamFileSink(path, out)), f"{path}.checkpoint"
    if path.endswith(_OTHER_FORMATS) and not Path(path).is_dir():
        raise PlanError(
            f"results are not written as {Path(path).suffix[1:]} files",
            where=f"to={path!r}",
            hint="write a stream file ('answer.jsonl'), a log folder of Parquet files ('answer'), "
            "delta:PATH or postgresql://...; run.to_pandas().to_csv(...) writes what holds when",
        )
    return (lambda _: LogSink(path)), f"{path}/_checkpoint"
