"""A bound expression in DuckDB's words, with the meaning it has in Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import duckdb
import pyarrow as pa
from sqlglot import exp

from anabranch.algebra.evaluation import numbered, select
from anabranch.model.batch import no_rows

_MAY_FAIL: Final = (exp.Div, exp.IntDiv, exp.Mod, exp.Cast)


def rewrite(tree: exp.Expr, rule: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """Apply a rule to every node, from the leaves up; what a rule builds is left alone."""
    root = tree.copy()
    for node in reversed(list(root.walk())):
        built = rule(node)
        if built is not node and node.parent is not None:
            node.replace(built)
        elif built is not node:
            root = built
    return root


def strict(node: exp.Expr) -> exp.Expr:
    """Casts and divisions that fail where Spark's do (sqlglot takes Spark for lenient)."""
    if isinstance(node, exp.TryCast) and not node.args.get("safe"):
        return exp.Cast(this=node.this.copy(), to=node.args["to"].copy())
    if isinstance(node, exp.Div):
        return exp.Div(this=node.this.copy(), expression=node.expression.copy(), typed=False)
    return node


def to_duckdb(tree: exp.Expr, schema: pa.Schema) -> str:
    """The text for DuckDB, where the column at position i of the schema is called `__c<i>`."""

    def translate(node: exp.Expr) -> exp.Expr:
        match node:
            case exp.Column():
                return exp.column(f"__c{schema.get_field_index(node.name)}")
            case exp.Dot(expression=exp.Identifier()):
                field = exp.Literal.string(node.expression.name)
                return exp.func("STRUCT_EXTRACT", node.this.copy(), field)
            case exp.Div() | exp.IntDiv() | exp.Mod():
                return _divide(node)
            case exp.Cast():
                return _cast(node, schema)
            case exp.And() | exp.Or():
                return _lazily(node)
            case exp.Floor() | exp.Ceil():
                return _to_whole(node, schema)
            case exp.IsNan():
                return exp.func("COALESCE", node.copy(), exp.false())
            case exp.DayOfWeek():  # of Sunday: 1 in Spark, 0 in DuckDB
                return exp.paren(exp.Add(this=node.copy(), expression=exp.Literal.number(1)))
            case exp.Anonymous() if node.name.lower() == "weekday" and len(node.expressions) == 1:
                monday = exp.func("ISODOW", node.expressions[0].copy())  # 0 in Spark, 1 in DuckDB
                return exp.paren(exp.Sub(this=monday, expression=exp.Literal.number(1)))
            case exp.TsOrDsAdd() | exp.AddMonths():
                return exp.cast(node.copy(), "date")
        return node

    return _text(rewrite(tree, translate))


def _divide(node: exp.Div | exp.IntDiv | exp.Mod) -> exp.Expr:
    """A division that fails for zero, where DuckDB gives infinity or, by version, NULL."""
    divisor = node.expression
    if isinstance(divisor, exp.Literal) and not divisor.is_string and float(divisor.this) != 0:
        return node
    is_zero = exp.EQ(this=exp.paren(divisor.copy()), expression=exp.Literal.number(0))
    failure = exp.func("ERROR", exp.Literal.string("division by zero"))
    return exp.paren(exp.Case().when(is_zero, failure).else_(node.copy()))


def _cast(node: exp.Cast, schema: pa.Schema) -> exp.Expr:
    """A cast to an integer that cuts off what is behind the point, where DuckDB rounds.

    In a text there must be no point at all.
    """
    if not node.to.is_type(*exp.DataType.INTEGER_TYPES):
        return node
    kind = _type_of(node.this, schema)
    if kind is None:
        return node
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return type(node)(this=exp.func("TRUNC", node.this.copy()), to=node.to.copy())
    if not pa.types.is_string(kind):
        return node
    text, digits = exp.func("TRIM", node.this.copy()), exp.Literal.string("[+-]?[0-9]+")
    is_whole = exp.Anonymous(this="REGEXP_FULL_MATCH", expressions=[text, digits])
    is_null = exp.Is(this=node.this.copy(), expression=exp.null())
    case = exp.Case().when(is_null, exp.null()).when(is_whole, node.copy())
    if isinstance(node, exp.TryCast):
        return exp.paren(case.else_(exp.null()))
    what = exp.func("CONCAT", node.this.copy(), exp.Literal.string(" is no whole number"))
    return exp.paren(case.else_(exp.func("ERROR", what)))


def _to_whole(node: exp.Floor | exp.Ceil, schema: pa.Schema) -> exp.Expr:
    """Floor and ceiling of a float are integers in Spark, and those of NaN are 0."""
    kind = _type_of(node.this, schema)
    if kind is None or not pa.types.is_floating(kind) or node.args.get("decimals"):
        return node
    is_nan = exp.func("ISNAN", node.this.copy())
    return exp.Case().when(is_nan, exp.Literal.number(0)).else_(exp.cast(node.copy(), "bigint"))


def _lazily(node: exp.And | exp.Or) -> exp.Expr:
    """AND and OR that look to the right only where the left does not decide, as in Spark.

    DuckDB evaluates both sides for all rows, but the branches of a CASE only where they count:
    without this, `b <> 0 AND a / b > 1` would fail for b = 0.
    """
    if isinstance(node.parent, type(node)):
        return node
    parts = list(node.flatten(unnest=False))
    if not any(part.find(*_MAY_FAIL) for part in parts[1:]):
        return node
    decided = exp.false() if isinstance(node, exp.And) else exp.true()
    case = exp.Case()
    for part in parts[:-1]:
        decides = exp.Is(this=exp.paren(part.copy()), expression=decided.copy())
        case = case.when(decides, decided.copy())
    return case.else_(node.copy())


def _type_of(node: exp.Expr, schema: pa.Schema) -> pa.DataType | None:
    rows = numbered(schema.names, schema, no_rows(schema))
    try:
        return select([_text(node)], rows).column(0).type
    except duckdb.Error:
        # Whatever is wrong is said when the whole expression is tried.
        return None


def _text(tree: exp.Expr) -> str:
    return tree.sql(dialect="duckdb", comments=False)
