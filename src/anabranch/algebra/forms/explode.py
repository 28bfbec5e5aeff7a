"""Make a row of every item of an array."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, final

import pyarrow as pa

from anabranch.algebra.analysis.properties import Properties
from anabranch.algebra.filter import check_schema
from anabranch.algebra.node import Unary
from anabranch.algebra.source import check_names
from anabranch.algebra.traits import Traits
from anabranch.errors import PlanError
from anabranch.expressions.expression import Expression, images
from anabranch.model.identity import Identity
from anabranch.model.logical import LogicalStream
from anabranch.model.payload import Payload


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Explode(Unary):
    """Each row once per item of an array, with the item, for as long as the row holds.

    Equal items make equal rows, and each of them stays. A row whose array is empty or NULL is left
    out; with `outer` it stays, once, with NULL for the item and its position.

    Attributes:
        argument: The array.
        name: The column of the item.
        position: The column of its position, from 0 on; None: there is none.
        outer: Whether rows without items stay.
    """

    identity: ClassVar[Identity] = Identity(
        "Explode", ("input", "argument", "name", "position", "outer"), by_hash=True
    )

    traits: ClassVar[Traits] = Traits(
        snapshot_reducible=True, passes_presence=True, keeps_payloads=True
    )

    argument: Expression
    name: str
    position: str | None = None
    outer: bool = False

    def __post_init__(self) -> None:
        check_schema(self.argument, self.input)
        if not _is_array(self.argument.type):
            raise PlanError(
                f"a value of type {self.argument.type} has no items",
                where=self.label,
                hint="explode takes an array; of a map, write explode(map_keys(m))",
            )
        check_names(self.schema.names, where=self.label)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the input, the position if it is asked for, and the item."""
        more = [] if self.position is None else [pa.field(self.position, pa.int32())]
        item = pa.field(self.name, self.argument.type.value_type)
        return pa.schema([*self.input.schema, *more, item])

    @property
    def remembers(self) -> bool:
        """No: each row leaves by itself."""
        return False

    @property
    def properties(self) -> Properties:
        """Those of the input, but one row may become several, and equal ones."""
        kept = self.input.properties.loosened()
        return replace(kept, no_duplicates=False, keyed=False, single=False)

    @property
    def label(self) -> str:
        """`Explode items AS item`."""
        position = "" if self.position is None else f" at {self.position}"
        outer = " [outer]" if self.outer else ""
        return f"Explode {self.argument.sql} AS {self.name}{position}{outer}"

    def denote(self, *inputs: LogicalStream) -> LogicalStream:
        """Every payload with each of its items."""
        (rows,) = inputs
        arrays = images([self.argument], list(rows.steps), self.input.schema)

        def changes() -> Iterator[tuple[Payload, int, int]]:
            for payload, start, end in rows.events():
                for new in self._items(arrays[payload][0]):
                    yield (*payload, *new), start, end

        return LogicalStream.of(changes())

    def _items(self, array: tuple[object, ...] | None) -> Iterator[Payload]:
        found: list[tuple[int | None, object]] = list(enumerate(array or ()))
        if not found and self.outer:
            found = [(None, None)]
        for index, item in found:
            yield (item,) if self.position is None else (index, item)


def _is_array(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))
