"""A stream on its way to an aggregation, and what may be aggregated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeAlias, TypeVar, final

from anabranch.algebra.modules.apply_operator import ApplyOperator
from anabranch.display.option_hints import explains_options
from anabranch.errors import PlanError
from anabranch.expressions.expression import Expression
from anabranch.frames.attributes import GROUPED_INSTEAD, missing_attribute
from anabranch.frames.column import quoted
from anabranch.frames.column_like import of_mapping, text_of
from anabranch.language.fragments.aggregates import named_aggregate, plan_aggregates
from anabranch.language.fragments.operator_call import calls_operator
from anabranch.windowed import OperatorCall, Windowing

G = TypeVar("G", bound=Windowing)

AggregateLike: TypeAlias = "str | OperatorCall | Any"
"""SQL text, what `ab.call` makes, or a `Column` of Spark."""


@explains_options
@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupedStream(Generic[G]):
    """A stream and what it is grouped by, on the way to an aggregation."""

    stream: G
    keys: tuple[tuple[str, Expression], ...]

    def agg(self, *given: AggregateLike, **aggregates: AggregateLike) -> G:
        """Aggregate every group of every snapshot: `agg(highest="MAX(price)")`.

        Without a name, `agg("MAX(price) AS highest")`, or a column is called as its aggregate is
        written. Conditions and expressions may be used: `COUNT(*) FILTER (WHERE price > 80)`,
        `MAX(price) - MIN(price)`. Aggregates of users can be used beside others: by name,
        `agg(mid="quantile(price, 0.5)")`, or as `ab.call` makes them.

        Raises:
            QueryError: A text is wrong, or has no aggregate.
            PlanError: Two columns have one name, or something is no text.
        """
        wanted = self._texts(given, aggregates)
        modules = self.stream.modules
        if any(not isinstance(each, str) or calls_operator(each, modules) for _, each in wanted):
            return self._by_operators(dict(wanted))
        named = [(name, str(text)) for name, text in wanted]
        node = plan_aggregates(self.stream.node, self.keys, named, self.stream._parse)
        return self.stream._with(node)

    def count(self) -> G:
        """The number of rows of each group, in a column `count`."""
        return self.agg(count="COUNT(*)")

    def sum(self, *columns: str) -> G:
        """The sums of some columns, called `sum(price)` and so on."""
        return self._each("sum", columns)

    def avg(self, *columns: str) -> G:
        """The averages of some columns, called `avg(price)` and so on."""
        return self._each("avg", columns)

    def mean(self, *columns: str) -> G:
        """The same as `avg`."""
        return self._each("avg", columns)

    def min(self, *columns: str) -> G:
        """The least values of some columns, called `min(price)` and so on."""
        return self._each("min", columns)

    def max(self, *columns: str) -> G:
        """The greatest values of some columns, called `max(price)` and so on."""
        return self._each("max", columns)

    def _each(self, function: str, columns: tuple[str, ...]) -> G:
        if not columns:
            raise PlanError(
                f"{function} needs a column",
                where=f"group_by(...).{function}()",
                hint=f"name it: {function}('price')",
            )
        return self.agg(
            **{f"{function}({name})": f"{function}({quoted(name)})" for name in columns}
        )

    def _texts(
        self, given: tuple[Any, ...], aggregates: Mapping[str, Any]
    ) -> list[tuple[str, str | OperatorCall]]:
        """Names, and what they stand for; those without a name come first."""
        schema, where = self.stream.node.schema, "agg(...)"
        found: list[tuple[str, str | OperatorCall]] = []
        for each in given:
            if isinstance(each, Mapping):
                found += of_mapping(each)
            elif isinstance(each, OperatorCall):
                raise PlanError(
                    "what ab.call makes needs a name",
                    where=where,
                    hint="write agg(name=ab.call(...))",
                )
            else:
                several = each if isinstance(each, list | tuple) else [each]
                found += [named_aggregate(text_of(one, schema, where)) for one in several]
        for name, value in aggregates.items():
            text = value if isinstance(value, OperatorCall) else text_of(value, schema, where)
            found.append((name, text))
        names = [name for name, _ in found]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise PlanError(
                f"two aggregates are called '{twice[0]}'",
                where=where,
                hint="name them: agg(first=..., second=...)",
            )
        return found

    def _by_operators(self, aggregates: Mapping[str, str | OperatorCall]) -> G:
        """Between two changes of a group its snapshots are all the same: these are asked about."""
        windows = self.stream.snapshot_windows(open_windows=True)
        windows = replace(windows, options={**windows.options, "group_by": self.keys})
        made = windows.agg(**aggregates)
        calls = next(each for each in made.node.walk() if isinstance(each, ApplyOperator)).calls
        seeing = [call.operator.name for call in calls if call.operator.time_sensitive]
        if seeing:
            raise PlanError(
                f"{seeing[0]} reads times, and there is no window",
                where="agg",
                hint="apply it to windows: stream.hopping('10 minutes', '1 minute', by=...)",
            )
        return made

    def __getattr__(self, name: str) -> Callable[..., Any]:
        raise missing_attribute("a grouped stream", name, GROUPED_INSTEAD, _METHODS, self)

    def __repr__(self) -> str:
        keys = ", ".join(name for name, _ in self.keys)
        return f"<GroupedStream by {keys or 'nothing'}; write .agg(n='COUNT(*)')>"


_METHODS = ("agg", "count", "sum", "avg", "mean", "min", "max")
