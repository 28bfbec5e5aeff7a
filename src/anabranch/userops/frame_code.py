"""The code of modules that answer for many windows at once, in a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, final

import pyarrow as pa
import pyarrow.compute as pc

from anabranch.algebra.modules.results import OperatorCallError, typed_values
from anabranch.algebra.modules.user_operator import FRAME_TIMES, WINDOW, Code, Frame
from anabranch.errors import PlanError
from anabranch.userops.answers import ResultMaker
from anabranch.userops.definition import Callee
from anabranch.userops.types import widens

VALUE: Final = "value"
"""What an aggregate calls the column with its values."""

TIMES: Final = ("start", "end")


@final
@dataclass(frozen=True, slots=True)
class FrameCode(Code):
    """A function, or the `compute` of an object, that gets the events of many windows.

    Attributes:
        callee: What is called.
        answers: What it gives.
        frame: The kind of table that it wants.
        takes: The columns of its arguments.
        gives: The columns of its results.
        required: The columns in which NULLs do not count.
    """

    callee: Callee
    answers: ResultMaker
    frame: Frame
    takes: pa.Schema
    gives: pa.Schema
    required: tuple[str, ...]

    def compute_frame(self, events: pa.Table) -> pa.Table:
        """What it says of the events that count."""
        counted = self._counted(events)
        library = _LIBRARIES[self.frame]
        given = self.callee.compute(library.shown(counted), **self.callee.keywords)
        table = library.read(given)
        if not isinstance(table, pa.Table):
            raise OperatorCallError(
                f"{self.answers.operator} returned a {type(given).__name__}, which is not a table "
                f"of {self.frame}"
            )
        return self._complete(self._typed(table), events, counted)

    def _counted(self, events: pa.Table) -> pa.Table:
        """The rows without NULLs where they do not count, in the declared types."""
        for name in self.required:
            if events.column(name).null_count:
                events = events.filter(pc.is_valid(events.column(name)))
        for each in self.takes:
            index = events.schema.get_field_index(each.name)
            if events.schema.field(index).type != each.type:
                cast = events.column(index).cast(each.type)
                events = events.set_column(index, each, cast)
        return events

    def _typed(self, table: pa.Table) -> pa.Table:
        """The results, under the names and in the types that they shall have."""
        names = table.column_names
        if self.answers.kind == "uda" and VALUE in names and self.gives.names[0] not in names:
            table = table.rename_columns([self.gives.names[0] if n == VALUE else n for n in names])
        wanted = [pa.field(WINDOW, pa.int64()), *self.gives]
        wanted += [pa.field(time, pa.int64()) for time in TIMES] if self.answers.own_times else []
        missing = [each.name for each in wanted if each.name not in table.column_names]
        if missing:
            shown = VALUE if self.answers.kind == "uda" and missing[0] != WINDOW else missing[0]
            raise OperatorCallError(
                f"{self.answers.operator} returned a table without '{shown}'; it has: "
                f"{', '.join(names)}"
            )
        columns = [self._cast(table.column(each.name), each) for each in wanted]
        return pa.table(columns, schema=pa.schema(wanted))

    def _cast(self, column: pa.ChunkedArray, wanted: pa.Field) -> pa.ChunkedArray:
        if column.type == wanted.type:
            return column
        # pandas has floats for integers with gaps; such a column is taken if it is exact.
        exact = pa.types.is_floating(column.type) and pa.types.is_integer(wanted.type)
        who = f"{self.answers.operator} returned, in '{wanted.name}',"
        if exact or widens(column.type, wanted.type) or _is_alike(column.type, wanted.type):
            try:
                return column.cast(wanted.type)
            except pa.ArrowInvalid as problem:
                raise OperatorCallError(
                    f"{who} a value that is not of type {wanted.type}: {problem}"
                ) from None
        if pa.types.is_null(wanted.type) or pa.types.is_nested(wanted.type):
            return typed_values(column.to_pylist(), wanted.type, who)
        raise OperatorCallError(f"{who} values of the type {column.type}, not {wanted.type}")

    def _complete(self, table: pa.Table, events: pa.Table, counted: pa.Table) -> pa.Table:
        """The results, with those of windows of which it saw nothing but NULLs."""
        asked, answered = counted.column(WINDOW).unique(), table.column(WINDOW)
        strange = answered.filter(pc.invert(pc.is_in(answered, asked)))
        if len(strange) or answered.null_count:
            raise OperatorCallError(
                f"{self.answers.operator} returned a result for the window number "
                f"{strange[0] if len(strange) else None}, which is not in its table"
            )
        if self.answers.kind == "uda":
            self._check_one_each(asked, answered)
        elif self.answers.empty is None:
            return table
        every = events.column(WINDOW).unique()
        silent = every.filter(pc.invert(pc.is_in(every, asked)))
        if not len(silent):
            return table
        values = self.answers.empty or (None,) * len(self.gives)
        more = [pa.array([v] * len(silent), each.type) for v, each in zip(values, self.gives)]
        return pa.concat_tables([table, pa.table([silent, *more], schema=table.schema)])

    def _check_one_each(self, asked: pa.Array, answered: pa.ChunkedArray) -> None:
        if len(answered.unique()) != len(answered):
            raise OperatorCallError(f"{self.answers.operator} returned two values for one window")
        if len(answered) != len(asked):
            missing = asked.filter(pc.invert(pc.is_in(asked, answered.combine_chunks())))
            raise OperatorCallError(
                f"{self.answers.operator} returned no value for {len(missing)} of {len(asked)} "
                f"windows"
            )

    @property
    def can_migrate(self) -> bool:
        """It has no state."""
        return False


def _is_alike(actual: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether two types differ only in how exactly, or how widely, they are kept."""
    kinds = pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_timestamp
    return any(kind(actual) and kind(wanted) for kind in kinds)


@final
@dataclass(frozen=True, slots=True)
class _FrameLibrary:
    """Tables of one library: how they are made of Arrow's, and how they become such."""

    shown: Callable[[pa.Table], Any]
    read: Callable[[Any], Any]


def _from_pandas(given: Any) -> Any:
    is_frame = type(given).__name__ == "DataFrame"
    return pa.Table.from_pandas(given, preserve_index=False) if is_frame else None


def _from_polars(given: Any) -> Any:
    return given.to_arrow() if hasattr(given, "to_arrow") else None


def _to_polars(table: pa.Table) -> Any:
    return import_module("polars").from_arrow(table)


_LIBRARIES: Final[Mapping[str, _FrameLibrary]] = {
    "arrow": _FrameLibrary(lambda table: table, lambda given: given),
    "pandas": _FrameLibrary(lambda table: table.to_pandas(), _from_pandas),
    "polars": _FrameLibrary(_to_polars, _from_polars),
}


def check_library(frame: Frame, module: str, where: str) -> None:
    """Refuse tables of a library that is not there.

    Raises:
        PlanError: It cannot be imported.
    """
    if frame not in ("polars", "pandas"):
        return
    try:
        import_module(frame)
    except ImportError:
        raise PlanError(
            f"{module} works on tables of {frame}, which is not installed",
            where=where,
            hint=f"install it here and where the query runs: pip install {frame}",
        ) from None


def reserved(time_sensitive: bool) -> tuple[str, ...]:
    """Columns of a frame that no argument may be called like."""
    return (WINDOW, *(FRAME_TIMES if time_sensitive else ()))
