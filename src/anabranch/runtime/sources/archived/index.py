"""The entries of an archive, in levels: adding one costs the same however many there are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar, final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from anabranch.algebra.analysis.spans import EVERYTHING, Span
from anabranch.errors import EngineError
from anabranch.model.record import plain, record
from anabranch.model.time import BEGINNING, FOREVER, Time
from anabranch.runtime.sources.archived.pieces import ArchivedBatch, Piece
from anabranch.runtime.sources.archived.segment import (
    ENTRY,
    SEGMENT,
    IndexFile,
    among,
    entries_of,
    entry_name,
    index_file,
    only_pieces,
    read_segment,
    segment_bytes,
    segment_name,
    table_of,
)
from anabranch.runtime.store.folder import Folder

ENTRIES_PER_SEGMENT: Final = 32
"""So many entries become a segment of the first level."""

SEGMENTS_PER_LEVEL: Final = 8
"""So many segments of a level become one of the next."""

LARGEST_SEGMENT_PIECES: Final = 1 << 17
"""Segments are not merged to one of more pieces than that: one merge takes a fraction of a second.

A year of one piece per minute is 4 such segments, and at most 7 of each of the 4 levels below.
"""

KEPT_SEGMENT_PIECES: Final = 4096
"""Segments up to this size stay in memory once they are read; they never change.

A revision asks for the pieces of a few minutes, and to read a segment takes longer than to search
it. A piece takes about 200 bytes.
"""

SEGMENTS_IN_MEMORY: Final = 32
_LEVELS_IN_MEMORY: Final = 2
_CUT: Final = "cut.json"
_TRIES: Final = 1000
_HINT: Final = "restore the archive from a copy, or start the query with a new checkpoint"

FoundT = TypeVar("FoundT")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveCut:
    """What an archive no longer has.

    Attributes:
        before: Pieces whose last end is here or earlier are gone.
        batch: Pieces of batches up to this one are gone.
        oldest: From this instant on the archive is complete.
        swept: Whether the files of those pieces have been removed.
    """

    before: int = BEGINNING
    batch: int = -1
    oldest: int = BEGINNING
    swept: bool = True

    def has(self, batch: int, piece: Piece) -> bool:
        """Whether a piece is gone."""
        return piece.last <= self.before or batch <= self.batch

    def rows(self, table: pa.Table) -> npt.NDArray[np.bool_]:
        """Which rows of the index are gone."""
        last, batch = (table.column(name).to_numpy() for name in ("last", "batch"))
        found: npt.NDArray[np.bool_] = (last <= np.int64(self.before)) | (batch <= self.batch)
        return found


class _GoneError(Exception):
    """A file was merged away between two looks."""


@final
@dataclass(frozen=True, slots=True)
class ArchiveIndex:
    """A log of entries in a folder, one writer, any number of readers.

    An entry is a file of its own at first. `ENTRIES_PER_SEGMENT` of them become a segment, and
    `SEGMENTS_PER_LEVEL` segments of a level one of the next; so every entry is written about as
    often as there are levels, and there are a few dozen files at any time. A merge writes the new
    segment, then removes what it covers: whoever finds both, after a crash or in between, takes
    the segment. The newest entry stays as it is, for its batch may be committed again.

    Example with 2 and 2: entries 0, 1 | 2 -> segment 0-1 | entry 2; with entries 3 and 4 the
    segments 0-1, 2-3 -> segment 0-3 | entry 4.
    """

    folder: Folder
    # Entries that this process has written or read; those that are merged are dropped. What counts
    # is said by the names in the folder.
    _entries: dict[str, ArchivedBatch] = field(default_factory=dict, repr=False, compare=False)
    # Segments that this process has read, or has written and will merge soon: to read eight of them
    # takes four times as long as to write the one that they become.
    _tables: dict[str, pa.Table] = field(default_factory=dict, repr=False, compare=False)

    def add(self, entry: ArchivedBatch) -> None:
        """Add the next entry, or the same one again.

        Raises:
            EngineError: It belongs in front of entries that have been merged.
        """
        names = self.folder.names()
        if _is_next(entry.batch, names):
            self._put(entry)
            return
        found = [file for file in map(index_file, names) if file is not None]
        files = _live(found)
        for file in {*found} - {*files} if len(found) > len(files) else ():
            # A merge was interrupted before it could remove what it covers.
            self.folder.remove(file.name)
        merged = max((file.batches[1] for file in files if file.level), default=-1)
        if entry.batch <= merged:
            self._demand(entry.batch, files)
            return
        name = self._put(entry)
        if all(file.name != name for file in files):
            files.append(IndexFile(name, 0, (entry.batch, entry.batch)))
        try:
            self._merge(files)
        except _GoneError:
            # Somebody cuts at the same time; whoever adds the next entry merges.
            return

    def pieces(self, span: Span = EVERYTHING, upto: int | None = None) -> list[tuple[int, Piece]]:
        """The pieces that overlap a span, each with its batch, in order of arrival."""
        entries = self.entries(span=span, upto=upto)
        return [(entry.batch, piece) for entry in entries for piece in entry.pieces]

    def entries(
        self, *, after: int = -1, upto: int | None = None, span: Span = EVERYTHING
    ) -> list[ArchivedBatch]:
        """The entries after a batch and up to another, with the pieces that overlap a span."""
        most = int(FOREVER) if upto is None else upto

        def read(files: Sequence[IndexFile]) -> list[ArchivedBatch]:
            cut = self.cut()
            found: list[ArchivedBatch] = []
            for file in files:
                if file.batches[1] <= after or file.batches[0] > most:
                    continue
                if span != EVERYTHING and not file.overlaps(span):
                    continue
                if file.level:
                    table = self._segment(file, span, (after + 1, most))
                    is_gone = cut.rows(table)
                    table = table.filter(pa.array(~is_gone)) if is_gone.any() else table
                    found += entries_of(table, f"{self.folder.path}/{file.name}")
                else:
                    entry = self._entry(file, keep=file is not files[-1])
                    kept = [
                        piece
                        for piece in entry.pieces
                        if piece.overlaps(span) and not cut.has(entry.batch, piece)
                    ]
                    found.append(replace(entry, pieces=tuple(kept)))
            return [entry for entry in found if after < entry.batch <= most]

        if most == after + 1:
            # Whoever follows an archive asks for the newest batch, which has a file of its own:
            # then it does not matter how many other files there are.
            try:
                return read([IndexFile(entry_name(most), 0, (most, most))])
            except _GoneError:
                pass
        return self._consistent(read)

    def newest(self) -> ArchivedBatch | None:
        """The newest entry."""

        def read(files: Sequence[IndexFile]) -> ArchivedBatch | None:
            if not files:
                return None
            file = files[-1]
            if not file.level:
                return self._entry(file)
            return entries_of(self._segment(file), f"{self.folder.path}/{file.name}")[-1]

        return self._consistent(read)

    def latest_promise(self) -> Time:
        """The greatest promise before forever; BEGINNING if there is none."""
        promises = [entry.promised for entry in self.entries() if entry.promised < FOREVER]
        return Time(max(promises, default=BEGINNING))

    def last_batch(self) -> int:
        """The number of the newest entry, -1 if there is none.

        One look is enough: the newest entry is never merged, so no listing can miss it.
        """
        found = map(index_file, self.folder.names())
        return max((file.batches[1] for file in found if file is not None), default=-1)

    def cut(self) -> ArchiveCut:
        """What is gone."""
        content = self.folder.read_json(_CUT)
        if content is None:
            return ArchiveCut()
        where = f"{self.folder.path}/{_CUT}"
        return record(ArchiveCut, content, where=where, hint=_HINT)

    def set_cut(self, cut: ArchiveCut) -> None:
        """Say what is gone; readers go by it from now on."""
        self.folder.write_json(_CUT, plain(cut))

    def doomed(self, before: int, rows: int | None) -> ArchiveCut:
        """The cut that leaves out what ends before an instant, and all but the newest rows.

        Files that are wholly on one side of the cut are judged by their names.
        """
        return self._consistent(lambda files: self._doomed(files, before, rows))

    def _doomed(self, files: Sequence[IndexFile], before: int, rows: int | None) -> ArchiveCut:
        old = self.cut()
        ends = [int(BEGINNING)]
        for file in files:
            if file.level and file.last < before:
                ends.append(file.last)
            elif file.first < before:
                last = only_pieces(self._table(file)).column("last").to_numpy()
                ends.append(int(last[last < before].max(initial=BEGINNING)))
        aged = max(ends)
        upto = -1 if rows is None else self._batch_before(files, rows)
        ends.append(int(old.oldest))
        for file in files:
            if file.batches[1] <= upto and file.level:
                ends.append(file.last)
            elif file.batches[0] <= upto:
                table = only_pieces(self._table(file))
                of_batches = table.column("batch").to_numpy() <= upto
                ends.append(int(table.column("last").to_numpy()[of_batches].max(initial=BEGINNING)))
        return ArchiveCut(
            before=max(old.before, aged),
            batch=max(old.batch, upto),
            oldest=max(ends),
            swept=old.swept,
        )

    def _batch_before(self, files: Sequence[IndexFile], rows: int) -> int:
        """The last batch behind which there are so many rows, -1 if there is none."""
        count = 0
        for file in reversed(files):
            if file.level and count + file.rows < rows:
                count += file.rows
                continue
            table = self._table(file)
            batches, at = np.unique(table.column("batch").to_numpy(), return_index=True)
            sizes = np.add.reduceat(table.column("rows").to_numpy(), at) if len(at) else at
            behind = count + np.r_[np.cumsum(sizes[::-1])[::-1], 0]
            enough = np.flatnonzero(behind >= rows)
            if len(enough) and enough[-1] > 0:
                return int(batches[enough[-1] - 1])
            if len(enough):
                return file.batches[0] - 1
            count = int(behind[0])
        return -1

    def gone(self, old: ArchiveCut, new: ArchiveCut) -> list[tuple[int, Piece]]:
        """The pieces that a new cut takes away and an old one did not."""

        def read(files: Sequence[IndexFile]) -> list[tuple[int, Piece]]:
            found: list[tuple[int, Piece]] = []
            for file in files:
                if file.level and file.first >= new.before and file.batches[0] > new.batch:
                    continue
                table = self._table(file)
                table = only_pieces(table.filter(pa.array(new.rows(table) & ~old.rows(table))))
                entries = entries_of(table, f"{self.folder.path}/{file.name}")
                found += [(entry.batch, piece) for entry in entries for piece in entry.pieces]
            return found

        return self._consistent(read)

    def purge(self) -> None:
        """Remove the files of the index of which nothing is left; the newest stays."""
        cut = self.cut()
        files = self._files()
        for file in files[:-1]:
            is_whole = file.level and (file.last <= cut.before or file.batches[1] <= cut.batch)
            if is_whole or (not file.level and cut.rows(self._table(file)).all()):
                self.folder.remove(file.name)
                self._forget(file)

    def _forget(self, file: IndexFile) -> None:
        self._entries.pop(file.name, None)
        self._tables.pop(file.name, None)

    def sizes(self) -> list[int]:
        """How many bytes each file of the index has."""
        opened = (self.folder.open(file.name) for file in self._files())
        return [each[1] for each in opened if each is not None]

    def _merge(self, files: list[IndexFile]) -> None:
        """Merge until no level has too many files, the lowest level first."""
        while group := _next_merge(files):
            level = group[0].level + 1
            cut = self.cut()
            table = self._merged(group)
            if cut.swept:
                table = table.filter(pa.array(~cut.rows(table)))
            made: list[IndexFile] = []
            if len(table):
                # The range is that of what it covers, though some of that may be cut.
                batches = (group[0].batches[0], group[-1].batches[1])
                name = segment_name(level, batches, table)
                self.folder.write(name, segment_bytes(table))
                parsed = index_file(name)
                assert parsed is not None
                made = [parsed]
                if level <= _LEVELS_IN_MEMORY:
                    self._tables[name] = table
            for file in group:
                self.folder.remove(file.name)
                self._forget(file)
            files[:] = sorted({*files, *made} - {*group}, key=lambda file: file.batches)

    def _merged(self, group: Sequence[IndexFile]) -> pa.Table:
        if not group[0].level:
            return table_of(self._entry(file) for file in group)
        return pa.concat_tables([self._segment(file) for file in group])

    def _demand(self, batch: int, files: Iterable[IndexFile]) -> None:
        """Refuse a batch that is not in the index, though later ones have been merged."""
        for file in files:
            is_around = file.level and file.batches[0] <= batch <= file.batches[1]
            if is_around and (self._segment(file).column("batch").to_numpy() == batch).any():
                return
        if batch > self.cut().batch and self.cut().before == BEGINNING:
            raise EngineError(
                f"batch {batch} is added to an archive that has later ones",
                where=self.folder.path,
                hint=_HINT,
            )

    def _files(self) -> list[IndexFile]:
        """The files that count, in order, at one look."""
        return _live(map(index_file, self.folder.names()))

    def _consistent(self, read: Callable[[Sequence[IndexFile]], FoundT]) -> FoundT:
        """What a look at the files gives, while nobody has merged some in between.

        A listing is not a snapshot: it may miss a segment and also the entries in it. Then the
        names have changed after reading.
        """
        for _ in range(_TRIES):
            names = self.folder.names()
            try:
                found = read(_live(map(index_file, names)))
            except _GoneError:
                continue
            if _named(self.folder.names()) == _named(names):
                return found
        raise EngineError(
            "the index of the archive changes too quickly to be read",
            where=self.folder.path,
            hint="try again when the query is less busy",
        )

    def _table(self, file: IndexFile) -> pa.Table:
        return self._segment(file) if file.level else table_of([self._entry(file)])

    def _segment(
        self, file: IndexFile, span: Span = EVERYTHING, batches: tuple[int, int] | None = None
    ) -> pa.Table:
        kept = self._tables.get(file.name)
        if kept is not None:
            return among(kept, span)
        opened = self.folder.open(file.name)
        if opened is None:
            raise _GoneError
        try:
            if file.pieces > KEPT_SEGMENT_PIECES:
                return read_segment(opened[0], span, batches)
            whole = read_segment(opened[0]).combine_chunks()
        except (pa.ArrowInvalid, OSError) as problem:
            raise EngineError(
                "a segment of the index of an archive is damaged",
                where=f"{self.folder.path}/{file.name}: {str(problem)[:120]}",
                hint=_HINT,
            ) from None
        if len(self._tables) >= SEGMENTS_IN_MEMORY:
            # Somebody else may have merged some of them.
            self._tables.clear()
        self._tables[file.name] = whole
        return among(whole, span)

    def _put(self, entry: ArchivedBatch) -> str:
        name = entry_name(entry.batch)
        self.folder.write_json(name, plain(entry))
        self._entries[name] = entry
        return name

    def _entry(self, file: IndexFile, *, keep: bool = False) -> ArchivedBatch:
        """An entry; the newest may be written again by another process: that is not to be kept."""
        known = self._entries.get(file.name)
        if known is not None:
            return known
        content = self.folder.read_json(file.name)
        if content is None:
            raise _GoneError
        where = f"{self.folder.path}/{file.name}"
        found = record(ArchivedBatch, content, where=where, hint=_HINT)
        if keep:
            self._entries[file.name] = found
        return found


def _live(found: Iterable[IndexFile | None]) -> list[IndexFile]:
    """The files that no segment covers, in order of their batches.

    Ranges of batches are nested or have nothing in common, and the outer one has a higher level.
    So by their first batch, higher levels first, a file is covered if one in front ends behind it.
    """
    kept: list[IndexFile] = []
    reached = -1
    files = [file for file in found if file is not None]
    for file in sorted(files, key=lambda file: (file.batches[0], -file.level)):
        if file.batches[1] > reached:
            kept.append(file)
            reached = file.batches[1]
    return kept


def _named(names: Sequence[str]) -> set[str]:
    """The names of what was written, without what is being written."""
    return {name for name in names if name.endswith((ENTRY, SEGMENT))}


def _is_next(batch: int, names: Sequence[str]) -> bool:
    """Whether a batch follows an entry, and nothing has to be merged after it.

    The newest entry is never merged; so what follows it is behind all segments, and how many of
    these there are does not matter. Entries that an interrupted merge has left count, too.
    """
    entries = sum(name.endswith(ENTRY) for name in names)
    return entries < ENTRIES_PER_SEGMENT and entry_name(batch - 1) in names


def _next_merge(files: Sequence[IndexFile]) -> Sequence[IndexFile]:
    """The files to merge next, of one level; none where all is well."""
    entries = [file for file in files if not file.level][:-1]
    if len(entries) >= max(ENTRIES_PER_SEGMENT, 2):
        return entries
    for level in sorted({file.level for file in files} - {0}):
        group = [file for file in files if file.level == level]
        if len(group) < max(SEGMENTS_PER_LEVEL, 2):
            continue
        sizes = np.cumsum([file.pieces for file in group])
        # The oldest that are small enough together.
        count = int(np.count_nonzero(sizes <= LARGEST_SEGMENT_PIECES))
        if count > 1:
            return group[:count]
    return ()
