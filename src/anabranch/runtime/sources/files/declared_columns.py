"""Columns that are declared and that no row has: a slip, told before a query runs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq

from anabranch.errors import StreamError
from anabranch.runtime.sources.files.listing import list_files
from anabranch.runtime.sources.spec import FileForm

_BLOCK: Final = 1 << 20


def first_filled(path: str, form: FileForm) -> Path | None:
    """The first file of a source that holds anything; None if there is none.

    An empty file of text says nothing about columns; a Parquet file without rows does.
    """
    for file in list_files(path, form):
        if form == "parquet" or any(block.strip() for block in _blocks(file)):
            return file
    return None


def refuse_missing(names: Sequence[str], path: str, form: FileForm, *, source: str) -> None:
    """Refuse declared columns that no row of the first file has.

    Rows of JSON may leave columns out, so all of the file counts; the other forms tell their
    columns at the beginning. Where there is no file yet nothing is known, and nothing refused.

    Raises:
        StreamError: There is one; with the names that are there.
    """
    file = first_filled(path, form)
    if file is None:
        return
    try:
        if form == "json":
            missing, there = _missing_in_lines(file, names)
        else:
            there = _columns(file, form)
            missing = [name for name in names if name not in there]
    except (pa.ArrowInvalid, OSError):
        # Whoever reads the file says what is wrong with it.
        return
    if missing:
        raise no_column(missing[0], there, where=f"source '{source}': {file}")


def no_column(name: str, there: Iterable[str], *, where: str) -> StreamError:
    """The error for a declared column that is not there."""
    names = list(there)
    lowered = {each.lower(): each for each in names}
    near = [lowered[name.lower()]] if name.lower() in lowered else get_close_matches(name, names, 1)
    guess = f"did you mean '{near[0]}'? " if near else ""
    return StreamError(
        f"no column '{name}'", where=where, hint=f"{guess}columns are: {', '.join(names)}"
    )


def _columns(file: Path, form: FileForm) -> list[str]:
    if form == "csv":
        return list(pcsv.open_csv(file).schema.names)
    return list(pq.read_schema(file).names)


def _missing_in_lines(file: Path, names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Which of some columns no row has, and the columns of the first row.

    Only lines in which the name of a column stands are parsed, so a file in which every column
    turns up soon costs one block, and any other one look at its bytes.
    """
    missing, there = list(names), list[str]()
    rest = b""
    for block in _blocks(file):
        whole, rest = _cut(rest + block)
        if not there:
            there = next((list(row) for row in _rows(whole.split(b"\n"))), [])
        missing = [name for name in missing if not _has(whole, name)]
        if not missing:
            return [], there
    if not there:
        there = next((list(row) for row in _rows([rest])), [])
    return [name for name in missing if not _has(rest, name)], there


def _has(data: bytes, name: str) -> bool:
    """Whether a row in some lines has a column."""
    written = {json.dumps(name).encode(), json.dumps(name, ensure_ascii=False).encode()}
    if not any(each in data for each in written):
        return False
    lines = (line for line in data.split(b"\n") if any(each in line for each in written))
    return any(name in row for row in _rows(lines))


def _rows(lines: Iterable[bytes]) -> Iterator[dict[str, object]]:
    for line in lines:
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            yield row


def _cut(data: bytes) -> tuple[bytes, bytes]:
    end = data.rfind(b"\n") + 1
    return data[:end], data[end:]


def _blocks(file: Path) -> Iterator[bytes]:
    with pa.input_stream(str(file), compression="detect") as stream:
        while block := bytes(stream.read(_BLOCK)):
            yield block
