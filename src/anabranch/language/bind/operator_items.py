"""User operators in FROM, over the windows of a stream."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from anabranch.algebra.modules.apply_operator import Call
from anabranch.algebra.node import Node
from anabranch.expressions.expression import Expression
from anabranch.language.bind.axis_windows import apply_operators
from anabranch.language.bind.operator_calls import bind_template
from anabranch.language.names.context import Context
from anabranch.language.names.fresh_name import fresh_name
from anabranch.language.names.scope import Item, Scope
from anabranch.language.text.window_text import OperatorText


def bind_operator_item(
    text: OperatorText, context: Context, bind: Callable[[exp.Expr], tuple[Node, Item]]
) -> Node:
    """`followed_by(Bid PARTITION BY itemID, kind, HOPPING(10, 1), first => 'a')`.

    The result has what is partitioned by, the bounds of the window if they are asked for, and
    what the module gives.

    Raises:
        QueryError: There is no such module, no window, or something does not fit.
    """
    template = context.catalog.modules.get(text.name.lower())
    if template is None:
        near = context.catalog.nearest_operator(text.name)
        raise context.wrong(
            f"there is no function '{text.name}' that FROM accepts",
            text.span,
            f"FROM accepts Istream, Dstream, Rstream, MERGE, TUMBLE, HOP and SESSION; {near}",
        )
    if len(text.windows) != 1:
        what = "no window" if not text.windows else "two windows"
        raise context.wrong(
            f"{text.name} has {what}",
            text.span,
            f"write {text.name}(stream, columns, HOPPING(10 MINUTES, 1 MINUTE), parameters)",
        )
    node, item = bind(text.table)
    scope = Scope((item,))
    keys: list[tuple[str, Expression]] = []
    for column in text.partition_by:
        bound = context.bind(context.resolve(column, scope), node.schema, column)
        name = fresh_name(bound.is_column or "key", {key for key, _ in keys})
        keys.append((name, bound))
    for name in {name for name, _ in text.named}:
        if sum(other == name for other, _ in text.named) > 1:
            raise context.wrong(f"'{name}' is given twice", text.span, "keep one of them")
    given = [context.resolve(each, scope) for each in text.arguments]
    named = {name: context.resolve(each, scope) for name, each in text.named}
    operator, arguments = bind_template(template, given, named, node, context, text.span)
    taken = {"window_start", "window_end", *(name for name, _ in keys)}
    names: list[str] = []
    for wanted in operator.gives.names:
        names.append(fresh_name(wanted, taken))
        taken.add(names[-1])
    call = Call(operator, arguments, tuple(names))
    return apply_operators(text.windows[0], node, (call,), tuple(keys), context)
