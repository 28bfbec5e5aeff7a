"""The states of user operators as bytes: plain values only, readable in any process and version."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

import numpy as np

_PLAIN: Final = (str, int, bool, type(None))


def encode_state(state: Any, version: int = 1) -> bytes:
    """A state, and the version of the user operator that left it.

    >>> decode_state(encode_state((2, 0.5, {"seen": {1, 2}}), 3))
    ((2, 0.5, {'seen': {1, 2}}), 3)

    Raises:
        TypeError: It holds something that is no plain value.
    """
    return json.dumps([version, _encoded(state)], separators=(",", ":")).encode()


def decode_state(data: bytes) -> tuple[Any, int]:
    """The state, and the version that left it."""
    version, state = json.loads(data)
    return _decoded(state), version


def version_of(data: bytes) -> int:
    """The version that left a state, without reading it.

    >>> version_of(encode_state({"seen": 1}, 12))
    12
    """
    return int(data[1 : data.index(b",")])


def _encoded(value: Any) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is float:
        return value if math.isfinite(value) else {"float": repr(value)}
    if kind is list:
        return [_encoded(part) for part in value]
    if kind in (set, frozenset):
        # In one order, whatever the process: equal states are equal bytes.
        parts = sorted((_encoded(part) for part in value), key=json.dumps)
        return {kind.__name__: parts}
    if isinstance(value, tuple):
        return {"tuple": [_encoded(part) for part in value]}
    if kind is dict:
        return {"dict": [[_encoded(key), _encoded(part)] for key, part in value.items()]}
    if isinstance(value, np.generic):
        return _encoded(value.item())
    for name, (type_, write, _) in _OTHERS.items():
        if kind is type_:
            return {name: write(value)}
    raise TypeError(f"a {kind.__name__} cannot be stored in a checkpoint")


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return [_decoded(part) for part in value]
    if not isinstance(value, dict):
        return value
    ((name, inner),) = value.items()
    match name:
        case "tuple":
            return tuple(_decoded(part) for part in inner)
        case "dict":
            return {_decoded(key): _decoded(part) for key, part in inner}
        case "set":
            return {_decoded(part) for part in inner}
        case "frozenset":
            return frozenset(_decoded(part) for part in inner)
        case "float":
            return float(inner)
    return _OTHERS[name][2](inner)


_OTHERS: Final[Mapping[str, tuple[type, Callable[[Any], Any], Callable[[Any], Any]]]] = {
    "bytes": (bytes, lambda v: base64.b64encode(v).decode(), base64.b64decode),
    "datetime": (datetime, datetime.isoformat, datetime.fromisoformat),
    "date": (date, date.isoformat, date.fromisoformat),
    "time": (time, time.isoformat, time.fromisoformat),
    "timedelta": (
        timedelta,
        lambda v: [v.days, v.seconds, v.microseconds],
        lambda v: timedelta(*v),
    ),
    "decimal": (Decimal, str, Decimal),
    "fraction": (Fraction, str, Fraction),
}
