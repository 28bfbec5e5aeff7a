"""Notes of copies that could not be read, from whoever reads to whoever plans."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, final
from urllib.parse import quote

from anabranch.runtime.sources.files.reader import FileSplit
from anabranch.runtime.store.folder import Folder

_LOST: Final = "lost"


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
        content = {"split": split.to_json(), "problem": problem}
        self._folder.write_json(_name(source, copy), content)

    def note(self, source: str, copy: int) -> dict[str, Any] | None:
        """The note about a copy: the piece, and the problem."""
        return self._folder.read_json(_name(source, copy))

    def remove(self, source: str, copy: int) -> None:
        """A copy begins again."""
        self._folder.remove(_name(source, copy))

    @property
    def _folder(self) -> Folder:
        return self.folder.child(_LOST)


def _name(source: str, copy: int) -> str:
    return f"{quote(source, safe='')}-{copy}.json"
