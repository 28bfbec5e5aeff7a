"""What a plan is, as text that no rename changes: the identity of operators and their parameters.

A checkpoint belongs to a query by this text. So it is made of what a class declares, and never of
the name of a class, the order of its fields, or how Python shows it:

    {"Filter":{"input":{"@node":"8ea6..."},"predicate":{"expression":{"sql":"price > 80",...}}}}

Three rules keep it stable. A name in the text is a constant. A parameter that has its default is
left out, so that a new field with a default changes nothing. What is read is a part by its hash, so
that the text of one operator stays short, however large the plan below it.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from numbers import Integral
from typing import Any, Final, TypeAlias, final

import pyarrow as pa

from anabranch.errors import EngineError


@final
@dataclass(frozen=True, slots=True)
class Identity:
    """What a class declares of its instances.

    Names of parameters are attributes, perhaps of attributes (`layout.schema`); what can be called
    is called. `key=attribute` keeps a name in the text when the attribute gets another one.

    Attributes:
        name: The operator, in the text; it stays when the class is renamed.
        parameters: What its results and its state depend on.
        version: Of the format of its state; to be raised when older state cannot be read.
        form: What the planner has decided about the state: its columns, how its rows tell their
            shard. Another decision makes it unreadable, like another version.
        ignored: Fields that state does not depend on, each with the reason.
        by_hash: Others that refer to it have its hash in their text, not its text.
    """

    name: str
    parameters: tuple[str, ...] = ()
    version: int = 1
    form: tuple[str, ...] = ()
    ignored: Mapping[str, str] = field(default_factory=dict)
    by_hash: bool = False


KnownHashes: TypeAlias = dict[int, tuple[object, str]]
"""Hashes by the `id` of an object; each with its object, whose `id` would else be free again."""

DIGITS: Final = 16
"""Of a hash: 64 bits, of which two plans are compared, never many."""


def signature(value: object) -> str:
    """The canonical text of a value: of an operator with its parameters, a schema, a number.

    Equal values have equal texts, in every process and version; different values different ones.

    >>> signature({"b": 2.5, "a": (1, None)}), signature(pa.schema([("price", pa.float64())]))
    ('{"@map":[["a",[1,null]],["b",{"@float":"2.5"}]]}', '{"@schema":[["price","double"]]}')
    """
    return _text(_Writer({}).written(value, inside=False))


def fingerprint(value: object, known: KnownHashes | None = None) -> str:
    """A short hash of the canonical text.

    Whoever asks for many parts of one plan hands in `known`, an empty dictionary at first: then
    each part is written once, and not once per part above it.
    """
    if known is None:
        return _hash(signature(value))
    if id(value) in known:
        return known[id(value)][1]
    found = _hash(_text(_Writer(known).written(value, inside=False)))
    # What is referred to by its hash has the same one inside others.
    if identity_of(value).by_hash:
        known[id(value)] = (value, found)
    return found


def form_signature(value: object) -> str:
    """The canonical text of what the planner has decided about the state of an operator."""
    writer = _Writer({})
    entries = _entries(value, identity_of(value).form)
    return _text({key: writer.written(each) for key, each, usual in entries if not usual})


def identity_of(value: object) -> Identity:
    """What the class of a value declares.

    Raises:
        EngineError: It declares nothing.
    """
    found = getattr(type(value), "identity", None)
    if isinstance(found, Identity):
        return found
    raise EngineError(
        f"a {type(value).__name__} has no identity, so plans with it cannot be compared",
        where=repr(value),
        hint="declare one: `identity: ClassVar[Identity] = Identity(...)`",
    )


def _entries(value: object, declared: tuple[str, ...]) -> Iterator[tuple[str, object, bool]]:
    """The parameters of a value: the name, what it is, and whether that is the default."""
    own: Mapping[str, Field[Any]] = (
        {each.name: each for each in fields(value)} if is_dataclass(value) else {}
    )
    for entry in declared:
        key, _, path = entry.partition("=")
        found = reduce(getattr, (path or key).split("."), value)
        found = found() if callable(found) and not _declares(found) else found
        default = own[path or key].default if (path or key) in own else MISSING
        yield key, found, default is not MISSING and bool(found == default)


def _declares(value: object) -> bool:
    return isinstance(getattr(type(value), "identity", None), Identity)


@final
@dataclass(frozen=True, slots=True)
class _Writer:
    """Writes values as JSON has them.

    `hashes` are those of the objects that were met before, by `id`; each is kept with its object,
    whose `id` would else be free for another one.
    """

    hashes: KnownHashes

    def written(self, value: object, *, inside: bool = True) -> Any:
        """A value as JSON has it; what is referred to by its hash is so only `inside` others."""
        match value:
            case None | bool() | str():
                return value
            case Integral():
                return int(value)
            case tuple() | list():
                return [self.written(each) for each in value]
            case set() | frozenset():
                return {"@set": sorted((self.written(each) for each in value), key=_text)}
            case Mapping():
                pairs = [[self.written(key), self.written(each)] for key, each in value.items()]
                return {"@map": sorted(pairs, key=_text)}
            case pa.Schema():
                return {"@schema": [_column(each) for each in value]}
            case pa.DataType():
                return {"@type": type_text(value)}
        for kind, (name, write) in _PLAIN.items():
            if isinstance(value, kind):
                return {f"@{name}": write(value)}
        return self._operator(value, inside=inside)

    def _operator(self, value: object, *, inside: bool) -> Any:
        declared = identity_of(value)
        if inside and declared.by_hash:
            if id(value) not in self.hashes:
                own = _hash(_text(self._operator(value, inside=False)))
                self.hashes[id(value)] = (value, own)
            return {"@node": self.hashes[id(value)][1]}
        entries = _entries(value, declared.parameters)
        return {
            declared.name: {key: self.written(each) for key, each, usual in entries if not usual}
        }


# In this order: a datetime is a date, too.
_PLAIN: Final[Mapping[type, tuple[str, Any]]] = {
    float: ("float", float.__repr__),
    Decimal: ("decimal", str),
    Fraction: ("fraction", str),
    bytes: ("bytes", lambda value: base64.b64encode(value).decode()),
    datetime: ("datetime", datetime.isoformat),
    date: ("date", date.isoformat),
    time: ("time", time.isoformat),
    timedelta: ("duration", lambda value: [value.days, value.seconds, value.microseconds]),
}


def _text(written: Any) -> str:
    return json.dumps(written, sort_keys=True, separators=(",", ":"))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def _column(each: pa.Field) -> list[str]:
    # Notes at columns do not count: schemas that differ in them alone are equal.
    return [each.name, type_text(each.type), *([] if each.nullable else ["not null"])]


def type_text(kind: pa.DataType) -> str:
    """A type of Arrow as text, whatever Arrow's own text for it becomes.

    >>> type_text(pa.list_(pa.decimal128(10, 2))), type_text(pa.timestamp("us", "UTC"))
    ('list<decimal128(10,2)>', 'timestamp(us,UTC)')
    """
    types = pa.types
    if types.is_timestamp(kind):
        return f"timestamp({kind.unit}{f',{kind.tz}' if kind.tz else ''})"
    if types.is_decimal(kind):
        return f"decimal{kind.bit_width}({kind.precision},{kind.scale})"
    if types.is_date(kind):
        return f"date{kind.bit_width}"
    if types.is_time(kind) or types.is_duration(kind):
        name = "duration" if types.is_duration(kind) else f"time{kind.bit_width}"
        return f"{name}({kind.unit})"
    if types.is_list(kind) or types.is_large_list(kind):
        return f"{'large_' if types.is_large_list(kind) else ''}list<{type_text(kind.value_type)}>"
    if types.is_fixed_size_list(kind):
        return f"list({kind.list_size})<{type_text(kind.value_type)}>"
    if types.is_struct(kind):
        parts = (f"{json.dumps(each.name)}:{type_text(each.type)}" for each in kind)
        return f"struct<{','.join(parts)}>"
    if types.is_map(kind):
        return f"map<{type_text(kind.key_type)},{type_text(kind.item_type)}>"
    if types.is_dictionary(kind):
        return f"dictionary<{type_text(kind.index_type)},{type_text(kind.value_type)}>"
    if types.is_fixed_size_binary(kind):
        return f"binary({kind.byte_width})"
    return str(kind)
