"""Spellings of Spark, Flink and others: refused with what to write here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from sqlglot.tokenizer_core import Token, TokenType

from anabranch.language.text.script import Script

_BOUNDS: Final = "its bounds are the columns window_start and window_end"
_OF_THE_STREAM: Final = "the time is that of the stream, so its column is not named"
_CLAUSES: Final = ("SELECT", "FROM", "JOIN", "ON", "WHERE", "GROUP BY", "HAVING", "ORDER BY")
_NOT_IN: Final = ("FROM", "JOIN", "ON")
_WINDOWS: Final = ("WINDOW", "SESSION_WINDOW", "TUMBLE", "HOP", "SESSION", "TUMBLING", "HOPPING")
_START: Final = ("TUMBLE_START", "HOP_START", "SESSION_START")
_END: Final = ("TUMBLE_END", "HOP_END", "SESSION_END", "TUMBLE_ROWTIME", "HOP_ROWTIME")
_QUOTED: Final = (TokenType.STRING, TokenType.IDENTIFIER)

STATEMENTS: Final[Mapping[str, str]] = {
    "INSERT": "write the SELECT alone and say where it goes when it is started: anabranch run "
    "query.sql --to PATH, query.start(to='PATH'), or \\to PATH in the shell",
    "UPDATE": "correct rows of a source with LATE REVISE: anabranch revise, run.revise(...)",
    "DELETE": "correct rows of a source with LATE REVISE: anabranch revise, run.revise(...)",
    "MERGE": "merge copies of a stream with MERGE(a, b) in FROM; write tables with --to delta:PATH",
    "SET": "options stand where they act: DELAY, LATE and WITH (...) in CREATE STREAM, and the "
    "options of anabranch run",
    "USE": "there is one catalog: name streams as they were created",
    "ALTER": "write CREATE OR REPLACE STREAM, or CREATE OR REPLACE VIEW",
    "REFRESH": "answers are always up to date: leave it out",
    "CACHE": "a query that writes to a folder is shared by others: leave it out",
}
"""Words that begin statements elsewhere, and what to do here."""

CREATED: Final[Mapping[str, str]] = {
    "MATERIALIZED": "write CREATE VIEW name AS query; starting a query over it keeps its answer up "
    "to date: anabranch run --to PATH, query.start(to='PATH')",
    "SOURCE": "write CREATE STREAM name (columns) SOURCE 'path' ORDERED BY column DELAY duration",
    "SINK": "say where a query goes when it is started: anabranch run query.sql --to PATH",
    "STREAMING": "write CREATE STREAM name AS query, or CREATE STREAM name SOURCE 'path'",
    "LIVE": "write CREATE VIEW name AS query",
    "EXTERNAL": "write CREATE STREAM name SOURCE 'path', or CREATE TABLE name SOURCE 'path'",
    "DATABASE": "there is one catalog, and it needs no database",
    "SCHEMA": "there is one catalog, and it needs no schema",
    "CONNECTION": "name the path or the format in SOURCE: CREATE STREAM name SOURCE 'path'",
}
"""What is created elsewhere, and what to create here."""


def refuse_foreign_query(script: Script, tokens: Sequence[Token]) -> None:
    """Refuse windows over a column of time, and clauses that mean nothing here.

    Raises:
        QueryError: There is one; the hint is its translation.
    """
    clause = ""
    # A clause in parentheses, such as ORDER BY in WINDOW(ROWS 1 ORDER BY k), ends with them, and
    # so does one in brackets.
    around: list[str] = []
    for index, token in enumerate(tokens):
        word = "" if token.token_type in _QUOTED else " ".join(token.text.upper().split())
        if word in ("(", "["):
            around.append(clause)
        elif word in (")", "]") and around:
            clause = around.pop()
        if word in _CLAUSES:
            clause = word
        after = [each.text.upper() for each in tokens[index + 1 : index + 4]]
        span = (token.start, token.end + 1)
        if word == "WINDOW" and after[:2] in ([".", "START"], [".", "END"]):
            raise script.wrong(
                f"window.{after[1].lower()} is not a column",
                (token.start, tokens[index + 2].end + 1),
                f"write window_{after[1].lower()}",
            )
        if word == "EMIT" and after[:1] and after[0] in ("CHANGES", "FINAL", "ON"):
            raise script.wrong(
                f"EMIT {after[0]} does not belong in a query",
                (token.start, tokens[index + 1].end + 1),
                "say it when the query is started: --emit speculative (corrected later) or --emit "
                "final, query.start(emit='final')",
            )
        if (
            word == "SELECT"
            and after[:1] == ["STREAM"]
            and len(after) > 1
            and after[1]
            not in (
                ",",
                "FROM",
                ".",
                "AS",
            )
        ):
            raise script.wrong(
                "SELECT STREAM is not needed",
                (token.start, tokens[index + 1].end + 1),
                "write SELECT: every query over a stream is one",
            )
        if clause in _NOT_IN or after[:1] != ["("] or len(after) < 3:
            continue
        if word in (*_START, *_END):
            bound = "window_start" if word in _START else "window_end"
            raise script.wrong(f"there is no function {word}", span, f"write {bound}")
        column = tokens[index + 2]
        # A column may be called like a type: time, timestamp, date.
        is_name = column.token_type == TokenType.IDENTIFIER or column.text.isidentifier()
        if word in _WINDOWS and is_name and after[2] in (",", "."):
            raise _window(script, tokens, index, word)


def _window(script: Script, tokens: Sequence[Token], index: int, word: str) -> Exception:
    """The translation of a window over a column: `window(at, '10 minutes', '1 minute')`."""
    sizes, last = _arguments(script, tokens, index + 1)
    sizes = sizes[1:]
    span = (tokens[index].start, last)
    if word in ("SESSION", "SESSION_WINDOW"):
        here = f"SESSION({sizes[0]})" if sizes else "SESSION(gap)"
    elif len(sizes) > 1 and word == "HOP":
        here = f"HOPPING({sizes[1]}, {sizes[0]})"
    elif len(sizes) > 1:
        here = f"HOPPING({sizes[0]}, {sizes[1]})"
        if len(sizes) > 2:
            here = f"{here[:-1]}, OFFSET {sizes[2]})"
    else:
        here = f"TUMBLING({sizes[0] if sizes else 'size'})"
    return script.wrong(
        f"{word} over a column of time is not a window here",
        span,
        f"write GROUP BY {here}: {_OF_THE_STREAM}, and {_BOUNDS}",
    )


def _arguments(script: Script, tokens: Sequence[Token], opening: int) -> tuple[list[str], int]:
    """What stands between the commas of a call, and where it ends."""
    found: list[str] = []
    depth, start = 0, tokens[opening].end + 1
    for token in tokens[opening:]:
        depth += (token.text == "(") - (token.text == ")")
        if depth == 0 or (depth == 1 and token.token_type == TokenType.COMMA):
            found.append(" ".join(script.text[start : token.start].split()))
            start = token.end + 1
        if depth == 0:
            return found, token.end + 1
    return found, tokens[-1].end + 1


def refuse_watermark(script: Script, tokens: Sequence[Token]) -> None:
    """Refuse `WATERMARK FOR at AS at - INTERVAL '5' SECOND` among columns.

    Raises:
        QueryError: It is there; the hint is its translation.
    """
    for index, token in enumerate(tokens):
        words = [each.text.upper() for each in tokens[index : index + 2]]
        if words != ["WATERMARK", "FOR"] or token.token_type in _QUOTED:
            continue
        rest = tokens[index + 2 :]
        depth, end = 0, len(rest)
        for position, each in enumerate(rest):
            depth += (each.text == "(") - (each.text == ")")
            if depth < 0 or (depth == 0 and each.token_type == TokenType.COMMA):
                end = position
                break
        text = script.text
        column = rest[0].text if rest else "at"
        minus = next((n for n, each in enumerate(rest[:end]) if each.text == "-"), None)
        delay = ""
        if minus is not None and end > minus + 1:
            delay = " ".join(text[rest[minus + 1].start : rest[end - 1].end + 1].split())
        last = rest[end - 1].end + 1 if end else token.end + 1
        raise script.wrong(
            "WATERMARK FOR does not belong among the columns",
            (token.start, last),
            f"write behind the columns: SOURCE 'path' ORDERED BY {column}"
            f"{f' DELAY {delay}' if delay else ' DELAY 5 SECONDS'}",
        )
