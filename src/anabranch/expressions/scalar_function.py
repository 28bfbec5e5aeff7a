"""A scalar function that a user brings: one value per row, computed by Python."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isclose
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, final

import numpy as np
import pyarrow as pa

from anabranch.errors import OperatorError
from anabranch.expressions.functions.value import STRING, name_of, type_in_spark
from anabranch.expressions.functions.widening import common_type

ScalarFrame: TypeAlias = Literal["python", "arrow", "pandas"]

_NO_COLUMN: Final = (pa.ArrowException, TypeError, ValueError, OverflowError)
"""What Arrow raises for values that are not of a type."""

_MOST_TEXT: Final = 300
_RAISED_HINT: Final = (
    "let it return None for such values, or do not pass them to it: CASE WHEN ... THEN {}(...) END"
)
_REPEAT_HINT: Final = (
    "an answer must depend on the arguments of one row alone: no clock, no random numbers, no "
    "memory of "
    "other rows; or declare it: @udf(deterministic=False)"
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ScalarFunction:
    """A function of one row's values, as `@udf` makes it.

    Two of them are equal when they come from one declaration; plans say nothing of them but the
    name, so that a query goes on with a changed function where it stopped.

    Attributes:
        name: What queries call it, in small letters.
        takes: Names and types of the arguments, at least one.
        returns: The type of its values.
        frame: What it gets: `python` values of one row, or whole columns as `arrow` arrays or
            `pandas` series, and gives one back.
        nulls: It wants to see NULL. Otherwise it is not called where an argument is NULL, and the
            value is NULL.
        deterministic: It gives the same for the same arguments, at any time. Others are a barrier
            to the optimizer, and see rows only that are never corrected.
        identity: Of the declaration, in this process and in those the function is sent to.
        code: What it does.
    """

    name: str
    takes: tuple[tuple[str, pa.DataType], ...]
    returns: pa.DataType
    frame: ScalarFrame = "python"
    nulls: bool = False
    deterministic: bool = True
    identity: str = field(repr=False)
    code: Callable[..., Any] = field(compare=False, repr=False)

    @property
    def signature(self) -> str:
        """For people: `celsius(f DOUBLE) -> DOUBLE`."""
        takes = ", ".join(f"{name} {_type_name(kind)}" for name, kind in self.takes)
        return f"{self.name}({takes}) -> {_type_name(self.returns)}"

    def __call__(self, *values: Any) -> Any:
        """Call the code itself, as if it were not decorated."""
        return self.code(*values)

    def apply(self, arrays: Sequence[pa.Array], *, check: bool = False) -> pa.Array:
        """The values for all rows.

        Args:
            arrays: The arguments, of the types it takes.
            check: Compute the first row twice, and compare.

        Raises:
            OperatorError: The code raises, or gives something else than it declares.
        """
        length = len(arrays[0])
        if self.nulls:
            return self._computed(arrays, check)
        valid = np.logical_and.reduce([each.is_valid().to_numpy(False) for each in arrays])
        if valid.all():
            return self._computed(arrays, check)
        found = self._computed([each.filter(pa.array(valid)) for each in arrays], check)
        positions = np.zeros(length, np.int64)
        positions[valid] = np.arange(len(found))
        return found.take(pa.array(positions, mask=~valid))

    def _computed(self, arrays: Sequence[pa.Array], check: bool) -> pa.Array:
        if not len(arrays[0]):
            return pa.array([], self.returns)
        found = self._by_row(arrays) if self.frame == "python" else self._by_column(arrays)
        if check and self.deterministic:
            first = [each.slice(0, 1) for each in arrays]
            again = self._by_row(first) if self.frame == "python" else self._by_column(first)
            one, other = found[0].as_py(), again[0].as_py()
            if not _same(one, other):
                raise OperatorError(
                    f"the function '{self.name}' is not deterministic: it returned {_short(one)}, "
                    f"then {_short(other)}",
                    where=self._call_text(arrays, 0),
                    hint=_REPEAT_HINT,
                )
        return found

    def _by_row(self, arrays: Sequence[pa.Array]) -> pa.Array:
        values: list[Any] = []
        try:
            for row in zip(*(each.to_pylist() for each in arrays)):
                # Not a comprehension: how far it came tells which row it fails for.
                values.append(self.code(*row))  # noqa: PERF401
        except KeyboardInterrupt:
            raise
        except BaseException as problem:
            raise self._raised(problem, arrays, len(values)) from problem
        try:
            return self._column(values)
        except _NO_COLUMN:
            index = next(i for i, value in enumerate(values) if not self._fits(value))
            given = f"{_short(values[index])} ({type(values[index]).__name__})"
            raise self._wrong(f"returned {given}", arrays, index) from None

    def _column(self, values: list[Any]) -> pa.Array:
        whole = pa.types.is_integer(self.returns)
        if whole and any(isinstance(value, float) and value % 1 for value in values):
            raise ValueError("Arrow would truncate it")
        return pa.array(values, self.returns)

    def _fits(self, value: Any) -> bool:
        try:
            self._column([value])
        except _NO_COLUMN:
            return False
        return True

    def _by_column(self, arrays: Sequence[pa.Array]) -> pa.Array:
        try:
            given = self._called(arrays)
        except KeyboardInterrupt:
            raise
        except BaseException as problem:
            raise self._raised(problem, arrays, self._first_failing(arrays)) from problem
        length = len(arrays[0])
        if self.frame == "pandas" and not isinstance(given, pa.Array | pa.ChunkedArray):
            try:
                # What pandas has no value for is NULL, as in Spark.
                given = pa.Array.from_pandas(given, type=self.returns)
            except _NO_COLUMN:
                text = f"returned a {type(given).__name__} of {getattr(given, 'dtype', 'objects')}"
                raise self._wrong(text, arrays, None) from None
        if isinstance(given, pa.ChunkedArray):
            given = pa.concat_arrays([pa.array([], given.type), *given.chunks])
        if not isinstance(given, pa.Array):
            raise self._wrong(f"returned a {type(given).__name__}, not a column", arrays, None)
        if len(given) != length:
            text = f"returned {len(given)} values for {length} rows"
            raise self._wrong(text, arrays, None)
        if given.type == self.returns:
            return given
        kind = type_in_spark(given.type)
        widens = kind is not None and common_type([kind, self.returns]) == self.returns
        if not widens or (kind == STRING and self.returns != STRING):
            raise self._wrong(f"returned a column of {given.type}", arrays, None)
        return given.cast(self.returns)

    def _called(self, arrays: Sequence[pa.Array]) -> Any:
        if self.frame == "pandas":
            return self.code(*(each.to_pandas() for each in arrays))
        return self.code(*arrays)

    def _first_failing(self, arrays: Sequence[pa.Array]) -> int | None:
        """A row for which it fails alone, by halves; None if it fails for many rows only."""
        start, end = 0, len(arrays[0])
        while end - start > 1:
            middle = (start + end) // 2
            if self._fails(arrays, start, middle):
                end = middle
            elif self._fails(arrays, middle, end):
                start = middle
            else:
                return None
        return start

    def _fails(self, arrays: Sequence[pa.Array], start: int, end: int) -> bool:
        try:
            self._called([each.slice(start, end - start) for each in arrays])
        except KeyboardInterrupt:
            raise
        except BaseException:  # noqa: BLE001
            return True
        return False

    def _raised(
        self, problem: BaseException, arrays: Sequence[pa.Array], row: int | None
    ) -> OperatorError:
        text = " ".join(str(problem).split())
        what = f"{type(problem).__name__}: {_cut(text)}" if text else type(problem).__name__
        where = self._call_text(arrays, row)
        frames = traceback.extract_tb(problem.__traceback__)
        if frames and frames[-1].filename != __file__:
            where += f"\nat {Path(frames[-1].filename).name}, line {frames[-1].lineno}"
        return OperatorError(
            f"the function '{self.name}' raised {what}",
            where=where,
            hint=_RAISED_HINT.format(self.name),
        )

    def _wrong(self, what: str, arrays: Sequence[pa.Array], row: int | None) -> OperatorError:
        return OperatorError(
            f"the function '{self.name}' {what}",
            where=self._call_text(arrays, row),
            hint=f"it is declared as {self.signature}",
        )

    def _call_text(self, arrays: Sequence[pa.Array], row: int | None) -> str:
        """A call as a reader sees it: `celsius(f => 212.0)`."""
        if row is None:
            return f"{self.name}(...), called for {len(arrays[0])} rows"
        given = ", ".join(
            f"{name} => {_short(each[row].as_py())}" for (name, _), each in zip(self.takes, arrays)
        )
        return f"{self.name}({given})"


Functions: TypeAlias = Mapping[str, ScalarFunction]
"""Functions by name, in small letters."""


def own_name(function: ScalarFunction) -> str:
    """What DuckDB calls a user's function: one name per declaration."""
    return f"user_{function.name}_{function.identity}"


def _type_name(kind: pa.DataType) -> str:
    return name_of(kind).upper()


def _same(one: Any, other: Any) -> bool:
    """Equal; fractions of whole columns may differ in the last digits from those of one row."""
    if isinstance(one, float) and isinstance(other, float):
        return (one != one and other != other) or isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    return bool(one == other)


def _short(value: Any) -> str:
    return _cut(" ".join(repr(value).split()))


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_TEXT else text[: _MOST_TEXT - 3] + "..."
