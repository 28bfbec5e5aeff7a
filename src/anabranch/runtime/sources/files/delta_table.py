"""Which files of a Delta table count: those of a version, and those that a version has changed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.errors import StreamError
from anabranch.runtime.sources.files.delta_rows import KIND, Change
from anabranch.runtime.sources.files.parquet_times import StartStatistics
from anabranch.runtime.sources.files.reader import FileSplit
from anabranch.runtime.sources.files.units import Position, Unit
from anabranch.runtime.sources.spec import FileSource, Shape

if TYPE_CHECKING:
    from deltalake import DeltaTable

DELTA_LOG: Final = "_delta_log"
"""The folder in a Delta table that says which files count."""

DELTA: Final = "delta:"

_READABLE: Final = frozenset({"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"})
"""Features of a table that change nothing about how its files are read."""

_GROUPS: Final = 1 << 20
"""More row groups than a file has; a position counts files in steps of this."""

_CHANGES: Final[Mapping[str, Change]] = {"add": "", "remove": "delete", "cdc": "feed"}


@final
@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file with the values of the columns by which the table is partitioned."""

    path: str
    values: tuple[tuple[str, str | None], ...]
    change: Change = ""


def is_delta_table(path: str) -> bool:
    """Whether a folder is a Delta table."""
    return (Path(path) / DELTA_LOG).is_dir()


def delta_schema(root: str) -> tuple[pa.Schema, bool]:
    """The columns of a table, and whether it keeps a feed of its changes.

    Raises:
        StreamError: There is no such table, or it has features that are not known here.
    """
    from deltalake.exceptions import DeltaError

    table = _opened(root)
    try:
        features = set(table.protocol().reader_features or ())
        settings = table.metadata().configuration
        schema = pa.schema(table.schema().to_arrow())
    except (DeltaError, pa.ArrowException, OSError, ValueError) as problem:
        raise _broken(root, problem) from None
    unknown = sorted(features - _READABLE)
    if settings.get("delta.columnMapping.mode", "none") != "none":
        unknown = ["columnMapping"]
    if unknown:
        raise StreamError(
            f"the Delta table uses {unknown[0]}, which is not supported",
            where=root,
            hint=f"let Spark read it: SOURCE spark('delta', '{root}'); or rewrite the table "
            "without that feature",
        )
    return schema, settings.get("delta.enableChangeDataFeed", "false").lower() == "true"


def tells_changes(source: FileSource) -> bool:
    """Whether rows that are taken away become elements of a source."""
    return source.shape is not None and source.shape.kind == KIND


def last_version(root: str) -> int:
    """The number of the newest version; it runs before every batch, so it only lists names.

    Raises:
        StreamError: There is none.
    """
    numbers = [
        int(name[:20])
        for name in os.listdir(Path(root) / DELTA_LOG)  # noqa: PTH208 (names, not paths)
        if name.endswith(".json") and name[:20].isdigit() and len(name) == 25
    ]
    if not numbers:
        raise _broken(root, "its log has no version")
    return max(numbers)


def snapshot_bytes(root: str) -> int:
    """How large the files of the newest version are."""
    return sum(os.stat(file.path).st_size for file in snapshot_files(root, last_version(root)))  # noqa: PTH116


@lru_cache(maxsize=8)
def snapshot_files(root: str, version: int) -> tuple[DataFile, ...]:
    """The files of a version, those that were written first in front.

    Raises:
        StreamError: The version cannot be read (any more).
    """
    table = _opened(root, version)
    actions = pa.table(table.get_add_actions(flatten=False)).combine_chunks()
    rows = actions.select(["path", "modification_time"]).to_pylist()
    found = [(row["modification_time"], row["path"]) for row in rows]
    values = _partition_texts(actions)
    order = sorted(range(len(found)), key=lambda unit: found[unit])
    return tuple(DataFile(_local(root, found[at][1]), values[at]) for at in order)


@lru_cache(maxsize=64)
def version_files(root: str, version: int, *, feed: bool) -> tuple[DataFile, ...]:
    """What a version adds; where there is a feed of changes also what it takes away.

    Rewriting files without changing rows (OPTIMIZE) is no change.

    Raises:
        StreamError: The version is gone, or takes rows away and there is no feed.
    """
    adds, removes, changes = list[DataFile](), list[DataFile](), list[DataFile]()
    for action in _actions(root, version):
        if "protocol" in action or "metaData" in action:
            delta_schema(root)
        for name, found in (("add", adds), ("remove", removes), ("cdc", changes)):
            details = action.get(name)
            if details is None or (name != "cdc" and not details.get("dataChange", True)):
                continue
            values = tuple(sorted((details.get("partitionValues") or {}).items()))
            found.append(DataFile(_local(root, details["path"]), values, _CHANGES[name]))
    if removes and not feed:
        raise StreamError(
            f"version {version} of the Delta table removes rows",
            where=f"{root}: {Path(removes[0].path).name} was removed",
            hint="a stream of a table that is only appended to cannot take rows back; set "
            "delta.enableChangeDataFeed = true on the table before it is changed and declared, or "
            "read it with CREATE TABLE",
        )
    # Files of the feed tell all about their version; else whole files came and went.
    return tuple(changes) if changes else (*removes, *adds)


def new_delta_units(
    root: Path, size: int, at: Position, *, feed: bool | None, start: str | None = None
) -> Iterator[Unit]:
    """What a Delta table has beyond a position, row group by row group.

    A position of `(v, n)` is at the files that version `v` has added; one of `(-v - 2, n)` among
    all files of version `v`, with which reading began. `n` is one more than the number of the
    file times `_GROUPS` plus that of the row group. So a restart finds its place without opening
    the files before it. For example, (-7, 1 + 3 * _GROUPS + 2) is before row group 2 of the fourth
    file of version 5.

    Args:
        root: The table.
        size: How many versions of it count.
        at: How far it has been planned.
        feed: Whether changes can be told; None: only the version with which reading began counts.
        start: The column with the start, where it matters how late it gets in a piece.
    """
    shape = None if start is None else Shape(start=start)
    version, unit = size - 1, at.number - 1
    if at.offset > 0:
        version = at.offset - 1
    else:
        if at.offset < -1:
            version = -at.offset - 2
        files = snapshot_files(str(root), version)
        yield from _units(root, files, unit, shape, before=-version - 2, after=version + 1)
        unit = 0
    for number in () if feed is None else range(version + 1, size):
        assert feed is not None
        files = version_files(str(root), number, feed=feed)
        yield from _units(root, files, unit, shape, before=number, after=number + 1)
        unit = 0


def _units(
    root: Path,
    files: tuple[DataFile, ...],
    unit: int,
    shape: Shape | None,
    *,
    before: int,
    after: int,
) -> Iterator[Unit]:
    first, group = divmod(unit, _GROUPS)
    if not files:
        yield Unit(str(root), (), 0, Position(after))
    for index in range(first, len(files)):
        file = files[index]
        try:
            metadata = pq.read_metadata(file.path)
        except (pa.ArrowInvalid, OSError) as problem:
            raise StreamError(
                "a file of the Delta table cannot be read",
                where=f"{file.path}: {str(problem)[:120]}",
                hint="VACUUM removes files of old versions: let it keep them until queries have "
                "read them",
            ) from None
        rows = [metadata.row_group(each).num_rows for each in range(metadata.num_row_groups)]
        number = 1 + sum(rows[:group])
        is_partition_value = shape is not None and shape.start in dict(file.values)
        statistics = StartStatistics(metadata, None if is_partition_value else shape)
        for each in range(group, len(rows)) or (0,):
            last = each + 1 >= len(rows)
            following = Position(before, 1 + index * _GROUPS + each + 1)
            if last:
                ends = index + 1 == len(files)
                following = Position(after) if ends else Position(before, 1 + (index + 1) * _GROUPS)
            split = FileSplit(
                file.path,
                each,
                each + 1 if rows else 0,
                number,
                values=file.values,
                change=file.change,
                latest=statistics.latest(each) if rows else None,
            )
            yield Unit(str(root), (split,), rows[each] if rows else 0, following)
            number += rows[each] if rows else 0
        group = 0


def _actions(root: str, version: int) -> list[dict[str, Any]]:
    file = Path(root) / DELTA_LOG / f"{version:020}.json"
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines if line.strip()]
    except FileNotFoundError:
        raise StreamError(
            f"version {version} of the Delta table is no longer in its log",
            where=root,
            hint="the log forgets versions after delta.logRetentionDuration; start the query with "
            "a new checkpoint, and let the log keep them longer",
        ) from None
    except (OSError, ValueError) as problem:
        raise _broken(root, problem) from None


def _partition_texts(actions: pa.Table) -> list[tuple[tuple[str, str | None], ...]]:
    if "partition" not in actions.column_names:
        return [()] * actions.num_rows
    column = actions.column("partition").combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else None
    if column is None or not column.type.num_fields:
        return [()] * actions.num_rows
    fields = [column.type.field(each) for each in range(column.type.num_fields)]
    texts = [column.field(n).cast(pa.string()).to_pylist() for n in range(len(fields))]
    names = [field.name for field in fields]
    return [tuple(sorted(zip(names, row, strict=True))) for row in zip(*texts, strict=True)]


def _local(root: str, path: str) -> str:
    """Where a file is; the log writes paths as addresses, from the table or absolute."""
    return str(Path(root) / unquote(path.removeprefix("file://")))


def _opened(root: str, version: int | None = None) -> DeltaTable:
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    try:
        return DeltaTable(root, version=version)
    except (DeltaError, pa.ArrowException, OSError, ValueError) as problem:
        raise _broken(root, problem) from None


def _broken(root: str, problem: object) -> StreamError:
    first = (str(problem).splitlines() or [""])[0][:200]
    return StreamError(
        "the Delta table cannot be read" if is_delta_table(root) else "there is no Delta table",
        where=f"{root}: {first}",
        hint="check the path; a Delta table has a folder _delta_log",
    )
