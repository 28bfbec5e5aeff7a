"""Structs as whole numbers that sort the same way: field by field, from the first to the last."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ints = npt.NDArray[np.int64]

_NULL: Final = 0
"""The code of a NULL in a field: it comes before all values."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class StructOrder:
    """The order of some structs, and their codes from 0 on.

    The code of the first field is its rank among all values of that field. A further field makes
    `code * width + rank` of it, which sorts by both; `tables` has those that occur, and the index
    in the table is the code that goes on. So codes never exceed the number of structs, and no
    product overflows.

    Example: (2, b), (1, z), (2, a) has ranks 2, 1, 2 and 2, 3, 1, with width 4: 10, 7, 9; the table
    is 7, 9, 10, and the codes are 2, 0, 1.

    Attributes:
        kind: The type of the structs.
        fields: The order of each field.
        tables: After each field, the combinations that occur.
    """

    kind: pa.DataType
    fields: tuple[FieldOrder, ...]
    tables: tuple[Ints, ...]

    @staticmethod
    def of(values: pa.Array) -> StructOrder:
        """The order of structs; those that are NULL are not asked about."""
        parts = values.drop_null().flatten()
        fields = tuple(FieldOrder.of(part) for part in parts)
        tables: list[Ints] = []
        codes = np.zeros(len(parts[0]) if parts else 0, np.int64)
        for field, part in zip(fields, parts, strict=True):
            wide = codes * field.width + field.encode(part)
            table, codes = np.unique(wide, return_inverse=True)
            tables.append(table)
        return StructOrder(values.type, fields, tuple(tables))

    def encode(self, values: pa.Array) -> Ints:
        """Codes of structs that the order is made of; 0 for NULL."""
        codes = np.zeros(len(values), np.int64)
        for field, table, part in zip(self.fields, self.tables, values.flatten(), strict=True):
            wide = codes * field.width + field.encode(part)
            codes = np.minimum(np.searchsorted(table, wide), max(len(table) - 1, 0))
        return codes

    def decode(self, codes: Ints, missing: npt.NDArray[np.bool_]) -> pa.Array:
        """Structs of codes; NULL where they are missing."""
        codes = np.where(missing, 0, codes)
        found: list[pa.Array] = []
        for field, table in zip(reversed(self.fields), reversed(self.tables), strict=True):
            wide = table[codes] if len(table) else np.zeros(len(codes), np.int64)
            codes, rank = np.divmod(wide, field.width)
            found.append(field.decode(rank))
        return pa.StructArray.from_arrays(
            found[::-1], fields=list(self.kind), mask=pa.array(missing)
        )


@final
@dataclass(frozen=True, slots=True, eq=False)
class FieldOrder:
    """The order of the values of one field: those that occur, the smallest first.

    NULL comes first, NaN last; -0.0 is 0.0.
    """

    levels: pa.Array
    inner: StructOrder | None

    @staticmethod
    def of(values: pa.Array) -> FieldOrder:
        """The order of values."""
        if pa.types.is_struct(values.type):
            order = StructOrder.of(values)
            return FieldOrder(pa.array(np.arange(len(order.tables[-1]))), order)
        values = values.drop_null()
        if pa.types.is_floating(values.type):
            return FieldOrder(pa.array(np.unique(_floats(values)), values.type), None)
        levels = pc.unique(values)
        return FieldOrder(levels.take(pc.sort_indices(levels)), None)

    @property
    def width(self) -> int:
        """More than any code."""
        return len(self.levels) + 1

    def encode(self, values: pa.Array) -> Ints:
        """Codes of values, from 1 on."""
        missing = values.is_null().to_numpy(zero_copy_only=False)
        codes: Any
        if self.inner is not None:
            codes = self.inner.encode(values)
        elif pa.types.is_floating(values.type):
            codes = np.searchsorted(_floats(self.levels), _floats(values))
        else:
            codes = pc.index_in(values, value_set=self.levels).fill_null(0).to_numpy()
        return np.where(missing, _NULL, np.asarray(codes, np.int64) + 1)

    def decode(self, codes: Ints) -> pa.Array:
        """Values of codes."""
        missing = codes == _NULL
        if self.inner is not None:
            return self.inner.decode(codes - 1, missing)
        return self.levels.take(pa.array(codes - 1, mask=missing))


def _floats(values: pa.Array) -> npt.NDArray[np.floating[Any]]:
    numbers = values.fill_null(0.0).to_numpy(zero_copy_only=False)
    return np.where(np.isnan(numbers), np.nan, numbers + 0.0).astype(numbers.dtype)
