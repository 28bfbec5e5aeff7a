"""The streams that tests of the language write queries over."""

from __future__ import annotations

import pyarrow as pa

from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.language.bind.select import bind_query
from anabranch.language.names.context import Context
from anabranch.language.text.read_statements import read_script
from anabranch.language.text.script import Script
from anabranch.language.text.statements import CreateDerived, CreateFunction, Select
from anabranch.reading import read_statements
from anabranch.rebinding import BoundQuery
from anabranch.registry import Registry
from tests.language.modules import MODULES


def source(name: str, **columns: pa.DataType) -> Source:
    """A stream of points with timestamps."""
    schema = pa.schema(list(columns.items()))
    return Source(name=name, schema=schema, insert_only=True, only_points=True, timestamps=True)


CLOCK = pa.timestamp("us", tz="UTC")
WHOLE, NUMBER, TEXT = pa.int32(), pa.float64(), pa.string()
SOURCES = (
    source("Bid", itemID=WHOLE, bid_price=NUMBER, bidderID=WHOLE),
    source("OpenAuction", itemID=WHOLE, sellerID=WHOLE, start_price=NUMBER),
    source("ClosedAuction", itemID=WHOLE, buyerID=WHOLE),
    source("sensor", id=WHOLE, temperature=NUMBER, place=TEXT),
    Source(
        name="Person",
        schema=pa.schema([("id", WHOLE), ("name", TEXT), ("city", TEXT)]),
        relation=True,
        timestamps=True,
    ),
    source("Trade", sym=TEXT, size=WHOLE, at=CLOCK),
    source("Quote", sym=TEXT, price=NUMBER, at=CLOCK),
)


def registry() -> Registry:
    """All of them, ordered by a column that queries do not see."""
    names = Registry(MODULES)
    for leaf in SOURCES:
        time = None if leaf.relation else "at" if "at" in leaf.schema.names else "timestamp"
        names.add_leaf(leaf, None, ("timestamp",) if time == "timestamp" else (), time)
    return names


def plan(text: str) -> Node:
    """The plan of the last query of a script, as it is written."""
    names, found = registry(), None
    for statement in read_statements(text):
        if isinstance(statement, CreateFunction):
            names.define(statement)
        elif isinstance(statement, CreateDerived | Select):
            planned = _planned(names, statement)
            found = planned.node
            if isinstance(statement, CreateDerived):
                names.derive(statement, planned)
    assert found is not None
    return found


def _planned(names: Registry, statement: CreateDerived | Select) -> BoundQuery:
    context = Context(script=statement.script, catalog=names.catalog)
    node = bind_query(statement.query.copy(), context)
    return BoundQuery(node=node, notes=tuple(context.notes), uses=frozenset(context.used), text="")


def read(text: str) -> None:
    """Read statements without doing anything."""
    read_script(Script(text))
