"""Results of users' code as rows of a user operator."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from typing import Any, final

from anabranch.algebra.modules.results import OperatorCallError
from anabranch.algebra.modules.user_operator import Event, Kind, Result, Row


@final
@dataclass(frozen=True, slots=True)
class ResultMaker:
    """Makes results of one module out of what it gives.

    Attributes:
        module: Its name.
        kind: Whether it gives one value or many rows.
        names: Of its columns.
        single: Rows are values of the one column.
        own_times: Rows are in events.
        empty: What it gives where nothing counts, if its author declared that.
    """

    operator: str
    kind: Kind
    names: tuple[str, ...]
    single: bool
    own_times: bool
    empty: Row | None = None

    def results(self, given: Any) -> Iterable[Result]:
        """The results of one window."""
        if self.kind == "uda":
            return [((given,), None, None)]
        if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
            raise OperatorCallError(
                f"{self.operator} returned {given!r}, which is not a list of results; "
                "return a list, or yield them"
            )
        return self._events(given) if self.own_times else self._rows(given)

    def _rows(self, given: Iterable[Any]) -> Iterator[Result]:
        return ((self.row(each), None, None) for each in given)

    def _events(self, given: Iterable[Any]) -> Iterator[Result]:
        for each in given:
            if not isinstance(each, Event):
                raise OperatorCallError(f"{self.operator} returned {each!r}, which is not an Event")
            yield self.row(each.value), each.start, each.end

    def row(self, given: Any) -> Row:
        """The values of one row.

        Raises:
            ModuleCallError: It has other columns than the module declares.
        """
        if self.single:
            return (given,)
        if isinstance(given, tuple):
            return tuple(given)
        if isinstance(given, Mapping):
            if set(given) == set(self.names):
                return tuple(given[name] for name in self.names)
        elif is_dataclass(given) and all(hasattr(given, name) for name in self.names):
            return tuple(getattr(given, name) for name in self.names)
        raise OperatorCallError(
            f"{self.operator} returned {given!r}, which is not a row of {', '.join(self.names)}"
        )
