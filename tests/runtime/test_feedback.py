"""Feedback on its way to the senders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.runtime.copies import SCHEMA

from anabranch.algebra.distinct import Distinct
from anabranch.algebra.forms.coalesce import Coalesce
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import TimeWindow
from anabranch.algebra.union import Union
from anabranch.errors import PlanError
from anabranch.kernels.contract.command import Command
from anabranch.model.elements import Adjust, Insert, Stable, batch_of
from anabranch.model.logical import LogicalStream
from anabranch.model.time import BEGINNING, Duration
from anabranch.runtime.store.control import Control, ControlFolder, command_of
from anabranch.runtime.store.folder import Folder

Make = Callable[..., Any]

ROWS = Source(name="rows", schema=SCHEMA, insert_only=True)
OTHER = Source(name="other", schema=SCHEMA, insert_only=True)


def feedback(end: int, since: int | None = None) -> Command:
    return command_of({"verb": "feedback", "value": end, "since": since}, {})


def rows(*starts: int, stable: int = BEGINNING) -> list[Any]:
    said = [] if stable == BEGINNING else [Stable(stable)]
    return [batch_of([*(Insert({"a": s}, s, s + 1) for s in starts), *said], SCHEMA)]


def skipped(runner: Any, source: str = "rows") -> int:
    every = [each.sources for head in runner.heads for each in head.counters]
    counted = [sources[source] for sources in every if source in sources]
    return max(int(each.skipped) for each in counted)


def test_rows_that_matter_to_nobody_are_left_out(sharded: Make) -> None:
    runner = sharded(TimeWindow(input=ROWS, size=Duration(3)), shards=2)
    assert len(runner.step({"rows": rows(1)}, commands=[feedback(10)])) == 1
    # [s, s + 3) ends before 10.
    out = runner.step({"rows": rows(5, 6, 7, 8)})
    assert sorted(out.start.tolist()) == [7, 8]
    assert skipped(runner) == 2
    counted = runner.heads[0].counters[-1].sources["rows"]
    assert counted.rows == 4
    # The largest wins, and it is remembered.
    runner.step({}, commands=[feedback(4)])
    assert len(runner.step({"rows": rows(6, 7)})) == 1
    runner.step({}, commands=[feedback(20), feedback(12)])
    assert len(runner.step({"rows": rows(12, 16)})) == 0
    assert skipped(runner) == 2


def test_what_is_left_out_still_tells_the_time(sharded: Make) -> None:
    runner = sharded(Union(inputs=(ROWS,) * 2))
    runner.step({"rows": rows(1)}, commands=[feedback(50)])
    assert runner.step({"rows": rows(3, 4, stable=5)}).stable == 5
    # Late is late, whoever asks.
    runner.step({"rows": rows(2, 8)})
    counted = runner.heads[0].counters[-1].sources["rows"]
    assert (counted.late, counted.skipped) == (1, 1)


def test_a_repeated_batch_leaves_out_the_same(sharded: Make) -> None:
    runner = sharded(ROWS)
    runner.step({"rows": rows(1)}, commands=[feedback(10)])
    first = runner.attempt({"rows": rows(4, 12)}, commands=[feedback(40)])
    again = runner.attempt({"rows": rows(4, 12)}, commands=[feedback(40)])
    assert first.start.tolist() == again.start.tolist() == [12]


def state(runner: Any) -> int:
    return sum(each.state_rows for head in runner.heads for each in head.counters)


@pytest.mark.parametrize("shards", [2, 20])
def test_state_falls_in_every_shard(sharded: Make, shards: int) -> None:
    window = TimeWindow(input=replace(ROWS, insert_only=False), size=Duration(3))
    runner = sharded(Coalesce(input=window), shards=shards)
    runner.step({"rows": rows(*range(100))})
    before = state(runner)
    runner.step({}, commands=[feedback(90, 88)])
    assert state(runner) < before / 4
    # Without a batch in between, and also of what is forgotten already.
    gone = [Adjust({"a": s}, s, s + 1, s) for s in (5, 50, 95)]
    out = runner.step({"rows": [batch_of(gone, SCHEMA)]})
    assert out.start.tolist() == [95]


def test_what_was_cut_stays_cut(sharded: Make) -> None:
    runner = sharded(Coalesce(input=replace(ROWS, insert_only=False)), shards=3)
    runner.step({"rows": rows(*range(20))})
    runner.step({}, commands=[feedback(15, 12)])
    # Who says less afterwards does not ask for more.
    runner.step({}, commands=[feedback(16)])
    runner.rescale(2)
    gone = [Adjust({"a": s}, s, s + 1, s) for s in (3, 17)]
    gone += [Adjust({"a": 4}, 4, 5, 18)]
    out = runner.step({"rows": [batch_of(gone, SCHEMA)]})
    found = zip(out.start.tolist(), out.end.tolist(), out.new_end.tolist(), strict=True)
    assert sorted(found) == [(11, 11, 18), (17, 18, 17)]


def test_an_operator_that_needs_all_rows_gets_them(sharded: Make) -> None:
    runner = sharded(Union(inputs=(Distinct(input=ROWS), OTHER)))
    runner.step({"rows": rows(1), "other": rows(1)}, commands=[feedback(10)])
    out = runner.step({"rows": rows(4), "other": rows(4)})
    assert len(out) == 1
    assert skipped(runner) == 0


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    batches=st.lists(
        st.tuples(
            st.lists(st.tuples(st.integers(0, 20), st.integers(1, 6)), max_size=5),
            st.one_of(st.none(), st.integers(0, 25)),
        ),
        max_size=5,
    ),
    insert_only=st.booleans(),
)
def test_what_holds_from_then_on_is_the_same(
    sharded: Make, batches: list[tuple[list[tuple[int, int]], int | None]], insert_only: bool
) -> None:
    node = TimeWindow(input=replace(ROWS, insert_only=insert_only), size=Duration(2))
    one, other = sharded(node, shards=2), sharded(node, shards=2)
    whole, less, end = [], [], 0
    for events, said in batches:
        came = [batch_of([Insert({"a": s}, s, s + n) for s, n in events], SCHEMA)]
        whole.append(one.step({"rows": came}))
        commands = [] if said is None else [feedback(said)]
        less.append(other.step({"rows": came}, commands=commands))
        end = max(end, said or 0)

    def after(batches: list[Any]) -> list[Any]:
        found = LogicalStream.of_batches(batches).events()
        return sorted((p, max(start, end), last) for p, start, last in found if last > end)

    assert after(less) == after(whole)


def test_feedback_is_for_the_whole_query(tmp_path: Path) -> None:
    control = Control(ControlFolder(Folder.at(str(tmp_path))), {"s": True})
    control.feedback("1970-01-01T00:00:01")
    [note] = control.folder.notes()
    assert note.content == {"verb": "feedback", "source": "", "value": 1_000_000}
    for content, what in (
        ({"verb": "feedback"}, "'feedback' needs a value"),
        ({"verb": "feedback", "value": 1 << 70}, "is not an instant"),
        ({"verb": "feedback", "source": "s", "value": 5}, "not for a source"),
    ):
        with pytest.raises(PlanError, match=what):
            command_of(content, {"s": True})
