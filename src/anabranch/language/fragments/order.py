"""Orders as users write them: `price DESC`, `name NULLS LAST`."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import expressions as exp
from sqlglot.errors import SqlglotError

from anabranch.algebra.top_k import Ordering
from anabranch.errors import QueryError
from anabranch.expressions.expression import Expression, ParseScalar
from anabranch.language.text.aggregate_text import parse_text


def parse_order(text: str, schema: pa.Schema, parse: ParseScalar = Expression.parse) -> Ordering:
    """What is ordered by, whether downwards, and whether NULLs come first, as in Spark.

    >>> schema = pa.schema([("a", pa.int64())])
    >>> [(part.sql, down, nulls) for part, down, nulls in [parse_order("A desc", schema)]]
    [('a', True, False)]

    Raises:
        QueryError: The text is no expression with an order.
    """
    hint = "write an expression, then ASC or DESC: 'price DESC', 'name ASC NULLS LAST'"
    try:
        tree = parse_text(f"SELECT 1 ORDER BY {text}")
    except SqlglotError:
        raise QueryError(f"'{text.strip()}' is not an order", hint=hint) from None
    order = tree.args.get("order")
    parts = order.expressions if order is not None else []
    if len(parts) != 1 or not isinstance(parts[0], exp.Ordered):
        raise QueryError(f"'{text.strip()}' is not one order", hint=hint)
    descending = bool(parts[0].args.get("desc"))
    nulls_first = parts[0].args.get("nulls_first")
    expression = parse(parts[0].this.sql(dialect="spark"), schema)
    return expression, descending, not descending if nulls_first is None else bool(nulls_first)
