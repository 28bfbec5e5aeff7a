"""Values in groups: added up, and put in order, for all groups at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.model.numbers.digits import Digits, DigitWindow, carry, relieve
from anabranch.model.numbers.exact_numbers import Exact
from anabranch.model.numbers.hashing import stable_hash
from anabranch.model.numbers.struct_order import StructOrder

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

_LOW: Final = 2**32 - 1


@final
@dataclass(frozen=True, slots=True, eq=False)
class ValueGroups:
    """Values that are not NULL, those of a group side by side.

    Attributes:
        length: How many groups there are, those without a value among them.
        values: The values.
        which: The groups that have values, in order.
        starts: Where the values of each of these begin.
        counts: How many each of these has.
    """

    length: int
    values: pa.Array
    which: Ints
    starts: Ints
    counts: Ints

    @staticmethod
    def of(group: Ints, values: pa.Array, length: int) -> ValueGroups:
        """Put values side by side that are in one group."""
        if values.null_count:
            rows = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
            group, values = group[rows], values.take(pa.array(rows))
        if (group[1:] < group[:-1]).any():
            order = np.argsort(group, kind="stable")
            group, values = group[order], values.take(pa.array(order))
        starts = np.flatnonzero(np.append(True, group[1:] != group[:-1])[: len(group)])
        counts = np.diff(np.append(starts, len(group)))
        return ValueGroups(length, values, group[starts], starts, counts)

    @property
    def owners(self) -> Ints:
        """Of each value the number of its group among those that have values."""
        return np.repeat(np.arange(len(self.which)), self.counts)

    def distinct(self) -> ValueGroups:
        """Equal values of a group once; NaN equals NaN."""
        owners = self.owners
        keys = [stable_hash([self.values], len(self.values), salt=salt) for salt in (0, 1)]
        order = np.lexsort((*keys, owners))
        first = np.ones(len(order), np.bool_)
        first[1:] = False
        for key in (owners, *keys):
            first[1:] |= key[order][1:] != key[order][:-1]
        kept = np.sort(order[first])
        return ValueGroups.of(
            self.which[owners[kept]], self.values.take(pa.array(kept)), self.length
        )

    def ordered(self) -> ValueGroups:
        """The same, the smallest value of each group first; NaN is the largest."""
        numbers = as_numbers(self.values)
        if pa.types.is_struct(self.values.type):
            numbers = StructOrder.of(self.values).encode(self.values)
        if numbers is not None:
            order = pa.array(np.lexsort((numbers, self.owners)))
        else:
            keys = pa.table({"group": self.owners, "value": self.values})
            order = pc.sort_indices(keys, [("group", "ascending"), ("value", "ascending")])
        return ValueGroups(
            self.length, self.values.take(order), self.which, self.starts, self.counts
        )

    def part(self, number: int) -> list[Any]:
        """All values of one of the groups that have values."""
        found = self.values.slice(self.starts[number], self.counts[number])
        return list(found.to_pylist())

    def spread(self, found: pa.Array) -> pa.Array:
        """Of all groups what was found for those with values; NULL for the others."""
        if len(self.which) == self.length:
            return found
        source = np.full(self.length, -1)
        source[self.which] = np.arange(len(self.which))
        return found.take(pa.array(source, mask=source < 0))

    def whole_totals(self) -> list[Ints]:
        """Sums of whole numbers in limbs of 32 bits: the first has the sign, the others have none.

        Two of them for integers, four for decimals (in units of the last digit).
        """
        sums = [np.add.reduceat(limb, self.starts) for limb in self._limbs()]
        for index in range(len(sums) - 1, 0, -1):
            sums[index - 1] = sums[index - 1] + (sums[index] >> 32)
            sums[index] = sums[index] & _LOW
        return sums

    def _limbs(self) -> list[Ints]:
        if pa.types.is_decimal(self.values.type):
            wide = self.values.cast(pa.decimal128(38, self.values.type.scale))
            words = np.frombuffer(wide.buffers()[1], np.int64)[2 * wide.offset :][: 2 * len(wide)]
            low, high = words[0::2], words[1::2]
            return [high >> 32, high & _LOW, (low >> 32) & _LOW, low & _LOW]
        whole = self.values.to_numpy(zero_copy_only=False)
        wide = whole.astype(np.uint64 if whole.dtype.kind == "u" else np.int64)
        return [(wide >> 32).astype(np.int64), (wide & _LOW).astype(np.int64)]

    def whole_values(self) -> Exact:
        """Whole numbers one by one; decimals in units of their last digit."""
        limbs = self._limbs()[::-1]
        return Exact.of_parts([(limb, 32 * at) for at, limb in enumerate(limbs)], 0, len(limbs) + 2)

    def exact_total(self, digits: Digits, window: DigitWindow) -> Exact:
        """Sums of numbers in digits, one per value: the order in which they come does not show."""
        digits = relieve(digits, window, len(self.values))
        sums = {slot: np.add.reduceat(digit, self.starts) for slot, digit in digits.items()}
        return Exact.of_digits(carry(sums, window), window)


def as_numbers(values: pa.Array) -> npt.NDArray[Any] | None:
    """Values that NumPy orders as they are ordered; None for others."""
    kind = values.type
    if pa.types.is_temporal(kind):
        values = values.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return None
    return values.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]
