"""Decide which pieces of which files go into a batch, and remember the decision."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from time import monotonic_ns, sleep, time_ns
from typing import Final

from anabranch.algebra.analysis.merge_case import CASES
from anabranch.kernels.contract.command import FEED, WEAKEN, Command
from anabranch.model.record import plain
from anabranch.runtime.messages.counters import RewrittenFile
from anabranch.runtime.sources.files.batch_sizing import BatchSizing
from anabranch.runtime.sources.files.copy_book import CopyBook, PlannedCopy
from anabranch.runtime.sources.files.earlier_parts import PartPromises
from anabranch.runtime.sources.files.lost_copies import LostCopies
from anabranch.runtime.sources.files.next_units import (
    Listing,
    TakenUnits,
    candidates,
    cannot_list,
    list_all,
    list_unread,
    take_units,
)
from anabranch.runtime.sources.files.planned_batch import (
    BatchDraft,
    PlannedBase,
    PlannedBatch,
    read_base,
    read_entry,
)
from anabranch.runtime.sources.files.planned_parts import (
    CopyNews,
    SourcePart,
    copy_news,
    corrections_file,
    planned_entries,
    planned_parts,
)
from anabranch.runtime.sources.files.reader import WHOLE, FileSplit
from anabranch.runtime.sources.files.rewritten import FileWatch
from anabranch.runtime.sources.files.units import (
    Position,
    share_units,
)
from anabranch.runtime.sources.spec import FileSource
from anabranch.runtime.store.busy import BusyMark
from anabranch.runtime.store.control import ControlFolder
from anabranch.runtime.store.folder import Folder

_KEEP: Final = 20
_COMPACT: Final = 20
_LOOK_AGAIN: Final = 0.005
"""Seconds between two looks for revisions that another process computes."""


def _now() -> int:
    return time_ns() // 1000


class FilePlanner:
    """Plans batches one after the other and writes each down before anyone reads it.

    An offset is the number of an entry in that log, so a restarted query reads the same pieces
    again, however the folders have changed since.
    """

    def __init__(
        self,
        sources: Sequence[FileSource],
        folder: Folder,
        parts: int,
        *,
        least: int = 1,
        heartbeats: Mapping[str, int] | None = None,
        control: ControlFolder | None = None,
        others: Sequence[str] = (),
        clock: Callable[[], int] = monotonic_ns,
        now: Callable[[], int] = _now,
        busy: BusyMark | None = None,
        corrections: str = "",
        sizing: BatchSizing | None = None,
    ) -> None:
        """Take up the log where it ends.

        Args:
            sources: What is planned.
            folder: Where the log is.
            parts: A batch is cut into about so many parts per source.
            least: For less than so many rows there is no further part.
            heartbeats: Sources, of files or not, that want to be told how time passes: after how
                many microseconds at most.
            control: Where commands come from.
            others: Sources that are not in files, but that commands may name.
            clock: Nanoseconds that never go back. The time between two lives does not count.
            now: The microseconds since 1970, for rows that get the time of their arrival.
            busy: Says whether revisions are being computed, which will come as commands.
            corrections: The folder with corrections that were handed in.
            sizing: How large batches are while there is more than goes into one; None: of the
                size that others begin with.
        """
        self._sources = tuple(sources)
        self._folder = folder
        self._parts = parts
        self._least = least
        self._heartbeats = dict(heartbeats or {})
        self._control = control
        self._sources_by_name = {**dict.fromkeys(others, False), **{s.name: True for s in sources}}
        self._commanded: set[str] = set()
        self._paused: set[str] = set()
        self._most: dict[str, int] = {}
        self._clock = clock
        self._counted_at = clock()
        self._is_frozen = False
        self._busy = busy
        self._corrections = corrections
        self._sizing = sizing or BatchSizing()
        self._now = now
        self._stamp = 0
        self._frozen: dict[str, Listing] = {}
        self._positions: dict[str, dict[str, Position]] = {s.name: {} for s in sources}
        self._lost = LostCopies(folder)
        self._books = {s.name: CopyBook(s, self._lost) for s in sources if s.copies}
        self._ended: set[str] = set()
        self._watches = {s.name: FileWatch(s, clock) for s in sources if not s.copies}
        self._last = self._recover()

    def freeze(self) -> None:
        """From now on only what is there already counts."""
        self._frozen = {s.name: list_all(s) for s in self._sources if not s.copies}
        for book in self._books.values():
            book.freeze()
        self._is_frozen = True

    def latest(self, start: int, *, limited: bool = True) -> int:
        """The next offset after `start`; `start` itself if there is nothing new."""
        if start < self._last:
            return start + 1
        entry = self._planned_beside_revisions(limited=limited)
        if entry is None:
            return start
        self._folder.write_json(f"{start + 1}.json", plain(entry))
        self._apply(entry)
        self._last = start + 1
        for name, numbers in entry.restarts.items():
            for number in numbers:
                self._lost.remove(name, number)
        for name, command in entry.control.items():
            assert self._control is not None
            self._control.take(name, command, self._last)
        return self._last

    def _planned_beside_revisions(self, *, limited: bool) -> PlannedBatch | None:
        """The next entry, when revisions that are being computed let it through."""
        busy = self._busy
        while True:
            # Commands are handed in before the marks go, so the marks are looked at first.
            is_held = busy is not None and busy.holds
            is_busy = busy is not None and busy.is_set
            entry = None if is_held else self._plan(limited=limited)
            if entry is not None or not self._is_frozen or not (is_held or is_busy):
                return entry
            # What is there has been read, but not all of its revisions are out.
            sleep(_LOOK_AGAIN)

    def rewritten(self) -> dict[str, list[RewrittenFile]]:
        """The files that were written again since they were planned, by source."""
        return {
            name: [each.file for each in watch.look_at_all(self._positions[name]).values()]
            for name, watch in self._watches.items()
        }

    def parts(self, start: int, end: int) -> list[SourcePart]:
        """The work between two offsets."""
        entries = planned_entries(self._folder, start, end)
        return planned_parts(entries, self._sources, self._copies_of)

    def _copies_of(
        self, name: str, splits: Iterable[FileSplit], entry: PlannedBatch, first: bool
    ) -> dict[int, CopyNews]:
        """The copies that a part is about; what has become of the others is told by the first."""
        if name not in self._books:
            return {}
        return copy_news(name, self._books[name].names, splits, entry, is_first=first)

    def commit(self, end: int) -> None:
        """Everything up to `end` has been processed: forget what is not needed to go on."""
        if end % _COMPACT:
            return
        PartPromises(self._folder).clean(end)
        names = self._folder.names()
        self._folder.write_json(f"base-{self._last}.json", plain(self._base()))
        for name in names:
            stem = name.removesuffix(".json")
            number = stem.removeprefix("base-")
            # The base before this one stays, so that the state of any entry that is there is known.
            if number.isdigit() and int(number) < end - _KEEP:
                self._folder.remove(name)

    def _recover(self) -> int:
        names = [name.removesuffix(".json") for name in self._folder.names()]
        bases = [int(n.removeprefix("base-")) for n in names if n.startswith("base-")]
        last = max(bases, default=0)
        if last:
            base = read_base(self._folder, last)
            assert base is not None
            self._restore(base)
        for number in sorted(int(name) for name in names if name.isdigit()):
            if number > last:
                entry = read_entry(self._folder, number)
                assert entry is not None
                self._apply(entry)
                last = number
        return last

    def _apply(self, entry: PlannedBatch) -> None:
        # What was planned was planned with these.
        for name, command in entry.control.items():
            self._commanded.add(name)
            self._obey(command)
        self._advance(entry.after, entry.inputs, entry.ended, entry.stamp)

    def _restore(self, base: PlannedBase) -> None:
        self._advance(base.after, base.inputs, base.ended, base.stamp)
        self._commanded.update(base.commanded)
        self._paused.update(base.paused)
        self._most.update(base.most)

    def _advance(
        self,
        after: Mapping[str, Mapping[str, Position]],
        inputs: Mapping[str, Mapping[str, PlannedCopy]],
        ended: Iterable[str],
        stamp: int,
    ) -> None:
        """Take over how far files and copies are planned."""
        for name, files in after.items():
            if name in self._books:
                self._books[name].apply(inputs.get(name, {}), files)
            else:
                self._positions.setdefault(name, {}).update(files)
        self._ended.update(ended)
        self._stamp = max(self._stamp, stamp)

    def _obey(self, command: Command) -> None:
        """What commands mean to whoever plans; the rest is for the stages."""
        if command.verb == "pause":
            self._paused.add(command.source)
        elif command.verb == "resume":
            self._paused.discard(command.source)
        elif command.verb == "limit" and command.value is not None:
            self._most[command.source] = command.value
        elif command.copy is not None and command.source in self._books:
            book = self._books[command.source]
            if command.verb == "detach":
                book.detach(command.copy)
            else:
                book.attach(command.copy)

    def _commands(self) -> dict[str, Command]:
        """What was handed in since the last batch."""
        if self._control is None:
            return {}
        found = {}
        copies = {name: [*book.names.values()] for name, book in self._books.items()}
        for name in self._control.waiting():
            if name in self._commanded:
                # It is in the plan; whoever planned it could not take it away any more.
                continue
            command = self._control.read(name, self._sources_by_name, copies)
            if command is not None:
                found[name] = command
        return found

    def _base(self) -> PlannedBase:
        every: dict[str, Mapping[str, Position]] = {**self._positions}
        every |= {name: book.positions for name, book in self._books.items()}
        waiting = set(self._control.waiting()) if self._control else set()
        return PlannedBase(
            after=every,
            inputs={name: book.copies for name, book in self._books.items()},
            ended=tuple(sorted(self._ended)),
            stamp=self._stamp,
            commanded=tuple(sorted(self._commanded & waiting)),
            paused=tuple(sorted(self._paused)),
            most=self._most,
        )

    def _plan(self, *, limited: bool) -> PlannedBatch | None:
        began = self._clock()
        self._sizing.finish(began)
        draft = BatchDraft(control=self._commands())
        for command in draft.control.values():
            self._obey(command)
        for source in self._sources:
            if source.name in self._paused:
                continue
            if source.copies:
                self._plan_copies(source, draft, limited=limited)
                continue
            if source.ends and source.name not in self._frozen:
                self._frozen[source.name] = list_all(source)
            watch, positions = self._watches[source.name], self._positions[source.name]
            try:
                listing = self._frozen.get(source.name)
                listing = list_unread(source, positions) if listing is None else listing
                rewritten = watch.look(listing, positions)
                told = {path: each.after for path, each in rewritten.items()}
                known = ChainMap(told, positions)
                taken = self._take(source, known, listing, limited=limited)
            except OSError as problem:
                raise cannot_list(source, problem) from None
            units = taken.units
            ends = source.ends and taken.is_all and source.name not in self._ended
            if not units and not ends and not rewritten:
                continue
            by_file = source.form == "lines"
            parts = share_units(units, self._parts, by_file=by_file, least=self._least) or [[]]
            if source.stamped:
                draft.stamp = stamp = max(self._now(), self._stamp + 1)
                parts = [[replace(split, stamp=stamp) for split in part] for part in parts]
            draft.parts[source.name] = tuple(map(tuple, parts))
            draft.after[source.name] = told | watch.signed(units, listing, known)
            if rewritten:
                draft.rewritten[source.name] = tuple(each.file for each in rewritten.values())
            draft.count(units)
            if not taken.is_all:
                draft.is_behind = True
                draft.may_grow |= not self._is_capped(source, taken, limited=limited)
            if ends:
                draft.ended.append(source.name)
        for command in draft.control.values():
            if command.verb == FEED:
                path = f"{self._corrections}/{corrections_file(command.value or 0)}"
                fed = FileSplit(path, 0, WHOLE, change="corrections")
                name = command.source
                draft.parts[name] = (*draft.parts.get(name, ()), (fed,))
        entry = self._with_time(draft)
        if entry is not None:
            behind, grows = draft.is_behind, draft.may_grow
            self._sizing.begin(began, draft.rows, draft.bytes, is_behind=behind, may_grow=grows)
        return entry

    def _bound(self, source: FileSource, *, limited: bool) -> int | None:
        """The rows of a source in the next batch; None: all that are there."""
        bound = self._owners_bound(source, limited=limited)
        return None if bound is None else min(bound, self._sizing.rows)

    def _owners_bound(self, source: FileSource, *, limited: bool) -> int | None:
        return self._most.get(source.name, source.limits.rows if limited else None)

    def _is_capped(self, source: FileSource, taken: TakenUnits, *, limited: bool) -> bool:
        """Whether the owner of a source lets no more of it into a batch, whatever that costs."""
        bound = self._owners_bound(source, limited=limited and source.ordered)
        return taken.has_all_files or (bound is not None and bound <= self._sizing.rows)

    def _take(
        self,
        source: FileSource,
        positions: Mapping[str, Position],
        listing: Listing,
        *,
        limited: bool,
    ) -> TakenUnits:
        """What fits into the next batch."""
        limited = limited and source.ordered
        rows = self._bound(source, limited=limited)
        files = source.limits.files if limited else None
        return take_units(source, candidates(source, positions, listing), rows, files)

    def _plan_copies(self, source: FileSource, draft: BatchDraft, *, limited: bool) -> None:
        """Put what comes next of the copies of a source into a draft."""
        name = source.name
        rows = self._bound(source, limited=limited)
        given = [each for each in draft.control.values() if each.source == name]
        commanded = {each.copy for each in given if each.copy is not None}
        taken = self._books[name].take(rows, commanded)
        if not (taken.units or taken.after or taken.changed):
            return
        parts = share_units(taken.units, self._parts, by_file=True, least=self._least) or [[]]
        draft.parts[name] = tuple(map(tuple, parts))
        draft.after[name] = taken.after
        count = draft.count(taken.units)
        # A batch of copies that is almost full is taken for one that has left something.
        if rows is not None and count >= rows * 3 // 4:
            draft.is_behind = draft.may_grow = True
        if taken.changed:
            draft.inputs[name] = taken.changed
        if taken.restarts:
            draft.restarts[name] = tuple(taken.restarts)
        draft.announced += [
            Command(verb="attach", source=name, copy=each, value=since)
            for each, since in taken.announced.items()
        ]
        if taken.weakest is not None:
            case = CASES.index(taken.weakest)
            draft.announced.append(Command(verb=WEAKEN, source=name, value=case))

    def _with_time(self, draft: BatchDraft) -> PlannedBatch | None:
        """The entry, with what has passed since the last one; None if it is not worth a batch."""
        if not self._heartbeats or self._is_frozen:
            return None if draft.is_quiet else draft.planned({})
        passed = (self._clock() - self._counted_at) // 1000
        if draft.is_quiet and passed < min(self._heartbeats.values()):
            return None
        self._counted_at += passed * 1000
        return draft.planned(dict.fromkeys(self._heartbeats, passed))
