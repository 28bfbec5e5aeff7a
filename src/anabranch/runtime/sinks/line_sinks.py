"""Results as JSON lines: a file that grows by whole batches, or something that is open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, ClassVar, Final, final

import pyarrow as pa

from anabranch.errors import EngineError, PlanError
from anabranch.model.batch import EventBatch
from anabranch.model.clock import INTEGERS
from anabranch.model.files.line_writer import element_lines, revision_line, stable_line
from anabranch.model.files.stream_file import read_parts
from anabranch.model.record import OMITTED, RecordT, plain, record
from anabranch.model.revision import Revision
from anabranch.model.time import BEGINNING, Time
from anabranch.runtime.sinks.sinks import (
    Begin,
    ShardResult,
    Sink,
    new_revisions,
    promised_before,
    rows_of_shards,
)
from anabranch.runtime.store.folder import Folder

_DAMAGED: Final = "restore the checkpoint from a copy, or start the query with a new checkpoint"


@final
@dataclass(frozen=True, slots=True)
class OutputFile:
    """The file that a query writes to, as its checkpoint remembers it."""

    path: str


@final
@dataclass(frozen=True, slots=True)
class OutputSize:
    """How long the file is after a batch, the stable point and the last revision in it."""

    size: int = 0
    stable: int = BEGINNING
    revision: int = field(default=0, metadata=OMITTED)


@final
class StreamFileSink(Sink):
    """One growing file of JSON lines.

    What a batch makes of the file is written down beside the checkpoint; a batch that comes
    again first cuts the file back to what it was.
    """

    carries_revisions: ClassVar[bool] = True

    def __init__(self, path: str, sizes: Folder) -> None:
        """Write to this file; `sizes` remembers how long it was after each batch."""
        self.path: Path = Path(path).absolute()
        self._sizes = sizes
        self._schema = pa.schema([])
        self._clock = INTEGERS
        self._first = 0

    def open(self, begin: Begin) -> None:
        """Create the file, or take it up."""
        self._schema, self._clock = begin.schema, begin.clock
        self._first = begin.first
        begun = self._read(OutputFile, "file.json")
        if begun is None:
            if self.path.exists() and self.path.stat().st_size:
                raise PlanError(
                    "the file already exists",
                    where=str(self.path),
                    hint="choose a new file, or continue with the checkpoint of the query that "
                    "wrote it",
                )
            self._sizes.write_json("file.json", plain(OutputFile(str(self.path))))
        elif begun.path != str(self.path):
            raise PlanError(
                "the query wrote to another file before",
                where=f"then {begun.path}, now {self.path}",
                hint="use the same file, or a new checkpoint",
            )
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.touch()

    def commit(
        self,
        batch: int,
        stable: Time,
        results: Sequence[ShardResult],
        revisions: Sequence[Revision] = (),
    ) -> None:
        """Cut the file back to the batches before, then append."""
        before: OutputSize | None = OutputSize()
        if batch > self._first:
            before = self._read(OutputSize, f"{batch - 1}.json")
        if before is None or self.path.stat().st_size < before.size:
            raise EngineError(
                "the output file was changed since the query wrote it",
                where=str(self.path),
                hint="restore the file, or start the query with a new checkpoint and a new file",
            )
        new = new_revisions(revisions, before.revision)
        data = b"".join(revision_line(revision, clock=self._clock) for revision in new)
        data += element_lines(rows_of_shards(results, self._schema), clock=self._clock)
        if stable > before.stable:
            data += stable_line(stable, clock=self._clock)
        with self.path.open("r+b") as file:
            file.truncate(before.size)
            file.seek(before.size)
            file.write(data)
        after = OutputSize(
            before.size + len(data),
            max(int(stable), before.stable),
            max([before.revision, *(revision.number for revision in new)]),
        )
        self._sizes.write_json(f"{batch}.json", plain(after))
        self._sizes.remove(f"{batch - 3}.json")

    def _read(self, kind: type[RecordT], name: str) -> RecordT | None:
        content = self._sizes.read_json(name)
        where = f"{self._sizes.path}/{name}"
        return None if content is None else record(kind, content, where=where, hint=_DAMAGED)

    def parts(self) -> list[EventBatch | Revision]:
        """What the file says."""
        return list(read_parts(self.path, self._schema))


@final
class LinesSink(Sink):
    """JSON lines into something open, such as standard output; what is written stays."""

    def __init__(self, out: IO[bytes]) -> None:
        """Write to this."""
        self._out = out
        self._begin = Begin(pa.schema([]), "", INTEGERS, True)
        self._revision = 0

    def open(self, begin: Begin) -> None:
        """Remember how times are written."""
        self._begin = begin

    def commit(
        self,
        batch: int,
        stable: Time,
        results: Sequence[ShardResult],
        revisions: Sequence[Revision] = (),
    ) -> None:
        """Write the batch."""
        clock = self._begin.clock
        rows = rows_of_shards(results, self._begin.schema)
        for revision in new_revisions(revisions, self._revision):
            self._out.write(revision_line(revision, clock=clock))
            self._revision = revision.number
        self._out.write(element_lines(rows, clock=clock))
        if stable > promised_before(batch, self._begin, results):
            self._out.write(stable_line(stable, clock=clock))
        self._out.flush()
