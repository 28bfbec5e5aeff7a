"""A log folder: element files, and a list of those that count."""

from __future__ import annotations

import io
import uuid
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, final

import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.errors import PlanError, StreamError
from anabranch.model.batch import EventBatch, no_rows
from anabranch.model.clock import Clock
from anabranch.model.files.stream_parquet import write_parquet
from anabranch.model.record import plain
from anabranch.model.revision import Revision
from anabranch.model.time import BEGINNING, Time
from anabranch.runtime.messages.heads import LogFile
from anabranch.runtime.sources.files.listing import ABOUT, LOG
from anabranch.runtime.sources.files.log_records import (
    NOTHING_KNOWN,
    PLAIN,
    REVISED,
    LogAbout,
    LogEntry,
    LogProperties,
    LogRevision,
    log_about,
    log_entry,
)
from anabranch.runtime.sources.rows import arrivals_of
from anabranch.runtime.sources.spec import ELEMENTS
from anabranch.runtime.store.folder import Folder

ANY_QUERY: Final = "any"
"""The identity of no query."""


def write_part(
    path: str, batch: int, shard: int | str, rows: EventBatch, *, clock: Clock
) -> LogFile:
    """Write the elements of one shard or sender; they count once the batch is in the log."""
    part = f"{shard:03d}" if isinstance(shard, int) else shard
    return _written(path, f"part-{batch:06d}-{part}.parquet", batch, rows, clock)


def write_revision(path: str, batch: int, revision: Revision, *, clock: Clock) -> LogRevision:
    """Write the changes of a revision; they count once a batch with it is in the log.

    A revision that is written again gets the same name and content.
    """
    name = f"revision-{revision.number:06d}.parquet"
    file = _written(path, name, batch, revision.changes, clock)
    first, last = int(revision.first), int(revision.last)
    return LogRevision(number=revision.number, first=first, last=last, file=file)


def write_base(path: str, batch: int, events: EventBatch, *, clock: Clock) -> LogFile:
    """Write the events with which a log begins of which entries up to a batch are removed."""
    return _written(path, f"base-{batch:06d}.parquet", batch, events, clock)


def _written(path: str, name: str, batch: int, rows: EventBatch, clock: Clock) -> LogFile:
    data = io.BytesIO()
    write_parquet(data, [rows.with_stable(BEGINNING)], clock=clock)
    Folder.at(path).write(name, data.getvalue(), mark=str(batch))
    return LogFile(name=name, rows=len(rows), bytes=data.tell())


@final
@dataclass(frozen=True, slots=True)
class LogFolder:
    """The elements a query has put out, batch by batch.

    Only what a file `_log/<batch>.json` names belongs to the stream. Committing a batch again
    replaces its entry by the same one. A log whose first entries have been removed (`log_cut.py`)
    begins with a base instead.
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
        revised: int = 0,
        made: str = "",
        properties: LogProperties | None = None,
        others: Collection[str] = (),
    ) -> None:
        """Make a new log, or take up the one of the same query, whose checkpoint is `home`.

        A log of `ANY_QUERY` was prepared for the first query that takes it up.

        A log that begins in the middle of a stream has all events that end at `since` or later, and
        all revisions after the one with the number `revised`; `made` tells it from another one.

        A log without entries that this checkpoint has made, but for none of its outputs (`others`),
        is nobody's: the process died when a query was about to join. It is made anew.

        Raises:
            PlanError: The folder is the log of another query, or holds something else.
        """
        about = self.record()
        Folder.at(self.path).sweep()
        self._log.sweep()
        if about is not None and about.query == ANY_QUERY:
            about = replace(about, query=query, home=home or about.home, properties=properties)
            self._log.write_json(ABOUT, plain(about), seal=False)
            return
        if about is not None and not self._is_nobodys(about, query, home, others):
            if about.query != query:
                raise PlanError(
                    "the folder is the log of another query",
                    where=self.path,
                    hint="choose another folder, or continue with the checkpoint of that query",
                )
            self.weaken(properties)
            return
        if any(not name.startswith((".", "_")) for name in Folder.at(self.path).names()):
            raise PlanError(
                "the folder is not empty and not a log",
                where=self.path,
                hint="choose a new folder for the output",
            )
        about = LogAbout.of(
            schema,
            query=query,
            clock=clock,
            since=since,
            home=home,
            revised=revised,
            made=made,
            properties=properties,
        )
        self._log.write_json(ABOUT, plain(about), seal=False)

    def _is_nobodys(self, about: LogAbout, query: str, home: str, others: Collection[str]) -> bool:
        """Whether a log was made for a query of this checkpoint that has never begun."""
        is_known = about.query == query or about.query in others
        is_ours = bool(home) and about.home == home
        return is_ours and not is_known and about.base is None and not self._batches()

    def weaken(self, properties: LogProperties | None) -> None:
        """Note that the query promises less now than the plan that wrote the log so far."""
        about = self.record()
        if about is None or about.properties is None:
            return
        both = about.properties.meet(properties or NOTHING_KNOWN)
        if both != about.properties:
            self._log.write_json(ABOUT, plain(replace(about, properties=both)), seal=False)

    def rewind(self, batch: int) -> None:
        """Remove entries from a batch on, and tell readers that the log goes on differently.

        A query that begins again from an older checkpoint writes them anew, cut differently.
        """
        about = self.record()
        later = [number for number in self._batches() if number >= batch]
        if about is None or not later:
            return
        # Readers are told first: whoever has read what is removed begins again.
        self._log.write_json(ABOUT, plain(replace(about, made=uuid.uuid4().hex)), seal=False)
        for number in reversed(later):
            self._log.remove(f"{number}.json")

    def exists(self) -> bool:
        """Whether the folder is a log already."""
        return self._log.read_json(ABOUT) is not None

    def commit(
        self,
        batch: int,
        stable: int,
        files: Sequence[LogFile],
        revisions: Sequence[LogRevision] = (),
    ) -> None:
        """Make the files of a batch part of the stream, in the order of their senders.

        Its revisions (of `write_revision`) are in front of them, by number.

        Tasks report in any order, while the insert of an event may be in one file and its adjust
        in another. Files of shards come last: they share no event with others.
        """
        by_sender = sorted(files, key=lambda file: (file.sender is None, file.sender or ()))
        listed = tuple(replace(file, sender=None) for file in by_sender)
        by_number = tuple(sorted(revisions, key=lambda revision: revision.number))
        entry = LogEntry(
            format=REVISED if by_number else PLAIN,
            batch=batch,
            stable=int(stable),
            files=listed,
            revisions=by_number,
        )
        self._log.write_json(f"{batch}.json", plain(entry), seal=False)

    def home(self) -> str | None:
        """The checkpoint of the query that writes it, if that is known."""
        about = self.record()
        return None if about is None else about.home or None

    def about(self) -> tuple[pa.Schema, Clock]:
        """The payload columns, and how the log counts time."""
        about = self.record()
        if about is None:
            raise StreamError(
                "not a log folder",
                where=self.path,
                hint="a log folder is what a query with to='<folder>' writes",
            )
        return about.payload, about.clock

    def properties(self) -> LogProperties:
        """What is known of the stream from the plan that writes it."""
        about = self.record()
        return NOTHING_KNOWN if about is None else about.properties or NOTHING_KNOWN

    def record(self) -> LogAbout | None:
        """What the log says of itself; None if the folder is not a log."""
        content = self._log.read_json(ABOUT)
        return None if content is None else log_about(content, f"{self.path}/{LOG}/{ABOUT}")

    def entries(self, after: int | None = None) -> list[LogEntry]:
        """What is committed, in order, behind the base if there is one, and behind a batch."""
        numbers = [each for each in self._batches() if after is None or each > after]
        found = [self._entry(number) for number in numbers]
        return [entry for entry in found if entry is not None]

    def revisions(self, known: int | None = None) -> list[LogRevision]:
        """The revisions that are committed, in order; with `known` those up to this number."""
        return [
            revision
            for entry in self.entries()
            for revision in entry.revisions
            if known is None or revision.number <= known
        ]

    def files(self) -> list[str]:
        """The paths of all element files that count; those of revisions are not among them."""
        about = self.record()
        begin = about.base.files if about and about.base else ()
        files = [*begin, *(file for entry in self.entries() for file in entry.files)]
        return [f"{self.path}/{file.name}" for file in files]

    def stable(self) -> Time:
        """The stable point of the stream."""
        # No batch promises less than those before it.
        batches = self._batches()
        last = self._entry(batches[-1]) if batches else None
        if last is not None:
            return Time(last.stable)
        about = self.record()
        return Time(about.base.stable) if about and about.base else BEGINNING

    def read(self) -> Iterator[EventBatch]:
        """The stream, one batch per committed batch.

        The changes of its revisions are rows in front of the others, below the stable point: all
        rows together mean the snapshots after all revisions. `parts` tells them apart.
        """
        changes: list[EventBatch] = []
        for part in self.parts():
            if isinstance(part, Revision):
                changes.append(part.changes)
            else:
                yield EventBatch.concat([*changes, part]).with_stable(part.stable)
                changes = []

    def parts(self, last: int | None = None) -> Iterator[EventBatch | Revision]:
        """The stream up to a batch: the revisions of each batch, then the batch itself."""
        schema, _ = self.about()
        about = self.record()
        if about is not None and about.base is not None:
            yield self._rows(about.base.files, schema, about.base.stable)
        for entry in self.entries():
            if last is not None and entry.batch > last:
                return
            for revision in entry.revisions:
                yield self.read_revision(revision)
            yield self._rows(entry.files, schema, entry.stable)

    def base(self) -> list[EventBatch]:
        """What stands for the entries that were removed, if there are such."""
        about = self.record()
        if about is None or about.base is None:
            return []
        return [self._rows(about.base.files, about.payload, about.base.stable)]

    def rows_of(self, entry: LogEntry) -> EventBatch:
        """A batch, with the changes of its revisions as rows in front of the others."""
        schema, _ = self.about()
        changes = [self.read_revision(revision).changes for revision in entry.revisions]
        rows = self._rows(entry.files, schema, entry.stable)
        return EventBatch.concat([*changes, rows]).with_stable(rows.stable)

    def read_revision(self, revision: LogRevision) -> Revision:
        """A revision with its changes."""
        schema, _ = self.about()
        return Revision(
            number=revision.number,
            first=Time(revision.first),
            last=Time(revision.last),
            changes=self._read_part(revision.file, schema),
        )

    def _rows(self, files: Sequence[LogFile], schema: pa.Schema, stable: int) -> EventBatch:
        parts = [self._read_part(file, schema) for file in files]
        return EventBatch.concat([EventBatch.empty(schema), *parts]).with_stable(Time(stable))

    def _entry(self, batch: int) -> LogEntry | None:
        content = self._log.read_json(f"{batch}.json")
        if content is None:
            return None
        return log_entry(content, f"{self.path}/{LOG}/{batch}.json")

    def _batches(self) -> list[int]:
        """The numbers of the batches that are committed and count, in order."""
        names = [name.removesuffix(".json") for name in self._log.names()]
        about = self.record()
        base = about.base.batch if about and about.base else -1
        return sorted(int(name) for name in names if name.isdigit() and int(name) > base)

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
