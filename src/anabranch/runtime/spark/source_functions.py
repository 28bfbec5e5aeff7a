"""What may stand behind SOURCE: paths, tables of Spark, Delta tables, functions of users."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.algebra.source import Source
from anabranch.errors import AnabranchError, OperatorError, PlanError, StreamError
from anabranch.language.text.statements import CreateSource
from anabranch.runtime.option import shown
from anabranch.runtime.sources.declare.declared import Declared
from anabranch.runtime.sources.declare.describe import describe_files
from anabranch.runtime.sources.declare.describe_delta import describe_delta
from anabranch.runtime.sources.files.delta_table import DELTA
from anabranch.runtime.sources.files.listing import DELTA_FOLDER
from anabranch.runtime.sources.location import local_path

Connect: TypeAlias = Callable[..., Any]
"""A function of a user: takes the arguments behind SOURCE, gives a path or a DataFrame."""

GetSpark: TypeAlias = Callable[[], Any]


def connect(statement: CreateSource, functions: Mapping[str, Connect], spark: GetSpark) -> Any:
    """The path or the DataFrame that a statement names.

    Raises:
        QueryError: There is no such function, or it does not take these arguments.
    """
    call = statement.source
    if call.function is None:
        return resolve_path(str(call.arguments[0]), statement.script.name)
    name = call.function.lower()
    if name in functions:
        return _called(functions[name], statement)
    builtin = _BUILTIN.get(name)
    if builtin is None:
        names = ", ".join(sorted([*functions, *_BUILTIN]))
        raise statement.script.wrong(
            f"there is no source function '{call.function}'",
            call.span,
            f"register it: engine.register_source('{call.function}', function); there are: {names}",
        )
    if name not in ("table", "spark"):
        return builtin(statement, spark)
    try:
        return builtin(statement, spark)
    except AnabranchError:
        raise
    except Exception as problem:
        # Spark has many kinds of exceptions, and loading them takes seconds.
        first = (str(problem).strip().splitlines() or [type(problem).__name__])[0]
        shown = ", ".join(map(repr, call.arguments))
        raise StreamError(
            f"Spark cannot read {call.function}({shown})",
            where=f"source '{statement.name}': {first[:300]}",
            hint="check the name, the path and the options of WITH; a format such as kafka needs "
            "its package: Engine(settings={'spark.jars.packages': '...'})",
        ) from problem


def _called(function: Connect, statement: CreateSource) -> Any:
    """What a function of a user gives."""
    call = statement.source
    try:
        return function(*call.arguments)
    except AnabranchError:
        raise
    except Exception as problem:
        raise OperatorError(
            f"{call.function} failed: {type(problem).__name__}: {problem}",
            where=f"source '{statement.name}': {call.function}"
            f"({', '.join(map(repr, call.arguments))})",
            hint="correct the function or its arguments",
        ) from problem


def resolve_path(path: str, script: str | None) -> str:
    """A path from here; where there is nothing, one from the folder of the script."""
    if path.startswith(DELTA):
        return DELTA + resolve_path(path.removeprefix(DELTA), script)
    if script is None or "://" in path or Path(path).is_absolute():
        return path
    beside = Path(script).parent / path
    return path if _anything(path) or not _anything(str(beside)) else str(beside)


def _anything(path: str) -> bool:
    location = Path(path)
    if any(mark in path for mark in "*?["):
        root = Path(location.anchor or ".")
        pattern = str(location.relative_to(root)) if location.is_absolute() else path
        return next(iter(root.glob(pattern)), None) is not None
    return location.exists()


def _files(statement: CreateSource, _spark: GetSpark) -> Any:
    (path,) = _arguments(statement, "files('path')", 1, 1)
    return resolve_path(str(path), statement.script.name)


def _spark_table(statement: CreateSource, spark: GetSpark) -> Any:
    """`table('bids')`: a table or view that Spark knows."""
    (name,) = _arguments(statement, "table('name')", 1, 1)
    session = spark()
    return session.read.table(name) if statement.relation else session.readStream.table(name)


def _spark_format(statement: CreateSource, spark: GetSpark) -> Any:
    """`spark('kafka')`, `spark('parquet', 'path')`: what Spark reads, with options from WITH."""
    given = _arguments(statement, "spark('format', 'path')", 1, 2)
    session = spark()
    reader = session.read if statement.relation else session.readStream
    reader = reader.format(str(given[0]))
    if statement.columns is not None and str(given[0]) not in ("kafka", "rate", "delta"):
        from pyspark.sql.pandas.types import from_arrow_schema

        reader = reader.schema(from_arrow_schema(statement.columns))
    for key, value in statement.options.items():
        if key.lower() != "kind":
            reader = reader.option(key, value)
    return reader.load(str(given[1])) if len(given) > 1 else reader.load()


def _delta(statement: CreateSource, _spark: GetSpark) -> Any:
    """`delta('path')`: a Delta table, read without Spark's connector."""
    (path,) = _arguments(statement, "delta('path')", 1, 1)
    return resolve_path(f"{DELTA}{path}", statement.script.name)


def delta_snapshot(path: str) -> str:
    """The rows that a Delta table has now, as a Parquet file that is written once per version.

    Raises:
        PlanError: There is no Delta table.
    """
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    try:
        table = DeltaTable(path)
        version = table.version()
    except (DeltaError, OSError) as problem:
        raise PlanError(
            "there is no Delta table",
            where=f"{path}: {str(problem).splitlines()[0][:200]}",
            hint="check the path; a Delta table has a folder _delta_log",
        ) from None
    key = hashlib.sha256(str(Path(path).absolute()).encode()).hexdigest()[:16]
    file = Path(tempfile.gettempdir()) / DELTA_FOLDER / key / f"version-{version}.parquet"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        rows = pa.table(table.to_pyarrow_table())
        part = file.with_suffix(".part")
        pq.write_table(rows, part)
        part.replace(file)
    return str(file)


def _arguments(statement: CreateSource, usage: str, least: int, most: int) -> tuple[Any, ...]:
    given = statement.source.arguments
    if not least <= len(given) <= most:
        raise statement.script.wrong(
            f"'{statement.source.function}' does not take {len(given)} arguments",
            statement.source.span,
            f"write SOURCE {usage}",
        )
    return given


_BUILTIN: Final[Mapping[str, Callable[[CreateSource, GetSpark], Any]]] = {
    "files": _files,
    "table": _spark_table,
    "spark": _spark_format,
    "delta": _delta,
}


def _describe_delta(path: str, declared: Declared) -> tuple[Any, Source]:
    """A Delta table that is called one; elsewhere than on a disk only as a relation."""
    if not path.strip():
        raise PlanError(
            "the path of the Delta table is missing",
            where=f"source '{declared.name}'",
            hint="write delta:<path>",
        )
    if "://" not in path.removeprefix("file://"):
        return describe_delta(path.removeprefix("file://"), declared)
    if not declared.relation:
        raise PlanError(
            "a Delta table that is not on a local disk can only be read as a relation",
            where=f"source '{declared.name}': {path}",
            hint=f"write CREATE TABLE {declared.name} SOURCE delta('{path}'), or let Spark read "
            f"it: SOURCE spark('delta', '{path}')",
        )
    return describe_files(delta_snapshot(path), declared)


def describe_source(source: Any, declared: Declared) -> tuple[Any, Source]:
    """A path or a DataFrame as a source, and the leaf it is in a plan.

    Raises:
        StreamError: There is nothing to read.
        PlanError: It is neither, or what is declared makes no sense.
    """
    if isinstance(source, str) and source.startswith(DELTA):
        return _describe_delta(source.removeprefix(DELTA), declared)
    if isinstance(source, str | Path) and str(source).strip():
        path = local_path(source, where=f"source '{declared.name}': {source}")
        return describe_files(path, declared)
    if not hasattr(source, "isStreaming"):
        raise PlanError(
            f"a stream cannot be read from {type(source).__name__} {shown(source)}",
            where=f"source '{declared.name}'",
            hint="give a path, a folder, a pattern, a DataFrame (of Spark, pandas or Polars), an "
            "Arrow table or a list of dictionaries",
        )
    from anabranch.runtime.spark.frame_source import describe_frame

    return describe_frame(source, declared)
