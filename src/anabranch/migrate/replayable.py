"""Which sources can be read again for a change by replay, and from where."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, final

from anabranch.migrate.rereading import ArchivedRows, ReadSoFar, Rereadable
from anabranch.model.time import Time
from anabranch.runtime.archive.archive import Archive
from anabranch.runtime.archive.finding import archive_of_source
from anabranch.runtime.sources.files.rewritten import FileWatch, rewritten_files
from anabranch.runtime.sources.spec import FileSource

if TYPE_CHECKING:
    from anabranch.runtime.query.assembly import Assembly
    from anabranch.runtime.spark.frame_source import FrameSource


@final
@dataclass(frozen=True, slots=True)
class RereadableSources:
    """The sources of a query as they can be read again.

    Attributes:
        files: Those in files.
        archived: Those whose rows are copied to an archive, by name.
    """

    files: Mapping[str, FileSource]
    archived: Mapping[str, ArchivedRows] = field(default_factory=dict)

    @staticmethod
    def of(assembly: Assembly, files: Iterable[FileSource]) -> RereadableSources:
        """Those of a running query, and others in files that it will read."""
        found = {each.name: each for each in files}
        past, work = assembly.job.past, assembly.work
        archived: dict[str, ArchivedRows] = {}
        sources: list[FileSource | FrameSource] = [*work.files, *work.frames]
        for source in sources if past is not None else ():
            assert past is not None
            if source.name not in past.copied:
                continue
            path = None if source.archive is None else source.archive.path
            folder = archive_of_source(assembly.opened.path, source.name, path)
            archived[source.name] = ArchivedRows(
                promise=source.promise,
                archive=Archive(folder, None, source.archive),
                ordered=isinstance(source, FileSource) and source.ordered,
                has_stables=source.shape is None or source.shape.kind is not None,
            )
        return RereadableSources(found, archived)

    def choose(
        self, first: Mapping[str, Time], read: ReadSoFar
    ) -> tuple[dict[str, Rereadable], str | None]:
        """How the sources of a plan are read again; and why one cannot be.

        Args:
            first: By source, the instant from which on its rows are needed.
            read: How far the query has read.
        """
        chosen: dict[str, Rereadable] = {}
        for name, instant in first.items():
            source, archived = self.files.get(name), self.archived.get(name)
            why = _not_from_files(name, source, read)
            if why is None:
                assert source is not None
                chosen[name] = source
                continue
            if archived is None:
                return chosen, f"{why}, and it has no archive (ARCHIVE '<folder>' keeps them)"
            why = _not_from_archive(name, archived, instant)
            if why is not None:
                return chosen, why
            chosen[name] = archived
        return chosen, None


def _not_from_files(name: str, source: FileSource | None, read: ReadSoFar) -> str | None:
    """Why the rows of a source cannot be read again from its files; None where they can."""
    if source is None:
        return f"the rows of '{name}' come from a DataFrame and are not kept"
    if source.copies:
        return f"the copies of '{name}' are read each for itself"
    if source.stamped:
        return f"the rows of '{name}' have got their times when they came"
    if not source.ordered:
        return f"the rows of '{name}' have no order, so which were late is not known"
    if source.form in ("delta", "archive"):
        return f"'{name}' is read by versions ({source.form})"
    gone = [file for file in read.positions.get(name, ()) if not Path(file).exists()]
    if gone:
        return f"files of '{name}' are gone ({gone[0]})"
    positions = read.positions.get(name, {})
    told, new = rewritten_files({name: positions}), FileWatch(source).look_at_all(positions)
    again = [*told.get(name, ()), *new]
    if again:
        return f"files of '{name}' were written again after they were read ({again[0]})"
    return None


def _not_from_archive(name: str, source: ArchivedRows, first: Time) -> str | None:
    """Why the rows of a source cannot be read again from its archive; None where they can."""
    if source.promise.late == "revise":
        return f"the rows of '{name}' are corrected (LATE REVISE)"
    if source.ordered and source.has_stables:
        return f"which rows of '{name}' were late, its archive does not tell"
    oldest = source.archive.oldest()
    if oldest > first:
        clock = source.promise.clock
        return (
            f"the archive of '{name}' reaches back to {clock.format(oldest)}, and rows from "
            f"{clock.format(first)} on are needed (KEEP)"
        )
    return None
