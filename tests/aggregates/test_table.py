"""Every aggregate function of the table is declared in full, and everybody reads the table."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
import sqlglot
from hypothesis import given
from hypothesis import strategies as st

from anabranch.aggregates.call import AggregateCall
from anabranch.aggregates.table import FORMS, FUNCTIONS, SQL_NAMES, how_to_write
from anabranch.algebra.aggregate import Aggregation
from anabranch.algebra.modules.builtin import VALUE, builtin_operator
from anabranch.algebra.modules.user_operator import WINDOW
from anabranch.algebra.source import Source
from anabranch.expressions.expression import Expression
from anabranch.language.text.aggregate_text import parse_aggregate
from anabranch.language.text.dialect import Anabranch
from anabranch.model.payload import freeze
from anabranch.testing import PhysicalStream, assert_agrees, streams

ROOT: Final = Path(__file__).parents[2]
SCHEMA: Final = pa.schema([("g", pa.int64()), ("x", pa.int64()), ("s", pa.string())])


def call_of(name: str, distinct: bool = False) -> AggregateCall:
    """A call on a column that the function takes."""
    own = FUNCTIONS[name]
    if name in ("max_by", "min_by"):
        return parse_aggregate(f"{name}(x, s)", SCHEMA)
    column = next(each for each in ("x", "s") if own.takes(SCHEMA.field(each).type))
    return AggregateCall(
        function=name,
        argument=Expression.column(column, SCHEMA),
        distinct=distinct,
        fraction=0.3 if "fraction" in own.parameters else None,
        separator="-" if "separator" in own.parameters else None,
    )


CALLS: Final = [
    call_of(name, distinct)
    for name, own in FUNCTIONS.items()
    for distinct in ([False, True] if own.distinct else [False])
]


@pytest.mark.parametrize("name", SQL_NAMES)
def test_the_page_has_a_row_for_it(name: str) -> None:
    page = (ROOT / "docs/operators/aggregate.md").read_text()
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    assert any(re.search(rf"`{name}\(", row, re.IGNORECASE) for row in rows), name


@pytest.mark.parametrize("name", SQL_NAMES)
def test_the_parser_knows_its_names(name: str) -> None:
    found = sqlglot.parse_one(f"{name}(x)", dialect=Anabranch)
    assert FORMS[type(found)][0] is SQL_NAMES[name]


@pytest.mark.parametrize("own", FUNCTIONS.values(), ids=FUNCTIONS)
def test_its_example_is_read_as_this_function(own: Any) -> None:
    kind = pa.string() if own.takes(pa.string()) else pa.float64()
    schema = pa.schema([("x", kind), ("y", pa.int64())])
    assert parse_aggregate(own.example, schema).function == own.name
    assert own.example in how_to_write(own.name)


@given(streams(SCHEMA), st.integers(1, 7))
@pytest.mark.parametrize("call", CALLS, ids=[call.label for call in CALLS])
def test_a_kernel_means_what_the_declaration_says(
    call: AggregateCall, stream: PhysicalStream, batch_size: int
) -> None:
    node = Aggregation(
        input=Source(name="S", schema=SCHEMA),
        group_by=(("g", Expression.column("g", SCHEMA)),),
        aggregates=(("found", call),),
    )
    assert_agrees(node, stream, batch_size=batch_size)


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from([None, 1, 2, 3])), min_size=1))
@pytest.mark.parametrize("call", CALLS, ids=[call.label for call in CALLS])
def test_windows_mean_what_the_declaration_says(
    call: AggregateCall, rows: list[tuple[int, int | None]]
) -> None:
    assert call.argument is not None
    kind = call.argument.type
    plain = [value for _, value in rows]
    if pa.types.is_struct(kind):
        pairs = [None if value is None else {"by": "a", "value": value} for value in plain]
        values = pa.array(pairs, kind)
    else:
        values = pa.array(plain, pa.int64()).cast(kind)
    events = pa.table({WINDOW: pa.array([n for n, _ in rows], pa.int64()), VALUE: values})
    module, _ = builtin_operator(call)
    found = {
        row[WINDOW]: row[call.function] for row in module.code.compute_frame(events).to_pylist()
    }
    for window in {n for n, _ in rows}:
        inside = Counter(
            freeze(v) for (n, _), v in zip(rows, values.to_pylist(), strict=True) if n == window
        )
        assert freeze(found[window]) == call.denote(list(inside.items()))
