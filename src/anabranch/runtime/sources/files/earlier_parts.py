"""What the parts of a batch promise to those that come behind them in the source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final
from urllib.parse import quote

from anabranch.model.coarser import chronon_of_time
from anabranch.model.time import BEGINNING, Time, subtract_saturating
from anabranch.runtime.sources.files.delta_rows import KIND
from anabranch.runtime.sources.files.reader import FileSplit, read_times
from anabranch.runtime.sources.spec import FileSource
from anabranch.runtime.store.folder import Folder

_FOLDER: Final = "promises"


@final
@dataclass(frozen=True, slots=True)
class UnreadPart:
    """Pieces of a part whose times only reading tells: its entry in the plan, its index there."""

    entry: int
    index: int
    splits: tuple[FileSplit, ...]


@final
@dataclass(frozen=True, slots=True)
class Earlier:
    """What comes first, in a batch and its source, in front of a part.

    Attributes:
        promised: What is known of it without reading.
        unread: The parts of which more is to be known, in order.
    """

    promised: Time = BEGINNING
    unread: tuple[UnreadPart, ...] = ()

    def then(
        self, source: FileSource, entry: int, index: int, splits: Sequence[FileSplit]
    ) -> Earlier:
        """The same for whoever comes behind one more part."""
        if not promises_within(source):
            return self
        found = [promise_of(source, split) for split in splits]
        promises = [promised for promised in found if promised is not None]
        rest = tuple(split for split, promise in zip(splits, found, strict=True) if promise is None)
        more = (UnreadPart(entry, index, rest),) if rest else ()
        return Earlier(max([self.promised, *promises]), self.unread + more)


@final
@dataclass(frozen=True, slots=True)
class PartPromises:
    """The stable point in front of a part, though the parts of a batch are read at one time.

    The greatest start, or stable point, of a part follows from the files: from the statistics of
    Parquet, else from a look at the columns of time alone. Whoever looks leaves a note for the
    others. A task begins with the part just in front of it, and so does every other task. Then
    they find each other's notes: with k parts at a time about k looks, one per task, not k * k / 2.
    A note says what the files say, so it does not matter who wrote it, or whether it gets lost.

    `folder` is that of the plan.
    """

    folder: Folder

    def before(self, source: FileSource, earlier: Earlier) -> Time:
        """What all earlier parts promise together."""
        seen = [self._seen(source, part) for part in reversed(earlier.unread)]
        return max([earlier.promised, *seen])

    def clean(self, entry: int) -> None:
        """Nobody asks any more for entries of the plan up to this one."""
        for name in self._notes.names():
            number = name.partition("-")[0]
            if number.isdigit() and int(number) <= entry:
                self._notes.remove(name)

    def _seen(self, source: FileSource, part: UnreadPart) -> Time:
        name = f"{part.entry}-{part.index}-{quote(source.name, safe='')}.json"
        noted = self._notes.read_json(name)
        if noted is None:
            noted = max(_read(source, split) for split in part.splits)
            self._notes.write_json(name, int(noted))
        return Time(noted)

    @property
    def _notes(self) -> Folder:
        return self.folder.child(_FOLDER)


def promises_within(source: FileSource) -> bool:
    """Whether rows of a source can be late because of others of the same batch."""
    # What a Delta table says of its changes holds no stable points; a table of elements does.
    has_kinds = source.shape is not None and source.shape.kind not in (None, KIND)
    holds_stables = source.form == "lines" or has_kinds
    is_checked = source.ordered and not source.stamped and not source.copies
    return is_checked and (source.promise.delay is not None or bool(holds_stables))


def promise_of(source: FileSource, split: FileSplit) -> Time | None:
    """What a piece promises, as far as that can be told without reading it."""
    if not split.path:
        stable = Time(split.stable if split.stable is not None else BEGINNING)
        return chronon_of_time(stable, source.promise.step)
    delay = source.promise.delay
    if delay is None and (source.form in ("log", "archive") or split.latest is not None):
        # The promises of a log stand behind its files, not in them.
        return BEGINNING
    if delay is None or split.latest is None:
        return None
    return subtract_saturating(chronon_of_time(Time(split.latest), source.promise.step), delay)


def _read(source: FileSource, split: FileSplit) -> Time:
    """What a piece promises, by reading its times."""
    latest, stable = read_times(source, split)
    delay = source.promise.delay
    return stable if delay is None else Time(max(stable, subtract_saturating(latest, delay)))
