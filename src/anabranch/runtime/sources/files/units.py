"""Cut what is new in a file into units of work, with exact positions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Final, final

import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.errors import StreamError
from anabranch.model.record import OMITTED
from anabranch.runtime.messages.heads import LogFile
from anabranch.runtime.sources.files.listing import ABOUT, LOG, is_compressed
from anabranch.runtime.sources.files.log_records import LogBase, log_about, log_entry
from anabranch.runtime.sources.files.parquet_times import StartStatistics
from anabranch.runtime.sources.files.reader import WHOLE, FileSplit
from anabranch.runtime.sources.spec import FileForm, Shape

BLOCK_BYTES: Final = 4 << 20
"""Lines of a file are counted in blocks of so many bytes."""


@final
@dataclass(frozen=True, slots=True)
class Position:
    """How far a file has been planned: the next byte or row group, and its line or row.

    `WHOLE` as the offset means that nothing more can come. The rest is what the file was like then,
    by which `rewritten` knows it again, and None where nobody has looked: its bytes, the time of
    its last change in nanoseconds since 1970, and a checksum of what is right before the offset.
    """

    row: ClassVar[bool] = True

    offset: int = 0
    number: int = 1
    size: int | None = field(default=None, metadata=OMITTED, compare=False)
    modified: int | None = field(default=None, metadata=OMITTED, compare=False)
    tail: int | None = field(default=None, metadata=OMITTED, compare=False)


START: Final = Position()


@final
@dataclass(frozen=True, slots=True)
class Unit:
    """A piece of work of about so many rows, and where its file stands after it.

    `bytes` is what it takes when it is not compressed; 0: nobody has looked.
    """

    file: str
    splits: tuple[FileSplit, ...]
    rows: int
    after: Position
    bytes: int = 0


def new_units(
    form: FileForm, file: Path, size: int, at: Position, shape: Shape | None = None
) -> Iterator[Unit]:
    """What a file has beyond a position, piece by piece.

    Args:
        form: What the file holds.
        file: The file.
        size: How many bytes of it count (it may be growing).
        at: How far it has been planned.
        shape: Which columns are times, where it matters how late it gets in a piece.
    """
    if at.offset == WHOLE or (at.offset >= size > 0 and form in ("lines", "json")):
        return iter(())
    if form in ("parquet", "log"):
        return _row_groups(file, at, shape)
    if form == "csv" or is_compressed(file):
        # The number of rows is a guess: nobody has looked into the file yet.
        return iter([_unit(FileSplit(str(file), 0, WHOLE), 1 + size // 64, Position(WHOLE))])
    return _lines(file, size, at)


def new_log_units(root: Path, size: int, at: Position) -> Iterator[Unit]:
    """What a log folder has beyond a position; here size and offset count batches.

    A batch of the log stays in one piece, for its stable point holds after all of it. The changes
    of its revisions come first: they are late rows. Who has read nothing yet begins with the base
    of the log, or with its first entry.

    Raises:
        StreamError: An entry was removed before it was read.
    """
    next_number = at.offset
    if not next_number and size:
        base = _base(root)
        if base is not None:
            yield _log_unit(root, base.batch, base.stable, base.files)
            next_number = base.batch + 1
        else:
            next_number = min(_log_numbers(root), default=0)
    for number in range(next_number, size):
        file = root / LOG / f"{number}.json"
        try:
            entry = log_entry(json.loads(file.read_text()), str(file))
        except FileNotFoundError:
            raise _removed(root, number) from None
        changes = tuple(revision.file for revision in entry.revisions)
        yield _log_unit(root, number, entry.stable, entry.files, changes)


def _log_unit(
    root: Path,
    number: int,
    stable: int,
    files: Sequence[LogFile],
    changes: Sequence[LogFile] = (),
) -> Unit:
    splits = [FileSplit(str(root / part.name), 0, WHOLE, change="revision") for part in changes]
    splits += [FileSplit(str(root / part.name), 0, WHOLE) for part in files]
    splits.append(FileSplit("", 0, 0, stable=stable))
    rows = sum(part.rows for part in (*changes, *files))
    return Unit(str(root), tuple(splits), rows, Position(number + 1))


def _base(root: Path) -> LogBase | None:
    file = root / LOG / ABOUT
    try:
        return log_about(json.loads(file.read_bytes()), str(file)).base
    except FileNotFoundError:
        return None


def _removed(root: Path, number: int) -> StreamError:
    there = min((each for each in _log_numbers(root) if each > number), default=None)
    begins = "" if there is None else f"; the next one that is there is {there}"
    return StreamError(
        f"batch {number} of the log was removed before it was read",
        where=f"{root}{begins}",
        hint="start the query with a new checkpoint: it begins with what the log still holds; cut "
        "a log only before what all of its readers have read",
    )


def log_size(root: Path) -> int:
    """How many batches a log folder has."""
    return max(_log_numbers(root), default=-1) + 1


def _log_numbers(root: Path) -> list[int]:
    return [int(file.stem) for file in (root / LOG).glob("*.json") if file.stem.isdigit()]


def _unit(split: FileSplit, rows: int, after: Position, size: int = 0) -> Unit:
    return Unit(split.path, (split,), rows, after, size)


def _row_groups(file: Path, at: Position, shape: Shape | None) -> Iterator[Unit]:
    try:
        metadata = pq.read_metadata(file)
    except (pa.ArrowInvalid, OSError) as problem:
        raise StreamError(
            "not a complete Parquet file",
            where=f"{file}: {str(problem)[:120]}",
            hint="write a file under a name that begins with '_' or '.', and rename it when done",
        ) from None
    number = at.number
    statistics = StartStatistics(metadata, shape)
    for group in range(at.offset, metadata.num_row_groups):
        about = metadata.row_group(group)
        rows = about.num_rows
        is_last = group + 1 == metadata.num_row_groups
        after = Position(WHOLE if is_last else group + 1, number + rows)
        latest = statistics.latest(group)
        split = FileSplit(str(file), group, group + 1, number, latest=latest)
        yield _unit(split, rows, after, about.total_byte_size)
        number += rows


def _lines(file: Path, size: int, at: Position) -> Iterator[Unit]:
    """Blocks of whole lines; a last line without its end counts if it is whole JSON."""
    offset, number = at.offset, at.number
    with file.open("rb") as data:
        data.seek(offset)
        rest = b""
        read = offset
        while read < size:
            block = data.read(min(BLOCK_BYTES, size - read))
            if not block:
                break
            read += len(block)
            rest += block
            cut = rest.rfind(b"\n") + 1
            if not cut and read < size:
                continue
            if read >= size and cut < len(rest) and _is_json(rest[cut:]):
                cut = len(rest)
            if not cut:
                return
            lines = rest.count(b"\n", 0, cut) + (rest[cut - 1 : cut] != b"\n")
            after = Position(offset + cut, number + rest.count(b"\n", 0, cut))
            yield _unit(FileSplit(str(file), offset, offset + cut, number), lines, after, cut)
            offset, number, rest = after.offset, after.number, rest[cut:]


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def first_lines(unit: Unit, rows: int) -> Unit:
    """The first so many lines of a unit of text."""
    (split,) = unit.splits
    if unit.rows <= rows or split.last == WHOLE:
        return unit
    with Path(split.path).open("rb") as data:
        data.seek(split.first)
        text = data.read(split.last - split.first)
    end = 0
    for _ in range(rows):
        end = text.index(b"\n", end) + 1
    after = Position(split.first + end, split.number + rows)
    return _unit(FileSplit(split.path, split.first, after.offset, split.number), rows, after, end)


def share_units(
    units: Sequence[Unit], parts: int, *, by_file: bool, least: int = 1
) -> list[list[FileSplit]]:
    """Neighbours stay together, and if wanted files; parts get about the same number of rows.

    None is made for less than `least` rows, but for the first.
    """
    total = sum(unit.rows for unit in units)
    parts = min(parts, max(1, total // least))
    shared: list[list[FileSplit]] = []
    count = 0
    last = ""
    for unit in units:
        part = min(parts - 1, count * parts // max(total, 1))
        if not shared or (len(shared) <= part and not (by_file and unit.file == last)):
            shared.append([])
        for split in unit.splits:
            _append(shared[-1], split)
        count += unit.rows
        last = unit.file
    return shared


def _append(splits: list[FileSplit], split: FileSplit) -> None:
    """Add a split, as the continuation of the last one where it is that."""
    last = splits[-1] if splits else None
    if last and split.path and last.path == split.path and last.last == split.first > 0:
        both = (last.latest, split.latest)
        latest = None if None in both else max(each for each in both if each is not None)
        splits[-1] = replace(last, last=split.last, latest=latest)
    else:
        splits.append(split)
