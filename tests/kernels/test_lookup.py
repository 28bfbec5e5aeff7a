"""Joins with a table that never changes mean what joins mean."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.algebra.filter import Filter
from anabranch.algebra.join import Join, JoinKind
from anabranch.algebra.map import Map
from anabranch.algebra.node import Node
from anabranch.algebra.source import Source
from anabranch.expressions.expression import Expression
from anabranch.kernels.join.lookup import LookupKernel
from anabranch.kernels.plan.compile import compile_plan, tables_of, with_tables
from anabranch.kernels.plan.explain import explain_stages
from anabranch.model.elements import Insert, batch_of
from anabranch.model.logical import LogicalStream
from anabranch.model.time import BEGINNING, FOREVER
from anabranch.testing import batchings, meaning, streams

LEFT = pa.schema([("k", pa.int64()), ("s", pa.string())])
RIGHT = pa.schema([("j", pa.int64()), ("t", pa.string())])
STREAM = Source(name="S", schema=LEFT)
TABLE = Source(name="T", schema=RIGHT, insert_only=True, relation=True, always=True)
KEYS = st.sampled_from([None, 0, 1, 2, 3])
TEXTS = st.sampled_from([None, "", "a", "b"])
ROWS = st.lists(st.tuples(KEYS, TEXTS), max_size=6)
PREDICATES = ["k = j", "s = t", "k = j AND s = t", "k = j AND s > t", "k + 1 = j"]


def join(kind: JoinKind, text: str, left: Node = STREAM, right: Node = TABLE) -> Join:
    both = pa.schema([*left.schema, *right.schema])
    return Join(kind=kind, left=left, right=right, predicate=Expression.parse(text, both))


def write(root: Path, rows: list[tuple[int | None, str | None]]) -> str:
    columns = [
        pa.array([k for k, _ in rows], pa.int64()),
        pa.array([t for _, t in rows], pa.string()),
    ]
    path = str(root / "table.arrow")
    with pa.ipc.new_file(path, RIGHT) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=RIGHT))
    return path


@st.composite
def partners(draw: st.DrawFn) -> Node:
    """The table as it is, or below a filter or a projection."""
    choice = draw(st.integers(0, 2))
    if choice == 1:
        return Filter(input=TABLE, predicate=Expression.parse("j > 0", RIGHT))
    if choice == 2:
        parts = {"j": "j - 1", "t": "t"}
        columns = tuple((name, Expression.parse(text, RIGHT)) for name, text in parts.items())
        return Map(input=TABLE, columns=columns)
    return TABLE


@given(
    st.sampled_from(["inner", "left", "semi", "anti"]),
    st.sampled_from(PREDICATES),
    partners(),
    ROWS,
    st.data(),
)
def test_a_lookup_is_a_join(
    kind: JoinKind,
    text: str,
    partner: Node,
    rows: list[tuple[int | None, str | None]],
    data: st.DataObject,
) -> None:
    check(join(kind, text, right=partner), rows, data)


@given(st.sampled_from(["inner", "right"]), st.sampled_from(PREDICATES), ROWS, st.data())
def test_the_table_may_be_on_the_left(
    kind: JoinKind,
    text: str,
    rows: list[tuple[int | None, str | None]],
    data: st.DataObject,
) -> None:
    check(join(kind, text, left=TABLE, right=STREAM), rows, data)


def check(node: Join, rows: list[tuple[int | None, str | None]], data: st.DataObject) -> None:
    batches = data.draw(batchings(data.draw(streams(LEFT))))
    kernel = LookupKernel.of(node, frozenset({"T"}))
    assert kernel is not None
    with tempfile.TemporaryDirectory() as root:
        kernel = replace(kernel, path=write(Path(root), rows))
        found = LogicalStream.of_batches([kernel.apply(batch) for batch in batches])
    given_ = {
        "S": LogicalStream.of_batches(batches),
        "T": LogicalStream.of((row, int(BEGINNING), int(FOREVER)) for row in rows),
    }
    wanted = meaning(node, given_)
    assert not found.difference(wanted), found.difference(wanted)


def test_only_tables_that_never_change_are_looked_up() -> None:
    tables = frozenset({"T"})
    changing = replace(TABLE, always=False)
    assert LookupKernel.of(join("inner", "k = j", right=changing), tables) is None
    assert LookupKernel.of(join("inner", "k = j"), frozenset()) is None
    assert LookupKernel.of(join("inner", "k > j"), tables) is None
    assert LookupKernel.of(join("full", "k = j"), tables) is None
    assert LookupKernel.of(join("right", "k = j"), tables) is None
    assert LookupKernel.of(join("left", "k = j", left=TABLE, right=STREAM), tables) is None


def test_a_lookup_needs_no_stage_of_its_own() -> None:
    plan = compile_plan(join("inner", "k = j"), tables=frozenset({"T"}))
    assert [stage.name for stage in plan.stages] == ["0-collect"]
    assert list(plan.sources) == ["S"]
    assert tables_of(plan) == {"T": TABLE}
    assert "looked up in T" in explain_stages(plan)
    (edge,) = with_tables(plan, {"T": "here"}).stages[0].edges
    assert isinstance(edge.chain[0], LookupKernel)
    assert edge.chain[0].path == "here"


def test_nobody_looks_up_in_what_is_nowhere() -> None:
    kernel = LookupKernel.of(join("inner", "k = j"), frozenset({"T"}))
    assert kernel is not None
    with pytest.raises(AssertionError, match="the files of T are not known"):
        kernel.apply(batch_of([Insert({"k": 1, "s": "a"}, 1, 2)], LEFT))
