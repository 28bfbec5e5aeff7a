"""What Python and SQL declare of a source is the same, and holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import anabranch as ab
from anabranch.algebra.source import Source

COLUMNS = "(id BIGINT, k STRING, at BIGINT{})"
SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.string()), ("at", pa.int64())])


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    lines = [(1, "a", 1), (2, "b", 4), (3, "c", 2), (4, "d", 4), (5, "e", 7)]
    text = "".join(f'{{"id": {i}, "k": "{k}", "at": {at}}}\n' for i, k, at in lines)
    (tmp_path / "rows.jsonl").write_text(text)
    return tmp_path / "rows.jsonl"


SAME: dict[str, tuple[str, str, dict[str, Any]]] = {
    "plain": ("", "ORDERED BY at KEEP", {}),
    "hidden": ("", "ORDERED BY at", {"hide_times": True}),
    "unique": (" , UNIQUE (id)", "ORDERED BY at KEEP", {"unique": "id"}),
    "unique sets": (
        ", UNIQUE (id), UNIQUE (k, at)",
        "ORDERED BY at KEEP",
        {"unique": ["id", ("k", "at")]},
    ),
    "ordered": ("", "ORDERED BY at KEEP ORDERED", {"ordered": True}),
    "keyed": ("", "ORDERED BY at KEEP KEYED", {"keyed": True}),
    "all": (
        ", UNIQUE (id)",
        "ORDERED BY at ORDERED KEYED LATE FAIL",
        {"unique": ["id"], "hide_times": True, "ordered": True, "keyed": True, "late": "fail"},
    ),
}


def leaf(stream: Any) -> Source:
    (found,) = [node for node in stream.node.walk() if isinstance(node, Source)]
    return found


@pytest.mark.parametrize("case", SAME)
def test_both_languages_declare_the_same(rows: Path, case: str) -> None:
    more, clauses, options = SAME[case]
    engine = ab.Engine()
    engine.sql(f"CREATE STREAM S {COLUMNS.format(more)} SOURCE '{rows}' {clauses}")
    in_sql = engine.sql("SELECT * FROM S")
    in_python = ab.Engine().stream(rows, name="S", start="at", schema=SCHEMA, **options)
    assert leaf(in_sql) == leaf(in_python)
    (mine,), (theirs,) = in_sql.sources.values(), in_python.sources.values()
    assert mine.promise == theirs.promise


def test_rows_out_of_order_are_late(rows: Path, tmp_path: Path) -> None:
    stream = ab.Engine().stream(rows, start="at", ordered=True, max_rows_per_batch=1)
    assert leaf(stream).properties.order == "start"
    run = stream.select("id").run_local(to=tmp_path / "out.jsonl")
    assert sum(batch["late"] for batch in run.metrics()) == 1
    assert '"id": 3' not in (tmp_path / "out.jsonl").read_text()
    failing = ab.Engine().stream(rows, start="at", ordered=True, late="fail", max_rows_per_batch=1)
    with pytest.raises(ab.StreamError, match="too late"):
        failing.run_local(to=tmp_path / "other.jsonl")


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"ordered": True, "delay": 5}, "a source whose rows are in order has no delay"),
        ({"unique": "nothing"}, "there is no column 'nothing' for UNIQUE"),
        ({"unique": []}, "unique must be the name of a column"),
        ({"unique": [3]}, "unique must be the name of a column"),
        ({"ordered": 1}, "ordered must be True or False"),
        ({"keyed": "yes"}, "keyed must be True or False"),
    ],
)
def test_what_makes_no_sense_is_refused(rows: Path, options: dict[str, Any], what: str) -> None:
    with pytest.raises(ab.PlanError, match=what) as error:
        ab.Engine().stream(rows, start="at", **options)
    assert error.value.hint


def test_elements_have_no_order_to_declare(tmp_path: Path) -> None:
    (tmp_path / "s.jsonl").write_text('{"insert": {"k": 1}, "start": 5}\n')
    with pytest.raises(ab.PlanError, match="has no meaning for files of elements"):
        ab.Engine().stream(tmp_path / "s.jsonl", ordered=True)
    with pytest.raises(ab.PlanError, match="has no meaning for files of elements"):
        ab.Engine().stream(tmp_path / "s.jsonl", hide_times=True)
    keyed = ab.Engine().stream(tmp_path / "s.jsonl", keyed=True)
    assert leaf(keyed).properties.keyed


def test_merges_rely_on_what_is_declared(rows: Path) -> None:
    declared: dict[str, Any] = {"start": "at", "ordered": True, "keyed": True}
    engine = ab.Engine()
    one = engine.stream(rows, name="one", **declared)
    other = engine.stream(rows, name="other", **declared)
    assert "r4" not in one.merge(other).node.label
