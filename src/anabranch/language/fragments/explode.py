"""Arrays that are made rows, as users write them: `items AS item`."""

from __future__ import annotations

from anabranch.algebra.forms.explode import Explode
from anabranch.algebra.node import Node
from anabranch.expressions.expression import Expression, ParseScalar
from anabranch.language.text.aggregate_text import parse_column


def parse_explode(
    text: str,
    over: Node,
    parse: ParseScalar = Expression.parse,
    position: str | None = None,
    outer: bool = False,
) -> Explode:
    """The node that makes a row of every item.

    Raises:
        QueryError: The text is no expression, or has no name.
        PlanError: It is not an array, or its name is taken.
    """
    name, argument = parse_column(text, over.schema, parse)
    if argument.is_column == name:
        name = f"{name}_item"
    return Explode(input=over, argument=argument, name=name, position=position, outer=outer)
