"""The text of the Nexmark queries in our dialect, ready to run over some folder."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from anabranch.errors import PlanError

QUERIES: Final = tuple(f"q{number}" for number in range(23))

_INCLUDE: Final = re.compile(r"^INCLUDE '([^']*)';$", re.MULTILINE)
_PLAIN: Final = re.compile(r"( DELAY \d+ SECONDS);")


def examples() -> Path:
    """The folder with the queries, which is part of the repository.

    Raises:
        PlanError: It is not there.
    """
    for root in (Path.cwd(), *Path(__file__).parents):
        if (root / "examples" / "nexmark" / "streams.sql").exists():
            return root / "examples" / "nexmark"
    raise PlanError(
        "the queries of Nexmark are missing",
        where="examples/nexmark",
        hint="run this in a clone of the repository",
    )


def script_of(query: str, data: Path, *, files_per_batch: int) -> str:
    """A query with all that it includes, over the files of a folder."""
    folder = examples()

    def included(found: re.Match[str]) -> str:
        return (folder / found[1]).read_text()

    text = _INCLUDE.sub(included, (folder / f"{query}.sql").read_text())
    text = text.replace("SOURCE 'data/", f"SOURCE '{data.absolute()}/")
    return _PLAIN.sub(rf"\1 WITH (max_files_per_batch = {files_per_batch});", text)
