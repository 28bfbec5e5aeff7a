"""Expectations of sources that are declared in another way by now are no other sources."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa

from anabranch.algebra.filter import Filter
from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.algebra.union import Union
from anabranch.expressions.expression import Expression
from anabranch.migrate.same_sources import with_sources_of

SCHEMA = pa.schema([("v", pa.int64())])
BID = Source(name="Bid", schema=SCHEMA, rate=3.0, distinct=(("v", 7.0),))


def query(*sources: Source) -> Node:
    over = [Filter(input=each, predicate=Expression.parse("v > 3", SCHEMA)) for each in sources]
    return over[0] if len(over) == 1 else Union(inputs=tuple(over))


def test_what_is_expected_of_a_source_is_not_what_it_is() -> None:
    for other in ({"rate": 8.0}, {"rate": None}, {"distinct": ()}):
        changed: dict[str, Any] = other
        [found] = with_sources_of([query(replace(BID, **changed))], [query(BID)])
        assert found == query(BID)


def test_a_source_that_is_another_one_and_a_new_one_stay_as_declared() -> None:
    keyed, new = replace(BID, keyed=True, rate=8.0), replace(BID, name="Ask", rate=8.0)
    [found] = with_sources_of([query(keyed, new)], [query(BID)])
    assert found == query(keyed, new)


def test_plans_that_share_a_part_share_it_afterwards() -> None:
    below = query(replace(BID, rate=8.0))
    one, other = with_sources_of([below, Union(inputs=(below, below))], [query(BID)])
    assert other.inputs[0] is other.inputs[1] is one
    # Nothing is made anew where nothing is declared in another way.
    assert with_sources_of([one, other], [query(BID)]) == (one, other)
