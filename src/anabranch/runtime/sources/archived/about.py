"""What an archive says of itself, so that it can be read without the query that writes it."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, final

import pyarrow as pa

from anabranch.errors import EngineError
from anabranch.model.clock import INTEGERS, MICROSECONDS, Clock
from anabranch.model.record import OMITTED, record
from anabranch.runtime.sources.spec import ArchiveSpec, Shape
from anabranch.runtime.store.folder import Folder

ABOUT_ARCHIVE: Final = "_archive.json"
INDEX: Final = "_index"
"""The folder with the index of what arrived."""

CORRECTIONS: Final = "_corrections"
"""The folder with the index of what was corrected."""

FORMAT: Final = 1
_HINT: Final = "restore the archive from a copy, or start the query with a new one"
_USUAL: Final = -1


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveAbout:
    """What an archive is, as it is in `_archive.json`.

    Attributes:
        format: The version of the archive.
        source: The name of the source.
        query: The identity of the query that writes it: its batches are numbered by that query.
        copied: It holds the rows themselves; else it says where in the source they are.
        timestamps: Whether its times are microseconds since 1970.
        chronon: How long a chronon is, in microseconds, where that is not the usual length.
        schema: The payload columns, as base64 of an Arrow schema.
        keep_age: What is older than that may go, in chronons.
        keep_rows: Of more rows than that the oldest may go.
    """

    format: int = FORMAT
    source: str
    query: str = field(default="", metadata=OMITTED)
    copied: bool
    timestamps: bool
    chronon: int | None = field(default=_USUAL, metadata=OMITTED)
    schema: str
    keep_age: int | None = field(default=None, metadata=OMITTED)
    keep_rows: int | None = field(default=None, metadata=OMITTED)

    @staticmethod
    def of(
        source: str,
        schema: pa.Schema,
        clock: Clock,
        *,
        copied: bool,
        query: str,
        spec: ArchiveSpec | None,
    ) -> ArchiveAbout:
        """What a new archive says of itself."""
        return ArchiveAbout(
            source=source,
            query=query,
            copied=copied,
            timestamps=clock.timestamps,
            chronon=_USUAL if clock.is_usual else clock.chronon,
            schema=base64.b64encode(schema.serialize()).decode(),
            keep_age=None if spec is None else spec.keep_age,
            keep_rows=None if spec is None else spec.keep_rows,
        )

    @property
    def payload(self) -> pa.Schema:
        """The payload columns."""
        return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(self.schema)))

    @property
    def clock(self) -> Clock:
        """How the archive counts time."""
        usual = MICROSECONDS if self.timestamps else INTEGERS
        return usual if self.chronon == _USUAL else Clock(self.chronon, usual.timestamps)


def read_about(folder: Folder) -> ArchiveAbout | None:
    """What an archive is; None if the folder is not one.

    Raises:
        EngineError: It is of another version, or damaged.
    """
    content = folder.read_json(ABOUT_ARCHIVE)
    if content is None:
        return None
    where = f"{folder.path}/{ABOUT_ARCHIVE}"
    if isinstance(content, dict) and content.get("format") != FORMAT:
        raise EngineError(
            f"the archive has format {content.get('format')}, this version reads {FORMAT}",
            where=where,
            hint="read it with the version that wrote it",
        )
    return record(ArchiveAbout, content, where=where, hint=_HINT)


def is_archive(path: str) -> bool:
    """Whether a path is an archive that a query has written."""
    return (Path(path) / ABOUT_ARCHIVE).is_file()


def bucket_columns(payload: pa.Schema) -> list[str]:
    """The columns of buckets, in order."""
    times = [_free(name, payload) for name in ("kind", "start", "end", "new_end")]
    return [*times, *payload.names, *(_free(name, payload) for name in ("known", "revision"))]


def bucket_shape(payload: pa.Schema) -> Shape:
    """Which columns of buckets are times."""
    kind, start, end, new_end = (
        _free(name, payload) for name in ("kind", "start", "end", "new_end")
    )
    return Shape(start=start, end=end, new_end=new_end, kind=kind)


def archived_columns(schema: pa.Schema, every: pa.Schema) -> tuple[pa.Schema, Shape]:
    """The columns to read of buckets with the payload `every`, and which of them are times."""
    shape = bucket_shape(every)
    kinds = [pa.string() if name == shape.kind else pa.int64() for name in shape.columns]
    times = [pa.field(name, kind) for name, kind in zip(shape.columns, kinds, strict=True)]
    return pa.schema([*schema, *times]), shape


def _free(name: str, payload: pa.Schema) -> str:
    """A name that no payload column has."""
    while name in payload.names:
        name = f"_{name}"
    return name
