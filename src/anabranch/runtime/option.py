"""What an option is: its name, what it takes, and how a value is checked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, NoReturn, final

import pyarrow as pa

from anabranch.errors import PlanError, QueryError
from anabranch.model.clock import read_span

LARGEST: Final = 2**63 - 1
"""The largest count: as many rows or files as can be numbered."""

MOST_SHARDS: Final = 4096
MOST_CORES: Final = 4096
LAST_PORT: Final = 65_535


class UnfitError(Exception):
    """A value is not what an option takes."""


@final
@dataclass(frozen=True, slots=True)
class ValueKind:
    """What an option takes.

    Attributes:
        takes: In words, for messages.
        example: A value that fits, as Python writes it.
        check: Gives the value back, or raises `UnfitError`.
        from_text: The value that a text says, in SQL; None: a text is taken as it is.
    """

    takes: str
    example: str
    check: Callable[[Any], Any]
    from_text: Callable[[str], Any] | None = None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """A named option.

    Attributes:
        name: What Python and SQL call it.
        kind: What it takes.
        default: What it is where nobody sets it.
        applies_to: Kinds of sources, or functions that start something, for which it has a meaning.
        clause: The words of SQL for it, such as `DELAY`; None: it is set in `WITH`.
        in_sql: Whether SQL has it at all.
        flag: Its name on the command line; None: it has none.
        local: Whether the engine without Spark takes it.
        nullable: Whether None is a value of its own.
        why_not: Why it has no meaning elsewhere.
    """

    name: str
    kind: ValueKind
    default: Any = None
    applies_to: frozenset[str] = frozenset()
    clause: str | None = None
    in_sql: bool = True
    flag: str | None = None
    local: bool = True
    nullable: bool = True
    why_not: str = ""

    def checked(self, value: Any, *, where: str) -> Any:
        """The value, if it fits.

        Raises:
            PlanError: It does not.
        """
        if value is None and self.nullable:
            return None
        try:
            return self.kind.check(value)
        except UnfitError:
            self._refuse(value, where)

    def checked_text(self, value: Any, *, where: str) -> Any:
        """The value of a literal of SQL; a text may say it."""
        if isinstance(value, str) and self.kind.from_text is not None:
            try:
                return self.kind.check(self.kind.from_text(value))
            except (UnfitError, ValueError):
                self._refuse(value, where)
        return self.checked(value, where=where)

    def _refuse(self, value: Any, where: str) -> NoReturn:
        near = ""
        if isinstance(value, str) and self.kind.takes.startswith("one of "):
            words = self.kind.takes.removeprefix("one of ").split(", ")
            found = get_close_matches(value.lower(), words, 1)
            near = f"did you mean '{found[0]}'? " if found else ""
        raise PlanError(
            f"{self.name} must be {self.kind.takes}, not {shown(value)}",
            where=where,
            hint=f"{near}write {self.name}={self.kind.example}, or leave it out",
        ) from None


Options = Mapping[str, Option]


def table_of(*options: Option) -> dict[str, Option]:
    """Options by name."""
    return {option.name: option for option in options}


def check_all(options: Options, given: Mapping[str, Any], *, where: str) -> None:
    """Check values by name.

    Raises:
        PlanError: One does not fit.
    """
    for name, value in given.items():
        options[name].checked(value, where=where)


def set_options(options: Options, given: Mapping[str, Any]) -> frozenset[str]:
    """The options that somebody has set: those that are not what they are by default."""
    return frozenset(
        name
        for name, value in given.items()
        if not (value is options[name].default or value == options[name].default)
    )


def unknown_option(name: str, names: Collection[str]) -> tuple[str, str]:
    """What is wrong with a name that no option has, and the hint."""
    near = get_close_matches(name.lower(), names, 1)
    guess = f"did you mean '{near[0]}'? " if near else ""
    return f"there is no option '{name}'", f"{guess}options are: {', '.join(names)}"


def shown(value: Any) -> str:
    """A value for people, shortened."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise UnfitError
    return value


def _flag_of(text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise UnfitError
    return text.strip().lower() == "true"


def _order(value: Any) -> Any:
    if value != "ties" and not isinstance(value, bool):
        raise UnfitError
    return value


def count(least: int, most: int = LARGEST) -> ValueKind:
    """Whole numbers in a range."""

    def check(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise UnfitError
        return value

    above = "up" if most == LARGEST else f"to {most}"
    example = str(min(max(least, 2), most)) if most < LARGEST else "10000"
    return ValueKind(f"a whole number from {least} {above}", example, check, int)


def word(*words: str) -> ValueKind:
    """One of some words."""

    def check(value: Any) -> str:
        if not isinstance(value, str) or value not in words:
            raise UnfitError
        return value

    return ValueKind(f"one of {', '.join(words)}", repr(words[0]), check)


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise UnfitError
    return value


def _duration(value: Any) -> Any:
    """The value as it is: in which unit it counts is up to whoever converts it."""
    if isinstance(value, bool) or not isinstance(value, str | int | timedelta):
        raise UnfitError
    if isinstance(value, int) or (isinstance(value, str) and value.strip().isdigit()):
        # A number that is larger than all times is a slip, not "forever".
        if not 0 <= int(value) <= LARGEST:
            raise UnfitError
        return value
    try:
        read_span(value)
    except QueryError:
        raise UnfitError from None
    return value


def _positive_duration(value: Any) -> Any:
    if not read_span(_duration(value))[0]:
        raise UnfitError
    return value


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise UnfitError
    return value


def _schema(value: Any) -> pa.Schema:
    if not isinstance(value, pa.Schema) or len(set(value.names)) < len(value.names):
        raise UnfitError
    return value


def _path(value: Any) -> Any:
    if not isinstance(value, str | Path) or not str(value).strip():
        raise UnfitError
    return value


def _function(value: Any) -> Any:
    if not callable(value):
        raise UnfitError
    return value


def _settings(value: Any) -> Any:
    if not isinstance(value, Mapping):
        raise UnfitError
    for key, each in value.items():
        if not isinstance(key, str) or not isinstance(each, str | bool | int | float):
            raise UnfitError
    return value


def _mapping(value: Any) -> Any:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise UnfitError
    return value


def _column_sets(value: Any) -> Any:
    """`"id"`, `["id"]`, or `[("a", "b"), "c"]`."""
    every = [value] if isinstance(value, str) else value
    if not isinstance(every, list | tuple) or not every:
        raise UnfitError
    for each in every:
        names = [each] if isinstance(each, str) else each
        if not isinstance(names, list | tuple) or not names:
            raise UnfitError
        for name in names:
            _text(name)
    return value


def _columns(value: Any) -> Any:
    if not isinstance(value, str | list | tuple):
        raise UnfitError
    for name in [value] if isinstance(value, str) else value:
        _text(name)
    return value


FLAG: Final = ValueKind("True or False", "True", _flag, _flag_of)
ORDER: Final = ValueKind("True, False or 'ties'", "True", _order)
COLUMN: Final = ValueKind("the name of a column", "'column'", _text)
NAME: Final = ValueKind("a name", "'bids'", _text)
DURATION: Final = ValueKind(
    "a duration: a string with a unit, a timedelta, or a count of chronons",
    "'5 seconds'",
    _duration,
)
POSITIVE_DURATION: Final = ValueKind(
    "a duration above 0: a string with a unit, or a timedelta", "'1 second'", _positive_duration
)
SECONDS: Final = ValueKind("a number of seconds from 0 up", "60", _seconds)
SCHEMA: Final = ValueKind(
    "a pyarrow.Schema whose columns have different names",
    "pyarrow.schema([('item', pyarrow.int64())])",
    _schema,
)
COLUMNS: Final = ValueKind("the name of a column, or a list of names", "'sensor'", _columns)
COLUMN_SETS: Final = ValueKind(
    "the name of a column, or a list of names and of tuples of names",
    "['id', ('day', 'number')]",
    _column_sets,
)
PATH: Final = ValueKind("a path", "'folder'", _path)
FUNCTION: Final = ValueKind("a function", "print", _function)
SETTINGS: Final = ValueKind(
    "a dictionary of Spark's settings", "{'spark.driver.memory': '4g'}", _settings
)
MODULES: Final = ValueKind("a dictionary of modules by name", "{}", _mapping)
