"""About how many different values there are, in little memory."""

from __future__ import annotations

import math
from datetime import date
from decimal import Decimal
from hashlib import blake2b
from typing import Any, Final, TypeAlias, TypeVar

from anabranch.userops.decorators import uda

T = TypeVar("T")

REGISTERS: Final = 4096
"""This many registers give a standard error of 1.04 / sqrt(4096) = 1.6 %."""

_BITS: Final = 64 - 12

Sketch: TypeAlias = dict[int, int]
"""HyperLogLog (Flajolet et al. 2007): per register the longest run of zeros seen, plus one.

Registers that saw nothing are not there, so few values need little space.
"""


def _seen(value: Any) -> tuple[int, int]:
    """The register of a value, and the position of the first 1 bit in the rest of its hash."""
    text = blake2b(_text(value).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    bits = int.from_bytes(text, "big")
    register, rest = bits >> _BITS, bits & (1 << _BITS) - 1
    return register, _BITS - rest.bit_length() + 1


def _text(value: Any) -> str:
    """Equal for equal values, in every process."""
    if isinstance(value, float):
        return "0.0" if value == 0 else repr(value)
    if isinstance(value, Decimal):
        return str(value.normalize()) if value else "0"
    if isinstance(value, date):
        return value.isoformat()
    return repr(value)


def _add(sketch: Sketch, value: Any) -> None:
    register, rank = _seen(value)
    sketch[register] = max(sketch.get(register, 0), rank)


def _estimate(sketch: Sketch) -> int:
    empty = REGISTERS - len(sketch)
    # Summed without rounding: the order of events must not matter.
    powers = math.fsum(2.0**-rank for rank in sketch.values()) + empty
    raw = 0.7213 / (1 + 1.079 / REGISTERS) * REGISTERS**2 / powers
    if raw <= 2.5 * REGISTERS and empty:
        return round(REGISTERS * math.log(REGISTERS / empty))
    return round(raw)


@uda(name="distinct_sketch")
class DistinctSketch:
    """About how many different values there are.

    It is right for a few values, and has a standard error of 1.6 % for many. What a value did
    to the sketch cannot be undone: when one goes, a window is added up anew.
    """

    def initial(self) -> Sketch:
        """Nothing seen."""
        return {}

    def add(self, state: Sketch, value: T) -> Sketch:
        """One value more."""
        _add(state, value)
        return state

    def compute(self, state: Sketch) -> int:
        """The estimate."""
        return _estimate(state)


@uda
def distinct_sketch_plain(values: list[T]) -> int:
    """The same of a list.

    >>> distinct_sketch_plain(["a", "b", "a"])
    2
    """
    sketch: Sketch = {}
    for value in values:
        _add(sketch, value)
    return _estimate(sketch)
