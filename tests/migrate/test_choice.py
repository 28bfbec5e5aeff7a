"""By clip or by replay, and why; which columns a changed query may have."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from anabranch.algebra.source import Source
from anabranch.engine import Engine
from anabranch.errors import PlanError, QueryError
from anabranch.migrate.change import with_columns_of
from anabranch.migrate.choice import LONGEST_CLIP, chosen
from anabranch.model.clock import INTEGERS, MICROSECONDS
from anabranch.model.time import BEGINNING, FOREVER, Time

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


def test_long_windows_and_endless_rows_are_replayed() -> None:
    long = {**USUAL, "clip_at": Time(40 + LONGEST_CLIP + 1), "clock": MICROSECONDS}
    assert (chosen("auto", **long).how, chosen("auto", **long).at) == ("replay", 40)
    assert chosen("clip", **long).how == "clip"
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
    with pytest.raises(PlanError, match="'a' is string, and was int64"):
        with_columns_of(typed, old, where="q")


def test_alter_query_names_a_running_query() -> None:
    engine = Engine()
    with pytest.raises(QueryError, match="no running query 'highest'"):
        engine.sql("ALTER QUERY highest AS SELECT 1 AS a")
    with pytest.raises(QueryError, match="the query is missing"):
        engine.sql("ALTER QUERY highest AS")
