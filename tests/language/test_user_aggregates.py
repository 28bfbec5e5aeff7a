"""Aggregates of users in any GROUP BY say of every snapshot what built-in ones would."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given

import anabranch as ab
from anabranch.algebra.node import Node
from anabranch.language.text.statements import Select
from anabranch.model.batch import EventBatch
from anabranch.reading import read_statements
from anabranch.registry import Registry
from anabranch.testing import assert_agrees, batchings, streams
from anabranch.testing.physical import PhysicalStream
from tests.kernels.plans import SCHEMA, SOURCE


@ab.uda
def total(values: list[int]) -> int:
    """The sum."""
    return sum(values)


@ab.uda
def longest(events: list[ab.Event[int]], window: ab.Window) -> int:
    """The longest lifetime."""
    return max(event.length for event in events)


def plan(text: str) -> Node:
    names = Registry({"total": total, "longest": longest})
    names.add_leaf(SOURCE, None)
    (statement,) = read_statements(text)
    assert isinstance(statement, Select)

    def no_types(text: str, schema: object) -> object:
        raise AssertionError(text)

    return names.plan(statement.query, statement.script, text, no_types).node


QUERIES = [
    "SELECT k, {}(v) AS s, COUNT(*) AS n FROM S WHERE v IS NOT NULL GROUP BY k",
    "SELECT {}(v) AS s FROM S WHERE v IS NOT NULL",
    "SELECT v % 2 AS odd, {}(v) + 1 AS s FROM S WHERE v > 0 GROUP BY v % 2 HAVING {}(v) > 1",
]


@pytest.mark.parametrize("query", QUERIES)
@given(came=streams(SCHEMA).flatmap(batchings))
def test_kernels_agree_with_the_meaning(query: str, came: list[EventBatch]) -> None:
    assert_agrees(plan(query.replace("{}", "total")), came)


@pytest.mark.parametrize("query", QUERIES)
@given(stream=streams(SCHEMA))
def test_the_meaning_is_that_of_a_built_in_aggregate(query: str, stream: PhysicalStream) -> None:
    rows = stream.meaning()
    mine, theirs = plan(query.replace("{}", "total")), plan(query.replace("{}", "SUM"))

    def meaning(node: Node) -> object:
        return node.denote(*(meaning(each) for each in node.inputs)) if node.inputs else rows  # type: ignore[arg-type]

    assert meaning(mine) == meaning(theirs)


def test_open_groups_hold_no_promise_back(tmp_path: Path) -> None:
    (tmp_path / "s.jsonl").write_text(
        '{"insert": {"k": "a", "v": 2}, "start": 5}\n{"stable": 12}\n'
        '{"insert": {"k": "a", "v": 3}, "start": 13}\n{"stable": 20}\n'
    )
    engine = ab.Engine()
    engine.register(total)
    stream = engine.stream(tmp_path / "s.jsonl", name="S")
    wanted = (
        '{"insert": {"k": "a", "s": 2}, "start": 5, "end": 13}\n'
        '{"insert": {"k": "a", "s": 5}, "start": 13}\n{"stable": 20}\n'
    )
    for query in (
        stream.group_by("k").agg(s="total(v)"),
        stream.group_by("k").agg(s=ab.call(total, "v")),
        engine.sql("SELECT k, total(v) AS s FROM S GROUP BY k"),
    ):
        query.run_local(to=tmp_path / "out.jsonl")
        assert (tmp_path / "out.jsonl").read_text() == wanted


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("SELECT k, longest(v) FROM S GROUP BY k", "longest reads times, and there is no window"),
        ("SELECT k FROM S WHERE total(v) > 1", "is not allowed in WHERE"),
        ("SELECT SUM(total(v)) FROM S", "an aggregate cannot contain another aggregate"),
        ("SELECT v, total(v) FROM S GROUP BY k", "'v' is neither in GROUP BY nor in an aggregate"),
    ],
)
def test_what_makes_no_sense_is_refused(text: str, what: str) -> None:
    with pytest.raises(ab.QueryError, match=what):
        plan(text)


def test_python_refuses_what_sees_times_without_a_window(tmp_path: Path) -> None:
    (tmp_path / "s.jsonl").write_text('{"insert": {"k": "a", "v": 2}, "start": 5}\n')
    stream = ab.Engine().stream(tmp_path / "s.jsonl")
    with pytest.raises(ab.PlanError, match="longest reads times"):
        stream.group_by("k").agg(s=ab.call(longest, "v"))
