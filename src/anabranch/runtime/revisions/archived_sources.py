"""What a checkpoint says of the sources whose rows it can find again.

Whoever hands in corrections names rows of a source. To find them in its archive, from any process
and whether the query runs or not, one has to know how to read what the archive refers to. A query
writes that down when it starts, in `revisions/sources.json`.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Final, final
from urllib.parse import quote

import pyarrow as pa

from anabranch.errors import PlanError
from anabranch.model.record import OMITTED, plain, record
from anabranch.runtime.archive.archive import Archive
from anabranch.runtime.archive.finding import ARCHIVES
from anabranch.runtime.sources.files.log_home import checkpoint_paths
from anabranch.runtime.sources.spec import FileForm, FileSource, Promise, Shape
from anabranch.runtime.store.folder import Folder

_FILE: Final = "sources.json"
_REVISIONS: Final = "revisions"
_HINT: Final = "start the query again: it rewrites the file"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFiles:
    """How to read files of a source again.

    Attributes:
        path: Where they are.
        form: What they hold.
        schema: The payload columns, as base64 of an Arrow schema.
        stored: All columns that count, likewise.
        shape: Which columns are times.
    """

    path: str
    form: FileForm
    schema: str
    stored: str
    shape: Shape | None = None

    @staticmethod
    def of(source: FileSource) -> StoredFiles:
        """What has to be known of a source."""
        return StoredFiles(
            path=source.path,
            form=source.form,
            schema=_text(source.schema),
            stored=_text(source.stored),
            shape=source.shape,
        )

    def source(self, promise: Promise) -> FileSource:
        """The source."""
        return FileSource(
            promise=promise,
            path=self.path,
            form=self.form,
            schema=_schema(self.schema),
            stored=_schema(self.stored),
            shape=self.shape,
        )


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedSource:
    """A source of a query, and where its rows can be found again.

    Attributes:
        promise: Its name and what it promises.
        only_points: Whether all of its rows are points.
        archive: The folder of its archive; None: in the checkpoint.
        files: What the archive refers to; None where it has copies.
        start: The payload column with the start of a row, if one has it.
        end: The one with the end.
    """

    promise: Promise
    only_points: bool
    archive: str | None = field(default=None, metadata=OMITTED)
    files: StoredFiles | None = field(default=None, metadata=OMITTED)
    start: str | None = field(default=None, metadata=OMITTED)
    end: str | None = field(default=None, metadata=OMITTED)

    @property
    def name(self) -> str:
        """The name of the source."""
        return self.promise.source

    def open(self, checkpoint: str) -> Archive:
        """Its archive, to be read."""
        source = None if self.files is None else self.files.source(self.promise)
        own = f"{checkpoint}/{ARCHIVES}/{quote(self.name, safe='')}"
        return Archive(Folder.at(self.archive or own), source)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedSources:
    """All sources of a query, by name; as it is in `sources.json`."""

    sources: Mapping[str, ArchivedSource]

    @staticmethod
    def read(revisions: str) -> ArchivedSources:
        """Those of a checkpoint, whose folder `revisions` this is.

        Raises:
            PlanError: Its query does not keep its past.
        """
        content = Folder.at(revisions).read_json(_FILE)
        if content is None:
            raise PlanError(
                "the query does not keep its past, so nothing of it can be corrected",
                where=revisions.removesuffix("/revisions"),
                hint="declare the source with LATE REVISE, and start the query with a new "
                "checkpoint",
            )
        return record(ArchivedSources, content, where=f"{revisions}/{_FILE}", hint=_HINT)

    def write(self, revisions: str) -> None:
        """Put them down."""
        Folder.at(revisions).write_json(_FILE, plain(self))

    def revised(self, name: str) -> ArchivedSource:
        """The source of a name, which can be corrected.

        Raises:
            PlanError: There is none, or it cannot.
        """
        found = self.sources.get(name)
        if found is None:
            near = get_close_matches(name, list(self.sources), 1)
            there = f"there are {', '.join(self.sources)}"
            raise PlanError(
                f"the query has no source '{name}'",
                where="corrections for a query",
                hint=f"did you mean '{near[0]}'?" if near else there,
            )
        if found.promise.late != "revise" or found.promise.stamped:
            is_stamped = found.promise.stamped
            why = (
                "its rows get the time at which they come, which nobody can name"
                if is_stamped
                else f"it is declared with LATE {found.promise.late.upper()}"
            )
            raise PlanError(
                f"source '{name}' cannot be corrected",
                where=why,
                hint="declare it with ORDERED BY and LATE REVISE, and start the query with a new "
                "checkpoint",
            )
        return found


def _text(schema: pa.Schema) -> str:
    return base64.b64encode(schema.serialize()).decode()


def _schema(text: str) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))


def readable(archives: Sequence[Archive], path: str) -> list[Archive]:
    """The archives of a query, which know the files that they refer to.

    Args:
        archives: What `archives_at` has found.
        path: There: at an archive itself nothing is known of its source.
    """
    for checkpoint in checkpoint_paths(path):
        if Folder.at(checkpoint).child(_REVISIONS).read_json(_FILE) is not None:
            sources = ArchivedSources.read(f"{checkpoint}/{_REVISIONS}").sources
            named = [(each.about().source, each) for each in archives]
            return [
                sources[name].open(checkpoint) if name in sources else each for name, each in named
            ]
    return list(archives)
