"""One line of a stream file, taken apart exactly."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from difflib import get_close_matches
from typing import Any, Final, final

import numpy as np
import pyarrow as pa

from anabranch.errors import AnabranchError, StreamError
from anabranch.model.arrivals import Arrivals
from anabranch.model.elements import Adjust, Element, Insert, Stable
from anabranch.model.files.json_decode import MisfitError, decode_value, has_decimal, show_json
from anabranch.model.time import BEGINNING, FOREVER, format_time, parse_time

_KEYS: Final = {
    "insert": {"insert", "start", "end"},
    "adjust": {"adjust", "start", "end", "new_end"},
    "stable": {"stable"},
}
_ALL_KEYS: Final = ("insert", "adjust", "stable", "start", "end", "new_end")
_SHAPES: Final = (
    'an element is {"insert": {...}, "start": 5, "end": 9}, or "adjust" with "new_end", '
    'or {"stable": 12}'
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LineParser:
    """Reads line by line: slow, but it knows what is wrong with which line."""

    name: str

    def read(self, data: bytes, schema: pa.Schema, first_line: int) -> Arrivals:
        """All elements of these lines.

        Raises:
            StreamError: The first line that is not an element of the schema.
        """
        exact = any(has_decimal(field.type) for field in schema)
        numbers: list[int] = []
        elements: list[Element] = []
        for number, text, element in self.elements(data, first_line, decimals=exact):
            numbers.append(number)
            if isinstance(element, Stable):
                elements.append(element)
                continue
            payload = self._payload(element, schema, number, text)
            if isinstance(element, Insert):
                elements.append(Insert(payload, element.start, element.end))
            else:
                elements.append(Adjust(payload, element.start, element.end, element.new_end))
        found = Arrivals.of(elements, schema, first=0)
        position = np.array(numbers, np.int64)
        return Arrivals(
            batch=found.batch,
            position=position[found.position],
            is_adjust=found.is_adjust,
            stables=found.stables,
            stable_positions=position[found.stable_positions],
        )

    def elements(
        self, data: bytes, first_line: int, *, decimals: bool = False
    ) -> Iterator[tuple[int, str, Element]]:
        """Line number, text and element of every line that is not blank; payloads as they are."""
        for number, line in enumerate(data.split(b"\n"), first_line):
            if line.strip():
                text, content = self._json(line, number, decimals=decimals)
                yield number, text, self._element(content, number, text)

    def refuse_reversed(self, arrivals: Arrivals, data: bytes, first_line: int) -> None:
        """Raise for the first lifetime that ends before it starts."""
        batch = arrivals.batch
        bad = np.minimum(batch.end, batch.new_end) < batch.start
        bad |= arrivals.is_adjust & (batch.end == batch.start)
        if not bad.any():
            return
        row = int(np.argmax(bad))
        number = int(arrivals.position[row])
        text = data.split(b"\n")[number - first_line].decode()
        start, end, new_end = (int(t[row]) for t in (batch.start, batch.end, batch.new_end))
        reversed_end = end if arrivals.is_adjust[row] and end <= start else new_end
        what = "ends before it starts" if reversed_end < start else "is empty before it is adjusted"
        lifetime = f"[{format_time(start)}, {format_time(reversed_end)})"
        raise self.error(
            f"the lifetime {lifetime} {what}",
            number,
            text,
            "an end must be later than the start; an adjust to the start withdraws the event",
        )

    def error(self, what: str, number: int, text: str, hint: str, column: int = 0) -> StreamError:
        """An error at a line, with its text shortened around the column."""
        where = f"{self.name}, line {number}"
        if column:
            where += f", column {column}"
        return StreamError(what, where=f"{where}: {_shortened(text.strip(), column)}", hint=hint)

    def _json(self, line: bytes, number: int, *, decimals: bool) -> tuple[str, dict[str, Any]]:
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as problem:
            shown = line.decode("utf-8", errors="replace")
            raise self.error(
                f"not UTF-8 text: byte 0x{line[problem.start]:02x}",
                number,
                shown,
                "stream files are UTF-8; convert the file, for example with iconv",
                problem.start + 1,
            ) from None
        try:
            content = json.loads(
                text,
                parse_float=Decimal if decimals else None,
                object_pairs_hook=_without_repeats,
            )
        except json.JSONDecodeError as problem:
            raise self.error(
                f"not valid JSON: {problem.msg[0].lower()}{problem.msg[1:]}",
                number,
                text,
                "each line holds one JSON object",
                problem.colno,
            ) from None
        except _RepeatedKeyError as problem:
            raise self.error(
                f"key '{problem}' is given twice", number, text, "keep one of them"
            ) from None
        except RecursionError:
            raise self.error("not valid JSON: nested too deeply", number, text, _SHAPES) from None
        if not isinstance(content, dict):
            found = f"a line must be a JSON object, found {show_json(content, 30)}"
            raise self.error(found, number, text, _SHAPES)
        return text, content

    def _element(self, content: dict[str, Any], number: int, text: str) -> Element:
        for key in content:
            if key not in _ALL_KEYS:
                near = get_close_matches(key, _ALL_KEYS, 1)
                hint = f"did you mean '{near[0]}'? {_SHAPES}" if near else _SHAPES
                raise self.error(f"unknown key '{key}'", number, text, hint)
        kinds = [key for key in _KEYS if content.get(key) is not None]
        if len(kinds) != 1:
            which = " and ".join(f"'{kind}'" for kind in kinds)
            what = f"{which} in one element" if kinds else "no 'insert', 'adjust' or 'stable'"
            raise self.error(what, number, text, _SHAPES)
        kind = kinds[0]
        for key in content:
            if key not in _KEYS[kind] and content[key] is not None:
                raise self.error(f"key '{key}' does not belong to '{kind}'", number, text, _SHAPES)
        if kind == "stable":
            return Stable(self._time(content, "stable", number, text))
        payload = content[kind]
        if not isinstance(payload, dict):
            what = f"the payload of '{kind}' must be an object, found {show_json(payload, 30)}"
            raise self.error(what, number, text, _SHAPES)
        start = self._time(content, "start", number, text)
        if start == FOREVER:
            raise self.error("an event cannot start at forever", number, text, _SHAPES)
        end = FOREVER
        if content.get("end") is not None:
            end = self._time(content, "end", number, text)
        if kind == "insert":
            return Insert(payload, start, end)
        return Adjust(payload, start, end, self._time(content, "new_end", number, text))

    def _time(self, content: dict[str, Any], key: str, number: int, text: str) -> Any:
        value = content.get(key)
        if value is None:
            raise self.error(f"'{key}' is missing", number, text, _SHAPES)
        hint = 'times are whole numbers, ISO timestamps in quotes, or "forever"'
        if isinstance(value, bool) or not isinstance(value, (int, str)):
            what = f"'{key}' is not a time: {show_json(value, 30)}"
            raise self.error(what, number, text, hint)
        try:
            time = parse_time(value)
        except AnabranchError as problem:
            raise self.error(problem.what, number, text, hint) from None
        if not BEGINNING <= time <= FOREVER:
            raise self.error(f"'{key}' is out of range: {value}", number, text, hint)
        return time

    def _payload(
        self, element: Insert | Adjust, schema: pa.Schema, number: int, text: str
    ) -> dict[str, Any]:
        values = dict(element.payload)
        for name in values:
            if name not in schema.names:
                near = get_close_matches(name, schema.names, 1)
                columns = f"columns are: {', '.join(schema.names)}" if len(schema) else "no columns"
                hint = f"did you mean '{near[0]}'? {columns}" if near else columns
                raise self.error(f"unknown column '{name}'", number, text, hint)
        try:
            return {
                field.name: decode_value(values.get(field.name), field.type, field.name)
                for field in schema
            }
        except MisfitError as problem:
            hint = "correct the value, or declare the column with another type"
            raise self.error(str(problem), number, text, hint) from None


class _RepeatedKeyError(Exception):
    """A key that occurs twice in one object."""


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise _RepeatedKeyError(next(name for name in names if names.count(name) > 1))
    return found


def _shortened(text: str, column: int, width: int = 100) -> str:
    """The text, or the part of it around a column."""
    if len(text) <= width:
        return text
    first = max(0, min(column - width // 2, len(text) - width))
    return (
        ("..." if first else "")
        + text[first : first + width]
        + ("..." if first + width < len(text) else "")
    )
