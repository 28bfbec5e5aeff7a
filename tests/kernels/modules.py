"""Small modules of all shapes that show exactly what they were told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa

import anabranch as ab
from anabranch.algebra.modules.user_operator import Code, Result, Row, UserOperator, Window

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


class AddingEach(Adding):
    """Every value with how often it is there, from a state."""

    def finish(self, state: Any, window: Window) -> Iterable[Result]:
        return [((f"{value} x{count}",), None, None) for value, count in state.items()]


class AddingLifetimes(TimedAdding):
    """Every event with the lifetime it is seen with, from a state."""

    def finish(self, state: Any, window: Window) -> Iterable[Result]:
        for value, start, end in Counter(state).elements():
            if max(start, window.start) < end:
                yield (f"{value}",), max(start, window.start), end


class FramedEach(Code):
    """Every value with how often it is there, of all windows at once."""

    can_migrate = False

    def compute_frame(self, events: pa.Table) -> pa.Table:
        counts = Counter(zip(events["window"].to_pylist(), events["v"].to_pylist()))
        said = [f"{value} x{count}" for (_, value), count in counts.items()]
        return pa.table(
            {
                "window": pa.array([window for window, _ in counts], pa.int64()),
                "said": pa.array(said, pa.string()),
            }
        )


class FramedLifetimes(Code):
    """Every event with the lifetime it is seen with, of all windows at once."""

    can_migrate = False

    def compute_frame(self, events: pa.Table) -> pa.Table:
        rows = [
            (row["window"], f"{row['v']}", max(row["start"], row["window_start"]), row["end"])
            for row in events.to_pylist()
        ]
        columns = list(zip(*(row for row in rows if row[2] < row[3]))) or [()] * 4
        kinds = {"window": V, "said": pa.string(), "start": V, "end": V}
        return pa.table(
            {name: pa.array(some, kind) for some, (name, kind) in zip(columns, kinds.items())}
        )


@ab.uda(frame="pandas", takes={"v": int}, returns=str)
def of_pandas(events: pd.DataFrame) -> pd.DataFrame:
    """All values, of a frame of pandas."""
    texts = events.assign(value=events["v"].astype("Int64").astype(str))
    return texts.groupby("window")["value"].agg(lambda some: " ".join(sorted(some))).reset_index()


@ab.uda(frame="pandas", takes={"v": int}, returns=float, time_sensitive=True)
def held_in_pandas(events: pd.DataFrame) -> pd.DataFrame:
    """How far ends are from the start of the window, of a frame of pandas."""
    far = (events["end"] - events["window_start"]).astype(float)
    return events.assign(value=far).groupby("window")["value"].sum().reset_index()


@ab.uda(frame="polars", takes={"v": int}, returns=int)
def of_polars(events: pl.DataFrame) -> pl.DataFrame:
    """How many events there are, of a frame of Polars."""
    return events.group_by("window").agg(value=pl.len().cast(pl.Int64))


def module(name: str, code: Code, **options: Any) -> UserOperator:
    return UserOperator(
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

ADDING_EACH = module("adding_each", AddingEach(), kind="udo", incremental=True)
ADDING_LIFETIMES = module(
    "adding_lifetimes",
    AddingLifetimes(),
    kind="udo",
    incremental=True,
    time_sensitive=True,
    own_times=True,
)
FRAMED_EACH = module("framed_each", FramedEach(), kind="udo", frame="arrow")
FRAMED_LIFETIMES = module(
    "framed_lifetimes",
    FramedLifetimes(),
    kind="udo",
    frame="arrow",
    time_sensitive=True,
    own_times=True,
)
PANDAS = of_pandas.bind([V])
TIMED_PANDAS = held_in_pandas.bind([V])
POLARS = of_polars.bind([V])

AGGREGATES = [PLAIN, TIMED, ORDERED, ADDING, ADD_ONLY, TIMED_ADDING, FRAMED, TIMED_FRAMED]
OPERATORS = [
    EACH,
    LIFETIMES,
    STARTS,
    ADDING_EACH,
    ADDING_LIFETIMES,
    FRAMED_EACH,
    FRAMED_LIFETIMES,
]
FRAMES = [PANDAS, TIMED_PANDAS, POLARS]
