"""When results of modules are the same, and what states can be stored."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

_PLAIN: Final = (
    bool,
    int,
    float,
    str,
    bytes,
    datetime.date,
    datetime.timedelta,
    Decimal,
    Fraction,
    type(None),
)
_COLLECTIONS: Final = (list, tuple, set, frozenset)


def unstorable(state: Any) -> Any:
    """The first part of a state that is no plain value; None if all are."""
    if type(state) in _COLLECTIONS:
        parts = list(state)
    elif type(state) is dict:
        parts = [*state.keys(), *state.values()]
    else:
        return None if isinstance(state, _PLAIN) else state
    return next((found for found in map(unstorable, parts) if found is not None), None)


def alike(one: Sequence[Any], two: Sequence[Any], near: float) -> bool:
    """Whether there are the same rows in both, in any order; numbers may be a little off."""
    if len(one) != len(two):
        return False
    pairs = zip(sorted(one, key=_rough), sorted(two, key=_rough))
    return all(_equal(*pair, near) for pair in pairs)


def _rough(value: Any) -> str:
    """An order of rows in which numbers that are a little off do not change places."""
    if isinstance(value, float):
        return f"{value + 0.0:.6g}"
    return str([_rough(each) for each in value]) if isinstance(value, tuple | list) else repr(value)


def _equal(one: Any, two: Any, near: float) -> bool:
    if isinstance(one, float) and isinstance(two, float):
        same = one == two or (math.isnan(one) and math.isnan(two))
        return same or (near > 0 and math.isclose(one, two, rel_tol=near, abs_tol=near))
    if isinstance(one, tuple | list) and isinstance(two, tuple | list):
        return len(one) == len(two) and all(_equal(a, b, near) for a, b in zip(one, two))
    return bool(one == two)
