"""Plans written as chains of methods: every method gives a stream over one more operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Literal, TypeVar, final

import pyarrow as pa

from anabranch.algebra.aggregate import Aggregation
from anabranch.algebra.analysis.canonical import canonical
from anabranch.algebra.count_window import CountWindow
from anabranch.algebra.distinct import Distinct
from anabranch.algebra.filter import Filter
from anabranch.algebra.forms.coalesce import Coalesce
from anabranch.algebra.join import JoinKind, Side
from anabranch.algebra.map import Map
from anabranch.algebra.merge import Case, Merge, MergePolicy
from anabranch.algebra.modules.apply_operator import ApplyOperator
from anabranch.algebra.node import Node, clock_of
from anabranch.algebra.session_window import SessionWindow
from anabranch.algebra.set_operation import SetKind, SetOperation
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import CHRONON, UNBOUNDED, TimeWindow
from anabranch.algebra.top_k import TopK
from anabranch.algebra.union import Union
from anabranch.algebra.window_columns import Columns
from anabranch.errors import PlanError
from anabranch.expressions.expression import Expression
from anabranch.expressions.scalar_function import Functions
from anabranch.language.fragments.join import plan_asof_join, plan_join
from anabranch.language.fragments.operator_call import calls_operator
from anabranch.language.fragments.order import parse_order
from anabranch.language.text.aggregate_text import parse_aggregate, parse_column
from anabranch.retiming import Retiming
from anabranch.windowed import OperatorCall, Span

S = TypeVar("S", bound="Fluent")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fluent(Retiming):
    """A plan and where its sources come from; expressions are SQL strings over its columns."""

    node: Node
    sources: Mapping[str, Any]
    functions: Functions = field(default_factory=dict)

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self.node.schema

    def where(self: S, condition: str) -> S:
        """Keep the rows for which the condition is true."""
        predicate = self._parse(condition, self.schema)
        return self._with(Filter(input=self.node, predicate=predicate))

    def select(self: S, *columns: str, **named: str) -> S:
        """Compute columns: `select("itemID", "price * 2 AS double")`, or `double="price * 2"`."""
        chosen = [self._column(text) for text in columns]
        chosen += [(name, self._parse(text, self.schema)) for name, text in named.items()]
        return self._with(Map(input=self.node, columns=tuple(chosen)))

    def window(
        self: S, size: Span, slide: Span | None = None, *, columns: Columns | None = None
    ) -> S:
        """Hold every row for `size`; with `slide` answers change only at every slide.

        With `columns=("window_start", "window_end")` every row has the bounds of its window.
        """
        clock = clock_of(self.node)
        step = CHRONON if slide is None else clock.duration(slide)
        held = clock.duration(size)
        return self._with(TimeWindow(input=self.node, size=held, slide=step, columns=columns))

    def session_window(
        self: S, gap: Span, *, by: str | Sequence[str] = (), columns: Columns | None = None
    ) -> S:
        """Hold every row for its session, which ends after `gap` without rows.

        Args:
            gap: Rows that are less than this apart are in one session.
            by: Columns or expressions; every group has its own sessions.
            columns: Names for two columns with the bounds of the session.
        """
        node = SessionWindow(
            input=self.node,
            gap=clock_of(self.node).duration(gap),
            partition_by=tuple(self._column(text) for text in _listed(by)),
            columns=columns,
        )
        return self._with(node)

    def rows_window(
        self: S,
        rows: int | Literal["unbounded"],
        *,
        slide: int = 1,
        by: str | Sequence[str] = (),
        order_by: str | Sequence[str] = (),
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
            partition_by=tuple(self._column(text) for text in _listed(by)),
            order_by=tuple(self._parse(text, self.schema) for text in _listed(order_by)),
        )
        return self._with(node)

    def top(self: S, k: int, order_by: str | Sequence[str], *, by: str | Sequence[str] = ()) -> S:
        """The first `k` rows of every snapshot, or of each group: `top(3, "price DESC")`."""
        node = TopK(
            input=self.node,
            k=k,
            order_by=tuple(
                parse_order(text, self.schema, self._parse) for text in _listed(order_by)
            ),
            partition_by=tuple(self._column(text) for text in _listed(by)),
        )
        return self._with(node)

    def group_by(self: S, *keys: str) -> GroupedStream[S]:
        """Columns or expressions (`"price % 10 AS digit"`) that `agg` groups by."""
        parsed = tuple(self._column(text) for text in keys)
        return GroupedStream(stream=self, keys=parsed)

    def agg(self: S, **aggregates: str | OperatorCall) -> S:
        """Aggregate every snapshot as a whole: `agg(n="COUNT(*)", top="MAX(price)")`."""
        return GroupedStream(stream=self, keys=()).agg(**aggregates)

    def union(self: S, *others: S) -> S:
        """Combine streams with the same columns."""
        node = Union(inputs=(self.node, *(other.node for other in others)))
        return self._with(node, *others)

    def merge(
        self: S,
        *others: S,
        case: Case | None = None,
        inserts: str = "first",
        adjusts: str = "lazy",
        lag: Span | None = None,
        divergence: str = "warn",
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
        on: str | Sequence[str] | None = None,
        *,
        how: JoinKind = "inner",
        suffix: str = "_right",
        broadcast: Side | None = None,
    ) -> S:
        """Combine what holds at the same instant.

        Args:
            other: The right side: a stream or a relation.
            on: The condition (`"itemID = auction AND price > reserve"`), or the names of columns
                that both sides have and that must be equal; they appear once in the result.
                None: all pairs match.
            how: `inner`; `left`, `right`, `full` (with NULLs where there is no partner); `semi`
                (left rows that have a partner), `anti` (those that have none).
            suffix: Appended to names of the right side that the left side also has.
            broadcast: The side that is small enough to be sent to every shard.
        """
        node = plan_join(
            self.node,
            other.node,
            on,
            how,
            suffix=suffix,
            broadcast=broadcast,
            parse=self._parse,
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
        node = plan_asof_join(
            self.node, other.node, on, how, strict=strict, suffix=suffix, parse=self._parse
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
        return self._with(SetOperation(kind=kind, left=self.node, right=other.node), other)

    def coalesce(self: S) -> S:
        """Join lifetimes of equal rows that meet: the canonical form of the stream."""
        return self._with(Coalesce(input=self.node))

    def canonical(self: S) -> S:
        """The same stream in a form in which copies of it, by whatever plan, can be merged."""
        return self._with(canonical(self.node))

    def _parse(self, text: str, schema: pa.Schema) -> Expression:
        return Expression.parse(text, schema, functions=self.functions.values())

    def _column(self, text: str) -> tuple[str, Expression]:
        return parse_column(text, self.schema, self._parse)

    def _with(self: S, node: Node, *others: S) -> S:
        sources = dict(self.sources)
        for other in others:
            for name, source in other.sources.items():
                if sources.setdefault(name, source) is not source:
                    raise PlanError(
                        f"two different sources are named '{name}'",
                        hint="give every source its own name: engine.stream(..., name='...')",
                    )
        return replace(self, node=node, sources=sources)


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupedStream(Generic[S]):
    """A stream and what it is grouped by, on the way to an aggregation."""

    stream: S
    keys: tuple[tuple[str, Expression], ...]

    def agg(self, **aggregates: str | OperatorCall) -> S:
        """Aggregate every group of every snapshot: `agg(highest="MAX(price)")`.

        Aggregates of users can be used beside others: by name, `agg(mid="quantile(price, 0.5)")`,
        or as `ab.call` makes them.
        """
        wanted, modules = aggregates.values(), self.stream.modules
        if any(not isinstance(each, str) or calls_operator(each, modules) for each in wanted):
            return self._by_operators(aggregates)
        schema, parse = self.stream.schema, self.stream._parse
        calls = tuple(
            (name, parse_aggregate(str(text), schema, parse)) for name, text in aggregates.items()
        )
        node = Aggregation(input=self.stream.node, group_by=self.keys, aggregates=calls)
        return self.stream._with(node)

    def _by_operators(self, aggregates: Mapping[str, str | OperatorCall]) -> S:
        """Between two changes of a group its snapshots are all the same: these are asked about."""
        windows = self.stream.snapshot_windows(open_windows=True)
        windows = replace(windows, options={**windows.options, "group_by": self.keys})
        made = windows.agg(**aggregates)
        assert isinstance(made.node, ApplyOperator)
        seeing = [call.operator.name for call in made.node.calls if call.operator.time_sensitive]
        if seeing:
            raise PlanError(
                f"{seeing[0]} reads times, and there is no window",
                where="agg",
                hint="apply it to windows: stream.hopping('10 minutes', '1 minute', by=...)",
            )
        return made


def _listed(texts: str | Sequence[str]) -> Sequence[str]:
    return [texts] if isinstance(texts, str) else texts


def merge(first: S, *others: S, **options: Any) -> S:
    """One right stream from copies that differ; options as for `Stream.merge`."""
    return first.merge(*others, **options)
