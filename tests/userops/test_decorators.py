"""Every shape in which a module can be written, and the answers it gives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from itertools import pairwise
from typing import Annotated, Any, Literal, NamedTuple, TypedDict, TypeVar

import pyarrow as pa
import pytest
from tests.userops.asking import ask, bound, rows, value

import anabranch as ab
from anabranch.algebra.modules.results import OperatorCallError
from anabranch.algebra.modules.user_operator import Template
from anabranch.model.time import Duration

T = TypeVar("T")

SPAN = Duration(7)


class Step(NamedTuple):
    before: float
    after: float


def test_a_function_of_one_column_is_an_aggregate() -> None:
    @ab.uda
    def spread(prices: list[float]) -> float:
        return max(prices) - min(prices)

    assert isinstance(spread, Template)
    assert (spread.name, spread.kind, spread.arity) == ("spread", "uda", 1)
    assert spread.signature == "spread(prices DOUBLE) -> DOUBLE"
    assert spread([3.0, 1.0]) == 2.0
    module = bound(spread, int)
    assert module.takes == (("prices", pa.float64()),)
    assert module.gives == pa.schema([("spread", pa.float64())])
    assert not module.time_sensitive
    assert not module.incremental
    assert value(module, [3, 9, 5]) == 6.0


def test_a_decorated_function_keeps_its_name_and_text() -> None:
    @ab.uda(name="width", version=3)
    def spread(prices: list[float]) -> float:
        """How far prices are apart."""
        return max(prices) - min(prices)

    assert vars(spread)["__name__"] == "spread"
    assert spread.__doc__ == "How far prices are apart."
    assert spread.name == "width"
    assert bound(spread, float).version == 3
    assert repr(spread) == "<uda width(prices DOUBLE) -> DOUBLE>"


def test_values_come_in_the_declared_types() -> None:
    @ab.uda
    def classes(a: list[float], b: list[Annotated[Decimal, "DECIMAL(12, 2)"]]) -> str:
        return ",".join(sorted({type(each).__name__ for each in (*a, *b)}))

    assert value(bound(classes, "INT", "INT"), [(1, 2)]) == "Decimal,float"


def test_parameters_stand_behind_a_star() -> None:
    @ab.uda
    def above(
        values: list[float],
        *,
        least: float = 0.5,
        mode: Literal["count", "sum"] = "count",
        step: int | None = None,
        span: Duration = SPAN,
    ) -> float:
        found = [each for each in values if each > least]
        return float(len(found) if mode == "count" else sum(found)) + (step or 0) + span

    assert "least DOUBLE => 0.5, mode STRING => 'count', step BIGINT => NULL" in above.signature
    assert value(bound(above, float), [1.0, 0.1]) == 8.0
    module = above.bind([pa.float64()], [Decimal("0.05"), "sum"], {"STEP": 1, "span": "2 seconds"})
    assert module.label == "above(least => 0.05, mode => 'sum', step => 1, span => 2000000)"
    assert value(module, [1.0, 0.5]) == 2_000_002.5


def test_modules_with_other_parameters_are_other_modules() -> None:
    @ab.uda
    def above(values: list[float], *, least: float = 0.5, names: list[str] = ["a"]) -> int:  # noqa: B006
        return len([each for each in values if each > least])

    assert bound(above, float) == bound(above, float, least=0.5)
    assert bound(above, float) != bound(above, float, least=0.6)
    assert hash(bound(above, float, names=["b"])) is not None
    assert dict(bound(above, float, names=["b"]).parameters)["names"] == ("b",)


def test_several_columns_are_several_lists() -> None:
    @ab.uda
    def weighted(prices: list[float], sizes: list[int]) -> float:
        return sum(p * s for p, s in zip(prices, sizes)) / sum(sizes)

    assert value(bound(weighted, float, int), [(1.0, 1), (4.0, 2)]) == 3.0


def test_nulls_do_not_count_unless_the_type_says_so() -> None:
    @ab.uda
    def first(values: list[float | None], keys: list[str]) -> str:
        return f"{values} {keys}"

    given = [(None, "a"), (1.0, None), (2.0, "b")]
    assert value(bound(first, float, str), given) == "[None, 2.0] ['a', 'b']"


def test_a_function_may_see_lifetimes_and_the_window() -> None:
    @ab.uda
    def covered(events: list[ab.Event[float]], window: ab.Window) -> float:
        return sum(each.length for each in events) / window.length

    module = bound(covered, float)
    assert module.time_sensitive
    assert covered.signature == "covered(value DOUBLE) -> DOUBLE"
    assert value(module, [ab.Event(1.0, 0, 2), ab.Event(None, 2, 9), ab.Event(1.0, 4, 7)]) == 0.5


def test_events_of_several_columns_have_tuples() -> None:
    @ab.uda(takes={"size": int, "price": float})
    def last(events: list[ab.Event[tuple[int, float]]]) -> float:
        return max(events, key=lambda each: each.start).value[1]

    assert last.signature == "last(size BIGINT, price DOUBLE) -> DOUBLE"
    assert value(bound(last, int, float), [(1, 2.0), (3, 4.0)]) == 4.0


@pytest.mark.parametrize("by_name", [True, False])
def test_lists_and_a_window_are_time_sensitive_too(by_name: bool) -> None:
    if by_name:

        @ab.uda
        def rate(values: list[int], *, window: ab.Window, scale: int = 2) -> float:
            return scale * len(values) / window.length
    else:

        @ab.uda
        def rate(window: ab.Window, values: list[int], *, scale: int = 2) -> float:
            return scale * len(values) / window.length

    assert rate.signature == "rate(values BIGINT, scale BIGINT => 2) -> DOUBLE"
    module = bound(rate, int)
    assert module.time_sensitive
    assert value(module, [1, 2, 3, 4, 5]) == 1.0


def test_open_types_are_bound_by_the_call() -> None:
    @ab.uda
    def newest(values: list[T]) -> T:
        return values[-1]

    assert newest.signature == "newest(values T) -> T"
    assert bound(newest, str).gives.types == [pa.string()]
    assert value(bound(newest, "DECIMAL(10, 2)"), [Decimal(1), Decimal(2)]) == Decimal(2)
    assert bound(newest, list[int]).gives.types == [pa.list_(pa.int64())]


def test_an_operator_of_plain_values_has_one_column_of_its_name() -> None:
    @ab.udo
    def steps(prices: list[float]) -> list[float]:
        return [later - price for price, later in pairwise(prices)]

    module = bound(steps, float)
    assert (module.kind, module.gives.names) == ("udo", ["steps"])
    assert rows(module, [1.0, 3.0, 4.0]) == [(2.0,), (1.0,)]


def test_an_operator_may_yield() -> None:
    @ab.udo
    def twice(prices: list[float]) -> Iterator[float]:
        for price in prices:
            yield price
            yield price

    assert rows(bound(twice, float), [1.0]) == [(1.0,), (1.0,)]


@dataclass
class Move:
    before: float
    after: float


class Jump(TypedDict):
    before: float
    after: float


def test_rows_are_named_tuples_dataclasses_or_typed_dicts() -> None:
    @ab.udo
    def tuples(prices: list[float]) -> list[Step]:
        return [Step(*pair) for pair in pairwise(prices)]

    @ab.udo
    def objects(prices: list[float]) -> Iterable[Move]:
        return (Move(*pair) for pair in pairwise(prices))

    @ab.udo
    def mappings(prices: list[float]) -> list[Jump]:
        return [{"after": late, "before": early} for early, late in pairwise(prices)]

    for each in (tuples, objects, mappings):
        module = bound(each, float)
        assert module.gives == pa.schema([("before", pa.float64()), ("after", pa.float64())])
        assert rows(module, [1.0, 3.0]) == [(1.0, 3.0)]


def test_classes_beside_the_function_can_be_named() -> None:
    class Local(NamedTuple):
        size: int

    @ab.udo
    def sizes(texts: list[str]) -> list[Local]:
        return [Local(len(each)) for each in texts]

    assert rows(bound(sizes, str), ["ab"]) == [(2,)]


def test_an_operator_may_give_lifetimes() -> None:
    @ab.udo
    def doubled(events: list[ab.Event[int]]) -> Iterable[ab.Event[Step]]:
        return [ab.Event(Step(e.value, e.value), e.start, e.start + 2 * e.length) for e in events]

    module = bound(doubled, int)
    assert module.own_times
    assert doubled.signature == "doubled(value BIGINT) -> EVENTS(before DOUBLE, after DOUBLE)"
    assert ask(module, [ab.Event(4, 1, 3)]) == [((4.0, 4.0), 1, 5)]


def test_a_class_may_keep_a_state() -> None:
    @ab.uda
    class RunningSum:
        def initial(self) -> int:
            return 0

        def add(self, state: int, value: int) -> int:
            return state + value

        def remove(self, state: int, value: int) -> int:
            return state - value

        def compute(self, state: int) -> int:
            return state

    template: Any = RunningSum
    assert template.signature == "running_sum(value BIGINT) -> BIGINT"
    module = bound(template, int)
    assert (module.incremental, module.removes, module.time_sensitive) == (True, True, False)
    assert value(module, [1, None, 5]) == 6
    state = module.code.remove(module.code.add(0, (4,), 0, 1), (3,), 0, 1)
    assert list(module.code.finish(state, ab.Window(0, 1))) == [((1,), None, None)]
    assert isinstance(RunningSum().initial(), int)
    assert not module.code.can_migrate


def test_a_state_may_be_time_sensitive_without_removal_and_with_migration() -> None:
    @ab.uda(version=2)
    @dataclass
    class Longest:
        factor: float = 1.0

        def initial(self) -> int:
            return 0

        def add(self, state: int, event: ab.Event[tuple[int, str]]) -> int:
            return max(state, event.length * event.value[0])

        def compute(self, state: int, window: ab.Window) -> float:
            return self.factor * state / window.length

        def migrate(self, state: int, version: int) -> int:
            return state + version

    module = bound(Longest, int, str, factor=2.0)
    assert (module.removes, module.time_sensitive, module.version) == (False, True, 2)
    assert value(module, [ab.Event((1, "a"), 0, 3), ab.Event((2, "b"), 0, 2)]) == 0.8
    assert module.code.can_migrate
    assert module.code.migrate(5, 1) == 6


def test_a_state_may_be_of_several_columns_and_give_rows() -> None:
    @ab.udo
    class Pairs:
        def initial(self) -> list[Any]:
            return []

        def add(self, state: list[Any], price: float, size: int | None) -> list[Any]:
            return [*state, (price, size)]

        def compute(self, state: list[Any]) -> Iterator[Step]:
            return (Step(price, size or 0) for price, size in state)

    assert rows(bound(Pairs, float, int), [(1.0, 2), (None, 3), (2.0, None)]) == [
        (1.0, 2.0),
        (2.0, 0.0),
    ]


def test_a_class_may_compute_without_a_state() -> None:
    @ab.uda
    class Power:
        def __init__(self, *, exponent: int = 2) -> None:
            self.exponent = exponent

        def compute(self, values: list[float]) -> float:
            return sum(each**self.exponent for each in values)

    module = bound(Power, float, exponent=3)
    assert not module.incremental
    assert value(module, [1.0, 2.0]) == 9.0


def test_add_that_forgets_to_return_is_told_so() -> None:
    @ab.uda
    class Forgetful:
        def initial(self) -> list[float]:
            return []

        def add(self, state: list[float], value: float) -> None:
            state.append(value)

        def compute(self, state: list[float]) -> int:
            return len(state)

    with pytest.raises(OperatorCallError, match="return the state"):
        value(bound(Forgetful, float), [1.0])


def test_what_it_declares_reaches_the_module() -> None:
    @ab.uda(deterministic=False, group_filter=False, ordered=True, empty=-1)
    def size(values: list[float]) -> int:
        return len(values) if values else 1 // 0

    module = bound(size, float)
    assert module.properties == {"ordered"}
    assert module.on_empty == (-1,)
    assert value(module, []) == -1
    assert value(module, [None]) == -1


def test_an_operator_that_gives_no_list_or_wrong_rows_fails() -> None:
    @ab.udo
    def steps(prices: list[float]) -> list[Step]:
        return prices[0]  # type: ignore[return-value]

    @ab.udo
    def wrong(prices: list[float]) -> list[Step]:
        return [{"before": 1.0}]  # type: ignore[list-item]

    @ab.udo
    def late(prices: list[float]) -> list[ab.Event[float]]:
        return prices  # type: ignore[return-value]

    with pytest.raises(OperatorCallError, match="not a list of results"):
        rows(bound(steps, float), [1.0])
    with pytest.raises(OperatorCallError, match="not a row of before, after"):
        rows(bound(wrong, float), [1.0])
    with pytest.raises(OperatorCallError, match="which is not an Event"):
        rows(bound(late, float), [1.0])


def test_times_of_columns_are_python_datetimes() -> None:
    @ab.uda
    def latest(times: list[datetime]) -> datetime:
        return max(times)

    assert latest.signature == "latest(times TIMESTAMP) -> TIMESTAMP"
