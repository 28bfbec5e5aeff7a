"""A user's module as it is registered and called."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import WRAPPER_ASSIGNMENTS
from typing import Any, Generic, ParamSpec, TypeVar, final

import pyarrow as pa

from anabranch.algebra.modules.user_operator import Code, Kind, Row, Template, UserOperator
from anabranch.language.text.types import type_name
from anabranch.model.clock import ANY_CLOCK, Clock
from anabranch.userops.answers import ResultMaker
from anabranch.userops.code import IncrementalCode, WholeCode
from anabranch.userops.declaration import NOTHING, Declaration
from anabranch.userops.definition import Callee, imported, imported_name
from anabranch.userops.frame_code import FrameCode, check_library
from anabranch.userops.parameters import frozen, misused, set_parameters
from anabranch.userops.types import resolved, show_form, taken
from anabranch.userops.view import EventView

P = ParamSpec("P")
R = TypeVar("R")


@final
@dataclass(frozen=True, eq=False, repr=False)
class DecoratedOperator(Template, Generic[P, R]):
    """What the decorators give: a module that is still the function or class that it was."""

    declaration: Declaration
    __wrapped__: Callable[P, R]

    def __post_init__(self) -> None:
        for name in WRAPPER_ASSIGNMENTS:
            if hasattr(self.__wrapped__, name):
                self.__dict__[name] = getattr(self.__wrapped__, name)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function, or make an object of the class."""
        return self.__wrapped__(*args, **kwargs)

    def __reduce_ex__(self, protocol: Any) -> Any:
        name = imported_name(self.__wrapped__)
        if name is not None and imported(*name) is self:
            return imported, name
        return super().__reduce_ex__(protocol)

    def __repr__(self) -> str:
        return f"<{self.kind} {self.signature}>"

    @property
    def name(self) -> str:
        """What queries call it; case does not count."""
        return self.declaration.name

    @property
    def kind(self) -> Kind:
        """An aggregate or an operator."""
        return self.declaration.kind

    @property
    def arity(self) -> int:
        """How many arguments are columns."""
        return len(self.declaration.seen.arguments)

    @property
    def signature(self) -> str:
        """`percentile(value DOUBLE, q DOUBLE => 0.5) -> DOUBLE`."""
        return self.declaration.signature

    def bind(
        self,
        types: Sequence[pa.DataType],
        given: Sequence[Any] = (),
        named: Mapping[str, Any] | None = None,
        clock: Clock = ANY_CLOCK,
    ) -> UserOperator:
        """The module for arguments of some types, with its parameters.

        Raises:
            QueryError: Arguments or parameters do not fit; the hint shows the signature.
        """
        declared = self.declaration
        bindings: dict[str, pa.DataType] = {}
        takes = self._takes(types, bindings)
        parameters = set_parameters(declared, given, named or {}, bindings, clock)
        gives = pa.schema(
            [(name, resolved(form, bindings)) for name, form in declared.given.columns]
        )
        if declared.frame != "python":
            check_library(declared.frame, declared.name, declared.definition.location)
        try:
            callee = Callee.of(declared.definition, parameters)
        except (ValueError, TypeError) as problem:
            raise misused(declared, f"{declared.name} rejects its parameters: {problem}") from None
        return UserOperator(
            name=declared.name,
            kind=declared.kind,
            takes=takes,
            gives=gives,
            time_sensitive=declared.seen.times,
            own_times=declared.given.own_times,
            incremental=declared.incremental,
            removes=declared.removes,
            frame=declared.frame,
            parameters=tuple((name, frozen(value)) for name, value in parameters.items()),
            properties=declared.properties,
            on_empty=self._empty,
            version=declared.version,
            code=self._code(callee, types, pa.schema(list(takes)), gives),
        )

    def _takes(
        self, types: Sequence[pa.DataType], bindings: dict[str, pa.DataType]
    ) -> tuple[tuple[str, pa.DataType], ...]:
        """The types that arguments have when the module gets them."""
        declared = self.declaration
        arguments = declared.seen.arguments
        if len(types) != len(arguments):
            count = f"{len(arguments)} column{'s' if len(arguments) != 1 else ''}"
            raise misused(declared, f"{declared.name} takes {count}, not {len(types)}")
        found = []
        for argument, actual in zip(arguments, types):
            wanted = taken(argument.form, actual, bindings)
            if wanted is None:
                raise misused(
                    declared,
                    f"{declared.name} takes {show_form(argument.form)} for '{argument.name}', "
                    f"not {type_name(actual)}",
                )
            found.append((argument.name, wanted))
        return tuple(found)

    @property
    def _answers(self) -> ResultMaker:
        declared, given = self.declaration, self.declaration.given
        names = tuple(name for name, _ in given.columns)
        return ResultMaker(
            declared.name, declared.kind, names, given.single, given.own_times, self._empty
        )

    @property
    def _empty(self) -> Row | None:
        return None if self.declaration.empty is NOTHING else self.declaration.empty

    def _code(
        self, callee: Callee, types: Sequence[pa.DataType], takes: pa.Schema, gives: pa.Schema
    ) -> Code:
        declared = self.declaration
        if declared.frame != "python":
            required = tuple(each.name for each in declared.seen.arguments if not each.nullable)
            return FrameCode(callee, self._answers, declared.frame, takes, gives, required)
        view = EventView.of(declared.seen, types, takes.types)
        if declared.incremental:
            sees_window = declared.seen.window is not None
            return IncrementalCode(callee, view, self._answers, sees_window)
        return WholeCode(callee, view, self._answers)
