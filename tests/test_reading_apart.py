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


MODULES = """
import anabranch as ab

@ab.udf
def twice(n: int) -> int:
    return {factor} * n
"""


def module_file(folder: Path, name: str, factor: int) -> str:
    file = folder / name
    file.write_text(MODULES.format(factor=factor))
    return str(file)


def test_files_that_are_handed_in_count_before_what_the_engine_knows(
    script: str, tmp_path: Path
) -> None:
    engine = engine_with(twice)
    [query] = read(engine, script, (module_file(tmp_path, "other.py", 20),))
    assert doubled(query) == [80]
    # Only there.
    assert doubled(read(engine, script)[0]) == [8]


def test_a_function_that_is_read_again_is_the_same_function(script: str, tmp_path: Path) -> None:
    alike, other = module_file(tmp_path, "alike.py", 2), module_file(tmp_path, "other.py", 3)
    engine = engine_with()
    first, again = (read(engine, script, (alike,))[0].node for _ in range(2))
    assert first == again
    assert read(engine, script, (other,))[0].node != first
    # It is also the one that the engine was given.
    engine.register(twice)
    assert read(engine, script, (alike,))[0].node == read(engine, script)[0].node
