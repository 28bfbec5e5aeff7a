"""Functions that take a function: `transform(tags, tag -> upper(tag))`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, final

import pyarrow as pa

from anabranch.expressions.functions.value import BOOLEAN, Value, is_array

Body = Callable[[Sequence[Value]], "Value | None"]
"""What a function makes of the values of its variables."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Lambda:
    """A function written as an argument: the names of its variables, and its body."""

    names: tuple[str, ...]
    body: Body


def apply(name: str, array: Value, function: Lambda) -> Value | None:
    """One of `LAMBDAS` over an array; None if it is not for these."""
    if not is_array(array.type) or len(function.names) != 1:
        return None
    variable = Value(text=function.names[0], type=array.type.value_type)
    found = function.body([variable])
    if found is None:
        return None
    each = f"lambda {variable.text}: {found.text}"
    fails = array.fails or found.fails
    if name == "transform":
        text = f"list_transform({array.text}, {each})"
        return Value(text=text, type=pa.list_(found.type), fails=fails)
    if found.type != BOOLEAN:
        return None
    if name == "filter":
        return Value(text=f"list_filter({array.text}, {each})", type=array.type, fails=fails)
    answers = f"list_transform({array.text}, {each})"
    decisive, other = ("true", "false") if name == "exists" else ("false", "true")
    text = (
        f"(CASE WHEN {array.text} IS NULL THEN NULL"
        f" WHEN list_contains({answers}, {decisive}) THEN {decisive}"
        f" WHEN len(list_filter({answers}, lambda answer: answer IS NULL)) > 0 THEN NULL"
        f" ELSE {other} END)"
    )
    # Spark stops at the element that decides, which hides failures behind it.
    return None if found.fails else Value(text=text, type=BOOLEAN, fails=fails)


LAMBDAS: Final = ("transform", "filter", "exists", "forall")
