"""What the planner writes down: an entry per batch, and a base that stands for older entries.

Entries are the files `<number>.json` of the plan, bases `base-<number>.json`. A key that is not
there means that there is nothing of it; so does an entry of a version that did not know it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, final

from anabranch.errors import EngineError
from anabranch.kernels.contract.command import Command
from anabranch.model.record import OMITTED, record
from anabranch.runtime.messages.counters import RewrittenFile
from anabranch.runtime.sources.files.copy_book import PlannedCopy
from anabranch.runtime.sources.files.reader import FileSplit
from anabranch.runtime.sources.files.units import Position, Unit
from anabranch.runtime.store.folder import Folder

_HINT: Final = "the checkpoint is damaged: restore it, or start with a new one"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedBatch:
    """One entry of the plan.

    Attributes:
        parts: The splits of each part, by source.
        after: How far each file or copy is planned with that, by source.
        ended: The sources that end with it.
        control: The commands that take effect, by the names of their files.
        stamp: The time of arrival of its rows, where that counts.
        inputs: The copies of which something else is known now, by source and name.
        restarts: The numbers of the copies that are read again from their beginning, by source.
        announced: Commands for merges of copies that begin.
        passed: How many microseconds have gone by since the entry before, by source.
        rows: About how many rows it has; None where nobody has counted them.
        rewritten: The files that were written again after they were read, by source.
    """

    parts: Mapping[str, tuple[tuple[FileSplit, ...], ...]]
    after: Mapping[str, Mapping[str, Position]]
    ended: tuple[str, ...] = ()
    control: Mapping[str, Command] = field(default_factory=dict, metadata=OMITTED)
    stamp: int = field(default=0, metadata=OMITTED)
    inputs: Mapping[str, Mapping[str, PlannedCopy]] = field(default_factory=dict, metadata=OMITTED)
    restarts: Mapping[str, tuple[int, ...]] = field(default_factory=dict, metadata=OMITTED)
    announced: tuple[Command, ...] = field(default=(), metadata=OMITTED)
    passed: Mapping[str, int] = field(default_factory=dict, metadata=OMITTED)
    rows: int | None = field(default=None, metadata=OMITTED)
    rewritten: Mapping[str, tuple[RewrittenFile, ...]] = field(
        default_factory=dict, metadata=OMITTED
    )


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedBase:
    """What all entries up to a number have come to.

    Attributes:
        after: How far each file or copy is planned, by source.
        inputs: What is known of copies, by source and name.
        ended: The sources that have ended.
        stamp: The last time of arrival.
        commanded: The names of commands that are in the plan, and whose files are still there.
        paused: The sources that are paused.
        most: How many rows a batch may have, by source, where a command says so.
    """

    after: Mapping[str, Mapping[str, Position]]
    inputs: Mapping[str, Mapping[str, PlannedCopy]] = field(default_factory=dict)
    ended: tuple[str, ...] = ()
    stamp: int = 0
    commanded: tuple[str, ...] = ()
    paused: tuple[str, ...] = ()
    most: Mapping[str, int] = field(default_factory=dict)


@final
@dataclass(slots=True)
class BatchDraft:
    """A planned batch while it is put together.

    `is_behind`: there is more than goes into it; `may_grow`: a larger batch would take more of it.
    """

    parts: dict[str, tuple[tuple[FileSplit, ...], ...]] = field(default_factory=dict)
    after: dict[str, Mapping[str, Position]] = field(default_factory=dict)
    ended: list[str] = field(default_factory=list)
    control: Mapping[str, Command] = field(default_factory=dict)
    stamp: int = 0
    inputs: dict[str, Mapping[str, PlannedCopy]] = field(default_factory=dict)
    restarts: dict[str, tuple[int, ...]] = field(default_factory=dict)
    announced: list[Command] = field(default_factory=list)
    rows: int = 0
    bytes: int = 0
    is_behind: bool = False
    may_grow: bool = False
    rewritten: dict[str, tuple[RewrittenFile, ...]] = field(default_factory=dict)

    @property
    def is_quiet(self) -> bool:
        """Whether there is nothing in it that is worth a batch."""
        return not self.parts and not self.control

    def count(self, units: Iterable[Unit]) -> int:
        """Count the rows of some pieces, and their bytes, as far as they are known."""
        every = list(units)
        rows = sum(unit.rows for unit in every)
        self.rows += rows
        self.bytes += sum(unit.bytes for unit in every)
        return rows

    def planned(self, passed: Mapping[str, int]) -> PlannedBatch:
        """The entry, with the time that has gone by."""
        return PlannedBatch(
            parts=self.parts,
            after=self.after,
            ended=tuple(self.ended),
            control=self.control,
            stamp=self.stamp,
            inputs=self.inputs,
            restarts=self.restarts,
            announced=tuple(self.announced),
            passed=passed,
            rows=self.rows,
            rewritten=self.rewritten,
        )


def read_entry(folder: Folder, number: int) -> PlannedBatch | None:
    """An entry of the plan in a folder; None if there is none of this number.

    Raises:
        EngineError: It is damaged.
    """
    name = f"{number}.json"
    content = folder.read_json(name)
    if content is None:
        return None
    return record(PlannedBatch, content, where=f"{folder.path}/{name}", hint=_HINT)


def read_base(folder: Folder, number: int) -> PlannedBase | None:
    """The base after an entry; None if there is none.

    Raises:
        EngineError: It is damaged.
    """
    name = f"base-{number}.json"
    content = folder.read_json(name)
    if content is None:
        return None
    return record(PlannedBase, content, where=f"{folder.path}/{name}", hint=_HINT)


def last_entry(logged: bytes | None) -> int | None:
    """The entry of the plan in a file of Spark's log of offsets; None where there is none.

    The file has a version, a line about the batch, and one line per source.
    """
    lines = [] if logged is None else logged.decode(errors="replace").splitlines()[2:]
    for line in lines:
        try:
            offset = json.loads(line)
        except ValueError:
            continue
        if isinstance(offset, dict) and isinstance(offset.get("entry"), int):
            return int(offset["entry"])
    return None


def newest_entry(planned: Folder) -> int:
    """The number of the newest entry of a plan, or of the base that stands for it; 0: none."""
    stems = [name.removesuffix(".json").removeprefix("base-") for name in planned.names()]
    return max((int(stem) for stem in stems if stem.isdigit()), default=0)


def positions_after(planned: Folder, entry: int) -> dict[str, dict[str, Position]]:
    """By source and file, how far the entries of a plan have come with one of them.

    Raises:
        EngineError: What is needed to tell is not there any more.
    """
    stems = [name.removesuffix(".json") for name in planned.names()]
    bases = [int(stem.removeprefix("base-")) for stem in stems if stem.startswith("base-")]
    first = max((number for number in bases if number <= entry), default=0)
    written: list[PlannedBase | PlannedBatch | None] = [read_base(planned, first)] if first else []
    written += [read_entry(planned, number) for number in range(first + 1, entry + 1)]
    found: dict[str, dict[str, Position]] = {}
    for each in written:
        if each is None:
            raise EngineError(
                f"the plan of entry {entry} is not complete", where=planned.path, hint=_HINT
            )
        for source, files in each.after.items():
            found.setdefault(source, {}).update(files)
    return found


def copy_names(planned: Folder, sources: Iterable[str]) -> dict[str, list[str]]:
    """The copies that plans know of these sources, by number."""
    stems = [name.removesuffix(".json") for name in planned.names()]
    bases = sorted(int(stem.removeprefix("base-")) for stem in stems if stem.startswith("base-"))
    entries = sorted(int(stem) for stem in stems if stem.isdigit())
    written = [
        *(read_base(planned, number) for number in bases),
        *(read_entry(planned, number) for number in entries),
    ]
    found: dict[str, list[str]] = {name: [] for name in sources}
    for each in written:
        for source, copies in each.inputs.items() if each is not None else ():
            names = found.setdefault(source, [])
            names += [name for name in copies if name not in names]
    return found
