"""Modules that are derived from a base class are as good as decorated ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType

import pytest
from tests.userops.asking import bound, rows, value

import anabranch as ab
from anabranch.algebra.modules.user_operator import Template
from anabranch.testing import check_module
from anabranch.userops.bases import operator_of
from anabranch.userops.library import Library


class Spread(ab.Aggregate[float], empty=None):
    """How far prices are apart."""

    def compute(self, prices: list[float]) -> float:
        return max(prices) - min(prices)


@dataclass(frozen=True)
class Above(ab.Operator[float], name="dear"):
    limit: float = 10.0

    def compute(self, prices: list[float]) -> list[float]:
        return [price for price in prices if price > self.limit]


class Peaks(ab.Operator[ab.Event[float]]):
    def compute(
        self, events: list[ab.Event[float]], window: ab.Window
    ) -> Iterator[ab.Event[float]]:
        if events:
            top = max(events, key=lambda event: (event.value, event.start, event.end))
            yield ab.Event(top.value, max(top.start, window.start), window.end)


class Total(ab.IncrementalAggregate[int, int], version=2, ordered=True):
    def initial(self) -> int:
        return 0

    def add(self, state: int, value: int) -> int:
        return state + value

    def remove(self, state: int, value: int) -> int:
        return state - value

    def compute(self, state: int) -> int:
        return state

    def migrate(self, state: int, version: int) -> int:
        return state * 10 + version


class Latest(ab.IncrementalOperator[list[int], int]):
    def initial(self) -> list[int]:
        return []

    def add(self, state: list[int], event: ab.Event[int]) -> list[int]:
        return [*state, event.start]

    def compute(self, state: list[int], window: ab.Window) -> list[int]:
        return [max(state) - window.start] if state else []


EVERY = (Spread, Above, Peaks, Total, Latest)


@pytest.mark.parametrize("module", EVERY)
def test_a_derived_class_is_a_good_module(module: type) -> None:
    check_module(module)


def test_a_derived_class_has_the_signature_of_a_decorated_one() -> None:
    assert [operator_of(each).signature for each in EVERY] == [
        "spread(prices DOUBLE) -> DOUBLE",
        "dear(prices DOUBLE, limit DOUBLE => 10.0) -> TABLE(dear DOUBLE)",
        "peaks(value DOUBLE) -> EVENTS(peaks DOUBLE)",
        "total(value BIGINT) -> BIGINT",
        "latest(value BIGINT) -> TABLE(latest BIGINT)",
    ]
    assert Spread().compute([3.0, 1.0]) == 2.0


def test_options_behind_the_bases_are_those_of_the_decorators() -> None:
    total = bound(operator_of(Total), int)
    assert (total.version, total.incremental, total.removes) == (2, True, True)
    assert "ordered" in total.properties
    assert total.code.can_migrate
    assert total.code.migrate(3, 1) == 31
    latest = bound(operator_of(Latest), int)
    assert (latest.removes, latest.time_sensitive, latest.code.can_migrate) == (False, True, False)
    assert value(bound(operator_of(Spread), float), []) is None
    assert rows(bound(operator_of(Above), float, limit=2.0), [1.0, 3.0]) == [(3.0,)]


def test_a_class_can_be_registered_and_is_one_module(tmp_path: Path) -> None:
    lines = [f'{{"insert": {{"price": {n}}}, "start": {n}, "end": {n + 1}}}' for n in range(1, 5)]
    (tmp_path / "bids.jsonl").write_text("\n".join([*lines, '{"stable": "forever"}']))
    engine = ab.Engine()
    for _ in range(2):
        engine.register(Spread)
        engine.register(Total)
    bids = engine.stream(tmp_path / "bids.jsonl", name="Bid")
    query = "SELECT spread(price) AS far, total(price) AS all FROM Bid GROUP BY TUMBLING(10)"
    assert engine.sql(query).run_local().snapshot(5).to_pylist() == [{"far": 3.0, "all": 10}]
    windows = bids.tumbling(10)
    for stream in (windows.spread("price"), windows.apply(Spread, "price")):
        assert stream.run_local().snapshot(5).to_pylist() == [{"spread": 3.0}]


def test_a_decorator_on_a_derived_class_adds_its_options() -> None:
    @ab.uda(version=3)
    class Highest(ab.Aggregate[float], name="top", empty=None):
        def compute(self, values: list[float]) -> float:
            return max(values)

    found: Template = Highest  # type: ignore[assignment]
    assert found.name == "top"
    assert bound(found, float).version == 3


def test_a_subclass_of_a_module_inherits_its_options_but_not_its_name() -> None:
    class Wider(Spread):
        def compute(self, prices: list[float]) -> float:
            return 2 * super().compute(prices)

    wider = operator_of(Wider)
    assert wider.name == "wider"
    assert value(bound(wider, float), []) is None
    assert value(bound(wider, float), [1.0, 2.0]) == 2.0


def test_a_class_that_lacks_a_method_is_refused_with_an_example() -> None:
    class Half(ab.IncrementalAggregate[int, int]):
        def initial(self) -> int:
            return 0

    with pytest.raises(ab.PlanError) as caught:
        ab.Engine().register(Half)
    assert caught.value.what == "the class Half has no add and no compute"
    assert caught.value.hint == "for example: add(self, state, value: float)"


def test_an_option_that_there_is_not_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match=r"class Odd got an unexpected .* 'verison'"):

        class Odd(ab.Aggregate[float], verison=2):
            pass


def test_packages_can_offer_derived_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    made = ModuleType("offered")

    class Common(ab.Aggregate[float]):
        pass

    for name, each in {"Common": Common, "Spread": Spread}.items():
        monkeypatch.setattr(each, "__module__", "offered")
        setattr(made, name, each)
    monkeypatch.setitem(__import__("sys").modules, "offered", made)
    points = [EntryPoint("all", "offered", "anabranch.modules")]
    assert sorted(Library((), points)) == ["spread"]
    points = [EntryPoint("one", "offered:Spread", "anabranch.modules")]
    assert sorted(Library((), points)) == ["spread"]
