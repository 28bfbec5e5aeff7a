"""Functions that are names for expressions: each call is replaced by what it stands for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sqlglot import exp

from anabranch.language.text.script import Script
from anabranch.language.text.statements import CreateFunction

_DEEPEST: Final = 32


def expand_functions(
    tree: exp.Expr, functions: Mapping[str, CreateFunction], script: Script
) -> exp.Expr:
    """The same expression without calls of functions that were created.

    Raises:
        QueryError: A call has the wrong number of arguments, or functions call each other for ever.
    """
    if not functions:
        return tree
    return _expand(tree.copy(), functions, script, 0)


def _expand(
    tree: exp.Expr, functions: Mapping[str, CreateFunction], script: Script, depth: int
) -> exp.Expr:
    holder = exp.Paren(this=tree)
    for call in list(holder.find_all(exp.Anonymous, exp.Func)):
        name = call.name if isinstance(call, exp.Anonymous) else call.sql_name()
        function = functions.get(str(name).lower())
        if function is None:
            continue
        if depth > _DEEPEST:
            hint = "remove the call to itself"
            raise script.wrong(f"'{function.name}' calls itself", tree, hint)
        call.replace(_image(call, function, functions, script, depth))
    inner: exp.Expr = holder.this
    inner.pop()
    return inner


def _image(
    call: exp.Expr,
    function: CreateFunction,
    functions: Mapping[str, CreateFunction],
    script: Script,
    depth: int,
) -> exp.Expr:
    given = call.expressions if isinstance(call, exp.Anonymous) else list(call.iter_expressions())
    if len(given) != len(function.parameters):
        parameters = ", ".join(f"{name} {kind}" for name, kind in function.parameters)
        raise script.wrong(
            f"the function '{function.name}' does not take {len(given)} arguments",
            call,
            f"it is declared as {function.name}({parameters})",
        )
    values = {
        name.lower(): exp.cast(argument.copy(), kind, dialect="spark")
        for (name, kind), argument in zip(function.parameters, given)
    }
    body = exp.Paren(this=function.body.copy())
    for column in list(body.find_all(exp.Column)):
        value = values.get(column.name.lower())
        if value is None or column.table:
            raise function.script.wrong(
                f"'{column.name}' is not a parameter of '{function.name}'",
                column,
                f"parameters are: {', '.join(name for name, _ in function.parameters)}",
            )
        column.replace(value.copy())
    expanded = _expand(body.this.pop(), functions, script, depth + 1)
    if function.returns is None:
        return exp.paren(expanded)
    return exp.cast(expanded, function.returns, dialect="spark")
