"""Small modules of all shapes that show exactly what they were told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from anabranch.algebra.module import Code, Module, Result, Row, Window

V = pa.int64()
TEXT = pa.schema([("said", pa.string())])


def show(values: Iterable[Any]) -> str:
    return " ".join(sorted(map(repr, values)))


class Listing(Code):
    """All values, as one text."""

    can_migrate = False

    def compute(
        self, columns: Sequence[list[Any]], times: tuple[list[int], list[int]], window: Window
    ) -> Iterable[Result]:
        return [((show(columns[0]),), None, None)]


class TimedListing(Listing):
    """All values with the lifetimes they are seen with, and the window."""

    def compute(
        self, columns: Sequence[list[Any]], times: tuple[list[int], list[int]], window: Window
    ) -> Iterable[Result]:
        seen = show(zip(columns[0], *times))
        return [((f"{window.start} {window.end}: {seen}",), None, None)]


class Ordered(Listing):
    """The values in the order in which they come."""

    def compute(
        self, columns: Sequence[list[Any]], times: tuple[list[int], list[int]], window: Window
    ) -> Iterable[Result]:
        return [((repr(columns[0]),), None, None)]


class Adding(Code):
    """The same texts, from a state."""

    can_migrate = False

    def initial(self) -> Any:
        return {}

    def add(self, state: Any, values: Row, start: int, end: int) -> Any:
        key = self.key(values, start, end)
        state[key] = state.get(key, 0) + 1
        return state

    def remove(self, state: Any, values: Row, start: int, end: int) -> Any:
        key = self.key(values, start, end)
        state[key] -= 1
        if not state[key]:
            del state[key]
        return state

    def key(self, values: Row, start: int, end: int) -> Any:
        return values[0]

    def finish(self, state: Any, window: Window) -> Iterable[Result]:
        return [((show(Counter(state).elements()),), None, None)]


class TimedAdding(Adding):
    def key(self, values: Row, start: int, end: int) -> Any:
        return (values[0], start, end)

    def finish(self, state: Any, window: Window) -> Iterable[Result]:
        seen = show(Counter(state).elements())
        return [((f"{window.start} {window.end}: {seen}",), None, None)]


class Framed(Code):
    """The same from a table of all windows."""

    can_migrate = False
    timed = False

    def compute_frame(self, events: pa.Table) -> pa.Table:
        found: dict[int, list[Any]] = {}
        around: dict[int, tuple[int, int]] = {}
        for row in events.to_pylist():
            value = (row["v"], row["start"], row["end"]) if self.timed else row["v"]
            found.setdefault(row["window"], []).append(value)
            if self.timed:
                around[row["window"]] = (row["window_start"], row["window_end"])
        said = [
            f"{around[n][0]} {around[n][1]}: {show(found[n])}" if self.timed else show(found[n])
            for n in found
        ]
        return pa.table(
            {"window": pa.array([*found], pa.int64()), "said": pa.array(said, pa.string())}
        )


class TimedFramed(Framed):
    timed = True


class Each(Code):
    """An operator: every value that is there more than once, and how often."""

    can_migrate = False

    def compute(
        self, columns: Sequence[list[Any]], times: tuple[list[int], list[int]], window: Window
    ) -> Iterable[Result]:
        counts = Counter(columns[0])
        return [((f"{value} x{count}",), None, None) for value, count in counts.items()]


class Lifetimes(Code):
    """An operator: every event with the lifetime it is seen with, but not before the window."""

    can_migrate = False

    def compute(
        self, columns: Sequence[list[Any]], times: tuple[list[int], list[int]], window: Window
    ) -> Iterable[Result]:
        for value, start, end in zip(columns[0], *times):
            if max(start, window.start) < end:
                yield (f"{value}",), max(start, window.start), end


class Starts(Code):
    """An operator that changes nothing before what came: a point where each event begins."""

    can_migrate = False

    def compute(
        self, columns: Sequence[list[Any]], times: tuple[list[int], list[int]], window: Window
    ) -> Iterable[Result]:
        for value, start in zip(columns[0], times[0]):
            begin = max(start, window.start)
            yield (f"{value}",), begin, begin + 1


def module(name: str, code: Code, **options: Any) -> Module:
    return Module(
        **{
            "name": name,
            "kind": "uda",
            "takes": (("v", V),),
            "gives": TEXT,
            "code": code,
            **options,
        }
    )


PLAIN = module("listing", Listing())
TIMED = module("timed", TimedListing(), time_sensitive=True)
ORDERED = module(
    "ordered", Ordered(), properties=frozenset({"deterministic", "group_filter", "ordered"})
)
ADDING = module("adding", Adding(), incremental=True)
ADD_ONLY = module("add_only", Adding(), incremental=True, removes=False)
TIMED_ADDING = module("timed_adding", TimedAdding(), incremental=True, time_sensitive=True)
FRAMED = module("framed", Framed(), frame="arrow")
TIMED_FRAMED = module("timed_framed", TimedFramed(), frame="arrow", time_sensitive=True)
EACH = module("each", Each(), kind="udo")
LIFETIMES = module("lifetimes", Lifetimes(), kind="udo", time_sensitive=True, own_times=True)
STARTS = module("starts", Starts(), kind="udo", time_sensitive=True, own_times=True)

AGGREGATES = [PLAIN, TIMED, ORDERED, ADDING, ADD_ONLY, TIMED_ADDING, FRAMED, TIMED_FRAMED]
OPERATORS = [EACH, LIFETIMES, STARTS]
