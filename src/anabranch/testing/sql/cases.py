"""Scripts with streams to run them over, and what must be true of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import duckdb
import pyarrow as pa
from hypothesis import currently_in_test_context, event
from hypothesis import strategies as st

from anabranch.algebra.explain import explain_tree
from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.engine import Engine
from anabranch.kernels.plan.compile import Emission
from anabranch.model.batch import EventBatch
from anabranch.model.logical import LogicalStream
from anabranch.model.payload import Payload
from anabranch.model.time import FOREVER
from anabranch.optimizer.driver import optimize
from anabranch.testing.near import difference_from_engine
from anabranch.testing.oracle import assert_agrees, meaning
from anabranch.testing.physical import Element, KitStable, Move, PhysicalStream
from anabranch.testing.sql.from_clause import Registered
from anabranch.testing.sql.instants import Instants
from anabranch.testing.sql.queries import DrawnScript, scripts
from anabranch.testing.sql.text import DrawnColumn, Kind

FIRST: Final = 0
LAST: Final = 8
HORIZON: Final = 30
COMPARED: Final = 25
"""Rows begin from FIRST to LAST; answers are compared before COMPARED, and computed further."""

SOURCES: Final = {
    source.name: source
    for source in (
        Source(
            name="s",
            schema=pa.schema([("k", pa.string()), ("a", pa.int64()), ("x", pa.float64())]),
            only_points=True,
        ),
        Source(
            name="r",
            schema=pa.schema([("k", pa.string()), ("a", pa.int64()), ("b", pa.int32())]),
        ),
        Source(
            name="p",
            schema=pa.schema([("a", pa.int64()), ("Name", pa.string())]),
            only_points=True,
            insert_only=True,
        ),
        Source(
            name="u",
            schema=pa.schema([("id", pa.int64()), ("k", pa.string()), ("ok", pa.bool_())]),
            unique=(("id",),),
        ),
    )
}
"""Points that are corrected, lifetimes, points that are not corrected, rows with a key."""

_ENDLESS: Final = ("u",)
_KINDS: Final[dict[pa.DataType, Kind]] = {
    pa.string(): "text",
    pa.int64(): "int",
    pa.int32(): "int",
    pa.float64(): "float",
    pa.bool_(): "bool",
}
REGISTERED: Final = {
    name: Registered(
        columns=tuple(DrawnColumn(field.name, _KINDS[field.type]) for field in source.schema),
        points=source.only_points,
        endless=name in _ENDLESS,
    )
    for name, source in SOURCES.items()
}


@final
@dataclass(frozen=True, slots=True)
class SqlCase:
    """A script, what comes from each stream, and in which batches."""

    script: DrawnScript
    streams: Mapping[str, PhysicalStream]
    steps: Sequence[Mapping[str, EventBatch]]

    def __repr__(self) -> str:
        shown = [f"{name}: {stream!r}" for name, stream in self.streams.items()]
        return "\n".join(["", self.script.text, *shown])


@st.composite
def cases(draw: st.DrawFn, depth: int = 2) -> SqlCase:
    """Scripts with streams of a few rows."""
    script = draw(scripts(REGISTERED, depth))
    streams = {name: draw(small_streams(source)) for name, source in SOURCES.items()}
    return SqlCase(script, streams, draw(_rounds(streams)))


@st.composite
def _rounds(draw: st.DrawFn, streams: Mapping[str, PhysicalStream]) -> list[dict[str, EventBatch]]:
    """All streams cut into the same few batches, some of them empty."""
    rounds = draw(st.integers(1, 4))
    found: list[dict[str, EventBatch]] = [{} for _ in range(rounds)]
    for name, stream in streams.items():
        indexes = st.integers(0, len(stream.elements))
        cuts = draw(st.lists(indexes, min_size=rounds - 1, max_size=rounds - 1))
        for step, batch in zip(found, stream.batches(*sorted(cuts))):
            step[name] = batch
    return found


@st.composite
def small_streams(draw: st.DrawFn, source: Source, max_size: int = 6) -> PhysicalStream:
    """Few rows with few values at few instants, in any order, with corrections."""
    rows = st.tuples(*(_values(field.type) for field in source.schema))
    key = [source.schema.names.index(name) for name in next(iter(source.unique), ())]
    distinct = (lambda row: tuple(row[index] for index in key)) if key else None
    least = draw(st.sampled_from([3, 3, 2, 0]))
    many: Any = st.lists(rows, min_size=least, max_size=max_size, unique_by=distinct)
    stories = [_story(draw, row, source) for row in draw(many)]
    elements: list[Move] = []
    while any(stories):
        waiting = [story for story in stories if story]
        elements.append(draw(st.sampled_from(waiting)).pop(0))
    return PhysicalStream(source.schema, tuple(_with_promises(draw, elements)))


def _story(draw: st.DrawFn, row: Payload, source: Source) -> list[Move]:
    """What is said about one row: that it is there; perhaps a correction, or two."""
    start = draw(st.integers(FIRST, LAST))
    lengths = [1] if source.only_points else [1, 3, 5, 2, 8]
    if source.name in _ENDLESS:
        lengths.append(FOREVER - start)
    end = start + draw(st.sampled_from(lengths))
    found = [Move(row, start, start, end)]
    changes = 0 if source.insert_only else draw(st.sampled_from([0, 0, 0, 1, 2]))
    for _ in range(changes):
        ends = [start] if source.only_points else [start + length for length in (0, 2, 1, 4)]
        new_end = draw(st.sampled_from(ends))
        found.append(Move(row, start, end, new_end))
        end = new_end
        if end == start:
            break
    return found


def _with_promises(draw: st.DrawFn, moves: Sequence[Move]) -> list[Element]:
    """Stable points in between, as far as what follows allows; the last one is for ever."""
    least = int(FOREVER)
    found: list[Element] = [KitStable(FOREVER)]
    for move in reversed(moves):
        least = min(least, move.start if move.end == move.start else min(move.end, move.new_end))
        found.append(move)
        if draw(st.integers(0, 3)) == 3:
            found.append(KitStable(least))
    return found[::-1]


def _values(kind: pa.DataType) -> st.SearchStrategy[Any]:
    usual: Mapping[Kind, list[Any]] = {
        "int": [1, 2, 0, 3, 2, 1, None],
        "text": ["a", "b", "ab", "a", None],
        "float": [1.5, 0.25, 2.0, -0.5, 1.5, None],
        "bool": [True, False, None],
    }
    return st.sampled_from(usual[_KINDS[kind]])


def plan_of(script: str) -> Node:
    """The plan of the last query of a script, as it is bound."""
    engine = Engine()
    for source in SOURCES.values():
        engine._registry.add_leaf(source, None, hidden=("at",))
    node: Node = engine.sql(script).node
    return node


def assert_script_means_what_it_says(
    case: SqlCase, most: int | None = None, emit: Emission = "speculative"
) -> None:
    """The plan means what the text says; so does the plan after all rules; so does its run.

    Raises:
        AssertionError: One of them does not; at most `most` instants of the text are looked at.
    """
    node = plan_of(case.script.text)
    names = [column.name.lower() for column in case.script.query.columns]
    assert [name.lower() for name in node.schema.names] == names
    given = {name: stream.meaning() for name, stream in case.streams.items()}
    bound = meaning(node, given)
    try:
        wrong = difference_from_text(bound, case.script, given, most)
    except duckdb.NotImplementedException as problem:
        # Then there is nothing to compare the bound plan with, but all that follows from it.
        if currently_in_test_context():
            event(f"DuckDB cannot: {problem}")
    else:
        assert not wrong, f"the plan does not mean what the text says\n{wrong}"
    best = optimize(node).node
    wrong = meaning(best, given).difference(bound)
    assert not wrong, f"the optimised plan means something else\n{wrong}\n{explain_tree(best)}"
    assert_agrees(best, batches=case.steps, emit=emit)


def difference_from_text(
    found: LogicalStream,
    script: DrawnScript,
    given: Mapping[str, LogicalStream],
    most: int | None = None,
) -> str:
    """Where an answer differs from what the text says, empty where it does not.

    At most `most` different instants are looked at.
    """
    instants = Instants(given, FIRST, HORIZON)
    try:
        answers = instants.answer(script.query, most)
    finally:
        instants.close()
    for t in range(FIRST, COMPARED):
        if t not in answers:
            continue
        one = LogicalStream.of((row, 0, 1) for row in found.snapshot(t).elements())
        other = LogicalStream.of((row, 0, 1) for row in answers[t].elements())
        wrong = difference_from_engine(one, other)
        if wrong:
            return wrong.replace("from instant 0 on", f"at instant {t}")
    return ""
