"""Corrections name rows by start and columns; with them the answers are those of what is right."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, final

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.model.batch import EventBatch
from anabranch.model.clock import INTEGERS
from anabranch.model.elements import Insert, batch_of
from anabranch.model.logical import LogicalStream
from anabranch.model.time import BEGINNING, Duration, Time
from anabranch.runtime.revisions.archived_sources import ArchivedSource
from anabranch.runtime.revisions.correction_lines import (
    UnappliedError,
    correction_line,
    given_corrections,
)
from anabranch.runtime.revisions.resolving import Resolver
from anabranch.runtime.sources.spec import Promise
from anabranch.testing.strategies import durations, values
from tests.kernels.operators import OPERATORS
from tests.kernels.plans import SCHEMA
from tests.revisions.histories import assert_revised

Row = tuple[dict[str, Any], int, int]
"""Payload, start and end."""

SOURCE = ArchivedSource(promise=Promise(source="S", late="revise"), only_points=False)


def payloads() -> st.SearchStrategy[dict[str, Any]]:
    columns = {each.name: values(each.type, odd_floats=False) for each in SCHEMA}
    return st.fixed_dictionaries(columns)


@st.composite
def new_rows(draw: st.DrawFn) -> Row:
    start = draw(st.integers(0, 12))
    return draw(payloads()), start, start + draw(durations(8))


@final
@dataclass(slots=True)
class Model:
    """What a source has, row by row, and what came of it."""

    rows: list[Row] = field(default_factory=list)
    came: list[EventBatch] = field(default_factory=list)

    def correct(self, content: dict[str, Any]) -> EventBatch | None:
        """The rows that a correction comes to, as a resolver says; None if it refuses."""
        every = EventBatch.concat([EventBatch.empty(SCHEMA), *self.came])
        resolver = Resolver(SOURCE, SCHEMA, every, BEGINNING)
        try:
            resolver.take(correction_line(1, "", content, INTEGERS))
        except UnappliedError:
            return None
        return resolver.corrections

    def named(self, columns: dict[str, Any], start: int) -> list[int]:
        """The rows that a correction means."""
        return [
            number
            for number, (payload, begin, _) in enumerate(self.rows)
            if begin == start and all(_same(payload[name], columns[name]) for name in columns)
        ]


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    return bool(one == other) and (one is None) == (other is None)


def correction(draw: st.DrawFn, model: Model) -> tuple[dict[str, Any], bool]:
    """A correction of a row that there is, mostly; whether it fits, and then the model has it."""
    if not model.rows or draw(st.booleans()):
        payload, start, end = draw(new_rows())
        model.rows.append((payload, start, end))
        return {"insert": payload, "start": start, "end": end}, True
    payload, start, end = model.rows[draw(st.integers(0, len(model.rows) - 1))]
    if not draw(st.integers(0, 5)):
        start += 1
    names = draw(st.lists(st.sampled_from(SCHEMA.names), unique=True, min_size=1))
    columns = {name: payload[name] for name in names}
    found = model.named(columns, start)
    changed = draw(payloads()) if draw(st.booleans()) else None
    if len(found) == 1:
        old, start, end = model.rows.pop(found[0])
        if changed is not None:
            model.rows.append(({**old, **changed}, start, end))
    if changed is None:
        return {"delete": columns, "start": start}, len(found) == 1
    return {"replace": columns, "with": changed, "start": start}, len(found) == 1


@st.composite
def corrected_histories(draw: st.DrawFn) -> tuple[Model, list[dict[str, EventBatch]]]:
    """Batches of a source with corrections among them, and promises at any time."""
    model = Model()
    steps: list[dict[str, EventBatch]] = []
    promised = BEGINNING
    for _ in range(draw(st.integers(1, 5))):
        rows = draw(st.lists(new_rows(), max_size=4))
        model.rows += rows
        arrived = [batch_of([Insert(p, s, e) for p, s, e in rows], SCHEMA)]
        model.came += arrived
        for _ in range(draw(st.integers(0, 3))):
            content, fits = correction(draw, model)
            moves = model.correct(content)
            assert (moves is not None) == fits
            if moves is not None:
                model.came.append(moves)
                arrived.append(moves)
        if draw(st.booleans()):
            promised = Time(max(promised, draw(st.integers(0, 22))))
        steps.append({"S": EventBatch.concat(arrived).with_stable(promised)})
        other = draw(st.lists(new_rows(), max_size=2))
        inserts = [Insert(p, s, e) for p, s, e in other]
        steps[-1]["T"] = batch_of(inserts, SCHEMA).with_stable(promised)
    return model, steps


@given(corrected_histories())
def test_corrections_leave_the_rows_that_are_right(
    drawn: tuple[Model, list[dict[str, EventBatch]]],
) -> None:
    model, _ = drawn
    right = batch_of([Insert(p, s, e) for p, s, e in model.rows], SCHEMA)
    came = LogicalStream.of_batches(model.came)
    assert not came.difference(LogicalStream.of_batches([right]))


@pytest.mark.parametrize("name", ["time window", "aggregate", "left join", "distinct"])
@given(data=st.data())
def test_answers_are_those_of_the_rows_that_are_right(name: str, data: st.DataObject) -> None:
    _, steps = data.draw(corrected_histories())
    assert_revised(data.draw(OPERATORS[name]), steps)


KV = pa.schema([("k", pa.int64()), ("v", pa.string())])


def resolver(*rows: tuple[int, str, int, int], source: ArchivedSource = SOURCE) -> Resolver:
    inserts = [Insert((k, v), start, end) for k, v, start, end in rows]
    return Resolver(source, KV, batch_of(inserts, KV), Time(0))


def refused(found: Resolver, content: dict[str, Any]) -> str:
    with pytest.raises(UnappliedError) as problem:
        found.take(correction_line(1, "", content, INTEGERS))
    return str(problem.value)


def taken(found: Resolver, *contents: dict[str, Any]) -> list[tuple[Any, ...]]:
    for content in contents:
        found.take(correction_line(1, "", content, INTEGERS))
    rows = found.corrections
    times = zip(rows.start.tolist(), rows.end.tolist(), rows.new_end.tolist())
    return sorted((*row.values(), *time) for row, time in zip(rows.payload.to_pylist(), times))


def test_a_row_is_named_by_a_part_of_its_columns() -> None:
    found = resolver((1, "a", 5, 9), (2, "a", 5, 9), (1, "a", 6, 9))
    assert taken(found, {"delete": {"k": 2}, "start": 5}) == [(2, "a", 5, 9, 5)]


def test_what_names_no_row_or_several_is_refused() -> None:
    found = resolver((1, "a", 5, 9), (2, "a", 5, 9), (2, "b", 5, 9), (3, "c", 5, 9), (3, "c", 5, 9))
    assert refused(found, {"delete": {"k": 4}, "start": 5}) == "there is no such row"
    assert "2 rows are like that" in refused(found, {"delete": {"k": 2}, "start": 5})
    assert "5 rows are like that" in refused(found, {"delete": {}, "start": 5})
    assert "2 rows are equal" in refused(found, {"delete": {"k": 3, "v": "c"}, "start": 5})
    assert "archive begins at 0" in refused(found, {"delete": {}, "start": -3})


def test_numbers_with_a_point_fit_columns_of_floats_and_of_decimals(tmp_path: Path) -> None:
    schema = pa.schema([("price", pa.float64()), ("fee", pa.decimal128(6, 2))])
    row = Insert(payload=(72.5, Decimal("0.10")), start=Time(5), end=Time(6))
    found = Resolver(SOURCE, schema, batch_of([row], schema), BEGINNING)
    path = tmp_path / "corrections.jsonl"
    path.write_text(
        '{"replace": {"price": 72.5, "fee": 0.10}, "with": {"price": 7.25}, "start": 5}'
    )
    for number, text, content in given_corrections(path):
        found.take(correction_line(number, text, content, INTEGERS))
    assert sorted(found.corrections.payload.column("price").to_pylist()) == [7.25, 72.5]


def test_later_corrections_see_earlier_ones() -> None:
    found = resolver((1, "a", 5, 9))
    first = {"replace": {"k": 1}, "with": {"k": 2}, "start": 5}
    second = {"replace": {"k": 2}, "with": {"v": "b"}, "start": 5}
    assert taken(found, first, second) == [(1, "a", 5, 9, 5), (2, "b", 5, 5, 9)]
    assert refused(found, {"delete": {"k": 1}, "start": 5}) == "there is no such row"


def test_an_adjust_needs_its_event() -> None:
    found = resolver((1, "a", 5, 9), (1, "a", 5, 9))
    event = {"adjust": {"k": 1, "v": "a"}, "start": 5}
    assert "no such event" in refused(found, {**event, "end": 8, "new_end": 7})
    assert "ends before" in refused(found, {**event, "end": 9, "new_end": 4})
    assert taken(found, {**event, "end": 9, "new_end": 12}) == [(1, "a", 5, 9, 12)]


def test_columns_with_times_follow_the_lifetime_and_move_it() -> None:
    points = ArchivedSource(
        promise=Promise(source="S", late="revise", step=10), only_points=True, start="k"
    )
    found = resolver((52, "a", 5, 6), source=points)
    assert taken(found, {"insert": {"v": "b"}, "start": 7}) == [(70, "b", 7, 7, 8)]
    moved = {"replace": {"v": "a"}, "with": {"k": 63}, "start": 5}
    assert taken(found, moved)[:2] == [(52, "a", 5, 6, 5), (63, "a", 6, 6, 7)]
    assert "something else" in refused(found, {"insert": {"k": 12, "v": "b"}, "start": 7})
    assert "are points" in refused(found, {"insert": {"v": "b"}, "start": 7, "end": 9})


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"stable": 5}, "corrects nothing"),
        ({"delete": {"k": 1}}, "'start' is missing"),
        ({"delete": {"k": 1}, "start": "soon"}, "'start'"),
        ({"delete": {"k": 1}, "start": 5, "new_end": 5}, "'new_end' does not belong"),
        ({"delete": {"q": 1}, "start": 5}, "there is no column 'q'"),
        ({"delete": {"k": "x"}, "start": 5}, "k"),
        ({"delete": 5, "start": 5}, "a row must be an object"),
        ({"replace": {"k": 1}, "start": 5}, "'with' is missing"),
        ({"insert": {"k": 1}, "delete": {"k": 1}, "start": 5}, "a correction is"),
        ({"insert": {"k": 1}, "start": 5, "end": 5}, "ends before it starts"),
        (7, "not an object"),
    ],
)
def test_what_is_no_correction_is_refused(content: Any, reason: str) -> None:
    assert reason in refused(resolver((1, "a", 5, 9)), content)


def test_a_batch_of_many_rows_at_one_instant_is_searched_as_a_whole() -> None:
    count = 5_000
    at = np.full(count, 5)
    payload = pa.RecordBatch.from_arrays(
        [pa.array(np.arange(count)), pa.array(["a"] * count)], schema=KV
    )
    found = Resolver(SOURCE, KV, EventBatch(payload, at, at, at + Duration(3)), Time(0))
    assert taken(found, {"delete": {"k": 4711}, "start": 5}) == [(4711, "a", 5, 8, 5)]
