"""Windows in FROM, and the nodes they are."""

from __future__ import annotations

import re
from typing import Final

from sqlglot import exp

from anabranch.algebra.count_window import CountWindow
from anabranch.algebra.granularity import Granularity
from anabranch.algebra.node import Node, clock_of
from anabranch.algebra.session_window import SessionWindow
from anabranch.algebra.time_window import CHRONON, UNBOUNDED, TimeWindow
from anabranch.errors import QueryError
from anabranch.expressions.expression import Expression
from anabranch.language.names.context import Context
from anabranch.language.names.scope import Item, Scope
from anabranch.language.text.window_text import Amount, AxisText, GranularityText, WindowText
from anabranch.model.time import Duration

AXIS_COLUMNS: Final = ("window_start", "window_end")
_POINTS_HINT: Final = (
    "put the window on a source stream, or on a query without a window, join, DISTINCT or "
    "aggregate; those stand above it: SELECT DISTINCT ... FROM TUMBLE(Bid, 10 MINUTES)"
)


def bind_window(window: WindowText, over: Node, item: Item, context: Context) -> Node:
    """`WINDOW(...)` behind a stream."""
    if window.kind == "ROWS":
        return _bind_rows(window, over, item, context)
    if window.order_by:
        raise context.wrong(
            "ORDER BY is allowed only with ROWS", window.span, "a RANGE of time needs no order"
        )
    for column in window.partition_by:
        context.bind(context.resolve(column, Scope((item,))), over.schema, column)
    if window.partition_by:
        context.notes.append(
            "PARTITION BY has no effect on a RANGE: a window of time is the same for all groups"
        )
    size = UNBOUNDED if window.size is None else bind_duration(window.size, over, context)
    if window.least is not None and bind_duration(window.least, over, context) > size:
        raise _least(window, context)
    _note_least(window, context)
    slide = CHRONON if window.slide is None else bind_duration(window.slide, over, context)
    _check_granule(size, over, context)
    if size == 1 and slide == 1:
        return over
    return context.build(window.span, lambda: TimeWindow(input=over, size=size, slide=slide))


def _bind_rows(window: WindowText, over: Node, item: Item, context: Context) -> Node:
    rows = UNBOUNDED if window.size is None else _count(window.size, context)
    if window.least is not None and _count(window.least, context) > rows:
        raise _least(window, context)
    _note_least(window, context)
    slide = 1 if window.slide is None else _count(window.slide, context)
    scope = Scope((item,))
    keys = tuple(_key(column, over, scope, context) for column in window.partition_by)
    order = []
    for part in window.order_by:
        if part.args.get("desc"):
            raise context.wrong(
                "rows of one instant are always in ascending order",
                part,
                "leave DESC out, or write -column",
            )
        if part.args.get("nulls_first") is False:
            raise context.wrong(
                "rows of one instant always have NULL first",
                part,
                "leave NULLS LAST out, or write ORDER BY column IS NULL, column",
            )
        order.append(context.bind(context.resolve(part.this, scope), over.schema, part))
    return context.build(
        window.span,
        lambda: CountWindow(
            input=over,
            rows=rows,
            slide=slide,
            partition_by=_distinct_names(keys),
            order_by=tuple(order),
        ),
    )


def bind_granularity(granularity: GranularityText, over: Node, context: Context) -> Node:
    """`GRANULARITY(...)` behind a window."""
    granule = bind_duration(granularity.granule, over, context)
    if granularity.coarsest is not None:
        coarsest = bind_duration(granularity.coarsest, over, context)
        if coarsest < granule:
            raise context.wrong(
                "the coarsest granule is finer than the finest",
                granularity.span,
                "write COARSEST the larger size, FINEST the smaller one",
            )
        context.notes.append(
            "COARSEST has no effect yet: the stream always has its finest granule, that of FINEST"
        )
    for node in over.walk():
        if isinstance(node, Granularity) and granule % node.granule:
            raise context.wrong(
                f"a granule of {_shown(granule, over)} is not a multiple of "
                f"{_shown(node.granule, over)}, the granule of the stream",
                granularity.span,
                "a granularity can only become coarser: use a multiple of the granule of the "
                "stream",
            )
    if granule == 1:
        return over
    return context.build(granularity.span, lambda: Granularity(input=over, granule=granule))


def bind_axis(axis: AxisText, over: Node, item: Item, context: Context) -> Node:
    """TUMBLE, HOP and SESSION: windows that are columns, too."""
    if not over.properties.only_points:
        raise context.wrong(
            f"{axis.function} needs rows that hold for one instant", axis.span, _POINTS_HINT
        )
    _check_descriptor(axis, item, context)
    named = dict(axis.amounts)
    if axis.function == "SESSION":
        (gap,) = _amounts(axis, ("GAP",), named, context)
        scope = Scope((item,))
        keys = [_key(column, over, scope, context) for column in axis.partition_by]
        partition = _distinct_names(tuple(keys))
        return context.build(
            axis.span,
            lambda: SessionWindow(
                input=over,
                gap=bind_duration(gap, over, context),
                partition_by=partition,
                columns=AXIS_COLUMNS,
            ),
        )
    if axis.partition_by:
        hint = "group by the column instead"
        raise context.wrong(f"{axis.function} has no PARTITION BY", axis.span, hint)
    if axis.function == "TUMBLE":
        (size,) = _amounts(axis, ("SIZE",), named, context)
        slide = size
    else:
        slide, size = _amounts(axis, ("SLIDE", "SIZE"), named, context)
    return context.build(
        axis.span,
        lambda: TimeWindow(
            input=over,
            size=bind_duration(size, over, context),
            slide=bind_duration(slide, over, context),
            columns=AXIS_COLUMNS,
        ),
    )


def _amounts(
    axis: AxisText,
    wanted: tuple[str, ...],
    named: dict[str | None, Amount],
    context: Context,
) -> list[Amount]:
    given = [amount for _, amount in axis.amounts]
    if len(given) != len(wanted):
        order = ", ".join(word.lower() for word in wanted)
        raise context.wrong(
            f"{axis.function} takes {len(wanted)} duration{'s' if len(wanted) > 1 else ''}, "
            f"not {len(given)}",
            axis.span,
            f"write {axis.function}(stream, DESCRIPTOR(time), {order})",
        )
    for name, amount in axis.amounts:
        twice = sum(other == name for other, _ in axis.amounts) > 1
        if name is not None and (name not in wanted or twice):
            what = f"'{name}' is given twice" if twice else f"there is no argument '{name}'"
            order = ", ".join(f"{word} => size" for word in wanted)
            raise context.wrong(
                f"{axis.function}: {what}",
                amount.span,
                f"write {axis.function}(stream, DESCRIPTOR(time), {order})",
            )
    return [named.get(word, given[position]) for position, word in enumerate(wanted)]


def _check_descriptor(axis: AxisText, item: Item, context: Context) -> None:
    """The column of time must be the one the stream is ordered by, as far as that is known."""
    if axis.descriptor is None or not item.hidden:
        return
    if axis.descriptor.name.lower() not in (name.lower() for name in item.hidden):
        raise context.wrong(
            f"'{axis.descriptor.name}' does not order the stream",
            axis.descriptor,
            f"write DESCRIPTOR({item.hidden[0]})",
        )


def _key(column: exp.Expr, over: Node, scope: Scope, context: Context) -> tuple[str, Expression]:
    bound = context.bind(context.resolve(column, scope), over.schema, column)
    return bound.is_column or bound.sql, bound


def _distinct_names(
    keys: tuple[tuple[str, Expression], ...],
) -> tuple[tuple[str, Expression], ...]:
    return tuple({key.sql: (name, key) for name, key in keys}.values())


def bind_duration(amount: Amount, over: Node, context: Context) -> Duration:
    """How many chronons of a stream an amount is.

    Raises:
        QueryError: It is none, not a whole number of chronons, or nothing.
    """
    try:
        found = clock_of(over).duration(amount.written)
    except QueryError as problem:
        raise context.wrong(problem.what, amount.span, problem.hint) from None
    if found < 1:
        raise context.wrong("a duration must be positive", amount.span, "write 1 or more")
    return found


def _count(amount: Amount, context: Context) -> int:
    if amount.unit is not None:
        raise context.wrong(
            "a number of ROWS has no unit of time",
            amount.span,
            f"write ROWS {amount.text}, or RANGE {amount.text} {amount.unit}",
        )
    _positive(amount, context)
    return int(amount.text)


def _positive(amount: Amount, context: Context) -> None:
    if not re.fullmatch(r"[0-9]+", amount.text) or int(amount.text) < 1:
        raise context.wrong(
            f"'{amount.text}' is not a positive whole number", amount.span, "write 1 or more"
        )


def _note_least(window: WindowText, context: Context) -> None:
    if window.least is not None:
        context.notes.append(
            "MIN has no effect yet: the window always has its largest size, that of MAX"
        )


def _least(window: WindowText, context: Context) -> QueryError:
    return context.wrong(
        "the least size of the window is larger than the largest",
        window.span,
        "write MIN the smaller size, MAX the larger one",
    )


def _shown(duration: Duration, over: Node) -> str:
    return clock_of(over).format_duration(duration)


def _check_granule(size: Duration, over: Node, context: Context) -> None:
    for node in over.walk():
        if isinstance(node, Granularity) and size != UNBOUNDED and size % node.granule:
            context.notes.append(
                f"a window of {_shown(size, over)} is not a multiple of the granularity "
                f"{_shown(node.granule, over)} below it: "
                "write GRANULARITY after the window as well"
            )
