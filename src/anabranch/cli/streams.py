"""Stream files as commands see them."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, final

from anabranch.cli.progress import Bar
from anabranch.errors import StreamError

if TYPE_CHECKING:
    from anabranch.model.arrivals import Arrivals
    from anabranch.model.files.stream_file import StreamForm

Result = TypeVar("Result")


@final
@dataclass(frozen=True, slots=True)
class InputFile:
    """A file to read, and what the user calls it."""

    path: Path
    name: str

    def describe(self, *, whole: bool = False) -> StreamForm:
        """Its form, as far as the first lines tell, or all of them."""
        from anabranch.model.files.stream_file import describe

        return describe(self.path, whole=whole, name=self.name)

    def pieces(self, form: StreamForm, *, strict: bool = True) -> Iterator[Arrivals]:
        """Its elements, with a progress bar where that takes a while."""
        from anabranch.model.files.stream_file import read_arrivals

        with Bar(f"reading {self.name}", self.path.stat().st_size) as bar:
            yield from read_arrivals(
                self.path, form.schema, name=self.name, strict=strict, on_bytes=bar
            )


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
        return InputFile(_log_as_file(path, copy.with_suffix(".parquet")), name)
    return InputFile(path, name)


def _log_as_file(log: Path, copy: Path) -> Path:
    """What has been committed to a log folder, as one file."""
    from anabranch.model.files.stream_parquet import write_parquet
    from anabranch.runtime.sources.files.log_folder import LogFolder

    folder = LogFolder(str(log))
    _, clock = folder.about()
    with copy.open("wb") as kept:
        write_parquet(kept, folder.read(), clock=clock)
    return copy


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
