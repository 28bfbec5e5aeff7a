"""Stream files as commands see them."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, final

from anabranch.cli.progress import Bar
from anabranch.errors import StreamError

if TYPE_CHECKING:
    from anabranch.model.arrivals import Arrivals
    from anabranch.model.batch import EventBatch
    from anabranch.model.files.stream_file import StreamForm
    from anabranch.model.revision import Revision

Result = TypeVar("Result")


@final
@dataclass(frozen=True, slots=True)
class InputFile:
    """A file to read, and what the user calls it.

    Attributes:
        path: Where it is.
        name: What the user calls it.
        since: It has all events that end there or later, of a log that begins in the middle.
        revised: The number of the newest revision before its beginning.
    """

    path: Path
    name: str
    since: int | None = None
    revised: int = 0

    def describe(self, *, whole: bool = False) -> StreamForm:
        """Its form, as far as the first lines tell, or all of them."""
        from anabranch.model.files.stream_file import describe
        from anabranch.model.time import BEGINNING, Time

        form = describe(self.path, whole=whole, name=self.name)
        since = BEGINNING if self.since is None else Time(self.since)
        return replace(form, since=since, revised=self.revised)

    def pieces(self, form: StreamForm, *, strict: bool = True) -> Iterator[Arrivals]:
        """Its elements, with a progress bar where that takes a while."""
        from anabranch.model.files.stream_file import read_arrivals

        with Bar(f"reading {self.name}", self.path.stat().st_size) as bar:
            yield from read_arrivals(
                self.path,
                form.schema,
                name=self.name,
                strict=strict,
                revised=form.revised,
                on_bytes=bar,
            )

    def parts(self, form: StreamForm, known: int | None = None) -> Iterator[EventBatch | Revision]:
        """Its rows, and its revisions up to the number `known`, or all.

        Raises:
            StreamError: There is no revision of that number.
        """
        from anabranch.model.revision import Revision

        newest = form.revised
        for piece in self.pieces(form):
            for part in piece.parts():
                if isinstance(part, Revision):
                    newest = part.number
                    if known is not None and newest > known:
                        continue
                yield part
        if known is not None and known > newest:
            has = f"the newest is revision {newest}" if newest else "the stream has no revisions"
            raise StreamError(
                f"revision {known} does not exist",
                where=f"option --known, {self.name}",
                hint=f"{has}; 0 is before any",
            )

    def moves(self, form: StreamForm, known: int | None = None) -> Iterator[EventBatch]:
        """The same as rows that move ends, from the instant on at which the stream begins."""
        from anabranch.model.revision import Revision, clipped_changes
        from anabranch.model.time import BEGINNING, FOREVER

        for part in self.parts(form, known):
            batch = part.changes if isinstance(part, Revision) else part
            if form.since > BEGINNING:
                batch = clipped_changes(batch, form.since, FOREVER)
            yield batch


@contextmanager
def opened(*names: str) -> Iterator[list[InputFile]]:
    """The files and log folders of these names; `-` is standard input.

    What can be read only once, such as a pipe, and logs are kept in a file while that is needed.
    """
    if names.count("-") > 1:
        raise StreamError(
            "standard input can be read once only", where="- -", hint="name a file for one of them"
        )
    with tempfile.TemporaryDirectory(prefix="anabranch-") as folder:
        yield [_input(name, Path(folder) / str(number)) for number, name in enumerate(names)]


def _input(name: str, copy: Path) -> InputFile:
    if name == "-":
        with copy.open("wb") as kept:
            shutil.copyfileobj(sys.stdin.buffer, kept)
        return InputFile(copy, "standard input")
    path = Path(name)
    if path.exists() and not path.is_file() and not path.is_dir():
        with path.open("rb") as pipe, copy.open("wb") as kept:
            shutil.copyfileobj(pipe, kept)
        return InputFile(copy, name)
    if (path / "_log" / "stream.json").is_file():
        return _log_as_file(path, copy.with_suffix(".parquet"), name)
    return InputFile(path, name)


def _log_as_file(log: Path, copy: Path, name: str) -> InputFile:
    """What has been committed to a log folder, as one file."""
    from anabranch.model.files.stream_parquet import write_parquet
    from anabranch.runtime.sources.files.log_folder import LogFolder

    folder = LogFolder(str(log))
    _, clock = folder.about()
    about = folder.record()
    assert about is not None
    with copy.open("wb") as kept:
        write_parquet(kept, folder.parts(), clock=clock)
    return InputFile(copy, name, about.since, about.revised)


def with_forms(inputs: list[InputFile], action: Callable[[list[StreamForm]], Result]) -> Result:
    """Do something that depends on the forms of stream files.

    Columns are inferred from the first block of a file. Where a later line does not fit, all lines
    are looked at, and the action is done once more.
    """
    forms = [source.describe() for source in inputs]
    try:
        return action(forms)
    except StreamError:
        whole = [source.describe(whole=True) for source in inputs]
        if whole == forms:
            raise
        return action(whole)
