"""When another plan is worth a change, decided without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pytest

import anabranch as ab
from anabranch.adapt.decision import (
    GainVerdict,
    Patience,
    Reoptimize,
    has_moved,
    judge,
    without_clips,
)
from anabranch.adapt.reoptimizer import Reoptimizer, at_a_start
from anabranch.algebra.clip import Clip
from anabranch.algebra.join import Join
from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import TimeWindow
from anabranch.errors import PlanError
from anabranch.expressions.expression import Expression
from anabranch.model.time import Duration, Time
from anabranch.optimizer.driver import optimize
from anabranch.optimizer.statistics import PlanStatistics, SourceStatistics


def window(name: str) -> Node:
    lower = name.lower()
    schema = pa.schema([(f"{lower}k", pa.int64()), (f"{lower}j", pa.int64())])
    source = Source(name=name, schema=schema, insert_only=True, only_points=True)
    return TimeWindow(input=source, size=Duration(100))


def join(left: Node, right: Node, on: str) -> Join:
    both = Join(kind="inner", left=left, right=right).both
    return Join(kind="inner", left=left, right=right, predicate=Expression.parse(on, both))


A, B, C = map(window, "ABC")
WRITTEN = join(join(A, B, "ak = bk"), C, "bj = cj")


def measured(a: float, c: float) -> PlanStatistics:
    """A and C are joined with B; as many pairs as rows come decide."""
    rates = {"A": a, "B": 10.0, "C": c}
    return PlanStatistics(
        sources={name: SourceStatistics(rate=rate) for name, rate in rates.items()},
        shares={'"A.ak" = "B.bk"': 0.005, '"B.bj" = "C.cj"': 0.005},
    )


EARLY, LATE = measured(1.0, 100.0), measured(100.0, 1.0)


def best(statistics: PlanStatistics) -> Node:
    return optimize(WRITTEN, statistics=statistics).node


def test_a_plan_that_fits_what_is_measured_stays() -> None:
    verdict = judge(best(EARLY), best(EARLY), EARLY)
    assert verdict.gain == pytest.approx(1)
    assert verdict.reason == "the running plan is the best that is known"


def test_a_plan_that_was_right_is_wrong_after_the_rates_have_changed() -> None:
    assert best(EARLY) != best(LATE)
    verdict = judge(best(EARLY), best(LATE), LATE)
    assert verdict.gain > 2
    assert "of the work" in verdict.reason


def test_clips_of_a_change_that_is_over_cost_nothing() -> None:
    clipped = Clip(input=best(LATE).with_inputs(*best(LATE).inputs), start=Time(7))
    assert without_clips(clipped) == best(LATE)
    assert judge(clipped, best(LATE), LATE).gain == pytest.approx(1)


def test_patience_wants_batches_in_a_row() -> None:
    settings = Reoptimize(factor=2, batches=3)
    good, bad = GainVerdict(2.5, ""), GainVerdict(1.9, "")
    patience = Patience()
    for verdict in (good, good, bad, good, good):
        patience = patience.noting(verdict, LATE, settings)
        assert not patience.is_exhausted(settings)
    assert patience.unmoved(settings).is_exhausted(settings)
    assert not patience.noting(bad, LATE, settings).is_exhausted(settings)


def test_plans_are_priced_again_once_something_has_moved() -> None:
    near = measured(104.0, 1.0)
    assert not has_moved(LATE, near, 0.1)
    assert has_moved(LATE, near, 0.01)
    assert has_moved(LATE, EARLY, 0.5)
    assert has_moved(LATE, PlanStatistics(sources=LATE.sources), 0.5)


@dataclass
class Query:
    """A query that changes at once when it is asked to."""

    statistics: PlanStatistics
    plan: Node
    changes: int = 0
    priced: int = 0
    refuses: bool = False
    busy: bool = False
    seen: list[PlanStatistics] = field(default_factory=list)

    def measured(self) -> PlanStatistics:
        return self.statistics

    def running(self) -> Sequence[Node]:
        return (self.plan,)

    def best(self, statistics: PlanStatistics) -> Sequence[Node]:
        self.priced += 1
        return (best(statistics),)

    def is_changing(self) -> bool:
        return self.busy

    def change(self, outputs: Sequence[int], statistics: PlanStatistics) -> None:
        assert list(outputs) == [0]
        if self.refuses:
            raise PlanError("no way", where="here", hint="none")
        self.plan, self.changes = best(statistics), self.changes + 1


def test_a_query_changes_once_and_back_when_rates_do() -> None:
    query = Query(EARLY, best(EARLY))
    watching = Reoptimizer(query, Reoptimize(batches=3))
    for _ in range(10):
        assert watching.look() is None
    # Nothing has moved, so plans are priced once.
    assert query.priced == 1
    query.statistics = LATE
    verdicts = [watching.look() for _ in range(10)]
    assert query.changes == 1
    assert [each is not None for each in verdicts] == [False, False, True] + [False] * 7
    query.statistics = EARLY
    for _ in range(10):
        watching.look()
    assert query.changes == 2
    assert query.plan == best(EARLY)


def test_rates_that_flicker_change_nothing() -> None:
    query = Query(EARLY, best(EARLY))
    watching = Reoptimizer(query, Reoptimize(batches=3))
    for number in range(30):
        query.statistics = LATE if number % 3 else EARLY
        watching.look()
    assert query.changes == 0


def test_a_change_under_way_is_waited_for() -> None:
    query = Query(LATE, best(EARLY), busy=True)
    watching = Reoptimizer(query, Reoptimize(batches=2))
    for _ in range(5):
        watching.look()
    assert query.changes == 0
    query.busy = False
    watching.look()
    assert query.changes == 0
    watching.look()
    assert query.changes == 1


def test_a_refusal_leaves_the_query_as_it_was(caplog: pytest.LogCaptureFixture) -> None:
    query = Query(LATE, best(EARLY), refuses=True)
    watching = Reoptimizer(query, Reoptimize(batches=2))
    for _ in range(8):
        assert watching.look() is None
    assert query.plan == best(EARLY)
    assert sum("the plan stays as it is: no way" in each for each in caplog.messages) == 1


@pytest.mark.parametrize("wrong", [{"factor": 1.0}, {"batches": 0}, {"change": 1.0}])
def test_settings_without_meaning_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(PlanError, match=f"{next(iter(wrong))} cannot be"):
        Reoptimize(**wrong)  # type: ignore[arg-type]


def test_an_engine_takes_settings_or_a_word() -> None:
    ab.Engine(reoptimize="auto")
    ab.Engine(reoptimize=ab.Reoptimize(factor=3))
    with pytest.raises(PlanError, match="reoptimize must be"):
        ab.Engine(reoptimize="sometimes")  # type: ignore[arg-type]


def test_batches_before_a_restart_count_but_one_has_to_confirm_them() -> None:
    query = Query(LATE, best(EARLY))
    watching = Reoptimizer(query, Reoptimize(batches=5))
    watching.resume(2)
    assert [watching.look() is not None for _ in range(3)] == [False, False, True]
    assert query.changes == 1
    query = Query(LATE, best(EARLY))
    watching = Reoptimizer(query, Reoptimize(batches=5))
    watching.resume(1_000)
    assert query.changes == 0
    assert watching.look() is not None
    assert query.changes == 1
    # What has turned out otherwise since does not count.
    query = Query(LATE, best(EARLY))
    watching = Reoptimizer(query, Reoptimize(batches=2))
    watching.resume(1_000)
    query.statistics = EARLY
    assert watching.look() is None
    assert query.changes == 0


def test_a_start_compares_the_plan_of_the_state_with_the_best_one() -> None:
    [verdict] = at_a_start(Query(LATE, best(EARLY)))
    assert verdict.gain > 2
    [verdict] = at_a_start(Query(LATE, best(LATE)))
    assert verdict.gain == pytest.approx(1)
    # Nothing is known, or both plans of a change run.
    assert at_a_start(Query(PlanStatistics(), best(EARLY))) == []
    assert at_a_start(Query(LATE, best(EARLY), busy=True)) == []
