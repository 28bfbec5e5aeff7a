"""Copies of a stream on their way from files to the operator that reads them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.runtime.copies import SCHEMA, append_lines, append_log, copies_source, point, shown_plan

from anabranch.algebra.distinct import Distinct
from anabranch.algebra.filter import Filter
from anabranch.algebra.source import Source
from anabranch.algebra.union import Union
from anabranch.errors import PlanError, StreamError
from anabranch.expressions.expression import Expression
from anabranch.kernels.contract.column_names import COPY
from anabranch.kernels.contract.command import Command, Verb
from anabranch.kernels.contract.kernel import Progress
from anabranch.kernels.plan.compile import compile_plan
from anabranch.model.batch import EventBatch
from anabranch.model.elements import Element, Insert, Stable
from anabranch.model.record import plain
from anabranch.model.time import BEGINNING, FOREVER
from anabranch.runtime.query.committing import Committed
from anabranch.runtime.query.local import run_locally
from anabranch.runtime.query.metrics import BatchMetrics, batch_metrics
from anabranch.runtime.query.prometheus import QueryCollector
from anabranch.runtime.query.run import Run
from anabranch.runtime.sinks.sinks import MemorySink, ShardResult
from anabranch.runtime.sources.files.log_folder import LogFolder
from anabranch.runtime.sources.files.planned_batch import copy_names
from anabranch.runtime.sources.files.reader import read_split
from anabranch.runtime.store.control import Control, ControlFolder
from anabranch.runtime.store.folder import Folder
from anabranch.runtime.workers.file_task import FileJob
from anabranch.runtime.workers.job import seal

Make = Callable[..., Any]


class Copies:
    """Files, a planner, senders and a stage that shows what reaches it."""

    def __init__(self, sharded: Make, folder: Path, **options: Any) -> None:
        self.places = folder / "in"
        self.places.mkdir(parents=True)
        self.seen: list[Progress] = []
        rows = options.pop("rows", None)
        source = copies_source(self.places, rows=rows, **options)
        self.runner = sharded(
            shown_plan(self.seen), folder=folder, promises={"s": source.promise}, shards=2
        )
        self.files = FileJob(
            sources=(source,),
            plan_folder=str(folder / "plan"),
            parts=2,
            least=1,
            job=seal(self.runner.job),
            control=str(folder / "control"),
        )
        self.control = ControlFolder(Folder.at(str(folder / "control")))
        self._planner = self.files.planner()

    def step(self) -> dict[int, list[int]] | None:
        """One batch, if there is anything new: the values that came, per copy."""
        batch = self.runner.batch
        if self._planner.latest(batch) == batch:
            return None
        parts = self._planner.parts(batch, batch + 1)
        sent = [row for part in parts for row in self.files.send(part, batch, self.runner.job)]
        output = self.runner.step({}, sent=sent)
        return by_copy(output)

    def restart(self) -> None:
        self._planner = self.files.planner()

    @property
    def promised(self) -> dict[str, int]:
        """What copies have promised, as the operator knows it, in every shard."""
        first, second = self.seen[-2:]
        assert first == second
        return {name: int(stable) for name, stable in first.copies.values()}

    def batch(self) -> BatchMetrics:
        return batch_metrics(0, [ShardResult(0, head, None) for head in self.runner.heads])

    def metrics(self) -> dict[str, Any]:
        found: dict[str, Any] = plain(self.batch())["sources"]["s"]["copies"]
        return found


def by_copy(output: EventBatch) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    rows = zip(output.payload[COPY].to_pylist(), output.payload["a"].to_pylist())
    for copy, value in rows:
        found.setdefault(copy, []).append(value)
    return found


@pytest.fixture
def copies(sharded: Make, tmp_path: Path) -> Copies:
    return Copies(sharded, tmp_path / "it")


def test_rows_come_with_their_copy_and_copies_with_their_promises(copies: Copies) -> None:
    append_log(copies.places / "a", [point(1), point(2), Stable(3)])
    append_lines(copies.places / "b.jsonl", [point(1), Stable(2), point(2)])
    assert copies.step() == {0: [1, 2], 1: [1, 2]}
    assert copies.promised == {"a": 3, "b.jsonl": 2}
    assert copies.seen[-1].sides == (3,)
    append_lines(copies.places / "b.jsonl", [point(3), Stable(9)])
    assert copies.step() == {1: [3]}
    assert copies.promised == {"a": 3, "b.jsonl": 9}
    # All of them are told, whatever comes.
    append_log(copies.places / "c", [Stable(1)])
    copies.restart()
    assert copies.step() == {}
    assert copies.promised == {"a": 3, "b.jsonl": 9, "c": 1}
    assert copies.seen[-1].sides == (9,)
    assert copies.step() is None


def test_metrics_tell_of_every_copy_and_what_operators_noticed(copies: Copies) -> None:
    append_log(copies.places / "a", [point(1), Stable(3)])
    append_log(copies.places / "b", [point(1), Stable(2)])
    copies.step()
    append_log(copies.places / "a", [point(4), Stable(5)])
    shutil.rmtree(copies.places / "b")
    copies.step()
    batch = {**plain(copies.batch()), "milliseconds": {}}
    said = [{"shard": shard, "inputs": 2} for shard in range(2)]
    assert batch["stages"]["0-shown"]["reports"] == said
    nothing = {"rows": 0, "late": 0, "adjusted": 0}
    assert batch["sources"]["s"]["copies"] == {
        "a": {"rows": 1, "late": 0, "adjusted": 0, "reached": 5},
        "b": {**nothing, "reached": 2, "problem": "it no longer exists"},
    }
    known = Committed()
    known.add(copies.batch())
    run = SimpleNamespace(
        name="q",
        metrics=lambda: [batch],
        totals=plain(known.totals),
        status="running",
        execution=SimpleNamespace(checkpoint="nowhere"),
    )
    found = {
        (sample.name, sample.labels["copy"]): sample.value
        for family in QueryCollector(lambda: [cast(Run, run)]).collect()
        for sample in family.samples
        if "copy" in sample.labels
    }
    assert found == {
        ("anabranch_copy_rows_total", "a"): 1,
        ("anabranch_copy_rows_total", "b"): 0,
        ("anabranch_copy_late_total", "a"): 0,
        ("anabranch_copy_late_total", "b"): 0,
        ("anabranch_copy_stable", "a"): 5,
        ("anabranch_copy_stable", "b"): 2,
        ("anabranch_copy_up", "a"): 1,
        ("anabranch_copy_up", "b"): 0,
    }


def test_rows_are_late_by_the_promises_of_their_own_copy(copies: Copies) -> None:
    append_log(copies.places / "a", [point(8), Stable(9)])
    append_log(copies.places / "b", [point(1), Stable(2)])
    copies.step()
    append_log(copies.places / "a", [point(3), point(9)])
    append_log(copies.places / "b", [point(1), point(3), Stable(4)])
    append_log(copies.places / "b", [point(3), point(4)])
    assert copies.step() == {0: [9], 1: [3, 4]}
    own = copies.metrics()
    assert own["a"] == {"rows": 2, "late": 1, "adjusted": 0, "reached": 9}
    assert own["b"] == {"rows": 4, "late": 2, "adjusted": 0, "reached": 4}


def test_late_rows_can_stop_the_query(sharded: Make, tmp_path: Path) -> None:
    copies = Copies(sharded, tmp_path / "it", late="fail")
    append_log(copies.places / "a", [Stable(9)])
    append_log(copies.places / "a", [point(3)])
    with pytest.raises(StreamError, match="too late"):
        copies.step()


def test_a_copy_that_begins_again_has_promised_nothing(copies: Copies) -> None:
    append_log(copies.places / "a", [point(1), Stable(FOREVER)])
    append_log(copies.places / "b", [point(1), Stable(2)])
    copies.step()
    shutil.rmtree(copies.places / "a")
    append_log(copies.places / "a", [point(1), Stable(1)], query="another")
    assert copies.step() == {0: [1]}
    assert copies.promised == {"a": 1, "b": 2}
    assert copies.seen[-1].commands == (Command(verb="attach", source="a"),)


def test_what_cannot_be_read_ends_a_copy_until_it_is_whole(copies: Copies) -> None:
    append_log(copies.places / "a", [point(1), Stable(2)])
    append_log(copies.places / "a", [point(2), Stable(3)])
    append_log(copies.places / "a", [point(3), Stable(4)])
    append_lines(copies.places / "b.jsonl", [point(1)])
    broken = copies.places / "a" / "part-000001-000.parquet"
    content = broken.read_bytes()
    broken.write_bytes(content[:-9])
    # What it had said before counts, what it says after that does not.
    assert copies.step() == {0: [1], 1: [1]}
    assert copies.promised == {"a": 2, "b.jsonl": BEGINNING}
    assert "cannot read the file" in copies.metrics()["a"]["problem"]
    append_log(copies.places / "a", [point(4), Stable(5)])
    append_lines(copies.places / "b.jsonl", [point(2)])
    assert copies.step() == {1: [2]}
    assert "cannot read the file" in copies.metrics()["a"]["problem"]
    copies.restart()
    assert copies.step() is None
    broken.write_bytes(content)
    assert copies.step() == {0: [1, 2, 3, 4]}
    assert copies.promised["a"] == 5
    assert "problem" not in copies.metrics()["a"]
    assert copies.seen[-1].commands == (Command(verb="attach", source="a"),)
    assert copies.step() is None


@pytest.mark.parametrize("verb", ["attach", "rejoin"])
def test_a_copy_leaves_and_comes_back(copies: Copies, tmp_path: Path, verb: Verb) -> None:
    planned = Folder.at(str(tmp_path / "it" / "plan"))
    control = Control(copies.control, {"s": True}, partial(copy_names, planned, ["s"]))
    with pytest.raises(PlanError, match="no copy 'a'") as refused:
        control.detach("s", "a")
    assert refused.value.hint == "there are none yet"
    for name in "ab":
        append_log(copies.places / name, [point(1), Stable(2)])
    copies.step()
    control.detach("s", "a")
    for name in "ab":
        append_log(copies.places / name, [point(2), Stable(3)])
    assert copies.step() == {1: [2]}
    assert copies.seen[-1].commands == (Command(verb="detach", source="a"),)
    assert copies.promised == {"a": 2, "b": 3}
    copies.restart()
    append_log(copies.places / "a", [point(3), Stable(4)])
    assert copies.step() is None
    # What it said is forgotten, so it says everything again.
    if verb == "attach":
        control.attach("s", "a", since=2)
    else:
        control.rejoin("s", "a")
    assert copies.step() == {0: [1, 2, 3]}
    value = 2 if verb == "attach" else None
    assert copies.seen[-1].commands == (Command(verb=verb, source="a", value=value),)
    assert copies.promised == {"a": 4, "b": 3}
    copies.restart()
    assert copies.step() is None
    append_log(copies.places / "a", [point(4)])
    assert copies.step() == {0: [4]}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=st.data(),
    rows=st.one_of(st.none(), st.integers(1, 5)),
)
def test_each_copy_arrives_as_it_was_written(
    sharded: Make, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, rows: int | None
) -> None:
    copies = Copies(sharded, tmp_path_factory.mktemp("it"), rows=rows)
    written: dict[str, list[Element]] = {}
    arrived: dict[str, list[int]] = {}

    def drain() -> None:
        while (came := copies.step()) is not None:
            names = {number: name for number, (name, _) in copies.seen[-1].copies.items()}
            for number, values in came.items():
                arrived.setdefault(names[number], []).extend(values)

    for _ in range(data.draw(st.integers(1, 4))):
        name = data.draw(st.sampled_from(["a", "b", "c.jsonl", "d.jsonl"]))
        before = written.setdefault(name, [])
        low = max((int(e.time) for e in before if isinstance(e, Stable)), default=0)
        drawn = data.draw(st.lists(st.integers(1, 9), max_size=5))
        # All start at one time, so that nothing but the order of their arrival can order them.
        said: list[Element] = [point(value, start=1000) for value in drawn]
        said += [Stable(low + data.draw(st.integers(1, 5)))] if data.draw(st.booleans()) else []
        before += said
        (append_lines if name.endswith("jsonl") else append_log)(copies.places / name, said)
        if data.draw(st.booleans()):
            copies.restart()
        if data.draw(st.booleans()):
            drain()
    drain()
    assert {name: arrived.get(name, []) for name in written} == {
        name: [dict(e.payload)["a"] for e in elements if isinstance(e, Insert)]
        for name, elements in written.items()
    }
    stables = {
        name: max((int(e.time) for e in elements if isinstance(e, Stable)), default=BEGINNING)
        for name, elements in written.items()
    }
    assert copies.promised == stables


def test_without_spark_copies_arrive_as_well(tmp_path: Path) -> None:
    seen: list[Progress] = []
    append_log(tmp_path / "a", [point(1), point(2), Stable(3)], about={"since": 1})
    append_lines(tmp_path / "b.jsonl", [point(1), Stable(2), point(1), point(2)])
    source = copies_source(tmp_path, rows=2)
    run = run_locally(shown_plan(seen), [source], MemorySink())
    rows = [row for row in run.table().to_pylist() if row["kind"] == "insert"]
    assert sorted((row[COPY], row["a"]) for row in rows) == [(0, 1), (0, 2), (1, 1), (1, 2)]
    assert dict(seen[-1].copies) == {0: ("a", 3), 1: ("b.jsonl", 2)}
    assert seen[0].commands == (Command(verb="attach", source="a", value=1),)
    assert sum(batch["late"] for batch in run.metrics()) == 1


def test_only_a_merge_reads_copies() -> None:
    source = Source(name="s", schema=SCHEMA, copies=True)
    other = Source(name="t", schema=SCHEMA)
    filtered = Filter(input=source, predicate=Expression.parse("a > 1", SCHEMA))
    for node in (source, filtered, Union(inputs=(source, other)), Distinct(input=source)):
        with pytest.raises(PlanError, match="'s' is several copies"):
            compile_plan(node)


def test_a_copy_that_lacks_a_batch_is_said_once_and_causes_no_batches(copies: Copies) -> None:
    append_log(copies.places / "a", [point(1), Stable(3)])
    append_log(copies.places / "a", [point(4), Stable(6)])
    append_log(copies.places / "a", [point(7), Stable(9)])
    append_log(copies.places / "b", [point(1), Stable(3)])
    (copies.places / "a" / "_log" / "1.json").unlink()
    assert copies.step() == {0: [1], 1: [1]}
    assert "batch 1 of the log was removed" in copies.metrics()["a"]["problem"]
    for _ in range(3):
        assert copies.step() is None
    copies.restart()
    assert copies.step() is None
    append_log(copies.places / "b", [point(4), Stable(6)])
    assert copies.step() == {1: [4]}
    assert "batch 1 of the log was removed" in copies.metrics()["a"]["problem"]
    assert copies.step() is None


def test_a_copy_that_cannot_be_read_is_tried_again_when_it_has_changed(
    copies: Copies, monkeypatch: pytest.MonkeyPatch
) -> None:
    append_log(copies.places / "a", [point(1), Stable(3)])
    [part] = list((copies.places / "a").glob("*.parquet"))
    whole = part.read_bytes()
    part.write_bytes(whole[:-9])
    assert copies.step() == {}
    tries: list[str] = []

    def counted(source: Any, split: Any, columns: Any) -> Any:
        tries.append(split.path)
        return read_split(source, split, columns)

    monkeypatch.setattr("anabranch.runtime.sources.files.copy_book.read_split", counted)
    for _ in range(5):
        copies.step()
    assert tries == [str(part)]
    part.write_bytes(whole)
    assert copies.step() == {0: [1]}
    assert "problem" not in copies.metrics()["a"]


def test_a_copy_that_was_begun_anew_from_another_one_is_read_from_its_beginning(
    copies: Copies,
) -> None:
    for number in range(3):
        append_log(copies.places / "a", [point(3 * number + 1), Stable(3 * number + 3)])
    assert copies.step() == {0: [1, 4, 7]}
    about = LogFolder(str(copies.places / "a")).record()
    assert about is not None
    shutil.rmtree(copies.places / "a")
    # The same query, and more batches than were read of its predecessor.
    again = LogFolder(str(copies.places / "a"))
    again.create(SCHEMA, query=about.query, clock=about.clock, since=20, made="again")
    again.commit(7, 20, [])
    assert copies.step() == {}
    assert copies.promised == {"a": 20}


def test_a_copy_that_goes_on_from_an_older_checkpoint_is_read_from_its_beginning(
    copies: Copies,
) -> None:
    for number in range(3):
        append_log(copies.places / "a", [point(3 * number + 1), Stable(3 * number + 3)])
    append_log(copies.places / "b", [point(1), Stable(3)])
    assert copies.step() == {0: [1, 4, 7], 1: [1]}
    log = LogFolder(str(copies.places / "a"))
    # The batch that comes again is the last one: nothing has changed.
    log.rewind(3)
    assert copies.step() is None
    log.rewind(1)
    log.rewind(1)
    append_log(copies.places / "a", [point(4), point(7), point(10), Stable(12)])
    assert copies.step() == {0: [1, 4, 7, 10]}
    assert copies.seen[-1].commands == (Command(verb="attach", source="a"),)
    assert copies.promised == {"a": 12, "b": 3}
