"""Types as authors of modules write them: Python's, SQL's, or any that a query brings."""

from __future__ import annotations

import datetime
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Annotated, Any, Final, TypeAlias, TypeVar, Union, final, get_args, get_origin

import pyarrow as pa

from anabranch.errors import QueryError
from anabranch.language.text.types import common_type, parse_type, type_name

_TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
_PYTHON: Final[Mapping[Any, pa.DataType]] = {
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bool: pa.bool_(),
    bytes: pa.binary(),
    datetime.datetime: _TIMESTAMP,
    datetime.date: pa.date32(),
}
_LISTS: Final = (list, Sequence, Collection, Iterable)
_PLAIN: Final = {
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
}
ACCEPTED_TYPES: Final = (
    "types are int, float, str, bool, bytes, datetime, date, list[...], a SQL type as a string "
    "such as "
    "'DECIMAL(10, 2)', and Any or a TypeVar for any type"
)


class UnknownTypeError(Exception):
    """An annotation that is no type of a column."""


@final
@dataclass(frozen=True, slots=True)
class Open:
    """Any type; it is known when a query calls the module. Equal names stand for one type.

    Attributes:
        name: Of the TypeVar; nothing for `Any`, which may be another type in every place.
        among: If there are some, only these.
    """

    name: str = ""
    among: tuple[pa.DataType, ...] = ()


@final
@dataclass(frozen=True, slots=True)
class ListOf:
    """A list of something whose type is not known yet."""

    element: Form


Form: TypeAlias = "pa.DataType | Open | ListOf"
"""A type of Arrow, or one that a query completes."""


def form_of(annotation: Any) -> tuple[Form, bool]:
    """The type that is meant, and whether NULL is a value of it.

    >>> form_of(float | None)
    (DataType(double), True)
    >>> form_of("DECIMAL(10, 2)")
    (Decimal128Type(decimal128(10, 2)), False)

    Raises:
        UnknownTypeError: There is no column of such values.
    """
    if get_origin(annotation) in (Union, types.UnionType):
        parts = [part for part in get_args(annotation) if part is not type(None)]
        if len(parts) != 1 or len(parts) == len(get_args(annotation)):
            raise UnknownTypeError(f"{show_annotation(annotation)} is not a single type")
        return form_of(parts[0])[0], True
    return _form(annotation), False


def _form(annotation: Any) -> Form:
    if isinstance(annotation, pa.DataType):
        return annotation
    if isinstance(annotation, str):
        return _sql(annotation)
    if annotation is Any:
        return Open()
    if isinstance(annotation, TypeVar):
        bound = [annotation.__bound__] if annotation.__bound__ else []
        among = (_form(each) for each in (*annotation.__constraints__, *bound))
        return Open(annotation.__name__, tuple(among))
    if get_origin(annotation) is Annotated:
        return _annotated(annotation)
    if get_origin(annotation) in _LISTS:
        (element,) = get_args(annotation)
        form, _ = form_of(element)
        return ListOf(form) if isinstance(form, Open | ListOf) else pa.list_(form)
    if isinstance(annotation, typing.NewType):
        return _form(annotation.__supertype__)
    if annotation is Decimal:
        raise UnknownTypeError(
            "Decimal has no precision; write Annotated[Decimal, 'DECIMAL(10, 2)']"
        )
    try:
        return _PYTHON[annotation]
    except (KeyError, TypeError):
        raise UnknownTypeError(f"{show_annotation(annotation)} is not a type of a column") from None


def _annotated(annotation: Any) -> Form:
    """`Annotated[Decimal, 'DECIMAL(10, 2)']`: the text says more than the class."""
    plain, *notes = get_args(annotation)
    for note in notes:
        if isinstance(note, str):
            return _sql(note)
        if isinstance(note, pa.DataType):
            return note
    return _form(plain)


def _sql(text: str) -> pa.DataType:
    try:
        return parse_type(text)
    except QueryError as error:
        raise UnknownTypeError(error.what) from None


def show_annotation(annotation: Any) -> str:
    """An annotation as its author wrote it."""
    named = isinstance(annotation, type) and not get_args(annotation)
    return annotation.__name__ if named else str(annotation).replace("typing.", "")


def show_form(form: Form) -> str:
    """As signatures show it: `DOUBLE`, `T`, `ARRAY<T>`, `ANY`."""
    if isinstance(form, Open):
        return form.name or "ANY"
    if isinstance(form, ListOf):
        return f"ARRAY<{show_form(form.element)}>"
    return type_name(form)


def names_in(form: Form) -> set[str]:
    """The names of the types that a query completes; an empty one for `Any`."""
    if isinstance(form, Open):
        return {form.name}
    return names_in(form.element) if isinstance(form, ListOf) else set()


def widens(actual: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether values of a type may stand where another type is wanted.

    >>> widens(pa.int32(), pa.float64()), widens(pa.string(), pa.float64())
    (True, False)
    """
    actual = _PLAIN.get(actual, actual)
    if _is_list(actual) and _is_list(wanted):
        return widens(actual.value_type, wanted.value_type)
    return bool(common_type(actual, wanted) == wanted)


def taken(form: Form, actual: pa.DataType, bindings: dict[str, pa.DataType]) -> pa.DataType | None:
    """The type in which a module gets values of some type; None if it does not take them.

    What is found out about open types is written into `known`.
    """
    if isinstance(form, ListOf):
        if not _is_list(actual):
            return None
        element = taken(form.element, actual.value_type, bindings)
        return None if element is None else pa.list_(element)
    if not isinstance(form, Open):
        return form if widens(actual, form) else None
    if form.among:
        chosen = next((kind for kind in form.among if widens(actual, kind)), None)
    else:
        chosen = actual
    if chosen is None or not form.name:
        return chosen
    earlier = bindings.setdefault(form.name, chosen)
    return earlier if widens(chosen, earlier) else None


def resolved(form: Form, bindings: Mapping[str, pa.DataType]) -> pa.DataType:
    """A type, when all open ones are known."""
    if isinstance(form, Open):
        return bindings[form.name]
    return pa.list_(resolved(form.element, bindings)) if isinstance(form, ListOf) else form


def conversion(actual: pa.DataType, wanted: pa.DataType) -> Callable[[Any], Any] | None:
    """What makes Python values of one type those of a wider one; None if they are already."""
    if _is_list(actual) and _is_list(wanted):
        each = conversion(actual.value_type, wanted.value_type)
        return partial(_converted, each) if each is not None else None
    if pa.types.is_floating(wanted) and not pa.types.is_floating(actual):
        return float
    if pa.types.is_decimal(wanted) and pa.types.is_integer(actual):
        return Decimal
    return None


def _converted(convert: Callable[[Any], Any], values: Iterable[Any]) -> list[Any]:
    return [None if value is None else convert(value) for value in values]


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))
