"""LIKE and regular expressions, where the pattern is a constant that means the same to both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from anabranch.expressions.functions.java_regex import Translated, translate
from anabranch.expressions.functions.signature import function, signature, table
from anabranch.expressions.functions.value import BOOLEAN, STRING, Value, text_literal

_TEXTS: Final = pa.list_(STRING)
_SPECIAL: Final = frozenset("%_")


def like(values: Sequence[Value], *, escape: str = "\\", any_case: bool = False) -> Value | None:
    """LIKE with a constant pattern."""
    text, pattern = values
    if text.type != STRING or not isinstance(pattern.literal, str) or len(escape) != 1:
        return None
    if not _is_like(pattern.literal, escape):
        return None
    if any_case:
        # The letters of the text may become several, those of the pattern must not.
        if not pattern.literal.isascii():
            return None
        lower = "(CASE WHEN strlen({}) = length({}) THEN lower({}) ELSE spark_lower({}) END)"
        text, written = text.called(lower), pattern.literal.lower()
    else:
        written = pattern.literal
    sql = f"({text.text} LIKE {text_literal(written)} ESCAPE {text_literal(escape)})"
    return Value(text=sql, type=BOOLEAN, fails=text.fails)


def _is_like(pattern: str, escape: str) -> bool:
    """Whether the escape stands before what may be escaped only."""
    at = 0
    while at < len(pattern):
        if pattern[at] == escape:
            if pattern[at + 1 : at + 2] not in (*_SPECIAL, escape):
                return False
            at += 1
        at += 1
    return True


def _regex(value: Value) -> Translated | None:
    return translate(value.literal) if isinstance(value.literal, str) else None


def matches(values: Sequence[Value]) -> Value | None:
    """Whether a regular expression is found somewhere in a text."""
    found = _regex(values[1])
    if found is None or values[0].type != STRING:
        return None
    text = f"regexp_matches({values[0].text}, {text_literal(found.looking)})"
    return Value(text=text, type=BOOLEAN, fails=values[0].fails)


def _matches(values: Sequence[Value]) -> str | None:
    found = matches(values)
    return None if found is None else found.text


def _group(values: Sequence[Value], found: Translated) -> int | None:
    group = values[2].literal if len(values) > 2 else 1
    return group if isinstance(group, int) and 0 <= group <= found.groups else None


def _extract(values: Sequence[Value]) -> str | None:
    found = _regex(values[1])
    if found is None or found.ends:
        return None
    group = _group(values, found)
    if group is None:
        return None
    return f"regexp_extract({values[0].text}, {text_literal(found.text)}, {group})"


def _extract_all(values: Sequence[Value]) -> str | None:
    found = _regex(values[1])
    if found is None or found.ends or found.maybe_empty:
        return None
    group = _group(values, found)
    if group is None:
        return None
    pattern = text_literal(found.text)
    all_ = f"regexp_extract_all({values[0].text}, {pattern}, {group})"
    # A group that takes no part in a match is an empty text.
    return f"list_transform({all_}, lambda e: COALESCE(e, ''))"


def _replace(values: Sequence[Value]) -> str | None:
    found, by = _regex(values[1]), values[2].literal
    if found is None or found.ends or found.maybe_empty or not isinstance(by, str):
        return None
    written = _replacement(by, found.groups)
    if written is None:
        return None
    pattern = text_literal(found.text)
    return f"regexp_replace({values[0].text}, {pattern}, {text_literal(written)}, 'g')"


def _replacement(text: str, groups: int) -> str | None:
    r"""`$1` and `\$` as DuckDB writes them: `\1` and `$`."""
    out, at = "", 0
    while at < len(text):
        char, after = text[at], text[at + 1 : at + 2]
        if char == "$":
            if not after.isdigit() or not after.isascii() or int(after) > groups:
                return None
            if text[at + 2 : at + 3].isdigit():
                return None
            out, at = out + "\\" + after, at + 2
        elif char == "\\":
            if not after:
                return None
            out, at = out + ("\\\\" if after == "\\" else after), at + 2
        else:
            out, at = out + char, at + 1
    return out


def _count(values: Sequence[Value]) -> str | None:
    found = _regex(values[1])
    if found is None or found.ends or found.maybe_empty:
        return None
    all_ = f"regexp_extract_all({values[0].text}, {text_literal(found.text)})"
    return f"CAST(len({all_}) AS INTEGER)"


def _substr(values: Sequence[Value]) -> str | None:
    found = _regex(values[1])
    if found is None or found.ends or found.maybe_empty:
        return None
    pattern = text_literal(found.text)
    matches = f"regexp_matches({values[0].text}, {pattern})"
    return f"(CASE WHEN {matches} THEN regexp_extract({values[0].text}, {pattern}) END)"


def _split(values: Sequence[Value]) -> str | None:
    found = _regex(values[1])
    if found is None or found.ends or found.maybe_empty or found.groups:
        return None
    return f"regexp_split_to_array({values[0].text}, {text_literal(found.text)})"


PATTERNS: Final = table(
    function("rlike regexp regexp_like", signature("text, string constant", "boolean", _matches)),
    function(
        "regexp_extract",
        signature("text, string constant, int constant", "string", _extract, optional=1),
    ),
    function(
        "regexp_replace", signature("text, string constant, string constant", "string", _replace)
    ),
    function("regexp_count", signature("text, string constant", "int", _count)),
    function("regexp_substr", signature("text, string constant", "string", _substr)),
    function(
        "regexp_extract_all",
        signature(
            "text, string constant, int constant", lambda _: _TEXTS, _extract_all, optional=1
        ),
    ),
    function("split", signature("text, string constant", lambda _: _TEXTS, _split)),
)
