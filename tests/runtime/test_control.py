"""Commands for running queries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from anabranch.algebra.source import Source
from anabranch.algebra.union import Union
from anabranch.errors import PlanError
from anabranch.kernels.contract.command import Command
from anabranch.model.batch import EventBatch
from anabranch.model.elements import Insert, Stable, batch_of
from anabranch.model.time import BEGINNING, Duration
from anabranch.runtime.elements.exchange import unpack
from anabranch.runtime.sources.files.planned_parts import CONTROL
from anabranch.runtime.sources.files.planner import FilePlanner
from anabranch.runtime.sources.spec import FileSource, Promise, Shape
from anabranch.runtime.store.control import Control, ControlFolder, command_of
from anabranch.runtime.store.folder import Folder
from anabranch.runtime.workers.source_task import send_commands

SCHEMA = pa.schema([("a", pa.int64())])
KNOWN = {"s": True, "frame": False}


@pytest.fixture
def control(tmp_path: Path) -> Control:
    return Control(ControlFolder(Folder.at(str(tmp_path / "control"))), KNOWN)


def planner(tmp_path: Path) -> FilePlanner:
    source = FileSource(
        promise=Promise(source="s", delay=Duration(0)),
        path=str(tmp_path / "rows"),
        form="json",
        schema=SCHEMA,
        stored=SCHEMA,
        shape=Shape(start="a"),
    )
    folder = ControlFolder(Folder.at(str(tmp_path / "control")))
    place = Folder.at(str(tmp_path / "plan"))
    return FilePlanner([source], place, 1, control=folder, others=["frame"])


def write(tmp_path: Path, name: str, rows: int = 10) -> None:
    (tmp_path / "rows").mkdir(exist_ok=True)
    (tmp_path / "rows" / name).write_text("".join(f'{{"a": {n}}}\n' for n in range(rows)))


def test_a_paused_source_waits_until_it_is_resumed(tmp_path: Path, control: Control) -> None:
    write(tmp_path, "0.json")
    control.pause("s")
    plan = planner(tmp_path)
    assert plan.latest(0) == 1
    [part] = plan.parts(0, 1)
    assert (part.number, part.commands) == (
        CONTROL,
        (Command(verb="pause", source="s"),),
    )
    assert plan.latest(1) == 1
    # Whoever comes after it knows.
    assert planner(tmp_path).latest(1) == 1
    control.resume("s")
    again = planner(tmp_path)
    assert again.latest(1) == 2
    assert {part.source for part in again.parts(1, 2)} == {"s", ""}


def test_a_base_remembers_commands(tmp_path: Path, control: Control) -> None:
    control.pause("s")
    control.limit("s", 3)
    plan = planner(tmp_path)
    assert plan.latest(0) == 1
    for number in range(1, 41):
        control.advance("s", number)
        assert plan.latest(number) == number + 1
        plan.commit(number + 1)
    # The base before the last one stays as long as entries behind it do.
    assert sum(name.startswith("base") for name in Folder.at(str(tmp_path / "plan")).names()) == 2
    write(tmp_path, "0.json")
    write(tmp_path, "1.json")
    assert planner(tmp_path).latest(41) == 41
    control.resume("s")
    plan = planner(tmp_path)
    assert plan.latest(41) == 42
    assert plan.latest(42) == 43


def test_a_command_that_is_planned_is_not_taken_twice(tmp_path: Path, control: Control) -> None:
    control.advance("s", 5)
    [name] = control.folder.waiting()
    file = tmp_path / "control" / f"{name}.json"
    content = file.read_bytes()
    assert planner(tmp_path).latest(0) == 1
    assert control.folder.waiting() == []
    # The planner died before it could take the file away.
    file.write_bytes(content)
    assert planner(tmp_path).latest(1) == 1


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ([], "not a command"),
        ({"verb": "advanse", "source": "s", "value": 1}, "unknown command 'advanse'"),
        ({"verb": "pause", "source": "t"}, "the query has no source 't'"),
        ({"verb": "pause", "source": "frame"}, "source 'frame' is a DataFrame"),
        ({"verb": "advance", "source": "s"}, "'advance' needs a value"),
        ({"verb": "pause", "source": "s", "value": 1}, "'pause' takes no value"),
        ({"verb": "limit", "source": "s", "value": 0}, "a batch cannot have 0 rows"),
        ({"verb": "limit", "source": "s", "value": "__import__"}, "is not a whole number"),
        ({"verb": "advance", "source": "s", "value": True}, "is not a whole number"),
        ({"verb": "advance", "source": "s", "value": 1 << 70}, "is not an instant"),
    ],
)
def test_what_makes_no_sense_is_put_aside_and_said(
    tmp_path: Path, control: Control, content: Any, what: str
) -> None:
    with pytest.raises(PlanError, match=what):
        command_of(content, KNOWN)
    Folder.at(str(tmp_path / "control")).write_json("0.json", content)
    assert planner(tmp_path).latest(0) == 0
    [note] = control.folder.notes()
    assert note.status == "refused"
    assert what in note.why


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ({"verb": "detach", "source": "many", "copy": "ab"}, "no copy 'ab'"),
        ({"verb": "detach", "source": "many"}, "needs the name of a copy of 'many'"),
        ({"verb": "detach", "source": "many", "copy": "aa", "value": 1}, "takes no value"),
        ({"verb": "attach", "source": "s", "copy": "aa"}, "source 's' has no copies"),
        ({"verb": "pause", "source": "many", "copy": "aa"}, "not for a copy of it"),
        ({"verb": "advance", "source": "many", "value": 1}, "source 'many' has copies"),
        ({"verb": "attach", "source": "many", "copy": "aa", "value": 1 << 70}, "is not an instant"),
    ],
)
def test_commands_for_copies_name_one_that_there_is(content: Any, what: str) -> None:
    known, copies = {**KNOWN, "many": True}, {"many": ["aa", "bb"]}
    with pytest.raises(PlanError, match=what) as raised:
        command_of(content, known, copies)
    assert raised.value.hint
    for verb in ("attach", "detach", "rejoin"):
        good = command_of({"verb": verb, "source": "many", "copy": "aa"}, known, copies)
        assert str(good) == f"{verb} many copy aa"
        # Where sources are the inputs of a merge, they need no copy.
        assert command_of({"verb": verb, "source": "s"}, known, copies).copy is None


def test_a_file_that_is_no_json_is_put_aside(tmp_path: Path, control: Control) -> None:
    (tmp_path / "control").mkdir()
    (tmp_path / "control" / "x.json").write_bytes(b"\xff{")
    assert planner(tmp_path).latest(0) == 0
    assert [note.status for note in control.folder.notes()] == ["refused"]


def test_all_shards_of_all_stages_hear_of_it(sharded: Callable[..., Any]) -> None:
    one, other = (Source(name=name, schema=SCHEMA) for name in ("one", "other"))
    runner = sharded(Union(inputs=(one, other)), shards=3)
    command = Command(verb="advance", source="other", value=7)
    parcels = [
        each for rows in send_commands(runner.job, CONTROL, [command]) for each in unpack(rows)
    ]
    assert sorted((each.target, each.shard) for each in parcels) == [(0, 0), (0, 1), (0, 2)]
    came = [batch_of([Insert({"a": 1}, 1, 2), Stable(9)], SCHEMA)]
    assert runner.step({"one": came}).stable == BEGINNING
    nothing = [EventBatch.empty(SCHEMA)]
    assert runner.step({"one": nothing}, commands=[command]).stable == 7
    # It does not go back.
    assert runner.step({"one": nothing}, commands=[replace(command, value=3)]).stable == 7
    assert runner.step({"one": nothing}).stable == 7


@pytest.mark.parametrize("verb", ["attach", "detach", "rejoin"])
def test_only_inputs_of_a_merge_come_and_go(verb: str) -> None:
    known = {"s": True, "many": True}
    content = {"verb": verb, "source": "s"}
    with pytest.raises(PlanError, match="the query has no merge"):
        command_of(content, known, {}, inputs=())
    with pytest.raises(PlanError, match="no merge of the query has an input 's'") as raised:
        command_of(content, known, {}, inputs=("left", "right"))
    assert raised.value.hint == "there are left, right"
    # An input may be a query with a name, which is no source.
    assert command_of({"verb": verb, "source": "left"}, known, {}, ("left", "right")).source
    copy = {"verb": verb, "source": "many", "copy": "a"}
    assert command_of(copy, known, {"many": ["a"]}, inputs=()).copy == "a"
    # Of a checkpoint of an earlier version nobody knows.
    assert command_of(content, known, {}).source == "s"
