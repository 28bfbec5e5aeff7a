"""Stream files as commands see them."""

from __future__ import annotations

import glob
import io
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
        begins: Where it was put together of several: the last position before each, and its name.
    """

    path: Path
    name: str
    since: int | None = None
    revised: int = 0
    begins: tuple[tuple[int, str], ...] = ()

    def located(self, position: int) -> tuple[str, int]:
        """The file that a position is in, and the position in there."""
        before = [(last, name) for last, name in self.begins if last < position]
        last, name = before[-1] if before else (0, self.name)
        return name, position - last

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
    """The files, folders and patterns of these names, and log folders; `-` is standard input.

    The files of a folder or a pattern are one stream, in the order of their names. They, logs and
    what can be read only once, such as a pipe, are kept in a file while that is needed.
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
    if path.is_dir() or (glob.has_magic(name) and not path.exists()):
        return _files_as_one(name, copy)
    return InputFile(path, name)


def _files_as_one(name: str, copy: Path) -> InputFile:
    """The stream files of a folder or a pattern, one behind the other.

    Raises:
        StreamError: There are none, or they are of several kinds.
    """
    from anabranch.runtime.sources.files.listing import demand_files, form_of

    files = demand_files(name)
    kinds = {form_of(file) for file in files}
    if len(kinds) > 1 or not kinds <= {"json", "parquet"}:
        shown = ", ".join(sorted({file.suffix or file.name for file in files}))
        raise StreamError(
            "the files are not all stream files of one kind",
            where=f"{name}: {shown}",
            hint="name JSON lines or Parquet files only, with a pattern: 'bids/*.jsonl'",
        )
    if len(files) == 1:
        return InputFile(files[0], str(files[0]))
    if kinds == {"parquet"}:
        return _parquet_as_one(name, files, copy.with_suffix(".parquet"))
    begins: list[tuple[int, str]] = []
    lines = 0
    with copy.open("wb") as kept:
        for file in files:
            begins.append((lines, str(file)))
            for line in _lines_of(file):
                kept.write(line if line.endswith(b"\n") else line + b"\n")
                lines += 1
    return InputFile(copy, name, begins=tuple(begins))


def _lines_of(file: Path) -> Iterator[bytes]:
    import pyarrow as pa

    with pa.input_stream(str(file), compression="detect") as stream:
        yield from io.BufferedReader(stream)


def _parquet_as_one(name: str, files: list[Path], copy: Path) -> InputFile:
    from anabranch.model.files.stream_file import describe, read_arrivals
    from anabranch.model.files.stream_parquet import write_parquet

    form = describe(files[0])
    parts = (
        part
        for file in files
        for piece in read_arrivals(file, form.schema, name=str(file), strict=False)
        for part in piece.parts()
    )
    with copy.open("wb") as kept:
        write_parquet(kept, parts, clock=form.clock)
    return InputFile(copy, name)


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
