"""Windows of the time axis over a stream, and modules that are applied to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from difflib import get_close_matches
from typing import Any, Generic, TypeAlias, TypeVar, final

import pyarrow as pa

from anabranch.algebra.modules.apply_operator import ApplyOperator, Call
from anabranch.algebra.modules.axis_window import (
    AxisWindow,
    CountByEnd,
    CountByStart,
    Hopping,
    Session,
    Snapshot,
    tumbling,
)
from anabranch.algebra.modules.results import Clip, Errors, Timestamps
from anabranch.algebra.modules.user_operator import Template, UserOperator
from anabranch.algebra.node import Node, clock_of
from anabranch.algebra.window_columns import Columns
from anabranch.display.option_hints import explains_options
from anabranch.errors import PlanError
from anabranch.expressions.expression import Expression
from anabranch.frames.column_like import ColumnLike, listed, of_mapping, text_of, texts_of
from anabranch.language.bind.axis_windows import BOUNDS
from anabranch.language.fragments.aggregates import Result, calls_in, computed, named_aggregate
from anabranch.language.fragments.operator_call import parse_operator_call
from anabranch.language.text.aggregate_text import parse_column
from anabranch.userops.bases import operator_of

Span: TypeAlias = str | int | timedelta
"""A duration: `"10 minutes"`, a timedelta, or for whole numbers as times a number of chronons."""

Bounds: TypeAlias = Columns | bool | None
"""Whether rows have columns with the bounds of their window, or how those are called."""

W = TypeVar("W", bound="Windowing")


def bound_names(columns: Bounds) -> Columns | None:
    """The names of two columns with bounds; None: there are none.

    >>> bound_names(True), bound_names(("low", "high")), bound_names(None)
    (('window_start', 'window_end'), ('low', 'high'), None)
    """
    if isinstance(columns, bool):
        return BOUNDS if columns else None
    return columns


class Windowing:
    """What a stream can have windows of the time axis by; lifetimes of rows stay as they are."""

    __slots__ = ()

    node: Node

    @property
    def modules(self) -> Mapping[str, Template]:
        """Modules that can be called by name."""
        return {}

    def hopping(
        self: W, size: Span, hop: Span, *, offset: Span = 0, **options: Any
    ) -> WindowedStream[W]:
        """A window of `size` every `hop`: a row is in each that it overlaps.

        Options are those of `windows`: `by`, `columns`, `clip`, `timestamps`, and so on.
        """
        clock = clock_of(self.node)
        window = Hopping(clock.duration(size), clock.duration(hop), clock.distance(offset))
        return self.windows(window, **options)

    def tumbling(self: W, size: Span, *, offset: Span = 0, **options: Any) -> WindowedStream[W]:
        """Windows of `size`, one after the other; options are those of `windows`."""
        clock = clock_of(self.node)
        return self.windows(tumbling(clock.duration(size), clock.distance(offset)), **options)

    def snapshot_windows(self: W, **options: Any) -> WindowedStream[W]:
        """A window between any two changes; options are those of `windows`."""
        return self.windows(Snapshot(), **options)

    def count_windows(
        self: W, count: int, *, by_end: bool = False, **options: Any
    ) -> WindowedStream[W]:
        """From each start of a row a window over a number of different starts, or ends.

        Options are those of `windows`.
        """
        return self.windows(CountByEnd(count) if by_end else CountByStart(count), **options)

    def sessions(self: W, gap: Span, **options: Any) -> WindowedStream[W]:
        """A window over rows with gaps of less than `gap`; options are those of `windows`."""
        return self.windows(Session(clock_of(self.node).duration(gap)), **options)

    def session_windows(self: W, gap: Span, **options: Any) -> WindowedStream[W]:
        """The same as `sessions`, under its former name."""
        return self.sessions(gap, **options)

    def windows(
        self: W,
        window: AxisWindow,
        *,
        by: ColumnLike | Sequence[ColumnLike] = (),
        columns: Bounds = None,
        clip: Clip = "none",
        timestamps: Timestamps = "align",
        empty: bool = False,
        open_windows: bool = False,
        errors: Errors = "fail",
    ) -> WindowedStream[W]:
        """Windows of the time axis, for modules to compute results of.

        Args:
            window: The kind of windows.
            by: Columns or expressions; every group has its own windows.
            columns: Names for two columns with the bounds of the window; True: `window_start` and
                `window_end`.
            clip: The part of lifetimes that is hidden from modules: before the window (`left`),
                after it (`right`), both (`full`) or nothing (`none`).
            timestamps: The lifetimes of results: that of the window (`align`); what the module
                returns (`unchanged`); the part of it in the window (`clip`); what a module
                returns that promises that an event changes no earlier result (`time_bound`).
            empty: Windows without rows have results, too.
            open_windows: Windows that have not ended have results, too.
            errors: If a module fails: `fail`, `skip` the window, or `quarantine` its events.
        """
        keys = listed(by, self.node.schema, "by=...")
        options = {
            "window": window,
            "group_by": tuple(parse_column(text, self.node.schema, self._parse) for text in keys),
            "columns": bound_names(columns),
            "clip": clip,
            "timestamps": timestamps,
            "empty": empty,
            "open_windows": open_windows,
            "errors": errors,
        }
        return WindowedStream(stream=self, options=options)

    def _with(self: W, node: Node) -> W:
        raise NotImplementedError

    def _parse(self, text: str, schema: pa.Schema) -> Expression:
        """An expression over some columns."""
        return Expression.parse(text, schema)


@final
@dataclass(frozen=True, slots=True)
class OperatorCall:
    """A module with its arguments; `call` makes one."""

    operator: Template | type | str
    arguments: tuple[Any, ...]
    parameters: tuple[tuple[str, Any], ...]


def call(module: Template | type | str, *arguments: Any, **parameters: Any) -> OperatorCall:
    """A module for `agg`: `agg(high=call(quantile, "price", q=0.9), n="COUNT(*)")`."""
    return OperatorCall(module, arguments, tuple(parameters.items()))


@explains_options
@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class WindowedStream(Generic[W]):
    """A stream and its windows, to which modules are applied.

    Registered modules are methods: `windows.quantile("price", q=0.9)`.
    """

    stream: W
    options: Mapping[str, Any]

    def apply(
        self,
        module: Template | type | str,
        *arguments: Any,
        name: str | Sequence[str] | None = None,
        **parameters: Any,
    ) -> W:
        """The result of one module for every window.

        Args:
            module: The module, or the name of one that is registered.
            *arguments: As many columns or expressions as it takes; then parameters.
            name: The column of the result, or several; None: as the module declares.
            **parameters: Parameters by name.

        Raises:
            QueryError: Arguments or parameters do not fit; the hint shows the signature.
            PlanError: There is no such module.
        """
        bound, values = self._bound(OperatorCall(module, arguments, tuple(parameters.items())))
        given = [name] if isinstance(name, str) else name
        return self._applied([Call(bound, values, tuple(given or bound.gives.names))])

    def agg(self, *given: Any, **aggregates: Any) -> W:
        """Several aggregates, one row per window: `agg(n="COUNT(*)", mid="median(price)")`.

        Without a name, `agg("COUNT(*) AS n")`, or a column is called as its aggregate is written.
        Expressions may be used: `MAX(price) - MIN(price)`.
        """
        node = self.stream.node
        wanted: list[tuple[str, Any]] = []
        for some in given:
            if isinstance(some, Mapping):
                wanted += of_mapping(some)
            else:
                texts = texts_of([some], node.schema, "agg(...)")
                wanted += [named_aggregate(text) for text in texts]
        wanted += [
            (
                name,
                each if isinstance(each, OperatorCall) else text_of(each, node.schema, "agg(...)"),
            )
            for name, each in aggregates.items()
        ]
        calls: list[Call] = []
        results: list[Result] = []
        for name, each in wanted:
            if isinstance(each, OperatorCall):
                own, result = [(name, self._bound(each))], Result.alone(name)
            else:
                own, result = calls_in(name, each, self._read)
            calls += [Call(*bound, (column,)) for column, bound in own]
            results.append(result)
        made = self._applied(calls)
        if all(result.is_alone for result in results):
            return made
        called = {name for call in calls for name in call.names}
        return made._with(computed(made.node, called, results, made._parse))

    def count(self) -> W:
        """The number of rows of each window, in a column `count`."""
        return self.agg(count="COUNT(*)")

    def __repr__(self) -> str:
        keys = ", ".join(name for name, _ in self.options["group_by"])
        by = f" by {keys}" if keys else ""
        return f"<WindowedStream{by}; write .agg(n='COUNT(*)') or .apply(module)>"

    def _read(self, text: str) -> tuple[UserOperator, tuple[Expression, ...]]:
        return parse_operator_call(text, self.stream.node, self.stream.modules)

    def __getattr__(self, name: str) -> Callable[..., W]:
        if name.startswith("_") or name in ("stream", "options"):
            raise AttributeError(name)
        if name.lower() in self.stream.modules:
            return lambda *arguments, **options: self.apply(name, *arguments, **options)
        names = [*self.stream.modules, "apply", "agg"]
        near = get_close_matches(name.lower(), names, 1)
        guess = f"did you mean '{near[0]}'? " if near else ""
        raise AttributeError(
            f"windows have no '{name}', and there is no module of that name; {guess}"
            f"there are: {', '.join(sorted(names))}",
            name=name,
            obj=self,
        )

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *self.stream.modules})

    def _bound(self, wanted: OperatorCall) -> tuple[UserOperator, tuple[Expression, ...]]:
        template = operator_of(wanted.operator)
        if isinstance(template, str):
            found = self.stream.modules.get(template.lower())
            if found is None:
                near = get_close_matches(template.lower(), list(self.stream.modules), 1)
                guess = f"did you mean '{near[0]}'? " if near else ""
                names = ", ".join(sorted(self.stream.modules)) or "none"
                raise PlanError(
                    f"there is no module '{template}'",
                    hint=f"{guess}modules are: {names}; engine.register(module) adds one",
                )
            template = found
        if not isinstance(template, Template):
            raise PlanError(
                f"{template!r} is not a module",
                hint="put @ab.uda or @ab.udo above it, or name one that is registered",
            )
        texts = wanted.arguments[: template.arity]
        odd = [each for each in texts if not isinstance(each, str)]
        if odd:
            raise PlanError(
                f"{odd[0]!r} is not a column of {template.name}",
                hint=f"name columns as strings; it is {template.signature}",
            )
        values = tuple(Expression.parse(text, self.stream.node.schema) for text in texts)
        rest = wanted.arguments[template.arity :]
        kinds, clock = [each.type for each in values], clock_of(self.stream.node)
        return template.bind(kinds, rest, dict(wanted.parameters), clock), values

    def _applied(self, calls: Sequence[Call]) -> W:
        node = ApplyOperator.over(self.stream.node, calls=tuple(calls), **self.options)
        return self.stream._with(node)
