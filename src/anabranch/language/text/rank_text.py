"""Ranking functions as users write them: `LAG(price, 2)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pyarrow as pa
from sqlglot import expressions as exp
from sqlglot.errors import SqlglotError

from anabranch.algebra.ranking import RankCall, RankFunction
from anabranch.errors import QueryError
from anabranch.expressions.expression import Expression, ParseScalar
from anabranch.language.text.aggregate_text import parse_text
from anabranch.language.text.types import type_name

RANK_FUNCTIONS: Final[dict[type[exp.Expr], RankFunction]] = {
    exp.RowNumber: "row_number",
    exp.Rank: "rank",
    exp.DenseRank: "dense_rank",
    exp.Lag: "lag",
    exp.Lead: "lead",
}
_HINT: Final = "write ROW_NUMBER(), RANK(), DENSE_RANK(), LAG(x) or LEAD(x, 2, 0)"


def parse_rank(text: str, schema: pa.Schema, parse: ParseScalar = Expression.parse) -> RankCall:
    """A ranking function over the columns of a schema.

    >>> parse_rank("Lag(a, 2)", pa.schema([("a", pa.int64())])).label
    'lag(a, 2)'

    Raises:
        QueryError: The text is no such function.
    """
    try:
        tree = parse_text(f"SELECT {text} OVER (ORDER BY 1)")
    except SqlglotError:
        raise QueryError(f"'{text.strip()}' is not a ranking function", hint=_HINT) from None
    found = tree.expressions[0] if isinstance(tree, exp.Select) else None
    if not isinstance(found, exp.Window) or type(found.this) not in RANK_FUNCTIONS:
        raise QueryError(f"'{text.strip()}' is not a ranking function", hint=_HINT)

    def bind(part: exp.Expr) -> Expression:
        return parse(part.sql(dialect="spark"), schema)

    return bind_rank(found.this, bind, lambda text: parse(text, schema))


def bind_rank(
    call: exp.Expr, bind: Callable[[exp.Expr], Expression], again: Callable[[str], Expression]
) -> RankCall:
    """A ranking function that was parsed; `bind` reads its parts, `again` a text in their words.

    Raises:
        QueryError: The offset is no number.
        PlanError: The parts do not fit.
    """
    function = RANK_FUNCTIONS[type(call)]
    if function in ("row_number", "rank", "dense_rank"):
        return RankCall(function=function)
    offset, default = call.args.get("offset"), call.args.get("default")
    if offset is not None and not (offset.is_int and not offset.is_string):
        raise QueryError(f"the offset of {function.upper()} must be a number", hint=_HINT)
    argument = bind(call.this)
    other = None if default is None else bind(default)
    if other is not None and other.type != argument.type:
        other = again(f"CAST({other.sql} AS {type_name(argument.type)})")
    return RankCall(
        function=function,
        argument=argument,
        offset=1 if offset is None else int(offset.to_py()),
        default=other,
    )
