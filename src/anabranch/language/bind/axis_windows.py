"""Windows of the time axis as queries write them, and what they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final, get_args

from sqlglot import exp

from anabranch.algebra.modules.apply_operator import ApplyOperator, Call
from anabranch.algebra.modules.axis_window import (
    AxisWindow,
    CountByEnd,
    CountByStart,
    Hopping,
    Session,
    Snapshot,
)
from anabranch.algebra.modules.results import Clip, Errors, Timestamps
from anabranch.algebra.node import Node
from anabranch.errors import AnabranchError, QueryError
from anabranch.expressions.expression import Expression
from anabranch.language.bind.top_rows import TopText
from anabranch.language.bind.windows import bind_duration
from anabranch.language.names.context import Context
from anabranch.language.names.scope import Scope, plan_column
from anabranch.language.text.axis_dialect import AXIS_WINDOWS
from anabranch.language.text.window_text import Amount, AxisWindowText

BOUNDS: Final = ("window_start", "window_end")
"""The columns with the bounds of a window."""

OPTIONS: Final = ("clip", "timestamps", "empty", "open_windows", "errors", "bounds")
_CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "clip": get_args(Clip),
    "timestamps": get_args(Timestamps),
    "errors": get_args(Errors),
}
_IN_FROM: Final = {"TUMBLE": "TUMBLING", "HOP": "HOPPING"}
_FLAGS: Final = ("empty", "open_windows", "bounds")
_CLAUSES: Final = ("expressions", "group", "having", "order", "qualify")
_AMOUNTS: Final = {"HOPPING": 2, "TUMBLING": 1, "SNAPSHOT": 0, "COUNTING": 1, "SESSION": 1}


def take_axis_window(
    select: exp.Select, context: Context
) -> tuple[exp.Select, AxisWindowText | None]:
    """The query without the window in its GROUP BY, and that window.

    The query that is given stays as it is: a nested one may be read twice.

    Raises:
        QueryError: There are several, or one stands elsewhere.
    """
    group_by = select.args.get("group")
    given = group_by.expressions if group_by is not None else []
    windows = [each for each in given if "axis_window" in each.meta]
    if len(windows) > 1:
        raise context.wrong(
            "GROUP BY has two windows", windows[1], "keep one; for two windows, join two queries"
        )
    for each in given if not windows else ():
        _refuse_misspelt(each, context)
    if windows:
        select = select.copy()
        rest = [each for each in select.args["group"].expressions if "axis_window" not in each.meta]
        select.args["group"].set("expressions", rest)
    for part in select.walk(prune=lambda each: isinstance(each, exp.Query) and each is not select):
        if "axis_window" in part.meta:
            raise context.wrong(
                "a window of the time axis belongs in GROUP BY",
                part,
                f"write GROUP BY columns, {context.script.written(part)}",
            )
    return select, windows[0].meta["axis_window"] if windows else None


def _refuse_misspelt(call: exp.Expr, context: Context) -> None:
    """Say of what looks like a window of the time axis how that is called.

    Raises:
        QueryError: It does.
    """
    if not isinstance(call, exp.Anonymous) or call.find(exp.Column):
        return
    name = str(call.name).upper()
    near = get_close_matches(_IN_FROM.get(name, name), AXIS_WINDOWS, 1, 0.9)
    if near and name.lower() not in context.catalog.functions:
        raise context.wrong(
            f"there is no window {name} for GROUP BY", call, f"write {AXIS_WINDOWS[near[0]]}"
        )


def own_parts(select: exp.Select) -> Iterator[exp.Expr]:
    """Everything in SELECT and in the clauses behind GROUP BY, without nested queries."""
    top: TopText | None = select.meta.get("top")
    ranked = [] if top is None else [*top.partition_by, *top.order_by]
    for found in (*(select.args.get(key) for key in _CLAUSES), ranked):
        for tree in found if isinstance(found, list) else [found]:
            if tree is not None:
                yield from tree.walk(prune=lambda each: isinstance(each, exp.Query))


def mark_bounds(select: exp.Select, scope: Scope) -> bool:
    """Let `window_start` and `window_end` mean the window, where FROM has no such columns.

    Gives whether they are used.
    """
    used = False
    for column in list(own_parts(select)):
        if not isinstance(column, exp.Column) or column.table or column.meta.get("plan"):
            continue
        name = column.name.lower()
        if name not in BOUNDS or any(item.find(name) for item in scope.items):
            continue
        bound = plan_column(name)
        bound.this.meta.update(column.this.meta)
        bound.meta["bound"] = True
        column.replace(bound)
        used = True
    return used


def without_bounds(
    keys: list[tuple[str, exp.Expr]] | None,
) -> list[tuple[str, exp.Expr]] | None:
    """What is grouped by besides the window: its bounds are, whether they are named or not."""
    if keys is None:
        return None
    return [(name, tree) for name, tree in keys if not tree.meta.get("bound")]


def apply_operators(
    text: AxisWindowText,
    over: Node,
    calls: tuple[Call, ...],
    group_by: tuple[tuple[str, Expression], ...],
    context: Context,
    *,
    bounds: bool = False,
) -> ApplyOperator:
    """The node of a window as it is written."""
    window = bind_axis_window(text, over, context)
    options = bind_options(text, context)
    wanted = options.pop("bounds", False) or bounds
    made = context.build(
        text.span,
        lambda: ApplyOperator.over(
            over,
            window=window,
            calls=calls,
            group_by=group_by,
            columns=BOUNDS if wanted else None,
            **options,
        ),
    )
    assert isinstance(made, ApplyOperator)
    return made


def bind_axis_window(text: AxisWindowText, over: Node, context: Context) -> AxisWindow:
    """`HOPPING(10 MINUTES, 1 MINUTE)` as windows of a stream.

    Raises:
        QueryError: There are too many sizes or too few, or one makes no sense.
    """
    wanted, given = _AMOUNTS[text.function], len(text.amounts)
    hint = f"write {AXIS_WINDOWS[text.function]}"
    if given != wanted:
        sizes = f"{wanted} size{'s' if wanted != 1 else ''}"
        raise context.wrong(f"{text.function} takes {sizes}, not {given}", text.span, hint)
    if text.offset is not None and text.function not in ("HOPPING", "TUMBLING"):
        raise context.wrong(f"{text.function} has no OFFSET", text.offset.span, hint)
    try:
        return _window(text, over, context)
    except AnabranchError as problem:
        if isinstance(problem, QueryError) and problem.where:
            raise
        raise context.wrong(problem.what, text.span, problem.hint) from None


def _window(text: AxisWindowText, over: Node, context: Context) -> AxisWindow:
    if text.function == "SNAPSHOT":
        return Snapshot()
    if text.function == "COUNTING":
        count = _count(text.amounts[0], context)
        return CountByEnd(count) if text.by_end else CountByStart(count)
    sizes = [bind_duration(amount, over, context) for amount in text.amounts]
    if text.function == "SESSION":
        return Session(sizes[0])
    offset = 0 if text.offset is None else _offset(text.offset, over, context)
    return Hopping(sizes[0], sizes[-1], offset)


def bind_options(text: AxisWindowText, context: Context) -> dict[str, Any]:
    """`clip => 'full', empty => true` by name.

    Raises:
        QueryError: There is no such option, it is said twice, or is neither true nor false.
    """
    found: dict[str, Any] = {}
    for name, value, span in text.options:
        if name not in OPTIONS:
            near = get_close_matches(name, OPTIONS, 1)
            guess = f"did you mean {near[0]}? " if near else ""
            raise context.wrong(
                f"windows have no option '{name}'", span, f"{guess}options: {', '.join(OPTIONS)}"
            )
        if name in found:
            raise context.wrong(f"'{name}' is given twice", span, "keep one of them")
        if name in _FLAGS and value.lower() not in ("true", "false"):
            raise context.wrong(
                f"'{name}' must be true or false, not {value}", span, f"write {name} => true"
            )
        choices = get_close_matches(value.lower(), _CHOICES.get(name, ()), 1)
        if choices and choices[0] != value.lower():
            raise context.wrong(
                f"there is no {name} '{value}'",
                span,
                f"did you mean '{choices[0]}'? use one of: {', '.join(_CHOICES[name])}",
            )
        found[name] = value.lower() == "true" if name in _FLAGS else value.lower()
    return found


def _offset(amount: Amount, over: Node, context: Context) -> int:
    """An offset may be negative, or nothing."""
    text = amount.text.removeprefix("-")
    if text.strip("0") == "":
        return 0
    size = bind_duration(Amount(text, amount.unit, amount.span), over, context)
    return -size if amount.text.startswith("-") else size


def _count(amount: Amount, context: Context) -> int:
    if amount.unit is not None or not amount.text.isdigit():
        raise context.wrong(
            "COUNTING takes a number of instants", amount.span, "write COUNTING(10)"
        )
    return int(amount.text)
