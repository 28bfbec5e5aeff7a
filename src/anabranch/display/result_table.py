"""Rows of an answer: an Arrow table that shows itself."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, ClassVar, Final, final

import pyarrow as pa

from anabranch.display.aligned import aligned, counted
from anabranch.display.attribute_hints import TABLE_INSTEAD, attribute_error
from anabranch.display.option_hints import explains_options
from anabranch.display.text_table import cells, html_table, numeric
from anabranch.errors import PlanError

SHOWN: Final = 20
"""Rows that are shown unless somebody asks for more."""


@explains_options
@final
class ResultTable:
    """Rows of an answer, such as a snapshot or all events.

    It is an Arrow table, with all its methods and columns (`num_rows`, `to_pylist()`,
    `table["price"]`), which Polars and DuckDB read as it is. Printed, it shows its first rows.
    """

    __slots__ = ("_caption", "_get_spark", "_table", "_what")

    def __init__(
        self,
        table: pa.Table,
        *,
        what: str = "row",
        caption: str = "",
        get_spark: Callable[[], Any] | None = None,
    ) -> None:
        """Wrap a table.

        Args:
            table: The rows.
            what: What one row is called.
            caption: What stands below the rows, behind their number.
            get_spark: Gives the session that `to_spark` uses.
        """
        self._table = table
        self._what = what
        self._caption = caption
        self._get_spark = get_spark

    @property
    def caption(self) -> str:
        """What stands below the rows, behind their number."""
        return self._caption

    def with_caption(self, caption: str) -> ResultTable:
        """The same rows with another text below them."""
        return ResultTable(self._table, what=self._what, caption=caption, get_spark=self._get_spark)

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table."""
        return self._table

    def to_pandas(self) -> Any:
        """The rows as a pandas DataFrame."""
        return self._table.to_pandas()

    def to_polars(self) -> Any:
        """The rows as a Polars DataFrame.

        Raises:
            PlanError: Polars is not installed.
        """
        try:
            import polars
        except ModuleNotFoundError:
            raise PlanError(
                "Polars is not installed",
                where="to_polars()",
                hint="install it: pip install 'anabranch[polars]'; or use to_pandas(), to_arrow()",
            ) from None
        return polars.from_arrow(self._table)

    def to_spark(self, spark: Any = None) -> Any:
        """The rows as a Spark DataFrame; `spark` is the session, None: that of the run.

        Raises:
            PlanError: There is no session.
        """
        session = spark if spark is not None or self._get_spark is None else self._get_spark()
        if session is None:
            raise PlanError(
                "a DataFrame of Spark needs a session",
                where="to_spark()",
                hint="pass one: to_spark(engine.spark)",
            )
        return session.createDataFrame(self._table)

    def show(self, n: int = SHOWN, truncate: bool | int = False) -> None:
        """Print the first rows; `truncate` is the longest text of a value (True: 20).

        Raises:
            PlanError: `n` is not a number of rows.
        """
        given: Any = n
        if isinstance(given, bool) or not isinstance(given, int) or given < 0:
            raise PlanError(
                f"show takes a number of rows, not {n!r}",
                where=f"show({n!r})",
                hint=f"write show(5); for the answer at an instant show(at={n!r})",
            )
        sys.stdout.write(self._text(n, 20 if truncate is True else int(truncate)) + "\n")

    def _text(self, n: int, most: int = 0) -> str:
        names, columns, right = self._shown(n)
        if most:
            columns = [[_cut(text, most) for text in column] for column in columns]
        return aligned(names, columns, right) + self._footer(n)

    def _shown(self, n: int) -> tuple[list[str], list[list[str]], set[int]]:
        table = self._table
        return list(table.column_names), cells(table.slice(0, n)), numeric(table.schema)

    def _footer(self, n: int) -> str:
        return f"{counted(self._table.num_rows, n, self._what)}{self._caption}"

    def __repr__(self) -> str:
        return self._text(SHOWN)

    def _repr_html_(self) -> str:
        return f"<div>{html_table(*self._shown(SHOWN))}<p>{self._footer(SHOWN)}</p></div>"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name in ("table",):
            raise AttributeError(name)
        if not hasattr(self._table, name):
            raise attribute_error("an answer", name, TABLE_INSTEAD.get(name), dir(self), self)
        return getattr(self._table, name)

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *dir(self._table)})

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)

    def __getitem__(self, key: Any) -> Any:
        return self._table[key]

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __eq__(self, other: object) -> bool:
        theirs = other.to_arrow() if isinstance(other, ResultTable) else other
        return bool(isinstance(theirs, pa.Table) and self._table.equals(theirs))

    __hash__: ClassVar[None]  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (self._table, self._what, self._caption)


def _cut(text: str, most: int) -> str:
    """As Spark cuts: the last three characters that fit are dots."""
    if len(text) <= most:
        return text
    return text[:most] if most < 4 else f"{text[: most - 3]}..."


def _rebuilt(table: pa.Table, what: str, caption: str) -> ResultTable:
    return ResultTable(table, what=what, caption=caption)
