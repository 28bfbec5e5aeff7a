"""Whether a row is late is a matter of its position, not of how the source is cut."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.runtime.conftest import ShardedRunner
from tests.runtime.copies import append_log, copies_source, shown_plan
from tests.runtime.late_sources import (
    FORMS,
    Effect,
    Outcome,
    effect_of,
    expected,
    files,
    leaf,
    moves_of,
    promise_of,
    write_file,
    write_source,
)

import anabranch as ab
from anabranch.errors import StreamError
from anabranch.kernels.plan.compile import compile_plan
from anabranch.model.elements import Element, Insert, Stable
from anabranch.runtime.query.local import run_locally
from anabranch.runtime.sinks.sinks import MemorySink
from anabranch.runtime.sources.files import earlier_parts
from anabranch.runtime.sources.files import reader as file_reader
from anabranch.runtime.sources.spec import FileSource, Limits
from anabranch.runtime.store.folder import Folder
from anabranch.runtime.thresholds import thresholds
from anabranch.runtime.workers.file_task import FileJob
from anabranch.runtime.workers.job import seal, unseal

INDEPENDENT = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def rows(folder: Path, *content: Sequence[int]) -> Path:
    folder.mkdir()
    for number, times in enumerate(content):
        text = "".join(json.dumps({"t": time}) + "\n" for time in times)
        (folder / f"{number}.jsonl").write_text(text)
    return folder


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_declared_delay_counts_between_rows_not_between_batches(
    tmp_path: Path, count: int
) -> None:
    folder = rows(tmp_path / "in", [5], [2, 9], [7])
    run = ab.Engine().stream(folder, start="t", delay=1, max_files_per_batch=count).run_local()
    assert [row["t"] for row in run.table().to_pylist() if row["kind"] == "insert"] == [5, 9]
    assert sum(batch["late"] for batch in run.metrics()) == 2
    assert run.stable == 8


class Cut:
    """A source cut into batches and parts and read as Spark does, with restarts in between."""

    def __init__(self, source: FileSource, folder: Path, *, parts: int, shards: int) -> None:
        promises = {"s": source.promise}
        self._runner = ShardedRunner(leaf(source), folder, promises=promises, shards=shards)
        self._files = FileJob(
            sources=(source,),
            plan_folder=str(folder / "plan"),
            parts=parts,
            least=1,
            job=seal(self._runner.job),
        )

    def run(self, restarts: Sequence[bool] = (), *, backwards: bool = False) -> Outcome:
        """Read everything; before some batches all is lost but what is written down."""
        planner = self._files.planner()
        moves: list[tuple[int, int, int]] = []
        late, adjusted, stable = 0, 0, 0
        while planner.latest(self._runner.batch) > (batch := self._runner.batch):
            parts = planner.parts(batch, batch + 1)
            sent = [
                row
                for part in (reversed(parts) if backwards else parts)
                for row in self._files.send(part, batch, self._runner.job)
            ]
            if restarts[batch : batch + 1] == [True]:
                self._runner.attempt({}, until=batch % 2, sent=sent)
                planner = self._files.planner()
                continue_with = planner.parts(batch, batch + 1)
                sent = [
                    row
                    for part in continue_with
                    for row in self._files.send(part, batch, self._runner.job)
                ]
            output = self._runner.step({}, sent=sent)
            planner.commit(batch + 1)
            moves += moves_of(output)
            (counted,) = [
                each.sources["s"] for each in self._runner.heads[0].counters if each.sources
            ]
            late, adjusted = late + counted.late, adjusted + counted.adjusted
            stable = int(output.stable)
        return Outcome(effect_of(moves), late, adjusted, stable)


def locally(source: FileSource) -> Outcome:
    sink = MemorySink()
    run = run_locally(compile_plan(leaf(source)), [source], sink)
    moves = [move for batch in sink.batches() for move in moves_of(batch)]
    late, adjusted = (sum(each[key] for each in run.metrics()) for key in ("late", "adjusted"))
    return Outcome(effect_of(moves), late, adjusted, int(run.stable))


@pytest.mark.parametrize("form", FORMS)
@given(data=st.data())
@INDEPENDENT
def test_answers_do_not_depend_on_batches_parts_chunks_and_restarts(
    form: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    content = data.draw(files(form), label="files")
    delay = data.draw(st.sampled_from([0, 1, 3, 8]) | st.none(), label="delay")
    late = data.draw(st.sampled_from(["drop", "adjust"]), label="late")
    folder = tmp_path_factory.mktemp("late")
    source = write_source(
        folder / "in",
        form,
        content,
        promise_of(delay, late),  # type: ignore[arg-type]
        Limits(None),
        group=data.draw(st.integers(1, 3), label="rows in a row group"),
    )
    if not any(content):
        return
    right = expected([each for one in content for each in one], delay, late)  # type: ignore[arg-type]
    for number in range(3):
        limits = Limits(
            data.draw(st.none() | st.integers(1, 4), label="rows per batch"),
            data.draw(st.none() | st.integers(1, 3), label="files per batch"),
        )
        one = replace(source, limits=limits)
        pieces, messages = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
        with thresholds(CHUNK_ROWS=pieces, PREPARE_FROM_ROWS=messages, BLOCK_BYTES=40):
            assert _shown(locally(one)) == _shown(right)
            cut = Cut(one, folder / str(number), parts=data.draw(st.integers(1, 4)), shards=2)
            restarts = data.draw(st.lists(st.booleans(), max_size=6), label="restarts")
            found = cut.run(restarts, backwards=data.draw(st.booleans()))
            assert _shown(found) == _shown(right)


def _shown(outcome: Outcome) -> tuple[Effect, int, int, int]:
    return outcome.effect, outcome.late, outcome.adjusted, outcome.stable


@given(data=st.data(), parts=st.integers(1, 4), per_batch=st.integers(1, 4))
@INDEPENDENT
def test_a_query_fails_for_a_late_row_wherever_it_is_cut(
    data: st.DataObject, parts: int, per_batch: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("late")
    content = data.draw(files("lines"))
    if not any(content):
        return
    source = write_source(
        folder / "in", "lines", content, promise_of(3, "fail"), Limits(None, per_batch)
    )
    right = expected([each for one in content for each in one], 3, "drop")
    cut = Cut(source, folder / "cut", parts=parts, shards=2)
    for run in (partial(locally, source), cut.run):
        if right.late:
            with pytest.raises(StreamError, match="too late"):
                run()
        else:
            assert run() == right


def point(time: int) -> Element:
    return Insert({"a": 1}, time, time + 1)


def test_notes_of_earlier_parts_are_read_instead_of_files_and_go_with_old_batches(
    tmp_path: Path,
) -> None:
    content = [[point(number)] for number in range(44)]
    source = write_source(tmp_path / "in", "json", content, promise_of(0, "drop"), Limits(None, 2))
    looks: list[str] = []

    def counted(one: FileSource, split: Any) -> Any:
        looks.append(split.path)
        return file_reader.read_times(one, split)

    with patch.object(earlier_parts, "read_times", counted):
        Cut(source, tmp_path / "cut", parts=2, shards=1).run([True] * 44)
    assert len(looks) == len(set(looks)) == 22
    notes = Folder.at(str(tmp_path / "cut" / "plan" / "promises")).names()
    assert sorted(int(name.partition("-")[0]) for name in notes) == [21, 22]


def test_statistics_of_parquet_are_enough_and_no_file_is_read_twice(tmp_path: Path) -> None:
    content = [[point(9), point(3)], [point(5), point(12)], [point(11)]]
    source = write_source(
        tmp_path / "in", "parquet", content, promise_of(2, "drop"), Limits(None), group=1
    )

    def refuse(one: FileSource, split: Any) -> Any:
        raise AssertionError

    with patch.object(earlier_parts, "read_times", refuse):
        found = Cut(source, tmp_path / "cut", parts=5, shards=2).run()
    assert found == expected([each for one in content for each in one], 2, "drop")
    assert found.late == 2


def test_a_stable_point_counts_for_the_files_behind_its_own(tmp_path: Path) -> None:
    content: list[list[Element]] = [[point(1), Stable(5)], [point(4)], [point(6), Stable(7)]]
    for form in ("lines", "elements"):
        source = write_source(
            tmp_path / form / "in", form, content, promise_of(None, "drop"), Limits(None)
        )
        found = Cut(source, tmp_path / form / "cut", parts=3, shards=2).run()
        assert (found.late, found.stable) == (1, 7)


def test_elements_without_adjusts_need_no_column_for_them(tmp_path: Path) -> None:
    content: list[list[Element]] = [[point(1), Stable(5)], [point(4)]]
    source = write_source(
        tmp_path / "in", "elements", content, promise_of(None, "drop"), Limits(None)
    )
    for file in (tmp_path / "in").iterdir():
        pq.write_table(pq.read_table(file).drop_columns(["new_end"]), file, row_group_size=1)
    assert Cut(source, tmp_path / "cut", parts=3, shards=2).run().late == 1


@given(data=st.data(), delay=st.sampled_from([None, 0, 2]), rows=st.none() | st.integers(1, 3))
@INDEPENDENT
def test_the_batches_of_a_log_promise_something_behind_their_rows(
    data: st.DataObject,
    delay: int | None,
    rows: int | None,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("log")
    # What a batch of a log promises stands behind it, wherever it stood among the elements.
    content = [
        sorted(one, key=lambda each: isinstance(each, Stable))
        for one in data.draw(files("elements"))
    ]
    for one in content:
        append_log(folder / "in", one)
    source = replace(copies_source(folder / "in", rows=rows), form="log")
    source = replace(source, promise=promise_of(delay, "drop"))
    if not any(content):
        return
    right = expected([each for one in content for each in one], delay, "drop")
    cut = Cut(source, folder / "cut", parts=data.draw(st.integers(1, 4)), shards=2)
    with thresholds(CHUNK_ROWS=1, PREPARE_FROM_ROWS=data.draw(st.integers(1, 2))):
        assert locally(source) == right
        assert cut.run(data.draw(st.lists(st.booleans(), max_size=4))) == right


@given(data=st.data(), rows=st.none() | st.integers(1, 4), parts=st.integers(1, 3))
@INDEPENDENT
def test_copies_are_late_by_their_own_positions(
    data: st.DataObject,
    rows: int | None,
    parts: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("copies")
    content = data.draw(files("lines"))
    (folder / "in").mkdir()
    for number, one in enumerate(content):
        write_file(folder / "in" / str(number), "lines", one, group=1)
    source = copies_source(folder / "in", rows=rows)
    runner = ShardedRunner(shown_plan([]), folder, promises={"s": source.promise}, shards=2)
    job = FileJob(
        sources=(source,),
        plan_folder=str(folder / "plan"),
        parts=parts,
        least=1,
        job=seal(runner.job),
    )
    moves: list[tuple[int, int, int]] = []
    late = 0
    with thresholds(PREPARE_FROM_ROWS=1):
        while (planner := job.planner()).latest(batch := runner.batch) > batch:
            work = planner.parts(batch, batch + 1)
            moves += moves_of(
                runner.step(
                    {},
                    sent=[row for one in work for row in job.send(one, batch, unseal(job.job, ""))],
                )
            )
            every = [each.sources.get("s") for each in runner.heads[0].counters]
            late += sum(each.late for each in every if each is not None)
    right = [expected(one, None, "drop") for one in content]
    assert late == sum(one.late for one in right)
    assert effect_of(moves) == _added(one.effect for one in right)


def _added(effects: Iterable[Effect]) -> Effect:
    total: Counter[tuple[int, int]] = Counter()
    for effect in effects:
        total.update(effect)
    return {key: count for key, count in total.items() if count}
