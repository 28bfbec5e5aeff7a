"""Find the checkpoint of a query from its output: inside it, beside it, or where the log says."""

from __future__ import annotations

from anabranch.errors import AnabranchError
from anabranch.runtime.sources.files.log_folder import LogFolder


def checkpoint_paths(path: str) -> list[str]:
    """The folders in which the checkpoint of a path may be, in the order to look in them.

    The path itself, the folder in an output or beside it where a query keeps its checkpoint unless
    told otherwise, and the `home` that a log folder names.
    """
    found = [path, f"{path}/_checkpoint", f"{path}.checkpoint"]
    try:
        home = LogFolder(path).home()
    except AnabranchError:
        # A damaged log: whoever reads it says so.
        home = None
    return found if home is None else [*found, home]
