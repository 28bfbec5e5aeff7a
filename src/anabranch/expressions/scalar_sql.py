"""The text of one scalar expression, parsed and bound to a schema."""

from __future__ import annotations

import difflib
import re
from collections.abc import Container, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, final

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from anabranch.errors import QueryError
from anabranch.expressions.duckdb_sql import SparkOnlyError, WrongCallError, translate
from anabranch.expressions.functions.every import FUNCTIONS
from anabranch.expressions.functions.lambdas import LAMBDAS
from anabranch.expressions.functions.literals import TYPES_BY_NAME
from anabranch.expressions.functions.names import AGGREGATES, GENERATORS, SCALARS, WINDOW_FUNCTIONS
from anabranch.expressions.functions.value import Value
from anabranch.expressions.refusals import UNSTABLE, why_not_scalar
from anabranch.expressions.scalar_function import ScalarFunction
from anabranch.expressions.spark_text import Written, intervals, is_unit_of, rewrite, strict

DIALECT: Final = "spark"

IN_WORKERS: Final = frozenset((*FUNCTIONS, *LAMBDAS, "struct", "named_struct", *TYPES_BY_NAME))
"""Functions that workers evaluate, for some arguments at least."""

ACCEPTED_FUNCTIONS: Final = IN_WORKERS | SCALARS
"""Functions that workers or Spark evaluate."""


_RESERVED: Final = ACCEPTED_FUNCTIONS | AGGREGATES | GENERATORS | WINDOW_FUNCTIONS | UNSTABLE


@lru_cache(maxsize=1024)
def is_reserved(name: str) -> bool:
    """Whether SQL reads a call of this name as something of its own."""
    if name.lower() in _RESERVED:
        return True
    try:
        trees = [
            sqlglot.parse_one(text, dialect=DIALECT, into=exp.Condition)
            for text in (f"{name}(a)", f"{name}(a, b)")
        ]
    except ParseError:
        return True
    return not all(isinstance(tree, exp.Anonymous) for tree in trees)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ScalarSql:
    """An expression whose columns are known: as canonical text, and as a worker evaluates it.

    In the text for DuckDB the column at position i of the schema is called `__c<i>`. `why_not`
    says why there is none, if Spark alone evaluates the expression.
    """

    sql: str
    value: Value | None
    why_not: SparkOnlyError | None
    columns: frozenset[str]
    is_column: str | None
    functions: tuple[ScalarFunction, ...] = ()


def bind(text: str, schema: pa.Schema, functions: Sequence[ScalarFunction] = ()) -> ScalarSql:
    """Parse one scalar expression and find its columns, and which of the functions it calls.

    Raises:
        QueryError: the text is no scalar expression, names an unknown column, or may give
            different answers for one row.
    """
    own = {each.name: each for each in functions}
    tree = rewrite(_parse(text), intervals)
    _refuse_what_is_not_scalar(tree, text, own)
    called = {node.name.lower() for node in tree.find_all(exp.Anonymous)}
    columns: set[str] = set()

    def spell(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column):
            return node
        if is_unit_of(node):
            return exp.var(node.name)
        name = _resolve(node, schema, text)
        columns.add(name)
        return _path([name, *(part.name for part in node.parts[1:])])

    tree = rewrite(rewrite(tree, strict), spell)
    value, why_not = None, None
    try:
        value = None if isinstance(tree, exp.Column) else translate(tree, schema, own)
    except SparkOnlyError as reason:
        why_not = reason
    except WrongCallError as problem:
        where = _at_call(problem.name, text)
        raise QueryError(problem.what, where=where, hint=problem.hint) from None
    return ScalarSql(
        sql=tree.sql(dialect=DIALECT, comments=False),
        value=value,
        why_not=why_not,
        columns=frozenset(columns),
        is_column=tree.name if isinstance(tree, exp.Column) else None,
        functions=tuple(each for each in functions if each.name in called),
    )


def point_at(text: str, start: int, end: int) -> str:
    r"""The line of a text that holds a span, and carets below the span.

    >>> print(point_at("price > 1\n AND prize < 2", 15, 20))
    line 2, column 6:   AND prize < 2
                            ^^^^^
    """
    line_start = text.rfind("\n", 0, start) + 1
    line = text[line_start:].split("\n", 1)[0].replace("\t", " ")
    column = start - line_start
    label = f"line {text.count(chr(10), 0, start) + 1}, column {column + 1}:  "
    carets = "^" * max(min(end, line_start + len(line)) - start, 1)
    return f"{label}{line}\n{' ' * (len(label) + column)}{carets}"


def did_you_mean(name: str, names: list[str], what: str = "columns") -> str:
    """A hint that lists the names there are, the likely one first."""
    lower = {each.lower(): each for each in names}
    near = difflib.get_close_matches(name.lower(), list(lower), n=1)
    names_text = f"{what} are: {', '.join(names)}" if names else f"there are no {what}"
    return f"did you mean '{lower[near[0]]}'? {names_text}" if near else names_text


def _parse(text: str) -> exp.Expr:
    if not text.strip():
        raise QueryError("the expression is empty", hint="write something like price * 2 > 80")
    try:
        tree = sqlglot.parse_one(text, dialect=Written, into=exp.Condition)
    except ParseError as error:
        raise _syntax_error(text, error) from None
    except TokenError:
        raise QueryError(
            "the text cannot be split into tokens",
            where=point_at(text, 0, len(text)),
            hint="look for a quote that is never closed",
        ) from None
    assert isinstance(tree, exp.Expr)
    return tree.unnest()


def _syntax_error(text: str, error: ParseError) -> QueryError:
    first = error.errors[0] if error.errors else {}
    word = str(first.get("highlight") or "")
    line, column = int(first.get("line") or 1), int(first.get("col") or 1)
    line_start = sum(len(part) + 1 for part in text.split("\n")[: line - 1])
    end = line_start + column
    start = max(end - len(word), line_start)
    if str(first.get("description", "")).startswith("Required"):
        what = f"something is missing at '{word}'"
    else:
        what = f"'{word}' is not expected here"
    hint = "write one scalar expression, such as price * 2 > 80"
    return QueryError(what, where=point_at(text, start, end), hint=hint)


def _refuse_what_is_not_scalar(tree: exp.Expr, text: str, own: Container[str]) -> None:
    for node in tree.walk():
        refusal = why_not_scalar(node)
        if refusal:
            what, hint, word = refusal
            at = re.search(word, text, re.IGNORECASE)
            start, end = at.span() if at else (0, len(text))
            raise QueryError(what, where=point_at(text, start, end), hint=hint)
        name = node.name.lower() if isinstance(node, exp.Anonymous) else None
        if name is not None and name not in ACCEPTED_FUNCTIONS and name not in own:
            raise _no_such_function(name, text)


def _no_such_function(name: str, text: str) -> QueryError:
    near = difflib.get_close_matches(name, sorted(ACCEPTED_FUNCTIONS), n=3)
    hint = (
        f"did you mean {' or '.join(near)}?"
        if near
        else "see the list of functions; a Python function, also one of spark.udf.register, can be "
        "called after engine.register(ab.udf(function))"
    )
    what = f"there is no function '{name}'"
    return QueryError(what, where=_at_call(name, text), hint=hint)


def _at_call(name: str, text: str) -> str:
    at = re.search(rf"(?<![\w`]){re.escape(name)}(?=\s*`?\s*\()", text, re.IGNORECASE)
    start, end = at.span() if at else (0, len(text))
    return point_at(text, start, end)


def _resolve(column: exp.Column, schema: pa.Schema, text: str) -> str:
    """The name of the payload column a reference begins with (`a` of `a.b.c`)."""
    parts = column.parts
    name = parts[0].name
    if name in schema.names:
        found = [name]
    else:
        found = [each for each in schema.names if each.lower() == name.lower()]
    where = _point_at(parts[0], text)
    if len(found) > 1:
        hint = f"write one of {', '.join(found)} exactly"
        raise QueryError(f"column '{name}' is ambiguous", where=where, hint=hint)
    if not found:
        hint = did_you_mean(parts[-1].name, list(schema.names))
        raise QueryError(f"there is no column '{name}'", where=where, hint=hint)
    kind = schema.field(found[0]).type
    for part in parts[1:]:
        kind = _field_type(kind, part, text)
    return found[0]


def _field_type(kind: pa.DataType, part: exp.Expr, text: str) -> pa.DataType:
    fields = [kind.field(i) for i in range(kind.num_fields)] if pa.types.is_struct(kind) else []
    for field in fields:
        if field.name.lower() == part.name.lower():
            return field.type
    where = _point_at(part, text)
    hint = did_you_mean(part.name, [field.name for field in fields], "fields")
    raise QueryError(f"there is no field '{part.name}' in {kind}", where=where, hint=hint)


def _point_at(node: exp.Expr, text: str) -> str:
    return point_at(text, node.meta.get("start", 0), node.meta.get("end", len(text) - 1) + 1)


def _path(parts: list[str]) -> exp.Expr:
    """`a.b.c` as field c of field b of column a."""
    first, *rest = [exp.to_identifier(part, quoted=not _is_plain(part)) for part in parts]
    path: exp.Expr = exp.Column(this=first)
    for part in rest:
        path = exp.Dot(this=path, expression=part)
    return path


@lru_cache(maxsize=4096)
def _is_plain(name: str) -> bool:
    """Whether a name is understood as a name without quotes."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        return False
    try:
        tree = sqlglot.parse_one(f"{name} + {name}", dialect=DIALECT, into=exp.Condition)
    except ParseError:
        return False
    return tree == exp.Add(this=exp.column(name), expression=exp.column(name))
