"""Methods that a stream has from a DataFrame, under the names that they have there."""

# The names of methods and options are those of Spark.
# ruff: noqa: N802, N803

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import pyarrow as pa

from anabranch.algebra.map import Map
from anabranch.display.schema_text import schema_tree, type_text
from anabranch.errors import PlanError
from anabranch.expressions.expression import Expression
from anabranch.fluent import Fluent
from anabranch.frames.attributes import INSTEAD, missing_attribute
from anabranch.frames.column import Column, column_of, literal, quoted
from anabranch.frames.column_like import ColumnLike, text_of
from anabranch.frames.stream_text import stream_html, stream_line
from anabranch.grouped import GroupedStream

F = TypeVar("F", bound="FrameMethods")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class FrameMethods(Fluent):
    """What a stream can do as a DataFrame does; every snapshot is treated as one would be."""

    name: str | None = None

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.schema.names)

    @property
    def dtypes(self) -> list[tuple[str, str]]:
        """The names of the columns and their types, in the words of Spark."""
        return [(field.name, type_text(field.type)) for field in self.schema]

    @property
    def isStreaming(self) -> bool:
        """True: a stream is one."""
        return True

    def printSchema(self) -> None:
        """Print the columns and their types."""
        sys.stdout.write(schema_tree(self.schema))

    def filter(self: F, condition: ColumnLike) -> F:
        """The same as `where`."""
        return self.where(condition)

    def groupBy(self: F, *keys: ColumnLike | Sequence[ColumnLike]) -> GroupedStream[F]:
        """The same as `group_by`."""
        return self.group_by(*keys)

    def groupby(self: F, *keys: ColumnLike | Sequence[ColumnLike]) -> GroupedStream[F]:
        """The same as `group_by`."""
        return self.group_by(*keys)

    def selectExpr(self: F, *columns: str | Sequence[str]) -> F:
        """The same as `select`."""
        return self.select(*columns)

    def withColumn(self: F, name: str, value: ColumnLike) -> F:
        """With one more column, or another one in place of that of this name."""
        return self.withColumns({name: value})

    def withColumns(self: F, columns: Mapping[str, ColumnLike]) -> F:
        """With more columns, or others in place of those of these names."""
        parsed = {
            name: self._parse(text_of(value, self.schema, f"withColumn('{name}')"), self.schema)
            for name, value in columns.items()
        }
        every = {**dict(self._named(self.columns)), **parsed}
        return self._with(Map(input=self.node, columns=tuple(every.items())))

    def withColumnRenamed(self: F, existing: str, new: str) -> F:
        """With another name for a column."""
        return self.withColumnsRenamed({existing: new})

    def withColumnsRenamed(self: F, names: Mapping[str, str]) -> F:
        """With other names for some columns; names that are not there do not matter."""
        return self.toDF(*(names.get(name, name) for name in self.columns))

    def toDF(self: F, *names: str) -> F:
        """With other names for all columns; `to_df` is what gives a DataFrame."""
        if len(names) != len(self.columns):
            raise PlanError(
                f"{len(names)} names for {len(self.columns)} columns",
                where="toDF(...)",
                hint=f"name every column: {', '.join(self.columns)}",
            )
        chosen = [(new, self._plain(old)) for new, old in zip(names, self.columns)]
        return self._with(Map(input=self.node, columns=tuple(chosen)))

    def drop(self: F, *names: ColumnLike) -> F:
        """Without some columns; names that are not there do not matter, as in Spark."""
        gone = {text_of(name, self.schema, "drop(...)").strip("`") for name in names}
        chosen = self._named([name for name in self.columns if name not in gone])
        if not chosen:
            raise PlanError(
                "no column would be left", where="drop(...)", hint="keep at least one column"
            )
        return self._with(Map(input=self.node, columns=tuple(chosen)))

    def dropna(
        self: F,
        how: str = "any",
        thresh: int | None = None,
        subset: str | Sequence[str] | None = None,
    ) -> F:
        """Without rows that have a NULL: in one column (`any`), or in all of them (`all`)."""
        names = self._subset(subset)
        if how not in ("any", "all"):
            raise PlanError(f"how cannot be {how!r}", where="dropna(...)", hint="use any or all")
        filled = [f"{quoted(name)} IS NOT NULL" for name in names]
        if thresh is not None:
            counted = " + ".join(f"CASE WHEN {each} THEN 1 ELSE 0 END" for each in filled)
            return self.where(f"{counted} >= {int(thresh)}")
        return self.where((" AND " if how == "any" else " OR ").join(filled))

    def fillna(self: F, value: Any, subset: str | Sequence[str] | None = None) -> F:
        """With a value in place of NULLs, in columns of its kind; or a value for each column."""
        values = value if isinstance(value, Mapping) else None
        names = list(values) if values is not None else self._subset(subset)
        filled: dict[str, Column] = {}
        for name in names:
            one = values[name] if values is not None else value
            if values is not None or subset is not None or _fits(one, self.schema.field(name).type):
                filled[name] = Column(f"coalesce({quoted(name)}, {literal(one)})")
        return self.withColumns(filled) if filled else self

    def dropDuplicates(self: F, subset: Sequence[str] | None = None) -> F:
        """No row twice at one instant; with a subset, of rows that agree in it the least one.

        Rows are compared column by column from the left.
        """
        if subset is None:
            return self.distinct()
        keys = self._subset(subset)
        rest = [quoted(name) for name in self.columns if name not in keys]
        return self.top(1, rest or [quoted(keys[0])], by=[quoted(name) for name in keys])

    def drop_duplicates(self: F, subset: Sequence[str] | None = None) -> F:
        """The same as `dropDuplicates`."""
        return self.dropDuplicates(subset)

    def limit(self: F, number: int) -> F:
        """At most so many rows of every snapshot: the first ones, column by column from the left.

        `top` says which rows come first.
        """
        return self.top(number, [quoted(name) for name in self.columns])

    def alias(self: F, name: str) -> F:
        """The same under a name, by which conditions of joins can qualify its columns."""
        return replace(self, name=name)

    def crossJoin(self: F, other: F) -> F:
        """All pairs of rows that hold at the same instant."""
        return self.join(other)

    def unionAll(self: F, other: F) -> F:
        """The same as `union`."""
        return self.union(other)

    def unionByName(self: F, other: F, allowMissingColumns: bool = False) -> F:
        """Combine streams whose columns have another order; with NULLs for those that miss."""
        both = [*self.columns, *(name for name in other.columns if name not in self.columns)]
        odd = set(self.columns) ^ set(other.columns)
        if odd and not allowMissingColumns:
            raise PlanError(
                f"only one of the streams has a column '{min(odd)}'",
                where="unionByName(...)",
                hint="pass allowMissingColumns=True for NULLs in its place",
            )
        return self._aligned(both, other.schema).union(other._aligned(both, self.schema))

    def intersect(self: F, other: F) -> F:
        """The rows that both streams have, each once."""
        return self.intersection(other).distinct()

    def intersectAll(self: F, other: F) -> F:
        """The same as `intersection`."""
        return self.intersection(other)

    def subtract(self: F, other: F) -> F:
        """The rows that another stream does not have, each once."""
        return self.difference(other, strict=True).distinct()

    def exceptAll(self: F, other: F) -> F:
        """The same as `difference`."""
        return self.difference(other)

    def transform(self: F, function: Callable[..., F], *arguments: Any, **options: Any) -> F:
        """What a function makes of the stream."""
        return function(self, *arguments, **options)

    def _subset(self, subset: str | Sequence[str] | None) -> list[str]:
        names = self.columns if subset is None else [subset] if isinstance(subset, str) else subset
        for name in names:
            if name not in self.columns:
                raise PlanError(
                    f"there is no column '{name}'",
                    hint=f"columns are: {', '.join(self.columns)}",
                )
        return list(names)

    def _plain(self, name: str) -> Expression:
        return Expression.column(name, self.schema)

    def _aligned(self: F, names: Sequence[str], other: pa.Schema) -> F:
        """Columns in this order; what is not there is NULL, of the type that it has elsewhere."""
        chosen = [
            (name, self._plain(name))
            if name in self.columns
            else (
                name,
                self._parse(f"CAST(NULL AS {type_text(other.field(name).type)})", self.schema),
            )
            for name in names
        ]
        return self._with(Map(input=self.node, columns=tuple(chosen)))

    def __getitem__(self, key: Any) -> Any:
        """A column (`stream["price"]`), some columns (a list), or rows (a condition)."""
        if isinstance(key, str):
            if key not in self.columns:
                raise PlanError(
                    f"there is no column '{key}'",
                    hint=f"columns are: {', '.join(self.columns)}",
                )
            return column_of(key, self.node)
        if isinstance(key, int):
            return column_of(self.columns[key], self.node)
        return self.select(*key) if isinstance(key, list | tuple) else self.where(key)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name in type(self).__dataclass_fields__:
            raise AttributeError(name)
        if name in self.schema.names:
            return column_of(name, self.node)
        there = [*(each for each in dir(type(self)) if not each.startswith("_")), *self.columns]
        raise missing_attribute("a stream", name, INSTEAD, there, self)

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *(n for n in self.columns if n.isidentifier())})

    def __repr__(self) -> str:
        return stream_line(self.name, self.node)

    def _repr_html_(self) -> str:
        return stream_html(self.name, self.node)


def _fits(value: object, kind: pa.DataType) -> bool:
    """Whether Spark would fill columns of a type with such a value."""
    if isinstance(value, bool):
        return bool(pa.types.is_boolean(kind))
    if isinstance(value, int | float):
        return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))
    return bool(pa.types.is_string(kind))
