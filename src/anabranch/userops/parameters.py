"""The parameters of a module, as a query sets them."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from decimal import Decimal
from difflib import get_close_matches
from typing import Any, Final

import pyarrow as pa

from anabranch.errors import QueryError
from anabranch.language.text.types import type_name
from anabranch.model.clock import ANY_CLOCK, Clock
from anabranch.userops.declaration import Declaration, Parameter
from anabranch.userops.types import resolved

_CLASSES: Final[Mapping[pa.DataType, tuple[type, ...]]] = {
    pa.bool_(): (bool,),
    pa.string(): (str,),
    pa.binary(): (bytes,),
    pa.date32(): (datetime.date,),
}


def set_parameters(
    declared: Declaration,
    given: Sequence[Any],
    named: Mapping[str, Any],
    bindings: Mapping[str, pa.DataType],
    clock: Clock = ANY_CLOCK,
) -> dict[str, Any]:
    """The value of every parameter.

    Args:
        declared: The module.
        given: Values in order.
        named: Values by name; case does not count.
        bindings: The types that its arguments have brought.
        clock: How the stream counts time.

    Raises:
        QueryError: There is no such parameter, one has no value or two, or the wrong one.
    """
    parameters = {each.name.lower(): each for each in declared.parameters}
    if len(given) > len(parameters):
        count = f"{len(parameters)} parameter{'s' if len(parameters) != 1 else ''}"
        raise misused(declared, f"{declared.name} has {count}, not {len(given)}")
    found = dict(zip(parameters, given))
    for name, value in named.items():
        if name.lower() not in parameters:
            near = get_close_matches(name.lower(), parameters, 1)
            guess = f"; did you mean '{parameters[near[0]].name}'?" if near else ""
            raise misused(declared, f"{declared.name} has no parameter '{name}'{guess}")
        if name.lower() in found:
            raise misused(declared, f"the parameter '{name}' of {declared.name} is set twice")
        found[name.lower()] = value
    missing = [each.name for key, each in parameters.items() if each.required and key not in found]
    if missing:
        raise misused(declared, f"{declared.name} needs the parameter '{missing[0]}'")
    return {
        each.name: _value(declared, each, found[key], bindings, clock)
        if key in found
        else each.default
        for key, each in parameters.items()
    }


def misused(declared: Declaration, what: str) -> QueryError:
    """A call that does not fit; the hint shows the signature."""
    return QueryError(what, hint=f"its signature is {declared.signature}")


def _value(
    declared: Declaration,
    parameter: Parameter,
    value: Any,
    bindings: Mapping[str, pa.DataType],
    clock: Clock,
) -> Any:
    if value is None and parameter.nullable:
        return None
    kind = resolved(parameter.form, bindings)
    where = f"the parameter '{parameter.name}' of {declared.name} is {value!r}, but must be a "
    try:
        made = _duration(value, clock) if parameter.is_duration else constant(value, kind)
    except QueryError as problem:
        raise misused(declared, f"{where}duration: {problem.what}") from None
    except (ValueError, OverflowError):
        wanted = "duration, such as '10 minutes'" if parameter.is_duration else type_name(kind)
        raise misused(declared, f"{where}{wanted}") from None
    if parameter.choices and made not in parameter.choices:
        choices = ", ".join(repr(each) for each in parameter.choices)
        raise misused(
            declared,
            f"the parameter '{parameter.name}' of {declared.name} is {value!r}, but must be one "
            f"of {choices}",
        )
    return made


def _duration(value: Any, clock: Clock) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str | datetime.timedelta):
        raise ValueError(value)
    return int(clock.duration(value))


def constant(value: Any, kind: pa.DataType) -> Any:
    """A constant of a query as Python's value of a type.

    >>> constant(Decimal("0.9"), pa.float64()), constant(Decimal(3), pa.int64())
    (0.9, 3)

    Raises:
        ValueError: It is of another type.
    """
    number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    if pa.types.is_integer(kind) and number and value == int(value):
        return int(value)
    if pa.types.is_floating(kind) and number:
        return float(value)
    if pa.types.is_decimal(kind) and number:
        return Decimal(str(value))
    if pa.types.is_list(kind) and isinstance(value, list | tuple):
        return [None if each is None else constant(each, kind.value_type) for each in value]
    if pa.types.is_timestamp(kind) and isinstance(value, datetime.datetime):
        return value
    if isinstance(value, _CLASSES.get(kind, ())):
        return value
    raise ValueError(f"{value!r} is not of type {kind}")


def frozen(value: Any) -> Any:
    """A value that can be compared and hashed, for plans."""
    return tuple(frozen(each) for each in value) if isinstance(value, list | tuple) else value
