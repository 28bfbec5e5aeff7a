"""Copies of one meaning have the same events, and what CLEANSE releases whole stays in order."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TypeAlias

import pyarrow as pa
import pytest
from tests.merge.physical_copies import events_of, physical_copy, thrown_events

import anabranch as ab
from anabranch.algebra.analysis.canonical import canonical, is_for_merge
from anabranch.algebra.filter import Filter
from anabranch.algebra.forms.cleanse import Cleanse
from anabranch.algebra.forms.coalesce import Coalesce
from anabranch.algebra.map import Map
from anabranch.algebra.merge import Merge
from anabranch.algebra.node import Node
from anabranch.algebra.shift import Shift
from anabranch.algebra.source import Source
from anabranch.algebra.union import Union
from anabranch.expressions.expression import Expression
from anabranch.kernels.plan.local_runner import LocalRunner
from anabranch.runtime.sources.files.log_records import LogProperties
from anabranch.stream import Stream
from anabranch.testing.physical import PhysicalStream

Shape: TypeAlias = Callable[[Stream], Stream]

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])
BIDS = Source(name="bids", schema=SCHEMA)
SCRIPT = """
CREATE STREAM Bid (item INT, price INT, at INT) SOURCE 'bids/*.jsonl' ORDERED BY at;
CREATE VIEW Most AS SELECT item, MAX(price) AS most FROM Bid WINDOW(RANGE 10) GROUP BY item;
"""


def mapped(node: Node, *columns: tuple[str, str]) -> Map:
    parsed = tuple((name, Expression.parse(text, node.schema)) for name, text in columns)
    return Map(input=node, columns=parsed)


def picked(node: Node) -> Filter:
    return Filter(input=node, predicate=Expression.parse("k > 0", node.schema))


KEEP: dict[str, Callable[[Node], Node]] = {
    "picked": picked,
    "renamed": lambda node: mapped(node, ("w", "v"), ("k", "k")),
    "with a constant": lambda node: mapped(node, ("k", "k"), ("v", "v"), ("one", "1")),
    "moved": lambda node: Shift(input=node, by=5),
    "all of it": lambda node: picked(Shift(input=mapped(node, ("w", "v"), ("k", "k")), by=-2)),
}
LOSE: dict[str, Callable[[Node], Node]] = {
    "fewer columns": lambda node: mapped(node, ("k", "k")),
    "computed": lambda node: mapped(node, ("k", "k"), ("v", "v % 2")),
    "beside itself": lambda node: Union(inputs=(node, node)),
    "picked of fewer columns": lambda node: picked(mapped(node, ("k", "k"))),
}


@pytest.mark.parametrize("name", [*KEEP, *LOSE])
@pytest.mark.parametrize("form", ["whole", "coalesced"])
def test_events_are_those_of_the_longest_lifetimes(name: str, form: str) -> None:
    make = {**KEEP, **LOSE}[name]
    aggregate = ab.Engine().sql(SCRIPT + "SELECT item AS k, most AS v FROM Most").node

    def ended(x: Node) -> Node:
        return Cleanse(input=x, cut=False) if form == "whole" else Coalesce(input=x)

    plan = canonical(make(ended(aggregate)))
    assert is_for_merge(plan)
    assert isinstance(plan, Coalesce) == (name in LOSE)
    in_order = plan.properties.insert_only and plan.properties.order != "none"
    assert in_order == (form == "whole" and name in KEEP)
    longest = Coalesce(input=make(aggregate))
    (source,) = {each for each in plan.walk() if isinstance(each, Source)}
    dice = Random(f"{name} {form}")
    for _ in range(15):
        events = [(payload, start, start + 1) for payload, start, _ in thrown_events(dice, 12)]
        found = []
        for each in (plan, plan, longest):
            elements = physical_copy(events, dice)
            stream = PhysicalStream(source.schema, tuple(elements))
            cuts = sorted(dice.randrange(len(elements)) for _ in range(3))
            runner = LocalRunner(each)
            out = [runner.step({source.name: batch}) for batch in stream.batches(*cuts)]
            found.append(events_of(out))
        assert found[0] == found[1] == found[2]
        assert found[0]


def test_what_sources_say_is_taken_as_it_is() -> None:
    for make in (*KEEP.values(), *LOSE.values()):
        for below in (BIDS, Cleanse(input=BIDS, cut=False)):
            assert canonical(make(below)) == make(below)
    # Rows of two inputs meet, each as long as can be.
    both = Union(inputs=(BIDS, Coalesce(input=BIDS)))
    assert canonical(both) == Coalesce(input=both)


def merged(text: str) -> tuple[Merge, str]:
    stream = ab.Engine().sql(SCRIPT + text)
    (found,) = [each for each in stream.node.walk() if isinstance(each, Merge)]
    return found, stream.explain()


@pytest.mark.parametrize(
    ("query", "case", "why"),
    [
        ("SELECT * FROM CLEANSE(Most, cut => FALSE)", "r2", "two events of one start"),
        (
            "SELECT most AS m, item FROM CLEANSE(Most, cut => FALSE)",
            "r2",
            "two events of one start",
        ),
        (
            "SELECT * FROM CLEANSE(Most, cut => FALSE) WHERE most > 3",
            "r2",
            "two events of one start",
        ),
        ("SELECT item FROM CLEANSE(Most, cut => FALSE)", "r4", "two events of one payload"),
        ("SELECT item, most / 2 AS h FROM CLEANSE(Most, cut => FALSE)", "r4", "two events of one"),
        ("SELECT * FROM CLEANSE(Most)", "r3", "may adjust events"),
    ],
)
def test_views_of_cleansed_streams_are_merged_in_order(query: str, case: str, why: str) -> None:
    node, text = merged(
        f"CREATE VIEW L AS {query}; CREATE VIEW R AS {query}; SELECT * FROM MERGE(L, R)"
    )
    assert node.chosen == case
    assert why in text


def test_explain_shows_where_lifetimes_become_the_longest() -> None:
    copies = "SELECT item, most AS m FROM CLEANSE(Most, cut => FALSE) WHERE most > 3"
    _, text = merged(
        f"CREATE VIEW L AS {copies}; CREATE VIEW R AS {copies}; SELECT * FROM MERGE(L, R)"
    )
    plan = text[text.index("Plan\n") :].splitlines()
    # What is only picked and renamed has moved below; nothing is above the events released whole.
    assert "Merge 2 copies by r2 (inserts in order" in plan[1]
    assert plan[2:9] == [
        "    Cleanse whole events  [insert-only, no duplicates, in order]",
        "      Coalesce  [no duplicates]",
        "        Map item, max_price AS m  [no duplicates]",
        "          Filter max_price > 3  [no duplicates]",
        "            Aggregate max(price) AS max_price by item  [no duplicates]",
        "              TimeWindow 10  [insert-only]",
        "                Source Bid  [insert-only, points]",
    ]


def test_in_python_as_well_and_logs_say_so() -> None:
    engine = ab.Engine()
    engine.sql(SCRIPT + "SELECT * FROM Most")

    def copy(shape: Shape) -> Stream:
        whole: Stream = engine.sql("SELECT * FROM Most").cleanse(cut=False)
        return shape(whole)

    def case(shape: Shape) -> str:
        node = ab.merge(copy(shape), copy(shape)).node
        assert isinstance(node, Merge)
        return node.chosen

    def known(shape: Shape) -> LogProperties:
        return LogProperties.of(copy(shape).canonical().node, "speculative")

    in_order = LogProperties(
        insert_only=True, no_duplicates=True, keyed=True, order="start", ties=True
    )
    for shape in (
        lambda s: s,
        lambda s: s.where("most > 3"),
        lambda s: s.select("most", "item"),
    ):
        assert known(shape) == in_order
        assert case(shape) == "r2"
    assert known(lambda s: s.select("item")) == LogProperties()
    assert case(lambda s: s.select("item")) == "r4"
