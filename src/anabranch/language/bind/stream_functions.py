"""Functions of streams in FROM: what `SHIFT(Bid, 5 MINUTES)` and its like mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final, TypeAlias, final

from sqlglot import exp

from anabranch.algebra.alter_lifetime import AlterLifetime
from anabranch.algebra.analysis.canonical import canonical
from anabranch.algebra.clip import Clip
from anabranch.algebra.forms.cleanse import Cleanse
from anabranch.algebra.forms.coalesce import Coalesce
from anabranch.algebra.forms.from_signed import FromSigned
from anabranch.algebra.forms.split import Split
from anabranch.algebra.forms.to_signed import ToSigned
from anabranch.algebra.node import Node, clock_of
from anabranch.algebra.set_operation import SetOperation
from anabranch.algebra.shift import Shift
from anabranch.algebra.to_stream import ToStream
from anabranch.errors import AnabranchError
from anabranch.language.bind.set_operations import aligned
from anabranch.language.bind.windows import bind_duration
from anabranch.language.names.context import Context
from anabranch.language.names.scope import Item
from anabranch.language.text.stream_dialect import STREAM_FUNCTIONS, TWO_STREAMS
from anabranch.language.text.window_text import Amount, ArgumentText, StreamFunctionText

Bind: TypeAlias = Callable[[exp.Expr], tuple[Node, Item]]
Read: TypeAlias = Callable[[ArgumentText, Node, Context], Any]


@final
@dataclass(frozen=True, slots=True)
class StreamFunction:
    """A function of streams: its parameters in order, how each is read, and what it makes."""

    parameters: Mapping[str, Read]
    make: Callable[..., Node]
    required: tuple[str, ...] = ()


def bind_stream_function(
    text: StreamFunctionText, context: Context, bind: Bind
) -> tuple[Node, Item]:
    """The node of a function, and the entry of FROM that it was applied to.

    Raises:
        QueryError: Arguments are missing, unknown, or make no sense.
    """
    hint = f"write {STREAM_FUNCTIONS[text.name]}"
    bound = [bind(table) for table in text.tables]
    nodes = [node for node, _ in bound]
    _, item = bound[0]
    function = FUNCTIONS[text.name]
    if text.name in TWO_STREAMS:
        if len(nodes) != 2:
            raise context.wrong(f"{text.name} takes two streams", text.span, hint)
        nodes = aligned(nodes, list(text.tables), text.name, context)
        item = Item(name="", own="", columns=item.columns)
    arguments = _arguments(text, function, nodes[0], context, hint)
    return context.build(text.span, lambda: function.make(*nodes, **arguments)), item


def _arguments(
    text: StreamFunctionText, function: StreamFunction, node: Node, context: Context, hint: str
) -> dict[str, Any]:
    names = list(function.parameters)
    if len(text.given) > len(names):
        extra = text.given[len(names)]
        raise context.wrong(f"{text.name} has too many arguments", extra.span, hint)
    found: dict[str, Any] = {}
    for name, argument in [*zip(names, text.given), *text.named]:
        if name not in function.parameters:
            near = get_close_matches(name, names, 1)
            guess = f"did you mean {near[0]}? " if near else ""
            raise context.wrong(
                f"{text.name} has no parameter '{name}'", argument.span, f"{guess}{hint}"
            )
        if name in found:
            raise context.wrong(f"'{name}' is given twice", argument.span, "keep one of them")
        try:
            found[name] = function.parameters[name](argument, node, context)
        except AnabranchError as problem:
            raise context.wrong(problem.what, argument.span, problem.hint) from None
    missing = [name for name in function.required if name not in found]
    if missing:
        raise context.wrong(f"{text.name} needs the argument '{missing[0]}'", text.span, hint)
    return found


def _duration(argument: ArgumentText, over: Node, context: Context) -> int:
    amount = Amount(argument.text.strip(), argument.unit, argument.span)
    return int(bind_duration(amount, over, context))


def _signed_duration(argument: ArgumentText, over: Node, context: Context) -> int:
    """A duration, or one back in time: `-5 MINUTES`."""
    text = argument.text.strip()
    if not text.startswith("-"):
        amount = Amount(text, argument.unit, argument.span).written
        return clock_of(over).distance(amount)
    back = ArgumentText(text.removeprefix("-").strip(), argument.unit, argument.span)
    return -_duration(back, over, context)


def _instant(argument: ArgumentText, over: Node, context: Context) -> Any:
    if argument.unit is not None:
        raise context.wrong(
            f"'{argument.text} {argument.unit}' is not an instant",
            argument.span,
            "write a number, 'forever', or a time such as '2026-11-15 10:00:00'",
        )
    return clock_of(over).instant(argument.text, exact=True)


def _flag(argument: ArgumentText, over: Node, context: Context) -> bool:
    del over
    if argument.text.lower() not in ("true", "false"):
        raise context.wrong(
            f"'{argument.text}' is neither TRUE nor FALSE", argument.span, "write TRUE or FALSE"
        )
    return argument.text.lower() == "true"


def _word(argument: ArgumentText, over: Node, context: Context) -> str:
    del over, context
    return argument.text


def _small_word(argument: ArgumentText, over: Node, context: Context) -> str:
    return _word(argument, over, context).lower()


FUNCTIONS: Final[Mapping[str, StreamFunction]] = {
    "ISTREAM": StreamFunction({}, lambda node: ToStream(input=node, kind="insertions")),
    "DSTREAM": StreamFunction(
        {"anchor": _small_word},
        lambda node, **given: ToStream(input=node, kind="deletions", **given),
    ),
    "RSTREAM": StreamFunction({}, lambda node: ToStream(input=node, kind="snapshots")),
    "COALESCE": StreamFunction({}, lambda node: Coalesce(input=node)),
    "CANONICAL": StreamFunction({}, canonical),
    "SPLIT": StreamFunction(
        {"length": _duration}, lambda node, **given: Split(input=node, **given), ("length",)
    ),
    "SHIFT": StreamFunction(
        {"by": _signed_duration}, lambda node, **given: Shift(input=node, **given), ("by",)
    ),
    "CLIP": StreamFunction(
        {"start": _instant, "end": _instant}, lambda node, **given: Clip(input=node, **given)
    ),
    "LIFETIME": StreamFunction(
        {"duration": _duration, "extend": _duration, "at_most": _duration},
        lambda node, **given: AlterLifetime(input=node, **given),
    ),
    "CLEANSE": StreamFunction({"cut": _flag}, lambda node, **given: Cleanse(input=node, **given)),
    "TO_SIGNED": StreamFunction(
        {"column": _word}, lambda node, **given: ToSigned(input=node, **given)
    ),
    "FROM_SIGNED": StreamFunction(
        {"column": _word}, lambda node, **given: FromSigned(input=node, **given)
    ),
    "MAX_UNION": StreamFunction(
        {}, lambda left, right: SetOperation(kind="max-union", left=left, right=right)
    ),
    "STRICT_DIFFERENCE": StreamFunction(
        {}, lambda left, right: SetOperation(kind="strict difference", left=left, right=right)
    ),
}
"""What each function of streams makes; the names are those of `STREAM_FUNCTIONS`."""
