"""Comparisons, choices, and what NULL does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from anabranch.expressions.functions.signature import Function, function, signature, table
from anabranch.expressions.functions.value import (
    BOOLEAN,
    INT,
    NULL,
    STRING,
    Value,
    is_array,
    is_float,
)
from anabranch.expressions.functions.widening import common_type, fails_any, with_common_type


def compare(values: Sequence[Value], sign: str) -> Value | None:
    """One of the six comparisons; NaN equals itself and is the largest."""
    pair = with_common_type(list(values))
    if pair is None or not _is_ordered(pair[0].type):
        return None
    if is_array(pair[0].type) and sign not in ("=", "<>"):
        # A NULL in an array comes first to one, last to the other.
        return None
    text = f"({pair[0].text} {sign} {pair[1].text})"
    return Value(text=text, type=BOOLEAN, fails=fails_any(pair))


def equal_null(values: Sequence[Value]) -> Value | None:
    """Equal, or both NULL."""
    pair = with_common_type(list(values))
    if pair is None or not _is_ordered(pair[0].type):
        return None
    text = f"({pair[0].text} IS NOT DISTINCT FROM {pair[1].text})"
    return Value(text=text, type=BOOLEAN, fails=fails_any(pair))


def is_in(values: Sequence[Value]) -> Value | None:
    """Whether the first is among the others."""
    all_ = with_common_type(list(values))
    if all_ is None or not _is_ordered(all_[0].type) or fails_any(values[1:]):
        return None
    text = f"({all_[0].text} IN ({', '.join(value.text for value in all_[1:])}))"
    return Value(text=text, type=BOOLEAN, fails=fails_any(all_))


def is_one_of(values: Sequence[Value]) -> Value | None:
    """The same for what may fail: values are looked at one by one, until one is the first."""
    all_ = with_common_type(list(values))
    if all_ is None:
        return None
    found = [compare((all_[0], each), "=") for each in all_[1:]]
    equal = [each for each in found if each is not None]
    return logical(equal, "OR") if len(equal) == len(found) else None


def choose(conditions: Sequence[Value], results: Sequence[Value]) -> Value | None:
    """CASE: the result of the first condition that holds; the last result has none."""
    if not all(condition.type in (BOOLEAN, NULL) for condition in conditions):
        return None
    found = with_common_type(list(results))
    if found is None:
        return None
    branches = (
        f"WHEN {condition.text} THEN {result.text}" for condition, result in zip(conditions, found)
    )
    otherwise = found[-1].text if len(found) > len(conditions) else "NULL"
    text = f"(CASE {' '.join(branches)} ELSE {otherwise} END)"
    return Value(text=text, type=found[0].type, fails=fails_any((*conditions, *found)))


def logical(values: Sequence[Value], word: str) -> Value | None:
    """AND and OR, which look to the right only where the left does not decide, as in Spark.

    DuckDB evaluates both sides for all rows, but the branches of a CASE only where they count.
    """
    if not all(value.type in (BOOLEAN, NULL) for value in values):
        return None
    text = f"({f' {word} '.join(value.text for value in values)})"
    if fails_any(values[1:]):
        decided = "false" if word == "AND" else "true"
        branches = (f"WHEN {value.text} IS {decided} THEN {decided}" for value in values[:-1])
        text = f"(CASE {' '.join(branches)} ELSE {text} END)"
    return Value(text=text, type=BOOLEAN, fails=fails_any(values))


def _is_ordered(kind: pa.DataType) -> bool:
    if is_array(kind):
        return _is_ordered(kind.value_type)
    return not pa.types.is_nested(kind) and kind != NULL


def _first(values: Sequence[Value]) -> pa.DataType | None:
    return common_type(value.type for value in values)


def _coalesce(values: Sequence[Value]) -> str | None:
    found = with_common_type(list(values))
    if found is None:
        return None
    if not fails_any(found[1:]):
        return f"COALESCE({', '.join(value.text for value in found)})"
    # DuckDB evaluates beforehand what stands in COALESCE twice, but not what stands in CASE.
    branches = (f"WHEN {value.text} IS NOT NULL THEN {value.text}" for value in found[:-1])
    return f"(CASE {' '.join(branches)} ELSE {found[-1].text} END)"


def _extreme(word: str) -> Function:
    def text(values: Sequence[Value]) -> str | None:
        found = with_common_type(list(values))
        if found is None or not _is_ordered(found[0].type):
            return None
        if STRING in (value.type for value in values) and found[0].type != STRING:
            # Here Spark does not make numbers or times of texts.
            return None
        return f"{word}({', '.join(value.text for value in found)})"

    return function(word, signature("any, any", _first, text, more=True))[0]


def _nullif(values: Sequence[Value]) -> str | None:
    same = compare(values, "=")
    return None if same is None else f"(CASE WHEN {same.text} THEN NULL ELSE {values[0].text} END)"


def _nvl2(values: Sequence[Value]) -> str | None:
    pair = with_common_type(list(values[1:]))
    if pair is None:
        return None
    return f"(CASE WHEN {values[0].text} IS NOT NULL THEN {pair[0].text} ELSE {pair[1].text} END)"


def _nvl2_type(values: Sequence[Value]) -> pa.DataType | None:
    return common_type(value.type for value in values[1:])


def _if(values: Sequence[Value]) -> str | None:
    found = choose(values[:1], values[1:])
    return None if found is None else found.text


def _between(values: Sequence[Value]) -> str | None:
    low, high = compare(values[:2], ">="), compare((values[0], values[2]), "<=")
    return None if low is None or high is None else f"({low.text} AND {high.text})"


def _equal_null(values: Sequence[Value]) -> str | None:
    found = equal_null(values)
    return None if found is None else found.text


def _nanvl_type(values: Sequence[Value]) -> pa.DataType | None:
    kind = common_type(value.type for value in values)
    return kind if kind is not None and is_float(kind) else None


def _nanvl(values: Sequence[Value]) -> str | None:
    pair = with_common_type(list(values))
    if pair is None or not is_float(pair[0].type):
        return None
    return f"(CASE WHEN isnan({pair[0].text}) THEN {pair[1].text} ELSE {pair[0].text} END)"


_ZERO: Final = Value(text="CAST(0 AS INTEGER)", type=INT, literal=0)


def _zero_type(values: Sequence[Value]) -> pa.DataType | None:
    return _first((*values, _ZERO))


def _zero_for_null(values: Sequence[Value]) -> str | None:
    return _coalesce((*values, _ZERO))


CONDITIONS: Final = table(
    function("coalesce", signature("any", _first, _coalesce, more=True)),
    function("nvl ifnull", signature("any, any", _first, _coalesce)),
    (_extreme("greatest"), _extreme("least")),
    function("nullif", signature("any, any", lambda values: values[0].type, _nullif)),
    function("nvl2", signature("any, any, any", _nvl2_type, _nvl2)),
    function("if", signature("any, any, any", _nvl2_type, _if)),
    function("between", signature("any, any, any", "boolean", _between)),
    function("isnull", signature("any", "boolean", "({0} IS NULL)")),
    function("isnotnull", signature("any", "boolean", "({0} IS NOT NULL)")),
    function(
        "isnan",
        signature("fraction", "boolean", "COALESCE(isnan({0}), false)"),
        signature("double", "boolean", "COALESCE(isnan({0}), false)"),
    ),
    function("nanvl", signature("number, number", _nanvl_type, _nanvl)),
    function("equal_null", signature("any, any", "boolean", _equal_null)),
    function(
        "nullifzero",
        signature(
            "number", lambda values: values[0].type, "(CASE WHEN {0} = 0 THEN NULL ELSE {0} END)"
        ),
    ),
    function("zeroifnull", signature("number", _zero_type, _zero_for_null)),
)
