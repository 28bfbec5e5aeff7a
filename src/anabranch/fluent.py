"""Plans written as chains of methods: every method gives a stream over one more operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

import pyarrow as pa

from anabranch.algebra.analysis.canonical import canonical
from anabranch.algebra.analysis.merge_case import Case
from anabranch.algebra.count_window import CountWindow
from anabranch.algebra.distinct import Distinct
from anabranch.algebra.filter import Filter
from anabranch.algebra.forms.coalesce import Coalesce
from anabranch.algebra.join import Side
from anabranch.algebra.map import Map
from anabranch.algebra.merge import COMPARED, Merge, MergePolicy
from anabranch.algebra.node import Node, clock_of
from anabranch.algebra.ranking import Ranking
from anabranch.algebra.session_window import SessionWindow
from anabranch.algebra.set_operation import SetKind, SetOperation
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import CHRONON, UNBOUNDED, TimeWindow
from anabranch.algebra.top_k import TopK
from anabranch.algebra.union import Union
from anabranch.errors import PlanError
from anabranch.expressions.expression import Expression
from anabranch.expressions.scalar_function import Functions
from anabranch.frames.column import Column
from anabranch.frames.column_like import ColumnLike, listed, text_of, texts_of
from anabranch.frames.other_side import node_of
from anabranch.grouped import AggregateLike, GroupedStream
from anabranch.language.fragments.explode import parse_explode
from anabranch.language.fragments.join import join_kind, plan_asof_join, plan_join
from anabranch.language.fragments.order import parse_order
from anabranch.language.text.aggregate_text import parse_column
from anabranch.language.text.rank_text import parse_rank
from anabranch.retiming import Retiming
from anabranch.windowed import Bounds, Span, bound_names

S = TypeVar("S", bound="Fluent")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fluent(Retiming):
    """A plan and where its sources come from; expressions are SQL strings over its columns.

    `is_copy` says that it was made canonical, so that copies of it can be merged.
    """

    node: Node
    sources: Mapping[str, Any]
    functions: Functions = field(default_factory=dict)
    is_copy: bool = False

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self.node.schema

    def where(self: S, condition: ColumnLike) -> S:
        """Keep the rows for which the condition is true."""
        predicate = self._parse(text_of(condition, self.schema, "where(...)"), self.schema)
        return self._with(Filter(input=self.node, predicate=predicate))

    def select(self: S, *columns: ColumnLike | Sequence[ColumnLike], **named: ColumnLike) -> S:
        """Compute columns: `select("itemID", "price * 2 AS double")`, or `double="price * 2"`."""
        chosen: list[tuple[str, Expression]] = []
        for text in texts_of(columns, self.schema, "select(...)"):
            every = self.schema.names if text.strip() == "*" else None
            chosen += self._named(every) if every is not None else [self._column(text)]
        for name, value in named.items():
            text = text_of(value, self.schema, f"select({name}=...)")
            chosen.append((name, self._parse(text, self.schema)))
        return self._with(Map(input=self.node, columns=tuple(chosen)))

    def window(self: S, size: Span, slide: Span | None = None, *, columns: Bounds = None) -> S:
        """Hold every row for `size`; with `slide` answers change only at every slide.

        With `columns=True` every row has the bounds of its window in columns `window_start` and
        `window_end`; a pair of names calls them otherwise.
        """
        clock = clock_of(self.node)
        step = CHRONON if slide is None else clock.duration(slide)
        held = clock.duration(size)
        return self._with(
            TimeWindow(input=self.node, size=held, slide=step, columns=bound_names(columns))
        )

    def session_window(
        self: S,
        gap: Span,
        *,
        by: ColumnLike | Sequence[ColumnLike] = (),
        columns: Bounds = None,
    ) -> S:
        """Hold every row for its session, which ends after `gap` without rows.

        Args:
            gap: Rows that are less than this apart are in one session.
            by: Columns or expressions; every group has its own sessions.
            columns: Names for two columns with the bounds of the session; True: `window_start`
                and `window_end`.
        """
        node = SessionWindow(
            input=self.node,
            gap=clock_of(self.node).duration(gap),
            partition_by=self._keys(by),
            columns=bound_names(columns),
        )
        return self._with(node)

    def rows_window(
        self: S,
        rows: int | Literal["unbounded"],
        *,
        slide: int = 1,
        by: ColumnLike | Sequence[ColumnLike] = (),
        order_by: ColumnLike | Sequence[ColumnLike] = (),
    ) -> S:
        """Hold the last rows, of all or of each group.

        Args:
            rows: The number of rows; `unbounded` keeps all.
            slide: The number of rows after which answers change.
            by: Columns or expressions; every group has its own last rows.
            order_by: The order of rows of one instant. Without it two of them are an error.
        """
        node = CountWindow(
            input=self.node,
            rows=UNBOUNDED if rows == "unbounded" else rows,
            slide=slide,
            partition_by=self._keys(by),
            order_by=tuple(
                self._parse(text, self.schema)
                for text in listed(order_by, self.schema, "order_by=...")
            ),
        )
        return self._with(node)

    def top(
        self: S,
        k: int,
        order_by: ColumnLike | Sequence[ColumnLike],
        *,
        by: ColumnLike | Sequence[ColumnLike] = (),
    ) -> S:
        """The first `k` rows of every snapshot, or of each group: `top(3, "price DESC")`."""
        node = TopK(
            input=self.node,
            k=k,
            order_by=tuple(
                parse_order(text, self.schema, self._parse)
                for text in listed(order_by, self.schema, "top(...)")
            ),
            partition_by=self._keys(by),
        )
        return self._with(node)

    def rank(
        self: S,
        order_by: ColumnLike | Sequence[ColumnLike],
        *,
        by: ColumnLike | Sequence[ColumnLike] = (),
        **columns: str,
    ) -> S:
        """Number the rows of every snapshot, and look at the rows before and after each.

        Args:
            order_by: Expressions, with `DESC` if you like; as for `top`.
            by: Columns or expressions; every group has its own numbers.
            **columns: New columns: `n="ROW_NUMBER()"`, `"RANK()"`, `"DENSE_RANK()"`,
                `before="LAG(price)"`, `after="LEAD(price, 1, 0.0)"`.
        """
        node = Ranking(
            input=self.node,
            columns=tuple(
                (name, parse_rank(text, self.schema, self._parse)) for name, text in columns.items()
            ),
            order_by=tuple(
                parse_order(text, self.schema, self._parse)
                for text in listed(order_by, self.schema, "rank(...)")
            ),
            partition_by=self._keys(by),
        )
        return self._with(node)

    def explode(
        self: S, column: ColumnLike, *, position: str | None = None, outer: bool = False
    ) -> S:
        """A row per item of an array: `explode("items AS item")`.

        Args:
            column: The array, and a name for its items; without one it is `items_item`.
            position: The name of a column with the position of each item, from 0 on.
            outer: A row without items is kept, with NULL.
        """
        text = text_of(column, self.schema, "explode(...)")
        return self._with(parse_explode(text, self.node, self._parse, position, outer))

    def group_by(self: S, *keys: ColumnLike | Sequence[ColumnLike]) -> GroupedStream[S]:
        """Columns or expressions (`"price % 10 AS digit"`) that `agg` groups by."""
        parsed = tuple(map(self._column, texts_of(keys, self.schema, "group_by(...)")))
        return GroupedStream(stream=self, keys=parsed)

    def agg(self: S, *given: AggregateLike, **aggregates: AggregateLike) -> S:
        """Aggregate every snapshot as a whole: `agg(n="COUNT(*)", top="MAX(price)")`."""
        return GroupedStream(stream=self, keys=()).agg(*given, **aggregates)

    def union(self: S, *others: S) -> S:
        """Combine streams with the same columns."""
        node = Union(inputs=(self.node, *(node_of(each, "union(...)") for each in others)))
        return self._with(node, *others)

    def merge(
        self: S,
        *others: S,
        case: Case | None = None,
        inserts: str = "first",
        adjusts: str = "lazy",
        lag: Span | None = None,
        divergence: str = "warn",
        compare: int | str = COMPARED,
    ) -> S:
        """One right stream from copies that differ in order, revisions, plan or progress.

        Args:
            *others: The other copies. Without any, this is a source of copies.
            case: What holds for every copy: `r0` (only inserts, in strict order),
                `r1`, `r2`, `r3` (any order, no two events of one payload and start) or `r4`
                (anything). None: what is declared of them. More than that is checked.
            inserts: When an event is written: `first`, `leading`, `half_frozen`, or `quorum(2)`,
                `quorum(50%)`.
            adjusts: When a changed end is written: `lazy`, `eager` or `leading`.
            lag: How far the output stays behind the copy that is settled furthest.
            divergence: The policy for a copy that contradicts what is settled: `warn`,
                `quarantine` or `fail`.
            compare: How many settled events are kept per shard for a comparison with copies that
                are behind, the latest ones; `all`: until every copy has settled them.
        """
        every = (self, *others)
        named = [getattr(each, "name", None) for each in every]
        sources = [each.node.name if isinstance(each.node, Source) else None for each in every]
        names = [a or b or f"input {n}" for n, (a, b) in enumerate(zip(named, sources), 1)]
        policy = MergePolicy.of(
            inserts=inserts,
            adjusts=adjusts,
            lag=0 if lag is None else clock_of(self.node).duration(lag),
            divergence=divergence,
            compare=compare,
        )
        node = Merge(
            inputs=tuple(canonical(each.node) for each in every),
            names=tuple(names),
            case=case,
            policy=policy,
        )
        return self._with(node, *others)

    def join(
        self: S,
        other: S,
        on: ColumnLike | Sequence[str] | None = None,
        how: str = "inner",
        *,
        suffix: str = "_right",
        broadcast: Side | None = None,
    ) -> S:
        """Combine what holds at the same instant.

        Args:
            other: The right side: a stream or a relation.
            on: The condition (`"itemID = auction AND price > reserve"`), or the names of columns
                that both sides have and that must be equal; they appear once in the result. Of
                streams with an `alias`, columns can be qualified: `"b.item = o.item"`. None: all
                pairs match.
            how: `inner`; `left`, `right`, `full` (with NULLs where there is no partner); `semi`
                (left rows that have a partner), `anti` (those that have none). Spark's other
                names for these, such as `left_outer`, mean the same.
            suffix: Appended to names of the right side that the left side also has.
            broadcast: The side that is small enough to be sent to every shard.
        """
        node = plan_join(
            self.node,
            node_of(other, "join(...)"),
            self._condition(other, on),
            join_kind(how),
            suffix=suffix,
            broadcast=broadcast,
            parse=self._parse,
            aliases=(self._called, other._called),
        )
        return self._with(node, other)

    def asof_join(
        self: S,
        other: S,
        on: str | Sequence[str] = (),
        *,
        how: Literal["inner", "left"] = "inner",
        strict: bool = False,
        suffix: str = "_right",
    ) -> S:
        """Combine each row with the latest row of another stream, up to its own instant.

        Of several rows of the other stream at one instant the largest counts, compared column by
        column from the left.

        Args:
            other: The right side: a stream of points, whose rows are versions.
            on: The columns that both sides have and that must be equal.
            how: `inner`, or `left` with NULLs where there is no version yet.
            strict: Only rows before the instant count.
            suffix: Appended to names of the right side that the left side also has.

        Raises:
            PlanError: A side has rows that hold for longer than an instant, or a column is missing.
        """
        right = node_of(other, "asof_join(...)")
        node = plan_asof_join(
            self.node, right, on, how, strict=strict, suffix=suffix, parse=self._parse
        )
        return self._with(node, other)

    def distinct(self: S) -> S:
        """No row twice at one instant."""
        return self._with(Distinct(input=self.node))

    def difference(self: S, other: S, *, strict: bool = False) -> S:
        """Remove the rows of another stream, copy by copy; `strict`: all copies at once."""
        return self._set_operation("strict difference" if strict else "difference", other)

    def intersection(self: S, other: S) -> S:
        """The rows that both streams have, as often as both have them."""
        return self._set_operation("intersection", other)

    def max_union(self: S, other: S) -> S:
        """The rows that one of the streams has, as often as the one that has more of them."""
        return self._set_operation("max-union", other)

    def _set_operation(self: S, kind: SetKind, other: S) -> S:
        right = node_of(other, f"{kind}(...)")
        return self._with(SetOperation(kind=kind, left=self.node, right=right), other)

    @property
    def _called(self) -> str | None:
        """What columns of the stream are qualified by: its alias, or the name of its source."""
        named: str | None = getattr(self, "name", None)
        return named or (self.node.name if isinstance(self.node, Source) else None)

    def _condition(self, other: Fluent, on: Any) -> str | Sequence[str] | None:
        """What is joined on, as text over both sides; columns of streams are qualified."""
        if on is None or isinstance(on, str):
            return on
        several = list(on) if isinstance(on, list | tuple) else [on]
        if isinstance(on, list | tuple) and all(isinstance(each, str) for each in several):
            return several
        both = pa.schema(
            [*self.schema, *(f for f in other.schema if f.name not in self.schema.names)]
        )
        parts = [
            each.qualified(self.node, other.node)
            if isinstance(each, Column)
            else text_of(each, both, "join(...)")
            for each in several
        ]
        return " AND ".join(f"({part})" for part in parts)

    def coalesce(self: S, *partitions: int) -> S:
        """Join lifetimes of equal rows that meet: the canonical form of the stream.

        It has nothing to do with `coalesce` of a DataFrame: a stream has no partitions.
        """
        if partitions:
            raise PlanError(
                "coalesce of a stream takes no number of partitions",
                where=f"coalesce({partitions[0]!r})",
                hint="it joins lifetimes: write coalesce(); Engine(shards=...) sets how many tasks "
                "share the work",
            )
        return self._with(Coalesce(input=self.node))

    def canonical(self: S) -> S:
        """The same stream in a form in which copies of it, by whatever plan, can be merged."""
        return replace(self._with(canonical(self.node)), is_copy=True)

    def _parse(self, text: str, schema: pa.Schema) -> Expression:
        return Expression.parse(text, schema, functions=self.functions.values())

    def _column(self, text: str) -> tuple[str, Expression]:
        return parse_column(text, self.schema, self._parse)

    def _keys(self, by: ColumnLike | Sequence[ColumnLike]) -> tuple[tuple[str, Expression], ...]:
        return tuple(map(self._column, listed(by, self.schema, "by=...")))

    def _named(self, names: Sequence[str]) -> list[tuple[str, Expression]]:
        """Columns as they are."""
        return [(name, Expression.column(name, self.schema)) for name in names]

    def _with(self: S, node: Node, *others: S) -> S:
        sources = dict(self.sources)
        for other in others:
            for name, source in other.sources.items():
                if sources.setdefault(name, source) is not source:
                    raise PlanError(
                        f"two different sources are named '{name}'",
                        hint="give every source its own name: engine.stream(..., name='...')",
                    )
        return replace(self, node=node, sources=sources, is_copy=False)


def merge(first: S, *others: S, **options: Any) -> S:
    """One right stream from copies that differ; options as for `Stream.merge`."""
    return first.merge(*others, **options)
