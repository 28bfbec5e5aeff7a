"""Functions of arrays, maps and structs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from anabranch.expressions.functions.signature import Gives, Text, function, same, signature, table
from anabranch.expressions.functions.value import (
    BIGINT,
    NULL,
    STRING,
    Value,
    duckdb_name,
    is_array,
    is_integer,
    is_plain,
    quoted,
    text_literal,
)
from anabranch.expressions.functions.widening import common_type, implicit, with_common_type


def element_type(values: Sequence[Value]) -> pa.DataType:
    """The type of what is in the first argument."""
    kind = values[0].type
    return kind.value_type if is_array(kind) else kind.item_type


def item(values: Sequence[Value]) -> Value | None:
    """`a[i]`: an element counted from 0, which must be there; or what a map holds for a key."""
    holder, at = values
    if pa.types.is_map(holder.type):
        return _looked_up(holder, at)
    if not is_array(holder.type) or not is_integer(at.type):
        return None
    inside = f"{at.text} >= 0 AND {at.text} < len({holder.text})"
    text = _element_or_failure(
        holder.text, at.text, f"{holder.text}[CAST({at.text} AS BIGINT) + 1]", inside
    )
    return Value(text=text, type=holder.type.value_type, fails=True)


def _element_or_failure(holder: str, at: str, element: str, inside: str) -> str:
    failure = f"error('there is no element ' || {at})"
    return (
        f"(CASE WHEN {inside} THEN {element}"
        f" WHEN {holder} IS NOT NULL AND {at} IS NOT NULL THEN {failure} END)"
    )


def _of_type(value: Value, kind: pa.DataType) -> Value | None:
    """A value as something that may be in an array or a map; only whole numbers are widened."""
    if not is_plain(kind) or value.type == NULL:
        return None
    if value.type != kind and not (is_integer(value.type) and is_integer(kind)):
        return None
    return implicit(value, kind)


def _looked_up(holder: Value, key: Value) -> Value | None:
    wanted = _of_type(key, holder.type.key_type)
    if wanted is None:
        return None
    text = f"{holder.text}[{wanted.text}]"
    return Value(text=text, type=holder.type.item_type, fails=holder.fails or wanted.fails)


def _element_at(values: Sequence[Value], *, safe: bool) -> str | None:
    holder, at = values
    if pa.types.is_map(holder.type):
        found = _looked_up(holder, at)
        return None if found is None else found.text
    if not is_array(holder.type) or not is_integer(at.type) or at.type == BIGINT:
        return None
    inside = f"abs(CAST({at.text} AS BIGINT)) <= len({holder.text}) AND {at.text} <> 0"
    element = f"{holder.text}[{at.text}]"
    if safe:
        zero = f"{at.text} = 0 AND {holder.text} IS NOT NULL"
        failure = "error('elements are counted from 1')"
        return f"(CASE WHEN {zero} THEN {failure} WHEN {inside} THEN {element} END)"
    return _element_or_failure(holder.text, at.text, element, inside)


def _get(values: Sequence[Value]) -> str | None:
    holder, at = values[0].text, values[1].text
    return f"(CASE WHEN {at} >= 0 THEN {holder}[CAST({at} AS BIGINT) + 1] END)"


def _with_element(text: str, *, plain: bool = True) -> tuple[Gives, Text]:
    """A function of an array and something that may be in it."""

    def pair(values: Sequence[Value]) -> tuple[Value, Value] | None:
        holder, element = values
        kind = holder.type.value_type
        wanted = _of_type(element, kind)
        if not plain and element.type == kind:
            wanted = element
        return None if wanted is None else (holder, wanted)

    def build(values: Sequence[Value]) -> str | None:
        found = pair(values)
        return (
            None
            if found is None
            else text.replace("{0}", found[0].text).replace("{1}", found[1].text)
        )

    return same, build


def _array(values: Sequence[Value]) -> str | None:
    found = with_common_type(list(values))
    if found is None:
        return None
    return f"list_value({', '.join(value.text for value in found)})"


def _array_type(values: Sequence[Value]) -> pa.DataType | None:
    kind = common_type(value.type for value in values)
    return None if kind is None else pa.list_(kind)


def named_struct(values: Sequence[Value]) -> Value | None:
    """A struct of names and values, by turns."""
    names, parts = values[::2], values[1::2]
    if len(names) != len(parts) or not all(isinstance(name.literal, str) for name in names):
        return None
    return pack([(str(name.literal), part) for name, part in zip(names, parts)])


def pack(fields: Sequence[tuple[str, Value]]) -> Value | None:
    """A struct."""
    lower = {name.lower() for name, _ in fields}
    if not fields or len(lower) < len(fields):
        return None
    inside = ", ".join(f"{quoted(name)} := {value.text}" for name, value in fields)
    kind = pa.struct([(name, value.type) for name, value in fields])
    return Value(text=f"struct_pack({inside})", type=kind, fails=any(v.fails for _, v in fields))


def struct_field(value: Value, name: str) -> Value | None:
    """A field of a struct, whatever the case of its name; of an array, the field of each."""
    if is_array(value.type) and pa.types.is_struct(value.type.value_type):
        inner = struct_field(Value(text="e", type=value.type.value_type), name)
        if inner is None:
            return None
        text = f"list_transform({value.text}, lambda e: {inner.text})"
        return Value(text=text, type=pa.list_(inner.type), fails=value.fails)
    if not pa.types.is_struct(value.type):
        return None
    found = [field for field in value.type if field.name.lower() == name.lower()]
    if len(found) != 1:
        return None
    text = f"struct_extract({value.text}, {text_literal(found[0].name)})"
    return Value(text=text, type=found[0].type, fails=value.fails)


def _sorted(values: Sequence[Value]) -> str | None:
    """Upwards with NULLs first, downwards with NULLs last."""
    if not is_plain(values[0].type.value_type):
        return None
    upwards = values[1].literal if len(values) > 1 else True
    if upwards is True:
        return f"list_sort({values[0].text}, 'ASC', 'NULLS FIRST')"
    if upwards is False:
        return f"list_sort({values[0].text}, 'DESC', 'NULLS LAST')"
    return None


def _plain_elements(text: str) -> Text:
    def build(values: Sequence[Value]) -> str | None:
        if not is_plain(element_type(values)):
            return None
        return text.replace("{0}", values[0].text)

    return build


def _join(values: Sequence[Value]) -> str | None:
    holder, separator = values[0], values[1]
    if holder.type.value_type != STRING or separator.literal is None:
        return None
    shown = f"list_filter({holder.text}, lambda e: e IS NOT NULL)"
    if len(values) > 2:
        shown = f"list_transform({holder.text}, lambda e: COALESCE(e, {values[2].text}))"
    joined = f"COALESCE(array_to_string({shown}, {separator.text}), '')"
    nothing = " OR ".join(f"{value.text} IS NULL" for value in values)
    return f"(CASE WHEN {nothing} THEN NULL ELSE {joined} END)"


def _flat_type(values: Sequence[Value]) -> pa.DataType | None:
    inner = values[0].type.value_type
    return inner if is_array(inner) else None


def _flat(values: Sequence[Value]) -> str:
    array = values[0].text
    has_null = f"len(list_filter({array}, lambda e: e IS NULL)) > 0"
    return f"(CASE WHEN {has_null} THEN NULL ELSE flatten({array}) END)"


def _slice(values: Sequence[Value]) -> str:
    array, start, size = (value.text for value in values)
    first = (
        f"(CASE WHEN {start} > 0 THEN CAST({start} AS BIGINT) ELSE len({array}) + {start} + 1 END)"
    )
    nothing = " OR ".join(f"{value.text} IS NULL" for value in values)
    failure = "error('a slice starts at 1 or at -1 and has no negative length')"
    return (
        f"(CASE WHEN {nothing} THEN NULL WHEN {start} = 0 OR {size} < 0 THEN {failure}"
        f" WHEN {first} > len({array}) OR {first} < 1 OR {size} = 0 THEN {array}[1:0]"
        f" ELSE {array}[{first}:{first} + {size} - 1] END)"
    )


def _sequence_type(values: Sequence[Value]) -> pa.DataType | None:
    kind = common_type(value.type for value in values[:2])
    return pa.list_(kind) if kind is not None and is_integer(kind) else None


def _sequence(values: Sequence[Value]) -> str | None:
    kind = _sequence_type(values)
    if kind is None or len(values) > 2:
        return None
    one, two = (f"CAST({value.text} AS BIGINT)" for value in values)
    step = f"(CASE WHEN {one} <= {two} THEN 1 ELSE -1 END)"
    return f"CAST(generate_series({one}, {two}, {step}) AS {duckdb_name(kind)})"


def _repeated(values: Sequence[Value]) -> str | None:
    value, count = values
    name = duckdb_name(pa.list_(value.type))
    times = f"CAST(greatest({count.text}, 0 * {count.text}) AS BIGINT)"
    made = f"list_transform(range({times}), lambda e: {value.text})"
    return f"(CASE WHEN {count.text} IS NULL THEN NULL ELSE CAST({made} AS {name}) END)"


def _keys(values: Sequence[Value]) -> pa.DataType:
    return pa.list_(values[0].type.key_type)


def _items(values: Sequence[Value]) -> pa.DataType:
    return pa.list_(values[0].type.item_type)


def _has_key(values: Sequence[Value]) -> str | None:
    holder = values[0]
    wanted = _of_type(values[1], holder.type.key_type)
    if wanted is None:
        return None
    inside = f"list_contains(map_keys({holder.text}), {wanted.text})"
    return f"(CASE WHEN {holder.text} IS NULL OR {wanted.text} IS NULL THEN NULL ELSE {inside} END)"


_CONTAINS: Final = (
    "(CASE WHEN {0} IS NULL OR {1} IS NULL THEN NULL WHEN list_contains({0}, {1}) THEN true"
    " WHEN len(list_filter({0}, lambda e: e IS NULL)) > 0 THEN NULL ELSE false END)"
)
_POSITION: Final = (
    "(CASE WHEN {0} IS NULL OR {1} IS NULL THEN NULL"
    " ELSE COALESCE(CAST(list_position({0}, {1}) AS BIGINT), 0) END)"
)
_REMOVE: Final = (
    "(CASE WHEN {1} IS NULL THEN NULL ELSE list_filter({0}, lambda e: e IS NULL OR e <> {1}) END)"
)
_APPEND: Final = "(CASE WHEN {0} IS NULL THEN NULL ELSE list_append({0}, {1}) END)"
_PREPEND: Final = "(CASE WHEN {0} IS NULL THEN NULL ELSE list_prepend({1}, {0}) END)"
_SIZE: Final = "CAST(len({0}) AS INTEGER)"
_MAP_SIZE: Final = "CAST(cardinality({0}) AS INTEGER)"

COLLECTIONS: Final = table(
    function("array", signature("any", _array_type, _array, more=True)),
    function(
        "size cardinality",
        signature("array", "int", _SIZE),
        signature("map", "int", _MAP_SIZE),
    ),
    function("array_size", signature("array", "int", _SIZE)),
    function(
        "element_at",
        signature("array, integer", element_type, lambda v: _element_at(v, safe=False), fails=True),
        signature("map, any", element_type, lambda v: _element_at(v, safe=False)),
    ),
    function(
        "try_element_at",
        signature("array, integer", element_type, lambda v: _element_at(v, safe=True), fails=True),
        signature("map, any", element_type, lambda v: _element_at(v, safe=True)),
    ),
    function("get", signature("array, int", element_type, _get)),
    function("array_contains", signature("array, any", "boolean", _with_element(_CONTAINS)[1])),
    function("array_position", signature("array, any", "bigint", _with_element(_POSITION)[1])),
    function("array_remove", signature("array, any", *_with_element(_REMOVE))),
    function("array_append", signature("array, any", *_with_element(_APPEND, plain=False))),
    function("array_prepend", signature("array, any", *_with_element(_PREPEND, plain=False))),
    function(
        "array_compact", signature("array", same, "list_filter({0}, lambda e: e IS NOT NULL)")
    ),
    function("array_max", signature("array", element_type, _plain_elements("list_max({0})"))),
    function("array_min", signature("array", element_type, _plain_elements("list_min({0})"))),
    function("sort_array", signature("array, any", same, _sorted, optional=1)),
    function("array_join", signature("array, string constant, text", "string", _join, optional=1)),
    function("flatten", signature("array", _flat_type, _flat)),
    function("slice", signature("array, int, int", same, _slice, fails=True)),
    function("sequence", signature("integer, integer", _sequence_type, _sequence)),
    function("array_repeat", signature("any, int", lambda v: pa.list_(v[0].type), _repeated)),
    function("map_keys", signature("map", _keys, "map_keys({0})")),
    function("map_values", signature("map", _items, "map_values({0})")),
    function("map_contains_key", signature("map, any", "boolean", _has_key)),
)
