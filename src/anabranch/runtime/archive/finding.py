"""Find the archives of a query, in its checkpoint or where they were declared."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from anabranch.errors import StreamError
from anabranch.runtime.archive.archive import Archive
from anabranch.runtime.sources.archived.about import read_about
from anabranch.runtime.sources.files.log_home import checkpoint_paths
from anabranch.runtime.store.folder import Folder

ARCHIVES: Final = "archive"
"""The folder in a checkpoint with the archives of its sources."""

_ELSEWHERE: Final = ".json"


def archive_of_source(checkpoint: str, source: str, path: str | None = None) -> Folder:
    """The folder of an archive: the one declared, else one in the checkpoint.

    Of a declared one the checkpoint keeps the path, so that `archives_at` finds it.
    """
    home = Folder.at(checkpoint).child(ARCHIVES)
    name = quote(source, safe="")
    if path is None:
        return home.child(name)
    home.write_json(f"{name}{_ELSEWHERE}", path, seal=False)
    return Folder.at(path)


def archives_at(path: str) -> list[Archive]:
    """The archive at a path, or those of the query whose checkpoint is there, or beside it.

    Raises:
        StreamError: There is none.
    """
    if read_about(Folder.at(path)) is not None:
        return [Archive(Folder.at(path), None)]
    for checkpoint in checkpoint_paths(path):
        home = Folder.at(checkpoint).child(ARCHIVES)
        folders = {name: home.child(name) for name in home.folders()}
        for name in home.names():
            if name.endswith(_ELSEWHERE):
                folders[name.removesuffix(_ELSEWHERE)] = Folder.at(str(home.read_json(name)))
        found = [folder for _, folder in sorted(folders.items()) if read_about(folder) is not None]
        if found:
            return [Archive(folder, None) for folder in found]
    raise StreamError(
        "there is no archive",
        where=path,
        hint="name the folder of an archive, or the checkpoint or output of a query that has one: "
        "a source is archived with ARCHIVE, KEEP or LATE REVISE",
    )
