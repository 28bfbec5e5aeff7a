"""`MERGE(...)` in FROM: copies of one stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sqlglot import exp

from anabranch.algebra.analysis.canonical import canonical
from anabranch.algebra.merge import Merge, MergePolicy
from anabranch.algebra.node import Node, clock_of
from anabranch.language.names.context import Context
from anabranch.language.names.scope import Item
from anabranch.language.text.window_text import MergeText

_OPTIONS: Final = ("case", "inserts", "adjusts", "lag", "divergence", "compare")


def bind_merge(
    text: MergeText, context: Context, bind: Callable[[exp.Expr], tuple[Node, Item]]
) -> Node:
    """The merge of the streams, under the names they have."""
    bound = [bind(table) for table in text.tables]
    names = [item.name or f"input {number}" for number, (_, item) in enumerate(bound, 1)]
    given: dict[str, str] = {}
    for name, value, span in text.options:
        if name not in _OPTIONS or name in given:
            what = "is given twice" if name in given else "is not an option of MERGE"
            raise context.wrong(f"'{name}' {what}", span, f"options: {', '.join(_OPTIONS)}")
        given[name] = value
    return context.build(text.span, lambda: _merge([n for n, _ in bound], names, given))


def _merge(nodes: list[Node], names: list[str], given: dict[str, str]) -> Node:
    case = given.pop("case", None)
    lag = given.pop("lag", None)
    behind = 0 if lag is None else clock_of(nodes[0]).duration(lag)
    policy = MergePolicy.of(lag=behind, **given)
    inputs = tuple(canonical(node) for node in nodes)
    name = None if case is None else case.lower()
    return Merge(inputs=inputs, names=tuple(names), case=name, policy=policy)  # type: ignore[arg-type]
