"""Notes of copies that could not be read, from whoever reads to whoever plans."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final
from urllib.parse import quote

from anabranch.model.record import plain, record
from anabranch.runtime.sources.files.reader import FileSplit
from anabranch.runtime.store.folder import Folder

_LOST: Final = "lost"


@final
@dataclass(frozen=True, slots=True)
class LostCopy:
    """The piece of a copy that could not be read, and the problem."""

    split: FileSplit
    problem: str


@final
@dataclass(frozen=True, slots=True)
class LostCopies:
    """What a copy says after something that nobody could read is worth nothing.

    So a reader leaves a note, and the plan leaves the copy out until it is whole again; then it is
    read from its beginning. `folder` is that of the plan.
    """

    folder: Folder

    def add(self, source: str, copy: int, split: FileSplit, problem: str) -> None:
        """Something of a copy could not be read."""
        self._folder.write_json(_name(source, copy), plain(LostCopy(split, problem)))

    def note(self, source: str, copy: int) -> LostCopy | None:
        """The note about a copy, if there is one."""
        name = _name(source, copy)
        content = self._folder.read_json(name)
        if content is None:
            return None
        hint = "remove the file: the copy is looked at again then"
        return record(LostCopy, content, where=f"{self._folder.path}/{name}", hint=hint)

    def remove(self, source: str, copy: int) -> None:
        """A copy begins again."""
        self._folder.remove(_name(source, copy))

    @property
    def _folder(self) -> Folder:
        return self.folder.child(_LOST)


def _name(source: str, copy: int) -> str:
    return f"{quote(source, safe='')}-{copy}.json"
