"""The copies of a stream by their numbers: what is known of them, and what of each comes next."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, TypeAlias, final

from anabranch.algebra.analysis.merge_case import Case
from anabranch.errors import AnabranchError
from anabranch.runtime.sources.files.copies import (
    Measured,
    form_of_copy,
    list_copies,
    measure,
    misfit,
)
from anabranch.runtime.sources.files.lost_copies import LostCopies
from anabranch.runtime.sources.files.reader import read_split
from anabranch.runtime.sources.files.units import (
    START,
    Position,
    Unit,
    first_lines,
    new_log_units,
    new_units,
)
from anabranch.runtime.sources.spec import FileSource

FileState: TypeAlias = tuple[int, int, int] | None
"""The number of a file, its size, and when it was changed."""


@final
@dataclass(frozen=True, slots=True)
class PlannedCopy:
    """A copy as plans know it.

    Attributes:
        number: Copies are numbered in the order in which they were first seen, for good.
        identity: What it was when it was begun; None: it is to be read from its beginning.
        problem: Why nothing of it is read at the moment; empty if all is well.
        away: Somebody has detached it.
    """

    row: ClassVar[bool] = True

    number: int
    identity: str | None = None
    problem: str = ""
    away: bool = False


@final
@dataclass(slots=True)
class CopyBatch:
    """The part of the copies of a stream that one batch reads.

    Attributes:
        units: The pieces, copy by copy, each copy in its own order.
        after: How far the copies are planned with that.
        changed: The copies of which something else is known now.
        restarts: The numbers of those that are read again from their beginning.
        announced: From which instant on copies that begin vouch for their events, by name.
        weakest: The case that all copies of the batch allow, where some promise less than the plan
            relies on; None: none does, or it was told before.
    """

    units: list[Unit] = field(default_factory=list)
    after: dict[str, Position] = field(default_factory=dict)
    changed: dict[str, PlannedCopy] = field(default_factory=dict)
    restarts: list[int] = field(default_factory=list)
    announced: dict[str, int | None] = field(default_factory=dict)
    weakest: Case | None = None


class CopyBook:
    """Notices copies that come, go, break and begin anew; none of them stops the others."""

    def __init__(self, source: FileSource, lost: LostCopies) -> None:
        """Know nothing yet."""
        self._source = source
        self._lost = lost
        self._copies: dict[str, PlannedCopy] = {}
        self._positions: dict[str, Position] = {}
        self._frozen: dict[str, int] | None = None
        self._unreadable: dict[str, FileState] = {}
        self._told: set[Case] = set()

    @property
    def names(self) -> dict[int, str]:
        """What the copies are called, by number."""
        return {copy.number: name for name, copy in self._copies.items()}

    @property
    def positions(self) -> Mapping[str, Position]:
        """How far each copy is planned."""
        return self._positions

    @property
    def copies(self) -> Mapping[str, PlannedCopy]:
        """All copies that plans know, by name."""
        return dict(self._copies)

    def apply(self, copies: Mapping[str, PlannedCopy], after: Mapping[str, Position]) -> None:
        """Take over what a plan says."""
        self._copies.update(copies)
        self._positions.update(after)

    def freeze(self) -> None:
        """From now on only what is there already counts."""
        sizes = {name: _size(path) for name, path in self._there().items()}
        self._frozen = {name: size for name, size in sizes.items() if size is not None}

    def detach(self, name: str) -> None:
        """Read no more of a copy."""
        self._copies[name] = replace(self._copies[name], away=True, problem="")

    def attach(self, name: str) -> None:
        """Read a copy again, from its beginning: nobody remembers what it has said."""
        self._copies[name] = replace(self._copies[name], away=False, identity=None)

    def take(self, rows: int | None, commanded: Collection[str] = ()) -> CopyBatch:
        """What comes next, at most about so many rows of all copies together.

        Every copy that has something new gets its share, and at least one piece. Copies in
        `commanded` are announced by a command of the same batch.
        """
        taken = CopyBatch()
        there = self._there()
        if self._frozen is not None:
            there = {name: path for name, path in there.items() if name in self._frozen}
        copies = dict(self._copies)
        for name in there:
            copies.setdefault(name, PlannedCopy(len(copies)))
        cursors: dict[str, _Cursor] = {}
        for name, copy in copies.items():
            now = copy
            if not copy.away:
                now, cursor = self._look(name, copy, there.get(name), taken)
                if cursor is not None:
                    cursors[name] = cursor
            if now != self._copies.get(name):
                taken.changed[name] = now
        problems = _share_fairly(list(cursors.values()), rows)
        taken.weakest = self._weakest(cursors.values())
        for name, cursor in cursors.items():
            taken.units += cursor.taken
            if cursor.at != self._positions.get(name):
                taken.after[name] = cursor.at
        for name, problem in problems.items():
            now = replace(taken.changed.pop(name, copies[name]), problem=problem)
            # What is known of it already is no news, and alone not worth a batch.
            if now != self._copies.get(name):
                taken.changed[name] = now
        taken.announced = {n: since for n, since in taken.announced.items() if n not in commanded}
        return taken

    def _there(self) -> dict[str, Path]:
        try:
            return list_copies(self._source.path)
        except OSError:
            # The folder itself is gone, or nobody may look into it: so are its copies.
            return {}

    def _look(
        self, name: str, copy: PlannedCopy, path: Path | None, taken: CopyBatch
    ) -> tuple[PlannedCopy, _Cursor | None]:
        """What a copy is now, and how to read on in it if that can be done."""
        if path is None:
            return replace(copy, problem="it no longer exists"), None
        try:
            found = measure(path)
            begins = self._begins(name, copy, found)
            if begins:
                wrong = misfit(
                    form_of_copy(path, found.form), self._source.schema, self._source.promise.clock
                )
                if wrong:
                    return replace(copy, problem=wrong), None
            lacks = self._lacks(found)
            if lacks and not self._source.weakens:
                return replace(copy, problem=f"it {lacks}, and the merge relies on that"), None
        except (OSError, AnabranchError) as problem:
            return replace(copy, problem=_problem_text(problem)), None
        note = None if begins else self._lost.note(self._source.name, copy.number)
        if note is not None:
            return replace(copy, problem=note.problem), None
        at = self._positions.get(name, START)
        if begins:
            if name in self._positions:
                taken.restarts.append(copy.number)
                taken.announced[name] = found.since
            elif found.since is not None:
                taken.announced[name] = found.since
            at = START
        size = found.size if self._frozen is None else min(found.size, self._frozen[name])
        now = PlannedCopy(copy.number, found.identity)
        return now, _Cursor(name, copy.number, path, replace(found, size=size), at)

    def _lacks(self, found: Measured) -> str:
        """What a copy does not promise that the plan relies on, because the first ones did."""
        relied_on = self._source.relied_on
        return "" if relied_on is None else found.properties.lacks(relied_on)

    def _weakest(self, cursors: Iterable[_Cursor]) -> Case | None:
        """The case by which the copies of a batch can be merged, if that is news.

        It is told again after a restart, which changes nothing.
        """
        lacking = [
            each.found.properties for each in cursors if each.taken and self._lacks(each.found)
        ]
        if not lacking:
            return None
        relied_on = self._source.relied_on
        every = lacking if relied_on is None else [*lacking, relied_on]
        weakest: Case = "r3" if all(each.is_keyed for each in every) else "r4"
        is_news = weakest not in self._told and "r4" not in self._told
        self._told.add(weakest)
        return weakest if is_news else None

    def _begins(self, name: str, copy: PlannedCopy, found: Measured) -> bool:
        """Whether a copy is new, was made anew, or can be read again after all."""
        at = self._positions.get(name, START)
        if copy.identity != found.identity or found.size < at.offset:
            return True
        note = self._lost.note(self._source.name, copy.number)
        if note is None:
            self._unreadable.pop(name, None)
            return False
        # It is read again once the file has changed, not whenever somebody asks for news.
        state = _file_state(note.split.path)
        if self._unreadable.get(name) == state:
            return False
        try:
            for _ in read_split(self._source, note.split, self._source.schema.names):
                pass
        except AnabranchError:
            self._unreadable[name] = state
            return False
        return True


class _Cursor:
    """A position in a copy that moves on."""

    def __init__(self, name: str, number: int, path: Path, found: Measured, at: Position) -> None:
        self.name = name
        self.at = at
        self.taken: list[Unit] = []
        self._number = number
        self._path = path
        self.found = found
        self._units = self._from_here()
        self._next: Unit | None = None

    def fill(self, rows: int | None) -> tuple[int, bool]:
        """Take up to so many rows; how many it took, and whether there may be more."""
        count = 0
        while True:
            self._next = self._next or next(self._units, None)
            unit = self._next
            if unit is None:
                return count, False
            piece = unit
            if rows is not None and unit.rows:
                room = rows - count
                if room > 0 and self.found.form == "lines":
                    piece = first_lines(unit, room)
                # A piece that has no finer cut goes in whole if it is the first.
                if piece.rows > room and (self.taken or count):
                    return count, True
            splits = tuple(replace(split, copy=self._number) for split in piece.splits)
            self.taken.append(replace(piece, file=self.name, splits=splits))
            self.at, self._next = piece.after, None
            count += piece.rows
            if piece is not unit:
                self._units = self._from_here()

    def _from_here(self) -> Iterator[Unit]:
        if self.found.form == "log":
            return new_log_units(self._path, self.found.size, self.at)
        return new_units(self.found.form, self._path, self.found.size, self.at)


def _share_fairly(cursors: Sequence[_Cursor], rows: int | None) -> dict[str, str]:
    """Give every copy its part of the rows, and what some leave to the others; the problems met."""
    problems: dict[str, str] = {}
    waiting, left, progress = list(cursors), rows, 1
    while waiting and progress:
        share = None if left is None else max(1, left // len(waiting))
        progress, still = 0, []
        for cursor in waiting:
            if left is not None and left <= 0 and cursor.taken:
                continue
            try:
                count, more = cursor.fill(share)
            except (OSError, ValueError, KeyError, AnabranchError) as problem:
                problems[cursor.name] = _problem_text(problem)
                continue
            progress += count
            left = None if left is None else left - count
            still += [cursor] if more else []
        waiting = still
    return problems


def _file_state(path: str) -> FileState:
    """What changes when a file does; None where there is no file."""
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _size(path: Path) -> int | None:
    """How long a copy is; None if nobody can tell."""
    try:
        return measure(path).size
    except (OSError, AnabranchError):
        return None


def _problem_text(problem: Exception) -> str:
    """A problem in one line."""
    if isinstance(problem, FileNotFoundError):
        return f"a file no longer exists: {problem.filename}"
    if isinstance(problem, AnabranchError):
        return f"{problem.what}: {problem.where}" if problem.where else problem.what
    return str(problem).splitlines()[0][:200]
