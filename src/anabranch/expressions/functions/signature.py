"""How the functions of the table are written down: what they take, and their DuckDB text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, final

import pyarrow as pa

from anabranch.expressions.functions.value import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    INTERVAL,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    Value,
    is_array,
    is_decimal,
    is_float,
    is_integer,
    is_number,
    is_plain,
    is_time,
)
from anabranch.expressions.functions.widening import fails_any, implicit

Parameter = Callable[[Value], "Value | None"]
"""An argument as the function takes it; None if it does not."""

TYPES: Final[Mapping[str, pa.DataType]] = {
    "boolean": BOOLEAN,
    "tinyint": TINYINT,
    "smallint": SMALLINT,
    "int": INT,
    "bigint": BIGINT,
    "float": FLOAT,
    "double": DOUBLE,
    "string": STRING,
    "binary": BINARY,
    "date": DATE,
    "timestamp": TIMESTAMP,
    "timestamp_ntz": TIMESTAMP_NTZ,
    "interval": INTERVAL,
}


def _if(accepts: Callable[[pa.DataType], bool], value: Value) -> Value | None:
    return value if accepts(value.type) else None


def _literal(accepts: Callable[[pa.DataType], bool], value: Value) -> Value | None:
    return value if accepts(value.type) and value.literal is not None else None


PARAMETERS: Final[Mapping[str, Parameter]] = {
    **{
        name: partial(lambda kind, value: implicit(value, kind), kind)
        for name, kind in TYPES.items()
    },
    "integer": partial(_if, is_integer),
    "fraction": partial(_if, is_float),
    "decimal": partial(_if, is_decimal),
    "number": partial(_if, is_number),
    "clock": partial(_if, lambda kind: kind in (TIMESTAMP, TIMESTAMP_NTZ)),
    "day": partial(_if, lambda kind: kind == DATE),
    "time": partial(_if, is_time),
    "plain": partial(_if, is_plain),
    "any": lambda value: value,
    "array": partial(_if, is_array),
    "map": partial(_if, lambda kind: bool(pa.types.is_map(kind))),
    "text": partial(_if, lambda kind: kind == STRING),
    "bytes": partial(_if, lambda kind: kind == BINARY),
    "string constant": partial(_literal, lambda kind: kind == STRING),
    "int constant": partial(_literal, is_integer),
}
"""What a signature may ask for: one of Spark's types, to which arguments are widened, or a kind of
types that are taken as they are, or a constant."""

Text = str | Callable[[Sequence[Value]], "str | None"]
Gives = str | Callable[[Sequence[Value]], "pa.DataType | None"]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """One way to call a function.

    In the text `{0}` stands for the first argument and `{*}` for all of them; a text that is
    computed may be None, which means that the function is not for these arguments.
    """

    takes: tuple[str, ...]
    gives: Gives
    text: Text
    fails: bool = False
    more: bool = False
    optional: int = 0

    @property
    def described(self) -> str:
        """What it takes, as a reader sees it."""
        return f"({', '.join(self.takes)}{', ...' if self.more else ''})"

    def apply(self, arguments: Sequence[Value]) -> Value | None:
        """What comes out for these arguments; None if they do not fit."""
        least = len(self.takes) - self.optional
        if len(arguments) < least or (len(arguments) > len(self.takes) and not self.more):
            return None
        wanted = [*self.takes, *self.takes[-1:] * (len(arguments) - len(self.takes))]
        taken = [PARAMETERS[name](value) for name, value in zip(wanted, arguments)]
        values = [value for value in taken if value is not None]
        if len(values) < len(arguments):
            return None
        kind = TYPES[self.gives] if isinstance(self.gives, str) else self.gives(values)
        text = fill(self.text, values) if isinstance(self.text, str) else self.text(values)
        if kind is None or text is None:
            return None
        return Value(text=text, type=kind, fails=self.fails or fails_any(values))


def fill(text: str, values: Sequence[Value]) -> str:
    """A text with the arguments filled in."""
    text = text.replace("{*}", ", ".join(value.text for value in values))
    parts = text.split("{")
    # Not str.format: a text may hold braces of its own, as in a regular expression.
    return parts[0] + "".join(
        values[int(part[0])].text + part[2:]
        if part[:1].isdigit() and part[1:2] == "}"
        else "{" + part
        for part in parts[1:]
    )


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A function that gives the same in Spark and in DuckDB, for the arguments it admits.

    `digits` says that the last digits of a fraction may differ: libraries of mathematics do.
    """

    name: str
    signatures: tuple[Signature, ...]
    digits: bool = False

    def apply(self, arguments: Sequence[Value]) -> Value | None:
        """What comes out for these arguments; None if it is not admitted for them."""
        found = (signature.apply(arguments) for signature in self.signatures)
        return next((value for value in found if value is not None), None)


def same(values: Sequence[Value]) -> pa.DataType:
    """The type of the first argument."""
    return values[0].type


def signature(
    takes: str,
    gives: Gives,
    text: Text,
    *,
    fails: bool = False,
    more: bool = False,
    optional: int = 0,
) -> Signature:
    """A signature; what it takes is a list with commas.

    >>> signature("string, int", "string", "left({0}, {1})").takes
    ('string', 'int')
    """
    names = tuple(name.strip() for name in takes.split(",") if name.strip())
    unknown = [name for name in names if name not in PARAMETERS]
    assert not unknown, unknown
    return Signature(takes=names, gives=gives, text=text, fails=fails, more=more, optional=optional)


def function(names: str, *signatures: Signature, digits: bool = False) -> tuple[Function, ...]:
    """A function under one or several names."""
    return tuple(
        Function(name=name, signatures=signatures, digits=digits) for name in names.split()
    )


def table(*functions: tuple[Function, ...]) -> dict[str, Function]:
    """Functions by name."""
    found = [each for group in functions for each in group]
    assert len({each.name for each in found}) == len(found)
    return {each.name: each for each in found}
