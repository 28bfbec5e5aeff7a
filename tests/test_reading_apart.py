"""Scripts of other processes are read apart: they know the functions, not the streams."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import anabranch as ab
from anabranch.engine import Engine
from anabranch.errors import QueryError

SCRIPT = """
CREATE STREAM Bid (item INT, price INT) SOURCE '{folder}/bids.jsonl';
SELECT item, twice(price) AS doubled FROM Bid;
"""


def engine_with(*modules: Any) -> Engine:
    """One that needs no Spark, but looks as if it had one."""
    spark: Any = SimpleNamespace(readStream=None)
    engine = Engine(spark)
    for each in modules:
        engine.register(each)
    return engine


@pytest.fixture
def script(tmp_path: Path) -> str:
    bid = '{"insert": {"item": 1, "price": 4}, "start": 1, "end": 2}\n'
    (tmp_path / "bids.jsonl").write_text(bid + '{"stable": "forever"}\n')
    return SCRIPT.format(folder=tmp_path)


def read(engine: Engine, text: str, *more: Any) -> list[Any]:
    return engine._host.read_apart(text, "it.sql", *more)


def doubled(query: Any) -> list[int]:
    found = query.run_local("memory").snapshot(1).to_pylist()
    return [row["doubled"] for row in found]


@ab.udf
def twice(n: int) -> int:
    return 2 * n


def test_scripts_of_other_processes_call_the_functions_of_the_engine(script: str) -> None:
    engine = engine_with(twice)
    [query] = read(engine, script)
    assert doubled(query) == [8]
    # The same function as in queries of the engine, so that both can share what they compute.
    engine.sql(script.split(";")[0])
    assert query.node == engine.sql(script.split(";")[1]).node


def test_functions_that_were_dropped_are_not_known_apart(script: str) -> None:
    engine = engine_with(twice)
    engine.sql("DROP FUNCTION twice")
    with pytest.raises(QueryError, match="twice"):
        read(engine, script)
