"""Expressions in a normal form: what differs in text alone becomes equal.

The equations, over SQL's three values:

    p AND q = q AND p        p AND p = p        OR alike
    a = b   = b = a          <> and <=> alike
    a < b   = b > a          a <= b = b >= a
    x IN (1, 2) = x IN (2, 1, 1)

and those of `spelling.py`, for negations, BETWEEN, IN and constants.

AND and OR stay as they are written where a part may fail: `b <> 0 AND a / b > 1` fails for no row,
`a / b > 1 AND b <> 0` may. Sums and products stay, too: (a + b) + c is not a + (b + c) for doubles.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import chain
from typing import Final, Literal, TypeAlias

from sqlglot import exp

from anabranch.expressions.expression import Expression
from anabranch.expressions.rewriting import conjuncts, tree_of
from anabranch.expressions.scalar_function import ScalarFunction
from anabranch.optimizer.failing import may_fail
from anabranch.optimizer.meaning.spelling import spelled

Spelling: TypeAlias = Literal["one", "as-written"]
"""Whether conditions are brought into one spelling. Earlier versions left negations, BETWEEN, IN
and constants as they were written; what they shared is found again with `as-written`."""

Form: TypeAlias = tuple[object, ...]
"""A normal form: nested tuples; a column is `(COLUMN, id, *path)`."""

COLUMN: Final = "@column"
ANY_ORDER: Final = "@any order"

_TRUE: Final[Form] = ("Boolean", ("this", True))

_SYMMETRIC: Final = (exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ)
_MIRRORED: Final[Mapping[type[exp.Expr], str]] = {exp.GT: "LT", exp.GTE: "LTE"}


def form_of(expression: Expression, columns: Mapping[str, int], spelling: Spelling = "one") -> Form:
    """The normal form of an expression, over ids in place of the names of its columns."""
    return (
        with_columns(_form(expression, spelling), columns),
        str(expression.type),
        expression.functions,
    )


def conditions_of(
    predicate: Expression, columns: Mapping[str, int], spelling: Spelling = "one"
) -> frozenset[Form] | None:
    """The conditions that all hold where a predicate does; None where their order counts."""
    if spelling == "as-written":
        if may_fail(predicate):
            return None
        return frozenset(form_of(each, columns, spelling) for each in conjuncts(predicate))
    if spelled_once(predicate) is None:
        return None
    form = with_columns(_form(predicate, spelling), columns)
    parts = form[2:] if form[:2] == (exp.And.__name__, ANY_ORDER) else (form,)
    return frozenset(
        (part, str(predicate.type), _called(part, predicate))
        for part in parts
        if isinstance(part, tuple) and part != _TRUE
    )


def with_columns(form: Form, columns: Mapping[str, int] | Mapping[int, int]) -> Form:
    """A normal form over other columns, in which sides that were sorted are sorted again."""
    return _sorted_again(_replaced(form, columns))


def columns_in(form: Form) -> frozenset[object]:
    """The ids of all columns in a normal form."""
    if form[:1] == (COLUMN,):
        return frozenset(form[1:2])
    inner = (columns_in(each) for each in form if isinstance(each, tuple))
    return frozenset().union(*inner)


@lru_cache(maxsize=8192)
def spelled_once(expression: Expression) -> exp.Expr | None:
    """The tree of an expression in its one spelling; None if it may fail for a row."""
    return spelled(expression)


@lru_cache(maxsize=8192)
def _form(expression: Expression, spelling: Spelling) -> Form:
    if spelling == "as-written":
        return _of_tree(tree_of(expression), ordered=may_fail(expression))
    tree = spelled_once(expression)
    if tree is None:
        return _of_tree(tree_of(expression), ordered=True)
    return _reduced(_of_tree(tree, ordered=False))


def _reduced(form: Form) -> Form:
    """A form without AND and OR of one part, or of parts of the same kind, from inside out.

    p AND (p OR FALSE) has two parts until it is known that p OR FALSE is p.
    """
    parts = tuple(_reduced(each) if isinstance(each, tuple) else each for each in form)
    if parts[1:2] != (ANY_ORDER,):
        return parts
    sides = parts[2:]
    if parts[0] in ("And", "Or"):
        several = [each for each in sides if isinstance(each, tuple)]
        flat = (each[2:] if each[:2] == parts[:2] else (each,) for each in several)
        first, *others = {each for each in chain.from_iterable(flat) if isinstance(each, tuple)}
        if not others:
            return first
        sides = (first, *others)
    return (*parts[:2], *sorted(sides, key=repr))


def _called(form: Form, predicate: Expression) -> tuple[ScalarFunction, ...]:
    """The functions of users in one part of a predicate."""
    if not predicate.functions:
        return ()
    names = set(_names(form))
    return tuple(each for each in predicate.functions if each.name in names)


def _names(form: Form) -> Iterator[str]:
    for each in form:
        if isinstance(each, tuple):
            yield from _names(each)
        elif isinstance(each, str):
            yield each.lower()


def _of_tree(tree: exp.Expr, *, ordered: bool) -> Form:
    node = tree.unnest()
    if isinstance(node, exp.Column):
        first, *path = node.parts
        return (COLUMN, first.name, *(part.name for part in path))
    if isinstance(node, exp.And | exp.Or) and not ordered:
        return (type(node).__name__, ANY_ORDER, *_flat(node, type(node)))
    children = {
        name: _of_value(value, ordered=ordered)
        for name, value in node.args.items()
        if value is not None and value is not False and value != []
    }
    if isinstance(node, _SYMMETRIC):
        return (type(node).__name__, ANY_ORDER, children["this"], children["expression"])
    if type(node) in _MIRRORED:
        return (_MIRRORED[type(node)], children["expression"], children["this"])
    if isinstance(node, exp.LT | exp.LTE):
        return (type(node).__name__, children["this"], children["expression"])
    if isinstance(node, exp.In) and all(isinstance(each, exp.Literal) for each in node.expressions):
        values = sorted({_of_tree(each, ordered=ordered) for each in node.expressions}, key=repr)
        children["expressions"] = tuple(values)
    return (type(node).__name__, *sorted(children.items()))


def _of_value(value: object, *, ordered: bool) -> object:
    if isinstance(value, exp.Expr):
        return _of_tree(value, ordered=ordered)
    if isinstance(value, list):
        return tuple(_of_value(each, ordered=ordered) for each in value)
    return value if isinstance(value, str | bool | int) else repr(value)


def _flat(node: exp.Expr, kind: type[exp.Expr]) -> list[Form]:
    """The parts of `a AND (b AND c)`, none of which may fail."""
    found: list[Form] = []
    for side in (node.this.unnest(), node.expression.unnest()):
        if isinstance(side, kind):
            found += _flat(side, kind)
        else:
            found.append(_of_tree(side, ordered=False))
    return found


def _replaced(form: Form, columns: Mapping[str, int] | Mapping[int, int]) -> Form:
    if form[:1] == (COLUMN,):
        return (COLUMN, columns[form[1]], *form[2:])  # type: ignore[index]
    return tuple(_replaced(each, columns) if isinstance(each, tuple) else each for each in form)


def _sorted_again(form: Form) -> Form:
    parts = tuple(_sorted_again(each) if isinstance(each, tuple) else each for each in form)
    if parts[1:2] != (ANY_ORDER,):
        return parts
    sides = parts[2:]
    # AND and OR say the same of equal parts as of one; a comparison needs both of its sides.
    kept = set(sides) if parts[0] in ("And", "Or") else sides
    return (*parts[:2], *sorted(kept, key=repr))
