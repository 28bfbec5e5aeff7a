"""Modules that get a table of all windows."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.userops.asking import ask, bound, rows, value

import anabranch as ab
from anabranch.algebra.modules.results import OperatorCallError


def table(**columns: Any) -> pa.Table:
    return pa.table({name: pa.array(values) for name, values in columns.items()})


@ab.uda(frame="arrow", takes={"price": float, "size": int}, returns=float, empty=0.0)
def turnover(events: pa.Table, *, factor: float = 1.0) -> pa.Table:
    product = pc.multiply(pc.multiply(events["price"], events["size"]), factor)
    found = events.append_column("value", product).group_by("window").aggregate([("value", "sum")])
    return found.rename_columns({"value_sum": "value"})


@ab.uda(frame="pandas", takes={"price": float}, returns=int)
def how_many(events: pd.DataFrame) -> pd.DataFrame:
    return events.groupby("window").size().reset_index(name="value")


def test_the_columns_are_the_arguments_and_the_results() -> None:
    assert turnover.signature == (
        "turnover(price DOUBLE, size BIGINT, factor DOUBLE => 1.0) -> DOUBLE"
    )
    module = bound(turnover, "INT", "INT", factor=2.0)
    assert (module.frame, module.on_empty) == ("arrow", (0.0,))
    assert value(module, [(1, 2), (3, 4)]) == 28.0
    assert value(module, []) == 0.0


def test_many_windows_are_answered_at_once_and_types_are_widened() -> None:
    module = bound(turnover, "INT", "INT")
    given = table(window=[7, 3, 7], price=[1, 2, 3], size=[1, 1, 1])
    found = module.code.compute_frame(given)
    assert found.schema == pa.schema([("window", pa.int64()), ("turnover", pa.float64())])
    assert dict(zip(*found.to_pydict().values())) == {7: 4.0, 3: 2.0}


def test_windows_of_nothing_but_nulls_count_as_empty() -> None:
    given = table(window=[1, 2], price=[1.0, None], size=[1, 1])
    found = bound(turnover, float, int).code.compute_frame(given)
    assert dict(zip(*found.to_pydict().values())) == {1: 1.0, 2: 0.0}
    counted = bound(how_many, float).code.compute_frame(given.select(["window", "price"]))
    assert dict(zip(*counted.to_pydict().values())) == {1: 1, 2: None}


def test_frames_of_pandas_come_and_go() -> None:
    assert value(bound(how_many, "FLOAT"), [1.0, None, 3.0]) == 2


def test_a_module_on_tables_may_see_times_and_give_them() -> None:
    @ab.udo(
        frame="arrow",
        takes={"price": float},
        returns={"price": float, "left": int},
        time_sensitive=True,
        own_times=True,
    )
    def rests(events: pa.Table) -> pa.Table:
        left = pc.subtract(events["window_end"], events["start"])
        return events.select(["window", "price", "start", "end"]).append_column("left", left)

    module = bound(rests, float)
    assert module.time_sensitive
    assert module.own_times
    assert ask(module, [ab.Event(1.0, 2, 4)]) == [((1.0, 8), 2, 4)]


def test_a_class_may_work_on_tables() -> None:
    @ab.udo(frame="pandas", takes={"price": float}, returns={"top": float})
    @dataclass
    class Tops:
        k: int = 2

        def compute(self, events: pd.DataFrame) -> pd.DataFrame:
            best = events.sort_values("price", ascending=False).groupby("window").head(self.k)
            return best.rename(columns={"price": "top"})

    assert rows(bound(Tops, float, k=1), [1.0, 3.0, 2.0]) == [(3.0,)]


@pytest.mark.parametrize(
    ("given", "what"),
    [
        (table(value=[1.0]), "without 'window'"),
        (table(window=[0]), "without 'value'; it has: window"),
        (table(window=[0], value=["a"]), "of the type string, not double"),
        (table(window=[9], value=[1.0]), "the window number 9, which is not in its table"),
        (table(window=[0, 0], value=[1.0, 2.0]), "two values for one window"),
        (pa.table({"window": pa.array([], pa.int64()), "value": pa.array([], pa.float64())}), "no"),
        ([1.0], "returned a list, which is not a table of arrow"),
    ],
)
def test_wrong_tables_are_refused(given: Any, what: str) -> None:
    @ab.uda(frame="arrow", takes={"price": float}, returns=float)
    def wrong(events: pa.Table) -> Any:
        return given

    with pytest.raises(OperatorCallError, match=what):
        value(bound(wrong, float), [1.0])


def test_whole_numbers_may_come_as_floats_if_they_are_exact() -> None:
    @ab.uda(frame="arrow", takes={"price": float}, returns=int)
    def some(events: pa.Table) -> pa.Table:
        return table(window=[0], value=[events["price"][0].as_py()])

    assert value(bound(some, float), [2.0]) == 2
    with pytest.raises(OperatorCallError, match="not of type int64"):
        value(bound(some, float), [2.5])


def test_a_library_that_is_missing_is_named_when_a_query_needs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @ab.uda(frame="polars", takes={"price": float}, returns=float)
    def lazily(events: Any) -> Any:
        return events

    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(ab.PlanError, match="pip install polars"):
        bound(lazily, float)


def test_frames_of_polars_come_and_go() -> None:
    polars = pytest.importorskip("polars")

    @ab.uda(frame="polars", takes={"price": float, "name": str}, returns=str)
    def longest(events: Any) -> Any:
        return events.group_by("window").agg(polars.col("name").max().alias("value"))

    assert value(bound(longest, float, str), [(1.0, "a"), (2.0, "b")]) == "b"
