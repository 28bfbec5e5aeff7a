"""Classes to derive modules from, for those who like that better than decorators."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, ClassVar, Generic, TypeVar

from anabranch.algebra.modules.user_operator import Kind
from anabranch.errors import PlanError
from anabranch.userops.decorated_operator import DecoratedOperator
from anabranch.userops.decorators import Options, declared

S = TypeVar("S")
R = TypeVar("R")


class _Base(ABC):
    """A class that is a module; options stand behind its bases, as in the decorators.

    Types are read from the annotations of `compute` and `add`, parameters from `__init__`.
    """

    operator_kind: ClassVar[Kind]
    operator_options: ClassVar[Mapping[str, Any]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__()
        inherited = {name: value for name, value in cls.operator_options.items() if name != "name"}
        try:
            Options(**options)
        except TypeError as problem:
            text = str(problem).replace("Options.__init__()", f"class {cls.__name__}")
            raise TypeError(text) from None
        cls.operator_options = {**inherited, **options}


class Aggregate(_Base, Generic[R]):
    """An aggregate: `compute` makes one value out of all events of a window.

    A subclass writes the types of its columns, as a function with `@ab.uda` would.

    >>> class Spread(Aggregate[float], empty=None):
    ...     def compute(self, prices: list[float]) -> float:
    ...         return max(prices) - min(prices)
    >>> operator_of(Spread).signature
    'spread(prices DOUBLE) -> DOUBLE'
    """

    operator_kind: ClassVar[Kind] = "uda"

    @abstractmethod
    def compute(self, *events: Any, **more: Any) -> R | None:
        """The value of one window: `compute(self, prices: list[float]) -> float`."""


class Operator(_Base, Generic[R]):
    """An operator: `compute` makes any number of rows, or events, out of those of a window."""

    operator_kind: ClassVar[Kind] = "udo"

    @abstractmethod
    def compute(self, *events: Any, **more: Any) -> Iterable[R]:
        """The rows of one window: `compute(self, prices: list[float]) -> list[float]`."""


class IncrementalAggregate(_Base, Generic[S, R]):
    """An aggregate with a state per window.

    `remove(self, state, value)` is optional: the state with one event less. Without it a window is
    added up anew when an event leaves it. `migrate(self, state, version)` is optional, too: the
    state that an earlier version left, as this one has it.
    """

    operator_kind: ClassVar[Kind] = "uda"

    @abstractmethod
    def initial(self) -> S:
        """The state of a window without events; a new one in every call."""

    @abstractmethod
    def add(self, state: S, *event: Any, **more: Any) -> S:
        """The state with one event more: `add(self, state, value: float)`."""

    @abstractmethod
    def compute(self, state: S, *window: Any, **more: Any) -> R | None:
        """The value of one window: `compute(self, state)`, or with `window: ab.Window`."""


class IncrementalOperator(_Base, Generic[S, R]):
    """An operator with a state per window; `remove` and `migrate` are optional."""

    operator_kind: ClassVar[Kind] = "udo"

    @abstractmethod
    def initial(self) -> S:
        """The state of a window without events; a new one in every call."""

    @abstractmethod
    def add(self, state: S, *event: Any, **more: Any) -> S:
        """The state with one event more: `add(self, state, value: float)`."""

    @abstractmethod
    def compute(self, state: S, *window: Any, **more: Any) -> Iterable[R]:
        """The rows of one window: `compute(self, state)`, or with `window: ab.Window`."""


def operator_of(found: Any) -> Any:
    """The module that a class stands for; anything else as it is.

    Raises:
        PlanError: The class does not say what it must.
    """
    return _declared(found) if isinstance(found, type) and issubclass(found, _Base) else found


@cache  # one class is one module, however often it is registered
def _declared(target: type[_Base]) -> DecoratedOperator[..., Any]:
    missing = sorted(getattr(target, "__abstractmethods__", ()))
    if missing:
        raise PlanError(
            f"the class {target.__name__} has no {' and no '.join(missing)}",
            where=f"{target.__module__}.{target.__qualname__}",
            hint=f"for example: {_signature(target, missing[0])}",
        )
    options = Options(**target.operator_options)
    return DecoratedOperator(declared(target.operator_kind, target, options, {}), target)


def _signature(target: type[_Base], method: str) -> str:
    text = inspect.getdoc(getattr(target, method)) or method
    return text.split("`")[1] if "`" in text else f"def {method}(self)"
