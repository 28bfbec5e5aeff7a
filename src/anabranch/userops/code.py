"""The code of modules in plain Python, in the form in which the engine calls it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, final

from anabranch.algebra.modules.results import OperatorCallError
from anabranch.algebra.modules.user_operator import Code, Result, Row, Window
from anabranch.userops.answers import ResultMaker
from anabranch.userops.definition import Callee
from anabranch.userops.view import EventView


@final
@dataclass(frozen=True, slots=True)
class WholeCode(Code):
    """A function, or the `compute` of an object, that gets all events of a window."""

    callee: Callee
    view: EventView
    answers: ResultMaker

    def compute(
        self, columns: Sequence[list[Any]], times: tuple[list[int], list[int]], window: Window
    ) -> Iterable[Result]:
        """What it says of the events that count."""
        columns, times = self.view.counted(columns, times)
        if self.answers.empty is not None and not times[0]:
            return [(self.answers.empty, None, None)]
        given, named = self.view.shown(columns, times, window)
        return self.answers.results(self.callee.compute(*given, **self.callee.keywords, **named))

    @property
    def can_migrate(self) -> bool:
        """It has no state."""
        return False


@final
@dataclass(frozen=True, slots=True)
class IncrementalCode(Code):
    """An object that keeps a state per window."""

    callee: Callee
    view: EventView
    answers: ResultMaker
    sees_window: bool

    def initial(self) -> Any:
        """The state of a window without events."""
        return self.callee.target.initial()

    def add(self, state: Any, values: Row, start: int, end: int) -> Any:
        """The state with one event more."""
        return self._changed("add", state, values, start, end)

    def add_all(
        self, state: Any, columns: Sequence[list[Any]], starts: list[int], ends: list[int]
    ) -> Any:
        """The state with many events more: nothing but the calls of `add` is done per event."""
        add = self.callee.target.add
        given = self.view.shown_all(columns, (starts, ends))
        if len(given) == 1:
            for value in given[0]:
                state = add(state, value)
                if state is None:
                    self._refuse_none("add")
            return state
        for values in zip(*given) if given else [()] * len(starts):
            state = add(state, *values)
            if state is None:
                self._refuse_none("add")
        return state

    def remove(self, state: Any, values: Row, start: int, end: int) -> Any:
        """The state with one event less."""
        return self._changed("remove", state, values, start, end)

    def _changed(self, method: str, state: Any, values: Row, start: int, end: int) -> Any:
        shown = self.view.shown_one(values, start, end)
        if shown is None:
            return state
        changed = getattr(self.callee.target, method)(state, *shown)
        if changed is None:
            self._refuse_none(method)
        return changed

    def _refuse_none(self, method: str) -> None:
        """A state may be None only if it begins as None."""
        if self.initial() is not None:
            raise OperatorCallError(
                f"{self.answers.operator}.{method} returned None; return the state, also when it "
                "was changed in place"
            )

    def finish(self, state: Any, window: Window) -> Iterable[Result]:
        """The results of one window, from its state."""
        about = (window,) if self.sees_window else ()
        return self.answers.results(self.callee.target.compute(state, *about))

    def migrate(self, state: Any, version: int) -> Any:
        """A state that an earlier version left, as this version has it."""
        return self.callee.target.migrate(state, version)

    @property
    def can_migrate(self) -> bool:
        """Whether its author says how."""
        return hasattr(self.callee.target, "migrate")
