"""Operators that users bring: what one is called with, what it gives, what it promises."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Generic, Literal, TypeAlias, TypeVar, final

import pyarrow as pa

from anabranch.model.clock import ANY_CLOCK, Clock
from anabranch.model.identity import Identity

T = TypeVar("T")

Kind: TypeAlias = Literal["uda", "udo"]
Frame: TypeAlias = Literal["python", "arrow", "pandas", "polars"]
Property: TypeAlias = Literal["deterministic", "group_filter", "ordered"]

WINDOW: Final = "window"
"""The column of a frame with the number of the window that a row is in, or is a result of."""

FRAME_TIMES: Final = ("start", "end", "window_start", "window_end")
"""More columns of a frame where a user operator sees times."""


@final
@dataclass(frozen=True, slots=True)
class Window:
    """The stretch of time `[start, end)` that a user operator is asked about."""

    start: int
    end: int

    @property
    def length(self) -> int:
        """How many chronons it has."""
        return self.end - self.start


@final
@dataclass(frozen=True, slots=True)
class Event(Generic[T]):
    """A value and the lifetime `[start, end)` during which it holds.

    What a user operator of several columns sees has a tuple for a value.
    """

    value: T
    start: int
    end: int

    @property
    def length(self) -> int:
        """How many chronons it holds."""
        return self.end - self.start


Row: TypeAlias = tuple[Any, ...]
"""The values of one result."""

Result: TypeAlias = tuple[Row, "int | None", "int | None"]
"""A result, with its lifetime where a user operator gives that itself."""


class Code(ABC):
    """What a user operator does, in the one form in which the engine calls it.

    Of these methods a user operator has those of its shape. Nothing that it gets is used again by
    the engine: it may do with it what it likes.
    """

    def compute(
        self, columns: Sequence[list[Any]], times: tuple[list[int], list[int]], window: Window
    ) -> Iterable[Result]:
        """The results of one window.

        Args:
            columns: The values of all events, one list per argument.
            times: Their starts and their ends, as the user operator may see them.
            window: The window.
        """
        raise NotImplementedError

    def compute_frame(self, events: pa.Table) -> pa.Table:
        """The results of many windows: `window`, the values, and perhaps `start` and `end`."""
        raise NotImplementedError

    def initial(self) -> Any:
        """The state of a window without events."""
        raise NotImplementedError

    def add(self, state: Any, values: Row, start: int, end: int) -> Any:
        """The state with one event more."""
        raise NotImplementedError

    def add_all(
        self, state: Any, columns: Sequence[list[Any]], starts: list[int], ends: list[int]
    ) -> Any:
        """The state with many events more, in this order; as many calls of `add` would give it."""
        rows = zip(*columns) if columns else [()] * len(starts)
        for values, start, end in zip(rows, starts, ends):
            state = self.add(state, values, start, end)
        return state

    def remove(self, state: Any, values: Row, start: int, end: int) -> Any:
        """The state with one event less."""
        raise NotImplementedError

    def finish(self, state: Any, window: Window) -> Iterable[Result]:
        """The results of one window, from its state."""
        raise NotImplementedError

    def migrate(self, state: Any, version: int) -> Any:
        """A state that an earlier version left, as this version has it."""
        raise NotImplementedError

    @property
    @abstractmethod
    def can_migrate(self) -> bool:
        """Whether states of earlier versions can be read."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class UserOperator:
    """A user's aggregate or operator, bound: types of arguments known, parameters given.

    Two of them are equal, and plans say the same of them, whatever their code and version: a
    query that began with one version resumes with the next.

    Attributes:
        name: What queries call it.
        kind: `uda`: one value per window. `udo`: any number of rows, perhaps with lifetimes.
        takes: Names and types of the arguments.
        gives: The columns of its results.
        time_sensitive: It sees lifetimes and the window, not only values.
        own_times: Its results have lifetimes of its own making.
        incremental: It keeps a state per window, to which events are added.
        removes: Events can be removed from the state again; otherwise a window is added up anew.
        frame: What `compute` gets: lists of one window, or a table of all windows.
        parameters: What the query bound.
        properties: What its author declares of it: `deterministic`: the same events give the same.
            `group_filter`: a condition on what is grouped by may as well be applied before it.
            `ordered`: it looks at the order of events.
        on_empty: The values for a window without events, of a user operator that gets tables, which
        do
            not show such windows. None: it has none.
        version: Of the state it keeps.
        revision: How often its code was exchanged while the query ran: another one is another
            operator, unlike code that is exchanged between two runs.
        code: What it does.
    """

    identity: ClassVar[Identity] = Identity(
        "Module",
        (
            "name",
            "kind",
            "takes",
            "gives",
            "time_sensitive",
            "own_times",
            "incremental",
            "removes",
            "frame",
            "parameters",
            "on_empty",
            "revision",
        ),
        ignored={
            "properties": "promises of the author, who may add to them",
            "version": "states say which version left them, and are migrated",
            "code": "a query that began with one version resumes with the next",
        },
    )

    name: str
    kind: Kind
    takes: tuple[tuple[str, pa.DataType], ...]
    gives: pa.Schema
    time_sensitive: bool = False
    own_times: bool = False
    incremental: bool = False
    removes: bool = True
    frame: Frame = "python"
    parameters: tuple[tuple[str, Any], ...] = ()
    properties: frozenset[Property] = frozenset({"deterministic", "group_filter"})
    on_empty: Row | None = None
    version: int = field(default=1, compare=False)
    revision: int = 0
    code: Code = field(compare=False, repr=False)

    @property
    def label(self) -> str:
        """`percentile(q => 0.9)`."""
        given = ", ".join(f"{name} => {value!r}" for name, value in self.parameters)
        return f"{self.name}({given})" if given else self.name

    @property
    def shape(self) -> str:
        """In words: `UDA, incremental, time-sensitive`."""
        words = [self.kind.upper()]
        words += ["incremental"] if self.incremental else []
        words += [f"on {self.frame}"] if self.frame != "python" else []
        words += ["time-sensitive"] if self.time_sensitive else []
        return ", ".join(words)


class Template(ABC):
    """A user operator as it is registered, without arguments and parameters."""

    __slots__ = ()

    @property
    @abstractmethod
    def name(self) -> str:
        """What queries call it; case does not count."""

    @property
    @abstractmethod
    def kind(self) -> Kind:
        """An aggregate or an operator."""

    @property
    @abstractmethod
    def arity(self) -> int:
        """How many arguments are columns; what stands behind them are parameters."""

    @property
    @abstractmethod
    def signature(self) -> str:
        """For people: `percentile(value DOUBLE, q DOUBLE => 0.5) -> DOUBLE`."""

    @abstractmethod
    def bind(
        self,
        types: Sequence[pa.DataType],
        given: Sequence[Any],
        named: Mapping[str, Any],
        clock: Clock = ANY_CLOCK,
    ) -> UserOperator:
        """The user operator for arguments of some types, with its parameters.

        Args:
            types: Of the arguments.
            given: Parameters in their order.
            named: Parameters by name; case does not count.
            clock: How the stream counts time; durations among the parameters become chronons.

        Raises:
            QueryError: Arguments or parameters do not fit; the hint shows the signature.
        """
