"""Calls of modules in queries: what they are applied to, and with what parameters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any, Final

from sqlglot import exp

from anabranch.aggregates.table import SQL_NAMES
from anabranch.algebra.modules.apply_operator import Call
from anabranch.algebra.modules.builtin import builtin_operator
from anabranch.algebra.modules.user_operator import Template, UserOperator
from anabranch.algebra.node import Node, clock_of
from anabranch.errors import AnabranchError, QueryError
from anabranch.expressions.expression import Expression
from anabranch.expressions.functions.names import AGGREGATES, SCALARS
from anabranch.language.bind.axis_windows import apply_operators, own_parts
from anabranch.language.bind.grouping import Grouped, bind_call, bind_keys, find_aggregates, text_of
from anabranch.language.names.context import Context
from anabranch.language.names.fresh_name import fresh_name
from anabranch.language.text.dialect import CALLED
from anabranch.language.text.script import span_of
from anabranch.language.text.window_text import AxisWindowText

_WINDOW_HINT: Final = "group by a window: GROUP BY columns, HOPPING(10 MINUTES, 1 MINUTE)"
_FUNCTIONS: Final = (*sorted(AGGREGATES | SQL_NAMES.keys()), *sorted(SCALARS))


def mark_operators(select: exp.Select, context: Context, *, windowed: bool) -> bool:
    """Let calls of registered modules be calls of these, also where a built-in has the name.

    Without a window only what has no other meaning is a module. Gives whether there is one.

    Raises:
        QueryError: An operator has no window, or a module stands in WHERE.
    """
    operators = context.catalog.modules
    found = False
    # From the inside out: a call may stand in another one.
    for call in reversed(list(own_parts(select))):
        name = called(call)
        if not isinstance(call, exp.Func if windowed else exp.Anonymous) or name not in operators:
            continue
        if not windowed and operators[name].kind != "uda":
            what = f"{name} needs a window, and the query has none"
            raise context.wrong(what, call, _window(operators[name]))
        call.replace(marked(call, operators[name]))
        found = True
    where = select.args.get("where")
    for part in where.walk(prune=lambda each: isinstance(each, exp.Query)) if where else ():
        if isinstance(part, exp.Anonymous) and called(part) in operators:
            raise context.wrong(
                f"the module {called(part)} is not allowed in WHERE",
                part,
                "write conditions on windows in HAVING",
            )
    return found


def refuse_unknown(trees: Iterable[exp.Expr], node: Node, context: Context) -> None:
    """Say of a resolved call that is no function which module may have been meant.

    Raises:
        QueryError: There is such a call.
    """
    for tree in trees:
        for call in tree.find_all(exp.Anonymous):
            if "module" in call.meta:
                continue
            try:
                context.bind(call, node.schema)
            except QueryError as problem:
                if problem.what.startswith("there is no function"):
                    hint = context.catalog.nearest_operator(called(call), _FUNCTIONS)
                    raise context.wrong(problem.what, call, hint) from None


def _window(template: Template) -> str:
    if template.kind == "uda":
        return _WINDOW_HINT
    return f"it returns rows: write FROM {template.name}(stream, columns, HOPPING(10, 1))"


def called(call: exp.Expr) -> str:
    """The name of a function as it was written, in small letters."""
    if isinstance(call, exp.Anonymous):
        return str(call.name).lower()
    if not isinstance(call, exp.Func):
        return ""
    return str(call.meta.get(CALLED) or call.sql_name()).lower()


def marked(call: exp.Func, template: Template) -> exp.Expr:
    """The call of a module, whatever the parser made of it."""
    given = call.expressions if isinstance(call, exp.Anonymous) else list(call.iter_expressions())
    made = exp.Anonymous(this=called(call), expressions=list(given))
    made.meta.update({key: call.meta[key] for key in ("start", "end") if key in call.meta})
    made.meta["module"] = template.kind
    return made


def snapshots_of(select: exp.Select) -> AxisWindowText:
    """The windows of a GROUP BY without one: an aggregate is asked about every snapshot.

    Between two changes of a group its snapshots are all the same, so the windows between any two
    changes are asked about, those that have not ended too.
    """
    at = span_of(select) or (0, 1)
    return AxisWindowText(function="SNAPSHOT", options=(("open_windows", "true", at),), span=at)


def group_by_window(
    text: AxisWindowText,
    node: Node,
    keys: Sequence[tuple[str, exp.Expr]],
    trees: Iterable[exp.Expr],
    context: Context,
    *,
    bounds: bool,
    written: bool = True,
) -> Grouped:
    """All aggregates that some expressions need, for every window of every group.

    Where the query has no window (`written`), aggregates must not ask when something holds: that
    depends on where lifetimes happen to be cut.
    """
    group_by, columns = bind_keys(node, keys, context)
    taken = {name for name, _ in group_by} | ({"window_start", "window_end"} if bounds else set())
    calls: list[Call] = []
    every = [call for tree in trees for call in find_aggregates(tree)]
    # Without aggregates a query asks which groups there are: whatever counts them tells.
    for call in every or [exp.Count(this=exp.Star())]:
        if text_of(call) in columns:
            continue
        operator, arguments = bind_operator_call(call, node, context)
        if operator.time_sensitive and not written:
            raise context.wrong(
                f"{operator.name} reads times, and there is no window", call, _WINDOW_HINT
            )
        name = fresh_name(operator.name, taken)
        taken.add(name)
        calls.append(Call(operator, arguments, (name,)))
        columns[text_of(call)] = name
    made = apply_operators(text, node, tuple(calls), tuple(group_by), context, bounds=bounds)
    return Grouped(made, columns)


def bind_operator_call(
    call: exp.Expr, node: Node, context: Context
) -> tuple[UserOperator, tuple[Expression, ...]]:
    """A resolved call: of a module that was registered, or of a built-in aggregate."""
    inner = call
    while isinstance(inner, exp.Filter | exp.WithinGroup):
        inner = inner.this
    if "module" not in inner.meta:
        return builtin_operator(bind_call(call, node, context))
    template = context.catalog.modules[called(inner)]
    if inner is not call:
        word = "FILTER" if isinstance(call, exp.Filter) else "WITHIN GROUP"
        raise context.wrong(
            f"{word} cannot be used with the module {template.name}",
            call,
            "choose the rows in a nested query in FROM, or in WHERE",
        )
    if template.kind != "uda":
        raise context.wrong(
            f"{template.name} returns rows and is not an aggregate", call, _window(template)
        )
    named = {
        part.this.name: part.expression for part in inner.expressions if isinstance(part, exp.Kwarg)
    }
    given = [part for part in inner.expressions if not isinstance(part, exp.Kwarg)]
    if len(named) + len(given) < len(inner.expressions):
        raise context.wrong(
            "a parameter is given twice", call, f"keep one; it is {template.signature}"
        )
    return bind_template(template, given, named, node, context, call)


def bind_template(
    template: Template,
    given: Sequence[exp.Expr],
    named: dict[str, exp.Expr],
    node: Node,
    context: Context,
    at: exp.Expr | tuple[int, int],
) -> tuple[UserOperator, tuple[Expression, ...]]:
    """A module for resolved arguments: columns first, then parameters.

    Raises:
        QueryError: They do not fit, or a parameter is no constant.
    """
    for part in given:
        if isinstance(part, exp.Distinct):
            raise context.wrong(
                f"DISTINCT cannot be used with the module {template.name}",
                at,
                "select DISTINCT rows in a nested query in FROM",
            )
        if isinstance(part, exp.Star):
            raise context.wrong(
                f"{template.name} takes columns, not *", at, f"it is {template.signature}"
            )
        inner = next(find_aggregates(part), None)
        if inner is not None:
            raise context.wrong(
                "an aggregate cannot contain another aggregate",
                inner,
                "compute the inner one in a nested query in FROM",
            )
    arguments = tuple(context.bind(part, node.schema) for part in given[: template.arity])
    positional = [_constant(part, template, node, context) for part in given[template.arity :]]
    by_name = {name: _constant(part, template, node, context, name) for name, part in named.items()}
    try:
        operator = template.bind(
            [each.type for each in arguments], positional, by_name, clock_of(node)
        )
    except AnabranchError as problem:
        raise context.wrong(problem.what, at, problem.hint) from None
    return operator, arguments


def _constant(
    tree: exp.Expr, template: Template, node: Node, context: Context, name: str = ""
) -> Any:
    found = context.bind(tree, node.schema)
    if found.constant is None:
        raise context.wrong(
            f"the parameter {name} of {template.name} must be a constant".replace("  ", " "),
            tree,
            f"it is {template.signature}",
        )
    value = found.constant[0].as_py()
    # Spark reads 0.9 as a decimal; who writes modules in Python means a float.
    return float(value) if isinstance(value, Decimal) and tree.find(exp.Cast) is None else value
