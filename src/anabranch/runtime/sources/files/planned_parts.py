"""The work of a batch as the plan has it: a part for each task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, final

from anabranch.errors import EngineError
from anabranch.kernels.contract.command import Command
from anabranch.runtime.messages.counters import RewrittenFile
from anabranch.runtime.sources.files.earlier_parts import Earlier
from anabranch.runtime.sources.files.planned_batch import PlannedBatch, read_entry
from anabranch.runtime.sources.files.reader import FileSplit
from anabranch.runtime.sources.spec import FileSource
from anabranch.runtime.store.folder import Folder

CLOCK: Final = 1 << 20
"""The number of the part that tells how time passes; no other part is called so."""

CONTROL: Final = CLOCK + 1
"""The number of the part that brings commands."""

HANDED_IN: Final = CONTROL + 1
"""The number of the first part with corrections that were handed in; others follow."""

HANDED_IN_FOLDER: Final = "handed_in"
"""The folder in `revisions` with what was handed in."""


def corrections_file(number: int) -> str:
    """The name of a file with corrections that were handed in."""
    return f"{number}.parquet"


@final
@dataclass(frozen=True, slots=True)
class CopyNews:
    """What has become of a copy with this batch.

    `problem` is why nothing of it is read at the moment, empty if all is well again, None if that
    has not changed; with `restart` it is read again from its beginning.
    """

    name: str
    problem: str | None = None
    restart: bool = False


@final
@dataclass(frozen=True, slots=True)
class SourcePart:
    """The work of one task: some splits of a source, and whether the source ends in this batch.

    Where `passed` is said there are no splits: so many microseconds have gone by. `commands` are
    for all stages, whatever they read. With `handed_in` the splits are corrections, of a source in
    files or not, and tell nothing of its progress. `copies` says of which copies of the source
    there is something, or something to say, by number. `earlier` is what comes first in the batch
    and the source. `rewritten` are files of the source that were written again after they were
    read.
    """

    source: str
    number: int
    splits: tuple[FileSplit, ...]
    ends: bool
    passed: int | None = None
    commands: tuple[Command, ...] = ()
    copies: Mapping[int, CopyNews] = field(default_factory=dict)
    earlier: Earlier = field(default_factory=Earlier)
    handed_in: bool = False
    rewritten: tuple[RewrittenFile, ...] = ()


CopiesOf = Callable[[str, Iterable[FileSplit], PlannedBatch, bool], Mapping[int, CopyNews]]
"""Which copies of a source some splits are about; the flag says whether they are the first."""


def no_copies(*_: object) -> Mapping[int, CopyNews]:
    """For sources without copies."""
    return {}


def copy_news(
    name: str,
    names: Mapping[int, str],
    splits: Iterable[FileSplit],
    entry: PlannedBatch,
    *,
    is_first: bool,
) -> dict[int, CopyNews]:
    """The copies that a part of a source is about; of the others the first part tells.

    Args:
        name: The source.
        names: Its copies, by number.
        splits: Those of the part.
        entry: The entry of the plan.
        is_first: It is the first part of the source.
    """
    numbers = dict.fromkeys(split.copy for split in splits if split.copy is not None)
    found = {number: CopyNews(names[number]) for number in numbers}
    for called, copy in entry.inputs.get(name, {}).items():
        if is_first or copy.number in found:
            news = found.get(copy.number, CopyNews(called))
            found[copy.number] = replace(news, problem=copy.problem)
    for number in entry.restarts.get(name, ()):
        if is_first or number in found:
            found[number] = replace(found.get(number, CopyNews(names[number])), restart=True)
    return found


def planned_entries(folder: Folder, start: int, end: int) -> dict[int, PlannedBatch]:
    """The entries of the plan between two offsets, by number.

    Raises:
        EngineError: One of them is missing.
    """
    found = {}
    for number in range(start + 1, end + 1):
        entry = read_entry(folder, number)
        if entry is None:
            raise EngineError(
                f"batch entry {number} of the source log is missing",
                where=folder.path,
                hint="the checkpoint is damaged: restore it, or start with a new one",
            )
        found[number] = entry
    return found


def planned_parts(
    entries: Mapping[int, PlannedBatch],
    sources: Sequence[FileSource],
    copies_of: CopiesOf = no_copies,
) -> list[SourcePart]:
    """The work of these entries."""
    work: list[SourcePart] = []
    numbers: Counter[str] = Counter()
    by_name = {source.name: source for source in sources}
    earlier: dict[str, Earlier] = {}
    passed: Counter[str] = Counter()
    commands: list[Command] = []
    handed_in = 0
    for number, entry in entries.items():
        for name, parts in entry.parts.items():
            for index, splits in enumerate(parts):
                if any(split.change == "corrections" for split in splits):
                    at = HANDED_IN + handed_in
                    work.append(SourcePart(name, at, splits, ends=False, handed_in=True))
                    handed_in += 1
                    continue
                copies = copies_of(name, splits, entry, index == 0)
                ends = name in entry.ended
                before = earlier.get(name, Earlier())
                work.append(
                    SourcePart(
                        name,
                        numbers[name],
                        splits,
                        ends,
                        copies=copies,
                        earlier=before,
                        rewritten=entry.rewritten.get(name, ()) if index == 0 else (),
                    )
                )
                numbers[name] += 1
                if name in by_name:
                    earlier[name] = before.then(by_name[name], number, index, splits)
        passed.update(entry.passed)
        commands += [*entry.control.values(), *entry.announced]
    if commands:
        work.append(SourcePart("", CONTROL, (), ends=False, commands=tuple(commands)))
    work += [SourcePart(name, CLOCK, (), ends=False, passed=time) for name, time in passed.items()]
    return work
