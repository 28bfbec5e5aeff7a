"""Exact sums as lanes: the slots of a window are columns, all others share a column of lists."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, final

import numpy as np
import pyarrow as pa

from anabranch.kernels.columns import grouped as columns
from anabranch.kernels.columns.grouped import Floats, Ints
from anabranch.model.numbers.digits import (
    ODD,
    RELIEF,
    REST,
    Digits,
    DigitWindow,
    carry,
    pack,
    relieve,
    split,
    split_squares,
    unpack,
)
from anabranch.model.numbers.exact_numbers import MOST, Exact, quotients


@lru_cache(maxsize=1024)
def _numbered(name: str, slots: int) -> tuple[str, ...]:
    """The lanes of the slots of a window, which every step over a sum names several times."""
    return tuple(f"{name}.{slot}" for slot in range(slots))


@final
@dataclass(frozen=True, slots=True)
class SumLane:
    """The lanes of one exact sum.

    In memory every slot in use is a lane of whole numbers; outside of the window there are only
    those that some row at hand needs. What is stored or sent has the same columns always: the
    slots of the window, and `rest`.
    """

    name: str
    window: DigitWindow

    @property
    def limbs(self) -> tuple[str, ...]:
        """The lanes of the window, that of the smallest digits first."""
        return _numbered(self.name, self.window.limbs)

    @property
    def rest(self) -> str:
        """The column for all other slots."""
        return f"{self.name}.rest"

    @property
    def relief(self) -> str:
        """The lane that is there only while large digits are added up."""
        return f"{self.name}@{RELIEF}"

    def fields(self) -> list[tuple[str, pa.DataType]]:
        """The columns, as they are stored and sent."""
        return [*((name, pa.int64()) for name in self.limbs), (self.rest, REST)]

    def split(self, numbers: Floats) -> dict[str, Ints]:
        """Floats as lanes."""
        if not columns.is_compiled(len(numbers)):
            return self.named(split(numbers, self.window))
        return self._split(numbers, columns.native().split_floats, split)

    def split_squares(self, numbers: Floats) -> dict[str, Ints]:
        """The squares of floats as lanes."""
        if not columns.is_compiled(len(numbers)):
            return self.named(split_squares(numbers, self.window))
        return self._split(numbers, columns.native().split_squares, split_squares)

    def _split(
        self, numbers: Floats, loop: Callable[..., Any], otherwise: Callable[..., Digits]
    ) -> dict[str, Ints]:
        """By a compiled loop what lies in the window, then the others."""
        table, is_left = loop(numbers, self.window.lowest, self.window.limbs)
        digits: Digits = dict(enumerate(table))
        left = np.flatnonzero(is_left)
        if len(left):
            for slot, digit in otherwise(numbers[left], self.window).items():
                digits.setdefault(slot, np.zeros(len(numbers), np.int64))[left] = digit
        return self.named(digits)

    def named(self, digits: Mapping[int, Ints]) -> dict[str, Ints]:
        """Digits as lanes."""
        inside = range(self.window.limbs)
        return {
            f"{self.name}.{slot}" if slot in inside else f"{self.name}@{slot}": digit
            for slot, digit in digits.items()
        }

    def lanes(self, lanes: Iterable[str]) -> set[str]:
        """Those of some lanes that are its own."""
        return {name for name in lanes if name.startswith((f"{self.name}@", f"{self.name}."))}

    def digits(self, lanes: Mapping[str, Ints]) -> Digits:
        """The digits among lanes."""
        found = {slot: lanes[name] for slot, name in enumerate(self.limbs)}
        mark = f"{self.name}@"
        others = (name for name in lanes if name.startswith(mark))
        return found | {int(name.removeprefix(mark)): lanes[name] for name in others}

    def outside(self, lanes: Mapping[str, Ints]) -> Digits:
        """Those of them that are not in the window."""
        return {slot: lane for slot, lane in self.digits(lanes).items() if slot not in self._inside}

    @property
    def _inside(self) -> range:
        return range(self.window.limbs)

    def relieved(self, lanes: Mapping[str, Ints], rows: int) -> dict[str, Ints]:
        """The lanes, so that so many rows of them can be added up."""
        return self.named(relieve(self.digits(lanes), self.window, rows))

    def carried(self, lanes: Mapping[str, Ints]) -> dict[str, Ints]:
        """The lanes in their one form: equal sums have equal digits."""
        digits = self.digits(lanes)
        if len(digits) == self.window.limbs and columns.is_compiled(len(digits[0])):
            table = np.stack([digits[slot] for slot in self._inside])
            if columns.native().carry(table):
                return self.named(dict(enumerate(table)))
        return self.named(carry(digits, self.window))

    def exact(self, lanes: Mapping[str, Ints]) -> Exact:
        """The sums as numbers; the lanes are in their one form."""
        return Exact.of_digits(self.digits(lanes), self.window)

    def rounded(self, lanes: Mapping[str, Ints], divisor: Ints | None = None) -> Floats:
        """The sums, or what they are over counts, as the nearest floats."""
        if self._is_small(lanes) and (divisor is None or divisor.max(initial=1) < MOST):
            table = np.stack([lanes[name] for name in self.limbs])
            over = np.empty(0, np.int64) if divisor is None else divisor
            return np.asarray(columns.native().rounded(table, self.window.lowest, over))
        exact = self.exact(lanes)
        return exact.rounded() if divisor is None else quotients(exact, [divisor])

    def _is_small(self, lanes: Mapping[str, Ints]) -> bool:
        """Whether compiled loops do: all is in the window, where no float is below the normal."""
        odd = {f"{self.name}@{slot}" for slot in ODD}
        inside = self.lanes(lanes) - odd <= set(self.limbs)
        return inside and columns.is_compiled(len(lanes[self.limbs[0]]))

    def packed(self, lanes: Mapping[str, Ints], length: int) -> pa.Array:
        """The column for the slots outside of the window."""
        outside = self.outside(lanes)
        assert RELIEF not in outside
        return pack({slot: lane for slot, lane in outside.items() if lane.any()}, length)

    def unpacked(self, rest: pa.Array) -> dict[str, Ints]:
        """The lanes in such a column."""
        return self.named(unpack(rest))

    def odd(self, lanes: Mapping[str, Ints], slot: int) -> Ints | None:
        """How often NaN or an infinity is in the sum; None where there is none anywhere."""
        assert slot in ODD
        return lanes.get(f"{self.name}@{slot}")
