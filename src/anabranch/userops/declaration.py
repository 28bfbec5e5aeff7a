"""The declaration of a user operator: arguments and results, as its author declared them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, final

from anabranch.algebra.modules.user_operator import Frame, Kind, Property
from anabranch.errors import PlanError
from anabranch.userops.definition import Definition
from anabranch.userops.types import Form, show_form


class Missing(Enum):
    """Stands for a default that is not there; None is one."""

    NOTHING = "nothing"


NOTHING: Final = Missing.NOTHING

EXAMPLES: Final = {
    "uda": "def spread(prices: list[float]) -> float",
    "udo": "def steps(prices: list[float]) -> list[float]",
}


@final
@dataclass(frozen=True, slots=True)
class Argument:
    """A column that a module is applied to. NULLs count only if it says `| None`."""

    name: str
    form: Form
    nullable: bool = False


@final
@dataclass(frozen=True, slots=True)
class Parameter:
    """What a query may set."""

    name: str
    form: Form
    nullable: bool = False
    default: Any = NOTHING
    choices: tuple[Any, ...] = ()
    is_duration: bool = False

    @property
    def required(self) -> bool:
        """Whether a query must set it."""
        return self.default is NOTHING

    @property
    def shown(self) -> str:
        """`q DOUBLE => 0.5`."""
        kind = "DURATION" if self.is_duration else show_form(self.form)
        return f"{self.name} {kind}" + ("" if self.required else f" => {_literal(self.default)}")


@final
@dataclass(frozen=True, slots=True)
class EventForm:
    """How a module is shown events.

    Attributes:
        arguments: The columns.
        events: As events with lifetimes, not as one list per column.
        tupled: The value of such an event is a tuple.
        window: The index or the name of the parameter that gets the window, if there is one.
    """

    arguments: tuple[Argument, ...]
    events: bool = False
    tupled: bool = False
    window: int | str | None = None

    @property
    def times(self) -> bool:
        """Whether it sees times."""
        return self.events or self.window is not None


@final
@dataclass(frozen=True, slots=True)
class Given:
    """What a module gives: its columns, as plain values or rows, perhaps with lifetimes."""

    columns: tuple[tuple[str, Form], ...]
    single: bool = True
    own_times: bool = False


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """Everything that is known of a module before a query calls it."""

    kind: Kind
    name: str
    definition: Definition
    seen: EventForm
    given: Given
    parameters: tuple[Parameter, ...] = ()
    incremental: bool = False
    removes: bool = True
    frame: Frame = "python"
    properties: frozenset[Property] = frozenset({"deterministic", "group_filter"})
    empty: Any = NOTHING
    version: int = 1

    @property
    def signature(self) -> str:
        """`percentile(value DOUBLE, q DOUBLE => 0.5) -> DOUBLE`."""
        takes = [f"{each.name} {show_form(each.form)}" for each in self.seen.arguments]
        takes += [each.shown for each in self.parameters]
        return f"{self.name}({', '.join(takes)}) -> {self._result}"

    @property
    def _result(self) -> str:
        if self.kind == "uda":
            return show_form(self.given.columns[0][1])
        columns = ", ".join(f"{name} {show_form(form)}" for name, form in self.given.columns)
        return f"{'EVENTS' if self.given.own_times else 'TABLE'}({columns})"


def _literal(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return str(value).upper().replace("NONE", "NULL")
    return repr(value)


def refused(what: str, name: str, definition: Definition, hint: str) -> PlanError:
    """A declaration that does not say what it must."""
    return PlanError(what, where=f"module '{name}', {definition.location}", hint=hint)
