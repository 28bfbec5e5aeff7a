"""`@udf`: a Python function that any expression can call."""

from __future__ import annotations

import inspect
import re
import uuid
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final, TypeAlias, overload

import pyarrow as pa

from anabranch.errors import PlanError
from anabranch.expressions.functions.value import type_in_spark
from anabranch.expressions.scalar_function import ScalarFrame, ScalarFunction
from anabranch.expressions.scalar_sql import is_reserved
from anabranch.userops.types import UnknownTypeError, form_of

TypeSaid: TypeAlias = type | str | pa.DataType
"""A type: of Python (`float`), in SQL (`"DECIMAL(10, 2)"`), or of Arrow."""

_FRAMES: Final = ("python", "arrow", "pandas")
_TYPES_HINT: Final = (
    "write bool, int, float, str, bytes, date or datetime, or a type of SQL: "
    '@udf(takes=["DECIMAL(10, 2)"], returns="STRING")'
)


@overload
def udf(function: Callable[..., Any], /) -> ScalarFunction: ...


@overload
def udf(
    *,
    name: str | None = None,
    takes: Sequence[TypeSaid] | None = None,
    returns: TypeSaid | None = None,
    frame: ScalarFrame = "python",
    nulls: bool = False,
    deterministic: bool = True,
) -> Callable[[Callable[..., Any]], ScalarFunction]: ...


def udf(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    takes: Sequence[TypeSaid] | None = None,
    returns: TypeSaid | None = None,
    frame: ScalarFrame = "python",
    nulls: bool = False,
    deterministic: bool = True,
) -> ScalarFunction | Callable[[Callable[..., Any]], ScalarFunction]:
    """Make a function one that expressions can call, once an engine knows it.

    It must give the same for the same arguments, at any time and in any process, unless it says
    otherwise (`deterministic=False`). Python can still call it as before.

    Args:
        function: One value per argument, and a value back.
        name: What queries call it; None: its own name. Case does not count.
        takes: The types of the arguments; None: its annotations.
        returns: The type of its values; None: its annotation.
        frame: What it is called with: `python`: the values of one row. `arrow`: whole columns as
            Arrow arrays, and one is given back. `pandas`: the same with series.
        nulls: It wants to see NULL, as None. Otherwise NULL in gives NULL out.
        deterministic: False for what asks a clock, a service or a random number. It is then called
            once per row, in projections and conditions over streams that are never corrected, and
            the optimizer moves nothing past it. A batch that is repeated after a crash calls it
            again.

    Raises:
        PlanError: Types are missing or not known, or the name is taken by SQL.

    >>> @udf
    ... def celsius(f: float) -> float:
    ...     return (f - 32) / 1.8
    >>> celsius.signature, celsius(212.0)
    ('celsius(f DOUBLE) -> DOUBLE', 100.0)
    """

    def made(code: Callable[..., Any]) -> ScalarFunction:
        called = _name(code, name)
        parameters, annotated = _annotations(code, called, takes)
        kinds = takes if takes is not None else [annotated.get(each) for each in parameters]
        if frame not in _FRAMES:
            hint = f"frames are: {', '.join(_FRAMES)}"
            raise PlanError(f"there is no frame '{frame}'", where=_where(called), hint=hint)
        gives = returns if returns is not None else annotated.get("return")
        return ScalarFunction(
            name=called,
            takes=tuple(
                (each, _type(kind, f"the argument '{each}'", called))
                for each, kind in zip(parameters, kinds)
            ),
            returns=_type(gives, "what it returns", called),
            frame=frame,
            nulls=nulls,
            deterministic=deterministic,
            identity=uuid.uuid4().hex,
            code=code,
        )

    return made if function is None else made(function)


def _name(code: Callable[..., Any], given: str | None) -> str:
    if not callable(code):
        raise PlanError(
            f"{code!r} cannot be called",
            where="@udf",
            hint="put @udf above a function; pass options by name: @udf(name=...)",
        )
    declared = given if given is not None else getattr(code, "__name__", "")
    name = declared.lower()
    if not re.fullmatch(r"[a-z_][a-z0-9_]*", name):
        raise PlanError(
            f"'{declared}' is not a valid name for a function",
            where="@udf",
            hint="give it one of letters, digits and underscores: @udf(name='...')",
        )
    if is_reserved(name):
        raise PlanError(
            f"SQL has a function '{name}' of its own",
            where=_where(name),
            hint=f"give yours another name: @udf(name='my_{name}')",
        )
    if inspect.iscoroutinefunction(code) or inspect.isgeneratorfunction(code):
        raise PlanError(
            f"'{name}' does not return a value when it is called",
            where=_where(name),
            hint="write a plain function: no async, no yield",
        )
    return name


def _annotations(
    code: Callable[..., Any], name: str, takes: Sequence[TypeSaid] | None
) -> tuple[list[str], dict[str, Any]]:
    """The names of the arguments, and what is said of their types."""
    try:
        signature = inspect.signature(code, eval_str=takes is None)
    except (ValueError, TypeError, NameError, SyntaxError) as problem:
        if takes is None:
            raise PlanError(
                f"the types of '{name}' cannot be determined: {problem}",
                where=_where(name),
                hint="name them: @udf(takes=[float], returns=float)",
            ) from None
        return [f"argument{number}" for number in range(1, len(takes) + 1)], {}
    annotated = {
        each.name: each.annotation
        for each in signature.parameters.values()
        if each.annotation is not inspect.Parameter.empty
    }
    if signature.return_annotation is not inspect.Signature.empty:
        annotated["return"] = signature.return_annotation
    names = [each.name for each in signature.parameters.values() if _is_plain(each)]
    odd = [each for each in signature.parameters.values() if not _is_plain(each)]
    if odd:
        raise PlanError(
            f"an expression cannot pass the parameter '{odd[0]}' of '{name}'",
            where=_where(name),
            hint="every argument is passed by position: no *args, no keywords, no defaults",
        )
    if takes is not None and len(takes) != len(names):
        raise PlanError(
            f"'{name}' has {len(names)} parameters but {len(takes)} types",
            where=_where(name),
            hint="name one type per parameter: @udf(takes=[...])",
        )
    if not names:
        raise PlanError(
            f"'{name}' has no parameters",
            where=_where(name),
            hint="its value would be the same for all rows: write it into the query",
        )
    return names, annotated


def _is_plain(parameter: inspect.Parameter) -> bool:
    by_number = (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    return parameter.kind in by_number and parameter.default is parameter.empty


def _type(declared: Any, what: str, name: str) -> pa.DataType:
    if declared is None:
        raise PlanError(f"{what} has no type", where=_where(name), hint=_TYPES_HINT)
    try:
        found, _ = form_of(declared)
    except UnknownTypeError as problem:
        wrong = str(problem) if isinstance(declared, str) else _has_none(declared, what)
        hint = _TYPES_HINT
        if declared is Decimal:
            hint = 'give the precision: @udf(returns="DECIMAL(10, 2)")'
        raise PlanError(wrong, where=_where(name), hint=hint) from None
    kind = type_in_spark(found) if isinstance(found, pa.DataType) else None
    if kind is None or pa.types.is_null(kind):
        raise PlanError(_has_none(declared, what), where=_where(name), hint=_TYPES_HINT)
    return kind


def _has_none(declared: Any, what: str) -> str:
    return f"{what} has no SQL type: {getattr(declared, '__name__', str(declared))}"


def _where(name: str) -> str:
    return f"@udf {name}"
