"""Long arguments are evaluated once, however often the text of a function names them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from anabranch.expressions.functions.value import Build, Value

LONG: Final = 160
_NAMES: Final = re.compile(r"\by([0-9]+)\b")


def shared(values: Sequence[Value], build: Build, *, long: int = LONG) -> Value | None:
    """What a function makes of its arguments, where those with a long text have a name.

    Texts inside texts would grow exponentially. DuckDB has no `let`, but a function over a list
    of one element is one: `list_transform([x], lambda y1: y1 + y1)[1]`. All arguments are
    evaluated, so this is not for functions that choose.
    """
    if all(len(value.text) < long for value in values):
        return build(values)
    used = [int(number) for value in values for number in _NAMES.findall(value.text)]
    first = max(used, default=0) + 1
    names = [
        f"y{first + index}" if len(value.text) >= long else value.text
        for index, value in enumerate(values)
    ]
    found = build([replace(value, text=name) for value, name in zip(values, names)])
    if found is None:
        return None
    text = found.text
    for value, name in zip(values, names):
        if value.text == name:
            continue
        pattern = re.compile(rf"\b{name}\b")
        if len(pattern.findall(text)) > 1:
            text = f"list_transform([{value.text}], lambda {name}: {text})[1]"
        else:
            text = pattern.sub(lambda _, inner=value.text: inner, text)  # type: ignore[misc]
    return replace(found, text=text)
