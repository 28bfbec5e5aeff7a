"""What changes lifetimes by nothing."""

from __future__ import annotations

from anabranch.algebra.alter_lifetime import AlterLifetime
from anabranch.algebra.granularity import Granularity
from anabranch.algebra.node import Node
from anabranch.algebra.shift import Shift


def drop_needless_retiming(node: Node) -> Node | None:
    """Granularity(x, 1) -> x; Shift(x, 0) -> x; AlterLifetime(x, extend by 0) -> x."""
    match node:
        case Granularity(input=x, granule=1):
            return x
        case Shift(input=x, by=0):
            return x
        case AlterLifetime(input=x, extend=0):
            return x
    return None
