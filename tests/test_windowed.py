"""Windows of the time axis as methods of streams, and modules by name."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

import anabranch as ab
from anabranch.algebra.modules.apply_operator import ApplyOperator
from anabranch.algebra.modules.axis_window import (
    AxisWindow,
    CountByEnd,
    CountByStart,
    Hopping,
    Session,
    Snapshot,
    tumbling,
)
from anabranch.errors import PlanError, QueryError
from anabranch.model.time import Duration
from tests.language.modules import FOLLOWED_BY, HELD, MEDIAN, MODULES, QUANTILE

MINUTE = 60_000_000


@pytest.fixture
def engine() -> ab.Engine:
    return ab.Engine(modules=MODULES)


@pytest.fixture
def bids(engine: ab.Engine, tmp_path: Any) -> ab.Stream:
    path = tmp_path / "bids.jsonl"
    path.write_text('{"insert": {"itemID": 1, "price": 80.0, "kind": "a"}, "start": 5, "end": 9}\n')
    stream = engine.stream(path, name="Bid", chronon="1 microsecond")
    assert isinstance(stream, ab.Stream)
    return stream


def node_of(stream: ab.Stream) -> ApplyOperator:
    assert isinstance(stream.node, ApplyOperator)
    return stream.node


def test_methods_and_sql_make_the_same_plan(engine: ab.Engine, bids: ab.Stream) -> None:
    fluent = bids.hopping("10 minutes", "1 minute", by="itemID", clip="full").quantile(
        "price", q=0.9
    )
    query = engine.sql(
        "SELECT quantile(price, q => 0.9) AS high FROM Bid "
        "GROUP BY itemID, HOPPING(10 MINUTES, 1 MINUTE, clip => 'full')"
    )
    assert query.node.input == fluent.node
    assert fluent.schema.names == ["itemID", "quantile"]


def test_every_window_has_a_method(bids: ab.Stream) -> None:
    found: dict[AxisWindow, ab.WindowedStream[ab.Stream]] = {
        Hopping(Duration(10), Duration(5), -2): bids.hopping(10, 5, offset=-2),
        tumbling(Duration(MINUTE), 1): bids.tumbling(timedelta(minutes=1), offset=1),
        Snapshot(): bids.snapshot_windows(),
        CountByStart(3): bids.count_windows(3),
        CountByEnd(3): bids.count_windows(3, by_end=True),
        Session(Duration(7)): bids.sessions(7),
    }
    for window, windows in found.items():
        assert node_of(windows.apply(MEDIAN, "price")).window == window


def test_options_reach_the_plan(bids: ab.Stream) -> None:
    node = node_of(
        bids.tumbling(
            5,
            by=["itemID", "price > 50 AS dear"],
            columns=("from_", "till"),
            clip="right",
            timestamps="clip",
            open_windows=True,
            errors="skip",
        ).followed_by("kind", first="x", name=["one", "two"])
    )
    assert node.schema.names == ["itemID", "dear", "from_", "till", "one", "two"]
    assert (node.clip, node.timestamps, node.errors) == ("right", "clip", "skip")
    assert node.open_windows
    assert not node.empty
    with pytest.raises(TypeError, match="clop"):
        bids.tumbling(5, clop="full")


def test_parameters_may_stand_behind_columns(bids: ab.Stream) -> None:
    windows = bids.tumbling(5)
    named = windows.apply(QUANTILE, "price", q=0.9, name="high")
    assert node_of(windows.apply("Quantile", "price", 0.9, name="high")) == named.node
    assert named.schema.names == ["high"]


def test_several_aggregates_answer_in_one_row(bids: ab.Stream) -> None:
    found = bids.tumbling(5, by="itemID").agg(
        middle="median(price)",
        high=ab.call("quantile", "price", q=0.9),
        low=ab.call(QUANTILE, "price", 0.1),
        bids="COUNT(*)",
        dear="COUNT(*) FILTER (WHERE price > 50)",
    )
    assert found.schema.names == ["itemID", "middle", "high", "low", "bids", "dear"]
    answers = node_of(found).apply([((1, 80.0, "a"), 1, 2), ((1, 20.0, "b"), 3, 4)])
    assert answers == [((1, 50.0, 20.0, 20.0, 2, 1), 0, 5)]


def test_what_is_wrong_names_module_and_signature(bids: ab.Stream) -> None:
    windows = bids.tumbling(5)
    wrong: list[Callable[[], ab.Stream]] = [
        lambda: windows.quantile("price", p=3),
        lambda: windows.quantile("price", 0.9, 3),
        lambda: windows.agg(x="quantile(price, p => 3)"),
    ]
    for make in wrong:
        with pytest.raises(QueryError) as caught:
            make()
        assert QUANTILE.signature in str(caught.value)
    with pytest.raises(PlanError, match="there is no module 'medain'") as missing:
        windows.apply("medain", "price")
    assert "did you mean 'median'?" in missing.value.hint
    with pytest.raises(PlanError, match="is not a module") as plain:
        windows.apply(len, "price")  # type: ignore[arg-type]
    assert "@ab.uda" in plain.value.hint
    with pytest.raises(PlanError, match="3 is not a column of median"):
        windows.median(3)
    with pytest.raises(QueryError, match="not one call"):
        windows.agg(x="price + 1")
    with pytest.raises(QueryError, match="there is no function 'medain'"):
        windows.agg(x="medain(price)")


def test_an_unknown_method_says_what_there_is(bids: ab.Stream) -> None:
    windows = bids.tumbling(5)
    assert "quantile" in dir(windows)
    with pytest.raises(AttributeError, match="did you mean 'median'"):
        windows.medain("price")
    assert not hasattr(windows, "_secret")


def test_modules_are_registered_by_name_and_case_does_not_count() -> None:
    engine = ab.Engine(modules={})
    engine.register(MEDIAN, name="Middle")
    assert list(engine.modules) == ["middle"]
    assert engine.modules["MIDDLE"] is MEDIAN
    with pytest.raises(PlanError, match="there is already a module 'middle'"):
        engine.register(HELD, name="MIDDLE")
    engine.register(HELD, name="MIDDLE", replace=True)
    assert engine.modules["middle"] is HELD


def test_a_name_is_taken_once(engine: ab.Engine) -> None:
    engine.sql("CREATE FUNCTION double_it(x INT) RETURNS INT RETURN x * 2")
    with pytest.raises(PlanError, match="there is already a function 'double_it'"):
        engine.register(MEDIAN, name="double_it")
    with pytest.raises(QueryError, match="'median' is a module"):
        engine.sql("CREATE OR REPLACE FUNCTION median(x INT) RETURNS INT RETURN x")
    for name in ("hopping", "two words", "3d"):
        with pytest.raises(PlanError, match="cannot be called"):
            engine.register(MEDIAN, name=name)


def test_modules_are_described(engine: ab.Engine) -> None:
    shown = engine.sql("DESCRIBE FUNCTION Followed_By").to_pylist()
    assert shown[0]["kind"] == "UDO"
    assert shown[0]["signature"] == FOLLOWED_BY.signature
    assert "quantile" in engine.sql("SHOW FUNCTIONS")["name"].to_pylist()


def test_a_registered_module_goes_before_a_built_in_in_windows(
    engine: ab.Engine, bids: ab.Stream
) -> None:
    engine.register(HELD, name="sum")
    query = engine.sql("SELECT sum(price) AS s FROM Bid GROUP BY TUMBLING(5)")
    (node,) = [each for each in query.node.walk() if isinstance(each, ApplyOperator)]
    assert node.calls[0].operator.name == "held"
    plain = engine.sql("SELECT sum(price) AS s FROM Bid")
    assert not any(isinstance(each, ApplyOperator) for each in plain.node.walk())
