"""The payload columns of JSON lines that come without a schema."""

from __future__ import annotations

import re
from typing import Any, Final

import pyarrow as pa
import pyarrow.json as pj

from anabranch.model.elements import Stable
from anabranch.model.files.json_decode import show_json
from anabranch.model.files.line_parser import LineParser, RevisionLine
from anabranch.model.files.revision_lines import revision_lines, without_revisions
from anabranch.model.files.stream_lines import TIME_KEYS, has_time_key, with_numbers_for_forever

_ISO_TIME: Final = re.compile(rb'(?<!\\)"(?:start|end|new_end|stable)"\s*:\s*"-?\d')
_JSON_TYPES: Final[dict[type, pa.DataType]] = {
    type(None): pa.null(),
    bool: pa.bool_(),
    float: pa.float64(),
    str: pa.string(),
}
LOOKED_AT_BYTES: Final = 2**16


def infer_payload(data: bytes, first_line: int, name: str, schema: pa.Schema) -> pa.Schema:
    """The columns in these lines, and those already known, with types that hold all values.

    Numbers are `int64`, or `float64` if some are not whole; texts are strings, also where they
    look like timestamps; a column of nulls only has the type `null`.

    Raises:
        StreamError: A line is not an element, or a column holds values of different kinds.
    """
    others = without_revisions(data)
    found = _infer_fast(others)
    both = None if found is None else unify(schema, found)
    if both is None:
        return _infer_exactly(data, first_line, name, schema)
    if others is not data:
        lines = list(revision_lines(data, first_line))
        changed = _infer_changes(b"\n".join(line for _, line in lines))
        with_changes = None if changed is None else unify(both, changed)
        if with_changes is not None:
            return with_changes
        for number, line in lines:
            both = _infer_exactly(line, number, name, both)
    return both


def has_iso_times(data: bytes) -> bool:
    """Whether a time is written as an ISO timestamp (looks at the first lines only)."""
    return _ISO_TIME.search(data[:LOOKED_AT_BYTES]) is not None


def unify(one: pa.Schema, other: pa.Schema) -> pa.Schema | None:
    """Columns of both, by name, with types that hold the values of both; None if none do."""
    try:
        return pa.unify_schemas([one, other], promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return None


def _infer_fast(data: bytes) -> pa.Schema | None:
    """What Arrow's reader makes of the payloads, or None where it gives up."""
    if not data or data.isspace():
        return pa.schema([])
    for text, time in ((with_numbers_for_forever(data), pa.int64()), (data, pa.string())):
        options = pj.ParseOptions(explicit_schema=pa.schema([(key, time) for key in TIME_KEYS]))
        whole = pj.ReadOptions(use_threads=False, block_size=len(text) + 1)
        try:
            found = pj.read_json(pa.BufferReader(text), whole, options).schema
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            continue
        payload = _payload_of(found)
        if payload is None or text is data or not has_time_key(pa.struct(list(payload))):
            return payload
        # A text "forever" of the payload may have been taken for a time.
        return None
    return None


def _infer_changes(data: bytes) -> pa.Schema | None:
    """What Arrow's reader makes of the payloads in revisions, or None where it gives up."""
    text = with_numbers_for_forever(data)
    try:
        whole = pj.ReadOptions(use_threads=False, block_size=len(text) + 1)
        kind = pj.read_json(pa.BufferReader(text), whole).schema.field("changes").type
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, KeyError):
        return None
    if not pa.types.is_list(kind) or not pa.types.is_struct(kind.value_type):
        return None
    payload = _payload_of(pa.schema(list(kind.value_type)))
    unsure = payload is None or (text is not data and has_time_key(pa.struct(list(payload))))
    return None if unsure else payload


def _payload_of(found: pa.Schema) -> pa.Schema | None:
    """The columns below insert and adjust, if there is nothing else beside the times."""
    kinds = [field.type for field in found if field.name in ("insert", "adjust")]
    if len(kinds) + len(TIME_KEYS) < len(found) or not all(map(pa.types.is_struct, kinds)):
        return None
    schemas = [pa.schema(list(_as_json(kind))) for kind in kinds]
    return unify(*schemas) if len(schemas) == 2 else (schemas or [pa.schema([])])[0]


def _as_json(kind: pa.DataType) -> pa.DataType:
    """The type with texts for what only looks like a timestamp."""
    if pa.types.is_timestamp(kind):
        return pa.string()
    if pa.types.is_struct(kind):
        fields = [kind.field(i) for i in range(kind.num_fields)]
        return pa.struct([(field.name, _as_json(field.type)) for field in fields])
    if pa.types.is_list(kind):
        return pa.list_(_as_json(kind.value_type))
    return kind


def _infer_exactly(data: bytes, first_line: int, name: str, schema: pa.Schema) -> pa.Schema:
    parser = LineParser(name=name)
    seen: set[tuple[str, pa.DataType | None]] = set()
    for number, text, element in parser.elements(data, first_line):
        if isinstance(element, Stable):
            continue
        changes = element.changes if isinstance(element, RevisionLine) else (element,)
        for column, value in (item for each in changes for item in dict(each.payload).items()):
            kind = _type_of(value)
            if (column, kind) in seen:
                continue
            seen.add((column, kind))
            both = None if kind is None else unify(schema, pa.schema([(column, kind)]))
            if both is None:
                kinds = {field.name: f"of type {field.type}" for field in schema}
                raise parser.error(
                    f"column '{column}' is {kinds.get(column, 'mixed')}, found {show_json(value)}",
                    number,
                    text,
                    "give all values of a column one type, or declare the schema",
                )
            schema = both
    return schema


def _type_of(value: Any) -> pa.DataType | None:
    """The type of a JSON value; None if it mixes kinds in one list."""
    if isinstance(value, dict):
        parts = {name: _type_of(part) for name, part in value.items()}
        return None if None in parts.values() else pa.struct(list(parts.items()))
    if isinstance(value, list):
        kind = pa.null()
        for part in map(_type_of, value):
            if part is None:
                return None
            both = unify(pa.schema([("item", kind)]), pa.schema([("item", part)]))
            if both is None:
                return None
            kind = both.field(0).type
        return pa.list_(kind)
    if isinstance(value, int) and not isinstance(value, bool):
        return pa.int64() if -(2**63) <= value < 2**63 else pa.float64()
    return _JSON_TYPES[type(value)]
