"""A checkpoint of an earlier version is resumed, in another folder, with the right answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.stored_checkpoint import (
    ANSWERS,
    BEFORE,
    DATA,
    FIRST,
    INPUT,
    LATER,
    Lines,
    answers,
    draw_input,
    every_query,
    queries,
    restore,
    run,
    run_later,
    shown,
    told,
    write_input,
)
from tests.kernels.identities import OPERATOR_CLASSES

import anabranch as ab
from anabranch.errors import PlanError
from anabranch.kernels.contract.kernel import Stateful
from anabranch.planning import plan_queries
from anabranch.runtime.query.checkpoint import Checkpoint
from anabranch.runtime.query.state_view import view_state
from anabranch.runtime.sources.files.log_folder import LogFolder
from anabranch.runtime.store.folder import Folder
from anabranch.runtime.store.query_record import read_query_record

GIVEN: dict[str, Any] = json.loads(INPUT.read_text())
RIGHT: dict[str, Any] = json.loads(ANSWERS.read_text())

CHECKPOINTS = (FIRST, "final", *LATER)


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """What was there when the query stopped, and the rest of the input."""
    restore(tmp_path)
    write_input(tmp_path, GIVEN, slice(None))
    return tmp_path


def test_the_stored_checkpoint_has_every_operator_with_state(stored: Path) -> None:
    found = set()
    for name in CHECKPOINTS:
        about = read_query_record(str(stored / name))
        assert about is not None
        assert about.layout is not None
        homes = about.layout.stages.values()
        found |= {form.operator for home in homes for form in home.forms}
        facts, shards = view_state(str(stored / name), check=True)
        assert facts.shards == 2
        assert {each.batch for each in shards} == {BEFORE - 1}
        held = {each.stage for each in shards if each.rows}
        assert held == {stage for stage, operators in facts.operators.items() if operators}
    stateful = [kind for kind in OPERATOR_CLASSES if issubclass(kind, Stateful)]
    assert found == {kind.identity.name for kind in stateful}
    assert sum(file.stat().st_size for file in DATA.iterdir()) < 200_000


def test_the_answers_are_what_the_specification_says(tmp_path: Path) -> None:
    write_input(tmp_path, GIVEN, slice(None))
    assert draw_input() == GIVEN
    assert answers(every_query(ab.Engine(), tmp_path, ends=True), GIVEN) == RIGHT


def test_the_plan_of_this_version_is_that_of_the_stored_checkpoint(stored: Path) -> None:
    wanted = list(queries(ab.Engine(), stored, ends=True).values())
    opened = Checkpoint(str(stored / "checkpoint"), plan_queries(wanted).physical, 2)
    opened.close()
    assert not opened.fresh
    assert opened.next_batch == BEFORE


def test_state_of_an_operator_in_another_version_is_refused(stored: Path) -> None:
    folder = Folder.at(str(stored / "checkpoint"))
    about = folder.read_json("query.json") or {}
    homes = about["layout"]["stages"]
    home = next(home for home in homes.values() if home["forms"][0]["operator"] == "TopKKernel")
    home["forms"][0]["version"] = 0
    folder.write_json("query.json", about)
    wanted = list(queries(ab.Engine(), stored, ends=True).values())
    with pytest.raises(PlanError) as refused:
        Checkpoint(str(stored / "checkpoint"), plan_queries(wanted).physical, 2)
    assert "the state of TopKKernel cannot be read" in refused.value.what
    assert "the checkpoint has version 0 of its format" in refused.value.what
    assert "start it with a new checkpoint" in refused.value.hint


@pytest.mark.spark
def test_the_stored_checkpoint_is_resumed_with_the_right_answers(
    first_engine: ab.Engine, stored: Path
) -> None:
    begun = {name: shown(log(stored, name)) for name in RIGHT}
    assert begun != RIGHT
    with ab.Engine(first_engine.spark) as engine:
        run(engine, stored, ends=True)
        run_later(engine, stored, LATER, ends=True)
    assert {name: shown(log(stored, name)) for name in RIGHT} == RIGHT
    for name in CHECKPOINTS:
        about = read_query_record(str(stored / name))
        assert about is not None
        assert about.shards == 2
    for name in RIGHT:
        assert len(LogFolder(str(stored / "out" / name)).entries()) > BEFORE


def log(folder: Path, name: str) -> ab.LogicalStream:
    return ab.LogicalStream.of_batches(LogFolder(str(folder / "out" / name)).read())


def test_corrections_are_told_as_they_end() -> None:
    row = {"k": "a", "v": 1, "x": 0.5}
    lines: Lines = [
        {"insert": row, "start": 1, "end": 9},
        {"adjust": row, "start": 1, "end": 9, "new_end": 4},
        {"stable": 4},
    ]
    assert shown(told([lines])) == [[["a", 1, 0.5], 1, 4]]
