"""Read the declaration of a user operator from the annotations of a function or a class."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter as Formal
from typing import Any, Final, Literal, final, get_args, get_origin

from anabranch.algebra.modules.user_operator import Event, Kind, Window
from anabranch.errors import PlanError
from anabranch.model.time import Duration
from anabranch.userops.declaration import (
    EXAMPLES,
    NOTHING,
    Argument,
    EventForm,
    Given,
    Parameter,
    refused,
)
from anabranch.userops.definition import Definition
from anabranch.userops.parameters import constant
from anabranch.userops.types import (
    ACCEPTED_TYPES,
    Form,
    UnknownTypeError,
    form_of,
    names_in,
    show_annotation,
    show_form,
)

_LISTS: Final = (list, Sequence, Collection, Iterable)
_COLLECTIONS: Final = (*_LISTS, Iterator, Generator, tuple)
_BY_POSITION: Final = (Formal.POSITIONAL_ONLY, Formal.POSITIONAL_OR_KEYWORD)


@final
@dataclass(frozen=True, slots=True)
class AnnotationReader:
    """Reads the annotations of one module.

    Attributes:
        kind: What it was declared as.
        name: Of the module.
        definition: Its function or class.
        names: Names of the place where it stands, for annotations that are texts.
        takes: Types that the decorator gives to arguments.
        returns: What the decorator says that it gives.
    """

    kind: Kind
    name: str
    definition: Definition
    names: Mapping[str, Any]
    takes: Mapping[str, Any]
    returns: Any

    def wrong(self, what: str, hint: str = "") -> PlanError:
        """An error that shows where the definition is, and an example."""
        return refused(what, self.name, self.definition, hint or self.example)

    @property
    def example(self) -> str:
        """What a right declaration looks like."""
        return f"for example: {EXAMPLES[self.kind]}"

    def formals(self, function: Callable[..., Any], *, bound: int = 0) -> list[Formal]:
        """The parameters of a function with their types, without those that are bound."""
        hints = self._hints(function)
        found = list(inspect.signature(function).parameters.values())[bound:]
        for each in found:
            if each.kind in (Formal.VAR_POSITIONAL, Formal.VAR_KEYWORD):
                raise self.wrong(f"'{each}' has no types", "name every parameter")
        return [each.replace(annotation=hints.get(each.name, Formal.empty)) for each in found]

    def _hints(self, function: Callable[..., Any]) -> dict[str, Any]:
        try:
            return typing.get_type_hints(function, localns=dict(self.names), include_extras=True)
        except NameError as problem:
            raise self.wrong(
                f"an annotation cannot be read: {problem}", "import what it names"
            ) from None
        except (TypeError, SyntaxError) as problem:
            raise self.wrong(f"an annotation cannot be read: {problem}", ACCEPTED_TYPES) from None

    def form(self, annotation: Any, what: str) -> tuple[Form, bool]:
        """A type, and whether NULL belongs to it."""
        try:
            return form_of(annotation)
        except UnknownTypeError as problem:
            raise self.wrong(f"{what}: {problem}", ACCEPTED_TYPES) from None

    # What it takes

    def seen(self, formals: Sequence[Formal]) -> EventForm:
        """How events of a whole window are shown to a function."""
        window = self._window(formals)
        columns = [each for each in formals if each.kind in _BY_POSITION and not _is_window(each)]
        events = [each for each in columns if _is_event(_element(each.annotation))]
        if events and len(columns) > 1:
            raise self.wrong(
                "events cannot be combined with other columns",
                "several columns are in one value: events: list[ab.Event[tuple[int, float]]]",
            )
        if events:
            return self._events(_element(events[0].annotation), window)
        self._check_takes([each.name for each in columns])
        return EventForm(tuple(self._column(each) for each in columns), window=window)

    def seen_one(self, formals: Sequence[Formal]) -> EventForm:
        """How single events are shown to a method."""
        if len(formals) == 1 and _is_event(formals[0].annotation):
            return self._events(formals[0].annotation, None)
        if not formals or any(_is_event(each.annotation) for each in formals):
            raise self.wrong(
                "add must take the state and the values of one event",
                "for example: def add(self, state, price: float), or event: ab.Event[float]",
            )
        self._check_takes([each.name for each in formals])
        return EventForm(tuple(self._argument(each.name, each.annotation) for each in formals))

    def _events(self, annotation: Any, window: int | str | None) -> EventForm:
        (value,) = get_args(annotation) or (Any,)
        tupled = get_origin(value) is tuple
        kinds = get_args(value) if tupled else (value,)
        if Ellipsis in kinds:
            raise self.wrong(f"{show_annotation(value)} has no fixed number of columns")
        names = list(self.takes) or (
            [f"value{number}" for number in range(1, len(kinds) + 1)] if tupled else ["value"]
        )
        if len(names) != len(kinds):
            raise self.wrong(f"takes names {len(names)} columns, and events have {len(kinds)}")
        made = tuple(self._argument(name, kind) for name, kind in zip(names, kinds))
        return EventForm(made, events=True, tupled=tupled, window=window)

    def _window(self, formals: Sequence[Formal]) -> int | str | None:
        for index, each in enumerate(formals):
            if _is_window(each):
                return each.name if each.kind == Formal.KEYWORD_ONLY else index
        return None

    def _check_takes(self, names: Sequence[str]) -> None:
        strange = [name for name in self.takes if name not in names]
        if strange:
            raise self.wrong(
                f"takes names '{strange[0]}', which is not a parameter",
                f"its columns are: {', '.join(names)}",
            )

    def _column(self, formal: Formal) -> Argument:
        if formal.name in self.takes:
            return self._argument(formal.name, None)
        if formal.annotation is Formal.empty:
            raise self.wrong(f"the parameter '{formal.name}' has no type")
        element = _element(formal.annotation)
        if element is None:
            raise self.wrong(
                f"the parameter '{formal.name}' is a {show_annotation(formal.annotation)}, "
                "but a module receives all values of a window",
                f"write {formal.name}: list[{show_annotation(formal.annotation)}]; parameters "
                "that the query sets come after a *",
            )
        return self._argument(formal.name, element)

    def _argument(self, name: str, annotation: Any) -> Argument:
        wanted = self.takes.get(name, annotation)
        if wanted is Formal.empty:
            raise self.wrong(f"the parameter '{name}' has no type")
        return Argument(name, *self.form(wanted, f"the parameter '{name}'"))

    # What the query sets

    def parameters(self, formals: Sequence[Formal]) -> tuple[Parameter, ...]:
        """What the query sets."""
        return tuple(self._parameter(each) for each in formals if not _is_window(each))

    def _parameter(self, formal: Formal) -> Parameter:
        default = NOTHING if formal.default is Formal.empty else formal.default
        annotation = formal.annotation
        if annotation is Formal.empty:
            if default is NOTHING or default is None:
                raise self.wrong(
                    f"the parameter '{formal.name}' has no type", "for example: *, q: float = 0.5"
                )
            annotation = type(default)
        inner, nullable = _without_none(annotation)
        nullable |= default is None
        if get_origin(inner) is Literal:
            choices = get_args(inner)
            form, _ = self.form(type(choices[0]), f"the parameter '{formal.name}'")
            return Parameter(formal.name, form, nullable, default, choices)
        form, _ = self.form(inner, f"the parameter '{formal.name}'")
        self._check_default(formal.name, form, default)
        return Parameter(formal.name, form, nullable, default, is_duration=inner is Duration)

    def _check_default(self, name: str, form: Form, default: Any) -> None:
        if default is NOTHING or default is None or names_in(form):
            return
        try:
            constant(default, form)
        except (ValueError, OverflowError):
            raise self.wrong(
                f"the parameter '{name}' is {default!r} by default, which is not of type "
                f"{show_form(form)}",
                "for example: *, q: float = 0.5",
            ) from None

    # What it gives

    def given(self, function: Callable[..., Any]) -> Given:
        """What a function gives."""
        declared = self.returns
        if declared is None:
            declared = self._hints(function).get("return", Formal.empty)
            if declared is Formal.empty:
                raise self.wrong("it does not declare the type that it returns")
            if self.kind == "udo":
                declared = self._each(declared)
        if self.kind == "uda":
            if _is_event(_without_none(declared)[0]):
                raise self.wrong("an aggregate returns a value, not an event", "declare it as udo")
            form, _ = self.form(declared, "what it returns")
            return Given(((self.name, form),))
        own_times = _is_event(declared)
        row = (get_args(declared) or (Any,))[0] if own_times else declared
        columns = self.columns(row)
        if columns is None:
            form, _ = self.form(row, "what it returns")
            return Given(((self.name, form),), True, own_times)
        return Given(columns, False, own_times)

    def _each(self, declared: Any) -> Any:
        """What stands in the list that an operator returns."""
        if get_origin(declared) in _COLLECTIONS and get_args(declared):
            return get_args(declared)[0]
        raise self.wrong(
            f"an operator returns any number of results, and this one returns "
            f"{show_annotation(declared)}",
            "return list[...] or Iterator[...]",
        )

    def columns(self, row: Any) -> tuple[tuple[str, Form], ...] | None:
        """The columns of a row that is a class with fields, or a mapping of names to types."""
        if isinstance(row, Mapping):
            fields = dict(row)
        else:
            plain = get_origin(row) or row
            if not _has_fields(plain):
                return None
            fields = typing.get_type_hints(plain, localns=dict(self.names), include_extras=True)
            # A class of which the types of fields are open: Ranked[T].
            bindings = dict(zip(getattr(plain, "__parameters__", ()), get_args(row)))
            fields = {name: bindings.get(kind, kind) for name, kind in fields.items()}
        if not fields:
            raise self.wrong(f"{show_annotation(row)} has no columns")
        return tuple(
            (name, self.form(kind, f"the column '{name}'")[0]) for name, kind in fields.items()
        )


def _has_fields(row: Any) -> bool:
    if not isinstance(row, type):
        return False
    named = issubclass(row, tuple) and hasattr(row, "_fields")
    return named or dataclasses.is_dataclass(row) or typing.is_typeddict(row)


def _without_none(annotation: Any) -> tuple[Any, bool]:
    parts = get_args(annotation)
    if type(None) in parts and len(parts) == 2:
        return next(part for part in parts if part is not type(None)), True
    return annotation, False


def _is_window(formal: Formal) -> bool:
    return formal.annotation is Window


def _is_event(annotation: Any) -> bool:
    return annotation is Event or get_origin(annotation) is Event


def _element(annotation: Any) -> Any:
    """Of what an annotation is a list; None if it is none."""
    if annotation is list:
        return Any
    return get_args(annotation)[0] if get_origin(annotation) in _LISTS else None
