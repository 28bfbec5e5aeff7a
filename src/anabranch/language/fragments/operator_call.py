"""One call of a module or an aggregate for windows, as text: `quantile(price, 0.9)`."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from anabranch.algebra.modules.user_operator import Template, UserOperator
from anabranch.algebra.node import Node
from anabranch.errors import AnabranchError
from anabranch.expressions.expression import Expression
from anabranch.language.bind.grouping import is_aggregate
from anabranch.language.bind.operator_calls import (
    bind_operator_call,
    called,
    marked,
    refuse_unknown,
)
from anabranch.language.names.catalog import Catalog
from anabranch.language.names.context import Context
from anabranch.language.names.scope import Item, Scope
from anabranch.language.text.script import Script
from anabranch.language.text.words import parse_scalar, tokenize


def calls_operator(text: str, operators: Mapping[str, Template]) -> bool:
    """Whether a text calls a user operator by a name that no built-in aggregate has.

    >>> calls_operator("median(x)", {}), calls_operator("no call at all", {})
    (False, False)
    """
    try:
        tree = parse_scalar(Script(text), tokenize(Script(text))[0])
    except (AnabranchError, IndexError):
        return False
    return any(called(call) in operators for call in tree.find_all(exp.Anonymous))


def parse_operator_call(
    text: str, node: Node, operators: Mapping[str, Template]
) -> tuple[UserOperator, tuple[Expression, ...]]:
    """The module that a text calls, and what it is applied to.

    Raises:
        QueryError: The text is no such call, or something in it does not fit.
    """
    script = Script(text)
    statements = tokenize(script)
    hint = "write one call: median(price), quantile(price, 0.9), COUNT(*)"
    context = Context(script=script, catalog=Catalog(modules=operators))
    if len(statements) != 1:
        raise context.wrong(f"'{text.strip()}' is not one call", None, hint)
    tree = exp.Paren(this=parse_scalar(script, statements[0]))
    for call in reversed(list(tree.find_all(exp.Func))):
        if called(call) in operators:
            call.replace(marked(call, operators[called(call)]))
    columns = tuple((name, name) for name in node.schema.names)
    resolved = context.resolve(tree.this, Scope((Item(name="", columns=columns),)))
    refuse_unknown([resolved], node, context)
    if not is_aggregate(resolved):
        raise context.wrong(f"'{text.strip()}' is not one call of a module", resolved, hint)
    return bind_operator_call(resolved, node, context)
