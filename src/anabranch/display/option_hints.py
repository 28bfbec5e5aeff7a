"""Calls with an option that a method does not have get the name that it has here."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from functools import wraps
from types import FunctionType
from typing import Any, Final, NoReturn, ParamSpec, TypeVar

from anabranch.display.foreign_options import CALLED_HERE, EXPLAINED, NOT_HERE, plain
from anabranch.errors import OptionError

C = TypeVar("C", bound=type)
P = ParamSpec("P")
R = TypeVar("R")

_LONGEST: Final = 40


def explains_options(kind: C) -> C:
    """Let all public methods of a class, inherited ones too, explain options that they lack.

    The class gets its own copies of inherited methods; calls cost a frame more.
    """
    for name in dir(kind):
        found = inspect.getattr_static(kind, name)
        if isinstance(found, FunctionType) and (name == "__init__" or not name.startswith("_")):
            called = kind.__name__ if name == "__init__" else f"{_variable(kind)}.{name}"
            setattr(kind, name, explained(called)(found))
    return kind


def explained(called: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let a function explain options that it lacks; `called` is how users call it."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def call(*given: P.args, **options: P.kwargs) -> R:
            try:
                return function(*given, **options)
            except TypeError as problem:
                # The body of the function adds a frame; without one the call itself is wrong.
                if problem.__traceback__ is not None and problem.__traceback__.tb_next is None:
                    _refuse(function, called, given, options)
                raise

        return call

    return decorate


def _refuse(
    function: Callable[..., Any], called: str, given: Sequence[Any], options: dict[str, Any]
) -> None:
    """Raise what is wrong with a call, if it is its options."""
    parameters = [
        each
        for name, each in inspect.signature(function).parameters.items()
        if name != "self" and each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)
    ]
    names = [each.name for each in parameters]
    for name, value in options.items():
        if name not in names:
            _unknown(name, value, called, names)
    in_order = [each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
    by_name = [each.name for each in parameters if each.kind is each.KEYWORD_ONLY]
    surplus = len(given) - len(in_order) - ("self" in inspect.signature(function).parameters)
    if surplus > 0 and by_name:
        raise OptionError(
            f"{called} takes {_count(len(in_order))} without a name",
            where=f"{called}({', '.join([*in_order, *map(_short, given[-surplus:])])})",
            hint=f"name the options: {by_name[0]}=...; options are: {', '.join(by_name)}",
        ) from None


def _unknown(name: str, value: Any, called: str, names: Sequence[str]) -> NoReturn:
    raise OptionError(
        f"{called} has no option '{name}'",
        where=f"{called}(..., {name}={_short(value)})",
        hint=_advice(name, value, names),
    ) from None


def _advice(name: str, value: Any, names: Sequence[str]) -> str:
    options = f"options are: {', '.join(names)}" if names else "it has no options"
    same = [each for each in names if plain(each) == plain(name)]
    ours = [each for each in CALLED_HERE.get(plain(name), ()) if each in names]
    if same or ours:
        option = (same or ours)[0]
        example = f"{option}={_short(value)}" if isinstance(value, str | bool) else f"{option}=..."
        if option in EXPLAINED:
            return f"it is called {option} here: {EXPLAINED[option]}"
        return f"write {example}"
    if plain(name) in NOT_HERE:
        return NOT_HERE[plain(name)]
    near = get_close_matches(name.lower(), names, 1)
    return f"did you mean '{near[0]}'? {options}" if near else options


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _count(number: int) -> str:
    return f"{number} argument" if number == 1 else f"{number} arguments"


def _variable(kind: type) -> str:
    """How a value of a class is called in examples: `Engine` and `WindowedStream`."""
    words = {"WindowedStream": "windows", "GroupedStream": "groups", "LocalRun": "run"}
    return words.get(kind.__name__, kind.__name__.lower())
