"""Modules of all shapes that say exactly what they were told, for queries on Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa

import anabranch as ab

Told = dict[tuple[int, ...], int]


def show(values: Any) -> str:
    return " ".join(sorted(map(repr, values)))


@ab.uda
def listing(v: list[int]) -> str:
    return show(v)


@ab.uda
def timed_listing(events: list[ab.Event[int]], window: ab.Window) -> str:
    return f"{window.start}: {show((e.value, e.start, e.end) for e in events)}"


@ab.uda
class Adding:
    def initial(self) -> Told:
        return {}

    def add(self, state: Told, v: int) -> Told:
        state[(v,)] = state.get((v,), 0) + 1
        return state

    def remove(self, state: Told, v: int) -> Told:
        state[(v,)] -= 1
        return {key: count for key, count in state.items() if count}

    def compute(self, state: Told) -> str:
        return show(v for (v,) in Counter(state).elements())


@ab.uda
class TimedAdding:
    def initial(self) -> Told:
        return {}

    def add(self, state: Told, event: ab.Event[int]) -> Told:
        key = (event.value, event.start, event.end)
        state[key] = state.get(key, 0) + 1
        return state

    def remove(self, state: Told, event: ab.Event[int]) -> Told:
        key = (event.value, event.start, event.end)
        state[key] -= 1
        return {key: count for key, count in state.items() if count}

    def compute(self, state: Told, window: ab.Window) -> str:
        return f"{window.start}: {show(Counter(state).elements())}"


@ab.uda
class OnlyAdding:
    def initial(self) -> list[int]:
        return []

    def add(self, state: list[int], v: int) -> list[int]:
        state.append(v)
        return state

    def compute(self, state: list[int]) -> str:
        return show(state)


@ab.uda(frame="arrow", takes={"v": int}, returns=str)
def arrow_listing(table: pa.Table) -> pa.Table:
    found: dict[int, list[int]] = {}
    for row in table.to_pylist():
        found.setdefault(row["window"], []).append(row["v"])
    return pa.table({"window": list(found), "value": [show(each) for each in found.values()]})


@ab.uda(frame="pandas", takes={"v": int}, returns=str)
def pandas_listing(frame: pd.DataFrame) -> pd.DataFrame:
    # What it is given is its own.
    frame["v"] = [int(v) for v in frame["v"]]
    said = frame.groupby("window")["v"].agg(lambda v: show(v.tolist()))
    frame["v"] = 0
    return said.rename("value").reset_index()


@ab.uda(frame="polars", takes={"v": int}, returns=str)
def polars_listing(frame: pl.DataFrame) -> pl.DataFrame:
    numbers = frame["window"].unique().sort().to_list()
    said = [show(frame.filter(pl.col("window") == n)["v"].to_list()) for n in numbers]
    return pl.DataFrame({"window": numbers, "value": said})


@ab.udo
def repeated(v: list[int]) -> Iterator[str]:
    for value, count in Counter(v).items():
        yield f"{value} x{count}"


@ab.udo
def lifetimes(events: list[ab.Event[int]], window: ab.Window) -> Iterator[ab.Event[str]]:
    for event in events:
        start = max(event.start, window.start)
        if start < event.end:
            yield ab.Event(f"{event.value}", start, event.end)


@ab.udo
def starts(events: list[ab.Event[int]], window: ab.Window) -> Iterator[ab.Event[str]]:
    for event in events:
        start = max(event.start, window.start)
        yield ab.Event(f"{event.value}", start, start + 1)
