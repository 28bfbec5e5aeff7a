"""Lines with revisions, apart from the many others that Arrow reads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

# The way revisions are written here. One that is spelled otherwise, with another key in front or
# with escapes, is an unknown field to Arrow; then all lines of its block are parsed one by one.
_REVISE: Final = re.compile(rb'^[ \t]*\{[ \t]*"revise"[ \t]*:.*$', re.MULTILINE)


def without_revisions(data: bytes) -> bytes:
    """The lines with blank ones where revisions were, so that lines keep their numbers."""
    return _REVISE.sub(b"", data) if b'"revise"' in data else data


def revision_lines(data: bytes, first_line: int) -> Iterator[tuple[int, bytes]]:
    """Number and text of the lines that `without_revisions` has made blank."""
    number, counted = first_line, 0
    for found in _REVISE.finditer(data):
        number += data.count(b"\n", counted, found.start())
        counted = found.start()
        yield number, found.group()
