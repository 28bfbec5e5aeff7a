"""Stream files: JSON lines or Parquet, read in pieces and written in order."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import IO, Final, final

import pyarrow as pa

from anabranch.errors import StreamError
from anabranch.model.arrivals import Arrivals
from anabranch.model.batch import EventBatch
from anabranch.model.clock import INTEGERS, MICROSECONDS, Clock
from anabranch.model.files.infer_schema import has_iso_times, infer_payload
from anabranch.model.files.line_writer import write_lines
from anabranch.model.files.stream_lines import LineReader
from anabranch.model.files.stream_parquet import (
    describe_parquet,
    parquet_has_revisions,
    read_parquet,
    write_parquet,
)
from anabranch.model.revision import Revision
from anabranch.model.time import BEGINNING, Time

CHUNK_ROWS: Final = 65_536
BLOCK_BYTES: Final = 8 * 2**20
"""Files of lines are read in blocks of about so many bytes."""

_PARQUET: Final = b"PAR1"
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class StreamForm:
    """What is known of a stream file before it is read.

    Attributes:
        schema: The payload columns.
        clock: How the file counts time: microseconds of timestamps, or plain numbers.
        unit: What positions count: `line` or `row`.
        since: It has all events that end there or later; what was before has been removed.
        revised: The number of the newest revision among what was removed.
    """

    schema: pa.Schema
    clock: Clock
    unit: str
    since: Time = BEGINNING
    revised: int = 0

    @property
    def timestamps(self) -> bool:
        """Whether times are timestamps, not plain numbers."""
        return self.clock.timestamps


def describe(path: str | Path, *, whole: bool = False, name: str = "") -> StreamForm:
    """The form of a stream file.

    The columns of JSON lines are inferred: from the first block of the file that has a payload,
    or from the whole file. Numbers, texts, booleans, objects and lists keep their JSON types.
    Errors call the file by `name` if one is given.
    """
    file = _existing(path)
    if _is_parquet(file):
        schema, clock = describe_parquet(file)
        return StreamForm(schema=schema, clock=clock, unit="row")
    schema, timestamps = pa.schema([]), False
    for data, first_line in _blocks(file, BLOCK_BYTES):
        schema = infer_payload(data, first_line, name or str(path), schema)
        timestamps = timestamps or has_iso_times(data)
        if len(schema) and not whole:
            break
    clock = MICROSECONDS if timestamps else INTEGERS
    return StreamForm(schema=schema, clock=clock, unit="line")


def read_batches(
    path: str | Path, schema: pa.Schema | None = None, chunk_rows: int = CHUNK_ROWS
) -> Iterator[EventBatch]:
    """The stream in batches of about `chunk_rows` rows; stable points only rise.

    Without a schema the columns are inferred from the first block of the file. Changes of revisions
    are ordinary rows below the stable point: all rows together mean the snapshots after all
    revisions. `read_parts` tells them apart.

    Raises:
        StreamError: The file cannot be read, or a line is not an element of the schema.
    """
    reached = int(BEGINNING)
    for piece in read_arrivals(path, schema, chunk_rows):
        reached = max(reached, piece.batch.stable)
        yield piece.flattened().batch.with_stable(Time(reached))


def read_parts(
    path: str | Path, schema: pa.Schema | None = None
) -> Iterator[EventBatch | Revision]:
    """The stream in batches of rows, with the revisions between them; as `write_stream` takes it.

    Raises:
        StreamError: The file cannot be read, or a line is not an element of the schema.
    """
    for piece in read_arrivals(path, schema):
        yield from piece.parts()


def read_arrivals(
    path: str | Path,
    schema: pa.Schema | None = None,
    chunk_rows: int = CHUNK_ROWS,
    *,
    name: str = "",
    strict: bool = True,
    revised: int = 0,
    on_bytes: Callable[[int], None] | None = None,
) -> Iterator[Arrivals]:
    """The stream in pieces that remember positions, and the promises in between.

    Args:
        path: A file of JSON lines (may be compressed) or a Parquet file of elements.
        schema: The payload columns; inferred from the first block of the file if not given.
        chunk_rows: At most so many rows per piece.
        name: What errors call the file; its path if not given.
        strict: Refuse lifetimes that end before they start, and revisions that do not count up.
        revised: The number of the newest revision before the beginning of the file.
        on_bytes: Is told how many bytes have been read, now and then.
    """
    file = _existing(path)
    payload_schema = describe(file, name=name).schema if schema is None else schema
    called = name or str(path)
    for piece in _pieces(file, payload_schema, chunk_rows, called, strict, on_bytes):
        if strict and piece.revisions:
            _refuse_miscounted(piece, revised, f"{called}, {_unit(file)}")
            revised = piece.revisions[-1].number
        yield piece


def has_revisions(path: str | Path) -> bool:
    """Whether a stream file may hold a revision; a look that is much cheaper than reading it."""
    file = _existing(path)
    if _is_parquet(file):
        return parquet_has_revisions(file)
    return any(b"revise" in data or b"\\u" in data for data, _ in _blocks(file, BLOCK_BYTES))


def _pieces(
    file: Path,
    schema: pa.Schema,
    chunk_rows: int,
    name: str,
    strict: bool,
    on_bytes: Callable[[int], None] | None,
) -> Iterator[Arrivals]:
    if _is_parquet(file):
        yield from read_parquet(file, schema, chunk_rows)
        return
    reader = LineReader(schema=schema, name=name, strict=strict)
    read = 0
    for data, first_line in _blocks(file, min(BLOCK_BYTES, max(2**16, 128 * chunk_rows))):
        yield from reader.read(data, first_line).split(chunk_rows)
        read += len(data)
        if on_bytes is not None:
            on_bytes(read)


def _refuse_miscounted(piece: Arrivals, before: int, where: str) -> None:
    for revision, position in zip(piece.revisions, piece.revision_positions):
        if revision.number != before + 1:
            raise StreamError(
                f"revision {revision.number} where revision {before + 1} was expected",
                where=f"{where} {position}",
                hint="revisions of a stream count up from 1, without gaps",
            )
        before = revision.number


def _unit(file: Path) -> str:
    return "row" if _is_parquet(file) else "line"


def read_lines(
    data: bytes, schema: pa.Schema, first_line: int = 1, *, name: str = "stream"
) -> Arrivals:
    r"""The elements in a piece of a file of JSON lines; the piece consists of whole lines.

    `Arrivals.bound` gives for each row the stable point that the piece itself had reached before
    it, so that a caller who knows the stable point before the piece can find late rows.

    >>> piece = read_lines(b'{"stable": 9}\n{"insert": {"a": 1}, "start": 5}\n',
    ...                    pa.schema([("a", pa.int64())]), first_line=40)
    >>> piece.position.tolist(), piece.bound.tolist(), piece.batch.start.tolist()
    ([41], [9], [5])
    """
    return LineReader(schema=schema, name=name).read(data, first_line)


def write_stream(
    path: str | Path,
    batches: Iterable[EventBatch | Revision],
    timestamps: bool = False,
    *,
    clock: Clock | None = None,
) -> None:
    """Write a stream: rows in the order of the batches, each stable point behind its batch.

    Args:
        path: Ends in `.parquet` for a Parquet file of elements, anything else is JSON lines;
            `-` writes JSON lines to standard output. A file appears when it is complete.
        batches: What to write, and revisions in their place among the batches; moves of nothing to
            nothing are left out.
        timestamps: Times count microseconds: write them as ISO timestamps (Parquet: say so in the
            file).
        clock: How times are counted, where they are neither microseconds nor plain numbers.
    """
    clock = clock or (MICROSECONDS if timestamps else INTEGERS)
    if str(path) == "-":
        with _standard_output() as out:
            write_lines(out, batches, clock=clock)
        return
    target = Path(path)
    partial = target.with_name(f".{target.name}.partial")
    try:
        with partial.open("wb") as out:
            if target.suffix == ".parquet":
                write_parquet(out, batches, clock=clock)
            else:
                write_lines(out, batches, clock=clock)
        partial.replace(target)
    except OSError as problem:
        raise StreamError(
            f"cannot write the stream: {problem.strerror or problem}",
            where=str(path),
            hint="check that the folder exists and may be written to",
        ) from None
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def _standard_output() -> Iterator[IO[bytes]]:
    out = sys.stdout.buffer
    if isinstance(out, io.RawIOBase):
        # Python runs unbuffered: a raw file may write less than it is told to.
        buffered = io.BufferedWriter(out)
        yield buffered
        buffered.detach()
    else:
        yield out
        out.flush()


def _existing(path: str | Path) -> Path:
    file = Path(path)
    if file.is_dir():
        raise StreamError(
            "a folder is not a stream file",
            where=str(path),
            hint="name a file of JSON lines (.jsonl) or a Parquet file of elements in it",
        )
    if not file.exists():
        near = get_close_matches(file.name, _names(file.parent), 1, 0.8)
        hint = f"did you mean '{near[0]}'?" if near else "check the path and the working folder"
        raise StreamError("no such file", where=str(path), hint=hint)
    return file


def _names(folder: Path) -> list[str]:
    return [entry.name for entry in folder.iterdir()] if folder.is_dir() else []


def _is_parquet(file: Path) -> bool:
    try:
        with file.open("rb") as data:
            return data.read(4) == _PARQUET or file.suffix == ".parquet"
    except OSError as problem:
        raise _unreadable(file, problem) from None


def _unreadable(file: Path, problem: OSError) -> StreamError:
    return StreamError(
        f"cannot read the file: {problem.strerror or problem}",
        where=str(file),
        hint="check that the file is complete and that you may read it",
    )


def _blocks(file: Path, size: int) -> Iterator[tuple[bytes, int]]:
    """Whole lines of about `size` bytes, with the number of the first of them."""
    line = 1
    rest = [b""]
    try:
        with pa.input_stream(str(file), compression="detect") as stream:
            while part := stream.read(size):
                if line == 1 and rest == [b""]:
                    part = part.removeprefix(_BYTE_ORDER_MARK)
                cut = part.rfind(b"\n") + 1
                rest.append(part[:cut] if cut else part)
                if cut:
                    block = b"".join(rest)
                    yield block, line
                    line += block.count(b"\n")
                    rest = [part[cut:]]
    except OSError as problem:
        raise _unreadable(file, problem) from None
    last = b"".join(rest)
    if last:
        yield last, line
