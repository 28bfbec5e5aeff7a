"""A log folder: element files, and a list of those that count."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.errors import PlanError, StreamError
from anabranch.model.batch import EventBatch, no_rows
from anabranch.model.clock import Clock
from anabranch.model.files.stream_parquet import write_parquet
from anabranch.model.record import plain
from anabranch.model.time import BEGINNING, Time
from anabranch.runtime.messages.heads import LogFile
from anabranch.runtime.sources.files.listing import ABOUT, LOG
from anabranch.runtime.sources.files.log_records import LogAbout, LogEntry, log_about, log_entry
from anabranch.runtime.sources.rows import arrivals_of
from anabranch.runtime.sources.spec import ELEMENTS
from anabranch.runtime.store.folder import Folder


def write_part(
    path: str, batch: int, shard: int | str, rows: EventBatch, *, clock: Clock
) -> LogFile:
    """Write the elements of one shard or sender; they count once the batch is in the log."""
    part = f"{shard:03d}" if isinstance(shard, int) else shard
    name = f"part-{batch:06d}-{part}.parquet"
    data = io.BytesIO()
    write_parquet(data, [rows.with_stable(BEGINNING)], clock=clock)
    Folder.at(path).write(name, data.getvalue(), mark=str(batch))
    return LogFile(name=name, rows=len(rows), bytes=data.tell())


@final
@dataclass(frozen=True, slots=True)
class LogFolder:
    """The elements a query has put out, batch by batch.

    Only what a file `_log/<batch>.json` names belongs to the stream. Committing a batch again
    replaces its entry by the same one.
    """

    path: str

    def create(
        self,
        schema: pa.Schema,
        *,
        query: str,
        clock: Clock,
        since: int | None = None,
        home: str = "",
    ) -> None:
        """Make a new log, or take up the one of the same query, whose checkpoint is `home`.

        A log that begins in the middle of a stream has all events that end at `since` or later.

        Raises:
            PlanError: The folder is the log of another query, or holds something else.
        """
        about = self._about()
        Folder.at(self.path).sweep()
        self._log.sweep()
        if about is not None:
            if about.query != query:
                raise PlanError(
                    "the folder is the log of another query",
                    where=self.path,
                    hint="choose another folder, or continue with the checkpoint of that query",
                )
            return
        if any(not name.startswith((".", "_")) for name in Folder.at(self.path).names()):
            raise PlanError(
                "the folder is not empty and not a log",
                where=self.path,
                hint="choose a new folder for the output",
            )
        about = LogAbout.of(schema, query=query, clock=clock, since=since, home=home)
        self._log.write_json(ABOUT, plain(about), seal=False)

    def exists(self) -> bool:
        """Whether the folder is a log already."""
        return self._log.read_json(ABOUT) is not None

    def commit(self, batch: int, stable: int, files: Sequence[LogFile]) -> None:
        """Make the files of a batch part of the stream, in the order of their senders.

        Tasks report in any order, while the insert of an event may be in one file and its adjust
        in another. Files of shards come last: they share no event with others.
        """
        by_sender = sorted(files, key=lambda file: (file.sender is None, file.sender or ()))
        listed = tuple(replace(file, sender=None) for file in by_sender)
        entry = LogEntry(batch=batch, stable=int(stable), files=listed)
        self._log.write_json(f"{batch}.json", plain(entry), seal=False)

    def home(self) -> str | None:
        """The checkpoint of the query that writes it, if that is known."""
        about = self._about()
        return None if about is None else about.home or None

    def about(self) -> tuple[pa.Schema, Clock]:
        """The payload columns, and how the log counts time."""
        about = self._about()
        if about is None:
            raise StreamError(
                "not a log folder",
                where=self.path,
                hint="a log folder is what a query with to='<folder>' writes",
            )
        return about.payload, about.clock

    def entries(self) -> list[LogEntry]:
        """What is committed, in order."""
        found = [self._entry(number) for number in self._batches()]
        return [entry for entry in found if entry is not None]

    def files(self) -> list[str]:
        """The paths of all element files that count."""
        return [f"{self.path}/{file.name}" for entry in self.entries() for file in entry.files]

    def stable(self) -> Time:
        """The stable point of the stream."""
        # No batch promises less than those before it.
        batches = self._batches()
        last = self._entry(batches[-1]) if batches else None
        return Time(last.stable) if last else BEGINNING

    def read(self) -> Iterator[EventBatch]:
        """The stream, one batch per committed batch."""
        schema, _ = self.about()
        for entry in self.entries():
            parts = [self._read_part(file, schema) for file in entry.files]
            rows = EventBatch.concat([EventBatch.empty(schema), *parts])
            yield rows.with_stable(Time(entry.stable))

    def _about(self) -> LogAbout | None:
        content = self._log.read_json(ABOUT)
        return None if content is None else log_about(content, f"{self.path}/{LOG}/{ABOUT}")

    def _entry(self, batch: int) -> LogEntry | None:
        content = self._log.read_json(f"{batch}.json")
        if content is None:
            return None
        return log_entry(content, f"{self.path}/{LOG}/{batch}.json")

    def _batches(self) -> list[int]:
        """The numbers of the batches that are committed, in order."""
        names = [name.removesuffix(".json") for name in self._log.names()]
        return sorted(int(name) for name in names if name.isdigit())

    def _read_part(self, file: LogFile, schema: pa.Schema) -> EventBatch:
        path = Path(self.path) / file.name
        try:
            table = pq.read_table(path, partitioning=None, use_threads=False).combine_chunks()
        except (pa.ArrowInvalid, OSError) as problem:
            raise StreamError(
                "a file of the log is missing or damaged",
                where=f"{path}: {str(problem)[:120]}",
                hint="restore the file from a copy, or run the query again into a new folder",
            ) from None
        (rows,) = table.to_batches() or [no_rows(table.schema)]
        return arrivals_of(rows, schema, ELEMENTS, first=1, where=str(path)).batch

    @property
    def _log(self) -> Folder:
        return Folder.at(self.path).child(LOG)
