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
from anabranch.model.elements import Adjust, Element, Insert, Stable, batch_of
from anabranch.model.files.json_decode import MisfitError, decode_value, has_decimal, show_json
from anabranch.model.revision import Revision
from anabranch.model.time import BEGINNING, FOREVER, Time, format_time, parse_time

_KEYS: Final = {
    "insert": {"insert", "start", "end"},
    "adjust": {"adjust", "start", "end", "new_end"},
    "stable": {"stable"},
    "revise": {"revise", "from", "to", "changes"},
}
_ALL_KEYS: Final = (
    *("insert", "adjust", "stable", "start", "end", "new_end"),
    *("revise", "from", "to", "changes"),
)
_START: Final = "start='<column>', in SQL ORDERED BY <column>"
_SHAPES: Final = (
    'an element is {"insert": {...}, "start": 5, "end": 9}, or "adjust" with "new_end", '
    'or {"stable": 12}'
)
_REVISION: Final = (
    'a revision is {"revise": 1, "from": 5, "to": 9, "changes": [...]}; a change is an insert, or '
    "an adjust with new_end equal to start, within [from, to)"
)


@final
@dataclass(frozen=True, slots=True)
class RevisionLine:
    """A revision as a line says it: payloads as they are."""

    number: int
    first: int
    last: int
    changes: tuple[Insert | Adjust, ...]


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
        revisions: list[Revision] = []
        revised: list[int] = []
        for number, text, element in self.elements(data, first_line, decimals=exact):
            if isinstance(element, RevisionLine):
                revisions.append(self._revision_of(element, schema, number, text))
                revised.append(number)
                continue
            numbers.append(number)
            if isinstance(element, Stable):
                elements.append(element)
            else:
                elements.append(self._typed(element, schema, number, text))
        found = Arrivals.of(elements, schema, first=0)
        position = np.array(numbers, np.int64)
        return Arrivals(
            batch=found.batch,
            position=position[found.position],
            is_adjust=found.is_adjust,
            stables=found.stables,
            stable_positions=position[found.stable_positions],
            revisions=tuple(revisions),
            revision_positions=tuple(revised),
        )

    def elements(
        self, data: bytes, first_line: int, *, decimals: bool = False
    ) -> Iterator[tuple[int, str, Element | RevisionLine]]:
        """Line number, text and element of every line that is not blank; payloads as they are."""
        for number, line in enumerate(data.split(b"\n"), first_line):
            if line.strip():
                text, content = self._json(line, number, decimals=decimals)
                if content.get("revise") is not None:
                    yield number, text, self._revision(content, number, text)
                else:
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

    def _revision(self, content: dict[str, Any], number: int, text: str) -> RevisionLine:
        self._check_keys(content, "revise", number, text, _REVISION)
        count = content["revise"]
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            what = f"'revise' is not the number of a revision: {show_json(count, 30)}"
            raise self.error(what, number, text, "revisions of a stream count up from 1")
        first = self._time(content, "from", number, text, _REVISION)
        last = self._time(content, "to", number, text, _REVISION)
        if first >= last:
            span = f"[{format_time(first)}, {format_time(last)})"
            raise self.error(f"the revision {span} ends before it starts", number, text, _REVISION)
        changes = content.get("changes")
        if changes is None:
            raise self.error("'changes' is missing", number, text, _REVISION)
        if not isinstance(changes, list):
            what = f"'changes' must be a list, found {show_json(changes, 30)}"
            raise self.error(what, number, text, _REVISION)
        if not changes:
            raise self.error("the revision has no changes", number, text, _REVISION)
        return RevisionLine(
            count,
            first,
            last,
            tuple(
                self._change(change, f"change {index} of the revision", (first, last), number, text)
                for index, change in enumerate(changes, 1)
            ),
        )

    def _change(
        self, content: Any, name: str, span: tuple[int, int], number: int, text: str
    ) -> Insert | Adjust:
        """One change of a revision that holds within a span of time."""
        if not isinstance(content, dict):
            what = f"{name} must be a JSON object, found {show_json(content, 30)}"
            raise self.error(what, number, text, _REVISION)
        try:
            change = self._element(content, number, text)
        except StreamError as problem:
            what = f"{name}: {problem.what}"
            raise StreamError(what, where=problem.where, hint=_REVISION) from None
        if isinstance(change, Stable):
            raise self.error(f"{name} is a stable point", number, text, _REVISION)
        lifetime = f"[{format_time(change.start)}, {format_time(change.end)})"
        if isinstance(change, Adjust) and change.new_end != change.start:
            what = f"{name} is not a withdrawal: it moves an end to {format_time(change.new_end)}"
            raise self.error(what, number, text, _REVISION)
        if change.end <= change.start:
            raise self.error(f"{name} changes nothing: {lifetime}", number, text, _REVISION)
        if change.start < span[0] or change.end > span[1]:
            whole = f"[{format_time(span[0])}, {format_time(span[1])})"
            what = f"{name} lies outside of it: {lifetime} is not within {whole}"
            raise self.error(what, number, text, _REVISION)
        return change

    def _revision_of(
        self, line: RevisionLine, schema: pa.Schema, number: int, text: str
    ) -> Revision:
        typed = [self._typed(change, schema, number, text) for change in line.changes]
        return Revision(
            number=line.number,
            first=Time(line.first),
            last=Time(line.last),
            changes=batch_of(typed, schema),
        )

    def _element(self, content: dict[str, Any], number: int, text: str) -> Element:
        self._check_keys(content, "", number, text, _SHAPES)
        kinds = [key for key in _KEYS if content.get(key) is not None]
        if len(kinds) != 1:
            which = " and ".join(f"'{kind}'" for kind in kinds)
            what = f"{which} in one element" if kinds else "no 'insert', 'adjust' or 'stable'"
            raise self.error(what, number, text, _SHAPES)
        kind = kinds[0]
        self._check_keys(content, kind, number, text, _SHAPES)
        if kind == "revise":
            raise self.error("a revision within another one", number, text, _SHAPES)
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

    def _check_keys(
        self, content: dict[str, Any], kind: str, number: int, text: str, shapes: str
    ) -> None:
        """Refuse keys that nobody knows, and those that belong to another kind of element."""
        for key in content:
            if key not in _ALL_KEYS:
                near = get_close_matches(key, _ALL_KEYS, 1)
                hint = f"did you mean '{near[0]}'? {shapes}" if near else shapes
                if not content.keys() & set(_ALL_KEYS):
                    hint = f"rows need the name of their column of time: {_START}; {shapes}"
                raise self.error(f"unknown key '{key}'", number, text, hint)
            if kind and key not in _KEYS[kind] and content[key] is not None:
                raise self.error(f"key '{key}' does not belong to '{kind}'", number, text, shapes)

    def _time(
        self, content: dict[str, Any], key: str, number: int, text: str, shapes: str = _SHAPES
    ) -> Any:
        value = content.get(key)
        if value is None:
            raise self.error(f"'{key}' is missing", number, text, shapes)
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

    def _typed(
        self, element: Insert | Adjust, schema: pa.Schema, number: int, text: str
    ) -> Insert | Adjust:
        """The element with the values of a schema."""
        payload = self._payload(element, schema, number, text)
        if isinstance(element, Insert):
            return Insert(payload, element.start, element.end)
        return Adjust(payload, element.start, element.end, element.new_end)

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
