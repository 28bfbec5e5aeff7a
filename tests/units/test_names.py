"""Names: what takes the place of another, and what is derived from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from anabranch import AnabranchError, Engine


def rows(folder: Path, name: str, *lines: str) -> Path:
    path = folder / name
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    """`S` with two columns, `V` over it, `W` over that."""
    rows(tmp_path, "s.json", '{"k": 1, "v": 10, "at": 5}')
    rows(tmp_path, "t.json", '{"v": 70, "k": 2, "at": 5}', '{"v": 80, "k": 3, "at": 5}')
    made = Engine()
    made.sql(create(tmp_path, "s.json", "k INT, v INT"))
    made.sql("CREATE VIEW V AS SELECT k, v + 1 AS more FROM S WHERE v > 5")
    made.sql("CREATE STREAM W AS SELECT more FROM V")
    return made


def create(folder: Path, file: str, columns: str, how: str = "CREATE") -> str:
    return (
        f"{how} STREAM S ({columns}, at INT) SOURCE '{folder / file}' ORDERED BY at "
        "WITH (ends = TRUE)"
    )


def answers(engine: Engine, name: str = "W") -> list[Any]:
    found = engine.sql(f"SELECT * FROM {name}").run_local().snapshot(5).to_pylist()
    return sorted(tuple(row.values()) for row in found)


def test_views_follow_a_stream_that_is_replaced(engine: Engine, tmp_path: Path) -> None:
    assert answers(engine) == [(11,)]
    # Other columns in another order: with the old plan the wrong column was read.
    engine.sql(create(tmp_path, "t.json", "v BIGINT, k INT", "CREATE OR REPLACE"))
    assert answers(engine) == [(71,), (81,)]
    assert answers(engine, "V") == [(2, 71), (3, 81)]


def test_views_follow_a_view_that_is_replaced(engine: Engine) -> None:
    engine.sql("CREATE OR REPLACE VIEW V AS SELECT v * 100 AS more, k FROM S")
    assert answers(engine) == [(1000,)]


def test_what_would_break_a_view_is_refused_and_nothing_changes(
    engine: Engine, tmp_path: Path
) -> None:
    wrong = create(tmp_path, "s.json", "k INT", "CREATE OR REPLACE")
    with pytest.raises(AnabranchError, match="view 'V' uses 'S' and would no longer bind") as it:
        engine.sql(wrong)
    assert "drop V first" in it.value.hint
    assert answers(engine) == [(11,)]
    with pytest.raises(AnabranchError, match="derived 'W' uses 'V'"):
        engine.sql("CREATE OR REPLACE VIEW V AS SELECT k FROM S")
    assert answers(engine) == [(11,)]
    with pytest.raises(AnabranchError, match="'S' is used by V"):
        engine.sql("DROP STREAM S")
    engine.sql("DROP STREAM W; DROP VIEW V")
    engine.sql(wrong)
    assert answers(engine, "S") == [(1,)]


def test_nothing_is_derived_from_itself(engine: Engine) -> None:
    for query in ("SELECT * FROM V", "SELECT more, more AS k FROM W"):
        with pytest.raises(AnabranchError, match="'V' would be derived from itself"):
            engine.sql(f"CREATE OR REPLACE VIEW V AS {query}")
    assert answers(engine) == [(11,)]


def test_views_follow_functions(engine: Engine) -> None:
    engine.sql("CREATE FUNCTION twice(x INT) RETURNS INT RETURN x * 2")
    engine.sql("CREATE VIEW D AS SELECT twice(v) AS d FROM S")
    assert answers(engine, "D") == [(20,)]
    engine.sql("CREATE OR REPLACE FUNCTION twice(x INT) RETURNS INT RETURN x * 2 + 1")
    assert answers(engine, "D") == [(21,)]
    with pytest.raises(AnabranchError, match="view 'D'"):
        engine.sql("DROP FUNCTION twice")
    assert answers(engine, "D") == [(21,)]


def test_a_name_is_not_taken_over_silently(engine: Engine, tmp_path: Path) -> None:
    other = tmp_path / "t.json"
    with pytest.raises(AnabranchError, match="there is already a stream 'S'") as refused:
        engine.stream(other, name="s", start="at", ends=True)
    assert "replace=True" in refused.value.hint
    with pytest.raises(AnabranchError, match="there is already a view 'V'"):
        engine.relation(other, name="V")
    assert answers(engine) == [(11,)]
    engine.stream(other, name="S", start="at", ends=True, replace=True)
    assert answers(engine) == [(71,), (81,)]


def test_the_same_stream_again_is_no_other(tmp_path: Path) -> None:
    path, engine = rows(tmp_path, "s.json", '{"k": 1, "at": 5}'), Engine()
    for _ in range(2):
        engine.stream(path, name="S", start="at", ends=True)
    with pytest.raises(AnabranchError, match="there is already a stream 'S'"):
        engine.stream(path, name="S", start="at", delay=3, ends=True)
    with pytest.raises(AnabranchError, match="there is already a stream 'S'"):
        engine.relation(path, name="S")


def test_the_same_statement_again_changes_nothing(engine: Engine, tmp_path: Path) -> None:
    statement = create(tmp_path, "s.json", "k INT, v INT")
    engine.sql(statement)
    engine.sql("CREATE VIEW V AS SELECT k, v + 1 AS more FROM S WHERE v > 5")
    engine.sql("CREATE STREAM W AS SELECT more FROM V")
    assert answers(engine) == [(11,)]
    for other in (
        create(tmp_path, "t.json", "k INT, v INT"),
        create(tmp_path, "s.json", "k INT, v BIGINT"),
        "CREATE STREAM S AS SELECT k FROM V",
        "CREATE VIEW V AS SELECT k, v + 2 AS more FROM S WHERE v > 5",
        "CREATE VIEW W AS SELECT more FROM V",
        "CREATE TABLE S SOURCE 's.json'".replace("s.json", str(tmp_path / "s.json")),
    ):
        with pytest.raises(AnabranchError, match=r"there is already a (derived )?(stream|view) '"):
            engine.sql(other)
    assert answers(engine) == [(11,)]


def test_the_error_shows_the_call_that_replaces_a_name(tmp_path: Path) -> None:
    path, engine = rows(tmp_path, "s.json", '{"k": 1, "at": 5}'), Engine()
    engine.relation(path, name="Item")
    with pytest.raises(AnabranchError, match="there is already a table 'Item'") as refused:
        engine.stream([{"k": 2, "at": "2026-01-01"}], name="item", start="at")
    assert refused.value.where == "engine.stream(..., name='item') declares another one"
    assert "engine.stream(..., name='Item', replace=True)" in refused.value.hint


def test_a_name_of_our_own_is_one_that_nobody_has(engine: Engine, tmp_path: Path) -> None:
    chosen = engine.stream(tmp_path / "s.json", start="at", ends=True)
    assert list(chosen.sources) == ["s2"]
