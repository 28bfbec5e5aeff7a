"""Count the source files that a query visits from its text to its result.

A file is visited when a function of it runs. What runs while a module is loaded does not count:
bodies of modules and classes, decorators, tables that are made once. Run it with
`python tests/visited_files.py`; with `--functions` it names the functions, too.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

QUERY: Final = """
CREATE STREAM Bid (itemID INT, price DOUBLE, at TIMESTAMP) SOURCE 'bids.csv'
  ORDERED BY at WITH (ends = TRUE);
SELECT itemID, MAX(price) FROM Bid WINDOW(RANGE 10 MINUTES) GROUP BY itemID;
"""
ROWS: Final = """itemID,price,at
1,10.0,2026-01-01T12:00:00
2,20.0,2026-01-01T12:01:00
1,15.0,2026-01-01T12:02:00
"""


@contextmanager
def visited_functions(root: Path) -> Iterator[dict[str, set[str]]]:
    """By file below a folder, the functions that run meanwhile in this thread."""
    found: dict[str, set[str]] = {}
    prefix = f"{root}/"

    def seen(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(prefix) and not _is_loading(frame):
            found.setdefault(code.co_filename.removeprefix(prefix), set()).add(code.co_qualname)

    before = sys.gettrace()
    sys.settrace(seen)
    try:
        yield found
    finally:
        sys.settrace(before)


def _is_loading(frame: FrameType) -> bool:
    """Whether it runs because a module is being loaded."""
    above: FrameType | None = frame
    while above is not None:
        if above.f_code.co_name == "<module>" and above.f_globals["__name__"] != "__main__":
            return True
        above = above.f_back
    return False


def visited_by_query() -> dict[str, set[str]]:
    """What the query visits when nothing ran before, in files of the package."""
    import anabranch

    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("bids.csv").write_text(ROWS)
        with visited_functions(Path(anabranch.__file__).parent) as found:
            run = anabranch.Engine().sql(QUERY).run_local()
            assert run.table().num_rows
        os.chdir("/")
    return found


def main() -> None:
    """Write how many files there are, how many of each package, then the files."""
    found = visited_by_query()
    by_package = Counter(path.rpartition("/")[0] or "." for path in found)
    lines = [f"{len(found)} files, {sum(map(len, found.values()))} functions"]
    lines += [f"  {count:3} {package}" for package, count in by_package.most_common()]
    for path in sorted(found):
        lines += [path, *(f"  {name}" for name in sorted(found[path]) if "--functions" in sys.argv)]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
