"""Functions of texts; characters are Unicode's, whatever their length in bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from anabranch.expressions.functions.signature import Function, Text, function, signature, table
from anabranch.expressions.functions.value import (
    BIGINT,
    STRING,
    Value,
    is_array,
)
from anabranch.expressions.functions.widening import implicit

_IS_ASCII: Final = "strlen({0}) = length({0})"


def _cased(names: str, duckdb: str, python: str) -> tuple[Function, ...]:
    """DuckDB's function for ASCII, another for letters that become several."""
    text = f"(CASE WHEN {_IS_ASCII} THEN {duckdb}({{0}}) ELSE {python}({{0}}) END)"
    return function(names, signature("string", "string", text))


def substring(values: Sequence[Value]) -> str:
    """From a position on, counted from 1, or from the end if negative."""
    text, position = values[0].text, values[1].text
    start = f"(CASE WHEN {position} > 0 THEN CAST({position} AS BIGINT) - 1"
    start += f" WHEN {position} < 0 THEN length({text}) + {position}"
    start += f" WHEN {position} = 0 THEN 0 END)"
    if isinstance(values[1].literal, int) and values[1].literal >= 0:
        start = str(max(values[1].literal - 1, 0))
    first = start if start.isdigit() else _at_least_zero(start)
    if len(values) == 2 and start.isdigit():
        return f"substring({text}, {first} + 1)"
    size = values[2].text if len(values) > 2 else str(2**31 - 1)
    # A count from a start before the first character is used up on the way.
    count = _at_least_zero(f"({start} + CAST({size} AS BIGINT) - {first})")
    return f"substring({text}, {first} + 1, {count})"


def _at_least_zero(text: str) -> str:
    """DuckDB's `greatest` would make a zero of NULL."""
    return f"(CASE WHEN {text} < 0 THEN 0 ELSE {text} END)"


def _pad(side: str) -> Text:
    def text(values: Sequence[Value]) -> str:
        what, size = values[0].text, _at_least_zero(values[1].text)
        filler = values[2].text if len(values) > 2 else "' '"
        padded = f"{side}({what}, {size}, {filler})"
        if len(values) > 2 and values[2].literal:
            return padded
        if len(values) == 2:
            return padded
        return f"(CASE WHEN {filler} = '' THEN left({what}, {size}) ELSE {padded} END)"

    return text


def _trim(word: str) -> Text:
    def text(values: Sequence[Value]) -> str:
        """`trim(text)`, or `trim(characters, text)` as Spark's functions order them."""
        if len(values) == 1:
            return f"{word}({values[0].text}, ' ')"
        return f"{word}({values[1].text}, {values[0].text})"

    return text


def _joined(values: Sequence[Value]) -> str | None:
    """Texts with something in between, without those that are NULL."""
    parts = []
    for value in values[1:]:
        if is_array(value.type) and value.type.value_type == STRING:
            parts.append(f"COALESCE({value.text}, [])")
            continue
        part = implicit(value, STRING)
        if part is None:
            return None
        parts.append(f"[{part.text}]")
    if not parts:
        return f"(CASE WHEN {values[0].text} IS NOT NULL THEN '' END)"
    if len(parts) > 1:
        joined = (
            f"list_concat({', '.join(parts)})"
            if len(parts) == 2
            else f"flatten([{', '.join(parts)}])"
        )
    else:
        joined = parts[0]
    kept = f"list_filter({joined}, lambda e: e IS NOT NULL)"
    # DuckDB wants the separator of a list to be a constant, Spark does not.
    if values[0].literal is None:
        return None
    return f"COALESCE(array_to_string({kept}, {values[0].text}), '')"


def _split_part(values: Sequence[Value]) -> str | None:
    text, delimiter, part = values
    if not isinstance(part.literal, int) or part.literal == 0 or not delimiter.literal:
        return None
    return f"split_part({text.text}, {delimiter.text}, {part.text})"


def _locate(values: Sequence[Value]) -> str:
    """The position of a text in another, from a position on."""
    part, text = values[0].text, values[1].text
    if len(values) == 2:
        return f"CAST(instr({text}, {part}) AS INTEGER)"
    start = values[2].text
    rest = f"substring({text}, {start})"
    at = f"instr({rest}, {part})"
    found = f"CAST(CASE WHEN {at} = 0 THEN 0 ELSE {at} + {start} - 1 END AS INTEGER)"
    inside = f"{start} <= length({text}) + 1"
    nothing = f"{text} IS NULL OR {part} IS NULL"
    return (
        f"(CASE WHEN {start} IS NULL THEN 0 WHEN {nothing} THEN NULL WHEN {start} < 1 THEN 0"
        f" WHEN {part} = '' THEN 1 WHEN {inside} THEN {found} ELSE 0 END)"
    )


def _overlay(values: Sequence[Value]) -> str:
    text, other, position = (value.text for value in values[:3])
    size = values[3].text if len(values) > 3 else "-1"
    length = f"(CASE WHEN {size} < 0 THEN length({other}) ELSE CAST({size} AS BIGINT) END)"
    before = _at_least_zero(f"({position} - 1)")
    after = substring((values[0], Value(text=f"({position} + {length})", type=BIGINT)))
    return f"(left({text}, {before}) || {other} || {after})"


def _concat(values: Sequence[Value]) -> str:
    return f"({' || '.join(value.text for value in values)})" if values else "''"


def _elt(values: Sequence[Value]) -> str:
    branches = (f"WHEN {number} THEN {value.text}" for number, value in enumerate(values[1:], 1))
    number = values[0].text
    failure = f"CASE WHEN {number} IS NOT NULL THEN error('there is no such argument') END"
    return f"(CASE {number} {' '.join(branches)} ELSE {failure} END)"


def _index(values: Sequence[Value]) -> str | None:
    """All before the nth delimiter, or after the nth from the end."""
    text, delimiter, count = values
    if not isinstance(count.literal, int) or not delimiter.literal:
        return None
    if count.literal == 0:
        return f"left({text.text}, 0)"
    parts = f"string_split({text.text}, {delimiter.text})"
    kept = f"{parts}[:{count.literal}]" if count.literal > 0 else f"{parts}[{count.literal}:]"
    return f"array_to_string({kept}, {delimiter.text})"


def _find_in_set(values: Sequence[Value]) -> str:
    one, many = values[0].text, values[1].text
    at = f"COALESCE(list_position(string_split({many}, ','), {one}), 0)"
    nothing = f"{one} IS NULL OR {many} IS NULL"
    return f"(CASE WHEN {nothing} THEN NULL WHEN contains({one}, ',') THEN 0 ELSE {at} END)"


def _encoded(values: Sequence[Value]) -> str | None:
    name = str(values[1].literal).upper()
    return f"encode({values[0].text})" if name == "UTF-8" else None


def _decoded(values: Sequence[Value]) -> str | None:
    name = str(values[1].literal).upper()
    return f"decode({values[0].text})" if name == "UTF-8" else None


_CHR: Final = "(CASE WHEN {0} < 0 THEN '' ELSE chr(CAST({0} % 256 AS INTEGER)) END)"
_DISTANCE: Final = (
    "(CASE WHEN strlen({0}) = length({0}) AND strlen({1}) = length({1})"
    " THEN CAST(levenshtein({0}, {1}) AS INTEGER) ELSE spark_levenshtein({0}, {1}) END)"
)
_RIGHT: Final = "(CASE WHEN {1} <= 0 AND {0} IS NOT NULL THEN '' ELSE right({0}, {1}) END)"

TEXTS: Final = table(
    _cased("upper ucase", "upper", "spark_upper"),
    _cased("lower lcase", "lower", "spark_lower"),
    function("initcap", signature("string", "string", "spark_initcap({0})")),
    function(
        "reverse",
        signature(
            "string",
            "string",
            f"(CASE WHEN {_IS_ASCII} THEN reverse({{0}}) ELSE spark_reverse({{0}}) END)",
        ),
        signature("array", lambda values: values[0].type, "list_reverse({0})"),
    ),
    function(
        "length len char_length character_length",
        signature("string", "int", "CAST(length({0}) AS INTEGER)"),
        signature("bytes", "int", "CAST(octet_length({0}) AS INTEGER)"),
    ),
    function(
        "octet_length",
        signature("bytes", "int", "CAST(octet_length({0}) AS INTEGER)"),
        signature("string", "int", "CAST(strlen({0}) AS INTEGER)"),
    ),
    function(
        "bit_length",
        signature("bytes", "int", "CAST(octet_length({0}) * 8 AS INTEGER)"),
        signature("string", "int", "CAST(strlen({0}) * 8 AS INTEGER)"),
    ),
    function(
        "concat",
        signature("string", "string", _concat, more=True),
    ),
    function(
        "concat_ws", signature("string constant, any", "string", _joined, more=True, optional=1)
    ),
    function("substring substr", signature("string, int, int", "string", substring, optional=1)),
    function(
        "left",
        signature(
            "string, int", "string", lambda v: f"left({v[0].text}, {_at_least_zero(v[1].text)})"
        ),
    ),
    function("right", signature("string, int", "string", _RIGHT)),
    function("trim", signature("string", "string", _trim("trim"))),
    function(
        "btrim",
        signature("string", "string", "trim({0}, ' ')"),
        signature("string, string", "string", "trim({0}, {1})"),
    ),
    function(
        "ltrim",
        signature("string", "string", _trim("ltrim")),
        signature("string, string", "string", _trim("ltrim")),
    ),
    function(
        "rtrim",
        signature("string", "string", _trim("rtrim")),
        signature("string, string", "string", _trim("rtrim")),
    ),
    function("lpad", signature("string, int, string", "string", _pad("lpad"), optional=1)),
    function("rpad", signature("string, int, string", "string", _pad("rpad"), optional=1)),
    function("repeat", signature("string, int", "string", "repeat({0}, {1})")),
    function("space", signature("int", "string", "repeat(' ', {0})")),
    function(
        "replace",
        signature("string, string, string", "string", "replace({0}, {1}, {2})"),
        signature("string, string", "string", "replace({0}, {1}, '')"),
    ),
    function(
        "translate", signature("string, string, string", "string", "translate({0}, {1}, {2})")
    ),
    function("instr", signature("string, string", "int", "CAST(instr({0}, {1}) AS INTEGER)")),
    function("locate position", signature("string, string, int", "int", _locate, optional=1)),
    function("contains", signature("string, string", "boolean", "contains({0}, {1})")),
    function("startswith", signature("string, string", "boolean", "starts_with({0}, {1})")),
    function("endswith", signature("string, string", "boolean", "ends_with({0}, {1})")),
    function("ascii", signature("string", "int", "CAST(ascii({0}) AS INTEGER)")),
    function("chr char", signature("bigint", "string", _CHR)),
    function("levenshtein", signature("string, string", "int", _DISTANCE)),
    function(
        "split_part", signature("string, string constant, int constant", "string", _split_part)
    ),
    function(
        "substring_index", signature("string, string constant, int constant", "string", _index)
    ),
    function("overlay", signature("string, string, int, int", "string", _overlay, optional=1)),
    function("elt", signature("int, string", "string", _elt, more=True, fails=True)),
    function(
        "find_in_set",
        signature(
            "string, string", "int", lambda values: f"CAST({_find_in_set(values)} AS INTEGER)"
        ),
    ),
    function("encode", signature("string, string constant", "binary", _encoded)),
    function("decode", signature("bytes, string constant", "string", _decoded, fails=True)),
)
