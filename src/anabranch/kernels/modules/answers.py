"""Events of windows as a user operator sees them, its results, and whether it repeats them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
import pyarrow as pa

from anabranch.algebra.modules.results import OperatorCallError
from anabranch.algebra.modules.user_operator import UserOperator, Window
from anabranch.kernels.columns.grouped import Ints
from anabranch.model.payload import freeze, show_payload
from anabranch.model.time import format_time


@final
@dataclass(frozen=True, slots=True, eq=False)
class WindowEvents:
    """What a user operator sees of some windows: their events, window by window.

    Attributes:
        start: The start of every window.
        end: The end of every window.
        cuts: Where the events of each window begin among all, and where the last ones end.
        columns: The arguments, one value per event.
        since: The starts of the events, as the user operator sees them.
        until: Their ends.
    """

    start: Ints
    end: Ints
    cuts: Ints
    columns: tuple[pa.Array, ...]
    since: Ints
    until: Ints

    def __len__(self) -> int:
        return len(self.start)

    def window(self, number: int) -> Window:
        """A window, as user operators see it."""
        return Window(int(self.start[number]), int(self.end[number]))

    def only(self, number: int) -> WindowEvents:
        """One of the windows."""
        low, high = int(self.cuts[number]), int(self.cuts[number + 1])
        return WindowEvents(
            self.start[number : number + 1],
            self.end[number : number + 1],
            np.array([0, high - low]),
            tuple(column.slice(low, high - low) for column in self.columns),
            self.since[low:high],
            self.until[low:high],
        )

    def event(self, row: int) -> str:
        """An event for people."""
        values = show_payload(column[row].as_py() for column in self.columns)
        since, until = format_time(int(self.since[row])), format_time(int(self.until[row]))
        return f"{values} during [{since}, {until})"


@final
@dataclass(slots=True)
class OperatorResults:
    """What a user operator says: rows of some windows, or why there are none.

    Attributes:
        owner: The number of the window of each row.
        columns: The values.
        start: The start of each row's lifetime.
        end: Its end.
        failures: By the number of a window, what went wrong there.
    """

    owner: Ints
    columns: list[pa.Array]
    start: Ints
    end: Ints
    failures: dict[int, OperatorCallError] = field(default_factory=dict)


def compare(operator: UserOperator, one: Sequence[Any], two: Sequence[Any]) -> None:
    """Two answers to one question must be the same.

    Raises:
        ModuleCallError: They are not.
    """
    first, second = freeze(list(one)), freeze(list(two))
    if not _alike(first, second):
        raise OperatorCallError(
            f"{operator.name} is not deterministic: for the same events it returned "
            f"{_short(first)}, then {_short(second)}"
        )


def _alike(one: Any, two: Any) -> bool:
    """Whether values are equal; the last digits of floats may depend on the order of a sum."""
    if isinstance(one, tuple) and isinstance(two, tuple):
        return len(one) == len(two) and all(map(_alike, one, two))
    if isinstance(one, float) and isinstance(two, float) and not math.isnan(one):
        return math.isclose(one, two, rel_tol=1e-9, abs_tol=1e-12)
    return bool(one == two) if type(one) is not float else math.isnan(two)


def rank(value: Any) -> Any:
    """A key to sort answers by, whatever the last digits of their floats."""
    if isinstance(value, tuple):
        return tuple(map(rank, value))
    return f"{value:.6g}" if isinstance(value, float) else repr(value)


def _short(values: Any) -> str:
    text = repr(values)
    return text if len(text) <= 60 else text[:57] + "..."
