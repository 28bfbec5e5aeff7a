"""The decorators that declare user operators: `@ab.uda` for aggregates, `@ab.udo` for operators."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, ParamSpec, TypeVar, final, overload

from anabranch.algebra.modules.results import OperatorCallError, typed_values
from anabranch.algebra.modules.user_operator import Frame, Kind, Property
from anabranch.userops.answers import ResultMaker
from anabranch.userops.declaration import NOTHING, Argument, Declaration, EventForm, Given
from anabranch.userops.decorated_operator import DecoratedOperator
from anabranch.userops.definition import Definition
from anabranch.userops.frame_code import TIMES, reserved
from anabranch.userops.reading import AnnotationReader
from anabranch.userops.types import names_in

P = ParamSpec("P")
R = TypeVar("R")

_FRAMES: Final = ("python", "arrow", "pandas", "polars")
_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What stands in the parentheses of a decorator."""

    name: str | None = None
    version: int = 1
    deterministic: bool = True
    group_filter: bool = True
    ordered: bool = False
    takes: Mapping[str, Any] = field(default_factory=dict)
    returns: Any = None
    frame: Frame = "python"
    time_sensitive: bool = False
    own_times: bool = False
    empty: Any = NOTHING

    @property
    def properties(self) -> frozenset[Property]:
        """What is declared."""
        every: tuple[Property, ...] = ("deterministic", "group_filter", "ordered")
        return frozenset(name for name in every if getattr(self, name))


@overload
def uda(target: Callable[P, R], /) -> DecoratedOperator[P, R]: ...


@overload
def uda(**options: Any) -> Callable[[Callable[P, R]], DecoratedOperator[P, R]]: ...


def uda(target: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Declare an aggregate: all events of a window become one value.

    >>> @uda
    ... def spread(prices: list[float]) -> float | None:
    ...     return max(prices) - min(prices) if prices else None
    >>> spread.signature
    'spread(prices DOUBLE) -> DOUBLE'
    >>> spread([3.0, 1.0])
    2.0

    Parameters that a query sets stand behind a `*`. A parameter `events: list[ab.Event[float]]`
    shows lifetimes, and `window: ab.Window` the window. A class with `initial`, `add`, `remove` and
    `compute` keeps a state. NULLs do not count, unless a type says `| None`.

    Args:
        target: A function, or a class with `compute`.
        options: `name`, `version` of the state, `takes` and `returns` where annotations do not say
            it; `deterministic`, `group_filter`, `ordered`: what it promises;
            `empty`: what it gives where there are no events; `frame`, `time_sensitive`: for
            functions that get a table.

    Raises:
        PlanError: The declaration does not say what it must.
    """
    return _decorator("uda", target, options)


@overload
def udo(target: Callable[P, R], /) -> DecoratedOperator[P, R]: ...


@overload
def udo(**options: Any) -> Callable[[Callable[P, R]], DecoratedOperator[P, R]]: ...


def udo(target: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Declare an operator: all events of a window become any number of rows, or of events.

    >>> @udo
    ... def steps(prices: list[float]) -> list[float]:
    ...     return [later - price for price, later in zip(prices, prices[1:])]
    >>> steps.signature
    'steps(prices DOUBLE) -> TABLE(steps DOUBLE)'

    Args:
        target: A function, or a class with `compute`.
        options: As of `uda`; and `own_times`: the table that it gives has `start` and `end`.

    Raises:
        PlanError: The declaration does not say what it must.
    """
    return _decorator("udo", target, options)


def _decorator(kind: Kind, target: Callable[..., Any] | None, options: dict[str, Any]) -> Any:
    # Annotations may name what is defined beside the function, not in its file.
    names = sys._getframe(2).f_locals
    try:
        chosen = Options(**options)
    except TypeError as problem:
        raise TypeError(str(problem).replace("Options.__init__()", kind)) from None

    def decorated(found: Callable[..., Any]) -> DecoratedOperator[..., Any]:
        own = getattr(found, "operator_options", {})
        of_both = Options(**{**own, **options}) if own else chosen
        return DecoratedOperator(declared(kind, found, of_both, names), found)

    return decorated if target is None else decorated(target)


def declared(
    kind: Kind, target: Callable[..., Any], options: Options, names: Mapping[str, Any]
) -> Declaration:
    """What a decorated function or class says.

    Raises:
        PlanError: It does not say what it must.
    """
    definition = Definition(target)
    name = options.name or _HUMP.sub("_", target.__name__).lower()
    reader = AnnotationReader(kind, name, definition, names, options.takes, options.returns)
    if not _NAME.fullmatch(name):
        raise reader.wrong(
            f"'{name}' is not a valid name", "use letters, digits and _: name='my_module'"
        )
    if type(options.version) is not int or options.version < 1:
        raise reader.wrong(
            f"{options.version!r} is not a valid version", "use whole numbers, 1 or more"
        )
    if options.frame not in _FRAMES:
        raise reader.wrong(f"there is no frame '{options.frame}'", f"use: {', '.join(_FRAMES)}")
    if options.frame != "python":
        made = _framed(reader, options)
    elif isinstance(target, type):
        made = _of_class(reader, target)
    else:
        formals = reader.formals(target)
        asked = [each for each in formals if each.kind == each.KEYWORD_ONLY]
        made = {
            "seen": reader.seen(formals),
            "given": reader.given(target),
            "parameters": reader.parameters(asked),
        }
    found = Declaration(
        kind=kind,
        name=name,
        definition=definition,
        properties=options.properties,
        version=options.version,
        **made,
    )
    _check_open(reader, found)
    return _with_empty(reader, found, options.empty)


def _of_class(reader: AnnotationReader, target: Any) -> dict[str, Any]:
    """A class: with a state, or with `compute` alone."""
    if not callable(getattr(target, "compute", None)):
        raise reader.wrong("the class has no compute", "for example: " + _CLASS)
    made: dict[str, Any] = {"parameters": _made_with(reader, target), "incremental": False}
    compute = reader.formals(target.compute, bound=1)
    made["given"] = reader.given(target.compute)
    has = [name for name in ("initial", "add") if callable(getattr(target, name, None))]
    if len(has) == 1:
        other = "add" if has == ["initial"] else "initial"
        raise reader.wrong(f"the class has {has[0]} but no {other}", "for example: " + _CLASS)
    if not has:
        return {**made, "seen": reader.seen(compute)}
    if not 1 <= len(compute) <= 2:
        raise reader.wrong(
            "compute must take the state, and may take the window",
            "for example: def compute(self, state, window: ab.Window) -> float",
        )
    seen = reader.seen_one(reader.formals(target.add, bound=2))
    removes = callable(getattr(target, "remove", None))
    if removes and len(reader.formals(target.remove, bound=2)) != len(
        reader.formals(target.add, bound=2)
    ):
        raise reader.wrong("remove and add take different values", "give both the same parameters")
    window = "window" if len(compute) == 2 else None
    seen = EventForm(seen.arguments, seen.events, seen.tupled, window)
    return {**made, "seen": seen, "incremental": True, "removes": removes}


_CLASS: Final = (
    "class Mean with initial(self), add(self, state, value: float), remove(self, state, value) and "
    "compute(self, state) -> float; or with compute(self, values: list[float]) -> float alone"
)


def _made_with(reader: AnnotationReader, target: Any) -> Any:
    """The parameters of a class: what its objects are made with."""
    if target.__init__ is object.__init__:
        return ()
    return reader.parameters(reader.formals(target.__init__, bound=1))


def _framed(reader: AnnotationReader, options: Options) -> dict[str, Any]:
    """A function or class that gets a table of all windows."""
    target: Any = reader.definition.target
    of_class = isinstance(target, type)
    compute = getattr(target, "compute", None) if of_class else target
    if compute is None:
        raise reader.wrong("the class has no compute", "for example: def compute(self, table)")
    if options.returns is None:
        raise reader.wrong(
            "a module on tables must declare the columns that it takes and returns",
            "for example: @ab.uda(frame='arrow', takes={'price': float}, returns=float)",
        )
    taken_names = [name for name in reserved(options.time_sensitive) if name in options.takes]
    if taken_names:
        raise reader.wrong(
            f"no argument can be called '{taken_names[0]}', which is a reserved column",
            "give it another name",
        )
    takes = tuple(
        Argument(name, *reader.form(kind, f"the argument '{name}'"))
        for name, kind in options.takes.items()
    )
    formals = reader.formals(compute, bound=1 if of_class else 0)
    if not formals or (of_class and len(formals) > 1):
        raise reader.wrong("it must take the table", "for example: def compute(self, table)")
    given = reader.given(compute)
    if options.own_times:
        if reader.kind == "uda":
            raise reader.wrong("an aggregate cannot set lifetimes", "declare it as udo")
        given = Given(given.columns, given.single, True)
    clash = [name for name, _ in given.columns if name in (reserved(False) + TIMES)]
    if clash:
        raise reader.wrong(f"no result can be called '{clash[0]}'", "give it another name")
    return {
        "seen": EventForm(takes, window="window" if options.time_sensitive else None),
        "given": given,
        "parameters": _made_with(reader, target) if of_class else reader.parameters(formals[1:]),
        "frame": options.frame,
    }


def _check_open(reader: AnnotationReader, found: Declaration) -> None:
    """What it gives must be known once its arguments are."""
    if not found.seen.arguments and found.frame == "python":
        raise reader.wrong("it takes no column")
    brought: set[str] = set().union(*(names_in(each.form) for each in found.seen.arguments))
    wanted = [form for _, form in found.given.columns] + [each.form for each in found.parameters]
    for name in set().union(*(names_in(form) for form in wanted)):
        if not name or name not in brought:
            raise reader.wrong(
                f"the type {name or 'Any'} of its result or of a parameter is not determined",
                "name the type, or use a TypeVar that is also the type of a column",
            )


def _with_empty(reader: AnnotationReader, found: Declaration, empty: Any) -> Declaration:
    """The declaration with the values for windows in which nothing counts."""
    if empty is NOTHING:
        return found
    if found.incremental:
        raise reader.wrong(
            "it keeps a state and declares empty",
            "return the result for an empty window from compute",
        )
    if found.given.own_times:
        raise reader.wrong(
            "an operator that sets lifetimes cannot return results for empty windows",
            "leave empty out",
        )
    columns = found.given.columns
    names = tuple(name for name, _ in columns)
    try:
        row = ResultMaker(found.name, found.kind, names, found.given.single, False).row(empty)
        for value, (_, form) in zip(row, columns):
            if not names_in(form):
                typed_values([value], form, "empty is")
    except OperatorCallError as problem:
        raise reader.wrong(problem.reason, "give the result for a window without events") from None
    return replace(found, empty=row)
