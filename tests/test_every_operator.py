"""Every operator is complete: traits, a kernel, a page, a way to write it, a benchmark case."""

from __future__ import annotations

import pkgutil
import sys
from importlib import import_module
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

import anabranch.algebra
from anabranch.algebra.analysis.node_reach import UNBOUNDED_NODES, reached, taken
from anabranch.algebra.analysis.spans import EVERYTHING
from anabranch.algebra.analysis.weights import with_weighted_windows
from anabranch.algebra.node import Node, Unary
from anabranch.algebra.source import Source
from anabranch.algebra.traits import Traits
from anabranch.algebra.union import Union
from anabranch.algebra.weighted_window import WeightedWindow
from anabranch.bench.operator_cases import CASES, Inputs
from anabranch.kernels.plan.catalog import kernel_of
from anabranch.kernels.plan.compile import compile_plan
from anabranch.model.identity import Identity
from anabranch.model.logical import LogicalStream
from anabranch.model.time import Time
from anabranch.testing import PhysicalStream, streams
from tests.kernels.operators import OPERATORS
from tests.kernels.plans import SCHEMA
from tests.language.streams import plan

PAGES: Final = Path(__file__).parents[1] / "docs" / "operators"
OTHER_PAGES: Final = {
    "ApplyOperator": ("apply_module.md",),
    "WeightedWindow": ("time_window.md", "granularity.md"),
}
"""Operators that are described on the pages of others."""

BY_COMPILING: Final = {
    Source: "it is read, by workers of its own",
    Union: "its inputs go into one stage",
}
"""Operators without a kernel, which the compiler puts into the plan in another way."""

QUERIES: Final = {
    "Source": "SELECT * FROM Bid",
    "Filter": "SELECT itemID FROM Bid WHERE bid_price > 80",
    "Map": "SELECT itemID * 2 AS double FROM Bid",
    "Union": "SELECT itemID FROM Bid UNION ALL SELECT itemID FROM OpenAuction",
    "Join": "SELECT sellerID FROM Bid b, OpenAuction o WHERE b.itemID = o.itemID",
    "Distinct": "SELECT DISTINCT itemID FROM Bid",
    "SetOperation": "SELECT itemID FROM Bid EXCEPT ALL SELECT itemID FROM OpenAuction",
    "Aggregation": "SELECT MAX(bid_price) FROM Bid WINDOW(RANGE 10 MINUTES)",
    "TopK": "SELECT itemID FROM Bid WINDOW(RANGE 1 HOUR) ORDER BY bid_price LIMIT 3",
    "Ranking": "SELECT itemID, RANK() OVER (ORDER BY bid_price) AS r FROM Bid WINDOW(RANGE 1 HOUR)",
    "Explode": "SELECT explode(array(itemID, 1)) AS item FROM Bid",
    "TimeWindow": "SELECT itemID FROM Bid WINDOW(RANGE 10 MINUTES)",
    "CountWindow": "SELECT itemID FROM Bid WINDOW(ROWS 10)",
    "SessionWindow": "SELECT itemID FROM SESSION(Bid, DESCRIPTOR(timestamp), INTERVAL '9' MINUTES)",
    "WeightedWindow": (
        "SELECT COUNT(*) FROM (SELECT itemID FROM Bid WINDOW(RANGE 1 HOUR)) "
        "WINDOW(RANGE 10 MINUTES SLIDE 5 MINUTES)"
    ),
    "Granularity": "SELECT itemID FROM Bid WINDOW(RANGE 9 MINUTES) GRANULARITY(1 MINUTE)",
    "Shift": "SELECT itemID FROM SHIFT(Bid, 5 MINUTES)",
    "Clip": "SELECT itemID FROM CLIP(Bid, start => '2020-01-01 00:00:00')",
    "AlterLifetime": "SELECT itemID FROM LIFETIME(Bid, duration => 5 MINUTES)",
    "ToStream": "SELECT itemID FROM ISTREAM(Bid)",
    "Coalesce": "SELECT itemID FROM COALESCE(Bid)",
    "Split": "SELECT itemID FROM SPLIT(Bid, 5 MINUTES)",
    "Cleanse": "SELECT itemID FROM CLEANSE(Bid)",
    "ToSigned": "SELECT itemID FROM TO_SIGNED(Bid)",
    "FromSigned": "SELECT itemID FROM FROM_SIGNED(TO_SIGNED(Bid))",
    "ApplyOperator": "SELECT AVG(bid_price) FROM Bid GROUP BY TUMBLING(10 MINUTES)",
    "Merge": "SELECT itemID FROM MERGE(Bid, (SELECT * FROM Bid))",
}
"""How each operator is written."""


def every_operator() -> list[type[Node]]:
    """All classes of nodes that can be built."""
    for module in pkgutil.walk_packages(anabranch.algebra.__path__, "anabranch.algebra."):
        import_module(module.name)
    found: dict[str, type[Node]] = {}
    left: list[type[Node]] = [*Node.__subclasses__()]
    while left:
        each = left.pop()
        left += each.__subclasses__()
        # With slots a class is made twice; only one of them is in its module.
        if each is not Unary and vars(sys.modules[each.__module__]).get(each.__name__) is each:
            found[each.__name__] = each
    return [each for each in found.values() if each.__module__.startswith("anabranch.")]


NODES: Final = every_operator()
every = pytest.mark.parametrize("node", NODES, ids=[each.__name__ for each in NODES])


def test_all_are_found() -> None:
    assert {each.__name__ for each in NODES} == QUERIES.keys()


@every
def test_it_declares_an_identity_and_traits_of_its_own(node: type[Node]) -> None:
    assert isinstance(vars(node).get("identity"), Identity)
    assert isinstance(vars(node).get("traits"), Traits)


def instances(node: type[Node]) -> list[Node]:
    """Operators of a kind in the plans of benchmarks."""
    plans = [case.plan(Inputs.of(insert_only=True, points=case.points)) for case in CASES.values()]
    return [each for whole in plans for each in whole.walk() if type(each) is node]


@every
def test_its_reach_has_a_bound_or_a_reason_for_none(node: type[Node]) -> None:
    change = (Time(0), Time(10))
    bounded = any(
        reached(each, change) != EVERYTHING and taken(each, change) != EVERYTHING
        for each in instances(node)
    )
    assert bounded or node is Source or node in UNBOUNDED_NODES, (
        f"add {node.__name__} to algebra/analysis/node_reach.py"
    )


@every
def test_it_has_a_benchmark_case_and_a_kernel(node: type[Node]) -> None:
    own = instances(node)
    assert own, f"add a case for {node.__name__} to bench/operator_cases.py"
    if node in BY_COMPILING:
        assert compile_plan(own[0]) is not None
    else:
        assert kernel_of(own[0]) is not None


@every
def test_it_has_a_page(node: type[Node]) -> None:
    file = node.__module__.rpartition(".")[2]
    names = {f"{file}.md", f"{file.replace('_', '-')}.md", f"{file.replace('_', '-')}s.md"}
    pages = OTHER_PAGES.get(node.__name__) or tuple(
        name for name in sorted(names) if (PAGES / name).exists()
    )
    assert pages, f"write docs/operators/{file}.md"
    for page in pages:
        text = (PAGES / page).read_text()
        assert "## Syntax" in text or node is Source, page


@every
def test_a_query_can_say_it(node: type[Node]) -> None:
    found = plan(QUERIES[node.__name__])
    if node is WeightedWindow:
        found = with_weighted_windows(found)
    assert any(type(each) is node for each in found.walk())


def kept(rows: LogicalStream) -> set[tuple[object, ...]]:
    """All payloads of a stream."""
    return set(rows.steps)


def changes(rows: LogicalStream) -> set[int]:
    """All instants at which a snapshot changes."""
    return {time for start, end, _ in rows.segments() for time in (start, end)}


def points_of(node: Node) -> bool:
    return any(isinstance(each, Source) and each.only_points for each in node.walk())


@given(st.data())
@pytest.mark.parametrize("name", OPERATORS)
def test_its_traits_are_true(name: str, data: st.DataObject) -> None:
    node = data.draw(OPERATORS[name])
    if len(node.inputs) != 1 or not isinstance(node.inputs[0], Source):
        return
    drawn: PhysicalStream = data.draw(
        streams(SCHEMA, only_points=points_of(node), longest=20, odd_floats=False)
    )
    rows = drawn.meaning()
    traits, result = node.traits, node.denote(rows)
    if traits.same_snapshots:
        assert result == rows
    if traits.keeps_payloads:
        width = len(SCHEMA)
        assert {payload[:width] for payload in kept(result)} <= kept(rows)
    if traits.changes_with_inputs:
        assert changes(result) <= changes(rows)
    if traits.snapshot_reducible:
        for start, _, _ in rows.segments():
            # A snapshot by itself gives that snapshot of the output.
            alone = LogicalStream.of((p, start, start + 1) for p in rows.snapshot(start).elements())
            assert node.denote(alone).snapshot(start) == result.snapshot(start)
    if traits.passes_presence:
        once = LogicalStream.of((p, s, e) for s, e, now in rows.segments() for p in now)
        assert kept(node.denote(once)) == kept(result)
        for start, _, _ in result.segments():
            assert set(node.denote(once).snapshot(start)) == set(result.snapshot(start))
