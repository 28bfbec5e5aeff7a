"""Frozen dataclasses as JSON and back: one codec, which follows from the types of the fields.

What crosses a process or stays in a file is a dataclass, and this is how it is written down:

- a dataclass is an object with its fields as keys, in their order. With
  `row: ClassVar[bool] = True` it is a list of its fields, for records of which a file holds many;
- `tuple[...]` is a list, `Mapping[str, ...]` and `Mapping[int, ...]` are objects;
- a field with `metadata=OMITTED` is left out where it has its default. In a row such fields come
  last, and are left out together or not at all;
- `object` is whatever JSON there is: for what only people read.

Reading refuses a key that is missing and has no default, a key that nobody knows, and a value of
another type. So a reader never meets half a message, and whoever changes a record changes its
format in one place. A codec is put together once per class; then it costs one call per value.

>>> from dataclasses import field
>>> @dataclass(frozen=True)
... class Promise:
...     source: str
...     reached: int
...     late: int = field(default=0, metadata=OMITTED)
>>> plain(Promise("bids", 7))
{'source': 'bids', 'reached': 7}
>>> record(Promise, {"source": "bids", "reached": 7, "late": 2}, where="a doctest")
Promise(source='bids', reached=7, late=2)
>>> record(Promise, {"source": "bids", "reached": "7"}, where="a doctest")
Traceback (most recent call last):
anabranch.errors.EngineError: a Promise cannot be read: 'reached' is '7', not a whole number
  a doctest
  hint: please report this with the query and the plan that `anabranch explain` prints
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, Literal, TypeVar, Union, final, get_args, get_origin, get_type_hints

from anabranch.errors import EngineError

RecordT = TypeVar("RecordT")

OMITTED: Final[Mapping[str, object]] = {"omitted": True}
"""Metadata of a field that is not written where it has its default."""

REPORT: Final = "please report this with the query and the plan that `anabranch explain` prints"


def plain(value: object) -> Any:
    """A record as plain values, for `json.dumps`."""
    return _codec_of(type(value)).write(value)


def record(kind: type[RecordT], content: object, *, where: str, hint: str = REPORT) -> RecordT:
    """The record in plain values.

    Args:
        kind: Which record it is.
        content: What `json.loads` gave.
        where: What messages call the place it is from.
        hint: What to do if it is not one.

    Raises:
        EngineError: It is not such a record; the message has the key and what is wrong with it.
    """
    try:
        found: RecordT = _codec_of(kind).read(content)
    except _UnreadableError as problem:
        raise EngineError(
            f"a {kind.__name__} cannot be read: {problem}", where=where, hint=hint
        ) from None
    return found


def record_text(value: object) -> str:
    """A record as the text of one JSON object."""
    return json.dumps(plain(value))


def record_of_text(kind: type[RecordT], text: str, *, where: str, hint: str = REPORT) -> RecordT:
    """The record in a text of JSON.

    Raises:
        EngineError: It is not JSON, or not such a record.
    """
    try:
        content = json.loads(text)
    except ValueError as problem:
        what = f"a {kind.__name__} cannot be read: it is not JSON ({problem})"
        raise EngineError(what, where=where, hint=hint) from None
    return record(kind, content, where=where, hint=hint)


class _UnreadableError(Exception):
    """What is wrong, and by which keys one gets there, outermost first."""

    def __init__(self, problem: str, path: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.path = path

    def __str__(self) -> str:
        return f"'{self.path}' {self.problem}" if self.path else f"it {self.problem}"

    def inside(self, key: object) -> _UnreadableError:
        """The same, seen from one level further out."""
        return _UnreadableError(self.problem, f"{key}.{self.path}" if self.path else str(key))


@final
@dataclass(frozen=True, slots=True)
class _FieldCodec:
    """How values of a type are written and read; both raise nothing but `_UnreadableError`."""

    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


def _codec_of(kind: Any) -> _FieldCodec:
    return _codec(kind)


def _as_it_is(value: Any) -> Any:
    return value


@cache
def _codec(kind: Any) -> _FieldCodec:
    """The codec of a type; there are as many as there are types of fields."""
    kind = getattr(kind, "__supertype__", kind)
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is object:
        return _FieldCodec(_as_it_is, _as_it_is)
    if kind in _PLAIN:
        return _FieldCodec(_as_it_is, _checked(kind, _PLAIN[kind]))
    if origin is Literal:
        return _FieldCodec(_as_it_is, _one_of(arguments))
    if origin in (UnionType, Union):
        return _optional(arguments)
    if origin is tuple:
        return _tuple(arguments)
    if origin is not None and issubclass(origin, Mapping):
        return _mapping(*arguments)
    assert isinstance(kind, type), f"no record can hold a {kind}"
    assert is_dataclass(kind), f"no record can hold a {kind}"
    return _row(kind) if getattr(kind, "row", False) else _object(kind)


_PLAIN: Final[Mapping[type, str]] = {
    int: "a whole number",
    float: "a number",
    str: "a text",
    bool: "true or false",
}


def _checked(kind: type, wanted: str) -> Callable[[Any], Any]:
    # JSON has one kind of numbers, and Python takes True for 1.
    kinds = (int, float) if kind is float else (kind,)

    def read(value: Any) -> Any:
        if type(value) not in kinds:
            raise _UnreadableError(f"is {value!r}, not {wanted}"[:200])
        return value

    return read


def _one_of(allowed: tuple[Any, ...]) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if value not in allowed:
            raise _UnreadableError(
                f"is {value!r}, not one of {', '.join(map(repr, allowed))}"[:200]
            )
        return value

    return read


def _optional(arguments: tuple[Any, ...]) -> _FieldCodec:
    others = [each for each in arguments if each is not NoneType]
    assert len(others) == 1 < len(arguments), f"which of {arguments} it is, nobody could tell"
    inner = _codec(others[0])
    return _FieldCodec(
        lambda value: None if value is None else inner.write(value),
        lambda value: None if value is None else inner.read(value),
    )


def _tuple(arguments: tuple[Any, ...]) -> _FieldCodec:
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        inner = _codec(arguments[0])

        def read_all(value: Any) -> Any:
            return tuple(_read(inner, n, each) for n, each in enumerate(_listed(value)))

        return _FieldCodec(lambda value: [inner.write(each) for each in value], read_all)
    codecs = [_codec(each) for each in arguments]

    def read(value: Any) -> Any:
        if len(_listed(value)) != len(codecs):
            raise _UnreadableError(f"has {len(value)} entries, not {len(codecs)}")
        return tuple(_read(codec, n, each) for n, (codec, each) in enumerate(zip(codecs, value)))

    return _FieldCodec(
        lambda value: [codec.write(each) for codec, each in zip(codecs, value, strict=True)], read
    )


def _mapping(key: Any, kind: Any) -> _FieldCodec:
    inner = _codec(kind)

    def read(value: Any) -> Any:
        items = _keyed(value).items()
        return {_key(key, name): _read(inner, name, each) for name, each in items}

    def write(value: Any) -> Any:
        return {str(name): inner.write(each) for name, each in value.items()}

    return _FieldCodec(write, read)


def _key(kind: Any, name: str) -> Any:
    if kind is str:
        return name
    if not name.isdecimal():
        raise _UnreadableError("is not a number", name)
    return int(name)


@final
@dataclass(frozen=True, slots=True)
class _Part:
    """A field of a record; without a default it must not be missing."""

    name: str
    codec: _FieldCodec
    default: Callable[[], Any] | None
    omitted: bool

    def is_default(self, value: object) -> bool:
        return self.default is not None and bool(value == self.default())


def _parts(kind: Any) -> list[_Part]:
    hints = get_type_hints(kind)
    return [
        _Part(one.name, _codec(hints[one.name]), _default(one), bool(one.metadata.get("omitted")))
        for one in fields(kind)
    ]


def _default(one: Field[Any]) -> Callable[[], Any] | None:
    if one.default is not MISSING:
        return lambda: one.default
    return None if one.default_factory is MISSING else one.default_factory


def _object(kind: Any) -> _FieldCodec:
    parts = _parts(kind)
    allowed = {part.name for part in parts}

    def write(value: Any) -> Any:
        found = {}
        for part in parts:
            own = getattr(value, part.name)
            if not (part.omitted and part.is_default(own)):
                found[part.name] = part.codec.write(own)
        return found

    def read(value: Any) -> Any:
        unknown = _keyed(value).keys() - allowed
        if unknown:
            raise _UnreadableError("is a key that this version does not know", min(unknown))
        given = {}
        for part in parts:
            if part.name in value:
                given[part.name] = _read(part.codec, part.name, value[part.name])
            elif part.default is None:
                raise _UnreadableError("is missing", part.name)
        return kind(**given)

    return _FieldCodec(write, read)


def _row(kind: Any) -> _FieldCodec:
    parts = _parts(kind)
    always = [part for part in parts if not part.omitted]
    needed = sum(part.default is None for part in parts)

    def write(value: Any) -> Any:
        owns = [(part, getattr(value, part.name)) for part in parts]
        short = all(part.is_default(own) for part, own in owns if part.omitted)
        return [part.codec.write(own) for part, own in owns[: len(always) if short else None]]

    def read(value: Any) -> Any:
        if not needed <= len(_listed(value)) <= len(parts):
            raise _UnreadableError(f"has {len(value)} entries, not {needed} to {len(parts)}")
        given = zip(parts, value)
        return kind(**{part.name: _read(part.codec, part.name, each) for part, each in given})

    return _FieldCodec(write, read)


def _read(codec: _FieldCodec, key: object, value: Any) -> Any:
    try:
        return codec.read(value)
    except _UnreadableError as problem:
        raise problem.inside(key) from None


def _listed(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise _UnreadableError(f"is {value!r}, not a list"[:200])
    return value


def _keyed(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _UnreadableError(f"is {value!r}, not an object with keys"[:200])
    return value
