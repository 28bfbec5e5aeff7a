"""A query with a module goes on after a stop or a crash: new code, new version, other shards."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.module_query import Counted, query, write_input
from tests.e2e.test_kill_driver import Contents, contents, kill, wait_for

import anabranch as ab
from anabranch.engine import Engine
from anabranch.errors import OperatorError
from anabranch.runtime.query.checkpoint import read_facts
from anabranch.runtime.store.phases import HALT

pytestmark = pytest.mark.spark

SCRIPT = Path(__file__).with_name("module_query.py")
FILES = 5


@ab.uda(name="counted")
class Rewritten:
    """The same version in other words: its states are the same."""

    def initial(self) -> list[int]:
        return [0] * 2

    def add(self, state: list[int], v: int) -> list[int]:
        state[0] += 1
        state[1] += v
        return state

    def remove(self, state: list[int], v: int) -> list[int]:
        state[0] -= 1
        state[1] -= v
        return state

    def compute(self, state: list[int]) -> str:
        count, total = state
        return f"{count} rows, {total}"


@ab.uda(name="counted", version=2)
class Changed:
    """A later version with other states, that does not read those of the first."""

    def initial(self) -> dict[str, int]:
        return {"rows": 0, "total": 0}

    def add(self, state: dict[str, int], v: int) -> dict[str, int]:
        return {"rows": state["rows"] + 1, "total": state["total"] + v}

    def remove(self, state: dict[str, int], v: int) -> dict[str, int]:
        return {"rows": state["rows"] - 1, "total": state["total"] - v}

    def compute(self, state: dict[str, int]) -> str:
        return f"{state['rows']} rows, {state['total']}"


@ab.uda(name="counted", version=2)
class Migrated(Changed.__wrapped__):  # type: ignore[name-defined,misc]
    """The same, that does."""

    def migrate(self, state: list[int], version: int) -> dict[str, int]:
        assert version == 1
        return {"rows": state[0], "total": state[1]}


def go_on(
    engine: Engine, folder: Path, files: int, module: Any = Counted, shards: int | None = None
) -> None:
    """Until so many files are read."""
    with Engine(engine.spark, shards=shards) as own:
        write_input(folder / "in", files)
        query(own, folder / "in", module).start(
            folder / "log", checkpoint=folder / "checkpoint", available_now=True
        ).await_end()


def moves(found: Contents) -> list[tuple[int, int, list[Any]]]:
    """What left in each batch, whichever shard it came from."""
    return [
        (batch, stable, sorted(repr(row) for rows in parts for row in rows))
        for batch, stable, parts in found
    ]


@pytest.fixture(scope="module")
def undisturbed(first_engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    folder = tmp_path_factory.mktemp("undisturbed")
    go_on(first_engine, folder, FILES, shards=2)
    found = moves(contents(folder / "log"))
    assert len(found) == FILES
    assert sum(len(rows) for _, _, rows in found) > 50
    return found


def test_a_module_is_changed_between_two_runs(
    engine: Engine, undisturbed: list[Any], tmp_path: Path
) -> None:
    go_on(engine, tmp_path, 2, shards=2)
    before = moves(contents(tmp_path / "log"))
    assert before == undisturbed[:2]
    with pytest.raises(
        OperatorError, match="counted stored a state of version 1 and is now version 2"
    ):
        go_on(engine, tmp_path, 3, Changed)
    assert moves(contents(tmp_path / "log")) == before
    # The batch that failed is repeated: by other code of the first version.
    go_on(engine, tmp_path, 3, Rewritten)
    assert moves(contents(tmp_path / "log")) == undisturbed[:3]
    go_on(engine, tmp_path, 4, Migrated, shards=3)
    facts = read_facts(str(tmp_path / "checkpoint"))
    assert facts is not None
    assert facts.shards == 3
    go_on(engine, tmp_path, FILES, Migrated)
    assert moves(contents(tmp_path / "log")) == undisturbed


def test_a_killed_query_goes_on_where_it_was(
    engine: Engine, undisturbed: list[Any], tmp_path: Path
) -> None:
    write_input(tmp_path / "in", FILES)
    halted, said = tmp_path / "halted", tmp_path / "said"
    # Its module is one of the script itself, and reaches the workers as it is.
    with said.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, str(SCRIPT), str(tmp_path)],
            stdout=log,
            stderr=log,
            env={
                **os.environ,
                "PYSPARK_PYTHON": sys.executable,
                HALT: f"manifest written@2={halted}",
            },
            start_new_session=True,
        )
    wait_for(process, halted.exists, said)
    kill(process)
    assert len(contents(tmp_path / "log")) == 2
    go_on(engine, tmp_path, FILES, Migrated)
    assert moves(contents(tmp_path / "log")) == undisturbed
