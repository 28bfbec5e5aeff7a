"""What is typed, cut into statements and commands."""

from __future__ import annotations

import re
from typing import Final, TypeAlias

Span: TypeAlias = tuple[int, int]

_PIECE: Final = re.compile(
    r"""
    (?P<skip> --[^\n]* | /\*.*?\*/ | '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" | `[^`]*` )
    | (?P<open> /\* | ' | " | ` )
    | (?P<end> ; )
    | (?P<other> . )
    """,
    re.DOTALL | re.VERBOSE,
)


_LEAVE: Final = re.compile(r"(?:exit|quit)\s*(?:\(\s*\))?[ \t]*(?=\n|$)", re.IGNORECASE)
"""What people type to leave, who do not know `\\q`; it needs no semicolon."""


def cut(text: str) -> tuple[list[Span], int]:
    r"""Where the statements of a text stand, and where the rest begins that has no end yet.

    A statement ends with a semicolon, outside quotes and comments. A command begins with a
    backslash where a statement could, or is `exit` or `quit`, and ends with its line.

    >>> text = "SHOW STREAMS; \\timing\nSELECT ';'"
    >>> pieces, rest = cut(text)
    >>> [text[start:end] for start, end in pieces], text[rest:]
    (['SHOW STREAMS;', '\\timing\n'], "SELECT ';'")
    """
    pieces: list[Span] = []
    start = at = _first(text, 0)
    while at < len(text):
        if at == start and (text[at] == "\\" or _LEAVE.match(text, at)):
            line = text.find("\n", at)
            at = len(text) if line < 0 else line + 1
        else:
            found = _PIECE.match(text, at)
            assert found is not None
            if found["open"]:
                break
            at = found.end()
            if not found["end"]:
                continue
        pieces.append((start, at))
        start = at = _first(text, at)
    return pieces, start


def _first(text: str, at: int) -> int:
    """The next character that is not white."""
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def is_complete(text: str) -> bool:
    """Whether nothing is missing at the end: not even in an empty text.

    >>> is_complete("SELECT 1;"), is_complete("SELECT ';"), is_complete("SELECT 1; SELECT")
    (True, False, False)
    """
    _, rest = cut(text)
    return not text[rest:].strip()


def only(text: str, span: Span) -> str:
    r"""The text with everything else blank, so that messages name the right line and column.

    >>> only("SHOW STREAMS;\nSHOW TABLES;", (14, 26))
    '             \nSHOW TABLES;'
    """
    start, end = span
    return re.sub(r"[^\n]", " ", text[:start]) + text[start:end]


def open_quote(text: str) -> int | None:
    """Where a quote begins that is not closed; None if there is none.

    >>> open_quote("CREATE STREAM b SOURCE 'bi"), open_quote("SELECT 'a'")
    (23, None)
    """
    at = 0
    while at < len(text):
        found = _PIECE.match(text, at)
        assert found is not None
        if found["open"] in ("'", '"'):
            return at
        at = found.end()
    return None
