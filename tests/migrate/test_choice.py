"""By clip or by replay, and why; which columns a changed query may have."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from anabranch.algebra.clip import Clip
from anabranch.algebra.distinct import Distinct
from anabranch.algebra.source import Source
from anabranch.algebra.time_window import TimeWindow
from anabranch.algebra.union import Union
from anabranch.engine import Engine
from anabranch.errors import PlanError, QueryError
from anabranch.kernels.plan.compile import compile_plan
from anabranch.migrate.change import with_columns_of
from anabranch.migrate.choice import chosen
from anabranch.migrate.effort import SHORT_CLIP_SECONDS, Effort, effort_of
from anabranch.migrate.in_force import properties_of, with_moves
from anabranch.model.clock import INTEGERS, MICROSECONDS
from anabranch.model.time import BEGINNING, FOREVER, Duration, Time
from anabranch.runtime.query.batch_times import BatchTimes
from anabranch.runtime.query.work import Work
from anabranch.runtime.sources.files.log_records import LogProperties

USUAL: dict[str, Any] = {
    "clip_at": Time(100),
    "no_clip": None,
    "no_replay": None,
    "stable": Time(40),
    "not_before": BEGINNING,
    "clock": INTEGERS,
    "where": "q",
}


def test_clip_is_chosen_where_it_is_soon_over() -> None:
    found = chosen("auto", **USUAL)
    assert (found.how, found.at) == ("clip", 100)
    assert chosen("auto", **{**USUAL, "not_before": Time(150)}).at == 150


def test_a_query_that_has_read_nothing_becomes_another_one_from_the_beginning() -> None:
    nothing = {**USUAL, "clip_at": BEGINNING, "stable": BEGINNING, "no_replay": "no files"}
    for how in ("auto", "clip"):
        found = chosen(how, **nothing)
        assert (found.how, found.at, found.reason) == ("clip", BEGINNING, "nothing was read before")
    assert chosen("auto", **{**nothing, "not_before": Time(30)}).at == 30
    assert chosen("replay", **{**nothing, "no_replay": None}).how == "replay"


def test_what_is_sooner_done_is_chosen_by_rows_and_measured_rates() -> None:
    few = {**USUAL, "clock": MICROSECONDS, "effort": Effort(3_000_000, 1e6, 600.0)}
    found = chosen("auto", **few)
    assert (found.how, found.at) == ("replay", 40)
    assert (
        "reading 3,000,000 rows again takes about 3.0 seconds at 1,000,000 rows/s" in found.reason
    )
    assert chosen("clip", **few).how == "clip"
    many = chosen("auto", **{**few, "effort": Effort(3_000_000_000, 1e6, 600.0)})
    assert many.how == "clip"
    assert "a clip about 10 minutes" in many.reason
    # Nobody knows how fast the stream is, or it is over soon: nothing is read again.
    for clip in (None, SHORT_CLIP_SECONDS):
        assert chosen("auto", **{**few, "effort": Effort(10, 1e6, clip)}).how == "clip"
    gone = chosen("auto", **{**few, "effort": None, "no_replay": "files are gone"})
    assert gone.how == "clip"
    assert "files are gone" in gone.reason


def test_the_pace_of_the_last_batches_tells_how_long_a_clip_takes() -> None:
    times = BatchTimes()
    nothing = effort_of(times, 1_000, clip_at=Time(100), stable=Time(40))
    assert (nothing.clip_seconds, nothing.prefers_replay) == (None, False)
    times.add(0.5, 1_000_000, int(BEGINNING))
    times.add(0.5, 1_000_000, 40)
    assert times.pace is None
    assert times.rows_per_second == 2_000_000


def test_endless_rows_are_replayed() -> None:
    endless = {**USUAL, "clip_at": FOREVER, "no_clip": "rows never end"}
    found = chosen("auto", **endless)
    assert (found.how, found.at) == ("replay", 40)
    assert "rows never end" in found.reason


@pytest.mark.parametrize(
    ("how", "given", "message"),
    [
        ("clip", {"no_clip": "rows never end"}, "cannot change by clip: rows never end"),
        ("replay", {"no_replay": "rows are gone"}, "cannot change by replay: rows are gone"),
        ("auto", {"no_clip": "a", "no_replay": "b"}, "cannot change while it runs"),
        ("auto", {"stable": FOREVER}, "has ended"),
    ],
)
def test_what_is_not_possible_is_refused_with_the_reason(
    how: Any, given: dict[str, Any], message: str
) -> None:
    with pytest.raises(PlanError, match=message) as raised:
        chosen(how, **{**USUAL, **given})
    assert raised.value.hint


def test_columns_are_mapped_by_name() -> None:
    old = Source(name="S", schema=pa.schema([("a", pa.int64()), ("b", pa.string())]))
    new = Source(name="T", schema=pa.schema([("b", pa.string()), ("a", pa.int64())]))
    assert with_columns_of(new, old, where="q").schema.names == ["a", "b"]
    other = Source(name="T", schema=pa.schema([("a", pa.int64()), ("c", pa.string())]))
    with pytest.raises(PlanError, match="'b' is missing"):
        with_columns_of(other, old, where="q")
    typed = Source(name="T", schema=pa.schema([("a", pa.string()), ("b", pa.string())]))
    with pytest.raises(PlanError, match="'a' is STRING, and was BIGINT"):
        with_columns_of(typed, old, where="q")


def test_a_log_promises_no_more_than_both_plans() -> None:
    schema = pa.schema([("a", pa.int64())])
    plain = Source(name="S", schema=schema, insert_only=True, only_points=True)
    grouped = Distinct(input=TimeWindow(input=plain, size=Duration(5)))
    work = Work(
        plan=compile_plan(plain),
        nodes=(plain,),
        properties=(LogProperties.of(plain, "speculative"),),
    )
    assert work.properties[0] is not None
    assert work.properties[0].insert_only
    both = Union(inputs=(Clip(input=plain, end=Time(7)), Clip(input=grouped, start=Time(7))))
    (known,) = properties_of(work, [both], "speculative")
    assert known is not None
    assert not known.insert_only
    assert not known.only_points
    # What is handed over ends events that have left.
    (handed,) = with_moves(work, {0}).properties
    assert handed is not None
    assert (handed.insert_only, handed.keyed, handed.order) == (False, False, "none")
    assert handed.no_duplicates == work.properties[0].no_duplicates


def test_alter_query_names_a_running_query() -> None:
    engine = Engine()
    with pytest.raises(QueryError, match="no running query 'highest'"):
        engine.sql("ALTER QUERY highest AS SELECT 1 AS a")
    with pytest.raises(QueryError, match="the query is missing"):
        engine.sql("ALTER QUERY highest AS")


def test_add_query_and_drop_query_need_queries_that_run() -> None:
    engine = Engine()
    with pytest.raises(QueryError, match="no query is running that another one could join"):
        engine.sql("ADD QUERY dear TO 'dear/' AS SELECT 1 AS a")
    with pytest.raises(QueryError, match="no running query 'dear'"):
        engine.sql("DROP QUERY dear")
    with pytest.raises(QueryError, match="the query is missing"):
        engine.sql("ADD QUERY dear AS")
    with pytest.raises(QueryError, match="where its results go"):
        engine.sql("ADD QUERY dear TO dear AS SELECT 1 AS a")
